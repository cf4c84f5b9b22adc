//! How many keys the source should have: those of the last scan that was believed, less what was deleted since. A rebuild
//! that finds far fewer is not believed (a source that lost its rows, or was asked in the wrong place, must not turn into a
//! gate that blocks everything).
//!
//! It outlives a kill. `count.json` in the gate's folder holds the count and a number of deletions that is never too low: a
//! deletion that would pass it first writes it anew, 5 % of the count higher. So after a kill the rule is milder by at most
//! these 5 %, and never stricter than the truth.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};

/// A scan that has less than this share of the keys there were, deletions counted, is not believed.
const LEAST_SHARE: f64 = 0.9;
/// Deletions that are written down ahead, as a share of the keys: 1 of so many.
const AHEAD: u64 = 20;
/// A gate that only watches takes a smaller number for true after so many whole scans that agree, from the first to the last
/// of which so much time has passed. Nothing is blocked by it, so nothing can be wrongly.
const AGREEING: u32 = 3;
const AGREE_FOR: Duration = Duration::from_secs(60);
/// Scans agree if they differ by at most this share.
const AGREE: f64 = 0.01;
/// The file.
const FILE: &str = "count.json";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    scanned: u64,
    removed: u64,
}

/// What the file holds.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    /// Whose keys they are.
    source: String,
    scanned: u64,
    removed: u64,
}

#[derive(Debug, Default)]
struct Known {
    /// As far as this run knows.
    count: Option<Count>,
    /// Of the deletions, those that the source has not answered yet.
    under_way: u64,
    /// Deletions that the file allows for.
    written: u64,
    /// A smaller number that was seen: the last one, how often in a row, and since when.
    smaller: Option<(u64, u32, Instant)>,
}

/// What a scan's number of keys is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Belief {
    /// As many as expected, or more.
    Enough,
    /// Far fewer, and accepted: how many there were, and why it was accepted.
    Fewer(u64, &'static str),
}

/// How many keys the source should have.
#[derive(Debug, Default)]
pub(crate) struct Baseline {
    known: Mutex<Known>,
    /// One writes the file at a time.
    writing: tokio::sync::Mutex<()>,
    folder: Option<PathBuf>,
    source: String,
    /// Whether the next scan is believed whatever it has.
    accept_next: AtomicBool,
}

impl Baseline {
    /// What the folder says of a source, or that it says nothing; and what is wrong with its file, if something is.
    ///
    /// # Errors
    ///
    /// The folder is that of another source: its filter would be overwritten, and its count mean nothing.
    pub fn open(folder: Option<&Path>, source: &str, accept_next: bool) -> Result<(Self, Option<String>)> {
        let read = folder.map(|folder| std::fs::read(folder.join(FILE)));
        let (written, wrong) = match read {
            None => (None, None),
            Some(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => (None, None),
            Some(Err(error)) => (None, Some(format!("{FILE}: {error}"))),
            Some(Ok(text)) => match serde_json::from_slice::<Written>(&text) {
                Ok(written) => (Some(written), None),
                Err(error) => (None, Some(format!("{FILE}: {error}"))),
            },
        };
        if let (Some(written), Some(folder)) = (&written, folder)
            && written.source != source
        {
            let message = format!(
                "the folder {} keeps the filter of {}, and this gate is before {source}: name another folder (--data)",
                folder.display(),
                written.source,
            );
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let count = written.map(|written| Count { scanned: written.scanned, removed: written.removed });
        let known = Known { count, written: count.map_or(0, |count| count.removed), ..Known::default() };
        let baseline = Self {
            known: Mutex::new(known),
            writing: tokio::sync::Mutex::default(),
            folder: folder.map(Path::to_path_buf),
            source: source.to_owned(),
            accept_next: AtomicBool::new(accept_next),
        };
        Ok((baseline, wrong))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Deletions so far, for [`adopt`](Self::adopt) of a scan that begins now: it may still see what is being deleted.
    pub fn removed(&self) -> u64 {
        let known = self.known();
        known.count.map_or(0, |count| count.removed.saturating_sub(known.under_way))
    }

    /// Counts a deletion that is about to be done, and sees to it that a kill does not forget it.
    pub async fn claim_removal(&self) -> Result<()> {
        let passes = {
            let known = &mut *self.known();
            known.under_way += 1;
            let Some(count) = &mut known.count else { return Ok(()) };
            count.removed += 1;
            count.removed > known.written
        };
        if passes { self.write_ahead().await } else { Ok(()) }
    }

    /// The source has answered a deletion: whether it was done, or may have been.
    pub fn settle_removal(&self, done: bool) {
        let known = &mut *self.known();
        known.under_way = known.under_way.saturating_sub(1);
        if let (Some(count), false) = (&mut known.count, done) {
            count.removed = count.removed.saturating_sub(1);
        }
    }

    /// Others deleted rows; `all`: the whole table was emptied.
    pub async fn removed_elsewhere(&self, rows: u64, all: bool) -> Result<()> {
        let passes = {
            let known = &mut *self.known();
            let Some(count) = &mut known.count else { return Ok(()) };
            count.removed = if all { count.scanned.max(count.removed) } else { count.removed + rows };
            count.removed > known.written
        };
        if passes { self.write_ahead().await } else { Ok(()) }
    }

    #[cold]
    async fn write_ahead(&self) -> Result<()> {
        let _alone = self.writing.lock().await;
        let count = {
            let known = self.known();
            let Some(count) = known.count.filter(|count| count.removed > known.written) else { return Ok(()) };
            Count { removed: count.removed + count.scanned / AHEAD, ..count }
        };
        self.write(count).await
    }

    /// Writes the file; the caller is alone.
    async fn write(&self, count: Count) -> Result<()> {
        if let Some(folder) = self.folder.clone() {
            let Count { scanned, removed } = count;
            let written = Written { source: self.source.clone(), scanned, removed };
            tokio::task::spawn_blocking(move || write(&folder, &written)).await.map_err(crate::gate::died)??;
        }
        self.known().written = count.removed;
        Ok(())
    }

    /// Whether an empty scan is believed although nothing was known before. `accept`: somebody said so.
    pub fn may_begin_empty(&self, accept: bool) -> bool {
        accept || self.accept_next.load(SeqCst) || self.known().count.is_some()
    }

    /// Whether a scan with so many keys is believed. `watching`: nothing is blocked by what is built of it.
    pub fn judge(&self, scanned: u64, accept: bool, watching: bool) -> Result<Belief> {
        let mut known = self.known();
        let Some(count) = known.count else { return Ok(Belief::Enough) };
        let before = count.scanned.saturating_sub(count.removed);
        if scanned as f64 >= before as f64 * LEAST_SHARE {
            return Ok(Belief::Enough);
        }
        if accept {
            return Ok(Belief::Fewer(before, "somebody asked for a rebuild that accepts it"));
        }
        if self.accept_next.load(SeqCst) {
            return Ok(Belief::Fewer(before, "it was started so that it accepts it"));
        }
        let now = Instant::now();
        let (seen, since) = match known.smaller {
            Some((last, seen, since)) if last.abs_diff(scanned) as f64 <= last as f64 * AGREE => (seen + 1, since),
            _ => (1, now),
        };
        known.smaller = Some((scanned, seen, since));
        if watching && seen >= AGREEING && now.duration_since(since) >= AGREE_FOR {
            return Ok(Belief::Fewer(before, "several scans agree, and the gate only watches"));
        }
        let later = if watching {
            "; the gate only watches, and accepts it by itself when three scans over a minute agree"
        } else {
            ""
        };
        Err(Error::new(
            ErrorKind::Source,
            format!(
                "the source has {scanned} keys, and {before} were expected ({} at the last rebuild, at most {} deleted \
                 through the gate since): less than {:.0} % is not believed. If it is right, accept it by POST \
                 /rebuild?accept-fewer=true, or by one start with --accept-fewer{later}",
                count.scanned,
                count.removed,
                LEAST_SHARE * 100.0
            ),
        ))
    }

    /// A scan was believed: `removed_before` were deleted when it began. What was deleted during the scan may be in it. The
    /// file is [written](Self::write_down) after that, where a thousand tenants wait for the disk much later.
    pub fn believe(&self, scanned: u64, removed_before: u64) {
        let mut known = self.known();
        let removed = known.count.map_or(0, |count| count.removed.saturating_sub(removed_before));
        (known.count, known.smaller) = (Some(Count { scanned, removed }), None);
        drop(known);
        self.accept_next.store(false, SeqCst);
    }

    /// Writes what is believed, deletions ahead.
    pub async fn write_down(&self) -> Result<()> {
        let _alone = self.writing.lock().await;
        let count = self.known().count;
        match count {
            Some(count) => self.write(Count { removed: count.removed + count.scanned / AHEAD, ..count }).await,
            None => Ok(()),
        }
    }

    /// Writes the exact number, at the end.
    pub async fn close(&self) -> Result<()> {
        let _alone = self.writing.lock().await;
        let count = self.known().count;
        match count {
            Some(count) => self.write(count).await,
            None => Ok(()),
        }
    }
}

fn write(folder: &Path, written: &Written) -> Result<()> {
    let text = serde_json::to_vec(written).map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
    bloomgate::format::write_atomically(&folder.join(FILE), |out| {
        out.write_all(&text).map_err(|error| bloomgate::Error::io("writing how many keys there are", error))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: Option<&Path>, accept_next: bool) -> (Baseline, Option<String>) {
        Baseline::open(folder, "a table", accept_next).unwrap()
    }

    impl Baseline {
        async fn adopt(&self, scanned: u64, removed_before: u64) -> Result<()> {
            self.believe(scanned, removed_before);
            self.write_down().await
        }
    }

    #[tokio::test]
    async fn a_kill_forgets_no_deletion_and_makes_the_rule_milder_by_little() {
        let folder = tempfile::tempdir().unwrap();
        let (baseline, wrong) = open(Some(folder.path()), false);
        assert!(wrong.is_none());
        assert_eq!(baseline.judge(0, false, false).unwrap(), Belief::Enough, "nothing is known yet");
        baseline.adopt(2000, 0).await.unwrap();
        for deleted in 1..=700u64 {
            baseline.claim_removal().await.unwrap();
            baseline.settle_removal(true);
            // As after a kill at this moment.
            let (again, _) = open(Some(folder.path()), false);
            assert!((deleted..=deleted + 100).contains(&again.removed()), "{deleted}: {}", again.removed());
            assert!(again.judge(2000 - deleted, false, false).is_ok());
        }
        let (again, _) = open(Some(folder.path()), false);
        assert!(again.judge(1000, false, false).is_err(), "half of them are not explained");
        baseline.claim_removal().await.unwrap();
        baseline.settle_removal(false);
        baseline.close().await.unwrap();
        assert_eq!(open(Some(folder.path()), false).0.removed(), 700);
        let other = Baseline::open(Some(folder.path()), "another", false).unwrap_err().to_string();
        assert!(other.contains("a table") && other.contains("--data"), "{other}");
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert!(open(Some(folder.path()), false).1.unwrap().contains(FILE));
    }

    #[tokio::test]
    async fn what_is_deleted_while_it_is_scanned_is_still_counted() {
        let (baseline, _) = open(None, false);
        baseline.adopt(1000, 0).await.unwrap();
        for _ in 0..3 {
            baseline.claim_removal().await.unwrap();
        }
        baseline.settle_removal(true);
        // Two are under way when the scan begins, and it may see their rows; one more comes during it.
        let before = baseline.removed();
        assert_eq!(before, 1);
        baseline.claim_removal().await.unwrap();
        (0..3).for_each(|_| baseline.settle_removal(true));
        baseline.adopt(999, before).await.unwrap();
        assert_eq!(baseline.removed(), 3);
    }

    #[tokio::test]
    async fn what_others_delete_is_expected_to_be_gone() {
        let (baseline, _) = open(None, false);
        baseline.removed_elsewhere(5, false).await.unwrap();
        baseline.adopt(1000, 0).await.unwrap();
        assert!(baseline.judge(640, false, false).is_err());
        baseline.removed_elsewhere(300, false).await.unwrap();
        assert!(baseline.judge(640, false, false).is_ok() && baseline.judge(600, false, false).is_err());
        baseline.removed_elsewhere(0, true).await.unwrap();
        assert!(baseline.judge(0, false, false).is_ok(), "the table was emptied");
    }

    #[tokio::test(start_paused = true)]
    async fn fewer_keys_are_accepted_when_asked_for_or_seen_for_long_enough_by_one_that_only_watches() {
        let (baseline, _) = open(None, false);
        baseline.adopt(1000, 0).await.unwrap();
        let said = baseline.judge(800, false, false).unwrap_err().to_string();
        assert!(said.contains("accept-fewer=true") && said.contains("--accept-fewer") && !said.contains("delete the"));
        assert!(matches!(baseline.judge(800, true, false).unwrap(), Belief::Fewer(1000, _)));
        for seconds in [0, 1, 30, 3600] {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert!(baseline.judge(800, false, false).is_err(), "one that blocks never accepts it by itself");
        }
        let (watching, _) = open(None, false);
        watching.adopt(1000, 0).await.unwrap();
        // Three at once are not enough, nor three that differ.
        for (seconds, scanned, believed) in
            [(0, 800, false), (1, 799, false), (1, 801, false), (100, 700, false), (1, 700, false), (60, 700, true)]
        {
            tokio::time::advance(Duration::from_secs(seconds)).await;
            assert_eq!(watching.judge(scanned, false, true).is_ok(), believed, "{seconds} {scanned}");
        }
        let (started, _) = open(None, true);
        started.adopt(1000, 0).await.unwrap();
        assert!(started.judge(10, false, false).is_err(), "one start, one scan");
    }
}
