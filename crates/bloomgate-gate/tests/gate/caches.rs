//! The cache in this process: its budget, its times, its forgetting.

use std::time::Duration;

use bloomgate_gate::Key;
use bloomgate_gate::caches::local::{LARGEST_SHARE, OVERHEAD};
use bloomgate_gate::caches::{Cache, LocalCache};
use bloomgate_gate::clock::Clock;
use bytes::Bytes;

const HOUR: Duration = Duration::from_secs(3600);
const BUDGET: u64 = 1 << 20;

fn row(size: usize) -> Bytes {
    Bytes::from(vec![b'r'; size])
}

#[tokio::test]
async fn rows_end_by_their_time() {
    let clock = Clock::by_hand();
    let cache = LocalCache::with_clock(BUDGET, clock.clone()).unwrap();
    let (short, long, none) = (Key::from("short"), Key::from("long"), Key::from("none"));
    cache.store(&short, "1".into(), Duration::from_secs(10)).await.unwrap();
    cache.store(&long, "2".into(), HOUR).await.unwrap();
    clock.advance(Duration::from_millis(9_999));
    let keys = [short.clone(), none, long.clone()];
    assert_eq!(cache.get_many(&keys).await.unwrap(), [Some("1".into()), None, Some("2".into())]);
    clock.advance(Duration::from_millis(1));
    assert_eq!(cache.get_many(&keys).await.unwrap(), [None, None, Some("2".into())]);
    assert_eq!(cache.len(), 1, "what has ended and is asked for gives its memory back");
    // A new row under the same key has its own time.
    cache.store(&short, "3".into(), HOUR).await.unwrap();
    clock.advance(HOUR - Duration::from_secs(10));
    assert_eq!(cache.get(&long).await.unwrap(), None);
    assert_eq!(cache.get(&short).await.unwrap(), Some("3".into()));
    // For ever, or not at all.
    cache.store(&long, "4".into(), Duration::MAX).await.unwrap();
    cache.store(&short, "5".into(), Duration::ZERO).await.unwrap();
    clock.advance(HOUR * 10_000);
    assert_eq!(cache.get_many(&keys).await.unwrap(), [None, None, Some("4".into())]);
}

#[tokio::test]
async fn the_budget_holds_and_is_used() {
    let cache = LocalCache::new(BUDGET).unwrap();
    let each = 8 + 500 + OVERHEAD;
    for number in 0..20_000 {
        cache.store(&Key::from(number), row(500), HOUR).await.unwrap();
        assert!(cache.bytes() <= BUDGET);
    }
    assert_eq!(cache.bytes(), cache.len() as u64 * each);
    assert!(cache.bytes() > BUDGET * 9 / 10, "{} of {BUDGET}", cache.bytes());
    // What is asked for again and again survives a scan of others.
    let favourite = Key::from("favourite");
    cache.store(&favourite, row(500), HOUR).await.unwrap();
    for number in 20_000..40_000 {
        cache.get(&favourite).await.unwrap();
        cache.store(&Key::from(number), row(500), HOUR).await.unwrap();
    }
    assert_eq!(cache.get(&favourite).await.unwrap(), Some(row(500)));
}

#[tokio::test]
async fn a_row_too_large_is_not_stored_and_not_mistaken_for_the_one_before() {
    let cache = LocalCache::new(BUDGET).unwrap();
    let key = Key::from("k");
    let largest = (BUDGET / LARGEST_SHARE - OVERHEAD - 1) as usize;
    cache.store(&key, row(largest), HOUR).await.unwrap();
    assert_eq!(cache.get(&key).await.unwrap(), Some(row(largest)));
    cache.store(&key, row(largest + 1), HOUR).await.unwrap();
    assert_eq!(cache.get(&key).await.unwrap(), None);
    assert!(LocalCache::new(1_000).err().unwrap().to_string().contains("65536"));
}

#[tokio::test]
async fn forgetting_one_and_all() {
    let cache = LocalCache::new(BUDGET).unwrap();
    let keys = [Key::from("a"), Key::from("b"), Key::from_canonical(*b"\0\xff\n")];
    for key in &keys {
        cache.store(key, "1".into(), HOUR).await.unwrap();
    }
    cache.forget(&keys[0]).await.unwrap();
    assert_eq!(cache.get_many(&keys).await.unwrap(), [None, Some("1".into()), Some("1".into())]);
    cache.leave_behind().await.unwrap();
    assert_eq!(cache.get_many(&keys).await.unwrap(), [None, None, None]);
    assert!(cache.is_empty() && cache.bytes() == 0);
}
