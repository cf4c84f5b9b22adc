//! How a verb ends: with an exit code, or with a message that says what to do.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Why a verb stopped.
#[derive(Debug)]
pub enum Failure {
    /// Something to tell the user; exit code 2.
    Message(String),
    /// Whoever read our output has gone; nothing to tell, the exit code says what was found so far.
    Gone,
}

/// What a verb gives back: the exit code.
pub type Outcome = Result<u8, Failure>;

/// Done; for `check`: some key may be there.
pub const DONE: u8 = 0;
/// `check`: every key is certainly absent.
pub const NONE: u8 = 1;
/// An error, with a message on stderr.
pub const ERROR: u8 = 2;

impl Failure {
    /// An error on a file: the path first, so that the eye finds it.
    pub fn at(path: &Path, error: impl Display) -> Self {
        Self::Message(format!("{}: {error}", path.display()))
    }
}

impl From<bloomgate::Error> for Failure {
    fn from(error: bloomgate::Error) -> Self {
        Self::Message(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Message(message)
    }
}

/// An error while writing the answer to standard output.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::Message(format!("writing the output: {error}")),
        }
    }
}
