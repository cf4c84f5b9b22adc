//! The service behind the proxy: an axum router that decodes keys as axum does, and a few odd corners.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{any, get};
use futures_util::StreamExt;
use tokio::sync::Notify;

use crate::stage::Keys;

#[derive(Clone, Default)]
pub struct Catalog {
    pub keys: Keys,
    /// Requests that came.
    pub asked: Arc<AtomicU64>,
    /// The next id that it gives.
    pub next: Arc<AtomicU64>,
    /// What was sent to the collection last.
    pub last: Arc<Mutex<String>>,
    /// Lets a late answer go.
    pub late: Arc<Notify>,
}

impl Catalog {
    pub fn of(keys: Keys) -> Self {
        Self { keys, next: Arc::new(AtomicU64::new(1000)), ..Self::default() }
    }

    pub fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }

    /// Serves on a free port.
    pub async fn start(&self) -> SocketAddr {
        let router = Router::new()
            .route("/products/{id}", get(show).put(store).patch(store).delete(delete).post(store))
            .route("/products", axum::routing::post(make))
            // As frameworks that cut a format off do.
            .route("/products.json", axum::routing::post(make))
            .route("/products/search", get(async || "what was searched for"))
            .route("/echo", any(echo))
            .route("/headers", any(headers))
            .route("/slow", any(slow))
            .route("/count", axum::routing::put(count))
            .fallback(async || (StatusCode::NOT_FOUND, "no such route"))
            .with_state(self.clone());
        serve(router).await
    }
}

pub async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn show(State(catalog): State<Catalog>, Path(id): Path<String>) -> impl IntoResponse {
    catalog.asked.fetch_add(1, SeqCst);
    match catalog.keys.has(&id) {
        true => (StatusCode::OK, [("x-from", "catalog")], format!("product {id}")),
        false => (StatusCode::NOT_FOUND, [("x-from", "catalog")], "no such product".to_owned()),
    }
}

async fn store(State(catalog): State<Catalog>, Path(id): Path<String>, body: String) -> impl IntoResponse {
    catalog.asked.fetch_add(1, SeqCst);
    match body.as_str() {
        "refuse" => StatusCode::UNPROCESSABLE_ENTITY,
        "fail" => {
            catalog.keys.add(id);
            StatusCode::INTERNAL_SERVER_ERROR
        }
        _ => {
            // A moment in which the row is not there yet, and one in which the answer is not.
            tokio::task::yield_now().await;
            catalog.keys.add(id);
            tokio::task::yield_now().await;
            StatusCode::CREATED
        }
    }
}

async fn delete(State(catalog): State<Catalog>, Path(id): Path<String>) -> StatusCode {
    if catalog.keys.remove(&id) { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }
}

/// Makes a product; the body says how the key is told.
async fn make(State(catalog): State<Catalog>, body: String) -> axum::response::Response {
    *catalog.last.lock().unwrap() = body.clone();
    catalog.asked.fetch_add(1, SeqCst);
    let id = catalog.next.fetch_add(1, SeqCst).to_string();
    if body == "late" {
        catalog.late.notified().await;
    }
    if !matches!(body.as_str(), "refuse" | "login") {
        catalog.keys.add(id.clone());
        tokio::task::yield_now().await;
    }
    let json = || format!(r#"{{"product":{{"id":{id},"name":"new"}}}}"#);
    match body.as_str() {
        "refuse" => StatusCode::BAD_REQUEST.into_response(),
        "fail" => StatusCode::SERVICE_UNAVAILABLE.into_response(),
        "nothing" => StatusCode::CREATED.into_response(),
        "login" => (StatusCode::FOUND, [("location", "/login")]).into_response(),
        "see" => (StatusCode::SEE_OTHER, [("location", format!("/products/{id}"))]).into_response(),
        "json" => (StatusCode::CREATED, json()).into_response(),
        "long" => (StatusCode::CREATED, format!("{}{}", json(), " ".repeat(100_000))).into_response(),
        "gzip" => (StatusCode::CREATED, [("content-encoding", "gzip")], json()).into_response(),
        "chunked" => {
            let pieces: Vec<String> = json().chars().map(String::from).collect();
            let pieces = futures_util::stream::iter(pieces).then(|piece| async move {
                tokio::task::yield_now().await;
                Ok::<_, std::io::Error>(piece)
            });
            (StatusCode::CREATED, Body::from_stream(pieces)).into_response()
        }
        "hang" => {
            tokio::time::sleep(Duration::from_secs(60)).await;
            StatusCode::CREATED.into_response()
        }
        _ => (StatusCode::CREATED, [("location", format!("http://shop.example/products/{id}"))]).into_response(),
    }
}

/// The body back, as it comes.
async fn echo(request: Request) -> impl IntoResponse {
    let trailer = request.headers().get("trailer").cloned();
    let mut response = axum::response::Response::new(request.into_body());
    if let Some(trailer) = trailer {
        response.headers_mut().insert("trailer", trailer);
    }
    response
}

/// What was asked, line by line.
async fn headers(request: Request) -> impl IntoResponse {
    let mut lines = vec![format!("{} {} {:?}", request.method(), request.uri(), request.version())];
    lines.extend(request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())));
    let mut back = HeaderMap::new();
    for (name, value) in
        [("connection", "x-hop"), ("x-hop", "1"), ("keep-alive", "timeout=9"), ("x-end", "2"), ("set-cookie", "a=1")]
    {
        back.insert(name, value.parse().unwrap());
    }
    back.append("set-cookie", "b=2".parse().unwrap());
    (back, lines.join("\n"))
}

/// How many bytes came.
async fn count(body: Body) -> String {
    let mut sum = 0;
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        sum += piece.unwrap().len();
    }
    sum.to_string()
}

async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_millis(700)).await;
    "at last"
}
