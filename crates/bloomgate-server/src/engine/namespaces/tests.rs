use super::paying::{LEAST_BURST, MOST_AHEAD_NS};
use super::*;

fn declared(prefixes: &[(&str, &str)]) -> BTreeMap<String, Declared> {
    let one = |prefix: &str| Declared { prefix: prefix.to_owned(), ..Declared::default() };
    prefixes.iter().map(|&(name, prefix)| (name.to_owned(), one(prefix))).collect()
}

#[test]
fn the_longest_prefix_of_a_name_decides() {
    let mut registry = Registry::default();
    registry.turn_into(&declared(&[("a", "a:"), ("ab", "a:b:"), ("c", "a:b:c")]));
    let [a, ab, c] = ["a", "ab", "c"].map(|name| registry.names[name].0);
    for (name, expected) in [
        ("a:", a),
        ("a:x", a),
        ("a:b", a),
        ("a:b:", ab),
        ("a:b:x", ab),
        ("a:b:c", c),
        ("a:b:cd", c),
        ("a", 0),
        ("", 0),
        ("b:a:", 0),
        ("bloomgate:rekey:a:b:x", ab),
        ("bloomgate:rekey:x", 0),
    ] {
        assert_eq!(registry.of(name.as_bytes()), expected, "{name}");
    }
}

#[test]
fn a_namespace_keeps_its_number_and_a_number_that_is_free_waits_long() {
    let mut registry = Registry::default();
    assert_eq!(registry.turn_into(&declared(&[("a", "a:"), ("b", "b:")])), [1, 2]);
    assert_eq!(registry.turn_into(&declared(&[("b", "c:"), ("d", "d:")])), [3]);
    assert_eq!((registry.of(b"c:x"), registry.of(b"b:x"), registry.of(b"a:x")), (2, 0, 0));
    assert!(registry.is_of(&declared(&[("b", "c:"), ("d", "d:")])) && !registry.is_of(&declared(&[("b", "c:")])));
    // Every number is given once before one is given again.
    let all: Vec<(String, String)> = (0..MAX_NAMESPACES).map(|at| (format!("n{at}"), format!("p{at}:"))).collect();
    let all: Vec<(&str, &str)> = all.iter().map(|(name, prefix)| (&**name, &**prefix)).collect();
    let mut numbers = registry.turn_into(&declared(&all));
    assert!(numbers[..numbers.len() - 3].iter().all(|&number| number > 3));
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=MAX_NAMESPACES as u16).collect::<Vec<_>>());
    assert_eq!(registry.turn_into(&BTreeMap::new()), [0u16; 0]);
    assert_eq!(registry.of(b"p7:x"), 0);
}

#[test]
fn what_does_not_fit_costs_nothing_and_what_gets_smaller_always_fits() {
    let place = Namespace::default();
    place.limit(&Declared { max_memory: Some(1_000), ..Declared::default() });
    place.take(600, 0).unwrap();
    assert_eq!(place.take(401, 0), Err(400));
    // In place of something of 300 bytes there is room for 700.
    assert_eq!(place.take(701, 300), Err(700));
    place.take(700, 300).unwrap();
    place.give_back(300);
    assert_eq!(read(&place.used), 1_000);
    place.limit(&Declared { max_memory: Some(10), ..Declared::default() });
    place.take(200, 200).unwrap();
    assert_eq!((place.take(201, 200), place.take(1, 0)), (Err(0), Err(0)));
    place.limit(&Declared::default());
    place.take(u64::MAX / 2, 0).unwrap();
}

/// However items come, after the burst no more are let through than the limit allows, and no fewer.
#[test]
fn items_are_let_through_at_the_rate() {
    for (rate, batch) in [(1_000u64, 1u64), (1_000, 300), (1_000, 9_000), (100_000, 512), (3, 7), (1_000_000_000, 512)]
    {
        let place = Namespace::default();
        let burst = (rate / 4).max(LEAST_BURST);
        let begin = 1_767_225_600_000_000_000;
        let (mut now, mut items) = (begin, 0u64);
        for _ in 0..20_000 {
            let mut left = batch;
            while left > 0 {
                let (paid, until) = place.pay(left, rate, now);
                assert!(until <= now + MOST_AHEAD_NS, "{rate} {batch}");
                (left, items) = (left - paid, items + paid);
                // It waits as a connection would: for the rest to fit, and then until it is paid for.
                now = if left > 0 { now + 1_000_000_000 } else { now.max(until) };
            }
        }
        let allowed = burst as f64 + (now - begin) as f64 / 1e9 * rate as f64;
        let slack = 20_000.0 * rate as f64 / 1e9;
        assert!(
            (items as f64 - allowed).abs() <= 1.0 + slack || (now == begin && items <= burst),
            "{rate} {batch}: {items} {allowed}"
        );
    }
}

#[test]
fn nobody_pays_further_ahead_than_two_seconds() {
    let (place, now) = (Namespace::default(), 5_000_000_000_000);
    assert_eq!(place.pay(512, 1, now), (512, now), "a turn is always let through");
    assert_eq!(place.pay(1_000, 1, now), (2, now + MOST_AHEAD_NS));
    assert_eq!(place.pay(1, 1, now).0, 0);
    assert_eq!(place.pay(5, 1, now + 1_000_000_000).0, 1, "who comes later finds what others have paid for");
    // What nobody waited for costs as much as may be, and no more.
    assert_eq!(place.take_items(u64::MAX, 1, now + 1_000_000_000), now + 1_000_000_000 + MOST_AHEAD_NS);
    assert_eq!(read(&place.paid_until_ns), now + 1_000_000_000 + MOST_AHEAD_NS);
    assert!(place.pay(u64::MAX, u64::MAX, now + 60_000_000_000).0 > 0, "and nothing overflows");
}

#[test]
fn a_limit_that_changes_lets_those_who_wait_go() {
    let (place, now) = (Namespace::default(), 5_000_000_000_000);
    place.limit(&Declared { items_per_second: Some(1), ..Declared::default() });
    place.pay(1_000, 1, now);
    place.limit(&Declared { items_per_second: Some(1), ..Declared::default() });
    assert!(read(&place.paid_until_ns) > now);
    place.limit(&Declared { items_per_second: Some(2), ..Declared::default() });
    assert_eq!(read(&place.paid_until_ns), 0);
}
