//! A proxy whose keys are a table that others write to as well: a feed tells them, so what they insert passes a moment later, and
//! a write whose key nobody could read costs nothing.

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

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, options, until};

fn open(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.busy_timeout(Duration::from_secs(5)).unwrap();
    database
}

/// Waits until everything is told that was committed before this call.
async fn told(gate: &Gate) {
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let moment = now();
    until("everything is told", || {
        let stats = gate.stats();
        stats.blocking && stats.feed.unwrap().watermark_ms.is_some_and(|watermark| watermark > moment)
    })
    .await;
}

/// A table of one product in a folder, and a gate that follows its feed and says no.
async fn followed(folder: &tempfile::TempDir) -> (PathBuf, Gate) {
    let path = folder.path().join("shop.db");
    let table = "PRAGMA journal_mode = WAL; CREATE TABLE products (sku TEXT PRIMARY KEY) WITHOUT ROWID";
    open(&path).execute_batch(&format!("{table}; INSERT INTO products VALUES ('kettle')")).unwrap();
    Sqlite::install_feed(&path, "products", "sku", &FeedPlan::default(), false).unwrap();
    let source = Arc::new(Sqlite::open(&path, "products", "sku").unwrap());
    let gate = Gate::builder(source).writers(Writers::Feed).audit_share(1.0).build().unwrap();
    gate.start();
    told(&gate).await;
    (path, gate)
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
    let (path, gate) = followed(&folder).await;
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

#[tokio::test]
async fn keys_come_from_a_table_that_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let (path, gate) = followed(&folder).await;
    let others = open(&path);
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let stage = Stage::set(options(catalog.start().await), gate.clone()).await;
    assert_eq!(stage.get("/products/kettle").await.status, 200);
    assert!(stage.get("/products/lamp").await.by_filter() && catalog.asked() == 1);

    // Past the proxy: known when it is told, and always as of the watermark.
    catalog.keys.add("lamp");
    others.execute_batch("INSERT INTO products VALUES ('lamp')").unwrap();
    told(&gate).await;
    assert_eq!(stage.get("/products/lamp").await.status, 200);

    // Through the proxy: known at once, before the service has written its row.
    assert!(stage.get("/products/vase").await.by_filter());
    assert_eq!(stage.ask("PUT", "/products/vase", "", "{}").await.status, 201);
    assert_eq!(stage.get("/products/vase").await.status, 200);
    others.execute_batch("INSERT INTO products VALUES ('vase')").unwrap();

    // Deleted by others: stopped after the next scan.
    others.execute_batch("DELETE FROM products WHERE sku = 'kettle'").unwrap();
    told(&gate).await;
    gate.rebuild().await.unwrap();
    assert!(stage.get("/products/kettle").await.by_filter());
    for key in ["lamp", "vase"] {
        assert_eq!(stage.get(&format!("/products/{key}")).await.status, 200, "{key}");
    }

    // A feed that is not whole stops nothing until it is mended.
    others.execute_batch("DROP TRIGGER bloomgate_feed_products_insert; INSERT INTO products VALUES ('urn')").unwrap();
    catalog.keys.add("urn");
    until("the filter is not trusted", || !matches!(gate.state(), State::Ready { .. })).await;
    assert_eq!(stage.get("/products/urn").await.status, 200);
    assert!(!stage.get("/products/nobody").await.by_filter());
    Sqlite::install_feed(&path, "products", "sku", &FeedPlan::default(), false).unwrap();
    told(&gate).await;
    assert_eq!(stage.get("/products/urn").await.status, 200);
    assert!(stage.get("/products/nobody").await.by_filter());
    assert_eq!(gate.stats().audit.wrong, 0);
}
