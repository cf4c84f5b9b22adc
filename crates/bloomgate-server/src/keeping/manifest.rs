//! What a manifest says: everything about the filters but their bits.
//!
//! ```text
//!  clock ms u64, next id u64, id of the master secret, contracts,
//!  number of makings u32, then each: maker, recipe, example (a filter of it, empty, as a file has it; no bytes: none)
//!  number of files u32, then each: name
//!  number of filters u64, then each:
//!    id u64, name, created ms u64, expires ms u64, making u32, deleted u64, kind u16, sequence u64,
//!    form u8 (0 a file of its own, 1 an image in a pack, 2 words in a pack), file u32, offset u64, length u64,
//!    answered requests
//! ```
//!
//! How filters are made and where they lie is written once for all that have it in common: of a million filters, one for
//! each user, it would be two thirds of the manifest.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bloomgate::Kind;

use super::words;
use crate::engine::entry::Maker;
use crate::engine::fields::{Fields, Malformed, Put};
use crate::engine::making::Making;
use crate::engine::recipe::Recipe;
use crate::engine::record::{get_maker, put_maker};
use crate::engine::retries::Retries;

/// The version of what is written here.
pub const VERSION: u32 = 2;

/// Where the bits of a filter lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// As what.
    pub form: Form,
    /// The file.
    pub file: Arc<str>,
    /// Where in it.
    pub offset: u64,
    /// How many bytes; 0 for the whole file.
    pub length: u64,
}

/// As what the bits of a filter lie there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A file of its own, as the library writes them.
    Whole,
    /// The same in a pack, with others.
    Image,
    /// Its words in a pack: what else there is to know is in the making's example.
    Words,
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
        if one.place.form == Form::Whole {
            self.own.insert(one.id, (one.sequence, one.place.clone()));
        } else if !self.packs.contains(&*one.place.file) {
            self.packs.insert(one.place.file.to_string());
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
        self.own.values().map(|(_, place)| place.file.to_string()).chain(self.packs.iter().cloned()).collect()
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
    pub making: u32,
    pub deleted: u64,
    pub kind: Kind,
    pub sequence: u64,
    pub place: Place,
    pub retries: Retries,
}

/// How filters are made, as the manifest has it.
#[derive(Debug, Clone)]
#[allow(missing_docs)] // The layout above says what each is.
pub struct Made {
    pub maker: Maker,
    pub recipe: Recipe,
    pub example: Vec<u8>,
}

/// The list of a manifest while it is written.
#[derive(Debug, Default)]
pub struct Listing {
    makings: Vec<u8>,
    /// The numbers of makings by what is written of them.
    numbers: HashMap<Vec<u8>, u32>,
    /// Those that many filters share, by their address, which nobody else has while they are held.
    shared: HashMap<usize, (u32, Arc<Making>)>,
    files: Vec<Arc<str>>,
    /// The last pack, and its number among the files: a snapshot writes one.
    pack: Option<(Arc<str>, u32)>,
    filters: Vec<u8>,
    ids: Vec<u64>,
}

impl Listing {
    /// The number of a making.
    pub fn making(&mut self, making: &Arc<Making>) -> Result<u32, String> {
        let address = Arc::as_ptr(making) as usize;
        if let Some((number, _)) = self.shared.get(&address) {
            return Ok(*number);
        }
        let example = making.sprout.as_ref().map(words::example).transpose()?;
        let mut bytes = Vec::new();
        put_maker(&mut bytes, making.maker);
        making.recipe.put(&mut bytes);
        bytes.put_bytes(example.as_deref().unwrap_or_default());
        let next = self.numbers.len() as u32;
        let number = *self.numbers.entry(bytes).or_insert_with_key(|bytes| {
            self.makings.extend_from_slice(bytes);
            next
        });
        if example.is_some() {
            self.shared.insert(address, (number, making.clone()));
        }
        Ok(number)
    }

    /// Appends a filter.
    pub fn put(&mut self, one: &Listed) {
        let file = match &self.pack {
            Some((name, number)) if *name == one.place.file => *number,
            _ => {
                self.files.push(one.place.file.clone());
                let number = self.files.len() as u32 - 1;
                if one.place.form != Form::Whole {
                    self.pack = Some((one.place.file.clone(), number));
                }
                number
            }
        };
        self.ids.push(one.id);
        let out = &mut self.filters;
        out.put_u64(one.id);
        out.put_bytes(&one.name);
        out.put_u64(one.created_ms);
        out.put_u64(one.expires_ms);
        out.put_u32(one.making);
        out.put_u64(one.deleted);
        out.put_u16(one.kind.number());
        out.put_u64(one.sequence);
        out.put_u8(match one.place.form {
            Form::Whole => 0,
            Form::Image => 1,
            Form::Words => 2,
        });
        out.put_u32(file);
        out.put_u64(one.place.offset);
        out.put_u64(one.place.length);
        one.retries.put(out);
    }

    /// Appends all of it to a manifest; the ids of its filters, in the order of the list.
    pub fn finish(self, out: &mut Vec<u8>) -> Vec<u64> {
        out.reserve(self.makings.len() + self.filters.len() + 64);
        out.put_u32(self.numbers.len() as u32);
        out.extend_from_slice(&self.makings);
        out.put_u32(self.files.len() as u32);
        self.files.iter().for_each(|file| out.put_bytes(file.as_bytes()));
        out.put_u64(self.ids.len() as u64);
        out.extend_from_slice(&self.filters);
        self.ids
    }
}

/// The list of a manifest while it is read: its filters, in their order.
#[derive(Debug)]
pub struct List<'f, 'a> {
    fields: &'f mut Fields<'a>,
    /// How they are made.
    pub makings: Vec<Made>,
    files: Vec<Arc<str>>,
    left: u64,
}

impl<'f, 'a> List<'f, 'a> {
    /// Reads what stands before the filters.
    pub fn begin(fields: &'f mut Fields<'a>) -> Result<Self, Malformed> {
        let makings = (0..fields.u32("the number of makings")?).map(|_| {
            Ok(Made {
                maker: get_maker(fields)?,
                recipe: Recipe::get(fields)?,
                example: fields.bytes("an example")?.to_vec(),
            })
        });
        let makings = makings.collect::<Result<_, Malformed>>()?;
        let files = (0..fields.u32("the number of files")?).map(|_| Ok(Arc::from(fields.text("a file name")?)));
        let files = files.collect::<Result<_, Malformed>>()?;
        let left = fields.u64("the number of filters")?;
        Ok(Self { fields, makings, files, left })
    }

    fn one(&mut self) -> Result<Listed, Malformed> {
        let wrong = |what| Malformed { what, left: 0 };
        let Self { fields, makings, files, .. } = self;
        Ok(Listed {
            id: fields.u64("an id")?,
            name: fields.bytes("a name")?.to_vec(),
            created_ms: fields.u64("a time")?,
            expires_ms: fields.u64("a time")?,
            making: match fields.u32("a making")? {
                number if (number as usize) < makings.len() => number,
                _ => return Err(wrong("a making of the list")),
            },
            deleted: fields.u64("a number of deleted keys")?,
            kind: Kind::from_number(fields.u16("a kind")?).ok_or(wrong("a known kind"))?,
            sequence: fields.u64("a sequence")?,
            place: Place {
                form: match fields.u8("a form")? {
                    0 => Form::Whole,
                    1 => Form::Image,
                    2 => Form::Words,
                    _ => return Err(wrong("a known form")),
                },
                file: files.get(fields.u32("a file")? as usize).ok_or(wrong("a file of the list"))?.clone(),
                offset: fields.u64("an offset")?,
                length: fields.u64("a length")?,
            },
            retries: Retries::get(fields)?,
        })
    }

    /// The next ones, at most so many; none when all are read.
    pub fn next(&mut self, most: usize) -> Result<Vec<Listed>, Malformed> {
        let count = self.left.min(most as u64);
        self.left -= count;
        (0..count).map(|_| self.one()).collect()
    }
}
