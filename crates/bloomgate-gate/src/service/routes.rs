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
use super::{Desk, answers, dashboard, metrics, path};
use crate::gate::Gate;
use crate::key::Key;
use crate::policy::{Policy, State};
use crate::stats::Stats;

/// When to come again for a rebuild that is under way.
const REBUILD_AGAIN: Duration = Duration::from_secs(5);

/// What is asked for, without its body.
pub(super) type Head = axum::http::request::Parts;

/// A body that nobody wanted is read up to here and thrown away: clients of HTTP/2 that still send when the answer is
/// there take the end of the stream for an error (curl 7.88 does) and never show the answer.
const UNWANTED: usize = 64 << 10;
/// And so long.
const UNWANTED_TIME: Duration = Duration::from_secs(5);

impl Desk {
    /// The answer to what the filter alone could not answer.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Body>) -> Response<Body> {
        let (head, mut rest) = request.into_parts();
        if let Some(page) = dashboard::page(&head) {
            return page;
        }
        let mut response = match self.dashboard(&head, &mut rest).await {
            Some(Ok(response)) => response,
            Some(Err(problem)) => problem.into_response(),
            None => self.route(&head, &mut rest).await.unwrap_or_else(IntoResponse::into_response),
        };
        body::discard(&mut rest, UNWANTED, UNWANTED_TIME.min(self.options.body_time)).await;
        answers::name_by_state(&mut response, self.gate.get().map_or(State::Loading, Gate::state));
        response
    }

    /// The gate, if it is there.
    fn gate(&self) -> Result<&Gate, Problem> {
        self.gate.get().ok_or_else(|| self.not_there())
    }

    async fn route(self: &Arc<Self>, head: &Head, rest: &mut Body) -> Result<Response<Body>, Problem> {
        let (method, whole) = (&head.method, head.uri.path());
        if let Some(below) = whole.strip_prefix("/v1/") {
            return self.rows(head, rest, below).await;
        }
        if let Some(key) = whole.strip_prefix("/explain/") {
            only(method, &[Method::GET])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            let key = self.key(key)?;
            let explanation = self.gate()?.explain(&key).await.map_err(|error| answers::problem(&error))?;
            return Ok(self.json(StatusCode::OK, &explanation));
        }
        match whole {
            "/healthz" => {
                only(method, &[Method::GET])?;
                Ok(health::healthz().await)
            }
            "/readyz" => {
                only(method, &[Method::GET])?;
                let Some(gate) = self.gate.get() else { return Err(self.not_ready()) };
                let stats = gate.brief_stats();
                Ok(health::readyz(&move || readiness(&stats)))
            }
            "/stats" => {
                only(method, &[Method::GET])?;
                self.may(&head.headers, &head.uri, Role::Read)?;
                match self.gate.get() {
                    Some(gate) => Ok(self.json(StatusCode::OK, &stats(gate).await?)),
                    None => Ok(self.waiting_stats()),
                }
            }
            "/metrics" => {
                only(method, &[Method::GET])?;
                self.may(&head.headers, &head.uri, Role::Read)?;
                let scrape = match self.gate.get() {
                    Some(gate) => metrics::scrape(&stats(gate).await?, &self.traffic),
                    None => self.waiting_metrics(),
                };
                Ok(scrape.respond(&head.headers))
            }
            "/rebuild" => {
                only(method, &[Method::POST])?;
                self.may(&head.headers, &head.uri, Role::Admin)?;
                let wishes = wishes(head.uri.query().unwrap_or_default())?;
                self.rebuild(wishes).await
            }
            doubled if doubled.contains("//") => {
                Err(path::bad_key("the path has two slashes in a row: leave one out, or write one in a key as %2F"))
            }
            _ => Err(Problem::not_found(format!(
                "there is GET {p}KEY{writes}, POST /v1/{t}:batch, GET /explain/KEY, GET /stats, GET /events, POST \
                 /rebuild, GET /healthz, GET /readyz and GET /metrics; the dashboard is at /",
                p = self.prefix,
                writes = if self.options.writes { " (and PUT, DELETE)" } else { "" },
                t = path::encoded(&self.options.table)
            ))),
        }
    }

    /// `/v1/TABLE/KEY` and `/v1/TABLE:batch`.
    async fn rows(&self, head: &Head, rest: &mut Body, below: &str) -> Result<Response<Body>, Problem> {
        let method = &head.method;
        let Some((table, key)) = below.split_once('/') else {
            let table = below.strip_suffix(":batch").or_else(|| below.strip_suffix("%3Abatch")).unwrap_or(below);
            self.is_table(table)?;
            if table.len() == below.len() {
                return Err(path::bad_key(format!("a key is missing: {}KEY", self.prefix)));
            }
            only(method, &[Method::POST])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            return self.batch(rest).await;
        };
        self.is_table(table)?;
        let writes = self.options.writes;
        only(method, if writes { &[Method::GET, Method::PUT, Method::DELETE] } else { &[Method::GET] })?;
        self.may(
            &head.headers,
            &head.uri,
            if matches!(*method, Method::GET | Method::HEAD) { Role::Read } else { Role::Write },
        )?;
        let (gate, key) = (self.gate()?, self.key(key)?);
        let result = match *method {
            Method::PUT => {
                let row = body::read(rest, self.options.row_bytes, self.options.body_time).await?;
                gate.put(key, row).await.map(|()| answers::written("written", gate.state()))
            }
            Method::DELETE => gate.delete(&key).await.map(|was_there| match was_there {
                true => answers::written("deleted", gate.state()),
                false => answers::nothing_deleted(gate.state()),
            }),
            _ => gate.get(&key).await.map(answers::looked_up),
        };
        result.map_err(|error| answers::problem(&error))
    }

    async fn batch(&self, rest: &mut Body) -> Result<Response<Body>, Problem> {
        let gate = self.gate()?;
        let body = body::read(rest, self.options.batch_bytes, self.options.body_time).await?;
        let (text, first) = Asked::parse(&body)?.answer(gate).await?;
        let mut response = answers::json(StatusCode::OK, text);
        let (version, watermark) = match (first, gate.state()) {
            (Some(first), _) => (first.version, first.watermark),
            (None, State::Ready { version, watermark }) => (version, Some(watermark)),
            (None, _) => (0, None),
        };
        answers::name(response.headers_mut(), Some("batch"), version, watermark);
        Ok(response)
    }

    async fn rebuild(self: &Arc<Self>, wishes: Wishes) -> Result<Response<Body>, Problem> {
        let gate = self.gate()?.clone();
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
            let rebuilt = match wishes.accept_fewer {
                true => gate.rebuild_accepting_fewer().await,
                false => gate.rebuild().await,
            };
            desk.rebuilding.store(false, Release);
            rebuilt
        });
        if !wishes.wait {
            let note = r#"{"rebuild":"begun","progress":"/stats"}"#;
            return Ok(answers::json(StatusCode::ACCEPTED, note));
        }
        match running.await {
            Ok(Ok(rebuilt)) => Ok(self.json(StatusCode::OK, &rebuilt)),
            Ok(Err(error)) => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "rebuild-failed",
                "The rebuild failed, and changed nothing",
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
        self.gate()?.parse_key(&path::key(segment)?).map_err(|error| answers::problem(&error))
    }

    pub(super) fn json(&self, status: StatusCode, value: &impl serde::Serialize) -> Response<Body> {
        match serde_json::to_vec_pretty(value) {
            Ok(mut text) => {
                text.push(b'\n');
                answers::json(status, text)
            }
            Err(error) => Problem::internal(format!("the answer cannot be written: {error}")).into_response(),
        }
    }
}

/// The numbers; on a thread that may be busy for a while, since the bits of the filter are counted.
pub(super) async fn stats(gate: &Gate) -> Result<Stats, Problem> {
    let gate = gate.clone();
    let counted = tokio::task::spawn_blocking(move || gate.stats()).await;
    counted.map_err(|_| Problem::internal("counting ended early: try again"))
}

/// What was asked for along with a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Wishes {
    wait: bool,
    accept_fewer: bool,
}

/// Reads the query of a rebuild; what is not understood is refused, not left out.
fn wishes(query: &str) -> Result<Wishes, Problem> {
    let mut wishes = Wishes::default();
    for wish in query.split('&').filter(|wish| !wish.is_empty()) {
        let (name, value) = wish.split_once('=').unwrap_or((wish, "true"));
        let asked = match value {
            "true" | "yes" | "1" => Some(true),
            "false" | "no" | "0" => Some(false),
            _ => None,
        };
        match (name, asked) {
            ("wait", Some(asked)) => wishes.wait = asked,
            ("accept-fewer", Some(asked)) => wishes.accept_fewer = asked,
            _ => {
                let detail = "the query of /rebuild is wait=true, accept-fewer=true, or both with & between them";
                return Err(Problem::bad_request(detail));
            }
        }
    }
    Ok(wishes)
}

/// Refuses other methods than these; where GET is allowed, HEAD is.
pub(super) fn only(method: &Method, allowed: &[Method]) -> Result<(), Problem> {
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
        "loading" if !stats.lists_keys => {
            Ok("every lookup goes on to the source, which has no list of its keys: it only watches".to_owned())
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read_and_typing_errors_told() {
        let both = Wishes { wait: true, accept_fewer: true };
        for (query, read) in [
            ("", Some(Wishes::default())),
            ("wait=true", Some(Wishes { wait: true, accept_fewer: false })),
            ("wait=yes&accept-fewer=1", Some(both)),
            ("wait&accept-fewer", Some(both)),
            ("wait=false", Some(Wishes::default())),
            ("wait=maybe", None),
            ("accept_fewer=true", None),
        ] {
            assert_eq!(wishes(query).ok(), read, "{query}");
        }
    }
}
