//! What the answers to writes that may come again hold of memory.
//!
//! An answer is kept for ten minutes from when it was given, and nothing pushes it out before: whoever comes too often is
//! refused. A holder (the users of a namespace, or a user without one) may have as much as all leave free: one alone half of
//! everything, two a third each, and a newcomer always finds room.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use bloomgate_command::Roles;

use crate::engine::holders::Holder;

/// How long an answer is kept.
pub(super) const KEPT_MS: u64 = 600_000;
/// What a request takes beside its answer: 120 bytes in a table that may be half empty, 40 in a tree that may be, and the name of
/// its holder.
pub(super) const BESIDE: u64 = 448;
/// How many old ones go at once: the others wait for the next look, under a lock that every request with a key takes.
const AT_ONCE: usize = 4_096;

/// A sum that stands for a request, or for its key.
pub(super) type Sum = [u8; 32];

/// A request with a key.
#[derive(Debug)]
pub(super) struct Kept {
    /// Of the request.
    pub print: Sum,
    holder: Holder,
    /// Its answer; nothing while it is on its way.
    pub answer: Option<Answer>,
}

/// An answer that is kept.
#[derive(Debug)]
pub(super) struct Answer {
    at_ms: u64,
    /// Its place in the order.
    number: u64,
    /// What the user needed for what was done.
    pub needs: Roles,
    /// The answer; nothing of one that there was no room for. Then it is known that something was done, and no more.
    pub told: Option<Told>,
}

impl Kept {
    fn bytes(&self) -> u64 {
        let told = self.answer.as_ref().and_then(|answer| answer.told.as_ref());
        BESIDE + told.map_or(0, |told| told.0.len() as u64)
    }
}

/// The requests with a key of the last ten minutes.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    kept: HashMap<Sum, Kept>,
    /// Those that are answered, oldest first, by their numbers.
    order: BTreeMap<u64, Sum>,
    next: u64,
    bytes: u64,
    /// How much of them is whose.
    of: HashMap<Holder, u64>,
}

impl Shelf {
    /// What a holder has, and what all leave free of `most`.
    pub(super) fn share(&self, holder: &Holder, most: u64) -> (u64, u64) {
        (self.of.get(holder).copied().unwrap_or(0), most.saturating_sub(self.bytes))
    }

    /// Whether a holder may have so many bytes more.
    fn has_room(&self, holder: &Holder, more: u64, most: u64) -> bool {
        let (held, free) = self.share(holder, most);
        free.checked_sub(more).is_some_and(|free| held + more <= free)
    }

    /// The request of a key.
    pub(super) fn find(&mut self, slot: &Sum, now_ms: u64) -> Option<&Kept> {
        if self.kept.get(slot)?.answer.as_ref().is_some_and(|answer| is_old(answer, now_ms)) {
            self.drop_one(slot);
        }
        self.kept.get(slot)
    }

    /// Puts a request there that is under way, if its holder may have one more.
    #[must_use]
    pub(super) fn put(&mut self, slot: Sum, print: Sum, holder: &Holder, most: u64) -> bool {
        if !self.has_room(holder, BESIDE, most) {
            return false;
        }
        self.bytes += BESIDE;
        *self.of.entry(holder.clone()).or_default() += BESIDE;
        self.kept.insert(slot, Kept { print, holder: holder.clone(), answer: None });
        true
    }

    /// Keeps the answer to one that was under way; only that there was one if it is none that may be kept, or too long.
    pub(super) fn keep(&mut self, slot: &Sum, told: Option<Told>, needs: Roles, now_ms: u64, most: u64) {
        let Some(Kept { holder, answer: None, .. }) = self.kept.get(slot) else { return };
        let told = told.filter(|told| self.has_room(holder, told.0.len() as u64, most));
        let more = told.as_ref().map_or(0, |told| told.0.len() as u64);
        let number = self.next;
        self.next += 1;
        if let Some(kept) = self.kept.get_mut(slot) {
            kept.answer = Some(Answer { at_ms: now_ms, number, needs, told });
            self.bytes += more;
            *self.of.entry(kept.holder.clone()).or_default() += more;
            self.order.insert(number, *slot);
        }
    }

    /// Lets go of one.
    pub(super) fn drop_one(&mut self, slot: &Sum) {
        let Some(kept) = self.kept.remove(slot) else { return };
        let bytes = kept.bytes();
        self.bytes -= bytes;
        if let Some(answer) = &kept.answer {
            self.order.remove(&answer.number);
        }
        if let Some(held) = self.of.get_mut(&kept.holder) {
            *held -= bytes;
            if *held == 0 {
                self.of.remove(&kept.holder);
            }
        }
    }

    /// Lets go of what is old. What is under way stays: it would be done twice if it came again.
    pub(super) fn tidy(&mut self, now_ms: u64) {
        for _ in 0..AT_ONCE {
            let Some((_, &slot)) = self.order.first_key_value() else { break };
            let answer = self.kept.get(&slot).and_then(|kept| kept.answer.as_ref());
            if answer.is_some_and(|answer| !is_old(answer, now_ms)) {
                break;
            }
            self.drop_one(&slot);
        }
        // A table that was large once is given back.
        if self.kept.capacity() > 1_024.max(self.kept.len() * 8) {
            self.kept.shrink_to(self.kept.len() * 2);
        }
    }

    /// When the oldest goes.
    pub(super) fn room_in(&self, now_ms: u64) -> Duration {
        let oldest = self.order.values().next().and_then(|slot| self.kept.get(slot)?.answer.as_ref());
        let left = oldest.map_or(0, |answer| (answer.at_ms + KEPT_MS).saturating_sub(now_ms));
        Duration::from_millis(left)
    }
}

fn is_old(answer: &Answer, now_ms: u64) -> bool {
    now_ms.saturating_sub(answer.at_ms) >= KEPT_MS
}

/// An answer in one piece: its status, its headers, each behind the length of its name and its value, and its body. Five headers
/// take a kibibyte in a table of their own, and most answers have no hundred bytes.
#[derive(Debug, Clone)]
pub(super) struct Told(Bytes);

impl Told {
    pub(super) fn of(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(body.len() + 256);
        let mut put = |length: usize| bytes.extend_from_slice(&(length as u32).to_le_bytes());
        put(usize::from(status.as_u16()));
        put(headers.len());
        for (name, value) in headers {
            bytes.extend_from_slice(&(name.as_str().len() as u32).to_le_bytes());
            bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
            bytes.extend_from_slice(name.as_str().as_bytes());
            bytes.extend_from_slice(value.as_bytes());
        }
        bytes.extend_from_slice(body);
        Self(bytes.into_boxed_slice().into())
    }

    /// The answer once more.
    pub(super) fn response(&self) -> Option<Response<Body>> {
        let mut rest = self.0.clone();
        let mut response = Response::default();
        *response.status_mut() = StatusCode::from_u16(u16::try_from(number(&mut rest)?).ok()?).ok()?;
        for _ in 0..number(&mut rest)? {
            let (name, value) = (number(&mut rest)?, number(&mut rest)?);
            let name = HeaderName::from_bytes(&cut(&mut rest, name)?).ok()?;
            response.headers_mut().append(name, HeaderValue::from_bytes(&cut(&mut rest, value)?).ok()?);
        }
        *response.body_mut() = Body::from(rest);
        Some(response)
    }
}

fn cut(rest: &mut Bytes, length: u32) -> Option<Bytes> {
    let length = usize::try_from(length).ok()?;
    (length <= rest.len()).then(|| rest.split_to(length))
}

fn number(rest: &mut Bytes) -> Option<u32> {
    cut(rest, 4)?.as_ref().try_into().ok().map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLENTY: u64 = 1 << 30;

    fn slot(number: u64) -> Sum {
        *blake3::hash(&number.to_le_bytes()).as_bytes()
    }

    fn user(name: &str) -> Holder {
        Holder::User(name.into())
    }

    fn told(length: usize) -> Told {
        Told::of(StatusCode::OK, &HeaderMap::new(), &vec![b'x'; length])
    }

    impl Shelf {
        /// Puts one there that is answered at once; whether there was room.
        fn answer(&mut self, number: u64, of: &str, at_ms: u64, most: u64) -> bool {
            let put = self.put(slot(number), [0; 32], &user(of), most);
            self.keep(&slot(number), Some(told(0)), Roles::NONE, at_ms, most);
            put
        }
    }

    #[tokio::test]
    async fn an_answer_comes_out_as_it_went_in() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("content-type", "text/plain"), ("set-cookie", "a"), ("set-cookie", "b"), ("vary", "")] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let told = Told::of(StatusCode::CREATED, &headers, b"body");
        let (head, body) = told.response().unwrap().into_parts();
        assert_eq!((head.status, head.headers), (StatusCode::CREATED, headers));
        assert_eq!(axum::body::to_bytes(body, 100).await.unwrap(), "body");
        // Cut short it is none, wherever; but for its body.
        for length in 0..told.0.len() - 4 {
            assert!(Told(told.0.slice(..length)).response().is_none(), "{length}");
        }
    }

    #[test]
    fn old_ones_go_and_what_is_under_way_stays() {
        let mut shelf = Shelf::default();
        assert!(shelf.put(slot(100), [0; 32], &user("shop"), PLENTY));
        for number in 0..20 {
            assert!(shelf.answer(number, "shop", number, PLENTY));
        }
        let one = BESIDE + 8;
        assert_eq!(shelf.share(&user("shop"), PLENTY), (20 * one + BESIDE, PLENTY - 20 * one - BESIDE));
        assert_eq!(shelf.room_in(5), Duration::from_millis(KEPT_MS - 5));
        // Nobody has to tidy for one to be old.
        assert!(shelf.find(&slot(0), KEPT_MS - 1).is_some());
        assert!(shelf.find(&slot(0), KEPT_MS).is_none());
        shelf.tidy(KEPT_MS + 9);
        assert_eq!((shelf.kept.len(), shelf.order.len(), shelf.bytes), (11, 10, 10 * one + BESIDE));
        // Its ten minutes begin with its answer, however long that took.
        shelf.keep(&slot(100), None, Roles::NONE, KEPT_MS * 5, PLENTY);
        shelf.tidy(KEPT_MS * 6 - 1);
        assert_eq!(shelf.kept.len(), 1);
        assert!(shelf.find(&slot(100), KEPT_MS * 6 - 1).is_some_and(|kept| kept.answer.is_some()));
        shelf.drop_one(&slot(100));
        assert_eq!((shelf.kept.len(), shelf.order.len(), shelf.bytes, shelf.of.len()), (0, 0, 0, 0));
    }

    #[test]
    fn nobody_pushes_out_what_others_have_and_a_newcomer_finds_room() {
        let mut shelf = Shelf::default();
        let most = 3_000 * (BESIDE + 8);
        let mut number = 0;
        let mut fill = |shelf: &mut Shelf, of: &str, at_ms: u64| {
            let before = number;
            while shelf.answer(number, of, at_ms, most) {
                number += 1;
            }
            number - before
        };
        // Half of it, and then half of what is left: the first one has to let go before it has more than a third.
        assert_eq!(fill(&mut shelf, "first", 0), 1_500);
        assert_eq!(fill(&mut shelf, "second", 60_000), 750);
        assert_eq!(fill(&mut shelf, "first", 60_000), 0);
        shelf.tidy(KEPT_MS);
        assert_eq!(fill(&mut shelf, "first", KEPT_MS), 1_125);
        assert_eq!(fill(&mut shelf, "second", KEPT_MS), 187);
        assert_eq!(fill(&mut shelf, "third", KEPT_MS), 469);
        assert!(shelf.bytes <= most);
        assert!((1_500..2_250).all(|number| shelf.find(&slot(number), KEPT_MS).is_some()), "nobody's answers went");
        // A long answer has no room beside the others: that there was one is known all the same.
        assert!(shelf.put(slot(99_999), [0; 32], &user("fourth"), most));
        shelf.keep(&slot(99_999), Some(told(most as usize / 4)), Roles::NONE, KEPT_MS, most);
        let kept = shelf.find(&slot(99_999), KEPT_MS).unwrap();
        assert!(kept.answer.as_ref().is_some_and(|answer| answer.told.is_none()));
        assert!(shelf.bytes <= most);
    }
}
