//! Where changes are written down: a log on disk, or nowhere for a server that keeps nothing.

use std::sync::OnceLock;

use bloomgate_command::Refusal;

use crate::store::{Gate, Log};
use crate::sync::atomic::{AtomicU64, Ordering};

const LOADING: &str = "what was written before is still being read";

/// A log, or the pretence of one.
#[derive(Debug)]
pub enum Journal {
    /// On disk; it is there once what was written before has been read.
    Log(OnceLock<Log>),
    /// Only sequences are given out; everything is gone when the server ends, as was asked for.
    Nowhere(Nowhere),
}

/// The sequences of a server that keeps nothing.
#[derive(Debug, Default)]
pub struct Nowhere {
    last: AtomicU64,
    /// In models: what was to be written down, to be read again as a log would be.
    #[cfg(bloomgate_shuttle)]
    batches: std::sync::Mutex<Vec<(u64, Vec<u8>)>>,
    /// In models: how far somebody has waited for it to be durable.
    #[cfg(bloomgate_shuttle)]
    synced: std::sync::atomic::AtomicU64,
    /// In models: whether it refuses, as a disk that failed does.
    #[cfg(bloomgate_shuttle)]
    refuses: std::sync::atomic::AtomicBool,
}

impl Nowhere {
    fn take(&self, records: &[u8]) -> u64 {
        let sequence = self.last.fetch_add(1, Ordering::AcqRel) + 1;
        #[cfg(bloomgate_shuttle)]
        self.batches().push((sequence, records.to_vec()));
        #[cfg(not(bloomgate_shuttle))]
        let _ = records;
        sequence
    }

    #[cfg(not(bloomgate_shuttle))]
    fn check(&self) -> Result<(), Refusal> {
        Ok(())
    }

    #[cfg(bloomgate_shuttle)]
    fn check(&self) -> Result<(), Refusal> {
        crate::sync::point();
        let refuses = self.refuses.load(Ordering::SeqCst);
        crate::sync::point();
        if refuses { Err(Refusal::err("the log refuses")) } else { Ok(()) }
    }
}

impl Journal {
    /// A server that keeps nothing.
    #[must_use]
    pub fn nowhere() -> Self {
        Self::Nowhere(Nowhere::default())
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
            Self::Nowhere(nowhere) => nowhere.check().map(|()| nowhere.take(records)),
        }
    }

    /// Puts down what was done already, after [`check_room`](Self::check_room): the disk may have failed since, and the
    /// records go to it when it works again. Only a closed log refuses.
    pub fn append_applied(&self, records: &[u8]) -> Result<u64, Refusal> {
        match self {
            Self::Log(log) => {
                let log = log.get().ok_or(Refusal::LOADING)?;
                log.append_applied(records).map_err(|error| Refusal::new(error.to_string()))
            }
            Self::Nowhere(nowhere) => Ok(nowhere.take(records)),
        }
    }

    /// Refuses what the log would refuse now: records of so many bytes.
    pub fn check_room(&self, bytes: usize) -> Result<(), Refusal> {
        match self {
            Self::Log(log) => {
                let log = log.get().ok_or(Refusal::LOADING)?;
                log.check_room(bytes).map_err(|error| Refusal::new(error.to_string()))
            }
            Self::Nowhere(nowhere) => nowhere.check(),
        }
    }

    /// The last sequence given out.
    #[must_use]
    #[inline]
    pub fn appended(&self) -> u64 {
        match self {
            Self::Log(log) => log.get().map_or(0, Log::appended),
            Self::Nowhere(nowhere) => nowhere.last.load(Ordering::Acquire),
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

    /// Whether a lookup that finds a key waits until the key is durable.
    #[must_use]
    #[inline]
    pub fn lookups_wait(&self) -> bool {
        match self {
            Self::Log(log) => log.get().is_some_and(Log::waits_for_disk),
            Self::Nowhere(_) => cfg!(bloomgate_shuttle),
        }
    }

    /// Hands what was appended to the operating system.
    #[inline]
    pub fn flush(&self) {
        if let Some(log) = self.log() {
            log.flush();
        }
    }

    /// Whether writers should pause.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.log().is_some_and(Log::is_congested)
    }

    /// Begins a new segment, with nobody writing: what is before it need not be read again once a snapshot is complete.
    /// The last sequence before it.
    pub fn rotate(&self) -> Result<u64, String> {
        match self {
            Self::Log(log) => log.get().ok_or(LOADING)?.rotate().map_err(|error| error.to_string()),
            #[cfg(bloomgate_shuttle)]
            Self::Nowhere(_) => Ok(self.appended()),
            #[cfg(not(bloomgate_shuttle))]
            Self::Nowhere(_) => Err("this server keeps nothing".to_owned()),
        }
    }

    /// Begins a new segment and waits until it is there: nothing is written to the others any more. Its first sequence.
    pub fn seal(&self) -> Result<u64, String> {
        match self {
            Self::Log(log) => log.get().ok_or(LOADING)?.seal().map_err(|error| error.to_string()),
            Self::Nowhere(_) => Err("this server keeps nothing".to_owned()),
        }
    }

    /// Waits until everything up to a sequence is durable.
    pub fn sync_through(&self, sequence: u64) -> Result<(), String> {
        match self {
            Self::Log(log) => log.get().ok_or(LOADING)?.sync_through(sequence).map_err(|error| error.to_string()),
            #[cfg(bloomgate_shuttle)]
            Self::Nowhere(nowhere) => {
                if !crate::sync::broken(crate::sync::Fault::LogBehind) {
                    nowhere.synced.fetch_max(sequence, Ordering::SeqCst);
                }
                Ok(())
            }
            #[cfg(not(bloomgate_shuttle))]
            Self::Nowhere(_) => Ok(()),
        }
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

#[cfg(bloomgate_shuttle)]
impl Nowhere {
    fn batches(&self) -> std::sync::MutexGuard<'_, Vec<(u64, Vec<u8>)>> {
        self.batches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(bloomgate_shuttle)]
impl Journal {
    /// How far somebody has waited for it to be durable.
    #[must_use]
    pub fn synced(&self) -> u64 {
        let Self::Nowhere(nowhere) = self else { return 0 };
        nowhere.synced.load(Ordering::SeqCst)
    }

    /// From now on it refuses, as a disk that failed does, or takes again.
    pub fn refuse(&self, refuses: bool) {
        if let Self::Nowhere(nowhere) = self {
            nowhere.refuses.store(refuses, Ordering::SeqCst);
        }
    }

    /// What was to be written down: each batch with its sequence, in their order.
    #[must_use]
    pub fn recorded(&self) -> Vec<(u64, Vec<u8>)> {
        let Self::Nowhere(nowhere) = self else { return Vec::new() };
        let mut batches = nowhere.batches().clone();
        batches.sort();
        batches
    }
}
