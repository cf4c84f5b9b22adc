//! `bloomgate convert`: the same bits in another cover, where hash and layout already match; otherwise why not, and the
//! command that makes it from the keys.
//!
//! A filter of another system keeps its hash and its layout wherever it lies: in its own form, or wrapped into our file
//! (with checksums, a contract, asked in place). So each form goes into ours and out again, byte for byte. Between two
//! forms nothing matches: every system hashes in its own way.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use bloomgate::foreign::Form;
use bloomgate::format::{MAGIC, inspect, recognise};
use bloomgate::hash::Algorithm;
use bloomgate::{AnyFilter, Contract, Encoding, Kind};

use crate::failure::{DONE, Failure, Outcome};
use crate::file::{self, Saved};
use crate::json::Object;
use crate::keys::Source;
use crate::number::bytes;
use crate::screen;
use crate::shell;
use crate::standing::between;

/// Re-wrap a filter into another form, where its hash and layout already match
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate convert seen.dump -o seen.bloom --to bloomgate            a RedisBloom dump, now with checksums
  bloomgate convert seen.bloom -o seen.dump --to redisbloom           and back, byte for byte
  bloomgate convert words.bf --from guava:utf8 -o words.bloom --to bloomgate

Forms: bloomgate, bfv1, redisbloom, rediscuckoo, guava:utf8, guava:long, guava:bytes, parquet, parquet:u64 ...

A filter is bits at places that a hash chose, and no bit can be moved without its key. So a filter of another system is \
wrapped into our file as it is: it answers as before, is verified, and can be asked in place, sent as deltas, and \
unwrapped into its own form again. One form cannot become another, nor one of our kinds a foreign form: their hashes and \
layouts differ. That is then said, with the `bloomgate build --as FORM` that makes it from the keys.

Guava's and Parquet's forms do not say what they are or what their keys are: name them with --from. The output must be \
another file than the input.

Exit codes: 0 done, 2 error, and then nothing was written.")]
pub struct Args {
    /// The filter
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The form to write
    #[arg(long, value_name = "FORM", value_parser = target)]
    to: Target,
    /// The form to read, where it is not recognised
    #[arg(long, value_name = "FORM", value_parser = target)]
    from: Option<Target>,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No summary
    #[arg(short, long)]
    quiet: bool,
}

/// Our own file, or the form of another system.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Target {
    Ours,
    Theirs(Form),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours => f.write_str("bloomgate"),
            Self::Theirs(Form::Guava(Encoding::Text)) => f.write_str("guava:utf8"),
            Self::Theirs(Form::Guava(Encoding::Signed)) => f.write_str("guava:long"),
            Self::Theirs(form) => form.fmt(f),
        }
    }
}

fn target(text: &str) -> Result<Target, String> {
    if text == "bloomgate" {
        return Ok(Target::Ours);
    }
    Form::from_str(text).map(Target::Theirs).map_err(|error| format!("{error}; or bloomgate for our own"))
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    file::check_filter(&args.filter)?;
    if file::are_one(&args.filter, &args.output) {
        return Err(Failure::at(&args.output, "is the filter that is read: write to another file"));
    }
    file::check_target(&args.output, &[Source::File(args.filter.clone())])?;
    let ours = starts_as_ours(&args.filter)?;
    let (from, filter) = match (args.from, ours) {
        (Some(Target::Theirs(_)), true) => {
            return Err(Failure::at(&args.filter, "is a Bloomgate file: leave --from out"));
        }
        (Some(Target::Theirs(form)), false) => (Target::Theirs(form), file::read_foreign(&args.filter, form)?),
        (None, false) if let Some(form) = recognise(&args.filter)? => {
            (Target::Theirs(form), file::read_foreign(&args.filter, form)?)
        }
        _ => (Target::Ours, wrapped_or_refused(args)?),
    };
    let saved = match args.to {
        Target::Ours if from == Target::Ours => {
            return Err(Failure::at(&args.filter, "is in our form already: there is nothing to convert"));
        }
        Target::Ours => {
            let address = filter.save(&args.output)?;
            Saved { bytes: file::length(&args.output)?, address: address.to_string() }
        }
        Target::Theirs(form) => {
            let is = Nature::of(&filter);
            if !is.fits(form) {
                return Err(refusal(args, &is, form));
            }
            file::save(&filter, &args.output, false)?
        }
    };
    report(args, from, &filter, &saved)
}

fn starts_as_ours(path: &Path) -> Result<bool, Failure> {
    let mut start = Vec::new();
    let file = std::fs::File::open(path).map_err(|error| Failure::at(path, error))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(|error| Failure::at(path, error))?;
    Ok(start == MAGIC)
}

/// A foreign filter out of our file. One of our own kinds is in no form but ours, and no secret is needed to say so.
fn wrapped_or_refused(args: &Args) -> Result<AnyFilter, Failure> {
    let description = inspect(&args.filter)?;
    if let Some(damage) = description.sections.iter().find_map(|section| section.damage.as_ref()) {
        return Err(Failure::at(&args.filter, format!("{damage}: fetch or build the file again")));
    }
    if description.kind.is_foreign() {
        return Ok(AnyFilter::open(&args.filter)?);
    }
    let Target::Theirs(form) = args.to else {
        return Err(Failure::at(&args.filter, "is in our form already: there is nothing to convert"));
    };
    let is = Nature {
        kind: description.kind,
        algorithm: description.algorithm,
        seed: description.seed,
        keyed: description.secret.is_some(),
        encoding: description.encoding,
        capacity: description.capacity,
        rate: description.rate,
    };
    Err(refusal(args, &is, form))
}

/// What decides whether bits can be taken over as they are.
struct Nature {
    kind: Kind,
    algorithm: Algorithm,
    seed: u64,
    keyed: bool,
    encoding: Encoding,
    capacity: u64,
    rate: f64,
}

impl Nature {
    fn of(filter: &AnyFilter) -> Self {
        let contract = filter.contract();
        Self {
            kind: filter.kind(),
            algorithm: contract.algorithm(),
            seed: contract.seed(),
            keyed: contract.secret_id().is_some(),
            encoding: contract.encoding(),
            capacity: filter.capacity(),
            rate: filter.promised_rate(),
        }
    }

    fn fits(&self, form: Form) -> bool {
        self.kind == form.kind() && same_bytes(self.encoding, form.encoding())
    }

    fn hash(&self) -> String {
        match (self.keyed, self.algorithm.is_foreign()) {
            (true, _) => format!("{} with a secret", self.algorithm),
            (false, true) => self.algorithm.to_string(),
            (false, false) => format!("{} with seed {}", self.algorithm, self.seed),
        }
    }
}

/// Whether keys of two encodings are hashed as the same bytes: text is its UTF-8.
fn same_bytes(one: Encoding, other: Encoding) -> bool {
    let plain = |encoding| matches!(encoding, Encoding::Bytes | Encoding::Text);
    one == other || (plain(one) && plain(other))
}

/// Where the bits of a key go, in a few words.
fn layout(kind: Kind) -> &'static str {
    match kind {
        Kind::Classic => "bits anywhere, each by its own part of the digest",
        Kind::Blocked => "all bits of a key in one line of 512",
        Kind::Partitioned => "one bit in each slice",
        Kind::Counting => "counters instead of bits",
        Kind::Scalable => "a chain of stages",
        Kind::Rotating => "generations over a window of time",
        Kind::Stable => "cells that decay",
        Kind::Cuckoo => "fingerprints in buckets of four",
        Kind::GrowingCuckoo => "a chain of tables of fingerprints",
        Kind::Quotient => "sorted remainders",
        Kind::Fuse => "three cells that xor to a key's fingerprint",
        Kind::Ribbon => "a system of equations",
        Kind::BfV1 => "bits in equal strides, the remainder by the number of bits",
        Kind::RedisBloom => "links of bits in equal strides, with a count of the keys",
        Kind::RedisCuckoo => "tables of 8-bit fingerprints, with a count of the keys",
        Kind::Guava => "bits in strides of one signed 64-bit hash",
        Kind::Parquet => "eight bits in one block of 256",
        _ => "its own",
    }
}

/// Why the bits cannot be taken over, and the command that makes the form from the keys.
fn refusal(args: &Args, is: &Nature, form: Form) -> Failure {
    let there: Contract = form.contract();
    let mut why = Vec::new();
    if is.algorithm != there.algorithm() || is.keyed || is.seed != there.seed() {
        why.push(format!("hash: {} here, {} there, so that a key sets other bits", is.hash(), there.algorithm()));
    }
    if is.kind != form.kind() {
        why.push(format!("layout: {} here, {} there", layout(is.kind), layout(form.kind())));
    }
    if !same_bytes(is.encoding, form.encoding()) {
        why.push(format!("keys: {} here, {} there, which are other bytes to a hash", is.encoding, form.encoding()));
    }
    let counts = matches!(form, Form::RedisBloom | Form::RedisCuckoo);
    if counts && matches!(is.kind, Kind::BfV1 | Kind::Guava | Kind::Parquet) {
        why.push("count: the form writes down how many keys it holds, and here that is only estimated".into());
    }
    let why: String = why.iter().map(|why| screen::wrapped("  - ", why)).collect();
    Failure::at(
        &args.filter,
        format!(
            "a {} filter cannot be made {} without its keys:\n{why}Build it from the keys (one a line in KEYS):\n  {}",
            is.kind,
            Target::Theirs(form),
            build_command(&args.output, is, form)
        ),
    )
}

/// The command that makes the form for as many keys at the same rate.
fn build_command(output: &Path, is: &Nature, form: Form) -> String {
    // Eight bits keep 1.6 % at best: a lower rate would be refused.
    let rate = match form {
        Form::RedisCuckoo if is.rate < 0.02 => String::new(),
        _ => format!(" --rate {}", rounded(is.rate)),
    };
    format!(
        "bloomgate build -o {} --as {} --items {}{rate} KEYS",
        shell::path(output),
        Target::Theirs(form),
        is.capacity
    )
}

/// A rate in four digits: of a form that does not say what it was made for it is a guess, with sixteen of them.
fn rounded(rate: f64) -> f64 {
    format!("{rate:.3e}").parse().unwrap_or(rate)
}

fn report(args: &Args, from: Target, filter: &AnyFilter, saved: &Saved) -> Outcome {
    let keys = filter.approximate_count();
    if args.json {
        let object = Object::default()
            .text("path", args.output.to_string_lossy())
            .text("from", from.to_string())
            .text("to", args.to.to_string())
            .text("kind", filter.kind().name());
        let object = crate::standing::estimate(object, "keys", &keys)
            .number("estimated_rate", filter.estimated_rate()?)
            .whole("file_bytes", saved.bytes)
            .text("address", &saved.address);
        object.print()?;
    }
    if !args.quiet {
        let now = match args.to {
            Target::Ours => "in our own file: with checksums and its contract, and asked in place".into(),
            form => format!("in the form {form}, which has no checksums"),
        };
        screen::tell(format_args!(
            "{}: {} in {}, {now}; every bit as it was",
            args.output.display(),
            between(&keys),
            bytes(saved.bytes)
        ));
    }
    Ok(DONE)
}
