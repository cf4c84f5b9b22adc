//! What was written past a list in a file. The list does not have it, so it is noted beside the list, in `LIST.written`, and
//! is part of every scan. A line is one of these:
//!
//! ```text
//! +HEX    a key, its bytes in hexadecimal digits
//! !TIME   a write whose keys only its answer will tell is about to be passed on
//! -TIME   that one has ended, and its keys are noted, or it made none
//! ?TIME   a key was missed then
//! ```
//!
//! Everything is noted before its write is passed on, for a kill may come between the two, and what cannot be noted is not
//! passed on. If the service then refuses the write of a key, the key is struck out, unless another write of it was not
//! refused: whoever may send writes that are refused cannot fill the list. The line stays until the file has many such, and
//! is then written anew.
//!
//! Times are in milliseconds since 1970. Once a key was missed, because nobody could read it, because a kill came before its
//! answer, or because the file is full, no scan is believed until the list itself is younger. Who makes the list anew from the
//! service may remove the file before: what had been written by then is dropped when the list is younger than the removal was
//! noticed, and what may not have been is written into a new file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use crate::error::{Error, ErrorKind, Result};
use crate::gate::now_ms;
use crate::key::{Key, hexadecimal, spell_bytes};
use crate::shards::DOUBT;

/// Keys that are noted; beyond, the list has to be made anew.
const MOST: usize = 1_000_000;
/// Lines of keys that were struck out: with more than this, and more than there are keys, the file is written anew.
const STRUCK: usize = 1_000;
/// The longest line: a key has at most 4,096 bytes, two digits each.
const LONGEST_LINE: u64 = 2 * crate::key::LONGEST as u64 + 2;

/// What was written past a list.
#[derive(Debug)]
pub(super) struct Journal {
    list: PathBuf,
    path: PathBuf,
    /// Keys that are noted at most.
    most: usize,
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    /// Whether the file was read.
    read: bool,
    /// Whether there should be a file: if it is gone, somebody has removed it.
    exists: bool,
    keys: BTreeMap<Box<[u8]>, Entry>,
    /// How many of the keys are retired.
    retired: usize,
    /// Writes under way whose keys only their answers will tell.
    unnamed: BTreeSet<u64>,
    /// When the last of them began.
    last_mark: u64,
    /// When the last key was missed.
    missed: Option<u64>,
    /// The file does not have that yet.
    missed_unsaved: bool,
    /// Lines of the file that say nothing any more.
    struck: usize,
    /// Where the last whole line ends, if half a line may be behind it.
    torn_at: Option<u64>,
}

/// A key that is noted.
#[derive(Debug)]
struct Entry {
    /// Writes of it under way.
    under_way: u32,
    /// One was not refused: it stays.
    written: bool,
    /// When the last write of it ended. It may still happen for a while, if nobody answered.
    ended: u64,
    /// The file was removed after it had been written, and that was noticed then: a list that is younger has it.
    retired: Option<u64>,
}

impl Entry {
    /// Whether a list that is made from `now` on has it, or it will never be written.
    fn is_settled(&self, now: u64) -> bool {
        self.under_way == 0 && now > self.ended.saturating_add(DOUBT.as_millis() as u64)
    }
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> Error {
    let message = format!("{}, which keeps what was written past the list of keys: {error}", path.display());
    Error::new(ErrorKind::Source, message)
}

/// The line of a key.
fn line(canonical: &[u8]) -> String {
    format!("+{}\n", &spell_bytes(canonical)[2..])
}

impl Journal {
    pub fn beside(list: &Path) -> Arc<Self> {
        Arc::new(Self::of(list, MOST))
    }

    fn of(list: &Path, most: usize) -> Self {
        let mut path = list.as_os_str().to_owned();
        path.push(".written");
        Self { list: list.to_path_buf(), path: path.into(), most, noted: Mutex::default() }
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Error {
        failed(&self.path, error)
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self) -> Result<MutexGuard<'_, Noted>> {
        let mut noted = self.lock();
        self.read_once(&mut noted)?;
        Ok(noted)
    }

    fn read_once(&self, noted: &mut Noted) -> Result<()> {
        if !noted.read {
            self.read(noted)?;
            noted.read = true;
        }
        Ok(())
    }

    fn read(&self, noted: &mut Noted) -> Result<()> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(self.failed(&error)),
            Ok(file) => file,
        };
        noted.unnamed.clear();
        let (mut file, mut line) = (BufReader::new(file), Vec::new());
        let (mut number, mut end) = (0, 0);
        loop {
            number += 1;
            line.clear();
            let length = (&mut file).take(LONGEST_LINE).read_until(b'\n', &mut line);
            let length = length.map_err(|error| self.failed(&error))? as u64;
            let Some(whole) = line.strip_suffix(b"\n") else {
                if length == LONGEST_LINE {
                    return Err(self.failed(&format_args!("line {number} is longer than that of any key")));
                }
                // Half a line is all that a kill leaves, and its write was never passed on. The next line must not stand
                // behind it.
                noted.torn_at = (length > 0).then_some(end);
                break;
            };
            self.take(noted, whole, number)?;
            end += length;
        }
        noted.exists = true;
        if !noted.unnamed.is_empty() {
            // A kill came before their answers: what they made nobody knows, and no list of before need have it.
            let ended: String = std::mem::take(&mut noted.unnamed).iter().map(|mark| format!("-{mark}\n")).collect();
            noted.struck += 2 * ended.lines().count();
            self.miss(noted);
            self.append(noted, &ended, true)?;
        }
        Ok(())
    }

    /// Takes a line of the file.
    fn take(&self, noted: &mut Noted, line: &[u8], number: usize) -> Result<()> {
        let wrong = |what: &str| Err(self.failed(&format_args!("line {number} is {what}")));
        let Some((kind, rest)) = std::str::from_utf8(line).ok().and_then(|line| line.split_at_checked(1)) else {
            return wrong("none of ours");
        };
        if kind == "+" {
            let Some(key) = hexadecimal(&format!("\\x{rest}")) else { return wrong("no key") };
            // What became of its write nobody knows any more.
            let entry = Entry { under_way: 0, written: true, ended: now_ms(), retired: None };
            noted.keys.insert(key.into(), entry);
            // As many that were struck out may be among them.
            if noted.keys.len() > 3 * self.most {
                return wrong("one key too many: make the list anew, and remove this file before");
            }
            return Ok(());
        }
        let Ok(time) = rest.parse::<u64>() else { return wrong("none of ours") };
        match kind {
            "?" => noted.missed = noted.missed.max(Some(time)),
            "!" => {
                noted.unnamed.insert(time);
                noted.last_mark = noted.last_mark.max(time);
            }
            "-" => {
                noted.unnamed.remove(&time);
                noted.struck += 2;
            }
            _ => return wrong("none of ours"),
        }
        Ok(())
    }

    /// Looks whether the file was removed, by who makes the list anew. The list will have what was written before; what
    /// may still be on its way then is noted again. Looked for whenever a write begins or ends: so what is under way at the
    /// first look after the removal is all that was under way at the removal or has begun since.
    fn look(&self, noted: &mut Noted) -> Result<()> {
        if !noted.exists || self.path.exists() {
            return Ok(());
        }
        let now = now_ms();
        for entry in noted.keys.values_mut().filter(|entry| entry.retired.is_none() && entry.is_settled(now)) {
            entry.retired = Some(now);
            noted.retired += 1;
        }
        self.write_anew(noted)
    }

    /// Notes keys, and is done when the disk has them, or, if there are too many, that some were missed.
    /// [`ended`](Self::ended) is told what became of the write. An error: nothing is noted, and it must not be passed on.
    pub fn note(&self, keys: &[Key]) -> Result<()> {
        let mut noted = self.noted()?;
        self.look(&mut noted)?;
        let is_saved = |key: &Key| noted.keys.get(key.canonical()).is_some_and(|entry| entry.retired.is_none());
        let new: Vec<&Key> = keys.iter().filter(|key| !is_saved(key)).collect();
        // Those that are retired are in memory still.
        let is_full =
            noted.keys.len() - noted.retired + new.len() > self.most || noted.keys.len() + new.len() > 2 * self.most;
        match is_full {
            _ if new.is_empty() => {}
            true => {
                self.miss(&mut noted);
                noted.struck += 1;
                self.append(&mut noted, "", true)?;
            }
            false => {
                let lines: String = new.iter().map(|key| line(key.canonical())).collect();
                self.append(&mut noted, &lines, true)?;
                for key in new {
                    let entry = Entry { under_way: 0, written: false, ended: 0, retired: None };
                    let before = noted.keys.insert(key.canonical().into(), entry);
                    noted.retired -= usize::from(before.is_some_and(|before| before.retired.is_some()));
                }
            }
        }
        for key in keys {
            if let Some(entry) = noted.keys.get_mut(key.canonical()) {
                entry.under_way += 1;
            }
        }
        Ok(())
    }

    /// A write whose keys were noted has ended; `refused`: it was not done and never will be.
    pub fn ended(&self, keys: &[Key], refused: bool) -> Result<()> {
        let mut noted = self.noted()?;
        // Before it counts as ended: it may have been under way when the file was removed.
        let looked = self.look(&mut noted);
        let now = now_ms();
        for key in keys {
            let Some(entry) = noted.keys.get_mut(key.canonical()) else { continue };
            entry.under_way = entry.under_way.saturating_sub(1);
            entry.written |= !refused;
            entry.ended = now;
            if entry.under_way == 0 && !entry.written {
                noted.keys.remove(key.canonical());
                noted.struck += 1;
            }
        }
        looked.and(self.tidy(&mut noted))
    }

    /// Writes the file anew if too many of its lines say nothing any more.
    fn tidy(&self, noted: &mut Noted) -> Result<()> {
        if noted.struck <= STRUCK.max(noted.keys.len()) {
            return Ok(());
        }
        // Not tried again at once if it fails: more lines than needed are no harm.
        noted.struck = 0;
        self.write_anew(noted)
    }

    /// The file without what was struck out or is retired.
    fn write_anew(&self, noted: &mut Noted) -> Result<()> {
        let kept = noted.keys.iter().filter(|(_, entry)| entry.retired.is_none());
        let mut text: String = kept.map(|(key, _)| line(key)).collect();
        noted.unnamed.iter().for_each(|mark| text.push_str(&format!("!{mark}\n")));
        if let Some(missed) = noted.missed {
            text.push_str(&format!("?{missed}\n"));
        }
        let mut beside = self.path.as_os_str().to_owned();
        beside.push(".new");
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            // Whole or not at all: a kill leaves the one file or the other.
            std::fs::rename(&beside, &self.path)?;
            self.folder()?.sync_all()
        };
        write().map_err(|error: std::io::Error| self.failed(&error))?;
        (noted.exists, noted.missed_unsaved, noted.torn_at) = (true, false, None);
        Ok(())
    }

    fn folder(&self) -> std::io::Result<File> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))
    }

    /// Notes that a write is about to be passed on whose keys only its answer will tell: its mark. An error: nothing is
    /// noted, and it must not be passed on.
    pub fn begin_unnamed(&self) -> Result<u64> {
        let mut noted = self.noted()?;
        self.look(&mut noted)?;
        let mark = now_ms().max(noted.last_mark + 1);
        self.append(&mut noted, &format!("!{mark}\n"), true)?;
        noted.unnamed.insert(mark);
        noted.last_mark = mark;
        Ok(mark)
    }

    /// That write has ended, and its keys are noted, or missed, or there are none.
    pub fn end_unnamed(&self, mark: u64) -> Result<()> {
        let mut noted = self.noted()?;
        if !noted.unnamed.remove(&mark) {
            return Ok(());
        }
        noted.struck += 2;
        // Lost in a power failure, it costs a list that is made anew, and no key.
        self.append(&mut noted, &format!("-{mark}\n"), false).and(self.tidy(&mut noted))
    }

    /// From now on no scan is believed until the list is younger; the file has it after the next line.
    fn miss(&self, noted: &mut Noted) {
        (noted.missed, noted.missed_unsaved) = (Some(now_ms()), true);
    }

    /// Notes that a key was missed. Known to this process even if it fails.
    pub fn note_missed(&self) -> Result<()> {
        let mut noted = self.lock();
        self.miss(&mut noted);
        self.read_once(&mut noted)?;
        self.append(&mut noted, "", true)
    }

    /// Appends lines, all or none; `sync`: and is done when the disk has them.
    fn append(&self, noted: &mut Noted, lines: &str, sync: bool) -> Result<()> {
        let missed = noted.missed.filter(|_| noted.missed_unsaved).map(|missed| format!("?{missed}\n"));
        let lines = format!("{}{lines}", missed.unwrap_or_default());
        let mut write = || {
            let mut file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            noted.exists = true;
            if let Some(end) = noted.torn_at {
                file.set_len(end)?;
            }
            let end = file.metadata()?.len();
            // Until the disk has all of it, half of it may be there.
            noted.torn_at = Some(end);
            let written = file.write_all(lines.as_bytes());
            let written = written.and_then(|()| if sync { file.sync_data() } else { Ok(()) });
            if written.is_ok() || file.set_len(end).is_ok() {
                noted.torn_at = None;
            }
            written?;
            // A file that is new is there after a power failure only if its folder knows of it.
            if end == 0 { self.folder()?.sync_all() } else { Ok(()) }
        };
        write().map_err(|error: std::io::Error| self.failed(&error))?;
        noted.missed_unsaved = false;
        Ok(())
    }

    /// When the list was made.
    fn made(&self) -> Result<u64> {
        let changed = std::fs::metadata(&self.list).and_then(|about| about.modified()).map_err(|error| {
            Error::new(ErrorKind::Source, format!("the list of keys {}: {error}", self.list.display()))
        })?;
        Ok(changed.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64))
    }

    /// The keys that belong to a scan that begins now.
    ///
    /// # Errors
    ///
    /// A key was missed, and the list is not younger.
    pub fn keys(&self) -> Result<Vec<Box<[u8]>>> {
        let mut noted = self.noted()?;
        self.look(&mut noted)?;
        let made = self.made()?;
        if noted.missed.is_some_and(|missed| made <= missed) {
            let message = format!(
                "a key was made that neither the list {} nor the gate knows (it notes {} at most): make the list anew, and                  rebuild",
                self.list.display(),
                self.most
            );
            return Err(Error::new(ErrorKind::Source, message));
        }
        noted.keys.retain(|_, entry| entry.retired.is_none_or(|at| made <= at));
        noted.retired = noted.keys.values().filter(|entry| entry.retired.is_some()).count();
        Ok(noted.keys.keys().cloned().collect())
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
        // What comes after it stands in a line of its own.
        again.note(&[Key::from("c")]).unwrap();
        let again = Journal::beside(&list);
        assert_eq!(again.keys().unwrap(), [b"b"[..].into(), b"c"[..].into(), b"with\nnewline"[..].into()]);
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

    fn keys(journal: &Journal) -> Vec<String> {
        journal.keys().unwrap().iter().map(|key| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_key_is_struck_out_when_every_write_of_it_was_refused() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("keys");
        std::fs::write(&list, "a\n").unwrap();
        let journal = Journal::beside(&list);
        let key = [Key::from("b")];
        journal.note(&key).unwrap();
        journal.note(&key).unwrap();
        journal.ended(&key, true).unwrap();
        assert_eq!(keys(&journal), ["b"], "another write of it is under way");
        journal.ended(&key, true).unwrap();
        assert!(keys(&journal).is_empty());
        journal.note(&key).unwrap();
        journal.ended(&key, false).unwrap();
        journal.note(&key).unwrap();
        journal.ended(&key, true).unwrap();
        assert_eq!(keys(&journal), ["b"], "it was written before");
        assert_eq!(keys(&Journal::beside(&list)), ["b"]);
    }

    #[test]
    fn refused_writes_do_not_fill_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("keys");
        std::fs::write(&list, "a\n").unwrap();
        let journal = Journal::beside(&list);
        journal.note(&[Key::from("kept")]).unwrap();
        journal.ended(&[Key::from("kept")], false).unwrap();
        journal.note(&[Key::from("under way")]).unwrap();
        journal.note_missed().unwrap();
        for number in 0..3 * STRUCK {
            let key = [Key::from(format!("refused {number}").as_str())];
            journal.note(&key).unwrap();
            journal.ended(&key, true).unwrap();
        }
        let text = std::fs::read_to_string(folder.path().join("keys.written")).unwrap();
        assert!(text.lines().count() <= STRUCK + 3, "{}", text.lines().count());
        // A restart has everything that may have been written, and knows what was missed.
        let again = Journal::beside(&list);
        assert!(again.keys().is_err());
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&list, "a\n").unwrap();
        let had = keys(&again);
        assert!(["kept", "under way"].iter().all(|key| had.iter().any(|had| had == key)), "{had:?}");
    }

    /// A list of one key, in a folder of its own, and the file beside it.
    fn listed() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (list, file) = (folder.path().join("keys"), folder.path().join("keys.written"));
        std::fs::write(&list, "a\n").unwrap();
        (folder, list, file)
    }

    /// Makes the list anew, later than everything before.
    fn make_anew(list: &Path) {
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(list, "a\n").unwrap();
    }

    #[test]
    fn a_file_that_was_removed_is_made_anew_with_what_the_list_may_not_have() {
        let (_folder, list, file) = listed();
        let journal = Journal::beside(&list);
        for key in ["old", "lately", "under way"] {
            journal.note(&[Key::from(key)]).unwrap();
        }
        for key in ["old", "lately"] {
            journal.ended(&[Key::from(key)], false).unwrap();
        }
        journal.lock().keys.get_mut(&b"old"[..]).unwrap().ended = 0;
        std::fs::remove_file(&file).unwrap();
        journal.ended(&[Key::from("under way")], false).unwrap();
        assert_eq!(
            keys(&Journal::beside(&list)),
            ["lately", "under way"],
            "they may not be in a list that is made now"
        );
        assert_eq!(keys(&journal), ["lately", "old", "under way"], "the list is the one of before");
        make_anew(&list);
        assert_eq!(keys(&journal), ["lately", "under way"], "it has the old one");
        // Written again after that, it is noted again.
        journal.lock().keys.values_mut().for_each(|entry| entry.ended = 0);
        std::fs::remove_file(&file).unwrap();
        journal.note(&[Key::from("lately")]).unwrap();
        assert_eq!(keys(&Journal::beside(&list)), ["lately"]);
        make_anew(&list);
        assert_eq!((keys(&journal), journal.lock().retired), (vec!["lately".to_owned()], 0));
    }

    #[test]
    fn a_full_file_has_that_keys_were_missed() {
        let (_folder, list, file) = listed();
        let journal = Journal::of(&list, 2);
        journal.note(&[Key::from("b"), Key::from("c")]).unwrap();
        journal.note(&[Key::from("b")]).unwrap();
        assert_eq!(keys(&journal), ["b", "c"]);
        journal.note(&[Key::from("d")]).unwrap();
        journal.ended(&[Key::from("d")], false).unwrap();
        for journal in [journal, Journal::of(&list, 2)] {
            assert!(journal.keys().unwrap_err().to_string().contains("2 at most"), "not forgotten by a restart");
        }
        make_anew(&list);
        assert_eq!(keys(&Journal::of(&list, 2)), ["b", "c"]);
        std::fs::write(&file, "+61\n+62\n+63\n+64\n+65\n+66\n+67\n").unwrap();
        assert!(Journal::of(&list, 2).keys().unwrap_err().to_string().contains("line 7 is one key too many"));
        std::fs::write(&file, format!("+{}", "6".repeat(9_000))).unwrap();
        assert!(Journal::of(&list, 2).keys().unwrap_err().to_string().contains("line 1 is longer"));
    }

    #[test]
    fn what_cannot_be_noted_is_refused_and_what_was_missed_is_noted_with_the_next_line() {
        let (_folder, list, file) = listed();
        // A folder where the file should be.
        std::fs::create_dir(&file).unwrap();
        let journal = Journal::beside(&list);
        assert!(journal.note(&[Key::from("b")]).is_err() && journal.begin_unnamed().is_err());
        assert!(journal.note_missed().is_err());
        std::fs::remove_dir(&file).unwrap();
        assert!(journal.keys().is_err(), "this process knows");
        journal.note(&[Key::from("c")]).unwrap();
        assert!(Journal::beside(&list).keys().is_err(), "and so does the next one");
        // A disk that takes half a line: the next one begins where the last whole one ended.
        let end = std::fs::metadata(&file).unwrap().len();
        OpenOptions::new().append(true).open(&file).unwrap().write_all(b"+6").unwrap();
        journal.lock().torn_at = Some(end);
        journal.note(&[Key::from("d")]).unwrap();
        make_anew(&list);
        assert_eq!(keys(&Journal::beside(&list)), ["c", "d"]);
    }

    #[test]
    fn a_kill_before_an_answer_that_tells_a_key_is_not_forgotten() {
        let (_folder, list, _) = listed();
        let journal = Journal::beside(&list);
        let marks = [journal.begin_unnamed().unwrap(), journal.begin_unnamed().unwrap()];
        assert!(marks[0] < marks[1]);
        journal.note(&[Key::from("made")]).unwrap();
        journal.end_unnamed(marks[0]).unwrap();
        assert_eq!(keys(&journal), ["made"], "one under way keeps nobody from scanning");
        // Made while the other write is under way: it may not have what that makes.
        make_anew(&list);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(Journal::beside(&list).keys().is_err());
        assert!(Journal::beside(&list).keys().is_err(), "nor after the next restart");
        make_anew(&list);
        assert_eq!(keys(&Journal::beside(&list)), ["made"]);
        // Those that have ended cost nothing, and do not fill the file.
        let journal = Journal::beside(&list);
        for _ in 0..2 * STRUCK {
            let mark = journal.begin_unnamed().unwrap();
            journal.end_unnamed(mark).unwrap();
        }
        let lines = std::fs::read_to_string(&journal.path).unwrap().lines().count();
        assert!(lines <= 2 * STRUCK + 10, "{lines}");
        assert_eq!(keys(&Journal::beside(&list)), ["made"]);
    }
}
