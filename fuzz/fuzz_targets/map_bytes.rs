//! Arbitrary damage to the bits of a mapped file, of every kind: the keys that are in it are found all the same.
//!
//! The first byte chooses a file; then three bytes each: where, and what to add there.

#![no_main]

use bloomgate::{AnyFilter, OpenOptions};
use libfuzzer_sys::fuzz_target;

macro_rules! golden {
    ($($name:literal $keys:literal),*) => {
        &[$((include_bytes!(concat!("../../crates/bloomgate/tests/golden/", $name, ".bloom")), $keys)),*]
    };
}

/// Files with the keys `key-0` and so on.
const GOOD: &[(&[u8], u64)] = golden![
    "classic" 200,
    "blocked" 1000,
    "counting-4" 100,
    "scalable" 400,
    "rotating" 240,
    "stable" 100,
    "cuckoo" 200,
    "growing-cuckoo" 250,
    "quotient" 200,
    "fuse" 200,
    "ribbon" 2000,
    "bfv1" 100,
    "redisbloom" 80,
    "rediscuckoo" 100,
    "guava" 100,
    "parquet" 100
];

fuzz_target!(|data: &[u8]| {
    let Some((&which, changes)) = data.split_first() else { return };
    let (good, keys) = GOOD[usize::from(which) % GOOD.len()];
    let mut bytes = good.to_vec();
    for &[low, high, change] in changes.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
        bytes[at] ^= change;
    }
    if changes.len() % 3 == 1 {
        bytes.truncate(bytes.len() - usize::from(changes[changes.len() - 1]));
    }
    let changed = bytes != good;
    assert_eq!(AnyFilter::from_bytes(&bytes).is_err(), changed, "a change is an error when it is loaded");
    let Ok(mapped) = AnyFilter::map_bytes(&bytes, &OpenOptions::new()) else { return };
    for i in 0..keys {
        assert!(mapped.contains(&format!("key-{i}")).unwrap(), "a wrong no");
    }
    assert_eq!(mapped.verify_all(|_, _| ()).is_err(), changed);
});
