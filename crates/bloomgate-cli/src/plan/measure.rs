//! What a key costs in each kind, on this machine: filters are built and asked, and a clock is read.
//!
//! Keys are numbers that look random (SplitMix64 of a counter: Steele, Lea, Flood 2014), up to two million of them, so
//! that a plan for a billion keys is measured in seconds too. Lookups go by the batch, half a batch more than once, and
//! the best of three counts: what else the machine did is not the filter's.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bloomgate::advice::Row;
use bloomgate::{AnyFilter, Blocked, Classic, Counting, Cuckoo, Fuse, GrowingCuckoo, Kind, Partitioned, Quotient};
use bloomgate::{Ribbon, Rotating, Scalable};

use crate::failure::Failure;
use crate::json::Object;
use crate::number;
use crate::progress::Progress;

/// The most keys that are measured with.
const MOST: u64 = 2_000_000;
/// Keys of a batch.
const BATCH: usize = 8192;
/// Times that lookups are repeated; the fastest counts.
const PASSES: u32 = 3;

/// Nanoseconds for a key in one kind.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    pub kind: Kind,
    /// To insert a key; of kinds that are built once, to build for one.
    pub insert: f64,
    /// To find a key that is there.
    pub hit: f64,
    /// To turn down one that is not.
    pub miss: f64,
    /// Bytes of the filter that was measured.
    pub bytes: u64,
}

/// What was measured, and with how many keys.
#[derive(Debug, Clone)]
pub struct Measurement {
    pub items: u64,
    pub kinds: Vec<Measured>,
}

impl Measurement {
    /// A table of it, with a footnote.
    pub fn table(&self, planned: u64) -> (String, Vec<String>, String) {
        let head = format!("  {:<14} {:>9} {:>10} {:>10} {:>10}", "ns a key", "size", "insert", "hit", "miss");
        let line = |measured: &Measured| {
            let [insert, hit, miss] = [measured.insert, measured.hit, measured.miss].map(|ns| format!("{ns:.1}"));
            let (name, size) = (measured.kind.name(), number::bytes(measured.bytes));
            format!("{name:<14} {size:>9} {insert:>10} {hit:>10} {miss:>10}")
        };
        let larger = if planned > self.items {
            format!("; the plan has {}, and what outgrows the caches is slower", number::counted(planned, "key"))
        } else {
            String::new()
        };
        let note = format!(
            "measured on this machine with {}, one thread, by the batch ({}){larger}",
            number::counted(self.items, "key"),
            bloomgate::simd_path()
        );
        (head, self.kinds.iter().map(line).collect(), note)
    }

    /// The same for programs.
    pub fn in_json(&self) -> String {
        let kinds = self.kinds.iter().map(|measured| {
            Object::default()
                .text("kind", measured.kind.name())
                .number("insert_ns", measured.insert)
                .number("hit_ns", measured.hit)
                .number("miss_ns", measured.miss)
                .whole("bytes", measured.bytes)
                .close()
        });
        Object::default()
            .whole("items", self.items)
            .text("simd", bloomgate::simd_path())
            .raw("kinds", &crate::json::list(kinds))
            .close()
    }
}

/// Measures the kinds of these rows for so many keys at this rate.
pub fn measure(rows: &[Row], items: u64, rate: f64, quiet: bool) -> Result<Measurement, Failure> {
    let items = items.clamp(1, MOST);
    let keys = |from: u64| (from..from + items).map(mix).collect::<Vec<u64>>();
    let (present, absent) = (keys(1), keys(1 + MOST));
    let progress = Progress::steps("measuring", rows.len() as u64, quiet);
    let mut kinds = Vec::with_capacity(rows.len());
    for row in rows {
        kinds.push(one(row.kind, &present, &absent, rate)?);
        progress.advance(1);
    }
    Ok(Measurement { items, kinds })
}

fn one(kind: Kind, present: &[u64], absent: &[u64], rate: f64) -> Result<Measured, Failure> {
    let started = Instant::now();
    let mut filter = made(kind, present, rate)?;
    let mut insert = started.elapsed();
    if kind.takes_inserts() {
        let started = Instant::now();
        for batch in present.chunks(BATCH) {
            filter.insert_batch(batch)?;
        }
        insert = started.elapsed();
    }
    let (hit, found) = fastest(&filter, present)?;
    let (miss, wrong) = fastest(&filter, absent)?;
    // A measurement of a filter that does not work would be worth nothing.
    if found != present.len() as u64 || wrong > present.len() as u64 / 2 {
        return Err(Failure::Message(format!(
            "the {kind} filter that was measured answers wrongly: please report this"
        )));
    }
    let each = |time: Duration| time.as_secs_f64() * 1e9 / present.len() as f64;
    Ok(Measured { kind, insert: each(insert), hit: each(hit), miss: each(miss), bytes: filter.size_in_bytes() })
}

/// The fastest of a few passes over all keys, and how many may be there.
fn fastest(filter: &AnyFilter, keys: &[u64]) -> Result<(Duration, u64), Failure> {
    let mut answers = [false; BATCH];
    let (mut best, mut found) = (Duration::MAX, 0);
    for _ in 0..PASSES {
        found = 0;
        let started = Instant::now();
        for batch in keys.chunks(BATCH) {
            let answers = &mut answers[..batch.len()];
            filter.contains_batch(black_box(batch), answers)?;
            found += answers.iter().map(|&answer| u64::from(answer)).sum::<u64>();
        }
        best = best.min(started.elapsed());
    }
    Ok((best, found))
}

/// An empty filter for these keys; a full one of the kinds that are built once.
fn made(kind: Kind, keys: &[u64], rate: f64) -> Result<AnyFilter, Failure> {
    let items = keys.len() as u64;
    macro_rules! empty {
        ($filter:ident) => {
            $filter::builder().keys::<u64>().items(items).rate(rate).build()?.into()
        };
    }
    Ok(match kind {
        Kind::Blocked => empty!(Blocked),
        Kind::Classic => empty!(Classic),
        Kind::Partitioned => empty!(Partitioned),
        Kind::Counting => empty!(Counting),
        Kind::Scalable => empty!(Scalable),
        Kind::Cuckoo => empty!(Cuckoo),
        Kind::GrowingCuckoo => empty!(GrowingCuckoo),
        Kind::Quotient => empty!(Quotient),
        Kind::Rotating => {
            let hour = Duration::from_secs(3600);
            Rotating::builder().keys::<u64>().window(hour).items(items).rate(rate).build()?.into()
        }
        Kind::Fuse => Fuse::builder().keys::<u64>().rate(rate).build_from_slice(keys)?.into(),
        Kind::Ribbon => Ribbon::builder().keys::<u64>().rate(rate).build_from_slice(keys)?.into(),
        other => return Err(Failure::Message(format!("a {other} filter is not measured"))),
    })
}

/// A number that looks random, another one for every number.
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_the_table_is_measured() {
        let rows = bloomgate::advice::table(3_000, 0.01).unwrap();
        let measured = measure(&rows, 3_000, 0.01, true).unwrap();
        assert_eq!((measured.items, measured.kinds.len()), (3_000, rows.len()));
        for (row, kind) in rows.iter().zip(&measured.kinds) {
            assert_eq!(row.kind, kind.kind);
            assert!(kind.insert > 0.0 && kind.hit > 0.0 && kind.miss > 0.0, "{kind:?}");
        }
        let (_, lines, note) = measured.table(1_000_000_000);
        assert!(lines.iter().all(|line| line.chars().count() <= 78) && note.contains("outgrows the caches"));
    }
}
