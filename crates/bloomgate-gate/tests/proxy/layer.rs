//! The gate as a layer before an axum router.

mod caps;
mod deny;
mod named;
mod racing;
mod streams;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bloomgate_gate::layer::{GateLayer, NewKeys};
use bloomgate_gate::{Gate, Key, Policy, State, Writers};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::stage::{Keys, ready_gate};

fn shop(keys: &Keys, asked: &Arc<AtomicU64>) -> Router {
    let (show, store, make, delete) = (keys.clone(), keys.clone(), keys.clone(), keys.clone());
    let (asked, next) = (asked.clone(), Arc::new(AtomicU64::new(100)));
    let show = move |Path(id): Path<String>| async move {
        asked.fetch_add(1, SeqCst);
        if show.has(&id) { Ok(format!("product {id}")) } else { Err(StatusCode::NOT_FOUND) }
    };
    let store = move |Path(id): Path<String>| async move {
        store.add(id);
        StatusCode::CREATED
    };
    let delete = move |Path(id): Path<String>| async move {
        if delete.remove(&id) { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
    };
    let make = move |how: String| {
        let id = next.fetch_add(1, SeqCst).to_string();
        async move {
            make.add(id.clone());
            match how.as_str() {
                "location" => (StatusCode::CREATED, [("location", format!("/products/{id}"))], id).into_response(),
                "extension" => (axum::Extension(NewKeys(vec![Key::from(id.as_str())])), id).into_response(),
                "panic" => panic!("a handler that fails"),
                _ => (StatusCode::CREATED, id).into_response(),
            }
        }
    };
    Router::new().route("/products/{id}", get(show).put(store).delete(delete)).route("/products", post(make))
}

async fn ask(app: &Router, method: &str, path: &str, body: &str) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).body(Body::from(body.to_owned())).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn absent_keys_do_not_reach_the_handler_and_written_ones_do() {
    let (keys, asked) = (Keys::of(["kettle"]), Arc::new(AtomicU64::new(0)));
    let gate = ready_gate(&keys).await;
    let app = shop(&keys, &asked).layer(GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]));
    assert_eq!(ask(&app, "GET", "/products/kettle", "").await, (200, "product kettle".to_owned()));
    let (status, body) = ask(&app, "GET", "/products/lamp", "").await;
    assert!(status == 404 && body.contains("urn:bloomgate:problem:absent"), "{body}");
    assert_eq!(asked.load(SeqCst), 1);
    assert_eq!(ask(&app, "PUT", "/products/lamp", "").await.0, 201);
    assert_eq!(ask(&app, "GET", "/products/lamp", "").await.0, 200);
    assert_eq!(ask(&app, "DELETE", "/products/lamp", "").await.0, 204);
    assert_eq!(ask(&app, "GET", "/products/lamp", "").await, (404, String::new()), "the handler's own 404");
    assert_eq!(ask(&app, "OPTIONS", "/products/lamp", "").await.0, 405);
    for how in ["location", "extension"] {
        let (_, id) = ask(&app, "POST", "/products", how).await;
        assert_eq!(ask(&app, "GET", &format!("/products/{id}"), "").await.0, 200, "{how}");
    }
    assert!(matches!(gate.state(), State::Ready { .. }));
    let stats = gate.stats();
    assert_eq!((stats.lookups.absent_by_filter, stats.measured.false_positives, stats.writes.deletes), (1, 1, 1));
    // A key that the answer does not tell.
    ask(&app, "POST", "/products", "silent").await;
    assert_eq!(gate.state(), State::Stale);
    gate.rebuild().await.unwrap();
    // A handler that panics goes on panicking; nobody knows what it did.
    let panicked = tokio::spawn(async move { ask(&app, "POST", "/products", "panic").await }).await;
    assert!(panicked.unwrap_err().is_panic());
    assert_eq!(gate.state(), State::Stale);
    assert!(gate.rebuild().await.is_err());
}

/// A handler asks, in the middle of its write, for what it is just writing.
#[tokio::test]
async fn whoever_asks_while_a_write_is_under_way_is_not_told_no() {
    let keys = Keys::of(["kettle"]);
    let gate = ready_gate(&keys).await;
    let front: Arc<OnceLock<Router>> = Arc::default();
    let (shown, within) = (keys.clone(), front.clone());
    let show = move |Path(id): Path<String>| async move { if shown.has(&id) { "here it is" } else { "not yet" } };
    let store = move |Path(id): Path<String>| async move {
        let (status, told) = ask(within.get().unwrap(), "GET", &format!("/products/{id}"), "").await;
        keys.add(id);
        format!("{status} {told}")
    };
    let shop = Router::new().route("/products/{id}", get(show).put(store.clone()).patch(store));
    let app = shop.layer(GateLayer::new(gate, ["path:/products/{id}".parse().unwrap()]));
    assert!(front.set(app.clone()).is_ok());
    for (method, path) in [("PUT", "/products/lamp"), ("PATCH", "/products/vase")] {
        assert_eq!(ask(&app, "GET", path, "").await.0, 404);
        assert_eq!(ask(&app, method, path, "").await, (200, "200 not yet".to_owned()), "{method}");
        assert_eq!(ask(&app, "GET", path, "").await, (200, "here it is".to_owned()));
    }
}

#[tokio::test]
async fn fixed_routes_beside_the_keys_pass_where_they_are_named() {
    let (keys, asked) = (Keys::of(["kettle"]), Arc::new(AtomicU64::new(0)));
    let gate = ready_gate(&keys).await;
    let shop = shop(&keys, &asked).route("/products/search", get(async || "what was searched for"));
    let layer = GateLayer::new(gate, ["path:/products/{id}".parse().unwrap()]);
    let app = shop.clone().layer(layer.clone());
    assert_eq!(ask(&app, "GET", "/products/search", "").await.0, 404, "a key that is not there");
    let layer = layer.except(["/products/search".parse().unwrap()]);
    let app = shop.clone().layer(layer.clone());
    assert_eq!(ask(&app, "GET", "/products/search?q=lamp", "").await, (200, "what was searched for".to_owned()));
    assert!(ask(&app, "GET", "/products/searched", "").await.1.contains("absent"), "another key");
    let app = shop.layer(layer.key_by(|_| Some(Key::from("nobody"))));
    assert_eq!(ask(&app, "GET", "/products/search", "").await.0, 200);
    assert_eq!(ask(&app, "GET", "/products/kettle", "").await.0, 404);
}

#[tokio::test]
async fn keys_and_answers_may_be_ones_own() {
    let (keys, asked) = (Keys::of(["kettle"]), Arc::new(AtomicU64::new(0)));
    let gate = ready_gate(&keys).await;
    let layer = GateLayer::new(gate, [])
        .key_by(|head| head.headers.get("x-key").map(|key| Key::from(key.to_str().unwrap())))
        .absent_by(|answer| (StatusCode::GONE, answer.outcome.name()).into_response());
    let app = shop(&keys, &asked).layer(layer);
    let with = async |key: &str| {
        let request = Request::get("/products/kettle").header("x-key", key).body(Body::empty()).unwrap();
        app.clone().oneshot(request).await.unwrap().status().as_u16()
    };
    assert_eq!((with("kettle").await, with("lamp").await), (200, 410));
    assert_eq!(ask(&app, "GET", "/products/lamp", "").await.0, 404, "no key, no judgement");
}

#[tokio::test]
async fn a_closed_gate_refuses_until_it_is_ready() {
    let (keys, asked) = (Keys::of(["kettle"]), Arc::new(AtomicU64::new(0)));
    let gate = Gate::builder(Arc::new(keys.clone())).writers(Writers::Sole).policy(Policy::Closed).build().unwrap();
    let app = shop(&keys, &asked).layer(GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]));
    assert_eq!(ask(&app, "GET", "/products/kettle", "").await.0, 503);
    gate.rebuild().await.unwrap();
    assert_eq!(ask(&app, "GET", "/products/kettle", "").await.0, 200);
}
