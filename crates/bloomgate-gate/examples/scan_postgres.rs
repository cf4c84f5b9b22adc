//! How fast a scan of PostgreSQL is beside `psql` throwing the same `COPY` away.
//!
//! ```text
//! cargo run --release --features postgres --example scan_postgres -- postgres://me@host/shop products sku [rounds]
//! ```
//!
//! The two take turns, so that what else runs on the machine hits both; the best of each counts.
#![forbid(unsafe_code)]

use std::process::{Command, Stdio};
use std::time::Instant;

use bloomgate_gate::sources::{KeyBatch, Postgres, Source};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, table, key, rounds @ ..] = arguments.as_slice() else {
        return Err("say where: scan_postgres URL TABLE KEY [ROUNDS]".into());
    };
    let rounds: u32 = rounds.first().map_or(Ok(3), |rounds| rounds.parse())?;
    let source = Postgres::connect(url, table, key, 1).await?;
    let (mut scanned, mut copied) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..rounds {
        let begin = Instant::now();
        let copy = format!("COPY (SELECT {key} FROM {table}) TO STDOUT (FORMAT binary)");
        let status = Command::new("psql").args(["-X", "-q", "-d", url, "-c", &copy]).stdout(Stdio::null()).status()?;
        if !status.success() {
            return Err(format!("psql ended with {status}").into());
        }
        let psql = begin.elapsed().as_secs_f64();

        let begin = Instant::now();
        let (mut scan, mut batch) = (source.scan().await?, KeyBatch::default());
        let (mut keys, mut bytes) = (0, 0);
        while scan.next(&mut batch).await? {
            keys += batch.len();
            bytes += batch.iter().map(<[u8]>::len).sum::<usize>();
        }
        let gate = begin.elapsed().as_secs_f64();
        println!("{keys} keys, {bytes} bytes: psql {psql:.2} s, scan {gate:.2} s");
        (scanned, copied) = (scanned.min(gate), copied.min(psql));
    }
    println!("best: psql {copied:.2} s, scan {scanned:.2} s = {:.2} x psql", scanned / copied);
    Ok(())
}
