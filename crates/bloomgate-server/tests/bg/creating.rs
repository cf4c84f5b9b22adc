//! BG.CREATE: every kind with its options, what they come to, and what is refused.

use super::harness::{Server, Value};

const KINDS: &[&str] = &[
    "classic CAPACITY 1000 RATE 0.01",
    "blocked CAPACITY 1000 RATE 0.01 ONFULL goon",
    "partitioned BYTES 4096 RATE 0.01",
    "counting CAPACITY 1000 COUNTERS 8",
    "scalable CAPACITY 100 GROWTH 1.5",
    "scalable",
    "rotating CAPACITY 1000 WINDOW 60 GENERATIONS 6",
    "stable BYTES 65536 RATE 0.02",
    "cuckoo CAPACITY 1000 FINGERPRINT 16",
    "cuckoo BYTES 8192",
    "growing-cuckoo CAPACITY 100 GROWTH 4",
    "quotient CAPACITY 1000 RATE 0.001",
    "quotient BYTES 8192",
];

#[test]
fn every_kind_is_made_with_its_options_and_takes_items() {
    let server = Server::new();
    let (mut two, mut three) = (server.client(0), server.client(1).resp3());
    for (number, kind) in KINDS.iter().enumerate() {
        two.ok(&format!("BG.CREATE f{number} KIND {kind}"));
        let name = kind.split(' ').next().unwrap();
        assert_eq!(two.ask(&format!("BG.INFO f{number} kind")).text(), name);
        assert_eq!(two.items(&format!("BG.ADD f{number}"), 0..100).ints().iter().sum::<i64>(), 100, "{kind}");
        assert_eq!(two.found(&format!("f{number}"), 0..100), 100, "{kind}");
        assert!(two.found(&format!("f{number}"), 1_000..2_000) < 60, "{kind}");
        let info = three.ask(&format!("BG.INFO f{number}"));
        assert_eq!(info.field("items"), &Value::Int(100), "{kind}");
        assert!(info.field("contract").text().starts_with("siphash13 secret"), "{kind}");
        two.refuses(&format!("BG.CREATE f{number} KIND {kind}"), "ERR item exists");
        // LIKE: the same bits, so an item of one has the same digests in the other.
        two.ok(&format!("BG.CREATE like{number} LIKE f{number}"));
        let field = |info: &Value, name: &str| info.field(name).clone();
        let like = three.ask(&format!("BG.INFO like{number}"));
        for name in ["kind", "contract", "promised_rate", "on_full"] {
            assert_eq!(field(&like, name), field(&info, name), "{kind} {name}");
        }
    }
    assert_eq!(two.ask("BG.INFO f6 window_seconds").double(), 60.0);
    assert_eq!(two.ask("BG.INFO f6 generations").int(), 6);
    assert_eq!(two.ask("BG.INFO f1 on_full").text(), "goon");
}

#[test]
fn hashes_and_contracts_decide_what_can_be_merged() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE a KIND blocked CAPACITY 1000");
    client.ok("BG.CREATE b KIND blocked CAPACITY 1000 CONTRACT orders");
    client.ok("BG.CREATE c KIND blocked CAPACITY 1000 HASH xxh3 SEED 7");
    client.ok("BG.CREATE d KIND blocked CAPACITY 1000 HASH blake2b");
    client.ok("BG.CREATE e LIKE b CAPACITY 2000");
    assert_eq!(client.ask("BG.INFO b contract_name").text(), "orders");
    assert_eq!(client.ask("BG.INFO c contract").text(), "xxh3 seed 7 over bytes");
    assert_eq!(client.ask("BG.INFO c secret_id"), Value::Nil);
    assert!(client.ask("BG.INFO d contract").text().starts_with("blake2b secret"));
    assert_eq!(client.ask("BG.INFO e contract"), client.ask("BG.INFO b contract"));
    assert_eq!(client.ask("BG.INFO e capacity").int(), 2_000);
    assert_ne!(client.ask("BG.INFO a secret_id"), client.ask("BG.INFO b secret_id"));
    client.refuses("BG.MERGE a b", "ERR");
    let secrets = client.ask("BG.SECRETS");
    let names: Vec<&str> = secrets.array().iter().map(|one| one.field("contract").text()).collect();
    assert_eq!(names, ["default", "orders"]);
    assert_eq!(secrets.array()[1].field("filters").int(), 2);
}

#[test]
fn what_makes_no_sense_is_refused_with_what_does() {
    let server = Server::new();
    let mut client = server.client(0);
    client.refuses("BG.CREATE f KIND blocked", "say CAPACITY");
    client.refuses("BG.CREATE f KIND blocked CAPACITY 100 WINDOW 5", "WINDOW is an option of rotating filters");
    client.refuses("BG.CREATE f KIND scalable BYTES 1000", "BYTES is an option of classic, blocked");
    client.refuses("BG.CREATE f KIND rotating CAPACITY 100", "needs WINDOW");
    client.refuses("BG.CREATE f KIND cuckoo CAPACITY 100 FINGERPRINT 8 RATE 0.1", "FINGERPRINT decides the rate");
    client.refuses("BG.CREATE f KIND blocked CAPACITY 100 ONFULL grow", "cannot grow");
    client.refuses("BG.CREATE f KIND quotient CAPACITY 100 ONFULL goon", "refuses when it is full");
    client.refuses("BG.CREATE f KIND growing-cuckoo GROWTH 3", "2, 4, 8");
    client.refuses("BG.CREATE f LIKE nobody", "ERR not found");
    client.refuses("BG.CREATE bloomgate:rekey:f KIND blocked CAPACITY 100", "being rekeyed");
    client.refuses("BG.CREATE f KIND blocked CAPACITY 100 BYTES 8 RATE 0.1", "one too many");
    assert_eq!(client.ask("EXISTS f").int(), 0);
    assert_eq!(server.engine.budget.used(), 0);
}

#[test]
fn what_is_too_large_costs_nothing() {
    let server = Server::new();
    let mut client = server.client(0);
    for size in ["CAPACITY 1000000000000", "BYTES 1000000000000000"] {
        for kind in
            ["blocked", "classic", "partitioned", "counting", "stable", "cuckoo", "quotient", "rotating WINDOW 9"]
        {
            let reply = client.ask(&format!("BG.CREATE f KIND {kind} {size}"));
            assert!(reply.error().starts_with("ERR "), "{kind} {size}: {reply:?}");
        }
    }
    client.refuses("BG.CREATE f KIND scalable CAPACITY 1000000000000", "Insufficient memory");
    client.refuses("BG.CREATE f KIND growing-cuckoo CAPACITY 1000000000000", "Insufficient memory");
    assert_eq!((server.engine.budget.used(), client.ask("DBSIZE").int()), (0, 0));
}
