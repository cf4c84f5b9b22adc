//! `gate`: the real service over HTTP in front of a real SQLite file; how it starts, is told its settings, answers, stops and
//! comes back.

use std::io::{Read, Write};
use std::time::Duration;

use rusqlite::Connection;

use crate::got::Got;
use crate::scene::Scene;
use crate::service::{self, Running};

/// The usual source.
pub const SHOP: &str = "--source sqlite:shop.db --table products --key sku";

/// A folder with a shop of a thousand products.
pub fn shop() -> Scene {
    let scene = Scene::new();
    let mut database = Connection::open(scene.path("shop.db")).unwrap();
    database.execute_batch("CREATE TABLE products (sku TEXT PRIMARY KEY, price INTEGER) WITHOUT ROWID").unwrap();
    let transaction = database.transaction().unwrap();
    for number in 0..1000 {
        let row = (format!("sku-{number}"), number);
        transaction.execute("INSERT INTO products VALUES (?1, ?2)", row).unwrap();
    }
    transaction.commit().unwrap();
    scene
}

/// A gate, and what its clients do.
impl Running {
    /// Starts `gate` on any free port, and waits until it says that it listens.
    pub fn gate(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Self {
        Self::start(scene, &format!("gate --listen 127.0.0.1:0 {arguments}"), variables, |line| {
            let told = line.strip_prefix("bloomgate: gate ready on http")?;
            Some(told.rsplit(':').next().unwrap().parse().unwrap())
        })
    }

    /// Starts it and waits until its filter is built.
    pub fn ready_gate(scene: &Scene, arguments: &str) -> Self {
        let gate = Self::gate(scene, arguments, &[]);
        gate.wait_for("bloomgate: filter ready");
        gate
    }

    pub fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let mut stream = self.connect();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{length}{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Got::read(&answer)
    }

    pub fn get(&self, path: &str) -> Got {
        self.ask("GET", path, "", "")
    }
}

/// A `gate` that must be refused at once, with exit code 2 and all of this in its message.
#[track_caller]
fn refused(scene: &Scene, arguments: &str, variables: &[(&str, &str)], says: &[&str]) {
    service::refused(scene, &format!("gate {arguments}"), variables, says);
}

#[test]
fn absent_keys_are_answered_without_the_database() {
    let scene = shop();
    let gate = Running::ready_gate(&scene, &format!("{SHOP} --writers sole --data none"));
    let found = gate.get("/v1/products/sku-7");
    assert_eq!(found.outcome(), (200, Some("source")));
    assert_eq!(found.json(), serde_json::json!({"sku": "sku-7", "price": 7}));
    assert_eq!(gate.get("/v1/products/sku-7").outcome(), (200, Some("cache")));
    let outcomes: Vec<(u16, String)> = (0..300)
        .map(|number| gate.get(&format!("/v1/products/bot-{number}")))
        .map(|got| (got.status, got.outcome().1.unwrap_or_default().to_owned()))
        .collect();
    assert!(outcomes.iter().all(|(status, _)| *status == 404));
    // At a rate of 0.1 %, ten of 300 that pass have a chance of one in ten billion.
    let passed = outcomes.iter().filter(|(_, outcome)| outcome != "absent-by-filter").count();
    assert!(passed < 10, "{passed} of 300 passed");
    let stats = gate.get("/stats").json();
    assert_eq!(stats["at_source"]["reads"], 1 + passed);
    assert_eq!(gate.get("/explain/sku-7").json()["filter"], "maybe");
    assert_eq!(gate.get("/readyz").body, "ready\n");
    assert!(gate.get("/metrics").body.contains("\nbloomgate_gate_blocking 1\n"));
    let batch = gate.ask("POST", "/v1/products:batch", "", r#"["sku-1","nobody"]"#).json();
    assert_eq!((&batch["answers"][0]["row"]["price"], &batch["answers"][1]["found"]), (&1.into(), &false.into()));
    let said = gate.stop();
    for words in [
        "  source  ",
        "shop.db",
        "  policy  open, writers sole",
        "curl -i http://127.0.0.1:",
        "/explain/KEY",
        "1,000 keys",
        "cache in this process, 64 MB",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    assert!(!said.contains("note:") && !said.contains("error:"), "{said}");
}

#[test]
fn unless_told_who_writes_it_only_watches_and_says_so() {
    let scene = shop();
    let gate = Running::ready_gate(&scene, &format!("{SHOP} --data none"));
    let database = Connection::open(scene.path("shop.db")).unwrap();
    database.execute("INSERT INTO products VALUES ('past-the-gate', 1)", ()).unwrap();
    assert_eq!(gate.get("/v1/products/past-the-gate").outcome(), (200, Some("bypass")));
    assert_eq!(gate.get("/v1/products/nobody").outcome(), (404, Some("bypass")));
    let stats = gate.get("/stats").json();
    assert_eq!((&stats["shadow"]["would_block"], &stats["shadow"]["would_block_wrongly"]), (&2.into(), &1.into()));
    let said = gate.stop();
    assert!(
        said.contains("note: writers are unknown, so NOTHING IS BLOCKED") && said.contains("--writers sole"),
        "{said}"
    );
}

#[test]
fn writes_go_through_and_a_restart_begins_warm() {
    let scene = shop();
    let arguments = format!("{SHOP} --writers sole --allow-writes --data kept");
    let gate = Running::ready_gate(&scene, &arguments);
    assert_eq!(gate.get("/v1/products/new").status, 404);
    assert_eq!(gate.ask("PUT", "/v1/products/new", "", r#"{"price":5}"#).outcome(), (204, Some("written")));
    assert_eq!(gate.get("/v1/products/new").json()["price"], 5);
    assert_eq!(gate.ask("DELETE", "/v1/products/sku-3", "", "").outcome(), (204, Some("deleted")));
    assert_eq!(gate.get("/v1/products/sku-3").status, 404);
    // A row that the table cannot hold is told as such.
    let wrong = gate.ask("PUT", "/v1/products/wrong", "", r#"{"colour":"red"}"#);
    assert!(wrong.status == 400 && wrong.body.contains("colour"), "{wrong:?}");
    assert_eq!(gate.ask("PUT", "/v1/products/wrong", "", "no json").status, 400);
    gate.stop();
    let database = Connection::open(scene.path("shop.db")).unwrap();
    let price: i64 = database.query_row("SELECT price FROM products WHERE sku = 'new'", (), |row| row.get(0)).unwrap();
    assert_eq!(price, 5);
    assert!(scene.path("kept/filter.bloom").exists() && scene.path("kept/master.key").exists());
    let again = Running::ready_gate(&scene, &arguments);
    assert_eq!(again.get("/v1/products/new").status, 200);
    assert_eq!(again.get("/v1/products/sku-3").status, 404);
    let said = again.stop();
    assert!(said.contains("  filter  stale, version 1 with") && said.contains("filter ready after"), "{said}");
    assert!(said.contains("version 2"), "{said}");
}

#[test]
fn tokens_are_asked_for_and_never_told() {
    let scene = shop();
    scene.write("tokens", "read reading-token-12\nadmin mighty-token-123\n");
    let gate =
        Running::ready_gate(&scene, &format!("{SHOP} --writers sole --data none --tokens tokens --allow-writes"));
    assert_eq!(gate.get("/v1/products/sku-1").status, 401);
    let with = |token: &str| format!("authorization: Bearer {token}\r\n");
    assert_eq!(gate.ask("GET", "/v1/products/sku-1", &with("reading-token-12"), "").status, 200);
    assert_eq!(gate.ask("PUT", "/v1/products/sku-1", &with("reading-token-12"), "{}").status, 403);
    assert_eq!(gate.ask("POST", "/rebuild?wait=true", &with("mighty-token-123"), "").status, 200);
    assert_eq!(gate.ask("GET", "/stats", &with("mighty-token-124"), "").status, 401);
    assert_eq!(gate.get("/healthz").status, 200);
    let said = gate.stop();
    assert!(said.contains("Bearer TOKEN") && !said.contains("token-1"), "{said}");
}

#[test]
fn a_flag_is_before_a_variable_and_that_before_the_file() {
    let scene = shop();
    scene.write(
        "gate.toml",
        "source = \"sqlite:shop.db\"\ntable = \"products\"\nkey = \"sku\"\ndata = \"none\"\nwriters = \"sole\"\nname = \"file\"\n",
    );
    let variables = [("BLOOMGATE_NAME", "variable"), ("BLOOMGATE_WRITERS", "unknown"), ("BLOOMGATE_FSYNC", "always")];
    let gate = Running::gate(&scene, "--config gate.toml --name flag", &variables);
    assert_eq!(gate.get("/v1/flag/sku-1").status, 200);
    assert_eq!(gate.get("/v1/variable/sku-1").status, 400);
    assert_eq!(gate.get("/stats").json()["writers"], "unknown");
    gate.stop();
}

#[test]
fn mistakes_are_told_with_what_was_meant() {
    let scene = shop();
    let none: &[(&str, &str)] = &[];
    scene
        .write("unknown.toml", "polcy = \"open\"\n")
        .write("short", "write short\n")
        .write("reader", "read reading-token-12\n");
    refused(&scene, "", none, &["--source sqlite:FILE"]);
    refused(&scene, "--source sqlite:shop.db --table products", none, &["--key COLUMN"]);
    refused(&scene, "--source mysql://h/d --table products --key sku", none, &["\"mysql\"", "sqlite:FILE"]);
    refused(&scene, "--source shop.db --table products --key sku", none, &["write sqlite:shop.db"]);
    refused(&scene, "--source http://h/{key} --table products --key sku", none, &["--key is for tables"]);
    refused(&scene, "--source http://h/{key} --table products --policy closed", none, &["--key-list"]);
    refused(&scene, "--source sqlite:nowhere.db --table products --key sku --data none", none, &["nowhere.db"]);
    refused(&scene, "--source sqlite:shop.db --table product --key sku --data none", none, &["product"]);
    refused(&scene, &format!("{SHOP} --polcy open"), none, &["--polcy", "--policy"]);
    refused(&scene, &format!("{SHOP} --policy ajar"), none, &["--policy: ", "open, closed, shadow"]);
    refused(&scene, SHOP, &[("BLOOMGATE_POLCY", "open")], &["BLOOMGATE_POLCY", "did you mean 'policy'"]);
    refused(&scene, "--config unknown.toml", none, &["unknown.toml", "did you mean 'policy'"]);
    refused(&scene, &format!("{SHOP} --tokens nowhere"), none, &["the tokens nowhere cannot be read"]);
    refused(&scene, &format!("{SHOP} --tokens short"), none, &["short: line 1", "at least 16"]);
    refused(&scene, &format!("{SHOP} --tls-cert cert.pem"), none, &["--tls-key"]);
    refused(
        &scene,
        &format!("{SHOP} --tls-cert cert.pem --tls-key key.pem"),
        none,
        &["the certificate cert.pem cannot be read"],
    );
    let open = format!("{SHOP} --allow-writes --listen 0.0.0.0:0");
    refused(&scene, &open, none, &["0.0.0.0:0", "--tokens", "--tls-cert", "127.0.0.1"]);
    refused(&scene, &format!("{open} --tokens reader"), none, &["--tls-cert"]);
    refused(&scene, &format!("{SHOP} --allow-writes --tokens reader"), none, &["none of the 1 tokens may write"]);
    assert!(!scene.path("bloomgate-gate-data").exists(), "nothing was begun");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&scene, &format!("{SHOP} --listen {address}"), none, &[&address, "--listen names another address"]);
}

#[test]
fn what_happens_is_told_after_the_start_too() {
    let scene = shop();
    let gate = Running::ready_gate(&scene, &format!("{SHOP} --writers sole --data kept"));
    let ready_after = gate.get("/stats").json()["rebuild"]["ready_after_ms"].as_u64().unwrap();
    // Its own number, and not when somebody looked at it; from a second on it is rounded.
    let said = gate.said();
    assert!(ready_after >= 1000 || said.contains(&format!("ready after {ready_after} ms")), "{ready_after}: {said}");
    let database = Connection::open(scene.path("shop.db")).unwrap();
    // A row past the gate, found by an explanation.
    database.execute("INSERT INTO products VALUES ('past-the-gate', 1)", ()).unwrap();
    let explained = gate.get("/explain/past-the-gate").json();
    assert_eq!((&explained["filter"], &explained["source"]), (&"no, wrongly".into(), &"found".into()));
    gate.wait_for("error: a \"no\" was wrong: the source has the key \"past-the-gate\" (an explanation found it)");
    gate.wait_for("error: the filter is broken: lookups are not filtered");
    gate.wait_for("(wrong-no): version 2, 1,001 keys; absent keys are answered here");
    assert_eq!(gate.get("/v1/products/past-the-gate").status, 200);
    // A table that is gone, and comes back.
    database.execute_batch("ALTER TABLE products RENAME TO away").unwrap();
    let failed = gate.ask("POST", "/rebuild?wait=true", "", "");
    assert_eq!(failed.status, 503, "{failed:?}");
    gate.wait_for("error: the source does not answer");
    gate.wait_for("error: a rebuild failed (asked), the filter of before stays: ");
    database.execute_batch("ALTER TABLE away RENAME TO products").unwrap();
    assert_eq!(gate.get("/v1/products/sku-1").status, 200);
    gate.wait_for("bloomgate: the source answers again");
    // Most rows were meant to go.
    database.execute("DELETE FROM products WHERE price > 99", ()).unwrap();
    let failed = gate.ask("POST", "/rebuild?wait=true", "", "");
    assert!(failed.body.contains("accept-fewer=true"), "{failed:?}");
    assert_eq!(gate.ask("POST", "/rebuild?wait=yes&accept-fewer=yes", "", "").status, 200);
    gate.wait_for("note: the source has 101 keys where 1001 were expected: accepted");
    let said = gate.stop();
    assert!(said.contains("bloomgate: stopping") && said.ends_with("bloomgate: stopped\n"), "{said}");
    // What was saved and cannot be read is told.
    std::fs::write(scene.path("kept/filter.bloom"), "nonsense").unwrap();
    let again = Running::ready_gate(&scene, &format!("{SHOP} --writers sole --data kept"));
    assert!(again.stop().contains("note: what the last run saved is not used"));
    // Another table in the same folder would overwrite it.
    database.execute_batch("CREATE TABLE users (id INTEGER PRIMARY KEY)").unwrap();
    refused(
        &scene,
        "--source sqlite:shop.db --table users --key id --data kept",
        &[],
        &["kept keeps the filter of sqlite table products", "--data"],
    );
}

#[test]
fn deletions_are_not_forgotten_by_a_kill() {
    let scene = shop();
    let arguments = format!("{SHOP} --writers sole --allow-writes --data kept");
    let gate = Running::ready_gate(&scene, &arguments);
    for number in 0..150 {
        assert_eq!(gate.ask("DELETE", &format!("/v1/products/sku-{number}"), "", "").status, 204);
    }
    let unknown = gate.ask("DELETE", "/v1/products/sku-0", "", "");
    assert_eq!(unknown.outcome(), (404, Some("nothing-deleted")));
    gate.signal("-KILL");
    gate.end();
    let again = Running::ready_gate(&scene, &arguments);
    assert_eq!(again.get("/v1/products/sku-0").outcome(), (404, Some("absent-by-filter")));
    assert!(!again.stop().contains("error:"));
    // What went past the gate is not believed until somebody says so, for one start.
    Connection::open(scene.path("shop.db")).unwrap().execute("DELETE FROM products WHERE price < 800", ()).unwrap();
    let doubting = Running::gate(&scene, &arguments, &[]);
    doubting.wait_for("error: a rebuild failed (not-ready), no filter can say no until one succeeds: ");
    assert!(doubting.said().contains("or by one start with --accept-fewer"), "{}", doubting.said());
    assert!(doubting.get("/v1/products/sku-900").status == 200 && doubting.get("/v1/products/nobody").status == 404);
    doubting.stop();
    Running::ready_gate(&scene, &format!("{arguments} --accept-fewer")).stop();
}

#[cfg(feature = "postgres")]
#[test]
fn a_database_that_is_down_at_the_start_is_waited_for() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let rules = "local all all trust\nhost all locked 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    let files = [("pg_hba.conf", rules.to_owned())];
    let mut server = crate::postgres_process::PostgresProcess::start(port, &files, &["listen_addresses=127.0.0.1"]);
    let url = format!("postgres://tester@127.0.0.1:{port}/postgres");
    let mut client = postgres::Client::connect(&url, postgres::NoTls).unwrap();
    client
        .batch_execute(
            "CREATE TABLE products (sku text PRIMARY KEY); INSERT INTO products VALUES ('sku-1');
             CREATE TABLE loose (sku text); CREATE ROLE locked LOGIN PASSWORD 'sesame'",
        )
        .unwrap();
    drop(client);
    let scene = Scene::new();
    // What no waiting mends is an error at the start.
    let at = |user: &str, database: &str, table: &str| {
        format!("--source postgres://{user}@127.0.0.1:{port}/{database} --table {table} --key sku --data none")
    };
    refused(&scene, &at("tester", "postgres", "nothing"), &[], &["no table \"nothing\""]);
    refused(&scene, &at("tester", "postgres", "loose"), &[], &["CREATE UNIQUE INDEX ON"]);
    refused(&scene, &at("tester", "nowhere", "products"), &[], &["nowhere"]);
    refused(&scene, &at("locked:wrong", "postgres", "products"), &[], &["password authentication failed"]);
    server.stop();
    let command = format!("gate --listen 127.0.0.1:0 --writers sole {}", at("tester:secret", "postgres", "products"));
    let gate = Running::start(&scene, &command, &[], |line| {
        let told = line.strip_prefix("bloomgate: gate listens on http://127.0.0.1:")?;
        Some(told.split(',').next().unwrap().parse().unwrap())
    });
    gate.wait_for("lookups are refused with 503 until it is there");
    let refused = gate.get("/v1/products/sku-1");
    assert_eq!(refused.outcome(), (503, Some("refused")));
    assert!(refused.body.contains("source-down") && !refused.body.contains("secret"), "{refused:?}");
    assert_eq!((gate.get("/healthz").status, gate.get("/readyz").status), (200, 503));
    server.start_again(false);
    gate.wait_for("bloomgate: the source answers again");
    gate.wait_for("bloomgate: filter ready");
    assert_eq!(gate.get("/v1/products/sku-1").status, 200);
    assert_eq!(gate.get("/v1/products/nobody").outcome(), (404, Some("absent-by-filter")));
    let said = gate.stop();
    assert!(said.contains("bloomgate: gate ready on") && !said.contains("secret"), "{said}");
}

#[test]
fn a_source_without_a_list_of_keys_is_only_watched() {
    let scene = Scene::new();
    let gate = Running::gate(&scene, "--source http://127.0.0.1:1/{key} --table lamps --writers sole --data none", &[]);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(gate.get("/readyz").status, 200);
    let said = gate.stop();
    for words in
        ["there is no --key-list", "NOTHING IS BLOCKED", "filter  none, for the source has no list of its keys"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("error:") && !said.contains("being built"), "{said}");
}

#[cfg(feature = "redis")]
#[test]
fn a_cache_that_is_not_there_is_told_at_the_start() {
    let scene = shop();
    let gate = Running::ready_gate(&scene, &format!("{SHOP} --writers sole --data none --cache redis://127.0.0.1:1"));
    assert_eq!(gate.get("/v1/products/sku-1").status, 200);
    gate.wait_for("error: the cache does not answer, every lookup of an existing key reaches the source: ");
    assert!(gate.stop().contains("note: the cache at 127.0.0.1:1"));
}

#[test]
fn a_deny_list_denies_by_the_table_alone() {
    let scene = shop();
    let deny = format!("{SHOP} --writers sole --data none --allow-writes --meaning deny");
    let gate = Running::ready_gate(&scene, &deny);
    let denied = gate.get("/v1/products/sku-7");
    assert_eq!((denied.outcome(), &denied.json()["row"]["price"]), ((403, Some("denied")), &7.into()));
    // At the default rate one in a thousand is confirmed first, and allowed too.
    let outcomes: Vec<Got> = (0..300).map(|number| gate.get(&format!("/v1/products/other-{number}"))).collect();
    assert!(outcomes.iter().all(|got| got.status == 204), "{outcomes:?}");
    assert!(outcomes.iter().filter(|got| got.outcome().1 == Some("allowed-by-filter")).count() > 290);
    assert_eq!(gate.ask("PUT", "/v1/products/other-1", "", r#"{"price":1}"#).status, 204);
    assert_eq!(gate.get("/v1/products/other-1").outcome(), (403, Some("denied")));
    assert_eq!(gate.ask("DELETE", "/v1/products/other-1", "", "").status, 204);
    assert_eq!(gate.get("/v1/products/other-1").outcome(), (204, Some("allowed")));
    let said = gate.stop();
    assert!(said.contains("  meaning deny: 204 allowed, 403 denied; what cannot be confirmed: refuse"), "{said}");
    // What nobody tells it of must not get in either: then every lookup is confirmed.
    let watching = Running::ready_gate(&scene, &format!("{SHOP} --data none --meaning deny --unconfirmed allow"));
    let database = Connection::open(scene.path("shop.db")).unwrap();
    database.execute("INSERT INTO products VALUES ('past-the-gate', 1)", ()).unwrap();
    assert_eq!(watching.get("/v1/products/past-the-gate").status, 403);
    let said = watching.stop();
    assert!(said.contains("EVERY LOOKUP IS CONFIRMED AT THE SOURCE") && said.contains("--unconfirmed allow"), "{said}");
}

#[test]
fn a_client_over_its_cap_is_refused_and_told_of() {
    let scene = shop();
    let caps = "--client-misses 3/1h --client-adds 2/1h --trusted-proxies 127.0.0.1 --allow-writes";
    let gate = Running::gate(&scene, &format!("{SHOP} --data none {caps}"), &[]);
    gate.wait_for("bloomgate: filter ready");
    let from = |client: &str| format!("x-forwarded-for: 198.51.100.1, {client}\r\n");
    let get = |key: &str, client: &str| gate.ask("GET", &format!("/v1/products/{key}"), &from(client), "");
    for number in 0..3 {
        assert_eq!(get(&format!("nobody-{number}"), "203.0.113.1").status, 404);
    }
    let over = get("nobody-3", "203.0.113.1");
    assert!(over.status == 429 && over.body.contains("too-many-misses"), "{over:?}");
    assert_eq!(over.header("retry-after"), Some("1200"));
    assert_eq!(get("nobody-3", "203.0.113.2").status, 404);
    assert_eq!(get("sku-1", "203.0.113.2").status, 200);
    for status in [204, 204, 429] {
        assert_eq!(gate.ask("PUT", "/v1/products/new", &from("203.0.113.3"), "{}").status, status);
    }
    gate.wait_for(
        "note: the client 203.0.113.1 is over its cap of misses (3 in 60.0 min): what would reach the source",
    );
    gate.wait_for("note: the client 203.0.113.3 is over its cap of adds");
    assert_eq!(gate.get("/stats").json()["clients"]["capped"], 2);
    gate.stop();
    let anybody = format!("{SHOP} --client-misses 3/1h --client-by header:x-user");
    refused(&scene, &anybody, &[], &["--trusted-proxies"]);
}

#[test]
fn a_service_manager_is_told() {
    let scene = shop();
    service::tells_its_manager(&scene, |variables| Running::gate(&scene, &format!("{SHOP} --data none"), variables));
}

#[test]
fn a_feed_tells_what_others_write() {
    let scene = shop();
    refused(
        &scene,
        &format!("{SHOP} --writers feed --data none"),
        &[],
        &["install-feed", "--table products --key sku"],
    );
    refused(&scene, "install-feed --source http://h/{key} --table t --key k", &[], &["no database that has feeds"]);
    let run = |arguments: &str| {
        let done = service::bloomgate(&scene, &format!("gate {arguments}"), &[]).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    let printed = run(&format!("install-feed {SHOP} --print"));
    assert!(printed.starts_with("BEGIN;\n") && printed.contains("CREATE TRIGGER"), "{printed}");
    assert!(run(&format!("install-feed {SHOP}")).contains("installed its feed, bloomgate_feed_products"));
    assert!(run(&format!("install-feed {SHOP}")).contains("is there and whole; nothing was changed"));
    assert_eq!(run(&format!("install-feed {SHOP} --dry-run")), "-- nothing to do\n");

    let gate = Running::ready_gate(&scene, &format!("{SHOP} --writers feed"));
    let database = Connection::open(scene.path("shop.db")).unwrap();
    let write = |key: &str| database.execute("INSERT INTO products VALUES (?1, 1)", [key]).map(drop).unwrap();
    let found = |gate: &Running, key: &str| {
        let begun = std::time::Instant::now();
        while gate.get(&format!("/v1/products/{key}")).status != 200 {
            assert!(begun.elapsed() < service::PATIENCE, "{key} is never found");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    // A "no" needs the feed to be read once after the filter came into force: until then it is "maybe".
    let begun = std::time::Instant::now();
    while gate.get("/v1/products/new").outcome() != (404, Some("absent-by-filter")) {
        assert!(begun.elapsed() < service::PATIENCE, "the filter never says no");
        std::thread::sleep(Duration::from_millis(5));
    }
    write("new");
    found(&gate, "new");
    assert!(gate.get("/metrics").body.contains("bloomgate_gate_feed_changes_total{kind=\"written\"} 1\n"));
    assert_eq!(gate.get("/stats").json()["feed"]["outbox"], "bloomgate_feed_products");
    let said = gate.stop();
    assert!(said.contains("writers feed") && !said.contains("note:") && !said.contains("error:"), "{said}");

    write("meanwhile");
    let gate = Running::ready_gate(&scene, &format!("{SHOP} --writers feed"));
    assert_eq!(gate.get("/v1/products/meanwhile").status, 200);
    assert!(run("remove-feed --source sqlite:shop.db --table products").contains("removed its feed"));
    assert!(run("remove-feed --source sqlite:shop.db --table products").contains("has none"));
    gate.wait_for("what others write cannot be followed");
    write("untold");
    assert_eq!(gate.get("/v1/products/untold").outcome(), (200, Some("bypass")));
    let said = gate.stop();
    assert!(said.contains("version 1 of the last run, with 1 change since"), "{said}");
}
