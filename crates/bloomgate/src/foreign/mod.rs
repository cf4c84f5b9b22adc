//! Filters of other systems, read and written in their own forms, answering with their own hashes.
//!
//! **When.** A filter comes from another program, or goes to one: it is asked here without its keys being inserted
//! again, and what is written here is read there. **When not.** Both ends are yours: these forms carry no checksum, no
//! type of key and no secret, and strangers can choose keys against their hashes. [`Blocked`](crate::Blocked) has none
//! of these faults and is faster.
//!
//! | form | type | hash | names its keys' type | grows | 1 million keys at 1 % |
//! |---|---|---|---|---|---|
//! | `BFv1` | [`BfV1`] | `blake2b-64-double` | no | no | 1,198,151 bytes |
//! | RedisBloom `BF.SCANDUMP` | [`RedisBloom`] | `murmur64a-pair` | no | by links | 1,378,577 bytes (1,198,241 as `NONSCALING`) |
//! | RedisBloom `CF.SCANDUMP` | [`RedisCuckoo`] | `murmur64a` | no | by tables | 1,048,646 bytes (at 1.6 %, two a bucket) |
//! | Guava `BloomFilter.writeTo` | [`Guava`] | `murmur3` | no | no | 1,198,142 bytes |
//! | Parquet split block | [`Parquet`] | `xxh64` | no | no | 2,097,170 bytes (a power of two) |
//!
//! A form that does not name the type of its keys leaves that to whoever reads it: [`Guava::from_foreign`] and
//! [`Parquet::from_foreign`] take an [`Encoding`](crate::Encoding), and with the wrong one every answer is "no". The
//! others hash bytes.
//!
//! Every decoder is strict: lengths are checked against each other and against the input before anything is allocated,
//! and no bytes make it panic.

mod bfv1;
mod chunks;
mod filter;
mod form;
mod guava;
mod parquet;
mod redis_bloom;
mod redis_cuckoo;
mod shape;
#[cfg(test)]
mod tests;

pub use bfv1::{BfV1, BfV1Builder, BfV1Shape};
pub use filter::Foreign;
pub use form::{Form, detect};
pub use guava::{Guava, GuavaBuilder, GuavaShape, Strategy};
pub use parquet::{Parquet, ParquetBuilder, ParquetShape};
pub use redis_bloom::{Link, RedisBloom, RedisBloomBuilder, RedisBloomShape};
pub use redis_cuckoo::{RedisCuckoo, RedisCuckooBuilder, RedisCuckooShape};
pub use shape::Shape;
