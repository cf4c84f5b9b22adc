//! Puts a service on a socket: HTTP/1.1 and HTTP/2, with or without TLS, with a limit on everything a client can use up,
//! and takes it off again without cutting anybody short who is quick enough.
//!
//! What a request pays beyond hyper and the service: two counters and, if it announces a body, one comparison.
//!
//! [`serve`] is for services that answer; [`serve_streams`] for those that pass bodies on as they come, of any length, and
//! that may take a connection over altogether (WebSocket).

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::header::HOST;
use axum::http::{HeaderMap, Request, Response, Version};
use axum::response::IntoResponse;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::service::{Service as HyperService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tower::Service;

use crate::body;
use crate::connections::{Connections, InFlight, Place, Pulse};
use crate::metrics::{Metric, Scrape};
use crate::problem::{MEDIA_TYPE, Problem};
use crate::tls::Certificates;

/// How much of everything clients get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The head of a request, in bytes: 32 KiB. Not under 8 KiB, hyper's least.
    pub head_bytes: usize,
    /// How long the head of a request may take to arrive, with the TLS handshake before the first: 10 s.
    pub head_time: Duration,
    /// The body of a request, in bytes: 8 MiB. A service that has limits of its own for each path sets it to `usize::MAX`.
    pub body_bytes: usize,
    /// How long a connection may be open without a byte going either way, unless a request is being worked on: 75 s.
    pub idle: Duration,
    /// How slowly an answer may be read, in bytes per second: 1,024. Looked at over stretches of `head_time`.
    pub read_rate: u64,
    /// Connections at once: 10,000.
    pub connections: usize,
    /// Connections at once from one address (one /64 of IPv6): 1,000.
    pub per_address: usize,
    /// Requests at once on one connection of HTTP/2: 128.
    pub streams: u32,
    /// How long requests that are under way may take to end when the service stops: 10 s.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 32 << 10,
            head_time: Duration::from_secs(10),
            body_bytes: 8 << 20,
            idle: Duration::from_secs(75),
            read_rate: 1024,
            connections: 10_000,
            per_address: 1_000,
            streams: 128,
            drain: Duration::from_secs(10),
        }
    }
}

/// How a service is put on a socket.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Where its certificate comes from; none serves plain text.
    pub tls: Option<Certificates>,
    /// The limits.
    pub limits: Limits,
    /// Where connections are counted; share it with whoever writes the metrics.
    pub traffic: Arc<Traffic>,
}

/// What has come and gone on a listener.
#[derive(Debug, Default)]
pub struct Traffic {
    pub(crate) open: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) idle: AtomicU64,
    pub(crate) stalled: AtomicU64,
    pub(crate) handshakes: AtomicU64,
    /// Whether serving ends.
    ending: tokio::sync::watch::Sender<bool>,
}

static OPEN: Metric = Metric::gauge("bloomgate_http_connections", "Connections that are open", "");
static ACCEPTED: Metric =
    Metric::counter("bloomgate_http_connections_accepted_total", "Connections that were taken", "");
static REFUSED: Metric = Metric::counter(
    "bloomgate_http_connections_refused_total",
    "Connections that were refused because there were too many",
    "",
);
static CLOSED: Metric = Metric::counter(
    "bloomgate_http_connections_closed_total",
    "Connections that were closed by a limit: a request's head did not arrive in time, nothing moved, an answer was read \
     too slowly, or the TLS handshake failed",
    "",
)
.labels(&["reason"]);

impl Traffic {
    /// The metrics of a listener.
    pub const TABLE: &'static [&'static Metric] = &[&OPEN, &ACCEPTED, &REFUSED, &CLOSED];

    pub(crate) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn set(counter: &AtomicU64, value: u64) {
        counter.store(value, Relaxed);
    }

    /// How many connections are open.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.open.load(Relaxed)
    }

    /// Connections that were refused or ended by a limit, but for those on which nothing moved.
    #[must_use]
    pub fn turned_away(&self) -> u64 {
        [&self.refused, &self.slow, &self.stalled, &self.handshakes].map(|counter| counter.load(Relaxed)).iter().sum()
    }

    /// Ends when serving does: for answers that would go on for ever, so that nobody waits for them.
    pub async fn ended(&self) {
        let mut ending = self.ending.subscribe();
        // The sender is ours, so it cannot be gone.
        let _ = ending.wait_for(|ending| *ending).await;
    }

    /// Adds what was counted.
    pub fn collect(&self, scrape: &mut Scrape) {
        scrape.whole(&OPEN, &[], self.open());
        scrape.whole(&ACCEPTED, &[], self.accepted.load(Relaxed));
        scrape.whole(&REFUSED, &[], self.refused.load(Relaxed));
        scrape.whole(&CLOSED, &[("reason", "slow-head")], self.slow.load(Relaxed));
        scrape.whole(&CLOSED, &[("reason", "idle")], self.idle.load(Relaxed));
        scrape.whole(&CLOSED, &[("reason", "slow-reader")], self.stalled.load(Relaxed));
        scrape.whole(&CLOSED, &[("reason", "handshake")], self.handshakes.load(Relaxed));
    }
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Connections that had to be cut because they did not end in time.
    pub cut: usize,
}

/// How many refused connections are told why at once; more are just closed.
const TOLD: usize = 64;
/// How long one that is refused is listened to, so that it reads the answer before the connection is reset.
const LINGER: Duration = Duration::from_secs(1);

/// Serves until `shutdown` ends; then takes no new connection, lets requests that are under way end, and cuts what has
/// not ended after [`Limits::drain`].
///
/// The service is a `Router`, or anything that answers as one does.
pub async fn serve<S, F>(listener: TcpListener, service: S, options: Options, shutdown: F) -> Served
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    F: Future<Output = ()>,
{
    serve_each(listener, move |_| service.clone(), options, shutdown).await
}

/// [`serve`] with a service of its own for each connection: for those that must know who is at the other end.
pub async fn serve_each<M, S, F>(listener: TcpListener, service_for: M, options: Options, shutdown: F) -> Served
where
    M: Fn(&Peer) -> S + Send + Sync + 'static,
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
    F: Future<Output = ()>,
{
    let most = options.limits.body_bytes;
    let make = move |peer: Peer| {
        let (service, pulse) = (service_for(&peer), peer.place.pulse.clone());
        service_fn(move |request: Request<Incoming>| {
            let in_flight = pulse.begin(request.version() == Version::HTTP_2);
            let service = service.clone();
            async move {
                let response = answer(service, request, most).await;
                drop(in_flight);
                Ok::<_, Infallible>(response)
            }
        })
    };
    run(listener, make, options, shutdown).await
}

/// [`serve`] for a service that passes bodies on: it gets them as they come, without a limit on their length, and what it
/// answers is under way until its last byte was taken. `service_for` makes the service of one connection.
pub async fn serve_streams<M, S, B, F>(listener: TcpListener, service_for: M, options: Options, shutdown: F) -> Served
where
    M: Fn(Peer) -> S + Send + Sync + 'static,
    S: HyperService<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + From<Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    F: Future<Output = ()>,
{
    let make = move |peer: Peer| {
        let (pulse, service) = (peer.place.pulse.clone(), service_for(peer));
        service_fn(move |request: Request<Incoming>| {
            let in_flight = pulse.begin(request.version() == Version::HTTP_2);
            // Before the service has it: two hosts are no request (RFC 9112, 3.2).
            let answer = if has_two_hosts(request.headers()) { Err(two_hosts()) } else { Ok(service.call(request)) };
            async move {
                let response = match answer {
                    Ok(answer) => {
                        let Ok(response) = answer.await;
                        response
                    }
                    Err(problem) => {
                        let (head, _) = problem.clone().into_response().into_parts();
                        Response::from_parts(head, B::from(Bytes::from(problem.to_json())))
                    }
                };
                Ok::<_, Infallible>(response.map(|body| Lasting { body, _in_flight: in_flight }))
            }
        })
    };
    run(listener, make, options, shutdown).await
}

/// Who is at the other end of a connection.
#[derive(Clone)]
pub struct Peer {
    /// Where it comes from.
    pub address: SocketAddr,
    /// Whether it came by TLS.
    pub secure: bool,
    /// Whether it showed a certificate of one of the authorities that the service believes.
    pub certified: bool,
    place: Arc<Place>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Peer")
            .field("address", &self.address)
            .field("secure", &self.secure)
            .field("certified", &self.certified)
            .finish_non_exhaustive()
    }
}

/// A connection that was taken over; it counts as open, and as busy, until this is dropped.
pub struct Taken {
    _place: Arc<Place>,
    _in_flight: InFlight,
}

impl Peer {
    /// Counts the connection as open for as long as somebody who took it over uses it; `task` is ended when it has to be.
    #[must_use]
    pub fn take_over(&self, task: AbortHandle) -> Taken {
        self.place.attach(task);
        Taken { _place: self.place.clone(), _in_flight: self.place.pulse.begin(false) }
    }
}

/// A body whose request is under way until it is dropped.
struct Lasting<B> {
    body: B,
    _in_flight: InFlight,
}

impl<B: HttpBody<Data = Bytes> + Unpin> HttpBody for Lasting<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn run<M, H, B, F>(listener: TcpListener, make: M, options: Options, shutdown: F) -> Served
where
    M: Fn(Peer) -> H + Send + Sync + 'static,
    H: HyperService<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + 'static,
    H::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    F: Future<Output = ()>,
{
    let Options { tls, limits, traffic } = options;
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().max_buf_size(limits.head_bytes.max(8 << 10));
    http.http2().max_header_list_size(limits.head_bytes as u32).max_concurrent_streams(limits.streams);
    let server = Arc::new(Server { http, tls, traffic: traffic.clone(), make });
    let connections = Connections::new(traffic.clone());
    let told = Arc::new(Semaphore::new(TOLD));
    // Four looks per limit, and no less often than every second.
    let period = (limits.head_time.min(limits.idle) / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
    let mut looks = tokio::time::interval(period);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            biased;
            () = &mut shutdown => break,
            _ = looks.tick() => connections.look(&limits, Instant::now()),
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => match connections.admit(from.ip(), &limits, Instant::now()) {
                    Some((place, drain)) => {
                        let id = place.id();
                        let task = tokio::spawn(server.clone().connection(stream, from, place, drain));
                        connections.attach(id, task.abort_handle());
                    }
                    None => {
                        Traffic::add(&traffic.refused);
                        refuse(stream, server.tls.is_some(), &told);
                    }
                },
                Err(error) if is_one_connection(&error) => {}
                // Too many open files: those that are open go on, new ones wait.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
        }
    }
    // The port is free for whoever comes next while the last requests end.
    drop(listener);
    traffic.ending.send_replace(true);
    Served { cut: connections.drain(limits.drain).await }
}

/// Binds an address; port 0 takes any that is free.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    TcpListener::bind(address).await
}

/// Errors of one client that went away, not of the listener.
fn is_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn refuse(mut stream: TcpStream, tls: bool, told: &Arc<Semaphore>) {
    // Without a handshake nothing can be said, and a handshake is what there is no room for.
    let Ok(permit) = told.clone().try_acquire_owned() else { return };
    if tls {
        return;
    }
    tokio::spawn(async move {
        let _permit = permit;
        let _ = tokio::time::timeout(LINGER, async {
            stream.write_all(busy().as_bytes()).await?;
            stream.shutdown().await?;
            let mut rest = [0; 1024];
            while stream.read(&mut rest).await? > 0 {}
            Ok::<(), io::Error>(())
        })
        .await;
    });
}

/// What one that is refused is told.
fn busy() -> String {
    let body = Problem::unavailable("there are too many connections; close some, or try again later", LINGER).to_json();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {MEDIA_TYPE}\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// What every connection of a listener needs.
struct Server<M> {
    http: auto::Builder<TokioExecutor>,
    tls: Option<Certificates>,
    traffic: Arc<Traffic>,
    make: M,
}

impl<M, H, B> Server<M>
where
    M: Fn(Peer) -> H,
    H: HyperService<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    H::Future: Send + 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        address: SocketAddr,
        place: Place,
        mut drain: oneshot::Receiver<()>,
    ) {
        // An answer is one write: to wait for more would only delay it.
        let _ = stream.set_nodelay(true);
        let stream = Counted { stream, pulse: place.pulse.clone() };
        let peer = Peer { address, secure: self.tls.is_some(), certified: false, place: Arc::new(place) };
        match &self.tls {
            None => self.talk(stream, peer, drain).await,
            Some(tls) => {
                let handshake = tls.now().acceptor().accept(stream);
                let accepted = tokio::select! {
                    accepted = handshake => accepted,
                    _ = &mut drain => return,
                };
                match accepted {
                    Ok(stream) => {
                        let certified = stream.get_ref().1.peer_certificates().is_some();
                        self.talk(stream, Peer { certified, ..peer }, drain).await;
                    }
                    Err(_) => Traffic::add(&self.traffic.handshakes),
                }
            }
        }
    }

    async fn talk<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        &self,
        stream: T,
        peer: Peer,
        mut drain: oneshot::Receiver<()>,
    ) {
        // Held to the end: a service that is dropped before its connection has ended does not give the place back.
        let _place = peer.place.clone();
        let service = (self.make)(peer);
        let mut connection = pin!(self.http.serve_connection_with_upgrades(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            // What goes wrong here is the client's going away, or something hyper has answered already.
            _ = connection.as_mut() => return,
            _ = &mut drain => connection.as_mut().graceful_shutdown(),
        }
        let _ = connection.await;
    }
}

/// Whether a request has more than one Host: a proxy may have gone by the first and we by the second.
fn has_two_hosts(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().nth(1).is_some()
}

fn two_hosts() -> Problem {
    Problem::bad_request("the request has more than one Host: send one")
}

/// Gives a request to the service, unless it announces too long a body.
async fn answer<S>(mut service: S, request: Request<Incoming>, most: usize) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let (head, incoming) = request.into_parts();
    // RFC 9112, 3.2: 400.
    if has_two_hosts(&head.headers) {
        return two_hosts().into_response();
    }
    let body = match body::limited(&head.headers, incoming, most) {
        Ok(body) => body,
        Err(problem) => return problem.into_response(),
    };
    let ready = std::future::poll_fn(|context| service.poll_ready(context)).await;
    let Ok(()) = ready;
    let Ok(response) = service.call(Request::from_parts(head, body)).await;
    response
}

/// A socket that counts what goes through it.
struct Counted {
    stream: TcpStream,
    pulse: Arc<Pulse>,
}

impl AsyncRead for Counted {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, into))?;
        this.pulse.read(into.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.pulse.writing(Pin::new(&mut this.stream).poll_write(context, bytes));
        let written = ready!(written)?;
        this.pulse.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = this.pulse.writing(Pin::new(&mut this.stream).poll_write_vectored(context, pieces));
        let written = ready!(written)?;
        this.pulse.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
