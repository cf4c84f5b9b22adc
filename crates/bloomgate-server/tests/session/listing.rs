//! KEYS and SCAN while names come, go and change their filters.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::talk::Talk;

/// The names in a reply of KEYS, or in the second part of one of SCAN.
fn names(reply: &str) -> Vec<String> {
    reply.split(' ').filter(|word| !word.starts_with(['$', '*'])).map(str::to_owned).collect()
}

/// Two names that are always there, each for one of two filters: the first that was made and the last.
#[test]
fn keys_has_every_name_that_is_there_all_the_time_once() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BF.ADD first x"), ":1");
    for number in 0..800 {
        talk.say(&format!("BF.ADD between-{number} x"));
    }
    assert_eq!(talk.say("BF.ADD last x"), ":1");
    let over = AtomicBool::new(false);
    let moves = std::thread::scope(|scope| {
        let mut other = talk.another();
        let over = &over;
        let moving = scope.spawn(move || {
            let mut moves = 0u64;
            while !over.load(Ordering::Relaxed) {
                assert_eq!(other.say("BG.SWAP first last"), "+OK");
                // A filter that was made later gives its name away, and one that was made before takes it.
                assert_eq!(other.say("BF.ADD spare x"), ":1");
                assert_eq!(other.say("RENAME last spare"), "+OK");
                assert_eq!(other.say("RENAME spare last"), "+OK");
                moves += 1;
            }
            moves
        });
        let listed: Vec<Vec<String>> = (0..300).map(|_| names(&talk.say("KEYS *"))).collect();
        over.store(true, Ordering::Relaxed);
        for listed in listed {
            let count = |name: &str| listed.iter().filter(|listed| *listed == name).count();
            let between = listed.iter().filter(|name| name.starts_with("between-")).count();
            // One filter is now here and now there, and may be seen under neither name.
            assert_eq!((count("first"), between), (1, 800));
            assert!(count("last") <= 1 && count("spare") <= 1, "{} and {}", count("last"), count("spare"));
        }
        moving.join().unwrap()
    });
    assert!(moves > 100, "{moves}");
}

/// What the page on RedisBloom says of SCAN: names that keep their filter come once, whatever becomes of the others.
#[test]
fn scan_has_every_name_that_keeps_its_filter_once() {
    let mut talk = Talk::new();
    for number in 0..200 {
        talk.say(&format!("BF.ADD stays-{number} x"));
        talk.say(&format!("BF.ADD moves-{number} x"));
    }
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let (mut cursor, mut calls) = ("0".to_owned(), 0);
    loop {
        let reply = talk.say(&format!("SCAN {cursor} COUNT 7"));
        let mut words = names(&reply).into_iter();
        cursor = words.next().unwrap();
        words.for_each(|name| *seen.entry(name).or_default() += 1);
        if cursor == "0" {
            break;
        }
        // Names go to filters that the scan has passed, and to some that it has not.
        let (low, high) = (calls % 200, 199 - calls % 200);
        if low != high {
            assert_eq!(talk.say(&format!("BG.SWAP moves-{low} moves-{high}")), "+OK");
        }
        talk.say(&format!("BF.ADD comes-{calls} x"));
        assert_eq!(talk.say(&format!("RENAME comes-{calls} moves-{}", (calls * 7) % 200)), "+OK");
        calls += 1;
        assert!(calls < 1_000, "it never ends");
    }
    assert!(calls > 20, "{calls}");
    let wrong: Vec<_> = (0..200).filter(|number| seen.get(&format!("stays-{number}")) != Some(&1)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}
