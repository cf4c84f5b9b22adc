//! CF.*: replies in both protocols, and every refusal that the engine gives.

use bloomgate_server::engine::Defaults;
use bloomgate_server::session::Next;

use crate::talk::{Talk, desk, engine};

#[test]
fn adding_asking_counting_and_deleting_in_resp2() {
    let mut talk = Talk::new();
    talk.check(
        "CF.EXISTS f a => :0
         CF.MEXISTS f a b => *2 :0 :0
         CF.COUNT f a => :0
         CF.DEL f a => -Not found
         CF.ADD f a => :1
         CF.ADD f a => :1
         CF.ADDNX f a => :0
         CF.ADDNX f b => :1
         CF.EXISTS f a => :1
         CF.EXISTS f zzz => :0
         CF.MEXISTS f a b zzz => *3 :1 :1 :0
         CF.COUNT f a => :2
         CF.COUNT f zzz => :0
         CF.DEL f a => :1
         CF.COUNT f a => :1
         CF.DEL f a => :1
         CF.DEL f a => :0
         CF.EXISTS f a => :0
         CF.INSERT f ITEMS x y x => *3 :1 :1 :1
         CF.COUNT f x => :2
         CF.INSERTNX f ITEMS x z => *2 :0 :1
         CF.INSERT g NOCREATE ITEMS x => -ERR not found
         CF.INSERTNX g NOCREATE ITEMS x => -ERR not found
         CF.INSERT g CAPACITY 500 ITEMS x => *1 :1
         TYPE f => +MBbloomCF",
    );
}

#[test]
fn yes_and_no_are_booleans_in_resp3_where_redisbloom_has_them() {
    let mut talk = Talk::new().resp3();
    talk.check(
        "CF.EXISTS f a => #f
         CF.ADD f a => #t
         CF.ADDNX f a => #f
         CF.EXISTS f a => #t
         CF.MEXISTS f a b => *2 #t #f
         CF.COUNT f a => :1
         CF.INSERT f ITEMS b => *1 #t
         CF.INSERTNX f ITEMS b c => *2 :0 :1
         CF.DEL f b => #t
         CF.DEL f b => #f
         CF.DEL nobody b => -Not found",
    );
}

#[test]
fn the_copy_too_many_is_refused_and_changes_nothing() {
    // A chain, one that may not grow, and a single table.
    for reserve in
        ["CF.RESERVE f 1000", "CF.RESERVE f 1000 EXPANSION 0", "CF.RESERVE f 1000 FINGERPRINT 20 EXPANSION 0"]
    {
        for mut talk in [Talk::new(), Talk::new().resp3()] {
            talk.say(reserve);
            for copies in 1..=8 {
                assert!([":1", "#t"].contains(&&*talk.say("CF.ADD f a")));
                talk.check(&format!("CF.COUNT f a => :{copies}"));
            }
            let before = talk.say("CF.INFO f");
            let refused = talk.say("CF.ADD f a");
            assert!(refused.starts_with("-ERR the filter holds 8 copies of this item, the most"), "{refused}");
            assert!(refused.contains("nothing was changed"), "{refused}");
            let full = if before.starts_with('%') { "*2 #f #t" } else { "*2 :-1 :1" };
            assert_eq!(talk.say("CF.INSERT f ITEMS a b"), full);
            talk.say("CF.DEL f b");
            assert_eq!(before.replace("deleted :0", "deleted :1"), talk.say("CF.INFO f"));
            talk.check("CF.COUNT f a => :8");
            // What was taken goes one by one, to the last.
            for left in (0..8).rev() {
                assert!([":1", "#t"].contains(&&*talk.say("CF.DEL f a")));
                talk.check(&format!("CF.COUNT f a => :{left}"));
            }
            assert!([":0", "#f"].contains(&&*talk.say("CF.DEL f a")));
            assert!([":0", "#f"].contains(&&*talk.say("CF.EXISTS f a")));
        }
    }
}

#[test]
fn eight_copies_of_many_items_make_it_grow_and_go_again() {
    let mut talk = Talk::new();
    talk.say("CF.RESERVE f 64");
    let all = items("item", 200);
    for round in 0..8 {
        assert!(talk.each("CF.ADD", "f", &all).iter().all(|reply| reply == ":1"), "round {round}");
    }
    // A set adds none to them, and BG.ADD would add one.
    assert!(talk.each("CF.ADDNX", "f", &all).iter().all(|reply| reply == ":0"));
    assert!(talk.say("BG.ADD f item0").starts_with("*1 -ERR the filter holds 8 copies"));
    assert!(talk.each("CF.COUNT", "f", &all).iter().all(|reply| reply == ":8"));
    assert!(talk.each("CF.ADD", "f", &all).iter().all(|reply| reply.starts_with("-ERR the filter holds 8 copies")));
    let chain = talk.say("CF.DEBUG f");
    assert!(chain.contains("items:1600 deletes:0") && !chain.contains("filters:1 "), "{chain}");
    assert_eq!(talk.say("CF.COMPACT f"), "+OK");
    assert!(talk.each("CF.COUNT", "f", &all).iter().all(|reply| reply == ":8"));
    for round in 0..8 {
        assert!(talk.each("CF.EXISTS", "f", &all).iter().all(|reply| reply == ":1"), "round {round}");
        assert!(talk.each("CF.DEL", "f", &all).iter().all(|reply| reply == ":1"), "round {round}");
    }
    assert!(talk.each("CF.EXISTS", "f", &all).iter().all(|reply| reply == ":0"));
    assert!(talk.each("CF.DEL", "f", &all).iter().all(|reply| reply == ":0"));
}

#[test]
fn reserve_keeps_what_was_asked_for_and_info_tells_it() {
    let mut talk = Talk::new();
    talk.check(
        "CF.RESERVE f 1000 BUCKETSIZE 8 MAXITERATIONS 30 EXPANSION 3 => +OK
         CF.RESERVE f 1000 => -ERR item exists
         CF.RESERVE n 1000 EXPANSION 0 => +OK
         CF.RESERVE d 1000 => +OK
         CF.RESERVE r 1000 RATE 0.0001 => +OK
         CF.RESERVE wide 1000 FINGERPRINT 40 => -ERR FINGERPRINT 40 stands for a rate of 8 in 2^40 over all tables of a filter that grows, which they cannot keep: give fewer bits, or EXPANSION 0 for one table of this width
         CF.RESERVE wide 1000 FINGERPRINT 40 EXPANSION 0 => +OK
         CF.RESERVE b 1000 FINGERPRINT 20 => +OK
         CF.RESERVE fixed 1000 FINGERPRINT 20 EXPANSION 0 => +OK",
    );
    let info = talk.say("CF.INFO f");
    let (size, rest) = info.strip_prefix("*16 +Size :").unwrap().split_once(' ').unwrap();
    assert!((1_000..100_000).contains(&size.parse::<u64>().unwrap()), "{size}");
    let (buckets, rest) = rest.strip_prefix("+Number of buckets :").unwrap().split_once(' ').unwrap();
    assert!((250..=512).contains(&buckets.parse::<u64>().unwrap()), "{buckets}");
    assert_eq!(
        rest,
        "+Number of filters :1 +Number of items inserted :0 +Number of items deleted :0 +Bucket size :8 +Expansion rate \
         :4 +Max iterations :30"
    );
    assert!(talk.say("CF.INFO n").ends_with("+Bucket size :2 +Expansion rate :0 +Max iterations :20"));
    assert!(talk.say("CF.INFO d").ends_with("+Bucket size :2 +Expansion rate :1 +Max iterations :20"));
    assert_eq!(
        talk.say("CF.DEBUG f").split_once(' ').unwrap().1,
        format!("bktsize:8 buckets:{buckets} items:0 deletes:0 filters:1 max_iterations:30 expansion:4")
    );
    // The width is what was asked for: one table has just it, a chain keeps the rate.
    let bits = |key: &[u8]| match talk.engine.find(key).unwrap().body() {
        bloomgate_server::engine::entry::Body::Shared(bloomgate::AnyFilter::Cuckoo(table)) => {
            table.shape().fingerprint_bits()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(bits(b"fixed"), 20);
    let promised = |key: &[u8]| talk.engine.find(key).unwrap().with(|filter| filter.promised_rate()).unwrap();
    assert!((promised(b"r") - 0.0001).abs() < 1e-12);
    assert!((promised(b"d") - 1e-4).abs() < 1e-12);
    assert!((promised(b"b") - 8.0 / 1_048_576.0).abs() < 1e-12);
    let mut third = talk.another().resp3();
    let info = third.say("CF.INFO f");
    assert!(info.starts_with("%8 +Size :"), "{info}");
}

#[test]
fn a_capacity_holds_two_buckets_of_the_size_that_is_set() {
    let mut talk = Talk::new();
    let set = |talk: &Talk, cf_bucket_size| {
        talk.engine.set_defaults(&Defaults { cf_bucket_size, ..Defaults::default() });
    };
    set(&talk, 8);
    talk.check(
        "CF.RESERVE f 15 => -Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
         CF.INSERT f CAPACITY 15 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
         CF.INSERTNX f CAPACITY 15 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
         EXISTS f => :0
         CF.RESERVE f 16 => +OK
         CF.INSERT f CAPACITY 15 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
         CF.RESERVE g 15 BUCKETSIZE 7 => +OK
         CF.INSERT h CAPACITY 16 ITEMS a => *1 :1",
    );
    set(&talk, 1);
    talk.check(
        "CF.RESERVE i 1 => -Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
         CF.RESERVE i 2 => +OK
         CF.INSERT j CAPACITY 2 ITEMS a => *1 :1",
    );
}

#[test]
fn numbers_that_are_none_or_too_large_are_refused_in_redisblooms_words() {
    let mut talk = Talk::new();
    talk.check(
        "CF.RESERVE f => -ERR wrong number of arguments for 'cf.reserve' command
         CF.RESERVE f 100 BUCKETSIZE => -ERR wrong number of arguments for 'cf.reserve' command
         CF.RESERVE f abc => -Bad capacity
         CF.RESERVE f 100 BUCKETSIZE x => -Couldn't parse BUCKETSIZE
         CF.RESERVE f 100 MAXITERATIONS x => -Couldn't parse MAXITERATIONS
         CF.RESERVE f 100 EXPANSION x => -Couldn't parse EXPANSION
         CF.RESERVE f 100 BUCKETSIZE 0 => -BUCKETSIZE: value must be in the range [1, 255]
         CF.RESERVE f 100 MAXITERATIONS 65536 => -MAXITERATIONS: value must be in the range [1, 65535]
         CF.RESERVE f 100 EXPANSION 32769 => -EXPANSION: value must be in the range [0, 32768]
         CF.RESERVE f 3 => -Capacity must be in the range [2 * BUCKETSIZE, 1073741824]
         CF.INSERT f CAPACITY x ITEMS a => -Bad capacity
         CF.INSERT f CAPACITY 3 ITEMS a => -Capacity must be in the range [cf-bucket-size * 2, 1073741824]
         CF.INSERT f WHAT ITEMS a => -Unknown argument received
         CF.INSERT f ITEMS => -ERR wrong number of arguments for 'cf.insert' command
         CF.INSERTNX f CAPACITY 10 NOCREATE => -ERR wrong number of arguments for 'cf.insertnx' command
         CF.ADD f => -ERR wrong number of arguments for 'cf.add' command
         CF.INFO f => -ERR not found
         CF.DEBUG f => -ERR not found
         CF.COMPACT f => -Cuckoo filter was not found
         DBSIZE => :0",
    );
    let refused = talk.say("CF.RESERVE f 1073741824");
    assert!(refused.starts_with("-ERR Insufficient memory to create filter: it needs "), "{refused}");
}

#[test]
fn a_filter_of_the_other_family_is_the_wrong_type_and_never_a_no() {
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    for mut talk in [Talk::new(), Talk::new().resp3()] {
        talk.say("BF.ADD bloom a");
        for command in [
            "CF.RESERVE bloom 100",
            "CF.ADD bloom a",
            "CF.ADDNX bloom a",
            "CF.INSERT bloom ITEMS a",
            "CF.INSERTNX bloom NOCREATE ITEMS a",
            "CF.EXISTS bloom a",
            "CF.MEXISTS bloom a b",
            "CF.COUNT bloom a",
            "CF.DEL bloom a",
            "CF.COMPACT bloom",
            "CF.INFO bloom",
            "CF.DEBUG bloom",
        ] {
            assert_eq!(talk.say(command), wrong, "{command}");
        }
        talk.say("CF.ADD cuckoo a");
        for command in ["BF.EXISTS cuckoo a", "BF.MEXISTS cuckoo a b", "BF.ADD cuckoo a", "BF.RESERVE cuckoo 0.1 10"] {
            assert_eq!(talk.say(command), wrong, "{command}");
        }
    }
}

#[test]
fn a_full_filter_says_so_for_each_item_and_takes_what_fits() {
    let mut talk = Talk::new();
    talk.check("CF.RESERVE f 100 EXPANSION 0 => +OK");
    let items: Vec<String> = (0..150).map(|item| format!("item{item}")).collect();
    let reply = talk.say(&format!("CF.INSERT f ITEMS {}", items.join(" ")));
    let stored: Vec<&str> = reply.split(' ').skip(1).collect();
    assert_eq!(stored.len(), 150);
    assert!(stored[..100].iter().all(|&one| one == ":1") && stored[100..].iter().all(|&one| one == ":-1"), "{reply}");
    let mut third = talk.another().resp3();
    third.check(
        "CF.ADD f more => -Filter is full
         CF.ADDNX f more => -Filter is full
         CF.ADDNX f item0 => #f
         CF.INSERT f ITEMS more => *1 #f
         CF.INSERTNX f ITEMS item0 more => *2 :0 :-1
         CF.DEL f item0 => #t
         CF.ADD f more => #t",
    );
    for item in &items[1..100] {
        assert_eq!(talk.say(&format!("CF.EXISTS f {item}")), ":1", "{item}");
    }
}

#[test]
fn growth_is_charged_and_refused_where_there_is_no_memory() {
    let mut talk = Talk::with(engine(12_000), desk());
    talk.check("CF.RESERVE f 1000 => +OK");
    let mut stored = 0;
    let refused = loop {
        match talk.say(&format!("CF.ADD f item{stored}")) {
            reply if reply == ":1" => stored += 1,
            refused => break refused,
        }
    };
    let figures = "-ERR Insufficient memory: to grow it needs ";
    assert!(
        refused.starts_with(figures) && refused.contains(" are left under max-filter-memory; no new filter"),
        "{refused}"
    );
    assert!(talk.say("CF.RESERVE g 8").starts_with("-ERR Insufficient memory to create filter: "), "nor does one");
    assert!((1_000..10_000).contains(&stored), "{stored}");
    assert_eq!(talk.say(&format!("CF.INSERT f ITEMS item{stored}")), "*1 :-1");
    assert!((0..stored).all(|item| talk.say(&format!("CF.EXISTS f item{item}")) == ":1"));
}

/// So many items with a prefix.
fn items(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|item| format!("{prefix}{item}")).collect()
}

/// A filter of five tables or more, of which a tenth of the items is left: with 5 bytes an item when it is to be large.
fn hollow(talk: &mut Talk, large: bool) -> Vec<String> {
    let (reserve, count) = if large { ("CF.RESERVE f 10000 RATE 1e-9", 160_000) } else { ("CF.RESERVE f 100", 1_600) };
    assert_eq!(talk.say(reserve), "+OK");
    let mut all = items("item", count);
    assert!(talk.each("CF.ADD", "f", &all).iter().all(|reply| reply == ":1"));
    assert_eq!(talk.engine.budget.used() > 1 << 20, large, "{} bytes", talk.engine.budget.used());
    let gone = all.split_off(count / 10);
    assert!(talk.each("CF.DEL", "f", &gone).iter().all(|reply| reply == ":1"));
    all
}

fn tables(talk: &mut Talk) -> u64 {
    let info = talk.say("CF.INFO f");
    let (_, rest) = info.split_once("+Number of filters :").unwrap();
    rest.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn compaction_frees_tables_and_loses_nothing() {
    for large in [false, true] {
        let mut talk = Talk::new();
        let left = hollow(&mut talk, large);
        talk.say("PEXPIREAT f 4102444800000");
        let (before, bytes) = (tables(&mut talk), talk.engine.budget.used());
        assert!(before >= 4, "{before}");
        talk.check("CF.COMPACT f => +OK");
        let after = tables(&mut talk);
        assert!(after < before, "{after} of {before}");
        assert!(talk.engine.budget.used() < bytes);
        let info = talk.say("CF.INFO f");
        assert!(info.contains(&format!("inserted :{} +Number of items deleted :0", left.len())), "{info}");
        assert!(talk.each("CF.EXISTS", "f", &left).iter().all(|reply| reply == ":1"));
        // Nothing left to do is fine too, also within a transaction.
        talk.check(
            "PEXPIRETIME f => :4102444800000
             CF.COMPACT f => +OK
             MULTI => +OK
             CF.COMPACT f => +QUEUED
             CF.EXISTS f item0 => +QUEUED
             EXEC => *2 +OK :1
             CF.ADD f again => :1",
        );
    }
}

#[test]
fn a_request_that_was_answered_before_a_compaction_is_not_done_again() {
    let mut talk = Talk::new();
    hollow(&mut talk, false);
    talk.say("CF.ADD f twice");
    talk.say("CF.ADD f twice");
    let before = tables(&mut talk);
    let removal = "BG.REMOVE f REQUEST order-17 ITEMS twice";
    let answer = talk.say(removal);
    talk.check("CF.COMPACT f => +OK");
    assert!(tables(&mut talk) < before);
    assert_eq!(talk.say(removal), answer);
    talk.check("CF.COUNT f twice => :1");
}

#[test]
fn compaction_within_a_transaction_frees_tables_too() {
    let mut talk = Talk::new();
    let left = hollow(&mut talk, true);
    let before = tables(&mut talk);
    talk.check("MULTI => +OK\n CF.COMPACT f => +QUEUED\n EXEC => *1 +OK");
    assert!(tables(&mut talk) < before);
    assert!(talk.each("CF.EXISTS", "f", &left).iter().all(|reply| reply == ":1"));
}

#[test]
fn writers_wait_for_a_frozen_filter_and_transactions_do_not() {
    let mut talk = Talk::new();
    talk.say("CF.ADD f a");
    let entry = talk.engine.find(b"f").unwrap();
    let frozen = entry.freeze().unwrap();
    assert!(entry.freeze().is_none());
    for command in ["CF.ADD f b\r\n", "CF.DEL f a\r\n"] {
        let mut out = Vec::new();
        let turn = talk.session.turn(&mut talk.core, &talk.desk, command.as_bytes(), &mut out);
        assert_eq!((turn.next, turn.consumed, out.len()), (Next::Wait, 0, 0), "{command}");
    }
    let seen = entry.touched();
    let mut other = talk.another();
    other.check(
        "CF.EXISTS f a => :1
         MULTI => +OK
         CF.ADD f c => +QUEUED
         EXEC => *1 :1",
    );
    assert!(entry.touched() > seen, "whoever froze it sees that it has changed");
    drop(frozen);
    other.check("CF.ADD f b => :1");
}

#[test]
fn adds_beside_compactions_are_never_lost() {
    let mut talk = Talk::new();
    let left = hollow(&mut talk, true).len();
    let (engine, desk) = (talk.engine.clone(), talk.desk.clone());
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || {
            let mut talk = Talk::join(engine, desk);
            talk.core.thread = 1;
            for item in 0..5_000 {
                assert_eq!(talk.say(&format!("CF.ADD f new{item}")), ":1");
                if item % 500 == 0 {
                    talk.check("MULTI => +OK");
                    talk.say(&format!("CF.ADD f both{item}"));
                    assert_eq!(talk.say("EXEC"), "*1 :1");
                }
            }
        });
        while !writer.is_finished() {
            talk.check("CF.COMPACT f => +OK");
        }
    });
    assert!(talk.each("CF.EXISTS", "f", &items("new", 5_000)).iter().all(|reply| reply == ":1"));
    for item in (0..5_000).step_by(500) {
        assert_eq!(talk.say(&format!("CF.EXISTS f both{item}")), ":1", "{item}");
    }
    assert!(talk.say("CF.INFO f").contains(&format!("inserted :{}", left + 5_010)));
}
