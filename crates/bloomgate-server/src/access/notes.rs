//! ACL LOG: logins that failed and commands that were not allowed, the newest 128, and how many there were.
//!
//! The same from the same within a minute is one entry with a count, so that one client that tries and tries does not push
//! everything else out.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many are kept.
pub const KEPT: usize = 128;
/// Bytes of a name that are kept: it may be anything, from anybody.
const NAME_BYTES: usize = 128;
/// Milliseconds within which the same is counted, not noted again.
const TOGETHER_MS: u64 = 60_000;

/// Why something was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A login failed.
    Login,
    /// A command is not allowed.
    Command,
}

impl Reason {
    /// As ACL LOG writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "auth",
            Self::Command => "command",
        }
    }
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Its number.
    pub id: u64,
    /// How often it happened.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// The command.
    pub object: &'static str,
    /// The user, as was said.
    pub user: String,
    /// The connection, as CLIENT LIST has it.
    pub client: String,
    /// When it was noted, in milliseconds since 1970.
    pub first_ms: u64,
    /// When it happened last.
    pub last_ms: u64,
}

/// What was refused.
#[derive(Debug, Default)]
pub struct Notes {
    kept: Mutex<(u64, VecDeque<Note>)>,
    logins: AtomicU64,
    commands: AtomicU64,
}

impl Notes {
    fn kept(&self) -> MutexGuard<'_, (u64, VecDeque<Note>)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was refused.
    pub fn note(&self, reason: Reason, object: &'static str, user: &[u8], client: String, now_ms: u64) {
        let counter = if reason == Reason::Login { &self.logins } else { &self.commands };
        counter.fetch_add(1, Ordering::Relaxed);
        let user = user[..user.len().min(NAME_BYTES)].escape_ascii().to_string();
        let (next_id, kept) = &mut *self.kept();
        let same = kept.iter().position(|note| {
            (note.reason, note.object, &note.user) == (reason, object, &user)
                && now_ms.saturating_sub(note.first_ms) < TOGETHER_MS
        });
        let note = match same.and_then(|at| kept.remove(at)) {
            Some(note) => Note { count: note.count + 1, last_ms: now_ms, client, ..note },
            None => {
                *next_id += 1;
                let id = *next_id - 1;
                Note { id, count: 1, reason, object, user, client, first_ms: now_ms, last_ms: now_ms }
            }
        };
        kept.push_front(note);
        kept.truncate(KEPT);
    }

    /// What is kept, newest first.
    #[must_use]
    pub fn newest(&self, count: usize) -> Vec<Note> {
        self.kept().1.iter().take(count).cloned().collect()
    }

    /// Forgets them.
    pub fn forget(&self) {
        self.kept().1.clear();
    }

    /// How many logins failed, and how many commands were not allowed.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.logins.load(Ordering::Relaxed), self.commands.load(Ordering::Relaxed))
    }

    /// Sets the counts to zero.
    pub fn reset_counts(&self) {
        self.logins.store(0, Ordering::Relaxed);
        self.commands.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_within_a_minute_is_counted_and_the_oldest_go() {
        let notes = Notes::default();
        let login = |user: &str, now_ms| notes.note(Reason::Login, "auth", user.as_bytes(), String::new(), now_ms);
        login("ann", 0);
        login("bob", 1_000);
        login("ann", 2_000);
        let kept = notes.newest(10);
        assert_eq!(kept.len(), 2);
        assert_eq!((kept[0].user.as_str(), kept[0].count, kept[0].first_ms, kept[0].last_ms), ("ann", 2, 0, 2_000));
        login("ann", 60_000);
        assert_eq!((notes.newest(1)[0].count, notes.newest(10).len()), (1, 3), "a minute later it is noted again");
        (0..1_000).for_each(|number| login(&format!("user{number}"), 70_000));
        assert_eq!((notes.newest(usize::MAX).len(), notes.newest(1)[0].user.as_str()), (KEPT, "user999"));
        notes.note(Reason::Command, "del", &[0xff; 4_000], String::new(), 70_000);
        assert_eq!(notes.newest(1)[0].user.len(), NAME_BYTES * 4, "escaped, of the first bytes");
        assert_eq!(notes.counts(), (1_004, 1));
        notes.forget();
        assert!(notes.newest(10).is_empty() && notes.counts() == (1_004, 1));
    }
}
