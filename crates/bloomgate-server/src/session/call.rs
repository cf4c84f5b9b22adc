//! What a command works with: the engine through its thread's view, and the right to write that it has or takes.

use std::fmt;
use std::sync::Arc;

use bloomgate_command::{Refusal, Reply, Request, Spec};

use super::desk::{Client, Desk};
use super::space::{Space, contract_in};
use super::{Dues, dispatch};
use crate::access::User;
use crate::engine::adding::NotDone;
use crate::engine::entry::{Entry, Family};
use crate::engine::holders::Holder;
use crate::engine::{Core, Engine, Permit, check_available};
use crate::logging::Value;

/// What a command comes to.
pub type Outcome = Result<Reply, NotDone>;

/// A command that is being run.
#[derive(Debug)]
pub struct Call<'c, 'p, 'e> {
    /// The thread's view.
    pub core: &'c mut Core,
    /// What all connections share.
    pub desk: &'c Desk,
    dues: &'c mut Dues,
    /// Who gave it.
    client: &'c Client,
    /// The namespace that the user is bound to; names of requests are full ones.
    space: Option<&'c Space>,
    /// The user.
    user: Option<&'c User>,
    /// The right to write that a transaction holds for all its commands.
    held: Option<&'p mut Permit<'e>>,
    /// Whether it goes on with a command of which items were refused: further refusals are told in few words.
    pub after_refusals: bool,
}

impl<'c, 'p, 'e> Call<'c, 'p, 'e> {
    /// A command on its own.
    pub fn new(
        core: &'c mut Core,
        desk: &'c Desk,
        dues: &'c mut Dues,
        client: &'c Client,
        space: Option<&'c Space>,
    ) -> Self {
        Self { core, desk, dues, client, space, user: None, held: None, after_refusals: false }
    }

    /// One more piece of a command, of which items were refused or not.
    pub fn after_refusals(self, after_refusals: bool) -> Self {
        Self { after_refusals, ..self }
    }

    /// A command of this user.
    pub fn by(self, user: Option<&'c User>) -> Self {
        Self { user, ..self }
    }

    /// A command of a transaction.
    pub fn within(self, permit: &'p mut Permit<'e>) -> Self {
        Self { held: Some(permit), ..self }
    }

    /// Runs it; a refusal is as the user sees it. `full` are the words, with names as they are in the engine.
    pub fn run(mut self, spec: &Spec, request: Request<'_>, full: &[&[u8]]) -> Outcome {
        let space = self.space;
        // Filters that this thread knew and that are gone since must not keep their memory from what this command makes.
        self.core.nearby.refresh(&self.core.engine.names);
        let outcome = dispatch::run(&mut self, request);
        if self.held.is_none() {
            self.core.let_go();
        }
        match (space, outcome) {
            // A transaction holds up those whom it would have to wait for.
            (_, Err(NotDone::Refused(refusal))) if refusal == Refusal::MEMORY_IN_USE && self.held.is_none() => {
                Err(NotDone::Busy)
            }
            (Some(space), Err(NotDone::Refused(refusal))) => Err(space.retold(refusal, spec.names_in(full)).into()),
            (_, outcome) => outcome,
        }
    }

    /// Tells what the client did, for whoever looks into it later.
    pub fn tell(&self, event: &str, what: fmt::Arguments<'_>, fields: &[(&str, Value<'_>)]) {
        self.desk.tell_of(self.client, event, what, fields);
    }

    /// Ends the connection of whoever gave it, after its reply.
    pub fn end_client(&self) {
        self.client.end();
    }

    /// Whether a filter that is not there is an error, and not one without items: for whoever comes over HTTP.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.client.is_visitor
    }

    /// The namespace that the user is bound to.
    #[must_use]
    pub fn space(&self) -> Option<&'c Space> {
        self.space
    }

    /// The number of that namespace in the engine, and itself.
    #[must_use]
    pub fn bound(&self) -> Option<(u16, &'c Space)> {
        self.space.map(|space| (self.core.engine.namespaces.number(space.name()).unwrap_or(0), space))
    }

    /// Whom loads and dumps are for.
    #[must_use]
    pub fn holder(&self) -> Holder {
        match self.bound() {
            Some((number, _)) => Holder::Namespace(number),
            None => Holder::User(self.user.map_or("", |user| &user.name).into()),
        }
    }

    /// The name in the engine of a contract that the user names.
    #[must_use]
    pub fn contract(&self, name: &str) -> String {
        contract_in(self.space, name)
    }

    /// The name of a filter as the user sees it.
    #[must_use]
    pub fn shown(&self, entry: &Entry) -> Vec<u8> {
        let name = entry.name();
        self.space.map_or_else(|| name.to_vec(), |space| space.shown(&name).to_vec())
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> Arc<Engine> {
        self.core.engine.clone()
    }

    /// Whether it is part of a transaction.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.held.is_some()
    }

    /// The right to write that a transaction holds for it.
    #[must_use]
    pub fn held(&self) -> Option<&Permit<'e>> {
        self.held.as_deref()
    }

    /// The reply must not leave before the log is durable up to here.
    pub fn depends_on(&mut self, sequence: u64) {
        self.dues.write(sequence);
    }

    /// The reply shows what was written to a filter: it waits for that to be durable, unless the disk fails.
    pub fn sees(&mut self, entry: &Entry) {
        self.dues.see(entry.touched());
    }

    /// The same after a look at keys. Where one was found that is not in the log yet, there is nothing to wait for: ask
    /// again in a moment.
    pub fn shows(&mut self, entry: &Entry, found: bool) -> Result<(), NotDone> {
        if found && self.core.engine.journal.lookups_wait() && entry.is_ahead_of_the_log() {
            self.core.scratch.come_again(entry.space());
            return Err(NotDone::Busy);
        }
        self.sees(entry);
        Ok(())
    }

    /// The filter of a name, unless its time is over.
    #[must_use]
    pub fn find(&self, name: &[u8]) -> Option<Entry> {
        self.core.engine.find(name)
    }

    /// The filter of a name, of one family and able to answer; nothing if there is none. Its answer may show a write
    /// that is not durable yet, so the reply waits for that.
    pub fn find_of(&mut self, name: &[u8], family: Family) -> Result<Option<Entry>, Refusal> {
        let Some(entry) = self.find(name) else { return Ok(None) };
        if entry.family() != family {
            return Err(Refusal::WRONG_TYPE);
        }
        check_available(&entry)?;
        self.sees(&entry);
        Ok(Some(entry))
    }

    /// Writes through the thread's gate, or with what the transaction holds.
    pub fn write<T>(
        &mut self,
        work: impl FnOnce(&mut Permit<'_>, &mut Core) -> Result<(T, u64), NotDone>,
    ) -> Result<T, NotDone> {
        let engine = self.engine();
        let (value, sequence) = match &mut self.held {
            Some(permit) => work(permit, self.core)?,
            None => {
                let mut permit = engine.pass(self.core.thread);
                work(&mut permit, self.core)?
            }
        };
        self.depends_on(sequence);
        Ok(value)
    }

    /// Changes what there is, with nobody else writing.
    pub fn alone<T>(&mut self, work: impl FnOnce(&mut Permit<'_>) -> Result<(T, u64), Refusal>) -> Result<T, NotDone> {
        let engine = self.engine();
        // Before the permit goes: what was deleted is freed then, unless somebody holds it.
        let nearby = &mut self.core.nearby;
        let work = |permit: &mut Permit<'_>| work(permit).inspect(|_| nearby.refresh(&engine.names));
        let (value, sequence) = match &mut self.held {
            Some(permit) => work(permit)?,
            None => work(&mut engine.stop())?,
        };
        self.depends_on(sequence);
        Ok(value)
    }
}
