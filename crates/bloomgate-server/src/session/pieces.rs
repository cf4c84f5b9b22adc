//! A command of many items or names, done piece by piece.
//!
//! A million items take 0.2 s. A reactor that did them at once would stand still for all its clients, and a worker would keep
//! everybody waiting who creates or deletes something. So a command that is long goes to a worker, which does it in pieces and
//! lets others in between two of them. Each item is done or refused as if it had come in a command of its own; after a crash
//! there may be some pieces and not the others, as there may of two commands.

use bloomgate_command::{Refusal, Reply, Request, parse};

use super::call::Outcome;
use crate::engine::adding::NotDone;

/// A command of more words, or more bytes of them, is not for a reactor: about 0.2 ms.
pub const MOST_WORDS: usize = 4_096;
/// See [`MOST_WORDS`].
pub const MOST_BYTES: usize = 256 << 10;
/// The same for names: to delete one takes ten times as long as to add an item, and nobody else writes meanwhile.
const MOST_NAMES: usize = 128;
/// Items of a piece.
const PIECE: usize = 512;
/// So many of the items that were not reached are told in full why.
const IN_FULL: usize = 100;

/// Whether the parts are names.
fn are_names(request: &Request<'_>) -> bool {
    matches!(request, Request::Exists { .. } | Request::Touch { .. } | Request::Del { .. } | Request::Unlink { .. })
}

/// Whether a command is too long for a reactor by the items or names that it has.
#[must_use]
pub fn is_long(request: &Request<'_>) -> bool {
    let items = match *request {
        Request::BgRemove { items, .. } => items,
        _ => request.parts().unwrap_or_default(),
    };
    let most = if are_names(request) { MOST_NAMES } else { MOST_WORDS };
    // Four items are never more bytes.
    items.len() > most || (items.len() > 4 && items.iter().map(|item| item.len()).sum::<usize>() > MOST_BYTES)
}

/// How many of the parts are the next piece.
fn next(parts: &[&[u8]], most: usize) -> usize {
    let mut bytes = 0;
    let fits = parts.iter().take(most).take_while(|part| {
        bytes += part.len();
        bytes <= MOST_BYTES
    });
    fits.count().max(1)
}

/// Does a command piece by piece; `work` gets each as a command of its own, whether items before it were refused, and whether
/// it is the last one. A refusal of the first is that of the command; after that, of each item that was not reached.
pub fn each(
    words: &[&[u8]],
    request: Request<'_>,
    mut work: impl FnMut(Request<'_>, &[&[u8]], bool, bool) -> Outcome,
) -> Outcome {
    let most = if are_names(&request) { MOST_NAMES } else { PIECE };
    let Some(parts) = request.parts().filter(|parts| next(parts, most) < parts.len()) else {
        return work(request, words, false, true);
    };
    let head = &words[..words.len() - parts.len()];
    let (mut rest, mut whole, mut were_refused) = (parts, None, false);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(next(rest, most));
        let words = [head, piece].concat();
        let (_, request) = parse(&words)?;
        let done = work(request, &words, were_refused, after.is_empty());
        if let Ok(Reply::Array(answers)) = &done {
            were_refused |= answers.iter().any(|answer| matches!(answer, Reply::Error(_)));
        }
        whole = Some(match (whole, done) {
            (None, done) => done?,
            (Some(Reply::Int(before)), Ok(Reply::Int(more))) => Reply::Int(before + more),
            (Some(Reply::Array(mut all)), Ok(Reply::Array(more))) => {
                all.extend(more);
                Reply::Array(all)
            }
            (Some(Reply::Array(mut all)), Err(NotDone::Refused(refusal))) => {
                let short = Refusal::new("ERR not done: those before it were refused");
                let refused = |at: usize| if at < IN_FULL { refusal.clone() } else { short.clone() };
                all.extend((0..rest.len()).map(|at| Reply::Error(refused(at))));
                return Ok(Reply::Array(all));
            }
            (_, done) => return done,
        });
        rest = after;
    }
    Ok(whole.unwrap_or(Reply::Nil))
}
