//! What can go wrong, said so that the reader knows what to do next.
//!
//! Every message has three parts: what was got, what is allowed, and what to do. Nothing that comes
//! from outside (a parameter, a file, a key) panics: it ends here.

use std::fmt;

/// The result of everything in this crate that can be refused.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal: a [kind](ErrorKind) for programs, a message for people.
///
/// One pointer wide, so that `Result<bool>` stays in registers on the hot path.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    message: String,
    source: Option<std::io::Error>,
}

/// What class of refusal an [`Error`] is.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A number or a combination of settings outside what is allowed.
    InvalidParameter,
    /// The filter holds what it was made for, and was told to refuse more.
    Full,
    /// A key that cannot be written in the filter's key encoding.
    Encoding,
    /// Two contracts (encoding, hash, seed) that do not agree.
    Contract,
    /// A keyed filter without its secret, or with another one.
    Secret,
    /// Two shapes that do not agree.
    Shape,
    /// An operation that this kind of filter does not have.
    Unsupported,
    /// The bytes are not a Bloomgate file.
    NotAFilter,
    /// A file version, section or field that this reader does not know.
    Version,
    /// The file ends before it should.
    Truncated,
    /// A checksum or a cross-check inside the file failed.
    Corrupt,
    /// A file that is being written in place, or was when its program ended: a "no" from it might be wrong.
    Dirty,
    /// More memory or a larger file than the caller allowed.
    LimitExceeded,
    /// The system refused the memory.
    OutOfMemory,
    /// The system refused a read or a write.
    Io,
}

impl Error {
    /// A refusal with its class and its message.
    #[cold]
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner { kind, message: message.into(), source: None }))
    }

    /// A refusal by the system, with what was being done: what a writer given to
    /// [`write_atomically`](crate::format::write_atomically) hands back.
    #[cold]
    #[must_use]
    pub fn io(doing: impl fmt::Display, source: std::io::Error) -> Self {
        Self(Box::new(Inner { kind: ErrorKind::Io, message: format!("{doing}: {source}"), source: Some(source) }))
    }

    /// The class of this refusal.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|e| e as _)
    }
}
