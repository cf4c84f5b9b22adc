//! Filters are made, listed, described, renamed and deleted.

use std::time::{Duration, Instant};

use bloomgate_server::store::Fsync;
use serde_json::{Value, json};

use crate::harness::{PATIENCE, Running};

#[test]
fn a_filter_from_its_making_to_its_end() {
    let running = Running::start();
    let mut client = running.client();
    let wish = json!({"name": "shop/seen", "kind": "blocked", "capacity": 10_000, "rate": 0.01});
    let made = client.json("POST", "/v1/filters", &wish).is(201);
    assert_eq!(made.header("location"), Some("/v1/filters/shop%2Fseen"));
    let made = made.json();
    assert_eq!((made["name"].as_str(), made["kind"].as_str()), (Some("shop/seen"), Some("blocked")));
    assert_eq!((&made["items"], &made["capacity"]), (&json!(0), &json!(10_000)));
    assert_eq!(made["rate"]["asked"], 0.01);
    assert_eq!(made["path"], "/v1/filters/shop%2Fseen");
    let why = client.json("POST", "/v1/filters", &wish).problem(409, "exists");
    assert!(why.contains("already"), "{why}");

    // It is the same filter that RESP sees.
    assert_eq!(running.resp(&["BG.ADD shop/seen alice"]), ["*1"]);
    let told = client.get("/v1/filters/shop%2Fseen").is(200).json();
    assert_eq!((&told["items"], &told["adds"], &told["new"]), (&json!(1), &json!(1), &json!(1)));
    // Two of its bits may be one: the estimate of a single key is rounded down then.
    let estimate = told["estimate"]["items"].as_u64().unwrap();
    assert!(told["rate"]["estimated"].is_number() && estimate <= 1, "{told}");

    let renamed = client.json("PATCH", "/v1/filters/shop%2Fseen", &json!({"name": "seen"})).is(200).json();
    assert_eq!(renamed["path"], "/v1/filters/seen");
    client.get("/v1/filters/shop%2Fseen").problem(404, "not-found");
    client.json("POST", "/v1/filters", &json!({"name": "other", "like": "seen"})).is(201);
    client.json("PATCH", "/v1/filters/other", &json!({"name": "seen"})).problem(409, "exists");
    client.json("PATCH", "/v1/filters/other", &json!({"name": "seen", "replace": true})).is(200);
    assert_eq!(client.get("/v1/filters/seen").is(200).json()["items"], 0);

    client.json("PATCH", "/v1/filters/seen", &json!({"expires_ms": 4_102_444_800_000u64})).is(200);
    assert_eq!(client.get("/v1/filters/seen").json()["expires_ms"], 4_102_444_800_000u64);
    client.json("PATCH", "/v1/filters/seen", &json!({"expires_ms": null})).is(200);
    assert!(client.get("/v1/filters/seen").json()["expires_ms"].is_null());
    client.json("PATCH", "/v1/filters/seen", &json!({"expires_ms": 1})).is(204);
    client.get("/v1/filters/seen").problem(404, "not-found");
    client.json("PATCH", "/v1/filters/seen", &json!({"expires_ms": null})).problem(404, "not-found");

    client.json("POST", "/v1/filters", &json!({"name": "a", "kind": "cuckoo", "capacity": 100, "rate": 0.01})).is(201);
    client.delete("/v1/filters/a").is(204);
    client.delete("/v1/filters/a").problem(404, "not-found");
    running.stop();
}

#[test]
fn what_cannot_be_made_is_told_why() {
    let running = Running::start();
    let mut client = running.client();
    let mut refused = |body: serde_json::Value, status, name: &str, says: &str| {
        let why = client.json("POST", "/v1/filters", &body).problem(status, name);
        assert!(why.contains(says), "{body}: {why}");
    };
    refused(json!({"kind": "blocked"}), 400, "bad-request", "no 'name'");
    refused(json!({"name": "", "kind": "blocked"}), 400, "bad-request", "empty");
    refused(json!({"name": "a", "knd": "blocked"}), 400, "bad-request", "'knd'");
    refused(json!({"name": "a", "capacity": "many"}), 400, "bad-request", "'capacity' is a text");
    refused(json!({"name": "a"}), 422, "refused", "wrong number of arguments");
    refused(json!({"name": "a", "capacity": 10}), 422, "refused", "needs KIND");
    refused(json!({"name": "a", "kind": "square"}), 422, "refused", "must be one of");
    refused(json!({"name": "a", "kind": "fuse"}), 422, "refused", "built once");
    refused(json!({"name": "a", "kind": "blocked", "capacity": 10, "rate": 2}), 422, "refused", "RATE");
    refused(
        json!({"name": "a", "kind": "classic", "capacity": 1u64 << 40, "rate": 0.001}),
        422,
        "out-of-memory",
        "memory",
    );
    refused(
        json!({"name": "bloomgate:rekey:a", "kind": "blocked", "capacity": 10, "rate": 0.1}),
        422,
        "refused",
        "server's own",
    );
    refused(json!([1]), 400, "bad-request", "an array");
    let body = br#"{"name":"a","kind":"blocked","capacity":10}"#;
    client.send("POST", "/v1/filters", &[], body).problem(415, "unsupported-media-type");
    client.send("POST", "/v1/filters", &[("content-type", "text/plain")], body).problem(415, "unsupported-media-type");
    client.send("POST", "/v1/filters", &[("content-type", "application/json; charset=utf-8")], body).is(201);
    assert_eq!(client.get("/v1/filters").json()["total"], 1);
    running.stop();
}

#[test]
fn lists_have_pages_patterns_and_orders() {
    let running = Running::start();
    let mut client = running.client();
    for number in 0..25u64 {
        let (name, kind) = (format!("f:{number:02}"), if number.is_multiple_of(5) { "cuckoo" } else { "blocked" });
        let wish = json!({"name": name, "kind": kind, "capacity": 1_000 + number * 100, "rate": 0.01});
        // Ages are told in milliseconds: the last is the youngest alone.
        std::thread::sleep(Duration::from_millis(if number == 24 { 5 } else { 0 }));
        client.json("POST", "/v1/filters", &wish).is(201);
    }
    for key in ["a", "b", "c"] {
        client.put(&format!("/v1/filters/f:07/keys/{key}")).is(200);
    }
    client.get("/v1/filters/f:07/keys/a").is(200);
    let mut names = |query: &str| -> Vec<String> {
        let list = client.get(&format!("/v1/filters{query}")).is(200).json();
        list["filters"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("").len(), 25);
    assert_eq!(names("?limit=3"), ["f:00", "f:01", "f:02"]);
    assert_eq!(names("?limit=3&offset=23"), ["f:23", "f:24"]);
    assert_eq!(names("?limit=2&order=desc"), ["f:24", "f:23"]);
    assert_eq!(names("?match=f%3A1*&limit=2"), ["f:10", "f:11"]);
    assert_eq!(names("?kind=cuckoo").len(), 5);
    assert_eq!(names("?sort=capacity&order=desc&limit=1"), ["f:24"]);
    for sort in ["items", "used", "lookups"] {
        assert_eq!(names(&format!("?sort={sort}&order=desc&limit=1")), ["f:07"], "{sort}");
    }
    assert_eq!(names("?sort=age&limit=1"), ["f:24"]);
    assert_eq!(names("?sort=kind&limit=1&offset=20"), ["f:00"]);
    // Whatever a list is sorted by, the figures that it tells are in that order; what is not known yet comes first.
    client
        .json("POST", "/v1/filters", &json!({"name": "wide", "kind": "classic", "capacity": 500, "rate": 0.2}))
        .is(201);
    client
        .json("POST", "/v1/filters", &json!({"name": "tight", "kind": "counting", "capacity": 500, "rate": 0.001}))
        .is(201);
    for (sort, field) in [
        ("items", "/items"),
        ("capacity", "/capacity"),
        ("bytes", "/bytes"),
        ("used", "/used"),
        ("fill", "/fill"),
        ("asked", "/rate/asked"),
        ("rate", "/rate/expected"),
        ("measured", "/rate/measured"),
        ("lookups", "/lookups"),
    ] {
        for order in ["asc", "desc"] {
            // The watch may find something between the sorting and the telling: it does not do so ten times in a row.
            let is_sorted = (0..10).any(|_| {
                let list = client.get(&format!("/v1/filters?sort={sort}&order={order}")).is(200).json();
                let figure = |row: &Value| row.pointer(field).unwrap().as_f64().unwrap_or(-1.0);
                let mut told: Vec<f64> = list["filters"].as_array().unwrap().iter().map(figure).collect();
                if order == "desc" {
                    told.reverse();
                }
                told.len() == 27 && told.is_sorted()
            });
            assert!(is_sorted, "{sort} {order}");
        }
    }
    let mut first = |query: &str| {
        let list = client.get(&format!("/v1/filters?limit=1&{query}")).is(200).json();
        list["filters"][0]["name"].as_str().unwrap().to_owned()
    };
    assert_eq!((first("sort=asked&order=desc"), first("sort=asked")), ("wide".to_owned(), "tight".to_owned()));
    // 3.5 bits for an item at 20 %, and 60 in counters at 0.1 %.
    assert_eq!((first("sort=bits"), first("sort=bits&order=desc")), ("wide".to_owned(), "tight".to_owned()));
    let list = client.get("/v1/filters?match=f:07").json();
    let row = &list["filters"][0];
    assert_eq!(
        (&row["items"], &row["lookups"], &row["maybe"], &row["definitely_not"]),
        (&json!(3), &json!(1), &json!(1), &json!(0))
    );
    assert_eq!((&list["total"], &list["truncated"]), (&json!(1), &json!(false)));
    for (query, says) in [
        ("?limit=0", "1 to 1000"),
        ("?limit=1001", "1 to 1000"),
        ("?sort=colour", "none of name"),
        ("?limt=3", "no 'limt'"),
        ("?limit=1&limit=2", "twice"),
        ("?match=%", "%25"),
    ] {
        let why = client.get(&format!("/v1/filters{query}")).problem(400, "bad-request");
        assert!(why.contains(says), "{query}: {why}");
    }
    running.stop();
}

#[test]
fn names_may_be_any_bytes() {
    let running = Running::start();
    let mut client = running.client();
    assert_eq!(running.resp(&[r#"BF.ADD "\xff\x00/ %" a"#]), [":1"]);
    let list = client.get("/v1/filters").is(200).json();
    let path = list["filters"][0]["path"].as_str().unwrap().to_owned();
    assert_eq!(path, "/v1/filters/%FF%00%2F%20%25");
    assert_eq!(client.get(&format!("{path}/keys/a")).is(200).json()["answer"], "maybe");
    client.delete(&path).is(204);
    running.stop();
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_in(folder.path(), Fsync::Always);
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "counting", "capacity": 1_000, "rate": 0.01}))
        .is(201);
    client.put("/v1/filters/f/keys/alice").is(200);
    client.json("POST", "/v1/filters/f/add", &json!({"keys": ["bob", "carol"]})).is(200);
    client.delete("/v1/filters/f/keys/bob").is(200);
    running.stop();
    let running = Running::start_in(folder.path(), Fsync::Always);
    let mut client = running.client();
    let answers =
        client.json("POST", "/v1/filters/f/check", &json!({"keys": ["alice", "bob", "carol"]})).is(200).json();
    assert_eq!(answers["answers"], json!([true, false, true]));
    running.stop();
}

/// Of one that refuses it is told when that is, of one that goes on when it is over its capacity, of a chain when it grows; what
/// forgets or keeps a window comes to no end.
#[test]
fn what_is_foreseen_is_what_the_filter_will_do() {
    let running = Running::start();
    let mut client = running.client();
    let made = running.resp(&[
        "BG.CREATE refuses KIND blocked CAPACITY 1000000 RATE 0.01",
        "BG.CREATE \"goes on\" KIND blocked CAPACITY 1000000 RATE 0.01 ONFULL goon",
        "BF.RESERVE chain 0.01 1000000",
        "BG.CREATE ring KIND rotating CAPACITY 1000000 RATE 0.01 WINDOW 60",
        "BG.CREATE stable KIND stable CAPACITY 1000 RATE 0.01",
        "BG.CREATE rests KIND blocked CAPACITY 1000 RATE 0.01 ONFULL goon",
    ]);
    assert_eq!(made, ["+OK"; 6]);
    let names = ["refuses", "goes%20on", "chain", "ring", "stable"];
    // It is looked every ten seconds how fast they grow: twice, with keys between.
    let (begun, mut number) = (Instant::now(), 0);
    let list = loop {
        let keys: Vec<String> = (number..number + 50).map(|key| format!("key-{key}")).collect();
        number += 50;
        for name in names {
            client.json("POST", &format!("/v1/filters/{name}/add"), &json!({ "keys": keys })).is(200);
        }
        let list =
            client.get("/v1/filters?sort=growth&order=desc").is(200).json()["filters"].as_array().unwrap().clone();
        let growing = list.iter().filter(|row| row["growth_per_second"].as_f64() > Some(0.0));
        if growing.count() == names.len() {
            break list;
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "{list:?}");
        std::thread::sleep(Duration::from_millis(200));
    };
    for (name, on_full, is_foreseen, is_full) in [
        ("refuses", "refuse", true, true),
        ("goes on", "goon", true, false),
        ("chain", "grow", true, false),
        ("ring", "goon", false, false),
        ("stable", "goon", false, false),
        ("rests", "goon", false, false),
    ] {
        let row = list.iter().find(|row| row["name"] == name).unwrap();
        let seconds = |field: &str| row[field].as_f64();
        assert_eq!(row["on_full"], on_full, "{name}");
        assert_eq!(seconds("capacity_in_seconds").is_some(), is_foreseen, "{row}");
        assert_eq!(seconds("full_in_seconds").is_some(), is_full, "{row}");
        if is_foreseen {
            let left = row["capacity"].as_f64().unwrap() - row["items"].as_f64().unwrap();
            let wanted = left / seconds("growth_per_second").unwrap();
            assert!((seconds("capacity_in_seconds").unwrap() / wanted - 1.0).abs() < 1e-9, "{row}");
        }
        let path = row["path"].as_str().unwrap();
        assert_eq!(client.get(path).is(200).json()["on_full"], on_full, "the same where it is told alone");
    }
    // Advised is what comes within three days: refusing, and a rate above the promised one.
    let advice = client.get("/v1/advice").is(200).json();
    let says = |about: &str, sentence: &str| {
        let all = advice["advice"].as_array().unwrap().iter().filter(|said| said["about"] == about);
        let told: Vec<&Value> = all.filter(|said| said["sentence"].as_str().unwrap().contains(sentence)).collect();
        told.first().map(|said| said["steps"].as_array().unwrap().len())
    };
    assert_eq!(says("refuses", "it is full in"), Some(4), "{advice}");
    assert_eq!(says("goes on", "it is over its capacity in"), Some(4), "{advice}");
    assert_eq!((says("chain", "capacity"), says("ring", "capacity"), says("rests", "capacity")), (None, None, None));
    running.stop();
}
