//! BG.DIGEST, BG.DUMP and BG.DELTA: what clients do with them works in their library.

use bloomgate::{Address, AnyFilter, Delta, Secret};

use super::harness::{Server, Value};

fn secret(name: &str) -> Secret {
    Secret::from_hex(&"5a".repeat(32)).unwrap().derive(&format!("contract {name} epoch 1"))
}

#[test]
fn a_dump_is_a_file_that_opens_and_deltas_lead_on_from_it() {
    let server = Server::new();
    let mut client = server.client(0);
    for kind in ["blocked", "scalable", "counting", "cuckoo", "quotient", "rotating", "stable"] {
        let window = if kind == "rotating" { "WINDOW 60" } else { "" };
        client.ok(&format!("BG.CREATE {kind} KIND {kind} CAPACITY 2000 {window}"));
        client.items(&format!("BG.ADD {kind}"), 0..500);
        let dump = client.ask(&format!("BG.DUMP {kind}"));
        let (address, file) = (dump.array()[0].text().to_owned(), dump.array()[1].bytes().to_vec());
        assert_eq!(Address::of(&file).to_string(), address, "{kind}");
        assert_eq!(client.ask(&format!("BG.DIGEST {kind}")).text(), address, "{kind}");
        let opened = AnyFilter::from_bytes_keyed(&file, &secret("default")).unwrap();
        assert_eq!(opened.kind().name(), kind);
        assert!((0..500).all(|item| opened.contains(&*format!("item-{item}")).unwrap()), "{kind}");
        let (mut have, mut at) = (file, address);
        for step in 1..4u64 {
            client.items(&format!("BG.ADD {kind}"), step * 500..step * 500 + 50);
            let delta = client.ask(&format!("BG.DELTA {kind} {at}"));
            let delta = Delta::from_bytes(delta.bytes()).unwrap();
            have = delta.apply(&have).unwrap();
            at = client.ask(&format!("BG.DIGEST {kind}")).text().to_owned();
            assert_eq!(Address::of(&have).to_string(), at, "{kind} {step}");
        }
    }
}

#[test]
fn a_delta_starts_from_a_version_that_was_given_out() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 2000");
    client.items("BG.ADD f", 0..500);
    let version = client.ask("BG.INFO f version").int();
    client.refuses(&format!("BG.DELTA f {version}"), "take a whole one with BG.DUMP first");
    let file = client.ask("BG.DUMP f").array()[1].bytes().to_vec();
    client.items("BG.ADD f", 500..600);
    let delta = client.ask(&format!("BG.DELTA f {version}"));
    let have = Delta::from_bytes(delta.bytes()).unwrap().apply(&file).unwrap();
    assert_eq!(Address::of(&have).to_string(), client.ask("BG.DIGEST f").text());
    // What the delta leads to is a base too; what nobody was given is none, nor is another filter's.
    let version = client.ask("BG.INFO f version").int();
    assert!(!client.ask(&format!("BG.DELTA f {version}")).bytes().is_empty());
    client.refuses(&format!("BG.DELTA f {}", version + 1), "is not kept here");
    client.ok("BG.CREATE g KIND blocked CAPACITY 2000");
    client.refuses(&format!("BG.DELTA g {version}"), "is not kept here");
    client.refuses("BG.DELTA f 1x", "address");
}

#[test]
fn bases_are_kept_for_an_hour_and_paid_for() {
    let server = Server::new();
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 1000");
    let nothing = server.engine.budget.used();
    let address = client.ask("BG.DUMP f").array()[0].text().to_owned();
    assert!(server.engine.budget.used() > nothing);
    let unknown = "00".repeat(32);
    client.refuses(&format!("BG.DELTA f {unknown}"), "take a whole one with BG.DUMP first");
    server.at(3_599.0);
    assert!(!client.ask(&format!("BG.DELTA f {address}")).bytes().is_empty());
    server.at(8_000.0);
    server.engine.tick(1).unwrap();
    assert!(server.engine.bases.is_empty());
    client.refuses(&format!("BG.DELTA f {address}"), "is not kept here");
    assert_eq!(server.engine.budget.used(), nothing);
    client.refuses("BG.DUMP nobody", "ERR not found");
    client.refuses("BG.DIGEST nobody", "ERR not found");
    client.ok("BG.CREATE large KIND blocked BYTES 17000000");
    client.refuses("BG.DUMP large", "BF.SCANDUMP");
    client.refuses("BG.DUMP large", "over HTTP files and deltas have any size");
    assert_eq!(client.ask("BG.DIGEST large").text().len(), 64);
}

#[test]
fn filters_of_every_size_go_through_the_chunks_of_redisbloom() {
    let server = Server::new();
    let mut client = server.client(0);
    let kinds = [("BF", "blocked BYTES 65536 CAPACITY 2000"), ("BF", "scalable"), ("CF", "cuckoo BYTES 65536")];
    for (number, (family, kind)) in kinds.iter().enumerate() {
        client.ok(&format!("BG.CREATE f{number} KIND {kind}"));
        client.items(&format!("BG.ADD f{number}"), 0..1_000);
        let mut position = 0;
        loop {
            let chunk = client.ask(&format!("{family}.SCANDUMP f{number} {position}"));
            let Value::Array(chunk) = chunk else { panic!("{family} {kind}: {chunk:?}") };
            position = chunk[0].int();
            if position == 0 {
                break;
            }
            let (load, name) = (format!("{family}.LOADCHUNK"), format!("g{number}"));
            let place = position.to_string();
            let reply = client.words(&[load.as_bytes(), name.as_bytes(), place.as_bytes(), chunk[1].bytes()]);
            assert_eq!(reply, Value::Simple("OK".into()), "{kind}");
        }
        assert_eq!(client.ask(&format!("BG.DIGEST g{number}")), client.ask(&format!("BG.DIGEST f{number}")), "{kind}");
    }
}
