//! An upstream that is down, slow, cut off or strange.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bloomgate_gate::{Gate, Policy, State, Writers};
use http_body_util::BodyExt;
use hyper::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, full, options, raw, ready_gate, until};

/// An upstream that reads a head and then does what it is told, on each connection.
async fn odd(answers: &'static [&'static str], then: Duration) -> (SocketAddr, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicU64::new(0));
    let counted = connections.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            counted.fetch_add(1, SeqCst);
            tokio::spawn(async move {
                for answer in answers {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read_u8().await {
                            Ok(byte) => head.push(byte),
                            Err(_) => return,
                        }
                    }
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                tokio::time::sleep(then).await;
            });
        }
    });
    (address, connections)
}

async fn before(upstream: SocketAddr) -> Stage {
    let mut options = options(upstream);
    options.answer_time = Duration::from_millis(300);
    options.idle_time = Duration::from_millis(300);
    options.connect_time = Duration::from_millis(300);
    Stage::set(options, ready_gate(&Keys::of(["kettle"])).await).await
}

#[tokio::test]
async fn an_upstream_that_is_down_is_a_502_and_absent_keys_are_a_404_all_the_same() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    drop(taken);
    let stage = before(address).await;
    let got = stage.get("/products/kettle").await;
    assert_eq!((got.status, got.header("content-type")), (502, Some("application/problem+json")), "{got:?}");
    assert!(got.text().contains("upstream-down") && !got.text().contains(&address.to_string()), "{got:?}");
    assert!(stage.get("/products/lamp").await.by_filter());
    // A write that was never sent leaves nothing behind.
    assert_eq!(stage.ask("PUT", "/products/new", "", "{}").await.status, 502);
    assert_eq!(stage.ask("POST", "/products", "", "{}").await.status, 502);
    let stats = stage.gate.stats();
    assert_eq!((stats.writes.unknown, stats.writes.doubtful, stats.writes.under_way), (0, 0, 0));
    assert!(matches!(stage.gate.state(), State::Ready { .. }));
    assert_eq!(stage.counted("bloomgate_proxy_upstream_failures_total{reason=\"unreached\"}"), 3);
}

/// Requests that reach nobody: each is given up in time, though its answer might take a minute, and leaves nothing behind.
async fn nobody_is_reached(stage: &Stage) {
    for (method, path, body) in
        [("GET", "/products/kettle", ""), ("PUT", "/products/new", "{}"), ("POST", "/products", "{}")]
    {
        let begun = Instant::now();
        let got = stage.ask(method, path, "", body).await;
        assert_eq!(got.status, 502, "{method}: {got:?}");
        assert!(got.text().contains("upstream-down"), "{method}: {got:?}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{method}: {:?}", begun.elapsed());
    }
    assert!(stage.get("/products/lamp").await.by_filter());
    let stats = stage.gate.stats();
    assert_eq!((stats.writes.unknown, stats.writes.doubtful, stats.writes.under_way), (0, 0, 0));
    assert!(matches!(stage.gate.state(), State::Ready { .. }));
    assert_eq!(stage.counted("bloomgate_proxy_upstream_failures_total{reason=\"unreached\"}"), 3);
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    // It takes connections and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let certificate = folder.path().join("cert.pem");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    let mut options = options(SocketAddr::from(([127, 0, 0, 1], port)));
    options.upstream = format!("https://localhost:{port}");
    options.upstream_ca = Some(certificate);
    options.connect_time = Duration::from_millis(300);
    nobody_is_reached(&Stage::set(options, ready_gate(&Keys::of(["kettle"])).await).await).await;
}

/// Linux leaves connections unanswered that nobody has room for, as a host does that is gone.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_connection_that_is_never_taken_is_given_up() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
        waiting.push(stream.unwrap());
        assert!(waiting.len() < 64, "there is always room for one more");
    }
    let mut options = options(address);
    options.connect_time = Duration::from_millis(300);
    nobody_is_reached(&Stage::set(options, ready_gate(&Keys::of(["kettle"])).await).await).await;
}

#[tokio::test]
async fn an_upstream_that_is_slow_is_a_504() {
    let (address, _) = odd(&[], Duration::from_secs(30)).await;
    let stage = before(address).await;
    let begun = Instant::now();
    assert_eq!(stage.get("/products/kettle").await.status, 504);
    assert!(begun.elapsed() < Duration::from_secs(5));
    // A write may have been done.
    assert_eq!(stage.ask("PUT", "/products/new", "", "{}").await.status, 504);
    assert_eq!(stage.gate.stats().writes.doubtful, 1);
    assert_eq!(stage.counted("bloomgate_proxy_upstream_failures_total{reason=\"slow\"}"), 2);
}

#[tokio::test]
async fn a_long_upload_is_not_a_slow_answer() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let stage = before(catalog.start().await).await;
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream
        .write_all(b"PUT /count HTTP/1.1\r\nhost: h\r\ncontent-length: 8\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stream.write_all(b"x").await.unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with('8'), "{answer}");
    // One that stops in the middle is.
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream
        .write_all(b"PUT /count HTTP/1.1\r\nhost: h\r\ncontent-length: 8\r\nconnection: close\r\n\r\nhalf")
        .await
        .unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 502") || answer.starts_with("HTTP/1.1 504"), "{answer}");
}

#[tokio::test]
async fn an_answer_that_is_cut_off_never_looks_whole() {
    let (address, _) = odd(&["HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"], Duration::ZERO).await;
    let stage = before(address).await;
    for second in [false, true] {
        let request = Request::get(format!("http://{}/x", stage.address)).body(full("")).unwrap();
        let response = stage.send(request, second).await;
        assert_eq!(response.status(), 200);
        assert!(response.into_body().collect().await.is_err(), "it is an error, not an end");
    }
    // One that falls silent is ended too.
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";
    let (address, _) = odd(Box::leak(Box::new([chunked])), Duration::from_secs(30)).await;
    let stage = before(address).await;
    let request = Request::get(format!("http://{}/x", stage.address)).body(full("")).unwrap();
    let mut body = stage.send(request, false).await.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().data_ref().unwrap(), "half");
    let silence = tokio::time::timeout(Duration::from_secs(10), body.frame()).await.unwrap();
    assert!(silence.unwrap().is_err());
}

#[tokio::test]
async fn a_connection_that_was_closed_under_a_lookup_is_tried_again_and_under_a_write_is_not() {
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    // One good answer on a connection; the second request meets its end.
    let (address, connections) = odd(&[OK, ""], Duration::ZERO).await;
    let stage = before(address).await;
    for _ in 0..5 {
        assert_eq!(stage.get("/products/kettle").await.status, 200);
    }
    assert!(connections.load(SeqCst) >= 3);
    assert!(stage.counted("bloomgate_proxy_retries_total") >= 1);
    let before = connections.load(SeqCst);
    // Until a kept connection is met: that one is not asked twice.
    let mut broken = 0;
    for number in 0..6 {
        let got = stage.ask("PUT", &format!("/products/n{number}"), "", "{}").await;
        assert!(matches!(got.status, 200 | 502), "{got:?}");
        broken += u64::from(got.status == 502);
    }
    assert!(broken >= 1 && connections.load(SeqCst) > before);
    assert_eq!(stage.gate.stats().writes.doubtful as u64, broken);
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    for (answer, status) in [
        ("HTTP/1.1 204 No Content\r\nx-end: 1\r\n\r\n", 204),
        ("HTTP/1.1 304 Not Modified\r\netag: \"a\"\r\nx-end: 1\r\n\r\n", 304),
        ("HTTP/1.0 200 OK\r\nx-end: 1\r\n\r\nto the end", 200),
        ("HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\nx-end: 1\r\ncontent-length: 0\r\n\r\n", 200),
    ] {
        let (address, _) = odd(Box::leak(Box::new([answer])), Duration::ZERO).await;
        let stage = before(address).await;
        let got = stage.get("/products/kettle").await;
        assert_eq!((got.status, got.header("x-end")), (status, Some("1")), "{answer}: {got:?}");
        match answer.starts_with("HTTP/1.0") {
            true => assert!(got.text().contains("to the end"), "{got:?}"),
            false => assert!(got.body.is_empty(), "{got:?}"),
        }
    }
}

#[tokio::test]
async fn nonsense_from_the_upstream_is_a_502() {
    for answer in [
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ] {
        let (address, _) = odd(Box::leak(Box::new([answer])), Duration::ZERO).await;
        let stage = before(address).await;
        let got = stage.get("/products/kettle").await;
        assert_eq!(got.status, 502, "{answer}: {got:?}");
    }
}

#[tokio::test]
async fn the_policy_and_the_writers_say_what_passes() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let upstream = catalog.start().await;
    let builder = || Gate::builder(Arc::new(catalog.keys.clone()));
    let stage =
        Stage::set(options(upstream), builder().writers(Writers::Sole).policy(Policy::Closed).build().unwrap()).await;
    let got = stage.get("/products/kettle").await;
    assert_eq!((got.status, got.header("retry-after")), (503, Some("1")), "{got:?}");
    assert_eq!(stage.get("/nowhere").await.status, 404, "what no rule reads passes");
    let stage = Stage::set(options(upstream), builder().writers(Writers::Sole).build().unwrap()).await;
    assert_eq!(
        (stage.get("/products/kettle").await.status, stage.get("/products/lamp").await.text().as_str()),
        (200, "no such product")
    );
    // One that only watches stops nothing, and counts.
    let gate = builder().writers(Writers::Unknown).build().unwrap();
    gate.rebuild().await.unwrap();
    let stage = Stage::set(options(upstream), gate).await;
    catalog.keys.add("written-past");
    assert_eq!(stage.get("/products/written-past").await.status, 200);
    assert_eq!(stage.get("/products/lamp").await.text(), "no such product");
    let shadow = stage.gate.stats().shadow;
    assert_eq!((shadow.would_block, shadow.would_block_wrongly), (2, 1));
}

#[tokio::test]
async fn fixed_routes_beside_the_keys_pass_where_they_are_named() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    let stage = Stage::set(options.clone(), ready_gate(&catalog.keys).await).await;
    assert!(stage.get("/products/search").await.by_filter(), "a key that is not there");
    options.exceptions = vec!["/products/search".parse().unwrap()];
    let stage = Stage::set(options, ready_gate(&catalog.keys).await).await;
    let got = stage.get("/products/search?q=lamp").await;
    assert_eq!((got.status, got.text().as_str()), (200, "what was searched for"));
    assert!(stage.get("/products/lamp").await.by_filter());
    assert_eq!(stage.get("/products/kettle").await.status, 200);
}

#[tokio::test]
async fn without_a_gate_lookups_pass_and_writes_wait() {
    use bloomgate_gate::proxy::Proxy;
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let proxy = Proxy::new(options(catalog.start().await)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = proxy.clone();
    tokio::spawn(async move { serving.serve(listener, Default::default(), std::future::pending()).await });
    let ask = |method: &'static str| async move {
        raw(
            address,
            format!("{method} /products/lamp HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .as_bytes(),
        )
        .await
        .status
    };
    assert_eq!((ask("GET").await, ask("PUT").await), (404, 503));
    proxy.open(ready_gate(&catalog.keys).await);
    assert_eq!((ask("PUT").await, ask("GET").await), (201, 200));
}

#[tokio::test]
async fn a_secured_upstream_is_checked_by_its_authority() {
    use bloomgate_gate::proxy::Proxy;
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = axum::Router::new().route("/products/{id}", axum::routing::get(async || "secured"));
    let tls = bloomgate_gate::service::http::Tls::from_files(&certificate, &key).unwrap();
    let http = bloomgate_gate::service::http::Options { tls: Some(tls.into()), ..Default::default() };
    tokio::spawn(bloomgate_gate::service::http::serve(listener, router, http, std::future::pending()));
    let mut options = options(SocketAddr::from(([127, 0, 0, 1], port)));
    options.upstream = format!("https://localhost:{port}");
    options.upstream_ca = Some(certificate);
    let stage = Stage::set(options.clone(), ready_gate(&Keys::of(["kettle"])).await).await;
    assert_eq!(stage.get("/products/kettle").await.text(), "secured");
    // By another one's authority it is none.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let wrong = folder.path().join("other.pem");
    std::fs::write(&wrong, other.cert.pem()).unwrap();
    options.upstream_ca = Some(wrong);
    let stage = Stage::set(options.clone(), ready_gate(&Keys::of(["kettle"])).await).await;
    assert_eq!(stage.get("/products/kettle").await.status, 502);
    options.upstream_ca = Some(folder.path().join("nowhere.pem"));
    assert!(Proxy::new(options).unwrap_err().to_string().contains("nowhere.pem"));
    until("done", || true).await;
}
