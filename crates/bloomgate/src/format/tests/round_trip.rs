//! What is written comes back: from memory, from streams of any rhythm, with what follows left alone.

use std::io::{self, Read};

use proptest::prelude::*;

use super::*;

/// Gives one byte at a time, and an interruption before each third one.
struct Slow<R>(R, u32);

impl<R: Read> Read for Slow<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let end = buf.len().min(1);
        self.0.read(&mut buf[..end])
    }
}

#[test]
fn memory_and_stream_give_back_what_was_written() {
    for (first, second) in [(1, 1), (8192, 8193), (20_000, 3)] {
        for codec in [Codec::Raw, Codec::Gaps] {
            let (a, b) = (words(first, 0.5, 1), words(second, 0.02, 2));
            let file = sample(&a, &b, codec);
            let raw = [(0, 8 * first as u64), (1, 8 * second as u64)];
            let expected = vec![to_bytes(&a), to_bytes(&b)];
            assert_eq!(read_all(&file, &raw).unwrap(), expected);
            assert_eq!(stream_all(&file[..], &raw).unwrap().0, expected);
            let head = SectionReader::new(&file[..], Limits::default()).unwrap();
            assert_eq!(head.head().get(SectionType(0x8001), 0), Some(&b"note"[..]));
            assert_eq!(head.head().get(SectionType::SENTINELS, 0), None);
            refused(head.head().body(SectionType::SENTINELS, 0), ErrorKind::Corrupt, "SENTINELS of part 0");
        }
    }
}

#[test]
fn one_byte_at_a_time_reads_the_same_and_leaves_the_rest() {
    // T57: short reads must not end a filter early, and what follows must not be eaten.
    let (a, b) = (words(9000, 0.5, 3), words(9000, 0.01, 4));
    let mut file = sample(&a, &b, Codec::Gaps);
    let end = file.len();
    file.extend_from_slice(b"what follows");
    let raw = [(0, 72_000), (1, 72_000)];
    let (payloads, rest) = stream_all(Slow(io::Cursor::new(&file), 0), &raw).unwrap();
    assert_eq!(payloads, [to_bytes(&a), to_bytes(&b)]);
    assert_eq!(rest.0.position(), end as u64);

    let (whole, rest) = MemoryFile::open_prefix(&file, Limits::default()).unwrap();
    whole.verify().unwrap();
    assert_eq!(rest, b"what follows");
    refused(MemoryFile::open(&file, Limits::default()), ErrorKind::Corrupt, "12 bytes after the end");
}

#[test]
fn payloads_left_out_are_still_verified() {
    let mut file = sample(&words(100, 0.5, 5), &words(100, 0.5, 6), Codec::Raw);
    let mut reader = SectionReader::new(&file[..], Limits::default()).unwrap();
    reader.read_payload(1, 800, &mut |_, _| Ok(())).unwrap();
    refused(reader.read_payload(0, 800, &mut |_, _| Ok(())), ErrorKind::InvalidParameter, "after a later one");
    reader.finish().unwrap();
    let last = file.len() - 1;
    file[last] ^= 1;
    let reader = SectionReader::new(&file[..], Limits::default()).unwrap();
    refused(reader.finish(), ErrorKind::Corrupt, "PAYLOAD of part 1, chunk 0");
}

#[test]
fn the_order_of_adding_does_not_matter() {
    let bits = words(10, 0.5, 7);
    let bits = &bits[..];
    let mut one = FrameWriter::new();
    one.section(SectionType::SHAPE, 0, vec![1]).section(SectionType::CONTRACT, 0, vec![2]);
    one.payload(0, &bits, Codec::Raw).payload(3, &bits, Codec::Raw).section(SectionType::SHAPE, 3, vec![3]);
    let mut other = FrameWriter::new();
    other.payload(3, &bits, Codec::Raw).section(SectionType::SHAPE, 3, vec![3]).payload(0, &bits, Codec::Raw);
    other.section(SectionType::CONTRACT, 0, vec![2]).section(SectionType::SHAPE, 0, vec![1]);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    assert_eq!(one.write_to(&mut a).unwrap(), other.write_to(&mut b).unwrap());
    assert_eq!(a, b);
    for section in MemoryFile::open(&a, Limits::default()).unwrap().head().frame().sections() {
        assert_eq!(section.offset % 64, 0);
    }
}

#[test]
fn what_cannot_be_written_is_refused() {
    let (bits, none) = (&[1u64][..], &[][..] as &[u64]);
    let mut out = Vec::new();
    refused(FrameWriter::new().write_to(&mut out), ErrorKind::InvalidParameter, "0 sections");
    refused(FrameWriter::new().payload(0, &none, Codec::Raw).write_to(&mut out), ErrorKind::InvalidParameter, "empty");
    let kinds = [SectionType::PAYLOAD, SectionType::CHUNK_SUMS, SectionType(8), SectionType(0), SectionType(0x7fff)];
    for kind in kinds {
        let mut file = FrameWriter::new();
        refused(file.section(kind, 0, vec![1]).write_to(&mut out), ErrorKind::InvalidParameter, "cannot be added");
    }
    let mut empty = FrameWriter::new();
    refused(empty.section(SectionType::SHAPE, 0, vec![]).write_to(&mut out), ErrorKind::InvalidParameter, "not empty");
    let mut twice = FrameWriter::new();
    twice.payload(4, &bits, Codec::Raw).payload(4, &bits, Codec::Gaps);
    refused(twice.write_to(&mut out), ErrorKind::InvalidParameter, "twice");
    let mut many = FrameWriter::new();
    for part in 0..=4096 {
        many.section(SectionType::SHAPE, part, vec![1]);
    }
    refused(many.write_to(&mut out), ErrorKind::InvalidParameter, "4097 sections");
    assert_eq!(out, b"", "nothing is written before everything is checked");
}

#[test]
fn a_filter_that_changes_while_it_is_written_is_an_error() {
    struct Moving(std::cell::Cell<u8>);
    impl PayloadSource for Moving {
        fn byte_len(&self) -> u64 {
            100_000
        }
        fn fill(&self, _: u64, out: &mut [u8]) {
            self.0.set(self.0.get() + 1);
            out.fill(self.0.get());
        }
    }
    let moving = Moving(std::cell::Cell::new(0));
    let mut file = FrameWriter::new();
    refused(file.payload(0, &moving, Codec::Raw).write_to(&mut io::sink()), ErrorKind::Corrupt, "changed while");
}

#[test]
fn writing_and_reading_report_what_the_system_refuses() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(buf.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(buf.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let bits = words(20_000, 0.5, 8);
    let bits = &bits[..];
    let mut file = FrameWriter::new();
    refused(file.payload(0, &bits, Codec::Raw).write_to(&mut Full(100_000)), ErrorKind::Io, "at offset 65728");
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::ConnectionReset.into())
        }
    }
    refused(SectionReader::new(Broken, Limits::default()), ErrorKind::Io, "at offset 0");
}

#[test]
fn the_address_is_the_same_read_as_written() {
    let file = sample(&words(9, 0.5, 9), &words(9000, 0.5, 10), Codec::Raw);
    let mut reader = SectionReader::new(Addressing::new(&file[..]), Limits::default()).unwrap();
    reader.read_payload(0, 72, &mut |_, _| Ok(())).unwrap();
    let address = reader.finish().unwrap().address();
    assert_eq!(address, Address::of(&file));
    let text = address.to_string();
    assert_eq!((text.len(), text.parse::<Address>().unwrap()), (64, address));
    assert_eq!(text.to_uppercase().parse::<Address>().unwrap(), address);
    for wrong in ["", &text[1..], &text.replace(&text[..1], "g"), &format!("+{}", &text[1..]), &"é".repeat(32)] {
        refused(wrong.parse::<Address>(), ErrorKind::InvalidParameter, "64 hexadecimal digits");
    }
    refused(address.expect(Address([0; 32])), ErrorKind::Corrupt, "was asked for");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_payload_of_any_length_comes_back(bytes in prop::collection::vec(any::<u8>(), 1..70_000), coded: bool) {
        let source = &bytes[..];
        let codec = if coded { Codec::Gaps } else { Codec::Raw };
        let mut file = Vec::new();
        FrameWriter::new().payload(0, &source, codec).write_to(&mut file).unwrap();
        prop_assert_eq!(&read_all(&file, &[(0, bytes.len() as u64)]).unwrap()[0], &bytes);
    }
}
