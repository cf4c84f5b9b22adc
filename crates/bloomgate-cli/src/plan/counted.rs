//! How many different keys some files have, before a filter of them is planned.
//!
//! Exact while their 64-bit hashes fit a set (two of four million different keys share one with a chance of 4e-7);
//! beyond that an estimate with its error.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use bloomgate::Contract;

use crate::failure::Failure;
use crate::hyperloglog::{self, HyperLogLog};
use crate::json::Object;
use crate::keys::{Block, Reading, Source, bytes_of};
use crate::number;
use crate::progress::Progress;
use crate::screen::{self};

/// The most hashes that are kept: 72 MB.
const MOST_EXACT: usize = 4_000_000;
/// Standard errors on each side of an estimate: 99 % of them hold the true number.
const WIDTH: f64 = 2.576;

/// What the files have.
#[derive(Debug, Clone)]
pub struct Counted {
    /// The files, as they were named.
    pub from: String,
    /// Keys, those that occur twice counted twice.
    pub keys: u64,
    /// Bytes of all keys, separators left out.
    pub bytes: u64,
    /// Different keys.
    pub distinct: u64,
    /// From and to, where `distinct` is an estimate.
    pub between: Option<(u64, u64)>,
    /// Smallest and largest, when every key is an integer.
    pub integers: Option<(i128, i128)>,
}

impl Counted {
    /// The number of keys to plan for: of an estimate the upper end, so that the promise is kept.
    pub fn planned(&self) -> u64 {
        self.between.map_or(self.distinct, |(_, most)| most)
    }

    /// The bits of a bitmap from the smallest to the largest integer.
    pub fn range(&self) -> Option<u128> {
        self.integers.map(|(low, high)| high.abs_diff(low) + 1)
    }

    /// Whether a bitmap takes fewer bits than a filter of so many bits a key, and knows everything.
    pub fn is_dense(&self, bits_per_key: f64) -> bool {
        self.range().is_some_and(|range| range as f64 <= bits_per_key * self.distinct as f64)
    }

    /// The average length of a key.
    pub fn average(&self) -> f64 {
        self.bytes as f64 / self.keys.max(1) as f64
    }

    /// `--keys` that fit integers.
    pub fn integer_keys(&self) -> Option<&'static str> {
        self.integers.map(|(low, _)| if low < 0 { "i64" } else { "u64" })
    }

    /// What was counted, in a sentence.
    pub fn sentence(&self) -> String {
        let different = match self.between {
            None => format!("{} different", number::grouped(self.distinct)),
            Some((low, high)) => format!(
                "about {} different ({} to {}; planned for the most)",
                number::grouped(self.distinct),
                number::grouped(low),
                number::grouped(high)
            ),
        };
        let length = number::short(self.average());
        format!("{}: {}, {different}, {length} bytes each on average", self.from, number::counted(self.keys, "key"))
    }

    /// What integers make possible, in sentences.
    pub fn hints(&self) -> Vec<String> {
        let (Some(keys), Some(range), Some((low, high))) = (self.integer_keys(), self.range(), self.integers) else {
            return Vec::new();
        };
        let grouped = |number: i128| {
            let sign = if number < 0 { "-" } else { "" };
            // Every integer here has at most 64 bits.
            format!("{sign}{}", number::grouped(u64::try_from(number.unsigned_abs()).unwrap_or(u64::MAX)))
        };
        vec![format!(
            "every key is an integer, {} to {}: build with --keys {keys}, and programs ask with numbers; a bitmap \
             of that range takes {}",
            grouped(low),
            grouped(high),
            number::bytes(u64::try_from(range.div_ceil(8)).unwrap_or(u64::MAX))
        )]
    }

    /// The same for programs.
    pub fn in_json(&self) -> String {
        let object = Object::default()
            .text("from", &self.from)
            .whole("keys", self.keys)
            .whole("distinct", self.distinct)
            .flag("distinct_is_exact", self.between.is_none())
            .whole("distinct_low", self.between.map_or(self.distinct, |(low, _)| low))
            .whole("distinct_high", self.between.map_or(self.distinct, |(_, high)| high))
            .number("average_bytes", self.average())
            .flag("integers", self.integers.is_some());
        match (self.integers, self.range()) {
            (Some((low, high)), Some(range)) => object
                .raw("lowest", &low.to_string())
                .raw("highest", &high.to_string())
                .number("bitmap_bytes", range as f64 / 8.0)
                .close(),
            _ => object.close(),
        }
    }
}

/// Reads all keys and counts the different ones.
pub fn count(sources: &[Source], reading: &Reading, quiet: bool) -> Result<Counted, Failure> {
    let mut counter = Counter::new(MOST_EXACT);
    each_key(sources, reading, quiet, |key| counter.add(key))?;
    let names: Vec<String> = sources.iter().map(Source::name).collect();
    if counter.keys == 0 {
        return Err(Failure::Message(format!("{}: there is no key to plan for", names.join(", "))));
    }
    Ok(counter.finish(names.join(", ")))
}

/// Every key of all sources, in order.
fn each_key(sources: &[Source], reading: &Reading, quiet: bool, mut on: impl FnMut(&[u8])) -> Result<(), Failure> {
    let progress = Progress::new("counting", bytes_of(sources)?, quiet);
    let (mut block, mut skipped) = (Block::default(), Vec::new());
    for source in sources {
        let mut stream = reading.open(source)?;
        while stream.next(&mut block)? {
            block.keys().keys.iter().for_each(|key| on(key));
            progress.advance(block.consumed());
        }
        skipped.extend(stream.skipped());
    }
    // When the bar is gone.
    drop(progress);
    if !quiet {
        skipped.iter().for_each(screen::note);
    }
    Ok(())
}

/// A hash that is a hash already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0.rotate_left(8) ^ u64::from(byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct Counter {
    contract: Contract,
    most: usize,
    /// All hashes, until there are too many.
    exact: Option<HashSet<u64, BuildHasherDefault<Same>>>,
    sketch: HyperLogLog,
    keys: u64,
    bytes: u64,
    /// Smallest and largest so far; nothing after a key that is no integer.
    integers: Option<(i128, i128)>,
}

impl Counter {
    fn new(most: usize) -> Self {
        let integers = Some((i128::MAX, i128::MIN));
        let sketch = HyperLogLog::default();
        Self { contract: Contract::xxh3(), most, exact: Some(HashSet::default()), sketch, keys: 0, bytes: 0, integers }
    }

    fn add(&mut self, key: &[u8]) {
        self.keys += 1;
        self.bytes += key.len() as u64;
        let digest = self.contract.digest_bytes(key).to_u128();
        self.sketch.add((digest >> 64) as u64);
        if let Some(exact) = &mut self.exact {
            exact.insert(digest as u64);
            if exact.len() > self.most {
                self.exact = None;
            }
        }
        if let Some((low, high)) = self.integers {
            self.integers = integer(key).map(|number| (low.min(number), high.max(number)));
        }
    }

    fn finish(self, from: String) -> Counted {
        // Those of i64 and those of u64: no encoding takes both a negative number and one above 2^63.
        let integers = self.integers.filter(|&(low, high)| low >= 0 || high <= i128::from(i64::MAX));
        let (distinct, between) = match &self.exact {
            Some(exact) => (exact.len() as u64, None),
            None => {
                let estimate = self.sketch.estimate();
                let off = WIDTH * hyperloglog::ERROR;
                // No fewer than were counted before the set was given up, and no more than were read.
                let bounded = |number: f64| (number as u64).clamp(self.most as u64, self.keys);
                let (low, high) = (bounded(estimate * (1.0 - off)), bounded(estimate * (1.0 + off)));
                (bounded(estimate.round()), Some((low, high)))
            }
        };
        Counted { from, keys: self.keys, bytes: self.bytes, distinct, between, integers }
    }
}

/// A key that is an integer as programs write it: no leading zeros, no plus, at most 64 bits.
fn integer(key: &[u8]) -> Option<i128> {
    let (negative, digits) = key.strip_prefix(b"-").map_or((false, key), |digits| (true, digits));
    let plain = match digits {
        [] => false,
        [b'0'] => !negative,
        [first, ..] => (b'1'..=b'9').contains(first) && digits.len() <= 20 && digits.iter().all(u8::is_ascii_digit),
    };
    let number = std::str::from_utf8(key).ok().filter(|_| plain)?.parse::<i128>().ok()?;
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(most: usize, keys: impl Iterator<Item = String>) -> Counted {
        let mut counter = Counter::new(most);
        keys.for_each(|key| counter.add(key.as_bytes()));
        counter.finish("test".into())
    }

    #[test]
    fn exact_while_it_can_be_and_within_the_error_beyond() {
        let keys = || (0..60_000u32).map(|i| format!("key {}", i % 40_000));
        let exact = counted(40_000, keys());
        assert_eq!((exact.keys, exact.distinct, exact.between, exact.planned()), (60_000, 40_000, None, 40_000));
        let about = counted(39_999, keys());
        let (low, high) = about.between.unwrap();
        assert!(low <= 40_000 && 40_000 <= high && high - low < 2_000 && about.planned() == high, "{about:?}");
        // Never more than there were.
        let few = counted(10, (0..1000u32).map(|i| i.to_string()));
        assert!(few.planned() <= 1000 && few.distinct <= 1000, "{few:?}");
    }

    #[test]
    fn integers_are_seen_and_what_only_looks_like_them_is_not() {
        for (key, number) in [("0", 0), ("42", 42), ("-7", -7), ("18446744073709551615", u64::MAX.into()), ("9", 9)] {
            assert_eq!(integer(key.as_bytes()), Some(number), "{key}");
        }
        for key in ["", "-", "-0", "007", "+1", "1.0", "1e3", " 1", "18446744073709551616", "-9223372036854775809", "x"]
        {
            assert_eq!(integer(key.as_bytes()), None, "{key}");
        }
        let ids = counted(1000, (500..1500u32).map(|i| i.to_string()));
        assert_eq!((ids.integers, ids.integer_keys(), ids.range()), (Some((500, 1499)), Some("u64"), Some(1000)));
        assert!(ids.is_dense(10.0));
        let sparse = counted(1000, (0..900u64).map(|i| (i * 1_000_003).to_string()));
        assert!(!sparse.is_dense(10.0) && sparse.integer_keys() == Some("u64"));
        assert_eq!(counted(10, ["-5", "5"].map(String::from).into_iter()).integer_keys(), Some("i64"));
        assert_eq!(counted(10, ["-5".into(), u64::MAX.to_string()].into_iter()).integer_keys(), None);
        assert_eq!(counted(10, ["5", "x"].map(String::from).into_iter()).integer_keys(), None);
    }
}
