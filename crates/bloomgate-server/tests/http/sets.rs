//! Filters from filters, and what is inside one.

use serde_json::json;

use crate::harness::Running;

#[test]
fn merged_copied_swapped_folded() {
    let running = Running::start();
    let mut client = running.client();
    for name in ["monday", "tuesday"] {
        let wish = json!({"name": name, "kind": "blocked", "capacity": 10_000, "rate": 0.0001});
        client.json("POST", "/v1/filters", &wish).is(201);
        client.put(&format!("/v1/filters/{name}/keys/{name}")).is(200);
        client.put(&format!("/v1/filters/{name}/keys/both")).is(200);
    }
    let merged =
        client.json("POST", "/v1/filters/week/merge", &json!({"sources": ["monday", "tuesday"]})).is(200).json();
    assert_eq!(merged["name"], "week");
    let asked =
        client.json("POST", "/v1/filters/week/check", &json!({"keys": ["monday", "tuesday", "both", "x"]})).json();
    assert_eq!(asked["answers"], json!([true, true, true, false]));
    client.json("POST", "/v1/filters/both/intersect", &json!({"left": "monday", "right": "tuesday"})).is(200);
    let asked = client.json("POST", "/v1/filters/both/check", &json!({"keys": ["monday", "both"]})).json();
    assert_eq!(asked["answers"], json!([false, true]));
    client.json("POST", "/v1/filters/week/copy", &json!({"to": "archive"})).is(200);
    client.json("POST", "/v1/filters/week/copy", &json!({"to": "archive"})).problem(409, "exists");
    client.json("POST", "/v1/filters/week/copy", &json!({"to": "archive", "replace": true})).is(200);
    client.json("POST", "/v1/filters/none/copy", &json!({"to": "x"})).problem(404, "not-found");
    client.json("POST", "/v1/filters/monday/swap", &json!({"with": "tuesday"})).is(200);
    assert_eq!(client.get("/v1/filters/monday/keys/tuesday").json()["answer"], "maybe");
    let before = client.get("/v1/filters/week").json()["bytes"].as_u64().unwrap();
    let folded = client.json("POST", "/v1/filters/week/fold", &json!({"factor": 2})).is(200).json();
    assert!(folded["bytes"].as_u64().unwrap() < before);
    for (path, body) in [
        ("merge", json!({"sources": []})),
        ("merge", json!({"sources": "monday"})),
        ("swap", json!({})),
        ("fold", json!({"factor": 2, "rate": 0.1})),
        ("copy", json!({"to": 1})),
    ] {
        client.json("POST", &format!("/v1/filters/week/{path}"), &body).problem(400, "bad-request");
    }
    client.json("POST", "/v1/filters/week/merge", &json!({"sources": ["none"]})).problem(404, "not-found");
    let audit = client.get("/v1/filters/both/audit").is(200).json();
    assert_eq!(audit["lookups"], 2);
    client.send("POST", "/v1/filters/both/audit/reset", &[], b"").is(200);
    assert_eq!(client.get("/v1/filters/both/audit").json()["lookups"], 0);
    running.stop();
}

#[test]
fn what_is_inside_a_filter() {
    let running = Running::start();
    let mut client = running.client();
    let wish = json!({"name": "chain", "kind": "scalable", "capacity": 100, "rate": 0.01, "hash": "xxh3"});
    client.json("POST", "/v1/filters", &wish).is(201);
    let wish = json!({"name": "ring", "kind": "rotating", "capacity": 1_000, "rate": 0.01, "window_seconds": 60, "generations": 4});
    client.json("POST", "/v1/filters", &wish).is(201);
    client
        .json("POST", "/v1/filters", &json!({"name": "cuckoo", "kind": "cuckoo", "capacity": 1_000, "rate": 0.01}))
        .is(201);
    let keys: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
    client.json("POST", "/v1/filters/chain/add", &json!({"keys": keys})).is(200);
    client.json("POST", "/v1/filters/ring/add", &json!({"keys": ["a"]})).is(200);

    let chain = client.get("/v1/filters/chain").is(200).json();
    let stages = chain["stages"].as_array().unwrap();
    assert!(stages.len() > 1 && chain["generation_list"] == json!([]), "{chain}");
    assert_eq!(
        stages.iter().map(|stage| stage["items"].as_u64().unwrap()).sum::<u64>(),
        chain["items"].as_u64().unwrap()
    );
    let ring = client.get("/v1/filters/ring").is(200).json();
    assert_eq!(ring["generation_list"].as_array().unwrap().len(), 5);
    assert_eq!(ring["generation_list"][0]["items"], 1);

    let heat = client.get("/v1/filters/chain/heat?cells=16").is(200).json();
    let cells = heat["cells"].as_array().unwrap();
    assert!(
        (2..=16).contains(&cells.len()) && cells.iter().all(|cell| (0.0..=1.0).contains(&cell.as_f64().unwrap())),
        "{heat}"
    );
    assert_eq!(client.get("/v1/filters/cuckoo/heat").is(200).json()["cells"], json!([]));

    let found = client.get("/v1/filters/chain/explain?key=7").is(200).json();
    assert_eq!((&found["verdict"], &found["key"]), (&json!("maybe"), &json!("7")));
    assert_eq!(found["digest"].as_str().unwrap().len(), 32);
    let of_stage = |stage: &serde_json::Value| {
        let (bits, set) = (stage["bits"].as_array().unwrap(), stage["set"].as_array().unwrap());
        assert!(!bits.is_empty() && bits.len() == set.len() && stage["block"].is_u64());
        assert_eq!(set.iter().all(|bit| *bit == true), stage["verdict"] == "maybe");
    };
    found["stages"].as_array().unwrap().iter().for_each(of_stage);
    assert!(found["stages"].as_array().unwrap().iter().any(|stage| stage["verdict"] == "maybe"));
    let absent = client.get("/v1/filters/chain/explain?key_base64=/w==").is(200).json();
    assert_eq!(absent["key_base64"], "/w==");
    client.get("/v1/filters/chain/explain?key_base64=?").problem(400, "bad-request");
    client.get("/v1/filters/none/explain?key=a").problem(404, "not-found");

    // Under a secret, where the bits are is for admins.
    running.resp(&["ACL SETUSER reader on >secret +@read"]);
    let mut reader = running.client().login("reader", "secret");
    let hidden = reader.get("/v1/filters/ring/explain?key=a").is(200).json();
    assert_eq!(hidden["verdict"], "maybe");
    assert!(
        hidden["digest"].is_null()
            && hidden["stages"]
                .as_array()
                .unwrap()
                .iter()
                .all(|stage| stage["bits"].is_null() && stage["block"].is_null())
    );
    let shown = client.get("/v1/filters/ring/explain?key=a").is(200).json();
    assert!(shown["digest"].is_null() && shown["stages"][0]["bits"].is_array());
    running.stop();
}

#[test]
fn the_lines_that_make_a_filter_again_do() {
    let running = Running::start();
    let mut client = running.client();
    running.resp(&["BF.RESERVE bf 0.001 1000", "BF.RESERVE fixed 0.01 500 NONSCALING", "CF.RESERVE cf 1000"]);
    for wish in [
        json!({"name": "blocked", "kind": "blocked", "capacity": 1_000, "rate": 0.01}),
        json!({"name": "a 'b'", "kind": "classic", "capacity": 1_000, "rate": 0.001, "hash": "xxh3", "seed": 7}),
        json!({"name": "ring", "kind": "rotating", "capacity": 100, "rate": 0.01, "window_seconds": 2.5, "generations": 3}),
        json!({"name": "stable", "kind": "stable", "bytes": 65_536, "rate": 0.01}),
        json!({"name": "goon", "kind": "blocked", "capacity": 100, "rate": 0.01, "on_full": "goon"}),
        json!({"name": "counts", "kind": "counting", "capacity": 100, "rate": 0.01, "counters": 8}),
    ] {
        client.json("POST", "/v1/filters", &wish).is(201);
    }
    let list = client.get("/v1/filters").json();
    for row in list["filters"].as_array().unwrap() {
        let path = row["path"].as_str().unwrap();
        let before = client.get(path).is(200).json();
        let resp = before["recreate"]["resp"].as_str().unwrap();
        client.delete(path).is(204);
        assert_eq!(running.resp(&[resp]), ["+OK"], "{resp}");
        let mut after = client.get(path).is(200).json();
        for name in
            ["kind", "maker", "capacity", "bytes", "on_full", "window_seconds", "generations", "contract", "rate"]
        {
            let same = |value: &serde_json::Value| if name == "rate" { value["asked"].clone() } else { value.clone() };
            assert_eq!(same(&after[name]), same(&before[name]), "{name} of {resp}");
        }
        // And over HTTP, for those that BG.CREATE made.
        if before["maker"] == "BG" {
            let http = before["recreate"]["http"].as_str().unwrap();
            let body = http.split_once(" -d '").unwrap().1.strip_suffix('\'').unwrap().replace("'\\''", "'");
            client.delete(path).is(204);
            client.send("POST", "/v1/filters", &[("content-type", "application/json")], body.as_bytes()).is(201);
            after = client.get(path).is(200).json();
            assert_eq!((&after["bytes"], &after["kind"]), (&before["bytes"], &before["kind"]), "{http}");
        }
    }
    running.stop();
}
