//! What the user of one namespace sees and pays, beside another one that has very many filters.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bloomgate_server::store::Fsync;
use serde_json::{Value, json};

use crate::events::Stream;
use crate::harness::{Client, PATIENCE, Running};

/// Gives commands over RESP, a thousand at a time; each is answered with OK.
fn all_are_done(running: &Running, lines: impl Iterator<Item = String>) {
    let mut stream = BufReader::new(TcpStream::connect(running.resp).unwrap());
    stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let lines: Vec<String> = lines.collect();
    for some in lines.chunks(1_000) {
        stream.get_mut().write_all(some.concat().as_bytes()).unwrap();
        for line in some {
            let mut reply = String::new();
            stream.read_line(&mut reply).unwrap();
            assert_eq!(reply, "+OK\r\n", "{line}");
        }
    }
}

/// Declares the namespaces of ann and bob, with these limits for bob's.
fn with_ann_and_bob(running: &Running, limits: &str) -> (Client, Client) {
    let lines = [
        "BG.NAMESPACE SET a PREFIX a:".to_owned(),
        format!("BG.NAMESPACE SET b PREFIX b: {limits}"),
        "ACL SETUSER ann on >p +@all namespace=a".to_owned(),
        "ACL SETUSER bob on >p +@all namespace=b".to_owned(),
    ];
    assert_eq!(running.resp(&lines.each_ref().map(|line| &**line)), ["+OK"; 4]);
    let client = |name| Client::new(running.http).login(name, "p");
    (client("ann"), client("bob"))
}

fn names(list: &Value) -> Vec<&str> {
    list["filters"].as_array().unwrap().iter().map(|filter| filter["name"].as_str().unwrap()).collect()
}

/// Lists, advice, streams and commands tell of the own filters, however many others were made before them.
#[test]
fn very_many_filters_of_another_hide_none() {
    let running = Running::start();
    let (mut ann, mut bob) = with_ann_and_bob(&running, "");
    all_are_done(&running, (0..100_100).map(|number| format!("BF.RESERVE b:u{number} 0.01 10\r\n")));
    let mine = json!({"name": "mine", "kind": "blocked", "capacity": 10, "rate": 0.0001, "on_full": "goon"});
    ann.json("POST", "/v1/filters", &mine).is(201);
    let keys: Vec<String> = (0..100).map(|key| key.to_string()).collect();
    ann.json("POST", "/v1/filters/mine/add", &json!({"keys": keys})).is(200);
    for path in ["/v1/filters", "/v1/filters?match=mine*", "/v1/filters?sort=bits&order=desc"] {
        let list = ann.get(path).is(200).json();
        assert_eq!(
            (names(&list), &list["total"], &list["truncated"]),
            (vec!["mine"], &json!(1), &json!(false)),
            "{path}"
        );
    }
    let advice = ann.get("/v1/advice").is(200).json();
    assert_eq!(advice["advice"][0]["about"], "mine", "{advice}");
    let mut stream = Stream::open(&running, Some("ann:p"));
    let stats = stream.next("stats", |stats| stats["filters"] != json!([])).unwrap();
    assert_eq!((&stats["filters"][0]["name"], &stats["filters"][0]["adds"]), (&json!("mine"), &json!(100)));
    let mut say = |argv: Value| ann.json("POST", "/v1/command", &json!({"argv": argv})).is(200).json()["reply"].clone();
    assert_eq!(say(json!(["SCAN", "0"])), json!(["0", ["mine"]]));
    assert_eq!(say(json!(["KEYS", "*"])), json!(["mine"]));
    assert_eq!(say(json!(["RANDOMKEY"])), "mine");
    // Who has all names finds it among all, and who has most of them finds the last by its name.
    let mut root = running.client();
    let found = root.get("/v1/filters?match=a:*").is(200).json();
    assert_eq!((names(&found), &found["truncated"]), (vec!["a:mine"], &json!(false)));
    assert_eq!(root.get("/v1/filters").is(200).json()["truncated"], true);
    assert_eq!(names(&bob.get("/v1/filters?match=u100099").is(200).json()), ["u100099"]);
    let all = bob.get("/v1/filters?limit=1").is(200).json();
    assert!(all["truncated"] == true && all["total"].as_u64().unwrap() >= 100_000, "{all}");
    running.stop();
}

/// A filter is listed for the users of the namespace whose name it has, whatever way it came to it; also after a restart.
#[test]
fn filters_are_listed_where_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start_in(folder.path(), Fsync::Always);
    let (mut ann, mut bob) = with_ann_and_bob(&running, "");
    let check = |ann: &mut Client, wanted: &[&str]| {
        assert_eq!(names(&ann.get("/v1/filters").is(200).json()), wanted);
        let scanned = ann.json("POST", "/v1/command", &json!({"argv": ["SCAN", "0", "COUNT", "100"]})).is(200).json();
        let mut scanned: Vec<String> = serde_json::from_value(scanned["reply"][1].clone()).unwrap();
        scanned.sort();
        assert_eq!(scanned, wanted);
    };
    for name in ["a:1", "b:1", "b:2", "free", "a:2", "late:1"] {
        assert_eq!(running.resp(&[&format!("BF.RESERVE {name} 0.01 100")]), ["+OK"]);
    }
    check(&mut ann, &["1", "2"]);
    for (line, of_ann, of_bob) in [
        ("RENAME b:1 a:3", &["1", "2", "3"][..], &["2"][..]),
        ("RENAME free a:1", &["1", "2", "3"], &["2"]),
        ("BG.SWAP b:2 a:3", &["1", "2", "3"], &["2"]),
        ("RENAME a:2 out", &["1", "3"], &["2"]),
        ("BG.SWAP out b:2", &["1", "3"], &["2"]),
        ("COPY a:1 b:9", &["1", "3"], &["2", "9"]),
        ("DEL a:3", &["1"], &["2", "9"]),
        ("BG.REKEY a:1 START", &["1"], &["2", "9"]),
        // Filters whose names another namespace takes over are its, until it is no more.
        ("BG.NAMESPACE SET c PREFIX b:9", &["1"], &["2"]),
        ("BG.NAMESPACE DEL c", &["1"], &["2", "9"]),
        ("RENAME b:9 a:1:x", &["1", "1:x"], &["2"]),
        ("PEXPIREAT a:1:x 1", &["1"], &["2"]),
    ] {
        let said = running.resp(&[line]);
        assert!(said[0].starts_with(['+', ':']), "{line}: {said:?}");
        check(&mut ann, of_ann);
        check(&mut bob, of_bob);
    }
    running.stop();
    running = Running::start_in(folder.path(), Fsync::Always);
    let client = |name| Client::new(running.http).login(name, "p");
    (ann, bob) = (client("ann"), client("bob"));
    check(&mut ann, &["1"]);
    check(&mut bob, &["2"]);
    bob.json("POST", "/v1/command", &json!({"argv": ["FLUSHALL"]})).is(200);
    check(&mut bob, &[]);
    check(&mut ann, &["1"]);
    assert_eq!(running.resp(&["FLUSHALL", "BF.RESERVE a:4 0.01 100"]), ["+OK", "+OK"]);
    check(&mut ann, &["4"]);
    running.stop();
}

/// How often the namespace b had to wait.
fn waits(client: &mut Client) -> u64 {
    let told = client.get("/metrics").is(200);
    let line =
        told.text().lines().find_map(|line| line.strip_prefix("bloomgate_namespace_waits_total{namespace=\"b\"}"));
    line.unwrap().trim().parse().unwrap()
}

/// Whatever a bound user looks at costs items of its namespace; whoever has all names pays nothing.
#[test]
fn looks_are_paid_for() {
    let running = Running::start();
    let (_, mut bob) = with_ann_and_bob(&running, "ITEMSPERSECOND 1000");
    all_are_done(&running, (0..1_000).map(|number| format!("BF.RESERVE b:u{number} 0.01 10\r\n")));
    let mut root = running.client();
    let paths = [
        "/v1/filters?limit=1",
        "/v1/filters?sort=bits&match=u1*",
        "/v1/advice",
        "/v1/overview",
        "/v1/alerts",
        "/v1/plan?items=1000",
        "/v1/filters/u1",
        "/v1/filters/u1/heat",
        "/v1/filters/u1/explain?key=x",
        "/v1/filters/u1/snapshot",
        "/v1/commands",
    ];
    let begun = Instant::now();
    for path in paths {
        root.get(&path.replace("/u1", "/b:u1")).is(200);
    }
    let free = begun.elapsed();
    assert_eq!(waits(&mut root), 0);
    // Of 1,100 items 512 may come at once, whatever the machine does meanwhile.
    let begun = Instant::now();
    bob.get("/v1/advice").is(200);
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(500), "{took:?}, and {free:?} for all of them without a limit");
    // A list costs as much as SCAN for the filters it looks at, as a long command, and 1 for each row: 300.
    let begun = Instant::now();
    (0..3).for_each(|_| drop(bob.get("/v1/filters").is(200)));
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(300) && took < Duration::from_secs(10), "{took:?}");
    // A machine that has much else to do may take so long between two of them that there is nothing to wait for.
    assert_eq!(running.resp(&["BG.NAMESPACE SET b ITEMSPERSECOND 200"]), ["+OK"]);
    for path in &paths[3..] {
        let before = waits(&mut root);
        let has_waited = (0..30).any(|_| {
            bob.get(path).is(200);
            waits(&mut root) > before
        });
        assert!(has_waited, "{path}");
    }
    // A stream pays for each look around.
    let mut stream = Stream::open(&running, Some("bob:p"));
    assert_eq!(running.resp(&["BG.NAMESPACE SET b ITEMSPERSECOND 50"]), ["+OK"]);
    bob.get("/v1/filters").is(200);
    let before = waits(&mut root);
    let has_waited = (0..8).any(|_| {
        stream.next("stats", |_| true).unwrap();
        waits(&mut root) > before
    });
    assert!(has_waited);
    // The other tenant has no part in it, nor has whoever asks whether the server is well.
    Client::new(running.http).login("ann", "p").get("/v1/filters").is(200);
    for path in ["/healthz", "/readyz", "/metrics"] {
        root.get(path).is(200);
    }
    running.stop();
}

/// The threads of HTTP are a step behind those that answer RESP.
#[cfg(target_os = "linux")]
#[test]
fn threads_of_http_step_back() {
    let running = Running::start();
    running.client().get("/healthz").is(200);
    let mut seen = Vec::new();
    for task in std::fs::read_dir("/proc/self/task").unwrap() {
        let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("stat")) else { continue };
        let (name, rest) = stat.split_once('(').unwrap().1.rsplit_once(") ").unwrap();
        // The 19th field, of which two stand before.
        let nice: i32 = rest.split(' ').nth(16).unwrap().parse().unwrap();
        if name.starts_with("bloomgate-http") || name.starts_with("bloomgate-net") {
            seen.push((name.to_owned(), nice));
        }
    }
    let of = |start: &str| {
        seen.iter().filter(|(name, _)| name.starts_with(start)).map(|(_, nice)| *nice).collect::<Vec<_>>()
    };
    let (http, reactors) = (of("bloomgate-http"), of("bloomgate-net"));
    assert!(http.len() >= 3 && reactors.len() == 2, "{seen:?}");
    assert!(http.iter().all(|nice| *nice == reactors[0] + 5), "{seen:?}");
    running.stop();
}

/// A tenant raises no limits, so it is not told how: over HTTP as over RESP.
#[test]
fn limits_of_a_namespace_are_for_those_to_raise_who_run_the_server() {
    let running = Running::start();
    let (_, mut bob) = with_ann_and_bob(&running, "");
    let [file, large] = [100, 1_000_000].map(|capacity| {
        bob.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": capacity})).is(201);
        let file = bob.get("/v1/filters/f/snapshot").is(200).body;
        bob.delete("/v1/filters/f").is(204);
        file
    });
    bob.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100})).is(201);
    assert_eq!(running.resp(&["BG.NAMESPACE SET b MAXFILTERS 1 MAXMEMORY 100000"]), ["+OK"]);
    let mut bring = |name: &str, body: &[u8]| {
        let told = bob.send(
            "PUT",
            &format!("/v1/filters/{name}/snapshot"),
            &[("content-type", "application/octet-stream")],
            body,
        );
        assert!(told.status == 422 || told.status == 507, "{told:?}");
        told.json()["detail"].as_str().unwrap().to_owned()
    };
    let many = bring("g", &file);
    assert!(
        many.contains("has 1 filter and may have 1: delete some, or ask whoever runs the server to raise it"),
        "{many}"
    );
    let large = bring("f", &large);
    assert!(large.contains("ask whoever runs the server to raise it"), "{large}");
    assert!(![&many, &large].iter().any(|why| why.contains("BG.NAMESPACE") || why.contains("b:")), "{many}; {large}");
    running.stop();
}
