//! The caps on single clients where they meet the gate: before the source is asked, and before a row is added.

use std::sync::Arc;

use bloomgate::Digest;

use super::{Gate, Inner};
use crate::callers::{Callers, Cap, ClientId, Place, TooMany};
use crate::counters::{Count, Counters};
use crate::error::{Error, ErrorKind, Result};
use crate::events::{Event, Events};
use crate::shards::Turn;

/// Whose lookup it is, and who counts; nothing where nobody does.
pub(crate) type Counted<'a> = Option<(&'a Arc<Callers>, ClientId)>;

impl Gate {
    /// The caps on single clients, if there are any.
    #[must_use]
    pub fn callers(&self) -> Option<&Arc<Callers>> {
        self.inner.callers.as_ref()
    }

    /// Whether a client may cause one more question to the source, for those who ask the source themselves: counted and
    /// told like a refusal of the gate's own. What came of it is said by [`Callers::missed`].
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TooManyMisses`].
    pub fn check_client(&self, client: &ClientId) -> Result<()> {
        let Some(callers) = &self.inner.callers else { return Ok(()) };
        callers.check(client).map_err(|too_many| {
            let refused = self.inner.capped(&too_many);
            self.inner.count_failure(Some(&refused));
            refused
        })
    }
}

impl Inner {
    pub(super) fn counted(&self, client: Option<ClientId>) -> Counted<'_> {
        self.callers.as_ref().zip(client)
    }

    /// How a lookup goes on, and for one that is to read its place under its client's cap. One that joins another's read
    /// costs the source nothing, and needs none.
    pub(super) async fn turn(
        &self,
        digest: Digest,
        remembered: bool,
        counted: Counted<'_>,
    ) -> Result<(Turn, Option<Place>)> {
        let Some((callers, client)) = counted else { return Ok((self.shards.read(digest, remembered), None)) };
        if let Some(turn) = self.shards.join(digest, remembered) {
            return Ok((turn, None));
        }
        let capped = |too_many: TooMany| self.capped(&too_many);
        if let Some(place) = callers.try_reserve(client).map_err(capped)? {
            return Ok(self.with_place(digest, remembered, place));
        }
        let place = callers.reserve(client).await.map_err(capped)?;
        // The filter was asked before the wait: what is remembered by now may not count beside the one that is there by now.
        Ok(self.with_place(digest, false, place))
    }

    /// [`turn`](Self::turn) that waits for nothing: `None` if the client has no place now.
    pub(super) fn turn_now(
        &self,
        digest: Digest,
        remembered: bool,
        counted: Counted<'_>,
    ) -> Result<Option<(Turn, Option<Place>)>> {
        let Some((callers, client)) = counted else { return Ok(Some((self.shards.read(digest, remembered), None))) };
        if let Some(turn) = self.shards.join(digest, remembered) {
            return Ok(Some((turn, None)));
        }
        let place = callers.try_reserve(client).map_err(|too_many| self.capped(&too_many))?;
        Ok(place.map(|place| self.with_place(digest, remembered, place)))
    }

    fn with_place(&self, digest: Digest, remembered: bool, place: Place) -> (Turn, Option<Place>) {
        match self.shards.read(digest, remembered) {
            lead @ Turn::Lead(..) => (lead, Some(place)),
            // Somebody else began to read, or has read, meanwhile.
            other => (other, None),
        }
    }

    /// A place for a question to the source that is no lookup.
    pub(crate) async fn place(&self, client: Option<ClientId>) -> Result<Option<Place>> {
        match self.counted(client) {
            None => Ok(None),
            Some((callers, client)) => {
                Box::pin(callers.reserve(client)).await.map(Some).map_err(|too_many| self.capped(&too_many))
            }
        }
    }

    /// Counts rows that a client adds, or refuses them.
    pub(crate) fn count_adds(&self, client: Option<ClientId>, many: usize) -> Result<()> {
        count_adds(self.counted(client), &self.events, &self.counters, many)
    }

    /// Counts a write that is passed on, by the keys that the filter may have to take for it: a row is one, and how many
    /// readings its key has is the client's choice. More than a client may add at all are counted as all of those: it may
    /// write such a row, and then nothing else for the whole time.
    #[cfg(any(feature = "layer", feature = "proxy"))]
    pub(crate) fn count_readings(&self, client: Option<ClientId>, keys: usize) -> Result<()> {
        let limit = self.callers.as_ref().and_then(|callers| callers.limit(Cap::Adds));
        self.count_adds(client, limit.map_or(keys, |limit| keys.min(limit.count() as usize)))
    }

    /// The error that a client gets; tells of it, if it is news.
    fn capped(&self, too_many: &TooMany) -> Error {
        refusal(&self.events, too_many)
    }
}

/// The error that a client gets; tells of it, if it is news.
pub(crate) fn refusal(events: &Events, too_many: &TooMany) -> Error {
    let &TooMany { client, cap, limit, retry_after, is_news } = too_many;
    if is_news {
        events.tell(Event::Capped { client, cap, limit });
    }
    let kind = match cap {
        Cap::Misses => ErrorKind::TooManyMisses,
        Cap::Adds => ErrorKind::TooManyAdds,
    };
    Error::new(kind, too_many.to_string()).again_after(retry_after)
}

/// Counts rows that a client adds, or refuses them.
pub(crate) fn count_adds(counted: Counted<'_>, events: &Events, counters: &Counters, many: usize) -> Result<()> {
    let Some((callers, client)) = counted else { return Ok(()) };
    if let Some(limit) = callers.limit(Cap::Adds).filter(|limit| many > limit.count() as usize) {
        let message = format!("{many} rows in one call, and a client may add {limit}: write in parts");
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    callers.added(&client, many as u64).map_err(|too_many| {
        counters.add(Count::CappedAdds, many as u64);
        refusal(events, &too_many)
    })
}

/// Ends a place by what the source said: only a row that is not there counts. A source that failed is nobody's fault.
pub(crate) fn leave<T>(place: Option<Place>, read: &Result<Option<T>>) {
    if let (Some(place), Ok(None)) = (place, read) {
        place.missed();
    }
}
