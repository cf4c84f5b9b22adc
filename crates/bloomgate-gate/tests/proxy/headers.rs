//! Heads on their way through, and requests that somebody hopes are read in two ways.

use bloomgate_gate::proxy::{Forwarding, Host};
use http_body_util::BodyExt;
use hyper::Request;

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, full, options, raw, ready_gate};

async fn stage() -> (Catalog, Stage) {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let stage = Stage::set(options(catalog.start().await), ready_gate(&catalog.keys).await).await;
    (catalog, stage)
}

#[tokio::test]
async fn what_is_for_the_end_passes_and_what_is_for_the_connection_does_not() {
    let (_, stage) = stage().await;
    let asked = "connection: close, x-mine\r\nx-mine: 1\r\nkeep-alive: 5\r\ncookie: a=1\r\naccept-encoding: br\r\n\
                 x-forwarded-for: 203.0.113.9\r\nte: trailers\r\nexpect: 100-continue\r\nupgrade: h2c\r\n";
    let request = format!("GET /headers?a=%20b&c HTTP/1.1\r\nhost: shop.example\r\n{asked}\r\n");
    let got = raw(stage.address, request.as_bytes()).await;
    let seen = got.text();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], "GET /headers?a=%20b&c HTTP/1.1");
    for passed in [
        "host: shop.example",
        "cookie: a=1",
        "accept-encoding: br",
        "te: trailers",
        "x-forwarded-for: 203.0.113.9, 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-host: shop.example",
    ] {
        assert!(lines.contains(&passed), "{passed}: {seen}");
    }
    for stopped in ["x-mine", "keep-alive", "upgrade", "expect"] {
        assert!(!lines.iter().any(|line| line.starts_with(stopped)), "{stopped}: {seen}");
    }
    // And back.
    assert_eq!((got.status, got.header("x-end"), got.header("x-hop")), (200, Some("2"), None), "{}", got.head);
    assert_eq!(got.head.matches("set-cookie: ").count(), 2, "{}", got.head);
    assert!(got.header("keep-alive").is_none() && got.header("bloomgate-outcome").is_none());
}

#[tokio::test]
async fn http_2_becomes_http_1_and_the_answer_comes_back() {
    let (_, stage) = stage().await;
    let request = Request::get(format!("http://shop.example:{}/headers?x=1", stage.address.port()))
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(full(""))
        .unwrap();
    let response = stage.send(request, true).await;
    assert_eq!((response.version(), response.status().as_u16()), (hyper::Version::HTTP_2, 200));
    assert_eq!(response.headers().get_all("set-cookie").iter().count(), 2);
    let seen = String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(seen.starts_with("GET /headers?x=1 HTTP/1.1\n"), "{seen}");
    assert!(seen.contains("cookie: a=1; b=2") && seen.contains("host: shop.example:"), "{seen}");
    let absent = Request::get(format!("http://{}/products/lamp", stage.address)).body(full("")).unwrap();
    let response = stage.send(absent, true).await;
    assert_eq!(response.status(), 404);
    assert_eq!(response.headers()["bloomgate-outcome"], "absent-by-filter");
}

#[tokio::test]
async fn the_upstream_is_told_what_the_options_say() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    options.host = Host::Set("internal.example".parse().unwrap());
    options.forwarding = Forwarding::Standard;
    options.outcome_header = true;
    let stage = Stage::set(options, ready_gate(&catalog.keys).await).await;
    let seen = stage.get("/headers").await.text();
    assert!(seen.contains("host: internal.example") && !seen.contains("x-forwarded"), "{seen}");
    assert!(seen.contains("forwarded: for=127.0.0.1;proto=http;host=\"shop.example\""), "{seen}");
    let got = stage.get("/products/kettle").await;
    assert_eq!((got.status, got.header("bloomgate-outcome")), (200, Some("passed")));
    assert_eq!((got.header("bloomgate-filter-version"), got.header("cache-control")), (Some("1"), None));
}

#[tokio::test]
async fn a_no_says_how_it_is_known_and_the_upstream_hears_nothing() {
    let (catalog, stage) = stage().await;
    let got = stage.get("/products/kettle").await;
    assert_eq!((got.status, got.header("x-from"), got.text().as_str()), (200, Some("catalog"), "product kettle"));
    let before = catalog.asked();
    for number in 0..200 {
        let got = stage.get(&format!("/products/lamp-{number}")).await;
        assert_eq!((got.status, got.by_filter()), (404, true), "{got:?}");
        assert_eq!(got.header("bloomgate-filter-version"), Some("1"));
        assert!(got.header("bloomgate-watermark").unwrap().parse::<u64>().unwrap() > 0);
        assert_eq!(
            (got.header("content-type"), got.header("cache-control")),
            (Some("application/problem+json"), Some("no-store"))
        );
    }
    assert_eq!(catalog.asked(), before);
    let head = stage.ask("HEAD", "/products/lamp", "", "").await;
    assert_eq!((head.status, head.by_filter(), head.body.len()), (404, true, 0));
    let head = stage.ask("HEAD", "/products/kettle", "", "").await;
    assert_eq!((head.status, head.body.len(), head.header("content-length")), (200, 0, Some("14")));
    assert_eq!(stage.counted("bloomgate_proxy_requests_total{done=\"absent\"}"), 201);
    assert_eq!(stage.counted("bloomgate_proxy_requests_total{done=\"passed\"}"), 2);
    let stats = stage.gate.stats();
    assert_eq!((stats.lookups.absent_by_filter, stats.lookups.source, stats.measured.false_positives), (201, 2, 0));
}

#[tokio::test]
async fn a_lookup_that_passes_and_finds_nothing_is_a_false_positive() {
    let (catalog, stage) = stage().await;
    // In the filter and not there any more.
    catalog.keys.remove("kettle");
    let got = stage.get("/products/kettle").await;
    assert_eq!((got.status, got.by_filter(), got.text().as_str()), (404, false, "no such product"));
    assert!(stage.get("/products/lamp").await.by_filter());
    let measured = stage.gate.stats().measured;
    assert_eq!((measured.false_positives, measured.absent_lookups), (1, 2));
}

#[tokio::test]
async fn no_request_is_read_as_two() {
    let (catalog, stage) = stage().await;
    let before = catalog.asked();
    for (request, whole) in [
        // Two lengths.
        (
            "PUT /products/a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\ncontent-length: 6\r\nconnection: close\r\n\r\nabcde",
            false,
        ),
        // A length that is none.
        ("PUT /products/a HTTP/1.1\r\nhost: h\r\ncontent-length: +5\r\nconnection: close\r\n\r\nabcde", false),
        // Chunks that are not the last coding.
        (
            "PUT /products/a HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked, gzip\r\nconnection: close\r\n\r\n0\r\n\r\n",
            false,
        ),
        ("PUT /products/a HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", false),
        // Two hosts, and none.
        ("GET /products/a HTTP/1.1\r\nhost: h\r\nhost: g\r\nconnection: close\r\n\r\n", false),
        // A space before the colon, a line that goes on, a bare return.
        ("GET /products/a HTTP/1.1\r\nhost : h\r\nconnection: close\r\n\r\n", false),
        ("GET /products/a HTTP/1.1\r\nhost: h\r\nx: a\r\n b\r\nconnection: close\r\n\r\n", false),
        ("GET /products/a HTTP/1.1\r\nhost: h\r\nx: a\rb\r\nconnection: close\r\n\r\n", false),
        // A length beside chunks: the chunks count, and what is sent on has one framing.
        (
            "PUT /count HTTP/1.1\r\nhost: h\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
             5\r\nabcde\r\n0\r\n\r\nGET /products/kettle HTTP/1.1\r\nhost: h\r\n\r\n",
            true,
        ),
    ] {
        let got = raw(stage.address, request.as_bytes()).await;
        if whole {
            assert_eq!((got.status, got.text().as_str()), (200, "5"), "{request}: {got:?}");
            assert!(!got.text().contains("HTTP/1.1"), "one answer: {got:?}");
        } else {
            assert!(matches!(got.status, 0 | 400), "{request}: {got:?}");
        }
    }
    assert_eq!(catalog.asked(), before, "nothing of it reached a product");
    // Heads have a limit, in bytes and in lines.
    let long = format!("GET /products/a HTTP/1.1\r\nhost: h\r\nx: {}\r\n\r\n", "y".repeat(40 << 10));
    assert_eq!(raw(stage.address, long.as_bytes()).await.status, 431);
    let many: String = (0..200).map(|number| format!("x-{number}: 1\r\n")).collect();
    assert_eq!(raw(stage.address, format!("GET / HTTP/1.1\r\nhost: h\r\n{many}\r\n").as_bytes()).await.status, 431);
    for request in [
        "CONNECT shop.example:443 HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n",
    ] {
        assert_eq!(raw(stage.address, request.as_bytes()).await.status, 501, "{request}");
    }
}

#[tokio::test]
async fn options_and_unknown_paths_pass() {
    let (_, stage) = stage().await;
    assert_eq!(stage.ask("OPTIONS", "/products/lamp", "", "").await.status, 405);
    let got = stage.get("/nowhere").await;
    assert_eq!((got.status, got.text().as_str()), (404, "no such route"));
    assert_eq!(stage.counted("bloomgate_proxy_requests_total{done=\"unjudged\"}"), 2);
}

/// What docs/gate.md says of an answer's head.
#[tokio::test]
async fn what_is_not_kept_of_a_head_is_what_is_told() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let upstream = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = upstream.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = upstream.accept().await {
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            let answer: &[u8] = match asked.starts_with(b"GET /products/kettle") {
                true => b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 Fine By Me\r\nX-Mine: A b\r\nContent-Length: 2\r\n\r\nok",
                false => b"HTTP/1.1 304 Same\r\nETag: \"A\"\r\nContent-Length: 5\r\n\r\n",
            };
            stream.write_all(answer).await.unwrap();
        }
    });
    let stage = Stage::set(options(address), ready_gate(&Keys::of(["kettle"])).await).await;
    // Byte by byte: what is read elsewhere is put into lower case.
    let ask = async |path: &str| {
        let mut stream = tokio::net::TcpStream::connect(stage.address).await.unwrap();
        let asked = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n\r\n");
        stream.write_all(asked.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let found = ask("/products/kettle").await;
    assert!(found.starts_with("HTTP/1.1 200 OK\r\n") && found.ends_with("\r\n\r\nok"), "{found}");
    assert!(found.contains("\r\nx-mine: A b\r\n") && found.contains("\r\ndate: "), "{found}");
    let same = ask("/else").await;
    assert!(same.starts_with("HTTP/1.1 304 Not Modified\r\n") && same.contains("\r\netag: \"A\"\r\n"), "{same}");
    assert!(!same.contains("content-length"), "{same}");
}
