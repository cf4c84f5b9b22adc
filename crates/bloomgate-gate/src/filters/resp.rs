//! Filters behind the Redis protocol: our own server, RedisBloom or valkey-bloom.
//!
//! ```text
//!   create    BF.RESERVE base:next:7:… ─┐ every writer of this process knows both names
//!   add       BF.INSERT … NOCREATE      │
//!   publish   RENAME base:next:7:… base ┘ what was under base is gone
//!   ask       BF.MEXISTS base sentinels… keys…
//! ```
//!
//! A server answers 0 for a filter that is not there, and 0 is a "no". So each filter has sentinels: items that only it has,
//! asked for in the same command as the keys. If one of them is missing, the filter was flushed, evicted, overwritten or
//! never was ours, and the answer is the error "lost", not "no". Sentinels of one filter are found in another by chance, as
//! any key is: there are as many as make that rarer than one in a billion.
//!
//! Items are hashed by the server, and not always under a secret. A gate therefore gives no keys but their digests under a
//! secret of its own: see `Generation`.
//!
//! A restarted server may come back with a filter of some minutes ago, sentinels and all. It has another run id (`INFO`),
//! which also makes the filter lost: see `link`.
//!
//! `EXPANSION 2` and never `NONSCALING`: a filter that is full and refuses keys would stop every write.

mod batches;
mod place;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use self::batches::{check, groups};
use self::place::{Adding, One, Publishing, Size};
use super::replies::{Said, booleans, facts};
use crate::breaker::{BreakerCounts, BreakerState};
use crate::error::{Error, ErrorKind, Result};
use crate::link::{Again, Link, OPENING, Trouble, random_bytes, random_name, refusal};

/// How long a question may take when nothing else is said.
pub const DEADLINE: Duration = Duration::from_millis(50);
/// How long a pipeline of a rebuild, a new filter or a renaming may take.
pub const FILL_DEADLINE: Duration = Duration::from_secs(10);
/// More keys than this in one add are a fill: they have its deadline and its connection, so that lookups do not queue
/// behind megabytes of keys.
const FEW: usize = 100;
/// How seldom the sentinels of one filter are all found in another.
const MISTAKE: f64 = 1e-9;
/// The longest base name.
const LONGEST_NAME: usize = 256;
/// A filter that was never published (its process ended) ends after a day by itself.
const UNPUBLISHED_MS: u64 = 86_400_000;

/// Filters of this process behind a server.
pub struct RespFilters {
    hall: Arc<Hall>,
}

/// What all filters of one chain share.
struct Hall {
    asks: Link,
    fills: Link,
    base: String,
    deadline: Duration,
    /// How many were made.
    made: AtomicU64,
    /// The one that was published last, or is being published.
    newest: Mutex<Weak<One>>,
}

/// A filter behind a server. Clones are the same filter.
#[derive(Clone)]
pub struct Remote {
    one: Arc<One>,
}

/// What a server says about a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteInfo {
    /// For how many keys it has room at its rate.
    pub capacity: u64,
    /// The memory it takes.
    pub bytes: u64,
    /// The keys that were new to it.
    pub items: u64,
    /// The filters that it consists of: more than one when it has grown.
    pub stages: u64,
}

impl RespFilters {
    /// Filters in the server at this address (`redis://[user:password@]host[:port][/database]`), which is asked whether it
    /// has the commands. The published one is named `base_name`; a lookup has until the deadline ([`DEADLINE`] is a good
    /// one).
    pub async fn connect(url: &str, base_name: &str, deadline: Duration) -> Result<Self> {
        let filters = Self::unconnected(url, base_name, deadline)?;
        let hall = &filters.hall;
        let mut ask = redis::pipe();
        ask.cmd("BF.EXISTS").arg(format!("{base_name}:next:0:{}", random_name())).arg("x");
        let replies = hall.asks.run(OPENING, &ask, Again::Once).await.map_err(|trouble| hall.error(trouble))?;
        match &replies.values[..] {
            [Value::ServerError(error)] if refusal(error).to_ascii_lowercase().contains("unknown command") => {
                Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "the server at {} has no filters: use `bloomgate serve`, or load RedisBloom or valkey-bloom",
                        hall.asks.address()
                    ),
                ))
            }
            // A server of the older kind says that there is no such filter: it has the command.
            [Value::ServerError(error)] if !Said::new(error).is_missing => Err(hall.refused(&refusal(error))),
            _ => Ok(filters),
        }
    }

    /// [`connect`](Self::connect) to a server that may not be there yet: it is reached for at the first call.
    pub fn unconnected(url: &str, base_name: &str, deadline: Duration) -> Result<Self> {
        if base_name.is_empty() || base_name.len() > LONGEST_NAME {
            let message = format!("a name of {} bytes: a filter needs one of 1 to {LONGEST_NAME}", base_name.len());
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let hall = Hall {
            asks: Link::new(url, deadline)?,
            fills: Link::new(url, FILL_DEADLINE)?,
            base: base_name.to_owned(),
            deadline,
            made: AtomicU64::new(0),
            newest: Mutex::new(Weak::new()),
        };
        Ok(Self { hall: Arc::new(hall) })
    }

    /// What it is, for reports. Never with a password.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} at {}", self.hall.base, self.hall.asks.address())
    }

    /// What the circuit breaker in front of lookups has seen.
    #[must_use]
    pub fn breaker(&self) -> BreakerCounts {
        self.hall.asks.counts()
    }

    /// What the circuit breaker in front of fills has seen.
    #[must_use]
    pub fn fills_breaker(&self) -> BreakerCounts {
        self.hall.fills.counts()
    }

    /// Makes an empty filter under a temporary name, for so many keys (headroom included) at this rate.
    pub async fn create(&self, version: u64, capacity: u64, rate: f64) -> Result<Remote> {
        if !(rate > 0.0 && rate < 1.0) || capacity == 0 {
            let message =
                format!("a filter for {capacity} keys at a rate of {rate}: give 1 key or more, and a rate in (0, 1)");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
        let hall = &self.hall;
        let name = random_name();
        let count = (MISTAKE.ln() / rate.ln()).ceil().clamp(1.0, 32.0) as u64;
        // Random bytes, as long as the digest of a key: on the way and in the server they look like any other item.
        let sentinels: Vec<Vec<u8>> = (0..count).map(|_| random_bytes().to_vec()).collect();
        let temporary = format!("{}:next:{version}:{name}", hall.base);
        let mut make = redis::pipe();
        make.cmd("BF.RESERVE").arg(&temporary).arg(rate.to_string()).arg(capacity.saturating_add(count));
        make.arg("EXPANSION").arg(2);
        make.cmd("BF.INSERT").arg(&temporary).arg("NOCREATE").arg("ITEMS").arg(&sentinels);
        make.cmd("PEXPIRE").arg(&temporary).arg(UNPUBLISHED_MS);
        let made = hall.fills.run(FILL_DEADLINE, &make, Again::Once).await.map_err(|trouble| hall.error(trouble))?;
        match &made.values[0] {
            Value::Okay => {}
            // Sent twice, as the connection broke: nobody else has such a name.
            Value::ServerError(error) if Said::new(error).is_there_already => {}
            Value::ServerError(error) => return Err(hall.refused(&refusal(error))),
            _ => return Err(hall.refused("BF.RESERVE is answered with something else than OK")),
        }
        booleans(&made.values[1], sentinels.len()).map_err(|said| hall.refused(&said.text))?;
        let place = hall.made.fetch_add(1, Ordering::Relaxed);
        Ok(Remote {
            one: Arc::new(One {
                hall: hall.clone(),
                version,
                place,
                temporary,
                sentinels,
                run: made.run,
                is_published: AtomicBool::new(false),
                is_withdrawn: AtomicBool::new(false),
                is_incomplete: AtomicBool::new(false),
                lost: OnceLock::new(),
            }),
        })
    }
}

impl Hall {
    fn error(&self, trouble: Trouble) -> Error {
        Error::new(ErrorKind::Filter, format!("the filter {} at {} {trouble}", self.base, self.asks.address()))
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(ErrorKind::Filter, format!("the filter {} at {} refuses: {why}", self.base, self.asks.address()))
    }
}

impl Remote {
    /// Which filters may have these keys, in their order. A "no" is of this filter or of one that was published after it.
    pub async fn ask(&self, keys: &[&[u8]]) -> Result<Vec<bool>> {
        check(keys)?;
        let ends = Instant::now() + self.one.hall.deadline;
        let mut answers = Vec::with_capacity(keys.len());
        for group in groups(keys) {
            let build = |one: &One, name: &str| {
                let mut ask = redis::pipe();
                for keys in &group {
                    ask.cmd("BF.MEXISTS").arg(name).arg(&one.sentinels).arg(*keys);
                }
                ask
            };
            let read = |one: &One, values: &[Value]| {
                let mut found = Vec::new();
                for (value, keys) in values.iter().zip(&group) {
                    let all = booleans(value, one.sentinels.len() + keys.len())?;
                    let (sentinels, keys) = all.split_at(one.sentinels.len());
                    if sentinels.contains(&false) {
                        return Err(Said::missing());
                    }
                    found.extend_from_slice(keys);
                }
                Ok(found)
            };
            answers.append(&mut self.one.clone().wherever_it_is(Size::Few, ends, build, read).await?);
        }
        Ok(answers)
    }

    /// Adds keys. After an error, or when its caller goes away, some of them may be missing for ever: the filter is then
    /// never published, and no longer answers for the ones before it.
    pub async fn add(&self, keys: &[&[u8]]) -> Result<()> {
        let adding = Adding::to(&self.one);
        check(keys)?;
        for group in groups(keys) {
            let size = if keys.len() > FEW { Size::Many } else { Size::Few };
            let ends = Instant::now() + if keys.len() > FEW { FILL_DEADLINE } else { self.one.hall.deadline };
            let build = |one: &One, name: &str| {
                let mut add = redis::pipe();
                for keys in &group {
                    add.cmd("BF.INSERT").arg(name).arg("NOCREATE").arg("ITEMS").arg(*keys);
                }
                one.prove(&mut add, name);
                add
            };
            let read = |one: &One, values: &[Value]| {
                let values = one.proven(values)?;
                values.iter().zip(&group).try_for_each(|(value, keys)| booleans(value, keys.len()).map(drop))
            };
            self.one.clone().wherever_it_is(size, ends, build, read).await?;
        }
        adding.done();
        Ok(())
    }

    /// Gives the filter its base name, in place of the one that has it. It must be complete: from now on it also answers
    /// for the ones before it. After an error it is still good under whichever name it has, but answers for no other.
    pub async fn publish(&self) -> Result<()> {
        let one = &self.one;
        if one.is_published.load(Ordering::Acquire) {
            return Ok(());
        }
        if one.is_incomplete.load(Ordering::Acquire) {
            let (name, version) = (&one.hall.base, one.version);
            let message =
                format!("version {version} of the filter {name} may lack keys, since an add failed: build another");
            return Err(Error::new(ErrorKind::Filter, message));
        }
        let publishing = Publishing::of(one);
        let mut rename = redis::pipe();
        rename.cmd("PERSIST").arg(&one.temporary).cmd("RENAME").arg(&one.temporary).arg(&one.hall.base);
        let sent = one.hall.fills.run(FILL_DEADLINE, &rename, Again::Once).await;
        let why = match sent {
            Ok(replies) => match one.of_its_run(replies)?.last() {
                Some(Value::Okay) => {
                    publishing.done();
                    return Ok(());
                }
                Some(Value::ServerError(error)) => one.hall.refused(&refusal(error)),
                _ => one.hall.refused("RENAME is answered with something else than OK"),
            },
            Err(trouble) => one.hall.error(trouble),
        };
        // Perhaps it was done, and only its answer is missing.
        let mut look = redis::pipe();
        one.prove(&mut look, &one.hall.base);
        if let Ok(replies) = one.hall.fills.run(FILL_DEADLINE, &look, Again::Once).await
            && one.proven(&one.of_its_run(replies)?).is_ok()
        {
            publishing.done();
            return Ok(());
        }
        Err(why)
    }

    /// Removes a filter that is not wanted any more, if it has its temporary name still. What was published stays: its
    /// name may be another's by now.
    pub async fn discard(&self) {
        let one = &self.one;
        one.is_withdrawn.store(true, Ordering::Release);
        if !one.is_published.load(Ordering::Acquire) {
            let mut delete = redis::pipe();
            delete.cmd("DEL").arg(&one.temporary);
            // What cannot be removed now ends by itself.
            let _ = one.hall.fills.run(FILL_DEADLINE, &delete, Again::Once).await;
        }
    }

    /// What the server says about it.
    pub async fn info(&self) -> Result<RemoteInfo> {
        let build = |one: &One, name: &str| {
            let mut ask = redis::pipe();
            ask.cmd("BF.INFO").arg(name);
            one.prove(&mut ask, name);
            ask
        };
        let read = |one: &One, values: &[Value]| {
            let mut info = RemoteInfo::default();
            for (label, number) in facts(&one.proven(values)?[0])? {
                match label.as_str() {
                    "Capacity" => info.capacity = number,
                    "Size" => info.bytes = number,
                    "Number of filters" => info.stages = number,
                    "Number of items inserted" => info.items = number.saturating_sub(one.sentinels.len() as u64),
                    _ => {}
                }
            }
            Ok(info)
        };
        let ends = Instant::now() + self.one.hall.deadline;
        self.one.clone().wherever_it_is(Size::Few, ends, build, read).await
    }

    /// Whether questions are let through to the server: not once several went unanswered.
    #[must_use]
    pub fn answers(&self) -> bool {
        self.one.hall.asks.counts().state == BreakerState::Closed
    }

    /// The version it was made with.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.one.version
    }

    /// Whether it was found to be gone, replaced or of a former run of the server. It never comes back: build another.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.one.lost.get().is_some()
    }
}
