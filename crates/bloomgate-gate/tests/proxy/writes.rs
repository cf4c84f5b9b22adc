//! Writes that pass: the filter knows the key before the upstream does, or before anybody is told of it; and what nobody
//! could read costs the filter its "no".

use std::time::Duration;

use bloomgate_gate::State;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::catalog::Catalog;
use crate::stage::{Keys, Stage, options, ready_gate, until};

async fn stage(new_key: &str) -> (Catalog, Stage) {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    options.new_key = new_key.parse().unwrap();
    options.new_key_bytes = 4096;
    options.answer_time = Duration::from_millis(500);
    (catalog.clone(), Stage::set(options, ready_gate(&catalog.keys).await).await)
}

fn is_ready(stage: &Stage) -> bool {
    matches!(stage.gate.state(), State::Ready { .. })
}

fn learnt(stage: &Stage, result: &str) -> u64 {
    stage.counted(&format!("bloomgate_proxy_new_keys_total{{result=\"{result}\"}}"))
}

#[tokio::test]
async fn a_key_in_the_path_is_known_before_it_is_written() {
    let (catalog, stage) = stage("location").await;
    for (number, method) in ["PUT", "PATCH", "POST", "MKCOL"].iter().enumerate() {
        let path = format!("/products/lamp%20{number}");
        assert!(stage.get(&path).await.by_filter());
        let got = stage.ask(method, &path, "", "{}").await;
        assert_eq!(got.status, if *method == "MKCOL" { 405 } else { 201 }, "{got:?}");
        let again = stage.get(&path).await;
        assert!(!again.by_filter(), "{method}: {again:?}");
        assert_eq!(again.status, if *method == "MKCOL" { 404 } else { 200 });
    }
    assert!(catalog.keys.has("lamp 0"));
    // Refused by the upstream: it is in the filter all the same, until the next rebuild.
    assert_eq!(stage.ask("PUT", "/products/refused", "", "refuse").await.status, 422);
    assert!(!stage.get("/products/refused").await.by_filter());
    stage.gate.rebuild().await.unwrap();
    assert!(stage.get("/products/refused").await.by_filter());
    assert_eq!(stage.get("/products/lamp%200").await.status, 200);
    let stats = stage.gate.stats();
    assert_eq!((stats.writes.under_way, stats.writes.unknown, stats.audit.wrong), (0, 0, 0));
}

#[tokio::test]
async fn a_write_whose_end_is_unknown_keeps_its_key_in_every_filter_to_come() {
    let (catalog, stage) = stage("location").await;
    assert_eq!(stage.ask("PUT", "/products/doubtful", "", "fail").await.status, 500);
    // It appears later, after a scan that did not see it.
    assert!(catalog.keys.remove("doubtful"));
    stage.gate.rebuild().await.unwrap();
    catalog.keys.add("doubtful");
    assert_eq!(stage.get("/products/doubtful").await.status, 200);
    let stats = stage.gate.stats();
    assert_eq!((stats.writes.unknown, stats.writes.doubtful), (1, 1));
    assert!(is_ready(&stage));
}

#[tokio::test]
async fn a_deletion_passes_and_a_source_that_shrank_by_it_is_believed() {
    let catalog = Catalog::of(Keys::of((0..100).map(|number| format!("k{number}"))));
    let stage = Stage::set(options(catalog.start().await), ready_gate(&catalog.keys).await).await;
    for number in 0..50 {
        assert_eq!(stage.ask("DELETE", &format!("/products/k{number}"), "", "").await.status, 204);
        assert_eq!(stage.ask("DELETE", &format!("/products/never{number}"), "", "").await.status, 404);
    }
    let got = stage.get("/products/k7").await;
    assert_eq!((got.status, got.by_filter()), (404, false), "its bits stay until the rebuild");
    stage.gate.rebuild().await.unwrap();
    assert!(stage.get("/products/k7").await.by_filter());
    assert_eq!(stage.gate.stats().writes.deletes, 50);
}

#[tokio::test]
async fn a_key_in_the_location_is_known_before_the_answer_is_released() {
    let (catalog, stage) = stage("location").await;
    for body in ["", "location", "see"] {
        let got = stage.ask("POST", "/products", "", body).await;
        let location = got.header("location").unwrap_or_else(|| panic!("{got:?}")).to_owned();
        let path = location.strip_prefix("http://shop.example").unwrap_or(&location).to_owned();
        assert_eq!(stage.get(&path).await.status, 200, "{body}");
    }
    assert_eq!(stage.ask("POST", "/products/", "", "refuse").await.status, 404, "axum has no such route");
    assert_eq!(stage.ask("POST", "/products?dry", "", "refuse").await.status, 400);
    assert!(is_ready(&stage));
    assert_eq!((learnt(&stage, "learnt"), learnt(&stage, "nothing"), learnt(&stage, "missed")), (3, 2, 0));
    assert_eq!(catalog.next.load(std::sync::atomic::Ordering::SeqCst), 1004);
}

#[tokio::test]
async fn a_key_in_the_body_is_known_before_the_answer_is_released() {
    let (_, stage) = stage("json:/product/id").await;
    let got = stage.ask("POST", "/products", "accept-encoding: gzip\r\n", "json").await;
    assert_eq!((got.status, got.text().as_str()), (201, r#"{"product":{"id":1000,"name":"new"}}"#), "untouched");
    assert_eq!(stage.get("/products/1000").await.status, 200);
    // In chunks of one letter, by a client that puts them together.
    let request =
        hyper::Request::post(format!("http://{}/products", stage.address)).body(crate::stage::full("chunked")).unwrap();
    let answer =
        http_body_util::BodyExt::collect(stage.send(request, true).await.into_body()).await.unwrap().to_bytes();
    let made: serde_json::Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(stage.get(&format!("/products/{}", made["product"]["id"])).await.status, 200);
    assert!(is_ready(&stage));
    assert_eq!((learnt(&stage, "learnt"), learnt(&stage, "missed")), (2, 0));
}

#[tokio::test]
async fn a_key_that_nobody_could_read_costs_the_filter_its_no_until_it_is_rebuilt() {
    for (new_key, body) in [
        ("location", "nothing"),
        ("location", "json"),
        ("json:/product/id", "nothing"),
        ("json:/product/id", "long"),
        ("json:/product/id", "gzip"),
        ("json:/other", "json"),
    ] {
        let (catalog, stage) = stage(new_key).await;
        let got = stage.ask("POST", "/products", "", body).await;
        assert_eq!(got.status, 201, "{new_key} {body}");
        assert!(body != "long" || got.body.len() > 100_000, "what is not kept is passed on: {}", got.body.len());
        assert_eq!((stage.gate.state(), learnt(&stage, "missed")), (State::Stale, 1), "{new_key} {body}");
        let id = catalog.next.load(std::sync::atomic::Ordering::SeqCst) - 1;
        assert_eq!(stage.get(&format!("/products/{id}")).await.status, 200);
        stage.gate.rebuild().await.unwrap();
        assert!(is_ready(&stage));
        assert_eq!(stage.get(&format!("/products/{id}")).await.status, 200);
        assert!(stage.get("/products/lamp").await.by_filter());
    }
}

#[tokio::test]
async fn a_key_that_may_still_be_made_keeps_filters_from_being_built() {
    for body in ["fail", "hang"] {
        let (_, stage) = stage("location").await;
        let got = stage.ask("POST", "/products", "", body).await;
        assert_eq!(got.status, if body == "hang" { 504 } else { 503 });
        assert_eq!(stage.gate.state(), State::Stale);
        let error = stage.gate.rebuild().await.unwrap_err().to_string();
        assert!(error.contains("makes its own key"), "{error}");
        assert_eq!(stage.get("/products/1000").await.status, 200, "it passes meanwhile");
    }
}

#[tokio::test]
async fn a_collection_that_makes_no_keys_may_be_written_to() {
    let (_, stage) = stage("none").await;
    assert_eq!(stage.ask("POST", "/products", "", "nothing").await.status, 201);
    assert!(is_ready(&stage));
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_end_the_write() {
    let (catalog, stage) = stage("location").await;
    // Before the body is whole: nothing was passed on, nothing is lost.
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream.write_all(b"POST /products HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nhalf").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(is_ready(&stage) && catalog.asked() == 0);
    // After it: it is done and learnt, though nobody waits for the answer.
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream.write_all(b"POST /products HTTP/1.1\r\nhost: h\r\ncontent-length: 8\r\n\r\nlocation").await.unwrap();
    drop(stream);
    until("the key is learnt", || learnt(&stage, "learnt") == 1).await;
    assert!(is_ready(&stage));
    assert_eq!(stage.get("/products/1000").await.status, 200);
    until("no write is under way", || stage.gate.stats().writes.under_way == 0).await;
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_its_key_in_doubt_and_not_the_filter() {
    let (_, stage) = stage("location").await;
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream.write_all(b"PUT /products/half HTTP/1.1\r\nhost: h\r\ncontent-length: 100\r\n\r\nhalf").await.unwrap();
    until("it is under way", || stage.gate.stats().writes.under_way == 1).await;
    drop(stream);
    until("it is in doubt", || stage.gate.stats().writes.doubtful == 1).await;
    until("it is over", || stage.gate.stats().writes.under_way == 0).await;
    assert!(is_ready(&stage));
    assert!(!stage.get("/products/half").await.by_filter());
}
