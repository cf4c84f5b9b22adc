//! Writers against a log that refuses for a while: who is refused has changed nothing, and what is changed is recorded.

use bloomgate_server::sync::Fault;
use shuttle::thread;

use crate::explore::{explore, notices};
use crate::house::House;

/// Some commands beside a log that refuses from any moment on, and takes again when they are done. Live and replayed are the same, and what is
/// told to be there when it comes again is there after a power cut.
fn beside_a_failure(before: &[&'static str], commands: &'static [&'static str], again: &'static str) {
    let house = House::new(before);
    let disk = {
        let house = house.clone();
        thread::spawn(move || house.engine.journal.refuse(true))
    };
    let mut talk = house.talk(0);
    commands.iter().for_each(|command| drop(talk.say(command)));
    disk.join().unwrap();
    house.engine.journal.refuse(false);
    house.all(&["x", "y", "z"]);
    let (reply, dues) = talk.turn(again);
    assert!(!reply.starts_with('-'), "{again}: {reply}");
    let name = again.split(' ').nth(1).unwrap();
    let found = &house.replayed(dues.written, &["x"])[name].found;
    assert!(found.contains_key("x"), "acknowledged and lost: {reply}");
}

const FIXED: &str = "BF.RESERVE f 0.001 100 NONSCALING";
const WRITES: &[&str] = &["MULTI", "BF.ADD f x", "BF.ADD made y", "DEL gone", "RENAME moved renamed", "EXEC"];

fn transaction() {
    beside_a_failure(&[FIXED, "BF.ADD gone z", "BF.ADD moved z"], WRITES, "BF.ADD f x");
}

fn counted() {
    let create = "BG.CREATE f KIND counting CAPACITY 100 RATE 0.001";
    beside_a_failure(&[create, "BG.ADD f y"], &["BG.ADD f x z", "BG.REMOVE f REQUEST r ITEMS y z"], "BG.ADD f x");
}

fn cuckoo() {
    beside_a_failure(&["CF.RESERVE f 100", "CF.ADD f y"], &["CF.INSERT f ITEMS x z", "CF.DEL f y"], "CF.ADDNX f x");
}

#[test]
fn what_a_log_refuses_has_changed_nothing_and_what_is_changed_it_has() {
    explore(transaction);
    explore(counted);
    explore(cuckoo);
}

#[test]
fn a_log_that_refuses_what_is_done_is_noticed() {
    let ways = ["live and replayed differ", "acknowledged and lost", "which is neither in the manifest"];
    notices(Fault::LateRefusals, &ways, transaction);
    notices(Fault::LateRefusals, &ways, counted);
    notices(Fault::LateRefusals, &ways, cuckoo);
}
