//! What one request may name, before a layer: as before the proxy.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::any;
use bloomgate_gate::layer::GateLayer;
use bloomgate_gate::{Gate, State, Unconfirmed};
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::caps::gate;
use crate::named::{destinations, odd};
use crate::stage::{Keys, ready_gate};

/// Before a handler that answers everything with the list.
fn listing(layer: GateLayer<Body>) -> Router {
    Router::new().route("/products", any(async || "[]")).route("/products/{id}", any(async || "a product")).layer(layer)
}

fn layer(gate: &Gate) -> GateLayer<Body> {
    GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()])
}

async fn ask(app: &Router, method: &str, path: &str, headers: &str) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
        request = request.header(name, value);
    }
    let request = request.extension(std::net::SocketAddr::from(([192, 0, 2, 1], 4711))).body(Body::empty()).unwrap();
    let response = app.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_write_names_its_own_key_and_that_of_one_destination() {
    let gate = ready_gate(&Keys::of(["kettle"])).await;
    let app = listing(layer(&gate));
    let items = || gate.stats().filter.unwrap().items;
    let before = items();
    assert_eq!(ask(&app, "PUT", "/products/lamp", &destinations()).await.0, 200);
    assert_eq!(items(), before + 1);
    let (status, why) = ask(&app, "MOVE", "/products/lamp", &destinations()).await;
    assert!(status == 400 && why.contains("one Destination") && why.contains("problem:invalid"), "{status} {why}");
    let both = format!("destination: /products/{}", odd(2));
    let (status, why) = ask(&app, "COPY", &format!("/products/{}", odd(1)), &both).await;
    assert!(status == 400 && why.contains("more than 64 keys"), "{status} {why}");
    assert_eq!(items(), before + 1);
    assert_eq!(ask(&app, "COPY", "/products/lamp", "destination: /products/vase").await.0, 200);
    assert_eq!((ask(&app, "GET", "/products/vase", "").await.0, items()), (200, before + 2));
}

#[tokio::test]
async fn a_client_that_adds_pays_for_every_reading() {
    // Two adds in an hour.
    let (gate, _) = gate().await;
    let app = listing(layer(&gate));
    assert_eq!(ask(&app, "PUT", &format!("/products/{}", odd(1)), "").await.0, 200);
    assert_eq!(ask(&app, "PUT", "/products/next", "").await.0, 429);
}

#[tokio::test]
async fn a_method_in_a_header_turns_no_lookup_into_a_write() {
    let gate = ready_gate(&Keys::of(["kettle"])).await;
    let app = listing(layer(&gate));
    for method in ["GET", "HEAD", "OPTIONS"] {
        assert_eq!(ask(&app, method, "/products", "x-http-method-override: GET").await.0, 200, "{method}");
        assert_eq!(ask(&app, method, "/products", "x-http-method-override: POST").await.0, 400, "{method}");
    }
    assert_eq!(ask(&app, "GET", "/products/lamp", "x-http-method-override: GET").await.0, 404);
    assert_eq!(ask(&app, "GET", "/products/lamp", "x-http-method-override: PUT").await.0, 200);
    assert_eq!(ask(&app, "GET", "/products/lamp", "").await.0, 200, "it may have been made");
    assert!(matches!(gate.state(), State::Ready { version: 1, .. }), "{:?}", gate.state());
}

#[tokio::test]
async fn a_deny_list_looks_at_one_destination_and_refuses_what_names_too_many() {
    let gate = ready_gate(&Keys::of(["mallory"])).await;
    let rules = ["path:/products/{id}".parse().unwrap(), "query:/products?who={id}".parse().unwrap()];
    let app = listing(GateLayer::deny(gate, rules, Unconfirmed::Refuse));
    assert_eq!(ask(&app, "MOVE", "/products/ann", "destination: /products/mallory").await.0, 403);
    assert_eq!(ask(&app, "MOVE", "/products/ann", "destination: /products/bob").await.0, 200);
    let twice = "destination: /products/bob\ndestination: /products/mallory";
    assert_eq!(ask(&app, "MOVE", "/products/ann", twice).await.0, 400);
    assert_eq!(ask(&app, "GET", "/products/ann", twice).await.0, 200, "nobody reads it there");
    let many = (0..65).map(|number| format!("who=w{number}")).collect::<Vec<_>>().join("&");
    assert_eq!(ask(&app, "GET", &format!("/products?{many}"), "").await.0, 400);
}
