//! Adders and askers against those who change names.

use bloomgate_server::sync::Fault;
use shuttle::thread;

use crate::explore::{explore, notices};
use crate::house::House;

const SMALL: &str = "BF.RESERVE a 0.001 100 NONSCALING";
const OTHER: &str = "BF.RESERVE b 0.001 100 NONSCALING";

/// How a model says that an add went to nobody, or to somebody else.
const LOST: [&str; 5] = [
    "added at",
    "live and replayed differ",
    "acknowledged and lost",
    "which is neither in the manifest",
    "two filters have the name",
];

/// Runs an add on one thread beside another command; the sequences that the two replies wait for.
fn beside(house: &House, add: &'static str, change: &'static str) -> (u64, u64) {
    let adder = {
        let house = house.clone();
        thread::spawn(move || {
            let mut talk = house.talk(0);
            // It knows the names from before.
            talk.say("BF.EXISTS a y");
            talk.say("BF.EXISTS b y");
            let (reply, dues) = talk.turn(add);
            assert_eq!(reply, ":1", "{add}");
            dues.written
        })
    };
    let (reply, dues) = house.talk(1).turn(change);
    assert!(!reply.starts_with('-'), "{change}: {reply}");
    (adder.join().unwrap(), dues.written)
}

/// In which filters an item is, live; after a power cut right after both replies it is in the same ones.
fn places(house: &House, item: &'static str, through: u64) -> Vec<String> {
    let of = |all: crate::house::All| -> Vec<String> {
        all.into_iter().filter(|(_, known)| known.found.contains_key(item)).map(|(name, _)| name).collect()
    };
    let live = of(house.all(&[item]));
    assert_eq!(of(house.replayed(through, &[item])), live, "acknowledged and lost");
    live
}

/// The add comes before the new name and moves with the filter, or after it and makes a filter of the old name.
fn rename() {
    let house = House::new(&[SMALL]);
    let (added, renamed) = beside(&house, "BF.ADD a x", "RENAME a b");
    let place = if added < renamed { "b" } else { "a" };
    assert_eq!(places(&house, "x", added.max(renamed)), [place], "added at {added}, renamed at {renamed}");
}

/// The filter under the new name goes, with what is added to it before.
fn rename_over() {
    let house = House::new(&[SMALL, OTHER]);
    let (added, renamed) = beside(&house, "BF.ADD b x", "RENAME a b");
    let place: &[&str] = if added < renamed { &[] } else { &["b"] };
    assert_eq!(places(&house, "x", added.max(renamed)), place, "added at {added}, renamed at {renamed}");
}

/// Two filters change names under two adders.
fn swap() {
    let house = House::new(&[SMALL, OTHER]);
    let second = {
        let house = house.clone();
        thread::spawn(move || house.talk(2).turn("BF.ADD b z").1.written)
    };
    let (added, swapped) = beside(&house, "BF.ADD a x", "BG.SWAP a b");
    let second = second.join().unwrap();
    let through = added.max(swapped).max(second);
    let place = |added: u64, before, after| if added < swapped { [after] } else { [before] };
    assert_eq!(places(&house, "x", through), place(added, "a", "b"), "added at {added}, swapped at {swapped}");
    assert_eq!(places(&house, "z", through), place(second, "b", "a"), "added at {second}, swapped at {swapped}");
}

/// The filter goes, and an add that comes later makes another one of its name.
fn delete() {
    let house = House::new(&[SMALL]);
    let (added, deleted) = beside(&house, "BF.ADD a x", "DEL a");
    let place: &[&str] = if added < deleted { &[] } else { &["a"] };
    assert_eq!(places(&house, "x", added.max(deleted)), place, "added at {added}, deleted at {deleted}");
}

/// It goes and comes again, while two make it by their adds.
fn recreate() {
    let house = House::new(&[SMALL]);
    let second = {
        let house = house.clone();
        thread::spawn(move || {
            let mut talk = house.talk(2);
            (talk.turn("DEL a").1.written, talk.turn("BF.ADD a z").1.written)
        })
    };
    let (added, deleted) = beside(&house, "BF.ADD a x", "DEL a");
    let (also_deleted, second) = second.join().unwrap();
    // A DEL that found nothing waits for what it saw to be gone, which is one record or another.
    let through = added.max(deleted).max(also_deleted).max(second);
    let gone = deletions(&house);
    let place = |added: u64| if gone.iter().any(|&gone| gone > added) { vec![] } else { vec!["a"] };
    assert_eq!(places(&house, "x", through), place(added), "added at {added}, deleted at {gone:?}");
    assert_eq!(places(&house, "z", through), place(second), "added at {second}, deleted at {gone:?}");
}

fn deletions(house: &House) -> Vec<u64> {
    use bloomgate_server::engine::fields::Fields;
    use bloomgate_server::engine::record::Record;
    let batches = house.engine.journal.recorded();
    let deletes = |batch: &[u8]| matches!(Record::get(&mut Fields(batch)), Ok(Record::Delete { .. }));
    batches.iter().filter(|(_, batch)| deletes(batch)).map(|(sequence, _)| *sequence).collect()
}

#[test]
fn adds_beside_a_rename_are_in_one_filter() {
    explore(rename);
    explore(rename_over);
}

#[test]
fn adds_beside_a_swap_are_in_one_filter() {
    explore(swap);
}

#[test]
fn adds_beside_a_delete_are_gone_or_there() {
    explore(delete);
    explore(recreate);
}

#[test]
fn names_that_change_under_writers_are_noticed() {
    notices(Fault::OpenGates, &LOST, rename);
    notices(Fault::OpenGates, &LOST, rename_over);
    notices(Fault::OpenGates, &LOST, swap);
    notices(Fault::OpenGates, &LOST, delete);
    notices(Fault::OpenGates, &LOST, recreate);
}

#[test]
fn threads_that_go_on_with_an_old_name_are_noticed() {
    notices(Fault::StaleNames, &LOST, rename);
    notices(Fault::StaleNames, &LOST, swap);
    notices(Fault::StaleNames, &LOST, delete);
}

/// A key is in one of two filters all the time. Who asks both is told so by one of them, whatever changes meanwhile.
fn ask_both(change: &'static str, order: [&'static str; 2]) {
    let house = House::new(&[SMALL, "BF.ADD a x"]);
    if change.starts_with("BG.SWAP") {
        assert_eq!(house.talk(0).say(OTHER), "+OK");
    }
    let asker = {
        let house = house.clone();
        thread::spawn(move || {
            let mut talk = house.talk(0);
            // It knows one of the names from before.
            talk.say(&format!("BF.EXISTS {} y", order[1]));
            order.map(|name| talk.say(&format!("BF.EXISTS {name} x")))
        })
    };
    house.talk(1).say(change);
    let answers = asker.join().unwrap();
    assert!(answers.contains(&":1".to_owned()), "a wrong no: {order:?} {answers:?}");
}

#[test]
fn a_key_that_moves_is_in_one_of_two_names() {
    // In the other order either is right: asked b before it had the key, and a after.
    explore(|| ask_both("RENAME a b", ["a", "b"]));
    explore(|| ask_both("BG.SWAP a b", ["a", "b"]));
}

#[test]
fn an_old_name_beside_a_new_one_is_noticed() {
    notices(Fault::StaleNames, &["a wrong no"], || ask_both("BG.SWAP a b", ["a", "b"]));
}
