//! `Idempotency-Key`: a write that is sent again because its answer got lost is not done again.
//!
//! The answer of the first one is kept for ten minutes and given once more, marked `Idempotency-Replayed`; the same key with
//! another request is a mistake and refused. Kept in memory, so a restart forgets it; what must not happen twice even then,
//! taking a key out, carries the key on as the request id of BG.REMOVE, which is in the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::body;
use bloomgate_http::problem::Problem;

use super::headers::IDEMPOTENCY_KEY;
use super::serving::House;

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// How long an answer is kept.
const KEPT_MS: u64 = 600_000;
/// How many are.
const MOST: usize = 10_000;
/// And how many of one user.
const MOST_OF_ONE: usize = 1_000;
/// Bytes of all of them.
const MOST_BYTES: usize = 32 << 20;
/// Bytes of one user after which no more of its requests are taken: nobody's answers push out those of others.
const MOST_BYTES_OF_ONE: usize = 8 << 20;
/// The longest key.
const LONGEST_KEY: usize = 128;
/// The longest body of a request with a key: its answer is kept.
pub(super) const LONGEST_BODY: usize = 1 << 20;
/// The longest answer that is kept.
const LONGEST_ANSWER: usize = 8 << 20;

type Sum = [u8; 32];

/// An answer that is kept, or on its way.
#[derive(Debug)]
struct Kept {
    /// Of the request.
    print: Sum,
    user: String,
    at_ms: u64,
    /// Its place in the order.
    number: u64,
    answer: Option<(StatusCode, HeaderMap, Bytes)>,
}

impl Kept {
    fn bytes(&self) -> usize {
        self.answer.as_ref().map_or(0, |(_, _, body)| body.len()) + 512
    }
}

#[derive(Debug, Default)]
struct Shelf {
    kept: HashMap<Sum, Kept>,
    /// Oldest first, by their numbers.
    order: BTreeMap<u64, Sum>,
    next: u64,
    bytes: usize,
}

impl Shelf {
    /// Puts one there that is under way.
    fn put(&mut self, slot: Sum, print: Sum, user: &str, now_ms: u64) {
        let number = self.next;
        self.next += 1;
        let kept = Kept { print, user: user.to_owned(), at_ms: now_ms, number, answer: None };
        self.bytes += kept.bytes();
        self.kept.insert(slot, kept);
        self.order.insert(number, slot);
    }

    fn drop_one(&mut self, slot: &Sum) {
        if let Some(kept) = self.kept.remove(slot) {
            self.bytes -= kept.bytes();
            self.order.remove(&kept.number);
        }
    }

    /// Lets go of what is old, and of the oldest where there is too much. What is under way stays: it would be done twice if
    /// it came again.
    fn tidy(&mut self, now_ms: u64) {
        let (mut left, mut bytes, mut gone) = (self.kept.len(), self.bytes, Vec::new());
        for slot in self.order.values() {
            let Some(kept) = self.kept.get(slot).filter(|kept| kept.answer.is_some()) else { continue };
            if now_ms.saturating_sub(kept.at_ms) < KEPT_MS && left < MOST && bytes < MOST_BYTES {
                break;
            }
            (left, bytes) = (left - 1, bytes - kept.bytes());
            gone.push(*slot);
        }
        gone.iter().for_each(|slot| self.drop_one(slot));
    }

    /// How many there are of a user, and their bytes.
    fn of(&self, user: &str) -> (usize, usize) {
        let of_user = self.kept.values().filter(|kept| kept.user == user);
        of_user.fold((0, 0), |(count, bytes), kept| (count + 1, bytes + kept.bytes()))
    }
}

/// The answers that are kept.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Shelf>);

/// A request with a key that is being answered. If nothing comes of it, its key is free again.
pub(super) struct Asked {
    house: Arc<House>,
    slot: Sum,
    is_open: bool,
}

impl Drop for Asked {
    fn drop(&mut self) {
        if self.is_open {
            self.house.remembered.shelf().drop_one(&self.slot);
        }
    }
}

/// What is to be done with a request that has a key.
pub(super) enum Turn {
    /// Answer it.
    First(Asked),
    /// This was the answer.
    Again(Response<Body>),
}

/// The key of a request, if it has one.
pub(super) fn key(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY.name) else { return Ok(None) };
    let key = value
        .to_str()
        .ok()
        .filter(|key| (1..=LONGEST_KEY).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()));
    key.map(Some).ok_or_else(|| {
        Problem::bad_request(format!(
            "the header Idempotency-Key is 1 to {LONGEST_KEY} visible characters of ASCII: a random number does"
        ))
    })
}

/// A key of a user as the request id of a command: the user and the key in 32 hexadecimal digits.
pub(super) fn request_id(user: &str, key: &str) -> String {
    slot(user, key)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn slot(user: &str, key: &str) -> Sum {
    print(&[b"slot", user.as_bytes(), key.as_bytes()])
}

/// One sum of several texts, each with its length so that none runs into the next.
pub(super) fn print(texts: &[&[u8]]) -> Sum {
    let mut sum = blake3::Hasher::new();
    for text in texts {
        sum.update(&(text.len() as u64).to_le_bytes());
        sum.update(text);
    }
    *sum.finalize().as_bytes()
}

impl Remembered {
    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks whether a request was answered already.
pub(super) fn begin(house: &Arc<House>, user: &str, key: &str, print: Sum) -> Result<Turn, Problem> {
    let now_ms = house.engine.clock.now_ms();
    let slot = slot(user, key);
    let mut shelf = house.remembered.shelf();
    shelf.tidy(now_ms);
    if let Some(kept) = shelf.kept.get(&slot) {
        if kept.print != print {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "key-reused",
                "The Idempotency-Key was used for another request",
                "the same Idempotency-Key came with another request within ten minutes: use a new one for each request",
            ));
        }
        let Some((status, headers, body)) = &kept.answer else {
            return Err(Problem::new(
                StatusCode::CONFLICT,
                "in-use",
                "A request with this Idempotency-Key is under way",
                "the same request is being answered: wait for it, or send it again in a moment",
            )
            .retry_after(Duration::from_secs(1)));
        };
        let mut response = Response::new(Body::from(body.clone()));
        *response.status_mut() = *status;
        *response.headers_mut() = headers.clone();
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        return Ok(Turn::Again(response));
    }
    let (count, bytes) = shelf.of(user);
    if count >= MOST_OF_ONE || bytes >= MOST_BYTES_OF_ONE {
        return Err(Problem::too_many(
            format!(
                "the answers to requests with an Idempotency-Key of this user within ten minutes are {count}, of {bytes} bytes: \
                 {MOST_OF_ONE} are kept, and {MOST_BYTES_OF_ONE} bytes; send fewer with one"
            ),
            Duration::from_secs(60),
        ));
    }
    if shelf.kept.len() >= MOST {
        let detail = format!("{MOST} requests with an Idempotency-Key are under way: send it again in a moment");
        return Err(Problem::unavailable(detail, Duration::from_secs(1)));
    }
    shelf.put(slot, print, user, now_ms);
    Ok(Turn::First(Asked { house: house.clone(), slot, is_open: true }))
}

impl Asked {
    /// Keeps the answer, unless it only says that now is not the time, or that not all of the request arrived.
    pub(super) async fn keep(mut self, answer: super::Answer) -> Response<Body> {
        let broke_off = answer.as_ref().is_err_and(body::is_broken_off);
        let response = answer.unwrap_or_else(IntoResponse::into_response);
        let (head, body) = response.into_parts();
        let passes = broke_off || head.status.is_server_error() || matches!(head.status.as_u16(), 401 | 408 | 429);
        let Ok(body) = axum::body::to_bytes(body, LONGEST_ANSWER).await else {
            return Problem::internal("the answer is too long to be kept: send less with an Idempotency-Key")
                .into_response();
        };
        if !passes {
            let mut shelf = self.house.remembered.shelf();
            let more = body.len();
            if let Some(kept) = shelf.kept.get_mut(&self.slot) {
                kept.answer = Some((head.status, head.headers.clone(), body.clone()));
                shelf.bytes += more;
            }
            drop(shelf);
            self.is_open = false;
        }
        Response::from_parts(head, Body::from(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_and_visible() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", HeaderValue::from_bytes(text.as_bytes()).unwrap());
            key(&headers).map(|key| key.map(str::to_owned)).map_err(|problem| problem.status().as_u16())
        };
        assert_eq!(
            read("8e03978e-40d5-43dd-bc93-6894a57f9324"),
            Ok(Some("8e03978e-40d5-43dd-bc93-6894a57f9324".into()))
        );
        for wrong in ["", "a b", "é", &"x".repeat(129)] {
            assert_eq!(read(wrong), Err(400), "{wrong}");
        }
        assert_eq!(key(&HeaderMap::new()).unwrap(), None);
        assert_ne!(request_id("a", "bc"), request_id("ab", "c"));
        assert_eq!(request_id("a", "b").len(), 32);
    }

    #[test]
    fn old_ones_go_and_the_oldest_when_there_are_too_many() {
        let mut shelf = Shelf::default();
        let slot = |number: u64| print(&[&number.to_le_bytes()]);
        let put = |shelf: &mut Shelf, number: u64, at_ms| {
            shelf.put(slot(number), [0; 32], "shop", at_ms);
            let kept = shelf.kept.get_mut(&slot(number)).unwrap();
            kept.answer = Some((StatusCode::OK, HeaderMap::new(), Bytes::new()));
        };
        for number in 0..20 {
            put(&mut shelf, number, number);
        }
        shelf.tidy(KEPT_MS + 9);
        assert_eq!((shelf.kept.len(), shelf.order.len(), shelf.bytes), (10, 10, 10 * 512));
        assert_eq!((shelf.of("shop"), shelf.of("bank")), ((10, 10 * 512), (0, 0)));
        // One that is under way is not forgotten, however old it is.
        shelf.kept.get_mut(&slot(10)).unwrap().answer = None;
        for number in 20..20 + MOST as u64 {
            put(&mut shelf, number, 20);
        }
        shelf.tidy(21);
        assert_eq!(shelf.kept.len(), MOST - 1);
        assert_eq!(shelf.bytes, shelf.kept.len() * 512);
        assert!(shelf.kept.contains_key(&slot(10)) && !shelf.kept.contains_key(&slot(11)));
        // Keys that came to nothing leave nothing.
        (0..20 + MOST as u64).for_each(|number| shelf.drop_one(&slot(number)));
        assert_eq!((shelf.kept.len(), shelf.order.len(), shelf.bytes), (0, 0, 0));
    }
}
