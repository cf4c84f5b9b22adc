//! Filters as files: what goes in comes out, whatever the kind and the place, and what does not fit is refused with
//! the reason.

use std::io::{self, Read, Write};
use std::path::Path;

use bloomgate::bloom::CounterBits;
use bloomgate::foreign::{BfV1, Guava, Parquet, RedisBloom, RedisCuckoo};
use bloomgate::format::{self, Compression, Dimensions, Limits, write_atomically};
use bloomgate::math::scalable::Tightening;
use bloomgate::*;

pub fn key(i: u64) -> String {
    format!("key-{i}")
}

/// One small filter of every kind and shape that a file can hold, with the number of its keys `key(0..)`.
pub fn samples() -> Vec<(&'static str, AnyFilter, u64)> {
    let secret = Secret::from_bytes([7; 32]);
    let mut samples: Vec<(&'static str, AnyFilter, u64)> = Vec::new();
    let mut add = |name, filter: AnyFilter, keys| samples.push((name, filter, keys));
    add("classic", Classic::builder().items(60).rate(0.01).build().unwrap().into(), 60);
    add("classic, refusing", Classic::builder().items(9).when_full(WhenFull::Refuse).build().unwrap().into(), 5);
    add("classic of 100 bits", Classic::builder().bits(100).hashes(3).build().unwrap().into(), 12);
    add("blocked", Blocked::builder().items(100).rate(0.01).build().unwrap().into(), 100);
    add("blocked, two lines", Blocked::builder().items(30).rate(1e-5).build().unwrap().into(), 30);
    add("blocked, keyed", Blocked::builder().items(30).secret(&secret).build().unwrap().into(), 30);
    add("blocked, seeded", Blocked::builder().items(30).contract(Contract::murmur3(9)).build().unwrap().into(), 30);
    add("partitioned", Partitioned::builder().items(60).rate(0.02).build().unwrap().into(), 60);
    for width in [CounterBits::Four, CounterBits::Eight, CounterBits::Sixteen] {
        let counting = Counting::builder().items(40).rate(0.01).counter_bits(width).build().unwrap();
        add("counting", counting.into(), 40);
    }
    let mut counting = Counting::builder().items(40).build().unwrap();
    counting.insert_all((0..40).map(key)).unwrap();
    add("plain of counting", counting.to_plain().unwrap().into(), 40);
    for kind in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        add("scalable", Scalable::builder().items(20).stages(kind).build().unwrap().into(), 90);
    }
    let geometric = Scalable::builder().items(10).growth(2.0).tightening(Tightening::Geometric(0.5)).rate(0.05);
    add("scalable, halving", geometric.build().unwrap().into(), 40);
    let plateau = Scalable::builder().items(10).tightening(Tightening::Plateau { stages: 3, then: 0.5 }).rate(0.05);
    add("scalable, plateau", plateau.when_full(WhenFull::GoOn).build().unwrap().into(), 40);
    let hour = std::time::Duration::from_secs(3600);
    let mut rotating = Rotating::builder().window(hour).generations(3).items(60).rate(0.05).build().unwrap();
    rotating.advance(hour);
    rotating.insert_all((0..20).map(key)).unwrap();
    rotating.advance(hour + hour / 2);
    add("rotating", rotating.into(), 40);
    add("rotating, never asked the time", Rotating::builder().window(hour).items(30).build().unwrap().into(), 10);
    add("stable", Stable::builder().items(40).rate(0.02).build().unwrap().into(), 40);
    add("stable, two lines", Stable::builder().items(30).rate(1e-4).build().unwrap().into(), 30);
    add("cuckoo", Cuckoo::builder().items(60).rate(0.01).build().unwrap().into(), 60);
    add("cuckoo, wide", Cuckoo::builder().items(20).rate(1e-9).secret(&secret).build().unwrap().into(), 20);
    add("growing cuckoo", GrowingCuckoo::builder().items(20).rate(0.02).build().unwrap().into(), 90);
    add("quotient", Quotient::builder().items(60).rate(0.01).build().unwrap().into(), 60);
    let growing = Quotient::builder().items(20).grow_to(100).rate(0.01).when_full(WhenFull::Grow).build().unwrap();
    add("quotient, grown", growing.into(), 90);
    let keys = |count: u64| (0..count).map(key).collect::<Vec<_>>();
    for (rate, count) in [(0.01, 50), (0.004, 50), (1e-6, 20), (0.01, 0), (0.01, 1)] {
        add("fuse", Fuse::builder().rate(rate).build_from(keys(count)).unwrap().into(), count);
        add("ribbon", Ribbon::builder().rate(rate).build_from(keys(count)).unwrap().into(), count);
    }
    add("bfv1", BfV1::builder().items(40).rate(0.01).build().unwrap().into(), 40);
    add("redisbloom", RedisBloom::builder().items(20).rate(0.01).build().unwrap().into(), 60);
    add("rediscuckoo", RedisCuckoo::builder().items(40).build().unwrap().into(), 30);
    add("guava", Guava::builder().items(40).rate(0.01).build().unwrap().into(), 40);
    add("parquet", Parquet::builder().items(40).rate(0.01).build().unwrap().into(), 40);
    for (_, filter, keys) in samples.iter_mut().filter(|(_, filter, _)| filter.kind().takes_inserts()) {
        for i in 0..*keys {
            filter.insert(&key(i)).unwrap();
        }
    }
    samples
}

/// The secret of every sample that has one.
pub fn with_secret() -> OpenOptions<'static> {
    static SECRET: std::sync::LazyLock<Secret> = std::sync::LazyLock::new(|| Secret::from_bytes([7; 32]));
    OpenOptions::new().secret(&SECRET)
}

/// The answers for keys that are there and keys that are not.
fn answers<S: bits::Store>(filter: &AnyFilter<S>, keys: u64) -> Vec<bool> {
    let asked: Vec<String> = (0..keys + 2_000).map(key).collect();
    let mut batch = vec![false; asked.len()];
    filter.contains_batch(&asked, &mut batch).unwrap();
    let single: Vec<bool> = asked.iter().map(|key| filter.contains(key).unwrap()).collect();
    assert_eq!(batch, single);
    assert!(batch[..keys as usize].iter().all(|&found| found), "a wrong no");
    batch
}

/// Everything that a filter can be asked about itself.
fn facts<S: bits::Store>(filter: &AnyFilter<S>) -> String {
    format!(
        "{} {} {} {} {:?} {} {} {} {:?}",
        filter.kind(),
        filter.contract(),
        filter.len(),
        filter.capacity(),
        filter.when_full(),
        filter.size_in_bytes(),
        filter.promised_rate(),
        filter.expected_rate(),
        filter.approximate_count(),
    )
}

#[test]
fn every_kind_comes_back_from_every_door_as_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    for (name, filter, keys) in samples() {
        let path = dir.path().join("filter.bloom");
        let options = with_secret();
        let address = filter.save(&path).unwrap();
        let bytes = filter.to_bytes().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
        assert_eq!(Address::of(&bytes), address, "{name}");
        let mut written = Vec::new();
        assert_eq!(filter.write_to(&mut written).unwrap(), address, "{name}");
        assert_eq!(written, bytes, "{name}");

        let opened = AnyFilter::open_with(&path, &options).unwrap();
        let read = AnyFilter::read_from(&bytes[..], &options).unwrap();
        for loaded in [&opened, &read, &AnyFilter::from_bytes_with(&bytes, &options).unwrap()] {
            assert_eq!(facts(loaded), facts(&filter), "{name}");
            assert_eq!(answers(loaded, keys), answers(&filter, keys), "{name}");
            assert_eq!(loaded.to_bytes().unwrap(), bytes, "{name}");
        }
        let mapped = AnyFilter::map_with(&path, &options).unwrap();
        assert_eq!(answers(&mapped, keys), answers(&filter, keys), "{name}");
        assert_eq!(facts(&mapped), facts(&filter), "{name}");
        assert_eq!(mapped.to_bytes().unwrap(), bytes, "{name}");
        let mut told = Vec::new();
        mapped.verify_all(|done, total| told.push((done, total))).unwrap();
        assert!(mapped.damage().is_none() && told.last().is_some_and(|(done, total)| done == total), "{name}");

        let small = filter.to_bytes_with(&SaveOptions::new().compress(Compression::WhereItPays)).unwrap();
        let unpacked = AnyFilter::from_bytes_with(&small, &options).unwrap();
        assert_eq!(unpacked.to_bytes().unwrap(), bytes, "{name}");
    }
}

#[test]
fn a_loaded_filter_goes_on_where_it_stopped() {
    for (name, mut filter, keys) in samples().into_iter().filter(|(_, filter, _)| filter.kind().takes_inserts()) {
        let mut loaded = AnyFilter::from_bytes_with(&filter.to_bytes().unwrap(), &with_secret()).unwrap();
        for i in keys..keys + 300 {
            let (here, there) = (filter.insert(&key(i)), loaded.insert(&key(i)));
            assert_eq!(here.ok(), there.ok(), "{name} {i}");
        }
        assert_eq!(loaded.to_bytes().unwrap(), filter.to_bytes().unwrap(), "{name}");
        if filter.kind().takes_removals() {
            for i in 0..keys {
                assert!(loaded.remove(&key(i)).unwrap() && filter.remove(&key(i)).unwrap());
            }
            assert_eq!(loaded.to_bytes().unwrap(), filter.to_bytes().unwrap(), "{name}");
        }
    }
}

/// A shared filter is the same file, also while others insert: every key that was in before the call is in the file.
#[test]
fn shared_filters_save_the_same_bytes_and_lose_no_key() {
    let mut plain = Blocked::builder().items(5_000).keys::<u64>().build().unwrap();
    plain.insert_all(0..5_000u64).unwrap();
    let bytes = plain.to_bytes().unwrap();
    let shared = plain.into_shared().unwrap();
    assert_eq!(shared.to_bytes().unwrap(), bytes);

    let blocked = Blocked::builder().items(200_000).keys::<u64>().build_shared().unwrap();
    let chain = Scalable::builder().items(2_000).keys::<u64>().build_shared().unwrap();
    let (sent, received) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (blocked, chain) = (&blocked, &chain);
        scope.spawn(move || {
            for i in 0..100_000u64 {
                blocked.insert(&i).unwrap();
                chain.insert(&i).unwrap();
                if i % 10_000 == 0 {
                    sent.send(i).unwrap();
                }
            }
        });
        for last in received {
            let snapshot = Blocked::from_bytes(&blocked.to_bytes().unwrap()).unwrap();
            let grown = Scalable::from_bytes(&chain.to_bytes().unwrap()).unwrap();
            for i in 0..=last {
                assert!(snapshot.contains(&i).unwrap() && grown.contains(&i).unwrap(), "{i} of {last}");
            }
        }
    });
    let bytes = chain.to_bytes().unwrap();
    assert_eq!(chain.into_owned().unwrap().to_bytes().unwrap(), bytes);
}

/// T56: m that is no multiple of the word is kept to the bit.
#[test]
fn odd_numbers_of_bits_are_kept() {
    for bits in [1u64, 63, 64, 65, 100, 127, 129] {
        let mut filter = Classic::builder().bits(bits).hashes(3).build().unwrap();
        filter.insert_all((0..20).map(key)).unwrap();
        let bytes = filter.to_bytes().unwrap();
        let loaded = Classic::from_bytes(&bytes).unwrap();
        let mapped = Classic::map_bytes(&bytes, &OpenOptions::new()).unwrap();
        assert_eq!((loaded.bits(), mapped.bits()), (bits, bits));
        for i in 0..500 {
            let expected = filter.contains(&key(i)).unwrap();
            assert!(expected || i >= 20);
            assert_eq!(loaded.contains(&key(i)).unwrap(), expected);
            assert_eq!(mapped.contains(&key(i)).unwrap(), expected);
        }
        assert_eq!(loaded.to_bytes().unwrap(), bytes);
    }
}

/// T57: short reads change nothing, and not one byte after the end is taken.
#[test]
fn streams_may_come_byte_by_byte_and_go_on_after_the_filter() {
    struct OneByte<R>(R);
    impl<R: Read> Read for OneByte<R> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let end = buf.len().min(1);
            self.0.read(&mut buf[..end])
        }
    }
    for (name, filter, _) in samples() {
        let bytes = filter.to_bytes().unwrap();
        let stream = [&bytes[..], &bytes[..], b"after"].concat();
        let mut reader = OneByte(&stream[..]);
        for _ in 0..2 {
            let loaded = AnyFilter::read_from(&mut reader, &with_secret()).unwrap();
            assert_eq!(loaded.to_bytes().unwrap(), bytes, "{name}");
        }
        assert_eq!(reader.0, b"after");
        let appended = [&bytes[..], b"x"].concat();
        assert_eq!(AnyFilter::from_bytes_with(&appended, &with_secret()).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn the_secret_is_asked_for_and_never_in_the_file() {
    let (right, wrong) = (Secret::from_bytes([1; 32]), Secret::from_bytes([2; 32]));
    for contract in [Contract::siphash13(&right), Contract::siphash24(&right), Contract::blake2b(&right)] {
        let mut filter = Blocked::builder().contract(contract.clone()).items(100).build().unwrap();
        filter.insert("x").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keyed.bloom");
        filter.save(&path).unwrap();
        assert!(!filter.to_bytes().unwrap().windows(32).any(|window| window == [1; 32]));
        for refusal in [Blocked::open(&path), Blocked::open_keyed(&path, &wrong)] {
            let error = refusal.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Secret);
            assert!(error.to_string().contains(&right.id().to_string()), "{error}");
        }
        assert_eq!(AnyFilter::map(&path).unwrap_err().kind(), ErrorKind::Secret);
        assert!(Blocked::open_keyed(&path, &right).unwrap().contains("x").unwrap());
        assert!(AnyFilter::map_keyed(&path, &right).unwrap().contains("x").unwrap());
        // The contract holds the key already.
        let options = OpenOptions::new().contract(&contract);
        assert!(Blocked::open_with(&path, &options).unwrap().contains("x").unwrap());
        let about = format::inspect(&path).unwrap();
        assert_eq!((about.secret, about.sentinels_agree), (Some(right.id()), None));
        assert_eq!((about.algorithm, about.len), (contract.algorithm(), 1));
    }
}

#[test]
fn another_contract_is_refused_by_what_differs() {
    let secret = Secret::from_bytes([1; 32]);
    let other = Secret::from_bytes([2; 32]);
    let bytes = |contract: &Contract| {
        Classic::builder().contract(contract.clone()).items(10).build().unwrap().to_bytes().unwrap()
    };
    for (made, expected, says) in [
        (Contract::xxh3(), Contract::xxh3().with_encoding(Encoding::Unsigned), "key encoding is bytes"),
        (Contract::xxh3(), Contract::murmur3(0), "hash is xxh3"),
        (Contract::xxh3(), Contract::xxh3_seeded(5), "seed is 0"),
        (Contract::keyed(&secret), Contract::xxh3(), "hash is siphash13"),
        (Contract::keyed(&secret), Contract::keyed(&other), "secret is"),
    ] {
        let options = OpenOptions::new().secret(&secret).contract(&expected);
        let error = Classic::from_bytes_with(&bytes(&made), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Contract);
        assert!(error.to_string().contains(says), "{error}");
        Classic::from_bytes_with(&bytes(&made), &OpenOptions::new().contract(&made)).unwrap();
    }
}

#[test]
fn another_kind_is_refused_by_name_and_any_takes_all() {
    for (name, filter, _) in samples() {
        let bytes = filter.to_bytes().unwrap();
        let options = with_secret();
        let doors: [(Kind, Result<AnyFilter>); 5] = [
            (Kind::Classic, Classic::from_bytes_with(&bytes, &options).map(Into::into)),
            (Kind::Blocked, Blocked::from_bytes_with(&bytes, &options).map(Into::into)),
            (Kind::Partitioned, Partitioned::from_bytes_with(&bytes, &options).map(Into::into)),
            (Kind::Counting, Counting::from_bytes_with(&bytes, &options).map(Into::into)),
            (Kind::Scalable, Scalable::from_bytes_with(&bytes, &options).map(Into::into)),
        ];
        for (kind, opened) in doors {
            match opened {
                Ok(opened) => assert_eq!((opened.kind(), filter.kind()), (kind, kind), "{name}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Shape, "{name}: {error}");
                    assert!(filter.kind() != kind && error.to_string().contains(kind.name()), "{error}");
                    assert!(error.to_string().contains(filter.kind().name()), "{error}");
                }
            }
        }
    }
}

#[cfg(unix)]
#[test]
fn only_plain_files_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let fifo = dir.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [dir.path(), Path::new("/dev/null"), &dir.path().join("socket"), &fifo] {
        for error in [
            Blocked::open(path).unwrap_err(),
            AnyFilter::map(path).unwrap_err(),
            format::inspect(path).unwrap_err(),
            Blocked::builder().items(1).build().unwrap().save(path).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::InvalidParameter, "{error}");
            assert!(error.to_string().contains("not a plain file"), "{error}");
        }
    }
    assert_eq!(Blocked::open(dir.path().join("none")).unwrap_err().kind(), ErrorKind::Io);
    std::fs::write(dir.path().join("empty"), b"").unwrap();
    for error in
        [Blocked::open(dir.path().join("empty")).unwrap_err(), Blocked::map(dir.path().join("empty")).unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::NotAFilter);
        assert!(error.to_string().contains("empty"), "{error}");
    }
}

/// T58, T65: what a file may ask for is bounded before anything is allocated.
#[test]
fn limits_hold_before_memory_is_taken() {
    let mut sparse = Blocked::builder().items(20_000_000).build().unwrap();
    sparse.insert("one").unwrap();
    let coded = sparse.to_bytes_with(&SaveOptions::new().compress(Compression::WhereItPays)).unwrap();
    assert!(coded.len() < 20_000, "25 MB of zeros in {} bytes", coded.len());
    assert!(Blocked::from_bytes(&coded).unwrap().contains("one").unwrap());
    let tight = OpenOptions::new().limits(Limits::payload(20 << 20));
    for error in
        [Blocked::from_bytes_with(&coded, &tight).unwrap_err(), Blocked::read_from(&coded[..], &tight).unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }
    // A description allocates nothing, however large the filter says it is.
    assert!(format::inspect_bytes(&coded).unwrap().compressed);
    let refusal = Blocked::map_bytes(&coded, &OpenOptions::new()).unwrap_err();
    assert_eq!(refusal.kind(), ErrorKind::Unsupported);
    assert!(refusal.to_string().contains("load"), "{refusal}");
}

/// A writer that stops at any point leaves the old file as it was, and nothing beside it.
#[test]
fn a_writer_that_fails_leaves_the_old_file() {
    struct Failing<'a>(&'a mut dyn Write, u32);
    impl Write for Failing<'_> {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            if self.1 == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1 -= 1;
            self.0.write(buf)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bloom");
    let mut filter = Blocked::builder().items(200_000).build().unwrap();
    filter.insert("old").unwrap();
    filter.save(&path).unwrap();
    let old = std::fs::read(&path).unwrap();
    filter.insert("new").unwrap();
    let mut failures = 0;
    for writes in 0.. {
        match write_atomically(&path, |out| filter.write_to(&mut Failing(out, writes))) {
            Err(error) => {
                failures += 1;
                assert_eq!(error.kind(), ErrorKind::Io);
                assert_eq!(std::fs::read(&path).unwrap(), old, "after {writes} writes");
            }
            Ok(_) => break,
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }
    assert!(failures > 10, "{failures}");
    assert!(Blocked::open(&path).unwrap().contains("new").unwrap());
}

/// A file that is replaced while it is mapped: the old one is answered from until it is dropped.
#[test]
fn a_mapped_file_may_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bloom");
    let mut old = Blocked::builder().items(100_000).keys::<u64>().build().unwrap();
    old.insert_all(0..100_000u64).unwrap();
    old.save(&path).unwrap();
    let mapped = Blocked::map(&path).unwrap();
    Blocked::builder().items(10).keys::<u64>().build().unwrap().save(&path).unwrap();
    assert!((0..100_000u64).all(|i| mapped.contains(&i).unwrap()));
    assert!(!Blocked::map(&path).unwrap().contains(&5u64).unwrap());
}

/// Many threads touch and verify the same chunks at once.
#[test]
fn a_mapped_file_is_asked_by_many_threads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f.bloom");
    let mut filter = Classic::builder().items(1_000_000).keys::<u64>().build().unwrap();
    filter.insert_all(0..1_000_000u64).unwrap();
    filter.save(&path).unwrap();
    let mapped = Classic::map(&path).unwrap();
    let keys: Vec<u64> = (0..1_000_000).collect();
    std::thread::scope(|scope| {
        for start in [0, 300_000, 600_000] {
            let (mapped, keys) = (&mapped, &keys[start..]);
            scope.spawn(move || {
                let mut answers = vec![false; keys.len()];
                mapped.contains_batch(keys, &mut answers).unwrap();
                assert!(answers.iter().all(|&found| found));
            });
        }
    });
    assert_eq!(mapped.damage(), None);
    assert_eq!(mapped, filter);
}

#[test]
fn a_description_says_what_the_filter_says() {
    for (name, filter, _) in samples() {
        let bytes = filter.to_bytes().unwrap();
        let about = format::inspect_bytes(&bytes).unwrap();
        assert_eq!((about.kind, about.len, about.capacity), (filter.kind(), filter.len(), filter.capacity()), "{name}");
        assert_eq!((about.rate, about.when_full), (filter.promised_rate(), filter.when_full()), "{name}");
        assert_eq!(about.expected_rate, filter.expected_rate(), "{name}");
        assert_eq!((about.size_in_bytes, about.file_len), (filter.size_in_bytes(), bytes.len() as u64), "{name}");
        assert_eq!((about.encoding, about.seed), (filter.contract().encoding(), filter.contract().seed()), "{name}");
        assert_eq!(about.sentinels_agree, if filter.contract().is_keyed() { None } else { Some(true) }, "{name}");
        assert_eq!(about.address, Address::of(&bytes), "{name}");
        assert!(about.is_intact() && !about.compressed && about.format_version == 1, "{name}");
        let chain = [Kind::Scalable, Kind::Rotating, Kind::GrowingCuckoo].contains(&filter.kind());
        assert_eq!(about.chain.is_some(), chain, "{name}");
        if let AnyFilter::Classic(filter) = &filter {
            let (bits, hashes) = (filter.bits(), filter.hashes());
            assert_eq!(about.parts[0].dimensions, Dimensions::Classic { bits, hashes });
        }
    }
}

/// The example of `docs/format.md`, byte for byte.
#[test]
fn the_documented_shape_is_what_is_written() {
    let filter = Classic::builder().bits(960_000).hashes(7).items(100_000).rate(0.01).build().unwrap();
    let bytes = filter.to_bytes().unwrap();
    let file = format::MemoryFile::open(&bytes, Limits::default()).unwrap();
    let shape = file.head().body(format::SectionType::SHAPE, 0).unwrap();
    let page = include_str!("../../../../docs/format.md");
    let example = page.split("A whole SHAPE").nth(1).unwrap().split("###").next().unwrap();
    let lines = example.lines().filter_map(|line| line.strip_prefix("        "));
    let written: Vec<u8> = lines
        .flat_map(|line| line.get(2..52).unwrap_or_default().split_whitespace())
        .map(|digits| u8::from_str_radix(digits, 16).unwrap())
        .collect();
    assert_eq!(written, shape);
}

/// T53: a ring that is saved and loaded at any moment turns when it would have turned.
#[test]
fn a_ring_that_is_reloaded_all_the_time_turns_as_one_that_is_not() {
    use std::time::Duration;
    let minute = Duration::from_secs(60);
    let make =
        || Rotating::builder().keys::<u64>().window(minute).generations(4).items(400).rate(0.01).build().unwrap();
    for every in [1, 3, 7] {
        let (mut still, mut reloaded) = (make(), make());
        for step in 0..400u32 {
            // Uneven steps, one back in time and one far ahead.
            let now = match step {
                150 => minute,
                300 => minute * 1_000,
                _ => Duration::from_millis(u64::from(step) * 1_733 + u64::from(step % 5) * 400),
            };
            still.advance(now);
            reloaded.advance(now);
            assert_eq!(still.insert(&u64::from(step)).unwrap(), reloaded.insert(&u64::from(step)).unwrap());
            if step % every == 0 {
                reloaded = Rotating::from_bytes(&reloaded.to_bytes().unwrap()).unwrap();
            }
            assert_eq!(still.state(), reloaded.state(), "step {step}");
        }
        assert!(still.state().youngest > 40, "it turned");
        assert_eq!(still.to_bytes().unwrap(), reloaded.to_bytes().unwrap());
    }
}
