//! `bloomgate dedup`: every line the first time it comes, in order, as it comes: `uniq` without sorting.

mod seen;
mod store;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use bloomgate::bloom::rotating::DEFAULT_GENERATIONS;
use bloomgate::{
    AnyFilter, Blocked, Classic, Contract, Cuckoo, ErrorKind, GrowingCuckoo, Kind, OpenOptions, Partitioned, Quotient,
    Rotating, Scalable, Secret, Stable, WhenFull,
};

use crate::digest;
use crate::failure::{DONE, Failure, Outcome};
use crate::file;
use crate::json::Object;
use crate::keys::{Block, Reading, Source};
use crate::number;
use crate::screen::{self, WARN, paint};
use seen::{Clock, Seen};
use store::Store;

/// The rate when none is asked for: a wrong "maybe" is a lost line, so one in a million.
const RATE: f64 = 1e-6;
/// The same when every maybe is looked up: it costs a lookup and loses nothing.
const EXACT_RATE: f64 = 0.01;
/// Lines of the first stage of a chain, or of a window, when nobody says how many: 4.2 MB at one in a million.
const FIRST: u64 = 1_000_000;

/// Print every line the first time it comes: uniq without sorting
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate dedup access.log > different.log
  tail -f urls.log | bloomgate dedup --window 1h       once an hour at most
  bloomgate dedup --filter seen.bloom today.txt        only what is new today
  bloomgate dedup --exact sqlite:seen.db crawl.txt     no line is ever lost
  cat */*.log | bloomgate dedup --memory 64MB          however much comes
  bloomgate dedup -d names.txt                         what came before

Lines are printed in the order in which they come, and in a pipe as soon as they come. An empty line is a line here, as if --keep-empty were given.

What may go wrong: a filter says \"maybe\" of --rate of the new lines (one in a million unless said otherwise), and \
such a line is lost. At the end it is told how many lines are expected to have been lost that way, and the chance that \
any was. --exact looks every maybe up in a file that keeps the lines, so that none is lost: the output is then exactly \
that of awk '!seen[$0]++'.

Which filter: a chain that grows (scalable), so that nobody has to know how many lines there are. With --items another \
--kind may be smaller and faster. --window keeps a line for a time (1.25 times that at most), --window-lines for so \
many lines; a line is a repeat if it came within the window, printed or not, and --items is how many different ones \
come in one (1M unless said otherwise; when more come, the rate rises, and it is told). --memory is a filter of fixed \
size that forgets: repeats from long ago are printed again, and how far back it remembers for certain is told.

--filter goes on from a file and saves it at the end (atomically): what an earlier run printed is then a repeat. It \
is made if it is not there, with the options given; later they may be given again. Two runs that go on from one \
filter take turns. When a reader goes away (| head) nothing is saved, since lines that nobody read must come again.

Exit codes: 0 done, 2 error.")]
pub struct Args {
    /// Files of lines; - or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// scalable or growing-cuckoo (grow); blocked, classic, partitioned, cuckoo or quotient (need --items)
    /// [default: scalable]
    #[arg(long, value_parser = kind, conflicts_with_all = ["window", "window_lines", "memory"])]
    kind: Option<Kind>,
    /// How many different lines there will be, such as 10M; of a kind that grows, where it begins
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true, conflicts_with = "memory")]
    items: Option<u64>,
    /// The share of new lines that may be taken for repeats and lost [default: 1e-6; 0.01 with --exact]
    #[arg(long, value_name = "P", value_parser = number::rate, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// A line is a repeat only if it came within this time, such as 90s, 15min, 36h or 7d
    #[arg(long, value_name = "TIME", value_parser = number::period, conflicts_with = "window_lines")]
    window: Option<Duration>,
    /// A line is a repeat only if it was among the last N lines
    #[arg(long, value_name = "N", value_parser = number::count, conflicts_with = "items")]
    window_lines: Option<u64>,
    /// Use no more memory than this, such as 64MB, and forget what came long ago
    #[arg(long, value_name = "SIZE", value_parser = number::size, conflicts_with_all = ["window", "window_lines"])]
    memory: Option<u64>,
    /// Go on from this filter and save it at the end; made if it is not there
    #[arg(long, value_name = "FILTER")]
    filter: Option<PathBuf>,
    /// Look every maybe up among the lines themselves, kept in sqlite:FILE (made, or gone on with): nothing is lost
    #[arg(long, value_name = "STORE", conflicts_with_all = ["filter", "window", "window_lines", "memory", "secret_file"])]
    exact: Option<String>,
    /// Print the repeats instead
    #[arg(short = 'd', long)]
    repeated: bool,
    /// Print only how many lines would be printed
    #[arg(short, long)]
    count: bool,
    /// The secret of a keyed filter: for lines that strangers write
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Tell what was done as a JSON object: on standard error, or with --count on standard output
    #[arg(long)]
    json: bool,
    /// Do not tell what was done
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    reading: Reading,
}

fn kind(text: &str) -> Result<Kind, String> {
    const KINDS: [Kind; 7] = [
        Kind::Scalable,
        Kind::GrowingCuckoo,
        Kind::Blocked,
        Kind::Classic,
        Kind::Partitioned,
        Kind::Cuckoo,
        Kind::Quotient,
    ];
    match text.parse() {
        Ok(kind) if KINDS.contains(&kind) => Ok(kind),
        Ok(Kind::Rotating) => Err("a rotating filter is what --window TIME and --window-lines N use".into()),
        Ok(Kind::Stable) => Err("a stable filter is what --memory SIZE uses".into()),
        _ => Err(format!("{text:?} is none of {}", KINDS.map(Kind::name).join(", "))),
    }
}

/// Lines so far.
#[derive(Default)]
struct Tally {
    read: u64,
    repeats: u64,
}

impl Tally {
    fn printed(&self, args: &Args) -> u64 {
        if args.repeated { self.repeats } else { self.read - self.repeats }
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let sources = Source::all(&args.files);
    if sources.iter().filter(|&source| *source == Source::Stdin).count() > 1 {
        return Err(Failure::Message("standard input (-) is named more than once: it can be read once".into()));
    }
    // From the first line to the last: another run that went on from the same filter would print the same lines, and one
    // of the two would lose what it saw.
    let _lock = match &args.filter {
        Some(path) => {
            let secret_file = args.secret_file.iter().cloned().map(Source::File);
            file::check_target(path, &sources.iter().cloned().chain(secret_file).collect::<Vec<_>>())?;
            file::lock(path)?
        }
        None => None,
    };
    let mut seen = begin(args, &sources)?;
    let mut tally = Tally::default();
    stream(args, &sources, &mut seen, &mut tally)?;
    if args.count {
        let mut out = std::io::stdout().lock();
        if !args.json {
            writeln!(out, "{}", tally.printed(args))?;
        }
        out.flush()?;
    }
    if let Some(store) = &mut seen.store {
        store.write(true)?;
    }
    if let Some(path) = &args.filter {
        file::save_locked(&seen.filter, path, false)?;
    }
    report(args, &tally, &mut seen)?;
    Ok(DONE)
}

fn stream(args: &Args, sources: &[Source], seen: &mut Seen, tally: &mut Tally) -> Result<(), Failure> {
    let mut reading = args.reading.clone();
    reading.cut.keep_empty = true;
    let separator = reading.cut.separator();
    let (mut block, mut repeats, mut out) = (Block::default(), Vec::new(), Vec::new());
    for source in sources {
        let mut stream = reading.open(source)?;
        while stream.next(&mut block)? {
            let keys = block.keys();
            seen.see(&keys, &mut repeats)?;
            tally.read += repeats.len() as u64;
            tally.repeats += repeats.iter().filter(|&&repeat| repeat).count() as u64;
            if !args.count {
                out.clear();
                for (key, _) in keys.keys.iter().zip(&repeats).filter(|&(_, &repeat)| repeat == args.repeated) {
                    out.extend_from_slice(key);
                    out.push(separator);
                }
                if !out.is_empty() {
                    let mut stdout = std::io::stdout().lock();
                    stdout.write_all(&out)?;
                    stdout.flush()?;
                }
            }
            // After they were printed: what is written here is never printed again.
            if let Some(store) = &mut seen.store {
                store.write(false)?;
            }
        }
        if let Some(skipped) = stream.skipped() {
            screen::note(skipped);
        }
    }
    Ok(())
}

/// The filter to begin with.
fn begin(args: &Args, sources: &[Source]) -> Result<Seen, Failure> {
    let secret = args.secret_file.as_deref().map(Secret::read_file).transpose()?;
    let clock = match (args.window, args.window_lines) {
        (Some(_), _) => Clock::Real(SystemTime::now(), Instant::now()),
        (_, Some(_)) => Clock::Lines,
        _ => Clock::Still,
    };
    if let Some(place) = &args.exact {
        let path = Store::path(place)?;
        file::check_target(path, sources)?;
        let (store, count) = Store::open(path)?;
        let mut filter = empty(args, count, Contract::xxh3())?;
        store.each(|line| Ok(filter.insert(line).map(|_| ())?))?;
        return Seen::new(filter, Some(store), clock);
    }
    if let Some(path) = args.filter.as_deref().filter(|path| path.exists()) {
        return Seen::new(go_on(args, path, secret.as_ref())?, None, clock);
    }
    let contract = secret.as_ref().map_or(Contract::xxh3(), Contract::keyed);
    Seen::new(empty(args, 0, contract)?, None, clock)
}

/// The filter of an earlier run, if it is what was asked for.
fn go_on(args: &Args, path: &Path, secret: Option<&Secret>) -> Result<AnyFilter, Failure> {
    let options = match secret {
        Some(secret) => OpenOptions::new().secret(secret),
        None => OpenOptions::new(),
    };
    let filter = AnyFilter::open_with(path, &options).map_err(|error| match error.kind() {
        ErrorKind::Secret if secret.is_none() => Failure::Message(format!("{error}, with --secret-file FILE")),
        _ => error.into(),
    })?;
    digest::refuse_given(filter.contract())?;
    let asked = match args {
        Args { window: Some(_), .. } | Args { window_lines: Some(_), .. } => Some(Kind::Rotating),
        Args { memory: Some(_), .. } => Some(Kind::Stable),
        Args { kind, .. } => *kind,
    };
    let differs = |what: &str, was: String, asked: String| {
        Err(Failure::at(
            path,
            format!("it was made with {what} {was}, not {asked}: leave that option out, or name another file"),
        ))
    };
    let kind = filter.kind();
    if let Some(asked) = asked.filter(|asked| *asked != kind) {
        return differs("the kind", kind.to_string(), asked.to_string());
    }
    if !kind.takes_inserts() {
        return Err(Failure::at(path, format!("a {kind} filter is built once and takes no more lines")));
    }
    let promised = filter.promised_rate();
    if let Some(rate) = args.rate.filter(|rate| (rate - promised).abs() > 1e-9 * promised) {
        return differs("the rate", promised.to_string(), rate.to_string());
    }
    if let AnyFilter::Rotating(ring) = &filter {
        let asked = args.window.or(args.window_lines.map(Duration::from_millis));
        match asked {
            Some(asked) if asked != ring.window() => {
                return differs("a window of", number::duration(ring.window()), number::duration(asked));
            }
            Some(_) => {}
            None => {
                return Err(Failure::at(
                    path,
                    format!(
                        "it keeps a window of {}: give that again with --window (or --window-lines), which says what the \
                         clock is",
                        number::duration(ring.window())
                    ),
                ));
            }
        }
    }
    Ok(filter)
}

/// An empty filter of the kind that was asked for, with room for the lines that are there.
fn empty(args: &Args, there: u64, contract: Contract) -> Result<AnyFilter, Failure> {
    let rate = args.rate.unwrap_or(if args.exact.is_some() { EXACT_RATE } else { RATE });
    if let Some(bytes) = args.memory {
        return Ok(Stable::builder().bytes(bytes).rate(rate).contract(contract).build()?.into());
    }
    if let Some(window) = args.window.or(args.window_lines.map(Duration::from_millis)) {
        let items = args.window_lines.or(args.items).unwrap_or(FIRST);
        // A window's lines may come all at once, and then into one generation of it: each has room for all of them.
        // Lines that are counted spread evenly.
        let headroom = if args.window.is_some() { f64::from(DEFAULT_GENERATIONS) } else { 1.0 };
        let ring = Rotating::builder().window(window).items(items).headroom(headroom).rate(rate);
        return Ok(ring.contract(contract).build()?.into());
    }
    let kind = args.kind.unwrap_or(Kind::Scalable);
    let items = match args.items {
        Some(items) => items.max(there),
        None if matches!(kind, Kind::Scalable | Kind::GrowingCuckoo) => FIRST.max(there),
        None => {
            return Err(Failure::Message(format!(
                "a {kind} filter has a fixed size: say with --items how many different lines there will be, or leave \
                 --kind out for one that grows"
            )));
        }
    };
    macro_rules! build {
        ($filter:ident, $when_full:ident) => {
            $filter::builder()
                .items(items)
                .rate(rate)
                .when_full(WhenFull::$when_full)
                .contract(contract)
                .build()?
                .into()
        };
    }
    Ok(match kind {
        Kind::GrowingCuckoo => build!(GrowingCuckoo, Grow),
        Kind::Blocked => build!(Blocked, GoOn),
        Kind::Classic => build!(Classic, GoOn),
        Kind::Partitioned => build!(Partitioned, GoOn),
        Kind::Cuckoo => build!(Cuckoo, Refuse),
        Kind::Quotient => build!(Quotient, GoOn),
        _ => build!(Scalable, Grow),
    })
}

/// Fewer lines than this are none to speak of, and lower chances are told in words.
const NEARLY_NONE: f64 = 1e-3;
const SLIGHT: f64 = 1e-5;

/// Above this rate so few lines are certainly new that those which were lost cannot be worked out from them any more.
const SATURATED: f64 = 0.9;

/// A chance in percent, or how slight it is.
fn chance_in_words(chance: f64) -> String {
    match chance {
        SLIGHT.. => number::percent(chance),
        1e-6.. => "below one in 100,000".into(),
        1e-9.. => "below one in a million".into(),
        _ => "below one in a billion".into(),
    }
}

fn report(args: &Args, tally: &Tally, seen: &mut Seen) -> Result<(), Failure> {
    if args.quiet && !(args.json && args.count) {
        return Ok(());
    }
    let mut lost = if seen.store.is_some() { 0.0 } else { seen.expected_lost()? };
    // A full filter drops nearly every line, and nobody knows how many of them wrongly: no more than were dropped.
    if seen.highest_rate() > SATURATED {
        lost = lost.min(tally.repeats as f64);
    }
    let chance = -f64::exp_m1(-lost);
    let (filter, new) = (&seen.filter, tally.read - tally.repeats);
    // A twentieth more is the noise of the count that the rate is worked out from.
    let (highest, promised) = (seen.highest_rate(), filter.promised_rate());
    let above = highest > promised * 1.05;
    if args.json {
        let mut object = Object::default()
            .whole("read", tally.read)
            .whole("printed", tally.printed(args))
            .whole("new", new)
            .whole("repeats", tally.repeats)
            .text("kind", filter.kind().name())
            .whole("filter_bytes", filter.size_in_bytes())
            .number("promised_rate", promised)
            .number("highest_rate", highest)
            .flag("rate_is_kept", !above)
            .flag("exact", seen.store.is_some())
            .number("expected_lost", lost)
            .flag("expected_lost_is_lower_bound", highest > SATURATED)
            .number("chance_of_any_lost", chance);
        if let Some(store) = &seen.store {
            object = object.whole("looked_up", store.looked_up).whole("false_maybes", store.saved);
        }
        if let AnyFilter::Stable(stable) = filter {
            object = object.whole("remembers", stable.capacity());
        }
        let object = object.close();
        if args.count {
            writeln!(std::io::stdout().lock(), "{object}")?;
        } else {
            screen::tell(object);
        }
        return Ok(());
    }
    let (new, repeats) = (number::grouped(new), number::counted(tally.repeats, "repeat"));
    screen::tell(format_args!(
        "{} read: {}",
        number::counted(tally.read, "line"),
        match args.repeated {
            false => format!("{new} new, {repeats} dropped"),
            true => format!("{repeats} printed, {new} new"),
        }
    ));
    match &seen.store {
        Some(store) => screen::tell(format_args!(
            "new lines lost: none ({} looked up, {} false)",
            number::counted(store.looked_up, "maybe"),
            number::grouped(store.saved),
        )),
        None => screen::tell(format_args!(
            "new lines lost: {} expected, chance of any {} ({}, {})",
            match lost {
                ..NEARLY_NONE => "none".into(),
                _ if highest > SATURATED => format!("at least {}", number::many(lost)),
                _ => number::many(lost),
            },
            chance_in_words(chance),
            filter.kind(),
            number::bytes(filter.size_in_bytes()),
        )),
    }
    if let AnyFilter::Stable(stable) = filter
        && tally.read > stable.capacity()
    {
        screen::tell(format_args!(
            "{} the memory is enough to remember the last {} for certain; repeats from before may have been taken for new",
            paint(WARN, "note:"),
            number::counted(stable.capacity(), "line"),
        ));
    }
    if above && seen.store.is_none() {
        screen::tell(format_args!(
            "{} more different lines came than the filter is for: its rate rose to {} ({} promised); give a larger \
             --items{}",
            paint(WARN, "warning:"),
            number::percent(highest),
            number::percent(promised),
            if filter.kind() == Kind::Rotating { "" } else { ", or leave --kind out for one that grows" },
        ));
    }
    Ok(())
}
