//! How answers are printed: keys, labels, JSON or counts.

use std::io::Write;

use super::{Batch, Check};
use crate::failure::Failure;
use crate::json::{Object, list, text};

/// The words for yes: "maybe", or "present" when it was confirmed.
fn yes(check: &Check<'_>) -> &'static str {
    if check.truth.is_some() { "present" } else { "maybe" }
}

/// The names of the filters that may have a key, when there are several filters.
fn holders(check: &Check<'_>, at: usize, found: bool) -> Option<Vec<String>> {
    let filters = check.panel.filters();
    let name = |number: usize| filters[number].path.display().to_string();
    // What was looked up and is not there is in none of them.
    let none = check.truth.is_some() && !found;
    (filters.len() > 1).then(|| if none { Vec::new() } else { check.answers.holders(at).map(name).collect() })
}

/// Prints one key with what was asked for.
pub fn key(check: &Check<'_>, batch: &Batch<'_>, at: usize, found: bool, out: &mut Vec<u8>) {
    let args = check.args;
    let label = if found { yes(check) } else { "absent" };
    let key = batch.shown[at];
    // Passwords stay where they are unless somebody wants to see them.
    let hidden = args.password && !args.show;
    if args.json {
        let mut object = Object::default().text("answer", label).whole("line", (batch.line)(at));
        if check.several_sources {
            object = object.text("place", (batch.place)(at));
        }
        if let Some(names) = holders(check, at, found) {
            object = object.raw("filters", &list(names.iter().map(|name| text(name))));
        }
        // JSON is text: a key that is not goes in hexadecimal, under another name so that nobody takes it for the key.
        object = match std::str::from_utf8(key) {
            _ if hidden => object,
            Ok(text) => object.text("key", text),
            Err(_) => object.text("key_hex", key.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
        };
        out.extend_from_slice(object.close().as_bytes());
        out.push(b'\n');
        return;
    }
    if args.label {
        out.extend_from_slice(label.as_bytes());
        out.push(b'\t');
        if let Some(names) = holders(check, at, found) {
            out.extend_from_slice(names.join(",").as_bytes());
            out.push(b'\t');
        }
    }
    if args.password {
        let place = if check.several_sources { (batch.place)(at) } else { (batch.line)(at).to_string() };
        out.extend_from_slice(place.as_bytes());
        if !hidden {
            out.push(b'\t');
        }
    }
    if !hidden {
        out.extend_from_slice(key);
    }
    out.push(args.reading.cut.separator());
}

/// Prints how many there were.
pub fn counts(check: &Check<'_>) -> Result<(), Failure> {
    let (args, tally) = (check.args, &check.tally);
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut object = Object::default().whole(yes(check), tally.maybe).whole("absent", tally.absent);
        if check.truth.is_some() {
            object = object.whole("false_maybes", tally.false_maybes);
        }
        writeln!(out, "{}", object.whole("refused", tally.refused).close())?;
    } else if args.label {
        writeln!(out, "{}\t{}\nabsent\t{}", yes(check), tally.maybe, tally.absent)?;
    } else {
        writeln!(out, "{}", if args.absent { tally.absent } else { tally.maybe })?;
    }
    out.flush()?;
    Ok(())
}
