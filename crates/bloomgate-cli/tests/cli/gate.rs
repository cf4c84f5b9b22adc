//! `gate`: the real service over HTTP in front of a real SQLite file; how it starts, is told its settings, answers, stops and
//! comes back.

use std::io::{Read, Write};
use std::time::Duration;

use rusqlite::Connection;

use crate::got::Got;
use crate::scene::Scene;
use crate::service::{self, Running};

/// The usual source.
const SHOP: &str = "--source sqlite:shop.db --table products --key sku";

/// A folder with a shop of a thousand products.
fn shop() -> Scene {
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
    fn gate(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Self {
        Self::start(scene, &format!("gate --listen 127.0.0.1:0 {arguments}"), variables, |line| {
            let told = line.strip_prefix("bloomgate: gate ready on http")?;
            Some(told.rsplit(':').next().unwrap().parse().unwrap())
        })
    }

    /// Starts it and waits until its filter is built.
    fn ready_gate(scene: &Scene, arguments: &str) -> Self {
        let gate = Self::gate(scene, arguments, &[]);
        gate.wait_for("bloomgate: filter ready");
        gate
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let mut stream = self.connect();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{length}{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        Got::read(&answer)
    }

    fn get(&self, path: &str) -> Got {
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
fn a_service_manager_is_told() {
    let scene = shop();
    service::tells_its_manager(&scene, |variables| Running::gate(&scene, &format!("{SHOP} --data none"), variables));
}
