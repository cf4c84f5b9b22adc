//! Keys in the query of a request, `query:/lookup?sku={id}`, before a service that reads its parameters by itself.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::RawQuery;
use axum::http::StatusCode;
use axum::routing::get;
use bloomgate_gate::State;
use http_body_util::BodyExt;
use hyper::Request;

use crate::catalog::serve;
use crate::stage::{Keys, Stage, full, options, ready_gate};

/// What a form has under a name, as most services read it: the last one, decoded, a plus for a space.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let written = query?.split('&').filter_map(|pair| pair.split_once('=')).rfind(|(this, _)| *this == name)?.1;
    let (mut bytes, mut rest) = (Vec::new(), written.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A service of which products are asked by `/lookup?sku=`.
async fn shop(keys: &Keys) -> SocketAddr {
    let (shown, stored, removed, made) = (keys.clone(), keys.clone(), keys.clone(), keys.clone());
    let sku = |query: Option<String>| parameter(query.as_deref(), "sku");
    let show = move |RawQuery(query): RawQuery| async move {
        match sku(query) {
            Some(sku) if shown.has(&sku) => (StatusCode::OK, sku),
            _ => (StatusCode::NOT_FOUND, "not there".to_owned()),
        }
    };
    let store = move |RawQuery(query): RawQuery| async move {
        let Some(sku) = sku(query) else { return StatusCode::BAD_REQUEST };
        stored.add(sku);
        StatusCode::CREATED
    };
    let remove = move |RawQuery(query): RawQuery| async move {
        match sku(query) {
            Some(sku) if removed.remove(&sku) => StatusCode::NO_CONTENT,
            _ => StatusCode::NOT_FOUND,
        }
    };
    let make = move || async move {
        made.add("made-1");
        (StatusCode::CREATED, r#"{"sku":"made-1"}"#)
    };
    let methods = get(show.clone()).put(store).delete(remove).post(make);
    serve(Router::new().route("/lookup", methods).route("/other", get(show))).await
}

async fn stage(new_key: &str) -> Stage {
    let keys = Keys::of(["kettle", "a b", "é"]);
    let mut options = options(shop(&keys).await);
    options.rules = ["query:/lookup?sku={id}", "path:/products/{id}"].map(|rule| rule.parse().unwrap()).into();
    options.new_key = new_key.parse().unwrap();
    Stage::set(options, ready_gate(&keys).await).await
}

#[tokio::test]
async fn absent_keys_are_stopped_and_what_may_be_read_in_two_ways_passes() {
    let stage = stage("location").await;
    for (query, sku) in [
        ("sku=kettle", "kettle"),
        ("sku=a%20b", "a b"),
        ("x=1&sku=%C3%A9&y=2", "é"),
        // Of several one counts, and which one differs; a plus is one, or a space.
        ("sku=lamp&sku=kettle", "kettle"),
        ("sku=a+b", "a b"),
    ] {
        let got = stage.get(&format!("/lookup?{query}")).await;
        assert_eq!((got.status, got.text().as_str()), (200, sku), "{query}: {got:?}");
    }
    for query in ["sku=lamp", "sku=a%20lamp", "x=1&sku=lamp&y=2", "sku=lamp&"] {
        assert!(stage.get(&format!("/lookup?{query}")).await.by_filter(), "{query}");
    }
    for target in [
        "/lookup",
        "/lookup?skus=lamp",
        "/lookup?SKU=lamp",
        "/lookup?s%6Bu=lamp",
        "/lookup?sku[]=lamp",
        "/lookup?sku=",
        "/lookup?sku=lamp;x=1",
        "/lookup?sku=%zz",
        "/other?sku=lamp",
        "/lookup/?sku=lamp",
    ] {
        let got = stage.get(target).await;
        assert_eq!((got.status, got.by_filter()), (404, false), "{target}: {got:?}");
    }
    assert!(stage.get("/products/lamp").await.by_filter(), "the other rule");
    for second in [false, true] {
        for (sku, status) in [("kettle", 200), ("lamp", 404)] {
            let uri = format!("http://{}/lookup?sku={sku}", stage.address);
            let answer = stage.send(Request::get(uri).body(full("")).unwrap(), second).await;
            assert_eq!(answer.status(), status, "{sku}");
            assert_eq!(answer.headers().contains_key("bloomgate-outcome"), status == 404);
            answer.into_body().collect().await.unwrap();
        }
    }
}

#[tokio::test]
async fn keys_that_are_written_by_their_query_are_known() {
    let stage = stage("location").await;
    for query in ["sku=lamp", "x=1&sku=a%20lamp", "sku=%2Blamp"] {
        let target = format!("/lookup?{query}");
        assert!(stage.get("/lookup?sku=vase").await.by_filter());
        assert_eq!(stage.ask("PUT", &target, "", "{}").await.status, 201, "{query}");
        assert_eq!(stage.get(&target).await.status, 200, "{query}");
    }
    // Whatever some service may take for the key of a write: here none does, so that they pass and are not found.
    for (written, asked) in
        [("/lookup?SKU=urn-1", "urn-1"), ("/Lookup/?sku=urn-2", "urn-2"), ("/lookup?sku[]=urn-3", "urn-3")]
    {
        let asked = format!("/lookup?sku={asked}");
        assert!(stage.get(&asked).await.by_filter(), "{written}");
        stage.ask("PUT", written, "", "{}").await;
        let got = stage.get(&asked).await;
        assert_eq!((got.status, got.by_filter()), (404, false), "{written}");
    }
    assert_eq!(stage.ask("DELETE", "/lookup?sku=lamp", "", "").await.status, 204);
    assert!(matches!(stage.gate.state(), State::Ready { .. }));
    stage.gate.rebuild().await.unwrap();
    assert!(stage.get("/lookup?sku=lamp").await.by_filter());
    assert_eq!(stage.get("/lookup?sku=a%20lamp").await.status, 200);
    assert_eq!(stage.gate.stats().audit.wrong, 0);
}

#[tokio::test]
async fn a_key_that_the_service_makes_is_learnt_from_its_answer_or_costs_the_no() {
    let told = stage("json:/sku").await;
    assert!(told.get("/lookup?sku=made-1").await.by_filter());
    assert_eq!(told.ask("POST", "/lookup", "", "{}").await.status, 201);
    assert_eq!(told.get("/lookup?sku=made-1").await.status, 200);
    assert!(matches!(told.gate.state(), State::Ready { .. }));
    let untold = stage("location").await;
    assert_eq!(untold.ask("POST", "/lookup", "", "{}").await.status, 201);
    assert_eq!(untold.gate.state(), State::Stale);
    assert_eq!(untold.get("/lookup?sku=made-1").await.status, 200);
}
