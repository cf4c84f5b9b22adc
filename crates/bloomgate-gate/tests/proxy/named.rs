//! What one request may name: a write has the keys of its own path, and of one `Destination` if it copies or moves; and a
//! method in a header makes no write of a request that only asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use axum::Router;
use axum::routing::any;
use bloomgate_gate::State;

use crate::caps::gate;
use crate::catalog::{Catalog, serve};
use crate::stage::{Keys, Stage, options, ready_gate};

/// A segment that is read in as many ways as can be, and none of another number's.
pub fn odd(number: usize) -> String {
    format!("+%2525a{number:04}<i>1a+b<r>.c%2525{number:04}%3B+d.e;+f<r>.g+").replace('<', "%3C").replace('>', "%3E")
}

/// 88 headers that each name a key that is read in many ways.
pub fn destinations() -> String {
    (0..88).map(|number| format!("destination: /products/{}\r\n", odd(number))).collect()
}

async fn stage() -> (Catalog, Stage) {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    options.rules.push("query:/lookup?sku={id}".parse().unwrap());
    (catalog.clone(), Stage::set(options, ready_gate(&catalog.keys).await).await)
}

fn items(stage: &Stage) -> u64 {
    stage.gate.stats().filter.unwrap().items
}

fn refused(stage: &Stage) -> u64 {
    stage.counted("bloomgate_proxy_requests_total{done=\"refused\"}")
}

#[tokio::test]
async fn a_write_names_its_own_key_whatever_its_headers_say() {
    let (_, stage) = stage().await;
    let before = items(&stage);
    for method in ["PUT", "PATCH", "POST", "DELETE"] {
        let got = stage.ask(method, "/products/lamp", &destinations(), "").await;
        assert!(got.status < 300, "{method}: {got:?}");
    }
    assert_eq!(items(&stage), before + 1);
    assert!(stage.get("/products/vase").await.by_filter());
}

#[tokio::test]
async fn who_copies_or_moves_makes_what_the_one_destination_names() {
    let (_, stage) = stage().await;
    for (number, (method, header)) in
        [("COPY", ""), ("MOVE", ""), ("POST", "x-http-method-override: MOVE\r\n"), ("GET", "x-http-method: copy\r\n")]
            .into_iter()
            .enumerate()
    {
        let (path, named) = (format!("/products/from-{number}"), format!("/products/to-{number}"));
        let header = format!("{header}destination: http://shop.example{named}\r\n");
        let before = refused(&stage);
        // Twice: which of them counts nobody can tell.
        let got = stage.ask(method, &path, &format!("{header}destination: /products/vase\r\n"), "").await;
        assert!(got.status == 400 && got.text().contains("one Destination"), "{method}: {got:?}");
        assert_eq!(refused(&stage), before + 1);
        assert!(stage.get(&path).await.by_filter() && stage.get(&named).await.by_filter(), "{method}");
        stage.ask(method, &path, &header, "").await;
        assert!(!stage.get(&path).await.by_filter() && !stage.get(&named).await.by_filter(), "{method}");
    }
    assert!(stage.get("/products/vase").await.by_filter());
}

#[tokio::test]
async fn a_write_of_more_keys_than_anybody_means_is_refused() {
    let (catalog, stage) = stage().await;
    let many = (0..65).map(|number| format!("sku=k{number}")).collect::<Vec<_>>().join("&");
    let (before, asked) = (items(&stage), catalog.asked());
    let got = stage.ask("PUT", &format!("/lookup?{many}"), "", "{}").await;
    assert!(got.status == 400 && got.text().contains("more than 64 keys"), "{got:?}");
    let both = format!("destination: /products/{}\r\n", odd(2));
    let got = stage.ask("MOVE", &format!("/products/{}", odd(1)), &both, "").await;
    assert!(got.status == 400 && got.text().contains("more than 64 keys"), "{got:?}");
    assert_eq!((items(&stage), catalog.asked(), refused(&stage)), (before, asked, 2));
    // Not more than that, and the same one however often.
    let most = (0..64).map(|number| format!("sku=k{number}&sku=k{number}")).collect::<Vec<_>>().join("&");
    assert_eq!(stage.ask("PUT", &format!("/lookup?{most}"), "", "{}").await.status, 404);
    assert_eq!(items(&stage), before + 64);
    // One key in all its readings is always taken.
    assert_eq!(stage.ask("PUT", &format!("/products/{}", odd(3)), "", "{}").await.status, 201);
    let readings = items(&stage) - before - 64;
    assert!((30..=64).contains(&readings), "{readings}");
}

#[tokio::test]
async fn a_client_that_adds_pays_for_every_reading() {
    for (path, readings) in [("/products/new".to_owned(), 1), ("/products/a%20b".to_owned(), 2)]
        .into_iter()
        .chain([(format!("/products/{}", odd(1)), 2), ("/products/lamp.v2".to_owned(), 2)])
    {
        // Two adds in an hour.
        let (gate, keys) = gate().await;
        let stage = Stage::set(options(Catalog::of(keys).start().await), gate).await;
        assert_eq!(stage.ask("PUT", &path, "", "{}").await.status, 201, "{path}: it may be written at all");
        let next = stage.ask("PUT", "/products/next", "", "{}").await;
        assert_eq!(next.status, if readings == 1 { 201 } else { 429 }, "{path}: {next:?}");
        assert_eq!(stage.ask("PUT", "/products/last", "", "{}").await.status, 429, "{path}");
    }
}

/// A service that answers every request at its collection with the list, and stores what is put.
async fn listing() -> (Keys, Stage, Arc<AtomicU64>) {
    let (keys, asked) = (Keys::of(["kettle"]), Arc::new(AtomicU64::new(0)));
    let counted = asked.clone();
    let list = move || async move {
        counted.fetch_add(1, SeqCst);
        "[\"kettle\"]"
    };
    let router = Router::new().route("/products", any(list)).route("/products/{id}", any(async || "a product"));
    let router = router.route("/elsewhere", any(async || "what is there"));
    let stage = Stage::set(options(serve(router).await), ready_gate(&keys).await).await;
    (keys, stage, asked)
}

#[tokio::test]
async fn a_method_in_a_header_turns_no_lookup_into_a_write() {
    let (_, stage, asked) = listing().await;
    for name in ["x-http-method-override", "x-method-override", "x-http-method"] {
        for harmless in ["GET", "get", "HEAD", "OPTIONS", ""] {
            for method in ["GET", "HEAD", "OPTIONS"] {
                let got = stage.ask(method, "/products", &format!("{name}: {harmless}\r\n"), "").await;
                assert_eq!(got.status, 200, "{method} {name}: {harmless}");
            }
            assert!(stage.ask("GET", "/products/lamp", &format!("{name}: {harmless}\r\n"), "").await.by_filter());
        }
    }
    assert!(matches!(stage.gate.state(), State::Ready { version: 1, .. }), "{:?}", stage.gate.state());
    assert_eq!((asked.load(SeqCst), refused(&stage)), (45, 0));
}

#[tokio::test]
async fn what_may_be_a_write_at_the_collection_and_may_be_none_is_refused() {
    let (_, stage, asked) = listing().await;
    for (number, other) in ["POST", "PUT", "DELETE", "GET, POST", "odd"].into_iter().enumerate() {
        let header = format!("x-http-method-override: {other}\r\n");
        for method in ["GET", "HEAD", "OPTIONS"] {
            let got = stage.ask(method, "/products", &header, "").await;
            assert_eq!(got.status, 400, "{method} {other}: {got:?}");
            assert!(method == "HEAD" || got.text().contains("send it as POST"), "{}", got.text());
        }
        // Of a key that is named the filter is told; elsewhere nothing is made.
        let path = format!("/products/lamp-{number}");
        assert!(stage.get(&path).await.by_filter());
        assert_eq!(stage.ask("GET", &path, &header, "").await.status, 200, "{other}");
        assert!(!stage.get(&path).await.by_filter(), "{other}");
        assert_eq!(stage.ask("GET", "/elsewhere", &header, "").await.status, 200, "{other}");
    }
    assert_eq!((asked.load(SeqCst), refused(&stage)), (0, 15));
    assert!(matches!(stage.gate.state(), State::Ready { version: 1, .. }), "{:?}", stage.gate.state());
    // A POST makes a key whatever its header says: a service that does not look at it makes one.
    assert_eq!(stage.ask("POST", "/products", "x-http-method-override: GET\r\n", "").await.status, 200);
    assert_eq!(stage.gate.state(), State::Stale);
}
