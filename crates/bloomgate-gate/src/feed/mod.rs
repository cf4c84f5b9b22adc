//! Feeds: what others write to a table, told by the database itself, so that a gate may say no though it is not the only
//! writer.
//!
//! Triggers of the table put each change into an **outbox**, a table beside it, in the writer's own transaction. A gate
//! follows the outbox and puts the keys into its filter. So the filter is a step behind, and each "no" says as of when it
//! is right: the **watermark**, the time just before the outbox was last read to its end. Every row that was committed
//! before the watermark is in the filter; past `max_staleness` there is no "no".
//!
//! What could make that untrue is looked for with every read, in the same snapshot: whether the triggers are there and
//! always fire, whether the table is the same and was not rewritten, whether the outbox goes on where the last read ended.
//! If not, the filter is not trusted until a new one is built from a scan.

mod following;
mod freshness;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod names;

use std::time::Duration;

pub(crate) use following::{Feeding, run};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) use names::Names;
#[cfg(feature = "sqlite")]
pub(crate) use names::is_of_feed;

use crate::Pending;
use crate::error::Result;
use crate::key::Key;

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The key is there from now on: a row was inserted, or got this key.
    Written,
    /// The row has other values; its key is the same.
    Changed,
    /// The key is gone: its row was deleted, or got another key.
    Deleted,
    /// All rows are gone: the table was truncated.
    Emptied,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl ChangeKind {
    /// The kind by its number in an outbox; nothing for a number of no change.
    pub(crate) fn of(number: i64) -> Option<Self> {
        Some(match number {
            1 => Self::Written,
            2 => Self::Changed,
            3 => Self::Deleted,
            4 => Self::Emptied,
            _ => return None,
        })
    }
}

/// A change that a feed tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The key, as a scan gives it; none if it is null or the whole table was emptied.
    pub key: Option<Key>,
    /// The value of the tenant's column, as text, if the feed was installed with one.
    pub tenant: Option<String>,
}

/// Who is told what others wrote, in the order in which the feed has it.
pub trait Receiver: Send + Sync {
    /// Takes some changes. When it returns, no lookup that begins later is answered from before them.
    fn take<'a>(&'a self, changes: &'a [Change]) -> Pending<'a, ()>;

    /// The database may have lost its last commits in a crash, those that were told among them. When it returns, no lookup that
    /// begins later is answered from what was read before.
    fn forget<'a>(&'a self) -> Pending<'a, ()>;
}

/// A place in a feed, and what it takes to find it again: kept beside the filter that has everything up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(pub String);

/// How a gate follows a feed.
#[derive(Clone, Debug)]
pub struct FeedOptions {
    /// The name under which the gate's place is held in the database, while others clear away what was read.
    pub reader: String,
    /// How long it is held when the gate does not say that it is there.
    pub hold: Duration,
}

/// The feed of a table, followed by one gate.
///
/// An error of kind [`Gap`](crate::ErrorKind::Gap) says that it cannot be followed from where it was: whatever was built
/// before says nothing any more, and a new place has to be taken by [`anchor`](Self::anchor) before a new scan. Any other
/// error may pass: the next read goes on.
pub trait Feed: Send + Sync + 'static {
    /// What it is, for reports.
    fn describe(&self) -> String;

    /// How long to wait between two reads.
    fn pause(&self) -> Duration;

    /// Looks whether it is whole: installed on this table, with triggers that fire.
    fn check(&self) -> Pending<'_, Result<()>>;

    /// Takes its place at this moment: what is committed from now on will be read.
    fn anchor(&self) -> Pending<'_, Result<()>>;

    /// Takes the place of a mark again, from which everything will be read.
    fn resume<'a>(&'a self, mark: &'a Mark) -> Pending<'a, Result<()>>;

    /// Hands over everything that was committed before the call and not read yet, and goes on behind it. What was handed over
    /// before an error may be handed over again.
    fn read<'a>(&'a self, to: &'a dyn Receiver) -> Pending<'a, Result<()>>;

    /// The place behind what was handed over last; none before it has one.
    fn mark(&self) -> Option<Mark>;

    /// Says that this gate is there, writes its place down in the database, and clears away what nobody needs. `kept`: a
    /// filter that has everything up to this mark is on disk.
    fn release<'a>(&'a self, kept: Option<&'a Mark>) -> Pending<'a, Result<()>>;

    /// Gives its place up: nothing is held for this gate any more.
    fn leave(&self) -> Pending<'_, Result<()>>;
}

/// How a feed is installed.
#[derive(Clone, Debug, Default)]
pub struct FeedPlan {
    /// Tell keys that come and go, and not that a row has other values: less work for writers, but rows in a gate's cache may
    /// be old for as long as they are kept there.
    pub only_keys: bool,
    /// A column whose value is told beside the key.
    pub tenant: Option<String>,
    /// Roles of PostgreSQL under which gates follow the feed.
    pub readers: Vec<String>,
}

/// What was done to install or remove a feed.
#[derive(Clone, Debug)]
pub struct FeedWork {
    /// Whether anything was to be done at all.
    pub changed: bool,
    /// The outbox.
    pub outbox: String,
    /// The statements, each as it was or would be run.
    pub sql: Vec<String>,
}

/// An error that says: a scan is needed.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn gap(why: impl Into<String>) -> crate::error::Error {
    crate::error::Error::new(crate::error::ErrorKind::Gap, why)
}

/// An error for a feed that is not there or not whole, and what to do about it.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn not_whole(table: &str, why: impl std::fmt::Display) -> crate::error::Error {
    gap(format!("the feed of {table} is not whole: {why}; run bloomgate gate install-feed"))
}

/// An error for a feed that another version of Bloomgate installed.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn other_form(table: &str, found: i64, followed: i64) -> crate::error::Error {
    let why = format!(
        "another version of Bloomgate installed it (its form is {found}, this one follows {followed}), and it has to be \
         installed again"
    );
    not_whole(table, why)
}

/// An error for a feed whose tenants' column was renamed or dropped.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn lacks_tenant(table: &str, column: &str) -> crate::error::Error {
    not_whole(table, format!("it tells the column {column} beside the key, and {table} has none of that name"))
}
