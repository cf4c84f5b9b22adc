//! Files without a name: what somebody fetches lies in the folder for as long as it is held, and no longer than the process.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::disk::{DiskFile, read_full};
use super::folder::Folder;
use super::pieces::Pieces;

/// What has to be left free on the disk: the log needs it more than whoever fetches a file.
const LEFT_FREE: u64 = 256 << 20;

/// A file without a name that is being written.
pub struct Spool(Pieces);

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spool({} bytes)", self.0.bytes())
    }
}

impl Spool {
    /// Begins one that will have about so many bytes; an error if the disk would be nearly full then.
    pub fn create(folder: &Folder, bytes: u64) -> io::Result<Self> {
        let free = folder.disk().free(folder.path())?;
        if free < bytes.saturating_add(LEFT_FREE) {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "it takes {bytes} bytes of the disk, of which {free} are free, and {LEFT_FREE} are left for the log"
                ),
            ));
        }
        Self::beside_the_log(folder)
    }

    /// Begins one for what the server itself needs, however little room there is.
    pub fn beside_the_log(folder: &Folder) -> io::Result<Self> {
        // Of an end in between the name is left, and removed at the next start.
        let path = folder.temporary("image-0-0.bloom");
        let file = folder.disk().create(&path)?;
        folder.disk().remove(&path)?;
        Ok(Self(Pieces::new(file)))
    }

    /// The file, to be read.
    pub fn finish(self) -> io::Result<Spooled> {
        let length = self.0.bytes();
        Ok(Spooled { file: self.0.finish()?, length })
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Seek for Spool {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Reads a file without a name from its beginning.
pub struct SpoolReader<'s> {
    spooled: &'s Spooled,
    at: u64,
}

impl Read for SpoolReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = read_full(&*self.spooled.file, bytes, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// A file without a name, gone with its last holder.
pub struct Spooled {
    file: Box<dyn DiskFile>,
    length: u64,
}

impl fmt::Debug for Spooled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spooled({} bytes)", self.length)
    }
}

impl Spooled {
    /// How long it is.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// All of it, one piece after the other.
    #[must_use]
    pub fn reader(&self) -> SpoolReader<'_> {
        SpoolReader { spooled: self, at: 0 }
    }

    /// The bytes from an offset on, as many as asked for and there are.
    pub fn read(&self, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        let wanted = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX).min(most);
        let mut bytes = vec![0; wanted];
        match read_full(&*self.file, &mut bytes, offset)? {
            read if read == wanted => Ok(bytes),
            read => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!("{read} bytes at {offset} where {wanted} were written"),
            )),
        }
    }
}
