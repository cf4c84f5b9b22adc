//! The table: golden bytes, and every lie it could tell.

use super::*;

/// A shape of one field and one word of bits. These bytes, and their address below, were made by a program in
/// another language (Python, with its own CRC32C and BLAKE3) from docs/format.md alone.
const GOLDEN: &str = concat!(
    "894247460d0a1a0a010001000300000048010000000000000000000078bc8c98",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0200000001000000c0000000000000000c00000000000000ab3b04f200000000",
    "06000000010000000001000000000000040000000000000031b4b37400000000",
    "05000000030000004001000000000000080000000000000031b4b37400000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0280080040000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "d5f4e24700000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000080",
);

fn golden() -> Vec<u8> {
    GOLDEN.as_bytes().chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
}

fn tiny() -> Vec<u8> {
    let bits = &[0x8000_0000_0000_0001u64][..];
    let mut file = FrameWriter::new();
    file.section(SectionType::SHAPE, 0, FieldWriter::new().u64(BITS, 64).finish().unwrap());
    let mut out = Vec::new();
    file.payload(0, &bits, Codec::Raw).write_to(&mut out).unwrap();
    out
}

#[test]
fn the_bytes_are_frozen() {
    assert_eq!(tiny(), golden());
    assert_eq!(Address::of(&golden()).to_string(), "c1c41394289e8d013951a6ac33d2e1e1a0bf47f8cf6519c7f74a6b4e75cba5a4");
    assert_eq!(read_all(&golden(), &[(0, 8)]).unwrap(), [[1, 0, 0, 0, 0, 0, 0, 0x80]]);
}

/// The tiny file with bytes of header or table changed and the checksum made right again.
fn with(changes: &[(usize, &[u8])]) -> crate::Result<Vec<Vec<u8>>> {
    let mut file = golden();
    for (at, bytes) in changes {
        file[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    reseal(&mut file);
    read_all(&file, &[(0, 8)])
}

/// Where the entries of the tiny file stand: SHAPE, CHUNK_SUMS, PAYLOAD.
const SHAPE: usize = 64;
const SUMS: usize = 96;
const PAYLOAD: usize = 128;

#[test]
fn newer_versions_are_refused_or_read() {
    // T63: what this reader may not read is an error, never an old reading of new bytes.
    refused(with(&[(8, &[2, 0]), (10, &[2, 0])]), ErrorKind::Version, "version 2 and needs a reader of version 2");
    refused(with(&[(8, &[0xff, 0xff]), (10, &[0xff, 0xff])]), ErrorKind::Version, "65535");
    with(&[(8, &[2, 0])]).expect("written by a later version, said to be readable by this one");
    refused(with(&[(8, &[0, 0])]), ErrorKind::Corrupt, "format version 0");
    refused(with(&[(10, &[0, 0])]), ErrorKind::Corrupt, "min_reader 0");
    refused(with(&[(24, &[1])]), ErrorKind::Dirty, "being written in place");
    refused(with(&[(24, &[3])]), ErrorKind::Version, "offset 24");
    refused(with(&[(24, &[2])]), ErrorKind::Version, "offset 24");
    refused(with(&[(27, &[0x80])]), ErrorKind::Version, "offset 24");
    for at in 32..64 {
        refused(with(&[(at, &[1])]), ErrorKind::Version, &format!("offset {at}"));
    }
    for entry in [SHAPE, SUMS, PAYLOAD] {
        refused(with(&[(entry + 28, &[1])]), ErrorKind::Version, "reserved");
        refused(with(&[(entry + 4, &[0x05])]), ErrorKind::Version, "flags 0x0005");
        refused(with(&[(entry + 5, &[0x80])]), ErrorKind::Version, "bits this reader does not know");
    }
}

#[test]
fn unknown_sections_are_refused_when_critical_and_passed_when_not() {
    refused(with(&[(SHAPE, &[0x7e, 0])]), ErrorKind::Version, "section 0 (type 126 of part 0): a critical section");
    refused(with(&[(SHAPE, &[0, 0])]), ErrorKind::Version, "type 0");
    refused(with(&[(SHAPE, &[0, 0x80]), (SHAPE + 2, &[0, 0])]), ErrorKind::Version, "private type 0x8000");
    // Not critical, of a later version: verified, not kept, and the rest is read.
    let bits = &[5u64][..];
    let mut file = Vec::new();
    let mut writer = FrameWriter::new();
    writer.section(SectionType(0x8000), 0, vec![9; 100_000]).payload(0, &bits, Codec::Raw).write_to(&mut file).unwrap();
    let entry = 64 + 32;
    assert_eq!(file[entry..entry + 2], [0, 0x80]);
    file[entry..entry + 2].copy_from_slice(&[0x7e, 0]);
    reseal(&mut file);
    let head = MemoryFile::open(&file, Limits::default()).unwrap();
    assert_eq!(head.head().get(SectionType(0x7e), 0), None);
    assert_eq!(read_all(&file, &[(0, 8)]).unwrap(), [5u64.to_le_bytes()]);
    let offset = head.head().frame().sections()[1].offset as usize;
    file[offset + 70_000] ^= 1;
    refused(read_all(&file, &[(0, 8)]), ErrorKind::Corrupt, "type 126 of part 0");
}

#[test]
fn lies_about_flags_and_codecs_are_refused() {
    for entry in [SHAPE, SUMS] {
        refused(with(&[(entry + 4, &[0])]), ErrorKind::Corrupt, "not marked critical");
        refused(with(&[(entry + 4, &[3])]), ErrorKind::Corrupt, "stored whole and raw");
        refused(with(&[(entry + 6, &[1])]), ErrorKind::Corrupt, "stored whole and raw");
    }
    refused(with(&[(PAYLOAD + 4, &[2])]), ErrorKind::Corrupt, "not marked critical");
    refused(with(&[(PAYLOAD + 4, &[1])]), ErrorKind::Corrupt, "without chunk sums");
    refused(with(&[(PAYLOAD + 6, &[2])]), ErrorKind::Version, "codec 2");
    refused(with(&[(PAYLOAD + 6, &[1])]), ErrorKind::Corrupt, "the shape needs 8");
}

#[test]
fn lies_about_places_are_refused() {
    let long = u64::MAX.to_le_bytes();
    for entry in [SHAPE, SUMS, PAYLOAD] {
        refused(with(&[(entry + 16, &[0; 8])]), ErrorKind::Corrupt, "empty");
        refused(with(&[(entry + 16, &long)]), ErrorKind::Corrupt, "past the end of the file");
        refused(with(&[(entry + 16, &(1u64 << 40).to_le_bytes())]), ErrorKind::Corrupt, "past the end of the file");
        refused(with(&[(entry + 8, &long)]), ErrorKind::Corrupt, "the first multiple of 64");
        refused(with(&[(entry + 8, &[0; 8])]), ErrorKind::Corrupt, "the first multiple of 64");
        refused(with(&[(entry + 8, &[1])]), ErrorKind::Corrupt, "the first multiple of 64");
    }
    // Overlap: the sums begin inside the shape, or the shape reaches into the sums.
    let shape = u64::from_le_bytes(golden()[SHAPE + 8..SHAPE + 16].try_into().unwrap());
    refused(with(&[(SUMS + 8, &shape.to_le_bytes())]), ErrorKind::Corrupt, "section 1 (CHUNK_SUMS of part 0)");
    refused(with(&[(SHAPE + 16, &[65])]), ErrorKind::Corrupt, "section 1 (CHUNK_SUMS of part 0)");
    // The end: longer or shorter than the sections say.
    let end = golden().len() as u64;
    refused(with(&[(16, &(end - 1).to_le_bytes())]), ErrorKind::Corrupt, "past the end of the file");
    refused(with(&[(16, &(end + 1).to_le_bytes())]), ErrorKind::Truncated, "ends too early");
    let mut longer = golden();
    longer.push(0);
    longer[16..24].copy_from_slice(&(end + 1).to_le_bytes());
    reseal(&mut longer);
    refused(read_all(&longer, &[(0, 8)]), ErrorKind::Corrupt, "the last section ends at");
    refused(with(&[(16, &160u64.to_le_bytes())]), ErrorKind::Corrupt, "alone take 160");
}

#[test]
fn lies_about_order_and_sums_are_refused() {
    refused(with(&[(SHAPE, &[6])]), ErrorKind::Corrupt, "the table is sorted");
    refused(with(&[(SHAPE + 2, &[1])]), ErrorKind::Corrupt, "the table is sorted");
    refused(with(&[(SUMS + 2, &[1])]), ErrorKind::Corrupt, "no CHUNK_SUMS of its own");
    refused(with(&[(SUMS, &[4])]), ErrorKind::Corrupt, "no CHUNK_SUMS of its own");
    refused(with(&[(SUMS + 16, &[8])]), ErrorKind::Corrupt, "needs 4 bytes");
    refused(with(&[(PAYLOAD + 24, &[0])]), ErrorKind::Corrupt, "is not that of its chunk sums");
    refused(with(&[(PAYLOAD, &[0x7e]), (PAYLOAD + 4, &[2])]), ErrorKind::Corrupt, "no PAYLOAD of part 0");
    let lone = Section {
        kind: SectionType::CHUNK_SUMS,
        part: 0,
        flags: SectionFlags::CRITICAL,
        codec: 0,
        offset: 0,
        length: 4,
        crc: crc32c::crc32c(&[0; 4]),
    };
    let mut file = Frame::lay_out(vec![lone]).unwrap().to_bytes();
    file.resize(132, 0);
    refused(read_all(&file, &[]), ErrorKind::Corrupt, "has no section to check");
}

#[test]
fn lies_about_counts_are_refused() {
    for count in [0, 4097, u32::MAX] {
        let mut file = golden();
        file[12..16].copy_from_slice(&count.to_le_bytes());
        refused(read_all(&file, &[]), ErrorKind::Corrupt, &format!("{count} sections; 1 to 4096"));
    }
    let mut file = golden();
    file[12..16].copy_from_slice(&4096u32.to_le_bytes());
    refused(read_all(&file, &[]), ErrorKind::Corrupt, "alone take 131136");
    file[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(read_all(&file, &[]), ErrorKind::Truncated, "ends too early");
    refused(stream_all(&file[..], &[]).map(|_| ()), ErrorKind::Truncated, "ends in its section table");
    for count in [1u32, 2] {
        let mut file = golden();
        file[12..16].copy_from_slice(&count.to_le_bytes());
        reseal(&mut file);
        refused(read_all(&file, &[]), ErrorKind::Corrupt, "the first multiple of 64");
    }
}

#[test]
fn the_shapes_and_the_payloads_must_agree() {
    // T56 at this level: the shape says how many bytes it needs, and exactly those must be there.
    let file = golden();
    let open = MemoryFile::open(&file, Limits::default()).unwrap();
    let head = open.head();
    head.expect_payloads([(0, 8)]).unwrap();
    refused(head.expect_payloads([(0, 7)]), ErrorKind::Corrupt, "the shape needs 7");
    refused(head.expect_payloads([(0, 16)]), ErrorKind::Corrupt, "the shape needs 16");
    refused(head.expect_payloads([(1, 8)]), ErrorKind::Corrupt, "where that of part 1 was expected");
    refused(head.expect_payloads([(0, 8), (1, 8)]), ErrorKind::Corrupt, "no PAYLOAD of part 1");
    refused(head.expect_payloads([]), ErrorKind::Corrupt, "no shape speaks of it");
    refused(open.payload(1).map(|_| ()), ErrorKind::Corrupt, "no PAYLOAD of part 1");
    assert_eq!(open.payload(0).unwrap().chunk(0).unwrap().len(), 8);
    refused(open.payload(0).unwrap().chunk(1), ErrorKind::Corrupt, "no chunk 1");
    refused(open.payload(0).unwrap().chunk(u64::MAX), ErrorKind::Corrupt, "no chunk");
}
