//! One client's socket: read what is there, answer it in one turn, write it once.
//!
//! Input is read into a buffer that all connections of a thread share; a connection keeps only the beginning of a
//! request that is not whole, and the replies that its client does not take. An idle client costs a few kilobytes.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::reactor::Reactor;
use crate::session::{Dues, Next, Session};
use crate::store::Gate;

/// A request that has begun must be whole within this time.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// A client that takes none of its replies for this long is dropped.
const STALL_DEADLINE: Duration = Duration::from_secs(10);
/// How long a turn waits for a filter that somebody else is writing to.
const BUSY: Duration = Duration::from_micros(200);
/// How long writers wait when the disk cannot take more.
const CONGESTED: Duration = Duration::from_millis(2);

/// A client's connection.
pub struct Connection {
    stream: TcpStream,
    session: Session,
    /// The beginning of a request that is not whole.
    held: Vec<u8>,
    reactor: Rc<Reactor>,
}

impl Connection {
    /// A connection that begins.
    pub fn new(stream: TcpStream, session: Session, reactor: Rc<Reactor>) -> Self {
        Self { stream, session, held: Vec::new(), reactor }
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

    /// Reads once. What was read is in the thread's buffer, or behind what the connection holds already.
    async fn read(&mut self) -> io::Result<usize> {
        let amid = !self.held.is_empty();
        let reading = poll_fn(|context| {
            let mut buffer = self.reactor.input.borrow_mut();
            let mut buffer = ReadBuf::new(&mut buffer);
            match Pin::new(&mut self.stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    if amid {
                        self.held.extend_from_slice(buffer.filled());
                    }
                    Poll::Ready(Ok(buffer.filled().len()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => Poll::Pending,
            }
        });
        match amid {
            false => reading.await,
            true => timeout(REQUEST_DEADLINE, reading).await.map_err(|_| io::ErrorKind::TimedOut)?,
        }
    }

    /// Answers what was read; false when the connection is to end.
    async fn answer(&mut self, read: usize) -> io::Result<bool> {
        let mut in_buffer = if self.held.is_empty() { read } else { 0 };
        loop {
            let (turn, out) = {
                let mut core = self.reactor.core.borrow_mut();
                let mut out = self.reactor.output.take();
                out.clear();
                let turn = if in_buffer > 0 {
                    let input = self.reactor.input.borrow();
                    let turn = self.session.turn(&mut core, &self.reactor.desk, &input[..in_buffer], &mut out);
                    self.session.forget(turn.consumed);
                    self.held.extend_from_slice(&input[turn.consumed..in_buffer]);
                    in_buffer = 0;
                    turn
                } else {
                    let turn = self.session.turn(&mut core, &self.reactor.desk, &self.held, &mut out);
                    self.session.forget(turn.consumed);
                    self.held.drain(..turn.consumed);
                    turn
                };
                core.engine.journal.flush();
                self.reactor.desk.count_bytes(core.thread, turn.consumed as u64, out.len() as u64);
                (turn, out)
            };
            if self.held.is_empty() && self.held.capacity() > 64 << 10 {
                self.held = Vec::new();
            }
            let out = self.send(out, turn.dues, turn.replies).await?;
            self.reactor.give_back(out);
            match turn.next {
                Next::Read => return Ok(true),
                Next::Again => tokio::task::yield_now().await,
                Next::Wait => tokio::time::sleep(BUSY).await,
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
                    let replies = usize::from(!out.is_empty());
                    self.send(out, dues, replies).await?;
                    if self.held.is_empty() {
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
            let writing = poll_fn(|context| Pin::new(&mut self.stream).poll_write(context, &out[sent..]));
            sent += match sent {
                // Nearly always everything goes at once, and no timer is needed.
                0 => match futures_ready(writing).await {
                    Some(written) => written?,
                    None => {
                        let writing = poll_fn(|context| Pin::new(&mut self.stream).poll_write(context, &out[sent..]));
                        timeout(STALL_DEADLINE, writing).await.map_err(|_| io::ErrorKind::TimedOut)??
                    }
                },
                _ => timeout(STALL_DEADLINE, writing).await.map_err(|_| io::ErrorKind::TimedOut)??,
            };
        }
        Ok(out)
    }
}

/// The value of a future that is ready at once.
async fn futures_ready<F: Future>(future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    poll_fn(|context| match future.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
