//! Streams of keys: lines or NUL-separated records of files and standard input, by the block, never a key copied.
//!
//! A block of 256 KiB is read, cut at its separators, and handed out as slices; what is left over moves to the front.
//! A key may be 16 MiB long: the block grows for it, so memory is bounded whatever comes.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The longest key, in bytes. A longer one is more likely a file without line ends than a key.
pub const MOST_KEY: usize = 16 << 20;
/// What is read at once: several reads of a pipe, small beside any filter worth building.
const BLOCK: usize = 256 << 10;

/// How bytes are cut into keys.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct Cut {
    /// Keys end with a NUL byte instead of a line feed (as from find -print0)
    #[arg(short = '0', long = "null", help_heading = "Reading keys")]
    pub null: bool,
    /// Lines end with CR LF: drop the CR (otherwise it is part of the key)
    #[arg(long, help_heading = "Reading keys")]
    pub crlf: bool,
    /// An empty line is a key (otherwise empty lines are skipped)
    #[arg(long, help_heading = "Reading keys")]
    pub keep_empty: bool,
}

impl Cut {
    /// The byte after each key.
    pub fn separator(self) -> u8 {
        if self.null { 0 } else { b'\n' }
    }
}

/// Where keys come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file by its path.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Source {
    /// `-` is standard input.
    pub fn of(path: &Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path.to_path_buf()) }
    }

    /// All of them; none is standard input.
    pub fn all(paths: &[PathBuf]) -> Vec<Self> {
        if paths.is_empty() { vec![Self::Stdin] } else { paths.iter().map(|path| Self::of(path)).collect() }
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin => "standard input".into(),
        }
    }

    /// The open file. Standard input is opened without the buffer of the standard library, so that a redirected file
    /// can be read twice.
    pub fn open(&self) -> Result<File, Failure> {
        let refuse = |error| self.refuse(error);
        let file = match self {
            Self::File(path) => File::open(path).map_err(refuse)?,
            Self::Stdin => stdin().map_err(refuse)?,
        };
        if file.metadata().map_err(refuse)?.is_dir() {
            return Err(Failure::Message(format!("{} is a directory: give files of keys", self.name())));
        }
        Ok(file)
    }

    /// The bytes left to read if this can be read twice; nothing for pipes and terminals.
    pub fn rereadable(&self) -> Result<Option<u64>, Failure> {
        match self {
            // Asked of the path: a named pipe that is opened and closed again has lost its writer.
            Self::File(path) => {
                let metadata = std::fs::metadata(path).map_err(|error| self.refuse(error))?;
                Ok(metadata.is_file().then_some(metadata.len()))
            }
            Self::Stdin => {
                let mut file = self.open()?;
                let (Ok(metadata), Ok(at)) = (file.metadata(), file.stream_position()) else { return Ok(None) };
                Ok(metadata.is_file().then(|| metadata.len().saturating_sub(at)))
            }
        }
    }

    /// Where reading begins. Every handle of standard input shares one place, so a redirected file has to be brought
    /// back to it before it is read again; a file that is opened anew starts at 0 by itself.
    pub fn position(&self) -> Result<u64, Failure> {
        match self {
            Self::File(_) => Ok(0),
            Self::Stdin => self.open()?.stream_position().map_err(|error| self.refuse(error)),
        }
    }

    /// Brings standard input back to where it was.
    pub fn rewind(&self, position: u64) -> Result<(), Failure> {
        if *self == Self::Stdin {
            self.open()?.seek(io::SeekFrom::Start(position)).map_err(|error| self.refuse(error))?;
        }
        Ok(())
    }

    fn refuse(&self, error: io::Error) -> Failure {
        Failure::Message(format!("{}: {error}", self.name()))
    }
}

#[cfg(unix)]
fn stdin() -> io::Result<File> {
    use std::os::fd::AsFd;
    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn stdin() -> io::Result<File> {
    use std::os::windows::io::AsHandle;
    io::stdin().as_handle().try_clone_to_owned().map(File::from)
}

/// Keys of one source, by the block.
pub struct KeyReader<R> {
    from: R,
    name: String,
    cut: Cut,
    block: Vec<u8>,
    /// Bytes of the block that were read.
    filled: usize,
    /// Bytes of the block that were handed out.
    taken: usize,
    /// Separators before the block.
    lines: u64,
    ended: bool,
}

/// Some keys, in the order of the source.
pub struct Keys<'b> {
    /// The keys, without their separators.
    pub keys: Vec<&'b [u8]>,
    /// Bytes of the source that they took.
    pub bytes: u64,
    block: &'b [u8],
    separator: u8,
    name: &'b str,
    /// The bytes of the block up to which separators were counted, and how many there were since the start.
    counted: Cell<(usize, u64)>,
    lines: u64,
}

impl Keys<'_> {
    /// Where a key stands, as `file:line`.
    pub fn place(&self, index: usize) -> String {
        format!("{}:{}", self.name, self.line(index))
    }

    /// Whether every key ends in a carriage return: then it belongs to the line end, and somebody forgot to say so. A
    /// last line without its line end has none.
    pub fn end_in_carriage_return(&self) -> bool {
        let whole =
            if self.block.ends_with(&[self.separator]) { &self.keys[..] } else { &self.keys[..self.keys.len() - 1] };
        !whole.is_empty() && whole.iter().all(|key| key.ends_with(b"\r"))
    }

    /// The line (or record) of a key, from 1. Counted when asked, which is seldom; asked in order, each byte is counted
    /// once.
    pub fn line(&self, index: usize) -> u64 {
        let start = self.keys[index].as_ptr() as usize - self.block.as_ptr() as usize;
        let (from, before) = match self.counted.get() {
            (from, before) if from <= start => (from, before),
            _ => (0, self.lines),
        };
        let line = before + count(self.separator, &self.block[from..start]);
        self.counted.set((start, line));
        line + 1
    }
}

impl<R: Read> KeyReader<R> {
    /// Keys of this reader; `name` is for messages.
    pub fn new(from: R, name: String, cut: Cut) -> Self {
        Self { from, name, cut, block: vec![0; BLOCK], filled: 0, taken: 0, lines: 0, ended: false }
    }

    /// The next keys as soon as there are any; nothing at the end.
    pub fn next(&mut self) -> Result<Option<Keys<'_>>, Failure> {
        let separator = self.cut.separator();
        loop {
            // What was handed out leaves, what is left moves to the front.
            self.lines += count(separator, &self.block[..self.taken]);
            self.block.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
            if !self.fill(separator)? {
                return Ok(None);
            }
            // Only empty lines: nothing to hand out, and the source may have more.
            if keys_of(&self.block[..self.taken], self.cut).next().is_some() {
                break;
            }
        }
        let block = &self.block[..self.taken];
        let mut keys = Vec::with_capacity(block.len() / 16);
        keys.extend(keys_of(block, self.cut));
        let counted = Cell::new((0, self.lines));
        Ok(Some(Keys {
            keys,
            bytes: self.taken as u64,
            block,
            separator,
            name: &self.name,
            counted,
            lines: self.lines,
        }))
    }

    /// Reads until the block has a whole key, and sets `taken` to the end of the last; false at the end.
    fn fill(&mut self, separator: u8) -> Result<bool, Failure> {
        if let Some(last) = self.block[..self.filled].iter().rposition(|&byte| byte == separator) {
            self.taken = last + 1;
            return Ok(true);
        }
        while !self.ended {
            if self.filled == self.block.len() {
                if self.filled > MOST_KEY {
                    return Err(Failure::Message(format!(
                        "{}:{}: the key is longer than {} bytes, the most that is allowed: is the separator right? \
                         keys end with {}",
                        self.name,
                        self.lines + 1,
                        crate::number::grouped(MOST_KEY as u64),
                        if self.cut.null {
                            "a NUL byte because of --null"
                        } else {
                            "a line feed; --null is for NUL bytes"
                        },
                    )));
                }
                self.block.resize((self.block.len() * 2).min(MOST_KEY + 1), 0);
            }
            match self.from.read(&mut self.block[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(read) => {
                    let new = self.filled..self.filled + read;
                    self.filled = new.end;
                    if let Some(last) = self.block[new.clone()].iter().rposition(|&byte| byte == separator) {
                        self.taken = new.start + last + 1;
                        return Ok(true);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Failure::Message(format!("{}: {error}", self.name))),
            }
        }
        // A last line without its line end is a key too.
        self.taken = self.filled;
        Ok(self.taken > 0)
    }
}

/// The keys in a block, which ends with a key.
fn keys_of(block: &[u8], cut: Cut) -> impl Iterator<Item = &[u8]> {
    let mut rest = block;
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let end = find(cut.separator(), rest);
            let mut key = &rest[..end];
            rest = &rest[(end + 1).min(rest.len())..];
            if cut.crlf {
                key = key.strip_suffix(b"\r").unwrap_or(key);
            }
            if !key.is_empty() || cut.keep_empty {
                return Some(key);
            }
        }
        None
    })
}

/// Where a byte first stands, or the length: eight bytes a step (the zero-byte test of Mycroft, 1987).
fn find(byte: u8, bytes: &[u8]) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    let (words, _) = bytes.as_chunks::<8>();
    let pattern = LOW * u64::from(byte);
    for (at, word) in words.iter().enumerate() {
        let differs = u64::from_le_bytes(*word) ^ pattern;
        let zero = differs.wrapping_sub(LOW) & !differs & (LOW << 7);
        if zero != 0 {
            return at * 8 + zero.trailing_zeros() as usize / 8;
        }
    }
    let tail = words.len() * 8;
    bytes[tail..].iter().position(|&b| b == byte).map_or(bytes.len(), |at| tail + at)
}

fn count(byte: u8, bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&b| b == byte).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that hands out a few bytes at a time, as pipes do.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    fn read(bytes: &[u8], step: usize, cut: Cut) -> Vec<(u64, Vec<u8>)> {
        let mut reader = KeyReader::new(Slow(bytes, step), "test".into(), cut);
        let (mut all, mut taken) = (Vec::new(), 0);
        while let Some(keys) = reader.next().unwrap() {
            taken += keys.bytes;
            all.extend(keys.keys.iter().enumerate().map(|(at, key)| (keys.line(at), key.to_vec())));
        }
        assert!(taken <= bytes.len() as u64);
        all
    }

    #[test]
    fn lines_are_keys_however_they_arrive() {
        let text = b"one\n\ntwo\r\n\xff\0three\n\n\nfour";
        let expected: Vec<(u64, Vec<u8>)> =
            vec![(1, b"one".into()), (3, b"two\r".into()), (4, b"\xff\0three".into()), (7, b"four".into())];
        for step in [1, 2, 3, 7, 1000] {
            assert_eq!(read(text, step, Cut::default()), expected, "{step}");
        }
        let crlf = read(b"a\r\n\r\nb\r\nc\n", 3, Cut { crlf: true, ..Cut::default() });
        assert_eq!(crlf, [(1, b"a".to_vec()), (3, b"b".to_vec()), (4, b"c".to_vec())]);
        let returns = read(b"\r\n\r\r\n", 1, Cut { crlf: true, ..Cut::default() });
        assert_eq!(returns, [(2, b"\r".to_vec())], "one CR belongs to the line end, the other is the key");
        let empty = read(b"\na\n\n", 2, Cut { keep_empty: true, ..Cut::default() });
        assert_eq!(empty, [(1, b"".to_vec()), (2, b"a".to_vec()), (3, b"".to_vec())]);
        let null = read(b"a\nb\0\0c", 2, Cut { null: true, ..Cut::default() });
        assert_eq!(null, [(1, b"a\nb".to_vec()), (3, b"c".to_vec())]);
        assert!(read(b"", 1, Cut::default()).is_empty() && read(b"\n\n\n", 1, Cut::default()).is_empty());
    }

    #[test]
    fn blocks_join_without_a_seam() {
        let mut text = Vec::new();
        for i in 0..200_000u32 {
            text.extend_from_slice(format!("{}{}\n", "x".repeat(i as usize % 19), i).as_bytes());
        }
        let keys = read(&text, usize::MAX, Cut::default());
        assert_eq!(keys.len(), 200_000);
        for (at, (line, key)) in keys.iter().enumerate() {
            assert_eq!((*line, key.len()), (at as u64 + 1, at % 19 + at.to_string().len()));
        }
    }

    #[test]
    fn a_long_key_is_a_key_and_a_longer_one_an_error() {
        let mut long = vec![b'x'; MOST_KEY];
        long.splice(0..0, *b"a\n");
        long.extend_from_slice(b"\nb");
        assert_eq!(read(&long, usize::MAX, Cut::default())[1].1.len(), MOST_KEY);
        long.insert(5, b'x');
        let mut reader = KeyReader::new(&long[..], "test".into(), Cut::default());
        let error = loop {
            match reader.next() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("the long key was taken"),
                Err(Failure::Message(error)) => break error,
                Err(Failure::Gone) => panic!("nothing was written"),
            }
        };
        assert!(error.starts_with("test:2:") && error.contains("16,777,216"), "{error}");
    }

    #[test]
    fn find_agrees_with_the_plain_search() {
        let bytes: Vec<u8> = (0..2000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for start in 0..40 {
            for byte in [0, 1, 10, 127, 128, 255] {
                let expected = bytes[start..].iter().position(|&b| b == byte).unwrap_or(bytes.len() - start);
                assert_eq!(find(byte, &bytes[start..]), expected);
            }
        }
        assert_eq!(find(10, b""), 0);
    }
}
