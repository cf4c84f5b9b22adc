//! Writes on their way through: the filter knows the key before the upstream does, or before anybody is told that it was
//! made. They run in tasks of their own, to their end: a client that goes away leaves no write of unknown outcome behind.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bloomgate_http::problem::Problem;
use hyper::body::{Body as _, Incoming};
use hyper::header::ACCEPT_ENCODING;
use hyper::http::request::Parts;
use hyper::{Request, Response};

use super::begun::{Begun, How, Unread};
use super::body::{Paced, ProxyBody, Read, ToUpstream};
use super::metrics::one;
use super::new_key::{self, NewKey};
use super::sending::{self, Trouble};
use super::{From, Shared, headers};
use crate::callers::Place;
use crate::gate::{Announced, Gate, Unnamed};
use crate::key::Key;
use crate::requests::{self, Collections, Fate, Makes};
use crate::service::answers;

impl Shared {
    /// Passes a write on.
    pub(super) async fn write(self: Arc<Self>, from: Arc<From>, head: Parts, body: Incoming) -> Response<ProxyBody> {
        let Some(gate) = self.gate.get().cloned() else {
            let why = "the keys could not be read yet: a write now could be missed by the filter";
            return self.refuse(&Problem::unavailable(why, Duration::from_secs(1)));
        };
        let place = match self.place(&from, &head).await {
            Ok(place) => place,
            Err(response) => return response,
        };
        let collections = match self.options.new_key {
            NewKey::None => Collections::MakeNone,
            NewKey::Location | NewKey::Json(_) => Collections::MakeKeys,
        };
        let makes = match requests::makes(&gate, &self.options.rules, collections, &head) {
            Ok(makes) => makes,
            Err(error) => return self.refuse(&answers::problem(&error)),
        };
        if makes.any()
            && let Err(capped) = gate.inner.count_readings(self.client(&from, &head), makes.most())
        {
            return self.refuse(&answers::problem(&capped));
        }
        one(&self.counts.writes);
        super::ended(tokio::spawn(async move { self.write_through(&gate, &from, head, body, makes, place).await }))
            .await
    }

    async fn write_through(
        &self,
        gate: &Gate,
        from: &From,
        mut head: Parts,
        body: Incoming,
        makes: Makes,
        place: Option<Place>,
    ) -> Response<ProxyBody> {
        let path = head.uri.path().to_owned();
        let has_body = !body.is_end_stream();
        if let Err(why) = headers::onward(&mut head, &from.client, &self.onward, has_body, false) {
            return self.refuse(&Problem::bad_request(why));
        }
        let moved = Arc::new(AtomicU64::new(0));
        let body = match body {
            _ if !has_body => ToUpstream::Empty,
            // Mostly all of it before it is passed on: a client that breaks off then costs the filter nothing.
            body if makes.unnamed => match self.begin(self.paced(body).counting(moved.clone())).await {
                Ok(begun) => ToUpstream::Begun(begun),
                Err(problem) => return self.refuse(&problem),
            },
            body => ToUpstream::Stream(self.paced(body).counting(moved.clone())),
        };
        if makes.unnamed && matches!(self.options.new_key, NewKey::Json(_)) {
            // The answer has to be read here.
            head.headers.remove(ACCEPT_ENCODING);
        }
        let (mut announced, unnamed) = match makes.announce(gate).await {
            Ok(announced) => announced,
            Err(error) => return self.refuse(&answers::problem(&error)),
        };
        let sending = self.exchange(Request::from_parts(head, body), Some(moved));
        let answered = Announced::answered(&mut announced, sending).await;
        sending::leave(place, &answered);
        match answered {
            Err(trouble) => {
                self.unanswered(announced, unnamed, &trouble).await;
                self.troubled(&trouble)
            }
            Ok(response) => self.written(gate, response, &path, announced, unnamed).await,
        }
    }

    /// A body that is read before it is passed on.
    async fn begin(&self, body: Paced) -> Result<Begun, Problem> {
        let options = &self.options;
        let (least, whole, pace) = (options.new_key_bytes, options.whole_body, options.idle_time);
        let how = How { least, whole, longer: options.longer, pace };
        Begun::read(body, how, &self.room).await.map_err(|why| match why {
            Unread::Broke(error) => Problem::bad_request(format!("the body broke off: {error}")),
            Unread::Slow => Problem::too_slow(format!(
                "neither the rest of the body nor {least} more bytes of it arrived within {pace:?}; send it faster"
            )),
            Unread::TooLong => Problem::too_large(format!("a body that is sent here may have {whole} bytes")),
            Unread::NoRoom => {
                let why = format!("the bodies that are on their way take {} bytes already", options.whole_memory);
                Problem::unavailable(why, Duration::from_secs(1))
            }
        })
    }

    /// No answer came.
    async fn unanswered(&self, announced: Option<Announced>, unnamed: Option<Unnamed>, trouble: &Trouble) {
        let may_be_done = trouble.may_be_done();
        if let Some(announced) = announced {
            match may_be_done {
                true => announced.unknown().await,
                false => announced.settled(false).await,
            }
        }
        if let Some(unnamed) = unnamed {
            match may_be_done {
                true => {
                    one(&self.counts.missed);
                    unnamed.unknown(&format!("a write that makes its own key was not answered ({})", trouble.why()));
                }
                false => unnamed.nothing().await,
            }
        }
    }

    /// The answer is there: what it tells goes into the filter before it is released.
    async fn written(
        &self,
        gate: &Gate,
        response: Response<Incoming>,
        path: &str,
        announced: Option<Announced>,
        unnamed: Option<Unnamed>,
    ) -> Response<ProxyBody> {
        let status = response.status();
        let fate = requests::fate(status);
        let unsure = fate == Fate::Unsure;
        if let Some(announced) = announced {
            match unsure {
                true => announced.unknown().await,
                false => announced.settled(fate == Fate::Done).await,
            }
        }
        let mut keys = match fate {
            Fate::Refused => Vec::new(),
            _ => requests::located(gate, &self.options.rules, response.headers(), path),
        };
        let Some(unnamed) = unnamed else {
            match (keys.is_empty(), unsure) {
                (true, _) => {}
                (false, false) => gate.learnt(keys).await,
                (false, true) => gate.may_exist(keys).await,
            }
            return self.release(response, None);
        };
        if fate == Fate::Refused || !self.options.new_key_status.may_make(status) {
            match keys.is_empty() {
                true => {
                    one(&self.counts.nothing);
                    unnamed.nothing().await;
                }
                // Told all the same.
                false => self.made(unnamed, keys, unsure, "").await,
            }
            return self.release(response, None);
        }
        let NewKey::Json(pointer) = &self.options.new_key else {
            let why = format!("the answer {status} to a write at {path} has no Location of a key");
            self.made(unnamed, keys, unsure, &why).await;
            return self.release(response, None);
        };
        let (mut head, body) = response.into_parts();
        let is_plain = new_key::is_plain(&head.headers);
        let read = Read::begin(self.paced(body), self.options.new_key_bytes).await;
        let told = (read.whole && is_plain).then(|| new_key::in_body(gate, pointer, &read.contiguous())).flatten();
        keys.extend(told.clone());
        // A location beside it may be of something else.
        let certain = if told.is_some() { keys } else { Vec::new() };
        let why = format!(
            "the answer {status} to a write at {path} has no key at /{} in its first {} bytes of JSON",
            pointer.join("/"),
            self.options.new_key_bytes
        );
        self.made(unnamed, certain, unsure, &why).await;
        headers::back(&mut head.headers);
        head.version = hyper::Version::HTTP_11;
        head.extensions.clear();
        Response::from_parts(head, ProxyBody::replayed(read))
    }

    /// The filter takes what was made, or loses its "no".
    async fn made(&self, unnamed: Unnamed, keys: Vec<Key>, unsure: bool, why: &str) {
        match (keys.is_empty(), unsure) {
            (false, false) => {
                one(&self.counts.learnt);
                unnamed.made(keys).await;
            }
            (false, true) => {
                one(&self.counts.learnt);
                unnamed.may_make(keys).await;
            }
            (true, false) => {
                one(&self.counts.missed);
                unnamed.lost(why);
            }
            (true, true) => {
                one(&self.counts.missed);
                unnamed.unknown(why);
            }
        }
    }

    /// Passes a deletion on. The filter keeps the key until the next rebuild.
    pub(super) async fn remove(self: Arc<Self>, from: Arc<From>, head: Parts, body: Incoming) -> Response<ProxyBody> {
        let place = match self.place(&from, &head).await {
            Ok(place) => place,
            Err(response) => return response,
        };
        one(&self.counts.writes);
        match requests::is_counted(place.as_ref()) {
            true => {
                let task = tokio::spawn(async move { self.remove_through(&from, head, body, place).await });
                super::ended(task).await
            }
            false => self.remove_through(&from, head, body, place).await,
        }
    }

    async fn remove_through(
        &self,
        from: &From,
        mut head: Parts,
        body: Incoming,
        place: Option<Place>,
    ) -> Response<ProxyBody> {
        let removal = match self.gate.get() {
            Some(gate) => match requests::removed(gate, &self.options.rules, &head) {
                Some(key) => Some(gate.announce_removal(key).await),
                None => None,
            },
            None => None,
        };
        let has_body = !body.is_end_stream();
        if let Err(why) = headers::onward(&mut head, &from.client, &self.onward, has_body, false) {
            return self.refuse(&Problem::bad_request(why));
        }
        let sent = match has_body {
            true => self.send(head, body).await,
            false => self.exchange(Request::from_parts(head, ToUpstream::Empty), None).await,
        };
        sending::leave(place, &sent);
        match sent {
            Err(trouble) => {
                if let Some(removal) = removal.filter(|_| !trouble.may_be_done()) {
                    removal.settled(false).await;
                }
                self.troubled(&trouble)
            }
            Ok(response) => {
                let fate = requests::fate(response.status());
                if let Some(removal) = removal.filter(|_| fate != Fate::Unsure) {
                    removal.settled(fate == Fate::Done).await;
                }
                self.release(response, None)
            }
        }
    }
}
