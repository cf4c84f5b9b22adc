//! What a plan says: on the screen, as JSON, and as a page of SVG.

use bloomgate::Kind;
use bloomgate::advice::{Advice, Choice, Need, Savings};

use super::counted::Counted;
use super::measure::Measurement;
use super::table::{self, Candidate};
use crate::chart::{self, Chart};
use crate::json::{self, Object};
use crate::number;
use crate::screen::{DIM, HEAD, STRONG, WARN, paint, wrapped};
use crate::svg::{DARK, Document, Font, GREY};

/// Everything that was found out.
pub struct Report {
    pub need: Need,
    pub advice: Advice,
    pub counted: Option<Counted>,
    /// Keys and rate that the table is for.
    pub sized: Option<(u64, f64)>,
    pub candidates: Vec<Candidate>,
    pub measured: Option<Measurement>,
    pub charts: Vec<Chart>,
    /// Why charts that were asked for are not there.
    pub missing: Vec<String>,
    pub commands: Vec<String>,
}

/// Seconds of a day.
const DAY: f64 = 86_400.0;

impl Report {
    fn chosen(&self) -> Option<Kind> {
        self.advice.plan.as_ref().map(|plan| plan.shape.kind)
    }

    fn title(&self) -> Option<String> {
        let (items, rate) = self.sized?;
        let room = match &self.advice.plan {
            Some(plan) if plan.headroom > 1.0 => format!(", room for growth ({} times) included", plan.headroom),
            _ => String::new(),
        };
        Some(format!("{} at a rate of {}{room}", number::counted(items, "key"), number::percent(rate)))
    }

    fn verdict(&self) -> String {
        match &self.advice.choice {
            Choice::Filter(kind) => format!("Use a {kind} filter."),
            Choice::TwoPhase(kind) => format!("Use a {kind} filter; confirm every \"maybe\" with the truth."),
            Choice::HashSet => "Use a hash set, not a filter.".into(),
            Choice::Bitmap => "Use a bitmap, not a filter.".into(),
            Choice::HyperLogLog => "Use a HyperLogLog sketch, not a filter.".into(),
            Choice::SortedFile => "Use a sorted file or a table, not a filter.".into(),
            Choice::CountTable => "Use a table of counts, not a filter.".into(),
            Choice::NoFilter { .. } => "Use no filter: it would cost more than it saves.".into(),
        }
    }

    /// The screen.
    pub fn on_screen(&self, unicode: bool) -> String {
        let mut out = String::new();
        if let Some(counted) = &self.counted {
            out.push_str(&wrapped("", &counted.sentence()));
            out.push('\n');
        }
        if let Some(title) = self.title() {
            out.push_str(&format!("{}\n\n", paint(HEAD, title)));
            out.push_str(&table::table(&self.candidates, self.chosen(), unicode));
            out.push('\n');
        }
        if let (Some(measured), Some((items, _))) = (&self.measured, self.sized) {
            let (head, lines, note) = measured.table(items);
            out.push_str(&format!("{}\n", paint(DIM, head)));
            for (kind, line) in measured.kinds.iter().zip(lines) {
                out.push_str(&table::marked(&line, self.chosen() == Some(kind.kind), unicode));
            }
            out.push_str(&paint(DIM, wrapped("  ", &note)));
            out.push('\n');
        }
        self.advise(&mut out);
        for chart in &self.charts {
            out.push('\n');
            out.push_str(&chart.in_terminal(unicode));
        }
        if !self.missing.is_empty() {
            out.push('\n');
            self.missing.iter().for_each(|why| out.push_str(&paint(DIM, wrapped("", why))));
        }
        if !self.commands.is_empty() {
            out.push_str(&format!("\n{}\n", paint(HEAD, "Next")));
            self.commands.iter().for_each(|command| out.push_str(&format!("  {command}\n")));
        }
        out
    }

    /// The verdict, why, when not, and what it saves.
    fn advise(&self, out: &mut String) {
        let advice = &self.advice;
        out.push_str(&paint(STRONG, wrapped("", &self.verdict())));
        advice.reasons.iter().for_each(|reason| out.push_str(&wrapped("  + ", reason)));
        // Of "no filter" the advice says from where on one pays, of the rest when they would be wrong.
        let otherwise = if matches!(advice.choice, Choice::NoFilter { .. }) { "  - but " } else { "  - not " };
        advice.when_not.iter().for_each(|when| out.push_str(&wrapped(otherwise, when)));
        if let Some(kind) = advice.or_else {
            // A stable filter is sized otherwise, and has no row.
            let where_to = if kind == Kind::Stable { "in a program, as just said" } else { "compare their rows above" };
            out.push_str(&wrapped("  ~ ", &format!("or a {kind} filter: {where_to}")));
        }
        if let Some(counted) = &self.counted {
            counted.hints().iter().for_each(|hint| out.push_str(&wrapped("  ~ ", hint)));
        }
        if let Some(plan) = advice.plan.as_ref().filter(|plan| !plan.fits) {
            let rate = number::percent(plan.rate);
            let message = format!("the rate does not fit the memory: the best that does is {rate}");
            out.push_str(&paint(WARN, wrapped("  ! ", &message)));
        }
        if let Some(savings) = advice.savings.as_ref().filter(|savings| savings.worth_it) {
            out.push_str(&format!("\n{}\n", paint(HEAD, "What it saves")));
            saved(&self.need, savings).iter().for_each(|sentence| out.push_str(&wrapped("  ", sentence)));
        }
    }

    /// The JSON object.
    pub fn in_json(&self) -> String {
        let advice = &self.advice;
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
        let or_null = |object: Option<String>| object.unwrap_or_else(|| "null".into());
        Object::default()
            .text("choice", choice)
            .raw("kind", &name(kind))
            .text("verdict", self.verdict())
            .maybe_number("asked_rate", self.need.rate)
            .raw("counted", &or_null(self.counted.as_ref().map(Counted::in_json)))
            .raw("reasons", &texts(&advice.reasons))
            .raw("when_not", &texts(&advice.when_not))
            .raw("or_else", &name(advice.or_else.as_ref()))
            .raw("hints", &texts(&self.counted.as_ref().map(Counted::hints).unwrap_or_default()))
            .raw("plan", &or_null(self.plan_in_json()))
            .raw("savings", &or_null(advice.savings.as_ref().map(savings_in_json)))
            .raw("table", &json::list(self.candidates.iter().map(table::in_json)))
            .raw("measured", &or_null(self.measured.as_ref().map(Measurement::in_json)))
            .raw("plots", &json::list(self.charts.iter().map(chart_in_json)))
            .raw("not_plotted", &texts(&self.missing))
            .raw("next", &texts(&self.commands))
            .close()
    }

    fn plan_in_json(&self) -> Option<String> {
        let plan = self.advice.plan.as_ref()?;
        Some(
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
                .close(),
        )
    }

    /// The charts as one page; nothing when there are none.
    pub fn on_page(&self) -> Option<String> {
        let plan = self.advice.plan.as_ref().filter(|_| !self.charts.is_empty())?;
        const TOP: f64 = 78.0;
        let title = format!("A {} filter of {}", plan.shape.kind, number::counted(plan.items, "key"));
        let height = TOP + self.charts.len() as f64 * chart::HEIGHT;
        let mut page = Document::new(chart::WIDTH, height, &title);
        page.text((28.0, 36.0), Font::new(20.0, DARK).bold(), &title);
        let facts = format!(
            "{}, {:.2} bits a key, {} false positives expected ({} asked)",
            number::bytes(plan.shape.bytes()),
            plan.bits_per_key,
            number::percent(plan.expected_rate),
            number::percent(plan.rate)
        );
        page.text((28.0, 58.0), Font::new(13.0, GREY), &facts);
        for (at, chart) in self.charts.iter().enumerate() {
            chart.on_page(&mut page, TOP + at as f64 * chart::HEIGHT);
        }
        Some(page.finish())
    }
}

/// What is saved, in sentences.
fn saved(need: &Need, savings: &Savings) -> Vec<String> {
    let (avoided, wrong) = (number::many(savings.avoided_per_second), number::many(savings.false_positives_per_second));
    let work = savings.saved_seconds_per_second;
    let mut said = match need.lookups_per_second {
        Some(_) => vec![
            format!("{avoided} lookups avoided and {wrong} false positives a second."),
            format!("{} of work saved a second, {} a day.", number::time(work), hours(work * DAY)),
        ],
        None => vec![format!(
            "{} of the lookups avoided, {} are false positives: {} of work saved for each lookup.",
            number::percent(savings.avoided_per_second),
            number::percent(savings.false_positives_per_second),
            number::time(work)
        )],
    };
    if let Some(share) = savings.break_even_absent_share {
        said.push(format!("It pays from {} of absent lookups on.", number::percent(share)));
    }
    said
}

/// Long times in hours, short ones as they are.
fn hours(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 7200.0 => format!("{} hours", number::many(seconds / 3600.0)),
        _ if seconds >= 120.0 => format!("{} minutes", number::many(seconds / 60.0)),
        _ => number::time(seconds),
    }
}

fn savings_in_json(savings: &Savings) -> String {
    Object::default()
        .number("lookups_per_second", savings.lookups_per_second)
        .number("avoided_per_second", savings.avoided_per_second)
        .number("false_positives_per_second", savings.false_positives_per_second)
        .number("saved_seconds_per_second", savings.saved_seconds_per_second)
        .number("saved_seconds_per_day", savings.saved_seconds_per_second * DAY)
        .maybe_number("break_even_absent_share", savings.break_even_absent_share)
        .flag("worth_it", savings.worth_it)
        .text("arithmetic", &savings.arithmetic)
        .close()
}

fn chart_in_json(chart: &Chart) -> String {
    let pair = |point: &bloomgate::advice::Point| format!("[{:?},{:?}]", point.x, point.rate);
    let curves = chart.curves.iter().map(|curve| {
        Object::default()
            .text("kind", &curve.name)
            .flag("stepped", curve.stepped)
            .raw("points", &json::list(curve.points.iter().map(pair)))
            .close()
    });
    let object = Object::default()
        .text("plot", chart.name)
        .text("title", &chart.title)
        .text("x", chart.axis.name())
        .raw("curves", &json::list(curves));
    match &chart.mark {
        Some(mark) => object.raw("mark", &pair(&mark.point)).text("mark_means", &mark.words).close(),
        None => object.close(),
    }
}
