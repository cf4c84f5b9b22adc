//! The service over real sockets: which status, which headers, who may, and that a "no" reaches nothing behind the filter.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate_gate::service::http::access::{Hosts, Tokens};
use bloomgate_gate::service::{self, METRICS, Options, http};
use bloomgate_gate::{Gate, MOST_KEYS, Policy, State, Writers};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::got::Got;
use crate::memory_source::{Fate, MemorySource, row_of};

/// Nothing takes longer, or the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(10);
const TOKENS: &str = "read reading-token-12\nwrite writing-token-12\nadmin mighty-token-123\n";

/// A gate that is served on a free port.
pub struct Served {
    pub address: SocketAddr,
    pub gate: Gate,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<http::Served>,
}

impl Got {
    /// The end of a problem's type, if it is one.
    pub fn problem(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        let json = self.json();
        assert_eq!(json["status"], self.status, "{self:?}");
        json["type"].as_str().unwrap().strip_prefix("urn:bloomgate:problem:").unwrap().to_owned()
    }
}

impl Served {
    pub async fn start(gate: Gate, options: Options) -> Self {
        Self::start_with(gate, options, http::Options::default()).await
    }

    pub async fn start_with(gate: Gate, options: Options, http: http::Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(service::serve(listener, gate.clone(), options, http, shutdown));
        Self { address, gate, stop, serving }
    }

    /// One that knows a thousand keys and is the only writer.
    async fn ready(source: &Arc<MemorySource>, options: Options) -> Self {
        let gate = Gate::builder(source.clone()).writers(Writers::Sole).rate(0.001).build().unwrap();
        gate.rebuild().await.unwrap();
        Self::start(gate, options).await
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let host = if headers.contains("host:") { "" } else { "host: localhost\r\n" };
        let request = format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n{length}{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer in time").unwrap();
        Got::read(&String::from_utf8(answer).unwrap())
    }

    pub async fn get(&self, path: &str) -> Got {
        self.ask("GET", path, "", "").await
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        assert_eq!(self.serving.await.unwrap().cut, 0);
    }
}

fn products() -> Options {
    Options { table: "products".to_owned(), ..Options::default() }
}

fn thousand() -> Arc<MemorySource> {
    MemorySource::with((0..1000).map(|number| format!("key-{number}")).chain(["a/b".to_owned(), "é %".to_owned()]))
}

/// A key that the filter knows to be absent.
fn absent(gate: &Gate) -> String {
    let mut names = (0..).map(|number| format!("absent-{number}"));
    names.find(|name| gate.look(&gate.parse_key(name).unwrap()).is_some()).unwrap()
}

#[tokio::test]
async fn lookups_answer_with_the_row_or_with_how_its_absence_is_known() {
    let source = thousand();
    let served = Served::ready(&source, products()).await;
    let before = source.reads();
    let State::Ready { version, watermark } = served.gate.state() else { panic!("it is ready") };
    let no = absent(&served.gate);
    for _ in 0..3 {
        let got = served.get(&format!("/v1/products/{no}")).await;
        assert_eq!(got.outcome(), (404, Some("absent-by-filter")));
        assert_eq!(got.problem(), "absent");
        assert_eq!(got.header("bloomgate-filter-version"), Some(version.to_string().as_str()));
        assert_eq!(got.header("bloomgate-watermark"), Some(watermark.to_string().as_str()));
        assert_eq!(got.header("cache-control"), Some("no-store"), "a proxy that repeats a no would be wrong one day");
    }
    assert_eq!(source.reads(), before, "nothing reached the source");
    let found = served.get("/v1/products/key-7").await;
    assert_eq!(found.outcome(), (200, Some("source")));
    assert_eq!((found.header("content-type"), found.body.as_bytes()), (Some("application/json"), &row_of("key-7")[..]));
    assert_eq!(found.header("bloomgate-filter-version"), Some("1"));
    // Keys are bytes that were percent-encoded.
    assert_eq!(served.get("/v1/products/a%2Fb").await.status, 200);
    assert_eq!(served.get("/v1/products/%C3%A9%20%25").await.status, 200);
    assert_eq!(served.get("/v1/products/k%65y-7").await.status, 200);
    assert_eq!(served.ask("HEAD", "/v1/products/key-7", "", "").await.body, "");
    // After a rebuild the prepared answer names the new filter.
    served.gate.rebuild().await.unwrap();
    let no = served.get(&format!("/v1/products/{no}")).await;
    assert_eq!((no.status, no.header("bloomgate-filter-version")), (404, Some("2")));
    served.stop().await;
}

#[tokio::test]
async fn only_an_absent_key_is_a_404() {
    let served = Served::ready(&thousand(), products()).await;
    for (path, status, problem) in [
        ("/v1/products/a/b", 400, "bad-key"),
        ("/v1/products/%FF", 400, "bad-key"),
        ("/v1/products/%4", 400, "bad-key"),
        (&format!("/v1/products/{}", "x".repeat(5000)), 400, "bad-key"),
        ("/v1/product/key-7", 400, "no-such-table"),
        ("/v1/products", 400, "bad-key"),
        ("/v1/product:batch", 400, "no-such-table"),
        ("/v1/products:batch", 405, "method-not-allowed"),
        ("/rebuild", 405, "method-not-allowed"),
        ("/nothing", 404, "not-found"),
        ("//v1/products/key-7", 400, "bad-key"),
        ("/v1//products/key-7", 400, "no-such-table"),
        ("/v1/products//key-7", 400, "bad-key"),
        ("/explain//key-7", 400, "bad-key"),
        ("/v2/products/key-7", 404, "not-found"),
    ] {
        let got = served.get(path).await;
        assert_eq!((got.status, got.problem().as_str()), (status, problem), "{path}");
        assert_eq!(got.header("bloomgate-outcome"), Some("refused"), "{path}");
    }
    // No writes unless they are allowed.
    for method in ["PUT", "DELETE", "POST", "PATCH"] {
        let got = served.ask(method, "/v1/products/key-7", "", "{}").await;
        assert_eq!((got.status, got.header("allow")), (405, Some("GET")), "{method}");
        assert!(got.body.contains("not allowed here: GET is"), "{got:?}");
    }
    assert_eq!(served.get("/v1/products/key-7").await.status, 200);
    // Whom of the two a proxy on the way believed, nobody knows.
    let twice = served.ask("GET", "/v1/products/key-7", "host: localhost\r\nhost: shop\r\n", "").await;
    assert_eq!((twice.status, twice.problem().as_str()), (400, "bad-request"));
    served.stop().await;
}

#[tokio::test]
async fn writes_are_seen_at_once() {
    let source = thousand();
    let served = Served::ready(&source, Options { writes: true, ..products() }).await;
    let key = absent(&served.gate);
    let path = format!("/v1/products/{key}");
    assert_eq!(served.get(&path).await.status, 404);
    let put = served.ask("PUT", &path, "", r#"{"price":3}"#).await;
    assert_eq!((put.outcome(), put.body.as_str()), ((204, Some("written")), ""));
    assert_eq!(served.get(&path).await.body, r#"{"price":3}"#);
    assert_eq!(served.ask("DELETE", &path, "", "").await.outcome(), (204, Some("deleted")));
    let gone = served.ask("DELETE", &path, "", "").await;
    assert_eq!((gone.outcome(), gone.problem().as_str()), ((404, Some("nothing-deleted")), "absent"));
    assert_eq!(served.get(&path).await.status, 404);
    // A write that nobody knows the end of is told as such, and one that was refused too.
    *source.fate.lock().unwrap() = Fate::LaterUnknown;
    let unknown = served.ask("PUT", &path, "", "{}").await;
    assert_eq!((unknown.status, unknown.problem().as_str()), (502, "write-unknown"));
    *source.fate.lock().unwrap() = Fate::Refused;
    let refused = served.ask("PUT", &path, "", "{}").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "source-down"));
    source.settle();
    assert_eq!(served.get(&path).await.status, 200, "the write of unknown end happened after all");
    served.stop().await;
}

#[tokio::test]
async fn many_keys_in_one_request() {
    let source = thousand();
    let served = Served::ready(&source, products()).await;
    let no = absent(&served.gate);
    let asked = json!(["key-1", no, "a/b", 17, null, "key-1"]).to_string();
    let got = served.ask("POST", "/v1/products:batch", "", &asked).await;
    assert_eq!(got.outcome(), (200, Some("batch")));
    assert_eq!(got.header("bloomgate-filter-version"), Some("1"));
    let answers = got.json()["answers"].as_array().unwrap().clone();
    assert_eq!(answers.len(), 6);
    assert_eq!(answers[0], json!({"key": "key-1", "found": true, "outcome": "source", "row": {"key": "key-1"}}));
    assert_eq!(answers[1], json!({"key": no, "found": false, "outcome": "absent-by-filter"}));
    assert_eq!(answers[2]["row"], json!({"key": "a/b"}));
    assert_eq!((&answers[3]["key"], &answers[3]["found"]), (&json!(17), &json!(false)));
    assert_eq!((&answers[4]["outcome"], &answers[4]["found"]), (&json!("bad-key"), &Value::Null));
    assert_eq!(answers[5]["found"], true);
    assert_eq!(served.ask("POST", "/v1/products%3Abatch", "", "[]").await.json(), json!({"answers": []}));
    // A source that is down takes nothing from those that need none.
    source.is_down.store(true, SeqCst);
    let asked = json!([no, "key-2"]).to_string();
    let got = served.ask("POST", "/v1/products:batch", "", &asked).await;
    assert_eq!((got.status, &got.json()["answers"][0]["outcome"]), (200, &json!("absent-by-filter")));
    let refused = json!({"key": "key-2", "found": null, "outcome": "refused", "error": "the source is down"});
    assert_eq!(got.json()["answers"][1], refused);
    let got = served.ask("POST", "/v1/products:batch", "", r#"["key-2"]"#).await;
    assert_eq!((got.status, got.problem().as_str()), (503, "source-down"));
    source.is_down.store(false, SeqCst);
    let many = format!("[{}]", vec!["\"key-1\""; MOST_KEYS + 1].join(","));
    for (body, status) in [("{}", 400), ("[\"a\"", 400), (many.as_str(), 400)] {
        assert_eq!(served.ask("POST", "/v1/products:batch", "", body).await.status, status);
    }
    // One long row is read once, and not given more often than an answer has room for.
    source.rows.lock().unwrap().insert(b"key-5".to_vec(), json!("x".repeat(1 << 20)).to_string().into());
    let (long, before) = (|times| json!(vec!["key-5"; times]).to_string(), source.reads());
    let got = served.ask("POST", "/v1/products:batch", "", &long(10)).await;
    assert_eq!((got.status, source.reads() - before), (200, 1));
    assert_eq!(got.json()["answers"].as_array().unwrap().iter().filter(|one| one["found"] == true).count(), 10);
    assert_eq!(served.ask("POST", "/v1/products:batch", "", &long(100)).await.problem(), "too-large");
    served.stop().await;
    let small = Served::ready(&source, Options { batch_bytes: 100, ..products() }).await;
    let long = json!(["x".repeat(200)]).to_string();
    assert_eq!(small.ask("POST", "/v1/products:batch", "", &long).await.status, 413);
    small.stop().await;
}

#[tokio::test]
async fn tokens_say_who_may_do_what() {
    let tokens = Some(Tokens::parse(TOKENS).unwrap());
    let options = Options { tokens: tokens.clone(), writes: true, ..products() };
    let served = Served::ready(&thousand(), options.clone()).await;
    let no = format!("/v1/products/{}", absent(&served.gate));
    let with = |token: &str| format!("authorization: Bearer {token}\r\n");
    let (reader, writer, admin) = (with("reading-token-12"), with("writing-token-12"), with("mighty-token-123"));
    for (method, path, needs) in [
        ("GET", "/v1/products/key-1", 1),
        ("GET", no.as_str(), 1),
        ("POST", "/v1/products:batch", 1),
        ("GET", "/explain/key-1", 1),
        ("GET", "/stats", 1),
        ("GET", "/metrics", 1),
        ("PUT", "/v1/products/key-1", 2),
        ("DELETE", "/v1/products/key-2", 2),
        ("POST", "/rebuild?wait=true", 3),
    ] {
        for (token, has) in
            [("", 0), ("authorization: Bearer wrong-token-1234\r\n", 0), (&reader, 1), (&writer, 2), (&admin, 3)]
        {
            let got = served.ask(method, path, token, if method == "POST" { "[]" } else { "" }).await;
            let expected = if has == 0 {
                got.status == 401
            } else if has < needs {
                got.status == 403
            } else {
                got.status < 400 || got.status == 404
            };
            assert!(expected, "{method} {path} with {token:?}: {got:?}");
        }
    }
    // Probes have no token, and learn nothing but a state.
    assert_eq!(served.get("/healthz").await.body, "ok\n");
    assert_eq!(served.get("/readyz").await.body, "ready\n");
    served.stop().await;
    let open = Served::ready(&thousand(), Options { open_reads: true, ..options }).await;
    assert_eq!(open.get("/v1/products/key-1").await.status, 200);
    assert_eq!(open.get("/metrics").await.status, 200);
    assert_eq!(open.ask("PUT", "/v1/products/key-1", "", "{}").await.status, 401);
    open.stop().await;
}

#[tokio::test]
async fn without_tokens_only_this_machine_is_answered() {
    let served = Served::ready(&thousand(), Options { hosts: Some(Hosts::new(["shop.example"])), ..products() }).await;
    let no = format!("/v1/products/{}", absent(&served.gate));
    for path in ["/v1/products/key-1", no.as_str(), "/stats", "/explain/key-1", "/metrics"] {
        let got = served.ask("GET", path, "host: rebound.example\r\n", "").await;
        assert_eq!((got.status, got.problem().as_str()), (403, "forbidden"), "{path}");
        assert_ne!(served.ask("GET", path, "host: shop.example\r\n", "").await.status, 403, "{path}");
    }
    assert_eq!(served.ask("POST", "/rebuild", "origin: http://page.example\r\n", "").await.status, 403);
    served.stop().await;
    // A page of another port of this machine is another site's as well.
    let written = Served::ready(&thousand(), Options { writes: true, ..products() }).await;
    let host = "host: localhost:8480\r\n";
    for page in ["origin: http://localhost:1\r\n", "sec-fetch-site: cross-site\r\n", "sec-fetch-site: same-site\r\n"] {
        for (method, path) in [
            ("POST", "/rebuild"),
            ("POST", "/attack"),
            ("PUT", "/v1/products/key-1"),
            ("DELETE", "/v1/products/key-1"),
            ("GET", "/v1/products/key-1"),
            ("GET", "/stats"),
        ] {
            let got = written.ask(method, path, &format!("{host}{page}"), "").await;
            assert_eq!((got.status, got.problem().as_str()), (403, "forbidden"), "{method} {path} {page}");
        }
    }
    let own = format!("{host}origin: http://localhost:8480\r\nsec-fetch-site: same-origin\r\n");
    assert_eq!(written.ask("POST", "/rebuild?wait=true", &own, "").await.status, 200);
    written.stop().await;
    // Where anybody may ask, nobody may change anything.
    let anywhere = Served::ready(&thousand(), Options { hosts: None, writes: true, ..products() }).await;
    assert_eq!(anywhere.ask("GET", "/v1/products/key-1", "host: any.example\r\n", "").await.status, 200);
    for (method, path) in [("PUT", "/v1/products/key-1"), ("DELETE", "/v1/products/key-1"), ("POST", "/rebuild")] {
        assert_eq!(anywhere.ask(method, path, "", "").await.status, 403, "{method} {path}");
    }
    anywhere.stop().await;
}

#[tokio::test]
async fn what_is_not_ready_says_so_by_policy() {
    let source = thousand();
    let closed = Gate::builder(source.clone()).writers(Writers::Sole).policy(Policy::Closed).build().unwrap();
    let served = Served::start(closed, products()).await;
    let refused = served.get("/v1/products/key-1").await;
    assert_eq!(
        (refused.status, refused.problem().as_str(), refused.header("retry-after")),
        (503, "not-ready", Some("1"))
    );
    assert_eq!(
        (refused.header("bloomgate-filter-version"), refused.header("bloomgate-watermark")),
        (Some("0"), Some("none"))
    );
    assert_eq!(served.ask("POST", "/v1/products:batch", "", "[\"key-1\"]").await.status, 503);
    let not_ready = served.get("/readyz").await;
    assert!(not_ready.status == 503 && not_ready.body.contains("there is no filter yet"), "{not_ready:?}");
    assert_eq!(served.get("/healthz").await.status, 200);
    let unclear = served.ask("POST", "/rebuild?wait=soon", "", "").await;
    assert!(unclear.status == 400 && unclear.body.contains("accept-fewer=true"), "{unclear:?}");
    let rebuilt = served.ask("POST", "/rebuild?wait=yes", "", "").await;
    assert_eq!((rebuilt.status, rebuilt.json()["keys"].as_u64()), (200, Some(1002)));
    assert_eq!(served.get("/v1/products/key-1").await.status, 200);
    assert_eq!(served.get("/readyz").await.status, 200);
    served.stop().await;
    // Open: the source is asked instead, and a source that is down is a 503 of its own, never a 404.
    let open = Gate::builder(source.clone()).writers(Writers::Sole).build().unwrap();
    let served = Served::start(open, products()).await;
    assert_eq!(served.get("/v1/products/nobody").await.outcome(), (404, Some("bypass")));
    source.is_down.store(true, SeqCst);
    let down = served.get("/v1/products/key-2").await;
    assert_eq!((down.status, down.problem().as_str()), (503, "source-down"));
    let failed = served.ask("POST", "/rebuild?wait=true", "", "").await;
    assert_eq!((failed.status, failed.problem().as_str()), (503, "rebuild-failed"));
    assert_eq!(served.get("/readyz").await.status, 200, "it fails open: traffic may come");
    served.stop().await;
}

#[tokio::test]
async fn far_fewer_keys_are_accepted_by_a_rebuild_that_says_so() {
    let source = thousand();
    let served = Served::ready(&source, products()).await;
    source.rows.lock().unwrap().retain(|key, _| key.ends_with(b"1"));
    let refused = served.ask("POST", "/rebuild?wait=true", "", "").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "rebuild-failed"));
    assert!(refused.body.contains("POST /rebuild?accept-fewer=true"), "{refused:?}");
    let accepted = served.ask("POST", "/rebuild?wait=true&accept-fewer=true", "", "").await;
    assert_eq!((accepted.status, accepted.json()["keys"].as_u64()), (200, Some(100)));
    served.stop().await;
}

#[tokio::test]
async fn before_there_is_a_gate_everything_about_keys_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let http = http::Options::default();
    let waiting = service::GateService::waiting(Options { writes: true, ..products() }, http.traffic.clone());
    waiting.waits_for("the database is asleep");
    let serving = tokio::spawn(http::serve(listener, waiting.clone(), http, shutdown));
    let gate = Gate::builder(thousand()).writers(Writers::Sole).build().unwrap();
    let served = Served { address, gate, stop, serving };
    for (method, path) in [
        ("GET", "/v1/products/key-1"),
        ("PUT", "/v1/products/key-1"),
        ("POST", "/v1/products:batch"),
        ("GET", "/explain/key-1"),
        ("POST", "/rebuild"),
    ] {
        let got = served.ask(method, path, "", if method == "GET" { "" } else { "[]" }).await;
        assert_eq!((got.status, got.problem().as_str()), (503, "source-down"), "{method} {path}");
        assert!(got.body.contains("asleep") && got.header("retry-after").is_some(), "{got:?}");
    }
    assert_eq!((served.get("/healthz").await.status, served.get("/readyz").await.status), (200, 503));
    assert_eq!(served.get("/stats").await.json()["state"], "loading");
    let metrics = served.get("/metrics").await.body;
    assert!(metrics.contains("\nbloomgate_gate_blocking 0\n") && metrics.contains("{state=\"loading\"} 1\n"));
    waiting.open(served.gate.clone());
    assert_eq!(served.get("/v1/products/key-1").await.status, 200);
    served.stop().await;
}

/// Real clients over HTTP/2 see why they are refused, though their body was not wanted.
#[tokio::test]
async fn a_refusal_is_seen_by_curl_over_tls() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (cert, key, large) =
        (folder.path().join("cert.pem"), folder.path().join("key.pem"), folder.path().join("large"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&large, vec![b'x'; 60_000]).unwrap();
    let gate = Gate::builder(thousand()).writers(Writers::Sole).build().unwrap();
    let tls = Some(http::Tls::from_files(&cert, &key).unwrap().into());
    let options = Options { writes: true, tokens: Some(Tokens::parse(TOKENS).unwrap()), ..products() };
    let served = Served::start_with(gate, options, http::Options { tls, ..http::Options::default() }).await;
    let port = served.address.port();
    let curl = async |arguments: &[&str]| {
        let mut curl = tokio::process::Command::new("curl");
        curl.args(["-sS", "--http2", "--max-time", "20", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"]);
        curl.arg("--cacert").arg(&cert).args(["--resolve", &format!("localhost:{port}:127.0.0.1")]).args(arguments);
        let ran = curl.output().await.expect("curl is installed");
        (String::from_utf8(ran.stdout).unwrap(), String::from_utf8(ran.stderr).unwrap())
    };
    let url = |path: &str| format!("https://localhost:{port}{path}");
    let body = format!("@{}", large.display());
    let (row, wrong, rebuild) = (url("/v1/products/key-1"), url("/v1/nothing/key-1"), url("/rebuild"));
    for (arguments, status) in [
        (&["-X", "PUT", "-d", "{}", &row][..], "401"),
        (&["-X", "PUT", "--data-binary", &body, &row], "401"),
        (&["-X", "PATCH", "--data-binary", &body, &row], "405"),
        (&["-X", "PUT", "--data-binary", &body, "-H", "Authorization: Bearer writing-token-12", &wrong], "400"),
        (&["-X", "POST", "--data-binary", &body, "-H", "Authorization: Bearer mighty-token-123", &rebuild], "202"),
    ] {
        assert_eq!(curl(arguments).await, (format!("2 {status}"), String::new()), "{arguments:?}");
    }
    served.stop().await;
}

#[tokio::test]
async fn decisions_and_numbers_are_told() {
    let source = thousand();
    let served = Served::ready(&source, products()).await;
    let no = absent(&served.gate);
    for path in [format!("/v1/products/{no}"), "/v1/products/key-1".into(), "/v1/products/key-2".into()] {
        served.get(&path).await;
    }
    let explained = served.get(&format!("/explain/{no}")).await;
    assert_eq!((explained.status, explained.header("bloomgate-filter-version")), (200, Some("1")));
    assert_eq!(explained.json()["filter"], "no");
    assert!(explained.json()["decision"].as_str().unwrap().starts_with("absent-by-filter"));
    assert_eq!(served.get("/explain/key-1").await.json()["filter"], "maybe");
    let stats = served.get("/stats").await.json();
    assert_eq!((&stats["state"], &stats["blocking"]), (&json!("ready"), &json!(true)));
    assert_eq!(stats["lookups"]["source"], 2);
    // `absent` looked too.
    let blocked = stats["lookups"]["absent-by-filter"].as_u64().unwrap();
    assert!(blocked >= 2, "{stats}");
    for accept in ["", "accept: application/openmetrics-text\r\n"] {
        let scrape = served.ask("GET", "/metrics", accept, "").await;
        assert!(
            scrape
                .body
                .contains(&format!("\nbloomgate_gate_lookups_total{{outcome=\"absent-by-filter\"}} {blocked}\n"))
        );
        assert!(scrape.body.contains("\nbloomgate_gate_state{state=\"ready\"} 1\n"));
        assert!(scrape.body.contains("\nbloomgate_http_connections_accepted_total "));
        assert_eq!(scrape.body.ends_with("# EOF\n"), !accept.is_empty());
        let name = |metric: &http::metrics::Metric| match accept.is_empty() {
            true => metric.name,
            false => metric.name.trim_end_matches("_total"),
        };
        // Every metric of the table is there, but those of things that have not happened yet, and those of a feed and of
        // tenants, which it has not.
        let missing: Vec<&str> = METRICS
            .iter()
            .filter(|metric| !metric.help.starts_with("With --tenant"))
            .map(|metric| name(metric))
            .filter(|name| !name.starts_with("bloomgate_gate_feed_"))
            .filter(|name| !scrape.body.contains(&format!("# TYPE {name} ")))
            .collect();
        assert_eq!(missing, ["bloomgate_gate_ready_after_seconds"]);
    }
    served.stop().await;
}

#[tokio::test]
async fn a_gate_that_only_watches_blocks_nothing() {
    let source = thousand();
    let gate = Gate::builder(source.clone()).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, products()).await;
    // Somebody else writes: the filter does not know, and the row must be found.
    source.rows.lock().unwrap().insert(b"fresh".to_vec(), row_of("fresh"));
    assert_eq!(served.get("/v1/products/fresh").await.outcome(), (200, Some("bypass")));
    assert_eq!(served.get("/v1/products/nobody").await.outcome(), (404, Some("bypass")));
    let stats = served.get("/stats").await.json();
    assert_eq!((&stats["blocking"], &stats["shadow"]["would_block_wrongly"]), (&json!(false), &json!(1)));
    assert_eq!(served.get("/readyz").await.body, "ready, and it only watches\n");
    served.stop().await;
}

#[tokio::test]
async fn the_dashboard_is_there_for_everybody_and_its_figures_are_not() {
    let source = thousand();
    let options = Options { tokens: Some(Tokens::parse(TOKENS).unwrap()), ..Options::default() };
    let served = Served::ready(&source, options).await;
    let page = served.get("/").await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert_eq!(served.get("/pages/gate.js").await.status, 200);
    assert_eq!(served.ask("POST", "/app.js", "", "").await.status, 404);
    let about = served.get("/about.json").await.json();
    assert_eq!((&about["process"], &about["login_needed"]), (&json!("gate"), &json!(true)));
    assert_eq!((&about["events"], &about["attack"]), (&json!("/events"), &json!(null)));
    for path in ["/stats", "/events", "/attack", "/alerts"] {
        assert_eq!(served.get(path).await.status, 401, "{path}");
    }
    // What is to be done about an alert is for whoever was woken by it.
    let runbook = served.get("/runbook").await;
    assert_eq!((runbook.status, runbook.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(runbook.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
    assert!(runbook.body.contains("<h2 id=\"gate-not-ready-or-bypassing\">"));
    served.stop().await;
}

#[tokio::test]
async fn alerts_are_told_and_come_as_events() {
    let source = thousand();
    let served = Served::ready(&source, products()).await;
    assert_eq!(served.get("/alerts").await.json(), json!({"alerts": []}));
    assert_eq!(served.get("/about.json").await.json()["alerts"], "/alerts");
    assert_eq!(served.ask("POST", "/alerts", "", "").await.status, 405);
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let first = read_until(&mut stream, "event: alerts\ndata: {\"alerts\":[]}\n\n").await;
    assert!(first.contains("event: gate\n"), "{first}");
    // A lookup to begin with is one that can be asked.
    let stats = served.get("/stats").await.json();
    let path = stats["first_lookup"].as_str().unwrap();
    assert_eq!((path, served.get(path).await.status), ("/v1/products/no-such-key", 404));
    served.stop().await;
}

/// Reads from a connection until `end` has come.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    let reading = async {
        let mut part = [0; 4096];
        while !String::from_utf8_lossy(&all).contains(end) {
            match stream.read(&mut part).await.unwrap() {
                0 => break,
                read => all.extend_from_slice(&part[..read]),
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("it comes in time");
    String::from_utf8(all).unwrap()
}

#[tokio::test]
async fn the_figures_come_as_events_and_end_with_the_service() {
    let source = thousand();
    let served = Served::ready(&source, Options::default()).await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let first = read_until(&mut stream, "\n\n").await;
    assert!(first.contains("content-type: text/event-stream"), "{first}");
    let data = first.split("data: ").nth(1).unwrap().lines().next().unwrap();
    let stats: Value = serde_json::from_str(data).unwrap();
    assert_eq!(stats["state"], "ready");
    // Another one a second later.
    assert!(read_until(&mut stream, "event: gate").await.contains("event: gate"));
    let begun = std::time::Instant::now();
    served.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(5), "an open stream holds up the end");
}

#[tokio::test]
async fn the_attack_is_for_admins() {
    let source = thousand();
    let none = Served::ready(&source, Options::default()).await;
    assert_eq!(none.get("/attack").await.status, 404);
    none.stop().await;
    let tokens = Some(Tokens::parse(TOKENS).unwrap());
    let served =
        Served::ready(&source, Options { tokens, attack: Some("/nowhere/bloomgate".into()), ..Options::default() })
            .await;
    let with = |token: &str| format!("authorization: Bearer {token}\r\n");
    let idle = served.ask("GET", "/attack", &with("reading-token-12"), "").await.json();
    assert_eq!((&idle["running"], &idle["done"]), (&json!(false), &json!([])));
    assert_eq!(served.ask("POST", "/attack", &with("writing-token-12"), "{}").await.status, 403);
    let admin = with("mighty-token-123");
    assert_eq!(served.ask("POST", "/attack", &admin, r#"{"requests":1}"#).await.problem(), "bad-request");
    assert_eq!(served.ask("POST", "/attack", &admin, r#"{"requests":2000}"#).await.status, 200);
    assert_eq!(served.ask("POST", "/attack/stop", &admin, "").await.status, 200);
    assert_eq!(served.ask("DELETE", "/attack", &admin, "").await.status, 405);
    served.stop().await;
}

/// How far a rebuild is, as somebody sees it who asks while it runs.
#[tokio::test]
async fn stats_move_with_a_rebuild() {
    let source = MemorySource::with((0..5000).map(|number| format!("key-{number}")));
    let served = Served::ready(&source, Options::default()).await;
    let running = async || served.get("/stats").await.json()["rebuild"]["running"].clone();
    assert_eq!(running().await, Value::Null);
    let steps = Arc::new(tokio::sync::Semaphore::new(0));
    *source.steps.lock().unwrap() = Some(steps.clone());
    assert_eq!(served.ask("POST", "/rebuild", "", "").await.status, 202);
    for scanned in [0, 1000, 2000, 3000] {
        steps.add_permits(1);
        let expected = json!({"reason": "asked", "scanned": scanned, "expected": 5000});
        let mut seen = running().await;
        for _ in 0..1000 {
            if seen == expected {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
            seen = running().await;
        }
        assert_eq!(seen, expected);
    }
    // It does not run ahead of the scan.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(running().await["scanned"], 3000);
    steps.add_permits(10);
    for _ in 0..1000 {
        if running().await == Value::Null {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let stats = served.get("/stats").await.json();
    assert_eq!((&stats["rebuild"]["running"], &stats["rebuild"]["done"]), (&Value::Null, &json!(2)), "{stats}");
    served.stop().await;
}
