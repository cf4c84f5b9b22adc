//! `bloomgate remove`: keys that go again, where the kind can.

use std::path::PathBuf;

use bloomgate::foreign::Form;

use crate::add::check_output;
use crate::conveyor::Conveyor;
use crate::digest;
use crate::failure::{DONE, Failure, NONE, Outcome};
use crate::file::{self, Update};
use crate::json::Object;
use crate::keys::{Reading, Source, Strange, bytes_of};
use crate::number;
use crate::progress::Progress;
use crate::screen::{self};

/// Absent keys that are named before the rest is only counted.
const MOST_NAMED: u64 = 10;

/// Remove keys from a cuckoo, quotient or counting filter
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate remove users.bloom left.txt
  bloomgate remove --strict users.bloom left.txt     nothing changes if one of them is not there

Remove only keys that were added: a key that never was may share its fingerprint with one that is there, and would take \
that away, which makes its \"no\" wrong. A key that is certainly absent is noticed, told of and left alone. In one run \
each different key is removed once; --every removes a key as often as it comes, for filters that were filled so.

The filter is written anew beside the old one, then renamed: whatever goes wrong, the old file stays as it was.

Exit codes: 0 all were removed, 1 some were certainly not there, 2 error (then nothing has changed).")]
pub struct Args {
    /// The filter
    #[arg(value_name = "FILTER")]
    filter: PathBuf,
    /// Files of keys, one a line; - or none is standard input
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write the result here, and leave the filter as it is
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Change nothing if one of the keys is certainly absent
    #[arg(long)]
    strict: bool,
    /// Remove a key as often as it comes
    #[arg(long)]
    every: bool,
    /// Read the filter as the form of another system: rediscuckoo
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
    /// Print the summary as a JSON object on standard output
    #[arg(long)]
    json: bool,
    /// No progress bar and no summary
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let sources = Source::all(&args.files);
    check_output(args.output.as_ref(), &sources, args.secret_file.as_ref())?;
    let mut update = Update::begin(&args.filter, args.output.as_deref(), args.form, args.secret_file.as_deref())?;
    let filter = &mut update.filter;
    if !filter.kind().takes_removals() {
        return Err(Failure::at(
            &args.filter,
            format!(
                "a {} filter cannot remove keys: build it again of the keys that stay, or with --kind cuckoo, quotient or \
                 counting",
                filter.kind()
            ),
        ));
    }
    digest::refuse_given(filter.contract())?;
    let progress = Progress::new("removing", bytes_of(&sources)?, args.quiet);
    let mut conveyor = Conveyor::start(&sources, &args.reading, filter.contract());
    let mut gone = std::collections::HashSet::new();
    let (mut read, mut removed, mut absent) = (0u64, 0u64, 0u64);
    let mut strange = Strange::default();
    while let Some(batch) = conveyor.next()? {
        if batch.begins {
            strange.look(&args.reading.cut, &batch.block.keys());
        }
        read += batch.digests.len() as u64;
        progress.advance(batch.block.consumed());
        let keys = batch.block.keys();
        for (at, &digest) in batch.digests.iter().enumerate() {
            if !args.every && !gone.insert(digest) {
                continue;
            }
            if filter.remove_digest(digest)? {
                removed += 1;
                continue;
            }
            absent += 1;
            if absent <= MOST_NAMED && !args.quiet {
                let key = String::from_utf8_lossy(keys.keys[at]);
                screen::complain(format_args!("{}: {key:?} is not in the filter", keys.place(at)));
            }
        }
        drop(keys);
        // Without it the readers wait for ever for a batch to fill.
        conveyor.recycle(batch);
    }
    drop(progress);
    if !args.quiet {
        for text in conveyor.skipped() {
            screen::note(text);
        }
        strange.tell();
    }
    if args.strict && absent > 0 {
        return Err(Failure::at(
            &args.filter,
            format!(
                "{} certainly not there, and --strict was given: nothing was removed",
                if absent == 1 { "1 key is".into() } else { format!("{} keys are", number::grouped(absent)) }
            ),
        ));
    }
    let saved = update.save(false)?;
    let written = args.output.as_ref().unwrap_or(&args.filter);
    if args.json {
        let object = Object::default()
            .text("path", written.to_string_lossy())
            .text("kind", update.filter.kind().name())
            .whole("keys_read", read)
            .whole("removed", removed)
            .whole("absent", absent)
            .whole("keys", update.filter.len())
            .whole("file_bytes", saved.bytes)
            .text("address", &saved.address);
        object.print()?;
    }
    if !args.quiet {
        for text in conveyor.skipped() {
            screen::note(text);
        }
        screen::tell(format_args!(
            "{}: {} read, {} removed, {} certainly not there; {} left",
            written.display(),
            number::counted(read, "key"),
            number::grouped(removed),
            number::grouped(absent),
            number::grouped(update.filter.len()),
        ));
    }
    Ok(if absent == 0 { DONE } else { NONE })
}
