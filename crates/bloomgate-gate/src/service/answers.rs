//! Answers about keys: their headers, their bodies, and the "no" that is made once for each filter and then only copied.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::problem::{MEDIA_TYPE, Problem};
use bytes::Bytes;

use super::deny::{self, Decision};
use super::path::bad_key;
use crate::error::{Error, ErrorKind};
use crate::outcome::Answer;
use crate::policy::{Meaning, State};

/// Where the lookup ended.
pub(crate) const OUTCOME: HeaderName = HeaderName::from_static("bloomgate-outcome");
/// The filter that was asked; 0 while there is none.
const VERSION: HeaderName = HeaderName::from_static("bloomgate-filter-version");
/// As of when the filter knows every key, in milliseconds since 1970; `none` while it does not.
const WATERMARK: HeaderName = HeaderName::from_static("bloomgate-watermark");

/// When to ask again while something is not ready or not there.
const AGAIN: Duration = Duration::from_secs(1);
/// The body of every "no". The key is not repeated: whoever asked knows it, and the answer stays a constant.
pub(crate) const ABSENT: &str = r#"{"type":"urn:bloomgate:problem:absent","title":"There is no row with this key","status":404,"detail":"the header bloomgate-outcome says how this is known"}"#;

/// Names an answer: what became of the key (nothing for answers that are about none), and the filter behind it.
pub(crate) fn name(headers: &mut HeaderMap, outcome: Option<&'static str>, version: u64, watermark: Option<u64>) {
    if let Some(outcome) = outcome {
        headers.insert(OUTCOME, HeaderValue::from_static(outcome));
    }
    headers.insert(VERSION, HeaderValue::from(version));
    headers.insert(WATERMARK, watermark.map_or(HeaderValue::from_static("none"), HeaderValue::from));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
}

/// Names an answer by the state alone, if nothing more exact has named it.
pub(super) fn name_by_state(response: &mut Response<Body>, state: State) {
    if response.headers().contains_key(VERSION) {
        return;
    }
    let (version, watermark) = match state {
        State::Ready { version, watermark } => (version, Some(watermark)),
        _ => (0, None),
    };
    let refused = response.status().is_client_error() || response.status().is_server_error();
    name(response.headers_mut(), refused.then_some("refused"), version, watermark);
}

/// The "no" of the filter that answers now: "absent", or "allowed" where rows deny.
#[derive(Debug)]
pub(crate) struct Template {
    meaning: Meaning,
    made: ArcSwapOption<Made>,
}

#[derive(Debug)]
struct Made {
    version: u64,
    watermark: Option<u64>,
    headers: HeaderMap,
}

impl Template {
    pub(crate) fn new(meaning: Meaning) -> Self {
        Self { meaning, made: ArcSwapOption::empty() }
    }

    /// The answer to a lookup that the filter stopped.
    pub(super) fn absent(&self, answer: &Answer) -> Response<Body> {
        let headers = self.headers(answer);
        match self.meaning {
            Meaning::Present => absent_with(headers),
            Meaning::Deny => deny::allowed(headers),
        }
    }

    /// Its headers.
    pub(crate) fn headers(&self, answer: &Answer) -> HeaderMap {
        let made = self.made.load();
        match made.as_deref() {
            Some(made) if made.version == answer.version && made.watermark == answer.watermark => made.headers.clone(),
            _ => {
                let headers = match self.meaning {
                    Meaning::Present => absent_headers(answer),
                    Meaning::Deny => allowed_headers(answer),
                };
                let made = Made { version: answer.version, watermark: answer.watermark, headers: headers.clone() };
                self.made.store(Some(Arc::new(made)));
                headers
            }
        }
    }
}

fn allowed_headers(answer: &Answer) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    name(&mut headers, Some(Decision::AllowedByFilter.name()), answer.version, answer.watermark);
    headers
}

fn absent_headers(answer: &Answer) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    name(&mut headers, Some(answer.outcome.name()), answer.version, answer.watermark);
    headers
}

fn absent_with(headers: HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::from(Bytes::from_static(ABSENT.as_bytes())));
    *response.status_mut() = StatusCode::NOT_FOUND;
    *response.headers_mut() = headers;
    response
}

/// The answer to a lookup: the row as the source gave it, or that there is none.
pub(super) fn looked_up(answer: Answer) -> Response<Body> {
    let Some(row) = answer.row.clone() else { return absent_with(absent_headers(&answer)) };
    let mut response = Response::new(Body::from(row));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    name(headers, Some(answer.outcome.name()), answer.version, answer.watermark);
    response
}

/// The answer to a write, which has no body.
pub(super) fn written(outcome: &'static str, state: State) -> Response<Body> {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let (version, watermark) = match state {
        State::Ready { version, watermark } => (version, Some(watermark)),
        _ => (0, None),
    };
    name(response.headers_mut(), Some(outcome), version, watermark);
    response
}

/// The answer to the deletion of a row that was not there.
pub(super) fn nothing_deleted(state: State) -> Response<Body> {
    let mut response = written("nothing-deleted", state);
    *response.status_mut() = StatusCode::NOT_FOUND;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    *response.body_mut() = Body::from(Bytes::from_static(ABSENT.as_bytes()));
    response
}

/// JSON.
pub(super) fn json(status: StatusCode, text: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error of the gate as clients get it. Never a 404: that is said of keys that are known to be absent.
pub(crate) fn problem(error: &Error) -> Problem {
    let detail = error.to_string();
    let not_now =
        |name, title| Problem::new(StatusCode::SERVICE_UNAVAILABLE, name, title, detail.clone()).retry_after(AGAIN);
    match error.kind() {
        ErrorKind::BadKey => bad_key(detail),
        ErrorKind::Invalid => {
            Problem::new(StatusCode::BAD_REQUEST, "invalid", "The row or the request is not allowed", detail)
        }
        ErrorKind::Unsupported => {
            Problem::new(StatusCode::NOT_IMPLEMENTED, "unsupported", "The source cannot do this", detail)
        }
        ErrorKind::NotReady => not_now("not-ready", "The filter is not ready and the policy is closed"),
        ErrorKind::Busy => not_now("busy", "The source is busy"),
        ErrorKind::TooManyMisses => too_many(
            "too-many-misses",
            "Too many lookups of this client found nothing",
            format!("{detail}; what is known without asking the source is still answered"),
            error,
        ),
        ErrorKind::TooManyAdds => too_many("too-many-adds", "This client has added too many rows", detail, error),
        ErrorKind::Source => not_now("source-down", "The source does not answer"),
        ErrorKind::Cache => not_now("cache-down", "The cache does not answer"),
        ErrorKind::Filter => not_now("filter-down", "The filter cannot do this now"),
        ErrorKind::Gap => not_now("feed-lost", "What others write cannot be followed"),
        ErrorKind::Unknown => Problem::new(
            StatusCode::BAD_GATEWAY,
            "write-unknown",
            "The source did not say whether it did the write",
            format!("{detail}; read the row before you write it again"),
        ),
    }
}

/// 429, and when to come again.
fn too_many(name: &'static str, title: &'static str, detail: String, error: &Error) -> Problem {
    let again = error.retry_after().unwrap_or(AGAIN);
    Problem::new(StatusCode::TOO_MANY_REQUESTS, name, title, detail).retry_after(again)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constant_no_is_a_problem_like_others() {
        let json: serde_json::Value = serde_json::from_str(ABSENT).unwrap();
        assert_eq!((&json["status"], json.as_object().unwrap().len()), (&404.into(), 4));
    }

    #[test]
    fn no_error_is_ever_a_404() {
        use ErrorKind::*;
        let capped = [TooManyMisses, TooManyAdds];
        let others = [BadKey, Invalid, Unsupported, Source, Unknown, Cache, Filter, NotReady, Busy, Gap];
        for kind in others.into_iter().chain(capped) {
            let status = problem(&Error::new(kind, "why")).status();
            assert!(status != StatusCode::NOT_FOUND && !status.is_success(), "{kind:?}: {status}");
            // Nor one that a deny list says of keys.
            assert_ne!(status, StatusCode::FORBIDDEN, "{kind:?}");
            assert_eq!(status == StatusCode::TOO_MANY_REQUESTS, capped.contains(&kind), "{kind:?}");
        }
    }
}
