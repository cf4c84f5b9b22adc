//! `attack measure`: how often a key that does not exist gets through the filter of a gate, with its interval.

use bloomgate::math::estimate::{rate_interval, within};

use super::args::MeasureArgs;
use super::drive::{self, Course};
use super::fronts::{Front, Kind};
use super::report::{BEYOND_CHANCE, CONFIDENCE, is_kept, plain_percent, rate_in_words};
use super::stage::{GateWish, Stage};
use super::{mix_of, print};
use crate::failure::{DONE, Failure, NONE, Outcome};
use crate::json::Object;
use crate::number;
use crate::progress::Progress;
use crate::screen::{DIM, STRONG, WARN, paint};

/// Runs `attack measure`.
pub fn run(args: &MeasureArgs) -> Outcome {
    let mix = mix_of(&args.shop, 1.0);
    let mut stage = Stage::build(&args.shop, mix, args.printing.quiet)?;
    let kind = if args.shop.resp.is_some() { Kind::GateResp } else { Kind::Gate };
    let scene = stage.front(kind, GateWish { rate: args.rate, remembers: true, lives: false })?;
    let progress = Progress::steps("asking for fake keys", args.keys, args.printing.quiet);
    let course = Course { mix, requests: args.keys, rebuilds: 0 };
    let before = scene.source.reads();
    let tally = stage.run(async {
        drive::drive(scene.front.clone(), course, |more| progress.advance(more)).await.map_err(Failure::Message)
    })?;
    drop(progress);
    let Front::Gate(gate) = &*scene.front else { return Err(Failure::Message("no gate was measured".into())) };
    let filter = gate.stats().filter;
    let (expected, bytes) = filter.map_or((None, None), |filter| (filter.estimated_rate, filter.bytes));
    let reached_database = scene.source.reads() - before;
    stage.end(scene)?;
    if tally.true_negatives == 0 {
        let why = tally.shown.first().map_or("the filter answered no lookup", String::as_str);
        return Err(Failure::Message(why.into()));
    }
    let found = Measured {
        hits: tally.false_positives,
        trials: tally.true_negatives,
        asked: args.rate,
        expected: expected.filter(|rate| *rate > 0.0),
        bytes: bytes.unwrap_or(0),
        reached_database,
        errors: tally.errors,
    };
    print(if args.printing.json { found.in_json(args) + "\n" } else { found.on_screen(args, stage.database()) })?;
    Ok(if found.is_kept() && found.is_expected() { DONE } else { NONE })
}

/// What was measured.
struct Measured {
    hits: u64,
    trials: u64,
    asked: f64,
    /// The rate that the filter's own bits come to, where they can be counted.
    expected: Option<f64>,
    bytes: u64,
    reached_database: u64,
    errors: u64,
}

impl Measured {
    fn is_kept(&self) -> bool {
        is_kept(self.hits, self.trials, self.asked)
    }

    /// Whether the rate is the expected one, neither more nor less; what nobody can expect cannot be missed.
    fn is_expected(&self) -> bool {
        let Some(expected) = self.expected else { return true };
        let luck = luck(expected, self.bytes);
        let rate = self.hits as f64 / self.trials.max(1) as f64;
        let nearest = rate.clamp(expected * (1.0 - luck).max(0.0), expected * (1.0 + luck));
        rate == nearest || within(self.hits, self.trials, nearest, BEYOND_CHANCE)
    }

    fn on_screen(&self, args: &MeasureArgs, database: &str) -> String {
        let verdict = |good: bool| if good { paint(STRONG, "  ok") } else { paint(WARN, "FAIL") };
        let mut out = format!(
            "{} asked for, {} in {database}\n",
            number::counted(self.trials, "fake key"),
            number::counted(args.shop.products, "product"),
        );
        out.push_str(&format!(
            "{} {} let through: {}\n     promised: at most {}\n",
            verdict(self.is_kept()),
            number::grouped(self.hits),
            rate_in_words(self.hits, self.trials),
            plain_percent(self.asked),
        ));
        if let Some(expected) = self.expected {
            out.push_str(&format!(
                "{} the bits of the filter ({}) let expect {}\n",
                verdict(self.is_expected()),
                number::bytes(self.bytes),
                number::percent(expected),
            ));
        }
        out.push_str(&paint(DIM, format!("     {} reached the database\n", number::grouped(self.reached_database))));
        if self.errors > 0 {
            out.push_str(&paint(WARN, format!("     {} failed and do not count\n", number::grouped(self.errors))));
        }
        out
    }

    fn in_json(&self, args: &MeasureArgs) -> String {
        let (low, high) = rate_interval(self.hits, self.trials, CONFIDENCE);
        Object::default()
            .whole("products", args.shop.products)
            .whole("fake_keys", self.trials)
            .whole("false_positives", self.hits)
            .number("rate", self.hits as f64 / self.trials.max(1) as f64)
            .number("rate_low", low)
            .number("rate_high", high)
            .number("promised_rate", self.asked)
            .maybe_number("expected_rate", self.expected)
            .whole("filter_bytes", self.bytes)
            .whole("reached_database", self.reached_database)
            .whole("errors", self.errors)
            .flag("rate_is_kept", self.is_kept())
            .flag("rate_is_expected", self.is_expected())
            .close()
    }
}

/// By how much the rate of one filter may differ from what its bits let expect: as `bloomgate verify` has it, 4.5 standard
/// deviations of a tenth of ln(1/rate) over the root of its cache lines.
fn luck(rate: f64, bytes: u64) -> f64 {
    let lines = (bytes as f64 / 64.0).max(1.0);
    BEYOND_CHANCE * 0.1 * rate.clamp(1e-15, 1.0).recip().ln() / lines.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_judged_to_both_sides() {
        let measured = |hits| Measured {
            hits,
            trials: 1_000_000,
            asked: 0.001,
            expected: Some(0.0004),
            bytes: 10_000_000,
            reached_database: hits,
            errors: 0,
        };
        // 400 are expected, give or take 20; the promise is 1000.
        for (hits, kept, expected) in
            [(400, true, true), (300, true, false), (0, true, false), (520, true, false), (1300, false, false)]
        {
            assert_eq!((measured(hits).is_kept(), measured(hits).is_expected()), (kept, expected), "{hits}");
        }
        assert!(Measured { expected: None, ..measured(0) }.is_expected());
    }
}
