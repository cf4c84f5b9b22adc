//! Never shown more often than allowed, and less often only at the rate that was promised.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::measure::{Dice, assert_shown};
use bloomgate::Secret;
use bloomgate::math::estimate::within;

use super::cap::{FrequencyCap, Rules};
use super::measured::{MOST, day, row};

const HOUR: Duration = Duration::from_secs(3_600);

fn cap(most: u8, shows: u64, rate: f64) -> FrequencyCap {
    let rules = Rules { most, window: 24 * HOUR, generations: 24, shows, rate };
    FrequencyCap::new(&rules, &Secret::from_bytes([1; 32])).unwrap()
}

/// Five days of offers, some users all the time and others now and then, against a log of every show. The filters are
/// made for far fewer shows than there are, too: then ads are shown less, and still never too often.
#[test]
fn no_ad_is_shown_too_often_in_any_24_hours() {
    for (seed, most, planned) in [(1, 1, 20_000), (2, 3, 20_000), (3, 5, 20_000), (4, 3, 500)] {
        let mut dice = Dice(seed);
        let mut cap = cap(most, planned, 0.01);
        let mut log: HashMap<(u64, u64), VecDeque<Duration>> = HashMap::new();
        let (mut now, mut shown, mut refused) = (Duration::ZERO, 0, 0);
        while now < 120 * HOUR {
            // Sometimes exactly on the hour, where a generation ends.
            now = match dice.below(2_000) {
                0 => Duration::from_secs((now.as_secs() + 1).next_multiple_of(3_600)),
                _ => now + Duration::from_millis(dice.below(10_000)),
            };
            let (user, ad) = (dice.rank(9), dice.below(4));
            let log = log.entry((user, ad)).or_default();
            log.retain(|&at| now - at <= 24 * HOUR);
            if cap.offer(&format!("user-{user}"), &format!("ad-{ad}"), now).unwrap() {
                shown += 1;
                log.push_back(now);
                assert!(log.len() <= usize::from(most), "{user}, {ad}: {log:?}");
            } else {
                refused += 1;
            }
        }
        assert!(shown > 500 && refused > 10_000, "seed {seed}: {shown} shown, {refused} refused");
    }
}

/// The other side: against exact places that are freed as late as the filter may (25 hours), nothing but a wrong "maybe" is
/// missing. At one in a billion that is nothing.
#[test]
fn who_may_see_an_ad_sees_it() {
    let mut dice = Dice(9);
    let mut cap = cap(3, 100_000, 1e-9);
    let mut log: HashMap<u64, VecDeque<Duration>> = HashMap::new();
    let (mut now, mut must) = (Duration::ZERO, 0);
    for _ in 0..60_000 {
        now += Duration::from_millis(dice.below(15_000));
        let user = dice.rank(9);
        let log = log.entry(user).or_default();
        log.retain(|&at| now - at < 25 * HOUR);
        let shown = cap.offer(&user.to_string(), "ad", now).unwrap();
        if log.len() < 3 {
            must += 1;
            assert!(shown, "{user} at {now:?}: {log:?}");
        }
        if shown {
            log.push_back(now);
        }
    }
    assert!(must > 3_000, "{must}");
}

/// What is left is what is then shown, one after the other.
#[test]
fn what_is_left_is_shown() {
    let mut cap = cap(5, 1_000, 0.01);
    assert_eq!(cap.left("u", "a", HOUR).unwrap(), 5);
    for left in (0..5).rev() {
        assert!(cap.offer("u", "a", HOUR).unwrap());
        assert_eq!(cap.left("u", "a", HOUR).unwrap(), left);
    }
    assert!(!cap.offer("u", "a", HOUR).unwrap());
}

/// A show in the last nanosecond of an hour counts for 24 hours, and is over after the 25th; an offer in between changes nothing.
#[test]
fn a_show_counts_for_24_hours_wherever_it_lies_in_an_hour() {
    for before in [0, 1, 3_599_999_999_999u64] {
        let at = 10 * HOUR - Duration::from_nanos(before);
        let mut cap = cap(1, 1_000, 1e-9);
        assert!(cap.offer("first", "ad", Duration::ZERO).unwrap());
        assert!(cap.offer("u", "ad", at).unwrap());
        for later in [Duration::from_nanos(1), HOUR, 23 * HOUR, 24 * HOUR] {
            assert!(!cap.offer("u", "ad", at + later).unwrap(), "{before}, {later:?}");
        }
        assert!(cap.offer("u", "ad", at + 25 * HOUR).unwrap(), "{before}");
    }
}

/// A clock that is set back frees no place.
#[test]
fn a_clock_that_is_set_back_shows_nothing_again() {
    let mut cap = cap(1, 1_000, 1e-9);
    assert!(cap.offer("u", "ad", 100 * HOUR).unwrap());
    for back in [99 * HOUR, 50 * HOUR, Duration::ZERO, 124 * HOUR] {
        assert!(!cap.offer("u", "ad", back).unwrap(), "{back:?}");
    }
    assert!(cap.offer("u", "ad", 125 * HOUR).unwrap());
}

/// Parts never run into each other, whatever is in them.
#[test]
fn users_and_ads_are_never_confused() {
    let mut cap = cap(1, 1_000, 1e-9);
    let pairs =
        [("ab", "c"), ("a", "bc"), ("", "abc"), ("abc", ""), ("a\tb", "c"), ("a", "b\tc"), ("1", "11"), ("11", "1")];
    for (user, ad) in pairs {
        assert!(cap.offer(user, ad, HOUR).unwrap(), "{user:?} {ad:?}");
        assert!(!cap.offer(user, ad, HOUR).unwrap(), "{user:?} {ad:?}");
    }
}

#[test]
fn no_shows_at_all_are_refused_with_what_to_do() {
    let rules = Rules { most: 0, window: 24 * HOUR, generations: 24, shows: 10, rate: 0.01 };
    let refused = FrequencyCap::new(&rules, &Secret::from_bytes([1; 32])).unwrap_err();
    assert!(refused.to_string().contains("1 to 255"), "{refused}");
}

/// Shows that are missed, at the planned number and at twice that: as the filter expects, on both sides; as promised; as the
/// page shows.
#[test]
fn shows_are_missed_at_the_promised_rate() {
    for (planned, load) in [(100_000, 1), (500_000, 1), (100_000, 2)] {
        let day = day(planned, load).unwrap();
        let users: u64 = day.users.iter().sum();
        let places = users * u64::from(MOST);
        assert!(within(places - day.allowed, places, day.expected, 4.5), "{day:?}");
        assert_eq!(day.expected <= day.promised, load == 1, "{day:?}");
        // Each place by itself: three places that look taken are as rare as that.
        let none = day.expected.powi(i32::from(MOST));
        assert!(within(day.users[0], users, none, 4.5), "{day:?}, {none} expected");
        assert_shown(include_str!("../ad-frequency.md"), &row(&day));
    }
}
