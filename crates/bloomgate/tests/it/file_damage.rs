//! Damaged and forged files: an error, or (mapped, in the bits) a "maybe"; never a wrong "no" and never a panic.

use bloomgate::format::{self, Codec, FrameWriter, Limits, MemoryFile, SectionReader, SectionType, inspect_bytes};
use bloomgate::*;

use super::file::{key, samples, with_secret};

#[test]
fn every_truncation_is_an_error() {
    for (name, filter, _) in samples() {
        let bytes = filter.to_bytes().unwrap();
        let options = with_secret();
        for length in 0..bytes.len() {
            let cut = &bytes[..length];
            for error in [
                AnyFilter::from_bytes_with(cut, &options).unwrap_err(),
                AnyFilter::read_from(cut, &options).unwrap_err(),
                AnyFilter::map_bytes(cut, &options).unwrap_err(),
                inspect_bytes(cut).unwrap_err(),
            ] {
                let expected = if length == 0 { ErrorKind::NotAFilter } else { ErrorKind::Truncated };
                assert_eq!(error.kind(), expected, "{name} cut at {length}: {error}");
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_an_error_or_a_maybe() {
    // One of each kind, one with a secret and one with spare bits: the others differ in numbers alone.
    let mut seen = std::collections::HashSet::new();
    for (name, filter, keys) in samples() {
        if !seen.insert(filter.kind()) && !["blocked, keyed", "classic of 100 bits"].contains(&name) {
            continue;
        }
        let good = filter.to_bytes().unwrap();
        let options = with_secret();
        let file = MemoryFile::open(&good, Limits::default()).unwrap();
        let payloads: Vec<_> = file.head().payloads().map(|section| section.offset..section.end()).collect();
        let mut bytes = good.clone();
        let mut maybes = 0;
        for bit in 0..good.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(AnyFilter::from_bytes_with(&bytes, &options).is_err(), "{name}: bit {bit}");
            match AnyFilter::map_bytes(&bytes, &options) {
                Err(_) => {}
                Ok(mapped) => {
                    assert!(payloads.iter().any(|p| p.contains(&(bit as u64 / 8))), "{name}: bit {bit}");
                    for i in 0..keys {
                        assert!(mapped.contains(&key(i)).unwrap(), "{name}: bit {bit} makes a wrong no for {i}");
                    }
                    // A chain asks its last stage first, and a key that is found there touches no other.
                    assert!(mapped.verify_all(|_, _| ()).is_err(), "{name}: bit {bit}");
                    let damage = mapped.damage().expect("verified and refused, but not told");
                    assert!((damage.offset..damage.offset + damage.length).contains(&(bit as u64 / 8)));
                    assert!(mapped.to_bytes().is_err(), "{name}: damage must not get fresh checksums");
                    if bit % 61 == 0 {
                        assert!(!inspect_bytes(&bytes).unwrap().is_intact(), "{name}: bit {bit}");
                    }
                    maybes += 1;
                }
            }
            bytes[bit / 8] = good[bit / 8];
        }
        let payload_bits: u64 = payloads.iter().map(|p| (p.end - p.start) * 8).sum();
        assert_eq!(maybes, payload_bits, "{name}: all payload bits, and no other");
    }
}

/// A damaged chunk answers "maybe" to whoever touches it; the rest of the file goes on answering, also in batches.
#[test]
fn one_bad_chunk_of_a_mapped_file_costs_only_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bloom");
    let mut filter = Blocked::builder().items(1_000_000).keys::<u64>().build().unwrap();
    filter.insert_all(0..1_000_000u64).unwrap();
    filter.save(&path).unwrap();
    let good = Blocked::map(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let payload = format::inspect(&path).unwrap().sections.last().unwrap().section;
    let bad_chunk = 7;
    bytes[payload.offset as usize + bad_chunk * 65536 + 100] ^= 4;
    std::fs::write(dir.path().join("bad.bloom"), &bytes).unwrap();
    let bad = Blocked::map(dir.path().join("bad.bloom")).unwrap();
    assert_eq!(bad.damage(), None, "nothing was touched yet");
    let keys: Vec<u64> = (0..2_000_000).collect();
    let (mut expected, mut found) = (vec![false; keys.len()], vec![false; keys.len()]);
    good.contains_batch(&keys, &mut expected).unwrap();
    bad.contains_batch(&keys, &mut found).unwrap();
    assert!(expected.iter().zip(&found).all(|(&good, &bad)| bad || !good));
    // A key touches one line, so one in 20 chunks makes one in 20 absent keys a maybe: 1,270,000 bytes are 20 chunks.
    let more = expected.iter().zip(&found).filter(|(good, bad)| good != bad).count();
    let chunks = payload.length.div_ceil(65536) as usize;
    let share = 990_000 / chunks;
    assert!((share * 9 / 10..share * 11 / 10).contains(&more), "{more} of about {share}");
    assert_eq!(bad.damage().unwrap().chunk, bad_chunk as u64);
    for (key, found) in keys.iter().zip(&found).step_by(997) {
        assert_eq!(bad.contains(key).unwrap(), *found);
    }
    let refusal = bad.verify_all(|_, _| ()).unwrap_err();
    assert!(refusal.to_string().contains("chunk 7"), "{refusal}");
}

/// The same file with the bodies of some sections replaced (or left out), and all checksums right.
fn forged(bytes: &[u8], change: impl Fn(SectionType, u16, &[u8]) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut reader = SectionReader::from_slice(bytes, None).unwrap();
    let head = reader.head().clone();
    let mut payloads = Vec::new();
    for section in head.payloads() {
        let mut raw = Vec::new();
        reader
            .read_payload(section.part, section.length, &mut |_, bytes| {
                raw.extend_from_slice(bytes);
                Ok(())
            })
            .unwrap();
        payloads.extend(change(section.kind, section.part, &raw).map(|raw| (section.part, raw)));
    }
    let mut file = FrameWriter::new();
    for section in head.frame().sections() {
        if let Some(body) = head.get(section.kind, section.part).and_then(|b| change(section.kind, section.part, b)) {
            file.section(section.kind, section.part, body);
        }
    }
    let sources: Vec<(u16, &[u8])> = payloads.iter().map(|(part, raw)| (*part, &raw[..])).collect();
    for (part, source) in &sources {
        file.payload(*part, source, Codec::Raw);
    }
    let mut out = Vec::new();
    file.write_to(&mut out).unwrap();
    out
}

/// A body with one field set to other bytes, added or left out.
fn with_field(body: &[u8], number: u16, value: Option<&[u8]>) -> Vec<u8> {
    let mut fields = std::collections::BTreeMap::new();
    let mut rest = body;
    while let [t0, t1, l0, l1, after @ ..] = rest {
        let (now, later) = after.split_at(usize::from(u16::from_le_bytes([*l0, *l1])));
        fields.insert(u16::from_le_bytes([*t0, *t1]) & 0x7fff, now.to_vec());
        rest = later;
    }
    match value {
        Some(value) => drop(fields.insert(number, value.to_vec())),
        None => drop(fields.remove(&number)),
    }
    let field = |(number, value): (&u16, &Vec<u8>)| {
        [&(number | 0x8000).to_le_bytes()[..], &(value.len() as u16).to_le_bytes(), value].concat()
    };
    fields.iter().flat_map(field).collect()
}

fn set(bytes: &[u8], kind: SectionType, part: u16, number: u16, value: Option<&[u8]>) -> Vec<u8> {
    forged(bytes, |k, p, body| {
        Some(if (k, p) == (kind, part) { with_field(body, number, value) } else { body.to_vec() })
    })
}

#[track_caller]
fn refused(bytes: &[u8], kind: ErrorKind, says: &str) {
    for error in [
        AnyFilter::from_bytes_with(bytes, &with_secret()).expect_err(says),
        AnyFilter::map_bytes(bytes, &with_secret()).expect_err(says),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}\ndoes not say: {says}");
    }
}

fn sample(name: &str) -> (Vec<u8>, u64) {
    let (_, filter, keys) = samples().into_iter().find(|(found, ..)| *found == name).unwrap();
    (filter.to_bytes().unwrap(), keys)
}

/// T2 and its like: no number in a shape is believed, even with all checksums right.
#[test]
fn shapes_that_no_builder_makes_are_refused() {
    use ErrorKind::{Corrupt, Version};
    let u16s = |n: u16| n.to_le_bytes().to_vec();
    let u32s = |n: u32| n.to_le_bytes().to_vec();
    let u64s = |n: u64| n.to_le_bytes().to_vec();
    let f64s = |n: f64| n.to_le_bytes().to_vec();
    for (name, number, value, kind, says) in [
        ("classic", 1, u16s(0), Version, "kind number 0"),
        ("classic", 1, u16s(99), Version, "update Bloomgate"),
        ("classic", 1, u32s(1), Corrupt, "field 1"),
        ("classic", 2, u64s(0), Corrupt, "capacity of 0"),
        ("classic", 2, u64s(u64::MAX), Corrupt, "its bits keep"),
        ("classic", 3, f64s(1e-300), Corrupt, "its bits keep"),
        ("classic", 3, f64s(f64::NAN), Corrupt, "finite"),
        ("classic", 3, f64s(-0.5), Corrupt, "rate"),
        ("classic", 3, f64s(1.5), Corrupt, "rate"),
        ("classic", 4, u16s(0), Corrupt, "when full"),
        ("classic", 4, u16s(3), Corrupt, "when full"),
        ("classic", 16, u64s(0), Corrupt, "between 1 and 2^59 bits"),
        ("classic", 16, u64s(u64::MAX), Corrupt, "between 1 and 2^59 bits"),
        ("classic", 16, u64s(1 << 40), Corrupt, "the shape needs"),
        ("classic", 16, u64s(64), Corrupt, "the shape needs"),
        ("classic", 17, u32s(0), Corrupt, "between 1 and 64 hashes"),
        ("classic", 17, u32s(65), Corrupt, "between 1 and 64 hashes"),
        ("classic", 17, u64s(7), Corrupt, "field 17 has 8 bytes"),
        ("classic", 18, u64s(7), Version, "field 18 is critical"),
        ("classic", 99, u64s(7), Version, "field 99 is critical"),
        ("blocked", 18, u64s(0), Corrupt, "lines"),
        ("blocked", 18, u64s(1 << 51), Corrupt, "lines"),
        ("blocked", 18, u64s(5), Corrupt, "the shape needs"),
        ("blocked", 19, u32s(0), Corrupt, "uses 1 to 8 lines"),
        ("blocked", 19, u32s(9), Corrupt, "uses 1 to 8 lines"),
        ("blocked", 20, u16s(2), Corrupt, "paired"),
        ("partitioned", 17, u32s(0), Corrupt, "hashes"),
        ("partitioned", 21, u64s(0), Corrupt, "bits"),
        ("partitioned", 21, u64s(1 << 58), Corrupt, "bits"),
        ("counting", 20, u16s(0), Corrupt, "always paired"),
        ("counting", 22, u16s(5), Corrupt, "counters of 5 bits"),
        ("counting", 22, u16s(8), Corrupt, "the shape needs"),
        ("counting", 18, u64s(1 << 50), Corrupt, "the shape needs"),
        ("scalable", 2, u64s(1 << 41), Corrupt, "2^40"),
        ("scalable", 2, u64s(21), Corrupt, "rule"),
        ("scalable", 3, f64s(0.0), Corrupt, "between 0 and 1"),
        ("scalable", 3, f64s(0.02), Corrupt, "rule"),
        ("scalable", 4, u16s(4), Corrupt, "when full"),
        ("scalable", 32, u16s(5), Corrupt, "stages of kind 5"),
        ("scalable", 32, u16s(4), Corrupt, "stages of kind 4"),
        ("scalable", 32, u16s(3), Corrupt, "stage in a chain of partitioned"),
        ("scalable", 33, u16s(0), Corrupt, "chain of 0 stages"),
        ("scalable", 33, u16s(65), Corrupt, "chain of 65 stages"),
        ("scalable", 33, u16s(1), Corrupt, "no such section"),
        ("scalable", 33, u16s(60), Corrupt, "no SHAPE of part"),
        ("scalable", 34, f64s(0.5), Corrupt, "1 to 32768"),
        ("scalable", 34, f64s(3.0), Corrupt, "rule"),
        ("scalable", 34, f64s(f64::INFINITY), Corrupt, "finite"),
        ("scalable", 35, u16s(0), Corrupt, "tightening"),
        ("scalable", 35, u16s(4), Corrupt, "tightening"),
        ("scalable", 36, u32s(0), Corrupt, "does not share out"),
        ("scalable", 38, f64s(1.0), Corrupt, "does not share out"),
    ] {
        refused(&set(&sample(name).0, SectionType::SHAPE, 0, number, Some(&value)), kind, says);
    }
    let (chain, _) = sample("scalable");
    refused(&set(&chain, SectionType::SHAPE, 2, 1, Some(&u16s(5))), Corrupt, "scalable stage in a chain");
    refused(&set(&chain, SectionType::SHAPE, 2, 2, Some(&u64s(1000))), Corrupt, "rule");
    refused(&set(&chain, SectionType::SHAPE, 2, 3, Some(&f64s(0.5))), Corrupt, "rule");
    refused(&set(&chain, SectionType::SHAPE, 2, 4, Some(&u16s(2))), Corrupt, "rule");
    for number in [1, 2, 3, 4, 16, 17] {
        let says = format!("field {number}");
        refused(&set(&sample("classic").0, SectionType::SHAPE, 0, number, None), Corrupt, &says);
    }
}

#[test]
fn files_with_too_little_or_too_much_are_refused() {
    let (bytes, _) = sample("classic");
    for kind in [SectionType::CONTRACT, SectionType::SHAPE, SectionType::COUNTS, SectionType::SENTINELS] {
        let without = forged(&bytes, |k, _, body| (k != kind).then(|| body.to_vec()));
        refused(&without, ErrorKind::Corrupt, &format!("no {kind} of part 0"));
    }
    let without = forged(&bytes, |k, _, body| (k != SectionType::PAYLOAD).then(|| body.to_vec()));
    refused(&without, ErrorKind::Corrupt, "no PAYLOAD");
    let long =
        forged(&bytes, |k, _, body| Some([body, if k == SectionType::PAYLOAD { &[0; 8][..] } else { &[] }].concat()));
    refused(&long, ErrorKind::Corrupt, "the shape needs");
    // Bits after the end of a filter of 100 bits.
    let (bytes, _) = sample("classic of 100 bits");
    for bit in [100, 101, 127] {
        let spare = forged(&bytes, |k, _, body| {
            let mut body = body.to_vec();
            if k == SectionType::PAYLOAD {
                body[bit / 8] |= 1 << (bit % 8);
            }
            Some(body)
        });
        refused(&spare, ErrorKind::Corrupt, "after the end of the filter");
    }
    // A second filter in the same file that nobody asked for.
    let (chain, _) = sample("scalable");
    let fewer = forged(&chain, |k, p, body| ((k, p) != (SectionType::COUNTS, 2)).then(|| body.to_vec()));
    refused(&fewer, ErrorKind::Corrupt, "no COUNTS of part 2");
}

/// T55: a count may be anything; no answer depends on it.
#[test]
fn no_count_decides_an_answer() {
    for (name, filter, keys) in samples() {
        let chain = [Kind::Scalable, Kind::Rotating, Kind::GrowingCuckoo].contains(&filter.kind());
        let parts = if chain { 1..=2 } else { 0..=0 };
        // Kinds that know how many keys they can hold, or count in another place too, refuse what cannot be.
        let exact = filter.kind().is_foreign() || !filter.kind().takes_inserts() || filter.kind().takes_removals();
        for len in [0u64, 1, 1 << 56] {
            let mut bytes = filter.to_bytes().unwrap();
            for part in parts.clone() {
                bytes = set(&bytes, SectionType::COUNTS, part, 1, Some(&len.to_le_bytes()));
            }
            let loaded = match AnyFilter::from_bytes_with(&bytes, &with_secret()) {
                Err(error) if exact => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
                    continue;
                }
                loaded => loaded.unwrap_or_else(|error| panic!("{name}, {len} keys: {error}")),
            };
            let mapped = AnyFilter::map_bytes(&bytes, &with_secret()).unwrap();
            let mut batch = vec![false; keys as usize];
            loaded.contains_batch(&(0..keys).map(key).collect::<Vec<_>>(), &mut batch).unwrap();
            for i in 0..keys {
                assert!(loaded.contains(&key(i)).unwrap() && mapped.contains(&key(i)).unwrap(), "{name} {len}");
                assert!(batch[i as usize]);
            }
            assert!(loaded.len() >= len && loaded.expected_rate() <= 1.0, "{name}");
        }
    }
    let (bytes, _) = sample("blocked");
    for len in [(1u64 << 56) + 1, u64::MAX] {
        let absurd = set(&bytes, SectionType::COUNTS, 0, 1, Some(&len.to_le_bytes()));
        refused(&absurd, ErrorKind::Corrupt, "at most 2^56");
    }
}

#[test]
fn contracts_that_contradict_themselves_are_refused() {
    use ErrorKind::{Contract, Corrupt, Secret, Version};
    let contract = SectionType::CONTRACT;
    let (plain, _) = sample("classic");
    let (keyed, _) = sample("blocked, keyed");
    let u16s = |n: u16| n.to_le_bytes().to_vec();
    for (bytes, number, value, kind, says) in [
        (&plain, 1, Some(u16s(11)), Version, "hash number 11"),
        (&plain, 1, Some(u16s(2)), Corrupt, "no secret's id"),
        (&plain, 1, Some(u16s(5)), Contract, "sentinel"),
        (&plain, 2, Some(u16s(2)), Version, "version 2"),
        (&plain, 3, Some(u16s(11)), Version, "encoding number 11"),
        (&plain, 3, Some(vec![1]), Corrupt, "encoding"),
        (&plain, 3, Some(u16s(3)), Contract, "sentinel"),
        (&plain, 4, Some(1u64.to_le_bytes().to_vec()), Contract, "sentinel"),
        (&plain, 4, None, Corrupt, "field 4 is missing"),
        (&plain, 5, Some(vec![0; 8]), Corrupt, "one alone"),
        (&plain, 7, Some(vec![0; 8]), Version, "field 7 is critical"),
        (&keyed, 1, Some(u16s(1)), Corrupt, "a secret's id"),
        (&keyed, 1, Some(u16s(3)), Contract, "sentinel"),
        (&keyed, 4, Some(1u64.to_le_bytes().to_vec()), Corrupt, "seed"),
        (&keyed, 5, Some(vec![0; 8]), Secret, "0000000000000000"),
        (&keyed, 5, Some(vec![0; 7]), Corrupt, "field 5 has 7 bytes"),
        (&keyed, 5, None, Corrupt, "one alone"),
        (&keyed, 6, Some(vec![0; 8]), Secret, "check value"),
    ] {
        refused(&set(bytes, contract, 0, number, value.as_deref()), kind, says);
    }
    // Digests of another hash in the sentinels.
    let other = forged(&plain, |kind, _, body| {
        let mut body = body.to_vec();
        if kind == SectionType::SENTINELS {
            *body.last_mut().unwrap() ^= 1;
        }
        Some(body)
    });
    refused(&other, Contract, "producer and consumer hash differently");
    assert_eq!(inspect_bytes(&other).unwrap().sentinels_agree, Some(false));
}

/// T63: a newer version is an error that says so, before anything else is believed.
#[test]
fn newer_versions_are_refused_and_private_sections_passed_over() {
    let (mut bytes, keys) = sample("blocked");
    bytes[8..12].copy_from_slice(&[2, 0, 2, 0]);
    refused(&bytes, ErrorKind::Version, "update Bloomgate");
    let (bytes, _) = sample("blocked");
    let file = MemoryFile::open(&bytes, Limits::default()).unwrap();
    let mut more = FrameWriter::new();
    for section in file.head().frame().sections() {
        if let Some(body) = file.head().get(section.kind, section.part) {
            more.section(section.kind, section.part, body.to_vec());
        }
    }
    let payload = file.payload(0).unwrap().stored();
    more.section(SectionType(0x8001), 0, b"a note".to_vec()).payload(0, &payload, Codec::Raw);
    let mut noted = Vec::new();
    more.write_to(&mut noted).unwrap();
    let loaded = AnyFilter::from_bytes(&noted).unwrap();
    assert!((0..keys).all(|i| loaded.contains(&key(i)).unwrap()));
    assert_eq!(loaded.to_bytes().unwrap(), bytes, "the private section is not ours to keep");
}

/// Damaged counters are not turned into a plain filter with fresh checksums, nor counted.
#[test]
fn damaged_counters_are_neither_published_nor_counted() {
    let mut filter = Counting::builder().keys::<u64>().items(10_000).rate(0.01).build().unwrap();
    filter.insert_all(0..10_000u64).unwrap();
    let mut bytes = filter.to_bytes().unwrap();
    let whole = Counting::<Mapped>::map_bytes(&bytes, &OpenOptions::new()).unwrap();
    assert!(whole.to_plain().unwrap() == filter.to_plain().unwrap());
    assert!((0..10_000u64).all(|key| whole.count_estimate(&key).unwrap() > 0));
    let payload = bytes.len() - filter.size_in_bytes() as usize;
    bytes[payload + 5_000..payload + 9_000].fill(0);
    let hurt = Counting::<Mapped>::map_bytes(&bytes, &OpenOptions::new()).unwrap();
    assert_eq!(hurt.to_plain().unwrap_err().kind(), ErrorKind::Corrupt);
    for key in 0..10_000u64 {
        assert!(hurt.contains(&key).unwrap(), "a wrong no");
        match hurt.count_estimate(&key) {
            Ok(count) => assert!(count > 0),
            Err(refusal) => assert_eq!(refusal.kind(), ErrorKind::Corrupt),
        }
    }
    assert!(hurt.damage().is_some());
}
