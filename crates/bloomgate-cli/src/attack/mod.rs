//! `bloomgate attack`: cache penetration, shown and measured. A database of products is asked for keys that do not
//! exist, behind each of the usual defences in turn.

mod args;
pub mod catalogue;
mod cpu;
mod drive;
mod fronts;
mod latency;
mod measure;
pub mod mix;
mod model;
mod picture;
mod poison;
mod replay;
mod report;
mod stage;
mod watch;

use std::io::Write;

pub use args::Args;
use args::{Printing, RunArgs, Shop, Verb};
use drive::Course;
use fronts::Kind;
use mix::Mix;
use report::{Finding, Report};
use stage::{GateWish, Stage};

use crate::failure::{DONE, Failure, NONE, Outcome};
use crate::progress::Progress;
use crate::screen;
use crate::svg::Target;

/// Rebuilds beside writes, unless told otherwise.
const REBUILDS: u64 = 10;

/// Runs the verb.
pub fn run(args: &Args) -> Outcome {
    match &args.verb {
        None => all_fronts(&args.run),
        Some(Verb::Run(args)) => all_fronts(args),
        Some(Verb::Measure(args)) => measure::run(args),
        Some(Verb::Poison(args)) => poison::run(args),
        Some(Verb::Replay(args)) => replay::run(args),
    }
}

/// The mix for a shop: nobody writes.
fn mix_of(shop: &Shop, absent: f64) -> Mix {
    Mix {
        seed: shop.seed,
        products: shop.products,
        absent,
        exponent: 1.0,
        writes: 0.0,
        coming_and_going: 0,
        workers: shop.workers,
    }
}

fn all_fronts(args: &RunArgs) -> Outcome {
    let svg = args.svg.as_deref().map(|path| Target::of(path, &[])).transpose()?;
    if args.printing.json && matches!(svg, Some(Target::Stdout)) {
        let message =
            "--json and --svg - both go to standard output: give the picture a file, or leave one of them out";
        return Err(Failure::Message(message.into()));
    }
    let mix = Mix {
        exponent: args.zipf,
        writes: args.writes,
        // Few, so that writes and lookups of one key meet; enough that every worker has some.
        coming_and_going: (args.shop.products / 10).clamp(args.shop.workers, 100_000),
        ..mix_of(&args.shop, args.absent)
    };
    let rebuilds = args.rebuilds.unwrap_or(if args.writes > 0.0 { REBUILDS } else { 0 });
    let course = Course { mix, requests: args.requests, rebuilds };
    let wish = GateWish { rate: args.rate, remembers: true, lives: args.writes > 0.0 };
    let mut stage = Stage::build(&args.shop, mix, args.printing.quiet)?;
    if !args.cold {
        stage.read_popular()?;
    }
    let mut findings = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| args.only.is_empty() || args.only.contains(kind)) {
        findings.push(one_front(&mut stage, kind, course, wish, args.printing)?);
        if args.writes > 0.0 {
            stage.reset()?;
        }
    }
    let report = Report {
        args,
        source: stage.database().into(),
        cache: stage.cache().into(),
        resp: stage.resp().map(without_password),
        findings,
    };
    drop(stage);
    if let Some(svg) = &svg {
        svg.write(&picture::draw(&report))?;
    }
    // A picture on standard output stands there alone.
    if !matches!(svg, Some(Target::Stdout)) {
        print(if args.printing.json {
            report.in_json() + "\n"
        } else {
            report.on_screen(screen::unicode(args.printing.ascii))
        })?;
    }
    Ok(if report.is_good() { DONE } else { NONE })
}

fn one_front(
    stage: &mut Stage,
    kind: Kind,
    course: Course,
    wish: GateWish,
    printing: Printing,
) -> Result<Finding, Failure> {
    let progress = Progress::steps(kind.title(), course.requests, printing.quiet);
    let scene = stage.front(kind, wish)?;
    let before = (scene.source.reads(), scene.cache.as_ref().map(|cache| cache.reads()), stage.cpu());
    let tally = stage.run(async {
        drive::drive(scene.front.clone(), course, |more| progress.advance(more)).await.map_err(Failure::Message)
    })?;
    let cpu = stage.cpu();
    let (source, cache) = (scene.source.clone(), scene.cache.clone());
    stage.end(scene)?;
    let answered = tally.standing + tally.absent + tally.moving;
    if answered == 0 {
        let why = tally.shown.first().map_or("no lookup was answered", String::as_str);
        return Err(Failure::Message(format!("{}: {why}", kind.title())));
    }
    Ok(Finding {
        kind,
        cache_reads: cache.as_ref().map(|cache| cache.reads() - before.1.unwrap_or(0)),
        database_reads: source.reads() - before.0,
        database_cpu: cpu.zip(before.2).map(|(after, before)| after.since(&before)),
        tally,
    })
}

/// An address without what stands before its `@`.
fn without_password(address: &str) -> String {
    match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => address.into(),
    }
}

fn print(text: String) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_told() {
        assert_eq!(without_password("redis://me:se@cret@host:1"), "redis://host:1");
        assert_eq!(without_password("redis://host:1/2"), "redis://host:1/2");
    }
}
