//! `bloomgate build`: from keys in files or on standard input to a filter in a file.
//!
//! A filter is sized before the first key goes in. When nobody says how many keys there are, files are read twice (the
//! first time to count), and a pipe is kept in memory as digests, 16 bytes a key, until it ends.

use std::io::Write;
use std::path::PathBuf;

use bloomgate::foreign::{BfV1, Form, Guava, Parquet, RedisBloom, RedisCuckoo};
use bloomgate::hash::Algorithm;
use bloomgate::{AnyFilter, Blocked, Classic, Contract, Counting, Cuckoo, Digest, Encoding, Fuse, GrowingCuckoo, Kind};
use bloomgate::{Partitioned, Quotient, Ribbon, Scalable, Secret, WhenFull};

use crate::digest;
use crate::failure::{DONE, Failure, Outcome};
use crate::file;
use crate::json::Object;
use crate::keys::{self, Block, Keys, Reading, SOURCES, Source};
use crate::number;
use crate::progress::Progress;
use crate::screen::{self, WARN, paint};

/// The first stage of a chain when nothing is known: what a hash set would have done for.
const FIRST_STAGE: u64 = 10_000;
/// The rate that is promised when none is asked for.
const RATE: f64 = 0.01;
/// Digests inserted at once from memory: enough to hide the cost of the call.
const BATCH: usize = 8192;

/// Build a filter from the keys in files, on standard input or in a database
#[derive(Debug, clap::Args)]
#[command(after_long_help = ["\
Examples:
  bloomgate build -o urls.bloom --rate 0.01 urls.txt
  bloomgate build -o urls.bloom --items 50M urls-*.gz
  bloomgate build -o users.bloom --csv email users.csv
  bloomgate build -o users.bloom --query 'SELECT email FROM users' sqlite:app.db
  find / -print0 | bloomgate build -o files.bloom --null
  bloomgate build -o ids.bloom --keys u64 --rate 0.1% ids-*.txt
  bloomgate build -o users.bloom --secret-file users.secret users.txt
  bloomgate build -o words.bf --as guava:utf8 words.txt      for a Java program

", SOURCES, "

Without --items, files are read twice: first to count the keys. Lines that occur more than once are counted each time, \
so the filter is then a little larger than it has to be, and its rate a little better. From a pipe the digests of all \
keys are kept in memory (16 bytes a key) until it ends, and different keys are counted exactly. With --kind scalable or \
growing-cuckoo a pipe is read once, and the filter grows, from --items or 10,000 keys.

A key is a line without its line feed, any bytes but that; the last line needs none. A CR is part of the key unless \
--crlf is given. Empty lines are skipped unless --keep-empty is given. A key may be 16 MiB long.

The output is written beside and renamed when it is complete: a build that fails leaves the old file as it was. \
The same keys in the same order, read in the same way with the same options, give the same file, byte for byte.

Exit codes: 0 done, 2 error."].concat())]
pub struct Args {
    /// The file to write
    #[arg(short, long, value_name = "FILTER")]
    output: PathBuf,
    /// Files of keys, one a line; - or none is standard input; with --query, sqlite:FILE or postgres://...
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// False positives to promise: the share of absent keys that get a "maybe"
    /// [default: 0.01; what the form keeps, for --as rediscuckoo]
    #[arg(long, value_name = "P", value_parser = number::rate, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// How many different keys there will be, such as 10M; counted when not given
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true)]
    items: Option<u64>,
    /// Room for keys that are added later (by the library), as a factor on the number of keys
    #[arg(long, value_name = "FACTOR", value_parser = number::factor, default_value = "1", allow_negative_numbers = true)]
    headroom: f64,
    /// blocked (fastest), classic, partitioned; cuckoo, quotient or counting (keys can be removed, by the library);
    /// scalable or growing-cuckoo (grow); fuse or ribbon (smallest, built once, never changed)
    #[arg(long, value_parser = kind, default_value = "blocked", conflicts_with = "form")]
    kind: Kind,
    /// Write the form of another system instead of our own: bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long,
    /// guava:bytes, parquet, parquet:u64 ...
    #[arg(long = "as", value_name = "FORM", value_parser = file::form, conflicts_with_all = ["keys", "hash", "seed", "secret_file", "compress"])]
    form: Option<Form>,
    /// When there are more keys than it was made for: go-on (the rate rises), refuse (the build fails) or grow (scalable)
    /// [default: grow for those that can, refuse for cuckoo, go-on for the others]
    #[arg(long, value_name = "WHAT", value_parser = when_full)]
    when_full: Option<WhenFull>,
    /// What the keys are: bytes, text, u64, i64, u128, i128, uuid, tuple(u64,text), prefix-length(8) ...
    #[arg(long, value_name = "ENCODING", value_parser = encoding, default_value = "bytes")]
    keys: Encoding,
    /// xxh3 or murmur3 for keys you trust; siphash13, siphash24 or blake2b with a secret
    /// [default: xxh3, or siphash13 with --secret-file]
    #[arg(long, value_parser = algorithm)]
    hash: Option<Algorithm>,
    /// Seed of xxh3 or murmur3
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Key the hash with the secret in this file (see bloomgate secret new)
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Compress the file where that pays (a filter that is mostly empty); such a file is loaded, not mapped
    #[arg(long)]
    compress: bool,
    #[command(flatten)]
    reading: Reading,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No progress bar and no summary
    #[arg(short, long)]
    quiet: bool,
}

/// The kinds that are built from a list of keys and written in our own form.
const BUILT: [Kind; 10] = [
    Kind::Blocked,
    Kind::Classic,
    Kind::Partitioned,
    Kind::Counting,
    Kind::Scalable,
    Kind::Cuckoo,
    Kind::GrowingCuckoo,
    Kind::Quotient,
    Kind::Fuse,
    Kind::Ribbon,
];

fn kind(text: &str) -> Result<Kind, String> {
    let names: Vec<&str> = BUILT.iter().map(|kind| kind.name()).collect();
    match text.parse::<Kind>() {
        Ok(kind) if BUILT.contains(&kind) => Ok(kind),
        Ok(kind) if kind.is_foreign() => Err(format!("the form of another system is written with --as {kind}")),
        Ok(kind) => Err(format!(
            "a {kind} filter lives with a stream, and a file of keys has no time: keep one in a program, with the library, \
             which saves it at any moment; `check` and `info` read its file"
        )),
        Err(_) => Err(format!("there is no kind of filter called {text:?}; choose one of {}", names.join(", "))),
    }
}

fn encoding(text: &str) -> Result<Encoding, String> {
    text.parse().map_err(|error: bloomgate::Error| error.to_string())
}

fn algorithm(text: &str) -> Result<Algorithm, String> {
    match text.parse() {
        Ok(Algorithm::Given) => {
            Err("keys in files are no digests: use xxh3, murmur3, siphash13, siphash24 or blake2b".into())
        }
        Ok(algorithm) => Ok(algorithm),
        Err(error) => Err(error.to_string()),
    }
}

fn when_full(text: &str) -> Result<WhenFull, String> {
    match text {
        "go-on" => Ok(WhenFull::GoOn),
        "refuse" => Ok(WhenFull::Refuse),
        "grow" => Ok(WhenFull::Grow),
        _ => Err(format!("{text:?} is none of go-on, refuse, grow")),
    }
}

/// The name of what happens past the capacity, as the option writes it.
pub fn when_full_name(when_full: WhenFull) -> &'static str {
    match when_full {
        WhenFull::GoOn => "go-on",
        WhenFull::Refuse => "refuse",
        WhenFull::Grow => "grow",
    }
}

/// What came of it.
struct Built {
    filter: AnyFilter,
    read: u64,
    /// Different keys, where they were counted.
    different: Option<u64>,
    /// What looked strange in the sources.
    strange: Strange,
    /// What was in the sources and is no key.
    skipped: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    if !args.kind().takes_inserts() && (args.headroom != 1.0 || args.when_full.is_some() || args.items.is_some()) {
        return Err(Failure::Message(format!(
            "a {} filter is built once of the keys that there are: leave --items, --headroom and --when-full out, or \
             choose a kind that takes keys later",
            args.kind()
        )));
    }
    let contract = contract(args)?;
    let sources = Source::all(&args.files);
    // What is read is not replaced: the keys, nor the secret that opens the filter.
    let secret_file = args.secret_file.iter().cloned().map(Source::File);
    file::check_target(&args.output, &sources.iter().cloned().chain(secret_file).collect::<Vec<_>>())?;
    if sources.iter().filter(|&source| *source == Source::Stdin).count() > 1 {
        return Err(Failure::Message("standard input (-) is named more than once: it can be read once".into()));
    }
    let built = build(args, contract, &sources)?;
    let saved = file::save(&built.filter, &args.output, args.compress)?;
    report(args, &built, &saved)
}

/// Marks of another system on the keys, which become part of them unless somebody says otherwise.
#[derive(Default)]
struct Strange {
    /// The first source whose keys end in a carriage return.
    carriage_returns: Option<String>,
    /// The first source that begins with a byte order mark.
    byte_order_mark: Option<String>,
}

impl Args {
    /// The kind that is built: that of the form, if one was named.
    fn kind(&self) -> Kind {
        self.form.map_or(self.kind, Form::kind)
    }

    fn rate(&self) -> f64 {
        self.rate.unwrap_or(RATE)
    }
}

impl Strange {
    /// Looks at the first keys of a source.
    fn look(&mut self, args: &Args, source: &Source, keys: &Keys<'_>) {
        if self.carriage_returns.is_none()
            && !args.reading.cut.crlf
            && !args.reading.cut.null
            && keys.end_in_carriage_return()
        {
            self.carriage_returns = Some(source.name());
        }
        if self.byte_order_mark.is_none() && keys.keys.first().is_some_and(|key| key.starts_with(b"\xEF\xBB\xBF")) {
            self.byte_order_mark = Some(source.name());
        }
    }

    fn tell(&self) {
        if let Some(name) = &self.carriage_returns {
            screen::tell(format_args!(
                "{} {name}: every key ends in a carriage return: is this a CRLF file? then use --crlf",
                paint(WARN, "note:")
            ));
        }
        if let Some(name) = &self.byte_order_mark {
            screen::tell(format_args!(
                "{} {name}: it begins with a byte order mark, which is now part of its first key: take it off with \
                 `tail -c +4`",
                paint(WARN, "note:")
            ));
        }
    }
}

fn contract(args: &Args) -> Result<Contract, Failure> {
    if let Some(form) = args.form {
        return Ok(form.contract());
    }
    let secret = args.secret_file.as_deref().map(Secret::read_file).transpose()?;
    let usual = if secret.is_some() { Algorithm::SipHash13 } else { Algorithm::Xxh3 };
    let hash = args.hash.unwrap_or(usual);
    if hash.is_keyed() && secret.is_none() {
        return Err(Failure::Message(format!(
            "{hash} is keyed and needs a secret: make one with `bloomgate secret new -o FILE` and give it with \
             --secret-file FILE, or use --hash xxh3 for keys you trust"
        )));
    }
    Ok(Contract::new(hash, args.seed, secret.as_ref())?.with_encoding(args.keys))
}

fn build(args: &Args, contract: Contract, sources: &[Source]) -> Result<Built, Failure> {
    // What can be read twice, and how long it all is; nothing if one of them is a pipe.
    let mut bytes = Some(0u64);
    for source in sources {
        bytes = match (bytes, source.rereadable()?) {
            (Some(sum), Some(bytes)) => Some(sum.saturating_add(bytes)),
            _ => None,
        };
    }
    // Built once; or with a slot for every copy, which repeated lines would fill.
    let slots = matches!(args.kind(), Kind::Cuckoo | Kind::GrowingCuckoo | Kind::Quotient | Kind::RedisCuckoo);
    if !args.kind().takes_inserts() || (slots && args.items.is_none()) {
        return gather(args, contract, sources);
    }
    let items = match (args.items, bytes) {
        (Some(items), _) => items,
        (None, Some(bytes)) => count(args, sources, bytes)?,
        (None, None) if matches!(args.kind(), Kind::Scalable | Kind::GrowingCuckoo) => FIRST_STAGE,
        (None, None) => return gather(args, contract, sources),
    };
    let mut filter = empty(args, items, contract)?;
    let progress = Progress::new("building", bytes, args.quiet);
    let mut read = 0;
    let mut strange = Strange::default();
    let mut skipped = Vec::new();
    let mut block = Block::default();
    for source in sources {
        let mut stream = args.reading.open(source)?;
        let mut first = true;
        while stream.next(&mut block)? {
            let keys = block.keys();
            if !keys.keys.is_empty() && std::mem::take(&mut first) {
                strange.look(args, source, &keys);
            }
            insert(&mut filter, &keys)?;
            read += keys.keys.len() as u64;
            progress.advance(block.consumed());
        }
        skipped.extend(keys::skipped(source, &*stream));
    }
    Ok(Built { filter, read, different: None, strange, skipped })
}

/// The first of two passes: how many keys there are, those that occur twice counted twice.
fn count(args: &Args, sources: &[Source], bytes: u64) -> Result<u64, Failure> {
    let progress = Progress::new("counting", Some(bytes), args.quiet);
    let mut items = 0;
    let mut block = Block::default();
    for source in sources {
        let mut stream = args.reading.open(source)?;
        // Standard input shares its place in the file with every copy of it: it has to go back to where it was.
        let start = source.position()?;
        while stream.next(&mut block)? {
            let keys = block.keys();
            items += keys.keys.len() as u64;
            progress.advance(block.consumed());
        }
        source.rewind(start)?;
    }
    Ok(items)
}

/// One pass over what cannot be read again: digests are kept, the different ones counted, and the filter made then.
fn gather(args: &Args, contract: Contract, sources: &[Source]) -> Result<Built, Failure> {
    let progress = Progress::new("reading", None, args.quiet);
    let mut digests: Vec<Digest> = Vec::new();
    let mut strange = Strange::default();
    let mut skipped = Vec::new();
    let mut block = Block::default();
    for source in sources {
        let mut stream = args.reading.open(source)?;
        let mut first = true;
        while stream.next(&mut block)? {
            let keys = block.keys();
            if !keys.keys.is_empty() && std::mem::take(&mut first) {
                strange.look(args, source, &keys);
            }
            digests.try_reserve(keys.keys.len()).map_err(|_| {
                Failure::Message(format!(
                    "no memory for the digests of more than {}: give --items, or --kind scalable, and none are kept",
                    number::counted(digests.len() as u64, "key")
                ))
            })?;
            into_digests(&contract, &keys, &mut digests)?;
            progress.advance(block.consumed());
        }
        skipped.extend(keys::skipped(source, &*stream));
    }
    drop(progress);
    // Sorted, equal keys stand together. Their order makes no difference to the bits.
    digests.sort_unstable();
    let different = digests.chunk_by(|a, b| a == b).count() as u64;
    let read = digests.len() as u64;
    // A counting filter counts a key as often as it comes; slots are for different keys.
    let items = if args.kind() == Kind::Counting {
        read
    } else {
        digests.dedup();
        different
    };
    let filter = match args.kind() {
        Kind::Fuse => Fuse::builder().rate(args.rate()).contract(contract).build_from_digests(&digests)?.into(),
        Kind::Ribbon => Ribbon::builder().rate(args.rate()).contract(contract).build_from_digests(&digests)?.into(),
        _ => {
            let mut filter = empty(args, items, contract)?;
            for batch in digests.chunks(BATCH) {
                filter.insert_digests(batch)?;
            }
            filter
        }
    };
    Ok(Built { filter, read, different: Some(different), strange, skipped })
}

/// An empty filter of the kind that was asked for.
fn empty(args: &Args, items: u64, contract: Contract) -> Result<AnyFilter, Failure> {
    let usual = match args.kind() {
        Kind::Scalable | Kind::GrowingCuckoo | Kind::RedisBloom | Kind::RedisCuckoo => WhenFull::Grow,
        Kind::Cuckoo => WhenFull::Refuse,
        _ => WhenFull::GoOn,
    };
    let when_full = args.when_full.unwrap_or(usual);
    macro_rules! build {
        ($filter:ident) => {
            $filter::builder()
                .items(items)
                .rate(args.rate())
                .headroom(args.headroom)
                .when_full(when_full)
                .contract(contract)
                .build()?
                .into()
        };
    }
    Ok(match args.kind() {
        Kind::Blocked => build!(Blocked),
        Kind::Classic => build!(Classic),
        Kind::Partitioned => build!(Partitioned),
        Kind::Counting => build!(Counting),
        Kind::Scalable => build!(Scalable),
        Kind::Cuckoo => build!(Cuckoo),
        Kind::GrowingCuckoo => build!(GrowingCuckoo),
        Kind::Quotient => build!(Quotient),
        Kind::BfV1 => build!(BfV1),
        Kind::RedisBloom => build!(RedisBloom),
        Kind::RedisCuckoo => {
            // Its fingerprints have 8 bits whatever is asked.
            let builder = RedisCuckoo::builder().items(items).headroom(args.headroom).when_full(when_full);
            match args.rate {
                Some(rate) => builder.rate(rate).build(),
                None => builder.build(),
            }
            .map_err(|error| match error.kind() {
                bloomgate::ErrorKind::InvalidParameter if args.rate.is_some() => {
                    Failure::Message(format!("{error}; or leave --rate out, and the form keeps what it can"))
                }
                _ => error.into(),
            })?
            .into()
        }
        Kind::Guava => build!(Guava),
        Kind::Parquet => build!(Parquet),
        other => return Err(Failure::Message(format!("this command cannot build a {other} filter"))),
    })
}

fn insert(filter: &mut AnyFilter, keys: &Keys<'_>) -> Result<(), Failure> {
    let inserted = if digest::takes_bytes(filter.contract()) {
        filter.insert_batch(&keys.keys)
    } else {
        let mut digests = Vec::with_capacity(keys.keys.len());
        into_digests(filter.contract(), keys, &mut digests)?;
        filter.insert_digests(&digests)
    };
    inserted.map(|_| ()).map_err(|error| match error.kind() {
        bloomgate::ErrorKind::Full => Failure::Message(format!(
            "at or after {}: there is no room for more keys than the {} that the filter is for{}: give a larger --items or \
             --headroom",
            keys.place(0),
            number::grouped(filter.capacity()),
            if filter.kind().takes_removals() { " (a key that comes again takes a place again)" } else { "" }
        )),
        _ => error.into(),
    })
}

fn into_digests(contract: &Contract, keys: &Keys<'_>, digests: &mut Vec<Digest>) -> Result<(), Failure> {
    if digest::takes_bytes(contract) {
        digests.extend(keys.keys.iter().map(|key| contract.digest_bytes(key)));
        return Ok(());
    }
    let mut scratch = Vec::new();
    for (at, key) in keys.keys.iter().enumerate() {
        let digest = digest::digest(contract, key, &mut scratch)
            .map_err(|error| Failure::Message(format!("{}: {error}", keys.place(at))))?;
        digests.push(digest);
    }
    Ok(())
}

fn report(args: &Args, built: &Built, saved: &file::Saved) -> Outcome {
    let Built { filter, read, different, strange, skipped } = built;
    // What the bits say, unless it was counted: no fewer than were certainly new (a counting filter counts every
    // insertion instead), and no more than were read.
    let certain = if filter.kind().takes_removals() { 0 } else { filter.len() };
    let estimate = filter.approximate_count();
    // When every bit is set, any larger number of keys would look the same.
    let (by_bits, at_least) = match estimate.high {
        Some(_) => (estimate.value, false),
        None => (estimate.low, different.is_none()),
    };
    let distinct = different.unwrap_or_else(|| (by_bits.round() as u64).max(certain).min(*read));
    // Past its capacity a filter counts few of the keys as new, and the rate expected of those would flatter it.
    let by_the_bits = if filter.len() > filter.capacity() { Some(filter.estimated_rate()?) } else { None };
    let bits_per_key = filter.size_in_bytes() as f64 * 8.0 / distinct.max(1) as f64;
    if args.json {
        let object = Object::default()
            .text("path", args.output.to_string_lossy())
            .text("kind", filter.kind().name())
            .whole("keys_read", *read)
            .whole("distinct", distinct)
            .flag("distinct_is_exact", different.is_some())
            .flag("distinct_is_lower_bound", at_least)
            .whole("capacity", filter.capacity())
            .whole("filter_bytes", filter.size_in_bytes())
            .whole("file_bytes", saved.bytes)
            .number("bits_per_key", bits_per_key)
            .number("promised_rate", filter.promised_rate())
            .number("expected_rate", filter.expected_rate())
            .maybe_number("estimated_rate", by_the_bits)
            .text("contract", filter.contract().describe())
            .text("address", &saved.address);
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", object.close())?;
        out.flush()?;
    }
    if !args.quiet {
        let rate = match by_the_bits {
            Some(rate) => format!("rate by the bits {}", number::percent(rate)),
            None => format!("expected rate {}", number::percent(filter.expected_rate())),
        };
        let about = match different {
            Some(_) => "",
            None if at_least => "at least ",
            None => "about ",
        };
        screen::tell(format_args!(
            "{}: {} read, {about}{} different; {} in {}, {:.2} bits/key; {rate} ({} promised)",
            args.output.display(),
            number::counted(*read, "key"),
            number::grouped(distinct),
            filter.kind(),
            number::bytes(saved.bytes),
            bits_per_key,
            number::percent(filter.promised_rate()),
        ));
        strange.tell();
        for note in skipped {
            screen::tell(format_args!("{} {note}", paint(WARN, "note:")));
        }
        warn(args, filter);
    }
    Ok(DONE)
}

/// What the user should know before the filter is used.
fn warn(args: &Args, filter: &AnyFilter) {
    let over = filter.len() > filter.capacity() && filter.expected_rate() > filter.promised_rate() * 1.001;
    if over {
        screen::tell(format_args!(
            "{} it was made for {} and holds more: the rate is above the promise; build again with a larger --items, or \
             with {}",
            paint(WARN, "warning:"),
            number::counted(filter.capacity(), "key"),
            if filter.kind() == Kind::Scalable { "--when-full grow" } else { "--kind scalable" }
        ));
    }
    if args.compress && !file::pays(filter) {
        screen::tell(format_args!(
            "{} the file is not compressed: a filter with {} of its bits set does not get smaller",
            paint(WARN, "note:"),
            number::percent(filter.fill_ratio())
        ));
    }
}
