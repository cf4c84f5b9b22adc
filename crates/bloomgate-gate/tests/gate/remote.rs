//! A gate whose filter is behind the Redis protocol: the same answers, and none that waits for a filter that is gone.

use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::filters::resp::RespFilters;
use bloomgate_gate::{ErrorKind, Gate, Key, Outcome, Policy, Reason, State, Writers};

use crate::filter_server::{FilterServer, Relay};
use crate::memory_source::{MemorySource, row_of};

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key-{number}"))
}

async fn gate(source: &Arc<MemorySource>, url: &str, policy: Policy) -> Gate {
    let filters = RespFilters::connect(url, "gate", Duration::from_millis(500)).await.unwrap();
    Gate::builder(source.clone())
        .writers(Writers::Sole)
        .policy(policy)
        .rate(0.01)
        .remote_filter(filters)
        .build()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_with_a_remote_filter_answers_as_one_with_its_own() {
    let server = FilterServer::start();
    let source = MemorySource::with(names(3000));
    let gate = gate(&source, &server.url(), Policy::Open).await;
    gate.rebuild().await.unwrap();
    let before = source.reads();
    let absent: Vec<Key> = (0..1000).map(|number| Key::from(format!("absent-{number}").as_str())).collect();
    let answers = gate.get_many(&absent).await.unwrap();
    let blocked = answers.iter().filter(|answer| answer.outcome == Outcome::AbsentByFilter).count();
    assert!(blocked >= 970 && source.reads() - before == 1000 - blocked as u64, "{blocked} of 1000");
    for number in (0..3000).step_by(100) {
        assert!(gate.get(&Key::from(format!("key-{number}").as_str())).await.unwrap().row.is_some());
    }
    // Writes and rebuilds at once: what was answered is found.
    let rebuilding = tokio::spawn({
        let gate = gate.clone();
        async move {
            for _ in 0..5 {
                gate.rebuild().await.unwrap();
            }
        }
    });
    for number in 0..300 {
        let key = Key::from(format!("new-{number}").as_str());
        gate.put(key.clone(), row_of("new")).await.unwrap();
        assert!(gate.get(&key).await.unwrap().row.is_some(), "{number}");
    }
    rebuilding.await.unwrap();
    let stats = gate.stats();
    assert_eq!((stats.filter.unwrap().place, stats.state), ("remote", "ready"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_that_does_not_answer_is_a_maybe_and_one_that_is_lost_is_rebuilt() {
    let server = FilterServer::start();
    let address = server.url().trim_start_matches("redis://").trim_end_matches('/').parse().unwrap();
    let relay = Relay::start(address).await;
    let source = MemorySource::with(names(1000));
    let gate = gate(&source, &relay.url(), Policy::Open).await;
    gate.start();
    let is_ready = async |least: u64| {
        for _ in 0..2000 {
            if matches!(gate.state(), State::Ready { version, .. } if version >= least) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not ready: {:?}", gate.stats());
    };
    is_ready(1).await;
    let absent = Key::from("absent");
    assert_eq!(gate.get(&absent).await.unwrap().outcome, Outcome::AbsentByFilter);
    // Slow: nobody is told no, and nobody waits for long.
    relay.hold();
    for _ in 0..20 {
        let answer = tokio::time::timeout(Duration::from_secs(5), gate.get(&absent)).await.unwrap().unwrap();
        assert!(matches!(answer.outcome, Outcome::Bypass | Outcome::NegativeCached), "{answer:?}");
    }
    let stats = gate.brief_stats();
    assert!(stats.at_source.filter_errors > 0);
    assert_eq!((gate.state().name(), stats.state, stats.blocking), ("ready", "degraded", false));
    // A write that the filter could not take: not trusted until it is rebuilt.
    gate.put(Key::from("meanwhile"), row_of("meanwhile")).await.unwrap();
    assert_eq!(gate.state(), State::Stale);
    assert!(gate.get(&Key::from("meanwhile")).await.unwrap().row.is_some());
    relay.go_on();
    is_ready(2).await;
    assert!(gate.get(&Key::from("meanwhile")).await.unwrap().row.is_some());
    // Flushed by somebody: its zeros are no answers.
    let version = gate.stats().filter.unwrap().version;
    redis::cmd("FLUSHALL").exec(&mut server.client()).unwrap();
    let found = gate.get(&Key::from("key-1")).await.unwrap();
    assert!(found.row.is_some(), "{found:?}");
    is_ready(version + 1).await;
    assert!(gate.stats().rebuild.history.iter().any(|past| past.reason == bloomgate_gate::Reason::Lost));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_policy_closed_a_filter_that_does_not_answer_refuses_and_never_says_no() {
    let server = FilterServer::start();
    let relay = Relay::start(server.address).await;
    let source = MemorySource::with(names(1000));
    let gate = gate(&source, &relay.url(), Policy::Closed).await;
    gate.rebuild().await.unwrap();
    let (absent, there) = (Key::from("absent"), Key::from("key-7"));
    assert_eq!(gate.get(&absent).await.unwrap().outcome, Outcome::AbsentByFilter);
    assert!(gate.get(&there).await.unwrap().row.is_some());
    let reads = source.reads();
    relay.hold();
    for _ in 0..20 {
        for key in [&absent, &there] {
            let refused = tokio::time::timeout(Duration::from_secs(5), gate.get(key)).await.unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::NotReady, "{refused}");
        }
    }
    let refused = gate.get_each(&[absent.clone(), there.clone()]).await.unwrap();
    assert!(refused.iter().all(|one| one.as_ref().unwrap_err().kind() == ErrorKind::NotReady), "{refused:?}");
    assert_eq!(source.reads(), reads, "the source is spared");
    let stats = gate.brief_stats();
    assert_eq!((stats.state, stats.lookups.refused_closed), ("degraded", 42));
    relay.go_on();
    let mut answered = gate.get(&absent).await;
    for _ in 0..2000 {
        if answered.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        answered = gate.get(&absent).await;
    }
    assert_eq!(answered.unwrap().outcome, Outcome::AbsentByFilter);
    assert!(gate.get(&there).await.unwrap().row.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_remote_filter_that_lets_twice_as_many_through_is_rebuilt_once_that_is_sure() {
    let server = FilterServer::start();
    let source = MemorySource::with(names(3000));
    let filters = RespFilters::connect(&server.url(), "gate", Duration::from_secs(5)).await.unwrap();
    let gate = Gate::builder(source.clone())
        .writers(Writers::Sole)
        .rate(0.05)
        .headroom(1.0)
        .least_keys(1)
        .negatives(0, Duration::ZERO)
        .audit_share(0.0)
        .remote_filter(filters)
        .build()
        .unwrap();
    gate.start();
    let wait = async |what: &dyn Fn(&Gate) -> bool| {
        for _ in 0..2000 {
            if what(&gate) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it did not happen: {:?}", gate.stats());
    };
    wait(&|gate| matches!(gate.state(), State::Ready { version: 1, .. })).await;
    assert_eq!(gate.stats().filter.unwrap().observed_rate, None);
    let absent: Vec<Key> = (0..5000).map(|number| Key::from(format!("absent-{number}").as_str())).collect();
    let answers = gate.get_many(&absent).await.unwrap();
    let passed: Vec<Key> = std::iter::zip(&absent, &answers)
        .filter(|(_, answer)| answer.outcome != Outcome::AbsentByFilter)
        .map(|(key, _)| key.clone())
        .collect();
    let observed = gate.stats().filter.unwrap().observed_rate.unwrap();
    assert!(observed > 0.001 && observed < 0.1 && observed == passed.len() as f64 / 5000.0, "{observed}");
    // As it was promised: there is nothing to mend. Looked at every second.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let reasons = |gate: &Gate| gate.stats().rebuild.history.iter().map(|past| past.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&gate), [Reason::NotReady]);
    // Traffic that it lets through far more often than promised, whyever.
    while gate.stats().filter.is_some_and(|filter| filter.version == 1 && filter.observed_rate.unwrap() < 0.15) {
        gate.get_many(&passed).await.unwrap();
    }
    wait(&|gate| matches!(gate.state(), State::Ready { version: 2, .. })).await;
    assert_eq!(reasons(&gate), [Reason::NotReady, Reason::Rate]);
}
