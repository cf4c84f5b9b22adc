//! A filter that comes through a stream, in two steps: what it is, and then its bits.
//!
//! Whoever has a budget, or several secrets of which one is right, decides in between: the head alone was read, and nothing was
//! allocated for the bits.

use std::io::Read;

use super::load::{OpenOptions, agree, load};
use super::read::{Limits, SectionReader};
use super::shapes::Plan;
use crate::any::AnyFilter;
use crate::bits::Owned;
use crate::error::Result;
use crate::kind::Kind;

/// A filter of which the head has come, and the bits have not.
///
/// ```
/// use bloomgate::format::{Coming, Limits, OpenOptions};
/// use bloomgate::{Blocked, Secret};
///
/// let (ours, another) = (Secret::from_bytes([7; 32]), Secret::from_bytes([8; 32]));
/// let mut seen = Blocked::builder().secret(&ours).items(1_000).build()?;
/// seen.insert("https://example.org/")?;
/// let stream = seen.to_bytes()?;
///
/// let coming = Coming::begin(&stream[..], Limits::payload(1 << 20))?;
/// assert_eq!((coming.size_in_bytes(), coming.file_len()), (seen.size_in_bytes(), stream.len() as u64));
/// let secret = [&another, &ours].into_iter().find(|secret| coming.agrees(&OpenOptions::new().secret(secret)).is_ok());
/// let (filter, rest) = coming.finish(&OpenOptions::new().secret(secret.unwrap()))?;
/// assert!(filter.contains("https://example.org/")? && rest.is_empty());
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Debug)]
pub struct Coming<R> {
    file: SectionReader<R>,
    plan: Plan,
}

impl<R: Read> Coming<R> {
    /// Reads the head of a stream, and checks it as far as that can be done without a secret.
    pub fn begin(reader: R, limits: Limits) -> Result<Self> {
        let file = SectionReader::new(reader, limits)?;
        let plan = Plan::read(file.head())?;
        Ok(Self { file, plan })
    }

    /// The kind of the filter.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.plan.kind()
    }

    /// The memory that its bits will take.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.plan.pieces.iter().map(|piece| piece.cells.words() * 8).sum()
    }

    /// The length of its file, from the first byte of the head to the last of the bits.
    #[must_use]
    pub fn file_len(&self) -> u64 {
        self.file.head().frame().total_len()
    }

    /// Whether it can be opened with these options: their secret is that of the file, their contract as well. Reads nothing.
    pub fn agrees(&self, options: &OpenOptions<'_>) -> Result<()> {
        agree::<AnyFilter, Owned>(self.file.head(), options).map(drop)
    }

    /// Reads the bits, each chunk verified before it is taken; the filter, and the reader just after the last byte. The limits
    /// are those that it began with.
    pub fn finish(self, options: &OpenOptions<'_>) -> Result<(AnyFilter, R)> {
        load(self.file, options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bloom::Blocked;
    use crate::error::ErrorKind;
    use crate::format::{Compression, SaveOptions};
    use crate::hash::Secret;

    #[test]
    fn it_says_what_it_is_and_leaves_what_is_behind_it() {
        let mut filter = Blocked::builder().bytes(1 << 20).build().unwrap();
        filter.insert("alice").unwrap();
        for compress in [Compression::Never, Compression::WhereItPays] {
            let file = filter.to_bytes_with(&SaveOptions::new().compress(compress)).unwrap();
            let stream = [&file[..], b"rest"].concat();
            let coming = Coming::begin(&stream[..], Limits::payload(1 << 20)).unwrap();
            assert_eq!((coming.kind(), coming.size_in_bytes()), (Kind::Blocked, filter.size_in_bytes()));
            assert_eq!(coming.file_len(), file.len() as u64);
            coming.agrees(&OpenOptions::new()).unwrap();
            let (came, rest) = coming.finish(&OpenOptions::new()).unwrap();
            assert!(came.contains("alice").unwrap() && rest == b"rest");
            // What is larger than allowed is refused by its head, however short the file is.
            let refused = Coming::begin(&stream[..], Limits::payload((1 << 20) - 1)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
        }
    }

    #[test]
    fn its_secret_can_be_looked_for() {
        let [ours, another] = [7, 8].map(|byte| Secret::from_bytes([byte; 32]));
        let file = Blocked::builder().secret(&ours).items(100).build().unwrap().to_bytes().unwrap();
        let coming = Coming::begin(&file[..], Limits::default()).unwrap();
        for wrong in [OpenOptions::new(), OpenOptions::new().secret(&another)] {
            assert_eq!(coming.agrees(&wrong).unwrap_err().kind(), ErrorKind::Secret);
        }
        coming.agrees(&OpenOptions::new().secret(&ours)).unwrap();
        assert_eq!(coming.finish(&OpenOptions::new()).unwrap_err().kind(), ErrorKind::Secret);
    }
}
