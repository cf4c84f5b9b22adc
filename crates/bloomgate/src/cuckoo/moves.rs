//! What happens to the slots: a fingerprint comes, others make way for it, one goes.
//!
//! **Copies.** A fingerprint that comes again is stored again, so that keys that look alike can go one by one; but only
//! up to four copies. The fourth makes it *stick*: from then on it may stand for any number of keys, further ones are
//! taken without a slot, and none of them is ever removed. So one key, inserted for ever, takes four of the eight slots
//! that its neighbours share with it and leaves four; and all of this is read off the slots, there is no other state.
//!
//! **Making way.** A breadth-first search from the two full buckets finds the shortest chain of moves to a free slot
//! before anything is moved, so a refusal changes nothing. Moves are made from the free end: every fingerprint is in its
//! new slot before its old one is overwritten. Everything follows from the slots and the key: the same inserts in the
//! same order make the same words, everywhere.

use crate::arch::cuckoo::Table;
use crate::arch::words::{ReadWords, WriteWords};
use crate::hash::Digest;

/// So many copies of a fingerprint stick.
pub(crate) const STICKS_AT: u32 = 4;

/// The most copies of one key that are held and removed exactly. One more sticks: it stands for any number of keys and is
/// never removed. Who must not let that happen asks [`count_of_digest`](crate::Cuckoo::count_of_digest) first, and inserts
/// only while it says less than this.
///
/// ```
/// use bloomgate::cuckoo::{Cuckoo, MAX_COPIES};
///
/// let mut held = Cuckoo::builder().items(100).build()?;
/// let digest = held.contract().digest("a key")?;
/// while held.count_of_digest(digest)? < MAX_COPIES {
///     held.insert_digest(digest)?;
/// }
/// assert!((0..MAX_COPIES).all(|_| held.remove_digest(digest)) && !held.contains_digest(digest));
/// # Ok::<(), bloomgate::Error>(())
/// ```
pub const MAX_COPIES: u64 = STICKS_AT as u64 - 1;

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
pub(crate) fn insert<W: WriteWords>(table: &Table, words: &mut W, digest: Digest, room: bool) -> Inserted {
    place(table, words, table.home(digest), table.fingerprint(digest), room)
}

/// Inserts a fingerprint, given one of its buckets.
#[inline]
pub(crate) fn place<W: WriteWords>(table: &Table, words: &mut W, first: u64, fingerprint: u64, room: bool) -> Inserted {
    let second = table.other(first, fingerprint);
    let (a, b) = (table.slots(words.read(), first), table.slots(words.read(), second));
    let copies = matching(a, fingerprint) + matching(b, fingerprint);
    if copies >= STICKS_AT {
        return Inserted::Sticky;
    }
    if !room {
        return Inserted::Refused;
    }
    // The emptier of the two: half as many keys have to make way later.
    let (free_a, free_b) = (matching(a, 0), matching(b, 0));
    if free_a + free_b > 0 {
        let (bucket, slots) = if free_a >= free_b { (first, a) } else { (second, b) };
        table.put(words, bucket, slots.iter().position(|&slot| slot == 0).unwrap_or(0), fingerprint);
    } else if !make_way(table, words, [first, second], fingerprint) {
        return Inserted::Refused;
    }
    if copies == 0 { Inserted::New } else { Inserted::Copy }
}

/// Moves others until there is a slot in one of two full buckets, and takes it; false if there is no way.
#[cold]
fn make_way<W: WriteWords>(table: &Table, words: &mut W, roots: [u64; 2], fingerprint: u64) -> bool {
    let mut near = [Step::default(); NEAR];
    if let Some(end) = search(table, words.read(), roots, &mut near) {
        walk(table, words, &near, end, fingerprint);
        return true;
    }
    for buckets in FAR {
        let mut far = vec![Step::default(); buckets];
        if let Some(end) = search(table, words.read(), roots, &mut far) {
            walk(table, words, &far, end, fingerprint);
            return true;
        }
    }
    false
}

/// The first step that leads to a free slot, and that slot. Breadth first, so no bucket comes twice on the way to it:
/// what can be reached from a bucket was reached from where it came first.
#[inline]
fn search<W: ReadWords>(table: &Table, words: W, roots: [u64; 2], steps: &mut [Step]) -> Option<(usize, usize)> {
    steps[0].bucket = roots[0];
    steps[1].bucket = roots[1];
    let (mut at, mut end) = (0, 2);
    while at < end {
        let bucket = steps[at].bucket;
        let slots = table.slots(words, bucket);
        if let Some(free) = slots.iter().position(|&slot| slot == 0) {
            return Some((at, free));
        }
        for (slot, &fingerprint) in slots.iter().enumerate() {
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
pub(crate) fn remove<W: WriteWords>(table: &Table, words: &mut W, digest: Digest) -> Removed {
    let (first, fingerprint) = (table.home(digest), table.fingerprint(digest));
    let second = table.other(first, fingerprint);
    let (a, b) = (table.slots(words.read(), first), table.slots(words.read(), second));
    if matching(a, fingerprint) + matching(b, fingerprint) >= STICKS_AT {
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
