//! How long a row that somebody else committed is unknown to a gate that follows a feed: from the moment the commit was
//! acknowledged until the filter has the key. And what the feed's triggers cost whoever writes.
//!
//! ```text
//! cargo run --release -p bloomgate-gate --all-features --example feed_window -- sqlite:FILE [rows [writers]]
//! cargo run --release -p bloomgate-gate --all-features --example feed_window -- postgres://me@host/database [rows [writers]]
//! ```
//!
//! With more than one writer the rows are shared out among so many threads, each with a connection of its own, that all write
//! at once and as fast as they can: then the window is that of a feed which always has something to tell, and of commits
//! that stand in line. It makes a table `feed_window` there, and drops it again.
#![forbid(unsafe_code)]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate_gate::feed::FeedPlan;
use bloomgate_gate::sources::{Postgres, Source, Sqlite};
use bloomgate_gate::{Gate, Key, Writers};

type Failed = Box<dyn Error>;

/// What measures it, so that results name it.
const COMMAND: &str = "cargo run --release -p bloomgate-gate --all-features --example feed_window --";

/// A place as it may be shown.
fn without_password(place: &str) -> String {
    let Some((scheme, rest)) = place.split_once("://") else { return place.to_owned() };
    match rest.rsplit_once('@') {
        Some((user, host)) => format!("{scheme}://{}@{host}", user.split(':').next().unwrap_or_default()),
        None => place.to_owned(),
    }
}

/// Somebody who writes, and knows nothing of a gate.
enum Writer {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Writer {
    async fn open(place: &str) -> Result<Self, Failed> {
        if let Some(path) = place.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(path)?;
            connection.busy_timeout(Duration::from_secs(30))?;
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")?;
            return Ok(Self::Sqlite(connection));
        }
        let (client, connection) = tokio_postgres::connect(place, tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok(Self::Postgres(client))
    }

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

/// The windows of rows that one writer commits, each after the one before it is known.
async fn alone(writer: &Writer, gate: &Gate, rows: usize) -> Result<Vec<Duration>, Failed> {
    let mut windows = Vec::with_capacity(rows);
    for number in 0..rows {
        let key = format!("window-{number}");
        writer.run(&format!("INSERT INTO feed_window VALUES ('{key}', {number})")).await?;
        windows.push(window(gate, &key).await);
        // At any moment between two reads.
        tokio::time::sleep(Duration::from_micros(number as u64 * 7919 % 20_000)).await;
    }
    Ok(windows)
}

/// From now, when a key was committed, until the filter has it.
async fn window(gate: &Gate, key: &str) -> Duration {
    let (committed, key) = (Instant::now(), Key::from(key));
    while gate.look(&key).is_some() {
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    committed.elapsed()
}

/// The windows of rows that many writers commit at once, and how long each commit took. A writer does not wait until its row is
/// known: others look for that, so that the writers never rest.
fn together(place: &str, gate: &Gate, rows: usize, writers: usize) -> Result<(Vec<Duration>, Vec<Duration>), Failed> {
    let each = rows.div_ceil(writers);
    let runtime = tokio::runtime::Handle::current();
    let threads: Vec<_> = (0..writers)
        .map(|who| {
            let (place, gate, runtime) = (place.to_owned(), gate.clone(), runtime.clone());
            std::thread::spawn(move || -> Result<_, String> {
                let own = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let own = own.map_err(|error| error.to_string())?;
                own.block_on(async move {
                    let writer = Writer::open(&place).await.map_err(|error| error.to_string())?;
                    let (mut commits, mut looking) = (Vec::with_capacity(each), Vec::with_capacity(each));
                    for number in 0..each {
                        let (key, begun) = (format!("window-{who}-{number}"), Instant::now());
                        let sql = format!("INSERT INTO feed_window VALUES ('{key}', {number})");
                        writer.run(&sql).await.map_err(|error| error.to_string())?;
                        commits.push(begun.elapsed());
                        let gate = gate.clone();
                        let committed = Instant::now();
                        looking.push(runtime.spawn(async move {
                            let waited = committed.elapsed();
                            waited + window(&gate, &key).await
                        }));
                    }
                    let mut windows = Vec::with_capacity(each);
                    for one in looking {
                        windows.push(one.await.map_err(|error| error.to_string())?);
                    }
                    Ok((windows, commits))
                })
            })
        })
        .collect();
    let (mut windows, mut commits) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    for thread in threads {
        let (its_windows, its_commits) = thread.join().map_err(|_| "a writer panicked")??;
        windows.extend(its_windows);
        commits.extend(its_commits);
    }
    Ok((windows, commits))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [place, rest @ ..] = arguments.as_slice() else {
        return Err("say where: feed_window sqlite:FILE or postgres://USER@HOST/DATABASE [ROWS [WRITERS]]".into());
    };
    let rows: usize = rest.first().map_or(Ok(2000), |rows| rows.parse())?;
    let writers: usize = rest.get(1).map_or(Ok(1), |writers| writers.parse())?;
    if rows == 0 || !(1..=256).contains(&writers) {
        return Err("at least one row, and from 1 to 256 writers".into());
    }
    let path = place.strip_prefix("sqlite:");
    let writer = Writer::open(place).await?;
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
    let (mut windows, beside_others) = if writers == 1 {
        (alone(&writer, &gate, rows).await?, Vec::new())
    } else {
        tokio::task::block_in_place(|| together(place, &gate, rows, writers))?
    };
    // Shared out evenly, they may be a few more than were asked for.
    let known = windows.len();
    println!("$ {COMMAND} {} {rows} {writers}", without_password(place));
    println!(
        "{known} rows by {}",
        if writers == 1 { "1 writer".to_owned() } else { format!("{writers} writers at once") }
    );
    let rows = known;
    windows.sort_unstable();
    let at = |share: f64| windows[((rows - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("from the commit to the filter: p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms", at(0.5), at(0.99), at(1.0));
    println!(
        "a transaction of one row, in the middle: {without:.0} us without a feed, {with:.0} us with it, {beside:.0} us while a gate follows it"
    );
    if writers > 1 {
        let mut commits = beside_others;
        commits.sort_unstable();
        let at = |share: f64| commits[((rows - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "a transaction of one row, by each of the writers at once: p50 {:.2} ms, p99 {:.2} ms",
            at(0.5),
            at(0.99)
        );
    }
    gate.stop().await;
    match path {
        Some(path) => Sqlite::remove_feed(path, "feed_window", false)?,
        None => Postgres::remove_feed(place, "feed_window", false).await?,
    };
    writer.run("DROP TABLE feed_window").await
}
