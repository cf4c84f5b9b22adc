//! Many keys of one filter: asked, added, taken out or reported, in batches of 512 as they arrive.
//!
//! A command of 512 keys goes through the conversation like one from a socket: its role, its namespace and its quota count, and
//! lookups of all its keys are under way at once. The answer leaves when the body is over: a client that sends everything
//! before it reads must not be waited for by a server that writes.

use axum::http::HeaderValue;
use bloomgate_command::{Role, Spec, find};
use bloomgate_http::problem::Problem;
use serde_json::Value;

use super::arriving::Arriving;
use super::bits::Bits;
use super::filters::is_there;
use super::keys::{Batch, Cutter, Form, of_json};
use super::reply::{self, Reply};
use super::seats::Full;
use super::visit::{BODY_TIME, LONGEST_JSON, Visit};
use super::{Answer, answers, figures};

/// Answers that are given as JSON: six bytes each.
const MOST_JSON_ANSWERS: usize = 1_000_000;

/// What is done with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Check,
    Add,
    Remove,
    Feedback,
}

impl Deed {
    fn command(self) -> &'static [u8] {
        match self {
            Self::Check => b"BG.EXISTS",
            Self::Add => b"BG.ADD",
            Self::Remove => b"BG.REMOVE",
            Self::Feedback => b"BG.FEEDBACK",
        }
    }

    /// The role that its command needs.
    fn role(self) -> Role {
        find(self.command()).and_then(Spec::role).unwrap_or(Role::Admin)
    }
}

/// What came of the keys so far.
#[derive(Default)]
struct Done {
    bits: Bits,
    /// Of BG.FEEDBACK: how many were taken.
    taken: u64,
    keys: usize,
    /// Batches that were given.
    batches: usize,
}

/// `POST /v1/filters/{name}/check`.
pub(super) async fn check(visit: &mut Visit) -> Answer {
    run(visit, Deed::Check).await
}

/// `POST /v1/filters/{name}/add`.
pub(super) async fn add(visit: &mut Visit) -> Answer {
    run(visit, Deed::Add).await
}

/// `POST /v1/filters/{name}/remove`.
pub(super) async fn remove(visit: &mut Visit) -> Answer {
    run(visit, Deed::Remove).await
}

/// `POST /v1/filters/{name}/feedback`.
pub(super) async fn feedback(visit: &mut Visit) -> Answer {
    run(visit, Deed::Feedback).await
}

async fn run(visit: &mut Visit, deed: Deed) -> Answer {
    let form = Form::of(visit.content_type().as_deref())?;
    let wanted = Form::wanted(&visit.head.headers, form)?;
    let _seat = visit.house.bodies.take(visit.talk.holder()).map_err(|full| {
        let (Full::OfOne(most) | Full::OfAll(most)) = full;
        let detail = format!("{most} bodies of keys are being read, the most at once: send yours again in a moment");
        Problem::unavailable(detail, BODY_TIME / 60)
    })?;
    visit.talk.needed(deed.role());
    let mut done = Done::default();
    let name = visit.name();
    let mut batch = Batch::new(&[]);
    begin(&mut batch, visit, deed, &name, 0);
    let mut cutter = Cutter::new(form);
    if form == Form::Json {
        for key in of_json(&visit.read(LONGEST_JSON).await?)? {
            cutter.push(&key, &mut batch).map_err(|problem| so_far(problem, deed, done.keys))?;
            if batch.is_full() {
                give(visit, deed, &name, &mut batch, &mut done).await?;
            }
        }
    } else {
        let mut arriving = Arriving::new();
        loop {
            let arrived = arriving.next(&mut visit.body).await.map_err(|problem| so_far(problem, deed, done.keys))?;
            let Some(piece) = arrived else { break };
            let mut rest = &piece[..];
            while !rest.is_empty() {
                rest = cutter.take(rest, &mut batch).map_err(|problem| so_far(problem, deed, done.keys))?;
                if batch.is_full() {
                    if wanted == Form::Json && done.keys >= MOST_JSON_ANSWERS {
                        let problem = Problem::too_large(format!(
                            "the body has more than {MOST_JSON_ANSWERS} keys, and the answer is wanted as JSON: ask for text/plain \
                             or application/octet-stream (Accept)"
                        ));
                        return Err(so_far(problem, deed, done.keys));
                    }
                    give(visit, deed, &name, &mut batch, &mut done).await?;
                }
            }
        }
        cutter.end(&mut batch).map_err(|problem| so_far(problem, deed, done.keys))?;
    }
    if batch.keys() > 0 {
        give(visit, deed, &name, &mut batch, &mut done).await?;
    }
    if done.keys == 0 {
        // Nothing was asked of it, and still it has to be there.
        if !is_there(visit, deed.role(), &name)? {
            return Err(reply::problem("ERR not found"));
        }
    }
    Ok(answer(deed, &name, wanted, done))
}

/// Begins a command with its words before the keys.
fn begin(batch: &mut Batch, visit: &Visit, deed: Deed, name: &[u8], number: usize) {
    let request = visit.request_id().filter(|_| deed == Deed::Remove).map(|id| format!("{id}-{number}"));
    match (&request, deed) {
        (Some(request), _) => batch.begin(&[deed.command(), name, b"REQUEST", request.as_bytes(), b"ITEMS"]),
        (None, Deed::Remove) => batch.begin(&[deed.command(), name, b"ITEMS"]),
        (None, _) => batch.begin(&[deed.command(), name]),
    }
}

/// Gives a batch to the conversation and takes what it answers.
async fn give(visit: &mut Visit, deed: Deed, name: &[u8], batch: &mut Batch, done: &mut Done) -> Result<(), Problem> {
    let keys = batch.keys();
    let told = visit.talk.give(batch.wire()).await.map_err(|problem| so_far(problem, deed, done.keys))?;
    if deed == Deed::Feedback {
        match Reply::read(told) {
            Some((Reply::Int(taken), _)) => done.taken += u64::try_from(taken).unwrap_or(0),
            Some((Reply::Error(line), _)) => return Err(so_far(reply::problem(line), deed, done.keys)),
            _ => return Err(Problem::internal("a batch of keys was not answered")),
        }
    } else if done.bits.take(told, keys).is_none() {
        return Err(match Reply::read(told) {
            Some((Reply::Error(line), _)) => so_far(reply::problem(line), deed, done.keys),
            _ => Problem::internal("a batch of keys was not answered"),
        });
    }
    done.keys += keys;
    done.batches += 1;
    begin(batch, visit, deed, name, done.batches);
    Ok(())
}

/// A problem that comes when some keys are done already says how many.
fn so_far(problem: Problem, deed: Deed, keys: usize) -> Problem {
    if keys == 0 || deed == Deed::Check {
        return problem;
    }
    problem.more(&format!("; the first {keys} keys of the body are done, those behind them are not"))
}

fn answer(deed: Deed, name: &[u8], wanted: Form, done: Done) -> axum::http::Response<axum::body::Body> {
    let Done { bits, taken, keys, .. } = done;
    let filter: Value = figures::shown(name).into();
    let (ones, refused) = (bits.ones as u64, bits.refused as u64);
    let seen = (keys as u64).saturating_sub(ones + refused);
    let mut fields = vec![("filter", filter), ("keys", keys.into())];
    let headers: Vec<(&'static str, u64)> = match deed {
        Deed::Check => {
            fields.extend([("maybe", ones.into()), ("no", seen.into())]);
            vec![("bloomgate-maybe", ones)]
        }
        Deed::Add => {
            fields.extend([("new", ones.into()), ("seen", seen.into()), ("refused", refused.into())]);
            fields.push(("error", bits.why.clone().into()));
            vec![("bloomgate-new", ones), ("bloomgate-refused", refused)]
        }
        Deed::Remove => {
            fields.push(("removed", ones.into()));
            vec![("bloomgate-removed", ones)]
        }
        Deed::Feedback => {
            fields.push(("taken", taken.into()));
            vec![("bloomgate-taken", taken)]
        }
    };
    let mut response = match deed {
        Deed::Feedback => {
            let told =
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<serde_json::Map<_, _>>();
            answers::json(axum::http::StatusCode::OK, &told.into())
        }
        _ => bits.respond(wanted, &fields),
    };
    answers::count(&mut response, "bloomgate-keys", keys as u64);
    headers.into_iter().for_each(|(name, value)| answers::count(&mut response, name, value));
    response.headers_mut().insert("vary", HeaderValue::from_static("accept"));
    response
}
