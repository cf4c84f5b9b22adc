//! What a key costs in each kind, on this machine: the race of `bloomgate bench`, with at most two million keys, so that a
//! plan for a billion is measured in seconds too.

use bloomgate::Kind;
use bloomgate::advice::Row;

use crate::bench::contest::{self, Course};
use crate::failure::Failure;
use crate::json::Object;
use crate::number;
use crate::progress::Progress;

/// The most keys that are measured with.
const MOST: u64 = 2_000_000;
/// Times that all is repeated; the least counts.
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
    let course = Course::new(items, rate, PASSES).in_batches();
    let progress = Progress::steps("measuring", rows.len() as u64, quiet);
    let mut kinds = Vec::with_capacity(rows.len());
    for row in rows {
        progress.at(row.kind.name());
        let figures = contest::measure(row.kind, &course)?;
        let (hit, miss) = (figures.hit_batch.unwrap_or(figures.hit), figures.miss_batch.unwrap_or(figures.miss));
        kinds.push(Measured { kind: row.kind, insert: figures.fill, hit, miss, bytes: figures.bytes });
        progress.advance(1);
    }
    Ok(Measurement { items, kinds })
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
