//! Caps on single clients: how many lookups of each may reach the source and find nothing, and how many rows each may add.
//!
//! What the filter, the negative cache and the cache answer costs the source nothing, and is never refused. Who is about to
//! read at the source takes a [`Place`] first; it gives it back when the row is there (or when the source failed, which is
//! nobody's fault), and turns it into a miss when there is none. A place that is taken counts like a miss: so however many
//! lookups of a client run at once, no more of them than its limit can miss. One for which there is no place while others
//! of the client are under way **waits** for those, and is refused only when the misses themselves are too many: lookups
//! that find their rows are never refused.
//!
//! ```text
//!  debt of a client   │■■■■■■■ misses ■■■■■■■│□□ places □□│        room        │
//!                     0      runs out with time                             the limit
//! ```
//!
//! **Memory is bounded.** Only clients with a debt or a lookup under way are remembered, and no more than
//! [`MOST_CLIENTS`] (8 MB). Beyond, those are forgotten whose debt ends first: a client that is forgotten begins anew, and
//! one that is capped is forgotten last. No client ever pays for another.

mod client;
mod limit;
mod table;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

pub use client::ClientId;
pub use limit::Limit;
pub use table::MOST_CLIENTS;

use crate::clock::Clock;
use table::{Entry, Table};

/// Lookups of one client that may wait for others of it.
const WAITING_EACH: u32 = 256;
/// Lookups of all clients that may.
const WAITING_ALL: usize = 4_096;
/// What those beyond are told.
const SHORTLY: Duration = Duration::from_secs(1);
/// One client is news at most so often.
const NEWS: Duration = Duration::from_secs(60);
/// How many capped clients are named in [`Callers::capped`].
const NAMED: usize = 10;

/// What a cap counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cap {
    /// Lookups that reached the source and found nothing.
    Misses,
    /// Rows that were added.
    Adds,
}

impl Cap {
    /// The name in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Misses => "misses",
            Self::Adds => "adds",
        }
    }
}

/// A client is over its limit: what would cost the source something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany {
    /// Who.
    pub client: ClientId,
    /// Of what.
    pub cap: Cap,
    /// How many are allowed.
    pub limit: Limit,
    /// When one more is allowed.
    pub retry_after: Duration,
    /// Whether this client was not told of within the last minute.
    pub is_news: bool,
}

impl fmt::Display for TooMany {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, per, again) = (self.limit.count(), self.limit.per(), self.retry_after);
        write!(to, "the client {} is over its cap: ", self.client)?;
        match self.cap {
            Cap::Misses => write!(to, "{count} of its lookups in {per:?} may reach the source and find nothing")?,
            Cap::Adds => write!(to, "it may add {count} rows in {per:?}")?,
        }
        write!(to, "; try again in {} s", again.as_millis().div_ceil(1000).max(1))
    }
}

/// The caps on single clients. Share one among the gates that a client may ask.
#[derive(Debug)]
pub struct Callers {
    misses: Option<Limit>,
    adds: Option<Limit>,
    clock: Clock,
    table: Table,
    waiting: AtomicUsize,
}

/// Leave to ask the source once, for a client. Dropped, it is as if nobody had asked.
#[derive(Debug)]
pub struct Place {
    /// Nothing if nobody counts.
    held: Option<(Arc<Callers>, ClientId)>,
}

impl Place {
    /// Whether somebody counts what comes of it.
    #[cfg(feature = "layer")]
    pub(crate) fn is_counted(&self) -> bool {
        self.held.is_some()
    }

    /// The source was asked and had nothing.
    pub fn missed(mut self) {
        if let Some((callers, client)) = self.held.take() {
            callers.leave(client, true);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some((callers, client)) = self.held.take() {
            callers.leave(client, false);
        }
    }
}

/// One lookup that waits for others of its client.
struct Waiting<'a>(&'a Callers, ClientId);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Self(callers, client) = self;
        callers.waiting.fetch_sub(1, Relaxed);
        callers.table.change(client, callers.now(), |entry| entry.waiting = entry.waiting.saturating_sub(1));
    }
}

impl Callers {
    /// Caps of so many misses and adds for each client; `None` for no cap.
    #[must_use]
    pub fn new(misses: Option<Limit>, adds: Option<Limit>) -> Self {
        Self::with_clock(misses, adds, Clock::system())
    }

    /// [`new`](Self::new), with the clock by which debts run out.
    #[must_use]
    pub fn with_clock(misses: Option<Limit>, adds: Option<Limit>, clock: Clock) -> Self {
        Self { misses, adds, clock, table: Table::default(), waiting: AtomicUsize::new(0) }
    }

    /// The limit of a cap.
    #[must_use]
    pub fn limit(&self, cap: Cap) -> Option<Limit> {
        match cap {
            Cap::Misses => self.misses,
            Cap::Adds => self.adds,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether one more lookup of a client may reach the source. Takes nothing: for those who report by
    /// [`missed`](Self::missed) afterwards. Many that are checked at once may all miss; by [`reserve`](Self::reserve) they
    /// may not.
    ///
    /// # Errors
    ///
    /// [`TooMany`] if its misses are too many.
    pub fn check(&self, client: &ClientId) -> Result<(), TooMany> {
        let Some(limit) = self.misses else { return Ok(()) };
        let now = self.now();
        let judged = self.table.look(client, |entry| judge(entry, limit, client, now));
        judged.unwrap_or(Ok(()))
    }

    /// Lookups of a client have reached the source and found nothing, without a [`Place`]. The debt never becomes larger
    /// than the limit: nobody is refused for longer than its time.
    pub fn missed(&self, client: &ClientId, many: u64) {
        let Some(limit) = self.misses else { return };
        let now = self.now();
        self.table.with(client, now, |entry| entry.misses = charged(entry.misses, limit, many, now));
    }

    /// A place for one lookup, if there is one now. `None`: others of the client are under way and may miss, so this one
    /// must wait.
    ///
    /// # Errors
    ///
    /// [`TooMany`] if its misses are too many.
    pub fn try_reserve(self: &Arc<Self>, client: ClientId) -> Result<Option<Place>, TooMany> {
        let Some(limit) = self.misses else { return Ok(Some(Place { held: None })) };
        let now = self.now();
        let taken = self.table.with(&client, now, |entry| {
            judge(entry, limit, &client, now)?;
            let places = limit.one() * (u64::from(entry.held) + 1);
            if entry.misses.saturating_sub(now) + places > limit.all() {
                return Ok(false);
            }
            entry.held += 1;
            Ok(true)
        });
        match taken {
            Some(Ok(true)) => Ok(Some(Place { held: Some((self.clone(), client)) })),
            Some(Ok(false)) => Ok(None),
            Some(Err(too_many)) => Err(too_many),
            // Every client that is remembered has a lookup under way. The cap on all reads holds all the same.
            None => Ok(Some(Place { held: None })),
        }
    }

    /// A place for one lookup that is about to reach the source: waits while others of the client are under way and might
    /// use up what is left.
    ///
    /// # Errors
    ///
    /// [`TooMany`] if its misses are too many, or too many of its lookups wait.
    pub async fn reserve(self: &Arc<Self>, client: ClientId) -> Result<Place, TooMany> {
        if let Some(place) = self.try_reserve(client)? {
            return Ok(place);
        }
        let _waiting = self.wait(client)?;
        let freed = self.table.freed(&client);
        loop {
            let given_back = freed.notified();
            tokio::pin!(given_back);
            // Listening before the look: a place given back between the two is not missed.
            given_back.as_mut().enable();
            if let Some(place) = self.try_reserve(client)? {
                return Ok(place);
            }
            given_back.await;
        }
    }

    fn wait(&self, client: ClientId) -> Result<Waiting<'_>, TooMany> {
        let all = self.waiting.fetch_add(1, Relaxed);
        let its = self.table.with(&client, self.now(), |entry| {
            entry.waiting += 1;
            entry.waiting
        });
        // Given back at once if there is no room.
        let waiting = Waiting(self, client);
        match (self.misses, all < WAITING_ALL && its.is_some_and(|its| its <= WAITING_EACH)) {
            (Some(limit), false) => {
                Err(TooMany { client, cap: Cap::Misses, limit, retry_after: SHORTLY, is_news: false })
            }
            _ => Ok(waiting),
        }
    }

    fn leave(&self, client: ClientId, missed: bool) {
        let (Some(limit), now) = (self.misses, self.now()) else { return };
        self.table.change(&client, now, |entry| {
            entry.held = entry.held.saturating_sub(1);
            if missed {
                entry.misses = charged(entry.misses, limit, 1, now);
            }
        });
    }

    /// Counts rows that a client adds, before they are added.
    ///
    /// # Errors
    ///
    /// [`TooMany`] if they are too many; then none is counted.
    pub fn added(&self, client: &ClientId, many: u64) -> Result<(), TooMany> {
        let Some(limit) = self.adds else { return Ok(()) };
        let now = self.now();
        let taken = self.table.with(client, now, |entry| {
            let (debt, cost) = (entry.adds.saturating_sub(now), limit.one().saturating_mul(many));
            if debt.saturating_add(cost) > limit.all() {
                let retry_after = Duration::from_nanos(debt.saturating_add(cost.min(limit.all())) - limit.all());
                let is_news = entry.is_news(now);
                return Err(TooMany { client: *client, cap: Cap::Adds, limit, retry_after, is_news });
            }
            entry.adds = charged(entry.adds, limit, many, now);
            Ok(())
        });
        taken.unwrap_or(Ok(()))
    }

    /// How many clients are remembered: those with a debt that has not been cleared away yet, or a lookup under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many clients are over a limit now, and those for whom it takes longest, at most ten: who, of what, how long.
    #[must_use]
    pub fn capped(&self) -> (usize, Vec<(ClientId, Cap, Duration)>) {
        let (now, mut all) = (self.now(), Vec::new());
        self.table.each(|client, entry| {
            for (cap, until) in [(Cap::Misses, entry.misses), (Cap::Adds, entry.adds)] {
                let Some(limit) = self.limit(cap) else { continue };
                let over = (until.saturating_sub(now) + limit.one()).saturating_sub(limit.all());
                if over > 0 {
                    all.push((*client, cap, Duration::from_nanos(over)));
                }
            }
        });
        all.sort_by_key(|(_, _, over)| std::cmp::Reverse(*over));
        let many = all.len();
        all.truncate(NAMED);
        (many, all)
    }
}

/// The moment a debt ends after so many more; never later than that of all that are allowed.
fn charged(until: u64, limit: Limit, many: u64, now: u64) -> u64 {
    until.max(now).saturating_add(limit.one().saturating_mul(many)).min(now.saturating_add(limit.all()))
}

/// Whether one more miss is allowed, those under way aside.
fn judge(entry: &mut Entry, limit: Limit, client: &ClientId, now: u64) -> Result<(), TooMany> {
    let over = (entry.misses.saturating_sub(now) + limit.one()).saturating_sub(limit.all());
    if over == 0 {
        return Ok(());
    }
    let (retry_after, is_news) = (Duration::from_nanos(over), entry.is_news(now));
    Err(TooMany { client: *client, cap: Cap::Misses, limit, retry_after, is_news })
}

impl Entry {
    /// Whether it is time to tell of this client; if so, it is told.
    fn is_news(&mut self, now: u64) -> bool {
        let is_news = self.untold_until <= now;
        if is_news {
            self.untold_until = now.saturating_add(NEWS.as_nanos() as u64);
        }
        is_news
    }
}

#[cfg(test)]
mod tests;
