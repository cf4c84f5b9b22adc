//! Parquet's split-block filter, both ways, against the `parquet` crate: the same bytes for the same keys, and the same
//! answer for every probe.

use bloomgate::foreign::Parquet;
use bloomgate::{Encoding, Key};
use parquet::bloom_filter::Sbbf;
use parquet::data_type::AsBytes;

/// Keys that no two calls share: SplitMix64 from a fixed seed.
fn numbers(seed: u64, count: usize) -> Vec<i64> {
    let mut state = seed;
    (0..count)
        .map(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)) as i64
        })
        .collect()
}

/// Theirs with so many bytes and these keys.
fn theirs<T: AsBytes + ?Sized>(bytes: usize, keys: &[&T]) -> Sbbf {
    let mut filter = Sbbf::new_with_num_of_bytes(bytes);
    keys.iter().for_each(|key| filter.insert(*key));
    filter
}

fn written(filter: &Sbbf) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.write(&mut bytes).unwrap();
    bytes
}

/// Every probe answers alike in `ours` and `theirs`; how many said "maybe".
fn agree<K: Key, T: AsBytes + ?Sized>(ours: &Parquet, theirs: &Sbbf, probes: &[(K, &T)]) -> usize {
    let mut maybe = 0;
    for (key, value) in probes {
        let answer = ours.contains(key).unwrap();
        assert_eq!(answer, theirs.check(*value));
        maybe += usize::from(answer);
    }
    maybe
}

#[test]
fn theirs_are_read_here() {
    let members = numbers(1, 5_000);
    for bytes in [32, 1 << 10, 1 << 13] {
        let filter = theirs(bytes, &members.iter().collect::<Vec<_>>());
        let blob = written(&filter);
        let ours = Parquet::from_foreign(&blob, Encoding::Signed).unwrap();
        assert_eq!(u64::from(ours.shape().bytes()), filter.num_blocks() as u64 * 32);
        assert_eq!(ours.to_foreign().unwrap(), blob);
        assert!(members.iter().all(|key| ours.contains(key).unwrap()));
        let probes = numbers(2, 20_000);
        let pairs: Vec<(i64, &i64)> = probes.iter().map(|key| (*key, key)).collect();
        let maybe = agree(&ours, &filter, &pairs);
        assert!(bytes > 1 << 12 || maybe > 0, "no false positive was compared at {bytes} bytes");
    }
}

#[test]
fn ours_are_read_there_and_are_the_same_bytes() {
    for (items, rate) in [(1, 0.5), (100, 0.1), (3_000, 0.01), (20_000, 0.001)] {
        let mut ours = Parquet::builder().keys::<i64>().items(items).rate(rate).build().unwrap();
        let members = numbers(3, items as usize);
        ours.insert_batch(&members).unwrap();
        let blob = ours.to_foreign().unwrap();
        let read = Sbbf::from_bytes(&blob).unwrap();
        assert!(members.iter().all(|key| read.check(key)));
        let same = theirs(ours.shape().bytes() as usize, &members.iter().collect::<Vec<_>>());
        assert_eq!(written(&same), blob);
        let probes = numbers(4, 20_000);
        let pairs: Vec<(i64, &i64)> = probes.iter().map(|key| (*key, key)).collect();
        let maybe = agree(&ours, &read, &pairs);
        // At most what was promised, up to 4.5 standard deviations.
        let most = 20_000.0 * rate + 4.5 * (20_000.0 * rate).sqrt();
        assert!((maybe as f64) <= most, "{maybe} of 20000 at {rate}");
    }
}

#[test]
fn strings_and_other_types_hash_alike() {
    let words: Vec<String> = numbers(5, 2_000).iter().map(|n| format!("clé-{n}")).collect();
    let filter = theirs(1 << 11, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let ours = Parquet::from_foreign(&written(&filter), Encoding::Text).unwrap();
    assert!(words.iter().all(|word| ours.contains(word).unwrap()));
    let probes: Vec<String> = numbers(6, 10_000).iter().map(|n| format!("clé-{n}")).collect();
    let pairs: Vec<(&str, &str)> = probes.iter().map(|word| (word.as_str(), word.as_str())).collect();
    assert!(agree(&ours, &filter, &pairs) > 0);

    // INT32 and DOUBLE have no encoding of their own: their plain bytes are given.
    let small: Vec<i32> = numbers(7, 500).iter().map(|&n| n as i32).collect();
    let filter = theirs(1 << 9, &small.iter().collect::<Vec<_>>());
    let ours = Parquet::from_foreign(&written(&filter), Encoding::Bytes).unwrap();
    assert!(small.iter().all(|n| ours.contains(&n.to_le_bytes()).unwrap()));
    let floats: Vec<f64> = numbers(8, 500).iter().map(|&n| n as f64 / 7.0).collect();
    let filter = theirs(1 << 9, &floats.iter().collect::<Vec<_>>());
    let ours = Parquet::from_foreign(&written(&filter), Encoding::Bytes).unwrap();
    assert!(floats.iter().all(|n| ours.contains(&n.to_le_bytes()).unwrap()));
}

#[test]
fn theirs_of_their_own_sizing_keep_about_the_rate() {
    let members = numbers(9, 50_000);
    let mut filter = Sbbf::new_with_ndv_fpp(50_000, 0.01).unwrap();
    members.iter().for_each(|key| filter.insert(key));
    let ours = Parquet::from_foreign(&written(&filter), Encoding::Signed).unwrap();
    let exact = ours.expected_rate_at(50_000);
    let probes = numbers(10, 200_000);
    let mut answers = vec![false; probes.len()];
    ours.contains_batch(&probes, &mut answers).unwrap();
    let maybe = answers.iter().filter(|&&answer| answer).count() as u64;
    let spread = 4.5 * (exact * (1.0 - exact) / probes.len() as f64).sqrt() + 0.03 * exact;
    let measured = maybe as f64 / probes.len() as f64;
    assert!((measured - exact).abs() < spread, "{measured} against {exact}");
    let count = ours.approximate_count();
    assert!((count.value - 50_000.0).abs() < 1_000.0, "{count:?}");
}
