//! Where changes are written down: a log on disk, or nowhere for a server that keeps nothing.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use bloomgate_command::Refusal;

use crate::store::{Gate, Log};

/// A log, or the pretence of one.
#[derive(Debug)]
pub enum Journal {
    /// On disk; it is there once what was written before has been read.
    Log(OnceLock<Log>),
    /// Only sequences are given out; everything is gone when the server ends, as was asked for.
    Nowhere(AtomicU64),
}

impl Journal {
    /// A server that keeps nothing.
    #[must_use]
    pub fn nowhere() -> Self {
        Self::Nowhere(AtomicU64::new(0))
    }

    /// A log that is still to be read: until it is opened nothing is taken.
    #[must_use]
    pub fn to_come() -> Self {
        Self::Log(OnceLock::new())
    }

    /// What was to come is there; told twice, the first stays.
    pub fn open(&self, opened: Log) {
        if let Self::Log(log) = self {
            let _ = log.set(opened);
        }
    }

    /// Puts a batch of records down; its sequence.
    pub fn append(&self, records: &[u8]) -> Result<u64, Refusal> {
        match self {
            Self::Log(log) => {
                let log = log.get().ok_or(Refusal::LOADING)?;
                log.append(records).map_err(|error| Refusal::new(error.to_string()))
            }
            Self::Nowhere(last) => Ok(last.fetch_add(1, Ordering::AcqRel) + 1),
        }
    }

    /// The last sequence given out.
    #[must_use]
    #[inline]
    pub fn appended(&self) -> u64 {
        match self {
            Self::Log(log) => log.get().map_or(0, Log::appended),
            Self::Nowhere(last) => last.load(Ordering::Acquire),
        }
    }

    /// Whether what was written up to a sequence may be acknowledged.
    #[must_use]
    #[inline]
    pub fn gate(&self, sequence: u64) -> Gate {
        match self {
            Self::Log(log) => log.get().map_or(Gate::Open, |log| log.gate(sequence)),
            Self::Nowhere(_) => Gate::Open,
        }
    }

    /// Hands what was appended to the operating system.
    #[inline]
    pub fn flush(&self) {
        if let Some(log) = self.log() {
            log.flush();
        }
    }

    /// Refuses when the disk does.
    pub fn check_writable(&self) -> Result<(), Refusal> {
        match self {
            Self::Log(log) => match log.get() {
                Some(log) if log.is_writable() => Ok(()),
                Some(log) => Err(Refusal::new(log.failure().to_string())),
                None => Err(Refusal::LOADING),
            },
            Self::Nowhere(_) => Ok(()),
        }
    }

    /// Whether writers should pause.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.log().is_some_and(Log::is_congested)
    }

    /// The log, if there is one.
    #[must_use]
    #[inline]
    pub fn log(&self) -> Option<&Log> {
        match self {
            Self::Log(log) => log.get(),
            Self::Nowhere(_) => None,
        }
    }
}
