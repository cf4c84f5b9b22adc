//! `/healthz`: is the process alive? `/readyz`: may traffic be sent to it?
//!
//! They differ on purpose. A service that waits for its database is alive: to restart it would only make it wait again.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::problem::Problem;

/// When a probe should come again.
const AGAIN: Duration = Duration::from_secs(1);

/// Says whether a service is ready. Any closure that gives `Result<String, String>` is one.
pub trait Readiness: Send + Sync + 'static {
    /// What it is ready for, or why it is not: one line each.
    fn ready(&self) -> Result<String, String>;
}

impl<F: Fn() -> Result<String, String> + Send + Sync + 'static> Readiness for F {
    fn ready(&self) -> Result<String, String> {
        self()
    }
}

/// The two routes. They need no token: a probe has none, and they tell nothing but a state.
pub fn routes<S: Clone + Send + Sync + 'static>(readiness: Arc<dyn Readiness>) -> Router<S> {
    Router::new().route("/healthz", get(healthz)).route("/readyz", get(move || async move { readyz(&*readiness) }))
}

/// Alive, whatever the state: 200.
pub async fn healthz() -> Response<Body> {
    line(StatusCode::OK, "ok".to_owned())
}

/// 200 with one line, or 503 with the reason.
pub fn readyz(readiness: &dyn Readiness) -> Response<Body> {
    match readiness.ready() {
        Ok(what) => line(StatusCode::OK, what),
        Err(why) => {
            let mut response = Problem::unavailable(why, AGAIN).into_response();
            response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
    }
}

fn line(status: StatusCode, mut text: String) -> Response<Body> {
    text.push('\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
