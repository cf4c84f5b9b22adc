//! Deltas: the new file or nothing. Every kind, every way to say a difference, every order, and whatever strangers send.

use std::path::PathBuf;

use bloomgate::bits::Store;
use bloomgate::format::delta::{Delta, Method};
use bloomgate::format::{Codec, Compression, FieldWriter, FrameWriter, Limits, SectionType, Tag, inspect_bytes};
use bloomgate::*;

use crate::keys::Dice;

fn secret() -> Secret {
    Secret::from_bytes(std::array::from_fn(|i| i as u8))
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn digest<S: Store>(filter: &AnyFilter<S>, i: u64) -> Digest {
    filter.contract().digest(&format!("key-{i}")).unwrap()
}

/// A filter of the kind with 2,000 keys.
fn sample(kind: Kind) -> AnyFilter {
    let mut filter: AnyFilter = match kind {
        Kind::Classic => Classic::builder().items(3_000).build().unwrap().into(),
        Kind::Blocked => Blocked::builder().items(3_000).build().unwrap().into(),
        Kind::Partitioned => Partitioned::builder().items(3_000).build().unwrap().into(),
        Kind::Counting => Counting::builder().items(3_000).build().unwrap().into(),
        _ => Scalable::builder().items(500).build().unwrap().into(),
    };
    for i in 0..2_000 {
        filter.insert_digest(digest(&filter, i)).unwrap();
    }
    filter
}

const KINDS: [Kind; 5] = [Kind::Classic, Kind::Blocked, Kind::Partitioned, Kind::Counting, Kind::Scalable];

#[test]
fn every_kind_goes_from_file_to_file() {
    for kind in KINDS {
        let mut filter = sample(kind);
        let old = filter.to_bytes().unwrap();
        for more in [0u64, 1, 30, 1_500] {
            let added: Vec<Digest> = (0..more).map(|i| digest(&filter, 10_000 + i)).collect();
            let mut grown = filter.clone();
            for &digest in &added {
                grown.insert_digest(digest).unwrap();
            }
            let new = grown.to_bytes().unwrap();
            let (by_adding, made) = Delta::from_added(&old, &added).unwrap();
            assert!(made == new, "{kind} +{more}: one by one, as here");
            for delta in
                [Delta::between(&old, &new).unwrap(), Delta::between_added(&old, &new, &added).unwrap(), by_adding]
            {
                assert_eq!((delta.base(), delta.result()), (Address::of(&old), Address::of(&new)), "{kind} +{more}");
                assert_eq!((delta.base_len(), delta.result_len()), (old.len() as u64, new.len() as u64));
                let sent = delta.to_bytes().unwrap();
                let got = Delta::from_bytes(&sent).unwrap();
                assert_eq!(got, delta);
                assert!(got.apply(&old).unwrap() == new, "{kind} +{more}");
                assert!(got.apply(&new).unwrap() == new, "{kind} +{more}: twice is harmless");
                assert!(sent.len() <= new.len() + 384, "{kind} +{more}: {} bytes", sent.len());
            }
            let few = Delta::between_added(&old, &new, &added).unwrap();
            match more {
                1 => assert_eq!(few.method(), Method::Digests, "{kind} +{more}"),
                0 | 1_500 => assert_ne!(few.method(), Method::Digests, "{kind} +{more}"),
                // A counter that is raised flips about two bits, so that digests pay longer.
                _ => assert_eq!(few.method() == Method::Digests, kind == Kind::Counting, "{kind} +{more}"),
            }
        }
        if let AnyFilter::Counting(counting) = &mut filter {
            for i in 0..100 {
                assert!(counting.remove(&format!("key-{i}")).unwrap());
            }
            let new = filter.to_bytes().unwrap();
            let delta = Delta::between(&old, &new).unwrap();
            assert_eq!(delta.method(), Method::Bits);
            assert!(delta.apply(&old).unwrap() == new, "keys can go too");
        }
    }
}

/// Digests that were inserted in another order, or not all of them, lead to another file: never used.
#[test]
fn digests_that_lead_elsewhere_are_not_sent() {
    let mut filter = sample(Kind::Blocked);
    let old = filter.to_bytes().unwrap();
    filter.insert_digest(digest(&filter, 10_000)).unwrap();
    filter.insert_digest(digest(&filter, 10_001)).unwrap();
    let new = filter.to_bytes().unwrap();
    let one = [digest(&filter, 10_000)];
    let delta = Delta::between_added(&old, &new, &one).unwrap();
    assert_eq!(delta.method(), Method::Bits);
    assert!(delta.apply(&old).unwrap() == new);
}

/// Applied out of order or to another file: refused, with all three addresses named.
#[test]
fn deltas_apply_to_their_own_file_alone() {
    let mut filter = sample(Kind::Blocked);
    let mut versions = vec![filter.to_bytes().unwrap()];
    for i in 0..3 {
        filter.insert_digest(digest(&filter, 20_000 + i)).unwrap();
        versions.push(filter.to_bytes().unwrap());
    }
    let deltas: Vec<Delta> = versions.windows(2).map(|two| Delta::between(&two[0], &two[1]).unwrap()).collect();
    for (at, delta) in deltas.iter().enumerate() {
        for (version, file) in versions.iter().enumerate() {
            match delta.apply(file) {
                Ok(made) => {
                    assert!(version == at || version == at + 1, "delta {at} on version {version}");
                    assert!(made == versions[at + 1]);
                }
                Err(refusal) => {
                    assert!(version != at && version != at + 1, "delta {at} on version {version}: {refusal}");
                    assert_eq!(refusal.kind(), ErrorKind::InvalidParameter);
                    for address in [delta.base(), delta.result(), Address::of(file)] {
                        assert!(refusal.to_string().contains(&address.to_string()), "{refusal}");
                    }
                }
            }
        }
    }
    let mut damaged = versions[0].clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(deltas[0].apply(&damaged).unwrap_err().kind(), ErrorKind::InvalidParameter);
    assert_eq!(deltas[0].apply(&[]).unwrap_err().kind(), ErrorKind::InvalidParameter);
    let last = deltas.iter().try_fold(versions[0].clone(), |file, delta| delta.apply(&file)).unwrap();
    assert!(last == versions[3], "in order");
}

#[test]
fn files_are_changed_whole_or_not_at_all() {
    let folder = std::env::temp_dir().join(format!("bloomgate-delta-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, delta) = (folder.join("seen.bloom"), folder.join("seen.delta"));
    let mut filter = sample(Kind::Classic);
    let before = filter.save(&file).unwrap();
    let old = filter.to_bytes().unwrap();
    filter.insert("one more").unwrap();
    Delta::between(&old, &filter.to_bytes().unwrap()).unwrap().save(&delta).unwrap();
    let delta = Delta::open(&delta).unwrap();
    assert_eq!(delta.base(), before);
    let copy = folder.join("copy.bloom");
    assert_eq!(delta.apply_from_file(&file, &copy).unwrap(), delta.result());
    assert_eq!(std::fs::read(&copy).unwrap(), filter.to_bytes().unwrap());
    assert!(std::fs::read(&file).unwrap() == old, "what was read is as it was");
    let after = delta.apply_to_file(&file).unwrap();
    assert_eq!((after, Address::of(&std::fs::read(&file).unwrap())), (delta.result(), delta.result()));
    assert_eq!(delta.apply_to_file(&file).unwrap(), after, "twice is harmless");
    assert!(AnyFilter::open(&file).unwrap().contains("one more").unwrap());
    let (other, bytes) = (folder.join("other.bloom"), sample(Kind::Blocked).to_bytes().unwrap());
    std::fs::write(&other, &bytes).unwrap();
    let refusal = delta.apply_to_file(&other).unwrap_err();
    assert!(refusal.to_string().contains("other.bloom"), "{refusal}");
    assert!(delta.apply_from_file(&other, folder.join("made")).is_err() && !folder.join("made").exists());
    assert!(std::fs::read(&other).unwrap() == bytes, "unchanged");
    assert_eq!(Delta::open(&other).unwrap_err().kind(), ErrorKind::NotAFilter);
    assert_eq!(Delta::open(folder.join("none")).unwrap_err().kind(), ErrorKind::Io);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A delta is no filter, a filter is no delta, and each says what it is.
#[test]
fn deltas_and_filters_are_not_taken_for_each_other() {
    let (old, new) = (sample(Kind::Classic).to_bytes().unwrap(), sample(Kind::Blocked).to_bytes().unwrap());
    let delta = Delta::between(&old, &new).unwrap();
    let bytes = delta.to_bytes().unwrap();
    for refusal in [
        AnyFilter::from_bytes(&bytes).unwrap_err(),
        Blocked::from_bytes(&bytes).unwrap_err(),
        AnyFilter::<Mapped>::map_bytes(&bytes, &OpenOptions::new()).unwrap_err(),
        inspect_bytes(&bytes).unwrap_err(),
        Delta::between(&bytes, &new).unwrap_err(),
        Delta::between(&old, &bytes).unwrap_err(),
        Delta::from_added(&bytes, &[]).unwrap_err(),
    ] {
        assert_eq!(refusal.kind(), ErrorKind::NotAFilter, "{refusal}");
        let said = refusal.to_string();
        assert!(said.contains("a delta") && said.contains(&delta.base().to_string()), "{said}");
    }
    let refusal = Delta::from_bytes(&new).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::NotAFilter);
    assert!(refusal.to_string().contains("a filter, not a delta"), "{refusal}");
    assert_eq!(Delta::from_bytes(b"hello").unwrap_err().kind(), ErrorKind::NotAFilter);
    assert_eq!(Delta::from_bytes(&bytes[..bytes.len() - 1]).unwrap_err().kind(), ErrorKind::Truncated);
    let refusal = Delta::between(&old, &new[..100]).unwrap_err();
    assert!(refusal.to_string().starts_with("the new file: "), "{refusal}");
    let mut damaged = new.clone();
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(Delta::between(&old, &damaged).unwrap_err().kind(), ErrorKind::Corrupt, "damage is not passed on");
}

/// Filters that refuse more keep refusing; compressed ones stay compressed; a keyed one needs no secret.
#[test]
fn added_digests_follow_the_filter() {
    let mut strict: AnyFilter = Classic::builder().items(10).when_full(WhenFull::Refuse).build().unwrap().into();
    for i in 0..10 {
        strict.insert_digest(digest(&strict, i)).unwrap();
    }
    let more: Vec<Digest> = (10..20).map(|i| digest(&strict, i)).collect();
    assert_eq!(Delta::from_added(&strict.to_bytes().unwrap(), &more).unwrap_err().kind(), ErrorKind::Full);

    let mut sparse: AnyFilter = Blocked::builder().items(200_000).build().unwrap().into();
    sparse.insert("a").unwrap();
    let options = SaveOptions::new().compress(Compression::WhereItPays);
    let old = sparse.to_bytes_with(&options).unwrap();
    let added = [digest(&sparse, 1), digest(&sparse, 2)];
    sparse.insert_digests(&added).unwrap();
    let (delta, made) = Delta::from_added(&old, &added).unwrap();
    assert!(made == sparse.to_bytes_with(&options).unwrap());
    assert!(delta.apply(&old).unwrap() == made);

    let mut keyed: AnyFilter = Blocked::builder().items(100_000).secret(&secret()).build().unwrap().into();
    let old = keyed.to_bytes().unwrap();
    let added = [digest(&keyed, 1)];
    keyed.insert_digests(&added).unwrap();
    let (delta, made) = Delta::from_added(&old, &added).unwrap();
    assert_eq!(delta.method(), Method::Digests);
    assert!(made == keyed.to_bytes().unwrap());
}

fn fields(method: u16, base: Address, result: Address, base_len: u64, result_len: u64) -> Vec<u8> {
    let mut fields = FieldWriter::new();
    fields.u16(Tag::critical(1), method).bytes(Tag::critical(2), &base.0).bytes(Tag::critical(3), &result.0);
    fields.u64(Tag::critical(4), base_len).u64(Tag::critical(5), result_len).finish().unwrap()
}

/// A delta whose checksums are right, whatever it says.
fn forged(fields: Vec<u8>, body: &[u8], codec: Codec) -> Vec<u8> {
    let mut out = Vec::new();
    FrameWriter::new().section(SectionType::DELTA, 0, fields).payload(0, &body, codec).write_to(&mut out).unwrap();
    out
}

/// The stored body of a delta.
fn body_of(delta: &[u8]) -> Vec<u8> {
    let file = format::MemoryFile::open(delta, Limits::default()).unwrap();
    file.payload(0).unwrap().stored().to_vec()
}

/// The new file or a refusal, whatever happens to a delta on its way: any byte, and any byte with its sums made right.
#[test]
fn whatever_happens_to_a_delta_the_result_is_right_or_refused() {
    let mut dice = Dice(99);
    for (kind, more) in [(Kind::Blocked, 20), (Kind::Counting, 20), (Kind::Scalable, 400), (Kind::Blocked, 1)] {
        let mut filter = sample(kind);
        let old = filter.to_bytes().unwrap();
        let added: Vec<Digest> = (0..more).map(|i| digest(&filter, 30_000 + i)).collect();
        added.iter().for_each(|&digest| assert!(filter.insert_digest(digest).is_ok()));
        let new = filter.to_bytes().unwrap();
        let delta = Delta::between_added(&old, &new, &added).unwrap();
        let sent = delta.to_bytes().unwrap();
        let checked = |bytes: &[u8], what: &str| {
            if let Ok(made) = Delta::from_bytes(bytes).and_then(|delta| delta.apply(&old)) {
                assert!(made == new, "{kind}: {what}: neither right nor refused");
            }
        };
        for at in 0..sent.len().min(1_500) {
            let mut flipped = sent.clone();
            flipped[at] ^= 1 << dice.below(8);
            assert!(Delta::from_bytes(&flipped).is_err(), "{kind}: byte {at} flipped and not noticed");
        }
        for cut in 0..sent.len().min(600) {
            assert!(Delta::from_bytes(&sent[..cut]).is_err());
        }
        let body = body_of(&sent);
        let head = |method: Method| {
            fields(method.number(), delta.base(), delta.result(), delta.base_len(), delta.result_len())
        };
        for round in 0..1_500 {
            let mut other = body.clone();
            match round % 5 {
                0 => other[dice.below(body.len() as u64) as usize] ^= 1 << dice.below(8),
                1 => other.truncate(1 + dice.below(body.len() as u64 - 1) as usize),
                2 => other.insert(dice.below(body.len() as u64) as usize, dice.roll() as u8),
                3 => (0..8).for_each(|_| other[dice.below(body.len() as u64) as usize] = dice.roll() as u8),
                _ => other[..4.min(body.len())].fill(dice.roll() as u8),
            }
            for method in [Method::Bits, Method::Digests] {
                checked(&forged(head(method), &other, Codec::Raw), "a body with right sums");
            }
        }
    }
}

#[test]
fn hostile_deltas_are_refused_before_they_cost_anything() {
    let old = sample(Kind::Blocked).to_bytes().unwrap();
    let (base, result) = (Address::of(&old), Address::of(b"something else"));
    let length = old.len() as u64;
    let apply = |bytes: Vec<u8>| Delta::from_bytes(&bytes).and_then(|delta| delta.apply(&old));
    let bits =
        |result_len: u64, body: &[u8]| apply(forged(fields(1, base, result, length, result_len), body, Codec::Raw));
    let digests = |body: &[u8]| apply(forged(fields(2, base, result, length, length), body, Codec::Raw));
    let whole = |body: &[u8]| apply(forged(fields(3, base, result, length, length), body, Codec::Raw));
    let ten = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let long = |n: usize| [&ten[..], &[0; 8][..n]].concat();
    for (result, kind, says) in [
        (bits(u64::MAX, &[0]), ErrorKind::LimitExceeded, "18446744073709551615 bytes"),
        (bits((1 << 30) + 1, &[0]), ErrorKind::LimitExceeded, "1073741825 bytes"),
        (bits(100, &[0]), ErrorKind::Corrupt, "address"),
        (bits(0, &[0]), ErrorKind::Corrupt, "address"),
        (bits(100, &ten), ErrorKind::Corrupt, "ends inside a number"),
        (bits(100, &[0xff; 11]), ErrorKind::Corrupt, "shortest form"),
        (bits(100, &[0x80, 0x00]), ErrorKind::Corrupt, "shortest form"),
        (bits(100, &[1, 0, 0, 101]), ErrorKind::Corrupt, "a copy at 0 goes past"),
        (bits(u64::from(u16::MAX), &[1, 0, 0, 0xff, 0xff, 0x03]), ErrorKind::Corrupt, "a copy at 0 goes past"),
        (bits(100, &[&[1][..], &ten, &[0, 1]].concat()), ErrorKind::Corrupt, "goes past"),
        (bits(100, &[&[1, 0, 0][..], &ten].concat()), ErrorKind::Corrupt, "goes past"),
        (bits(100, &[&[1, 0][..], &ten, &[1]].concat()), ErrorKind::Corrupt, "goes past"),
        (bits(100, &[&[2, 0, 0, 50][..], &[0, 0, 51]].concat()), ErrorKind::Corrupt, "a copy at 50 goes past"),
        (bits(100, &[&[0][..], &long(8)].concat()), ErrorKind::Corrupt, "a chunk at"),
        (bits(100, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 0]), ErrorKind::Corrupt, "a chunk at 1 goes past"),
        (bits(100, &[0, 0, 0]), ErrorKind::Corrupt, "inside a record"),
        (bits(100, &[0, 0, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0]), ErrorKind::Corrupt, "16777223 bytes for chunk 0"),
        (bits(100, &[0, 0, 0, 0, 0, 99, 0, 0, 0, 0]), ErrorKind::Corrupt, "method 99"),
        (bits(100, &[0, 0, 0, 0, 0, 0, 9, 0, 0, 0]), ErrorKind::Corrupt, "ends inside a gap"),
        (digests(&[0; 7]), ErrorKind::Corrupt, "inside its count"),
        (digests(&[0xff; 8]), ErrorKind::Corrupt, "0 bytes of digests"),
        (digests(&[1, 0, 0, 0, 0, 0, 0, 0, 5, 5]), ErrorKind::Corrupt, "2 bytes of digests, 1 digests"),
        (digests(&[0; 8]), ErrorKind::Corrupt, "nothing was changed"),
        (whole(&[0; 8]), ErrorKind::Corrupt, "a whole file of 8 bytes"),
        (whole(&vec![0; old.len()]), ErrorKind::Corrupt, "nothing was changed"),
        (apply(forged(fields(9, base, result, 1, 1), &[0], Codec::Raw)), ErrorKind::Version, "method 9"),
        (apply(forged(fields(1, base, result, 1, 1), &[0; 64], Codec::Gaps)), ErrorKind::Corrupt, "codec 0"),
    ] {
        let Err(refusal) = result else { panic!("accepted, though it should say: {says}") };
        assert_eq!(refusal.kind(), kind, "{refusal}");
        assert!(refusal.to_string().contains(says), "{refusal} instead of {says}");
    }
    let body = &[0u8][..];
    let full = || fields(1, base, result, 1, 1);
    for (mut file, says) in [
        (FrameWriter::new().section(SectionType::DELTA, 1, full()), "a filter, not a delta"),
        (FrameWriter::new().section(SectionType::DELTA, 0, full()).section(SectionType::COUNTS, 0, vec![1]), "no such"),
        (FrameWriter::new().section(SectionType::DELTA, 0, full()[..6].to_vec()), "field 2 is missing"),
        (FrameWriter::new().section(SectionType::DELTA, 0, full()[..40].to_vec()), "goes past the end"),
        (FrameWriter::new().section(SectionType::DELTA, 0, vec![1, 0x80, 1, 0, 1]), "does not begin with field 1"),
    ]
    .map(|(file, says)| (std::mem::take(file), says))
    {
        let mut out = Vec::new();
        file.payload(0, &body, Codec::Raw).write_to(&mut out).unwrap();
        let refusal = Delta::from_bytes(&out).unwrap_err();
        assert!(refusal.to_string().contains(says), "{refusal} instead of {says}");
    }
    let delta = Delta::from_bytes(&forged(fields(3, base, result, length, 5), &[0; 5], Codec::Raw)).unwrap();
    assert_eq!(delta.apply_with(&old, Limits::payload(4)).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

/// The length of a delta file with such a body: header, table and fields, four bytes for each 64 KiB, each to 64.
fn sent_len(body: u64) -> u64 {
    320 + (body.div_ceil(65_536) * 4).next_multiple_of(64) + body
}

/// The sizes in the page of the module.
#[test]
fn sizes_are_what_the_page_says() {
    let mut filter = Blocked::builder().keys::<u64>().items(1_000_000).rate(0.01).build().unwrap();
    filter.insert_all(0..1_000_000u64).unwrap();
    let old = filter.to_bytes().unwrap();
    let (mut table, mut wrong) = (String::new(), false);
    for (more, expected, taken) in SIZES {
        let mut grown = filter.clone();
        let keys: Vec<u64> = (1_000_000..1_000_000 + more).collect();
        let digests: Vec<Digest> = keys.iter().map(|key| filter.contract().digest(key).unwrap()).collect();
        grown.insert_batch(&keys).unwrap();
        let new = grown.to_bytes().unwrap();
        let bits = Delta::between(&old, &new).unwrap();
        let bits_len = bits.to_bytes().unwrap().len();
        let best = Delta::between_added(&old, &new, &digests).unwrap();
        let best_len = best.to_bytes().unwrap().len();
        table += &format!(
            "| {more} | {bits_len} | {} | {} | {} |\n",
            sent_len(8 + 16 * more),
            sent_len(new.len() as u64),
            best.method()
        );
        wrong |= best.method() != taken || best_len as u64 != expected;
        assert!(best_len <= bits_len && best_len as u64 <= sent_len(new.len() as u64));
    }
    assert!(!wrong, "the table is now\n{table}");
    // Under another seed every bit is another: the file itself is the smallest.
    let mut other = Blocked::builder()
        .items(1_000_000)
        .rate(0.01)
        .contract(Contract::xxh3_seeded(1))
        .keys::<u64>()
        .build()
        .unwrap();
    other.insert_all(0..1_000_000u64).unwrap();
    let new = other.to_bytes().unwrap();
    let delta = Delta::between(&old, &new).unwrap();
    assert_eq!((delta.method(), delta.to_bytes().unwrap().len() as u64), (Method::Whole, sent_len(new.len() as u64)));
    assert!(delta.apply(&old).unwrap() == new);
}

const SIZES: [(u64, u64, Method); 6] = [
    (1, 408, Method::Digests),
    (10, 552, Method::Digests),
    (100, 1_875, Method::Bits),
    (1_000, 6_974, Method::Bits),
    (10_000, 45_158, Method::Bits),
    (100_000, 277_301, Method::Bits),
];

/// Name, old file, new file, method, address of the delta; written once, read for ever.
const GOLDEN: &[(&str, &str, Method, &str, &str)] = &[
    (
        "blocked-ten-more",
        "blocked.bloom",
        Method::Bits,
        "10ad90df2b7da2f15e8ddb73e4371902dd0e9746469b7664c3d9b05af97872b2",
        "aab511ee4ff762de9a5506794c30fb8e437f685af0edc9bace433ebabfc98396",
    ),
    (
        "keyed-one-more",
        "blocked-siphash13.bloom",
        Method::Digests,
        "83ebbfa4b4f783c8f2a3808851294495a9713f0cdd46d4c5cc8284c2d6cd23b8",
        "aa09d9b72cb782c0271c477a25733f2f25c5bf1d801cec00c54d91ab04d651a6",
    ),
    (
        "counting-fewer",
        "counting-4.bloom",
        Method::Bits,
        "e44bfba00202e0c2872791fa1613d24c3b83d240d8f8f8283e19bf327bf8b108",
        "4ca90ec79f047811aac16db3cb412b86f49898f58e363cf696194f4b1ec91cae",
    ),
    (
        "scalable-grown",
        "scalable.bloom",
        Method::Bits,
        "b8ea1f62ae72865b448ff93af9354ae704b501f2ffb95822f4cdce8d009f2b95",
        "ec6c35e5583aa17423091b48dce73617f86199e662c80d05ab6dc7885da3824c",
    ),
    (
        "classic-whole",
        "classic-100-bits.bloom",
        Method::Whole,
        "b57968752b0426099149235bfc62676a6a3cb7b4d23ba73333ac97d3b8bd9bbf",
        "f71a68c81d89d7742a7d754a52168cc8a8dcbd02c463e9dba1175fa697ab8b27",
    ),
];

/// The new file of a golden delta, from its old one.
fn golden_result(name: &str, old: &[u8]) -> (Vec<u8>, Vec<Digest>) {
    let secret = secret();
    let mut filter = AnyFilter::from_bytes_with(old, &OpenOptions::new().secret(&secret)).unwrap();
    let added = match name {
        "blocked-ten-more" => 1_000..1_010,
        "keyed-one-more" => 100..101,
        "scalable-grown" => 400..600,
        _ => 0..0,
    };
    let added: Vec<Digest> = added.map(|i| digest(&filter, i)).collect();
    added.iter().for_each(|&digest| assert!(filter.insert_digest(digest).is_ok()));
    match (name, &mut filter) {
        ("counting-fewer", AnyFilter::Counting(counting)) => {
            (0..10).for_each(|i| assert!(counting.remove(&format!("key-{i}")).unwrap()));
        }
        ("classic-whole", _) => return (std::fs::read(golden("classic.bloom")).unwrap(), added),
        _ => {}
    }
    (filter.to_bytes().unwrap(), added)
}

/// The golden deltas: written byte for byte by the library of today, and applied as ever. Never made anew.
#[test]
fn golden_deltas_are_written_and_applied_as_ever() {
    let write = std::env::var_os("BLOOMGATE_GOLDEN").is_some_and(|value| value == "write");
    for &(name, base, method, address, result) in GOLDEN {
        let old = std::fs::read(golden(base)).unwrap();
        let (new, added) = golden_result(name, &old);
        let bytes = match method {
            // Changed bits would be shorter for files as small as these, but a whole one is as good.
            Method::Whole => {
                let (base, result) = (Address::of(&old), Address::of(&new));
                forged(fields(3, base, result, old.len() as u64, new.len() as u64), &new, Codec::Raw)
            }
            _ => Delta::between_added(&old, &new, &added).unwrap().to_bytes().unwrap(),
        };
        let path = golden(&format!("{name}.delta"));
        if write && !path.exists() {
            std::fs::write(&path, &bytes).unwrap();
        }
        let stored = std::fs::read(&path).unwrap();
        assert!(stored.len() <= 12_000, "{name}: {} bytes", stored.len());
        let delta = Delta::from_bytes(&stored).unwrap();
        let line = format!("{name}: {:?} {} {}", delta.method(), Address::of(&bytes), delta.result());
        assert!(bytes == stored, "written otherwise: {line}");
        assert_eq!(Address::of(&stored).to_string(), address, "{line}");
        assert_eq!(delta.method(), method, "{name}");
        assert_eq!(delta.result().to_string(), result, "{name}");
        assert!(delta.apply(&old).unwrap() == new, "{name}");
    }
    let files = std::fs::read_dir(golden("")).unwrap();
    let deltas = files.filter(|f| f.as_ref().unwrap().path().extension().is_some_and(|e| e == "delta")).count();
    assert_eq!(deltas, GOLDEN.len(), "every golden delta has a line in the table");
}
