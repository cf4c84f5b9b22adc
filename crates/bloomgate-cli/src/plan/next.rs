//! The commands that make what was planned, to be run as they are printed.

use std::path::PathBuf;

use bloomgate::Kind;
use bloomgate::advice::{Need, Plan};

use crate::keys::{Reading, Source};
use crate::shell;

/// A rate that is written short and is no lower than `rate`, so that what was planned to fit still does.
pub fn written_rate(rate: f64) -> f64 {
    let unit = 10f64.powi(rate.log10().floor() as i32 - 2);
    let up = (rate / unit - 1e-9).ceil() * unit;
    // Back through text: the shortest decimal, not 0.0012300000000000002.
    format!("{up:.3e}").parse().unwrap_or(rate)
}

/// The commands. A ring is made by what reads a stream: as planned when its window is a number of lines.
pub fn commands(need: &Need, plan: &Plan, from: &[PathBuf], reading: &Reading) -> Vec<String> {
    let rate = if need.rate == Some(plan.rate) { plan.rate } else { written_rate(plan.rate) };
    let ring = plan.shape.kind == Kind::Rotating;
    let mut build = match ring {
        false => format!("bloomgate build -o keys.bloom --rate {rate}"),
        true => format!("bloomgate dedup --filter keys.bloom --rate {rate} --window-lines {}", plan.items),
    };
    if plan.shape.kind != Kind::Blocked && !ring {
        build.push_str(&format!(" --kind {}", plan.shape.kind));
    }
    match need.items {
        // Built once, of the keys that there are.
        _ if ring || !plan.shape.kind.takes_inserts() => {}
        Some(items) if plan.headroom > 1.0 => build.push_str(&format!(" --items {items} --headroom {}", plan.headroom)),
        _ => build.push_str(&format!(" --items {}", plan.items)),
    }
    let mut commands = Vec::new();
    if plan.keyed {
        commands.push("bloomgate secret new -o keys.secret".into());
        build.push_str(" --secret-file keys.secret");
    }
    for option in reading.options() {
        build.push_str(&format!(" {}", shell::word(option)));
    }
    if from.is_empty() {
        build.push_str(" keys.txt");
    }
    for source in from.iter().map(|path| Source::of(path)) {
        build.push_str(&match &source {
            Source::File(path) => format!(" {}", shell::path(path)),
            Source::Stdin => " -".into(),
            // Without its password.
            Source::Sqlite(_) | Source::Postgres(_) => format!(" {}", shell::word(source.name())),
        });
    }
    commands.push(build);
    commands
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
