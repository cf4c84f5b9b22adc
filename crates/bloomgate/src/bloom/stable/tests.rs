//! What is remembered, what is forgotten, and that the rate stays where it settled.

use super::*;
use crate::math::dice::Dice;
use crate::math::estimate::within;

fn filter(rows: u64, lines_per_key: u32, round: u64) -> Stable {
    let shape = StableShape::new(rows, lines_per_key, round).unwrap();
    let promise = Promise { capacity: shape.remembered(), rate: shape.settled_rate(), when_full: WhenFull::GoOn };
    Stable::empty(shape, Contract::xxh3().with_encoding(u64::ENCODING), promise).unwrap()
}

fn reloaded(filter: &Stable) -> Stable {
    let mut store = Owned::zeroed(filter.shape().words()).unwrap();
    store.as_mut_slice().copy_from_slice(filter.store().as_slice());
    let shape = filter.shape();
    let shape = StableShape::new(shape.rows(), shape.lines_per_key(), shape.round()).unwrap();
    Stable::from_parts(shape, filter.contract().clone(), filter.promise(), filter.len(), store).unwrap()
}

fn hits(filter: &Stable, strangers: std::ops::Range<u64>) -> u64 {
    let keys: Vec<u64> = strangers.collect();
    let mut answers = vec![false; keys.len()];
    filter.seen_lately_batch(&keys, &mut answers).unwrap();
    answers.iter().filter(|&&hit| hit).count() as u64
}

/// After every single insertion the last two rounds of them are there; three rounds after its insertion a key is found
/// as often as one that never came.
#[test]
fn the_latest_insertions_are_certainly_remembered() {
    for (rows, lines, round) in [(1, 1, 8), (3, 1, 31), (4, 2, 57), (2, 3, 100), (40, 1, 400)] {
        let mut filter = filter(rows, lines, round);
        let capacity = filter.capacity();
        assert_eq!(capacity, 2 * round);
        let mut forgotten_early = 0;
        for key in 0..12 * round {
            filter.insert(&key).unwrap();
            for back in 0..capacity.min(key + 1) {
                assert!(filter.seen_lately(&(key - back)).unwrap(), "{round}: {back} insertions ago");
            }
            if key >= capacity + round / 4 {
                forgotten_early += u64::from(!filter.seen_lately(&(key - capacity - round / 4)).unwrap());
            }
        }
        // A quarter of a round later most are gone: the memory is not spent on what was not promised.
        assert!(forgotten_early > 2 * round, "{rows}x{lines}, {round}: {forgotten_early} forgotten");
    }
    let mut filter = filter(400, 1, 4_000);
    let (mut old, mut asked) = (0, 0);
    for part in 0..600u64 {
        filter.insert_batch(&(part * 1_000..(part + 1) * 1_000).collect::<Vec<u64>>()).unwrap();
        if part >= 14 {
            // 13,000 to 14,000 insertions ago: more than three rounds.
            old += hits(&filter, (part - 13) * 1_000..(part - 12) * 1_000);
            asked += 1_000;
        }
    }
    assert!(within(old, asked, filter.settled_rate(), 4.5), "{old} of {asked}, {}", filter.settled_rate());
}

/// Over a stream of 100 keys for every cell the rate settles where the formula says, and stays: in the first part as in
/// the last. The formula keeps what was asked, and not much less.
#[test]
fn the_rate_settles_and_stays() {
    for (bytes, rate) in [(8_192, 0.1), (8_192, 0.01), (12_800, 2e-3)] {
        let mut filter = Stable::builder().keys::<u64>().bytes(bytes).rate(rate).build().unwrap();
        assert_eq!(filter.size_in_bytes(), bytes);
        let settled = filter.settled_rate();
        assert!(settled <= rate * 1.0001 && settled > rate * 0.97, "asked {rate}, settles at {settled}");
        let stream = 100 * filter.shape().cells();
        let (mut next, mut stranger) = (0, 1 << 50);
        for part in 0..4 {
            let (mut found, mut asked) = (0, 0);
            while next < (part + 1) * stream / 4 {
                let until = next + 4 * filter.shape().round();
                filter.insert_batch(&(next..until).collect::<Vec<u64>>()).unwrap();
                next = until;
                found += hits(&filter, stranger..stranger + 500);
                stranger += 500;
                asked += 500;
            }
            assert!(asked > 20_000);
            assert!(within(found, asked, settled, 4.5), "asked {rate}, part {part}: {found} of {asked}, {settled}");
        }
        assert_eq!((filter.len(), filter.is_full()), (next, true));
        assert_eq!(filter.expected_rate(), settled);
    }
}

/// On the way there the rate is as told, too; and the cells tell the same as the count.
#[test]
fn the_rate_on_the_way_is_as_told() {
    for lines in [1, 2] {
        for inserted in [5_000u64, 12_000, 20_000, 27_000] {
            let mut filter = filter(500, lines, 10_000);
            filter.insert_batch(&(0..inserted).collect::<Vec<u64>>()).unwrap();
            let expected = filter.expected_rate();
            let trials = 100_000;
            let found = hits(&filter, 1 << 50..(1 << 50) + trials);
            // 500 lines are a sample themselves: their fill spreads the rate by 4 % or so besides the trials.
            let spread = 4.5 * ((trials as f64 * expected).sqrt() + 0.05 * trials as f64 * expected);
            assert!((found as f64 - trials as f64 * expected).abs() < spread, "{inserted}: {found}, {expected}");
            let estimated = filter.estimated_rate();
            assert!(within(found, trials, estimated, 4.5), "{inserted}: {found}, by the cells {estimated}");
            if inserted <= 20_000 {
                let count = filter.approximate_count();
                assert!((count.value / inserted as f64 - 1.0).abs() < 0.03, "{inserted}: {count:?}");
                assert_eq!(filter.remaining(), 20_000 - inserted);
            }
        }
    }
}

/// A filter that is saved and loaded after every few insertions is the one that never was.
#[test]
fn a_reloaded_filter_goes_on_as_if_nothing_had_happened() {
    for (every, rows, lines, round) in [(1, 3, 1, 40), (7, 2, 2, 33), (100, 5, 1, 41)] {
        let mut kept = filter(rows, lines, round);
        let mut saved = kept.clone();
        let mut dice = Dice(every);
        for n in 0..3_000 {
            let key = dice.below(400);
            let seen = kept.seen_lately(&key).unwrap();
            assert_eq!(kept.insert(&key).unwrap(), !seen);
            assert_eq!(saved.insert(&key).unwrap(), !seen);
            if n % every == 0 {
                saved = reloaded(&saved);
            }
        }
        assert_eq!(kept, saved);
        assert_eq!(kept.len(), 3_000);
    }
}

#[test]
fn batches_do_what_single_calls_do() {
    for (rows, lines, round) in [(10, 1, 90), (7, 3, 64), (300, 2, 4_000)] {
        let (mut single, mut batch) = (filter(rows, lines, round), filter(rows, lines, round));
        let mut dice = Dice(rows);
        for _ in 0..40 {
            let keys: Vec<u64> = (0..dice.below(150)).map(|_| dice.below(5_000)).collect();
            let fresh = keys.iter().map(|key| u64::from(single.insert(key).unwrap())).sum::<u64>();
            assert_eq!(batch.insert_batch(&keys).unwrap(), fresh);
            assert_eq!(batch, single);
            assert_eq!(batch.len(), single.len());
            let asked: Vec<u64> = (0..777).collect();
            let mut answers = vec![true; 777];
            batch.seen_lately_batch(&asked, &mut answers).unwrap();
            assert!(asked.iter().zip(&answers).all(|(key, &answer)| single.seen_lately(key).unwrap() == answer));
            let digests: Vec<Digest> = asked.iter().map(|key| single.contract().digest(key).unwrap()).collect();
            let mut again = vec![false; 777];
            batch.contains_digests(&digests, &mut again).unwrap();
            assert_eq!(answers, again);
        }
        assert!(batch.seen_lately_batch(&[1u64], &mut []).is_err());
        batch.clear();
        assert_eq!((batch.len(), batch.set_cells(), batch.fill_ratio()), (0, 0, 0.0));
        assert_eq!(batch, filter(rows, lines, round));
    }
}

#[test]
fn hostile_parts_do_no_harm() {
    for (rows, lines, round) in [
        (0, 1, 1),
        (1, 0, 1),
        (1, 9, 100),
        (1, 1, 0),
        (1_000, 1, 124),
        (1, 1, u64::MAX),
        (u64::MAX, 8, u64::MAX),
        (1 << 48, 1, 1 << 46),
    ] {
        assert!(StableShape::new(rows, lines, round).is_err(), "{rows} {lines} {round}");
    }
    assert!(StableShape::new(1 << 47, 8, 1 << 47).is_ok());
    assert!(StableShape::new(1_000, 1, 125).is_ok());
    let good = filter(4, 2, 50);
    let parts = |inserted, words, when_full| {
        let mut store = Owned::zeroed(words).unwrap();
        store.as_mut_slice().fill(0xdead_beef_cafe_f00d);
        let promise = Promise { when_full, ..good.promise() };
        Stable::from_parts(*good.shape(), good.contract().clone(), promise, inserted, store)
    };
    assert!(parts(0, 63, WhenFull::GoOn).is_err());
    assert!(parts(0, 64, WhenFull::Refuse).is_err());
    for inserted in [0, 7, u64::MAX] {
        let mut any = parts(inserted, 64, WhenFull::GoOn).unwrap();
        for key in 0..500u64 {
            any.insert(&key).unwrap();
            assert!(any.seen_lately(&key).unwrap());
        }
        any.insert_batch(&[1u64, 2]).unwrap();
        assert!((0.0..=1.0).contains(&any.estimated_rate()) && any.approximate_count().value.is_finite());
    }
}

#[test]
fn builders_make_what_was_asked_for_or_say_why_not() {
    let builder = || Stable::builder().keys::<u64>();
    let refused = |builder: StableBuilder| builder.build().unwrap_err().kind();
    assert_eq!(refused(builder()), ErrorKind::InvalidParameter);
    assert_eq!(refused(builder().bytes(63)), ErrorKind::LimitExceeded);
    assert_eq!(refused(builder().bytes(63).items(10)), ErrorKind::InvalidParameter);
    assert_eq!(refused(builder().items(10).when_full(WhenFull::Refuse)), ErrorKind::InvalidParameter);
    assert_eq!(refused(builder().items(1_000_000).rate(0.01).bytes(1_000_000)), ErrorKind::LimitExceeded);
    let needed = builder().items(100_000).rate(0.01).build().unwrap();
    assert_eq!((needed.capacity(), needed.promised_rate()), (100_000, 0.01));
    let bits = needed.size_in_bytes() as f64 * 8.0 / 1e5;
    assert!((bits - 25.93).abs() < 0.05, "{bits} bits per remembered insertion");
    assert!(needed.settled_rate() <= 0.010_001 && needed.settled_rate() > 0.009_9);
    let had = builder().bytes(needed.size_in_bytes()).rate(0.01).build().unwrap();
    assert!(had.capacity() >= 100_000 && had.capacity() < 100_300, "{}", had.capacity());
    let best = builder().bytes(needed.size_in_bytes()).items(100_000).build().unwrap();
    assert_eq!(best.capacity(), 100_000);
    assert!(best.promised_rate() <= 0.01 && best.settled_rate() <= best.promised_rate());
    let roomy = builder().bytes(1 << 20).items(10).build().unwrap();
    assert!(roomy.capacity() >= 10 && roomy.promised_rate() < 1e-9);
    let strict = builder().items(1_000).rate(1e-12).build().unwrap();
    assert!(strict.settled_rate() <= 1.0001e-12, "{}", strict.settled_rate());
    let remembers = strict.remembers();
    assert!(remembers.low == 1_000.0 && remembers.high == Some(1_500.0));
    assert!(remembers.value > 1_000.0 && remembers.value < 1_032.0);
    assert_eq!((strict.kind(), strict.guarantee()), (Kind::Stable, Guarantee::Forgetful));
    assert!(!format!("{strict:?}").contains("store"));
}

/// Small enough for Miri: the loops, single and in batches.
#[test]
fn miri_cells_rise_and_fade() {
    let shape = StableShape::new(2, 2, 20).unwrap();
    let promise = Promise { capacity: 40, rate: 0.1, when_full: WhenFull::GoOn };
    let mut filter = Stable::empty(shape, Contract::given(), promise).unwrap();
    let digests: Vec<Digest> =
        (1..70u64).map(|i| Digest::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15), i << 50)).collect();
    filter.insert_digests(&digests).unwrap();
    let mut answers = [false; 40];
    filter.seen_lately_digests(&digests[29..], &mut answers).unwrap();
    assert_eq!(answers, [true; 40]);
}
