//! The doors: save, open, read and map, on every kind of filter and on [`AnyFilter`].

use std::io::{Read, Write};
use std::path::Path;

use super::address::Address;
use super::atomic_file::write_atomically;
#[cfg(not(loom))]
use super::in_place::{self, Unfinished};
use super::load::{self, OpenOptions};
use super::save::{self, SaveOptions};
use crate::any::AnyFilter;
#[cfg(not(loom))]
use crate::bits::MappedMut;
use crate::bits::sealed::Sealed as _;
use crate::bits::{Damage, Mapped, Owned, Store};
#[cfg(not(loom))]
use crate::bloom::Builder;
use crate::bloom::{Bloom, Counting, Layout, Rotating, Scalable, Stable};
use crate::cuckoo::{Cuckoo, GrowingCuckoo};
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::Foreign;
use crate::fuse::Fuse;
use crate::hash::Secret;
use crate::quotient::Quotient;
use crate::ribbon::Ribbon;

use super::filed::Filed;
use super::shapes::AForm;

macro_rules! savers {
    () => {
        /// Saves the filter, and gives the address of the file: the same filter is the same bytes and the same address,
        /// in every place.
        ///
        /// Written beside, synced and renamed: whatever goes wrong, the file that was there stays as it was. A filter
        /// that other threads insert into meanwhile is copied first: every key inserted before the call is in the
        /// file, and of those inserted during it, some.
        #[doc(alias = "dump")]
        #[doc(alias = "serialize")]
        pub fn save(&self, path: impl AsRef<Path>) -> Result<Address> {
            self.save_with(path, &SaveOptions::default())
        }

        /// [`save`](Self::save) with options.
        pub fn save_with(&self, path: impl AsRef<Path>, options: &SaveOptions) -> Result<Address> {
            save::save(self, options, path.as_ref())
        }

        /// Writes the file to a stream. Does not flush.
        pub fn write_to(&self, out: &mut impl Write) -> Result<Address> {
            self.write_to_with(out, &SaveOptions::default())
        }

        /// [`write_to`](Self::write_to) with options.
        pub fn write_to_with(&self, out: &mut impl Write, options: &SaveOptions) -> Result<Address> {
            save::write(self, options, out)
        }

        /// The bytes of the file.
        pub fn to_bytes(&self) -> Result<Vec<u8>> {
            self.to_bytes_with(&SaveOptions::default())
        }

        /// [`to_bytes`](Self::to_bytes) with options.
        pub fn to_bytes_with(&self, options: &SaveOptions) -> Result<Vec<u8>> {
            save::to_bytes(self, options)
        }
    };
}

macro_rules! loaders {
    ($open:path, $from_bytes:path) => {
        /// Loads a filter from its file, verified whole. A keyed filter needs [`open_keyed`](Self::open_keyed).
        #[doc(alias = "load")]
        #[doc(alias = "deserialize")]
        pub fn open(path: impl AsRef<Path>) -> Result<Self> {
            Self::open_with(path, &OpenOptions::new())
        }

        /// Loads a filter that is keyed by this secret.
        pub fn open_keyed(path: impl AsRef<Path>, secret: &Secret) -> Result<Self> {
            Self::open_with(path, &OpenOptions::new().secret(secret))
        }

        /// [`open`](Self::open) with a secret, limits or an expected contract.
        pub fn open_with(path: impl AsRef<Path>, options: &OpenOptions<'_>) -> Result<Self> {
            $open(path.as_ref(), options)
        }

        /// Loads a filter from the bytes of its file, which must be all of them and no more.
        pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
            Self::from_bytes_with(bytes, &OpenOptions::new())
        }

        /// [`from_bytes`](Self::from_bytes) for a filter that is keyed by this secret.
        pub fn from_bytes_keyed(bytes: &[u8], secret: &Secret) -> Result<Self> {
            Self::from_bytes_with(bytes, &OpenOptions::new().secret(secret))
        }

        /// [`from_bytes`](Self::from_bytes) with a secret, limits or an expected contract.
        pub fn from_bytes_with(bytes: &[u8], options: &OpenOptions<'_>) -> Result<Self> {
            $from_bytes(bytes, options)
        }

        /// Loads a filter from a stream and reads not one byte after its end: give `&mut reader` to go on from there.
        ///
        /// A stream has no length to check what it claims against: 1 GiB is taken at most unless the options say more.
        pub fn read_from(reader: impl Read, options: &OpenOptions<'_>) -> Result<Self> {
            load::read_from(reader, options)
        }
    };
}

macro_rules! mappers {
    () => {
        /// Maps a file to be queried in place: nothing is loaded, and each 64 KiB of bits is verified when it is first
        /// touched. What must not happen to the file meanwhile: [`Mapped`].
        ///
        /// A chunk that is damaged answers "maybe" to every key that touches it, and [`damage`](Self::damage) tells.
        #[doc(alias = "mmap")]
        pub fn map(path: impl AsRef<Path>) -> Result<Self> {
            Self::map_with(path, &OpenOptions::new())
        }

        /// Maps a filter that is keyed by this secret.
        pub fn map_keyed(path: impl AsRef<Path>, secret: &Secret) -> Result<Self> {
            Self::map_with(path, &OpenOptions::new().secret(secret))
        }

        /// [`map`](Self::map) with a secret, limits or an expected contract.
        pub fn map_with(path: impl AsRef<Path>, options: &OpenOptions<'_>) -> Result<Self> {
            load::map(path.as_ref(), options)
        }

        /// A copy of bytes, seen as a mapped file: what [`map`](Self::map) does, without a file.
        #[doc(hidden)]
        pub fn map_bytes(bytes: &[u8], options: &OpenOptions<'_>) -> Result<Self> {
            load::map_bytes(bytes, options)
        }

        /// The first damaged place among those that lookups have touched so far.
        #[must_use]
        pub fn damage(&self) -> Option<Damage> {
            self.pieces().1.iter().find_map(|(_, store)| store.damage())
        }

        /// Verifies everything now, and refuses a damaged file. `progress` is told the chunks done and how many there
        /// are: `|_, _| ()` if nobody looks.
        pub fn verify_all(&self, progress: impl FnMut(u64, u64)) -> Result<()> {
            verify_all(self, progress)
        }
    };
}

fn verify_all<F: Filed<Mapped>>(filter: &F, mut progress: impl FnMut(u64, u64)) -> Result<()> {
    let (chain, pieces) = filter.pieces();
    let total = pieces.iter().map(|(_, store)| store.chunks()).sum();
    let mut done = 0;
    for (_, store) in &pieces {
        store.verify_all(|| {
            done += 1;
            progress(done, total);
        });
    }
    if let Some(damage) = pieces.iter().find_map(|(_, store)| store.damage()) {
        return Err(Error::new(ErrorKind::Corrupt, format!("{damage}: fetch or build the file again")));
    }
    let first = u16::from(chain.is_some());
    (first..).zip(&pieces).try_for_each(|(part, (piece, store))| piece.cells.check_words(part, store.words()))
}

/// Saving.
impl<L: Layout, S: Store> Bloom<L, S> {
    savers!();
}

/// Loading.
impl<L: Layout> Bloom<L, Owned> {
    loaders!(load::open, load::from_bytes);
}

/// Querying in place.
impl<L: Layout> Bloom<L, Mapped> {
    mappers!();
}

/// Writing in place.
#[cfg(not(loom))]
impl<L: Layout> Bloom<L, MappedMut> {
    /// Maps a file to be asked **and written** in place: by many threads, and larger than memory. What that asks for:
    /// [`MappedMut`].
    ///
    /// Refuses a file that another writer has open, one that is marked as unfinished ([`ErrorKind::Dirty`]), and one
    /// that is compressed.
    pub fn map_mut(path: impl AsRef<Path>) -> Result<Self> {
        Self::map_mut_with(path, &OpenOptions::new())
    }

    /// Maps a filter that is keyed by this secret.
    pub fn map_mut_keyed(path: impl AsRef<Path>, secret: &Secret) -> Result<Self> {
        Self::map_mut_with(path, &OpenOptions::new().secret(secret))
    }

    /// [`map_mut`](Self::map_mut) with a secret, limits or an expected contract.
    pub fn map_mut_with(path: impl AsRef<Path>, options: &OpenOptions<'_>) -> Result<Self> {
        in_place::map_mut(path.as_ref(), options, Unfinished::Refuse)
    }

    /// Maps a file that is marked as unfinished, and takes its bits as they are. **Whoever calls this inserts again
    /// everything since the last [`sync`](Self::sync) that returned**, and then [closes](Self::close) it: the mark stays
    /// until then. A file that is not marked is [mapped](Self::map_mut_with) as always.
    ///
    /// - Every key of before the last sync is in, whatever happened: bits are only ever added.
    /// - The program ended and the system did not (a crash, a kill): every key whose insert had returned is in.
    /// - The system ended (a power cut): of the keys since the last sync, any may be missing. A filter that was not filled
    ///   again would say "no" to them, and that would be wrong.
    ///
    /// The checksums are out of date, so bits that a disk has flipped since then cannot be told from bits that were
    /// inserted. The count of keys is worked out from the bits, all of which are read.
    pub fn recover_mapped(path: impl AsRef<Path>) -> Result<Self> {
        Self::recover_mapped_with(path, &OpenOptions::new())
    }

    /// [`recover_mapped`](Self::recover_mapped) with a secret, limits or an expected contract.
    pub fn recover_mapped_with(path: impl AsRef<Path>, options: &OpenOptions<'_>) -> Result<Self> {
        in_place::map_mut(path.as_ref(), options, Unfinished::TakeAsItIs)
    }
}

/// Making a file that is written in place.
#[cfg(not(loom))]
impl<L: Layout> Builder<L> {
    /// Makes the file of an empty filter, which must not be there yet, and maps it to be asked and written in place.
    ///
    /// The file is sparse: it takes disk space as keys come, and no memory beyond the pages that are in use and 4 bytes
    /// per 64 KiB.
    pub fn create_mapped(self, path: impl AsRef<Path>) -> Result<Bloom<L, MappedMut>> {
        let (layout, promise, contract) = self.resolve_all()?;
        in_place::create(path.as_ref(), layout, promise, contract)
    }
}

macro_rules! doors {
    ($($filter:ident),*) => {$(
        /// Saving.
        impl<S: Store> $filter<S> {
            savers!();
        }

        /// Loading.
        impl $filter<Owned> {
            loaders!(load::open, load::from_bytes);
        }

        /// Querying in place.
        impl $filter<Mapped> {
            mappers!();
        }
    )*};
}
doors!(Counting, Scalable, Rotating, Stable, Cuckoo, GrowingCuckoo, Quotient, Fuse, Ribbon);

/// Saving in our own form, with checksums and a contract.
#[allow(private_bounds)]
impl<F: AForm, S: Store> Foreign<F, S> {
    savers!();
}

/// Loading from our own form.
#[allow(private_bounds)]
impl<F: AForm> Foreign<F, Owned> {
    loaders!(load::open, load::from_bytes);
}

/// Querying in place.
#[allow(private_bounds)]
impl<F: AForm> Foreign<F, Mapped> {
    mappers!();
}

/// Saving, in our own form; [`to_foreign`](AnyFilter::to_foreign) writes a foreign filter in its own.
impl<S: Store> AnyFilter<S> {
    savers!();

    /// Saves a filter of another system in its own form, for that system to read: written beside, synced and renamed.
    /// Gives the address of the file. Refused for our own kinds.
    pub fn save_foreign(&self, path: impl AsRef<Path>) -> Result<Address> {
        let bytes = self.to_foreign()?;
        write_atomically(path.as_ref(), |out| {
            out.write_all(&bytes).map_err(|e| Error::io(format!("writing {}", path.as_ref().display()), e))
        })?;
        Ok(Address::of(&bytes))
    }
}

/// Loading. `open` and `from_bytes` recognise `BFv1` and RedisBloom dump files too; Guava's and Parquet's forms carry no
/// mark and no encoding, and have to be named: [`from_foreign`](AnyFilter::from_foreign).
impl AnyFilter<Owned> {
    loaders!(load::open_any, load::any_from_bytes);
}

/// Querying in place.
impl AnyFilter<Mapped> {
    mappers!();
}
