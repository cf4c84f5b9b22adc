//! The keys that a query gives: listed by it, asked for by it, and a filter over them.

use std::sync::Arc;

use bloomgate_gate::sources::{PostgresQuery, Source};
use bloomgate_gate::{ErrorKind, Gate, Key, KeyType, Outcome, Writers};

use crate::postgres_server::Server;
use crate::tables::scanned;

#[tokio::test]
async fn keys_are_listed_and_asked_for_by_the_query() {
    let server = Server::shared();
    let (database, other) = server
        .database(
            "CREATE DOMAIN code AS text; CREATE TABLE products (id bigint PRIMARY KEY, sku code, price numeric, sold bool);
             INSERT INTO products VALUES (1, 'a', 1.50, false), (2, 'b', 2, true), (3, 'c', 3, false), (4, NULL, 4, false)",
        )
        .await;
    let url = server.url(&database);
    let source = PostgresQuery::connect(&url, "SELECT sku FROM products WHERE NOT sold;", 2).await.unwrap();
    assert_eq!((source.key_type(), source.count().await.unwrap()), (KeyType::Text, 2));
    assert!(source.describe().contains("SELECT sku FROM products"));
    let mut keys = scanned(&source).await.unwrap();
    keys.sort();
    assert_eq!(keys, [b"a", b"c"]);
    let found = source.get_many(&["c", "b", "nul\0", "a"].map(Key::from)).await.unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false, true]);
    assert!(source.get(&"a".into()).await.unwrap().is_some() && source.get(&"b".into()).await.unwrap().is_none());
    assert_eq!(source.delete(&"a".into()).await.unwrap_err().kind(), ErrorKind::Unsupported);
    // A table of the name that statements here have for it.
    other.batch_execute("CREATE TABLE q (key text); INSERT INTO q VALUES ('of q')").await.unwrap();
    let named = PostgresQuery::connect(&url, "SELECT key FROM q", 2).await.unwrap();
    assert!(named.get(&"of q".into()).await.unwrap().is_some() && named.get(&"a".into()).await.unwrap().is_none());
    assert_eq!((scanned(&named).await.unwrap(), named.count().await.unwrap()), (vec![b"of q".to_vec()], 1));
    // Numbers as the database compares them.
    let prices = PostgresQuery::connect(&url, "SELECT price FROM products UNION SELECT 99.90", 2).await.unwrap();
    let price = |text: &str| KeyType::Decimal.parse(text).unwrap();
    assert!(prices.get(&price("1.5")).await.unwrap().is_some() && prices.get(&price("99.9")).await.unwrap().is_some());
    assert!(prices.get(&price("5")).await.unwrap().is_none());
    // A filter over them; what is written past it is in the next one.
    let gate = Gate::builder(Arc::new(source)).writers(Writers::Sole).build().unwrap();
    gate.rebuild().await.unwrap();
    assert_eq!(gate.get(&"b".into()).await.unwrap().outcome, Outcome::AbsentByFilter);
    other.batch_execute("INSERT INTO products VALUES (5, 'd', 5, false)").await.unwrap();
    gate.rebuild().await.unwrap();
    assert_eq!(gate.get(&"d".into()).await.unwrap().outcome, Outcome::Source);
    // A column that is another one by now is not read as what it was.
    other.batch_execute("ALTER TABLE products DROP COLUMN sku; ALTER TABLE products ADD sku int").await.unwrap();
    let error = gate.rebuild().await.unwrap_err();
    assert!(error.to_string().contains("another type") || error.to_string().contains("integer"), "{error}");
    for (query, says) in [
        ("SELECT id, price FROM products", "column"),
        ("SELECT sold FROM products", "bool"),
        ("SELECT", "column"),
        ("DELETE FROM products", "SELECT sku FROM products"),
        ("DELETE FROM products RETURNING id", "syntax"),
        ("SELECT nothing FROM products", "nothing"),
        ("SELECT 1); DROP TABLE products; --", "syntax"),
    ] {
        let error = PostgresQuery::connect(&url, query, 2).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains(says), "{query}: {error}");
    }
}
