//! What a manifest says: everything about the filters but their bits.
//!
//! ```text
//!  clock ms u64, next id u64, contracts, number of filters u64, then each:
//!    id u64, name, created ms u64, expires ms u64, maker, recipe, deleted u64, kind u16,
//!    sequence u64, image file, offset u64, length u64 (0: the whole file), answered requests
//! ```

use std::collections::{BTreeSet, HashMap};

use bloomgate::Kind;

use crate::engine::entry::Maker;
use crate::engine::fields::{Fields, Malformed, Put};
use crate::engine::recipe::Recipe;
use crate::engine::record::{get_maker, put_maker};
use crate::engine::retries::Retries;

/// The version of what is written here.
pub const VERSION: u32 = 1;

/// Where an image lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// How many bytes; 0 for the whole file.
    pub length: u64,
}

/// Where the images of a manifest lie. Those that lie with others in one file are written anew by every snapshot, so of
/// them only the file is known: with a million small filters that is a hundred megabytes less.
#[derive(Debug, Default)]
pub struct Images {
    own: HashMap<u64, (u64, Place)>,
    packs: BTreeSet<String>,
}

impl Images {
    /// A filter has its image there.
    pub fn note(&mut self, one: &Listed) {
        if one.place.length == 0 {
            self.own.insert(one.id, (one.sequence, one.place.clone()));
        } else if !self.packs.contains(&one.place.file) {
            self.packs.insert(one.place.file.clone());
        }
    }

    /// The image of a filter that has a file to itself, and its sequence.
    #[must_use]
    pub fn own(&self, id: u64) -> Option<&(u64, Place)> {
        self.own.get(&id)
    }

    /// All files, each once.
    #[must_use]
    pub fn files(&self) -> BTreeSet<String> {
        self.own.values().map(|(_, place)| &place.file).chain(&self.packs).cloned().collect()
    }
}

/// A filter as the manifest has it.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // The layout above says what each is.
pub struct Listed {
    pub id: u64,
    pub name: Vec<u8>,
    pub created_ms: u64,
    pub expires_ms: u64,
    pub maker: Maker,
    pub recipe: Recipe,
    pub deleted: u64,
    pub kind: Kind,
    pub sequence: u64,
    pub place: Place,
    pub retries: Retries,
}

impl Listed {
    /// Appends it.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u64(self.id);
        out.put_bytes(&self.name);
        out.put_u64(self.created_ms);
        out.put_u64(self.expires_ms);
        put_maker(out, self.maker);
        self.recipe.put(out);
        out.put_u64(self.deleted);
        out.put_u16(self.kind.number());
        out.put_u64(self.sequence);
        out.put_bytes(self.place.file.as_bytes());
        out.put_u64(self.place.offset);
        out.put_u64(self.place.length);
        self.retries.put(out);
    }

    /// Reads it.
    pub fn get(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            id: fields.u64("an id")?,
            name: fields.bytes("a name")?.to_vec(),
            created_ms: fields.u64("a time")?,
            expires_ms: fields.u64("a time")?,
            maker: get_maker(fields)?,
            recipe: Recipe::get(fields)?,
            deleted: fields.u64("a number of deleted keys")?,
            kind: Kind::from_number(fields.u16("a kind")?).ok_or(Malformed { what: "a known kind", left: 0 })?,
            sequence: fields.u64("a sequence")?,
            place: Place {
                file: fields.text("a file name")?.to_owned(),
                offset: fields.u64("an offset")?,
                length: fields.u64("a length")?,
            },
            retries: Retries::get(fields)?,
        })
    }
}
