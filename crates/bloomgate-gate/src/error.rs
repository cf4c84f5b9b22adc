//! What can go wrong, said so that the caller knows what to do.

use std::fmt;
use std::time::Duration;

/// A result of the gate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key is not one of the column's type: no row can have it under this spelling.
    BadKey,
    /// A setting, a row or a size is not allowed.
    Invalid,
    /// The column cannot be gated: its equality is not that of bytes.
    Unsupported,
    /// The source is down or refused; nothing was changed.
    Source,
    /// The source may or may not have done the write: the connection broke before it said so.
    Unknown,
    /// The cache is down.
    Cache,
    /// The filter is down, lost or not the one that was built.
    Filter,
    /// The policy is `closed` and the filter is not ready.
    NotReady,
    /// Too much is under way at the source already: try again.
    Busy,
    /// The client had too many lookups that reached the source and found nothing: [`Error::retry_after`] says when it may
    /// again. What the filter and the caches know it is told all the same.
    TooManyMisses,
    /// The client has added too many rows: [`Error::retry_after`] says when it may again.
    TooManyAdds,
    /// What others wrote cannot be followed from where it was left: a scan is needed.
    Gap,
}

/// Why something was not done, in words: what was got, what is allowed, what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    retry_after: Option<Duration>,
}

impl Error {
    /// An error of a kind. The message says what was got, what is allowed and what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    /// With the time after which it may be tried again.
    #[must_use]
    pub(crate) fn again_after(mut self, time: Duration) -> Self {
        self.retry_after = Some(time);
        self
    }

    /// What kind of error it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// When to try again, where that is known.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<bloomgate::Error> for Error {
    fn from(error: bloomgate::Error) -> Self {
        Self::new(ErrorKind::Filter, error.to_string())
    }
}
