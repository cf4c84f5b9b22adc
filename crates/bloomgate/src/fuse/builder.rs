//! From keys to a [`Fuse`] filter: gather the digests, solve the table.

use super::{Fuse, build};
use crate::arch::CHUNK;
use crate::bits::Owned;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::digests::{Digests, KeyDigests, WordDigests};
use crate::hash::{Contract, Digest, Secret};
use crate::key::Key;
use crate::math;
use crate::promise::{DEFAULT_RATE, KEPT, MAX_ITEMS, Promise, WhenFull, check_rate};

/// Makes a [`Fuse`] filter from a whole set. Setters never refuse; the `build_from` methods alone do.
///
/// There is no `items`, no `headroom` and no `when_full`: the set says how many keys there are, and no more will come.
#[derive(Debug, Clone)]
pub struct FuseBuilder {
    rate: Option<f64>,
    width: Option<u32>,
    contract: Contract,
    threads: usize,
    memory: u64,
}

impl FuseBuilder {
    pub(super) fn new() -> Self {
        Self { rate: None, width: None, contract: Contract::xxh3(), threads: 0, memory: u64::MAX }
    }

    /// The false-positive rate to keep; 0.01 if not said. The fingerprint gets as many bits as it takes: 7 for 1 %, 10 for
    /// 0.1 %, and up to 32.
    #[doc(alias = "fpp")]
    #[doc(alias = "error_rate")]
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The bits of a fingerprint, 1 to 32: the rate is 2 to the minus so many. With a rate too, they must keep it.
    #[must_use]
    pub fn fingerprint_bits(mut self, bits: u32) -> Self {
        self.width = Some(bits);
        self
    }

    /// The type of the keys; bytes and text if not said.
    #[must_use]
    pub fn keys<K: Key + ?Sized>(mut self) -> Self {
        self.contract = self.contract.with_encoding(K::ENCODING);
        self
    }

    /// How keys become digests: encoding, hash, seed or secret. Replaces the type of the keys too: call it before `keys`.
    #[must_use]
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = contract;
        self
    }

    /// Hash with SipHash-1-3 under this secret: for keys that strangers choose. Keeps the type of the keys.
    #[must_use]
    pub fn secret(mut self, secret: &Secret) -> Self {
        let encoding = self.contract.encoding();
        self.contract = Contract::keyed(secret).with_encoding(encoding);
        self
    }

    /// How many threads solve the table; 0, as if not said, for as many as there are cores. From 4 million keys up there
    /// is work for several. The bytes that come out do not depend on it.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The memory that building may take beside the keys, in bytes; a larger need is refused before it is asked for. See
    /// [`math::fuse::build_bytes`].
    #[must_use]
    pub fn build_memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// The filter of everything an iterator gives, or why there is none. Repeated keys count once.
    #[doc(alias = "try_from_iterator")]
    pub fn build_from<K: Key>(self, keys: impl IntoIterator<Item = K>) -> Result<Fuse> {
        let (width, rate) = self.resolve()?;
        let mut keys = keys.into_iter();
        let mut chunk = Vec::with_capacity(CHUNK * 8);
        let mut halves = Vec::new();
        loop {
            chunk.clear();
            chunk.extend(keys.by_ref().take(CHUNK * 8));
            if chunk.is_empty() {
                return self.solve(&mut halves, width, rate);
            }
            let count = halves.len() + chunk.len();
            if count > halves.capacity() {
                // Doubling, as a vector does; but what it would take in the end is asked for first.
                self.check_memory(count as u64, width)?;
                halves.try_reserve(chunk.len()).map_err(|_| too_much(count as u64))?;
            }
            let from = halves.len();
            halves.resize(count, 0);
            self.hash(&chunk, &mut halves[from..])?;
        }
    }

    /// The filter of a slice of keys, hashed by the batch, or why there is none. Repeated keys count once.
    pub fn build_from_slice<K: Key>(self, keys: &[K]) -> Result<Fuse> {
        let (width, rate) = self.resolve()?;
        self.check_memory(keys.len() as u64, width)?;
        let mut halves = Owned::passing(keys.len() as u64)?;
        self.hash(keys, halves.as_mut_slice())?;
        self.solve(halves.as_mut_slice(), width, rate)
    }

    /// The filter of digests made elsewhere under the same contract, or why there is none. Repeated digests count once.
    pub fn build_from_digests(self, digests: &[Digest]) -> Result<Fuse> {
        let (width, rate) = self.resolve()?;
        self.check_memory(digests.len() as u64, width)?;
        let mut halves = Owned::passing(digests.len() as u64)?;
        for (half, digest) in halves.as_mut_slice().iter_mut().zip(digests) {
            *half = digest.lo;
        }
        self.solve(halves.as_mut_slice(), width, rate)
    }

    /// The bits of a fingerprint and the rate to promise.
    fn resolve(&self) -> Result<(u32, f64)> {
        self.contract.encoding().validate()?;
        let rate = self.rate.map(check_rate).transpose()?;
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidParameter, message));
        match (self.width, rate) {
            (Some(width), _) if !(1..=math::fuse::MAX_WIDTH).contains(&width) => {
                refuse(format!("a fingerprint has 1 to {} bits, not {width}; 7 keep 1 %", math::fuse::MAX_WIDTH))
            }
            (Some(width), Some(rate)) if math::fuse::rate(width) > rate * KEPT => refuse(format!(
                "fingerprints of {width} bits have a rate of {:e}, not {rate:e}; leave the bits to be chosen",
                math::fuse::rate(width)
            )),
            (Some(width), rate) => Ok((width, rate.unwrap_or(math::fuse::rate(width)))),
            (None, rate) => {
                let rate = rate.unwrap_or(DEFAULT_RATE);
                let width = math::fuse::width_for(rate);
                if width > math::fuse::MAX_WIDTH {
                    return refuse(format!(
                        "a fuse filter keeps rates down to 2^-{0} = {1:e}, not {rate:e}; ask for that, or use an exact set",
                        math::fuse::MAX_WIDTH,
                        math::fuse::rate(math::fuse::MAX_WIDTH)
                    ));
                }
                Ok((width, rate))
            }
        }
    }

    fn thread_count(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }

    /// Refuses what would take more memory than allowed, or more keys than a filter can have.
    fn check_memory(&self, keys: u64, width: u32) -> Result<()> {
        let bytes = math::fuse::build_bytes(keys, width, self.thread_count());
        if keys > MAX_ITEMS || bytes > self.memory {
            return Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "building a fuse filter of {keys} keys takes {bytes} bytes, {} are allowed for up to 2^40 keys; split \
                     the keys over several, or allow more",
                    self.memory
                ),
            ));
        }
        Ok(())
    }

    /// The first halves of the digests of all keys.
    fn hash<K: Key>(&self, keys: &[K], out: &mut [u64]) -> Result<()> {
        if let Some(words) = WordDigests::of(&self.contract, keys) {
            return hash_all(words, out);
        }
        hash_all(KeyDigests { contract: &self.contract, keys }, out)
    }

    fn solve(self, halves: &mut [u64], width: u32, rate: f64) -> Result<Fuse> {
        let (shape, store, len) = build::build(halves, width, self.thread_count())?;
        // A promise is about at least one key, also that of the empty set.
        let promise = Promise { capacity: len, rate, when_full: WhenFull::Refuse };
        Fuse::from_parts(shape, self.contract, promise, len, store)
    }
}

#[cold]
fn too_much(keys: u64) -> Error {
    Error::new(
        ErrorKind::OutOfMemory,
        format!("the system refused the memory for {keys} keys; split them over several filters"),
    )
}

fn hash_all(mut digests: impl Digests, out: &mut [u64]) -> Result<()> {
    let mut chunk = [0; CHUNK];
    let mut rest = out;
    loop {
        let count = digests.next_lo(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        let (here, after) = rest.split_at_mut(count);
        here.copy_from_slice(&chunk[..count]);
        rest = after;
    }
}
