//! Tokens, hosts, health and metrics as a client meets them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::get;
use bloomgate_http::access::{Hosts, Role, Tokens};
use bloomgate_http::listen::Traffic;
use bloomgate_http::metrics::Scrape;
use bloomgate_http::{Options, health};

use crate::Running;
use crate::client::{Answer, Client};
use crate::exposition::read;

async fn ask(running: &Running, path: &str, headers: &str) -> Answer {
    let mut client = Client::connect(running.address).await;
    assert!(client.send(format!("GET {path} HTTP/1.1\r\n{headers}\r\n")).await);
    client.answer().await.expect("an answer")
}

#[tokio::test]
async fn a_route_with_a_token_lets_in_who_has_one() {
    let tokens = Arc::new(Tokens::parse("read reading-token-12\nadmin mighty-token-123\n").unwrap());
    let guarded = move |request: Request| async move {
        match tokens.check(request.headers(), Role::Write) {
            Ok(role) => role.name().into_response(),
            Err(problem) => problem.into_response(),
        }
    };
    let router = Router::new().route("/guarded", get(guarded)).route("/open", get(|| async { "open" }));
    let running = Running::with(router, Options::default()).await;
    let refused = ask(&running, "/guarded", "host: localhost\r\n").await;
    assert_eq!(refused.status, 401);
    assert!(refused.header("www-authenticate").unwrap().starts_with("Bearer"));
    let guess = "mighty-token-124";
    let wrong = ask(&running, "/guarded", &format!("host: localhost\r\nauthorization: Bearer {guess}\r\n")).await;
    assert_eq!(wrong.status, 401);
    assert!(!String::from_utf8_lossy(&wrong.body).contains(guess), "a token is never repeated");
    let low = ask(&running, "/guarded", "host: localhost\r\nauthorization: Bearer reading-token-12\r\n").await;
    assert_eq!((low.status, low.header("content-type")), (403, Some("application/problem+json")));
    let high = ask(&running, "/guarded", "host: localhost\r\nauthorization: Bearer mighty-token-123\r\n").await;
    assert_eq!((high.status, &high.body[..]), (200, &b"admin"[..]));
    assert_eq!(ask(&running, "/open", "host: localhost\r\n").await.status, 200);
    running.stop().await;
}

#[tokio::test]
async fn a_page_that_reaches_for_this_machine_is_turned_away() {
    let router = Router::new().route(
        "/",
        get(|request: Request| async move { Hosts::default().check(request.headers(), request.uri()).map(|()| "in") }),
    );
    let running = Running::with(router, Options::default()).await;
    let own = format!("host: {}\r\n", running.address);
    assert_eq!(ask(&running, "/", &own).await.status, 200);
    assert_eq!(ask(&running, "/", "host: rebound.example\r\n").await.status, 403);
    assert_eq!(ask(&running, "/", &format!("{own}origin: http://page.example\r\n")).await.status, 403);
    // The absolute form has the name in the address, and that is the one that counts.
    assert_eq!(ask(&running, "http://rebound.example/", &own).await.status, 403);
    running.stop().await;
}

#[tokio::test]
async fn alive_is_not_ready() {
    let loaded = Arc::new(AtomicBool::new(false));
    let seen = loaded.clone();
    let ready = move || match seen.load(Relaxed) {
        true => Ok("ready, version 1".to_owned()),
        false => Err("the first filter is being built".to_owned()),
    };
    let running = Running::with(health::routes(Arc::new(ready)), Options::default()).await;
    assert_eq!(ask(&running, "/healthz", "host: localhost\r\n").await.body, b"ok\n");
    let not_yet = ask(&running, "/readyz", "host: localhost\r\n").await;
    assert_eq!((not_yet.status, not_yet.header("retry-after")), (503, Some("1")));
    assert!(String::from_utf8(not_yet.body).unwrap().contains("the first filter is being built"));
    loaded.store(true, Relaxed);
    let now = ask(&running, "/readyz", "host: localhost\r\n").await;
    assert_eq!((now.status, &now.body[..]), (200, &b"ready, version 1\n"[..]));
    running.stop().await;
}

#[tokio::test]
async fn a_scrape_comes_in_the_form_that_was_asked_for() {
    let options = Options::default();
    let traffic: Arc<Traffic> = options.traffic.clone();
    let metrics = move |request: Request| async move {
        let mut scrape = Scrape::default();
        traffic.collect(&mut scrape);
        scrape.respond(request.headers())
    };
    let running = Running::with(Router::new().route("/metrics", get(metrics)), options).await;
    for (accept, media_type, open) in [
        ("", "text/plain; version=0.0.4; charset=utf-8", false),
        (
            "accept: application/openmetrics-text\r\n",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ] {
        let answer = ask(&running, "/metrics", &format!("host: localhost\r\n{accept}")).await;
        assert_eq!(answer.header("content-type"), Some(media_type));
        let text = String::from_utf8(answer.body).unwrap();
        let samples = read(&text, open).unwrap();
        let accepted = samples.iter().find(|(name, ..)| name == "bloomgate_http_connections_accepted_total").unwrap();
        assert!(accepted.2 >= 1.0, "{text}");
    }
    running.stop().await;
}
