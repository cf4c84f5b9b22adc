//! The file that a snapshot writes many small images into, one behind the other, and what it has written beside it.

use std::io::Write;
use std::sync::Arc;

use super::damaged::Damaged;
use super::manifest::{Form, Listed, Place};
use super::words;
use crate::engine::small::Small;
use crate::store::{Folder, ImageFile, read_full};

/// Images up to this size go into one file together.
pub(super) const SMALL: u64 = 64 << 10;

/// Bytes that are taken over at once.
const PIECE: u64 = 256 << 10;

/// Many small images in one file, and what was written into it and beside it.
pub(super) struct Pack {
    folder: Arc<Folder>,
    sequence: u64,
    /// The file and its name, once there is something in it.
    file: Option<(ImageFile, Arc<str>)>,
    at: u64,
    copied: Copied,
    /// Filters whose place is known, to be listed.
    pub listed: Vec<Listed>,
    /// Filters that cannot answer, as they lie here.
    pub damaged: Vec<(u64, Damaged)>,
    /// Bytes of all files that are complete.
    written: u64,
}

/// Copies of small filters that are not written yet.
#[derive(Default)]
struct Copied {
    words: Vec<u8>,
    /// Each filter, and where its words end.
    ends: Vec<(Listed, usize)>,
}

impl Pack {
    /// That of a snapshot after which the log is read from this sequence on.
    pub fn new(folder: &Arc<Folder>, sequence: u64) -> Self {
        let (copied, listed, damaged) = Default::default();
        Self { folder: folder.clone(), sequence, file: None, at: 0, copied, listed, damaged, written: 0 }
    }

    /// Appends the file of a filter.
    pub fn add(&mut self, image: &[u8]) -> Result<Place, String> {
        self.put(Form::Image, image)
    }

    /// Copies a small filter that nobody writes to.
    pub fn copy(&mut self, listed: Listed, small: &Small<'_>) {
        words::put(listed.id, small, &mut self.copied.words);
        self.copied.ends.push((listed, self.copied.words.len()));
    }

    /// Writes what was copied; as of another sequence than each said, if one is given.
    pub fn write_copied(&mut self, late: Option<u64>) -> Result<(), String> {
        let mut copied = std::mem::take(&mut self.copied);
        let mut start = 0;
        for (mut one, end) in copied.ends.drain(..) {
            one.place = self.put(Form::Words, &copied.words[start..end])?;
            one.sequence = late.unwrap_or(one.sequence);
            self.listed.push(one);
            start = end;
        }
        copied.words.clear();
        self.copied = copied;
        Ok(())
    }

    fn put(&mut self, form: Form, bytes: &[u8]) -> Result<Place, String> {
        let (file, name) = match &mut self.file {
            Some(begun) => begun,
            None => {
                let file = ImageFile::create(&self.folder, 0, self.sequence)
                    .map_err(|error| format!("an image could not be begun: {error}"))?;
                let name = Arc::from(file.name());
                self.file.insert((file, name))
            }
        };
        file.write_all(bytes).map_err(|error| format!("an image could not be written: {error}"))?;
        let place = Place { form, file: name.clone(), offset: self.at, length: bytes.len() as u64 };
        self.at += bytes.len() as u64;
        Ok(place)
    }

    /// Takes over what is kept of a filter that cannot answer, as it lies there. What has a file to itself stays in it.
    pub fn carry_over(&mut self, damaged: &Damaged) -> Result<(Place, Option<Place>), String> {
        let Damaged { place, owed, found, .. } = damaged;
        let place = match place.form {
            Form::Whole => place.clone(),
            form => self.take_over(form, place, &[])?,
        };
        let owed = match owed {
            Some(there) => Some(self.take_over(Form::Image, there, found)?),
            None if found.is_empty() => None,
            None => Some(self.put(Form::Image, found)?),
        };
        Ok((place, owed))
    }

    /// Copies what lies at a place of another pack, as much as there is of it, and appends some more.
    fn take_over(&mut self, form: Form, from: &Place, more: &[u8]) -> Result<Place, String> {
        let path = self.folder.at(&from.file);
        let failed = |error: std::io::Error| format!("{} could not be read: {error}", path.display());
        let file = self.folder.disk().open(&path).map_err(failed)?;
        let mut piece = vec![0; PIECE.min(from.length) as usize];
        let mut place = self.put(form, &[])?;
        while place.length < from.length {
            let wanted = PIECE.min(from.length - place.length) as usize;
            let read =
                read_full(&*file, &mut piece[..wanted], from.offset.saturating_add(place.length)).map_err(failed)?;
            place.length += self.put(form, &piece[..read])?.length;
            if read < wanted {
                break;
            }
        }
        place.length += self.put(form, more)?.length;
        Ok(place)
    }

    /// Completes an image that has a file to itself.
    pub fn beside(&mut self, file: ImageFile) -> Result<Place, String> {
        self.written += file.bytes();
        let file = file.finish().map_err(|error| format!("an image could not be completed: {error}"))?;
        Ok(Place { form: Form::Whole, file: file.into(), offset: 0, length: 0 })
    }

    /// Completes the pack; bytes of all files that were written.
    pub fn finish(mut self) -> Result<u64, String> {
        if let Some((file, _)) = self.file.take() {
            self.beside(file)?;
        }
        Ok(self.written)
    }
}
