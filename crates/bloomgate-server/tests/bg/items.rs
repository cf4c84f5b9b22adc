//! BG.ADD, BG.EXISTS, BG.COUNT and BG.REMOVE on kinds that can and kinds that cannot.

use std::sync::Arc;

use bloomgate::Kind;
use bloomgate_server::engine::entry::{Bits, Entry, Lacks, Maker};
use bloomgate_server::engine::making::Making;

use super::harness::{Client, Server, Value};

#[test]
fn replies_have_one_element_for_each_item_in_both_protocols() {
    let server = Server::new();
    let (mut two, mut three) = (server.client(0), server.client(1).resp3());
    two.refuses("BG.ADD f a", "ERR not found");
    assert_eq!(two.ask("BG.EXISTS f a b"), Value::Array(vec![Value::Int(0), Value::Int(0)]));
    assert_eq!(two.ask("BG.COUNT f a"), Value::Array(vec![Value::Int(0)]));
    two.refuses("BG.REMOVE f ITEMS a", "ERR not found");
    two.ok("BG.CREATE f KIND counting CAPACITY 100");
    assert_eq!(two.ask("BG.ADD f a b a"), Value::Array(vec![Value::Int(1), Value::Int(1), Value::Int(0)]));
    assert_eq!(three.ask("BG.ADD f b"), Value::Array(vec![Value::Bool(false)]));
    assert_eq!(three.ask("BG.EXISTS f a c"), Value::Array(vec![Value::Bool(true), Value::Bool(false)]));
    assert_eq!(three.ask("BG.COUNT f a b c").ints(), [2, 2, 0]);
    assert_eq!(two.ask("BG.REMOVE f ITEMS a c").ints(), [1, 0]);
    assert_eq!(two.ask("BG.COUNT f a").ints(), [1]);
}

#[test]
fn filters_of_the_other_commands_answer_too() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BF.RESERVE b 0.01 100");
    assert_eq!(client.ask("BG.ADD b x x y").ints(), [1, 0, 1]);
    assert_eq!(client.ask("BF.EXISTS b y").int(), 1);
    assert_eq!(client.ask("BG.EXISTS b x z").ints(), [1, 0]);
    assert_eq!(client.ask("BG.INFO b maker").text(), "BF");
    client.refuses("BG.COUNT b x", "keeps no copies to count");
    client.refuses("BG.REMOVE b ITEMS x", "counting, cuckoo, growing-cuckoo, quotient filters can");
    // Added twice is removed twice.
    client.ok("BG.CREATE c KIND cuckoo CAPACITY 100");
    assert_eq!(client.ask("BG.ADD c x x").ints(), [1, 0]);
    assert_eq!(client.ask("BG.COUNT c x").ints(), [2]);
    assert_eq!(client.ask("BG.REMOVE c ITEMS x x x").ints(), [1, 1, 0]);
}

#[test]
fn whoever_looks_like_one_that_is_removed_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (server, keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    let kinds = ["cuckoo CAPACITY 9000 RATE 0.05", "growing-cuckoo CAPACITY 500", "counting CAPACITY 9000 RATE 0.05"];
    for (filter, kind) in ["c", "g", "n"].into_iter().zip(kinds) {
        client.ok(&format!("BG.CREATE {filter} KIND {kind}"));
        client.items(&format!("BG.ADD {filter}"), 0..3_000);
        let added = client.items(&format!("BG.ADD {filter}"), 3_000..6_000);
        let seemed_there = added.array().iter().filter(|reply| **reply == Value::Int(0)).count();
        assert!((1..600).contains(&seemed_there), "{kind}: {seemed_there} of 3,000 seemed to be there");
    }
    let removed = |client: &mut Client<'_>, filter: &str| client.items(&format!("BG.REMOVE {filter} ITEMS"), 0..3_000);
    for filter in ["c", "n"] {
        removed(&mut client, filter);
        assert_eq!(client.found(filter, 3_000..6_000), 3_000, "{filter}");
    }
    // As it is told in the log, too.
    drop((client, keeping));
    server.engine.journal.flush();
    drop(server);
    let (server, _keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    removed(&mut client, "g");
    for filter in ["c", "g", "n"] {
        assert_eq!(client.found(filter, 3_000..6_000), 3_000, "{filter} after a restart");
    }
}

#[test]
fn a_full_filter_says_so_item_by_item() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 10");
    let replies = client.items("BG.ADD f", 0..12);
    assert!(replies.array()[..10].iter().all(|reply| *reply == Value::Int(1)));
    assert!(replies.array()[10].error().contains("holds the 10 items it was made for"));
    assert!(replies.array()[11].error().contains("full"));
    assert_eq!(client.found("f", 0..10), 10);
    assert_eq!(client.ask("BG.AUDIT f").field("refused").int(), 2);
}

#[test]
fn a_retry_under_the_same_request_id_changes_nothing() {
    let server = Server::new();
    let mut client = server.client(0);
    for kind in ["counting", "cuckoo", "quotient"] {
        client.ok(&format!("BG.CREATE {kind} KIND {kind} CAPACITY 100"));
        client.ask(&format!("BG.ADD {kind} a b"));
        client.ask(&format!("BG.ADD {kind} a b"));
        let before = client.ask(&format!("BG.COUNT {kind} a b")).ints();
        let remove = format!("BG.REMOVE {kind} REQUEST r1 ITEMS a c");
        assert_eq!(client.ask(&remove).ints(), [1, 0], "{kind}");
        for _ in 0..3 {
            assert_eq!(client.ask(&remove).ints(), [1, 0], "{kind}");
        }
        assert_eq!(client.ask(&format!("BG.COUNT {kind} a b")).ints(), [before[0] - 1, before[1]], "{kind}");
        client.refuses(&format!("BG.REMOVE {kind} REQUEST r1 ITEMS a"), "was answered before for 2 items");
        client.refuses(&format!("BG.REMOVE {kind} REQUEST r1 ITEMS c a"), "was answered before for other items");
        assert_eq!(client.ask(&format!("BG.REMOVE {kind} REQUEST r2 ITEMS b")).ints(), [1]);
    }
    // Even when the filter has been replaced by a merge in between.
    client.ok("BG.CREATE more LIKE counting");
    client.ok("BG.MERGE counting more");
    assert_eq!(client.ask("BG.REMOVE counting REQUEST r2 ITEMS b").ints(), [1]);
    assert_eq!(client.ask("BG.COUNT counting b").ints(), [1]);
}

#[test]
fn a_filter_that_cannot_answer_is_an_error_and_never_a_no() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE good KIND blocked CAPACITY 100");
    let recipe = server.engine.find(b"good").unwrap().recipe().clone();
    let why = "ERR the file of this filter is damaged".into();
    let bits = Bits::Unavailable { why, lacks: Lacks::Other, kind: Kind::Blocked };
    let making = Arc::new(Making { recipe, maker: Maker::Bg, sprout: None });
    let entry = Entry::new(server.engine.take_id(), b"bad", making, 1, bits).unwrap();
    server.engine.names.insert(entry);
    let commands = [
        "BG.ADD bad a",
        "BG.EXISTS bad a",
        "BG.COUNT bad a",
        "BG.REMOVE bad ITEMS a",
        "BG.INFO bad",
        "BG.ESTIMATE bad",
        "BG.AUDIT bad",
        "BG.DIGEST bad",
        "BG.DUMP bad",
        "BG.MERGE good bad",
        "BG.MERGE bad good",
        "BG.INTERSECT good good bad",
        "BG.FOLD bad 2",
        "BG.COPY bad other",
        "BG.CREATE other LIKE bad",
        "BG.REKEY bad START",
    ];
    for command in commands {
        client.refuses(command, "is damaged");
    }
    assert_eq!(client.ask("DBSIZE").int(), 2);
}

#[test]
fn commands_of_a_transaction_run_together() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("MULTI");
    for command in ["BG.CREATE a KIND blocked CAPACITY 100", "BG.ADD a x", "BG.COPY a b", "BG.ADD b y", "BG.MERGE a b"]
    {
        assert_eq!(client.ask(command).text(), "QUEUED");
    }
    let replies = client.ask("EXEC");
    assert!(replies.array().iter().all(|reply| !matches!(reply, Value::Error(_))), "{replies:?}");
    assert_eq!(client.ask("BG.EXISTS a x y z").ints(), [1, 1, 0]);
}
