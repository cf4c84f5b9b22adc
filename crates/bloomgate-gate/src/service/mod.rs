//! The ready service: HTTP in front of a gate.
//!
//! ```text
//! GET    /v1/TABLE/KEY     200 the row | 404 no such key | 503 not now, by policy | 400 no key at all
//! PUT    /v1/TABLE/KEY     204; only where writes are allowed
//! DELETE /v1/TABLE/KEY     204 | 404 there was none; only where writes are allowed
//! POST   /v1/TABLE:batch   a JSON array of keys, at most 10,000
//! GET    /check/KEY        204 it may exist | 403 it does not, by the filter alone: for auth_request of nginx
//! GET    /explain/KEY      the whole decision about a key
//! GET    /stats            everything the gate tells of itself
//! GET    /alerts           what is wrong now; /runbook has a section for each
//! POST   /rebuild          202; ?wait=true waits for the end, ?accept-fewer=true believes a source that lost most keys
//! GET    /events           the figures once a second, and the alerts when they change, as server-sent events
//! GET    /attack           how far the attack on an embedded catalogue is; POST begins it, POST /attack/stop ends it
//! GET    /healthz /readyz /metrics
//! GET    / and its files   the dashboard; /about.json tells it what this process is, /runbook what to do about alerts
//! ```
//!
//! Of a deny list ([`Meaning::Deny`]) a lookup gives 204 for who is allowed and 403 with the row for who is denied, and so does
//! `/check/KEY`: its "maybe" is confirmed at the source there. A client
//! that is over its cap ([`callers`](crate::callers)) gets a 429 where the source would have to be asked.
//! Before a table of many tenants the tenant stands before the key: `/v1/TABLE/TENANT/KEY`, `/v1/TABLE/TENANT:batch`,
//! `/explain/TENANT/KEY`, `/stats/TENANT`, `/rebuild/TENANT`.
//!
//! Every answer names the filter behind it: `bloomgate-filter-version` and `bloomgate-watermark`, and those about keys
//! what became of them: `bloomgate-outcome`. **Under `/v1` a 404 is said of keys alone**: a wrong table or a key with a
//! bare slash is a 400, so that no client takes a typing error for an absent row. No answer may be cached on the way: a
//! "no" that a proxy repeats after the row was written would be wrong.
//!
//! A lookup that the filter answers is answered where it was read: no router, no task, no future on the heap.

mod alerts;
pub(crate) mod answers;
mod attack;
mod batch;
mod dashboard;
mod deny;
mod metrics;
mod path;
mod routes;
mod tenants;
mod waiting;

use std::convert::Infallible;
use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, Response, Uri};
use axum::response::IntoResponse;
use tokio::net::TcpListener;

pub use crate::clients::{ClientBy, Clients, Network};
pub use bloomgate_http as http;
pub use metrics::TABLE as METRICS;

use crate::callers::ClientId;
use crate::gate::Gate;
use crate::key::Key;
use crate::policy::{Meaning, Unconfirmed};
use crate::tenants::Tenants;
use alerts::Lookout;
use answers::Template;
use attack::Attack;
use bloomgate_http::Served;
use bloomgate_http::access::{Hosts, Role, Tokens};
use bloomgate_http::listen::Traffic;
use bloomgate_http::problem::Problem;
use bloomgate_http::webhook::Webhook;
use deny::Decisions;

/// How a gate is served.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the table in paths.
    pub table: String,
    /// Whether PUT and DELETE are there at all.
    pub writes: bool,
    /// The tokens; without them nobody has to say who it is.
    pub tokens: Option<Tokens>,
    /// With tokens: whether lookups and metrics need none all the same.
    pub open_reads: bool,
    /// Without tokens: the names under which the service may be asked for. `None` for any; then everybody who reaches it
    /// may read, and nobody may write or rebuild.
    pub hosts: Option<Hosts>,
    /// The longest row that PUT takes, in bytes: 1 MiB.
    pub row_bytes: usize,
    /// The longest list of keys that a batch takes, in bytes: 4 MiB.
    pub batch_bytes: usize,
    /// How long a body may take to arrive: 30 s.
    pub body_time: Duration,
    /// What a row means.
    pub meaning: Meaning,
    /// Of a deny list: what becomes of keys that cannot be confirmed.
    pub unconfirmed: Unconfirmed,
    /// How clients are told apart, if the gate has [caps](crate::Builder::callers) on them.
    pub clients: Clients,
    /// Whether paths name a tenant before the key: [`GateService::open_tenants`] instead of [`GateService::open`].
    pub by_tenant: bool,
    /// The program whose `attack` the dashboard offers to admins; without one it does not.
    pub attack: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table: "rows".to_owned(),
            writes: false,
            tokens: None,
            open_reads: false,
            hosts: Some(Hosts::default()),
            row_bytes: 1 << 20,
            batch_bytes: 4 << 20,
            body_time: Duration::from_secs(30),
            meaning: Meaning::default(),
            unconfirmed: Unconfirmed::default(),
            clients: Clients::default(),
            by_tenant: false,
            attack: None,
        }
    }
}

/// Serves a gate until `shutdown` ends, then lets what is under way end. The gate is started and stopped by the caller.
pub async fn serve<F: Future<Output = ()>>(
    listener: TcpListener,
    gate: Gate,
    options: Options,
    http: bloomgate_http::Options,
    shutdown: F,
) -> Served {
    let service = GateService::new(gate, options, http.traffic.clone());
    service.serve(listener, http, shutdown).await
}

/// A gate as an HTTP service. Clones share one.
#[derive(Clone)]
pub struct GateService {
    desk: Arc<Desk>,
    /// Where the requests come from, if that is known.
    peer: Option<IpAddr>,
}

impl GateService {
    /// The service of a gate; `traffic` is the listener's, for the metrics.
    pub fn new(gate: Gate, options: Options, traffic: Arc<Traffic>) -> Self {
        let service = Self::waiting(options, traffic);
        service.open(gate);
        service
    }

    /// A service whose gate is not there yet, since its source cannot be reached: every lookup is refused with 503 until
    /// [`open`](Self::open).
    pub fn waiting(options: Options, traffic: Arc<Traffic>) -> Self {
        let desk = Desk {
            prefix: path::encoded_prefix(&options.table),
            template: Template::new(options.meaning),
            decisions: Decisions::default(),
            rebuilding: AtomicBool::new(false),
            gate: OnceLock::new(),
            tenants: OnceLock::new(),
            more: OnceLock::new(),
            webhook: OnceLock::new(),
            lookout: Mutex::default(),
            waits_for: Mutex::default(),
            attack: options.attack.clone().map(Attack::by),
            watching: AtomicUsize::new(0),
            options,
            traffic,
        };
        Self { desk: Arc::new(desk), peer: None }
    }

    /// The same service for the requests of one connection, which come from this address. Without it nobody knows whose
    /// requests they are, and no cap on single clients holds.
    #[must_use]
    pub fn of(&self, peer: IpAddr) -> Self {
        Self { desk: self.desk.clone(), peer: Some(peer) }
    }

    /// Serves, and looks for alerts meanwhile.
    async fn serve<F: Future<Output = ()>>(
        self,
        listener: TcpListener,
        http: bloomgate_http::Options,
        shutdown: F,
    ) -> Served {
        let answering = self.clone();
        tokio::select! {
            served = bloomgate_http::serve_each(listener, move |peer| answering.of(peer.address.ip()), http, shutdown) => served,
            never = self.watch_alerts(None) => match never {},
        }
    }

    /// Says what is waited for.
    pub fn waits_for(&self, what: impl Into<String>) {
        *self.desk.waits_for.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// The gate, once it is there.
    #[must_use]
    pub fn gate(&self) -> Option<&Gate> {
        self.desk.gate.get()
    }

    /// Adds what others count to the metrics. Only the first one counts.
    pub fn also_collect(&self, collect: impl Fn(&mut bloomgate_http::metrics::Scrape) + Send + Sync + 'static) {
        let _ = self.desk.more.set(Box::new(collect));
    }

    /// The gate is there. Only the first one counts.
    pub fn open(&self, gate: Gate) {
        if self.desk.options.writes {
            gate.expect_writes();
        }
        let _ = self.desk.gate.set(gate);
    }

    /// The gates of tenants, once they are there.
    #[must_use]
    pub fn tenants(&self) -> Option<&Tenants> {
        self.desk.tenants.get()
    }

    /// The gates of tenants are there. Only the first ones count.
    pub fn open_tenants(&self, tenants: Tenants) {
        if self.desk.options.writes {
            tenants.expect_writes();
        }
        let _ = self.desk.tenants.set(tenants);
    }
}

/// Serves the gates of many tenants: see [`serve`].
pub async fn serve_tenants<F: Future<Output = ()>>(
    listener: TcpListener,
    tenants: Tenants,
    options: Options,
    http: bloomgate_http::Options,
    shutdown: F,
) -> Served {
    let service = GateService::waiting(Options { by_tenant: true, ..options }, http.traffic.clone());
    service.open_tenants(tenants);
    service.serve(listener, http, shutdown).await
}

/// Adds to a scrape.
type Collect = Box<dyn Fn(&mut bloomgate_http::metrics::Scrape) + Send + Sync>;

/// What answering needs.
struct Desk {
    /// Those of many tenants, in the place of one gate.
    tenants: OnceLock<Tenants>,
    /// Nothing while its source could not be reached yet.
    gate: OnceLock<Gate>,
    /// Who else has metrics.
    more: OnceLock<Collect>,
    /// Who is told when an alert begins or ends.
    webhook: OnceLock<Webhook>,
    /// What is wrong, as of the last look.
    lookout: Mutex<Lookout>,
    /// Why there is no gate.
    waits_for: Mutex<String>,
    options: Options,
    traffic: Arc<Traffic>,
    /// `/v1/TABLE/`, as most clients write it.
    prefix: String,
    template: Template,
    /// What was decided, of a deny list.
    decisions: Decisions,
    /// Whether a rebuild that was asked for has not ended yet.
    rebuilding: AtomicBool,
    attack: Option<Attack>,
    /// Streams of events under way.
    watching: AtomicUsize,
}

/// What can be said of a request before anything is waited for.
enum First {
    /// The filter alone gave the answer.
    Answered(Response<Body>),
    /// It is a lookup that goes on, of a client that may.
    Lookup(Gate, Key, Option<ClientId>),
    /// The same for a key of a tenant.
    LookupOf(Tenants, Key, Key, Option<ClientId>),
    /// Something else, or something wrong: the routes say what.
    Other,
}

impl Desk {
    fn first(&self, request: &Request<Body>, peer: Option<IpAddr>) -> First {
        let Some(rest) = request.uri().path().strip_prefix(&self.prefix) else { return First::Other };
        if request.method() != Method::GET || self.may(request.headers(), request.uri(), Role::Read).is_err() {
            return First::Other;
        }
        if self.options.by_tenant {
            return self.first_of_tenant(rest, peer, request.headers());
        }
        let Some(gate) = self.gate.get() else { return First::Other };
        let key = path::key(rest).ok().and_then(|text| gate.parse_key(&text).ok());
        let Some(key) = key else { return First::Other };
        match gate.look(&key) {
            Some(answer) => First::Answered(self.template.absent(&answer)),
            None => First::Lookup(gate.clone(), key, self.client(peer, request.headers())),
        }
    }

    /// Whose request it is, if anybody counts.
    fn client(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Option<ClientId> {
        let of_tenants = || self.tenants.get().and_then(Tenants::callers);
        self.gate.get().and_then(Gate::callers).or_else(of_tenants)?;
        Some(self.options.clients.of(peer?, headers))
    }

    /// Whether a request may do what needs a role.
    fn may(&self, headers: &HeaderMap, uri: &Uri, role: Role) -> Result<(), Problem> {
        match (&self.options.tokens, &self.options.hosts) {
            (Some(_), _) if role == Role::Read && self.options.open_reads => Ok(()),
            (Some(tokens), _) => tokens.check(headers, role).map(|_| ()),
            // A page of another port of this machine is another site's too: it may neither write nor rebuild.
            (None, Some(hosts)) => {
                hosts.check(headers, uri).and(Hosts::check_same_site(headers, uri)).map_err(|problem| {
                    // A 403 of a deny list is said of keys.
                    if self.is_deny_list() && role == Role::Read { deny::misdirected(&problem) } else { problem }
                })
            }
            (None, None) if role == Role::Read => Ok(()),
            (None, None) => Err(Problem::forbidden(format!(
                "this needs a token of the role {role}, and the service has none: set a file of tokens"
            ))),
        }
    }
}

/// A lookup that goes on behind the filter.
async fn look_up(desk: Arc<Desk>, gate: Gate, key: Key, client: Option<ClientId>) -> Response<Body> {
    match desk.say(gate.get_by(&key, client).await) {
        Ok(response) => response,
        Err(problem) => {
            let mut response = problem.into_response();
            answers::name_by_state(&mut response, gate.state());
            response
        }
    }
}

impl bloomgate_http::Service<Request<Body>> for GateService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answering {
        // A future of its own for lookups: that of all routes together is several times as large.
        Answering(match self.desk.first(&request, self.peer) {
            First::Answered(response) => Step::Now(Some(response)),
            First::Lookup(gate, key, client) => Step::Later(Box::pin(look_up(self.desk.clone(), gate, key, client))),
            First::LookupOf(tenants, tenant, key, client) => {
                Step::Later(Box::pin(tenants::look_up(self.desk.clone(), tenants, (tenant, key), client)))
            }
            First::Other => Step::Later(Box::pin(self.desk.clone().answer(request, self.peer))),
        })
    }
}

/// An answer that is there, or on its way.
pub struct Answering(Step);

enum Step {
    Now(Option<Response<Body>>),
    Later(Pin<Box<dyn Future<Output = Response<Body>> + Send>>),
}

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            // Taken once: nobody polls a future that has ended.
            Step::Now(response) => response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response))),
            Step::Later(answer) => answer.as_mut().poll(context).map(Ok),
        }
    }
}
