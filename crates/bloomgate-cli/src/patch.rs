//! `bloomgate patch`: a filter file brought up to date by a delta, or left exactly as it was.

use std::fmt::Display;
use std::io::Read;
use std::path::{Path, PathBuf};

use bloomgate::Address;
use bloomgate::format::delta::Delta;
use bloomgate::format::inspect;

use crate::failure::{DONE, Failure, Outcome};
use crate::file;
use crate::json::Object;
use crate::keys::Source;
use crate::number::bytes;
use crate::screen;

/// Bring a filter up to date with a delta
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate patch urls.bloom tuesday.delta
  bloomgate patch monday.bloom tuesday.delta -o tuesday.bloom
  curl https://example.org/tuesday.delta | bloomgate patch urls.bloom -

The delta (see `bloomgate diff`) says by content address which file it is for and which it makes. The one is checked before, \
the other when it is made and again on the disk: a delta for another file, out of order, or applied a second time is \
refused, and the filter stays as it was. The file is replaced once the new one is whole, unless -o names another. No \
secret is needed.

Exit codes: 0 done, 2 error, and then nothing was changed.")]
pub struct Args {
    /// The filter
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// The delta; - is standard input
    #[arg(value_name = "DELTA")]
    delta: PathBuf,
    /// The file to write; without it the filter is replaced
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No summary
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let output = args.output.as_deref().unwrap_or(&args.filter);
    file::check_target(output, &[Source::File(args.delta.clone())])?;
    let delta = read_delta(&args.delta)?;
    let _lock = file::lock(output)?;
    check_base(args, &delta, Address::of(&file::read(&args.filter)?))?;
    delta.apply_from_file(&args.filter, output)?;
    // What is on the disk now, and not what was meant to be.
    Address::of(&file::read(output)?).expect(delta.result()).map_err(|error| Failure::at(output, error))?;
    report(args, output, &delta)
}

fn read_delta(path: &Path) -> Result<Delta, Failure> {
    if path.as_os_str() != "-" {
        file::check_filter(path)?;
        return Ok(Delta::open(path)?);
    }
    let from_pipe = |error: &dyn Display| Failure::Message(format!("standard input: {error}"));
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).map_err(|error| from_pipe(&error))?;
    Delta::from_bytes(&bytes).map_err(|error| from_pipe(&error))
}

/// What the delta is called in messages.
fn name(args: &Args) -> String {
    if args.delta.as_os_str() == "-" { "the delta".into() } else { args.delta.display().to_string() }
}

/// Refuses a file that the delta is not for, and says what it is then.
fn check_base(args: &Args, delta: &Delta, found: Address) -> Result<(), Failure> {
    if found == delta.base() {
        return Ok(());
    }
    if found == delta.result() {
        return Err(Failure::at(
            &args.filter,
            format!("{} was applied already: this is the file {found} that it makes; nothing was changed", name(args)),
        ));
    }
    // A damaged file is like no other, and which deltas it missed does not matter any more.
    if let Some(damage) = damage(&args.filter) {
        return Err(Failure::Message(format!("{damage}; nothing was changed")));
    }
    Err(Failure::at(
        &args.filter,
        format!(
            "{} is for another file: it makes {} of {}, and this is {found}; apply the deltas in their order, each to the \
             file that the one before made, or fetch the whole file; nothing was changed",
            name(args),
            delta.result(),
            delta.base(),
        ),
    ))
}

/// What is broken in a file, with its name, if it is not merely another one.
fn damage(path: &Path) -> Option<String> {
    match inspect(path) {
        Ok(description) => {
            let damage = description.sections.into_iter().find_map(|section| section.damage);
            damage.map(|damage| format!("{}: {damage}", path.display()))
        }
        Err(error) => Some(error.to_string()),
    }
}

fn report(args: &Args, output: &Path, delta: &Delta) -> Outcome {
    if args.json {
        let object = Object::default()
            .text("path", output.to_string_lossy())
            .text("from", delta.base().to_string())
            .text("address", delta.result().to_string())
            .whole("file_bytes", delta.result_len());
        object.print()?;
    }
    if !args.quiet {
        screen::tell(format_args!(
            "{}: {}, now the file {} (it was {})",
            output.display(),
            bytes(delta.result_len()),
            delta.result(),
            delta.base()
        ));
    }
    Ok(DONE)
}
