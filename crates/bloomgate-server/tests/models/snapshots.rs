//! Writers against the instants of a snapshot: an image and the log since give what there was, once each.

use bloomgate_server::sync::Fault;
use shuttle::thread;

use crate::explore::{explore, notices};
use crate::house::House;

const ITEMS: [&str; 5] = ["k0", "k1", "k2", "k3", "k4"];

/// Commands on two threads beside a snapshot; then everything is read again.
fn beside(begin: &[&str], one: &'static [&'static str], other: &'static [&'static str]) -> House {
    let house = House::new(begin);
    let writers: Vec<_> = [(0, one), (1, other)]
        .into_iter()
        .map(|(thread, commands)| {
            let house = house.clone();
            thread::spawn(move || {
                let mut talk = house.talk(thread);
                for command in commands {
                    let (reply, dues) = talk.turn(command);
                    // A name may be elsewhere just now.
                    let refused =
                        reply.contains('-') && !["not found", "no such key"].iter().any(|why| reply.contains(why));
                    assert!(!refused, "{command}: {reply}");
                    // The power may go now: before, amid or after the snapshot.
                    house.replayed(dues.written, &ITEMS);
                }
            })
        })
        .collect();
    house.keeping.snapshot().unwrap();
    // The power goes as soon as the snapshot is complete, with no more of the log on the disk than it waited for.
    house.replayed(0, &ITEMS);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    house
}

/// Adds to a filter that sets bits, over the end of a stage.
fn adds() {
    let begin = ["BF.RESERVE f 0.001 2 EXPANSION 2", "BF.ADD f k0"];
    let house = beside(&begin, &["BF.ADD f k1", "BF.ADD f k2"], &["BF.MADD f k3 k4"]);
    let all = house.all(&ITEMS);
    assert_eq!((all["f"].len, all["f"].found.len()), (5, 5), "{all:?}");
}

/// The same for one that does not grow.
fn adds_without_growth() {
    let house = beside(&["BF.RESERVE f 0.001 100 NONSCALING"], &["BF.ADD f k1", "BF.ADD f k2"], &["BF.MADD f k3 k4"]);
    let all = house.all(&ITEMS);
    assert_eq!((all["f"].len, all["f"].found.len()), (4, 4), "{all:?}");
}

/// Copies come and go in a filter with one writer.
fn removals(begin: [&'static str; 2], other: &'static [&'static str]) {
    let house = beside(&begin, &["BG.REMOVE f ITEMS k0", "BG.ADD f k1"], other);
    let all = house.all(&ITEMS);
    let left: Vec<_> = all["f"].found.iter().map(|(&item, &copies)| (item, copies)).collect();
    assert_eq!((left, all["f"].deleted), (vec![("k0", 1), ("k1", 1), ("k2", 1)], 2), "{all:?}");
}

const CUCKOO: [&str; 2] = ["CF.RESERVE f 100", "CF.INSERT f ITEMS k0 k0 k0"];
const COUNTING: [&str; 2] = ["BG.CREATE f KIND counting CAPACITY 100 RATE 0.001", "BG.ADD f k0 k0 k0"];
const REMOVE: &[&str] = &["BG.REMOVE f ITEMS k0", "BG.ADD f k2"];

/// Names change between the images of two filters.
fn names() {
    let begin =
        ["BF.RESERVE a 0.001 100 NONSCALING", "BF.RESERVE b 0.001 100 NONSCALING", "BF.ADD a k0", "BF.ADD b k1"];
    let house = beside(&begin, &["BG.SWAP a b", "BF.ADD a k2"], &["RENAME b c", "DEL a", "BF.ADD a k3"]);
    house.all(&ITEMS);
}

#[test]
fn adds_beside_a_snapshot_are_counted_once() {
    explore(adds);
    explore(adds_without_growth);
}

#[test]
fn a_snapshot_that_stops_nobody_is_noticed() {
    notices(Fault::OpenGates, &["live and replayed differ"], adds);
    notices(Fault::OpenGates, &["live and replayed differ"], adds_without_growth);
}

#[test]
fn a_sequence_that_is_taken_too_late_is_noticed() {
    notices(Fault::SequenceLate, &["live and replayed differ"], adds);
    notices(Fault::SequenceLate, &["live and replayed differ"], adds_without_growth);
}

#[test]
fn removals_beside_a_snapshot_happen_once() {
    explore(|| removals(CUCKOO, REMOVE));
    explore(|| removals(COUNTING, REMOVE));
}

#[test]
fn a_copy_while_others_write_is_noticed() {
    notices(Fault::WriterLetGo, &["live and replayed differ", "is unavailable"], || removals(CUCKOO, REMOVE));
    notices(Fault::WriterLetGo, &["live and replayed differ", "is unavailable"], || removals(COUNTING, REMOVE));
}

#[test]
fn names_that_change_beside_a_snapshot_are_those_of_the_log() {
    explore(names);
}

#[test]
fn a_snapshot_that_is_ahead_of_the_log_is_noticed() {
    notices(Fault::LogBehind, &["two filters have the name"], names);
}
