//! Bodies of any length, both ways, as they come; trailers, `100-continue`, WebSockets; and the end of it all.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use bloomgate_gate::service::http;
use bytes::Bytes;
use futures_util::StreamExt;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::catalog::{Catalog, serve};
use crate::stage::{Keys, Stage, full, options, raw, ready_gate, until};

async fn stage() -> (Catalog, Stage) {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let stage = Stage::set(options(catalog.start().await), ready_gate(&catalog.keys).await).await;
    (catalog, stage)
}

/// A body that is fed by hand.
fn fed() -> (futures_channel::Feed, http_body_util::combinators::BoxBody<Bytes, std::io::Error>) {
    futures_channel::pair()
}

/// A channel of frames, out of what the tree has.
mod futures_channel {
    use super::*;

    #[derive(Clone)]
    pub struct Feed(pub tokio::sync::mpsc::Sender<Frame<Bytes>>);

    impl Feed {
        pub async fn data(&self, bytes: impl Into<Bytes>) {
            self.0.send(Frame::data(bytes.into())).await.unwrap();
        }
    }

    pub fn pair() -> (Feed, http_body_util::combinators::BoxBody<Bytes, std::io::Error>) {
        let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
        let frames =
            futures_util::stream::poll_fn(move |context| receiver.poll_recv(context)).map(Ok::<_, std::io::Error>);
        (Feed(sender), BodyExt::boxed(StreamBody::new(frames)))
    }
}

#[tokio::test]
async fn an_upload_reaches_the_upstream_before_it_has_ended() {
    let (_, stage) = stage().await;
    for second in [false, true] {
        let (feed, body) = fed();
        let uri = format!("http://{}/echo", stage.address);
        let request = Request::post(uri).body(body).unwrap();
        feed.data("first").await;
        // The answer's head and the first piece are here while the request goes on.
        let mut response = tokio::time::timeout(Duration::from_secs(10), stage.send(request, second)).await.unwrap();
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), "first");
        feed.data("second").await;
        let frame = response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap(), "second");
        drop(feed);
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
}

#[tokio::test]
async fn bodies_larger_than_any_buffer_pass_both_ways() {
    let (_, stage) = stage().await;
    let piece = Bytes::from(vec![7; 64 << 10]);
    let (feed, body) = fed();
    let request = Request::put(format!("http://{}/count", stage.address)).body(body).unwrap();
    let sending = tokio::spawn(async move {
        for _ in 0..320 {
            feed.data(piece.clone()).await;
        }
    });
    let response = stage.send(request, false).await;
    sending.await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), (20 << 20).to_string());
    // Down: more than sockets and buffers take, and the first byte before the last was made.
    let pieces = || futures_util::stream::repeat(Bytes::from(vec![9; 64 << 10])).take(320).map(Ok::<_, std::io::Error>);
    let upstream = serve(Router::new().route("/large", get(async move || Body::from_stream(pieces())))).await;
    let stage = Stage::set(options(upstream), ready_gate(&Keys::of(["a"])).await).await;
    for second in [false, true] {
        let request = Request::get(format!("http://{}/large", stage.address)).body(full("")).unwrap();
        let mut body = stage.send(request, second).await.into_body();
        let mut sum = 0;
        while let Some(frame) = body.frame().await {
            sum += frame.unwrap().data_ref().map_or(0, Bytes::len);
        }
        assert_eq!(sum, 20 << 20);
    }
}

#[tokio::test]
async fn a_get_with_a_body_keeps_it() {
    let (_, stage) = stage().await;
    let request = "GET /echo HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let got = crate::stage::raw(stage.address, request.as_bytes()).await;
    assert!(got.status == 200 && got.text().contains("hello"), "{got:?}");
    assert_eq!(stage.ask("GET", "/echo", "", "hello").await.text(), "hello");
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let (_, stage) = stage().await;
    for second in [false, true] {
        let (feed, body) = fed();
        let request = Request::post(format!("http://{}/echo", stage.address))
            .header("te", "trailers")
            .header("trailer", "x-sum")
            .body(body)
            .unwrap();
        feed.data("data").await;
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "42".parse().unwrap());
        feed.0.send(Frame::trailers(trailers)).await.unwrap();
        drop(feed);
        let answer = stage.send(request, second).await.into_body().collect().await.unwrap();
        assert_eq!(
            answer.trailers().map(|trailers| trailers["x-sum"].clone()),
            Some("42".parse().unwrap()),
            "{second}"
        );
        assert_eq!(answer.to_bytes(), "data");
    }
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_gets_it() {
    let (_, stage) = stage().await;
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let head =
        "PUT /count HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut leave = [0; 25];
    tokio::time::timeout(Duration::from_secs(10), stream.read_exact(&mut leave)).await.unwrap().unwrap();
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"hello").await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.starts_with("HTTP/1.1 200") && rest.ends_with('5'), "{rest}");
}

/// A service that leaves HTTP and sends everything back, in capitals.
async fn shouting() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                assert!(head.contains("upgrade: websocket\r\n") && head.contains("connection: upgrade\r\n"), "{head}");
                assert!(head.contains("sec-websocket-key: abc"), "{head}");
                let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n";
                stream.write_all(answer.as_bytes()).await.unwrap();
                let mut piece = [0; 100];
                while let Ok(read @ 1..) = stream.read(&mut piece).await {
                    piece.make_ascii_uppercase();
                    stream.write_all(&piece[..read]).await.unwrap();
                }
            });
        }
    });
    address
}

async fn websocket(stage: &Stage) -> TcpStream {
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let head =
        "GET /chat HTTP/1.1\r\nhost: h\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-key: abc\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(tokio::time::timeout(Duration::from_secs(10), stream.read_u8()).await.unwrap().unwrap());
    }
    let answer = String::from_utf8(answer).unwrap().to_lowercase();
    assert!(answer.starts_with("http/1.1 101") && answer.contains("sec-websocket-accept: x"), "{answer}");
    assert!(answer.contains("upgrade: websocket"), "{answer}");
    stream
}

#[tokio::test]
async fn a_websocket_passes_until_it_falls_silent() {
    let mut options = options(shouting().await);
    options.idle_time = Duration::from_millis(400);
    let traffic = http::Options::default();
    let counted = traffic.traffic.clone();
    let stage = Stage::set_with(options, ready_gate(&Keys::of(["a"])).await, traffic).await;
    let mut stream = websocket(&stage).await;
    for _ in 0..5 {
        // Each pause is shorter than the silence that ends it, all together are longer.
        tokio::time::sleep(Duration::from_millis(150)).await;
        stream.write_all(b"hello").await.unwrap();
        let mut back = [0; 5];
        stream.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"HELLO");
    }
    assert_eq!(counted.open(), 1, "it counts as a connection");
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0, "silence ends it");
    until("the place is free", || counted.open() == 0).await;
    assert_eq!(stage.counted("bloomgate_proxy_tunnels_total"), 1);
}

#[tokio::test]
async fn a_drain_lets_answers_end_and_cuts_websockets() {
    let (_, mut stage) = stage().await;
    let address = stage.address;
    // Its answer begins after 700 ms, the drain long before.
    let asking = tokio::spawn(async move { raw(address, b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    stage.begin_drain();
    assert_eq!(stage.drain().await.cut, 0);
    assert_eq!(asking.await.unwrap().text(), "at last");
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
    // A WebSocket never ends by itself: it is cut when the time is over.
    let limits = http::Limits { drain: Duration::from_millis(200), ..http::Limits::default() };
    let http = http::Options { limits, ..http::Options::default() };
    let stage = Stage::set_with(options(shouting().await), ready_gate(&Keys::of(["a"])).await, http).await;
    let mut stream = websocket(&stage).await;
    assert_eq!(stage.drain().await.cut, 1);
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

/// Of a client that keeps its connection: it is told to send no more there, and what it asked before is answered.
#[tokio::test]
async fn a_drain_lets_requests_of_one_connection_end_and_takes_no_more_there() {
    let (_, mut stage) = stage().await;
    let stream = TokioIo::new(TcpStream::connect(stage.address).await.unwrap());
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let uri = format!("http://{}/slow", stage.address);
    let ask = || {
        let (mut sender, request) = (sender.clone(), Request::get(&uri).body(full("")).unwrap());
        async move { sender.send_request(request).await }
    };
    let under_way = [tokio::spawn(ask()), tokio::spawn(ask())];
    tokio::time::sleep(Duration::from_millis(200)).await;
    stage.begin_drain();
    for asked in under_way {
        let answer = asked.await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "at last");
    }
    assert_eq!(stage.drain().await.cut, 0);
    _ = tokio::time::timeout(Duration::from_secs(10), connection).await.expect("the connection ends");
    assert!(ask().await.is_err());
}

#[tokio::test]
async fn an_answer_that_is_under_way_ends_during_a_drain() {
    for second in [false, true] {
        ends_during_a_drain(second).await;
    }
}

async fn ends_during_a_drain(second: bool) {
    let (mut feed, pieces) = {
        let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(4);
        let receiver = std::sync::Arc::new(tokio::sync::Mutex::new(receiver));
        (sender, receiver)
    };
    let route = get(move || {
        let pieces = pieces.clone();
        async move {
            let mut pieces = pieces.try_lock_owned().unwrap();
            Body::from_stream(
                futures_util::stream::poll_fn(move |context| pieces.poll_recv(context)).map(Ok::<_, std::io::Error>),
            )
        }
    });
    let upstream = serve(Router::new().route("/events", route)).await;
    let mut stage = Stage::set(options(upstream), ready_gate(&Keys::of(["a"])).await).await;
    feed.send(Bytes::from("one")).await.unwrap();
    let request = Request::get(format!("http://{}/events", stage.address)).body(full("")).unwrap();
    let mut body = stage.send(request, second).await.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().data_ref().unwrap(), "one");
    stage.begin_drain();
    tokio::time::sleep(Duration::from_millis(100)).await;
    feed.send(Bytes::from("two")).await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().data_ref().unwrap(), "two");
    feed = tokio::sync::mpsc::channel(1).0;
    drop(feed);
    // Over HTTP/2 the end may be a frame of its own.
    assert!(body.collect().await.expect("an end, and no error").to_bytes().is_empty());
    assert_eq!(stage.drain().await.cut, 0);
}
