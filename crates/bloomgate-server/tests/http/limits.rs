//! What is too much, too slow or nonsense is refused with a problem, and the connection goes on where it can.

use serde_json::json;

use crate::harness::Running;

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
