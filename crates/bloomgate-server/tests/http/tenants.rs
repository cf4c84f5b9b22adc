//! Namespaces, users and settings.

use serde_json::json;

use crate::harness::{Client, Running};

#[test]
fn namespaces_are_declared_and_changed() {
    let running = Running::start();
    let mut client = running.client();
    assert_eq!(client.get("/v1/namespaces").is(200).json(), json!({"namespaces": []}));
    let wish = json!({"prefix": "shop:", "max_memory": "100MB", "max_filters": 10});
    let made = client.json("PUT", "/v1/namespaces/shop", &wish).is(200).json();
    assert_eq!(
        (&made["prefix"], &made["max_memory"], &made["items_per_second"]),
        (&json!("shop:"), &json!(100_000_000), &json!(null))
    );
    let changed = client.json("PUT", "/v1/namespaces/shop", &json!({"max_filters": null})).is(200).json();
    assert_eq!((&changed["max_filters"], &changed["max_memory"]), (&json!(null), &json!(100_000_000)));
    assert_eq!(client.get("/v1/namespaces").json()["namespaces"].as_array().unwrap().len(), 1);
    client.get("/v1/namespaces/none").problem(404, "not-found");
    client.json("PUT", "/v1/namespaces/new", &json!({})).problem(422, "refused");
    client.json("PUT", "/v1/namespaces/new", &json!({"prefix": "n:", "max_filters": -1})).problem(400, "bad-request");
    // A user of it sees its own and no other.
    client.json("PUT", "/v1/namespaces/bank", &json!({"prefix": "bank:"})).is(200);
    let user = json!({"enabled": true, "roles": ["read", "write"], "namespace": "shop", "password": "secret"});
    client.json("PUT", "/v1/users/shop", &user).is(200);
    let mut shop = Client::new(running.http).login("shop", "secret");
    let own = shop.get("/v1/namespaces").is(200).json();
    assert_eq!((own["namespaces"].as_array().unwrap().len(), &own["namespaces"][0]["name"]), (1, &json!("shop")));
    shop.get("/v1/namespaces/bank").problem(403, "forbidden");
    shop.json("PUT", "/v1/namespaces/shop", &json!({"max_memory": null})).problem(403, "forbidden");
    let overview = shop.get("/v1/overview").is(200).json();
    assert_eq!((&overview["filters"], &overview["memory"]["budget"]), (&json!(0), &json!(100_000_000)));
    client.delete("/v1/namespaces/shop").problem(422, "refused");
    client.delete("/v1/namespaces/bank").is(204);
    client.delete("/v1/namespaces/bank").problem(404, "not-found");
    running.stop();
}

#[test]
fn users_are_made_and_changed() {
    let running = Running::start();
    let mut client = running.client();
    let users = client.get("/v1/users").is(200).json();
    assert_eq!(users["users"][0]["name"], "default");
    let made = client
        .json("PUT", "/v1/users/shop", &json!({"enabled": true, "roles": ["read"], "password": "first"}))
        .is(200)
        .json();
    let wanted = json!({"name": "shop", "enabled": true, "roles": ["read"], "namespace": null, "passwords": 1, "no_password": false});
    assert_eq!(made, wanted);
    assert!(!client.get("/v1/users").json().to_string().contains("first"), "no password is told");
    Client::new(running.http).login("shop", "first").get("/v1/filters").is(200);
    let change = json!({"reset_passwords": true, "password": "second", "roles": ["read", "admin"]});
    assert_eq!(client.json("PUT", "/v1/users/shop", &change).is(200).json()["roles"], json!(["read", "admin"]));
    Client::new(running.http).login("shop", "first").get("/v1/filters").problem(401, "unauthorized");
    let mut shop = Client::new(running.http).login("shop", "second");
    assert_eq!(
        shop.get("/v1/whoami").is(200).json(),
        json!({"name": "shop", "namespace": null, "roles": ["read", "admin"]})
    );
    client.json("PUT", "/v1/users/shop", &json!({"roles": ["king"]})).problem(400, "bad-request");
    client.json("PUT", "/v1/users/a%20b", &json!({"enabled": true, "password": "x"})).problem(422, "refused");
    client.get("/v1/users/none").problem(404, "not-found");
    client.delete("/v1/users/shop").is(204);
    client.delete("/v1/users/shop").problem(404, "not-found");
    client.delete("/v1/users/default").problem(422, "refused");
    shop.get("/v1/filters").problem(401, "unauthorized");
    // Settings as they are; the password of the default user is none of them.
    let config = client.get("/v1/config").is(200).json();
    let row = |name: &str| config["settings"].as_array().unwrap().iter().find(|row| row["name"] == name).cloned();
    assert_eq!(row("max-clients").unwrap()["changeable"], true);
    assert_eq!(row("http").unwrap()["value"], running.http.to_string());
    client.json("PUT", "/v1/users/reader", &json!({"enabled": true, "roles": ["read"], "password": "x"})).is(200);
    let mut reader = Client::new(running.http).login("reader", "x");
    for path in ["/v1/users", "/v1/users/default", "/v1/config", "/v1/namespaces", "/v1/slowlog"] {
        reader.get(path).problem(403, "forbidden");
    }
    running.stop();
}

/// ITEMSPERSECOND over HTTP: a body of more keys than a second's share waits, and all of it is done; a command that would wait
/// for half a minute is refused.
#[test]
fn a_namespace_that_had_its_share_waits_over_http_too() {
    let running = Running::start();
    let mut client = running.client();
    client.json("PUT", "/v1/namespaces/shop", &json!({"prefix": "shop:", "items_per_second": 2_000})).is(200);
    client
        .json("POST", "/v1/filters", &json!({"name": "shop:f", "kind": "blocked", "capacity": 100_000, "rate": 0.001}))
        .is(201);
    client.json("POST", "/v1/filters", &json!({"name": "free", "kind": "blocked", "capacity": 100_000})).is(201);
    let body: String = (0..7_168).map(|number| format!("key-{number}\n")).collect();
    let begun = std::time::Instant::now();
    client.send("POST", "/v1/filters/free/add", &[("content-type", "text/plain")], body.as_bytes()).is(200);
    let free = begun.elapsed();
    let begun = std::time::Instant::now();
    let added =
        client.send("POST", "/v1/filters/shop:f/add", &[("content-type", "text/plain")], body.as_bytes()).is(200);
    let waited = begun.elapsed();
    // Of 7,168 items 512 come at once and some 4,000 may be paid for ahead: the last batch has to wait for more than a second.
    assert!(waited > std::time::Duration::from_secs(1), "{waited:?}, and {free:?} without a limit");
    assert!(added.text().lines().filter(|&line| line == "1").count() > 7_100, "all of it is done");
    assert_eq!(client.get("/v1/filters/free").is(200).json()["kind"], "blocked", "others go on");
    let told = client.get("/metrics").is(200);
    let figure = |series: &str| -> f64 {
        let line = told.text().lines().find_map(|line| line.strip_prefix(series)).unwrap();
        line.trim().parse().unwrap()
    };
    assert!(figure("bloomgate_namespace_waits_total{namespace=\"shop\"}") >= 1.0);
    assert!(figure("bloomgate_namespace_waited_seconds_total{namespace=\"shop\"}") > 0.5);
    // 70,000 items would take 35 seconds.
    let user = json!({"enabled": true, "roles": ["read", "write"], "namespace": "shop", "password": "secret"});
    client.json("PUT", "/v1/users/shop", &user).is(200);
    let mut shop = Client::new(running.http).login("shop", "secret");
    let items = (0..70_000).map(|item| item.to_string());
    let argv: Vec<String> = ["BF.MADD", "f"].map(str::to_owned).into_iter().chain(items).collect();
    let refused = shop.json("POST", "/v1/command", &json!({"argv": argv})).is(200).json();
    let why = refused["error"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(why.contains("the command costs 70000 items") && why.contains("may have 2000 a second"), "{why}");
    running.stop();
}
