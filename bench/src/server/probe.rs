//! How long one lookup takes, asked at a fixed modest rate: the delays somebody else's work causes.

use super::process;
use super::replies::Replies;
use super::traffic::{Dialect, Random};
use crate::args::Fault;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Lookups a second: enough for 40 beyond the 99th percentile in 4 s, too few to be load.
const RATE: u32 = 1000;
/// Connections that take turns: handed out evenly, they reach two reactors.
const CONNECTIONS: usize = 2;

/// Delays in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Delays(Vec<u64>);

impl Delays {
    /// The delay that `share` of all stay within.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() as f64 * share).ceil() as usize;
        sorted.get(at.max(1) - 1).or(sorted.last()).map_or(f64::NAN, |&delay| delay as f64)
    }

    /// Takes in those of `other`.
    pub fn join(&mut self, other: &Delays) {
        self.0.extend_from_slice(&other.0);
    }

    /// Median, 99 %, 99.9 % and the longest, in microseconds.
    pub fn text(&self) -> String {
        let [half, most, nearly, all] = [0.5, 0.99, 0.999, 1.0].map(|share| self.quantile(share) / 1e3);
        format!("p50 {half:.0} p99 {most:.0} p99.9 {nearly:.0} max {all:.0} us")
    }
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
    process::go_first();
    let (mut buffer, mut random) = (traffic.template.clone(), Random(0x9E37));
    let (mut read, mut delays) = ([0; 4096], Delays::default());
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
        delays.0.push(from.elapsed().as_nanos() as u64);
        due += step;
    }
    Ok(delays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_delays() {
        let mut delays = Delays((1..=99).rev().collect());
        delays.join(&Delays(vec![1000]));
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|share| delays.quantile(share)), [50.0, 99.0, 1000.0, 1000.0]);
        assert!(Delays::default().quantile(0.99).is_nan());
    }
}
