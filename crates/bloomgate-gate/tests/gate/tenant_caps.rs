//! Caps on single clients before many tenants: lookups for a tenant that nobody knows go on to the source while the set of
//! tenants is not whole, and are held by the cap like all others.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bloomgate_gate::callers::{Callers, ClientId, Limit};
use bloomgate_gate::tenants::Tenants;
use bloomgate_gate::{Answer, ErrorKind, Key, Result, Writers};
use futures_util::FutureExt;

use crate::tenant_memory::{MemoryTable, Shelf};

/// Gates before a table of which no tenant is known yet, and of which `acme` has the keys `p0` to `p299`.
fn held(misses: u32) -> (Tenants, Arc<Shelf>, Arc<Callers>) {
    let table = MemoryTable::with((0..300).map(|number| ("acme".to_owned(), format!("p{number}"))));
    let shelf = table.0.clone();
    let callers = Arc::new(Callers::new(Some(Limit::new(misses, Duration::from_secs(3600)).unwrap()), None));
    let tenants = Tenants::builder(table).writers(Writers::Unknown).callers(callers.clone()).build().unwrap();
    (tenants, shelf, callers)
}

fn named(name: &str) -> ClientId {
    ClientId::named(name.as_bytes())
}

fn keys(prefix: &str, many: usize) -> Vec<Key> {
    (0..many).map(|number| Key::from(format!("{prefix}{number}").as_str())).collect()
}

/// How many were found, were not, and were refused by the cap.
fn outcomes(answers: &[Result<Answer>]) -> (usize, usize, usize) {
    let many = |is: fn(&Result<Answer>) -> bool| answers.iter().filter(|answer| is(answer)).count();
    let refused = |answer: &Result<Answer>| {
        answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::TooManyMisses && error.retry_after().is_some())
    };
    (
        many(|answer| answer.as_ref().is_ok_and(|answer| answer.row.is_some())),
        many(|answer| answer.as_ref().is_ok_and(|answer| answer.row.is_none())),
        many(refused),
    )
}

async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_hangs_up_on_a_tenant_that_nobody_knows_pays_all_the_same() {
    let (tenants, shelf, callers) = held(3);
    let (acme, a) = (Key::from("acme"), named("a"));
    let hang_up = async |key: &Key, batched: bool| {
        let hold = shelf.hold.write().await;
        match batched {
            false => assert!(tenants.get_for(&acme, key, &a).now_or_never().is_none()),
            true => assert!(tenants.get_each_for(&acme, std::slice::from_ref(key), &a).now_or_never().is_none()),
        }
        settle().await;
        drop(hold);
        settle().await;
    };
    for key in keys("p", 10) {
        hang_up(&key, false).await;
        hang_up(&key, true).await;
        callers.check(&a).expect("its row was there");
    }
    for (key, batched) in keys("no-", 3).iter().zip([false, true, false]) {
        callers.check(&a).unwrap();
        hang_up(key, batched).await;
    }
    let next = Key::from("no-3");
    assert_eq!(tenants.get_for(&acme, &next, &a).await.unwrap_err().kind(), ErrorKind::TooManyMisses);
    assert!(tenants.get_for(&acme, &next, &named("b")).await.unwrap().row.is_none());
}

#[tokio::test]
async fn a_batch_for_a_tenant_that_nobody_knows_reads_as_many_at_a_time_as_may_miss() {
    let (tenants, shelf, _) = held(4);
    let (acme, a, b) = (Key::from("acme"), named("a"), named("b"));
    // More rows than the cap, all of them there.
    let answers = tenants.get_each_for(&acme, &keys("p", 300), &a).await.unwrap();
    assert_eq!(outcomes(&answers), (300, 0, 0));
    let before = shelf.reads.load(SeqCst);
    let answers = tenants.get_each_for(&acme, &keys("no-", 1000), &a).await.unwrap();
    assert_eq!(outcomes(&answers), (0, 4, 996));
    assert_eq!(shelf.reads.load(SeqCst) - before, 4, "not one more reached the source");
    let stats = tenants.stats();
    assert_eq!((stats.lookups.refused_capped, stats.lookups.failed, stats.lookups.bypass_absent), (996, 996, 4));
    // Rows between the others, in their order: what is found gives its place back.
    let mixed: Vec<Key> =
        keys("p", 20).into_iter().zip(keys("no-", 20)).flat_map(|(there, gone)| [there, gone]).collect();
    let answers = tenants.get_each_for(&acme, &mixed, &b).await.unwrap();
    let (found, missed, refused) = outcomes(&answers);
    assert!(missed == 4 && found >= 4 && found + missed + refused == 40, "{found} {missed} {refused}");
    for (at, answer) in answers.iter().enumerate().filter(|(_, answer)| answer.is_ok()) {
        assert_eq!(answer.as_ref().unwrap().row.is_some(), at % 2 == 0, "{at}");
    }
    // Whoever is not counted reads all at once.
    assert_eq!(outcomes(&tenants.get_each(&acme, &keys("no-", 1000)).await.unwrap()), (0, 1000, 0));
}

#[tokio::test]
async fn a_source_that_fails_is_nobodys_fault_in_a_batch_either() {
    let (tenants, shelf, callers) = held(4);
    shelf.is_down.store(true, SeqCst);
    let (acme, a) = (Key::from("acme"), named("a"));
    let answers = tenants.get_each_for(&acme, &keys("no-", 20), &a).await.unwrap();
    assert!(answers.iter().all(|one| one.as_ref().is_err_and(|error| error.kind() == ErrorKind::Source)));
    callers.check(&a).unwrap();
    shelf.is_down.store(false, SeqCst);
    assert_eq!(outcomes(&tenants.get_each_for(&acme, &keys("p", 300), &a).await.unwrap()), (300, 0, 0));
}
