//! BG.MERGE, BG.INTERSECT, BG.FOLD, BG.COPY and BG.SWAP, also while others write.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::harness::{Client, Server, Value};

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
    client.ok("BF.RESERVE t 0.01 200");
    client.ok("BF.RESERVE grown 0.01 100");
    client.items("BF.MADD grown", 0..250);
    client.items("BF.MADD by-adding", 0..50);
    client.items("BG.ADD a", 0..100);
    let (digest, used) = (client.ask("BG.DIGEST a"), server.engine.budget.used());
    client.refuses("BG.MERGE a b", "ERR");
    client.refuses("BG.MERGE a c", "a classic filter");
    for words in
        ["ERR filters that differ in shape", "the first is scalable", "100 keys", "200 keys", "2 open", "build both"]
    {
        client.refuses("BG.MERGE grown t", words);
        client.refuses("BG.MERGE x t grown", words);
    }
    for words in ["made with a capacity, for 100 items", "made by its first add", "BF.INSERT and one CAPACITY"] {
        client.refuses("BG.MERGE s by-adding", words);
        client.refuses("BG.MERGE x by-adding s", words);
    }
    client.refuses("BG.MERGE s a", "a scalable filter");
    client.refuses("BG.MERGE a nobody", "there is no filter 'nobody'");
    client.refuses("BG.INTERSECT x a b", "ERR");
    client.refuses("BG.INTERSECT x a nobody", "there is no filter 'nobody'");
    client.refuses("BG.INTERSECT x s t", "differ in shape");
    client.refuses(
        "BG.INTERSECT x s grown",
        "the first has 1 open, the second 2, and an item of both may be in different stages",
    );
    client.refuses("BG.FOLD s 2", "follow from the size of its first: classic, blocked and partitioned ones can");
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

/// Everything that BF.* makes can be merged: what was reserved for a size, what may not grow, and what a first add made; while it
/// is small, when it has grown, and when it was never small.
const MAKINGS: [(&str, &str, u64); 4] = [
    ("BF.RESERVE {} 0.01 100", "reserved", 1_500),
    ("BF.RESERVE {} 0.01 600 NONSCALING", "fixed", 200),
    ("BF.MADD {} item-0", "added", 1_500),
    // Its second stage makes it larger than what goes into the log.
    ("BF.RESERVE {} 0.001 20000 EXPANSION 30", "large", 30_000),
];

/// Filters `of-a`, `of-b` and `of-c` of a making, and the items that are in each: of one stage, of as many as that many items
/// need, and of one again, which has some items of the second.
fn three(client: &mut Client<'_>, making: &str, of: &str, many: u64) -> [std::ops::Range<u64>; 3] {
    let items = [0..60, 1_000..1_000 + many, 1_020..1_080];
    for (name, items) in ["a", "b", "c"].iter().zip(items.clone()) {
        let name = format!("{of}-{name}");
        let made = client.ask(&making.replace("{}", &name));
        assert!(!matches!(made, Value::Error(_)), "{made:?}");
        client.items(&format!("BF.MADD {name}"), items);
    }
    items
}

#[test]
fn what_bf_makes_merges_in_any_order_and_goes_on_growing() {
    let server = Server::new();
    let mut client = server.client(0);
    for (making, of, many) in MAKINGS {
        let [a, b, c] = three(&mut client, making, of, many);
        // Into nothing, into what is shorter, into what is longer.
        client.ok(&format!("BG.MERGE {of}-all {of}-a {of}-b {of}-c"));
        client.ok(&format!("BG.MERGE {of}-c {of}-b"));
        client.ok(&format!("BG.MERGE {of}-b {of}-a"));
        for (name, items) in [("all", [&a, &b, &c]), ("c", [&c, &b, &b]), ("b", [&a, &b, &b])] {
            let name = format!("{of}-{name}");
            for items in items {
                let count = items.end - items.start;
                assert_eq!(client.found(&name, items.clone()), count, "{name} lost some of {items:?}");
            }
            let (told, grew) = (client.ask(&format!("BF.CARD {name}")).int(), of != "fixed");
            // Items that are in different stages of two filters count twice.
            assert!(((many as f64 * 0.98) as i64..=many as i64 + 121).contains(&told), "{name} counts {told}");
            assert_eq!(client.ask(&format!("BG.INFO {name} stages")).int() > 1, grew, "{name}");
            // What is told is what is there: a stage of some lines differs from the mean by a third, and hits by their root.
            let told = client.ask(&format!("BG.INFO {name} expected_rate")).double() * 40_000.0;
            let wrong = (0..4).map(|at| client.found(&name, 500_000 + at * 10_000..510_000 + at * 10_000)).sum::<u64>();
            let doubt = told / 3.0 + 4.5 * told.sqrt();
            assert!((wrong as f64 - told).abs() <= doubt, "{name}: {wrong} of 40,000, {told} told");
        }
        // The sources are as they were, and the result takes more.
        assert!(client.found(&format!("{of}-a"), 2_000..4_000) < 60, "{of}");
        let more = client.items(&format!("BF.MADD {of}-all"), 100_000..102_000);
        match of {
            "fixed" => assert!(more.array().iter().any(|reply| matches!(reply, Value::Error(_))), "it may not grow"),
            _ => {
                assert_eq!(more.ints().len(), 2_000);
                assert_eq!(client.found(&format!("{of}-all"), 100_000..102_000), 2_000);
                assert_eq!(client.found(&format!("{of}-all"), b), many);
            }
        }
        client.ok(&format!("BG.MERGE {of}-all {of}-all"));
    }
    // A filter that may not grow refuses what is certainly too much, and nothing changes.
    client.ok("BF.RESERVE full 0.01 600 NONSCALING");
    client.items("BF.MADD full", 7_000..7_550);
    let before = client.ask("BG.DIGEST full");
    client.refuses("BG.MERGE full fixed-b", "was made for 600 and refuses more");
    assert_eq!(client.ask("BG.DIGEST full"), before);
    // The destination goes on promising what it did.
    client.ok("BG.CREATE on KIND scalable CAPACITY 600 RATE 0.01 GROWTH 2 ONFULL goon");
    client.ok("BG.MERGE on fixed-b");
    assert_eq!(client.ask("BG.INFO on on_full").text(), "goon");
    client.ok("BG.MERGE on full");
    assert_eq!(client.found("on", 7_000..7_550), 550);
    // Every byte is accounted for, also of what became longer.
    let names = client.ask("KEYS *");
    let used: u64 = names.array().iter().map(|name| server.engine.find(name.bytes()).unwrap().memory()).sum();
    assert_eq!(server.engine.budget.used(), used);
}

/// A union of chains takes the memory of the longest, which is asked for before anything is made.
#[test]
fn a_merge_that_would_take_too_much_memory_is_refused_and_nothing_is_charged() {
    let server = Server::with(900_000, Vec::new());
    let mut client = server.client(0);
    client.ok("BF.RESERVE short 0.01 100");
    client.ok("BF.RESERVE long 0.01 100");
    client.items("BF.MADD short", 0..50);
    for from in 0..20 {
        client.items("BF.MADD long", from * 5_000..(from + 1) * 5_000);
    }
    let (used, long) = (server.engine.budget.used(), client.ask("BG.INFO long bytes").int());
    assert!((300_000..450_000).contains(&long), "{long}: it fits, and no two more of it do");
    client.refuses("BG.MERGE short long", "memory");
    client.refuses("BG.MERGE new short long", "memory");
    assert_eq!((server.engine.budget.used(), client.ask("EXISTS new").int()), (used, 0));
    assert_eq!((client.found("short", 0..50), client.ask("BG.INFO short stages").int()), (50, 1));
}

/// The bits of each filter, its count, its stages, and how many of some items it has.
fn facts(client: &mut Client<'_>, names: &[String]) -> Vec<(Value, i64, i64, u64)> {
    let mut facts = Vec::new();
    for name in names {
        let (digest, count) = (client.ask(&format!("BG.DIGEST {name}")), client.ask(&format!("BF.CARD {name}")).int());
        facts.push((digest, count, client.ask(&format!("BG.INFO {name} stages")).int(), client.found(name, 0..60)));
    }
    facts
}

/// What a merge of chains made is there after a restart, bit for bit: from the log, and from a snapshot.
#[test]
fn merged_bf_filters_come_back_bit_by_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (server, keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    let mut names = Vec::new();
    for (making, of, many) in MAKINGS {
        three(&mut client, making, of, many);
        client.ok(&format!("BG.MERGE {of}-all {of}-a {of}-b"));
        client.ok(&format!("BG.MERGE {of}-c {of}-a"));
        // Two small ones together, and what is added afterwards.
        client.items(&format!("BF.MADD {of}-all"), 200_000..200_300);
        client.items(&format!("BF.MADD {of}-c"), 300_000..300_100);
        names.extend(["all", "a", "b", "c"].map(|name| format!("{of}-{name}")));
    }
    let before = facts(&mut client, &names);
    drop((client, keeping));
    server.engine.journal.flush();
    drop(server);
    for snapshot in [false, true, true] {
        let (server, keeping) = Server::kept(folder.path());
        let mut client = server.client(0);
        assert_eq!(facts(&mut client, &names), before, "snapshot {snapshot}");
        if snapshot {
            keeping.snapshot().unwrap();
        }
        server.engine.journal.flush();
    }
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
    // Chains that have not grown, small and not, which go on growing afterwards.
    for capacity in [100, 20_000] {
        for (name, from) in [("one", 0), ("two", capacity / 2)] {
            client.ok(&format!("BF.RESERVE {name} 0.01 {capacity}"));
            client.items(&format!("BF.MADD {name}"), from..from + capacity * 3 / 4);
        }
        client.ok("BG.INTERSECT both one two");
        let (common, alone) = (capacity / 2..capacity * 3 / 4, 0..capacity / 2);
        assert_eq!(client.found("both", common.clone()), capacity / 4);
        assert!(client.found("both", alone) <= capacity / 20 + 5);
        client.items("BF.MADD both", 50_000..50_000 + capacity * 2);
        assert!(client.ask("BG.INFO both stages").int() > 1);
        assert_eq!(
            client.found("both", common) + client.found("both", 50_000..50_000 + capacity * 2),
            capacity * 9 / 4
        );
        assert_eq!(client.ask("DEL one two").int(), 2);
    }
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
    for (kind, options) in [
        ("blocked", "CAPACITY 50000 ONFULL goon"),
        ("classic", "CAPACITY 50000 ONFULL goon"),
        ("counting", "CAPACITY 50000 ONFULL goon"),
        // Small at first, and it grows while it is merged.
        ("scalable", "CAPACITY 100"),
    ] {
        let server = Server::new();
        let mut client = server.client(0);
        client.ok(&format!("BG.CREATE all KIND {kind} {options}"));
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
