//! Answers: JSON, text, bytes.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::Value;

/// JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Response<Body> {
    let mut text = value.to_string();
    text.push('\n');
    of(status, "application/json", text)
}

/// Anything.
pub(super) fn of(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    // A "no" that a proxy repeats after the key was added would be wrong.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Done, and nothing to say.
pub(super) fn nothing() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Adds a header with a number.
pub(super) fn count(response: &mut Response<Body>, name: &'static str, value: u64) {
    response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from(value));
}
