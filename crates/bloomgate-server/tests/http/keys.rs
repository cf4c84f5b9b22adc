//! Keys are asked for, added and taken out: one by one, and many in every form.

use serde_json::json;

use crate::harness::Running;

#[test]
fn one_key() {
    let running = Running::start();
    let mut client = running.client();
    let wish = json!({"name": "carts", "kind": "counting", "capacity": 10_000, "rate": 0.001});
    client.json("POST", "/v1/filters", &wish).is(201);
    let ask = |client: &mut crate::harness::Client, key: &str| {
        client.get(&format!("/v1/filters/carts/keys/{key}")).is(200).json()
    };
    assert_eq!(ask(&mut client, "alice"), json!({"key": "alice", "answer": "no", "maybe": false}));
    assert_eq!(client.put("/v1/filters/carts/keys/alice").is(200).json(), json!({"key": "alice", "new": true}));
    assert_eq!(client.put("/v1/filters/carts/keys/alice").is(200).json()["new"], false);
    assert_eq!(ask(&mut client, "alice"), json!({"key": "alice", "answer": "maybe", "maybe": true}));
    assert_eq!(client.get("/v1/filters/carts/keys/alice/count").is(200).json(), json!({"key": "alice", "count": 2}));
    assert_eq!(client.delete("/v1/filters/carts/keys/alice").is(200).json(), json!({"key": "alice", "removed": true}));
    assert_eq!(client.get("/v1/filters/carts/keys/alice/count").json()["count"], 1);
    // Any bytes, and nothing at all.
    assert_eq!(client.put("/v1/filters/carts/keys/%FF%2F").is(200).json(), json!({"key_base64": "/y8=", "new": true}));
    assert_eq!(ask(&mut client, "%FF%2F")["answer"], "maybe");
    assert_eq!(ask(&mut client, "")["answer"], "no");
    // A filter that is not there is no filter without keys.
    for path in ["/v1/filters/crats/keys/alice", "/v1/filters/crats/keys/alice/count"] {
        client.get(path).problem(404, "not-found");
    }
    client.put("/v1/filters/crats/keys/alice").problem(404, "not-found");
    client.delete("/v1/filters/crats/keys/alice").problem(404, "not-found");
    assert_eq!(client.get("/v1/filters").json()["total"], 1, "a PUT of a key makes no filter");
    client
        .json("POST", "/v1/filters", &json!({"name": "seen", "kind": "blocked", "capacity": 100, "rate": 0.01}))
        .is(201);
    let why = client.delete("/v1/filters/seen/keys/a").problem(422, "refused");
    assert!(why.contains("cannot let go of single items"), "{why}");
    let long = "x".repeat(20_000);
    assert_eq!(client.put(&format!("/v1/filters/seen/keys/{long}")).is(200).json()["new"], true);
    assert!(client.put("/v1/filters/carts/keys/100%").problem(400, "bad-request").contains("%25"));
    client.get("/v1/filters/carts/keys/a/b").problem(404, "not-found");
    let why = client.json("POST", "/v1/filters/carts/keys/a", &json!({})).problem(405, "method-not-allowed");
    assert!(why.contains("GET, PUT and DELETE"), "{why}");
    running.stop();
}

#[test]
fn many_keys_in_every_form() {
    let running = Running::start();
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "seen", "kind": "blocked", "capacity": 100_000, "rate": 0.0001}))
        .is(201);
    let added = client.json("POST", "/v1/filters/seen/add", &json!({"keys": ["alice", "bob", "alice", "é"]})).is(200);
    assert_eq!((added.header("bloomgate-keys"), added.header("bloomgate-new")), (Some("4"), Some("3")));
    let wanted = json!({"filter": "seen", "keys": 4, "new": 3, "seen": 1, "refused": 0, "error": null,
        "answers": [true, true, false, true]});
    assert_eq!(added.json(), wanted);

    let lines = [("content-type", "text/plain")];
    let asked = client.send("POST", "/v1/filters/seen/check", &lines, "alice\nmallory\né\n".as_bytes()).is(200);
    assert_eq!((asked.text(), asked.header("bloomgate-maybe")), ("1\n0\n1\n", Some("2")));
    let in_json = [("content-type", "text/plain; charset=utf-8"), ("accept", "application/json")];
    let asked = client.send("POST", "/v1/filters/seen/check", &in_json, b"alice\nmallory").is(200).json();
    assert_eq!(asked, json!({"filter": "seen", "keys": 2, "maybe": 1, "no": 1, "answers": [true, false]}));

    let binary: Vec<u8> = ["alice", "mallory", "bob"]
        .iter()
        .flat_map(|key| [&(key.len() as u32).to_le_bytes()[..], key.as_bytes()].concat())
        .collect();
    let bytes = [("content-type", "application/octet-stream")];
    let asked = client.send("POST", "/v1/filters/seen/check", &bytes, &binary).is(200);
    assert_eq!((&asked.body[..], asked.header("content-type")), (&[0b101][..], Some("application/octet-stream")));
    client.send("POST", "/v1/filters/seen/check", &bytes, &binary[..5]).problem(400, "bad-request");

    client
        .json("POST", "/v1/filters", &json!({"name": "carts", "kind": "cuckoo", "capacity": 1_000, "rate": 0.001}))
        .is(201);
    client.json("POST", "/v1/filters/carts/add", &json!({"keys": ["a", "b"]})).is(200);
    let removed = client.json("POST", "/v1/filters/carts/remove", &json!({"keys": ["a", "x"]})).is(200).json();
    assert_eq!(removed, json!({"filter": "carts", "keys": 2, "removed": 1, "answers": [true, false]}));
    client.json("POST", "/v1/filters/seen/remove", &json!({"keys": ["a"]})).problem(422, "refused");
    let reported = client.json("POST", "/v1/filters/seen/feedback", &json!({"keys": ["x", "y"]})).is(200).json();
    assert_eq!(reported, json!({"filter": "seen", "keys": 2, "taken": 0}));

    // Nothing was asked, and the filter has to be there all the same.
    for body in ["add", "check", "remove", "feedback"] {
        client.json("POST", &format!("/v1/filters/none/{body}"), &json!({"keys": []})).problem(404, "not-found");
        client.send("POST", &format!("/v1/filters/none/{body}"), &lines, b"a\n").problem(404, "not-found");
    }
    assert_eq!(client.json("POST", "/v1/filters/seen/check", &json!({"keys": []})).is(200).json()["keys"], 0);
    client
        .send("POST", "/v1/filters/seen/check", &[("content-type", "image/png")], b"x")
        .problem(415, "unsupported-media-type");
    let picky = [("content-type", "text/plain"), ("accept", "image/png")];
    client.send("POST", "/v1/filters/seen/check", &picky, b"x").problem(406, "not-acceptable");
    running.stop();
}

#[test]
fn a_hundred_thousand_lines_are_answered_in_their_order() {
    let running = Running::start();
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "scalable", "capacity": 1_000, "rate": 0.000_001}))
        .is(201);
    let lines: String = (0..100_000).map(|number| format!("key-{number}\n")).collect();
    let kind = [("content-type", "text/plain")];
    let added = client.send("POST", "/v1/filters/f/add", &kind, lines.as_bytes()).is(200);
    assert_eq!(added.body.len(), 200_000);
    // Every third one is another key.
    let asked: String = (0..100_000)
        .map(|number| if number % 3 == 0 { format!("no-{number}\n") } else { format!("key-{number}\n") })
        .collect();
    let told = client.send("POST", "/v1/filters/f/check", &kind, asked.as_bytes()).is(200);
    for (number, line) in told.text().lines().enumerate() {
        assert!(line == "1" || number.is_multiple_of(3), "key {number} is there");
    }
    let maybe: u64 = told.header("bloomgate-maybe").unwrap().parse().unwrap();
    assert!((66_666..66_676).contains(&maybe), "{maybe}");
    let filter = client.get("/v1/filters/f").json();
    assert_eq!((&filter["lookups"], &filter["maybe"]), (&json!(100_000), &json!(maybe)));
    running.stop();
}

#[test]
fn a_full_filter_says_which_keys_it_refused() {
    let running = Running::start();
    let mut client = running.client();
    let wish = json!({"name": "f", "kind": "blocked", "capacity": 64, "rate": 0.000_01, "on_full": "refuse"});
    let capacity = client.json("POST", "/v1/filters", &wish).is(201).json()["capacity"].as_u64().unwrap();
    let keys: Vec<String> = (0..capacity + 3).map(|number| number.to_string()).collect();
    let added = client.json("POST", "/v1/filters/f/add", &json!({"keys": keys})).is(200).json();
    assert_eq!(
        added["refused"].as_u64(),
        Some(added["answers"].as_array().unwrap().iter().filter(|one| one.is_null()).count() as u64)
    );
    assert!(added["refused"].as_u64() > Some(0) && added["error"].as_str().unwrap().contains("full"), "{added}");
    let why = client.put("/v1/filters/f/keys/one-more").problem(422, "refused");
    assert!(why.contains("full"), "{why}");
    // In lines it is no digit, and a bitmap is not given: a key that is not in must not look like one that is.
    let lines = [("content-type", "text/plain")];
    let told = client.send("POST", "/v1/filters/f/add", &lines, b"0\none-more\n").is(200);
    assert_eq!((told.text(), told.header("bloomgate-refused")), ("0\n-\n", Some("1")));
    let bitmap = [("content-type", "text/plain"), ("accept", "application/octet-stream")];
    let told = client.send("POST", "/v1/filters/f/add", &bitmap, b"0\none-more\n");
    assert_eq!(told.header("bloomgate-refused"), Some("1"));
    assert!(told.problem(422, "refused").contains("1 of 2 keys were refused"));
    client.send("POST", "/v1/filters/f/add", &bitmap, b"0\n").is(200);
    running.stop();
}
