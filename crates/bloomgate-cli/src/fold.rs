//! `bloomgate fold`: a filter made smaller after it was filled, exactly as if it had been built so.

use std::path::{Path, PathBuf};

use bloomgate::bits::Store;
use bloomgate::{AnyFilter, Error, ErrorKind};

use crate::failure::{DONE, Failure, Outcome};
use crate::file::{self, Opened, Saved, in_any_place};
use crate::keys::Source;
use crate::number::{self, bytes, counted};
use crate::screen;
use crate::standing::Standing;

/// The most halvings that can be asked for: a filter of 2^40 lines does not exist.
const MOST_TIMES: u32 = 31;

/// Make a filter smaller, exactly as if it had been built so
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "bloomgate fold [OPTIONS] --fit <FILTER>\n       \
                      bloomgate fold [OPTIONS] --times <N>|--by <FACTOR>|--to-rate <P> <FILTER>",
    after_long_help = "\
Examples:
  bloomgate fold --fit urls.bloom                  as small as its keys and its promise allow
  bloomgate fold --to-rate 5% -o small.bloom urls.bloom
  bloomgate fold --times 3 urls.bloom              an eighth

Neighbouring lines of bits fall together, and the result is the very file that the same keys would have made at that \
size: no key is lost, and the rate rises with every fold. For blocked, classic and partitioned filters, and only by what \
divides their size: --fit and --to-rate find the largest fold that does and that keeps the rate for the keys that are in; \
--times folds in half as often as you say, whatever the rate, and warns where the promise does not hold any more. If \
nothing can be folded at that rate, the file stays as it is.

The file is replaced once the new one is whole, unless -o names another.

Exit codes: 0 done, 2 error, and then nothing was changed."
)]
pub struct Args {
    /// The filter
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// The file to write; without it the filter is replaced
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    how: How,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No summary
    #[arg(short, long)]
    quiet: bool,
}

/// How far to fold.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct How {
    /// Fold in half so many times, 1 to 31
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_TIMES)))]
    times: Option<u32>,
    /// Fold to a FACTOR-th of the size, 2 or more, which must divide it
    #[arg(long, value_name = "FACTOR", value_parser = clap::value_parser!(u32).range(2..))]
    by: Option<u32>,
    /// Fold as far as the keys that are in it keep this rate, which is promised from then on
    #[arg(long, value_name = "P", value_parser = number::rate)]
    to_rate: Option<f64>,
    /// Fold as far as the keys that are in it keep the rate that was promised
    #[arg(long)]
    fit: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let secret = args.secret_file.as_deref();
    let output = args.output.as_deref().unwrap_or(&args.filter);
    file::check_filter(&args.filter)?;
    file::check_target(output, &secret.map(|path| Source::File(path.into())).into_iter().collect::<Vec<_>>())?;
    let _lock = file::lock(output)?;
    let opened = file::open_whole(&args.filter, secret)?;
    let compress = matches!(opened, Opened::Loaded(_));
    in_any_place!(&opened, filter => fold(args, filter, output, compress))
}

fn fold<S: Store>(args: &Args, filter: &AnyFilter<S>, output: &Path, compress: bool) -> Outcome {
    let before = Standing::of(&args.filter, filter)?;
    let file_before = file::length(&args.filter)?;
    let refuse = |error| refusal(&args.filter, filter, &error);
    let smaller = match (&args.how.times, &args.how.by, &args.how.to_rate) {
        (Some(times), ..) => filter.folded(1 << times),
        (_, Some(factor), _) => filter.folded(*factor),
        (.., Some(rate)) => filter.fit(*rate),
        _ => filter.fit(filter.promised_rate()),
    }
    .map_err(refuse)?;
    let Some(factor) = filter.folds_onto(&smaller) else {
        // Already as small as it can be: a copy, or nothing to do.
        let saved = match args.output {
            Some(_) => Some(file::save_locked(filter, output, compress)?),
            None => None,
        };
        return report(args, output, &Folded { before, after: None, factor: 1, file_before, saved });
    };
    let saved = file::save_locked(&smaller, output, compress)?;
    let after = Some((Standing::of(output, &smaller)?, smaller.halvings().unwrap_or(0)));
    report(args, output, &Folded { before, after, factor, file_before, saved: Some(saved) })
}

/// Why it cannot be folded so, and how often it can be halved.
fn refusal<S: Store>(path: &Path, filter: &AnyFilter<S>, error: &Error) -> Failure {
    // What a program would do about it is no help here.
    let error_text = error.to_string();
    let reason = error_text.split("; build it with fold_levels").next().unwrap_or(&error_text);
    let halvings = match filter.halvings() {
        Some(_) if error.kind() != ErrorKind::InvalidParameter => String::new(),
        Some(0) => "; it cannot be halved, its size is odd".into(),
        Some(times) => format!("; it can be halved {}", counted(u64::from(times), "time")),
        None => String::new(),
    };
    Failure::at(path, format!("{reason}{halvings}"))
}

/// What came of it.
struct Folded {
    before: Standing,
    /// Nothing if it was as small as it can be.
    after: Option<(Standing, u32)>,
    factor: u64,
    file_before: u64,
    saved: Option<Saved>,
}

fn report(args: &Args, output: &Path, folded: &Folded) -> Outcome {
    let Folded { before, after, factor, file_before, saved } = folded;
    let file_after = saved.as_ref().map_or(*file_before, |saved| saved.bytes);
    if args.json {
        let now = after.as_ref().map_or(before, |(after, _)| after);
        let object = now
            .json()
            .whole("folded_by", *factor)
            .flag("written", saved.is_some())
            .whole("file_bytes", file_after)
            .raw("before", &before.json().whole("file_bytes", *file_before).close());
        let object = match saved {
            Some(saved) => object.text("address", &saved.address),
            None => object.raw("address", "null"),
        };
        object.print()?;
    }
    if args.quiet {
        return Ok(DONE);
    }
    match after {
        None => screen::tell(format_args!(
            "{}: it cannot be folded any further at this rate: {}, {}{}",
            args.filter.display(),
            bytes(*file_before),
            before.rates(),
            if saved.is_some() { format!("; copied to {}", output.display()) } else { "; nothing was changed".into() }
        )),
        Some((after, halvings)) => {
            let more = match halvings {
                0 => "it cannot be halved any more".into(),
                times => format!("it can be halved {} more", counted(u64::from(*times), "time")),
            };
            screen::tell(format_args!(
                "{}: folded by {}, {} to {}; {more}",
                output.display(),
                number::grouped(*factor),
                bytes(*file_before),
                bytes(file_after)
            ));
            screen::tell(format_args!("before: {}", before.keys_and_rates()));
            screen::tell(format_args!("now: {}", after.keys_and_rates()));
            after.warn_if_over("fold with --to-rate to stay within a rate");
        }
    }
    Ok(DONE)
}
