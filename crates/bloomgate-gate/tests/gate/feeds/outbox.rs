//! What others do to the outbox of a PostgreSQL table, and row security: whatever keeps a row from being told, or hides it, is
//! noticed.

use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::feed::FeedPlan;
use bloomgate_gate::sources::{Postgres, PostgresQuery, Source};
use bloomgate_gate::{ErrorKind, Gate, State, Writers};
use tokio_postgres::Client;

use super::{followed, is_blocked, lost, never_wrongly_absent, now, ready, row, told, until};
use crate::postgres_server::Server;
use crate::tables::{refused, scanned};

const TABLE: &str = "CREATE TABLE t (k text PRIMARY KEY, v int); INSERT INTO t SELECT 'key-' || i, i FROM generate_series(1, 100) AS i;";

async fn install(url: &str, plan: &FeedPlan) -> bool {
    Postgres::install_feed(url, "t", "k", plan, false).await.unwrap().changed
}

async fn source(url: &str) -> Arc<Postgres> {
    Arc::new(Postgres::connect(url, "t", "k", 4).await.unwrap())
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
}

#[tokio::test]
async fn rows_that_somebody_deletes_from_the_outbox_are_noticed() {
    let server = Server::shared();
    let (name, other) = server.database(TABLE).await;
    let url = server.url(&name);
    assert!(install(&url, &FeedPlan::default()).await);
    let gate = followed(Gate::builder(source(&url).await));
    ready(&gate).await;
    let words = "deleted or changed by somebody who is no gate";
    for (number, sql) in [
        "DELETE FROM bloomgate_feed_t",
        "DELETE FROM bloomgate_feed_t; DELETE FROM bloomgate_feed_t",
        "DELETE FROM bloomgate_feed_t WHERE key LIKE 'hidden%'",
        "SET LOCAL session_replication_role = replica; DELETE FROM bloomgate_feed_t",
        "UPDATE bloomgate_feed_t SET key = 'another'",
        "UPDATE bloomgate_feed_t SET xid = '3'",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; DELETE FROM bloomgate_feed_t",
    ]
    .iter()
    .enumerate()
    {
        let key = format!("hidden-{number}");
        assert!(is_blocked(&gate, &key));
        let (first, rest) = if sql.starts_with("SET TRANSACTION") { sql.split_once("; ").unwrap() } else { ("", *sql) };
        run(&other, &format!("BEGIN; {first}; INSERT INTO t VALUES ('{key}', 1); {rest}; COMMIT")).await;
        never_wrongly_absent(&gate, &key, now()).await;
        lost(&gate, number as u64 + 1, words).await;
        told(&gate).await;
        assert!(is_blocked(&gate, "nobody"));
    }
    // The guard itself away for a moment.
    run(
        &other,
        "BEGIN; ALTER TABLE bloomgate_feed_t DISABLE TRIGGER ALL; INSERT INTO t VALUES ('unguarded', 1);
         DELETE FROM bloomgate_feed_t; ALTER TABLE bloomgate_feed_t ENABLE ALWAYS TRIGGER bloomgate_feed_t_deleted,
         ENABLE ALWAYS TRIGGER bloomgate_feed_t_changed; COMMIT",
    )
    .await;
    never_wrongly_absent(&gate, "unguarded", now()).await;
    lost(&gate, 8, "changed").await;
    told(&gate).await;
    // Rolled back, or of no row: nothing is lost by it.
    let losses = gate.stats().feed.unwrap().losses;
    run(&other, "BEGIN; INSERT INTO t VALUES ('undone', 1); DELETE FROM bloomgate_feed_t; ROLLBACK").await;
    run(&other, "DELETE FROM bloomgate_feed_t WHERE false; INSERT INTO t VALUES ('as ever', 1)").await;
    never_wrongly_absent(&gate, "as ever", now()).await;
    told(&gate).await;
    assert_eq!(gate.stats().feed.unwrap().losses, losses);
    assert_eq!(gate.stats().audit.wrong, 0);
}

#[tokio::test]
async fn an_outbox_that_was_shrunk_while_the_gate_was_away_is_noticed() {
    let server = Server::shared();
    let (name, other) = server.database(TABLE).await;
    let url = server.url(&name);
    assert!(install(&url, &FeedPlan::default()).await);
    let folder = tempfile::tempdir().unwrap();
    let kept = async || {
        let builder = Gate::builder(source(&url).await).data(folder.path());
        followed(builder.feed_save_every(Duration::from_millis(100)).feed_hold(Duration::from_secs(60)))
    };
    let outbox =
        async || -> i64 { other.query_one("SELECT count(*) FROM bloomgate_feed_t", &[]).await.unwrap().get(0) };
    let first = kept().await;
    ready(&first).await;
    // What gates clear away themselves is nothing to notice.
    run(&other, "INSERT INTO t SELECT 'b-' || i, 1 FROM generate_series(1, 50) AS i").await;
    told(&first).await;
    for _ in 0..400 {
        if outbox().await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    told(&first).await;
    assert_eq!((outbox().await, first.stats().feed.unwrap().losses), (0, 0));
    first.stop().await;
    drop(first);
    run(&other, "INSERT INTO t VALUES ('c', 1)").await;
    run(&other, "DELETE FROM bloomgate_feed_t").await;
    let gate = kept().await;
    ready(&gate).await;
    assert!(row(&gate, "c").await.is_some());
    until(&gate, |stats| stats.rebuild.done == 1).await;
    told(&gate).await;
    assert!(is_blocked(&gate, "nobody"));
}

#[tokio::test]
async fn a_feed_of_the_version_before_is_to_be_installed_again() {
    let server = Server::shared();
    let (name, other) = server.database(TABLE).await;
    let url = server.url(&name);
    assert!(install(&url, &FeedPlan::default()).await);
    // As it was: nobody watched over the outbox.
    run(&other, "DROP FUNCTION bloomgate_feed_t_guard CASCADE; UPDATE bloomgate_feed_t_about SET version = 1").await;
    let gate = Gate::builder(source(&url).await).writers(Writers::Feed).build().unwrap();
    refused(gate.rebuild().await, ErrorKind::Gap, &["another version of Bloomgate", "installed again", "install-feed"]);
    assert!(install(&url, &FeedPlan::default()).await && !install(&url, &FeedPlan::default()).await);
    let gate = followed(Gate::builder(source(&url).await));
    ready(&gate).await;
    assert!(is_blocked(&gate, "nobody"));
}

#[tokio::test]
async fn whatever_keeps_rows_out_of_the_outbox_or_hides_them_is_noticed() {
    let server = Server::shared();
    let (name, other) =
        server.database(&format!("CREATE ROLE outbox_reader LOGIN; {TABLE} GRANT SELECT ON t TO outbox_reader")).await;
    let url = server.url(&name);
    let plan = FeedPlan { readers: vec!["outbox_reader".into()], ..FeedPlan::default() };
    assert!(install(&url, &plan).await);
    run(&other, "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'").await;
    let gate = followed(Gate::builder(source(&server.url_as("outbox_reader", &name)).await));
    ready(&gate).await;
    for (number, (breaks, words, mends)) in [
        (
            "ALTER TABLE bloomgate_feed_t ENABLE ROW LEVEL SECURITY",
            "row",
            "ALTER TABLE bloomgate_feed_t DISABLE ROW LEVEL SECURITY",
        ),
        (
            "CREATE RULE silent AS ON INSERT TO bloomgate_feed_t DO INSTEAD NOTHING",
            "has a rule",
            "DROP RULE silent ON bloomgate_feed_t",
        ),
        (
            "CREATE TRIGGER silent BEFORE INSERT ON bloomgate_feed_t FOR EACH ROW EXECUTE FUNCTION nothing()",
            "trigger BEFORE a write",
            "DROP TRIGGER silent ON bloomgate_feed_t",
        ),
        (
            "ALTER TABLE bloomgate_feed_t DISABLE TRIGGER bloomgate_feed_t_deleted",
            "lacks a trigger",
            "ALTER TABLE bloomgate_feed_t ENABLE ALWAYS TRIGGER bloomgate_feed_t_deleted",
        ),
        (
            "ALTER TABLE bloomgate_feed_t ENABLE TRIGGER bloomgate_feed_t_changed",
            "fires always",
            "ALTER TABLE bloomgate_feed_t ENABLE ALWAYS TRIGGER bloomgate_feed_t_changed",
        ),
        ("ALTER TABLE bloomgate_feed_t SET UNLOGGED", "outlives a crash", "ALTER TABLE bloomgate_feed_t SET LOGGED"),
        (
            "ALTER TABLE bloomgate_feed_t_readers ENABLE ROW LEVEL SECURITY",
            "row",
            "ALTER TABLE bloomgate_feed_t_readers DISABLE ROW LEVEL SECURITY",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("silent-{number}");
        assert!(is_blocked(&gate, &key), "{breaks}");
        run(&other, breaks).await;
        run(&other, &format!("INSERT INTO t VALUES ('{key}', 1)")).await;
        never_wrongly_absent(&gate, &key, now()).await;
        until(&gate, |stats| {
            let feed = stats.feed.as_ref().unwrap();
            !stats.blocking && feed.lost.as_ref().is_some_and(|why| why.contains(words))
        })
        .await;
        run(&other, mends).await;
        // What was kept out meanwhile was noted.
        install(&url, &plan).await;
        told(&gate).await;
        assert!(!is_blocked(&gate, &key) && is_blocked(&gate, "nobody"), "{breaks}");
    }

    // There and gone before anybody looks: who writes has noted it.
    for (number, (breaks, mends)) in [
        (
            "CREATE RULE silent AS ON INSERT TO bloomgate_feed_t DO INSTEAD NOTHING",
            "DROP RULE silent ON bloomgate_feed_t",
        ),
        (
            "CREATE TRIGGER silent BEFORE INSERT ON bloomgate_feed_t FOR EACH ROW EXECUTE FUNCTION nothing()",
            "DROP TRIGGER silent ON bloomgate_feed_t",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("brief-{number}");
        run(&other, &format!("BEGIN; {breaks}; INSERT INTO t VALUES ('{key}', 1); {mends}; COMMIT")).await;
        never_wrongly_absent(&gate, &key, now()).await;
        until(&gate, |stats| {
            stats.feed.as_ref().unwrap().lost.as_ref().is_some_and(|why| why.contains("did not take a row"))
        })
        .await;
        assert!(install(&url, &plan).await);
        told(&gate).await;
    }

    // Of no effect: the number of the transaction is no default.
    let losses = gate.stats().feed.unwrap().losses;
    run(&other, "ALTER TABLE bloomgate_feed_t ALTER xid SET DEFAULT '3'; INSERT INTO t VALUES ('numbered', 1)").await;
    never_wrongly_absent(&gate, "numbered", now()).await;
    told(&gate).await;
    assert!(!is_blocked(&gate, "numbered"));
    assert_eq!(gate.stats().feed.unwrap().losses, losses);
    assert_eq!(gate.stats().audit.wrong, 0);
}

#[tokio::test]
async fn a_table_whose_policies_hide_rows_from_the_gate_is_refused() {
    let server = Server::shared();
    let (name, other) = server
        .database(&format!(
            "CREATE ROLE sees_some LOGIN; CREATE ROLE sees_all LOGIN BYPASSRLS; {TABLE}
             GRANT SELECT, INSERT, UPDATE ON t TO sees_some, sees_all;
             CREATE POLICY cheap ON t USING (v < 1000)"
        ))
        .await;
    let (some, all) = (server.url_as("sees_some", &name), server.url_as("sees_all", &name));
    let plan = FeedPlan { readers: vec!["sees_some".into(), "sees_all".into()], ..FeedPlan::default() };
    assert!(install(&server.url(&name), &plan).await);
    // Policies that are not in force hide nothing; and once they are, it is noticed, with a feed and without.
    let told_by_feed = followed(Gate::builder(source(&some).await));
    let alone = Gate::builder(source(&some).await).writers(Writers::Sole).build().unwrap();
    alone.start();
    ready(&told_by_feed).await;
    until(&alone, |stats| stats.blocking).await;
    let query = PostgresQuery::connect(&some, "SELECT k FROM t", 1).await.unwrap();
    run(&other, "INSERT INTO t VALUES ('out of sight', 5000)").await;
    run(&other, "ALTER TABLE t ENABLE ROW LEVEL SECURITY; UPDATE t SET v = 1 WHERE k = 'out of sight'").await;
    never_wrongly_absent(&told_by_feed, "out of sight", now()).await;
    lost(&told_by_feed, 1, "row security").await;
    until(&alone, |stats| !stats.blocking).await;
    assert!(matches!(alone.state(), State::Broken), "{:?}", alone.state());
    let words = ["row security", "sees_some BYPASSRLS"];
    refused(alone.rebuild().await, ErrorKind::Unsupported, &words);
    refused(Postgres::connect(&some, "t", "k", 1).await, ErrorKind::Unsupported, &words);

    // A query is refused too, as soon as a policy would hide something from it, and its scan fails.
    refused(scanned(&query).await, ErrorKind::Source, &["row-level security"]);
    refused(PostgresQuery::connect(&some, "SELECT k FROM t", 1).await, ErrorKind::Invalid, &["row-level security"]);

    // Who sees everything goes on.
    assert_eq!(scanned(&*source(&all).await).await.unwrap().len(), 101);
    let every = PostgresQuery::connect(&all, "SELECT k FROM t", 1).await.unwrap();
    assert_eq!(scanned(&every).await.unwrap().len(), 101);
    assert!(every.get(&"key-1".into()).await.unwrap().is_some());
    let gate = followed(Gate::builder(source(&all).await));
    ready(&gate).await;
    assert!(row(&gate, "out of sight").await.is_some() && is_blocked(&gate, "nobody"));

    // And the policies are taken back: the others go on as well.
    run(&other, "ALTER TABLE t DISABLE ROW LEVEL SECURITY").await;
    told(&told_by_feed).await;
    until(&alone, |stats| stats.blocking).await;
    assert!(row(&alone, "out of sight").await.is_some());
}
