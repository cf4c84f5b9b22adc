//! Errors as clients get them: problem details of RFC 9457, in JSON.
//!
//! ```json
//! {"type":"urn:bloomgate:problem:bad-key","title":"The key is not one of the column's type","status":400,
//!  "detail":"'abc' is no integer; write digits, like 42"}
//! ```
//!
//! `type` is for programs and never changes, `title` is the same for every problem of a type, and `detail` says what was
//! got, what is allowed and what to do.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;

/// The media type of a problem.
pub const MEDIA_TYPE: &str = "application/problem+json";
/// Before the name of every type.
const TYPES: &str = "urn:bloomgate:problem:";

/// What went wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: String,
    retry_after: Option<Duration>,
    allow: Option<HeaderValue>,
}

impl Problem {
    /// A problem of a type. `name` is the end of its `type` and is kept for ever; `detail` is for this request.
    pub fn new(status: StatusCode, name: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, name, title, detail: detail.into(), retry_after: None, allow: None }
    }

    /// 400: the request makes no sense as it is.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "The request is not understood", detail)
    }

    /// 401: who asks did not say who it is, or said it wrongly.
    pub fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", "A valid token is needed", detail)
    }

    /// 403: who asks may not do this.
    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "This is not allowed", detail)
    }

    /// 404: there is nothing here.
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "There is nothing here", detail)
    }

    /// 405: the path is there, the method is not. These are.
    pub fn method_not_allowed(method: &Method, allowed: &[Method]) -> Self {
        let names: Vec<&str> = allowed.iter().map(Method::as_str).collect();
        let said = match &names[..] {
            [] => "nothing is".to_owned(),
            [one] => format!("{one} is"),
            [first @ .., last] => format!("{} and {last} are", first.join(", ")),
        };
        let allowed = names.join(", ");
        let detail = format!("{method} is not allowed here: {said}");
        let title = "The method is not allowed here";
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", title, detail);
        problem.allow = HeaderValue::try_from(allowed).ok();
        problem
    }

    /// 408: the request did not arrive in time.
    pub fn too_slow(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "The request did not arrive in time", detail)
    }

    /// 413: the body is too large.
    pub fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large", detail)
    }

    /// 429: this client asks too much; it may ask again after a while.
    pub fn too_many(detail: impl Into<String>, again: Duration) -> Self {
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too-many", "Too many requests", detail);
        problem.retry_after(again)
    }

    /// 500: our fault.
    pub fn internal(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "The service failed", detail)
    }

    /// 503: not now; again after a while.
    pub fn unavailable(detail: impl Into<String>, again: Duration) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "This cannot be answered now", detail);
        problem.retry_after(again)
    }

    /// Says when to try again: in seconds, rounded up, at least one.
    #[must_use]
    pub fn retry_after(mut self, again: Duration) -> Self {
        self.retry_after = Some(again);
        self
    }

    /// The same with more to its detail.
    #[must_use]
    pub fn more(mut self, detail: &str) -> Self {
        self.detail.push_str(detail);
        self
    }

    /// The same in other words.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// What was got, what is allowed, what to do.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The problem as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        // The title and the detail may hold anything; the rest is ours.
        let text = |text: &str| serde_json::Value::from(text).to_string();
        format!(
            r#"{{"type":"{TYPES}{}","title":{},"status":{},"detail":{}}}"#,
            self.name,
            text(self.title),
            self.status.as_u16(),
            text(&self.detail)
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        if let Some(again) = self.retry_after {
            let seconds = again.as_millis().div_ceil(1000).clamp(1, 86_400) as u64;
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, allow);
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(r#"Bearer realm="bloomgate""#));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_json_whatever_the_detail_holds() {
        let problem = Problem::bad_request("got \"a\\b\"\n\u{7}; write é");
        let json: serde_json::Value = serde_json::from_str(&problem.to_json()).unwrap();
        assert_eq!(json["type"], "urn:bloomgate:problem:bad-request");
        assert_eq!(json["status"], 400);
        assert_eq!(json["detail"], "got \"a\\b\"\n\u{7}; write é");
        assert_eq!(json.as_object().unwrap().len(), 4);
    }

    #[test]
    fn refusals_say_when_to_come_back_and_how() {
        let wait = |problem: Problem| {
            let response = problem.into_response();
            assert_eq!(response.headers()[CONTENT_TYPE], MEDIA_TYPE);
            response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(wait(Problem::unavailable("", Duration::from_millis(1))), Some("1".to_owned()));
        assert_eq!(wait(Problem::too_many("", Duration::from_millis(2_001))), Some("3".to_owned()));
        assert_eq!(wait(Problem::not_found("")), None);
        let wrong = Problem::method_not_allowed(&Method::PUT, &[Method::GET, Method::POST]).into_response();
        assert_eq!(wrong.headers()[ALLOW], "GET, POST");
        let detail = |allowed: &[Method]| Problem::method_not_allowed(&Method::PUT, allowed).detail().to_owned();
        assert_eq!(detail(&[Method::GET]), "PUT is not allowed here: GET is");
        let three = [Method::GET, Method::PUT, Method::DELETE];
        assert_eq!(detail(&three), "PUT is not allowed here: GET, PUT and DELETE are");
        let challenge = Problem::unauthorized("").into_response();
        assert!(challenge.headers()[WWW_AUTHENTICATE].to_str().unwrap().starts_with("Bearer"));
    }
}
