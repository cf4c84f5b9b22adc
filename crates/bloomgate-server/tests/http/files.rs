//! Filters as files: by their address, in parts, as deltas, and brought back.

use bloomgate::{Address, AnyFilter, Delta};
use serde_json::json;

use crate::harness::{Client, Running};

const KIND: (&str, &str) = ("content-type", "application/vnd.bloomgate.filter");

fn filled(running: &Running) -> Client {
    let mut client = running.client();
    let wish = json!({"name": "seen", "kind": "blocked", "capacity": 10_000, "rate": 0.01, "hash": "xxh3"});
    client.json("POST", "/v1/filters", &wish).is(201);
    let lines: String = (0..1_000).map(|number| format!("key-{number}\n")).collect();
    client.send("POST", "/v1/filters/seen/add", &[("content-type", "text/plain")], lines.as_bytes()).is(200);
    client
}

#[test]
fn a_snapshot_is_the_filter_and_its_tag_the_address() {
    let running = Running::start();
    let mut client = filled(&running);
    let whole = client.get("/v1/filters/seen/snapshot").is(200);
    let tag = whole.header("etag").unwrap().to_owned();
    let address = tag.trim_matches('"').to_owned();
    assert_eq!(Address::of(&whole.body).to_string(), address);
    assert_eq!(whole.header("content-type"), Some(KIND.1));
    assert_eq!(whole.header("content-disposition"), Some("attachment; filename=\"seen.bloom\""));
    let filter = AnyFilter::from_bytes(&whole.body).unwrap();
    assert!((0..1_000).all(|number| filter.contains(format!("key-{number}").as_bytes()).unwrap()));

    let same = client.send("GET", "/v1/filters/seen/snapshot", &[("if-none-match", &tag)], b"").is(304);
    assert_eq!(same.header("etag"), Some(&*tag));
    client.send("GET", "/v1/filters/seen/snapshot", &[("if-match", "\"00\"")], b"").problem(412, "precondition-failed");
    let head = client.send("HEAD", "/v1/filters/seen/snapshot", &[], b"").is(200);
    assert_eq!(
        (head.header("etag"), head.header("content-length")),
        (Some(&*tag), Some(&*whole.body.len().to_string()))
    );

    // In parts, also while the filter changes: what was given out is kept.
    let part = client.send("GET", "/v1/filters/seen/snapshot", &[("range", "bytes=100-199")], b"").is(206);
    assert_eq!(
        (&part.body[..], part.header("content-range")),
        (&whole.body[100..200], Some(&*format!("bytes 100-199/{}", whole.body.len())))
    );
    client.put("/v1/filters/seen/keys/another").is(200);
    let rest = [("range", "bytes=200-"), ("if-range", &*tag)];
    assert_eq!(client.send("GET", "/v1/filters/seen/snapshot", &rest, b"").is(206).body, &whole.body[200..]);
    let other = [("range", "bytes=200-"), ("if-range", "\"00\"")];
    let now = client.send("GET", "/v1/filters/seen/snapshot", &other, b"").is(200);
    assert_ne!(now.header("etag"), Some(&*tag));
    for path in ["/v1/filters/seen/snapshot".to_owned(), format!("/v1/filters/seen/snapshot/{address}")] {
        let none = client.send("GET", &path, &[("range", "bytes=99999999-")], b"");
        assert_eq!(none.header("content-range"), Some(&*format!("bytes */{}", whole.body.len())));
        assert!(none.header("cache-control").is_none_or(|how| !how.contains("immutable")), "it is not the file");
        none.problem(416, "range-not-satisfiable");
    }
    let kept = client.get(&format!("/v1/filters/seen/snapshot/{address}")).is(200);
    assert_eq!(kept.body, whole.body);
    assert!(kept.header("cache-control").unwrap().contains("immutable"));
    client.get(&format!("/v1/filters/seen/snapshot/{}", "0".repeat(64))).problem(404, "not-found");
    client.get("/v1/filters/seen/snapshot/xyz").problem(400, "bad-request");
    client.get("/v1/filters/none/snapshot").problem(404, "not-found");
    client.get(&format!("/v1/filters/none/snapshot/{address}")).problem(404, "not-found");

    // The difference of then and now.
    let delta = client.get(&format!("/v1/filters/seen/delta?since={address}")).is(200);
    let made = Delta::from_bytes(&delta.body).unwrap().apply(&whole.body).unwrap();
    assert_eq!(delta.header("etag"), Some(&*format!("\"{}\"", Address::of(&made))));
    assert!(AnyFilter::from_bytes(&made).unwrap().contains(&b"another"[..]).unwrap());
    client.get(&format!("/v1/filters/seen/delta?since={}", "0".repeat(64))).problem(404, "not-found");
    client.get("/v1/filters/seen/delta?since=now").problem(400, "bad-request");
    client.get("/v1/filters/seen/delta").problem(400, "bad-request");
    running.stop();
}

/// An old file says a wrong no to the keys since then: who did not ask for a part of it gets the one of now (RFC 9110, 13.1.5).
#[test]
fn without_a_range_of_it_an_old_file_is_not_given() {
    let running = Running::start();
    let mut client = filled(&running);
    let old = client.get("/v1/filters/seen/snapshot").is(200);
    let old_tag = old.header("etag").unwrap().to_owned();
    client.put("/v1/filters/seen/keys/another").is(200);
    let now = client.get("/v1/filters/seen/snapshot").is(200);
    let now_tag = now.header("etag").unwrap().to_owned();
    assert_ne!(old_tag, now_tag);
    let ranges = ["", "bytes=0-1,3-4", "bytes=9-3", "items=0-1", "bytes=x-", "bytes=0-1, "];
    for tag in [&*old_tag, &*now_tag, "\"00\"", &*format!("W/{old_tag}"), "Thu, 19 Nov 2026 20:00:00 GMT"] {
        for range in ranges {
            let mut headers = vec![("if-range", tag)];
            headers.extend((!range.is_empty()).then_some(("range", range)));
            let whole = client.send("GET", "/v1/filters/seen/snapshot", &headers, b"").is(200);
            assert_eq!(whole.header("etag"), Some(&*now_tag), "{headers:?}");
            assert!(whole.body == now.body, "{headers:?}");
        }
        // Of a head there is no part.
        let head = [("if-range", tag), ("range", "bytes=0-1")];
        let head = client.send("HEAD", "/v1/filters/seen/snapshot", &head, b"").is(200);
        assert_eq!(head.header("etag"), Some(&*now_tag), "{tag}");
    }
    // With one it is, and what the other conditions say is said of it.
    let part = [("if-range", &*old_tag), ("range", "bytes=1000-1099")];
    let given = client.send("GET", "/v1/filters/seen/snapshot", &part, b"").is(206);
    assert_eq!((given.header("etag"), &*given.body), (Some(&*old_tag), &old.body[1_000..1_100]));
    for (name, tag, status) in
        [("if-match", &now_tag, 412), ("if-match", &old_tag, 206), ("if-none-match", &old_tag, 304)]
    {
        client.send("GET", "/v1/filters/seen/snapshot", &[part[0], part[1], (name, &**tag)], b"").is(status);
    }
    running.stop();
}

#[test]
fn a_snapshot_is_brought_back() {
    let running = Running::start();
    let mut client = filled(&running);
    let file = client.get("/v1/filters/seen/snapshot").is(200).body;
    let made = client.send("PUT", "/v1/filters/copy/snapshot", &[KIND], &file).is(201);
    assert_eq!(made.header("etag"), Some(&*format!("\"{}\"", Address::of(&file))));
    assert_eq!(made.json()["items"], client.get("/v1/filters/seen").json()["items"]);
    assert_eq!(client.get("/v1/filters/copy/keys/key-7").json()["answer"], "maybe");
    assert_eq!(client.get("/v1/filters/copy/snapshot").is(200).body, file);
    client
        .send("PUT", "/v1/filters/copy/snapshot", &[KIND, ("if-none-match", "*")], &file)
        .problem(412, "precondition-failed");
    client
        .send("PUT", "/v1/filters/copy/snapshot", &[KIND, ("if-match", "\"00\"")], &file)
        .problem(412, "precondition-failed");
    let wrong = "0".repeat(64);
    client
        .send("PUT", "/v1/filters/copy/snapshot", &[KIND, ("content-address", &*wrong)], &file)
        .problem(412, "precondition-failed");
    let right = Address::of(&file).to_string();
    client.send("PUT", "/v1/filters/copy/snapshot", &[KIND, ("content-address", &*right)], &file).is(200);
    // What is no file, or a broken one, is told and changes nothing.
    let mut broken = file.clone();
    let middle = broken.len() / 2;
    broken[middle] ^= 1;
    for wrong in [&b""[..], b"nonsense", &file[..100], &broken] {
        client.send("PUT", "/v1/filters/copy/snapshot", &[KIND], wrong).problem(422, "refused");
    }
    client
        .send("PUT", "/v1/filters/copy/snapshot", &[("content-type", "text/plain")], &file)
        .problem(415, "unsupported-media-type");
    assert_eq!(client.get("/v1/filters/copy/keys/key-7").json()["answer"], "maybe");
    // Without the right to delete nothing is replaced.
    running.resp(&["ACL SETUSER writer on >secret +@read +@write"]);
    let mut writer = Client::new(running.http).login("writer", "secret");
    writer.send("PUT", "/v1/filters/copy/snapshot", &[KIND], &file).problem(403, "forbidden");
    writer.send("PUT", "/v1/filters/third/snapshot", &[KIND], &file).is(201);
    running.stop();
}

#[test]
fn a_file_under_a_secret_comes_back_under_it_alone() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let running = Running::start_in(folder.path(), bloomgate_server::store::Fsync::Never);
    let mut client = running.client();
    client.json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 100, "rate": 0.01})).is(201);
    client.put("/v1/filters/f/keys/alice").is(200);
    let file = client.get("/v1/filters/f/snapshot").is(200).body;
    client.send("PUT", "/v1/filters/g/snapshot", &[KIND], &file).is(201);
    assert_eq!(client.get("/v1/filters/g/keys/alice").json()["answer"], "maybe");
    running.stop();
    let running = Running::start_in(folder.path(), bloomgate_server::store::Fsync::Never);
    assert_eq!(running.client().get("/v1/filters/g/keys/alice").json()["answer"], "maybe");
    running.stop();
    let stranger = Running::start_in(other.path(), bloomgate_server::store::Fsync::Never);
    let why = stranger.client().send("PUT", "/v1/filters/g/snapshot", &[KIND], &file).problem(422, "refused");
    assert!(why.contains("secret"), "{why}");
    stranger.stop();
}
