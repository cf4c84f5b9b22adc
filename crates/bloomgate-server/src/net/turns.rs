//! What waits for somebody's time, by turns of those it is for: one who brings much waits for one of each of the others, and
//! they for one of theirs.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// What waits, by whom it is for.
#[derive(Debug)]
pub struct Turns<K, T> {
    waiting: BTreeMap<K, VecDeque<T>>,
    count: usize,
    last: Option<K>,
}

impl<K, T> Default for Turns<K, T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), count: 0, last: None }
    }
}

impl<K: Ord + Clone, T> Turns<K, T> {
    /// Lets one wait.
    pub fn push(&mut self, of: K, one: T) {
        self.waiting.entry(of).or_default().push_back(one);
        self.count += 1;
    }

    /// The next one, of whom comes after the last and may have a turn now.
    pub fn pop(&mut self, may: impl Fn(&K) -> bool) -> Option<T> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.waiting.range::<K, _>((after, Bound::Unbounded)).map(|(of, _)| of);
        let of = later.chain(self.waiting.keys()).find(|of| may(of))?.clone();
        let queue = self.waiting.get_mut(&of)?;
        let one = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&of);
        }
        self.last = Some(of);
        self.count -= usize::from(one.is_some());
        one
    }

    /// Of whom most wait.
    pub fn longest(&self) -> Option<&K> {
        self.waiting.iter().max_by_key(|(_, queue)| queue.len()).map(|(of, _)| of)
    }

    /// Gives up the last one of somebody.
    pub fn pop_last(&mut self, of: &K) -> Option<T> {
        let queue = self.waiting.get_mut(of)?;
        let one = queue.pop_back();
        if queue.is_empty() {
            self.waiting.remove(of);
        }
        self.count -= usize::from(one.is_some());
        one
    }

    /// Keeps those that are still wanted.
    pub fn retain(&mut self, mut wanted: impl FnMut(&T) -> bool) {
        for queue in self.waiting.values_mut() {
            queue.retain(&mut wanted);
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        self.count = self.waiting.values().map(VecDeque::len).sum();
    }

    /// Those of one that wait.
    pub fn those_of(&self, of: &K) -> impl Iterator<Item = &T> {
        self.waiting.get(of).into_iter().flatten()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// How many of one wait.
    #[must_use]
    pub fn of(&self, of: &K) -> usize {
        self.waiting.get(of).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_and_who_may_not_is_passed_over() {
        let mut turns = Turns::default();
        for (of, number) in [(5, 0), (5, 1), (5, 2), (7, 0), (1, 0), (1, 1)] {
            turns.push(of, (of, number));
        }
        assert_eq!((turns.len(), turns.of(&5), turns.of(&9)), (6, 3, 0));
        assert_eq!(turns.pop(|_| true), Some((1, 0)));
        assert_eq!(turns.pop(|_| true), Some((5, 0)));
        assert_eq!(turns.pop(|&of| of != 7), Some((1, 1)), "seven may not, and five had its turn");
        assert_eq!(turns.pop(|&of| of == 9), None);
        assert_eq!(turns.pop(|_| true), Some((5, 1)));
        assert_eq!(turns.pop(|_| true), Some((7, 0)));
        assert_eq!(turns.pop(|_| true), Some((5, 2)));
        assert!(turns.pop(|_| true).is_none() && turns.is_empty() && turns.waiting.is_empty());
    }

    #[test]
    fn some_are_given_up() {
        let mut turns = Turns::default();
        for (of, number) in [(5, 0), (5, 1), (7, 0), (5, 2), (1, 0)] {
            turns.push(of, (of, number));
        }
        assert_eq!(turns.longest(), Some(&5));
        assert_eq!((turns.pop_last(&5), turns.pop_last(&7), turns.pop_last(&7)), (Some((5, 2)), Some((7, 0)), None));
        turns.retain(|one| *one != (5, 0));
        assert_eq!((turns.len(), turns.of(&5), turns.of(&7)), (2, 1, 0));
        assert_eq!(turns.those_of(&5).collect::<Vec<_>>(), [&(5, 1)]);
        turns.retain(|_| false);
        assert!(turns.is_empty() && turns.longest().is_none() && turns.waiting.is_empty());
    }
}
