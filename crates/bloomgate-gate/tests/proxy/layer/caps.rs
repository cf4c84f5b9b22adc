//! Caps on single clients hold in the layer as they do in the proxy: by the address of the connection, or by what a trusted
//! proxy says.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path};
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::any;
use bloomgate_gate::callers::{Callers, Limit};
use bloomgate_gate::layer::{Clients, GateLayer};
use bloomgate_gate::{Gate, Writers};
use tokio::sync::RwLock;
use tower::ServiceExt;

use super::shop;
use crate::stage::{Keys, until};

/// Clients may miss three times and add twice in an hour. The keys `gone-0` to `gone-9` are in the filter and not in the shop.
async fn gate() -> (Gate, Keys) {
    let keys = Keys::of((0..10).map(|number| format!("gone-{number}")).chain(["kettle".to_owned()]));
    let hour = |count| Some(Limit::new(count, Duration::from_secs(3600)).unwrap());
    let gate = Gate::builder(Arc::new(keys.clone()))
        .writers(Writers::Sole)
        .audit_share(0.0)
        .callers(Arc::new(Callers::new(hour(3), hour(2))))
        .build()
        .unwrap();
    gate.rebuild().await.unwrap();
    (0..10).for_each(|number| assert!(keys.remove(&format!("gone-{number}"))));
    (gate, keys)
}

fn layer(gate: &Gate) -> GateLayer<Body> {
    GateLayer::new(gate.clone(), ["path:/products/{id}".parse().unwrap()])
}

struct App {
    router: Router,
    asked: Arc<AtomicU64>,
}

impl App {
    fn of(keys: &Keys, layer: GateLayer<Body>) -> Self {
        let asked = Arc::new(AtomicU64::new(0));
        Self { router: shop(keys, &asked).layer(layer), asked }
    }

    /// The status, and what it says of when to come again.
    async fn ask(&self, peer: &str, header: (&str, &str), method: &str, path: &str) -> (u16, Option<String>) {
        let peer: SocketAddr = format!("{peer}:4711").parse().unwrap();
        let request = Request::builder().method(method).uri(path).header(header.0, header.1);
        let request = request.extension(ConnectInfo(peer)).body(Body::empty()).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let again = response.headers().get("retry-after").map(|again| again.to_str().unwrap().to_owned());
        (response.status().as_u16(), again)
    }

    async fn status(&self, peer: &str, method: &str, path: &str) -> u16 {
        self.ask(peer, ("x-nothing", ""), method, path).await.0
    }
}

#[tokio::test]
async fn who_finds_nothing_too_often_is_stopped_before_the_handler() {
    let (gate, keys) = gate().await;
    let app = App::of(&keys, layer(&gate));
    for number in 0..3 {
        assert_eq!(app.status("192.0.2.1", "GET", "/products/kettle").await, 200, "what is found costs nothing");
        assert_eq!(app.status("192.0.2.1", "GET", &format!("/products/gone-{number}")).await, 404);
    }
    let asked = app.asked.load(SeqCst);
    let (status, again) = app.ask("192.0.2.1", ("x-nothing", ""), "GET", "/products/gone-3").await;
    assert!(status == 429 && again.is_some_and(|seconds| seconds.parse::<u64>().unwrap() > 0));
    // Odd spellings pass the filter unjudged, and not the cap.
    for path in ["/products/x%2F1", "/Products/x1", "//products/x1", "/nowhere"] {
        assert_eq!(app.status("192.0.2.1", "GET", path).await, 429, "{path}");
    }
    assert_eq!(app.asked.load(SeqCst), asked, "no handler was called");
    assert_eq!(app.status("192.0.2.1", "GET", "/products/never").await, 404, "the filter's own answer");
    // Whatever it writes of itself, and whatever others do.
    let forged = ("x-forwarded-for", "203.0.113.9");
    assert_eq!(app.ask("192.0.2.1", forged, "GET", "/products/gone-4").await.0, 429);
    assert_eq!(app.status("192.0.2.2", "GET", "/products/gone-4").await, 404);
    let stats = gate.stats();
    assert_eq!(stats.clients.unwrap().refused_lookups, 6);
    assert_eq!(stats.measured.false_positives, 4);
}

#[tokio::test]
async fn many_at_once_miss_no_more_often_than_the_cap() {
    let (gate, keys) = gate().await;
    let app = App::of(&keys, layer(&gate));
    let asked = (0..10).map(|number| {
        let (app, path) = (&app, format!("/products/gone-{number}"));
        async move { app.status("192.0.2.1", "GET", &path).await }
    });
    let answers = futures_util::future::join_all(asked).await;
    let many = |status| answers.iter().filter(|&&answer| answer == status).count();
    assert_eq!((many(404), many(429)), (3, 7), "{answers:?}");
}

#[tokio::test]
async fn who_adds_too_much_is_stopped_before_the_filter_is_told() {
    let (gate, keys) = gate().await;
    let app = App::of(&keys, layer(&gate));
    for number in 0..2 {
        assert_eq!(app.status("192.0.2.1", "PUT", &format!("/products/new-{number}")).await, 201);
    }
    assert_eq!(app.status("192.0.2.1", "PUT", "/products/new-2").await, 429);
    assert!(
        !keys.has("new-2") && gate.look(&"new-2".into()).is_some(),
        "neither the handler nor the filter heard of it"
    );
    assert_eq!(app.status("192.0.2.1", "POST", "/products").await, 429);
    assert_eq!(app.status("192.0.2.2", "PUT", "/products/new-2").await, 201);
    assert_eq!(app.status("192.0.2.1", "GET", "/products/new-2").await, 200);
}

#[tokio::test]
async fn clients_are_told_apart_as_it_was_said() {
    let (gate, keys) = gate().await;
    let trusted = vec!["10.0.0.1".parse().unwrap()];
    let by_header = Clients { by: "header:x-user".parse().unwrap(), trusted };
    let app = App::of(&keys, layer(&gate).clients(by_header));
    for number in 0..3 {
        let got = app.ask("10.0.0.1", ("x-user", "ann"), "GET", &format!("/products/gone-{number}")).await;
        assert_eq!(got.0, 404);
    }
    assert_eq!(app.ask("10.0.0.1", ("x-user", "ann"), "GET", "/products/gone-3").await.0, 429);
    assert_eq!(app.ask("10.0.0.1", ("x-user", "bob"), "GET", "/products/gone-3").await.0, 404);
    // From elsewhere the header is what a client made up.
    assert_eq!(app.ask("192.0.2.1", ("x-user", "ann"), "GET", "/products/gone-3").await.0, 404);
    // An address that is somewhere else, and answers of one's own.
    let (gate, keys) = self::gate().await;
    let own = layer(&gate)
        .peer_by(|head| head.headers.get("x-peer")?.to_str().ok()?.parse::<IpAddr>().ok())
        .refused_by(|error| (StatusCode::IM_A_TEAPOT, error.to_string()).into_response());
    let app = App::of(&keys, own);
    for (number, status) in [(0, 404), (1, 404), (2, 404), (3, 418)] {
        let path = format!("/products/gone-{number}");
        assert_eq!(app.ask("192.0.2.1", ("x-peer", "198.51.100.1"), "GET", &path).await.0, status);
    }
    // Of which nobody knows where it came from, nobody is charged.
    for number in 0..5 {
        assert_eq!(app.status("192.0.2.1", "GET", &format!("/products/gone-{number}")).await, 404);
    }
}

#[tokio::test]
async fn a_server_of_axum_tells_the_layer_who_asks() {
    let (gate, keys) = gate().await;
    let app = App::of(&keys, layer(&gate));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = app.router.into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move { axum::serve(listener, service).await });
    let mut statuses = Vec::new();
    for number in 0..5 {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!("GET /products/gone-{number} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        statuses.push(answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap());
    }
    assert_eq!(statuses, [404, 404, 404, 429, 429]);
    serving.abort();
}

#[tokio::test]
async fn a_write_that_makes_no_key_adds_nothing() {
    let (gate, keys) = gate().await;
    let app = App::of(&keys, layer(&gate));
    for _ in 0..2 {
        assert_eq!(app.status("192.0.2.1", "POST", "/login").await, 404, "it passes, and finds nothing");
    }
    for number in 0..2 {
        assert_eq!(app.status("192.0.2.1", "PUT", &format!("/products/new-{number}")).await, 201);
    }
    assert_eq!(app.status("192.0.2.1", "PUT", "/products/new-2").await, 429);
    assert_eq!(app.status("192.0.2.1", "POST", "/login").await, 404);
    assert_eq!(app.status("192.0.2.1", "POST", "/login").await, 429, "nothing was found three times");
}

#[tokio::test]
async fn another_method_is_no_way_past_the_cap() {
    let overridden = ("x-http-method-override", "GET");
    let asks = [
        ("POST", "/nowhere", ("x-nothing", "")),
        ("OPTIONS", "/nowhere", ("x-nothing", "")),
        ("DELETE", "/nowhere", ("x-nothing", "")),
        ("GET", "/nowhere", overridden),
    ];
    for (method, path, header) in asks {
        let (gate, keys) = gate().await;
        let app = App::of(&keys, layer(&gate));
        for _ in 0..3 {
            assert_eq!(app.ask("192.0.2.1", header, method, path).await.0, 404, "{method}");
        }
        for (next, path, header) in asks {
            assert_eq!(app.ask("192.0.2.1", header, next, path).await.0, 429, "{method} {next}");
        }
        assert_eq!(app.status("192.0.2.1", "GET", "/products/gone-3").await, 429);
        assert_eq!(app.ask("192.0.2.2", header, method, path).await.0, 404, "another client");
        assert_eq!(gate.stats().clients.unwrap().refused_lookups, 5);
    }
}

/// An app that begins to answer when nobody holds it, and has the kettle.
fn held(gate: &Gate) -> (App, Arc<RwLock<()>>) {
    let (hold, asked) = (Arc::new(RwLock::new(())), Arc::new(AtomicU64::new(0)));
    let (waits, counted) = (hold.clone(), asked.clone());
    let show = move |Path(id): Path<String>| async move {
        counted.fetch_add(1, SeqCst);
        let _held = waits.read().await;
        if id == "kettle" { StatusCode::OK } else { StatusCode::NOT_FOUND }
    };
    (App { router: Router::new().route("/products/{id}", any(show)).layer(layer(gate)), asked }, hold)
}

#[tokio::test]
async fn who_goes_away_before_the_answer_pays_for_what_is_not_there_and_for_nothing_else() {
    let (gate, _) = gate().await;
    let (app, hold) = held(&gate);
    let app = Arc::new(app);
    let hang_up = async |method: &'static str, path: &'static str| {
        let held = hold.write().await;
        let before = app.asked.load(SeqCst);
        let asking = tokio::spawn({
            let app = app.clone();
            async move { app.status("192.0.2.1", method, path).await }
        });
        until("the handler was called", || app.asked.load(SeqCst) == before + 1).await;
        // As a server drops what nobody waits for, and a layer before this one what takes too long.
        asking.abort();
        assert!(asking.await.unwrap_err().is_cancelled());
        drop(held);
    };
    for method in ["GET", "OPTIONS", "DELETE", "GET", "HEAD"] {
        hang_up(method, "/products/kettle").await;
        assert_eq!(app.status("192.0.2.1", "GET", "/products/kettle").await, 200, "{method}");
    }
    hang_up("GET", "/products/gone-0").await;
    hang_up("OPTIONS", "/products/gone-1").await;
    assert_eq!(app.status("192.0.2.1", "GET", "/products/kettle").await, 200, "one is left");
    hang_up("DELETE", "/products/gone-2").await;
    assert_eq!(app.status("192.0.2.1", "GET", "/products/kettle").await, 429);
    assert_eq!(app.status("192.0.2.2", "GET", "/products/gone-0").await, 404, "another client");
    assert_eq!(gate.stats().measured.false_positives, 2, "what came of a lookup is known, though nobody was told");
}

#[tokio::test]
async fn a_handler_that_panics_under_a_cap_panics_as_it_would_without_the_layer() {
    async fn broken() -> StatusCode {
        panic!("a handler that fails")
    }
    let (gate, _) = gate().await;
    let router = Router::new().route("/products/{id}", any(broken)).layer(layer(&gate));
    let app = App { router, asked: Arc::default() };
    let asking = tokio::spawn(async move { app.status("192.0.2.1", "GET", "/products/kettle").await });
    assert!(asking.await.unwrap_err().is_panic());
}
