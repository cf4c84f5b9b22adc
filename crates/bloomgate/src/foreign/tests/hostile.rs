//! Bytes of strangers: whatever they are, a decoder refuses them or gives a filter that can be used, and it takes no
//! more memory than they have.

use super::*;
use crate::error::ErrorKind;

/// One decoder: what it made of the bytes, used as far as it goes.
type Decoder = fn(&[u8]) -> Result<Vec<u8>>;

/// Asks, inserts, removes and writes: nothing of that may panic, whatever the cells hold.
fn use_it<F: Shape>(filter: &mut Foreign<F>) {
    for i in 0..40u64 {
        let digest = Digest::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), !i.wrapping_mul(0xd134_2543_de82_ef95));
        let _ = filter.contains_digest(digest);
        // A filter of a stranger may be full, or grow past all memory: that is an error, and then a key is in or not.
        if filter.size_in_bytes() < 1 << 20 && filter.insert_digest(digest).is_ok() {
            assert!(filter.contains_digest(digest));
        }
    }
    let shares = [filter.fill_ratio(), filter.estimated_rate(), filter.expected_rate(), filter.promised_rate()];
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?} of {filter:?}");
    let count = filter.approximate_count();
    assert!(count.value.is_finite() && count.value >= 0.0);
}

const DECODERS: [(&str, Decoder); 5] = [
    ("bfv1", |bytes| {
        let mut filter = BfV1::from_foreign(bytes)?;
        assert!(filter.size_in_bytes() <= bytes.len() as u64 + 64);
        let written = filter.to_foreign()?;
        use_it(&mut filter);
        Ok(written)
    }),
    ("redisbloom", |bytes| {
        let mut filter = RedisBloom::from_dump(bytes)?;
        assert!(filter.size_in_bytes() <= bytes.len() as u64 + 64);
        let written = filter.to_dump()?;
        use_it(&mut filter);
        Ok(written)
    }),
    ("rediscuckoo", |bytes| {
        let mut filter = RedisCuckoo::from_dump(bytes)?;
        assert!(filter.size_in_bytes() <= bytes.len() as u64 + 64);
        let written = filter.to_dump()?;
        use_it(&mut filter);
        for i in 0..40u64 {
            filter.remove_digest(Digest::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), 0));
        }
        Ok(written)
    }),
    ("guava", |bytes| {
        let mut filter = Guava::from_foreign(bytes, Encoding::Bytes)?;
        assert!(filter.size_in_bytes() <= bytes.len() as u64 + 64);
        let written = filter.to_foreign()?;
        use_it(&mut filter);
        Ok(written)
    }),
    ("parquet", |bytes| {
        let mut filter = Parquet::from_foreign(bytes, Encoding::Bytes)?;
        assert!(filter.size_in_bytes() <= bytes.len() as u64 + 64);
        let written = filter.to_foreign()?;
        use_it(&mut filter);
        Ok(written)
    }),
];

/// A small filter of each form, with several links or tables where it can have them.
fn samples() -> Vec<(usize, Vec<u8>)> {
    let keys = 0..60u32;
    let mut bfv1 = BfV1::builder().items(60).seed(9).build().unwrap();
    bfv1.insert_all(keys.clone().map(|i| i.to_le_bytes())).unwrap();
    let mut bloom = RedisBloom::builder().items(10).rate(0.1).build().unwrap();
    bloom.insert_all(keys.clone().map(|i| i.to_le_bytes())).unwrap();
    assert_eq!(bloom.shape().links().len(), 3);
    let mut fixed = RedisBloom::builder().items(60).nonscaling().build().unwrap();
    fixed.insert_all(keys.clone().map(|i| i.to_le_bytes())).unwrap();
    let mut cuckoo = RedisCuckoo::builder().items(16).bucket_size(3).expansion(2).build().unwrap();
    cuckoo.insert_all(keys.clone().map(|i| i.to_le_bytes())).unwrap();
    assert!(cuckoo.shape().tables() > 1);
    let mut guava = Guava::builder().items(60).build().unwrap();
    guava.insert_all(keys.clone().map(|i| i.to_le_bytes())).unwrap();
    let mut parquet = Parquet::builder().items(60).build().unwrap();
    parquet.insert_all(keys.map(|i| i.to_le_bytes())).unwrap();
    vec![
        (0, bfv1.to_foreign().unwrap()),
        (1, bloom.to_dump().unwrap()),
        (1, fixed.to_dump().unwrap()),
        (2, cuckoo.to_dump().unwrap()),
        (3, guava.to_foreign().unwrap()),
        (4, parquet.to_foreign().unwrap()),
    ]
}

#[test]
fn what_is_written_is_read_and_nothing_shorter_or_longer() {
    for (form, bytes) in samples() {
        let (name, decode) = DECODERS[form];
        assert_eq!(decode(&bytes).unwrap(), bytes, "{name}");
        for len in 0..bytes.len() {
            let error = decode(&bytes[..len]).expect_err(name);
            assert!(
                matches!(error.kind(), ErrorKind::Truncated | ErrorKind::NotAFilter),
                "{name} cut at {len}: {error}"
            );
        }
        for more in [&b"\0"[..], &[0; 16], b"BFv1"] {
            assert!(
                decode(&[&bytes, more].concat()).is_err() || name.starts_with("redis") && more == [0; 16],
                "{name}"
            );
        }
    }
}

/// T59: every byte of the header, and many of the rest, changed in several ways; and then two at once.
#[test]
fn damaged_filters_are_refused_or_can_be_used() {
    let mut dice = Dice(59);
    let (mut read, mut refused) = (0, 0);
    for (form, bytes) in samples() {
        let (name, decode) = DECODERS[form];
        let mut tried = |bytes: &[u8]| match decode(bytes) {
            Ok(written) => {
                // What a decoder takes it writes out again: nothing is lost and nothing is read twice.
                assert_eq!(written, bytes, "{name}");
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().len() > 40, "{error}");
                refused += 1;
            }
        };
        for at in 0..bytes.len().min(260) {
            for change in [1u8, 0x80, dice.next() as u8 | 2] {
                let mut bytes = bytes.clone();
                bytes[at] ^= change;
                tried(&bytes);
            }
        }
        for _ in 0..300 {
            let mut bytes = bytes.clone();
            for _ in 0..2 + dice.below(6) {
                // Mostly in the header, where it matters.
                let reach = if dice.below(4) == 0 { bytes.len() } else { bytes.len().min(100) };
                let at = dice.below(reach as u64) as usize;
                bytes[at] = dice.next() as u8;
            }
            tried(&bytes);
        }
    }
    assert!(read > 300 && refused > 1_500, "{read} were read and {refused} refused");
}

#[test]
fn noise_is_refused() {
    let mut dice = Dice(60);
    for round in 0..4_000 {
        let len = dice.below(200) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| dice.next() as u8).collect();
        // Small numbers come further into a decoder than noise.
        if round % 2 == 0 {
            bytes.iter_mut().for_each(|byte| *byte &= 3);
        }
        for (name, decode) in DECODERS {
            if let Ok(written) = decode(&bytes) {
                assert_eq!(written, bytes, "{name}");
            }
        }
        let _ = detect(&bytes);
    }
}

/// T58: a few bytes that claim gigabytes. The refusal says that the bytes are missing, which is found out before memory
/// is asked for: a refusal by the system would be another kind.
#[test]
fn claims_allocate_nothing() {
    let guava = Guava::from_foreign(&[0, 1, 0x7f, 0xff, 0xff, 0xff], Encoding::Bytes).unwrap_err();
    assert_eq!(guava.kind(), ErrorKind::Truncated, "{guava}");
    let bfv1 = BfV1Shape::new(u32::MAX, 7, 0).unwrap();
    let bfv1 = BfV1::from_foreign(&bfv1.header()).unwrap_err();
    assert_eq!(bfv1.kind(), ErrorKind::Truncated, "{bfv1}");
    let parquet = ParquetShape::new(i32::MAX as u32 / 32).unwrap();
    let parquet = Parquet::from_foreign(&parquet.header(), Encoding::Bytes).unwrap_err();
    assert_eq!(parquet.kind(), ErrorKind::Truncated, "{parquet}");
    let cuckoo = RedisCuckooShape::new(1 << 50, 1, 255, 20, 1).unwrap();
    let cuckoo = RedisCuckoo::from_chunks([(1, &cuckoo.header()[..])]).unwrap_err();
    assert_eq!(cuckoo.kind(), ErrorKind::Truncated, "{cuckoo}");
    let mut bloom = RedisBloom::builder().items(1).build().unwrap().shape().header();
    bloom[20..28].copy_from_slice(&(1u64 << 50).to_le_bytes());
    bloom[28..36].copy_from_slice(&(1u64 << 53).to_le_bytes());
    let error = RedisBloom::from_chunks([(1, &bloom[..])]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Truncated, "{error}");
    // So many links that their list alone would be gigabytes.
    bloom[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(RedisBloom::from_chunks([(1, &bloom[..])]).unwrap_err().kind(), ErrorKind::NotAFilter);
    // A frame that claims more than there is.
    let frame = [1i64.to_le_bytes(), u64::MAX.to_le_bytes()].concat();
    assert_eq!(RedisBloom::from_dump(&frame).unwrap_err().kind(), ErrorKind::Truncated);
    assert_eq!(detect(&frame), None);
}

#[test]
fn chunks_that_do_not_follow_one_another_are_refused() {
    let mut filter = RedisBloom::builder().items(10).rate(0.1).build().unwrap();
    filter.insert_all((0..60u32).map(|i| i.to_le_bytes())).unwrap();
    let chunks = filter.to_chunks().unwrap();
    let borrowed: Vec<(i64, &[u8])> = chunks.iter().map(|(iterator, chunk)| (*iterator, &chunk[..])).collect();
    assert_eq!(RedisBloom::from_chunks(borrowed.clone()).unwrap(), filter);
    for at in 0..borrowed.len() {
        let mut missing = borrowed.clone();
        missing.remove(at);
        assert!(RedisBloom::from_chunks(missing).is_err());
        let mut twice = borrowed.clone();
        twice.insert(at, borrowed[at]);
        assert!(RedisBloom::from_chunks(twice).is_err());
    }
    let mut swapped = borrowed.clone();
    swapped.swap(1, 2);
    assert_eq!(RedisBloom::from_chunks(swapped).unwrap_err().kind(), ErrorKind::Corrupt);
    let mut ended = borrowed.clone();
    ended.push((0, &[]));
    assert_eq!(RedisBloom::from_chunks(ended.clone()).unwrap(), filter);
    ended.push((0, &[]));
    assert!(RedisBloom::from_chunks(ended).is_err());
    // Smaller chunks than RedisBloom's are the same filter.
    let (iterator, last) = borrowed[borrowed.len() - 1];
    let (front, back) = last.split_at(5);
    let mut cut = borrowed.clone();
    cut.pop();
    cut.extend([(iterator - back.len() as i64, front), (iterator, back)]);
    assert_eq!(RedisBloom::from_chunks(cut).unwrap(), filter);
    assert!(RedisBloom::from_chunks([]).is_err());
}

/// A link that claims more keys than its bits can be for would make the first insert open one of any size: 113 bytes
/// once made 13 GB.
#[test]
fn a_link_does_not_claim_more_keys_than_it_has_bits_for() {
    let made = RedisBloom::builder().items(4).rate(0.01).build().unwrap();
    let good = made.to_dump().unwrap();
    // The chunk's frame (16), the chain (20), then the link: keys at 16 and capacity at 44 of it.
    let claiming = |capacity: u64| {
        let mut dump = good.clone();
        for at in [16, 36 + 16, 36 + 44] {
            dump[at..at + 8].copy_from_slice(&capacity.to_le_bytes());
        }
        RedisBloom::from_dump(&dump)
    };
    assert!(claiming(4).unwrap().insert("one more").unwrap());
    for capacity in [100, 1 << 20, 1 << 30, 1 << 33, 1 << 40, u64::MAX] {
        assert_eq!(claiming(capacity).unwrap_err().kind(), ErrorKind::Corrupt, "{capacity}");
    }
}

/// A dump of a megabyte with links of a word each, and one of few links with very many hashes: lookups would read all of them.
#[test]
fn chains_that_are_too_dear_to_ask_are_refused_at_the_header() {
    let header = |links: u32, error: f64| {
        let per_entry = -(error.ln() / 0.480453013918201);
        let hashes = (std::f64::consts::LN_2 * per_entry).ceil() as u32;
        let words = (per_entry as u64).div_ceil(64).max(1);
        let mut header = Vec::new();
        header.extend_from_slice(&0u64.to_le_bytes());
        [links, 4, 2].iter().for_each(|number| header.extend_from_slice(&number.to_le_bytes()));
        for _ in 0..links {
            [words * 8, words * 64, 0].iter().for_each(|number: &u64| header.extend_from_slice(&number.to_le_bytes()));
            [error, per_entry].iter().for_each(|number| header.extend_from_slice(&number.to_le_bytes()));
            header.extend_from_slice(&hashes.to_le_bytes());
            header.extend_from_slice(&1u64.to_le_bytes());
            header.push(0);
        }
        (header, u64::from(hashes) * u64::from(links))
    };
    for (links, error, taken) in [
        (409, 0.001, true),
        (410, 0.001, false),
        (19_000, 0.001, false),
        (19_000, 0.9, false),
        (4, 1e-300, true),
        (5, 1e-300, false),
    ] {
        let (header, probes) = header(links, error);
        assert_eq!(probes <= 4_096, taken, "{links} links at {error}: {probes} bits");
        match RedisBloomShape::from_header(&header) {
            Ok(shape) => assert!(taken && shape.links().len() == links as usize),
            Err(refused) => {
                assert!(!taken && refused.kind() == ErrorKind::Unsupported, "{links} links: {refused}");
                assert!(refused.to_string().contains("4096 bits are allowed"), "{refused}");
            }
        }
    }
    // What is loaded here does not become so by adding either: links that do not grow are soon many.
    let mut narrow = RedisBloom::builder().items(1).expansion(1).build().unwrap();
    let keys = digests(1, 5_000);
    let refused = keys.iter().find_map(|&key| narrow.insert_digest(key).err()).expect("it ends before 5,000 links");
    assert_eq!(refused.kind(), ErrorKind::Full);
    let probes: u32 = narrow.shape().links().iter().map(|link| link.hashes()).sum();
    assert!((3_900..=4_096).contains(&probes), "{probes}");
    assert!(RedisBloom::from_dump(&narrow.to_dump().unwrap()).is_ok());
    // The tables of a cuckoo filter are all looked into.
    assert!(RedisCuckooShape::new(1, 1_024, 2, 20, 1).is_ok());
    assert!(RedisCuckooShape::new(1, 1_025, 2, 20, 1).unwrap_err().to_string().contains("1 to 1024 tables"));
}
