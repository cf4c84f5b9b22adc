//! `bloomgate bench`: the kinds side by side on this machine, beside a hash set, above the floor that memory sets.

pub mod contest;
mod hash_set;

use std::io::Write;

use bloomgate::Kind;

use crate::failure::{DONE, Failure, Outcome};
use crate::json::{self, Object};
use crate::number;
use crate::progress::Progress;
use crate::screen::{self, DIM, HEAD, INK, STRONG, WARN, paint, wrapped};
use contest::{Course, Figures};

/// Measure the kinds on this machine, beside a hash set and the memory floor
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate bench                                   a million keys at 1 %
  bloomgate bench --items 20M --rate 0.1%           beyond the caches
  bloomgate bench --kind blocked --kind fuse --json

What is measured: u64 keys, hashed by XXH3 for all, on one thread, in nanoseconds a key; of each slice of 16,384 keys the \
least of several passes counts. \
A batch asks memory for one key while it works on another; \"one\" asks for one key after the other. Times depend on \
what else the machine does: run it twice, and trust ratios more than figures. Sizes and rates do not depend on it.

The floor is the time of one random read of a cache line, from memory of the same size, asked for 32 reads ahead: no \
filter that touches a line for each key is faster. The hash set is the standard library's, with the same XXH3; it has \
no batches, and it never says \"maybe\".

Exit codes: 0 done, 2 error.")]
pub struct Args {
    /// Keys in the set, 1 to 100M
    #[arg(long, value_name = "N", value_parser = items, default_value = "1M", allow_negative_numbers = true)]
    items: u64,
    /// False positives to promise: the share of absent keys that get a "maybe"
    #[arg(long, value_name = "P", value_parser = number::rate, default_value = "1%", allow_negative_numbers = true)]
    rate: f64,
    /// Only this kind (and the hash set); may be given several times
    #[arg(long, value_parser = kind)]
    kind: Vec<Kind>,
    /// Passes, of which the least counts [default: 21 for up to 100k keys, 7 up to 2M, 3 beyond]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: Option<u32>,
    /// Print one JSON object instead of the screen
    #[arg(long)]
    json: bool,
    /// Draw with plain characters
    #[arg(long)]
    ascii: bool,
}

/// The kinds that hold the keys they are given. A stable filter forgets, and forms of other systems are theirs.
const KINDS: [Kind; 11] = [
    Kind::Blocked,
    Kind::Classic,
    Kind::Partitioned,
    Kind::Fuse,
    Kind::Ribbon,
    Kind::Cuckoo,
    Kind::Quotient,
    Kind::Counting,
    Kind::Scalable,
    Kind::GrowingCuckoo,
    Kind::Rotating,
];

/// The most keys: with the absent ones they take 1.6 GB, the hash set 1.2 GB.
const MOST_ITEMS: u64 = 100_000_000;
/// The columns of a bar.
const BAR: usize = 48;

fn items(text: &str) -> Result<u64, String> {
    let items = number::count(text)?;
    if (1..=MOST_ITEMS).contains(&items) {
        return Ok(items);
    }
    Err(format!("1 to {} keys are measured, not {}", number::grouped(MOST_ITEMS), number::grouped(items)))
}

fn kind(text: &str) -> Result<Kind, String> {
    match text.parse::<Kind>() {
        Ok(kind) if KINDS.contains(&kind) => Ok(kind),
        Ok(kind) if kind.is_foreign() => Err(format!("{kind} is the form of another system and is not measured")),
        Ok(kind) => Err(format!("a {kind} filter forgets keys, and is not measured beside those that hold them")),
        Err(_) => {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
            Err(format!("there is no kind of filter called {text:?}; choose of {}", names.join(", ")))
        }
    }
}

/// How many passes give a steady least: many when a pass takes microseconds, few when it takes seconds.
fn passes_for(items: u64) -> u32 {
    match items {
        0..=100_000 => 21,
        100_001..=2_000_000 => 7,
        _ => 3,
    }
}

/// A line of the table.
struct Row {
    name: &'static str,
    figures: Figures,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let kinds: Vec<Kind> = if args.kind.is_empty() {
        KINDS.to_vec()
    } else {
        KINDS.into_iter().filter(|kind| args.kind.contains(kind)).collect()
    };
    let passes = args.passes.unwrap_or_else(|| passes_for(args.items));
    let progress = Progress::steps("measuring", kinds.len() as u64 + 1, false);
    let course = Course::new(args.items, args.rate, passes);
    let mut rows = Vec::with_capacity(kinds.len() + 1);
    for kind in kinds {
        progress.at(kind.name());
        let figures = contest::measure(kind, &course).map_err(|fault| match fault {
            Failure::Message(message) => Failure::Message(format!("{kind}: {message}")),
            gone => gone,
        })?;
        rows.push(Row { name: kind.name(), figures });
        progress.advance(1);
    }
    progress.at("hash-set");
    rows.push(Row { name: "hash-set", figures: hash_set::measure(&course)? });
    drop(progress);
    let text = if args.json {
        in_json(args, passes, &course, &rows) + "\n"
    } else {
        on_screen(args, passes, &rows, screen::unicode(args.ascii))
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(DONE)
}

fn on_screen(args: &Args, passes: u32, rows: &[Row], unicode: bool) -> String {
    let mut out = paint(
        HEAD,
        format!(
            "{} at {}: ns a key, one thread, least of {}, {} path",
            number::counted(args.items, "key"),
            number::percent(args.rate),
            number::counted(passes.into(), "pass").replace("passs", "passes"),
            bloomgate::simd_path()
        ),
    );
    out.push_str("\n\n");
    if cfg!(debug_assertions) {
        out.push_str(&paint(WARN, wrapped("", "This is a debug build: its times mean nothing.")));
        out.push('\n');
    }
    out.push_str(&table(rows));
    out.push_str(&format!("\n{}\n", paint(HEAD, "A miss, in batches: ns a key")));
    out.push_str(&bars(rows, unicode));
    if let Some(conclusion) = conclusion(rows) {
        out.push('\n');
        out.push_str(&paint(STRONG, wrapped("", &conclusion)));
    }
    out
}

fn table(rows: &[Row]) -> String {
    let mut out = paint(
        DIM,
        format!(
            "  {:<14} {:>8} {:>9} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6}\n",
            "", "", "", "insert", "hit", "hit", "miss", "miss", ""
        ),
    );
    out.push_str(&paint(
        DIM,
        format!(
            "  {:<14} {:>8} {:>9} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6}\n",
            "kind", "bits/key", "measured", "/build", "batch", "one", "batch", "one", "floor"
        ),
    ));
    for Row { name, figures } in rows {
        out.push_str(&format!(
            "  {name:<14} {:>8} {:>9} {:>7} {:>7} {:>6} {:>7} {:>6} {:>6}\n",
            format!("{:.2}", figures.bits_per_key),
            number::percent(figures.rate),
            ns(Some(figures.fill)),
            ns(figures.hit_batch),
            ns(Some(figures.hit)),
            ns(figures.miss_batch),
            ns(Some(figures.miss)),
            ns(Some(figures.floor)),
        ));
    }
    out
}

/// Nanoseconds in a narrow column.
fn ns(time: Option<f64>) -> String {
    match time {
        None => "-".into(),
        Some(time) if time < 100.0 => format!("{time:.1}"),
        Some(time) => format!("{time:.0}"),
    }
}

/// A bar for each kind, with the floor of its size as a mark. A hash set has no batches: its bar is of single lookups.
fn bars(rows: &[Row], unicode: bool) -> String {
    let time = |row: &Row| row.figures.miss_batch.unwrap_or(row.figures.miss);
    let longest = rows.iter().map(|row| time(row).max(row.figures.floor)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let column = |ns: f64| ((ns / longest * BAR as f64).round() as usize).min(BAR);
    let (full, mark) = if unicode { ('█', '┃') } else { ('#', '|') };
    let mut out = String::new();
    for row in rows {
        let length = column(time(row)).max(1);
        let floor = column(row.figures.floor).saturating_sub(1);
        let (before, after) = (floor.min(length), length.saturating_sub(floor + 1));
        let gap = " ".repeat(floor.saturating_sub(length));
        let drawn = |cells: usize| paint(INK, full.to_string().repeat(cells));
        let rest = format!(" {}", ns(Some(time(row))));
        out.push_str(&format!(
            "  {:<14} {}{gap}{}{}{rest}\n",
            row.name,
            drawn(before),
            paint(STRONG, mark),
            drawn(after)
        ));
    }
    out.push_str(&paint(DIM, format!("  {mark} is the floor: memory alone, at that size\n")));
    out
}

/// One sentence: who misses soonest, how far above memory that is, and what a hash set costs instead.
fn conclusion(rows: &[Row]) -> Option<String> {
    let (set, kinds) = rows.split_last()?;
    let soonest = kinds.iter().min_by(|a, b| {
        let time = |row: &Row| row.figures.miss_batch.unwrap_or(row.figures.miss);
        time(a).total_cmp(&time(b))
    })?;
    let time = soonest.figures.miss_batch.unwrap_or(soonest.figures.miss);
    let smallest = kinds.iter().min_by(|a, b| a.figures.bits_per_key.total_cmp(&b.figures.bits_per_key))?;
    let also = if std::ptr::eq(soonest, smallest) { "also " } else { "" };
    Some(format!(
        "{} says \"no\" soonest: {} ns, {:.1} times the memory floor; {also}smallest is {} with {:.2} bits a key. A hash \
         set takes {} ns and {:.0} times the bits of {}.",
        soonest.name,
        ns(Some(time)),
        time / soonest.figures.floor,
        smallest.name,
        smallest.figures.bits_per_key,
        ns(Some(set.figures.miss)),
        set.figures.bits_per_key / soonest.figures.bits_per_key,
        soonest.name,
    ))
}

fn in_json(args: &Args, passes: u32, course: &Course, rows: &[Row]) -> String {
    let rows = rows.iter().map(|Row { name, figures }| {
        Object::default()
            .text("kind", name)
            .whole("bytes", figures.bytes)
            .number("bits_per_key", figures.bits_per_key)
            .number("measured_rate", figures.rate)
            .number("insert_ns", figures.fill)
            .maybe_number("hit_batch_ns", figures.hit_batch)
            .number("hit_ns", figures.hit)
            .maybe_number("miss_batch_ns", figures.miss_batch)
            .number("miss_ns", figures.miss)
            .number("floor_ns", figures.floor)
            .close()
    });
    Object::default()
        .whole("items", args.items)
        .number("rate", args.rate)
        .whole("passes", passes.into())
        .text("keys", "u64")
        .text("hash", "xxh3")
        .text("cpu_path", bloomgate::simd_path())
        .flag("debug_build", cfg!(debug_assertions))
        .whole("absent_keys", course.absent().len() as u64)
        .raw("rows", &json::list(rows))
        .close()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, miss_batch: Option<f64>, bits_per_key: f64) -> Row {
        let figures = Figures {
            bytes: 1_000,
            bits_per_key,
            rate: 0.01,
            fill: 5.0,
            hit_batch: miss_batch,
            hit: 9.0,
            miss_batch,
            miss: 20.0,
            floor: 2.0,
        };
        Row { name, figures }
    }

    #[test]
    fn bars_are_as_long_as_the_times_and_marked_at_the_floor() {
        let rows = [row("blocked", Some(4.0), 10.0), row("classic", Some(10.0), 9.6), row("hash-set", None, 151.0)];
        for unicode in [true, false] {
            let drawn = anstream::adapter::strip_str(&bars(&rows, unicode)).to_string();
            let (full, mark) = if unicode { ('█', '┃') } else { ('#', '|') };
            let cells = |line: &str, of: char| line.chars().filter(|&c| c == of).count();
            let lines: Vec<&str> = drawn.lines().collect();
            // 20 ns are 48 columns, of which the floor at 2 ns takes the fifth.
            let lengths: Vec<usize> = lines[..3].iter().map(|line| cells(line, full)).collect();
            assert_eq!(lengths, [9, 23, 47], "{drawn}");
            let marks = lines[..3].iter().map(|line| line.chars().position(|c| c == mark).unwrap() - 17);
            assert_eq!(marks.collect::<Vec<_>>(), [4, 4, 4], "{drawn}");
            assert!(lines.iter().all(|line| line.chars().count() <= 80));
        }
    }

    #[test]
    fn the_conclusion_names_the_soonest_and_the_smallest() {
        let rows = [row("blocked", Some(4.0), 10.0), row("classic", Some(10.0), 9.6), row("hash-set", None, 151.0)];
        let said = conclusion(&rows).unwrap();
        for words in ["blocked says", "4.0 ns, 2.0 times", "smallest is classic with 9.60", "20.0 ns and 15 times"] {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
        assert!(conclusion(&rows[..1]).is_none());
    }
}
