//! The service before a table of many tenants, over real sockets: the tenant is a part of every path.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate_gate::callers::{Callers, Limit};
use bloomgate_gate::service::http::access::Tokens;
use bloomgate_gate::service::{self, Clients, GateService, METRICS, Options, http};
use bloomgate_gate::tenants::Tenants;
use bloomgate_gate::{Meaning, Policy, Writers};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::got::Got;
use crate::tenant_memory::MemoryTable;

/// Nothing takes longer, or the test fails instead of hanging.
const PATIENCE: Duration = Duration::from_secs(10);

struct Served {
    address: SocketAddr,
    tenants: Tenants,
    _stop: oneshot::Sender<()>,
}

impl Served {
    async fn start(tenants: Tenants, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            let _ = stopped.await;
        };
        tokio::spawn(service::serve_tenants(listener, tenants.clone(), options, http::Options::default(), shutdown));
        Self { address, tenants, _stop: stop }
    }

    async fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = if body.is_empty() { String::new() } else { format!("content-length: {}\r\n", body.len()) };
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{length}{headers}\r\n{body}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("an answer in time").unwrap();
        Got::read(&String::from_utf8(answer).unwrap())
    }

    async fn get(&self, path: &str) -> Got {
        self.ask("GET", path, "", "").await
    }
}

fn products() -> Options {
    Options { table: "products".to_owned(), writes: true, ..Options::default() }
}

fn table(tenants: usize) -> Arc<MemoryTable> {
    let rows = (0..tenants)
        .flat_map(|tenant| (0..=tenant % 40).map(move |number| (format!("t{tenant}"), format!("p{number}"))));
    MemoryTable::with(rows.chain([("a/b".to_owned(), "x y".to_owned())]))
}

async fn served(tenants: usize, options: Options) -> Served {
    let gates = Tenants::builder(table(tenants)).writers(Writers::Sole).build().unwrap();
    gates.rebuild_all(false).await.unwrap();
    Served::start(gates, options).await
}

#[tokio::test]
async fn every_path_names_its_tenant() {
    let served = served(3, products()).await;
    let found = served.get("/v1/products/t1/p1").await;
    assert_eq!(found.outcome(), (200, Some("source")));
    assert_eq!(found.json()["tenant"], "t1");
    assert_eq!(served.get("/v1/products/a%2Fb/x%20y").await.status, 200);
    let absent = served.get("/v1/products/t1/p99").await;
    assert_eq!(absent.outcome(), (404, Some("absent-by-filter")));
    assert_eq!(absent.header("bloomgate-filter-version"), Some("1"));
    let stranger = served.get("/v1/products/nobody/p1").await;
    assert_eq!(stranger.outcome(), (404, Some("absent-by-filter")));
    // Writes, a new tenant among them.
    let put = served.ask("PUT", "/v1/products/new/p1", "", r#"{"key":"p1","tenant":"new"}"#).await;
    assert_eq!((put.outcome(), put.header("bloomgate-filter-version")), ((204, Some("written")), Some("1")));
    assert_eq!(served.get("/v1/products/new/p1").await.status, 200);
    assert_eq!(served.get("/v1/products/t1/p99").await.status, 404);
    assert_eq!(served.ask("DELETE", "/v1/products/new/p1", "", "").await.outcome(), (204, Some("deleted")));
    assert_eq!(served.ask("DELETE", "/v1/products/nobody/p1", "", "").await.outcome(), (404, Some("nothing-deleted")));
    // A batch is one tenant's.
    let batch = served.ask("POST", "/v1/products/t2:batch", "", r#"["p0", "p2", "p3", 7]"#).await;
    let answers = batch.json();
    let found: Vec<bool> =
        answers["answers"].as_array().unwrap().iter().map(|answer| answer["found"].as_bool().unwrap()).collect();
    assert_eq!((batch.status, found), (200, vec![true, true, false, false]));
    let of_stranger = served.ask("POST", "/v1/products/nobody:batch", "", r#"["p0"]"#).await.json();
    assert_eq!(of_stranger["answers"][0]["outcome"], "absent-by-filter");
    // Reports.
    let all = served.get("/stats").await.json();
    assert_eq!(
        (&all["tenants"]["all"], &all["tenants"]["ready"], &all["state"]),
        (&5.into(), &5.into(), &"ready".into())
    );
    assert!(all["strangers"]["absent-by-filter"].as_u64().unwrap() >= 2, "{all}");
    let one = served.get("/stats/t1").await.json();
    assert_eq!(
        (&one["tenant"], &one["filter"]["scanned"], &one["asked_rate"]),
        (&"t1".into(), &2.into(), &0.001.into())
    );
    assert_eq!(served.get("/stats/nobody").await.status, 404);
    let why = served.get("/explain/t1/p99").await.json();
    assert_eq!(why["decision"], "absent-by-filter: 404, nothing behind the filter is asked");
    assert!(served.get("/explain/nobody/p1").await.json()["decision"].as_str().unwrap().contains("no tenant"));
    assert_eq!(served.get("/readyz").await.status, 200);
    assert_eq!(served.get("/healthz").await.status, 200);
    // A rebuild of one, and of all.
    let rebuilt = served.ask("POST", "/rebuild/t1?wait=true", "", "").await;
    assert_eq!((rebuilt.status, &rebuilt.json()["version"]), (200, &2.into()));
    assert_eq!(served.get("/v1/products/t2/p99").await.header("bloomgate-filter-version"), Some("1"));
    assert_eq!(served.get("/v1/products/t1/p99").await.header("bloomgate-filter-version"), Some("2"));
    assert_eq!(served.ask("POST", "/rebuild/nobody", "", "").await.status, 404);
    let all = served.ask("POST", "/rebuild?wait=true", "", "").await;
    assert_eq!((all.status, &all.json()["built"]), (200, &5.into()));
    assert_eq!(served.tenants.len(), 5, "no path made a tenant");
}

#[tokio::test]
async fn only_an_absent_key_is_a_404() {
    let served = served(2, products()).await;
    for (path, status) in [
        ("/v1/products/t1", 400),
        ("/v1/products", 400),
        ("/v1/products/t1/a/b", 400),
        ("/v1/products/%FF/p1", 400),
        ("/v1/products/t1/%FF", 400),
        ("/v1/other/t1/p1", 400),
        ("/v1/products//p1", 400),
        ("/v1/products/t1/", 404),
        ("/explain/t1", 400),
        ("/elsewhere", 404),
    ] {
        let got = served.get(path).await;
        assert_eq!(got.status, status, "{path}: {got:?}");
        assert_eq!(
            got.header("bloomgate-outcome") == Some("absent-by-filter"),
            status == 404 && path != "/elsewhere",
            "{path}"
        );
    }
    assert_eq!(served.ask("POST", "/v1/products/t1/p1", "", "{}").await.status, 405);
    assert_eq!(served.ask("POST", "/rebuild?wait=maybe", "", "").await.status, 400);
    let closed = Tenants::builder(table(2)).writers(Writers::Sole).policy(Policy::Closed).build().unwrap();
    let closed = Served::start(closed, products()).await;
    assert_eq!(closed.get("/v1/products/t1/p1").await.outcome(), (503, Some("refused")));
    assert_eq!(closed.get("/readyz").await.status, 503);
}

#[tokio::test]
async fn roles_are_asked_for_as_before_one_table() {
    let tokens = Tokens::parse("read reading-token-12\nadmin mighty-token-123\n").unwrap();
    let served = served(2, Options { tokens: Some(tokens), ..products() }).await;
    let reading = "authorization: Bearer reading-token-12\r\n";
    for path in ["/v1/products/t1/p1", "/stats/t1", "/explain/t1/p1", "/metrics"] {
        assert_eq!(served.get(path).await.status, 401, "{path}");
        assert_eq!(served.ask("GET", path, reading, "").await.status, 200, "{path}");
    }
    assert_eq!(served.ask("PUT", "/v1/products/t1/p1", reading, "{}").await.status, 403);
    assert_eq!(served.ask("POST", "/rebuild/t1", reading, "").await.status, 403);
    let mighty = "authorization: Bearer mighty-token-123\r\n";
    assert_eq!(served.ask("POST", "/rebuild/t1?wait", mighty, "").await.status, 200);
}

#[tokio::test]
async fn metrics_name_the_largest_tenants_and_the_rest_as_one() {
    let served = served(120, products()).await;
    for tenant in 0..120 {
        served.get(&format!("/v1/products/t{tenant}/absent")).await;
    }
    served.get("/v1/products/nobody/p1").await;
    let text = served.get("/metrics").await.body;
    let lines = |name: &str| text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>();
    let absent = lines("bloomgate_gate_tenant_absent_lookups_total{");
    assert_eq!(absent.len(), 51, "fifty by name and the rest");
    let counted: f64 = absent.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum();
    assert_eq!(counted, 120.0, "nobody is left out or counted twice");
    assert!(
        absent.iter().any(|line| line.contains("tenant=\"other\""))
            && absent.iter().any(|line| line.contains("tenant=\"t39\""))
    );
    assert!(!absent.iter().any(|line| line.contains("tenant=\"t0\"")), "it is among the smallest");
    assert_eq!(lines("bloomgate_gate_tenants{state=\"ready\"}"), ["bloomgate_gate_tenants{state=\"ready\"} 121"]);
    assert_eq!(lines("bloomgate_gate_unknown_tenant_lookups_total{outcome=\"absent-by-filter\"}").len(), 1);
    assert_eq!(
        lines("bloomgate_gate_lookups_total{outcome=\"absent-by-filter\"}"),
        ["bloomgate_gate_lookups_total{outcome=\"absent-by-filter\"} 121"]
    );
    let of_tenants = METRICS.iter().filter(|metric| metric.help.starts_with("With --tenant"));
    let missing: Vec<&str> =
        of_tenants.map(|metric| metric.name).filter(|name| !text.contains(&format!("# TYPE {name} "))).collect();
    assert_eq!(missing, Vec::<&str>::new());
    // The same ones from now on: no series falls when another tenant grows.
    for number in 0..200 {
        served.ask("PUT", &format!("/v1/products/t0/more{number}"), "", "{}").await;
    }
    let again = served.get("/metrics").await.body;
    assert!(!again.contains("bloomgate_gate_tenant_filter_items{tenant=\"t0\"}"));
}

#[tokio::test]
async fn caps_count_a_client_whichever_tenants_it_asks_for() {
    let hour = |count| Some(Limit::new(count, Duration::from_secs(3600)).unwrap());
    let callers = Arc::new(Callers::new(hour(4), hour(2)));
    // Others write too, so every lookup reaches the source.
    let gates = Tenants::builder(table(3)).writers(Writers::Unknown).callers(callers).build().unwrap();
    gates.rebuild_all(false).await.unwrap();
    let trusted = vec!["127.0.0.1".parse().unwrap()];
    let served =
        Served::start(gates, Options { clients: Clients { trusted, ..Clients::default() }, ..products() }).await;
    let by = |client: &str| format!("x-forwarded-for: {client}\r\n");
    let status = async |method, path: &str, client| {
        let body = if method == "PUT" { r#"{"key":"x"}"# } else { "" };
        served.ask(method, path, &by(client), body).await
    };
    assert_eq!(status("GET", "/v1/products/t1/p1", "192.0.2.1").await.status, 200);
    for path in ["/v1/products/t1/p99", "/v1/products/t2/p99", "/v1/products/nobody/p1"] {
        assert_eq!(status("GET", path, "192.0.2.1").await.outcome(), (404, Some("bypass")), "{path}");
    }
    let reads = served.tenants.stats().at_source.reads;
    let batch = served.ask("POST", "/v1/products/nobody:batch", &by("192.0.2.1"), r#"["a","b","c"]"#).await;
    let outcomes: Vec<Value> =
        batch.json()["answers"].as_array().unwrap().iter().map(|one| one["outcome"].clone()).collect();
    assert_eq!((batch.status, outcomes), (200, vec!["bypass".into(), "refused".into(), "refused".into()]));
    assert_eq!(served.tenants.stats().at_source.reads, reads + 1, "one was left, and no more reached the source");
    for path in ["/v1/products/t2/p98", "/v1/products/nobody/p1", "/explain/t1/p97", "/explain/nobody/p1"] {
        let capped = status("GET", path, "192.0.2.1").await;
        assert_eq!(capped.status, 429, "{path}");
        assert!(capped.header("retry-after").is_some() && capped.body.contains("too-many-misses"), "{path}");
        assert_ne!(status("GET", path, "192.0.2.2").await.status, 429, "{path}: another client");
    }
    // A tenant that is new is not made by who may not add.
    for (path, expected) in [("t1/new-1", 204), ("fresh/x", 204), ("t1/new-2", 429), ("made-up/x", 429)] {
        assert_eq!(status("PUT", &format!("/v1/products/{path}"), "192.0.2.3").await.status, expected, "{path}");
    }
    let known = ["fresh", "made-up"].map(|name| served.tenants.has(&served.tenants.parse_tenant(name).unwrap()));
    assert_eq!(known, [true, false]);
    let stats = served.get("/stats").await.json();
    assert_eq!(stats["clients"]["refused_adds"], 2, "{stats}");
    assert!(stats["clients"]["refused_lookups"].as_u64().unwrap() >= 2, "{stats}");
    assert!(served.get("/metrics").await.body.contains("bloomgate_gate_client_refusals_total{cap=\"adds\"} 2"));
}

#[tokio::test]
async fn a_deny_list_of_many_tenants_denies_by_the_source_alone() {
    let served = served(3, Options { meaning: Meaning::Deny, ..products() }).await;
    assert_eq!(served.get("/v1/products/t1/p99").await.outcome(), (204, Some("allowed-by-filter")));
    assert_eq!(served.get("/v1/products/nobody/p1").await.outcome(), (204, Some("allowed-by-filter")));
    let denied = served.get("/v1/products/t1/p1").await;
    assert_eq!(denied.outcome(), (403, Some("denied")));
    let batch = served.ask("POST", "/v1/products/t1:batch", "", r#"["p1","p99"]"#).await.json();
    assert_eq!(
        (&batch["answers"][0]["denied"], &batch["answers"][1]["denied"]),
        (&true.into(), &false.into()),
        "{batch}"
    );
    assert!(served.get("/explain/t1/p1").await.json()["decision"].as_str().unwrap().contains("403"));
    let stats = served.get("/stats").await.json();
    assert_eq!((&stats["meaning"], &stats["deny"]["denied"]), (&"deny".into(), &2.into()), "{stats}");
}

/// Lines of a scrape that begin so.
fn lines(scrape: &str, name: &str) -> Vec<String> {
    scrape.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

#[tokio::test]
async fn rebuilds_that_fail_are_told_by_metrics_and_remembered() {
    let table = table(3);
    let every = Duration::from_secs(7_200);
    let gates = Tenants::builder(table.clone()).writers(Writers::Sole).rebuild_every(Some(every)).build().unwrap();
    gates.rebuild_all(false).await.unwrap();
    let served = Served::start(gates, products()).await;
    let scrape = async || served.get("/metrics").await.body;
    let first = scrape().await;
    assert_eq!(lines(&first, "bloomgate_gate_rebuild_failures"), ["bloomgate_gate_rebuild_failures 0"]);
    assert_eq!(lines(&first, "bloomgate_gate_rebuild_every"), ["bloomgate_gate_rebuild_every_seconds 7200"]);
    assert_eq!(lines(&first, "bloomgate_gate_filter_removed"), ["bloomgate_gate_filter_removed 0"]);
    let built = lines(&first, "bloomgate_gate_filter_built_seconds ");
    assert_eq!(built.len(), 1, "{first}");
    // A scan of all, and one tenant by itself.
    table.0.is_down.store(true, SeqCst);
    assert_eq!(served.ask("POST", "/rebuild?wait=true", "", "").await.status, 503);
    assert_eq!(lines(&scrape().await, "bloomgate_gate_rebuild_failures"), ["bloomgate_gate_rebuild_failures 1"]);
    assert_eq!(served.ask("POST", "/rebuild/t1?wait=true", "", "").await.status, 503);
    assert_eq!(lines(&scrape().await, "bloomgate_gate_rebuild_failures"), ["bloomgate_gate_rebuild_failures 2"]);
    assert_eq!(
        lines(&scrape().await, "bloomgate_gate_filter_built_seconds "),
        built,
        "the filters are as old as before"
    );
    table.0.is_down.store(false, SeqCst);
    assert_eq!(served.ask("DELETE", "/v1/products/t2/p1", "", "").await.status, 204);
    assert_eq!(lines(&scrape().await, "bloomgate_gate_filter_removed"), ["bloomgate_gate_filter_removed 1"]);
    assert_eq!(served.ask("POST", "/rebuild/t1?wait=true", "", "").await.status, 200);
    assert_eq!(lines(&scrape().await, "bloomgate_gate_rebuild_failures"), ["bloomgate_gate_rebuild_failures 1"]);
    assert_eq!(served.ask("POST", "/rebuild?wait=true", "", "").await.status, 200);
    let last = scrape().await;
    assert_eq!(lines(&last, "bloomgate_gate_rebuild_failures"), ["bloomgate_gate_rebuild_failures 0"]);
    assert_eq!(lines(&last, "bloomgate_gate_filter_removed"), ["bloomgate_gate_filter_removed 0"]);
    assert_ne!(lines(&last, "bloomgate_gate_filter_built_seconds "), built);
    // What happened, the newest last.
    let stats = served.get("/stats").await.json();
    let history = stats["history"].as_array().unwrap();
    let told: Vec<(Option<&str>, &str, bool)> = history
        .iter()
        .map(|one| (one["tenant"].as_str(), one["reason"].as_str().unwrap(), one["failure"].is_null()))
        .collect();
    assert_eq!(
        told,
        [
            (None, "asked", true),
            (None, "asked", false),
            (Some("t1"), "asked", false),
            (Some("t1"), "asked", true),
            (None, "asked", true)
        ],
        "{stats}"
    );
    assert_eq!((&history[4]["built"], &history[4]["failed"]), (&4.into(), &0.into()), "{stats}");
}

/// Somebody writes past a gate that believes to see everything: whose the wrong "no" was is told by metrics, /stats and
/// /alerts.
#[tokio::test]
async fn a_wrong_no_of_one_tenant_is_told_as_its_own() {
    let table = table(3);
    let gates = Tenants::builder(table.clone()).writers(Writers::Sole).audit_share(1.0).build().unwrap();
    gates.rebuild_all(false).await.unwrap();
    gates.start();
    // Without the look every ten seconds: the first who asks for alerts has them looked for.
    let service = GateService::waiting(Options { by_tenant: true, ..products() }, Arc::default());
    service.open_tenants(gates.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async move {
        let _ = stopped.await;
    };
    tokio::spawn(http::serve(listener, service, http::Options::default(), shutdown));
    let served = Served { address, tenants: gates, _stop: stop };
    table.0.rows.lock().unwrap().insert((b"t2".to_vec(), b"past".to_vec()), "{}".into());
    assert_eq!(served.get("/v1/products/t1/past").await.status, 404);
    assert_eq!(served.get("/v1/products/t2/past").await.status, 404);
    let wrong = "bloomgate_gate_tenant_audits_total{tenant=\"t2\",result=\"wrong\"} 1";
    let begun = std::time::Instant::now();
    let scrape = loop {
        let scrape = served.get("/metrics").await.body;
        if lines(&scrape, wrong).len() == 1 {
            break scrape;
        }
        assert!(begun.elapsed() < PATIENCE, "{scrape}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    for line in lines(&scrape, "bloomgate_gate_tenant_audits_total{").iter().filter(|line| line.contains("\"wrong\"")) {
        assert_eq!(line.ends_with(" 1"), line.contains("\"t2\""), "{line}");
    }
    assert_eq!(served.get("/stats").await.json()["wrong"], serde_json::json!(["t2"]));
    let alerts = served.get("/alerts").await.json();
    let told = &alerts["alerts"][0];
    assert_eq!((&told["name"], &told["severity"]), (&"BloomgateWrongNo".into(), &"critical".into()), "{alerts}");
    assert_eq!(told["summary"], "it has said no once for a key that the source has, of the tenant t2");
    assert_eq!(told["runbook"], "/runbook#wrong-no");
    assert!(served.get("/runbook").await.body.contains("<h2 id=\"wrong-no\">"));
}

#[tokio::test]
async fn shadow_and_density_are_told_by_tenant() {
    let table = table(3);
    let gates = Tenants::builder(table.clone()).build().unwrap();
    gates.rebuild_all(false).await.unwrap();
    let served = Served::start(gates, products()).await;
    table.0.rows.lock().unwrap().insert((b"t2".to_vec(), b"past".to_vec()), "{}".into());
    for path in ["t2/past", "t2/absent", "t1/absent"] {
        served.get(&format!("/v1/products/{path}")).await;
    }
    let scrape = served.get("/metrics").await.body;
    let of = |name: &str, tenant: &str| {
        let found = lines(&scrape, &format!("bloomgate_gate_tenant_{name}{{tenant=\"{tenant}\"}} "));
        found[0].rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    let told = ["t0", "t1", "t2"]
        .map(|tenant| (of("shadow_blocked_total", tenant), of("shadow_blocked_wrongly_total", tenant)));
    assert_eq!(told, [(0.0, 0.0), (1.0, 0.0), (2.0, 1.0)]);
    let density = of("filter_bit_density_ratio", "t2");
    assert!(density > 0.0 && density < 0.5, "{density}");
}
