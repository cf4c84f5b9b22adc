//! What was written past a list in a file. The list does not have it, so it is noted beside the list, in `LIST.written`, and
//! is part of every scan: a line `+` and the key's bytes in hexadecimal digits for each key.
//!
//! A write whose key nobody could read is a line `?` and its time, in milliseconds since 1970: no scan is believed until the
//! list itself is younger. Who makes the list anew from the service may remove the file before.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use crate::error::{Error, ErrorKind, Result};
use crate::gate::now_ms;
use crate::key::{Key, hexadecimal, spell_bytes};

/// Keys that are noted; beyond, the list has to be made anew.
const MOST: usize = 1_000_000;

/// What was written past a list.
#[derive(Debug)]
pub(super) struct Journal {
    list: PathBuf,
    path: PathBuf,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Whether the file was read.
    read: bool,
    keys: BTreeSet<Box<[u8]>>,
    /// When the last write was that nobody could note.
    missed: Option<u64>,
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let message = format!("{}, which keeps what was written past the list of keys: {error}", path.display());
    Error::new(ErrorKind::Source, message)
}

impl Journal {
    pub fn beside(list: &Path) -> Arc<Self> {
        let mut path = list.as_os_str().to_owned();
        path.push(".written");
        Arc::new(Self { list: list.to_path_buf(), path: path.into(), noted: Mutex::default() })
    }

    fn noted(&self) -> Result<MutexGuard<'_, Noted>> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if !noted.read {
            self.read(&mut noted)?;
            noted.read = true;
        }
        Ok(noted)
    }

    fn read(&self, noted: &mut Noted) -> Result<()> {
        let mut text = String::new();
        match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(&self.path, &error)),
            Ok(file) => {
                // A key has at most 4,096 bytes, two digits each.
                let most = MOST as u64 * (2 * crate::key::LONGEST as u64 + 2);
                file.take(most).read_to_string(&mut text).map_err(|error| failed(&self.path, &error))?;
            }
        }
        let lines = text.lines().count();
        for (number, line) in text.lines().enumerate() {
            let whole = number + 1 < lines || text.ends_with('\n');
            match line.split_at_checked(1) {
                Some(("+", digits)) if whole => match hexadecimal(&format!("\\x{digits}")) {
                    Some(key) => _ = noted.keys.insert(key.into()),
                    None => return Err(failed(&self.path, &format_args!("line {} is no key", number + 1))),
                },
                Some(("?", time)) if whole => {
                    let time = time.parse().map_err(|error| failed(&self.path, &error))?;
                    noted.missed = noted.missed.max(Some(time));
                }
                // Half a line is all that a kill leaves, and its write was never passed on.
                _ if !whole => {}
                _ => return Err(failed(&self.path, &format_args!("line {} is none of ours", number + 1))),
            }
        }
        Ok(())
    }

    /// Notes keys, and is done when the disk has them. What cannot be noted is missed.
    pub fn note(&self, keys: &[Key]) -> Result<()> {
        let mut noted = self.noted()?;
        let new: Vec<&Key> = keys.iter().filter(|key| !noted.keys.contains(key.canonical())).collect();
        if new.is_empty() {
            return Ok(());
        }
        let lines: String = new.iter().map(|key| format!("+{}\n", &spell_bytes(key.canonical())[2..])).collect();
        let written = match noted.keys.len() + new.len() > MOST {
            true => Err(failed(&self.path, &format_args!("it holds {MOST} keys: make the list anew"))),
            false => self.append(&lines),
        };
        match written {
            Ok(()) => noted.keys.extend(new.into_iter().map(|key| key.canonical().into())),
            Err(_) => noted.missed = Some(now_ms()),
        }
        written
    }

    /// Notes that a key was missed.
    pub fn note_missed(&self) -> Result<()> {
        let mut noted = self.noted()?;
        let now = now_ms();
        noted.missed = Some(now);
        self.append(&format!("?{now}\n"))
    }

    fn append(&self, lines: &str) -> Result<()> {
        let write = || {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            file.write_all(lines.as_bytes())?;
            file.sync_data()
        };
        write().map_err(|error: std::io::Error| failed(&self.path, &error))
    }

    /// The keys that belong to a scan that begins now.
    ///
    /// # Errors
    ///
    /// A key was missed, and the list is not younger.
    pub fn keys(&self) -> Result<Vec<Box<[u8]>>> {
        let noted = self.noted()?;
        if let Some(missed) = noted.missed {
            let changed = std::fs::metadata(&self.list).and_then(|about| about.modified());
            let changed = changed.map_err(|error| failed(&self.list, &error))?;
            let changed = changed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
            if changed <= missed {
                let message = format!(
                    "a key was made that neither the list {} nor the gate knows: make the list anew, and rebuild",
                    self.list.display()
                );
                return Err(Error::new(ErrorKind::Source, message));
            }
        }
        Ok(noted.keys.iter().cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_there_after_a_restart_and_what_was_missed_needs_a_younger_list() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("keys");
        std::fs::write(&list, "a\n").unwrap();
        let journal = Journal::beside(&list);
        journal.note(&[Key::from("b"), Key::from("with\nnewline")]).unwrap();
        journal.note(&[Key::from("b")]).unwrap();
        let file = folder.path().join("keys.written");
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2, "each once");
        // A kill in the middle of a line.
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"+61").unwrap();
        let again = Journal::beside(&list);
        assert_eq!(again.keys().unwrap(), [b"b"[..].into(), b"with\nnewline"[..].into()]);
        std::fs::write(&file, "+62\n").unwrap();
        let again = Journal::beside(&list);
        again.note_missed().unwrap();
        assert!(again.keys().unwrap_err().to_string().contains("make the list anew"));
        assert!(Journal::beside(&list).keys().is_err(), "a restart does not forget it");
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&list, "a\nb\nc\n").unwrap();
        assert_eq!(again.keys().unwrap().len(), 1);
        std::fs::write(&file, "nonsense\n").unwrap();
        assert!(Journal::beside(&list).keys().is_err());
    }

    #[test]
    fn what_cannot_be_noted_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("keys");
        std::fs::write(&list, "a\n").unwrap();
        // A folder where the file should be.
        std::fs::create_dir(folder.path().join("keys.written")).unwrap();
        let journal = Journal::beside(&list);
        assert!(journal.note(&[Key::from("b")]).is_err());
        assert!(journal.keys().is_err());
    }
}
