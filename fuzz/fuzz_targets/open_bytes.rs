//! Arbitrary bytes opened as a filter: refused, or a filter that round-trips and answers alike in every place.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

fuzz_target!(|data: &[u8]| check::file(data));
