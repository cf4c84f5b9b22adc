//! The gate as a reverse proxy: lookups of absent keys are answered with 404, everything else passes untouched.
//!
//! ```text
//!            ┌── no: 404
//!  GET ──▶ rules ─▶ filter ── maybe ──────────────────────────────────▶ upstream ─▶ streamed back
//!  PUT ──▶ rules ─▶ filter takes the key ─────────────────────────────▶ upstream ─▶ streamed back
//!  POST /collection ──────────────────────────────────────────────────▶ upstream ─▶ filter takes the new key ─▶ released
//! ```
//!
//! Bodies are streamed both ways, piece by piece; nothing is buffered but the answers that tell a new key, and the requests that
//! ask for one, up to a limit. Clients speak HTTP/1.1 or HTTP/2, the upstream HTTP/1.1.
//!
//! A key is looked up only where it can be read with certainty ([`Rule`]): whatever the upstream may take for another
//! spelling of a key passes.

mod begun;
mod body;
mod dial;
mod headers;
mod metrics;
mod new_key;
mod patience;
mod sending;
mod tunnel;
mod writing;

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::response::IntoResponse;
use bloomgate_http::metrics::Scrape;
use bloomgate_http::problem::Problem;
use bloomgate_http::{Peer, Served};
use bytes::Bytes;
use hyper::body::{Body as _, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, StatusCode, Version};
use tokio::net::TcpListener;

pub use crate::rules::{Exception, Rule};
pub use crate::statuses::KeyStatuses;
pub use begun::Longer;
pub use body::{BodyError, ProxyBody};
pub use headers::{Forwarding, Host};
pub use metrics::TABLE as METRICS;
pub use new_key::NewKey;

use crate::callers::{ClientId, Place};
use crate::error::Result;
use crate::gate::{Gate, Judgement, Passed, Seen};
use crate::outcome::Answer;
use crate::policy::Meaning;
use crate::requests::{self, Certainty, Kind};
use crate::service::Clients;
use crate::service::answers::{self, ABSENT, Template};
use begun::Room;
use body::Paced;
use headers::{Client, Onward};
use metrics::{Counts, one};
use patience::Timers;
use sending::Trouble;

/// How a proxy passes things on.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is behind it: `http://catalog:8080`, or `https://`.
    pub upstream: String,
    /// For `https`: the file of the authorities it is checked by; the system's if there is none.
    pub upstream_ca: Option<PathBuf>,
    /// Where the key is in a request. The first rule that fits a lookup counts.
    pub rules: Vec<Rule>,
    /// Where lookups pass though a rule finds a key: fixed routes beside the keys.
    pub exceptions: Vec<Exception>,
    /// Where an answer tells a key that was made by the upstream.
    pub new_key: NewKey,
    /// Which answers may have made one.
    pub new_key_status: KeyStatuses,
    /// How much of such an answer is read before it is released, and how much of such a request at least before it is passed on:
    /// 64 KiB.
    pub new_key_bytes: usize,
    /// Such a request is read whole before it is passed on if it is not longer than this: 1 MiB. One that breaks off has reached
    /// nobody then.
    pub whole_body: usize,
    /// What these requests take together, beyond the first 64 KiB of each: 64 MiB.
    pub whole_memory: usize,
    /// What becomes of those that are longer, or for which there is no room.
    pub longer: Longer,
    /// Which `Host` is sent on.
    pub host: Host,
    /// How the upstream is told who asked.
    pub forwarding: Forwarding,
    /// How long a connection to the upstream may take: 2 s.
    pub connect_time: Duration,
    /// How long an answer may take to begin once the request was sent: 60 s.
    pub answer_time: Duration,
    /// How long a body, or a WebSocket, may be silent: 60 s.
    pub idle_time: Duration,
    /// Whether answers that passed say so, by `bloomgate-outcome`.
    pub outcome_header: bool,
    /// Whether lookups are refused while there is no gate yet: the policy `closed`.
    pub closed: bool,
    /// How clients are told apart, if the gate has [caps](crate::Builder::callers) on them.
    pub clients: Clients,
}

impl Options {
    /// The usual ones for an upstream and where the key is.
    #[must_use]
    pub fn new(upstream: impl Into<String>, rules: Vec<Rule>) -> Self {
        Self {
            upstream: upstream.into(),
            upstream_ca: None,
            rules,
            exceptions: Vec::new(),
            new_key: NewKey::default(),
            new_key_status: KeyStatuses::default(),
            new_key_bytes: 64 << 10,
            whole_body: 1 << 20,
            whole_memory: 64 << 20,
            longer: Longer::default(),
            host: Host::default(),
            forwarding: Forwarding::default(),
            connect_time: Duration::from_secs(2),
            answer_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(60),
            outcome_header: false,
            closed: false,
            clients: Clients::default(),
        }
    }
}

/// A reverse proxy. A handle: clones share one.
#[derive(Clone)]
pub struct Proxy {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    onward: Onward,
    client: dial::Asking,
    /// Nothing while its source could not be reached yet.
    gate: OnceLock<Gate>,
    template: Template,
    counts: Counts,
    timers: Arc<Timers>,
    /// For bodies that are read whole before they are passed on.
    room: Arc<Room>,
}

impl Proxy {
    /// A proxy without a gate: lookups pass and writes are refused until [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// An upstream that is no URL of a host, and authorities that cannot be read.
    pub fn new(options: Options) -> Result<Self> {
        let (scheme, authority) = dial::parse(&options.upstream)?;
        let ca = options.upstream_ca.as_deref();
        let client = dial::client(&scheme, &authority, ca, options.connect_time)?;
        let onward = Onward {
            authority_value: HeaderValue::try_from(authority.as_str())
                .map_err(|error| crate::Error::new(crate::ErrorKind::Invalid, format!("the upstream: {error}")))?,
            scheme,
            authority,
            host: options.host.clone(),
            forwarding: options.forwarding,
        };
        let shared = Shared {
            room: Room::of(options.whole_memory),
            options,
            onward,
            client,
            gate: OnceLock::new(),
            template: Template::new(Meaning::Present),
            counts: Counts::default(),
            timers: Arc::default(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The gate is there. Only the first one counts.
    pub fn open(&self, gate: Gate) {
        gate.expect_writes();
        let _ = self.shared.gate.set(gate);
    }

    /// The gate, once it is there.
    #[must_use]
    pub fn gate(&self) -> Option<&Gate> {
        self.shared.gate.get()
    }

    /// Adds what was counted to a scrape.
    pub fn collect(&self, scrape: &mut Scrape) {
        self.shared.counts.collect(scrape);
    }

    /// The service of one connection.
    #[must_use]
    pub fn guest(&self, peer: Peer) -> Guest {
        let client = Client::new(peer.address, peer.secure);
        Guest { shared: self.shared.clone(), from: Arc::new(From { peer, client }) }
    }

    /// Serves until `shutdown` ends, then lets what is under way end. The gate is started and stopped by the caller.
    pub async fn serve<F: Future<Output = ()>>(
        &self,
        listener: TcpListener,
        http: bloomgate_http::Options,
        shutdown: F,
    ) -> Served {
        let proxy = self.clone();
        bloomgate_http::serve_streams(listener, move |peer| proxy.guest(peer), http, shutdown).await
    }
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Proxy").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

/// Where requests come from.
struct From {
    peer: Peer,
    client: Client,
}

/// A lookup that passed, and its client's place under the cap.
#[derive(Default)]
struct Through {
    /// Nothing if no key could be judged.
    judged: Option<(Passed, Certainty)>,
    place: Option<Place>,
}

impl Through {
    /// Whether somebody counts what comes of it.
    fn is_counted(&self) -> bool {
        requests::is_counted(self.place.as_ref())
    }
}

/// The proxy for one connection.
#[derive(Clone)]
pub struct Guest {
    shared: Arc<Shared>,
    from: Arc<From>,
}

impl hyper::service::Service<Request<Incoming>> for Guest {
    type Response = Response<ProxyBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Response<ProxyBody>, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (shared, from) = (self.shared.clone(), self.from.clone());
        Box::pin(async move { Ok(shared.answer(from, request).await) })
    }
}

/// Why a request is never passed on, if it is not.
fn not_passed(head: &Parts) -> Option<Problem> {
    let detail = match head.method {
        Method::CONNECT => "CONNECT asks for a proxy to anywhere, and this one leads to one place",
        _ if !head.uri.path().starts_with('/') => "the target * is about the proxy itself: ask for a path",
        _ => return None,
    };
    Some(Problem::new(StatusCode::NOT_IMPLEMENTED, "not-passed", "This is not passed on", detail))
}

impl Shared {
    async fn answer(self: Arc<Self>, from: Arc<From>, mut request: Request<Incoming>) -> Response<ProxyBody> {
        let websocket = headers::wants_websocket(request.version(), request.headers());
        let leaving = websocket.then(|| hyper::upgrade::on(&mut request));
        let (head, body) = request.into_parts();
        if let Some(problem) = not_passed(&head) {
            return self.refuse(&problem);
        }
        let through = match requests::kind(&head.method, &head.headers) {
            Kind::Write => return Box::pin(self.write(from, head, body)).await,
            Kind::Removal => return Box::pin(self.remove(from, head, body)).await,
            Kind::Other => match self.place(&from, &head).await {
                Err(response) => return response,
                Ok(place) => {
                    one(&self.counts.unjudged);
                    Some(Through { judged: None, place })
                }
            },
            Kind::Lookup => match self.judge(&from, &head).await {
                Err(response) => return response,
                Ok(through) => through,
            },
        };
        if through.as_ref().is_some_and(Through::is_counted) {
            let task = tokio::spawn(async move { self.pass(&from, head, body, leaving, through).await });
            return ended(task).await;
        }
        self.pass(&from, head, body, leaving, through).await
    }

    /// What the gate says of a lookup: the answer if it does not pass. **The one place where a lookup is stopped.**
    async fn judge(&self, from: &From, head: &Parts) -> std::result::Result<Option<Through>, Response<ProxyBody>> {
        let Some(gate) = self.gate.get() else {
            if self.options.closed {
                let why = "the keys could not be read yet, and the policy is closed";
                return Err(self.refuse(&Problem::unavailable(why, Duration::from_secs(1))));
            }
            one(&self.counts.unjudged);
            return Ok(None);
        };
        let judged = match requests::asked(gate, &self.options.rules, &self.options.exceptions, head) {
            None => None,
            Some(asked) => match gate.judge(asked.keys()).await {
                Ok(Judgement::Absent(answer)) => return Err(self.absent(&answer)),
                Ok(Judgement::Passed(passed)) => Some((passed, asked.certainty())),
                Err(error) => return Err(self.refuse(&answers::problem(&error))),
            },
        };
        // What could not be judged needs a place too: who spells absent keys oddly is held by the cap like everybody else.
        let place = self.place(from, head).await?;
        one(if judged.is_some() { &self.counts.passed } else { &self.counts.unjudged });
        Ok(Some(Through { judged, place }))
    }

    /// Leave for one more request of a client, of whatever method: whoever may look up by another one than `GET`, or says so in a
    /// header, is held by the cap on misses like everybody else.
    async fn place(&self, from: &From, head: &Parts) -> std::result::Result<Option<Place>, Response<ProxyBody>> {
        let Some(gate) = self.gate.get() else { return Ok(None) };
        gate.inner.place(self.client(from, head)).await.map_err(|capped| {
            gate.inner.count_failure(Some(&capped));
            self.refuse(&answers::problem(&capped))
        })
    }

    /// Whose request it is, if anybody counts.
    fn client(&self, from: &From, head: &Parts) -> Option<ClientId> {
        self.gate.get()?.callers()?;
        Some(self.options.clients.of(from.peer.address.ip(), &head.headers))
    }

    /// What came of a lookup that passed. **The one place where it is known that it found nothing.**
    fn looked_up(&self, judged: Option<(Passed, Certainty)>, status: Option<StatusCode>) {
        let (Some((passed, certainty)), Some(gate)) = (judged, self.gate.get()) else { return };
        gate.saw(passed, status.map_or(Seen::Failed, |status| certainty.seen(status)));
    }

    /// Passes a request on that changes nothing, and its answer back.
    async fn pass(
        &self,
        from: &From,
        mut head: Parts,
        body: Incoming,
        leaving: Option<hyper::upgrade::OnUpgrade>,
        through: Option<Through>,
    ) -> Response<ProxyBody> {
        let has_body = !body.is_end_stream();
        let Through { judged, place } = through.unwrap_or_default();
        if let Err(why) = headers::onward(&mut head, &from.client, &self.onward, has_body, leaving.is_some()) {
            self.looked_up(judged, None);
            return self.refuse(&Problem::bad_request(why));
        }
        let sent = match has_body {
            false => self.send_idempotent(head).await,
            true => self.send(head, body).await,
        };
        self.looked_up(judged, sent.as_ref().ok().map(Response::status));
        sending::leave(place, &sent);
        match sent {
            Err(trouble) => self.troubled(&trouble),
            Ok(mut response) => {
                if response.status() == StatusCode::SWITCHING_PROTOCOLS {
                    return self.leave_http(from, leaving, &mut response);
                }
                self.release(response, judged.map(|(passed, _)| ("passed", passed)))
            }
        }
    }

    /// A body whose pieces are waited for as long as they may take.
    fn paced(&self, body: Incoming) -> Paced {
        Paced::new(body, self.options.idle_time, &self.timers)
    }

    /// An answer as it goes back: its body is streamed.
    fn release(&self, response: Response<Incoming>, outcome: Option<(&'static str, Passed)>) -> Response<ProxyBody> {
        let (mut head, body) = response.into_parts();
        headers::back(&mut head.headers);
        head.version = Version::HTTP_11;
        head.extensions.clear();
        if let Some((outcome, passed)) = outcome.filter(|_| self.options.outcome_header) {
            name(&mut head.headers, outcome, passed);
        }
        Response::from_parts(head, ProxyBody::stream(self.paced(body)))
    }

    /// The upstream leaves HTTP, and the client with it, if it asked for that.
    fn leave_http(
        &self,
        from: &From,
        leaving: Option<hyper::upgrade::OnUpgrade>,
        response: &mut Response<Incoming>,
    ) -> Response<ProxyBody> {
        let Some(leaving) = leaving else {
            return self
                .troubled(&Trouble::Broke("the upstream changed the protocol, and nobody had asked for it".into()));
        };
        one(&self.counts.tunnels);
        tunnel::begin(leaving, hyper::upgrade::on(&mut *response), from.peer.clone(), self.options.idle_time);
        let mut answer = Response::new(ProxyBody::from(Bytes::new()));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let mut headers = std::mem::take(response.headers_mut());
        headers::back(&mut headers);
        headers.insert(hyper::header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(hyper::header::UPGRADE, HeaderValue::from_static("websocket"));
        *answer.headers_mut() = headers;
        answer
    }

    /// The "no" of the filter.
    fn absent(&self, answer: &Answer) -> Response<ProxyBody> {
        one(&self.counts.absent);
        let mut response = Response::new(ProxyBody::from(Bytes::from_static(ABSENT.as_bytes())));
        *response.status_mut() = StatusCode::NOT_FOUND;
        *response.headers_mut() = self.template.headers(answer);
        response
    }

    /// A request that is not passed on.
    fn refuse(&self, problem: &Problem) -> Response<ProxyBody> {
        one(&self.counts.refused);
        told(problem)
    }

    /// A request that the upstream did not answer.
    fn troubled(&self, trouble: &Trouble) -> Response<ProxyBody> {
        let (counter, status, name, title) = match trouble {
            Trouble::Unreached(_) => (
                &self.counts.unreached,
                StatusCode::BAD_GATEWAY,
                "upstream-down",
                "The service behind cannot be reached",
            ),
            Trouble::Slow(_) => (
                &self.counts.slow,
                StatusCode::GATEWAY_TIMEOUT,
                "upstream-slow",
                "The service behind did not answer in time",
            ),
            Trouble::Broke(_) | Trouble::LeftOff(_) => {
                (&self.counts.broken, StatusCode::BAD_GATEWAY, "upstream-broke", "The service behind broke off")
            }
        };
        one(counter);
        if let Some(gate) = self.gate.get() {
            gate.inner.events.failed(crate::Part::Upstream, &trouble.why());
        }
        // Where it is and what it said is for those who run it, not for clients.
        told(&Problem::new(status, name, title, "try again; the log of the proxy says what happened"))
    }
}

/// Says that an answer passed, and by which filter.
fn name(headers: &mut HeaderMap, outcome: &'static str, passed: Passed) {
    let before = headers.get(hyper::header::CACHE_CONTROL).cloned();
    answers::name(headers, Some(outcome), passed.version(), passed.watermark());
    // Whether it may be kept is the upstream's to say.
    match before {
        Some(before) => _ = headers.insert(hyper::header::CACHE_CONTROL, before),
        None => _ = headers.remove(hyper::header::CACHE_CONTROL),
    }
}

/// What a task answers that goes on when its client is gone.
async fn ended(task: tokio::task::JoinHandle<Response<ProxyBody>>) -> Response<ProxyBody> {
    task.await.unwrap_or_else(|_| told(&Problem::internal("the request ended early: the log says why")))
}

/// A problem as an answer.
fn told(problem: &Problem) -> Response<ProxyBody> {
    let (mut head, _) = problem.clone().into_response().into_parts();
    head.headers.insert(answers::OUTCOME, HeaderValue::from_static("refused"));
    Response::from_parts(head, ProxyBody::from(Bytes::from(problem.to_json())))
}
