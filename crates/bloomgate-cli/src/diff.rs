//! `bloomgate diff`: what makes a new filter file of an old one, for everyone who has the old one already.

use std::io::Write;
use std::path::{Path, PathBuf};

use bloomgate::format::delta::{Delta, Method};
use bloomgate::{Error, ErrorKind};

use crate::failure::{DONE, Failure, Outcome};
use crate::file;
use crate::keys::Source;
use crate::number::{bytes, percent};
use crate::screen::{self, WARN, paint};

/// Write what makes a new filter file of an old one
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate diff monday.bloom tuesday.bloom -o tuesday.delta      the publisher
  bloomgate patch urls.bloom tuesday.delta                        every reader, who has monday's
  bloomgate diff monday.bloom tuesday.bloom -o - | ssh host bloomgate patch urls.bloom -
  bloomgate info tuesday.delta                                    which file it is for

Of the forms that a delta can have (the bits that changed, or the whole new file) the smallest is taken. It pays where a \
filter is published again with a few keys more or fewer, at the same size and with the same hash: for a million keys and a \
thousand new ones 7 kB instead of 1.27 MB. Add to the old filter (`bloomgate add`) or build both with the same --items: \
filters of other sizes differ in every bit.

A delta names the content address of the file that it starts from and of the one that it makes, and was tried once on the \
old file before it is written. No secret is needed. Files of other systems are wrapped into our own first, with \
`bloomgate convert --to bloomgate`; compressed files differ everywhere after their first change.

Exit codes: 0 done, 2 error.")]
pub struct Args {
    /// The filter that the readers have
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The filter that they are to have
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// The delta to write; - is standard output
    #[arg(short, long, value_name = "DELTA")]
    output: PathBuf,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No summary
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let piped = args.output.as_os_str() == "-";
    if piped && args.json {
        return Err(Failure::Message(
            "standard output takes the delta or the JSON object: write the delta to a file".into(),
        ));
    }
    if !piped {
        file::check_target(&args.output, &[Source::File(args.old.clone()), Source::File(args.new.clone())])?;
    }
    let (old, new) = (file::read(&args.old)?, file::read(&args.new)?);
    let delta = Delta::between(&old, &new).map_err(|error| refusal(args, &error))?;
    let bytes = delta.to_bytes()?;
    if piped {
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()?;
    } else {
        delta.save(&args.output)?;
    }
    report(args, &delta, bytes.len() as u64)
}

/// The library names the old file and the new one; here they have names.
fn refusal(args: &Args, error: &Error) -> Failure {
    let message = error.to_string();
    let (path, message) = match (message.strip_prefix("the old file: "), message.strip_prefix("the new file: ")) {
        (Some(message), _) => (&args.old, message),
        (_, Some(message)) => (&args.new, message),
        _ => return Failure::at(&args.new, format!("no delta from {}: {error}", args.old.display())),
    };
    let hint = match error.kind() {
        ErrorKind::NotAFilter if is_foreign(path) => {
            "; the form of another system has no deltas: wrap it first, with `bloomgate convert --to bloomgate`"
        }
        ErrorKind::Corrupt | ErrorKind::Truncated => ": fetch or build the file again",
        _ => "",
    };
    Failure::at(path, format!("{message}{hint}"))
}

fn is_foreign(path: &Path) -> bool {
    bloomgate::format::recognise(path).is_ok_and(|form| form.is_some())
}

/// What a method is, for people.
pub fn meaning(method: Method) -> &'static str {
    match method {
        Method::Bits => "the bits that changed",
        Method::Digests => "the digests of the keys that were added",
        _ => "the whole new file",
    }
}

fn report(args: &Args, delta: &Delta, length: u64) -> Outcome {
    let share = length as f64 / delta.result_len().max(1) as f64;
    if args.json {
        let object = crate::delta_info::json(&args.output, delta, length);
        object.print()?;
    }
    if args.quiet {
        return Ok(DONE);
    }
    screen::tell(format_args!(
        "{}: {}, {} of the new file's {}; the smallest form is {}",
        if args.output.as_os_str() == "-" { "the delta".into() } else { args.output.display().to_string() },
        bytes(length),
        percent(share),
        bytes(delta.result_len()),
        meaning(delta.method()),
    ));
    if delta.base() == delta.result() {
        screen::tell(format_args!("{} both files are the same: there is nothing to send", paint(WARN, "note:")));
    } else if delta.method() == Method::Whole {
        screen::tell(format_args!(
            "{} the files differ in too many bits for anything less: were both built for the same --items, --rate and \
             --seed, and not compressed?",
            paint(WARN, "note:")
        ));
    }
    Ok(DONE)
}
