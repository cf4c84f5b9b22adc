//! What an answer of the gate costs over HTTP, beside a bare axum handler that returns 404: CPU time of the server for each
//! request, under `wrk`, in turns.
//!
//! ```text
//! cargo run --release -p bloomgate-gate --features service --example http_overhead [seconds] [rounds]
//! ```
//!
//! Promised: an absent key at most 1.25 times the bare handler, a cached row at most 1.5 times.
#![forbid(unsafe_code)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::service::{self, http};
use bloomgate_gate::sources::{KeyBatch, Scan, Source};
use bloomgate_gate::{Gate, Key, KeyType, Pending, Result, Writers};
use bytes::Bytes;
use tokio::net::TcpListener;

/// Keys of the table: a filter of 2 MB.
const KEYS: u64 = 1_000_000;

/// A table whose rows are made up when they are asked for: what is behind the gate must not be what is measured.
struct Numbers;

fn row(key: &Key) -> Option<Bytes> {
    let text = std::str::from_utf8(key.canonical()).ok()?;
    let number: u64 = text.strip_prefix("sku-")?.parse().ok()?;
    (number < KEYS).then(|| format!(r#"{{"sku":"{text}","price":{number}}}"#).into())
}

impl Source for Numbers {
    fn describe(&self) -> String {
        "numbers".to_owned()
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(row(key)) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(async move { Ok(keys.iter().map(row).collect()) })
    }

    fn put_many<'a>(&'a self, _: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, _: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(async { Ok(KEYS) })
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(async { Ok(Box::new(Scanning(0)) as Box<dyn Scan>) })
    }
}

struct Scanning(u64);

impl Scan for Scanning {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            batch.clear();
            let end = (self.0 + 10_000).min(KEYS);
            (self.0..end).for_each(|number| batch.push(format!("sku-{number}").as_bytes()));
            self.0 = end;
            Ok(!batch.is_empty())
        })
    }
}

/// A server in a process of its own, so that its CPU time is its own.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(what: &str) -> Self {
        let program = std::env::current_exe().expect("its own name");
        let mut child = Command::new(program).arg(what).stdout(Stdio::piped()).spawn().expect("itself");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a port");
        Self { child, port: line.trim().parse().expect("a port") }
    }

    /// CPU time so far, in ticks of the system.
    fn ticks(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("Linux");
        let fields: Vec<&str> = stat.rsplit(')').next().expect("fields").split_whitespace().collect();
        fields[11..13].iter().map(|field| field.parse::<f64>().expect("ticks")).sum()
    }

    /// CPU time for each request, in microseconds, with keys that begin so.
    fn drive(&self, keys: &str, seconds: u32) -> f64 {
        let script = std::env::temp_dir().join(format!("bloomgate-wrk-{}.lua", std::process::id()));
        let lua = format!(
            "request = function() return wrk.format('GET', '/v1/products/{keys}' .. math.random(0, 9999)) end\n"
        );
        std::fs::write(&script, lua).expect("a script");
        let before = self.ticks();
        let url = format!("http://127.0.0.1:{}/", self.port);
        let mut wrk = Command::new("wrk");
        wrk.args(["-t1", "-c32", &format!("-d{seconds}s"), "-s"]).arg(&script).arg(url);
        let output = wrk.output().expect("wrk: install Debian's package wrk");
        let said = String::from_utf8_lossy(&output.stdout);
        let requests: f64 = said
            .lines()
            .find_map(|line| line.trim().split_once(" requests in "))
            .and_then(|(number, _)| number.parse().ok())
            .unwrap_or_else(|| panic!("wrk said {said}"));
        // A tick is 10 ms.
        (self.ticks() - before) * 10_000.0 / requests
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(what: &str) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("{}", listener.local_addr().expect("an address").port());
        if what == "bare" {
            let router = Router::new().route("/v1/products/{key}", get(|| async { StatusCode::NOT_FOUND }));
            axum::serve(listener, router).await.expect("to serve");
            return;
        }
        let cache = Arc::new(LocalCache::new(64 << 20).expect("a cache"));
        let builder = Gate::builder(Arc::new(Numbers)).writers(Writers::Sole).cache(cache);
        let gate = builder.rows_for(std::time::Duration::from_secs(3600)).build().expect("a gate");
        gate.rebuild().await.expect("a filter");
        let options = service::Options { table: "products".to_owned(), ..service::Options::default() };
        service::serve(listener, gate, options, http::Options::default(), std::future::pending()).await;
    });
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(what) = arguments.first().filter(|what| ["bare", "gate"].contains(&what.as_str())) {
        serve(what);
        return;
    }
    let number = |at: usize, otherwise: u32| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (seconds, rounds) = (number(0, 5), number(1, 5));
    let (bare, gate) = (Server::start("bare"), Server::start("gate"));
    // The cache is warm before it is measured.
    gate.drive("sku-", 1);
    let (mut nos, mut cached) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let plain = bare.drive("absent-", seconds);
        let (no, row) = (gate.drive("absent-", seconds), gate.drive("sku-", seconds));
        println!(
            "round {round}: bare 404 {plain:.2} us, absent key {no:.2} us, cached row {row:.2} us of CPU a request"
        );
        nos.push(no / plain);
        cached.push(row / plain);
    }
    println!(
        "absent key {:.3} x bare (at most 1.25), cached row {:.3} x bare (at most 1.5)",
        median(nos),
        median(cached)
    );
}
