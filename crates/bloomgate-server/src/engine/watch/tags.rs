//! Reported items by their whole digests: a table of a fixed size, in stripes that have a lock each.
//!
//! A tag is a digest of 128 bits mixed with a random number of its filter, so two items have one tag exactly if the filter
//! itself could never tell them apart. A bucket has eight places; when all are taken one goes, which costs a client one
//! false positive more: of the namespace that has most of the eight the one that would end first. So a namespace that reports
//! without end pushes out its own. A tag stands once in its bucket: who comes again after its time gets the place that it had.
//!
//! **Beside the tags of a stripe are the items that were added lately**, in two small filters that take turns. Whoever
//! finds an item absent in a database and reports it here may be overtaken by somebody who adds it; after the add the
//! report must not count. Adds put their items there and take the tag away, reports look there first, both under the lock
//! of the stripe: whichever comes first, no item that was added before a report is hidden by it. An item that is found
//! there by mistake is not reported, and that is all.

use std::sync::PoisonError;

use bloomgate::{Blocked, Contract, Digest, WhenFull};
use bloomgate_command::Refusal;

use crate::engine::recipe::refused;
use crate::sync::{Fault, Mutex, MutexGuard, broken, point};

const STRIPES: usize = 64;
/// Places of a bucket.
const WAYS: usize = 8;
/// Lately added items of a stripe that keep their filter's rate, 1 %; more make it refuse more reports.
const LATELY: std::ops::RangeInclusive<u64> = 1_024..=65_536;

/// What became of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    /// It is there now.
    New,
    /// It was there, and stays longer.
    Known,
    /// The item was added lately.
    AddedLately,
}

/// All stripes.
#[derive(Debug)]
pub(super) struct Tags {
    stripes: Box<[Mutex<Stripe>]>,
}

#[derive(Debug)]
struct Stripe {
    tags: Box<[u128]>,
    /// In seconds since 1970; 0 for a place that is free.
    until: Box<[u32]>,
    /// The namespaces that they are of.
    owners: Box<[u16]>,
    /// The younger one first.
    lately: [Blocked; 2],
    /// When the younger one was begun, in milliseconds.
    turned_ms: u64,
}

fn lately(entries: u64) -> Result<Blocked, Refusal> {
    let items = (entries * 4 / STRIPES as u64).clamp(*LATELY.start(), *LATELY.end());
    let builder = Blocked::builder().items(items).rate(0.01).contract(Contract::given());
    builder.when_full(WhenFull::GoOn).build().map_err(|error| refused(&error))
}

fn places(entries: u64) -> usize {
    (entries as usize / STRIPES).next_multiple_of(WAYS).max(WAYS)
}

impl Tags {
    /// Memory that a table for so many entries takes.
    pub(super) fn bytes(entries: u64) -> Result<u64, Refusal> {
        let stripe =
            places(entries) * (size_of::<u128>() + size_of::<u32>() + size_of::<u16>()) + size_of::<Mutex<Stripe>>();
        Ok(STRIPES as u64 * (stripe as u64 + 2 * lately(entries)?.size_in_bytes()))
    }

    /// An empty table.
    pub(super) fn new(entries: u64, now_ms: u64) -> Result<Self, Refusal> {
        // Its size is searched for: once for all.
        let (places, empty) = (places(entries), lately(entries)?);
        let stripe = |_| {
            Mutex::new(Stripe {
                tags: vec![0; places].into(),
                until: vec![0; places].into(),
                owners: vec![0; places].into(),
                lately: [empty.clone(), empty.clone()],
                turned_ms: now_ms,
            })
        };
        Ok(Self { stripes: (0..STRIPES).map(stripe).collect() })
    }

    fn stripe(&self, tag: u128) -> MutexGuard<'_, Stripe> {
        let stripe = (tag >> 64) as usize % STRIPES;
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a tag is there. Its end is looked at here: nobody sweeps.
    pub(super) fn has(&self, tag: u128, now_s: u32) -> bool {
        let stripe = self.stripe(tag);
        stripe.bucket(tag).any(|at| stripe.tags[at] == tag && stripe.until[at] > now_s)
    }

    /// An item is added: its tag goes, and cannot come again before it has settled. How many places are free now that were not.
    pub(super) fn added(&self, tag: u128, now_ms: u64, settle_ms: u64) -> u64 {
        let mut stripe = self.stripe(tag);
        stripe.turn(now_ms, settle_ms);
        if !broken(Fault::AddsForgotten) {
            // It goes on when it is full, so nothing is refused.
            let _ = stripe.lately[0].insert_digest(Digest::from_u128(tag));
        }
        if broken(Fault::TagsKept) {
            return 0;
        }
        // Every place of it, also one whose time is over: the one that is left would answer "no" for what is there.
        let mut freed = 0;
        for at in stripe.bucket(tag) {
            if stripe.tags[at] == tag && stripe.until[at] != 0 {
                stripe.until[at] = 0;
                freed += 1;
            }
        }
        freed
    }

    /// An item is reported absent by a namespace; what became of that, and whether a place that was free is taken now.
    pub(super) fn put(&self, tag: u128, owner: u16, until_s: u32, now_ms: u64, settle_ms: u64) -> (Put, bool) {
        let mut stripe = self.stripe(tag);
        stripe.turn(now_ms, settle_ms);
        let digest = Digest::from_u128(tag);
        if stripe.lately.iter().any(|lately| lately.contains_digest(digest)) {
            return (Put::AddedLately, false);
        }
        point();
        let now_s = (now_ms / 1_000) as u32;
        // Its own place, if it has one, also when its time is over: a tag stands once.
        let own = stripe.bucket(tag).filter(|&at| stripe.tags[at] == tag).max_by_key(|&at| stripe.until[at]);
        if let Some(at) = own.filter(|&at| stripe.until[at] > now_s) {
            stripe.until[at] = until_s;
            return (Put::Known, false);
        }
        let Some(at) = own.or_else(|| stripe.place_for(tag, owner, now_s)) else { return (Put::AddedLately, false) };
        let free = stripe.until[at] == 0;
        stripe.tags[at] = tag;
        stripe.owners[at] = owner;
        stripe.until[at] = until_s;
        (Put::New, free)
    }
}

impl Stripe {
    /// The places that a tag may be in.
    fn bucket(&self, tag: u128) -> std::ops::Range<usize> {
        let buckets = self.tags.len() / WAYS;
        let bucket = ((u128::from(tag as u64) * buckets as u128) >> 64) as usize;
        bucket * WAYS..bucket * WAYS + WAYS
    }

    /// A free place, or one whose time is over; else one of whoever has most of them, of several rather the owner's own.
    fn place_for(&self, tag: u128, owner: u16, now_s: u32) -> Option<usize> {
        let first = |places: &mut dyn Iterator<Item = usize>| places.min_by_key(|&at| self.until[at]);
        if let Some(free) = first(&mut self.bucket(tag).filter(|&at| self.until[at] <= now_s)) {
            return Some(free);
        }
        let has = |one: u16| self.bucket(tag).filter(|&at| self.owners[at] == one).count();
        let most = self.bucket(tag).map(|at| self.owners[at]).max_by_key(|&one| (has(one), one == owner))?;
        first(&mut self.bucket(tag).filter(|&at| self.owners[at] == most))
    }

    /// Forgets adds that have settled: an item stays for one to two times as long as it takes.
    fn turn(&mut self, now_ms: u64, settle_ms: u64) {
        let passed = now_ms.saturating_sub(self.turned_ms);
        if passed < settle_ms {
            return;
        }
        if passed >= 2 * settle_ms {
            self.lately[0].clear();
        }
        self.lately.swap(0, 1);
        self.lately[0].clear();
        self.turned_ms = now_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    const NOW_MS: u64 = 1_700_000_000_000;
    const NOW_S: u32 = 1_700_000_000;

    fn tag(random: &mut Random) -> u128 {
        random.digest().to_u128()
    }

    #[test]
    fn tags_come_stay_and_go() {
        let mut random = Random::from_seed(1);
        let tags = Tags::new(4_096, NOW_MS).unwrap();
        let all: Vec<u128> = (0..500).map(|_| tag(&mut random)).collect();
        for &tag in &all {
            assert_eq!(tags.put(tag, 1, NOW_S + 10, NOW_MS, 60_000), (Put::New, true));
            assert_eq!(tags.put(tag, 1, NOW_S + 10, NOW_MS, 60_000), (Put::Known, false));
        }
        assert!(all.iter().all(|&tag| tags.has(tag, NOW_S + 9) && !tags.has(tag, NOW_S + 10)));
        assert!((0..10_000).all(|_| !tags.has(tag(&mut random), NOW_S)));
        assert!(all.iter().all(|&tag| tags.added(tag, NOW_MS, 60_000) == 1 && !tags.has(tag, NOW_S)));
        assert!(all.iter().all(|&tag| tags.put(tag, 1, NOW_S + 10, NOW_MS, 60_000).0 == Put::AddedLately));
    }

    #[test]
    fn what_was_added_cannot_be_reported_until_it_has_settled() {
        let mut random = Random::from_seed(2);
        let tags = Tags::new(64, NOW_MS).unwrap();
        let all: Vec<u128> = (0..200).map(|_| tag(&mut random)).collect();
        all.iter().for_each(|&tag| assert_eq!(tags.added(tag, NOW_MS + 30_000, 60_000), 0));
        let late =
            |tag: u128, after: u64| tags.put(tag, 1, NOW_S + 9_999, NOW_MS + after, 60_000).0 == Put::AddedLately;
        // Within the time always, whenever the two filters take turns; after twice that, never.
        assert!(all[..100].iter().all(|&tag| late(tag, 60_001) && late(tag, 89_999)));
        let still = all[100..].iter().filter(|&&tag| late(tag, 30_000 + 120_000)).count();
        assert!(still <= 5, "{still} of 100, and one in a hundred is found by mistake");
    }

    #[test]
    fn a_full_table_drops_what_ends_first_and_grows_no_more() {
        let mut random = Random::from_seed(3);
        let tags = Tags::new(64 * 8, NOW_MS).unwrap();
        let mut taken = 0u64;
        let mut last = 0;
        for at in 0..10_000u32 {
            last = tag(&mut random);
            taken += u64::from(tags.put(last, 1, NOW_S + 100 + at, NOW_MS, 60_000).1);
        }
        assert_eq!(taken, 64 * 8);
        assert!(tags.has(last, NOW_S));
        assert!(Tags::bytes(1 << 20).unwrap() < 40 << 20);
    }

    #[test]
    fn one_namespace_does_not_push_out_the_reports_of_another() {
        let mut random = Random::from_seed(4);
        let tags = Tags::new(4_096, NOW_MS).unwrap();
        let theirs: Vec<u128> = (0..400).map(|_| tag(&mut random)).collect();
        theirs.iter().for_each(|&tag| _ = tags.put(tag, 2, NOW_S + 100, NOW_MS, 60_000));
        // All of them would end later, and there are a hundred for each place.
        for _ in 0..400_000 {
            _ = tags.put(tag(&mut random), 1, NOW_S + 1_000, NOW_MS, 60_000);
        }
        let left = theirs.iter().filter(|&&tag| tags.has(tag, NOW_S)).count();
        assert_eq!(left, 400, "a bucket has about one of theirs");
        // Where theirs were everywhere, half of the places are the newcomer's.
        let tags = Tags::new(4_096, NOW_MS).unwrap();
        for owner in [2, 1] {
            for _ in 0..400_000 {
                _ = tags.put(tag(&mut random), owner, NOW_S + 1_000, NOW_MS, 60_000);
            }
        }
        let owned: usize =
            tags.stripes.iter().map(|one| one.lock().unwrap().owners.iter().filter(|&&of| of == 1).count()).sum();
        assert_eq!(owned, 2_048);
        // What is over goes first, whosever it is.
        let (later, stripe) = (NOW_S + 2_000, tags.stripes[0].lock().unwrap());
        assert!(stripe.place_for(0, 1, later).is_some_and(|at| stripe.until[at] <= later));
    }

    /// Tags of one bucket.
    fn of_one_bucket(count: u128) -> Vec<u128> {
        (1..=count).collect()
    }

    /// The places of their bucket that a tag has.
    fn places_of(tags: &Tags, tag: u128) -> usize {
        let stripe = tags.stripe(tag);
        stripe.bucket(tag).filter(|&at| stripe.tags[at] == tag && stripe.until[at] != 0).count()
    }

    fn taken(tags: &Tags) -> u64 {
        tags.stripes
            .iter()
            .map(|one| one.lock().unwrap().until.iter().filter(|&&until| until != 0).count() as u64)
            .sum()
    }

    #[test]
    fn what_is_reported_again_after_its_time_stands_once_and_is_taken_away_by_an_add() {
        // The free places are behind its own, before it, or there are none; the others may be over too.
        for (before, after, gone) in [(0, 0, 0), (3, 2, 0), (3, 2, 3), (0, 7, 0), (7, 0, 7), (7, 0, 0), (5, 0, 1)] {
            for others_last in [5, 5_000] {
                let told = format!("{before} before it, {gone} of them gone, {after} behind it, for {others_last} s");
                let tags = Tags::new(64, NOW_MS).unwrap();
                let all = of_one_bucket(8);
                let (x, others) = all.split_first().unwrap();
                let mut held = 0;
                for &other in &others[..before] {
                    held += u64::from(tags.put(other, 1, NOW_S + others_last, NOW_MS, 60_000).1);
                }
                held += u64::from(tags.put(*x, 1, NOW_S + 10, NOW_MS, 60_000).1);
                for &other in &others[before..before + after] {
                    held += u64::from(tags.put(other, 1, NOW_S + others_last, NOW_MS, 60_000).1);
                }
                for &other in &others[..gone] {
                    held -= tags.added(other, NOW_MS, 60_000);
                }
                let later = NOW_S + 10;
                assert!(!tags.has(*x, later), "{told}");
                let (put, free) = tags.put(*x, 2, later + 10, u64::from(later) * 1_000, 60_000);
                held += u64::from(free);
                assert_eq!((put, places_of(&tags, *x)), (Put::New, 1), "{told}");
                assert!(tags.has(*x, later), "{told}");
                assert_eq!(held, taken(&tags), "{told}");
                held -= tags.added(*x, u64::from(later) * 1_000, 60_000);
                assert!(!tags.has(*x, later), "hidden after its add: {told}");
                assert_eq!(held, taken(&tags), "{told}");
                let left = others[gone..before + after].iter().filter(|&&other| tags.has(other, NOW_S)).count();
                assert_eq!(left, before + after - gone, "{told}");
            }
        }
    }

    #[test]
    fn an_add_takes_every_place_of_a_tag() {
        let tags = Tags::new(64, NOW_MS).unwrap();
        {
            let mut stripe = tags.stripe(7);
            for (at, until) in [(1, NOW_S - 1), (4, NOW_S + 10), (6, NOW_S + 20)] {
                stripe.tags[at] = 7;
                stripe.until[at] = until;
            }
        }
        assert!(tags.has(7, NOW_S));
        assert_eq!((tags.added(7, NOW_MS, 60_000), tags.has(7, NOW_S), taken(&tags)), (3, false, 0));
        assert_eq!(tags.added(7, NOW_MS, 60_000), 0);
    }

    /// More tags than a bucket has places come, go and end in any order.
    #[test]
    fn a_tag_stands_once_whatever_came_before() {
        let mut random = Random::from_seed(5);
        let tags = Tags::new(64, NOW_MS).unwrap();
        let all = of_one_bucket(12);
        let (mut now_s, mut held, mut renewed) = (NOW_S, 0, 0);
        for _ in 0..20_000 {
            now_s += (random.next() % 3) as u32;
            let (now_ms, tag) = (u64::from(now_s) * 1_000, all[(random.next() % 12) as usize]);
            if random.next().is_multiple_of(4) {
                held -= tags.added(tag, now_ms, 1_000);
                assert!(!tags.has(tag, now_s));
            } else {
                let before = places_of(&tags, tag);
                let (put, free) = tags.put(tag, 1, now_s + 1 + (random.next() % 20) as u32, now_ms, 1_000);
                held += u64::from(free);
                renewed += u64::from((before, put) == (1, Put::New));
                assert_eq!(tags.has(tag, now_s), put != Put::AddedLately);
            }
            assert!(all.iter().all(|&tag| places_of(&tags, tag) <= 1));
            assert_eq!(held, taken(&tags));
        }
        assert!(renewed > 1_000, "{renewed} came again after their time");
    }
}
