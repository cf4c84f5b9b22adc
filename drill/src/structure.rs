//! Structural writes: filters that are made, copied, renamed, swapped, merged, loaded, built, rekeyed and deleted beside the load, and
//! after a restart the question: is every name what it was?
//!
//! One connection makes one change after the other. Each filter is marked by keys of its own, which no other was ever given,
//! so what a name answers tells which filter it is, and whether all of it is there. A server keeps one log: what is left after a restart
//! is what some number of the changes made, the first so many of them, and one number has to explain all names at once. It
//! is at least as large as the policy promises; the one change that had no reply may be in it or not.
//!
//! What is asked of a name: whether it is there, when it ends to the millisecond, all keys of each of its marks, and the keys
//! of all other marks there were, of which it may answer "maybe" to no more than its rate explains.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::random::Random;
use crate::subject::{Kind, Subject};
use crate::system;
use crate::wire::{Reply, Wire};

mod names;

use names::{CLASSES, Change, Class, KEYS, PLACES, Seen, State, moment, name, swapped};

/// Between two changes. Each fourth or so writes a file of 1.6 MB and waits for the disk: more of them would leave none for the load.
const PAUSE: Duration = Duration::from_millis(5);
/// Filters that end do so after the year 2100.
const FAR_MS: u64 = 4_102_444_800_000;
/// What BG.BUILD reads.
const LINES: &str = "lines.txt";

/// The folder from which filters are built, beside that of the data.
pub fn import_folder(data: &Path) -> PathBuf {
    data.with_file_name("import")
}

/// Makes that folder, before a server is started that is to read from it.
pub fn lay_out(data: &Path) -> Result<(), String> {
    let folder = import_folder(data);
    fs::create_dir_all(&folder).map_err(|error| format!("make {}: {error}", folder.display()))
}

/// What a check found.
#[derive(Default, Debug)]
pub struct Found {
    /// Changes acknowledged since the last check.
    pub made: u64,
    /// Acknowledged changes that are not in the names any more.
    pub lost: u64,
    /// The time of the earliest acknowledgement among them.
    pub oldest: Option<u64>,
    /// The names were told from the same names with two of them swapped: what a control run has to find.
    pub told_apart: u64,
    /// What breaks the promise.
    pub wrong: Option<String>,
}

impl Found {
    /// What breaks a promise.
    pub fn verdict(&self) -> Result<(), String> {
        self.wrong.clone().map_or(Ok(()), Err)
    }
}

/// The changes of one connection.
#[derive(Clone)]
pub struct Structure {
    prefix: String,
    import: PathBuf,
    random: Random,
    next_mark: u32,
    /// The names as they were at the last check, and as they are by all that was acknowledged.
    base: State,
    state: State,
    /// Changes since the last check, in the order sent, and when each was acknowledged.
    changes: Vec<(Change, Option<u64>)>,
    /// A change that was refused; none follows it.
    refusal: Option<String>,
}

impl Structure {
    /// A script whose marks are none of another `epoch`. `import`: where the server reads what it builds.
    pub fn new(seed: u64, epoch: u64, import: PathBuf) -> Structure {
        Structure {
            prefix: format!("{seed:x}.{epoch}.s:"),
            import,
            random: Random::new(seed, epoch << 16 | 0x57c7),
            next_mark: 0,
            base: vec![None; PLACES],
            state: vec![None; PLACES],
            changes: Vec::new(),
            refusal: None,
        }
    }

    fn keys(&self, mark: u32) -> Vec<String> {
        (0..KEYS).map(|key| format!("{}{mark}.{key}", self.prefix)).collect()
    }

    /// The next change: one that can be made of the names as they are.
    fn choose(&mut self) -> Change {
        loop {
            let mut place = || self.random.below(PLACES as u64) as usize;
            let (one, other) = (place(), place());
            let class = self.random.below(CLASSES.len() as u64) as usize;
            let mark = self.next_mark;
            let change = match self.random.below(18) {
                0 | 1 => Change::Make { at: one, class, mark },
                2 => Change::Mark { at: one, mark },
                3..=5 => Change::Copy { from: one, to: other },
                6 | 7 => Change::Swap { one, other },
                8 | 9 => Change::Rename { from: one, to: other },
                10 => Change::Delete { at: one },
                11 => Change::Expire { at: one, ms: FAR_MS + self.random.below(1 << 40) },
                12 => Change::Persist { at: one },
                13 | 14 => Change::Merge { into: one, from: other },
                15 => Change::Load { from: one, to: other },
                16 => Change::Build { at: one, class, mark },
                _ => Change::Rekey { at: one },
            };
            if change.is_possible(&self.state) {
                if matches!(change, Change::Make { .. } | Change::Mark { .. } | Change::Build { .. }) {
                    self.next_mark += 1;
                }
                return change;
            }
        }
    }

    /// Makes changes until `stop`, or until the server is gone or refuses one. A server that does not answer is an error.
    pub fn run(&mut self, subject: &Subject, address: SocketAddr, stop: &AtomicBool) -> Result<(), String> {
        if subject.kind == Kind::Redis {
            return Ok(());
        }
        match self.turns(address, stop) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                let last = self.changes.last().map(|(change, _)| change);
                Err(format!("a structural write had no reply for 30 s: {last:?}"))
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.to_string()),
            // The server was killed: that is the drill.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn turns(&mut self, address: SocketAddr, stop: &AtomicBool) -> io::Result<()> {
        let mut wire = Wire::connect(address, Duration::from_secs(30))?;
        // A cut may have come between a START and its FINISH: a filter that is being rekeyed keeps its name.
        for place in 0..PLACES {
            if self.state[place].as_ref().is_some_and(|held| CLASSES[held.class].rekeys) {
                wire.ask("BG.REKEY", &[name(place).as_str(), "ABORT"])?;
            }
        }
        while !stop.load(Ordering::Relaxed) {
            let change = self.choose();
            self.changes.push((change.clone(), None));
            if let Err(why) = self.make(&change, &mut wire)? {
                self.refusal = Some(format!("{change:?}: {why}"));
                return Ok(());
            }
            change.apply(&mut self.state);
            if let Some((_, at)) = self.changes.last_mut() {
                *at = Some(system::now());
            }
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Says a change and waits for its reply; why it was refused.
    fn make(&self, change: &Change, wire: &mut Wire) -> io::Result<Result<(), String>> {
        let mut say = |words: &[&str]| wire.ask(words[0], &words[1..]).map(|reply| done(&reply));
        match *change {
            Change::Make { at, class, mark } => {
                let Class { word, rest, .. } = CLASSES[class];
                let at_name = name(at);
                let delete = self.state[at].is_some().then(|| vec!["DEL", &at_name[..]]);
                let make: Vec<&str> = [word, &at_name].iter().chain(rest).copied().collect();
                let keys = self.keys(mark);
                together(wire, delete.into_iter().chain([make, add(&at_name, &keys)]))
            }
            Change::Mark { at, mark } => together(wire, [add(&name(at), &self.keys(mark))].into_iter()),
            Change::Copy { from, to } => say(&["COPY", &name(from), &name(to), "REPLACE"]),
            Change::Swap { one, other } => say(&["BG.SWAP", &name(one), &name(other)]),
            Change::Rename { from, to } => say(&["RENAME", &name(from), &name(to)]),
            Change::Delete { at } => say(&["DEL", &name(at)]),
            Change::Expire { at, ms } => say(&["PEXPIREAT", &name(at), &ms.to_string()]),
            Change::Persist { at } => say(&["PERSIST", &name(at)]),
            Change::Merge { into, from } => say(&["BG.MERGE", &name(into), &name(from)]),
            Change::Load { from, to } => self.load(from, to, wire),
            Change::Build { at, class, mark } => {
                let path = self.import.join(LINES);
                if let Err(error) = fs::write(&path, self.keys(mark).join("\n")) {
                    return Ok(Err(format!("write {}: {error}", path.display())));
                }
                let at_name = name(at);
                let words = ["BG.BUILD", &at_name, "FROM", LINES];
                say(&words.iter().chain(CLASSES[class].rest).chain(&["REPLACE"]).copied().collect::<Vec<_>>())
            }
            Change::Rekey { at } => {
                let at_name = name(at);
                let marks = self.state[at].iter().flat_map(|held| &held.marks);
                let keys: Vec<String> = marks.flat_map(|&mark| self.keys(mark)).collect();
                let feed: Vec<&str> =
                    ["BG.FEED", &at_name].into_iter().chain(keys.iter().map(|key| &key[..])).collect();
                for words in [&["BG.REKEY", &at_name, "START"][..], &feed, &["BG.REKEY", &at_name, "FINISH"]] {
                    if let Err(why) = say(words)? {
                        return Ok(Err(why));
                    }
                }
                Ok(Ok(()))
            }
        }
    }

    /// Dumps a filter and loads the dump under another name.
    fn load(&self, from: usize, to: usize, wire: &mut Wire) -> io::Result<Result<(), String>> {
        let Some(held) = &self.state[from] else { return Ok(Err("there is nothing to dump".into())) };
        let family = CLASSES[held.class].family;
        let (from, to) = (name(from), name(to));
        let (dump, load) = (format!("{family}.SCANDUMP"), format!("{family}.LOADCHUNK"));
        let mut chunks = Vec::new();
        let mut iterator = 0;
        loop {
            match wire.ask(&dump, &[&from, &iterator.to_string()])? {
                Reply::Array(mut pair) if pair.len() == 2 => match (pair.remove(0), pair.remove(0)) {
                    (Reply::Integer(0), _) => break,
                    (Reply::Integer(next), Reply::Bulk(bytes)) => {
                        chunks.push((next.to_string(), bytes));
                        iterator = next;
                    }
                    other => return Ok(Err(format!("{dump} was answered {other:?}"))),
                },
                other => return Ok(Err(format!("{dump} was answered {other:?}"))),
            }
        }
        for (iterator, bytes) in &chunks {
            let reply = wire.ask(&load, &[to.as_bytes(), iterator.as_bytes(), bytes])?;
            if let Err(why) = done(&reply) {
                return Ok(Err(why));
            }
        }
        Ok(Ok(()))
    }

    /// A change that was refused where none should be.
    pub fn refused(&self) -> Result<(), String> {
        self.refusal.as_ref().map_or(Ok(()), |why| Err(format!("a structural write was refused: {why}")))
    }

    /// Looks at every name. What was acknowledged up to `until` is counted as lost if it is not there any more; what was up to
    /// `promised` must be there. The script goes on from what there is.
    pub fn check(&mut self, subject: &Subject, wire: &mut Wire, until: u64, promised: u64) -> io::Result<Found> {
        if subject.kind == Kind::Redis {
            return Ok(Found::default());
        }
        let mut states = vec![self.base.clone()];
        for (change, _) in &self.changes {
            let mut next = states[states.len() - 1].clone();
            change.apply(&mut next);
            states.push(next);
        }
        let every = states.iter().flatten().flatten().flat_map(|held| &held.marks);
        let marks: BTreeSet<u32> = every.copied().collect();
        let seen = (0..PLACES).map(|place| self.look(place, &marks, wire)).collect::<io::Result<Vec<_>>>()?;
        let seen: Result<Vec<Seen>, String> = seen.into_iter().collect();
        let (found, now) = match seen {
            Ok(seen) => self.judge(&states, &seen, until, promised),
            Err(why) => (Found { wrong: Some(why), ..Found::default() }, 0),
        };
        self.base = states.swap_remove(now);
        self.state = self.base.clone();
        self.changes.clear();
        self.refusal = None;
        Ok(found)
    }

    /// What became of the changes, and how many of them the names are those of.
    fn judge(&self, states: &[State], seen: &[Seen], until: u64, promised: u64) -> (Found, usize) {
        let acknowledged = |until: u64| {
            let in_time = |(_, at): &&(Change, Option<u64>)| at.is_some_and(|at| at <= until);
            self.changes.iter().take_while(in_time).count()
        };
        let (made, sure) = (acknowledged(until), acknowledged(promised));
        let mut found = Found { made: made as u64, ..Found::default() };
        let now = match moment(states, seen) {
            Ok(now) => now,
            Err(what) => {
                let last = self.changes.last();
                found.wrong = Some(format!("{what} ({made} were acknowledged, the last one sent was {last:?})"));
                return (found, 0);
            }
        };
        if let Some(swapped) = swapped(&states[now]) {
            match moment(&[swapped], seen) {
                Ok(_) => found.wrong = Some("two names can be swapped, and nobody sees it: the drill is blind".into()),
                Err(_) => found.told_apart = 1,
            }
        }
        if now < made {
            let (change, at) = &self.changes[now];
            found.lost = (made - now) as u64;
            found.oldest = *at;
            if now < sure {
                let what = format!("{} structural writes are lost, {} of them promised", made - now, sure - now);
                found.wrong = Some(format!("{what}; the first is {change:?}"));
            }
        }
        (found, now)
    }

    /// What a name is; an answer that is an error is given back as text.
    fn look(&self, place: usize, marks: &BTreeSet<u32>, wire: &mut Wire) -> io::Result<Result<Seen, String>> {
        let at = name(place);
        wire.push("EXISTS", &[&at]);
        wire.push("PEXPIRETIME", &[&at]);
        for &mark in marks {
            let keys = self.keys(mark);
            let words: Vec<&str> = std::iter::once(&at).chain(&keys).map(|word| &word[..]).collect();
            wire.push("BG.EXISTS", &words);
        }
        let mut seen = Seen::default();
        let mut wrong = None;
        match (wire.reply()?, wire.reply()?) {
            (Reply::Integer(there), Reply::Integer(ends)) => {
                seen.is_there = there == 1;
                seen.expires = u64::try_from(ends).unwrap_or(0);
            }
            other => wrong = Some(format!("EXISTS and PEXPIRETIME of {at} were answered {other:?}")),
        }
        for &mark in marks {
            match wire.reply()? {
                Reply::Array(keys) if keys.len() == KEYS => {
                    seen.keys.insert(mark, keys.iter().filter(|key| **key == Reply::Integer(1)).count());
                    if let Some(odd) = keys.iter().find(|key| !matches!(key, Reply::Integer(0 | 1))) {
                        wrong = Some(format!("{at} answered for a key {odd:?}"));
                    }
                }
                other => wrong = Some(format!("{at} answered {other:?}")),
            }
        }
        Ok(wrong.map_or(Ok(seen), Err))
    }
}

/// The command that adds keys.
fn add<'a>(name: &'a str, keys: &'a [String]) -> Vec<&'a str> {
    ["BG.ADD", name].into_iter().chain(keys.iter().map(|key| &key[..])).collect()
}

/// Commands as one transaction.
fn together<'a>(wire: &mut Wire, commands: impl Iterator<Item = Vec<&'a str>>) -> io::Result<Result<(), String>> {
    let before = wire.pushed;
    wire.push::<&str>("MULTI", &[]);
    for words in commands {
        wire.push(words[0], &words[1..]);
    }
    wire.push::<&str>("EXEC", &[]);
    let mut outcome = Ok(());
    // All are read, also after one that says no: EXEC's is the last of them.
    for _ in before..wire.pushed {
        outcome = outcome.and(done(&wire.reply()?));
    }
    Ok(outcome)
}

/// Whether a reply says that it was done: each item of an array was added, or was there.
fn done(reply: &Reply) -> Result<(), String> {
    fn is_fine(reply: &Reply) -> bool {
        match reply {
            Reply::Status(_) | Reply::Integer(_) => true,
            Reply::Array(all) => all.iter().all(is_fine),
            Reply::Error(_) | Reply::Bulk(_) | Reply::Nothing => false,
        }
    }
    match reply {
        Reply::Integer(0) => Err("answered 0".into()),
        reply if is_fine(reply) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::names::{Held, MOST_MARKS, STRAYS};
    use super::*;

    fn script() -> Structure {
        Structure::new(7, 0, PathBuf::new())
    }

    /// A script of so many changes, each acknowledged at its number, and the names after each.
    fn played(changes: u64) -> (Structure, Vec<State>) {
        let mut script = script();
        let mut states = vec![script.base.clone()];
        for at in 1..=changes {
            let change = script.choose();
            change.apply(&mut script.state);
            script.changes.push((change, Some(at)));
            states.push(script.state.clone());
        }
        (script, states)
    }

    /// What a server that has exactly this would answer.
    fn seen(state: &State, marks: u32) -> Vec<Seen> {
        let one = |held: &Option<Held>| Seen {
            is_there: held.is_some(),
            expires: held.as_ref().map_or(0, |held| held.expires),
            keys: (0..marks)
                .map(|mark| (mark, if held.as_ref().is_some_and(|held| held.marks.contains(&mark)) { KEYS } else { 1 }))
                .collect(),
        };
        state.iter().map(one).collect()
    }

    #[test]
    fn a_script_has_every_change_and_is_the_same_again() {
        let (script, states) = played(2_000);
        let is = |wanted: fn(&Change) -> bool| script.changes.iter().filter(|(change, _)| wanted(change)).count();
        for (what, count) in [
            ("make", is(|change| matches!(change, Change::Make { .. }))),
            ("mark", is(|change| matches!(change, Change::Mark { .. }))),
            ("copy", is(|change| matches!(change, Change::Copy { .. }))),
            ("swap", is(|change| matches!(change, Change::Swap { .. }))),
            ("rename", is(|change| matches!(change, Change::Rename { .. }))),
            ("delete", is(|change| matches!(change, Change::Delete { .. }))),
            ("expire", is(|change| matches!(change, Change::Expire { .. }))),
            ("persist", is(|change| matches!(change, Change::Persist { .. }))),
            ("merge", is(|change| matches!(change, Change::Merge { .. }))),
            ("load", is(|change| matches!(change, Change::Load { .. }))),
            ("build", is(|change| matches!(change, Change::Build { .. }))),
            ("rekey", is(|change| matches!(change, Change::Rekey { .. }))),
        ] {
            assert!(count >= 10, "{what}: {count} of 2,000");
        }
        assert_eq!(played(2_000).1, states);
        let filters = states.iter().flatten().flatten();
        assert!(filters.clone().all(|held| (1..=MOST_MARKS).contains(&held.marks.len())));
        for class in 0..CLASSES.len() {
            assert!(filters.clone().any(|held| held.class == class), "class {class}");
        }
    }

    #[test]
    fn names_are_those_of_a_moment() {
        let (script, states) = played(300);
        for (count, state) in states.iter().enumerate() {
            let seen = seen(state, script.next_mark);
            let now = moment(&states, &seen).unwrap();
            assert_eq!((&states[now], now >= count), (state, true));
            let (found, _) = script.judge(&states, &seen, u64::MAX, count as u64);
            assert_eq!((found.wrong, found.made), (None, 300), "after {count}");
            assert_eq!(found.lost, 300 - now as u64);
        }
    }

    #[test]
    fn what_is_promised_must_be_there_and_what_had_no_reply_may_be() {
        let (mut script, states) = played(300);
        // The last change was sent, and the reply did not come.
        script.changes[299].1 = None;
        let differ = states[299] != states[300];
        for end in [299, 300] {
            let (found, now) = script.judge(&states, &seen(&states[end], script.next_mark), u64::MAX, u64::MAX);
            assert_eq!((found.wrong, found.lost, found.made), (None, 0, 299));
            assert!(now == end || !differ);
        }
        let lost = (0..299).rev().find(|&end| states[end] != states[299] && states[end] != states[300]).unwrap();
        let names = seen(&states[lost], script.next_mark);
        let (found, now) = script.judge(&states, &names, u64::MAX, u64::MAX);
        assert!(found.wrong.is_some_and(|what| what.contains("promised")));
        assert_eq!((found.lost, found.oldest), (299 - now as u64, Some(now as u64 + 1)));
        let (found, _) = script.judge(&states, &names, u64::MAX, lost as u64);
        assert!(found.wrong.is_none(), "what came later was not promised");
    }

    #[test]
    fn a_swapped_pair_and_half_a_content_are_of_no_moment() {
        let (script, states) = played(300);
        let last = states.last().unwrap();
        let whole = || seen(last, script.next_mark);
        let is_found = |names: &[Seen]| script.judge(&states, names, u64::MAX, u64::MAX).0.wrong.is_some();
        assert!(!is_found(&whole()));
        assert_eq!(script.judge(&states, &whole(), 0, 0).0.told_apart, 1);
        assert!(moment(&[swapped(last).unwrap()], &whole()).is_err());
        let place = last.iter().position(Option::is_some).unwrap();
        let own = *last[place].as_ref().unwrap().marks.first().unwrap();
        let strange = (0..script.next_mark).find(|mark| !last[place].as_ref().unwrap().marks.contains(mark)).unwrap();
        let changed = |change: &dyn Fn(&mut Seen)| {
            let mut names = whole();
            change(&mut names[place]);
            is_found(&names)
        };
        assert!(changed(&|seen| _ = seen.keys.insert(own, KEYS - 1)), "one key is missing");
        assert!(changed(&|seen| _ = seen.keys.insert(strange, STRAYS + 1)), "half of another's keys");
        assert!(changed(&|seen| seen.expires += 1), "another end");
        assert!(changed(&|seen| seen.is_there = false), "gone");
        assert!(changed(&|seen| _ = seen.keys.remove(&own)), "not asked for");
        assert!(!changed(&|seen| _ = seen.keys.insert(strange, STRAYS)), "as its rate has it");
    }

    #[test]
    fn a_reply_says_whether_it_was_done() {
        let (yes, no) = (Reply::Status("OK".into()), Reply::Error("ERR full".into()));
        assert!(done(&yes).is_ok() && done(&Reply::Integer(1)).is_ok());
        assert!(done(&no).is_err() && done(&Reply::Integer(0)).is_err() && done(&Reply::Nothing).is_err());
        let known = Reply::Array(vec![Reply::Integer(0), Reply::Integer(1)]);
        assert!(done(&Reply::Array(vec![yes.clone(), known])).is_ok());
        assert!(done(&Reply::Array(vec![yes, Reply::Array(vec![no])])).is_err());
    }
}
