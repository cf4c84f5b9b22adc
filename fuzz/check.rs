//! What must hold for any bytes whatever, shared by the targets that read files.
//!
//! **The bound on memory.** Opening takes at most four times the bytes given and 256 KiB. A file whose payload is
//! gap-coded may take, besides, what the payload stands for: at most the caller's limit ([`PAYLOAD`] here), and at most
//! 8192 times its length.

#![allow(dead_code)] // no target uses all of it

use bloomgate::format::{Limits, SectionReader, inspect_bytes};
use bloomgate::{AnyFilter, Digest, ErrorKind, OpenOptions, Secret};

#[path = "../crates/bloomgate/tests/allocation/counting.rs"]
mod counting;

/// The most that payloads may come to. Less than what filters map from the system, which is not counted.
pub const PAYLOAD: usize = 3 << 20;

/// Runs `call`, which was given so many bytes and may decode so many, and holds it to the bound.
pub fn bounded<T>(given: usize, decoded: usize, call: impl FnOnce() -> T) -> T {
    let (result, taken) = counting::counted(call);
    let most = 4 * given + decoded + (256 << 10);
    assert!(
        taken.peak <= most,
        "{} bytes at once (the largest {}) for {given} given, at most {most}",
        taken.peak,
        taken.largest
    );
    result
}

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
    let limits = Limits::payload(PAYLOAD as u64);
    let options = OpenOptions::new().secret(&secret).limits(limits);
    let coded = SectionReader::from_slice(bytes, Some(limits))
        .is_ok_and(|file| file.head().payloads().any(|payload| payload.codec != 0));
    let (given, decoded) = (bytes.len(), if coded { PAYLOAD } else { 0 });
    let loaded = bounded(given, decoded, || AnyFilter::from_bytes_with(bytes, &options));
    let mapped = bounded(given, 0, || AnyFilter::map_bytes(bytes, &options));
    let described = bounded(given, 0, || inspect_bytes(bytes));
    let read = bounded(given, decoded, || AnyFilter::read_from(bytes, &options));
    match (&loaded, &mapped) {
        (Ok(_), Err(refusal)) => assert_eq!(refusal.kind(), ErrorKind::Unsupported, "{refusal}"),
        (Err(refusal), Ok(mapped)) => {
            assert_eq!(refusal.kind(), ErrorKind::Corrupt, "{refusal}");
            let damage = mapped.verify_all(|_, _| ()).expect_err("bytes that cannot be loaded are damaged");
            assert_eq!(damage.kind(), ErrorKind::Corrupt);
            // Either the bytes are not those that were summed, or they are those of no table.
            assert!(mapped.damage().is_none() || mapped.to_bytes().is_err());
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
            Err(refusal) if !loaded.kind().takes_inserts() => assert_eq!(refusal.kind(), ErrorKind::Unsupported),
            // Fingerprints that were moved about say so when they are no table.
            Err(refusal) => {
                let known = [ErrorKind::Full, ErrorKind::OutOfMemory, ErrorKind::Corrupt];
                assert!(known.contains(&refusal.kind()), "{refusal}");
            }
        }
    }
}
