//! Who hangs up before the answer: the upstream has the request by then, and the client's cap counts what it says.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::any;
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::Request;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::RwLock;

use crate::caps::gate;
use crate::catalog::serve;
use crate::stage::{Got, Stage, full, options, until};

const CLIENT: &str = "192.0.2.1";

/// A proxy before an upstream that begins to answer when nobody holds it. It has the kettle, and nothing else. Clients may miss
/// three times.
struct Held {
    stage: Stage,
    hold: Arc<RwLock<()>>,
    /// Requests that reached the upstream.
    asked: Arc<AtomicU64>,
}

impl Held {
    async fn start() -> Self {
        let (gate, _) = gate().await;
        let (hold, asked) = (Arc::new(RwLock::new(())), Arc::new(AtomicU64::new(0)));
        let (held, counted) = (hold.clone(), asked.clone());
        let show = move |Path(id): Path<String>| async move {
            counted.fetch_add(1, SeqCst);
            let _held = held.read().await;
            if id == "kettle" { StatusCode::OK } else { StatusCode::NOT_FOUND }
        };
        let mut options = options(serve(Router::new().route("/products/{id}", any(show))).await);
        options.clients.trusted = vec!["127.0.0.1".parse().unwrap()];
        Self { stage: Stage::set(options, gate).await, hold, asked }
    }

    async fn status(&self, path: &str) -> u16 {
        self.stage.ask("GET", path, &format!("x-forwarded-for: {CLIENT}\r\n"), "").await.status
    }

    /// Waits until so many requests have reached the upstream.
    async fn reached(&self, many: u64) {
        until("the request has reached the upstream", || self.asked.load(SeqCst) == many).await;
    }

    /// Three requests while the upstream is held; each is hung up on once the upstream has it.
    async fn hang_up(&self, second: bool, asks: [(&str, &str); 3]) {
        let held = self.hold.write().await;
        let mut sender = match second {
            true => Some(second_version(self.stage.address).await),
            false => None,
        };
        for (method, path) in asks {
            let before = self.asked.load(SeqCst);
            match &mut sender {
                None => {
                    let mut stream = self.begin(method, path, "").await;
                    self.reached(before + 1).await;
                    assert_eq!(close(&mut stream).await, b"", "there was no answer yet");
                }
                Some(sender) => {
                    let request = Request::builder().method(method).uri(format!("http://shop.example{path}"));
                    let request = request.header("x-forwarded-for", CLIENT).body(full("")).unwrap();
                    let asking = tokio::spawn(sender.send_request(request));
                    self.reached(before + 1).await;
                    // The stream is reset.
                    asking.abort();
                    assert!(asking.await.unwrap_err().is_cancelled());
                    // What is sent later is answered: by then the proxy has heard of it.
                    for _ in 0..3 {
                        let request = Request::get("http://shop.example/products/never").body(full("")).unwrap();
                        assert_eq!(sender.send_request(request).await.unwrap().status(), 404);
                    }
                }
            }
        }
        drop(held);
    }

    /// Begins a request on a connection of its own.
    async fn begin(&self, method: &str, path: &str, rest: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.stage.address).await.unwrap();
        let begun =
            format!("{method} {path} HTTP/1.1\r\nhost: shop.example\r\nx-forwarded-for: {CLIENT}\r\n{rest}\r\n");
        stream.write_all(begun.as_bytes()).await.unwrap();
        stream
    }
}

async fn second_version(address: SocketAddr) -> http2::SendRequest<BoxBody<Bytes, std::io::Error>> {
    let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// Hangs up, and waits until the proxy has noticed: it closes too. What it said before.
async fn close(stream: &mut TcpStream) -> Vec<u8> {
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

#[tokio::test]
async fn who_hangs_up_before_the_answer_pays_all_the_same() {
    let asks = [("GET", "/products/gone-0"), ("OPTIONS", "/products/gone-1"), ("DELETE", "/products/gone-2")];
    for second in [false, true] {
        let held = Held::start().await;
        held.hang_up(second, asks).await;
        // Whoever asks now waits for those under way, and is refused when they have missed.
        assert_eq!(held.status("/products/gone-3").await, 429, "HTTP/2: {second}");
        assert_eq!((held.status("/products/kettle").await, held.asked.load(SeqCst)), (429, 3), "HTTP/2: {second}");
        // What came of them is known, though nobody was told.
        assert_eq!(held.stage.gate.stats().measured.false_positives, 1);
    }
}

#[tokio::test]
async fn who_hangs_up_on_what_is_there_is_never_refused() {
    for second in [false, true] {
        let held = Held::start().await;
        for _ in 0..4 {
            held.hang_up(
                second,
                [("GET", "/products/kettle"), ("HEAD", "/products/kettle"), ("DELETE", "/products/kettle")],
            )
            .await;
            assert_eq!(held.status("/products/kettle").await, 200, "HTTP/2: {second}");
        }
        for number in 0..3 {
            assert_eq!(held.status(&format!("/products/gone-{number}")).await, 404, "HTTP/2: {second}");
        }
        assert_eq!(held.status("/products/gone-3").await, 429, "HTTP/2: {second}");
    }
}

/// The upstream may look a row up before it has the body, and is not asked for it any more when that breaks off.
#[tokio::test]
async fn who_breaks_off_the_body_of_its_own_request_pays_as_for_a_miss() {
    let held = Held::start().await;
    let hold = held.hold.write().await;
    for (before, (method, path)) in
        [("GET", "/products/gone-0"), ("PUT", "/products/kettle"), ("DELETE", "/products/gone-2")]
            .into_iter()
            .enumerate()
    {
        let mut stream = held.begin(method, path, "content-length: 10\r\n").await;
        stream.write_all(b"some").await.unwrap();
        held.reached(before as u64 + 1).await;
        let answer = Got::read(&close(&mut stream).await);
        assert!([0, 502].contains(&answer.status), "{method}: {answer:?}");
    }
    assert_eq!(held.status("/products/gone-3").await, 429);
    drop(hold);
    assert_eq!((held.status("/products/kettle").await, held.asked.load(SeqCst)), (429, 3));
}
