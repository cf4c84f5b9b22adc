//! A conversation inside the process: words in, replies out, as if they had come and gone through a socket.
//!
//! It does what a connection of RESP does between two reads ([`crate::net::connection`]): turns of the conversation, a rest when a
//! filter is busy or a namespace had its share, workers for what takes long. What replies depend on is collected, and waited
//! for once, before the answer leaves ([`Talk::settle`]): a body of a million keys costs one sync of the disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate_command::{Refusal, Role, Roles, parse};
use bloomgate_http::problem::Problem;

use super::reply::{self, Reply};
use super::serving::{Caller, House};
use crate::access::User;
use crate::engine::holders::Holder;
use crate::session::call::Call;
use crate::session::{Dues, Next, Session};
use crate::store::Gate;

/// How long a turn waits for a filter that somebody else is writing to.
const BUSY: Duration = Duration::from_micros(200);
/// How long writers wait when the disk cannot take more.
const CONGESTED: Duration = Duration::from_millis(2);
/// How long it may have the thread when others may want it.
const SHARE: Duration = Duration::from_micros(100);

/// A conversation of one request.
pub(super) struct Talk {
    house: Arc<House>,
    session: Session,
    dues: Dues,
    since: Instant,
    input: Vec<u8>,
    out: Vec<u8>,
    /// What the user needed so far, if somebody wants to know.
    needs: Option<Roles>,
}

impl Talk {
    /// One who comes from there, and is nobody or `default` until a login.
    pub(super) fn new(house: &Arc<House>, from: Caller) -> Self {
        let session = Session::new(house.desk.visitor(from.address, from.has_certificate), &house.desk);
        let (input, out) = (Vec::new(), Vec::new());
        Self { house: house.clone(), session, dues: Dues::default(), since: Instant::now(), input, out, needs: None }
    }

    /// Who it is now.
    pub(super) fn user(&self) -> Option<&Arc<User>> {
        self.session.user()
    }

    /// The namespace that the user is bound to.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.session.space().map(|space| space.name())
    }

    /// Whom the places are for that it takes.
    pub(super) fn holder(&self) -> Holder {
        match self.namespace() {
            Some(space) => Holder::Namespace(self.house.engine.namespaces.number(space).unwrap_or(0)),
            None => Holder::User(self.user().map_or("", |user| &user.name).into()),
        }
    }

    /// From now on it is noted which roles the user needs.
    pub(super) fn note_needs(&mut self) {
        self.needs = Some(Roles::NONE);
    }

    /// The roles that the user needed for what was said and shown since.
    pub(super) fn needs(&self) -> Roles {
        self.needs.unwrap_or_default()
    }

    /// Notes that the user needed a role.
    pub(super) fn needed(&mut self, role: Role) {
        self.needs = self.needs.map(|needs| needs.with(role));
    }

    /// Says words; the reply. An error of the command is a problem.
    pub(super) async fn say(&mut self, words: &[&[u8]]) -> Result<Reply<'_>, Problem> {
        match self.hear(words).await? {
            Reply::Error(line) => Err(reply::problem(line)),
            reply => Ok(reply),
        }
    }

    /// The same, and an error of the command is a reply like others.
    pub(super) async fn hear(&mut self, words: &[&[u8]]) -> Result<Reply<'_>, Problem> {
        if self.needs.is_some()
            && let Ok((spec, request)) = parse(words)
        {
            spec.needs(&request).iter().for_each(|role| self.needed(role));
        }
        let mut input = std::mem::take(&mut self.input);
        input.clear();
        write_command(&mut input, words);
        let said = self.give(&input).await.map(drop);
        self.input = input;
        said?;
        let (reply, _) = Reply::read(&self.out).ok_or_else(cut_short)?;
        Ok(reply)
    }

    /// Gives commands that are on the wire already; their replies, one behind the other.
    pub(super) async fn give(&mut self, input: &[u8]) -> Result<&[u8], Problem> {
        let mut out = std::mem::take(&mut self.out);
        out.clear();
        let given = self.turns(input, &mut out).await;
        self.out = out;
        given?;
        Ok(&self.out)
    }

    async fn turns(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
        let house = self.house.clone();
        let mut at = 0;
        loop {
            if self.since.elapsed() >= SHARE {
                tokio::task::yield_now().await;
                self.since = Instant::now();
            }
            let before = out.len();
            let turn = {
                let mut core = house.core();
                let turn = self.session.turn(&mut core, &house.desk, &input[at..], out);
                house.desk.count_bytes(core.thread, turn.consumed as u64, (out.len() - before) as u64);
                turn
            };
            self.session.forget(turn.consumed);
            at += turn.consumed;
            self.depend(turn.dues);
            house.engine.journal.flush();
            if turn.dues.written > 0 && house.engine.journal.is_congested() {
                self.rest(CONGESTED).await;
            }
            if !turn.pause.is_zero() {
                // Its namespace had more than its share of items: not an error, only later.
                self.rest(turn.pause).await;
            }
            match turn.next {
                Next::Read if at == input.len() => return Ok(()),
                Next::Again => {}
                Next::Wait => self.rest(BUSY).await,
                Next::Job(job) => {
                    let gone = || Problem::unavailable("the server is stopping: ask again when it is back", CONGESTED);
                    let waiting = house.workers.run(job).ok_or_else(gone)?;
                    let (told, dues) = waiting.await.map_err(|_| gone())?;
                    self.since = Instant::now();
                    self.depend(dues);
                    out.extend_from_slice(&told);
                    // A login that was decided elsewhere lands now: whoever looks at the user must not see the one before.
                    if !self.session.is_still_welcome(&house.desk) {
                        return Err(gone_user());
                    }
                    if at == input.len() {
                        return Ok(());
                    }
                }
                // The user was deleted or switched off meanwhile.
                Next::Drop => return Err(gone_user()),
                Next::Shutdown => return Err(reply::refused("the server is not stopped over HTTP: send it SIGTERM")),
                Next::Close | Next::Read => return Err(cut_short()),
            }
        }
    }

    async fn rest(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        self.since = Instant::now();
    }

    fn depend(&mut self, dues: Dues) {
        self.dues.write(dues.written);
        self.dues.see(dues.seen);
    }

    /// Pays for what is looked at and no command tells, in items of the namespace that the user is bound to; waits as long as
    /// that has had its share. Whoever has all names pays nothing.
    pub(super) async fn pay(&mut self, mut cost: u64) -> Result<(), Problem> {
        if cost == 0 || self.namespace().is_none() {
            return Ok(());
        }
        let house = self.house.clone();
        loop {
            let wait = self.session.pay_to_look(&mut house.core(), &mut cost);
            match wait.map_err(|refusal| reply::problem(refusal.as_str()))? {
                Some(time) => self.rest(time).await,
                None => return Ok(()),
            }
        }
    }

    /// Shows what the user may see and no command tells.
    pub(super) fn view<T>(
        &mut self,
        role: Role,
        tell: impl FnOnce(&mut Call<'_, '_, '_>) -> Result<T, Refusal>,
    ) -> Result<T, Problem> {
        self.needed(role);
        let house = self.house.clone();
        let mut core = house.core();
        let told = self.session.view(&mut core, &house.desk, role, &mut self.dues, tell);
        told.map_err(|refusal| reply::problem(refusal.as_str()))
    }

    /// Shows what there is to see before everything is loaded, too.
    pub(super) fn view_early<T>(
        &mut self,
        role: Role,
        tell: impl FnOnce(&mut Call<'_, '_, '_>) -> Result<T, Refusal>,
    ) -> Result<T, Problem> {
        self.needed(role);
        let house = self.house.clone();
        let mut core = house.core();
        let told = self.session.view_early(&mut core, &house.desk, role, &mut self.dues, tell);
        told.map_err(|refusal| reply::problem(refusal.as_str()))
    }

    /// A problem about a filter as the user sees it: one who is bound to a namespace knows the name without its prefix, and
    /// raises no limits.
    pub(super) fn retold(&self, problem: Problem, name: &[u8]) -> Problem {
        let Some(space) = self.session.space() else { return problem };
        let mut full = Vec::new();
        let name = space.put_full(name, &mut full).is_ok().then_some(&full[..]);
        let told = space.retold(Refusal::new(problem.detail().to_owned()), name.into_iter());
        problem.with_detail(told.as_str())
    }

    /// Waits until what was answered is as durable as the policy wants; a problem where the disk failed what was written.
    pub(super) async fn settle(&mut self) -> Result<(), Problem> {
        let dues = std::mem::take(&mut self.dues);
        let journal = &self.house.engine.journal;
        if dues == Dues::default() || journal.gate(dues.written.max(dues.seen)) == Gate::Open {
            return Ok(());
        }
        let Some(log) = journal.log() else { return Ok(()) };
        let mut watch = log.watch();
        loop {
            watch.borrow_and_update();
            match (log.gate(dues.written), log.gate(dues.seen)) {
                (Gate::Failed, _) => return Err(reply::problem(&log.failure().to_string())),
                // Lookups go on when the disk fails: what they saw is true, only not durable.
                (Gate::Open, Gate::Open | Gate::Failed) => return Ok(()),
                _ => {
                    if watch.changed().await.is_err() {
                        return Err(Problem::unavailable(
                            "the server is stopping: ask again when it is back",
                            CONGESTED,
                        ));
                    }
                }
            }
        }
    }
}

fn gone_user() -> Problem {
    Problem::unauthorized("the user may not log in any more")
}

/// A fault of ours: the log of the server has more.
fn cut_short() -> Problem {
    Problem::internal("the reply to a command could not be read: this is a fault of the server")
}

/// Puts a command as it goes over the wire behind what is there.
pub(super) fn write_command(input: &mut Vec<u8>, words: &[&[u8]]) {
    input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    words.iter().for_each(|word| write_word(input, word));
}

/// Puts a word as it goes over the wire behind what is there.
#[inline]
pub(super) fn write_word(input: &mut Vec<u8>, word: &[u8]) {
    // Nearly all words are short.
    match word.len() {
        length @ 0..10 => input.extend_from_slice(&[b'$', b'0' + length as u8, b'\r', b'\n']),
        length @ 10..100 => {
            input.extend_from_slice(&[b'$', b'0' + (length / 10) as u8, b'0' + (length % 10) as u8, b'\r', b'\n']);
        }
        length => input.extend_from_slice(format!("${length}\r\n").as_bytes()),
    }
    input.extend_from_slice(word);
    input.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_on_the_wire() {
        let mut input = Vec::new();
        let long = vec![b'x'; 100];
        write_command(&mut input, &[b"BG.ADD", b"", b"0123456789", &long]);
        let text = String::from_utf8(input).unwrap();
        let wanted = format!("*4\r\n$6\r\nBG.ADD\r\n$0\r\n\r\n$10\r\n0123456789\r\n$100\r\n{}\r\n", "x".repeat(100));
        assert_eq!(text, wanted);
    }
}
