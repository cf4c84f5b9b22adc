//! Writers in processes of their own (`sqlite3` and `psql`, which know nothing of a gate), a gate in another one, and kill -9
//! of all of them at any time, of PostgreSQL itself too. They insert, rename, write anew and delete; the gate caches, remembers
//! absent keys and rebuilds every second. Every key whose commit was acknowledged before a watermark is there in every answer
//! as of that watermark or a later one, and no row whose deletion was.
//!
//! `BLOOMGATE_FEED_ROUNDS` asks for more rounds than the few of a usual run (`scripts/soak feed`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bloomgate_gate::caches::LocalCache;
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

/// The gate's process: answers a line of keys with a line of what it knows of each: its watermark, behind a `+` for a row.
async fn be_the_gate(source: Arc<dyn Source>) {
    let folder = std::env::var(FOLDER).unwrap();
    let builder = Gate::builder(source).data(folder).feed_save_every(Duration::from_millis(150)).rate(0.01);
    let builder = builder.cache(Arc::new(LocalCache::new(1 << 20).unwrap()));
    let gate: Gate = followed(builder.rebuild_every(Some(Duration::from_secs(1))));
    gate.start();
    for line in std::io::stdin().lock().lines() {
        let mut answers = String::from("\n@");
        for key in line.unwrap().split_whitespace() {
            let answer = gate.get(&Key::from(key)).await;
            answers.push_str(&match answer {
                Ok(answer) => {
                    let found = if answer.row.is_some() { "+" } else { "" };
                    format!(" {found}{}", answer.watermark.unwrap_or(0))
                }
                Err(_) => " ?".to_owned(),
            });
        }
        let stats = gate.brief_stats();
        answers.push_str(&format!(
            " | {} {} {} {}\n",
            u8::from(stats.blocking),
            u8::from(stats.blocking && stats.rebuild.done == 0 && stats.rebuild.running.is_none()),
            stats.audit.wrong,
            stats.rebuild.done
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
    /// Whether there is a row, and as of when; 0 if it does not say.
    each: Vec<(bool, u64)>,
    blocking: bool,
    caught_up: bool,
    wrong: u64,
    rebuilds: u64,
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
            let each: Vec<(bool, u64)> = each
                .split_whitespace()
                .map(|part| match part.strip_prefix('+') {
                    Some(watermark) => (true, watermark.parse().unwrap()),
                    None if part == "?" => (false, 0),
                    None => (false, part.parse().unwrap()),
                })
                .collect();
            assert_eq!(each.len(), keys.len());
            return Answers {
                each,
                blocking: state[0] == 1,
                caught_up: state[1] == 1,
                wrong: state[2],
                rebuilds: state[3],
            };
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

/// A key whose commit was acknowledged.
struct Known {
    key: String,
    written: u64,
    /// Somebody has begun to delete it.
    going: bool,
    /// When its deletion was acknowledged.
    deleted: Option<u64>,
}

/// Keys that were acknowledged.
#[derive(Default)]
struct Acknowledged(Mutex<Vec<Known>>);

impl Acknowledged {
    /// A key of a writer that it deletes next: nobody counts on it from now on.
    fn give_up(&self, number: usize) -> Option<(usize, String)> {
        let mut known = self.0.lock().unwrap();
        let own = format!("w{number}-");
        let found = known.iter_mut().enumerate().rfind(|(_, known)| !known.going && known.key.starts_with(&own));
        found.map(|(at, known)| {
            known.going = true;
            (at, known.key.clone())
        })
    }
}

/// A writer: a client program in a process, and the lines it is given for a key. The last of them prints the key.
struct Writer {
    program: Box<dyn Fn() -> Command + Send>,
    lines: Box<dyn Fn(&str) -> String + Send>,
}

/// The number of the next key of whichever writer.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Writes until it is told to stop; killed, it starts again. Of four keys one is deleted again.
fn write(number: usize, writer: Writer, to: &Acknowledged, process: &Mutex<Option<u32>>, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        let mut child =
            (writer.program)().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        *process.lock().unwrap() = Some(child.id());
        let (mut input, mut output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        // Whether the program has done some lines and said so.
        let mut done = |lines: &str, key: &str| {
            if input.write_all(lines.as_bytes()).and_then(|()| input.flush()).is_err() {
                return false;
            }
            let mut line = String::new();
            while line.trim() != key {
                line.clear();
                if !output.read_line(&mut line).is_ok_and(|read| read > 0) {
                    return false;
                }
            }
            true
        };
        while !stop.load(SeqCst) {
            let next = NEXT.fetch_add(1, SeqCst);
            let key = format!("w{number}-{next}");
            if !done(&(writer.lines)(&key), &key) {
                break;
            }
            to.0.lock().unwrap().push(Known { key, written: now(), going: false, deleted: None });
            if next.is_multiple_of(4)
                && let Some((at, gone)) = to.give_up(number)
            {
                if !done(&format!("DELETE FROM t WHERE k = '{gone}';\nSELECT '{gone}';\n"), &gone) {
                    break;
                }
                to.0.lock().unwrap()[at].deleted = Some(now());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        *process.lock().unwrap() = None;
        _ = child.kill();
        child.wait().unwrap();
        // The server may be down.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Kills writers, gates and (`crash`) the server for some rounds, and asks all the time.
fn kill_and_ask(test: &str, source: &str, writers: Vec<Writer>, seed: u64, mut crash: Option<&mut dyn FnMut(u64)>) {
    let folder = tempfile::tempdir().unwrap();
    let (known, stop) = (Acknowledged::default(), AtomicBool::new(false));
    let processes: Vec<Mutex<Option<u32>>> = writers.iter().map(|_| Mutex::default()).collect();
    let mut random = Random(seed);
    let (mut no, mut answers, mut caught_up, mut kills, mut rebuilds) = (0u64, 0u64, 0u64, 0u64, 0u64);
    std::thread::scope(|scope| {
        for (number, writer) in writers.into_iter().enumerate() {
            let (known, process, stop) = (&known, &processes[number], &stop);
            scope.spawn(move || write(number, writer, known, process, stop));
        }
        let ended = Stop(&stop);
        let mut gate = GateProcess::start(test, source, folder.path());
        for round in 0..rounds() {
            let (begun, lasts) = (Instant::now(), Duration::from_millis(200 + random.below(1500)));
            let (mut had_blocked, mut built) = (false, 0);
            // At least until it has said no in this round: a kill before that proves little.
            while begun.elapsed() < lasts || (!had_blocked && begun.elapsed() < Duration::from_secs(20)) {
                let asked = sample(&known, &mut random);
                let keys: Vec<String> = asked.iter().map(|(key, _)| key.clone()).collect();
                let said = gate.ask(&keys);
                answers += keys.len() as u64;
                let known = known.0.lock().unwrap();
                for ((key, at), (found, watermark)) in asked.iter().zip(&said.each) {
                    no += u64::from(!found && *watermark > 0);
                    let Some(at) = at else { continue };
                    let Known { written, going, deleted, .. } = &known[*at];
                    // Milliseconds: in the same one it may have been committed after.
                    assert!(
                        *found || *going || watermark <= written,
                        "round {round}: {key} was acknowledged at {written}, and is absent as of {watermark}"
                    );
                    assert!(
                        !found || deleted.is_none_or(|deleted| *watermark <= deleted),
                        "round {round}: {key} was deleted at {deleted:?}, and is there as of {watermark}"
                    );
                }
                assert_eq!(said.wrong, 0, "an audit found a wrong no");
                built = said.rebuilds;
                if said.blocking && !had_blocked {
                    (had_blocked, caught_up) = (true, caught_up + u64::from(said.caught_up));
                }
            }
            assert!(had_blocked, "round {round}: the gate never said no");
            rebuilds += built;
            kills += 1;
            if let (Some(crash), 1) = (&mut crash, round % 3) {
                crash(random.below(2));
                continue;
            }
            let victim = random.below(WRITERS as u64 + 2) as usize;
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
        let all: Vec<String> =
            known.0.lock().unwrap().iter().filter(|known| !known.going).map(|known| known.key.clone()).collect();
        assert!(all.len() > 20, "{} keys were written", all.len());
        for part in all.chunks(100) {
            while gate.ask(part).each.iter().any(|(found, _)| !found) {
                assert!(begun.elapsed() < Duration::from_secs(30), "some keys are never found");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    });
    let known = known.0.lock().unwrap();
    let (keys, deleted) = (known.len(), known.iter().filter(|known| known.deleted.is_some()).count());
    println!(
        "{keys} keys acknowledged, {deleted} deletions, {answers} answers, {no} of them no, {kills} kills, {rebuilds} rebuilds, \
         {caught_up} rounds begun without a scan"
    );
    assert!(no > 0 && deleted > 0 && rebuilds > 0, "{no} no, {deleted} deletions, {rebuilds} rebuilds");
}

/// Lets writers end, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Keys to ask for, with their places among the known ones: the newest, some others, the last that were deleted; some that are
/// about to be written, so that they are remembered as absent; and some that never are.
fn sample(known: &Acknowledged, random: &mut Random) -> Vec<(String, Option<usize>)> {
    let known = known.0.lock().unwrap();
    let mut places: Vec<usize> = (0..known.len()).rev().take(5).collect();
    places.extend((0..10.min(known.len())).map(|_| random.below(known.len() as u64) as usize));
    places.extend((0..known.len()).rev().filter(|&at| known[at].deleted.is_some()).take(3));
    let mut asked: Vec<(String, Option<usize>)> =
        places.into_iter().map(|at| (known[at].key.clone(), Some(at))).collect();
    let next = NEXT.load(SeqCst);
    asked.extend((0..4).map(|_| (format!("w{}-{}", random.below(WRITERS as u64), next + random.below(3)), None)));
    asked.extend((0..3).map(|_| (format!("never-{}", random.below(1 << 40)), None)));
    asked
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
    // So many that those which go while a gate is down are few.
    database.execute_batch("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) INSERT INTO t SELECT 'f-' || i, 1 FROM n").unwrap();
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
                // Gone in between: what is remembered of that is forgotten.
                1 => format!(
                    "INSERT INTO t VALUES ('{key}', 1);\nDELETE FROM t WHERE k = '{key}';\nINSERT OR REPLACE INTO t VALUES ('{key}', 1);\nSELECT '{key}';\n"
                ),
                _ => format!(
                    "BEGIN IMMEDIATE; INSERT INTO t VALUES ('{key}-', 1); UPDATE t SET k = '{key}' WHERE k = '{key}-'; COMMIT;\nSELECT '{key}';\n"
                ),
            }),
        }
    };
    let test = "feeds::killing::kills_of_gates_and_of_writers_to_sqlite_lose_nothing";
    kill_and_ask(test, path.to_str().unwrap(), (0..WRITERS).map(writer).collect(), 1, None);
}

#[cfg(feature = "postgres")]
#[test]
fn kills_of_gates_of_writers_and_of_postgres_lose_nothing() {
    use bloomgate_gate::feed::FeedPlan;
    use bloomgate_gate::sources::Postgres;

    use crate::postgres_process::PostgresProcess;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Ok(url) = std::env::var(SOURCE) {
        return runtime.block_on(async {
            be_the_gate(Arc::new(Postgres::connect(&url, "t", "k", 4).await.unwrap())).await;
        });
    }
    // One of its own: it is killed too.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = PostgresProcess::start(port, &[], &["listen_addresses="]);
    let url = format!("postgres://tester@{}:{port}/postgres", server.host());
    runtime.block_on(async {
        let (other, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let table = "CREATE TABLE t (k text PRIMARY KEY, v int); INSERT INTO t SELECT 'f-' || i, 1 FROM generate_series(1, 1000) AS i";
        other.batch_execute(table).await.unwrap();
        Postgres::install_feed(&url, "t", "k", &FeedPlan::default(), false).await.unwrap();
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
                // Gone in between: what is remembered of that is forgotten.
                1 => format!(
                    "INSERT INTO t VALUES ('{key}', 1);\nDELETE FROM t WHERE k = '{key}';\nINSERT INTO t VALUES ('{key}', 1) ON CONFLICT (k) DO UPDATE SET v = 2;\nSELECT '{key}';\n"
                ),
                // Long, so that others commit between its write and its end.
                _ => format!(
                    "BEGIN;\nINSERT INTO t VALUES ('{key}', 1);\nSELECT pg_sleep(0.05);\nCOMMIT;\nSELECT '{key}';\n"
                ),
            }),
        }
    };
    let test = "feeds::killing::kills_of_gates_of_writers_and_of_postgres_lose_nothing";
    let mut crash = |which| {
        server.end(["-QUIT", "-KILL"][which as usize]);
        server.start_again(false);
    };
    kill_and_ask(test, &url, (0..WRITERS).map(writer).collect(), 2, Some(&mut crash));
}
