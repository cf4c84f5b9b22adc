//! Bodies pass the layer as they come, those of writes too: nothing of them is held back or gathered.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::put;
use bloomgate_gate::layer::GateLayer;
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::stage::{Keys, ready_gate};

/// A body that is fed by hand.
fn fed() -> (mpsc::Sender<Frame<Bytes>>, Body) {
    let (sender, mut receiver) = mpsc::channel(1);
    let frames = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context)).map(Ok::<_, std::io::Error>);
    (sender, Body::new(StreamBody::new(frames)))
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("in time")
}

fn echo(keys: &Keys) -> Router {
    let (written, read) = (keys.clone(), Arc::new(keys.clone()));
    let store = move |axum::extract::Path(id): axum::extract::Path<String>, body: Body| async move {
        written.add(id);
        (StatusCode::CREATED, body)
    };
    let show = move |axum::extract::Path(id): axum::extract::Path<String>, body: Body| async move {
        if read.has(&id) { body.into_response() } else { StatusCode::NOT_FOUND.into_response() }
    };
    Router::new().route("/products/{id}", put(store).get(show))
}

#[tokio::test]
async fn a_body_comes_back_before_it_has_ended() {
    let keys = Keys::of(["kettle"]);
    let gate = ready_gate(&keys).await;
    let app = echo(&keys).layer(GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]));
    for (method, path) in [("PUT", "/products/lamp"), ("GET", "/products/kettle")] {
        let (feed, body) = fed();
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        feed.send(Frame::data("first".into())).await.unwrap();
        let mut response = in_time(app.clone().oneshot(request)).await.unwrap();
        assert!(response.status().is_success());
        let frame = in_time(response.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), "first");
        // While it goes on, what was written is known already, and other writes are not held up by it.
        assert!(gate.look(&gate.parse_key("lamp").unwrap()).is_none());
        let other = Request::put("/products/vase").body(Body::from("{}")).unwrap();
        assert_eq!(in_time(app.clone().oneshot(other)).await.unwrap().status(), 201);
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "17".parse().unwrap());
        feed.send(Frame::data("second".into())).await.unwrap();
        let frame = in_time(response.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), "second");
        feed.send(Frame::trailers(trailers.clone())).await.unwrap();
        let frame = in_time(response.body_mut().frame()).await.unwrap().unwrap();
        assert_eq!(frame.trailers_ref(), Some(&trailers));
        drop(feed);
        assert!(in_time(response.body_mut().frame()).await.is_none());
    }
    assert_eq!(gate.stats().writes.under_way, 0);
}

#[tokio::test]
async fn bodies_larger_than_any_buffer_pass_both_ways() {
    let keys = Keys::of(["kettle"]);
    let gate = ready_gate(&keys).await;
    let app = echo(&keys).layer(GateLayer::new(gate, ["path:/products/{id}".parse().unwrap()]));
    let (feed, body) = fed();
    let piece = Bytes::from(vec![7; 64 << 10]);
    let sending = tokio::spawn(async move {
        for _ in 0..320 {
            // Of 20 MB a few pieces are under way: the next is taken when the reader has taken one.
            feed.send(Frame::data(piece.clone())).await.unwrap();
        }
    });
    let request = Request::put("/products/lamp").body(body).unwrap();
    let mut response = in_time(app.oneshot(request)).await.unwrap();
    let mut bytes = 0;
    while let Some(frame) = in_time(response.body_mut().frame()).await {
        bytes += frame.unwrap().into_data().unwrap().len();
    }
    assert_eq!(bytes, 320 * (64 << 10));
    sending.await.unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_a_write_that_is_known() {
    let keys = Keys::of(["kettle"]);
    let gate = ready_gate(&keys).await;
    let app = echo(&keys).layer(GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]));
    let (_feed, body) = fed();
    let request = Request::put("/products/lamp").body(body).unwrap();
    let mut asking = Box::pin(app.oneshot(request));
    // Polled once, and dropped: the write goes on in its task.
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while !keys.has("lamp") || gate.stats().writes.under_way > 0 {
        assert!(tokio::time::Instant::now() < until, "the write ends");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(gate.look(&gate.parse_key("lamp").unwrap()).is_none());
    assert_eq!(gate.stats().writes.unknown, 0);
}

/// The clock goes on by itself while everybody waits: a rebuild would give up after a minute.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_answered_yet_holds_up_no_rebuild() {
    let keys = Keys::of(["kettle"]);
    let gate = ready_gate(&keys).await;
    let (may_end, written) = (Arc::new(tokio::sync::Notify::new()), keys.clone());
    let waits = may_end.clone();
    let store = move |axum::extract::Path(id): axum::extract::Path<String>| async move {
        waits.notified().await;
        written.add(id);
        StatusCode::CREATED
    };
    let layer = GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()]);
    let app = Router::new().route("/products/{id}", put(store)).layer(layer);
    let late = tokio::spawn(app.oneshot(Request::put("/products/lamp").body(Body::empty()).unwrap()));
    crate::stage::until("it is under way", || gate.stats().writes.under_way == 1).await;
    gate.rebuild().await.unwrap();
    assert!(!keys.has("lamp"), "it is written after the scan");
    may_end.notify_one();
    assert_eq!(late.await.unwrap().unwrap().status(), 201);
    assert!(gate.look(&gate.parse_key("lamp").unwrap()).is_none(), "and the new filter has it");
    assert_eq!(gate.stats().writes.unknown, 0);
}
