//! The same operations on a gate and on a plain database beside it, from a seed: every answer must be the same, and so must be
//! the tables at the end. Workers have keys of their own, so that it is known what each must be told, and share the gate, its
//! filter, its caches and its rebuilds; they also ask for each other's keys, to be in the way. What is planted is found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate_gate::caches::{Cache, LocalCache};
use bloomgate_gate::sources::{Footing, KeyBatch, Scan, Source};
use bloomgate_gate::{Answer, Gate, Key, KeyType, Outcome, Pending, Result, Writers};
use bytes::Bytes;

use crate::tenant_schedules::Random;

const WORKERS: u64 = 6;
/// Keys of one worker.
const KEYS: u64 = 80;

/// How many operations: BLOOMGATE_OPERATIONS asks for more, as the soak does.
fn operations(usual: u64) -> u64 {
    std::env::var("BLOOMGATE_OPERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

fn name(worker: u64, number: u64) -> String {
    format!("key {worker}/{number}")
}

fn row(value: i64) -> Bytes {
    format!("{{\"v\":{value}}}").into()
}

/// The value in the row of an answer.
fn value(answer: &Answer) -> Option<i64> {
    let row: serde_json::Value = serde_json::from_slice(answer.row.as_ref()?).unwrap();
    Some(row["v"].as_i64().unwrap())
}

/// A plain database with a table `t` of the columns `k` and `v`.
enum Plain {
    #[cfg(feature = "sqlite")]
    Sqlite(Mutex<rusqlite::Connection>),
    #[cfg(feature = "postgres")]
    Postgres(tokio_postgres::Client),
}

impl Plain {
    async fn get(&self, key: &str) -> Option<i64> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(database) => {
                let database = database.lock().unwrap();
                let mut select = database.prepare_cached("SELECT v FROM t WHERE k = ?1").unwrap();
                let mut rows = select.query([key]).unwrap();
                rows.next().unwrap().map(|row| row.get(0).unwrap())
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => {
                client.query_opt("SELECT v FROM t WHERE k = $1", &[&key]).await.unwrap().map(|row| row.get(0))
            }
        }
    }

    async fn put(&self, key: &str, value: i64) {
        const PUT: &str = "INSERT INTO t VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = excluded.v";
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(database) => {
                database.lock().unwrap().execute(PUT, (key, value)).unwrap();
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => {
                client.execute(PUT, &[&key, &value]).await.unwrap();
            }
        }
    }

    async fn delete(&self, key: &str) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(database) => {
                database.lock().unwrap().execute("DELETE FROM t WHERE k = ?1", [key]).unwrap() == 1
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => client.execute("DELETE FROM t WHERE k = $1", &[&key]).await.unwrap() == 1,
        }
    }

    async fn all(&self) -> BTreeMap<String, i64> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(database) => {
                let database = database.lock().unwrap();
                let mut select = database.prepare("SELECT k, v FROM t").unwrap();
                let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.map(rusqlite::Result::unwrap).collect()
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(client) => {
                let rows = client.query("SELECT k, v FROM t", &[]).await.unwrap();
                rows.iter().map(|row| (row.get(0), row.get(1))).collect()
            }
        }
    }
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// One write in fifty goes to the database, past a gate that was told that nobody does that.
    PastTheGate,
    /// Every scan leaves out one key in twenty.
    ShortScan,
    /// The cache keeps what it is told to forget.
    KeepingCache,
}

/// A source with or without its fault.
struct Faulty {
    source: Arc<dyn Source>,
    fault: Fault,
}

impl Source for Faulty {
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
        if self.fault != Fault::ShortScan {
            return self.source.scan();
        }
        Box::pin(async move { Ok(Box::new(ShortScan(self.source.scan().await?)) as Box<dyn Scan>) })
    }

    fn footing(&self) -> Option<&Footing> {
        self.source.footing()
    }
}

struct ShortScan(Box<dyn Scan>);

impl Scan for ShortScan {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            let mut whole = KeyBatch::default();
            let more = self.0.next(&mut whole).await?;
            batch.clear();
            whole.iter().enumerate().filter(|(at, _)| at % 20 != 7).for_each(|(_, key)| batch.push(key));
            Ok(more)
        })
    }
}

struct KeepingCache(LocalCache);

impl Cache for KeepingCache {
    fn describe(&self) -> String {
        self.0.describe()
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        self.0.get(key)
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        self.0.get_many(keys)
    }

    fn store<'a>(&'a self, key: &'a Key, row: Bytes, keep: Duration) -> Pending<'a, Result<()>> {
        self.0.store(key, row, keep)
    }

    fn forget<'a>(&'a self, _key: &'a Key) -> Pending<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn leave_behind<'a>(&'a self) -> Pending<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The databases of one run: the gate's by a source and by a connection past it, and the plain one.
struct Stage {
    source: Arc<dyn Source>,
    past: Arc<Plain>,
    plain: Arc<Plain>,
}

/// What was met: a test that never meets what it is about proves nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Met {
    operations: u64,
    compared: u64,
    filter_no: u64,
    remembered: u64,
    cached: u64,
    rebuilds: u64,
}

/// One worker, its keys and what it meets.
struct Worker {
    number: u64,
    seed: u64,
    random: Random,
    gate: Gate,
    past: Arc<Plain>,
    plain: Arc<Plain>,
    fault: Fault,
    met: Met,
}

impl Worker {
    fn key(&self, name: &str) -> Key {
        self.gate.parse_key(name).unwrap()
    }

    fn own(&mut self) -> String {
        name(self.number, self.random.below(KEYS))
    }

    fn any_value(&mut self) -> i64 {
        self.random.below(1 << 40) as i64
    }

    /// Holds what the gate said against what the database says.
    fn compare<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        gate: &T,
        plain: &T,
    ) -> std::result::Result<(), String> {
        self.met.compared += 1;
        match gate == plain {
            true => Ok(()),
            false => Err(format!("seed {}, {what}: the gate says {gate:?}, the database {plain:?}", self.seed)),
        }
    }

    fn saw(&mut self, answer: &Answer) {
        self.met.filter_no += u64::from(answer.outcome == Outcome::AbsentByFilter);
        self.met.remembered += u64::from(answer.outcome == Outcome::NegativeCached);
        self.met.cached += u64::from(answer.outcome == Outcome::Cache);
    }

    async fn get(&mut self, name: &str) -> std::result::Result<(), String> {
        let key = self.key(name);
        let answer = match self.gate.look(&key) {
            Some(answer) => answer,
            None => self.gate.get(&key).await.unwrap(),
        };
        self.saw(&answer);
        let plain = self.plain.get(name).await;
        self.compare(&format!("get {name} ({})", answer.outcome), &value(&answer), &plain)
    }

    async fn get_many(&mut self) -> std::result::Result<(), String> {
        // Some twice.
        let names: Vec<String> = (0..=self.random.below(7)).map(|_| self.own()).collect();
        let keys: Vec<Key> = names.iter().map(|name| self.key(name)).collect();
        let answers = self.gate.get_many(&keys).await.unwrap();
        let mut plain = Vec::new();
        for name in &names {
            plain.push(self.plain.get(name).await);
        }
        answers.iter().for_each(|answer| self.saw(answer));
        let values: Vec<Option<i64>> = answers.iter().map(value).collect();
        self.compare(&format!("get_many {names:?}"), &values, &plain)
    }

    async fn put_many(&mut self, count: u64) {
        let rows: BTreeMap<String, i64> = (0..count).map(|_| (self.own(), self.any_value())).collect();
        if self.fault == Fault::PastTheGate && self.random.below(50) == 0 {
            for (name, value) in &rows {
                self.past.put(name, *value).await;
            }
        } else {
            let given: Vec<(Key, Bytes)> = rows.iter().map(|(name, value)| (self.key(name), row(*value))).collect();
            match <[(Key, Bytes); 1]>::try_from(given) {
                Ok([(key, row)]) => self.gate.put(key, row).await.unwrap(),
                Err(given) => self.gate.put_many(given).await.unwrap(),
            }
        }
        for (name, value) in &rows {
            self.plain.put(name, *value).await;
        }
    }

    async fn step(&mut self) -> std::result::Result<(), String> {
        self.met.operations += 1;
        match self.random.below(1000) {
            0..430 => {
                let name = self.own();
                self.get(&name).await
            }
            430..500 => {
                let name = format!("never {}", self.random.below(1000));
                self.get(&name).await
            }
            500..600 => self.get_many().await,
            600..650 => {
                // Another's: it may be in the middle of anything, and so may this be in its way.
                let name = name(self.random.below(WORKERS), self.random.below(KEYS));
                self.gate.get(&self.key(&name)).await.unwrap();
                Ok(())
            }
            650..790 => {
                self.put_many(1).await;
                Ok(())
            }
            790..830 => {
                let count = 2 + self.random.below(6);
                self.put_many(count).await;
                Ok(())
            }
            830..996 => {
                let name = self.own();
                let gone = self.gate.delete(&self.key(&name)).await.unwrap();
                let plain = self.plain.delete(&name).await;
                self.compare(&format!("delete {name}"), &gone, &plain)
            }
            _ => {
                self.gate.rebuild_accepting_fewer().await.unwrap();
                self.met.rebuilds += 1;
                Ok(())
            }
        }
    }
}

/// Runs so many operations from a seed. What was met, or the first answer that was not the database's.
async fn run(stage: Stage, seed: u64, operations: u64, fault: Fault) -> std::result::Result<Met, String> {
    // Half of the keys are there before the gate.
    for worker in 0..WORKERS {
        for number in (0..KEYS).step_by(2) {
            stage.past.put(&name(worker, number), number as i64).await;
            stage.plain.put(&name(worker, number), number as i64).await;
        }
    }
    let cache = LocalCache::new(1 << 20).unwrap();
    let cache: Arc<dyn Cache> = match fault {
        Fault::KeepingCache => Arc::new(KeepingCache(cache)),
        _ => Arc::new(cache),
    };
    let builder = match fault {
        Fault::None => Gate::builder(stage.source.clone()).audit_share(0.1),
        // Audits find some of these too, and would turn the filter off before it has lied.
        _ => Gate::builder(Arc::new(Faulty { source: stage.source.clone(), fault })).audit_share(0.0),
    };
    // A rate so high that absent keys often pass: the negative cache has work to do. And times so short that entries end.
    let gate = builder
        .writers(Writers::Sole)
        .rate(0.4)
        .least_keys(WORKERS * KEYS)
        .negatives(1000, Duration::from_millis(20))
        .cache(cache)
        .rows_for(Duration::from_millis(40))
        .rebuild_every(None)
        .build()
        .unwrap();
    gate.start();
    gate.rebuild().await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..WORKERS)
        .map(|number| {
            let random = Random(seed.wrapping_mul(1000) + number);
            let (past, plain, stop) = (stage.past.clone(), stage.plain.clone(), stop.clone());
            let gate = gate.clone();
            let mut worker = Worker { number, seed, random, gate, past, plain, fault, met: Met::default() };
            tokio::spawn(async move {
                while worker.met.operations < operations / WORKERS && !stop.load(SeqCst) {
                    if let Err(wrong) = worker.step().await {
                        stop.store(true, SeqCst);
                        return Err(wrong);
                    }
                }
                Ok(worker.met)
            })
        })
        .collect();
    let (mut all, mut wrong) = (Met::default(), None);
    for task in tasks {
        match task.await.unwrap_or_else(|error| panic!("seed {seed}: {error}")) {
            Ok(met) => {
                all.operations += met.operations;
                all.compared += met.compared;
                all.filter_no += met.filter_no;
                all.remembered += met.remembered;
                all.cached += met.cached;
                all.rebuilds += met.rebuilds;
            }
            Err(one) => wrong = Some(one),
        }
    }
    let audits = gate.stats().audit.wrong;
    gate.stop().await;
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    assert_eq!(audits, 0, "seed {seed}");
    // What is in the one is in the other.
    let (gated, plain) = (stage.past.all().await, stage.plain.all().await);
    assert!(gated == plain, "seed {seed}: {} and {} rows", gated.len(), plain.len());
    Ok(all)
}

fn assert_met(met: Met, operations: u64) {
    let share = |count: u64| count as f64 / operations as f64;
    assert!(share(met.operations) > 0.99 && share(met.compared) > 0.6, "{met:?}");
    assert!(share(met.filter_no) > 0.05 && met.remembered > 0 && share(met.cached) > 0.01, "{met:?}");
    assert!(share(met.rebuilds) > 0.001, "{met:?}");
}

#[cfg(feature = "sqlite")]
fn sqlite_stage(folder: &tempfile::TempDir) -> Stage {
    const TABLE: &str = "CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER) WITHOUT ROWID";
    let path = folder.path().join("gated.db");
    let past = rusqlite::Connection::open(&path).unwrap();
    past.busy_timeout(Duration::from_secs(20)).unwrap();
    past.execute_batch(&format!("PRAGMA journal_mode = WAL; {TABLE}")).unwrap();
    let plain = rusqlite::Connection::open(folder.path().join("plain.db")).unwrap();
    plain.execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; {TABLE}")).unwrap();
    let source = bloomgate_gate::sources::Sqlite::open(&path, "t", "k").unwrap();
    Stage {
        source: Arc::new(source),
        past: Arc::new(Plain::Sqlite(Mutex::new(past))),
        plain: Arc::new(Plain::Sqlite(Mutex::new(plain))),
    }
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gate_before_sqlite_answers_as_sqlite_does() {
    let (folder, operations) = (tempfile::tempdir().unwrap(), operations(20_000));
    let met = run(sqlite_stage(&folder), 1, operations, Fault::None).await.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{met:?}");
    assert_met(met, operations);
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_gate_before_postgres_answers_as_postgres_does() {
    const TABLE: &str = "CREATE TABLE t (k text PRIMARY KEY, v bigint)";
    let server = crate::postgres_server::Server::shared();
    let (gated, past) = server.database(TABLE).await;
    let (_, plain) = server.database(TABLE).await;
    let source = bloomgate_gate::sources::Postgres::connect(&server.url(&gated), "t", "k", 4).await.unwrap();
    let (past, plain) = (Arc::new(Plain::Postgres(past)), Arc::new(Plain::Postgres(plain)));
    let operations = operations(6_000);
    let met = run(Stage { source: Arc::new(source), past, plain }, 2, operations, Fault::None).await;
    let met = met.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{met:?}");
    assert_met(met, operations);
}

/// A comparison that finds nothing wrong in a gate that is broken would prove nothing of one that is not.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn faults_that_are_planted_are_found() {
    let found_by = [
        // A new key is not known, of an old one the cache has another row.
        (Fault::PastTheGate, &["absent-by-filter", "negative-cached", "(cache)"][..]),
        (Fault::ShortScan, &["absent-by-filter"]),
        (Fault::KeepingCache, &["(cache)"]),
    ];
    for (fault, said) in found_by {
        let folder = tempfile::tempdir().unwrap();
        let wrong = run(sqlite_stage(&folder), 3, 60_000, fault).await;
        let wrong = wrong.expect_err(&format!("{fault:?} was not found"));
        assert!(wrong.contains("get_many") || said.iter().any(|said| wrong.contains(said)), "{fault:?}: {wrong}");
    }
}
