//! How long a whole rebuild from PostgreSQL takes beside `psql` throwing the same `COPY` away: the scan alone, and a real gate's
//! rebuild, from the count over the scan, the hashing and the filling to the checks and the swap.
//!
//! ```text
//! cargo run --release --features postgres --example scan_postgres -- [--keys N] [--rounds N]
//! cargo run --release --features postgres --example scan_postgres -- postgres://me@host/shop products sku [rounds]
//! ```
//!
//! The first starts a server of its own in an empty folder and fills two tables, keyed by a bigint and by text of 20 letters. The
//! three take turns, so that what else runs on the machine hits all of them; the best of each counts. Ends with 1 if a rebuild
//! takes more than 1.3 times as long as psql.
#![forbid(unsafe_code)]

#[path = "../tests/shared/postgres_process.rs"]
#[expect(dead_code, reason = "the tests stop and restart it")]
mod postgres_process;

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Instant;

use bloomgate_gate::sources::{KeyBatch, Postgres, Source};
use bloomgate_gate::{Gate, Key, Writers};

/// How much longer than psql a rebuild may take.
const ALLOWED: f64 = 1.3;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Outcome<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = arguments.iter().position(|argument| !argument.starts_with("--")).filter(|at| *at == 0) {
        let [url, table, key, rounds @ ..] = &arguments[at..] else {
            return Err("say where: scan_postgres URL TABLE KEY [ROUNDS]".into());
        };
        let rounds = rounds.first().map_or(Ok(3), |rounds| rounds.parse())?;
        return Ok(ended(measure(url, table, key, rounds).await? <= ALLOWED));
    }
    let (mut keys, mut rounds) = (10_000_000u64, 4);
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let number = rest.next().ok_or_else(|| format!("{flag} needs a number"))?;
        match flag.as_str() {
            "--keys" => keys = number.parse()?,
            "--rounds" => rounds = number.parse()?,
            _ => return Err(format!("{flag} is not known: --keys N and --rounds N are").into()),
        }
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let settings = ["listen_addresses=", "shared_buffers=512MB", "max_wal_size=8GB", "autovacuum=off"];
    let server = postgres_process::PostgresProcess::start(port, &[], &settings);
    let url = format!("postgres://tester@{}:{port}/postgres", server.host());
    let mut is_kept = true;
    for (column, kind, value) in
        [("id", "bigint", "i * 7919"), ("sku", "text", "'sku-' || lpad((i * 7919)::text, 16, '0')")]
    {
        let table = format!("by_{kind}");
        run(
            &url,
            &format!(
                "CREATE TABLE {table} AS SELECT {value} AS {column}, i % 1000 AS price FROM generate_series(1::bigint, {keys}) i; \
                 ALTER TABLE {table} ADD PRIMARY KEY ({column}); VACUUM (ANALYZE) {table}; CHECKPOINT"
            ),
        )?;
        is_kept &= measure(&url, &table, column, rounds).await? <= ALLOWED;
    }
    Ok(ended(is_kept))
}

fn ended(is_kept: bool) -> ExitCode {
    if is_kept { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Statements of somebody's psql, one after the other; what they give is thrown away.
fn run(url: &str, sql: &str) -> Outcome<()> {
    let mut psql = Command::new("psql");
    psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url]);
    sql.split("; ").for_each(|one| _ = psql.args(["-c", one]));
    let status = psql.stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("psql ended with {status}").into()) }
}

/// How many times as long as psql a rebuild takes.
async fn measure(url: &str, table: &str, key: &str, rounds: u32) -> Outcome<f64> {
    let source = Arc::new(Postgres::connect(url, table, key, 2).await?);
    let gate = Gate::builder(source.clone()).writers(Writers::Sole).rebuild_every(None).build()?;
    let (mut scanned, mut copied, mut rebuilt) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let begin = Instant::now();
        run(url, &format!("COPY (SELECT {key} FROM {table}) TO STDOUT (FORMAT binary)"))?;
        let psql = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let (mut scan, mut batch) = (source.scan().await?, KeyBatch::default());
        let (mut keys, mut bytes, mut last) = (0, 0, None);
        while scan.next(&mut batch).await? {
            keys += batch.len() as u64;
            bytes += batch.iter().map(<[u8]>::len).sum::<usize>();
            last = batch.iter().last().map(Key::from_canonical);
        }
        drop(scan);
        let scan = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let done = gate.rebuild().await?;
        let rebuild = begin.elapsed().as_secs_f64();
        if done.keys != keys || gate.get(&last.ok_or("the table is empty")?).await?.row.is_none() {
            return Err(format!("the rebuild had {} keys, the scan {keys}", done.keys).into());
        }
        println!("{table}: {keys} keys, {bytes} bytes: psql {psql:.2} s, scan {scan:.2} s, rebuild {rebuild:.2} s");
        (scanned, copied, rebuilt) = (scanned.min(scan), copied.min(psql), rebuilt.min(rebuild));
    }
    let ratio = rebuilt / copied;
    println!(
        "{table}, best of {rounds}: psql {copied:.2} s, scan {scanned:.2} s = {:.2} x psql, rebuild {rebuilt:.2} s = {ratio:.2} x \
         psql; at most {ALLOWED} are allowed",
        scanned / copied
    );
    gate.stop().await;
    Ok(ratio)
}
