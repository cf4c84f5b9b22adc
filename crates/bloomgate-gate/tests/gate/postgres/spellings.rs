//! Two spellings are one key exactly where PostgreSQL says so: tables of spellings for each type, and random ones.

use std::collections::HashMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::*;

/// A type, values of it that are stored, spellings that are asked for, and those that PostgreSQL reads but the gate
/// refuses: no answer is not a wrong one.
struct Case {
    declared: &'static str,
    cast: &'static str,
    stored: &'static [&'static str],
    asked: &'static [&'static str],
    declined: &'static [&'static str],
}

const INTEGERS: &[&str] = &[
    "42",
    "042",
    " 42",
    "42 ",
    "\t42\n",
    "\u{b}42\u{c}\r",
    "+42",
    "-42",
    "--42",
    "+-42",
    "- 42",
    "4 2",
    "",
    " ",
    "+",
    "-",
    "0",
    "-0",
    "+0",
    "00",
    "-1",
    "32767",
    "32768",
    "-32768",
    "-32769",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "000000000000000000000000000000000042",
    "42.0",
    "4e1",
    "0x2A",
    "1_000",
    "42abc",
    "٤٢",
    "NaN",
    "\u{a0}42",
    "42\0",
];
const TEXTS: &[&str] = &[
    "",
    " ",
    "  ",
    "a",
    "A",
    "a ",
    " a",
    "a  ",
    "ä",
    "a\u{308}",
    "Ä",
    "ß",
    "SS",
    "ss",
    "42",
    "042",
    "1.5",
    "\u{1F600}",
    "%",
    "_",
    "a%",
    "a'b",
    "a\"b",
    "a\\b",
    "\\x41",
    "a\tb",
    "a\t",
    "a\n",
    "a\u{a0}",
    "a\u{200b}",
    "I",
    "i",
    "ı",
    "İ",
    "ﬁ",
    "fi",
    "a\0",
    "null",
    "NULL",
];

const CASES: &[Case] = &[
    Case {
        declared: "smallint",
        cast: "smallint",
        stored: &["42", "-42", "0", "32767", "-32768"],
        asked: INTEGERS,
        declined: &[],
    },
    Case {
        declared: "integer",
        cast: "integer",
        stored: &["42", "0", "2147483647", "-2147483648"],
        asked: INTEGERS,
        declined: &[],
    },
    Case {
        declared: "bigint",
        cast: "bigint",
        stored: &["42", "-1", "0", "9223372036854775807", "-9223372036854775808", "2147483648"],
        asked: INTEGERS,
        declined: &[],
    },
    Case { declared: "text", cast: "text", stored: TEXTS, asked: TEXTS, declined: &[] },
    Case { declared: "text COLLATE exact", cast: "text", stored: TEXTS, asked: TEXTS, declined: &[] },
    Case { declared: "varchar(4)", cast: "varchar", stored: TEXTS, asked: TEXTS, declined: &[] },
    Case { declared: "char(6)", cast: "bpchar", stored: TEXTS, asked: TEXTS, declined: &[] },
    Case { declared: "bpchar", cast: "bpchar", stored: TEXTS, asked: TEXTS, declined: &[] },
    Case { declared: "word", cast: "text", stored: &["a", "A", "ä"], asked: TEXTS, declined: &[] },
    Case {
        declared: "numeric",
        cast: "numeric",
        stored: &[
            "1.5",
            "-1.5",
            "0",
            "1500",
            "0.001",
            "1e100",
            "1e-100",
            "123456789012345678901234567890",
            "NaN",
            "Infinity",
            "10000",
            "0.0001",
        ],
        asked: &[
            "1.5",
            "1.50",
            "01.5",
            "+1.5",
            " 1.5 ",
            "15e-1",
            ".15e1",
            "1.5e0",
            "-1.5",
            "- 1.5",
            "1.5.0",
            "1,5",
            "0",
            "-0",
            "0.00",
            "0e10",
            ".0",
            "0.",
            ".",
            "",
            "e1",
            "1e",
            "1500",
            "1.5e3",
            "15E+2",
            "1500.",
            "1e-3",
            ".001",
            "0.0010",
            "1e100",
            "10e99",
            "1e-100",
            "0.1e-99",
            "123456789012345678901234567890",
            "123456789012345678901234567890.0",
            "12345678901234567890123456789",
            "1e4",
            "1e-4",
            "10000.0",
            "NaN",
            "nan",
            "Infinity",
            "-Infinity",
            "inf",
            "0x10",
            "1_5",
            "1e400000",
            "1e-400000",
            "0e-4000",
            "٣",
            "1.5f",
            "+-1",
            "1e+-1",
        ],
        declined: &["NaN", "nan", "Infinity", "inf"],
    },
    Case {
        declared: "numeric(6,2)",
        cast: "numeric",
        stored: &["1.5", "1", "0", "-9999.99", "0.01"],
        asked: &[
            "1.5",
            "1.50",
            "1.500",
            "1.504",
            "1.496",
            "1",
            "1.00",
            "0.009",
            "0.01",
            "1e-2",
            "-9999.99",
            "-9999.990",
            "99999",
            "0",
        ],
        declined: &[],
    },
    Case {
        declared: "uuid",
        cast: "uuid",
        stored: &["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000000"],
        asked: &[
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "urn:uuid:a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12",
            "00000000000000000000000000000000",
            "",
            "{",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ],
        declined: &["{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11"],
    },
    Case {
        declared: "bytea",
        cast: "bytea",
        stored: &["\\x", "\\x00", "\\xff", "\\x41"],
        asked: &[
            "\\x", "\\x00", "\\xff", "\\xFF", "\\xFf", "\\X41", "\\x4", "\\x41", "A", "", "\\x 41", "\\x4 1", "\\x4g",
            "\\101", "41", "\\x4141",
        ],
        declined: &["A", "", "\\x 41", "\\101"],
    },
];

#[tokio::test]
async fn spellings_are_one_key_where_postgresql_says_so() {
    let server = Server::shared();
    let (database, other) = server
        .database("CREATE COLLATION exact (provider = icu, locale = 'de'); CREATE DOMAIN word AS text CHECK (length(value) < 9)")
        .await;
    for (at, case) in CASES.iter().enumerate() {
        let Case { declared, cast, .. } = case;
        other.batch_execute(&format!("CREATE TABLE t{at} (k {declared} PRIMARY KEY, v int)")).await.unwrap();
        for (value, spelling) in case.stored.iter().enumerate() {
            // By somebody else; what PostgreSQL does not take, or has already, is not there.
            let insert = format!("INSERT INTO t{at} SELECT $1::text::{cast}, {value} ON CONFLICT DO NOTHING");
            _ = other.execute(&insert, &[spelling]).await;
        }
        let source = open(&server, &database, &format!("t{at}"), "k").await;
        let key_type = source.key_type();
        let scanned: BTreeSet<_> = scanned(&source).await.unwrap().into_iter().collect();
        assert!(scanned.len() >= 2, "{declared}");
        let mut found = 0;
        for spelling in case.asked {
            let sql = format!("SELECT v FROM t{at} WHERE k = $1::text::{cast}");
            // An error is a text that PostgreSQL does not take for one of the type: no row has it.
            let told = other.query(&sql, &[spelling]).await.unwrap_or_default();
            assert!(told.len() < 2);
            let told: Option<i32> = told.first().map(|row| row.get(0));
            let Ok(key) = key_type.parse(spelling) else {
                assert!(told.is_none() || case.declined.contains(spelling), "{declared}: {spelling:?} is {told:?}");
                continue;
            };
            assert!(!case.declined.contains(spelling), "{declared}: {spelling:?} is taken after all");
            let row = row(&source, key.clone()).await;
            let row =
                row.map(|row| serde_json::from_str::<serde_json::Value>(&row).unwrap()["v"].as_i64().unwrap() as i32);
            assert_eq!(row, told, "{declared}: {spelling:?}");
            assert_eq!(scanned.contains(key.canonical()), told.is_some(), "{declared}: {spelling:?}");
            assert_eq!(source.get_many(&[key]).await.unwrap()[0].is_some(), told.is_some());
            found += usize::from(told.is_some());
        }
        assert!(found >= 2, "{declared}");
    }
}

/// Spellings of a strategy, the same ones each time.
fn some(strategy: &str, count: usize) -> Vec<String> {
    let mut runner = TestRunner::new(Config { rng_seed: RngSeed::Fixed(6), ..Config::default() });
    let strategy = proptest::string::string_regex(strategy).unwrap();
    (0..count).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

#[tokio::test]
async fn random_spellings_are_divided_as_postgresql_divides_them() {
    let server = Server::shared();
    let (_, other) = server.database("").await;
    let integers = some(
        "[ \t]{0,2}[+-]{0,2}0{0,2}[0-9]{0,2}(3276[6-9]|21474836(47|48|49)|92233720368547758(07|08|09))?[ ._a]?",
        4000,
    );
    let decimals = some(" {0,1}[+-]?0{0,2}[0-2]{0,2}[.]?[01]{0,3}0{0,2}([eE][+-]?0?[0-4]?)? ?x?", 4000);
    let words = some("[ ab\tAä]{0,4} {0,3}", 4000);
    for (cast, key_type, spellings) in [
        ("smallint", KeyType::Integer { bits: 16 }, &integers),
        ("integer", KeyType::Integer { bits: 32 }, &integers),
        ("bigint", KeyType::Integer { bits: 64 }, &integers),
        ("numeric", KeyType::Decimal, &decimals),
        ("bpchar", KeyType::PaddedText, &words),
        ("text", KeyType::Text, &words),
    ] {
        // The number of the class of equals, or null for what PostgreSQL does not take.
        other
            .batch_execute(&format!(
                "CREATE OR REPLACE FUNCTION pg_temp.read_{cast}(spelling text) RETURNS {cast} LANGUAGE plpgsql AS $$ BEGIN
                     RETURN spelling::{cast}; EXCEPTION WHEN data_exception THEN RETURN NULL; END $$"
            ))
            .await
            .unwrap();
        let sql = format!(
            "WITH given AS (SELECT place, pg_temp.read_{cast}(spelling) AS value
                            FROM unnest($1::text[]) WITH ORDINALITY AS asked(spelling, place)),
                  classes AS (SELECT value, row_number() OVER () AS class FROM given WHERE value IS NOT NULL GROUP BY value)
             SELECT class FROM given LEFT JOIN classes USING (value) ORDER BY place"
        );
        let told = other.query(&sql, &[spellings]).await.unwrap();
        let (mut keys, mut classes) = (HashMap::new(), HashMap::new());
        for (spelling, class) in spellings.iter().zip(&told) {
            let class: Option<i64> = class.get(0);
            let key = key_type.parse(spelling).ok();
            assert_eq!(key.is_some(), class.is_some(), "{cast}: {spelling:?}");
            let (Some(key), Some(class)) = (key, class) else { continue };
            assert_eq!(*keys.entry(class).or_insert_with(|| key.clone()), key, "{cast}: {spelling:?} is split off");
            assert_eq!(*classes.entry(key).or_insert(class), class, "{cast}: {spelling:?} is mixed up");
        }
        // Many equal ones, many different ones.
        assert!(keys.len() > 100 && keys.len() < 3500, "{cast}: {}", keys.len());
    }
}
