//! Writers against each other and against those who change names: nothing that was acknowledged is lost.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::house::House;

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
