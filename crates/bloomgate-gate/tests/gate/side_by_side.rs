//! Several gates before one table, each with its own eyes: those that only read stand side by side, and where one begins to
//! write, no other one says no to what it has written.

use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::sources::Source;
use bloomgate_gate::{Error, Gate, Outcome, State, Writers};
use bytes::Bytes;

fn gate(source: impl Source) -> Gate {
    Gate::builder(Arc::new(source)).writers(Writers::Sole).build().unwrap()
}

async fn put(gate: &Gate, key: &str) -> Result<(), Error> {
    gate.put(key.into(), Bytes::from_static(b"{}")).await
}

async fn outcome(gate: &Gate, key: &str) -> Outcome {
    gate.get(&key.into()).await.unwrap().outcome
}

async fn until(gate: &Gate, state: &str) {
    for _ in 0..4000 {
        if gate.state().name() == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not {state}: {:?}", gate.stats().rebuild);
}

/// Gates that run, and one that comes and writes at once, at another point between two looks each time.
async fn nobody_says_no_to_what_another_one_wrote<S: Source>(mut open: impl AsyncFnMut() -> S) {
    for round in 0..5u32 {
        let readers = [gate(open().await), gate(open().await)];
        for reader in &readers {
            reader.start();
            until(reader, "ready").await;
        }
        tokio::time::sleep(Duration::from_millis(230) * round).await;
        let writer = gate(open().await);
        writer.expect_writes();
        writer.start();
        for number in 0..40 {
            let key = format!("round-{round}-{number}");
            for reader in &readers {
                assert_ne!(outcome(reader, &key).await, Outcome::NegativeCached, "{key}");
            }
            put(&writer, &key).await.unwrap();
            for reader in &readers {
                let answer = reader.get(&key.as_str().into()).await.unwrap();
                assert!(answer.row.is_some(), "{key}: {:?}, {:?}", answer.outcome, reader.state());
            }
        }
        for reader in &readers {
            assert_eq!(reader.state(), State::Stale, "it does not see what the other one writes");
        }
        until(&writer, "ready").await;
        for reader in readers {
            let refused = put(&reader, "past the writer").await.unwrap_err().to_string();
            assert!(refused.contains("another gate writes to"), "{refused}");
            reader.stop().await;
        }
        writer.stop().await;
    }
}

async fn many_say_no_side_by_side<S: Source>(mut open: impl AsyncFnMut() -> S) {
    let gates = [gate(open().await), gate(open().await), gate(open().await)];
    for gate in &gates {
        gate.start();
        until(gate, "ready").await;
    }
    // Each looks at the others.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    for gate in &gates {
        assert!(matches!(gate.state(), State::Ready { version: 1, .. }), "{:?}", gate.state());
        assert_eq!(outcome(gate, "absent").await, Outcome::AbsentByFilter);
    }
    // One of them begins to write when the others are gone, though it said no until then.
    let [first, ..] = gates;
    for number in 0..400 {
        match put(&first, "written").await {
            Ok(()) => break,
            Err(error) => assert!(number < 399, "{error}"),
        }
    }
    assert!(matches!(first.state(), State::Ready { version: 1, .. }), "{:?}", first.state());
    assert!(first.get(&"written".into()).await.unwrap().row.is_some());
}

/// It was never started, so that it does not look.
async fn nothing_is_written_past_a_gate_that_does_not_let_go<S: Source>(mut open: impl AsyncFnMut() -> S) {
    let (reader, writer) = (gate(open().await), gate(open().await));
    reader.rebuild().await.unwrap();
    for key in ["one", "two"] {
        let refused = put(&writer, key).await.unwrap_err().to_string();
        for words in ["says no to what is not in", "has not let go", "Stop that gate"] {
            assert!(refused.contains(words), "{words}: {refused}");
        }
        assert_eq!(outcome(&reader, key).await, Outcome::AbsentByFilter);
        assert!(writer.get(&key.into()).await.unwrap().row.is_none(), "the no was right");
    }
    // It does not come to say no anew, either.
    assert!(reader.rebuild().await.unwrap_err().to_string().contains("another gate writes to"));
    assert_eq!(reader.state(), State::Stale);
    put(&writer, "one").await.unwrap();
    assert!(reader.get(&"one".into()).await.unwrap().row.is_some());
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use bloomgate_gate::sources::Sqlite;

    fn table() -> (tempfile::TempDir, impl AsyncFnMut() -> Sqlite) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let shop = "CREATE TABLE t (k TEXT PRIMARY KEY, v INT) WITHOUT ROWID; INSERT INTO t VALUES ('key', 1)";
        rusqlite::Connection::open(&path).unwrap().execute_batch(shop).unwrap();
        (folder, async move || Sqlite::open(&path, "t", "k").unwrap())
    }

    #[tokio::test]
    async fn no_gate_says_no_to_what_another_one_wrote() {
        let (_folder, open) = table();
        nobody_says_no_to_what_another_one_wrote(open).await;
    }

    #[tokio::test]
    async fn gates_say_no_side_by_side() {
        let (_folder, open) = table();
        many_say_no_side_by_side(open).await;
    }

    #[tokio::test]
    async fn a_gate_that_does_not_let_go_is_not_written_past() {
        let (_folder, open) = table();
        nothing_is_written_past_a_gate_that_does_not_let_go(open).await;
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use crate::postgres_server::Server;
    use bloomgate_gate::sources::Postgres;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    const TABLE: &str = "CREATE TABLE t (k text PRIMARY KEY, v int); INSERT INTO t VALUES ('key', 1)";

    async fn table(server: &Server) -> impl AsyncFnMut() -> Postgres {
        let (database, _) = server.database(TABLE).await;
        let url = server.url(&database);
        async move || Postgres::connect(&url, "t", "k", 2).await.unwrap()
    }

    #[tokio::test]
    async fn no_gate_says_no_to_what_another_one_wrote() {
        let server = Server::shared();
        nobody_says_no_to_what_another_one_wrote(table(&server).await).await;
    }

    #[tokio::test]
    async fn gates_say_no_side_by_side() {
        let server = Server::shared();
        many_say_no_side_by_side(table(&server).await).await;
    }

    #[tokio::test]
    async fn a_gate_that_does_not_let_go_is_not_written_past() {
        let server = Server::shared();
        nothing_is_written_past_a_gate_that_does_not_let_go(table(&server).await).await;
    }

    /// Passes bytes on, until the line is cut: then neither end hears of it.
    async fn line(to: String, is_cut: Arc<AtomicBool>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                let Ok(to) = TcpStream::connect(&to).await else { continue };
                let ((from_read, from_write), (to_read, to_write)) = (from.into_split(), to.into_split());
                for (mut read, mut write) in [(from_read, to_write), (to_read, from_write)] {
                    let is_cut = is_cut.clone();
                    tokio::spawn(async move {
                        let mut piece = [0; 4096];
                        while let Ok(length @ 1..) = read.read(&mut piece).await {
                            if is_cut.load(SeqCst) || write.write_all(&piece[..length]).await.is_err() {
                                break;
                            }
                        }
                        if is_cut.load(SeqCst) {
                            std::future::pending::<()>().await;
                        }
                        drop((read, write));
                    });
                }
            }
        });
        port
    }

    #[tokio::test]
    async fn a_gate_that_is_cut_off_is_waited_for_and_stops_saying_no() {
        let server = Server::shared();
        let (database, other) = server.database(TABLE).await;
        let address = server.tcp_url(&database);
        let to = address.rsplit_once('/').unwrap().0.rsplit_once('@').unwrap().1.to_owned();
        let is_cut = Arc::new(AtomicBool::new(false));
        let port = line(to, is_cut.clone()).await;
        let url = format!("postgres://tester@127.0.0.1:{port}/{database}");
        let reader = gate(Postgres::connect(&url, "t", "k", 2).await.unwrap());
        reader.start();
        until(&reader, "ready").await;
        is_cut.store(true, SeqCst);
        let writer = gate(Postgres::connect(&address, "t", "k", 2).await.unwrap());
        let refused = put(&writer, "one").await.unwrap_err().to_string();
        assert!(refused.contains("has not let go") && refused.contains("pg_terminate_backend"), "{refused}");
        until(&reader, "stale").await;
        assert!(put(&writer, "one").await.is_err(), "the server does not know yet that it is gone");
        let holders =
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock'
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        assert_eq!(other.query(holders, &[]).await.unwrap().len(), 1);
        put(&writer, "one").await.unwrap();
        assert_eq!(reader.state(), State::Stale);
    }
}
