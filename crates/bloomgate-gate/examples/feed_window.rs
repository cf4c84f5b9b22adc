//! How long a row that somebody else committed is unknown to a gate that follows a feed: from the moment the commit was
//! acknowledged until the filter has the key. And what the feed's triggers cost whoever writes.
//!
//! ```text
//! cargo run --release --all-features --example feed_window -- sqlite:FILE [rows]
//! cargo run --release --all-features --example feed_window -- postgres://me@host/database [rows]
//! ```
//!
//! It makes a table `feed_window` there, and drops it again.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate_gate::feed::FeedPlan;
use bloomgate_gate::sources::{Postgres, Source, Sqlite};
use bloomgate_gate::{Gate, Key, Writers};

type Failed = Box<dyn Error>;

/// Somebody who writes, and knows nothing of a gate.
enum Writer {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Writer {
    async fn run(&self, sql: &str) -> Result<(), Failed> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(sql)?,
            Self::Postgres(client) => client.batch_execute(sql).await?,
        }
        Ok(())
    }

    /// How long a transaction of one row takes, in the middle of so many: microseconds.
    async fn write(&self, prefix: &str, rows: usize) -> Result<f64, Failed> {
        let mut times = Vec::with_capacity(rows);
        for number in 0..rows {
            let begun = Instant::now();
            self.run(&format!("INSERT INTO feed_window VALUES ('{prefix}-{number}', {number})")).await?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[rows / 2].as_secs_f64() * 1e6)
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [place, rest @ ..] = arguments.as_slice() else {
        return Err("say where: feed_window sqlite:FILE or postgres://USER@HOST/DATABASE [ROWS]".into());
    };
    let rows: usize = rest.first().map_or(Ok(2000), |rows| rows.parse())?;
    let path = place.strip_prefix("sqlite:");
    let writer = match path {
        Some(path) => {
            let connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(5))?;
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")?;
            Writer::Sqlite(connection)
        }
        None => {
            let (client, connection) = tokio_postgres::connect(place, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            Writer::Postgres(client)
        }
    };
    writer.run("DROP TABLE IF EXISTS feed_window; CREATE TABLE feed_window (k TEXT PRIMARY KEY, v INTEGER)").await?;
    let without = writer.write("without", rows).await?;
    let plan = FeedPlan::default();
    match path {
        Some(path) => Sqlite::install_feed(path, "feed_window", "k", &plan, false)?,
        None => Postgres::install_feed(place, "feed_window", "k", &plan, false).await?,
    };
    let with = writer.write("with", rows).await?;
    let source: Arc<dyn Source> = match path {
        Some(path) => Arc::new(Sqlite::open(path, "feed_window", "k")?),
        None => Arc::new(Postgres::connect(place, "feed_window", "k", 4).await?),
    };
    let gate = Gate::builder(source).writers(Writers::Feed).audit_share(0.0).build()?;
    gate.start();
    while !gate.brief_stats().blocking {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let beside = writer.write("beside", rows).await?;
    let mut windows = Vec::with_capacity(rows);
    for number in 0..rows {
        let key = format!("window-{number}");
        writer.run(&format!("INSERT INTO feed_window VALUES ('{key}', {number})")).await?;
        let committed = Instant::now();
        let key = Key::from(key.as_str());
        while gate.look(&key).is_some() {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        windows.push(committed.elapsed());
        // At any moment between two reads.
        tokio::time::sleep(Duration::from_micros(number as u64 * 7919 % 20_000)).await;
    }
    windows.sort_unstable();
    let at = |share: f64| windows[((rows - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{rows} rows, from the commit to the filter: p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
    println!(
        "a transaction of one row, in the middle: {without:.0} us without a feed, {with:.0} us with it, {beside:.0} us while a gate follows it"
    );
    gate.stop().await;
    match path {
        Some(path) => Sqlite::remove_feed(path, "feed_window", false)?,
        None => Postgres::remove_feed(place, "feed_window", false).await?,
    };
    writer.run("DROP TABLE feed_window").await
}
