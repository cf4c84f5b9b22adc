//! The door through which keys go by the chunk: what every batch of every filter calls.
//!
//! Integers become an array of words and go through the SIMD kernels. Byte keys go one by one under XXH3,
//! which has enough to do in one key, and side by side under SipHash, which has not. Nothing is
//! allocated for a key: those that have to be built (tuples, 128-bit integers) share one buffer.

use super::contract::Hasher;
use super::{CHUNK, Contract, Digest};
use crate::arch::{FEW, siphash, xxh3};
use crate::error::Result;
use crate::key::Key;

impl Contract {
    /// Appends the digests of these keys, in their order: [`digest`](Contract::digest) for each, hashed side by side
    /// where that is faster. On a refusal those before the refused chunk of 32 are there.
    ///
    /// For hashing on one thread what another inserts ([`insert_digests`](crate::AnyFilter::insert_digests)).
    ///
    /// ```
    /// let contract = bloomgate::Contract::xxh3();
    /// let mut digests = Vec::new();
    /// contract.digest_batch(&["a", "b"], &mut digests)?;
    /// assert_eq!(digests, [contract.digest("a")?, contract.digest("b")?]);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn digest_batch<K: Key>(&self, keys: &[K], digests: &mut Vec<Digest>) -> Result<()> {
        if keys.len() < FEW {
            let before = digests.len();
            for key in keys {
                match self.digest(key) {
                    Ok(digest) => digests.push(digest),
                    Err(refused) => {
                        digests.truncate(before);
                        return Err(refused);
                    }
                }
            }
            return Ok(());
        }
        digests.reserve(keys.len());
        let mut chunk = [Digest::default(); CHUNK];
        for keys in keys.chunks(CHUNK) {
            self.digest_chunk(keys, &mut chunk)?;
            digests.extend_from_slice(&chunk[..keys.len()]);
        }
        Ok(())
    }

    /// The digests of up to [`CHUNK`] keys; on a refusal what `out` holds is not to be used.
    #[inline(always)]
    pub(crate) fn digest_chunk<K: Key>(&self, keys: &[K], out: &mut [Digest; CHUNK]) -> Result<()> {
        self.digest_parts::<K, true>(keys, out)
    }

    /// The `lo` halves of the digests of up to [`CHUNK`] keys: all that a filter of one cache line a
    /// key needs, and cheaper to make.
    #[inline(always)]
    pub(crate) fn digest_lo_chunk<K: Key>(&self, keys: &[K], out: &mut [u64; CHUNK]) -> Result<()> {
        debug_assert!(keys.len() <= CHUNK);
        if K::ENCODING.is_word() && self.encoding.accepts(K::ENCODING) {
            let mut words = [0; CHUNK];
            match (&self.hasher, gather(keys, &mut words)) {
                (Hasher::Xxh3 { seed }, Some(words)) => {
                    xxh3::words_lo(*seed, words, out);
                    return Ok(());
                }
                (Hasher::SipHash13(keyed), Some(words)) => {
                    siphash::words_lo::<1, 3>(keyed.sip(), words, out);
                    return Ok(());
                }
                _ => {}
            }
        }
        if !K::ENCODING.is_word() && self.encoding.accepts(K::ENCODING) && self.digest_lo_strings(keys, out) {
            return Ok(());
        }
        let mut digests = [Digest::default(); CHUNK];
        self.digest_parts::<K, false>(keys, &mut digests)?;
        for (out, digest) in out.iter_mut().zip(&digests).take(keys.len()) {
            *out = digest.lo;
        }
        Ok(())
    }

    /// The digests of up to [`CHUNK`] keys; unless `WHOLE`, only their `lo` halves may be used.
    #[inline]
    fn digest_parts<K: Key, const WHOLE: bool>(&self, keys: &[K], out: &mut [Digest; CHUNK]) -> Result<()> {
        debug_assert!(keys.len() <= CHUNK);
        if self.encoding.accepts(K::ENCODING) {
            self.refuse_given()?;
            if K::ENCODING.is_word() {
                let mut words = [0; CHUNK];
                if let Some(words) = gather(keys, &mut words) {
                    self.hash_words::<WHOLE>(words, out);
                    return Ok(());
                }
            }
        }
        self.digest_strings(keys, out)
    }

    /// The digests of canonical forms of eight bytes.
    #[inline]
    fn hash_words<const WHOLE: bool>(&self, words: &[u64], out: &mut [Digest; CHUNK]) {
        match &self.hasher {
            Hasher::Xxh3 { seed } => xxh3::words(*seed, words, out),
            Hasher::SipHash13(keyed) if WHOLE => siphash::words::<1, 3, 3>(keyed.sip(), words, out),
            Hasher::SipHash13(keyed) => siphash::words::<1, 3, 0>(keyed.sip(), words, out),
            Hasher::SipHash24(keyed) if WHOLE => siphash::words::<2, 4, 4>(keyed.sip(), words, out),
            Hasher::SipHash24(keyed) => siphash::words::<2, 4, 0>(keyed.sip(), words, out),
            _ => words.iter().zip(out).for_each(|(&word, out)| *out = self.hash_word(word)),
        }
    }

    /// The digests of keys that are not words, or of text that has to be parsed.
    fn digest_strings<K: Key>(&self, keys: &[K], out: &mut [Digest; CHUNK]) -> Result<()> {
        let mut scratch = Vec::new();
        if !self.encoding.accepts(K::ENCODING) {
            for (key, out) in keys.iter().zip(out) {
                *out = self.digest_foreign(K::ENCODING, key.text(), &mut scratch)?;
            }
            return Ok(());
        }
        match &self.hasher {
            Hasher::SipHash13(keyed) => {
                self.with_strings(keys, |strings| siphash::strings::<1, 3>(keyed.sip(), strings, out));
            }
            Hasher::SipHash24(keyed) => {
                self.with_strings(keys, |strings| siphash::strings::<2, 4>(keyed.sip(), strings, out));
            }
            _ => {
                for (key, out) in keys.iter().zip(out) {
                    *out = self.digest_bytes(key.canonical(&mut scratch));
                }
            }
        }
        Ok(())
    }

    /// The `lo` halves of the digests of accepted keys that are not words, where the hash has them sooner than the whole.
    fn digest_lo_strings<K: Key>(&self, keys: &[K], out: &mut [u64; CHUNK]) -> bool {
        match &self.hasher {
            Hasher::SipHash13(keyed) => {
                self.with_strings(keys, |strings| siphash::strings_lo::<1, 3>(keyed.sip(), strings, out));
            }
            Hasher::SipHash24(keyed) => {
                self.with_strings(keys, |strings| siphash::strings_lo::<2, 4>(keyed.sip(), strings, out));
            }
            _ => return false,
        }
        true
    }

    /// Calls `hash` with the canonical forms of up to [`CHUNK`] accepted keys.
    #[inline(always)]
    fn with_strings<K: Key>(&self, keys: &[K], hash: impl FnOnce(&[&[u8]])) {
        let keys = &keys[..keys.len().min(CHUNK)];
        let mut lie_ready = true;
        // Made of the keys at once: an array of empty strings first would cost 0.4 ns a key.
        let mut strings: [&[u8]; CHUNK] = std::array::from_fn(|at| {
            let ready = keys.get(at).map_or(Some(&[][..]), Key::as_canonical);
            lie_ready &= ready.is_some();
            ready.unwrap_or_default()
        });
        if lie_ready {
            if self.encoding.is_prefix() {
                strings.iter_mut().for_each(|string| *string = self.encoding.prefix(string));
            }
            return hash(&strings[..keys.len()]);
        }
        let mut scratch = Vec::new();
        let mut built = Vec::with_capacity(CHUNK * 32);
        let mut ends = [0; CHUNK];
        for (key, end) in keys.iter().zip(&mut ends) {
            built.extend_from_slice(self.encoding.prefix(key.canonical(&mut scratch)));
            *end = built.len();
        }
        let mut start = 0;
        for (string, &end) in strings.iter_mut().zip(&ends[..keys.len()]) {
            *string = &built[start..end];
            start = end;
        }
        hash(&strings[..keys.len()]);
    }
}

/// The words of the keys, unless one of them has none.
#[inline(always)]
fn gather<'a, K: Key>(keys: &'a [K], words: &'a mut [u64; CHUNK]) -> Option<&'a [u64]> {
    if let Some(words) = K::words(keys).filter(|words| words.len() == keys.len()) {
        return Some(words);
    }
    for (key, word) in keys.iter().zip(words.iter_mut()) {
        *word = key.word()?;
    }
    Some(&words[..keys.len().min(CHUNK)])
}
