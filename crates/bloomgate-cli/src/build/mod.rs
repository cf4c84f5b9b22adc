//! `bloomgate build`: from keys in files or on standard input to a filter in a file.

mod empty;
mod fill;
mod report;

use std::io::IsTerminal;
use std::path::PathBuf;

use bloomgate::foreign::Form;
use bloomgate::hash::Algorithm;
use bloomgate::{Contract, Encoding, Kind, Secret, WhenFull};

use crate::failure::{Failure, Outcome};
use crate::file;
use crate::keys::{Reading, SOURCES, Source};
use crate::number;

/// The rate that is promised when none is asked for.
const RATE: f64 = 0.01;

/// Build a filter from the keys in files, on standard input or in a database
#[derive(Debug, clap::Args)]
#[command(after_long_help = ["\
Examples:
  bloomgate build -o urls.bloom --rate 0.01 urls.txt
  bloomgate build -o urls.bloom urls-*.gz
  bloomgate build -o users.bloom --csv email users.csv
  bloomgate build -o users.bloom --query 'SELECT email FROM users' sqlite:app.db
  find / -print0 | bloomgate build -o files.bloom --null
  bloomgate build -o ids.bloom --keys u64 --rate 0.1% ids-*.txt
  bloomgate build -o users.bloom --secret-file users.secret users.txt
  bloomgate build -o words.bf --as guava:utf8 words.txt      for a Java program

", SOURCES, "

Without --items one pass is enough: a file of lines is sized by samples of it, and the filter is folded down at the end \
if many lines were the same; from a pipe the digests wait on disk beside the output, 16 bytes a key, until it ends. \
Memory stays below twice that of a filter of all lines. With --kind scalable a pipe fills a filter that grows. Kinds \
that cannot be folded keep 16 bytes a key in memory; --count twice reads files twice instead.

A key is a line without its line feed, any bytes but that; the last line needs none. A CR is part of the key unless \
--crlf is given. Empty lines are skipped unless --keep-empty is given. A key may be 16 MiB long.

The output is written beside and renamed when it is complete: a build that fails leaves the old file as it was. \
The same keys in the same order, read in the same way with the same options, give the same file, byte for byte.

Exit codes: 0 done, 2 error."].concat())]
pub struct Args {
    /// The file to write; - is standard output
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
    /// How keys are counted without --items: fold (one pass, folded down at the end), twice (a pass over the files to
    /// count, another to build) or digests (16 bytes a key in memory, different keys counted exactly)
    /// [default: fold, or digests for kinds that cannot be folded]
    #[arg(long, value_name = "HOW", hide_possible_values = true, conflicts_with = "items")]
    count: Option<Counting>,
    /// Room for keys that are added later, as a factor on the number of keys
    #[arg(long, value_name = "FACTOR", value_parser = number::factor, default_value = "1", allow_negative_numbers = true)]
    headroom: f64,
    /// Round the size up so that `bloomgate fold` can halve it so many times (0 to 20)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20), default_value_t = 0, hide_default_value = true)]
    fold_levels: u32,
    /// blocked (fastest), classic, partitioned; cuckoo, quotient or counting (keys can be removed);
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

/// How keys are counted when nobody says how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Counting {
    /// One pass; sized by samples or by all lines, folded down at the end.
    Fold,
    /// Two passes.
    Twice,
    /// One pass; digests in memory.
    Digests,
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
            "a {kind} filter lives with a stream, and a file of keys has no time: keep one with `bloomgate dedup {} \
             --filter FILE`, or in a program, with the library; `check` and `info` read its file",
            if kind == Kind::Rotating { "--window 1h" } else { "--memory 64MB" }
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

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    if !args.kind().takes_inserts() && (args.headroom != 1.0 || args.when_full.is_some() || args.items.is_some()) {
        return Err(Failure::Message(format!(
            "a {} filter is built once of the keys that there are: leave --items, --headroom and --when-full out, or \
             choose a kind that takes keys later",
            args.kind()
        )));
    }
    if args.fold_levels > 0 && !fill::can_fold(args.kind()) {
        return Err(Failure::Message(format!(
            "a {} filter cannot be folded: leave --fold-levels out, or use --kind blocked, classic or partitioned",
            args.kind()
        )));
    }
    let contract = contract(args)?;
    let sources = Source::all(&args.files);
    // What is read is not replaced: the keys, nor the secret that opens the filter.
    let secret_file = args.secret_file.iter().cloned().map(Source::File);
    let to_pipe = args.output.as_os_str() == "-";
    if !to_pipe {
        file::check_target(&args.output, &sources.iter().cloned().chain(secret_file).collect::<Vec<_>>())?;
    } else if args.json {
        return Err(Failure::Message(
            "-o - writes the filter to standard output, and --json the summary: name a file".into(),
        ));
    } else if std::io::stdout().is_terminal() {
        return Err(Failure::Message(
            "-o - writes the filter to standard output, which is a terminal: name a file".into(),
        ));
    }
    if sources.iter().filter(|&source| *source == Source::Stdin).count() > 1 {
        return Err(Failure::Message("standard input (-) is named more than once: it can be read once".into()));
    }
    let built = fill::fill(args, &contract, &sources)?;
    let saved = if to_pipe {
        file::print(&built.filter, args.compress)?
    } else {
        file::save(&built.filter, &args.output, args.compress)?
    };
    report::report(args, &built, &saved)
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
