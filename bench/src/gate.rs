//! What the gate costs: a "no" beside the filter's own lookup in one process, over HTTP beside a bare axum handler, and as a
//! proxy beside a bare one of hyper.
//!
//! Over HTTP the two servers take turns under `wrk` with the same requests, and the figure is the CPU time of the server
//! for a request: the client's work and the waiting are not in it. The bare handler is the least that axum can do: one
//! route, a fixed answer. What is measured has a core to itself, `wrk` and what is behind a proxy have the others: where all
//! take turns on the same cores, what one writes to another costs a wake-up or none, as the scheduler likes, and a slower
//! one pays for more of them (7 of 14 us beside the bare proxy's 36 were that).

use crate::args::{Args, Fault};
use crate::clock::{median, time};
use crate::server::process::{cpu_of, spent};
use crate::shared_machine;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use bloomgate::{Blocked, Contract, Secret};
use bloomgate_gate::sources::{KeyBatch, Scan, Source};
use bloomgate_gate::{Gate, Key, KeyType, Pending, Writers};
use bytes::Bytes;
use std::fs;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keys of the catalogue.
const PRODUCTS: usize = 100_000;
/// Absent keys asked for in a turn in one process.
const ABSENT: usize = 20_000;
/// The row that the bare handler answers with; the gate's has the same length.
const ROW: &str = r#"{"sku":"sku-000000","name":"a product of some length","price":1999}"#;

/// The figures of the issue.
const MOST_NS: f64 = 200.0;
const MOST_ABSENT: f64 = 1.25;
const MOST_CACHED: f64 = 1.5;
const MOST_PASSED: f64 = 1.3;

struct Settings {
    binary: PathBuf,
    rounds: usize,
    seconds: u64,
    /// Everything once and briefly, and nothing is judged.
    quick: bool,
}

/// `scripts/bench gate`.
pub fn run(args: &mut Args) -> Result<ExitCode, Fault> {
    let beside = std::env::current_exe()?.with_file_name("bloomgate");
    let mut settings = Settings { binary: beside, rounds: 5, seconds: 2, quick: false };
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--binary" => settings.binary = args.value(&option)?.into(),
            "--rounds" => settings.rounds = args.number(&option)?,
            "--seconds" => settings.seconds = args.number(&option)?,
            "--quick" => settings = Settings { rounds: 1, seconds: 1, quick: true, ..settings },
            _ => return Err(args.unknown(&option)),
        }
    }
    println!("{}", crate::machine());
    let mut missed = 0;
    let mut tell = |what: &str, asked: String, measured: String, kept: bool, more: String| {
        missed += u32::from(!kept);
        println!("{what:<58} {asked:>9} {measured:>9}  {}  {more}", if kept { "ok    " } else { "MISSED" });
    };
    let (filter, gate, beyond) = in_process(settings.rounds.max(3) * 5)?;
    let more = format!("the filter {filter:.1} ns, the gate {gate:.1} ns");
    tell(
        "a no in one process, beyond the filter's own lookup",
        format!("<{MOST_NS} ns"),
        format!("{beyond:.1} ns"),
        beyond < MOST_NS,
        more,
    );
    let stage = Stage::set(&settings)?;
    for (what, path, most, statuses) in [
        ("an absent key over HTTP, server CPU over a bare 404", "absent", MOST_ABSENT, Statuses::Failures),
        ("a cached row over HTTP, server CPU over a bare 200", "sku", MOST_CACHED, Statuses::Successes),
    ] {
        let sides = [(&stage.bare, format!("bare-{path}.lua")), (&stage.gate, format!("gate-{path}.lua"))];
        let [bare, ours] = stage.compare(&sides, statuses, &settings)?;
        let ratio = ours / bare;
        let more = format!("bare {bare:.2} us a request, gate {ours:.2} us");
        tell(what, format!("<={most}x"), format!("{ratio:.2}x"), ratio <= most, more);
    }
    let script = "bare-sku.lua".to_owned();
    let sides = [(&stage.bare_proxy, script.clone()), (&stage.proxy, script)];
    let [bare, ours] = stage.compare(&sides, Statuses::Successes, &settings)?;
    tell(
        "a request that passes the proxy, CPU over a bare hyper proxy",
        format!("<={MOST_PASSED}x"),
        format!("{:.2}x", ours / bare),
        ours / bare <= MOST_PASSED,
        format!("bare {bare:.2} us a request, gate {ours:.2} us"),
    );
    Ok(if missed == 0 || settings.quick { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Nanoseconds for a "no": of the filter alone, of the gate, and what the gate adds; medians of turns.
fn in_process(rounds: usize) -> Result<(f64, f64, f64), Fault> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let contract = Contract::keyed(&Secret::generate()?);
    let filter = Blocked::builder().contract(contract).items(PRODUCTS as u64 * 3 / 2).rate(0.001).build_shared()?;
    for number in 0..PRODUCTS {
        filter.insert(sku(number).as_str())?;
    }
    let gate = Gate::builder(Arc::new(Catalogue)).writers(Writers::Sole).build().map_err(said)?;
    runtime.block_on(gate.rebuild()).map_err(said)?;
    let keys: Vec<Key> = (0..ABSENT).map(|number| Key::from(format!("absent-{number}").as_str())).collect();
    let mut turns = [Vec::new(), Vec::new(), Vec::new()];
    for round in 0..rounds {
        let mut ns = [0.0; 2];
        for turn in 0..2 {
            let side = (round + turn) % 2;
            let mut noes = 0;
            let spent = time(|| {
                noes = match side {
                    0 => {
                        let contract = filter.contract();
                        let absent = |key: &&Key| !filter.contains_digest(contract.digest_bytes(key.canonical()));
                        keys.iter().filter(absent).count()
                    }
                    _ => keys.iter().filter(|key| gate.look(key).is_some()).count(),
                };
            });
            if noes < ABSENT * 99 / 100 {
                return Err(Fault(format!("{noes} of {ABSENT} absent keys got a no: what was measured is not a no")));
            }
            black_box(noes);
            ns[side] = spent as f64 / ABSENT as f64;
        }
        turns[0].push(ns[0]);
        turns[1].push(ns[1]);
        turns[2].push(ns[1] - ns[0]);
    }
    Ok((median(&turns[0]), median(&turns[1]), median(&turns[2])))
}

fn said(error: bloomgate_gate::Error) -> Fault {
    Fault(error.to_string())
}

fn sku(number: usize) -> String {
    format!("sku-{number:06}")
}

/// A source of keys alone: a "no" never asks for more.
struct Catalogue;

impl Source for Catalogue {
    fn describe(&self) -> String {
        "keys".to_string()
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, _key: &'a Key) -> Pending<'a, bloomgate_gate::Result<Option<Bytes>>> {
        Box::pin(async { Ok(Some(Bytes::from_static(ROW.as_bytes()))) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, bloomgate_gate::Result<Vec<Option<Bytes>>>> {
        Box::pin(async { Ok(vec![Some(Bytes::from_static(ROW.as_bytes())); keys.len()]) })
    }

    fn put_many<'a>(&'a self, _rows: &'a [(Key, Bytes)]) -> Pending<'a, bloomgate_gate::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn delete<'a>(&'a self, _key: &'a Key) -> Pending<'a, bloomgate_gate::Result<bool>> {
        Box::pin(async { Ok(false) })
    }

    fn count(&self) -> Pending<'_, bloomgate_gate::Result<u64>> {
        Box::pin(async { Ok(PRODUCTS as u64) })
    }

    fn scan(&self) -> Pending<'_, bloomgate_gate::Result<Box<dyn Scan>>> {
        Box::pin(async { Ok(Box::new(Keys { next: 0 }) as Box<dyn Scan>) })
    }
}

struct Keys {
    next: usize,
}

impl Scan for Keys {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, bloomgate_gate::Result<bool>> {
        Box::pin(async {
            batch.clear();
            let end = (self.next + 8192).min(PRODUCTS);
            (self.next..end).for_each(|number| batch.push(sku(number).as_bytes()));
            self.next = end;
            Ok(!batch.is_empty())
        })
    }
}

/// `bloomgate-bench bare ADDRESS`: the least that axum can do, until it is killed.
pub fn bare(args: &mut Args) -> Result<(), Fault> {
    let address = args.word().ok_or_else(|| Fault("bare needs an address".to_string()))?;
    let router = Router::new()
        .route("/v1/products/absent/{key}", get(async || StatusCode::NOT_FOUND))
        .route("/v1/products/sku/{key}", get(async || ([(header::CONTENT_TYPE, "application/json")], ROW)));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(&address).await?;
        axum::serve(listener, router).await
    })?;
    Ok(())
}

/// Which statuses all answers must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Statuses {
    Successes,
    Failures,
}

/// The servers and what they need.
struct Stage {
    folder: PathBuf,
    bare: Served,
    gate: Served,
    /// Two proxies to a bare server of their own.
    bare_proxy: Served,
    proxy: Served,
    _upstream: Served,
}

/// The core of what is measured, and those of all else: none if there is only one.
fn cores() -> (Vec<usize>, Vec<usize>) {
    let mut measured = shared_machine::cores();
    let others = measured.split_off(1);
    if others.is_empty() { (Vec::new(), others) } else { (measured, others) }
}

/// Keeps what is started on these cores.
fn on(command: &mut Command, cores: Vec<usize>) -> &mut Command {
    // SAFETY: between fork and exec one system call runs; `cores` was allocated before.
    unsafe { command.pre_exec(move || shared_machine::pin(&cores)) }
}

/// A server that runs until it is dropped.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Served {
    fn start(command: &mut Command, cores: &[usize], address: SocketAddr, path: &str) -> Result<Self, Fault> {
        let child = on(command, cores.to_vec()).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
        let mut served = Self { child, address };
        let begun = Instant::now();
        while !matches!(status(address, path), Ok(200 | 404)) {
            let gone = served.child.try_wait()?;
            if gone.is_some() || begun.elapsed() > Duration::from_secs(60) {
                return Err(Fault(format!("{command:?} is not ready: {gone:?}")));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(served)
    }
}

fn free_address() -> Result<SocketAddr, Fault> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// The status of one request.
fn status(address: SocketAddr, path: &str) -> Result<u16, Fault> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let text = String::from_utf8_lossy(&head[9..]).parse();
    text.map_err(|_| Fault(format!("no status in {:?}", String::from_utf8_lossy(&head))))
}

impl Stage {
    fn set(settings: &Settings) -> Result<Self, Fault> {
        let folder = std::env::temp_dir().join(format!("bloomgate-bench-gate.{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let file = folder.join("catalogue.db");
        fill(&file)?;
        for (name, prefix) in [("absent", "absent-"), ("sku", "sku-000")] {
            // The same keys for both servers; the bare one has them under a folder of their kind.
            for (side, path) in
                [("bare", format!("/v1/products/{name}/{prefix}")), ("gate", format!("/v1/products/{prefix}"))]
            {
                let script = format!(
                    "local n = 0\nrequest = function()\n  n = (n + 1) % 1000\n  return wrk.format(\"GET\", \"{path}\" .. string.format(\"%03d\", n))\nend\n"
                );
                fs::write(folder.join(format!("{side}-{name}.lua")), script)?;
            }
        }
        let (bare_at, gate_at, upstream_at) = (free_address()?, free_address()?, free_address()?);
        let (measured, others) = cores();
        let bare_on = |address: SocketAddr, cores: &[usize]| {
            let mut command = Command::new(std::env::current_exe()?);
            Served::start(command.arg("bare").arg(address.to_string()), cores, address, "/v1/products/sku/1")
        };
        let (bare, upstream) = (bare_on(bare_at, &measured)?, bare_on(upstream_at, &others)?);
        let gate = Served::start(
            Command::new(&settings.binary)
                .args(["gate", "--table", "products", "--key", "sku", "--writers", "sole", "--source"])
                .arg(format!("sqlite:{}", file.display()))
                .args(["--listen", &gate_at.to_string(), "--data"])
                .arg(folder.join("gate")),
            &measured,
            gate_at,
            "/readyz",
        )?;
        wait_until_ready(gate.address)?;
        let (bare_proxy_at, proxy_at, admin_at) = (free_address()?, free_address()?, free_address()?);
        let bare_proxy = Served::start(
            Command::new(std::env::current_exe()?).args([
                "bare-proxy",
                &bare_proxy_at.to_string(),
                &upstream_at.to_string(),
            ]),
            &measured,
            bare_proxy_at,
            "/v1/products/sku/sku-000001",
        )?;
        let keys = folder.join("keys");
        fs::write(&keys, (0..PRODUCTS).map(|number| sku(number) + "\n").collect::<String>())?;
        let proxy = Served::start(
            Command::new(&settings.binary)
                .args(["gate", "--upstream", &format!("http://{upstream_at}"), "--key", "path:/v1/products/sku/{id}"])
                .args(["--writers", "sole", "--listen", &proxy_at.to_string(), "--admin", &admin_at.to_string()])
                .arg("--keys-from")
                .arg(&keys)
                .arg("--data")
                .arg(folder.join("proxy")),
            &measured,
            proxy_at,
            "/v1/products/sku/sku-000001",
        )?;
        wait_until_ready(admin_at)?;
        // What is measured is a gate that judges: an absent key is stopped.
        if status(proxy_at, "/v1/products/sku/absent")? != 404 {
            return Err(Fault("the proxy lets an absent key pass".to_string()));
        }
        Ok(Self { folder, bare, gate, bare_proxy, proxy, _upstream: upstream })
    }

    /// Microseconds of CPU for a request, of each side with its script: medians of turns.
    fn compare(
        &self,
        sides: &[(&Served, String); 2],
        statuses: Statuses,
        settings: &Settings,
    ) -> Result<[f64; 2], Fault> {
        let mut costs = [Vec::new(), Vec::new()];
        for round in 0..=settings.rounds {
            for turn in 0..2 {
                let side = (round + turn) % 2;
                let (served, script) = &sides[side];
                let cost = load(served, &self.folder.join(script), statuses, settings.seconds)?;
                // The first round fills caches.
                if round > 0 {
                    costs[side].push(cost);
                }
            }
        }
        Ok([median(&costs[0]), median(&costs[1])])
    }
}

fn wait_until_ready(address: SocketAddr) -> Result<(), Fault> {
    let begun = Instant::now();
    while status(address, "/readyz")? != 200 {
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(Fault("the gate is not ready after a minute".to_string()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Microseconds of the server's CPU for a request under `wrk`.
fn load(served: &Served, script: &Path, statuses: Statuses, seconds: u64) -> Result<f64, Fault> {
    let before = cpu_of(served.child.id())?;
    let wrk = on(&mut Command::new("wrk"), cores().1)
        .args(["-t", "1", "-c", "32", "-d", &format!("{seconds}s"), "-s"])
        .arg(script)
        .arg(format!("http://{}", served.address))
        .output()
        .map_err(|error| Fault(format!("wrk does not start: {error}; apt-get install wrk brings it")))?;
    let cpu: u64 = spent(&before, &cpu_of(served.child.id())?).iter().sum();
    let text = String::from_utf8_lossy(&wrk.stdout);
    let number_before =
        |what: &str| -> Option<u64> { text.split(what).next()?.split_whitespace().last()?.parse().ok() };
    let requests = number_before("requests in").ok_or_else(|| Fault(format!("wrk said no requests: {text}")))?;
    let failures: u64 = match text.split_once("Non-2xx or 3xx responses:") {
        Some((_, rest)) => rest.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0),
        None => 0,
    };
    let asked = if statuses == Statuses::Successes { 0 } else { requests };
    if requests < 1000 || failures != asked || text.contains("Socket errors") {
        return Err(Fault(format!("{failures} of {requests} requests failed, {asked} should: {text}")));
    }
    Ok(cpu as f64 / 1e3 / requests as f64)
}

fn fill(file: &Path) -> Result<(), Fault> {
    let said = |error: rusqlite::Error| Fault(format!("SQLite: {error}"));
    let mut database = rusqlite::Connection::open(file).map_err(said)?;
    database
        .execute_batch("CREATE TABLE products (sku TEXT PRIMARY KEY NOT NULL, name TEXT, price INTEGER) WITHOUT ROWID;")
        .map_err(said)?;
    let all = database.transaction().map_err(said)?;
    {
        let mut add =
            all.prepare("INSERT INTO products VALUES (?1, 'a product of some length', 1999)").map_err(said)?;
        for number in 0..PRODUCTS {
            add.execute([sku(number)]).map_err(said)?;
        }
    }
    all.commit().map_err(said)
}
