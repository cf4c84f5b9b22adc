//! Tables of a real PostgreSQL server: rows both ways, scans of one moment, broken connections, and refusals.

mod breaking;
mod ground;
mod load;
mod query;
mod spellings;

use std::collections::BTreeSet;

use bloomgate_gate::sources::{KeyBatch, Postgres, Source};
use bloomgate_gate::{ErrorKind, Key, KeyType};

use crate::postgres_server::Server;
use crate::tables::{put, refused, row, scanned};

async fn open(server: &Server, database: &str, table: &str, key: &str) -> Postgres {
    Postgres::connect(&server.url(database), table, key, 4).await.unwrap()
}

#[tokio::test]
async fn rows_come_as_json_and_go_back() {
    let server = Server::shared();
    let (database, other) = server
        .database(
            r#"CREATE SCHEMA "My Shop"; CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE DOMAIN small AS int CHECK (value < 10);
               CREATE TABLE "My Shop"."od""d" ("the k" text PRIMARY KEY, answer int, i bigint, f float8, b bytea, a int[],
                   j jsonb, m mood, n numeric(30, 10), d small, t timestamptz, "say ""hi""" varchar(9) DEFAULT 'none');
               INSERT INTO "My Shop"."od""d" VALUES ('k', 1, 9007199254740993, 'Infinity', '\x00ff', '{1,NULL}',
                   '{"x": [1.50]}', 'sad', 12345678901234567890.0123456789, 9, '2020-02-29 12:00Z', 'a"b🦀');"#,
        )
        .await;
    let source = open(&server, &database, r#""My Shop"."od""d""#, "the k").await;
    assert_eq!(source.describe(), r#"postgres table "My Shop"."od""d""#);
    let stored = row(&source, "k").await.unwrap();
    for part in
        [r#""i":9007199254740993"#, r#""f":"Infinity""#, r#""b":"\\x00ff""#, r#""n":12345678901234567890.0123456789"#]
    {
        assert!(stored.contains(part), "{part} is not in {stored}");
    }
    // What was read can be written under another key, and is the same.
    let copy = stored.replace(r#""the k":"k""#, r#""the k":"l""#);
    source.put_many(&[("l".into(), copy.clone().into())]).await.unwrap();
    assert_eq!(row(&source, "l").await.unwrap(), copy);
    let keys = ["l", "absent", "k", "l", "nul\0"].map(Key::from);
    let rows = source.get_many(&keys).await.unwrap();
    assert_eq!(rows, [Some(copy.clone().into()), None, Some(stored.into()), Some(copy.into()), None]);
    assert!(source.get_many(&[]).await.unwrap().is_empty());

    // A new row gets defaults, an old one keeps what is not given.
    put(&source, "m", r#"{"j": {"y": null}, "answer": 5}"#).await.unwrap();
    put(&source, "m", r#"{"d": 3, "the k": "m"}"#).await.unwrap();
    let merged = row(&source, "m").await.unwrap();
    for part in [r#""j":{"y": null}"#, r#""answer":5"#, r#""d":3"#, r#""say \"hi\"":"none""#] {
        assert!(merged.contains(part), "{part} is not in {merged}");
    }
    put(&source, "n", "{}").await.unwrap();
    put(&source, "n", "{}").await.unwrap();
    assert!(source.delete(&"n".into()).await.unwrap());
    assert!(!source.delete(&"n".into()).await.unwrap() && !source.delete(&"nul\0".into()).await.unwrap());
    assert_eq!((row(&source, "n").await, row(&source, "nul\0").await, source.count().await.unwrap()), (None, None, 3));

    // A column that came later, and one that went.
    other.batch_execute(r#"ALTER TABLE "My Shop"."od""d" ADD late int, DROP COLUMN m"#).await.unwrap();
    put(&source, "m", r#"{"late": 7}"#).await.unwrap();
    assert!(row(&source, "m").await.unwrap().ends_with(r#","late":7}"#));
    refused(
        put(&source, "m", r#"{"m": "sad"}"#).await,
        ErrorKind::Invalid,
        &["no column is named \"m\"", "there are a, "],
    );
    // Over TCP, too.
    let source = Postgres::connect(&server.tcp_url(&database), "My Shop.od", "k", 1).await;
    refused(source, ErrorKind::Invalid, &["no table \"My Shop.od\""]);
    let source = Postgres::connect(&server.tcp_url(&database), r#""My Shop"."od""d""#, "the k", 1).await.unwrap();
    assert!(row(&source, "k").await.is_some());
}

#[tokio::test]
async fn a_batch_is_written_whole_or_not_at_all() {
    let server = Server::shared();
    let (database, other) = server
        .database(
            "CREATE TABLE t (id int PRIMARY KEY, price numeric CHECK (price > 0), twice numeric GENERATED ALWAYS AS (price * 2) STORED);
             INSERT INTO t VALUES (1, 1);
             CREATE TABLE scaled (k numeric(6, 2) PRIMARY KEY); CREATE TABLE cut (k varchar(3) PRIMARY KEY);
             CREATE TABLE padded (k char(5) PRIMARY KEY, v int);
             CREATE TABLE shouted (k text PRIMARY KEY);
             CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.k = 'drop' THEN RETURN NULL; END IF; NEW.k := upper(NEW.k); RETURN NEW; END $$;
             CREATE TRIGGER shout BEFORE INSERT ON shouted FOR EACH ROW EXECUTE FUNCTION shout();
             CREATE TABLE loose (k int);",
        )
        .await;
    let source = open(&server, &database, "t", "ID").await;
    for (second, said) in [
        (r#"{"price": 0}"#, &["t_price_check"][..]),
        (r#"{"price": "x"}"#, &["invalid input syntax"]),
        (r#"{"prise": 1}"#, &["\"prise\"", "there are price, "]),
        (r#"{"twice": 1}"#, &["twice", "generated"]),
        (r#"{"id": 4}"#, &["the row's id is 4, but its key is \"3\""]),
        (r#"{"price": 1, "price": 2}"#, &["price", "twice"]),
        ("[]", &["no JSON object"]),
    ] {
        let rows = [(1, r#"{"price": 5}"#), (2, r#"{"price": 5}"#), (3, second)]
            .map(|(key, row)| (Key::from(key), row.into()));
        refused(source.put_many(&rows).await, ErrorKind::Invalid, said);
        assert_eq!(row(&source, 1).await.unwrap(), r#"{"id":1,"price":1,"twice":2}"#);
        assert_eq!(source.count().await.unwrap(), 1);
    }
    refused(put(&source, 1 << 40, "{}").await, ErrorKind::BadKey, &["integer of 32 bits", "KeyType::parse"]);

    // One key twice, and other columns in between: the last one stays.
    let rows: Vec<_> = (0..2000)
        .map(|i| {
            (Key::from(i % 1000), if i % 7 == 0 { "{}".into() } else { format!("{{\"price\": {}}}", i + 1).into() })
        })
        .collect();
    source.put_many(&rows).await.unwrap();
    assert_eq!(row(&source, 1).await.unwrap(), r#"{"id":1,"price":2,"twice":4}"#, "1001 = 7 * 143");
    assert_eq!(row(&source, 2).await.unwrap(), r#"{"id":2,"price":1003,"twice":2006}"#);
    assert_eq!(source.count().await.unwrap(), 1000);

    // A key that the column would change is refused: the filter would know another one than the table.
    let key = |source: &Postgres, text: &str| source.key_type().parse(text).unwrap();
    let scaled = open(&server, &database, "scaled", "k").await;
    let rows = [(key(&scaled, "1.50"), "{}".into()), (key(&scaled, "1.505"), "{}".into())];
    refused(scaled.put_many(&rows).await, ErrorKind::Invalid, &["\"1.505\" as it is", "scale", "nothing was written"]);
    refused(scaled.put_many(&[(key(&scaled, "12345"), "{}".into())]).await, ErrorKind::Invalid, &["overflow"]);
    scaled.put_many(&rows[..1]).await.unwrap();
    let cut = open(&server, &database, "cut", "k").await;
    refused(put(&cut, "ab  ", "{}").await, ErrorKind::Invalid, &["\"ab  \" as it is"]);
    refused(put(&cut, "abcd", "{}").await, ErrorKind::Invalid, &["too long"]);
    refused(put(&cut, "a\0", "{}").await, ErrorKind::BadKey, &["NUL"]);
    put(&cut, "ab ", "{}").await.unwrap();
    assert_eq!((row(&cut, "ab").await, row(&cut, "ab ").await.as_deref()), (None, Some(r#"{"k":"ab "}"#)));
    let padded = open(&server, &database, "padded", "k").await;
    padded.put_many(&[(key(&padded, "ab   "), r#"{"k": "ab", "v": 1}"#.into())]).await.unwrap();
    assert_eq!(row(&padded, key(&padded, "ab ")).await.unwrap(), r#"{"k":"ab   ","v":1}"#);
    assert_eq!(scanned(&padded).await.unwrap(), [b"ab"]);
    let shouted = open(&server, &database, "shouted", "k").await;
    for wrong in ["low", "drop"] {
        refused(put(&shouted, wrong, "{}").await, ErrorKind::Invalid, &[wrong, "trigger"]);
    }
    put(&shouted, "LOUD", "{}").await.unwrap();
    assert_eq!(scanned(&shouted).await.unwrap(), [b"LOUD"]);

    // A table that lost its unique index says so.
    other.batch_execute("CREATE UNIQUE INDEX loosely ON loose (k)").await.unwrap();
    let loose = open(&server, &database, "loose", "k").await;
    put(&loose, 1, "{}").await.unwrap();
    other.batch_execute("DROP INDEX loosely").await.unwrap();
    refused(put(&loose, 1, "{}").await, ErrorKind::Unsupported, &["CREATE UNIQUE INDEX ON loose (\"k\")"]);
    // One that is gone is no mistake of whoever writes.
    other.batch_execute("DROP TABLE loose").await.unwrap();
    refused(put(&loose, 1, r#"{"v": 1}"#).await, ErrorKind::Source, &["loose is gone"]);
    refused(put(&loose, 1, "{}").await, ErrorKind::Source, &["does not exist"]);
}

#[tokio::test]
async fn a_key_must_be_there_at_most_once() {
    let server = Server::shared();
    let (database, other) = server
        .database(
            "CREATE TABLE bare (k int); CREATE TABLE indexed (k int); CREATE INDEX ON indexed (k);
             CREATE TABLE partly (k int, v int); CREATE UNIQUE INDEX ON partly (k) WHERE v > 0;
             CREATE TABLE paired (k int, v int, PRIMARY KEY (k, v)); CREATE UNIQUE INDEX ON paired (v, k);
             CREATE TABLE late (k int UNIQUE DEFERRABLE INITIALLY DEFERRED);
             CREATE TABLE computed (k int); CREATE UNIQUE INDEX ON computed ((k + 0));
             CREATE TABLE parent (k int PRIMARY KEY); CREATE TABLE child () INHERITS (parent);
             CREATE TABLE parts (k int, p int, PRIMARY KEY (k, p)) PARTITION BY LIST (p);
             CREATE TABLE good (k int PRIMARY KEY); CREATE VIEW seen AS SELECT k FROM good;
             CREATE TABLE nullable (k int, v int); CREATE UNIQUE INDEX ON nullable (k) INCLUDE (v);
             INSERT INTO nullable VALUES (NULL, 1), (NULL, 2), (3, 3);
             CREATE MATERIALIZED VIEW kept AS SELECT k FROM good; CREATE UNIQUE INDEX ON kept (k);",
        )
        .await;
    let connect = async |table: &str| Postgres::connect(&server.url(&database), table, "k", 1).await;
    for table in ["bare", "indexed", "partly", "paired", "late", "computed", "parent", "parts"] {
        let said = format!("CREATE UNIQUE INDEX ON \"public\".\"{table}\" (\"k\")");
        refused(connect(table).await, ErrorKind::Unsupported, &["no unique index covers it alone", &said]);
    }
    refused(connect("seen").await, ErrorKind::Unsupported, &["seen is a view", "the table behind it"]);
    refused(connect("kept").await, ErrorKind::Unsupported, &["kept is a materialized view", "the table behind it"]);
    // What it says to do helps.
    other.batch_execute("CREATE UNIQUE INDEX ON public.bare (k)").await.unwrap();
    for table in ["bare", "good"] {
        connect(table).await.unwrap();
    }
    // Nulls are no keys: nobody can ask for them.
    let nullable = connect("nullable").await.unwrap();
    assert_eq!((scanned(&nullable).await.unwrap().len(), nullable.count().await.unwrap()), (1, 1));
}

#[tokio::test]
async fn columns_that_filters_cannot_follow_are_refused() {
    use ErrorKind::{Invalid, Source, Unsupported};
    let server = Server::shared();
    let (database, _other) = server
        .database(
            "CREATE EXTENSION citext;
             CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             CREATE COLLATION exact (provider = icu, locale = 'de');
             CREATE TYPE mood AS ENUM ('glad'); CREATE DOMAIN email AS citext; CREATE DOMAIN count AS int; CREATE DOMAIN counts AS count;
             CREATE DOMAIN code AS varchar(9) COLLATE folded;
             CREATE TABLE t (ci citext, email email, folded text COLLATE folded, code code, exact text COLLATE exact, f4 real,
                 f8 double precision, m mood, n name, ts timestamptz, b bool, j jsonb, a int[], counts counts, v varchar(3),
                 UNIQUE (exact), UNIQUE (counts), UNIQUE (v));
             CREATE SEQUENCE s;
             CREATE ROLE locked LOGIN PASSWORD 'sesame';",
        )
        .await;
    for (column, said) in [
        ("ci", &["t.ci is citext", "lower("][..]),
        ("email", &["t.email is email", "lower("]),
        ("folded", &["collation folded is not deterministic", "\"C\""]),
        ("code", &["collation folded is not deterministic"]),
        ("f4", &["real", "numeric"]),
        ("f8", &["double precision", "numeric"]),
        ("m", &["mood", "smallint, integer"]),
        ("n", &["name"]),
        ("ts", &["timestamp with time zone"]),
        ("b", &["boolean"]),
        ("j", &["jsonb"]),
        ("a", &["integer[]"]),
    ] {
        refused(Postgres::connect(&server.url(&database), "t", column, 1).await, Unsupported, said);
    }
    for (table, column, key_type) in [
        ("t", "exact", KeyType::Text),
        ("t", "counts", KeyType::Integer { bits: 32 }),
        ("public.t", "v", KeyType::Text),
    ] {
        assert_eq!(open(&server, &database, table, column).await.key_type(), key_type, "{table}.{column}");
    }
    let connect = async |url: &str, table: &str, column: &str| Postgres::connect(url, table, column, 1).await;
    let url = server.url(&database);
    refused(connect(&url, "tt", "k").await, Invalid, &["no table \"tt\"", "there are t;"]);
    refused(connect(&url, "a b.\"", "k").await, Invalid, &["no table"]);
    refused(connect(&url, "t", "cy").await, Invalid, &["no column is named \"cy\": there are ci, "]);
    refused(connect(&url, "s", "last_value").await, Unsupported, &["a sequence", "give a table"]);
    refused(Postgres::connect(&url, "t", "exact", 0).await, Invalid, &["at least 1"]);

    // Passwords are in no message.
    let locked = server.url_as("locked", &database);
    refused(connect(&locked, "t", "v").await, Invalid, &["locked@", "PGPASSWORD"]);
    let wrong = connect(&server.url_as("locked:wr0ng", &database), "t", "v").await.unwrap_err();
    assert!(
        wrong.to_string().contains("password authentication failed") && !wrong.to_string().contains("wr0ng"),
        "{wrong}"
    );
    let granted = connect(&server.url_as("locked:sesame", &database), "t", "v").await.unwrap();
    assert!(!format!("{granted:?}").contains("sesame"));
    refused(granted.get(&"x".into()).await, Source, &["permission denied"]);
    refused(connect("postgres://tester:sesame@127.0.0.1:1/x", "t", "v").await, Source, &["tester@127.0.0.1:1/x: "]);
    refused(connect(&server.url("no_such_database"), "t", "v").await, Invalid, &["no_such_database"]);
}

#[tokio::test]
async fn a_scan_is_of_one_moment() {
    let server = Server::shared();
    let (database, other) = server
        .database(
            "CREATE TABLE t (k text PRIMARY KEY, n numeric UNIQUE, u uuid UNIQUE, s smallint UNIQUE, p char(8) UNIQUE, parts int NOT NULL);
             INSERT INTO t SELECT 'key ' || i, CASE WHEN i % 3 > 0 THEN -i / 100.0 END, md5(i::text)::uuid, i % 30000 - 15000, i, i
                 FROM generate_series(1, 30000) AS i;
             CREATE TABLE parts (k int PRIMARY KEY) PARTITION BY RANGE (k);
             CREATE TABLE low PARTITION OF parts FOR VALUES FROM (0) TO (100);
             CREATE TABLE high PARTITION OF parts FOR VALUES FROM (100) TO (1000);
             INSERT INTO parts SELECT generate_series(0, 999);
             CREATE TABLE strange (k numeric UNIQUE); INSERT INTO strange VALUES ('NaN'), ('Infinity'), (1e100), ('1e-100'), (NULL);",
        )
        .await;
    let source = open(&server, &database, "t", "k").await;
    let mut scan = source.scan().await.unwrap();
    // Written and deleted by others and by ourselves, after the scan began.
    other
        .batch_execute("DELETE FROM t WHERE parts > 20000; INSERT INTO t VALUES ('later', 1, NULL, 20000, 'x', 1)")
        .await
        .unwrap();
    put(&source, "key 30001", r#"{"parts": 1}"#).await.unwrap();
    let (mut batch, mut keys) = (KeyBatch::default(), BTreeSet::new());
    while scan.next(&mut batch).await.unwrap() {
        assert!(!batch.is_empty() && batch.len() <= 8192);
        keys.extend(batch.iter().map(<[u8]>::to_vec));
    }
    assert_eq!(keys, (1..=30000).map(|i| format!("key {i}").into_bytes()).collect());
    assert_eq!(scanned(&source).await.unwrap().len(), 20002);

    // Every type as it is parsed, nulls left out.
    let key_of = |key_type: KeyType, text: String| key_type.parse(&text).unwrap().canonical().to_vec();
    for (column, shown, rows) in
        [("n", "n::text", 13335), ("u", "u::text", 20000), ("s", "s::text", 20001), ("p", "rtrim(p)", 20001)]
    {
        let source = open(&server, &database, "t", column).await;
        let told = other.query(&format!("SELECT {shown} FROM t WHERE {column} IS NOT NULL"), &[]).await.unwrap();
        let mut told: Vec<_> = told.iter().map(|row| key_of(source.key_type(), row.get(0))).collect();
        let mut keys = scanned(&source).await.unwrap();
        told.sort_unstable();
        keys.sort_unstable();
        assert!(keys == told, "{column}");
        assert_eq!((keys.len(), source.count().await.unwrap()), (rows, rows as u64), "{column}");
    }
    let parts = open(&server, &database, "parts", "k").await;
    let keys: BTreeSet<_> = scanned(&parts).await.unwrap().into_iter().collect();
    assert_eq!(keys, (0..1000i64).map(|key| key.to_le_bytes().to_vec()).collect());
    put(&parts, 5, "{}").await.unwrap();
    assert_eq!((parts.count().await.unwrap(), row(&parts, 500).await), (1000, Some(r#"{"k":500}"#.into())));
    let strange = open(&server, &database, "strange", "k").await;
    let keys = scanned(&strange).await.unwrap();
    assert_eq!(keys.iter().map(Vec::len).collect::<Vec<_>>(), [3, 8, 101, 102]);
    assert_eq!(row(&strange, Key::from_canonical(&*keys[3])).await.unwrap(), format!("{{\"k\":0.{:0>100}}}", 1));

    // A column that changes its type is not read as what it was.
    other.batch_execute("ALTER TABLE t ALTER s TYPE int").await.unwrap();
    let changed = Postgres::connect(&server.url(&database), "t", "s", 1).await.unwrap();
    other.batch_execute("ALTER TABLE t ALTER s TYPE text").await.unwrap();
    refused(scanned(&changed).await, ErrorKind::Unsupported, &["t.s is not the column it was", "anew"]);
    other.batch_execute("ALTER TABLE t DROP COLUMN s").await.unwrap();
    refused(scanned(&changed).await, ErrorKind::Unsupported, &["not the column it was"]);
    other.batch_execute("DROP TABLE t CASCADE").await.unwrap();
    refused(source.count().await, ErrorKind::Source, &["does not exist"]);
}

#[tokio::test]
async fn large_tables_are_counted_by_the_planners_estimate() {
    let server = Server::shared();
    let (database, other) = server.database("CREATE TABLE t (k int PRIMARY KEY); INSERT INTO t VALUES (1), (2)").await;
    let source = open(&server, &database, "t", "k").await;
    let estimate = async |rows: &str| {
        other.batch_execute(&format!("UPDATE pg_class SET reltuples = {rows} WHERE relname = 't'")).await.unwrap();
        source.count().await.unwrap()
    };
    assert_eq!((estimate("-1").await, estimate("999").await, estimate("5e9").await), (2, 2, 5_000_000_000));
    // The children's rows are not in the estimate of the parent.
    other.batch_execute("CREATE TABLE child () INHERITS (t); INSERT INTO child VALUES (3)").await.unwrap();
    assert_eq!(estimate("5e9").await, 3);
}
