//! Arbitrary damage to the bits of a mapped file: the keys that are in it are found all the same.

#![no_main]

use bloomgate::{AnyFilter, OpenOptions};
use libfuzzer_sys::fuzz_target;

/// 200 keys, `key-0` to `key-199`.
const GOOD: &[u8] = include_bytes!("../../crates/bloomgate/tests/golden/classic.bloom");

// Each three bytes of the input: where, and what to add there.
fuzz_target!(|data: &[u8]| {
    let mut bytes = GOOD.to_vec();
    for &[low, high, change] in data.as_chunks::<3>().0 {
        let at = usize::from(u16::from_le_bytes([low, high])) % bytes.len();
        bytes[at] ^= change;
    }
    if data.len() % 3 == 1 {
        bytes.truncate(bytes.len() - usize::from(data[data.len() - 1]));
    }
    let changed = bytes != GOOD;
    assert_eq!(AnyFilter::from_bytes(&bytes).is_err(), changed, "a change is an error when it is loaded");
    let Ok(mapped) = AnyFilter::map_bytes(&bytes, &OpenOptions::new()) else { return };
    for i in 0..200 {
        assert!(mapped.contains(&format!("key-{i}")).unwrap(), "a wrong no");
    }
    assert_eq!(mapped.verify_all(|_, _| ()).is_err(), changed);
});
