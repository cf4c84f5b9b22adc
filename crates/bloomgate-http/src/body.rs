//! Reads the body of a request: not too much of it, and not for too long.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Frame;
use tokio::sync::mpsc;

use crate::problem::Problem;

/// The whole body, if it has at most `most` bytes and arrives `within` that time.
///
/// The memory grows with what has arrived, never with what was announced.
pub async fn read(body: &mut Body, most: usize, within: Duration) -> Result<Bytes, Problem> {
    let collected = tokio::time::timeout(within, Limited::new(body, most).collect()).await;
    match collected {
        Err(_) => Err(Problem::too_slow(format!(
            "the body did not arrive within {} seconds; send it faster, or less at once",
            within.as_secs()
        ))),
        Ok(Err(error)) => Err(told(error.as_ref(), most)),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// A body that is sent piece by piece, as they come; it ends when nobody sends any more.
pub fn pieces(from: mpsc::Receiver<Bytes>) -> Body {
    Body::new(Pieces(from))
}

struct Pieces(mpsc::Receiver<Bytes>);

impl axum::body::HttpBody for Pieces {
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
/// when it is refused then gets to see why.
pub async fn discard(body: &mut Body, most: usize, within: Duration) {
    use axum::body::HttpBody;
    if body.is_end_stream() {
        return;
    }
    let all = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    // However it ends, the answer is given.
    _ = tokio::time::timeout(within, all).await;
}

/// What ended a body that is read piece by piece: more than `most` bytes, or the client.
#[must_use]
pub fn broken_off(error: axum::Error, most: usize) -> Problem {
    told(&error, most)
}

fn told(error: &(dyn std::error::Error + 'static), most: usize) -> Problem {
    match is_too_long(error) {
        true => too_large(most),
        false => Problem::bad_request(format!("the body broke off: {error}")),
    }
}

/// The refusal of a body that is too long.
pub(crate) fn too_large(most: usize) -> Problem {
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
        // The limit below it is told the same way.
        let mut inner = Body::new(Limited::new(Body::from("12345"), 4));
        assert_eq!(read(&mut inner, 100, second).await.unwrap_err().status(), 413);
    }

    /// A body of so many pieces of five bytes, that then stays silent.
    struct Fives(usize);

    impl axum::body::HttpBody for Fives {
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
        discard(&mut long, 20, Duration::from_secs(1)).await;
        // Four pieces fit, the fifth ended it; five are left.
        assert_eq!(read(&mut long, 100, Duration::from_secs(1)).await.unwrap_err().status(), 408);
        let mut long = Body::new(Fives(10));
        discard(&mut long, 20, Duration::from_secs(1)).await;
        assert_eq!(read(&mut long, 24, Duration::from_secs(1)).await.unwrap_err().status(), 413);
        // One that falls silent holds up the answer for that time alone.
        let begun = tokio::time::Instant::now();
        discard(&mut Body::new(Fives(1)), 100, Duration::from_secs(5)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        discard(&mut Body::empty(), 100, Duration::from_secs(5)).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }
}
