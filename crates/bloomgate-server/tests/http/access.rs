//! Users, roles and namespaces are those of RESP; web pages of other sites get nowhere.

use serde_json::json;

use crate::harness::{Client, Running};

#[test]
fn the_same_users_and_roles_as_over_resp() {
    let running = Running::start();
    let said = running.resp(&[
        "BG.CREATE shared KIND blocked CAPACITY 1000 RATE 0.01",
        "ACL SETUSER boss on >boss-password +@all",
        "ACL SETUSER reader on >reader-password +@read",
        "ACL SETUSER writer on >writer:pass +@read +@write",
        "ACL SETUSER default off",
    ]);
    assert_eq!(said, ["+OK"; 5]);
    let client = || running.client();
    let refused = client().get("/v1/filters").is(401);
    assert!(refused.header("www-authenticate").unwrap().starts_with("Basic realm="));
    client().get("/v1/filters").problem(401, "unauthorized");
    client().login("reader", "wrong").get("/v1/filters").problem(401, "unauthorized");
    client().login("nobody", "reader-password").get("/v1/filters").problem(401, "unauthorized");
    for wrong in ["Basic", "Basic ???", "Digest abc", "Bearer"] {
        client().with("authorization", wrong).get("/v1/filters").problem(401, "unauthorized");
    }
    // What probes ask needs no login.
    assert_eq!(client().get("/healthz").is(200).text(), "ok\n");
    client().get("/readyz").is(200);
    client().get("/openapi.json").is(200);

    let mut reader = client().login("reader", "reader-password");
    assert_eq!(reader.get("/v1/filters").is(200).json()["total"], 1);
    assert_eq!(reader.get("/v1/filters/shared/keys/a").is(200).json()["answer"], "no");
    let why = reader.put("/v1/filters/shared/keys/a").problem(403, "forbidden");
    assert!(why.contains("reader"), "{why}");
    reader.delete("/v1/filters/shared").problem(403, "forbidden");
    reader
        .json("POST", "/v1/filters", &json!({"name": "a", "kind": "blocked", "capacity": 9}))
        .problem(403, "forbidden");
    let lines = [("content-type", "text/plain")];
    reader.send("POST", "/v1/filters/shared/check", &lines, b"a\nb\n").is(200);
    reader.send("POST", "/v1/filters/shared/add", &lines, b"a\nb\n").problem(403, "forbidden");

    let mut writer = client().with("authorization", "Bearer writer:writer:pass");
    writer.put("/v1/filters/shared/keys/a").is(200);
    writer.delete("/v1/filters/shared").problem(403, "forbidden");
    writer.json("PATCH", "/v1/filters/shared", &json!({"name": "other"})).problem(403, "forbidden");
    // A user that is switched off is out with the next request.
    assert_eq!(running.resp(&["AUTH boss boss-password", "ACL SETUSER writer off"]), ["+OK", "+OK"]);
    writer.get("/v1/filters").problem(401, "unauthorized");
    // Refused logins and commands are noted where those of RESP are.
    let stats = client().login("boss", "boss-password").get("/v1/filters").is(200);
    drop(stats);
    let noted = running.resp(&["AUTH boss boss-password", "ACL LOG"]);
    assert_ne!(noted[1], "*0");
    running.stop_as(Some("boss boss-password"));
}

#[test]
fn a_bound_user_sees_its_namespace_alone() {
    let running = Running::start();
    running.resp(&[
        "BG.NAMESPACE SET shop PREFIX shop: MAXFILTERS 2",
        "ACL SETUSER shop on >shop-password +@read +@write +@delete namespace=shop",
        "BG.CREATE shop:seen KIND blocked CAPACITY 1000 RATE 0.01",
        "BG.CREATE bank:seen KIND blocked CAPACITY 1000 RATE 0.01",
    ]);
    let mut shop = running.client().login("shop", "shop-password");
    let list = shop.get("/v1/filters").is(200).json();
    assert_eq!((&list["total"], &list["filters"][0]["name"]), (&json!(1), &json!("seen")));
    assert_eq!(list["filters"][0]["namespace"], "shop");
    shop.put("/v1/filters/seen/keys/alice").is(200);
    shop.get("/v1/filters/bank%3Aseen").problem(404, "not-found");
    shop.get("/v1/filters/bank%3Aseen/keys/a").problem(404, "not-found");
    shop.get("/v1/filters/shop%3Aseen").problem(404, "not-found");
    shop.json("POST", "/v1/filters", &json!({"name": "more", "kind": "blocked", "capacity": 9})).is(201);
    let why =
        shop.json("POST", "/v1/filters", &json!({"name": "most", "kind": "blocked", "capacity": 9})).is(422).json();
    assert!(why["detail"].as_str().unwrap().contains("shop"), "{why}");
    assert_eq!(running.resp(&["EXISTS shop:more bank:seen"]), [":2"]);
    running.stop();
}

#[test]
fn requests_of_web_pages_are_refused() {
    let running = Running::start();
    let own = running.http.to_string();
    let ask =
        |headers: &[(&str, &str)], method: &str, path: &str| Client::new(running.http).send(method, path, headers, b"");
    // DNS rebinding: the page's own name points here.
    let why = ask(&[("host", "evil.example")], "GET", "/v1/filters").problem(403, "forbidden");
    assert!(why.contains("evil.example"), "{why}");
    ask(&[("host", "evil.example:8479")], "PUT", "/v1/filters/a/keys/b").problem(403, "forbidden");
    ask(&[("host", "localhost")], "GET", "/v1/filters").is(200);
    ask(&[("host", "[::1]:8479")], "GET", "/v1/filters").is(200);
    // A page of another site.
    for origin in ["http://evil.example", "https://localhost", "null", "http://127.0.0.1:1"] {
        ask(&[("origin", origin)], "GET", "/v1/filters").problem(403, "forbidden");
        ask(&[("origin", origin)], "PUT", "/v1/filters/a/keys/b").problem(403, "forbidden");
    }
    ask(&[("origin", &format!("http://{own}"))], "GET", "/v1/filters").is(200);
    for site in ["cross-site", "same-site"] {
        ask(&[("sec-fetch-site", site)], "GET", "/v1/filters").problem(403, "forbidden");
    }
    for site in ["same-origin", "none"] {
        ask(&[("sec-fetch-site", site)], "GET", "/v1/filters").is(200);
    }
    // With a login, which browsers send along, it is no better.
    running.resp(&["ACL SETUSER boss on >secret +@all"]);
    let mut boss = Client::new(running.http).login("boss", "secret");
    boss.send("GET", "/v1/filters", &[("origin", "http://evil.example")], b"").problem(403, "forbidden");
    boss.send("GET", "/v1/filters", &[("host", "filters.example")], b"").is(200);
    running.stop();
}

/// A page whose own name points here may send a login; where any password does, that is none.
#[test]
fn a_login_without_a_password_opens_nothing_to_web_pages() {
    let running = Running::start();
    assert_eq!(running.resp(&["ACL SETUSER open on nopass +@all", "ACL SETUSER boss on >secret +@all"]), ["+OK"; 2]);
    let evil = [("host", "evil.example")];
    for (user, password) in [("default", "x"), ("default", ""), ("open", "x"), ("open", "")] {
        let mut page = running.client().login(user, password);
        let why = page.send("GET", "/v1/users", &evil, b"").problem(403, "forbidden");
        assert!(why.contains("evil.example"), "{why}");
        page.send("PUT", "/v1/users/mallory", &evil, br#"{"enabled":true}"#).problem(403, "forbidden");
        page.send("GET", "/v1/users", &[("host", "localhost")], b"").is(200);
    }
    for login in ["Bearer default:x", "Bearer open:x"] {
        let mut page = running.client().with("authorization", login);
        page.send("GET", "/v1/users", &evil, b"").problem(403, "forbidden");
    }
    // Who knows a password is no page that happened to be opened.
    running.client().login("boss", "secret").send("GET", "/v1/users", &evil, b"").is(200);
    running.stop();
}

/// What was done is not answered with a refusal because nothing of it may be read.
#[test]
fn who_writes_and_may_not_read_is_told_that_it_is_done() {
    let running = Running::start();
    assert_eq!(running.resp(&["ACL SETUSER writer on >secret +@write +@delete"]), ["+OK"]);
    let mut writer = running.client().login("writer", "secret");
    let named = |name: &str| json!({"name": name, "path": format!("/v1/filters/{name}")});
    let wish = json!({"name": "a", "kind": "blocked", "capacity": 1_000, "rate": 0.01});
    let made = writer.json("POST", "/v1/filters", &wish).is(201);
    assert_eq!((made.json(), made.header("location")), (named("a"), Some("/v1/filters/a")));
    for (path, body, told) in [
        ("a/copy", json!({"to": "b"}), "b"),
        ("both/intersect", json!({"left": "a", "right": "b"}), "both"),
        ("a/merge", json!({"sources": ["b"]}), "a"),
        ("a/swap", json!({"with": "b"}), "a"),
        ("a/fold", json!({"rate": 0.5}), "a"),
    ] {
        let answer = writer.json("POST", &format!("/v1/filters/{path}"), &body).is(200).json();
        assert_eq!(answer, named(told), "{path}");
    }
    writer.json("POST", "/v1/filters/a/copy", &json!({"to": "b"})).problem(409, "exists");
    writer.json("POST", "/v1/filters/none/copy", &json!({"to": "c"})).problem(404, "not-found");
    let later = 4_102_444_800_000_u64;
    let patch = json!({"name": "c", "expires_ms": later});
    assert_eq!(writer.json("PATCH", "/v1/filters/b", &patch).is(200).json(), named("c"));
    assert_eq!(writer.json("PATCH", "/v1/filters/c", &json!({"expires_ms": null})).is(200).json(), named("c"));
    writer.json("PATCH", "/v1/filters/none", &json!({"expires_ms": null})).problem(404, "not-found");
    let file = running.client().get("/v1/filters/a/snapshot").is(200).body;
    let kind = [("content-type", "application/octet-stream")];
    assert_eq!(writer.send("PUT", "/v1/filters/d/snapshot", &kind, &file).is(201).json(), named("d"));
    assert_eq!(writer.json("POST", "/v1/filters/a/add", &json!({"keys": []})).is(200).json()["keys"], 0);
    writer.get("/v1/filters/a").problem(403, "forbidden");
    assert_eq!(running.resp(&["EXISTS a both c d"]), [":4"]);
    running.stop();
}

#[test]
fn a_named_host_is_answered_without_a_login() {
    let settings =
        bloomgate_server::Settings { http_hosts: vec!["filters.example".to_owned()], ..crate::harness::settings() };
    let running = Running::start_with(settings);
    Client::new(running.http).send("GET", "/v1/filters", &[("host", "filters.example:80")], b"").is(200);
    Client::new(running.http).send("GET", "/v1/filters", &[("host", "other.example")], b"").problem(403, "forbidden");
    running.stop();
}
