//! Writers in processes of their own (`sqlite3` and `psql`, which know nothing of a gate), a gate in another one, and kill -9
//! of all of them at any time. Every key whose commit was acknowledged before a watermark is there in every answer as of that
//! watermark or a later one.
//!
//! `BLOOMGATE_FEED_ROUNDS` asks for more rounds than the few of a usual run (`scripts/soak feed`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloomgate_gate::sources::Source;
use bloomgate_gate::{Gate, Key};

use super::{followed, now};

/// What the gate's process is told: where the source is, and its folder.
const SOURCE: &str = "BLOOMGATE_FEED_SOURCE";
const FOLDER: &str = "BLOOMGATE_FEED_FOLDER";
const WRITERS: usize = 3;

fn rounds() -> usize {
    std::env::var("BLOOMGATE_FEED_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(6)
}

/// Numbers from a seed (SplitMix64: Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }
}

/// The gate's process: answers a line of keys with a line of what it knows of each, `MARK` or `+` for a row.
async fn be_the_gate(source: Arc<dyn Source>) {
    let folder = std::env::var(FOLDER).unwrap();
    let gate: Gate =
        followed(Gate::builder(source).data(folder).feed_save_every(Duration::from_millis(150)).rate(0.01));
    gate.start();
    for line in std::io::stdin().lock().lines() {
        let mut answers = String::from("\n@");
        for key in line.unwrap().split_whitespace() {
            let answer = gate.get(&Key::from(key)).await;
            answers.push_str(&match answer {
                Ok(answer) if answer.row.is_some() => " +".to_owned(),
                Ok(answer) => format!(" {}", answer.watermark.unwrap_or(0)),
                Err(_) => " ?".to_owned(),
            });
        }
        let stats = gate.brief_stats();
        answers.push_str(&format!(
            " | {} {} {}\n",
            u8::from(stats.blocking),
            u8::from(stats.blocking && stats.rebuild.done == 0 && stats.rebuild.running.is_none()),
            stats.audit.wrong
        ));
        std::io::stdout().write_all(answers.as_bytes()).unwrap();
        std::io::stdout().flush().unwrap();
    }
}

/// A gate in a process of its own.
struct GateProcess {
    child: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

struct Answers {
    /// Nothing for a row; else the watermark of a "no", 0 if it has none.
    absent: Vec<Option<u64>>,
    blocking: bool,
    caught_up: bool,
    wrong: u64,
}

impl GateProcess {
    fn start(test: &str, source: &str, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(SOURCE, source)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (asked, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, asked, answers }
    }

    /// What it knows of some keys.
    fn ask(&mut self, keys: &[String]) -> Answers {
        writeln!(self.asked, "{}", keys.join(" ")).unwrap();
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the gate's process ended");
            let Some(line) = line.trim_end().strip_prefix('@') else { continue };
            let (each, state) = line.split_once('|').unwrap();
            let state: Vec<u64> = state.split_whitespace().map(|part| part.parse().unwrap()).collect();
            let absent: Vec<Option<u64>> = each
                .split_whitespace()
                .map(|part| match part {
                    "+" => None,
                    "?" => Some(0),
                    watermark => Some(watermark.parse().unwrap()),
                })
                .collect();
            assert_eq!(absent.len(), keys.len());
            return Answers { absent, blocking: state[0] == 1, caught_up: state[1] == 1, wrong: state[2] };
        }
    }
}

impl Drop for GateProcess {
    fn drop(&mut self) {
        // SIGKILL.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Keys that were acknowledged, and when.
#[derive(Default)]
struct Acknowledged(Mutex<Vec<(String, u64)>>);

/// A writer: a client program in a process, and the lines it is given for a key. The last of them prints the key.
struct Writer {
    program: Box<dyn Fn() -> Command + Send>,
    lines: Box<dyn Fn(&str) -> String + Send>,
}

/// Writes until it is told to stop; killed, it starts again.
fn write(number: usize, writer: Writer, to: &Acknowledged, process: &Mutex<Option<u32>>, stop: &AtomicBool) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    while !stop.load(SeqCst) {
        let mut child =
            (writer.program)().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        *process.lock().unwrap() = Some(child.id());
        let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        while !stop.load(SeqCst) {
            let key = format!("w{number}-{}", NEXT.fetch_add(1, SeqCst));
            if input.write_all((writer.lines)(&key).as_bytes()).and_then(|()| input.flush()).is_err() {
                break;
            }
            let mut line = String::new();
            while line.trim() != key {
                line.clear();
                if !output.read_line(&mut line).is_ok_and(|read| read > 0) {
                    break;
                }
            }
            if line.trim() != key {
                break;
            }
            to.0.lock().unwrap().push((key, now()));
            std::thread::sleep(Duration::from_millis(1));
        }
        *process.lock().unwrap() = None;
        _ = child.kill();
        child.wait().unwrap();
    }
}

/// Kills writers and gates for some rounds, and asks all the time.
fn kill_and_ask(test: &str, source: &str, writers: Vec<Writer>, seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    let (known, stop) = (Acknowledged::default(), AtomicBool::new(false));
    let processes: Vec<Mutex<Option<u32>>> = writers.iter().map(|_| Mutex::default()).collect();
    let mut random = Random(seed);
    let (mut no, mut answers, mut caught_up, mut kills) = (0u64, 0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        for (number, writer) in writers.into_iter().enumerate() {
            let (known, process, stop) = (&known, &processes[number], &stop);
            scope.spawn(move || write(number, writer, known, process, stop));
        }
        let ended = Stop(&stop);
        let mut gate = GateProcess::start(test, source, folder.path());
        for round in 0..rounds() {
            let (begun, lasts) = (Instant::now(), Duration::from_millis(200 + random.below(600)));
            let mut had_blocked = false;
            // At least until it has said no in this round: a kill before that proves little.
            while begun.elapsed() < lasts || (!had_blocked && begun.elapsed() < Duration::from_secs(20)) {
                let (keys, times) = sample(&known, &mut random);
                let said = gate.ask(&keys);
                for ((key, absent), committed) in keys.iter().zip(&said.absent).zip(&times) {
                    answers += 1;
                    let (Some(watermark), Some(committed)) = (absent, committed) else {
                        no += u64::from(absent.is_some_and(|watermark| watermark > 0));
                        continue;
                    };
                    // Milliseconds: in the same one it may have been committed after.
                    assert!(
                        *watermark <= *committed,
                        "round {round}: {key} was acknowledged at {committed}, and is absent as of {watermark}"
                    );
                }
                assert_eq!(said.wrong, 0, "an audit found a wrong no");
                if said.blocking && !had_blocked {
                    (had_blocked, caught_up) = (true, caught_up + u64::from(said.caught_up));
                }
            }
            assert!(had_blocked, "round {round}: the gate never said no");
            let victim = random.below(WRITERS as u64 + 2) as usize;
            kills += 1;
            match processes.get(victim).map(|process| *process.lock().unwrap()) {
                Some(Some(pid)) => _ = Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap(),
                Some(None) => {}
                None => {
                    // One process at a time has the folder.
                    drop(gate);
                    gate = GateProcess::start(test, source, folder.path());
                }
            }
        }
        drop(ended);
        // Everything that was acknowledged is there.
        let begun = Instant::now();
        let all: Vec<String> = known.0.lock().unwrap().iter().map(|(key, _)| key.clone()).collect();
        assert!(all.len() > 20, "{} keys were written", all.len());
        for part in all.chunks(100) {
            while gate.ask(part).absent.iter().any(Option::is_some) {
                assert!(begun.elapsed() < Duration::from_secs(30), "some keys are never found");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let keys = known.0.lock().unwrap().len();
    println!(
        "{keys} keys acknowledged, {answers} answers, {no} of them no, {kills} kills, {caught_up} rounds begun without a scan"
    );
    assert!(no > 0, "it never said no");
}

/// Lets writers end, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Some keys to ask for, the newest among them, and when they were acknowledged; and some that are never written.
fn sample(known: &Acknowledged, random: &mut Random) -> (Vec<String>, Vec<Option<u64>>) {
    let known = known.0.lock().unwrap();
    let mut keys: Vec<(String, Option<u64>)> =
        known.iter().rev().take(5).map(|(key, when)| (key.clone(), Some(*when))).collect();
    for _ in 0..10.min(known.len()) {
        let (key, when) = &known[random.below(known.len() as u64) as usize];
        keys.push((key.clone(), Some(*when)));
    }
    keys.extend((0..3).map(|_| (format!("never-{}", random.below(1 << 40)), None)));
    keys.into_iter().unzip()
}

#[cfg(feature = "sqlite")]
#[test]
fn kills_of_gates_and_of_writers_to_sqlite_lose_nothing() {
    use bloomgate_gate::feed::FeedPlan;
    use bloomgate_gate::sources::Sqlite;
    if let Ok(path) = std::env::var(SOURCE) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(be_the_gate(Arc::new(Sqlite::open(path, "t", "k").unwrap())));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let database = rusqlite::Connection::open(&path).unwrap();
    database.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER)").unwrap();
    drop(database);
    Sqlite::install_feed(&path, "t", "k", &FeedPlan::default(), false).unwrap();
    let writer = |number: usize| {
        let path = path.clone();
        Writer {
            program: Box::new(move || {
                let mut program = Command::new("sqlite3");
                program.args(["-batch", "-bail", "-cmd", ".timeout 10000"]).arg(&path);
                program
            }),
            lines: Box::new(move |key| match number {
                0 => format!("INSERT INTO t VALUES ('{key}', 1);\nSELECT '{key}';\n"),
                1 => format!("INSERT OR REPLACE INTO t VALUES ('{key}', 1);\nSELECT '{key}';\n"),
                _ => format!(
                    "BEGIN IMMEDIATE; INSERT INTO t VALUES ('{key}-', 1); UPDATE t SET k = '{key}' WHERE k = '{key}-'; COMMIT;\nSELECT '{key}';\n"
                ),
            }),
        }
    };
    let test = "feeds::killing::kills_of_gates_and_of_writers_to_sqlite_lose_nothing";
    kill_and_ask(test, path.to_str().unwrap(), (0..WRITERS).map(writer).collect(), 1);
}

#[cfg(feature = "postgres")]
#[test]
fn kills_of_gates_and_of_writers_to_postgres_lose_nothing() {
    use bloomgate_gate::feed::FeedPlan;
    use bloomgate_gate::sources::Postgres;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Ok(url) = std::env::var(SOURCE) {
        return runtime.block_on(async {
            be_the_gate(Arc::new(Postgres::connect(&url, "t", "k", 4).await.unwrap())).await;
        });
    }
    let server = crate::postgres_server::Server::shared();
    let url = runtime.block_on(async {
        let (name, _other) = server.database("CREATE TABLE t (k text PRIMARY KEY, v int)").await;
        let url = server.url(&name);
        Postgres::install_feed(&url, "t", "k", &FeedPlan::default(), false).await.unwrap();
        url
    });
    let writer = |number: usize| {
        let url = url.clone();
        Writer {
            program: Box::new(move || {
                let mut program = Command::new("psql");
                program.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &url]);
                program
            }),
            lines: Box::new(move |key| match number {
                0 => format!("INSERT INTO t VALUES ('{key}', 1);\nSELECT '{key}';\n"),
                1 => {
                    format!("INSERT INTO t VALUES ('{key}', 1) ON CONFLICT (k) DO UPDATE SET v = 2;\nSELECT '{key}';\n")
                }
                // Long, so that others commit between its write and its end.
                _ => format!(
                    "BEGIN;\nINSERT INTO t VALUES ('{key}', 1);\nSELECT pg_sleep(0.05);\nCOMMIT;\nSELECT '{key}';\n"
                ),
            }),
        }
    };
    let test = "feeds::killing::kills_of_gates_and_of_writers_to_postgres_lose_nothing";
    kill_and_ask(test, &url, (0..WRITERS).map(writer).collect(), 2);
}
