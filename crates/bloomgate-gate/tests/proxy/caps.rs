//! Caps on single clients hold before an upstream too: who finds nothing too often, or adds too much, gets 429.

use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::callers::{Callers, Limit};
use bloomgate_gate::{Gate, Writers};

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, options};

/// Clients that may miss three times and add twice in an hour. The keys `gone-0` to `gone-9` are in the filter and not in the
/// source: lookups of them pass and find nothing.
pub async fn gate() -> (Gate, Keys) {
    let keys = Keys::of((0..10).map(|number| format!("gone-{number}")).chain(["kettle".to_owned()]));
    let hour = |count| Some(Limit::new(count, Duration::from_secs(3600)).unwrap());
    let gate = Gate::builder(Arc::new(keys.clone()))
        .writers(Writers::Sole)
        .audit_share(0.0)
        .callers(Arc::new(Callers::new(hour(3), hour(2))))
        .build()
        .unwrap();
    gate.rebuild().await.unwrap();
    (0..10).for_each(|number| assert!(keys.remove(&format!("gone-{number}"))));
    (gate, keys)
}

/// A proxy behind another one that is trusted.
async fn stage() -> Stage {
    let (gate, keys) = gate().await;
    let mut options = options(Catalog::of(keys).start().await);
    options.clients.trusted = vec!["127.0.0.1".parse().unwrap()];
    Stage::set(options, gate).await
}

async fn status(stage: &Stage, client: &str, method: &str, path: &str) -> u16 {
    stage
        .ask(method, path, &format!("x-forwarded-for: {client}\r\n"), if method == "PUT" { "{}" } else { "" })
        .await
        .status
}

#[tokio::test]
async fn a_client_that_finds_nothing_too_often_is_stopped_and_others_are_not() {
    let stage = stage().await;
    for number in 0..3 {
        // What is found costs nothing, however often.
        assert_eq!(status(&stage, "192.0.2.1", "GET", "/products/kettle").await, 200);
        assert_eq!(status(&stage, "192.0.2.1", "GET", &format!("/products/gone-{number}")).await, 404);
    }
    let capped = stage.ask("GET", "/products/gone-3", "x-forwarded-for: 192.0.2.1\r\n", "").await;
    assert_eq!(capped.status, 429, "{capped:?}");
    assert!(capped.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0), "{capped:?}");
    assert!(capped.text().contains("too-many-misses"), "{}", capped.text());
    // The filter's own "no" it is told all the same.
    let absent = stage.ask("GET", "/products/never", "x-forwarded-for: 192.0.2.1\r\n", "").await;
    assert!(absent.by_filter(), "{absent:?}");
    assert_eq!(status(&stage, "192.0.2.2", "GET", "/products/gone-3").await, 404, "another client");
    let stats = stage.gate.stats();
    assert_eq!(stats.clients.unwrap().refused_lookups, 1);
    assert_eq!(stats.measured.false_positives, 4);
}

#[tokio::test]
async fn odd_spellings_of_absent_keys_are_held_by_the_cap_as_well() {
    // None of them can be judged, and each of them passes.
    let odd = ["/Products/x1", "/products/x%2F1", "/products/x%251", "//products/x1", "/nowhere/x1", "/products/%20x1"];
    for first in 0..odd.len() {
        let stage = stage().await;
        for number in 0..3 {
            assert_eq!(status(&stage, "192.0.2.1", "GET", "/products/kettle").await, 200);
            let path = odd[(first + number) % odd.len()];
            assert_eq!(status(&stage, "192.0.2.1", "GET", path).await, 404, "{path}");
        }
        for path in odd.iter().chain(&["/products/gone-3"]) {
            assert_eq!(status(&stage, "192.0.2.1", "GET", path).await, 429, "{path}");
            assert_eq!(status(&stage, "192.0.2.1", "HEAD", path).await, 429, "{path}");
        }
        assert_eq!(status(&stage, "192.0.2.2", "GET", odd[first]).await, 404, "another client");
    }
}

#[tokio::test]
async fn another_method_is_no_way_past_the_cap() {
    let overridden = "x-http-method-override: GET\r\n";
    let asks = [
        ("POST", "/nowhere", ""),
        ("PUT", "/nowhere/x", ""),
        ("OPTIONS", "/nowhere", ""),
        ("DELETE", "/products/gone-1", ""),
        ("POST", "/nowhere", overridden),
        ("GET", "/nowhere", overridden),
    ];
    let ask = async |stage: &Stage, client: &str, (method, path, more): (&str, &str, &str)| {
        stage.ask(method, path, &format!("x-forwarded-for: {client}\r\n{more}"), "").await
    };
    for first in asks {
        let stage = stage().await;
        for _ in 0..3 {
            assert_eq!(status(&stage, "192.0.2.1", "POST", "/echo").await, 200, "what is found costs nothing");
            assert_eq!(ask(&stage, "192.0.2.1", first).await.status, 404, "{first:?}");
        }
        let asked = stage.counted("bloomgate_proxy_requests_total{done=\"refused\"}");
        for next in asks.into_iter().chain([("GET", "/products/gone-3", "")]) {
            let capped = ask(&stage, "192.0.2.1", next).await;
            assert_eq!(capped.status, 429, "{first:?} {next:?}: {capped:?}");
            assert!(capped.text().contains("too-many-misses"), "{}", capped.text());
        }
        assert_eq!(stage.counted("bloomgate_proxy_requests_total{done=\"refused\"}"), asked + 7);
        assert_eq!(ask(&stage, "192.0.2.2", first).await.status, 404, "another client");
        assert!(stage.get("/products/never").await.by_filter());
    }
}

#[tokio::test]
async fn many_at_once_miss_no_more_often_than_the_cap() {
    let stage = stage().await;
    let asked = (0..10).map(|number| {
        let (stage, path) = (&stage, format!("/products/gone-{number}"));
        async move { status(stage, "192.0.2.1", "GET", &path).await }
    });
    let answers = futures_util::future::join_all(asked).await;
    let (missed, capped) =
        (answers.iter().filter(|&&s| s == 404).count(), answers.iter().filter(|&&s| s == 429).count());
    assert_eq!((missed, capped), (3, 7), "{answers:?}");
}

#[tokio::test]
async fn a_client_that_adds_too_much_is_stopped_before_the_filter_is_told() {
    let stage = stage().await;
    for number in 0..2 {
        assert_eq!(status(&stage, "192.0.2.1", "PUT", &format!("/products/new-{number}")).await, 201);
    }
    let capped = stage.ask("PUT", "/products/new-2", "x-forwarded-for: 192.0.2.1\r\n", "{}").await;
    assert_eq!(capped.status, 429, "{capped:?}");
    assert!(capped.text().contains("too-many-adds"), "{}", capped.text());
    assert!(stage.get("/products/new-2").await.by_filter());
    assert_eq!(status(&stage, "192.0.2.2", "PUT", "/products/new-2").await, 201);
    assert_eq!(status(&stage, "192.0.2.1", "GET", "/products/new-2").await, 200);
}

#[tokio::test]
async fn a_write_that_makes_no_key_adds_nothing() {
    let stage = stage().await;
    for _ in 0..5 {
        assert_eq!(status(&stage, "192.0.2.1", "POST", "/echo").await, 200, "it passes");
    }
    for number in 0..2 {
        assert_eq!(status(&stage, "192.0.2.1", "PUT", &format!("/products/new-{number}")).await, 201);
    }
    assert_eq!(status(&stage, "192.0.2.1", "POST", "/products").await, 429, "this one makes a key");
    assert_eq!(status(&stage, "192.0.2.1", "POST", "/echo").await, 200, "who may add no more may log in");
}
