//! Golden files with their insides changed and every checksum made right again: the checks behind the checksums.
//!
//! The first byte chooses a file, the rest are changes of four bytes each: section, what to do, place, value.

#![no_main]

use bloomgate::format::{Codec, FrameWriter, SectionReader, SectionType};
use libfuzzer_sys::fuzz_target;

#[path = "../check.rs"]
mod check;

macro_rules! golden {
    ($($name:literal),*) => {
        &[$(include_bytes!(concat!("../../crates/bloomgate/tests/golden/", $name, ".bloom"))),*]
    };
}

const GOLDEN: &[&[u8]] = golden![
    "classic",
    "classic-100-bits",
    "classic-refuse",
    "classic-given",
    "blocked",
    "blocked-u64",
    "blocked-three-lines",
    "blocked-siphash13",
    "blocked-tuple",
    "blocked-sparse",
    "partitioned-uuid",
    "counting-4",
    "counting-8",
    "counting-16",
    "scalable",
    "scalable-classic",
    "scalable-partitioned",
    "rotating",
    "stable",
    "cuckoo",
    "cuckoo-u64",
    "growing-cuckoo",
    "quotient",
    "quotient-grown",
    "fuse",
    "fuse-8",
    "fuse-empty",
    "ribbon",
    "ribbon-10",
    "ribbon-empty",
    "bfv1",
    "redisbloom",
    "rediscuckoo",
    "guava",
    "parquet"
];

fuzz_target!(|data: &[u8]| {
    let Some((&which, changes)) = data.split_first() else { return };
    let golden = GOLDEN[usize::from(which) % GOLDEN.len()];
    // Every section but the sums, which come by themselves; payloads as they are stored.
    let reader = SectionReader::from_slice(golden, None).unwrap();
    let mut sections: Vec<(SectionType, u16, Codec, Vec<u8>)> = Vec::new();
    for section in reader.head().frame().sections() {
        if section.kind != SectionType::CHUNK_SUMS {
            let stored = golden[section.offset as usize..section.end() as usize].to_vec();
            sections.push((section.kind, section.part, Codec::Raw, stored));
        }
    }
    for &[section, what, place, value] in changes.as_chunks::<4>().0 {
        let count = sections.len();
        let (kind, part, codec, body) = &mut sections[usize::from(section) % count];
        let at = usize::from(place) % body.len().max(1);
        match what % 8 {
            0 if !body.is_empty() => body[at] = value,
            1 if !body.is_empty() => body[at] ^= 1 << (value % 8),
            2 => body.insert(at, value),
            3 if !body.is_empty() => drop(body.remove(at)),
            4 => body.truncate(at),
            5 => body.extend(std::iter::repeat_n(value, usize::from(place) + 1)),
            6 => *part = u16::from(value % 5),
            7 if *kind == SectionType::PAYLOAD => *codec = if value % 2 == 0 { Codec::Raw } else { Codec::Gaps },
            _ => {}
        }
    }
    let mut file = FrameWriter::new();
    let payloads: Vec<(u16, Codec, &[u8])> = sections
        .iter()
        .filter(|(kind, ..)| *kind == SectionType::PAYLOAD)
        .map(|(_, part, codec, body)| (*part, *codec, &body[..]))
        .collect();
    for (kind, part, _, body) in sections.iter().filter(|(kind, ..)| *kind != SectionType::PAYLOAD) {
        file.section(*kind, *part, body.clone());
    }
    for (part, codec, source) in &payloads {
        file.payload(*part, source, *codec);
    }
    let mut bytes = Vec::new();
    // Two sections of one type and part, or an empty one, cannot be written at all.
    if file.write_to(&mut bytes).is_ok() {
        check::file(&bytes);
    }
});
