//! Filters that are small: what they are told and asked is what larger ones are, and they become those.

use bloomgate_server::engine::entry::Body;

use super::talk::{Talk, desk, engine};

fn is_small(talk: &Talk, name: &str) -> bool {
    matches!(talk.engine.find(name.as_bytes()).unwrap().body(), Body::Small(_))
}

fn items(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|item| format!("item-{item}")).collect()
}

#[test]
fn a_small_filter_grows_up_when_it_is_full_and_forgets_nothing() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BF.RESERVE f 0.01 100"), "+OK");
    let all = items(0..2_000);
    talk.each("BF.ADD", "f", &all[..90]);
    assert!(is_small(&talk, "f"));
    assert_eq!(talk.say("BF.CARD f"), ":90");
    assert_eq!(talk.say("BF.INFO f FILTERS"), "*1 :1");
    // What is there is there again, and one that is not is not.
    assert_eq!(talk.say("BF.MADD f item-3 item-4 item-3"), "*3 :0 :0 :0");
    assert_eq!(talk.say("BF.MEXISTS f item-3 nobody"), "*2 :1 :0");
    talk.each("BF.ADD", "f", &all[90..]);
    assert!(!is_small(&talk, "f"));
    assert!(talk.each("BF.EXISTS", "f", &all).iter().all(|reply| reply == ":1"));
    let entry = talk.engine.find(b"f").unwrap();
    assert!(entry.with(|filter| filter.stages()).unwrap() > 2);
    assert_eq!((entry.charged(), talk.engine.budget.used()), (entry.size_in_bytes(), entry.memory()));
    let absent = talk.each("BF.EXISTS", "f", &items(10_000..30_000));
    let wrong = absent.iter().filter(|reply| *reply == ":1").count();
    assert!(wrong <= 240, "{wrong} of 20,000 at a rate of 1 %");
    drop(entry);
    assert_eq!(talk.say("DEL f"), ":1");
    assert_eq!(talk.engine.budget.used(), 0);
}

#[test]
fn a_small_filter_that_may_not_grow_refuses_what_does_not_fit() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BF.RESERVE f 0.0001 10 NONSCALING"), "+OK");
    let told = talk.each("BF.ADD", "f", &items(0..12));
    assert!(told[..10].iter().all(|reply| reply == ":1"), "{told:?}");
    assert!(told[10..].iter().all(|reply| reply.starts_with("-ERR non scaling filter is full")), "{told:?}");
    // In one command: what fits is in, and what comes twice and was refused is refused twice.
    assert_eq!(talk.say("BF.RESERVE g 0.0001 2 NONSCALING"), "+OK");
    let told = talk.say("BF.MADD g a b c a c");
    assert!(told.starts_with("*5 :1 :1 -ERR") && told.contains(":0 -ERR"), "{told}");
    assert!(is_small(&talk, "f") && is_small(&talk, "g"));
}

#[test]
fn a_small_filter_for_which_there_is_no_memory_stays_as_it_is() {
    let mut talk = Talk::with(engine(900), desk());
    assert_eq!(talk.say("BF.RESERVE f 0.01 100"), "+OK");
    let told = talk.each("BF.ADD", "f", &items(0..120));
    assert!(is_small(&talk, "f"));
    let added = told.iter().filter(|reply| *reply == ":1").count();
    assert!((95..=101).contains(&added), "{added} of 100");
    assert!(told[110..].iter().all(|reply| reply.starts_with("-ERR")), "{:?}", &told[110..]);
    assert!(talk.each("BF.EXISTS", "f", &items(0..95)).iter().all(|reply| reply == ":1"));
    assert!(talk.engine.budget.used() <= 900);
}

#[test]
fn what_is_counted_about_a_small_filter_is_counted_when_it_is_much() {
    let mut talk = Talk::new();
    talk.say("BF.ADD f x");
    for _ in 0..90 {
        let twice: Vec<String> = (0..1_000).map(|at| ["x", "y"][at % 2].to_owned()).collect();
        talk.each("BF.EXISTS", "f", &twice);
    }
    let told = talk.say("BG.AUDIT f");
    assert!(told.contains("lookups :90000") && told.contains("positives :45000"), "{told}");
    assert!(told.contains("adds :1 ") && told.contains("new :1 "), "{told}");
    assert!(is_small(&talk, "f"));
    talk.say("BG.AUDIT f RESET");
    assert!(talk.say("BG.AUDIT f").contains("lookups :0 "));
}

#[test]
fn names_ends_and_lists_of_many_small_filters() {
    let mut talk = Talk::with(engine(64 << 20), desk());
    for number in 0..900 {
        talk.say(&format!("BF.ADD user:{number} x"));
    }
    for number in (0..900).step_by(3) {
        assert_eq!(talk.say(&format!("DEL user:{number}")), ":1");
    }
    assert_eq!(talk.say("RENAME user:1 renamed"), "+OK");
    assert_eq!(talk.say("RENAME renamed user:0"), "+OK");
    assert_eq!(talk.say("BF.EXISTS user:0 x"), ":1");
    assert_eq!(talk.say("BF.EXISTS user:1 x"), ":0");
    assert_eq!(talk.say("DBSIZE"), ":600");
    let (mut cursor, mut seen) = ("0".to_owned(), Vec::new());
    loop {
        let reply = talk.say(&format!("SCAN {cursor} COUNT 17"));
        let parts: Vec<&str> = reply.split(' ').filter(|part| !part.starts_with(['*', '$'])).collect();
        cursor = parts[0].to_owned();
        seen.extend(parts[1..].iter().map(|&name| name.to_owned()));
        if cursor == "0" {
            break;
        }
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() == 600 && seen.contains(&"user:0".to_owned()) && !seen.contains(&"user:1".to_owned()));
    assert!(talk.say("INFO").contains("filters_scalable:600"));
    // Ends that are set, moved and taken back; those that are over go, in one look, and no others.
    let used = talk.engine.budget.used();
    let second = super::talk::NOW_MS / 1_000;
    assert_eq!(talk.say(&format!("EXPIREAT user:2 {}", second + 100)), ":1");
    assert_eq!(talk.say(&format!("EXPIREAT user:4 {}", second + 100)), ":1");
    assert_eq!(talk.say(&format!("EXPIREAT user:5 {}", second + 100)), ":1");
    assert_eq!(talk.say(&format!("EXPIREAT user:4 {}", second + 1_000)), ":1");
    assert_eq!(talk.say("PERSIST user:5"), ":1");
    assert!(talk.engine.budget.used() > used && talk.say("INFO").contains("expires=2"));
    assert!(talk.engine.names.ended((second + 99) * 1_000, 10).is_empty());
    assert_eq!(talk.engine.names.ended((second + 100) * 1_000, 10).len(), 1);
    assert_eq!(talk.engine.names.ended((second + 1_000) * 1_000, 10).len(), 2);
    assert_eq!(talk.say("DEL user:4"), ":1");
    assert_eq!(talk.engine.names.ending(), 1);
    assert_eq!(talk.say("FLUSHALL"), "+OK");
    assert_eq!((talk.engine.names.ending(), talk.engine.names.len(), talk.engine.budget.used()), (0, 0, 0));
}
