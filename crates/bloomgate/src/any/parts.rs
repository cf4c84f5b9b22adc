//! What a filter is made of, for whoever wants to see it: its stages or generations, how full stretches of its bits are, and
//! which bits a key has.
//!
//! Nothing here is needed to use a filter.

use std::time::Duration;

use super::AnyFilter;
use crate::arch::words::ReadWords;
use crate::bits::Store;
use crate::bloom::layout::{AnyLayout, Layout};
use crate::bloom::rotating::salted_for;
use crate::bloom::{Bloom, Stage};
use crate::error::Result;
use crate::hash::Digest;
use crate::kind::Kind;

/// Of filters up to this size the bits of a key are told: for that an empty filter of the same shape is made.
const TRACED: u64 = 16 << 20;
/// Lines of one cell that are read; where it has more, these stand for it.
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
}

/// How full stretches of a filter's bits are, from its beginning to its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Heat {
    /// The share of set bits of each stretch.
    pub cells: Vec<f64>,
    /// Bits of each stretch.
    pub bits_per_cell: u64,
    /// Whether only some lines of each stretch were read.
    pub sampled: bool,
}

/// What a key finds in one part.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// The kind of the part.
    pub kind: Kind,
    /// Whether the part may have the key.
    pub maybe: bool,
    /// The 64-byte line where its bits begin, of a part that keeps them together.
    pub line: Option<u64>,
    /// Its bits by their numbers, and whether each is set; none where the kind has no such bits or the part is too large.
    pub bits: Vec<(u64, bool)>,
}

fn of_bloom<L: Layout, S: Store>(filter: &Bloom<L, S>) -> Part {
    Part {
        kind: filter.kind(),
        items: filter.len(),
        capacity: filter.capacity(),
        bytes: filter.size_in_bytes(),
        fill: filter.fill_ratio(),
        expected_rate: filter.expected_rate(),
        age: None,
    }
}

fn word_of<L: Layout, S: Store>(filter: &Bloom<L, S>, word: usize) -> u64 {
    filter.store().words().load(word)
}

fn trace<L: Layout, S: Store>(filter: &Bloom<L, S>, digest: Digest) -> Result<Trace> {
    let (kind, maybe) = (filter.kind(), filter.contains_digest(digest));
    let mut read = Vec::new();
    let together = matches!(filter.layout().any(), AnyLayout::Blocked(_));
    filter.layout().each_word(digest, |word| match together {
        // A lookup names one word of a line and reads all of it.
        true => read.extend(word / 8 * 8..word / 8 * 8 + 8),
        false => read.push(word),
    });
    read.sort_unstable();
    read.dedup();
    let line = read.first().filter(|_| together).map(|word| *word as u64 / 8);
    let mut bits = Vec::new();
    if filter.size_in_bytes() <= TRACED {
        let mut alone = Bloom::empty(*filter.layout(), filter.contract().clone(), filter.promise())?;
        alone.insert_digest(digest)?;
        for word in read {
            let (mask, there) = (word_of(&alone, word), word_of(filter, word));
            let of_word = (0..64u64).filter(|bit| mask >> bit & 1 == 1);
            bits.extend(of_word.map(|bit| (word as u64 * 64 + bit, there >> bit & 1 == 1)));
        }
    }
    Ok(Trace { kind, maybe, line, bits })
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
            AnyFilter::Rotating(ring) => {
                ring.each_aged().map(|(filter, age)| Part { age, ..of_bloom(filter) }).collect()
            }
            other => vec![Part {
                kind: other.kind(),
                items: other.len(),
                capacity: other.capacity(),
                bytes: other.size_in_bytes(),
                fill: other.fill_ratio(),
                expected_rate: other.expected_rate(),
                age: None,
            }],
        }
    }

    /// How full `cells` stretches of its bits are, at most one a line; nothing of kinds that keep fingerprints or decay. Of a
    /// large filter 64 lines of each stretch stand for it.
    #[must_use]
    pub fn heat(&self, cells: u64) -> Option<Heat> {
        let (mut lines, mut line_bits) = (0, 0);
        self.each_part(&mut |pattern, _, _| {
            lines += pattern.whole_lines();
            line_bits = pattern.line_bits();
        });
        let per_cell = lines.div_ceil(cells.max(1)).max(1);
        let step = per_cell.div_ceil(LINES_READ);
        let count = lines.div_ceil(per_cell) as usize;
        let (mut set, mut read) = (vec![0u64; count], vec![0u64; count]);
        let mut first = 0;
        self.each_part(&mut |pattern, _, set_in| {
            for line in (0..pattern.whole_lines()).step_by(step as usize) {
                let cell = ((first + line) / per_cell) as usize;
                set[cell] += u64::from(set_in(line));
                read[cell] += line_bits;
            }
            first += pattern.whole_lines();
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

    /// What a key finds in each part that is asked for it, in the order of [`parts`](Self::parts).
    ///
    /// # Errors
    /// No memory for an empty filter of the same shape.
    pub fn trace(&self, digest: Digest) -> Result<Vec<Trace>> {
        Ok(match self {
            AnyFilter::Classic(filter) => vec![trace(filter, digest)?],
            AnyFilter::Blocked(filter) => vec![trace(filter, digest)?],
            AnyFilter::Partitioned(filter) => vec![trace(filter, digest)?],
            AnyFilter::Scalable(chain) => chain
                .each_stage()
                .map(|stage| match stage {
                    Stage::Blocked(filter) => trace(filter, digest),
                    Stage::Classic(filter) => trace(filter, digest),
                    Stage::Partitioned(filter) => trace(filter, digest),
                })
                .collect::<Result<_>>()?,
            AnyFilter::Rotating(ring) => ring
                .each_numbered()
                .map(|(filter, number)| trace(filter, salted_for(digest, number)))
                .collect::<Result<_>>()?,
            other => {
                let maybe = other.contains_digest(digest);
                vec![Trace { kind: other.kind(), maybe, line: None, bits: Vec::new() }]
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Blocked, Classic, Contract, Cuckoo, Partitioned, Rotating, Scalable};

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
                let traces = filter.trace(digest).unwrap();
                assert_eq!(traces.len(), filter.parts().len());
                for trace in &traces {
                    let all = trace.bits.iter().all(|(_, set)| *set);
                    assert!(!trace.bits.is_empty() && all == trace.maybe, "{:?} {key}: {trace:?}", filter.kind());
                    assert_eq!(trace.line.is_some(), trace.kind == Kind::Blocked);
                }
                let maybe = traces.iter().any(|trace| trace.maybe);
                // Beside a window that has ended, every part that may have it is asked.
                assert!(maybe == filter.contains_digest(digest) && (maybe || key > 999), "{:?} {key}", filter.kind());
            }
        }
        let cuckoo = keys(Cuckoo::builder().items(1_000).rate(0.01).build().unwrap().into(), 100);
        let traces = cuckoo.trace(digest(cuckoo.contract(), 7)).unwrap();
        assert_eq!((traces.len(), traces[0].maybe, traces[0].bits.len()), (1, true, 0));
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
        assert!(keys(Cuckoo::builder().items(1_000).rate(0.01).build().unwrap().into(), 10).heat(16).is_none());
    }

    #[test]
    fn parts_add_up() {
        let chain = keys(Scalable::builder().items(100).rate(0.01).build().unwrap().into(), 2_000);
        let parts = chain.parts();
        assert!(parts.len() > 2);
        assert_eq!(parts.iter().map(|part| part.items).sum::<u64>(), chain.len());
        assert_eq!(parts.iter().map(|part| part.bytes).sum::<u64>(), chain.size_in_bytes());
        let ring = Rotating::builder().items(1_000).rate(0.01).window(Duration::from_secs(60)).generations(4).build();
        let parts = keys(ring.unwrap().into(), 100).parts();
        assert_eq!(parts.len(), 5);
        assert!(parts.iter().all(|part| part.age.is_some()) && parts[0].age > parts[4].age);
        assert_eq!(parts[4].items, 100);
    }
}
