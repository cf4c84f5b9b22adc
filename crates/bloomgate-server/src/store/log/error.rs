//! What can be wrong with the log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::frame::MAX_PAYLOAD;

/// Why the log refuses.
#[derive(Debug)]
#[non_exhaustive]
pub enum LogError {
    /// A disk error: nothing is written until it is gone. The log tries again by itself.
    ReadOnly {
        /// What failed.
        why: String,
    },
    /// The batch is larger than a batch may be.
    TooLarge {
        /// Its bytes.
        bytes: usize,
    },
    /// The disk is too slow for what comes in.
    Congested {
        /// Bytes that wait for the disk.
        waiting: u64,
        /// Bytes that may.
        limit: u64,
    },
    /// The log was closed.
    Closed,
    /// A step failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file does not hold what it must.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found there and what was expected.
        what: String,
    },
    /// Part of the log is not there.
    Missing {
        /// The folder.
        path: PathBuf,
        /// The first sequence that is needed.
        needed: u64,
        /// What is there instead.
        what: String,
    },
}

impl LogError {
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> LogError {
        LogError::Io { doing, path: path.to_path_buf(), source }
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> LogError {
        LogError::Corrupt { path: path.to_path_buf(), offset, what: what.into() }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::ReadOnly { why } => write!(
                f,
                "MISCONF the log cannot be written ({why}); nothing is changed, lookups go on, and writing resumes by \
                 itself once the disk works again"
            ),
            LogError::TooLarge { bytes } => {
                write!(
                    f,
                    "a write of {bytes} bytes is more than the log takes at once ({MAX_PAYLOAD}): send less per command"
                )
            }
            LogError::Congested { waiting, limit } => write!(
                f,
                "MISCONF the disk does not keep up: {waiting} bytes of the log wait for it, {limit} may; try again later"
            ),
            LogError::Closed => f.write_str("the log is closed: the server is stopping"),
            LogError::Io { doing, path, source } => write!(f, "cannot {doing} ({}): {source}", path.display()),
            LogError::Corrupt { path, offset, what } => write!(
                f,
                "{} is damaged at byte {offset}: {what}. Nothing was changed; restore the folder from a backup",
                path.display()
            ),
            LogError::Missing { path, needed, what } => write!(
                f,
                "the log in {} is incomplete: the batch with sequence {needed} is needed, but {what}. Nothing was changed. \
                 Put the missing file back or restore the folder from a backup",
                path.display()
            ),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LogError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
