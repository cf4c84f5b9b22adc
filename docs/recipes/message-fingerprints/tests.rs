//! Copies are recognised whatever is changed in them, nothing is blocked that was not counted, and alarms are as rare as promised.

use std::time::Duration;

use crate::measure::{Dice, assert_shown};
use bloomgate::Secret;
use bloomgate::math::estimate::within;

use super::bulk::{Detector, Parts, Rules, Verdict};
use super::mail::{Campaign, personal};
use super::measured::{CAMPAIGNS, PERSONAL, RECIPIENTS, hour, row};
use super::normalise::{MOST_BYTES, normalised, shingles};

const HOUR: Duration = Duration::from_secs(3_600);
const PAGE: &str = include_str!("../message-fingerprints.md");

fn rules() -> Rules {
    Rules {
        parts: Parts::Whole,
        least_words: 1,
        alike: 1.0,
        recipients: 3,
        window: HOUR,
        items: 10_000,
        rate: 1e-9,
        stored: 1_000,
    }
}

fn detector(rules: Rules) -> Detector {
    Detector::new(rules, &Secret::from_bytes([1; 32])).unwrap()
}

#[test]
fn copies_have_one_form() {
    let form = "you won $0! claim at <url> before 0:0 - dear customer";
    for message in [
        "You won $5000! Claim at https://a.example/x?id=7 before 10:30 - dear customer",
        "YOU WON $1! claim\n\tat   http://b.example before 9:5 -\r\ndear customer  ",
        "yo\u{200b}u w\u{ad}on $77! Claim at www.c.example/1/2 before 00:00 - Dear\u{feff} Customer",
    ] {
        assert_eq!(normalised(message), form);
    }
    assert_ne!(normalised("you won $1!"), normalised("you lost $1!"));
    assert_eq!(normalised("(https://a.example) link:https://b.example"), "(<url> link:<url>");
    assert_eq!(normalised("tel ٣٤ and 12"), "tel 0 and 0", "digits of every script");
    assert_eq!(normalised("https://a.example/?to=http://b.example and www.c.example"), "<url> and <url>");
    assert_eq!(normalised(" \u{200b}\n"), "");
    // Twice is once: what was normalised stays.
    assert_eq!(normalised(form), form);
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let long = "é".repeat(MOST_BYTES);
    assert_eq!(normalised(&long).len(), MOST_BYTES);
    let odd = format!("a{long}");
    assert_eq!(normalised(&odd).len(), MOST_BYTES - 1);
    assert_eq!(normalised(&format!("{long} other end")), normalised(&long));
}

#[test]
fn a_changed_word_is_in_few_shingles() {
    let text = "one two three four five six seven eight";
    let other = "one two three four FIVE! six seven eight";
    assert_eq!(shingles(text, 3).len(), 6);
    let kept = shingles(other, 3).into_iter().filter(|shingle| shingles(text, 3).contains(shingle)).count();
    assert_eq!(kept, 3);
    assert_eq!(shingles("too short", 3), ["too short"]);
    assert_eq!(shingles("a b c", 3), ["a b c"]);
    assert_eq!(shingles("a b a b a b", 2), ["a b", "b a"]);
    assert_eq!(shingles("a b", 0), ["a b"]);
    assert_eq!(shingles("", 3), [""]);
}

/// With a threshold of three: the first copy is new, three more people are counted, and with the third of them it is bulk.
#[test]
fn bulk_begins_when_the_store_has_counted_enough_people() {
    let mut detector = detector(rules());
    let verdicts: Vec<Verdict> = ["ann", "bob", "cat", "dan", "eve"]
        .into_iter()
        .map(|to| detector.receive(to, "Buy now for $5", Duration::ZERO).unwrap())
        .collect();
    assert_eq!(verdicts, [Verdict::New, Verdict::Repeat, Verdict::Repeat, Verdict::Bulk, Verdict::Bulk]);
    // The same to one person again and again is no bulk.
    for _ in 0..20 {
        assert_ne!(detector.receive("ann", "Are you there?", Duration::ZERO).unwrap(), Verdict::Bulk);
    }
    // Nor is mail of which only the filter has heard.
    assert_eq!(detector.receive("ann", "something else", Duration::ZERO).unwrap(), Verdict::New);
    assert_eq!(detector.stored(), 2);
}

/// Whatever a sender changes, every copy after the first is recognised, all hour long.
#[test]
fn every_copy_is_recognised() {
    for seed in 1..=10 {
        let mut dice = Dice(seed);
        let campaign = Campaign::new(&mut dice);
        let mut detector = detector(rules());
        for copy in 0..200u32 {
            // Up to an hour between two copies.
            let now = if copy < 100 { HOUR / 100 * copy } else { HOUR * (copy - 99) };
            let verdict = detector.receive(&format!("to-{copy}"), &campaign.copy(&mut dice), now).unwrap();
            assert_eq!(verdict == Verdict::New, copy == 0, "seed {seed}, copy {copy}");
            let bulk = (3..=99).contains(&copy);
            assert!(verdict == Verdict::Bulk || !bulk, "seed {seed}, copy {copy}");
        }
    }
}

/// A copy an hour later is recognised wherever in a quarter of the hour the first came; after five quarters it is forgotten.
#[test]
fn the_hour_has_no_gaps() {
    for before in [0, 1, 899_999_999_999u64] {
        let at = HOUR * 3 - Duration::from_nanos(before);
        let start = || {
            let mut detector = detector(rules());
            detector.receive("x", "the clock starts", Duration::ZERO).unwrap();
            assert_eq!(detector.receive("ann", "hello", at).unwrap(), Verdict::New);
            detector
        };
        assert_eq!(start().receive("bob", "hello", at + HOUR).unwrap(), Verdict::Repeat);
        assert_eq!(start().receive("bob", "hello", at + HOUR + HOUR / 4).unwrap(), Verdict::New);
    }
}

/// Set back, the clock stands: nothing is forgotten, and nothing is counted twice.
#[test]
fn a_clock_that_is_set_back_forgets_nothing() {
    let mut detector = detector(rules());
    for to in ["ann", "bob", "cat"] {
        detector.receive(to, "hello", HOUR * 5).unwrap();
    }
    assert_eq!(detector.receive("cat", "hello", HOUR).unwrap(), Verdict::Repeat);
    assert_eq!(detector.receive("dan", "hello", Duration::ZERO).unwrap(), Verdict::Bulk);
}

/// Recipients of an hour ago are counted no more, and the store is emptied of them.
#[test]
fn the_store_forgets_after_the_window() {
    let mut detector = detector(rules());
    for to in ["ann", "bob", "cat"] {
        detector.receive(to, "hello", Duration::ZERO).unwrap();
    }
    assert_eq!(detector.stored(), 1);
    // In the filter for another while, but the two who were counted are out of the window.
    assert_eq!(detector.receive("dan", "hello", HOUR + HOUR / 5).unwrap(), Verdict::Repeat);
    detector.receive("eve", "other", HOUR * 4).unwrap();
    assert_eq!(detector.stored(), 0);
}

/// A store that is full confirms nothing new, and so blocks nothing new; what it has it goes on counting.
#[test]
fn a_full_store_blocks_nothing_new() {
    let mut detector = detector(Rules { stored: 1, ..rules() });
    for to in 0..10 {
        let to = format!("to-{to}");
        detector.receive(&to, "first campaign", Duration::ZERO).unwrap();
        assert_ne!(detector.receive(&to, "second campaign", Duration::ZERO).unwrap(), Verdict::Bulk);
    }
    assert_eq!(detector.receive("last", "first campaign", Duration::ZERO).unwrap(), Verdict::Bulk);
    assert_eq!(detector.stored(), 1);
}

/// By shingles: other mail by the same person is new though it has words in common, an edited copy is not.
#[test]
fn edited_copies_are_recognised_by_their_shingles() {
    let mut dice = Dice(3);
    let rules = Rules { parts: Parts::Shingles(4), alike: 0.6, items: 100_000, stored: 10_000, ..rules() };
    let mut detector = detector(rules);
    let campaign = Campaign::new(&mut dice);
    let mut bulk = 0;
    for copy in 0..40 {
        let verdict = detector.receive(&format!("to-{copy}"), &campaign.edited(&mut dice), Duration::ZERO).unwrap();
        assert_eq!(verdict == Verdict::New, copy == 0, "copy {copy}");
        bulk += u32::from(verdict == Verdict::Bulk);
        assert_eq!(detector.receive("ann", &personal(&mut dice), Duration::ZERO).unwrap(), Verdict::New);
    }
    assert!(bulk >= 35, "{bulk} of 40");
}

/// "Ok" to half of the company, and links without a word: the same by nature, and never bulk.
#[test]
fn short_messages_are_not_judged() {
    let mut detector = detector(Rules { least_words: 3, ..rules() });
    for to in 0..20 {
        for message in ["ok", "Thank you!", "https://a.example/1", "  ", ""] {
            assert_eq!(detector.receive(&format!("to-{to}"), message, HOUR).unwrap(), Verdict::Short, "{message:?}");
        }
    }
    assert_eq!(detector.receive("ann", "now three words", HOUR).unwrap(), Verdict::New);
    assert_eq!(detector.stored(), 0);
}

#[test]
fn senseless_rules_are_refused_with_what_is_allowed() {
    let allowed = [
        (Rules { recipients: 0, ..rules() }, "1 to 1,000"),
        (Rules { recipients: 1_001, ..rules() }, "1 to 1,000"),
        (Rules { alike: 0.0, ..rules() }, "above 0 and up to 1"),
        (Rules { alike: 1.5, ..rules() }, "above 0 and up to 1"),
        (Rules { alike: f64::NAN, ..rules() }, "above 0 and up to 1"),
        (Rules { rate: 0.0, ..rules() }, "rate"),
    ];
    for (rules, allowed) in allowed {
        let refused = Detector::new(rules, &Secret::from_bytes([1; 32])).unwrap_err().to_string();
        assert!(refused.contains(allowed), "{refused}");
    }
}

/// An hour of mail by whole messages: no copy is missed, bulk begins with the copy after the threshold, no personal
/// message is blocked, and those that are looked up are as many as the filter expects, on both sides, and as promised.
#[test]
fn an_hour_by_whole_messages_is_as_the_page_says() {
    let hour = hour(Parts::Whole).unwrap();
    assert_eq!((hour.missed, hour.let_through, hour.blocked), (0, 0, 0), "{hour:?}");
    // One copy earlier where the very first one was taken for a repeat, and counted.
    assert_eq!(hour.caught_at.len(), CAMPAIGNS);
    assert!(hour.caught_at.iter().all(|&copy| (RECIPIENTS..=RECIPIENTS + 1).contains(&copy)), "{hour:?}");
    assert!(within(hour.alarms, PERSONAL, hour.expected, 4.5) && hour.expected <= 0.01, "{hour:?}");
    assert_shown(PAGE, &row("whole messages", &hour));
}

/// The same by shingles, of edited copies: a personal message looks seen only if most of its parts do.
#[test]
fn an_hour_by_shingles_is_as_the_page_says() {
    let hour = hour(Parts::Shingles(4)).unwrap();
    assert_eq!((hour.missed, hour.blocked, hour.alarms), (0, 0, 0), "{hour:?}");
    assert!(hour.caught_at.iter().all(|&copy| (RECIPIENTS + 1..=2 * RECIPIENTS).contains(&copy)), "{hour:?}");
    assert!(hour.expected <= 0.01, "{hour:?}");
    assert_shown(PAGE, &row("four words in a row", &hour));
}
