//! Foreign filters against what their own systems wrote and answered, and against their own formulas.

mod fixture;
mod hostile;

use super::shape::sealed;
use super::*;
use crate::error::{ErrorKind, Result};
use crate::hash::{Contract, Digest, Secret};
use crate::key::{Encoding, Key};
use crate::kind::{Guarantee, Kind};
use crate::math::dice::Dice;
use crate::math::estimate::{told_new, within};
use crate::promise::WhenFull;

/// Members are in, and probes answer as they did elsewhere, one by one and by the batch.
fn answers_as<F: Shape>(filter: &Foreign<F>, fixture: &fixture::Json) {
    for member in fixture.get("members").texts() {
        assert!(filter.contains(member).unwrap(), "{member}");
    }
    let probes = fixture.get("probe").texts();
    let expected: Vec<bool> =
        fixture.get("probe_answers").list().iter().map(|answer| answer.number::<u8>() == 1).collect();
    let mut answers = vec![false; probes.len()];
    filter.contains_batch(&probes, &mut answers).unwrap();
    assert_eq!(answers, expected);
    for (probe, expected) in probes.iter().zip(&expected) {
        assert_eq!(filter.contains(*probe).unwrap(), *expected, "{probe}");
    }
}

fn chunks_of(fixture: &fixture::Json) -> Vec<(i64, Vec<u8>)> {
    fixture.get("chunks").list().iter().map(|pair| (pair.list()[0].number(), pair.list()[1].base64())).collect()
}

fn borrowed(chunks: &[(i64, Vec<u8>)]) -> impl Iterator<Item = (i64, &[u8])> + Clone {
    chunks.iter().map(|(iterator, chunk)| (*iterator, &chunk[..]))
}

#[test]
fn bfv1_is_that_of_the_fixtures() {
    for name in ["bfv1/coffee.json", "bfv1/tiny.json"] {
        let fixture = fixture::load(name);
        let blob = fixture.get("blob").base64();
        let filter = BfV1::from_foreign(&blob).unwrap();
        assert_eq!(filter.to_foreign().unwrap(), blob);
        let shape = filter.shape();
        assert_eq!(shape.bits(), fixture.get("m").number::<u32>());
        assert_eq!(shape.hashes(), fixture.get("k").number::<u16>());
        assert_eq!(shape.seed(), fixture.get("seed").number::<u32>());
        answers_as(&filter, &fixture);
        let mut built = BfV1::builder()
            .items(fixture.get("n").number())
            .rate(fixture.get("p").number())
            .seed(fixture.get("seed").number())
            .build()
            .unwrap();
        built.insert_batch(&fixture.get("members").texts()).unwrap();
        assert_eq!(built.to_foreign().unwrap(), blob);
        assert_eq!(built, filter);
        // What the bits speak of, as the form does not count.
        let members = fixture.get("members").list().len() as f64;
        assert!((filter.len() as f64 - members).abs() <= (0.05 * members).max(1.0), "{}", filter.len());
    }
}

#[test]
fn redisbloom_is_that_of_the_fixtures() {
    for (name, builder) in [
        ("bf-auto-one", RedisBloom::builder()),
        ("bf-nonscaling-1000-0.01", RedisBloom::builder().items(1000).rate(0.01).nonscaling()),
        ("bf-scaling-grown-0.001", RedisBloom::builder().items(300).rate(0.001)),
    ] {
        let fixture = fixture::load(&format!("redisbloom/{name}.json"));
        let chunks = chunks_of(&fixture);
        let filter = RedisBloom::from_chunks(borrowed(&chunks)).unwrap();
        answers_as(&filter, &fixture);
        assert_eq!(filter.to_chunks().unwrap(), chunks);
        let info = fixture.get("info");
        assert_eq!(filter.capacity(), info.get("Capacity").number::<u64>());
        assert_eq!(filter.len(), info.get("Number of items inserted").number::<u64>());
        assert_eq!(filter.shape().links().len(), info.get("Number of filters").number::<usize>());
        let dump = filter.to_dump().unwrap();
        assert_eq!(detect(&dump), Some(Form::RedisBloom));
        assert_eq!(RedisBloom::from_dump(&dump).unwrap(), filter);
        // Made here from the same keys: the same bytes, header and all.
        let mut built = builder.build().unwrap();
        built.insert_batch(&fixture.get("members").texts()).unwrap();
        assert_eq!(built.to_chunks().unwrap(), chunks, "{name}");
        assert_eq!(built.promise(), filter.promise());
    }
}

#[test]
fn rediscuckoo_is_that_of_the_fixtures() {
    for name in ["cf-bucket4-deleted", "cf-grown"] {
        let fixture = fixture::load(&format!("redisbloom/{name}.json"));
        let chunks = chunks_of(&fixture);
        let mut filter = RedisCuckoo::from_chunks(borrowed(&chunks)).unwrap();
        answers_as(&filter, &fixture);
        assert_eq!(filter.to_chunks().unwrap(), chunks);
        let info = fixture.get("info");
        assert_eq!(filter.len(), info.get("Number of items inserted").number::<u64>());
        assert_eq!(filter.shape().deletes(), info.get("Number of items deleted").number::<u64>());
        assert_eq!(filter.shape().bucket_size(), info.get("Bucket size").number::<u16>());
        assert_eq!(filter.approximate_count().value, filter.len() as f64);
        let dump = filter.to_dump().unwrap();
        assert_eq!(detect(&dump), Some(Form::RedisCuckoo));
        assert_eq!(RedisCuckoo::from_dump(&dump).unwrap(), filter);
        // Every member can be removed, and then nothing is left.
        for member in fixture.get("members").texts() {
            assert!(filter.remove(member).unwrap(), "{member}");
        }
        assert_eq!((filter.len(), filter.set_cells()), (0, 0));
        assert!(!filter.remove("nobody").unwrap());
    }
    // Made here from the same keys, moves and new tables included.
    let fixture = fixture::load("redisbloom/cf-grown.json");
    let mut built = RedisCuckoo::builder().items(256).expansion(2).build().unwrap();
    built.insert_batch(&fixture.get("members").texts()).unwrap();
    assert_eq!(built.shape().tables(), 3);
    assert_eq!(built.to_chunks().unwrap(), chunks_of(&fixture));
}

/// What an insert takes is told before: exactly by the chain of links, at least by the tables, which may move instead.
#[test]
fn growth_is_told_before_it_happens() {
    fn grows<F: Shape>(mut filter: Foreign<F>, exact: bool) -> u32 {
        let mut grown = 0;
        for digest in digests(11, 2_000) {
            let (told, before) = (filter.growth_for(digest), filter.size_in_bytes());
            filter.insert_digest(digest).unwrap();
            let took = filter.size_in_bytes() - before;
            assert!(took == told || (!exact && took == 0), "{told} bytes were told and {took} taken");
            assert!(!exact || filter.growth_for(digest) == 0, "a key that is there takes nothing");
            grown += u32::from(took > 0);
        }
        grown
    }
    assert!(grows(RedisBloom::builder().items(100).build().unwrap(), true) >= 4);
    assert!(grows(RedisCuckoo::builder().items(128).expansion(2).build().unwrap(), false) >= 3);
    let mut full = RedisBloom::builder().items(10).nonscaling().build().unwrap();
    let keys = digests(12, 200);
    assert!(full.insert_digests(&keys).is_err());
    assert!(keys.iter().all(|&digest| full.growth_for(digest) == 0));
}

/// A key as a funnel of Guava writes it, asked of a filter.
fn guava_key(funnel: &str, text: &str, mut with: impl FnMut(&dyn Fn(&mut Guava) -> Result<(bool, bool)>)) {
    fn both<K: Key>(filter: &mut Guava, key: &K) -> Result<(bool, bool)> {
        let before = filter.contains(key)?;
        Ok((before, filter.insert(key)?))
    }
    match funnel {
        "utf8" => with(&|filter| both(filter, &text)),
        "long" => with(&|filter| both(filter, &text.parse::<i64>().unwrap())),
        "int" => with(&|filter| both(filter, &text.parse::<i32>().unwrap().to_le_bytes())),
        "chars" => with(&|filter| both(filter, &text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>())),
        _ => with(&|filter| {
            let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
            both(filter, &(0..text.len()).step_by(2).map(byte).collect::<Vec<_>>())
        }),
    }
}

#[test]
fn guava_is_that_of_the_fixtures() {
    for name in ["utf8-1-300", "utf8-0-7", "long-1-300", "long-0-7", "bytes-1-7", "int-0-7", "chars-1-7"] {
        let blob = std::fs::read(fixture::path(&format!("guava/{name}.bf"))).unwrap();
        let facts = std::fs::read_to_string(fixture::path(&format!("guava/{name}.txt"))).unwrap();
        let fact = |name: &str| facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap();
        let (funnel, ordinal) = (fact("funnel"), fact("strategy").parse().unwrap());
        let form = if matches!(funnel, "int" | "chars") { "guava:bytes".into() } else { format!("guava:{funnel}") };
        let encoding = form.parse::<Form>().unwrap().encoding();
        let filter = Guava::from_foreign(&blob, encoding).unwrap();
        assert_eq!(filter.to_foreign().unwrap(), blob);
        let mut built = Guava::builder()
            .contract(Contract::murmur3(0).with_encoding(encoding))
            .strategy(Strategy::from_ordinal(ordinal).unwrap())
            .items(fact("items").parse().unwrap())
            .rate(fact("rate").parse().unwrap())
            .build()
            .unwrap();
        let (mut probes, mut maybe) = (0, 0);
        for line in facts.lines() {
            let (what, text) = line.split_once(' ').unwrap();
            guava_key(funnel, text, |ask| match what {
                "member" => {
                    assert!(ask(&mut filter.clone()).unwrap().0, "{line}");
                    ask(&mut built).unwrap();
                }
                "yes" | "no" => {
                    assert_eq!(ask(&mut filter.clone()).unwrap().0, what == "yes", "{line}");
                    probes += 1;
                    maybe += u64::from(what == "yes");
                }
                _ => {}
            });
        }
        assert_eq!(built.to_foreign().unwrap(), blob, "{name}");
        assert_eq!(probes, 2000);
        assert!(within(maybe, probes, filter.estimated_rate(), 4.5), "{name}: {maybe}");
    }
}

/// 128 random bits for each key: what a good hash gives. The forms' own are as good on these tests' keys.
fn digests(seed: u64, count: usize) -> Vec<Digest> {
    let mut dice = Dice(seed);
    (0..count).map(|_| Digest::new(dice.next(), dice.next())).collect()
}

/// Filled to its capacity, a filter answers "maybe" as often as its shape says, and as its bits say.
fn keeps_its_rate<F: Shape>(mut filter: Foreign<F>, keys: usize) {
    let members = digests(7, keys);
    let fresh = filter.insert_digests(&members).unwrap();
    assert!(members.iter().all(|&digest| filter.contains_digest(digest)));
    let trials = 400_000;
    let mut answers = vec![false; trials];
    filter.contains_digests(&digests(8, trials), &mut answers).unwrap();
    let hits = answers.iter().filter(|&&answer| answer).count() as u64;
    let (expected, seen) = (filter.expected_rate_at(keys as u64), filter.estimated_rate());
    assert!(within(hits, trials as u64, seen, 4.5), "{hits} of {trials} at {seen}: {filter:?}");
    // The bits vary from filter to filter by a few in a hundred, the more the fewer keys.
    assert!((seen / expected - 1.0).abs() < 0.06, "{seen} against {expected}: {filter:?}");
    assert!(filter.expected_rate_at(filter.capacity()) <= filter.promised_rate() * 1.0001, "{filter:?}");
    if filter.kind() != Kind::RedisCuckoo {
        // A chain does not take keys that an older link seems to know: their bits are not there to be counted.
        let chain = if filter.kind() == Kind::RedisBloom { fresh } else { keys as u64 };
        let count = filter.approximate_count().value;
        assert!(count > 0.98 * chain as f64 && count < 1.02 * keys as f64, "{count} of {keys}: {filter:?}");
        let new = told_new(keys as u64, |items| filter.expected_rate_at(items));
        assert_eq!(filter.len(), fresh);
        assert!((fresh as f64 / new - 1.0).abs() < 0.005, "{fresh} were new, {new} expected: {filter:?}");
    }
}

#[test]
fn every_form_keeps_the_rate_of_its_shape() {
    for (items, rate) in [(20_000, 0.01), (20_000, 0.1), (50_000, 0.001)] {
        keeps_its_rate(BfV1::builder().items(items).rate(rate).seed(3).build().unwrap(), items as usize);
        keeps_its_rate(Guava::builder().items(items).rate(rate).build().unwrap(), items as usize);
        let old = Guava::builder().items(items).rate(rate).strategy(Strategy::Murmur128Mitz32).build().unwrap();
        keeps_its_rate(old, items as usize);
        keeps_its_rate(RedisBloom::builder().items(items).rate(rate).nonscaling().build().unwrap(), items as usize);
        keeps_its_rate(RedisBloom::builder().items(items / 10).rate(rate).build().unwrap(), items as usize);
        keeps_its_rate(Parquet::builder().items(items).rate(rate).build().unwrap(), items as usize);
    }
    for bucket_size in [1, 2, 4] {
        let cuckoo = RedisCuckoo::builder().items(16_384).bucket_size(bucket_size).build().unwrap();
        keeps_its_rate(cuckoo, 6_000);
    }
}

/// Guava's older strategy reaches 2^31 bits: the expected rate of a larger array says what that costs.
#[test]
fn the_older_strategy_of_guava_breaks_past_two_to_the_31_bits() {
    let shape = |strategy| GuavaShape::new(strategy, 7, 1 << 27).unwrap();
    let items = 800_000_000;
    let old = shape(Strategy::Murmur128Mitz32).expected_rate(items);
    let new = shape(Strategy::Murmur128Mitz64).expected_rate(items);
    assert!(new < 0.01 && old > 0.5, "{new} and {old}");
    let reached = |bit| bit < 1 << 31;
    assert!(sealed::Shape::each_bit(&shape(Strategy::Murmur128Mitz32), Digest::new(u64::MAX / 3, 5), reached));
}

/// What the module says about sizes.
#[test]
fn a_million_keys_take_what_the_table_says() {
    let million = 1_000_000;
    assert_eq!(BfV1::builder().items(million).build().unwrap().to_foreign().unwrap().len(), 1_198_151);
    assert_eq!(RedisBloom::builder().items(million).build().unwrap().to_dump().unwrap().len(), 1_378_577);
    let fixed = RedisBloom::builder().items(million).nonscaling().build().unwrap();
    assert_eq!(fixed.to_dump().unwrap().len(), 1_198_241);
    let cuckoo = RedisCuckoo::builder().items(million).build().unwrap();
    assert_eq!(cuckoo.to_dump().unwrap().len(), 1_048_646);
    assert!((cuckoo.promised_rate() - 0.0156).abs() < 1e-4);
    assert_eq!(Guava::builder().items(million).build().unwrap().to_foreign().unwrap().len(), 1_198_142);
    assert_eq!(Parquet::builder().items(million).build().unwrap().to_foreign().unwrap().len(), 2_097_170);
}

/// Chunks of more than 16 MiB are cut, and a link begins a new one.
#[test]
fn large_links_are_cut_into_chunks_of_16_mib() {
    let filter = RedisBloom::builder().items(16_000_000).rate(0.01).nonscaling().build().unwrap();
    let chunks = filter.to_chunks().unwrap();
    let bytes = filter.size_in_bytes();
    assert_eq!(chunks.len(), 3);
    assert_eq!((chunks[1].0, chunks[1].1.len()), (1 + (16 << 20), 16 << 20));
    assert_eq!((chunks[2].0, chunks[2].1.len() as u64), (1 + bytes as i64, bytes - (16 << 20)));
    assert_eq!(RedisBloom::from_chunks(borrowed(&chunks)).unwrap(), filter);
}

#[test]
fn headers_are_saved_state_and_come_back() {
    fn saved<F: Shape>(filter: &Foreign<F>) {
        let shape = F::from_header(&filter.shape().header()).unwrap();
        assert_eq!(&shape, filter.shape());
        let copy = filter.clone();
        let (contract, promise, len) = (copy.contract().clone(), copy.promise(), copy.len());
        let again = Foreign::from_parts(shape.clone(), contract, promise, len, copy.store).unwrap();
        assert_eq!(&again, filter);
        assert_eq!((again.len(), again.promise()), (filter.len(), filter.promise()));
        assert!(shape.words() > 0 && shape.words() * 64 >= filter.size_in_bytes() * 8);
        let last = filter.store().as_slice().last().unwrap();
        assert_eq!(last & shape.spare(), 0);
        // Other words, another hash or another count are not the filter.
        let store = || crate::bits::Owned::zeroed(shape.words() + 1).unwrap();
        let wrong = Foreign::from_parts(shape.clone(), filter.contract().clone(), promise, len, store());
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Shape);
        let store = crate::bits::Owned::zeroed(shape.words()).unwrap();
        let wrong = Foreign::from_parts(shape, Contract::xxh3(), promise, len, store);
        assert_eq!(wrong.unwrap_err().kind(), ErrorKind::Contract);
    }
    let keys = digests(1, 500);
    let mut bfv1 = BfV1::builder().items(501).seed(7).build().unwrap();
    bfv1.insert_digests(&keys).unwrap();
    saved(&bfv1);
    let mut bloom = RedisBloom::builder().items(20).build().unwrap();
    bloom.insert_digests(&keys).unwrap();
    assert!(bloom.shape().links().len() > 3);
    saved(&bloom);
    let mut cuckoo = RedisCuckoo::builder().items(99).bucket_size(3).build().unwrap();
    cuckoo.insert_digests(&keys).unwrap();
    saved(&cuckoo);
    let mut guava = Guava::builder().items(500).build().unwrap();
    guava.insert_digests(&keys).unwrap();
    saved(&guava);
    let mut parquet = Parquet::builder().items(500).build().unwrap();
    parquet.insert_digests(&keys).unwrap();
    saved(&parquet);
}

#[test]
fn full_filters_refuse_grow_or_go_on() {
    let mut fixed = RedisBloom::builder().items(10).nonscaling().build().unwrap();
    fixed.insert_digests(&digests(1, 10)).unwrap();
    assert!(fixed.is_full() && fixed.remaining() == 0 && fixed.when_full() == WhenFull::Refuse);
    assert_eq!(fixed.insert("one more").unwrap_err().kind(), ErrorKind::Full);
    // What is there already needs no room.
    assert!(!fixed.insert_digest(digests(1, 1)[0]).unwrap());
    let mut growing = RedisBloom::builder().items(10).expansion(4).build().unwrap();
    growing.insert_digests(&digests(1, 40)).unwrap();
    assert_eq!(growing.capacity(), 50);
    assert_eq!(growing.shape().expansion(), Some(4));
    let mut refusing = BfV1::builder().items(10).when_full(WhenFull::Refuse).build().unwrap();
    refusing.insert_digests(&digests(1, 10)).unwrap();
    assert_eq!(refusing.insert_digests(&digests(2, 10)).unwrap_err().kind(), ErrorKind::Full);
    // A cuckoo filter that cannot grow refuses when no move helps, and then every key is still there.
    let mut cuckoo = RedisCuckoo::builder().items(64).expansion(0).build().unwrap();
    let keys = digests(3, 200);
    let taken = keys.iter().take_while(|&&digest| cuckoo.insert_digest(digest).is_ok()).count();
    assert!((40..64).contains(&taken), "{taken} of 64");
    assert_eq!(cuckoo.insert_digest(keys[taken]).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!(cuckoo.len(), taken as u64);
    assert!(keys[..taken].iter().all(|&digest| cuckoo.contains_digest(digest)));
    for &digest in &keys[..taken] {
        assert!(cuckoo.remove_digest(digest));
    }
    assert!(cuckoo.is_empty() && cuckoo.set_cells() == 0);
    // Copies are counted, as many as there are.
    for _ in 0..3 {
        cuckoo.insert("thrice").unwrap();
    }
    assert_eq!(cuckoo.count_estimate("thrice").unwrap(), 3);
}

#[test]
fn filters_are_cleared_compared_and_shown() {
    let mut filter = RedisBloom::builder().items(10).build().unwrap();
    assert!(filter.is_empty());
    assert!(filter.insert("a").unwrap() && !filter.insert("a").unwrap());
    filter.insert_digests(&digests(1, 100)).unwrap();
    assert_eq!((filter.kind(), filter.guarantee()), (Kind::RedisBloom, Guarantee::Superset));
    let copy = filter.clone();
    assert_eq!(copy, filter);
    filter.clear();
    assert!(filter.is_empty() && filter.set_cells() == 0 && !filter.contains("a").unwrap());
    assert_ne!(copy, filter);
    let shown = format!("{copy:?}");
    assert!(shown.contains("murmur64a-pair unkeyed over bytes"), "{shown}");
    let mut cuckoo = RedisCuckoo::builder().items(100).build().unwrap();
    cuckoo.insert("a").unwrap();
    cuckoo.clear();
    assert!(cuckoo.is_empty() && !cuckoo.contains("a").unwrap());
}

#[test]
fn builders_refuse_what_the_forms_cannot_be() {
    let secret = Secret::from_bytes([3; 32]);
    for (error, kind) in [
        (BfV1::builder().items(10).secret(&secret).build().unwrap_err(), ErrorKind::Contract),
        (BfV1::builder().build().unwrap_err(), ErrorKind::InvalidParameter),
        (BfV1::builder().items(1 << 39).build().unwrap_err(), ErrorKind::InvalidParameter),
        (BfV1::builder().items(10).rate(1.0).build().unwrap_err(), ErrorKind::InvalidParameter),
        (BfV1::builder().items(10).when_full(WhenFull::Grow).build().unwrap_err(), ErrorKind::InvalidParameter),
        (Guava::builder().items(10).contract(Contract::murmur3(1)).build().unwrap_err(), ErrorKind::Contract),
        (Guava::builder().items(1 << 40).build().unwrap_err(), ErrorKind::InvalidParameter),
        (Parquet::builder().items(10).contract(Contract::xxh3()).build().unwrap_err(), ErrorKind::Contract),
        (Parquet::builder().items(200_000_000).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisBloom::builder().items(1 << 31).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisBloom::builder().expansion(0).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisBloom::builder().when_full(WhenFull::GoOn).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckoo::builder().items(1 << 31).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckoo::builder().items(10).bucket_size(0).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckoo::builder().items(10).rate(0.001).build().unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckoo::builder().items(10).when_full(WhenFull::GoOn).build().unwrap_err(), ErrorKind::InvalidParameter),
        (BfV1Shape::new(0, 1, 0).unwrap_err(), ErrorKind::InvalidParameter),
        (GuavaShape::new(Strategy::default(), 0, 1).unwrap_err(), ErrorKind::InvalidParameter),
        (GuavaShape::new(Strategy::default(), 1, 1 << 31).unwrap_err(), ErrorKind::InvalidParameter),
        (ParquetShape::new(0).unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckooShape::new(3, 1, 2, 20, 1).unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckooShape::new(1 << 40, 32, 255, 20, 2).unwrap_err(), ErrorKind::InvalidParameter),
        (RedisCuckooShape::new(8, 2, 2, 20, 0).unwrap_err(), ErrorKind::InvalidParameter),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
    }
    // RedisBloom lowers rates above a quarter.
    assert_eq!(RedisBloom::builder().rate(0.9).build().unwrap().shape().links()[0].error(), 0.125);
    // Expansions are rounded up to powers of two.
    assert_eq!(RedisCuckoo::builder().items(8).expansion(3).build().unwrap().shape().expansion(), 4);
    // Keys of another type are refused, not hashed otherwise.
    let longs = Guava::builder().keys::<i64>().items(10).build().unwrap();
    assert_eq!(longs.contains(&7u64).unwrap_err().kind(), ErrorKind::Encoding);
    assert!(!longs.contains("-7").unwrap());
}

#[test]
fn forms_are_read_by_name() {
    for (name, form) in [
        ("bfv1", Form::BfV1),
        ("redisbloom", Form::RedisBloom),
        ("rediscuckoo", Form::RedisCuckoo),
        ("guava:text", Form::Guava(Encoding::Text)),
        ("guava:i64", Form::Guava(Encoding::Signed)),
        ("guava:bytes", Form::Guava(Encoding::Bytes)),
        ("parquet:bytes", Form::Parquet(Encoding::Bytes)),
        ("parquet:u64", Form::Parquet(Encoding::Unsigned)),
        ("parquet:uuid", Form::Parquet(Encoding::Uuid)),
    ] {
        assert_eq!(name.parse::<Form>().unwrap(), form);
        assert_eq!(form.to_string(), name);
        assert!(form.kind().is_foreign());
    }
    assert_eq!("guava:utf8".parse::<Form>().unwrap(), Form::Guava(Encoding::Text));
    assert_eq!("guava:long".parse::<Form>().unwrap(), Form::Guava(Encoding::Signed));
    assert_eq!("parquet".parse::<Form>().unwrap(), Form::Parquet(Encoding::Bytes));
    for name in ["", "guava", "guava:", "guava:float", "bfv2", "bfv1:bytes", "redisbloom:text", "Parquet"] {
        assert_eq!(name.parse::<Form>().unwrap_err().kind(), ErrorKind::InvalidParameter, "{name}");
    }
}

#[test]
fn only_forms_that_name_themselves_are_detected() {
    let guava = Guava::builder().items(10).build().unwrap().to_foreign().unwrap();
    let parquet = Parquet::builder().items(10).build().unwrap().to_foreign().unwrap();
    for bytes in [&b""[..], b"BFv", b"hello", &guava, &parquet, &[0; 100]] {
        assert_eq!(detect(bytes), None);
    }
    let bfv1 = BfV1::builder().items(10).build().unwrap().to_foreign().unwrap();
    assert_eq!(detect(&bfv1), Some(Form::BfV1));
    let mut dump = RedisBloom::builder().items(10).build().unwrap().to_dump().unwrap();
    assert_eq!(detect(&dump), Some(Form::RedisBloom));
    dump.pop();
    assert_eq!(detect(&dump), None);
}

/// Equal strides show in small arrays: what is expected is what is measured, over many filters, or a little more (the
/// parts that strides add are summed as if they never fell together).
#[test]
fn small_forms_have_the_rate_that_they_say() {
    fn measured<F: Shape>(make: impl Fn() -> Foreign<F>, keys: u64) -> (f64, f64) {
        let (mut maybe, mut probes, mut expected) = (0u64, 0u64, 0.0);
        for filter in 0..40u64 {
            let mut form = make();
            form.insert_all((0..keys).map(|key| format!("{filter} {key}"))).unwrap();
            let strangers: Vec<String> = (0..25_000).map(|key| format!("no {filter} {key}")).collect();
            let mut answers = vec![false; strangers.len()];
            form.contains_batch(&strangers, &mut answers).unwrap();
            maybe += answers.iter().filter(|&&answer| answer).count() as u64;
            probes += 25_000;
            expected = form.expected_rate_at(keys);
        }
        (maybe as f64 / probes as f64, expected)
    }
    // A million probes: 10,000 hits tell the rate to 1 %, and 40 filters differ by 1 % more.
    for (items, rate) in [(100, 0.01), (300, 0.01), (1_000, 0.01)] {
        let (seen, expected) = measured(|| BfV1::builder().items(items).rate(rate).build().unwrap(), items);
        assert!(
            (-0.07..0.04).contains(&(seen / expected - 1.0)),
            "BFv1, {items}: {seen} measured, {expected} expected"
        );
        let (seen, expected) = measured(|| Guava::builder().items(items).rate(rate).build().unwrap(), items);
        assert!((seen / expected - 1.0).abs() < 0.05, "Guava, {items}: {seen}, {expected}");
        let redis = || RedisBloom::builder().items(items).rate(rate).nonscaling().build().unwrap();
        let (seen, expected) = measured(redis, items);
        assert!((seen / expected - 1.0).abs() < 0.07, "RedisBloom, {items}: {seen}, {expected}");
    }
}
