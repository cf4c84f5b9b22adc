//! What there is to tell of a filter in the form of another system.

use std::io::Write;

use bloomgate::format::recognise;
use bloomgate::{AnyFilter, Kind};

use super::{Args, between, meaning};
use crate::failure::{DONE, Failure, Outcome};
use crate::file;
use crate::json::Object;
use crate::number::{bytes, grouped, percent};
use crate::screen::{DIM, HEAD, paint, wrapped};

/// The filter, if it is in the form of another system.
pub fn read(args: &Args) -> Result<Option<AnyFilter>, Failure> {
    if let Some(form) = args.form {
        return file::read_foreign(&args.filter, form).map(Some);
    }
    match recognise(&args.filter)? {
        Some(form) => file::read_foreign(&args.filter, form).map(Some),
        None => Ok(None),
    }
}

/// A foreign form has no sections and no checksums: what there is to tell comes from its header and its cells.
pub fn show(args: &Args, filter: &AnyFilter) -> Outcome {
    let name = args.filter.display();
    let length = std::fs::metadata(&args.filter).map_err(|error| Failure::at(&args.filter, error))?.len();
    let estimate = filter.approximate_count();
    let rate = filter.estimated_rate()?;
    let text = if args.json {
        let object = Object::default()
            .text("path", args.filter.to_string_lossy())
            .text("kind", filter.kind().name())
            .flag("foreign", true)
            .text("contract", filter.contract().describe())
            .whole("capacity", filter.capacity())
            .flag("capacity_is_guessed", guessed(filter.kind()).is_some())
            .whole("counted", filter.len())
            .number("approximate_count", estimate.value)
            .number("approximate_count_low", estimate.low)
            .maybe_number("approximate_count_high", estimate.high)
            .number("promised_rate", filter.promised_rate())
            .number("expected_rate", filter.expected_rate())
            .number("estimated_rate", rate)
            .number("fill_ratio", filter.fill_ratio())
            .whole("bytes", filter.size_in_bytes())
            .whole("file_bytes", length);
        object.close() + "\n"
    } else if args.verify {
        format!("{name}: {} form, {}; it has no checksums, and its lengths agree\n", filter.kind(), bytes(length))
    } else {
        let mut out = format!("{}\n", paint(HEAD, name));
        let mut row = |name: &str, text: String| {
            let label = format!("  {name:<12}");
            out.push_str(&wrapped(&label, &text).replacen(&label, &paint(DIM, &label), 1));
        };
        row("kind", format!("{}, the form of another system", filter.kind()));
        row("a \"no\"", meaning(filter.kind()).into());
        let capacity = grouped(filter.capacity());
        let (promised, expected) = (percent(filter.promised_rate()), percent(filter.expected_rate()));
        let by_bits = percent(rate);
        match guessed(filter.kind()) {
            // Neither the number of keys nor what it was made for is in its header.
            Some(when) => {
                row("keys", format!("{}; the form does not say for how many it was made", between(&estimate)));
                row("rate", format!("{by_bits} by the bits; {promised} with {capacity} keys, {when}"));
            }
            None => {
                row("keys", format!("{} of {capacity}", grouped(filter.len())));
                row("by the bits", between(&estimate));
                row("rate", format!("{promised} at its capacity, {expected} expected, {by_bits} by the bits"));
            }
        }
        row("fill", percent(filter.fill_ratio()));
        row("size", format!("{}; the file {}", bytes(filter.size_in_bytes()), bytes(length)));
        row("hash", format!("{}: no secret, so strangers can choose keys against it", filter.contract().describe()));
        row("file", "no checksums: a flipped bit cannot be noticed".into());
        out
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(DONE)
}

/// What the capacity of a form stands for that writes none down; nothing for those that do.
fn guessed(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::BfV1 | Kind::Guava => Some("when half of its bits are set"),
        Kind::Parquet => Some("the rate that is usual"),
        _ => None,
    }
}
