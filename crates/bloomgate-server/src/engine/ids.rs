//! Filters in the order of their ids, which only grow: eight bytes for each while most of a run of ids are there.
//!
//! Sixty-four ids share a page: a bit for each that is there, and the filters of those, close together. A tree with a
//! filter in each of its places takes 38 bytes for one, since a tree that is filled from left to right leaves its nodes
//! half empty; with a page in each place it takes one and a half.

use std::collections::BTreeMap;

use super::entry::Entry;

/// Ids of a page.
const PAGE: u64 = 64;

#[derive(Debug, Default)]
struct Page {
    /// Which of its ids are there.
    there: u64,
    /// Their filters, in the order of the ids.
    entries: Vec<Entry>,
}

impl Page {
    /// How many are there before an id.
    fn before(&self, id: u64) -> usize {
        (self.there & ((1 << (id % PAGE)) - 1)).count_ones() as usize
    }

    fn has(&self, id: u64) -> bool {
        self.there >> (id % PAGE) & 1 == 1
    }
}

/// Filters by id.
#[derive(Debug, Default)]
pub struct Ids {
    pages: BTreeMap<u64, Page>,
}

impl Ids {
    /// The filter of an id.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<&Entry> {
        let page = self.pages.get(&(id / PAGE)).filter(|page| page.has(id))?;
        page.entries.get(page.before(id))
    }

    /// Puts a filter under its id; what was there comes back.
    pub fn insert(&mut self, entry: Entry) -> Option<Entry> {
        let id = entry.id;
        let page = self.pages.entry(id / PAGE).or_default();
        let place = page.before(id);
        if page.has(id) {
            return page.entries.get_mut(place).map(|there| std::mem::replace(there, entry));
        }
        page.there |= 1 << (id % PAGE);
        page.entries.insert(place, entry);
        None
    }

    /// Takes the filter of an id away.
    pub fn remove(&mut self, id: u64) -> Option<Entry> {
        let page = self.pages.get_mut(&(id / PAGE)).filter(|page| page.has(id))?;
        let entry = page.entries.remove(page.before(id));
        page.there &= !(1 << (id % PAGE));
        if page.there == 0 {
            self.pages.remove(&(id / PAGE));
        } else if page.entries.len() * 4 < page.entries.capacity() {
            page.entries.shrink_to(page.entries.len() * 2);
        }
        Some(entry)
    }

    /// The filters from an id on.
    pub fn from(&self, first: u64) -> impl Iterator<Item = &Entry> {
        let pages = self.pages.range(first / PAGE..).map(|(_, page)| page);
        pages.flat_map(|page| &page.entries).skip_while(move |entry| entry.id < first)
    }

    /// All of them, and none are left.
    pub fn take(&mut self) -> Vec<Entry> {
        std::mem::take(&mut self.pages).into_values().flat_map(|page| page.entries).collect()
    }
}
