//! Trying the server out: what it says when nobody names a folder, and `--demo`, in which every page has something to show.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use redis::cmd;
use serde_json::Value;

use crate::got::Got;
use crate::scene::Scene;
use crate::serve::refused;
use crate::service::{PATIENCE, Running, bloomgate};

/// How long a demo may take until everything moves. Growth is known after two looks, ten seconds apart.
const MOVES: Duration = Duration::from_secs(90);

fn get(address: &str, path: &str) -> Got {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Got::read(&answer)
}

/// What stands behind a word of the greeting.
fn behind<'a>(said: &'a str, word: &str) -> &'a str {
    let line = said.lines().find(|line| line.trim_start().starts_with(word));
    line.unwrap_or_else(|| panic!("no {word} in {said}")).trim_start()[word.len()..].trim_start()
}

fn address_of(said: &str, word: &str) -> String {
    behind(said, word).strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned()
}

#[test]
fn who_names_no_folder_is_told_what_to_try() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--http 127.0.0.1:0", &[]);
    server.wait_for("curl http");
    let said = server.said();
    assert!(said.starts_with("bloomgate: ready on "), "{said}");
    assert_eq!(behind(&said, "Redis protocol"), format!("127.0.0.1:{}", server.port));
    let http = address_of(&said, "Dashboard");
    assert!(get(&http, "/").body.contains("<title>"));
    let tries: Vec<&str> = said.split("  Try\n").nth(1).unwrap().lines().map(str::trim).collect();
    assert_eq!(tries.len(), 3, "{said}");
    // What is told to be tried works, in its order.
    let client = format!("redis-cli -p {} ", server.port);
    for line in &tries[..2] {
        let words: Vec<&str> = line.strip_prefix(&client).unwrap().split(' ').collect();
        cmd(words[0]).arg(&words[1..]).exec(&mut server.client(2)).unwrap();
    }
    let got = get(&http, tries[2].strip_prefix(&format!("curl http://{http}")).unwrap());
    assert_eq!((got.status, &got.json()["maybe"]), (200, &Value::Bool(true)), "{}", got.body);
    server.stop();
    assert!(scene.path("bloomgate-data").is_dir());
}

#[test]
fn who_names_a_folder_or_reads_json_is_not_greeted() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--http none --data there", &[]);
    let said = server.stop();
    assert!(!said.contains("Try") && !said.contains("Redis protocol"), "{said}");
    let mut command = bloomgate(&scene, "serve --resp 127.0.0.1:0 --http none --log-format json", &[]);
    let server = Running::spawn(&mut command, |line| {
        let told: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}"));
        told["address"].as_str()?.rsplit(':').next()?.parse().ok()
    });
    let said = server.stop();
    assert!(said.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{said}");
}

/// Everything that the pages of a server draw, once it moves.
fn everything_moves(http: &str) -> Result<(), String> {
    let ask = |path: &str| {
        let got = get(http, path);
        assert_eq!(got.status, 200, "{path}: {}", got.body);
        got.json()
    };
    let wanted = |is: bool, what: &str, found: &Value| if is { Ok(()) } else { Err(format!("{what}: {found}")) };
    let overview = ask("/v1/overview");
    for rate in ["lookups", "definitely_not", "adds", "commands"] {
        let found = &overview["per_second"][rate];
        wanted(found.as_f64().unwrap_or(0.0) > 1.0, rate, found)?;
    }
    wanted(overview["latency"]["p50_seconds"].is_number(), "latency", &overview["latency"])?;
    wanted(overview["clients"]["resp"].as_u64() >= Some(3), "clients", &overview["clients"])?;
    let list = ask("/v1/filters?limit=50");
    let filters = list["filters"].as_array().unwrap();
    let kinds: HashSet<&str> = filters.iter().map(|filter| filter["kind"].as_str().unwrap()).collect();
    for kind in [
        "scalable",
        "blocked",
        "classic",
        "partitioned",
        "counting",
        "cuckoo",
        "growing-cuckoo",
        "quotient",
        "rotating",
        "stable",
    ] {
        wanted(kinds.contains(kind), kind, &list)?;
    }
    let spaces: HashSet<&str> = filters.iter().filter_map(|filter| filter["namespace"].as_str()).collect();
    wanted(spaces.len() == 2, "two namespaces", &list)?;
    let of = |name: &str, field: &str| {
        filters.iter().find(|filter| filter["name"] == name).map_or(Value::Null, |filter| filter[field].clone())
    };
    // "Full in 3 days", give or take.
    let full_in = of("crawler:visited", "full_in_seconds");
    wanted((2.0..3.5).contains(&(full_in.as_f64().unwrap_or(0.0) / 86_400.0)), "full in three days", &full_in)?;
    for (name, field) in
        [("sessions:live", "removed"), ("carts:open", "removed"), ("invites:sent", "refused"), ("users", "maybe")]
    {
        wanted(of(name, field).as_u64() > Some(0), field, &of(name, field))?;
    }
    wanted(of("crawler:visited", "fill").is_number(), "fill", &list)?;
    let alerts = ask("/v1/alerts");
    let names: Vec<(&str, &str)> = alerts["alerts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|alert| (alert["name"].as_str().unwrap(), alert["filter"].as_str().unwrap()))
        .collect();
    for name in ["BloomgateOverCapacity", "BloomgateRateTooHigh"] {
        wanted(names.contains(&(name, "mail:suppressed")), name, &alerts)?;
    }
    wanted(names.iter().all(|(_, filter)| *filter == "mail:suppressed"), "nothing else is wrong", &alerts)?;
    let advice = ask("/v1/advice");
    let about: HashSet<&str> =
        advice["advice"].as_array().unwrap().iter().filter_map(|one| one["about"].as_str()).collect();
    for filter in ["mail:suppressed", "coupons:used", "crawler:visited", "pages:cached"] {
        wanted(about.contains(filter), filter, &advice)?;
    }
    wanted(!about.contains("log:lines"), "a stable filter is never too full", &advice)?;
    let slow = ask("/v1/slowlog");
    wanted(!slow["slow"].as_array().unwrap().is_empty(), "slow log", &slow)
}

/// Everything that the page of a gate draws.
fn gate_moves(gate: &str) -> Result<(), String> {
    let stats = get(gate, "/stats").json();
    for outcome in ["absent-by-filter", "negative-cached", "cache", "source", "not-found"] {
        if stats["lookups"][outcome].as_u64() == Some(0) {
            return Err(format!("{outcome}: {}", stats["lookups"]));
        }
    }
    let moves = stats["blocking"] == true && stats["writes"]["puts"].as_u64() > Some(0);
    if moves { Ok(()) } else { Err(stats.to_string()) }
}

#[test]
fn in_a_demo_everything_moves_and_nothing_stays() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("tmp")).unwrap();
    let temporary = scene.path("tmp");
    let variables = [("TMPDIR", temporary.to_str().unwrap())];
    let server = Running::serve(&scene, "--demo --http 127.0.0.1:0", &variables);
    server.wait_for("curl http");
    let said = server.said();
    let (http, gate) = (address_of(&said, "Dashboard"), address_of(&said, "Gate"));
    assert!(behind(&said, "Demo").contains(temporary.to_str().unwrap()), "{said}");
    let begun = Instant::now();
    while let Err(still) = everything_moves(&http).and_then(|()| gate_moves(&gate)) {
        assert!(begun.elapsed() < MOVES, "{still}");
        std::thread::sleep(Duration::from_millis(500));
    }
    // The attack can be started from the gate's page.
    assert_eq!(get(&gate, "/about.json").json()["attack"], "/attack");
    let stopping = Instant::now();
    let said = server.stop();
    assert!(stopping.elapsed() < Duration::from_secs(10), "{:?}", stopping.elapsed());
    assert!(!said.contains("note:") && !said.contains("error:"), "{said}");
    let files = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(files(&temporary), 0, "its folders are gone");
    assert_eq!(files(&scene.path("")), 1, "and nothing is where it was started");
    assert!(TcpStream::connect(&gate).is_err() && TcpStream::connect(&http).is_err());
}

#[test]
fn a_demo_touches_nothing_of_anybody_and_may_be_kept() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data mine --http none", &[]);
    cmd("BF.ADD").arg("seen").arg("alice").exec(&mut server.client(2)).unwrap();
    server.stop();
    refused(&scene, "--demo --data mine", &[], &["--demo: mine is not empty", "leave out --data"]);
    refused(&scene, "--demo", &[("BLOOMGATE_DATA", "mine")], &["mine is not empty"]);
    refused(&scene, "--demo", &[("BLOOMGATE_PASSWORD", "secret")], &["do not log in"]);
    let server = Running::serve(&scene, "--data mine --http none", &[]);
    let names: Vec<String> = cmd("KEYS").arg("*").query(&mut server.client(2)).unwrap();
    assert_eq!(names, ["seen"]);
    server.stop();
    // In a new folder that was named it stays, and a usual server goes on with it.
    let server = Running::serve(&scene, "--demo --data shown --http none", &[]);
    let begun = Instant::now();
    let size = |server: &Running| cmd("DBSIZE").query::<u64>(&mut server.client(2)).unwrap();
    while size(&server) < 16 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = server.stop();
    assert!(said.contains("with live traffic, kept") && !said.contains("Gate "), "{said}");
    let server = Running::serve(&scene, "--data shown --http none", &[]);
    assert_eq!(size(&server), 16);
    server.stop();
}
