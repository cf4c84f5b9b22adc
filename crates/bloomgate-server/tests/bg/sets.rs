//! BG.MERGE, BG.INTERSECT, BG.FOLD, BG.COPY and BG.SWAP, also while others write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::harness::{Server, Value};

#[test]
fn a_filter_that_takes_anothers_place_has_its_answered_requests_from_the_first_record_on() {
    let server = Server::new();
    let mut client = server.client(0);
    for name in ["a", "b"] {
        client.ok(&format!("BG.CREATE {name} KIND counting CAPACITY 1000 CONTRACT one"));
        client.items(&format!("BG.ADD {name}"), 0..10);
    }
    client.ok("CF.RESERVE c 100 EXPANSION 2");
    client.items("BG.ADD c", 0..500);
    client.items("BG.REMOVE a REQUEST r ITEMS", 0..2);
    client.items("BG.REMOVE c REQUEST r ITEMS", 0..400);
    for command in ["BG.MERGE a b", "CF.COMPACT c"] {
        let before = server.engine.journal.appended();
        client.ok(command);
        assert_eq!(server.engine.journal.appended(), before + 1, "{command}: one record, so nothing comes between");
    }
    let counts = client.items("BG.COUNT a", 0..10).ints();
    assert_eq!(client.items("BG.REMOVE a REQUEST r ITEMS", 0..2).ints(), [1; 2]);
    assert_eq!(client.items("BG.COUNT a", 0..10).ints(), counts);
    assert_eq!(client.items("BG.REMOVE c REQUEST r ITEMS", 0..400).ints(), [1; 400]);
    assert_eq!(client.found("c", 400..500), 100);
    let used: u64 = ["a", "b", "c"].iter().map(|name| server.engine.find(name.as_bytes()).unwrap().memory()).sum();
    assert_eq!(server.engine.budget.used(), used);
}

#[test]
fn merging_keeps_all_items_and_counts_copies() {
    let server = Server::new();
    let mut client = server.client(0);
    for kind in ["blocked", "classic", "partitioned", "counting", "quotient"] {
        for (name, from) in [("a", 0), ("b", 300), ("c", 600)] {
            client.ok(&format!("BG.CREATE {kind}-{name} KIND {kind} CAPACITY 2000"));
            client.items(&format!("BG.ADD {kind}-{name}"), from..from + 400);
        }
        // Into nothing, then into what is there.
        client.ok(&format!("BG.MERGE {kind}-all {kind}-a {kind}-b"));
        assert_eq!(client.found(&format!("{kind}-all"), 0..700), 700, "{kind}");
        client.ask(&format!("PEXPIRE {kind}-all 100000"));
        client.ok(&format!("BG.MERGE {kind}-all {kind}-c"));
        assert_eq!(client.found(&format!("{kind}-all"), 0..1_000), 1_000, "{kind}");
        assert!(client.found(&format!("{kind}-all"), 10_000..11_000) < 60, "{kind}");
        assert_eq!(client.ask(&format!("PTTL {kind}-all")).int(), 100_000, "{kind}");
        // The sources are as they were, and the result takes more.
        assert!(client.found(&format!("{kind}-a"), 400..1_000) < 40, "{kind}");
        assert_eq!(client.items(&format!("BG.ADD {kind}-all"), 5_000..5_001).array().len(), 1);
        client.ok(&format!("BG.MERGE {kind}-a {kind}-a"));
    }
    assert_eq!(client.items("BG.COUNT counting-all", 350..351).ints(), [2]);
    assert_eq!(client.items("BG.COUNT quotient-all", 350..351).ints(), [2]);
}

#[test]
fn what_does_not_agree_is_refused_and_nothing_changes() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE a KIND blocked CAPACITY 1000");
    client.ok("BG.CREATE b KIND blocked CAPACITY 9000");
    client.ok("BG.CREATE c KIND classic CAPACITY 1000");
    client.ok("BF.RESERVE s 0.01 100");
    client.ok("BF.RESERVE t 0.01 100");
    client.items("BG.ADD a", 0..100);
    let (digest, used) = (client.ask("BG.DIGEST a"), server.engine.budget.used());
    client.refuses("BG.MERGE a b", "ERR");
    client.refuses("BG.MERGE a c", "a classic filter");
    client.refuses("BG.MERGE s t", "two scalable filters cannot be made into one");
    client.refuses("BG.MERGE a nobody", "there is no filter 'nobody'");
    client.refuses("BG.INTERSECT x a b", "ERR");
    client.refuses("BG.INTERSECT x a nobody", "there is no filter 'nobody'");
    client.refuses("BG.INTERSECT x s t", "blocked, classic and partitioned");
    client.refuses("BG.FOLD s 2", "a scalable filter cannot be folded: classic, blocked and partitioned ones can");
    client.refuses("BG.FOLD nobody 2", "ERR not found");
    client.ok("BG.CREATE odd KIND blocked CAPACITY 1000");
    let lines = client.ask("BG.INFO odd bytes").int() / 64;
    assert!(lines > 1, "{lines}");
    let refusal = client.ask(&format!("BG.FOLD odd {}", lines + 1));
    let refusal = format!("{refusal:?}");
    assert_eq!(client.ask("DEL odd").int(), 1);
    assert!(refusal.contains("give one of these, or RATE") && !refusal.contains("fold_levels"), "{refusal}");
    client.refuses("BG.SWAP a nobody", "there is no filter 'nobody'");
    assert_eq!(client.ask("BG.DIGEST a"), digest);
    assert_eq!((client.ask("EXISTS x").int(), server.engine.budget.used()), (0, used));
}

#[test]
fn intersecting_and_folding_keep_what_they_must() {
    let server = Server::new();
    let mut client = server.client(0);
    for (name, from) in [("a", 0), ("b", 1_000)] {
        client.ok(&format!("BG.CREATE {name} KIND partitioned CAPACITY 16000 RATE 0.001"));
        client.items(&format!("BG.ADD {name}"), from..from + 2_000);
    }
    client.ok("BG.INTERSECT both a b");
    assert_eq!(client.found("both", 1_000..2_000), 1_000);
    assert!(client.found("both", 0..1_000) + client.found("both", 2_000..3_000) < 40);
    client.ok("BG.INTERSECT a a b");
    assert_eq!(client.found("a", 1_000..2_000), 1_000);
    assert!(client.found("a", 0..1_000) < 20);
    client.ok("BG.CREATE large KIND blocked BYTES 262144");
    client.items("BG.ADD large", 0..2_000);
    let bytes = client.ask("BG.INFO large bytes").int();
    client.ok("BG.FOLD large 4");
    assert_eq!(client.ask("BG.INFO large bytes").int(), bytes / 4);
    assert_eq!(client.found("large", 0..2_000), 2_000);
    client.ok("BG.FOLD large RATE 0.05");
    assert!(client.ask("BG.INFO large bytes").int() < bytes / 8);
    assert_eq!(client.found("large", 0..2_000), 2_000);
    // Two-sided: it costs what was asked for, and not nothing.
    let wrong = client.found("large", 100_000..110_000);
    assert!((20..=600).contains(&wrong), "{wrong} of 10,000 at 5 % at most");
}

#[test]
fn copies_and_swaps_are_of_one_instant() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE a KIND cuckoo CAPACITY 1000");
    client.items("BG.ADD a", 0..100);
    client.ask("PEXPIRE a 7000");
    assert_eq!(client.ask("BG.COPY a b").int(), 1);
    assert_eq!(client.ask("BG.DIGEST a"), client.ask("BG.DIGEST b"));
    assert_eq!(client.ask("PTTL b").int(), 7_000);
    client.items("BG.ADD b", 100..200);
    assert_eq!(client.ask("BG.COPY a b").int(), 0);
    assert_eq!((client.found("a", 100..200), client.found("b", 0..200)), (0, 200));
    client.ok("BG.SWAP a b");
    assert_eq!((client.found("a", 0..200), client.found("b", 100..200)), (200, 0));
    client.ok("BG.SWAP a a");
    assert_eq!(client.ask("BG.COPY a b REPLACE").int(), 1);
    assert_eq!(client.found("b", 0..200), 200);
    assert_eq!(client.ask("BG.COPY nobody c").int(), 0);
    client.refuses("BG.COPY a a", "the same");
}

/// Adds from one thread and merges from another: nothing that was acknowledged is missing afterwards.
#[test]
fn merging_loses_no_concurrent_add() {
    for kind in ["blocked", "classic", "counting"] {
        let server = Server::new();
        let mut client = server.client(0);
        client.ok(&format!("BG.CREATE all KIND {kind} CAPACITY 50000 ONFULL goon"));
        client.ok("BG.CREATE more LIKE all");
        let (added, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let merges = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut client = server.client(1);
                for item in 0..6_000 {
                    let reply = client.items("BG.ADD all", [item]);
                    assert!(matches!(reply.array()[0], Value::Int(_)), "{reply:?}");
                    added.store(item + 1, Ordering::Release);
                }
                over.store(true, Ordering::Release);
            });
            let mut merges = 0;
            while !over.load(Ordering::Acquire) || merges < 3 {
                client.items("BG.ADD more", [1_000_000 + merges % 1_000]);
                client.ok("BG.MERGE all more");
                let certain = added.load(Ordering::Acquire);
                if certain > 50 {
                    assert_eq!(client.found("all", certain - 50..certain), 50, "{kind} after {certain}");
                }
                merges += 1;
            }
            merges
        });
        assert_eq!(client.found("all", 0..6_000), 6_000, "{kind}");
        let merged = merges.min(1_000);
        assert_eq!(client.found("all", 1_000_000..1_000_000 + merged), merged, "{kind}");
    }
}
