//! Signs of an attack: how much logins, limits and handshakes have turned away in the last five minutes.
//!
//! None of them is wrong by itself: a limit that ends a connection does what it is there for, and honest clients mistype passwords.
//! A hundred of one sort in five minutes is somebody who tries, or a program that is set up wrongly and tries all day.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bloomgate_http::listen::Traffic;

use crate::logging::counted;
use crate::session::desk::Desk;

/// How long a sign counts: `increase(...[5m])` of the rule for Prometheus.
const STRETCH: Duration = Duration::from_secs(300);
/// More than so many of one sort within that are an attack.
const MANY: u64 = 100;

/// What was counted, each since the server started or since its counter was set to zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Signs {
    /// Logins that failed, over HTTP too.
    logins: u64,
    /// Clients that were refused.
    refused: u64,
    /// Clients that a limit ended, but for those that were only idle.
    cut: u64,
    /// TLS handshakes that failed.
    handshakes: u64,
    /// Connections of HTTP that were refused, or that a limit ended.
    web: u64,
}

impl Signs {
    /// As it is counted now.
    pub(super) fn of(desk: &Desk, traffic: &Traffic) -> Self {
        let cuts = &desk.cuts;
        Self {
            logins: desk.access.notes.counts().0,
            refused: desk.totals().rejected,
            cut: [&cuts.guests, &cuts.slow, &cuts.stalled, &cuts.memory].map(|cut| cut.load(Relaxed)).iter().sum(),
            handshakes: cuts.handshakes.load(Relaxed),
            web: traffic.turned_away(),
        }
    }

    fn all(self) -> [u64; 5] {
        [self.logins, self.refused, self.cut, self.handshakes, self.web]
    }

    /// Both, by a rule for each number.
    fn with(self, other: Self, rule: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            logins: rule(self.logins, other.logins),
            refused: rule(self.refused, other.refused),
            cut: rule(self.cut, other.cut),
            handshakes: rule(self.handshakes, other.handshakes),
            web: rule(self.web, other.web),
        }
    }

    /// What is to be said, if it is an attack: of each sort of which there were many.
    pub(super) fn verdict(self) -> Option<String> {
        let nouns = [
            ("login", "failed"),
            ("client", "refused"),
            ("client", "ended by a limit"),
            ("TLS handshake", "failed"),
            ("HTTP connection", "turned away"),
        ];
        let many: Vec<String> = nouns
            .into_iter()
            .zip(self.all())
            .filter(|(_, count)| *count > MANY)
            .map(|((noun, verb), count)| format!("{} {verb}", counted(count, noun)))
            .collect();
        (!many.is_empty()).then(|| format!("in the last five minutes: {}", many.join(", ")))
    }
}

/// The looks of the last five minutes.
#[derive(Debug, Default)]
pub(super) struct Window {
    before: Signs,
    /// What each look found that the one before it had not.
    steps: VecDeque<(Instant, Signs)>,
}

impl Window {
    /// Takes what is counted now; what came in the last five minutes.
    pub(super) fn look(&mut self, now: Signs, at: Instant) -> Signs {
        // A counter that was set to zero has counted again since.
        let step = now.with(self.before, |now, before| now.checked_sub(before).unwrap_or(now));
        self.before = now;
        self.steps.push_back((at, step));
        while self.steps.front().is_some_and(|(then, _)| at.duration_since(*then) >= STRETCH) {
            self.steps.pop_front();
        }
        self.steps.iter().fold(Signs::default(), |sum, (_, step)| sum.with(*step, u64::saturating_add))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_five_minutes_ago_is_no_sign_any_more() {
        let (mut window, begin) = (Window::default(), Instant::now());
        let at = |seconds| begin + Duration::from_secs(seconds);
        let signs = |logins, cut| Signs { logins, cut, ..Signs::default() };
        assert_eq!(window.look(signs(60, 0), at(0)), signs(60, 0));
        assert_eq!(window.look(signs(101, 3), at(10)), signs(101, 3));
        for ten in 2..30 {
            assert_eq!(window.look(signs(101, 3), at(10 * ten)), signs(101, 3), "{ten}");
        }
        assert_eq!(window.look(signs(101, 3), at(300)), signs(41, 3), "the first 60 are too old");
        assert_eq!(window.look(signs(103, 3), at(310)), signs(2, 0));
        // CONFIG RESETSTAT, and five since.
        assert_eq!(window.look(signs(5, 3), at(320)), signs(7, 0));
        assert!(window.steps.len() <= 31, "{}", window.steps.len());
    }

    #[test]
    fn many_of_one_sort_are_an_attack_and_few_of_each_are_none() {
        let few = Signs { logins: 100, refused: 100, cut: 100, handshakes: 100, web: 100 };
        assert_eq!(few.verdict(), None);
        let one = Signs { logins: 101, ..Signs::default() };
        assert_eq!(one.verdict().unwrap(), "in the last five minutes: 101 logins failed");
        let all = Signs { logins: 0, refused: 1_000, cut: 101, handshakes: 200, web: 300 };
        assert_eq!(
            all.verdict().unwrap(),
            "in the last five minutes: 1,000 clients refused, 101 clients ended by a limit, 200 TLS handshakes failed, \
             300 HTTP connections turned away"
        );
    }
}
