//! What is seen only from inside: the bits themselves; and the small filters that Miri can run (`miri_*`).

use std::collections::HashSet;
use std::thread;

use super::{Blocked, Bloom, Classic, Counting, Partitioned, Scalable};
use super::{BlockedLayout, ClassicLayout, PartitionedLayout};
use crate::hash::{Contract, Digest};
use crate::promise::{Promise, WhenFull};

const PROMISE: Promise = Promise { capacity: 10, rate: 0.1, when_full: WhenFull::GoOn };

fn mix(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn digest(i: u64) -> Digest {
    Digest::new(mix(2 * i), mix(2 * i + 1))
}

/// T20: a half-full filter does not compress. Its bytes have the entropy of coin flips with this fill, no 64 bits
/// come twice, and every part of it is as full as the others. `clumping`: how much more than single bits the counts
/// of parts spread. Lines of a blocked filter hold 50 keys give or take 7, so their fill spreads by 0.05 where coins
/// spread by 0.02: 2.5 times as much together, which also costs 0.003 bits of entropy a byte.
fn looks_like_coin_flips(name: &str, words: &[u64], clumping: f64) {
    let bits = words.len() as f64 * 64.0;
    let fill = words.iter().map(|word| f64::from(word.count_ones())).sum::<f64>() / bits;
    assert!((0.4..0.6).contains(&fill), "{name}: filled {fill}");
    let coin = -(fill * fill.log2() + (1.0 - fill) * (1.0 - fill).log2());
    // At two offsets: no grid of eight hides a pattern.
    for shift in [0, 3] {
        let mut counts = [0u32; 256];
        words.iter().flat_map(|word| (word >> shift).to_le_bytes().into_iter().take(7)).for_each(|byte| {
            counts[usize::from(byte)] += 1;
        });
        let bytes = words.len() as f64 * 7.0;
        let entropy: f64 = counts
            .iter()
            .filter(|&&count| count > 0)
            .map(|&count| f64::from(count) / bytes)
            .map(|share| -share * share.log2())
            .sum();
        // A sample shows 255 / (2 N ln 2) bits too little.
        let bias = 255.0 / (2.0 * bytes * std::f64::consts::LN_2);
        assert!(
            (entropy + bias - 8.0 * coin).abs() < 2e-3 * clumping,
            "{name}: {entropy} bits a byte of {}",
            8.0 * coin
        );
    }
    let different: HashSet<u64> = words.iter().copied().collect();
    assert_eq!(different.len(), words.len(), "{name}: words that repeat");
    let parts = words.chunks(words.len() / 64);
    for (at, part) in parts.enumerate().filter(|(_, part)| part.len() > 100) {
        let share = part.iter().map(|word| f64::from(word.count_ones())).sum::<f64>() / (part.len() as f64 * 64.0);
        let error = clumping * (fill * (1.0 - fill) / (part.len() as f64 * 64.0)).sqrt();
        assert!((share - fill).abs() < 4.5 * error, "{name}: part {at} is filled {share}, all {fill}");
    }
}

#[test]
fn a_half_full_filter_does_not_compress() {
    let keys: Vec<u64> = (0..400_000).collect();
    let mut classic = Classic::builder().keys::<u64>().items(400_000).rate(0.01).build().unwrap();
    classic.insert_batch(&keys).unwrap();
    looks_like_coin_flips("classic", classic.store().as_slice(), 1.0);
    let mut blocked = Blocked::builder().keys::<u64>().items(400_000).rate(0.01).build().unwrap();
    blocked.insert_batch(&keys).unwrap();
    looks_like_coin_flips("blocked", blocked.store().as_slice(), 2.5);
    let mut sliced = Partitioned::builder().keys::<u64>().items(400_000).rate(0.01).build().unwrap();
    sliced.insert_batch(&keys).unwrap();
    looks_like_coin_flips("partitioned", sliced.store().as_slice(), 1.0);
}

/// T41: each counter of a key moves by exactly one, up and down, also where two of its bits fall together; and no other
/// counter moves.
#[test]
fn counters_move_by_exactly_one() {
    for rate in [0.01, 1e-5] {
        // So few lines that a key's several lines often fall together.
        let mut filter = Counting::builder().items(20).rate(rate).build().unwrap();
        let per_key = filter.hashes_of_a_key();
        let mut coincided = 0;
        for i in 0..2_000 {
            let digest = digest(i);
            let before = filter.counters();
            filter.insert_digest(digest).unwrap();
            let after = filter.counters();
            let moved = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            assert!(before.iter().zip(&after).all(|(&a, &b)| b == a || b == a + 1));
            assert!((1..=per_key).contains(&moved), "{moved} counters of {per_key}");
            coincided += usize::from(moved < per_key);
            assert!(filter.remove_digest(digest));
            assert_eq!(filter.counters(), before);
            // Some stay, so that the next keys meet counters that are not zero.
            if i % 100 == 0 {
                filter.insert_digest(digest).unwrap();
            }
        }
        assert!(coincided > 50, "rate {rate}: two bits fell together {coincided} times");
    }
}

impl Counting {
    fn counters(&self) -> Vec<u64> {
        let width = self.counter_bits().bits();
        let top = self.counter_bits().top();
        self.store()
            .as_slice()
            .iter()
            .flat_map(|&word| (0..64 / width).map(move |at| (word >> (at * width)) & top))
            .collect()
    }

    fn hashes_of_a_key(&self) -> usize {
        self.layout().lines_per_key() as usize * 8
    }
}

/// The portable loops of every layout on filters of a few words, single and in batches.
#[test]
fn miri_small_filters_keep_every_key() {
    let digests: Vec<Digest> = (0..70).map(digest).collect();
    // Made without the builder, whose exact mathematics takes Miri minutes.
    macro_rules! check {
        ($layout:expr) => {
            let shape = || Bloom::empty($layout.unwrap(), Contract::given(), PROMISE);
            let mut single = shape().unwrap();
            for &digest in &digests {
                assert_ne!(single.contains_digest(digest), single.insert_digest(digest).unwrap());
            }
            let mut batch = shape().unwrap();
            assert_eq!(batch.insert_digests(&digests).unwrap(), single.len());
            assert_eq!(batch, single);
            let mut answers = [false; 70];
            batch.contains_digests(&digests, &mut answers).unwrap();
            assert_eq!(answers, [true; 70]);
            // In place: to shared, one more key through it, and back.
            let shared = batch.into_shared().unwrap();
            shared.insert_digest(digest(100)).unwrap();
            shared.insert_digests(&digests).unwrap();
            let back = shared.into_owned().unwrap();
            single.insert_digest(digest(100)).unwrap();
            assert_eq!(back, single);
        };
    }
    check!(ClassicLayout::new(1, 1));
    check!(ClassicLayout::new(65, 3));
    check!(ClassicLayout::new(1_000, 7));
    check!(PartitionedLayout::new(43, 3));
    check!(BlockedLayout::new(1, 1, false));
    check!(BlockedLayout::new(3, 2, true));
}

/// Two threads set and read the same words through `&`, which become one owner's again.
#[test]
fn miri_threads_share_the_words() {
    let lines = || Bloom::empty(BlockedLayout::new(2, 1, false).unwrap(), Contract::given(), PROMISE).unwrap();
    let classic = Bloom::empty(ClassicLayout::new(200, 3).unwrap(), Contract::given(), PROMISE).unwrap();
    let (classic, blocked) = (classic.into_shared().unwrap(), lines().into_shared().unwrap());
    thread::scope(|scope| {
        for from in [0, 10] {
            let (classic, blocked) = (&classic, &blocked);
            scope.spawn(move || {
                for i in from..from + 20 {
                    classic.insert_digest(digest(i)).unwrap();
                    blocked.insert_digests(&[digest(i), digest(i + 1)]).unwrap();
                    assert!(classic.contains_digest(digest(i)) && blocked.contains_digest(digest(i + 1)));
                    let _ = (classic.len(), blocked.contains_digest(digest(50 + i)));
                }
            });
        }
    });
    let (mut classic, blocked) = (classic, blocked.into_owned().unwrap());
    let mut alone = lines();
    alone.insert_digests(&(0..31).map(digest).collect::<Vec<_>>()).unwrap();
    assert_eq!(alone, blocked);
    assert!((0..30).all(|i| classic.contains_digest(digest(i))));
    classic.clear();
    assert_eq!((classic.set_bits(), classic.len()), (0, 0));
}

/// Counters at both ends of their words, all widths, up to the top and back.
#[test]
fn miri_counters_rise_and_fall() {
    for width in [4, 8, 16] {
        let width = super::CounterBits::from_bits(width).unwrap();
        let mut filter = Counting::builder().items(10).counter_bits(width).build().unwrap();
        let digests: Vec<Digest> = (0..20).map(digest).collect();
        filter.insert_digests(&digests).unwrap();
        assert!(digests.iter().all(|&digest| filter.contains_digest(digest)));
        assert_eq!(filter.to_plain().unwrap().set_bits(), filter.set_cells());
        assert!(digests.iter().all(|&digest| filter.remove_digest(digest)));
        assert_eq!((filter.set_cells(), filter.len()), (0, 0));
    }
}

/// A chain grows under two threads: the once-cells, the lock and the stages.
#[test]
fn miri_a_chain_grows_under_two_threads() {
    let chain = Scalable::builder().items(4).rate(0.1).when_full(WhenFull::Grow).build_shared().unwrap();
    thread::scope(|scope| {
        for from in [0, 20] {
            let chain = &chain;
            scope.spawn(move || {
                for i in from..from + 30 {
                    chain.insert_digest(digest(i)).unwrap();
                    assert!(chain.contains_digest(digest(i)));
                }
            });
        }
    });
    assert!(chain.stages() > 1);
    let chain = chain.into_owned().unwrap();
    assert!((0..50).all(|i| chain.contains_digest(digest(i))));
    assert!(chain.each_stage().all(|stage| stage.set_bits() > 0));
}

/// A stage that is made ahead is the one that is opened: the same chain comes of it, whoever was first, and memory that is
/// brought in keeps what is in it.
#[test]
fn a_stage_that_was_made_ahead_is_opened_in_its_turn() {
    let chain = || Scalable::builder().keys::<u64>().items(1_000).rate(0.01).build_shared().unwrap();
    let (ahead, plain) = (chain(), chain());
    for key in 0..20_000u64 {
        if ahead.is_filling_up() {
            ahead.prepare_growth().unwrap();
            // Twice is once.
            ahead.prepare_growth().unwrap();
        }
        assert_eq!(ahead.insert(&key).unwrap(), plain.insert(&key).unwrap());
    }
    assert!(ahead.stages() > 4 && ahead == plain);
    assert_eq!(ahead.size_in_bytes(), plain.size_in_bytes());
    let refuses = Scalable::builder().keys::<u64>().items(10).when_full(WhenFull::Refuse).build_shared().unwrap();
    (0..10u64).for_each(|key| drop(refuses.insert(&key)));
    refuses.prepare_growth().unwrap();
    assert!(refuses.is_full() && refuses.insert(&10).is_err(), "a chain that refuses does not grow ahead either");
    assert_eq!(refuses.stages(), 1);
}

/// Writers race for a stage that another thread makes meanwhile: one stage is opened, and every key is found.
#[test]
fn stages_are_made_ahead_while_others_insert() {
    let chain = Scalable::builder().keys::<u64>().items(500).rate(0.01).build_shared().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                chain.prepare_growth().unwrap();
            }
        });
        let writers: Vec<_> = (0..2u64)
            .map(|writer| {
                let chain = &chain;
                scope.spawn(move || (0..20_000u64).for_each(|key| _ = chain.insert(&(key * 2 + writer)).unwrap()))
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!((0..40_000u64).all(|key| chain.contains(&key).unwrap()));
    assert!(chain.expected_rate() <= 0.01 * 1.01);
}

/// Pages that are brought in while bits are set in them lose none.
#[test]
fn memory_is_brought_in_around_what_is_in_it() {
    let filter = Blocked::builder().keys::<u64>().items(5_000_000).rate(0.01).build_shared().unwrap();
    assert!(filter.size_in_bytes() > 4 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| filter.bring_in());
        (0..100_000u64).for_each(|key| drop(filter.insert(&key)));
    });
    filter.bring_in();
    assert!((0..100_000u64).all(|key| filter.contains(&key).unwrap()));
    let wrong = (1_000_000..2_000_000u64).filter(|key| filter.contains(key).unwrap()).count();
    assert!(wrong < 20, "100,000 of 5,000,000 keys: a wrong yes is next to impossible, not {wrong} in a million");
}
