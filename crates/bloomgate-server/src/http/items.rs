//! One key: is it there, add it, take it out.

use axum::http::StatusCode;
use bloomgate_http::{Problem, base64};
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::visit::Visit;
use super::{Answer, answers};

/// A key as JSON: a text, or base64 where it is none.
fn shown(key: &[u8]) -> (&'static str, Value) {
    match std::str::from_utf8(key) {
        Ok(text) => ("key", text.into()),
        Err(_) => ("key_base64", base64::encode(key).into()),
    }
}

/// Gives a command about one key; the one answer in its reply.
async fn one<'v>(visit: &'v mut Visit, before: &[&[u8]]) -> Result<(Vec<u8>, Reply<'v>), Problem> {
    let (name, key) = (visit.name(), visit.parts.get(1).cloned().unwrap_or_default());
    let mut words: Vec<&[u8]> = vec![before[0], &name];
    words.extend_from_slice(&before[1..]);
    words.push(&key);
    let answer = match visit.talk.say(&words).await? {
        Reply::List(mut list) if list.len() == 1 => list.remove(0),
        other => other,
    };
    match answer {
        Reply::Error(line) => Err(reply::problem(line)),
        other => Ok((key, other)),
    }
}

/// `GET /v1/filters/{name}/keys/{key}`.
pub(super) async fn check(visit: &mut Visit) -> Answer {
    let (key, maybe) = one(visit, &[b"BG.EXISTS"]).await?;
    let (maybe, (field, key)) = (maybe.truth()?, shown(&key));
    let answer = if maybe { "maybe" } else { "no" };
    Ok(answers::json(StatusCode::OK, &json!({field: key, "answer": answer, "maybe": maybe})))
}

/// `PUT /v1/filters/{name}/keys/{key}`.
pub(super) async fn add(visit: &mut Visit) -> Answer {
    let (key, new) = one(visit, &[b"BG.ADD"]).await?;
    let (new, (field, key)) = (new.truth()?, shown(&key));
    Ok(answers::json(StatusCode::OK, &json!({field: key, "new": new})))
}

/// `DELETE /v1/filters/{name}/keys/{key}`.
pub(super) async fn remove(visit: &mut Visit) -> Answer {
    let request = visit.request_id();
    let before: Vec<&[u8]> = match &request {
        Some(request) => vec![b"BG.REMOVE", b"REQUEST", request.as_bytes(), b"ITEMS"],
        None => vec![b"BG.REMOVE", b"ITEMS"],
    };
    let (key, removed) = one(visit, &before).await?;
    let (removed, (field, key)) = (removed.truth()?, shown(&key));
    Ok(answers::json(StatusCode::OK, &json!({field: key, "removed": removed})))
}

/// `GET /v1/filters/{name}/keys/{key}/count`.
pub(super) async fn count(visit: &mut Visit) -> Answer {
    let (key, count) = one(visit, &[b"BG.COUNT"]).await?;
    let (count, (field, key)) = (count.to_json(), shown(&key));
    Ok(answers::json(StatusCode::OK, &json!({field: key, "count": count})))
}
