//! Adders against each other: at the end of a stage, and with one key.

use bloomgate_server::sync::Fault;
use shuttle::thread;

use crate::explore::{explore, notices};
use crate::house::House;

const ITEMS: [&str; 11] = ["k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9", "k10"];

/// Two adders over the end of a stage, several items each. What is acknowledged is there, live and after a power cut right
/// after the reply; and every stage was charged, once.
fn over_the_end(before: &[&'static str], adders: [(&'static str, &'static str); 2], items: usize) {
    let house = House::new(before);
    let adders: Vec<_> = adders
        .into_iter()
        .enumerate()
        .map(|(thread, (command, last))| {
            let house = house.clone();
            thread::spawn(move || {
                let (reply, dues) = house.talk(thread).turn(command);
                assert!(!reply.contains('-') && !reply.contains(":0"), "{reply}");
                (dues.written, last)
            })
        })
        .collect();
    for adder in adders {
        let (through, last) = adder.join().unwrap();
        assert!(house.replayed(through, &ITEMS)["f"].found.contains_key(last), "acknowledged and lost");
    }
    let all = house.all(&ITEMS);
    assert_eq!((all["f"].len as usize, all["f"].found.len()), (items, items));
}

/// The third stage has one place left.
fn growth() {
    let before = ["BF.RESERVE f 0.001 1 EXPANSION 2", "BF.MADD f k0 k1 k2 k3 k4 k5"];
    over_the_end(&before, [("BF.MADD f k6 k7", "k7"), ("BF.MADD f k8 k9 k10", "k10")], 11);
}

/// A small filter has one place left, and becomes a chain of its own.
fn growing_up() {
    let before = ["BF.RESERVE f 0.001 4 EXPANSION 2", "BF.MADD f k0 k1 k2"];
    over_the_end(&before, [("BF.MADD f k3 k4", "k4"), ("BF.MADD f k5 k6 k7", "k7")], 8);
}

/// Both bring so many that the log has their bits, and one of them makes a chain of it.
fn filling_up() {
    let before = ["BF.RESERVE f 0.001 10 EXPANSION 2"];
    over_the_end(&before, [("BF.MADD f k0 k1 k2 k3 k4", "k4"), ("BF.MADD f k5 k6 k7 k8 k9 k10", "k10")], 11);
}

#[test]
fn adds_over_the_end_of_a_stage_are_kept_and_charged() {
    explore(growth);
}

#[test]
fn adds_to_a_small_filter_that_grows_up_are_kept_and_charged() {
    explore(growing_up);
    explore(filling_up);
}

#[test]
fn two_who_open_a_stage_at_once_are_noticed() {
    notices(Fault::GrowthUnlocked, &["bytes charged and bytes used"], growth);
}

/// A key that comes among others, so that the log has their bits, and one asks for it meanwhile.
fn one_of_many() {
    let house = House::new(&[GROWING]);
    // 16 bytes for each of 20, or 3 lines of 64.
    let many: Vec<String> = (0..20).map(|number| format!("other-{number}")).collect();
    let line = format!("BF.MADD f x {}", many.join(" "));
    let adders = [0, 1].map(|thread| {
        let (house, line) = (house.clone(), line.clone());
        thread::spawn(move || house.talk(thread).turn(&line))
    });
    let (answer, looked) = house.talk(2).turn("BF.EXISTS f x");
    let adders = adders.map(|adder| adder.join().unwrap());
    let first = *house.records_of("f", "x").iter().min().expect("a record of its bits");
    for (_, dues) in &adders {
        assert!(dues.written >= first, "acknowledged at {}, recorded at {first}", dues.written);
        assert!(house.replayed(dues.written, &["x"])["f"].found.contains_key("x"), "acknowledged and lost");
    }
    if answer == ":1" {
        assert!(looked.seen >= first, "seen at {}, recorded at {first}", looked.seen);
    }
    assert!(adders.iter().any(|(reply, _)| reply.starts_with("*21 :1")), "nobody was told that it is new");
    house.all(&["x"]);
}

/// A key that two add and one asks for: whoever is told that it is there waits for the record that brought it.
fn one_key(add: &'static str, ask: &'static str, reserve: &'static str) {
    let house = House::new(&[reserve]);
    let adder = |thread: usize| {
        let house = house.clone();
        thread::spawn(move || house.talk(thread).turn(&format!("{add} f x")))
    };
    let (one, other) = (adder(0), adder(1));
    let (answer, looked) = house.talk(2).turn(ask);
    let (one, other) = (one.join().unwrap(), other.join().unwrap());
    let first = *house.records_of("f", "x").iter().min().expect("a record of the key");
    for (reply, dues) in [&one, &other] {
        assert!([":0", ":1"].contains(&reply.as_str()), "{reply}");
        assert!(dues.written >= first, "acknowledged at {}, recorded at {first}", dues.written);
        assert!(house.replayed(dues.written, &["x"])["f"].found.contains_key("x"), "acknowledged and lost");
    }
    if answer.ends_with(":1") {
        assert!(looked.seen >= first, "seen at {}, recorded at {first}", looked.seen);
    }
    assert!(one.0 == ":1" || other.0 == ":1", "nobody was told that it is new");
    house.all(&["x"]);
}

const FIXED: &str = "BF.RESERVE f 0.001 100 NONSCALING";
const GROWING: &str = "BF.RESERVE f 0.001 100";
const CUCKOO: &str = "CF.RESERVE f 100";
const COUNTING: &str = "BG.CREATE f KIND counting CAPACITY 100 RATE 0.001";

#[test]
fn who_is_told_that_a_key_is_there_waits_for_its_record() {
    for reserve in [FIXED, GROWING] {
        explore(move || one_key("BF.ADD", "BF.EXISTS f x", reserve));
    }
    explore(|| one_key("BF.ADD", "BG.EXISTS f x", FIXED));
    explore(|| one_key("BF.ADD", "BF.CARD f", FIXED));
    for ask in ["CF.EXISTS f x", "CF.COUNT f x"] {
        explore(move || one_key("CF.ADDNX", ask, CUCKOO));
    }
    explore(|| one_key("BF.ADD", "BF.EXISTS f x", COUNTING));
    explore(one_of_many);
}

#[test]
fn a_key_whose_record_nobody_announced_is_noticed() {
    notices(Fault::Unannounced, &["seen at"], || one_key("CF.ADDNX", "CF.EXISTS f x", CUCKOO));
    notices(Fault::Unannounced, &["seen at"], || one_key("BF.ADD", "BF.EXISTS f x", COUNTING));
}

#[test]
fn a_key_that_is_there_before_its_record_is_noticed() {
    notices(Fault::BitsFirst, &["acknowledged at"], || one_key("BF.ADD", "PING", FIXED));
    notices(Fault::BitsFirst, &["seen at", "acknowledged at"], || one_key("BF.ADD", "BF.EXISTS f x", FIXED));
    notices(Fault::BitsFirst, &["seen at", "acknowledged at"], one_of_many);
}
