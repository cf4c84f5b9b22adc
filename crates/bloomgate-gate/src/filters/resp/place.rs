//! Where a filter is: under its temporary name, then under the base name, then the one that was published after it is there;
//! and what it must not be taken for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::super::replies::{Said, booleans};
use super::Hall;
use crate::error::{Error, ErrorKind, Result};
use crate::link::{Again, Replies};

/// A filter, under one of its two names.
pub(super) struct One {
    pub(super) hall: Arc<Hall>,
    pub(super) version: u64,
    /// Its place in the chain.
    pub(super) place: u64,
    pub(super) temporary: String,
    pub(super) sentinels: Vec<Vec<u8>>,
    pub(super) run: Arc<str>,
    /// It is under the base name for certain. While this is false it is under the temporary one, or already under the
    /// base: asked in this order it is never missed, since it only ever moves that way.
    pub(super) is_published: AtomicBool,
    /// It does not stand in for the one before it.
    pub(super) is_withdrawn: AtomicBool,
    /// An add failed or was given up: keys that the one before it has may be missing.
    pub(super) is_incomplete: AtomicBool,
    pub(super) lost: OnceLock<String>,
}

/// Which connection is used.
#[derive(Clone, Copy)]
pub(super) enum Size {
    /// That of lookups.
    Few,
    /// That of fills.
    Many,
}

impl One {
    /// Sends commands to where this filter is, or to the one that was published in its place, and reads their replies.
    /// `read` says that something is missing when the filter under that name is not this one.
    pub(super) async fn wherever_it_is<T>(
        self: Arc<Self>,
        size: Size,
        ends: Instant,
        build: impl Fn(&Self, &str) -> Pipeline,
        read: impl Fn(&Self, &[Value]) -> std::result::Result<T, Said>,
    ) -> Result<T> {
        let hall = &self.hall;
        let link = match size {
            Size::Few => &hall.asks,
            Size::Many => &hall.fills,
        };
        let mut one = self.clone();
        loop {
            let names: &[&str] = match one.is_published.load(Ordering::Acquire) {
                true => &[&hall.base],
                false => &[&one.temporary, &hall.base],
            };
            for name in names {
                if let Some(why) = one.lost.get() {
                    return Err(self.lose(why));
                }
                let left = ends.saturating_duration_since(Instant::now());
                let commands = build(&one, name);
                let replies = link.run(left, &commands, Again::Once).await.map_err(|trouble| hall.error(trouble))?;
                match read(&one, &one.of_its_run(replies)?) {
                    Ok(value) => return Ok(value),
                    Err(said) if said.is_missing => {}
                    Err(said) => return Err(hall.refused(&said.text)),
                }
            }
            match one.successor() {
                Some(next) => one = next,
                None => {
                    let why = "what has its name is another filter, or nothing: it was flushed, evicted or overwritten";
                    one.lose(why);
                    return Err(self.lose(why));
                }
            }
        }
    }

    /// The filter that was published after this one, or is being published now.
    fn successor(&self) -> Option<Arc<Self>> {
        let newest = self.hall.newest.lock().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        let stands_in = !newest.is_withdrawn.load(Ordering::Acquire) && !newest.is_incomplete.load(Ordering::Acquire);
        (newest.place > self.place && stands_in).then_some(newest)
    }

    /// The replies, if they are of the run of the server that the filter was made in.
    pub(super) fn of_its_run(&self, replies: Replies) -> Result<Vec<Value>> {
        if replies.run == self.run {
            return Ok(replies.values);
        }
        Err(self.lose("the server was restarted or is another one, and keys may be missing from what it has"))
    }

    fn lose(&self, why: &str) -> Error {
        let why = self.lost.get_or_init(|| why.to_owned());
        let (name, address) = (&self.hall.base, self.hall.asks.address());
        Error::new(ErrorKind::Filter, format!("the filter {name} at {address} is lost: {why}"))
    }

    /// Asks for the sentinels after other commands.
    pub(super) fn prove(&self, commands: &mut Pipeline, name: &str) {
        commands.cmd("BF.MEXISTS").arg(name).arg(&self.sentinels);
    }

    /// The replies to the other commands, if the sentinels were there.
    pub(super) fn proven<'a>(&self, values: &'a [Value]) -> std::result::Result<&'a [Value], Said> {
        let (proof, others) = values.split_last().ok_or_else(|| Said::odd("nothing"))?;
        if booleans(proof, self.sentinels.len())?.contains(&false) {
            return Err(Said::missing());
        }
        Ok(others)
    }
}

/// An add under way. If it fails the filter is incomplete before its caller learns of it, so before the row of the key is
/// written anywhere: nobody who looks for the row then is answered by a filter that does not have it.
pub(super) struct Adding<'a> {
    one: &'a One,
    is_done: bool,
}

impl<'a> Adding<'a> {
    pub(super) fn to(one: &'a One) -> Self {
        Self { one, is_done: false }
    }

    pub(super) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for Adding<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.one.is_incomplete.store(true, Ordering::Release);
        }
    }
}

/// A publication under way: unless it is done the filter stands in for no other, also when its caller goes away. A renaming
/// that happens later then makes the filter before it lost, which is right: this one has not had its keys since.
pub(super) struct Publishing<'a> {
    one: &'a One,
    is_done: bool,
}

impl<'a> Publishing<'a> {
    /// Told before the renaming: who finds the other filter under the base name meanwhile must know whose it is.
    pub(super) fn of(one: &'a Arc<One>) -> Self {
        one.is_withdrawn.store(false, Ordering::Release);
        *one.hall.newest.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(one);
        Self { one, is_done: false }
    }

    pub(super) fn done(mut self) {
        self.one.is_published.store(true, Ordering::Release);
        self.is_done = true;
    }
}

impl Drop for Publishing<'_> {
    fn drop(&mut self) {
        if !self.is_done {
            self.one.is_withdrawn.store(true, Ordering::Release);
        }
    }
}
