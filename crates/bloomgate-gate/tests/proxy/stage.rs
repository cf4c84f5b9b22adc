//! What every test of the proxy needs: a gate over keys in memory, the proxy on a free port, and clients of HTTP/1.1 (byte by
//! byte, and hyper's) and HTTP/2.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate_gate::proxy::{Options, Proxy};
use bloomgate_gate::service::http;
use bloomgate_gate::sources::{KeyBatch, Scan, Source};
use bloomgate_gate::{Error, ErrorKind, Gate, Key, KeyType, Pending, Result, State, Writers};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// The keys that a service has: the service and the gate's source look at the same set.
#[derive(Clone, Default)]
pub struct Keys(pub Arc<Mutex<BTreeSet<String>>>);

impl Keys {
    pub fn of(keys: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(Arc::new(Mutex::new(keys.into_iter().map(Into::into).collect())))
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.lock().unwrap().contains(key)
    }

    pub fn add(&self, key: impl Into<String>) {
        self.0.lock().unwrap().insert(key.into());
    }

    pub fn remove(&self, key: &str) -> bool {
        self.0.lock().unwrap().remove(key)
    }
}

impl Source for Keys {
    fn describe(&self) -> String {
        "the keys of a test".to_owned()
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, key: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(async move { Ok(self.get_many(std::slice::from_ref(key)).await?.remove(0)) })
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        let has = |key: &Key| self.has(std::str::from_utf8(key.canonical()).unwrap());
        Box::pin(std::future::ready(Ok(keys.iter().map(|key| has(key).then(|| Bytes::from("{}"))).collect())))
    }

    fn put_many<'a>(&'a self, _: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "written past the gate"))))
    }

    fn delete<'a>(&'a self, _: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Unsupported, "written past the gate"))))
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(self.0.lock().unwrap().len() as u64)))
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        let keys: Vec<String> = self.0.lock().unwrap().iter().cloned().collect();
        Box::pin(std::future::ready(Ok(Box::new(Scanned(keys)) as Box<dyn Scan>)))
    }
}

struct Scanned(Vec<String>);

impl Scan for Scanned {
    fn next<'a>(&'a mut self, batch: &'a mut KeyBatch) -> Pending<'a, Result<bool>> {
        Box::pin(async move {
            batch.clear();
            tokio::task::yield_now().await;
            let rest = self.0.split_off(self.0.len().min(100));
            self.0.iter().for_each(|key| batch.push(key.as_bytes()));
            self.0 = rest;
            Ok(!batch.is_empty())
        })
    }
}

/// A gate that says no to what is not among the keys.
pub async fn ready_gate(keys: &Keys) -> Gate {
    let gate = Gate::builder(Arc::new(keys.clone())).writers(Writers::Sole).audit_share(1.0).build().unwrap();
    gate.rebuild().await.unwrap();
    assert!(matches!(gate.state(), State::Ready { .. }));
    gate
}

/// A proxy that runs until it is dropped or drained.
pub struct Stage {
    pub address: SocketAddr,
    pub gate: Gate,
    pub proxy: Proxy,
    stop: Option<oneshot::Sender<()>>,
    served: Option<tokio::task::JoinHandle<http::Served>>,
}

pub fn options(upstream: SocketAddr) -> Options {
    Options::new(format!("http://{upstream}"), vec!["path:/products/{id}".parse().unwrap()])
}

impl Stage {
    pub async fn set(options: Options, gate: Gate) -> Self {
        Self::set_with(options, gate, http::Options::default()).await
    }

    pub async fn set_with(options: Options, gate: Gate, http: http::Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Proxy::new(options).unwrap();
        proxy.open(gate.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = proxy.clone();
        let served = tokio::spawn(async move { serving.serve(listener, http, async { _ = stopped.await }).await });
        Self { address, gate, proxy, stop: Some(stop), served: Some(served) }
    }

    /// Asks it to stop, and waits until it has.
    pub async fn drain(mut self) -> http::Served {
        self.begin_drain();
        self.served.take().unwrap().await.unwrap()
    }

    pub fn begin_drain(&mut self) {
        drop(self.stop.take());
    }

    /// The number behind a line of the metrics that the proxy adds.
    pub fn counted(&self, line: &str) -> u64 {
        let mut scrape = http::metrics::Scrape::default();
        self.proxy.collect(&mut scrape);
        let text = scrape.write(http::metrics::Form::Prometheus);
        let found = text.lines().find_map(|told| told.strip_prefix(line)).unwrap_or_else(|| panic!("{line}: {text}"));
        found.trim().parse().unwrap()
    }

    pub async fn get(&self, path: &str) -> Got {
        self.ask("GET", path, "", "").await
    }

    /// One request byte by byte on a connection of its own.
    pub async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n{length}{headers}\r\n{body}"
        );
        raw(self.address, request.as_bytes()).await
    }

    /// The same by hyper, HTTP/1.1 or HTTP/2.
    pub async fn send(&self, request: Request<BoxBody<Bytes, std::io::Error>>, second: bool) -> Response<Incoming> {
        let stream = TokioIo::new(TcpStream::connect(self.address).await.unwrap());
        if second {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
            tokio::spawn(connection);
            return sender.send_request(request).await.unwrap();
        }
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        sender.send_request(request).await.unwrap()
    }
}

pub fn full(text: impl Into<Bytes>) -> BoxBody<Bytes, std::io::Error> {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

/// Sends bytes and reads everything that comes back.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> Got {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await.expect("an answer").unwrap();
    Got::read(&answer)
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Got {
    pub fn read(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
        let status = head.split_whitespace().nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head, body: answer.get(end + 4..).unwrap_or_default().to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }

    pub fn by_filter(&self) -> bool {
        self.header("bloomgate-outcome") == Some("absent-by-filter")
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Waits until something holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) -> impl Future<Output = ()> {
    let what = what.to_owned();
    async move {
        for _ in 0..2000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{what} did not come to hold");
    }
}
