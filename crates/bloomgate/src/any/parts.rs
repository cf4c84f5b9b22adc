//! What a filter is made of, for whoever wants to see it: its stages or generations, how full stretches of its bits are, and
//! what a key has in it: bits, counters, or a fingerprint and where that may lie.
//!
//! Nothing here is needed to use a filter.

use std::time::Duration;

use super::AnyFilter;
use crate::arch::words::ReadWords;
use crate::bits::Store;
use crate::bloom::blocked::BlockedLayout;
use crate::bloom::layout::{AnyLayout, Layout};
use crate::bloom::rotating::salted_for;
use crate::bloom::{Bloom, Stage};
use crate::cuckoo::Cuckoo;
use crate::error::Result;
use crate::hash::Digest;
use crate::key::Key;
use crate::kind::Kind;
use crate::math::cuckoo::SLOTS;

/// Lines, buckets or blocks of one cell that are read; where it has more, these stand for it.
const LINES_READ: u64 = 64;

/// A stage of a chain, a generation of a ring, or a whole filter that has neither.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The kind.
    pub kind: Kind,
    /// Keys that were new.
    pub items: u64,
    /// Keys that keep the rate.
    pub capacity: u64,
    /// Memory of the bits.
    pub bytes: u64,
    /// The share of bits or slots in use. Reads all bits.
    pub fill: f64,
    /// The rate that the keys in it make.
    pub expected_rate: f64,
    /// How long ago it was begun, of a generation.
    pub age: Option<Duration>,
    /// Its lines, of a part that is made of them.
    pub lines: Option<Lines>,
}

/// The lines of 512 bits or counters that a part is made of: with its keys, what [`crate::math::blocked::rate`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lines {
    /// All of them.
    pub count: u64,
    /// Those of a key.
    pub per_key: u32,
    /// Whether its bits in a line are two in each of four words, as those of counting filters are.
    pub paired: bool,
}

/// How full stretches of a filter's bits or slots are, from its beginning to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The share of set bits of each stretch, or of slots in use.
    pub cells: Vec<f64>,
    /// Bits of each stretch, or slots.
    pub bits_per_cell: u64,
    /// Whether only some lines of each stretch were read.
    pub sampled: bool,
}

/// The heat of so many lines of so many bits each: `each` is given a step, and tells of every so manieth line how many of its bits
/// are set.
fn heat_of(cells: u64, lines: u64, line_bits: u64, each: impl FnOnce(u64, &mut dyn FnMut(u64, u64))) -> Option<Heat> {
    let per_cell = lines.div_ceil(cells.max(1)).max(1);
    let step = per_cell.div_ceil(LINES_READ);
    let count = lines.div_ceil(per_cell) as usize;
    let (mut set, mut read) = (vec![0u64; count], vec![0u64; count]);
    each(step, &mut |line, set_in_it| {
        let cell = (line / per_cell) as usize;
        set[cell] += set_in_it;
        read[cell] += line_bits;
    });
    // A cell that no step fell into is as the one before it: its lines are few.
    let mut last = 0.0;
    let shares = set.iter().zip(&read).map(|(&set, &read)| {
        if read > 0 {
            last = set as f64 / read as f64;
        }
        last
    });
    (lines > 0).then(|| Heat { cells: shares.collect(), bits_per_cell: per_cell * line_bits, sampled: step > 1 })
}

/// The heat of tables one behind the other, by buckets of four slots.
fn heat_of_buckets<'a, S: Store + 'a>(cells: u64, tables: impl Iterator<Item = &'a Cuckoo<S>> + Clone) -> Option<Heat> {
    let buckets = tables.clone().map(|table| table.shape().buckets()).sum();
    heat_of(cells, buckets, SLOTS, |step, tell| {
        let mut first = 0;
        for table in tables {
            let here = table.shape().buckets();
            for bucket in (0..here).step_by(step as usize) {
                tell(first + bucket, table.used_in(bucket));
            }
            first += here;
        }
    })
}

/// What a key finds in one part. Reads what a lookup reads, however large the part is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The kind of the part.
    pub kind: Kind,
    /// Whether the part may have the key.
    pub maybe: bool,
    /// The block where what it has begins, of a part that keeps that together: a line of 512 bits or counters of a blocked
    /// or counting filter, of 256 cells of a stable one, or a block of slots of a quotient filter.
    pub block: Option<u64>,
    /// Its bits by their numbers, and whether each is set; none where the kind has no such bits.
    pub bits: Vec<(u64, bool)>,
    /// Its counters by their numbers, and what each holds: of a counting filter, and the cells of a stable one.
    pub counters: Vec<(u64, u64)>,
    /// What is kept of it: the fingerprint of a cuckoo filter, the remainder of a quotient filter.
    pub fingerprint: Option<u64>,
    /// Where that may lie: the two buckets of a cuckoo filter with their slots, of which 0 is a free one; the home slot of a
    /// quotient filter, with nothing.
    pub buckets: Vec<(u64, Vec<u64>)>,
}

impl Trace {
    /// Of a part of which nothing else is told.
    fn new(kind: Kind, maybe: bool) -> Self {
        let (bits, counters, buckets) = (Vec::new(), Vec::new(), Vec::new());
        Self { kind, maybe, block: None, bits, counters, fingerprint: None, buckets }
    }
}

fn lines_of(layout: &BlockedLayout) -> Lines {
    Lines { count: layout.lines(), per_key: layout.lines_per_key(), paired: layout.paired() }
}

fn of_bloom<L: Layout, S: Store>(filter: &Bloom<L, S>) -> Part {
    let lines = match filter.layout().any() {
        AnyLayout::Blocked(layout) => Some(lines_of(&layout)),
        AnyLayout::Classic(_) | AnyLayout::Partitioned(_) => None,
    };
    Part {
        kind: filter.kind(),
        items: filter.len(),
        capacity: filter.capacity(),
        bytes: filter.size_in_bytes(),
        fill: filter.fill_ratio(),
        expected_rate: filter.expected_rate(),
        age: None,
        lines,
    }
}

fn of_cuckoo<S: Store>(filter: &Cuckoo<S>) -> Part {
    Part {
        kind: filter.kind(),
        items: filter.len(),
        capacity: filter.capacity(),
        bytes: filter.size_in_bytes(),
        fill: filter.fill_ratio(),
        expected_rate: filter.expected_rate(),
        age: None,
        lines: None,
    }
}

/// Bits, or counters, of one line.
const LINE_BITS: u64 = 512;
/// Cells of one line of a stable filter.
const LINE_CELLS: u64 = 256;

fn trace<L: Layout, S: Store>(filter: &Bloom<L, S>, digest: Digest) -> Trace {
    let words = filter.store().words();
    let mut bits = Vec::new();
    filter.layout().each_bit(digest, |bit| bits.push((bit, words.load((bit / 64) as usize) >> (bit % 64) & 1 == 1)));
    bits.sort_unstable();
    bits.dedup_by_key(|(bit, _)| *bit);
    let together = matches!(filter.layout().any(), AnyLayout::Blocked(_));
    let block = bits.first().filter(|_| together).map(|(bit, _)| bit / LINE_BITS);
    Trace { block, bits, ..Trace::new(filter.kind(), filter.contains_digest(digest)) }
}

fn counted(kind: Kind, maybe: bool, mut counters: Vec<(u64, u64)>, line: u64) -> Trace {
    counters.sort_unstable();
    let block = counters.first().map(|(counter, _)| counter / line);
    Trace { block, counters, ..Trace::new(kind, maybe) }
}

fn trace_cuckoo<S: Store>(filter: &Cuckoo<S>, digest: Digest) -> Trace {
    let mut trace = Trace::new(filter.kind(), filter.contains_digest(digest));
    if let Some((fingerprint, buckets)) = filter.buckets_of(digest) {
        trace.fingerprint = Some(fingerprint);
        trace.buckets = buckets.map(|(bucket, slots)| (bucket, slots.to_vec())).into();
        // A fingerprint may have one bucket alone.
        trace.buckets.dedup_by_key(|(bucket, _)| *bucket);
    }
    trace
}

impl<S: Store> AnyFilter<S> {
    /// The stages of a chain or the generations of a ring, oldest first; one part of everything else. Reads all bits.
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Scalable};
    ///
    /// let mut seen = Scalable::builder().items(100).rate(0.01).build()?;
    /// (0..1_000u32).try_for_each(|key| seen.insert(&key.to_le_bytes()[..]).map(drop))?;
    /// let parts = AnyFilter::from(seen).parts();
    /// assert!(parts.len() > 1 && parts[0].capacity < parts[1].capacity);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[must_use]
    pub fn parts(&self) -> Vec<Part> {
        match self {
            AnyFilter::Scalable(chain) => chain
                .each_stage()
                .map(|stage| match stage {
                    Stage::Blocked(filter) => of_bloom(filter),
                    Stage::Classic(filter) => of_bloom(filter),
                    Stage::Partitioned(filter) => of_bloom(filter),
                })
                .collect(),
            AnyFilter::GrowingCuckoo(chain) => chain.each_stage().map(of_cuckoo).collect(),
            AnyFilter::Rotating(ring) => {
                ring.each_aged().map(|(filter, age)| Part { age, ..of_bloom(filter) }).collect()
            }
            AnyFilter::Blocked(filter) => vec![of_bloom(filter)],
            other => vec![Part {
                kind: other.kind(),
                items: other.len(),
                capacity: other.capacity(),
                bytes: other.size_in_bytes(),
                fill: other.fill_ratio(),
                expected_rate: other.expected_rate(),
                age: None,
                lines: match other {
                    AnyFilter::Counting(filter) => Some(lines_of(filter.layout())),
                    _ => None,
                },
            }],
        }
    }

    /// How full `cells` stretches of its bits are, at most one a line; of cuckoo and quotient filters how full stretches of their
    /// slots are, at most one a bucket or a block; nothing of kinds that decay or are built once. Of a large filter 64 lines of
    /// each stretch stand for it.
    #[must_use]
    pub fn heat(&self, cells: u64) -> Option<Heat> {
        match self {
            AnyFilter::Cuckoo(table) => return heat_of_buckets(cells, std::iter::once(table)),
            AnyFilter::GrowingCuckoo(chain) => {
                let tables: Vec<&Cuckoo<S>> = chain.each_stage().collect();
                return heat_of_buckets(cells, tables.iter().copied());
            }
            AnyFilter::Quotient(table) => {
                let (blocks, slots) = table.blocks();
                return heat_of(cells, blocks, slots, |step, tell| {
                    (0..blocks).step_by(step as usize).for_each(|block| tell(block, table.used_in(block)));
                });
            }
            _ => {}
        }
        let (mut lines, mut line_bits) = (0, 0);
        self.each_part(&mut |_, pattern, _, _| {
            lines += pattern.whole_lines();
            line_bits = pattern.line_bits();
        });
        heat_of(cells, lines, line_bits, |step, tell| {
            let mut first = 0;
            self.each_part(&mut |_, pattern, _, set_in| {
                for line in (0..pattern.whole_lines()).step_by(step as usize) {
                    tell(first + line, u64::from(set_in(line)));
                }
                first += pattern.whole_lines();
            });
        })
    }

    /// What a key finds in each part that is asked for it, in the order of [`parts`](Self::parts).
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Cuckoo};
    ///
    /// let mut sessions = Cuckoo::builder().items(1_000).rate(0.01).build()?;
    /// sessions.insert("alice")?;
    /// let found = AnyFilter::from(sessions).trace_key("alice")?;
    /// let fingerprint = found[0].fingerprint.unwrap();
    /// assert!(found[0].buckets.iter().any(|(_, slots)| slots.contains(&fingerprint)));
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    ///
    /// # Errors
    /// The key cannot be written in the filter's encoding.
    pub fn trace_key<K: Key + ?Sized>(&self, key: &K) -> Result<Vec<Trace>> {
        Ok(self.trace(self.contract().digest(key)?))
    }

    /// [`trace_key`](Self::trace_key) for a digest made elsewhere under the same contract.
    #[must_use]
    pub fn trace(&self, digest: Digest) -> Vec<Trace> {
        match self {
            AnyFilter::Classic(filter) => vec![trace(filter, digest)],
            AnyFilter::Blocked(filter) => vec![trace(filter, digest)],
            AnyFilter::Partitioned(filter) => vec![trace(filter, digest)],
            AnyFilter::Scalable(chain) => chain
                .each_stage()
                .map(|stage| match stage {
                    Stage::Blocked(filter) => trace(filter, digest),
                    Stage::Classic(filter) => trace(filter, digest),
                    Stage::Partitioned(filter) => trace(filter, digest),
                })
                .collect(),
            AnyFilter::Rotating(ring) => {
                ring.each_numbered().map(|(filter, number)| trace(filter, salted_for(digest, number))).collect()
            }
            AnyFilter::Counting(filter) => {
                vec![counted(filter.kind(), filter.contains_digest(digest), filter.counters_of(digest), LINE_BITS)]
            }
            AnyFilter::Stable(filter) => {
                vec![counted(filter.kind(), filter.contains_digest(digest), filter.cells_of(digest), LINE_CELLS)]
            }
            AnyFilter::Cuckoo(filter) => vec![trace_cuckoo(filter, digest)],
            AnyFilter::GrowingCuckoo(chain) => chain.each_stage().map(|filter| trace_cuckoo(filter, digest)).collect(),
            AnyFilter::Quotient(filter) => {
                let (slot, block, remainder) = filter.home_of(digest);
                vec![Trace {
                    block: Some(block),
                    fingerprint: Some(remainder),
                    buckets: vec![(slot, Vec::new())],
                    ..Trace::new(filter.kind(), filter.contains_digest(digest))
                }]
            }
            other => vec![Trace::new(other.kind(), other.contains_digest(digest))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::scalable::Tightening;
    use crate::promise::WhenFull;
    use crate::{
        Blocked, Classic, Contract, Counting, GrowingCuckoo, Partitioned, Quotient, Rotating, Scalable, Stable,
    };

    fn keys(filter: AnyFilter, count: u32) -> AnyFilter {
        let mut filter = filter;
        (0..count).for_each(|key| _ = filter.insert(&key.to_le_bytes()[..]).unwrap());
        filter
    }

    fn digest(contract: &Contract, key: u32) -> Digest {
        contract.digest(&key.to_le_bytes()[..]).unwrap()
    }

    #[test]
    fn the_bits_of_a_key_that_is_in_are_all_set() {
        let classic = Classic::builder().items(1_000).rate(0.01).build().unwrap();
        let blocked = Blocked::builder().items(1_000).rate(0.000_01).build().unwrap();
        let partitioned = Partitioned::builder().items(1_000).rate(0.01).build().unwrap();
        let scalable = Scalable::builder().items(100).rate(0.01).build().unwrap();
        let rotating = Rotating::builder().items(1_000).rate(0.01).window(Duration::from_secs(60)).build().unwrap();
        for filter in [classic.into(), blocked.into(), partitioned.into(), AnyFilter::from(scalable), rotating.into()] {
            let filter = keys(filter, 1_000);
            for key in [0, 500, 999, 5_000, 5_001] {
                let digest = digest(filter.contract(), key);
                let traces = filter.trace(digest);
                assert_eq!(traces.len(), filter.parts().len());
                for trace in &traces {
                    let all = trace.bits.iter().all(|(_, set)| *set);
                    assert!(!trace.bits.is_empty() && all == trace.maybe, "{:?} {key}: {trace:?}", filter.kind());
                    assert_eq!(trace.block.is_some(), trace.kind == Kind::Blocked);
                }
                let maybe = traces.iter().any(|trace| trace.maybe);
                // Beside a window that has ended, every part that may have it is asked.
                assert!(maybe == filter.contains_digest(digest) && (maybe || key > 999), "{:?} {key}", filter.kind());
            }
        }
    }

    fn sets_what_is_told<L: Layout>(empty: &Bloom<L>) {
        for key in 0..100 {
            let (mut filter, digest) = (empty.clone(), digest(empty.contract(), key));
            assert!(trace(&filter, digest).bits.iter().all(|(_, set)| !set));
            filter.insert_digest(digest).unwrap();
            let bits = trace(&filter, digest).bits;
            assert!(bits.iter().all(|(_, set)| *set), "{:?} {key}: {bits:?}", empty.kind());
            assert_eq!(bits.len() as u64, filter.set_bits(), "{:?} {key}", empty.kind());
        }
    }

    #[test]
    fn the_bits_of_a_key_are_those_that_it_sets() {
        sets_what_is_told(&Classic::builder().items(300).rate(0.01).build().unwrap());
        sets_what_is_told(&Partitioned::builder().items(300).rate(0.01).build().unwrap());
        for rate in [0.01, 0.000_01] {
            sets_what_is_told(&Blocked::builder().items(300).rate(rate).build().unwrap());
        }
        // 127 MB, of which a trace reads one line.
        let large = Blocked::builder().items(100_000_000).rate(0.01).build().unwrap();
        let digest = digest(large.contract(), 7);
        assert!(AnyFilter::from(large).trace(digest)[0].bits.len() >= 6);
    }

    #[test]
    fn the_lines_of_a_part_make_the_rate_that_is_expected_of_it() {
        let blocked = |rate| AnyFilter::from(Blocked::builder().items(10_000).rate(rate).build().unwrap());
        let counting = Counting::builder().items(10_000).rate(0.000_1).build().unwrap();
        let one = Tightening::Plateau { stages: 1, then: 0.0 };
        let chain = |items, shares| Scalable::builder().items(items).rate(0.001).tightening(shares);
        let halved = chain(1_000, Tightening::Geometric(0.5)).build().unwrap();
        let whole = chain(10_000, one).when_full(WhenFull::GoOn).build().unwrap();
        let ring = Rotating::builder().items(40_000).rate(0.000_1).window(Duration::from_secs(60)).build().unwrap();
        let filters = [blocked(0.01), blocked(0.000_01), counting.into(), halved.into(), whole.into(), ring.into()];
        let mut per_key = Vec::new();
        for filter in filters {
            let filter = keys(filter, 7_000);
            for part in filter.parts() {
                let lines = part.lines.expect("a part of lines");
                let rate = crate::math::blocked::rate(lines.count, lines.per_key, lines.paired, part.items);
                // What is expected reckons with keys that were taken for known; a line of a key more or less is a factor.
                assert!((rate - part.expected_rate).abs() <= rate * 0.05, "{}: {part:?}, {rate}", filter.kind());
                assert_eq!(lines.paired, filter.kind() == Kind::Counting);
                per_key.push(lines.per_key);
            }
        }
        assert!(per_key.contains(&1) && per_key.contains(&2), "{per_key:?}");
        let classic = Classic::builder().items(1_000).rate(0.01).build().unwrap();
        let cuckoo = crate::Cuckoo::builder().items(1_000).build().unwrap();
        for filter in [AnyFilter::from(classic), cuckoo.into()] {
            assert!(filter.parts().iter().all(|part| part.lines.is_none()));
        }
    }

    #[test]
    fn counters_are_what_was_added() {
        let filter = keys(Counting::builder().items(1_000).rate(0.01).build().unwrap().into(), 500);
        let mut filter = keys(filter, 1);
        for key in [0, 7, 499, 5_000] {
            let digest = digest(filter.contract(), key);
            let trace = &filter.trace(digest)[0];
            let least = trace.counters.iter().map(|(_, count)| *count).min();
            assert_eq!(least, filter.count_of_digest(digest).ok(), "{key}");
            assert!(
                trace.counters.len() >= 7 && trace.block.is_some() && trace.maybe == (least > Some(0)),
                "{trace:?}"
            );
        }
        assert!(filter.trace(digest(filter.contract(), 0))[0].counters.iter().all(|(_, count)| *count >= 2));
        filter.remove(&0u32.to_le_bytes()[..]).unwrap();
        filter.remove(&0u32.to_le_bytes()[..]).unwrap();
        let trace = &filter.trace(digest(filter.contract(), 0))[0];
        assert!(trace.maybe || trace.counters.iter().any(|(_, count)| *count == 0));
        // Cells of a stable filter are at the top when a key was just seen.
        let stable = keys(Stable::builder().bytes(4_096).rate(0.01).build().unwrap().into(), 100);
        for (key, seen) in [(99, true), (1_000_000, false)] {
            let trace = &stable.trace(digest(stable.contract(), key))[0];
            let all = trace.counters.iter().all(|(_, cell)| *cell > 0);
            assert!(all == trace.maybe && all == seen && trace.counters.len().is_multiple_of(8), "{key}: {trace:?}");
        }
    }

    #[test]
    fn a_fingerprint_lies_in_one_of_its_buckets() {
        let cuckoo = Cuckoo::builder().items(1_000).rate(0.01).build().unwrap();
        let growing = GrowingCuckoo::builder().items(100).rate(0.01).build().unwrap();
        for filter in [AnyFilter::from(cuckoo), growing.into()] {
            let filter = keys(filter, 1_000);
            for key in [0, 500, 999, 5_000, 5_001, 5_002] {
                let digest = digest(filter.contract(), key);
                let traces = filter.trace(digest);
                assert_eq!(traces.len(), filter.parts().len());
                for trace in &traces {
                    let fingerprint = trace.fingerprint.unwrap();
                    let held = trace.buckets.iter().any(|(_, slots)| slots.contains(&fingerprint));
                    assert!(fingerprint > 0 && held == trace.maybe, "{key}: {trace:?}");
                    assert!(trace.buckets.iter().all(|(_, slots)| slots.len() == 4));
                }
                assert_eq!(traces.iter().any(|trace| trace.maybe), filter.contains_digest(digest));
            }
        }
        let quotient = keys(Quotient::builder().items(1_000).rate(0.01).build().unwrap().into(), 100);
        let trace = &quotient.trace(digest(quotient.contract(), 7))[0];
        assert!(trace.maybe && trace.fingerprint.is_some() && trace.buckets.len() == 1 && trace.block.is_some());
    }

    #[test]
    fn heat_is_the_fill_in_stretches() {
        let filter = keys(Classic::builder().items(100_000).rate(0.01).build().unwrap().into(), 100_000);
        for cells in [1, 7, 256, 1 << 20] {
            let heat = filter.heat(cells).unwrap();
            assert!(heat.cells.len() as u64 <= cells && heat.cells.len() > (cells as usize).min(1_800) / 2, "{cells}");
            let mean = heat.cells.iter().sum::<f64>() / heat.cells.len() as f64;
            assert!((mean - filter.fill_ratio()).abs() < 0.02, "{cells}: {mean} {}", filter.fill_ratio());
        }
        assert!(filter.heat(1).unwrap().sampled && !filter.heat(1 << 20).unwrap().sampled);
        assert!(keys(Stable::builder().items(1_000).rate(0.01).build().unwrap().into(), 10).heat(16).is_none());
    }

    /// Every slot is in one stretch: together they say what the filter says of all of them.
    #[test]
    fn heat_of_tables_is_the_share_of_slots() {
        let tables: [(AnyFilter, u64); 4] = [
            (Cuckoo::builder().items(1_000).rate(0.01).build().unwrap().into(), 4),
            (GrowingCuckoo::builder().items(100).rate(0.01).build().unwrap().into(), 4),
            (Quotient::builder().items(1_000).rate(0.01).build().unwrap().into(), 0),
            (Quotient::builder().items(100_000).rate(1e-6).build().unwrap().into(), 0),
        ];
        for (filter, slots) in tables {
            let many = filter.capacity().max(1_000) as u32;
            for number in [0, many / 2, many] {
                let filter = keys(filter.clone(), number);
                // So many stretches that each is one bucket or block.
                let heat = filter.heat(1 << 20).unwrap();
                assert!(!heat.sampled && (slots == 0 || heat.bits_per_cell == slots), "{heat:?}");
                let used: f64 = heat.cells.iter().map(|share| share * heat.bits_per_cell as f64).sum();
                assert!((used - filter.len() as f64).abs() < 0.01 * used.max(1.0) + 0.5, "{used} of {filter:?}");
                assert!(heat.cells.iter().all(|share| (0.0..=1.0).contains(share)), "{heat:?}");
                let few = filter.heat(7).unwrap();
                assert!(
                    (1..=7).contains(&few.cells.len())
                        && few.sampled == (few.bits_per_cell / heat.bits_per_cell > LINES_READ)
                );
            }
        }
    }

    #[test]
    fn parts_add_up() {
        let chain = keys(Scalable::builder().items(100).rate(0.01).build().unwrap().into(), 2_000);
        let parts = chain.parts();
        assert!(parts.len() > 2);
        assert_eq!(parts.iter().map(|part| part.items).sum::<u64>(), chain.len());
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), chain.size_in_bytes());
        let tables = keys(GrowingCuckoo::builder().items(100).rate(0.01).build().unwrap().into(), 2_000);
        let parts = tables.parts();
        assert!(parts.len() > 1);
        assert_eq!(parts.iter().map(|part| part.items).sum::<u64>(), tables.len());
        let ring = Rotating::builder().items(1_000).rate(0.01).window(Duration::from_secs(60)).generations(4).build();
        let parts = keys(ring.unwrap().into(), 100).parts();
        assert_eq!(parts.len(), 5);
        assert!(parts.iter().all(|part| part.age.is_some()) && parts[0].age > parts[4].age);
        assert_eq!(parts[4].items, 100);
    }
}
