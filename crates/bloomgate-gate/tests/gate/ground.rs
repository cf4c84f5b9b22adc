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
    use bloomgate_gate::sources::Sqlite;
    use bloomgate_gate::{Error, ErrorKind};
    use bytes::Bytes;
    use rusqlite::Connection;
    use std::path::Path;

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

    #[tokio::test]
    async fn one_gate_writes_and_others_know() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        drop(make(&path, ""));
        let (first, second) = (gate(&path).unwrap(), gate(&path).unwrap());
        first.rebuild().await.unwrap();
        second.rebuild().await.unwrap();
        put(&first, "new").await.unwrap();
        let refused = put(&second, "newer").await.unwrap_err();
        assert!(refused.to_string().contains("another gate writes to"), "{refused}");
        second.source().look_around().await.unwrap();
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
    }
}
