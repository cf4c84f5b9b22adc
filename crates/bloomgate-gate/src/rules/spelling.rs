//! Paths and keys as tolerant readers take them: what a service may read is more than what was meant.

use std::borrow::Cow;

/// Endings that nearly every framework with formats cuts off a path as the format of the answer. Some cut off any.
pub(super) const FORMATS: [&str; 14] =
    ["json", "xml", "html", "htm", "csv", "txt", "text", "yaml", "yml", "js", "rss", "atom", "pdf", "ics"];

pub(super) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// The segments of a path after everything was done to it that some reader does: encoded slashes and backslashes separate,
/// empty segments and dots are resolved.
pub(super) fn resolved(path: &str) -> Vec<String> {
    let mut folded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(letter) = rest.chars().next() {
        let three = rest.get(..3).unwrap_or_default();
        if three.eq_ignore_ascii_case("%2f") || three.eq_ignore_ascii_case("%5c") {
            folded.push('/');
            rest = &rest[3..];
        } else if three.eq_ignore_ascii_case("%2e") {
            folded.push('.');
            rest = &rest[3..];
        } else {
            folded.push(if letter == '\\' { '/' } else { letter });
            rest = &rest[letter.len_utf8()..];
        }
    }
    let mut out: Vec<String> = Vec::new();
    for segment in segments(&folded) {
        match segment.split(';').next().unwrap_or_default() {
            "." => {}
            ".." => _ = out.pop(),
            _ => out.push(segment.to_owned()),
        }
    }
    out
}

/// A fixed segment as the most tolerant reader compares it: decoded, without parameters, in small letters.
pub(super) fn tolerant(segment: &str) -> String {
    let once = decoded(segment).unwrap_or(Cow::Borrowed(segment));
    let twice = decoded(&once).unwrap_or(Cow::Borrowed(&once)).into_owned();
    twice.replace('+', " ").split(';').next().unwrap_or_default().trim().to_lowercase()
}

/// Whether some reader takes a segment for a fixed one. Of the last one an ending may be cut off as the format of the answer,
/// any: Rails takes `/products.v2` for `/products`.
pub(super) fn is_fixed(asked: &str, wanted: &str, last: bool) -> bool {
    let (asked, wanted) = (tolerant(asked), tolerant(wanted));
    match asked.strip_prefix(&wanted) {
        Some("") => true,
        Some(ending) => last && ending.starts_with('.'),
        None => false,
    }
}

/// Whether some reader takes the segments of a path for those of a fixed one.
pub(super) fn is_at(asked: &[String], fixed: &str) -> bool {
    let mut wanted = segments(fixed);
    let is_same = |(at, segment): (usize, &String)| {
        wanted.next().is_some_and(|wanted| is_fixed(segment, wanted, at + 1 == asked.len()))
    };
    asked.iter().enumerate().all(is_same) && wanted.next().is_none()
}

/// What of a key is taken for a format behind a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formats {
    /// Whatever stands behind the last dot, or behind the first one: Rails takes `/products/lamp.v2` for `lamp` in a format `v2`,
    /// and lets no key have a dot.
    Any,
    /// Only what is one: where every reading of a key counts as that key, `ann.lee` must not be taken for `ann`.
    Known,
}

/// Every key that some reader may take a segment for.
pub(super) fn readings(segment: &str, beginning: &str, ending: &str, formats: Formats) -> Vec<String> {
    let mut all: Vec<String> = vec![segment.to_owned()];
    let add = |all: &mut Vec<String>, text: String| {
        if !text.is_empty() && !all.contains(&text) {
            all.push(text);
        }
    };
    // Each step is done to everything that was read so far: the steps may come together.
    type Step = fn(&str) -> Option<String>;
    let steps: [Step; 5] = [
        |text| decoded(text).map(Cow::into_owned),
        |text| decoded(text).map(Cow::into_owned),
        |text| Some(text.split(';').next().unwrap_or_default().to_owned()),
        |text| text.contains('+').then(|| text.replace('+', " ")),
        |text| Some(text.trim().to_owned()),
    ];
    let cut: &[Step] = match formats {
        Formats::Any => &[
            |text| text.rsplit_once('.').map(|(stem, _)| stem.to_owned()),
            |text| text.split_once('.').map(|(stem, _)| stem.to_owned()),
        ],
        Formats::Known => &[|text| {
            let (stem, ending) = text.rsplit_once('.')?;
            FORMATS.iter().any(|format| ending.eq_ignore_ascii_case(format)).then(|| stem.to_owned())
        }],
    };
    for step in steps.iter().chain(cut) {
        for at in 0..all.len() {
            if let Some(text) = step(&all[at]) {
                add(&mut all, text);
            }
        }
    }
    for at in 0..all.len() {
        let text = &all[at];
        let inner = text.strip_prefix(beginning).unwrap_or(text);
        let inner = inner.strip_suffix(ending).unwrap_or(inner).to_owned();
        add(&mut all, inner);
    }
    all
}

/// Without its percent signs; `None` where one is not followed by two hexadecimal digits, or no UTF-8 comes out.
pub(super) fn decoded(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next())? << 4 | digit(rest.next())?,
            other => other,
        });
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}
