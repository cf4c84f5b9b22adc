//! Snapshots: every filter as of a sequence of its own, so that nobody has to wait for all of them at once.
//!
//! 1. The log begins a new segment; what is before it need not be read again once the snapshot is complete.
//! 2. Filter by filter: with nobody writing, for microseconds, the sequence and the counts are taken. Bits that are only
//!    ever set are then written out while others go on setting them: replaying the log from that sequence on sets them
//!    again, which changes nothing. Other kinds are copied while their one writer waits, and where there is no memory for a
//!    copy, he waits until they are written. Small filters are copied many at a
//!    time: stopped a million times, writers and snapshot would wait for each other more than they work.
//! 3. The manifest is written, then the segments and images that nothing needs any more go.
//!
//! A filter that did not change since its last image keeps that one.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::damaged::Damaged;
use super::manifest::{Form, Images, Listed, Listing, Place, VERSION};
use super::pack::{Pack, SMALL};
use super::{Keeping, lock};
use crate::engine::budget::Held;
use crate::engine::entry::{Body, Entry, Writer};
use crate::engine::fields::Put;
use crate::store::{ImageFile, ManifestError, PreparedManifest, remove_unreferenced};
use crate::sync::atomic::Ordering;
use crate::sync::{Fault, broken, point};

/// Filters that are looked up at once by their ids.
const STRIDE: usize = 1_024;
/// Small filters that are copied while nobody writes: 15 us for so many.
const TOGETHER: usize = 64;

impl Keeping {
    /// Makes a snapshot; one at a time.
    pub fn snapshot(&self) -> Result<(), String> {
        let _one_at_a_time = lock(&self.at_work);
        self.snapshot_now()
    }

    /// Makes a snapshot, by whoever sees to it that there is one at a time.
    pub(super) fn snapshot_now(&self) -> Result<(), String> {
        self.try_snapshot().inspect_err(|_| self.clear_away())
    }

    /// Removes what a snapshot that failed has written: on a full disk it would keep the writers waiting. But for what a manifest
    /// names that may or may not be the one that a start would find: the next success decides that.
    fn clear_away(&self) {
        let mut keep: HashSet<String> = lock(&self.images).files().into_iter().collect();
        // Held until the files are gone, as in `tidy`.
        let fresh = lock(&self.fresh);
        keep.extend(fresh.iter().map(|file| file.to_string()));
        keep.extend(lock(&self.in_doubt).iter().cloned());
        // What cannot be removed goes with the next snapshot.
        let _ = remove_unreferenced(&self.folder, &keep);
    }

    fn try_snapshot(&self) -> Result<(), String> {
        let began = Instant::now();
        let (replay_after, gone) = {
            let _alone = self.engine.stop();
            (self.engine.journal.rotate()?, self.gone())
        };
        let mut images = Images::default();
        let mut pack = Pack::new(&self.folder, replay_after);
        let mut listing = Listing::new(&self.folder);
        let mut next = 0;
        loop {
            let mut rest = self.engine.names.from_id(next, STRIDE);
            let Some(last) = rest.last() else { break };
            next = last.id + 1;
            while let Some(first) = rest.first() {
                let copied = self.small_images(&rest, &mut listing, &mut pack)?;
                if copied == 0 {
                    let one = self.image(first, &mut listing, &mut pack)?;
                    pack.listed.extend(one);
                }
                // Let go of at once: one that is deleted meanwhile is charged as long as anybody holds it.
                rest.drain(..copied.max(1));
                for one in pack.listed.drain(..) {
                    images.note(&one);
                    listing.put(&one)?;
                }
                for (id, damaged) in pack.damaged.drain(..) {
                    images.keep(id, damaged);
                }
            }
        }
        let images_bytes = pack.finish()?;
        // After a power cut the log must reach at least as far as the images: it would give their sequences out again,
        // and the next start would take new writes for ones that the images hold.
        self.engine.journal.sync_through(self.engine.journal.appended())?;
        // Names reach the disk in any order until their folder is synced: a manifest whose name is there and those of its images
        // are not would stop the next start.
        self.folder.sync().map_err(|error| error.to_string())?;
        let mut sections = Vec::new();
        sections.put_u64(self.engine.clock.now_ms());
        sections.put_u64(self.engine.next_id());
        sections.put_bytes(self.engine.contracts.master_id().unwrap_or_default().as_bytes());
        self.engine.contracts.put(&mut sections);
        let body = listing.finish(sections)?;
        let told = |error: ManifestError| error.to_string();
        let written = PreparedManifest::write(&self.folder, VERSION, replay_after, body.length(), &mut body.reader());
        let manifest = written.map_err(told)?;
        let manifest_bytes = manifest.bytes();
        // From here on a start may find the one or the other, until it is certain.
        lock(&self.in_doubt).extend(images.files());
        manifest.put().map_err(told)?;
        self.snapshot_bytes.store(images_bytes + manifest_bytes, Ordering::Relaxed);
        self.tidy(images, &body.ids, &gone, replay_after)?;
        self.snapshot_micros.store(began.elapsed().as_micros() as u64, Ordering::Relaxed);
        Ok(())
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
    fn image(&self, entry: &Entry, listing: &mut Listing<'_>, pack: &mut Pack) -> Result<Option<Listed>, String> {
        // That changes with the next start at the earliest.
        if !entry.is_available() {
            return self.carry_over(entry, listing, pack);
        }
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
        let mut listed = listed(entry, making, sequence, writer.as_deref());
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
                pack.copy(listed, &small);
                drop(alone);
                self.write_copied(pack)?;
                return Ok(None);
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
                drop(alone);
                let writer = (!broken(Fault::WriterLetGo)).then_some(writer);
                point();
                if let Some(_held) = self.memory_for_a_copy(filter.size_in_bytes()) {
                    // The one writer waits for the copy, everybody else goes on.
                    let copy = filter.copy().map_err(failed)?;
                    drop(writer);
                    self.put_image(entry.id, sequence, &copy, pack)?
                } else {
                    let mut file = self.begin_image(entry.id, sequence)?;
                    filter.write_at_rest(&mut file).map_err(failed)?;
                    drop(writer);
                    pack.beside(file)?
                }
            }
            Body::Guarded(filter) => {
                drop(alone);
                let filter = filter.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(_held) = self.memory_for_a_copy(filter.size_in_bytes()) {
                    let copy = filter.clone();
                    drop((filter, writer));
                    self.put_image(entry.id, sequence, &copy, pack)?
                } else {
                    let mut file = self.begin_image(entry.id, sequence)?;
                    filter.write_to(&mut file).map_err(failed)?;
                    drop((filter, writer));
                    pack.beside(file)?
                }
            }
            Body::Unavailable { .. } => return Err(unavailable(entry)),
        };
        Ok(Some(listed))
    }

    /// Takes over what is kept of a filter that cannot answer; nothing if it has gone meanwhile. One of which nothing is kept is in
    /// the log alone, and stays there: a manifest without it would make its name answer "no".
    fn carry_over(&self, entry: &Entry, listing: &mut Listing<'_>, pack: &mut Pack) -> Result<Option<Listed>, String> {
        let kept = lock(&self.images).damaged(entry.id).cloned();
        let making = kept.as_ref().map(|damaged| listing.made(&damaged.made));
        let retries = entry.retries();
        let mut listed = {
            let _alone = self.engine.stop();
            if self.engine.names.by_id(entry.id).is_none() {
                return Ok(None);
            }
            listed(entry, making.unwrap_or_default(), self.engine.journal.appended(), None)
        };
        // Nobody writes to it, so what is owed up to that sequence is what the last start has found.
        let Some(damaged) = kept else { return Err(unavailable(entry)) };
        let (place, owed) = pack.carry_over(&damaged)?;
        let base = if owed.is_some() { damaged.base } else { listed.sequence };
        (listed.place, listed.retries) = (place.clone(), retries);
        listed.owed = owed.clone().map(|owed| (base, owed));
        pack.damaged.push((entry.id, Damaged { made: damaged.made, base, place, owed, found: Vec::new() }));
        Ok(Some(listed))
    }

    /// Memory for a copy of so many bytes, charged before it is taken; nothing if there is none. What goes into the pack is
    /// copied anyway: it is small, and a file of its own would be more than it needs.
    fn memory_for_a_copy(&self, bytes: u64) -> Option<Held<'_>> {
        let budget = &self.engine.budget;
        if bytes <= SMALL { Some(budget.holding(0)) } else { budget.hold(bytes).ok() }
    }

    /// The images of the small filters that these begin with, at most [`TOGETHER`]: says how many that are. None if the first
    /// is not small, or somebody has it to himself.
    fn small_images(&self, entries: &[Entry], listing: &mut Listing<'_>, pack: &mut Pack) -> Result<usize, String> {
        let small = entries.iter().take(TOGETHER).take_while(|entry| matches!(entry.body(), Body::Small(_))).count();
        if small == 0 {
            return Ok(0);
        }
        let entries = &entries[..small];
        // Before anybody has to wait, as in `image`.
        let makings: Result<Vec<u32>, String> = entries.iter().map(|entry| listing.making(&entry.making)).collect();
        let engine = &self.engine;
        let mut passed = 0;
        let alone = engine.stop();
        for (entry, making) in entries.iter().zip(makings?) {
            if engine.names.by_id(entry.id).is_some() {
                // One may have grown since.
                let (Some(writer), Body::Small(small)) = (entry.try_write_if_any(), entry.body()) else { break };
                pack.copy(listed(entry, making, engine.journal.appended(), writer.as_deref()), &small);
            }
            passed += 1;
        }
        drop(alone);
        self.write_copied(pack)?;
        Ok(passed)
    }

    /// Writes what was copied out of small filters, while others write into them.
    fn write_copied(&self, pack: &mut Pack) -> Result<(), String> {
        point();
        let late = broken(Fault::SequenceLate).then(|| self.engine.journal.appended());
        pack.write_copied(late)
    }

    fn begin_image(&self, id: u64, sequence: u64) -> Result<ImageFile, String> {
        ImageFile::create(&self.folder, id, sequence).map_err(|error| format!("an image could not be begun: {error}"))
    }

    fn put_image(
        &self,
        id: u64,
        sequence: u64,
        filter: &bloomgate::AnyFilter,
        pack: &mut Pack,
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
        lock(&self.in_doubt).clear();
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

/// What a manifest says of a filter as of now, but for the place of its bits.
fn listed(entry: &Entry, making: u32, sequence: u64, writer: Option<&Writer>) -> Listed {
    Listed {
        id: entry.id,
        name: entry.name().to_vec(),
        created_ms: entry.created_ms,
        expires_ms: entry.expires_ms(),
        making,
        deleted: entry.deleted(),
        kind: entry.kind(),
        sequence,
        place: Place { form: Form::Whole, file: Arc::from(""), offset: 0, length: 0 },
        owed: None,
        retries: writer.map(|writer| writer.retries.clone()).unwrap_or_default(),
    }
}

fn unavailable(entry: &Entry) -> String {
    format!(
        "filter '{}' is unavailable, so no snapshot is made: what is in it can be told from the log alone, which is kept. Repair or \
         delete it",
        entry.name().escape_ascii()
    )
}

/// The id in an image's file name.
fn id_of(file: &str) -> Option<u64> {
    file.strip_prefix("image-")?.split('-').next()?.parse().ok()
}
