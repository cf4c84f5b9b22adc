//! The bytes of a source, decompressed where it is compressed, and how many of the source itself were read for them.
//!
//! What a source is shows in its first bytes. They are read with the first block and not before: standard input is
//! brought back to where it was between two passes, so opening must not move it.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;

use crate::number;

/// How sources are decompressed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Decompress {
    /// As the first bytes say
    #[default]
    Auto,
    /// Not at all
    None,
    /// As gzip
    Gzip,
    /// As zstd
    Zstd,
}

/// What is read of a compressed source at once.
const PIECE: usize = 128 << 10;

/// How a kind of file begins.
const GZIP: &[u8] = b"\x1f\x8b\x08";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";

/// Files that hold keys but not as lines, and what to do with them.
const OTHERS: [(&[u8], &str); 7] = [
    (b"\xfd7zXZ\0", "this is compressed with xz: give it as `xzcat FILE | bloomgate ...`"),
    (b"BZh91AY&SY", "this is compressed with bzip2: give it as `bzcat FILE | bloomgate ...`"),
    (b"\x04\x22\x4d\x18", "this is compressed with lz4: give it as `lz4cat FILE | bloomgate ...`"),
    (b"PK\x03\x04", "this is a zip archive: give a file of it as `unzip -p ARCHIVE FILE | bloomgate ...`"),
    (b"PAR1", "this is a Parquet file: name the column of the keys with --parquet COLUMN"),
    (b"SQLite format 3\0", "this is a SQLite database: give it as sqlite:FILE with --query 'SELECT ...'"),
    (&bloomgate::format::MAGIC, "this is a filter (or a delta), and here keys are read: give the files of its keys"),
];

/// Counts the bytes that were read of the source.
#[derive(Debug, Default)]
pub struct Meter {
    read: Arc<AtomicU64>,
    told: u64,
}

impl Meter {
    /// Bytes since the last time somebody asked.
    pub fn since(&mut self) -> u64 {
        let read = self.read.load(Ordering::Relaxed);
        read - std::mem::replace(&mut self.told, read)
    }
}

/// A file, with what was read of it counted.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The rest of a file behind what was read to recognise it.
type Whole = io::Chain<Cursor<Vec<u8>>, Counted>;

/// The bytes of a source.
pub struct Input {
    form: Form,
    decompress: Decompress,
    read: Arc<AtomicU64>,
    /// Bytes that were handed out.
    out: u64,
}

enum Form {
    /// Nothing was read yet.
    Unknown(Counted),
    Plain(Whole),
    Gzip(Box<MultiGzDecoder<BufReader<Whole>>>),
    Zstd(Box<zstd::Decoder<'static, BufReader<Whole>>>),
    /// Something went wrong while it was looked at.
    Lost,
}

impl Input {
    /// The bytes of an open file.
    pub fn new(file: File, decompress: Decompress) -> Self {
        let read = Arc::<AtomicU64>::default();
        Self { form: Form::Unknown(Counted { file, read: read.clone() }), decompress, read, out: 0 }
    }

    /// Counts what is read of the file.
    pub fn meter(&self) -> Meter {
        Meter { read: self.read.clone(), told: 0 }
    }

    /// Reads as much as it takes to know what this is. A pipe that says `a` and waits is told to be lines at once.
    fn look(&mut self) -> io::Result<()> {
        let Form::Unknown(mut file) = std::mem::replace(&mut self.form, Form::Lost) else { return Ok(()) };
        let mut head = vec![0; PIECE];
        let mut len = 0;
        loop {
            match file.read(&mut head[len..]) {
                Ok(0) => break,
                Ok(read) => len += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            if !could_become_known(&head[..len]) {
                break;
            }
        }
        head.truncate(len);
        let decompress = match self.decompress {
            Decompress::Auto => recognise(&head)?,
            said => said,
        };
        let whole = Cursor::new(head).chain(file);
        self.form = match decompress {
            Decompress::Gzip => Form::Gzip(Box::new(MultiGzDecoder::new(BufReader::with_capacity(PIECE, whole)))),
            Decompress::Zstd => {
                Form::Zstd(Box::new(zstd::Decoder::with_buffer(BufReader::with_capacity(PIECE, whole))?))
            }
            Decompress::Auto | Decompress::None => Form::Plain(whole),
        };
        Ok(())
    }

    /// What went wrong in compressed data, and where.
    fn explain(&self, form: &str, error: io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::Interrupted {
            return error;
        }
        let read = number::grouped(self.read.load(Ordering::Relaxed));
        let out = number::grouped(self.out);
        let text = error.to_string();
        let hint = match self.decompress {
            Decompress::Auto => "",
            _ => ", or leave --decompress out if it is not compressed",
        };
        io::Error::other(match error.kind() {
            io::ErrorKind::UnexpectedEof => format!(
                "the {form} data stop in the middle, after {read} bytes ({out} decompressed): the file was cut short; \
                 fetch or write it again{hint}"
            ),
            // A frame that asks for more than 128 MiB of memory, as zstd --long=31 writes them.
            _ if text.contains("too much memory") => {
                "this needs more than 128 MiB to decompress (written with zstd --long): give it as \
                 `zstd -dc --long=31 FILE | bloomgate ...`"
                    .into()
            }
            _ => format!(
                "the {form} data are damaged at or before byte {read} ({out} decompressed): {text}; fetch or write the \
                 file again{hint}"
            ),
        })
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Form::Unknown(_) = self.form {
            self.look()?;
        }
        let read = match &mut self.form {
            Form::Plain(file) => return file.read(buffer),
            Form::Gzip(gzip) => gzip.read(buffer).map_err(|error| ("gzip", error)),
            Form::Zstd(zstd) => zstd.read(buffer).map_err(|error| ("zstd", error)),
            Form::Unknown(_) | Form::Lost => return Err(io::Error::other("it could not be read before")),
        };
        let read = read.map_err(|(form, error)| self.explain(form, error))?;
        self.out += read as u64;
        Ok(read)
    }
}

/// Skippable frames, which some programs write first, have sixteen first bytes.
fn is_skippable_zstd(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18]
}

/// Whether this is less than what it takes to tell, and might still become one of the forms.
fn could_become_known(head: &[u8]) -> bool {
    let known = [GZIP, ZSTD].into_iter().chain(OTHERS.iter().map(|(magic, _)| *magic));
    let skippable = head.len() < 4 && head[0] & 0xf0 == 0x50 && [0x2a, 0x4d].starts_with(&head[1..]);
    skippable || known.into_iter().any(|magic| magic.len() > head.len() && magic.starts_with(head))
}

/// Whether a source with these first bytes is taken as it is.
pub fn is_plain(head: &[u8]) -> bool {
    recognise(head).is_ok_and(|decompress| decompress == Decompress::None)
}

fn recognise(head: &[u8]) -> io::Result<Decompress> {
    if head.starts_with(GZIP) {
        return Ok(Decompress::Gzip);
    }
    if head.starts_with(ZSTD) || is_skippable_zstd(head) {
        return Ok(Decompress::Zstd);
    }
    match OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, what)) => Err(io::Error::other(format!("{what} (or, if its lines are keys, say --decompress none)"))),
        None => Ok(Decompress::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_it_takes_to_know() {
        for waits in [&b"\x1f"[..], b"\x1f\x8b", b"\x28\xb5\x2f", b"P", b"PA", b"BZh9", b"\x5f\x2a", b"SQLite form"] {
            assert!(could_become_known(waits), "{waits:?}");
        }
        for known in
            [&b"a"[..], b"\n", b"PB", b"Pa", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PAR1", b"\x50\x2a\x4d\x18"]
        {
            assert!(!could_become_known(known), "{known:?}");
        }
        assert_eq!(recognise(b"\x1f\x8b\x08\0").unwrap(), Decompress::Gzip);
        assert_eq!(recognise(b"\x5f\x2a\x4d\x18").unwrap(), Decompress::Zstd);
        assert_eq!(recognise(b"\x1f\x8b").unwrap(), Decompress::None);
        assert_eq!(recognise(b"").unwrap(), Decompress::None);
        assert!(recognise(b"\x89BGF\r\n\x1a\n").unwrap_err().to_string().contains("this is a filter"));
        assert!(recognise(b"PAR1").unwrap_err().to_string().contains("--parquet"));
    }

    #[test]
    fn what_is_read_of_the_file_is_counted_whatever_comes_out() {
        let mut file = tempfile::tempfile().unwrap();
        let mut encoder = flate2::write::GzEncoder::new(&mut file, flate2::Compression::best());
        io::Write::write_all(&mut encoder, &vec![b'x'; 1 << 20]).unwrap();
        encoder.finish().unwrap();
        let length = io::Seek::stream_position(&mut file).unwrap();
        io::Seek::rewind(&mut file).unwrap();
        let mut input = Input::new(file, Decompress::Auto);
        let mut meter = input.meter();
        assert_eq!(meter.since(), 0, "opening moves nothing");
        assert_eq!(io::copy(&mut input, &mut io::sink()).unwrap(), 1 << 20);
        assert_eq!((meter.since(), meter.since()), (length, 0));
    }
}
