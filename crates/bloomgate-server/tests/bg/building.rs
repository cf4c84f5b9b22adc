//! BG.BUILD from files of lines and from filters' own files, and what is kept out.

use std::fs;

use bloomgate::{Blocked, Secret};

use super::harness::Server;

fn lines(range: std::ops::Range<u64>) -> String {
    range.map(|item| format!("item-{item}\n")).collect()
}

#[test]
fn lines_become_filters_of_every_kind() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lists")).unwrap();
    fs::write(folder.path().join("lists/items.txt"), lines(0..5_000)).unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    for kind in ["scalable", "blocked", "counting", "cuckoo", "quotient", "fuse", "ribbon"] {
        client.ok(&format!("BG.BUILD {kind} FROM lists/items.txt KIND {kind} RATE 0.01"));
        assert_eq!(client.ask(&format!("BG.INFO {kind} kind")).text(), kind);
        assert_eq!(client.found(kind, 0..5_000), 5_000, "{kind}");
        // Two-sided: as wrong as its shape is, and that is no more than promised.
        let expected = client.ask(&format!("BG.INFO {kind} expected_rate")).double();
        assert!(expected <= 0.0101, "{kind}: {expected}");
        let (wrong, expected) = (client.found(kind, 100_000..120_000) as f64, 20_000.0 * expected);
        assert!(
            (wrong - expected).abs() <= 4.5 * expected.sqrt() + 1.0,
            "{kind}: {wrong} of 20,000, {expected} expected"
        );
    }
    client.refuses("BG.ADD fuse x", "BG.BUILD it again with REPLACE");
    client.refuses("BG.BUILD fuse FROM lists/items.txt", "ERR item exists");
    client.ok("BG.BUILD fuse FROM lists/items.txt REPLACE");
    assert_eq!(client.ask("BG.INFO fuse kind").text(), "scalable");
    assert_eq!(client.items("BG.ADD fuse", 9_000..9_001).ints(), [1]);
    // A capacity that is too small for a filter that does not grow.
    client.refuses("BG.BUILD small FROM lists/items.txt KIND cuckoo CAPACITY 100", "line ");
    assert_eq!(client.ask("EXISTS small").int(), 0);
}

/// A list may have a line as often as it likes: the fourth copy sticks there, as in files from before copies were exact.
#[test]
fn lines_that_repeat_are_no_reason_to_refuse_a_list() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("often"), "item-1\n".repeat(50) + &lines(2..2_000)).unwrap();
    // As a program without exact copies writes it.
    let mut old = bloomgate::GrowingCuckoo::builder().items(100).build().unwrap();
    (0..9).for_each(|_| assert!(old.insert("item-1").is_ok()));
    (0..2).for_each(|_| assert!(old.insert("item-2").is_ok()));
    old.save(folder.path().join("old.bloom")).unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    client.ok("BG.BUILD table FROM often KIND cuckoo");
    client.ok("BG.BUILD chain FROM often KIND growing-cuckoo CAPACITY 100");
    client.ok("BG.BUILD old FROM old.bloom");
    assert_eq!((client.found("table", 1..2_000), client.found("chain", 1..2_000)), (1_999, 1_999));
    for name in ["table", "chain", "old"] {
        assert_eq!(client.ask(&format!("CF.COUNT {name} item-1")).int(), 4, "{name}");
        client.refuses(&format!("CF.ADD {name} item-1"), "holds 3 copies of this item");
        for _ in 0..9 {
            assert_eq!(client.ask(&format!("CF.DEL {name} item-1")).int(), 1);
        }
        assert_eq!(client.ask(&format!("CF.EXISTS {name} item-1")).int(), 1, "it sticks");
        while client.ask(&format!("CF.COUNT {name} item-2")).int() < 3 {
            assert_eq!(client.ask(&format!("CF.ADD {name} item-2")).int(), 1);
        }
        client.refuses(&format!("CF.ADD {name} item-2"), "holds 3 copies of this item");
        (0..3).for_each(|_| assert_eq!(client.ask(&format!("CF.DEL {name} item-2")).int(), 1));
        assert_eq!(client.ask(&format!("CF.EXISTS {name} item-2")).int(), 0);
    }
}

#[test]
fn lines_end_as_they_end_and_long_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mixed"), "item-1\r\n\nitem-2\nitem-3").unwrap();
    fs::write(folder.path().join("long"), [b"x".repeat(70_000), b"\nitem-1\n".to_vec()].concat()).unwrap();
    fs::write(folder.path().join("most"), [b"x".repeat(65_536), b"\r\n".to_vec()].concat()).unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    client.ok("BG.BUILD mixed FROM mixed");
    assert_eq!((client.found("mixed", 1..4), client.ask("BG.INFO mixed items").int()), (3, 3));
    client.refuses("BG.BUILD long FROM long", "line 1 of 'long' is longer than 65536 bytes");
    client.ok("BG.BUILD most FROM most");
    assert_eq!(client.ask("BG.INFO most items").int(), 1);
    client.ok("BG.BUILD empty FROM empty");
    assert_eq!(client.ask("BG.INFO empty items").int(), 0);
    assert_eq!(client.ask("EXISTS long").int(), 0);
}

#[test]
fn a_filters_own_file_is_taken_if_its_secret_is_ours_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    client.ok("BG.CREATE ours KIND blocked CAPACITY 1000 CONTRACT orders");
    client.items("BG.ADD ours", 0..100);
    let dump = client.ask("BG.DUMP ours").array()[1].bytes().to_vec();
    fs::write(folder.path().join("ours.bloom"), &dump).unwrap();
    let mut open = Blocked::builder().items(1_000).build().unwrap();
    (0..100).for_each(|item| assert!(open.insert(&*format!("item-{item}")).is_ok()));
    open.save(folder.path().join("open.bloom")).unwrap();
    let theirs = Blocked::builder().items(1_000).secret(&Secret::from_bytes([9; 32])).build().unwrap();
    theirs.save(folder.path().join("theirs.bloom")).unwrap();
    let numbers = Blocked::builder().items(1_000).keys::<u64>().build().unwrap();
    numbers.save(folder.path().join("numbers.bloom")).unwrap();
    fs::write(folder.path().join("damaged.bloom"), &dump[..dump.len() - 9]).unwrap();

    client.ok("BG.BUILD again FROM ours.bloom");
    assert_eq!(client.ask("BG.DIGEST again"), client.ask("BG.DIGEST ours"));
    assert_eq!(client.ask("BG.INFO again contract_name").text(), "orders");
    client.ok("BG.MERGE again ours");
    client.ok("BG.BUILD open FROM open.bloom");
    assert_eq!(client.found("open", 0..100), 100);
    client.refuses("BG.BUILD x FROM theirs.bloom", "secret");
    client.refuses("BG.BUILD x FROM numbers.bloom", "the server's are bytes");
    client.refuses("BG.BUILD x FROM damaged.bloom", "damaged.bloom");
    client.refuses("BG.BUILD x FROM ours.bloom KIND fuse", "leave KIND, CAPACITY and RATE out");
    let reply = client.ask("BG.BUILD x FROM damaged.bloom");
    assert!(!reply.error().contains(&folder.path().display().to_string()), "{reply:?}");
}

#[test]
fn a_list_is_hashed_as_another_filter_or_under_a_contract_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("items"), lines(0..2_000)).unwrap();
    fs::write(folder.path().join("more"), lines(2_000..3_000)).unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    // A contract begins with the first filter that is made under it, and not with one that is not made.
    client.refuses("BG.BUILD orders FROM nothing CONTRACT orders", "'nothing' of the import folder");
    assert!(!server.engine.contracts.knows("orders"));
    client.ok("BG.BUILD orders FROM items KIND blocked CAPACITY 5000 RATE 0.01 CONTRACT orders");
    assert!(server.engine.contracts.knows("orders"));
    assert_eq!(client.ask("BG.INFO orders contract_name").text(), "orders");
    client.ok("BG.BUILD default FROM items KIND blocked CAPACITY 5000 RATE 0.01");
    assert_eq!(client.ask("BG.INFO default contract_name").text(), "default");
    // Of one shape and under one secret: they can be merged, and others cannot.
    client.ok("BG.BUILD more FROM more LIKE orders");
    assert_eq!((client.ask("BG.INFO more kind").text(), client.ask("BG.INFO more capacity").int()), ("blocked", 5_000));
    client.refuses("BG.MERGE default more", "contract");
    client.ok("BG.MERGE orders more");
    assert_eq!(client.found("orders", 0..3_000), 3_000);
    // What is said otherwise holds; what is solved has room for its lines alone.
    client.ok("BG.BUILD solved FROM more LIKE orders KIND fuse");
    assert_eq!((client.ask("BG.INFO solved kind").text(), client.found("solved", 2_000..3_000)), ("fuse", 1_000));
    assert_eq!(client.ask("BG.INFO solved contract_name").text(), "orders");
    client.refuses("BG.BUILD x FROM items LIKE orders CONTRACT orders", "leave CONTRACT out");
    client.refuses("BG.BUILD x FROM items LIKE nobody", "not found");
    client.ok("BG.CREATE window KIND rotating CAPACITY 100 RATE 0.01 WINDOW 60");
    client.refuses("BG.BUILD x FROM items LIKE window", "items of a window come with their time");
    assert_eq!(client.ask("EXISTS x").int(), 0);
    // A filter's own file says itself under which secret it is.
    let dump = client.ask("BG.DUMP orders").array()[1].bytes().to_vec();
    fs::write(folder.path().join("orders.bloom"), &dump).unwrap();
    client.refuses("BG.BUILD x FROM orders.bloom CONTRACT orders", "leave CONTRACT and LIKE out");
    client.refuses("BG.BUILD x FROM orders.bloom LIKE orders", "leave CONTRACT and LIKE out");
}

#[cfg(unix)]
#[test]
fn nothing_leads_out_of_the_import_folder() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "root\n").unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), folder.path().join("link.txt")).unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("door")).unwrap();
    fs::create_dir(folder.path().join("sub")).unwrap();
    let server = Server::importing(folder.path());
    let mut client = server.client(0);
    client.refuses("BG.BUILD x FROM link.txt", "leads out of the import folder");
    client.refuses("BG.BUILD x FROM door/secret.txt", "leads out of the import folder");
    client.refuses("BG.BUILD x FROM ../secret.txt", "a path below the import folder");
    client.refuses("BG.BUILD x FROM /etc/passwd", "a path below the import folder");
    client.refuses("BG.BUILD x FROM sub", "no plain file");
    client.refuses("BG.BUILD x FROM nothing.txt", "'nothing.txt' of the import folder");
    let server = Server::new();
    server.client(0).refuses("BG.BUILD x FROM a.txt", "--import-dir");
}
