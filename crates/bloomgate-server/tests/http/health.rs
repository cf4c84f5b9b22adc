//! `/healthz` is alive whatever happens; `/readyz` says when no traffic should come, and why.

use std::sync::Arc;
use std::time::Instant;

use bloomgate_server::Settings;
use bloomgate_server::store::{FaultyDisk, Fsync, Kind, RealDisk, Trouble};
use serde_json::json;

use crate::harness::{Client, PATIENCE, Running, settings};

/// Not ready, and why; alive all the same.
#[track_caller]
fn is_not_ready(client: &mut Client) -> String {
    assert_eq!(client.get("/healthz").is(200).text(), "ok\n");
    let answer = client.get("/readyz").is(503);
    assert_eq!((answer.header("retry-after"), answer.header("cache-control")), (Some("1"), Some("no-store")));
    answer.problem(503, "unavailable")
}

#[test]
fn not_while_the_filters_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let kept = || Settings { data: Some(folder.path().to_path_buf()), ..settings() };
    let running = Running::start_with(kept());
    running.client().json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100})).is(201);
    running.stop();
    // The disk holds up the sync with which the reading of the log ends.
    let disk = FaultyDisk::new(RealDisk);
    disk.hold_syncs(true);
    let running = Running::begin_on(Arc::new(disk.clone()), kept());
    let mut client = running.client();
    let why = is_not_ready(&mut client);
    assert!(why.contains("being read"), "{why}");
    client.get("/v1/filters").problem(503, "loading");
    assert!(client.get("/metrics").text().contains("\nbloomgate_ready 0\n"));
    disk.hold_syncs(false);
    let begun = Instant::now();
    while client.get("/readyz").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "it is never ready");
    }
    assert_eq!(client.get("/readyz").is(200).text(), "ready\n");
    running.stop();
}

#[test]
fn not_while_the_store_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(RealDisk);
    let kept = Settings { data: Some(folder.path().to_path_buf()), fsync: Fsync::Always, ..settings() };
    let running = Running::start_on(Arc::new(disk.clone()), kept);
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100})).is(201);
    client.put("/v1/filters/f/keys/before").is(200);
    assert_eq!(client.get("/readyz").is(200).text(), "ready\n");
    // No space left on the device.
    disk.plan(Trouble { from: 1, steps: u64::MAX, errno: 28, torn: false, steps_of: Kind::Change });
    client.put("/v1/filters/f/keys/lost").problem(503, "read-only");
    let why = is_not_ready(&mut client);
    assert!(why.contains("cannot be written, lookups are answered"), "{why}");
    assert_eq!(client.get("/v1/filters/f/keys/before").is(200).json()["answer"], "maybe");
    let told = client.get("/metrics").is(200);
    for line in ["\nbloomgate_ready 0\n", "\nbloomgate_store_writable 0\n"] {
        assert!(told.text().contains(line), "{line}");
    }
    let overview = client.get("/v1/overview").is(200).json();
    assert_eq!((&overview["health"]["ready"], &overview["health"]["state"]), (&json!(false), &json!("read-only")));
    // A file that would have to be kept is not even read.
    let kind = [("content-type", "application/vnd.bloomgate.filter")];
    client.send("PUT", "/v1/filters/g/snapshot", &kind, b"x").problem(503, "read-only");
    disk.heal();
    let begun = Instant::now();
    while client.get("/readyz").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "it never recovers");
    }
    client.put("/v1/filters/f/keys/after").is(200);
    running.stop();
}

#[test]
fn not_while_it_stops() {
    let running = Running::start();
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100})).is(201);
    // A body that comes slowly is under way.
    let mut slow = running.client();
    slow.put_raw(
        b"POST /v1/filters/f/add HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\nexpect: 100-continue\r\n\
          content-length: 6\r\n\r\n",
    );
    slow.answer(false).is(100);
    let begun = Instant::now();
    running.resp(&["SHUTDOWN"]);
    // Also for whoever comes now.
    while running.client().get("/readyz").status == 200 {
        assert!(begun.elapsed() < PATIENCE, "it is ready for ever");
    }
    let mut late = running.client();
    let answer = late.get("/readyz").is(503);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.problem(503, "unavailable").contains("stopping"));
    running.client().get("/v1/filters").problem(503, "unavailable");
    assert_eq!(running.client().get("/healthz").is(200).text(), "ok\n");
    // What was under way is answered.
    assert_eq!(slow.raw(b"alice\n").is(200).text(), "1\n");
    running.end();
}
