//! Filters behind our own server, which is flushed, restarted, held up, and renames while everybody asks and adds.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use bloomgate_gate::ErrorKind;
use bloomgate_gate::breaker::BreakerState;
use bloomgate_gate::filters::resp::{Remote, RespFilters};
use bloomgate_server::Settings;
use futures_util::FutureExt;

use crate::filter_server::{FilterServer, Relay};
use crate::redis_server::RedisServer;
use crate::waiting::until;

/// Long enough for a busy machine.
const DEADLINE: Duration = Duration::from_secs(5);
/// For calls that are meant to be late.
const SHORT: Duration = Duration::from_millis(400);

async fn filters(server: &FilterServer) -> RespFilters {
    RespFilters::connect(&server.url(), "users", DEADLINE).await.unwrap()
}

/// A published filter with `key0` to `key99`.
async fn published(filters: &RespFilters, version: u64) -> Remote {
    let filter = filters.create(version, 1_000, 0.001).await.unwrap();
    add(&filter, 0..100).await;
    filter.publish().await.unwrap();
    assert_eq!(missing(&filter, 0..100).await, 0);
    filter
}

async fn add(filter: &Remote, numbers: std::ops::Range<usize>) {
    let keys: Vec<String> = numbers.map(|number| format!("key{number}")).collect();
    filter.add(&bytes(&keys)).await.unwrap();
}

async fn missing(filter: &Remote, numbers: std::ops::Range<usize>) -> usize {
    let keys: Vec<String> = numbers.map(|number| format!("key{number}")).collect();
    let answers = filter.ask(&bytes(&keys)).await.unwrap();
    assert_eq!(answers.len(), keys.len());
    answers.iter().filter(|&&is_there| !is_there).count()
}

fn bytes(keys: &[String]) -> Vec<&[u8]> {
    keys.iter().map(String::as_bytes).collect()
}

async fn assert_lost(filter: &Remote) {
    let error = filter.ask(&[b"key1"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Filter);
    assert!(error.to_string().contains("is lost"), "{error}");
    assert!(filter.is_lost());
}

#[tokio::test]
async fn keys_are_found_under_both_names_in_both_versions_of_the_protocol() {
    let server = FilterServer::start();
    for version in ["resp2", "resp3"] {
        let url = format!("{}?protocol={version}", server.url());
        let filters = RespFilters::connect(&url, version, DEADLINE).await.unwrap();
        let filter = filters.create(1, 50_000, 0.01).await.unwrap();
        assert_eq!(filter.version(), 1);
        // More than one pipeline, and keys of any bytes.
        let mut keys: Vec<Vec<u8>> = (0..20_000u32).map(|number| number.to_le_bytes().to_vec()).collect();
        keys.extend([vec![], vec![0], b"\r\n$5\r\n".to_vec(), vec![0xff; 4096], (0..=255).collect()]);
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        filter.add(&keys).await.unwrap();
        assert!(filter.ask(&keys).await.unwrap().into_iter().all(|is_there| is_there));
        filter.publish().await.unwrap();
        filter.publish().await.unwrap();
        assert!(filter.ask(&keys).await.unwrap().into_iter().all(|is_there| is_there));
        // In their order: every second one is there, but for about one in a hundred.
        let mixed: Vec<Vec<u8>> =
            (0..20_000u32).map(|number| (number | (number & 1) << 30).to_le_bytes().to_vec()).collect();
        let mixed: Vec<&[u8]> = mixed.iter().map(Vec::as_slice).collect();
        let answers = filter.ask(&mixed).await.unwrap();
        let found = |odd: usize| answers.iter().skip(odd).step_by(2).filter(|&&is_there| is_there).count();
        assert_eq!(found(0), 10_000);
        assert!(found(1) < 145, "{} of 10,000 at 1 % (4.5 standard deviations)", found(1));
        let info = filter.info().await.unwrap();
        assert!(info.capacity >= 50_000 && info.bytes > 50_000 && info.stages == 1, "{info:?}");
        assert!((19_700..=20_005).contains(&info.items), "{info:?}");
        assert!(filter.ask(&[]).await.unwrap().is_empty());
        let names: Vec<String> = redis::cmd("KEYS").arg(format!("{version}*")).query(&mut server.client()).unwrap();
        assert_eq!(names, [version], "no temporary name is left");
        let ends: i64 = redis::cmd("PTTL").arg(version).query(&mut server.client()).unwrap();
        assert_eq!(ends, -1, "what is published does not end");
    }
}

#[tokio::test]
async fn what_is_wrong_is_refused_before_it_is_sent() {
    let server = FilterServer::start();
    let filters = filters(&server).await;
    for (capacity, rate) in [(0, 0.01), (10, 0.0), (10, 1.0), (10, f64::NAN), (10, -1.0)] {
        assert_eq!(filters.create(1, capacity, rate).await.err().unwrap().kind(), ErrorKind::Invalid);
    }
    let filter = filters.create(1, 10, 0.01).await.unwrap();
    let long = [0; 4097];
    assert_eq!(filter.add(&[b"a", &long]).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(filter.ask(&[&long]).await.unwrap_err().kind(), ErrorKind::Invalid);
    for wrong in ["", &"n".repeat(257)] {
        assert_eq!(RespFilters::unconnected(&server.url(), wrong, DEADLINE).err().unwrap().kind(), ErrorKind::Invalid);
    }
    let redis = RedisServer::start();
    let error = RespFilters::connect(&redis.url("", ""), "users", DEADLINE).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("bloomgate serve"), "{error}");
    let error = RespFilters::connect("redis://:s3cret@127.0.0.1:1", "users", DEADLINE).await.err().unwrap();
    assert!(!error.to_string().contains("s3cret"), "{error}");
}

#[tokio::test]
async fn more_keys_than_it_was_made_for_are_taken() {
    let server = FilterServer::start();
    let filter = filters(&server).await.create(1, 100, 0.01).await.unwrap();
    add(&filter, 0..5_000).await;
    assert_eq!(missing(&filter, 0..5_000).await, 0);
    assert!(filter.info().await.unwrap().stages > 1);
}

#[tokio::test]
async fn keys_that_a_server_has_no_room_for_are_an_error() {
    let mut settings = Settings::default();
    settings.limits.max_filter_memory = 64 << 10;
    let server = FilterServer::start_with(settings);
    let filters = filters(&server).await;
    let error = filters.create(1, 10_000_000, 0.001).await.err().unwrap();
    assert!(error.kind() == ErrorKind::Filter && error.to_string().contains("refuses"), "{error}");
    let filter = filters.create(1, 1_000, 0.001).await.unwrap();
    let keys: Vec<String> = (0..100_000).map(|number| format!("key{number}")).collect();
    let error = filter.add(&bytes(&keys)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Filter && error.to_string().contains("refuses"), "{error}");
    assert!(!filter.is_lost());
}

#[tokio::test]
async fn a_filter_that_was_flushed_removed_or_overwritten_is_lost() {
    let server = FilterServer::start();
    let filters = filters(&server).await;
    let mut client = server.client();
    let mut send = |command: &str| {
        let mut words = command.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.exec(&mut client).unwrap();
    };
    for commands in [
        &["FLUSHALL"][..],
        &["DEL users"],
        // Somebody else's, with the same keys.
        &["DEL users", "BF.RESERVE users 0.001 1000", "BF.MADD users key1 key2"],
        &["BF.RESERVE others 0.001 1000", "RENAME others users"],
        // Not even a filter of this kind.
        &["DEL users", "CF.RESERVE users 1000"],
    ] {
        let filter = published(&filters, 1).await;
        let unpublished = filters.create(2, 1_000, 0.001).await.unwrap();
        add(&unpublished, 0..100).await;
        commands.iter().for_each(|command| send(command));
        assert_lost(&filter).await;
        assert_lost(&filter).await;
        let error = filter.add(&[b"more"]).await.unwrap_err();
        assert!(error.to_string().contains("is lost"), "{error}");
        if commands == ["FLUSHALL"] {
            let error = unpublished.publish().await.unwrap_err();
            assert!(error.to_string().contains("no such key"), "{error}");
            assert_lost(&unpublished).await;
        } else {
            assert_eq!(missing(&unpublished, 0..100).await, 0, "the other one is where it was");
            unpublished.discard().await;
            assert_lost(&unpublished).await;
        }
        send("FLUSHALL");
    }
}

#[tokio::test]
async fn an_add_alone_notices_that_the_filter_is_lost() {
    let server = FilterServer::start();
    let filters = filters(&server).await;
    let filter = published(&filters, 1).await;
    // The next one is gone, and the one before is still under the base name: keys must not go there unnoticed.
    let next = filters.create(2, 1_000, 0.001).await.unwrap();
    let names: Vec<String> = redis::cmd("KEYS").arg("users:next:*").query(&mut server.client()).unwrap();
    assert_eq!(names.len(), 1);
    redis::cmd("DEL").arg(&names).exec(&mut server.client()).unwrap();
    assert!(next.add(&[b"more"]).await.unwrap_err().to_string().contains("is lost") && next.is_lost());
    assert_eq!(missing(&filter, 0..100).await, 0);
}

#[tokio::test]
async fn the_filter_before_is_answered_for_by_the_one_that_took_its_name() {
    let server = FilterServer::start();
    let filters = filters(&server).await;
    let first = published(&filters, 1).await;
    let second = filters.create(2, 1_000, 0.001).await.unwrap();
    add(&second, 0..200).await;
    assert_eq!(missing(&first, 0..100).await, 0);
    second.publish().await.unwrap();
    assert_eq!(missing(&first, 0..200).await, 0, "whoever still holds the first asks the second");
    add(&first, 200..300).await;
    assert_eq!(missing(&second, 0..300).await, 0, "and adds to it");
    let third = published(&filters, 3).await;
    assert_eq!((missing(&first, 0..100).await, missing(&second, 0..100).await), (0, 0));
    drop(third);
    assert_lost(&first).await;
}

#[tokio::test]
async fn a_filter_that_an_add_failed_on_answers_for_no_other() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "users", DEADLINE).await.unwrap();
    let first = published(&filters, 1).await;
    // Before it is published, by an error or by a caller that goes away: then it never is.
    for version in [2, 3] {
        let next = filters.create(version, 1_000, 0.001).await.unwrap();
        add(&next, 0..100).await;
        if version == 2 {
            next.add(&[&[0; 4097]]).await.unwrap_err();
        } else {
            relay.hold();
            assert!(Box::pin(next.add(&[b"given up"])).now_or_never().is_none());
            relay.go_on();
        }
        assert!(next.publish().await.unwrap_err().to_string().contains("an add failed"));
        next.discard().await;
        assert_eq!(missing(&first, 0..100).await, 0);
    }
    // After it has taken the name, and before everybody asks it: the first is lost rather than answered for.
    let second = filters.create(4, 1_000, 0.001).await.unwrap();
    add(&second, 0..100).await;
    second.publish().await.unwrap();
    assert_eq!(missing(&first, 0..100).await, 0);
    second.add(&[&[0; 4097]]).await.unwrap_err();
    assert_lost(&first).await;
    assert_eq!(missing(&second, 0..100).await, 0);
}

#[tokio::test]
async fn a_restarted_server_has_lost_it_though_it_kept_its_filters() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = FilterServer::keeping(folder.path(), 0);
    let filters = filters(&server).await;
    let filter = published(&filters, 1).await;
    server.stop();
    until("the server is out of reach", async || filter.ask(&[b"key1"]).await.is_err()).await;
    assert!(!filter.is_lost(), "out of reach is not lost");
    let server = FilterServer::keeping(folder.path(), server.address.port());
    let there: bool = redis::cmd("BF.EXISTS").arg("users").arg("key1").query(&mut server.client()).unwrap();
    assert!(there);
    until("the server is reached again", async || {
        assert!(filter.ask(&[b"key1"]).await.is_err(), "not one answer");
        filter.is_lost()
    })
    .await;
    // A new one is made in the server as it is now.
    until("a new one is made", async || filters.create(2, 1_000, 0.001).await.is_ok()).await;
    published(&filters, 3).await;
}

#[tokio::test]
async fn a_restart_behind_a_proxy_that_keeps_connections_is_noticed_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = FilterServer::keeping(folder.path(), 0);
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "users", DEADLINE).await.unwrap();
    let filter = published(&filters, 1).await;
    server.stop();
    let server = FilterServer::keeping(folder.path(), 0);
    relay.lead_to(server.address);
    let before = filters.breaker();
    until("it is lost", async || filter.ask(&[b"key1"]).await.is_err()).await;
    assert_lost(&filter).await;
    assert_eq!(filters.breaker(), before, "no connection broke");
}

#[tokio::test]
async fn a_server_that_does_not_answer_costs_a_deadline_and_then_nothing() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "users", SHORT).await.unwrap();
    let filter = filters.create(1, 1_000, 0.001).await.unwrap();
    filter.add(&[b"key1"]).await.unwrap();
    filter.publish().await.unwrap();
    relay.hold();
    let began = Instant::now();
    for _ in 0..5 {
        let error = filter.ask(&[b"key1"]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Filter);
        assert!(error.to_string().contains("did not answer within"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "five deadlines of 0.4 s");
    assert_eq!(filters.breaker().state, BreakerState::Open);
    for _ in 0..1_000 {
        filter.ask(&[b"key1"]).await.unwrap_err();
    }
    assert!(filters.breaker().refused > 900, "{:?}", filters.breaker());
    relay.go_on();
    until("it answers again", async || filter.ask(&[b"key1"]).await.is_ok()).await;
    assert_eq!(filter.ask(&[b"key1"]).await.unwrap(), [true]);
    assert_eq!((filters.breaker().state, filter.is_lost()), (BreakerState::Closed, false));
}

#[tokio::test]
async fn a_connection_that_leads_nowhere_is_given_up_for_a_new_one() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "users", SHORT).await.unwrap();
    let filter = filters.create(1, 1_000, 0.001).await.unwrap();
    filter.add(&[b"key1"]).await.unwrap();
    relay.strand();
    assert!(filter.ask(&[b"key1"]).await.unwrap_err().to_string().contains("did not answer within"));
    until("a new connection is made", async || filter.ask(&[b"key1"]).await.is_ok()).await;
    assert_eq!(filter.ask(&[b"key1"]).await.unwrap(), [true]);
    assert!(filters.breaker().opened >= 1 && !filter.is_lost());
}

#[tokio::test]
async fn a_renaming_that_happens_after_it_was_given_up_is_no_answer_of_the_filter_before() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "users", DEADLINE).await.unwrap();
    let first = published(&filters, 1).await;
    let second = filters.create(2, 1_000, 0.001).await.unwrap();
    add(&second, 0..100).await;
    relay.hold();
    let mut publish = Box::pin(second.publish());
    assert!((&mut publish).now_or_never().is_none());
    // It is on its way before its caller leaves.
    tokio::time::timeout(Duration::from_millis(100), &mut publish).await.unwrap_err();
    drop(publish);
    relay.go_on();
    let count = || redis::cmd("DBSIZE").query::<u64>(&mut server.client()).unwrap();
    until("it is renamed", async || count() == 1).await;
    // The second has had none of the keys that were added to the first since: it does not speak for it.
    assert_lost(&first).await;
    assert_eq!(missing(&second, 0..100).await, 0, "for itself it does");
    second.publish().await.unwrap();
    assert_eq!(missing(&second, 0..100).await, 0);
}

/// What a gate has: the filter that is asked, and the one that is being built.
struct Gate {
    filters: RwLock<(Remote, Option<Remote>)>,
    /// Held for reading by each write until it is acknowledged.
    tickets: tokio::sync::RwLock<()>,
    acknowledged: Mutex<Vec<usize>>,
    asked: AtomicUsize,
    is_over: AtomicBool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_ever_missing_while_filters_are_renamed_under_those_who_ask_and_add() {
    let server = FilterServer::start();
    let filters = filters(&server).await;
    let first = filters.create(0, 1_000, 0.001).await.unwrap();
    first.publish().await.unwrap();
    let gate = Arc::new(Gate {
        filters: RwLock::new((first, None)),
        tickets: tokio::sync::RwLock::new(()),
        acknowledged: Mutex::default(),
        asked: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let mut tasks = tokio::task::JoinSet::new();
    for writer in 0..2 {
        let gate = gate.clone();
        tasks.spawn(async move {
            for number in (writer..).step_by(2) {
                if gate.is_over.load(Ordering::Acquire) {
                    return;
                }
                let ticket = gate.tickets.read().await;
                let (current, next) = gate.filters.read().unwrap().clone();
                add(&current, number..number + 1).await;
                if let Some(next) = next {
                    add(&next, number..number + 1).await;
                }
                gate.acknowledged.lock().unwrap().push(number);
                drop(ticket);
            }
        });
    }
    for reader in 0..3usize {
        let gate = gate.clone();
        tasks.spawn(async move {
            let mut random = reader as u64 + 1;
            while !gate.is_over.load(Ordering::Acquire) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let number = {
                    let acknowledged = gate.acknowledged.lock().unwrap();
                    let place = (random >> 33) as usize % acknowledged.len().max(1);
                    // Half of them are of the last few.
                    let place =
                        if random >> 63 == 0 { place } else { acknowledged.len().saturating_sub(1 + place % 8) };
                    acknowledged.get(place).copied()
                };
                let Some(number) = number else {
                    tokio::task::yield_now().await;
                    continue;
                };
                let current = gate.filters.read().unwrap().0.clone();
                assert_eq!(missing(&current, number..number + 1).await, 0, "key{number}");
                gate.asked.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    for version in 1..=40 {
        let next = filters.create(version, 10_000, 0.001).await.unwrap();
        gate.filters.write().unwrap().1 = Some(next.clone());
        // Every write that does not know of it has ended.
        drop(gate.tickets.write().await);
        let keys: Vec<String> = gate.acknowledged.lock().unwrap().iter().map(|number| format!("key{number}")).collect();
        next.add(&bytes(&keys)).await.unwrap();
        next.publish().await.unwrap();
        *gate.filters.write().unwrap() = (next, None);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.is_over.store(true, Ordering::Release);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let (current, _) = gate.filters.read().unwrap().clone();
    let numbers = gate.acknowledged.lock().unwrap().clone();
    let keys: Vec<String> = numbers.iter().map(|number| format!("key{number}")).collect();
    assert!(current.ask(&bytes(&keys)).await.unwrap().into_iter().all(|is_there| is_there));
    assert!(keys.len() > 100 && gate.asked.load(Ordering::Relaxed) > 100, "{} keys", keys.len());
    let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.client()).unwrap();
    assert_eq!(names, ["users"]);
}
