//! Writes that pass: the filter knows the key before the upstream does, or before anybody is told of it; and what nobody
//! could read costs the filter its "no".

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Request};
use axum::routing::get;
use bloomgate_gate::sources::{KeyList, Upstream};
use bloomgate_gate::{Gate, State, Writers};
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::catalog::{Catalog, serve};
use crate::stage::{Keys, Stage, full, options, raw, ready_gate, until};

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

/// A service that writes, and in the middle of it asks the front for what it has just written; it tells what it was told.
async fn curious(keys: &Keys, front: &Arc<OnceLock<SocketAddr>>) -> SocketAddr {
    let (shown, stored, front) = (keys.clone(), keys.clone(), front.clone());
    let show = move |Path(id): Path<String>| async move { if shown.has(&id) { "here it is" } else { "not yet" } };
    // Nothing of the body is read before: what is known then is known before the first byte of it was passed on.
    let store = move |Path(id): Path<String>, request: Request| async move {
        let asked = format!("GET {} HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n", request.uri());
        let mut told = Vec::new();
        for is_there in [false, true] {
            if is_there {
                stored.add(id.clone());
            }
            let got = raw(*front.get().unwrap(), asked.as_bytes()).await;
            told.push(format!(
                "{} {}",
                got.status,
                if got.by_filter() { "by the filter".to_owned() } else { got.text() }
            ));
        }
        let sent = request.into_body().collect().await.unwrap().to_bytes();
        format!("{}, {} bytes", told.join(", "), sent.len())
    };
    serve(Router::new().route("/products/{id}", get(show).put(store.clone()).patch(store.clone()).post(store))).await
}

#[tokio::test]
async fn whoever_asks_while_a_write_is_under_way_is_not_told_no() {
    let (keys, front) = (Keys::of(["kettle"]), Arc::default());
    let stage = Stage::set(options(curious(&keys, &front).await), ready_gate(&keys).await).await;
    front.set(stage.address).unwrap();
    for (number, method) in ["PUT", "PATCH", "POST"].into_iter().enumerate() {
        for second in [false, true] {
            let path = format!("/products/lamp%20{number}-{second}");
            assert!(stage.get(&path).await.by_filter());
            let uri = format!("http://{}{path}", stage.address);
            let request = hyper::Request::builder().method(method).uri(uri).body(full("a lamp")).unwrap();
            let answer = stage.send(request, second).await;
            let told = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(told, "200 not yet, 200 here it is, 6 bytes", "{method} {path}");
        }
    }
    // A rebuild in the middle, whose scan sees the row or not, changes nothing.
    let rebuilding = stage.gate.clone();
    let rebuilding = tokio::spawn(async move {
        for _ in 0..20 {
            rebuilding.rebuild().await.unwrap();
        }
    });
    for number in 0..20 {
        let got = stage.ask("PUT", &format!("/products/vase-{number}"), "", "a vase").await;
        assert_eq!(got.text(), "200 not yet, 200 here it is, 6 bytes", "{number}");
    }
    rebuilding.await.unwrap();
    assert_eq!((stage.gate.stats().audit.wrong, stage.gate.stats().writes.under_way), (0, 0));
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
async fn a_collection_in_another_spelling_makes_keys_too() {
    let (_, stage) = stage("json:/product/id").await;
    let got = stage.ask("POST", "/products.json", "", "json").await;
    assert_eq!(got.status, 201, "{got:?}");
    let got = stage.get("/products/1000").await;
    assert_eq!(got.status, 200, "it was made through the proxy: {got:?}");
    assert_eq!((learnt(&stage, "learnt"), learnt(&stage, "missed")), (1, 0));
    // One whose key the answer does not tell.
    assert_eq!(stage.ask("POST", "/products.json", "", "nothing").await.status, 201);
    assert_eq!(stage.get("/products/1001").await.status, 200);
    assert_eq!((stage.gate.state(), learnt(&stage, "missed")), (State::Stale, 1));
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
async fn a_write_that_is_not_answered_yet_holds_up_no_rebuild() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let stage = Arc::new(Stage::set(options(catalog.start().await), ready_gate(&catalog.keys).await).await);
    let asking = stage.clone();
    let late = tokio::spawn(async move { asking.ask("POST", "/products", "", "late").await });
    until("it is under way", || catalog.asked() == 1).await;
    tokio::time::timeout(Duration::from_secs(5), stage.gate.rebuild()).await.expect("a rebuild").unwrap();
    catalog.late.notify_one();
    assert_eq!(late.await.unwrap().status, 201);
    assert!(is_ready(&stage));
    assert_eq!(stage.get("/products/1000").await.status, 200, "the key came after the scan");
}

#[tokio::test]
async fn a_client_that_sends_half_of_a_body_costs_nothing() {
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    options.idle_time = Duration::from_millis(300);
    let stage = Stage::set(options, ready_gate(&catalog.keys).await).await;
    for begun in [
        "content-length: 70000\r\n\r\nx",
        "content-length: 100\r\n\r\nx",
        "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n",
        "transfer-encoding: chunked\r\n\r\n1\r\nx",
    ] {
        let head = format!("POST /products HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{begun}");
        let mut stream = TcpStream::connect(stage.address).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stream);
        // And one that waits: it gets an answer of the proxy.
        let got = crate::stage::raw(stage.address, head.as_bytes()).await;
        assert!(matches!(got.status, 400 | 408), "{begun}: {got:?}");
        assert_eq!(stage.gate.stats().writes.under_way, 0);
        assert!(is_ready(&stage), "{begun}");
    }
    assert_eq!(catalog.asked(), 0);
}

#[tokio::test]
async fn what_is_sent_to_the_collection_arrives_as_it_was_sent() {
    let (catalog, stage) = stage("location").await;
    let long = "x".repeat(10_000);
    for (sent, arrives) in [
        ("content-length: 8\r\n\r\nlocation".to_owned(), "location"),
        ("transfer-encoding: chunked\r\n\r\n4\r\nloca\r\n4\r\ntion\r\n0\r\n\r\n".to_owned(), "location"),
        ("transfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_owned(), ""),
        (format!("content-length: 10000\r\n\r\n{long}"), &long),
        (format!("transfer-encoding: chunked\r\n\r\n2710\r\n{long}\r\n0\r\n\r\n"), &long),
    ] {
        let request = format!("POST /products HTTP/1.1\r\nhost: h\r\nconnection: close\r\n{sent}");
        let got = crate::stage::raw(stage.address, request.as_bytes()).await;
        assert_eq!(got.status, 201, "{sent}: {got:?}");
        assert_eq!(*catalog.last.lock().unwrap(), arrives);
    }
    assert!(is_ready(&stage));
}

#[tokio::test]
async fn answers_that_make_no_key_cost_nothing_where_that_was_said() {
    // A login page, a failure, an answer without a key: as the settings are, each may have made one.
    for (body, status) in [("login", 302), ("fail", 503), ("nothing", 201)] {
        let (_, stage) = stage("location").await;
        assert_eq!(stage.ask("POST", "/products", "", body).await.status, status);
        assert_eq!(stage.gate.state(), State::Stale, "{body}");
    }
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let mut options = options(catalog.start().await);
    options.new_key_status = "201".parse().unwrap();
    let stage = Stage::set(options, ready_gate(&catalog.keys).await).await;
    for (body, status) in [("login", 302), ("fail", 503), ("location", 201)] {
        assert_eq!(stage.ask("POST", "/products", "", body).await.status, status);
        assert!(is_ready(&stage), "{body}");
    }
    // A key that is told goes in, whatever the status says.
    let got = stage.ask("POST", "/products", "", "see").await;
    assert_eq!(got.status, 303);
    assert_eq!(stage.get(got.header("location").unwrap()).await.status, 200);
    assert_eq!(stage.ask("POST", "/products", "", "nothing").await.status, 201);
    assert_eq!(stage.gate.state(), State::Stale);
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

#[tokio::test]
async fn refused_writes_are_not_kept_beside_a_list_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("keys.txt");
    std::fs::write(&list, "kettle\n").unwrap();
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let upstream = catalog.start().await;
    let source = Upstream::new(&format!("http://{upstream}/products/{{key}}"), KeyList::File(list)).unwrap();
    let gate = Gate::builder(Arc::new(source.only_existence())).writers(Writers::Sole).build().unwrap();
    gate.rebuild().await.unwrap();
    let stage = Stage::set(options(upstream), gate).await;
    for (key, body, status) in
        [("lamp", "{}", 201), ("lamp", "refuse", 422), ("vase", "refuse", 422), ("urn", "fail", 500)]
    {
        assert_eq!(stage.ask("PUT", &format!("/products/{key}"), "", body).await.status, status, "{key}");
        assert!(!stage.get(&format!("/products/{key}")).await.by_filter(), "{key}");
    }
    stage.gate.rebuild().await.unwrap();
    assert!(stage.get("/products/vase").await.by_filter(), "every write of it was refused");
    for key in ["kettle", "lamp", "urn"] {
        assert_eq!(stage.get(&format!("/products/{key}")).await.status, 200, "{key}");
    }
}

/// A gate over a list of one key in a file, whose service is this.
async fn over_a_list(list: &std::path::Path, upstream: std::net::SocketAddr) -> Gate {
    let list = KeyList::File(list.to_path_buf());
    let source = Upstream::new(&format!("http://{upstream}/products/{{key}}"), list).unwrap();
    Gate::builder(Arc::new(source.only_existence())).writers(Writers::Sole).build().unwrap()
}

#[tokio::test]
async fn a_write_that_cannot_be_noted_is_refused_and_a_restart_knows_every_other() {
    let folder = tempfile::tempdir().unwrap();
    let (list, notes) = (folder.path().join("keys.txt"), folder.path().join("keys.txt.written"));
    std::fs::write(&list, "kettle\n").unwrap();
    let catalog = Catalog::of(Keys::of(["kettle"]));
    let upstream = catalog.start().await;
    let gate = over_a_list(&list, upstream).await;
    gate.rebuild().await.unwrap();
    let stage = Stage::set(options(upstream), gate).await;
    // A folder where the file should be.
    std::fs::create_dir(&notes).unwrap();
    let asked = catalog.asked();
    for (method, path) in [("PUT", "/products/lamp"), ("POST", "/products")] {
        let got = stage.ask(method, path, "", "location").await;
        assert_eq!((got.status, got.text().contains("source-down")), (503, true), "{method}: {got:?}");
    }
    assert_eq!(catalog.asked(), asked, "nothing was passed on");
    assert!(is_ready(&stage) && stage.gate.stats().writes.under_way == 0, "and nothing was missed");
    assert!(stage.get("/products/lamp").await.by_filter());
    std::fs::remove_dir(&notes).unwrap();
    assert_eq!(stage.ask("PUT", "/products/lamp", "", "{}").await.status, 201);
    let made = stage.ask("POST", "/products", "", "location").await;
    let made = made.header("location").unwrap().rsplit('/').next().unwrap().to_owned();
    let again = over_a_list(&list, upstream).await;
    again.rebuild().await.unwrap();
    for key in ["kettle", "lamp", made.as_str()] {
        assert!(again.look(&again.parse_key(key).unwrap()).is_none(), "{key}");
    }
    // Killed before the answer came that tells the key: nobody knows it, and no filter says no.
    let asking = Arc::new(stage);
    let late = asking.clone();
    let late = tokio::spawn(async move { late.ask("POST", "/products", "", "late").await });
    until("it is noted", || std::fs::read_to_string(&notes).unwrap().lines().last().unwrap().starts_with('!')).await;
    let killed = over_a_list(&list, upstream).await;
    assert!(killed.rebuild().await.unwrap_err().to_string().contains("make the list anew"));
    catalog.late.notify_one();
    assert_eq!(late.await.unwrap().status, 201);
}
