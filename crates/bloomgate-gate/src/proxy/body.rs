//! Bodies on their way through: piece by piece as they come, each piece waited for not too long.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::begun::Begun;
use super::patience::{Patience, Timers};

/// Why a body ended early.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

pub(super) type Next = Poll<Option<Result<Frame<Bytes>, BodyError>>>;

/// A body whose next piece is waited for so long and not longer.
#[derive(Debug)]
pub(super) struct Paced {
    body: Incoming,
    limit: Duration,
    patience: Patience,
    waiting: bool,
    /// Counts pieces, for whoever waits for an answer meanwhile.
    moved: Option<Arc<AtomicU64>>,
}

impl Paced {
    pub fn new(body: Incoming, limit: Duration, timers: &Arc<Timers>) -> Self {
        Self { body, limit, patience: Patience::new(timers, limit), waiting: false, moved: None }
    }

    pub fn counting(mut self, moved: Arc<AtomicU64>) -> Self {
        self.moved = Some(moved);
        self
    }

    pub fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Next {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.waiting = false;
                if let Some(moved) = &self.moved {
                    moved.fetch_add(1, Relaxed);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending => {
                let limit = self.limit;
                if !self.waiting {
                    self.patience.begin_again(limit);
                    self.waiting = true;
                }
                match self.patience.poll(context) {
                    Poll::Pending => Poll::Pending,
                    Poll::Ready(()) => Poll::Ready(Some(Err(format!("nothing came for {limit:?}").into()))),
                }
            }
        }
    }
}

/// What is sent on.
#[derive(Debug)]
pub(super) enum ToUpstream {
    Empty,
    Begun(Begun),
    Stream(Paced),
}

impl Body for ToUpstream {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Next {
        match self.get_mut() {
            Self::Empty => Poll::Ready(None),
            Self::Begun(begun) => begun.poll_next(context),
            Self::Stream(paced) => paced.poll_next(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Begun(begun) => begun.is_end_stream(),
            Self::Stream(paced) => paced.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Empty => SizeHint::with_exact(0),
            Self::Begun(begun) => begun.size_hint(),
            Self::Stream(paced) => paced.size_hint(),
        }
    }
}

/// What is sent back.
#[derive(Debug)]
pub struct ProxyBody(Kind);

#[derive(Debug)]
enum Kind {
    Whole(Option<Bytes>),
    Stream(Paced),
    /// What was read of an answer before it was released, and the rest of it if there is one.
    Replayed(VecDeque<Result<Frame<Bytes>, BodyError>>, Option<Paced>),
}

impl ProxyBody {
    pub(super) fn stream(body: Paced) -> Self {
        Self(Kind::Stream(body))
    }

    pub(super) fn replayed(read: Read) -> Self {
        Self(Kind::Replayed(read.frames, read.rest))
    }
}

impl From<Bytes> for ProxyBody {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Whole(Some(bytes).filter(|bytes| !bytes.is_empty())))
    }
}

impl Body for ProxyBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Next {
        match &mut self.get_mut().0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(paced) => paced.poll_next(context),
            Kind::Replayed(frames, rest) => match (frames.pop_front(), rest) {
                (Some(frame), _) => Poll::Ready(Some(frame)),
                (None, Some(rest)) => rest.poll_next(context),
                (None, None) => Poll::Ready(None),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Whole(bytes) => bytes.is_none(),
            Kind::Stream(paced) => paced.is_end_stream(),
            Kind::Replayed(frames, rest) => frames.is_empty() && rest.as_ref().is_none_or(|rest| rest.is_end_stream()),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Stream(paced) => paced.size_hint(),
            Kind::Replayed(frames, None)
                if frames.iter().all(|frame| matches!(frame, Ok(frame) if frame.is_data())) =>
            {
                SizeHint::with_exact(
                    frames.iter().flatten().filter_map(|frame| frame.data_ref()).map(Bytes::len).sum::<usize>() as u64,
                )
            }
            Kind::Replayed(..) => SizeHint::default(),
        }
    }
}

/// What was read of an answer.
#[derive(Debug)]
pub(super) struct Read {
    frames: VecDeque<Result<Frame<Bytes>, BodyError>>,
    /// The bytes of the pieces.
    pub bytes: usize,
    rest: Option<Paced>,
    /// Whether it was read to its end.
    pub whole: bool,
}

impl Read {
    /// Reads an answer up to so many bytes.
    pub async fn begin(mut body: Paced, most: usize) -> Self {
        let mut read = Self { frames: VecDeque::new(), bytes: 0, rest: None, whole: false };
        loop {
            match std::future::poll_fn(|context| body.poll_next(context)).await {
                None => {
                    read.whole = true;
                    return read;
                }
                Some(Ok(frame)) => {
                    read.bytes += frame.data_ref().map_or(0, Bytes::len);
                    read.frames.push_back(Ok(frame));
                    if read.bytes > most {
                        read.rest = Some(body);
                        return read;
                    }
                }
                // Whoever gets the answer gets as far as we did.
                Some(Err(error)) => {
                    read.frames.push_back(Err(error));
                    return read;
                }
            }
        }
    }

    /// The bytes in one piece.
    pub fn contiguous(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes);
        for frame in self.frames.iter().flatten() {
            all.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        }
        all
    }
}
