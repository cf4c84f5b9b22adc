//! Writes through the layer, lookups and rebuilds at once; and a layer over a gate that follows a feed, while others write.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bloomgate_gate::layer::GateLayer;

use super::{ask, shop};
use crate::stage::{Keys, ready_gate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_that_was_answered_is_ever_stopped() {
    let (keys, asked) = (Keys::of((0..500).map(|number| format!("old{number}"))), Arc::new(AtomicU64::new(0)));
    let gate = ready_gate(&keys).await;
    gate.start();
    let app = shop(&keys, &asked).layer(GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]));
    let (stop, found, absent) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for worker in 0..6u64 {
        let (app, stop, found, absent) = (app.clone(), stop.clone(), found.clone(), absent.clone());
        tasks.push(tokio::spawn(async move {
            let (mut random, mut step) = (177 + worker, 0u64);
            while !stop.load(SeqCst) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                step += 1;
                let path = match (random >> 60) % 4 {
                    0 => {
                        let path = format!("/products/w{worker}-{step}");
                        assert_eq!(ask(&app, "PUT", &path, "").await.0, 201);
                        path
                    }
                    1 => format!("/products/{}", ask(&app, "POST", "/products", "location").await.1),
                    2 => format!("/products/{}", ask(&app, "POST", "/products", "extension").await.1),
                    _ => {
                        let (status, body) = ask(&app, "GET", &format!("/products/never-{worker}-{step}"), "").await;
                        assert_eq!(status, 404);
                        absent.fetch_add(u64::from(body.contains("problem:absent")), SeqCst);
                        format!("/products/old{}", random >> 40 & 255)
                    }
                };
                let (status, body) = ask(&app, "GET", &path, "").await;
                assert_eq!(status, 200, "{path}: {body}");
                found.fetch_add(1, SeqCst);
                // Whoever writes without a breath makes rows faster than a rebuild reads them.
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }));
    }
    for _ in 0..40 {
        gate.rebuild().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.store(true, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let stats = gate.stats();
    assert_eq!((stats.audit.wrong, stats.writes.unknown, stats.writes.under_way), (0, 0, 0));
    let (found, absent) = (found.load(SeqCst), absent.load(SeqCst));
    assert!(found > 100 && absent > 20, "{found} found, {absent} stopped");
    assert!(stats.rebuild.done >= 41, "{:?}", stats.rebuild);
}

/// The service writes its table, and so does somebody else. What passes the layer is known at once, what others commit as of
/// the watermark; a key whose name nobody tells costs no rebuild, since the triggers tell it.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_feed_nothing_that_was_committed_before_the_watermark_is_stopped() {
    use axum::Router;
    use axum::extract::Path;
    use axum::http::StatusCode;
    use axum::routing::{get, post};
    use bloomgate_gate::feed::FeedPlan;
    use bloomgate_gate::sources::Sqlite;
    use bloomgate_gate::{Gate, State, Writers};
    use rusqlite::Connection;

    use crate::stage::until;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let open = {
        let path = path.clone();
        move || {
            let database = Connection::open(&path).unwrap();
            database.busy_timeout(Duration::from_secs(20)).unwrap();
            database
        }
    };
    let table = "PRAGMA journal_mode = WAL; CREATE TABLE products (sku TEXT PRIMARY KEY) WITHOUT ROWID";
    open().execute_batch(&format!("{table}; INSERT INTO products VALUES ('kettle')")).unwrap();
    Sqlite::install_feed(&path, "products", "sku", &FeedPlan::default(), false).unwrap();
    let source = Arc::new(Sqlite::open(&path, "products", "sku").unwrap());
    let gate = Gate::builder(source).writers(Writers::Feed).audit_share(1.0).build().unwrap();
    gate.start();
    until("it says no", || gate.brief_stats().blocking).await;
    let before = gate.state();
    let (shown, stored, made) = (open.clone(), open.clone(), open.clone());
    let show = move |Path(id): Path<String>| async move {
        let has = "SELECT EXISTS (SELECT 1 FROM products WHERE sku = ?1)";
        match shown().query_row(has, [id], |row| row.get::<_, bool>(0)).unwrap() {
            true => StatusCode::OK,
            false => StatusCode::NOT_FOUND,
        }
    };
    let store = move |Path(id): Path<String>| async move {
        stored().execute("INSERT INTO products VALUES (?1)", [id]).unwrap();
        StatusCode::CREATED
    };
    // Tells no key that it makes.
    let make = move |id: String| async move {
        made().execute("INSERT INTO products VALUES (?1)", [id]).unwrap();
        StatusCode::ACCEPTED
    };
    let layer = GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]);
    let app = Router::new().route("/products/{id}", get(show).put(store)).route("/products", post(make)).layer(layer);
    let (done, committed) = (Arc::new(AtomicBool::new(false)), Arc::new(std::sync::Mutex::new(Vec::new())));
    let others = {
        let (done, committed, others) = (done.clone(), committed.clone(), open());
        std::thread::spawn(move || {
            for number in 0..150 {
                others.execute("INSERT INTO products VALUES (?1)", [format!("past-{number}")]).unwrap();
                let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
                committed.lock().unwrap().push((format!("past-{number}"), now));
                std::thread::sleep(Duration::from_millis(2));
            }
            done.store(true, SeqCst);
        })
    };
    let (mut step, mut held) = (0, 0);
    while !done.load(SeqCst) {
        step += 1;
        let path = format!("/products/through-{step}");
        assert_eq!(ask(&app, "PUT", &path, "").await.0, 201);
        assert_eq!(ask(&app, "GET", &path, "").await.0, 200, "written through the layer");
        assert_eq!(ask(&app, "POST", "/products", &format!("silent-{step}")).await.0, 202);
        let State::Ready { watermark, .. } = gate.state() else { continue };
        let known: Vec<(String, u64)> = committed.lock().unwrap().clone();
        for (key, _) in known.iter().filter(|(_, at)| *at < watermark).rev().take(3) {
            assert_eq!(ask(&app, "GET", &format!("/products/{key}"), "").await.0, 200, "{key}, as of {watermark}");
            held += 1;
        }
    }
    others.join().unwrap();
    until("the feed tells all", || {
        let told = |key: &str| gate.look(&gate.parse_key(key).unwrap()).is_none();
        told("past-149") && told(&format!("silent-{step}"))
    })
    .await;
    for key in ["past-0", "past-149", "silent-1"] {
        assert_eq!(ask(&app, "GET", &format!("/products/{key}"), "").await.0, 200, "{key}");
    }
    assert!(ask(&app, "GET", "/products/nobody", "").await.1.contains("problem:absent"));
    assert!(step > 5 && held > 10, "{step} steps, {held} looked up as of the watermark");
    let version = |state: State| if let State::Ready { version, .. } = state { version } else { 0 };
    assert_eq!(version(gate.state()), version(before), "no write cost a rebuild");
    assert_eq!(gate.stats().audit.wrong, 0);
}
