//! Writing a long file in pieces, with a way back: what stands at its beginning is known at its end.

use std::io::{self, Seek, SeekFrom, Write};

use super::disk::{DiskFile, PAGE, write_all};

/// Bytes per write. A reactor that wants this core while the kernel takes them waits so long: a megabyte took 3.5 ms through the
/// page cache, these take about 30 us past it.
const PIECE: usize = 256 << 10;

/// What is collected for one write: memory that starts on a page.
struct Piece {
    memory: Box<[u8]>,
    from: usize,
    length: usize,
}

impl Piece {
    fn new() -> Self {
        let memory = vec![0; PIECE + PAGE].into_boxed_slice();
        // A box does not move its bytes.
        let from = memory.as_ptr().align_offset(PAGE).min(PAGE);
        Self { memory, from, length: 0 }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.length]
    }

    /// Takes what fits; the rest comes back.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.length));
        let at = self.from + self.length;
        self.memory[at..at + now.len()].copy_from_slice(now);
        self.length += now.len();
        later
    }
}

/// A file that is being written.
pub(super) struct Pieces {
    file: Box<dyn DiskFile>,
    piece: Piece,
    /// Where it goes.
    offset: u64,
    /// The furthest place that was written to.
    end: u64,
}

impl Pieces {
    pub(super) fn new(file: Box<dyn DiskFile>) -> Self {
        Self { file, piece: Piece::new(), offset: 0, end: 0 }
    }

    /// How long it is so far.
    pub(super) fn bytes(&self) -> u64 {
        self.end.max(self.offset + self.piece.length as u64)
    }

    fn empty_piece(&mut self) -> io::Result<()> {
        write_all(&*self.file, self.piece.bytes(), self.offset)?;
        self.offset += self.piece.length as u64;
        self.end = self.end.max(self.offset);
        self.piece.length = 0;
        Ok(())
    }

    /// The file with all that was written.
    pub(super) fn finish(mut self) -> io::Result<Box<dyn DiskFile>> {
        self.empty_piece()?;
        Ok(self.file)
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            bytes = self.piece.take(bytes);
            if self.piece.length == PIECE {
                self.empty_piece()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.empty_piece()
    }
}

/// Back to an earlier place: the sums of a file stand before what they check and are known after it.
impl Seek for Pieces {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.offset = match to {
            // Where it is: nothing is written, so that whole pages stay whole.
            SeekFrom::Current(0) => return Ok(self.offset + self.piece.length as u64),
            SeekFrom::Start(offset) => {
                self.empty_piece()?;
                offset
            }
            _ => return Err(io::Error::new(io::ErrorKind::Unsupported, "a file is sought from its start")),
        };
        Ok(self.offset)
    }
}
