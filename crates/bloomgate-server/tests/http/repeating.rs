//! A write with an Idempotency-Key that comes again is not done again.

use bloomgate_server::store::Fsync;
use serde_json::json;

use crate::harness::{Client, Running};

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
