//! How long the server waits after a snapshot that failed before it tries another by itself.
//!
//! What made it fail is seldom over a moment later, and each try costs what it gets done: images that are written and removed
//! again, and a segment of the log. Ten tries a second kept a full disk busy for as long as it was full.

use std::time::Duration;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// Each failure in a row doubles it, up to this.
const LONGEST: Duration = Duration::from_secs(300);

/// A pause after failures.
#[derive(Debug, Default)]
pub(super) struct Pause {
    /// How long the last one was; nothing if the last snapshot was made.
    length: Duration,
    /// When it ends, in milliseconds.
    until_ms: u64,
}

impl Pause {
    /// A snapshot failed.
    pub fn begin(&mut self, now_ms: u64) {
        self.length = (self.length * 2).clamp(FIRST, LONGEST);
        self.until_ms = now_ms + self.length.as_millis() as u64;
    }

    /// A snapshot was made.
    pub fn end(&mut self) {
        *self = Self::default();
    }

    /// What is left of it; nothing if no snapshot failed since one was made.
    pub fn left(&self, now_ms: u64) -> Option<Duration> {
        (self.length > Duration::ZERO).then(|| Duration::from_millis(self.until_ms.saturating_sub(now_ms)))
    }
}
