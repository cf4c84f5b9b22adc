//! Writes, lookups and rebuilds at once: whatever a client was told is there must be found by a lookup that begins after it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, options, ready_gate};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_that_was_answered_is_ever_stopped() {
    let catalog = Catalog::of(Keys::of((0..500).map(|number| format!("old{number}"))));
    let mut options = options(catalog.start().await);
    options.new_key = "location".parse().unwrap();
    let stage = Arc::new(Stage::set(options, ready_gate(&catalog.keys).await).await);
    // Every "no" is checked at the source as well, those to keys that are just being made too.
    stage.gate.start();
    let (stop, found, absent) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = Vec::new();
    for worker in 0..6u64 {
        let (stage, stop, found, absent) = (stage.clone(), stop.clone(), found.clone(), absent.clone());
        let next = catalog.next.clone();
        tasks.push(tokio::spawn(async move {
            let mut random = 77 + worker;
            let mut step = 0u64;
            while !stop.load(SeqCst) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                step += 1;
                let path = match (random >> 60) % 3 {
                    0 => {
                        let path = format!("/products/w{worker}-{step}");
                        assert_eq!(stage.ask("PUT", &path, "", "{}").await.status, 201);
                        path
                    }
                    1 => {
                        let got = stage.ask("POST", "/products", "", "location").await;
                        got.header("location").unwrap().strip_prefix("http://shop.example").unwrap().to_owned()
                    }
                    _ => {
                        let got = stage.get(&format!("/products/never-{worker}-{step}")).await;
                        assert_eq!(got.status, 404);
                        absent.fetch_add(u64::from(got.by_filter()), SeqCst);
                        // Somebody who counts through ids: it may be there, or not yet.
                        stage.get(&format!("/products/{}", next.load(SeqCst))).await;
                        format!("/products/old{}", random >> 40 & 255)
                    }
                };
                let got = stage.get(&path).await;
                assert_eq!(got.status, 200, "{path}: {got:?}");
                found.fetch_add(1, SeqCst);
            }
        }));
    }
    for _ in 0..40 {
        stage.gate.rebuild().await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stop.store(true, SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let stats = stage.gate.stats();
    assert!(stats.audit.checked + stats.audit.undecided > 0);
    assert_eq!((stats.audit.wrong, stats.writes.unknown, stats.writes.under_way), (0, 0, 0));
    let (found, absent) = (found.load(SeqCst), absent.load(SeqCst));
    assert!(found > 100 && absent > 20, "{found} found, {absent} stopped");
    assert!(stats.rebuild.done >= 41, "{:?}", stats.rebuild);
}
