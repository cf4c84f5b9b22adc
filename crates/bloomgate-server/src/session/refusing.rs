//! Items that were not added: what each of them answers.
//!
//! A command may have a million items, and each has an answer of its own. So the first ones are told in full, with figures and
//! what to do; the others in a few fixed words, which take 40 bytes and no memory of their own.

use bloomgate_command::{Refusal, Reply};

use super::space::Space;
use crate::engine::Engine;
use crate::engine::adding::Added;

/// So many items of a command are told in full why they were refused.
const IN_FULL: usize = 100;

/// That an item was refused because its filter cannot grow, with the figures if there are any.
#[must_use]
pub fn no_memory(engine: &Engine, space: Option<&Space>, name: &[u8], head: Refusal) -> Refusal {
    let Some(why) = engine.find(name).and_then(|entry| engine.why_not_grown(&entry)) else { return head };
    let refusal = Refusal::new(format!("{head}: {why}"));
    match space {
        Some(space) => space.retold(refusal, std::iter::once(name)),
        None => refusal,
    }
}

/// Answers to the items of one command.
#[derive(Debug)]
pub struct Answers<F> {
    /// The refusal in full.
    full: F,
    /// The same in few words.
    short: fn(Added) -> Refusal,
    /// The refusal that was told last: nearly always it is the next one too.
    last: Option<(Added, Refusal)>,
    told: usize,
}

impl<F: Fn(Added) -> Refusal> Answers<F> {
    /// Answers whose refusals are these; after others of the same command, all are in few words.
    pub fn new(full: F, short: fn(Added) -> Refusal, after_refusals: bool) -> Self {
        Self { full, short, last: None, told: if after_refusals { IN_FULL } else { 0 } }
    }

    /// The refusal of one more item.
    pub fn refusal(&mut self, added: Added) -> Refusal {
        if self.told >= IN_FULL {
            return (self.short)(added);
        }
        self.told += 1;
        match &self.last {
            Some((known, refusal)) if *known == added => refusal.clone(),
            _ => {
                let refusal = (self.full)(added);
                self.last = Some((added, refusal.clone()));
                refusal
            }
        }
    }

    /// The answer to one more item: whether it was new, or why it was refused.
    pub fn reply(&mut self, added: Added) -> Reply {
        match added {
            Added::New => Reply::Bool(true),
            Added::Known => Reply::Bool(false),
            refused => Reply::Error(self.refusal(refused)),
        }
    }
}
