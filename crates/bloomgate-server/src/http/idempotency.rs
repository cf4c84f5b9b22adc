//! `Idempotency-Key`: a write that is sent again because its answer got lost is not done again.
//!
//! The answer of the first one is kept for ten minutes ([`shelf`](super::shelf)) and given once more, marked
//! `Idempotency-Replayed`; the same key with another request is a mistake and refused. Kept in memory, so a restart forgets it; what
//! must not happen twice even then, taking a key out, carries the key on as the request id of BG.REMOVE, which is in the log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_command::{Role, Roles};
use bloomgate_http::body;
use bloomgate_http::problem::Problem;

use super::headers::IDEMPOTENCY_KEY;
use super::serving::House;
use super::shelf::{Shelf, Sum, Told};
use crate::access::User;
use crate::engine::holders::Holder;

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Bytes that the answers of all users have at most, or `client-memory` where that is less: half of it, which is what one user
/// alone may have, is 100,000 short answers.
const MOST_BYTES: u64 = 128 << 20;
/// The longest key.
const LONGEST_KEY: usize = 128;
/// The longest body of a request with a key: its answer is kept.
pub(super) const LONGEST_BODY: usize = 1 << 20;
/// The longest answer that is kept.
const LONGEST_ANSWER: usize = 8 << 20;
/// The longest that somebody is told to wait for room: others let go of theirs meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The answers that are kept.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Shelf>);

/// Who comes with a key, and which.
pub(super) struct Asking<'a> {
    pub user: &'a User,
    /// The namespace that the user is bound to: bound to another, the same names are of other filters.
    pub namespace: Option<&'a str>,
    /// Whose share its answer is of.
    pub holder: Holder,
    pub key: &'a str,
}

impl Asking<'_> {
    /// Where its answer is kept. A user who is made anew has none of those of the one before.
    fn slot(&self) -> Sum {
        let User { name, making, .. } = self.user;
        let namespace = self.namespace.unwrap_or_default();
        print(&[b"slot", name.as_bytes(), &making.to_le_bytes(), namespace.as_bytes(), self.key.as_bytes()])
    }
}

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

/// A key of a user as the request id of a command: the user and the key in 32 hexadecimal digits. The same after a restart.
pub(super) fn request_id(user: &str, key: &str) -> String {
    let sum = print(&[b"slot", user.as_bytes(), key.as_bytes()]);
    sum[..16].iter().map(|byte| format!("{byte:02x}")).collect()
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

    /// Lets go of what is old.
    pub(super) fn forget_old(&self, now_ms: u64) {
        self.shelf().tidy(now_ms);
    }
}

fn most_bytes(house: &House) -> u64 {
    house.desk.rules.client_memory().min(MOST_BYTES)
}

/// 409: the key cannot be answered, and what it stands for is not done again.
fn conflict(name: &'static str, title: &'static str, detail: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, name, title, detail)
}

/// The answer to a request that was carried out and whose answer was not kept.
fn not_kept() -> Problem {
    conflict(
        "answer-not-kept",
        "It was done, and the answer was not kept",
        "a request with this Idempotency-Key was carried out, and its answer was too long to be kept: it is not done again; look \
         what is there now, and send less with a key",
    )
}

/// Looks whether a request was answered already.
pub(super) fn begin(house: &Arc<House>, asking: &Asking<'_>, print: Sum) -> Result<Turn, Problem> {
    let now_ms = house.engine.clock.now_ms();
    let (slot, most) = (asking.slot(), most_bytes(house));
    let mut shelf = house.remembered.shelf();
    if let Some(kept) = shelf.find(&slot, now_ms) {
        if kept.print != print {
            return Err(Problem::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "key-reused",
                "The Idempotency-Key was used for another request",
                "the same Idempotency-Key came with another request within ten minutes: use a new one for each request",
            ));
        }
        let Some(answer) = &kept.answer else {
            let detail = "the same request is being answered: wait for it, or send it again in a moment";
            let problem = conflict("in-use", "A request with this Idempotency-Key is under way", detail);
            return Err(problem.retry_after(Duration::from_secs(1)));
        };
        let missing: Vec<&str> =
            answer.needs.iter().filter(|&role| !asking.user.roles.contains(role)).map(Role::name).collect();
        if !missing.is_empty() {
            return Err(Problem::forbidden(format!(
                "a request with this Idempotency-Key was carried out when the user had the role {}, which it has not any more: \
                 its answer is not given again",
                missing.join(" and ")
            )));
        }
        let told = answer.told.clone();
        drop(shelf);
        let mut response = match told {
            Some(told) => told.response().ok_or_else(|| Problem::internal("a kept answer cannot be read"))?,
            None => not_kept().into_response(),
        };
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        return Ok(Turn::Again(response));
    }
    if !shelf.put(slot, print, &asking.holder, most) {
        let (held, free) = shelf.share(&asking.holder, most);
        let whose = match asking.holder {
            Holder::Namespace(_) => "this namespace",
            Holder::User(_) => "this user",
        };
        let detail = format!(
            "the answers to requests with an Idempotency-Key of {whose} take {held} bytes, and all of them leave {free} of {most} \
             free: nobody may have more than that, and they are kept for ten minutes; send fewer with a key, or come again"
        );
        return Err(Problem::too_many(detail, shelf.room_in(now_ms).min(LONGEST_WAIT)));
    }
    Ok(Turn::First(Asked { house: house.clone(), slot, is_open: true }))
}

impl Asked {
    /// Keeps the answer and what the user needed for it, unless it only says that now is not the time, or that not all of the
    /// request arrived.
    pub(super) async fn keep(mut self, answer: super::Answer, needs: Roles) -> Response<Body> {
        let broke_off = answer.as_ref().is_err_and(body::is_broken_off);
        let response = answer.unwrap_or_else(IntoResponse::into_response);
        if broke_off || response.status().is_server_error() || matches!(response.status().as_u16(), 401 | 408 | 429) {
            return response;
        }
        let (head, body) = response.into_parts();
        let (told, response) = match axum::body::to_bytes(body, LONGEST_ANSWER).await {
            Ok(body) => {
                (Some(Told::of(head.status, &head.headers, &body)), Response::from_parts(head, Body::from(body)))
            }
            Err(_) => (None, not_kept().into_response()),
        };
        let now_ms = self.house.engine.clock.now_ms();
        let most = most_bytes(&self.house);
        self.house.remembered.shelf().keep(&self.slot, told, needs, now_ms, most);
        self.is_open = false;
        response
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
}
