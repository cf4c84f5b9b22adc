//! `alert-webhook` of `serve` and `gate`: a real receiver is told what begins and what ends, and one that hangs holds up nobody.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use redis::cmd;
use serde_json::Value;

use crate::scene::Scene;
use crate::serve::refused;
use crate::service::{self, Running};

/// Alerts are looked for every ten seconds.
const SOON: Duration = Duration::from_secs(30);

/// A receiver that hears messages, and answers them or not; where it is.
fn receiver(answers: bool) -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (hear, heard) = channel();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
            let message = loop {
                let read = stream.read(&mut piece).unwrap();
                assert!(read > 0, "a request that is not whole");
                bytes.extend_from_slice(&piece[..read]);
                let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                if let Ok(message) = serde_json::from_slice::<Value>(&bytes[end + 4..]) {
                    break message;
                }
            };
            if hear.send(message).is_err() {
                return;
            }
            match answers {
                true => write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap(),
                false => held.push(stream),
            }
        }
    });
    (url, heard)
}

/// A filter that holds more than it was made for.
fn overfill(server: &Running) {
    let mut client = server.client(2);
    let create = "tight KIND blocked CAPACITY 100 RATE 0.01 ONFULL goon";
    cmd("BG.CREATE").arg(create.split(' ').collect::<Vec<_>>()).exec(&mut client).unwrap();
    let items: Vec<u32> = (0..200).collect();
    cmd("BG.ADD").arg("tight").arg(items).exec(&mut client).unwrap();
}

/// What is said of each alert: its status, its name and its filter.
fn told(message: &Value) -> Vec<(&str, &str, &str)> {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }
    fn one(alert: &Value) -> (&str, &str, &str) {
        let labels = &alert["labels"];
        (text(&alert["status"]), text(&labels["alertname"]), text(&labels["filter"]))
    }
    message["alerts"].as_array().unwrap().iter().map(one).collect()
}

#[test]
fn a_server_tells_what_begins_and_what_ends_with_and_without_http() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--http none", &[]);
    overfill(&server);
    server.stop();
    let (url, heard) = receiver(true);
    // Without an HTTP side too, and by a variable.
    let server = Running::serve(&scene, "--http none", &[("BLOOMGATE_ALERT_WEBHOOK", &url)]);
    let message = heard.recv_timeout(SOON).unwrap();
    assert_eq!(message["status"], "firing");
    assert_eq!(told(&message), [("firing", "BloomgateOverCapacity", "tight")]);
    assert_eq!(message["commonLabels"]["job"], "bloomgate-server");
    let instance = message["commonLabels"]["instance"].as_str().unwrap();
    assert!(instance.ends_with(&format!(":{}", server.port)), "{instance}");
    // The URL may hold a token: it is told to nobody.
    let settings: Vec<String> = cmd("CONFIG").arg("GET").arg("alert*").query(&mut server.client(2)).unwrap();
    assert!(settings.is_empty(), "{settings:?}");
    cmd("DEL").arg("tight").exec(&mut server.client(2)).unwrap();
    let message = heard.recv_timeout(SOON).unwrap();
    assert_eq!(told(&message), [("resolved", "BloomgateOverCapacity", "tight")]);
    let said = server.stop();
    assert!(!said.contains("webhook"), "{said}");
    assert!(heard.try_recv().is_err());
}

#[test]
fn a_receiver_that_hangs_holds_up_neither_clients_nor_the_end() {
    let scene = Scene::new();
    let (url, heard) = receiver(false);
    let server = Running::serve(&scene, "--http none", &[]);
    overfill(&server);
    server.stop();
    let server = Running::serve(&scene, &format!("--http none --alert-webhook {url}"), &[]);
    heard.recv_timeout(SOON).unwrap();
    let begun = Instant::now();
    let answers: Vec<bool> = cmd("BG.EXISTS").arg("tight").arg(&[1, 2, 3]).query(&mut server.client(2)).unwrap();
    assert_eq!(answers, [true; 3]);
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn a_url_that_is_none_is_refused_at_the_start() {
    let scene = Scene::new();
    refused(
        &scene,
        "--alert-webhook ftp://alerts.example/TOKEN",
        &[],
        &["--alert-webhook: ", "neither http nor https"],
    );
    scene.write("bloomgate.toml", "alert-webhook = \"alerts.example\"");
    refused(&scene, "--config bloomgate.toml", &[], &["bloomgate.toml: alert-webhook: ", "neither http nor https"]);
    let gate = "gate --source sqlite:shop.db --table products --key sku --alert-webhook mailto:me@example.com";
    service::refused(&scene, gate, &[], &["--alert-webhook: ", "neither http nor https"]);
}

/// A row that is written past a gate which believes to be the only writer: its "no" is wrong, an audit finds that, and the
/// receiver hears of it, without the key.
#[test]
fn a_gate_tells_of_a_wrong_no() {
    let scene = Scene::new();
    let database = rusqlite::Connection::open(scene.path("shop.db")).unwrap();
    database.execute_batch("CREATE TABLE products (sku TEXT PRIMARY KEY) WITHOUT ROWID").unwrap();
    database.execute_batch("INSERT INTO products VALUES ('sku-1')").unwrap();
    let (url, heard) = receiver(true);
    let arguments = format!(
        "--source sqlite:shop.db --table products --key sku --writers sole --data none --audit 100% --alert-webhook {url}"
    );
    let gate = Running::gate(&scene, &arguments, &[]);
    gate.wait_for("bloomgate: filter ready");
    database.execute_batch("INSERT INTO products VALUES ('past-the-gate')").unwrap();
    assert_eq!(gate.get("/v1/products/past-the-gate").status, 404);
    let message = heard.recv_timeout(SOON).unwrap();
    assert_eq!(told(&message), [("firing", "BloomgateWrongNo", "")]);
    assert_eq!(message["commonLabels"]["job"], "bloomgate-gate");
    assert!(!message.to_string().contains("past-the-gate"), "{message}");
    // It counts when the receiver has answered, a moment after that has heard it.
    let begun = std::time::Instant::now();
    while !gate.get("/metrics").body.contains("bloomgate_alert_webhook_messages_total{result=\"sent\"} 1\n") {
        assert!(begun.elapsed() < SOON, "{}", gate.get("/metrics").body);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    gate.stop();
}

/// The same of one tenant among several: it is named, and the link leads to the gate's own page.
#[test]
fn a_gate_of_many_tenants_tells_whose_no_was_wrong() {
    let scene = Scene::new();
    let database = rusqlite::Connection::open(scene.path("shop.db")).unwrap();
    let table = "CREATE TABLE products (shop TEXT, sku TEXT, PRIMARY KEY (shop, sku)) WITHOUT ROWID";
    database.execute_batch(table).unwrap();
    database.execute_batch("INSERT INTO products VALUES ('acme', 'sku-1'), ('globex', 'sku-1')").unwrap();
    let (url, heard) = receiver(true);
    let source =
        "--source sqlite:shop.db --table products --key sku --tenant shop --writers sole --data none --audit 100%";
    let gate = Running::gate(&scene, &format!("{source} --alert-webhook {url}"), &[]);
    gate.wait_for("bloomgate: filters ready");
    database.execute_batch("INSERT INTO products VALUES ('globex', 'past-the-gate')").unwrap();
    assert_eq!(gate.get("/v1/products/globex/past-the-gate").status, 404);
    let message = heard.recv_timeout(SOON).unwrap();
    assert_eq!(told(&message), [("firing", "BloomgateWrongNo", "")]);
    let annotations = &message["alerts"][0]["annotations"];
    assert!(annotations["summary"].as_str().unwrap().ends_with(", of the tenant globex"), "{message}");
    let pages = message["externalURL"].as_str().unwrap();
    assert_eq!(annotations["runbook_url"], format!("{pages}/runbook#wrong-no"));
    assert_eq!(pages, format!("http://127.0.0.1:{}", gate.port), "{message}");
    assert!(gate.get("/runbook").body.contains("<h2 id=\"wrong-no\">"));
    gate.stop();
}
