//! `gate --upstream`: the reverse proxy as people start it, before a small service of its own.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rusqlite::Connection;

use crate::got::Got;
use crate::scene::Scene;
use crate::service::{self, PATIENCE, Running};

/// A service of products that can be read and written, one request a connection; its address.
pub fn catalog(keys: &[&str]) -> String {
    let keys: Arc<Mutex<BTreeSet<String>>> = Arc::new(Mutex::new(keys.iter().map(|&key| key.to_owned()).collect()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let keys = keys.clone();
            std::thread::spawn(move || answer(stream, &keys));
        }
    });
    address
}

fn answer(mut stream: TcpStream, keys: &Mutex<BTreeSet<String>>) -> Option<()> {
    let mut from = BufReader::new(stream.try_clone().ok()?);
    let (mut first, mut length) = (String::new(), 0);
    from.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.parse().ok()?,
            Some(_) => {}
            None => break,
        }
    }
    from.read_exact(&mut vec![0; length]).ok()?;
    let mut words = first.split_whitespace();
    let (method, key) = (words.next()?, words.next()?.strip_prefix("/products/").unwrap_or_default().to_owned());
    let mut keys = keys.lock().unwrap();
    let (status, body) = match method {
        "PUT" => (if keys.insert(key) { "201 Created" } else { "200 OK" }, "stored"),
        _ if keys.contains(&key) => ("200 OK", "found by the service"),
        _ => ("404 Not Found", "absent by the service"),
    };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).ok()
}

fn start(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Running {
    let arguments = format!("gate --listen 127.0.0.1:0 --admin 127.0.0.1:0 --key path:/products/{{id}} {arguments}");
    let proxy = Running::start(scene, &arguments, variables, |line| {
        let told = line.strip_prefix("bloomgate: gate ready on http://127.0.0.1:")?;
        told.parse().ok()
    });
    proxy.wait_for("bloomgate: filter ready");
    proxy
}

pub fn ask(port: u16, method: &str, path: &str) -> Got {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    Got::read(&answer)
}

/// The port of the gate's own paths.
pub fn admin(proxy: &Running) -> u16 {
    let said = proxy.said();
    let told = said.split("the gate's own paths are on http://127.0.0.1:").nth(1).unwrap();
    told.lines().next().unwrap().parse().unwrap()
}

#[test]
fn absent_keys_are_stopped_written_ones_pass_and_a_restart_forgets_none() {
    let scene = Scene::new();
    scene.write("keys.txt", "kettle\nlamp\n");
    let upstream = catalog(&["kettle", "lamp"]);
    let arguments = format!("--upstream http://{upstream} --keys-from keys.txt --writers sole --data kept");
    let proxy = start(&scene, &arguments, &[]);
    let found = ask(proxy.port, "GET", "/products/kettle");
    assert_eq!((found.status, found.body.as_str()), (200, "found by the service"));
    assert_eq!(ask(proxy.port, "GET", "/products/vase").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(ask(proxy.port, "GET", "/stats").body, "absent by the service", "the gate's own paths are elsewhere");
    assert_eq!(ask(proxy.port, "PUT", "/products/vase").status, 201);
    assert_eq!(ask(proxy.port, "GET", "/products/vase").status, 200);
    let own = admin(&proxy);
    assert_eq!((ask(own, "GET", "/readyz").status, ask(own, "GET", "/check/nobody").status), (200, 403));
    assert_eq!((ask(own, "GET", "/check/vase").status, ask(own, "GET", "/check/a%2Fb").status), (204, 204));
    let metrics = ask(own, "GET", "/metrics").body;
    assert!(metrics.contains("bloomgate_proxy_requests_total{done=\"absent\"} 1"), "{metrics}");
    let said = proxy.stop();
    assert!(said.contains("bloomgate: stopped") && said.contains(&format!("passes  to http://{upstream}")), "{said}");
    // The list does not have what was written; the notes beside it do.
    assert!(scene.path("keys.txt.written").exists());
    let again = start(&scene, &arguments, &[]);
    assert_eq!(ask(again.port, "GET", "/products/vase").status, 200);
    assert_eq!(ask(again.port, "GET", "/products/urn").outcome(), (404, Some("absent-by-filter")));
    again.stop();
}

#[test]
fn routes_that_look_like_keys_pass_where_they_are_named() {
    let scene = Scene::new();
    scene.write("keys.txt", "kettle\n");
    let arguments =
        format!("--upstream http://{} --keys-from keys.txt --writers sole --data none", catalog(&["kettle"]));
    let proxy = start(&scene, &arguments, &[]);
    assert_eq!(ask(proxy.port, "GET", "/products/search").outcome(), (404, Some("absent-by-filter")));
    let said = proxy.stop();
    assert!(said.contains("name such routes by --pass"), "{said}");
    let proxy = start(&scene, &arguments, &[("BLOOMGATE_PASS", "/products/search /products/admin/**")]);
    assert_eq!(ask(proxy.port, "GET", "/products/search").body, "absent by the service");
    assert_eq!(ask(proxy.port, "GET", "/products/lamp").outcome(), (404, Some("absent-by-filter")));
    let said = proxy.stop();
    assert!(said.contains("routes  /products/search /products/admin/** pass"), "{said}");
}

#[test]
fn keys_come_from_a_query() {
    let scene = Scene::new();
    let database = Connection::open(scene.path("shop.db")).unwrap();
    database
        .execute_batch("CREATE TABLE products (id INTEGER, sold INTEGER); INSERT INTO products VALUES (1, 0), (2, 1)")
        .unwrap();
    let upstream = catalog(&["1", "2"]);
    let variables = [("BLOOMGATE_QUERY", "SELECT id FROM products WHERE sold = 0")];
    let arguments = format!(
        "--upstream http://{upstream} --keys-from sqlite:shop.db --key-type integer --writers sole --data none"
    );
    let proxy = start(&scene, &arguments, &variables);
    assert_eq!(ask(proxy.port, "GET", "/products/1").status, 200);
    assert_eq!(ask(proxy.port, "GET", "/products/2").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(ask(proxy.port, "GET", "/products/2x").body, "absent by the service", "no integer: it passes");
    proxy.stop();
}

#[test]
fn keys_come_from_a_table_and_from_its_feed() {
    let scene = Scene::new();
    let others = Connection::open(scene.path("shop.db")).unwrap();
    others.busy_timeout(PATIENCE).unwrap();
    others
        .execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE products (sku TEXT PRIMARY KEY, price INTEGER);
             INSERT INTO products VALUES ('kettle', 1), ('lamp', 2)",
        )
        .unwrap();
    let upstream = catalog(&["kettle", "lamp", "vase"]);
    let arguments = format!(
        "--upstream http://{upstream} --keys-from sqlite:shop.db --table products --key-column sku --data none"
    );

    // Nobody else writes.
    let proxy = start(&scene, &format!("{arguments} --writers sole"), &[]);
    assert_eq!(ask(proxy.port, "GET", "/products/lamp").status, 200);
    assert_eq!(ask(proxy.port, "GET", "/products/vase").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(ask(proxy.port, "PUT", "/products/vase").status, 200);
    assert_eq!(ask(proxy.port, "GET", "/products/vase").status, 200, "a write that passes is known");
    proxy.stop();

    // Others write, and triggers tell.
    let with_feed = format!("{arguments} --writers feed");
    let proxy = format!("gate --listen 127.0.0.1:0 --admin 127.0.0.1:0 --key path:/products/{{id}} {with_feed}");
    service::refused(&scene, &proxy, &[], &["install-feed", "--table products --key sku"]);
    let install = "gate install-feed --source sqlite:shop.db --table products --key sku";
    scene.run(install).code(0);
    let proxy = start(&scene, &with_feed, &[]);
    // A "no" needs the feed to be read once after the filter came into force: until then it is "maybe".
    let begun = std::time::Instant::now();
    while ask(proxy.port, "GET", "/products/vase").outcome() != (404, Some("absent-by-filter")) {
        assert!(begun.elapsed() < PATIENCE, "the filter never says no");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    others.execute_batch("INSERT INTO products VALUES ('vase', 3)").unwrap();
    let begun = std::time::Instant::now();
    while ask(proxy.port, "GET", "/products/vase").status != 200 {
        assert!(begun.elapsed() < PATIENCE, "it is never told");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(ask(proxy.port, "GET", "/products/urn").outcome(), (404, Some("absent-by-filter")));
    let metrics = ask(admin(&proxy), "GET", "/metrics").body;
    assert!(metrics.contains("bloomgate_gate_feed_changes_total{kind=\"written\"} 1"), "{metrics}");
    proxy.stop();
}

#[test]
fn mistakes_are_told_with_what_was_meant() {
    let scene = Scene::new();
    let refused = |arguments: &str, says: &[&str]| service::refused(&scene, &format!("gate {arguments}"), &[], says);
    refused("--upstream http://127.0.0.1:1", &["--key 'path:/products/{id}'"]);
    refused("--upstream http://127.0.0.1:1 --key sku", &["no place of a key"]);
    refused(
        "--upstream ftp://h --key path:/p/{id} --listen 127.0.0.1:0 --admin 127.0.0.1:0",
        &["neither http nor https"],
    );
    refused("--upstream http://h/base --key path:/p/{id} --listen 127.0.0.1:0 --admin 127.0.0.1:0", &["leave it out"]);
    refused("--upstream http://h --key path:/p/{id} --new-key body", &["--new-key", "json:/id"]);
    refused("--upstream http://h --key path:/p/{id} --forwarded maybe", &["--forwarded", "append"]);
    refused("--upstream http://h --key path:/p/{id} --new-key-status 404", &["--new-key-status", "201,303"]);
    refused("--upstream http://h --key path:/p/{id} --longer-body drop", &["--longer-body", "stream or refuse"]);
    refused("--upstream http://h --key path:/p/{id} --pass search", &["--pass", "/products/search"]);
    refused("--pass /products/search", &["--upstream"]);
    refused("--keys-from keys.txt", &["--upstream"]);
}

#[test]
fn the_gates_own_paths_are_secured_where_other_machines_reach_them() {
    let scene = Scene::new();
    scene.write("keys.txt", "kettle\n").write("tokens", "read reading-token-12\n");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scene.write("cert.pem", made.cert.pem()).write("key.pem", made.signing_key.serialize_pem());
    let arguments = format!(
        "gate --listen 127.0.0.1:0 --upstream http://{} --key path:/products/{{id}} --keys-from keys.txt --writers sole \
         --data none --tokens tokens --tls-cert cert.pem --tls-key key.pem",
        catalog(&["kettle"])
    );
    for (admin, scheme) in [("0.0.0.0:0", "https"), ("127.0.0.1:0", "http")] {
        let proxy = Running::start(&scene, &format!("{arguments} --admin {admin}"), &[], |line| {
            line.strip_prefix("bloomgate: gate ready on https://127.0.0.1:")?.parse().ok()
        });
        proxy.wait_for("bloomgate: filter ready");
        let said = proxy.said();
        let told = said.split(&format!("the gate's own paths are on {scheme}://127.0.0.1:")).nth(1);
        let port: u16 = told.unwrap_or_else(|| panic!("{said}")).lines().next().unwrap().parse().unwrap();
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "-H", "Authorization: Bearer reading-token-12", "--cacert"]);
        curl.arg(scene.path("cert.pem")).args(["--resolve", &format!("localhost:{port}:127.0.0.1")]);
        let ran = curl.arg(format!("{scheme}://localhost:{port}/stats")).output().expect("curl is missing: install it");
        assert!(String::from_utf8_lossy(&ran.stdout).contains("\"lookups\""), "{admin}: {ran:?}");
        assert!(!proxy.stop().contains("plain text"));
    }
    // Without a certificate it is told.
    let plain = arguments.replace(" --tls-cert cert.pem --tls-key key.pem", " --admin 0.0.0.0:0");
    let proxy = Running::start(&scene, &plain, &[], |line| {
        line.strip_prefix("bloomgate: gate ready on http://127.0.0.1:")?.parse().ok()
    });
    assert!(proxy.stop().contains("tokens are sent in plain text"));
}
