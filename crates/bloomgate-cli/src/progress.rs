//! A bar on standard error while keys are read: on a terminal only, gone when done.

use indicatif::{ProgressBar, ProgressStyle};

/// How far the reading is.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over so many bytes with rate and time left, or a spinner when nobody knows how many.
    pub fn new(doing: &'static str, bytes: Option<u64>, quiet: bool) -> Self {
        if quiet {
            return Self(ProgressBar::hidden());
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
        Self(bar)
    }

    /// A bar over so many steps, which are named as they begin.
    pub fn steps(doing: &'static str, steps: u64) -> Self {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{prefix} [{wide_bar:.cyan/dim}] {pos}/{len} {msg:<14}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(doing);
        Self(bar)
    }

    /// The step that begins now.
    pub fn at(&self, step: &'static str) {
        self.0.set_message(step);
    }

    /// So many bytes more were read, or steps done.
    pub fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
