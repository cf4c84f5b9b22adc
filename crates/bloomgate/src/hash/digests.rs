//! From keys to digests, a chunk at a time: the one door through which every kind's batches get their keys.

use super::{Contract, Digest};
use crate::arch::{CHUNK, xxh3};
use crate::error::{Error, ErrorKind, Result};
use crate::key::Key;

/// Digests in chunks, from keys or from a slice.
pub(crate) trait Digests {
    /// The next chunk; how many were written, 0 at the end.
    fn next(&mut self, out: &mut [Digest; CHUNK]) -> Result<usize>;
    /// The same, `lo` halves only: all that a one-line blocked filter reads, and cheaper to hash.
    fn next_lo(&mut self, out: &mut [u64; CHUNK]) -> Result<usize>;
}

/// Words under XXH3, the default contract for integers: the shortest way from keys to digests, with nothing to decide
/// and nothing to refuse on it.
pub(crate) struct WordDigests<'a> {
    seed: u64,
    words: &'a [u64],
}

impl<'a> WordDigests<'a> {
    /// The keys as words, if they lie in memory as such and the contract is XXH3 over such words.
    #[inline]
    pub(crate) fn of<K: Key>(contract: &Contract, keys: &'a [K]) -> Option<Self> {
        Some(Self {
            seed: contract.word_seed::<K>()?,
            words: K::words(keys).filter(|words| words.len() == keys.len())?,
        })
    }

    #[inline(always)]
    fn take(&mut self) -> &'a [u64] {
        let (chunk, rest) = self.words.split_at(self.words.len().min(CHUNK));
        self.words = rest;
        chunk
    }
}

impl Digests for WordDigests<'_> {
    #[inline(always)]
    fn next(&mut self, out: &mut [Digest; CHUNK]) -> Result<usize> {
        let chunk = self.take();
        xxh3::words(self.seed, chunk, out);
        Ok(chunk.len())
    }
    #[inline(always)]
    fn next_lo(&mut self, out: &mut [u64; CHUNK]) -> Result<usize> {
        let chunk = self.take();
        xxh3::words_lo(self.seed, chunk, out);
        Ok(chunk.len())
    }
}

/// Keys that become digests chunk by chunk.
pub(crate) struct KeyDigests<'a, K> {
    pub(crate) contract: &'a Contract,
    pub(crate) keys: &'a [K],
}

impl<'a, K: Key> KeyDigests<'a, K> {
    #[inline(always)]
    fn take(&mut self) -> &'a [K] {
        let (chunk, rest) = self.keys.split_at(self.keys.len().min(CHUNK));
        self.keys = rest;
        chunk
    }

    /// A key of the chunk was refused: the keys before it become a chunk of their own, and the next call refuses. So
    /// they are worked on as if they had come one by one.
    #[cold]
    fn before_refused(&self, chunk: &[K], refused: Error, mut put: impl FnMut(usize, Digest)) -> Result<usize> {
        let mut good = 0;
        while let Some(Ok(digest)) = chunk.get(good).map(|key| self.contract.digest(key)) {
            put(good, digest);
            good += 1;
        }
        if good == 0 { Err(refused) } else { Ok(good) }
    }
}

impl<K: Key> Digests for KeyDigests<'_, K> {
    #[inline(always)]
    fn next(&mut self, out: &mut [Digest; CHUNK]) -> Result<usize> {
        let keys = self.keys;
        let chunk = self.take();
        match self.contract.digest_chunk(chunk, out) {
            Ok(()) => Ok(chunk.len()),
            Err(refused) => {
                let good = self.before_refused(chunk, refused, |at, digest| out[at] = digest)?;
                self.keys = &keys[good..];
                Ok(good)
            }
        }
    }
    #[inline(always)]
    fn next_lo(&mut self, out: &mut [u64; CHUNK]) -> Result<usize> {
        let keys = self.keys;
        let chunk = self.take();
        match self.contract.digest_lo_chunk(chunk, out) {
            Ok(()) => Ok(chunk.len()),
            Err(refused) => {
                let good = self.before_refused(chunk, refused, |at, digest| out[at] = digest.lo)?;
                self.keys = &keys[good..];
                Ok(good)
            }
        }
    }
}

impl Digests for &[Digest] {
    #[inline(always)]
    fn next(&mut self, out: &mut [Digest; CHUNK]) -> Result<usize> {
        let (chunk, rest) = self.split_at(self.len().min(CHUNK));
        *self = rest;
        out[..chunk.len()].copy_from_slice(chunk);
        Ok(chunk.len())
    }
    #[inline(always)]
    fn next_lo(&mut self, out: &mut [u64; CHUNK]) -> Result<usize> {
        let (chunk, rest) = self.split_at(self.len().min(CHUNK));
        *self = rest;
        for (out, digest) in out.iter_mut().zip(chunk) {
            *out = digest.lo;
        }
        Ok(chunk.len())
    }
}

/// Runs a two-deep pipeline over chunks: `step(now, next)` works on `now` while it asks memory for `next`.
///
/// When `fill` fails, what was filled before is still worked on: the keys before a refused one are in.
#[inline(always)]
pub(crate) fn pipeline<T: Copy, const N: usize>(
    blank: T,
    mut fill: impl FnMut(&mut [T; N]) -> Result<usize>,
    mut step: impl FnMut(&[T], &[T]),
) -> Result<()> {
    let mut chunks = [[blank; N]; 2];
    let (mut now, mut next) = (0, 1);
    let mut waiting = 0;
    loop {
        let filled = fill(&mut chunks[next]);
        let coming = *filled.as_ref().unwrap_or(&0);
        step(&chunks[now][..waiting], &chunks[next][..coming]);
        filled?;
        if coming == 0 {
            return Ok(());
        }
        waiting = coming;
        (now, next) = (next, now);
    }
}

/// A batch needs one answer per key.
pub(crate) fn check_lengths(keys: usize, answers: usize) -> Result<()> {
    if keys == answers {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::InvalidParameter,
        format!("{keys} keys need {keys} answers, and there is room for {answers}; give slices of one length"),
    ))
}
