//! What each name has, what a change makes of it, and how what is found is told from what should be.

use std::collections::{BTreeMap, BTreeSet};

/// Names that the filters have among them.
pub const PLACES: usize = 12;
/// Keys of a mark, and marks of a filter at most: the smallest is made for a hundred keys.
pub const KEYS: usize = 32;
pub const MOST_MARKS: usize = 3;
/// So many keys of a stranger's mark may seem to be there: at 1 % nine of 32 do by chance once in 10^10 times.
pub const STRAYS: usize = 8;

/// How the filters are made that may stand for each other: merged, or built from lines.
const SMALL: &[&str] = &["KIND", "blocked", "CAPACITY", "300", "RATE", "0.01"];
const LARGE: &[&str] = &["KIND", "blocked", "CAPACITY", "900000", "RATE", "0.001"];

/// A sort of filter.
pub struct Class {
    /// What makes one: a command, and what stands behind the name.
    pub word: &'static str,
    pub rest: &'static [&'static str],
    /// Whose commands dump and load it.
    pub family: &'static str,
    /// It can be merged with others, and built.
    pub joins: bool,
    /// It is under a contract of its own, and moves to new secrets.
    pub rekeys: bool,
}

/// Those that are kept as words, in the log's own records (up to 1 MiB) and in files of their own.
pub const CLASSES: [Class; 6] = [
    Class { word: "BF.RESERVE", rest: &["0.01", "100"], family: "BF", joins: false, rekeys: false },
    Class { word: "BG.CREATE", rest: SMALL, family: "BF", joins: true, rekeys: false },
    Class { word: "BG.CREATE", rest: LARGE, family: "BF", joins: true, rekeys: false },
    Class { word: "BF.RESERVE", rest: &["0.001", "900000"], family: "BF", joins: false, rekeys: false },
    Class {
        word: "BG.CREATE",
        rest: &["KIND", "cuckoo", "CAPACITY", "400", "RATE", "0.001"],
        family: "CF",
        joins: false,
        rekeys: false,
    },
    Class {
        word: "BG.CREATE",
        rest: &["KIND", "classic", "CAPACITY", "300", "RATE", "0.001", "CONTRACT", "drill"],
        family: "BF",
        joins: false,
        rekeys: true,
    },
];

pub fn name(place: usize) -> String {
    format!("drill:name:{place}")
}

/// The filter of a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub class: usize,
    pub marks: BTreeSet<u32>,
    /// When it ends, in milliseconds since 1970; 0: never.
    pub expires: u64,
}

/// What each name has.
pub type State = Vec<Option<Held>>;

/// A change. A transaction is one.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new filter with a mark, in one transaction, which deletes the one that has the name.
    Make {
        at: usize,
        class: usize,
        mark: u32,
    },
    /// One more mark, in one transaction.
    Mark {
        at: usize,
        mark: u32,
    },
    Copy {
        from: usize,
        to: usize,
    },
    Swap {
        one: usize,
        other: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Delete {
        at: usize,
    },
    Expire {
        at: usize,
        ms: u64,
    },
    Persist {
        at: usize,
    },
    Merge {
        into: usize,
        from: usize,
    },
    /// A dump, in chunks, to a name that is free.
    Load {
        from: usize,
        to: usize,
    },
    /// A filter from a file of lines in the place of what has the name.
    Build {
        at: usize,
        class: usize,
        mark: u32,
    },
    /// To another secret and back in its place: nothing that anybody sees.
    Rekey {
        at: usize,
    },
}

impl Change {
    pub fn is_possible(&self, state: &State) -> bool {
        let held = |place: &usize| state[*place].as_ref();
        match self {
            Change::Make { .. } => true,
            Change::Mark { at, .. } => held(at).is_some_and(|held| held.marks.len() < MOST_MARKS),
            Change::Copy { from, to } | Change::Rename { from, to } => from != to && held(from).is_some(),
            Change::Swap { one, other } => held(one).is_some() && held(other).is_some() && held(one) != held(other),
            Change::Delete { at } | Change::Expire { at, .. } => held(at).is_some(),
            Change::Persist { at } => held(at).is_some_and(|held| held.expires != 0),
            Change::Merge { into, from } => {
                let Some(source) = held(from).filter(|source| into != from && CLASSES[source.class].joins) else {
                    return false;
                };
                held(into).is_none_or(|target| {
                    let union = target.marks.union(&source.marks).count();
                    target.class == source.class && (target.marks.len() + 1..=MOST_MARKS).contains(&union)
                })
            }
            Change::Load { from, to } => held(from).is_some() && held(to).is_none(),
            Change::Build { class, .. } => CLASSES[*class].joins,
            Change::Rekey { at } => held(at).is_some_and(|held| CLASSES[held.class].rekeys),
        }
    }

    /// What it makes of the names.
    pub fn apply(&self, state: &mut State) {
        let new = |class: usize, mark: u32| Some(Held { class, marks: BTreeSet::from([mark]), expires: 0 });
        match *self {
            Change::Make { at, class, mark } | Change::Build { at, class, mark } => state[at] = new(class, mark),
            Change::Mark { at, mark } => {
                if let Some(held) = &mut state[at] {
                    held.marks.insert(mark);
                }
            }
            // With its end.
            Change::Copy { from, to } => state[to] = state[from].clone(),
            Change::Swap { one, other } => state.swap(one, other),
            Change::Rename { from, to } => state[to] = state[from].take(),
            Change::Delete { at } => state[at] = None,
            Change::Expire { at, ms } => {
                if let Some(held) = &mut state[at] {
                    held.expires = ms;
                }
            }
            Change::Persist { at } => {
                if let Some(held) = &mut state[at] {
                    held.expires = 0;
                }
            }
            Change::Merge { into, from } => {
                let source = state[from].clone();
                match (&mut state[into], source) {
                    (Some(target), Some(source)) => target.marks.extend(source.marks),
                    // A filter that a merge makes does not end.
                    (none, source) => *none = source.map(|source| Held { expires: 0, ..source }),
                }
            }
            // No more does one that is loaded.
            Change::Load { from, to } => state[to] = state[from].clone().map(|held| Held { expires: 0, ..held }),
            Change::Rekey { .. } => {}
        }
    }
}

/// What a name is found to be.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub is_there: bool,
    pub expires: u64,
    /// Of each mark that was asked for, how many keys.
    pub keys: BTreeMap<u32, usize>,
}

/// In what a name differs from what it should be.
fn difference(seen: &Seen, held: Option<&Held>) -> Option<String> {
    let Some(held) = held else {
        return seen.is_there.then(|| "is there, and should not be".into());
    };
    if !seen.is_there {
        return Some(format!("is gone, and should be {held:?}"));
    }
    if seen.expires != held.expires {
        return Some(format!("ends at {}, and should at {} (0: never)", seen.expires, held.expires));
    }
    if let Some(mark) = held.marks.iter().find(|mark| !seen.keys.contains_key(mark)) {
        return Some(format!("was not asked for mark {mark}"));
    }
    seen.keys.iter().find_map(|(mark, &keys)| match held.marks.contains(mark) {
        true if keys < KEYS => Some(format!("has {keys} of {KEYS} keys of its mark {mark}, and should be {held:?}")),
        false if keys > STRAYS => Some(format!("has {keys} keys of mark {mark}, which is not its own: {held:?}")),
        _ => None,
    })
}

/// After how many changes the names are what they are found to be, the most there is; or in what they differ where they differ least.
pub fn moment(states: &[State], seen: &[Seen]) -> Result<usize, String> {
    let differences = |state: &State| -> Vec<String> {
        let each = seen.iter().zip(state).enumerate();
        each.filter_map(|(place, (seen, held))| {
            difference(seen, held.as_ref()).map(|what| format!("{} {what}", name(place)))
        })
        .collect()
    };
    let mut nearest: Option<(usize, Vec<String>)> = None;
    for (count, state) in states.iter().enumerate().rev() {
        let different = differences(state);
        if different.is_empty() {
            return Ok(count);
        }
        if nearest.as_ref().is_none_or(|(_, least)| different.len() < least.len()) {
            nearest = Some((count, different));
        }
    }
    let (count, different) = nearest.unwrap_or_default();
    Err(format!("the names are those of no moment; nearest is after {count} changes, but {}", different.join("; ")))
}

/// The same names with two of them swapped, if there are two that differ.
pub fn swapped(state: &State) -> Option<State> {
    let filters = || (0..state.len()).filter(|&place| state[place].is_some());
    let (one, other) = filters().find_map(|one| {
        let other = filters().find(|&other| state[other] != state[one])?;
        Some((one, other))
    })?;
    let mut swapped = state.clone();
    swapped.swap(one, other);
    Some(swapped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_do_to_names_what_they_say() {
        let mut state: State = vec![None; 4];
        let after = |state: &mut State, change: Change| {
            assert!(change.is_possible(state), "{change:?} of {state:?}");
            change.apply(state);
            state.iter().map(|held| held.as_ref().map(|held| (held.marks.clone(), held.expires))).collect::<Vec<_>>()
        };
        let set = |marks: &[u32]| marks.iter().copied().collect::<BTreeSet<u32>>();
        after(&mut state, Change::Make { at: 0, class: 1, mark: 0 });
        after(&mut state, Change::Make { at: 1, class: 1, mark: 1 });
        after(&mut state, Change::Expire { at: 0, ms: 9 });
        let names = after(&mut state, Change::Copy { from: 0, to: 2 });
        assert_eq!(names[2], Some((set(&[0]), 9)), "a copy ends when its source does");
        let names = after(&mut state, Change::Merge { into: 1, from: 2 });
        assert_eq!(names[1], Some((set(&[0, 1]), 0)));
        let names = after(&mut state, Change::Merge { into: 3, from: 0 });
        assert_eq!(names[3], Some((set(&[0]), 0)), "a new one of a merge does not end");
        let names = after(&mut state, Change::Rename { from: 1, to: 3 });
        assert_eq!((&names[1], &names[3]), (&None, &Some((set(&[0, 1]), 0))));
        let names = after(&mut state, Change::Swap { one: 0, other: 3 });
        assert_eq!((&names[0], &names[3]), (&Some((set(&[0, 1]), 0)), &Some((set(&[0]), 9))));
        let names = after(&mut state, Change::Load { from: 3, to: 1 });
        assert_eq!(names[1], Some((set(&[0]), 0)));
        let impossible = [
            Change::Swap { one: 0, other: 0 },
            Change::Load { from: 0, to: 1 },
            Change::Merge { into: 0, from: 1 },
            Change::Rekey { at: 0 },
            Change::Persist { at: 0 },
        ];
        assert!(impossible.iter().all(|change| !change.is_possible(&state)), "{state:?}");
    }
}
