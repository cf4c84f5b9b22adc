//! The feed of a SQLite table.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::feed::{ChangeKind, FeedOptions, FeedPlan};
use bloomgate_gate::sources::{Source, Sqlite};
use bloomgate_gate::{Builder, ErrorKind, Gate, Key, Outcome, Policy, Writers};
use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use super::{Notes, followed, is_blocked, is_ready, lost, never_wrongly_absent, now, ready, row, told, until};
use crate::tables::refused;

struct File {
    folder: TempDir,
    path: PathBuf,
    other: Connection,
}

const TABLE: &str = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER, u INTEGER UNIQUE) WITHOUT ROWID";

fn file() -> File {
    file_with(TABLE)
}

fn file_with(table: &str) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let other = Connection::open(&path).unwrap();
    other.busy_timeout(Duration::from_secs(5)).unwrap();
    other.execute_batch(&format!("PRAGMA journal_mode = WAL; {table}")).unwrap();
    let file = File { folder, path, other };
    file.install(&FeedPlan::default());
    file
}

impl File {
    fn install(&self, plan: &FeedPlan) -> bool {
        Sqlite::install_feed(&self.path, "t", "k", plan, false).unwrap().changed
    }

    fn gate(&self) -> Gate {
        followed(Gate::builder(Arc::new(Sqlite::open(&self.path, "t", "k").unwrap())))
    }

    fn kept_gate(&self) -> Gate {
        let source = Sqlite::open(&self.path, "t", "k").unwrap();
        let builder = Gate::builder(Arc::new(source)).data(self.folder.path().join("data"));
        followed(builder.feed_save_every(Duration::from_millis(100)).feed_hold(Duration::from_secs(1)))
    }

    fn run(&self, sql: &str) {
        self.other.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// Sets the file back to another one, as `sqlite3` does it.
    fn restore(&self, from: &Path) {
        let restore = format!(".restore '{}'", from.display());
        let done = Command::new("sqlite3").arg(&self.path).arg(".timeout 5000").arg(restore).status();
        assert!(done.expect("sqlite3 is missing: install it").success());
    }

    fn outbox(&self) -> i64 {
        self.other.query_row("SELECT count(*) FROM bloomgate_feed_t", [], |row| row.get(0)).unwrap()
    }

    fn feed(&self, name: &str) -> Arc<dyn bloomgate_gate::feed::Feed> {
        let options = FeedOptions { reader: name.to_owned(), hold: Duration::from_secs(60) };
        Sqlite::open(&self.path, "t", "k").unwrap().feed(options).unwrap()
    }
}

#[tokio::test]
async fn what_others_write_is_known_in_every_form() {
    is_known_in_every_form(|builder| builder).await;
}

/// The same with a filter in a server of its own.
#[cfg(feature = "redis")]
#[tokio::test]
async fn what_others_write_is_known_in_every_form_behind_a_server_too() {
    use bloomgate_gate::filters::resp::RespFilters;
    let server = crate::filter_server::FilterServer::start();
    // Late answers mean "maybe", and this is about what the filter says.
    let filters = RespFilters::connect(&server.url(), "told", Duration::from_secs(5)).await.unwrap();
    is_known_in_every_form(|builder| builder.remote_filter(filters)).await;
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.client()).unwrap();
    assert_eq!(names, ["told"]);
}

async fn is_known_in_every_form(filter: impl FnOnce(Builder) -> Builder) {
    /// Whether the filter alone says no, wherever it is.
    async fn is_blocked(gate: &Gate, key: &str) -> bool {
        gate.get(&Key::from(key)).await.unwrap().outcome == Outcome::AbsentByFilter
    }

    let file = file();
    file.run("INSERT INTO t VALUES ('old', 1, 1), ('moved', 2, 2)");
    let source = Arc::new(Sqlite::open(&file.path, "t", "k").unwrap());
    let cache = Arc::new(LocalCache::new(1 << 20).unwrap());
    let gate = followed(filter(Gate::builder(source).cache(cache)));
    ready(&gate).await;
    assert_eq!(row(&gate, "old").await.as_deref(), Some(r#"{"k":"old","v":1,"u":1}"#));
    for key in ["new", "upserted", "replaced", "there", "rolled back"] {
        assert!(is_blocked(&gate, key).await, "{key}");
    }
    for (key, sql) in [
        ("new", "INSERT INTO t VALUES ('new', 1, 3)"),
        ("upserted", "INSERT INTO t VALUES ('upserted', 1, 4) ON CONFLICT (k) DO UPDATE SET v = 9"),
        ("replaced", "INSERT OR REPLACE INTO t VALUES ('replaced', 1, 4)"),
        ("there", "UPDATE t SET k = 'there' WHERE k = 'moved'"),
    ] {
        file.run(sql);
        never_wrongly_absent(&gate, key, now()).await;
    }
    file.run("BEGIN; INSERT INTO t VALUES ('rolled back', 1, 90); ROLLBACK");
    // Rows in the cache follow too.
    file.run("INSERT INTO t VALUES ('old', 0, 0) ON CONFLICT (k) DO UPDATE SET v = 7");
    told(&gate).await;
    assert_eq!(row(&gate, "old").await.as_deref(), Some(r#"{"k":"old","v":7,"u":1}"#));
    assert!(is_blocked(&gate, "rolled back").await && row(&gate, "moved").await.is_none());
    file.run("DELETE FROM t WHERE k = 'old'");
    told(&gate).await;
    assert_eq!(row(&gate, "old").await, None);
    let feed = gate.stats().feed.unwrap();
    assert_eq!((feed.written, feed.changed, feed.deleted, feed.losses), (4, 1, 2, 0), "{feed:?}");
    // What was remembered as absent is forgotten with the row that comes.
    assert_eq!(row(&gate, "moved").await, None);
    file.run("INSERT INTO t VALUES ('moved', 1, 80)");
    never_wrongly_absent(&gate, "moved", now()).await;
    assert_eq!(gate.stats().audit.wrong, 0);
}

#[tokio::test]
async fn the_gate_itself_may_write_beside_others() {
    let file = file();
    let (gate, second) = (file.gate(), file.gate());
    ready(&gate).await;
    ready(&second).await;
    gate.put("mine".into(), Bytes::from_static(br#"{"v":1}"#)).await.unwrap();
    assert!(row(&gate, "mine").await.is_some(), "known at once");
    never_wrongly_absent(&second, "mine", now()).await;
    second.put("theirs".into(), Bytes::from_static(b"{}")).await.unwrap();
    never_wrongly_absent(&gate, "theirs", now()).await;
    assert!(gate.delete(&"theirs".into()).await.unwrap());
    // What triggers write beside it is told too.
    file.run(
        "CREATE TRIGGER ghost AFTER DELETE ON t BEGIN INSERT INTO t (k) VALUES (OLD.k || '-deleted'); END;
         CREATE TRIGGER twin AFTER INSERT ON t WHEN NEW.k = 'one' BEGIN INSERT INTO t (k) VALUES ('two'); END;",
    );
    gate.put("one".into(), Bytes::from_static(b"{}")).await.unwrap();
    never_wrongly_absent(&gate, "two", now()).await;
    assert!(gate.delete(&"one".into()).await.unwrap());
    never_wrongly_absent(&gate, "one-deleted", now()).await;
    gate.rebuild().await.unwrap();
    told(&gate).await;
    assert!(is_blocked(&gate, "theirs"));
}

#[tokio::test]
async fn whatever_breaks_the_feed_is_noticed_and_means_rebuild() {
    let file = file();
    file.run("INSERT INTO t (k) VALUES ('a')");
    let gate = file.gate();
    ready(&gate).await;

    // Dropped, written past, and made again before anybody looks.
    let trigger: String = file
        .other
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'bloomgate_feed_t_insert'", [], |row| row.get(0))
        .unwrap();
    file.run(&format!(
        "BEGIN; DROP TRIGGER bloomgate_feed_t_insert; INSERT INTO t (k) VALUES ('past'); {trigger}; COMMIT"
    ));
    never_wrongly_absent(&gate, "past", now()).await;
    lost(&gate, 1, "schema").await;
    told(&gate).await;

    // Dropped: nothing is said until it is installed again.
    file.run("DROP TRIGGER bloomgate_feed_t_insert; INSERT INTO t (k) VALUES ('unseen')");
    never_wrongly_absent(&gate, "unseen", now()).await;
    lost(&gate, 2, "bloomgate_feed_t_insert is missing").await;
    let source = gate.source().clone();
    let closed = Gate::builder(source).writers(Writers::Feed).policy(Policy::Closed).build().unwrap();
    refused(closed.rebuild().await, ErrorKind::Gap, &["install-feed"]);
    assert!(!is_ready(&gate) && file.install(&FeedPlan::default()) && !file.install(&FeedPlan::default()));
    told(&gate).await;
    assert!(is_blocked(&gate, "nobody") && row(&gate, "unseen").await.is_some());

    // Another table under the name.
    file.run(&format!(
        "BEGIN; ALTER TABLE t RENAME TO before; {TABLE}; INSERT INTO t (k) SELECT k FROM before; COMMIT"
    ));
    file.run("INSERT INTO t (k) VALUES ('in the new one')");
    never_wrongly_absent(&gate, "in the new one", now()).await;
    lost(&gate, 3, "install-feed").await;
    file.run("DROP TABLE before");
    assert!(file.install(&FeedPlan::default()));
    told(&gate).await;
    assert!(row(&gate, "in the new one").await.is_some() && row(&gate, "a").await.is_some());

    // Somebody clears the outbox; or only what is newest there, behind which nothing follows.
    for (number, sql) in ["DELETE FROM bloomgate_feed_t", "DELETE FROM bloomgate_feed_t WHERE key LIKE 'cleared%'"]
        .into_iter()
        .enumerate()
    {
        let key = format!("cleared-{number}");
        file.run(&format!("BEGIN; INSERT INTO t (k) VALUES ('{key}'); {sql}; COMMIT"));
        never_wrongly_absent(&gate, &key, now()).await;
        until(&gate, |stats| stats.feed.as_ref().unwrap().losses == number as u64 + 4).await;
        told(&gate).await;
        assert!(!is_blocked(&gate, &key) && is_blocked(&gate, "nobody"));
    }
    file.run("INSERT INTO t (k) VALUES ('as ever')");
    never_wrongly_absent(&gate, "as ever", now()).await;
    told(&gate).await;
    assert_eq!((gate.stats().feed.unwrap().losses, gate.stats().audit.wrong), (5, 0));
}

#[tokio::test]
async fn a_file_that_is_set_back_is_noticed() {
    let file = file();
    file.run("INSERT INTO t (k) VALUES ('a'), ('deleted later')");
    let gate = file.gate();
    ready(&gate).await;
    let backup = file.folder.path().join("backup.db");
    file.run(&format!("VACUUM INTO '{}'", backup.display()));
    // A backup in which rows are that no filter of now has.
    file.run("DELETE FROM t WHERE k = 'deleted later'");
    told(&gate).await;
    gate.rebuild().await.unwrap();
    told(&gate).await;
    assert!(is_blocked(&gate, "deleted later"));
    // By SQLite's own means: the same file.
    file.restore(&backup);
    never_wrongly_absent(&gate, "deleted later", now()).await;
    until(&gate, |stats| stats.feed.as_ref().unwrap().losses == 1).await;
    told(&gate).await;

    // Set back, and written to until the numbers are as high as before: only the random numbers tell.
    file.run("INSERT INTO t (k) VALUES ('b'), ('c')");
    told(&gate).await;
    let losses = gate.stats().feed.unwrap().losses;
    let prepared = file.folder.path().join("prepared.db");
    std::fs::copy(&backup, &prepared).unwrap();
    let further = Connection::open(&prepared).unwrap();
    further.execute_batch("INSERT INTO t (k) VALUES ('x'), ('y'), ('z'), ('q')").unwrap();
    drop(further);
    file.restore(&prepared);
    for key in ["x", "y", "z", "q"] {
        never_wrongly_absent(&gate, key, now()).await;
    }
    until(&gate, |stats| stats.feed.as_ref().unwrap().losses > losses).await;
    told(&gate).await;

    // By another file in its place.
    let losses = gate.stats().feed.unwrap().losses;
    let third = file.folder.path().join("third.db");
    file.run(&format!("VACUUM INTO '{}'", third.display()));
    Connection::open(&third).unwrap().execute_batch("INSERT INTO t (k) VALUES ('elsewhere')").unwrap();
    // Whoever replaces a file sees to it that nothing of the old one is left beside it.
    file.run("PRAGMA wal_checkpoint(TRUNCATE)");
    for end in ["-wal", "-shm"] {
        std::fs::remove_file(format!("{}{end}", file.path.display())).unwrap();
    }
    std::fs::rename(&third, &file.path).unwrap();
    never_wrongly_absent(&gate, "elsewhere", now()).await;
    until(&gate, |stats| stats.feed.as_ref().unwrap().losses > losses || stats.rebuild.done > 4).await;
    assert_eq!(gate.stats().audit.wrong, 0);
}

/// `cp backup.db shop.db` while the log is empty: nothing that SQLite counts tells of it.
#[tokio::test]
async fn a_file_that_is_copied_over_is_noticed() {
    let file = file();
    file.run("INSERT INTO t (k) VALUES ('a'), ('deleted later')");
    let gate = file.gate();
    ready(&gate).await;
    let empty_log = || {
        let left: (i64, i64) =
            file.other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        assert_eq!(left, (0, 0));
    };
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
    };
    told(&gate).await;
    empty_log();
    let backup = file.folder.path().join("backup.db");
    copy(&file.path, &backup);
    // A row that no filter of now has, and its deletion was told and cleared away.
    file.run("DELETE FROM t WHERE k = 'deleted later'");
    told(&gate).await;
    gate.rebuild().await.unwrap();
    told(&gate).await;
    assert!(is_blocked(&gate, "deleted later"));
    empty_log();
    // Read to the end once more, so that there is nothing left but to look whether anything was committed.
    told(&gate).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(gate.stats().feed.unwrap().losses, 0);
    copy(&backup, &file.path);
    never_wrongly_absent(&gate, "deleted later", now()).await;
    until(&gate, |stats| stats.feed.as_ref().unwrap().losses >= 1).await;
    told(&gate).await;
    assert!(row(&gate, "deleted later").await.is_some() && row(&gate, "a").await.is_some());
    assert!(is_blocked(&gate, "nobody"));
    file.run("INSERT INTO t (k) VALUES ('as ever')");
    never_wrongly_absent(&gate, "as ever", now()).await;
    assert_eq!(gate.stats().audit.wrong, 0);
    let check: String = file.other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

/// A backup that SQLite made itself is not in WAL mode, and cannot be while the log of the file before is open.
#[tokio::test]
async fn a_file_that_is_copied_over_by_one_of_another_mode_means_maybe() {
    let file = file();
    file.run("INSERT INTO t (k) VALUES ('a'), ('deleted later')");
    let backup = file.folder.path().join("backup.db");
    file.run(&format!("VACUUM INTO '{}'", backup.display()));
    file.run("DELETE FROM t WHERE k = 'deleted later'");
    let gate = file.gate();
    ready(&gate).await;
    told(&gate).await;
    assert!(is_blocked(&gate, "deleted later"));
    file.run("PRAGMA wal_checkpoint(TRUNCATE)");
    told(&gate).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let copied = now();
    assert!(Command::new("cp").arg(&backup).arg(&file.path).status().unwrap().success());
    let stats = until(&gate, |stats| stats.feed.as_ref().unwrap().losses >= 1).await;
    assert!(stats.feed.unwrap().watermark_ms.is_none_or(|watermark| watermark <= copied));
    lost(&gate, 1, "start the gate anew").await;
    assert!(!is_blocked(&gate, "deleted later"));
    gate.stop().await;
    drop((gate, file.other));
    let gate = followed(Gate::builder(Arc::new(Sqlite::open(&file.path, "t", "k").unwrap())));
    ready(&gate).await;
    assert!(row(&gate, "deleted later").await.is_some());
}

#[tokio::test]
async fn who_switches_triggers_off_for_himself_is_found_by_audits() {
    let file = file();
    let gate = file.kept_gate();
    ready(&gate).await;
    file.other.set_db_config(rusqlite::config::DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false).unwrap();
    file.run("INSERT INTO t (k) VALUES ('past')");
    told(&gate).await;
    assert!(is_blocked(&gate, "past"), "nobody could know");
    until(&gate, |stats| stats.audit.wrong > 0).await;
    until(&gate, |stats| stats.rebuild.history.last().is_some_and(|last| last.reason.name() == "wrong-no")).await;
    told(&gate).await;
    assert!(row(&gate, "past").await.is_some());
}

#[tokio::test]
async fn a_restart_catches_up_without_a_scan() {
    let file = file();
    // So many that one deletion is no reason for a rebuild.
    file.run("INSERT INTO t (k) VALUES ('a'), ('u1'), ('u2'), ('u3'), ('u4'), ('u5'), ('u6'), ('u7'), ('u8'), ('u9')");
    let first = file.kept_gate();
    ready(&first).await;
    file.run("INSERT INTO t (k) VALUES ('b')");
    told(&first).await;
    first.stop().await;
    drop(first);
    file.run("INSERT INTO t (k) VALUES ('c'); DELETE FROM t WHERE k = 'a'");
    let gate = file.kept_gate();
    assert!(!is_ready(&gate), "until it has caught up");
    ready(&gate).await;
    assert!(row(&gate, "b").await.is_some() && row(&gate, "c").await.is_some() && is_blocked(&gate, "d"));
    let stats = gate.stats();
    let version = stats.filter.unwrap().version;
    assert_eq!((version, stats.rebuild.done, stats.feed.unwrap().written), (1, 0, 1), "one change, no scan");
    file.run("INSERT INTO t (k) VALUES ('d')");
    never_wrongly_absent(&gate, "d", now()).await;
    gate.stop().await;
    drop(gate);

    // A feed that was not watched all the time: it is scanned.
    file.run("DROP TRIGGER bloomgate_feed_t_insert; INSERT INTO t (k) VALUES ('e')");
    assert!(file.install(&FeedPlan::default()));
    let gate = file.kept_gate();
    ready(&gate).await;
    assert!(row(&gate, "e").await.is_some());
    until(&gate, |stats| stats.rebuild.done == 1).await;
    gate.stop().await;
    drop(gate);

    // Away for longer than its place is held, while another gate clears away: a gap.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let other = file.gate();
    ready(&other).await;
    for number in 0..20 {
        file.run(&format!("INSERT INTO t (k) VALUES ('late-{number}')"));
    }
    told(&other).await;
    // A rebuild writes the place down, and clears away what is behind it.
    other.rebuild().await.unwrap();
    assert!(file.outbox() < 5, "{}", file.outbox());
    let gate = file.kept_gate();
    ready(&gate).await;
    until(&gate, |stats| stats.rebuild.done == 1).await;
    assert!(row(&gate, "late-19").await.is_some());
}

#[tokio::test]
async fn the_outbox_is_cleared_of_what_every_gate_has_saved() {
    let file = file();
    let gate = file.kept_gate();
    ready(&gate).await;
    for number in 0..50 {
        file.run(&format!("INSERT INTO t (k) VALUES ('key-{number}')"));
    }
    told(&gate).await;
    for _ in 0..400 {
        if file.outbox() < 5 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(file.outbox() < 5, "{} rows are left", file.outbox());
    assert!(row(&gate, "key-49").await.is_some());
    assert_eq!(gate.stats().feed.unwrap().losses, 0);
}

#[tokio::test]
async fn keys_are_told_as_a_scan_gives_them() {
    for (column, values) in [
        ("TEXT", ["'a'", "'ä b'", "''"]),
        ("INTEGER", ["1", "'2'", "-9223372036854775808"]),
        ("BLOB", ["x'00ff'", "x''", "x'61'"]),
    ] {
        let file = file_with(&format!("CREATE TABLE t (k {column} UNIQUE, v)"));
        let (feed, notes) = (file.feed("one"), Notes::default());
        feed.anchor().await.unwrap();
        for value in values {
            file.run(&format!("INSERT INTO t VALUES ({value}, 1)"));
        }
        file.run("INSERT INTO t VALUES (NULL, 1)");
        feed.read(&notes).await.unwrap();
        let told: Vec<Option<Key>> = notes.taken().into_iter().map(|(_, key, _)| key).collect();
        let source = Sqlite::open(&file.path, "t", "k").unwrap();
        let scanned = crate::tables::scanned(&source).await.unwrap();
        assert_eq!(told.len(), 4);
        for key in scanned {
            assert!(told.contains(&Some(Key::from_canonical(key))), "{column}");
        }
        assert!(told.contains(&None));
    }
    // A key of another type is nothing that a filter could follow.
    let file = file_with("CREATE TABLE t (k TEXT UNIQUE, v)");
    let feed = file.feed("one");
    feed.anchor().await.unwrap();
    file.run("INSERT INTO t VALUES (x'00', 1)");
    refused(feed.read(&Notes::default()).await, ErrorKind::Gap, &["another type"]);
}

#[tokio::test]
async fn plans_say_what_is_told() {
    let file = file_with("CREATE TABLE t (k INTEGER PRIMARY KEY, v, shop TEXT)");
    let plan = FeedPlan { only_keys: true, tenant: Some("SHOP".into()), readers: Vec::new() };
    let told = Sqlite::install_feed(&file.path, "t", "k", &plan, true).unwrap();
    assert!(told.changed && told.sql.iter().any(|sql| sql.contains("CREATE TRIGGER")));
    assert!(file.install(&plan), "only told before");
    assert!(!file.install(&plan));
    let (feed, notes) = (file.feed("one"), Notes::default());
    feed.anchor().await.unwrap();
    // The row's number by its other name is the key too.
    file.run("INSERT INTO t VALUES (1, 1, 'north'); UPDATE t SET v = 2; UPDATE t SET rowid = 5; DELETE FROM t");
    feed.read(&notes).await.unwrap();
    let (one, five, north) = (Some(Key::from(1)), Some(Key::from(5)), Some("north".to_owned()));
    assert_eq!(
        notes.taken(),
        [
            (ChangeKind::Written, one.clone(), north.clone()),
            (ChangeKind::Deleted, one, north.clone()),
            (ChangeKind::Written, five.clone(), north.clone()),
            (ChangeKind::Deleted, five, north),
        ]
    );
    refused(
        Sqlite::install_feed(&file.path, "t", "k", &FeedPlan { tenant: Some("shp".into()), ..plan.clone() }, false),
        ErrorKind::Invalid,
        &["shop"],
    );
    refused(
        Sqlite::install_feed(&file.path, "t", "k", &FeedPlan { readers: vec!["me".into()], ..plan }, false),
        ErrorKind::Invalid,
        &["roles"],
    );
    assert!(Sqlite::remove_feed(&file.path, "T", false).unwrap().changed);
    assert!(!Sqlite::remove_feed(&file.path, "t", false).unwrap().changed);
    refused(feed.read(&notes).await, ErrorKind::Gap, &["install-feed"]);
}

#[tokio::test]
async fn a_feed_that_is_held_up_means_maybe() {
    let file = file();
    file.run("INSERT INTO t (k) VALUES ('a')");
    let source = Sqlite::open(&file.path, "t", "k").unwrap();
    let builder = Gate::builder(Arc::new(source)).max_staleness(Duration::from_millis(300));
    let gate = followed(builder);
    ready(&gate).await;
    assert!(is_blocked(&gate, "nobody"));
    // Nobody reads the feed any more.
    gate.stop().await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(!is_blocked(&gate, "nobody") && !is_ready(&gate) && !gate.stats().blocking);
    assert_eq!(gate.get(&"nobody".into()).await.unwrap().watermark, None);
    let source = Sqlite::open(&file.path, "t", "k").unwrap();
    let wrong = Gate::builder(Arc::new(source)).writers(Writers::Feed).max_staleness(Duration::ZERO).build();
    refused(wrong, ErrorKind::Invalid, &["100 ms"]);
}

#[tokio::test]
async fn more_than_one_batch_is_read_whole() {
    let file = file();
    let gate = file.gate();
    ready(&gate).await;
    file.run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000) INSERT INTO t (k) SELECT 'bulk-' || i FROM n");
    let committed = now();
    never_wrongly_absent(&gate, "bulk-25000", committed).await;
    told(&gate).await;
    assert_eq!(gate.stats().feed.unwrap().written, 25_000);
    for number in (1..=25_000).step_by(997) {
        assert!(!is_blocked(&gate, &format!("bulk-{number}")));
    }
}

#[tokio::test]
async fn a_source_without_a_feed_is_refused() {
    let source = crate::memory_source::MemorySource::with(["a".to_owned()]);
    refused(Gate::builder(source).writers(Writers::Feed).build(), ErrorKind::Invalid, &["no feed"]);
}

#[tokio::test]
async fn a_filter_of_the_last_run_that_was_made_for_another_rate_is_caught_up_and_then_made_anew() {
    let file = file();
    file.run(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) INSERT INTO t SELECT 'k' || i, i, i FROM n",
    );
    let gate = |rate: f64| {
        let builder = Gate::builder(Arc::new(Sqlite::open(&file.path, "t", "k").unwrap())).headroom(1.0).least_keys(1);
        followed(builder.rate(rate).data(file.folder.path().join("data")))
    };
    let reasons =
        |gate: &Gate| gate.brief_stats().rebuild.history.iter().map(|past| past.reason.name()).collect::<Vec<_>>();
    let first = gate(0.01);
    ready(&first).await;
    first.stop().await;
    drop(first);
    let second = gate(0.0001);
    ready(&second).await;
    let stats = until(&second, |stats| stats.rebuild.done == 1).await;
    assert_eq!(stats.filter.unwrap().asked_rate, 0.0001);
    assert_eq!(reasons(&second), ["rate"], "it was caught up first");
    second.stop().await;
    drop(second);
    // One that is better than asked for is left as it is.
    let third = gate(0.01);
    ready(&third).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(reasons(&third), [""; 0]);
}

/// The watermark of a feed is always a moment ago; when the filter was built is another thing, and what a late rebuild is told by.
#[tokio::test]
async fn a_feed_does_not_make_a_filter_younger() {
    let file = file();
    file.run("INSERT INTO t VALUES ('a', 1, 1)");
    let gate = file.gate();
    ready(&gate).await;
    let before = gate.brief_stats().filter.unwrap();
    file.run("INSERT INTO t VALUES ('b', 2, 2); DELETE FROM t WHERE k = 'a'");
    told(&gate).await;
    let after = gate.brief_stats().filter.unwrap();
    assert!(after.watermark_ms > before.watermark_ms && after.removed == 1, "{before:?} {after:?}");
    assert_eq!((after.built_ms, after.version), (before.built_ms, before.version));
    assert!(after.built_ms.is_some_and(|built| built <= before.watermark_ms.unwrap()));
    gate.stop().await;
}
