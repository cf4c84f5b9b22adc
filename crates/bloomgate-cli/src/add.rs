//! `bloomgate add`: more keys for a filter that is there.

use bloomgate::{Digest, ErrorKind, Kind};

use crate::change::Change;
use crate::failure::{DONE, Failure, Outcome};
use crate::json::Object;
use crate::number;
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
    #[command(flatten)]
    change: Change,
    /// Compress the file where that pays
    #[arg(long)]
    compress: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let change = &args.change;
    let mut update = change.begin()?;
    let filter = &mut update.filter;
    if !filter.kind().takes_inserts() {
        return Err(Failure::at(
            &change.filter,
            format!("a {} filter is built once and takes no more keys: build it again of all keys", filter.kind()),
        ));
    }
    if filter.kind() == Kind::Rotating {
        return Err(Failure::at(
            &change.filter,
            "a rotating filter needs the clock of the program that keeps it: add keys there, with the library",
        ));
    }
    let refused = |error: bloomgate::Error| match error.kind() {
        ErrorKind::Full => Failure::at(
            &change.filter,
            format!("{error}; nothing was added: build a larger one of all keys, with --headroom for those to come"),
        ),
        _ => error.into(),
    };
    let before = filter.len();
    let mut new = 0;
    // A copy would take a place of its own: the different ones are found first.
    let mut once: Option<Vec<Digest>> = filter.kind().takes_removals().then(Vec::new);
    let contract = filter.contract().clone();
    let read = change.each(&contract, "adding", |batch| {
        match &mut once {
            Some(all) => all.extend_from_slice(&batch.digests),
            None => new += filter.insert_digests(&batch.digests).map_err(refused)?,
        }
        Ok(())
    })?;
    if let Some(mut all) = once {
        all.sort_unstable();
        all.dedup();
        new = all.len() as u64;
        for digests in all.chunks(8192) {
            filter.insert_digests(digests).map_err(refused)?;
        }
    }
    let saved = update.save(args.compress)?;
    let filter = &update.filter;
    let written = change.written();
    if change.json {
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
    if !change.quiet {
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
