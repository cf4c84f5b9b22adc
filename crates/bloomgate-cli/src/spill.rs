//! Digests that wait until it is known how many there are: a few megabytes in memory, the rest in a file without a name.
//!
//! 16 bytes a key on disk instead of in memory, where the filter itself needs about 10 bits of one: this is what keeps a
//! build from a pipe near the filter's own size. The file lies beside the output and is gone with the process, however
//! that ends.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use bloomgate::Digest;

use crate::failure::Failure;
use crate::file::folder_of;
use crate::number;

/// Digests kept in memory: 4 MiB.
const IN_MEMORY: usize = 1 << 18;
/// Digests handed out at once.
const BATCH: usize = 1 << 13;

/// Digests that wait.
pub struct Spill {
    folder: PathBuf,
    memory: Vec<Digest>,
    file: Option<File>,
    /// Digests in the file.
    written: u64,
}

impl Spill {
    /// None yet; the file, if it comes to that, lies in the folder of `beside`.
    pub fn new(beside: &Path) -> Self {
        Self { folder: folder_of(beside).to_path_buf(), memory: Vec::new(), file: None, written: 0 }
    }

    /// How many there are.
    pub fn len(&self) -> u64 {
        self.written + self.memory.len() as u64
    }

    /// Takes these too.
    pub fn push(&mut self, digests: &[Digest]) -> Result<(), Failure> {
        self.memory.extend_from_slice(digests);
        if self.memory.len() >= IN_MEMORY { self.write_out().map_err(|error| self.refuse(&error)) } else { Ok(()) }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(tempfile::tempfile_in(&self.folder)?),
        };
        let bytes: Vec<u8> = self.memory.iter().flat_map(|digest| digest.to_bytes()).collect();
        file.write_all(&bytes)?;
        self.written += self.memory.len() as u64;
        self.memory.clear();
        Ok(())
    }

    /// All of them, if they are few enough to lie in memory.
    pub fn into_memory(self) -> Result<Vec<Digest>, Self> {
        if self.file.is_none() { Ok(self.memory) } else { Err(self) }
    }

    /// Hands all of them out, in the order in which they came.
    pub fn drain(mut self, mut take: impl FnMut(&[Digest]) -> Result<(), Failure>) -> Result<(), Failure> {
        if let Some(mut file) = self.file.take() {
            file.rewind().map_err(|error| self.refuse(&error))?;
            let mut bytes = vec![0; BATCH * 16];
            let mut digests = Vec::with_capacity(BATCH);
            let mut left = self.written;
            while left > 0 {
                let now = left.min(BATCH as u64);
                let bytes = &mut bytes[..now as usize * 16];
                file.read_exact(bytes).map_err(|error| self.refuse(&error))?;
                digests.clear();
                digests.extend(bytes.as_chunks::<16>().0.iter().map(|&bytes| Digest::from_bytes(bytes)));
                take(&digests)?;
                left -= now;
            }
        }
        self.memory.chunks(BATCH).try_for_each(take)
    }

    fn refuse(&self, error: &io::Error) -> Failure {
        Failure::Message(format!(
            "{}: no room for the digests of {} that wait here until all are counted ({error}): give --items, and none are \
             kept",
            self.folder.display(),
            number::counted(self.len(), "key")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_back_in_its_order_and_nothing_stays_behind() {
        let folder = tempfile::tempdir().unwrap();
        for count in [0, 1, IN_MEMORY - 1, IN_MEMORY, 2 * IN_MEMORY + BATCH + 7] {
            let digests: Vec<Digest> = (0..count as u64).map(|i| Digest { lo: i, hi: !i }).collect();
            let mut spill = Spill::new(&folder.path().join("out"));
            digests.chunks(1000).for_each(|some| spill.push(some).unwrap());
            assert_eq!(spill.len(), count as u64);
            let mut back = Vec::new();
            spill
                .drain(|some| {
                    back.extend_from_slice(some);
                    Ok(())
                })
                .unwrap();
            assert!(back == digests, "{count}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        let mut nowhere = Spill::new(Path::new("/nowhere/out"));
        let refused = nowhere.push(&vec![Digest::default(); IN_MEMORY]);
        assert!(matches!(refused, Err(Failure::Message(error)) if error.contains("--items")));
    }
}
