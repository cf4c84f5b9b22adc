//! Keys from a PostgreSQL server: a real one, started here in an empty folder behind a socket file, and stopped.

use postgres::{Client, NoTls};

use crate::postgres_process::PostgresProcess;
use crate::scene::{Ran, Scene};

/// A server that nobody reaches but through its socket file.
pub struct Server(PostgresProcess);

impl Server {
    pub fn start() -> Self {
        // One user needs a password.
        let rules = "local all locked scram-sha-256\nlocal all all trust\n";
        let settings = ["listen_addresses=", "max_connections=40"];
        // The port of addresses that name none; here it is no more than a part of the socket file's name.
        Self(PostgresProcess::start(5432, &[("pg_hba.conf", rules.to_owned())], &settings))
    }

    pub fn connect(&self) -> Client {
        Client::connect(&self.address("tester"), NoTls).unwrap()
    }

    /// The address for this user (and perhaps a password, after a colon).
    pub fn address(&self, user: &str) -> String {
        format!("postgres://{user}@{}/postgres", self.0.host())
    }
}

fn run(scene: &Scene, verb: &str, query: &str, address: &str) -> Ran {
    scene.run_spaced(&format!("{verb} --query"), query, address)
}

#[test]
fn queries_to_a_server_give_keys_and_its_errors_are_told() {
    let server = Server::start();
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('glad', 'sad');
             CREATE DOMAIN short AS text CHECK (length(value) < 40);
             CREATE TABLE users (id bigint, small smallint, email text, name short, photo bytea, uid uuid, mood mood,
                                 height double precision);
             INSERT INTO users SELECT i - 10, i % 100, CASE WHEN i % 5 <> 0 THEN 'user' || i || '@example.org' END,
                 'näme' || i, '\\xff00'::bytea, '00000000-0000-0000-0000-00000000002a', 'glad', 1.5
                 FROM generate_series(1, 50000) AS i;
             CREATE ROLE locked LOGIN PASSWORD 'sesame'; GRANT SELECT ON users TO locked;",
        )
        .unwrap();
    let scene = Scene::new();
    let address = server.address("tester");

    // Every key is found, by lines and by the query itself.
    let built = run(&scene, "build -o f.bloom --json", "SELECT email FROM users", &address).code(0);
    assert_eq!((built.number("keys_read"), built.number("distinct")), (40_000.0, 40_000.0));
    assert!(built.err().contains("10,000 nulls skipped"), "{}", built.err());
    let keys: String = (1..=50_000).filter(|i| i % 5 != 0).map(|i| format!("user{i}@example.org\n")).collect();
    assert!(scene.run_with("check f.bloom", keys.clone()).code(0).out() == keys, "a key is missing");
    let asked = run(&scene, "check f.bloom", "SELECT email FROM users ORDER BY id", &format!("-f {address}")).code(0);
    assert!(asked.out() == keys);

    // Types, and several columns.
    for (keys, query, asked) in [
        ("i64", "SELECT id FROM users", "-9"),
        ("u64", "SELECT small FROM users", "99"),
        ("text", "SELECT name FROM users", "näme17"),
        ("uuid", "SELECT uid FROM users", "0000000000000000000000000000002A"),
        ("text", "SELECT uid FROM users", "00000000-0000-0000-0000-00000000002a"),
        ("text", "SELECT mood FROM users", "glad"),
        ("text", "SELECT height::text FROM users", "1.5"),
        ("tuple(i64,text)", "SELECT id, name FROM users", "7\tnäme17"),
    ] {
        run(&scene, &format!("build -q -o f.bloom --keys {keys}"), query, &address).code(0);
        assert_eq!(scene.run_with("check f.bloom", asked).code(0).out().trim_end(), asked, "{query}");
    }
    run(&scene, "build -q -o f.bloom", "SELECT photo FROM users", &address).code(0);
    scene.run_with("check f.bloom", b"\xff\0").code(0);

    // What the server says is passed on; nothing can be written.
    let refused = |query: &str, address: &str, said: &[&str]| {
        run(&scene, "build -q -o g.bloom", query, address).refused(said);
    };
    refused("SELECT id FROM user_s", &address, &["ERROR: relation \"user_s\" does not exist"]);
    refused("SELECT 1 / (id - 100) FROM users ORDER BY id", &address, &["ERROR: division by zero"]);
    refused("SELECT height FROM users", &address, &["height", "float8", "CAST(height AS text)"]);
    refused("DELETE FROM users RETURNING id", &address, &["read-only transaction"]);
    refused("SELECT id FROM users WHERE id = $1", &address, &["parameters"]);
    refused("SET x.y = 1", &address, &["SELECT"]);
    scene.run(&format!("build -q -o g.bloom {address}")).refused(&["--query"]);

    // Passwords: from the address or the environment, and in no message.
    let locked = server.address("locked");
    refused("SELECT id FROM users", &locked, &["PGPASSWORD"]);
    run(&scene, "build -q -o g.bloom", "SELECT id FROM users", &server.address("locked:sesame")).code(0);
    let query = ["build", "-q", "-o", "g.bloom", "--query", "SELECT id FROM users", &locked];
    scene.command("").env("PGPASSWORD", "sesame").args(query).assert().success();
    let wrong = run(&scene, "build -q -o h.bloom", "SELECT id FROM users", &server.address("locked:wr0ng")).code(2);
    assert!(
        wrong.err().contains("password authentication failed") && !wrong.err().contains("wr0ng"),
        "{}",
        wrong.err()
    );
    let tls = server.address("locked:sesame") + "?sslmode=verify-full";
    let tls = run(&scene, "build -q -o h.bloom", "SELECT 'a'", &tls).code(2);
    assert!(tls.err().contains("psql -Atc 'SELECT '\\''a'\\'''") && !tls.err().contains("sesame"), "{}", tls.err());
    refused("SELECT 1", "postgres://tester@localhost:1/x", &["postgres://tester@localhost:1/x: "]);
    refused(
        "SELECT 1",
        "postgres://tester:s3@me@localhost:99999/x",
        &["postgres://tester@localhost:99999/x: ", "port"],
    );
    assert_eq!(scene.files(), ["f.bloom", "g.bloom"]);
}
