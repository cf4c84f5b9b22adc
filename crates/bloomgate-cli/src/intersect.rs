//! `bloomgate intersect`: how much two sets share, from the bits of their filters; and the filter of what both have.

use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use bloomgate::AnyFilter;
use bloomgate::math::overlap::Overlap;

use crate::failure::{DONE, Failure, Outcome};
use crate::file::{self, Opened, Saved, in_any_place};
use crate::json::Object;
use crate::keys::Source;
use crate::merge::refusal;
use crate::number::{bytes, grouped, percent, short};
use crate::screen::{self, DIM, paint};
use crate::standing::{Standing, estimate, interval, share_interval};

/// Estimate how much two sets share, and make the filter of what both have
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate intersect monday.bloom tuesday.bloom              the sizes, without a key
  bloomgate intersect --json a.bloom b.bloom | jq .jaccard
  bloomgate intersect -o both.bloom a.bloom b.bloom

Without -o: how many keys each filter holds, how many both hold together and in common, and how alike they are (Jaccard: \
common by all), each with its 95 % interval, read off the bits.

With -o: the filter of the bits that both have. It answers \"maybe\" exactly where both filters do: to every key that is in \
both sets, always; to a key of one set alone as often as the other filter is wrong; to a key of neither more seldom than \
either. So it is a superset of what is common, and a little more than a filter built from the common keys.

For blocked, classic and partitioned filters, and scalable ones that have not grown, of one kind, size and hash: build them with the same --kind, --items, --rate, \
--keys, --hash and --seed (or --secret-file; the secret is needed then). The output may be one of the inputs.

Exit codes: 0 done, 2 error, and then nothing was written.")]
pub struct Args {
    /// The file to write; without it only the estimates are printed
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// One filter
    #[arg(value_name = "A")]
    one: PathBuf,
    /// The other
    #[arg(value_name = "B")]
    other: PathBuf,
    /// The secret of keyed filters
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Print a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No summary
    #[arg(short, long, requires = "output")]
    quiet: bool,
}

/// What was found and made.
struct Made {
    filter: AnyFilter,
    saved: Saved,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let secret = args.secret_file.as_deref();
    if let Some(output) = &args.output {
        file::check_target(output, &secret.map(|path| Source::File(path.into())).into_iter().collect::<Vec<_>>())?;
    }
    // Before anything is read: the output may be one of the inputs.
    let _lock = args.output.as_deref().map(file::lock).transpose()?;
    let (one, other) = (file::open_whole(&args.one, secret)?, file::open_whole(&args.other, secret)?);
    let (overlap, common) = in_any_place!(&one, a => in_any_place!(&other, b => {
        let refuse = |doing| move |error| refusal(&error, doing, (&args.one, a), (&args.other, b));
        let overlap = a.overlap(b).map_err(refuse("compared"))?;
        let common = match args.output {
            Some(_) => Some(a.intersection(b).map_err(refuse("intersected"))?),
            None => None,
        };
        (overlap, common)
    }));
    let rates = [rate(&args.one, &one)?, rate(&args.other, &other)?];
    let made = match (&args.output, common) {
        (Some(path), Some(filter)) => {
            let saved = file::save_locked(&filter, path, matches!(one, Opened::Loaded(_)))?;
            Some((path.as_path(), Made { filter, saved }))
        }
        _ => None,
    };
    report(args, &overlap, made.as_ref().map(|(path, made)| (*path, made)), rates)
}

/// The share of absent keys that a filter passes, by its bits.
fn rate(path: &Path, opened: &Opened) -> Result<f64, Failure> {
    in_any_place!(opened, filter => filter.estimated_rate()).map_err(|error| Failure::at(path, error))
}

fn report(args: &Args, overlap: &Overlap, made: Option<(&Path, &Made)>, rates: [f64; 2]) -> Outcome {
    if args.json {
        let text = in_json(args, overlap, made)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{text}")?;
        out.flush()?;
    }
    match made {
        // The estimates are what was asked for.
        None if !args.json => {
            let mut out = anstream::stdout().lock();
            out.write_all(table(args, overlap).as_bytes())?;
            out.flush()?;
        }
        Some((path, made)) if !args.quiet => {
            screen::tell(table(args, overlap).trim_end());
            let standing = Standing::of(path, &made.filter)?;
            screen::tell(format_args!(
                "{}: {} in {}, what both filters answer \"maybe\" to: every key that both hold; {} of the keys of the first \
                 alone, {} of those of the second alone, and {} of all others",
                path.display(),
                made.filter.kind(),
                bytes(made.saved.bytes),
                percent(rates[1]),
                percent(rates[0]),
                percent(standing.by_bits)
            ));
        }
        _ => {}
    }
    Ok(DONE)
}

/// The five numbers with their intervals.
fn table(args: &Args, overlap: &Overlap) -> String {
    let keys = |value: f64| grouped(value.round() as u64);
    let rows = [
        (args.one.display().to_string(), keys(overlap.a.value), interval(&overlap.a)),
        (args.other.display().to_string(), keys(overlap.b.value), interval(&overlap.b)),
        ("in one or the other".into(), keys(overlap.union.value), interval(&overlap.union)),
        ("in both".into(), keys(overlap.intersection.value), interval(&overlap.intersection)),
        ("Jaccard (common by all)".into(), short(overlap.jaccard.value), share_interval(&overlap.jaccard)),
    ];
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0);
    let digits = rows.iter().map(|(_, value, _)| value.chars().count()).max().unwrap_or(0).max(4);
    let mut out = format!("{}\n", paint(DIM, format!("{:<width$}  {:>digits$}  95 % interval", "", "keys")));
    for (name, value, interval) in rows {
        _ = writeln!(out, "{name:<width$}  {value:>digits$}  {interval}");
    }
    out
}

fn in_json(args: &Args, overlap: &Overlap, made: Option<(&Path, &Made)>) -> Result<String, Failure> {
    let object = Object::default().text("a", args.one.to_string_lossy()).text("b", args.other.to_string_lossy());
    let object = [
        ("keys_a", &overlap.a),
        ("keys_b", &overlap.b),
        ("union", &overlap.union),
        ("intersection", &overlap.intersection),
        ("jaccard", &overlap.jaccard),
    ]
    .into_iter()
    .fold(object, |object, (name, value)| estimate(object, name, value));
    Ok(match made {
        Some((path, made)) => {
            let result = Standing::of(path, &made.filter)?
                .json()
                .whole("file_bytes", made.saved.bytes)
                .text("address", &made.saved.address);
            object.raw("result", &result.close()).close()
        }
        None => object.close(),
    })
}
