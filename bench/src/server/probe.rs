//! How long one lookup takes, beside somebody else's work: asked by few at a fixed modest rate, or by a crowd of clients who each
//! wait for their answer and ask again.

use super::load::{self, Plan};
use super::replies::Replies;
use super::traffic::{Dialect, Random};
use crate::args::Fault;
use crate::shared_machine;
use crate::stolen::{Stolen, Watch};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Lookups a second: enough for 40 beyond the 99th percentile in 4 s, too few to be load.
const RATE: u32 = 1000;
/// Connections that take turns: handed out evenly, they reach two reactors.
const CONNECTIONS: usize = 2;
/// Connections of a crowd, as in the rows of throughput.
const CROWD: usize = 50;

/// Delays in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    counted: Vec<u64>,
    /// Lookups that are not among them, because the machine's host held a processor meanwhile.
    pub left_out: usize,
    /// How long it did.
    pub stolen: Duration,
}

impl Delays {
    /// The delay that `share` of all stay within.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.counted.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(at.max(1) - 1).or(sorted.last()).map_or(f64::NAN, |&delay| delay as f64)
    }

    /// Takes in those of `other`.
    pub fn join(&mut self, other: &Delays) {
        self.counted.extend_from_slice(&other.counted);
        self.left_out += other.left_out;
        self.stolen += other.stolen;
    }

    /// How many lookups there were, those that were left out among them.
    pub fn asked(&self) -> usize {
        self.counted.len() + self.left_out
    }

    fn of(lookups: &[(Instant, Instant)], stolen: &Stolen) -> Self {
        let counted = lookups.iter().filter(|(from, to)| !stolen.touches(*from, *to));
        let counted: Vec<u64> = counted.map(|(from, to)| to.duration_since(*from).as_nanos() as u64).collect();
        Self { left_out: lookups.len() - counted.len(), counted, stolen: stolen.time() }
    }

    /// Median, 99 %, 99.9 % and the longest, in microseconds.
    pub fn text(&self) -> String {
        let [half, most, nearly, all] = [0.5, 0.99, 0.999, 1.0].map(|share| self.quantile(share) / 1e3);
        format!("p50 {half:.0} p99 {most:.0} p99.9 {nearly:.0} max {all:.0} us")
    }
}

/// Lookups by fifty clients, each of which asks again as soon as it has its answer; their threads are on `cores`.
pub fn crowd(
    address: SocketAddr,
    dialect: Dialect,
    filter: &str,
    range: u64,
    cores: &[usize],
    done: impl Fn(Duration) -> bool + Send,
) -> Result<Delays, Fault> {
    let traffic = dialect.exists(filter, range, 1);
    let watch = Watch::begin(shared_machine::go_first);
    let lookups = load::times(Plan { address, traffic: &traffic, connections: CROWD, cores }, done);
    Ok(Delays::of(&lookups?, &watch.end()))
}

/// Lookups in the filter `filter` of `range` items until `done` says so, given the time since the start.
pub fn run(
    address: SocketAddr,
    dialect: Dialect,
    filter: &str,
    range: u64,
    done: impl Fn(Duration) -> bool + Send,
) -> Result<Delays, Fault> {
    // In a thread of its own: the priority it takes must not pass on to load and servers started later.
    std::thread::scope(|scope| scope.spawn(|| ask(address, dialect, filter, range, done)).join())
        .map_err(|_| Fault("the probe panicked".to_string()))?
}

fn ask(
    address: SocketAddr,
    dialect: Dialect,
    filter: &str,
    range: u64,
    done: impl Fn(Duration) -> bool,
) -> Result<Delays, Fault> {
    let traffic = dialect.exists(filter, range, 1);
    let mut lines = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        lines.push((stream, Replies::of(&traffic)));
    }
    // The probe is the clock, not the load: it goes first where it is allowed to.
    shared_machine::go_first();
    let (mut buffer, mut random) = (traffic.template.clone(), Random(0x9E37));
    let (mut read, mut lookups) = ([0; 4096], Vec::new());
    let watch = Watch::begin(shared_machine::go_first);
    let begun = Instant::now();
    let step = Duration::from_secs(1) / RATE;
    let mut due = begun;
    for turn in 0.. {
        if done(begun.elapsed()) {
            break;
        }
        traffic.stamp(&mut buffer, &mut random);
        let (stream, replies) = &mut lines[turn % CONNECTIONS];
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let sent = Instant::now();
        // A late reply delays the next lookup: that one counts from when it was due. Waking late from sleep is our own
        // fault and does not count.
        let from = if sent.duration_since(due) > step { due } else { sent };
        replies.expect();
        stream.write_all(&buffer)?;
        loop {
            let got = stream.read(&mut read)?;
            if got == 0 {
                return Err(Fault("the server closed the connection of the probe".to_string()));
            }
            if replies.take(&read[..got])?.whole {
                break;
            }
        }
        lookups.push((from, Instant::now()));
        due += step;
    }
    Ok(Delays::of(&lookups, &watch.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_delays() {
        let counted = |counted: Vec<u64>| Delays { counted, ..Delays::default() };
        let mut delays = counted((1..=99).rev().collect());
        delays.join(&counted(vec![1000]));
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|share| delays.quantile(share)), [50.0, 99.0, 1000.0, 1000.0]);
        assert!(Delays::default().quantile(0.99).is_nan());
    }
}
