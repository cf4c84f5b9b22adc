//! Damage: every flipped bit, every cut, every kind of stranger is an error, and nothing is allocated for a claim.

use proptest::prelude::*;

use super::*;

/// A small file with all that a file can hold.
fn small() -> (Vec<u8>, [(u16, u64); 2]) {
    (sample(&words(5, 0.5, 20), &words(20, 0.05, 21), Codec::Gaps), [(0, 40), (1, 160)])
}

#[test]
fn every_flipped_bit_is_found() {
    let (mut file, raw) = small();
    read_all(&file, &raw).unwrap();
    for bit in 0..file.len() * 8 {
        file[bit / 8] ^= 1 << (bit % 8);
        let error = read_all(&file, &raw).err().unwrap_or_else(|| panic!("bit {bit} of the file was not found"));
        let kinds = [ErrorKind::Corrupt, ErrorKind::NotAFilter, ErrorKind::Version, ErrorKind::Truncated];
        assert!(kinds.contains(&error.kind()), "bit {bit}: {error}");
        assert!(stream_all(&file[..], &raw).is_err(), "bit {bit} of the stream was not found");
        file[bit / 8] ^= 1 << (bit % 8);
    }
    read_all(&file, &raw).unwrap();
}

#[test]
fn every_cut_is_found() {
    let (file, raw) = small();
    for length in 0..file.len() {
        let kind = if length == 0 { ErrorKind::NotAFilter } else { ErrorKind::Truncated };
        refused(read_all(&file[..length], &raw), kind, "");
        refused(stream_all(&file[..length], &raw).map(|(payloads, _)| payloads), kind, "");
    }
}

#[test]
fn errors_say_where() {
    let (file, raw) = small();
    let at = |offset: usize| {
        let mut bad = file.clone();
        bad[offset] ^= 0x80;
        read_all(&bad, &raw).map(|_| ())
    };
    let sections = Frame::parse(&file, file.len() as u64).unwrap();
    let find = |kind, part| sections.find(kind, part).unwrap().offset as usize;
    refused(at(40), ErrorKind::Corrupt, "header and section table (offset 0 to");
    refused(at(find(SectionType::SHAPE, 0)), ErrorKind::Corrupt, "SHAPE of part 0 (offset");
    refused(at(find(SectionType::CHUNK_SUMS, 1)), ErrorKind::Corrupt, "CHUNK_SUMS of part 1");
    let payload = find(SectionType::PAYLOAD, 1);
    refused(at(payload), ErrorKind::Corrupt, &format!("PAYLOAD of part 1, chunk 0 (file offset {payload})"));
    refused(at(payload - 1), ErrorKind::Corrupt, "in the padding before PAYLOAD of part 1");
    refused(read_all(&file[..payload + 3], &raw), ErrorKind::Truncated, "bytes found");
    refused(stream_all(&file[..payload + 3], &raw).map(|_| ()), ErrorKind::Truncated, "inside PAYLOAD of part 1");
}

#[test]
fn strangers_are_named() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "the input is empty"),
        (b"\x1f\x8b\x08\0\0\0\0\0", "gzip"),
        (b"PK\x03\x04\x14\0\0\0\0\0", "zip"),
        (b"PAR1\x15\x04\x15\x10", "Parquet"),
        (b"REDIS0011\xfa\x09redis-ver", "Redis snapshot"),
        (b"http://example.com/\nhttp://example.org/\n", "text"),
        ("ключ\nключ".as_bytes(), "text"),
        (b"\x89BGF\n\x1a\n\x01\0\x01\0", "text-mode"),
        (b"\x89BGF\r\r\n\x1a\r\n\x01\0\x01\0", "text-mode"),
        (b"\x09BGF\r\n\x1a\n", "7-bit"),
        (b"\x03\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\x02\0\0\0\x90\0\0\0", "RedisBloom"),
        (b"\x01\x07\0\0\x27\x10\xff\xff\xff\xff", "Guava"),
        (b"\xde\xad\xbe\xef\0\0\0\0\0", "begins de ad be ef 00 00 00 00 instead of"),
    ];
    for (bytes, says) in cases {
        refused(MemoryFile::open(bytes, Limits::default()), ErrorKind::NotAFilter, says);
        refused(SectionReader::new(*bytes, Limits::default()), ErrorKind::NotAFilter, says);
    }
    refused(MemoryFile::open(b"\x89BGF", Limits::default()), ErrorKind::Truncated, "4 bytes found");
}

#[test]
fn limits_are_kept() {
    let (file, _) = small();
    let mut limits = Limits::payload(100);
    refused(MemoryFile::open(&file, limits), ErrorKind::LimitExceeded, "100 are allowed");
    limits = Limits { max_head_bytes: 20, ..Limits::default() };
    refused(SectionReader::new(&file[..], limits), ErrorKind::LimitExceeded, "max_head_bytes");
    assert_eq!(Limits::for_file(1 << 40).max_payload_bytes, 1 << 43);
    assert_eq!(Limits::for_file(10).max_payload_bytes, 1 << 30);
    // Coded payloads count as what they become.
    let zeros = vec![0u64; 8192 * 4];
    let zeros = &zeros[..];
    let mut file = Vec::new();
    FrameWriter::new().payload(0, &zeros, Codec::Gaps).payload(1, &zeros, Codec::Gaps).write_to(&mut file).unwrap();
    let raw = [(0, 1 << 18), (1, 1 << 18)];
    let tight = MemoryFile::open(&file, Limits::payload(1 << 18)).unwrap();
    refused(tight.head().expect_payloads(raw), ErrorKind::LimitExceeded, "524288 bytes");
    MemoryFile::open(&file, Limits::payload(1 << 19)).unwrap().head().expect_payloads(raw).unwrap();
}

#[test]
fn a_claimed_length_allocates_nothing() {
    // T58: a header that claims 2^60 bytes and ends. The reader counts what it is asked to fill.
    struct Claims<'a>(&'a [u8], usize);
    impl std::io::Read for Claims<'_> {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.1 = self.1.max(buf.len());
            self.0.read(buf)
        }
    }
    let section = |kind, flags, length| Section {
        kind,
        part: 0,
        flags: SectionFlags(flags),
        codec: 0,
        offset: 0,
        length,
        crc: 0,
    };
    let huge = 1u64 << 60;
    let sums = section(SectionType::CHUNK_SUMS, 1, huge / 65536 * 4);
    let frames = [
        vec![section(SectionType::SHAPE, 1, huge)],
        vec![section(SectionType(9), 0, huge)],
        vec![sums, section(SectionType::PAYLOAD, 3, huge)],
    ];
    for sections in frames {
        let file = Frame::lay_out(sections).unwrap().to_bytes();
        let limits = Limits { max_head_bytes: u64::MAX, ..Limits::payload(u64::MAX) };
        let mut reader = Claims(&file, 0);
        refused(SectionReader::new(&mut reader, limits), ErrorKind::Truncated, "the file ends at");
        assert!(reader.1 <= CHUNK_LEN, "asked for {} bytes at once", reader.1);
        refused(MemoryFile::open(&file, limits), ErrorKind::Truncated, "ends too early");
    }
    for bytes in [&b"\x00\x01\x7f\xff\xff\xff"[..], &MAGIC, &[0xff; 6]] {
        assert!(SectionReader::new(bytes, Limits::default()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), magic: bool) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 12 {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..12].copy_from_slice(&[1, 0, 1, 0]);
        }
        prop_assert!(read_all(&bytes, &[(0, 40), (1, 160)]).is_err());
    }

    /// Changes bytes of header and table and makes the checksum right again: only the cross-checks are left.
    #[test]
    fn a_resealed_table_never_panics_and_never_lies(
        changes in prop::collection::vec((8usize..64 + 32 * 8, prop::sample::select(vec![0u8, 1, 2, 3, 4, 0x40, 0x80, 0xff])), 1..4),
    ) {
        let (good, raw) = small();
        let mut file = good.clone();
        for (at, value) in changes {
            file[at] = value;
        }
        if file[12..16] == good[12..16] {
            reseal(&mut file);
        }
        let expected = read_all(&good, &raw).unwrap();
        prop_assert!(read_all(&file, &raw).map_or(true, |payloads| payloads == expected));
        prop_assert!(stream_all(&file[..], &raw).map_or(true, |(payloads, _)| payloads == expected));
    }

    #[test]
    fn a_mutated_file_never_panics_and_never_lies(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (good, raw) = small();
        let mut file = good.clone();
        for (at, value) in changes {
            file[at.index(good.len())] = value;
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(good.len()));
        }
        match read_all(&file, &raw) {
            Ok(_) => prop_assert_eq!(file, good),
            Err(_) => prop_assert_ne!(file, good),
        }
    }
}
