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
//! `POST` to the collection whose answer says neither costs the filter its "no" until it is rebuilt.
//!
//! Writes run in tasks of their own, to their end: a client that goes away leaves no write of unknown outcome behind.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use tower::{Layer, Service};

use crate::error::{Error, ErrorKind};
use crate::gate::{Announced, Gate, Judgement, Unnamed};
use crate::key::Key;
use crate::outcome::Answer;
use crate::requests::{self, Asked, Fate, Kind, Makes};
use crate::rules::Rule;

const OUTCOME: HeaderName = HeaderName::from_static("bloomgate-outcome");

/// Keys that a handler made: put it into the extensions of its answer.
#[derive(Clone, Debug)]
pub struct NewKeys(pub Vec<Key>);

type Reader = Arc<dyn Fn(&Parts) -> Option<Key> + Send + Sync>;
type Absent<B> = Arc<dyn Fn(&Answer) -> Response<B> + Send + Sync>;
type Refused<B> = Arc<dyn Fn(&Error) -> Response<B> + Send + Sync>;

/// Puts a gate before a service. `B` is the body of its answers.
pub struct GateLayer<B> {
    shared: Arc<Shared<B>>,
}

struct Shared<B> {
    gate: Gate,
    rules: Vec<Rule>,
    reader: Option<Reader>,
    absent: Absent<B>,
    refused: Refused<B>,
}

impl<B> Clone for GateLayer<B> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<B> Clone for Shared<B> {
    fn clone(&self) -> Self {
        let Self { gate, rules, reader, absent, refused } = self;
        let (absent, refused) = (absent.clone(), refused.clone());
        Self { gate: gate.clone(), rules: rules.clone(), reader: reader.clone(), absent, refused }
    }
}

impl<B> std::fmt::Debug for GateLayer<B> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("GateLayer").field("gate", &self.shared.gate).field("rules", &self.shared.rules).finish()
    }
}

impl<B: From<Bytes>> GateLayer<B> {
    /// A gate before a service whose keys are where the rules say. The gate is started by the caller.
    pub fn new(gate: Gate, rules: impl IntoIterator<Item = Rule>) -> Self {
        gate.expect_writes();
        let shared = Shared {
            gate,
            rules: rules.into_iter().collect(),
            reader: None,
            absent: Arc::new(|answer| {
                let mut response = problem(StatusCode::NOT_FOUND, "absent", "There is no row with this key", "");
                response.headers_mut().insert(OUTCOME, HeaderValue::from_static(answer.outcome.name()));
                response
            }),
            refused: Arc::new(|error| match error.kind() {
                ErrorKind::NotReady => problem(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "not-ready",
                    "This cannot be answered now",
                    &error.to_string(),
                ),
                _ => problem(StatusCode::BAD_REQUEST, "bad-key", "This is no key", &error.to_string()),
            }),
        };
        Self { shared: Arc::new(shared) }
    }
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

    /// What a lookup of an absent key is answered.
    #[must_use]
    pub fn absent_by(mut self, absent: impl Fn(&Answer) -> Response<B> + Send + Sync + 'static) -> Self {
        self.change().absent = Arc::new(absent);
        self
    }

    /// What a lookup is answered that the policy refuses.
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
        match requests::kind(request.method(), request.headers()) {
            Kind::Lookup => Box::pin(shared.look_up(inner, request)),
            Kind::Write => Box::pin(shared.write(inner, request)),
            Kind::Removal => Box::pin(shared.remove(inner, request)),
            Kind::Other => {
                let mut inner = inner;
                Box::pin(inner.call(request))
            }
        }
    }
}

impl<B: Send + 'static> Shared<B> {
    async fn look_up<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>>,
    {
        let (head, body) = request.into_parts();
        let asked = match &self.reader {
            Some(reader) => reader(&head).map(Asked::One),
            None => requests::asked(&self.gate, &self.rules, &head),
        };
        let passed = match asked {
            None => None,
            Some(asked) => match self.gate.judge(asked.keys()).await {
                Ok(Judgement::Absent(answer)) => return Ok((self.absent)(&answer)),
                Ok(Judgement::Passed(passed)) => Some(passed),
                Err(error) => return Ok((self.refused)(&error)),
            },
        };
        let answered = inner.call(Request::from_parts(head, body)).await;
        if let Some(passed) = passed {
            let seen = answered.as_ref().map_or(crate::Seen::Failed, |response| requests::seen(response.status()));
            self.gate.saw(passed, seen);
        }
        answered
    }

    fn makes(&self, head: &Parts) -> Makes {
        let mut makes = requests::makes(&self.gate, &self.rules, head);
        if let Some(reader) = &self.reader {
            makes.keys.extend(reader(head));
        }
        makes
    }

    async fn write<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>> + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Send + 'static,
        A: Send + 'static,
    {
        let (head, body) = request.into_parts();
        let (makes, path) = (self.makes(&head), head.uri.path().to_owned());
        let task = tokio::spawn(async move {
            let announced = match makes.keys.is_empty() {
                true => None,
                false => Some(self.gate.announce(makes.keys).await),
            };
            let unnamed = match makes.unnamed {
                true => Some(self.gate.announce_unnamed().await),
                false => None,
            };
            let answered = inner.call(Request::from_parts(head, body)).await;
            let (fate, keys) = self.told(answered.as_ref().ok(), &path);
            self.written(fate, keys, &path, announced, unnamed).await;
            answered
        });
        match task.await {
            Ok(answered) => answered,
            // A handler that panicked goes on panicking here, as it would without the layer.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => std::future::pending().await,
            },
        }
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
            (None, false, Fate::Unsure) => self.gate.announce(keys).await.unknown().await,
            (None, false, _) => self.gate.learnt(keys).await,
            (Some(unnamed), _, Fate::Refused) => unnamed.nothing(),
            (Some(unnamed), false, Fate::Done) => unnamed.made(keys).await,
            (Some(unnamed), false, Fate::Unsure) => unnamed.may_make(keys).await,
            (Some(unnamed), true, Fate::Done) => unnamed.lost(&why()),
            (Some(unnamed), true, Fate::Unsure) => unnamed.unknown(&why()),
        }
    }

    async fn remove<S, A>(self: Arc<Self>, mut inner: S, request: Request<A>) -> Result<Response<B>, S::Error>
    where
        S: Service<Request<A>, Response = Response<B>>,
    {
        let (head, body) = request.into_parts();
        let removal = match self.makes(&head).keys.into_iter().next() {
            Some(key) => Some(self.gate.announce_removal(key).await),
            None => None,
        };
        let answered = inner.call(Request::from_parts(head, body)).await;
        let fate = answered.as_ref().map_or(Fate::Unsure, |response| requests::fate(response.status()));
        // Dropped otherwise: it may have been done.
        if let Some(removal) = removal.filter(|_| fate != Fate::Unsure) {
            removal.settled(fate == Fate::Done).await;
        }
        answered
    }
}
