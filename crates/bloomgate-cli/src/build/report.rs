//! What a build tells when it is done, and what the user should know before the filter is used.

use bloomgate::{AnyFilter, Kind};

use super::Args;
use super::fill::Built;
use crate::failure::{DONE, Outcome};
use crate::file;
use crate::json::Object;
use crate::number;
use crate::screen::{self, WARN, paint};

/// Tells of a filter that was built and saved.
pub fn report(args: &Args, built: &Built, saved: &file::Saved) -> Outcome {
    let Built { filter, read, different, strange, skipped } = built;
    // What the bits say, unless it was counted: no fewer than were certainly new (a counting filter counts every
    // insertion instead), and no more than were read.
    let certain = if filter.kind().takes_removals() { 0 } else { filter.len() };
    let estimate = filter.approximate_count();
    // When every bit is set, any larger number of keys would look the same.
    let (by_bits, at_least) = match estimate.high {
        Some(_) => (estimate.value, false),
        None => (estimate.low, different.is_none()),
    };
    let distinct = different.unwrap_or_else(|| (by_bits.round() as u64).max(certain).min(*read));
    // Past its capacity a filter counts few of the keys as new, and the rate expected of those would flatter it.
    let by_the_bits = if filter.len() > filter.capacity() { Some(filter.estimated_rate()?) } else { None };
    let bits_per_key = filter.size_in_bytes() as f64 * 8.0 / distinct.max(1) as f64;
    if args.json {
        let object = Object::default()
            .text("path", args.output.to_string_lossy())
            .text("kind", filter.kind().name())
            .whole("keys_read", *read)
            .whole("distinct", distinct)
            .flag("distinct_is_exact", different.is_some())
            .flag("distinct_is_lower_bound", at_least)
            .whole("capacity", filter.capacity())
            .whole("filter_bytes", filter.size_in_bytes())
            .whole("file_bytes", saved.bytes)
            .number("bits_per_key", bits_per_key)
            .number("promised_rate", filter.promised_rate())
            .number("expected_rate", filter.expected_rate())
            .maybe_number("estimated_rate", by_the_bits)
            .text("contract", filter.contract().describe())
            .text("address", &saved.address);
        object.print()?;
    }
    if !args.quiet {
        let rate = match by_the_bits {
            Some(rate) => format!("rate by the bits {}", number::percent(rate)),
            None => format!("expected rate {}", number::percent(filter.expected_rate())),
        };
        let about = match different {
            Some(_) => "",
            None if at_least => "at least ",
            None => "about ",
        };
        screen::tell(format_args!(
            "{}: {} read, {about}{} different; {} in {}, {:.2} bits/key; {rate} ({} promised)",
            args.output.display(),
            number::counted(*read, "key"),
            number::grouped(distinct),
            filter.kind(),
            number::bytes(saved.bytes),
            bits_per_key,
            number::percent(filter.promised_rate()),
        ));
        for text in skipped {
            screen::note(text);
        }
        strange.tell();
        warn(args, filter);
        if *read == 0 {
            screen::tell(format_args!(
                "{} there was no key in what was read: this filter answers \"absent\" to everything",
                paint(WARN, "note:")
            ));
        }
    }
    Ok(DONE)
}

/// What the user should know before the filter is used.
fn warn(args: &Args, filter: &AnyFilter) {
    let over = filter.len() > filter.capacity() && filter.expected_rate() > filter.promised_rate() * 1.001;
    if over {
        screen::tell(format_args!(
            "{} it was made for {} and holds more: the rate is above the promise; build again with a larger --items, or \
             with {}",
            paint(WARN, "warning:"),
            number::counted(filter.capacity(), "key"),
            if filter.kind() == Kind::Scalable { "--when-full grow" } else { "--kind scalable" }
        ));
    }
    if args.compress && !file::pays(filter) {
        screen::tell(format_args!(
            "{} the file is not compressed: a filter with {} of its bits set does not get smaller",
            paint(WARN, "note:"),
            number::percent(filter.fill_ratio())
        ));
    }
}
