//! A gate whose rows are kept in a real redis-server, which expires, slows down, dies and comes back with what it had saved: what
//! the gate answers is what the source has.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bloomgate_gate::caches::RedisCache;
use bloomgate_gate::{Gate, Key, Outcome, Writers};

use crate::memory_source::{MemorySource, row_of};
use crate::redis_server::RedisServer;
use crate::waiting::until;

const HOUR: Duration = Duration::from_secs(3600);

async fn gate(source: &Arc<MemorySource>, server: &RedisServer, deadline: Duration, keep: Duration) -> Gate {
    let cache = RedisCache::connect(&server.url("", ""), "rows", deadline).await.unwrap();
    let gate = Gate::builder(source.clone())
        .writers(Writers::Sole)
        .cache(Arc::new(cache))
        .rows_for(keep)
        .negatives(1000, Duration::from_secs(60))
        .rebuild_every(None)
        .build()
        .unwrap();
    gate.rebuild().await.unwrap();
    gate
}

fn source() -> Arc<MemorySource> {
    MemorySource::with((0..100).map(|number| format!("key-{number}")))
}

fn key(number: usize) -> Key {
    Key::from(format!("key-{number}").as_str())
}

/// The row of a lookup, as text, and where it ended.
async fn get(gate: &Gate, key: &Key) -> (Option<String>, Outcome) {
    let answer = gate.get(key).await.unwrap();
    (answer.row.map(|row| String::from_utf8(row.to_vec()).unwrap()), answer.outcome)
}

fn old(number: usize) -> Option<String> {
    Some(String::from_utf8(row_of(&format!("key-{number}")).to_vec()).unwrap())
}

#[tokio::test]
async fn rows_are_cached_in_redis_replaced_by_writes_and_gone_with_deletes() {
    let (server, source) = (RedisServer::start(), source());
    let gate = gate(&source, &server, Duration::from_secs(2), HOUR).await;
    let before = source.reads();
    assert_eq!(get(&gate, &key(1)).await, (old(1), Outcome::Source));
    until("the row is cached", async || get(&gate, &key(1)).await.1 == Outcome::Cache).await;
    let reads = source.reads();
    for _ in 0..50 {
        assert_eq!(get(&gate, &key(1)).await, (old(1), Outcome::Cache));
    }
    assert!(source.reads() == reads && reads > before);
    // A write is found at once, a deleted row is not.
    for round in 0..20 {
        gate.put(key(1), format!("row {round}").into()).await.unwrap();
        assert_eq!(get(&gate, &key(1)).await.0, Some(format!("row {round}")));
        assert!(gate.delete(&key(1)).await.unwrap());
        assert_eq!(get(&gate, &key(1)).await.0, None);
    }
    let many: Vec<Key> = (0..10).map(key).collect();
    gate.put_many((0..5).map(|number| (key(number), "new".into())).collect()).await.unwrap();
    let rows: Vec<Option<String>> = gate
        .get_many(&many)
        .await
        .unwrap()
        .into_iter()
        .map(|answer| answer.row.map(|row| String::from_utf8(row.to_vec()).unwrap()))
        .collect();
    let expected: Vec<Option<String>> =
        (0..10).map(|number| if number < 5 { Some("new".to_owned()) } else { old(number) }).collect();
    assert_eq!(rows, expected);
    let stats = gate.stats();
    assert!(stats.cache.unwrap().contains("rows:*"), "{:?}", gate.stats());
    assert_eq!(stats.at_source.cache_errors, 0);
}

#[tokio::test]
async fn rows_end_by_their_time_and_are_read_again() {
    let (server, source) = (RedisServer::start(), source());
    let gate = gate(&source, &server, Duration::from_secs(2), Duration::from_millis(300)).await;
    // Changed behind the gate's back: seen when the cached row has ended, and not before a read.
    until("the row is cached", async || get(&gate, &key(1)).await.1 == Outcome::Cache).await;
    source.rows.lock().unwrap().insert(b"key-1".to_vec(), "another".into());
    until("the row ends", async || get(&gate, &key(1)).await.0.as_deref() == Some("another")).await;
    until("the new one is cached", async || get(&gate, &key(1)).await == (Some("another".into()), Outcome::Cache))
        .await;
}

#[tokio::test]
async fn a_cache_that_dies_and_comes_back_with_old_rows_costs_reads_and_no_wrong_answer() {
    let (mut server, source) = (RedisServer::start(), source());
    let gate = gate(&source, &server, Duration::from_secs(2), HOUR).await;
    for number in 0..10 {
        until("the row is cached", async || get(&gate, &key(number)).await.1 == Outcome::Cache).await;
    }
    redis::cmd("SAVE").exec(&mut server.client("", 0)).unwrap();
    server.kill();
    // Without it: the source answers, a "no" costs nothing, writes go on.
    assert_eq!(get(&gate, &key(0)).await, (old(0), Outcome::Source));
    gate.put(key(1), "written while it was down".into()).await.unwrap();
    assert!(gate.delete(&key(2)).await.unwrap());
    assert_eq!(get(&gate, &key(1)).await.0.as_deref(), Some("written while it was down"));
    assert_eq!(get(&gate, &key(2)).await.0, None);
    let reads = source.reads();
    assert_eq!(get(&gate, &Key::from("absent")).await, (None, Outcome::AbsentByFilter));
    assert_eq!(source.reads(), reads);
    assert!(gate.stats().at_source.cache_errors > 0);
    // It is back with the rows of before: not one of them is told.
    server.start_again();
    until("it is used again", async || {
        assert_eq!(get(&gate, &key(1)).await.0.as_deref(), Some("written while it was down"));
        assert_eq!(get(&gate, &key(2)).await.0, None);
        get(&gate, &key(3)).await == (old(3), Outcome::Cache)
    })
    .await;
}

#[tokio::test]
async fn a_cache_that_answers_no_more_slows_nobody_for_long_and_its_late_rows_are_not_found() {
    let (server, source) = (RedisServer::start(), source());
    let gate = gate(&source, &server, Duration::from_millis(200), HOUR).await;
    until("the row is cached", async || get(&gate, &key(1)).await.1 == Outcome::Cache).await;
    server.hold();
    gate.put(key(1), "new".into()).await.unwrap();
    let begun = Instant::now();
    for number in 0..300 {
        assert_eq!(get(&gate, &key(3 + number % 90)).await.0, old(3 + number % 90));
    }
    // A few deadlines of 0.2 s, until the breaker is open; 300 of them would be a minute.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(get(&gate, &key(1)).await.0.as_deref(), Some("new"));
    server.go_on();
    until("it is used again", async || {
        assert_eq!(get(&gate, &key(1)).await.0.as_deref(), Some("new"));
        get(&gate, &key(50)).await.1 == Outcome::Cache
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_are_told_the_truth_while_the_cache_is_killed_and_restarted_under_them() {
    let (mut server, source) = (RedisServer::start(), source());
    let gate = gate(&source, &server, Duration::from_millis(500), Duration::from_millis(200)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    // Each has keys of its own, and knows what they are.
    let workers: Vec<_> = (0..4usize)
        .map(|worker| {
            let (gate, is_over) = (gate.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut known: HashMap<usize, Option<String>> =
                    (0..20).map(|number| (number, old(worker * 20 + number))).collect();
                let (mut round, mut cached) = (0usize, 0);
                while !is_over.load(SeqCst) {
                    let number = (round * 7) % 20;
                    let key = key(worker * 20 + number);
                    match round % 5 {
                        3 => {
                            let row = format!("{worker} {round}");
                            gate.put(key.clone(), row.clone().into()).await.unwrap();
                            known.insert(number, Some(row));
                        }
                        4 if round % 3 == 0 => {
                            let was = gate.delete(&key).await.unwrap();
                            assert_eq!(was, known.insert(number, None).flatten().is_some());
                        }
                        _ => {
                            let got = get(&gate, &key).await;
                            assert_eq!(&got.0, &known[&number], "{worker}, round {round}: {:?}", got.1);
                            cached += usize::from(got.1 == Outcome::Cache);
                        }
                    }
                    round += 1;
                }
                (round, cached)
            })
        })
        .collect();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        redis::cmd("SAVE").exec(&mut server.client("", 0)).unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.kill();
        tokio::time::sleep(Duration::from_millis(300)).await;
        server.start_again();
        gate.rebuild().await.unwrap();
    }
    // Until the breaker has let it in again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    is_over.store(true, SeqCst);
    for worker in workers {
        let (rounds, cached) = worker.await.unwrap();
        assert!(rounds > 100 && cached > 0, "{rounds} rounds, {cached} from the cache");
    }
    assert!(gate.stats().at_source.cache_errors > 0);
}
