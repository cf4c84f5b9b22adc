//! `bloomgate add`: more keys for a filter that is there.

use std::path::PathBuf;

use bloomgate::foreign::Form;
use bloomgate::{Digest, ErrorKind, Kind};

use crate::conveyor::Conveyor;
use crate::digest;
use crate::failure::{DONE, Failure, Outcome};
use crate::file::{self, Update};
use crate::json::Object;
use crate::keys::{Reading, Source, Strange, bytes_of};
use crate::number;
use crate::progress::Progress;
use crate::screen::{self, WARN, paint};

/// Add keys to a filter
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate add urls.bloom new-urls.txt
  echo https://example.org/ | bloomgate add urls.bloom
  bloomgate add urls.bloom -o urls-tomorrow.bloom new-urls.txt

The filter is loaded, filled and written anew beside the old one, then renamed: whatever goes wrong, the old file stays \
as it was, and who reads it meanwhile reads the old one. Two that add to a filter at once take turns.

Past its capacity a filter's rate rises, and a warning says to what (a scalable filter grows, a cuckoo filter refuses): \
leave room with `bloomgate build --headroom`. Kinds that can remove keys count a key as often as it is added, but in one \
run each different key is added once. Fuse and ribbon filters are built once and take no more keys.

Exit codes: 0 done, 2 error (then nothing has changed).")]
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
    /// Read the filter as the form of another system (see check --help)
    #[arg(long = "as", value_name = "FORM", value_parser = file::form)]
    form: Option<Form>,
    /// The secret of a keyed filter
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Compress the file where that pays
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

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let sources = Source::all(&args.files);
    check_output(args.output.as_ref(), &sources, args.secret_file.as_ref())?;
    let mut update = Update::begin(&args.filter, args.output.as_deref(), args.form, args.secret_file.as_deref())?;
    let filter = &mut update.filter;
    if !filter.kind().takes_inserts() {
        return Err(Failure::at(
            &args.filter,
            format!("a {} filter is built once and takes no more keys: build it again of all keys", filter.kind()),
        ));
    }
    if filter.kind() == Kind::Rotating {
        return Err(Failure::at(
            &args.filter,
            "a rotating filter needs the clock of the program that keeps it: add keys there, with the library",
        ));
    }
    digest::refuse_given(filter.contract())?;
    let progress = Progress::new("adding", bytes_of(&sources)?, args.quiet);
    let mut conveyor = Conveyor::start(&sources, &args.reading, filter.contract());
    let before = filter.len();
    let (mut read, mut new) = (0, 0);
    // A copy would take a place of its own: the different ones are found first.
    let mut once: Option<Vec<Digest>> = filter.kind().takes_removals().then(Vec::new);
    let refused = |error: bloomgate::Error| match error.kind() {
        ErrorKind::Full => Failure::at(
            &args.filter,
            format!("{error}; nothing was added: build a larger one of all keys, with --headroom for those to come"),
        ),
        _ => error.into(),
    };
    let mut strange = Strange::default();
    while let Some(batch) = conveyor.next()? {
        if batch.begins {
            strange.look(&args.reading.cut, &batch.block.keys());
        }
        read += batch.digests.len() as u64;
        progress.advance(batch.block.consumed());
        match &mut once {
            Some(all) => all.extend_from_slice(&batch.digests),
            None => new += filter.insert_digests(&batch.digests).map_err(refused)?,
        }
        conveyor.recycle(batch);
    }
    if let Some(mut all) = once {
        all.sort_unstable();
        all.dedup();
        new = all.len() as u64;
        for digests in all.chunks(8192) {
            filter.insert_digests(digests).map_err(refused)?;
        }
    }
    drop(progress);
    let saved = update.save(args.compress)?;
    let filter = &update.filter;
    let written = args.output.as_ref().unwrap_or(&args.filter);
    if args.json {
        let object = Object::default()
            .text("path", written.to_string_lossy())
            .text("kind", filter.kind().name())
            .whole("keys_read", read)
            .whole("certainly_new", new)
            .whole("keys_before", before)
            .whole("keys", filter.len())
            .whole("capacity", filter.capacity())
            .number("promised_rate", filter.promised_rate())
            .number("expected_rate", filter.expected_rate())
            .whole("file_bytes", saved.bytes)
            .text("address", &saved.address);
        object.print()?;
    }
    if !args.quiet {
        for text in conveyor.skipped() {
            screen::note(text);
        }
        strange.tell();
        screen::tell(format_args!(
            "{}: {} read, {} {}; {} of {} in it; expected rate {} ({} promised)",
            written.display(),
            number::counted(read, "key"),
            number::grouped(new),
            if filter.kind().takes_removals() { "different added" } else { "certainly new" },
            number::grouped(filter.len()),
            number::grouped(filter.capacity()),
            number::percent(filter.expected_rate()),
            number::percent(filter.promised_rate()),
        ));
        if filter.len() > filter.capacity() && filter.expected_rate() > filter.promised_rate() * 1.001 {
            screen::tell(format_args!(
                "{} it was made for {} and holds more: the rate is above the promise; build it again of all keys, with \
                 --headroom for those to come",
                paint(WARN, "warning:"),
                number::counted(filter.capacity(), "key"),
            ));
        }
    }
    Ok(DONE)
}

/// Refuses an output that cannot or must not be written to: what is read is not replaced, neither the keys nor the secret,
/// without which no keyed filter can be opened any more.
pub fn check_output(
    output: Option<&PathBuf>,
    sources: &[Source],
    secret_file: Option<&PathBuf>,
) -> Result<(), Failure> {
    let Some(output) = output else { return Ok(()) };
    let secret_file = secret_file.into_iter().cloned().map(Source::File);
    file::check_target(output, &sources.iter().cloned().chain(secret_file).collect::<Vec<_>>())
}
