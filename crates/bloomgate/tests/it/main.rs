//! One test binary for the whole library, seen from outside.

mod keys;
mod kinds;
mod promise;
