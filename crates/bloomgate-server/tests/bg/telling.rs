//! BG.INFO, BG.ESTIMATE, BG.AUDIT, BG.SECRETS and BG.HELP.

use super::harness::{NOW_MS, Server, Value};

#[test]
fn info_tells_everything_and_each_field_alone() {
    let server = Server::new();
    let (mut two, mut three) = (server.client(0), server.client(1).resp3());
    two.ok("BG.CREATE f KIND scalable CAPACITY 100 CONTRACT orders");
    two.items("BG.ADD f", 0..1_000);
    server.at(90.0);
    let info = three.ask("BG.INFO f");
    let Value::Map(pairs) = &info else { panic!("a map in RESP3") };
    assert!(pairs.len() >= 30);
    // What changes on its own while we ask is not compared.
    for (name, value) in pairs {
        assert_eq!(&three.ask(&format!("BG.INFO f {}", name.text())), value, "{name:?}");
    }
    assert_eq!(info.field("items").int(), two.ask("BG.INFO f").field("items").int());
    assert_eq!(info.field("guarantee").text(), "superset");
    assert_eq!(info.field("created_ms").int(), NOW_MS as i64);
    assert_eq!(info.field("secret_age_seconds").int(), 90);
    assert_eq!((info.field("maker").text(), info.field("on_full").text()), ("BG", "grow"));
    assert!(info.field("stages").int() > 1);
    assert!(info.field("expected_rate").double() <= 0.0101);
    assert!(!format!("{info:?}").contains("5a5a5a"), "the secret is never told");
    assert_eq!(info.field("expires_ms"), &Value::Nil);
    two.ask("PEXPIRE f 5000");
    assert_eq!(two.ask("BG.INFO f expires_ms").int(), NOW_MS as i64 + 95_000);
    two.refuses("BG.INFO f colour", "there is no field 'colour': there are name, kind");
    two.refuses("BG.INFO nobody", "ERR not found");
}

#[test]
fn estimates_are_near_and_counters_count() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND classic CAPACITY 10000 RATE 0.01");
    client.items("BG.ADD f", 0..5_000);
    client.items("BG.ADD f", 4_000..5_000);
    let estimate = client.ask("BG.ESTIMATE f");
    let (low, items, high) =
        (estimate.field("items_low").int(), estimate.field("items").int(), estimate.field("items_high").int());
    assert!(low < items && items < high && high - low < 200, "{estimate:?}");
    assert!((4_900..=5_100).contains(&items), "{estimate:?}");
    assert!(estimate.field("estimated_rate").double() < 0.01 && estimate.field("fill").double() < 0.5);
    let found = client.found("f", 0..6_000);
    let audit = client.ask("BG.AUDIT f RESET");
    assert_eq!((audit.field("lookups").int(), audit.field("positives").int()), (6_000, found as i64));
    assert_eq!(audit.field("adds").int(), 6_000);
    assert!((4_950..=5_000).contains(&audit.field("new").int()));
    let after = client.ask("BG.AUDIT f");
    assert!(after.array().chunks(2).all(|pair| pair[1] == Value::Int(0)), "{after:?}");
    client.refuses("BG.ESTIMATE nobody", "ERR not found");
    client.refuses("BG.AUDIT nobody", "ERR not found");
}

#[test]
fn secrets_have_an_age_and_no_face() {
    let server = Server::new();
    let mut client = server.client(0);
    assert_eq!(client.ask("BG.SECRETS"), Value::Array(Vec::new()));
    client.ok("BF.RESERVE a 0.01 100");
    client.ok("BG.CREATE b KIND blocked CAPACITY 100 HASH xxh3");
    server.at(10.0);
    client.ok("BG.CREATE c KIND blocked CAPACITY 100 CONTRACT orders");
    server.at(30.0);
    let secrets = client.ask("BG.SECRETS");
    let [default, orders] = secrets.array() else { panic!("{secrets:?}") };
    assert_eq!((default.field("age_seconds").int(), default.field("filters").int()), (30, 1));
    assert_eq!((orders.field("age_seconds").int(), orders.field("epoch").int()), (20, 1));
    assert_eq!(orders.field("secret_id"), &client.ask("BG.INFO c secret_id"));
    assert!(!format!("{secrets:?}").contains("5a5a"));
}

#[test]
fn help_and_backup_say_what_there_is() {
    let server = Server::new();
    let mut client = server.client(0);
    let all = client.ask("BG.HELP");
    assert!(
        all.text().contains("BG.CREATE name (KIND kind | LIKE other)") && all.text().contains("BG.SWAP left right")
    );
    assert!(!all.text().contains("BF.ADD"));
    assert!(client.ask("BG.HELP bg.swap").text().contains("Exchanges"));
    client.refuses("BG.BACKUP monday", "keeps nothing on disk");
}
