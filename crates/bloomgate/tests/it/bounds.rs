//! What can be asked for: every edge of every setting is built or refused, quickly, and refusals say what to do.

use bloomgate::bloom::CounterBits;
use bloomgate::math::estimate::within;
use bloomgate::{Blocked, Classic, Contract, Counting, Error, ErrorKind, Partitioned, Scalable, WhenFull};

use crate::keys::{ABSENT, mix, scattered};

/// The same expression for each builder of a fixed-size kind, with its name.
macro_rules! each_fixed {
    ($name:ident, $builder:ident => $body:block) => {{
        {
            let ($name, $builder) = ("classic", || Classic::builder().keys::<u64>());
            $body
        }
        {
            let ($name, $builder) = ("blocked", || Blocked::builder().keys::<u64>());
            $body
        }
        {
            let ($name, $builder) = ("partitioned", || Partitioned::builder().keys::<u64>());
            $body
        }
    }};
}

/// For each builder of any kind.
macro_rules! each_kind {
    ($name:ident, $builder:ident => $body:block) => {{
        each_fixed!($name, $builder => $body);
        {
            let ($name, $builder) = ("counting", || Counting::builder().keys::<u64>());
            $body
        }
        {
            let ($name, $builder) = ("scalable", || Scalable::builder().keys::<u64>());
            $body
        }
    }};
}

/// The rate that a filter's bits tell, by one name for all kinds.
trait Estimated {
    fn told(&self) -> f64;
}
impl<L: bloomgate::bloom::Layout> Estimated for bloomgate::Bloom<L> {
    fn told(&self) -> f64 {
        self.estimated_rate()
    }
}
impl Estimated for Counting {
    fn told(&self) -> f64 {
        self.estimated_rate().unwrap()
    }
}
impl Estimated for Scalable {
    fn told(&self) -> f64 {
        self.estimated_rate()
    }
}

fn refused<T>(result: Result<T, Error>, kind: ErrorKind, says: &[&str]) {
    let Err(error) = result else { panic!("accepted; {says:?} should be refused") };
    assert_eq!(error.kind(), kind, "{error}");
    for words in says {
        assert!(error.to_string().contains(words), "{error:?} does not say {words:?}");
    }
}

use ErrorKind::{InvalidParameter, LimitExceeded};

/// T1, T4: a rate outside what can be kept is refused by every kind, with the value and an example.
#[test]
fn bad_rates_are_refused() {
    each_kind!(_name, builder => {
        for (rate, shown) in [
            (0.0, "not 0;"),
            (1.0, "not 1;"),
            (-1.0, "not -1;"),
            (5.0, "not 5;"),
            (f64::NAN, "not NaN;"),
            (f64::INFINITY, "not inf;"),
            (f64::NEG_INFINITY, "not -inf;"),
        ] {
            refused(builder().items(100).rate(rate).build(), InvalidParameter, &[shown, "0.01"]);
        }
        for (rate, shown) in [(1e-300, "1e-300"), (f64::MIN_POSITIVE, "e-308"), (9.9e-16, "9.9e-16")] {
            refused(builder().items(100).rate(rate).build(), InvalidParameter, &[shown, "1e-15"]);
        }
    });
    each_fixed!(name, builder => {
        refused(builder().bytes(1 << 20).rate(2.0).build(), InvalidParameter, &["2", "0.01"]);
        refused(builder().bits(1 << 12).hashes(8).rate(f64::NAN).build(), InvalidParameter, &["NaN"]);
        let filter = builder().items(10).rate(1e-15).build().unwrap();
        assert!(filter.expected_rate_at(10) <= 1e-15 * 1.0001, "{name}");
        assert!(builder().items(10).rate(0.999_999).build().is_ok());
    });
    assert!(Counting::builder().items(10).rate(1e-15).build().is_ok());
    // The stages of a chain go no lower than 1e-15 each: together they would exceed what was asked.
    refused(Scalable::builder().items(10).rate(1e-15).build(), InvalidParameter, &["1e-15", "1e-10"]);
    assert!(Scalable::builder().items(10).rate(1e-10).build().is_ok());
}

/// T7, T8, T9: from nothing to 2^40 keys; more is refused at once and names the way out.
#[test]
fn item_counts_from_none_to_too_many() {
    each_kind!(name, builder => {
        for items in [0, 1] {
            let mut filter = builder().items(items).build().unwrap();
            assert_eq!(filter.capacity(), 1, "{name}");
            assert!(!filter.contains(&7u64).unwrap());
            assert!(filter.insert(&7u64).unwrap());
            assert!(filter.contains(&7u64).unwrap());
        }
        for items in [(1u64 << 40) + 1, u64::MAX] {
            refused(builder().items(items).build(), InvalidParameter, &["2^40", &items.to_string(), "split"]);
        }
        refused(builder().items(1 << 40).headroom(1.5).build(), InvalidParameter, &["2^40", "headroom"]);
        match builder().build() {
            // A chain is for those who do not know: it begins with 10,000.
            Ok(filter) => assert_eq!((name, filter.capacity()), ("scalable", 10_000)),
            refusal => refused(refusal, InvalidParameter, &["items(n)"]),
        }
    });
    // 2^40 keys need 1.3 TB and more: whether the system grants the addresses is its own affair, and a refusal is clean.
    each_kind!(name, builder => {
        for rate in [0.5, 0.01, 1e-10] {
            match builder().items(1 << 40).rate(rate).build() {
                Ok(filter) => assert_eq!(filter.capacity(), 1 << 40, "{name}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{name}: {error}"),
            }
        }
    });
}

#[test]
fn bad_headroom_is_refused() {
    each_kind!(_name, builder => {
        for headroom in [0.5, 0.0, -1.0, f64::NAN, f64::INFINITY, 1e9, 1000.1] {
            let shown = headroom.to_string();
            refused(builder().items(10).headroom(headroom).build(), InvalidParameter, &[&shown, "1.5"]);
        }
        assert_eq!(builder().items(1_000).headroom(1.5).build().unwrap().capacity(), 1_500);
        assert_eq!(builder().items(3).headroom(1.1).build().unwrap().capacity(), 4);
        assert_eq!(builder().items(10).headroom(1000.0).build().unwrap().capacity(), 10_000);
    });
    // Headroom is size: the named items then have far less than the rate.
    let filter = Blocked::builder().items(1_000).headroom(3.0).rate(0.01).build().unwrap();
    assert!(filter.expected_rate_at(3_000) <= 0.010_001 && filter.expected_rate_at(1_000) < 0.001);
}

/// T2: no zero, no half shape, nothing past the limits.
#[test]
fn bad_shapes_are_refused() {
    each_fixed!(_name, builder => {
        for build in [builder().bytes(0), builder().bits(0), builder().bits(0).items(5), builder().bytes(0).rate(0.1)] {
            refused(build.build(), InvalidParameter, &["not 0"]);
        }
        refused(builder().bits(512).hashes(0).build(), InvalidParameter, &["not 0"]);
        refused(builder().bits(512).hashes(65).build(), InvalidParameter, &["65"]);
        refused(builder().bits(512).hashes(u32::MAX).build(), InvalidParameter, &["4294967295"]);
        refused(builder().bits(0).hashes(8).build(), InvalidParameter, &["0"]);
        refused(builder().hashes(8).build(), InvalidParameter, &["bits(m)"]);
        refused(builder().items(10).hashes(8).build(), InvalidParameter, &["bits(m)"]);
        refused(builder().bits(u64::MAX).hashes(8).build(), InvalidParameter, &["18446744073709551615"]);
        for bits in [u64::MAX - 511, (1 << 59) + 512] {
            refused(builder().bits(bits).hashes(8).build(), InvalidParameter, &["2^5"]);
        }
        refused(builder().items(10).when_full(WhenFull::Grow).build(), InvalidParameter, &["Scalable"]);
    });
    refused(Blocked::builder().bits(1_000).hashes(8).build(), InvalidParameter, &["512", "1000"]);
    refused(Blocked::builder().bits(1_024).hashes(7).build(), InvalidParameter, &["8", "7"]);
    refused(Blocked::builder().bits(1_024).hashes(72).build(), InvalidParameter, &["8 lines", "9"]);
    refused(Partitioned::builder().bits(5).hashes(6).build(), InvalidParameter, &["not 0"]);
    refused(Counting::builder().items(10).when_full(WhenFull::Grow).build(), InvalidParameter, &["cannot grow"]);
    refused(Counting::builder().bytes(0).build(), InvalidParameter, &["not 0"]);
    for growth in [0.5, f64::NAN, -2.0, 1e9] {
        let shown = growth.to_string();
        refused(Scalable::builder().items(10).growth(growth).build(), InvalidParameter, &[&shown, "1.75"]);
    }
    refused(
        Scalable::builder().items(10).stages(bloomgate::Kind::Counting).build(),
        InvalidParameter,
        &["counting", "blocked"],
    );
}

/// T7, T8: absurd budgets end in a clean refusal or in addresses that nobody touched; nothing overflows on the way.
#[test]
fn absurd_budgets_are_refused() {
    each_fixed!(name, builder => {
        for bytes in [u64::MAX, u64::MAX / 8, 1 << 60, 1 << 56] {
            for build in [builder().bytes(bytes), builder().bytes(bytes).rate(1e-9), builder().bytes(bytes).items(1 << 40)] {
                let error = build.build().err().unwrap_or_else(|| panic!("{name} got {bytes} bytes"));
                assert!(matches!(error.kind(), InvalidParameter | ErrorKind::OutOfMemory), "{name}: {error}");
            }
            // As a limit it is merely generous.
            let filter = builder().bytes(bytes).items(1_000).rate(0.01).build().unwrap();
            assert!(filter.size_in_bytes() < 2_000, "{name}");
        }
    });
    for bytes in [u64::MAX, 1 << 60] {
        let error = Counting::builder().bytes(bytes).build().unwrap_err();
        assert!(matches!(error.kind(), InvalidParameter | ErrorKind::OutOfMemory), "{error}");
        assert!(Counting::builder().bytes(bytes).items(1_000).build().is_ok());
    }
}

/// The door of memory: with a rate the largest capacity that keeps it, with items the best rate, with both a limit.
#[test]
fn a_budget_buys_the_most_it_can() {
    each_fixed!(name, builder => {
        for bytes in [64u64, 1_000, 65_536, 10_000_000] {
            for rate in [0.1, 0.01, 1e-4] {
                let filter = builder().bytes(bytes).rate(rate).build().unwrap();
                let capacity = filter.capacity();
                assert!(filter.size_in_bytes() <= bytes.next_multiple_of(8), "{name} {bytes}");
                assert!(filter.size_in_bytes() + 64 > bytes, "{name} {bytes} leaves memory unused");
                assert_eq!(filter.promised_rate(), rate);
                assert!(filter.expected_rate_at(capacity) <= rate * 1.0001, "{name} {bytes} {rate}");
                assert!(filter.expected_rate_at(capacity + 1) > rate, "{name} {bytes} {rate}: holds more than {capacity}");
                // The shape for those items at that rate is no smaller than the budget explains. (Shapes for very few
                // keys are sized together with their number of hashes and may do a little better.)
                let sized = builder().items(capacity.max(1)).rate(rate).build().unwrap();
                assert!(sized.size_in_bytes() <= filter.size_in_bytes(), "{name} {bytes} {rate}");

                let best = builder().bytes(bytes).items(capacity).build().unwrap();
                // A blocked filter takes another line a key only where that halves the rate.
                let within = if name == "blocked" { 2.0 } else { 1.0001 };
                assert!(best.expected_rate_at(capacity) <= rate * within, "{name} {bytes} {rate}: {}", best.promised_rate());
                assert_eq!(best.promised_rate(), best.expected_rate_at(capacity));
                let both = builder().bytes(bytes).items(capacity).rate(rate).build().unwrap();
                assert!(both.size_in_bytes() <= filter.size_in_bytes());
                let too_many = builder().bytes(bytes).items(capacity * 2 + 10).rate(rate).build();
                refused(too_many, LimitExceeded, &[&format!("hold {capacity} items"), &format!("{bytes} are allowed")]);
            }
        }
        assert_eq!(builder().bytes(10_000).build().unwrap().promised_rate(), 0.01);
        // Not one key fits at that rate: no promise is made.
        // A shape that cannot keep the rate beside it is refused as well; alone it is taken as it is.
        refused(builder().bits(512).hashes(8).rate(1e-9).items(100).build(), InvalidParameter, &["100 items", "1e-9"]);
        let shape = builder().bits(512).hashes(8).items(20).build().unwrap();
        assert_eq!(shape.promised_rate(), shape.expected_rate_at(20));
        let shape = builder().bits(512).hashes(8).rate(0.01).build().unwrap();
        assert!(shape.expected_rate_at(shape.capacity()) <= 0.010_001);
        assert!(shape.expected_rate_at(shape.capacity() + 1) > 0.01);
    });
    refused(Classic::builder().bytes(8).rate(1e-15).build(), LimitExceeded, &["hold 0 items"]);
    refused(Partitioned::builder().bytes(8).rate(1e-15).build(), LimitExceeded, &["hold 0 items"]);
    for width in [CounterBits::Four, CounterBits::Eight, CounterBits::Sixteen] {
        let builder = || Counting::builder().counter_bits(width);
        let filter = builder().bytes(100_000).rate(0.01).build().unwrap();
        let capacity = filter.capacity();
        assert!(filter.size_in_bytes() <= 100_000 && filter.size_in_bytes() + 64 * u64::from(width.bits()) > 100_000);
        assert!(filter.expected_rate_at(capacity) <= 0.010_001 && filter.expected_rate_at(capacity + 1) > 0.01);
        assert!(builder().bytes(100_000).items(capacity).rate(0.01).build().is_ok());
        let too_many = builder().bytes(100_000).items(capacity * 2).rate(0.01).build();
        refused(too_many, LimitExceeded, &[&format!("hold {capacity} items")]);
        // One line holds a key or two at the least rate there is.
        let line = builder().bytes(64 * u64::from(width.bits())).rate(1e-15).build().unwrap();
        assert!(line.expected_rate_at(line.capacity()) <= 1e-15, "{} keys", line.capacity());
    }
}

/// T3, T5: tiny filters at high rates are filters: they keep their keys and the rate they promise.
#[test]
fn tiny_filters_at_every_rate() {
    each_kind!(name, builder => {
        for rate in [0.99, 0.9, 0.75, 0.5, 0.4, 0.393, 0.3, 0.1, 0.01, 1e-3, 1e-6, 1e-9] {
            for items in 0..=5u64 {
                let (mut hits, mut sum) = (0, 0.0);
                for seed in 0..40 {
                    let contract = Contract::xxh3_seeded(seed).for_keys::<u64>();
                    let mut filter = builder().items(items).rate(rate).contract(contract).build().unwrap();
                    let keys = scattered(seed, 0, items);
                    for key in &keys {
                        filter.insert(key).unwrap();
                    }
                    assert!(keys.iter().all(|key| filter.contains(key).unwrap()), "{name} {items} {rate}");
                    assert!(filter.expected_rate() <= rate * 1.0001, "{name} {items} {rate}: {}", filter.expected_rate());
                    hits += scattered(seed, ABSENT, 100).iter().filter(|key| filter.contains(key).unwrap()).count() as u64;
                    sum += filter.told();
                }
                // Tiny filters differ widely; what the bits of each say is what it shows.
                assert!(within(hits, 4_000, sum / 40.0, 4.5), "{name} {items} {rate}: {hits} of 4000, {}", sum / 40.0);
                if items == 0 {
                    assert_eq!(hits, 0);
                }
            }
        }
    });
}

/// T56: shapes that do not end with a word; T12: asked and allocated bits are both told.
#[test]
fn explicit_shapes_are_exact() {
    for bits in [1u64, 2, 63, 64, 65, 100, 127, 128, 129, 1_000, 958_528] {
        for hashes in [1, 3, 7, 64] {
            let mut filter = Classic::builder().keys::<u64>().bits(bits).hashes(hashes).build().unwrap();
            assert_eq!((filter.bits(), filter.hashes()), (bits, hashes));
            assert_eq!(filter.size_in_bytes(), bits.div_ceil(64) * 8);
            let keys = scattered(1, 0, 200);
            filter.insert_batch(&keys).unwrap();
            assert!(keys.iter().all(|key| filter.contains(key).unwrap()));
            assert!(filter.set_bits() <= bits && filter.fill_ratio() <= 1.0, "bits past the end are set");
            assert!(filter.approximate_count().value.is_finite());
            let rate = filter.estimated_rate();
            let hits = scattered(1, ABSENT, 4_000).iter().filter(|key| filter.contains(key).unwrap()).count() as u64;
            assert!(within(hits, 4_000, rate, 4.5), "{bits} bits, {hashes} hashes: {hits} of 4000, {rate}");

            if bits < u64::from(hashes) {
                continue;
            }
            let mut sliced = Partitioned::builder().keys::<u64>().bits(bits).hashes(hashes).build().unwrap();
            assert_eq!(sliced.hashes(), hashes);
            // Slices are equal: what does not divide is left out, and told.
            assert_eq!(sliced.bits(), bits / u64::from(hashes) * u64::from(hashes));
            sliced.insert_batch(&keys).unwrap();
            assert!(keys.iter().all(|key| sliced.contains(key).unwrap()));
            assert!(sliced.set_bits() <= sliced.bits());
        }
    }
    // A shape alone is meant for as many keys as leave it half full, and promises what that gives.
    let shape = Classic::builder().bits(958_528).hashes(7).build().unwrap();
    assert_eq!(shape.capacity(), 94_914);
    assert!((shape.promised_rate() / 0.0078 - 1.0).abs() < 0.01, "{}", shape.promised_rate());
}

/// The figures everybody knows.
#[test]
fn golden_figures() {
    let filter = Classic::builder().items(1_000_000).rate(0.001).build().unwrap();
    assert_eq!((filter.bits(), filter.hashes()), (14_377_588, 10));
    let filter = Classic::builder().items(10_000_000).rate(0.01).build().unwrap();
    assert_eq!((format!("{:.2}", filter.bits() as f64 / 1e7).as_str(), filter.hashes()), ("9.59", 7));
    let filter = Classic::builder().items(200_000_000).rate(0.005).build().unwrap();
    assert_eq!((filter.size_in_bytes() as f64 / 1e6).round(), 276.0);
    // Five times as many keys as it was made for, told and measured.
    let mut filter = Classic::builder().keys::<u64>().items(20_000).rate(0.01).build().unwrap();
    assert!((filter.expected_rate_at(100_000) - 0.83).abs() < 0.005, "{}", filter.expected_rate_at(100_000));
    filter.insert_batch(&scattered(2, 0, 100_000)).unwrap();
    let hits = scattered(2, ABSENT, 100_000).iter().filter(|key| filter.contains(key).unwrap()).count();
    assert!((hits as f64 / 1e5 - 0.83).abs() < 0.01, "{hits}");
    // Blocked: a few per cent more bits, never the next power of two (T12).
    let filter = Blocked::builder().items(10_000_000).rate(0.01).build().unwrap();
    assert!((filter.bits() as f64 / 1e7 - 10.11).abs() < 0.02, "{}", filter.bits());
    let filter = Blocked::builder().items(10_000_000).rate(0.001).build().unwrap();
    assert!(filter.bits() as f64 / 1e7 < 15.9, "{}", filter.bits());
    for rate in [1e-4, 1e-5, 1e-6] {
        let blocked = Blocked::builder().items(1_000_000).rate(rate).build().unwrap();
        let classic = Classic::builder().items(1_000_000).rate(rate).build().unwrap();
        assert!((blocked.bits() as f64) <= 1.08 * classic.bits() as f64, "{rate}");
    }
    let filter = Counting::builder().items(1_000_000).rate(0.01).build().unwrap();
    assert!((filter.size_in_bytes() as f64 * 8e-6 - 41.0).abs() < 1.0, "{}", filter.size_in_bytes());
}

/// T79: rates and counts stay finite and within bounds however full a filter gets.
#[test]
fn saturated_filters_still_tell() {
    each_fixed!(name, builder => {
        let mut filter = builder().bits(1_024).hashes(8).build().unwrap();
        let mut last = 0.0;
        for i in 0..20_000u64 {
            filter.insert(&mix(i)).unwrap();
            if i % 500 == 0 {
                let count = filter.approximate_count();
                assert!(count.value.is_finite() && count.value >= last && count.low <= count.value, "{name} {i}: {count:?}");
                last = count.value;
                assert!((0.0..=1.0).contains(&filter.estimated_rate()) && (0.0..=1.0).contains(&filter.expected_rate()));
            }
        }
        assert_eq!((filter.fill_ratio(), filter.estimated_rate()), (1.0, 1.0), "{name}");
        assert_eq!(filter.approximate_count().high, None, "{name}: any larger number would look the same");
        assert!(filter.contains(&u64::MAX).unwrap());
        assert_eq!(filter.expected_rate_at(u64::MAX), 1.0, "{name}");
    });
}

/// A prefix of nothing would make all keys one key, and a file that nobody can open.
#[test]
fn prefixes_of_nothing_are_refused_when_a_filter_is_built() {
    use bloomgate::Encoding;
    for encoding in [Encoding::PrefixLength { bytes: 0 }, Encoding::PrefixDelimiter { delimiter: b'/', count: 0 }] {
        let contract = Contract::xxh3().with_encoding(encoding);
        assert!(Blocked::builder().contract(contract.clone()).items(10).build().is_err());
        assert!(Counting::builder().contract(contract.clone()).items(10).build().is_err());
        assert!(Scalable::builder().contract(contract).build().is_err());
    }
}
