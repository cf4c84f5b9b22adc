//! `bloomgate check`: which of these keys may be in the filter? Like grep, with its exit codes.
//!
//! Keys are read, asked and answered by the block: memory is bounded, and in a pipe each answer leaves as soon as its
//! question has come.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use bloomgate::AnyFilter;
use bloomgate::bits::Store;
use bloomgate::foreign::Form;
use bloomgate::kind::Guarantee;

use crate::digest;
use crate::failure::{DONE, ERROR, Failure, NONE, Outcome};
use crate::file::{self, Opened};
use crate::json::Object;
use crate::keys::{Block, Reading, Source};
use crate::number;
use crate::screen::{self, WARN, paint};

/// Keys that are refused one by one before the rest is only counted: a wrong encoding refuses every line.
const MOST_COMPLAINTS: u64 = 10;

/// Print the keys that may be in a filter
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate check urls.bloom https://example.org/ && echo maybe
  bloomgate check urls.bloom < keys.txt > maybes.txt
  bloomgate check -v urls.bloom -f keys.txt          the keys that are certainly not there
  bloomgate check --label urls.bloom -f keys.txt     both, with a tab between label and key
  tail -f access.log | bloomgate check urls.bloom    streams

Keys come from the arguments, from files (-f), or else from standard input. A key may be a negative number; any other \
key that begins with a dash is written after --. Files may be compressed, tables or databases as for build: see \
Sources in `bloomgate build --help`.

A key that is printed as absent is certainly absent. A key that cannot be read in the filter's encoding (a word asked \
of a filter of numbers) is reported with its line, is printed nowhere, and makes the exit code 2.

Files of other systems are recognised where they can be (BFv1; RedisBloom dumps, chunks after one another, each behind \
its iterator and its length as 8 bytes). Guava's and Parquet's forms say neither what they are nor what their keys are: \
name them with --as, since a guess would be a wrong \"no\".

A \"no\" of a rotating filter speaks of its window, and that of a stable filter means \"not seen lately\": a note says so.

The file is queried in place and must not be changed while it is; `bloomgate build` replaces it and may run meanwhile.

Exit codes, whatever is printed: 0 some key may be there, 1 every key is certainly absent, 2 error.")]
pub struct Args {
    /// The filter
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// Keys to ask for
    #[arg(value_name = "KEY", allow_negative_numbers = true)]
    keys: Vec<OsString>,
    /// Ask for the keys in a file; - is standard input; may be given several times
    #[arg(short, long = "file", value_name = "FILE", conflicts_with = "keys")]
    file: Vec<PathBuf>,
    /// Print the keys that are certainly absent instead
    #[arg(short = 'v', long, conflicts_with = "label")]
    absent: bool,
    /// Print every key after its label: maybe or absent, and a tab
    #[arg(long)]
    label: bool,
    /// Print only how many keys would be printed
    #[arg(short, long)]
    count: bool,
    /// Print nothing and stop at the first maybe: only the exit code tells
    #[arg(short, long, conflicts_with_all = ["count", "json"])]
    quiet: bool,
    /// Print JSON objects, one a line
    #[arg(long)]
    json: bool,
    /// Read the filter as the form of another system: bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long,
    /// guava:bytes, parquet, parquet:u64 ... (the first three are recognised)
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

/// What was answered so far.
#[derive(Default)]
struct Tally {
    maybe: u64,
    absent: u64,
    refused: u64,
}

impl Tally {
    fn code(&self) -> u8 {
        match self {
            Self { refused: 1.., .. } => ERROR,
            Self { maybe: 1.., .. } => DONE,
            _ => NONE,
        }
    }
}

/// Some keys, and where each of them stands.
struct Batch<'b> {
    keys: &'b [&'b [u8]],
    place: &'b dyn Fn(usize) -> String,
    line: &'b dyn Fn(usize) -> u64,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    match file::open(&args.filter, args.form, args.secret_file.as_deref())? {
        Opened::Loaded(filter) => ask_all(args, &filter),
        Opened::InPlace(filter) => {
            let code = ask_all(args, &filter)?;
            if let Some(damage) = filter.damage() {
                return Err(Failure::at(
                    &args.filter,
                    format!("{damage}: keys that touch it were answered \"maybe\"; fetch or build the file again"),
                ));
            }
            Ok(code)
        }
    }
}

fn ask_all<S: Store>(args: &Args, filter: &AnyFilter<S>) -> Outcome {
    digest::refuse_given(filter.contract())?;
    match filter.guarantee() {
        Guarantee::Superset => {}
        Guarantee::Window => {
            note("a rotating filter: \"absent\" means that the key was not inserted within its window")
        }
        _ => note("a stable filter forgets: \"absent\" means not seen lately, and proves nothing"),
    }
    let mut tally = Tally::default();
    match answer_all(args, filter, &mut tally) {
        // Nobody reads on: what was found until then is the answer.
        Ok(()) | Err(Failure::Gone) => {}
        Err(error) => return Err(error),
    }
    if tally.refused > MOST_COMPLAINTS {
        let more = tally.refused - MOST_COMPLAINTS;
        let more = if more == 1 { "1 more key is".into() } else { format!("{} more keys are", number::grouped(more)) };
        screen::complain(format_args!("{more} not in the filter's encoding"));
    }
    Ok(tally.code())
}

fn note(text: &str) {
    screen::tell(format_args!("{} {text}", paint(WARN, "note:")));
}

fn answer_all<S: Store>(args: &Args, filter: &AnyFilter<S>, tally: &mut Tally) -> Result<(), Failure> {
    if args.keys.is_empty() {
        let mut block = Block::default();
        for source in Source::all(&args.file) {
            let mut stream = args.reading.open(&source)?;
            while stream.next(&mut block)? {
                let keys = block.keys();
                let batch = Batch { keys: &keys.keys, place: &|at| keys.place(at), line: &|at| keys.line(at) };
                answer(args, filter, &batch, tally)?;
                if args.quiet && tally.maybe > 0 {
                    return Ok(());
                }
            }
            if let Some(skipped) = stream.skipped() {
                note(&skipped);
            }
        }
    } else {
        let keys: Vec<&[u8]> = args.keys.iter().map(|key| key.as_encoded_bytes()).collect();
        let batch = Batch { keys: &keys, place: &|at| format!("argument {}", at + 1), line: &|at| at as u64 + 1 };
        answer(args, filter, &batch, tally)?;
    }
    if args.count { print_counts(args, tally) } else { Ok(()) }
}

fn answer<S: Store>(args: &Args, filter: &AnyFilter<S>, batch: &Batch<'_>, tally: &mut Tally) -> Result<(), Failure> {
    let mut answers = vec![false; batch.keys.len()];
    let refused = ask(filter, batch.keys, &mut answers)?;
    let mut out = Vec::new();
    let mut refusals = refused.iter().peekable();
    for (at, (&key, &maybe)) in batch.keys.iter().zip(&answers).enumerate() {
        if let Some((_, why)) = refusals.next_if(|(refused, _)| *refused == at) {
            tally.refused += 1;
            if tally.refused <= MOST_COMPLAINTS {
                screen::complain(format_args!("{}: {why}", (batch.place)(at)));
            }
            continue;
        }
        *(if maybe { &mut tally.maybe } else { &mut tally.absent }) += 1;
        let wanted = args.label || maybe != args.absent;
        if wanted && !args.count && !args.quiet {
            print_key(args, key, maybe, &|| (batch.line)(at), &mut out);
        }
    }
    if !out.is_empty() {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(&out)?;
        stdout.flush()?;
    }
    Ok(())
}

/// The answers, and which keys have none and why.
fn ask<S: Store>(filter: &AnyFilter<S>, keys: &[&[u8]], answers: &mut [bool]) -> Result<Vec<(usize, String)>, Failure> {
    if digest::takes_bytes(filter.contract()) {
        filter.contains_batch(keys, answers)?;
        return Ok(Vec::new());
    }
    let mut scratch = Vec::new();
    let (mut digests, mut places, mut refused) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
    for (at, key) in keys.iter().enumerate() {
        match digest::digest(filter.contract(), key, &mut scratch) {
            Ok(digest) => {
                digests.push(digest);
                places.push(at);
            }
            Err(why) => refused.push((at, why)),
        }
    }
    let mut found = vec![false; digests.len()];
    filter.contains_digests(&digests, &mut found)?;
    for (at, found) in places.into_iter().zip(found) {
        answers[at] = found;
    }
    Ok(refused)
}

fn print_key(args: &Args, key: &[u8], maybe: bool, line: &dyn Fn() -> u64, out: &mut Vec<u8>) {
    let label = if maybe { "maybe" } else { "absent" };
    if args.json {
        let object = Object::default().text("answer", label).whole("line", line());
        // JSON is text: a key that is not goes in hexadecimal, under another name so that nobody takes it for the key.
        let object = match std::str::from_utf8(key) {
            Ok(text) => object.text("key", text),
            Err(_) => object.text("key_hex", key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        };
        out.extend_from_slice(object.close().as_bytes());
        out.push(b'\n');
        return;
    }
    if args.label {
        out.extend_from_slice(label.as_bytes());
        out.push(b'\t');
    }
    out.extend_from_slice(key);
    out.push(args.reading.cut.separator());
}

fn print_counts(args: &Args, tally: &Tally) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.json {
        let object =
            Object::default().whole("maybe", tally.maybe).whole("absent", tally.absent).whole("refused", tally.refused);
        writeln!(out, "{}", object.close())?;
    } else if args.label {
        writeln!(out, "maybe\t{}\nabsent\t{}", tally.maybe, tally.absent)?;
    } else {
        writeln!(out, "{}", if args.absent { tally.absent } else { tally.maybe })?;
    }
    out.flush()?;
    Ok(())
}
