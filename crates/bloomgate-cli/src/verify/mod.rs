//! `bloomgate verify`: the two sentences, proven on a filter and its keys. A "no" is never wrong: every key is asked for.
//! A "maybe" costs what was promised: the rate is measured on keys that are certainly absent.

mod absent;

use std::collections::HashSet;
use std::io::Write;
use std::path::PathBuf;

use bloomgate::foreign::Form;
use bloomgate::kind::Guarantee;
use bloomgate::math::estimate::{rate_interval, within};
use bloomgate::{Contract, Digest, Kind};

use crate::digest;
use crate::failure::{DONE, ERROR, Failure, NONE, Outcome};
use crate::file::{self, Opened};
use crate::json::{Object, list};
use crate::keys::{Block, Keys, Reading, Source, bytes_of};
use crate::number;
use crate::progress::Progress;
use crate::screen::{self, STRONG, WARN, paint};
use absent::Lookalikes;

/// Missing keys and refused keys that are shown.
const MOST_SHOWN: usize = 10;
/// Hits that a measurement needs for an interval of a tenth to either side, two standard deviations wide.
const HITS: f64 = 400.0;
/// Absent keys that are generated at least, and at most unless more are asked for.
const PROBES: (u64, u64) = (100_000, 2_000_000);
/// Absent keys asked at once.
const BATCH: u64 = 8192;
/// Normal deviates of the interval (99 %), and beyond which a rate is no chance any more: three runs in a million.
const CONFIDENCE: f64 = 2.576;
const BEYOND_CHANCE: f64 = 4.5;

/// Prove that a filter has every key of a source, and measure its rate
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate verify urls.bloom urls.txt
  bloomgate verify urls.bloom urls.txt --absent other-urls.txt
  bloomgate verify ids.bloom --json < ids.txt

Three things are looked at. The file: every checksum. The keys: each key of the source is asked for, and one that is \
answered \"no\" is shown with its place. The rate: keys that are certainly absent are asked for, either your own \
(--absent; those that are in the source do not count) or generated ones, which look like the keys of the source \
(letters and digits drawn anew; short keys are made longer) and are always the same for one --seed. The share of them \
that gets a \"maybe\" is given with its 99 % interval; it is above the promise when chance would bring that about \
three times in a million, the luck of a small filter with its own few keys included.

The files of BFv1, Guava, Parquet and RedisBloom's cuckoo filters do not say what rate was promised: theirs is held \
against what is expected of their bits, or against --rate.

The filter may hold more keys than the source has: those keys look like false positives if --absent names them.

Exit codes: 0 no key is missing and the rate is kept, 1 a key is missing or the rate is above the promise, 2 error \
(a damaged file is one: file, chunk and offset are told; a source without keys is another).")]
pub struct Args {
    /// The filter
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// Files of the keys that it was built from; - or none is standard input
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// Measure the rate on the keys of this file, which are not in the filter; may be given several times
    #[arg(long, value_name = "FILE", conflicts_with_all = ["probes", "seed"])]
    absent: Vec<PathBuf>,
    /// How many absent keys to generate [default: what measures the promised rate within a tenth, 100,000 to 2M]
    #[arg(long, value_name = "N", value_parser = number::count)]
    probes: Option<u64>,
    /// The rate that it has to keep [default: what the file says was promised]
    #[arg(long, value_name = "P", value_parser = number::rate, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Generate other absent keys
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Read the filter as the form of another system: bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long,
    /// guava:bytes, parquet, parquet:u64 ... (the first three are recognised)
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Print the findings as a JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar and no report: only the exit code tells
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    reading: Reading,
}

/// What was found out about the keys of the source.
#[derive(Default)]
struct Found {
    keys: u64,
    missing: u64,
    /// The first missing keys: where, and what.
    shown: Vec<(String, String)>,
    refused: u64,
}

/// Absent keys that were asked for.
#[derive(Default)]
struct Absent {
    /// Different ones.
    all: HashSet<Digest>,
    /// Those that got a "maybe".
    maybes: HashSet<Digest>,
    /// Those of them that are in the source after all.
    in_source: u64,
}

impl Absent {
    /// Asks for keys; those that came before count once.
    fn ask(&mut self, filter: &Opened, digests: &[Digest]) -> Result<(), Failure> {
        let new: Vec<Digest> = digests.iter().copied().filter(|&digest| self.all.insert(digest)).collect();
        let mut answers = vec![false; new.len()];
        filter.contains_digests(&new, &mut answers)?;
        self.maybes.extend(new.into_iter().zip(answers).filter(|(_, maybe)| *maybe).map(|(digest, _)| digest));
        Ok(())
    }

    /// How many absent keys there were, and how many of them got a "maybe". A key of the source that got a "no" is a
    /// missing key, and told as such.
    fn measured(&self) -> (u64, u64) {
        (self.all.len() as u64 - self.in_source, self.maybes.len() as u64)
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let sources = Source::all(&args.sources);
    let absents: Vec<Source> = args.absent.iter().map(|path| Source::of(path)).collect();
    if sources.iter().chain(&absents).filter(|&source| *source == Source::Stdin).count() > 1 {
        return Err(Failure::Message("standard input (-) is named more than once: it can be read once".into()));
    }
    let filter = file::open(&args.filter, args.form, args.secret_file.as_deref())?;
    digest::refuse_given(filter.contract())?;
    if let Opened::InPlace(mapped) = &filter {
        let progress = Progress::new("checksums", Some(mapped.size_in_bytes()), args.quiet);
        let mut before = 0;
        mapped
            .verify_all(|done, total| {
                let bytes = (mapped.size_in_bytes() as f64 * done as f64 / total.max(1) as f64) as u64;
                progress.advance(bytes.saturating_sub(before));
                before = bytes;
            })
            .map_err(|error| Failure::at(&args.filter, error))?;
    }
    let mut absent = Absent::default();
    let mut found = Found::default();
    ask_given(args, &filter, &absents, &mut absent, &mut found)?;
    ask_source(args, &filter, &sources, &mut absent, &mut found)?;
    if found.refused > MOST_SHOWN as u64 {
        let more = number::counted(found.refused - MOST_SHOWN as u64, "more key");
        screen::complain(format_args!("{more} cannot be read in the filter's encoding"));
    }
    // "None missing" of none is no proof, and a list that is empty by mistake must not pass for one.
    if found.keys + found.refused == 0 {
        return Err(Failure::Message(
            "the source has no keys: nothing is proven by it; give the keys of the filter".into(),
        ));
    }
    let report = Report::new(args, &filter, &absent, &found)?;
    report.print()?;
    Ok(match report.is_good() {
        _ if found.refused > 0 => ERROR,
        true => DONE,
        false => NONE,
    })
}

/// The digests of keys; those that are none of the filter's are told of.
fn digests_of(
    contract: &Contract,
    keys: &Keys<'_>,
    found: &mut Found,
    digests: &mut Vec<Digest>,
    places: &mut Vec<usize>,
) {
    digests.clear();
    places.clear();
    if digest::takes_bytes(contract) {
        digests.extend(keys.keys.iter().map(|key| contract.digest_bytes(key)));
        places.extend(0..keys.keys.len());
        return;
    }
    let mut scratch = Vec::new();
    for (at, key) in keys.keys.iter().enumerate() {
        match digest::digest(contract, key, &mut scratch) {
            Ok(digest) => {
                digests.push(digest);
                places.push(at);
            }
            Err(why) => {
                found.refused += 1;
                if found.refused <= MOST_SHOWN as u64 {
                    screen::complain(format_args!("{}: {why}", keys.place(at)));
                }
            }
        }
    }
}

/// Asks for the absent keys that were given.
fn ask_given(
    args: &Args,
    filter: &Opened,
    sources: &[Source],
    absent: &mut Absent,
    found: &mut Found,
) -> Result<(), Failure> {
    let (mut digests, mut places, mut block) = (Vec::new(), Vec::new(), Block::default());
    for source in sources {
        let mut stream = args.reading.open(source)?;
        while stream.next(&mut block)? {
            digests_of(filter.contract(), &block.keys(), found, &mut digests, &mut places);
            absent.ask(filter, &digests)?;
        }
        if let Some(skipped) = stream.skipped() {
            screen::note(skipped);
        }
    }
    if !sources.is_empty() && absent.all.is_empty() {
        return Err(Failure::Message("the files of --absent have no keys: the rate cannot be measured".into()));
    }
    Ok(())
}

/// Generates absent keys like the first of the source, and asks for them.
fn ask_generated(args: &Args, filter: &Opened, samples: &[&[u8]], absent: &mut Absent) -> Result<(), Failure> {
    let needed =
        (HITS / promised(args, filter).unwrap_or(filter.promised_rate()).max(1e-15)).ceil().min(PROBES.1 as f64) as u64;
    let probes = args.probes.unwrap_or(needed.max(PROBES.0));
    let contract = filter.contract();
    let mut lookalikes = Lookalikes::new(samples, contract.encoding(), args.seed);
    let (mut digests, mut scratch) = (Vec::new(), Vec::new());
    // Some of them are no keys of the encoding, or came before: not for ever.
    let mut tries = probes.saturating_mul(4).saturating_add(1000);
    while (absent.all.len() as u64) < probes && tries > 0 {
        digests.clear();
        for _ in 0..BATCH.min(probes - absent.all.len() as u64) {
            tries = tries.saturating_sub(1);
            let key = lookalikes.next();
            if digest::takes_bytes(contract) {
                digests.push(contract.digest_bytes(&key));
            } else if let Ok(digest) = digest::digest(contract, &key, &mut scratch) {
                digests.push(digest);
            }
        }
        absent.ask(filter, &digests)?;
    }
    if absent.all.is_empty() && probes > 0 {
        return Err(Failure::Message(format!(
            "no absent keys could be made for the encoding {}: give some with --absent FILE",
            contract.encoding()
        )));
    }
    Ok(())
}

/// Asks for every key of the source; absent keys that are among them are absent no more.
fn ask_source(
    args: &Args,
    filter: &Opened,
    sources: &[Source],
    absent: &mut Absent,
    found: &mut Found,
) -> Result<(), Failure> {
    let progress = Progress::new("asking", bytes_of(sources)?, args.quiet);
    let mut generate = args.absent.is_empty();
    let (mut digests, mut places, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    let mut block = Block::default();
    for source in sources {
        let mut stream = args.reading.open(source)?;
        while stream.next(&mut block)? {
            let keys = block.keys();
            if !keys.keys.is_empty() && std::mem::take(&mut generate) {
                ask_generated(args, filter, &keys.keys, absent)?;
            }
            digests_of(filter.contract(), &keys, found, &mut digests, &mut places);
            answers.clear();
            answers.resize(digests.len(), false);
            filter.contains_digests(&digests, &mut answers)?;
            found.keys += digests.len() as u64;
            for (at, _) in answers.iter().enumerate().filter(|(_, maybe)| !**maybe) {
                found.missing += 1;
                if found.shown.len() < MOST_SHOWN {
                    found.shown.push((keys.place(places[at]), readable(keys.keys[places[at]])));
                }
            }
            // Only what got a "maybe" has to be looked for: a few keys, however many were asked.
            for digest in &digests {
                if absent.maybes.remove(digest) {
                    absent.in_source += 1;
                }
            }
            progress.advance(block.consumed());
        }
        if let Some(skipped) = stream.skipped() {
            screen::note(skipped);
        }
    }
    if generate {
        ask_generated(args, filter, &[], absent)?;
    }
    Ok(())
}

/// A key for people: as text, with what cannot be shown escaped, and not endless.
fn readable(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(&key[..key.len().min(200)]);
    format!("{:?}{}", text, if key.len() > 200 { "..." } else { "" })
}

/// Everything that was found out.
struct Report<'a> {
    args: &'a Args,
    filter: &'a Opened,
    found: &'a Found,
    trials: u64,
    hits: u64,
    in_source: u64,
    /// Nothing when neither the file nor the user says.
    promised: Option<f64>,
    expected: f64,
}

/// The rate that a filter has to keep, if anybody says.
fn promised(args: &Args, filter: &Opened) -> Option<f64> {
    let silent = matches!(filter.kind(), Kind::BfV1 | Kind::Guava | Kind::Parquet | Kind::RedisCuckoo);
    args.rate.or_else(|| (!silent).then(|| filter.promised_rate()))
}

impl<'a> Report<'a> {
    fn new(args: &'a Args, filter: &'a Opened, absent: &Absent, found: &'a Found) -> Result<Self, Failure> {
        let (trials, hits) = absent.measured();
        let (promised, expected) = (promised(args, filter), filter.expected_rate()?);
        Ok(Self { args, filter, found, trials, hits, in_source: absent.in_source, promised, expected })
    }

    fn rate(&self) -> f64 {
        self.hits as f64 / self.trials.max(1) as f64
    }

    /// Whether the rate is no more than was promised, as far as chance lets one say.
    fn rate_is_kept(&self) -> bool {
        let most = self.promised.unwrap_or(self.expected);
        self.may_come_from(0.0, most * (1.0 + self.luck(most)))
    }

    /// Whether the rate is that which the filter is expected to have, neither more nor less.
    fn rate_is_expected(&self) -> bool {
        let luck = self.luck(self.expected);
        self.may_come_from(self.expected * (1.0 - luck).max(0.0), self.expected * (1.0 + luck))
    }

    /// Whether some rate from `low` to `high` shows what was measured, as far as chance lets one say.
    fn may_come_from(&self, low: f64, high: f64) -> bool {
        (low..=high).contains(&self.rate())
            || within(self.hits, self.trials, self.rate().clamp(low, high), BEYOND_CHANCE)
    }

    /// By how much the rate of one filter may differ from that of its kind, since its keys fell luckily or not: 4.5
    /// standard deviations, which are a tenth of ln(1/rate) over the root of its cache lines. Measured on blocked
    /// filters of 10 to 62 lines at 5 % to 0.1 %, whose lines fill unevenly; the other kinds differ less. A third for
    /// 2,000 keys at 1 %, a hundredth for two million.
    fn luck(&self, rate: f64) -> f64 {
        let lines = (self.filter.size_in_bytes() as f64 / 64.0).max(1.0);
        BEYOND_CHANCE * 0.1 * rate.clamp(1e-15, 1.0).recip().ln() / lines.sqrt()
    }

    fn is_good(&self) -> bool {
        self.found.missing == 0 && self.rate_is_kept()
    }

    fn print(&self) -> Result<(), Failure> {
        let Self { args, found, .. } = self;
        if args.quiet {
            return Ok(());
        }
        let (low, high) = rate_interval(self.hits, self.trials, CONFIDENCE);
        let mut out = anstream::stdout().lock();
        if args.json {
            let shown = found.shown.iter().map(|(place, key)| Object::default().text("place", place).text("key", key));
            let object = Object::default()
                .text("path", args.filter.to_string_lossy())
                .text("kind", self.filter.kind().name())
                .whole("filter_bytes", self.filter.size_in_bytes())
                .whole("keys", found.keys)
                .whole("missing", found.missing)
                .raw("first_missing", &list(shown.map(Object::close)))
                .whole("refused", found.refused)
                .text("absent_keys_are", if args.absent.is_empty() { "generated" } else { "given" })
                .whole("absent_keys", self.trials)
                .whole("absent_keys_in_source", self.in_source)
                .whole("false_positives", self.hits)
                .number("rate", self.rate())
                .number("rate_low", low)
                .number("rate_high", high)
                .maybe_number("promised_rate", self.promised)
                .number("expected_rate", self.expected)
                .flag("rate_is_expected", self.rate_is_expected())
                .flag("rate_is_kept", self.rate_is_kept())
                .flag("ok", self.is_good() && found.refused == 0);
            writeln!(out, "{}", object.close())?;
            out.flush()?;
            return Ok(());
        }
        writeln!(
            out,
            "{}: {} filter of {}, every checksum right",
            args.filter.display(),
            self.filter.kind(),
            number::bytes(self.filter.size_in_bytes())
        )?;
        let keys = number::counted(found.keys, "key");
        match found.missing {
            0 => writeln!(out, "{} {keys} asked, none missing: no false negative", verdict(true))?,
            missing => writeln!(out, "{} {keys} asked, {} missing:", verdict(false), number::grouped(missing))?,
        }
        for (place, key) in &found.shown {
            writeln!(out, "     {place}: {key}")?;
        }
        if found.missing > 0 && self.filter.guarantee() != Guarantee::Superset {
            writeln!(out, "     a {} filter forgets: these may have been there once", self.filter.kind())?;
        }
        writeln!(
            out,
            "{} rate {} (99 % interval: {} to {})\n     {} of {}",
            verdict(self.rate_is_kept()),
            number::percent(self.rate()),
            number::percent(low),
            number::percent(high),
            number::counted(self.hits, "maybe"),
            number::counted(self.trials, if args.absent.is_empty() { "generated absent key" } else { "absent key" }),
        )?;
        let measured = match (self.rate_is_kept(), self.rate_is_expected()) {
            (false, _) if self.promised.is_none() => "above it, and not by chance",
            (false, _) => "above the promise, and not by chance",
            (true, true) => "as expected",
            (true, false) if self.rate() > self.expected => {
                "kept, and more than expected: are some of them in the filter?"
            }
            (true, false) => "kept, and less than expected",
        };
        let expected = number::percent(self.expected);
        match self.promised {
            Some(rate) => writeln!(out, "     promised {}, expected {expected}: {measured}", number::percent(rate))?,
            None => writeln!(out, "     expected {expected}: {measured}")?,
        }
        if self.in_source > 0 {
            writeln!(
                out,
                "     {} in the source and did not count",
                match self.in_source {
                    1 => "1 more is".into(),
                    more => format!("{} more are", number::grouped(more)),
                }
            )?;
        }
        out.flush()?;
        Ok(())
    }
}

fn verdict(good: bool) -> String {
    if good { paint(STRONG, "  ok") } else { paint(WARN, "FAIL") }
}
