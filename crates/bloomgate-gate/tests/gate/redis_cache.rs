//! Rows in a real redis-server that is held, killed, restarted and wrong.

use std::time::{Duration, Instant};

use bloomgate_gate::breaker::BreakerState;
use bloomgate_gate::caches::{Cache, RedisCache};
use bloomgate_gate::{ErrorKind, Key};
use bytes::Bytes;
use futures_util::FutureExt;
use redis::Commands;

use crate::redis_server::RedisServer;
use crate::waiting::until;

const HOUR: Duration = Duration::from_secs(3600);
/// Long enough for a busy machine: a server that answers is never late in these tests.
const DEADLINE: Duration = Duration::from_secs(2);
/// For calls that are meant to be late.
const SHORT: Duration = Duration::from_millis(400);

async fn cache(server: &RedisServer, deadline: Duration) -> RedisCache {
    RedisCache::connect(&server.url("", ""), "rows", deadline).await.unwrap()
}

#[tokio::test]
async fn rows_with_any_bytes_are_stored_found_and_forgotten() {
    let server = RedisServer::start();
    let cache = cache(&server, DEADLINE).await;
    let all_bytes: Vec<u8> = (0..=255).collect();
    let keys = [
        Key::from_canonical(*b""),
        Key::from_canonical(*b"\r\n\0 \xff"),
        Key::from_canonical(all_bytes.clone()),
        Key::from(-1),
        Key::from("\u{e9}"),
    ];
    for (number, key) in keys.iter().enumerate() {
        let row = Bytes::from([&[number as u8], &all_bytes[..]].concat());
        cache.store(key, row, HOUR).await.unwrap();
    }
    for (number, key) in keys.iter().enumerate() {
        let row = cache.get(key).await.unwrap().unwrap();
        assert_eq!((row[0], &row[1..]), (number as u8, &all_bytes[..]));
    }
    cache.forget(&keys[1]).await.unwrap();
    cache.store(&keys[2], "replaced".into(), HOUR).await.unwrap();
    cache.store(&keys[3], "empty time".into(), Duration::ZERO).await.unwrap();
    let found = cache.get_many(&keys).await.unwrap();
    let found: Vec<bool> = found.iter().map(Option::is_some).collect();
    assert_eq!(found, [true, false, true, false, true]);
    assert_eq!(cache.get(&keys[2]).await.unwrap(), Some("replaced".into()));
    // More than one command's worth, in their order.
    let many: Vec<Key> = (0..2_500).map(Key::from).collect();
    for key in many.iter().step_by(7) {
        cache.store(key, Bytes::copy_from_slice(key.canonical()), HOUR).await.unwrap();
    }
    let rows = cache.get_many(&many).await.unwrap();
    for (number, (key, row)) in many.iter().zip(&rows).enumerate() {
        assert_eq!(row.as_deref(), (number % 7 == 0).then_some(key.canonical()));
    }
    assert!(cache.get_many(&[]).await.unwrap().is_empty());
    assert_eq!(cache.times_left_behind(), 0);
}

#[tokio::test]
async fn rows_end_by_their_time_in_the_server() {
    let server = RedisServer::start();
    let cache = cache(&server, DEADLINE).await;
    let (short, long) = (Key::from("short"), Key::from("long"));
    cache.store(&long, "1".into(), HOUR).await.unwrap();
    cache.store(&short, "1".into(), Duration::from_millis(1)).await.unwrap();
    until("the row ends", async || cache.get(&short).await.unwrap().is_none()).await;
    assert_eq!(cache.get(&long).await.unwrap(), Some("1".into()));
    let mut client = server.client("", 0);
    let names: Vec<Vec<u8>> = client.keys("rows:*").unwrap();
    assert_eq!(names.len(), 1);
    let left: i64 = client.pttl(&names[0]).unwrap();
    assert!((1..=3_600_000).contains(&left), "{left}");
}

#[tokio::test]
async fn a_former_process_and_another_one_are_not_trusted() {
    let server = RedisServer::start();
    let key = Key::from("k");
    let former = cache(&server, DEADLINE).await;
    former.store(&key, "old".into(), HOUR).await.unwrap();
    let present = cache(&server, DEADLINE).await;
    assert_eq!(present.get(&key).await.unwrap(), None);
    assert_eq!(former.get(&key).await.unwrap(), Some("old".into()));
}

#[tokio::test]
async fn a_row_that_arrives_late_is_never_found() {
    let server = RedisServer::start();
    let cache = cache(&server, SHORT).await;
    let key = Key::from("k");
    server.hold();
    let error = cache.store(&key, "late".into(), HOUR).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cache);
    assert_eq!(cache.times_left_behind(), 1);
    server.go_on();
    let mut client = server.client("", 0);
    until("the row arrives", async || redis::cmd("DBSIZE").query::<u64>(&mut client).unwrap() == 1).await;
    until("the server answers", async || cache.get(&key).await.is_ok()).await;
    assert_eq!(cache.get(&key).await.unwrap(), None, "it is there, under a name that nobody asks for");
    // A forget that is late leaves nothing to be found either.
    until("it is stored", async || cache.store(&key, "new".into(), HOUR).await.is_ok()).await;
    assert_eq!(cache.get(&key).await.unwrap(), Some("new".into()));
    server.hold();
    cache.forget(&key).await.unwrap_err();
    server.go_on();
    until("the server answers", async || cache.get(&key).await.is_ok()).await;
    assert_eq!(cache.get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_store_whose_caller_goes_away_leaves_everything_behind() {
    let server = RedisServer::start();
    let cache = cache(&server, Duration::from_secs(600)).await;
    let key = Key::from("k");
    cache.store(&key, "old".into(), HOUR).await.unwrap();
    server.hold();
    let mut store = cache.store(&key, "new".into(), HOUR);
    assert!((&mut store).now_or_never().is_none());
    assert_eq!(cache.times_left_behind(), 0);
    drop(store);
    assert_eq!(cache.times_left_behind(), 1);
    server.go_on();
    assert_eq!(cache.get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_asked_before_leaving_behind_is_not_found_after_it() {
    let server = RedisServer::start();
    let cache = cache(&server, DEADLINE).await;
    let key = Key::from("k");
    cache.store(&key, "old".into(), HOUR).await.unwrap();
    server.hold();
    let mut get = cache.get(&key);
    assert!((&mut get).now_or_never().is_none());
    cache.leave_behind().await.unwrap();
    server.go_on();
    assert_eq!(get.await.unwrap(), None);
    assert_eq!(cache.get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_held_server_costs_a_deadline_and_then_nothing_until_it_is_back() {
    let server = RedisServer::start();
    let cache = cache(&server, SHORT).await;
    let key = Key::from("k");
    cache.store(&key, "1".into(), HOUR).await.unwrap();
    server.hold();
    let began = Instant::now();
    for _ in 0..5 {
        let error = cache.get(&key).await.unwrap_err();
        assert!(error.to_string().contains("did not answer within 400ms"), "{error}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "five deadlines of 0.4 s");
    let counts = cache.breaker();
    assert_eq!((counts.state, counts.opened, counts.timed_out), (BreakerState::Open, 1, 5));
    // Nobody waits any more but one probe now and then.
    for _ in 0..1_000 {
        cache.get(&key).await.unwrap_err();
    }
    assert!(cache.breaker().refused > 900, "{:?}", cache.breaker());
    server.go_on();
    until("the server is back", async || cache.get(&key).await.is_ok()).await;
    assert_eq!(cache.breaker().state, BreakerState::Closed);
    assert_eq!(cache.get(&key).await.unwrap(), Some("1".into()), "nothing was changed meanwhile");
}

#[tokio::test]
async fn a_restarted_server_is_reached_again_and_its_old_rows_are_not() {
    let mut server = RedisServer::start();
    let cache = cache(&server, DEADLINE).await;
    let key = Key::from("k");
    cache.store(&key, "old".into(), HOUR).await.unwrap();
    redis::cmd("SAVE").exec(&mut server.client("", 0)).unwrap();
    cache.store(&key, "new".into(), HOUR).await.unwrap();
    server.kill();
    while cache.breaker().state != BreakerState::Open {
        assert_eq!(cache.get(&key).await.unwrap_err().kind(), ErrorKind::Cache);
    }
    server.start_again();
    let names: Vec<Vec<u8>> = server.client("", 0).keys("*").unwrap();
    let row: String = server.client("", 0).get(&names[0]).unwrap();
    assert_eq!(row, "old", "the server came back with what it had saved");
    let mut found = Err(());
    until("the server is back", async || {
        found = cache.get(&key).await.map_err(drop);
        found.is_ok()
    })
    .await;
    assert_eq!(found, Ok(None), "the old row is not found, not even once");
    cache.store(&key, "newer".into(), HOUR).await.unwrap();
    assert_eq!(cache.get(&key).await.unwrap(), Some("newer".into()));
    // A restart that nobody notices while it happens.
    redis::cmd("SAVE").exec(&mut server.client("", 0)).unwrap();
    server.kill();
    server.start_again();
    assert_eq!(cache.get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_server_that_takes_over_the_rows_of_another_is_left_behind() {
    let start = || RedisServer::start_with(&["--repl-diskless-sync-delay", "0"]);
    let (server, other) = (start(), start());
    let follow = |follower: &RedisServer, host: &str, port: &str| {
        redis::cmd("REPLICAOF").arg(host).arg(port).exec(&mut follower.client("", 0)).unwrap();
    };
    let row = |server: &RedisServer| -> Option<String> {
        let mut client = server.client("", 0);
        let names: Vec<Vec<u8>> = client.keys("*").unwrap_or_default();
        names.first().and_then(|name| client.get(name).ok())
    };
    let cache = cache(&server, DEADLINE).await;
    let key = Key::from("k");
    cache.store(&key, "old".into(), HOUR).await.unwrap();
    follow(&other, "127.0.0.1", &server.port().to_string());
    until("the other one has the row", async || row(&other).as_deref() == Some("old")).await;
    follow(&other, "NO", "ONE");
    cache.store(&key, "new".into(), HOUR).await.unwrap();
    assert_eq!((row(&server).unwrap(), row(&other).unwrap()), ("new".to_owned(), "old".to_owned()));
    // That another one followed this one for a while takes nothing away. The run is asked for every two seconds.
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    assert_eq!(cache.get(&key).await.unwrap(), Some("new".into()));
    assert_eq!(cache.times_left_behind(), 0);
    follow(&server, "127.0.0.1", &other.port().to_string());
    until("the old row is back", async || row(&server).as_deref() == Some("old")).await;
    follow(&server, "NO", "ONE");
    until("everything is left behind", async || {
        let _ = cache.get(&key).await;
        cache.times_left_behind() > 0
    })
    .await;
    assert_eq!(cache.get(&key).await.unwrap(), None);
}

#[tokio::test]
async fn a_connection_that_broke_unused_is_made_anew() {
    let server = RedisServer::start();
    let cache = cache(&server, DEADLINE).await;
    let key = Key::from("k");
    cache.store(&key, "1".into(), HOUR).await.unwrap();
    let mut client = server.client("", 0);
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut client).unwrap();
    assert_eq!(cache.get(&key).await.unwrap(), Some("1".into()));
    // A change on such a connection is not repeated: nobody knows whether the first one is under way.
    redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(&mut client).unwrap();
    cache.store(&key, "2".into(), HOUR).await.unwrap_err();
    assert_eq!(cache.get(&key).await.unwrap(), None);
    cache.store(&key, "3".into(), HOUR).await.unwrap();
    assert_eq!(cache.get(&key).await.unwrap(), Some("3".into()));
}

#[tokio::test]
async fn a_full_server_keeps_no_old_row() {
    let server = RedisServer::start();
    let cache = cache(&server, DEADLINE).await;
    let (key, other) = (Key::from("k"), Key::from("other"));
    cache.store(&key, "old".into(), HOUR).await.unwrap();
    cache.store(&other, "1".into(), HOUR).await.unwrap();
    let mut client = server.client("", 0);
    redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").exec(&mut client).unwrap();
    let error = cache.store(&key, "new".into(), HOUR).await.unwrap_err();
    assert!(error.to_string().contains("OOM"), "{error}");
    assert_eq!(cache.get(&key).await.unwrap(), None);
    assert_eq!(cache.get(&other).await.unwrap(), Some("1".into()), "the others stay");
}

#[tokio::test]
async fn passwords_and_databases_are_used_and_not_shown() {
    let server = RedisServer::start_with(&["--requirepass", "s3cret"]);
    let key = Key::from("k");
    let cache = RedisCache::connect(&server.url(":s3cret@", "/3"), "rows", DEADLINE).await.unwrap();
    cache.store(&key, "1".into(), HOUR).await.unwrap();
    assert!(cache.describe().ends_with("/3, names rows:*") && !cache.describe().contains("s3cret"));
    let count = |database| redis::cmd("DBSIZE").query::<u64>(&mut server.client(":s3cret@", database)).unwrap();
    assert_eq!((count(0), count(3)), (0, 1));
    for wrong in [":wr0ng@", ""] {
        let error = RedisCache::connect(&server.url(wrong, ""), "rows", DEADLINE).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Cache);
        assert!(!error.to_string().contains("wr0ng"), "{error}");
    }
    let error = RedisCache::connect("redis://:s3cret@127.0.0.1:1", "rows", DEADLINE).await.err().unwrap();
    assert!(error.to_string().contains("127.0.0.1:1 is out of reach") && !error.to_string().contains("s3cret"));
    assert_eq!(RedisCache::unconnected("redis://h", "", DEADLINE).err().unwrap().kind(), ErrorKind::Invalid);
    assert_eq!(RedisCache::unconnected("rediss://h", "rows", DEADLINE).err().unwrap().kind(), ErrorKind::Unsupported);
}
