//! A write with an Idempotency-Key that comes again is not done again.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate_server::Settings;
use bloomgate_server::store::{FaultyDisk, Fsync, RealDisk};
use serde_json::json;

use crate::harness::{Client, PATIENCE, Running, settings};

#[test]
fn the_same_request_gets_the_same_answer() {
    let running = Running::start();
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "counting", "capacity": 1_000, "rate": 0.01}))
        .is(201);
    let key = [("idempotency-key", "8e03978e-40d5"), ("content-type", "text/plain")];
    let first = client.send("POST", "/v1/filters/f/add", &key, b"alice\n").is(200);
    assert_eq!((first.text(), first.header("idempotency-replayed")), ("1\n", None));
    let again = client.send("POST", "/v1/filters/f/add", &key, b"alice\n").is(200);
    assert_eq!((again.text(), again.header("idempotency-replayed")), ("1\n", Some("true")));
    assert_eq!(again.header("bloomgate-new"), Some("1"));
    assert_eq!(client.get("/v1/filters/f/keys/alice/count").json()["count"], 1, "it was added once");
    for (path, body) in [("/v1/filters/f/add", "bob\n"), ("/v1/filters/f/remove", "alice\n")] {
        client.send("POST", path, &key, body.as_bytes()).problem(422, "key-reused");
    }
    // Refusals are answers too; another user's key is another key.
    let key = [("idempotency-key", "second")];
    client.send("DELETE", "/v1/filters/none", &key, b"").problem(404, "not-found");
    assert_eq!(
        client.send("DELETE", "/v1/filters/none", &key, b"").is(404).header("idempotency-replayed"),
        Some("true")
    );
    running.resp(&["ACL SETUSER other on >secret +@all"]);
    let mut other = Client::new(running.http).login("other", "secret");
    assert_eq!(other.send("DELETE", "/v1/filters/none", &key, b"").is(404).header("idempotency-replayed"), None);
    client.send("PUT", "/v1/filters/f/keys/x", &[("idempotency-key", "a b")], b"").problem(400, "bad-request");
    let long = [("idempotency-key", "long"), ("content-type", "text/plain")];
    client.send("POST", "/v1/filters/f/add", &long, &b"x\n".repeat(600_000)).problem(413, "too-large");
    running.stop();
}

#[test]
fn a_removal_is_not_done_twice_even_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_in(folder.path(), Fsync::Always);
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "counting", "capacity": 1_000, "rate": 0.01}))
        .is(201);
    client.json("POST", "/v1/filters/f/add", &json!({"keys": ["a", "a", "b", "b"]})).is(200);
    let key = [("idempotency-key", "remove-once"), ("content-type", "application/json")];
    let body = json!({"keys": ["a"]}).to_string();
    assert_eq!(client.send("POST", "/v1/filters/f/remove", &key, body.as_bytes()).is(200).json()["removed"], 1);
    client.send("DELETE", "/v1/filters/f/keys/b", &[("idempotency-key", "one")], b"").is(200);
    running.stop();
    let running = Running::start_in(folder.path(), Fsync::Always);
    let mut client = running.client();
    let again = client.send("POST", "/v1/filters/f/remove", &key, body.as_bytes()).is(200);
    assert_eq!((again.json()["removed"].as_u64(), again.header("idempotency-replayed")), (Some(1), None));
    client.send("DELETE", "/v1/filters/f/keys/b", &[("idempotency-key", "one")], b"").is(200);
    for key in ["a", "b"] {
        assert_eq!(client.get(&format!("/v1/filters/f/keys/{key}/count")).json()["count"], 1, "{key}");
    }
    running.stop();
}

/// A server whose disk holds up what is written to it.
fn on_a_held_disk(folder: &std::path::Path) -> (FaultyDisk, Running) {
    let disk = FaultyDisk::new(RealDisk);
    let kept = Settings { data: Some(folder.to_path_buf()), fsync: Fsync::Always, ..settings() };
    let running = Running::start_on(Arc::new(disk.clone()), kept);
    (disk, running)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The client goes before it is answered, and asks again: by then it is done, and not done twice.
#[test]
fn what_was_done_for_a_client_that_left_is_not_done_again() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, running) = on_a_held_disk(folder.path());
    let mut client = running.client();
    for (name, capacity) in [("a", 1_000), ("b", 2_000)] {
        let wish = json!({"name": name, "kind": "counting", "capacity": capacity, "rate": 0.01});
        client.json("POST", "/v1/filters", &wish).is(201);
    }
    let requests = [
        ("/v1/filters/a/swap", "application/json", json!({"with": "b"}).to_string()),
        ("/v1/filters/a/add", "text/plain", "alice\n".to_owned()),
    ];
    for (path, kind, body) in requests {
        let headers = [("idempotency-key", path), ("content-type", kind)];
        disk.hold_syncs(true);
        let mut leaves = running.client();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nidempotency-key: {path}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        leaves.put_raw([head.as_bytes(), body.as_bytes()].concat().as_slice());
        until("nothing was written", || disk.syncing() > 0);
        drop(leaves);
        // Time enough to notice that nobody is there.
        std::thread::sleep(Duration::from_millis(300));
        client.send("POST", path, &headers, body.as_bytes()).problem(409, "in-use");
        disk.hold_syncs(false);
        until("it never ends", || {
            let answer = client.send("POST", path, &headers, body.as_bytes());
            if answer.status == 409 {
                return false;
            }
            assert_eq!(answer.is(200).header("idempotency-replayed"), Some("true"), "{path}");
            true
        });
    }
    assert_eq!(client.get("/v1/filters/a").json()["capacity"], 2_000, "exchanged once");
    assert_eq!(client.get("/v1/filters/a/keys/alice/count").json()["count"], 1, "added once");
    running.stop();
}

/// "The first 512 keys are done" is said when they are as durable as the policy wants, not before.
#[test]
fn a_problem_that_tells_what_is_done_waits_for_the_disk_too() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, running) = on_a_held_disk(folder.path());
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 10_000})).is(201);
    disk.hold_syncs(true);
    let too_long = [b"ok\n".repeat(1_000), vec![b'x'; (64 << 10) + 1]].concat();
    let (tell, told) = std::sync::mpsc::channel();
    let asking = std::thread::spawn(move || {
        let answer = client.send("POST", "/v1/filters/f/add", &[("content-type", "text/plain")], &too_long);
        tell.send(answer.problem(413, "too-large")).unwrap();
    });
    until("nothing was written", || disk.syncing() > 0);
    assert!(told.recv_timeout(Duration::from_millis(300)).is_err(), "it was told before it was kept");
    disk.hold_syncs(false);
    let why = told.recv_timeout(PATIENCE).unwrap();
    assert!(why.contains("the first 512 keys of the body are done"), "{why}");
    asking.join().unwrap();
    running.stop();
}

/// A file that broke off says nothing about the file: sent again, it is taken.
#[test]
fn a_key_is_free_again_when_the_body_broke_off() {
    let running = Running::start();
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100_000})).is(201);
    let file = client.get("/v1/filters/f/snapshot").is(200);
    let address = file.header("etag").unwrap().trim_matches('"').to_owned();
    let headers = [
        ("content-type", "application/octet-stream"),
        ("content-address", &*address),
        ("idempotency-key", "breaks-off"),
    ];
    let mut leaves = running.client();
    let mut head =
        format!("PUT /v1/filters/g/snapshot HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n", file.body.len());
    headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
    leaves.put_raw(&[head.as_bytes(), b"\r\n", &file.body[..1_000]].concat());
    std::thread::sleep(Duration::from_millis(100));
    drop(leaves);
    until("the key is never free", || {
        // One that is refused closes its connection: the file behind it is longer than what is thrown away.
        let answer = running.client().send("PUT", "/v1/filters/g/snapshot", &headers, &file.body);
        if answer.status == 409 {
            return false;
        }
        assert_eq!(answer.is(201).header("idempotency-replayed"), None);
        true
    });
    running.stop();
}

/// A request: method, path, a header, body, and the role that it needs.
type Keyed<'a> = (&'a str, &'a str, (&'a str, &'a str), &'a [u8], &'a str);

/// An answer is of whoever asked, with what that user may do: not of the next one with that name, nor of one who may no more.
#[test]
fn an_answer_is_given_again_to_the_same_user_who_still_may() {
    let running = Running::start();
    running.resp(&["ACL SETUSER bob on >secret +@all"]);
    let mut admin = running.client();
    admin.json("POST", "/v1/filters", &json!({"name": "f", "kind": "counting", "capacity": 1_000})).is(201);
    let file = admin.get("/v1/filters/f/snapshot").is(200).body;
    let mut bob = Client::new(running.http).login("bob", "secret");
    let json = ("content-type", "application/json");
    let lines = ("content-type", "text/plain");
    let kind = ("content-type", "application/vnd.bloomgate.filter");
    let command = json!({"argv": ["BG.CREATE", "made", "KIND", "blocked", "CAPACITY", "100"]}).to_string();
    // Each with the role that it needs.
    let requests: [Keyed; 6] = [
        ("PUT", "/v1/filters/f/keys/alice", lines, b"", "write"),
        ("POST", "/v1/filters/f/add", lines, b"alice\nbob\n", "write"),
        ("POST", "/v1/filters/f/remove", lines, b"bob\n", "delete"),
        ("PUT", "/v1/filters/f/snapshot", kind, &file, "delete"),
        ("POST", "/v1/command", json, command.as_bytes(), "write"),
        ("PUT", "/v1/namespaces/shop", json, br#"{"prefix":"shop:"}"#, "admin"),
    ];
    let send = |bob: &mut Client, number: usize| {
        let (method, path, kind, body, _) = requests[number];
        bob.send(method, path, &[("idempotency-key", &*number.to_string()), kind], body)
    };
    let replayed = |answer: &crate::harness::Answer| answer.header("idempotency-replayed") == Some("true");
    for number in 0..requests.len() {
        assert!(!replayed(&send(&mut bob, number).is(200)), "{number}");
    }
    for role in ["read", "write", "delete", "admin"] {
        running.resp(&["ACL SETUSER bob -@all", &format!("ACL SETUSER bob +@all -@{role}")]);
        for (number, (_, path, _, _, needs)) in requests.iter().enumerate() {
            let answer = send(&mut bob, number);
            // A filter is told of after it was brought, and its file's place looked at.
            let reads = path.ends_with("/snapshot");
            let may = *needs != role && !(reads && (role == "read" || role == "write"));
            assert_eq!((answer.status, replayed(&answer)), (if may { 200 } else { 403 }, may), "{path} without {role}");
        }
    }
    // Who has it again has the answer again, and nothing was done meanwhile.
    running.resp(&["ACL SETUSER bob +@all"]);
    (0..requests.len()).for_each(|number| assert!(replayed(&send(&mut bob, number).is(200)), "{number}"));
    // Another password is not another user.
    running.resp(&["ACL SETUSER bob resetpass >other"]);
    let mut changed = Client::new(running.http).login("bob", "other");
    assert!(replayed(&send(&mut changed, 0).is(200)));
    // Bound to a namespace, it is about other filters.
    running.resp(&["ACL SETUSER bob namespace=shop"]);
    assert!(!replayed(&send(&mut changed, 0).is(404)));
    running.resp(&["ACL SETUSER bob namespace=*"]);
    assert!(replayed(&send(&mut changed, 0).is(200)));
    // Whoever has the name after it was deleted is another user.
    running.resp(&["ACL DELUSER bob", "ACL SETUSER bob on >secret +@all"]);
    let before = admin.get("/v1/filters/f/keys/alice/count").json()["count"].as_u64().unwrap();
    assert!(!replayed(&send(&mut bob, 0).is(200)));
    assert_eq!(admin.get("/v1/filters/f/keys/alice/count").json()["count"], before + 1);
    running.stop();
}

#[test]
fn with_another_condition_it_is_another_request() {
    let running = Running::start();
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 1_000})).is(201);
    let file = client.get("/v1/filters/f/snapshot").is(200);
    let tag = file.header("etag").unwrap();
    let headers = [("content-type", "application/octet-stream"), ("idempotency-key", "k")];
    let conditions = [
        ("if-none-match", "*"),
        ("if-match", tag),
        ("if-match", "*"),
        ("content-address", tag),
        ("range", "bytes=0-1"),
    ];
    let mut send = |condition: &[(&str, &str)]| {
        client.send("PUT", "/v1/filters/f/snapshot", &[&headers, condition].concat(), &file.body)
    };
    send(&conditions[..1]).problem(412, "precondition-failed");
    assert_eq!(send(&conditions[..1]).is(412).header("idempotency-replayed"), Some("true"));
    send(&[]).problem(422, "key-reused");
    for condition in &conditions[1..4] {
        send(&[*condition]).problem(422, "key-reused");
    }
    // What the route does not read says nothing.
    assert_eq!(send(&[conditions[0], conditions[4]]).is(412).header("idempotency-replayed"), Some("true"));
    running.stop();
}

/// Writes with a key are limited by the memory that their answers take: nobody's answers push out those that were promised, and
/// nobody's are in the way of others.
#[test]
fn who_sends_too_many_with_a_key_is_refused_and_nobody_else() {
    let running = Running::start_with(Settings { client_memory: 1 << 20, ..settings() });
    running.resp(&["ACL SETUSER other on >secret +@all"]);
    let (mut client, mut other) = (running.client(), Client::new(running.http).login("other", "secret"));
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "counting", "capacity": 10_000})).is(201);
    let put = |client: &mut Client, key: &str| {
        client.send("PUT", &format!("/v1/filters/f/keys/{key}"), &[("idempotency-key", key)], b"")
    };
    let mut taken = 0;
    let refused = loop {
        let answer = put(&mut client, &taken.to_string());
        if answer.status != 200 {
            break answer;
        }
        taken += 1;
    };
    assert!((500..1_200).contains(&taken), "{taken} answers in half a mebibyte");
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let why = refused.problem(429, "too-many");
    assert!(why.contains("this user") && why.contains("of 1048576 free"), "{why}");
    for key in ["other-1", "other-2"] {
        put(&mut other, key).is(200);
    }
    // Without a key it is a write like any other, and what was answered is given again, the first as well as the last.
    client.put("/v1/filters/f/keys/plain").is(200);
    for number in [0, taken - 1] {
        let again = put(&mut client, &number.to_string()).is(200);
        assert_eq!(again.header("idempotency-replayed"), Some("true"), "{number}");
        assert_eq!(client.get(&format!("/v1/filters/f/keys/{number}/count")).json()["count"], 1, "{number}");
    }
    assert_eq!(client.get(&format!("/v1/filters/f/keys/{taken}")).json()["answer"], "no", "a refused one was not done");
    running.stop();
}

/// A thousand keyed writes in ten minutes are less than two a second.
#[test]
fn a_program_may_send_every_write_with_a_key() {
    let running = Running::start();
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 10_000})).is(201);
    for number in 0..3_000 {
        let key = number.to_string();
        client.send("PUT", &format!("/v1/filters/f/keys/{key}"), &[("idempotency-key", &*key)], b"").is(200);
    }
    running.stop();
}

/// An answer that there is no room for is not the end of the promise: the request is known, and not done again.
#[test]
fn a_request_whose_answer_is_too_long_to_be_kept_is_not_done_again() {
    let running = Running::start_with(Settings { client_memory: 1 << 20, ..settings() });
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "counting", "capacity": 200_000})).is(201);
    // Two bytes a key, and an answer of six in JSON: 600 KB are more than half of what there is.
    let body = b"k\n".repeat(100_000);
    let headers = [("idempotency-key", "long"), ("content-type", "text/plain"), ("accept", "application/json")];
    let first = client.send("POST", "/v1/filters/f/add", &headers, &body).is(200);
    assert_eq!(first.json()["keys"], 100_000, "the first one is answered");
    let count = client.get("/v1/filters/f/keys/k/count").json()["count"].clone();
    for _ in 0..2 {
        let again = client.send("POST", "/v1/filters/f/add", &headers, &body);
        assert_eq!(again.header("idempotency-replayed"), Some("true"));
        again.problem(409, "answer-not-kept");
    }
    assert_eq!(client.get("/v1/filters/f/keys/k/count").json()["count"], count);
    assert_eq!(client.get("/v1/filters/f").json()["items"], 100_000, "added once");
    running.stop();
}
