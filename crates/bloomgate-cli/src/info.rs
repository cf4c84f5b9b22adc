//! `bloomgate info`: everything a filter's file says about itself, what its bits say, and a picture of them.
//!
//! No secret is needed: shape, counts and bits can be read without one, only questions need it.

mod drawing;
mod foreign;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bloomgate::foreign::Form;
use bloomgate::format::{
    ChainDescription, Codec, Description, Dimensions, Limits, PartDescription, SectionReader, inspect,
};
use bloomgate::math::estimate::{self, Estimate};
use bloomgate::math::scalable::chain_rate;
use bloomgate::{Guarantee, Kind, WhenFull};

use crate::build::when_full_name;
use crate::delta_info::{self, Wanted};
use crate::failure::{DONE, ERROR, Failure, Outcome};
use crate::file;
use crate::json::{self, Object};
use crate::keys::Source;
use crate::number::{bytes, counted, duration, grouped, percent};
use crate::picture::{self, Cell, Regions};
use crate::screen::{self, DIM, HEAD, WARN, paint, wrapped};
use crate::standing::between;
use crate::svg::Target;

/// Show what a filter is: shape, promise, fill, rates, checksums, and a picture of its bits
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate info urls.bloom
  bloomgate info --json urls.bloom | jq .estimated_rate
  bloomgate info --verify urls.bloom && echo intact
  bloomgate info tuesday.delta                       which file it is for, and which it makes
  bloomgate info --svg urls.svg urls.bloom           the picture for a document

The whole file is read and every checksum verified, whatever is printed. A keyed filter needs no secret \
here, unless its sentinels shall be checked: they say whether keys are hashed here as where it was written.

Three rates: promised is what was asked for; expected is what this shape has with the keys that were counted; by the \
bits is what the bits as they are will show. The first is a promise while the filter holds no more than its capacity.

Exit codes: 0 the file is intact, 2 it is damaged or no filter.")]
pub struct Args {
    /// The filter, or a delta
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// Read the filter as the form of another system: bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long,
    /// guava:bytes, parquet, parquet:u64 ... (the first three are recognised)
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// Print one JSON object instead of the screen
    #[arg(long)]
    json: bool,
    /// Only verify every checksum: one line
    #[arg(long, conflicts_with = "json")]
    verify: bool,
    /// Check the sentinels of a keyed filter with the secret in this file
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Write the picture of the bits as an SVG document too; - is standard output, instead of the screen
    #[arg(long, value_name = "FILE", conflicts_with = "verify")]
    svg: Option<PathBuf>,
    /// Draw with plain characters
    #[arg(long)]
    ascii: bool,
}

/// What the bits of one part say.
struct Bits {
    set: u64,
    cells: u64,
    /// Nothing where bits are no more than parts of fingerprints.
    keys: Option<Spoken>,
    regions: Regions,
}

/// The keys that bits speak of, and the rate that they will show.
#[derive(Clone, Copy)]
struct Spoken {
    estimate: Estimate,
    rate: f64,
}

/// What the bits of all parts say.
struct Reading {
    fill: f64,
    keys: Option<Spoken>,
    parts: Vec<Bits>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    file::check_filter(&args.filter)?;
    let read: Vec<Source> =
        [Some(&args.filter), args.secret_file.as_ref()].into_iter().flatten().map(|path| Source::of(path)).collect();
    let target = args.svg.as_deref().map(|path| Target::of(path, &read)).transpose()?;
    if let Some(filter) = foreign::read(args)? {
        if target.is_some() {
            return Err(Failure::at(&args.filter, "is in the form of another system: --svg draws our own filters"));
        }
        return foreign::show(args, &filter);
    }
    if delta_info::is_delta(&args.filter) {
        return delta_info::show(
            &args.filter,
            match args {
                Args { json: true, .. } => Wanted::Json,
                Args { verify: true, .. } => Wanted::Verdict,
                _ => Wanted::Screen,
            },
        );
    }
    let mut description = inspect(&args.filter)?;
    if args.secret_file.is_some() && description.is_intact() {
        // Opening checks the secret, and with it the sentinels.
        file::open(&args.filter, None, args.secret_file.as_deref())?;
        description.sentinels_agree = Some(true);
    }
    let description = description;
    let intact = description.is_intact() && description.sentinels_agree != Some(false);
    // Damaged bits say nothing that can be believed.
    let reading = if intact && !args.verify { Some(read_bits(&args.filter, &description)?) } else { None };
    if let (Some(target), Some(reading)) = (&target, &reading) {
        target.write(&on_page(&args.filter, &description, reading))?;
        if matches!(target, Target::Stdout) {
            return Ok(DONE);
        }
    }
    let text = if args.json {
        in_json(&args.filter, &description, reading.as_ref()) + "\n"
    } else if args.verify {
        verdict(&args.filter, &description)
    } else {
        on_screen(&args.filter, &description, reading.as_ref(), screen::unicode(args.ascii))
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    for section in &description.sections {
        if let Some(damage) = &section.damage {
            screen::complain(format_args!("{}: {damage}", args.filter.display()));
        }
    }
    if target.is_some() && reading.is_none() {
        screen::complain(format_args!("{}: damaged bits are not drawn", args.filter.display()));
    }
    if description.sentinels_agree == Some(false) {
        screen::complain(format_args!(
            "{}: its sentinels hash differently here than where it was written: it must not be asked; build it again",
            args.filter.display()
        ));
    }
    Ok(if intact { DONE } else { ERROR })
}

/// Reads every payload once more, to count what is set where.
fn read_bits(path: &Path, description: &Description) -> Result<Reading, Failure> {
    let file = File::open(path).map_err(|error| Failure::at(path, error))?;
    let mut reader = SectionReader::from_file(file, Some(Limits::payload(u64::MAX)))?;
    let lines = (picture::LINES / description.parts.len().max(1)).max(1);
    let mut parts = Vec::with_capacity(description.parts.len());
    for part in &description.parts {
        let (cell, cells) = match part.dimensions {
            Dimensions::Classic { bits, .. } => (Cell::Bit, bits),
            Dimensions::Partitioned { slice_bits, hashes } => (Cell::Bit, slice_bits * u64::from(hashes)),
            Dimensions::Blocked { lines, .. } => (Cell::Bit, lines * 512),
            Dimensions::Counting { lines, counter_bits, .. } => (Cell::Counter(counter_bits.bits()), lines * 512),
            // Fingerprints: random bits, as even as those of a good hash.
            _ => (Cell::Bit, part.size_in_bytes * 8),
        };
        let mut regions = Regions::new(cell, part.size_in_bytes, lines);
        reader.read_payload(part.part, part.size_in_bytes, &mut |offset, bytes| {
            regions.add(offset, bytes);
            Ok(())
        })?;
        let set = regions.set();
        parts.push(Bits { set, cells, keys: spoken(part, set), regions });
    }
    let sum = |of: fn(&Bits) -> u64| parts.iter().map(of).sum::<u64>();
    Ok(Reading {
        fill: sum(|bits| bits.set) as f64 / sum(|bits| bits.cells).max(1) as f64,
        keys: parts.iter().map(|bits| bits.keys).collect::<Option<Vec<_>>>().map(|keys| Spoken {
            estimate: keys.iter().fold(Estimate::default(), |all, keys| all + keys.estimate),
            rate: chain_rate(keys.iter().map(|keys| keys.rate)),
        }),
        parts,
    })
}

/// The keys that so many set cells speak of, and the rate that they give.
fn spoken(part: &PartDescription, set: u64) -> Option<Spoken> {
    let (estimate, rate) = match part.dimensions {
        Dimensions::Classic { bits, hashes } => {
            (estimate::classic(set, bits, hashes, estimate::Z), estimate::classic_rate(set, bits, hashes))
        }
        Dimensions::Partitioned { slice_bits, hashes } => {
            // Slices differ from their mean by chance alone, and the product hardly feels it.
            let fill = set as f64 / (slice_bits * u64::from(hashes)).max(1) as f64;
            let fills = std::iter::repeat_n(fill, hashes as usize);
            (estimate::partitioned(set, slice_bits, hashes, estimate::Z), estimate::partitioned_rate(fills))
        }
        Dimensions::Blocked { lines, lines_per_key, paired } => blocked(set, lines, lines_per_key, paired),
        Dimensions::Counting { lines, lines_per_key, .. } => blocked(set, lines, lines_per_key, true),
        _ => return None,
    };
    Some(Spoken { estimate, rate })
}

fn blocked(set: u64, lines: u64, lines_per_key: u32, paired: bool) -> (Estimate, f64) {
    (
        estimate::blocked(set, lines, lines_per_key, paired, estimate::Z),
        estimate::blocked_rate(set, lines, lines_per_key, paired),
    )
}

fn hash(description: &Description) -> String {
    match description.secret {
        Some(id) => format!("{} with the secret {id}, over {}", description.algorithm, description.encoding),
        None => format!("{} with seed {}, over {}", description.algorithm, description.seed, description.encoding),
    }
}

/// Bits a key by the keys that the bits speak of; by those that were counted where the bits say nothing.
fn bits_per_key(description: &Description, reading: Option<&Reading>) -> f64 {
    let by_bits = reading.and_then(|reading| reading.keys).map(|keys| keys.estimate);
    let by_bits = by_bits.filter(|estimate| estimate.high.is_some());
    let keys = match description.kind {
        Kind::Stable => description.capacity as f64,
        _ => by_bits.map_or(description.len as f64, |estimate| estimate.value),
    };
    description.size_in_bytes as f64 * 8.0 / keys.max(1.0)
}

/// The sections by type, those of all parts together.
fn sections(description: &Description) -> String {
    let mut types: Vec<(String, u64, u64)> = Vec::new();
    for described in &description.sections {
        let name = described.section.kind.to_string();
        match types.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, length)) => {
                (*count, *length) = (*count + 1, length.saturating_add(described.section.length))
            }
            None => types.push((name, 1, described.section.length)),
        }
    }
    let told = types.into_iter().map(|(name, count, length)| match count {
        1 => format!("{name} {}", bytes(length)),
        _ => format!("{count} {name} {}", bytes(length)),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn verdict(path: &Path, description: &Description) -> String {
    let sentinels = match description.sentinels_agree {
        Some(true) => ", sentinels agree",
        Some(false) => ", sentinels DISAGREE",
        None => ", sentinels not checked (they need the secret)",
    };
    if description.is_intact() {
        format!(
            "{}: {} sections, every checksum right{sentinels}; {}\n",
            path.display(),
            description.sections.len(),
            bytes(description.file_len)
        )
    } else {
        let damaged = description.sections.iter().filter(|section| section.damage.is_some()).count();
        let are = if damaged == 1 { "is" } else { "are" };
        format!("{}: {damaged} of {} sections {are} DAMAGED\n", path.display(), description.sections.len())
    }
}

fn shape(dimensions: &Dimensions) -> String {
    match dimensions {
        Dimensions::Classic { bits, hashes } => format!("{}, {hashes} for each key", counted(*bits, "bit")),
        Dimensions::Blocked { lines, lines_per_key: 1, .. } => {
            format!("{} of 512 bits, one for each key", counted(*lines, "line"))
        }
        Dimensions::Blocked { lines, lines_per_key, .. } => {
            format!("{} of 512 bits, {lines_per_key} for each key", counted(*lines, "line"))
        }
        Dimensions::Partitioned { slice_bits, hashes } => {
            format!("{} of {}", counted(u64::from(*hashes), "slice"), counted(*slice_bits, "bit"))
        }
        Dimensions::Cuckoo { buckets, fingerprint_bits } => {
            format!("{} of 4 fingerprints of {fingerprint_bits} bits", counted(*buckets, "bucket"))
        }
        Dimensions::Quotient { slots, remainder_bits, .. } => {
            format!("{}, fingerprints by their place and {remainder_bits} bits more", counted(*slots, "slot"))
        }
        Dimensions::Fuse { cells, fingerprint_bits, shards } => {
            let tables = counted(*shards, "table");
            format!("{} of {fingerprint_bits} bits in {tables}, three for each key", counted(*cells, "cell"))
        }
        Dimensions::Ribbon { columns, layers, result_bits } => {
            let layers = counted(u64::from(*layers), "layer");
            format!("{} of {result_bits} bits in {layers}", counted(*columns, "column"))
        }
        Dimensions::Stable { lines, round, .. } => {
            format!("{} of 256 cells, lowered once in {}", counted(*lines, "line"), counted(*round, "insertion"))
        }
        Dimensions::Counting { lines, counter_bits, .. } => {
            format!("{} of 512 counters of {} bits", counted(*lines, "line"), counter_bits.bits())
        }
        other => other.to_string(),
    }
}

/// Forms that say neither how many keys they hold nor for how many they were made: wrapped into our file, both are read
/// off the bits, and no promise was broken.
fn guessed(kind: Kind) -> bool {
    matches!(kind, Kind::BfV1 | Kind::Guava | Kind::Parquet)
}

/// What a "no" of this kind means, in a line.
fn meaning(kind: Kind) -> &'static str {
    match kind.guarantee() {
        Guarantee::Superset if kind.takes_removals() => "certainly not there: never inserted, or removed",
        Guarantee::Superset => "certainly never inserted",
        Guarantee::Window => "not inserted within the window",
        _ => "not seen lately: proves nothing",
    }
}

fn on_screen(path: &Path, description: &Description, reading: Option<&Reading>, unicode: bool) -> String {
    let mut out = format!("{}\n", paint(HEAD, path.display()));
    let mut row = |name: &str, text: String| {
        // The label is painted after the text was wrapped, so that the columns are counted without the colours.
        let label = format!("  {name:<12}");
        out.push_str(&wrapped(&label, &text).replacen(&label, &paint(DIM, &label), 1));
    };
    let kind = match (&description.chain, &description.parts[..]) {
        (Some(ChainDescription::Grows { stage_kind, growth, .. }), parts) => format!(
            "{}, {} of {stage_kind} filters, each {growth} times as large as the one before",
            description.kind,
            counted(parts.len() as u64, "stage"),
        ),
        (Some(ChainDescription::Rotates { window, generations, .. }), _) => format!(
            "{}, a window of {} in {}, kept at most {}",
            description.kind,
            duration(*window),
            counted(u64::from(*generations), "generation"),
            duration(*window + *window / (*generations).max(1))
        ),
        (None, [part]) => format!("{}, {}", description.kind, shape(&part.dimensions)),
        _ => description.kind.to_string(),
    };
    row("kind", kind);
    row("a \"no\"", meaning(description.kind).into());
    let remaining = description.capacity.saturating_sub(description.len);
    let then = match description.when_full {
        WhenFull::GoOn => "then the rate rises",
        WhenFull::Refuse => "then it refuses",
        WhenFull::Grow => "then it grows",
    };
    let (held, capacity) = (grouped(description.len), grouped(description.capacity));
    row(
        "keys",
        match description.kind {
            Kind::Stable => format!("{held} insertions so far, the last {capacity} certainly remembered"),
            kind if !kind.takes_inserts() => format!("{held}, fixed when it was built"),
            kind if guessed(kind) => format!("{held} by the bits, made for about {capacity} as far as its form says"),
            _ => format!("{held} of {capacity}, room for {} more, {then}", grouped(remaining)),
        },
    );
    let spoken = reading.and_then(|reading| reading.keys);
    if let Some(keys) = spoken {
        row("by the bits", between(&keys.estimate));
    }
    let by_bits = spoken.map_or_else(String::new, |keys| format!(", {} by the bits", percent(keys.rate)));
    row(
        "rate",
        format!("{} promised, {} expected{by_bits}", percent(description.rate), percent(description.expected_rate)),
    );
    if let Some(reading) = reading.filter(|_| spoken.is_some()) {
        row("fill", percent(reading.fill));
    }
    let stored = if description.compressed { "compressed" } else { "asked in place" };
    row(
        "size",
        format!(
            "{}, {:.2} bits {}; the file {}, {stored}",
            bytes(description.size_in_bytes),
            bits_per_key(description, reading),
            if description.kind == Kind::Stable { "a remembered insertion" } else { "a key" },
            bytes(description.file_len)
        ),
    );
    row("hash", hash(description));
    row("address", description.address.to_string());
    let checks = match (description.is_intact(), description.sentinels_agree) {
        (false, _) => "DAMAGED",
        (true, Some(true)) => "every checksum right, sentinels agree",
        (true, Some(false)) => "every checksum right, sentinels DISAGREE",
        (true, None) => "every checksum right, sentinels need the secret",
    };
    row("file", format!("format {}, {checks}", description.format_version));
    row("sections", sections(description));
    if description.expected_rate > description.rate * 1.001 && !guessed(description.kind) {
        out.push_str(&paint(
            WARN,
            wrapped("  ! ", "it holds more keys than it was made for: the rate is above the promise"),
        ));
    }
    if let Some(reading) = reading {
        out.push('\n');
        draw(description, reading, unicode, &mut out);
    }
    out
}

/// The stages of a chain that are drawn; the rest are in `--json`.
const MOST_STAGES: usize = 8;

/// The name of a stage or a generation, and what it holds; nothing for a filter of one part.
fn part_title(description: &Description, part: &PartDescription, bits: &Bits) -> Option<String> {
    let chain = description.chain.as_ref()?;
    let name = match chain {
        ChainDescription::Rotates { .. } if usize::from(part.part) == description.parts.len() => {
            "the youngest generation".to_string()
        }
        ChainDescription::Rotates { .. } => format!("generation {}", part.part),
        _ => format!("stage {}", part.part),
    };
    Some(format!(
        "{name}: {} of {} in {}, {} of the bits set",
        grouped(part.len),
        counted(part.capacity, "key"),
        bytes(part.size_in_bytes),
        percent(bits.set as f64 / bits.cells.max(1) as f64)
    ))
}

/// The picture as a page of SVG.
fn on_page(path: &Path, description: &Description, reading: &Reading) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let keys = match reading.keys {
        Some(keys) => between(&keys.estimate),
        None => counted(description.len, "key"),
    };
    let by_bits = reading.keys.map_or_else(String::new, |keys| format!(", {} by the bits", percent(keys.rate)));
    let facts = [
        format!("{keys} in {}, {} of the cells set", bytes(description.size_in_bytes), percent(reading.fill)),
        format!(
            "false positives: {} promised, {} expected{by_bits}",
            percent(description.rate),
            percent(description.expected_rate)
        ),
    ];
    let shown = description.parts.iter().zip(&reading.parts).take(MOST_STAGES);
    let parts: Vec<drawing::Part<'_>> = shown
        .map(|(part, bits)| drawing::Part { name: part_title(description, part, bits), regions: &bits.regions })
        .collect();
    drawing::page(&format!("{name}: a {} filter", description.kind), &facts, &parts)
}

fn draw(description: &Description, reading: &Reading, unicode: bool, out: &mut String) {
    for (part, bits) in description.parts.iter().zip(&reading.parts).take(MOST_STAGES) {
        if let Some(title) = part_title(description, part, bits) {
            out.push_str(&format!("  {}\n", paint(HEAD, title)));
        }
        out.push_str(&bits.regions.heat(unicode));
        if description.chain.is_none() {
            out.push_str(&bits.regions.legend(unicode));
            out.push_str(&bits.regions.dots(unicode));
        }
    }
    if description.parts.len() > MOST_STAGES {
        let more = (description.parts.len() - MOST_STAGES) as u64;
        out.push_str(&paint(DIM, format!("  and {}: --json tells of all\n", counted(more, "more stage"))));
    }
}

fn in_json(path: &Path, description: &Description, reading: Option<&Reading>) -> String {
    let parts = description.parts.iter().enumerate().map(|(at, part)| {
        let bits = reading.and_then(|reading| reading.parts.get(at));
        Object::default()
            .whole("part", part.part.into())
            .text("shape", shape(&part.dimensions))
            .whole("capacity", part.capacity)
            .whole("counted", part.len)
            .number("promised_rate", part.rate)
            .number("expected_rate", part.expected_rate)
            .whole("bytes", part.size_in_bytes)
            .whole("stored_bytes", part.stored_bytes)
            .flag("compressed", part.codec != Codec::Raw)
            .maybe_number("fill_ratio", bits.map(|bits| bits.set as f64 / bits.cells.max(1) as f64))
            .maybe_number("estimated_rate", bits.and_then(|bits| bits.keys).map(|keys| keys.rate))
            .close()
    });
    let sections = description.sections.iter().map(|described| {
        let section = &described.section;
        let object = Object::default()
            .text("type", section.kind.to_string())
            .whole("part", section.part.into())
            .whole("offset", section.offset)
            .whole("length", section.length)
            .text("crc32c", format!("{:08x}", section.crc))
            .flag("intact", described.damage.is_none());
        match &described.damage {
            Some(damage) => object.text("damage", damage).close(),
            None => object.close(),
        }
    });
    let spoken = reading.and_then(|reading| reading.keys);
    let estimate = spoken.map(|keys| keys.estimate);
    let secret = description.secret.map_or_else(|| "null".into(), |id| json::text(&id.to_string()));
    let agree = description.sentinels_agree.map_or("null", |agree| if agree { "true" } else { "false" });
    Object::default()
        .text("path", path.to_string_lossy())
        .text("kind", description.kind.name())
        .text("guarantee", description.kind.guarantee().to_string())
        .whole("counted", description.len)
        .whole("capacity", description.capacity)
        .whole("remaining", description.capacity.saturating_sub(description.len))
        .text("when_full", when_full_name(description.when_full))
        .number("promised_rate", description.rate)
        .number("expected_rate", description.expected_rate)
        .maybe_number("estimated_rate", spoken.map(|keys| keys.rate))
        .maybe_number("approximate_count", estimate.map(|estimate| estimate.value))
        .maybe_number("approximate_count_low", estimate.map(|estimate| estimate.low))
        .maybe_number("approximate_count_high", estimate.and_then(|estimate| estimate.high))
        .maybe_number("fill_ratio", reading.filter(|_| spoken.is_some()).map(|reading| reading.fill))
        .whole("filter_bytes", description.size_in_bytes)
        .whole("file_bytes", description.file_len)
        .number("bits_per_key", bits_per_key(description, reading))
        .flag("compressed", description.compressed)
        .text("contract", hash(description))
        .text("hash", description.algorithm.name())
        .text("keys", description.encoding.to_string())
        .whole("seed", description.seed)
        .raw("secret_id", &secret)
        .whole("format_version", description.format_version.into())
        .text("address", description.address.to_string())
        .flag("intact", description.is_intact())
        .raw("sentinels_agree", agree)
        .raw("parts", &json::list(parts))
        .raw("sections", &json::list(sections))
        .close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate::{AnyFilter, Blocked, Classic, Counting, Partitioned, Scalable};

    #[test]
    fn the_bits_say_here_what_they_say_in_the_library() {
        let dir = tempfile::tempdir().unwrap();
        let filters: [AnyFilter; 6] = [
            Blocked::builder().items(20_000).rate(0.01).build().unwrap().into(),
            Blocked::builder().items(20_000).rate(1e-6).build().unwrap().into(),
            Classic::builder().items(20_000).rate(0.01).build().unwrap().into(),
            Partitioned::builder().items(20_000).rate(0.01).build().unwrap().into(),
            Counting::builder().items(20_000).rate(0.01).build().unwrap().into(),
            Scalable::builder().items(1_000).rate(0.01).build().unwrap().into(),
        ];
        for mut filter in filters {
            let keys: Vec<u64> = (0..15_000).collect();
            let keys: Vec<String> = keys.iter().map(u64::to_string).collect();
            filter.insert_batch(&keys).unwrap();
            let path = dir.path().join("filter");
            filter.save(&path).unwrap();
            let reading = read_bits(&path, &inspect(&path).unwrap()).unwrap();
            let spoken = reading.keys.unwrap();
            let close = |a: f64, b: f64| (a - b).abs() <= 0.02 * b;
            let count = filter.approximate_count();
            assert!((reading.fill - filter.fill_ratio()).abs() < 1e-12, "{:?}", filter.kind());
            assert!(close(spoken.estimate.value, count.value), "{:?} {count:?}", spoken.estimate);
            assert!(close(spoken.estimate.high.unwrap(), count.high.unwrap()), "{:?}", filter.kind());
            let rate = filter.estimated_rate().unwrap();
            // Here from the fill of the whole, there line by line: 400 lines differ from their mean by 4 % of the rate.
            assert!((spoken.rate / rate - 1.0).abs() < 0.1, "{} {} {rate}", filter.kind(), spoken.rate);
        }
    }
}
