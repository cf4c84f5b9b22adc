//! Which filter, how large, and whether a filter at all: a pure function from a need to an answer with its reasons.
//!
//! A filter saves the lookups that would find nothing. When few lookups find nothing, when the set is small, or when the
//! question is not "is it there?", something else is better, and [`advise`] says what.
//!
//! ```
//! use bloomgate::Kind;
//! use bloomgate::advice::{Choice, Need, advise};
//! let advice = advise(&Need {
//!     items: Some(50_000_000),
//!     rate: Some(0.01),
//!     absent_share: Some(0.9),
//!     lookup_cost_seconds: Some(0.001),
//!     ..Need::default()
//! })?;
//! assert_eq!(advice.choice, Choice::Filter(Kind::Blocked));
//! assert!(advice.savings.unwrap().worth_it);
//! # Ok::<(), bloomgate::Error>(())
//! ```

mod figures;
mod fitting;
mod sizing;
mod tiers;
mod words;

pub use fitting::misfit;
pub use sizing::{HashSweep, Point, Row, Shape, sweep_hashes, sweep_memory, sweep_overfill, sweep_rate, table};
pub use tiers::{Allocation, Level, Tiers, tiers_at_rate, tiers_in_memory};
pub use words::{Advice, Choice, Growth, Need, Plan, Savings, Wants};

use crate::error::{Error, ErrorKind, Result};
use crate::kind::Kind;
use crate::math::stable;
use figures::{grouped, keys, percent, time};

/// Below this many keys a hash set costs a few hundred kilobytes and is never wrong.
pub const HASH_SET_BELOW: u64 = 10_000;
/// What asking a filter costs when nobody says: a hash and a cache line from memory.
pub const FILTER_COST_SECONDS: f64 = 50e-9;
/// The rate that is planned when none is asked and no memory is given.
pub const USUAL_RATE: f64 = 0.01;
/// More keys than any memory holds at one bit each.
const MOST_ITEMS: u64 = 1 << 56;

#[cold]
pub(crate) fn refuse(message: String) -> Error {
    Error::new(ErrorKind::InvalidParameter, message)
}

/// The rate, if it is one.
///
/// # Errors
/// Anything but a number strictly between 0 and 1, with the value and what was probably meant.
pub fn check_rate(rate: f64) -> Result<f64> {
    if rate > 0.0 && rate < 1.0 {
        return Ok(rate);
    }
    let hint = if (1.0..100.0).contains(&rate) {
        format!("for {rate} % write {}", rate / 100.0)
    } else {
        "for 1 % write 0.01".to_string()
    };
    Err(refuse(format!("a false-positive rate is a number between 0 and 1, both excluded, not {rate}: {hint}")))
}

pub(crate) fn check_items(items: u64) -> Result<u64> {
    if (1..=MOST_ITEMS).contains(&items) {
        return Ok(items);
    }
    Err(refuse(format!("a filter is planned for 1 to 2^56 keys, not {items}: give the number of keys you expect")))
}

/// A quantity that must be a finite number from 0 up to `most`.
fn check_amount(what: &str, amount: Option<f64>, most: f64, example: &str) -> Result<()> {
    match amount {
        Some(x) if !(x >= 0.0 && x <= most) => {
            Err(refuse(format!("{what} must be a number from 0 to {most}, not {x}: {example}")))
        }
        _ => Ok(()),
    }
}

fn check(need: &Need) -> Result<()> {
    need.items.map(check_items).transpose()?;
    need.rate.map(check_rate).transpose()?;
    check_amount("the share of absent lookups", need.absent_share, 1.0, "for 90 % write 0.9")?;
    check_amount("lookups per second", need.lookups_per_second, 1e15, "for ten thousand write 10000")?;
    check_amount("the cost of a lookup in seconds", need.lookup_cost_seconds, 1e9, "for a millisecond write 0.001")?;
    check_amount("the cost of asking the filter in seconds", need.filter_cost_seconds, 1e9, "for 50 ns write 5e-8")?;
    check_amount("the cost of a false positive in seconds", need.false_positive_cost_seconds, 1e9, "for 2 s write 2")?;
    if let Growth::Known { factor } = need.growth
        && !(1.0..=1e9).contains(&factor)
    {
        return Err(refuse(format!("growth must be 1 to 1000000000 times, not {factor}: for twice the keys write 2")));
    }
    if need.memory_bytes == Some(0) {
        return Err(refuse("0 bytes hold no filter: give at least 64, or leave the memory out".to_string()));
    }
    Ok(())
}

/// What to use for this need, how large, and why.
///
/// # Errors
/// A number outside its range, or neither keys nor memory nor unknown growth, so that nothing can be sized.
pub fn advise(need: &Need) -> Result<Advice> {
    check(need)?;
    if let Some(advice) = not_a_membership_question(need) {
        return Ok(advice);
    }
    let headroom = headroom(need);
    let planned = need.items.map(|items| grown(items, headroom)).transpose()?;
    let outgrows = need.growth == Growth::Unknown;
    if let Some(items) = planned.filter(|&items| items < HASH_SET_BELOW && !outgrows) {
        return Ok(alternative(
            Choice::HashSet,
            format!(
                "a hash set holds {} in about {} kB, is never wrong and can list and remove them",
                keys(items),
                (items * 64).div_ceil(1000)
            ),
            format!("when there will be more than {}, or the set is sent to many machines", keys(HASH_SET_BELOW)),
        ));
    }
    let mut reasons = Vec::new();
    let mut when_not = Vec::new();
    let (kind, or_else) = kind_for(need, planned, &mut reasons, &mut when_not);
    let plan = plan_for(need, kind, headroom, planned, &mut reasons)?;
    let or_else = match need.memory_bytes.filter(|_| need.window && need.items.is_none()) {
        Some(memory) => endless(memory, &plan, &mut reasons, &mut when_not).or(or_else),
        None => or_else,
    };
    let savings = savings_for(need, plan.expected_rate);
    if let Some(savings) = savings.as_ref().filter(|savings| !savings.worth_it) {
        return Ok(Advice {
            choice: Choice::NoFilter { why: savings.arithmetic.clone() },
            reasons: vec![format!("a filter would cost more than it saves: {}", savings.arithmetic)],
            when_not: vec![match savings.break_even_absent_share {
                Some(share) => format!("from {} of absent lookups on a filter pays", percent(share)),
                None => "when the lookup that a \"no\" saves becomes dearer".to_string(),
            }],
            plan: None,
            savings: Some(savings.clone()),
            or_else: None,
        });
    }
    if need.untrusted_keys {
        reasons.push(
            "keys come from outside: hash them with a secret (SipHash), or somebody can send keys that all say \"maybe\""
                .to_string(),
        );
    }
    let choice = if need.must_be_right {
        reasons.push(
            "the decision must be right: take \"no\" from the filter, and confirm every \"maybe\" with the truth"
                .to_string(),
        );
        Choice::TwoPhase(kind)
    } else {
        when_not.push("when a wrong \"maybe\" does harm and nothing confirms it".to_string());
        Choice::Filter(kind)
    };
    Ok(Advice { choice, reasons, when_not, plan: Some(plan), savings, or_else })
}

fn alternative(choice: Choice, reason: String, when_not: String) -> Advice {
    Advice { choice, reasons: vec![reason], when_not: vec![when_not], plan: None, savings: None, or_else: None }
}

/// The questions that no membership filter answers.
fn not_a_membership_question(need: &Need) -> Option<Advice> {
    let (choice, reason, when_not) = match need.wants {
        Wants::DistinctCount => (
            Choice::HyperLogLog,
            "counting distinct keys needs no filter: a HyperLogLog of 12 kB counts billions to 1 %",
            "when single keys are asked for as well: a filter estimates its number of keys on the side",
        ),
        Wants::Listing => (
            Choice::SortedFile,
            "a filter forgets its keys and cannot list them: keep them sorted in a file or a table",
            "when the list is only ever asked \"is it there?\"",
        ),
        Wants::ExactCounts => (
            Choice::CountTable,
            "a filter cannot count exactly: counters are shared by keys and only err upwards; keep a table of counts",
            "when a count that is sometimes too high is good enough",
        ),
        Wants::Membership if need.dense_integers => (
            Choice::Bitmap,
            "integers close together cost about a bit each in a bitmap (Roaring), which is exact, removes and lists",
            "when the integers are spread over 64 bits, such as random ids or hashes",
        ),
        Wants::Membership => return None,
    };
    Some(alternative(choice, reason.to_string(), when_not.to_string()))
}

/// Room for growth in a filter that cannot grow.
fn headroom(need: &Need) -> f64 {
    match need.growth {
        Growth::Fixed => 1.0,
        Growth::Some => 1.5,
        Growth::Known { factor } => factor,
        Growth::Unknown if need.window => 3.0,
        Growth::Unknown => 1.0,
    }
}

fn grown(items: u64, headroom: f64) -> Result<u64> {
    check_items((items as f64 * headroom).ceil() as u64)
}

/// The kind, and another one that is close.
fn kind_for(
    need: &Need,
    planned: Option<u64>,
    reasons: &mut Vec<String>,
    when_not: &mut Vec<String>,
) -> (Kind, Option<Kind>) {
    let mut say = |reason: &str, not: &str| {
        reasons.push(reason.to_string());
        when_not.push(not.to_string());
    };
    if need.window {
        say(
            "only the recent past counts: the generations of a rotating filter age out one after the other",
            "when every key has its own time to live",
        );
        return (Kind::Rotating, None);
    }
    if need.deletes {
        say(
            "keys are removed one by one: a cuckoo filter keeps fingerprints, which can be taken out again, in about the \
             bits of a plain filter",
            "when keys may be removed that were never added: that would make a \"no\" wrong",
        );
        if need.growth == Growth::Unknown {
            say(
                "nobody knows how many keys will come: a chain of cuckoo tables grows and keeps the rate",
                "when the number of keys is known within a factor of 3: one table of the right size is smaller",
            );
            return (Kind::GrowingCuckoo, Some(Kind::Quotient));
        }
        return (Kind::Cuckoo, Some(Kind::Counting));
    }
    if need.growth == Growth::Unknown {
        say(
            "nobody knows how many keys will come: a chain of stages grows and keeps the rate over the whole chain",
            "when the number of keys is known within a factor of 3: one filter of the right size is smaller and faster",
        );
        return (Kind::Scalable, None);
    }
    if need.static_set && need.growth == Growth::Fixed {
        if need.smallest_first {
            say(
                "all keys are known and bits come first: a ribbon filter takes within 1 % of the least there is",
                "when it is built often: fuse builds in a third of the time",
            );
            return (Kind::Ribbon, Some(Kind::Fuse));
        }
        say(
            "all keys are known before it is built: a fuse filter takes a fifth fewer bits than a Bloom filter",
            "when a key may be added later: it would have to be built again from all keys",
        );
        return (Kind::Fuse, Some(Kind::Ribbon));
    }
    let fits = |kind, items, rate| match need.memory_bytes {
        Some(memory) => Shape::of(kind, items, rate).is_some_and(|shape| shape.bytes() <= memory),
        None => true,
    };
    let tight = match (planned, need.rate) {
        (Some(items), Some(rate)) => !fits(Kind::Blocked, items, rate) && fits(Kind::Classic, items, rate),
        _ => false,
    };
    if need.smallest_first || tight {
        say(
            if tight {
                "the classic filter fits the memory at this rate and the blocked one does not"
            } else {
                "fewest bits first: classic needs 5 % fewer than blocked at 1 %, 10 % fewer at 0.1 %"
            },
            "when speed matters: its probes touch several cache lines",
        );
        return (Kind::Classic, None);
    }
    let smaller = need.memory_bytes.is_some().then_some(Kind::Classic);
    say(
        "many lookups: a blocked filter reads one cache line a key (more only below a rate of 0.03 %)",
        "when the last 5 to 10 % of memory matter more than speed: classic",
    );
    (Kind::Blocked, smaller)
}

/// A stream without end in a memory that has one: a ring keeps its rate while a window brings no more keys than it is
/// made for; a stable filter is never full, and its "no" proves nothing.
fn endless(memory: u64, plan: &Plan, reasons: &mut Vec<String>, when_not: &mut Vec<String>) -> Option<Kind> {
    reasons.push(format!(
        "a ring finds every key of its window whatever comes, and keeps its rate while a window brings at most {}",
        keys(plan.items)
    ));
    let lines = stable::lines_for(plan.rate);
    let round = stable::round_for(memory / 64 / u64::from(lines), lines, plan.rate);
    if round == 0 {
        return None;
    }
    when_not.push(format!(
        "when nobody knows how many keys a window brings: a stable filter is never full, keeps {} for ever and \
         remembers the last {} insertions, but its \"no\" means \"not seen lately\" and proves nothing",
        percent(plan.rate),
        grouped(round.saturating_mul(stable::TOP - 1))
    ));
    Some(Kind::Stable)
}

/// Sizes the filter by whichever of keys, rate and memory are given.
fn plan_for(need: &Need, kind: Kind, headroom: f64, planned: Option<u64>, reasons: &mut Vec<String>) -> Result<Plan> {
    let rate = need.rate.unwrap_or(USUAL_RATE);
    let shape_of = |items: u64, rate: f64| {
        Shape::of(kind, items, rate).ok_or_else(|| refuse(format!("a {kind} filter is not sized by keys and rate")))
    };
    let items = match (planned, need.memory_bytes) {
        (Some(items), _) => items,
        (None, Some(memory)) => {
            let items = most_items(kind, rate, memory)?;
            reasons.push(format!("{} bytes hold {} at a rate of {}", grouped(memory), keys(items), percent(rate)));
            items
        }
        (None, None) if need.growth == Growth::Unknown => {
            reasons.push(format!("no number of keys given: the first stage holds {}", grouped(HASH_SET_BELOW)));
            HASH_SET_BELOW
        }
        (None, None) => {
            return Err(refuse(
                "nothing to size by: give the number of keys (such as 1000000), or the memory in bytes, or say that \
                 growth is unknown"
                    .to_string(),
            ));
        }
    };
    let mut shape = shape_of(items, rate)?;
    let (mut promised, mut fits) = (rate, true);
    if let Some(memory) = need.memory_bytes.filter(|&memory| planned.is_some() && memory != shape.bytes()) {
        if need.rate.is_none() || shape.bytes() > memory {
            fits = shape.bytes() <= memory;
            promised = best_rate(kind, items, memory)?;
            shape = shape_of(items, promised)?;
            reasons.push(format!("{} bytes give {} a rate of {}", grouped(memory), keys(items), percent(promised)));
            fits |= need.rate.is_none();
        }
    } else if need.rate.is_none() {
        reasons.push(format!(
            "no rate given: planned for {}, one absent key in a hundred gets through",
            percent(USUAL_RATE)
        ));
    }
    Ok(Plan {
        items,
        headroom,
        rate: promised,
        shape,
        bits_per_key: shape.bits as f64 / items as f64,
        expected_rate: shape.rate_at(items, promised).unwrap_or(promised),
        fits,
        keyed: need.untrusted_keys,
    })
}

/// The most keys that fit the memory at this rate.
fn most_items(kind: Kind, rate: f64, memory: u64) -> Result<u64> {
    let fits = |items| Shape::of(kind, items, rate).is_some_and(|shape| shape.bytes() <= memory);
    let (mut low, mut high) = (0, memory.saturating_mul(64).min(MOST_ITEMS));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    if low == 0 {
        return Err(refuse(format!(
            "{memory} bytes hold no key at a rate of {rate}: give at least 64 bytes, or 256 for counters"
        )));
    }
    Ok(low)
}

/// The lowest rate that fits the memory for so many keys.
fn best_rate(kind: Kind, items: u64, memory: u64) -> Result<f64> {
    let fits = |rate| Shape::of(kind, items, rate).is_some_and(|shape| shape.bytes() <= memory);
    lowest(1e-15, 0.99, fits).ok_or_else(|| {
        refuse(format!(
            "{memory} bytes are too few for {items} keys at any rate: give at least {} bytes (a rate of 0.1)",
            Shape::of(kind, items, 0.1).map_or(0, |shape| shape.bytes())
        ))
    })
}

/// The lowest number from `low` to `high` that fits, by halving its logarithm, if larger ones always do; nothing if not
/// even `high` does.
fn lowest(low: f64, high: f64, fits: impl Fn(f64) -> bool) -> Option<f64> {
    if !fits(high) {
        return None;
    }
    let (mut low, mut high) = (low.ln(), high.ln());
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        *(if fits(middle.exp()) { &mut high } else { &mut low }) = middle;
    }
    Some(high.exp())
}

/// What a filter of this rate saves: each absent key that gets a "no" saves a lookup, each lookup pays for the filter.
fn savings_for(need: &Need, rate: f64) -> Option<Savings> {
    let (absent, lookup) = (need.absent_share?, need.lookup_cost_seconds?);
    let filter = need.filter_cost_seconds.unwrap_or(FILTER_COST_SECONDS);
    let wrong = need.false_positive_cost_seconds.unwrap_or(0.0);
    let per_second = need.lookups_per_second.unwrap_or(1.0);
    let avoided = absent * (1.0 - rate);
    let false_positives = absent * rate;
    let saved = avoided * lookup - false_positives * wrong - filter;
    // What one absent lookup is worth, before the filter is paid.
    let worth = (1.0 - rate) * lookup - rate * wrong;
    let break_even = if worth > 0.0 { Some(filter / worth).filter(|&share| share <= 1.0) } else { None };
    let mut arithmetic = match avoided {
        0.0 => "no lookup avoided".to_string(),
        _ => format!("{} of lookups avoided x {}", percent(avoided), time(lookup)),
    };
    if false_positives * wrong > 0.0 {
        arithmetic += &format!(" - {} false positives x {}", percent(false_positives), time(wrong));
    }
    arithmetic += &format!(
        " - {} for the filter = {} {} per lookup; pays from {} of absent lookups",
        time(filter),
        time(saved.abs()),
        if saved < 0.0 { "lost" } else { "saved" },
        break_even.map_or("no share".to_string(), percent),
    );
    Some(Savings {
        lookups_per_second: per_second,
        avoided_per_second: avoided * per_second,
        false_positives_per_second: false_positives * per_second,
        saved_seconds_per_second: saved * per_second,
        break_even_absent_share: break_even,
        worth_it: saved > 0.0,
        arithmetic,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn million() -> Need {
        Need { items: Some(1_000_000), rate: Some(0.01), ..Need::default() }
    }

    fn chosen(need: Need) -> Choice {
        let advice = advise(&need).unwrap();
        assert!(!advice.reasons.is_empty() && !advice.when_not.is_empty(), "{advice:?}");
        let filter = matches!(advice.choice, Choice::Filter(_) | Choice::TwoPhase(_));
        assert_eq!(advice.plan.is_some(), filter, "{advice:?}");
        advice.choice
    }

    #[test]
    fn every_rule_has_its_answer() {
        use Choice::{Filter, TwoPhase};
        assert_eq!(chosen(million()), Filter(Kind::Blocked));
        assert_eq!(chosen(Need { items: Some(9_999), ..million() }), Choice::HashSet);
        assert_eq!(chosen(Need { items: Some(10_000), ..million() }), Filter(Kind::Blocked));
        let growing = Need { items: Some(9_999), growth: Growth::Some, ..million() };
        assert_eq!(chosen(growing), Filter(Kind::Blocked));
        assert_eq!(chosen(Need { dense_integers: true, ..million() }), Choice::Bitmap);
        assert_eq!(chosen(Need { wants: Wants::DistinctCount, ..million() }), Choice::HyperLogLog);
        assert_eq!(chosen(Need { wants: Wants::Listing, ..million() }), Choice::SortedFile);
        assert_eq!(chosen(Need { wants: Wants::ExactCounts, ..million() }), Choice::CountTable);
        assert_eq!(chosen(Need { must_be_right: true, ..million() }), TwoPhase(Kind::Blocked));
        assert_eq!(chosen(Need { deletes: true, ..million() }), Filter(Kind::Cuckoo));
        let growing = Need { deletes: true, growth: Growth::Unknown, ..million() };
        assert_eq!(chosen(growing), Filter(Kind::GrowingCuckoo));
        assert_eq!(chosen(Need { static_set: true, ..million() }), Filter(Kind::Fuse));
        let least = Need { static_set: true, smallest_first: true, ..million() };
        assert_eq!(chosen(least), Filter(Kind::Ribbon));
        assert_eq!(chosen(Need { window: true, ..million() }), Filter(Kind::Rotating));
        assert_eq!(chosen(Need { growth: Growth::Unknown, ..million() }), Filter(Kind::Scalable));
        assert_eq!(chosen(Need { growth: Growth::Unknown, ..Need::default() }), Filter(Kind::Scalable));
        assert_eq!(chosen(Need { smallest_first: true, ..million() }), Filter(Kind::Classic));
        // 1 M keys at 1 %: blocked needs 1.264 MB, classic 1.199 MB.
        assert_eq!(chosen(Need { memory_bytes: Some(1_210_000), ..million() }), Filter(Kind::Classic));
    }

    #[test]
    fn a_close_second_is_named() {
        let second = |need: Need| advise(&need).unwrap().or_else;
        assert_eq!(second(Need { static_set: true, ..million() }), Some(Kind::Ribbon));
        assert_eq!(second(Need { deletes: true, ..million() }), Some(Kind::Counting));
        assert_eq!(second(million()), None);
    }

    #[test]
    fn growth_is_room() {
        let planned = |growth, deletes| advise(&Need { growth, deletes, ..million() }).unwrap().plan.unwrap();
        assert_eq!(planned(Growth::Fixed, false).items, 1_000_000);
        assert_eq!(planned(Growth::Some, false).items, 1_500_000);
        assert_eq!(planned(Growth::Known { factor: 4.0 }, false).items, 4_000_000);
        assert_eq!(planned(Growth::Unknown, false).shape.kind, Kind::Scalable);
        let cuckoo = planned(Growth::Unknown, true);
        assert_eq!((cuckoo.items, cuckoo.shape.kind), (1_000_000, Kind::GrowingCuckoo));
    }

    #[test]
    fn golden_figures() {
        let need = Need { items: Some(1_000_000), rate: Some(0.001), smallest_first: true, ..Need::default() };
        let plan = advise(&need).unwrap().plan.unwrap();
        assert_eq!((plan.shape.bits, plan.shape.probes), (14_377_588, 10));
        let need = Need { items: Some(200_000_000), rate: Some(0.005), smallest_first: true, ..Need::default() };
        let megabytes = advise(&need).unwrap().plan.unwrap().shape.bytes() as f64 / 1e6;
        assert!((megabytes - 276.0).abs() < 1.0, "{megabytes}");
        let plan =
            advise(&Need { items: Some(10_000_000), rate: Some(0.01), ..Need::default() }).unwrap().plan.unwrap();
        assert!((plan.bits_per_key - 10.114).abs() < 0.002 && plan.fits && !plan.keyed);
        assert!(plan.expected_rate <= 0.01 * 1.0001 && plan.expected_rate > 0.0099);
    }

    #[test]
    fn savings_are_the_sum_they_say() {
        let need = Need {
            absent_share: Some(0.9),
            lookups_per_second: Some(100_000.0),
            lookup_cost_seconds: Some(0.001),
            false_positive_cost_seconds: Some(0.002),
            ..million()
        };
        let savings = advise(&need).unwrap().savings.unwrap();
        assert!((savings.avoided_per_second - 89_100.0).abs() < 2.0, "{savings:?}");
        assert!((savings.false_positives_per_second - 900.0).abs() < 2.0);
        // 89.1 s of lookups - 1.8 s of false positives - 0.005 s of filter, each second.
        assert!((savings.saved_seconds_per_second - 87.295).abs() < 0.01);
        // 50 ns / (0.99 ms - 0.02 ms)
        assert!((savings.break_even_absent_share.unwrap() - 5.1546e-5).abs() < 1e-8);
        assert!(savings.worth_it);
        assert_eq!(
            savings.arithmetic,
            "89.1 % of lookups avoided x 1 ms - 0.9 % false positives x 2 ms - 50 ns for the filter = 873 us saved per \
             lookup; pays from 0.00515 % of absent lookups"
        );
        let dear = Need {
            absent_share: Some(0.05),
            lookup_cost_seconds: Some(0.1 * 1e-6),
            false_positive_cost_seconds: None,
            ..need
        };
        let savings = advise(&dear).unwrap().savings.unwrap();
        assert!(!savings.worth_it);
        assert_eq!(
            savings.arithmetic,
            "4.95 % of lookups avoided x 100 ns - 50 ns for the filter = 45 ns lost per lookup; pays from 50.5 % of \
             absent lookups"
        );
        assert_eq!(advise(&million()).unwrap().savings, None);
    }

    #[test]
    fn not_worth_it_comes_with_figures() {
        // A lookup of 200 ns, and one in ten absent: 20 ns saved for 50 ns paid.
        let need = Need { absent_share: Some(0.1), lookup_cost_seconds: Some(200e-9), ..million() };
        let advice = advise(&need).unwrap();
        assert!(matches!(&advice.choice, Choice::NoFilter { why } if why.contains("lost per lookup")), "{advice:?}");
        let savings = advice.savings.unwrap();
        assert!(!savings.worth_it && savings.saved_seconds_per_second < 0.0);
        let share = savings.break_even_absent_share.unwrap();
        assert!((share - 50.0 / 198.0).abs() < 1e-3, "{share}");
        // Just above break-even it pays.
        let above = Need { absent_share: Some(share * 1.01), ..need.clone() };
        assert_eq!(advise(&above).unwrap().choice, Choice::Filter(Kind::Blocked));
        // A lookup cheaper than the filter never pays.
        let never = Need { absent_share: Some(1.0), lookup_cost_seconds: Some(10e-9), ..need };
        let savings = advise(&never).unwrap().savings.unwrap();
        assert!(!savings.worth_it && savings.break_even_absent_share.is_none());
    }

    #[test]
    fn memory_sizes_what_is_left_open() {
        let memory = Need { memory_bytes: Some(1_000_000), rate: Some(0.01), ..Need::default() };
        let plan = advise(&memory).unwrap().plan.unwrap();
        assert!((plan.items as f64 - 8e6 / 10.114).abs() < 2000.0 && plan.shape.bytes() <= 1_000_000, "{plan:?}");
        // Keys and memory: the rate follows.
        let keys = Need { items: Some(1_000_000), memory_bytes: Some(2_000_000), ..Need::default() };
        let plan = advise(&keys).unwrap().plan.unwrap();
        assert!(plan.fits && plan.shape.bytes() <= 2_000_000 && plan.rate < 0.0011 && plan.rate > 0.0007, "{plan:?}");
        // All three, and they do not go together: the best that fits, and it says so.
        let both = Need { rate: Some(1e-6), ..keys };
        let plan = advise(&both).unwrap().plan.unwrap();
        assert!(!plan.fits && plan.rate > 1e-6 && plan.shape.bytes() <= 2_000_000, "{plan:?}");
        assert!(advise(&Need { memory_bytes: Some(10), rate: Some(0.01), ..Need::default() }).is_err());
        assert!(advise(&Need { items: Some(1 << 40), memory_bytes: Some(64), ..Need::default() }).is_err());
    }

    #[test]
    fn an_endless_stream_may_be_forgotten_slowly() {
        let stream = Need { window: true, memory_bytes: Some(64_000_000), rate: Some(0.01), ..Need::default() };
        let advice = advise(&stream).unwrap();
        assert_eq!((advice.choice, advice.or_else), (Choice::Filter(Kind::Rotating), Some(Kind::Stable)));
        let stable = crate::Stable::builder().bytes(64_000_000).rate(0.01).build().unwrap();
        let remembered = format!("the last {} insertions", grouped(stable.capacity()));
        assert!(advice.when_not.iter().any(|when| when.contains(&remembered)), "{remembered}: {:?}", advice.when_not);
        // Where the keys of a window are known, the ring is made for them.
        assert_eq!(advise(&Need { items: Some(1_000_000), ..stream }).unwrap().or_else, None);
    }

    #[test]
    fn untrusted_keys_want_a_secret() {
        let advice = advise(&Need { untrusted_keys: true, ..million() }).unwrap();
        assert!(advice.plan.unwrap().keyed && advice.reasons.iter().any(|reason| reason.contains("secret")));
    }

    #[test]
    fn refusals_name_the_value_and_give_an_example() {
        for (rate, shown, example) in [
            (0.0, "not 0:", "0.01"),
            (1.0, "not 1:", "for 1 % write 0.01"),
            (5.0, "not 5:", "for 5 % write 0.05"),
            (-0.5, "not -0.5:", "0.01"),
            (f64::NAN, "not NaN:", "0.01"),
            (f64::INFINITY, "not inf:", "0.01"),
        ] {
            let error = advise(&Need { rate: Some(rate), ..million() }).unwrap_err();
            let message = error.to_string();
            assert_eq!(error.kind(), ErrorKind::InvalidParameter);
            assert!(message.contains(shown) && message.contains(example), "{message}");
        }
        for need in [
            Need { items: Some(0), ..million() },
            Need { items: Some(u64::MAX), ..million() },
            Need { absent_share: Some(90.0), ..million() },
            Need { absent_share: Some(f64::NAN), ..million() },
            Need { lookup_cost_seconds: Some(-1.0), ..million() },
            Need { lookups_per_second: Some(f64::INFINITY), ..million() },
            Need { growth: Growth::Known { factor: 0.5 }, ..million() },
            Need { growth: Growth::Known { factor: f64::NAN }, ..million() },
            Need { memory_bytes: Some(0), ..million() },
            Need::default(),
        ] {
            let error = advise(&need).unwrap_err();
            assert!(error.to_string().contains(": "), "{error}");
        }
    }
}
