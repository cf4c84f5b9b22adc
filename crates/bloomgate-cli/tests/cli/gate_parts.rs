//! `gate` on real parts of other processes: rows in a redis-server, a filter in `bloomgate serve`, rows in PostgreSQL, and a
//! client that writes over TLS with a token.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::gate::{SHOP, shop};
use crate::got::Got;
use crate::redis_server::RedisServer;
use crate::service::{PATIENCE, Running};

/// Waits until it is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn price(got: &Got) -> Option<i64> {
    (got.status == 200).then(|| got.json()["price"].as_i64().unwrap())
}

/// Rows that are written, read from the cache, replaced and deleted through a gate that caches in this server.
fn caches_in(gate: &Running, server: &RedisServer) {
    let entries = || redis::cmd("DBSIZE").query::<u64>(&mut server.client("", 0)).unwrap();
    assert_eq!(gate.get("/v1/products/sku-7").outcome(), (200, Some("source")));
    until("the row is cached", || gate.get("/v1/products/sku-7").outcome() == (200, Some("cache")));
    assert_eq!(entries(), 1);
    assert_eq!(gate.get("/v1/products/nobody").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(gate.ask("PUT", "/v1/products/sku-7", "", r#"{"price":70}"#).status, 204);
    assert_eq!(price(&gate.get("/v1/products/sku-7")), Some(70));
    assert_eq!(gate.ask("PUT", "/v1/products/nobody", "", r#"{"price":1}"#).status, 204);
    until("the new row is cached", || {
        let got = gate.get("/v1/products/nobody");
        assert_eq!(price(&got), Some(1), "{got:?}");
        got.outcome().1 == Some("cache")
    });
    assert_eq!(gate.ask("DELETE", "/v1/products/sku-7", "", "").status, 204);
    assert_eq!(gate.get("/v1/products/sku-7").status, 404);
}

#[test]
fn rows_are_cached_in_a_redis() {
    let (scene, mut server) = (shop(), RedisServer::start_with(&["--requirepass", "s3cret"]));
    let url = server.url(":s3cret@", "");
    let arguments = format!("{SHOP} --writers sole --allow-writes --data none --cache {url}");
    let gate = Running::ready_gate(&scene, &arguments);
    let keys = || redis::cmd("DBSIZE").query::<u64>(&mut server.client(":s3cret@", 0)).unwrap();
    assert_eq!(gate.get("/v1/products/sku-7").outcome(), (200, Some("source")));
    until("the row is cached", || gate.get("/v1/products/sku-7").outcome() == (200, Some("cache")));
    assert_eq!(keys(), 1);
    let stats = gate.get("/stats").json();
    assert!(stats["cache"].as_str().unwrap().contains(&format!("127.0.0.1:{}", server.port())), "{stats}");
    // It dies: rows come from the database, and the cache that is back has no old ones.
    server.kill();
    assert_eq!(gate.ask("PUT", "/v1/products/sku-7", "", r#"{"price":70}"#).status, 204);
    assert_eq!(price(&gate.get("/v1/products/sku-7")), Some(70));
    until("a lost cache is told of", || {
        assert_eq!(gate.get("/v1/products/sku-8").status, 200);
        gate.said().contains("error: the cache does not answer")
    });
    server.start_again();
    until("it is used again", || {
        let got = gate.get("/v1/products/sku-7");
        assert_eq!(price(&got), Some(70), "{got:?}");
        got.outcome().1 == Some("cache")
    });
    gate.wait_for("the cache answers again");
    let said = gate.stop();
    assert!(said.contains("127.0.0.1") && !said.contains("s3cret"), "{said}");
}

#[cfg(feature = "serve")]
#[test]
fn the_filter_is_in_a_server_of_ours() {
    let scene = shop();
    let server = Running::serve(&scene, "--data none", &[]);
    let arguments =
        format!("{SHOP} --writers sole --allow-writes --data none --filter redis://127.0.0.1:{}", server.port);
    let gate = Running::ready_gate(&scene, &arguments);
    assert_eq!(gate.get("/v1/products/sku-7").status, 200);
    let blocked = |from: usize| {
        let outcomes = (from..from + 300).map(|number| gate.get(&format!("/v1/products/bot-{number}")));
        outcomes.filter(|got| got.outcome() == (404, Some("absent-by-filter"))).count()
    };
    // At a rate of 0.1 %, ten of 300 that pass have a chance of one in ten billion.
    let stopped = blocked(0);
    assert!(stopped > 290, "{stopped} of 300 were stopped");
    let filter = gate.get("/stats").json()["filter"].clone();
    assert_eq!((&filter["place"], &filter["scanned"]), (&"remote".into(), &1000.into()), "{filter}");
    // The server has it, with a sentinel or more.
    let mut client = server.client(2);
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    let items: u64 = redis::cmd("BF.CARD").arg(&names[0]).query(&mut client).unwrap();
    assert!((1001..1040).contains(&items), "{items}");
    // A key that is written is in it before the row is in the database.
    assert_eq!(gate.ask("PUT", "/v1/products/bot-1", "", r#"{"price":1}"#).status, 204);
    assert_eq!(price(&gate.get("/v1/products/bot-1")), Some(1));
    assert_eq!(gate.ask("DELETE", "/v1/products/sku-7", "", "").status, 204);
    assert_eq!(gate.get("/v1/products/sku-7").status, 404);
    // A rebuild takes its place under the same name.
    assert_eq!(gate.ask("POST", "/rebuild?wait=true", "", "").status, 200);
    let after: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut client).unwrap();
    assert_eq!(after, names);
    assert!(blocked(1000) > 290);
    // Without the server nobody is told no, and everybody is answered.
    drop(client);
    server.stop();
    assert_eq!(gate.get("/v1/products/bot-1").status, 200);
    assert_eq!(gate.get("/v1/products/bot-2").outcome(), (404, Some("bypass")));
    gate.stop();
}

/// What curl was answered: the status, the outcome and the body.
fn curl(scene: &crate::scene::Scene, port: u16, arguments: &[&str], path: &str) -> (String, String, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "20", "-w", "\n%{http_code} %header{bloomgate-outcome}", "--cacert"]);
    curl.arg(scene.path("cert.pem")).args(["--resolve", &format!("localhost:{port}:127.0.0.1")]).args(arguments);
    let ran = curl.arg(format!("https://localhost:{port}{path}")).output().expect("curl is missing: install it");
    let (said, error) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8_lossy(&ran.stderr).into_owned());
    assert!(ran.status.success(), "{arguments:?} {path}: {error}");
    let (body, end) = said.rsplit_once('\n').unwrap();
    let (status, outcome) = end.split_once(' ').unwrap_or((end, ""));
    (status.to_owned(), outcome.to_owned(), body.to_owned())
}

#[test]
fn a_client_with_a_token_writes_over_tls() {
    let scene = shop();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scene.write("cert.pem", made.cert.pem()).write("key.pem", made.signing_key.serialize_pem());
    scene.write("tokens", "read reading-token-12\nwrite writing-token-12\n");
    let tls = "--tls-cert cert.pem --tls-key key.pem --tokens tokens --allow-writes";
    let gate = Running::ready_gate(&scene, &format!("{SHOP} --writers sole --data none {tls}"));
    let ask = |method: &str, token: &str, body: &str, path: &str| {
        let token = format!("Authorization: Bearer {token}");
        let mut arguments = vec!["-X", method, "-H", &token];
        if !body.is_empty() {
            arguments.extend(["-d", body]);
        }
        curl(&scene, gate.port, &arguments, path)
    };
    let answer = |status: &str, outcome: &str, body: &str| (status.to_owned(), outcome.to_owned(), body.to_owned());
    let (reads, writes, new) = ("reading-token-12", "writing-token-12", "/v1/products/new");
    assert_eq!(ask("GET", reads, "", new).0, "404");
    assert_eq!(ask("PUT", writes, r#"{"price":5}"#, new), answer("204", "written", ""));
    assert_eq!(ask("GET", reads, "", new), answer("200", "source", r#"{"sku":"new","price":5}"#));
    assert_eq!(ask("DELETE", writes, "", new), answer("204", "deleted", ""));
    assert_eq!(ask("GET", reads, "", new).0, "404");
    // Who may not write, does not; nor does who says nothing, or who comes without TLS.
    assert_eq!(ask("PUT", reads, r#"{"price":5}"#, new).0, "403");
    assert_eq!(ask("DELETE", "writing-token-13", "", "/v1/products/sku-1").0, "401");
    assert_eq!(curl(&scene, gate.port, &[], "/v1/products/sku-1").0, "401");
    let plain = format!("http://127.0.0.1:{}/v1/products/sku-1", gate.port);
    let plain = Command::new("curl")
        .args(["-sS", "--max-time", "20", "-H", "Authorization: Bearer reading-token-12", &plain])
        .output()
        .unwrap();
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("price"), "{plain:?}");
    assert_eq!(ask("GET", reads, "", "/v1/products/sku-1").0, "200");
    let said = gate.stop();
    assert!(said.contains("gate ready on https://") && !said.contains("token-1"), "{said}");
}

/// The line of docs/gate.md that is not run there, for it names servers.
#[cfg(feature = "postgres")]
#[test]
fn the_documented_line_for_postgres_and_redis_runs() {
    let documents = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gate.md");
    let text = std::fs::read_to_string(documents).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("bloomgate gate --source postgres://app@db/shop "));
    let rest = line.expect("docs/gate.md shows a gate before PostgreSQL").replace("redis://cache", "CACHE");
    assert!(rest.contains("CACHE"), "{rest}");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = crate::postgres_process::PostgresProcess::start(port, &[], &["listen_addresses=127.0.0.1"]);
    let address = |user: &str| format!("postgres://{user}@127.0.0.1:{port}/postgres");
    let mut client = postgres::Client::connect(&address("tester"), postgres::NoTls).unwrap();
    client
        .batch_execute(
            "CREATE TABLE products (sku text PRIMARY KEY, price bigint);
             INSERT INTO products SELECT 'sku-' || i, i FROM generate_series(0, 999) i;
             CREATE ROLE app LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON products TO app",
        )
        .unwrap();
    let (scene, cache) = (crate::scene::Scene::new(), RedisServer::start());
    let arguments = format!("--source {} {}", address("app"), rest.replace("CACHE", &cache.url("", "")));
    let gate = Running::ready_gate(&scene, &format!("{arguments} --allow-writes"));
    caches_in(&gate, &cache);
    let price: i64 = client.query_one("SELECT price FROM products WHERE sku = 'nobody'", &[]).unwrap().get(0);
    assert_eq!(price, 1, "what was written is in the database");
    let said = gate.stop();
    assert!(!said.contains("error:"), "{said}");
    drop(server);
}
