//! The ground under a filter of PostgreSQL: one server, one table, one gate that writes, and no write still to come.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::time::Duration;

use bloomgate_gate::{Error, Gate, Outcome, State, Writers};
use bytes::Bytes;

use super::*;
use crate::postgres_process::PostgresProcess;

const TABLE: &str = "CREATE TABLE t (k text PRIMARY KEY, v int); INSERT INTO t SELECT 'key-' || i, i FROM generate_series(1, 1000) AS i;";

async fn gate(url: &str) -> Gate {
    let source = Postgres::connect(url, "t", "k", 4).await.unwrap();
    Gate::builder(Arc::new(source)).writers(Writers::Sole).build().unwrap()
}

async fn ready(server: &Server, database: &str) -> Gate {
    let gate = gate(&server.url(database)).await;
    gate.rebuild().await.unwrap();
    assert_eq!(gate.get(&"absent".into()).await.unwrap().outcome, Outcome::AbsentByFilter);
    gate
}

async fn has(gate: &Gate, key: &str) -> bool {
    gate.get(&key.into()).await.unwrap().row.is_some()
}

async fn write(gate: &Gate, key: &str) -> Result<(), Error> {
    gate.put(key.into(), Bytes::from_static(b"{}")).await
}

async fn until(gate: &Gate, state: &str) {
    for _ in 0..2000 {
        if gate.state().name() == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not {state}: {:?}", gate.stats().rebuild);
}

#[tokio::test]
async fn a_scan_waits_for_transactions_that_wrote_before_it() {
    let server = Server::shared();
    let (database, other) = server.database(TABLE).await;
    let gate = gate(&server.url(&database)).await;
    other.batch_execute("BEGIN; INSERT INTO t VALUES ('under way', 1)").await.unwrap();
    let rebuilding = tokio::spawn({
        let gate = gate.clone();
        async move { gate.rebuild().await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    other.batch_execute("COMMIT").await.unwrap();
    rebuilding.await.unwrap().unwrap();
    assert!(has(&gate, "under way").await);
    // Who only reads, or writes elsewhere, is not waited for.
    other.batch_execute("CREATE TABLE u (k int); BEGIN; INSERT INTO u VALUES (1); SELECT FROM t").await.unwrap();
    gate.rebuild().await.unwrap();
}

#[tokio::test]
async fn one_gate_writes_and_others_know() {
    let server = Server::shared();
    let (database, other) = server.database(TABLE).await;
    let (first, second) = (ready(&server, &database).await, ready(&server, &database).await);
    second.start();
    write(&first, "new").await.unwrap();
    let refused = write(&second, "newer").await.unwrap_err();
    assert!(refused.to_string().contains("another gate writes to t"), "{refused}");
    assert!(!has(&first, "newer").await);
    assert_eq!(second.state(), State::Stale, "it does not see what the other one writes");
    assert!(has(&second, "new").await);
    assert!(second.rebuild().await.unwrap_err().to_string().contains("another gate"));

    // Its connection ends, and with it the lock: it cannot know any more whether it is the only one.
    // The client hears of it before the server lets go, and the other one looks for a moment: both are waited for.
    let holder = "SELECT pg_terminate_backend(pid, 5000) FROM (SELECT DISTINCT pid FROM pg_locks
                  WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'
                  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS holders";
    assert_eq!(other.query(holder, &[]).await.unwrap().len(), 1);
    until(&first, "stale").await;
    write(&second, "newer").await.unwrap();
    second.rebuild().await.unwrap();
    assert!(write(&first, "newest").await.is_err() && first.rebuild().await.is_err());
    assert!(has(&first, "newer").await);
    drop(second);
    first.start();
    until(&first, "ready").await;
    write(&first, "newest").await.unwrap();
    assert!(has(&first, "newer").await && has(&first, "newest").await);
}

#[tokio::test]
async fn a_table_that_was_replaced_is_scanned_anew() {
    let server = Server::shared();
    let (database, other) = server.database(TABLE).await;
    let gate = ready(&server, &database).await;
    other
        .batch_execute(
            "BEGIN; ALTER TABLE t RENAME TO old; CREATE TABLE t (v bigint, k text PRIMARY KEY);
             INSERT INTO t SELECT i, 'new-' || i FROM generate_series(1, 2000) AS i; COMMIT",
        )
        .await
        .unwrap();
    gate.source().look_around().await.unwrap();
    assert_eq!(gate.state(), State::Stale);
    assert!(has(&gate, "new-7").await);
    write(&gate, "written").await.unwrap();
    gate.rebuild().await.unwrap();
    assert!(has(&gate, "new-7").await && has(&gate, "written").await && !has(&gate, "key-7").await);
    assert_eq!(gate.get(&"key-7".into()).await.unwrap().outcome, Outcome::AbsentByFilter);

    // One whose column compares otherwise cannot be gated: nothing is known any more.
    other
        .batch_execute(
            "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             ALTER TABLE t ALTER k TYPE text COLLATE folded",
        )
        .await
        .unwrap();
    assert!(gate.rebuild().await.unwrap_err().to_string().contains("not deterministic"));
    assert_eq!(gate.state(), State::Broken);
    assert!(has(&gate, "NEW-7").await, "as the database says");
}

#[tokio::test]
async fn a_column_of_another_width_is_read_all_the_same() {
    let server = Server::shared();
    let (database, other) =
        server.database("CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1), (2)").await;
    let source = Postgres::connect(&server.url(&database), "t", "k", 1).await.unwrap();
    let keys = [1, 2, 3].map(Key::from);
    let found = async || source.get_many(&keys).await.unwrap().iter().map(Option::is_some).collect::<Vec<_>>();
    assert_eq!(found().await, [true, true, false]);
    put(&source, 4, "{}").await.unwrap();
    other.batch_execute("ALTER TABLE t ALTER k TYPE bigint").await.unwrap();
    assert_eq!(found().await, [true, true, false]);
    refused(source.look_around().await, ErrorKind::Unsupported, &["not the column it was"]);
}

#[tokio::test]
async fn triggers_that_run_after_a_write_keep_it_away() {
    let server = Server::shared();
    let twin = "CREATE FUNCTION twin() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF NEW.v IS NULL THEN INSERT INTO t VALUES (NEW.k || '-twin', 1); END IF; RETURN NULL; END $$;
                CREATE TRIGGER twin AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION twin();";
    let (database, other) = server.database(&format!("{TABLE}{twin}")).await;
    let gate = ready(&server, &database).await;
    let refused = write(&gate, "one").await.unwrap_err();
    assert!(refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("rule twin"), "{refused}");
    assert!(!has(&gate, "one").await && !has(&gate, "one-twin").await);
    other.batch_execute("ALTER TABLE t DISABLE TRIGGER twin").await.unwrap();
    write(&gate, "one").await.unwrap();

    // A delete that leaves another row behind, by row and by statement.
    for of in ["ROW", "STATEMENT"] {
        let ghost = format!(
            "CREATE OR REPLACE FUNCTION ghost() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 INSERT INTO t VALUES ('ghost', 1); RETURN NULL; END $$;
             CREATE TRIGGER ghost AFTER DELETE ON t FOR EACH {of} EXECUTE FUNCTION ghost();"
        );
        other.batch_execute(&ghost).await.unwrap();
        for key in ["one", "nobody"] {
            let refused = gate.delete(&Key::from(key)).await.unwrap_err();
            assert!(
                refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("rule ghost"),
                "{refused}"
            );
        }
        assert!(has(&gate, "one").await && !has(&gate, "ghost").await);
        // What only runs after a delete keeps no put away.
        write(&gate, "one").await.unwrap();
        other.batch_execute("DROP TRIGGER ghost ON t").await.unwrap();
    }
    assert!(gate.delete(&Key::from("one")).await.unwrap() && !gate.delete(&Key::from("one")).await.unwrap());
}

#[tokio::test]
async fn keys_that_no_text_spells_do_not_keep_the_others_from_being_gated() {
    let server = Server::shared();
    let table = "CREATE TABLE t (k numeric PRIMARY KEY); INSERT INTO t VALUES ('NaN'), ('Infinity'), (1.50), (2)";
    let (database, _other) = server.database(table).await;
    let gate = gate(&server.url(&database)).await;
    assert_eq!(gate.rebuild().await.unwrap().keys, 4);
    assert!(gate.get(&gate.parse_key("1.5").unwrap()).await.unwrap().row.is_some());
    assert!(gate.parse_key("NaN").is_err(), "it is never asked for");
    let (database, _other) = server
        .database("CREATE TABLE t (k text PRIMARY KEY); ALTER TABLE t ALTER k SET STORAGE MAIN; INSERT INTO t VALUES (repeat('x', 5000))")
        .await;
    let gate = self::gate(&server.url(&database)).await;
    assert_eq!(gate.rebuild().await.unwrap().keys, 1);
}

#[tokio::test]
async fn what_changes_unseen_or_compares_otherwise_is_refused() {
    let server = Server::shared();
    let (database, _other) = server.database(&format!("{TABLE} CREATE MATERIALIZED VIEW m AS SELECT * FROM t")).await;
    let shown = Postgres::connect(&server.url(&database), "m", "k", 1).await;
    refused(shown, ErrorKind::Unsupported, &["materialized view"]);
    // U+00A6 and U+FFE4 are one sign there.
    let options = "TEMPLATE template0 ENCODING 'EUC_JP' LC_COLLATE 'C' LC_CTYPE 'C'";
    let (database, _other) = server.database_with(options, "CREATE TABLE t (k text PRIMARY KEY, i int UNIQUE)").await;
    refused(Postgres::connect(&server.url(&database), "t", "k", 1).await, ErrorKind::Unsupported, &["EUC_JP"]);
    Postgres::connect(&server.url(&database), "t", "i", 1).await.unwrap();
}

/// An address that leads to one port now and to another one later, as that of a proxy does.
async fn proxy(to: Arc<AtomicU16>) -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            let to = to.load(SeqCst);
            tokio::spawn(async move {
                let Ok(mut to) = tokio::net::TcpStream::connect(("127.0.0.1", to)).await else { return };
                _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    port
}

fn port(url: &str) -> u16 {
    url.rsplit_once('/').unwrap().0.rsplit_once(':').unwrap().1.parse().unwrap()
}

#[tokio::test]
async fn another_database_at_the_same_address_is_noticed() {
    let server = Server::shared();
    let (database, other) = server.database(TABLE).await;
    let gate = gate(&server.url(&database)).await;
    gate.rebuild().await.unwrap();

    // Another database of the same name: the rows of before say nothing about it.
    let admin = server.client("postgres").await;
    drop(other);
    admin.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.unwrap();
    admin.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
    let other = server.client(&database).await;
    other.batch_execute(&format!("{TABLE} INSERT INTO t VALUES ('elsewhere', 1)")).await.unwrap();
    assert!(has(&gate, "key-1").await);
    assert_eq!(gate.state(), State::Stale);
    assert!(has(&gate, "elsewhere").await);
    gate.rebuild().await.unwrap();
    assert!(has(&gate, "elsewhere").await);
}

/// With the connection the lock is lost that keeps gates away that write: one may be there before this one is back.
#[tokio::test]
async fn a_no_ends_with_the_connection_and_is_back_with_the_server() {
    let settings = ["listen_addresses="];
    let mut server = PostgresProcess::start(5432, &[], &settings);
    let url = format!("postgres://tester@{}:5432/postgres", server.host());
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(TABLE).await.unwrap();
    drop(client);
    let gate = gate(&url).await;
    gate.start();
    until(&gate, "ready").await;
    let absent = async || gate.get(&"absent".into()).await;
    assert_eq!(absent().await.unwrap().outcome, Outcome::AbsentByFilter);
    server.end("-QUIT");
    until(&gate, "stale").await;
    assert_eq!(absent().await.unwrap_err().kind(), ErrorKind::Source);
    // Long enough for failures to be tried again seldom.
    tokio::time::sleep(Duration::from_secs(8)).await;

    server.start_again(false);
    let back = tokio::time::Instant::now();
    until(&gate, "ready").await;
    println!("ready {:?} after the server", back.elapsed());
    for _ in 0..2000 {
        if write(&gate, "written").await.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(has(&gate, "written").await);
    assert_eq!(absent().await.unwrap().outcome, Outcome::AbsentByFilter);
    server.end("-QUIT");
    until(&gate, "stale").await;
    assert_eq!(absent().await.unwrap_err().kind(), ErrorKind::Source);
    let why = gate.source().footing().unwrap().why().unwrap();
    assert!(why.contains("the lock of the table is gone"), "{why}");

    server.start_again(false);
    until(&gate, "ready").await;
    assert_eq!(absent().await.unwrap().outcome, Outcome::AbsentByFilter);
    assert!(has(&gate, "written").await);
}

#[tokio::test]
async fn a_standby_is_refused_at_the_start_and_later() {
    let server = Server::shared();
    let admin = server.client("postgres").await;
    admin.batch_execute("CREATE TABLE guarded (k text PRIMARY KEY); INSERT INTO guarded VALUES ('one')").await.unwrap();
    let to = Arc::new(AtomicU16::new(port(&server.tcp_url("postgres"))));
    let here = format!("postgres://tester@127.0.0.1:{}/postgres?application_name=guarded", proxy(to.clone()).await);
    let source = Postgres::connect(&here, "guarded", "k", 1).await.unwrap();
    let gate = Gate::builder(Arc::new(source)).writers(Writers::Sole).build().unwrap();
    gate.rebuild().await.unwrap();

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // In recovery for ever: it waits for a primary.
    let rules = "local all all trust\nhost all all 127.0.0.1/32 trust\n".to_owned();
    let files = [("standby.signal", String::new()), ("pg_hba.conf", rules)];
    let standby =
        tokio::task::spawn_blocking(move || PostgresProcess::start(free, &files, &["listen_addresses=127.0.0.1"]));
    let standby = standby.await.unwrap();
    let there = format!("postgres://tester@127.0.0.1:{free}/postgres");
    refused(Postgres::connect(&there, "t", "k", 1).await, ErrorKind::Unsupported, &["standby"]);

    // At the same address: neither lookups nor scans believe it.
    to.store(free, SeqCst);
    let ended = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'guarded'";
    assert!(!admin.query(ended, &[]).await.unwrap().is_empty());
    let error = gate.get(&"one".into()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Source && error.to_string().contains("standby"), "{error}");
    let error = gate.rebuild().await.unwrap_err();
    assert!(error.to_string().contains("standby"), "{error}");
    to.store(port(&server.tcp_url("postgres")), SeqCst);
    assert!(has(&gate, "one").await);
    drop(standby);
}
