//! Deltas: arbitrary bytes, and golden deltas with their insides changed and every checksum right again. They are refused,
//! or make of a golden file exactly the file whose address they name; and nothing is allocated that was only claimed.
//!
//! An input that begins as a file is taken as it is. Otherwise the first byte chooses a golden delta, and the rest are
//! changes of four bytes each: DELTA or body, what to do, place, value.

#![no_main]

use bloomgate::format::delta::Delta;
use bloomgate::format::{Address, Codec, FrameWriter, Limits, MAGIC, SectionReader, SectionType};
use bloomgate::{AnyFilter, OpenOptions, Secret};
use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

macro_rules! golden {
    ($($delta:literal of $base:literal),*) => {
        &[$((
            include_bytes!(concat!("../../crates/bloomgate/tests/golden/", $delta, ".delta")),
            include_bytes!(concat!("../../crates/bloomgate/tests/golden/", $base, ".bloom")),
        )),*]
    };
}

const GOLDEN: &[(&[u8], &[u8])] = golden![
    "blocked-ten-more" of "blocked",
    "keyed-one-more" of "blocked-siphash13",
    "counting-fewer" of "counting-4",
    "scalable-grown" of "scalable",
    "classic-whole" of "classic-100-bits"
];

/// Reads a delta and applies it to everything at hand.
fn applied(bytes: &[u8]) {
    let limits = Limits::payload(check::PAYLOAD as u64);
    let read = check::bounded(bytes.len(), 0, || Delta::from_bytes_with(bytes, limits));
    let Ok(delta) = read else { return };
    assert_eq!(Delta::from_bytes(&delta.to_bytes().unwrap()).unwrap(), delta);
    for (_, base) in GOLDEN {
        // Method 2 opens the old filter and may grow it; all others have the new file, which the limit bounds, and one chunk.
        let given = bytes.len() + base.len();
        let claimed = usize::try_from(delta.result_len()).unwrap_or(usize::MAX);
        let new = check::bounded(given, 2 * claimed.min(check::PAYLOAD), || delta.apply_with(base, limits));
        let Ok(new) = new else { continue };
        assert_eq!(Address::of(&new), delta.result(), "another file than was named");
        assert_eq!(delta.apply(&new).expect("twice is harmless"), new);
        if Address::of(base) != Address::of(&new) {
            assert_eq!(Address::of(base), delta.base(), "of another file than was named");
            assert_eq!(new.len() as u64, delta.result_len());
        }
    }
}

fuzz_target!(|data: &[u8]| {
    if data.starts_with(&MAGIC) {
        return applied(data);
    }
    let Some((&which, changes)) = data.split_first() else { return };
    let (golden, base) = GOLDEN[usize::from(which) % GOLDEN.len()];
    if changes.is_empty() {
        let new = Delta::from_bytes(golden).unwrap().apply(base).unwrap();
        let secret = Secret::from_bytes(std::array::from_fn(|i| i as u8));
        AnyFilter::from_bytes_with(&new, &OpenOptions::new().secret(&secret)).expect("a golden delta makes a filter");
    }
    let reader = SectionReader::from_slice(golden, None).unwrap();
    let stored = |kind| {
        let section = reader.head().frame().find(kind, 0).unwrap();
        golden[section.offset as usize..section.end() as usize].to_vec()
    };
    let mut bodies = [stored(SectionType::DELTA), stored(SectionType::PAYLOAD)];
    for &[section, what, place, value] in changes.as_chunks::<4>().0 {
        let body = &mut bodies[usize::from(section) % 2];
        let at = usize::from(place) % body.len().max(1);
        match what % 6 {
            0 if !body.is_empty() => body[at] = value,
            1 if !body.is_empty() => body[at] ^= 1 << (value % 8),
            2 => body.insert(at, value),
            3 if !body.is_empty() => drop(body.remove(at)),
            4 => body.truncate(at),
            5 => body.extend(std::iter::repeat_n(value, usize::from(place) + 1)),
            _ => {}
        }
    }
    let [head, payload] = bodies;
    let source = &payload[..];
    let mut file = FrameWriter::new();
    file.section(SectionType::DELTA, 0, head).payload(0, &source, Codec::Raw);
    let mut bytes = Vec::new();
    // An empty section cannot be written at all.
    if file.write_to(&mut bytes).is_ok() {
        applied(&bytes);
    }
});
