//! What must be true of keys that come and go: the driver's own record of every write, held against every answer.
//!
//! A key's writes have one author and so an order. The author marks the record before a write begins and after it is
//! acknowledged; who looks the key up reads the record before and after. Where both say the same, there is one right
//! answer. Where a write was in flight, both its sides are right.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is known about a key at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Absent,
    Present,
    /// An insertion or a deletion is in flight.
    Changing,
    /// A row replaces another: there is one all the time.
    Replacing,
    /// The last write failed in a way that may still take effect.
    Unsure,
}

const STANDINGS: [Standing; 5] =
    [Standing::Absent, Standing::Present, Standing::Changing, Standing::Replacing, Standing::Unsure];

/// A look at the record of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    version: u64,
    standing: Standing,
}

/// What an answer is, held against the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One of the right answers.
    Right,
    /// "No" of a key that was there.
    WrongNo,
    /// A row of a key that was deleted before the lookup began.
    WrongYes,
    /// A row, but not the one that was written last.
    OldRow,
}

/// The records of all keys that come and go.
pub struct Model {
    slots: Vec<AtomicU64>,
}

impl Model {
    /// None of the keys is there.
    pub fn new(slots: u64) -> Self {
        Self { slots: (0..slots).map(|_| AtomicU64::new(0)).collect() }
    }

    /// What is known now.
    pub fn look(&self, slot: u64) -> Sight {
        let word = self.slots[slot as usize].load(Ordering::SeqCst);
        Sight { version: word >> 3, standing: STANDINGS[(word & 7) as usize % STANDINGS.len()] }
    }

    /// A write of this key begins; the version of its row. Only its author calls this.
    pub fn begin(&self, slot: u64, put: bool) -> u64 {
        let sight = self.look(slot);
        let replaces = put && sight.standing == Standing::Present;
        let version = sight.version + 1;
        self.set(slot, version, if replaces { Standing::Replacing } else { Standing::Changing });
        version
    }

    /// The write was acknowledged: the row is there, or it is not; or nobody knows.
    pub fn end(&self, slot: u64, there: Option<bool>) {
        let standing = match there {
            Some(true) => Standing::Present,
            Some(false) => Standing::Absent,
            None => Standing::Unsure,
        };
        self.set(slot, self.look(slot).version, standing);
    }

    fn set(&self, slot: u64, version: u64, standing: Standing) {
        let place = STANDINGS.iter().position(|one| *one == standing).unwrap_or(0) as u64;
        self.slots[slot as usize].store(version << 3 | place, Ordering::SeqCst);
    }

    /// Holds an answer (the version of the row that was found) against what was known before and after the lookup.
    pub fn judge(&self, slot: u64, before: Sight, found: Option<u64>) -> Verdict {
        let after = self.look(slot);
        let is_there = |sight: Sight| matches!(sight.standing, Standing::Present | Standing::Replacing);
        // It was there all the time: nothing happened, or one replacement began or ended.
        let steady = before.version == after.version
            || (after.version == before.version + 1
                && before.standing == Standing::Present
                && after.standing == Standing::Replacing);
        let all_the_time = steady && is_there(before) && is_there(after);
        match found {
            None if all_the_time => Verdict::WrongNo,
            Some(_) if before == after && before.standing == Standing::Absent => Verdict::WrongYes,
            Some(version) if before == after && before.standing == Standing::Present && version != before.version => {
                Verdict::OldRow
            }
            _ => Verdict::Right,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_wrong_only_where_one_answer_is_right() {
        let model = Model::new(2);
        let judge = |before: Sight, found: Option<u64>| model.judge(1, before, found);
        // Never written.
        let never = model.look(1);
        assert_eq!((judge(never, None), judge(never, Some(1))), (Verdict::Right, Verdict::WrongYes));
        // An insertion in flight: both are right, also for who began before it.
        assert_eq!(model.begin(1, true), 1);
        for before in [never, model.look(1)] {
            assert_eq!((judge(before, None), judge(before, Some(1))), (Verdict::Right, Verdict::Right));
        }
        model.end(1, Some(true));
        let first = model.look(1);
        assert_eq!((judge(never, None), judge(first, None)), (Verdict::Right, Verdict::WrongNo));
        assert_eq!((judge(first, Some(1)), judge(first, Some(7))), (Verdict::Right, Verdict::OldRow));
        // A replacement: there is a row all the time, the old one or the new one.
        assert_eq!(model.begin(1, true), 2);
        for before in [first, model.look(1)] {
            assert_eq!(
                [None, Some(1), Some(2)].map(|found| judge(before, found)),
                [Verdict::WrongNo, Verdict::Right, Verdict::Right]
            );
        }
        model.end(1, Some(true));
        let second = model.look(1);
        assert_eq!((judge(second, Some(1)), judge(second, Some(2))), (Verdict::OldRow, Verdict::Right));
        // A deletion in flight, then done.
        model.begin(1, false);
        assert_eq!((judge(second, None), judge(second, Some(2))), (Verdict::Right, Verdict::Right));
        model.end(1, Some(false));
        assert_eq!((judge(model.look(1), None), judge(model.look(1), Some(2))), (Verdict::Right, Verdict::WrongYes));
        // A deletion and an insertion within one lookup: it may have seen the gap.
        model.begin(1, true);
        model.end(1, Some(true));
        assert_eq!(judge(second, None), Verdict::Right);
        // Nobody knows what became of a write.
        model.begin(1, false);
        model.end(1, None);
        let unsure = model.look(1);
        assert_eq!((judge(unsure, None), judge(unsure, Some(2))), (Verdict::Right, Verdict::Right));
        assert_eq!(model.look(0), never, "the other key is as it was");
    }
}
