//! Tests of the file: what is written comes back, and whatever is wrong is said.

mod atomic;
mod damage;
mod gap_coding;
mod in_place;
mod layout;
mod parts;
mod round_trip;

use super::*;
use crate::error::ErrorKind;

/// Words with about `fill` of their bits set, from a fixed seed (splitmix64).
fn words(count: usize, fill: f64, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let limit = (fill * 2f64.powi(32)) as u64;
    (0..count).map(|_| (0..64).fold(0, |w, bit| w | u64::from(next() >> 32 < limit) << bit)).collect()
}

fn to_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// A stand-in for a contract: what the sentinels of the test files hash with.
fn digest(seed: u64) -> impl FnMut(sentinels::Form, &[u8]) -> crate::Result<[u8; 16]> {
    move |_, bytes| Ok(xxhash_rust::xxh3::xxh3_128_with_seed(bytes, seed).to_le_bytes())
}

const BITS: Tag = Tag::critical(2);

/// A file with every section type, a private section, and two payloads.
fn sample(first: &[u64], second: &[u64], codec: Codec) -> Vec<u8> {
    let shape = FieldWriter::new().u16(Tag::critical(1), 7).u64(BITS, 8 * first.len() as u64).finish().unwrap();
    let mut file = FrameWriter::new();
    file.section(SectionType::CONTRACT, 0, b"\x01\x80\x02\x00\x05\x00".to_vec())
        .section(SectionType::SHAPE, 0, shape)
        .section(SectionType::COUNTS, 0, FieldWriter::new().u64(Tag::optional(1), 3).finish().unwrap())
        .section(SectionType(0x8001), 0, b"note".to_vec())
        .payload(0, &first, Codec::Raw)
        .payload(1, &second, codec);
    let mut out = Vec::new();
    let address = file.write_to(&mut out).unwrap();
    assert_eq!(address, Address::of(&out));
    assert_eq!(file.prepare().unwrap().total_len(), out.len() as u64);
    out
}

/// Everything of a file, read and verified as a loader would, with the lengths of the payloads as expected.
fn read_all(bytes: &[u8], raw: &[(u16, u64)]) -> crate::Result<Vec<Vec<u8>>> {
    let file = MemoryFile::open(bytes, Limits::payload(1 << 24))?;
    file.head().expect_payloads(raw.iter().copied())?;
    file.verify()?;
    raw.iter()
        .map(|&(part, length)| {
            let mut out = Vec::new();
            file.payload(part)?.read(length, &mut |offset, chunk| {
                assert_eq!(offset, out.len() as u64);
                out.extend_from_slice(chunk);
                Ok(())
            })?;
            Ok(out)
        })
        .collect()
}

/// The same from a stream; gives the reader back too.
fn stream_all<R: std::io::Read>(reader: R, raw: &[(u16, u64)]) -> crate::Result<(Vec<Vec<u8>>, R)> {
    let mut file = SectionReader::new(reader, Limits::payload(1 << 24))?;
    file.head().expect_payloads(raw.iter().copied())?;
    let mut payloads = Vec::new();
    for &(part, length) in raw {
        let mut out = Vec::new();
        file.read_payload(part, length, &mut |_, chunk| {
            out.extend_from_slice(chunk);
            Ok(())
        })?;
        payloads.push(out);
    }
    Ok((payloads, file.finish()?))
}

/// Makes the header's checksum right again after a change to header or table.
fn reseal(file: &mut [u8]) {
    let count = u32::from_le_bytes(file[12..16].try_into().unwrap()) as usize;
    let crc = super::frame::head_crc(&file[..64 + 32 * count]);
    file[28..32].copy_from_slice(&crc.to_le_bytes());
}

#[track_caller]
fn refused<T>(result: crate::Result<T>, kind: ErrorKind, says: &str) {
    let Err(error) = result else { panic!("accepted, though it should say: {says}") };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}
