//! Filters that are gone are charged until their memory is free, and what is made after them finds it at once.

use std::time::{Duration, Instant};

use bloomgate_server::session::info::resident_bytes;

use super::talk::{Talk, desk, engine};

const MIB: u64 = 1 << 20;
/// Room for one of the filters below and not for two.
const ROOM: u64 = 40 * MIB;

/// Filters of 22 to 38 MB.
const LARGE: [&str; 7] = [
    "BG.CREATE f KIND blocked CAPACITY 20000000",
    "BG.CREATE f KIND classic CAPACITY 25000000",
    "BG.CREATE f KIND counting BYTES 30000000",
    "BG.CREATE f KIND cuckoo CAPACITY 14000000 RATE 0.001",
    "BG.CREATE f KIND quotient CAPACITY 14000000 RATE 0.0001",
    "BG.CREATE f KIND rotating CAPACITY 14000000 WINDOW 60",
    "BF.RESERVE f 0.01 18000000",
];

fn settles(talk: &Talk) {
    let since = Instant::now();
    while talk.engine.leaving.bytes() > 0 {
        assert!(since.elapsed() < Duration::from_secs(20), "it stays charged for ever");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_deleted_makes_room_at_once_and_takes_no_more_than_it_is_charged() {
    let mut talk = Talk::with(engine(ROOM), desk());
    talk.engine.start_chores().unwrap();
    let before = resident_bytes().unwrap();
    for create in LARGE {
        for round in 0..50 {
            assert_eq!(talk.say(create), "+OK", "{create}, round {round}");
            let charged = talk.engine.budget.used();
            assert!((ROOM / 2..=ROOM).contains(&charged), "{create} takes {charged} bytes");
            talk.say("BF.ADD f item");
            assert_eq!(talk.say("DEL f"), ":1");
            let grown = resident_bytes().unwrap().saturating_sub(before);
            assert!(grown < 2 * ROOM, "{create}, round {round}: {grown} bytes of memory where {ROOM} are allowed");
        }
    }
    settles(&talk);
    assert_eq!(talk.engine.budget.used(), 0);
}

/// Chores that come one after the other are no reason to keep what is gone: here the budget would hold all of it.
#[test]
fn memory_goes_back_though_the_thread_has_always_something_to_do() {
    let mut talk = Talk::with(engine(8 << 30), desk());
    talk.engine.start_chores().unwrap();
    let before = resident_bytes().unwrap();
    for round in 0..200 {
        assert_eq!(talk.say("BG.CREATE f KIND blocked CAPACITY 20000000"), "+OK");
        // The pages of it are brought in, and it is held meanwhile.
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(talk.say("DEL f"), ":1");
        let grown = resident_bytes().unwrap().saturating_sub(before);
        assert!(grown < 512 * MIB, "round {round}: {grown} bytes");
    }
    settles(&talk);
}

#[test]
fn what_somebody_holds_is_charged_until_it_is_let_go_of() {
    let mut talk = Talk::with(engine(ROOM), desk());
    talk.engine.start_chores().unwrap();
    let create = LARGE[0];
    assert_eq!(talk.say(create), "+OK");
    let held = talk.engine.find(b"f").unwrap();
    let charged = talk.engine.budget.used();
    assert_eq!(talk.say("DEL f"), ":1");
    assert_eq!((talk.engine.budget.used(), talk.engine.leaving.bytes()), (charged, charged));
    // What would not fit then either is told so at once.
    let since = Instant::now();
    let reply = talk.say("BG.CREATE g KIND blocked CAPACITY 90000000");
    assert!(reply.contains("Insufficient memory to create filter"), "{reply}");
    assert!(since.elapsed() < Duration::from_secs(4), "it is waited for");
    // What holds up everybody does not wait.
    assert_eq!((talk.say("MULTI"), talk.say(create)), ("+OK".to_owned(), "+QUEUED".to_owned()));
    let reply = talk.say("EXEC");
    assert_eq!(reply, "*1 -ERR the memory of deleted filters is still being read from: try again in a moment");
    // Who is alone waits until it is let go of.
    let other = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(held);
    });
    assert_eq!(talk.say(create), "+OK");
    other.join().unwrap();
    assert_eq!(talk.engine.budget.used(), charged);
}

/// However a filter goes, with and without the thread.
#[test]
fn however_a_filter_goes_its_charge_goes_with_its_memory() {
    for has_thread in [false, true] {
        let mut talk = Talk::with(engine(ROOM), desk());
        if has_thread {
            talk.engine.start_chores().unwrap();
        }
        let make = |talk: &mut Talk, name: &str, items: u64| {
            assert_eq!(talk.say(&format!("BG.CREATE {name} KIND blocked CAPACITY {items}")), "+OK");
            talk.say(&format!("BG.ADD {name} item"));
            talk.engine.find(name.as_bytes()).unwrap()
        };
        for (go, lives) in [
            ("DEL g", &[b"f"][..]),
            ("RENAME f g", &[b"g"]),
            ("COPY f g REPLACE", &[b"f", b"g"]),
            ("FLUSHALL", &[]),
            ("EXPIRE g 0", &[b"f"]),
            ("PEXPIREAT g 1", &[b"f"]),
        ] {
            for items in [1_000, 5_000_000] {
                drop(make(&mut talk, "f", items));
                let held = make(&mut talk, "g", items);
                let size = held.memory();
                let reply = talk.say(go);
                assert!(!reply.starts_with('-'), "{go}: {reply}");
                let there = |talk: &Talk| -> u64 {
                    lives.iter().map(|name| talk.engine.find(&name[..]).unwrap().memory()).sum()
                };
                let used = talk.engine.budget.used();
                assert!(used >= there(&talk) + size, "{go} of {items}: {used} are charged, the memory is there");
                drop(held);
                talk.engine.free_leaving();
                settles(&talk);
                assert_eq!(talk.engine.budget.used(), there(&talk), "{go} of {items}");
                talk.say("FLUSHALL");
                settles(&talk);
                assert_eq!(talk.engine.budget.used(), 0, "{go} of {items}");
            }
        }
    }
}

/// Of a namespace the same, while there is room enough in the budget.
#[test]
fn a_namespace_is_charged_for_what_it_deleted() {
    let mut root = Talk::with(engine(1 << 30), desk());
    root.engine.start_chores().unwrap();
    root.check(&format!(
        "BG.NAMESPACE SET a PREFIX a: MAXMEMORY {ROOM} MAXFILTERS 1 => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK"
    ));
    let mut ann = root.another();
    ann.check("AUTH ann p => +OK");
    let before = resident_bytes().unwrap();
    for round in 0..50 {
        assert_eq!(ann.say(LARGE[0]), "+OK", "round {round}");
        assert_eq!(ann.say("DEL f"), ":1");
        let grown = resident_bytes().unwrap().saturating_sub(before);
        assert!(grown < 2 * ROOM, "round {round}: {grown} bytes of memory where {ROOM} are allowed");
    }
    settles(&ann);
    assert_eq!(root.engine.namespaces.tell("a").unwrap().used, 0);
}
