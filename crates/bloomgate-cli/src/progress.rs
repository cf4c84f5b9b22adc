//! How far a long work is, on standard error: a bar on a terminal, gone when done; otherwise a line now and then.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::number;
use crate::screen;

/// Seconds between two lines where there is no terminal: a log shows that it moves, and is not flooded. Work that takes
/// less says nothing.
const SECONDS_BETWEEN_LINES: f64 = 10.0;

/// How far the work is, in bytes.
pub struct Progress {
    bar: Option<ProgressBar>,
    lines: Option<Lines>,
}

/// Lines for logs.
struct Lines {
    doing: &'static str,
    all: Option<u64>,
    done: Cell<u64>,
    begin: Instant,
    every: Duration,
    next: Cell<Duration>,
}

impl Progress {
    /// Over so many bytes with rate and time left, or without an end when nobody knows how many.
    pub fn new(doing: &'static str, bytes: Option<u64>, quiet: bool) -> Self {
        if quiet {
            return Self { bar: None, lines: None };
        }
        if !std::io::stderr().is_terminal() {
            let every = Duration::from_secs_f64(seconds_between_lines());
            let lines =
                Lines { doing, all: bytes, done: Cell::new(0), begin: Instant::now(), every, next: Cell::new(every) };
            return Self { bar: None, lines: Some(lines) };
        }
        let (bar, template) = match bytes {
            Some(bytes) => (
                ProgressBar::new(bytes),
                "{msg} [{wide_bar:.cyan/dim}] {percent:>3} % {decimal_bytes_per_sec:>13} {eta:>4} left",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{msg} {spinner} {decimal_bytes:>10} {decimal_bytes_per_sec:>13} {elapsed:>4}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(doing);
        Self { bar: Some(bar), lines: None }
    }

    /// A bar over so many steps, which may be named as they begin.
    pub fn steps(doing: &'static str, steps: u64, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { bar: None, lines: None };
        }
        let bar = ProgressBar::new(steps);
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} [{wide_bar:.cyan/dim}] {human_pos}/{human_len} {msg:<14}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(doing);
        Self { bar: Some(bar), lines: None }
    }

    /// The step that begins now.
    pub fn at(&self, step: &'static str) {
        if let Some(bar) = &self.bar {
            bar.set_message(step);
        }
    }

    /// So many bytes more were read, or steps done.
    pub fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
        if let Some(lines) = &self.lines {
            lines.advance(bytes);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    fn advance(&self, bytes: u64) {
        self.done.set(self.done.get() + bytes);
        let spent = self.begin.elapsed();
        if spent >= self.next.get() {
            self.next.set(spent + self.every);
            screen::tell(line(self.doing, self.done.get(), self.all, spent.as_secs_f64()));
        }
    }
}

/// One line: what is done, of how much, how fast, and how long it will take.
fn line(doing: &str, done: u64, all: Option<u64>, seconds: f64) -> String {
    let rate = done as f64 / seconds.max(1e-9);
    let speed = number::bytes(rate as u64);
    match all {
        Some(all) if all > 0 => {
            let left = all.saturating_sub(done) as f64 / rate.max(1.0);
            let share = number::percent((done as f64 / all as f64).min(1.0));
            format!("{doing}: {share} of {}, {speed}/s, {} left", number::bytes(all), number::time(left))
        }
        _ => format!("{doing}: {}, {speed}/s", number::bytes(done)),
    }
}

/// `BLOOMGATE_PROGRESS_SECONDS` says otherwise, for those who watch a log closely.
fn seconds_between_lines() -> f64 {
    let given = std::env::var("BLOOMGATE_PROGRESS_SECONDS").ok().and_then(|text| text.parse().ok());
    given.filter(|seconds: &f64| (0.0..=1e6).contains(seconds)).unwrap_or(SECONDS_BETWEEN_LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        assert_eq!(
            line("building", 250_000_000, Some(1_000_000_000), 2.0),
            "building: 25.0 % of 1.00 GB, 125 MB/s, 6.00 s left"
        );
        assert_eq!(line("reading", 5_000_000, None, 1.0), "reading: 5.00 MB, 5.00 MB/s");
    }
}
