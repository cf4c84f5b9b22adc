//! What happens to the slots: a fingerprint comes, others make way for it, one goes.
//!
//! **Copies.** A fingerprint that comes again is stored again, so that keys that look alike can go one by one; but only
//! up to four copies. The fourth makes it *stick*: from then on it may stand for any number of keys, further ones are
//! taken without a slot, and none of them is ever removed. So one key, inserted for ever, takes four of the eight slots
//! that its neighbours share with it and leaves four. A filter of the other [rule](CopyRule) gives copies all eight slots,
//! lets each go again, and refuses the ninth. Either way all of it is read off the slots, there is no other state.
//!
//! **Making way.** A breadth-first search from the two full buckets finds the shortest chain of moves to a free slot
//! before anything is moved, so a refusal changes nothing. Moves are made from the free end: every fingerprint is in its
//! new slot before its old one is overwritten. Everything follows from the slots and the key: the same inserts in the
//! same order make the same words, everywhere.

use crate::arch::cuckoo::Table;
use crate::arch::words::{ReadWords, WriteWords};
use crate::hash::Digest;

use super::CopyRule;

/// Buckets looked at in a search that need not allocate: at 94.5 % load a third of the inserts needs none, and all but
/// one in fifty find a free slot within these (12 on average).
const NEAR: usize = 64;
/// Buckets looked at in the searches after it, before a key is refused. A table of 64 k buckets fills to 97 % so.
const FAR: [usize; 2] = [512, 2048];

/// What became of a fingerprint that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// There was none like it.
    New,
    /// There was one like it, and there is one more now.
    Copy,
    /// It sticks: nothing changed, and it is covered.
    Sticky,
    /// There is no room, and nothing changed.
    Refused,
    /// All its slots hold copies of it, which are exact: one more could not be told, and nothing changed.
    TooMany,
}

/// What became of a fingerprint that should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removed {
    /// There was none.
    Absent,
    /// One copy is gone.
    One,
    /// It sticks: nothing changed.
    Sticky,
}

/// A bucket that was looked at, and from which slot of which earlier one.
#[derive(Clone, Copy, Default)]
struct Step {
    bucket: u64,
    from: u32,
    slot: u32,
}

/// Copies of a fingerprint in its two buckets.
#[inline]
pub(crate) fn copies<W: ReadWords>(table: &Table, words: W, bucket: u64, fingerprint: u64) -> u32 {
    let other = table.other(bucket, fingerprint);
    matching(table.slots(words, bucket), fingerprint) + matching(table.slots(words, other), fingerprint)
}

#[inline(always)]
fn matching(slots: [u64; 4], fingerprint: u64) -> u32 {
    slots.iter().map(|&slot| u32::from(slot == fingerprint)).sum()
}

/// Inserts a key; only if there is `room`, or if it sticks already.
#[inline]
pub(crate) fn insert<W: WriteWords>(
    table: &Table,
    words: &mut W,
    digest: Digest,
    rule: CopyRule,
    room: bool,
) -> Inserted {
    place(table, words, (table.home(digest), table.fingerprint(digest)), rule, room)
}

/// Inserts a fingerprint, given after one of its buckets.
#[inline]
pub(crate) fn place<W: WriteWords>(
    table: &Table,
    words: &mut W,
    (first, fingerprint): (u64, u64),
    rule: CopyRule,
    room: bool,
) -> Inserted {
    let second = table.other(first, fingerprint);
    let (a, b) = (table.slots(words.read(), first), table.slots(words.read(), second));
    let copies = matching(a, fingerprint) + matching(b, fingerprint);
    if copies >= rule.most() {
        return if rule.sticks(copies) { Inserted::Sticky } else { Inserted::TooMany };
    }
    if !room {
        return Inserted::Refused;
    }
    // The emptier of the two: half as many keys have to make way later.
    let (free_a, free_b) = (matching(a, 0), matching(b, 0));
    if free_a + free_b > 0 {
        let (bucket, slots) = if free_a >= free_b { (first, a) } else { (second, b) };
        table.put(words, bucket, slots.iter().position(|&slot| slot == 0).unwrap_or(0), fingerprint);
    } else if !make_way(table, words, [first, second], fingerprint, rule) {
        return Inserted::Refused;
    }
    if copies == 0 { Inserted::New } else { Inserted::Copy }
}

/// Moves others until there is a slot in one of two full buckets, and takes it; false if there is no way.
#[cold]
fn make_way<W: WriteWords>(table: &Table, words: &mut W, roots: [u64; 2], fingerprint: u64, rule: CopyRule) -> bool {
    let mut near = [Step::default(); NEAR];
    if let Some(end) = search(table, words.read(), roots, rule, &mut near) {
        walk(table, words, &near, end, fingerprint);
        return true;
    }
    for buckets in FAR {
        let mut far = vec![Step::default(); buckets];
        if let Some(end) = search(table, words.read(), roots, rule, &mut far) {
            walk(table, words, &far, end, fingerprint);
            return true;
        }
    }
    false
}

/// The first step that leads to a free slot, and that slot. Breadth first, so no bucket comes twice on the way to it:
/// what can be reached from a bucket was reached from where it came first.
///
/// Where all eight slots may hold one key, its copies lead from one of its buckets to the other and back, and would use up
/// the steps: there a bucket is entered once from a bucket, and not from where it leads back to. Elsewhere the order in
/// which buckets are looked at stays what it always was, so that a log that is read again finds room where it did.
#[inline]
fn search<W: ReadWords>(
    table: &Table,
    words: W,
    roots: [u64; 2],
    rule: CopyRule,
    steps: &mut [Step],
) -> Option<(usize, usize)> {
    steps[0].bucket = roots[0];
    steps[1].bucket = roots[1];
    let (mut at, mut end) = (0, 2);
    while at < end {
        let bucket = steps[at].bucket;
        let slots = table.slots(words, bucket);
        if let Some(free) = slots.iter().position(|&slot| slot == 0) {
            return Some((at, free));
        }
        // The bucket that the search came from; of the two it began with, each other.
        let before = if at < 2 { roots[1 - at] } else { steps[steps[at].from as usize].bucket };
        for (slot, &fingerprint) in slots.iter().enumerate() {
            if rule == CopyRule::Exact
                && (table.other(bucket, fingerprint) == before || slots[..slot].contains(&fingerprint))
            {
                continue;
            }
            if let Some(step) = steps.get_mut(end) {
                let bucket = table.other(bucket, fingerprint);
                table.fetch(words, bucket);
                *step = Step { bucket, from: at as u32, slot: slot as u32 };
                end += 1;
            }
        }
        at += 1;
    }
    None
}

/// Makes the moves of a search, from its end; then the new fingerprint takes the slot that became free.
fn walk<W: WriteWords>(
    table: &Table,
    words: &mut W,
    steps: &[Step],
    (mut at, mut free): (usize, usize),
    fingerprint: u64,
) {
    while at >= 2 {
        let Step { bucket, from, slot } = steps[at];
        let before = steps[from as usize].bucket;
        let moved = table.slots(words.read(), before)[slot as usize];
        table.put(words, bucket, free, moved);
        (at, free) = (from as usize, slot as usize);
    }
    table.put(words, steps[at].bucket, free, fingerprint);
}

/// Removes one copy of a key's fingerprint.
pub(crate) fn remove<W: WriteWords>(table: &Table, words: &mut W, digest: Digest, rule: CopyRule) -> Removed {
    let (first, fingerprint) = (table.home(digest), table.fingerprint(digest));
    let second = table.other(first, fingerprint);
    let (a, b) = (table.slots(words.read(), first), table.slots(words.read(), second));
    if rule.sticks(matching(a, fingerprint) + matching(b, fingerprint)) {
        return Removed::Sticky;
    }
    for (bucket, slots) in [(first, a), (second, b)] {
        if let Some(slot) = slots.iter().position(|&slot| slot == fingerprint) {
            table.put(words, bucket, slot, 0);
            return Removed::One;
        }
    }
    Removed::Absent
}
