//! A source in memory that a test can look into: it counts what reaches it, waits at chosen places, and fails on command.
//! Not a mock of a database (those have their own tests) but an adversary: its writes and reads take effect at any point
//! of the call, and other tasks run before and after.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use bloomgate_gate::sources::{Footing, KeyBatch, Scan, Source};
use bloomgate_gate::{Error, ErrorKind, Key, KeyType, Pending, Result};
use bytes::Bytes;

/// What happens to the next write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    #[default]
    Done,
    /// Refused; nothing changed.
    Refused,
    /// An error of unknown outcome; the row appears later, when the test says so.
    LaterUnknown,
}

#[derive(Default)]
pub struct MemorySource {
    pub rows: Mutex<BTreeMap<Vec<u8>, Bytes>>,
    /// Keys asked by `get` and `get_many`.
    pub reads: AtomicU64,
    pub is_down: AtomicBool,
    /// Of the keys, a scan gives only this many thousandths (an unfaithful source); 0 means all.
    pub scan_share: AtomicU64,
    /// What count says, if not the truth.
    pub count_says: Mutex<Option<u64>>,
    pub fate: Mutex<Fate>,
    pub pending_rows: Mutex<Vec<(Vec<u8>, Bytes)>>,
    /// The random numbers that say how often a call yields; none: never.
    pub yields: Mutex<Option<u64>>,
    pub footing: Footing,
    /// Reads wait while somebody holds it.
    pub hold: tokio::sync::RwLock<()>,
    /// A scan is refused for ever.
    pub is_unsupported: AtomicBool,
    /// After so many batches a scan gives nothing any more, and does not end.
    pub silent_after: Mutex<Option<usize>>,
    /// Each batch of a scan takes one of these, if there are any to wait for.
    pub steps: Mutex<Option<Arc<tokio::sync::Semaphore>>>,
    /// A count never ends.
    pub counts_for_ever: AtomicBool,
    /// Scans give keys in capitals, and lookups know them as they are.
    pub scans_in_capitals: AtomicBool,
    /// Reads that are here at once, of keys that it has and of others.
    pub crowds: [Crowd; 2],
}

/// Those who are somewhere at once.
#[derive(Default)]
pub struct Crowd {
    now: AtomicU64,
    most: AtomicU64,
}

impl Crowd {
    /// How many there are.
    pub fn now(&self) -> u64 {
        self.now.load(SeqCst)
    }

    /// The most there ever were.
    pub fn most(&self) -> u64 {
        self.most.load(SeqCst)
    }

    /// One more, until what is returned is dropped.
    fn join(&self) -> Joined<'_> {
        self.most.fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
        Joined(self)
    }
}

struct Joined<'a>(&'a Crowd);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

impl MemorySource {
    pub fn with(keys: impl IntoIterator<Item = String>) -> Arc<Self> {
        let source = Self::default();
        let rows = keys.into_iter().map(|key| (key.clone().into_bytes(), row_of(&key)));
        source.rows.lock().unwrap().extend(rows);
        Arc::new(source)
    }

    pub fn reads(&self) -> u64 {
        self.reads.load(SeqCst)
    }

    /// Lets the writes of unknown outcome happen.
    pub fn settle(&self) {
        let pending = std::mem::take(&mut *self.pending_rows.lock().unwrap());
        self.rows.lock().unwrap().extend(pending);
    }

    async fn pause(&self) {
        let times = {
            let mut yields = self.yields.lock().unwrap();
            let Some(state) = yields.as_mut() else { return };
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*state >> 61) as usize
        };
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn up(&self) -> Result<()> {
        match self.is_down.load(SeqCst) {
            true => Err(Error::new(ErrorKind::Source, "the source is down")),
            false => Ok(()),
        }
    }
}

pub fn row_of(key: &str) -> Bytes {
    format!("{{\"key\":\"{key}\"}}").into()
}

impl Source for MemorySource {
    fn describe(&self) -> String {
        "memory".to_string()
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.get_many(std::slice::from_ref(key)).await?.remove(0)) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move {
            let is_strange = !keys.iter().all(|key| self.rows.lock().unwrap().contains_key(key.canonical()));
            let _joined = self.crowds[usize::from(is_strange)].join();
            self.pause().await;
            let _held = self.hold.read().await;
            self.up()?;
            self.reads.fetch_add(keys.len() as u64, SeqCst);
            let rows = {
                let rows = self.rows.lock().unwrap();
                keys.iter().map(|key| rows.get(key.canonical()).cloned()).collect()
            };
            self.pause().await;
            Ok(rows)
        })
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(async move {
            self.pause().await;
            self.up()?;
            let rows = rows.iter().map(|(key, row)| (key.canonical().to_vec(), row.clone()));
            let fate = std::mem::take(&mut *self.fate.lock().unwrap());
            match fate {
                Fate::Done => self.rows.lock().unwrap().extend(rows),
                Fate::Refused => return Err(Error::new(ErrorKind::Source, "refused")),
                Fate::LaterUnknown => {
                    self.pending_rows.lock().unwrap().extend(rows);
                    return Err(Error::new(ErrorKind::Unknown, "the connection broke"));
                }
            }
            self.pause().await;
            Ok(())
        })
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            self.pause().await;
            self.up()?;
            let was = self.rows.lock().unwrap().remove(key.canonical()).is_some();
            self.pause().await;
            Ok(was)
        })
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(async move {
            self.up()?;
            if self.counts_for_ever.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            Ok(self.count_says.lock().unwrap().unwrap_or(self.rows.lock().unwrap().len() as u64))
        })
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(async move {
            self.pause().await;
            self.up()?;
            if self.is_unsupported.load(SeqCst) {
                return Err(Error::new(ErrorKind::Unsupported, "the column has another collation"));
            }
            let mut keys: Vec<Vec<u8>> = self.rows.lock().unwrap().keys().cloned().collect();
            let share = self.scan_share.load(SeqCst) as usize;
            if share > 0 {
                keys.truncate(keys.len() * share / 1000);
            }
            if self.scans_in_capitals.load(SeqCst) {
                keys.iter_mut().for_each(|key| key.make_ascii_uppercase());
            }
            self.pause().await;
            let random = self.yields.lock().unwrap().unwrap_or(0);
            let silent_after = *self.silent_after.lock().unwrap();
            let steps = self.steps.lock().unwrap().clone();
            Ok(Box::new(MemoryScan { keys, random, silent_after, steps }) as Box<dyn Scan>)
        })
    }

    fn footing(&self) -> Option<&Footing> {
        Some(&self.footing)
    }
}

struct MemoryScan {
    keys: Vec<Vec<u8>>,
    random: u64,
    silent_after: Option<usize>,
    steps: Option<Arc<tokio::sync::Semaphore>>,
}

impl Scan for MemoryScan {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            if self.random != 0 {
                tokio::task::yield_now().await;
            }
            if let Some(steps) = &self.steps {
                steps.acquire().await.unwrap().forget();
            }
            match self.silent_after.as_mut() {
                Some(0) => std::future::pending().await,
                Some(left) => *left -= 1,
                None => {}
            }
            batch.clear();
            let size = if self.random == 0 { 1000 } else { 3 };
            let rest = self.keys.split_off(self.keys.len().min(size));
            self.keys.iter().for_each(|key| batch.push(key));
            self.keys = rest;
            Ok(!batch.is_empty())
        })
    }
}
