//! Tables of real SQLite files: the same answers as SQLite's own, rows both ways, scans of one moment, and refusals.

use std::collections::BTreeSet;
use std::path::PathBuf;

use bloomgate_gate::sources::{KeyBatch, Source, Sqlite};
use bloomgate_gate::{Error, ErrorKind, Gate, Key, KeyType, Writers};
use bytes::Bytes;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::tables::{put, refused, row, scanned, text};

/// A file made by some SQL, and a connection of somebody else to it.
struct File {
    _folder: TempDir,
    path: PathBuf,
    other: Connection,
}

fn file(sql: &str) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.db");
    let other = Connection::open(&path).unwrap();
    other.execute_batch(sql).unwrap();
    File { _folder: folder, path, other }
}

impl File {
    fn open(&self, table: &str, key: &str) -> Result<Sqlite, Error> {
        Sqlite::open(&self.path, table, key)
    }

    #[track_caller]
    fn refused(&self, table: &str, key: &str, kind: ErrorKind, said: &[&str]) {
        refused(self.open(table, key), kind, said);
    }
}

#[tokio::test]
async fn spellings_are_one_key_where_sqlite_says_so() {
    // Spellings that SQLite reads and the gate refuses: a fraction for an integer. No answer is not a wrong one.
    let declined = ["42.0", "4.2e1", "-7.", "0.0", "9.2233720368547758e18"];
    let long = "1".repeat(30);
    let integers = [
        "42",
        "042",
        " 42",
        "42 ",
        "\t42\n",
        "+42",
        "-42",
        "--42",
        "4 2",
        "",
        " ",
        "-7",
        "-07",
        "0",
        "-0",
        "+0",
        "0x2A",
        "1_000",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "42abc",
        "٤٢",
        "NaN",
        long.as_str(),
    ];
    let texts = [
        "",
        " ",
        "a",
        "A",
        "a ",
        " a",
        "ä",
        "a\u{308}",
        "42",
        "042",
        "1.5",
        "a\0",
        "a\0b",
        "\u{1F600}",
        "%",
        "_",
        "a'b",
        "a\"b",
    ];
    let blobs = ["\\x", "\\x00", "\\xff", "\\xFF", "\\x41", "A"];
    for (declared, key_type, spellings) in [
        ("INTEGER PRIMARY KEY", KeyType::Integer { bits: 64 }, [&integers[..], &declined].concat()),
        ("BIGINT UNIQUE", KeyType::Integer { bits: 64 }, [&integers[..], &declined].concat()),
        ("TEXT PRIMARY KEY", KeyType::Text, texts.to_vec()),
        ("VARCHAR(3) UNIQUE", KeyType::Text, texts.to_vec()),
        ("BLOB UNIQUE", KeyType::Bytes, blobs.to_vec()),
    ] {
        let file = file(&format!("CREATE TABLE t (k {declared}, v)"));
        let source = file.open("t", "k").unwrap();
        assert_eq!(source.key_type(), key_type);
        // What can be stored is stored, by the gate.
        let stored: Vec<&str> = match key_type {
            KeyType::Integer { .. } => {
                vec!["42", "-42", "0", "-7", "1000", "9223372036854775807", "-9223372036854775808"]
            }
            KeyType::Text => texts.to_vec(),
            _ => vec!["\\x", "\\x00", "\\xff", "\\x41"],
        };
        for (at, key) in stored.iter().enumerate() {
            let row = Bytes::from(format!("{{\"v\": {at}}}"));
            source.put_many(&[(key_type.parse(key).unwrap(), row)]).await.unwrap();
        }
        for spelling in spellings {
            // What SQLite finds: the text in the place of the key, or the blob that it spells.
            let sql = match (key_type, spelling.strip_prefix("\\x")) {
                (KeyType::Bytes, Some(digits)) => format!("SELECT v FROM t WHERE k = x'{digits}' AND ?1 <> ''"),
                _ => "SELECT v FROM t WHERE k = ?1".into(),
            };
            let mut statement = file.other.prepare(&sql).unwrap();
            let found: Vec<i64> =
                statement.query_map([spelling], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
            match key_type.parse(spelling) {
                Ok(key) => {
                    let row = row(&source, key).await;
                    let row =
                        row.map(|row| serde_json::from_str::<serde_json::Value>(&row).unwrap()["v"].as_i64().unwrap());
                    assert_eq!(row, found.first().copied(), "{declared} {spelling:?}");
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::BadKey);
                    assert!(found.is_empty() || declined.contains(&spelling), "{declared} {spelling:?} {error}");
                }
            }
        }
        let scanned: BTreeSet<_> = scanned(&source).await.unwrap().into_iter().collect();
        let canonical: BTreeSet<_> =
            stored.iter().map(|key| key_type.parse(key).unwrap().canonical().to_vec()).collect();
        assert_eq!(scanned, canonical, "{declared}");
        assert_eq!(source.count().await.unwrap(), stored.len() as u64);
    }
}

#[tokio::test]
async fn rows_come_as_json_and_go_back() {
    let file = file(
        r#"CREATE TABLE "od""d t" ("the k" TEXT PRIMARY KEY, i INT, r REAL, b BLOB, "say ""hi""" TEXT, j TEXT DEFAULT 'none');
           INSERT INTO "od""d t" VALUES ('k', 9007199254740993, 9e999, x'00ff', 'a"b' || char(10) || '🦀', NULL),
                                        ('l', NULL, 0.1, NULL, '\x41', '');"#,
    );
    let source = file.open("od\"d t", "the k").unwrap();
    let stored = r#"{"the k":"k","i":9007199254740993,"r":"Infinity","b":"\\x00ff","say \"hi\"":"a\"b\n🦀","j":null}"#;
    assert_eq!(row(&source, "k").await.unwrap(), stored);
    let keys = ["l", "absent", "k", "l"].map(Key::from);
    let rows = source.get_many(&keys).await.unwrap();
    let other = r#"{"the k":"l","i":null,"r":0.1,"b":null,"say \"hi\"":"\\x41","j":""}"#;
    assert_eq!(
        rows.into_iter().map(|row| row.map(text)).collect::<Vec<_>>(),
        [Some(other.into()), None, Some(stored.into()), Some(other.into())]
    );
    assert!(source.get_many(&[]).await.unwrap().is_empty());

    // What was read can be written, and nothing changes, not even a storage class.
    for (key, stored) in [("k", stored), ("l", other)] {
        source.put_many(&[(key.into(), stored.into())]).await.unwrap();
        assert_eq!(row(&source, key).await.unwrap(), stored);
    }
    let classes: String = file
        .other
        .query_row("SELECT typeof(i) || typeof(r) || typeof(b) FROM \"od\"\"d t\" WHERE \"the k\" = 'k'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(classes, "integerrealblob");

    // A new row gets defaults, an old one keeps what is not given; truth values and nested JSON are stored as SQLite does.
    put(&source, "m", r#"{"i": true, "say \"hi\"": {"a": [1, 2]}}"#).await.unwrap();
    assert_eq!(
        row(&source, "m").await.unwrap(),
        r#"{"the k":"m","i":1,"r":null,"b":null,"say \"hi\"":"{\"a\": [1, 2]}","j":"none"}"#
    );
    put(&source, "m", r#"{"R": -1.5e1, "the k": "m"}"#).await.unwrap();
    assert!(row(&source, "m").await.unwrap().starts_with(r#"{"the k":"m","i":1,"r":-15.0,"#));
    put(&source, "n", "{}").await.unwrap();
    put(&source, "n", "{}").await.unwrap();
    assert!(source.delete(&"n".into()).await.unwrap());
    assert!(!source.delete(&"n".into()).await.unwrap());
    assert_eq!((row(&source, "n").await, source.count().await.unwrap()), (None, 3));

    // A column that came later.
    file.other.execute_batch("ALTER TABLE \"od\"\"d t\" ADD COLUMN late").unwrap();
    put(&source, "m", r#"{"late": "x"}"#).await.unwrap();
    assert!(row(&source, "m").await.unwrap().ends_with(r#","late":"x"}"#));
}

#[tokio::test]
async fn a_batch_is_written_whole_or_not_at_all() {
    let file = file(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, price REAL CHECK (price > 0), double AS (price * 2));
         INSERT INTO t VALUES (1, 1.0);
         CREATE TRIGGER swallow BEFORE INSERT ON t WHEN NEW.id = 5000 BEGIN SELECT RAISE(IGNORE); END;",
    );
    let source = file.open("T", "ID").unwrap();
    for (second, kind, said) in [
        (r#"{"price": 0}"#, ErrorKind::Invalid, &["CHECK constraint"][..]),
        (r#"{"prise": 1}"#, ErrorKind::Invalid, &["\"prise\"", "there are price, "]),
        (r#"{"double": 1}"#, ErrorKind::Invalid, &["double", "leave it out"]),
        (r#"{"id": 4}"#, ErrorKind::Invalid, &["the row's id is 4, but its key is \"3\""]),
        (r#"{"price": 1, "PRICE": 2}"#, ErrorKind::Invalid, &["price", "twice"]),
        (r#"{"price": 99999999999999999999}"#, ErrorKind::Invalid, &["price: 99999999999999999999 does not fit"]),
        (r#"{"price": 1e999}"#, ErrorKind::Invalid, &["1e999 is beyond"]),
        (r#"{"price": "\ud800"}"#, ErrorKind::Invalid, &["price"]),
        ("[]", ErrorKind::Invalid, &["no JSON object"]),
    ] {
        let rows = [
            (Key::from(1), r#"{"price": 5}"#.into()),
            (Key::from(2), r#"{"price": 5}"#.into()),
            (Key::from(3), second.into()),
        ];
        refused(source.put_many(&rows).await, kind, said);
        assert_eq!(row(&source, 1).await.unwrap(), r#"{"id":1,"price":1.0,"double":2.0}"#);
        assert_eq!(source.count().await.unwrap(), 1);
    }
    refused(put(&source, 5000, "{}").await, ErrorKind::Invalid, &["key \"5000\"", "trigger"]);
    refused(put(&source, "3", "{}").await, ErrorKind::BadKey, &["KeyType::parse"]);

    // One key twice: the last one stays.
    let rows: Vec<_> =
        (0..2000).map(|i| (Key::from(i % 1000), Bytes::from(format!("{{\"price\": {}}}", i + 1)))).collect();
    source.put_many(&rows).await.unwrap();
    assert_eq!(row(&source, 7).await.unwrap(), r#"{"id":7,"price":1008.0,"double":2016.0}"#);
    assert_eq!(source.count().await.unwrap(), 1000);
}

#[tokio::test]
async fn columns_that_filters_cannot_follow_are_refused() {
    use ErrorKind::{Invalid, Source, Unsupported};
    let file = file(
        "CREATE TABLE t (i INTEGER, nocase TEXT COLLATE NOCASE UNIQUE, rtrim TEXT UNIQUE COLLATE RTRIM, r REAL UNIQUE,
                         n NUMERIC UNIQUE, d DECIMAL(9,2) UNIQUE, free TEXT, part TEXT, pair TEXT, other TEXT, folded TEXT,
                         expression TEXT, UNIQUE (pair, other));
         CREATE UNIQUE INDEX part ON t (part) WHERE i > 0;
         CREATE UNIQUE INDEX folded ON t (folded COLLATE NOCASE);
         CREATE UNIQUE INDEX expression ON t (lower(expression));
         CREATE INDEX free ON t (free);
         CREATE VIEW v AS SELECT * FROM t;
         CREATE TABLE two (a INTEGER, b INTEGER, PRIMARY KEY (a, b));
         CREATE TABLE s (k ANY PRIMARY KEY) STRICT;
         CREATE TABLE rowless (k INTEGER PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE descending (k INTEGER PRIMARY KEY DESC);
         CREATE TABLE both (k TEXT UNIQUE); CREATE UNIQUE INDEX both_folded ON both (k COLLATE NOCASE);",
    );
    file.refused("t", "nocase", Unsupported, &["t.nocase", "COLLATE NOCASE", "lower("]);
    file.refused("t", "rtrim", Unsupported, &["COLLATE RTRIM"]);
    file.refused("t", "folded", Unsupported, &["unique index", "COLLATE NOCASE"]);
    for (column, declared) in [("r", "REAL"), ("n", "NUMERIC"), ("d", "DECIMAL(9,2)")] {
        file.refused("t", column, Unsupported, &[declared, "INTEGER, TEXT or BLOB"]);
    }
    for column in ["i", "free", "part", "pair", "expression"] {
        file.refused("t", column, Unsupported, &[&format!("CREATE UNIQUE INDEX … ON \"t\" (\"{column}\")")]);
    }
    file.refused("two", "a", Unsupported, &["CREATE UNIQUE INDEX"]);
    file.refused("v", "i", Unsupported, &["view"]);
    file.refused("s", "k", Unsupported, &["ANY"]);
    for table in ["rowless", "descending", "both"] {
        assert!(file.open(table, "k").is_ok(), "{table}");
    }
    file.refused("tt", "i", Invalid, &["no table \"tt\"", "both, descending, rowless, s, t, two"]);
    file.refused("t", "fold", Invalid, &["no column is named \"fold\": there are folded"]);
    file.refused("t", "a\0b", Invalid, &["no column"]);
    refused(Sqlite::open(":memory:", "t", "k"), Source, &[":memory: is no file"]);
    refused(Sqlite::open(file.path.with_extension("none"), "t", "k"), Source, &["a.none is no file"]);
    let garbage = file.path.with_extension("txt");
    std::fs::write(&garbage, "this is no database, and long enough to be seen as such".repeat(20)).unwrap();
    refused(Sqlite::open(&garbage, "t", "k"), Source, &["not a database"]);
}

#[tokio::test]
async fn a_scan_is_of_one_moment_and_meets_no_stranger_silently() {
    let file = file(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT UNIQUE, n INT UNIQUE, b BLOB UNIQUE);
         WITH RECURSIVE i(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM i WHERE i < 30000)
         INSERT INTO t SELECT i, 'key ' || i, CASE WHEN i % 3 > 0 THEN -i END, CAST(i AS BLOB) FROM i;",
    );
    let source = file.open("t", "k").unwrap();
    let mut scan = source.scan().await.unwrap();
    // Written and deleted by others and by ourselves, after the scan began.
    file.other.execute_batch("DELETE FROM t WHERE id > 20000; INSERT INTO t (k) VALUES ('later')").unwrap();
    put(&source, "key 30001", "{}").await.unwrap();
    let (mut batch, mut keys) = (KeyBatch::default(), BTreeSet::new());
    while scan.next(&mut batch).await.unwrap() {
        assert!(!batch.is_empty() && batch.len() <= 8192);
        keys.extend(batch.iter().map(<[u8]>::to_vec));
    }
    assert_eq!(keys, (1..=30000).map(|i| format!("key {i}").into_bytes()).collect());
    assert_eq!(scanned(&source).await.unwrap().len(), 20002);

    // One that is given up leaves nothing behind that holds up a checkpoint for ever.
    let mut scan = source.scan().await.unwrap();
    assert!(scan.next(&mut batch).await.unwrap());
    drop(scan);

    // Nulls are no keys.
    let numbers = file.open("t", "n").unwrap();
    assert_eq!(scanned(&numbers).await.unwrap().len(), 13334);
    assert_eq!(numbers.count().await.unwrap(), 13334);
    // SQLite stores what does not fit the declared type, too.
    for (column, value, said) in [
        ("n", "'x'", ["text", "means integer"]),
        ("n", "1.5", ["real", "means integer"]),
        ("k", "x'41'", ["blob", "means text"]),
        ("b", "'A'", ["text", "means blob"]),
    ] {
        file.other.execute_batch(&format!("BEGIN; UPDATE t SET {column} = {value} WHERE id = 77; COMMIT")).unwrap();
        let strange = file.open("t", column).unwrap();
        refused(scanned(&strange).await, ErrorKind::Unsupported, &said);
        refused(scanned(&strange).await, ErrorKind::Unsupported, &["typeof", "NOT IN"]);
        file.other.execute_batch("UPDATE t SET n = NULL, k = NULL, b = NULL WHERE id = 77").unwrap();
        scanned(&strange).await.unwrap();
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_write_that_waits_holds_up_no_read_and_is_done_though_nobody_waits() {
    let file = file("CREATE TABLE t (k TEXT PRIMARY KEY, v); INSERT INTO t VALUES ('a', 1);");
    let source = std::sync::Arc::new(file.open("t", "k").unwrap());
    assert_eq!(source.describe(), format!("sqlite table t of {}", file.path.display()));
    file.other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let writing = tokio::spawn({
        let source = source.clone();
        async move { put(&*source, "b", r#"{"v": 2}"#).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(row(&*source, "a").await.unwrap(), r#"{"k":"a","v":1}"#);
    assert!(!writing.is_finished());
    writing.abort();
    assert!(writing.await.unwrap_err().is_cancelled());
    file.other.execute_batch("COMMIT").unwrap();
    // It stands before this one in the queue.
    put(&*source, "c", "{}").await.unwrap();
    assert_eq!(row(&*source, "b").await.unwrap(), r#"{"k":"b","v":2}"#);
}

#[tokio::test]
async fn a_row_that_is_refused_adds_nothing_to_the_filter() {
    let file = file("CREATE TABLE t (k TEXT PRIMARY KEY, v INTEGER, g AS (v * 2)); INSERT INTO t VALUES ('a', 1)");
    let source = std::sync::Arc::new(file.open("t", "k").unwrap());
    let gate = Gate::builder(source).writers(Writers::Sole).build().unwrap();
    gate.rebuild().await.unwrap();
    let items = || gate.stats().filter.unwrap().items;
    let before = items();
    for (at, wrong) in ["no json", "[1]", r#"{"colour": 1}"#, r#"{"k": "other"}"#, r#"{"g": 1}"#, r#"{"v": 1e999}"#]
        .into_iter()
        .enumerate()
    {
        let refused = gate.put(Key::from(format!("new-{at}").as_str()), Bytes::from_static(wrong.as_bytes())).await;
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
    }
    assert_eq!((items(), gate.stats().at_source.errors), (before, 0), "nor is it an error of the source");
    // A column that came later is known at once.
    file.other.execute_batch("ALTER TABLE t ADD late INTEGER").unwrap();
    gate.put(Key::from("new"), Bytes::from_static(br#"{"late": 1}"#)).await.unwrap();
    assert_eq!(items(), before + 1);
    // A table that is gone is no mistake of the client.
    file.other.execute_batch("DROP TABLE t").unwrap();
    for row in [r#"{"colour": 1}"#, r#"{"v": 1}"#] {
        let gone = gate.put(Key::from("gone"), Bytes::from_static(row.as_bytes())).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::Source, "{gone}");
    }
    assert_eq!(gate.stats().at_source.errors, 2);
}
