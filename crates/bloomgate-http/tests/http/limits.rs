//! What a client can use up, and what happens then.

use std::time::Duration;

use bloomgate_http::{Limits, Options};

use crate::client::Client;
use crate::{LARGE, Running};

fn limited(limits: Limits) -> Options {
    Options { limits, ..Options::default() }
}

const SOON: Duration = Duration::from_millis(300);

#[tokio::test]
async fn requests_share_a_connection() {
    let running = Running::start(Options::default()).await;
    let mut client = Client::connect(running.address).await;
    for _ in 0..3 {
        let answer = client.get("/hello").await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"hello"[..]));
    }
    assert_eq!(client.get("/nothing").await.status, 404);
    assert_eq!(running.stop().await.cut, 0);
}

#[tokio::test]
async fn a_head_that_trickles_in_is_cut_off() {
    let running = Running::start(limited(Limits { head_time: SOON, ..Limits::default() })).await;
    // From the first byte on, and again after a good request.
    for warm in [false, true] {
        let mut client = Client::connect(running.address).await;
        if warm {
            assert_eq!(client.get("/hello").await.status, 200);
        }
        assert!(client.send("GET /hello HTTP/1.1\r\n").await);
        let mut letters = 0;
        while client.send("x").await {
            letters += 1;
            assert!(letters < 100, "still open after {letters} letters, 50 ms each");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(client.is_ended().await);
    }
    // Who says nothing at all has no more time.
    assert!(Client::connect(running.address).await.is_ended().await);
    // A request that takes longer than the head may is worked on to its end.
    let mut patient = Client::connect(running.address).await;
    assert_eq!(patient.get("/long").await.body, b"worth the wait");
    running.stop().await;
}

#[tokio::test]
async fn who_does_not_read_its_answer_is_cut_off() {
    let options = limited(Limits { head_time: SOON, ..Limits::default() });
    let traffic = options.traffic.clone();
    let running = Running::start(options).await;
    let mut greedy = Client::connect(running.address).await;
    // More than the sockets between us hold.
    assert!(greedy.send("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    let mut tenths = 0;
    while tenths == 0 || traffic.open() > 0 {
        tenths += 1;
        assert!(tenths < 100, "still open after ten seconds");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Who reads gets everything.
    let mut steady = Client::connect(running.address).await;
    assert_eq!(steady.get("/large").await.body.len(), LARGE);
    running.stop().await;
}

#[tokio::test]
async fn idle_connections_end_and_busy_ones_do_not() {
    let running = Running::start(limited(Limits { idle: SOON, ..Limits::default() })).await;
    let mut idle = Client::connect(running.address).await;
    assert_eq!(idle.get("/hello").await.status, 200);
    assert!(idle.is_ended().await);
    let mut busy = Client::connect(running.address).await;
    assert_eq!(busy.get("/long").await.status, 200);
    // Who asks for much and never reads is cut too.
    let mut deaf = Client::connect(running.address).await;
    assert!(deaf.send("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    tokio::time::sleep(SOON * 4).await;
    assert!(deaf.read_to_end().await.len() < LARGE);
    running.stop().await;
}

#[tokio::test]
async fn bodies_have_a_limit_announced_or_not() {
    let running = Running::start(limited(Limits { body_bytes: 1000, ..Limits::default() })).await;
    let post = |rest: String| async move {
        let mut client = Client::connect(running.address).await;
        assert!(client.send(format!("POST /length HTTP/1.1\r\nhost: localhost\r\n{rest}")).await);
        client.answer().await.expect("an answer")
    };
    let fits = post(format!("content-length: 1000\r\n\r\n{}", "x".repeat(1000))).await;
    assert_eq!((fits.status, &fits.body[..]), (200, &b"1000"[..]));
    // Refused by its head alone: not one byte of it was sent.
    let announced = post("content-length: 1001\r\n\r\n".to_owned()).await;
    assert_eq!(announced.status, 413);
    assert_eq!(announced.header("content-type"), Some("application/problem+json"));
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    let chunked = post(format!("transfer-encoding: chunked\r\n\r\n{chunk}{chunk}0\r\n\r\n")).await;
    assert_eq!((chunked.status, &chunked.body[..]), (200, &b"1000"[..]));
    let chunked = post(format!("transfer-encoding: chunked\r\n\r\n{chunk}{chunk}1\r\nx\r\n0\r\n\r\n")).await;
    assert_eq!(chunked.status, 413);
    let never = post("content-length: 10\r\n\r\nhalf".to_owned()).await;
    assert_eq!(never.status, 408);
    assert!(String::from_utf8(never.body).unwrap().contains("did not arrive within"));
    running.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let running = Running::start(limited(Limits { head_bytes: 8 << 10, ..Limits::default() })).await;
    let mut client = Client::connect(running.address).await;
    let head = format!("GET /hello HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000));
    client.send(head).await;
    assert_eq!(client.answer().await.expect("an answer").status, 431);
    let mut client = Client::connect(running.address).await;
    let head = format!("GET /hello HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(4_000));
    assert!(client.send(head).await);
    assert_eq!(client.answer().await.expect("an answer").status, 200);
    running.stop().await;
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    for limits in [Limits { connections: 2, ..Limits::default() }, Limits { per_address: 2, ..Limits::default() }] {
        let options = limited(limits);
        let traffic = options.traffic.clone();
        let running = Running::start(options).await;
        let mut one = Client::connect(running.address).await;
        let mut two = Client::connect(running.address).await;
        assert_eq!((one.get("/hello").await.status, two.get("/hello").await.status), (200, 200));
        let mut three = Client::connect(running.address).await;
        let refused = three.get("/hello").await;
        assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
        let problem: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!(problem["status"], 503);
        assert!(three.is_ended().await);
        // A place that is given back is taken by the next.
        drop(one);
        while traffic.open() > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(Client::connect(running.address).await.get("/hello").await.status, 200);
        assert_eq!(two.get("/hello").await.status, 200);
        running.stop().await;
    }
}

#[tokio::test]
async fn stopping_lets_requests_end_and_takes_no_new_ones() {
    let running = Running::start(Options::default()).await;
    let address = running.address;
    let mut idle = Client::connect(address).await;
    assert_eq!(idle.get("/hello").await.status, 200);
    let mut busy = Client::connect(address).await;
    assert!(busy.send("GET /long HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let stopping = tokio::spawn(running.stop());
    assert!(idle.is_ended().await);
    let answer = busy.answer().await.expect("the answer of what was under way");
    assert_eq!(answer.body, b"worth the wait");
    assert_eq!(stopping.await.unwrap().cut, 0);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn stopping_waits_only_so_long() {
    let running = Running::start(limited(Limits { drain: SOON, ..Limits::default() })).await;
    let mut endless = Client::connect(running.address).await;
    assert!(endless.send("GET /endless HTTP/1.1\r\nhost: localhost\r\n\r\n").await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(running.stop().await.cut, 1);
    assert!(endless.is_ended().await);
}

#[tokio::test]
async fn http2_is_spoken_to_who_speaks_it_first() {
    let running = Running::start(Options::default()).await;
    let mut client = Client::connect(running.address).await;
    // The preface and an empty SETTINGS frame; then HEADERS for GET /hello, in HPACK: indexed fields 2 (GET), 6 (http),
    // a literal :path and a literal :authority, without Huffman coding.
    let mut head = vec![0x82, 0x86, 0x04, 6];
    head.extend_from_slice(b"/hello");
    head.extend_from_slice(&[0x01, 9]);
    head.extend_from_slice(b"localhost");
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0, 0, head.len() as u8, 1, 0x05, 0, 0, 0, 1]);
    bytes.extend_from_slice(&head);
    assert!(client.send(&bytes).await);
    let answer = client.read_until(b"hello").await;
    assert!(answer.starts_with(&[0, 0]), "a frame: {answer:?}");
    let stop = tokio::spawn(running.stop());
    // It is told to go away (a frame of the type 7 on stream 0), not just cut off.
    client.read_until(&[7, 0, 0, 0, 0, 0]).await;
    drop(client);
    assert_eq!(stop.await.unwrap().cut, 0);
}

#[tokio::test]
async fn each_connection_can_have_a_service_that_knows_where_it_comes_from() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let make = |peer: &bloomgate_http::Peer| {
        let from = peer.address;
        axum::Router::new().route("/from", axum::routing::get(move || async move { from.to_string() }))
    };
    let serving = tokio::spawn(bloomgate_http::serve_each(listener, make, Options::default(), std::future::pending()));
    for _ in 0..2 {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let mine = stream.local_addr().unwrap().to_string();
        let mut client = Client::over(stream);
        for _ in 0..2 {
            assert_eq!(client.get("/from").await.body, mine.as_bytes());
        }
    }
    serving.abort();
}
