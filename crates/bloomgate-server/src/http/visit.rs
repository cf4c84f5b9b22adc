//! One request: which route it is, whether it was meant for us, who asks, and then the handler.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::access::Hosts;
use bloomgate_http::body;
use bloomgate_http::problem::Problem;
use bloomgate_http::{base64, health, pages};

use super::query::Query;
use super::routes::{ROUTES, Route, Who};
use super::serving::House;
use super::talk::Talk;
use super::{Answer, idempotency, path, reply};
use crate::access::MAX_PASSWORD;
use crate::access::directory::{denied, first_user};
use crate::session::config::setting;

/// The longest body of JSON.
pub(super) const LONGEST_JSON: usize = 8 << 20;
/// How long a body may take to arrive.
pub(super) const BODY_TIME: Duration = Duration::from_secs(60);
/// A body that nobody wanted is read up to here and thrown away: some clients show no answer that comes before they are done.
const UNWANTED: usize = 64 << 10;
const UNWANTED_TIME: Duration = Duration::from_secs(5);

/// A request on its way to a handler.
pub(super) struct Visit {
    pub house: Arc<House>,
    pub talk: Talk,
    pub head: Parts,
    pub body: Body,
    pub route: &'static Route,
    /// The parts of the path that stand for names, decoded.
    pub parts: Vec<Vec<u8>>,
    pub query: Query,
}

impl Visit {
    /// The name of the filter that it is about.
    pub(super) fn name(&self) -> Vec<u8> {
        self.parts.first().cloned().unwrap_or_default()
    }

    /// The conversation, for something that goes on after the answer has begun; what is left is one of nobody in particular.
    pub(super) fn take_talk(&mut self) -> Talk {
        let from = SocketAddr::from(([127, 0, 0, 1], 0));
        std::mem::replace(&mut self.talk, Talk::new(&self.house, from))
    }

    /// The name of the user.
    pub(super) fn user(&self) -> &str {
        self.talk.user().map_or("", |user| &user.name)
    }

    /// The request id of commands that must not be done twice, if the client gave a key for it.
    pub(super) fn request_id(&self) -> Option<String> {
        let key = idempotency::key(&self.head.headers).ok()??;
        Some(idempotency::request_id(self.user(), key))
    }

    /// The whole body, for handlers of JSON and other short ones.
    pub(super) async fn read(&mut self, most: usize) -> Result<Bytes, Problem> {
        body::read(&mut self.body, most, BODY_TIME).await
    }

    /// The type of the body, without its parameters; nothing if it does not say.
    pub(super) fn content_type(&self) -> Option<String> {
        let text = self.head.headers.get(CONTENT_TYPE)?.to_str().unwrap_or_default();
        Some(text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
    }

    /// A body of JSON.
    pub(super) async fn json(&mut self) -> Result<super::json::Object, Problem> {
        match self.content_type().as_deref() {
            Some("application/json") => {}
            other => return Err(wrong_type(other, &["application/json"])),
        }
        super::json::Object::read(&self.read(LONGEST_JSON).await?)
    }
}

/// 415: a body of another type.
pub(super) fn wrong_type(got: Option<&str>, allowed: &[&str]) -> Problem {
    let got: String = got.unwrap_or("nothing").chars().take(100).collect();
    Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported-media-type",
        "A body of this type is not understood",
        format!("the header Content-Type says {got:?}: send {}", allowed.join(" or ")),
    )
}

/// The answer to a request.
pub(super) async fn answer(house: Arc<House>, from: SocketAddr, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let head_only = head.method == Method::HEAD;
    let mut body = Some(body);
    let mut response = match route(&house, from, head, &mut body).await {
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    };
    if response.status() == StatusCode::UNAUTHORIZED {
        // Browsers ask for a login then; programs know from the type of the problem.
        let challenge = HeaderValue::from_static(r#"Basic realm="bloomgate", charset="UTF-8""#);
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response.headers_mut().insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    if let Some(mut rest) = body {
        body::discard(&mut rest, UNWANTED, UNWANTED_TIME).await;
    }
    if head_only {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn route(house: &Arc<House>, from: SocketAddr, head: Parts, body: &mut Option<Body>) -> Answer {
    let (route, parts) = match find(&head) {
        Ok(found) => found,
        Err(problem) => return page(&head).ok_or(problem),
    };
    if let Who::Anybody(tell) = route.who {
        Query::read(head.uri.query(), &[])?;
        return Ok(tell(house, &head));
    }
    let parts = parts.iter().map(|part| path::decoded(part)).collect::<Result<Vec<_>, _>>()?;
    let known: Vec<&str> = route.query.iter().map(|query| query.name).collect();
    let query = Query::read(head.uri.query(), &known)?;
    let talk = enter(house, &head, from).await?;
    // From here on the handler reads it, or lets it lie.
    let Some(rest) = body.take() else { return Err(Problem::internal("the body is gone")) };
    let mut visit = Visit { house: house.clone(), talk, head, body: rest, route, parts, query };
    let answer = once(&mut visit).await;
    *body = Some(visit.body);
    answer
}

/// Runs a handler; a write with a key that was answered already is answered alike.
async fn once(visit: &mut Visit) -> Answer {
    let writes = !matches!(visit.head.method, Method::GET | Method::HEAD);
    let Some(key) = idempotency::key(&visit.head.headers)?.filter(|_| writes).map(str::to_owned) else {
        return run(visit).await;
    };
    let read = visit.read(visit.route.longest.unwrap_or(idempotency::LONGEST_BODY)).await?;
    let head = &visit.head;
    let header = |name| head.headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    let print = idempotency::print(&[
        head.method.as_str().as_bytes(),
        head.uri.path().as_bytes(),
        head.uri.query().unwrap_or_default().as_bytes(),
        header(CONTENT_TYPE),
        header(ACCEPT),
        &read,
    ]);
    visit.body = Body::from(read);
    match idempotency::begin(&visit.house, visit.user(), &key, print)? {
        idempotency::Turn::Again(response) => Ok(response),
        idempotency::Turn::First(asked) => {
            let answer = run(visit).await;
            Ok(asked.keep(answer).await)
        }
    }
}

/// Runs a handler. Here for all of them: nothing is said before it is as durable as the policy wants.
async fn run(visit: &mut Visit) -> Answer {
    let response = (visit.route.run)(visit).await?;
    visit.talk.settle().await?;
    Ok(response)
}

/// The route of a request, with the parts of its path that stand for names.
fn find(head: &Parts) -> Result<(&'static Route, Vec<&str>), Problem> {
    let whole = head.uri.path();
    let is =
        |route: &Route| head.method == *route.method || head.method == Method::HEAD && *route.method == Method::GET;
    let mut allowed = Vec::new();
    for route in ROUTES {
        if let Some(parts) = path::matched(route.path, whole) {
            if is(route) {
                return Ok((route, parts));
            }
            allowed.push(route.method.clone());
        }
    }
    match allowed.is_empty() {
        true => Err(Problem::not_found(
            "there is nothing under this path: GET /openapi.json has all paths, and / is for people",
        )),
        false => Err(Problem::method_not_allowed(&head.method, &allowed)),
    }
}

/// Everything that is for people: what is under no path of the table is asked of the pages.
fn page(head: &Parts) -> Option<Response<Body>> {
    if !matches!(head.method, Method::GET | Method::HEAD) || head.uri.path().starts_with("/v1/") {
        return None;
    }
    pages::answer(head.uri.path(), &head.headers)
}

/// Whether the request was meant for us, and who asks: a conversation as that user.
async fn enter(house: &Arc<House>, head: &Parts, from: SocketAddr) -> Result<Talk, Problem> {
    let access = &house.desk.access;
    Hosts::check_same_site(&head.headers, &head.uri)?;
    let mut talk = Talk::new(house, from);
    match head.headers.get(AUTHORIZATION) {
        Some(login) => {
            let (user, password) = login_of(login.as_bytes()).ok_or_else(|| {
                Problem::unauthorized(
                    "the header Authorization is not understood: send `Basic` and the base64 of USER:PASSWORD, or `Bearer \
                     USER:PASSWORD`",
                )
            })?;
            let words = [Some(&b"AUTH"[..]), user.as_deref(), Some(&password[..])];
            let words: Vec<&[u8]> = words.into_iter().flatten().collect();
            match talk.hear(&words).await? {
                reply::Reply::Bytes(b"OK") => {}
                reply::Reply::Error(line) => return Err(Problem::unauthorized(line.to_owned())),
                _ => return Err(Problem::unauthorized("the login was not answered")),
            }
        }
        None => {
            if access.denies(from.ip()) {
                let port =
                    |name| setting(&house.desk, name).and_then(|port| port.parse().ok()).filter(|&port: &u16| port > 0);
                return Err(reply::problem(&denied(&first_user(port("port"), port("tls-port")))));
            }
            if talk.user().is_none() {
                return Err(Problem::unauthorized(
                    "this needs a login: send the header `Authorization: Basic` with the base64 of USER:PASSWORD (curl: -u \
                     USER:PASSWORD)",
                ));
            }
            // Without a login, what tells programs of this machine from web pages that reach for it is the name alone.
            house.hosts.check(&head.headers, &head.uri)?;
        }
    }
    Ok(talk)
}

/// User and password of a login; without a user it is `default`.
fn login_of(value: &[u8]) -> Option<(Option<Vec<u8>>, Vec<u8>)> {
    let text = std::str::from_utf8(value).ok()?;
    let (scheme, given) = text.split_once(' ')?;
    let given = given.trim();
    let pair = if scheme.eq_ignore_ascii_case("basic") {
        base64::decode(given)?
    } else if scheme.eq_ignore_ascii_case("bearer") {
        given.as_bytes().to_vec()
    } else {
        return None;
    };
    if pair.len() > MAX_PASSWORD + 256 {
        return None;
    }
    match memchr::memchr(b':', &pair) {
        Some(end) if end > 0 => Some((Some(pair[..end].to_vec()), pair[end + 1..].to_vec())),
        Some(_) => Some((None, pair[1..].to_vec())),
        None => Some((None, pair)),
    }
}

/// `/healthz`.
pub(super) fn healthz(_: &Arc<House>, _: &Parts) -> Response<Body> {
    super::answers::of(StatusCode::OK, "text/plain; charset=utf-8", "ok\n")
}

/// `/readyz`.
pub(super) fn readyz(house: &Arc<House>, _: &Parts) -> Response<Body> {
    let house = house.clone();
    health::readyz(&move || house.readiness())
}

/// `/openapi.json`.
pub(super) fn openapi(_: &Arc<House>, _: &Parts) -> Response<Body> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| super::openapi::text().into());
    super::answers::of(StatusCode::OK, "application/json", TEXT.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_read_in_both_forms() {
        let read = |text: &str| {
            login_of(text.as_bytes()).map(|(user, password)| {
                (user.map(|user| String::from_utf8(user).unwrap()), String::from_utf8(password).unwrap())
            })
        };
        let shop = Some((Some("shop".to_owned()), "a:b".to_owned()));
        assert_eq!(read(&format!("Basic {}", base64::encode(b"shop:a:b"))), shop);
        assert_eq!(read("bearer  shop:a:b"), shop);
        assert_eq!(read("Bearer secret"), Some((None, "secret".to_owned())));
        assert_eq!(read(&format!("BASIC {}", base64::encode(b":secret"))), Some((None, "secret".to_owned())));
        for wrong in ["", "Basic", "Basic ???", "Digest x", "secret"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
