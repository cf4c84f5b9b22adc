//! The client that did nothing wrong: lookups of items it knows, before, while and after somebody abuses the server. It takes down
//! every answer that is wrong, every connection that is lost, and every delay.
//!
//! Alone it asks a thousand times a second, so that every microsecond shows which somebody else takes. Or it is a crowd: so many
//! clients who ask again as soon as they have their answer, which is a server at work.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::shared_machine::go_first;
use crate::stolen::Watch;
use crate::subject::{Answer, Subject};
use crate::wire::{Reply, Wire};

/// Lookups a second: enough for ten beyond the 99th percentile in a second, too few to be load.
const RATE: u32 = 1_000;
/// Connections that take turns: handed out evenly, they reach two threads of the server.
const CONNECTIONS: usize = 2;
/// What it knows to be there; the server is asked for as many that are not.
const ITEMS: u64 = 10_000;

/// Who asks.
#[derive(Clone, Copy)]
pub struct Honest<'a> {
    pub subject: &'a Subject,
    pub address: SocketAddr,
    /// User and password, where one has to log in.
    pub login: Option<(&'a str, &'a str)>,
}

/// A lookup: in which phase, from when to when.
type Lookup = (usize, Instant, Instant);

/// When it asks.
#[derive(Clone, Copy, PartialEq)]
enum Pace {
    /// So many times a second, on connections that take turns.
    Steady,
    /// As soon as it has its answer.
    AtOnce,
}

/// What it found.
#[derive(Default)]
pub struct Findings {
    pub asked: u64,
    /// Members that were not found, and answers that were none.
    pub wrong: u64,
    /// Connections that the server ended.
    pub lost: u64,
    /// Items taken for present that are not: of a filter at 0.01 % one in 10,000.
    pub positives: u64,
    /// The first thing that was wrong.
    pub first: Option<String>,
    /// Nanoseconds of each lookup, with the phase it was in.
    delays: Vec<(usize, u64)>,
    /// Lookups that are not among them, because the machine's host held a processor meanwhile.
    left_out: u64,
    /// How long it did.
    stolen: Duration,
}

impl Findings {
    /// The delay that 99 % of the lookups of some phases stay within, in microseconds.
    pub fn p99(&self, phases: impl Fn(usize) -> bool) -> f64 {
        let mut delays: Vec<u64> = self.delays.iter().filter(|(at, _)| phases(*at)).map(|&(_, delay)| delay).collect();
        delays.sort_unstable();
        let at = (delays.len() as f64 * 0.99).ceil() as usize;
        delays.get(at.max(1) - 1).map_or(f64::NAN, |&delay| delay as f64 / 1e3)
    }

    /// How many lookups say nothing, because the machine's host held a processor meanwhile.
    pub fn left_out(&self) -> String {
        format!("{} ({:.0} ms held by the host)", self.left_out, self.stolen.as_secs_f64() * 1e3)
    }

    /// Takes in what another client found.
    fn join(&mut self, other: Findings) {
        self.asked += other.asked;
        self.wrong += other.wrong;
        self.lost += other.lost;
        self.positives += other.positives;
        self.first = self.first.take().or(other.first);
    }

    fn note(&mut self, what: String) {
        self.first.get_or_insert(what);
    }

    /// That nothing was wrong, or what was.
    pub fn verdict(&self) -> Result<(), String> {
        let first = self.first.as_deref().unwrap_or("");
        // Twenty times the promised rate: 100 lookups give none of them by chance, and 100,000 give 10.
        let most = 20 + self.asked / 1_000;
        match (self.wrong, self.lost, self.positives > most, self.asked) {
            (0, 0, false, 1..) => Ok(()),
            (wrong, lost, _, asked) => Err(format!(
                "of {asked} honest lookups {wrong} were answered wrongly, {} said maybe, {lost} connections were lost: {first}",
                self.positives
            )),
        }
    }
}

fn item(number: u64) -> Vec<u8> {
    format!("honest:{number:08}").into_bytes()
}

impl Honest<'_> {
    /// A connection, logged in.
    pub fn connect(&self) -> io::Result<Wire> {
        let mut wire = Wire::connect(self.address, Duration::from_secs(30))?;
        if let Some((user, password)) = self.login {
            match wire.ask("AUTH", &[user, password])? {
                Reply::Status(_) => {}
                other => return Err(io::Error::other(format!("AUTH {user} was answered {other:?}"))),
            }
        }
        Ok(wire)
    }

    /// Makes the filter and puts the items in.
    pub fn fill(&self) -> Result<(), String> {
        let say = |error: io::Error| format!("the honest client fills its filter: {error}");
        let mut wire = self.connect().map_err(say)?;
        self.subject.reserve(&mut wire).map_err(say)?;
        let items: Vec<Vec<u8>> = (0..ITEMS).map(item).collect();
        for some in items.chunks(20) {
            self.subject.add(&mut wire, some);
            let reply = wire.reply().map_err(say)?;
            if let (_, Some(error)) = self.subject.added(&reply, some.len()) {
                return Err(format!("the honest client fills its filter: {error}"));
            }
        }
        Ok(())
    }

    /// Asks for everything once more: every item has to be there.
    pub fn check(&self) -> Result<(), String> {
        let say = |error: io::Error| format!("the honest client checks its items: {error}");
        let mut wire = self.connect().map_err(say)?;
        let items: Vec<Vec<u8>> = (0..ITEMS).map(item).collect();
        for some in items.chunks(500) {
            self.subject.ask(&mut wire, some);
            let reply = wire.reply().map_err(say)?;
            let answers = self.subject.answers(reply, some.len());
            if let Some(at) = answers.iter().position(|answer| *answer != Answer::Count(1)) {
                let item = String::from_utf8_lossy(&some[at]);
                return Err(format!("{item} was added and acknowledged, and is answered {:?}", answers[at]));
            }
        }
        Ok(())
    }

    /// Asks until `stop`, alone or as a crowd of so many.
    pub fn run(&self, crowd: usize, stop: &AtomicBool, phase: &AtomicUsize) -> Result<Findings, String> {
        let watch = Watch::begin(go_first);
        let (mut found, mut lookups) = (Findings::default(), Vec::new());
        if crowd == 0 {
            go_first();
            (found, lookups) = self.ask(Pace::Steady, 0, stop, phase)?;
        } else {
            std::thread::scope(|scope| {
                let one = |first| scope.spawn(move || self.ask(Pace::AtOnce, first, stop, phase));
                let clients: Vec<_> = (0..crowd).map(|at| one(at as u64 * 1_000_003)).collect();
                for client in clients {
                    let (its, times) = client.join().unwrap_or_else(|_| Err("an honest client panicked".into()))?;
                    found.join(its);
                    lookups.extend(times);
                }
                Ok::<(), String>(())
            })?;
        }
        let stolen = watch.end();
        for (at, from, to) in lookups {
            match stolen.touches(from, to) {
                true => found.left_out += 1,
                false => found.delays.push((at, to.duration_since(from).as_nanos() as u64)),
            }
        }
        found.stolen = stolen.time();
        Ok(found)
    }

    /// What one client finds that asks from the turn `first` on, and its lookups.
    fn ask(
        &self,
        pace: Pace,
        first: u64,
        stop: &AtomicBool,
        phase: &AtomicUsize,
    ) -> Result<(Findings, Vec<Lookup>), String> {
        let again = || self.connect().map_err(|error| format!("the honest client cannot connect: {error}"));
        let connections = if pace == Pace::Steady { CONNECTIONS } else { 1 };
        let mut wires = (0..connections).map(|_| again()).collect::<Result<Vec<Wire>, String>>()?;
        let (mut found, mut lookups) = (Findings::default(), Vec::new());
        let step = Duration::from_secs(1) / RATE;
        let mut due = Instant::now();
        for turn in first.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            // Members and others by turns.
            let (number, present) = (turn.wrapping_mul(7_919) % ITEMS, turn % 4 < 2);
            let asked = if present { item(number) } else { format!("nobody:{turn:08}").into_bytes() };
            match pace {
                Pace::Steady => std::thread::sleep(due.saturating_duration_since(Instant::now())),
                Pace::AtOnce => due = Instant::now(),
            }
            let sent = Instant::now();
            // A late reply delays the next lookup: that one counts from when it was due. Waking late from sleep is our
            // own fault and does not count.
            let from = if sent.duration_since(due) > step { due } else { sent };
            let at = phase.load(Ordering::Relaxed);
            let wire = &mut wires[turn as usize % connections];
            self.subject.ask(wire, &[asked]);
            found.asked += 1;
            match wire.reply() {
                Ok(reply) => match (self.subject.answers(reply, 1).swap_remove(0), present) {
                    (Answer::Count(1), true) | (Answer::Count(0), false) => {}
                    (Answer::Count(1), false) => found.positives += 1,
                    (answer, _) => {
                        found.wrong += 1;
                        found.note(format!("honest:{number:08} was answered {answer:?}"));
                    }
                },
                Err(error) => {
                    found.lost += 1;
                    found.note(error.to_string());
                    *wire = again()?;
                }
            }
            lookups.push((at, from, Instant::now()));
            due += step;
        }
        Ok((found, lookups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_percentile_is_that_of_the_phases_asked_for() {
        let delays = (1..=200).map(|at| (usize::from(at > 100), at * 1_000)).collect();
        let found = Findings { asked: 200, delays, ..Findings::default() };
        assert_eq!((found.p99(|at| at == 0), found.p99(|at| at == 1), found.p99(|_| true)), (99.0, 199.0, 198.0));
        assert!(found.p99(|at| at == 2).is_nan());
    }

    #[test]
    fn one_wrong_answer_is_one_too_many() {
        assert!(Findings { asked: 1_000, positives: 3, ..Findings::default() }.verdict().is_ok());
        assert!(Findings { asked: 1_000, wrong: 1, ..Findings::default() }.verdict().is_err());
        assert!(Findings { asked: 1_000, lost: 1, ..Findings::default() }.verdict().is_err());
        assert!(Findings { asked: 1_000, positives: 100, ..Findings::default() }.verdict().is_err());
        assert!(Findings::default().verdict().is_err(), "who asked nothing found nothing");
    }
}
