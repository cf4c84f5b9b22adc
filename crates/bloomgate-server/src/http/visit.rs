//! One request: which route it is, whether it was meant for us, who asks, and then the handler.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue,
    TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode};
use axum::response::IntoResponse;
use bloomgate_http::access::Hosts;
use bloomgate_http::body;
use bloomgate_http::problem::Problem;
use bloomgate_http::{base64, health, pages};

use super::headers::Header;
use super::idempotency::Asking;
use super::query::Query;
use super::routes::{ROUTES, Route, Shape, Who};
use super::serving::{Caller, House, LONGEST_BODY};
use super::talk::Talk;
use super::{Answer, bringing, idempotency, path, reply};
use crate::access::MAX_PASSWORD;
use crate::access::directory::{denied, first_user};
use crate::session::config::setting;

/// The longest body of JSON.
pub(super) const LONGEST_JSON: usize = 8 << 20;
/// How long a body may take to arrive.
pub(super) const BODY_TIME: Duration = Duration::from_secs(60);
/// A body that nobody wanted is read up to here and thrown away: some clients show no answer that comes before they are done.
const UNWANTED: usize = 64 << 10;
/// When to come again to a server that has no memory for more bodies.
const BUSY: Duration = Duration::from_secs(1);
/// When to come again to a server that stops.
const STOPPING: Duration = Duration::from_secs(5);
pub(super) const UNWANTED_TIME: Duration = Duration::from_secs(5);

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
    /// The body, where it was read already.
    whole: Option<Bytes>,
    /// Whether it was: then what stands in its place is a copy, and nothing of it is still to come.
    was_read: bool,
    /// What was read of the body, until it is answered.
    held: Held,
}

impl Visit {
    /// What is still to come of the body.
    fn rest(self) -> Body {
        if self.was_read { Body::empty() } else { self.body }
    }

    /// The name of the filter that it is about.
    pub(super) fn name(&self) -> Vec<u8> {
        self.parts.first().cloned().unwrap_or_default()
    }

    /// The conversation, for something that goes on after the answer has begun; what is left is one of nobody in particular.
    pub(super) fn take_talk(&mut self) -> Talk {
        std::mem::replace(&mut self.talk, Talk::new(&self.house, Caller::here()))
    }

    /// What a header of ours says, if the route reads it: one that its description does not name is as if it was not there.
    pub(super) fn header(&self, header: &Header) -> Option<&HeaderValue> {
        let is_read = self.route.reads.iter().any(|known| known.name == header.name);
        self.head.headers.get(header.name).filter(|_| is_read)
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

    /// The whole body, for handlers of JSON and other short ones. Together they hold `client-memory` at most until they are
    /// answered: a thousand connections could each hold one of 8 MiB else, and send its last byte never, or wait with it for
    /// their namespace's share.
    pub(super) async fn read(&mut self, most: usize) -> Result<Bytes, Problem> {
        if let Some(whole) = self.whole.take() {
            return Ok(whole);
        }
        let held = &mut self.held;
        body::read_counted(&mut self.body, most, BODY_TIME, |more| held.take(more as u64)).await
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

/// What a body holds.
struct Held {
    house: Arc<House>,
    bytes: u64,
}

impl Held {
    fn take(&mut self, more: u64) -> Result<(), Problem> {
        let most = self.house.desk.rules.client_memory();
        let held = self.house.held.fetch_add(more, Ordering::Relaxed) + more;
        self.bytes += more;
        if held > most {
            let detail = format!(
                "bodies that are not answered yet hold {most} bytes already, all that they may (client-memory): send less at once, \
                 or come again"
            );
            return Err(Problem::unavailable(detail, BUSY));
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.house.held.fetch_sub(self.bytes, Ordering::Relaxed);
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

/// Refuses a body that is not what its bytes are: nobody here undoes a coding, and lines of what was packed are keys that nobody
/// meant, while those that were meant would be answered with no.
fn check_plain(headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail: &str| {
        let title = "A body of this type is not understood";
        Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", title, detail))
    };
    let is_only = |name, plain: &str| {
        let mut values = headers.get_all(name).iter().map(|value| value.as_bytes().trim_ascii());
        values.all(|value| value.is_empty() || value.eq_ignore_ascii_case(plain.as_bytes()))
    };
    if !is_only(CONTENT_ENCODING, "identity") || !is_only(TRANSFER_ENCODING, "chunked") {
        return refused(
            "the body is in a coding (Content-Encoding, Transfer-Encoding), and none is undone here: send it as it is",
        );
    }
    if headers.get_all(CONTENT_TYPE).iter().count() > 1 {
        return refused("the header Content-Type is there twice: give it once");
    }
    Ok(())
}

/// The answer to a request.
pub(super) async fn answer(house: Arc<House>, from: Caller, request: Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let _busy = house.busy();
    let head_only = head.method == Method::HEAD;
    let waits = head.headers.get(EXPECT).is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(b"100-continue"));
    let (body, begun) = if waits { body::noticed(body) } else { (body, Arc::new(AtomicBool::new(true))) };
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
    let is_over = match body {
        // Whoever waits to be asked for the body is not, if nobody wants it.
        Some(rest) if !begun.load(Ordering::Relaxed) => rest.is_end_stream(),
        Some(mut rest) => body::discard(&mut rest, UNWANTED, UNWANTED_TIME).await,
        // It announced more than anybody reads.
        None => false,
    };
    if head_only {
        *response.body_mut() = Body::empty();
    }
    if house.is_stopping() || !is_over {
        // The next request goes elsewhere: nobody would find it behind what is left of this one.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn route(house: &Arc<House>, from: Caller, head: Parts, body: &mut Option<Body>) -> Answer {
    let (route, parts) = match find(&head) {
        Ok(found) => found,
        Err(problem) => return page(&head).ok_or(problem),
    };
    if let Who::Anybody(tell) = route.who {
        Query::read(head.uri.query(), route.query)?;
        return Ok(tell(house, &head));
    }
    if house.is_stopping() {
        return Err(Problem::unavailable("the server is stopping: ask again when it is back", STOPPING));
    }
    // A file is as long as a filter may be: who reads it looks.
    if !matches!(route.takes, Shape::File(_))
        && let Some(whole) = body.take()
    {
        *body = Some(body::limited(&head.headers, whole, LONGEST_BODY)?);
    }
    let parts = parts.iter().map(|part| path::decoded(part)).collect::<Result<Vec<_>, _>>()?;
    let query = Query::read(head.uri.query(), route.query)?;
    let talk = enter(house, &head, from).await?;
    query.check_needed()?;
    if route.takes != Shape::Nothing {
        check_plain(&head.headers)?;
    }
    // From here on the handler reads it, or lets it lie.
    let Some(rest) = body.take() else { return Err(Problem::internal("the body is gone")) };
    let held = Held { house: house.clone(), bytes: 0 };
    let mut visit =
        Visit { house: house.clone(), talk, head, body: rest, route, parts, query, whole: None, was_read: false, held };
    let asked = match asked(&mut visit).await {
        Ok(Keyed::No) => None,
        Ok(Keyed::Turn(idempotency::Turn::First(asked))) => Some(asked),
        Ok(Keyed::Turn(idempotency::Turn::Again(response))) => {
            *body = Some(visit.rest());
            return Ok(response);
        }
        Err(problem) => {
            *body = Some(visit.rest());
            return Err(problem);
        }
    };
    let Some(asked) = asked else {
        let answer = run(&mut visit).await;
        *body = Some(visit.rest());
        return answer;
    };
    // In a task of its own, which goes on when the client does not wait: what was done has to be known when it asks again.
    // There are no more of them than keys, and no larger than what bodies may hold.
    let under_way = tokio::spawn(async move {
        let _busy = visit.house.busy();
        let answer = run(&mut visit).await;
        (asked.keep(answer, visit.talk.needs()).await, visit.rest())
    });
    let (response, rest) =
        under_way.await.map_err(|_| Problem::internal("the request was not carried out to its end"))?;
    *body = Some(rest);
    Ok(response)
}

/// Whether a request has a key by which it is known when it comes again.
enum Keyed {
    No,
    Turn(idempotency::Turn),
}

/// Looks whether a write with a key was answered already.
async fn asked(visit: &mut Visit) -> Result<Keyed, Problem> {
    let writes = !matches!(visit.head.method, Method::GET | Method::HEAD);
    let Some(key) = idempotency::key(&visit.head.headers)?.filter(|_| writes).map(str::to_owned) else {
        return Ok(Keyed::No);
    };
    // A file is known by its address, and is not held for its sum.
    let address = match visit.route.takes {
        Shape::File(_) => bringing::said(visit)?,
        _ => None,
    };
    let read = match address {
        Some(address) => address.0.to_vec().into(),
        None => {
            let read = visit.read(idempotency::LONGEST_BODY).await;
            let tell = |problem: Problem| match visit.route.takes {
                Shape::File(_) => problem.more(", or its address in the header Content-Address"),
                _ => problem,
            };
            let read = read.map_err(tell)?;
            // Some handlers want it whole, others piece by piece.
            visit.body = Body::from(read.clone());
            visit.whole = Some(read.clone());
            visit.was_read = true;
            read
        }
    };
    visit.talk.note_needs();
    let head = &visit.head;
    let header = |name: &str| head.headers.get(name).map_or(&b""[..], HeaderValue::as_bytes);
    let mut texts = vec![
        head.method.as_str().as_bytes(),
        head.uri.path().as_bytes(),
        head.uri.query().unwrap_or_default().as_bytes(),
        header(CONTENT_TYPE.as_str()),
        header(ACCEPT.as_str()),
        &read,
    ];
    // With another condition it is another request.
    texts.extend(visit.route.reads.iter().map(|reads| header(reads.name)));
    let print = idempotency::print(&texts);
    let user = visit.talk.user().ok_or_else(|| Problem::unauthorized("nobody asks any more"))?;
    let asking = Asking { user, namespace: visit.talk.namespace(), holder: visit.talk.holder(), key: &key };
    idempotency::begin(&visit.house, &asking, print).map(Keyed::Turn)
}

/// Runs a handler. Here for all of them: a bound user pays for what is looked at; nothing is said before it is as durable as the
/// policy wants, a problem neither: it may say how much was done; and a problem is told as that user sees it.
async fn run(visit: &mut Visit) -> Answer {
    let answer = match visit.talk.pay(visit.route.costs).await {
        Ok(()) => (visit.route.run)(visit).await,
        Err(problem) => Err(problem),
    };
    visit.talk.settle().await?;
    answer.map_err(|problem| visit.talk.retold(problem, &visit.name()))
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
async fn enter(house: &Arc<House>, head: &Parts, from: Caller) -> Result<Talk, Problem> {
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
            // A certificate of ours opens the door, as on the port of TLS; who comes through it is asked behind it.
            if !from.has_certificate && access.denies(from.address.ip()) {
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
        }
    }
    if talk.user().is_none_or(|user| user.no_password) {
        // Whoever needs no password proves nothing by a login, since any will do: what tells programs of this machine from web
        // pages that reach for it is the name alone.
        house.hosts.check(&head.headers, &head.uri)?;
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
    use super::super::lookout::Lookout;
    use super::*;
    use crate::access::Directory;
    use crate::engine::Engine;
    use crate::engine::clock::Clock;
    use crate::engine::contracts::Contracts;
    use crate::engine::journal::Journal;
    use crate::logging::Log;
    use crate::net::worker::Workers;
    use crate::session::desk::Desk;
    use crate::settings::Settings;

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
    /// A house that nobody has moved into, with these settings.
    fn house(settings: &Settings) -> Arc<House> {
        let (limits, defaults) = (settings.limits.clone(), settings.defaults.clone());
        let engine = Engine::new(Journal::nowhere(), Contracts::new(None), Clock::start(), limits, defaults, 4);
        let (engine, access) = (Arc::new(engine), Directory::open(settings).unwrap());
        engine.end_loading();
        let desk = Desk::new(4, Some(access), String::new(), Vec::new());
        let log = Log::start(settings.log_format, settings.log_level).unwrap();
        let address = "127.0.0.1:8479".parse().unwrap();
        let lookout = Lookout::new(settings, &log, address, Some(address)).unwrap();
        let desk = Arc::new(desk.told(settings, log));
        let workers = Workers::start(&engine, &desk, 1, 0).unwrap();
        Arc::new(House::new(&engine, &desk, &workers, &lookout, address, 1, 2))
    }

    /// What somebody gets who comes from elsewhere and does not log in.
    async fn comes(house: &Arc<House>, has_certificate: bool) -> Result<(), u16> {
        let from = Caller { address: "192.0.2.7:50000".parse().unwrap(), has_certificate };
        let request = Request::builder().uri("/v1/whoami").header("host", "filters.example.com").body(()).unwrap();
        let entered = enter(house, &request.into_parts().0, from).await;
        entered.map(drop).map_err(|problem| problem.status().as_u16())
    }

    #[tokio::test]
    async fn protected_mode_holds_and_a_certificate_opens_the_door_and_no_more() {
        let mut settings = Settings { http_hosts: vec!["filters.example.com".to_owned()], ..Settings::default() };
        let open = house(&settings);
        assert_eq!(comes(&open, false).await, Err(403));
        assert_eq!(comes(&open, true).await, Ok(()));
        crate::settings::table::set(&mut settings, "password", "a long one").unwrap();
        let closed = house(&settings);
        assert_eq!(comes(&closed, false).await, Err(401));
        assert_eq!(comes(&closed, true).await, Err(401));
        let unprotected = house(&Settings { protected_mode: false, password: None, ..settings });
        assert_eq!(comes(&unprotected, false).await, Ok(()));
    }
}
