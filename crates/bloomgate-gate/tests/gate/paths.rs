//! The read and the write path: which outcome, what reaches the source, what policies and failures do.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate::Secret;
use bloomgate_gate::{Builder, ErrorKind, Event, Found, Gate, Key, Outcome, Policy, State, Writers};

use crate::memory_source::{Fate, MemorySource, row_of};

/// Keys that fill the smallest filter, so that it has its full rate of false positives.
const FULL: usize = 10_000;

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key-{number}"))
}

fn builder(source: &Arc<MemorySource>) -> Builder {
    Gate::builder(source.clone()).writers(Writers::Sole).rate(0.01).headroom(1.0)
}

async fn ready(source: &Arc<MemorySource>) -> Gate {
    let gate = builder(source).build().unwrap();
    gate.rebuild().await.unwrap();
    assert!(matches!(gate.state(), State::Ready { version: 1, .. }));
    gate
}

/// An absent key to which the filter says no, and one to which it says maybe.
async fn absent_pair(gate: &Gate) -> (Key, Key) {
    let (mut no, mut maybe) = (None, None);
    for number in 0.. {
        let key = Key::from(format!("absent-{number}").as_str());
        match gate.look(&key) {
            Some(_) => no = Some(key),
            None => maybe = Some(key),
        }
        if let (Some(no), Some(maybe)) = (&no, &maybe) {
            return (no.clone(), maybe.clone());
        }
    }
    unreachable!()
}

#[tokio::test]
async fn each_lookup_names_where_it_ended() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let (no, maybe) = absent_pair(&gate).await;
    let before = source.reads();
    let answer = gate.get(&no).await.unwrap();
    assert_eq!((answer.outcome, answer.row, answer.version), (Outcome::AbsentByFilter, None, 1));
    assert!(answer.watermark.is_some());
    assert_eq!(source.reads(), before, "nothing reached the source");
    assert_eq!(gate.get(&maybe).await.unwrap().outcome, Outcome::NotFound);
    assert_eq!(gate.get(&maybe).await.unwrap().outcome, Outcome::NegativeCached);
    let found = gate.get(&Key::from("key-1")).await.unwrap();
    assert_eq!((found.outcome, found.row), (Outcome::Source, Some(row_of("key-1"))));
    assert_eq!(source.reads(), before + 2, "one for each key that may exist");
}

#[tokio::test]
async fn many_keys_are_one_question_in_their_order() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let (no, maybe) = absent_pair(&gate).await;
    let keys = [Key::from("key-1"), no, maybe.clone(), Key::from("key-2"), Key::from("key-1"), maybe];
    let outcomes: Vec<_> = gate.get_many(&keys).await.unwrap().iter().map(|answer| answer.outcome).collect();
    use Outcome::{AbsentByFilter, NotFound, Source};
    assert_eq!(outcomes, [Source, AbsentByFilter, NotFound, Source, Source, NotFound]);
    let too_many = vec![Key::from("key-1"); bloomgate_gate::MOST_KEYS + 1];
    assert_eq!(gate.get_many(&too_many).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(gate.get_many(&[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_thousand_lookups_of_one_key_read_it_once() {
    let source = MemorySource::with(names(10));
    *source.yields.lock().unwrap() = Some(7);
    let gate = ready(&source).await;
    let before = source.reads();
    let lookups = (0..1000).map(|_| {
        let gate = gate.clone();
        tokio::spawn(async move { gate.get(&Key::from("key-3")).await.unwrap().row })
    });
    for lookup in lookups.collect::<Vec<_>>() {
        assert_eq!(lookup.await.unwrap(), Some(row_of("key-3")));
    }
    assert_eq!(source.reads() - before, 1);
    assert_eq!(gate.stats().lookups.joined, 999);
}

#[tokio::test]
async fn a_lookup_whose_leader_went_away_is_answered() {
    let source = MemorySource::with(names(10));
    *source.yields.lock().unwrap() = Some(3);
    let gate = ready(&source).await;
    let key = Key::from("key-1");
    let mut leader = Box::pin(gate.get(&key));
    assert!(futures_util::poll!(leader.as_mut()).is_pending());
    let follower = tokio::spawn({
        let (gate, key) = (gate.clone(), key.clone());
        async move { gate.get(&key).await.unwrap().row }
    });
    tokio::task::yield_now().await;
    drop(leader);
    assert!(follower.await.unwrap().is_some());
}

#[tokio::test]
async fn without_a_ready_filter_the_policy_decides_and_nobody_is_told_no() {
    let source = MemorySource::with(names(10));
    let absent = Key::from("absent");
    let open = builder(&source).build().unwrap();
    assert_eq!(open.state(), State::Loading);
    let answer = open.get(&absent).await.unwrap();
    assert_eq!((answer.outcome, answer.row, answer.watermark), (Outcome::Bypass, None, None));
    assert!(open.get(&Key::from("key-1")).await.unwrap().row.is_some());

    let closed = builder(&source).policy(Policy::Closed).build().unwrap();
    assert_eq!(closed.get(&Key::from("key-1")).await.unwrap_err().kind(), ErrorKind::NotReady);
    closed.rebuild().await.unwrap();
    assert!(closed.get(&Key::from("key-1")).await.unwrap().row.is_some());
    assert_eq!(closed.stats().lookups.refused_closed, 1);
}

#[tokio::test]
async fn a_watching_gate_never_blocks_and_counts_what_it_would_have() {
    let source = MemorySource::with(names(100));
    let gates = [builder(&source).policy(Policy::Shadow), builder(&source).writers(Writers::Unknown)]
        .map(|b| b.build().unwrap());
    for gate in gates {
        gate.rebuild().await.unwrap();
        let before = source.reads();
        for number in 0..100 {
            let key = Key::from(format!("absent-{number}").as_str());
            assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::Bypass);
            assert!(gate.get(&key).await.unwrap().row.is_none());
        }
        assert_eq!(source.reads() - before, 200, "nothing is remembered either");
        // Somebody else writes.
        source.rows.lock().unwrap().insert(b"absent-1".to_vec(), row_of("absent-1"));
        assert!(gate.get(&Key::from("absent-1")).await.unwrap().row.is_some());
        source.rows.lock().unwrap().remove(&b"absent-1"[..]);
        let stats = gate.stats();
        assert!(stats.shadow.would_block >= 190 && !stats.blocking, "{stats:?}");
        assert_eq!(stats.shadow.would_block_wrongly, 1);
    }
}

#[tokio::test]
async fn a_written_key_is_found_at_once_and_a_deleted_one_is_gone() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let (no, maybe) = absent_pair(&gate).await;
    gate.get(&maybe).await.unwrap();
    for key in [no, maybe] {
        gate.put(key.clone(), row_of("new")).await.unwrap();
        assert_eq!(gate.get(&key).await.unwrap().row, Some(row_of("new")));
        assert!(gate.delete(&key).await.unwrap());
        assert_eq!(gate.get(&key).await.unwrap().row, None);
        assert!(!gate.delete(&key).await.unwrap());
    }
    let stats = gate.stats();
    assert_eq!((stats.writes.puts, stats.writes.deletes), (2, 2));
    assert_eq!(stats.filter.unwrap().removed, 2);
}

#[tokio::test]
async fn a_write_of_unknown_outcome_is_never_told_no() {
    let source = MemorySource::with(names(100));
    let gate = ready(&source).await;
    let key = Key::from("late");
    *source.fate.lock().unwrap() = Fate::LaterUnknown;
    assert_eq!(gate.put(key.clone(), row_of("late")).await.unwrap_err().kind(), ErrorKind::Unknown);
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::NotFound);
    // Not even by a filter that was built before it happened.
    gate.rebuild().await.unwrap();
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::NotFound, "and it was not remembered as absent");
    source.settle();
    assert_eq!(gate.get(&key).await.unwrap().row, Some(row_of("late")));
    assert_eq!((gate.stats().writes.unknown, gate.stats().writes.doubtful), (1, 1));
}

#[tokio::test]
async fn a_source_that_is_down_is_said_to_be_and_a_no_still_stands() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let (no, _) = absent_pair(&gate).await;
    source.is_down.store(true, SeqCst);
    assert_eq!(gate.get(&Key::from("key-1")).await.unwrap_err().kind(), ErrorKind::Source);
    assert_eq!(gate.get(&no).await.unwrap().outcome, Outcome::AbsentByFilter);
    assert!(gate.put(no.clone(), row_of("x")).await.is_err());
    assert!(gate.rebuild().await.is_err());
    source.is_down.store(false, SeqCst);
    assert_eq!(gate.get(&no).await.unwrap().row, None, "it was refused");
    assert!(gate.get(&Key::from("key-1")).await.unwrap().row.is_some());
    assert!(gate.stats().at_source.errors >= 2);
}

#[tokio::test]
async fn replayed_false_positives_reach_the_source_once_each() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let mut positives = Vec::new();
    for number in 0.. {
        let key = Key::from(format!("absent-{number}").as_str());
        if gate.look(&key).is_none() {
            positives.push(key);
        }
        if positives.len() == 100 {
            break;
        }
    }
    let before = source.reads();
    for _ in 0..100 {
        for key in &positives {
            assert!(gate.get(key).await.unwrap().row.is_none());
        }
    }
    assert_eq!(source.reads() - before, 100);
    for key in &positives {
        gate.put(key.clone(), row_of("now")).await.unwrap();
        assert!(gate.get(key).await.unwrap().row.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn replayed_false_positives_reach_the_source_once_in_each_ttl() {
    use tokio::time::{Instant, advance};
    const TTL: Duration = Duration::from_secs(60);
    let source = MemorySource::with(names(FULL));
    let gate = builder(&source).negatives(100_000, TTL).rebuild_every(None).build().unwrap();
    gate.rebuild().await.unwrap();
    let absent = (0..).map(|number| Key::from(format!("absent-{number}").as_str()));
    let positives: Vec<Key> = absent.filter(|key| gate.look(key).is_none()).take(50).collect();
    let mut last_read: Vec<Option<Instant>> = vec![None; positives.len()];
    let mut reads = vec![0; positives.len()];
    // Every seven seconds for six TTLs, each time by two callers at once.
    for round in 0..52 {
        for (at, key) in positives.iter().enumerate() {
            if round == 20 && at % 10 == 0 {
                // Written in the middle of a TTL, while it is remembered as absent: seen at once, and gone at once.
                assert_eq!(gate.get(key).await.unwrap().outcome, Outcome::NegativeCached);
                gate.put(key.clone(), row_of("now")).await.unwrap();
                assert_eq!(gate.get(key).await.unwrap().row, Some(row_of("now")));
                assert!(gate.delete(key).await.unwrap());
                // From here on nothing is remembered of it, until the next read.
                last_read[at] = None;
            }
            let before = source.reads();
            let (one, other) = tokio::join!(gate.get(key), gate.get(key));
            assert!(one.unwrap().row.is_none() && other.unwrap().row.is_none());
            match source.reads() - before {
                0 => {}
                1 => {
                    let since = last_read[at].replace(Instant::now()).map(|last| last.elapsed());
                    assert!(since.is_none_or(|since| since >= TTL), "{key:?} again after {since:?}");
                    reads[at] += 1;
                }
                more => panic!("{more} reads at once"),
            }
        }
        advance(Duration::from_secs(7)).await;
    }
    // Read in the rounds 0, 9, 18, 27, 36 and 45; who was written in the round 20, then and in 29, 38 and 47.
    for (at, &reads) in reads.iter().enumerate() {
        assert_eq!(reads, if at % 10 == 0 { 7 } else { 6 }, "key {at}");
    }
}

#[tokio::test]
async fn an_audit_finds_a_wrong_no_and_the_filter_is_not_trusted_until_rebuilt() {
    let source = MemorySource::with(names(FULL));
    let gate = builder(&source).audit_share(1.0).build().unwrap();
    gate.start();
    while !matches!(gate.state(), State::Ready { .. }) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (no, _) = absent_pair(&gate).await;
    // A writer that does not pass the gate, though it was said that there is none.
    source.rows.lock().unwrap().insert(no.canonical().to_vec(), row_of("secret"));
    assert!(gate.get(&no).await.unwrap().row.is_none(), "this is the wrong no");
    while gate.stats().audit.wrong == 0 || !matches!(gate.state(), State::Ready { version: 2.., .. }) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(gate.get(&no).await.unwrap().row.is_some());
    let stats = gate.stats();
    // The pair was looked for before the writer came, and audited after: that may be the second one.
    assert!((1..=2).contains(&stats.audit.wrong), "{:?}", stats.audit);
    assert_eq!(serde_json::to_value(&stats).unwrap()["rebuild"]["history"][1]["reason"], "wrong-no");
}

#[tokio::test]
async fn a_key_written_after_the_no_is_no_wrong_no() {
    let source = MemorySource::with(names(FULL));
    let gate = builder(&source).audit_share(1.0).build().unwrap();
    gate.rebuild().await.unwrap();
    let mut told = 0;
    for number in 0..200 {
        let key = Key::from(format!("fresh-{number}").as_str());
        told += u32::from(gate.look(&key).is_some());
        gate.put(key, row_of("fresh")).await.unwrap();
    }
    // The audits come only now.
    gate.start();
    let audited = || gate.stats().audit.checked + gate.stats().audit.undecided;
    while audited() < u64::from(told) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(told > 150);
    assert_eq!(gate.stats().audit.wrong, 0);
}

#[tokio::test]
async fn explain_tells_the_whole_decision_and_changes_nothing() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let (no, maybe) = absent_pair(&gate).await;
    let counted = serde_json::to_string(&gate.stats().lookups).unwrap();
    for (key, filter, decision) in
        [(no, "no", "absent-by-filter"), (maybe, "maybe", "not-found"), (Key::from("key-1"), "maybe", "source")]
    {
        let told = gate.explain(&key).await.unwrap();
        assert_eq!((told.filter, told.state, told.version), (filter, "ready", 1));
        assert!(told.decision.starts_with(decision), "{told:?}");
    }
    assert_eq!(serde_json::to_string(&gate.stats().lookups).unwrap(), counted);
}

#[tokio::test]
async fn an_explanation_that_proves_a_no_wrong_is_a_failed_audit() {
    let source = MemorySource::with(names(FULL));
    let (told, listener) = crate::listening::listen();
    let gate = builder(&source).on_event(listener).build().unwrap();
    gate.rebuild().await.unwrap();
    let (no, _) = absent_pair(&gate).await;
    assert_eq!(gate.explain(&no).await.unwrap().source, Found::Absent);
    source.rows.lock().unwrap().insert(no.canonical().to_vec(), row_of("secret"));
    let explained = gate.explain(&no).await.unwrap();
    assert_eq!((explained.filter, &explained.source), ("no, wrongly", &Found::Found));
    assert!(explained.decision.contains("WRONGLY") && !explained.decision.starts_with("absent"), "{explained:?}");
    assert_eq!((gate.state(), gate.stats().audit.wrong), (State::Broken, 1));
    assert!(gate.get(&no).await.unwrap().row.is_some(), "it is found from now on");
    assert!(gate.explain(&no).await.unwrap().decision.starts_with("bypass: 200"));
    let names = |event: &Event| format!("{event:?}").split([' ', '{']).next().unwrap().to_owned();
    assert_eq!(told.all().iter().map(names).collect::<Vec<_>>(), ["Rebuilt", "WrongNo", "NotReady"]);
    gate.rebuild().await.unwrap();
    assert!(gate.get(&no).await.unwrap().row.is_some());
    source.is_down.store(true, SeqCst);
    let down = gate.explain(&Key::from("key-5")).await.unwrap();
    assert!(down.decision.starts_with("refused: 503"), "{down:?}");
    let json = serde_json::to_value(&down).unwrap();
    assert_eq!(json["source"], serde_json::json!({"error": "the source is down"}));
    assert_eq!(serde_json::to_value(Found::Found).unwrap(), "found");
}

/// The scan of a rebuild under way does not have the key any more than the filter in force has.
#[tokio::test]
async fn a_key_that_proves_a_no_wrong_goes_into_the_filter_in_force_and_the_one_being_built() {
    let source = MemorySource::with(names(3000));
    // So seldom wrong that each key is counted.
    let gate = builder(&source).rate(1e-6).secret(Secret::from_bytes([7; 32])).rebuild_every(None).build().unwrap();
    gate.rebuild().await.unwrap();
    let key = Key::from("past the gate");
    assert!(gate.look(&key).is_some());
    *source.yields.lock().unwrap() = Some(7);
    let rebuilding = tokio::spawn({
        let gate = gate.clone();
        async move { gate.rebuild().await }
    });
    while gate.stats().rebuild.running.is_none_or(|running| running.scanned == 0) {
        tokio::task::yield_now().await;
    }
    source.rows.lock().unwrap().insert(key.canonical().to_vec(), row_of("past the gate"));
    assert_eq!(gate.stats().filter.unwrap().items, 3000);
    assert_eq!(gate.explain(&key).await.unwrap().filter, "no, wrongly");
    let filter = gate.stats().filter.unwrap();
    assert_eq!((gate.state(), filter.version, filter.items), (State::Broken, 1, 3001));
    assert!(gate.stats().rebuild.running.is_some(), "it was explained in the middle of the scan");
    let rebuilt = rebuilding.await.unwrap().unwrap();
    assert_eq!(rebuilt.keys, 3000, "the scan began before the row was there");
    assert!(matches!(gate.state(), State::Ready { version: 2, .. }), "{:?}", gate.state());
    assert_eq!(gate.stats().filter.unwrap().items, 3001);
    assert_eq!(gate.get(&key).await.unwrap().outcome, Outcome::Source);
}

#[tokio::test]
async fn keys_that_can_be_answered_are_though_the_source_is_down() {
    let source = MemorySource::with(names(FULL));
    let gate = ready(&source).await;
    let (no, maybe) = absent_pair(&gate).await;
    source.is_down.store(true, SeqCst);
    let keys = [no, maybe, Key::from("key-3")];
    let each = gate.get_each(&keys).await.unwrap();
    assert_eq!(each[0].as_ref().unwrap().outcome, Outcome::AbsentByFilter);
    assert!(each[1..].iter().all(|answer| answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Source)));
    assert_eq!(gate.get_many(&keys).await.unwrap_err().kind(), ErrorKind::Source);
}

#[tokio::test]
async fn the_measured_rate_is_that_of_the_filter_over_absent_keys_alone() {
    let source = MemorySource::with(names(20_000));
    let gate = builder(&source).build().unwrap();
    gate.rebuild().await.unwrap();
    assert_eq!(gate.stats().measured.false_positive_rate, None, "nothing was asked yet");
    for number in 0..30_000 {
        gate.get(&Key::from(format!("key-{}", number % 20_000).as_str())).await.unwrap();
        gate.get(&Key::from(format!("absent-{number}").as_str())).await.unwrap();
    }
    let (stats, expected) = (gate.stats(), gate.stats().filter.unwrap().expected_rate);
    assert_eq!(stats.measured.absent_lookups, 30_000);
    let within = bloomgate::math::estimate::within(stats.measured.false_positives, 30_000, expected, 4.5);
    assert!(within && expected <= 0.0105 && expected > 0.008, "{:?} {expected}", stats.measured);
    assert_eq!(stats.measured.reached_source_rate, stats.measured.false_positive_rate, "each was new");
}
