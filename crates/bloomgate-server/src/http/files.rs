//! Filters as files: fetched whole or in part, by their content's address, as deltas; and brought.
//!
//! The tag of a file is its content address (the BLAKE3 of it), so who has a file asks with `If-None-Match` and is told 304, and
//! who has a part of one goes on with `Range` and `If-Range`: what was given out is kept for an hour as a base of deltas
//! (BG.DUMP), and given by its address from there, however the filter has changed since.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderName, IF_MATCH,
    IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use bloomgate::Address;
use bloomgate_command::{Refusal, Role};
use bloomgate_http::problem::Problem;

use super::filters::described;
use super::reply::{self, Reply};
use super::visit::Visit;
use super::{Answer, answers, figures};
use crate::engine::adding::NotDone;
use crate::engine::bases::MAX_FILE;
use crate::engine::structure::Existing;
use crate::session::call::Call;

/// The type of a filter's file.
pub(super) const FILTER: &str = "application/vnd.bloomgate.filter";
/// The type of a delta.
pub(super) const DELTA: &str = "application/vnd.bloomgate.delta";
/// The longest file that is brought: a filter of 16 MiB has up to a few hundredths more.
pub(super) const LONGEST_FILE: usize = (MAX_FILE as usize) + (1 << 20);
/// The address of a body, for whoever wants it checked.
const CONTENT_ADDRESS: HeaderName = HeaderName::from_static("content-address");

fn address(text: &str) -> Option<Address> {
    text.parse().ok()
}

/// The addresses that a header names: `"A", W/"B"`, or `*`.
fn tags(headers: &HeaderMap, name: HeaderName) -> Option<Vec<String>> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.split(',').map(|tag| tag.trim().trim_start_matches("W/").trim_matches('"').to_owned()).collect())
}

fn precondition_failed(detail: impl Into<String>) -> Problem {
    let title = "It is not the one you think it is";
    Problem::new(StatusCode::PRECONDITION_FAILED, "precondition-failed", title, detail)
}

/// A file that was given out, if it is kept and of this filter.
fn kept(call: &mut Call<'_, '_, '_>, name: &[u8], address: Address) -> Result<Option<Arc<[u8]>>, Refusal> {
    let full = full_name(call, name)?;
    let engine = call.engine();
    engine.bases.forget_old(&engine);
    Ok(engine.bases.find(address, |kept| kept == full))
}

fn full_name(call: &Call<'_, '_, '_>, name: &[u8]) -> Result<Vec<u8>, Refusal> {
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
    // Who goes on with a part of a file wants that file.
    let wanted =
        visit.head.headers.get(IF_RANGE).and_then(|tag| tag.to_str().ok()).map(|tag| tag.trim().trim_matches('"'));
    if let Some(wanted) = wanted.and_then(address)
        && let Some(file) = visit.talk.view(Role::Read, |call| kept(call, &name, wanted))?
    {
        return given(visit, &name, wanted, Bytes::from_owner(file), true);
    }
    let digest = match visit.talk.say(&[b"BG.DIGEST", &name]).await? {
        Reply::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        _ => return Err(Problem::internal("the address was not told")),
    };
    if tags(&visit.head.headers, IF_NONE_MATCH).is_some_and(|tags| tags.iter().any(|tag| *tag == digest || tag == "*"))
    {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        tag(response.headers_mut(), &digest);
        return Ok(response);
    }
    if let Some(tags) = tags(&visit.head.headers, IF_MATCH)
        && !tags.iter().any(|tag| *tag == digest || tag == "*")
    {
        return Err(precondition_failed(format!("the filter's file is now {digest}: fetch it without If-Match")));
    }
    let (address, file) = match visit.talk.say(&[b"BG.DUMP", &name]).await? {
        Reply::List(list) => match &list[..] {
            [Reply::Bytes(text), Reply::Bytes(file)] => {
                (address(&String::from_utf8_lossy(text)), Bytes::copy_from_slice(file))
            }
            _ => (None, Bytes::new()),
        },
        _ => (None, Bytes::new()),
    };
    let address = address.ok_or_else(|| Problem::internal("the file was not told"))?;
    // Another one than the client has a part of: all of it.
    let is_same = wanted.is_none();
    given(visit, &name, address, file, is_same)
}

/// `GET /v1/filters/{name}/snapshot/{address}`.
pub(super) async fn by_address(visit: &mut Visit) -> Answer {
    let name = visit.name();
    let text = visit.parts.get(1).cloned().unwrap_or_default();
    let wanted = std::str::from_utf8(&text).ok().and_then(address).ok_or_else(|| {
        Problem::bad_request("the address of a file is 64 hexadecimal digits, as the header ETag of a snapshot has it")
    })?;
    let file = visit.talk.view(Role::Read, |call| kept(call, &name, wanted))?.ok_or_else(|| {
        Problem::not_found("the file of this address is not kept here (any more): fetch the snapshot as it is now")
    })?;
    let mut response = given(visit, &name, wanted, Bytes::from_owner(file), true)?;
    let forever = HeaderValue::from_static("private, max-age=31536000, immutable");
    response.headers_mut().insert(CACHE_CONTROL, forever);
    Ok(response)
}

fn tag(headers: &mut HeaderMap, address: &str) {
    if let Ok(value) = HeaderValue::try_from(format!("\"{address}\"")) {
        headers.insert(ETAG, value);
    }
}

/// A file, or the part of it that is asked for.
fn given(visit: &Visit, name: &[u8], address: Address, file: Bytes, may_be_part: bool) -> Answer {
    let length = file.len();
    let asked = visit.head.headers.get(RANGE).filter(|_| may_be_part && visit.head.method == Method::GET);
    let range = match asked.and_then(|value| range(value.to_str().unwrap_or_default(), length)) {
        Some(Err(())) => {
            let detail = format!("the file has {length} bytes: ask for a range within them");
            let title = "There is no such range";
            return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "range-not-satisfiable", title, detail));
        }
        Some(Ok(range)) => Some(range),
        None => None,
    };
    let mut response = match &range {
        Some((first, last)) => answers::of(StatusCode::PARTIAL_CONTENT, FILTER, file.slice(*first..=*last)),
        None => answers::of(StatusCode::OK, FILTER, file),
    };
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

/// The one range that is asked for; nothing for what is not understood, which is as if nothing was asked.
fn range(text: &str, length: usize) -> Option<Result<(usize, usize), ()>> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| text.trim().parse::<usize>();
    let found = match (first.trim(), last.trim()) {
        ("", "") => return None,
        ("", last) => {
            let count = number(last).ok()?.min(length);
            (length - count, length.checked_sub(1)?)
        }
        (first, "") => (number(first).ok()?, length.checked_sub(1)?),
        (first, last) => {
            let (first, last) = (number(first).ok()?, number(last).ok()?);
            if last < first {
                return None;
            }
            (first, last.min(length.checked_sub(1)?))
        }
    };
    Some(if found.0 <= found.1 && found.0 < length { Ok(found) } else { Err(()) })
}

/// `PUT /v1/filters/{name}/snapshot`.
pub(super) async fn bring(visit: &mut Visit) -> Answer {
    match visit.content_type().as_deref() {
        Some(FILTER | "application/octet-stream") => {}
        other => return Err(super::visit::wrong_type(other, &[FILTER, "application/octet-stream"])),
    }
    let name = visit.name();
    if name.is_empty() {
        return Err(Problem::bad_request("the name is empty: give one of 1 to 4096 bytes"));
    }
    let headers = &visit.head.headers;
    let said =
        headers.get(CONTENT_ADDRESS).map(|value| value.to_str().unwrap_or_default().trim_matches('"').to_owned());
    let if_match = tags(headers, IF_MATCH);
    let only_new = tags(headers, IF_NONE_MATCH).is_some_and(|tags| tags.iter().any(|tag| tag == "*"));
    let file = visit.read(LONGEST_FILE).await?;
    let is = Address::of(&file).to_string();
    if let Some(said) = said.filter(|said| !said.eq_ignore_ascii_case(&is)) {
        let said: String = said.chars().take(80).collect();
        return Err(precondition_failed(format!(
            "the body's address is {is}, and Content-Address says {said}: send it again"
        )));
    }
    if let Some(tags) = if_match {
        let now = match visit.talk.hear(&[b"BG.DIGEST", &name]).await? {
            Reply::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
            _ => "none".to_owned(),
        };
        if !tags.iter().any(|tag| *tag == now || tag == "*" && now != "none") {
            return Err(precondition_failed(format!(
                "the filter's file is now {now}: look at it before you replace it"
            )));
        }
    }
    let may_replace = visit.talk.user().is_some_and(|user| user.roles.contains(Role::Delete)) && !only_new;
    // As long as it takes to read 16 MiB: other requests go to other threads meanwhile.
    let talk = &mut visit.talk;
    let loaded = tokio::task::block_in_place(|| {
        talk.view(Role::Write, |call| {
            let full = full_name(call, &name)?;
            let was_there = call.find(&full).is_some();
            if was_there && !may_replace {
                return Ok(Err(was_there));
            }
            let existing = if was_there { Existing::Replace } else { Existing::Refuse };
            loop {
                match crate::session::bg::load(call, &full, &file, existing) {
                    Ok(_) => return Ok(Ok(was_there)),
                    Err(NotDone::Busy) => crate::sync::rest(),
                    Err(NotDone::Refused(refusal)) => return Err(refusal),
                }
            }
        })
    })?;
    let status = match loaded {
        Err(_) if only_new => {
            return Err(precondition_failed("there is a filter of this name, and If-None-Match says *"));
        }
        Err(_) => {
            return Err(Problem::forbidden(
                "there is a filter of this name, and to replace it needs the role delete: bring it under another name",
            ));
        }
        Ok(true) => StatusCode::OK,
        Ok(false) => StatusCode::CREATED,
    };
    let mut response = answers::json(status, &described(visit, &name).await?);
    tag(response.headers_mut(), &is);
    Ok(response)
}

/// `GET /v1/filters/{name}/delta`.
pub(super) async fn delta(visit: &mut Visit) -> Answer {
    let name = visit.name();
    let since = visit.query.text("since")?.and_then(address).ok_or_else(|| {
        Problem::bad_request(
            "'since' in the query is the address of a file, 64 hexadecimal digits, as ETag of a snapshot has it",
        )
    })?;
    let delta = match visit.talk.hear(&[b"BG.DELTA", &name, since.to_string().as_bytes()]).await? {
        Reply::Bytes(delta) => Bytes::copy_from_slice(delta),
        Reply::Error(line) if line.contains("is not kept here") => {
            return Err(Problem::not_found(
                "the file of this address is not kept here (any more): fetch the whole snapshot, and deltas from that",
            ));
        }
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
            ("bytes=0-9", Some(Ok((0, 9)))),
            ("bytes=90-", Some(Ok((90, 99)))),
            ("bytes=90-1000", Some(Ok((90, 99)))),
            ("bytes=-10", Some(Ok((90, 99)))),
            ("bytes=-1000", Some(Ok((0, 99)))),
            ("bytes=100-", Some(Err(()))),
            ("bytes=100-200", Some(Err(()))),
            ("bytes=-0", Some(Err(()))),
            ("bytes=9-0", None),
            ("bytes=0-1,5-6", None),
            ("bytes=a-b", None),
            ("items=0-9", None),
            ("bytes=-", None),
            ("", None),
        ] {
            assert_eq!(range(text, 100), wanted, "{text}");
        }
        assert_eq!(range("bytes=0-", 0), None);
    }
}
