//! Images: the file of a filter that others go on writing to, with the counts of one moment.
//!
//! What belongs to the moment (which stages there are, how many keys each counts) is captured at once and costs
//! microseconds; the bits are read as they are when their turn comes. Bits are only ever set, so the file holds every key
//! of before the capture and some of after it. Whoever has a log of what came after inserts it again
//! ([`AnyFilter::replay`]) and has the filter as it was, counts included.
//!
//! ```text
//!  capture ──── writers go on ──── write ──── loaded ──── replay of what came after the capture
//!  counts        more bits         bits       counts of then, bits of then and later ones
//! ```

use std::io::{Seek, Write};

use super::agreement::{contract_body, sentinels_body};
use super::filed::Filed;
use super::save::Words;
use super::sections::{Codec, SectionType};
use super::shapes::Plan;
use super::write::{FrameWriter, PayloadSource};
use crate::any::AnyFilter;
use crate::arch::words::ReadWords;
use crate::bits::Shared;
use crate::bits::sealed::Sealed as _;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::Contract;
use crate::kind::Kind;

/// A filter as it was at one moment, to be written while others insert: its stages and counts of then, and its bits as
/// they are when they are written. See [`AnyFilter::image`].
pub struct Image<'a> {
    contract: &'a Contract,
    plan: Plan,
    stores: Vec<&'a Shared>,
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({} of {} keys, {} bytes)", self.plan.kind(), self.len(), self.size_in_bytes())
    }
}

impl AnyFilter<Shared> {
    /// The filter as it is now, to be written later while others go on inserting: for the kinds that only set bits
    /// (classic, blocked, partitioned, scalable). The others are [copied](Self::copy) instead, and refused here.
    ///
    /// Stages that are opened after this are not in the image. Whoever needs the counts to be those of one moment holds
    /// writers off while this runs, which is not long: nothing is copied.
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Insertion, Scalable};
    ///
    /// let seen: AnyFilter = Scalable::builder().items(1_000).build()?.into();
    /// let seen = seen.into_shared()?;
    /// let digest = |key: &str| seen.contract().digest(key);
    /// seen.insert_each(&[digest("before")?], &mut [Insertion::Full])?;
    /// let image = seen.image()?;
    /// seen.insert_each(&[digest("after")?], &mut [Insertion::Full])?;
    /// let mut file = std::io::Cursor::new(Vec::new());
    /// image.write_seeking(&mut file)?;
    ///
    /// let loaded = AnyFilter::from_bytes(file.get_ref())?.into_shared()?;
    /// assert!(loaded.contains("before")? && loaded.len() == 1);
    /// loaded.replay(&[digest("after")?])?;                  // from a log
    /// assert!(loaded.contains("after")? && loaded.len() == 2);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    pub fn image(&self) -> Result<Image<'_>> {
        if !matches!(self.kind(), Kind::Classic | Kind::Blocked | Kind::Partitioned | Kind::Scalable) {
            let message = format!(
                "the cells of a {} filter do not only fill up, so that it has no image while it is written to: copy it \
                 while writers wait, and save the copy",
                self.kind()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (chain, pieces) = self.pieces();
        let (pieces, stores) = pieces.into_iter().unzip();
        Ok(Image { contract: self.contract(), plan: Plan { chain, pieces }, stores })
    }

    /// Writes the file of a filter of any kind while nothing in it changes: 64 KiB at a time, without a copy of the bits, for
    /// which there may be no memory. Whoever writes to the filter waits until the file is written; lookups go on. Does not flush.
    ///
    /// Of the kinds that have an [image](Self::image) others may insert meanwhile: the counts are those of the beginning, and of
    /// the keys that are inserted while it is written, some are in it.
    pub fn write_at_rest(&self, out: &mut (impl Write + Seek)) -> Result<()> {
        self.at_rest(|(chain, pieces)| {
            let (pieces, stores) = pieces.into_iter().unzip();
            Image { contract: self.contract(), plan: Plan { chain, pieces }, stores }.write_seeking(out)
        })?
    }
}

/// Words that others set while they are read: each chunk is read once.
struct Moving<'a>(&'a Shared);

impl PayloadSource for Moving<'_> {
    fn byte_len(&self) -> u64 {
        self.0.words().count() as u64 * 8
    }

    fn fill(&self, offset: u64, out: &mut [u8]) {
        let words = self.0.words();
        let first = (offset / 8) as usize;
        for (at, bytes) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *bytes = words.load(first + at).to_le_bytes();
        }
    }
}

impl Image<'_> {
    /// Keys that were counted when the image was taken.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.plan.pieces.iter().map(|piece| piece.len).sum()
    }

    /// Whether nothing was counted then.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the bits, in bytes: the file is a little longer (4 bytes for every 64 KiB, and a kilobyte).
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.plan.pieces.iter().map(|piece| piece.cells.words() * 8).sum()
    }

    /// The sections of the file that are there already.
    fn sections(&self) -> Result<FrameWriter<'_>> {
        let mut file = FrameWriter::new();
        file.section(SectionType::CONTRACT, 0, contract_body(self.contract)?);
        file.section(SectionType::SENTINELS, 0, sentinels_body(self.contract)?);
        self.plan.write(&mut file)?;
        Ok(file)
    }

    /// Writes the file, 64 KiB at a time and without a copy of the bits. Does not flush. The sums stand before what they
    /// check and are known after it: the beginning of the file is written last, and until then it is zeros, which no
    /// reader takes for a filter.
    pub fn write_seeking(&self, out: &mut (impl Write + Seek)) -> Result<()> {
        let moving: Vec<Moving<'_>> = self.stores.iter().map(|store| Moving(store)).collect();
        let mut file = self.sections()?;
        for ((part, _), words) in self.plan.parts().zip(&moving) {
            file.payload(part, words, Codec::Raw);
        }
        file.write_moving(out)
    }

    /// Writes the file to a stream that cannot be gone back in. Does not flush. **The bits are copied first**, all of
    /// them; [`write_seeking`](Self::write_seeking) does without.
    pub fn write_to(&self, out: &mut impl Write) -> Result<()> {
        let words = self.stores.iter().map(|store| Words::of(*store)).collect::<Result<Vec<_>>>()?;
        let mut file = self.sections()?;
        for ((part, _), words) in self.plan.parts().zip(&words) {
            file.payload(part, words, Codec::Raw);
        }
        file.write_to(out).map(drop)
    }
}
