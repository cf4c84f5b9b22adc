//! Reports of absent items against adds of the same items: an acknowledged add is never hidden.

use bloomgate_server::sync::Fault;
use shuttle::thread;

use crate::explore::{explore, notices};
use crate::house::House;

/// When reports count: [`House::new`] begins 200 seconds earlier.
const REPORTED_MS: u64 = 1_767_225_600_000 + 200_000;

/// A filter that takes `x` for present, with feedback that counts. Whether `x` got there by somebody's add long ago or by the
/// bits of others is the same to everything here.
fn house(reserve: &str) -> House {
    let house = House::new(&[reserve, "BF.ADD f x", "BF.EXISTS f x", "BG.FEEDBACK f x"]);
    house.engine.clock.set(REPORTED_MS);
    house
}

/// One adds the item, one reports it, one asks: before the add is acknowledged it may be hidden or not, after it never is.
fn add_beside_report(reserve: &'static str, add: &'static str) {
    add_beside_report_after(reserve, add, 0);
}

/// The same when so many seconds are between the first report and everything else: after an hour it is over.
fn add_beside_report_after(reserve: &'static str, add: &'static str, seconds: u64) {
    let house = house(reserve);
    let mut first = house.talk(0);
    assert_eq!(first.say("BG.FEEDBACK f x"), ":1");
    assert_eq!(first.say("BF.EXISTS f x"), ":0");
    house.engine.clock.set(REPORTED_MS + seconds * 1_000);
    let adder = {
        let house = house.clone();
        thread::spawn(move || {
            let mut talk = house.talk(0);
            assert!(!talk.say(add).starts_with('-'));
            assert!(talk.say("BF.EXISTS f x").ends_with(":1"), "hidden after its add");
        })
    };
    let reporter = {
        let house = house.clone();
        thread::spawn(move || {
            assert!([":0", ":1"].contains(&house.talk(1).say("BG.FEEDBACK f x").as_str()));
        })
    };
    house.talk(2).say("BF.EXISTS f x");
    adder.join().unwrap();
    assert_eq!(house.talk(2).say("BF.EXISTS f x"), ":1", "hidden after its add");
    reporter.join().unwrap();
    assert_eq!(house.talk(2).say("BF.EXISTS f x"), ":1", "hidden after its add");
}

/// The first report of a filter beside an add: the add is over before its adds are kept, or is kept.
fn add_beside_first_report() {
    let house = House::new(&[FIXED, "BF.ADD f x"]);
    let adder = {
        let house = house.clone();
        thread::spawn(move || house.talk(0).say("BF.ADD f x"))
    };
    assert_eq!(house.talk(1).say("BG.FEEDBACK f x"), ":0");
    adder.join().unwrap();
    assert_eq!(house.talk(1).say("BG.FEEDBACK f x"), ":0");
    assert_eq!(house.talk(2).say("BF.EXISTS f x"), ":1", "hidden after its add");
}

/// A filter changes its name while an item is reported: what is asked under the new name knows nothing of it.
fn report_beside_rename() {
    let house = house(FIXED);
    let reporter = {
        let house = house.clone();
        thread::spawn(move || house.talk(0).say("BG.FEEDBACK f x"))
    };
    assert_eq!(house.talk(1).say("RENAME f g"), "+OK");
    reporter.join().unwrap();
    assert_eq!(house.talk(1).say("BF.EXISTS g x"), ":1", "hidden under another name");
}

const FIXED: &str = "BF.RESERVE f 0.001 100 NONSCALING";
const GROWING: &str = "BF.RESERVE f 0.001 100";
/// As long as a report counts.
const HOUR_S: u64 = 3_600;
const ROTATING: &str = "BG.CREATE f KIND rotating CAPACITY 100 RATE 0.001 WINDOW 3600";

#[test]
fn an_acknowledged_add_is_never_hidden() {
    explore(|| add_beside_report(FIXED, "BF.ADD f x"));
    explore(|| add_beside_report(GROWING, "BF.MADD f y x z"));
    explore(|| add_beside_report(ROTATING, "BG.ADD f x"));
    explore(add_beside_first_report);
}

#[test]
fn an_acknowledged_add_is_not_hidden_by_a_report_that_came_again() {
    explore(|| add_beside_report_after(FIXED, "BF.ADD f x", HOUR_S));
    explore(|| add_beside_report_after(FIXED, "BF.ADD f x", HOUR_S - 1));
    explore(|| add_beside_report_after(GROWING, "BF.MADD f y x z", HOUR_S));
}

#[test]
fn another_name_knows_nothing_of_reports() {
    explore(report_beside_rename);
}

#[test]
fn reports_that_outlive_an_add_are_noticed() {
    notices(Fault::TagsKept, &["hidden after its add"], || add_beside_report(FIXED, "BF.ADD f x"));
    notices(Fault::AddsForgotten, &["hidden after its add"], || add_beside_report(FIXED, "BF.ADD f x"));
    let again = || add_beside_report_after(FIXED, "BF.ADD f x", HOUR_S);
    notices(Fault::TagsKept, &["hidden after its add"], again);
}
