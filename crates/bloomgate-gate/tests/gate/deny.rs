//! Deny lists in two phases, over real sockets in front of a real SQLite file: in every state, nobody is denied who is not
//! in the table, and nobody gets in who is.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bloomgate_gate::caches::LocalCache;
use bloomgate_gate::feed::FeedPlan;
use bloomgate_gate::service::{GateService, Options, http};
use bloomgate_gate::sources::Sqlite;
use bloomgate_gate::{Builder, Gate, Meaning, Policy, State, Unconfirmed, Writers};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::got::Got;
use crate::service::Served;

/// A file with a table of banned addresses, and a connection of somebody else to it.
struct Bans {
    _folder: TempDir,
    path: PathBuf,
    other: Connection,
}

impl Bans {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bans.db");
        let mut other = Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE bans (address TEXT PRIMARY KEY, why TEXT) WITHOUT ROWID").unwrap();
        let transaction = other.transaction().unwrap();
        for number in 0..200 {
            transaction.execute("INSERT INTO bans VALUES (?1, 'spam')", [format!("192.0.2.{number}")]).unwrap();
        }
        transaction.commit().unwrap();
        Self { _folder: folder, path, other }
    }

    fn builder(&self) -> Builder {
        Gate::builder(Arc::new(Sqlite::open(&self.path, "bans", "address").unwrap())).writers(Writers::Sole).rate(0.01)
    }

    fn gate(&self, set: impl FnOnce(Builder) -> Builder) -> Gate {
        set(self.builder()).build().unwrap()
    }

    fn goes_down(&self) {
        self.other.execute_batch("ALTER TABLE bans RENAME TO away").unwrap();
    }

    fn comes_back(&self) {
        self.other.execute_batch("ALTER TABLE away RENAME TO bans").unwrap();
    }
}

fn options(unconfirmed: Unconfirmed) -> Options {
    Options { table: "bans".to_owned(), writes: true, meaning: Meaning::Deny, unconfirmed, ..Options::default() }
}

impl Served {
    /// What is said of one key: the status and the outcome.
    async fn of(&self, key: &str) -> (u16, String) {
        let got = self.get(&format!("/v1/bans/{key}")).await;
        if got.status == 204 {
            assert_eq!((got.body.as_str(), got.header("content-type")), ("", None), "{got:?}");
        }
        (got.status, got.header("bloomgate-outcome").unwrap_or_default().to_owned())
    }

    #[track_caller]
    fn check(got: (u16, String), status: u16, outcome: &str) {
        assert_eq!((got.0, got.1.as_str()), (status, outcome));
    }

    /// What a lookup is told, and a proxy that asks by `/check`.
    async fn is(&self, key: &str, status: u16, outcome: &str) {
        Self::check(self.of(key).await, status, outcome);
        let got = self.get(&format!("/check/{key}")).await;
        let said = (got.status, got.header("bloomgate-outcome").unwrap_or_default().to_owned());
        Self::check(said, status, outcome);
    }
}

#[tokio::test]
async fn no_allows_and_maybe_is_confirmed() {
    let bans = Bans::new();
    let gate = bans.gate(|builder| builder.cache(Arc::new(LocalCache::new(1 << 20).unwrap())));
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, options(Unconfirmed::Refuse)).await;
    let gate = &served.gate;
    // One that was pardoned passes the filter until the next rebuild: a false positive.
    let pardoned = gate.parse_key("198.51.100.99").unwrap();
    gate.put(pardoned.clone(), r#"{"why":"by mistake"}"#.into()).await.unwrap();
    assert!(gate.delete(&pardoned).await.unwrap());
    let maybe = ["198.51.100.99".to_owned()];
    let is_no = |key: &String| gate.look(&gate.parse_key(key).unwrap()).is_some();
    let no: Vec<String> = (0..50).map(|number| format!("198.51.100.{number}")).filter(is_no).collect();
    served.is(&no[0], 204, "allowed-by-filter").await;
    // A false positive of the filter is confirmed, and allowed: at the source, then from memory.
    served.is(&maybe[0], 204, "allowed").await;
    served.is(&maybe[0], 204, "allowed").await;
    for _ in 0..2 {
        let denied = served.get("/v1/bans/192.0.2.7").await;
        assert_eq!((denied.outcome(), denied.problem().as_str()), ((403, Some("denied")), "denied"));
        assert_eq!(denied.json()["row"], json!({"address": "192.0.2.7", "why": "spam"}));
        assert_eq!(denied.header("cache-control"), Some("no-store"));
        assert_eq!(denied.header("bloomgate-filter-version"), Some("1"));
    }
    let head = |key: &str| format!("/v1/bans/{key}");
    assert_eq!(served.ask("HEAD", &head("192.0.2.7"), "", "").await.outcome(), (403, Some("denied")));
    assert_eq!(served.ask("HEAD", &head(&no[0]), "", "").await.outcome(), (204, Some("allowed-by-filter")));
    // Bans and pardons hold from the moment they are answered.
    let put = served.ask("PUT", &head(&no[0]), "", r#"{"why":"fraud"}"#).await;
    assert_eq!(put.outcome(), (204, Some("written")));
    served.is(&no[0], 403, "denied").await;
    served.is("192.0.2.7", 403, "denied").await;
    assert_eq!(served.ask("DELETE", &head("192.0.2.7"), "", "").await.status, 204);
    served.is("192.0.2.7", 204, "allowed").await;
    // Many at once.
    let asked = json!([no[1], maybe[0], "192.0.2.8", 5, null]).to_string();
    let got = served.ask("POST", "/v1/bans:batch", "", &asked).await;
    assert_eq!(got.outcome(), (200, Some("batch")));
    let answers = got.json()["answers"].clone();
    assert_eq!(answers[0], json!({"key": no[1], "denied": false, "outcome": "allowed-by-filter"}));
    assert_eq!(answers[1], json!({"key": maybe[0], "denied": false, "outcome": "allowed"}));
    let row = json!({"address": "192.0.2.8", "why": "spam"});
    // A proxy gets the row too, and never a 403 or a 204 for what is no key.
    let checked = served.get("/check/192.0.2.8").await;
    assert_eq!((checked.outcome(), &checked.json()["row"]), ((403, Some("denied")), &row));
    assert_eq!(served.ask("HEAD", "/check/192.0.2.8", "", "").await.outcome(), (403, Some("denied")));
    for path in ["/check/a/b", "/check/%ff", "/check/%zz"] {
        assert_eq!(served.get(path).await.status, 400, "{path}");
    }
    // What is behind the proxy may read the key in another way.
    for path in ["/check/192.0.2.8%20", "/check/192.0.2.8.json", "/check/192.0.2.8;x", "/check/192%252E0.2.8"] {
        assert_eq!(served.get(path).await.outcome(), (403, Some("denied")), "{path}");
    }
    assert_eq!(answers[2], json!({"key": "192.0.2.8", "denied": true, "outcome": "denied", "row": row}));
    assert_eq!((&answers[3]["denied"], &answers[4]["denied"]), (&json!(false), &json!(null)));
    assert_eq!(answers[4]["outcome"], "bad-key");
    // Why, in these words.
    for (key, says) in [(&no[1], "allowed-by-filter: 204"), (&maybe[0], "allowed: 204"), (&no[0], "denied: 403")] {
        let explained = served.get(&format!("/explain/{key}")).await.json();
        assert!(explained["decision"].as_str().unwrap().starts_with(says), "{explained}");
    }
    let stats = served.get("/stats").await.json();
    assert_eq!((&stats["meaning"], &stats["deny"]["denied"]), (&json!("deny"), &json!(14)), "{stats}");
    let allowed = stats["deny"]["allowed"].as_u64().unwrap();
    assert!(allowed >= 4, "{stats}");
    assert_eq!(stats["deny"]["allowed-by-filter"], stats["lookups"]["absent-by-filter"]);
    let metrics = served.get("/metrics").await.body;
    for line in [format!("{{outcome=\"allowed\"}} {allowed}"), "{outcome=\"denied\"} 14".to_owned()] {
        assert!(metrics.contains(&format!("\nbloomgate_gate_deny_answers_total{line}\n")), "{line}: {metrics}");
    }
    served.stop().await;
}

/// Others ban and pardon past the gate, and triggers tell it.
#[tokio::test]
async fn a_stranger_bans_and_pardons_and_the_feed_tells_it() {
    let bans = Bans::new();
    bans.other.busy_timeout(Duration::from_secs(5)).unwrap();
    bans.other.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let install = || Sqlite::install_feed(&bans.path, "bans", "address", &FeedPlan::default(), false).unwrap().changed;
    assert!(install());
    let gate = bans.gate(|builder| {
        builder.writers(Writers::Feed).audit_share(1.0).cache(Arc::new(LocalCache::new(1 << 20).unwrap()))
    });
    gate.start();
    let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    // Until everything is told that was committed before this call.
    let told = async |gate: &Gate| {
        let moment = now();
        for _ in 0..2000 {
            let stats = gate.brief_stats();
            if stats.blocking && stats.feed.unwrap().watermark_ms.is_some_and(|watermark| watermark > moment) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("it is not told: {:?}", gate.stats());
    };
    told(&gate).await;
    let served = Served::start(gate, options(Unconfirmed::Refuse)).await;
    let gate = &served.gate;
    let mut free = (0..).map(|number| format!("203.0.113.{number}"));
    let mut next = || free.find(|key| gate.look(&gate.parse_key(key).unwrap()).is_some()).unwrap();

    // A ban: whoever gets in after it, gets in as of a watermark before it.
    for _ in 0..20 {
        let key = next();
        served.is(&key, 204, "allowed-by-filter").await;
        bans.other.execute("INSERT INTO bans VALUES (?1, 'fraud')", [&key]).unwrap();
        let committed = now();
        loop {
            let got = served.get(&format!("/v1/bans/{key}")).await;
            if got.status == 403 {
                assert_eq!(got.json()["row"]["why"], "fraud");
                break;
            }
            let watermark = got.header("bloomgate-watermark").unwrap().parse::<u64>();
            assert_eq!(got.status, 204, "{got:?}");
            assert!(watermark.is_ok_and(|watermark| watermark <= committed), "{key}, {committed}: {got:?}");
        }
    }
    // A pardon, though the ban was cached; and another word for a ban.
    served.is("192.0.2.7", 403, "denied").await;
    served.is("192.0.2.8", 403, "denied").await;
    bans.other.execute_batch("DELETE FROM bans WHERE address = '192.0.2.7'").unwrap();
    bans.other.execute_batch("UPDATE bans SET why = 'fraud' WHERE address = '192.0.2.8'").unwrap();
    told(gate).await;
    served.is("192.0.2.7", 204, "allowed").await;
    assert_eq!(served.get("/v1/bans/192.0.2.8").await.json()["row"]["why"], "fraud");
    // Banned again, though it is remembered as free.
    bans.other.execute_batch("INSERT INTO bans VALUES ('192.0.2.7', 'again')").unwrap();
    told(gate).await;
    served.is("192.0.2.7", 403, "denied").await;
    // A ban that goes to another address.
    let key = next();
    bans.other.execute("UPDATE bans SET address = ?1 WHERE address = '192.0.2.9'", [&key]).unwrap();
    told(gate).await;
    served.is(&key, 403, "denied").await;
    served.is("192.0.2.9", 204, "allowed").await;
    // A feed that is not whole: everybody is confirmed.
    let key = next();
    bans.other.execute_batch("DROP TRIGGER bloomgate_feed_bans_insert").unwrap();
    bans.other.execute("INSERT INTO bans VALUES (?1, 'untold')", [&key]).unwrap();
    for _ in 0..2000 {
        if !matches!(gate.state(), State::Ready { .. }) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    served.is(&key, 403, "denied").await;
    served.is("198.51.100.1", 204, "allowed").await;
    assert!(install());
    told(gate).await;
    served.is(&key, 403, "denied").await;
    served.is(&next(), 204, "allowed-by-filter").await;
    assert_eq!(gate.stats().audit.wrong, 0);
    gate.stop().await;
    served.stop().await;
}

#[tokio::test]
async fn a_403_is_said_of_keys_alone() {
    let bans = Bans::new();
    let gate = bans.gate(|builder| builder);
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, options(Unconfirmed::Refuse)).await;
    for (method, path) in [
        ("GET", "/v1/bans/192.0.2.7"),
        ("GET", "/v1/bans/198.51.100.1"),
        ("GET", "/check/192.0.2.7"),
        ("GET", "/check/198.51.100.1"),
        ("POST", "/v1/bans:batch"),
        ("GET", "/stats"),
    ] {
        let got = served.ask(method, path, "host: rebound.example\r\n", if method == "POST" { "[]" } else { "" }).await;
        assert_eq!((got.status, got.problem().as_str()), (421, "misdirected"), "{method} {path}");
    }
    assert_eq!(served.ask("PUT", "/v1/bans/1", "host: rebound.example\r\n", "{}").await.status, 403);
    for (path, status) in [("/v1/bans/a/b", 400), ("/v1/ban/1", 400), ("/v1/bans", 400)] {
        assert_eq!(served.get(path).await.status, status, "{path}");
    }
    served.stop().await;
}

#[tokio::test]
async fn in_every_state_who_is_banned_is_denied_and_who_is_not_gets_in() {
    let bans = Bans::new();
    let data = tempfile::tempdir().unwrap();
    let kept = |builder: Builder| builder.data(data.path());
    // Loading: the source is asked, or by policy nobody.
    let served = Served::start(bans.gate(kept), options(Unconfirmed::Refuse)).await;
    assert_eq!(served.gate.state(), State::Loading);
    served.is("192.0.2.7", 403, "denied").await;
    served.is("198.51.100.1", 204, "allowed").await;
    // Ready.
    served.gate.rebuild().await.unwrap();
    served.is("192.0.2.7", 403, "denied").await;
    assert_eq!(served.of("198.51.100.1").await.0, 204);
    // Broken: somebody banned past the gate, and an explanation found it.
    let past = (0..).map(|number| format!("203.0.113.{number}"));
    let gate = &served.gate;
    let past = past.into_iter().find(|key| gate.look(&gate.parse_key(key).unwrap()).is_some()).unwrap();
    bans.other.execute("INSERT INTO bans VALUES (?1, 'past the gate')", [&past]).unwrap();
    served.is(&past, 204, "allowed-by-filter").await;
    let explained = served.get(&format!("/explain/{past}")).await.json();
    assert!(explained["decision"].as_str().unwrap().contains("WRONGLY"), "{explained}");
    assert_eq!(served.gate.state(), State::Broken);
    served.is(&past, 403, "denied").await;
    served.is("198.51.100.1", 204, "allowed").await;
    served.gate.stop().await;
    served.stop().await;
    // Stale: the filter of the last run, which may not say no.
    for (policy, banned, other) in [(Policy::Open, 403, 204), (Policy::Closed, 503, 503)] {
        let first = bans.gate(kept);
        first.rebuild().await.unwrap();
        first.stop().await;
        drop(first);
        let served =
            Served::start(bans.gate(|builder| kept(builder).policy(policy)), options(Unconfirmed::Allow)).await;
        assert_eq!(served.gate.state(), State::Stale);
        assert_eq!((served.of("192.0.2.7").await.0, served.of("198.51.100.1").await.0), (banned, other), "{policy}");
        served.gate.stop().await;
        served.stop().await;
    }
    // Watching: everybody is confirmed.
    for set in [|builder: Builder| builder.writers(Writers::Unknown), |builder: Builder| builder.policy(Policy::Shadow)]
    {
        let served = Served::start(bans.gate(set), options(Unconfirmed::Refuse)).await;
        served.gate.rebuild().await.unwrap();
        bans.other.execute("INSERT OR IGNORE INTO bans VALUES ('203.0.113.200', '')", ()).unwrap();
        served.is("203.0.113.200", 403, "denied").await;
        served.is("198.51.100.1", 204, "allowed").await;
        served.stop().await;
    }
}

#[tokio::test]
async fn what_cannot_be_confirmed_is_refused_unless_it_was_said_otherwise() {
    let bans = Bans::new();
    for unconfirmed in [Unconfirmed::Refuse, Unconfirmed::Allow] {
        let gate = bans.gate(|builder| builder.cache(Arc::new(LocalCache::new(1 << 20).unwrap())));
        gate.rebuild().await.unwrap();
        let served = Served::start(gate, options(unconfirmed)).await;
        let gate = &served.gate;
        let no = (0..).map(|number| format!("198.51.100.{number}"));
        let no = no.into_iter().find(|key| gate.look(&gate.parse_key(key).unwrap()).is_some()).unwrap();
        served.is("192.0.2.1", 403, "denied").await;
        bans.goes_down();
        served.is(&no, 204, "allowed-by-filter").await;
        served.is("192.0.2.1", 403, "denied").await;
        let got = served.get("/v1/bans/192.0.2.2").await;
        let batch = served.ask("POST", "/v1/bans:batch", "", &json!(["192.0.2.2", no]).to_string()).await.json();
        let alone = served.ask("POST", "/v1/bans:batch", "", r#"["192.0.2.2"]"#).await;
        let explained = served.get("/explain/192.0.2.2").await.json()["decision"].as_str().unwrap().to_owned();
        assert_eq!(batch["answers"][1]["denied"], false);
        let checked = served.get("/check/192.0.2.2").await;
        match unconfirmed {
            Unconfirmed::Refuse => {
                assert_eq!((got.status, got.problem().as_str()), (503, "source-down"));
                assert_eq!((checked.status, checked.problem().as_str()), (503, "source-down"));
                assert_eq!((&batch["answers"][0]["denied"], alone.status), (&json!(null), 503));
                assert!(explained.starts_with("refused: 503"), "{explained}");
            }
            Unconfirmed::Allow => {
                assert_eq!(got.outcome(), (204, Some("allowed-unconfirmed")));
                assert_eq!(checked.outcome(), (204, Some("allowed-unconfirmed")));
                assert_eq!(batch["answers"][0]["outcome"], "allowed-unconfirmed");
                assert!(batch["answers"][0]["denied"] == false && !batch["answers"][0]["error"].is_null(), "{batch}");
                assert_eq!(alone.json()["answers"][0]["outcome"], "allowed-unconfirmed");
                assert!(explained.starts_with("allowed-unconfirmed: 204"), "{explained}");
                assert_eq!(served.get("/stats").await.json()["deny"]["allowed-unconfirmed"], 4);
            }
        }
        bans.comes_back();
        served.is("192.0.2.2", 403, "denied").await;
        served.stop().await;
    }
}

#[tokio::test]
async fn before_the_source_was_ever_reached_nothing_can_be_confirmed() {
    for unconfirmed in [Unconfirmed::Refuse, Unconfirmed::Allow] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let http = http::Options::default();
        let waiting = GateService::waiting(options(unconfirmed), http.traffic.clone());
        let serving = tokio::spawn(http::serve(listener, waiting, http, std::future::pending()));
        let ask = async |method: &str, path: &str| {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            Got::read(&answer)
        };
        let expected = match unconfirmed {
            Unconfirmed::Refuse => (503, Some("refused")),
            Unconfirmed::Allow => (204, Some("allowed-unconfirmed")),
        };
        assert_eq!(ask("GET", "/v1/bans/192.0.2.1").await.outcome(), expected);
        assert_eq!(ask("HEAD", "/v1/bans/192.0.2.1").await.outcome(), expected);
        assert_eq!(ask("GET", "/check/192.0.2.1").await.outcome(), expected);
        assert_eq!(ask("DELETE", "/v1/bans/192.0.2.1").await.status, 503);
        assert_eq!(ask("GET", "/v1/other/192.0.2.1").await.status, 400);
        serving.abort();
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

/// What is known of a key from the requests that were answered and those under way.
#[derive(Clone, Copy, Default)]
struct Known {
    banned: bool,
    free: bool,
    changes: u64,
}

/// Bans, pardons, lookups and rebuilds at once, through the real service on a real file. What must hold is judged by the
/// order in which requests began and ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_is_denied_who_is_free_and_nobody_who_is_banned_gets_in() {
    const KEYS: u64 = 24;
    let bans = Bans::new();
    // Where many pass the filter, both phases have work to do.
    let gate = bans.gate(|builder| {
        let cache = Arc::new(LocalCache::new(1 << 20).unwrap());
        builder.rate(0.3).cache(cache).negatives(1000, Duration::from_millis(50)).audit_share(0.2).rebuild_every(None)
    });
    gate.start();
    gate.rebuild().await.unwrap();
    let served = Arc::new(Served::start(gate, options(Unconfirmed::Refuse)).await);
    let name = |number: u64| format!("203.0.113.{number}");
    let free = Known { banned: false, free: true, changes: 0 };
    let known: Arc<Mutex<HashMap<u64, Known>>> = Arc::new(Mutex::new((0..KEYS).map(|key| (key, free)).collect()));
    let turns: Arc<Vec<tokio::sync::Mutex<()>>> = Arc::new((0..KEYS).map(|_| Default::default()).collect());
    let seen: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
    let change = |known: &Mutex<HashMap<u64, Known>>, key: u64, change: fn(&mut Known)| {
        let mut known = known.lock().unwrap();
        let known = known.get_mut(&key).unwrap();
        change(known);
        known.changes += 1;
    };
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let (served, known, turns, seen) = (served.clone(), known.clone(), turns.clone(), seen.clone());
            let mut random = Random(77 + task);
            tokio::spawn(async move {
                for _ in 0..250 {
                    let number = random.below(KEYS);
                    let path = format!("/v1/bans/{}", name(number));
                    match random.below(100) {
                        0..60 => {
                            let before = known.lock().unwrap()[&number];
                            let (status, outcome) = match random.below(4) {
                                0 => {
                                    let asked = json!([name(random.below(KEYS)), name(number)]).to_string();
                                    let got = served.ask("POST", "/v1/bans:batch", "", &asked).await.json();
                                    let answer = &got["answers"][1];
                                    let status = if answer["denied"].as_bool().unwrap() { 403 } else { 204 };
                                    (status, answer["outcome"].as_str().unwrap().to_owned())
                                }
                                1 => {
                                    let got = served.get(&format!("/check/{}", name(number))).await;
                                    (got.status, got.header("bloomgate-outcome").unwrap_or_default().to_owned())
                                }
                                _ => served.of(&name(number)).await,
                            };
                            let after = known.lock().unwrap()[&number];
                            if before.changes == after.changes {
                                assert!(!before.banned || status == 403, "{} is banned: {outcome}", name(number));
                                assert!(!before.free || status == 204, "{} is free: {outcome}", name(number));
                            }
                            *seen.lock().unwrap().entry(outcome).or_default() += 1;
                        }
                        60..78 => {
                            let _turn = turns[number as usize].lock().await;
                            change(&known, number, |known| known.free = false);
                            let put = served.ask("PUT", &path, "", r#"{"why":"test"}"#).await;
                            assert_eq!(put.status, 204, "{put:?}");
                            change(&known, number, |known| known.banned = true);
                        }
                        78..95 => {
                            let _turn = turns[number as usize].lock().await;
                            change(&known, number, |known| known.banned = false);
                            let deleted = served.ask("DELETE", &path, "", "").await;
                            assert!(matches!(deleted.status, 204 | 404), "{deleted:?}");
                            change(&known, number, |known| known.free = true);
                        }
                        _ => _ = served.ask("POST", "/rebuild?wait=true&accept-fewer=true", "", "").await,
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    // A test that never meets what it is about proves nothing.
    let seen = seen.lock().unwrap().clone();
    for outcome in ["allowed-by-filter", "allowed", "denied"] {
        assert!(seen.get(outcome).is_some_and(|&times| times > 50), "{outcome}: {seen:?}");
    }
    let stats = served.gate.stats();
    assert!(stats.audit.wrong == 0 && stats.rebuild.done > 10, "{stats:?}");
    served.gate.stop().await;
}

/// One reading of a key cannot be confirmed and passes; another one is a ban that the gate remembers.
#[tokio::test]
async fn what_cannot_be_confirmed_does_not_hide_a_ban_of_another_reading() {
    let bans = Bans::new();
    let gate = bans.gate(|builder| builder.cache(Arc::new(LocalCache::new(1 << 20).unwrap())));
    gate.rebuild().await.unwrap();
    // Pardoned, so that the filter lets them through: they have to be confirmed, as they are written and as they are decoded.
    for number in 0..20 {
        for address in ["192.0.2.7", "198.51.100.7"] {
            for spelled in [";", "%3B"] {
                let pardoned = gate.parse_key(&format!("{address}{spelled}{number}")).unwrap();
                gate.put(pardoned.clone(), "{}".into()).await.unwrap();
                assert!(gate.delete(&pardoned).await.unwrap());
            }
        }
    }
    let served = Served::start(gate, options(Unconfirmed::Allow)).await;
    served.is("192.0.2.7", 403, "denied").await;
    bans.goes_down();
    served.is("192.0.2.7", 403, "denied").await;
    for number in 0..20 {
        // What is behind a proxy may read it with the parameter, or without.
        let got = served.get(&format!("/check/192.0.2.7%3B{number}")).await;
        assert_eq!(got.outcome(), (403, Some("denied")), "{number}");
        // Without a ban among them it passes, as it is told to.
        let got = served.get(&format!("/check/198.51.100.7%3B{number}")).await;
        assert_eq!(got.outcome(), (204, Some("allowed-unconfirmed")), "{number}");
    }
    bans.comes_back();
    served.stop().await;
}
