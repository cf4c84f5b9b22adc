//! What the OpenAPI description says of headers, held against answers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Answer, Running};

/// Headers that every message of HTTP may have, and that are no matter of a single route.
const USUAL: [&str; 10] = [
    "content-type",
    "content-length",
    "transfer-encoding",
    "cache-control",
    "content-disposition",
    "connection",
    "date",
    "vary",
    "x-content-type-options",
    "www-authenticate",
];

/// The description of the server itself.
struct Description(Value);

impl Description {
    /// Holds an answer against what is said of this method and path: it has the headers that it must have, in the form that is said,
    /// and none beside those that are told.
    #[track_caller]
    fn holds(&self, method: &str, path: &str, answer: &Answer) {
        let told = &self.0["paths"][path][method]["responses"][answer.status.to_string()];
        assert!(told.is_object(), "{method} {path}: {} is not described", answer.status);
        let none = serde_json::Map::new();
        let headers = told["headers"].as_object().unwrap_or(&none);
        for (name, header) in headers {
            let value = answer.header(&name.to_ascii_lowercase());
            assert!(value.is_some() || header["required"] == false, "{method} {path} {}: no {name}", answer.status);
            if let Some(value) = value {
                let only = header["schema"]["enum"].as_array();
                assert!(only.is_none_or(|only| only.contains(&json!(value))), "{name}: {value}");
                assert!(header["schema"]["type"] != "integer" || value.parse::<u64>().is_ok(), "{name}: {value}");
            }
        }
        let known: BTreeSet<String> = headers.keys().map(|name| name.to_ascii_lowercase()).collect();
        for (name, value) in &answer.headers {
            let is_known = known.contains(name) || USUAL.contains(&&**name);
            assert!(is_known, "{method} {path} {}: nobody is told of {name}: {value}", answer.status);
        }
    }
}

#[test]
fn answers_have_the_headers_that_are_described_and_no_others() {
    let running = Running::start();
    let mut client = running.client();
    let description = Description(client.get("/openapi.json").is(200).json());
    let wish = json!({"name": "seen", "kind": "blocked", "capacity": 1_000, "rate": 0.01, "hash": "xxh3"});
    let made = client.json("POST", "/v1/filters", &wish).is(201);
    assert_eq!(made.header("location"), Some("/v1/filters/seen"));
    description.holds("post", "/v1/filters", &made);
    description.holds("post", "/v1/filters", &client.json("POST", "/v1/filters", &wish).is(409));

    let key = [("idempotency-key", "once"), ("content-type", "text/plain")];
    for replayed in [None, Some("true")] {
        let added = client.send("POST", "/v1/filters/seen/add", &key, b"alice\nbob\n").is(200);
        assert_eq!(added.header("idempotency-replayed"), replayed);
        description.holds("post", "/v1/filters/{name}/add", &added);
    }
    for _ in 0..2 {
        let gone = client.send("DELETE", "/v1/filters/none", &[("idempotency-key", "gone")], b"").is(404);
        description.holds("delete", "/v1/filters/{name}", &gone);
    }

    let snapshot = "/v1/filters/{name}/snapshot";
    let whole = client.get("/v1/filters/seen/snapshot").is(200);
    description.holds("get", snapshot, &whole);
    let tag = whole.header("etag").unwrap().to_owned();
    let since = tag.trim_matches('"');
    for (headers, status) in [
        (&[("if-none-match", &*tag)][..], 304),
        (&[("if-match", "\"00\"")], 412),
        (&[("range", "bytes=0-9")], 206),
        (&[("range", "bytes=0-9"), ("if-range", &*tag)], 206),
        (&[("range", "bytes=99999999-")], 416),
    ] {
        let answer = client.send("GET", "/v1/filters/seen/snapshot", headers, b"").is(status);
        description.holds("get", snapshot, &answer);
    }
    let by_address = format!("/v1/filters/seen/snapshot/{since}");
    let part = client.send("GET", &by_address, &[("range", "bytes=5-")], b"").is(206);
    description.holds("get", "/v1/filters/{name}/snapshot/{address}", &part);
    description.holds("get", "/v1/filters/{name}/snapshot/{address}", &client.get(&by_address).is(200));
    client.put("/v1/filters/seen/keys/carol").is(200);
    let delta = client.get(&format!("/v1/filters/seen/delta?since={since}")).is(200);
    description.holds("get", "/v1/filters/{name}/delta", &delta);
    let why = client.get("/v1/filters/seen/delta").problem(400, "bad-request");
    assert!(why.contains("needs 'since'") && why.contains("64 hexadecimal digits"), "{why}");

    let kind = ("content-type", "application/vnd.bloomgate.filter");
    for (headers, status) in [
        (&[kind, ("content-address", since), ("if-none-match", "*")][..], 201),
        (&[kind, ("if-match", "*")], 200),
        (&[kind, ("if-none-match", "*")], 412),
        (&[kind, ("content-address", "00")], 400),
    ] {
        let answer = client.send("PUT", "/v1/filters/copy/snapshot", headers, &whole.body).is(status);
        description.holds("put", snapshot, &answer);
    }
    // A header that is not for a route is as if it was not there.
    let unread = [("content-address", "00"), ("range", "bytes=0-1"), ("if-match", "\"00\"")];
    client.send("GET", "/v1/filters/seen", &unread, b"").is(200);
    description.holds("get", "/v1/filters", &client.send("PUT", "/v1/filters", &[], b"").is(405));
    running.stop();
}
