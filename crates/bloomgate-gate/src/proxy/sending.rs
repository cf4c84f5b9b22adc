//! A request on its way to the upstream, and the head of its answer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::Poll;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, Response};

use super::Shared;
use super::body::ToUpstream;
use super::metrics::one;
use super::patience::Patience;
use crate::callers::Place;
use crate::events::Part;
use crate::requests;

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It was never sent.
    Unreached(String),
    /// It was sent, or part of it, and no answer came in time.
    Slow(String),
    /// It was sent, or part of it, and the connection broke.
    Broke(String),
    /// Part of it was sent, and the client did not send the rest.
    LeftOff(String),
}

impl Trouble {
    /// Whether the upstream may have done what was asked.
    pub fn may_be_done(&self) -> bool {
        !matches!(self, Self::Unreached(_))
    }

    pub fn why(&self) -> &str {
        match self {
            Self::Unreached(why) | Self::Slow(why) | Self::Broke(why) | Self::LeftOff(why) => why,
        }
    }
}

pub(super) type Answered = Result<Response<Incoming>, Trouble>;

impl Shared {
    /// Sends a request without a body that changes nothing; once more if its connection was closed under it, as one that was
    /// kept for long may be.
    pub(super) async fn send_idempotent(&self, head: Parts) -> Answered {
        let again = again(&head);
        match self.exchange(Request::from_parts(head, ToUpstream::Empty), None).await {
            Err(Trouble::Broke(_)) => {
                one(&self.counts.again);
                self.exchange(again, None).await
            }
            answered => answered,
        }
    }

    /// Sends a request with a body, piece by piece as it comes.
    pub(super) async fn send(&self, head: Parts, body: Incoming) -> Answered {
        let moved = Arc::new(AtomicU64::new(0));
        let body = ToUpstream::Stream(self.paced(body).counting(moved.clone()));
        self.exchange(Request::from_parts(head, body), Some(moved)).await
    }

    /// Sends a request and waits for the head of its answer: not longer than allowed since the last piece of the body.
    pub(super) async fn exchange(&self, mut request: Request<ToUpstream>, moved: Option<Arc<AtomicU64>>) -> Answered {
        request.extensions_mut().clear();
        let limit = self.options.answer_time;
        let mut answer = self.client.request(request);
        let mut patience = Patience::new(&self.timers, limit);
        let mut before = 0;
        std::future::poll_fn(|context| {
            if let Poll::Ready(answered) = Pin::new(&mut answer).poll(context) {
                return Poll::Ready(
                    answered.inspect(|_| self.answered()).map_err(|error| trouble(&error, moved.is_some())),
                );
            }
            while patience.poll(context).is_ready() {
                let now = moved.as_ref().map_or(0, |moved| moved.load(Relaxed));
                if now == before {
                    return Poll::Ready(Err(Trouble::Slow(format!("no answer within {limit:?}"))));
                }
                before = now;
                patience.begin_again(limit);
            }
            Poll::Pending
        })
        .await
    }

    fn answered(&self) {
        if let Some(gate) = self.gate.get() {
            gate.inner.events.answered(Part::Upstream);
        }
    }
}

/// Ends a client's place by what became of its request. What the upstream may have looked up for one that the client broke off
/// nobody is told any more, and by breaking off it was the client who saw to that: it counts as a miss.
pub(super) fn leave(place: Option<Place>, sent: &Answered) {
    match (place, sent) {
        (Some(place), Err(Trouble::LeftOff(_))) => place.missed(),
        (place, sent) => requests::leave(place, sent.as_ref().ok().map(Response::status)),
    }
}

/// The same request once more.
fn again(head: &Parts) -> Request<ToUpstream> {
    let mut request = Request::new(ToUpstream::Empty);
    *request.method_mut() = head.method.clone();
    *request.uri_mut() = head.uri.clone();
    *request.version_mut() = head.version;
    request.headers_mut().clone_from(&head.headers);
    request
}

/// What went wrong, and whether anything was sent before. `with_body`: of a client, as it came.
fn trouble(error: &hyper_util::client::legacy::Error, with_body: bool) -> Trouble {
    let mut why = error.to_string();
    let mut next = std::error::Error::source(error);
    let mut unsent = error.is_connect();
    let (mut is_late, mut left_off) = (false, false);
    while let Some(cause) = next {
        why = format!("{why}: {cause}");
        // Handed back before a byte of it was written.
        unsent |= cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled);
        // The body was not to be had: nothing else is given to the client of HTTP that it could blame.
        left_off |= with_body && cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user);
        is_late |= cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut);
        next = cause.source();
    }
    match (unsent, left_off, is_late) {
        (true, ..) => Trouble::Unreached(why),
        (_, true, _) => Trouble::LeftOff(why),
        (_, _, true) => Trouble::Slow(why),
        (_, _, false) => Trouble::Broke(why),
    }
}
