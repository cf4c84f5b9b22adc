//! What stands under which path, and who may ask for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::access::Role;
use bloomgate_http::body;
use bloomgate_http::health;
use bloomgate_http::problem::Problem;

use super::batch::Asked;
use super::{Desk, answers, metrics, path};
use crate::key::Key;
use crate::policy::{Policy, State};
use crate::stats::Stats;

/// When to come again for a rebuild that is under way.
const REBUILD_AGAIN: Duration = Duration::from_secs(5);

impl Desk {
    /// The answer to what the filter alone could not answer.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let mut response = match self.route(request).await {
            Ok(response) => response,
            Err(problem) => problem.into_response(),
        };
        answers::name_by_state(&mut response, self.gate.state());
        response
    }

    async fn route(self: &Arc<Self>, request: Request<Body>) -> Result<Response<Body>, Problem> {
        let (method, whole) = (request.method().clone(), request.uri().path().to_owned());
        if let Some(rest) = whole.strip_prefix("/v1/") {
            return self.rows(request, &method, rest).await;
        }
        if let Some(rest) = whole.strip_prefix("/explain/") {
            only(&method, &[Method::GET])?;
            self.may(&request, Role::Read)?;
            let key = self.key(rest)?;
            let explanation = self.gate.explain(&key).await.map_err(|error| answers::problem(&error))?;
            return Ok(self.json(StatusCode::OK, &explanation));
        }
        match whole.as_str() {
            "/healthz" => {
                only(&method, &[Method::GET])?;
                Ok(health::healthz().await)
            }
            "/readyz" => {
                only(&method, &[Method::GET])?;
                let stats = self.gate.brief_stats();
                Ok(health::readyz(&move || readiness(&stats)))
            }
            "/stats" => {
                only(&method, &[Method::GET])?;
                self.may(&request, Role::Read)?;
                let stats = self.stats().await?;
                Ok(self.json(StatusCode::OK, &stats))
            }
            "/metrics" => {
                only(&method, &[Method::GET])?;
                self.may(&request, Role::Read)?;
                let stats = self.stats().await?;
                Ok(metrics::scrape(&stats, &self.traffic).respond(request.headers()))
            }
            "/rebuild" => {
                only(&method, &[Method::POST])?;
                self.may(&request, Role::Admin)?;
                self.rebuild(request.uri().query() == Some("wait=true")).await
            }
            doubled if doubled.contains("//") => {
                Err(path::bad_key("the path has two slashes in a row: leave one out, or write one in a key as %2F"))
            }
            _ => Err(Problem::not_found(format!(
                "there is {p}KEY, /v1/{t}:batch, /explain/KEY, /stats, /rebuild, /healthz, /readyz and /metrics",
                p = self.prefix,
                t = path::encoded(&self.options.table)
            ))),
        }
    }

    /// `/v1/TABLE/KEY` and `/v1/TABLE:batch`.
    async fn rows(&self, request: Request<Body>, method: &Method, rest: &str) -> Result<Response<Body>, Problem> {
        let Some((table, key)) = rest.split_once('/') else {
            let table = rest.strip_suffix(":batch").or_else(|| rest.strip_suffix("%3Abatch")).unwrap_or(rest);
            self.is_table(table)?;
            if table.len() == rest.len() {
                return Err(path::bad_key(format!("a key is missing: {}KEY", self.prefix)));
            }
            only(method, &[Method::POST])?;
            self.may(&request, Role::Read)?;
            return self.batch(request).await;
        };
        self.is_table(table)?;
        let writes = self.options.writes;
        only(method, if writes { &[Method::GET, Method::PUT, Method::DELETE] } else { &[Method::GET] })?;
        self.may(&request, if matches!(*method, Method::GET | Method::HEAD) { Role::Read } else { Role::Write })?;
        let key = self.key(key)?;
        let result = match *method {
            Method::PUT => {
                let row = body::read(request.into_body(), self.options.row_bytes, self.options.body_time).await?;
                self.gate.put(key, row).await.map(|()| answers::written("written", self.gate.state()))
            }
            Method::DELETE => self.gate.delete(&key).await.map(|was_there| match was_there {
                true => answers::written("deleted", self.gate.state()),
                false => answers::nothing_deleted(self.gate.state()),
            }),
            _ => self.gate.get(&key).await.map(answers::looked_up),
        };
        result.map_err(|error| answers::problem(&error))
    }

    async fn batch(&self, request: Request<Body>) -> Result<Response<Body>, Problem> {
        let body = body::read(request.into_body(), self.options.batch_bytes, self.options.body_time).await?;
        let (text, first) = Asked::parse(&body)?.answer(&self.gate).await?;
        let mut response = answers::json(StatusCode::OK, text);
        let (version, watermark) = match (first, self.gate.state()) {
            (Some(first), _) => (first.version, first.watermark),
            (None, State::Ready { version, watermark }) => (version, Some(watermark)),
            (None, _) => (0, None),
        };
        answers::name(response.headers_mut(), Some("batch"), version, watermark);
        Ok(response)
    }

    async fn rebuild(self: &Arc<Self>, wait: bool) -> Result<Response<Body>, Problem> {
        if self.rebuilding.swap(true, Acquire) {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "rebuild-under-way",
                "A rebuild was asked for already",
                "it has not ended yet: /stats shows how far it is",
            )
            .retry_after(REBUILD_AGAIN));
        }
        // In a task of its own: it ends, and is noted as ended, even if the client goes away.
        let desk = self.clone();
        let running = tokio::spawn(async move {
            let rebuilt = desk.gate.rebuild().await;
            desk.rebuilding.store(false, Release);
            rebuilt
        });
        if !wait {
            let note = r#"{"rebuild":"begun","progress":"/stats"}"#;
            return Ok(answers::json(StatusCode::ACCEPTED, note));
        }
        match running.await {
            Ok(Ok(rebuilt)) => Ok(self.json(StatusCode::OK, &rebuilt)),
            Ok(Err(error)) => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "rebuild-failed",
                "The rebuild failed; the filter of before is still in force",
                error.to_string(),
            )
            .retry_after(REBUILD_AGAIN)),
            Err(_) => Err(Problem::internal("the rebuild ended early: the log of the service says why")),
        }
    }

    fn is_table(&self, segment: &str) -> Result<(), Problem> {
        if path::decoded(segment).is_some_and(|table| table == self.options.table) {
            return Ok(());
        }
        let detail = format!("the table here is {}: ask for {}KEY", self.options.table, self.prefix);
        Err(Problem::new(StatusCode::BAD_REQUEST, "no-such-table", "This table is not served here", detail))
    }

    fn key(&self, segment: &str) -> Result<Key, Problem> {
        self.gate.parse_key(&path::key(segment)?).map_err(|error| answers::problem(&error))
    }

    /// The numbers; on a thread that may be busy for a while, since the bits of the filter are counted.
    async fn stats(&self) -> Result<Stats, Problem> {
        let gate = self.gate.clone();
        let counted = tokio::task::spawn_blocking(move || gate.stats()).await;
        counted.map_err(|_| Problem::internal("counting ended early: try again"))
    }

    fn json(&self, status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
        match serde_json::to_vec_pretty(value) {
            Ok(mut text) => {
                text.push(b'\n');
                answers::json(status, text)
            }
            Err(error) => Problem::internal(format!("the answer cannot be written: {error}")).into_response(),
        }
    }
}

/// Refuses other methods than these; where GET is allowed, HEAD is.
fn only(method: &Method, allowed: &[Method]) -> Result<(), Problem> {
    if allowed.contains(method) || method == Method::HEAD && allowed.contains(&Method::GET) {
        return Ok(());
    }
    Err(Problem::method_not_allowed(method, allowed))
}

/// Whether traffic may be sent here. A gate that fails open answers rightly in every state, only slower: taken out of
/// rotation, it would turn a filter's trouble into an outage. So only the first filter is waited for, and that only until
/// building it has failed once; under the policy `closed` nothing but a ready filter counts.
fn readiness(stats: &Stats) -> Result<String, String> {
    let closed = stats.policy == Policy::Closed.name();
    match stats.state {
        "ready" if stats.blocking => Ok("ready".to_owned()),
        "ready" => Ok("ready, and it only watches".to_owned()),
        "loading" if !closed && stats.rebuild.failed > 0 => {
            Ok("loading, and every lookup goes on to the source: the first filter failed to build".to_owned())
        }
        "loading" => Err(match &stats.rebuild.running {
            Some(running) => {
                format!("the first filter is being built: {} of about {} keys", running.scanned, running.expected)
            }
            None => "there is no filter yet".to_owned(),
        }),
        "degraded" if !closed => {
            Ok("degraded: the filter cannot be reached, and every lookup goes on to the source".to_owned())
        }
        state if closed => Err(format!("the filter is {state} and the policy is closed")),
        state => Ok(format!("{state}: every lookup goes on to the source until the filter is rebuilt")),
    }
}
