//! `PUT /v1/filters/{name}/snapshot`: a filter is made from its file as that arrives, whatever its length.
//!
//! ```text
//!  body ──▶ pieces ──▶ a thread that reads the file (session::bringing) ──▶ its name
//! ```
//!
//! The thread waits for pieces and the body for the thread: at most four pieces are on their way. Nothing is seen of the filter
//! before its last byte, its sums and its address are right.

use std::io::{self, Read};

use axum::body::Bytes;
use axum::http::StatusCode;
use bloomgate::Address;
use bloomgate_command::Role;
use bloomgate_http::body::{announced, discard};
use bloomgate_http::problem::Problem;
use tokio::sync::mpsc;

use super::arriving::Arriving;
use super::fetching::no_room;
use super::files::{FILTER, full_name, precondition_failed, tag, tags};
use super::filters::written;
use super::headers::{CONTENT_ADDRESS, IF_MATCH, UNLESS_THERE};
use super::reply::{self, Reply};
use super::seats::Full;
use super::visit::{BODY_TIME, UNWANTED_TIME, Visit, wrong_type};
use super::{Answer, answers};
use crate::engine::adding::NotDone;
use crate::engine::structure::Existing;
use crate::session::bringing::{Bringing, Brought, NotBrought};

/// Files that are brought at once, each by a thread of its own, and how many of one tenant or user.
pub(super) const AT_ONCE: usize = 8;
pub(super) const AT_ONCE_OF_ONE: usize = 4;
/// Pieces of a body that wait for the thread that reads it.
const WAITING: usize = 4;
/// What is left of a body that was refused is thrown away up to here, so that its client reads why.
const LEFT_OVER: usize = 64 << 20;

/// What has to be so before the filter is put under its name.
struct Conditions {
    /// Nothing may have the name.
    only_new: bool,
    /// The user may replace what has it.
    may_replace: bool,
    /// What has it must be this filter, unchanged: its number and its last change.
    still: Option<(u64, u64)>,
}

impl Conditions {
    /// Whether a filter with the name may stay there for the moment: its number and last change.
    fn check(&self, there: Option<(u64, u64)>) -> Result<Existing, Problem> {
        match there {
            _ if self.still.is_some() && self.still != there => Err(precondition_failed(
                "the filter was changed while its new file came: look at it before you replace it",
            )),
            None => Ok(Existing::Refuse),
            Some(_) if self.only_new => {
                Err(precondition_failed("there is a filter of this name, and If-None-Match says *"))
            }
            Some(_) if !self.may_replace => Err(Problem::forbidden(
                "there is a filter of this name, and to replace it needs the role delete: bring it under another name",
            )),
            Some(_) => Ok(Existing::Replace),
        }
    }
}

/// The address that the body should have, if the request says so.
pub(super) fn said(visit: &Visit) -> Result<Option<Address>, Problem> {
    let Some(value) = visit.header(&CONTENT_ADDRESS) else { return Ok(None) };
    let address = value.to_str().ok().and_then(|text| text.trim().trim_matches('"').to_ascii_lowercase().parse().ok());
    address.map(Some).ok_or_else(|| {
        Problem::bad_request(
            "the header Content-Address is the BLAKE3 of the body, 64 hexadecimal digits: leave it out, or compute it",
        )
    })
}

/// `PUT /v1/filters/{name}/snapshot`.
pub(super) async fn bring(visit: &mut Visit) -> Answer {
    match visit.content_type().as_deref() {
        Some(FILTER | "application/octet-stream") => {}
        other => return Err(wrong_type(other, &[FILTER, "application/octet-stream"])),
    }
    let name = visit.name();
    if name.is_empty() {
        return Err(Problem::bad_request("the name is empty: give one of 1 to 4096 bytes"));
    }
    let (said, length) = (said(visit)?, announced(&visit.head.headers));
    let if_match = tags(visit, &IF_MATCH);
    let only_new = tags(visit, &UNLESS_THERE).is_some_and(|tags| tags.iter().any(|tag| tag == "*"));
    let may_replace = visit.talk.user().is_some_and(|user| user.roles.contains(Role::Delete)) && !only_new;
    let mut conditions = Conditions { only_new, may_replace, still: None };
    let there = there(visit, &name)?;
    if let Some(tags) = if_match {
        check_match(visit, &name, &tags).await?;
        conditions.still = there;
    }
    // Who may not gets to know before the file is sent.
    conditions.check(there)?;
    let (bringing, holder) = visit.talk.view(Role::Write, |call| {
        let full = full_name(call, &name)?;
        Ok((Bringing::begin(call, &full)?, call.holder()))
    })?;
    if let Some(length) = length {
        bringing.check_length(length).map_err(problem)?;
    }
    let _seat = visit.house.bringing.take(holder).map_err(|full| {
        let (Full::OfOne(most) | Full::OfAll(most)) = full;
        Problem::unavailable(
            format!("{most} files are being brought, the most at once: come again in a moment"),
            BODY_TIME / 60,
        )
    })?;
    let brought = read(visit, bringing, length, said).await?;
    let address = brought.address;
    let replaced = install(visit, &name, brought, &conditions)?;
    if replaced {
        visit.talk.needed(Role::Delete);
    }
    let status = if replaced { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = answers::json(status, &written(visit, &name).await?);
    tag(response.headers_mut(), &address.to_string());
    Ok(response)
}

/// What has the name now: its number and its last change.
fn there(visit: &mut Visit, name: &[u8]) -> Result<Option<(u64, u64)>, Problem> {
    visit.talk.view(Role::Write, |call| {
        let full = full_name(call, name)?;
        Ok(call.find(&full).map(|entry| (entry.id, entry.touched())))
    })
}

/// Refuses if the file of what has the name is none of these.
async fn check_match(visit: &mut Visit, name: &[u8], tags: &[String]) -> Result<(), Problem> {
    let now = match visit.talk.hear(&[b"BG.DIGEST", name]).await? {
        Reply::Bytes(text) => String::from_utf8_lossy(text).into_owned(),
        _ => "none".to_owned(),
    };
    match tags.iter().any(|tag| *tag == now || tag == "*" && now != "none") {
        true => Ok(()),
        false => Err(precondition_failed(format!("the filter's file is now {now}: look at it before you replace it"))),
    }
}

/// Reads the body into a filter that has no name yet.
async fn read(
    visit: &mut Visit,
    bringing: Bringing,
    length: Option<u64>,
    said: Option<Address>,
) -> Result<Brought, Problem> {
    let (door, pieces) = mpsc::channel(WAITING);
    let house = visit.house.clone();
    let stream = Stream { pieces, piece: Bytes::new(), is_over: false };
    let reading = tokio::task::spawn_blocking(move || bringing.read(&house.desk, stream, length, said));
    let sent = send(visit, door).await;
    let brought = reading.await.map_err(|_| Problem::internal("the thread that reads the file has ended"))?;
    // Why the body broke off is known here, and to the thread only that it did.
    sent?;
    match brought {
        Ok(brought) => Ok(brought),
        Err(why) => {
            discard(&mut visit.body, LEFT_OVER, UNWANTED_TIME).await;
            Err(problem(why))
        }
    }
}

/// Hands the body to the thread, to its end or until the thread has seen enough.
async fn send(visit: &mut Visit, door: mpsc::Sender<Option<Bytes>>) -> Result<(), Problem> {
    let mut arriving = Arriving::new();
    loop {
        let piece = arriving.next(&mut visit.body).await?;
        let is_last = piece.is_none();
        if door.send(piece).await.is_err() || is_last {
            return Ok(());
        }
    }
}

/// Puts it under its name; whether something else had it.
fn install(visit: &mut Visit, name: &[u8], brought: Brought, conditions: &Conditions) -> Result<bool, Problem> {
    let talk = &mut visit.talk;
    // Nobody writes for the moment it takes: other requests go to other threads meanwhile.
    let installed = tokio::task::block_in_place(|| {
        talk.view(Role::Write, |call| {
            let full = full_name(call, name)?;
            let there = call.find(&full).map(|entry| (entry.id, entry.touched()));
            let existing = match conditions.check(there) {
                Ok(existing) => existing,
                Err(problem) => return Ok(Err(problem)),
            };
            match brought.install(call, existing) {
                Ok(()) => Ok(Ok(there.is_some())),
                Err(NotDone::Refused(refusal)) => Err(refusal),
                Err(NotDone::Busy) => {
                    Ok(Err(Problem::unavailable("the filter is busy: send it again", BODY_TIME / 60)))
                }
            }
        })
    });
    installed?
}

/// Why there is no filter, in HTTP.
fn problem(why: NotBrought) -> Problem {
    match why {
        NotBrought::TooLarge(why) => Problem::too_large(why),
        NotBrought::NoRoom(why) => no_room(why),
        NotBrought::Another(is) => {
            precondition_failed(format!("the body's address is {is}, and Content-Address says another: send it again"))
        }
        NotBrought::Refused(refusal) => reply::problem(refusal.as_str()),
    }
}

/// The body as the thread reads it. Its end is told: one that just stops has broken off.
struct Stream {
    pieces: mpsc::Receiver<Option<Bytes>>,
    piece: Bytes,
    is_over: bool,
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.is_over {
            match self.pieces.blocking_recv() {
                Some(Some(piece)) => self.piece = piece,
                Some(None) => self.is_over = true,
                None => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body did not come to its end")),
            }
        }
        let now = self.piece.split_to(self.piece.len().min(into.len()));
        into[..now.len()].copy_from_slice(&now);
        Ok(now.len())
    }
}
