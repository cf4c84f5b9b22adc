//! Rebuilds: what they refuse, what they keep, when they begin, and the filter over a restart.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate_gate::{Builder, Event, Gate, Key, Outcome, Reason, State, Writers};

use crate::memory_source::{Fate, MemorySource, row_of};

fn names(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key-{number}"))
}

fn builder(source: &Arc<MemorySource>) -> Builder {
    Gate::builder(source.clone()).writers(Writers::Sole).rate(0.01)
}

async fn until(gate: &Gate, what: impl Fn(&Gate) -> bool) {
    for _ in 0..2000 {
        if what(gate) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it did not happen: {:?}", gate.stats());
}

#[tokio::test]
async fn a_rebuild_that_lost_keys_is_refused_and_the_old_filter_stays() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).build().unwrap();
    gate.rebuild().await.unwrap();
    for share in [1, 500, 899] {
        source.scan_share.store(share, SeqCst);
        let refused = gate.rebuild().await.unwrap_err().to_string();
        assert!(refused.contains("1000 were expected") && refused.contains("90 %"), "{refused}");
        assert!(matches!(gate.state(), State::Ready { version: 1, .. }));
        assert!(gate.get(&Key::from("key-999")).await.unwrap().row.is_some());
    }
    source.rows.lock().unwrap().clear();
    assert!(gate.rebuild().await.is_err(), "an empty source is not believed");
    assert_eq!((gate.stats().rebuild.failed, gate.stats().rebuild.failures_in_a_row), (4, 4));
    assert_eq!(gate.stats().rebuild.history.len(), 5);
}

#[tokio::test]
async fn deletes_that_passed_the_gate_are_believed() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).build().unwrap();
    gate.rebuild().await.unwrap();
    for number in 0..500 {
        assert!(gate.delete(&Key::from(format!("key-{number}").as_str())).await.unwrap());
    }
    assert_eq!(gate.rebuild().await.unwrap().keys, 500);
    assert_eq!(gate.get(&Key::from("key-1")).await.unwrap().outcome, Outcome::AbsentByFilter);
}

/// When a filter was built is known after a restart, and rises with a rebuild alone.
#[tokio::test]
async fn a_filter_knows_when_it_was_built() {
    let folder = tempfile::tempdir().unwrap();
    let source = MemorySource::with(names(200));
    let built = |gate: &Gate| gate.brief_stats().filter.unwrap().built_ms;
    let gate = builder(&source).data(folder.path()).build().unwrap();
    gate.rebuild().await.unwrap();
    let first = built(&gate).unwrap();
    assert_eq!(gate.brief_stats().filter.unwrap().watermark_ms, Some(first));
    tokio::time::sleep(Duration::from_millis(5)).await;
    gate.put(Key::from("new"), row_of("new")).await.unwrap();
    gate.stop().await;
    assert_eq!(built(&gate), Some(first));
    drop(gate);
    let gate = builder(&source).data(folder.path()).build().unwrap();
    assert_eq!((gate.state(), built(&gate)), (State::Stale, Some(first)));
    gate.rebuild().await.unwrap();
    assert!(built(&gate).unwrap() > first);
}

#[tokio::test]
async fn deletes_are_believed_after_a_kill_too() {
    let folder = tempfile::tempdir().unwrap();
    let source = MemorySource::with(names(2000));
    let gate = builder(&source).data(folder.path()).build().unwrap();
    gate.rebuild().await.unwrap();
    for number in 0..390 {
        assert!(gate.delete(&Key::from(format!("key-{number}").as_str())).await.unwrap());
    }
    assert!(!gate.delete(&Key::from("key-1")).await.unwrap());
    // Without a stop: nothing is saved at the end.
    drop(gate);
    let gate = builder(&source).data(folder.path()).build().unwrap();
    assert_eq!(gate.state(), State::Stale);
    assert_eq!(gate.rebuild().await.unwrap().keys, 1610);
    drop(gate);
    // What nobody deleted through the gate is not believed after a kill either.
    source.rows.lock().unwrap().retain(|key, _| key.ends_with(b"7"));
    let gate = builder(&source).data(folder.path()).build().unwrap();
    assert!(gate.rebuild().await.is_err());
}

#[tokio::test]
async fn far_fewer_keys_are_accepted_by_who_says_so_and_by_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let source = MemorySource::with(names(1000));
    let (told, listener) = crate::listening::listen();
    let gate = builder(&source).data(folder.path()).on_event(listener).build().unwrap();
    gate.rebuild().await.unwrap();
    let lose_half = |source: &MemorySource| {
        let mut rows = source.rows.lock().unwrap();
        let half = rows.len() / 2;
        let keep: Vec<_> = rows.keys().take(half).cloned().collect();
        rows.retain(|key, _| keep.contains(key));
    };
    lose_half(&source);
    let refused = gate.rebuild().await.unwrap_err().to_string();
    for words in ["500 keys", "1000 were expected", "/rebuild?accept-fewer=true", "--accept-fewer"] {
        assert!(refused.contains(words), "{words}: {refused}");
    }
    assert_eq!(gate.rebuild_accepting_fewer().await.unwrap().keys, 500);
    let fewer = told.all().iter().any(|event| matches!(event, Event::FewerAccepted { before: 1000, now: 500, .. }));
    assert!(fewer, "{:?}", told.all());
    gate.stop().await;
    lose_half(&source);
    let gate = builder(&source).data(folder.path()).build().unwrap();
    assert!(gate.rebuild().await.is_err());
    gate.stop().await;
    let gate = builder(&source).data(folder.path()).accept_fewer(true).build().unwrap();
    assert_eq!(gate.rebuild().await.unwrap().keys, 250);
    lose_half(&source);
    assert!(gate.rebuild().await.is_err(), "for one rebuild, not for all that follow");
}

#[tokio::test]
async fn what_happens_is_told() {
    let source = MemorySource::with(names(1000));
    let (told, listener) = crate::listening::listen();
    let gate = builder(&source).on_event(listener).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { .. })).await;
    until(&gate, |_| told.has(|event| matches!(event, Event::Rebuilt { first_after_ms: Some(_), blocking: true, .. })))
        .await;
    let first = gate.stats().rebuild.ready_after_ms;
    assert!(told.has(|event| matches!(event, Event::Rebuilt { first_after_ms, .. } if *first_after_ms == first)));
    source.is_down.store(true, SeqCst);
    for number in 0..5 {
        assert!(gate.get(&Key::from(format!("key-{number}").as_str())).await.is_err());
    }
    assert!(gate.rebuild().await.is_err());
    source.is_down.store(false, SeqCst);
    assert!(gate.get(&Key::from("key-9")).await.is_ok() && gate.get(&Key::from("key-10")).await.is_ok());
    gate.rebuild().await.unwrap();
    let names: Vec<String> =
        told.all().iter().map(|event| format!("{event:?}").split([' ', '{']).next().unwrap().to_owned()).collect();
    assert_eq!(names, ["Rebuilt", "Lost", "RebuildFailed", "Regained", "Rebuilt"]);
    assert!(told.has(|event| matches!(event, Event::RebuildFailed { still_ready: true, .. })));
}

#[tokio::test]
async fn a_count_that_was_far_too_low_is_made_good() {
    let source = MemorySource::with(names(30_000));
    *source.count_says.lock().unwrap() = Some(10);
    let gate = builder(&source).build().unwrap();
    assert_eq!(gate.rebuild().await.unwrap().keys, 30_000);
    let filter = gate.stats().filter.unwrap();
    assert_eq!(filter.capacity, 45_000);
    assert!(filter.expected_rate <= 0.0105, "{filter:?}");
    let small = builder(&source).filter_bytes(1000).build().unwrap();
    assert!(small.rebuild().await.unwrap_err().to_string().contains("allow more memory"));
}

#[tokio::test]
async fn removals_and_growth_ask_for_a_rebuild() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { .. })).await;
    assert!(gate.stats().rebuild.ready_after_ms.is_some());
    for number in 0..201 {
        gate.delete(&Key::from(format!("key-{number}").as_str())).await.unwrap();
    }
    until(&gate, |gate| matches!(gate.state(), State::Ready { version: 2, .. })).await;
    let rows: Vec<_> =
        (0..10_000).map(|number| (Key::from(format!("more-{number}").as_str()), row_of("more"))).collect();
    gate.put_many(rows).await.unwrap();
    until(&gate, |gate| matches!(gate.state(), State::Ready { version: 3, .. })).await;
    let reasons: Vec<_> = gate.stats().rebuild.history.iter().map(|past| format!("{:?}", past.reason)).collect();
    assert_eq!(reasons, ["NotReady", "Removals", "Capacity"]);
    gate.stop().await;
}

/// More than a fifth of the keys of the scan, and not one sooner. Looked at every second.
#[tokio::test(start_paused = true)]
async fn the_deletion_after_a_fifth_asks_for_a_rebuild_and_none_before() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).rebuild_every(None).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { .. })).await;
    for (number, name) in (1..=201).zip(names(201)) {
        assert!(gate.delete(&Key::from(name.as_str())).await.unwrap());
        if [1, 199, 200, 201].contains(&number) {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let (filter, history) = (gate.stats().filter.unwrap(), gate.stats().rebuild.history);
            let expected = if number > 200 { (2, 0, 2) } else { (1, number, 1) };
            assert_eq!((filter.version, filter.removed, history.len()), expected, "after {number} deletions");
        }
    }
    let reasons: Vec<_> = gate.stats().rebuild.history.iter().map(|past| past.reason).collect();
    assert_eq!(reasons, [Reason::NotReady, Reason::Removals]);
    assert_eq!(gate.stats().filter.unwrap().scanned, 799);
}

#[tokio::test(start_paused = true)]
async fn whoever_adds_keys_that_are_refused_does_not_have_the_source_scanned_all_the_time() {
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { version: 1, .. })).await;
    let flood = async |begin: usize| {
        *source.fate.lock().unwrap() = Fate::Refused;
        let rows = (begin..begin + 10_000).map(|number| (Key::from(format!("x-{number}").as_str()), row_of("x")));
        assert!(gate.put_many(rows.collect()).await.is_err());
    };
    // A rebuild of 20 seconds.
    let slow = source.hold.write().await;
    flood(0).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    drop(slow);
    until(&gate, |gate| matches!(gate.state(), State::Ready { version: 2, .. })).await;
    flood(10_000).await;
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert!(matches!(gate.state(), State::Ready { version: 2, .. }));
    // What somebody asks for is done at once, and what is due later is done then.
    gate.rebuild().await.unwrap();
    flood(20_000).await;
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(matches!(gate.state(), State::Ready { version: 4, .. }), "{:?}", gate.state());
}

#[tokio::test]
async fn a_source_that_comes_back_is_scanned_without_help() {
    let source = MemorySource::with(names(100));
    source.is_down.store(true, SeqCst);
    let gate = builder(&source).build().unwrap();
    gate.start();
    until(&gate, |gate| gate.stats().rebuild.failures_in_a_row > 0).await;
    assert_eq!(gate.state(), State::Loading);
    source.is_down.store(false, SeqCst);
    until(&gate, |gate| matches!(gate.state(), State::Ready { .. })).await;
}

#[tokio::test]
async fn a_schedule_rebuilds_again_and_again() {
    let source = MemorySource::with(names(100));
    let gate = builder(&source).rebuild_every(Some(Duration::from_secs(1))).build().unwrap();
    gate.start();
    until(&gate, |gate| matches!(gate.state(), State::Ready { version: 2.., .. })).await;
    assert!(gate.stats().rebuild.history.iter().any(|past| past.reason == bloomgate_gate::Reason::Schedule));
}

#[tokio::test]
async fn a_saved_filter_starts_warm_and_says_no_only_after_a_scan() {
    let folder = tempfile::tempdir().unwrap();
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).data(folder.path()).build().unwrap();
    gate.rebuild().await.unwrap();
    gate.put(Key::from("later"), row_of("later")).await.unwrap();
    gate.stop().await;
    drop(gate);
    // Somebody writes while the gate is away.
    source.rows.lock().unwrap().insert(b"unseen".to_vec(), row_of("unseen"));
    let gate = builder(&source).data(folder.path()).build().unwrap();
    assert_eq!(gate.state(), State::Stale);
    assert!(gate.get(&Key::from("unseen")).await.unwrap().row.is_some(), "a stale filter says no to nobody");
    assert_eq!(gate.get(&Key::from("absent")).await.unwrap().outcome, Outcome::Bypass);
    assert_eq!(gate.stats().filter.unwrap().items, 1001);
    // What it remembers of before guards the first scan.
    source.scan_share.store(100, SeqCst);
    assert!(gate.rebuild().await.is_err());
    source.scan_share.store(0, SeqCst);
    assert_eq!(gate.rebuild().await.unwrap().version, 3);
    assert_eq!(gate.get(&Key::from("absent")).await.unwrap().outcome, Outcome::AbsentByFilter);
    assert!(gate.get(&Key::from("unseen")).await.unwrap().row.is_some());
}

#[tokio::test]
async fn two_gates_that_both_see_every_write_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let source = MemorySource::with(names(10));
    let first = builder(&source).data(folder.path()).build().unwrap();
    let refused = builder(&source).data(folder.path()).build().unwrap_err().to_string();
    assert!(refused.contains("another gate uses it"), "{refused}");
    first.stop().await;
    builder(&source).data(folder.path()).build().unwrap();
}

#[tokio::test]
async fn a_saved_filter_that_was_damaged_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let source = MemorySource::with(names(1000));
    let gate = builder(&source).data(folder.path()).build().unwrap();
    gate.rebuild().await.unwrap();
    gate.stop().await;
    drop(gate);
    let path = folder.path().join("filter.bloom");
    let whole = std::fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for damaged in [&whole[..whole.len() / 2], &flipped[..], b""] {
        std::fs::write(&path, damaged).unwrap();
        let (told, listener) = crate::listening::listen();
        let gate = builder(&source).data(folder.path()).on_event(listener).build().unwrap();
        assert_eq!(gate.state(), State::Loading);
        let said = told.has(|event| matches!(event, Event::SavedUnusable { why } if why.contains("filter.bloom")));
        assert!(said, "{:?}", told.all());
    }
    std::fs::write(&path, &whole).unwrap();
    std::fs::remove_file(folder.path().join("master.key")).unwrap();
    let gate = builder(&source).data(folder.path()).build().unwrap();
    assert_eq!(gate.state(), State::Loading, "another secret: the filter would not know its own keys");
    gate.rebuild().await.unwrap();
    assert!(gate.get(&Key::from("key-1")).await.unwrap().row.is_some());
}

#[tokio::test]
async fn a_rebuild_that_is_given_up_leaves_nothing_behind() {
    let source = MemorySource::with(names(1000));
    *source.yields.lock().unwrap() = Some(5);
    let gate = builder(&source).build().unwrap();
    gate.start();
    while gate.stats().rebuild.running.is_none_or(|running| running.scanned < 100) {
        tokio::task::yield_now().await;
    }
    gate.stop().await;
    tokio::task::yield_now().await;
    assert!(gate.stats().rebuild.running.is_none() && gate.state() == State::Loading);
    *source.yields.lock().unwrap() = None;
    assert_eq!(gate.rebuild().await.unwrap().keys, 1000);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_falls_silent_in_a_scan_is_not_waited_for_and_the_old_filter_stays() {
    let source = MemorySource::with(names(2500));
    let (told, listener) = crate::listening::listen();
    let gate = builder(&source).on_event(listener).build().unwrap();
    gate.rebuild().await.unwrap();
    // Before the first key, and after the first of three batches.
    for (failures, batches) in [(1, 0), (2, 1)] {
        *source.silent_after.lock().unwrap() = Some(batches);
        let begun = tokio::time::Instant::now();
        let refused = gate.rebuild().await.unwrap_err();
        assert_eq!(refused.kind(), bloomgate_gate::ErrorKind::Source);
        assert!(refused.to_string().contains("sent no key for 30s in the middle of a scan"), "{refused}");
        let waited = begun.elapsed().as_secs_f64();
        assert!((30.0..31.0).contains(&waited), "{waited}");
        assert!(matches!(gate.state(), State::Ready { version: 1, .. }), "{:?}", gate.state());
        assert_eq!(gate.get(&Key::from("absent")).await.unwrap().outcome, Outcome::AbsentByFilter);
        assert!(gate.get(&Key::from("key-2499")).await.unwrap().row.is_some());
        let rebuilds = gate.stats().rebuild;
        assert_eq!((rebuilds.failures_in_a_row, rebuilds.running.is_none()), (failures, true));
        let last = rebuilds.history.last().unwrap();
        assert_eq!(last.failure, Some(refused.to_string()));
        let heard = told.all();
        let Some(Event::RebuildFailed { rebuilt, still_ready: true }) = heard.last() else { panic!("{heard:?}") };
        assert_eq!(rebuilt.failure, Some(refused.to_string()));
    }
    // A write in between is in the old filter, and the next rebuild finds a source that speaks again.
    gate.put(Key::from("meanwhile"), row_of("meanwhile")).await.unwrap();
    *source.silent_after.lock().unwrap() = None;
    assert_eq!(gate.rebuild().await.unwrap().keys, 2501);
    assert!(gate.get(&Key::from("meanwhile")).await.unwrap().row.is_some());
    assert_eq!(gate.stats().rebuild.failures_in_a_row, 0);
}

#[tokio::test(start_paused = true)]
async fn a_count_that_never_ends_does_not_hold_up_every_later_rebuild() {
    let source = MemorySource::with(names(100));
    let gate = builder(&source).build().unwrap();
    gate.rebuild().await.unwrap();
    source.counts_for_ever.store(true, SeqCst);
    let begun = tokio::time::Instant::now();
    let refused = gate.rebuild().await.unwrap_err();
    assert_eq!(refused.kind(), bloomgate_gate::ErrorKind::Source);
    assert!(refused.to_string().contains("did not count its keys within 3600s"), "{refused}");
    let waited = begun.elapsed().as_secs_f64();
    assert!((3600.0..3601.0).contains(&waited), "{waited}");
    assert!(matches!(gate.state(), State::Ready { version: 1, .. }), "{:?}", gate.state());
    source.counts_for_ever.store(false, SeqCst);
    assert_eq!(gate.rebuild().await.unwrap().keys, 100);
}

#[tokio::test]
async fn a_scan_that_spells_keys_otherwise_than_lookups_is_refused_and_the_old_filter_stays() {
    // Few keys, of which all may have been deleted since, and many.
    for many in [10, 1000] {
        let source = MemorySource::with(names(many));
        let gate = builder(&source).build().unwrap();
        gate.rebuild().await.unwrap();
        source.scans_in_capitals.store(true, SeqCst);
        let refused = gate.rebuild().await.unwrap_err();
        assert_eq!(refused.kind(), bloomgate_gate::ErrorKind::Source);
        let (sampled, refused) = (many.min(64), refused.to_string());
        for words in [format!("of {sampled} keys that the scan gave, the source knows 0"), "\"KEY-".to_owned()] {
            assert!(refused.contains(&words), "{words}: {refused}");
        }
        assert!(refused.contains("spelled in two ways, by scans and by lookups"), "{refused}");
        assert!(matches!(gate.state(), State::Ready { version: 1, .. }), "{:?}", gate.state());
        assert_eq!(gate.get(&Key::from("absent")).await.unwrap().outcome, Outcome::AbsentByFilter);
        for name in names(10) {
            assert!(gate.get(&Key::from(name.as_str())).await.unwrap().row.is_some(), "{name}");
        }
        let history = gate.stats().rebuild.history;
        assert_eq!(history.last().unwrap().failure.as_deref(), Some(refused.as_str()));
        source.scans_in_capitals.store(false, SeqCst);
        assert_eq!(gate.rebuild().await.unwrap().keys, many as u64);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_ends_makes_a_rebuild_give_up_and_not_guess() {
    struct Stuck(Arc<MemorySource>);
    impl bloomgate_gate::sources::Source for Stuck {
        fn describe(&self) -> String {
            "stuck".into()
        }
        fn key_type(&self) -> bloomgate_gate::KeyType {
            self.0.key_type()
        }
        fn get<'a>(
            &'a self,
            key: &'a Key,
        ) -> bloomgate_gate::Pending<'a, bloomgate_gate::Result<Option<bytes::Bytes>>> {
            self.0.get(key)
        }
        fn get_many<'a>(
            &'a self,
            keys: &'a [Key],
        ) -> bloomgate_gate::Pending<'a, bloomgate_gate::Result<Vec<Option<bytes::Bytes>>>> {
            self.0.get_many(keys)
        }
        fn put_many<'a>(
            &'a self,
            _rows: &'a [(Key, bytes::Bytes)],
        ) -> bloomgate_gate::Pending<'a, bloomgate_gate::Result<()>> {
            Box::pin(std::future::pending())
        }
        fn delete<'a>(&'a self, key: &'a Key) -> bloomgate_gate::Pending<'a, bloomgate_gate::Result<bool>> {
            self.0.delete(key)
        }
        fn count(&self) -> bloomgate_gate::Pending<'_, bloomgate_gate::Result<u64>> {
            self.0.count()
        }
        fn scan(&self) -> bloomgate_gate::Pending<'_, bloomgate_gate::Result<Box<dyn bloomgate_gate::sources::Scan>>> {
            self.0.scan()
        }
    }
    let source = MemorySource::with(names(10));
    let gate = Gate::builder(Arc::new(Stuck(source))).writers(Writers::Sole).build().unwrap();
    let write = tokio::spawn({
        let gate = gate.clone();
        async move { gate.put(Key::from("stuck"), row_of("stuck")).await }
    });
    tokio::task::yield_now().await;
    let refused = gate.rebuild().await.unwrap_err().to_string();
    assert!(refused.contains("1 writes were under way"), "{refused}");
    assert_eq!(gate.state(), State::Loading);
    write.abort();
}
