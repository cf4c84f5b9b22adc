//! One test binary for the whole library, seen from outside.

mod golden_digests;
mod file;
mod file_damage;
mod golden;
mod promise;
