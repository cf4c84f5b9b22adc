//! What BG.* did is there after a restart: from the log alone, and from a snapshot and the log since.

use super::harness::{Client, Server};

const KINDS: &[&str] = &["blocked", "classic", "partitioned", "counting", "quotient", "cuckoo", "stable", "scalable"];

fn digests(client: &mut Client<'_>, names: &[String]) -> Vec<String> {
    names.iter().map(|name| client.ask(&format!("BG.DIGEST {name}")).text().to_owned()).collect()
}

#[test]
fn filters_of_every_kind_and_sets_of_them_come_back_bit_by_bit() {
    let folder = tempfile::tempdir().unwrap();
    let (server, keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    let mut names = Vec::new();
    for kind in KINDS {
        client.ok(&format!("BG.CREATE {kind} KIND {kind} CAPACITY 2000 CONTRACT {kind}"));
        client.items(&format!("BG.ADD {kind}"), 0..600);
        client.items(&format!("BG.ADD {kind}"), 500..600);
        assert_eq!(client.ask(&format!("BG.COPY {kind} {kind}-copy")).int(), 1);
        client.items(&format!("BG.ADD {kind}-copy"), 600..700);
        names.extend([kind.to_string(), format!("{kind}-copy")]);
    }
    client.items("BG.REMOVE counting REQUEST r1 ITEMS", 500..510);
    client.ok("BG.MERGE counting counting-copy");
    client.ok("BG.MERGE quotient quotient-copy");
    client.ok("BG.MERGE blocked blocked-copy");
    client.ok("BG.INTERSECT classic classic classic-copy");
    // Larger than what goes into the log: its image is a file.
    client.ok("BG.CREATE large KIND blocked BYTES 4194304");
    client.items("BG.ADD large", 0..1_000);
    client.ok("BG.FOLD large 2");
    client.items("BG.ADD large", 1_000..1_100);
    client.ok("BG.SWAP stable large");
    names.push("large".into());
    let before = digests(&mut client, &names);
    let counts = client.items("BG.COUNT counting", 480..520).ints();
    drop((client, keeping));
    server.engine.journal.flush();
    drop(server);
    for snapshot in [false, true, true] {
        let (server, keeping) = Server::kept(folder.path());
        let mut client = server.client(0);
        assert_eq!(digests(&mut client, &names), before, "snapshot {snapshot}");
        // A retry of what was answered before the merge and the restart.
        assert_eq!(client.items("BG.REMOVE counting REQUEST r1 ITEMS", 500..510).ints(), [1; 10]);
        assert_eq!(client.items("BG.COUNT counting", 480..520).ints(), counts);
        assert_eq!(client.found("stable", 0..1_100), 1_100);
        if snapshot {
            keeping.snapshot().unwrap();
        }
        server.engine.journal.flush();
    }
}

#[test]
fn a_window_and_a_change_of_secret_go_on_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let (server, keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    client.ok("BG.CREATE w KIND rotating CAPACITY 1000 WINDOW 3600 GENERATIONS 3");
    server.engine.tick(1).unwrap();
    client.items("BG.ADD w", 0..100);
    client.ok("BF.RESERVE f 0.01 100");
    client.items("BF.MADD f", 0..500);
    client.ok("BG.REKEY f START");
    client.items("BF.MADD f", 500..600);
    client.items("BG.FEED f", 0..200);
    let secret = client.ask("BG.REKEY f STATUS").field("new_secret_id").clone();
    drop((client, keeping));
    server.engine.journal.flush();
    drop(server);

    let (server, keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    server.engine.tick(1).unwrap();
    assert_eq!(client.found("w", 0..100), 100);
    let status = client.ask("BG.REKEY f STATUS");
    assert_eq!((status.field("state").text(), status.field("new_secret_id")), ("feeding", &secret));
    client.items("BF.MADD f", 600..700);
    client.refuses("BG.REKEY f FINISH", "would be lost");
    client.items("BG.FEED f", 200..500);
    keeping.snapshot().unwrap();
    // The new filter has all of them. What came before the start is not counted any more, so nobody can say that all came.
    client.refuses("BG.REKEY f FINISH", "or since the server started");
    assert_eq!(client.items("BG.FEED f", 0..200).int(), 0);
    client.items("BG.FEED f", 500..600);
    client.ok("BG.REKEY f FINISH");
    drop((client, keeping));
    server.engine.journal.flush();
    drop(server);

    let (server, _keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    assert_eq!((client.found("f", 0..700), client.found("w", 0..100)), (700, 100));
    assert_eq!(client.ask("BG.INFO f secret_id"), secret);
    assert_eq!(client.ask("DBSIZE").int(), 2);
}

#[test]
fn a_backup_is_made_and_its_place_told() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _keeping) = Server::kept(folder.path());
    let mut client = server.client(0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 100");
    client.items("BG.ADD f", 0..50);
    let place = client.ask("BG.BACKUP monday").text().to_owned();
    assert!(std::path::Path::new(&place).is_dir(), "{place}");
    client.refuses("BG.BACKUP monday", "ERR");
}

#[test]
fn info_says_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (server, _keeping) = Server::kept(&folder.path().join("data"));
    let info = server.client(0).ask("INFO everything");
    let mut names: Vec<&str> = info.text().lines().filter_map(|line| line.split_once(':')).map(|pair| pair.0).collect();
    for needed in
        ["log_writable", "fsync_lag_ms", "log_errors", "log_torn_bytes", "rdb_last_bgsave_status", "used_memory"]
    {
        assert!(names.contains(&needed), "docs/operations.md says to watch {needed}");
    }
    // One line for each module, as Redis has it.
    names.retain(|&name| name != "module");
    names.sort_unstable();
    let twice: Vec<&[&str]> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
