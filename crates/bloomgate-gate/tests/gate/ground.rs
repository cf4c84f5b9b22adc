//! The ground under a filter: what shakes it turns every "no" to "maybe" at once, and a rebuild makes it good.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate_gate::{Gate, Key, Outcome, State, Writers};

use crate::memory_source::{Fate, MemorySource, row_of};

fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key-{number}"))
}

async fn ready(source: &Arc<MemorySource>) -> Gate {
    let gate = Gate::builder(source.clone()).writers(Writers::Sole).rate(0.5).build().unwrap();
    gate.rebuild().await.unwrap();
    gate
}

/// A key that the source does not have and the filter lets through.
async fn false_positive(gate: &Gate) -> Key {
    for number in 0.. {
        let key = Key::from(format!("absent-{number}").as_str());
        if gate.get(&key).await.unwrap().outcome == Outcome::NotFound {
            return key;
        }
    }
    unreachable!("one in two is")
}

#[tokio::test]
async fn a_source_that_moved_is_not_judged_by_what_was_scanned_before() {
    let source = MemorySource::with(keys(1000));
    let gate = ready(&source).await;
    source.rows.lock().unwrap().insert(b"elsewhere".to_vec(), row_of("elsewhere"));
    source.footing.moved("another server");
    assert_eq!(gate.state(), State::Stale);
    assert!(gate.look(&Key::from("elsewhere")).is_none());
    assert!(gate.get(&Key::from("elsewhere")).await.unwrap().row.is_some());
    gate.rebuild().await.unwrap();
    assert!(matches!(gate.state(), State::Ready { .. }));
    assert!(gate.get(&Key::from("elsewhere")).await.unwrap().row.is_some());

    // While it is scanned: what was read before is of the other one.
    *source.yields.lock().unwrap() = Some(1);
    let under_way = tokio::spawn({
        let gate = gate.clone();
        async move { gate.rebuild().await }
    });
    while gate.stats().rebuild.running.is_none_or(|running| running.scanned == 0) {
        tokio::task::yield_now().await;
    }
    source.footing.moved("yet another one");
    assert!(under_way.await.unwrap().unwrap_err().to_string().contains("not where it was"));
    assert_eq!(gate.state(), State::Stale);
}

#[tokio::test]
async fn a_move_is_made_good_without_help() {
    let source = MemorySource::with(keys(100));
    let gate = Gate::builder(source.clone()).writers(Writers::Sole).build().unwrap();
    gate.start();
    while !matches!(gate.state(), State::Ready { version: 1, .. }) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    source.footing.moved("a failover");
    while !matches!(gate.state(), State::Ready { version: 2, .. }) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(gate.stats().rebuild.history[1].reason, bloomgate_gate::Reason::Moved);
}

#[tokio::test]
async fn a_column_that_cannot_be_gated_any_more_breaks_the_filter() {
    let source = MemorySource::with(keys(1000));
    let gate = ready(&source).await;
    source.is_unsupported.store(true, SeqCst);
    assert!(gate.rebuild().await.is_err());
    assert_eq!(gate.state(), State::Broken);
    source.is_unsupported.store(false, SeqCst);
    gate.rebuild().await.unwrap();
    assert!(matches!(gate.state(), State::Ready { .. }));
}

#[tokio::test]
async fn what_was_remembered_as_absent_outlives_neither_a_rebuild_nor_trust() {
    let source = MemorySource::with(keys(1000));
    let gate = ready(&source).await;
    let key = false_positive(&gate).await;
    let past_the_gate = || source.rows.lock().unwrap().insert(key.canonical().to_vec(), row_of("past the gate"));
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::NegativeCached);
    past_the_gate();
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::NegativeCached, "not seen until the next rebuild");
    gate.rebuild().await.unwrap();
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::Source);

    source.rows.lock().unwrap().remove(key.canonical());
    gate.rebuild().await.unwrap();
    let key = false_positive(&gate).await;
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::NegativeCached);
    source.rows.lock().unwrap().insert(key.canonical().to_vec(), row_of("past the gate"));
    source.footing.moved("somebody else wrote");
    assert!(gate.get(&key).await.unwrap().row.is_some());
    // Nor is anything remembered that was read while nothing was certain.
    let absent = Key::from("nowhere");
    assert_eq!(gate.get(&absent).await.unwrap().outcome, Outcome::Bypass);
    assert_eq!(gate.get(&absent).await.unwrap().outcome, Outcome::Bypass);
}

#[tokio::test(start_paused = true)]
async fn a_doubtful_key_is_listed_once_and_not_for_ever() {
    let source = MemorySource::with(keys(100));
    let gate = ready(&source).await;
    for _ in 0..5 {
        *source.fate.lock().unwrap() = Fate::LaterUnknown;
        assert!(gate.put(Key::from("late"), row_of("late")).await.is_err());
    }
    assert_eq!(gate.stats().writes.doubtful, 1);
    gate.rebuild().await.unwrap();
    assert_eq!(gate.stats().writes.doubtful, 1, "it may still happen");
    source.settle();
    assert!(gate.get(&Key::from("late")).await.unwrap().row.is_some());
    tokio::time::advance(Duration::from_secs(301)).await;
    gate.rebuild().await.unwrap();
    assert_eq!(gate.stats().writes.doubtful, 0, "the scan has it, or it never happened");
    assert!(gate.get(&Key::from("late")).await.unwrap().row.is_some());
}

#[tokio::test]
async fn a_wrong_no_is_caught_although_others_were_written_meanwhile() {
    let source = MemorySource::with(keys(1000));
    let gate =
        Gate::builder(source.clone()).writers(Writers::Sole).audit_share(1.0).rebuild_every(None).build().unwrap();
    gate.start();
    while !matches!(gate.state(), State::Ready { .. }) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let write = async |what: &str| {
        // In every one of the 256 shards.
        let rows = (0..4000).map(|number| (Key::from(format!("{what}-{number}").as_str()), row_of(what)));
        gate.put_many(rows.collect()).await.unwrap();
    };
    // A right one: what was written nearby leaves it undecided at first, and it is checked again.
    let held = source.hold.write().await;
    assert!(gate.look(&Key::from("absent")).is_some());
    write("first").await;
    drop(held);
    while gate.stats().audit.checked == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let audit = gate.stats().audit;
    assert_eq!((audit.checked, audit.undecided, audit.wrong), (1, 0, 0));

    source.rows.lock().unwrap().insert(b"past the gate".to_vec(), row_of("past the gate"));
    let held = source.hold.write().await;
    assert!(gate.look(&Key::from("past the gate")).is_some(), "wrong, and not known to be");
    write("second").await;
    drop(held);
    while gate.stats().audit.wrong == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(gate.get(&Key::from("past the gate")).await.unwrap().row.is_some());

    // One that was written itself is neither right nor wrong.
    while !matches!(gate.state(), State::Ready { .. }) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held = source.hold.write().await;
    assert!(gate.look(&Key::from("written")).is_some());
    gate.put(Key::from("written"), row_of("written")).await.unwrap();
    drop(held);
    while gate.stats().audit.undecided == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(gate.stats().audit.wrong, 1);
}

#[tokio::test]
async fn explanations_wait_for_their_turn_like_lookups() {
    let source = MemorySource::with(keys(1000));
    let gate = Gate::builder(source.clone()).writers(Writers::Sole).source_limit(8, 16).build().unwrap();
    gate.rebuild().await.unwrap();
    let held = source.hold.write().await;
    let asked: Vec<_> = (0..50)
        .map(|number| {
            let gate = gate.clone();
            tokio::spawn(async move { gate.explain(&Key::from(format!("absent-{number}").as_str())).await })
        })
        .collect();
    while gate.stats().at_source.waiting < 4 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(gate.stats().at_source.at_once, 2, "a quarter of the cap");
    // A lookup finds room all the same.
    let lookup = tokio::spawn({
        let gate = gate.clone();
        async move { gate.get(&Key::from("key-1")).await }
    });
    while gate.stats().at_source.at_once < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(held);
    assert!(lookup.await.unwrap().unwrap().row.is_some());
    let mut busy = 0;
    for one in asked {
        busy += usize::from(one.await.unwrap().unwrap().decision.is_empty());
    }
    assert_eq!(busy, 0, "each is explained, whether the source could be asked or not");
    let reads = gate.stats().at_source.reads;
    assert!((3..=8).contains(&reads), "{reads} reads: the others were refused");
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use bloomgate_gate::feed::{FeedOptions, FeedPlan};
    use bloomgate_gate::sources::{Source, Sqlite, SqliteQuery, SqliteTenants, TenantTable};
    use bloomgate_gate::{Error, ErrorKind, Event, KeyType};
    use bytes::Bytes;
    use rusqlite::Connection;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};

    use crate::tables::refused;

    fn make(path: &Path, extra: &str) -> Connection {
        let other = Connection::open(path).unwrap();
        let shop = "CREATE TABLE t (k TEXT PRIMARY KEY, v INT) WITHOUT ROWID;
                    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
                    INSERT INTO t SELECT 'key-' || i, i FROM n;";
        other.execute_batch(&format!("{shop}{extra}")).unwrap();
        other
    }

    fn gate(path: &Path) -> Result<Gate, Error> {
        Gate::builder(Arc::new(Sqlite::open(path, "t", "k")?)).writers(Writers::Sole).build()
    }

    async fn put(gate: &Gate, key: &str) -> Result<(), Error> {
        gate.put(Key::from(key), Bytes::from_static(b"{}")).await
    }

    #[tokio::test]
    async fn a_file_that_was_replaced_is_found_out_and_read_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (path, backup) = (folder.path().join("a.db"), folder.path().join("b.db"));
        drop(make(&path, ""));
        drop(make(&backup, "INSERT INTO t VALUES ('restored', 1)"));
        let gate = gate(&path).unwrap();
        gate.rebuild().await.unwrap();
        assert_eq!(gate.get(&Key::from("restored")).await.unwrap().outcome, Outcome::AbsentByFilter);
        for end in ["-wal", "-shm"] {
            _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
        std::fs::rename(&backup, &path).unwrap();
        gate.source().look_around().await.unwrap();
        assert_eq!(gate.state(), State::Stale);
        assert!(gate.get(&Key::from("restored")).await.unwrap().row.is_some());
        put(&gate, "written").await.unwrap();
        let there: i64 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM t WHERE k = 'written'", [], |row| row.get(0))
            .unwrap();
        assert_eq!(there, 1, "into the file that is there");
        gate.rebuild().await.unwrap();
        assert!(gate.get(&Key::from("restored")).await.unwrap().row.is_some());
        assert!(matches!(gate.state(), State::Ready { .. }));
    }

    /// The database's own name and this.
    fn beside(path: &Path, ending: &str) -> PathBuf {
        format!("{}{ending}", path.display()).into()
    }

    fn remove_what_is_beside(path: &Path) {
        for ending in ["-wal", "-shm"] {
            std::fs::remove_file(beside(path, ending)).unwrap();
        }
    }

    /// Another database of as many rows, and its bytes.
    fn make_fresh(path: &Path, mode: &str) -> Vec<u8> {
        drop(make(path, &format!("UPDATE t SET k = 'fresh-' || v; PRAGMA journal_mode = {mode}")));
        std::fs::read(path).unwrap()
    }

    async fn until(gate: &Gate, what: impl Fn() -> bool) {
        for _ in 0..4000 {
            if what() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it did not happen: {:?}", gate.stats());
    }

    fn count(database: &Connection, condition: &str) -> i64 {
        database.query_row(&format!("SELECT count(*) FROM t WHERE {condition}"), [], |row| row.get(0)).unwrap()
    }

    fn is_whole(database: &Connection) -> bool {
        database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap() == "ok"
    }

    /// What `mv new.db shop.db` does to a gate that writes: the log of the old file stays, and SQLite would apply it.
    #[tokio::test]
    async fn a_file_that_was_moved_beside_the_log_of_the_old_one_stays_as_it_is() {
        for mode in ["DELETE", "WAL"] {
            let folder = tempfile::tempdir().unwrap();
            let [path, new, old] = ["a.db", "new.db", "old.db"].map(|name| folder.path().join(name));
            drop(make(&path, ""));
            let whole = make_fresh(&new, mode);
            let (told, listener) = crate::listening::listen();
            let source = Arc::new(Sqlite::open(&path, "t", "k").unwrap());
            let gate = Gate::builder(source).writers(Writers::Sole).on_event(listener).build().unwrap();
            gate.start();
            until(&gate, || matches!(gate.state(), State::Ready { version: 1, .. })).await;
            for number in 0..5 {
                put(&gate, &format!("put-{number}")).await.unwrap();
            }
            assert!(std::fs::metadata(beside(&path, "-wal")).unwrap().len() > 0, "there is something to apply");
            std::fs::rename(&path, &old).unwrap();
            std::fs::rename(&new, &path).unwrap();
            until(&gate, || gate.state() == State::Stale).await;

            let refuses = |error: Error| {
                let said = error.to_string();
                assert_eq!(error.kind(), ErrorKind::Source, "{said}");
                for words in ["a.db is another file than before", "a.db-wal and ", "a.db-shm", "Remove "] {
                    assert!(said.contains(words), "{mode}: {words}: {said}");
                }
            };
            for key in ["fresh-7", "fresh-999", "key-7", "put-1", "absent"] {
                refuses(gate.get(&Key::from(key)).await.unwrap_err());
            }
            refuses(put(&gate, "fresh-7").await.unwrap_err());
            refuses(gate.delete(&Key::from("fresh-7")).await.unwrap_err());
            refuses(gate.rebuild().await.unwrap_err());
            let is_told = told.has(|event| match event {
                Event::RebuildFailed { rebuilt, still_ready: false } => {
                    rebuilt.failure.as_ref().is_some_and(|why| why.contains("a.db-wal"))
                }
                _ => false,
            });
            assert!(is_told, "{:?}", told.all());
            // What was written before is put where it belongs; only then could the log be thrown away without a loss.
            until(&gate, || std::fs::metadata(beside(&path, "-wal")).unwrap().len() == 0).await;
            // One look more at least.
            tokio::time::sleep(Duration::from_millis(1100)).await;
            let footing = gate.source().footing().unwrap();
            assert_eq!(footing.moves(), 1, "told once");
            assert!(footing.why().unwrap().contains("a.db-wal"));
            assert!(std::fs::read(&path).unwrap() == whole, "{mode}: not a byte of it is another one");

            // One of the two is not enough: the connections to the old file share its index.
            std::fs::remove_file(beside(&path, "-wal")).unwrap();
            let error = gate.get(&Key::from("fresh-7")).await.unwrap_err().to_string();
            assert!(error.contains("a.db-shm") && !error.contains("a.db-wal"), "{error}");
            std::fs::remove_file(beside(&path, "-shm")).unwrap();
            until(&gate, || matches!(gate.state(), State::Ready { version: 2.., .. })).await;
            for key in ["fresh-7", "fresh-999"] {
                assert!(gate.get(&Key::from(key)).await.unwrap().row.is_some());
            }
            for key in ["key-7", "put-1"] {
                assert!(gate.get(&Key::from(key)).await.unwrap().row.is_none(), "{key} is of the old file");
            }
            put(&gate, "after").await.unwrap();
            gate.stop().await;
            drop(gate);
            let there = Connection::open(&path).unwrap();
            assert!(is_whole(&there));
            assert_eq!(
                (count(&there, "k LIKE 'fresh-%'"), count(&there, "k = 'after'"), count(&there, "1")),
                (1000, 1, 1001)
            );
            let there = Connection::open(&old).unwrap();
            assert!(is_whole(&there));
            assert_eq!(
                (count(&there, "k LIKE 'key-%'"), count(&there, "k LIKE 'put-%'")),
                (1000, 5),
                "nothing is lost"
            );
        }
    }

    /// Each way to a connection, of each source that has some.
    #[tokio::test]
    async fn nothing_opens_a_file_beside_the_log_of_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let [path, new] = ["a.db", "new.db"].map(|name| folder.path().join(name));
        let tenants = "CREATE TABLE s (tenant TEXT, k TEXT, PRIMARY KEY (tenant, k)) WITHOUT ROWID;
                       INSERT INTO s SELECT 'shop', k FROM t; PRAGMA journal_mode = WAL;";
        let service = make(&path, tenants);
        make(&new, tenants).execute_batch("PRAGMA journal_mode = DELETE").unwrap();
        let whole = std::fs::read(&new).unwrap();
        Sqlite::install_feed(&path, "t", "k", &FeedPlan::default(), false).unwrap();
        let table = Sqlite::open(&path, "t", "k").unwrap();
        let query = SqliteQuery::open(&path, "SELECT k FROM t", KeyType::Text).unwrap();
        let shops = SqliteTenants::open(&path, "s", "k", "tenant").unwrap();
        let options = || FeedOptions { reader: "test".to_owned(), hold: Duration::from_secs(60) };
        let (feed, unread) = (table.feed(options()).unwrap(), table.feed(options()).unwrap());
        let (notes, key) = (crate::feeds::Notes::default(), Key::from("key-1"));
        feed.anchor().await.unwrap();
        service.execute_batch("INSERT INTO t VALUES ('by the service', 1)").unwrap();
        std::fs::rename(&new, &path).unwrap();

        let told = ["a.db-wal and ", "a.db-shm"];
        let rows = [(key.clone(), Bytes::from_static(b"{}"))];
        let shop = shops.of(&Key::from("shop"));
        for source in [&table as &dyn Source, &query, &*shop] {
            refused(source.get(&key).await, ErrorKind::Source, &told);
            refused(source.get_many(std::slice::from_ref(&key)).await, ErrorKind::Source, &told);
            refused(source.count().await, ErrorKind::Source, &told);
            refused(source.scan().await, ErrorKind::Source, &told);
            refused(source.look_around().await, ErrorKind::Source, &told);
            assert_eq!(source.footing().unwrap().moves(), 1);
        }
        for source in [&table as &dyn Source, &*shop] {
            refused(source.put_many(&rows).await, ErrorKind::Source, &told);
            refused(source.delete(&key).await, ErrorKind::Source, &told);
            refused(source.settle().await, ErrorKind::Source, &told);
            let unknown_column = [(key.clone(), Bytes::from_static(br#"{"new": 1}"#))];
            refused(source.check_rows(&unknown_column).await, ErrorKind::Source, &told);
        }
        refused(shops.census(10).await, ErrorKind::Source, &told);
        refused(shops.scan_all().await, ErrorKind::Source, &told);
        refused(shops.look_around().await, ErrorKind::Source, &told);
        refused(shops.settle().await, ErrorKind::Source, &told);
        for feed in [&feed, &unread] {
            refused(feed.check().await, ErrorKind::Source, &told);
            refused(feed.anchor().await, ErrorKind::Source, &told);
            refused(feed.leave().await, ErrorKind::Source, &told);
        }
        refused(feed.read(&notes).await, ErrorKind::Source, &told);
        table.stopped().await;
        shops.stopped().await;
        assert!(std::fs::read(&path).unwrap() == whole);
        drop((table, query, shop, shops, feed, unread, service));
        // Their threads end by themselves.
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(std::fs::read(&path).unwrap() == whole, "closing them changes nothing either");
    }

    /// The service goes over to WAL mode while the gate runs, and is not asked for anything in between.
    #[tokio::test]
    async fn a_log_that_came_later_is_known_to_be_of_the_old_file_too() {
        for is_looked_at in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let [path, new] = ["a.db", "new.db"].map(|name| folder.path().join(name));
            let service = make(&path, "");
            let whole = make_fresh(&new, "DELETE");
            let query = SqliteQuery::open(&path, "SELECT k FROM t", KeyType::Text).unwrap();
            let key = Key::from("key-1");
            assert!(query.get(&key).await.unwrap().is_some());
            service.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t VALUES ('by the service', 1)").unwrap();
            match is_looked_at {
                true => query.look_around().await.unwrap(),
                false => assert!(query.get(&key).await.unwrap().is_some()),
            }
            // Ended in good order: only the gate keeps the log.
            drop(service);
            assert!(beside(&path, "-wal").exists());
            std::fs::rename(&new, &path).unwrap();
            refused(query.get(&key).await, ErrorKind::Source, &["a.db-wal and ", "a.db-shm"]);
            assert!(std::fs::read(&path).unwrap() == whole);
            remove_what_is_beside(&path);
            assert!(query.get(&key).await.unwrap().is_none());
            assert!(query.get(&Key::from("fresh-7")).await.unwrap().is_some());
            assert_eq!(query.footing().unwrap().moves(), 2, "refused, and opened anew");
        }
    }

    #[tokio::test]
    async fn connections_to_a_file_that_is_gone_leave_the_log_of_the_new_one_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [path, new] = ["a.db", "new.db"].map(|name| folder.path().join(name));
        drop(make(&path, ""));
        make_fresh(&new, "WAL");
        let gate = gate(&path).unwrap();
        gate.rebuild().await.unwrap();
        put(&gate, "before").await.unwrap();
        let found = async |key: &str| gate.get(&Key::from(key)).await.unwrap().row.is_some();
        // Each of the four that read has the old log open.
        for _ in 0..8 {
            let keys: Vec<_> = (1..200).map(|number| Key::from(format!("key-{number}").as_str())).collect();
            futures_util::future::join_all(keys.iter().map(|key| gate.get(key))).await;
        }
        std::fs::rename(&new, &path).unwrap();
        assert!(gate.source().look_around().await.is_err());
        remove_what_is_beside(&path);
        // Somebody is faster than the gate, and has what he wrote in the log alone.
        let other = Connection::open(&path).unwrap();
        other.execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES ('by another', 1)").unwrap();
        let log = || {
            let found = std::fs::metadata(beside(&path, "-wal")).unwrap();
            (found.ino(), found.len())
        };
        let before = log();
        assert!(before.1 > 0);
        // Another log than the old one is no reason to wait.
        gate.source().look_around().await.unwrap();
        assert!(found("by another").await && found("fresh-7").await);
        for _ in 0..8 {
            let keys: Vec<_> = (1..200).map(|number| Key::from(format!("fresh-{number}").as_str())).collect();
            let all = futures_util::future::join_all(keys.iter().map(|key| gate.get(key))).await;
            assert!(all.into_iter().all(|answer| answer.unwrap().row.is_some()));
        }
        assert_eq!(log(), before, "the old ones were closed");
        put(&gate, "by the gate").await.unwrap();
        gate.rebuild().await.unwrap();
        assert!(found("by another").await && found("by the gate").await && !found("before").await);
        drop(gate);
        tokio::time::sleep(Duration::from_millis(300)).await;
        let after = log();
        assert!(after.0 == before.0 && after.1 > before.1, "{before:?} {after:?}");
        drop(other);
        let there = Connection::open(&path).unwrap();
        assert!(is_whole(&there));
        assert_eq!((count(&there, "1"), count(&there, "k LIKE 'by %'")), (1002, 2));
    }

    #[tokio::test]
    async fn a_gate_that_was_stopped_leaves_nothing_in_the_log() {
        for restarted_late in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let [path, new] = ["a.db", "new.db"].map(|name| folder.path().join(name));
            drop(make(&path, ""));
            make_fresh(&new, "DELETE");
            let first = gate(&path).unwrap();
            first.rebuild().await.unwrap();
            put(&first, "before").await.unwrap();
            if restarted_late {
                // Stopped only because of what it said.
                std::fs::rename(&new, &path).unwrap();
                assert!(put(&first, "too late").await.is_err());
            }
            first.stop().await;
            assert_eq!(std::fs::metadata(beside(&path, "-wal")).unwrap().len(), 0);
            drop(first);
            tokio::time::sleep(Duration::from_millis(300)).await;
            if !restarted_late {
                std::fs::rename(&new, &path).unwrap();
            }
            let second = gate(&path).unwrap();
            second.rebuild().await.unwrap();
            assert!(second.get(&Key::from("fresh-7")).await.unwrap().row.is_some());
            put(&second, "after").await.unwrap();
            let there = Connection::open(&path).unwrap();
            assert!(is_whole(&there));
            assert_eq!((count(&there, "1"), count(&there, "k IN ('before', 'too late')")), (1001, 0));
        }
    }

    #[tokio::test]
    async fn one_gate_writes_and_others_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(make(&path, ""));
        let (first, second) = (gate(&path).unwrap(), gate(&path).unwrap());
        first.rebuild().await.unwrap();
        second.start();
        until(&second, || matches!(second.state(), State::Ready { .. })).await;
        put(&first, "new").await.unwrap();
        let refused = put(&second, "newer").await.unwrap_err();
        assert!(refused.to_string().contains("another gate writes to"), "{refused}");
        assert_eq!(second.state(), State::Stale, "it does not see what the other one writes");
        assert!(second.get(&Key::from("new")).await.unwrap().row.is_some());
        assert!(second.rebuild().await.unwrap_err().to_string().contains("another gate"));
        drop(first);
        put(&second, "newer").await.unwrap();
        second.rebuild().await.unwrap();
        assert!(second.get(&Key::from("newer")).await.unwrap().row.is_some());
    }

    #[tokio::test]
    async fn a_scan_waits_for_a_write_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let other = make(&path, "PRAGMA journal_mode = WAL;");
        let gate = gate(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES ('under way', 1)").unwrap();
        let rebuilding = tokio::spawn({
            let gate = gate.clone();
            async move { gate.rebuild().await }
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        other.execute_batch("COMMIT").unwrap();
        rebuilding.await.unwrap().unwrap();
        assert!(gate.get(&Key::from("under way")).await.unwrap().row.is_some());
    }

    #[tokio::test]
    async fn triggers_that_write_keep_writes_away() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let trigger = "CREATE TRIGGER twin AFTER INSERT ON t WHEN NEW.v IS NULL BEGIN INSERT INTO t VALUES (NEW.k || '-twin', 1); END;";
        let other = make(&path, trigger);
        let gate = gate(&path).unwrap();
        gate.rebuild().await.unwrap();
        let refused = put(&gate, "one").await.unwrap_err();
        assert!(refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("trigger twin"), "{refused}");
        assert_eq!(gate.source().count().await.unwrap(), 1000);
        other.execute_batch("DROP TRIGGER twin").unwrap();
        put(&gate, "one").await.unwrap();
        // A delete that leaves another row behind.
        let ghost = "CREATE TRIGGER ghost AFTER DELETE ON t BEGIN INSERT INTO t VALUES (OLD.k || '-deleted', 1); END;";
        other.execute_batch(ghost).unwrap();
        let refused = gate.delete(&Key::from("one")).await.unwrap_err();
        assert!(refused.kind() == ErrorKind::Unsupported && refused.to_string().contains("trigger ghost"), "{refused}");
        assert_eq!(gate.source().count().await.unwrap(), 1001, "nothing was done");
        other.execute_batch("DROP TRIGGER ghost").unwrap();
        assert!(gate.delete(&Key::from("one")).await.unwrap());
    }
}
