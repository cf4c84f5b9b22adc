//! The contract: encoding, algorithm, and seed or secret; and the door through which one key goes.

use std::fmt;

use super::foreign;
use super::murmur3::murmur3;
use super::secret::wipe;
use super::{Algorithm, Digest, Secret, SecretId};
use crate::arch::siphash::SipKey;
use crate::arch::{siphash, xxh3};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Encoding, Key, quoted};

/// How keys become digests: encoding, algorithm and seed or secret.
///
/// Two contracts are equal when they give every key the same digest: same encoding, same algorithm, same
/// seed, same secret (told by its id and check value). `Debug` and `Display` never show a secret.
///
/// ```
/// use bloomgate::{Contract, Encoding};
///
/// let contract = Contract::xxh3().with_encoding(Encoding::Unsigned);
/// assert_eq!(contract.digest(&42u8)?, contract.digest("42")?);
/// assert!(contract.digest(&b"42"[..]).is_err());
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Contract {
    pub(super) encoding: Encoding,
    pub(super) hasher: Hasher,
}

/// The algorithm with what keys it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Hasher {
    Xxh3 {
        seed: u64,
    },
    SipHash13(Keyed),
    SipHash24(Keyed),
    Blake2b(Keyed),
    Murmur3 {
        seed: u32,
    },
    Given,
    /// Those of other systems: nothing keys them.
    Foreign(Algorithm),
}

/// The key of a hash, made from a secret, and the secret's public values.
#[derive(Clone)]
pub(super) struct Keyed {
    id: SecretId,
    check: [u8; 8],
    key: [u64; 4],
}

impl Keyed {
    fn new(algorithm: Algorithm, secret: &Secret) -> Self {
        Self { id: secret.id(), check: secret.check(), key: secret.key(algorithm) }
    }

    #[inline]
    pub(super) fn sip(&self) -> SipKey {
        SipKey { k0: self.key[0], k1: self.key[1] }
    }

    fn blake2b(&self, bytes: &[u8]) -> Digest {
        let mut key = [0; 32];
        for (bytes, word) in key.as_chunks_mut::<8>().0.iter_mut().zip(self.key) {
            *bytes = word.to_le_bytes();
        }
        let hash = blake2b_simd::Params::new().hash_length(16).key(&key).hash(bytes);
        let mut digest = [0; 16];
        digest.copy_from_slice(hash.as_bytes());
        Digest::from_bytes(digest)
    }
}

impl Drop for Keyed {
    fn drop(&mut self) {
        wipe(&mut self.key);
    }
}

impl PartialEq for Keyed {
    fn eq(&self, other: &Self) -> bool {
        (self.id, self.check) == (other.id, other.check)
    }
}

impl Eq for Keyed {}

impl Contract {
    const fn over_bytes(hasher: Hasher) -> Self {
        Self { encoding: Encoding::Bytes, hasher }
    }

    /// XXH3-128 with seed 0 over bytes: the default for keys you trust.
    #[must_use]
    pub const fn xxh3() -> Self {
        Self::xxh3_seeded(0)
    }

    /// XXH3-128 with a seed. A seed is not a secret: it is written in the file.
    #[must_use]
    pub const fn xxh3_seeded(seed: u64) -> Self {
        Self::over_bytes(Hasher::Xxh3 { seed })
    }

    /// The contract for keys from outside: [`Contract::siphash13`].
    #[must_use]
    pub fn keyed(secret: &Secret) -> Self {
        Self::siphash13(secret)
    }

    /// SipHash-1-3 with 128-bit output, keyed.
    #[must_use]
    pub fn siphash13(secret: &Secret) -> Self {
        Self::over_bytes(Hasher::SipHash13(Keyed::new(Algorithm::SipHash13, secret)))
    }

    /// SipHash-2-4 with 128-bit output, keyed.
    #[must_use]
    pub fn siphash24(secret: &Secret) -> Self {
        Self::over_bytes(Hasher::SipHash24(Keyed::new(Algorithm::SipHash24, secret)))
    }

    /// BLAKE2b with 16 bytes of output, keyed.
    #[must_use]
    pub fn blake2b(secret: &Secret) -> Self {
        Self::over_bytes(Hasher::Blake2b(Keyed::new(Algorithm::Blake2b, secret)))
    }

    /// MurmurHash3 x64-128, for filters shared with programs that use it. Never for keys from outside.
    #[must_use]
    pub const fn murmur3(seed: u32) -> Self {
        Self::over_bytes(Hasher::Murmur3 { seed })
    }

    /// No hash: the caller gives digests, and every key is refused.
    #[must_use]
    pub const fn given() -> Self {
        Self::over_bytes(Hasher::Given)
    }

    /// RedisBloom's hash of Bloom filters: MurmurHash64A twice, the second seeded by the first. Never for keys from
    /// outside, nor are the three that follow.
    #[must_use]
    pub const fn murmur64a_pair() -> Self {
        Self::over_bytes(Hasher::Foreign(Algorithm::Murmur64aPair))
    }

    /// RedisBloom's hash of cuckoo filters: MurmurHash64A with seed 0.
    #[must_use]
    pub const fn murmur64a() -> Self {
        Self::over_bytes(Hasher::Foreign(Algorithm::Murmur64a))
    }

    /// Parquet's hash: XXH64 with seed 0.
    #[must_use]
    pub const fn xxh64() -> Self {
        Self::over_bytes(Hasher::Foreign(Algorithm::Xxh64))
    }

    /// The hash of the `BFv1` form: BLAKE2b with 8 bytes of output under two personalisations.
    #[must_use]
    pub const fn blake2b_64_double() -> Self {
        Self::over_bytes(Hasher::Foreign(Algorithm::Blake2b64Double))
    }

    /// The contract of an algorithm chosen at run time. An algorithm takes a seed or a secret or
    /// neither; what it does not take has to be left out (a seed of 0, no secret).
    pub fn new(algorithm: Algorithm, seed: u64, secret: Option<&Secret>) -> Result<Self> {
        if algorithm.is_keyed() {
            let Some(secret) = secret else {
                return Err(Error::new(
                    ErrorKind::Secret,
                    format!("{algorithm} is keyed and no secret was given: give one, or use xxh3 for keys you trust"),
                ));
            };
            if seed != 0 {
                return Err(refused_seed(algorithm, seed, "a secret instead of a seed: leave the seed out"));
            }
            return Ok(match algorithm {
                Algorithm::SipHash24 => Self::siphash24(secret),
                Algorithm::Blake2b => Self::blake2b(secret),
                _ => Self::siphash13(secret),
            });
        }
        if secret.is_some() {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{algorithm} takes no secret: use siphash13, siphash24 or blake2b, or leave the secret out"),
            ));
        }
        match algorithm {
            Algorithm::Murmur3 => u32::try_from(seed)
                .map(Self::murmur3)
                .map_err(|_| refused_seed(algorithm, seed, "a seed of 32 bits: use at most 4294967295")),
            _ if (algorithm == Algorithm::Given || algorithm.is_foreign()) && seed != 0 => {
                Err(refused_seed(algorithm, seed, "no seed: leave it out"))
            }
            Algorithm::Given => Ok(Self::given()),
            _ if algorithm.is_foreign() => Ok(Self::over_bytes(Hasher::Foreign(algorithm))),
            _ => Ok(Self::xxh3_seeded(seed)),
        }
    }

    /// The same contract for keys of another encoding.
    #[must_use]
    pub const fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.encoding = encoding;
        self
    }

    /// The same contract for keys of the type `K`.
    #[must_use]
    pub const fn for_keys<K: Key + ?Sized>(self) -> Self {
        self.with_encoding(K::ENCODING)
    }

    /// The encoding of the keys.
    #[inline]
    #[must_use]
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The hash algorithm.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        match self.hasher {
            Hasher::Xxh3 { .. } => Algorithm::Xxh3,
            Hasher::SipHash13(_) => Algorithm::SipHash13,
            Hasher::SipHash24(_) => Algorithm::SipHash24,
            Hasher::Blake2b(_) => Algorithm::Blake2b,
            Hasher::Murmur3 { .. } => Algorithm::Murmur3,
            Hasher::Given => Algorithm::Given,
            Hasher::Foreign(algorithm) => algorithm,
        }
    }

    /// The seed; 0 for algorithms without one.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        match self.hasher {
            Hasher::Xxh3 { seed } => seed,
            Hasher::Murmur3 { seed } => seed as u64,
            _ => 0,
        }
    }

    const fn key(&self) -> Option<&Keyed> {
        match &self.hasher {
            Hasher::SipHash13(keyed) | Hasher::SipHash24(keyed) | Hasher::Blake2b(keyed) => Some(keyed),
            _ => None,
        }
    }

    /// The public name of the secret, for keyed contracts.
    #[must_use]
    pub fn secret_id(&self) -> Option<SecretId> {
        self.key().map(|keyed| keyed.id)
    }

    /// The check value of the secret, for keyed contracts.
    #[must_use]
    pub fn secret_check(&self) -> Option<[u8; 8]> {
        self.key().map(|keyed| keyed.check)
    }

    /// Whether digests depend on a secret.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.key().is_some()
    }

    /// One line for people: `xxh3 seed 0 over u64`, `siphash13 secret 0123456789abcdef over text`, `xxh64 unkeyed over
    /// bytes`.
    #[must_use]
    pub fn describe(&self) -> String {
        self.to_string()
    }

    /// The digest of a key, or why the key is refused.
    ///
    /// A key whose encoding the contract does not [accept](Encoding::accepts) is refused, except text:
    /// text is parsed as a key of the contract's encoding where it writes one.
    #[inline(always)]
    pub fn digest<K: Key + ?Sized>(&self, key: &K) -> Result<Digest> {
        // The default contract over integers stays in the caller, which then computes only the half of the digest that
        // it uses: a call, a jump table and a result through memory would cost more than the hash.
        if K::ENCODING.is_word()
            && let Hasher::Xxh3 { seed } = self.hasher
            && self.encoding.accepts(K::ENCODING)
            && let Some(word) = key.word()
        {
            return Ok(xxh3::word(seed, word));
        }
        self.digest_otherwise(key)
    }

    /// The digest of a key that is no integer, or under another hash than XXH3, or that is refused.
    #[inline(never)]
    fn digest_otherwise<K: Key + ?Sized>(&self, key: &K) -> Result<Digest> {
        if !self.encoding.accepts(K::ENCODING) {
            return self.digest_foreign(K::ENCODING, key.text(), &mut Vec::new());
        }
        self.refuse_given()?;
        match key.word() {
            Some(word) if K::ENCODING.is_word() => Ok(self.hash_word(word)),
            _ => Ok(self.digest_bytes(key.canonical(&mut Vec::new()))),
        }
    }

    /// The seed, if keys of this type are hashed as words under XXH3.
    #[inline]
    pub(crate) fn word_seed<K: Key>(&self) -> Option<u64> {
        match self.hasher {
            Hasher::Xxh3 { seed } if K::ENCODING.is_word() && self.encoding.accepts(K::ENCODING) => Some(seed),
            _ => None,
        }
    }

    /// The digest of canonical bytes; under a prefix encoding, that of their prefix.
    ///
    /// This low door trusts its caller that the bytes are canonical. Under [`Contract::given`] the
    /// canonical bytes are the 16 of a digest; fewer are filled up with zeros, more are cut off.
    #[inline]
    #[must_use]
    pub fn digest_bytes(&self, canonical: &[u8]) -> Digest {
        let bytes = self.encoding.prefix(canonical);
        match &self.hasher {
            Hasher::Xxh3 { seed } => Digest::from_u128(xxhash_rust::xxh3::xxh3_128_with_seed(bytes, *seed)),
            Hasher::SipHash13(keyed) => siphash::string::<1, 3, 3>(keyed.sip(), bytes),
            Hasher::SipHash24(keyed) => siphash::string::<2, 4, 4>(keyed.sip(), bytes),
            Hasher::Blake2b(keyed) => keyed.blake2b(bytes),
            Hasher::Murmur3 { seed } => murmur3(*seed, bytes),
            Hasher::Foreign(algorithm) => foreign::digest(*algorithm, bytes),
            Hasher::Given => {
                let mut digest = [0; 16];
                digest.iter_mut().zip(canonical).for_each(|(to, from)| *to = *from);
                Digest::from_bytes(digest)
            }
        }
    }

    /// The digest of the key that `text` writes in this contract's encoding
    /// ([`Encoding::parse_text`]).
    pub fn digest_text(&self, text: &str) -> Result<Digest> {
        self.digest_text_in(text, &mut Vec::new())
    }

    fn digest_text_in(&self, text: &str, scratch: &mut Vec<u8>) -> Result<Digest> {
        self.refuse_given()?;
        Ok(self.digest_bytes(self.encoding.parse_text(text, scratch)?))
    }

    /// The digest of a key whose encoding is not accepted: text is parsed, the rest is refused.
    #[cold]
    pub(super) fn digest_foreign(&self, given: Encoding, text: Option<&str>, scratch: &mut Vec<u8>) -> Result<Digest> {
        self.refuse_given()?;
        if let (Encoding::Text, Some(text)) = (given, text) {
            return self.digest_text_in(text, scratch).map_err(|error| {
                Error::new(
                    ErrorKind::Encoding,
                    format!(
                        "the text {} is no key of this filter, whose keys are {}: {error}",
                        quoted(text),
                        self.encoding
                    ),
                )
            });
        }
        let advice = match self.encoding {
            Encoding::Bytes | Encoding::PrefixLength { .. } | Encoding::PrefixDelimiter { .. } => "give bytes or text",
            Encoding::Text => "give text",
            Encoding::Unsigned => "give an unsigned integer of at most 64 bits, or its decimal text",
            Encoding::Signed => "give a signed integer of at most 64 bits, or its decimal text",
            Encoding::Unsigned128 => "give a u128, or its decimal text",
            Encoding::Signed128 => "give an i128, or its decimal text",
            Encoding::Uuid => "give a Uuid, or its text",
            Encoding::Tuple(_) => "give a tuple of those, or their text with tabs between",
        };
        Err(Error::new(
            ErrorKind::Encoding,
            format!(
                "a key of the encoding {given} was asked of a filter whose keys are {}: {advice}, or make the filter with \
                 the encoding {given}",
                self.encoding
            ),
        ))
    }

    #[inline]
    pub(super) fn refuse_given(&self) -> Result<()> {
        if let Hasher::Given = self.hasher {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this filter holds digests made elsewhere and cannot hash a key: give the key's 128-bit digest instead",
            ));
        }
        Ok(())
    }

    /// The digest of a canonical form of eight bytes.
    #[inline]
    pub(super) fn hash_word(&self, word: u64) -> Digest {
        match &self.hasher {
            Hasher::Xxh3 { seed } => xxh3::word(*seed, word),
            Hasher::SipHash13(keyed) => siphash::word::<1, 3, 3>(keyed.sip(), word),
            Hasher::SipHash24(keyed) => siphash::word::<2, 4, 4>(keyed.sip(), word),
            _ => self.digest_bytes(&word.to_le_bytes()),
        }
    }

    /// Refuses another contract, saying which part differs and how. No secret is ever in the message.
    pub fn ensure_same(&self, other: &Contract) -> Result<()> {
        let (part, this, that) = if self.encoding != other.encoding {
            ("key encoding", self.encoding.to_string(), other.encoding.to_string())
        } else if self.algorithm() != other.algorithm() {
            ("hash", self.algorithm().to_string(), other.algorithm().to_string())
        } else if self.seed() != other.seed() {
            ("seed", self.seed().to_string(), other.seed().to_string())
        } else if self.secret_id() != other.secret_id() {
            let id = |contract: &Self| contract.secret_id().map_or_else(String::new, |id| id.to_string());
            ("secret's id", id(self), id(other))
        } else if self.secret_check() != other.secret_check() {
            ("secret's check value", "one".into(), "another under the same id".into())
        } else {
            return Ok(());
        };
        Err(Error::new(
            ErrorKind::Contract,
            format!(
                "the contracts differ in the {part} ({this} here, {that} there): the same key has different digests in \
                 them; build one of the two again from its keys, under the contract of the other"
            ),
        ))
    }
}

fn refused_seed(algorithm: Algorithm, seed: u64, takes: &str) -> Error {
    Error::new(ErrorKind::InvalidParameter, format!("the seed {seed} for {algorithm}, which takes {takes}"))
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.algorithm(), self.secret_id()) {
            (Algorithm::Given, _) => return f.write_str("given digests"),
            (algorithm, None) if algorithm.is_foreign() => write!(f, "{algorithm} unkeyed")?,
            (algorithm, Some(id)) => write!(f, "{algorithm} secret {id}")?,
            (algorithm, None) => write!(f, "{algorithm} seed {}", self.seed())?,
        }
        write!(f, " over {}", self.encoding)
    }
}

impl fmt::Debug for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Contract({self})")
    }
}
