//! What the log says: each change of a filter or of the names, by the filter's id.
//!
//! ```text
//!  tag u8, then by tag:
//!   1 create   id u64, created ms u64, maker, name, recipe, id of the secret u64 (0: none)
//!   2 install  id u64, created ms u64, expires ms u64, maker, name, recipe, image (bytes) or file (its name)
//!   3 add      id u64, count u32, digests (16 bytes each: lo, hi)
//!   4 remove   id u64, request id (empty: none), answers ([`Answered`]), count u32, digests: those that were removed
//!   5 delete   id u64
//!   6 rename   id u64, name: whoever had that name is deleted
//!   8 expire   id u64, ms u64 (0: never)
//!   9 flush    nothing: all filters are deleted
//!  10 advance  id u64, ns u64: a window moves
//!  12 contract name, epoch u32, created ms u64: a new secret from here on
//!  13 removed  id u64, count u64: so many keys were removed from it before it was installed
//!  14 master   id: the master secret that everything in this folder is under
//!  15 fill     id u64, count u32, words u32, words (8 bytes each): the bits that so many added digests set in a small filter
//! ```
//!
//! Numbers are little-endian; names and images have their length before them, as u32. A payload of the log holds one
//! record or several, and they happen together or not at all.

use bloomgate::{Contract, Digest};

use super::entry::{Entry, Maker};
use super::fields::{Fields, Malformed, Put};
use super::recipe::Recipe;
use super::retries::Answered;

/// Where the bits of an installed filter are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Image<'a> {
    /// In the record.
    Inline(&'a [u8]),
    /// In a file of the data folder that was complete before the record was written.
    File(&'a str),
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)] // The table above says what each field is.
pub enum Record<'a> {
    Create {
        id: u64,
        created_ms: u64,
        maker: Maker,
        name: &'a [u8],
        recipe: Recipe,
        secret: u64,
    },
    Install {
        id: u64,
        created_ms: u64,
        expires_ms: u64,
        maker: Maker,
        name: &'a [u8],
        recipe: Recipe,
        image: Image<'a>,
    },
    Add {
        id: u64,
        digests: Digests<'a>,
    },
    Fill {
        id: u64,
        count: u32,
        bits: Words<'a>,
    },
    Remove {
        id: u64,
        request: &'a [u8],
        answers: &'a [u8],
        digests: Digests<'a>,
    },
    Delete {
        id: u64,
    },
    /// So many keys were removed from a filter before it was installed.
    Removed {
        id: u64,
        count: u64,
    },
    Rename {
        id: u64,
        name: &'a [u8],
    },
    Expire {
        id: u64,
        at_ms: u64,
    },
    Flush,
    Advance {
        id: u64,
        now_ns: u64,
    },
    Contract {
        name: &'a str,
        epoch: u32,
        created_ms: u64,
    },
    Master {
        id: &'a str,
    },
}

/// Digests as they lie in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Digests<'a>(&'a [u8]);

impl Digests<'_> {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len() / 16
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends them.
    pub fn append_to(&self, out: &mut Vec<Digest>) {
        out.extend(self.0.as_chunks::<16>().0.iter().map(|bytes| {
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
            Digest { lo: word(0), hi: word(8) }
        }));
    }
}

/// Words as they lie in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl Words<'_> {
    /// Each.
    pub fn each(&self) -> impl Iterator<Item = u64> {
        self.0.as_chunks::<8>().0.iter().map(|&bytes| u64::from_le_bytes(bytes))
    }
}

/// Appends the digests of an add, without making a [`Record`] first: this is what every new key goes through.
pub fn put_add(out: &mut Vec<u8>, id: u64, digests: &[Digest]) {
    out.put_u8(3);
    out.put_u64(id);
    put_digests(out, digests);
}

/// Bytes of the record of an add of so many.
#[must_use]
pub fn add_bytes(digests: usize) -> usize {
    13 + 16 * digests
}

/// Appends the bits that so many added digests set in a small filter.
pub fn put_fill(out: &mut Vec<u8>, id: u64, count: usize, bits: &[u64]) {
    out.put_u8(15);
    out.put_u64(id);
    out.put_u32(count as u32);
    out.put_u32(bits.len() as u32);
    bits.iter().for_each(|&word| out.put_u64(word));
}

/// Bytes of the record of such bits.
#[must_use]
pub fn fill_bytes(words: usize) -> usize {
    17 + 8 * words
}

/// Bytes at most of the record of a removal of so many.
#[must_use]
pub fn remove_bytes(request: &[u8], items: usize) -> usize {
    30 + request.len() + 17 * items
}

/// Appends the creation of a filter, without making a [`Record`] first: there may be a million in a row.
pub fn put_create(out: &mut Vec<u8>, entry: &Entry) {
    let secret = entry.with_contract(secret_of).unwrap_or(0);
    out.put_u8(1);
    out.put_u64(entry.id);
    out.put_u64(entry.created_ms);
    put_maker(out, entry.maker());
    out.put_bytes(&entry.name());
    entry.recipe().put(out);
    out.put_u64(secret);
}

/// Appends a removal, with those that were removed.
pub fn put_remove(out: &mut Vec<u8>, id: u64, request: &[u8], answered: &Answered, removed: &[Digest]) {
    out.put_u8(4);
    out.put_u64(id);
    out.put_bytes(request);
    answered.put(out);
    put_digests(out, removed);
}

fn put_digests(out: &mut Vec<u8>, digests: &[Digest]) {
    out.put_u32(digests.len() as u32);
    out.reserve(digests.len() * 16);
    for digest in digests {
        out.extend_from_slice(&digest.lo.to_le_bytes());
        out.extend_from_slice(&digest.hi.to_le_bytes());
    }
}

/// Appends a maker.
pub fn put_maker(out: &mut Vec<u8>, maker: Maker) {
    match maker {
        Maker::Bf { expansion } => {
            out.put_u8(1);
            out.put_u32(expansion);
        }
        Maker::Cf { bucket_size, max_iterations, expansion } => {
            out.put_u8(2);
            out.put_u16(bucket_size);
            out.put_u16(max_iterations);
            out.put_u16(expansion);
        }
        Maker::Bg => out.put_u8(3),
    }
}

/// Reads a maker.
pub fn get_maker(fields: &mut Fields<'_>) -> Result<Maker, Malformed> {
    Ok(match fields.u8("a maker")? {
        1 => Maker::Bf { expansion: fields.u32("an expansion")? },
        2 => Maker::Cf {
            bucket_size: fields.u16("a bucket size")?,
            max_iterations: fields.u16("iterations")?,
            expansion: fields.u16("an expansion")?,
        },
        3 => Maker::Bg,
        _ => return Err(Malformed { what: "a known maker", left: fields.0.len() }),
    })
}

/// A contract's secret as a record of creation names it, 0 for none: digests that follow mean nothing under another one.
#[must_use]
pub fn secret_of(contract: &Contract) -> u64 {
    contract.secret_id().map_or(0, |id| u64::from_le_bytes(id.0))
}

impl<'a> Record<'a> {
    /// The filter that it is about; nothing if it is about none, or about all.
    #[must_use]
    pub fn filter(&self) -> Option<u64> {
        match self {
            Self::Create { id, .. }
            | Self::Install { id, .. }
            | Self::Add { id, .. }
            | Self::Fill { id, .. }
            | Self::Remove { id, .. }
            | Self::Delete { id }
            | Self::Removed { id, .. }
            | Self::Rename { id, .. }
            | Self::Expire { id, .. }
            | Self::Advance { id, .. } => Some(*id),
            Self::Flush | Self::Contract { .. } | Self::Master { .. } => None,
        }
    }

    /// Appends the record to a payload.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Create { id, created_ms, maker, name, recipe, secret } => {
                out.put_u8(1);
                out.put_u64(*id);
                out.put_u64(*created_ms);
                put_maker(out, *maker);
                out.put_bytes(name);
                recipe.put(out);
                out.put_u64(*secret);
            }
            Self::Install { id, created_ms, expires_ms, maker, name, recipe, image } => {
                out.put_u8(2);
                out.put_u64(*id);
                out.put_u64(*created_ms);
                out.put_u64(*expires_ms);
                put_maker(out, *maker);
                out.put_bytes(name);
                recipe.put(out);
                match image {
                    Image::Inline(bytes) => {
                        out.put_u8(0);
                        out.put_bytes(bytes);
                    }
                    Image::File(name) => {
                        out.put_u8(1);
                        out.put_bytes(name.as_bytes());
                    }
                }
            }
            Self::Add { id, digests } => {
                out.put_u8(3);
                out.put_u64(*id);
                out.put_u32(digests.len() as u32);
                out.extend_from_slice(digests.0);
            }
            Self::Fill { id, count, bits } => {
                out.put_u8(15);
                out.put_u64(*id);
                out.put_u32(*count);
                out.put_u32((bits.0.len() / 8) as u32);
                out.extend_from_slice(bits.0);
            }
            Self::Remove { id, request, answers, digests } => {
                out.put_u8(4);
                out.put_u64(*id);
                out.put_bytes(request);
                out.put_bytes(answers);
                out.put_u32(digests.len() as u32);
                out.extend_from_slice(digests.0);
            }
            Self::Delete { id } => {
                out.put_u8(5);
                out.put_u64(*id);
            }
            Self::Removed { id, count } => {
                out.put_u8(13);
                out.put_u64(*id);
                out.put_u64(*count);
            }
            Self::Rename { id, name } => {
                out.put_u8(6);
                out.put_u64(*id);
                out.put_bytes(name);
            }
            Self::Expire { id, at_ms } => {
                out.put_u8(8);
                out.put_u64(*id);
                out.put_u64(*at_ms);
            }
            Self::Flush => out.put_u8(9),
            Self::Advance { id, now_ns } => {
                out.put_u8(10);
                out.put_u64(*id);
                out.put_u64(*now_ns);
            }
            Self::Contract { name, epoch, created_ms } => {
                out.put_u8(12);
                out.put_bytes(name.as_bytes());
                out.put_u32(*epoch);
                out.put_u64(*created_ms);
            }
            Self::Master { id } => {
                out.put_u8(14);
                out.put_bytes(id.as_bytes());
            }
        }
    }

    /// Reads the next record of a payload.
    pub fn get(fields: &mut Fields<'a>) -> Result<Self, Malformed> {
        let digests = |fields: &mut Fields<'a>| -> Result<Digests<'a>, Malformed> {
            let count = fields.u32("a number of digests")? as usize;
            Ok(Digests(fields.take(count.saturating_mul(16), "digests")?))
        };
        Ok(match fields.u8("a record")? {
            1 => Self::Create {
                id: fields.u64("an id")?,
                created_ms: fields.u64("a time")?,
                maker: get_maker(fields)?,
                name: fields.bytes("a name")?,
                recipe: Recipe::get(fields)?,
                secret: fields.u64("the id of a secret")?,
            },
            2 => Self::Install {
                id: fields.u64("an id")?,
                created_ms: fields.u64("a time")?,
                expires_ms: fields.u64("a time")?,
                maker: get_maker(fields)?,
                name: fields.bytes("a name")?,
                recipe: Recipe::get(fields)?,
                image: match fields.u8("a place of an image")? {
                    0 => Image::Inline(fields.bytes("an image")?),
                    1 => Image::File(fields.text("a file name")?),
                    _ => return Err(Malformed { what: "a known place of an image", left: fields.0.len() }),
                },
            },
            3 => Self::Add { id: fields.u64("an id")?, digests: digests(fields)? },
            4 => Self::Remove {
                id: fields.u64("an id")?,
                request: fields.bytes("a request id")?,
                answers: fields.bytes("answers")?,
                digests: digests(fields)?,
            },
            5 => Self::Delete { id: fields.u64("an id")? },
            6 => Self::Rename { id: fields.u64("an id")?, name: fields.bytes("a name")? },
            8 => Self::Expire { id: fields.u64("an id")?, at_ms: fields.u64("a time")? },
            9 => Self::Flush,
            10 => Self::Advance { id: fields.u64("an id")?, now_ns: fields.u64("a time")? },
            12 => Self::Contract {
                name: fields.text("a contract's name")?,
                epoch: fields.u32("an epoch")?,
                created_ms: fields.u64("a time")?,
            },
            13 => Self::Removed { id: fields.u64("an id")?, count: fields.u64("a number of removed keys")? },
            14 => Self::Master { id: fields.text("the id of the master secret")? },
            15 => Self::Fill {
                id: fields.u64("an id")?,
                count: fields.u32("a number of digests")?,
                bits: {
                    let words = fields.u32("a number of words")? as usize;
                    Words(fields.take(words.saturating_mul(8), "words")?)
                },
            },
            _ => return Err(Malformed { what: "a known record", left: fields.0.len() }),
        })
    }
}
