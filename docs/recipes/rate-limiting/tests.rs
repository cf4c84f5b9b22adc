//! The limit is never passed, who stays below it is never turned away, and a first visit costs what was promised.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use crate::measure::{Dice, assert_shown};
use bloomgate::Secret;
use bloomgate::math::estimate::within;

use super::limiter::{Limiter, Limits, Verdict, visitor};
use super::measured::{address, flood, row, ten_million};

const WINDOW: Duration = Duration::from_secs(60);
/// A quarter of the window: so much longer something may be kept.
const SLICE: Duration = Duration::from_secs(15);

fn limiter(visits: u32, rate: f64) -> Limiter {
    let limits = Limits { visits, window: WINDOW, visitors: 1_000, rate, counters: 10_000 };
    Limiter::new(limits, &Secret::from_bytes([1; 32])).unwrap()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Visitors of every habit (once a minute, steadily, in bursts, all the time) for 30 windows, against a log of every
/// visit that passed. At a rate of 20 % a fifth of all first visits is taken for a repeat: even then nobody passes too often.
#[test]
fn nobody_passes_more_often_than_the_limit_in_any_window() {
    for (seed, visits, rate) in [(1, 2, 0.01), (2, 3, 0.2), (3, 5, 0.01), (4, 5, 0.2), (5, 20, 1e-6)] {
        let mut dice = Dice(seed);
        let mut limiter = limiter(visits, rate);
        let mut passed: HashMap<u32, VecDeque<Duration>> = HashMap::new();
        let (mut over, mut first) = (0, 0);
        let mut now = seconds(1_000);
        while now < seconds(1_000) + 30 * WINDOW {
            // Mostly milliseconds, sometimes to the nanosecond on the edge of a slice.
            now = match dice.below(500) {
                0 => Duration::from_nanos((now.as_nanos() as u64).next_multiple_of(SLICE.as_nanos() as u64)),
                _ => now + Duration::from_nanos(dice.below(40_000_000)),
            };
            // Visitor n comes half as often as visitor n/2: those at the end once in a while.
            let who = dice.rank(10) as u32;
            let verdict = limiter.visit(address(who), now).unwrap();
            let log = passed.entry(who).or_default();
            log.retain(|&at| now - at <= WINDOW);
            if verdict.passes() {
                log.push_back(now);
                assert!(log.len() <= visits as usize, "{who} passed {} times in {log:?}, limit {visits}", log.len());
            } else {
                over += 1;
            }
            if verdict == Verdict::First {
                first += 1;
                assert_eq!(log.len(), 1, "{who} was told to be new at {now:?}");
            }
        }
        assert!(over > 1_000 && first > 500, "seed {seed}: {over} turned away, {first} first visits");
    }
}

/// One visit fewer than the limit in the time that something is kept at most: such a visitor always passes, whatever the
/// filter takes it for.
#[test]
fn who_stays_below_the_limit_is_never_turned_away() {
    for (seed, rate) in [(1, 0.01), (2, 0.3)] {
        let mut dice = Dice(seed);
        let mut limiter = limiter(5, rate);
        let mut passed: HashMap<u32, VecDeque<Duration>> = HashMap::new();
        let (mut now, mut visits) = (seconds(0), 0);
        for _ in 0..200_000 {
            now += Duration::from_millis(dice.below(30));
            let who = dice.rank(10) as u32;
            let log = passed.entry(who).or_default();
            log.retain(|&at| now - at < WINDOW + SLICE);
            if log.len() < 4 {
                log.push_back(now);
                visits += 1;
                assert!(limiter.visit(address(who), now).unwrap().passes(), "{who} at {now:?}: {log:?}");
            }
        }
        assert!(visits > 50_000, "{visits}");
    }
}

/// The one visit that a wrong "maybe" costs: who is taken for somebody else has a visit less, in the first window.
#[test]
fn a_wrong_maybe_costs_a_counter_and_one_visit() {
    let mut limiter = limiter(5, 0.3);
    let mut passes = [0u64; 6];
    for who in 0..20_000 {
        // At the pace that it was made for: 1,000 a minute.
        let now = Duration::from_millis(60) * who;
        let verdicts: Vec<Verdict> = (0..8).map(|_| limiter.visit(address(who), now).unwrap()).collect();
        let passed = verdicts.iter().filter(|verdict| verdict.passes()).count();
        assert_eq!(passed, if verdicts[0] == Verdict::First { 5 } else { 4 }, "{verdicts:?}");
        passes[passed] += 1;
    }
    assert!(passes[4] > 1_000 && passes[5] > 10_000, "{passes:?}");
}

/// A visit at the very end of a generation, and at its very beginning, is still known when the window ends; and both are
/// forgotten a generation later.
#[test]
fn a_visit_is_seen_for_the_whole_window_wherever_it_lies_in_a_generation() {
    let edge = seconds(600);
    for before in [0u64, 1, 1_000, 14_999_999_999] {
        let at = edge - Duration::from_nanos(before);
        let start = |limiter: &mut Limiter| {
            // The clock starts at an edge.
            limiter.visit(address(0), seconds(0)).unwrap();
            assert_eq!(limiter.visit(address(1), at).unwrap(), Verdict::First);
        };
        for later in [Duration::from_nanos(1), SLICE, WINDOW - Duration::from_nanos(1), WINDOW] {
            let mut limiter = limiter(3, 1e-9);
            start(&mut limiter);
            assert_eq!(limiter.visit(address(1), at + later).unwrap(), Verdict::Within(2), "{before} ns, {later:?}");
            // And so are the visits that are counted.
            assert_eq!(limiter.visit(address(1), at + later).unwrap(), Verdict::Within(3));
            assert_eq!(limiter.visit(address(1), at + later + WINDOW).unwrap(), Verdict::Over);
            assert_eq!(limiter.visit(address(1), at + later + WINDOW + SLICE).unwrap(), Verdict::First);
        }
        let mut limiter = limiter(3, 1e-9);
        start(&mut limiter);
        assert_eq!(limiter.visit(address(1), at + WINDOW + SLICE).unwrap(), Verdict::First);
    }
}

/// A clock that is set back: nothing is forgotten, nobody passes again, and time goes on where it was.
#[test]
fn a_clock_that_is_set_back_lets_nobody_through() {
    let mut limiter = limiter(3, 1e-9);
    let at = seconds(7_200);
    assert_eq!(limiter.visit(address(2), at).unwrap(), Verdict::First);
    let counted: Vec<Verdict> = (0..4).map(|_| limiter.visit(address(1), at).unwrap()).collect();
    assert_eq!(counted, [Verdict::First, Verdict::Within(2), Verdict::Within(3), Verdict::Over]);
    for back in [seconds(7_199), seconds(7_100), seconds(3_600), seconds(0), seconds(5), at + WINDOW] {
        assert_eq!(limiter.visit(address(1), back).unwrap(), Verdict::Over, "{back:?}");
    }
    // Who was in the filter alone is still known after all that.
    assert_eq!(limiter.visit(address(2), seconds(0)).unwrap(), Verdict::Within(2));
    assert_eq!(limiter.visit(address(1), at + WINDOW + SLICE).unwrap(), Verdict::First);
}

/// The number of counters is bounded; who has one keeps it, who comes for the first time passes, and room comes back.
#[test]
fn no_more_counters_than_allowed() {
    let limits = Limits { visits: 3, window: WINDOW, visitors: 1_000, rate: 1e-9, counters: 10 };
    let mut limiter = Limiter::new(limits, &Secret::from_bytes([1; 32])).unwrap();
    for who in 0..30 {
        assert_eq!(limiter.visit(address(who), seconds(1)).unwrap(), Verdict::First);
    }
    for who in 0..30 {
        let expected = if who < 10 { Verdict::Within(2) } else { Verdict::Crowded };
        assert_eq!(limiter.visit(address(who), seconds(2)).unwrap(), expected, "{who}");
    }
    assert_eq!(limiter.counters(), 10);
    assert_eq!(limiter.visit(address(3), seconds(3)).unwrap(), Verdict::Within(3));
    assert_eq!(limiter.visit(address(99), seconds(70)).unwrap(), Verdict::First);
    assert_eq!(limiter.visit(address(99), seconds(78)).unwrap(), Verdict::Within(2));
    assert_eq!(limiter.counters(), 1, "the counters of the others are over");
}

#[test]
fn a_visitor_is_an_ipv4_address_or_64_bits_of_an_ipv6_address() {
    let who = |text: &str| visitor(text.parse::<IpAddr>().unwrap());
    assert_eq!(who("192.0.2.7"), who("::ffff:192.0.2.7"));
    assert_ne!(who("192.0.2.7"), who("192.0.2.8"));
    assert_eq!(who("2001:db8:1:2::1"), who("2001:db8:1:2:ffff::9"));
    assert_ne!(who("2001:db8:1:2::1"), who("2001:db8:1:3::1"));
    assert_ne!(who("::1"), who("0.0.0.1"));
}

#[test]
fn a_limit_of_one_is_refused_with_what_to_do() {
    let limits = Limits { visits: 1, window: WINDOW, visitors: 1_000, rate: 0.01, counters: 10 };
    let refused = Limiter::new(limits, &Secret::from_bytes([1; 32])).unwrap_err();
    assert!(refused.to_string().contains("take the filter alone"), "{refused}");
}

/// A million addresses that come once: what the page shows, and at the rate that was promised, on both sides.
#[test]
fn first_visits_cost_a_counter_at_the_promised_rate() {
    for visitors in [100_000, 1_000_000] {
        let flood = flood(visitors).unwrap();
        assert!(within(flood.counted, flood.visitors, flood.expected, 4.5), "{flood:?}");
        assert!(flood.expected <= flood.promised, "{flood:?}");
        assert!((flood.filter_bytes + flood.counter_bytes) * 15 < flood.exact_bytes, "{flood:?}");
        assert_shown(include_str!("../rate-limiting.md"), &row(&flood));
    }
    assert_shown(include_str!("../rate-limiting.md"), &ten_million().unwrap());
}
