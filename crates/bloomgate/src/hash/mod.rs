//! Contracts: how a key becomes a digest, as frozen numbers that travel with every filter.
//!
//! A key goes through one door: [`Contract`] checks its encoding, takes its canonical bytes and hashes
//! them to a [`Digest`], the 128 bits that are all a filter ever sees. Two filters may be merged, and a
//! file may be asked, only under the same contract.
//!
//! Which hash: [`Contract::xxh3`] for keys you trust, because it is the fastest and the same everywhere;
//! [`Contract::keyed`] with a [`Secret`] for keys from outside, because who knows the hash can choose
//! keys that fill a filter or always answer "maybe".

mod algorithm;
mod batch;
mod contract;
mod digest;
pub(crate) mod digests;
mod foreign;
mod murmur3;
mod parts;
mod secret;
#[cfg(test)]
mod tests;

pub use algorithm::Algorithm;
pub use contract::Contract;
pub use digest::Digest;
pub use parts::ContractParts;
pub use secret::{Secret, SecretId};

pub(crate) use crate::arch::CHUNK;
