//! `bloomgate merge`: one filter of all keys of several, from their bits alone.
//!
//! The first filter is loaded and takes in the others one after the other, each verified whole before and asked in its
//! file: memory is that of one filter. Nothing is written before all of it has worked.

use std::path::{Path, PathBuf};

use bloomgate::bits::Store;
use bloomgate::{AnyFilter, Error, ErrorKind, OpenOptions, Secret};

use crate::failure::{DONE, Failure, Outcome};
use crate::file::{self, Opened, Saved, in_any_place};
use crate::json;
use crate::keys::Source;
use crate::standing::Standing;

/// Make one filter of all keys of several, without their keys
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate merge -o week.bloom monday.bloom tuesday.bloom wednesday.bloom
  bloomgate merge -o all.bloom shard-*.bloom
  bloomgate merge -o all.bloom all.bloom today.bloom      takes today into all

Blocked, classic and partitioned filters become the very filter that all keys would have made; counting filters add up, \
and quotient filters merge. Scalable filters are united stage by stage, whether one has grown further than the other or not. \
All must be of one kind, size and hash: build them with the same --kind, --items, --rate, \
--keys, --hash and --seed (or --secret-file). A larger one can often be made as small as another with `bloomgate fold`. \
The other kinds cannot be merged without their keys: build again, or ask each of them.

The result promises what the first one does, and was made for as many keys. If it holds more, that is said, with the rate \
that it has now: no key is lost, but more absent ones get a \"maybe\". Make room beforehand: build each for the keys of \
all. Filters that were built with --when-full refuse are refused instead.

Keyed filters merge if one secret keyed them all, and it is needed. The output may be one of the inputs: it is replaced \
once the new file is whole. (Counting and quotient filters count keys as often as they were merged in: the same file \
twice is refused there.) The result is compressed where that pays if the first filter is.

Exit codes: 0 done, 2 error, and then nothing was written.")]
pub struct Args {
    /// The file to write; may be one of the inputs
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// The filters, two or more
    #[arg(value_name = "FILTER", required = true, num_args = 2..)]
    filters: Vec<PathBuf>,
    /// The secret of keyed filters
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No summary
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let secret = args.secret_file.as_deref();
    file::check_target(&args.output, &secret.map(|path| Source::File(path.into())).into_iter().collect::<Vec<_>>())?;
    let [first, others @ ..] = &args.filters[..] else {
        return Err(Failure::Message("merge needs two filters or more".into()));
    };
    // Before anything is read: the output may be one of the inputs, and nobody may change it meanwhile.
    let _lock = file::lock(&args.output)?;
    let opened = file::open_whole(first, secret)?;
    let compress = matches!(opened, Opened::Loaded(_));
    let mut inputs = vec![in_any_place!(&opened, filter => Standing::of(first, filter))?];
    let mut all = loaded(first, opened, secret)?;
    if !all.kind().merges() {
        return Err(Failure::at(
            first,
            format!(
                "a {} filter cannot be merged without its keys: build one filter from the \
            keys of all, or ask each of them; blocked, classic, partitioned, counting, scalable and quotient filters can",
                all.kind()
            ),
        ));
    }
    refuse_twice(&all, &args.filters)?;
    for path in others {
        let other = file::open_whole(path, secret)?;
        inputs.push(in_any_place!(&other, filter => Standing::of(path, filter))?);
        in_any_place!(&other, filter => {
            all.union_with(filter).map_err(|error| refusal(&error, "merged", (first, &all), (path, filter)))?;
        });
    }
    let saved = file::save_locked(&all, &args.output, compress)?;
    report(args, &inputs, &Standing::of(&args.output, &all)?, &saved)
}

/// The filter in memory, where it can be changed.
fn loaded(path: &Path, opened: Opened, secret_file: Option<&Path>) -> Result<AnyFilter, Failure> {
    match opened {
        Opened::Loaded(filter) => Ok(filter),
        Opened::InPlace(_) => {
            let secret = secret_file.map(Secret::read_file).transpose()?;
            let options = secret.as_ref().map_or_else(OpenOptions::new, |secret| OpenOptions::new().secret(secret));
            Ok(AnyFilter::open_with(path, &options)?)
        }
    }
}

/// A file named twice changes nothing in a filter of bits, and would be counted twice by those that count.
fn refuse_twice(all: &AnyFilter, filters: &[PathBuf]) -> Result<(), Failure> {
    if !all.kind().takes_removals() {
        return Ok(());
    }
    for (at, path) in filters.iter().enumerate() {
        if filters[..at].iter().any(|earlier| file::are_one(earlier, path)) {
            return Err(Failure::at(
                path,
                format!(
                    "is named twice: a {} filter would count its keys twice, and removing them once would not be enough; \
                     name it once",
                    all.kind()
                ),
            ));
        }
    }
    Ok(())
}

/// Why two filters do not go together: both files, both shapes, and the command that helps.
pub fn refusal<A: Store, B: Store>(
    error: &Error,
    doing: &str,
    (first, a): (&Path, &AnyFilter<A>),
    (second, b): (&Path, &AnyFilter<B>),
) -> Failure {
    let fold =
        |factor: u64, path: &Path| format!(": bloomgate fold --by {factor} -o SMALLER {}", crate::shell::path(path));
    let hint = match (error.kind(), a.folds_onto(b), b.folds_onto(a)) {
        (ErrorKind::Shape, Some(factor), _) => fold(factor, first),
        (ErrorKind::Shape, _, Some(factor)) => fold(factor, second),
        (ErrorKind::Shape | ErrorKind::Contract, ..) => {
            ", with the same --kind, --items, --rate, --keys, --hash and --seed (or --secret-file)".into()
        }
        _ => String::new(),
    };
    Failure::Message(format!("{} and {} cannot be {doing}: {error}{hint}", first.display(), second.display()))
}

fn report(args: &Args, inputs: &[Standing], result: &Standing, saved: &Saved) -> Outcome {
    if args.json {
        let object = result
            .json()
            .whole("file_bytes", saved.bytes)
            .text("address", &saved.address)
            .raw("inputs", &json::list(inputs.iter().map(|input| input.json().close())));
        object.print()?;
    }
    if !args.quiet {
        inputs.iter().for_each(Standing::tell_keys);
        result.tell_whole(saved.bytes);
        result.warn_if_over("build the parts again, each with --items for the keys of all");
    }
    Ok(DONE)
}
