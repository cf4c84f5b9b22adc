//! What `/metrics`, `/stats` and `/alerts` tell of parts that are down, and of how long lookups take.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use bloomgate_gate::caches::RedisCache;
use bloomgate_gate::filters::resp::RespFilters;
use bloomgate_gate::service::Options;
use bloomgate_gate::{Event, Gate, Key, Outcome, Part, Policy, Writers};

use crate::filter_server::{FilterServer, Relay};
use crate::memory_source::MemorySource;
use crate::redis_server::RedisServer;
use crate::service::Served;
use crate::waiting::until;

fn source() -> Arc<MemorySource> {
    MemorySource::with((0..1000).map(|number| format!("key-{number}")))
}

fn products() -> Options {
    Options { table: "products".to_owned(), ..Options::default() }
}

/// The value of a series in `/metrics`.
async fn series(served: &Served, name: &str) -> Option<f64> {
    let metrics = served.get("/metrics").await.body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned))?;
    Some(line.parse().unwrap())
}

async fn is_up(served: &Served, part: &str) -> Option<bool> {
    let told = series(served, &format!("bloomgate_gate_part_up{{part=\"{part}\"}}")).await?;
    assert!(told == 0.0 || told == 1.0);
    let stats = served.get("/stats").await.json();
    assert_eq!(stats["parts"][part].as_bool(), Some(told == 1.0), "the two agree: {stats}");
    Some(told == 1.0)
}

#[tokio::test]
async fn a_source_that_is_down_is_told_until_it_answers_again() {
    let source = source();
    let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let heard = told.clone();
    let listen = move |event| match event {
        Event::Lost { part: Part::Source, .. } => heard.lock().unwrap().push("lost".to_owned()),
        Event::Regained { part: Part::Source } => heard.lock().unwrap().push("regained".to_owned()),
        _ => {}
    };
    let gate =
        Gate::builder(source.clone()).writers(Writers::Sole).rebuild_every(None).on_event(listen).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, products()).await;
    let get = async || served.get("/v1/products/key-7").await.status;
    assert_eq!((get().await, is_up(&served, "source").await), (200, Some(true)));
    assert_eq!((is_up(&served, "cache").await, is_up(&served, "filter").await), (None, Some(true)));
    for round in 1..=2 {
        source.is_down.store(true, SeqCst);
        assert_eq!((get().await, get().await), (503, 503));
        assert_eq!((is_up(&served, "source").await, is_up(&served, "filter").await), (Some(false), Some(true)));
        source.is_down.store(false, SeqCst);
        assert_eq!((get().await, is_up(&served, "source").await), (200, Some(true)));
        assert_eq!(*told.lock().unwrap(), ["lost", "regained"].repeat(round));
    }
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_that_is_down_is_told_until_it_answers_again() {
    let redis = RedisServer::start();
    let relay = Relay::start(([127, 0, 0, 1], redis.port()).into()).await;
    let cache = RedisCache::connect(&relay.url(), "rows", Duration::from_millis(300)).await.unwrap();
    let builder = Gate::builder(source()).writers(Writers::Sole).rebuild_every(None);
    let gate = builder.cache(Arc::new(cache)).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, products()).await;
    let get = async || served.get("/v1/products/key-7").await.status;
    assert_eq!((get().await, is_up(&served, "cache").await), (200, Some(true)));
    relay.hold();
    assert_eq!((get().await, is_up(&served, "cache").await), (200, Some(false)));
    assert_eq!(is_up(&served, "source").await, Some(true));
    relay.go_on();
    until("the cache is back", async || get().await == 200 && is_up(&served, "cache").await == Some(true)).await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_is_down_is_told_until_it_answers_again() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "gate", Duration::from_millis(300)).await.unwrap();
    let builder = Gate::builder(source()).writers(Writers::Sole).rebuild_every(None).negatives(0, Duration::ZERO);
    let gate = builder.remote_filter(filters).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, products()).await;
    let get = async || served.get("/v1/products/absent").await.outcome().1.map(str::to_owned);
    assert_eq!((get().await.as_deref(), is_up(&served, "filter").await), (Some("absent-by-filter"), Some(true)));
    relay.hold();
    assert_eq!((get().await.as_deref(), is_up(&served, "filter").await), (Some("bypass"), Some(false)));
    relay.go_on();
    until("the filter is back", async || {
        get().await.as_deref() == Some("absent-by-filter") && is_up(&served, "filter").await == Some(true)
    })
    .await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_policy_closed_a_filter_that_is_down_is_a_503_and_never_a_404() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let filters = RespFilters::connect(&relay.url(), "gate", Duration::from_millis(300)).await.unwrap();
    let builder = Gate::builder(source()).writers(Writers::Sole).rebuild_every(None).policy(Policy::Closed);
    let gate = builder.remote_filter(filters).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate, products()).await;
    assert_eq!(served.get("/v1/products/absent").await.status, 404);
    relay.hold();
    for key in ["absent", "key-7", "absent"] {
        let refused = served.get(&format!("/v1/products/{key}")).await;
        assert_eq!((refused.outcome(), refused.problem().as_str()), ((503, Some("refused")), "not-ready"), "{key}");
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
    assert_eq!(served.get("/check/absent").await.status, 503);
    until("it is out of rotation", async || {
        served.get("/v1/products/absent").await.status == 503 && served.get("/readyz").await.status == 503
    })
    .await;
    relay.go_on();
    until("the filter is back", async || served.get("/v1/products/absent").await.status == 404).await;
    assert_eq!((served.get("/v1/products/key-7").await.status, served.get("/readyz").await.status), (200, 200));
    served.stop().await;
}

#[tokio::test]
async fn a_filter_server_that_was_never_there_is_down() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let filters = RespFilters::unconnected(&format!("redis://{nobody}"), "gate", Duration::from_millis(300)).unwrap();
    let builder = Gate::builder(source()).writers(Writers::Sole).rebuild_every(None);
    let gate = builder.remote_filter(filters).build().unwrap();
    assert!(gate.rebuild().await.is_err());
    let served = Served::start(gate, products()).await;
    assert_eq!((is_up(&served, "filter").await, is_up(&served, "source").await), (Some(false), Some(true)));
    served.stop().await;
}

/// How many of an outcome took no longer than a bound, as `/metrics` tells it.
async fn within(served: &Served, outcome: &str, bound: &str) -> f64 {
    let name = format!("bloomgate_gate_lookup_duration_seconds_bucket{{outcome=\"{outcome}\",le=\"{bound}\"}}");
    series(served, &name).await.unwrap_or_else(|| panic!("{name} is not told"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_source_moves_the_buckets_of_what_waited_for_it() {
    let source = source();
    let gate = Gate::builder(source.clone()).writers(Writers::Sole).rebuild_every(None).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate.clone(), products()).await;
    // Bounds of the histogram: 2^25 and 2^35 ns.
    const SHORT: &str = "0.033554432";
    const LONG: &str = "34.359738368";
    assert_eq!(within(&served, "source", "+Inf").await, 0.0);
    let held = source.hold.write().await;
    let begun = Instant::now();
    let slow = tokio::spawn({
        let gate = gate.clone();
        async move { gate.get(&Key::from("key-7")).await.unwrap().outcome }
    });
    until("the read has begun", async || source.crowds[0].now() == 1).await;
    let least = Duration::from_millis(60);
    tokio::time::sleep(least).await;
    drop(held);
    assert_eq!(slow.await.unwrap(), Outcome::Source);
    let most = begun.elapsed();
    assert_eq!((within(&served, "source", SHORT).await, within(&served, "source", LONG).await), (0.0, 1.0));
    for name in ["lookup_duration_seconds_sum{outcome=\"source\"}", "source_duration_seconds_sum"] {
        let sum = series(&served, &format!("bloomgate_gate_{name}")).await.unwrap();
        assert!(sum >= least.as_secs_f64() && sum <= most.as_secs_f64(), "{name}: {sum}, {least:?} to {most:?}");
    }
    let short = format!("bloomgate_gate_source_duration_seconds_bucket{{le=\"{SHORT}\"}}");
    assert_eq!(series(&served, &short).await, Some(0.0));
    assert_eq!(series(&served, "bloomgate_gate_source_duration_seconds_count").await, Some(1.0));
    let took = served.get("/stats").await.json()["times"].clone();
    assert_eq!((took["source"]["count"].as_u64(), took["cache"].is_null()), (Some(1), true), "{took}");
    for kind in ["source", "at-source"] {
        assert!(took[kind]["p50_us"].as_f64().unwrap() >= 33_554.0, "{took}");
        assert!(took[kind]["p99_us"].as_f64().unwrap() <= most.as_secs_f64() * 2e6, "{took}");
    }
    // One that fails is timed too, and where no answer ended.
    source.is_down.store(true, SeqCst);
    assert!(gate.get(&Key::from("key-8")).await.is_err());
    assert_eq!((within(&served, "failed", "+Inf").await, within(&served, "source", "+Inf").await), (1.0, 1.0));
    assert_eq!(series(&served, "bloomgate_gate_source_duration_seconds_count").await, Some(2.0));
    served.stop().await;
}

#[tokio::test]
async fn every_no_is_timed_by_one_in_64_and_every_key_of_a_batch() {
    let gate = Gate::builder(source()).writers(Writers::Sole).rebuild_every(None).audit_share(0.0).build().unwrap();
    gate.rebuild().await.unwrap();
    let mut stopped = 0;
    for number in 0..64_000 {
        stopped += u64::from(gate.look(&Key::from(format!("absent-{number}").as_str())).is_some());
    }
    let timed = |gate: &Gate| gate.stats().times.absent_by_filter.map_or(0, |took| took.count);
    // Those that pass at one in a thousand are drawn as often as others, and are timed when they have passed.
    let (least, most) = (stopped - 64 * 20, stopped + 64 * 20);
    assert!((least..=most).contains(&timed(&gate)), "{} of {stopped}", timed(&gate));
    assert!(gate.stats().times.absent_by_filter.unwrap().p50_us < 1e6);
    let before = timed(&gate);
    let keys: Vec<Key> = (0..100).map(|number| Key::from(format!("more-{number}").as_str())).collect();
    let answers = gate.get_many(&keys).await.unwrap();
    let stopped = answers.iter().filter(|answer| answer.outcome == Outcome::AbsentByFilter).count() as u64;
    assert_eq!(timed(&gate) - before, stopped);
}

#[tokio::test]
async fn rates_are_told_as_the_stats_have_them() {
    let gate = Gate::builder(source()).writers(Writers::Sole).rate(0.05).headroom(1.0).least_keys(1);
    let gate = gate.rebuild_every(None).negatives(0, Duration::ZERO).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate.clone(), products()).await;
    for missing in ["observed_ratio", "interval_ratio{bound=\"low\"}", "interval_ratio{bound=\"high\"}"] {
        assert_eq!(series(&served, &format!("bloomgate_gate_false_positive_{missing}")).await, None, "{missing}");
    }
    let keys: Vec<Key> = (0..5_000).map(|number| Key::from(format!("absent-{number}").as_str())).collect();
    gate.get_many(&keys).await.unwrap();
    let stats = served.get("/stats").await.json();
    let (filter, interval) = (&stats["filter"], &stats["measured"]["interval"]);
    for (name, told) in [
        ("estimated_ratio", &filter["estimated_rate"]),
        ("observed_ratio", &filter["observed_rate"]),
        ("interval_ratio{bound=\"low\"}", &interval[0]),
        ("interval_ratio{bound=\"high\"}", &interval[1]),
    ] {
        let metric = series(&served, &format!("bloomgate_gate_false_positive_{name}")).await.unwrap();
        assert!((metric - told.as_f64().unwrap()).abs() < 1e-9 && metric > 0.005 && metric < 0.1, "{name}: {metric}");
    }
    served.stop().await;
}

/// Nobody tells what came of a `/check` that passed: its "no" alone would make the measured rate too low.
#[tokio::test]
async fn what_a_check_is_told_changes_no_measured_rate() {
    let gate = Gate::builder(source()).writers(Writers::Sole).rate(0.05).headroom(1.0).least_keys(1);
    let gate = gate.rebuild_every(None).negatives(0, Duration::ZERO).audit_share(0.0).build().unwrap();
    gate.rebuild().await.unwrap();
    let served = Served::start(gate.clone(), products()).await;
    let keys: Vec<Key> = (0..5_000).map(|number| Key::from(format!("absent-{number}").as_str())).collect();
    gate.get_many(&keys).await.unwrap();
    let told = async || {
        let stats = served.get("/stats").await.json();
        let observed = stats["filter"]["observed_rate"].clone();
        let asked = series(&served, "bloomgate_gate_absent_lookups_total").await.unwrap();
        let stopped = series(&served, "bloomgate_gate_lookups_total{outcome=\"absent-by-filter\"}").await.unwrap();
        ((stats["measured"].clone(), observed, asked), stopped, stats["lookups"]["absent-by-check"].clone())
    };
    let (measured, stopped, checked) = told().await;
    assert_eq!((measured.2, checked), (5_000.0, 0.into()));
    let (mut no, mut maybe) = (0, 0);
    for number in 0..3_000 {
        match served.get(&format!("/check/absent-{number}")).await.outcome() {
            (403, Some("absent-by-filter")) => no += 1,
            (204, Some("maybe")) => maybe += 1,
            other => panic!("{number}: {other:?}"),
        }
    }
    assert!(no > 2_000 && maybe > 0, "{no} stopped, {maybe} passed");
    assert_eq!(told().await, (measured, stopped + f64::from(no), no.into()), "stopped all the same");
    served.stop().await;
}
