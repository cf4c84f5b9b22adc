//! What stands under which path before a table of many tenants: the tenant comes before the key.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::access::Role;
use bloomgate_http::problem::Problem;
use bloomgate_http::{body, health, webhook};

use super::batch::{Answering, Asked};
use super::routes::{Head, Told, first_key, only, wishes};
use super::{Desk, First, answers, deny, metrics, path};
use crate::callers::ClientId;
use crate::key::Key;
use crate::outcome::Answer;
use crate::policy::State;
use crate::tenants::{Tenants, TenantsStats};

/// One tenant, for a batch of its keys.
struct OfTenant<'a>(&'a Tenants, &'a Key);

impl Answering for OfTenant<'_> {
    fn parse_key(&self, text: &str) -> crate::Result<Key> {
        self.0.parse_key(text)
    }

    async fn get_each(&self, keys: &[Key], client: Option<ClientId>) -> crate::Result<Vec<crate::Result<Answer>>> {
        self.0.get_each_by(self.1, keys, client).await
    }
}

/// A lookup that goes on behind the filter.
pub(super) async fn look_up(
    desk: Arc<Desk>,
    tenants: Tenants,
    (tenant, key): (Key, Key),
    client: Option<ClientId>,
) -> Response<Body> {
    match desk.say(tenants.get_by(&tenant, &key, client).await) {
        Ok(response) => response,
        Err(problem) => {
            let mut response = problem.into_response();
            answers::name_by_state(&mut response, tenants.state_of(&tenant));
            response
        }
    }
}

impl Desk {
    /// What can be said of a lookup before anything is waited for; `rest` is the path behind the table.
    pub(super) fn first_of_tenant(&self, rest: &str, peer: Option<IpAddr>, headers: &HeaderMap) -> First {
        let parsed = || {
            let tenants = self.tenants.get()?;
            let (tenant, key) = rest.split_once('/').filter(|(tenant, _)| !tenant.is_empty())?;
            let tenant = tenants.parse_tenant(&path::key(tenant).ok()?).ok()?;
            let key = tenants.parse_key(&path::key(key).ok()?).ok()?;
            Some((tenants, tenant, key))
        };
        let Some((tenants, tenant, key)) = parsed() else { return First::Other };
        match tenants.look(&tenant, &key) {
            Some(answer) => First::Answered(self.template.absent(&answer)),
            None => First::LookupOf(tenants.clone(), tenant, key, self.client(peer, headers)),
        }
    }

    pub(super) fn told_of(&self, tenants: &Tenants) -> Told<TenantsStats> {
        let stats = tenants.stats();
        let first = stats.busiest.first().and_then(|one| {
            let key = first_key(|text| tenants.parse_key(text).is_ok())?;
            Some(format!("{}{}/{key}", self.prefix, path::encoded(&one.tenant)))
        });
        self.told(stats.lookups.absent_by_filter, first, stats)
    }

    fn tenants(&self) -> Result<&Tenants, Problem> {
        self.tenants.get().ok_or_else(|| self.not_there())
    }

    fn tenant(&self, segment: &str) -> Result<Key, Problem> {
        // Two slashes in a row are a typing error far more often than a tenant without a name.
        if segment.is_empty() {
            return Err(path::bad_key("the tenant is missing: a path names one before the key"));
        }
        self.tenants()?.parse_tenant(&path::key(segment)?).map_err(|error| {
            let detail = format!("the tenant is none: {error}");
            Problem::new(StatusCode::BAD_REQUEST, "bad-tenant", "This is no tenant of the table", detail)
        })
    }

    /// A tenant and a key.
    fn pair(&self, below: &str) -> Result<(Key, Key), Problem> {
        let Some((tenant, key)) = below.split_once('/') else {
            return Err(path::bad_key("a key is missing behind the tenant: TENANT/KEY"));
        };
        let tenant = self.tenant(tenant)?;
        let key = self.tenants()?.parse_key(&path::key(key)?).map_err(|error| answers::problem(&error))?;
        Ok((tenant, key))
    }

    pub(super) async fn route_by_tenant(
        self: &Arc<Self>,
        head: &Head,
        rest: &mut Body,
        client: Option<ClientId>,
    ) -> Result<Response<Body>, Problem> {
        let (method, whole) = (&head.method, head.uri.path());
        if let Some(below) = whole.strip_prefix("/v1/") {
            return self.rows_of_tenant(head, rest, below, client).await;
        }
        if let Some(below) = whole.strip_prefix("/explain/") {
            only(method, &[Method::GET])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            let (tenant, key) = self.pair(below)?;
            let explained = self.tenants()?.explain_by(&tenant, &key, client).await;
            let mut explanation = explained.map_err(|error| answers::problem(&error))?;
            if self.is_deny_list() {
                explanation.decision = deny::decision(&explanation, self.options.unconfirmed);
            }
            let mut response = self.json(StatusCode::OK, &explanation);
            answers::name_by_state(&mut response, self.tenants()?.state_of(&tenant));
            return Ok(response);
        }
        if let Some(tenant) = whole.strip_prefix("/stats/") {
            only(method, &[Method::GET])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            let tenant = self.tenant(tenant)?;
            let (tenants, asked) = (self.tenants()?.clone(), tenant.clone());
            // The bits of its filter are counted.
            let counted = tokio::task::spawn_blocking(move || tenants.stats_of(&asked)).await;
            let counted = counted.map_err(|_| Problem::internal("counting ended early: try again"))?;
            let stats = counted.ok_or_else(no_such_tenant)?;
            let mut response = self.json(StatusCode::OK, &stats);
            answers::name_by_state(&mut response, self.tenants()?.state_of(&tenant));
            return Ok(response);
        }
        if let Some(tenant) = whole.strip_prefix("/rebuild/") {
            only(method, &[Method::POST])?;
            self.may(&head.headers, &head.uri, Role::Admin)?;
            let wishes = wishes(head.uri.query().unwrap_or_default())?;
            let (tenant, tenants) = (self.tenant(tenant)?, self.tenants()?.clone());
            if !tenants.has(&tenant) {
                return Err(no_such_tenant());
            }
            let rebuild = async move { tenants.rebuild(&tenant, wishes.accept_fewer).await };
            return self.run_rebuild(wishes, rebuild).await;
        }
        match whole {
            "/healthz" => {
                only(method, &[Method::GET])?;
                Ok(health::healthz().await)
            }
            "/readyz" => {
                only(method, &[Method::GET])?;
                let Some(tenants) = self.tenants.get() else { return Err(self.not_ready()) };
                let stats = tenants.stats();
                Ok(health::readyz(&move || readiness(&stats)))
            }
            "/stats" => {
                only(method, &[Method::GET])?;
                self.may(&head.headers, &head.uri, Role::Read)?;
                match self.tenants.get() {
                    Some(tenants) => Ok(self.json(StatusCode::OK, &self.told_of(tenants))),
                    None => Ok(self.waiting_stats()),
                }
            }
            "/metrics" => {
                only(method, &[Method::GET])?;
                self.may(&head.headers, &head.uri, Role::Read)?;
                let mut scrape = match self.tenants.get() {
                    Some(tenants) => {
                        let (tenants, told, traffic) = (tenants.clone(), self.told_of(tenants), self.traffic.clone());
                        // The bits of the filters with a name are counted.
                        let counted = tokio::task::spawn_blocking(move || {
                            metrics::scrape_tenants(&tenants, &told.stats, told.deny.as_ref(), &traffic)
                        });
                        counted.await.map_err(|_| Problem::internal("counting ended early: try again"))?
                    }
                    None => self.waiting_metrics(),
                };
                webhook::collect(self.webhook.get(), &mut scrape);
                Ok(scrape.respond(&head.headers))
            }
            "/rebuild" => {
                only(method, &[Method::POST])?;
                self.may(&head.headers, &head.uri, Role::Admin)?;
                let wishes = wishes(head.uri.query().unwrap_or_default())?;
                let tenants = self.tenants()?.clone();
                let rebuild = async move { tenants.rebuild_all(wishes.accept_fewer).await };
                self.run_rebuild(wishes, rebuild).await
            }
            doubled if doubled.contains("//") => {
                Err(path::bad_key("the path has two slashes in a row: leave one out, or write one in a key as %2F"))
            }
            _ => Err(Problem::not_found(format!(
                "there is GET {p}TENANT/KEY{writes}, POST {p}TENANT:batch, GET /explain/TENANT/KEY, GET /stats, GET \
                 /stats/TENANT, GET /alerts, POST /rebuild, POST /rebuild/TENANT, GET /healthz, GET /readyz and GET /metrics",
                p = self.prefix,
                writes = if self.options.writes { " (and PUT, DELETE)" } else { "" },
            ))),
        }
    }

    /// `/v1/TABLE/TENANT/KEY` and `/v1/TABLE/TENANT:batch`.
    async fn rows_of_tenant(
        &self,
        head: &Head,
        rest: &mut Body,
        below: &str,
        client: Option<ClientId>,
    ) -> Result<Response<Body>, Problem> {
        let method = &head.method;
        let (table, below) = below.split_once('/').unwrap_or((below, ""));
        self.is_table(table)?;
        if !below.contains('/') {
            let batch = below.strip_suffix(":batch").or_else(|| below.strip_suffix("%3Abatch"));
            let Some(tenant) = batch else {
                return Err(path::bad_key(format!("a tenant and a key are needed: {}TENANT/KEY", self.prefix)));
            };
            only(method, &[Method::POST])?;
            self.may(&head.headers, &head.uri, Role::Read)?;
            return self.batch_of_tenant(rest, tenant, client).await;
        }
        let writes = self.options.writes;
        only(method, if writes { &[Method::GET, Method::PUT, Method::DELETE] } else { &[Method::GET] })?;
        let role = if matches!(*method, Method::GET | Method::HEAD) { Role::Read } else { Role::Write };
        self.may(&head.headers, &head.uri, role)?;
        let (tenants, (tenant, key)) = (self.tenants()?, self.pair(below)?);
        let result = match *method {
            Method::PUT => {
                let row = body::read(rest, self.options.row_bytes, self.options.body_time).await?;
                let put = tenants.put_many_by(&tenant, vec![(key, row)], client).await;
                put.map(|()| answers::written("written", tenants.state_of(&tenant)))
            }
            Method::DELETE => tenants.delete(&tenant, &key).await.map(|was_there| match was_there {
                true => answers::written("deleted", tenants.state_of(&tenant)),
                false => answers::nothing_deleted(tenants.state_of(&tenant)),
            }),
            _ => {
                let looked_up = tenants.get_by(&tenant, &key, client).await;
                return Ok(self.say(looked_up).unwrap_or_else(|problem| {
                    let mut response = problem.into_response();
                    answers::name_by_state(&mut response, tenants.state_of(&tenant));
                    response
                }));
            }
        };
        Ok(result.unwrap_or_else(|error| {
            let mut response = answers::problem(&error).into_response();
            answers::name_by_state(&mut response, tenants.state_of(&tenant));
            response
        }))
    }

    async fn batch_of_tenant(
        &self,
        rest: &mut Body,
        tenant: &str,
        client: Option<ClientId>,
    ) -> Result<Response<Body>, Problem> {
        let (tenants, tenant) = (self.tenants()?, self.tenant(tenant)?);
        let body = body::read(rest, self.options.batch_bytes, self.options.body_time).await?;
        let (text, first) = Asked::parse(&body)?.answer(self, &OfTenant(tenants, &tenant), client).await?;
        let mut response = answers::json(StatusCode::OK, text);
        let (version, watermark) = match (first, tenants.state_of(&tenant)) {
            (Some(first), _) => (first.version, first.watermark),
            (None, State::Ready { version, watermark }) => (version, Some(watermark)),
            (None, _) => (0, None),
        };
        answers::name(response.headers_mut(), Some("batch"), version, watermark);
        Ok(response)
    }
}

fn no_such_tenant() -> Problem {
    Problem::not_found(
        "no tenant of this name is known: /stats tells how many there are, and the busiest of them".to_owned(),
    )
}

/// Whether traffic may come, and why not: as for one gate, by the set of tenants.
fn readiness(stats: &TenantsStats) -> Result<String, String> {
    let closed = stats.policy == "closed";
    let counts = &stats.tenants;
    match stats.state {
        "ready" => Ok(format!("ready: {} of {} tenants have a filter in force", counts.ready, counts.all)),
        _ if closed => Err("the tenants are not all known and the policy is closed".to_owned()),
        _ if stats.scans == 0 && stats.scans_failed == 0 => Err("the filters are being built".to_owned()),
        _ => Ok("loading: lookups of tenants without a filter go on to the source".to_owned()),
    }
}
