//! Bodies that are read before they are passed on: whole, unless they are longer than that, or there is no room for more. Of a
//! request that breaks off on its way the service behind has not seen a byte, and nobody has to fear that it was done.

use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::HeaderMap;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, timeout_at};

use super::body::{BodyError, Next, Paced};
use crate::error::{Error, ErrorKind};

/// What becomes of a body that is not read whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Longer {
    /// What was read of it is passed on, and the rest as it comes.
    #[default]
    Stream,
    /// Nothing of it is passed on: 413 if it is too long, 503 if there is no room now.
    Refuse,
}

impl FromStr for Longer {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "stream" => Ok(Self::Stream),
            "refuse" => Ok(Self::Refuse),
            other => {
                let message = format!("{other:?} says nothing of longer bodies: write stream or refuse");
                Err(Error::new(ErrorKind::Invalid, message))
            }
        }
    }
}

/// How a body is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    /// Of every body so much, whether there is room or not.
    pub least: usize,
    /// Whole up to this length.
    pub whole: usize,
    pub longer: Longer,
    /// How long each piece of the least length may take.
    pub pace: Duration,
}

/// Why a body is not passed on.
#[derive(Debug)]
pub(super) enum Unread {
    Broke(BodyError),
    Slow,
    TooLong,
    NoRoom,
}

/// The memory that bodies take together, beyond the least of each.
#[derive(Debug)]
pub(super) struct Room {
    most: usize,
    taken: AtomicUsize,
}

impl Room {
    pub fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: AtomicUsize::new(0) })
    }

    #[cfg(test)]
    fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }
}

/// What one body has of it.
#[derive(Debug)]
struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    /// Takes more of it, if there is so much.
    fn grow(&mut self, to: usize) -> bool {
        let more = to.saturating_sub(self.bytes);
        let fits = |taken: usize| taken.checked_add(more).filter(|&all| more == 0 || all <= self.room.most);
        let has_room = self.room.taken.fetch_update(Relaxed, Relaxed, fits).is_ok();
        if has_room {
            self.bytes += more;
        }
        has_room
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Relaxed);
    }
}

/// Bytes that give their share back when the last of them was sent.
struct Lent {
    bytes: BytesMut,
    _share: Share,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body whose beginning was read before it was passed on; mostly all of it.
#[derive(Debug)]
pub(super) struct Begun {
    /// In one piece (of a client that sends single bytes no more is kept than of any other), and the one behind it for which
    /// there was no room any more.
    first: VecDeque<Bytes>,
    rest: Rest,
    /// Whether its length was said.
    sized: bool,
}

#[derive(Debug)]
enum Rest {
    Nothing,
    Trailers(HeaderMap),
    Stream(Paced),
}

impl Begun {
    /// Reads a body to its end, or up to more than is read of it.
    pub async fn read(mut body: Paced, how: How, room: &Arc<Room>) -> Result<Self, Unread> {
        let said = body.size_hint().exact();
        let whole = how.whole.max(how.least);
        // Said to be longer: no more of it is kept than shows that somebody sends.
        let most = match said {
            Some(said) if said > whole as u64 => match how.longer {
                Longer::Refuse => return Err(Unread::TooLong),
                Longer::Stream => how.least,
            },
            _ => whole,
        };
        let (mut first, mut share) = (BytesMut::new(), Share { room: room.clone(), bytes: 0 });
        // Not all of it in the time of one piece: whoever sends a megabyte slowly is not cut off who was not before.
        let (mut stretch, mut until) = (how.least, Instant::now() + how.pace);
        let mut over = None;
        let rest = loop {
            if first.len() > most || over.is_some() {
                match (how.longer, &over) {
                    (Longer::Stream, _) => break Rest::Stream(body),
                    (Longer::Refuse, None) => return Err(Unread::TooLong),
                    (Longer::Refuse, Some(_)) => return Err(Unread::NoRoom),
                }
            }
            if first.len() > stretch {
                (stretch, until) = (first.len() + how.least, Instant::now() + how.pace);
            }
            let next = timeout_at(until, std::future::poll_fn(|context| body.poll_next(context)));
            let Some(frame) = next.await.map_err(|_| Unread::Slow)? else { break Rest::Nothing };
            match frame.map_err(Unread::Broke)?.into_data() {
                Ok(data) => {
                    let length = first.len() + data.len();
                    if length > first.capacity() {
                        let capacity = length.next_power_of_two();
                        if !share.grow(capacity.saturating_sub(how.least)) {
                            over = Some(data);
                            continue;
                        }
                        first.reserve(capacity - first.len());
                    }
                    first.extend_from_slice(&data);
                }
                Err(frame) => break frame.into_trailers().map_or(Rest::Nothing, Rest::Trailers),
            }
        };
        let first = match share.bytes {
            0 => first.freeze(),
            _ => Bytes::from_owner(Lent { bytes: first, _share: share }),
        };
        let first = [Some(first), over].into_iter().flatten().filter(|piece| !piece.is_empty()).collect();
        Ok(Self { first, rest, sized: said.is_some() })
    }

    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Next {
        if let Some(first) = self.first.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        match &mut self.rest {
            Rest::Stream(rest) => rest.poll_next(context),
            rest => Poll::Ready(match std::mem::replace(rest, Rest::Nothing) {
                Rest::Trailers(trailers) => Some(Ok(Frame::trailers(trailers))),
                _ => None,
            }),
        }
    }

    pub fn is_end_stream(&self) -> bool {
        self.first.is_empty()
            && match &self.rest {
                Rest::Nothing => true,
                Rest::Trailers(_) => false,
                Rest::Stream(rest) => rest.is_end_stream(),
            }
    }

    pub fn size_hint(&self) -> SizeHint {
        let rest = match &self.rest {
            Rest::Nothing | Rest::Trailers(_) => Some(0),
            Rest::Stream(rest) => rest.size_hint().exact(),
        };
        let first = self.first.iter().map(Bytes::len).sum::<usize>() as u64;
        // What came in chunks goes on in chunks.
        rest.filter(|_| self.sized).map_or_else(SizeHint::default, |rest| SizeHint::with_exact(first + rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_becomes_of_longer_ones_is_read_and_typing_errors_told() {
        assert_eq!(
            ("stream".parse::<Longer>().unwrap(), "refuse".parse::<Longer>().unwrap()),
            (Longer::Stream, Longer::Refuse)
        );
        assert!("drop".parse::<Longer>().unwrap_err().to_string().contains("stream or refuse"));
    }

    #[test]
    fn a_share_is_given_back_with_the_last_of_its_bytes() {
        let room = Room::of(100);
        let share = || Share { room: room.clone(), bytes: 0 };
        let (mut one, mut other) = (share(), share());
        assert!(one.grow(60) && one.grow(60) && !other.grow(41) && other.grow(40) && !one.grow(61) && one.grow(10));
        assert_eq!(room.taken(), 100, "what is not needed any more is kept");
        drop(other);
        let whole = Bytes::from_owner(Lent { bytes: BytesMut::from("a body"), _share: one });
        let part = whole.slice(2..);
        drop(whole);
        assert_eq!((room.taken(), &part[..]), (60, &b"body"[..]));
        drop(part);
        assert_eq!(room.taken(), 0);
    }
}
