//! One client's socket: read what is there, answer it in one turn, write it once.
//!
//! Input is read into a buffer that all connections of a thread share; a connection keeps only the beginning of a
//! request that is not whole, and the replies that its client does not take. An idle client costs a few kilobytes.
//!
//! Nobody has a thread for long: after 30 us a connection lets the others have theirs, in the middle of its pipeline if
//! need be. Without that, a lookup beside four connections that add hundreds of items at a time waited milliseconds.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::ReadBuf;
use tokio::time::{timeout, timeout_at};

use super::reactor::Reactor;
use super::stream::Stream;
use crate::logging::{Level, Often};
use crate::session::{Dues, Next, Session, Turn};
use crate::store::Gate;

/// How long a connection may have the thread when others may want it. Giving it up costs 1 to 2 us.
const SHARE: Duration = Duration::from_micros(30);
/// Bytes per second below which a client is not slow but holding on.
const SLOWEST: usize = 64 << 10;
/// How long a turn waits for a filter that somebody else is writing to.
const BUSY: Duration = Duration::from_micros(200);
/// How long writers wait when the disk cannot take more.
const CONGESTED: Duration = Duration::from_millis(2);
/// Bytes that are sent at once: the kernel's copy of a megabyte takes half a millisecond.
const PIECE: usize = 64 << 10;

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
    /// Since when it has the thread.
    since: Instant,
    reactor: Rc<Reactor>,
}

impl Connection {
    /// A connection that begins.
    pub fn new(stream: Stream, session: Session, reactor: Rc<Reactor>) -> Self {
        Self { stream, session, held: Vec::new(), answered: 0, begun: None, since: Instant::now(), reactor }
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
                () = &mut ending => return Ok(()),
            };
            if read == 0 {
                return Ok(());
            }
            if !self.answer(read).await? || client.is_killed() {
                return Ok(());
            }
        }
    }

    /// Lets the others have the thread when this one had its share.
    async fn share(&mut self) {
        if self.since.elapsed() >= SHARE {
            tokio::task::yield_now().await;
            self.since = Instant::now();
        }
    }

    /// Reads once. What was read is in the thread's buffer, or behind what the connection holds already.
    async fn read(&mut self) -> io::Result<usize> {
        let amid = !self.held.is_empty();
        let rules = &self.reactor.desk.rules;
        let deadline = match self.begun {
            Some(begun) => {
                Some(begun + rules.request_deadline() + Duration::from_secs((self.held.len() / SLOWEST) as u64))
            }
            // By its share of the thread, which began a moment ago.
            None => rules.idle_timeout().map(|idle| self.since + idle),
        };
        let mut waited = false;
        let reading = poll_fn(|context| {
            let mut buffer = self.reactor.input.borrow_mut();
            let mut buffer = ReadBuf::new(&mut buffer);
            match self.stream.poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    if amid {
                        self.held.extend_from_slice(buffer.filled());
                    }
                    Poll::Ready(Ok(buffer.filled().len()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => {
                    waited = true;
                    Poll::Pending
                }
            }
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

    /// The client did not ask in time.
    fn too_slow(&mut self) -> io::Error {
        let (desk, rules) = (&self.reactor.desk, &self.reactor.desk.rules);
        if self.begun.is_none() {
            self.cut(&desk.cuts.idle, "nothing was asked for too long (idle-timeout)");
        } else {
            self.cut(&desk.cuts.slow, "a request was not whole in time (request-deadline)");
            let limit = rules.request_deadline().as_millis();
            let why = format!("-ERR Protocol error: the request was not whole after {limit} ms (request-deadline)\r\n");
            // If it fits into the socket's buffer; one who sends that slowly is not waited for.
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let _ = self.stream.poll_write(&mut context, why.as_bytes());
        }
        io::ErrorKind::TimedOut.into()
    }

    /// Counts and tells that a limit ends this connection.
    fn cut(&self, counter: &AtomicU64, why: &str) {
        counter.fetch_add(1, Ordering::Relaxed);
        let client = self.session.client.address.map(|address| address.to_string()).unwrap_or_default();
        self.reactor.desk.log.often(
            Often::Cut,
            Level::Info,
            "client-cut",
            format_args!("{client} was closed: {why}"),
            &[("client", client.as_str().into()), ("why", why.into())],
        );
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
            if self.held.capacity() > PIECE {
                self.held = Vec::new();
            }
        } else {
            self.held.drain(..self.answered);
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
                    let Some(waiting) = self.reactor.workers.run(job) else { return Ok(false) };
                    let Ok((out, dues)) = waiting.await else { return Ok(false) };
                    self.since = Instant::now();
                    let replies = usize::from(!out.is_empty());
                    self.send(out, dues, replies).await?;
                    if self.answered == self.held.len() {
                        self.settle(consumed);
                        return Ok(true);
                    }
                }
            }
        }
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

    async fn write(&mut self, out: Vec<u8>) -> io::Result<Vec<u8>> {
        let mut sent = 0;
        while sent < out.len() {
            let piece = &out[sent..out.len().min(sent + PIECE)];
            let stream = &mut self.stream;
            // Nearly always everything goes at once, and no timer is needed.
            let written = match at_once(poll_fn(|context| stream.poll_write(context, piece))).await {
                Some(written) => written?,
                None => {
                    let limit = self.reactor.desk.rules.output_stall();
                    let Ok(written) = timeout(limit, poll_fn(|context| stream.poll_write(context, piece))).await else {
                        return Err(self.stalled());
                    };
                    self.since = Instant::now();
                    written?
                }
            };
            sent += written;
            if sent < out.len() {
                self.share().await;
            }
        }
        while self.stream.holds_back() {
            let (limit, stream) = (self.reactor.desk.rules.output_stall(), &mut self.stream);
            let Ok(pushed) = timeout(limit, poll_fn(|context| stream.poll_push(context))).await else {
                return Err(self.stalled());
            };
            pushed?;
            self.since = Instant::now();
        }
        Ok(out)
    }

    /// The client takes nothing of its replies.
    fn stalled(&self) -> io::Error {
        self.cut(&self.reactor.desk.cuts.stalled, "it took nothing of its replies for too long (output-stall)");
        io::ErrorKind::TimedOut.into()
    }
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
