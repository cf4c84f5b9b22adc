//! Chains together: no key of either is lost, the rate is what is told, growth goes by the real load, and what does not go
//! together is refused with both named.

use std::collections::HashSet;

use bloomgate::bloom::ScalableBuilder;
use bloomgate::math::estimate::within;
use bloomgate::math::scalable::{Tightening, chain_rate, stage_capacity, stage_rate};
use bloomgate::{
    AnyFilter, Blocked, Classic, Contract, ErrorKind, Kind, Mapped, OpenOptions, Partitioned, Scalable, Secret,
    WhenFull,
};

use crate::keys::{ABSENT, scattered};

const HALVING: Tightening = Tightening::Geometric(0.5);

fn builder(first: u64, rate: f64) -> ScalableBuilder {
    Scalable::builder().keys::<u64>().items(first).rate(rate)
}

fn filled(builder: ScalableBuilder, keys: &[u64]) -> Scalable {
    let mut chain = builder.build().unwrap();
    chain.insert_batch(keys).unwrap();
    chain
}

fn mapped(chain: &Scalable) -> AnyFilter<Mapped> {
    AnyFilter::map_bytes(&AnyFilter::from(chain.clone()).to_bytes().unwrap(), &OpenOptions::new()).unwrap()
}

fn has_all(chain: &Scalable, keys: &[u64]) -> bool {
    let mut answers = vec![false; keys.len()];
    chain.contains_batch(keys, &mut answers).unwrap();
    answers.iter().all(|&answer| answer)
}

/// The stages of two makings that the server uses, and of the library's default.
fn makings(first: u64, rate: f64) -> [ScalableBuilder; 3] {
    [
        builder(first, rate),
        builder(first, rate).growth(2.0).tightening(HALVING),
        builder(first, rate).growth(1.0).tightening(Tightening::Plateau { stages: 3, then: 0.5 }),
    ]
}

/// Chains of any two lengths, in both orders, wherever the right side lives and whatever its stages are: every key of both
/// is there, and the bits are the same from both sides.
#[test]
fn every_key_of_both_is_in_the_union() {
    let sizes = [0, 1, 30, 64, 65, 200, 900, 3_000];
    for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        for (making, make) in makings(64, 0.01).into_iter().enumerate() {
            let make = make.stages(stages);
            for (at, &one) in sizes.iter().enumerate() {
                for &other in &sizes[..=at] {
                    // A third of the smaller set is in the larger one too.
                    let (a, b) = (scattered(1, 0, one), scattered(1, one - other / 3, other));
                    let (long, short) = (filled(make.clone(), &a), filled(make.clone(), &b));
                    let case = format!("{stages}, making {making}, {one} and {other} keys");
                    let unions = [long.union(&short).unwrap(), short.union(&long).unwrap()];
                    for union in &unions {
                        assert!(has_all(union, &a) && has_all(union, &b), "{case}: a wrong no");
                        assert_eq!(union.stages(), long.stages().max(short.stages()), "{case}");
                        let (least, most) = (long.len().max(short.len()), long.len() + short.len());
                        assert!((least..=most).contains(&union.len()), "{case}: counts {}", union.len());
                        assert!(union.expected_rate() >= long.expected_rate().max(short.expected_rate()), "{case}");
                    }
                    assert!(unions[0] == unions[1], "{case}: the bits depend on the order");
                    let mut in_place = long.clone();
                    in_place.union_with(&short.clone().into_shared().unwrap()).unwrap();
                    assert!(in_place == unions[0] && in_place.len() == unions[0].len(), "{case}: shared");
                    let mut any = AnyFilter::from(short.clone());
                    any.union_with(&mapped(&long)).unwrap();
                    assert!(matches!(&any, AnyFilter::Scalable(chain) if *chain == unions[1]), "{case}: mapped");
                    // With itself and with nothing nothing changes.
                    let len = in_place.len();
                    in_place.union_with(&in_place.clone()).unwrap();
                    in_place.union_with(&make.clone().build().unwrap()).unwrap();
                    assert!(in_place == unions[0] && in_place.len() == len, "{case}: again");
                }
            }
        }
    }
}

/// How a chain is made, and each of its stages as a filter of its own.
#[derive(Clone, Copy)]
struct Making {
    first: u64,
    rate: f64,
    growth: f64,
    tightening: Tightening,
}

impl Making {
    fn stage(&self, at: usize) -> Blocked {
        let capacity = stage_capacity(self.first, self.growth, at as u32).unwrap();
        let share = stage_rate(self.rate, self.tightening, at as u32);
        Blocked::builder().keys::<u64>().items(capacity).rate(share).build().unwrap()
    }

    /// A chain, and the keys whose bits are in each of its stages: those that came while it was the last and that no stage
    /// before it took for known. (Those that it took for known itself are among them: they would have set no other bits.)
    fn traced(&self, keys: &[u64]) -> (Scalable, Vec<HashSet<u64>>) {
        let make = builder(self.first, self.rate).growth(self.growth).tightening(self.tightening);
        let mut chain = make.build().unwrap();
        let (mut stages, mut alone) = (vec![HashSet::new()], vec![self.stage(0)]);
        for key in keys {
            let had_room = !chain.is_full();
            let fresh = chain.insert(key).unwrap();
            if chain.stages() > stages.len() {
                stages.push(HashSet::new());
                alone.push(self.stage(alone.len()));
            }
            let last = stages.len() - 1;
            let known_before = || alone[..last].iter().any(|stage| stage.contains(key).unwrap());
            if fresh || (had_room && !known_before()) {
                stages[last].insert(*key);
                alone[last].insert(key).unwrap();
            }
        }
        assert_eq!(chain.set_bits(), alone.iter().map(Blocked::set_bits).sum::<u64>());
        (chain, stages)
    }

    /// The exact expected rate of a chain with these keys in its stages.
    fn exact_rate(&self, stages: &[HashSet<u64>]) -> f64 {
        let rate = |(at, keys): (usize, &HashSet<u64>)| self.stage(at).expected_rate_at(keys.len() as u64);
        chain_rate(stages.iter().enumerate().map(rate))
    }
}

/// The measured rate of unions, within what the shapes promise and far beyond, is the exact expected one of the keys in each
/// stage, on both sides; and that is what the union tells of itself.
#[test]
fn the_rate_of_a_union_is_the_exact_expected_rate_and_told() {
    let (worlds, probes) = (24u64, 40_000u64);
    let (growing, halving) = ((1.75, Tightening::default()), (2.0, HALVING));
    // First stage, rate, making, keys of the one and of the other, and how many of these are in both.
    for (case, (first, rate, (growth, tightening), one, other, common)) in [
        (1_000, 0.01, growing, 500, 500, 0),
        (1_000, 0.01, growing, 1_000, 1_000, 0),
        (1_000, 0.01, halving, 1_000, 1_000, 300),
        (1_000, 0.01, halving, 1_000, 100, 0),
        (1_000, 0.1, halving, 7_000, 2_500, 1_000),
        (300, 0.01, growing, 3_000, 250, 0),
        (300, 0.01, growing, 3_000, 3_000, 0),
        (100, 0.001, halving, 90, 90, 45),
        (100, 0.01, halving, 1_500, 700, 700),
    ]
    .into_iter()
    .enumerate()
    {
        let making = Making { first, rate, growth, tightening };
        let (mut off, mut off_squares, mut exact_sum, mut told_sum) = (0.0, 0.0, 0.0, 0.0);
        for world in 0..worlds {
            let stream = 100 + case as u64 * worlds + world;
            let (a, ours) = making.traced(&scattered(stream, 0, one));
            let (b, theirs) = making.traced(&scattered(stream, one - common, other));
            let union = if world % 2 == 0 { a.union(&b).unwrap() } else { b.union(&a).unwrap() };
            let together: Vec<HashSet<u64>> = (0..ours.len().max(theirs.len()))
                .map(|at| ours.get(at).into_iter().chain(theirs.get(at)).flatten().copied().collect())
                .collect();
            let exact = making.exact_rate(&together);
            let mut answers = vec![false; probes as usize];
            union.contains_batch(&scattered(stream, ABSENT, probes), &mut answers).unwrap();
            let measured = answers.iter().filter(|&&answer| answer).count() as f64 / probes as f64;
            off += measured - exact;
            off_squares += (measured - exact).powi(2);
            exact_sum += exact;
            told_sum += union.expected_rate();
            let told = union.expected_rate() / exact;
            assert!((0.5..2.0).contains(&told), "case {case}: told {told} of what is to be expected");
            if exact > rate * 1.5 {
                assert!(union.expected_rate() > rate, "case {case}: the promise is claimed at {exact}");
            }
        }
        let n = worlds as f64;
        let (mean, exact) = (off / n, exact_sum / n);
        // Small filters differ from one another by more than probes do.
        let between = ((off_squares / n - mean * mean).max(0.0) / n).sqrt();
        let error = between.max((exact * (1.0 - exact) / (n * probes as f64)).sqrt());
        assert!(mean.abs() <= 4.5 * error, "case {case}: measured {:e}, expected {exact:e} +- {error:e}", exact + mean);
        let told = told_sum / exact_sum;
        assert!((told - 1.0).abs() < 0.08, "case {case}: told {told} of the expected rate");
    }
}

/// Two halves fill a stage as one set of the same keys does: growth comes at the real load, and the promise is kept.
#[test]
fn a_union_grows_by_its_real_load() {
    for make in makings(1_000, 0.01) {
        let half = |from| filled(make.clone(), &scattered(2, from, 450));
        let mut union = half(0).union(&half(450)).unwrap();
        let alone = filled(make.clone(), &scattered(2, 0, 900));
        // 450 keys read off the bits of a stage for 1,000 err by about 9: 4.5 times that.
        assert!(union == alone && union.len().abs_diff(900) <= 40, "{}", union.len());
        assert!(union.remaining().abs_diff(100) <= 40, "{}", union.remaining());
        let more = scattered(2, 900, 20_000);
        let opened = more.iter().position(|key| {
            union.insert(key).unwrap();
            union.stages() == 2
        });
        assert!(opened.is_some_and(|at| at.abs_diff(100) <= 45), "the second stage opened after {opened:?}");
        union.insert_batch(&more).unwrap();
        assert!(has_all(&union, &scattered(2, 0, 20_900)));
        assert!(union.expected_rate() <= 0.0101 && !union.is_full(), "{}", union.expected_rate());
        let hits = scattered(2, ABSENT, 50_000).iter().filter(|key| union.contains(key).unwrap()).count() as u64;
        assert!(within(hits, 50_000, union.estimated_rate(), 4.5), "{hits}");
    }
}

/// A last stage with the keys of two is full: what comes goes into another, in every form, and the excess stays what it was.
#[test]
fn an_overfull_union_opens_a_stage_at_the_next_key() {
    let full = |from| filled(builder(500, 0.01), &scattered(3, from, 500));
    let union = full(0).union(&full(500)).unwrap();
    assert!(union.is_full() && union.remaining() == 0 && union.stages() == 1);
    let excess = union.expected_rate();
    assert!(excess > 0.01, "{excess}");
    let more = scattered(3, 1_000, 8_000);
    let mut one_by_one = union.clone();
    let new = more.iter().find(|key| !union.contains(*key).unwrap()).unwrap();
    assert!(one_by_one.insert(new).unwrap() && one_by_one.stages() == 2);
    let mut batch = union.clone();
    batch.insert_batch(&more).unwrap();
    let shared = union.clone().into_shared().unwrap();
    assert!(shared.is_filling_up());
    shared.prepare_growth().unwrap();
    shared.insert_batch(&more).unwrap();
    for grown in [batch, shared.into_owned().unwrap()] {
        assert!(has_all(&grown, &scattered(3, 0, 9_000)) && grown.stages() > 4);
        let told = grown.expected_rate();
        assert!(told >= excess && told <= chain_rate([excess, 0.01]), "{told} after {excess}");
        let hits = scattered(3, ABSENT, 50_000).iter().filter(|key| grown.contains(key).unwrap()).count() as u64;
        assert!(within(hits, 50_000, grown.estimated_rate(), 4.5), "{hits}");
        // One key in a hundred more or less is a tenth of the rate.
        assert!((told / grown.estimated_rate() - 1.0).abs() < 0.4, "{told} {}", grown.estimated_rate());
    }
}

/// What docs/kinds.md says that two full filters for 1,000 keys at 1 % cost together.
#[test]
fn two_full_first_stages_cost_what_the_guide_says() {
    for (growth, tightening, said) in [(1.75, Tightening::default(), 0.018), (2.0, HALVING, 0.10)] {
        let making = Making { first: 1_000, rate: 0.01, growth, tightening };
        let full = |from| making.traced(&scattered(9, from, 1_000)).0;
        let (exact, told) =
            (making.exact_rate(&[(0..2_000).collect()]), full(0).union(&full(1_000)).unwrap().expected_rate());
        assert!((exact / said - 1.0).abs() < 0.05 && (told / said - 1.0).abs() < 0.2, "{said}: {exact}, told {told}");
    }
}

/// What a union is is in its file: the same bits, counts and growth after it.
#[test]
fn a_union_goes_through_a_file() {
    for make in makings(64, 0.02) {
        let (long, short) =
            (filled(make.clone(), &scattered(4, 0, 2_000)), filled(make.clone(), &scattered(4, 2_000, 100)));
        let mut union = short.union(&long).unwrap();
        let bytes = AnyFilter::from(union.clone()).to_bytes().unwrap();
        let AnyFilter::Scalable(mut back) = AnyFilter::from_bytes(&bytes).unwrap() else { panic!("another kind") };
        let facts = |chain: &Scalable| {
            (chain.stages(), chain.len(), chain.capacity(), chain.remaining(), chain.expected_rate(), chain.when_full())
        };
        assert!(back == union && facts(&back) == facts(&union));
        for chain in [&mut back, &mut union] {
            chain.insert_batch(&scattered(4, 3_000, 2_000)).unwrap();
        }
        assert!(back == union && facts(&back) == facts(&union));
        assert!(has_all(&back, &scattered(4, 0, 2_100)) && has_all(&back, &scattered(4, 3_000, 2_000)));
    }
}

/// Another making or contract is refused with both named by their own numbers, whatever is asked, and nothing changes.
#[test]
fn what_was_made_otherwise_is_refused_with_both_named() {
    let keys = scattered(5, 0, 400);
    let ours = || builder(100, 0.01).growth(2.0);
    let one = filled(ours(), &keys);
    let secret = Secret::from_bytes([3; 32]);
    for (other, kind, named) in [
        (builder(101, 0.01).growth(2.0), ErrorKind::Shape, "for 101 keys"),
        (builder(100, 0.02).growth(2.0), ErrorKind::Shape, "rate 0.02"),
        (builder(100, 0.01).growth(4.0), ErrorKind::Shape, "growth 4"),
        (ours().tightening(HALVING), ErrorKind::Shape, "shares Geometric(0.5)"),
        (ours().stages(Kind::Classic), ErrorKind::Shape, "the first of its classic stages"),
        (ours().contract(Contract::xxh3_seeded(9)).keys::<u64>(), ErrorKind::Contract, "seed 9"),
        (ours().secret(&secret), ErrorKind::Contract, "keyed"),
        (Scalable::builder().items(101), ErrorKind::Contract, "shape and contract"),
    ] {
        let mut other = other.build().unwrap();
        let mut mine = one.clone();
        for refusal in [
            mine.union_with(&other).unwrap_err(),
            other.union_with(&mine).unwrap_err(),
            mine.union(&other).unwrap_err(),
            mine.intersection(&other).unwrap_err(),
            mine.intersect_with(&other).unwrap_err(),
            other.overlap(&mine).unwrap_err(),
        ] {
            let said = refusal.to_string();
            assert_eq!(refusal.kind(), kind, "{said}");
            for words in ["the first is scalable, ", "the second scalable, ", "for 100 keys", "rate 0.01", "build both"]
            {
                assert!(said.contains(words), "{words:?} is not in {said}");
            }
            assert!(said.contains(named) || said.contains(&other.contract().to_string()), "{named:?} is not in {said}");
        }
        assert!(mine == one && mine.len() == one.len() && other.is_empty(), "unchanged");
    }
    let refusal =
        AnyFilter::from(one).union_with(&AnyFilter::from(Blocked::builder().items(100).build().unwrap())).unwrap_err();
    assert!(refusal.to_string().contains("a scalable filter") && refusal.to_string().contains("a blocked filter"));
}

/// A chain that refuses when full refuses what is certainly more, never what may fit; one that does not grow does not become
/// longer by another; and going on is told.
#[test]
fn chains_that_do_not_grow_stay_what_they_are() {
    let alone = Tightening::Plateau { stages: 1, then: 0.0 };
    let make = |when_full| builder(2_000, 0.01).tightening(alone).when_full(when_full);
    for stream in 10..25 {
        let part = |when_full, from, count| filled(make(when_full), &scattered(stream, from, count));
        let mut exactly = part(WhenFull::Refuse, 0, 1_000);
        exactly.union_with(&part(WhenFull::Refuse, 1_000, 1_000)).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert!(has_all(&exactly, &scattered(stream, 0, 2_000)));
        let before = part(WhenFull::Refuse, 0, 1_500);
        let mut more = before.clone();
        let refusal = more.union_with(&part(WhenFull::Refuse, 1_500, 1_500)).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Full, "{refusal}");
        assert!(refusal.to_string().contains("2000"), "{refusal}");
        assert!(more == before && more.len() == before.len());
        let mut goes_on = part(WhenFull::GoOn, 0, 1_500);
        goes_on.union_with(&before).unwrap();
        goes_on.union_with(&part(WhenFull::GoOn, 1_500, 1_500)).unwrap();
        assert!(goes_on.stages() == 1 && goes_on.expected_rate() > 0.02 && goes_on.is_full());
        let grown = part(WhenFull::Grow, 0, 5_000);
        assert!(grown.stages() > 1);
        let refusal = goes_on.union_with(&grown).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Shape);
        let said = refusal.to_string();
        assert!(said.contains("does not grow") && said.contains("1 open") && said.contains("2 open"), "{said}");
        let both = grown.union(&goes_on).unwrap();
        assert!(has_all(&both, &scattered(stream, 0, 5_000)) && both.when_full() == WhenFull::Grow);
    }
}

/// A damaged chunk is an error, never bits that are copied: in a stage that both have, and in one that is only copied.
#[test]
fn damaged_chains_are_refused_and_nothing_changes() {
    let make = || builder(60_000, 0.01);
    let long = filled(make(), &scattered(6, 0, 150_000));
    assert_eq!(long.stages(), 2);
    let bytes = AnyFilter::from(long.clone()).to_bytes().unwrap();
    let short = filled(make(), &scattered(6, 0, 1_000));
    let last = long.size_in_bytes() as usize - filled(make(), &[]).size_in_bytes() as usize;
    // From the end: in the last stage, and before it in the first.
    for back in [last / 2, last + last / 4] {
        let mut damaged = bytes.clone();
        let at = damaged.len() - back;
        damaged[at] ^= 0x10;
        let damaged: AnyFilter<Mapped> = AnyFilter::map_bytes(&damaged, &OpenOptions::new()).unwrap();
        let AnyFilter::Scalable(damaged) = damaged else { panic!("another kind") };
        let mut mine = short.clone();
        for refusal in [
            mine.union_with(&damaged).unwrap_err(),
            mine.union(&damaged).unwrap_err(),
            damaged.union(&mine).unwrap_err(),
            mine.intersection(&damaged).unwrap_err(),
        ] {
            assert_eq!(refusal.kind(), ErrorKind::Corrupt, "{refusal}");
            assert!(refusal.to_string().contains("damaged"), "{refusal}");
        }
        assert!(mine == short && mine.len() == short.len() && mine.stages() == 1);
    }
    assert!(has_all(&short.union(&long).unwrap(), &scattered(6, 0, 150_000)));
}

/// An intersection answers "maybe" exactly where both do, in place and not, and goes on growing; chains of several stages are
/// refused, since they would lose keys.
#[test]
fn intersections_of_ungrown_chains_answer_as_both() {
    for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
        for make in makings(5_000, 0.05) {
            let make = make.stages(stages);
            let (one, other) =
                (filled(make.clone(), &scattered(7, 0, 4_000)), filled(make.clone(), &scattered(7, 3_000, 4_000)));
            let mut both = one.intersection(&other.clone().into_shared().unwrap()).unwrap();
            let mut in_place = one.clone();
            in_place.intersect_with(&other).unwrap();
            assert!(both == in_place && both.len() == in_place.len() && both == other.intersection(&one).unwrap());
            for key in scattered(7, 0, 20_000) {
                let expected = one.contains(&key).unwrap() && other.contains(&key).unwrap();
                assert_eq!(both.contains(&key).unwrap(), expected, "{stages}");
            }
            assert!(has_all(&both, &scattered(7, 3_000, 1_000)));
            assert!((980..2_500).contains(&both.len()), "{stages}: {}", both.len());
            assert!(both.expected_rate() <= one.expected_rate());
            let overlap = one.overlap(&other).unwrap();
            assert!((overlap.intersection.value / 1_000.0 - 1.0).abs() < 0.2, "{stages}: {overlap:?}");
            both.insert_batch(&scattered(7, 50_000, 20_000)).unwrap();
            assert!(both.stages() > 1 && has_all(&both, &scattered(7, 3_000, 1_000)));
            for refusal in [both.intersection(&one).unwrap_err(), one.overlap(&both).unwrap_err()] {
                assert_eq!(refusal.kind(), ErrorKind::Unsupported);
                let said = refusal.to_string();
                assert!(said.contains("1 open") && said.contains("may be in one stage here"), "{said}");
            }
            let before = in_place.len();
            assert!(in_place.intersect_with(&both).is_err() && in_place.len() == before);
        }
    }
}

/// One stage is the filter itself, so a union of two first stages is the union of two such filters, bit for bit and in number.
#[test]
fn a_union_of_first_stages_is_the_union_of_the_filters() {
    let share = stage_rate(0.01, Tightening::default(), 0);
    let (a, b) = (scattered(8, 0, 800), scattered(8, 600, 900));
    macro_rules! check {
        ($kind:ident) => {
            let make = || builder(1_000, 0.01).stages(Kind::$kind);
            let chain = filled(make(), &a).union(&filled(make(), &b)).unwrap();
            let alone = |keys: &[u64]| {
                let mut filter = $kind::builder().keys::<u64>().items(1_000).rate(share).build().unwrap();
                filter.insert_batch(keys).unwrap();
                filter
            };
            let united = alone(&a).union(&alone(&b)).unwrap();
            assert_eq!((chain.set_bits(), chain.len()), (united.set_bits(), united.len()));
            assert!((chain.expected_rate() / united.expected_rate() - 1.0).abs() < 1e-9);
            for key in scattered(8, ABSENT, 20_000) {
                assert_eq!(chain.contains(&key).unwrap(), united.contains(&key).unwrap());
            }
        };
    }
    check!(Blocked);
    check!(Classic);
    check!(Partitioned);
}
