//! One client's socket: read what is there, answer it in one turn, write it once.
//!
//! Input is read into a buffer that all connections of a thread share; a connection keeps only the beginning of a
//! request that is not whole, and the replies that its client does not take. An idle client costs a few kilobytes. What is
//! more than that is counted ([`ledger`](crate::session::ledger)): once for a read, never for a command.
//!
//! Nobody has a thread for long: after 30 us a connection lets the others have theirs, in the middle of its pipeline if
//! need be. Without that, a lookup beside four connections that add hundreds of items at a time waited milliseconds.
//! A single command may take longer, up to 4,096 items or 256 KiB of them: about 0.2 ms. Beyond that it is a worker's.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::reactor::Reactor;
use super::stream::Stream;
use crate::session::ledger::{UNCOUNTED, UNCOUNTED_OF_GUESTS};
use crate::session::{Dues, Next, Session, Turn};
use crate::store::Gate;

/// How long a connection may have the thread when others may want it. Giving it up costs 2 us.
const SHARE: Duration = Duration::from_micros(30);
/// Bytes per second below which a client is not slow but holding on.
const SLOWEST: usize = 64 << 10;
/// How long a turn waits for a filter that somebody else is writing to.
const BUSY: Duration = Duration::from_micros(200);
/// How long writers wait when the disk cannot take more.
const CONGESTED: Duration = Duration::from_millis(2);
/// Bytes that are sent at once: the kernel's copy of a megabyte takes half a millisecond.
const PIECE: usize = 64 << 10;
/// What is held is counted in steps of so many bytes, and what is less than one in those of guests.
const STEP: usize = 16 << 10;
/// How often it is looked whether one who waits for a worker has gone.
const LOOK: Duration = Duration::from_secs(1);

/// A client's connection.
pub struct Connection {
    stream: Stream,
    session: Session,
    /// What was read and is not answered.
    held: Vec<u8>,
    /// Bytes of it that are answered.
    answered: usize,
    /// When the request that is not whole was begun.
    begun: Option<Instant>,
    /// What it holds as far as that is counted.
    counted: usize,
    /// Since when it makes the server keep a long transaction, or many names.
    keeping: Option<Instant>,
    /// Since when it is not logged in.
    guest: Option<Instant>,
    /// Since when it has the thread.
    since: Instant,
    reactor: Rc<Reactor>,
}

impl Connection {
    /// A connection that begins.
    pub fn new(stream: Stream, session: Session, reactor: Rc<Reactor>) -> Self {
        let since = Instant::now();
        Self {
            stream,
            session,
            held: Vec::new(),
            answered: 0,
            begun: None,
            counted: 0,
            keeping: None,
            guest: None,
            since,
            reactor,
        }
    }

    /// Serves the client until it or the server ends.
    pub async fn serve(mut self) {
        // A client that goes away is no event; everything else has been said to it.
        let _ = self.turns().await;
        self.reactor.desk.goodbye(&self.session.client);
    }

    async fn turns(&mut self) -> io::Result<()> {
        let client = self.session.client.clone();
        let mut ending = std::pin::pin!(client.ending.notified());
        loop {
            self.share().await;
            let read = tokio::select! {
                biased;
                read = self.read() => read?,
                () = &mut ending => {
                    if client.is_cut_off() {
                        self.say_last(TOO_MUCH);
                    }
                    return Ok(());
                }
            };
            if read == 0 {
                return Ok(());
            }
            if !self.answer(read).await? || client.is_killed() {
                return Ok(());
            }
            if !self.count(0) {
                self.say_last(TOO_MUCH);
                return Ok(());
            }
        }
    }

    /// Lets the others have the thread when this one had its share.
    async fn share(&mut self) {
        if self.since.elapsed() >= SHARE {
            self.reactor.line.stand().await;
            self.since = Instant::now();
        }
    }

    /// Reads once. What was read is in the thread's buffer, which is everybody's, or behind what the connection holds already.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = self.reactor.input.borrow_mut();
        let mut buffer = ReadBuf::new(&mut buffer);
        ready!(self.stream.poll_read(context, &mut buffer))?;
        if !self.held.is_empty() {
            self.held.extend_from_slice(buffer.filled());
        }
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Reads once, and ends the connection if nothing comes in time.
    async fn read(&mut self) -> io::Result<usize> {
        let rules = &self.reactor.desk.rules;
        let deadline = match self.unfinished() {
            Some((since, bytes)) => Some(since + rules.request_deadline() + at_slowest(bytes)),
            None => {
                // Whoever is let in without a login is somebody from the beginning.
                self.guest = self.session.user().is_none().then(|| self.guest.unwrap_or(self.since));
                let login = self.guest.map(|since| since + rules.request_deadline());
                // By its share of the thread, which began a moment ago.
                let idle = rules.idle_timeout().map(|idle| self.since + idle);
                login.into_iter().chain(idle).min()
            }
        };
        let mut waited = false;
        let reading = poll_fn(|context| {
            let read = self.poll_read(context);
            waited |= read.is_pending();
            read
        });
        let read = match deadline {
            None => reading.await,
            Some(deadline) => match timeout_at(deadline.into(), reading).await {
                Ok(read) => read,
                Err(_) => return Err(self.too_slow()),
            },
        };
        if waited {
            self.since = Instant::now();
        }
        read
    }

    /// What the client has begun and makes the server hold until it ends it: since when, and how many bytes have come.
    fn unfinished(&self) -> Option<(Instant, usize)> {
        match (self.begun, self.keeping) {
            // A transaction is one request in many: its time does not begin again with each of them.
            (_, Some(since)) => Some((since, self.session.kept() + self.held.len())),
            (Some(since), None) => Some((since, self.held.len())),
            (None, None) => None,
        }
    }

    /// The client did not ask in time.
    fn too_slow(&mut self) -> io::Error {
        let reactor = self.reactor.clone();
        let (cuts, limit) = (&reactor.desk.cuts, reactor.desk.rules.request_deadline().as_millis());
        if self.keeping.is_some() {
            self.cut(&cuts.slow, "a long transaction was not ended in time (request-deadline)");
            let what = format!("after {limit} ms neither EXEC, DISCARD nor UNWATCH was said (request-deadline)");
            self.say_last(&format!(
                "-ERR a long transaction, or a watch of many names, is held for a while only: {what}\r\n"
            ));
        } else if self.begun.is_some() {
            self.cut(&cuts.slow, "a request was not whole in time (request-deadline)");
            let what = "-ERR Protocol error: the request was not whole after";
            self.say_last(&format!("{what} {limit} ms (request-deadline)\r\n"));
        } else if self.guest.is_some_and(|since| since.elapsed() >= reactor.desk.rules.request_deadline()) {
            self.cut(&cuts.guests, "it did not log in in time (request-deadline)");
            self.say_last(&format!("-NOAUTH Authentication required within {limit} ms (request-deadline)\r\n"));
        } else {
            self.cut(&cuts.idle, "nothing was asked for too long (idle-timeout)");
        }
        io::ErrorKind::TimedOut.into()
    }

    /// Says why the connection ends, if it fits into the socket's buffer: nobody waits for one who is cut.
    fn say_last(&mut self, why: &str) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let _ = self.stream.poll_write(&mut context, why.as_bytes());
    }

    /// Counts and tells that a limit ends this connection.
    fn cut(&self, counter: &AtomicU64, why: &str) {
        self.reactor.desk.note_cut(&self.session.client, counter, why);
    }

    /// Counts what this client makes the server hold, with so many bytes beside its input and its transaction; false if it has to
    /// go for that.
    #[inline]
    fn count(&mut self, beside: usize) -> bool {
        let held = self.held.len() + self.session.found() + self.session.kept() + beside;
        // Nearly always.
        if held <= self.uncounted() && self.counted == 0 { true } else { self.count_much(held) }
    }

    /// What it may hold without being counted.
    #[inline]
    fn uncounted(&self) -> usize {
        if self.session.user().is_some() { UNCOUNTED } else { UNCOUNTED_OF_GUESTS }
    }

    #[cold]
    fn count_much(&mut self, held: usize) -> bool {
        let keeps = self.session.kept() > UNCOUNTED;
        self.keeping = self.keeping.filter(|_| keeps).or_else(|| keeps.then(Instant::now));
        let step = if held > STEP { STEP } else { UNCOUNTED_OF_GUESTS };
        let held = if held > self.uncounted() { held.next_multiple_of(step) } else { 0 };
        if held == self.counted {
            return true;
        }
        self.counted = held;
        self.reactor.desk.hold(&self.session.client, held)
    }

    /// One turn on what is there; its replies come behind those in `out`.
    fn turn(&mut self, in_buffer: usize, out: &mut Vec<u8>) -> Turn {
        let mut core = self.reactor.core.borrow_mut();
        let before = out.len();
        let turn = if in_buffer > 0 {
            let input = self.reactor.input.borrow();
            let turn = self.session.turn(&mut core, &self.reactor.desk, &input[..in_buffer], out);
            self.held.extend_from_slice(&input[turn.consumed..in_buffer]);
            turn
        } else {
            let turn = self.session.turn(&mut core, &self.reactor.desk, &self.held[self.answered..], out);
            self.answered += turn.consumed;
            turn
        };
        self.session.forget(turn.consumed);
        self.reactor.desk.count_bytes(core.thread, turn.consumed as u64, (out.len() - before) as u64);
        turn
    }

    /// Lets go of what is answered.
    fn settle(&mut self, consumed: usize) {
        if self.answered == self.held.len() {
            self.held.clear();
            if self.held.capacity() > self.uncounted() {
                self.held = Vec::new();
            }
        } else {
            self.held.drain(..self.answered);
            // A long request that is answered leaves no room behind for the beginning of the next.
            if self.held.capacity() > self.uncounted() && self.held.capacity() / 2 > self.held.len() {
                self.held.shrink_to_fit();
            }
        }
        self.answered = 0;
        if self.held.is_empty() {
            self.begun = None;
        } else if consumed > 0 || self.begun.is_none() {
            self.begun = Some(Instant::now());
        }
    }

    /// Answers what was read; false when the connection is to end.
    async fn answer(&mut self, read: usize) -> io::Result<bool> {
        let mut in_buffer = if self.held.is_empty() { read } else { 0 };
        let mut consumed = 0;
        loop {
            let mut out = self.reactor.output.take();
            out.clear();
            let (mut dues, mut replies) = (Dues::default(), 0);
            let (next, pause) = loop {
                let turn = self.turn(in_buffer, &mut out);
                in_buffer = 0;
                consumed += turn.consumed;
                dues.write(turn.dues.written);
                dues.see(turn.dues.seen);
                replies += turn.replies;
                match turn.next {
                    Next::Again if out.len() < PIECE && turn.pause.is_zero() => self.share().await,
                    Next::Read if out.len() < PIECE && turn.pause.is_zero() && self.must_wait(dues) => {
                        self.settle(std::mem::take(&mut consumed));
                        self.share().await;
                        let Some(more) = self.read_meanwhile().await else { break (Next::Read, Duration::ZERO) };
                        in_buffer = if self.held.is_empty() { more } else { 0 };
                    }
                    next => break (next, turn.pause),
                }
            };
            self.reactor.journal().flush();
            let out = self.send(out, dues, replies).await?;
            self.reactor.give_back(out);
            if !pause.is_zero() {
                // Its namespace had more than its share of items: not an error, only later.
                tokio::time::sleep(pause).await;
                self.since = Instant::now();
                // Whoever has gone uses up nothing of what others wait for.
                if self.session.client.is_killed() || at_once(self.stream.has_ended()).await == Some(true) {
                    return Ok(false);
                }
            }
            match next {
                Next::Read => {
                    self.settle(consumed);
                    return Ok(true);
                }
                Next::Again => self.share().await,
                Next::Wait => {
                    tokio::time::sleep(BUSY).await;
                    self.since = Instant::now();
                }
                Next::Close => {
                    let _ = self.stream.shutdown().await;
                    return Ok(false);
                }
                Next::Drop => return Ok(false),
                Next::Shutdown => {
                    self.reactor.stop.notify_one();
                    return Ok(false);
                }
                Next::Job(job) => {
                    // The worker has a copy: it need not be there twice.
                    if self.answered == self.held.len() {
                        self.settle(consumed);
                    }
                    if !self.count(job.bytes()) {
                        self.say_last(TOO_MUCH);
                        return Ok(false);
                    }
                    let Some(waiting) = self.reactor.workers.run(job) else { return Ok(false) };
                    let Some((out, dues)) = self.wait_for(waiting).await else { return Ok(false) };
                    self.since = Instant::now();
                    let replies = usize::from(!out.is_empty());
                    self.send(out, dues, replies).await?;
                    // SHUTDOWN SAVE ends whoever gave it, with whatever was sent behind it.
                    if self.session.client.is_killed() {
                        return Ok(false);
                    }
                    if self.answered == self.held.len() {
                        self.settle(consumed);
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Whether replies have to wait for the log, which is told to write what they depend on.
    fn must_wait(&self, dues: Dues) -> bool {
        if dues == Dues::default() {
            return false;
        }
        let journal = self.reactor.journal();
        journal.flush();
        journal.gate(dues.written.max(dues.seen)) == Gate::Wait
    }

    /// Reads what is there already, while replies wait for the log anyway: one connection that fills filters of a hundred items
    /// stood still for a third of its time. Nothing if there is none, or if the connection is to end, which the next reading
    /// finds out.
    async fn read_meanwhile(&mut self) -> Option<usize> {
        if self.session.client.is_killed() || !self.count(0) {
            return None;
        }
        at_once(poll_fn(|context| self.poll_read(context))).await.and_then(Result::ok).filter(|&read| read > 0)
    }

    /// Sends replies once what they depend on is durable.
    async fn send(&mut self, out: Vec<u8>, dues: Dues, replies: usize) -> io::Result<Vec<u8>> {
        if dues == Dues::default() {
            return self.write(out).await;
        }
        let journal = self.reactor.journal();
        if journal.gate(dues.written.max(dues.seen)) != Gate::Open {
            return self.send_later(out, dues, replies).await;
        }
        if dues.written > 0 && journal.is_congested() {
            tokio::time::sleep(CONGESTED).await;
        }
        self.write(out).await
    }

    /// Waits for the disk, then sends; an error instead when the disk failed what is acknowledged.
    async fn send_later(&mut self, mut out: Vec<u8>, dues: Dues, replies: usize) -> io::Result<Vec<u8>> {
        let reactor = self.reactor.clone();
        if let Some(log) = reactor.journal().log() {
            let mut watch = reactor.watch.borrow().clone().unwrap_or_else(|| log.watch());
            loop {
                watch.borrow_and_update();
                match (log.gate(dues.written), log.gate(dues.seen)) {
                    // Which of the replies depend on what was lost is not known any more: none of them is sent.
                    (Gate::Failed, _) => {
                        out.clear();
                        let why = log.failure().to_string();
                        (0..replies).for_each(|_| bloomgate_command::write::error(&mut out, &why));
                        break;
                    }
                    // Lookups go on when the disk fails: what they saw is true, only not durable.
                    (Gate::Open, Gate::Open | Gate::Failed) => break,
                    _ => {
                        if watch.changed().await.is_err() {
                            return Err(io::ErrorKind::BrokenPipe.into());
                        }
                    }
                }
            }
        }
        self.write(out).await
    }

    /// What a worker makes of a job; nothing if it is not to be answered. One that nobody waits for any more is not begun.
    async fn wait_for(&self, mut waiting: oneshot::Receiver<(Vec<u8>, Dues)>) -> Option<(Vec<u8>, Dues)> {
        let client = &self.session.client;
        loop {
            tokio::select! {
                biased;
                done = &mut waiting => return done.ok(),
                () = client.cutting.notified() => break,
                () = tokio::time::sleep(LOOK) => {
                    if at_once(self.stream.has_ended()).await == Some(true) {
                        break;
                    }
                }
            }
        }
        // One who says no more may still listen: what is begun is answered.
        self.reactor.workers.forget(client);
        waiting.await.ok()
    }

    async fn write(&mut self, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut sent = 0;
        while sent < out.len() {
            let piece = &out[sent..out.len().min(sent + PIECE)];
            let stream = &mut self.stream;
            // Nearly always everything goes at once, and no timer is needed.
            match at_once(poll_fn(|context| stream.poll_write(context, piece))).await {
                Some(written) => sent += written?,
                None => return self.write_slowly(out, sent).await,
            }
            if sent < out.len() {
                self.share().await;
            }
        }
        if self.stream.holds_back() {
            return self.write_slowly(out, sent).await;
        }
        Ok(out)
    }

    /// Sends what the client does not take at once: it is counted as held for it, and held as long as it takes enough of it.
    async fn write_slowly(&mut self, mut out: Vec<u8>, mut sent: usize) -> io::Result<Vec<u8>> {
        // The buffer may be a large one of others.
        if out.capacity() / 2 > out.len() {
            out.shrink_to_fit();
        }
        if !self.count(out.capacity()) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let client = self.session.client.clone();
        let (begun, before) = (Instant::now(), sent);
        while sent < out.len() || self.stream.holds_back() {
            let stall = self.reactor.desk.rules.output_stall();
            let deadline = takes_until(begun, Instant::now(), stall, sent - before);
            let (piece, stream) = (&out[sent..out.len().min(sent + PIECE)], &mut self.stream);
            let mut waited = false;
            let writing = poll_fn(|context| {
                let written = match piece.is_empty() {
                    true => stream.poll_push(context).map_ok(|()| 0),
                    false => stream.poll_write(context, piece),
                };
                waited |= written.is_pending();
                written
            });
            sent += tokio::select! {
                biased;
                written = timeout_at(deadline.into(), writing) => match written {
                    Ok(written) => written?,
                    Err(_) => return Err(self.stalled()),
                },
                () = client.cutting.notified() => return Err(io::ErrorKind::ConnectionAborted.into()),
            };
            match waited {
                true => self.since = Instant::now(),
                false => self.share().await,
            }
        }
        // What gives room takes none from others.
        self.count(0);
        Ok(out)
    }

    /// The client takes nothing of its replies, or too little.
    fn stalled(&self) -> io::Error {
        self.cut(&self.reactor.desk.cuts.stalled, "it took its replies too slowly (output-stall)");
        io::ErrorKind::TimedOut.into()
    }
}

/// What is said to one who holds too much.
const TOO_MUCH: &str = "-ERR clients hold more memory than they may (client-memory), and this connection held most of it: send \
                        less at once\r\n";

/// How long so many bytes may take.
fn at_slowest(bytes: usize) -> Duration {
    Duration::from_secs((bytes / SLOWEST) as u64)
}

/// Until when one must have taken more who has taken so many bytes since it began: something within every stall, and in all no less
/// than the slowest may.
fn takes_until(begun: Instant, now: Instant, stall: Duration, taken: usize) -> Instant {
    (now + stall).min(begun + stall + at_slowest(taken))
}

/// The value of a future that is ready at once.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When one is dropped who takes so many bytes at a time, so many milliseconds apart; nothing if it is still there after an hour.
    fn dropped_after(bytes: usize, every: u64, stall: u64) -> Option<f64> {
        let (begun, mut taken) = (Instant::now(), 0);
        let (every, stall) = (Duration::from_millis(every), Duration::from_millis(stall));
        let mut now = begun;
        while now.duration_since(begun) < Duration::from_secs(3_600) {
            let deadline = takes_until(begun, now, stall, taken);
            if deadline <= now + every {
                return Some(deadline.duration_since(begun).as_secs_f64());
            }
            (now, taken) = (now + every, taken + bytes);
        }
        None
    }

    #[test]
    fn who_takes_too_little_is_dropped_and_who_is_slow_is_not() {
        // Something, but not within the stall.
        assert_eq!(dropped_after(1 << 20, 11_000, 10_000), Some(10.0));
        // A byte every now and then keeps nothing open for longer than a stall.
        assert_eq!(dropped_after(1, 100, 10_000), Some(10.0));
        assert_eq!(dropped_after(100, 10, 10_000), Some(11.0), "10 KB a second: a second more for its 64 KiB");
        // Half of what is the least: nearly twice the stall. Just under it: far longer, and not for ever.
        assert_eq!(dropped_after(32 << 10, 1_000, 10_000), Some(18.0));
        assert!(dropped_after(60 << 10, 1_000, 10_000).is_some_and(|seconds| (100.0..300.0).contains(&seconds)));
        for (bytes, every) in [(64 << 10, 1_000), (7 << 10, 100), (600 << 10, 9_000), (1 << 20, 9_999)] {
            assert_eq!(dropped_after(bytes, every, 10_000), None, "{bytes} bytes every {every} ms");
        }
    }
}
