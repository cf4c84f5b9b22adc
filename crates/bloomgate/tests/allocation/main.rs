//! What a file claims is never allocated, only what it has. Every golden file and every foreign form, with its numbers
//! replaced by absurd ones and all checksums right again: each is refused or opened, and never takes more than
//! [`FACTOR`] times the bytes it was given and [`CONSTANT`].

mod counting;

use std::path::{Path, PathBuf};

use bloomgate::foreign::{BfV1, Guava, Parquet, RedisBloom, RedisCuckoo, detect};
use bloomgate::format::delta::Delta;
use bloomgate::format::{Codec, FrameWriter, Limits, SectionReader, SectionType, gaps, inspect_bytes};
use bloomgate::*;
use counting::counted;

/// A file in memory, its small sections copied, and its words: three times; and a table of numbers per section.
const FACTOR: usize = 4;
/// Messages, a buffer of one chunk (64 KiB) and what tells a kind's rate.
const CONSTANT: usize = 256 << 10;

#[track_caller]
fn bounded<T>(what: &str, given: usize, call: impl FnOnce() -> T) -> T {
    let (result, taken) = counted(call);
    let most = FACTOR * given + CONSTANT;
    assert!(
        taken.peak <= most,
        "{what}: {} bytes at once (the largest {}) for {given} given, at most {most}",
        taken.peak,
        taken.largest
    );
    result
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// The files of a folder with this ending, by name.
fn files(folder: &Path, ending: &str) -> Vec<(String, Vec<u8>)> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == ending))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
}

/// Opens bytes through every door; how many let them in.
fn opened(what: &str, bytes: &[u8]) -> u32 {
    let secret = Secret::from_bytes(std::array::from_fn(|i| i as u8));
    let options = OpenOptions::new().secret(&secret);
    let given = bytes.len();
    let mut let_in = 0;
    let_in += u32::from(bounded(what, given, || AnyFilter::from_bytes_with(bytes, &options).is_ok()));
    let_in += u32::from(bounded(what, given, || AnyFilter::map_bytes(bytes, &options).is_ok()));
    let_in += u32::from(bounded(what, given, || AnyFilter::read_from(bytes, &options).is_ok()));
    let_in += u32::from(bounded(what, given, || inspect_bytes(bytes).is_ok()));
    let_in + u32::from(bounded(what, given, || Delta::from_bytes(bytes).is_ok()))
}

/// The same file with other bodies, and all checksums right.
fn forged(bytes: &[u8], change: impl Fn(SectionType, u16, &mut Vec<u8>)) -> Vec<u8> {
    let head = SectionReader::from_slice(bytes, None).unwrap().head().clone();
    let mut bodies = Vec::new();
    for section in head.frame().sections().iter().filter(|section| section.kind != SectionType::CHUNK_SUMS) {
        let mut body = bytes[section.offset as usize..section.end() as usize].to_vec();
        change(section.kind, section.part, &mut body);
        assert_eq!(section.codec, Codec::Raw.number());
        bodies.push((section.kind, section.part, body));
    }
    let payloads: Vec<(u16, &[u8])> = bodies
        .iter()
        .filter(|(kind, ..)| *kind == SectionType::PAYLOAD)
        .map(|(_, part, body)| (*part, &body[..]))
        .collect();
    let mut file = FrameWriter::new();
    for (kind, part, body) in bodies.iter().filter(|(kind, ..)| *kind != SectionType::PAYLOAD) {
        file.section(*kind, *part, body.clone());
    }
    for (part, source) in &payloads {
        file.payload(*part, source, Codec::Raw);
    }
    let mut out = Vec::new();
    file.write_to(&mut out).unwrap();
    out
}

/// Numbers that claim a lot: some hundred KB, which the counting allocator would see; the limits of the shapes; and what is
/// past all memory.
const ABSURD: [u64; 9] = [1 << 14, 1 << 18, 1 << 22, 1 << 24, 1 << 31, 1 << 40, (1 << 54) - 2, 1 << 59, u64::MAX];

#[test]
fn as_they_are_files_take_little_more_than_they_are_long() {
    for (name, bytes) in files(&folder("golden"), "bloom") {
        // The compressed one unfolds to what its shape says, which the limits allow.
        if name != "blocked-sparse" {
            assert!(opened(&name, &bytes) >= 3, "{name}");
        }
    }
    for (name, bytes) in files(&folder("golden"), "delta") {
        assert_eq!(opened(&name, &bytes), 1, "{name}: a delta and nothing else");
    }
}

/// Every field of every SHAPE, COUNTS, CONTRACT and DELTA, one at a time, as a number that claims a lot.
#[test]
fn claims_of_shapes_are_not_allocated() {
    let mut forgeries = 0;
    let golden = folder("golden");
    for (name, bytes) in files(&golden, "bloom").into_iter().chain(files(&golden, "delta")) {
        let head = SectionReader::from_slice(&bytes, None).unwrap().head().clone();
        for section in head.frame().sections() {
            let kinds = [SectionType::SHAPE, SectionType::COUNTS, SectionType::CONTRACT, SectionType::DELTA];
            if name == "blocked-sparse" || !kinds.contains(&section.kind) {
                continue;
            }
            let body = head.get(section.kind, section.part).unwrap();
            let mut at = 0;
            while let Some([_, _, low, high]) = body.get(at..at + 4) {
                let length = usize::from(u16::from_le_bytes([*low, *high]));
                for absurd in ABSURD {
                    let claim = forged(&bytes, |kind, part, body| {
                        if (kind, part) == (section.kind, section.part) {
                            // As wide as the field is; foreign headers and columns hold several numbers.
                            for number in body[at + 4..at + 4 + length].chunks_mut(8) {
                                number.copy_from_slice(&absurd.to_le_bytes()[..number.len()]);
                            }
                        }
                    });
                    opened(&format!("{name}, {} of part {}, byte {at}", section.kind, section.part), &claim);
                    forgeries += 1;
                }
                at += 4 + length;
            }
        }
    }
    assert!(forgeries > 2_000, "{forgeries}");
}

/// The frame itself: every eight bytes of the head of a file as an absurd length, offset or count, with its checksum.
#[test]
fn claims_of_the_frame_are_not_allocated() {
    for name in ["classic", "growing-cuckoo", "rotating", "ribbon"] {
        let bytes = std::fs::read(folder("golden").join(format!("{name}.bloom"))).unwrap();
        let end = SectionReader::from_slice(&bytes, None).unwrap().head().frame().head_len() as usize;
        for at in (8..end).step_by(4) {
            for absurd in ABSURD {
                let mut claim = bytes.clone();
                let width = 8.min(end - at);
                claim[at..at + width].copy_from_slice(&absurd.to_le_bytes()[..width]);
                claim[28..32].fill(0);
                let sum = crc32c(&claim[..end]);
                claim[28..32].copy_from_slice(&sum.to_le_bytes());
                opened(&format!("{name}, byte {at} of the head"), &claim);
            }
        }
    }
}

/// CRC32C, bit by bit: the test does not trust the code that it tests.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & 0u32.wrapping_sub(crc & 1)))
    })
}

/// A coded payload may stand for 8192 times its length; the caller's limit is what holds.
#[test]
fn what_unfolds_stays_within_the_limit() {
    let bytes = std::fs::read(folder("golden/blocked-sparse.bloom")).unwrap();
    let raw = Blocked::from_bytes(&bytes).unwrap().size_in_bytes();
    assert!(raw > 20 * bytes.len() as u64, "{raw}");
    for limit in [1_000, raw - 1] {
        let options = OpenOptions::new().limits(Limits::payload(limit));
        let refusal = bounded("sparse", bytes.len(), || AnyFilter::from_bytes_with(&bytes, &options).unwrap_err());
        assert_eq!(refusal.kind(), ErrorKind::LimitExceeded, "{refusal}");
    }
    let options = OpenOptions::new().limits(Limits::payload(raw));
    bounded("sparse", bytes.len() + raw as usize, || AnyFilter::from_bytes_with(&bytes, &options).unwrap());
    // A preamble alone that claims as much as one may, and nothing sensible behind it.
    for claimed in [1u64 << 31, 1 << 40, u64::MAX] {
        let coded = [&claimed.to_le_bytes()[..], &[0xff; 100]].concat();
        bounded("gaps", coded.len(), || gaps::decode(&coded, claimed).unwrap_err());
    }
}

/// The foreign forms, whose headers claim lengths too: every four bytes of the first 200, and the fixtures of others.
#[test]
fn claims_of_foreign_forms_are_not_allocated() {
    let mut samples: Vec<(String, Vec<u8>)> = Vec::new();
    for name in ["bfv1", "redisbloom", "rediscuckoo", "guava", "parquet"] {
        let filter = AnyFilter::open(folder("golden").join(format!("{name}.bloom"))).unwrap();
        samples.push((name.into(), filter.to_foreign().unwrap()));
    }
    samples.extend(files(&folder("foreign/guava"), "bf"));
    let mut let_in = 0;
    for (name, bytes) in &samples {
        let doors = |bytes: &[u8]| {
            let given = bytes.len();
            bounded(name, given, || detect(bytes).is_some());
            [
                bounded(name, given, || BfV1::from_foreign(bytes).is_ok()),
                bounded(name, given, || RedisBloom::from_dump(bytes).is_ok()),
                bounded(name, given, || RedisCuckoo::from_dump(bytes).is_ok()),
                bounded(name, given, || Guava::from_foreign(bytes, Encoding::Bytes).is_ok()),
                bounded(name, given, || Parquet::from_foreign(bytes, Encoding::Bytes).is_ok()),
            ]
        };
        assert_eq!(doors(bytes).iter().filter(|&&let_in| let_in).count(), 1, "{name}");
        for at in 0..bytes.len().min(200) {
            for absurd in ABSURD {
                for width in [1, 2, 4, 8] {
                    let mut claim = bytes.clone();
                    let width = width.min(bytes.len() - at);
                    claim[at..at + width].copy_from_slice(&absurd.to_le_bytes()[..width]);
                    claim[at..at + width].reverse();
                    let_in += doors(&claim).iter().filter(|&&let_in| let_in).count();
                    claim[at..at + width].reverse();
                    let_in += doors(&claim).iter().filter(|&&let_in| let_in).count();
                }
            }
        }
    }
    assert!(let_in > 1_000, "some of it is still a filter: {let_in}");
}

/// A delta says how long the file is that it makes: that is the caller's limit to refuse.
#[test]
fn claims_of_deltas_are_not_allocated() {
    let base = std::fs::read(folder("golden/blocked.bloom")).unwrap();
    let delta = std::fs::read(folder("golden/blocked-ten-more.delta")).unwrap();
    let limits = Limits::payload(2 * base.len() as u64);
    let good = Delta::from_bytes(&delta).unwrap();
    bounded("delta", base.len(), || good.apply_with(&base, limits).unwrap());
    for absurd in ABSURD {
        let claim = forged(&delta, |kind, _, body| {
            if kind == SectionType::DELTA {
                let end = body.len();
                body[end - 8..].copy_from_slice(&absurd.to_le_bytes());
            }
        });
        let claim = bounded("delta", claim.len(), || Delta::from_bytes(&claim).unwrap());
        assert_eq!(claim.result_len(), absurd);
        let refusal = bounded("delta", base.len(), || claim.apply_with(&base, limits).unwrap_err());
        assert_eq!(refusal.kind(), ErrorKind::LimitExceeded, "{refusal}");
    }
}

/// A builder tells the size of the largest filters and takes nothing for it.
#[test]
fn sizes_are_told_without_memory() {
    let most = 1u64 << 40;
    let told = [
        bounded("blocked", 0, || Blocked::builder().items(most).bytes_needed()),
        bounded("classic", 0, || Classic::builder().items(most).bytes_needed()),
        bounded("counting", 0, || Counting::builder().items(most).bytes_needed()),
        bounded("cuckoo", 0, || Cuckoo::builder().items(most).bytes_needed()),
        bounded("growing-cuckoo", 0, || GrowingCuckoo::builder().items(most).bytes_needed()),
        bounded("quotient", 0, || Quotient::builder().items(most).bytes_needed()),
        bounded("scalable", 0, || Scalable::builder().items(most).bytes_needed()),
        bounded("stable", 0, || Stable::builder().items(most).bytes_needed()),
    ];
    assert!(told.into_iter().all(|bytes| bytes.unwrap() > most));
}
