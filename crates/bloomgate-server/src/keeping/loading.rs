//! Opening a data folder: the manifest, the images it names, the log.

use std::collections::HashMap;
use std::sync::Arc;

use bloomgate::format::Limits;
use bloomgate::{AnyFilter, ErrorKind, Kind, OpenOptions};

use super::manifest::{Listed, Place, VERSION};
use super::replay::{OTHER_SECRET, Replay, unavailable};
use crate::engine::contracts::Contracts;
use crate::engine::entry::{Body, Entry};
use crate::engine::fields::Fields;
use crate::engine::recipe::Recipe;
use crate::store::{Folder, Log, LogOptions, Recovery, open_log, read_full, read_manifest};
use crate::sync::atomic::Ordering;

/// Where the bytes of an image are.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Here.
    Bytes(&'a [u8]),
    /// A file of the folder.
    File(&'a str),
    /// Part of a file of the folder.
    Part(&'a Place),
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
    pub fn body(&self, name: &[u8], recipe: &Recipe, kind: Kind, source: Source<'_>) -> Result<Body, String> {
        match self.filter(recipe, source) {
            Ok(filter) => Body::of(filter).map_err(|refusal| refusal.as_str().to_owned()),
            Err(Trouble::Image(why)) => Ok(unavailable(name, kind, &why)),
            Err(Trouble::System(why)) => Err(format!("filter '{}': {why}", name.escape_ascii())),
        }
    }

    fn filter(&self, recipe: &Recipe, source: Source<'_>) -> Result<AnyFilter, Trouble> {
        let secret = self.contracts.secret(&recipe.hashing.contract, recipe.hashing.epoch);
        let mut options = OpenOptions::new().limits(Limits::payload(u64::MAX)).threads(self.threads).once();
        if recipe.hashing.algorithm.is_keyed()
            && let Some(secret) = &secret
        {
            options = options.secret(secret);
        }
        let opened = match source {
            Source::Bytes(bytes) => AnyFilter::from_bytes_with(bytes, &options),
            Source::File(file) => AnyFilter::open_with(self.folder.at(file), &options),
            Source::Part(place) if place.length == 0 => AnyFilter::open_with(self.folder.at(&place.file), &options),
            Source::Part(place) => {
                let bytes = part(self.folder, place)?;
                AnyFilter::from_bytes_with(&bytes, &options)
            }
        };
        opened.map_err(|error| match error.kind() {
            ErrorKind::Secret => Trouble::Image(format!("{OTHER_SECRET} ({error})")),
            ErrorKind::Io | ErrorKind::OutOfMemory => Trouble::System(error.to_string()),
            _ => Trouble::Image(error.to_string()),
        })
    }
}

/// Why an image gave no filter.
enum Trouble {
    /// It is not what it should be.
    Image(String),
    /// It could not be read.
    System(String),
}

fn part(folder: &Folder, place: &Place) -> Result<Vec<u8>, Trouble> {
    let path = folder.at(&place.file);
    let failed = |error: std::io::Error| Trouble::System(format!("{}: {error}", path.display()));
    let file = folder.disk().open(&path).map_err(failed)?;
    let length = file.length().map_err(failed)?;
    // Before memory is taken for it.
    if place.offset.checked_add(place.length).is_none_or(|end| end > length) {
        return Err(Trouble::Image(format!("{} is shorter than the manifest says", path.display())));
    }
    let mut bytes = vec![0; place.length as usize];
    match read_full(&*file, &mut bytes, place.offset).map_err(failed)? {
        read if read == bytes.len() => Ok(bytes),
        read => Err(failed(std::io::Error::other(format!("it ended after {read} of {} bytes", bytes.len())))),
    }
}

/// What the manifest and its images held, before the log is read.
pub struct Imaged<'a> {
    /// The filters as of their images, to be told what the log says.
    pub replay: Replay<'a>,
    /// The log from after this sequence on is still to be read.
    pub replay_after: u64,
    /// Where the images lie.
    pub images: HashMap<u64, (u64, Place)>,
    /// The time of the last snapshot.
    pub clock_ms: u64,
}

/// What a folder held.
#[derive(Debug)]
pub struct Loaded {
    /// The filters.
    pub entries: Vec<Arc<Entry>>,
    /// The id of the next one.
    pub next_id: u64,
    /// The log, ready to go on.
    pub log: Log,
    /// What was read of it.
    pub recovery: Recovery,
    /// Where the images lie.
    pub images: HashMap<u64, (u64, Place)>,
    /// The time of the last snapshot.
    pub clock_ms: u64,
}

/// Reads the manifest of a folder and the images that it names.
pub fn load_images<'a>(loader: &'a Loader<'a>) -> Result<Imaged<'a>, String> {
    let (folder, contracts) = (loader.folder, loader.contracts);
    let manifest = read_manifest(folder).map_err(|error| error.to_string())?;
    let (mut clock_ms, mut next_id, mut listed) = (0, 1, Vec::new());
    let mut replay_after = 0;
    if let Some(manifest) = &manifest {
        if manifest.version != VERSION {
            return Err(format!(
                "the manifest has version {}, and this server reads version {VERSION}: use the server that wrote it",
                manifest.version
            ));
        }
        replay_after = manifest.replay_after;
        let mut fields = Fields(&manifest.sections);
        let wrong = |malformed| format!("the manifest {} cannot be read: {malformed}", folder.at("MANIFEST").display());
        clock_ms = fields.u64("the time").map_err(wrong)?;
        next_id = fields.u64("the next id").map_err(wrong)?;
        contracts.get(&mut fields).map_err(wrong)?;
        for _ in 0..fields.u64("the number of filters").map_err(wrong)? {
            listed.push(Listed::get(&mut fields).map_err(wrong)?);
        }
    }
    let mut images = HashMap::new();
    let mut replay = Replay::new(loader, contracts, next_id);
    for one in listed {
        let body = loader.body(&one.name, &one.recipe, one.kind, Source::Part(&one.place))?;
        let entry = Entry::new(one.id, &one.name, one.recipe, one.maker, one.created_ms, body);
        entry.expire_at(one.expires_ms);
        entry.deleted.store(one.deleted, Ordering::Relaxed);
        entry.write().retries = one.retries;
        images.insert(one.id, (one.sequence, one.place));
        replay.restore(entry, one.sequence);
    }
    Ok(Imaged { replay, replay_after, images, clock_ms })
}

/// Reads everything that a folder holds.
pub fn load(
    folder: &Arc<Folder>,
    contracts: &Contracts,
    options: LogOptions,
    threads: usize,
) -> Result<Loaded, String> {
    let loader = Loader { folder, contracts, threads };
    let Imaged { mut replay, replay_after, images, clock_ms } = load_images(&loader)?;
    let (log, recovery) = open_log(folder, replay_after, options, |sequence, payload| replay.batch(sequence, payload))
        .map_err(|error| error.to_string())?;
    let (entries, next_id) = replay.finish()?;
    Ok(Loaded { entries, next_id, log, recovery, images, clock_ms })
}
