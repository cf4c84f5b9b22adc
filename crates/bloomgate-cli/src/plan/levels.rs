//! `plan --levels`: one filter for each level of a store, and memory shared between them where it saves the most.

use bloomgate::Kind;
use bloomgate::advice::{self, Allocation, Level, Tiers, USUAL_RATE};

use super::next::written_rate;
use crate::failure::Failure;
use crate::json::{self, Object};
use crate::number;
use crate::screen::{DIM, HEAD, STRONG, paint, wrapped};

/// What is given beside the levels.
#[derive(Debug, Clone, Copy)]
pub enum Budget {
    /// Bytes for all filters together.
    Memory(u64),
    /// The average rate of a level.
    Rate(f64),
}

impl Budget {
    /// From the options; both at once would ask for two things.
    pub fn of(memory: Option<u64>, rate: Option<f64>) -> Result<Self, Failure> {
        match (memory, rate) {
            (Some(_), Some(_)) => Err(Failure::Message(
                "--levels is planned for the memory of all filters together (--memory) or for their average rate \
                 (--rate): give one of them"
                    .into(),
            )),
            (Some(memory), None) => Ok(Self::Memory(memory)),
            (None, rate) => Ok(Self::Rate(rate.unwrap_or(USUAL_RATE))),
        }
    }
}

/// The screen or the JSON.
pub fn plan(sizes: &[u64], budget: Budget, static_set: bool, json: bool) -> Result<String, Failure> {
    // A run of a store is written once: with --static the kinds that are built once are taken.
    let kind = if static_set { Kind::Fuse } else { Kind::Blocked };
    let tiers = match budget {
        Budget::Memory(memory) => advice::tiers_in_memory(kind, sizes, memory)?,
        Budget::Rate(rate) => advice::tiers_at_rate(kind, sizes, rate)?,
    };
    let commands = commands(kind, &tiers.best);
    Ok(if json { in_json(kind, budget, &tiers, &commands) + "\n" } else { on_screen(kind, budget, &tiers, &commands) })
}

fn commands(kind: Kind, best: &Allocation) -> Vec<String> {
    let command = |(at, level): (usize, &Level)| {
        level.shape?;
        let name = at + 1;
        let rate = written_rate(level.rate);
        let how = if kind == Kind::Blocked { format!("--items {}", level.items) } else { format!("--kind {kind}") };
        Some(format!("bloomgate build -o level{name}.bloom --rate {rate} {how} level{name}.txt"))
    };
    best.levels.iter().enumerate().filter_map(command).collect()
}

fn on_screen(kind: Kind, budget: Budget, tiers: &Tiers, commands: &[String]) -> String {
    let Tiers { best, uniform } = tiers;
    let keys = best.levels.iter().map(|level| level.items).fold(0, u64::saturating_add);
    let given = match budget {
        Budget::Memory(memory) => format!("in {}", number::bytes(memory)),
        Budget::Rate(rate) => format!("at an average rate of {}", number::percent(rate)),
    };
    let levels = number::counted(best.levels.len() as u64, "level");
    let title = format!("{levels} with {} {given}, {kind} filters", number::counted(keys, "key"));
    let mut out = format!("{}\n\n", paint(HEAD, title));
    let head = format!(
        "  {:>5} {:>15} {:>10} {:>9} {:>11} {:>12} {:>9}",
        "level", "keys", "size", "bits/key", "rate", "uniform", "bits/key"
    );
    out.push_str(&format!("{}\n", paint(DIM, head)));
    for (at, (level, even)) in best.levels.iter().zip(&uniform.levels).enumerate() {
        let [(size, bits, rate), (_, even_bits, even_rate)] = [level, even].map(cells);
        let keys = number::grouped(level.items);
        let line = format!("  {:>5} {keys:>15} {size:>10} {bits:>9} {rate:>11} ", at + 1);
        out.push_str(&format!("{line}{}\n", paint(DIM, format!("{even_rate:>12} {even_bits:>9}"))));
    }
    let bits = |allocation: &Allocation| format!("{:.2}", allocation.bytes as f64 * 8.0 / keys.max(1) as f64);
    out.push_str(&format!(
        "  {:>5} {:>15} {:>10} {:>9} {} {}\n\n",
        "all",
        number::grouped(keys),
        number::bytes(best.bytes),
        bits(best),
        paint(STRONG, format!("{:>11}", number::many(best.false_positives))),
        paint(DIM, format!("{:>12} {:>9}", number::many(uniform.false_positives), bits(uniform))),
    ));
    out.push_str(&paint(STRONG, wrapped("", &verdict(budget, tiers))));
    for reason in reasons(best) {
        out.push_str(&wrapped("  + ", &reason));
    }
    out.push_str(&wrapped(
        "  - ",
        "not when levels change their sizes and keep their filters: the proportion is for these numbers of keys",
    ));
    if !commands.is_empty() {
        out.push_str(&format!("\n{}\n", paint(HEAD, "Next")));
        commands.iter().for_each(|command| out.push_str(&format!("  {command}\n")));
    }
    out
}

/// Size, bits a key and rate of a level.
fn cells(level: &Level) -> (String, String, String) {
    match level.shape {
        Some(shape) => (
            number::bytes(shape.bytes()),
            format!("{:.2}", shape.bits as f64 / level.items as f64),
            number::percent(level.expected_rate),
        ),
        None => ("no filter".into(), "0".into(), "100 %".into()),
    }
}

fn verdict(budget: Budget, tiers: &Tiers) -> String {
    let Tiers { best, uniform } = tiers;
    let (ours, even) = (best.false_positives, uniform.false_positives);
    match budget {
        Budget::Memory(_) if ours < even * 0.999 => format!(
            "An absent key meets {} false positives instead of {}: {} times fewer in the same memory.",
            number::many(ours),
            number::many(even),
            number::short(even / ours)
        ),
        Budget::Rate(_) if best.bytes < uniform.bytes => format!(
            "{} instead of {} for the same {} false positives of an absent key: {} less memory.",
            number::bytes(best.bytes),
            number::bytes(uniform.bytes),
            number::many(even),
            number::percent(1.0 - best.bytes as f64 / uniform.bytes as f64)
        ),
        _ => format!(
            "An absent key meets {} false positives; the same rate on every level is as good here.",
            number::many(ours)
        ),
    }
}

fn reasons(best: &Allocation) -> Vec<String> {
    let mut reasons = vec![
        "a lookup asks every level, so the sum of the rates counts; it is least when the rate of a level is in \
         proportion to its keys (Monkey: Dayan, Athanassoulis, Idreos 2017)"
            .to_string(),
    ];
    let without = best.levels.iter().filter(|level| level.shape.is_none()).count() as u64;
    if without > 0 {
        reasons.push(format!("{} without a filter: the bits save more elsewhere", number::counted(without, "level")));
    }
    reasons
}

fn in_json(kind: Kind, budget: Budget, tiers: &Tiers, commands: &[String]) -> String {
    let allocation = |allocation: &Allocation| {
        let levels = allocation.levels.iter().enumerate().map(|(at, level)| {
            Object::default()
                .whole("level", at as u64 + 1)
                .whole("items", level.items)
                .flag("filter", level.shape.is_some())
                .whole("bytes", level.shape.map_or(0, |shape| shape.bytes()))
                .number("bits_per_key", level.shape.map_or(0.0, |shape| shape.bits as f64 / level.items as f64))
                .number("rate", level.rate)
                .number("expected_rate", level.expected_rate)
                .close()
        });
        Object::default()
            .whole("bytes", allocation.bytes)
            .number("false_positives_per_absent_lookup", allocation.false_positives)
            .raw("levels", &json::list(levels))
            .close()
    };
    let (memory, rate) = match budget {
        Budget::Memory(memory) => (Some(memory as f64), None),
        Budget::Rate(rate) => (None, Some(rate)),
    };
    Object::default()
        .text("kind", kind.name())
        .maybe_number("asked_memory", memory)
        .maybe_number("asked_average_rate", rate)
        .text("verdict", verdict(budget, tiers))
        .raw("reasons", &json::list(reasons(&tiers.best).iter().map(|reason| json::text(reason))))
        .raw("best", &allocation(&tiers.best))
        .raw("uniform", &allocation(&tiers.uniform))
        .raw("next", &json::list(commands.iter().map(|command| json::text(command))))
        .close()
}
