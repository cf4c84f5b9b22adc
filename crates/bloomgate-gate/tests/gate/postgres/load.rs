//! No write is missing from the filter that takes over, on a real server under load: 200,000 rows are scanned again and again
//! while four clients write, and every key that was acknowledged is asked for at once and after each swap.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloomgate_gate::sources::{Footing, KeyBatch, Postgres, Scan, Source};
use bloomgate_gate::{Gate, Key, KeyType, Pending, Result, Writers};
use bytes::Bytes;

use crate::postgres_server::Server;

const ROWS: u64 = 200_000;
const WRITERS: u64 = 4;
/// How long it goes on at least, and at most where the machine is too busy for what has to be met.
const USUALLY: Duration = Duration::from_secs(8);
const AT_MOST: Duration = Duration::from_secs(90);

/// A source whose scans are, if `late`, of the moment of the scan before.
struct Late {
    source: Postgres,
    late: bool,
    before: Mutex<Option<Vec<KeyBatch>>>,
}

/// Batches that were read before.
struct Kept(std::vec::IntoIter<KeyBatch>);

impl Scan for Kept {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        let next = self.0.next();
        let is_one = next.is_some();
        *batch = next.unwrap_or_default();
        Box::pin(std::future::ready(Ok(is_one)))
    }
}

impl Source for Late {
    fn describe(&self) -> String {
        self.source.describe()
    }

    fn key_type(&self) -> KeyType {
        self.source.key_type()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        self.source.get(key)
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.source.get_many(keys)
    }

    fn put_many<'a>(&'a self, rows: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        self.source.put_many(rows)
    }

    fn delete<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<bool>> {
        self.source.delete(key)
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        self.source.count()
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        if !self.late {
            return self.source.scan();
        }
        Box::pin(async move {
            let (mut scan, mut batch, mut now) = (self.source.scan().await?, KeyBatch::default(), Vec::new());
            while scan.next(&mut batch).await? {
                now.push(batch.clone());
            }
            let before = self.before.lock().unwrap().replace(now.clone());
            Ok(Box::new(Kept(before.unwrap_or(now).into_iter())) as Box<dyn Scan>)
        })
    }

    fn footing(&self) -> Option<&Footing> {
        self.source.footing()
    }

    fn claim(&self) -> Pending<'_, Result<()>> {
        self.source.claim()
    }

    fn settle(&self) -> Pending<'_, Result<()>> {
        self.source.settle()
    }
}

/// What the writers and whoever rebuilds share.
struct Shared {
    gate: Gate,
    /// Keys that were acknowledged.
    written: Mutex<Vec<Key>>,
    /// Of those, the ones that were written while a rebuild was under way.
    meanwhile: AtomicU64,
    stop: AtomicBool,
    begun: Instant,
}

impl Shared {
    async fn write(&self, writer: u64) -> std::result::Result<(), String> {
        for number in 0.. {
            if self.stop.load(SeqCst) {
                break;
            }
            let key = Key::from(format!("new-{writer}-{number}").as_str());
            self.gate.put(key.clone(), Bytes::from_static(b"{\"v\": 1}")).await.unwrap();
            if self.gate.brief_stats().rebuild.running.is_some() {
                self.meanwhile.fetch_add(1, SeqCst);
            }
            let answer = self.gate.get(&key).await.unwrap();
            if answer.row.is_none() {
                return Err(format!("new-{writer}-{number} was answered with {} at once", answer.outcome));
            }
            self.written.lock().unwrap().push(key);
        }
        Ok(())
    }

    /// Rebuilds again and again, and asks for everything after each swap; how often.
    async fn rebuild(&self) -> std::result::Result<u64, String> {
        let mut rebuilds = 0;
        loop {
            let rebuilt = self.gate.rebuild().await.unwrap();
            rebuilds += 1;
            assert!(rebuilt.keys >= ROWS, "{rebuilt:?}");
            let written = self.written.lock().unwrap().clone();
            for keys in written.chunks(1_000) {
                let answers = self.gate.get_many(keys).await.unwrap();
                if let Some((key, answer)) = std::iter::zip(keys, &answers).find(|(_, answer)| answer.row.is_none()) {
                    let key = KeyType::Text.show(key);
                    return Err(format!("{key} was answered with {} after {rebuilds} rebuilds", answer.outcome));
                }
            }
            let has_met = rebuilds >= 4 && written.len() >= 400 && self.meanwhile.load(SeqCst) >= 100;
            if has_met && self.begun.elapsed() > USUALLY {
                return Ok(rebuilds);
            }
            assert!(
                self.begun.elapsed() < AT_MOST,
                "{rebuilds} rebuilds, {} writes, {:?} while one was under way: too few to prove anything",
                written.len(),
                self.meanwhile
            );
        }
    }
}

/// Rebuilds and writes; the first key that was answered wrongly.
async fn run(late: bool) -> std::result::Result<(), String> {
    let server = Server::shared();
    let table = format!(
        "CREATE TABLE t (k text PRIMARY KEY, v int);
         INSERT INTO t SELECT 'key-' || i, i FROM generate_series(1, {ROWS}) i; ANALYZE t;"
    );
    let (database, _) = server.database(&table).await;
    let source = Postgres::connect(&server.url(&database), "t", "k", 8).await.unwrap();
    let source = Late { source, late, before: Mutex::default() };
    // Nobody else looks for wrong answers here.
    let builder = Gate::builder(Arc::new(source)).writers(Writers::Sole).audit_share(0.0).rebuild_every(None);
    let gate = builder.build().unwrap();
    gate.rebuild().await.unwrap();
    let (written, meanwhile, stop) = (Mutex::default(), AtomicU64::new(0), AtomicBool::new(false));
    let shared = Arc::new(Shared { gate, written, meanwhile, stop, begun: Instant::now() });
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let shared = shared.clone();
            tokio::spawn(async move { shared.write(writer).await })
        })
        .collect();
    let rebuilt = shared.rebuild().await;
    shared.stop.store(true, SeqCst);
    let mut said = rebuilt.map(drop);
    for writer in writers {
        said = said.and(writer.await.unwrap());
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_write_is_missing_after_any_swap_under_load() {
    run(false).await.unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// What asks for every key finds nothing above; here it must.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn scans_of_an_earlier_moment_are_found_under_load() {
    let wrong = run(true).await.expect_err("a scan that is late loses writes");
    assert!(wrong.contains("absent-by-filter"), "{wrong}");
}
