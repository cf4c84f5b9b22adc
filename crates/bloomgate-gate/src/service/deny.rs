//! Deny lists in two phases: a row means "denied". The filter's "no" allows at once; its "maybe" is confirmed at the source,
//! and nobody is ever denied by the filter alone.
//!
//! | the filter | the source | answer |
//! |---|---|---|
//! | no | is not asked | 204 `allowed-by-filter` |
//! | maybe, or not ready | has no row | 204 `allowed` |
//! | maybe, or not ready | has the row | 403 `denied`, with the row |
//! | maybe, or not ready | cannot be asked | 503, or 204 `allowed-unconfirmed` if that was asked for |
//!
//! A 403 is said of keys alone: who may not ask at all gets a 401 or a 421, so that no proxy turns a wrong setting into a
//! ban of everybody.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use bloomgate_http::problem::{MEDIA_TYPE, Problem};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Desk, answers};
use crate::error::{Error, ErrorKind};
use crate::outcome::{Answer, Outcome};
use crate::policy::{Meaning, State, Unconfirmed};
use crate::stats::{Explanation, Found};

/// What was decided about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The filter is ready and does not know the key.
    AllowedByFilter,
    /// The source has no row.
    Allowed,
    /// The source has the row (or the cache, which has it from there).
    Denied,
    /// The source could not be asked, and this is what to do then.
    AllowedUnconfirmed,
}

impl Decision {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AllowedByFilter => "allowed-by-filter",
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::AllowedUnconfirmed => "allowed-unconfirmed",
        }
    }

    /// What an answer of the gate means.
    pub(super) fn of(answer: &Answer) -> Self {
        match (&answer.row, answer.outcome) {
            (Some(_), _) => Self::Denied,
            (None, Outcome::AbsentByFilter) => Self::AllowedByFilter,
            (None, _) => Self::Allowed,
        }
    }
}

/// What was decided so far. What the filter allowed is in the gate's own numbers.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    allowed: AtomicU64,
    denied: AtomicU64,
    unconfirmed: AtomicU64,
}

/// What was decided, as `/stats` tells it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Decided {
    pub allowed_by_filter: u64,
    pub allowed: u64,
    pub denied: u64,
    pub allowed_unconfirmed: u64,
}

impl Decisions {
    fn count(&self, decision: Decision) {
        match decision {
            Decision::AllowedByFilter => {}
            Decision::Allowed => _ = self.allowed.fetch_add(1, Relaxed),
            Decision::Denied => _ = self.denied.fetch_add(1, Relaxed),
            Decision::AllowedUnconfirmed => _ = self.unconfirmed.fetch_add(1, Relaxed),
        }
    }

    /// `by_filter`: lookups that the filter answered.
    pub(super) fn told(&self, by_filter: u64) -> Decided {
        Decided {
            allowed_by_filter: by_filter,
            allowed: self.allowed.load(Relaxed),
            denied: self.denied.load(Relaxed),
            allowed_unconfirmed: self.unconfirmed.load(Relaxed),
        }
    }
}

impl Desk {
    pub(super) fn is_deny_list(&self) -> bool {
        self.options.meaning == Meaning::Deny
    }

    /// What a lookup came to, by what a row means here.
    pub(super) fn say(&self, looked_up: Result<Answer, Error>) -> Result<Response<Body>, Problem> {
        match looked_up {
            Ok(answer) if self.is_deny_list() => Ok(self.decided(&answer)),
            Ok(answer) => Ok(answers::looked_up(answer)),
            Err(error) if self.lets_pass(&error) => Ok(self.unconfirmed()),
            Err(error) => Err(answers::problem(&error)),
        }
    }

    /// Whether a key of which this is all that is known is allowed: only where the source could not be asked. By a policy
    /// that is closed, or a cap, nobody is let in.
    pub(super) fn lets_pass(&self, error: &Error) -> bool {
        self.is_deny_list()
            && self.options.unconfirmed == Unconfirmed::Allow
            && matches!(error.kind(), ErrorKind::Source | ErrorKind::Busy)
    }

    /// Counts what was decided about one key, and gives it.
    pub(super) fn decide(&self, looked_up: Result<&Answer, &Error>) -> Option<Decision> {
        let decision = match looked_up {
            Ok(answer) => Decision::of(answer),
            Err(error) if self.lets_pass(error) => Decision::AllowedUnconfirmed,
            Err(_) => return None,
        };
        self.decisions.count(decision);
        Some(decision)
    }

    fn decided(&self, answer: &Answer) -> Response<Body> {
        let decision = Decision::of(answer);
        self.decisions.count(decision);
        let mut response = match &answer.row {
            None => allowed(HeaderMap::new()),
            Some(row) => denied(row),
        };
        answers::name(response.headers_mut(), Some(decision.name()), answer.version, answer.watermark);
        response
    }

    /// The answer about a key that could not be confirmed.
    pub(super) fn unconfirmed(&self) -> Response<Body> {
        self.decisions.count(Decision::AllowedUnconfirmed);
        let (version, watermark) = match self.gate.get().map(|gate| gate.state()) {
            Some(State::Ready { version, watermark }) => (version, Some(watermark)),
            _ => (0, None),
        };
        let mut response = allowed(HeaderMap::new());
        answers::name(response.headers_mut(), Some(Decision::AllowedUnconfirmed.name()), version, watermark);
        response
    }
}

/// 204, without a body.
pub(super) fn allowed(headers: HeaderMap) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() = headers;
    response
}

/// 403: a problem (RFC 9457) with one more member, the row, which says why. Proxies go by the status alone.
fn denied(row: &[u8]) -> Response<Body> {
    const HEAD: &str = r#"{"type":"urn:bloomgate:problem:denied","title":"The key is on the deny list","status":403,"detail":"the source has this key: it is in row","row":"#;
    // A source of one's own may have rows that are no JSON.
    let row = serde_json::from_slice::<&RawValue>(row).map_or("null", RawValue::get);
    let mut response = Response::new(Body::from([HEAD, row, "}"].concat()));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// The refusal of who asks under a name that is not answered here: not a 403, which is said of keys.
pub(super) fn misdirected(problem: &Problem) -> Problem {
    let title = "The request is not meant for this service";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", title, problem.detail())
}

/// What a lookup of an explained key would be told by a deny list.
pub(super) fn decision(explained: &Explanation, unconfirmed: Unconfirmed) -> String {
    let by_source = || match (explained.cached, &explained.source) {
        (Some(true), _) => "denied: 403, the row is in the cache".to_owned(),
        (_, Found::Found) => "denied: 403, the source has the row".to_owned(),
        (_, Found::Absent) => "allowed: 204, the source has no row".to_owned(),
        (_, Found::Error(why)) if unconfirmed == Unconfirmed::Allow => {
            format!("allowed-unconfirmed: 204, for the source failed ({why})")
        }
        (_, Found::Error(why)) => format!("refused: 503, the source failed ({why})"),
    };
    match explained.filter {
        "no" if explained.source == Found::Found => {
            "denied: 403; the row was written while this was asked".to_owned()
        }
        "no" => "allowed-by-filter: 204, nothing behind the filter is asked".to_owned(),
        "no, wrongly" => "until now allowed-by-filter: 204, WRONGLY, for the source has the row. The filter is not trusted \
                          from now on and is built anew: every key is confirmed at the source. Somebody writes past the gate"
            .to_owned(),
        "maybe" if explained.negative_cached => "allowed: 204, the source said so a short while ago".to_owned(),
        _ if explained.decision.starts_with("refused: 503, the policy") => explained.decision.clone(),
        _ => by_source(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn only_a_row_denies() {
        let answer = |outcome, row: Option<&'static str>| Answer {
            outcome,
            row: row.map(|row| Bytes::from_static(row.as_bytes())),
            version: 1,
            watermark: Some(1),
        };
        for outcome in Outcome::ALL {
            assert_eq!(Decision::of(&answer(outcome, Some("{}"))), Decision::Denied);
            let allowed = Decision::of(&answer(outcome, None));
            let by_filter = outcome == Outcome::AbsentByFilter;
            assert_eq!(allowed == Decision::AllowedByFilter, by_filter, "{outcome}");
            assert_ne!(allowed, Decision::Denied, "{outcome}");
        }
    }

    #[tokio::test]
    async fn a_denial_is_json_whatever_the_row_is() {
        for (row, shown) in
            [(r#"{"why":"spam"}"#, serde_json::json!({"why": "spam"})), ("no json", serde_json::Value::Null)]
        {
            let response = denied(row.as_bytes());
            assert_eq!(response.status(), 403);
            let second = std::time::Duration::from_secs(1);
            let body = bloomgate_http::body::read(&mut response.into_body(), 1000, second).await.unwrap();
            let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!((&json["status"], &json["row"]), (&403.into(), &shown));
            assert_eq!(json["type"], "urn:bloomgate:problem:denied");
        }
    }
}
