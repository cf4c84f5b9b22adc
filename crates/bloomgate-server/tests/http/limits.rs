//! What is too much, too slow or nonsense is refused with a problem, and the connection goes on where it can.

use serde_json::json;

use bloomgate_server::Settings;

use crate::events::Stream;
use crate::harness::{Client, Running, settings};

#[test]
fn long_bodies_and_keys_are_refused() {
    let running = Running::start();
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100_000, "rate": 0.01}))
        .is(201);
    let lines = [("content-type", "text/plain")];
    let long = vec![b'x'; (64 << 10) + 1];
    let why = client.send("POST", "/v1/filters/f/check", &lines, &long).problem(413, "too-large");
    assert!(why.contains("65536"), "{why}");
    let mut client = running.client();
    let some: Vec<u8> = [b"ok\n".repeat(1_000), long].concat();
    let why = client.send("POST", "/v1/filters/f/add", &lines, &some).problem(413, "too-large");
    assert!(why.contains("the first 512 keys of the body are done"), "{why}");
    // The client spoils its own body in the midst of it.
    let mut client = running.client();
    let mut spoiled = b"POST /v1/filters/f/add HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n".to_vec();
    spoiled.extend_from_slice(b"transfer-encoding: chunked\r\n\r\nbb8\r\n");
    spoiled.extend_from_slice(&[&b"ok\n".repeat(1_000), &b"\r\nno length\r\n"[..]].concat());
    let why = client.raw(&spoiled).problem(400, "bad-request");
    assert!(why.contains("broke off") && why.contains("the first 512 keys of the body are done"), "{why}");
    // As JSON all of them are there before the first is added: none is.
    let mut client = running.client();
    let items = |client: &mut Client| client.get("/v1/filters/f").is(200).json()["items"].as_u64().unwrap();
    let mut keys: Vec<String> = (0..600).map(|key| format!("key-{key}")).collect();
    keys[598] = "x".repeat((64 << 10) + 1);
    let before = items(&mut client);
    let why = client.json("POST", "/v1/filters/f/add", &json!({ "keys": keys })).problem(413, "too-large");
    assert!(why.contains("key 598 has 65537 bytes") && !why.contains("done"), "{why}");
    assert_eq!(items(&mut client), before);
    let mut client = running.client();
    let big = format!(r#"{{"keys":["{}"]}}"#, "x".repeat(8 << 20));
    client
        .send("POST", "/v1/filters/f/check", &[("content-type", "application/json")], big.as_bytes())
        .problem(413, "too-large");
    let mut client = running.client();
    let announced = format!(
        "POST /v1/filters/f/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n",
        65 << 20
    );
    client.raw(announced.as_bytes()).problem(413, "too-large");
    running.stop();
}

#[test]
fn nonsense_is_told_and_nothing_ends() {
    let running = Running::start();
    let mut client = running.client();
    client.get("/v1").problem(404, "not-found");
    client.get("/v1/").problem(404, "not-found");
    client.get("/v2/filters").problem(404, "not-found");
    client.get("/v1/filters/").problem(404, "not-found");
    client.get("/v1/filters/a%GG").problem(400, "bad-request");
    client.send("PROPFIND", "/v1/filters", &[], b"").problem(405, "method-not-allowed");
    client.json("POST", "/v1/filters", &json!("text")).problem(400, "bad-request");
    let json_body = [("content-type", "application/json")];
    client.send("POST", "/v1/filters", &json_body, b"\xff{").problem(400, "bad-request");
    let deep = "[".repeat(100_000);
    client.send("POST", "/v1/filters", &json_body, deep.as_bytes()).problem(400, "bad-request");
    assert_eq!(client.send("HEAD", "/v1/filters", &[], b"").is(200).body.len(), 0);
    assert_eq!(client.get("/healthz").is(200).text(), "ok\n");
    running.stop();
}

/// Four million numbers in a body of eight megabytes are counted, not kept.
/// Lines of what was packed are keys that nobody meant, and those that were meant would be answered with no.
#[test]
fn a_body_in_a_coding_is_refused_and_not_taken_for_keys() {
    let running = Running::start();
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 1_000})).is(201);
    let (lines, json) = (("content-type", "text/plain"), ("content-type", "application/json"));
    let codings = ["gzip", "GZIP", "br", "identity, gzip", "zstd"];
    for coding in codings.map(|coding| ("content-encoding", coding)) {
        for path in ["/v1/filters/f/add", "/v1/filters/f/check", "/v1/filters/f/remove", "/v1/command"] {
            let why = client.send("POST", path, &[lines, coding], b"alice\n").problem(415, "unsupported-media-type");
            assert!(why.contains("Content-Encoding"), "{why}");
        }
        client.send("PUT", "/v1/filters/g/snapshot", &[coding], b"x").problem(415, "unsupported-media-type");
    }
    let packed = b"POST /v1/filters/f/add HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\n\
                   transfer-encoding: gzip, chunked\r\n\r\n6\r\nalice\n\r\n0\r\n\r\n";
    running.client().raw(packed).problem(415, "unsupported-media-type");
    // Which of two it is nobody knows.
    let why =
        client.send("POST", "/v1/filters/f/add", &[lines, json], b"alice\n").problem(415, "unsupported-media-type");
    assert!(why.contains("twice"), "{why}");
    let twice = client.send("POST", "/v1/filters/f/add", &[json], br#"{"keys":["alice"],"keys":["bob"]}"#);
    let why = twice.problem(400, "bad-request");
    assert!(why.contains("twice"), "{why}");
    assert_eq!(client.get("/v1/filters/f").json()["items"], 0, "nothing was added");
    client.send("POST", "/v1/filters/f/add", &[lines, ("content-encoding", "identity")], b"alice\n").is(200);
    assert_eq!(client.get("/v1/filters/f/keys/alice").json()["answer"], "maybe");
    running.stop();
}

/// Who waits for `100 Continue` before it sends a long file is not asked for it when it is refused.
#[test]
fn a_body_that_is_not_wanted_is_not_asked_for() {
    let running = Running::start();
    let head = |method: &str, path: &str, more: &str| {
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\n{more}\r\n").into_bytes()
    };
    let lines = "content-type: text/plain\r\ncontent-length: 6\r\n";
    let long = "content-type: application/octet-stream\r\ncontent-length: 99999999999999\r\n";
    for (method, path, more, status) in [
        ("POST", "/v1/nowhere", lines, 404),
        ("POST", "/v1/filters/f/add", "authorization: Basic eDp5\r\ncontent-length: 6\r\n", 401),
        ("POST", "/v1/filters/f/add", "content-length: 6\r\n", 415),
        ("PUT", "/v1/filters/f/snapshot", long, 413),
        ("PUT", "/v1/filters/f/snapshot", "content-type: text/plain\r\ncontent-length: 6\r\n", 415),
    ] {
        let mut client = running.client();
        let began = std::time::Instant::now();
        let answer = client.raw(&head(method, path, more)).is(status);
        assert_eq!(answer.header("connection"), Some("close"), "{path}: the body is still to come, or is not");
        assert!(began.elapsed() < std::time::Duration::from_secs(4), "{path}: it waited for the body");
    }
    // And who is wanted is.
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 1_000})).is(201);
    client.raw(&head("POST", "/v1/filters/f/add", lines)).is(100);
    assert_eq!(client.raw(b"alice\n").is(200).text(), "1\n");
    assert_eq!(client.get("/v1/filters/f/keys/alice").json()["answer"], "maybe");
    running.stop();
}

/// Where more is left of a refused body than is thrown away, there is no place for another request behind it: that is said.
#[test]
fn a_connection_that_cannot_go_on_says_so() {
    let running = Running::start();
    let mut client = running.client();
    let file = [("content-type", "text/plain")];
    for (length, ends) in [(0, false), (1, false), (60 << 10, false), (200 << 10, true)] {
        let refused = client.send("PUT", "/v1/filters/f/snapshot", &file, &vec![b'x'; length]).is(415);
        assert_eq!(refused.header("connection") == Some("close"), ends, "{length}");
    }
    let mut client = running.client();
    let announced = b"POST /v1/filters/f/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99999999999\r\n\r\n";
    assert_eq!(client.raw(announced).is(413).header("connection"), Some("close"));
    let mut client = running.client();
    let chunked = b"PUT /v1/filters/f/snapshot HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n";
    assert_eq!(client.raw(chunked).is(415).header("connection"), None);
    client.get("/v1/filters").is(200);
    running.stop();
}

#[test]
fn lists_without_end_are_refused_before_they_are_read() {
    let running = Running::start();
    let json_body = [("content-type", "application/json")];
    let list = |begin: &str| format!("{{\"{begin}\":[{}0]}}", "0,".repeat(4_000_000));
    for (path, begin) in [("f/check", "keys"), ("f/merge", "sources")] {
        let why = running
            .client()
            .send("POST", &format!("/v1/filters/{path}"), &json_body, list(begin).as_bytes())
            .problem(413, "too-large");
        assert!(why.contains("4000003 values"), "{why}");
    }
    running.stop();
}

/// One tenant opens as many streams as one may have; the next one of another is still answered.
#[test]
fn one_tenant_leaves_places_for_the_others() {
    let running = Running::start();
    assert_eq!(running.resp(&["ACL SETUSER other on >secret +@all"]), ["+OK"]);
    let streams: Vec<Stream> = (0..50).map(|_| Stream::open(&running, None)).collect();
    let why = running.client().get("/v1/events").problem(503, "unavailable");
    assert!(why.contains("50 streams"), "{why}");
    drop(Stream::open(&running, Some("other:secret")));
    drop(streams);
    running.stop();
}

#[test]
fn bodies_that_never_end_hold_no_more_than_clients_may() {
    let running = Running::start_with(Settings { client_memory: 1 << 20, ..settings() });
    let begin = |length: usize| {
        let head = "POST /v1/filters HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
        [format!("{head}content-length: {length}\r\n\r\n").into_bytes(), vec![b' '; 700 << 10]].concat()
    };
    // The first one holds most of it, and goes on being sent. It may still be on its way when the second comes, and be refused
    // itself: then there is another first one, which has more time.
    let mut first = None;
    let refused = (0..25).any(|attempt| {
        first.insert(running.client()).put_raw(&begin(4 << 20));
        std::thread::sleep(std::time::Duration::from_millis(20 * (attempt + 1)));
        let mut next = running.client();
        // Whole, so that it is answered whatever is held.
        let whole = begin(700 << 10);
        let answer = next.raw(&whole);
        match answer.status {
            503 => {
                let why = answer.problem(503, "unavailable");
                assert!(why.contains("client-memory"), "{why}");
                true
            }
            _ => {
                answer.problem(400, "bad-request");
                false
            }
        }
    });
    assert!(refused, "all of them were held");
    drop(first);
    // What it held is free again, soon.
    let free = (0..250).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        running.client().raw(&begin(700 << 10)).status == 400
    });
    assert!(free, "it is held for ever");
    running.stop();
}

/// A body is held until it is answered, also while it waits for its namespace's share.
#[test]
fn bodies_that_wait_for_their_share_are_held_too() {
    let running = Running::start_with(Settings { client_memory: 1 << 20, ..settings() });
    let said = running.resp(&[
        "BG.NAMESPACE SET shop PREFIX shop: ITEMSPERSECOND 100",
        "ACL SETUSER shop on >secret +@all namespace=shop",
        "BG.CREATE shop:f KIND blocked CAPACITY 1000000 RATE 0.01",
    ]);
    assert_eq!(said, ["+OK"; 3]);
    let body = json!({"keys": vec!["x".repeat(10); 50_000]}).to_string();
    let ask = |path: &str, more: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\n{more}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    // When all of it has arrived, eight minutes of waiting are ahead of it. One that is overtaken by the next is refused itself,
    // and begun again with more time.
    let mut waits = None;
    let refused = (0..25).any(|attempt| {
        let add = ask("/v1/filters/f/add", "authorization: Bearer shop:secret\r\n", &body);
        waits.insert(running.client()).put_raw(add.as_bytes());
        std::thread::sleep(std::time::Duration::from_millis(40 * (attempt + 1)));
        running.client().raw(ask("/v1/filters/none/check", "", &body).as_bytes()).status == 503
    });
    assert!(refused, "what waits is not counted");
    drop(waits);
    running.stop();
}
