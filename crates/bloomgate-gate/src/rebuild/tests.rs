//! What of rebuilds is looked at from within: their jitter, and the check of a new filter against keys of the scan.

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::key::KeyType;
use crate::policy::Writers;
use crate::sources::{Scan, Source};
use crate::{Key, Pending};

/// A source that has every key.
struct Everything;

impl Source for Everything {
    fn describe(&self) -> String {
        "everything".to_owned()
    }

    fn key_type(&self) -> KeyType {
        KeyType::Text
    }

    fn get<'a>(&'a self, _: &'a Key) -> Pending<'a, Result<Option<Bytes>>> {
        Box::pin(std::future::ready(Ok(Some(Bytes::from_static(b"{}")))))
    }

    fn get_many<'a>(&'a self, keys: &'a [Key]) -> Pending<'a, Result<Vec<Option<Bytes>>>> {
        Box::pin(std::future::ready(Ok(vec![Some(Bytes::from_static(b"{}")); keys.len()])))
    }

    fn put_many<'a>(&'a self, _: &'a [(Key, Bytes)]) -> Pending<'a, Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn delete<'a>(&'a self, _: &'a Key) -> Pending<'a, Result<bool>> {
        Box::pin(std::future::ready(Ok(true)))
    }

    fn count(&self) -> Pending<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(0)))
    }

    fn scan(&self) -> Pending<'_, Result<Box<dyn Scan>>> {
        Box::pin(std::future::ready(Err(Error::new(ErrorKind::Source, "it is never scanned"))))
    }
}

#[tokio::test]
async fn a_new_filter_that_lost_one_key_of_the_scan_is_not_used() {
    let gate = Gate::builder(Arc::new(Everything)).writers(Writers::Sole).build().unwrap();
    let inner = &gate.inner;
    let sample: Vec<Key> = (0..64).map(|number| Key::from(format!("key-{number}").as_str())).collect();
    let digests = inner.filters.digests(&sample);
    let (next, moment) = (inner.make(1, 1000).await.unwrap(), inner.moment());
    next.add(&digests[1..]).await.unwrap();
    let refused = inner.check_sample(&next, &sample, &moment).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Filter);
    assert!(refused.to_string().contains("does not know keys that were put into it"), "{refused}");
    next.add(&digests[..1]).await.unwrap();
    inner.check_sample(&next, &sample, &moment).await.unwrap();
}

#[test]
fn a_jitter_stays_within_its_share_and_uses_all_of_it() {
    let hour = Duration::from_secs(3600);
    let minutes = |share: f64, random: u64| off_by(hour, share, random).as_secs_f64() / 60.0;
    for (share, random, expected) in
        [(0.1, 0, 54.0), (0.1, 1 << 63, 60.0), (0.1, u64::MAX, 66.0), (0.5, 0, 30.0), (0.5, u64::MAX, 90.0)]
    {
        let got = minutes(share, random);
        assert!((got - expected).abs() < 1e-6, "{share} {random}: {got}");
    }
    // SplitMix64 from a fixed seed: spread evenly over the whole, so that many gates do not scan together.
    let (mut random, mut tenths) = (7u64, [0; 10]);
    for _ in 0..10_000 {
        random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let share = (minutes(0.1, mixed ^ (mixed >> 31)) - 54.0) / 12.0;
        assert!((0.0..1.0).contains(&share), "{share}");
        tenths[(share * 10.0) as usize] += 1;
    }
    // 1,000 of each with a deviation of 30: z = 4.5.
    assert!(tenths.iter().all(|count| (865..1135).contains(count)), "{tenths:?}");
}

#[test]
fn the_randomness_of_a_jitter_is_used() {
    let times: Vec<Duration> = (0..64).map(|_| jitter(Duration::from_secs(100), 0.1)).collect();
    assert!(times.iter().all(|time| (90.0..=110.0).contains(&time.as_secs_f64())), "{times:?}");
    // All on one side: once in 2^63 runs.
    assert!(times.iter().any(|time| time.as_secs() < 100) && times.iter().any(|time| time.as_secs() >= 100));
}
