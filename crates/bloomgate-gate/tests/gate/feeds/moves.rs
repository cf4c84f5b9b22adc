//! Rows that go from one tenant to another, told by feeds that tell the tenant beside the key: gone for the one, new for the
//! other.

use bloomgate_gate::Key;
use bloomgate_gate::feed::{ChangeKind, FeedPlan};

/// What a feed tells, as notes of it are compared.
type Told = (ChangeKind, Option<Key>, Option<String>);

fn change(kind: ChangeKind, key: &str, tenant: Option<&str>) -> Told {
    (kind, Some(Key::from(key)), tenant.map(str::to_owned))
}

/// One that goes from a key of a tenant to another one.
fn moved(from: (&str, Option<&str>), to: (&str, Option<&str>)) -> Vec<Told> {
    vec![change(ChangeKind::Deleted, from.0, from.1), change(ChangeKind::Written, to.0, to.1)]
}

fn plan(only_keys: bool, tenant: &str) -> FeedPlan {
    FeedPlan { only_keys, tenant: Some(tenant.to_owned()), readers: Vec::new() }
}

/// What is done to a row of the table `t (k, v, shop)`, and what has to be told of it. The column `shop` ignores case.
fn steps(only_keys: bool) -> Vec<(&'static str, Vec<Told>)> {
    let changed = |tenant| if only_keys { Vec::new() } else { vec![change(ChangeKind::Changed, "a", tenant)] };
    let (north, south, capital) = (Some("north"), Some("south"), Some("South"));
    vec![
        ("INSERT INTO t VALUES ('a', 1, 'north')", vec![change(ChangeKind::Written, "a", north)]),
        ("UPDATE t SET shop = 'south'", moved(("a", north), ("a", south))),
        ("UPDATE t SET v = 2, shop = 'south'", changed(south)),
        ("UPDATE t SET shop = 'South'", moved(("a", south), ("a", capital))),
        ("UPDATE t SET shop = NULL", moved(("a", capital), ("a", None))),
        ("UPDATE t SET shop = NULL, v = 3", changed(None)),
        ("UPDATE t SET shop = ''", moved(("a", None), ("a", Some("")))),
        ("UPDATE t SET k = 'b', shop = 'east'", moved(("a", Some("")), ("b", Some("east")))),
        ("UPDATE t SET k = 'a'", moved(("b", Some("east")), ("a", Some("east")))),
        ("DELETE FROM t", vec![change(ChangeKind::Deleted, "a", Some("east"))]),
    ]
}

/// What is done to a table `stock (shop, sku, v)` whose key is made of the shop and the number, and the key that comes by it.
const STOCK: [(&str, &str); 3] = [
    ("north/b", "INSERT INTO stock (shop, sku) VALUES ('north', 'b')"),
    ("south/a", "UPDATE stock SET shop = 'south' WHERE shop = 'north' AND sku = 'a'"),
    ("east/c", "UPDATE stock SET shop = 'east', sku = 'c', v = 1 WHERE sku = 'b'"),
];

#[cfg(feature = "sqlite")]
mod sqlite {
    use std::sync::Arc;
    use std::time::Duration;

    use bloomgate_gate::feed::FeedOptions;
    use bloomgate_gate::sources::{Source, Sqlite};
    use bloomgate_gate::{ErrorKind, Gate};
    use rusqlite::Connection;

    use super::super::{Notes, followed, is_blocked, lost, never_wrongly_absent, now, ready, row, told};
    use super::{FeedPlan, STOCK, plan, steps};
    use crate::tables::refused;

    fn file(folder: &tempfile::TempDir) -> (std::path::PathBuf, Connection) {
        let path = folder.path().join("a.db");
        let other = Connection::open(&path).unwrap();
        other.busy_timeout(Duration::from_secs(5)).unwrap();
        let table = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER, shop TEXT COLLATE NOCASE)";
        other.execute_batch(&format!("PRAGMA journal_mode = WAL; {table}")).unwrap();
        (path, other)
    }

    #[tokio::test]
    async fn a_row_that_goes_to_another_tenant_is_gone_for_the_one_and_new_for_the_other() {
        for only_keys in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let (path, other) = file(&folder);
            assert!(Sqlite::install_feed(&path, "t", "k", &plan(only_keys, "shop"), false).unwrap().changed);
            let options = FeedOptions { reader: "one".into(), hold: Duration::from_secs(60) };
            let feed = Sqlite::open(&path, "t", "k").unwrap().feed(options).unwrap();
            let notes = Notes::default();
            feed.anchor().await.unwrap();
            for (sql, expected) in steps(only_keys) {
                other.execute_batch(sql).unwrap();
                feed.read(&notes).await.unwrap();
                assert_eq!(notes.taken(), expected, "{sql}, only keys: {only_keys}");
            }
        }
    }

    #[tokio::test]
    async fn a_feed_of_the_version_before_is_to_be_installed_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = file(&folder);
        assert!(Sqlite::install_feed(&path, "t", "k", &plan(false, "shop"), false).unwrap().changed);
        let source = Arc::new(Sqlite::open(&path, "t", "k").unwrap());
        let gate = followed(Gate::builder(source.clone()));
        ready(&gate).await;
        // As it was: an update told the key alone.
        other
            .execute_batch(
                "UPDATE bloomgate_feed_t_about SET version = 1; DROP TRIGGER bloomgate_feed_t_update;
                 CREATE TRIGGER bloomgate_feed_t_update AFTER UPDATE ON t BEGIN
                 INSERT INTO bloomgate_feed_t (nonce, kind, key, tenant)
                 SELECT random(), 2, NEW.k, NEW.shop WHERE OLD.k IS NEW.k; END",
            )
            .unwrap();
        lost(&gate, 1, "another version of Bloomgate").await;
        assert!(!is_blocked(&gate, "nobody"));
        let words = ["its form is 1, this one follows 2", "installed again", "install-feed"];
        refused(followed(Gate::builder(source.clone())).rebuild().await, ErrorKind::Gap, &words);
        assert!(Sqlite::install_feed(&path, "t", "k", &plan(false, "shop"), false).unwrap().changed);
        assert!(!Sqlite::install_feed(&path, "t", "k", &plan(false, "shop"), false).unwrap().changed);
        told(&gate).await;
        assert!(is_blocked(&gate, "nobody"));
    }

    #[tokio::test]
    async fn a_tenants_column_that_is_renamed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = file(&folder);
        other.execute_batch("INSERT INTO t VALUES ('a', 1, 'north')").unwrap();
        let install = |plan: &FeedPlan| Sqlite::install_feed(&path, "t", "k", plan, false).unwrap().changed;
        assert!(install(&plan(false, "shop")));
        let gate = followed(Gate::builder(Arc::new(Sqlite::open(&path, "t", "k").unwrap())));
        ready(&gate).await;
        // A gate of all rows knows a key that went to another tenant as before.
        other.execute_batch("UPDATE t SET shop = 'south'").unwrap();
        told(&gate).await;
        assert!(row(&gate, "a").await.is_some());
        assert_eq!(gate.stats().feed.unwrap().losses, 0);
        other
            .execute_batch("ALTER TABLE t RENAME COLUMN shop TO store; INSERT INTO t VALUES ('b', 1, 'east')")
            .unwrap();
        never_wrongly_absent(&gate, "b", now()).await;
        lost(&gate, 1, "it tells the column shop beside the key, and t has none of that name").await;
        assert!(other.execute_batch("ALTER TABLE t DROP COLUMN store").is_err(), "the triggers hold it");
        assert!(install(&plan(false, "store")));
        told(&gate).await;
        assert!(is_blocked(&gate, "nobody") && row(&gate, "b").await.is_some());
    }

    #[tokio::test]
    async fn a_column_made_of_tenant_and_key_is_told_like_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = file(&folder);
        other
            .execute_batch(
                "CREATE TABLE stock (shop TEXT, sku TEXT, v INTEGER, PRIMARY KEY (shop, sku)) WITHOUT ROWID;
                 ALTER TABLE stock ADD COLUMN id TEXT AS (shop || '/' || sku); CREATE UNIQUE INDEX ids ON stock (id);
                 INSERT INTO stock (shop, sku) VALUES ('north', 'a')",
            )
            .unwrap();
        assert!(Sqlite::install_feed(&path, "stock", "id", &FeedPlan::default(), false).unwrap().changed);
        let gate = followed(Gate::builder(Arc::new(Sqlite::open(&path, "stock", "id").unwrap())));
        ready(&gate).await;
        for (key, sql) in STOCK {
            assert!(is_blocked(&gate, key), "{key}");
            other.execute_batch(sql).unwrap();
            never_wrongly_absent(&gate, key, now()).await;
        }
        told(&gate).await;
        assert!(row(&gate, "north/a").await.is_none() && is_blocked(&gate, "south/b"));
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use std::sync::Arc;
    use std::time::Duration;

    use bloomgate_gate::feed::FeedOptions;
    use bloomgate_gate::sources::{Postgres, Source};
    use bloomgate_gate::{ErrorKind, Gate};
    use tokio_postgres::Client;

    use super::super::{Notes, followed, is_blocked, lost, never_wrongly_absent, now, ready, row, told};
    use super::{FeedPlan, STOCK, moved, plan, steps};
    use crate::postgres_server::Server;
    use crate::tables::refused;

    /// The collation takes two spellings for one.
    const TABLE: &str = "
        CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE t (k text PRIMARY KEY, v int, shop text COLLATE any_case)";

    async fn run(client: &Client, sql: &str) {
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    async fn install(url: &str, table: &str, plan: &FeedPlan) -> bool {
        Postgres::install_feed(url, table, "k", plan, false).await.unwrap().changed
    }

    async fn source(url: &str) -> Arc<Postgres> {
        Arc::new(Postgres::connect(url, "t", "k", 4).await.unwrap())
    }

    async fn feed(url: &str, table: &str) -> Arc<dyn bloomgate_gate::feed::Feed> {
        let options = FeedOptions { reader: "one".into(), hold: Duration::from_secs(60) };
        Postgres::connect(url, table, "k", 2).await.unwrap().feed(options).unwrap()
    }

    #[tokio::test]
    async fn a_row_that_goes_to_another_tenant_is_gone_for_the_one_and_new_for_the_other() {
        let server = Server::shared();
        for only_keys in [false, true] {
            let (name, other) = server.database(TABLE).await;
            let url = server.url(&name);
            assert!(install(&url, "t", &plan(only_keys, "shop")).await);
            let (feed, notes) = (feed(&url, "t").await, Notes::default());
            feed.anchor().await.unwrap();
            for (sql, expected) in steps(only_keys) {
                run(&other, sql).await;
                feed.read(&notes).await.unwrap();
                assert_eq!(notes.taken(), expected, "{sql}, only keys: {only_keys}");
            }
        }
    }

    /// A type that knows no equality: what is told is compared, and no write is refused for it.
    #[tokio::test]
    async fn tenants_of_any_type_can_be_told() {
        let server = Server::shared();
        let (name, other) = server
            .database("CREATE TABLE t (k text PRIMARY KEY, v int, shop json); INSERT INTO t VALUES ('a', 1, '[1]')")
            .await;
        let url = server.url(&name);
        assert!(install(&url, "t", &plan(true, "shop")).await);
        let (feed, notes) = (feed(&url, "t").await, Notes::default());
        feed.anchor().await.unwrap();
        run(&other, "UPDATE t SET v = 2").await;
        feed.read(&notes).await.unwrap();
        assert!(notes.taken().is_empty());
        run(&other, "UPDATE t SET shop = '[2]'").await;
        feed.read(&notes).await.unwrap();
        assert_eq!(notes.taken(), moved(("a", Some("[1]")), ("a", Some("[2]"))));
    }

    #[tokio::test]
    async fn a_feed_of_the_version_before_is_to_be_installed_again() {
        let server = Server::shared();
        let (name, other) = server.database(TABLE).await;
        let url = server.url(&name);
        assert!(install(&url, "t", &plan(false, "shop")).await);
        let gate = followed(Gate::builder(source(&url).await));
        ready(&gate).await;
        run(&other, "UPDATE bloomgate_feed_t_about SET version = 2").await;
        lost(&gate, 1, "another version of Bloomgate").await;
        assert!(!is_blocked(&gate, "nobody"));
        let words = ["its form is 2, this one follows 3", "installed again", "install-feed"];
        refused(followed(Gate::builder(source(&url).await)).rebuild().await, ErrorKind::Gap, &words);
        assert!(install(&url, "t", &plan(false, "shop")).await && !install(&url, "t", &plan(false, "shop")).await);
        told(&gate).await;
        assert!(is_blocked(&gate, "nobody"));
    }

    #[tokio::test]
    async fn a_tenants_column_that_is_renamed_replaced_or_dropped_is_noticed() {
        let server = Server::shared();
        let (name, other) = server.database(&format!("{TABLE}; INSERT INTO t VALUES ('a', 1, 'north')")).await;
        let url = server.url(&name);
        assert!(install(&url, "t", &plan(false, "shop")).await);
        let gate = followed(Gate::builder(source(&url).await));
        ready(&gate).await;
        // A gate of all rows knows a key that went to another tenant as before.
        run(&other, "UPDATE t SET shop = 'south'").await;
        told(&gate).await;
        assert!(row(&gate, "a").await.is_some());
        assert_eq!(gate.stats().feed.unwrap().losses, 0);
        // Another column under the name: what is told from now on is another thing.
        run(&other, "BEGIN; ALTER TABLE t RENAME shop TO before; ALTER TABLE t ADD shop text; COMMIT").await;
        lost(&gate, 1, "were changed").await;
        told(&gate).await;
        run(&other, "INSERT INTO t VALUES ('b', 1, 'north', 'east')").await;
        never_wrongly_absent(&gate, "b", now()).await;
        for (number, (breaks, lacks, then)) in [
            ("ALTER TABLE t RENAME shop TO store", "it tells the column shop beside the key", "store"),
            ("ALTER TABLE t DROP store", "it tells the column store beside the key", "before"),
        ]
        .into_iter()
        .enumerate()
        {
            run(&other, breaks).await;
            lost(&gate, number as u64 + 2, lacks).await;
            assert!(!is_blocked(&gate, "nobody"), "{breaks}");
            assert!(install(&url, "t", &plan(false, then)).await);
            told(&gate).await;
            run(&other, &format!("INSERT INTO t (k, {then}) VALUES ('c{number}', 'west')")).await;
            never_wrongly_absent(&gate, &format!("c{number}"), now()).await;
            assert!(is_blocked(&gate, "nobody"), "{breaks}");
        }
        assert_eq!(gate.stats().audit.wrong, 0);
    }

    #[tokio::test]
    async fn a_column_made_of_tenant_and_key_is_told_like_any_other() {
        let server = Server::shared();
        let (name, other) = server
            .database(
                "CREATE TABLE stock (shop text, sku text, v int, id text GENERATED ALWAYS AS (shop || '/' || sku) STORED UNIQUE,
                 PRIMARY KEY (shop, sku)); INSERT INTO stock (shop, sku) VALUES ('north', 'a')",
            )
            .await;
        let url = server.url(&name);
        assert!(Postgres::install_feed(&url, "stock", "id", &FeedPlan::default(), false).await.unwrap().changed);
        let gate = followed(Gate::builder(Arc::new(Postgres::connect(&url, "stock", "id", 4).await.unwrap())));
        ready(&gate).await;
        for (key, sql) in STOCK {
            assert!(is_blocked(&gate, key), "{key}");
            run(&other, sql).await;
            never_wrongly_absent(&gate, key, now()).await;
        }
        told(&gate).await;
        assert!(row(&gate, "north/a").await.is_none() && is_blocked(&gate, "south/b"));
    }
}
