//! About how many lines a file has, by looking at samples of it: what a filter is sized by when it is read only once.

use std::fs::File;
use std::io;

use crate::keys::{Reading, Source};

/// Bytes of a sample, and how many are taken, evenly over the file.
const SAMPLE: u64 = 64 << 10;
const SAMPLES: u64 = 64;
/// Room for what the samples missed: three standard errors of their mean and a little more, but no more than this, since
/// samples that differ in a steady way (lines that grow longer) miss less than their spread says. A filter with too
/// little room is noticed at the end, and then all is read again.
const MOST_MARGIN: f64 = 0.05;
const LEAST_MARGIN: f64 = 0.002;

/// Room for the lines of these sources, nothing if one of them is no plain file of lines.
pub fn lines_about(sources: &[Source], reading: &Reading) -> Option<u64> {
    sources.iter().map(|source| lines_of(source, reading)).sum()
}

fn lines_of(source: &Source, reading: &Reading) -> Option<u64> {
    // Files in /proc have no length before they are read.
    let length = source.rereadable().ok()?.filter(|&length| length > 0)?;
    if !reading.takes_lines_of(source) {
        return None;
    }
    let (file, start) = (source.open().ok()?, source.position().ok()?);
    let separator = reading.cut.separator();
    let mut buffer = vec![0; SAMPLE as usize];
    let (mut seen, mut separators, mut squares) = (0u64, 0u64, 0.0);
    let whole = length <= SAMPLE * SAMPLES;
    for sample in 0..if whole { length.div_ceil(SAMPLE) } else { SAMPLES } {
        // The middle of each of so many equal parts.
        let part = length as f64 / SAMPLES as f64;
        let at = if whole { sample * SAMPLE } else { (part * (sample as f64 + 0.5)) as u64 - SAMPLE / 2 };
        let want = buffer.len().min((length - at) as usize);
        read_at(&file, &mut buffer[..want], start + at).ok()?;
        seen += want as u64;
        let here = memchr::memchr_iter(separator, &buffer[..want]).count();
        separators += here as u64;
        squares += (here * here) as f64;
    }
    if whole {
        // The last line needs no line end; the sample read last is the end of the file.
        let last = (length - 1) % SAMPLE;
        return Some(separators + u64::from(buffer[last as usize] != separator));
    }
    let samples = SAMPLES as f64;
    let mean = separators as f64 / samples;
    let error = ((squares / samples - mean * mean).max(0.0) / samples).sqrt() / mean.max(1.0);
    let margin = (3.0 * error + LEAST_MARGIN).min(MOST_MARGIN);
    Some((separators as f64 * length as f64 / seen as f64 * (1.0 + margin)) as u64 + 1)
}

/// Reads from a place without moving there: every handle of standard input shares one place.
#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(not(unix))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Add;

    #[test]
    fn a_sample_tells_the_number_of_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines");
        let about = |text: &str| {
            std::fs::write(&path, text).unwrap();
            lines_about(&[Source::File(path.clone())], &Reading::default())
        };
        assert_eq!(about(""), None);
        assert_eq!(about("a\nb"), Some(2));
        assert_eq!(about("a\nb\n"), Some(2));
        assert_eq!(about(&"x\n".repeat(40_000)), Some(40_000), "small files are counted whole");
        // Lines of one length: 9 MB, and 0.2 % of room.
        let lines = about(&"x".repeat(29).add("\n").repeat(300_000)).unwrap() as f64;
        assert!((300_000.0 * 1.001..300_000.0 * 1.005).contains(&lines), "{lines}");
        // From short to long lines: 9 MB.
        let text: String = (0..300_000).map(|i| format!("{}{i}\n", "x".repeat(i / 6000))).collect();
        let lines = about(&text).unwrap() as f64;
        assert!((300_000.0 * 1.03..300_000.0 * 1.07).contains(&lines), "{lines}");
    }
}
