//! Caps on single clients, over real sockets in front of a real SQLite file: who is refused, who never is, and who cannot
//! pretend to be somebody else.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::callers::{Callers, Cap, ClientId, Limit};
use bloomgate_gate::clock::Clock;
use bloomgate_gate::service::{Clients, Options};
use bloomgate_gate::sources::Sqlite;
use bloomgate_gate::{Builder, ErrorKind, Event, Gate, Key, Outcome, Writers};
use futures_util::FutureExt;
use futures_util::future::join_all;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::got::Got;
use crate::listening::{Told, listen};
use crate::memory_source::MemorySource;
use crate::service::Served;

const HOUR: Duration = Duration::from_secs(3600);

/// A gate with caps, in front of a table of a thousand keys, `key-0` and on.
struct Capped {
    served: Served,
    clock: Clock,
    told: Told,
    _folder: TempDir,
}

fn limit(count: u32) -> Option<Limit> {
    Some(Limit::new(count, HOUR).unwrap())
}

impl Capped {
    async fn start(misses: u32, adds: u32, clients: Clients, set: impl FnOnce(Builder) -> Builder) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut database = Connection::open(&path).unwrap();
        database.execute_batch("CREATE TABLE rows (id TEXT PRIMARY KEY, n INTEGER) WITHOUT ROWID").unwrap();
        let transaction = database.transaction().unwrap();
        for number in 0..1000 {
            transaction.execute("INSERT INTO rows VALUES (?1, ?2)", (format!("key-{number}"), number)).unwrap();
        }
        transaction.commit().unwrap();
        let (clock, (told, listener)) = (Clock::by_hand(), listen());
        let callers = Callers::with_clock(limit(misses), limit(adds), clock.clone());
        let builder = Gate::builder(Arc::new(Sqlite::open(&path, "rows", "id").unwrap()))
            .cache(Arc::new(LocalCache::new(1 << 20).unwrap()))
            .callers(Arc::new(callers))
            .on_event(listener);
        let gate = set(builder).build().unwrap();
        gate.rebuild().await.unwrap();
        let served = Served::start(gate, Options { writes: true, clients, ..Options::default() }).await;
        Self { served, clock, told, _folder: folder }
    }

    /// One that only watches: every lookup reaches the source.
    async fn watching(misses: u32) -> Self {
        Self::start(misses, 3, Clients::default(), |builder| builder).await
    }

    /// Asks from another address of this machine.
    async fn ask_from(&self, from: u8, method: &str, path: &str, headers: &str, body: &str) -> Got {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((Ipv4Addr::new(127, 0, 0, from), 0))).unwrap();
        let mut stream = socket.connect(self.served.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        Got::read(&answer)
    }

    async fn get_from(&self, from: u8, key: &str) -> Got {
        self.ask_from(from, "GET", &format!("/v1/rows/{key}"), "", "").await
    }

    fn reads(&self) -> u64 {
        self.served.gate.stats().at_source.reads
    }

    fn told_of(&self) -> Vec<String> {
        let capped = |event| match event {
            Event::Capped { client, cap, .. } => Some(format!("{client} {}", cap.name())),
            _ => None,
        };
        self.told.all().into_iter().filter_map(capped).collect()
    }
}

#[tokio::test]
async fn who_misses_too_often_is_refused_and_nobody_else() {
    let capped = Capped::watching(5).await;
    for number in 0..50 {
        assert_eq!(capped.get_from(2, &format!("key-{number}")).await.status, 200, "what is found never counts");
    }
    for number in 0..5 {
        assert_eq!(capped.get_from(2, &format!("no-{number}")).await.outcome(), (404, Some("bypass")));
    }
    let reads = capped.reads();
    for key in ["no-5", "no-0", "key-900"] {
        let refused = capped.get_from(2, key).await;
        assert_eq!((refused.outcome(), refused.problem().as_str()), ((429, Some("refused")), "too-many-misses"));
        assert_eq!(refused.header("retry-after"), Some("720"), "a fifth of an hour");
        assert!(refused.body.contains("127.0.0.2"), "{refused:?}");
    }
    assert_eq!(capped.reads(), reads, "the source heard nothing");
    assert_eq!(capped.get_from(2, "key-7").await.outcome(), (200, Some("cache")), "what is cached is given");
    for from in [1, 3] {
        assert_eq!(capped.get_from(from, "no-5").await.status, 404);
        assert_eq!(capped.get_from(from, "key-901").await.status, 200);
    }
    let stats = capped.ask_from(1, "GET", "/stats", "", "").await.json();
    let now = json!([{"client": "127.0.0.2", "cap": "misses", "again_in_ms": 720_000}]);
    let clients = json!({"remembered": 3, "capped": 1, "refused_lookups": 3, "refused_adds": 0, "capped_now": now});
    assert_eq!((&stats["clients"], &stats["lookups"]["refused-capped"]), (&clients, &json!(3)));
    let metrics = capped.ask_from(1, "GET", "/metrics", "", "").await.body;
    for line in [
        "bloomgate_gate_clients 3",
        "bloomgate_gate_clients_capped 1",
        "bloomgate_gate_client_refusals_total{cap=\"misses\"} 3",
        "bloomgate_gate_lookups_failed_total{reason=\"capped\"} 3",
        "bloomgate_gate_lookups_failed_total{reason=\"other\"} 0",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
    assert_eq!(capped.told_of(), ["127.0.0.2 misses"], "told once, not with every refusal");
    capped.clock.advance(Duration::from_secs(720));
    assert_eq!(capped.get_from(2, "no-6").await.status, 404);
    assert_eq!(capped.get_from(2, "no-7").await.status, 429);
    assert_eq!(capped.told_of().len(), 2, "after a minute it is news again");
    capped.served.stop().await;
}

#[tokio::test]
async fn what_costs_the_source_nothing_is_answered_to_everybody() {
    let sole = |builder: Builder| builder.writers(Writers::Sole).audit_share(0.0);
    let capped = Capped::start(5, 3, Clients::default(), sole).await;
    let gate = &capped.served.gate;
    // Keys that were deleted pass the filter until the next rebuild, so that there is something to miss.
    let maybe: Vec<String> = (0..8).map(|number| format!("gone-{number}")).collect();
    for key in &maybe {
        let key = Key::from(key.as_str());
        gate.put(key.clone(), "{}".into()).await.unwrap();
        assert!(gate.delete(&key).await.unwrap());
    }
    let is_no = |key: &String| gate.look(&gate.parse_key(key).unwrap()).is_some();
    let no: Vec<String> = (0..100).map(|number| format!("no-{number}")).filter(is_no).collect();
    assert_eq!(capped.get_from(2, "key-1").await.outcome(), (200, Some("source")));
    for key in &maybe[..5] {
        assert_eq!(capped.get_from(2, key).await.outcome(), (404, Some("not-found")));
    }
    let reads = capped.reads();
    assert_eq!(capped.get_from(2, &maybe[5]).await.status, 429);
    assert_eq!(capped.get_from(2, "key-2").await.status, 429);
    for key in &no[..20] {
        assert_eq!(capped.get_from(2, key).await.outcome(), (404, Some("absent-by-filter")));
    }
    for key in &maybe[..5] {
        assert_eq!(capped.get_from(2, key).await.outcome(), (404, Some("negative-cached")));
    }
    assert_eq!(capped.get_from(2, "key-1").await.outcome(), (200, Some("cache")));
    // In a batch too: each key has its answer or its refusal.
    let asked = json!([no[0], maybe[0], "key-1", maybe[6], "key-3"]).to_string();
    let got = capped.ask_from(2, "POST", "/v1/rows:batch", "", &asked).await.json();
    let outcomes: Vec<&Value> = got["answers"].as_array().unwrap().iter().map(|one| &one["outcome"]).collect();
    assert_eq!(outcomes, ["absent-by-filter", "negative-cached", "cache", "refused", "refused"]);
    assert_eq!(capped.reads(), reads, "the source heard nothing");
    // An explanation asks the source, and counts like a lookup.
    assert_eq!(capped.ask_from(2, "GET", "/explain/key-1", "", "").await.problem(), "too-many-misses");
    for _ in 0..5 {
        assert_eq!(capped.ask_from(3, "GET", "/explain/key-1", "", "").await.status, 200);
        assert_eq!(capped.ask_from(3, "GET", &format!("/explain/{}", no[0]), "", "").await.status, 200);
    }
    assert_eq!(capped.ask_from(3, "GET", "/explain/key-1", "", "").await.status, 429);
    capped.served.stop().await;
}

#[tokio::test]
async fn each_key_of_a_batch_counts() {
    let capped = Capped::watching(5).await;
    let batch = async |from: u8, keys: Vec<String>| {
        capped.ask_from(from, "POST", "/v1/rows:batch", "", &json!(keys).to_string()).await
    };
    let found = |got: &Got, what: Value| {
        got.json()["answers"].as_array().unwrap().iter().filter(|one| one["found"] == what).count()
    };
    // More rows than the cap, all of them there: five at a time.
    let got = batch(2, (0..300).map(|number| format!("key-{number}")).collect()).await;
    assert_eq!(found(&got, json!(true)), 300);
    let mixed = (0..20).flat_map(|number| [format!("key-{}", 500 + number), format!("no-{number}")]).collect();
    let got = batch(2, mixed).await;
    assert_eq!((got.status, found(&got, json!(false))), (200, 5), "{got:?}");
    let refused = found(&got, Value::Null);
    assert!(refused >= 15 && found(&got, json!(true)) + refused + 5 == 40, "{got:?}");
    let got = batch(2, vec!["no-90".into(), "no-91".into()]).await;
    assert_eq!((got.status, got.problem().as_str()), (429, "too-many-misses"));
    let got = batch(3, (0..4).map(|number| format!("no-{number}")).collect()).await;
    assert_eq!(found(&got, json!(false)), 4, "another client");
    capped.served.stop().await;
}

#[tokio::test]
async fn lookups_at_once_do_not_get_past_the_cap() {
    let capped = Capped::watching(7).await;
    let before = capped.reads();
    let asked: Vec<String> = (0..100).map(|number| format!("no-{number}")).collect();
    let got = join_all(asked.iter().map(|key| capped.get_from(2, key))).await;
    let with = |status: u16| got.iter().filter(|got| got.status == status).count();
    assert_eq!((with(404), with(429)), (7, 93));
    assert_eq!(capped.reads() - before, 7, "not one more reached the source");
    // All that are there are found, however many at once.
    let asked: Vec<String> = (0..100).map(|number| format!("key-{number}")).collect();
    let got = join_all(asked.iter().map(|key| capped.get_from(3, key))).await;
    assert!(got.iter().all(|got| got.status == 200));
    capped.served.stop().await;
}

#[tokio::test]
async fn adds_have_a_cap_of_their_own() {
    let capped = Capped::start(5, 3, Clients::default(), |builder| builder.writers(Writers::Sole)).await;
    let put =
        async |from: u8, key: &str, row: &str| capped.ask_from(from, "PUT", &format!("/v1/rows/{key}"), "", row).await;
    for wrong in ["no json", r#"{"colour":1}"#] {
        assert_eq!(put(2, "bad", wrong).await.status, 400, "what cannot be a row is not added, and does not count");
    }
    for number in 0..3 {
        assert_eq!(put(2, &format!("new-{number}"), r#"{"n":1}"#).await.status, 204);
    }
    let refused = put(2, "new-3", r#"{"n":1}"#).await;
    assert_eq!((refused.status, refused.problem().as_str()), (429, "too-many-adds"));
    assert_eq!(refused.header("retry-after"), Some("1200"));
    assert_eq!(capped.get_from(3, "new-3").await.outcome(), (404, Some("absent-by-filter")), "the filter was not told");
    assert_eq!(put(3, "new-3", r#"{"n":1}"#).await.status, 204);
    assert_eq!(capped.get_from(2, "new-3").await.status, 200, "lookups are counted apart");
    assert_eq!(capped.ask_from(2, "DELETE", "/v1/rows/new-0", "", "").await.status, 204, "deletions take nothing up");
    assert_eq!(capped.told_of(), ["127.0.0.2 adds"]);
    assert_eq!(capped.served.gate.stats().clients.unwrap().refused_adds, 1);
    capped.clock.advance(Duration::from_secs(1200));
    assert_eq!(put(2, "new-4", r#"{"n":1}"#).await.status, 204);
    // The library: many rows at once.
    let rows = |many: usize| (0..many).map(|n| (Key::from(format!("m-{n}").as_str()), "{}".into())).collect();
    let client = ClientId::address(Ipv4Addr::new(192, 0, 2, 1).into());
    let gate = &capped.served.gate;
    assert_eq!(gate.put_many_for(rows(4), &client).await.unwrap_err().kind(), ErrorKind::Invalid, "never possible");
    gate.put_many_for(rows(2), &client).await.unwrap();
    let refused = gate.put_many_for(rows(2), &client).await.unwrap_err();
    assert_eq!((refused.kind(), refused.retry_after()), (ErrorKind::TooManyAdds, Some(Duration::from_secs(1200))));
    gate.put_many(rows(10)).await.unwrap();
    capped.served.stop().await;
}

#[tokio::test]
async fn nobody_can_pretend_to_be_somebody_else() {
    let trusted = |by: &str| Clients { by: by.parse().unwrap(), trusted: vec!["127.0.0.1".parse().unwrap()] };
    let capped = Capped::start(3, 3, trusted("address"), |builder| builder).await;
    let get = async |from: u8, key: &str, headers: &str| {
        capped.ask_from(from, "GET", &format!("/v1/rows/{key}"), headers, "").await.status
    };
    // Who is no proxy of ours is who it is, whatever it writes.
    for number in 0..3 {
        let spoofed = format!("x-forwarded-for: 198.51.100.{number}\r\n");
        assert_eq!(get(9, &format!("no-{number}"), &spoofed).await, 404);
    }
    assert_eq!(get(9, "no-3", "x-forwarded-for: 198.51.100.77\r\n").await, 429);
    // Behind the proxy, what the client wrote stands before what the proxy saw.
    for number in 0..3 {
        let sent = format!("x-forwarded-for: 198.51.100.{number}, 203.0.113.5\r\n");
        assert_eq!(get(1, &format!("no-{number}"), &sent).await, 404);
    }
    assert_eq!(get(1, "no-3", "x-forwarded-for: 127.0.0.1, 198.51.100.9, 203.0.113.5\r\n").await, 429);
    assert_eq!(get(1, "no-3", "x-forwarded-for: 198.51.100.9\r\nx-forwarded-for: 203.0.113.5\r\n").await, 429);
    assert_eq!(get(1, "no-3", "x-forwarded-for: 203.0.113.6\r\n").await, 404);
    // A whole /64 is one client.
    for number in 0..4 {
        let sent = format!("x-forwarded-for: 2001:db8:1:2::{number}\r\n");
        assert_eq!(get(1, &format!("no-{number}"), &sent).await, if number < 3 { 404 } else { 429 });
    }
    assert_eq!(capped.told_of(), ["127.0.0.9 misses", "203.0.113.5 misses", "2001:db8:1:2::/64 misses"]);
    capped.served.stop().await;
    // By a header, which only the proxy may set; its value is told to nobody.
    let capped = Capped::start(3, 3, trusted("header:x-session"), |builder| builder).await;
    let get = async |from: u8, key: &str, headers: &str| {
        capped.ask_from(from, "GET", &format!("/v1/rows/{key}"), headers, "").await
    };
    for number in 0..4 {
        let forwarded = format!("x-session: secret-ann\r\nx-forwarded-for: 203.0.113.{number}\r\n");
        let got = get(1, &format!("no-{number}"), &forwarded).await;
        assert_eq!(got.status, if number < 3 { 404 } else { 429 });
        assert!(!got.body.contains("secret-ann"), "{got:?}");
    }
    assert_eq!(get(1, "no-0", "x-session: secret-bob\r\n").await.status, 404);
    for number in 0..4 {
        let spoofed = format!("x-session: made-up-{number}\r\n");
        assert_eq!(get(9, &format!("no-{number}"), &spoofed).await.status, if number < 3 { 404 } else { 429 });
    }
    let stats = capped.ask_from(1, "GET", "/stats", "", "").await.body;
    assert!(stats.contains("name #") && !stats.contains("secret"), "{stats}");
    let told = capped.told_of();
    assert!(told[0].starts_with("name #") && told[1] == "127.0.0.9 misses" && told.len() == 2, "{told:?}");
    capped.served.stop().await;
}

/// A gate that only watches, before a source that can be held, with a cap of so many misses.
fn held(misses: u32) -> (Gate, Arc<MemorySource>, Arc<Callers>) {
    let source = MemorySource::with(["there".to_owned()]);
    let callers = Arc::new(Callers::with_clock(limit(misses), None, Clock::by_hand()));
    let gate = Gate::builder(source.clone()).callers(callers.clone()).build().unwrap();
    (gate, source, callers)
}

fn named(name: &str) -> ClientId {
    ClientId::named(name.as_bytes())
}

async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_goes_away_before_the_answer_pays_all_the_same() {
    let (gate, source, callers) = held(2);
    let hold = source.hold.write().await;
    for number in 0..2 {
        let key = Key::from(format!("no-{number}").as_str());
        assert!(gate.get_for(&key, &named("a")).now_or_never().is_none());
    }
    // The two under way may miss: the next waits for them, and is not refused yet.
    let key = Key::from("no-2");
    let a = named("a");
    let mut waits = Box::pin(gate.get_for(&key, &a));
    settle().await;
    assert!(waits.as_mut().now_or_never().is_none());
    callers.check(&named("a")).unwrap();
    drop(hold);
    assert_eq!(waits.await.unwrap_err().kind(), ErrorKind::TooManyMisses);
    assert!(callers.check(&named("a")).is_err());
    assert_eq!(gate.check_client(&named("a")).unwrap_err().kind(), ErrorKind::TooManyMisses);
    gate.check_client(&named("b")).unwrap();
}

#[tokio::test]
async fn who_goes_away_before_an_explanation_pays_all_the_same() {
    let (gate, source, callers) = held(2);
    let a = named("a");
    let hang_up = async |key: &str| {
        let hold = source.hold.write().await;
        let before = source.crowds.each_ref().map(|crowd| crowd.now()).iter().sum::<u64>();
        let key = Key::from(key);
        let mut explaining = Box::pin(gate.explain_for(&key, &a));
        while source.crowds.each_ref().map(|crowd| crowd.now()).iter().sum::<u64>() == before {
            assert!(explaining.as_mut().now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        drop(explaining);
        settle().await;
        drop(hold);
        settle().await;
    };
    for _ in 0..5 {
        hang_up("there").await;
        callers.check(&a).expect("its row was there");
    }
    for number in 0..2 {
        callers.check(&a).unwrap();
        hang_up(&format!("no-{number}")).await;
    }
    assert_eq!(gate.explain_for(&Key::from("no-2"), &a).await.unwrap_err().kind(), ErrorKind::TooManyMisses);
    gate.explain_for(&Key::from("no-2"), &named("b")).await.unwrap();
}

#[tokio::test]
async fn joining_a_read_costs_nothing_and_a_source_that_fails_is_nobodys_fault() {
    let (gate, source, callers) = held(1);
    callers.missed(&named("a"), 1);
    assert!(gate.get_for(&Key::from("there"), &named("a")).await.is_err());
    let hold = source.hold.write().await;
    let (there, gone) = (Key::from("there"), Key::from("gone"));
    let [a, b, c] = ["a", "b", "c"].map(named);
    let mut leads = [Box::pin(gate.get_for(&there, &b)), Box::pin(gate.get_for(&gone, &c))];
    leads.iter_mut().for_each(|lead| assert!(lead.as_mut().now_or_never().is_none()));
    let both = [there.clone(), gone.clone()];
    let mut joins = Box::pin(gate.get_each_for(&both, &a));
    assert!(joins.as_mut().now_or_never().is_none(), "it is capped, and joins");
    drop(hold);
    let joined: Vec<_> = joins.await.unwrap().into_iter().map(|answer| answer.unwrap()).collect();
    assert!(joined[0].row.is_some() && joined[1].row.is_none());
    assert!(joined.iter().all(|answer| answer.outcome == Outcome::Bypass));
    join_all(leads).await.into_iter().for_each(|answer| drop(answer.unwrap()));
    assert_eq!(source.reads(), 2);
    callers.check(&named("b")).expect("its row was there");
    assert!(callers.check(&named("c")).is_err(), "it led the read that found nothing");
    // A source that is down.
    source.is_down.store(true, std::sync::atomic::Ordering::SeqCst);
    for _ in 0..5 {
        assert_eq!(gate.get_for(&gone, &named("d")).await.unwrap_err().kind(), ErrorKind::Source);
    }
    callers.check(&named("d")).unwrap();
    assert_eq!(callers.limit(Cap::Adds), None);
    // Calls that name no client have no cap.
    source.is_down.store(false, std::sync::atomic::Ordering::SeqCst);
    for _ in 0..5 {
        gate.get(&gone).await.unwrap();
    }
}
