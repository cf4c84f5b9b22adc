//! How the keys of a source are read: the options that all verbs share, and the stream that they open.

use super::hibp::Hashes;
use super::lines::Lines;
use super::{Cut, KeyStream, Source};
use crate::failure::Failure;

/// How sources are read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Reading {
    #[command(flatten)]
    pub cut: Cut,
    /// Lines are HASH:COUNT, as Have I Been Pwned gives out breached passwords: the key is the hash, in upper case
    #[arg(long, help_heading = "Reading keys")]
    pub hibp: bool,
}

impl Reading {
    /// The options as they are written, to be repeated in another command.
    pub fn options(&self) -> Vec<String> {
        let cut = self.cut;
        [(cut.null, "--null"), (cut.crlf, "--crlf"), (cut.keep_empty, "--keep-empty")]
            .into_iter()
            .filter_map(|(given, option)| given.then(|| option.to_string()))
            .collect()
    }

    /// Whether the bytes of a source are the lines themselves, so that a sample of it tells their number.
    pub fn takes_lines_of(&self, _source: &Source) -> bool {
        true
    }

    /// The keys of a source.
    pub fn open(&self, source: &Source) -> Result<Box<dyn KeyStream>, Failure> {
        let stream = Box::new(Lines::new(source.open()?, &source.name(), self.cut));
        Ok(if self.hibp { Box::new(Hashes::new(stream)) } else { stream })
    }
}
