//! One test binary for the whole library, seen from outside.

mod adversary;
mod any_shared;
mod bounds;
mod concurrent;
mod counting;
mod delta;
mod file;
mod file_damage;
mod golden;
mod golden_digests;
mod images;
mod in_place;
mod keys;
mod kinds;
mod load_threads;
mod outcomes;
mod promise;
mod scalable;
mod scalable_sets;
mod sizes;
mod structured_keys;
