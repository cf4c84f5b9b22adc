//! Writes whose key is made behind the proxy are read whole before they are passed on: one that breaks off has reached nobody,
//! and the filter keeps its "no".

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bloomgate_gate::State;
use bloomgate_gate::proxy::{Longer, Options};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::{HeaderMap, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::catalog::Catalog;
use crate::stage::{Got, Keys, Stage, options, raw, ready_gate, until};

/// A service that asks who it is as soon as it has the head of a request: it counts the requests, and answers each with 401.
async fn guarded() -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => return,
                    }
                }
                counted.fetch_add(1, SeqCst);
                // As services do that have not read the body: the answer after it, or never if it breaks off.
                let mut piece = [0; 1 << 16];
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                let mut left: usize = length.map_or(usize::MAX, |length| length.parse().unwrap());
                while left > 0 {
                    match stream.read(&mut piece).await {
                        Ok(read @ 1..) => left = left.saturating_sub(read),
                        _ => return,
                    }
                }
                let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                _ = stream.write_all(answer).await;
            });
        }
    });
    (address, seen)
}

/// A proxy before a service that sends everything back, at what is a collection to the proxy.
async fn echoing(change: impl FnOnce(&mut Options)) -> Stage {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    options.rules = vec!["path:/echo/{id}".parse().unwrap()];
    options.new_key_status = "201".parse().unwrap();
    change(&mut options);
    Stage::set(options, ready_gate(&catalog.keys).await).await
}

fn is_ready(stage: &Stage) -> bool {
    matches!(stage.gate.state(), State::Ready { .. })
}

/// Letters of which no two stretches are alike.
fn letters(many: usize) -> String {
    (0..many).map(|at| char::from(b'a' + ((at * at) % 251 % 26) as u8)).collect()
}

type Piece = Result<Frame<Bytes>, std::io::Error>;

/// A body in pieces that are given one after the other; dropped, it has ended.
fn fed() -> (tokio::sync::mpsc::Sender<Piece>, BoxBody<Bytes, std::io::Error>) {
    let (sender, mut receiver) = tokio::sync::mpsc::channel(4);
    let frames = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
    (sender, BodyExt::boxed(StreamBody::new(frames)))
}

fn data(text: &str) -> Piece {
    Ok(Frame::data(Bytes::from(text.to_owned())))
}

/// Begins a request on a connection of its own.
async fn begin(stage: &Stage, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    let request = format!("POST {head}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// What comes back until the proxy closes.
async fn rest(mut stream: TcpStream) -> Got {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
    // A reset is an end as well, of a body that nobody wanted.
    let _ = read.await.expect("an end");
    Got::read(&answer)
}

#[tokio::test]
async fn a_write_that_breaks_off_has_reached_nobody_and_the_filter_stays() {
    let (upstream, seen) = guarded().await;
    let stage = Stage::set(options(upstream), ready_gate(&Keys::of(["kettle"])).await).await;
    let sent = letters(90_000);
    for (head, body) in [
        ("content-length: 200000", sent.clone()),
        ("content-length: 1048576", format!("{sent}{sent}{sent}")),
        ("transfer-encoding: chunked", format!("15f90\r\n{sent}\r\n")),
        ("transfer-encoding: chunked", format!("15f90\r\n{sent}\r\n15f90\r\nx")),
    ] {
        let stream = begin(&stage, &format!("/products HTTP/1.1\r\nhost: h\r\n{head}"), &body).await;
        // By then it has been read, and would have been passed on.
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(stream);
    }
    let (feed, body) = fed();
    let request = Request::post(format!("http://{}/products", stage.address)).body(body).unwrap();
    let (address, sent) = (stage.address, Bytes::from(sent));
    let sending = tokio::spawn(async move {
        let stream = hyper_util::rt::TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), stream).await.unwrap();
        tokio::spawn(connection);
        sender.send_request(request).await
    });
    feed.send(Ok(Frame::data(sent))).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    feed.send(Err(std::io::Error::other("the client is gone"))).await.unwrap();
    assert!(sending.await.unwrap().map_or(true, |answer| answer.status() == 400));
    let refused = "bloomgate_proxy_requests_total{done=\"refused\"}";
    until("all of them have ended", || stage.counted(refused) == 5).await;
    assert_eq!((seen.load(SeqCst), stage.gate.stats().writes.unknown), (0, 0));
    assert!(is_ready(&stage) && stage.get("/products/lamp").await.by_filter());
    stage.gate.rebuild().await.unwrap();
    // One that is whole gets what the service says.
    let whole = letters(200_000);
    let got = stage.ask("POST", "/products", "", &whole).await;
    assert_eq!((got.status, seen.load(SeqCst), is_ready(&stage)), (401, 1, true), "{got:?}");
}

#[tokio::test]
async fn a_whole_one_is_passed_on_as_it_was_sent() {
    let stage = echoing(|_| {}).await;
    for length in [1, 65_536, 65_537, 300_000, 1 << 20] {
        let sent = letters(length);
        let got = stage.ask("POST", "/echo", "", &sent).await;
        assert!(got.status == 200 && got.text().contains(&sent), "{length}: {}", got.head);
        for second in [false, true] {
            let (feed, body) = fed();
            let request = Request::post(format!("http://{}/echo", stage.address))
                .header("te", "trailers")
                .header("trailer", "x-sum")
                .body(body)
                .unwrap();
            let whole = sent.clone();
            let sending = tokio::spawn(async move {
                for piece in whole.as_bytes().chunks(50_000) {
                    feed.send(Ok(Frame::data(Bytes::copy_from_slice(piece)))).await.unwrap();
                }
                let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "42".parse().unwrap())]);
                feed.send(Ok(Frame::trailers(trailers))).await.unwrap();
            });
            let answer = stage.send(request, second).await.into_body().collect().await.unwrap();
            sending.await.unwrap();
            let sum = answer.trailers().map(|trailers| trailers["x-sum"].clone());
            assert_eq!(sum, Some("42".parse().unwrap()), "{length}, HTTP/2: {second}");
            assert!(answer.to_bytes() == sent, "{length}, HTTP/2: {second}");
        }
    }
    assert!(is_ready(&stage));
}

#[tokio::test]
async fn longer_ones_are_streamed_or_refused_as_was_said() {
    let stage = echoing(|options| options.whole_body = 100_000).await;
    for second in [false, true] {
        let (feed, body) = fed();
        let request = Request::post(format!("http://{}/echo", stage.address)).body(body).unwrap();
        let sent = letters(100_001);
        feed.send(data(&sent)).await.unwrap();
        // The answer's head is here while the request goes on.
        let asked = tokio::time::timeout(Duration::from_secs(10), stage.send(request, second)).await;
        feed.send(data("and the end")).await.unwrap();
        drop(feed);
        let answer = asked.expect("an answer").into_body().collect().await.unwrap().to_bytes();
        assert!(answer == format!("{sent}and the end"), "HTTP/2: {second}");
    }
    let (upstream, seen) = guarded().await;
    let mut options = options(upstream);
    (options.whole_body, options.longer) = (100_000, Longer::Refuse);
    let stage = Stage::set(options, ready_gate(&Keys::of(["kettle"])).await).await;
    // One that says so is not even asked for its body.
    let head = "/products HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\ncontent-length: 100001";
    let got = rest(begin(&stage, &format!("{head}\r\nconnection: close"), "").await).await;
    assert_eq!(got.status, 413, "{got:?}");
    assert!(got.text().contains("may have 100000 bytes"), "{}", got.text());
    let chunked = format!("186a1\r\n{}\r\n", letters(100_001));
    let head = "/products HTTP/1.1\r\nhost: h\r\nconnection: close\r\ntransfer-encoding: chunked";
    assert_eq!(rest(begin(&stage, head, &chunked).await).await.status, 413);
    assert_eq!((seen.load(SeqCst), is_ready(&stage)), (0, true));
    assert_eq!(stage.ask("POST", "/products", "", &letters(100_000)).await.status, 401);
    assert_eq!(seen.load(SeqCst), 1);
    // Other writes are streamed, however long.
    assert_eq!(stage.ask("PUT", "/products/kettle", "", &letters(200_000)).await.status, 401);
}

#[tokio::test]
async fn what_bodies_take_together_is_bounded() {
    for longer in [Longer::Stream, Longer::Refuse] {
        let (upstream, seen) = guarded().await;
        let mut options = options(upstream);
        (options.whole_memory, options.longer) = (100_000, longer);
        let stage = Stage::set(options, ready_gate(&Keys::of(["kettle"])).await).await;
        let head = "/products HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 90000";
        let held = begin(&stage, head, &letters(89_999)).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        // It has 64 KiB of the memory, and another one finds no 64 KiB more.
        let got = stage.ask("POST", "/products", "", &letters(90_000)).await;
        match longer {
            Longer::Stream => assert_eq!((got.status, seen.load(SeqCst)), (401, 1), "{got:?}"),
            Longer::Refuse => {
                assert_eq!((got.status, got.header("retry-after"), seen.load(SeqCst)), (503, Some("1"), 0), "{got:?}");
                assert_eq!(stage.ask("POST", "/products", "", &letters(60_000)).await.status, 401, "a short one");
            }
        }
        let mut held = held;
        held.write_all(b"x").await.unwrap();
        assert_eq!(rest(held).await.status, 401, "the first one goes on");
        let before = seen.load(SeqCst);
        for _ in 0..3 {
            let held = begin(&stage, head, &letters(89_999)).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(held);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(seen.load(SeqCst), before, "each had room, and none has kept it");
        assert_eq!(stage.ask("POST", "/products", "", &letters(90_000)).await.status, 401);
        assert!(is_ready(&stage));
    }
}

#[tokio::test]
async fn a_slow_one_is_ended_and_a_long_one_is_not_slow() {
    let stage = echoing(|options| options.idle_time = Duration::from_millis(600)).await;
    let head = "/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 700000";
    let mut stream = begin(&stage, head, "").await;
    let mut leave = [0; 25];
    stream.read_exact(&mut leave).await.unwrap();
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    let sent = letters(700_000);
    for piece in sent.as_bytes().chunks(100_000) {
        tokio::time::sleep(Duration::from_millis(150)).await;
        stream.write_all(piece).await.unwrap();
    }
    let got = rest(stream).await;
    assert!(got.status == 200 && got.text().contains(&sent), "{}", got.head);
    // Byte by byte: each in time, and all of them not.
    let head = "/echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 700000";
    let mut stream = begin(&stage, head, "").await;
    let mut answer = Vec::new();
    for _ in 0..100 {
        let piece = tokio::time::timeout(Duration::from_millis(50), stream.read_buf(&mut answer)).await;
        if piece.is_ok() {
            break;
        }
        stream.write_all(b"x").await.unwrap();
    }
    assert_eq!(Got::read(&answer).status, 408);
    assert!(is_ready(&stage) && stage.gate.stats().writes.under_way == 0);
    assert_eq!(raw(stage.address, b"GET /echo HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await.status, 200);
}

/// A service that answers by the head of a request, and hangs up with the rest of it unread.
async fn hasty() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let answer = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn an_answer_that_came_before_the_upstream_hung_up_is_heard() {
    let stage = Stage::set(options(hasty().await), ready_gate(&Keys::of(["kettle"])).await).await;
    // More than sockets take.
    let sent = letters(1 << 20);
    for number in 0..20 {
        for path in ["/products".to_owned(), format!("/products/new-{number}")] {
            let method = if path == "/products" { "POST" } else { "PUT" };
            let got = stage.ask(method, &path, "", &sent).await;
            assert_eq!(got.status, 401, "{method}, {number}: {got:?}");
        }
    }
    assert_eq!((is_ready(&stage), stage.gate.stats().writes.doubtful), (true, 0));
}
