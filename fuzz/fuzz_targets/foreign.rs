//! Arbitrary bytes to every decoder of a foreign form: refused, or a filter that can be asked and inserted into and that
//! writes the same bytes; and no decoder takes more memory than the bound of `check` allows.

#![no_main]

use bloomgate::foreign::{BfV1, Foreign, Guava, Parquet, RedisBloom, RedisCuckoo, Shape, detect};
use bloomgate::{Digest, Encoding};
use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

/// Asks and inserts a few keys: a key that was taken is there.
fn used<F: Shape>(mut filter: Foreign<F>, bytes: &[u8]) {
    assert!(filter.size_in_bytes() <= bytes.len() as u64 + 64, "more memory than there are bytes");
    for i in 1..9u64 {
        let digest = Digest::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i.wrapping_mul(0xd134_2543_de82_ef95));
        if filter.insert_digest(digest).is_ok() {
            assert!(filter.contains_digest(digest), "a key that was taken is there");
        }
        if filter.size_in_bytes() > 1 << 20 {
            return;
        }
    }
    assert!((0.0..=1.0).contains(&filter.estimated_rate()));
}

fuzz_target!(|bytes: &[u8]| {
    let given = bytes.len();
    let _ = check::bounded(given, 0, || detect(bytes));
    if let Ok(filter) = check::bounded(given, 0, || BfV1::from_foreign(bytes)) {
        assert_eq!(filter.to_foreign().unwrap(), bytes);
        used(filter, bytes);
    }
    if let Ok(filter) = check::bounded(given, 0, || Guava::from_foreign(bytes, Encoding::Bytes)) {
        assert_eq!(filter.to_foreign().unwrap(), bytes);
        used(filter, bytes);
    }
    if let Ok(filter) = check::bounded(given, 0, || Parquet::from_foreign(bytes, Encoding::Bytes)) {
        assert_eq!(filter.to_foreign().unwrap(), bytes);
        used(filter, bytes);
    }
    // Dumps may be cut into other chunks than ours: what is written is read as the same filter.
    if let Ok(filter) = check::bounded(given, 0, || RedisBloom::from_dump(bytes)) {
        assert_eq!(RedisBloom::from_dump(&filter.to_dump().unwrap()).unwrap(), filter);
        used(filter, bytes);
    }
    if let Ok(mut filter) = check::bounded(given, 0, || RedisCuckoo::from_dump(bytes)) {
        assert_eq!(RedisCuckoo::from_dump(&filter.to_dump().unwrap()).unwrap(), filter);
        filter.remove_digest(Digest::new(7, 7));
        used(filter, bytes);
    }
});
