//! BG.REKEY and BG.FEED: a new secret without a moment in which the filter does not answer.

use super::harness::{Server, Value};

#[test]
fn a_filter_moves_to_a_new_secret_and_loses_nothing() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BF.RESERVE f 0.01 100");
    client.items("BF.MADD f", 0..1_000);
    let old = client.ask("BG.INFO f secret_id");
    assert_eq!(client.ask("BG.REKEY f STATUS").field("state").text(), "idle");
    client.refuses("BG.REKEY f FINISH", "is not being rekeyed");
    client.refuses("BG.REKEY f ABORT", "is not being rekeyed");
    client.refuses("BG.FEED f a", "is not being rekeyed");
    server.at(100.0);
    client.ok("BG.REKEY f START");
    client.refuses("BG.REKEY f START", "being rekeyed already");
    // Adds by any command go to both; what was there before has to be fed.
    client.items("BF.MADD f", 1_000..1_200);
    client.items("BG.ADD f", 1_200..1_300);
    let status = client.ask("BG.REKEY f STATUS");
    assert_eq!(status.field("state").text(), "feeding");
    assert!((290..=300).contains(&status.field("new_items").int()), "{status:?}");
    client.refuses("BG.REKEY f FINISH", "would be lost");
    assert_eq!(client.found("f", 0..1_300), 1_300, "the old one answers meanwhile");
    assert!((990..=1_000).contains(&client.items("BG.FEED f", 0..1_000).int()));
    assert!(client.items("BG.FEED f", 0..1_000).int() == 0);
    client.ok("BG.REKEY f FINISH");
    assert_eq!(client.found("f", 0..1_300), 1_300);
    assert!(client.found("f", 50_000..51_000) < 40);
    assert_ne!(client.ask("BG.INFO f secret_id"), old);
    assert_eq!(client.ask("BG.INFO f secret_epoch").int(), 2);
    assert_eq!(client.ask("BG.INFO f maker").text(), "BF");
    assert_eq!(client.ask("DBSIZE").int(), 1);
    client.ok("BG.REKEY f START");
    client.ok("BG.REKEY f ABORT");
    assert_eq!(client.ask("BG.INFO f secret_epoch").int(), 2);
    assert_eq!(client.ask("DBSIZE").int(), 1);
    let secrets = client.ask("BG.SECRETS");
    let current: Vec<i64> = secrets.array().iter().map(|one| one.field("current").int()).collect();
    assert_eq!(current, [0, 1], "one that was given up leaves nothing behind");
    client.ok("BG.CREATE after KIND blocked CAPACITY 100");
    assert_eq!(client.ask("BG.INFO after secret_epoch").int(), 2);
}

#[test]
fn a_feed_that_is_not_whole_does_not_pass() {
    let server = Server::new();
    let mut client = server.client(0);
    for items in [1, 2, 10, 100, 3_000] {
        client.ok("BG.CREATE f KIND blocked CAPACITY 4000");
        client.items("BG.ADD f", 0..items);
        client.ok("BG.REKEY f START");
        client.items("BG.FEED f", items / 10..items - 1);
        client.refuses("BG.REKEY f FINISH", "would be lost");
        client.items("BG.FEED f", 0..items);
        client.ok("BG.REKEY f FINISH");
        assert_eq!(client.found("f", 0..items), items);
        client.ask("DEL f");
    }
}

/// By the shadow's count alone ten thousand of a million could be missing at 1 %: its own false positives might be as many.
#[test]
fn a_feed_that_lacks_fewer_items_than_the_rate_takes_for_known_does_not_pass() {
    let server = Server::new();
    let mut client = server.client(0);
    for (rate, items) in [("0.01", 20_000), ("0.001", 20_000), ("0.1", 3_000)] {
        client.ok(&format!("BG.CREATE f KIND blocked CAPACITY {} RATE {rate}", items + items / 5));
        client.items("BG.ADD f", 0..items);
        assert_eq!(client.found("f", 0..items), items);
        let counted = client.ask("BG.INFO f items").int() as u64;
        client.ok("BG.REKEY f START");
        // Of those that the filter counted one is missing.
        client.items("BG.FEED f", 0..counted - 1);
        let status = client.ask("BG.REKEY f STATUS");
        assert_eq!(status.field("fed").int() as u64, counted - 1);
        if rate == "0.01" {
            assert_eq!(status.field("missing_at_least").int(), 0, "the shadow's count alone would let it pass");
        }
        client.refuses("BG.REKEY f FINISH", "would be lost");
        client.items("BG.FEED f", counted - 1..items);
        client.ok("BG.REKEY f FINISH");
        assert_eq!(client.found("f", 0..items), items);
        client.ask("DEL f");
    }
}

/// By its count it takes no more, and under another secret others of its items are taken for known.
#[test]
fn a_filter_that_is_full_has_room_for_all_its_items_under_the_next_secret() {
    let server = Server::new();
    let mut client = server.client(0);
    for kind in ["blocked", "classic", "partitioned"] {
        client.ok(&format!("BG.CREATE f KIND {kind} CAPACITY 3000 RATE 0.1"));
        let replies = client.items("BG.ADD f", 0..4_000);
        let taken: Vec<u64> = (0..4_000)
            .zip(replies.array())
            .filter(|(_, reply)| matches!(reply, Value::Int(_)))
            .map(|(item, _)| item)
            .collect();
        assert!((2_900..4_000).contains(&taken.len()), "{kind}: {}", taken.len());
        for _ in 0..3 {
            client.ok("BG.REKEY f START");
            assert!(client.items("BG.FEED f", taken.iter().copied()).int() > 2_000, "{kind}");
            client.ok("BG.REKEY f FINISH");
            let found: i64 = client.items("BG.EXISTS f", taken.iter().copied()).ints().iter().sum();
            assert_eq!(found as usize, taken.len(), "{kind}");
        }
        assert!(client.ask("BG.INFO f capacity").int() < 3_600, "{kind}: it does not grow with each secret");
        client.ask("DEL f");
    }
}

#[test]
fn force_finishes_whatever_was_fed_and_goes_with_finish_alone() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND scalable CAPACITY 1000");
    client.items("BG.ADD f", 0..1_000);
    client.refuses("BG.REKEY f FINISH FORCE", "is not being rekeyed");
    client.refuses("BG.REKEY f START FORCE", "FORCE goes with FINISH alone");
    client.refuses("BG.REKEY f FINISH NOW", "must be one of FORCE");
    client.ok("BG.REKEY f START");
    // The source has forgotten the rest, and so may the filter.
    client.items("BG.FEED f", 0..500);
    client.refuses("BG.REKEY f FINISH", "FINISH FORCE if they may be lost");
    client.ok("BG.REKEY f FINISH FORCE");
    assert_eq!(client.found("f", 0..500), 500);
    assert!(client.found("f", 500..1_000) < 40);
}

/// Whoever may add and not delete feeds other items until both filters count alike: 10,000 at a rate of 10 % are enough.
#[test]
fn items_that_the_filter_does_not_have_do_not_stand_for_its_own() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND classic CAPACITY 1050 RATE 0.1");
    client.items("BG.ADD f", 0..1_000);
    client.ok("BG.REKEY f START");
    let taken = client.items("BG.FEED f", 100_000..109_000).int();
    assert!((500..=1_000).contains(&taken), "a tenth of them looks like the filter's own: {taken}");
    let status = client.ask("BG.REKEY f STATUS");
    assert_eq!(status.field("new_items").int(), taken);
    assert!((7_800..=9_000 - taken).contains(&status.field("fed_in_vain").int()), "{status:?}");
    client.refuses("BG.REKEY f FINISH", "would be lost");
    assert_eq!(client.found("f", 0..1_000), 1_000);
    // In a filter that has few, hardly any other is taken: the feed of a source that has more than the filter passes.
    client.ok("BG.CREATE g KIND scalable CAPACITY 100");
    client.items("BG.ADD g", 0..1_000);
    client.ok("BG.REKEY g START");
    client.items("BG.FEED g", 100_000..100_500);
    assert!(client.ask("BG.REKEY g STATUS").field("new_items").int() < 20);
    client.refuses("BG.REKEY g FINISH", "count for nothing");
    client.items("BG.FEED g", 0..10_000);
    client.ok("BG.REKEY g FINISH");
    assert_eq!(client.found("g", 0..1_000), 1_000);
}

#[test]
fn what_cannot_be_rekeyed_says_what_to_do() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE c KIND counting CAPACITY 100");
    client.ok("BG.CREATE x KIND blocked CAPACITY 100 HASH xxh3");
    client.refuses("BG.REKEY c START", "BG.SWAP them");
    client.ask("CF.ADD cuckoo a");
    client.refuses("BG.REKEY cuckoo START", "is not rekeyed in place");
    client.ok("BG.CREATE q KIND quotient CAPACITY 100");
    client.refuses("BG.REKEY q START", "a quotient filter is not rekeyed in place");
    client.refuses("BG.REKEY x START", "has no secret to change");
    client.refuses("BG.REKEY nobody START", "ERR not found");
    client.refuses("BG.REKEY nobody FINISH", "ERR not found");
}

#[test]
fn while_it_is_rekeyed_a_filter_keeps_its_name_and_goes_with_its_shadow() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 100");
    client.ok("BG.CREATE g KIND blocked CAPACITY 100");
    let used = server.engine.budget.used();
    client.ok("BG.REKEY f START");
    client.refuses("RENAME f h", "FINISH or ABORT first");
    client.refuses("RENAME g f", "FINISH or ABORT first");
    client.refuses("BG.SWAP f g", "FINISH or ABORT first");
    client.refuses("BG.COPY g f REPLACE", "FINISH or ABORT first");
    client.refuses("BG.FOLD f 2", "ERR");
    // After a restart they find each other by name.
    server.engine.link_shadows();
    client.ask("BG.ADD f a");
    assert_eq!(client.ask("BG.REKEY f STATUS").field("new_items").int(), 1);
    assert_eq!(client.ask("DEL f").int(), 1);
    assert_eq!(client.ask("KEYS *"), Value::Array(vec![Value::Bulk(b"g".to_vec())]));
    assert_eq!(server.engine.budget.used(), used / 2);
}

#[test]
fn adds_during_a_rekey_are_in_both_whoever_adds() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND scalable CAPACITY 100");
    client.items("BG.ADD f", 0..500);
    std::thread::scope(|scope| {
        for thread in 1..3u64 {
            let server = &server;
            scope.spawn(move || {
                let mut client = server.client(thread as usize);
                for item in 0..1_500 {
                    client.items("BF.MADD f", [thread * 10_000 + item]);
                }
            });
        }
        // Everything that is there is fed, whenever it came.
        client.ok("BG.REKEY f START");
        client.items("BG.FEED f", 0..500);
        for thread in 1..3u64 {
            client.items("BG.FEED f", thread * 10_000..thread * 10_000 + 1_500);
        }
        client.ok("BG.REKEY f FINISH");
    });
    assert_eq!(client.found("f", 0..500), 500);
    for thread in 1..3u64 {
        assert_eq!(client.found("f", thread * 10_000..thread * 10_000 + 1_500), 1_500);
    }
}

#[test]
fn a_shadow_is_seen_and_reached_by_nobody() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 100");
    client.ok("BG.REKEY f START");
    let own = "the server's own";
    // Every command of the table that takes a name, with its example's other words.
    let all = bloomgate_command::TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    let mut tried = 0;
    for spec in all.filter(|spec| spec.keys.first > 0) {
        let mut words: Vec<&str> = spec.example.0.split(' ').collect();
        // An address has 64 digits.
        let filler = &"1".repeat(if spec.name == "bg.delta" { 64 } else { 1 });
        words.iter_mut().filter(|word| word.starts_with('<')).for_each(|word| *word = filler);
        words[spec.keys.first as usize] = "bloomgate:rekey:f";
        client.refuses(&words.join(" "), own);
        tried += 1;
    }
    assert!(tried > 60, "only {tried} commands with names");
    // In other places than the first, after options, in a pipeline's batch and in a transaction.
    for line in [
        "DEL f bloomgate:rekey:f",
        "RENAME f bloomgate:rekey:x",
        "COPY f bloomgate:rekey:x",
        "BG.SWAP f bloomgate:rekey:f",
    ] {
        client.refuses(line, own);
    }
    client.refuses("BG.CREATE g LIKE bloomgate:rekey:f", own);
    client.refuses("BF.MADD bloomgate:rekey:f a b", own);
    client.refuses("BF.MEXISTS bloomgate:rekey:f a b", own);
    client.ok("MULTI");
    client.refuses("BF.ADD bloomgate:rekey:f a", own);
    client.refuses("EXEC", "EXECABORT");
    // Nothing lists it.
    assert_eq!(client.ask("KEYS *"), Value::Array(vec![Value::Bulk(b"f".to_vec())]));
    assert_eq!(client.ask("SCAN 0 COUNT 100").array()[1], Value::Array(vec![Value::Bulk(b"f".to_vec())]));
    assert_eq!(client.ask("DBSIZE").int(), 1);
    for _ in 0..20 {
        assert_eq!(client.ask("RANDOMKEY"), Value::Bulk(b"f".to_vec()));
    }
    assert_eq!(client.ask("BG.REKEY f STATUS").field("new_items").int(), 0);
    client.ok("BG.REKEY f FINISH");
    assert_eq!(client.ask("DBSIZE").int(), 1);
    client.ok("BG.REKEY f START");
    client.ok("FLUSHALL");
    client.ok("BG.CREATE f KIND blocked CAPACITY 100");
    assert_eq!(client.ask("DBSIZE").int(), 1);
}
