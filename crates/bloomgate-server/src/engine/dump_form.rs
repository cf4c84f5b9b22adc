//! The form of a dump: what SCANDUMP gives and LOADCHUNK takes. A header, then the filter's file cut into chunks.
//!
//! ```text
//!  header   magic "BGDUMP01"   version u16   family u8 (1 bloom, 2 cuckoo)
//!           maker   recipe     as in a record of the log
//!           removed u64        keys removed so far, which CF.INFO tells
//!           length u64         bytes of the file         chunk u32   bytes of a chunk; the last may have fewer
//!           address 32         BLAKE3 of the file        crc u32     CRC-32C of the header up to here
//!  chunk    magic "BGCH"       dump 8: the address's first bytes     offset u64   length u32
//!           crc u32            CRC-32C of the four fields before and of the bytes     bytes
//!
//!  iterator 0 | number << 40 | 1 + offset of the next byte: the number tells dumps apart that are fetched at once
//! ```
//!
//! Numbers are little-endian. The file is the library's own form of a filter, with checksums of its own; its secret is
//! not in it.

use bloomgate::Address;

use super::entry::{Family, Maker};
use super::fields::{Fields, Malformed, Put};
use super::recipe::Recipe;
use super::record::{get_maker, put_maker};

/// What a header begins with.
pub const MAGIC: [u8; 8] = *b"BGDUMP01";
/// What a chunk begins with.
pub const CHUNK_MAGIC: [u8; 4] = *b"BGCH";
/// The version that is written and read.
const VERSION: u16 = 1;
/// Bytes of a chunk: a reply of this size is sent in a millisecond, where RedisBloom's 16 MiB hold up everybody else.
pub const CHUNK: u32 = 1 << 20;
/// The most bytes of a chunk that are read.
pub const MOST_CHUNK: u32 = 16 << 20;
/// What stands before the bytes of a chunk.
pub const FRAME: usize = 28;
/// Bits of an iterator that are the place in the dump: 1 TiB.
pub const PLACE_BITS: u32 = 40;
/// The part of an iterator that is the place.
pub const PLACE: i64 = (1 << PLACE_BITS) - 1;
/// Dumps are numbered from 1 to this, and then from 1 again: iterators stay below 2^53, which clients whose numbers are
/// doubles keep exactly.
pub const MOST_NUMBER: u64 = (1 << (53 - PLACE_BITS)) - 1;

/// The iterator of a place in a dump.
#[must_use]
pub fn iterator(number: u64, offset: u64) -> i64 {
    (number << PLACE_BITS | (1 + offset)) as i64
}

/// The dump and the place of an iterator, unless it is none.
#[must_use]
pub fn place(iterator: i64) -> Option<(u64, u64)> {
    let number = u64::try_from(iterator).ok()? >> PLACE_BITS;
    let offset = (iterator & PLACE).checked_sub(1).filter(|&offset| offset >= 0)?;
    (1..=MOST_NUMBER).contains(&number).then_some((number, offset as u64))
}

/// Everything about a dumped filter but its file.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    /// Which commands it answers to.
    pub family: Family,
    /// Whose commands made it.
    pub maker: Maker,
    /// How it was made.
    pub recipe: Recipe,
    /// Keys removed so far.
    pub removed: u64,
    /// Bytes of the file.
    pub length: u64,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// The address of the file.
    pub address: Address,
}

impl Header {
    /// The header as it is sent.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC);
        out.put_u16(VERSION);
        out.put_u8(match self.family {
            Family::Bloom => 1,
            Family::Cuckoo => 2,
        });
        put_maker(&mut out, self.maker);
        self.recipe.put(&mut out);
        out.put_u64(self.removed);
        out.put_u64(self.length);
        out.put_u32(self.chunk);
        out.extend_from_slice(&self.address.0);
        let sum = crc32c::crc32c(&out);
        out.put_u32(sum);
        out
    }

    /// Reads a header, all of it and nothing more.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let wrong = |what| Malformed { what, left: 0 };
        let (body, sum) = bytes.split_last_chunk::<4>().ok_or(wrong("a header"))?;
        if !body.starts_with(&MAGIC) {
            return Err(wrong("a header that begins with BGDUMP01"));
        }
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return Err(wrong("a header whose checksum is right"));
        }
        let mut fields = Fields(&body[MAGIC.len()..]);
        if fields.u16("a version")? != VERSION {
            return Err(wrong("a dump of version 1"));
        }
        let family = match fields.u8("a family")? {
            1 => Family::Bloom,
            2 => Family::Cuckoo,
            _ => return Err(wrong("a known family")),
        };
        let (maker, recipe) = (get_maker(&mut fields)?, Recipe::get(&mut fields)?);
        let (removed, length) = (fields.u64("keys removed")?, fields.u64("a length")?);
        let chunk = fields.u32("bytes of a chunk")?;
        let address = fields.take(32, "an address")?.first_chunk::<32>().ok_or(wrong("an address"))?;
        let header = Self { family, maker, recipe, removed, length, chunk, address: Address(*address) };
        match () {
            () if !fields.is_empty() => Err(Malformed { what: "the end of the header", left: fields.0.len() }),
            () if length == 0 || length >= PLACE as u64 => Err(wrong("a file of 1 byte to 1 TiB")),
            () if chunk == 0 || chunk > MOST_CHUNK => Err(wrong("chunks of 1 byte to 16 MiB")),
            () => header.agrees().map(|()| header),
        }
    }

    /// Whether its parts can belong to one filter.
    fn agrees(&self) -> Result<(), Malformed> {
        let wrong = |what| Err(Malformed { what, left: 0 });
        let family = match self.maker {
            Maker::Bf { .. } => Family::Bloom,
            Maker::Cf { .. } => Family::Cuckoo,
            Maker::Bg => self.family,
        };
        if family != self.family || Family::of(self.recipe.kind) != self.family {
            return wrong("a family, a maker and a kind that agree");
        }
        let recipe = &self.recipe;
        let (rate, growth) = (recipe.rate, recipe.growth);
        // No rate is the one that the memory gives, where that was asked for.
        if !((0.0..=1.0).contains(&rate) && growth >= 1.0 && growth.is_finite()) {
            return wrong("a rate and a growth in their range");
        }
        // A secret is derived from the name and the epoch; no two pairs may be one text.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        // With a namespace's before it, if it is of one.
        let (space, name) = recipe.hashing.contract.split_once('/').unwrap_or(("", &recipe.hashing.contract));
        if space.len() > 128 || name.len() > 64 || !space.bytes().chain(name.bytes()).all(plain) {
            return wrong("a contract's name");
        }
        Ok(())
    }

    /// The chunk of the file at an offset, with what stands before it; nothing past the end.
    #[must_use]
    pub fn chunk_at(address: Address, file: &[u8], offset: u64, most: u32) -> Vec<u8> {
        let rest = usize::try_from(offset).ok().and_then(|at| file.get(at..)).unwrap_or_default();
        let bytes = &rest[..rest.len().min(most as usize)];
        let mut out = Vec::with_capacity(FRAME + bytes.len());
        out.extend_from_slice(&CHUNK_MAGIC);
        out.extend_from_slice(&address.0[..8]);
        out.put_u64(offset);
        out.put_u32(bytes.len() as u32);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&out), bytes);
        out.put_u32(sum);
        out.extend_from_slice(bytes);
        out
    }

    /// Reads a chunk of this dump: its offset and its bytes.
    pub fn open_chunk<'a>(&self, data: &'a [u8]) -> Result<(u64, &'a [u8]), Malformed> {
        let wrong = |what| Malformed { what, left: 0 };
        let mut fields = Fields(data);
        if fields.take(4, "a chunk")? != CHUNK_MAGIC {
            return Err(wrong("a chunk that begins with BGCH"));
        }
        let dump = fields.take(8, "a dump")?;
        let (offset, length) = (fields.u64("an offset")?, fields.u32("a length")?);
        let sum = fields.u32("a checksum")?;
        if fields.0.len() != length as usize || length == 0 || length > MOST_CHUNK {
            return Err(Malformed { what: "as many bytes as the chunk says", left: fields.0.len() });
        }
        if crc32c::crc32c_append(crc32c::crc32c(&data[..FRAME - 4]), fields.0) != sum {
            return Err(wrong("a chunk whose checksum is right"));
        }
        if *dump != self.address.0[..8] {
            return Err(wrong("a chunk of the dump whose header came"));
        }
        if offset.checked_add(length.into()).is_none_or(|end| end > self.length) {
            return Err(wrong("a chunk within the dump"));
        }
        Ok((offset, fields.0))
    }
}
