//! `bloomgate plan`: which filter, how large, what it saves, and the command that builds it.

mod counted;
mod curves;
mod levels;
mod measure;
mod next;
mod report;
mod table;

use std::io::Write;
use std::path::PathBuf;

use bloomgate::advice::{self, Growth, Need, Wants};

use crate::failure::{DONE, Failure, Outcome};
use crate::keys::{Reading, Source};
use crate::number;
use crate::screen;
use crate::svg::Target;
use curves::Plot;
use report::Report;

/// Choose and size a filter, or learn that something else is better
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate plan --items 10M --rate 1%
  bloomgate plan --items 10M --memory 8MB          the best rate that fits
  bloomgate plan --memory 64MB --rate 0.001        the most keys that fit
  bloomgate plan --items 1M --deletes --growth some
  bloomgate plan --from urls.txt --measure         counts keys, times kinds
  bloomgate plan --items 10M --plot all --svg plan.svg
  bloomgate plan --levels 1M,10M,100M --rate 1%    filters in tiers (LSM)
  bloomgate plan --items 50M --absent-share 90% --lookup-cost 2ms

Numbers: 1000000, 1e6, 10M. Sizes: 64MB is 64,000,000 bytes, 1GiB is 2^30. Rates: 0.01 or 1%. Times: 50us, 2ms.

Exit codes: 0 a plan was made, 2 error.")]
pub struct Args {
    /// Keys in the set today
    #[arg(long, value_name = "N", value_parser = number::count, allow_negative_numbers = true)]
    items: Option<u64>,
    /// Count the different keys of this file instead of --items; repeat for more files, - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "items")]
    from: Vec<PathBuf>,
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
    /// Filters in tiers: the keys of each level, such as 1M,10M,100M. Memory is then that of all filters together, the
    /// rate that of a level on average
    #[arg(long, value_name = "LIST", value_parser = number::count, value_delimiter = ',', num_args = 1,
          conflicts_with_all = ["items", "from", "growth", "deletes", "window", "dense_integers", "wants", "untrusted",
          "must_be_right", "absent_share", "lookups_per_second", "lookup_cost", "false_positive_cost", "measure", "plot",
          "svg"])]
    levels: Vec<u64>,
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
    /// Measure what a key costs in each kind on this machine, with up to 2 million keys
    #[arg(long)]
    measure: bool,
    /// What to plot: memory (the rate against it), k (against the number of hashes), overfill (with 1 to 10 times the
    /// keys), all or none
    #[arg(
        long,
        value_name = "WHAT",
        value_enum,
        value_delimiter = ',',
        num_args = 1,
        default_value = "memory",
        hide_possible_values = true
    )]
    plot: Vec<Plot>,
    /// Write the plots as an SVG document; - is standard output, instead of the screen
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
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
    if !args.levels.is_empty() {
        let budget = levels::Budget::of(args.memory, args.rate)?;
        return print(&levels::plan(&args.levels, budget, args.static_set, args.json)?);
    }
    refuse_contradictions(args)?;
    let sources: Vec<Source> = args.from.iter().map(|path| Source::of(path)).collect();
    if sources.iter().filter(|&source| *source == Source::Stdin).count() > 1 {
        return Err(Failure::Message("standard input (-) is named more than once: it can be read once".into()));
    }
    let target = args.svg.as_deref().map(|path| Target::of(path, &sources)).transpose()?;
    let report = report(args, &sources)?;
    if let Some(target) = &target {
        let Some(page) = report.on_page() else {
            return Err(Failure::Message(
                "--svg has nothing to draw: the answer has no plot, or --plot is none; leave --svg out to read it"
                    .into(),
            ));
        };
        target.write(&page)?;
        if matches!(target, Target::Stdout) {
            return Ok(DONE);
        }
    }
    print(&if args.json { report.in_json() + "\n" } else { report.on_screen(screen::unicode(args.ascii)) })
}

fn print(text: &str) -> Outcome {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(DONE)
}

/// Needs that no filter meets together: one of the two has to give way, and only the user knows which.
fn refuse_contradictions(args: &Args) -> Result<(), Failure> {
    let grows = args.growth != Growth::Fixed;
    let (first, second, why, instead) = if args.static_set && grows {
        (
            "--static",
            "--growth",
            "a filter that is built once takes no key later",
            "leave --growth out and build again when keys come (fuse, the fewest bits), or leave --static out and keep \
             room for them (blocked, scalable)",
        )
    } else if args.static_set && args.deletes {
        (
            "--static",
            "--deletes",
            "a filter that is built once loses no key later",
            "leave --deletes out and build again without the keys that went (fuse), or leave --static out and remove \
             them one by one (cuckoo)",
        )
    } else if args.static_set && args.window {
        (
            "--static",
            "--window",
            "a filter that is built once forgets nothing",
            "leave --window out (fuse), or leave --static out and let old keys age away (rotating)",
        )
    } else if args.window && args.deletes {
        (
            "--window",
            "--deletes",
            "the generations of a rotating filter are forgotten whole, and no key of them can be removed",
            "leave --deletes out and let old keys age away (rotating), or leave --window out and remove each key when its \
             time has come (cuckoo)",
        )
    } else {
        return Ok(());
    };
    Err(Failure::Message(format!("{first} and {second} cannot be had together: {why}; {instead}")))
}

fn report(args: &Args, sources: &[Source]) -> Result<Report, Failure> {
    let counted = if sources.is_empty() { None } else { Some(counted::count(sources, &args.reading, args.json)?) };
    let mut need = Need {
        items: counted.as_ref().map(counted::Counted::planned).or(args.items),
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
            "nothing to size by: give the number of keys (--items 10M), or files of them (--from keys.txt), or the \
             memory (--memory 64MB), or --growth unknown"
                .into(),
        ));
    }
    let mut advice = advice::advise(&need)?;
    // A bitmap that is smaller than the filter and never wrong is better, whatever the filter could do.
    let bits_per_key = advice.plan.as_ref().map(|plan| plan.bits_per_key);
    if counted.as_ref().zip(bits_per_key).is_some_and(|(counted, bits)| counted.is_dense(bits)) && !need.window {
        need.dense_integers = true;
        advice = advice::advise(&need)?;
    }
    // The table is also worth seeing when the answer is "no filter": it is what that answer is compared with.
    let sized = match (&advice.plan, need.items.filter(|&items| items > 0)) {
        (Some(plan), _) => Some((plan.items, plan.rate)),
        (None, Some(items)) => Some((items, need.rate.unwrap_or(advice::USUAL_RATE))),
        (None, None) => None,
    };
    let chosen = advice.plan.as_ref().map(|plan| plan.shape.kind);
    let rows = sized.map(|(items, rate)| advice::table(items, rate)).transpose()?.unwrap_or_default();
    let candidates = table::candidates(rows, &need, chosen);
    let fitting: Vec<advice::Row> =
        candidates.iter().filter(|candidate| candidate.misfit.is_none()).map(|candidate| candidate.row).collect();
    let measured = match sized.filter(|_| args.measure) {
        Some((items, rate)) => Some(measure::measure(&fitting, items, rate, args.json)?),
        None => None,
    };
    // What was measured is better than what is usual.
    let of_kind = |kind| measured.as_ref()?.kinds.iter().find(|measured| Some(measured.kind) == kind);
    if let (Some(measured), Some(absent)) = (of_kind(chosen), need.absent_share) {
        need.filter_cost_seconds = Some((measured.miss * absent + measured.hit * (1.0 - absent)) * 1e-9);
        advice = advice::advise(&need)?;
    }
    // A picture has room for the kinds beside each other, a terminal for one.
    let beside: Vec<_> = fitting.iter().filter(|_| args.svg.is_some()).map(|row| row.kind).collect();
    let charts = match &advice.plan {
        Some(plan) => curves::charts(plan, &args.plot, &beside)?,
        None => Vec::new(),
    };
    let missing = advice.plan.as_ref().map(|plan| curves::missing(plan, &args.plot, &charts)).unwrap_or_default();
    let commands =
        advice.plan.as_ref().map(|plan| next::commands(&need, plan, &args.from, &args.reading)).unwrap_or_default();
    Ok(Report { need, advice, counted, sized, candidates, measured, charts, missing, commands })
}

fn asks_for_a_filter(need: &Need) -> bool {
    need.wants == Wants::Membership && !need.dense_integers
}
