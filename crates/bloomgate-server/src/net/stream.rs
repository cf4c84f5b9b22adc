//! A client's bytes, plain or sealed by TLS.
//!
//! A plain socket is read and written as before, one branch away. A sealed one is rustls over the same socket, driven here
//! and not by tokio-rustls: its handshake is done by another thread than the one that serves it (see
//! [`greeting`](super::greeting)), so socket and session have to be taken apart and put together again.

use std::io::{self, Read, Write};
use std::net::TcpStream as StdStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bloomgate_http::tls::rustls::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A client that has come and is not served yet.
pub struct Arrival {
    /// Its socket, nonblocking.
    pub socket: StdStream,
    /// Its session, once the handshake is done; none is plain.
    pub session: Option<Box<ServerConnection>>,
}

impl Arrival {
    /// Whether it has shown a certificate: only those of `tls-client-ca` are taken.
    #[must_use]
    pub fn has_certificate(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.peer_certificates().is_some())
    }

    /// Says why it is not taken. What does not fit into the socket's buffer is not said.
    pub fn refuse(self, why: &str) {
        let Self { mut socket, session } = self;
        let line = format!("-{why}\r\n");
        match session {
            None => _ = socket.write(line.as_bytes()),
            Some(mut session) => {
                let _ = session.writer().write_all(line.as_bytes());
                session.send_close_notify();
                let _ = session.write_tls(&mut socket);
            }
        }
    }
}

/// A client's bytes.
pub enum Stream {
    /// As they are.
    Plain(TcpStream),
    /// Sealed by TLS.
    Sealed(Box<Sealed>),
}

impl Stream {
    /// The stream of a client that is served by this thread from now on.
    pub fn open(arrival: Arrival) -> io::Result<Self> {
        let socket = TcpStream::from_std(arrival.socket)?;
        Ok(match arrival.session {
            None => Self::Plain(socket),
            Some(session) => Self::Sealed(Box::new(Sealed { socket, session })),
        })
    }

    /// Reads what is there; nothing read is the end.
    #[inline]
    pub fn poll_read(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, into),
            Self::Sealed(sealed) => sealed.poll_read(context, into),
        }
    }

    /// Takes bytes to be sent; how many.
    #[inline]
    pub fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Sealed(sealed) => sealed.poll_write(context, bytes),
        }
    }

    /// Whether bytes were taken that are not sent.
    #[inline]
    pub fn holds_back(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Sealed(sealed) => sealed.session.wants_write(),
        }
    }

    /// Sends some of what is held back.
    pub fn poll_push(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain(_) => Poll::Ready(Ok(())),
            Self::Sealed(sealed) => sealed.push(context),
        }
    }

    /// Whether the other side has ended what it sends, behind what may still be there to be read.
    pub async fn has_ended(&self) -> bool {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Sealed(sealed) => &sealed.socket,
        };
        socket.ready(Interest::READABLE).await.is_ok_and(|ready| ready.is_read_closed())
    }

    /// Ends what is sent: the other side sees that nothing is missing.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.shutdown().await,
            Self::Sealed(sealed) => {
                sealed.session.send_close_notify();
                // What does not fit now is not waited for.
                let _ = sealed.session.write_tls(&mut Now(&sealed.socket));
                sealed.socket.shutdown().await
            }
        }
    }
}

/// A socket with its TLS session.
pub struct Sealed {
    socket: TcpStream,
    session: Box<ServerConnection>,
}

/// A socket that says `WouldBlock` where it would wait, and wakes its task later.
struct Waking<'a, 'b>(&'a mut TcpStream, &'a mut Context<'b>);

impl Read for Waking<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut buffer = ReadBuf::new(into);
        match Pin::new(&mut *self.0).poll_read(self.1, &mut buffer) {
            Poll::Ready(Ok(())) => Ok(buffer.filled().len()),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl Write for Waking<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match Pin::new(&mut *self.0).poll_write(self.1, bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A socket that takes what it can now.
struct Now<'a>(&'a TcpStream);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn waiting<T>(result: io::Result<T>) -> Poll<io::Result<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

impl Sealed {
    /// A session that begins.
    pub fn new(socket: TcpStream, session: ServerConnection) -> Self {
        Self { socket, session: Box::new(session) }
    }

    /// Takes it apart for the thread that will serve it.
    pub fn into_arrival(self) -> io::Result<Arrival> {
        Ok(Arrival { socket: self.socket.into_std()?, session: Some(self.session) })
    }

    /// One read from the socket; 0 is its end.
    fn pull(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let read = ready!(waiting(self.session.read_tls(&mut Waking(&mut self.socket, context))))?;
        if let Err(wrong) = self.session.process_new_packets() {
            // The alert that tells the other side why, if it can be sent.
            let _ = self.session.write_tls(&mut Waking(&mut self.socket, context));
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, wrong)));
        }
        Poll::Ready(Ok(read))
    }

    /// One write to the socket.
    fn push(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(waiting(self.session.write_tls(&mut Waking(&mut self.socket, context))))? {
            0 if self.session.wants_write() => Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Goes on with the handshake until both sides are done.
    pub fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.session.wants_write() {
                ready!(self.push(context))?;
            }
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.pull(context))? == 0 {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Opens as much as has come and fits: rustls takes 4 KB from the socket at a time, a pipeline is longer.
    fn poll_read(&mut self, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        loop {
            match self.session.reader().read(into.initialize_unfilled()) {
                // Closed in good order, or the buffer is full.
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(read) => {
                    into.advance(read);
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Closed without a word: requests have lengths, so nothing can be cut short unseen.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(())),
                Err(error) => return Poll::Ready(Err(error)),
            }
            match self.pull(context) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if into.filled().len() > before => return Poll::Ready(Ok(())),
                Poll::Pending => {
                    // Answers of the protocol itself, such as new keys.
                    while self.session.wants_write() {
                        ready!(self.push(context))?;
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // What was sealed before goes first: one who takes nothing makes us hold one piece, not more.
        while self.session.wants_write() {
            ready!(self.push(context))?;
        }
        let taken = self.session.writer().write(bytes)?;
        while self.session.wants_write() {
            match self.push(context) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(taken))
    }
}
