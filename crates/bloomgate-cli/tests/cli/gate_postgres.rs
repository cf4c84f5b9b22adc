//! `gate` before a real PostgreSQL, by the lines that the documents show: roles with no more rights than they need, strangers
//! who write, a reverse proxy, a deny list and tenants.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::postgres_process::PostgresProcess;
use crate::proxy::{admin, ask, catalog};
use crate::scene::Scene;
use crate::service::{PATIENCE, Running, bloomgate, refused};

/// A server with the shop of the documents. `owner` may do everything with its tables, `gate` and `reader` read them, and a
/// `stranger` writes, who has never heard of a gate.
struct Shop {
    scene: Scene,
    port: u16,
    _server: PostgresProcess,
}

const SHOP: &str = "
    CREATE ROLE owner LOGIN; CREATE ROLE gate LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE app LOGIN;
    GRANT CREATE ON SCHEMA public TO owner;
    SET ROLE owner;
    CREATE TABLE products (sku text PRIMARY KEY, price bigint);
    INSERT INTO products SELECT 'sku-' || i, i FROM generate_series(0, 999) AS i;
    CREATE TABLE bans (who text PRIMARY KEY, why text);
    INSERT INTO bans SELECT '192.0.2.' || i, 'spam' FROM generate_series(0, 199) AS i;
    CREATE TABLE stock (shop text, sku text, price bigint, PRIMARY KEY (shop, sku));
    INSERT INTO stock SELECT 'acme', 'sku-' || i, i FROM generate_series(0, 9) AS i;
    INSERT INTO stock SELECT 'globex', 'sku-' || i, i FROM generate_series(0, 499) AS i;
    GRANT SELECT ON products, bans TO gate, reader;
    GRANT INSERT, SELECT, UPDATE, DELETE ON products, bans TO stranger;
    GRANT INSERT, SELECT, UPDATE, DELETE ON stock TO app;";

impl Shop {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = PostgresProcess::start(port, &[], &["listen_addresses=127.0.0.1", "max_connections=60"]);
        let shop = Self { scene: Scene::new(), port, _server: server };
        shop.as_role("tester").batch_execute(SHOP).unwrap();
        shop
    }

    fn address(&self, role: &str) -> String {
        format!("postgres://{role}@127.0.0.1:{}/postgres", self.port)
    }

    fn as_role(&self, role: &str) -> Client {
        Client::connect(&self.address(role), NoTls).unwrap()
    }

    /// The words of a documented line behind `bloomgate`, with this server for the one that it names.
    fn words(&self, line: &str) -> Vec<String> {
        let mut words = Vec::new();
        // In single quotes there is one word, and nothing is glued to it.
        for (number, part) in line.split('\'').enumerate() {
            match number % 2 {
                1 => words.push(part.to_owned()),
                _ => words.extend(part.split_whitespace().map(str::to_owned)),
            }
        }
        assert_eq!(words.remove(0), "bloomgate");
        for word in &mut words {
            if let Some(role) = word.strip_prefix("postgres://").and_then(|rest| rest.strip_suffix("@db/shop")) {
                *word = self.address(role);
            }
        }
        words
    }

    /// Runs a line that ends by itself, and must end well; what it printed.
    fn run(&self, line: &str) -> String {
        let done = bloomgate(&self.scene, "", &[]).args(self.words(line)).output().unwrap();
        assert!(done.status.success(), "{line}: {done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Starts a gate by a line, with a few more words, and waits for its filter.
    fn gate(&self, line: &str, more: &str) -> Running {
        let mut words = self.words(line);
        words.extend(format!("--listen 127.0.0.1:0 {more}").split_whitespace().map(str::to_owned));
        let mut command = bloomgate(&self.scene, "", &[]);
        command.args(words).stdout(Stdio::null());
        let gate = Running::spawn(&mut command, |said| {
            said.strip_prefix("bloomgate: gate ready on http://127.0.0.1:")?.parse().ok()
        });
        gate.wait_for("bloomgate: filter");
        gate
    }
}

/// The lines of a document that begin so and have these words; those that go on in the next line are put together.
fn documented(document: &str, words: &[&str]) -> Vec<String> {
    let path = format!("{}/../../docs/{document}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap().replace("\\\n", " ");
    let lines = text.lines().filter(|line| line.starts_with("bloomgate gate "));
    let found: Vec<String> =
        lines.filter(|line| words.iter().all(|words| line.contains(words))).map(str::to_owned).collect();
    assert!(!found.is_empty(), "{document} shows no line with {words:?}");
    found
}

/// The only line of its kind.
fn line(document: &str, words: &[&str]) -> String {
    let mut found = documented(document, words);
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// Waits until it is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_feed_is_installed_followed_and_removed() {
    let shop = Shop::start();
    let (install, print) = {
        let found = documented("gate.md", &["install-feed", "postgres://owner@db/shop", "--reader gate"]);
        let (print, install): (Vec<_>, Vec<_>) = found.into_iter().partition(|line| line.ends_with(" --print"));
        assert_eq!((print.len(), install.len()), (1, 1));
        (install[0].clone(), print[0].clone())
    };
    let follow = line("gate.md", &["--source postgres://gate@db/shop", "--writers feed"]);
    let remove = line("gate.md", &["remove-feed", "postgres://owner@db/shop"]);

    // Without a feed nothing is started, and what is printed changes nothing.
    let too_early = format!("{} --listen 127.0.0.1:0 --data none", shop.words(&follow).join(" "));
    refused(&shop.scene, &too_early, &[], &["install-feed", "--table products --key sku"]);
    let printed = shop.run(&print);
    assert!(printed.starts_with("BEGIN;\n") && printed.contains("SECURITY DEFINER"), "{printed}");
    assert!(printed.contains("TO \"gate\";\n") && printed.ends_with("COMMIT;\n"), "{printed}");
    refused(&shop.scene, &too_early, &[], &["install-feed"]);
    assert!(shop.run(&install).contains("products: installed its feed, bloomgate_feed_products ("));
    assert!(shop.run(&install).contains("is there and whole; nothing was changed"));

    let gate = shop.gate(&follow, "--data kept");
    let price = |gate: &Running, key: &str| {
        let got = gate.get(&format!("/v1/products/{key}"));
        (got.status == 200).then(|| got.json()["price"].as_i64().unwrap())
    };
    let is_blocked = |gate: &Running, key: &str| {
        gate.get(&format!("/v1/products/{key}")).outcome() == (404, Some("absent-by-filter"))
    };
    // A "no" needs the feed to be read once after the filter came into force: until then it is "maybe".
    until("the filter never says no", || is_blocked(&gate, "new"));
    assert_eq!(price(&gate, "sku-7"), Some(7));
    let mut stranger = shop.as_role("stranger");
    let mut write = |sql: &str| stranger.batch_execute(sql).unwrap();
    write("INSERT INTO products VALUES ('new', 1)");
    until("it is never told", || price(&gate, "new") == Some(1));
    write("UPDATE products SET price = 2 WHERE sku = 'new'");
    until("the cache is never told", || price(&gate, "new") == Some(2));
    write("UPDATE products SET sku = 'newer' WHERE sku = 'new'");
    until("another key is never told", || price(&gate, "newer") == Some(2));
    assert_eq!(price(&gate, "new"), None);
    assert!(is_blocked(&gate, "nobody"));
    for (kind, count) in [("written", 2), ("changed", 1), ("deleted", 1)] {
        let told = format!("bloomgate_gate_feed_changes_total{{kind=\"{kind}\"}} {count}\n");
        until(&told, || gate.get("/metrics").body.contains(&told));
    }
    let said = gate.stop();
    assert!(said.contains("writers feed") && !said.contains("note:") && !said.contains("error:"), "{said}");

    // What is written while no gate runs is read by the next one.
    write("INSERT INTO products VALUES ('meanwhile', 3)");
    let gate = shop.gate(&follow, "--data kept");
    until("it is never told", || price(&gate, "meanwhile") == Some(3));
    until("the filter never says no", || is_blocked(&gate, "nobody"));
    assert!(gate.said().contains("of the last run, with 1 change since"), "{}", gate.said());

    // Under the gate, and nobody who writes is held up by it.
    assert!(shop.run(&remove).contains("removed its feed"));
    assert!(shop.run(&remove).contains("has none"));
    gate.wait_for("what others write cannot be followed");
    write("INSERT INTO products VALUES ('untold', 4)");
    assert_eq!(gate.get("/v1/products/untold").outcome(), (200, Some("bypass")));
    gate.stop();
}

#[test]
fn a_proxy_takes_its_keys_from_a_query_and_from_a_table_with_a_feed() {
    let shop = Shop::start();
    let query = line("gate.md", &["--keys-from postgres://reader@db/shop", "--query"]);
    let follow = line("recipes/others-write.md", &["--keys-from postgres://gate@db/shop", "--writers feed"]);
    // What is made later is in the service from the start, so that whatever finds it was let through.
    let upstream = catalog(&["sku-7", "vase", "urn"]);
    let started = |line: &str| {
        let line = line.replace("http://catalog:8080", &format!("http://{upstream}"));
        shop.gate(&line, "--admin 127.0.0.1:0 --data none")
    };
    let blocked = (404, Some("absent-by-filter"));

    let proxy = started(&query);
    assert_eq!(ask(proxy.port, "GET", "/products/sku-7").body, "found by the service");
    assert_eq!(ask(proxy.port, "GET", "/products/vase").outcome(), blocked);
    assert_eq!(ask(proxy.port, "PUT", "/products/vase").status, 200);
    assert_eq!(ask(proxy.port, "GET", "/products/vase").status, 200, "a write that passes is known");
    // What a stranger wrote past the proxy is in the next filter, since the query is asked anew.
    let mut stranger = shop.as_role("stranger");
    stranger.batch_execute("INSERT INTO products VALUES ('urn', 1)").unwrap();
    assert_eq!(ask(proxy.port, "GET", "/products/urn").outcome(), blocked);
    assert_eq!(ask(admin(&proxy), "POST", "/rebuild?wait=true").status, 200);
    assert_eq!(ask(proxy.port, "GET", "/products/urn").status, 200);
    proxy.stop();

    stranger.batch_execute("DELETE FROM products WHERE sku IN ('vase', 'urn')").unwrap();
    let install = documented("gate.md", &["install-feed", "postgres://owner@db/shop", "--reader gate"]);
    shop.run(install.iter().find(|line| !line.contains("--print")).unwrap());
    let proxy = started(&follow);
    for key in ["vase", "urn"] {
        let path = format!("/products/{key}");
        until("the filter never says no", || ask(proxy.port, "GET", &path).outcome() == blocked);
        stranger.batch_execute(&format!("INSERT INTO products VALUES ('{key}', 1)")).unwrap();
        until("it is never told", || ask(proxy.port, "GET", &path).status == 200);
    }
    assert_eq!(ask(proxy.port, "GET", "/products/nobody").outcome(), blocked);
    let said = proxy.stop();
    assert!(!said.contains("error:"), "{said}");
}

#[test]
fn a_deny_list_that_strangers_write_denies_whom_they_ban() {
    let shop = Shop::start();
    let follow = line("recipes/others-write.md", &["--meaning deny", "postgres://gate@db/shop"]);
    let install = "bloomgate gate install-feed --source postgres://owner@db/shop --table bans --key who --reader gate";
    shop.run(install);
    let gate = shop.gate(&follow, "--data none");
    let said_of = |who: &str| {
        let got = gate.get(&format!("/v1/bans/{who}"));
        (got.status, got.outcome().1.unwrap_or_default().to_owned())
    };
    let mut stranger = shop.as_role("stranger");
    until("the filter never says no", || said_of("203.0.113.1") == (204, "allowed-by-filter".to_owned()));
    assert_eq!(said_of("192.0.2.7").0, 403);
    stranger.batch_execute("INSERT INTO bans VALUES ('203.0.113.1', 'fraud')").unwrap();
    until("a ban is never told", || said_of("203.0.113.1").0 == 403);
    stranger.batch_execute("DELETE FROM bans WHERE who = '192.0.2.7'").unwrap();
    until("a pardon is never told", || said_of("192.0.2.7").0 == 204);
    assert_eq!(said_of("203.0.113.2"), (204, "allowed-by-filter".to_owned()));
    gate.stop();
}

#[test]
fn tenants_are_answered_for_by_themselves() {
    let shop = Shop::start();
    let line = "bloomgate gate --source postgres://app@db/shop --table stock --key sku --tenant shop --writers sole";
    let gate = shop.gate(line, "--data none --allow-writes");
    gate.wait_for("2 tenants, 510 keys; absent keys are answered here");
    assert_eq!(gate.get("/v1/stock/acme/sku-7").json()["price"], 7);
    assert_eq!(gate.get("/v1/stock/acme/sku-77").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(gate.get("/v1/stock/globex/sku-77").outcome(), (200, Some("source")));
    assert_eq!(gate.get("/v1/stock/nobody/sku-7").outcome(), (404, Some("absent-by-filter")));
    assert_eq!(gate.ask("PUT", "/v1/stock/new/sku-1", "", r#"{"price":5}"#).status, 204);
    assert_eq!(gate.get("/v1/stock/new/sku-1").json()["shop"], "new");
    let price: i64 = shop.as_role("app").query_one("SELECT price FROM stock WHERE shop = 'new'", &[]).unwrap().get(0);
    assert_eq!(price, 5, "what was written is in the database");
    assert_eq!(gate.ask("DELETE", "/v1/stock/acme/sku-7", "", "").status, 204);
    assert_eq!(gate.get("/v1/stock/acme/sku-7").status, 404);
    assert_eq!(gate.get("/v1/stock/globex/sku-7").status, 200);
    assert_eq!(gate.ask("POST", "/rebuild/globex?wait=true", "", "").json()["version"], 2);
    assert_eq!(gate.get("/stats/acme").json()["filter"]["version"], 1);
    let said = gate.stop();
    assert!(!said.contains("error:"), "{said}");
}
