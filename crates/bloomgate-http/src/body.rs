//! Reads the body of a request: not too much of it, and not for too long.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc;

use crate::problem::Problem;

/// The whole body, if it has at most `most` bytes and arrives `within` that time.
///
/// The memory grows with what has arrived, never with what was announced.
pub async fn read(body: &mut Body, most: usize, within: Duration) -> Result<Bytes, Problem> {
    read_counted(body, most, within, |_| Ok(())).await
}

/// [`read`], where `take` is told of every piece before it is kept, and may refuse it.
pub async fn read_counted(
    body: &mut Body,
    most: usize,
    within: Duration,
    mut take: impl FnMut(usize) -> Result<(), Problem>,
) -> Result<Bytes, Problem> {
    let mut body = Limited::new(body, most);
    let whole = async {
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(piece) = frame.map_err(|error| told(error.as_ref(), most))?.into_data() else { continue };
            take(piece.len())?;
            whole.extend_from_slice(&piece);
        }
        Ok::<Bytes, Problem>(whole.into())
    };
    tokio::time::timeout(within, whole).await.unwrap_or_else(|_| {
        Err(Problem::too_slow(format!(
            "the body did not arrive within {} seconds; send it faster, or less at once",
            within.as_secs()
        )))
    })
}

/// A body that ends with 413 if it has more than `most` bytes; at once if it announces them.
pub fn limited<B>(headers: &HeaderMap, body: B, most: usize) -> Result<Body, Problem>
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    if body.is_end_stream() {
        return Ok(Body::empty());
    }
    match announced(headers).is_some_and(|length| length > most as u64) {
        true => Err(too_large(most)),
        // What was not announced is counted as it comes.
        false => Ok(Body::new(Limited::new(body, most))),
    }
}

/// How long the body is, as far as its head says.
#[must_use]
pub fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
}

/// A body that is sent piece by piece, as they come; it ends when nobody sends any more.
pub fn pieces(from: mpsc::Receiver<Bytes>) -> Body {
    Body::new(Pieces(from))
}

struct Pieces(mpsc::Receiver<Bytes>);

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// Reads what is left of a body and throws it away, up to so many bytes and for so long: a client that is still sending
/// when it is refused then gets to see why. Whether that was all of it: if not, there can be no other request behind it.
pub async fn discard(body: &mut Body, most: usize, within: Duration) -> bool {
    if body.is_end_stream() {
        return true;
    }
    let all = async {
        let mut left = most;
        loop {
            let frame = match body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(_)) => return false,
                None => return true,
            };
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(less) => left = less,
                None => return false,
            }
        }
    };
    // However it ends, the answer is given.
    tokio::time::timeout(within, all).await.unwrap_or(false)
}

/// The same body, and whether somebody has begun to read it: before that a client that waits for `100 Continue` has sent none of
/// it, and need not be asked to.
pub fn noticed(body: Body) -> (Body, Arc<AtomicBool>) {
    let begun = Arc::new(AtomicBool::new(false));
    (Body::new(Noticed { body, begun: begun.clone() }), begun)
}

struct Noticed {
    body: Body,
    begun: Arc<AtomicBool>,
}

impl HttpBody for Noticed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.begun.store(true, Ordering::Relaxed);
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How the problem of a body begins that did not come to its end.
const BROKE_OFF: &str = "the body broke off";

/// Whether a problem says that the body did not come to its end: then it says nothing about the request.
#[must_use]
pub fn is_broken_off(problem: &Problem) -> bool {
    problem.detail().starts_with(BROKE_OFF)
}

/// What ended a body that is read piece by piece: more than `most` bytes, or the client.
#[must_use]
pub fn broken_off(error: axum::Error, most: usize) -> Problem {
    told(&error, most)
}

fn told(error: &(dyn std::error::Error + 'static), most: usize) -> Problem {
    match is_too_long(error) {
        true => too_large(most),
        false => Problem::bad_request(format!("{BROKE_OFF}: {error}")),
    }
}

/// The refusal of a body that is too long.
fn too_large(most: usize) -> Problem {
    Problem::too_large(format!("the body has more than {most} bytes; send less at once"))
}

/// Whether it was a limit that ended the body: this one, or that of the listener below it.
fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_are_sent_until_nobody_has_more() {
        let (door, pieces) = mpsc::channel(1);
        let sending = tokio::spawn(async move {
            for piece in ["one ", "two ", "three"] {
                door.send(Bytes::from_static(piece.as_bytes())).await.unwrap();
            }
        });
        let mut body = super::pieces(pieces);
        assert_eq!(read(&mut body, 100, Duration::from_secs(1)).await.unwrap(), "one two three");
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn as_much_as_allowed_and_no_byte_more() {
        let second = Duration::from_secs(1);
        assert_eq!(read(&mut Body::from("1234"), 4, second).await.unwrap(), "1234");
        let refused = read(&mut Body::from("12345"), 4, second).await.unwrap_err();
        assert_eq!(refused.status(), 413);
        let headers = |length: &str| HeaderMap::from_iter([(CONTENT_LENGTH, length.parse().unwrap())]);
        assert_eq!(limited(&headers("5"), Body::from("12345"), 4).unwrap_err().status(), 413);
        let mut body = limited(&HeaderMap::new(), Body::from("12345"), 4).unwrap();
        assert_eq!(read(&mut body, 100, second).await.unwrap_err().status(), 413);
        let mut body = limited(&headers("4"), Body::from("1234"), 4).unwrap();
        assert_eq!(read(&mut body, 100, second).await.unwrap(), "1234");
        // The limit below it is told the same way.
        let mut inner = Body::new(Limited::new(Body::from("12345"), 4));
        assert_eq!(read(&mut inner, 100, second).await.unwrap_err().status(), 413);
    }

    /// A body of so many pieces of five bytes, that then stays silent.
    struct Fives(usize);

    impl HttpBody for Fives {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            match self.0.checked_sub(1) {
                Some(less) => {
                    self.0 = less;
                    std::task::Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"12345")))))
                }
                None => std::task::Poll::Pending,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_wanted_is_thrown_away_up_to_a_limit() {
        let mut long = Body::new(Fives(10));
        assert!(!discard(&mut long, 20, Duration::from_secs(1)).await);
        // Four pieces fit, the fifth ended it; five are left.
        assert_eq!(read(&mut long, 100, Duration::from_secs(1)).await.unwrap_err().status(), 408);
        let mut long = Body::new(Fives(10));
        discard(&mut long, 20, Duration::from_secs(1)).await;
        assert_eq!(read(&mut long, 24, Duration::from_secs(1)).await.unwrap_err().status(), 413);
        // One that falls silent holds up the answer for that time alone.
        let begun = tokio::time::Instant::now();
        discard(&mut Body::new(Fives(1)), 100, Duration::from_secs(5)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert!(discard(&mut Body::empty(), 100, Duration::from_secs(5)).await);
        assert!(discard(&mut Body::from("12345"), 5, Duration::from_secs(5)).await);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }
}
