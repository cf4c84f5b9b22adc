//! Snapshots: every filter as of a sequence of its own, so that nobody has to wait for all of them at once.
//!
//! 1. The log begins a new segment; what is before it need not be read again once the snapshot is complete.
//! 2. Filter by filter: with nobody writing, for microseconds, the sequence and the counts are taken. Bits that are only
//!    ever set are then written out while others go on setting them: replaying the log from that sequence on sets them
//!    again, which changes nothing. Other kinds are copied while their one writer waits.
//! 3. The manifest is written, then the segments and images that nothing needs any more go.
//!
//! A filter that did not change since its last image keeps that one.

use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::manifest::{Form, Images, Listed, Listing, Place, VERSION};
use super::{Keeping, lock, words};
use crate::engine::entry::{Body, Entry};
use crate::engine::fields::Put;
use crate::store::{ImageFile, Manifest, image_name, remove_unreferenced, write_manifest};
use crate::sync::atomic::Ordering;
use crate::sync::{Fault, broken, point};

/// Images up to this size go into one file together.
const SMALL: u64 = 64 << 10;
/// Filters that are looked up at once by their ids.
const STRIDE: usize = 1_024;

impl Keeping {
    /// Makes a snapshot; one at a time.
    pub fn snapshot(&self) -> Result<(), String> {
        let _one_at_a_time = lock(&self.at_work);
        self.snapshot_now().map(drop)
    }

    /// Makes a snapshot; the manifest as it was written.
    pub(super) fn snapshot_now(&self) -> Result<Manifest, String> {
        let began = Instant::now();
        let (replay_after, gone) = {
            let _alone = self.engine.stop();
            (self.engine.journal.rotate()?, self.gone())
        };
        let mut images = Images::default();
        let mut pack = Pack::new(self, replay_after)?;
        let mut listing = Listing::default();
        let mut next = 0;
        loop {
            let entries = self.engine.names.from_id(next, STRIDE);
            let Some(last) = entries.last() else { break };
            next = last.id + 1;
            for entry in &entries {
                let Some(one) = self.image(entry, &mut listing, &mut pack)? else { continue };
                images.note(&one);
                listing.put(&one);
            }
        }
        let images_bytes = pack.finish()?;
        // After a power cut the log must reach at least as far as the images: it would give their sequences out again,
        // and the next start would take new writes for ones that the images hold.
        self.engine.journal.sync_through(self.engine.journal.appended())?;
        let mut sections = Vec::new();
        sections.put_u64(self.engine.clock.now_ms());
        sections.put_u64(self.engine.next_id());
        sections.put_bytes(self.engine.contracts.master_id().unwrap_or_default().as_bytes());
        self.engine.contracts.put(&mut sections);
        let known = listing.finish(&mut sections);
        let manifest = Manifest { version: VERSION, replay_after, sections };
        write_manifest(&self.folder, &manifest).map_err(|error| error.to_string())?;
        self.snapshot_bytes.store(images_bytes + manifest.size_in_file(), Ordering::Relaxed);
        self.tidy(images, &known, &gone, replay_after)?;
        self.snapshot_micros.store(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        Ok(manifest)
    }

    /// Images of filters that were installed and deleted, or given up before. With nobody writing, so that what installs one
    /// has its name or is done. A start that begins with the log from here on does not read that they were installed; one
    /// that begins earlier needs them, so they go when the snapshot is complete.
    fn gone(&self) -> HashSet<Arc<str>> {
        let is_gone = |file: &&Arc<str>| {
            Arc::strong_count(file) == 1 && id_of(file).is_none_or(|id| self.engine.names.by_id(id).is_none())
        };
        lock(&self.fresh).iter().filter(is_gone).cloned().collect()
    }

    /// Takes the image of a filter; nothing if it has gone meanwhile.
    fn image(&self, entry: &Entry, listing: &mut Listing, pack: &mut Pack<'_>) -> Result<Option<Listed>, String> {
        // Before anybody has to wait: of a making that is new to the list an example is written.
        let making = listing.making(&entry.making)?;
        let engine = &self.engine;
        let (alone, writer) = loop {
            let alone = engine.stop();
            if engine.names.by_id(entry.id).is_none() {
                return Ok(None);
            }
            if let Some(writer) = entry.try_write_if_any() {
                break (alone, writer);
            }
            // Somebody copies it: that takes as long as the filter is large, and is waited for with the gates open.
            drop(alone);
            drop(entry.write_if_any());
        };
        let sequence = engine.journal.appended();
        let known = lock(&self.images).own(entry.id).cloned();
        let mut listed = Listed {
            id: entry.id,
            name: entry.name().to_vec(),
            created_ms: entry.created_ms,
            expires_ms: entry.expires_ms(),
            making,
            deleted: entry.deleted(),
            kind: entry.kind(),
            sequence,
            place: Place { form: Form::Whole, file: Arc::from(""), offset: 0, length: 0 },
            retries: writer.as_ref().map(|writer| writer.retries.clone()).unwrap_or_default(),
        };
        // The pack is written anew each time; what lies in the old one has to move.
        let unchanged = known.filter(|(as_of, _)| entry.touched() <= *as_of);
        if let Some((_, place)) = unchanged {
            listed.place = place;
            return Ok(Some(listed));
        }
        point();
        let failed = |error: bloomgate::Error| format!("the image of a filter could not be written: {error}");
        listed.place = match entry.body() {
            Body::Small(small) => {
                words::put(entry.id, &small, &mut pack.words);
                drop(alone);
                point();
                if broken(Fault::SequenceLate) {
                    listed.sequence = engine.journal.appended();
                }
                pack.add_words()?
            }
            Body::Shared(filter) if !entry.is_ordered() => {
                let image = filter.image().map_err(failed)?;
                drop(alone);
                point();
                if broken(Fault::SequenceLate) {
                    listed.sequence = engine.journal.appended();
                }
                if image.size_in_bytes() <= SMALL {
                    let mut bytes = Vec::new();
                    image.write_to(&mut bytes).map_err(failed)?;
                    pack.add(&bytes)?
                } else {
                    let mut file = self.begin_image(entry.id, sequence)?;
                    image.write_seeking(&mut file).map_err(failed)?;
                    pack.beside(file)?
                }
            }
            Body::Shared(filter) => {
                // The one writer waits for the copy, everybody else goes on.
                drop(alone);
                let writer = (!broken(Fault::WriterLetGo)).then_some(writer);
                point();
                let copy = filter.copy().map_err(failed)?;
                drop(writer);
                self.put_image(entry.id, sequence, &copy, pack)?
            }
            Body::Guarded(filter) => {
                drop(alone);
                let copy = filter.read().unwrap_or_else(PoisonError::into_inner).clone();
                drop(writer);
                self.put_image(entry.id, sequence, &copy, pack)?
            }
            // It cannot be read; what lies there stays for whoever repairs it, with all that was logged since. One without
            // an image is in the log alone: a manifest without it would make its name answer "no".
            Body::Unavailable { .. } => return Err(unavailable(entry)),
        };
        Ok(Some(listed))
    }

    fn begin_image(&self, id: u64, sequence: u64) -> Result<ImageFile, String> {
        ImageFile::create(&self.folder, id, sequence).map_err(|error| format!("an image could not be begun: {error}"))
    }

    fn put_image(
        &self,
        id: u64,
        sequence: u64,
        filter: &bloomgate::AnyFilter,
        pack: &mut Pack<'_>,
    ) -> Result<Place, String> {
        if filter.size_in_bytes() <= SMALL {
            return pack.add(&filter.to_bytes().map_err(|error| error.to_string())?);
        }
        let mut file = self.begin_image(id, sequence)?;
        filter.write_to(&mut file).map_err(|error| error.to_string())?;
        pack.beside(file)
    }

    /// The manifest is durable: what it does not need goes. `known` are the filters in it, in the order of their ids.
    fn tidy(&self, images: Images, known: &[u64], gone: &HashSet<Arc<str>>, replay_after: u64) -> Result<(), String> {
        let mut keep: HashSet<String> = images.files().into_iter().collect();
        *lock(&self.images) = images;
        self.dropped.store(replay_after, Ordering::Release);
        self.trim_log()?;
        // Held until the files are gone: who writes an image says so here before it has its name.
        let mut fresh = lock(&self.fresh);
        // An image that was written for a filter which is in the manifest by now has done its work.
        fresh.retain(|file| !gone.contains(file) && id_of(file).is_none_or(|id| known.binary_search(&id).is_err()));
        keep.extend(fresh.iter().map(|file| file.to_string()));
        remove_unreferenced(&self.folder, &keep).map_err(|error| error.to_string())?;
        Ok(())
    }
}

fn unavailable(entry: &Entry) -> String {
    format!(
        "filter '{}' is unavailable, so no snapshot is made: its image and the log are kept as they are. Repair or delete it",
        entry.name().escape_ascii()
    )
}

fn whole(file: ImageFile) -> Result<Place, String> {
    let file = file.finish().map_err(|error| format!("an image could not be completed: {error}"))?;
    Ok(Place { form: Form::Whole, file: file.into(), offset: 0, length: 0 })
}

/// The id in an image's file name.
fn id_of(file: &str) -> Option<u64> {
    file.strip_prefix("image-")?.split('-').next()?.parse().ok()
}

/// Many small images in one file, and what was written into it and beside it.
struct Pack<'a> {
    keeping: &'a Keeping,
    sequence: u64,
    name: Arc<str>,
    file: Option<ImageFile>,
    at: u64,
    /// Those of the filter that is being added.
    words: Vec<u8>,
    /// Bytes of all files that are complete.
    written: u64,
}

impl<'a> Pack<'a> {
    fn new(keeping: &'a Keeping, sequence: u64) -> Result<Self, String> {
        let name = image_name(0, sequence).into();
        Ok(Self { keeping, sequence, name, file: None, at: 0, words: Vec::new(), written: 0 })
    }

    fn add(&mut self, image: &[u8]) -> Result<Place, String> {
        self.put(Form::Image, image)
    }

    fn add_words(&mut self) -> Result<Place, String> {
        let words = std::mem::take(&mut self.words);
        let place = self.put(Form::Words, &words);
        self.words = words;
        place
    }

    fn put(&mut self, form: Form, bytes: &[u8]) -> Result<Place, String> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(self.keeping.begin_image(0, self.sequence)?),
        };
        file.write_all(bytes).map_err(|error| format!("an image could not be written: {error}"))?;
        let place = Place { form, file: self.name.clone(), offset: self.at, length: bytes.len() as u64 };
        self.at += bytes.len() as u64;
        Ok(place)
    }

    /// Completes an image that has a file to itself.
    fn beside(&mut self, file: ImageFile) -> Result<Place, String> {
        self.written += file.bytes();
        whole(file)
    }

    /// Completes the pack; bytes of all files that were written.
    fn finish(mut self) -> Result<u64, String> {
        if let Some(file) = self.file.take() {
            self.beside(file)?;
        }
        Ok(self.written)
    }
}
