//! The peers of the kinds that are not Bloom filters, and of the chain that grows, each called as its users call it.
//!
//! Each comes twice where it takes a hasher: with the one that it has by default (or that its documentation uses), and as
//! `+foldhash` with the fastest in common use. Filters that are built once from a whole
//! set take it in `fill`, which is what is timed as their insertion.

use crate::args::Fault;
use crate::sides::{Mode, Side, Subject};
use std::hash::{BuildHasher, Hasher};
use xorf::Filter as _;

/// A hasher that is made by a builder and can be cloned, for the peer that wants one by value.
#[derive(Clone, Default)]
pub struct Fold(Option<foldhash::fast::FoldHasher<'static>>);

impl Fold {
    fn inner(&mut self) -> &mut foldhash::fast::FoldHasher<'static> {
        self.0.get_or_insert_with(|| state().build_hasher())
    }
}

impl Hasher for Fold {
    fn finish(&self) -> u64 {
        self.0.clone().unwrap_or_else(|| state().build_hasher()).finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.inner().write(bytes);
    }

    fn write_u64(&mut self, word: u64) {
        self.inner().write_u64(word);
    }
}

/// The builder of the fast hasher.
pub fn state() -> foldhash::fast::FixedState {
    foldhash::fast::FixedState::with_seed(0x5EED)
}

/// Binary fuse filters of xorf; the caller hashes.
pub enum Xorf {
    /// Nothing yet, and the width that is wanted.
    Empty(u32),
    /// Fingerprints of 8 bits.
    Eight(xorf::BinaryFuse8),
    /// Fingerprints of 16 bits.
    Sixteen(xorf::BinaryFuse16),
}

impl<K: Subject> Side<K> for Xorf {
    fn clear(&mut self) {
        *self = Xorf::Empty(self.width());
    }

    fn insert(&mut self, mode: Mode, keys: &[K]) -> usize {
        self.fill(mode, keys)
    }

    fn fill(&mut self, _: Mode, keys: &[K]) -> usize {
        let hashes: Vec<u64> = keys.iter().map(Subject::cheap_hash).collect();
        *self = match self.width() {
            8 => Xorf::Eight(xorf::BinaryFuse8::try_from(&hashes).expect("xorf builds of different hashes")),
            _ => Xorf::Sixteen(xorf::BinaryFuse16::try_from(&hashes).expect("xorf builds of different hashes")),
        };
        keys.len()
    }

    fn contains(&self, _: Mode, keys: &[K], answers: &mut [bool]) {
        match self {
            Xorf::Empty(_) => answers.fill(false),
            Xorf::Eight(filter) => {
                for (key, answer) in keys.iter().zip(answers) {
                    *answer = filter.contains(&key.cheap_hash());
                }
            }
            Xorf::Sixteen(filter) => {
                for (key, answer) in keys.iter().zip(answers) {
                    *answer = filter.contains(&key.cheap_hash());
                }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Xorf::Empty(_) => 0,
            Xorf::Eight(filter) => filter.len(),
            Xorf::Sixteen(filter) => filter.len() * 2,
        }
    }
}

impl Xorf {
    fn width(&self) -> u32 {
        match self {
            Xorf::Empty(width) => *width,
            Xorf::Eight(_) => 8,
            Xorf::Sixteen(_) => 16,
        }
    }
}

/// ribbon-filter of width 64, with as many result bits as the rate needs.
pub struct Ribbon<S> {
    rate: f64,
    hasher: S,
    filter: Option<ribbon_filter::RibbonFilter<S>>,
}

impl<S> Ribbon<S> {
    /// Nothing yet.
    pub fn new(rate: f64, hasher: S) -> Self {
        Self { rate, hasher, filter: None }
    }
}

impl<K: Subject, S: BuildHasher + Clone + Sync> Side<K> for Ribbon<S> {
    fn clear(&mut self) {
        self.filter = None;
    }

    fn insert(&mut self, mode: Mode, keys: &[K]) -> usize {
        self.fill(mode, keys)
    }

    fn fill(&mut self, _: Mode, keys: &[K]) -> usize {
        use ribbon_filter::{Mode, Params, RibbonBuilder};
        let params = Params::r_from_fpr(self.rate)
            .and_then(|r| Params::from_expected_items(keys.len(), 0.15, 64, r, Mode::Standard))
            .and_then(|params| params.with_retry_policy(8, 8))
            .expect("a shape that ribbon-filter takes");
        let builder = RibbonBuilder::new(params, self.hasher.clone()).expect("a builder of ribbon-filter");
        self.filter = Some(builder.build(keys).expect("ribbon-filter builds with room to spare"));
        keys.len()
    }

    fn contains(&self, _: Mode, keys: &[K], answers: &mut [bool]) {
        let Some(filter) = &self.filter else { return answers.fill(false) };
        let mut scratch = filter.new_scratch();
        for (key, answer) in keys.iter().zip(answers) {
            *answer = filter.contains_in(key, &mut scratch);
        }
    }

    fn bytes(&self) -> usize {
        // What it holds is a row of whole words for each column; counted is what its shape needs.
        self.filter.as_ref().map_or(0, |filter| (filter.params().m * filter.params().r).div_ceil(8))
    }
}

/// qfilter, empty, for so many keys.
pub fn quotient<S: BuildHasher + Clone>(
    n: usize,
    rate: f64,
    hasher: S,
) -> Result<qfilter::Filter<Box<[u8]>, S>, Fault> {
    qfilter::Filter::new_with_hasher(n as u64, rate, hasher).map_err(|why| Fault(format!("qfilter: {why}")))
}

impl<K: Subject, S: BuildHasher + Clone + Sync> Side<K> for qfilter::Filter<Box<[u8]>, S> {
    fn clear(&mut self) {
        qfilter::Filter::clear(self);
    }

    fn insert(&mut self, _: Mode, keys: &[K]) -> usize {
        keys.iter().map(|key| usize::from(qfilter::Filter::insert(self, key).expect("room in qfilter"))).sum()
    }

    fn contains(&self, _: Mode, keys: &[K], answers: &mut [bool]) {
        for (key, answer) in keys.iter().zip(answers) {
            *answer = qfilter::Filter::contains(self, key);
        }
    }

    fn bytes(&self) -> usize {
        self.memory_usage()
    }
}

/// cuckoofilter: its fingerprints have 8 bits whatever is asked.
pub struct Cuckoo<H> {
    n: usize,
    filter: cuckoofilter::CuckooFilter<H>,
}

impl<H: Hasher + Default> Cuckoo<H> {
    /// A table for so many keys; a fifth more, since it fills no table to the brim.
    pub fn new(n: usize) -> Self {
        Self { n, filter: cuckoofilter::CuckooFilter::with_capacity(n + n / 5) }
    }
}

impl<K: Subject, H: Hasher + Default + Sync> Side<K> for Cuckoo<H> {
    fn clear(&mut self) {
        *self = Self::new(self.n);
    }

    fn insert(&mut self, _: Mode, keys: &[K]) -> usize {
        for key in keys {
            self.filter.add(key).expect("room in cuckoofilter");
        }
        keys.len()
    }

    fn contains(&self, _: Mode, keys: &[K], answers: &mut [bool]) {
        for (key, answer) in keys.iter().zip(answers) {
            *answer = self.filter.contains(key);
        }
    }

    fn bytes(&self) -> usize {
        self.filter.memory_usage()
    }
}

/// scalable_cuckoo_filter, sized right from the start.
pub struct ScalableCuckoo<K, H> {
    n: usize,
    rate: f64,
    filter: scalable_cuckoo_filter::ScalableCuckooFilter<K, H, rand::rngs::SmallRng>,
}

impl<K: Subject, H: Hasher + Clone + Default> ScalableCuckoo<K, H> {
    /// A table for so many keys.
    pub fn new(n: usize, rate: f64) -> Self {
        let filter = scalable_cuckoo_filter::ScalableCuckooFilterBuilder::new()
            .initial_capacity(n)
            .false_positive_probability(rate)
            .hasher(H::default())
            .rng(rand::SeedableRng::seed_from_u64(7))
            .finish::<K>();
        Self { n, rate, filter }
    }
}

impl<K: Subject, H: Hasher + Clone + Default + Sync> Side<K> for ScalableCuckoo<K, H> {
    fn clear(&mut self) {
        *self = Self::new(self.n, self.rate);
    }

    fn insert(&mut self, _: Mode, keys: &[K]) -> usize {
        for key in keys {
            self.filter.insert(key);
        }
        keys.len()
    }

    fn contains(&self, _: Mode, keys: &[K], answers: &mut [bool]) {
        for (key, answer) in keys.iter().zip(answers) {
            *answer = self.filter.contains(key);
        }
    }

    fn bytes(&self) -> usize {
        self.filter.bits() as usize / 8
    }
}

/// growable-bloom-filter, sized right from the start: its best case.
pub fn growable(n: usize, rate: f64) -> growable_bloom_filter::GrowableBloom {
    growable_bloom_filter::GrowableBloom::new(rate, n)
}

impl<K: Subject> Side<K> for growable_bloom_filter::GrowableBloom {
    fn clear(&mut self) {
        growable_bloom_filter::GrowableBloom::clear(self);
    }

    fn insert(&mut self, _: Mode, keys: &[K]) -> usize {
        keys.iter().map(|key| usize::from(growable_bloom_filter::GrowableBloom::insert(self, key))).sum()
    }

    fn contains(&self, _: Mode, keys: &[K], answers: &mut [bool]) {
        for (key, answer) in keys.iter().zip(answers) {
            *answer = growable_bloom_filter::GrowableBloom::contains(self, key);
        }
    }

    fn bytes(&self) -> usize {
        // It does not say how large it is.
        0
    }
}
