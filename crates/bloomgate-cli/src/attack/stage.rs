//! The shop that is attacked, set up and taken down: the database with its catalogue, the caches, the server of filters
//! behind the Redis protocol, and the fronts made of them.

#[cfg(feature = "redis")]
use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::caches::Cache;
use bloomgate_gate::caches::local::LocalCache;
#[cfg(feature = "redis")]
use bloomgate_gate::caches::redis::RedisCache;
#[cfg(feature = "redis")]
use bloomgate_gate::filters::resp::RespFilters;
#[cfg(feature = "postgres")]
use bloomgate_gate::sources::Postgres;
use bloomgate_gate::sources::{Source, Sqlite};
use bloomgate_gate::{Gate, Key, Writers};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::args::Shop;
use super::catalogue;
use super::cpu::Reading;
use super::fronts::{Front, KEEP, Kind, Plain};
use super::mix::{Mix, Subject};
use super::watch::Watched;
use crate::failure::Failure;

/// Memory for the rows of a cache in the process: enough that no front is slowed by forgetting.
const CACHE_BYTES: u64 = 256 << 20;
/// The products that are in the cache before the attack, the most popular ones.
const WARM: u64 = 100_000;
/// Rows that are read at once to warm a cache.
const BATCH: usize = 1000;
/// How long a cache or a filter behind a network has to answer: nothing is to be left out because this machine is busy.
#[cfg(feature = "redis")]
const DEADLINE: Duration = Duration::from_secs(5);
/// Connections to PostgreSQL.
#[cfg(feature = "postgres")]
const CONNECTIONS: usize = 8;

/// Where the products are.
enum Database {
    Sqlite {
        path: PathBuf,
        _folder: tempfile::TempDir,
    },
    #[cfg(feature = "postgres")]
    Postgres {
        table: Box<catalogue::PostgresTable>,
        address: String,
    },
}

/// Everything that is needed to build fronts.
pub struct Stage {
    database: Database,
    shop: Shop,
    mix: Mix,
    /// The server of filters, once one is needed.
    resp: Option<String>,
    /// Rows that are in the caches before the attack.
    warm: Vec<(Key, Bytes)>,
    /// Whether something of ours is in a cache of others, and in a server of filters of others.
    #[cfg(feature = "redis")]
    left: (Cell<bool>, Cell<bool>),
    /// Whether the user has seen enough. Listened for all the time: between two things that are run nobody would hear it.
    interrupted: watch::Receiver<bool>,
    /// Last, so that it ends last.
    pub runtime: Runtime,
}

/// A front with what is counted behind it.
pub struct Scene {
    pub front: Arc<Front>,
    pub source: Arc<Watched<dyn Source>>,
    pub cache: Option<Arc<Watched<dyn Cache>>>,
}

/// How a gate is made.
#[derive(Clone, Copy, Debug)]
pub struct GateWish {
    pub rate: f64,
    /// Whether it remembers the database's "no".
    pub remembers: bool,
    /// Whether it rebuilds and audits by itself, as it would in a service.
    pub lives: bool,
}

impl Stage {
    /// Builds the catalogue.
    pub fn build(shop: &Shop, mix: Mix, quiet: bool) -> Result<Self, Failure> {
        let database = match shop.source.as_str() {
            "sqlite" => {
                let folder = tempfile::Builder::new()
                    .prefix("bloomgate-attack-")
                    .tempdir()
                    .map_err(|error| Failure::Message(format!("no temporary folder for the catalogue: {error}")))?;
                let path = folder.path().join("catalogue.db");
                catalogue::build_sqlite(&path, &mix, quiet)?;
                Database::Sqlite { path, _folder: folder }
            }
            address if address.starts_with("postgres://") || address.starts_with("postgresql://") => {
                Self::postgres(address, &mix, quiet)?
            }
            other => {
                return Err(Failure::Message(format!(
                    "{other:?} is no database to attack: write sqlite, or postgres://USER@HOST/DATABASE"
                )));
            }
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::Message(format!("no runtime: {error}")))?;
        let (interrupt, interrupted) = watch::channel(false);
        runtime.spawn(async move {
            let _ = tokio::signal::ctrl_c().await;
            interrupt.send_replace(true);
        });
        Ok(Self {
            database,
            shop: shop.clone(),
            mix,
            resp: shop.resp.clone(),
            warm: Vec::new(),
            #[cfg(feature = "redis")]
            left: Default::default(),
            interrupted,
            runtime,
        })
    }

    #[cfg(feature = "postgres")]
    fn postgres(given: &str, mix: &Mix, quiet: bool) -> Result<Database, Failure> {
        let table = Box::new(catalogue::PostgresTable::build(given, mix, quiet)?);
        let address = table.address(given);
        Ok(Database::Postgres { table, address })
    }

    #[cfg(not(feature = "postgres"))]
    fn postgres(_: &str, _: &Mix, _: bool) -> Result<Database, Failure> {
        Err(Failure::Message("this bloomgate was built without PostgreSQL (feature postgres)".into()))
    }

    /// What the database is, for people.
    pub fn database(&self) -> &'static str {
        match self.database {
            Database::Sqlite { .. } => "SQLite",
            #[cfg(feature = "postgres")]
            Database::Postgres { .. } => "PostgreSQL",
        }
    }

    /// What the cache is, for people.
    pub fn cache(&self) -> &'static str {
        if self.shop.redis.is_some() { "Redis" } else { "in-process" }
    }

    /// Where the filters behind the Redis protocol are, once somebody needed them.
    pub fn resp(&self) -> Option<&str> {
        self.resp.as_deref()
    }

    /// Runs something to its end, or until the user has seen enough: then everything is taken down as usual.
    pub fn run<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let mut interrupted = self.interrupted.clone();
        self.runtime.block_on(async {
            tokio::select! {
                done = work => done,
                _ = interrupted.wait_for(|&seen| seen) => Err(Failure::Message("interrupted".into())),
            }
        })
    }

    /// Reads the most popular products once, to put them into the caches of the fronts to come.
    pub fn read_popular(&mut self) -> Result<(), Failure> {
        let keys: Vec<Key> = (0..self.mix.products.min(WARM))
            .map(|rank| Key::from(catalogue::key(self.mix.number(Subject::Standing(rank))).as_str()))
            .collect();
        let source = self.source()?;
        self.warm = self.run(async {
            let mut rows = Vec::with_capacity(keys.len());
            for keys in keys.chunks(BATCH) {
                let found = source.get_many(keys).await.map_err(told)?;
                rows.extend(keys.iter().cloned().zip(found).filter_map(|(key, row)| Some((key, row?))));
            }
            Ok(rows)
        })?;
        Ok(())
    }

    fn source(&self) -> Result<Arc<dyn Source>, Failure> {
        Ok(match &self.database {
            Database::Sqlite { path, .. } => {
                Arc::new(Sqlite::open(path, catalogue::TABLE, catalogue::COLUMN).map_err(told)?)
            }
            #[cfg(feature = "postgres")]
            Database::Postgres { table, address } => {
                let connect = Postgres::connect(address, &table.name, catalogue::COLUMN, CONNECTIONS);
                Arc::new(self.run(async { connect.await.map_err(told) })?)
            }
        })
    }

    fn empty_cache(&self) -> Result<Arc<dyn Cache>, Failure> {
        match &self.shop.redis {
            None => Ok(Arc::new(LocalCache::new(CACHE_BYTES).map_err(told)?)),
            #[cfg(feature = "redis")]
            Some(url) => {
                let cache = self.run(async { RedisCache::connect(url, &own_name(), DEADLINE).await.map_err(told) })?;
                self.left.0.set(true);
                Ok(Arc::new(cache))
            }
            #[cfg(not(feature = "redis"))]
            Some(_) => Err(Failure::Message("this bloomgate was built without Redis (feature redis)".into())),
        }
    }

    /// A front with a database and a cache of its own, the popular products in it.
    pub fn front(&mut self, kind: Kind, wish: GateWish) -> Result<Scene, Failure> {
        let source = Arc::new(Watched::new(self.source()?));
        let cache = match kind {
            Kind::Nothing => None,
            _ => Some(Arc::new(Watched::new(self.empty_cache()?))),
        };
        if let Some(cache) = &cache {
            self.run(async {
                for rows in self.warm.chunks(BATCH) {
                    let stores = rows.iter().map(|(key, row)| cache.store(key, row.clone(), KEEP));
                    futures_util::future::try_join_all(stores).await.map_err(told)?;
                }
                Ok(())
            })?;
        }
        let behind = (source.clone() as Arc<dyn Source>, cache.clone().map(|cache| cache as Arc<dyn Cache>));
        let front = match kind {
            Kind::Nothing | Kind::Cache => Front::Plain(Plain::new(behind.0, behind.1, false)),
            Kind::NegativeCache => Front::Plain(Plain::new(behind.0, behind.1, true)),
            Kind::Gate | Kind::GateResp => Front::Gate(self.gate(kind, wish, behind.0, behind.1)?),
        };
        Ok(Scene { front: Arc::new(front), source, cache })
    }

    fn gate(
        &mut self,
        kind: Kind,
        wish: GateWish,
        source: Arc<dyn Source>,
        cache: Option<Arc<dyn Cache>>,
    ) -> Result<Gate, Failure> {
        let resp = match kind {
            Kind::GateResp => Some(self.resp_server()?),
            _ => None,
        };
        #[cfg(not(feature = "redis"))]
        if resp.is_some() {
            let message =
                "this bloomgate was built without the Redis protocol (feature redis): leave gate-resp out by --only";
            return Err(Failure::Message(message.into()));
        }
        self.run(async {
            // No audit unless it lives: it asks the database, and what reaches the database is what is counted.
            let mut builder = Gate::builder(source)
                .rate(wish.rate)
                .writers(Writers::Sole)
                .rows_for(KEEP)
                .negatives(if wish.remembers { 1_000_000 } else { 0 }, KEEP)
                .source_limit(64, usize::try_from(self.shop.workers).unwrap_or(usize::MAX))
                .audit_share(if wish.lives { 0.001 } else { 0.0 })
                .rebuild_every(None);
            if let Some(cache) = cache {
                builder = builder.cache(cache);
            }
            #[cfg(feature = "redis")]
            if let Some(address) = resp {
                let filters = RespFilters::connect(&address, &own_name(), DEADLINE).await.map_err(told)?;
                self.left.1.set(true);
                builder = builder.remote_filter(filters);
            }
            let gate = builder.build().map_err(told)?;
            gate.rebuild().await.map_err(told)?;
            if wish.lives {
                gate.start();
            }
            Ok(gate)
        })
    }

    /// The server of filters behind the Redis protocol: the one that was named, else one of our own on a free port. It
    /// lives as long as the process, and keeps nothing.
    fn resp_server(&mut self) -> Result<String, Failure> {
        if let Some(address) = &self.resp {
            return Ok(address.clone());
        }
        let address = start_server()?;
        self.resp = Some(address.clone());
        Ok(address)
    }

    /// Takes a front down: its background work ends, and a filter that it had in a server of others is removed.
    pub fn end(&self, scene: Scene) -> Result<(), Failure> {
        if let Front::Gate(gate) = &*scene.front {
            self.run(async {
                gate.stop().await;
                Ok(())
            })?;
        }
        #[cfg(feature = "redis")]
        self.clear();
        Ok(())
    }

    /// Takes away what the fronts have left in servers of others: rows in a cache, and a filter.
    #[cfg(feature = "redis")]
    fn clear(&self) {
        let cleared = |what: String, cleared: redis::RedisResult<()>| {
            if let Err(error) = cleared {
                crate::screen::note(format_args!("{what} may still be there: {error}"));
            }
        };
        if let Some(address) = self.shop.redis.as_ref().filter(|_| self.left.0.take()) {
            cleared(format!("the rows {}:* in the cache", own_name()), remove_rows(address));
        }
        if let Some(address) = self.shop.resp.as_ref().filter(|_| self.left.1.take()) {
            let removed =
                connection(address).and_then(|mut server| redis::cmd("DEL").arg(own_name()).query(&mut server));
            cleared(format!("the filter {}", own_name()), removed.map(|_: i64| ()));
        }
    }

    /// What the database has cost so far, where that can be known.
    pub fn cpu(&mut self) -> Option<Reading> {
        match &mut self.database {
            Database::Sqlite { .. } => Reading::of_threads("sqlite-"),
            #[cfg(feature = "postgres")]
            Database::Postgres { table, .. } => Reading::of_processes(&table.backends(), "postgres"),
        }
    }

    /// Takes away what a run with writes has left, so that the next begins as this one did.
    pub fn reset(&mut self) -> Result<(), Failure> {
        match &mut self.database {
            Database::Sqlite { path, .. } => rusqlite::Connection::open(&*path)
                .and_then(|database| {
                    database.busy_timeout(Duration::from_secs(10))?;
                    database.execute("DELETE FROM products WHERE version > 0", ())
                })
                .map(drop)
                .map_err(|error| Failure::at(path, error)),
            #[cfg(feature = "postgres")]
            Database::Postgres { table, .. } => table.reset(),
        }
    }
}

/// However a run ends, by a ctrl-c too, nothing of it stays.
#[cfg(feature = "redis")]
impl Drop for Stage {
    fn drop(&mut self) {
        self.clear();
    }
}

/// A connection to a server of others, if it answers soon.
#[cfg(feature = "redis")]
fn connection(address: &str) -> redis::RedisResult<redis::Connection> {
    let connection = redis::Client::open(address)?.get_connection_with_timeout(DEADLINE)?;
    connection.set_read_timeout(Some(DEADLINE))?;
    connection.set_write_timeout(Some(DEADLINE))?;
    Ok(connection)
}

/// Removes our rows from a cache that may have others: by their prefix, a few thousand at a time.
#[cfg(feature = "redis")]
fn remove_rows(address: &str) -> redis::RedisResult<()> {
    let mut server = connection(address)?;
    let mut cursor = 0u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(format!("{}:*", own_name())).arg("COUNT").arg(5_000);
        let (next, names): (u64, Vec<Vec<u8>>) = scan.query(&mut server)?;
        if !names.is_empty() {
            redis::cmd("UNLINK").arg(names).query::<i64>(&mut server)?;
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// The name of what is ours in a server that may have others: a filter, and what rows begin with.
#[cfg(feature = "redis")]
fn own_name() -> String {
    format!("bloomgate-attack-{}", std::process::id())
}

/// The gate's errors say what to do.
pub fn told(error: bloomgate_gate::Error) -> Failure {
    Failure::Message(error.to_string())
}

#[cfg(feature = "serve")]
fn start_server() -> Result<String, Failure> {
    let settings = bloomgate_server::Settings {
        resp: Some(([127, 0, 0, 1], 0).into()),
        // What it would tell is not what was asked for.
        log_level: bloomgate_server::logging::Level::Error,
        ..bloomgate_server::Settings::default()
    };
    let (tell, told) = std::sync::mpsc::channel();
    let failed = tell.clone();
    std::thread::Builder::new()
        .name("bloomgate-serve".into())
        .spawn(move || {
            let served = bloomgate_server::serve(&settings, |ready| _ = tell.send(Ok(ready.address)));
            if let Err(why) = served {
                _ = failed.send(Err(why));
            }
        })
        .map_err(|error| Failure::Message(format!("no thread for a server of filters: {error}")))?;
    let address = told
        .recv_timeout(Duration::from_secs(30))
        .map_err(|_| Failure::Message("the server of filters did not start: name one with --resp".into()))?;
    Ok(format!("redis://{}", address.map_err(Failure::Message)?))
}

#[cfg(not(feature = "serve"))]
fn start_server() -> Result<String, Failure> {
    let message = "this bloomgate was built without a server (feature serve): name one with --resp redis://HOST:PORT, or \
                   leave gate-resp out by --only";
    Err(Failure::Message(message.into()))
}
