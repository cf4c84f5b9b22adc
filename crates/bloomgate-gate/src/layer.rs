//! The gate as a layer of tower: lookups of absent keys are answered with 404 before the service behind it is called, and
//! what is written through it is known to the filter before it is done. For axum and everything else that speaks `tower` and
//! `http`.
//!
//! ```
//! # use std::sync::Arc;
//! # use axum::{Router, routing::get};
//! # use bloomgate_gate::{Gate, Writers, layer::GateLayer, sources::Source};
//! # fn routes(source: Arc<dyn Source>) -> Result<Router, bloomgate_gate::Error> {
//! let gate = Gate::builder(source).writers(Writers::Sole).build()?;
//! gate.start();
//! let layer = GateLayer::new(gate, ["path:/products/{id}".parse()?]);
//! let app = Router::new()
//!     .route("/products/{id}", get(async || "the product").put(async || "stored"))
//!     .layer(layer);
//! # Ok(app)
//! # }
//! # let _runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().enter();
//! ```
//!
//! A handler that makes a key itself says so in its answer: by a `Location`, or by [`NewKeys`] among its extensions. A
//! `POST` to the collection whose answer says neither costs the filter its "no" until it is rebuilt, unless a feed tells what is
//! written. Which answers make a key at all is said by [`GateLayer::new_key_status`].
//!
//! A fixed route beside the keys, as `/products/search`, is a key to the rules, and answered with 404 unless it is named by
//! [`GateLayer::except`].
//!
//! Writes run in tasks of their own, to their end: a client that goes away leaves no write of unknown outcome behind.
//! Bodies are the handler's to read: whether one that breaks off made something its answer says, and a 400, as axum's own
//! extractors give, costs the filter nothing.
//!
//! **Caps on single clients** ([`Builder::callers`](crate::Builder::callers)) hold here as in the proxy: who asks too often for
//! what is not there, or adds too much, gets 429 before the service is called. Who a client is says
//! [`GateLayer::clients`]; the address of its connection is taken from the request's extensions, where axum's
//! `into_make_service_with_connect_info::<SocketAddr>()` puts it, or by [`GateLayer::peer_by`]. A request of which nobody knows
//! where it came from is counted for nobody. What passes for a client that is counted runs in a task of its own, as a write does,
//! to the head of its answer: who goes away, or is timed out by a layer outside, pays for what it would have been told.
//!
//! **Deny lists** ([`GateLayer::deny`]): a row of the gate's source means "denied". The filter's "no" passes at once, its
//! "maybe" is confirmed at the source, and only a row gives 403.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tower::{Layer, Service};

use crate::callers::{ClientId, Place};
pub use crate::clients::{ClientBy, Clients, Network};
use crate::error::{Error, ErrorKind};
use crate::gate::{Announced, Gate, Judgement, Seen, Unnamed};
use crate::key::Key;
use crate::outcome::Answer;
use crate::policy::Unconfirmed;
use crate::requests::{self, Asked, Collections, Fate, Kind, Makes};
use crate::rules::{Exception, Rule};
pub use crate::statuses::KeyStatuses;

const OUTCOME: HeaderName = HeaderName::from_static("bloomgate-outcome");

/// Keys that a handler made: put it into the extensions of its answer.
#[derive(Clone, Debug)]
pub struct NewKeys(pub Vec<Key>);

type Reader = Arc<dyn Fn(&Parts) -> Option<Key> + Send + Sync>;
type Peer = Arc<dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync>;
type Absent<B> = Arc<dyn Fn(&Answer) -> Response<B> + Send + Sync>;
type Refused<B> = Arc<dyn Fn(&Error) -> Response<B> + Send + Sync>;

/// Puts a gate before a service. `B` is the body of its answers.
pub struct GateLayer<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    gate: Gate,
    rules: Vec<Rule>,
    exceptions: Vec<Exception>,
    new_key_status: KeyStatuses,
    reader: Option<Reader>,
    clients: Clients,
    peer: Peer,
    /// Set where a row means "denied": what becomes of who cannot be confirmed.
    deny: Option<Unconfirmed>,
    absent: Absent<B>,
    denied: Absent<B>,
    refused: Refused<B>,
}

impl<B> Clone for GateLayer<B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<B> Clone for Shared<B> {
    fn clone(&self) -> Self {
        let Self { gate, rules, exceptions, new_key_status, reader, clients, peer, deny, absent, denied, refused } =
            self;
        Self {
            gate: gate.clone(),
            rules: rules.clone(),
            exceptions: exceptions.clone(),
            new_key_status: new_key_status.clone(),
            reader: reader.clone(),
            clients: clients.clone(),
            peer: peer.clone(),
            deny: *deny,
            absent: absent.clone(),
            denied: denied.clone(),
            refused: refused.clone(),
        }
    }
}

impl<B> std::fmt::Debug for GateLayer<B> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("GateLayer").field("gate", &self.shared.gate).field("rules", &self.shared.rules).finish()
    }
}

impl<B: From<Bytes> + 'static> GateLayer<B> {
    /// A gate before a service whose keys are where the rules say. The gate is started by the caller.
    pub fn new(gate: Gate, rules: impl IntoIterator<Item = Rule>) -> Self {
        gate.expect_writes();
        Self::with(gate, rules, None)
    }

    /// A deny list before a service: a row of the gate's source means "denied", and every request of whatever method whose key
    /// the rules or [`key_by`](Self::key_by) find is decided in two phases. The rules are read loosely: every key that some
    /// service may read in `//users/7`, `/USERS/7` or `/users/7%20` is asked for, and what nobody can tell gets 400. The filter's "no" passes; its "maybe" is confirmed
    /// at the source, and a row there gives 403 ([`denied_by`](Self::denied_by)). If the source cannot be asked,
    /// `unconfirmed` says what becomes of it: 503, or it passes. Nothing that passes is taken for a write of the list.
    pub fn deny(gate: Gate, rules: impl IntoIterator<Item = Rule>, unconfirmed: Unconfirmed) -> Self {
        Self::with(gate, rules, Some(unconfirmed))
    }

    fn with(gate: Gate, rules: impl IntoIterator<Item = Rule>, deny: Option<Unconfirmed>) -> Self {
        let shared = Shared {
            gate,
            rules: rules.into_iter().collect(),
            exceptions: Vec::new(),
            new_key_status: KeyStatuses::default(),
            reader: None,
            clients: Clients::default(),
            peer: Arc::new(connected),
            deny,
            denied: Arc::new(|_| {
                let mut response = problem(StatusCode::FORBIDDEN, "denied", "The key is on the deny list", "");
                response.headers_mut().insert(OUTCOME, HeaderValue::from_static("denied"));
                response
            }),
            absent: Arc::new(|answer| {
                let mut response = problem(StatusCode::NOT_FOUND, "absent", "There is no row with this key", "");
                response.headers_mut().insert(OUTCOME, HeaderValue::from_static(answer.outcome.name()));
                response
            }),
            refused: Arc::new(refusal),
        };
        Self { shared: Arc::new(shared) }
    }
}

/// The address that a request came from, where servers put it.
fn connected(head: &Parts) -> Option<IpAddr> {
    #[cfg(feature = "service")]
    if let Some(axum::extract::ConnectInfo(peer)) = head.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>() {
        return Some(peer.ip());
    }
    head.extensions.get::<SocketAddr>().map(SocketAddr::ip).or_else(|| head.extensions.get::<IpAddr>().copied())
}

/// What a request is answered that is not passed on.
fn refusal<B: From<Bytes>>(error: &Error) -> Response<B> {
    let (status, name, title) = match error.kind() {
        ErrorKind::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "not-ready", "This cannot be answered now"),
        ErrorKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy", "The source is busy"),
        ErrorKind::TooManyMisses => {
            (StatusCode::TOO_MANY_REQUESTS, "too-many-misses", "Too many lookups of this client found nothing")
        }
        ErrorKind::TooManyAdds => {
            (StatusCode::TOO_MANY_REQUESTS, "too-many-adds", "This client has added too many rows")
        }
        ErrorKind::BadKey => (StatusCode::BAD_REQUEST, "bad-key", "This is no key"),
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid", "The request is not allowed"),
        // Of a deny list, or of a write that could not be noted. What the source said is for those who run it.
        _ => (StatusCode::SERVICE_UNAVAILABLE, "source-down", "This cannot be confirmed now"),
    };
    let is_inner = status == StatusCode::SERVICE_UNAVAILABLE && name != "not-ready";
    let mut response = problem(status, name, title, &if is_inner { String::new() } else { error.to_string() });
    if let Some(again) = error.retry_after() {
        // Whole seconds, and never before it is allowed.
        let seconds = again.as_millis().div_ceil(1000).clamp(1, u128::from(u32::MAX)) as u32;
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn problem<B: From<Bytes>>(status: StatusCode, name: &str, title: &str, detail: &str) -> Response<B> {
    let kind = format!("urn:bloomgate:problem:{name}");
    let json = serde_json::json!({"type": kind, "title": title, "status": status.as_u16(), "detail": detail});
    let mut response = Response::new(B::from(Bytes::from(json.to_string())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    // A proxy that repeated a 404 after the row was written would be wrong.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl<B> GateLayer<B> {
    /// Reads the key by other code than the rules: of lookups, and of writes that the rules do not know. What it reads must
    /// be what the service reads; for anything it is not sure of it gives nothing.
    #[must_use]
    pub fn key_by(mut self, reader: impl Fn(&Parts) -> Option<Key> + Send + Sync + 'static) -> Self {
        self.change().reader = Some(Arc::new(reader));
        self
    }

    /// Paths at which lookups pass, whatever the rules or [`key_by`](Self::key_by) find there: fixed routes beside the keys,
    /// as `/products/search` beside `/products/{id}`. Without this they are keys that do not exist, and get 404.
    #[must_use]
    pub fn except(mut self, exceptions: impl IntoIterator<Item = Exception>) -> Self {
        self.change().exceptions.extend(exceptions);
        self
    }

    /// Which answers to a `POST` to the collection may have made a key: every one but refusals, unless said otherwise.
    #[must_use]
    pub fn new_key_status(mut self, statuses: KeyStatuses) -> Self {
        self.change().new_key_status = statuses;
        self
    }

    /// What a lookup of an absent key is answered.
    #[must_use]
    pub fn absent_by(mut self, absent: impl Fn(&Answer) -> Response<B> + Send + Sync + 'static) -> Self {
        self.change().absent = Arc::new(absent);
        self
    }

    /// How clients are told apart, if the gate has [caps](crate::Builder::callers) on them: by address, unless it is said
    /// otherwise. What a client writes itself is believed only from proxies that are trusted.
    #[must_use]
    pub fn clients(mut self, clients: Clients) -> Self {
        self.change().clients = clients;
        self
    }

    /// Reads the address that a request came from, if it is not where axum, or a `SocketAddr` among the request's extensions,
    /// has it.
    #[must_use]
    pub fn peer_by(mut self, peer: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        self.change().peer = Arc::new(peer);
        self
    }

    /// What a request is answered whose key is on the [deny list](Self::deny); the row is in the answer of the gate.
    #[must_use]
    pub fn denied_by(mut self, denied: impl Fn(&Answer) -> Response<B> + Send + Sync + 'static) -> Self {
        self.change().denied = Arc::new(denied);
        self
    }

    /// What a request is answered that is refused: by the policy, by a cap on its client (`TooManyMisses`, `TooManyAdds`),
    /// because a deny list could not be confirmed or the key could not be told (`BadKey`), because it names more keys than anybody
    /// means or may be a write that nobody can tell from a lookup (`Invalid`), or because the source could not note a write
    /// before it was passed on.
    #[must_use]
    pub fn refused_by(mut self, refused: impl Fn(&Error) -> Response<B> + Send + Sync + 'static) -> Self {
        self.change().refused = Arc::new(refused);
        self
    }

    fn change(&mut self) -> &mut Shared<B> {
        Arc::make_mut(&mut self.shared)
    }
}

impl<S, B> Layer<S> for GateLayer<B> {
    type Service = Gated<S, B>;

    fn layer(&self, inner: S) -> Gated<S, B> {
        Gated { inner, shared: self.shared.clone() }
    }
}

/// A service with a gate before it.
pub struct Gated<S, B> {
    inner: S,
    shared: Arc<Shared<B>>,
}

impl<S: Clone, B> Clone for Gated<S, B> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), shared: self.shared.clone() }
    }
}

impl<S: std::fmt::Debug, B> std::fmt::Debug for Gated<S, B> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Gated").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, A, B> Service<Request<A>> for Gated<S, B>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // The one that is ready is called; the other is made ready for the next request.
        let other = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, other);
        let shared = self.shared.clone();
        if let Some(unconfirmed) = shared.deny {
            return Box::pin(shared.decide(inner, request, unconfirmed));
        }
        match requests::kind(request.method(), request.headers()) {
            Kind::Lookup => Box::pin(shared.look_up(inner, request)),
            Kind::Write => Box::pin(shared.write(inner, request)),
            Kind::Removal => Box::pin(shared.remove(inner, request)),
            Kind::Other => Box::pin(shared.pass(inner, request)),
        }
    }
}

impl<B: Send + 'static> Shared<B> {
    fn asked(&self, head: &Parts) -> Option<Asked> {
        match &self.reader {
            Some(_) if requests::excepted(&self.exceptions, head.uri.path()) => None,
            Some(reader) => reader(head).map(Asked::One),
            None => requests::asked(&self.gate, &self.rules, &self.exceptions, head),
        }
    }

    /// Every key that the service may find in a request.
    fn named(&self, head: &Parts) -> Result<Vec<Key>, Error> {
        // Only what every reader takes for such a route: who is denied finds a spelling that some reader does not.
        if self.exceptions.iter().any(|exception| exception.is_at(head.uri.path())) {
            return Ok(Vec::new());
        }
        let mut keys = requests::named(&self.gate, &self.rules, head)?;
        if let Some(reader) = &self.reader {
            keys.extend(reader(head));
        }
        Ok(keys)
    }

    /// Whose request it is, if anybody counts.
    fn client(&self, head: &Parts) -> Option<ClientId> {
        self.gate.callers()?;
        Some(self.clients.of((self.peer)(head)?, &head.headers))
    }

    /// Passes a request on unless its key is on the list, whichever way it is spelled.
    async fn decide<S, A>(
        self: Arc<Self>,
        mut inner: S,
        request: Request<A>,
        unconfirmed: Unconfirmed,
    ) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>>,
    {
        let (head, body) = request.into_parts();
        let keys = match self.named(&head) {
            Ok(keys) => keys,
            Err(error) => return Ok((self.refused)(&error)),
        };
        let client = self.client(&head);
        for key in &keys {
            match self.gate.get_by(key, client).await {
                Ok(answer) if answer.row.is_some() => return Ok((self.denied)(&answer)),
                Ok(_) => {}
                Err(error)
                    if unconfirmed == Unconfirmed::Allow
                        && matches!(error.kind(), ErrorKind::Source | ErrorKind::Busy) => {}
                Err(error) => return Ok((self.refused)(&error)),
            }
        }
        inner.call(Request::from_parts(head, body)).await
    }

    async fn look_up<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        A: Send + 'static,
    {
        let (head, body) = request.into_parts();
        let passed = match self.asked(&head) {
            None => None,
            Some(asked) => match self.gate.judge(asked.keys()).await {
                Ok(Judgement::Absent(answer)) => return Ok((self.absent)(&answer)),
                Ok(Judgement::Passed(passed)) => Some((passed, asked.certainty())),
                Err(error) => return Ok((self.refused)(&error)),
            },
        };
        // What could not be judged needs a place too: who spells absent keys oddly is held by the cap like everybody else.
        let place = match self.place(&head).await {
            Ok(place) => place,
            Err(capped) => return Ok((self.refused)(&capped)),
        };
        let counted = requests::is_counted(place.as_ref());
        let answering = async move {
            let answered = inner.call(Request::from_parts(head, body)).await;
            let status = answered.as_ref().ok().map(Response::status);
            if let Some((passed, certainty)) = passed {
                self.gate.saw(passed, status.map_or(Seen::Failed, |status| certainty.seen(status)));
            }
            requests::leave(place, status);
            answered
        };
        match counted {
            true => ended(tokio::spawn(answering)).await,
            false => answering.await,
        }
    }

    /// Leave for one more request of a client, of whatever method: whoever may look up by another one than `GET`, or says so in a
    /// header, is held by the cap on misses like everybody else.
    async fn place(&self, head: &Parts) -> Result<Option<Place>, Error> {
        let placed = self.gate.inner.place(self.client(head)).await;
        placed.inspect_err(|capped| self.gate.inner.count_failure(Some(capped)))
    }

    /// Passes a request on that neither asks for a row nor changes one.
    async fn pass<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        A: Send + 'static,
    {
        let (head, body) = request.into_parts();
        let place = match self.place(&head).await {
            Ok(place) => place,
            Err(capped) => return Ok((self.refused)(&capped)),
        };
        let counted = requests::is_counted(place.as_ref());
        let answering = async move {
            let answered = inner.call(Request::from_parts(head, body)).await;
            requests::leave(place, answered.as_ref().ok().map(Response::status));
            answered
        };
        match counted {
            true => ended(tokio::spawn(answering)).await,
            false => answering.await,
        }
    }

    fn makes(&self, head: &Parts) -> Result<Makes, Error> {
        let mut makes = requests::makes(&self.gate, &self.rules, Collections::MakeKeys, head)?;
        if let Some(reader) = &self.reader {
            makes.keys.extend(reader(head));
        }
        Ok(makes)
    }

    /// The key of a deletion.
    fn removed(&self, head: &Parts) -> Option<Key> {
        requests::removed(&self.gate, &self.rules, head).or_else(|| self.reader.as_ref()?(head))
    }

    async fn write<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        A: Send + 'static,
    {
        let (head, body) = request.into_parts();
        let place = match self.place(&head).await {
            Ok(place) => place,
            Err(capped) => return Ok((self.refused)(&capped)),
        };
        let path = head.uri.path().to_owned();
        let makes = match self.makes(&head) {
            Ok(makes) => makes,
            Err(error) => return Ok((self.refused)(&error)),
        };
        if makes.any()
            && let Err(capped) = self.gate.inner.count_readings(self.client(&head), makes.most())
        {
            return Ok((self.refused)(&capped));
        }
        let task = tokio::spawn(async move {
            let (mut announced, unnamed) = match makes.announce(&self.gate).await {
                Ok(announced) => announced,
                Err(error) => return Ok((self.refused)(&error)),
            };
            let answering = inner.call(Request::from_parts(head, body));
            let answered = Announced::answered(&mut announced, answering).await;
            requests::leave(place, answered.as_ref().ok().map(Response::status));
            let (fate, keys) = self.told(answered.as_ref().ok(), &path);
            let may_make = answered.as_ref().map_or(true, |answer| self.new_key_status.may_make(answer.status()));
            let unnamed = match unnamed {
                Some(unnamed) if keys.is_empty() && !may_make => {
                    unnamed.nothing().await;
                    None
                }
                unnamed => unnamed,
            };
            self.written(fate, keys, &path, announced, unnamed).await;
            answered
        });
        ended(task).await
    }

    /// What an answer tells of a write, and which keys.
    fn told(&self, response: Option<&Response<B>>, path: &str) -> (Fate, Vec<Key>) {
        let Some(response) = response else { return (Fate::Unsure, Vec::new()) };
        let fate = requests::fate(response.status());
        if fate == Fate::Refused {
            return (fate, Vec::new());
        }
        let said = response.extensions().get::<NewKeys>().map(|NewKeys(keys)| keys.clone());
        (fate, said.unwrap_or_else(|| requests::located(&self.gate, &self.rules, response.headers(), path)))
    }

    /// The filter takes what was made before the answer is released, or loses its "no".
    async fn written(
        &self,
        fate: Fate,
        keys: Vec<Key>,
        path: &str,
        announced: Option<Announced>,
        unnamed: Option<Unnamed>,
    ) {
        if let Some(announced) = announced {
            match fate {
                Fate::Unsure => announced.unknown().await,
                Fate::Done | Fate::Refused => announced.settled(fate == Fate::Done).await,
            }
        }
        let why = || format!("the answer to a write at {path} has neither a Location of a key nor NewKeys");
        match (unnamed, keys.is_empty(), fate) {
            (None, true, _) => {}
            (None, false, Fate::Unsure) => self.gate.may_exist(keys).await,
            (None, false, _) => self.gate.learnt(keys).await,
            (Some(unnamed), _, Fate::Refused) => unnamed.nothing().await,
            (Some(unnamed), false, Fate::Done) => unnamed.made(keys).await,
            (Some(unnamed), false, Fate::Unsure) => unnamed.may_make(keys).await,
            (Some(unnamed), true, Fate::Done) => unnamed.lost(&why()),
            (Some(unnamed), true, Fate::Unsure) => unnamed.unknown(&why()),
        }
    }

    async fn remove<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        A: Send + 'static,
    {
        let (head, body) = request.into_parts();
        let place = match self.place(&head).await {
            Ok(place) => place,
            Err(capped) => return Ok((self.refused)(&capped)),
        };
        let counted = requests::is_counted(place.as_ref());
        let answering = async move {
            let removal = match self.removed(&head) {
                Some(key) => Some(self.gate.announce_removal(key).await),
                None => None,
            };
            let answered = inner.call(Request::from_parts(head, body)).await;
            requests::leave(place, answered.as_ref().ok().map(Response::status));
            let fate = answered.as_ref().map_or(Fate::Unsure, |response| requests::fate(response.status()));
            // Dropped otherwise: it may have been done.
            if let Some(removal) = removal.filter(|_| fate != Fate::Unsure) {
                removal.settled(fate == Fate::Done).await;
            }
            answered
        };
        match counted {
            true => ended(tokio::spawn(answering)).await,
            false => answering.await,
        }
    }
}

/// What a task answers that goes on when its client is gone.
async fn ended<T>(task: tokio::task::JoinHandle<T>) -> T {
    match task.await {
        Ok(answered) => answered,
        // A handler that panicked goes on panicking here, as it would without the layer.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}
