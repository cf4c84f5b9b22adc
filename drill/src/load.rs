//! The load: several connections that write without pause, each reply taken down with the time it was read.
//!
//! A time is taken after the read that brought the reply, so an acknowledgement is never dated earlier than the client
//! could know of it, and connections read whenever something is unanswered, so hardly later.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::adds::{Adds, Way};
use crate::counts::Counts;
use crate::structure::{self, Structure};
use crate::subject::{Copies, Subject};
use crate::system;
use crate::wire::{Reply, Wire};

/// What a connection writes, and what it remembers of it.
pub trait Script: Send {
    /// Puts the next request; how many writes it holds.
    fn request(&mut self, subject: &Subject, wire: &mut Wire) -> u64;
    /// Takes down the reply to the oldest request without one. An error is a broken promise, not a refused write.
    fn reply(&mut self, subject: &Subject, reply: &Reply, at: u64) -> Result<(), String>;
    /// The connection is gone: what has no reply will never have one.
    fn hang_up(&mut self);
}

/// How the load is given.
#[derive(Clone, Copy)]
pub struct Pace {
    /// Writes per second over all connections; 0: as many as it can.
    pub rate: u64,
    /// Requests in flight on each connection.
    pub window: usize,
}

/// All connections' scripts. They go on where they were when the server comes back.
#[derive(Clone)]
pub struct Load {
    pub adds: Vec<Adds>,
    pub counts: Vec<Counts>,
    /// Changes of what there is beside the others, of loads that have them.
    structure: Option<Structure>,
}

impl Load {
    /// Fresh scripts, none of whose items was ever written by one of another `epoch`: so many connections of plain adds, and
    /// one of each other way.
    pub fn new(seed: u64, epoch: u64, connections: usize) -> Load {
        let ways = (0..connections).map(|_| Way::Plain).chain([Way::Together, Way::Small, Way::Window]);
        let adds: Vec<Adds> = ways.enumerate().map(|(i, way)| Adds::new(way, seed, epoch, i as u64)).collect();
        let counts = [Copies::Cuckoo, Copies::Requests].into_iter().zip(adds.len() as u64..);
        Load { counts: counts.map(|(way, i)| Counts::new(way, seed, epoch, i)).collect(), adds, structure: None }
    }

    /// As [`new`](Load::new), and one connection of structural writes, for a server that keeps its data there.
    pub fn with_structure(seed: u64, epoch: u64, connections: usize, data: &Path) -> Load {
        let structure = Structure::new(seed, epoch, structure::import_folder(data));
        Load { structure: Some(structure), ..Load::new(seed, epoch, connections) }
    }

    /// The script whose turn it is, for drills with one connection.
    pub fn script(&mut self, turn: usize) -> &mut dyn Script {
        let mut scripts = scripts(&mut self.adds, &mut self.counts);
        let place = turn % scripts.len();
        scripts.swap_remove(place)
    }

    /// Writes that were refused since the last check.
    pub fn refusals(&self) -> u64 {
        self.adds.iter().map(|it| it.refused).chain(self.counts.iter().map(|it| it.refused)).sum()
    }

    /// Writes until `stop` (then takes the replies still due) or until the server is gone. Whatever breaks a promise
    /// while writing is an error.
    pub fn run(&mut self, subject: &Subject, address: SocketAddr, stop: &AtomicBool, pace: Pace) -> Result<(), String> {
        let connections = (self.adds.len() + self.counts.len()) as u64;
        let pace = Pace { rate: pace.rate.div_ceil(connections), ..pace };
        let Load { adds, counts, structure } = self;
        std::thread::scope(|scope| {
            let mut running: Vec<_> = scripts(adds, counts)
                .into_iter()
                .map(|script| scope.spawn(move || drive(script, subject, address, stop, pace)))
                .collect();
            let changing = structure.as_mut().map(|script| scope.spawn(move || script.run(subject, address, stop)));
            running.extend(changing);
            let mut outcome = Ok(());
            for thread in running {
                let one = thread.join().unwrap_or_else(|_| Err("a connection's thread panicked".into()));
                outcome = outcome.and(one);
            }
            outcome
        })
    }
}

fn scripts<'a>(adds: &'a mut [Adds], counts: &'a mut [Counts]) -> Vec<&'a mut dyn Script> {
    let adds = adds.iter_mut().map(|it| it as &mut dyn Script);
    adds.chain(counts.iter_mut().map(|it| it as &mut dyn Script)).collect()
}

fn drive(
    script: &mut dyn Script,
    subject: &Subject,
    address: SocketAddr,
    stop: &AtomicBool,
    pace: Pace,
) -> Result<(), String> {
    let outcome = turns(script, subject, address, stop, pace);
    script.hang_up();
    match outcome {
        Ok(broken) => broken,
        // The server was killed: that is the drill. One that hangs is a finding.
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err("a write had no reply for 30 s".into())
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(error.to_string()),
        Err(_) => Ok(()),
    }
}

fn turns(
    script: &mut dyn Script,
    subject: &Subject,
    address: SocketAddr,
    stop: &AtomicBool,
    pace: Pace,
) -> io::Result<Result<(), String>> {
    let mut wire = Wire::connect(address, Duration::from_secs(30))?;
    let begin = Instant::now();
    let mut written = 0;
    let mut waiting = 0;
    loop {
        while waiting < pace.window && !stop.load(Ordering::Relaxed) {
            if pace.rate > 0 && written > (begin.elapsed().as_secs_f64() * pace.rate as f64) as u64 {
                break;
            }
            let before = wire.pushed;
            written += script.request(subject, &mut wire);
            waiting += wire.pushed - before;
        }
        wire.flush()?;
        if waiting == 0 {
            if stop.load(Ordering::Relaxed) {
                return Ok(Ok(()));
            }
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        wire.fill()?;
        let at = system::now();
        while let Some(reply) = wire.take()? {
            waiting -= 1;
            if let Err(broken) = script.reply(subject, &reply, at) {
                return Ok(Err(broken));
            }
        }
    }
}

/// What a check of everything found.
#[derive(Default, Debug)]
pub struct Verdict {
    pub adds: crate::adds::Found,
    pub counts: crate::counts::Counted,
    pub structure: structure::Found,
}

impl Verdict {
    /// The promise where nothing may be lost: everything acknowledged is there, nothing happened twice.
    pub fn nothing_lost(&self, subject: &Subject) -> Result<(), String> {
        let found = &self.adds;
        if found.lost > 0 || found.errors > 0 {
            let (asked, lost, errors) = (found.asked, found.lost, found.errors);
            let error = found.error.as_deref().unwrap_or("");
            return Err(format!("of {asked} acknowledged adds {lost} are lost, {errors} have no answer {error}"));
        }
        self.counts.verdict(subject.kind).and(self.structure.verdict())
    }
}

impl Load {
    /// Asks for everything. Adds acknowledged up to `adds_until` are asked for; operations on counted items, and structural
    /// writes, acknowledged up to `counts_until` must have survived. Not `thorough`: what an earlier check found is not asked
    /// for again. Refusals are forgotten.
    pub fn check(
        &mut self,
        subject: &Subject,
        address: SocketAddr,
        adds_until: u64,
        counts_until: u64,
        thorough: bool,
    ) -> Result<Verdict, String> {
        let say = |error: io::Error| format!("the check after the restart: {error}");
        let mut wire = Wire::connect(address, Duration::from_secs(30)).map_err(say)?;
        let mut verdict = Verdict::default();
        for script in &mut self.adds {
            verdict.adds.merge(script.check(subject, &mut wire, adds_until, thorough).map_err(say)?);
        }
        for script in &mut self.counts {
            verdict.counts.merge(script.check(subject, &mut wire, counts_until, thorough).map_err(say)?);
        }
        if let Some(script) = &mut self.structure {
            verdict.structure = script.check(subject, &mut wire, adds_until, counts_until).map_err(say)?;
        }
        Ok(verdict)
    }

    /// Adds and counts acknowledged since the last check, up to a time.
    pub fn acknowledged(&self, until: u64) -> u64 {
        let adds: u64 = self.adds.iter().map(|script| script.acknowledged(until)).sum();
        let counts: u64 = self.counts.iter().map(|script| script.acknowledged(until)).sum();
        adds + counts
    }

    /// A write that was refused where none should be.
    pub fn refused(&self) -> Result<(), String> {
        let first = self.adds.iter().find_map(|script| script.refusal.as_deref()).unwrap_or("");
        match self.refusals() {
            0 => self.structure.as_ref().map_or(Ok(()), Structure::refused),
            refused => Err(format!("{refused} writes were refused: {first}")),
        }
    }
}

/// One request and its replies, for drills that look at each.
pub fn step(script: &mut dyn Script, subject: &Subject, wire: &mut Wire) -> io::Result<Result<(), String>> {
    let before = wire.pushed;
    script.request(subject, wire);
    for _ in before..wire.pushed {
        let reply = wire.reply().inspect_err(|_| script.hang_up())?;
        if let Err(broken) = script.reply(subject, &reply, system::now()) {
            return Ok(Err(broken));
        }
    }
    Ok(Ok(()))
}
