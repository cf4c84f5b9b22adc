//! WATCH against adds: who was told "no" after it, and whose EXEC ran, came before the add.

use bloomgate_server::sync::Fault;
use shuttle::thread;

use crate::explore::{explore, notices};
use crate::house::House;

const ITEMS: [&str; 4] = ["w", "x", "y", "z"];

/// One adds items, one looks which are there and writes that down, if nothing has changed since.
fn watched(reserve: &'static str) {
    let house = House::new(&[reserve, "CF.RESERVE log 100"]);
    let adder = {
        let house = house.clone();
        thread::spawn(move || {
            let mut talk = house.talk(0);
            ITEMS.iter().for_each(|item| assert_eq!(talk.say(&format!("BF.ADD f {item}")), ":1"));
        })
    };
    let mut talk = house.talk(1);
    let mut done = Vec::new();
    for _ in 0..4 {
        assert_eq!(talk.say("WATCH f"), "+OK");
        let answers = talk.say("BF.MEXISTS f w x y z");
        talk.say("MULTI");
        talk.say("CF.ADD log look");
        let (reply, dues) = talk.turn("EXEC");
        if reply == "*1 :1" {
            let absent = answers.split(' ').skip(1).zip(ITEMS).filter(|(answer, _)| *answer == ":0");
            done.extend(absent.map(|(_, item)| (item, dues.written)));
        }
    }
    adder.join().unwrap();
    for (item, at) in done {
        let added = house.records_of("f", item)[0];
        assert!(at < added, "{item} was added at {added}, unseen by what was done at {at}");
    }
    house.all(&ITEMS);
}

const FIXED: &str = "BF.RESERVE f 0.001 100 NONSCALING";
const GROWING: &str = "BF.RESERVE f 0.001 100";
const COUNTING: &str = "BG.CREATE f KIND counting CAPACITY 100 RATE 0.001";

#[test]
fn a_watched_filter_that_changes_ends_the_transaction() {
    for reserve in [FIXED, GROWING, COUNTING] {
        explore(move || watched(reserve));
    }
}

#[test]
fn a_watch_beside_a_writer_is_noticed() {
    notices(Fault::WatchBeside, &["unseen by what was done"], || watched(FIXED));
}
