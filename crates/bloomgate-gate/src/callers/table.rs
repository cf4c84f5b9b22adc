//! The clients that are remembered: a bounded number, in pieces with a lock each.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::client::ClientId;

/// Pieces: 16 locks.
const PIECES: usize = 16;
/// Clients in one piece: seven eighths of 4,096, which is what a table of that many places holds. (Where many come and go it
/// takes twice as many places, to have some that are clean.)
const MOST_EACH: usize = 3_584;
/// The most clients that are remembered: 57,344, in 8 MB.
pub const MOST_CLIENTS: usize = PIECES * MOST_EACH;

/// What is known of a client. Moments are nanoseconds by the clock of the caps.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    /// Until when it pays for its misses.
    pub misses: u64,
    /// Until when it pays for what it added.
    pub adds: u64,
    /// Until when nobody is told that it is capped.
    pub untold_until: u64,
    /// Places it has taken.
    pub held: u32,
    /// Lookups of it that wait for one.
    pub waiting: u32,
}

impl Entry {
    fn is_under_way(&self) -> bool {
        self.held > 0 || self.waiting > 0
    }

    /// When its last debt ends.
    fn ends(&self) -> u64 {
        self.misses.max(self.adds)
    }

    /// Whether it is like one that is not remembered.
    fn is_blank(&self, now: u64) -> bool {
        !self.is_under_way() && self.ends() <= now
    }
}

#[derive(Debug, Default)]
struct Piece {
    clients: Mutex<HashMap<ClientId, Entry>>,
    /// A place was given back that somebody may wait for.
    freed: Notify,
}

#[derive(Debug)]
pub(super) struct Table {
    pieces: Box<[Piece]>,
    hashing: RandomState,
}

impl Default for Table {
    fn default() -> Self {
        Self { pieces: (0..PIECES).map(|_| Piece::default()).collect(), hashing: RandomState::new() }
    }
}

impl Table {
    fn piece(&self, client: &ClientId) -> &Piece {
        &self.pieces[self.hashing.hash_one(client) as usize % PIECES]
    }

    /// Told when a place is given back to this client, or another one of its piece.
    pub fn freed(&self, client: &ClientId) -> &Notify {
        &self.piece(client).freed
    }

    /// Works on a client if it is remembered.
    pub fn look<T>(&self, client: &ClientId, work: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        lock(self.piece(client)).get_mut(client).map(work)
    }

    /// Works on a client, which is remembered from now on if that left something to remember. `None` if there is no room.
    pub fn with<T>(&self, client: &ClientId, now: u64, work: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        let mut clients = lock(self.piece(client));
        if let Some(entry) = clients.get_mut(client) {
            return Some(work(entry));
        }
        if clients.len() >= MOST_EACH && !make_room(&mut clients, now) {
            return None;
        }
        let mut entry = Entry::default();
        let result = work(&mut entry);
        if !entry.is_blank(now) {
            clients.insert(*client, entry);
        }
        Some(result)
    }

    /// [`with`](Self::with) for what ends something: forgets a client of which nothing is left to know, and wakes those who
    /// wait.
    pub fn change(&self, client: &ClientId, now: u64, work: impl FnOnce(&mut Entry)) {
        let piece = self.piece(client);
        let mut clients = lock(piece);
        let Some(entry) = clients.get_mut(client) else {
            drop(clients);
            self.with(client, now, work);
            return;
        };
        work(entry);
        let (is_blank, is_waited_for) = (entry.is_blank(now), entry.waiting > 0);
        if is_blank {
            clients.remove(client);
        }
        drop(clients);
        if is_waited_for {
            piece.freed.notify_waiters();
        }
    }

    pub fn len(&self) -> usize {
        self.pieces.iter().map(|piece| lock(piece).len()).sum()
    }

    /// Places in memory, free ones included.
    #[cfg(test)]
    pub fn places(&self) -> usize {
        // A table of `n` places, a power of two, holds seven eighths of it, less what was removed and not cleaned up yet.
        self.pieces.iter().map(|piece| (lock(piece).capacity() * 8 / 7).next_power_of_two()).sum()
    }

    pub fn each(&self, mut work: impl FnMut(&ClientId, &Entry)) {
        for piece in &self.pieces {
            lock(piece).iter().for_each(|(client, entry)| work(client, entry));
        }
    }
}

fn lock(piece: &Piece) -> MutexGuard<'_, HashMap<ClientId, Entry>> {
    // Nothing in here panics between two changes that belong together.
    piece.clients.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets who has no debt any more, and of the others those whose debt ends first, until an eighth of the places is free:
/// the next 448 find one without a look at all. Whether there is one.
fn make_room(clients: &mut HashMap<ClientId, Entry>, now: u64) -> bool {
    clients.retain(|_, entry| !entry.is_blank(now));
    let idle = clients.values().filter(|entry| !entry.is_under_way());
    let mut ends: Vec<u64> = idle.map(Entry::ends).collect();
    let too_many = clients.len().saturating_sub(MOST_EACH - MOST_EACH / 8).min(ends.len());
    if too_many > 0 {
        let (before, &mut last, _) = ends.select_nth_unstable(too_many - 1);
        let mut with_last = too_many - before.iter().filter(|&&ends| ends < last).count();
        clients.retain(|_, entry| {
            let is_last = !entry.is_under_way() && entry.ends() == last && with_last > 0;
            with_last -= usize::from(is_last);
            entry.is_under_way() || !is_last && entry.ends() >= last
        });
    }
    clients.len() < MOST_EACH
}
