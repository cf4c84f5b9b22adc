//! Filters as files: fetched whole or in part, by their content's address, and as deltas.
//!
//! The tag of a file is its content address (the BLAKE3 of it), so who has a file asks with `If-None-Match` and is told 304, and
//! who has a part of one goes on with `Range` and `If-Range`: what was given out is kept for an hour, up to 16 MiB as a base of
//! deltas (BG.DUMP) and beyond on the disk ([`fetching`](super::fetching)), and given by its address from there, however the
//! filter has changed since.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, ETAG};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate::Address;
use bloomgate_command::{Refusal, Role};
use bloomgate_http::problem::Problem;

use super::fetching::{self, Fetched};
use super::headers::{Header, IF_MATCH, IF_RANGE, RANGE, UNLESS_SAME};
use super::reply::{self, Reply};
use super::serving::House;
use super::visit::Visit;
use super::{Answer, answers, figures};
use crate::session::call::Call;

/// The type of a filter's file.
pub(super) const FILTER: &str = "application/vnd.bloomgate.filter";
/// The type of a delta.
pub(super) const DELTA: &str = "application/vnd.bloomgate.delta";
fn address(text: &str) -> Option<Address> {
    text.parse().ok()
}

/// The addresses that a header names: `"A", W/"B"`, or `*`.
pub(super) fn tags(visit: &Visit, header: &Header) -> Option<Vec<String>> {
    let value = visit.header(header)?.to_str().ok()?;
    Some(value.split(',').map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned()).collect())
}

pub(super) fn precondition_failed(detail: impl Into<String>) -> Problem {
    let title = "It is not the one you think it is";
    Problem::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", title, detail)
}

/// A file that is given.
pub(super) enum File {
    Whole(Bytes),
    Long(Arc<Fetched>),
}

impl File {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes.len() as u64,
            Self::Long(file) => file.length(),
        }
    }

    /// All of it, in memory.
    pub(super) fn read(&self) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Whole(bytes) => Ok(bytes.to_vec()),
            Self::Long(file) => file.read(),
        }
    }

    /// From the first byte to the last, both included.
    fn part(&self, house: &Arc<House>, first: u64, last: u64) -> Body {
        match self {
            // Within what is in memory, so within `usize`.
            Self::Whole(bytes) => bytes.slice(first as usize..=last as usize).into(),
            Self::Long(file) => file.part(first, last, house.busy()),
        }
    }
}

/// A file that was given out, if it is kept and of this filter.
fn kept(visit: &mut Visit, name: &[u8], address: Address) -> Result<Option<File>, Problem> {
    let house = visit.house.clone();
    visit.talk.view(Role::Read, |call| {
        let full = full_name(call, name)?;
        let engine = call.engine();
        engine.bases.forget_old(&engine);
        if let Some(file) = engine.bases.find(address, |kept| kept == full) {
            return Ok(Some(File::Whole(Bytes::from_owner(file))));
        }
        Ok(house.fetches.of_address(engine.clock.now_ms(), &full, address).map(File::Long))
    })
}

pub(super) fn full_name(call: &Call<'_, '_, '_>, name: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut full = Vec::new();
    match call.space() {
        None => {
            crate::engine::shadows::check_name(name)?;
            full.extend_from_slice(name);
        }
        Some(space) => space.put_full(name, &mut full)?,
    }
    Ok(full)
}

/// `GET /v1/filters/{name}/snapshot`.
pub(super) async fn snapshot(visit: &mut Visit) -> Answer {
    let name = visit.name();
    // Who goes on with a part of a file wants that file. Without a range of it the header says nothing (RFC 9110, 13.1.5): an old
    // file as the answer to who wants all of it would be one that does not know the keys of since then.
    let asked = span(visit);
    let goes_on = visit.header(&IF_RANGE).is_some();
    let part_of = visit.header(&IF_RANGE).and_then(|tag| tag.to_str().ok());
    let wanted = part_of.and_then(|tag| address(tag.trim().trim_matches('"')));
    if asked.is_some()
        && let Some(wanted) = wanted
        && let Some(file) = kept(visit, &name, wanted)?
    {
        return match conditions(visit, &wanted.to_string())? {
            Some(answer) => Ok(answer),
            None => given(visit, &name, wanted, &file, asked),
        };
    }
    // Of another one than the client has a part of: all of it.
    let part = |now: Address| asked.filter(|_| !goes_on || wanted == Some(now));
    if let Some(entry) = fetching::long_one(visit, &name)? {
        let file = fetching::fetch(visit, &entry).await?;
        let now = file.address;
        return match conditions(visit, &now.to_string())? {
            Some(answer) => Ok(answer),
            None => given(visit, &name, now, &File::Long(file), part(now)),
        };
    }
    let digest = match visit.talk.say(&[b"BG.DIGEST", &name]).await? {
        Reply::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        _ => return Err(Problem::internal("the address was not told")),
    };
    if let Some(answer) = conditions(visit, &digest)? {
        return Ok(answer);
    }
    let (now, file) = match visit.talk.say(&[b"BG.DUMP", &name]).await? {
        Reply::List(list) => match &list[..] {
            [Reply::Bytes(text), Reply::Bytes(file)] => {
                (address(&String::from_utf8_lossy(text)), Bytes::copy_from_slice(file))
            }
            _ => (None, Bytes::new()),
        },
        _ => (None, Bytes::new()),
    };
    let now = now.ok_or_else(|| Problem::internal("the file was not told"))?;
    given(visit, &name, now, &File::Whole(file), part(now))
}

/// What If-None-Match and If-Match have to say about a file: an answer, a problem, or nothing.
fn conditions(visit: &Visit, now: &str) -> Result<Option<Response<Body>>, Problem> {
    let names_it = |tags: Vec<String>| tags.iter().any(|tag| *tag == now || tag == "*");
    if tags(visit, &UNLESS_SAME).is_some_and(names_it) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        tag(response.headers_mut(), now);
        return Ok(Some(response));
    }
    match tags(visit, &IF_MATCH).is_none_or(names_it) {
        true => Ok(None),
        false => Err(precondition_failed(format!("the filter's file is now {now}: fetch it without If-Match"))),
    }
}

/// `GET /v1/filters/{name}/snapshot/{address}`.
pub(super) async fn by_address(visit: &mut Visit) -> Answer {
    let name = visit.name();
    let text = visit.parts.get(1).cloned().unwrap_or_default();
    let wanted = std::str::from_utf8(&text).ok().and_then(address).ok_or_else(|| {
        Problem::bad_request("the address of a file is 64 hexadecimal digits, as the header ETag of a snapshot has it")
    })?;
    let file = kept(visit, &name, wanted)?.ok_or_else(|| {
        Problem::not_found("the file of this address is not kept here (any more): fetch the snapshot as it is now")
    })?;
    let mut response = given(visit, &name, wanted, &file, span(visit))?;
    if response.status().is_success() {
        let forever = HeaderValue::from_static("private, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
    }
    Ok(response)
}

pub(super) fn tag(headers: &mut HeaderMap, address: &str) {
    if let Ok(value) = HeaderValue::try_from(format!("\"{address}\"")) {
        headers.insert(ETAG, value);
    }
}

/// The part of a file that a request asks for; of one that asks for the head alone, and so of all (RFC 9110, 14.2), none.
fn span(visit: &Visit) -> Option<Span> {
    let asked = visit.header(&RANGE).filter(|_| visit.head.method == Method::GET)?;
    Span::read(asked.to_str().ok()?)
}

/// A file, or the part of it that is asked for.
fn given(visit: &Visit, name: &[u8], address: Address, file: &File, asked: Option<Span>) -> Answer {
    let length = file.length();
    let range = match asked {
        Some(asked) => match asked.within(length) {
            Some(range) => Some(range),
            None => return Ok(no_such_range(length)),
        },
        None => None,
    };
    let (first, last) = range.unwrap_or((0, length.saturating_sub(1)));
    let body = match visit.head.method == Method::HEAD {
        true => Body::empty(),
        false => file.part(&visit.house, first, last),
    };
    let status = if range.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let mut response = answers::of(status, FILTER, body);
    let headers = response.headers_mut();
    tag(headers, &address.to_string());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.map_or(length, |(first, last)| last - first + 1)));
    let shown: String = figures::shown(name)
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' })
        .take(100)
        .collect();
    if let Ok(value) = HeaderValue::try_from(format!("attachment; filename=\"{shown}.bloom\"")) {
        headers.insert(CONTENT_DISPOSITION, value);
    }
    if let Some((first, last)) = range
        && let Ok(value) = HeaderValue::try_from(format!("bytes {first}-{last}/{length}"))
    {
        headers.insert(CONTENT_RANGE, value);
    }
    Ok(response)
}

/// 416, with the length of which there are ranges.
fn no_such_range(length: u64) -> Response<Body> {
    let detail = format!("the file has {length} bytes: ask for a range within them");
    let title = "There is no such range";
    let problem = Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "range-not-satisfiable", title, detail);
    let mut response = problem.into_response();
    if let Ok(value) = HeaderValue::try_from(format!("bytes */{length}")) {
        response.headers_mut().insert(CONTENT_RANGE, value);
    }
    response
}

/// A range of bytes as it is asked for, of a file of any length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Span {
    /// From a byte on.
    From(u64),
    /// From a byte to another, both included.
    Within(u64, u64),
    /// So many at the end.
    Last(u64),
}

impl Span {
    /// The one range that is asked for; nothing for what is not understood, and for several, which is as if nothing was asked.
    fn read(text: &str) -> Option<Self> {
        let (unit, range) = text.split_once('=')?;
        let (first, last) = range.split_once('-')?;
        // More than can be counted is more than any file has.
        let number = |text: &str| {
            let is_one = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_one.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
        };
        let span = match (first.trim(), last.trim()) {
            ("", last) => Self::Last(number(last)?),
            (first, "") => Self::From(number(first)?),
            (first, last) => Self::Within(number(first)?, number(last)?),
        };
        let is_empty = matches!(span, Self::Within(first, last) if last < first);
        (unit.trim().eq_ignore_ascii_case("bytes") && !is_empty).then_some(span)
    }

    /// Its first and last byte in a file of this length; nothing if that has none of them.
    fn within(self, length: u64) -> Option<(u64, u64)> {
        let end = length.checked_sub(1)?;
        let (first, last) = match self {
            Self::From(first) => (first, end),
            Self::Within(first, last) => (first, last.min(end)),
            Self::Last(count) => (length - count.min(length), end),
        };
        (first <= last).then_some((first, last))
    }
}

fn gone() -> Problem {
    Problem::not_found(
        "the file of this address is not kept here (any more): fetch the whole snapshot, and deltas from that",
    )
}

/// `GET /v1/filters/{name}/delta`.
pub(super) async fn delta(visit: &mut Visit) -> Answer {
    let name = visit.name();
    let since = visit.query.address("since")?;
    if let Some(entry) = fetching::long_one(visit, &name)? {
        let old = kept(visit, &name, since)?.ok_or_else(gone)?;
        let new = fetching::fetch(visit, &entry).await?;
        let (leads_to, delta) = fetching::difference(&visit.house, old, new).await?;
        let mut response = answers::of(StatusCode::OK, DELTA, delta);
        tag(response.headers_mut(), &leads_to.to_string());
        return Ok(response);
    }
    let delta = match visit.talk.hear(&[b"BG.DELTA", &name, since.to_string().as_bytes()]).await? {
        Reply::Bytes(delta) => Bytes::copy_from_slice(delta),
        Reply::Error(line) if line.contains("is not kept here") => return Err(gone()),
        Reply::Error(line) => return Err(reply::problem(line)),
        _ => return Err(Problem::internal("the delta was not told")),
    };
    let leads_to = bloomgate::Delta::from_bytes(&delta).map(|delta| delta.result().to_string());
    let mut response = answers::of(StatusCode::OK, DELTA, delta);
    if let Ok(address) = leads_to {
        tag(response.headers_mut(), &address);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_is_understood_and_others_are_as_none() {
        for (text, wanted) in [
            ("bytes=0-9", Some(Some((0, 9)))),
            ("bytes=90-", Some(Some((90, 99)))),
            ("bytes=90-1000", Some(Some((90, 99)))),
            ("bytes=90-99999999999999999999999", Some(Some((90, 99)))),
            ("bytes=-10", Some(Some((90, 99)))),
            ("bytes=-1000", Some(Some((0, 99)))),
            ("Bytes= 0 - 9", Some(Some((0, 9)))),
            ("bytes=100-", Some(None)),
            ("bytes=100-200", Some(None)),
            ("bytes=99999999999999999999999-", Some(None)),
            ("bytes=-0", Some(None)),
            ("bytes=9-0", None),
            ("bytes=0-1,5-6", None),
            ("bytes=+1-9", None),
            ("bytes=a-b", None),
            ("items=0-9", None),
            ("bytes=-", None),
            ("", None),
        ] {
            assert_eq!(Span::read(text).map(|span| span.within(100)), wanted, "{text}");
        }
        assert_eq!(Span::From(0).within(0), None);
    }
}
