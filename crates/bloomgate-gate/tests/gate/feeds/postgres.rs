//! The feed of a PostgreSQL table.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::feed::{ChangeKind, FeedOptions, FeedPlan};
use bloomgate_gate::sources::{Postgres, Source};
use bloomgate_gate::{ErrorKind, Gate, Key};
use bytes::Bytes;
use tokio_postgres::{Client, NoTls};

use super::{Notes, followed, is_blocked, is_ready, lost, never_wrongly_absent, now, ready, row, told, until};
use crate::postgres_process::PostgresProcess;
use crate::postgres_server::Server;
use crate::tables::refused;

const TABLE: &str = "CREATE TABLE t (k text PRIMARY KEY, v int); INSERT INTO t SELECT 'key-' || i, i FROM generate_series(1, 100) AS i;";

async fn install(url: &str) -> bool {
    Postgres::install_feed(url, "t", "k", &FeedPlan::default(), false).await.unwrap().changed
}

async fn source(url: &str) -> Arc<Postgres> {
    Arc::new(Postgres::connect(url, "t", "k", 4).await.unwrap())
}

/// A database with a table and its feed: its address, and a connection of somebody else.
async fn database(server: &Server, sql: &str) -> (String, Client) {
    let (name, other) = server.database(sql).await;
    let url = server.url(&name);
    assert!(install(&url).await);
    (url, other)
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

#[tokio::test]
async fn what_commits_late_is_found_and_holds_up_nobody() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let gate = followed(Gate::builder(source(&url).await));
    ready(&gate).await;
    let (slow, third) = (connect(&url).await, connect(&url).await);
    run(&slow, "BEGIN; INSERT INTO t VALUES ('slow', 1)").await;
    run(&third, "BEGIN; INSERT INTO t VALUES ('prepared', 1); PREPARE TRANSACTION 'later'").await;
    for number in 0..20 {
        run(&other, &format!("INSERT INTO t VALUES ('fast-{number}', 1)")).await;
    }
    never_wrongly_absent(&gate, "fast-19", now()).await;
    // As of now neither is there, and that is right.
    told(&gate).await;
    assert!(is_blocked(&gate, "slow") && is_blocked(&gate, "prepared"));
    run(&slow, "SAVEPOINT a; INSERT INTO t VALUES ('undone', 1); ROLLBACK TO a; INSERT INTO t VALUES ('within', 1)")
        .await;
    run(&slow, "COMMIT").await;
    let committed = now();
    never_wrongly_absent(&gate, "slow", committed).await;
    never_wrongly_absent(&gate, "within", committed).await;
    // A rebuild in between changes nothing.
    gate.rebuild().await.unwrap();
    run(&third, "COMMIT PREPARED 'later'").await;
    never_wrongly_absent(&gate, "prepared", now()).await;
    told(&gate).await;
    assert!(is_blocked(&gate, "undone"));
    let feed = gate.stats().feed.unwrap();
    assert_eq!((feed.written, feed.losses), (23, 0), "{feed:?}");
}

#[tokio::test]
async fn what_others_write_is_known_in_every_form() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let cache = Arc::new(LocalCache::new(1 << 20).unwrap());
    let gate = followed(Gate::builder(source(&url).await).cache(cache));
    ready(&gate).await;
    assert_eq!(row(&gate, "key-1").await.as_deref(), Some(r#"{"k":"key-1","v":1}"#));
    for (key, sql) in [
        ("upserted", "INSERT INTO t VALUES ('upserted', 1) ON CONFLICT (k) DO UPDATE SET v = 9"),
        ("moved", "UPDATE t SET k = 'moved' WHERE k = 'key-2'"),
        // Triggers that fire always fire here too, as in what a subscription to another server applies.
        (
            "replicated",
            "SET session_replication_role = replica; INSERT INTO t VALUES ('replicated', 1); RESET session_replication_role",
        ),
        (
            "merged",
            "MERGE INTO t USING (VALUES ('merged')) AS given(k) ON t.k = given.k WHEN NOT MATCHED THEN INSERT VALUES (given.k, 1)",
        ),
    ] {
        assert!(is_blocked(&gate, key), "{key}");
        run(&other, sql).await;
        never_wrongly_absent(&gate, key, now()).await;
    }
    {
        let copy = other.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
        let mut copy = std::pin::pin!(copy);
        let rows: String = (0..25_000).map(|number| format!("copied-{number}\t1\n")).collect();
        futures_util::SinkExt::send(&mut copy, Bytes::from(rows)).await.unwrap();
        assert_eq!(copy.finish().await.unwrap(), 25_000);
    }
    never_wrongly_absent(&gate, "copied-24999", now()).await;
    told(&gate).await;
    assert!((0..25_000).step_by(997).all(|number| !is_blocked(&gate, &format!("copied-{number}"))));
    run(&other, "UPDATE t SET v = 7 WHERE k = 'key-1'").await;
    told(&gate).await;
    assert_eq!(row(&gate, "key-1").await.as_deref(), Some(r#"{"k":"key-1","v":7}"#), "the cache forgot it");
    // What the gate writes itself is known at once, and its trigger is no stranger to it.
    gate.put("mine".into(), Bytes::from_static(br#"{"v":1}"#)).await.unwrap();
    assert!(row(&gate, "mine").await.is_some());
    told(&gate).await;
    let feed = gate.stats().feed.unwrap();
    assert_eq!((feed.written, feed.deleted, feed.losses), (25_005, 1, 0), "{feed:?}");
    // What a trigger writes beside it is told.
    run(
        &other,
        "CREATE FUNCTION ghost() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO t VALUES (OLD.k || '-deleted', 1); RETURN NULL; END $$;
         CREATE TRIGGER ghost AFTER DELETE ON t FOR EACH ROW EXECUTE FUNCTION ghost()",
    )
    .await;
    assert!(gate.delete(&"mine".into()).await.unwrap());
    never_wrongly_absent(&gate, "mine-deleted", now()).await;
    assert!(gate.stats().audit.wrong == 0);

    // Emptied: the table was rewritten, so it is scanned; and that there is less is no surprise.
    run(&other, "TRUNCATE t; INSERT INTO t VALUES ('after', 1)").await;
    never_wrongly_absent(&gate, "after", now()).await;
    lost(&gate, 1, "changed").await;
    told(&gate).await;
    assert_eq!(row(&gate, "key-1").await, None, "not from the cache either");
    assert!(gate.stats().feed.unwrap().emptied >= 1);
}

#[tokio::test]
async fn whatever_breaks_the_feed_is_noticed_and_means_rebuild() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let gate = followed(Gate::builder(source(&url).await));
    ready(&gate).await;
    let past = |key: &str| format!("INSERT INTO t VALUES ('{key}', 1)");

    // Off and on again before anybody looks: the row of the catalogue is another one.
    run(
        &other,
        &format!(
            "BEGIN; ALTER TABLE t DISABLE TRIGGER bloomgate_feed_t_rows; {}; \
             ALTER TABLE t ENABLE ALWAYS TRIGGER bloomgate_feed_t_rows; COMMIT",
            past("switched")
        ),
    )
    .await;
    never_wrongly_absent(&gate, "switched", now()).await;
    lost(&gate, 1, "changed").await;
    told(&gate).await;

    // Off, or only for some sessions: nothing is said until it is installed again.
    run(&other, &format!("ALTER TABLE t ENABLE TRIGGER bloomgate_feed_t_rows; {}", past("some"))).await;
    never_wrongly_absent(&gate, "some", now()).await;
    lost(&gate, 2, "fires always").await;
    assert!(install(&url).await && !install(&url).await);
    told(&gate).await;
    run(&other, &format!("DROP TRIGGER bloomgate_feed_t_rows ON t; {}", past("dropped"))).await;
    never_wrongly_absent(&gate, "dropped", now()).await;
    lost(&gate, 3, "install-feed").await;
    assert!(install(&url).await);
    told(&gate).await;

    // Without the one of TRUNCATE it is not whole either.
    run(&other, "DROP TRIGGER bloomgate_feed_t_emptied ON t").await;
    lost(&gate, 4, "lacks a trigger").await;
    assert!(install(&url).await && !install(&url).await);
    told(&gate).await;

    // Rewritten: other keys without a trigger.
    run(&other, "ALTER TABLE t ALTER k TYPE text USING upper(k)").await;
    never_wrongly_absent(&gate, "DROPPED", now()).await;
    lost(&gate, 5, "changed").await;
    told(&gate).await;

    // Another table under the name.
    run(
        &other,
        "BEGIN; ALTER TABLE t RENAME TO before; CREATE TABLE t (k text PRIMARY KEY, v int);
         INSERT INTO t SELECT * FROM before; INSERT INTO t VALUES ('in the new one', 1); COMMIT",
    )
    .await;
    never_wrongly_absent(&gate, "in the new one", now()).await;
    lost(&gate, 6, "install-feed").await;
    assert!(install(&url).await);
    told(&gate).await;
    assert!(row(&gate, "KEY-1").await.is_some());

    // A table that inherits from it has rows that it shows and no trigger tells of.
    run(&other, "CREATE TABLE child () INHERITS (t); INSERT INTO child VALUES ('of the child', 1)").await;
    never_wrongly_absent(&gate, "of the child", now()).await;
    lost(&gate, 7, "inherit").await;
    run(&other, "DROP TABLE child").await;
    told(&gate).await;

    // The outbox is emptied, or the function replaced.
    run(&other, &format!("{}; TRUNCATE bloomgate_feed_t", past("untold"))).await;
    never_wrongly_absent(&gate, "untold", now()).await;
    lost(&gate, 8, "changed").await;
    told(&gate).await;
    run(
        &other,
        "CREATE OR REPLACE FUNCTION bloomgate_feed_t_tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         INSERT INTO t VALUES ('muted', 1)",
    )
    .await;
    never_wrongly_absent(&gate, "muted", now()).await;
    lost(&gate, 9, "not as it was made").await;
    assert!(install(&url).await);
    told(&gate).await;
    assert_eq!(gate.stats().audit.wrong, 0);

    assert!(Postgres::remove_feed(&url, "t", false).await.unwrap().changed);
    assert!(!Postgres::remove_feed(&url, "t", false).await.unwrap().changed);
    lost(&gate, 10, "install-feed").await;
    run(&other, &past("without")).await;
    assert!(row(&gate, "without").await.is_some());
}

#[tokio::test]
async fn partitions_are_told_and_new_ones_noticed() {
    let server = Server::shared();
    let sql = "CREATE TABLE t (k int PRIMARY KEY, v int) PARTITION BY RANGE (k);
               CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (1000); INSERT INTO t VALUES (1, 1), (2, 2);";
    let (url, other) = database(&server, sql).await;
    let gate = followed(Gate::builder(source(&url).await));
    ready(&gate).await;
    assert!(is_blocked(&gate, "500") && is_blocked(&gate, "1500"));
    run(&other, "INSERT INTO t VALUES (500, 1)").await;
    never_wrongly_absent(&gate, "500", now()).await;
    run(&other, "INSERT INTO low VALUES (501, 1)").await;
    never_wrongly_absent(&gate, "501", now()).await;
    assert_eq!(gate.stats().feed.unwrap().losses, 0);
    // Filled before it becomes a part: its rows come without a trigger.
    run(&other, "CREATE TABLE high (k int PRIMARY KEY, v int); INSERT INTO high VALUES (1500, 1)").await;
    run(&other, "ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (1000) TO (2000)").await;
    never_wrongly_absent(&gate, "1500", now()).await;
    until(&gate, |stats| stats.feed.as_ref().unwrap().losses == 1).await;
    told(&gate).await;
    run(&other, "INSERT INTO high VALUES (1501, 1)").await;
    never_wrongly_absent(&gate, "1501", now()).await;

    // Most rows go with a part, and no trigger tells of it: the scan is believed all the same.
    let insert = "INSERT INTO t SELECT i, 1 FROM generate_series(1000, 1400) AS i";
    for (number, sql) in ["TRUNCATE high", "ALTER TABLE t DETACH PARTITION high"].iter().enumerate() {
        run(&other, insert).await;
        told(&gate).await;
        assert!(row(&gate, "1399").await.is_some());
        gate.rebuild().await.unwrap();
        run(&other, sql).await;
        until(&gate, |stats| stats.feed.as_ref().unwrap().losses == number as u64 + 2).await;
        told(&gate).await;
        assert!(is_blocked(&gate, "1399") && row(&gate, "1").await.is_some(), "{sql}");
    }
    assert_eq!(gate.stats().rebuild.failed, 0);
}

#[tokio::test]
async fn keys_are_told_as_a_scan_gives_them() {
    let server = Server::shared();
    for (column, values) in [
        ("int", vec!["1", "-2147483648"]),
        ("bigint", vec!["7"]),
        ("smallint", vec!["-3"]),
        ("text", vec!["'a'", "'ä  '", "''"]),
        ("varchar(20)", vec!["'b'"]),
        ("char(5)", vec!["'c '", "'d'"]),
        ("uuid", vec!["'00000000-0000-0000-0000-0000000000ff'"]),
        ("bytea", vec!["'\\x00ff'"]),
        ("numeric(20, 3)", vec!["1.5", "-0.001", "'NaN'", "100000"]),
    ] {
        let (name, other) = server.database(&format!("CREATE TABLE t (k {column} UNIQUE, v int)")).await;
        let url = server.url(&name);
        assert!(install(&url).await);
        let (source, notes) = (source(&url).await, Notes::default());
        let feed = source.feed(FeedOptions { reader: "one".into(), hold: Duration::from_secs(60) }).unwrap();
        feed.anchor().await.unwrap();
        for value in &values {
            run(&other, &format!("INSERT INTO t VALUES ({value}, 1)")).await;
        }
        run(&other, "INSERT INTO t VALUES (NULL, 1)").await;
        feed.read(&notes).await.unwrap();
        let told: Vec<Option<Key>> = notes.taken().into_iter().map(|(_, key, _)| key).collect();
        let scanned = crate::tables::scanned(&*source).await.unwrap();
        assert_eq!((told.len(), scanned.len()), (values.len() + 1, values.len()), "{column}");
        assert!(scanned.into_iter().all(|key| told.contains(&Some(Key::from_canonical(key)))), "{column}");
        feed.read(&notes).await.unwrap();
        assert!(notes.taken().is_empty(), "each once");
    }
}

#[tokio::test]
async fn writers_need_no_rights_and_readers_few() {
    let server = Server::shared();
    let (name, other) = server
        .database(
            "CREATE ROLE feed_writer LOGIN; CREATE ROLE feed_reader LOGIN; CREATE SCHEMA shop;
             CREATE TABLE shop.\"T able\" (\"K\" text PRIMARY KEY, v int, region text);
             GRANT USAGE ON SCHEMA shop TO feed_writer, feed_reader;
             GRANT INSERT ON shop.\"T able\" TO feed_writer; GRANT SELECT ON shop.\"T able\" TO feed_reader",
        )
        .await;
    let (url, table) = (server.url(&name), "shop.\"T able\"");
    let plan = FeedPlan { only_keys: true, tenant: Some("region".into()), readers: vec!["feed_reader".into()] };
    let told = Postgres::install_feed(&url, table, "K", &plan, true).await.unwrap();
    assert!(told.changed && told.sql.iter().any(|sql| sql.contains("SECURITY DEFINER")));
    let as_reader = server.url_as("feed_reader", &name);
    let source = Postgres::connect(&as_reader, table, "K", 2).await.unwrap();
    let feed = source.feed(FeedOptions { reader: "one".into(), hold: Duration::from_secs(60) }).unwrap();
    refused(feed.check().await, ErrorKind::Gap, &["install-feed"]);
    assert!(Postgres::install_feed(&url, table, "K", &plan, false).await.unwrap().changed);
    let notes = Notes::default();
    feed.anchor().await.unwrap();
    let writer = connect(&server.url_as("feed_writer", &name)).await;
    run(&writer, "INSERT INTO shop.\"T able\" VALUES ('a', 1, 'north')").await;
    assert!(writer.batch_execute("SELECT FROM shop.\"bloomgate_feed_T able\"").await.is_err());
    run(&other, "UPDATE shop.\"T able\" SET v = 2; UPDATE shop.\"T able\" SET \"K\" = 'b'").await;
    feed.read(&notes).await.unwrap();
    let (a, b, north) = (Some(Key::from("a")), Some(Key::from("b")), Some("north".to_owned()));
    assert_eq!(
        notes.taken(),
        [
            (ChangeKind::Written, a.clone(), north.clone()),
            (ChangeKind::Deleted, a, north.clone()),
            (ChangeKind::Written, b, north),
        ]
    );
    feed.release(None).await.unwrap();
    feed.release(feed.mark().as_ref()).await.unwrap();
    feed.leave().await.unwrap();
    refused(feed.release(None).await, ErrorKind::Gap, &["away for too long"]);
    drop(other);
}

#[tokio::test]
async fn installing_waits_for_writers_and_gives_up() {
    let server = Server::shared();
    let (name, other) = server.database(TABLE).await;
    run(&other, "BEGIN; INSERT INTO t VALUES ('under way', 1)").await;
    let url = server.url(&name);
    refused(
        Postgres::install_feed(&url, "t", "k", &FeedPlan::default(), false).await,
        ErrorKind::Busy,
        &["did not end within 10 s", "nothing was changed"],
    );
    run(&other, "COMMIT").await;
    assert!(install(&url).await);
    // A copy of a database has a feed with the numbers of another one's transactions.
    let feed = source(&url).await.feed(FeedOptions { reader: "one".into(), hold: Duration::from_secs(60) }).unwrap();
    feed.check().await.unwrap();
    run(&other, "CREATE TABLE kept AS TABLE bloomgate_feed_t_about; DELETE FROM bloomgate_feed_t_about").await;
    run(&other, "INSERT INTO bloomgate_feed_t_about SELECT * FROM kept").await;
    refused(feed.check().await, ErrorKind::Gap, &["copied here from another database"]);
}

#[tokio::test]
async fn a_restart_catches_up_without_a_scan_and_the_outbox_is_cleared() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let folder = tempfile::tempdir().unwrap();
    let kept = async || {
        let builder = Gate::builder(source(&url).await).data(folder.path());
        followed(builder.feed_save_every(Duration::from_millis(100)).feed_hold(Duration::from_secs(1)))
    };
    let first = kept().await;
    ready(&first).await;
    run(&other, "INSERT INTO t SELECT 'b-' || i, 1 FROM generate_series(1, 50) AS i").await;
    told(&first).await;
    let outbox =
        async || -> i64 { other.query_one("SELECT count(*) FROM bloomgate_feed_t", &[]).await.unwrap().get(0) };
    for _ in 0..400 {
        if outbox().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(outbox().await, 0, "all of it is saved");
    first.stop().await;
    drop(first);
    run(&other, "INSERT INTO t VALUES ('c', 1)").await;
    let gate = kept().await;
    assert!(!is_ready(&gate));
    ready(&gate).await;
    assert!(row(&gate, "b-50").await.is_some() && row(&gate, "c").await.is_some() && is_blocked(&gate, "d"));
    let stats = gate.stats();
    let version = stats.filter.unwrap().version;
    assert_eq!((version, stats.rebuild.done, stats.feed.unwrap().written), (1, 0, 1), "one change, no scan");
    gate.stop().await;
    drop(gate);

    // Not watched all the time: scanned.
    run(&other, "ALTER TABLE t DISABLE TRIGGER ALL; INSERT INTO t VALUES ('e', 1)").await;
    run(
        &other,
        "ALTER TABLE t ENABLE ALWAYS TRIGGER bloomgate_feed_t_rows, ENABLE ALWAYS TRIGGER bloomgate_feed_t_emptied",
    )
    .await;
    let gate = kept().await;
    ready(&gate).await;
    assert!(row(&gate, "e").await.is_some());
    until(&gate, |stats| stats.rebuild.done == 1).await;
    gate.stop().await;
    drop(gate);

    // Away for longer than its place is held, while another gate clears away.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let another = followed(Gate::builder(source(&url).await));
    ready(&another).await;
    run(&other, "INSERT INTO t SELECT 'late-' || i, 1 FROM generate_series(1, 20) AS i").await;
    told(&another).await;
    another.rebuild().await.unwrap();
    assert!(outbox().await == 0, "{}", outbox().await);
    let gate = kept().await;
    ready(&gate).await;
    until(&gate, |stats| stats.rebuild.done == 1).await;
    assert!(row(&gate, "late-20").await.is_some());
}

fn signal(signal: &str, pid: i32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// The process at the server that a gate of this name follows the feed by, known by what it asked last.
async fn follower(other: &Client, name: &str) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name = $1
               AND (query LIKE '%RECURSIVE part%' OR query LIKE '%bloomgate_feed_t%')";
    for _ in 0..1000 {
        if let Some(row) = other.query(sql, &[&name]).await.unwrap().first() {
            return row.get(0);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nobody follows the feed");
}

#[tokio::test]
async fn a_server_that_stands_still_means_maybe_and_a_lost_connection_is_no_gap() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let builder = Gate::builder(source(&format!("{url}?application_name=held")).await);
    let gate = followed(builder.max_staleness(Duration::from_millis(300)));
    ready(&gate).await;
    let held = async || follower(&other, "held").await;
    let stopped = held().await;
    signal("-STOP", stopped);
    run(&other, "INSERT INTO t VALUES ('meanwhile', 1)").await;
    let committed = now();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!is_ready(&gate) && !is_blocked(&gate, "nobody"));
    assert!(row(&gate, "meanwhile").await.is_some(), "asked of the source");
    signal("-CONT", stopped);
    never_wrongly_absent(&gate, "meanwhile", committed).await;
    told(&gate).await;
    assert!(is_blocked(&gate, "nobody"));

    // A new connection goes on at the place that the database has.
    for number in 0..5 {
        other.execute("SELECT pg_terminate_backend($1)", &[&held().await]).await.unwrap();
        run(&other, &format!("INSERT INTO t VALUES ('after-{number}', 1)")).await;
        never_wrongly_absent(&gate, &format!("after-{number}"), now()).await;
        told(&gate).await;
    }
    assert_eq!((gate.stats().feed.unwrap().losses, gate.stats().rebuild.done), (0, 1));
}

#[tokio::test]
async fn a_reader_whose_place_was_given_up_is_told_by_its_next_read() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let source = source(&url).await;
    let feed = |name: &str, hold| source.feed(FeedOptions { reader: name.into(), hold }).unwrap();
    let (away, there) = (feed("away", Duration::from_millis(300)), feed("there", Duration::from_secs(60)));
    let notes = Notes::default();
    for feed in [&away, &there] {
        feed.anchor().await.unwrap();
        // From now on with a session of its own.
        feed.read(&notes).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(400)).await;
    run(&other, "INSERT INTO t VALUES ('cleared', 1)").await;
    there.read(&notes).await.unwrap();
    assert_eq!(notes.taken().len(), 1);
    there.release(None).await.unwrap();
    let left: i64 = other.query_one("SELECT count(*) FROM bloomgate_feed_t", &[]).await.unwrap().get(0);
    assert_eq!(left, 0, "cleared away, and one has not read it");
    refused(away.read(&notes).await, ErrorKind::Gap, &["away for too long"]);
    refused(away.release(None).await, ErrorKind::Gap, &["away for too long"]);
    away.anchor().await.unwrap();
    away.read(&notes).await.unwrap();
}

#[tokio::test]
async fn a_gate_that_stood_still_for_too_long_builds_its_filter_anew() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let frozen = followed(
        Gate::builder(source(&format!("{url}?application_name=frozen")).await).feed_hold(Duration::from_secs(1)),
    );
    ready(&frozen).await;
    let another =
        source(&url).await.feed(FeedOptions { reader: "another".into(), hold: Duration::from_secs(60) }).unwrap();
    another.anchor().await.unwrap();
    let pid = follower(&other, "frozen").await;
    signal("-STOP", pid);
    tokio::time::sleep(Duration::from_millis(1300)).await;
    run(&other, "INSERT INTO t VALUES ('cleared', 1)").await;
    let committed = now();
    another.read(&Notes::default()).await.unwrap();
    another.release(None).await.unwrap();
    signal("-CONT", pid);
    never_wrongly_absent(&frozen, "cleared", committed).await;
    lost(&frozen, 1, "away for too long").await;
    told(&frozen).await;
    assert!(is_blocked(&frozen, "nobody"));
    frozen.rebuild().await.unwrap();
    assert_eq!(frozen.stats().audit.wrong, 0);
}

#[tokio::test]
async fn gates_that_are_there_do_not_take_each_other_for_gone() {
    let server = Server::shared();
    let (url, other) = database(&server, TABLE).await;
    let brief = async || followed(Gate::builder(source(&url).await).feed_hold(Duration::from_secs(1)));
    let gates = [brief().await, brief().await];
    for gate in &gates {
        ready(gate).await;
    }
    for number in 0..6 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        run(&other, &format!("INSERT INTO t VALUES ('n-{number}', 1)")).await;
        // Clears away what those have read whom it takes to be there.
        gates[1].rebuild().await.unwrap();
    }
    gates[0].rebuild().await.unwrap();
    for gate in &gates {
        told(gate).await;
        assert!(!is_blocked(gate, "n-5"));
        assert_eq!(gate.stats().feed.unwrap().losses, 0);
    }
}

#[tokio::test]
async fn what_a_crash_takes_back_is_not_remembered() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // Commits that nobody waits for are written ten seconds later.
    let mut server = PostgresProcess::start(free, &[], &["listen_addresses=", "wal_writer_delay=10000"]);
    let url = format!("postgres://tester@{}:{free}/postgres", server.host());
    run(&connect(&url).await, TABLE).await;
    assert!(install(&url).await);
    let cache = Arc::new(LocalCache::new(1 << 20).unwrap());
    let gate = followed(Gate::builder(source(&url).await).cache(cache));
    ready(&gate).await;
    // Sometimes something else has the log written in between.
    for round in 1..=20 {
        let (gone, came) = (format!("key-{round}"), format!("came-{round}"));
        let other = connect(&url).await;
        run(&other, "SET synchronous_commit = off").await;
        run(&other, &format!("DELETE FROM t WHERE k = '{gone}'; INSERT INTO t VALUES ('{came}', 1)")).await;
        told(&gate).await;
        assert!(row(&gate, &gone).await.is_none() && row(&gate, &came).await.is_some());
        assert!(!is_blocked(&gate, &gone), "the filter still knows it");
        server.end("-QUIT");
        server.start_again(false);
        let other = connect(&url).await;
        let is_back = !other.query("SELECT FROM t WHERE k = $1", &[&gone]).await.unwrap().is_empty();
        told(&gate).await;
        assert_eq!((row(&gate, &gone).await.is_some(), row(&gate, &came).await.is_none()), (is_back, is_back));
        if is_back {
            assert_eq!(gate.stats().feed.unwrap().losses, 0);
            return;
        }
    }
    panic!("the server never lost a commit");
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[tokio::test]
async fn a_restored_backup_is_noticed() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = PostgresProcess::start(free, &[], &["listen_addresses="]);
    let url = format!("postgres://tester@{}:{free}/postgres", server.host());
    let other = connect(&url).await;
    run(&other, &format!("{TABLE} INSERT INTO t VALUES ('deleted later', 1)")).await;
    assert!(install(&url).await);
    let gate = followed(Gate::builder(source(&url).await));
    ready(&gate).await;
    // The backup of a server at rest: it has a row that no filter of later has.
    server.stop();
    let (data, backup) = (server.folder.path().join("data"), server.folder.path().join("backup"));
    copy(&data, &backup);
    server.start_again(false);
    let other = connect(&url).await;
    told(&gate).await;
    assert_eq!(gate.stats().feed.unwrap().losses, 0, "a restart is no loss");
    run(&other, "DELETE FROM t WHERE k = 'deleted later'").await;
    told(&gate).await;
    gate.rebuild().await.unwrap();
    told(&gate).await;
    assert!(is_blocked(&gate, "deleted later"));
    let held = now();
    server.stop();
    std::fs::rename(&data, server.folder.path().join("gone")).unwrap();
    copy(&backup, &data);
    server.start_again(false);
    // The same numbers of transactions are given out once more.
    let other = connect(&url).await;
    for number in 0..50 {
        run(&other, &format!("INSERT INTO t VALUES ('again-{number}', 1)")).await;
    }
    let committed = now();
    assert!(held < committed);
    never_wrongly_absent(&gate, "deleted later", committed).await;
    for number in 0..50 {
        never_wrongly_absent(&gate, &format!("again-{number}"), committed).await;
    }
    until(&gate, |stats| stats.feed.as_ref().unwrap().losses >= 1).await;
    told(&gate).await;
    assert!(is_blocked(&gate, "nobody"));
    assert_eq!(gate.stats().audit.wrong, 0);
}
