//! What a manifest says: everything about the filters but their bits.
//!
//! ```text
//!  clock ms u64, next id u64, id of the master secret, contracts,
//!  number of makings u32, then each: maker, recipe, example (a filter of it, empty, as a file has it; no bytes: none)
//!  number of files u32, then each: name
//!  number of filters u64, then each:
//!    id u64, name, created ms u64, expires ms u64, making u32, deleted u64, kind u16, sequence u64,
//!    form u8 (0 a file of its own, 1 an image in a pack, 2 words in a pack), file u32, offset u64, length u64,
//!    with 3 more in the form, of a filter that cannot be read: the sequence of that image u64, and where the records lie that
//!      it is owed since: file u32, offset u64, length u64,
//!    answered requests
//! ```
//!
//! How filters are made and where they lie is written once for all that have it in common: of a million filters, one for
//! each user, it would be two thirds of the manifest.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::sync::Arc;

use bloomgate::Kind;

use super::damaged::Damaged;
use super::words;
use crate::engine::entry::Maker;
use crate::engine::fields::{Fields, Malformed, Put};
use crate::engine::making::Making;
use crate::engine::recipe::Recipe;
use crate::engine::record::{get_maker, put_maker};
use crate::engine::retries::Retries;
use crate::store::{Folder, Spool, Spooled};

/// The version of what is written here. A server that does not know what is owed refuses the manifests that say so, and reads all
/// others.
pub const VERSION: u32 = 2;
/// More in the form of a filter that is owed records.
const OWED: u8 = 3;

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
    /// Of those that cannot answer all is known, wherever they lie: they are carried over as they are.
    damaged: HashMap<u64, Damaged>,
}

impl Images {
    /// A filter cannot answer, and this is kept of it.
    pub fn keep(&mut self, id: u64, damaged: Damaged) {
        self.damaged.insert(id, damaged);
    }

    /// The log has said more of one that is kept.
    pub fn owe(&mut self, id: u64, piece: &[u8]) {
        if let Some(damaged) = self.damaged.get_mut(&id) {
            damaged.found.extend_from_slice(piece);
        }
    }

    /// What is kept of a filter that cannot answer.
    #[must_use]
    pub fn damaged(&self, id: u64) -> Option<&Damaged> {
        self.damaged.get(&id)
    }

    /// A filter has its image there.
    pub fn note(&mut self, one: &Listed) {
        if let Some((_, place)) = &one.owed {
            self.packs.insert(place.file.to_string());
        }
        // The image of one that is owed records is not all of it: when it can be read, it is written anew.
        if one.place.form == Form::Whole && one.owed.is_none() {
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
    /// Of one that cannot be read: the sequence of its image, and where the records lie that it is owed since.
    pub owed: Option<(u64, Place)>,
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

/// So much of a list is kept in memory, which nobody is charged for; the rest lies in the folder until the manifest is written: ten
/// million filters have a gigabyte of it.
const IN_MEMORY: usize = 1 << 20;

/// The list of a manifest while it is written.
#[derive(Debug)]
pub struct Listing<'f> {
    folder: &'f Folder,
    makings: Vec<u8>,
    /// The numbers of makings by what is written of them.
    numbers: HashMap<Vec<u8>, u32>,
    /// Those that many filters share, by their address, which nobody else has while they are held.
    shared: HashMap<usize, (u32, Arc<Making>)>,
    files: Vec<Arc<str>>,
    /// The last pack, and its number among the files: a snapshot writes one.
    pack: Option<(Arc<str>, u32)>,
    /// What is written of the filters that are not in the spool.
    filters: Vec<u8>,
    spool: Option<Spool>,
    ids: Vec<u64>,
}

impl<'f> Listing<'f> {
    /// An empty one, for a manifest of this folder.
    #[must_use]
    pub fn new(folder: &'f Folder) -> Self {
        let (makings, numbers, shared, files, pack, filters, ids) = Default::default();
        Self { folder, makings, numbers, shared, files, pack, filters, spool: None, ids }
    }

    /// The number of a making.
    pub fn making(&mut self, making: &Arc<Making>) -> Result<u32, String> {
        let address = Arc::as_ptr(making) as usize;
        if let Some((number, _)) = self.shared.get(&address) {
            return Ok(*number);
        }
        let example = making.sprout.as_ref().map(words::example).transpose()?;
        let number = self.number(making.maker, &making.recipe, example.as_deref().unwrap_or_default());
        if example.is_some() {
            self.shared.insert(address, (number, making.clone()));
        }
        Ok(number)
    }

    /// The number of a making of another manifest, whose example nobody may be able to read.
    pub fn made(&mut self, made: &Made) -> u32 {
        self.number(made.maker, &made.recipe, &made.example)
    }

    fn number(&mut self, maker: Maker, recipe: &Recipe, example: &[u8]) -> u32 {
        let mut bytes = Vec::new();
        put_maker(&mut bytes, maker);
        recipe.put(&mut bytes);
        bytes.put_bytes(example);
        let next = self.numbers.len() as u32;
        *self.numbers.entry(bytes).or_insert_with_key(|bytes| {
            self.makings.extend_from_slice(bytes);
            next
        })
    }

    fn file(&mut self, place: &Place) -> u32 {
        match &self.pack {
            Some((name, number)) if *name == place.file => *number,
            _ => {
                self.files.push(place.file.clone());
                let number = self.files.len() as u32 - 1;
                if place.form != Form::Whole {
                    self.pack = Some((place.file.clone(), number));
                }
                number
            }
        }
    }

    /// Appends a filter.
    pub fn put(&mut self, one: &Listed) -> Result<(), String> {
        let file = self.file(&one.place);
        let owed = one.owed.as_ref().map(|(base, place)| (base, self.file(place), place));
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
        let form = match one.place.form {
            Form::Whole => 0,
            Form::Image => 1,
            Form::Words => 2,
        };
        out.put_u8(if owed.is_some() { form + OWED } else { form });
        out.put_u32(file);
        out.put_u64(one.place.offset);
        out.put_u64(one.place.length);
        if let Some((base, file, place)) = owed {
            out.put_u64(*base);
            out.put_u32(file);
            out.put_u64(place.offset);
            out.put_u64(place.length);
        }
        one.retries.put(out);
        if out.len() >= IN_MEMORY {
            let put_aside = |error| format!("the list of the filters could not be put aside: {error}");
            let spool = match &mut self.spool {
                Some(spool) => spool,
                None => self.spool.insert(Spool::beside_the_log(self.folder).map_err(put_aside)?),
            };
            spool.write_all(out).map_err(put_aside)?;
            out.clear();
        }
        Ok(())
    }

    /// What a manifest says that begins so and has this list.
    pub fn finish(self, mut begin: Vec<u8>) -> Result<Body, String> {
        begin.put_u32(self.numbers.len() as u32);
        begin.extend_from_slice(&self.makings);
        begin.put_u32(self.files.len() as u32);
        self.files.iter().for_each(|file| begin.put_bytes(file.as_bytes()));
        begin.put_u64(self.ids.len() as u64);
        let spooled = self.spool.map(Spool::finish).transpose().map_err(|error| error.to_string())?;
        Ok(Body { begin, spooled, end: self.filters, ids: self.ids })
    }
}

/// What a manifest says, to be written.
#[derive(Debug)]
pub struct Body {
    begin: Vec<u8>,
    spooled: Option<Spooled>,
    end: Vec<u8>,
    /// The filters in it, in their order.
    pub ids: Vec<u64>,
}

impl Body {
    /// Its bytes.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.begin.len() as u64 + self.spooled.as_ref().map_or(0, Spooled::length) + self.end.len() as u64
    }

    /// All of them, in their order.
    pub fn reader(&self) -> Box<dyn Read + '_> {
        match &self.spooled {
            Some(spooled) => Box::new(self.begin[..].chain(spooled.reader()).chain(&self.end[..])),
            None => Box::new(self.begin[..].chain(&self.end[..])),
        }
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
        let file = |fields: &mut Fields<'_>| match files.get(fields.u32("a file")? as usize) {
            Some(file) => Ok(file.clone()),
            None => Err(wrong("a file of the list")),
        };
        let mut is_owed = false;
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
                form: {
                    let form = fields.u8("a form")?;
                    is_owed |= form >= OWED;
                    match if is_owed { form - OWED } else { form } {
                        0 => Form::Whole,
                        1 => Form::Image,
                        2 => Form::Words,
                        _ => return Err(wrong("a known form")),
                    }
                },
                file: file(fields)?,
                offset: fields.u64("an offset")?,
                length: fields.u64("a length")?,
            },
            owed: match is_owed {
                true => Some((
                    fields.u64("a sequence")?,
                    Place {
                        form: Form::Image,
                        file: file(fields)?,
                        offset: fields.u64("an offset")?,
                        length: fields.u64("a length")?,
                    },
                )),
                false => None,
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

#[cfg(test)]
mod tests {
    use bloomgate::Algorithm;

    use super::*;
    use crate::engine::recipe::Hashing;
    use crate::store::MemoryDisk;

    /// Three times what is kept in memory, with names of all lengths.
    #[test]
    fn a_list_that_was_put_aside_is_read_as_it_was_written() {
        let disk = Arc::new(MemoryDisk::default());
        let folder = Folder::open("/data", disk.clone()).unwrap();
        let mut listing = Listing::new(&folder);
        let listed = |id: u64| Listed {
            id,
            name: vec![b'n'; (id % 97) as usize],
            created_ms: id * 3,
            expires_ms: id * 5,
            making: 0,
            deleted: id * 7,
            kind: Kind::Scalable,
            sequence: id * 11,
            place: Place { form: Form::Words, file: Arc::from("pack"), offset: id * 13, length: 17 },
            owed: (id % 100 == 9)
                .then(|| (id * 19, Place { form: Form::Image, file: Arc::from("pack"), offset: id * 23, length: 29 })),
            retries: Retries::default(),
        };
        let hashing = Hashing { algorithm: Algorithm::Xxh3, seed: 0, contract: String::new(), epoch: 0 };
        let recipe = Recipe::new(Kind::Scalable, 100, 0.01, hashing);
        let making = Arc::new(Making { recipe, maker: Maker::Bg, sprout: None });
        assert_eq!(listing.making(&making), Ok(0));
        const FILTERS: u64 = 26_000;
        let mut most = 0;
        for id in 0..FILTERS {
            listing.put(&listed(id)).unwrap();
            most = most.max(listing.filters.capacity());
        }
        assert!(most < 3 * IN_MEMORY, "{most} bytes are kept in memory");
        let body = listing.finish(b"begin".to_vec()).unwrap();
        assert!(body.length() > 3 * IN_MEMORY as u64 && body.ids == (0..FILTERS).collect::<Vec<_>>());
        let mut bytes = Vec::new();
        body.reader().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, body.length());
        let mut fields = Fields(bytes.strip_prefix(b"begin").unwrap());
        let mut list = List::begin(&mut fields).unwrap();
        let read = list.next(usize::MAX).unwrap();
        assert_eq!(read.len() as u64, FILTERS);
        for (id, one) in read.iter().enumerate() {
            assert_eq!(format!("{one:?}"), format!("{:?}", listed(id as u64)));
        }
        assert!(fields.is_empty());
        assert_eq!(folder.names().unwrap(), Vec::<String>::new(), "what was put aside has no name");
    }
}
