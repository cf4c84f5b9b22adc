//! The load generator: pinned threads, each with its share of the connections and one pipeline in flight on every one.
//!
//! A thread waits in epoll, reads once, counts, stamps the next pipeline and writes once: about 9 ns an item on BF.MEXISTS
//! of 100 where redis-benchmark takes about 100 and would be the limit of what is measured.

use super::process::{self, Process};
use super::replies::Replies;
use super::traffic::{Random, Traffic};
use crate::args::Fault;
use crate::shared_machine;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Room for the replies of a whole pipeline.
const READ_BYTES: usize = 256 << 10;
/// A server that says nothing for so long is taken for dead.
const SILENCE: Duration = Duration::from_secs(30);

/// Who sends what to whom.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// The server.
    pub address: SocketAddr,
    /// What is sent.
    pub traffic: &'a Traffic,
    /// Connections, over all threads.
    pub connections: usize,
    /// One thread for each of these CPUs, kept there.
    pub cores: &'a [usize],
}

/// What the threads have counted so far. A cache line each would be nicer; at two additions a read it does not show.
#[derive(Default)]
pub struct Counts {
    items: AtomicU64,
    ones: AtomicU64,
    /// Refusals, where they do not end the run.
    pub errors: AtomicU64,
    /// The first of them.
    pub first_error: Mutex<Option<String>>,
    /// When each pipeline was sent and its last reply read, where somebody asks for that.
    pub times: Option<Mutex<Vec<(Instant, Instant)>>>,
}

/// One stretch of load.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Wall time.
    pub seconds: f64,
    /// Items answered.
    pub items: u64,
    /// Answers `:1` among them.
    pub ones: u64,
    /// Server CPU nanoseconds by thread, most first.
    pub server_ns: Vec<u64>,
    /// CPU nanoseconds of the load generator.
    pub client_ns: u64,
}

impl Sample {
    /// Items a second by the wall.
    pub fn wall(&self) -> f64 {
        self.items as f64 / self.seconds
    }

    /// Items a second of server CPU, all its threads added.
    pub fn per_cpu(&self) -> f64 {
        self.items as f64 / (self.server_ns.iter().sum::<u64>() as f64 / 1e9)
    }

    /// The share of `:1`.
    pub fn ones(&self) -> f64 {
        self.ones as f64 / self.items as f64
    }

    /// Of the CPU time of the `threads` busiest threads, the share of the busiest.
    pub fn busiest(&self, threads: usize) -> f64 {
        let busy = &self.server_ns[..threads.min(self.server_ns.len())];
        busy.first().copied().unwrap_or(0) as f64 / busy.iter().sum::<u64>() as f64
    }
}

/// Load for `time`, counted after `warm`. Without a process no server CPU is known.
pub fn run_for(plan: Plan<'_>, server: Option<u32>, warm: Duration, time: Duration) -> Result<(Sample, Counts), Fault> {
    let (stop, counts) = (AtomicBool::new(false), Counts::default());
    let cpu = || server.map_or(Ok(process::Cpu::new()), process::cpu_of);
    let sample = std::thread::scope(|scope| -> Result<Sample, Fault> {
        let driver = scope.spawn(|| drive(plan, &stop, &counts));
        let wait = |time: Duration| {
            let begun = Instant::now();
            while begun.elapsed() < time && !driver.is_finished() {
                std::thread::sleep((time.saturating_sub(begun.elapsed())).min(Duration::from_millis(50)));
            }
        };
        let read = || (counts.items.load(Ordering::Relaxed), counts.ones.load(Ordering::Relaxed));
        wait(warm);
        let (begun, before, was) = (Instant::now(), cpu(), read());
        let client_before = process::cpu_of(std::process::id());
        wait(time);
        // A slow server may not have answered anything yet: a longer cell is better than none.
        while read().0 == was.0 && begun.elapsed() < SILENCE && !driver.is_finished() {
            wait(time);
        }
        let (seconds, after, now) = (begun.elapsed().as_secs_f64(), cpu(), read());
        let client_after = process::cpu_of(std::process::id());
        stop.store(true, Ordering::Relaxed);
        driver.join().map_err(|_| Fault("the load generator panicked".to_string()))??;
        let server_ns = process::spent(&before?, &after?);
        let client_ns = process::spent(&client_before?, &client_after?).iter().sum();
        Ok(Sample { seconds, items: now.0 - was.0, ones: now.1 - was.1, server_ns, client_ns })
    })?;
    if sample.items == 0 {
        return Err(Fault("no item was answered".to_string()));
    }
    Ok((sample, counts))
}

/// Load until the items of the traffic are used up; how many were answered, and how many of these with `:1`.
pub fn run_out(server: &Process, traffic: &Traffic, cores: &[usize]) -> Result<(u64, u64), Fault> {
    let counts = Counts::default();
    let plan = Plan { address: server.address, traffic, connections: 16, cores };
    drive(plan, &AtomicBool::new(false), &counts)?;
    Ok((counts.items.load(Ordering::Relaxed), counts.ones.load(Ordering::Relaxed)))
}

/// Load until `done` says so, given the time since the start: when each pipeline was sent, and when its replies were there.
pub fn times(plan: Plan<'_>, done: impl Fn(Duration) -> bool) -> Result<Vec<(Instant, Instant)>, Fault> {
    let (stop, counts) = (AtomicBool::new(false), Counts { times: Some(Mutex::default()), ..Counts::default() });
    std::thread::scope(|scope| {
        let driver = scope.spawn(|| drive(plan, &stop, &counts));
        let begun = Instant::now();
        while !done(begun.elapsed()) && !driver.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        driver.join().map_err(|_| Fault("the load generator panicked".to_string()))?
    })?;
    let times = counts.times.map(|times| times.into_inner().unwrap_or_else(PoisonError::into_inner));
    times.filter(|times| !times.is_empty()).ok_or(Fault("no item was answered".to_string()))
}

/// Load until `stop`, or until there is nothing more to send.
pub fn drive(plan: Plan<'_>, stop: &AtomicBool, counts: &Counts) -> Result<(), Fault> {
    // Connected in one go, before any thread sends: a server that hands connections out evenly can do so.
    let mut streams = Vec::new();
    for _ in 0..plan.connections {
        let stream = TcpStream::connect(plan.address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    let mut shares: Vec<Vec<TcpStream>> = plan.cores.iter().map(|_| Vec::new()).collect();
    let threads = shares.len();
    // In pairs: connections 0 and 1 to the first thread, so that each thread talks to both of two reactors.
    for (at, stream) in streams.into_iter().enumerate() {
        shares[at / 2 % threads].push(stream);
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = shares
            .into_iter()
            .zip(plan.cores)
            .enumerate()
            .map(|(at, (share, core))| {
                scope.spawn(move || {
                    let done = shared_machine::pin(&[*core])
                        .map_err(Fault::from)
                        .and_then(|()| Generator::new(plan.traffic, share, at as u64)?.run(stop, counts));
                    if done.is_err() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let ends: Vec<_> = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(Fault("a thread of load panicked".to_string()))))
            .collect();
        ends.into_iter().collect()
    })
}

/// One connection and what it waits for.
struct Line {
    stream: TcpStream,
    replies: Replies,
    /// The rest of a pipeline that the kernel did not take at once.
    unsent: Vec<u8>,
    sent: usize,
    since: Instant,
    open: bool,
}

/// One thread of load.
struct Generator<'a> {
    traffic: &'a Traffic,
    lines: Vec<Line>,
    epoll: Epoll,
    buffer: Vec<u8>,
    random: Random,
    open: usize,
}

impl<'a> Generator<'a> {
    fn new(traffic: &'a Traffic, streams: Vec<TcpStream>, seed: u64) -> Result<Self, Fault> {
        let epoll = Epoll::new()?;
        for (at, stream) in streams.iter().enumerate() {
            epoll.add(stream, at as u64)?;
        }
        let line = |stream| Line {
            stream,
            replies: Replies::of(traffic),
            unsent: Vec::new(),
            sent: 0,
            since: Instant::now(),
            open: true,
        };
        let lines: Vec<Line> = streams.into_iter().map(line).collect();
        let open = lines.len();
        Ok(Self { traffic, lines, epoll, buffer: traffic.template.clone(), random: Random(seed << 40), open })
    }

    fn run(mut self, stop: &AtomicBool, counts: &Counts) -> Result<(), Fault> {
        let mut read = vec![0; READ_BYTES];
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        let mut heard = Instant::now();
        let each = self.traffic.items() / self.traffic.commands;
        let mut times = Vec::new();
        for at in 0..self.lines.len() {
            self.send(at)?;
        }
        while self.open > 0 {
            let ready = self.epoll.wait(&mut events)?;
            if ready > 0 {
                heard = Instant::now();
            } else if heard.elapsed() > SILENCE {
                return Err(Fault(format!("no reply for {} s", SILENCE.as_secs())));
            }
            for event in &events[..ready] {
                let at = event.u64 as usize;
                if event.events & libc::EPOLLOUT as u32 != 0 {
                    self.send_rest(at)?;
                }
                if event.events & !(libc::EPOLLOUT as u32) == 0 || !self.lines[at].open {
                    continue;
                }
                let got = match self.lines[at].stream.read(&mut read) {
                    Ok(0) => return Err(Fault("the server closed a connection".to_string())),
                    Ok(got) => got,
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
                    Err(error) => return Err(error.into()),
                };
                let replies = &mut self.lines[at].replies;
                let progress = replies.take(&read[..got])?;
                counts.items.fetch_add((progress.replies * each) as u64, Ordering::Relaxed);
                counts.ones.fetch_add(progress.ones as u64, Ordering::Relaxed);
                if replies.errors > 0 {
                    counts.errors.fetch_add(std::mem::take(&mut replies.errors), Ordering::Relaxed);
                    if let Ok(mut first) = counts.first_error.lock() {
                        *first = first.take().or(replies.first_error.take());
                    }
                }
                if progress.whole {
                    if counts.times.is_some() {
                        times.push((self.lines[at].since, Instant::now()));
                    }
                    if stop.load(Ordering::Relaxed) {
                        self.close(at);
                    } else {
                        self.send(at)?;
                    }
                }
            }
        }
        if let Some(all) = &counts.times {
            all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut times);
        }
        Ok(())
    }

    /// Stamps the next pipeline and sends it, or closes the line when there is none.
    fn send(&mut self, at: usize) -> Result<(), Fault> {
        if !self.traffic.stamp(&mut self.buffer, &mut self.random) {
            self.close(at);
            return Ok(());
        }
        let line = &mut self.lines[at];
        line.replies.expect();
        line.since = Instant::now();
        let taken = match line.stream.write(&self.buffer) {
            Ok(taken) => taken,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error.into()),
        };
        if taken < self.buffer.len() {
            line.unsent.clear();
            line.unsent.extend_from_slice(&self.buffer[taken..]);
            line.sent = 0;
            self.epoll.watch(&line.stream, at as u64, true)?;
        }
        Ok(())
    }

    fn send_rest(&mut self, at: usize) -> Result<(), Fault> {
        let line = &mut self.lines[at];
        match line.stream.write(&line.unsent[line.sent..]) {
            Ok(taken) => line.sent += taken,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error.into()),
        }
        if line.sent == line.unsent.len() {
            line.unsent.clear();
            line.sent = 0;
            self.epoll.watch(&line.stream, at as u64, false)?;
        }
        Ok(())
    }

    fn close(&mut self, at: usize) {
        if std::mem::replace(&mut self.lines[at].open, false) {
            self.open -= 1;
            // Both ends know from here on; the descriptor goes with the generator.
            let _ = self.lines[at].stream.shutdown(std::net::Shutdown::Both);
            self.epoll.forget(&self.lines[at].stream);
        }
    }
}

/// The kernel's list of connections that have something to say, level-triggered.
struct Epoll(OwnedFd);

impl Epoll {
    fn new() -> Result<Self, Fault> {
        // SAFETY: the call takes no pointer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: `fd` was just opened and belongs to nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn control(&self, how: libc::c_int, stream: &TcpStream, at: u64, interest: libc::c_int) -> Result<(), Fault> {
        let mut event = libc::epoll_event { events: interest as u32, u64: at };
        // SAFETY: both descriptors are open and `event` outlives the call.
        let status = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), how, stream.as_raw_fd(), &mut event) };
        if status == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().into()) }
    }

    fn add(&self, stream: &TcpStream, at: u64) -> Result<(), Fault> {
        self.control(libc::EPOLL_CTL_ADD, stream, at, libc::EPOLLIN)
    }

    fn watch(&self, stream: &TcpStream, at: u64, for_writing: bool) -> Result<(), Fault> {
        let interest = if for_writing { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
        self.control(libc::EPOLL_CTL_MOD, stream, at, interest)
    }

    fn forget(&self, stream: &TcpStream) {
        // Closing would do it as well.
        let _ = self.control(libc::EPOLL_CTL_DEL, stream, 0, 0);
    }

    /// Waits up to a tenth of a second.
    fn wait(&self, events: &mut [libc::epoll_event]) -> Result<usize, Fault> {
        // SAFETY: the kernel writes at most `events.len()` entries into the slice.
        let ready = unsafe { libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as i32, 100) };
        match usize::try_from(ready) {
            Ok(ready) => Ok(ready),
            Err(_) => match std::io::Error::last_os_error() {
                error if error.kind() == ErrorKind::Interrupted => Ok(0),
                error => Err(error.into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_of_the_wall_and_of_the_server() {
        let sample =
            Sample { seconds: 2.0, items: 100, ones: 25, server_ns: vec![600_000_000, 400_000_000], client_ns: 0 };
        assert_eq!(sample.wall(), 50.0);
        assert_eq!(sample.per_cpu(), 100.0);
        assert_eq!(sample.ones(), 0.25);
        assert_eq!(sample.busiest(2), 0.6);
        assert_eq!(sample.busiest(1), 1.0);
    }
}
