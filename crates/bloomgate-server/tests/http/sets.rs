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
    // Of a table it is told how full its buckets are, here each for itself.
    let heat = client.get("/v1/filters/cuckoo/heat?cells=4096").is(200).json();
    let empty = heat["cells"].as_array().unwrap().iter().all(|cell| cell == 0.0);
    assert!(empty && heat["bits_per_cell"] == 4 && heat["sampled"] == false, "{heat}");
    client.json("POST", "/v1/filters/cuckoo/add", &json!({"keys": ["a", "b", "c"]})).is(200);
    let heat = client.get("/v1/filters/cuckoo/heat?cells=4096").is(200).json();
    let used: f64 = heat["cells"].as_array().unwrap().iter().map(|cell| 4.0 * cell.as_f64().unwrap()).sum();
    assert_eq!(used, 3.0, "{heat}");

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

    // Other kinds have other things: counters, or a fingerprint that lies in one of two buckets.
    running.resp(&[
        "BG.CREATE counted KIND counting CAPACITY 1000 RATE 0.01 HASH xxh3",
        "BG.ADD counted a a b",
        "BG.CREATE nest KIND cuckoo CAPACITY 1000 RATE 0.01 HASH xxh3",
        "BG.ADD nest a",
        "BG.CREATE runs KIND quotient CAPACITY 1000 RATE 0.01 HASH xxh3",
        "BG.ADD runs a",
        "BG.CREATE lately KIND stable CAPACITY 1000 RATE 0.01 HASH xxh3",
        "BG.ADD lately a",
    ]);
    let mut first = |name: &str, key: &str| {
        let told = client.get(&format!("/v1/filters/{name}/explain?key={key}")).is(200).json();
        assert_eq!(told["stages"][0]["verdict"], told["verdict"], "{told}");
        told["stages"][0].clone()
    };
    for (name, key, least) in [("counted", "a", 2), ("counted", "b", 1), ("counted", "nobody", 0), ("lately", "a", 3)] {
        let stage = first(name, key);
        let holds = stage["counters"].as_array().unwrap().iter().map(|counter| counter["holds"].as_u64().unwrap());
        assert_eq!(holds.min(), Some(least), "{name} {key}: {stage}");
        assert!(stage["block"].is_u64() && stage["bits"].is_null());
    }
    for (key, is_in) in [("a", true), ("nobody", false)] {
        let stage = first("nest", key);
        let buckets = stage["buckets"].as_array().unwrap();
        let held = buckets.iter().any(|bucket| bucket["slots"].as_array().unwrap().contains(&stage["fingerprint"]));
        assert!(stage["fingerprint"].is_string() && (1..=2).contains(&buckets.len()) && held == is_in, "{stage}");
    }
    let stage = first("runs", "a");
    assert!(stage["fingerprint"].is_string() && stage["buckets"][0]["bucket"].is_u64() && stage["block"].is_u64());

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
    running.resp(&["BG.CREATE hidden KIND cuckoo CAPACITY 1000 RATE 0.01", "BG.ADD hidden a"]);
    let stage = &reader.get("/v1/filters/hidden/explain?key=a").is(200).json()["stages"][0];
    assert!(stage["fingerprint"].is_null() && stage["buckets"].is_null() && stage["verdict"] == "maybe", "{stage}");
    let shown = client.get("/v1/filters/ring/explain?key=a").is(200).json();
    assert!(shown["digest"].is_null() && shown["stages"][0]["bits"].is_array());
    running.stop();
}

/// The lines for the command and for Rust say all that the filter was told, or there is none and a reason. What they make is
/// looked at by `tests/pages/again.js` and `inside.rs`.
fn lines_are_whole(filter: &serde_json::Value) {
    let (lines, name) = (&filter["recreate"], filter["name"].as_str().unwrap());
    let rust = lines["rust"].as_str().unwrap();
    let cli = lines["cli"].as_str().ok_or_else(|| lines["cli_why"].as_str().unwrap());
    assert!(lines["rust_why"].is_null() && lines["cli_why"].is_null() == cli.is_ok(), "{lines}");
    let keyed = !filter["contract"].as_str().unwrap().contains("seed");
    assert_eq!((rust.contains("secret"), lines["secret"].is_string()), (keyed, keyed), "{name}: {lines}");
    let on_full = filter["on_full"].as_str().unwrap();
    let [of_rust, of_cli] = match on_full {
        "goon" => ["WhenFull::GoOn", "--when-full go-on"],
        "grow" => ["WhenFull::Grow", "--when-full grow"],
        _ => ["WhenFull::Refuse", "--when-full refuse"],
    };
    assert!(rust.contains(of_rust) && cli.is_ok_and(|cli| cli.contains(of_cli)) == cli.is_ok(), "{name}: {lines}");
    let says: &[&str] = match name {
        "a 'b'" => &["xxh3_seeded(7)"],
        "ring" => &[".window(std::time::Duration::from_nanos(2500000000))", ".generations(3)"],
        "stable" => &[".bytes(65536)"],
        "counts" => &["CounterBits::Eight"],
        "slots" => &["Contract::siphash24(&secret)"],
        "slices" => &["Contract::blake2b(&secret)"],
        "chain" => &[".growth(4.0)"],
        "prints" | "printed" => &[".fingerprint_bits(12)"],
        _ => &[],
    };
    assert!(says.iter().all(|says| rust.contains(says)), "{name}: {rust}");
    let has_cli = ["blocked", "a 'b'", "goon", "nibbles", "slots", "slices"].contains(&name);
    assert_eq!(cli.is_ok(), has_cli, "{name}: {cli:?}");
    match cli {
        Ok(cli) if keyed => {
            assert!(cli.starts_with("bloomgate secret new -o ") && cli.contains(" --secret-file "), "{cli}")
        }
        Ok(cli) if name == "a 'b'" => assert!(cli.contains(" --hash xxh3 --seed 7 "), "{cli}"),
        Ok(_) => {}
        Err(why) => assert!(why.len() > 20, "{why}"),
    }
}

#[test]
fn the_lines_that_make_a_filter_again_do() {
    let running = Running::start();
    let mut client = running.client();
    let made = running.resp(&[
        "BF.RESERVE bf 0.001 1000",
        "BF.RESERVE fixed 0.01 500 NONSCALING",
        "CF.RESERVE cf 1000",
        "CF.RESERVE rated 1000 RATE 0.0001",
        "CF.RESERVE printed 1000 EXPANSION 0 FINGERPRINT 12",
    ]);
    assert_eq!(made, ["+OK"; 5]);
    for wish in [
        json!({"name": "blocked", "kind": "blocked", "capacity": 1_000, "rate": 0.01}),
        json!({"name": "a 'b'", "kind": "classic", "capacity": 1_000, "rate": 0.001, "hash": "xxh3", "seed": 7}),
        json!({"name": "ring", "kind": "rotating", "capacity": 100, "rate": 0.01, "window_seconds": 2.5, "generations": 3}),
        json!({"name": "stable", "kind": "stable", "bytes": 65_536, "rate": 0.01}),
        json!({"name": "goon", "kind": "blocked", "capacity": 100, "rate": 0.01, "on_full": "goon"}),
        json!({"name": "counts", "kind": "counting", "capacity": 100, "rate": 0.01, "counters": 8}),
        json!({"name": "nibbles", "kind": "counting", "capacity": 100, "rate": 0.01}),
        json!({"name": "slots", "kind": "quotient", "capacity": 1_000, "rate": 0.01, "hash": "siphash24"}),
        json!({"name": "slices", "kind": "partitioned", "capacity": 1_000, "rate": 0.01, "hash": "blake2b"}),
        json!({"name": "chain", "kind": "scalable", "capacity": 100, "rate": 0.01, "growth": 4}),
        json!({"name": "closed", "kind": "scalable", "capacity": 100, "rate": 0.01, "on_full": "refuse"}),
        json!({"name": "prints", "kind": "cuckoo", "capacity": 1_000, "fingerprint": 12}),
        json!({"name": "tables", "kind": "growing-cuckoo", "capacity": 1_000, "rate": 0.01}),
    ] {
        client.json("POST", "/v1/filters", &wish).is(201);
    }
    let list = client.get("/v1/filters").json();
    for row in list["filters"].as_array().unwrap() {
        let path = row["path"].as_str().unwrap();
        let before = client.get(path).is(200).json();
        let resp = before["recreate"]["resp"].as_str().unwrap();
        lines_are_whole(&before);
        client.delete(path).is(204);
        assert_eq!(running.resp(&[resp]), ["+OK"], "{resp}");
        let mut after = client.get(path).is(200).json();
        for name in
            ["kind", "maker", "capacity", "bytes", "on_full", "window_seconds", "generations", "contract", "rate"]
        {
            let same = |value: &serde_json::Value| if name == "rate" { value["asked"].clone() } else { value.clone() };
            assert_eq!(same(&after[name]), same(&before[name]), "{name} of {resp}");
        }
        // And over HTTP: those of the families BF and CF by their own command.
        let http = before["recreate"]["http"].as_str().unwrap();
        let (head, body) = http.split_once(" -d '").unwrap();
        let body = body.strip_suffix('\'').unwrap().replace("'\\''", "'");
        let (to, status) = if before["maker"] == "BG" { ("/v1/filters", 201) } else { ("/v1/command", 200) };
        assert!(head.starts_with(&format!("curl -X POST http://127.0.0.1:8479{to} ")), "{head}");
        client.delete(path).is(204);
        client.send("POST", to, &[("content-type", "application/json")], body.as_bytes()).is(status);
        after = client.get(path).is(200).json();
        for name in ["kind", "maker", "capacity", "bytes", "on_full"] {
            assert_eq!(after[name], before[name], "{name} of {http}");
        }
    }
    running.stop();
}
