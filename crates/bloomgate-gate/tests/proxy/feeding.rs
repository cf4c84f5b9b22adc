//! A proxy whose keys are a table that others write: what they insert passes a moment later, and what nobody wrote is stopped.

use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::feed::FeedPlan;
use bloomgate_gate::sources::Sqlite;
use bloomgate_gate::{Gate, State, Writers};
use rusqlite::Connection;

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, options, until};

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

#[tokio::test]
async fn keys_come_from_a_table_that_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let others = Connection::open(&path).unwrap();
    let table = "PRAGMA journal_mode = WAL; CREATE TABLE products (sku TEXT PRIMARY KEY); INSERT INTO products VALUES ('kettle')";
    others.busy_timeout(Duration::from_secs(5)).unwrap();
    others.execute_batch(table).unwrap();
    Sqlite::install_feed(&path, "products", "sku", &FeedPlan::default(), false).unwrap();
    let source = Arc::new(Sqlite::open(&path, "products", "sku").unwrap());
    let gate = Gate::builder(source).writers(Writers::Feed).audit_share(1.0).build().unwrap();
    gate.start();
    told(&gate).await;
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
