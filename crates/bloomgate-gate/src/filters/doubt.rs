//! Writes of unknown outcome: the source may still do them, so their keys belong into every filter until that is over.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::key::Key;
use crate::shards::DOUBT;

/// Keys that are kept for the next filters, 100 bytes each. More of them than this and no filter is trusted until one
/// whose scan begins after all of them have settled.
pub(super) const DOUBTFUL: usize = 100_000;

/// Keys whose write may still happen.
#[derive(Debug, Default)]
pub(super) struct Doubtful {
    /// Each key once, and when its last write has happened or never will.
    keys: HashMap<Key, Instant>,
    /// There was no room for some, or nobody knows them: when the last of those has settled.
    unlisted: Option<Instant>,
    /// When the filter that is being built was installed; its scan begins later.
    installed: Option<Instant>,
}

impl Doubtful {
    /// Notes keys; false if there was no room for all of them.
    pub fn add(&mut self, keys: &[Key]) -> bool {
        let (settled, mut has_room) = (Instant::now() + DOUBT, true);
        for key in keys {
            if self.keys.len() < DOUBTFUL || self.keys.contains_key(key) {
                self.keys.insert(key.clone(), settled);
            } else {
                (self.unlisted, has_room) = (Some(settled), false);
            }
        }
        has_room
    }

    /// Notes a write whose keys nobody knows.
    pub fn add_unnamed(&mut self) {
        self.unlisted = Some(Instant::now() + DOUBT);
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// A filter is installed: the keys that belong into it. An error says how long none can be built.
    pub fn install(&mut self) -> Result<Vec<Key>, Duration> {
        let now = Instant::now();
        if let Some(unlisted) = self.unlisted.filter(|&unlisted| now < unlisted) {
            return Err(unlisted - now);
        }
        self.unlisted = None;
        self.installed = Some(now);
        Ok(self.keys.keys().cloned().collect())
    }

    /// The filter that was installed is in force: what had settled before its scan is in it, or never was written.
    pub fn swapped(&mut self) {
        if let Some(installed) = self.installed.take() {
            self.keys.retain(|_, settled| *settled > installed);
            self.keys.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::from(number as i64)
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_kept_once_and_until_a_scan_that_began_after_it_settled() {
        let mut doubtful = Doubtful::default();
        for _ in 0..10 {
            assert!(doubtful.add(&[key(1), key(2)]));
        }
        assert_eq!(doubtful.len(), 2);
        assert_eq!(doubtful.install().unwrap().len(), 2);
        tokio::time::advance(DOUBT * 2).await;
        doubtful.swapped();
        assert_eq!(doubtful.len(), 2, "the scan may have begun before they happened");
        doubtful.install().unwrap();
        doubtful.add(&[key(2)]);
        doubtful.swapped();
        assert_eq!(doubtful.len(), 1, "the second was written again meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn with_more_than_can_be_kept_nothing_is_built_until_all_have_settled() {
        let mut doubtful = Doubtful::default();
        let keys: Vec<Key> = (0..DOUBTFUL).map(key).collect();
        assert!(doubtful.add(&keys) && doubtful.add(&keys), "the same ones again take no room");
        assert!(!doubtful.add(&[key(DOUBTFUL)]));
        assert!(doubtful.add(&[key(5)]), "known ones always have room");
        assert_eq!(doubtful.install().unwrap_err(), DOUBT);
        tokio::time::advance(DOUBT).await;
        assert_eq!(doubtful.install().unwrap().len(), DOUBTFUL);
        doubtful.swapped();
        assert_eq!(doubtful.len(), 0);
    }
}
