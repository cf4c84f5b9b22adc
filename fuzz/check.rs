//! What must hold for any bytes whatever, shared by the targets that read files.

use bloomgate::format::{Limits, inspect_bytes};
use bloomgate::{AnyFilter, Digest, ErrorKind, OpenOptions, Secret};

/// Digests over the whole range, from a counter (splitmix64).
fn digests() -> Vec<Digest> {
    let mix = |i: u64| {
        let z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z ^ (z >> 27)
    };
    let mut digests: Vec<Digest> = (0..100).map(|i| Digest::new(mix(2 * i), mix(2 * i + 1))).collect();
    digests.extend([Digest::new(0, 0), Digest::new(u64::MAX, u64::MAX), Digest::new(0, u64::MAX)]);
    digests
}

/// Opens bytes in every way. They are refused, or are a filter that answers alike in every place and can be used.
pub fn file(bytes: &[u8]) {
    // The public secret of the golden files.
    let secret = Secret::from_bytes(std::array::from_fn(|i| i as u8));
    let options = OpenOptions::new().secret(&secret).limits(Limits::payload(8 << 20));
    let loaded = AnyFilter::from_bytes_with(bytes, &options);
    let mapped = AnyFilter::map_bytes(bytes, &options);
    let described = inspect_bytes(bytes);
    let read = AnyFilter::read_from(bytes, &options);
    match (&loaded, &mapped) {
        (Ok(_), Err(refusal)) => assert_eq!(refusal.kind(), ErrorKind::Unsupported, "{refusal}"),
        (Err(refusal), Ok(mapped)) => {
            assert_eq!(refusal.kind(), ErrorKind::Corrupt, "{refusal}");
            let damage = mapped.verify_all(|_, _| ()).expect_err("bytes that cannot be loaded are damaged");
            assert_eq!(Some(damage.kind()), mapped.damage().map(|_| ErrorKind::Corrupt));
            assert!(mapped.to_bytes().is_err());
        }
        _ => {}
    }
    let Ok(mut loaded) = loaded else { return };
    let described = described.expect("what can be loaded can be described");
    assert!(described.is_intact());
    assert_eq!((described.kind, described.len), (loaded.kind(), loaded.len()));

    let digests = digests();
    let mut answers = vec![false; digests.len()];
    loaded.contains_digests(&digests, &mut answers).unwrap();
    for (&digest, &answer) in digests.iter().zip(&answers) {
        assert_eq!(loaded.contains_digest(digest), answer);
        if let Ok(mapped) = &mapped {
            assert_eq!(mapped.contains_digest(digest), answer);
        }
    }
    // What was read may hold private sections or another coding; what is written from it is one form only.
    let written = loaded.to_bytes().unwrap();
    assert_eq!(read.expect("a stream of the same bytes").to_bytes().unwrap(), written);
    if let Ok(mapped) = &mapped {
        assert_eq!(mapped.to_bytes().unwrap(), written);
    }
    let again = AnyFilter::from_bytes_with(&written, &options).expect("our own bytes");
    assert_eq!(again.to_bytes().unwrap(), written);
    // It is a filter like any other: what goes in is found, unless it is full and says so.
    for &digest in &digests[..20] {
        match loaded.insert_digest(digest) {
            Ok(_) => assert!(loaded.contains_digest(digest)),
            Err(refusal) => assert!(matches!(refusal.kind(), ErrorKind::Full | ErrorKind::OutOfMemory), "{refusal}"),
        }
    }
}
