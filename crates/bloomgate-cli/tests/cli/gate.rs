//! `gate`: the real service over HTTP in front of a real SQLite file; how it starts, is told its settings, answers, stops and
//! comes back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use crate::scene::Scene;

/// No test waits longer than this: a service that hangs fails the test instead of holding it.
const PATIENCE: Duration = Duration::from_secs(20);
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

/// A command that runs in the scene, without what the caller's shell says about services.
fn bloomgate(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BLOOMGATE_") && name != "BLOOMGATE_SIMD" {
            command.env_remove(name);
        }
    }
    command.env_remove("NOTIFY_SOCKET").env("LC_ALL", "C.UTF-8").current_dir(scene.path(""));
    command.args(arguments.split_whitespace()).envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// A running gate; it is killed if the test ends before it.
struct Gate {
    child: Child,
    port: u16,
    said: Arc<Mutex<String>>,
    listener: Option<JoinHandle<()>>,
}

/// An answer.
#[derive(Debug)]
struct Got {
    status: u16,
    head: String,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    fn outcome(&self) -> (u16, &str) {
        (self.status, self.header("bloomgate-outcome").unwrap_or(""))
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Gate {
    /// Starts `gate` on any free port, and waits until it says that it listens.
    fn start(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = bloomgate(scene, &format!("gate --listen 127.0.0.1:0 {arguments}"), variables);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let port = loop {
            let Some(line) = lines.next() else { panic!("it ended: {:?}\n{said}", child.wait()) };
            let line = line.unwrap();
            said.push_str(&format!("{line}\n"));
            if let Some(told) = line.strip_prefix("bloomgate: gate ready on http") {
                break told.rsplit(':').next().unwrap().parse().unwrap();
            }
        };
        let said = Arc::new(Mutex::new(said));
        let listening = said.clone();
        let listener = std::thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| listening.lock().unwrap().push_str(&format!("{line}\n")));
        });
        Self { child, port, said, listener: Some(listener) }
    }

    /// Starts it and waits until its filter is built.
    fn ready(scene: &Scene, arguments: &str) -> Self {
        let gate = Self::start(scene, arguments, &[]);
        gate.wait_for("bloomgate: filter ready");
        gate
    }

    #[track_caller]
    fn wait_for(&self, words: &str) {
        let begun = Instant::now();
        while !self.said.lock().unwrap().contains(words) {
            assert!(begun.elapsed() < PATIENCE, "{words:?} is not in {}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{length}{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Got { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn get(&self, path: &str) -> Got {
        self.ask("GET", path, "", "")
    }

    /// Asks it to stop as a service manager does, which must end well; all that it said.
    #[track_caller]
    fn stop(mut self) -> String {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let code = self.child.wait().unwrap().code();
        self.listener.take().unwrap().join().unwrap();
        let said = self.said.lock().unwrap().clone();
        assert_eq!(code, Some(0), "{said}");
        said
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A `gate` that must be refused at once, with exit code 2 and all of this in its message.
#[track_caller]
fn refused(scene: &Scene, arguments: &str, variables: &[(&str, &str)], says: &[&str]) {
    let ran = bloomgate(scene, &format!("gate {arguments}"), variables).output().unwrap();
    let error = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0), "{arguments} {variables:?}: {error}");
    for words in says {
        assert!(error.contains(words), "{arguments} {variables:?}: {words:?} is not in {error}");
    }
    assert!(!error.contains("panicked") && !error.contains("ready on"), "{error}");
}

#[test]
fn absent_keys_are_answered_without_the_database() {
    let scene = shop();
    let gate = Gate::ready(&scene, &format!("{SHOP} --writers sole --data none"));
    let found = gate.get("/v1/products/sku-7");
    assert_eq!(found.outcome(), (200, "source"));
    assert_eq!(found.json(), serde_json::json!({"sku": "sku-7", "price": 7}));
    assert_eq!(gate.get("/v1/products/sku-7").outcome(), (200, "cache"));
    let outcomes: Vec<(u16, String)> = (0..300)
        .map(|number| gate.get(&format!("/v1/products/bot-{number}")))
        .map(|got| (got.status, got.outcome().1.to_owned()))
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
    let gate = Gate::ready(&scene, &format!("{SHOP} --data none"));
    let database = Connection::open(scene.path("shop.db")).unwrap();
    database.execute("INSERT INTO products VALUES ('past-the-gate', 1)", ()).unwrap();
    assert_eq!(gate.get("/v1/products/past-the-gate").outcome(), (200, "bypass"));
    assert_eq!(gate.get("/v1/products/nobody").outcome(), (404, "bypass"));
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
    let gate = Gate::ready(&scene, &arguments);
    assert_eq!(gate.get("/v1/products/new").status, 404);
    assert_eq!(gate.ask("PUT", "/v1/products/new", "", r#"{"price":5}"#).outcome(), (204, "written"));
    assert_eq!(gate.get("/v1/products/new").json()["price"], 5);
    assert_eq!(gate.ask("DELETE", "/v1/products/sku-3", "", "").outcome(), (204, "deleted"));
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
    let again = Gate::ready(&scene, &arguments);
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
    let gate = Gate::ready(&scene, &format!("{SHOP} --writers sole --data none --tokens tokens --allow-writes"));
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
    let gate = Gate::start(&scene, "--config gate.toml --name flag", &variables);
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
    let path = scene.path("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let gate = Gate::start(&scene, &format!("{SHOP} --data none"), &[("NOTIFY_SOCKET", path.to_str().unwrap())]);
    let mut state = [0; 64];
    let length = socket.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"READY=1");
    gate.stop();
    let length = socket.recv(&mut state).unwrap();
    assert_eq!(&state[..length], b"STOPPING=1");
}
