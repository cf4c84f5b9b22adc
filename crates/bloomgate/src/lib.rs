//! Membership filters that keep their promise.
//!
//! A filter answers one question about a set: is this key **certainly absent**, or **maybe there**? Two sentences rule
//! this library:
//!
//! - **A "no" is never wrong.** Whatever could make it wrong (another hash, another key type, a truncated or damaged
//!   file) is detected, and then there is an error or a "maybe".
//! - **A "maybe" costs what was promised.** Ask for 1 % false positives and measure 1 %, at 10 keys and at 10 billion.
//!
//! ```
//! use bloomgate::Blocked;
//!
//! let mut seen = Blocked::builder().items(1_000_000).rate(0.01).build()?;
//! seen.insert("https://example.org/")?;
//! assert!(seen.contains("https://example.org/")?);   // maybe there
//! assert!(!seen.contains("https://example.com/")?);  // certainly not
//!
//! let urls = ["https://example.org/a", "https://example.org/b"];
//! let mut answers = [false; 2];
//! seen.contains_batch(&urls, &mut answers)?;          // many at once: several times faster
//! # Ok::<(), bloomgate::Error>(())
//! ```
//!
//! # Which filter?
//!
//! | you have | take | bits per key at 1 % |
//! |---|---|---|
//! | a set whose size you know | [`Blocked`]: one cache line per key, the default | 10.1 |
//! | the same, and bits matter more than time | [`Classic`] | 9.6 |
//! | a need for one bit in each of k slices | [`Partitioned`] | 9.6 |
//! | a set that is known whole and never changes | [`Fuse`]; [`Ribbon`] where bytes are dearest | 7.9; 7.04 |
//! | keys that go again | [`Cuckoo`]; [`Counting`] where a set may outgrow its size | 10.6; 41 |
//! | keys that come several times; filters to merge or list | [`Quotient`] | 11.4 |
//! | no idea how many keys there will be | [`Scalable`]; with removals [`GrowingCuckoo`] | 16 to 29; 15 to 30 |
//! | keys that count for a window of time | [`Rotating`] | 17.4 |
//! | a stream without end, and no need for proof | [`Stable`]: its "no" means "not seen lately" | 25.9 |
//! | many threads | all but stable, by `build_shared()` ([`Shared`]); fuse and ribbon as they are | the same |
//! | more bits than memory | [`Blocked`], [`Classic`], [`Partitioned`], by `create_mapped(path)` ([`MappedMut`]) | the same |
//! | a lookup function to keep absent keys away from | any of these whose "no" is a proof, behind a [`Guard`](guard) | the same |
//! | a filter of Guava, RedisBloom, Parquet | [`foreign`], [`AnyFilter::from_foreign`] | |
//! | fewer than 10,000 keys | a `HashSet` | |
//! | dense integers | a bitmap | |
//! | a need to count distinct keys, or to list them | HyperLogLog; a sorted file | |
//!
//! Each family's page says when to use it and when not: [`bloom`], [`cuckoo`], [`quotient`], [`fuse`], [`ribbon`].
//! [`advice::advise`] asks the questions and does the arithmetic.
//!
//! # Keys
//!
//! A filter is made for one type of key ([`Encoding`]): bytes and text unless `.keys::<u64>()` or another is said. The
//! type, the hash and its seed are the filter's [`Contract`]; it travels with the filter, and a key of another type is
//! refused, not hashed some other way. (Write `42u64`, not `42`, to a filter of `u64`: a bare literal is an `i32`.) For
//! keys that strangers choose, hash under a [`Secret`]: `.secret(&Secret::generate()?)`. Another hash or seed is a
//! contract: `.contract(Contract::xxh3_seeded(7).for_keys::<u64>())`.
//!
//! # Coming from
//!
//! | Guava | RedisBloom | pybloom / rbloom | fastbloom | here |
//! |---|---|---|---|---|
//! | `create(funnel, n, fpp)` | `BF.RESERVE k fpp n` | `Bloom(n, fpp)` | `with_false_pos(p).expected_items(n)` | `builder().items(n).rate(p).build()` |
//! | `put` | `BF.ADD` | `add` | `insert` | [`insert`](Bloom::insert): true means certainly new |
//! | `mightContain` | `BF.EXISTS` | `in` | `contains` | [`contains`](Bloom::contains) |
//! | | `BF.MADD`, `BF.MEXISTS` | `update` | `insert_all` | [`insert_batch`](Bloom::insert_batch), [`contains_batch`](Bloom::contains_batch) |
//! | | | | `insert_hash`, `contains_hash` | [`insert_digest`](Bloom::insert_digest), [`contains_digest`](Bloom::contains_digest) |
//! | `approximateElementCount` | `BF.CARD` | `approx_items` | | [`approximate_count`](Bloom::approximate_count), [`len`](Bloom::len) |
//! | `expectedFpp` | | | | [`expected_rate`](Bloom::expected_rate), [`estimated_rate`](Bloom::estimated_rate) |
//! | | `EXPANSION 2` | | | [`Scalable`] with `.growth(2.0)` |
//! | | `NONSCALING` | | | `.when_full(WhenFull::Refuse)` |
//! | | | | `AtomicBloomFilter` | `build_shared()` |
//! | `putAll` | | `\|`, `union` | | [`union`](Bloom::union), [`union_with`](Bloom::union_with) |
//! | `writeTo`, `readFrom` | `BF.SCANDUMP` | `save`, `load` | | [`save`](Bloom::save), [`open`](Bloom::open), [`map`](Bloom::map); their own forms: [`foreign`] |
//!
//! | there | here |
//! |---|---|
//! | xorf `BinaryFuse8::try_from(&keys)` | `Fuse::builder().keys::<u64>().fingerprint_bits(8).build_from_slice(&keys)`: any width, any keys, repeated ones too |
//! | cuckoofilter `with_capacity`, `add`, `test_and_add`, `delete`; `CF.ADD`, `CF.ADDNX`, `CF.DEL` | [`Cuckoo`] with `items(n).rate(p)`, [`insert`](Cuckoo::insert), [`remove`](Cuckoo::remove); never skip an insert because [`contains`](Cuckoo::contains) says "maybe" (what `ADDNX` does): once the look-alike is removed, a "no" is wrong |
//! | qfilter `new_resizeable(n, most, p)`, `insert_duplicated`, `count` | [`Quotient`] with `items(n).grow_to(most).rate(p)`, [`insert`](Quotient::insert), [`count_of`](Quotient::count_of) |
//!
//! # Speed
//!
//! Lookups and inserts by the batch ask memory for one key while they work on another, and a key of a blocked filter
//! needs one line of it; AVX2 is found at run time, and the portable path gives the same bits and the same answers
//! (`BLOOMGATE_SIMD=off` keeps to it). `scripts/bench peers` shows the figures on your machine.

#![deny(rustdoc::broken_intra_doc_links)]
#![deny(unsafe_code)]

pub mod advice;
pub mod any;
#[allow(unsafe_code)] // SIMD, and reads whose bounds were checked once.
mod arch;
#[allow(unsafe_code)] // Memory: aligned, shared, mapped.
pub mod bits;
pub mod bloom;
mod chain;
pub mod cuckoo;
pub mod error;
pub mod foreign;
pub mod format;
pub mod fuse;
pub mod guard;
pub mod hash;
pub mod key;
pub mod kind;
pub mod math;
pub mod promise;
pub mod quotient;
pub mod ribbon;

pub use any::AnyFilter;
pub use arch::path as simd_path;
#[doc(hidden)]
pub use arch::set_simd;
#[cfg(not(loom))]
pub use bits::MappedMut;
pub use bits::{HugePages, Mapped, Owned, Shared};
pub use bloom::{Blocked, Bloom, Classic, Counting, Partitioned, Rotating, Scalable, Stable};
pub use cuckoo::{Cuckoo, GrowingCuckoo};
pub use error::{Error, ErrorKind, Result};
pub use format::delta::Delta;
pub use format::{Address, OpenOptions, SaveOptions};
pub use fuse::Fuse;
pub use guard::Guard;
pub use hash::{Algorithm, Contract, Digest, Secret, SecretId};
pub use key::{Encoding, Key, Uuid};
pub use kind::{Guarantee, Kind};
pub use promise::{Insertion, WhenFull};
pub use quotient::Quotient;
pub use ribbon::Ribbon;

/// The Rust of the README and of docs/, as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/kinds.md")]
    struct Kinds;
    #[doc = include_str!("../../../docs/interop.md")]
    struct Interop;
    #[doc = include_str!("../../../docs/recipes/seen-content.md")]
    struct SeenContent;
    #[doc = include_str!("../../../docs/recipes/ad-frequency.md")]
    struct AdFrequency;
    #[doc = include_str!("../../../docs/recipes/rate-limiting.md")]
    struct RateLimiting;
    #[doc = include_str!("../../../docs/recipes/search-pruning.md")]
    struct SearchPruning;
}
