//! Gap coding: exact, close to the entropy where it is used, and deaf to lies.

use proptest::prelude::*;

use super::*;

fn entropy(fill: f64) -> f64 {
    let h = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    h(fill) + h(1.0 - fill)
}

#[test]
fn every_fill_comes_back() {
    for fill in [0.0, 1e-4, 0.01, 0.05, 0.1, 0.5, 0.9, 1.0] {
        for count in [1, 7, 8192, 8193, 30_000] {
            let raw = to_bytes(&words(count, fill, 11));
            let coded = gaps::encode(&raw);
            assert_eq!(gaps::decode(&coded, raw.len() as u64).unwrap(), raw, "fill {fill}, {count} words");
            let records = raw.len().div_ceil(CHUNK_LEN);
            assert!(coded.len() <= raw.len() + 8 + 8 * records, "never much longer than raw");
            assert!(raw.len() as u64 <= gaps::max_raw_len(coded.len() as u64));
        }
    }
    assert_eq!(gaps::decode(&gaps::encode(b""), 0).unwrap(), b"");
}

#[test]
fn the_size_is_within_six_percent_of_the_entropy() {
    for fill in [0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2] {
        let words = words(1 << 17, fill, 12);
        let raw = to_bytes(&words);
        let ones: u64 = words.iter().map(|w| u64::from(w.count_ones())).sum();
        let ideal = entropy(ones as f64 / (raw.len() * 8) as f64) * raw.len() as f64;
        let ratio = gaps::encode(&raw).len() as f64 / ideal;
        assert!((1.0..1.06).contains(&ratio), "fill {fill}: {ratio}");
    }
}

#[test]
fn only_what_shrinks_to_three_quarters_is_worth_it() {
    for (fill, worth) in [(0.0, true), (0.1, true), (0.2, true), (0.21, false), (0.5, false), (1.0, false)] {
        assert_eq!(gaps::worth_it(fill), worth, "{fill}");
    }
    assert!(!gaps::worth_it(f64::NAN) && !gaps::worth_it(-0.1));
    let raw = to_bytes(&words(1 << 15, gaps::MAX_FILL, 13));
    assert!(gaps::encode(&raw).len() * 4 <= raw.len() * 3);
}

#[test]
fn the_bytes_are_frozen() {
    // By hand from the diagram: 4 bytes with bits 3 and 20 set, so gaps 3 and 16. The divisors tried are
    // 2^2, 2^3 and 2^4 (32 bits / 2 ones):
    //   k=2: (0+3) + (4+3) = 10 bits   k=3: (0+4) + (2+4) = 10 bits   k=4: (0+5) + (1+5) = 11 bits
    // Equal sizes take the lower k = 2: "0" "11" then "11110" "00" → bits 0,1,1,1,1,1,1,0,0,0.
    let raw = [0b0000_1000, 0, 0b0001_0000, 0];
    let expected = [4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 2, 2, 0, 0, 0, 0b0111_1110, 0];
    assert_eq!(gaps::encode(&raw), expected);
    // Dense: the chunk itself.
    assert_eq!(gaps::encode(&[0xff, 0xfe]), [2, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 255, 15, 0, 0, 0, 0xff, 0xfe]);
}

#[test]
fn hostile_streams_are_refused() {
    let good = gaps::encode(&to_bytes(&words(100, 0.05, 14)));
    assert!(gaps::decode(&good, 800).is_ok());
    refused(gaps::decode(&good, 799), ErrorKind::Corrupt, "says 800 raw bytes, 799 expected");
    for cut in 0..good.len() {
        refused(gaps::decode(&good[..cut], 800), ErrorKind::Corrupt, "expected from the shape");
    }
    let more = [&good[..], &[0]].concat();
    refused(gaps::decode(&more, 800), ErrorKind::Corrupt, "after its last record");
    let with = |at: usize, value: u8| {
        let mut bad = good.clone();
        bad[at] = value;
        gaps::decode(&bad, 800)
    };
    refused(with(11, 20), ErrorKind::Corrupt, "method 20");
    refused(with(11, 254), ErrorKind::Corrupt, "method 254");
    refused(with(11, 255), ErrorKind::Corrupt, "method 255 with");
    refused(with(10, 1), ErrorKind::Corrupt, "for 800 raw bytes");
    refused(with(14, 1), ErrorKind::Corrupt, "ones for 800 raw bytes");
    refused(with(12, good[12] + 1), ErrorKind::Corrupt, "raw byte 0");
    refused(with(12, good[12] - 1), ErrorKind::Corrupt, "raw byte 0");
    // Unary without end, a gap just past the end, trailing bits, a raw chunk with another count.
    let record = |raw_len: u64, len: u8, method: u8, ones: u8, body: &[u8]| {
        let coded = [&raw_len.to_le_bytes()[..], &[len, 0, 0, method, ones, 0, 0, 0], body].concat();
        gaps::decode(&coded, raw_len)
    };
    refused(record(64, 60, 0, 1, &[0xff; 60]), ErrorKind::Corrupt, "ends inside a gap");
    refused(record(16, 15, 2, 1, &[0xff; 15]), ErrorKind::Corrupt, "past the end of its chunk");
    assert_eq!(record(2, 1, 4, 1, &[0b1_1110]).unwrap(), [0, 0x80]);
    refused(record(2, 1, 4, 2, &[0b1_1110]), ErrorKind::Corrupt, "past the end of its chunk");
    refused(record(2, 1, 4, 1, &[0b10_0001]), ErrorKind::Corrupt, "past the end of its chunk");
    refused(record(2, 1, 4, 1, &[0b11_1110]), ErrorKind::Corrupt, "not zero");
    refused(record(3, 2, 4, 1, &[0b1_1110, 0]), ErrorKind::Corrupt, "bytes after the last gap");
    refused(record(1, 1, 255, 2, &[1]), ErrorKind::Corrupt, "set bits");
    refused(record(9, 0, 0, 1, &[]), ErrorKind::Corrupt, "ends inside a gap");
}

#[test]
fn a_lying_length_is_refused_before_it_is_believed() {
    let bits = words(8192, 0.0, 15);
    let bits = &bits[..];
    let mut file = Vec::new();
    FrameWriter::new().payload(0, &bits, Codec::Gaps).write_to(&mut file).unwrap();
    let file = MemoryFile::open(&file, Limits::default()).unwrap();
    file.head().expect_payloads([(0, 65536)]).unwrap();
    refused(file.head().expect_payloads([(0, 65537)]), ErrorKind::Corrupt, "at most 65536 raw bytes");
    refused(file.payload(0).unwrap().read(1 << 60, &mut |_, _| Ok(())), ErrorKind::LimitExceeded, "max_payload_bytes");
    assert_eq!(gaps::max_raw_len(0), 0);
    assert_eq!(gaps::max_raw_len(u64::MAX), u64::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn arbitrary_streams_never_panic_and_never_grow(
        raw_len in 0u64..300_000,
        records in prop::collection::vec((0usize..40, 0u8..22, 0u32..60, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
    ) {
        let mut coded = raw_len.to_le_bytes().to_vec();
        for (len, method, ones, body) in records {
            coded.extend_from_slice(&(len as u32).to_le_bytes()[..3]);
            coded.push(if method > 20 { 255 } else { method });
            coded.extend_from_slice(&ones.to_le_bytes());
            coded.extend_from_slice(&body);
        }
        if let Ok(raw) = gaps::decode(&coded, raw_len) {
            prop_assert_eq!(raw.len() as u64, raw_len);
        }
    }

    #[test]
    fn a_decoded_stream_is_what_its_ones_say(bytes in prop::collection::vec(prop::sample::select(vec![0u8, 0, 0, 0, 1, 16, 129]), 0..3000), cut in 1usize..50) {
        let coded = gaps::encode(&bytes);
        let mut decoder = gaps::Decoder::new(bytes.len() as u64);
        let mut out = Vec::new();
        for piece in coded.chunks(cut) {
            decoder.feed(piece, &mut |at, raw| {
                assert_eq!(at, out.len() as u64);
                out.extend_from_slice(raw);
                Ok(())
            }).unwrap();
        }
        decoder.finish().unwrap();
        prop_assert_eq!(out, bytes);
    }
}
