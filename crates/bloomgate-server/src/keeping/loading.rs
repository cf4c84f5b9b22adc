//! Opening a data folder: the manifest, the images it names, the log.

use std::sync::Arc;

use bloomgate::bloom::Sprout;
use bloomgate::format::Limits;
use bloomgate::{AnyFilter, Contract, ErrorKind, Kind, OpenOptions};

use super::damaged::{Damaged, records};
use super::manifest::{Form, Images, List, Listed, Made, Place, VERSION};
use super::replay::{OTHER_SECRET, Replay, unavailable};
use super::words;
use crate::engine::contracts::Contracts;
use crate::engine::entry::{Bits, Entry, Lacks, Maker};
use crate::engine::fields::Fields;
use crate::engine::making::Making;
use crate::engine::recipe::Recipe;
use crate::store::{DiskFile, Folder, Log, LogOptions, Recovery, open_log, read_full, read_manifest};

/// Where the bytes of an image are.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Here.
    Bytes(&'a [u8]),
    /// A file of the folder.
    File(&'a str),
}

/// Reads images.
#[derive(Debug)]
pub struct Loader<'a> {
    /// The folder they are in.
    pub folder: &'a Folder,
    /// The secrets their filters are under.
    pub contracts: &'a Contracts,
    /// Threads that may read one image.
    pub threads: usize,
}

impl Loader<'_> {
    /// The filter of an image. One that is damaged or lacks its secret exists all the same, and answers why; a system
    /// that cannot read or has no memory now may do better later, so that stops the start.
    pub fn entry(&self, of: Imagined<'_>, image: Result<Source<'_>, Trouble>) -> Result<Entry, String> {
        let Imagined { id, name, recipe, maker, created_ms, kind } = of;
        // One whose recipe cannot be followed any more has that recipe to itself.
        let making = self.contracts.making(recipe.clone(), maker).ok();
        let known = making.as_ref().and_then(|making| making.sprout.as_ref()).map(Sprout::contract);
        let bits = match image.and_then(|source| self.filter(&recipe, known, source)) {
            Ok(filter) => Bits::Filter(filter),
            Err(Trouble::Image(lacks, why)) => unavailable(kind, lacks, &why),
            Err(Trouble::System(why)) => return Err(format!("filter '{}': {why}", name.escape_ascii())),
        };
        let shared = making.filter(|_| matches!(bits, Bits::Filter(_)));
        let making = shared.unwrap_or_else(|| Arc::new(Making { recipe, maker, sprout: None }));
        Entry::new(id, name, making, created_ms, bits).map_err(|refusal| refusal.as_str().to_owned())
    }

    fn filter(&self, recipe: &Recipe, known: Option<&Contract>, source: Source<'_>) -> Result<AnyFilter, Trouble> {
        // A small filter under a contract that is at hand: what is wrong with another one is told below.
        if let (Some(contract), Source::Bytes(bytes)) = (known, source)
            && let Ok(filter) = AnyFilter::from_bytes_with(bytes, &OpenOptions::new().contract(contract))
        {
            return Ok(filter);
        }
        let secret = self.contracts.secret(&recipe.hashing.contract, recipe.hashing.epoch);
        let mut options = OpenOptions::new().limits(Limits::payload(u64::MAX)).threads(self.threads).once();
        if recipe.hashing.algorithm.is_keyed()
            && let Some(secret) = &secret
        {
            options = options.secret(secret);
        }
        let opened = match source {
            Source::Bytes(bytes) => AnyFilter::from_bytes_with(bytes, &options),
            Source::File(file) if self.folder.disk().is_systems_own() => {
                AnyFilter::open_with(self.folder.at(file), &options)
            }
            Source::File(file) => {
                let bytes = self.folder.read(file).map_err(|error| Trouble::System(format!("{file}: {error}")))?;
                AnyFilter::from_bytes_with(&bytes, &options)
            }
        };
        opened.map_err(|error| match error.kind() {
            ErrorKind::Secret => Trouble::Image(Lacks::Secret, format!("{OTHER_SECRET} ({error})")),
            ErrorKind::Io | ErrorKind::OutOfMemory => Trouble::System(error.to_string()),
            _ => Trouble::Image(Lacks::Other, error.to_string()),
        })
    }
}

/// A filter whose image is to be read, and all else that is known of it.
#[derive(Debug)]
#[allow(missing_docs)] // Those of an entry.
pub struct Imagined<'a> {
    pub id: u64,
    pub name: &'a [u8],
    pub recipe: Recipe,
    pub maker: Maker,
    pub created_ms: u64,
    /// What it is, if the image cannot tell.
    pub kind: Kind,
}

/// Why an image gave no filter.
#[derive(Debug)]
pub enum Trouble {
    /// It is not what it should be, or lacks its secret.
    Image(Lacks, String),
    /// It could not be read.
    System(String),
}

/// Reads images that lie one behind the other in a file: it is opened once, and read so many bytes at a time.
struct Pack<'a> {
    folder: &'a Folder,
    open: Option<(Arc<str>, Box<dyn DiskFile>, u64)>,
    window: Vec<u8>,
    /// Where the window begins.
    start: u64,
}

const WINDOW: u64 = 1 << 20;

impl<'a> Pack<'a> {
    fn new(folder: &'a Folder) -> Self {
        Self { folder, open: None, window: Vec::new(), start: 0 }
    }

    /// The image at a place: a file of its own, or the bytes.
    fn source<'s>(&'s mut self, place: &'s Place) -> Result<Source<'s>, Trouble> {
        if place.form == Form::Whole {
            return Ok(Source::File(&place.file));
        }
        let path = self.folder.at(&place.file);
        let failed = |error: std::io::Error| Trouble::System(format!("{}: {error}", path.display()));
        if self.open.as_ref().is_none_or(|(file, ..)| *file != place.file) {
            let file = self.folder.disk().open(&path).map_err(failed)?;
            let length = file.length().map_err(failed)?;
            self.window.clear();
            self.open = Some((place.file.clone(), file, length));
        }
        let Some((_, file, length)) = &self.open else { return Err(failed(std::io::Error::other("it is not open"))) };
        // Before memory is taken for it.
        let end = place.offset.checked_add(place.length).filter(|end| end <= length);
        let Some(end) = end else {
            let why = format!("{} is shorter than the manifest says", path.display());
            return Err(Trouble::Image(Lacks::Other, why));
        };
        if place.offset < self.start || end > self.start + self.window.len() as u64 {
            let wanted = place.length.max(WINDOW).min(length - place.offset);
            self.window.resize(wanted as usize, 0);
            self.start = place.offset;
            let read = read_full(&**file, &mut self.window, place.offset).map_err(failed)?;
            self.window.truncate(read);
            if (read as u64) < place.length {
                let short = format!("it ended after {read} of {} bytes", place.length);
                return Err(failed(std::io::Error::other(short)));
            }
        }
        let at = (place.offset - self.start) as usize;
        Ok(Source::Bytes(&self.window[at..at + place.length as usize]))
    }
}

/// So many filters are read from the manifest before their images are; what all of them take beside would be several
/// times what they take.
const BATCH: usize = 8_192;

impl Loader<'_> {
    /// The filters of a part of the manifest; by several threads if they are many.
    fn entries(&self, makings: &[Known], listed: Vec<Listed>) -> Result<Vec<Read>, String> {
        let each = listed.len().div_ceil(self.threads.clamp(1, 16)).max(64);
        if listed.len() <= each {
            return self.some_entries(makings, listed);
        }
        let mut listed = listed.into_iter();
        std::thread::scope(|scope| {
            let parts = std::iter::from_fn(|| Some(listed.by_ref().take(each).collect::<Vec<_>>()));
            let parts = parts.take_while(|part| !part.is_empty());
            let readers: Vec<_> = parts.map(|part| scope.spawn(move || self.some_entries(makings, part))).collect();
            let mut all = Vec::new();
            for reader in readers {
                let some = reader.join().map_err(|_| "a thread that read images ended early".to_owned())?;
                all.extend(some?);
            }
            Ok(all)
        })
    }

    fn some_entries(&self, makings: &[Known], listed: Vec<Listed>) -> Result<Vec<Read>, String> {
        let mut pack = Pack::new(self.folder);
        let restored = listed.into_iter().map(|one| {
            let known = makings.get(one.making as usize).ok_or("a filter of no making")?;
            let entry = if one.place.form == Form::Words {
                small(&one, known, pack.source(&one.place))?
            } else {
                let (recipe, maker) = (known.made.recipe.clone(), known.made.maker);
                let Listed { id, created_ms, kind, .. } = one;
                self.entry(Imagined { id, name: &one.name, recipe, maker, created_ms, kind }, pack.source(&one.place))?
            };
            entry.expire_at(one.expires_ms);
            entry.set_deleted(one.deleted);
            if !one.retries.is_empty() {
                entry.keep_answers(one.retries);
            }
            let mut read = Read { entry, sequence: one.sequence, owed: None, damaged: None };
            let (base, owed) = one.owed.unzip();
            let base = base.unwrap_or(one.sequence);
            if let Some(place) = owed.as_ref().filter(|_| read.entry.is_available()) {
                match self.owed(one.id, place) {
                    Ok(pieces) => read.owed = Some((base, pieces)),
                    Err(Trouble::System(why)) => return Err(why),
                    // With some of it missing its "no" would be wrong.
                    Err(Trouble::Image(_, why)) => {
                        let unavailable = read.entry.made_unavailable(why);
                        read.entry = unavailable.map_err(|refusal| refusal.as_str().to_owned())?;
                    }
                }
            }
            if !read.entry.is_available() {
                let made = known.made.clone();
                read.damaged = Some(Damaged { made, base, place: one.place, owed, found: Vec::new() });
            }
            Ok(read)
        });
        restored.collect()
    }

    /// The records that a filter is owed, in pieces that are whole.
    fn owed(&self, id: u64, place: &Place) -> Result<Vec<u8>, Trouble> {
        let path = self.folder.at(&place.file);
        let failed = |error: std::io::Error| Trouble::System(format!("{}: {error}", path.display()));
        let file = self.folder.disk().open(&path).map_err(failed)?;
        let length = file.length().map_err(failed)?;
        // Before memory is taken for it.
        if place.offset.checked_add(place.length).is_none_or(|end| end > length) {
            let why = format!("{} is shorter than the manifest says", path.display());
            return Err(Trouble::Image(Lacks::Other, why));
        }
        let mut pieces = vec![0; place.length as usize];
        let read = read_full(&*file, &mut pieces, place.offset).map_err(failed)?;
        pieces.truncate(read);
        records(id, &pieces).map_err(|why| Trouble::Image(Lacks::Other, why))?;
        Ok(pieces)
    }
}

/// A filter of the manifest.
struct Read {
    entry: Entry,
    /// It is as of this sequence.
    sequence: u64,
    /// But its image is as of that one, and these records it is owed since, in pieces.
    owed: Option<(u64, Vec<u8>)>,
    /// What is kept of it, if it cannot answer.
    damaged: Option<Damaged>,
}

/// How filters of the manifest are made, and what their words are the words of.
#[derive(Debug)]
struct Known {
    made: Arc<Made>,
    /// Nothing if none of them is words in a pack.
    shared: Option<Result<Arc<Making>, Trouble>>,
}

impl Loader<'_> {
    /// Looks at the example of a making: is its secret here, can this program read it?
    fn known(&self, made: Made) -> Known {
        let shared = (!made.example.is_empty()).then(|| {
            let example = self.filter(&made.recipe, None, Source::Bytes(&made.example))?;
            let no_chain = "the manifest's example of such filters is no small chain";
            let sprout = words::sprout(&example).ok_or_else(|| Trouble::Image(Lacks::Other, no_chain.to_owned()))?;
            Ok(self.contracts.making_as(made.recipe.clone(), made.maker, sprout))
        });
        Known { made: Arc::new(made), shared }
    }
}

/// A small filter of its words in a pack.
fn small(one: &Listed, known: &Known, source: Result<Source<'_>, Trouble>) -> Result<Entry, String> {
    let failed = |why: &str| format!("filter '{}': {why}", one.name.escape_ascii());
    let (lacks, why) = match (&known.shared, &source) {
        (Some(Ok(making)), Ok(Source::Bytes(bytes))) => {
            let Some(sprout) = &making.sprout else { return Err(failed("its making has no example")) };
            match words::get(one.id, sprout, bytes) {
                Ok((count, words)) => {
                    let made = Entry::of_words(one.id, &one.name, making.clone(), one.created_ms, count, words);
                    return made.map_err(|refusal| failed(refusal.as_str()));
                }
                Err(why) => (Lacks::Other, why),
            }
        }
        (Some(Err(Trouble::System(why))), _) | (_, Err(Trouble::System(why))) => return Err(failed(why)),
        (Some(Err(Trouble::Image(lacks, why))), _) | (_, Err(Trouble::Image(lacks, why))) => (*lacks, why.clone()),
        (None, _) | (_, Ok(Source::File(_))) => {
            (Lacks::Other, "the manifest has no example of such filters".to_owned())
        }
    };
    let (recipe, maker) = (known.made.recipe.clone(), known.made.maker);
    let making = Arc::new(Making { recipe, maker, sprout: None });
    Entry::new(one.id, &one.name, making, one.created_ms, unavailable(one.kind, lacks, &why))
        .map_err(|refusal| failed(refusal.as_str()))
}

/// What the manifest and its images held, before the log is read.
pub struct Imaged<'a> {
    /// The filters as of their images, to be told what the log says.
    pub replay: Replay<'a>,
    /// The log from after this sequence on is still to be read.
    pub replay_after: u64,
    /// The log was durable up to here before the manifest was written: the highest sequence of an image, or that one.
    pub durable: u64,
    /// Where the images lie.
    pub images: Images,
    /// The time of the last snapshot.
    pub clock_ms: u64,
}

/// What a folder held.
#[derive(Debug)]
pub struct Loaded {
    /// The filters.
    pub entries: Vec<Entry>,
    /// The id of the next one.
    pub next_id: u64,
    /// The log, ready to go on.
    pub log: Log,
    /// What was read of it.
    pub recovery: Recovery,
    /// Where the images lie.
    pub images: Images,
    /// The time of the last snapshot.
    pub clock_ms: u64,
}

/// Reads the manifest of a folder and the images that it names.
pub fn load_images<'a>(loader: &'a Loader<'a>) -> Result<Imaged<'a>, String> {
    let (folder, contracts) = (loader.folder, loader.contracts);
    let manifest = read_manifest(folder).map_err(|error| error.to_string())?;
    let (mut clock_ms, mut replay_after, mut durable) = (0, 0, 0);
    let mut images = Images::default();
    let mut replay = Replay::new(loader, contracts, 1);
    if let Some(manifest) = &manifest {
        if manifest.version != VERSION {
            return Err(format!(
                "the manifest has version {}, and this server reads version {VERSION}: use the server that wrote it",
                manifest.version
            ));
        }
        (replay_after, durable) = (manifest.replay_after, manifest.replay_after);
        let mut fields = Fields(&manifest.sections);
        let wrong = |malformed| format!("the manifest {} cannot be read: {malformed}", folder.at("MANIFEST").display());
        clock_ms = fields.u64("the time").map_err(wrong)?;
        replay = Replay::new(loader, contracts, fields.u64("the next id").map_err(wrong)?);
        contracts.check_master(fields.text("the id of the master secret").map_err(wrong)?)?;
        contracts.get(&mut fields).map_err(wrong)?;
        let mut list = List::begin(&mut fields).map_err(wrong)?;
        let makings: Vec<Known> = list.makings.iter().map(|made| loader.known(made.clone())).collect();
        loop {
            let listed = list.next(BATCH).map_err(wrong)?;
            if listed.is_empty() {
                break;
            }
            listed.iter().for_each(|one| images.note(one));
            for Read { entry, sequence, owed, damaged } in loader.entries(&makings, listed)? {
                durable = durable.max(sequence);
                if let Some(damaged) = damaged {
                    images.keep(entry.id, damaged);
                }
                match owed {
                    Some((base, pieces)) => {
                        let records = records(entry.id, &pieces)?;
                        replay.restore_owed(entry, base, &records, sequence)?;
                    }
                    None => replay.restore(entry, sequence),
                }
            }
        }
    }
    Ok(Imaged { replay, replay_after, durable, images, clock_ms })
}

/// Reads everything that a folder holds.
pub fn load(
    folder: &Arc<Folder>,
    contracts: &Contracts,
    options: LogOptions,
    threads: usize,
) -> Result<Loaded, String> {
    let loader = Loader { folder, contracts, threads };
    let Imaged { mut replay, replay_after, durable, mut images, clock_ms } = load_images(&loader)?;
    let opened = open_log(folder, replay_after, durable, options, |sequence, payload| replay.batch(sequence, payload));
    let (log, recovery) = opened.map_err(|error| replay.other_secret.take().unwrap_or_else(|| error.to_string()))?;
    replay.owed().for_each(|(id, piece)| images.owe(id, &piece));
    let (entries, next_id) = replay.finish()?;
    Ok(Loaded { entries, next_id, log, recovery, images, clock_ms })
}
