//! What `bloomgate info` tells of a delta: which file it is for, which it makes, and how.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use bloomgate::format::delta::Delta;
use bloomgate::format::{Limits, SectionReader, SectionType};

use crate::diff::meaning;
use crate::failure::{DONE, Outcome};
use crate::file;
use crate::json::Object;
use crate::number::{bytes, percent};
use crate::screen::{DIM, HEAD, paint, wrapped};

/// How `info` was asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Screen,
    Json,
    Verdict,
}

/// Whether a file says in its head that it is a delta. One whose head cannot be read is none: `info` says why.
pub fn is_delta(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Ok(reader) = SectionReader::from_file(file, Some(Limits::payload(u64::MAX))) else { return false };
    reader.head().get(SectionType::DELTA, 0).is_some()
}

/// Shows a delta; every checksum of it is verified.
pub fn show(path: &Path, wanted: Wanted) -> Outcome {
    let delta = Delta::open(path)?;
    let length = file::length(path)?;
    let text = match wanted {
        Wanted::Json => json(path, &delta, length).close() + "\n",
        Wanted::Verdict => format!("{}: a delta, every checksum right; {}\n", path.display(), bytes(length)),
        Wanted::Screen => on_screen(path, &delta, length),
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(DONE)
}

/// The fields of a delta.
pub fn json(path: &Path, delta: &Delta, length: u64) -> Object {
    Object::default()
        .text("path", path.to_string_lossy())
        .flag("delta", true)
        .text("form", delta.method().to_string())
        .text("from", delta.base().to_string())
        .text("to", delta.result().to_string())
        .whole("from_bytes", delta.base_len())
        .whole("to_bytes", delta.result_len())
        .whole("file_bytes", length)
        .number("share_of_whole", length as f64 / delta.result_len().max(1) as f64)
}

fn on_screen(path: &Path, delta: &Delta, length: u64) -> String {
    let mut out = format!("{}\n", paint(HEAD, path.display()));
    let mut row = |name: &str, text: String| {
        let label = format!("  {name:<12}");
        out.push_str(&wrapped(&label, &text).replacen(&label, &paint(DIM, &label), 1));
    };
    row("a delta", format!("{}, to be applied to the first of these files", meaning(delta.method())));
    row("from", format!("{} {}", delta.base(), bytes(delta.base_len())));
    row("to", format!("{} {}", delta.result(), bytes(delta.result_len())));
    let share = percent(length as f64 / delta.result_len().max(1) as f64);
    row("size", format!("{}, {share} of the file that it makes", bytes(length)));
    row("file", "every checksum right".into());
    row("apply it", format!("bloomgate patch FILTER {}", crate::shell::path(path)));
    out
}
