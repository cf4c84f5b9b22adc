//! The file: how a filter is written down so that any later Bloomgate, and any other language, reads
//! it back or says exactly why not.
//!
//! ```text
//!   0        64        64+32n                                          total length
//!   ┌────────┬─────────┬──────────┬───────┬────────┬───────────┬───────────┬─────────┐
//!   │ header │ table   │ CONTRACT │ SHAPE │ COUNTS │ SENTINELS │ SUMS      │ PAYLOAD │  …
//!   └────────┴─────────┴──────────┴───────┴────────┴───────────┴───────────┴─────────┘
//!   └─ one CRC32C ─────┘ one CRC32C each, zero padding to 64     one CRC32C per 64 KiB
//! ```
//!
//! Everything small comes first (the [`Head`]), the payloads follow: a reader of a stream knows the
//! whole shape before it allocates a byte for bits, and a reader of a mapped file touches only the
//! first pages. A layout is fully determined by its contents: the same filter is the same bytes, and
//! so has the same [`Address`].
//!
//! | file | idea |
//! |---|---|
//! | [`frame`](Frame) | header and section table |
//! | [`sections`](SectionType) | the frozen numbers |
//! | [`fields`](FieldReader) | the tagged fields of contract, shape and counts |
//! | [`sentinels`] | public strings with the digests they must hash to |
//! | [`sums`](ChunkSums) | one CRC32C per 64 KiB of payload |
//! | [`gaps`] | the compression of sparse payloads |
//! | [`write`](FrameWriter), [`read`](SectionReader) | to any `io::Write`, from any `io::Read` or `&[u8]` |
//! | `shapes` | SHAPE and COUNTS of each kind, checked as the builders check |
//! | `agreement` | CONTRACT and SENTINELS: the proof that reader and writer hash alike |
//! | `filed` | each kind taken apart into pieces and put together again |
//! | [`save`](SaveOptions), [`load`](OpenOptions) | filters to files; files to memory, or mapped |
//! | [`coming`](Coming) | files that come through a stream, looked at before their bits are read |
//! | [`image`](Image) | files of filters that others write to meanwhile |
//! | `in_place` | files that are written where they are: the mark, the sync, the recovery |
//! | `filters` | the doors on the filters themselves: `save`, `open`, `map` … |
//! | [`describe`](inspect) | what a file is, without its secret |
//! | [`address`](Address) | the BLAKE3 of the whole |
//! | [`delta`] | what makes a new file of an old one: changed bits, added digests, or the whole |
//! | [`atomic_file`](write_atomically) | a file that is there whole or not at all |
//!
//! The bytes of a filter are its file, wherever they go: there is no other serialised form, and no `serde`, which could not
//! say which version, hash and key type its bytes were made with.
//!
//! ```
//! use bloomgate::{AnyFilter, Blocked, format};
//!
//! # let folder = std::env::temp_dir().join(format!("bloomgate-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let path = folder.join("seen.bloom");
//! let mut seen = Blocked::builder().items(1_000).rate(0.01).build()?;
//! seen.insert("https://example.org/")?;
//! let address = seen.save(&path)?;                      // whole or not at all
//!
//! let loaded = Blocked::open(&path)?;                   // verified, in memory
//! let mapped = AnyFilter::map(&path)?;                  // any kind, queried in place
//! assert!(loaded.contains("https://example.org/")? && mapped.contains("https://example.org/")?);
//! assert_eq!(format::inspect(&path)?.address, address); // without any secret
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The byte diagrams, for readers in other languages, are in `docs/format.md`.
#![forbid(unsafe_code)]

mod address;
mod agreement;
mod atomic_file;
mod coming;
pub mod delta;
mod delta_bits;
mod delta_digests;
mod describe;
mod fields;
mod filed;
mod filters;
mod frame;
pub mod gaps;
mod image;
#[cfg(not(loom))]
mod in_place;
mod load;
mod read;
#[cfg(unix)]
mod read_words;
pub(crate) mod save;
mod sections;
pub mod sentinels;
mod shapes;
mod sniff;
mod sums;
#[cfg(test)]
mod tests;
mod write;

pub use address::{Address, Addressing};
pub use atomic_file::write_atomically;
pub use coming::Coming;
pub use describe::{
    ChainDescription, Description, Dimensions, PartDescription, SectionDescription, inspect, inspect_bytes,
};
pub use fields::{FieldReader, FieldWriter, Tag};
pub use frame::{FORMAT_VERSION, Frame, HEADER_LEN, Header, MAGIC, MAX_SECTIONS, Section};
pub use image::Image;
pub use load::{OpenOptions, recognise};
pub use read::{Head, Limits, MemoryFile, Payload, SectionReader, Sink};
pub use save::{Compression, SaveOptions};
pub use sections::{Codec, SectionFlags, SectionType};
pub use sums::{CHUNK_LEN, ChunkSums, chunk_count};
pub use write::{FrameWriter, PayloadSource, PreparedFile};
