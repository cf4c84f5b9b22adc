//! Keys from a table that others write to as well: a feed tells them, so a write whose key nobody could read costs nothing.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path as Segment, State as Shared};
use axum::http::StatusCode;
use axum::routing::get;
use bloomgate_gate::feed::FeedPlan;
use bloomgate_gate::sources::Sqlite;
use bloomgate_gate::{Gate, State, Writers};
use rusqlite::Connection;

use crate::stage::{Stage, options, until};

fn open(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    database
}

/// A service that keeps its products in a table and tells no key that it makes: the body says how it answers.
async fn shop(path: &Path) -> SocketAddr {
    let show = |Shared(path): Shared<PathBuf>, Segment(id): Segment<String>| async move {
        let has = "SELECT EXISTS (SELECT 1 FROM products WHERE sku = ?1)";
        match open(&path).query_row(has, [id], |row| row.get::<_, bool>(0)).unwrap() {
            true => StatusCode::OK,
            false => StatusCode::NOT_FOUND,
        }
    };
    let make = |Shared(path): Shared<PathBuf>, body: String| async move {
        let (sku, status) = body.split_once(' ').unwrap();
        open(&path).execute("INSERT INTO products VALUES (?1)", [sku]).unwrap();
        StatusCode::from_u16(status.parse().unwrap()).unwrap()
    };
    let router = Router::new()
        .route("/products/{id}", get(show))
        .route("/products", axum::routing::post(make))
        .with_state(path.to_path_buf());
    crate::catalog::serve(router).await
}

#[tokio::test]
async fn a_key_that_the_answer_does_not_tell_is_told_by_the_feed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let table = "PRAGMA journal_mode = WAL; CREATE TABLE products (sku TEXT PRIMARY KEY) WITHOUT ROWID";
    open(&path).execute_batch(&format!("{table}; INSERT INTO products VALUES ('kettle')")).unwrap();
    Sqlite::install_feed(&path, "products", "sku", &FeedPlan::default(), false).unwrap();
    let source = Arc::new(Sqlite::open(&path, "products", "sku").unwrap());
    let gate = Gate::builder(source).writers(Writers::Feed).audit_share(1.0).build().unwrap();
    gate.start();
    until("it says no", || gate.brief_stats().blocking).await;
    let stage = Stage::set(options(shop(&path).await), gate).await;
    let version = || match stage.gate.state() {
        State::Ready { version, .. } => version,
        other => panic!("{other:?}"),
    };
    let before = version();
    assert_eq!(stage.get("/products/kettle").await.status, 200);
    assert!(stage.get("/products/lamp").await.by_filter());
    for (sku, status) in [("made", 201), ("redirected", 302), ("accepted", 202), ("failed", 500)] {
        assert_eq!(stage.ask("POST", "/products", "", &format!("{sku} {status}")).await.status, status);
        let key = stage.gate.parse_key(sku).unwrap();
        until("the feed tells it", || stage.gate.look(&key).is_none()).await;
        assert_eq!(stage.get(&format!("/products/{sku}")).await.status, 200, "{sku}");
        assert!(stage.get(&format!("/products/not-{sku}")).await.by_filter(), "it still says no");
    }
    assert_eq!(version(), before, "nothing was rebuilt");
    // And what somebody writes past the proxy.
    open(&path).execute("INSERT INTO products VALUES ('past')", []).unwrap();
    let key = stage.gate.parse_key("past").unwrap();
    until("the feed tells it", || stage.gate.look(&key).is_none()).await;
    assert_eq!(stage.get("/products/past").await.status, 200);
    assert_eq!(stage.gate.stats().audit.wrong, 0);
}
