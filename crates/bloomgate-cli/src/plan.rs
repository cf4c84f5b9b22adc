//! `bloomgate plan`: which filter, how large, what it saves, and the command that builds it.

use std::io::Write;

use bloomgate::Kind;
use bloomgate::advice::{self, Advice, Choice, Growth, Need, Plan, Point, Row, Wants};

use crate::failure::{DONE, Failure, Outcome};
use crate::json::{self, Object};
use crate::screen::{self, DIM, HEAD, STRONG, WARN, paint, wrapped};
use crate::{number, plot};

/// Choose and size a filter, or learn that something else is better
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate plan --items 10M --rate 1%
  bloomgate plan --items 10M --memory 8MB            the best rate that fits
  bloomgate plan --memory 64MB --rate 0.001          the most keys that fit
  bloomgate plan --items 1M --deletes --growth some
  bloomgate plan --items 50M --absent-share 90% --lookup-cost 2ms --lookups-per-second 20k

Numbers: 1000000, 1e6, 10M. Sizes: 64MB is 64,000,000 bytes, 1GiB is 2^30. Rates: 0.01 or 1%. Times: 50us, 2ms.

Exit codes: 0 a plan was made, 2 error.")]
pub struct Args {
    /// Keys in the set today
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true)]
    items: Option<u64>,
    /// False positives wanted: the share of absent keys that may get a "maybe" [default: 1%, unless --memory decides]
    #[arg(long, value_name = "P", value_parser = number::rate, allow_negative_numbers = true)]
    rate: Option<f64>,
    /// Memory the filter may use, such as 64MB
    #[arg(long, value_name = "SIZE", value_parser = number::size, allow_negative_numbers = true)]
    memory: Option<u64>,
    /// How the set grows: fixed, some (1.5 times), unknown, or a factor such as 4
    #[arg(long, value_name = "HOW", value_parser = growth, default_value = "fixed", allow_negative_numbers = true)]
    growth: Growth,
    /// Keys must be removed one by one
    #[arg(long)]
    deletes: bool,
    /// Only the recent past counts: old keys shall be forgotten
    #[arg(long)]
    window: bool,
    /// All keys are known before the filter is built, and none is ever added
    #[arg(long = "static")]
    static_set: bool,
    /// Keys are integers that lie close together, such as ids from a sequence
    #[arg(long)]
    dense_integers: bool,
    /// Keys come from people who might choose them to do harm
    #[arg(long)]
    untrusted: bool,
    /// A decision hangs on the answer that must not be wrong
    #[arg(long)]
    must_be_right: bool,
    /// What you want to know: membership, distinct-count, listing or exact-counts
    #[arg(long, value_name = "WHAT", value_parser = wants, default_value = "membership")]
    wants: Wants,
    /// Share of the lookups whose key is not there, such as 0.9 or 90%
    #[arg(long, value_name = "SHARE", value_parser = number::share, allow_negative_numbers = true, help_heading = "What it saves")]
    absent_share: Option<f64>,
    /// Lookups per second
    #[arg(long, value_name = "N", value_parser = number::amount, allow_negative_numbers = true, help_heading = "What it saves")]
    lookups_per_second: Option<f64>,
    /// Time of one lookup that a "no" saves, such as 2ms
    #[arg(long, value_name = "TIME", value_parser = number::seconds, allow_negative_numbers = true, help_heading = "What it saves")]
    lookup_cost: Option<f64>,
    /// Time a false positive costs on top of the lookup that it did not save
    #[arg(long, value_name = "TIME", value_parser = number::seconds, allow_negative_numbers = true, help_heading = "What it saves")]
    false_positive_cost: Option<f64>,
    /// Print one JSON object instead of the screen
    #[arg(long)]
    json: bool,
    /// Draw with plain characters
    #[arg(long)]
    ascii: bool,
}

fn growth(text: &str) -> Result<Growth, String> {
    match text {
        "fixed" => Ok(Growth::Fixed),
        "some" => Ok(Growth::Some),
        "unknown" => Ok(Growth::Unknown),
        _ => number::factor(text).map(|factor| Growth::Known { factor }).map_err(|_| {
            format!("{text:?} is no growth: write fixed, some, unknown, or a factor from 1 to 1000 such as 4")
        }),
    }
}

fn wants(text: &str) -> Result<Wants, String> {
    match text {
        "membership" => Ok(Wants::Membership),
        "distinct-count" => Ok(Wants::DistinctCount),
        "listing" => Ok(Wants::Listing),
        "exact-counts" => Ok(Wants::ExactCounts),
        _ => Err(format!("{text:?} is none of membership, distinct-count, listing, exact-counts")),
    }
}

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    let need = Need {
        items: args.items,
        rate: args.rate,
        memory_bytes: args.memory,
        deletes: args.deletes,
        growth: args.growth,
        window: args.window,
        absent_share: args.absent_share,
        lookups_per_second: args.lookups_per_second,
        lookup_cost_seconds: args.lookup_cost,
        filter_cost_seconds: None,
        false_positive_cost_seconds: args.false_positive_cost,
        dense_integers: args.dense_integers,
        wants: args.wants,
        must_be_right: args.must_be_right,
        static_set: args.static_set,
        untrusted_keys: args.untrusted,
        smallest_first: false,
    };
    if need.items.is_none() && need.memory_bytes.is_none() && need.growth != Growth::Unknown && asks_for_a_filter(&need)
    {
        return Err(Failure::Message(
            "nothing to size by: give the number of keys (--items 10M), or the memory (--memory 64MB), or \
             --growth unknown"
                .into(),
        ));
    }
    let advice = advice::advise(&need)?;
    // The table is also worth seeing when the answer is "no filter": it is what that answer is compared with.
    let sized = match (&advice.plan, need.items.filter(|&items| items > 0)) {
        (Some(plan), _) => Some((plan.items, plan.rate)),
        (None, Some(items)) => Some((items, need.rate.unwrap_or(advice::USUAL_RATE))),
        (None, None) => None,
    };
    let rows = sized.map(|(items, rate)| advice::table(items, rate)).transpose()?.unwrap_or_default();
    let commands = advice.plan.as_ref().map(|plan| next_commands(&need, plan)).unwrap_or_default();
    let text = if args.json {
        in_json(&need, &advice, &rows, &commands) + "\n"
    } else {
        on_screen(&advice, sized, &rows, &commands, screen::unicode(args.ascii))?
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(DONE)
}

fn asks_for_a_filter(need: &Need) -> bool {
    need.wants == Wants::Membership && !need.dense_integers
}

fn on_screen(
    advice: &Advice,
    sized: Option<(u64, f64)>,
    rows: &[Row],
    commands: &[String],
    unicode: bool,
) -> Result<String, Failure> {
    let mut out = String::new();
    let chosen = advice.plan.as_ref().map(|plan| plan.shape.kind);
    if let Some((items, rate)) = sized {
        let room = match &advice.plan {
            Some(plan) if plan.headroom > 1.0 => format!(", room for growth ({} times) included", plan.headroom),
            _ => String::new(),
        };
        let title = format!("{} at a rate of {}{room}", number::counted(items, "key"), number::percent(rate));
        out.push_str(&format!("{}\n\n", paint(HEAD, title)));
        out.push_str(&table(rows, chosen, unicode));
        out.push('\n');
    }
    let verdict = match &advice.choice {
        Choice::Filter(kind) => format!("Use a {kind} filter."),
        Choice::TwoPhase(kind) => format!("Use a {kind} filter; confirm every \"maybe\" with the truth."),
        Choice::HashSet => "Use a hash set, not a filter.".into(),
        Choice::Bitmap => "Use a bitmap, not a filter.".into(),
        Choice::HyperLogLog => "Use a HyperLogLog sketch, not a filter.".into(),
        Choice::SortedFile => "Use a sorted file or a table, not a filter.".into(),
        Choice::CountTable => "Use a table of counts, not a filter.".into(),
        Choice::NoFilter { .. } => "Use no filter: it would cost more than it saves.".into(),
    };
    out.push_str(&paint(STRONG, wrapped("", &verdict)));
    advice.reasons.iter().for_each(|reason| out.push_str(&wrapped("  + ", reason)));
    // Of "no filter" the advice says from where on one pays, of the rest when they would be wrong.
    let otherwise = if matches!(advice.choice, Choice::NoFilter { .. }) { "  - but " } else { "  - not " };
    advice.when_not.iter().for_each(|when| out.push_str(&wrapped(otherwise, when)));
    if let Some(kind) = advice.or_else {
        out.push_str(&wrapped("  ~ ", &format!("or a {kind} filter: compare their rows above")));
    }
    if let Some(plan) = advice.plan.as_ref().filter(|plan| !plan.fits) {
        let message = format!("the rate does not fit the memory: the best that does is {}", number::percent(plan.rate));
        out.push_str(&paint(WARN, wrapped("  ! ", &message)));
    }
    if let Some(savings) = advice.savings.as_ref().filter(|savings| savings.worth_it) {
        out.push_str(&format!("\n{}\n", paint(HEAD, "What it saves")));
        let per = if savings.lookups_per_second == 1.0 { "of each lookup" } else { "a second" };
        out.push_str(&wrapped(
            "  ",
            &format!(
                "{} lookups avoided and {} false positives {per}: {} of work saved {per}.",
                number::many(savings.avoided_per_second),
                number::many(savings.false_positives_per_second),
                number::time(savings.saved_seconds_per_second),
            ),
        ));
        if let Some(share) = savings.break_even_absent_share {
            out.push_str(&wrapped("  ", &format!("It pays from {} of absent lookups on.", number::percent(share))));
        }
    }
    if let Some(plan) = &advice.plan {
        out.push('\n');
        out.push_str(&curve(plan, unicode)?);
    }
    if !commands.is_empty() {
        out.push_str(&format!("\n{}\n", paint(HEAD, "Next")));
        commands.iter().for_each(|command| out.push_str(&format!("  {command}\n")));
    }
    Ok(out)
}

fn table(rows: &[Row], chosen: Option<Kind>, unicode: bool) -> String {
    let head = format!(
        "  {:<14} {:>9} {:>8} {:>9} {:>10} {:>10} {:>10}",
        "kind", "size", "k", "bits/key", "rate", "at 2x", "at 10x"
    );
    let mut out = paint(DIM, head) + "\n";
    for row in rows {
        let line = format!(
            "{:<14} {:>9} {:>8} {:>9} {:>10} {:>10} {:>10}",
            row.kind.name(),
            number::bytes(row.bytes),
            probes(row.kind, row.probes),
            format!("{:.2}", row.bits_per_key),
            number::percent(row.rate),
            overfilled(row.kind, row.rate_at_2x),
            overfilled(row.kind, row.rate_at_10x)
        );
        out.push_str(&if chosen == Some(row.kind) {
            format!("{}\n", paint(STRONG, format!("{} {line}", if unicode { '▸' } else { '>' })))
        } else {
            format!("  {line}\n")
        });
    }
    out
}

/// The rate with too many keys; some take no more than they were made for.
fn overfilled(kind: Kind, rate: Option<f64>) -> String {
    let none = if kind.takes_inserts() { "refuses" } else { "fixed" };
    rate.map_or_else(|| none.into(), number::percent)
}

/// Hashes of a key, or the cache lines that it reads in the kinds that keep it together.
fn probes(kind: Kind, probes: u32) -> String {
    match kind {
        Kind::Classic | Kind::Partitioned => probes.to_string(),
        _ if probes == 0 => String::new(),
        _ if probes == 1 => "1 line".into(),
        _ => format!("{probes} lines"),
    }
}

/// The plot of rate against memory for the planned number of keys.
fn curve(plan: &Plan, unicode: bool) -> Result<String, Failure> {
    // Counters are 4 bits for each bit of the blocked filter below; a chain is drawn as its first stage.
    let (drawn, times) = match plan.shape.kind {
        kind @ (Kind::Classic | Kind::Partitioned) => (kind, 1.0),
        Kind::Counting => (Kind::Blocked, 4.0),
        Kind::Blocked | Kind::Scalable => (Kind::Blocked, 1.0),
        // Fingerprints come in whole bits: a staircase, and the table says it better.
        _ => return Ok(String::new()),
    };
    let here = plan.bits_per_key / times;
    // Fewer keys than fit a few lines make a staircase, not a curve.
    if plan.items < 1000 || !(0.5..=1000.0).contains(&here) {
        return Ok(String::new());
    }
    let from = (here / 8.0).max(1.0);
    let points = advice::sweep_memory(drawn, plan.items, from, (here * 2.0).max(from + 4.0), 124)?;
    let mark = Point { x: here, rate: plan.expected_rate };
    let title = match plan.shape.kind {
        Kind::Scalable => "Rate against memory (its first stage)".to_string(),
        kind => format!("Rate against memory ({kind})"),
    };
    let memory = |x: f64| number::bytes((x * times * plan.items as f64 / 8.0) as u64);
    Ok(format!("{}\n{}", paint(HEAD, title), plot::rate_curve(&points, Some(mark), unicode, memory)))
}

/// A rate that is written short and is no lower than `rate`, so that what was planned to fit still does.
fn written_rate(rate: f64) -> f64 {
    let unit = 10f64.powi(rate.log10().floor() as i32 - 2);
    let up = (rate / unit - 1e-9).ceil() * unit;
    // Back through text: the shortest decimal, not 0.0012300000000000002.
    format!("{up:.3e}").parse().unwrap_or(rate)
}

/// The commands that make what was planned.
fn next_commands(need: &Need, plan: &Plan) -> Vec<String> {
    if plan.shape.kind == Kind::Rotating {
        // A file of keys has no time: a ring lives in a program.
        return Vec::new();
    }
    let rate = if need.rate == Some(plan.rate) { plan.rate } else { written_rate(plan.rate) };
    let mut build = format!("bloomgate build -o keys.bloom --rate {rate}");
    if plan.shape.kind != Kind::Blocked {
        build.push_str(&format!(" --kind {}", plan.shape.kind));
    }
    match need.items {
        // Built once, of the keys that there are.
        _ if !plan.shape.kind.takes_inserts() => {}
        Some(items) if plan.headroom > 1.0 => build.push_str(&format!(" --items {items} --headroom {}", plan.headroom)),
        _ => build.push_str(&format!(" --items {}", plan.items)),
    }
    let mut commands = Vec::new();
    if plan.keyed {
        commands.push("bloomgate secret new -o keys.secret".into());
        build.push_str(" --secret-file keys.secret");
    }
    build.push_str(" keys.txt");
    commands.push(build);
    commands
}

fn in_json(need: &Need, advice: &Advice, rows: &[Row], commands: &[String]) -> String {
    let (choice, kind) = match &advice.choice {
        Choice::Filter(kind) => ("filter", Some(kind)),
        Choice::TwoPhase(kind) => ("two-phase", Some(kind)),
        Choice::HashSet => ("hash-set", None),
        Choice::Bitmap => ("bitmap", None),
        Choice::HyperLogLog => ("hyperloglog", None),
        Choice::SortedFile => ("sorted-file", None),
        Choice::CountTable => ("count-table", None),
        Choice::NoFilter { .. } => ("no-filter", None),
    };
    let texts = |texts: &[String]| json::list(texts.iter().map(|text| json::text(text)));
    let name = |kind: Option<&Kind>| kind.map_or_else(|| "null".into(), |kind| json::text(kind.name()));
    let plan = advice.plan.as_ref().map_or_else(
        || "null".into(),
        |plan| {
            Object::default()
                .text("kind", plan.shape.kind.name())
                .whole("items", plan.items)
                .number("headroom", plan.headroom)
                .number("rate", plan.rate)
                .number("expected_rate", plan.expected_rate)
                .whole("bits", plan.shape.bits)
                .whole("bytes", plan.shape.bytes())
                .number("bits_per_key", plan.bits_per_key)
                .whole("probes", u64::from(plan.shape.probes))
                .flag("fits", plan.fits)
                .flag("keyed", plan.keyed)
                .close()
        },
    );
    let savings = advice.savings.as_ref().map_or_else(
        || "null".into(),
        |savings| {
            Object::default()
                .number("lookups_per_second", savings.lookups_per_second)
                .number("avoided_per_second", savings.avoided_per_second)
                .number("false_positives_per_second", savings.false_positives_per_second)
                .number("saved_seconds_per_second", savings.saved_seconds_per_second)
                .maybe_number("break_even_absent_share", savings.break_even_absent_share)
                .flag("worth_it", savings.worth_it)
                .text("arithmetic", &savings.arithmetic)
                .close()
        },
    );
    let rows = rows.iter().map(|row| {
        Object::default()
            .text("kind", row.kind.name())
            .whole("bits", row.bits)
            .whole("bytes", row.bytes)
            .number("bits_per_key", row.bits_per_key)
            .whole("probes", u64::from(row.probes))
            .number("rate", row.rate)
            .maybe_number("rate_at_2x", row.rate_at_2x)
            .maybe_number("rate_at_10x", row.rate_at_10x)
            .close()
    });
    Object::default()
        .text("choice", choice)
        .raw("kind", &name(kind))
        .maybe_number("asked_rate", need.rate)
        .raw("reasons", &texts(&advice.reasons))
        .raw("when_not", &texts(&advice.when_not))
        .raw("or_else", &name(advice.or_else.as_ref()))
        .raw("plan", &plan)
        .raw("savings", &savings)
        .raw("table", &json::list(rows))
        .raw("next", &texts(commands))
        .close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_rates_are_short_and_never_lower() {
        for rate in [0.0123456, 0.00087654321, 1e-3, 0.01, 0.5, 3.3333e-7] {
            let written = written_rate(rate);
            assert!(written >= rate * (1.0 - 1e-9) && written <= rate * 1.011, "{rate} {written}");
            assert!(written.to_string().trim_start_matches(['0', '.']).len() <= 4, "{rate} {written}");
        }
    }
}
