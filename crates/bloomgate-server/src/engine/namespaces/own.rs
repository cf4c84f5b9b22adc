//! Which filters a namespace has: their ids, in order.
//!
//! Whoever sees one namespace goes through its filters alone, however many others have. Sixty-four ids share a word, a bit for
//! each: 0.4 bytes a filter where they were made one after another, and at most 32 where between any two others have made
//! sixty-four. Filters of no namespace are in none of these, and pay nothing.

use std::collections::BTreeMap;

use super::Namespaces;
use crate::engine::Engine;
use crate::engine::entry::Entry;

/// Ids of a word.
const WORD: u64 = 64;

/// Ids of filters.
#[derive(Debug, Default)]
pub(super) struct Own {
    words: BTreeMap<u64, u64>,
}

impl Own {
    pub(super) fn insert(&mut self, id: u64) {
        *self.words.entry(id / WORD).or_default() |= 1 << (id % WORD);
    }

    pub(super) fn remove(&mut self, id: u64) {
        if let Some(word) = self.words.get_mut(&(id / WORD)) {
            *word &= !(1 << (id % WORD));
            if *word == 0 {
                self.words.remove(&(id / WORD));
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// Those from an id on, in order.
    fn from(&self, first: u64) -> impl Iterator<Item = u64> {
        let words = self.words.range(first / WORD..);
        let ids = words
            .flat_map(|(at, word)| (0..WORD).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at * WORD + bit));
        ids.skip_while(move |&id| id < first)
    }
}

impl Namespaces {
    /// The ids of a namespace's filters from one on, at most so many.
    fn own_from(&self, space: u16, first: u64, count: usize) -> Vec<u64> {
        self.at(space).map_or_else(Vec::new, |place| place.own().from(first).take(count).collect())
    }

    /// A filter goes from one namespace to another; 0 is none.
    pub(super) fn hand_over(&self, id: u64, from: u16, to: u16) {
        if from == to {
            return;
        }
        if let Some(place) = self.at(from) {
            place.own_mut().remove(id);
        }
        if let Some(place) = self.at(to) {
            place.own_mut().insert(id);
        }
    }
}

impl Engine {
    /// The filters of a namespace from an id on, of which at most so many are looked for, shadows among them; and where to go
    /// on, nothing at the end.
    #[must_use]
    pub fn filters_of(&self, space: u16, first: u64, count: usize) -> (Vec<Entry>, Option<u64>) {
        let ids = self.namespaces.own_from(space, first, count);
        let next = ids.last().filter(|_| ids.len() == count).map(|last| last + 1);
        (self.names.of_ids(&ids), next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_in_order_and_go() {
        let mut own = Own::default();
        let ids = [0, 1, 63, 64, 130, 1 << 40, u64::MAX];
        ids.iter().rev().for_each(|&id| own.insert(id));
        own.insert(64);
        for (at, &first) in ids.iter().enumerate() {
            assert_eq!(own.from(first).collect::<Vec<_>>(), ids[at..], "from {first}");
        }
        assert_eq!(own.from(65).next(), Some(130));
        for id in [63, 64, 65, 1 << 40] {
            own.remove(id);
        }
        assert_eq!(own.from(0).collect::<Vec<_>>(), [0, 1, 130, u64::MAX]);
        assert_eq!(own.words.len(), 3, "a word without ids is let go");
        own.clear();
        assert_eq!(own.from(0).next(), None);
    }
}
