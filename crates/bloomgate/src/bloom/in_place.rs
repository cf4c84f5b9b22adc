//! Bloom filters in a file that is written in place: inserts from many threads, larger than memory, over 2^32 bits.
//!
//! **When.** A filter that does not fit memory, or that must survive its process without being saved whole each time.
//! **When not.** It fits and is saved now and then: [`Shared`](crate::Shared) inserts faster, and
//! [`save`](Bloom::save) leaves a whole file at every moment. Keys that go again: counters are not written in place.
//!
//! | keys at 1 % | file | `create_mapped` writes | a `sync` writes |
//! |---|---|---|---|
//! | 1 M | 1.3 MB | 1 KiB, the rest is a hole | touched pages, 84 bytes of sums |
//! | 1 G | 1.3 GB | 80 KiB | touched pages, 78 KiB of sums |
//! | 100 G | 127 GB | 7.8 MB | touched pages, 7.7 MB of sums |

use super::filter::{Bloom, InsertAll};
use super::layout::Layout;
use crate::arch::{CHUNK, dispatch};
use crate::bits::counter::Count as _;
use crate::bits::mapped_mut::Writing;
use crate::bits::{Damage, MappedMut};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Digest;
use crate::hash::digests::{Digests, KeyDigests, WordDigests};
use crate::key::Key;
use crate::promise::{WhenFull, full};

/// How many digests are inserted under one opening of the gate: eight times what is fetched ahead.
const AT_ONCE: usize = 8 * CHUNK;

/// Inserting in place, from many threads.
///
/// ```
/// use bloomgate::{Blocked, ErrorKind};
///
/// # let folder = std::env::temp_dir().join(format!("bloomgate-doc-in-place-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("seen.bloom");
/// let seen = Blocked::builder().items(1_000_000).rate(0.01).create_mapped(&path)?;
/// seen.insert("https://example.org/")?;      // by `&self`: share it between threads
/// assert_eq!(Blocked::open(&path).unwrap_err().kind(), ErrorKind::Dirty); // not finished
/// seen.close()?;                             // or `sync`, to go on
///
/// assert!(Blocked::open(&path)?.contains("https://example.org/")?);
/// let seen = Blocked::map_mut(&path)?;       // and on with it
/// seen.insert("https://example.com/")?;
/// seen.close()?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<L: Layout> Bloom<L, MappedMut> {
    /// Inserts a key; true if it was certainly new, false if it may have been there before.
    ///
    /// Threads that insert the same new key at once: at least one is told that it was new. The first insert since the file
    /// was opened or synced marks it as unfinished, on disk, before anything else.
    ///
    /// A key that falls into a damaged chunk is refused: such a chunk answers "maybe" to everything, until the filter is
    /// built again. An error of the disk ends inserting: the mark stays, and reopening tells.
    #[doc(alias = "put")]
    #[doc(alias = "add")]
    #[inline]
    pub fn insert<K: Key + ?Sized>(&self, key: &K) -> Result<bool> {
        self.insert_digest(self.contract().digest(key)?)
    }

    /// [`insert`](Self::insert) for a digest made elsewhere under the same contract.
    ///
    /// A filter that refuses when full may go past its capacity by as many keys as threads insert at that moment.
    pub fn insert_digest(&self, digest: Digest) -> Result<bool> {
        if self.when_full() == WhenFull::Refuse && self.is_full() {
            return if self.contains_digest(digest) { Ok(false) } else { Err(full(L::KIND, self.capacity())) };
        }
        let writing = self.store().begin()?;
        if !self.claim(&writing, digest) {
            return Err(self.damaged());
        }
        let fresh = self.layout().insert(&mut writing.atomics(), digest);
        if fresh {
            self.count().add(1);
        }
        Ok(fresh)
    }

    /// Inserts many keys at once; how many were certainly new.
    ///
    /// If a key is refused (wrong encoding, full, a damaged chunk), keys before it are in, and those after it may not be.
    #[doc(alias = "put_all")]
    #[doc(alias = "madd")]
    pub fn insert_batch<K: Key>(&self, keys: &[K]) -> Result<u64> {
        if let Some(words) = WordDigests::of(self.contract(), keys) {
            return self.insert_each(words);
        }
        self.insert_each(KeyDigests { contract: self.contract(), keys })
    }

    /// [`insert_batch`](Self::insert_batch) for digests.
    pub fn insert_digests(&self, digests: &[Digest]) -> Result<u64> {
        self.insert_each(digests)
    }

    fn insert_each(&self, mut digests: impl Digests) -> Result<u64> {
        let mut buffer = [Digest::default(); AT_ONCE];
        let mut fresh = 0;
        loop {
            let mut filled = 0;
            let mut end = Ok(false);
            while let Some(chunk) = buffer[filled..].first_chunk_mut() {
                match digests.next(chunk) {
                    Ok(0) => end = Ok(true),
                    Ok(count) => {
                        filled += count;
                        continue;
                    }
                    Err(error) => end = Err(error),
                }
                break;
            }
            fresh += self.insert_some(&buffer[..filled])?;
            if end? {
                return Ok(fresh);
            }
        }
    }

    fn insert_some(&self, digests: &[Digest]) -> Result<u64> {
        if digests.is_empty() {
            return Ok(0);
        }
        if self.when_full() == WhenFull::Refuse {
            return digests.iter().try_fold(0, |fresh, &digest| Ok(fresh + u64::from(self.insert_digest(digest)?)));
        }
        let writing = self.store().begin()?;
        let good = digests.iter().position(|&digest| !self.claim(&writing, digest)).unwrap_or(digests.len());
        let (fresh, result) =
            dispatch(InsertAll { layout: *self.layout(), words: writing.atomics(), digests: &digests[..good] });
        self.count().add(fresh);
        result?;
        if good < digests.len() { Err(self.damaged()) } else { Ok(fresh) }
    }

    /// Makes the chunks of a key's words writable; false if one is damaged.
    #[inline]
    fn claim(&self, writing: &Writing<'_>, digest: Digest) -> bool {
        let mut all = true;
        self.layout().each_word(digest, |word| all &= writing.claim(word));
        all
    }

    #[cold]
    fn damaged(&self) -> Error {
        let what = self.damage().map_or_else(|| "a chunk is damaged".into(), |damage| damage.to_string());
        Error::new(ErrorKind::Corrupt, format!("{what}, and takes no keys: build the filter again"))
    }

    /// Makes everything that was inserted durable, and the file whole: after it, the file is what [`save`](Self::save)
    /// would have written. Inserts wait meanwhile, lookups do not.
    ///
    /// The address of the file is not worked out, since that would read all of it; [`inspect`](crate::format::inspect) does.
    ///
    /// If the disk refuses, nothing more can be inserted, because what the system could not write it may have dropped, and
    /// the file stays marked as unfinished (unless it was the mark itself that could not be taken away for good: then all
    /// else is on disk). Reopen it by [`recover_mapped`](Self::recover_mapped), or build it again.
    #[doc(alias = "flush")]
    pub fn sync(&self) -> Result<()> {
        self.store().sync(|| self.len())
    }

    /// [`sync`](Self::sync), and the end: the file is whole, unlocked and closed.
    ///
    /// A filter that is dropped instead is not synced: what was inserted since the last sync leaves the file marked.
    pub fn close(self) -> Result<()> {
        self.sync()
    }

    /// Whether something was inserted since the last sync, so that the file is marked as unfinished.
    #[must_use]
    pub fn is_dirty(&self) -> bool {
        self.store().is_dirty()
    }

    /// The first damaged place among those that lookups and inserts have touched so far.
    #[must_use]
    pub fn damage(&self) -> Option<Damage> {
        self.store().damage()
    }

    /// Verifies everything now, and refuses a damaged file. `progress` is told the chunks done and how many there are:
    /// `|_, _| ()` if nobody looks.
    pub fn verify_all(&self, progress: impl FnMut(u64, u64)) -> Result<()> {
        self.store().verify_all(progress);
        match self.damage() {
            None => Ok(()),
            Some(damage) => Err(Error::new(ErrorKind::Corrupt, format!("{damage}: fetch or build the file again"))),
        }
    }

    /// The count of a filter whose own is out of date. Reads all bits.
    pub(crate) fn count_from_bits(&mut self) {
        let keys = self.approximate_count().value.round().clamp(0.0, 2f64.powi(56)) as u64;
        self.count_mut().set(keys);
    }
}
