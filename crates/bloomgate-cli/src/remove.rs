//! `bloomgate remove`: keys that go again, where the kind can.

use std::collections::HashSet;

use crate::change::Change;
use crate::failure::{DONE, Failure, NONE, Outcome};
use crate::json::Object;
use crate::number;
use crate::screen;

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
    #[command(flatten)]
    change: Change,
    /// Change nothing if one of the keys is certainly absent
    #[arg(long)]
    strict: bool,
    /// Remove a key as often as it comes
    #[arg(long)]
    every: bool,
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let change = &args.change;
    let mut update = change.begin()?;
    let filter = &mut update.filter;
    if !filter.kind().takes_removals() {
        return Err(Failure::at(
            &change.filter,
            format!(
                "a {} filter cannot remove keys: build it again of the keys that stay, or with --kind cuckoo, quotient or \
                 counting",
                filter.kind()
            ),
        ));
    }
    let mut gone = HashSet::new();
    let (mut removed, mut absent) = (0, 0);
    let contract = filter.contract().clone();
    let read = change.each(&contract, "removing", |batch| {
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
            if absent <= MOST_NAMED && !change.quiet {
                let key = String::from_utf8_lossy(keys.keys[at]);
                screen::complain(format_args!("{}: {key:?} is not in the filter", keys.place(at)));
            }
        }
        Ok(())
    })?;
    if args.strict && absent > 0 {
        return Err(Failure::at(
            &change.filter,
            format!(
                "{} certainly not there, and --strict was given: nothing was removed",
                if absent == 1 { "1 key is".into() } else { format!("{} keys are", number::grouped(absent)) }
            ),
        ));
    }
    let saved = update.save(false)?;
    let written = change.written();
    if change.json {
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
    if !change.quiet {
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
