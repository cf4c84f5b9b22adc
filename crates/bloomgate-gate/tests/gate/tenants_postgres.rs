//! Many tenants before one table of a real PostgreSQL: the same answers as the server's own, for tenants of every type.

use std::sync::Arc;

use bloomgate_gate::sources::{PostgresTenants, TenantTable};
use bloomgate_gate::tenants::Tenants;
use bloomgate_gate::{ErrorKind, Key, Outcome, State, Writers};
use bytes::Bytes;

use crate::postgres_server::Server;
use crate::tables::refused;
use crate::tenant_schedules as schedules;

async fn open(server: &Server, database: &str, key: &str, tenant: &str) -> bloomgate_gate::Result<PostgresTenants> {
    PostgresTenants::connect(&server.url(database), "products", key, tenant, 4).await
}

async fn ready(table: PostgresTenants) -> Tenants {
    let tenants = Tenants::builder(Arc::new(table)).writers(Writers::Sole).rebuild_every(None).build().unwrap();
    tenants.rebuild_all(false).await.unwrap();
    tenants
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_those_of_postgresql_while_tenants_come_change_and_are_rebuilt() {
    let server = Server::shared();
    let table = "CREATE TABLE products (tenant text, key integer, value bigint, PRIMARY KEY (tenant, key))";
    let (database, _other) = server.database(table).await;
    let table = open(&server, &database, "key", "tenant").await.unwrap();
    let tenants = schedules::gates(Arc::new(table)).build().unwrap();
    tenants.start();
    let met = schedules::run(tenants, 5, 8, 150, &["a", "b", "o'brien\\", "é", ""]).await;
    assert!(met.judged > 300 && met.filter_no > 20 && met.rebuilds > 20 && met.scans > 1, "{met:?}");
}

#[tokio::test]
async fn tenants_of_every_type_are_what_the_server_takes_them_for() {
    let server = Server::shared();
    let uuid = "0c0a2a52-6b5e-4c0e-9a3b-0d9d6f6f0a11";
    // The type, a tenant as it is stored, spellings of it, and another tenant.
    let types = [
        ("integer", "42", vec!["42", "042", " 42"], "43"),
        ("smallint", "-7", vec!["-7", "-07"], "7"),
        ("bigint", "9000000000", vec!["9000000000"], "1"),
        ("text", "it's \"a\" \\x; --", vec!["it's \"a\" \\x; --"], "It's \"a\" \\x; --"),
        ("varchar(20)", "é ", vec!["é "], "é"),
        ("char(8)", "ab", vec!["ab", "ab   "], "a"),
        ("uuid", uuid, vec![uuid, "0C0A2A52-6B5E-4C0E-9A3B-0D9D6F6F0A11"], "0c0a2a52-6b5e-4c0e-9a3b-0d9d6f6f0a12"),
        ("bytea", "\\x00ff27", vec!["\\x00ff27", "\\x00FF27"], "\\x00ff"),
        ("numeric", "1.50", vec!["1.5", "1.500", "01.5"], "15"),
    ];
    for (name, stored, spellings, other) in types {
        let (database, client) = server
            .database(&format!("CREATE TABLE products (tenant {name}, key text, value int, UNIQUE (key, tenant))"))
            .await;
        let insert =
            format!("INSERT INTO products SELECT ($1::text)::{name}, k, 1 FROM unnest(ARRAY['p1', 'p2']) AS k");
        client.execute(&insert, &[&stored]).await.unwrap();
        let tenants = ready(open(&server, &database, "key", "tenant").await.unwrap()).await;
        assert_eq!(tenants.len(), 1, "{name}");
        for spelling in spellings {
            let tenant = tenants.parse_tenant(spelling).unwrap();
            let found = tenants.get(&tenant, &Key::from("p1")).await.unwrap();
            assert_eq!(found.outcome, Outcome::Source, "{name} {spelling}");
            // Alone, by the statement that counts and the copy that scans one tenant.
            assert_eq!(tenants.rebuild(&tenant, false).await.unwrap().keys, 2, "{name} {spelling}");
        }
        let other = tenants.parse_tenant(other).unwrap();
        assert_eq!(tenants.get(&other, &Key::from("p1")).await.unwrap().outcome, Outcome::AbsentByFilter, "{name}");
        // Writes of a tenant are its own: the other has the same key, and neither touches the other's row.
        tenants.put(&other, Key::from("p1"), Bytes::from_static(b"{\"value\":2}")).await.unwrap();
        let rows = client.query("SELECT value FROM products WHERE key = 'p1' ORDER BY value", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [1, 2], "{name}");
        assert_eq!(tenants.rebuild(&other, false).await.unwrap().keys, 1, "{name}");
        assert!(tenants.delete(&other, &Key::from("p1")).await.unwrap());
        let many = [Key::from("p1"), Key::from("p2"), Key::from("p3")];
        let own = tenants.parse_tenant(stored).unwrap();
        let answers = tenants.get_each(&own, &many).await.unwrap();
        let found: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().row.is_some()).collect();
        assert_eq!(found, [true, true, false], "{name}");
        tenants.stop().await;
    }
}

#[tokio::test]
async fn columns_that_a_filter_cannot_follow_are_refused_as_tenants_too() {
    let server = Server::shared();
    let tables = [
        (
            "CREATE EXTENSION citext; CREATE TABLE products (t citext, k text, UNIQUE (t, k))",
            "texts that differ only in case",
        ),
        ("CREATE TABLE products (t float8, k text, UNIQUE (t, k))", "floating-point"),
        ("CREATE TABLE products (t text, k text UNIQUE)", "and the tenant together"),
        (
            "CREATE TABLE products (t text, k text, x int, UNIQUE (t, k, x))",
            "CREATE UNIQUE INDEX ON \"public\".\"products\" (\"t\", \"k\")",
        ),
        (
            "CREATE TABLE products (t text, k text); CREATE UNIQUE INDEX ON products (t, k) WHERE k > ''",
            "no unique index",
        ),
        (
            "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             CREATE TABLE products (t text COLLATE loose, k text, UNIQUE (t, k))",
            "not deterministic",
        ),
    ];
    for (sql, says) in tables {
        let (database, _client) = server.database(sql).await;
        refused(open(&server, &database, "k", "t").await, ErrorKind::Unsupported, &[says]);
    }
    let (database, client) = server.database("CREATE TABLE products (t text, k text, UNIQUE (t, k))").await;
    refused(open(&server, &database, "k", "k").await, ErrorKind::Invalid, &["at once"]);
    refused(open(&server, &database, "k", "tenant").await, ErrorKind::Invalid, &["tenant"]);
    client.batch_execute("INSERT INTO products VALUES ('a', 'x'), (NULL, 'y'), ('a', NULL)").await.unwrap();
    let tenants = ready(open(&server, &database, "k", "T").await.unwrap()).await;
    assert_eq!((tenants.len(), tenants.stats().busiest[0].keys), (1, 1), "what is null belongs to nobody");
    // No text of PostgreSQL has a NUL in it.
    let impossible = tenants.parse_tenant("a\0b").unwrap();
    assert_eq!(tenants.get(&impossible, &Key::from("x")).await.unwrap().row, None);
    // A column that became another one: no filter may say no, those of no tenant.
    client.batch_execute("ALTER TABLE products ALTER t TYPE char(5)").await.unwrap();
    refused(tenants.rebuild_all(false).await, ErrorKind::Unsupported, &["not the column it was"]);
    assert_eq!(tenants.state_of(&Key::from("a")), State::Broken);
    tenants.stop().await;
}

#[tokio::test]
async fn more_tenants_than_allowed_are_refused_before_anything_is_made() {
    let server = Server::shared();
    let sql = "CREATE TABLE products (t int, k int, PRIMARY KEY (t, k)); INSERT INTO products SELECT i, 1 FROM generate_series(1, 50) i";
    let (database, _client) = server.database(sql).await;
    let table: Arc<dyn TenantTable> = Arc::new(open(&server, &database, "k", "t").await.unwrap());
    let few = Tenants::builder(table.clone()).writers(Writers::Sole).most_tenants(49).build().unwrap();
    refused(few.rebuild_all(false).await, ErrorKind::Invalid, &["more than 49 tenants", "--tenants-most"]);
    assert_eq!((few.len(), few.state()), (0, State::Loading));
    let enough = Tenants::builder(table).writers(Writers::Sole).most_tenants(50).build().unwrap();
    assert_eq!(enough.rebuild_all(false).await.unwrap().built, 50);
}
