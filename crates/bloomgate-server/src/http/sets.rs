//! Filters from filters: merged, intersected, copied, exchanged, folded; and their counters.

use axum::http::StatusCode;
use bloomgate_command::Role;
use bloomgate_http::problem::Problem;
use serde_json::Value;

use super::filters::{is_there, written};
use super::reply::Reply;
use super::visit::Visit;
use super::{Answer, answers, reply};

/// Gives a command and tells of a filter afterwards.
async fn then_tell(visit: &mut Visit, words: &[&[u8]], name: &[u8]) -> Answer {
    visit.talk.say(words).await?;
    Ok(answers::json(StatusCode::OK, &written(visit, name).await?))
}

/// `POST /v1/filters/{name}/merge`.
pub(super) async fn merge(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let sources = body.texts("sources")?.unwrap_or_default();
    body.end()?;
    if sources.is_empty() {
        return Err(Problem::bad_request("'sources' names no filter: give a list of at least one"));
    }
    let name = visit.name();
    let mut words: Vec<&[u8]> = vec![b"BG.MERGE", &name];
    words.extend(sources.iter().map(|source| source.as_bytes()));
    then_tell(visit, &words, &name).await
}

/// `POST /v1/filters/{name}/intersect`.
pub(super) async fn intersect(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let (left, right) = (body.needed_text("left")?, body.needed_text("right")?);
    body.end()?;
    let name = visit.name();
    then_tell(visit, &[b"BG.INTERSECT", &name, left.as_bytes(), right.as_bytes()], &name).await
}

/// `POST /v1/filters/{name}/copy`.
pub(super) async fn copy(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let to = body.needed_text("to")?;
    let replace = body.truth("replace")?.unwrap_or(false);
    body.end()?;
    let name = visit.name();
    let mut words: Vec<&[u8]> = vec![b"BG.COPY", &name, to.as_bytes()];
    if replace {
        words.push(b"REPLACE");
    }
    if visit.talk.say(&words).await? == Reply::Int(0) {
        // Neither says which of the two it is.
        return Err(match is_there(visit, Role::Write, &name)? {
            false => reply::problem("ERR not found"),
            true => reply::exists("there is a filter of that name already: choose another, or give replace"),
        });
    }
    Ok(answers::json(StatusCode::OK, &written(visit, to.as_bytes()).await?))
}

/// `POST /v1/filters/{name}/swap`.
pub(super) async fn swap(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let with = body.needed_text("with")?;
    body.end()?;
    let name = visit.name();
    then_tell(visit, &[b"BG.SWAP", &name, with.as_bytes()], &name).await
}

/// `POST /v1/filters/{name}/fold`.
pub(super) async fn fold(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let (factor, rate) = (body.whole("factor")?, body.number("rate")?);
    body.end()?;
    let name = visit.name();
    let value = match (factor, rate) {
        (Some(factor), None) => vec![factor.to_string()],
        (None, Some(rate)) => vec!["RATE".to_owned(), rate.to_string()],
        _ => return Err(Problem::bad_request("give 'factor' or 'rate', and not both")),
    };
    let mut words: Vec<&[u8]> = vec![b"BG.FOLD", &name];
    words.extend(value.iter().map(|word| word.as_bytes()));
    then_tell(visit, &words, &name).await
}

/// `GET /v1/filters/{name}/audit`.
pub(super) async fn audit(visit: &mut Visit) -> Answer {
    counters(visit, &[]).await
}

/// `POST /v1/filters/{name}/audit/reset`.
pub(super) async fn reset(visit: &mut Visit) -> Answer {
    counters(visit, &[b"RESET"]).await
}

async fn counters(visit: &mut Visit, more: &[&[u8]]) -> Answer {
    let name = visit.name();
    let words: Vec<&[u8]> = [&[b"BG.AUDIT", &name[..]], more].concat();
    let told: Value = visit.talk.say(&words).await?.to_json();
    Ok(answers::json(StatusCode::OK, &told))
}
