//! Our side: the one file that knows Bloomgate's interface.
//!
//! Everything else sees `Side`.

use crate::args::Fault;
use crate::lines::{Four, How, SplitTable};
use crate::sides::{Mode, Shared, Side, Subject};

/// The kinds of filter that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One cache line per key.
    Blocked,
    /// k bits anywhere.
    Classic,
    /// k bits, one in each part.
    Partitioned,
    /// Counters for bits.
    Counting,
}

impl Kind {
    /// The kind called `name`.
    pub fn of(name: &str) -> Result<Self, Fault> {
        Ok(match name {
            "blocked" => Kind::Blocked,
            "classic" => Kind::Classic,
            "partitioned" => Kind::Partitioned,
            "counting" => Kind::Counting,
            _ => {
                return Err(Fault(format!(
                    "no kind is called {name:?}; there are blocked, classic, partitioned and counting"
                )));
            }
        })
    }

    /// The kind's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Blocked => "blocked",
            Kind::Classic => "classic",
            Kind::Partitioned => "partitioned",
            Kind::Counting => "counting",
        }
    }
}

/// What is asked of our side beyond kind, size and rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Form {
    /// Usable by several threads at once.
    pub shared: bool,
    /// Hashed by SipHash-1-3 under a secret.
    pub keyed: bool,
}

/// Our filter of `kind` for `n` keys at `rate`.
pub fn build<'a, K: Subject + 'a>(kind: Kind, n: usize, rate: f64, form: Form) -> Result<Box<dyn Side<K> + 'a>, Fault> {
    if kind != Kind::Blocked || form.keyed {
        return Err(Fault(format!("{} filters, keyed: {}, are not plugged in yet", kind.name(), form.keyed)));
    }
    // Stand-in: the line of the layout experiment.
    let bits = bits_for(rate);
    Ok(Box::new(StandIn { table: SplitTable::new(n, bits)?, shared: form.shared }))
}

/// A stand-in for the library.
struct StandIn {
    table: SplitTable<Four>,
    shared: bool,
}

fn bits_for(rate: f64) -> f64 {
    let rate_at = |bits: f64| {
        let load = 512.0 / bits;
        let (mut chance, mut sum) = ((-load).exp(), 0.0);
        for keys in 1..600 {
            chance *= load / f64::from(keys);
            sum += chance * (1.0 - (63.0f64 / 64.0).powi(keys)).powi(8);
        }
        sum
    };
    let (mut low, mut high) = (1.0f64, 200.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if rate_at(middle) > rate { low = middle } else { high = middle }
    }
    high * 1.002
}

/// Hands the hashes of `keys` to `act`, 4096 at a time.
fn each<K: Subject>(mode: Mode, keys: &[K], answers: &mut [bool], mut act: impl FnMut(How, &[u64], &mut [bool])) {
    let mut hashes = [0u64; 4096];
    let how = if mode == Mode::Batch { How::Hashed } else { How::Single };
    for (keys, answers) in keys.chunks(4096).zip(answers.chunks_mut(4096)) {
        let hashes = &mut hashes[..keys.len()];
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = key.cheap_hash();
        }
        act(how, hashes, answers);
    }
}

impl<K: Subject> Side<K> for StandIn {
    fn clear(&mut self) {
        self.table.clear();
    }

    fn insert(&mut self, mode: Mode, keys: &[K]) -> usize {
        let mut answers = vec![false; keys.len()];
        each(mode, keys, &mut answers, |how, hashes, answers| self.table.insert(how, hashes, answers));
        answers.iter().map(|&answer| usize::from(answer)).sum()
    }

    fn contains(&self, mode: Mode, keys: &[K], answers: &mut [bool]) {
        each(mode, keys, answers, |how, hashes, answers| self.table.contains_shared(how, hashes, answers));
    }

    fn bytes(&self) -> usize {
        self.table.bytes()
    }

    fn shared(&self) -> Option<&dyn Shared<K>> {
        self.shared.then_some(self as &dyn Shared<K>)
    }
}

impl<K: Subject> Shared<K> for StandIn {
    fn insert_shared(&self, mode: Mode, keys: &[K]) -> usize {
        let mut answers = vec![false; keys.len()];
        each(mode, keys, &mut answers, |how, hashes, answers| self.table.insert_shared(how, hashes, answers));
        answers.iter().map(|&answer| usize::from(answer)).sum()
    }
}
