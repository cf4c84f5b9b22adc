//! What stands under which path, and who may ask for it.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::access::Role;
use bloomgate_http::problem::Problem;
use bloomgate_http::{body, health, webhook};

use super::batch::Asked;
use super::deny::{self, Decided};
use super::{Desk, answers, dashboard, metrics, path};
use crate::callers::ClientId;
use crate::error::{Error, ErrorKind};
use crate::gate::Gate;
use crate::key::Key;
use crate::policy::{Policy, State};
use crate::rules::{self, Reading};
use crate::stats::Stats;
use crate::tenants::Tenants;

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
    pub(super) async fn answer(self: Arc<Self>, request: Request<Body>, peer: Option<IpAddr>) -> Response<Body> {
        let (head, mut rest) = request.into_parts();
        if let Some(page) = dashboard::page(&head) {
            return page;
        }
        let client = self.client(peer, &head.headers);
        let routed = match self.dashboard(&head, &mut rest).await {
            Some(answered) => answered,
            None if self.options.by_tenant => self.route_by_tenant(&head, &mut rest, client).await,
            None => self.route(&head, &mut rest, client).await,
        };
        let mut response = routed.unwrap_or_else(IntoResponse::into_response);
        body::discard(&mut rest, UNWANTED, UNWANTED_TIME.min(self.options.body_time)).await;
        let of_tenants = self.tenants.get().map_or(State::Loading, Tenants::state);
        answers::name_by_state(&mut response, self.gate.get().map_or(of_tenants, Gate::state));
        response
    }

    /// The gate, if it is there.
    fn gate(&self) -> Result<&Gate, Problem> {
        self.gate.get().ok_or_else(|| self.not_there())
    }

    async fn route(
        self: &Arc<Self>,
        head: &Head,
        rest: &mut Body,
        client: Option<ClientId>,
    ) -> Result<Response<Body>, Problem> {
        let (method, whole) = (&head.method, head.uri.path());
        if let Some(below) = whole.strip_prefix("/v1/") {
            return self.rows(head, rest, below, client).await;
        }
        if let Some(key) = whole.strip_prefix("/check/") {
            only(method, &[Method::GET])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            if self.is_deny_list() {
                return self.confirm(key, client).await;
            }
            return self.check(key).await;
        }
        if let Some(key) = whole.strip_prefix("/explain/") {
            only(method, &[Method::GET])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            let key = self.key(key)?;
            let explained = self.gate()?.explain_by(&key, client).await;
            let mut explanation = explained.map_err(|error| answers::problem(&error))?;
            if self.is_deny_list() {
                explanation.decision = deny::decision(&explanation, self.options.unconfirmed);
            }
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
                    Some(gate) => Ok(self.json(StatusCode::OK, &self.told_of_gate(gate).await?)),
                    None => Ok(self.waiting_stats()),
                }
            }
            "/metrics" => {
                only(method, &[Method::GET])?;
                self.may(&head.headers, &head.uri, Role::Read)?;
                let mut scrape = match self.gate.get() {
                    Some(gate) => {
                        let told = self.told_of_gate(gate).await?;
                        metrics::scrape(&told.stats, &gate.inner.times, told.deny.as_ref(), &self.traffic)
                    }
                    None => self.waiting_metrics(),
                };
                if let Some(collect) = self.more.get() {
                    collect(&mut scrape);
                }
                webhook::collect(self.webhook.get(), &mut scrape);
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
                "there is GET {p}KEY{writes}, POST /v1/{t}:batch, GET /check/KEY, GET /explain/KEY, GET /stats, GET /alerts, GET /events, \
                 POST /rebuild, GET /healthz, GET /readyz and GET /metrics; the dashboard is at /",
                p = self.prefix,
                writes = if self.options.writes { " (and PUT, DELETE)" } else { "" },
                t = path::encoded(&self.options.table)
            ))),
        }
    }

    /// `/v1/TABLE/KEY` and `/v1/TABLE:batch`.
    async fn rows(
        &self,
        head: &Head,
        rest: &mut Body,
        below: &str,
        client: Option<ClientId>,
    ) -> Result<Response<Body>, Problem> {
        let method = &head.method;
        let Some((table, key)) = below.split_once('/') else {
            let table = below.strip_suffix(":batch").or_else(|| below.strip_suffix("%3Abatch")).unwrap_or(below);
            self.is_table(table)?;
            if table.len() == below.len() {
                return Err(path::bad_key(format!("a key is missing: {}KEY", self.prefix)));
            }
            only(method, &[Method::POST])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            return self.batch(rest, client).await;
        };
        self.is_table(table)?;
        let writes = self.options.writes;
        only(method, if writes { &[Method::GET, Method::PUT, Method::DELETE] } else { &[Method::GET] })?;
        let is_lookup = matches!(*method, Method::GET | Method::HEAD);
        self.may(&head.headers, &head.uri, if is_lookup { Role::Read } else { Role::Write })?;
        if is_lookup && self.gate.get().is_none() && self.lets_pass(&Error::new(ErrorKind::Source, "")) {
            return Ok(self.unconfirmed());
        }
        let (gate, key) = (self.gate()?, self.key(key)?);
        let result = match *method {
            Method::PUT => {
                let row = body::read(rest, self.options.row_bytes, self.options.body_time).await?;
                gate.put_many_by(vec![(key, row)], client).await.map(|()| answers::written("written", gate.state()))
            }
            Method::DELETE => gate.delete(&key).await.map(|was_there| match was_there {
                true => answers::written("deleted", gate.state()),
                false => answers::nothing_deleted(gate.state()),
            }),
            _ => return self.say(gate.get_by(&key, client).await),
        };
        result.map_err(|error| answers::problem(&error))
    }

    /// Whether a key is allowed, as a lookup of its row says it: 403 is said to a proxy, and nobody is denied by the filter
    /// alone. A key that cannot be read is an error (400), neither the one nor the other. What is behind the proxy may read
    /// the key in another way: a row of any reading denies.
    async fn confirm(&self, segment: &str, client: Option<ClientId>) -> Result<Response<Body>, Problem> {
        if self.gate.get().is_none() && self.lets_pass(&Error::new(ErrorKind::Source, "")) {
            return Ok(self.unconfirmed());
        }
        let (gate, key) = (self.gate()?, self.key(segment)?);
        let read = crate::rules::every_reading(segment);
        let others = read.iter().filter_map(|text| gate.parse_key(text).ok()).filter(|other| *other != key);
        // The first that could not be confirmed and passes, unless another one denies: the source may be gone, and a ban be in
        // the cache.
        let mut unconfirmed = None;
        for other in others {
            match gate.get_by(&other, client).await {
                Ok(answer) if answer.row.is_none() => {}
                Ok(answer) => return self.say(Ok(answer)),
                Err(error) if self.lets_pass(&error) => unconfirmed = unconfirmed.or(Some(error)),
                Err(error) => return self.say(Err(error)),
            }
        }
        match gate.get_by(&key, client).await {
            Ok(answer) if answer.row.is_none() => self.say(unconfirmed.map_or(Ok(answer), Err)),
            said => self.say(said),
        }
    }

    /// Whether a key may exist, by the filter alone. What cannot be read with certainty may.
    async fn check(&self, segment: &str) -> Result<Response<Body>, Problem> {
        let gate = self.gate()?;
        let keys: Option<Vec<Key>> = match rules::segment(segment) {
            Reading::Key(text, written) => {
                std::iter::once(&*text).chain(written).map(|text| gate.parse_key(text).ok()).collect()
            }
            Reading::OneOf(texts) => rules::keys_of(&texts, |text| gate.parse_key(text).ok()),
            Reading::Other | Reading::Unsure => None,
        };
        let Some(keys) = keys else { return Ok(answers::written("unjudged", gate.state())) };
        match gate.check(&keys).await.map_err(|error| answers::problem(&error))? {
            None => Ok(answers::written("maybe", gate.state())),
            Some(answer) => {
                let mut response = answers::written(answer.outcome.name(), gate.state());
                *response.status_mut() = StatusCode::FORBIDDEN;
                Ok(response)
            }
        }
    }

    async fn batch(&self, rest: &mut Body, client: Option<ClientId>) -> Result<Response<Body>, Problem> {
        let gate = self.gate()?;
        let body = body::read(rest, self.options.batch_bytes, self.options.body_time).await?;
        let (text, first) = Asked::parse(&body)?.answer(self, gate, client).await?;
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
        let rebuild = async move {
            match wishes.accept_fewer {
                true => gate.rebuild_accepting_fewer().await,
                false => gate.rebuild().await,
            }
        };
        self.run_rebuild(wishes, rebuild).await
    }

    /// Runs a rebuild, one at a time, and waits for it if that was asked for.
    pub(super) async fn run_rebuild<T: serde::Serialize + Send + 'static>(
        self: &Arc<Self>,
        wishes: Wishes,
        rebuild: impl Future<Output = crate::Result<T>> + Send + 'static,
    ) -> Result<Response<Body>, Problem> {
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
            let rebuilt = rebuild.await;
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

    /// What the gate tells of itself, and what was decided by it.
    pub(super) fn told<S>(&self, absent_by_filter: u64, first_lookup: Option<String>, stats: S) -> Told<S> {
        let deny = self.is_deny_list().then(|| self.decisions.told(absent_by_filter));
        Told { meaning: self.options.meaning.name(), first_lookup, deny, stats }
    }

    pub(super) async fn told_of_gate(&self, gate: &Gate) -> Result<Told<Stats>, Problem> {
        let stats = stats(gate).await?;
        let first = first_key(|text| gate.parse_key(text).is_ok()).map(|key| format!("{}{key}", self.prefix));
        Ok(self.told(stats.lookups.absent_by_filter, first, stats))
    }

    pub(super) fn is_table(&self, segment: &str) -> Result<(), Problem> {
        if path::decoded(segment).is_some_and(|table| table == self.options.table) {
            return Ok(());
        }
        let tenant = if self.options.by_tenant { "TENANT/" } else { "" };
        let detail = format!("the table here is {}: ask for {}{tenant}KEY", self.options.table, self.prefix);
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

/// What `/stats` tells.
#[derive(serde::Serialize)]
pub(super) struct Told<S> {
    #[serde(flatten)]
    pub stats: S,
    /// `present` or `deny`.
    meaning: &'static str,
    /// The path of a lookup to begin with; none if the column takes none of the keys that are thought of.
    first_lookup: Option<String>,
    /// What was decided, of a deny list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<Decided>,
}

/// A key that hardly exists, as a column of this type spells it.
pub(super) fn first_key(is_key: impl Fn(&str) -> bool) -> Option<&'static str> {
    ["no-such-key", "-1", "0", "00000000-0000-0000-0000-000000000000"].into_iter().find(|key| is_key(key))
}

/// The numbers; on a thread that may be busy for a while, since the bits of the filter are counted.
async fn stats(gate: &Gate) -> Result<Stats, Problem> {
    let gate = gate.clone();
    let counted = tokio::task::spawn_blocking(move || gate.stats()).await;
    counted.map_err(|_| Problem::internal("counting ended early: try again"))
}

/// What was asked for along with a rebuild.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wishes {
    wait: bool,
    pub(super) accept_fewer: bool,
}

/// Reads the query of a rebuild; what is not understood is refused, not left out.
pub(super) fn wishes(query: &str) -> Result<Wishes, Problem> {
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
