//! What is answered while there is no gate yet, because its source could not be reached since the start: that nothing is
//! known. Never a 404.

use std::sync::PoisonError;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use bloomgate_http::problem::Problem;

use super::{Desk, answers, metrics};

/// When to ask again.
const AGAIN: Duration = Duration::from_secs(1);

impl Desk {
    /// Why there is no gate yet.
    fn why(&self) -> String {
        let why = self.waits_for.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if why.is_empty() { "the source is being connected to".to_owned() } else { why }
    }

    /// The refusal of everything that needs the gate.
    pub(super) fn not_there(&self) -> Problem {
        let title = "The source does not answer";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "source-down", title, self.why()).retry_after(AGAIN)
    }

    /// `/readyz`: not yet.
    pub(super) fn not_ready(&self) -> Problem {
        Problem::unavailable(format!("the source has not been reached yet: {}", self.why()), AGAIN)
    }

    /// `/stats` of a gate to be.
    pub(super) fn waiting_stats(&self) -> Response<Body> {
        answers::json(StatusCode::OK, format!("{:#}\n", self.waiting_told()))
    }

    /// The same as JSON.
    pub(super) fn waiting_told(&self) -> serde_json::Value {
        serde_json::json!({"state": "loading", "blocking": false, "waits_for": self.why()})
    }

    /// `/metrics` of a gate to be: that it blocks nothing, and its connections.
    pub(super) fn waiting_metrics(&self) -> bloomgate_http::metrics::Scrape {
        metrics::waiting(&self.traffic)
    }
}
