//! Chains that have not grown yet, many of one kind: what they have in common once, and of each only its words.
//!
//! **When.** A program has a filter for each of a million users, for a hundred keys each: contract, promise and shape are
//! the same for all of them and larger than the bits. **When not.** A filter is large, or one of few: then
//! [`Scalable`] is it.
//!
//! A [`Sprout`] is what they share. The words are wherever the program has them (in a [`Parcel`](crate::bits::Parcel), with
//! the filter's name), and so is the count. When one of them is full it becomes a chain of its own
//! ([`Sprout::chain`]), which is also what is saved, described and merged.
//!
//! Words here are aligned to 8 bytes, not to a line, so the loops are the scalar ones; a filter of a few lines is in the
//! first-level cache after the first key. A lookup takes 4 ns more than in a chain of its own.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::layout::sealed::Layout as _;
use super::scalable::{BATCH, Growth, Scalable, fill};
use super::{BlockedLayout, Bloom, Stage};
use crate::arch::blocked::{LANES, contains_scalar, insert_scalar};
use crate::arch::words::{ReadWords, WriteWords};
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{KeyDigests, check_lengths};
use crate::hash::{Contract, Digest};
use crate::key::Key;
use crate::promise::{Promise, WhenFull};

/// What chains of one small blocked stage have in common: contract, promise, growth and shape.
///
/// ```
/// use bloomgate::bits::Parcel;
/// use bloomgate::bloom::Sprout;
/// use bloomgate::{Digest, Scalable};
///
/// let sprout = Sprout::of(&Scalable::builder().items(100).rate(0.01).build()?).expect("small");
/// let user = Parcel::new((), sprout.words(), b"user:1")?;
/// let digest = sprout.contract().digest("a key")?;
/// assert!(!sprout.contains_digest(user.words(), digest)?);
/// sprout.insert_all(user.words(), &[digest])?;
/// assert!(sprout.contains_digest(user.words(), digest)?);
///
/// let chain = sprout.chain(user.words(), 1)?; // full, or to be saved
/// assert!(chain.contains("a key")? && chain.len() == 1);
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Sprout {
    contract: Contract,
    promise: Promise,
    growth: Growth,
    /// The one stage.
    layout: BlockedLayout,
    stage: Promise,
    /// Keys told to be new until the stage holds its capacity.
    full_at: u64,
}

impl Sprout {
    /// The most memory of the words, in bytes: in larger filters the rest does not count.
    pub const MOST_BYTES: u64 = 4_096;

    /// What a chain has in common with others made like it; nothing if it has grown, or is not small and blocked.
    #[must_use]
    pub fn of<S: Store>(chain: &Scalable<S>) -> Option<Self> {
        let mut stages = chain.each_stage();
        let (Some(Stage::Blocked(stage)), None) = (stages.next(), stages.next()) else { return None };
        let layout = *stage.layout();
        (!layout.paired() && stage.size_in_bytes() <= Self::MOST_BYTES).then(|| Self {
            contract: chain.contract().clone(),
            promise: chain.promise(),
            growth: chain.growth_rule(),
            layout,
            stage: stage.promise(),
            full_at: stage.full_at(),
        })
    }

    /// The words of a chain that this is the [`Sprout`] of; nothing of another.
    pub fn words_of<'a, S: Store>(&self, chain: &'a Scalable<S>) -> Option<impl Iterator<Item = u64> + use<'a, S>> {
        let mut stages = chain.each_stage();
        let (Some(Stage::Blocked(stage)), None) = (stages.next(), stages.next()) else { return None };
        // All but what is worked out from the rest.
        let alike = *stage.layout() == self.layout
            && stage.promise() == self.stage
            && chain.promise() == self.promise
            && chain.growth_rule() == self.growth
            && *chain.contract() == self.contract;
        if !alike {
            return None;
        }
        let words = stage.store().words();
        Some((0..words.count()).map(move |at| words.load(at)))
    }

    /// How many words each has.
    #[must_use]
    pub fn words(&self) -> usize {
        self.layout.words() as usize
    }

    /// The memory of the words, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.layout.words() * 8
    }

    /// How keys become digests.
    #[must_use]
    pub fn contract(&self) -> &Contract {
        &self.contract
    }

    /// What happens when one is full.
    #[must_use]
    pub fn when_full(&self) -> WhenFull {
        self.promise.when_full
    }

    /// The rate that was asked for.
    #[must_use]
    pub fn promised_rate(&self) -> f64 {
        self.promise.rate
    }

    /// How many keys each was made for.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.stage.capacity
    }

    /// How many more new keys fit where so many were counted.
    #[must_use]
    pub fn remaining(&self, count: u64) -> u64 {
        self.full_at.saturating_sub(count)
    }

    fn check(&self, words: usize) -> Result<()> {
        if words == self.words() {
            return Ok(());
        }
        let message = format!("these filters have {} words, not {words}: give the words of one", self.words());
        Err(Error::new(ErrorKind::InvalidParameter, message))
    }

    #[inline]
    fn has(&self, words: &[AtomicU64], digest: Digest) -> bool {
        let lines = self.layout.lines();
        (0..self.layout.lines_per_key())
            .all(|line| contains_scalar::<false, _>(words, lines, BlockedLayout::line_hash(digest, line)))
    }

    /// Whether a digest may have been inserted into these words.
    #[inline]
    pub fn contains_digest(&self, words: &[AtomicU64], digest: Digest) -> Result<bool> {
        self.check(words.len())?;
        Ok(self.has(words, digest))
    }

    /// Whether each digest may have been. Slices of one length.
    pub fn contains_digests(&self, words: &[AtomicU64], digests: &[Digest], answers: &mut [bool]) -> Result<()> {
        check_lengths(digests.len(), answers.len())?;
        self.check(words.len())?;
        // Whoever makes a filter for each user fills it next: that none of a hundred keys is there is seen in 10 ns then,
        // not in 500.
        if words.iter().all(|word| word.load(Ordering::Relaxed) == 0) {
            answers.fill(false);
            return Ok(());
        }
        digests.iter().zip(answers).for_each(|(&digest, answer)| *answer = self.has(words, digest));
        Ok(())
    }

    /// Whether each key may have been. Slices of one length.
    pub fn contains_batch<K: Key>(&self, words: &[AtomicU64], keys: &[K], answers: &mut [bool]) -> Result<()> {
        check_lengths(keys.len(), answers.len())?;
        self.check(words.len())?;
        if let ([key], [answer]) = (keys, &mut *answers) {
            *answer = self.has(words, self.contract.digest(key)?);
            return Ok(());
        }
        let mut digests = [Digest::default(); BATCH];
        for (keys, answers) in keys.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
            let (digests, filled) = fill(KeyDigests { contract: &self.contract, keys }, &mut digests);
            filled?;
            digests.iter().zip(answers).for_each(|(&digest, answer)| *answer = self.has(words, digest));
        }
        Ok(())
    }

    /// Inserts digests, whatever the words hold; whoever has the count raises it. May be called by many threads at once.
    pub fn insert_all(&self, mut words: &[AtomicU64], digests: &[Digest]) -> Result<()> {
        self.check(words.len())?;
        // A locked instruction takes 6 ns and a key needs four of them: the bits of many are put together first, and each
        // word is set once. 100 keys in a filter made for them: 0.4 us for 2.9.
        if digests.len() * LANES <= words.len() {
            self.set(&mut words, digests);
            return Ok(());
        }
        let mut together = [0; Self::MOST_BYTES as usize / 8];
        let mut together = &mut together[..words.len()];
        self.set(&mut together, digests);
        self.set_bits(words, together)
    }

    /// The bits that [`insert_all`](Self::insert_all) sets for digests, as words of their own: for whoever writes down what
    /// is set before it is. Those of as many keys as these filters are made for take less room than the digests.
    pub fn bits_of(&self, digests: &[Digest], bits: &mut Vec<u64>) {
        bits.clear();
        bits.resize(self.words(), 0);
        self.set(&mut &mut bits[..], digests);
    }

    /// Sets [bits](Self::bits_of); whoever has the count raises it. May be called by many threads at once.
    pub fn set_bits(&self, mut words: &[AtomicU64], bits: &[u64]) -> Result<()> {
        self.check(words.len())?;
        self.check(bits.len())?;
        for (at, &bits) in bits.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            words.set(at, bits);
        }
        Ok(())
    }

    fn set<W: WriteWords>(&self, words: &mut W, digests: &[Digest]) {
        let lines = self.layout.lines();
        for &digest in digests {
            for line in 0..self.layout.lines_per_key() {
                insert_scalar::<false, _>(words, lines, BlockedLayout::line_hash(digest, line));
            }
        }
    }

    /// The chain that these words and this count are, as a filter of its own. Of keys that are inserted meanwhile some are
    /// in it.
    pub fn chain(&self, words: &[AtomicU64], count: u64) -> Result<Scalable<Owned>> {
        self.check(words.len())?;
        let mut stage = Bloom::empty(self.layout, self.contract.clone(), self.stage)?;
        for (at, word) in stage.words_mut().iter_mut().enumerate() {
            *word = words.load(at);
        }
        stage.set_len(count);
        Scalable::from_parts(self.contract.clone(), self.promise, self.growth, vec![Stage::Blocked(stage)])
    }
}

impl fmt::Debug for Sprout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sprout")
            .field("contract", &self.contract)
            .field("promise", &self.promise)
            .field("growth", &self.growth)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::Parcel;
    use crate::kind::Kind;

    fn digests(sprout: &Sprout, keys: std::ops::Range<u32>) -> Vec<Digest> {
        keys.map(|key| sprout.contract().digest(&key.to_le_bytes()[..]).unwrap()).collect()
    }

    /// A sprout and a chain of its own, told the same, answer the same, hold the same bits and are full at the same key.
    #[test]
    fn a_sprout_is_the_chain_that_it_becomes() {
        for (items, rate) in [(1, 0.01), (10, 0.1), (100, 0.01), (100, 1e-6), (1_000, 0.02)] {
            let chain = Scalable::builder().items(items).rate(rate).build().unwrap();
            let sprout = Sprout::of(&chain).unwrap();
            let chain = chain.into_shared().unwrap();
            let parcel = Parcel::new((), sprout.words(), b"").unwrap();
            let keys = digests(&sprout, 0..items as u32);
            let (old, asked) = keys.split_at(keys.len() / 2);
            sprout.insert_all(parcel.words(), old).unwrap();
            chain.replay(old).unwrap();
            let (mut ours, mut theirs) = (vec![false; asked.len()], vec![true; asked.len()]);
            sprout.contains_digests(parcel.words(), asked, &mut ours).unwrap();
            chain.contains_digests(asked, &mut theirs).unwrap();
            assert_eq!(ours, theirs);
            assert!(old.iter().all(|&key| sprout.contains_digest(parcel.words(), key).unwrap()));
            let grown = sprout.chain(parcel.words(), old.len() as u64).unwrap();
            assert!(grown == chain && grown.len() == chain.len() && grown.remaining() == chain.remaining());
            assert_eq!(sprout.remaining(grown.len()), chain.remaining());
            assert_eq!(Sprout::of(&grown).as_ref(), Some(&sprout));
            let words: Vec<u64> = sprout.words_of(&grown).unwrap().collect();
            assert!(words.iter().zip(parcel.words()).all(|(a, b)| *a == b.load(Ordering::Relaxed)));
            let facts = (sprout.capacity(), sprout.size_in_bytes(), sprout.promised_rate(), sprout.when_full());
            assert_eq!(facts, (chain.capacity(), chain.size_in_bytes(), chain.promised_rate(), chain.when_full()));
        }
    }

    #[test]
    fn many_keys_at_once_set_the_bits_that_they_set_one_by_one() {
        for (items, rate) in [(10, 0.01), (100, 1e-6), (1_000, 0.02)] {
            let sprout = Sprout::of(&Scalable::builder().items(items).rate(rate).build().unwrap()).unwrap();
            let parcels = [0; 4].map(|_| Parcel::new((), sprout.words(), b"").unwrap());
            let keys = digests(&sprout, 0..items as u32);
            // Of the third some are there already, and few come at a time.
            sprout.insert_all(parcels[0].words(), &keys).unwrap();
            keys.chunks(1).for_each(|one| sprout.insert_all(parcels[1].words(), one).unwrap());
            keys.chunks(7).for_each(|some| sprout.insert_all(parcels[2].words(), some).unwrap());
            // Of the fourth some are there, and the bits of all come.
            sprout.insert_all(parcels[3].words(), &keys[..3]).unwrap();
            let mut bits = vec![!0; 3];
            sprout.bits_of(&keys, &mut bits);
            sprout.set_bits(parcels[3].words(), &bits).unwrap();
            let [all, one, some, by_bits] = parcels.each_ref().map(|parcel| {
                let words = parcel.words().iter().map(|word| word.load(Ordering::Relaxed));
                words.collect::<Vec<u64>>()
            });
            assert!(all == one && all == some && all == by_bits && all == bits);
            assert!(all.iter().any(|&word| word != 0));
            assert!(sprout.set_bits(parcels[3].words(), &bits[1..]).is_err());
        }
    }

    #[test]
    fn keys_are_asked_for_as_their_digests_are() {
        let sprout = Sprout::of(&Scalable::builder().items(300).build().unwrap()).unwrap();
        let parcel = Parcel::new((), sprout.words(), b"").unwrap();
        let mut nothing_yet = [true; 100];
        sprout.contains_digests(parcel.words(), &digests(&sprout, 0..100), &mut nothing_yet).unwrap();
        assert!(nothing_yet.iter().all(|&found| !found));
        sprout.insert_all(parcel.words(), &digests(&sprout, 0..300)).unwrap();
        let keys: Vec<[u8; 4]> = (0..900u32).map(u32::to_le_bytes).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let (mut by_key, mut by_digest) = (vec![false; 900], vec![true; 900]);
        sprout.contains_batch(parcel.words(), &keys, &mut by_key).unwrap();
        sprout.contains_digests(parcel.words(), &digests(&sprout, 0..900), &mut by_digest).unwrap();
        assert!(by_key == by_digest && by_key[..300].iter().all(|&found| found));
        assert!(by_key[300..].iter().filter(|&&found| found).count() < 30);
        let mut one = [false];
        sprout.contains_batch(parcel.words(), &keys[..1], &mut one).unwrap();
        assert!(one[0]);
    }

    #[test]
    fn what_is_large_or_grown_or_not_blocked_is_no_sprout_and_other_words_are_refused() {
        let mut grown = Scalable::builder().items(10).build().unwrap();
        grown.insert_all((0..100u32).map(|key| key.to_le_bytes().to_vec())).unwrap();
        assert!(grown.stages() > 1 && Sprout::of(&grown).is_none());
        assert!(Sprout::of(&Scalable::builder().items(100_000).build().unwrap()).is_none());
        assert!(Sprout::of(&Scalable::builder().items(10).stages(Kind::Classic).build().unwrap()).is_none());
        let sprout = Sprout::of(&Scalable::builder().items(100).build().unwrap()).unwrap();
        let other = Scalable::builder().items(101).build().unwrap();
        assert!(sprout.words_of(&other).is_none());
        let short = Parcel::new((), sprout.words() - 1, b"").unwrap();
        let digest = Digest::default();
        assert!(sprout.contains_digest(short.words(), digest).is_err());
        assert!(sprout.insert_all(short.words(), &[digest]).is_err() && sprout.chain(short.words(), 0).is_err());
    }
}
