//! Writers against each other and against those who change names: nothing that was acknowledged is lost.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use crate::house::House;

/// Nobody waits longer: a server that stands still fails the test.
const PATIENCE: Duration = Duration::from_secs(20);

/// The reply to an add of a key that is there already waits for the write that brought it, and so does a lookup that
/// finds it: both may come from another client whose write is not durable yet.
#[test]
fn whoever_finds_a_key_waits_for_the_write_that_brought_it() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let (mut first, mut second) = (house.talk(0), house.talk(1));
    let brought = first.dues("BF.ADD seen x").written;
    assert!(brought > 0);
    assert!(second.dues("BF.ADD seen x").written >= brought, "a repeat is acknowledged as durable too");
    assert!(second.dues("BF.EXISTS seen x").seen >= brought, "a maybe shows the write");
    assert_eq!(second.dues("BF.EXISTS seen x").written, 0, "and acknowledges none");
    assert!(second.dues("BF.MADD seen x y").written > brought);
    let counted = first.dues("CF.ADD copies x").written;
    assert!(second.dues("CF.ADDNX copies x").written >= counted && second.dues("CF.COUNT copies x").seen >= counted);
    assert_eq!(second.dues("PING"), bloomgate_server::session::Dues::default());
}

#[test]
fn adds_racing_renames_swaps_growth_and_snapshots_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("BF.RESERVE a 0.001 100 EXPANSION 2");
    talk.say("BF.RESERVE b 0.001 100 EXPANSION 2");
    drop(talk);
    let over = AtomicBool::new(false);
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let writers: Vec<_> = ["a", "b"]
            .into_iter()
            .enumerate()
            .map(|(thread, name)| {
                let mut talk = house.talk(thread);
                scope.spawn(move || {
                    let mut acknowledged = Vec::new();
                    for number in 0..4_000 {
                        let item = format!("{name}-{number}");
                        // While the name is elsewhere the add is refused, and then nothing was promised.
                        match talk.say(&format!("BF.INSERT {name} NOCREATE ITEMS {item}")).as_str() {
                            "*1 :1" | "*1 :0" => acknowledged.push(item),
                            refused => assert_eq!(refused, "-ERR not found"),
                        }
                    }
                    acknowledged
                })
            })
            .collect();
        let restless = scope.spawn(|| {
            let mut talk = house.talk(2);
            let mut rounds = 0;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(talk.say("RENAMENX a elsewhere"), ":1");
                assert_eq!(talk.say("RENAMENX elsewhere a"), ":1");
                assert_eq!(talk.say("BG.SWAP a b"), "+OK");
                rounds += 1;
                if rounds % 50 == 0 {
                    house.keeping.snapshot().unwrap();
                }
            }
            rounds
        });
        let acknowledged = writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(restless.join().unwrap() > 10);
        acknowledged
    });
    assert!(acknowledged.len() > 1_000, "{}", acknowledged.len());
    let missing = |house: &House| {
        let mut talk = house.talk(0);
        let absent = |item: &&String| {
            talk.say(&format!("BG.EXISTS a {item}")) == "*1 :0" && {
                talk.say(&format!("BG.EXISTS b {item}")) == "*1 :0"
            }
        };
        acknowledged.iter().filter(absent).count()
    };
    assert_eq!(missing(&house), 0);
    house.end();
    assert_eq!(missing(&House::open(folder.path())), 0, "after a restart");
}

#[test]
fn two_who_add_and_delete_in_one_cuckoo_filter_count_right_through_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    house.talk(0).say("CF.RESERVE copies 2000 EXPANSION 2");
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let mut talk = house.talk(thread);
            scope.spawn(move || {
                for number in 0..2_000 {
                    assert_eq!(talk.say(&format!("CF.ADD copies {thread}-{number}")), ":1");
                    if number % 2 == 1 {
                        assert_eq!(talk.say(&format!("CF.DEL copies {thread}-{number}")), ":1");
                    }
                }
            });
        }
        scope.spawn(|| (0..5).for_each(|_| house.keeping.snapshot().unwrap()));
    });
    let check = |house: &House| {
        let mut talk = house.talk(0);
        let info = talk.say("CF.INFO copies");
        assert!(info.contains("Number of items inserted :2000 ") && info.contains("deleted :2000 "), "{info}");
        for thread in 0..2 {
            for number in (0..2_000).step_by(2) {
                assert_eq!(talk.say(&format!("CF.EXISTS copies {thread}-{number}")), ":1");
            }
        }
    };
    check(&house);
    house.end();
    check(&House::open(folder.path()));
}

#[test]
fn two_who_fill_a_filter_that_does_not_grow_put_in_what_it_was_made_for_and_no_more() {
    const CAPACITY: usize = 12_000;
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    for round in 0..6 {
        house.talk(0).say(&format!("BF.RESERVE full-{round} 0.0001 {CAPACITY} NONSCALING"));
        let begin = Barrier::new(2);
        let taken: usize = std::thread::scope(|scope| {
            let writers = [0, 1].map(|thread| {
                let (mut talk, begin) = (house.talk(thread), &begin);
                scope.spawn(move || {
                    let batches: Vec<String> = (0..4)
                        .map(|batch| (0..4_000).map(|item| format!(" {thread}-{batch}-{item}")).collect())
                        .collect();
                    begin.wait();
                    let add = |batch: &String| talk.say(&format!("BF.MADD full-{round}{batch}"));
                    batches.iter().map(add).map(|reply| reply.matches(":1").count()).sum::<usize>()
                })
            });
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        // 32,000 items were offered, so it is full; what looked known was not taken.
        assert_eq!(taken, CAPACITY, "round {round}");
        assert_eq!(house.talk(0).say(&format!("BF.CARD full-{round}")), format!(":{CAPACITY}"));
    }
}

/// Somebody copies a filter whose order matters, which holds its writer off for as long as the filter is large.
#[test]
fn a_snapshot_and_a_transaction_wait_for_a_copy_and_hold_up_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("CF.ADD copied x");
    talk.say("BF.ADD other x");
    let entry = house.engine.find(b"copied").unwrap();
    std::thread::scope(|scope| {
        let copying = entry.write();
        let (tell, told) = channel();
        let done = tell.clone();
        let snapshot = scope.spawn(|| house.keeping.snapshot());
        let mut second = house.talk(1);
        let transaction = scope.spawn(move || {
            for line in ["MULTI", "CF.ADD copied y", "BF.ADD other y"] {
                second.say(line);
            }
            second.say("EXEC")
        });
        let mut third = house.talk(2);
        scope.spawn(move || {
            // Long enough for both to come to where they wait.
            for number in 0..40 {
                assert_eq!(third.say(&format!("BF.ADD many-{number} x")), ":1");
                std::thread::sleep(Duration::from_millis(5));
            }
            done.send(()).unwrap();
        });
        let others = told.recv_timeout(PATIENCE);
        assert!(!snapshot.is_finished() && !transaction.is_finished(), "both wait for the copy");
        drop(copying);
        assert!(others.is_ok(), "everybody stood still for a copy");
        snapshot.join().unwrap().unwrap();
        assert_eq!(transaction.join().unwrap(), "*2 :1 :1");
    });
    drop((talk, entry));
    house.end();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!((talk.say("CF.EXISTS copied y"), talk.say("BF.EXISTS other y")), (":1".into(), ":1".into()));
}

#[test]
fn what_is_added_while_filters_are_merged_is_kept_and_a_large_one_that_is_never_at_rest_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    // The first is made with nobody writing in the end, the second is too large for that.
    for (name, capacity) in [("small", 20_000), ("large", 2_000_000)] {
        let mut talk = house.talk(0);
        for one in [name, "source"] {
            let made = talk.say(&format!("BG.CREATE {one} KIND blocked CAPACITY {capacity} RATE 0.01"));
            assert_eq!(made, "+OK");
        }
        talk.say("BG.ADD source from-source");
        let over = AtomicBool::new(false);
        let (added, replies) = std::thread::scope(|scope| {
            let mut writer = house.talk(1);
            let over = &over;
            let adding = scope.spawn(move || {
                let mut added = 0;
                while !over.load(Ordering::Relaxed) {
                    assert!(!writer.say(&format!("BG.ADD {name} item-{added}")).contains('-'));
                    added += 1;
                }
                added
            });
            let replies: Vec<String> = (0..5).map(|_| talk.say(&format!("BG.MERGE {name} source"))).collect();
            over.store(true, Ordering::Relaxed);
            (adding.join().unwrap(), replies)
        });
        match name {
            "small" => assert!(replies.iter().all(|reply| reply == "+OK"), "{replies:?}"),
            _ => {
                let refused =
                    |reply: &String| reply.contains("written to each of 4 times") && reply.contains("less busy");
                assert!(replies.iter().any(refused), "{replies:?}");
                assert!(replies.iter().all(|reply| reply == "+OK" || refused(reply)), "{replies:?}");
                assert_eq!(talk.say(&format!("BG.MERGE {name} source")), "+OK", "at rest");
            }
        }
        assert_eq!(talk.say(&format!("BG.EXISTS {name} from-source")), "*1 :1");
        let lost = (0..added).filter(|item| talk.say(&format!("BG.EXISTS {name} item-{item}")) == "*1 :0").count();
        assert_eq!(lost, 0, "of {added} items");
        talk.say("DEL source");
    }
}
