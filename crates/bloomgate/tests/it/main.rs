//! One test binary for the whole library, seen from outside.

mod file;
mod file_damage;
mod golden;
mod promise;
