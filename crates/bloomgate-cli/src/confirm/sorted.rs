//! A file of lines in the order of their bytes, searched where it lies: some twenty reads for a file of gigabytes.
//!
//! The pages that searches begin with are kept, so that the reads of the next are mostly its last ones. The order is
//! checked as far as it is touched: in a file that is not sorted a key would be missed, which is an error, not a "no".

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::file;
use crate::keys::{Cut, MOST_KEY};

/// What is read at once: a page of the system.
const PAGE: u64 = 4096;
/// Pages that are kept, 16 MiB: the first twelve steps of every search are among them.
const MOST_PAGES: usize = 4096;
/// From here on lines are read one after the other.
const FEW: u64 = 1024;

/// A sorted file.
pub struct Sorted {
    file: File,
    path: PathBuf,
    len: u64,
    cut: Cut,
    /// Lines are `HASH:COUNT`.
    hashes: bool,
    pages: HashMap<u64, Vec<u8>>,
    /// The page that was read last, when no more are kept.
    last: (u64, Vec<u8>),
}

impl Sorted {
    /// Opens a file; with `hashes` its lines are `HASH:COUNT`.
    pub fn open(path: &Path, cut: Cut, hashes: bool) -> Result<Self, Failure> {
        file::check_filter(path)?;
        let refuse = |error| Failure::at(path, error);
        let file = File::open(path).map_err(refuse)?;
        let len = file.metadata().map_err(refuse)?.len();
        Ok(Self {
            file,
            path: path.to_path_buf(),
            len,
            cut,
            hashes,
            pages: HashMap::new(),
            last: (u64::MAX, Vec::new()),
        })
    }

    /// Whether a line is this key. The file is in the order of the bytes as they stand there, so it is searched for those:
    /// `a\r` stands behind `a\t`, and hashes in lower case behind all in upper case.
    pub fn has(&mut self, key: &[u8]) -> Result<bool, Failure> {
        if self.search(key)? {
            return Ok(true);
        }
        match (self.hashes, self.cut.crlf) {
            (true, _) => self.search(&key.to_ascii_lowercase()),
            (_, true) => self.search(&[key, b"\r"].concat()),
            _ => Ok(false),
        }
    }

    /// The same for a line as it stands in the file.
    fn search(&mut self, key: &[u8]) -> Result<bool, Failure> {
        // Lines that start before `low` are less than the key, lines that start at `high` or later are greater.
        let (mut low, mut high) = (0, self.len);
        let (mut least, mut greatest): (Option<Vec<u8>>, Option<Vec<u8>>) = (None, None);
        while high - low > FEW {
            let middle = low + (high - low) / 2;
            let Some(start) = self.next_start(middle, high)? else {
                high = middle;
                continue;
            };
            let (line, _) = self.line(start)?;
            if least.as_ref().is_some_and(|least| line < *least)
                || greatest.as_ref().is_some_and(|greatest| line > *greatest)
            {
                return Err(self.unsorted(start));
            }
            match line.as_slice().cmp(key) {
                Ordering::Equal => return Ok(true),
                Ordering::Less => (low, least) = (start, Some(line)),
                Ordering::Greater => (high, greatest) = (start, Some(line)),
            }
        }
        // The few lines that are left are all read, and the one behind them: the key must lie between neighbours in order.
        let (mut start, mut found, mut last) = (low, false, false);
        while start < self.len && !last {
            last = start >= high;
            let (line, next) = self.line(start)?;
            if least.as_ref().is_some_and(|least| line < *least) || (last && line.as_slice() < key) {
                return Err(self.unsorted(start));
            }
            found |= line == key;
            (start, least) = (next, Some(line));
        }
        Ok(found)
    }

    /// The first line that starts at `from` or later, and before `end`. There is a byte before `from`.
    fn next_start(&mut self, from: u64, end: u64) -> Result<Option<u64>, Failure> {
        let separator = self.cut.separator();
        let mut at = from - 1;
        while at + 1 < end {
            let rest = self.bytes_from(at)?;
            match memchr::memchr(separator, rest) {
                Some(found) => return Ok(Some(at + found as u64 + 1).filter(|start| *start < end)),
                None => at += rest.len() as u64,
            }
        }
        Ok(None)
    }

    /// The line that starts here (of one with a hash only that), and where the next one starts.
    fn line(&mut self, start: u64) -> Result<(Vec<u8>, u64), Failure> {
        let (separator, hashes) = (self.cut.separator(), self.hashes);
        let (mut line, mut at) = (Vec::new(), start);
        while at < self.len {
            let rest = self.bytes_from(at)?;
            let end = memchr::memchr(separator, rest);
            line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            at += end.map_or(rest.len(), |end| end + 1) as u64;
            if end.is_some() {
                break;
            }
            if line.len() > MOST_KEY {
                return Err(Failure::at(
                    &self.path,
                    format!("the line at byte {start} is longer than {MOST_KEY} bytes: is this a file of keys?"),
                ));
            }
        }
        if hashes {
            let end = line.iter().position(|&byte| byte == b':').unwrap_or(line.len());
            line.truncate(end);
            line.truncate(line.trim_ascii_end().len());
        }
        Ok((line, at))
    }

    /// Some bytes from here on, before the end of the file: at least one.
    fn bytes_from(&mut self, at: u64) -> Result<&[u8], Failure> {
        let page = at / PAGE;
        if self.last.0 != page && !self.pages.contains_key(&page) {
            let mut bytes = std::mem::take(&mut self.last.1);
            bytes.clear();
            let read = self.file.seek(SeekFrom::Start(page * PAGE));
            let read = read.and_then(|_| (&self.file).take(PAGE).read_to_end(&mut bytes));
            read.map_err(|error| Failure::at(&self.path, error))?;
            // The first searches read the pages that all others begin with: those are kept, and never given up.
            if self.pages.len() < MOST_PAGES {
                self.pages.insert(page, bytes);
                self.last.0 = u64::MAX;
            } else {
                self.last = (page, bytes);
            }
        }
        let bytes = if self.last.0 == page { Some(&self.last.1) } else { self.pages.get(&page) };
        let bytes = bytes.and_then(|bytes| bytes.get((at % PAGE) as usize..));
        bytes
            .filter(|bytes| !bytes.is_empty())
            .ok_or_else(|| Failure::at(&self.path, "was made shorter while it was searched"))
    }

    fn unsorted(&self, start: u64) -> Failure {
        Failure::at(
            &self.path,
            format!("is not sorted: the line at byte {start} is out of order; sort it with LC_ALL=C sort"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(lines: &[Vec<u8>], last_end: bool) -> (tempfile::NamedTempFile, Cut) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = lines.join(&b'\n');
        if last_end && !lines.is_empty() {
            bytes.push(b'\n');
        }
        std::fs::write(file.path(), bytes).unwrap();
        (file, Cut::default())
    }

    /// Every line is found, and what lies between two lines is not, whatever the lengths.
    #[test]
    fn every_line_is_found_and_nothing_else() {
        let number = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for (count, long) in [(0, 1), (1, 1), (2, 5000), (3000, 1), (3000, 40), (40, 20_000)] {
            let mut lines: Vec<Vec<u8>> = (0..count)
                .map(|i| {
                    let mut line = format!("{:016x}", number(i)).into_bytes();
                    line.extend(std::iter::repeat_n(b'\xff', number(i) as usize % long));
                    line
                })
                .collect();
            lines.sort();
            for last_end in [true, false] {
                let (file, cut) = file(&lines, last_end);
                let mut sorted = Sorted::open(file.path(), cut, false).unwrap();
                for line in &lines {
                    assert!(sorted.has(line).unwrap());
                    let mut other = line.clone();
                    other.push(b'!');
                    assert!(!sorted.has(&other).unwrap());
                    other.truncate(9);
                    assert!(!sorted.has(&other).unwrap());
                }
                assert!(!sorted.has(b"0").unwrap() && !sorted.has(b"~").unwrap());
            }
        }
    }

    /// Two lists that were put together and sorted: all hashes in lower case stand behind those in upper case that begin
    /// with the same letter.
    #[test]
    fn hashes_of_either_case_are_found() {
        let hash = |i: u64| format!("{:040X}", u128::from(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)) << 64);
        let mut lines: Vec<Vec<u8>> = (0..2000)
            .map(|i| if i % 2 == 0 { hash(i) } else { hash(i).to_lowercase() } + ":17")
            .map(String::into_bytes)
            .collect();
        lines.sort();
        let (file, cut) = file(&lines, true);
        let mut sorted = Sorted::open(file.path(), cut, true).unwrap();
        assert!((0..2000).all(|i| sorted.has(hash(i).as_bytes()).unwrap()));
        assert!((2000..3000).all(|i| !sorted.has(hash(i).as_bytes()).unwrap()));
    }

    #[test]
    fn a_file_that_is_not_sorted_is_an_error_where_it_shows() {
        let lines: Vec<Vec<u8>> = (0..5000).map(|i| format!("{i}").into_bytes()).collect();
        let (file, cut) = file(&lines, true);
        let mut sorted = Sorted::open(file.path(), cut, false).unwrap();
        let answers: Vec<_> = lines.iter().map(|line| sorted.has(line)).collect();
        assert!(answers.iter().any(Result::is_err));
        let said = format!("{:?}", answers.into_iter().find_map(Result::err));
        assert!(said.contains("is not sorted") && said.contains("LC_ALL=C sort"), "{said}");
    }
}
