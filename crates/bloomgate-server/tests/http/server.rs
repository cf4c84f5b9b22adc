//! The server at a glance, its health, its metrics, the planner and the workbench.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{PATIENCE, Running};

#[test]
fn health_and_what_the_process_is() {
    let running = Running::start();
    let mut client = running.client();
    assert_eq!(client.get("/healthz").is(200).text(), "ok\n");
    assert_eq!(client.get("/readyz").is(200).text(), "ready\n");
    let about = client.get("/about.json").is(200).json();
    assert_eq!((&about["process"], &about["login_needed"]), (&json!("server"), &json!(false)));
    let description = client.get("/openapi.json").is(200).json();
    assert_eq!(description["openapi"], "3.1.0");
    client.get("/").is(200);
    assert_eq!(client.send("HEAD", "/healthz", &[], b"").is(200).body.len(), 0);
    client.send("POST", "/healthz", &[], b"").problem(405, "method-not-allowed");
    running.stop();
}

#[test]
fn an_overview_counts_what_was_spared() {
    let running = Running::start();
    let mut client = running.client();
    client
        .json("POST", "/v1/filters", &json!({"name": "f", "kind": "blocked", "capacity": 1_000, "rate": 0.0001}))
        .is(201);
    client.json("POST", "/v1/filters/f/add", &json!({"keys": ["a", "b", "a"]})).is(200);
    client.json("POST", "/v1/filters/f/check", &json!({"keys": ["a", "x", "y", "z"]})).is(200);
    running.resp(&["BF.EXISTS nowhere a"]);
    let told = client.get("/v1/overview").is(200).json();
    let count = |name: &str| told[name].as_u64().unwrap();
    assert_eq!((count("lookups"), count("definitely_not"), count("maybe")), (5, 4, 1));
    assert_eq!((count("adds"), count("new"), count("filters")), (3, 2, 1));
    assert_eq!(told["health"], json!({"ready": true, "state": "ready", "why": null}));
    assert_eq!(told["user"]["name"], "default");
    assert_eq!(told["kinds"], json!({"blocked": 1}));
    assert_eq!(told["addresses"]["http"], running.http.to_string());
    assert_eq!(told["alerts"], json!([]));
    assert_eq!(told["persistence"]["kept"], false);
    assert!(
        told["memory"]["used"].as_u64() > Some(0)
            && told["memory"]["budget"].as_u64() > told["memory"]["used"].as_u64()
    );
    assert!(client.get("/v1/advice").is(200).json()["advice"].to_string().contains("Nothing is kept"));
    assert_eq!(client.get("/v1/alerts").is(200).json(), json!({"alerts": []}));
    running.stop();
}

/// It counts every insertion and forgets the old ones: more of them than it remembers are its daily bread.
#[test]
fn a_stable_filter_is_never_over_its_capacity() {
    let running = Running::start();
    let mut client = running.client();
    for kind in ["stable", "blocked"] {
        running.resp(&[&format!("BG.CREATE {kind} KIND {kind} CAPACITY 100 RATE 0.01 ONFULL goon")]);
        let keys: Vec<String> = (0..300).map(|number| format!("key-{number}")).collect();
        client.json("POST", &format!("/v1/filters/{kind}/add"), &json!({"keys": keys})).is(200);
    }
    let used = |told: serde_json::Value| told["used"].as_f64().unwrap();
    assert!(used(client.get("/v1/filters/blocked").is(200).json()) > 2.0);
    assert_eq!(used(client.get("/v1/filters/stable").is(200).json()), 1.0);
    let advice = client.get("/v1/advice").is(200).json();
    let about: Vec<&str> =
        advice["advice"].as_array().unwrap().iter().filter_map(|one| one["about"].as_str()).collect();
    assert_eq!(about, ["blocked"]);
    // Panels compare items with this.
    let scraped = client.get("/metrics").is(200);
    let metrics = scraped.text();
    assert!(metrics.contains("bloomgate_filter_capacity{filter=\"blocked\"} 100\n"), "{metrics}");
    assert!(!metrics.contains("bloomgate_filter_capacity{filter=\"stable\"}"), "{metrics}");
    running.stop();
}

#[test]
fn advice_comes_with_commands_that_the_server_takes() {
    let running = Running::start();
    let mut client = running.client();
    let made = running.resp(&[
        "BG.CREATE \"too small\" KIND blocked CAPACITY 10 RATE 0.01 ONFULL goon",
        "BG.CREATE full KIND cuckoo CAPACITY 1 RATE 0.01",
        "BG.CREATE open KIND rotating CAPACITY 1000 RATE 0.001 WINDOW 60 HASH xxh3",
        "BG.CREATE fine KIND blocked CAPACITY 1000 RATE 0.01",
        "BF.RESERVE chain 0.01 10",
    ]);
    assert_eq!(made, ["+OK"; 5]);
    let keys: Vec<String> = (0..200).map(|key| format!("key-{key}")).collect();
    for name in ["too%20small", "full", "open", "chain", "fine"] {
        client.json("POST", &format!("/v1/filters/{name}/add"), &json!({"keys": keys})).is(200);
    }
    let told = client.get("/v1/advice").is(200).json();
    let of = |about: &str| -> Vec<(String, String)> {
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let all = told["advice"].as_array().unwrap().iter().filter(|said| said["about"] == about);
        all.map(|said| (text(&said["sentence"]), text(&said["command"]))).collect()
    };
    assert_eq!(of("fine"), []);
    for (about, sentence) in [
        ("too small", "items, and was made for 10 items."),
        ("full", "It is full and has refused"),
        ("open", "hashed without a secret"),
        ("chain", "It has grown to"),
    ] {
        let said = of(about);
        assert!(said.len() == 1 && said[0].0.contains(sentence), "{about}: {said:?}");
        let command = &*said[0].1;
        assert!(command.starts_with("BG.CREATE") && command.contains(":next"), "{command}");
        assert_eq!(running.resp(&[command]), ["+OK"], "{command}");
    }
    // What is urgent comes first.
    let severities: Vec<_> = told["advice"].as_array().unwrap().iter().map(|said| &said["severity"]).collect();
    assert!(severities.is_sorted_by_key(|severity| **severity == "info"), "{severities:?}");
    running.stop();
}

#[test]
fn metrics_as_prometheus_reads_them() {
    let running = Running::start();
    let mut client = running.client();
    running.resp(&["BG.NAMESPACE SET shop PREFIX shop:", "ACL SETUSER shop on >secret +@all namespace=shop"]);
    client
        .json("POST", "/v1/filters", &json!({"name": "shop:f", "kind": "blocked", "capacity": 1_000, "rate": 0.0001}))
        .is(201);
    client.json("POST", "/v1/filters/shop:f/add", &json!({"keys": ["a", "b", "a"]})).is(200);
    client.json("POST", "/v1/filters/shop:f/check", &json!({"keys": ["a", "x", "y"]})).is(200);
    let told = client.get("/metrics").is(200);
    let text = told.text();
    for line in [
        "bloomgate_ready 1",
        "bloomgate_lookups_total{answer=\"no\"} 2",
        "bloomgate_lookups_total{answer=\"maybe\"} 1",
        "bloomgate_adds_total{result=\"new\"} 2",
        "bloomgate_adds_total{result=\"seen\"} 1",
        "bloomgate_filters{kind=\"blocked\"} 1",
        "bloomgate_store_writable 1",
        "bloomgate_filter_items{filter=\"shop:f\"} 2",
        "bloomgate_filter_capacity{filter=\"shop:f\"} 1000",
        "bloomgate_filter_rate_asked_ratio{filter=\"shop:f\"} 0.0001",
        "bloomgate_filter_lookups_total{filter=\"shop:f\",answer=\"no\"} 2",
        "bloomgate_namespace_filters{namespace=\"shop\"} 1",
        "bloomgate_namespace_adds_total{namespace=\"shop\",result=\"new\"} 2",
        "bloomgate_commands_total{command=\"bg.exists\"} 1",
        "bloomgate_command_duration_seconds_count{command=\"bg.exists\"} 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} is not in\n{text}");
    }
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool: scripts/test installs Debian's package prometheus for it");
    promtool.stdin.take().unwrap().write_all(&told.body).unwrap();
    let said = promtool.wait_with_output().unwrap();
    let complaints = [said.stdout, said.stderr].concat();
    assert!(said.status.success() && complaints.is_empty(), "{}", String::from_utf8_lossy(&complaints));
    let open =
        client.send("GET", "/metrics", &[("accept", "application/openmetrics-text; version=1.0.0")], b"").is(200);
    assert!(open.text().ends_with("# EOF\n"));
    // All namespaces are nothing for a user of one.
    running.client().login("shop", "secret").get("/metrics").problem(403, "forbidden");
    running.stop();
}

#[test]
fn the_planner_of_the_library() {
    let running = Running::start();
    let mut client = running.client();
    let told = client.get("/v1/plan?items=1000000&rate=0.01").is(200).json();
    assert_eq!((&told["choice"], &told["kind"]), (&json!("filter"), &json!("blocked")));
    let plan = bloomgate::advice::advise(&bloomgate::advice::Need {
        items: Some(1_000_000),
        rate: Some(0.01),
        ..Default::default()
    });
    assert_eq!(told["plan"]["bits"], plan.unwrap().plan.unwrap().shape.bits);
    let resp = told["lines"]["resp"].as_str().unwrap();
    assert_eq!(running.resp(&[resp]), ["+OK"], "{resp}");
    assert_eq!(client.get("/v1/filters/keys").is(200).json()["capacity"], 1_000_000);
    assert!(told["curve"].as_array().unwrap().len() > 10 && told["table"].as_array().unwrap().len() > 5);
    assert_eq!(client.get("/v1/plan?items=100").is(200).json()["choice"], "hash-set");
    assert_eq!(client.get("/v1/plan?wants=listing").is(200).json()["choice"], "sorted-file");
    let saves = client.get("/v1/plan?items=1000000&absent_share=0.9&lookup_cost_seconds=0.001").is(200).json();
    assert_eq!(saves["savings"]["worth_it"], true);
    client.get("/v1/plan").problem(400, "bad-request");
    client.get("/v1/plan?items=many").problem(400, "bad-request");
    client.get("/v1/plan?items=1000000&rate=2").problem(422, "refused");
    client.get("/v1/plan?items=0").problem(422, "refused");
    client.get("/v1/plan?items=18446744073709551615").problem(422, "refused");
    running.stop();
}

#[test]
fn any_command_and_its_reply() {
    let running = Running::start();
    let mut client = running.client();
    let mut say = |argv: serde_json::Value| client.json("POST", "/v1/command", &json!({"argv": argv})).is(200).json();
    assert_eq!(say(json!(["BF.ADD", "seen", "alice"]))["reply"], true);
    assert_eq!(say(json!(["bf.mexists", "seen", "alice", "bob"]))["reply"], json!([true, false]));
    assert_eq!(say(json!(["BG.INFO", "seen"]))["reply"]["items"], 1);
    assert_eq!(say(json!(["PING"]))["reply"], "PONG");
    let wrong = say(json!(["BF.ADD", "seen"]));
    assert!(wrong["reply"].is_null() && wrong["error"].as_str().unwrap().contains("wrong number of arguments"));
    for argv in [
        json!(["MULTI"]),
        json!(["AUTH", "x"]),
        json!(["SHUTDOWN"]),
        json!(["CLIENT", "REPLY", "OFF"]),
        json!(["QUIT"]),
    ] {
        client.json("POST", "/v1/command", &json!({"argv": argv})).problem(422, "refused");
    }
    let bytes = json!({"argv_base64": [bloomgate_http::base64::encode(b"ECHO"), "/w=="]});
    assert_eq!(client.json("POST", "/v1/command", &bytes).is(200).json()["reply"], json!({"base64": "/w=="}));
    for wrong in [json!({}), json!({"argv": []}), json!({"argv": [1]}), json!({"argv_base64": ["?"]})] {
        client.json("POST", "/v1/command", &wrong).problem(400, "bad-request");
    }
    let commands = client.get("/v1/commands").is(200).json();
    let add =
        commands["commands"].as_array().unwrap().iter().find(|command| command["name"] == "BF.ADD").unwrap().clone();
    assert_eq!((&add["role"], &add["group"]), (&json!("write"), &json!("bf")));
    client.json("POST", "/v1/command", &json!({"argv": ["CONFIG", "SET", "slower-than", "0"]})).is(200);
    client.json("POST", "/v1/command", &json!({"argv": ["BG.INFO", "seen"]})).is(200);
    let slow = client.get("/v1/slowlog?limit=5").is(200).json();
    assert!(slow["slow"].to_string().contains("BG.INFO"), "{slow}");
    running.stop();
}

/// A hundred of them are told, and how many there are.
#[test]
fn of_many_overfull_filters_it_is_told_how_many_there_are() {
    let running = Running::start();
    let mut client = running.client();
    let all = 130u64;
    for number in 0..all {
        let wish =
            json!({"name": format!("f{number}"), "kind": "classic", "capacity": 5, "rate": 0.001, "on_full": "goon"});
        client.json("POST", "/v1/filters", &wish).is(201);
        let keys: Vec<String> = (0..20).map(|key| format!("key-{key}")).collect();
        client.json("POST", &format!("/v1/filters/f{number}/add"), &json!({ "keys": keys })).is(200);
    }
    let told = client.get("/v1/advice").is(200).json();
    // And that nothing is kept on disk.
    assert_eq!((told["advice"].as_array().unwrap().len(), &told["total"]), (100, &json!(all + 1)));
    // It is looked every ten seconds what is wrong.
    let until = Instant::now() + PATIENCE;
    loop {
        let told = client.get("/v1/alerts").is(200).json();
        let over = told["alerts"].as_array().unwrap().iter().filter(|alert| alert["name"] == "BloomgateOverCapacity");
        let totals: Vec<_> = over.map(|alert| alert["total"].as_u64().unwrap()).collect();
        if totals == [all; 100] {
            break;
        }
        assert!(Instant::now() < until, "{totals:?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    running.stop();
}
