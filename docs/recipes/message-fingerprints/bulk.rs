//! The same message to many people within an hour: a filter says what is certainly new, an exact store says what is bulk.
//!
//! ```text
//!  message ──▶ normalised ──▶ parts: the whole, or shingles
//!                               │
//!        filter of an hour:  few parts seen ──▶ New: nothing is stored, nothing is looked up
//!                               │ enough parts "maybe"
//!                               ▼
//!        exact store: who got these parts within the hour? ──▶ fewer than the threshold: Repeat, delivered
//!                               │ as many different people as the threshold
//!                               ▼
//!                              Bulk
//! ```
//!
//! **A wrong "maybe" blocks nobody.** It costs an entry in the store, with one recipient. Bulk is what the store has counted,
//! person by person; so the first copy, which is in the filter alone, is not counted, and with a threshold of T it is the
//! copy to the (T+1)-th person that is called bulk.
//!
//! **No repeat is missed.** Parts are kept in the filter for an hour at least after each copy.

use std::collections::HashMap;
use std::time::Duration;

use bloomgate::{Error, Rotating, Secret};

use super::normalise::{normalised, shingles};

/// By what two messages are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// The whole normalised message: one key each, for copies that differ in numbers, addresses and spaces.
    Whole,
    /// So many words in a row: a key for each word, for copies with other names or a sentence changed.
    Shingles(usize),
}

/// What a detector is made for.
#[derive(Debug, Clone)]
pub struct Rules {
    /// By what messages are the same.
    pub parts: Parts,
    /// Messages with fewer words are not looked at: "ok" and a bare link are the same by nature.
    pub least_words: usize,
    /// The share of a message's parts that must be the same, above 0 and up to 1.
    pub alike: f64,
    /// How many different people must have got it, by the store's own count, 1 to 1,000.
    pub recipients: usize,
    /// Within what time.
    pub window: Duration,
    /// Parts that come within a window: messages, or for shingles about their words.
    pub items: u64,
    /// The share of new parts that look seen.
    pub rate: f64,
    /// The most parts in the store at once.
    pub stored: usize,
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Too few words to tell a copy from chance: to be delivered.
    Short,
    /// Certainly not enough of it was seen within the window.
    New,
    /// It may have been seen, and has not been counted often enough: to be delivered.
    Repeat,
    /// So many different people have got it within the window: counted, not guessed.
    Bulk,
}

/// Who got a part, and when.
type Recipients = Vec<(Box<str>, Duration)>;

/// The detector.
#[derive(Debug)]
pub struct Detector {
    rules: Rules,
    seen: Rotating,
    store: HashMap<Box<str>, Recipients>,
    now: Duration,
    swept: Duration,
}

impl Detector {
    /// A detector under these rules. Parts are hashed under the secret: senders choose them.
    pub fn new(rules: Rules, secret: &Secret) -> Result<Self, Box<dyn std::error::Error>> {
        if !(1..=1_000).contains(&rules.recipients) {
            return Err(format!("bulk from {} recipients on: 1 to 1,000 can be counted", rules.recipients).into());
        }
        if !(rules.alike > 0.0 && rules.alike <= 1.0) {
            return Err(format!("a share of {} that must be alike: it is above 0 and up to 1", rules.alike).into());
        }
        let seen = Rotating::builder()
            .window(rules.window)
            .items(rules.items)
            .rate(rules.rate)
            .keys::<str>()
            .secret(secret)
            .build()?;
        Ok(Self { rules, seen, store: HashMap::new(), now: Duration::ZERO, swept: Duration::ZERO })
    }

    /// A message to somebody, at a time since any beginning; an earlier one than the last is waited out.
    pub fn receive(&mut self, recipient: &str, message: &str, now: Duration) -> Result<Verdict, Error> {
        self.now = self.now.max(now);
        self.seen.advance(self.now);
        self.sweep();
        let form = normalised(message);
        if form.split_whitespace().count() < self.rules.least_words {
            return Ok(Verdict::Short);
        }
        let parts = match self.rules.parts {
            Parts::Whole => vec![form],
            Parts::Shingles(words) => shingles(&form, words),
        };
        let mut maybe = vec![false; parts.len()];
        self.seen.contains_batch(&parts, &mut maybe)?;
        self.seen.insert_batch(&parts)?;
        let enough = (parts.len() as f64 * self.rules.alike).ceil() as usize;
        if maybe.iter().filter(|&&maybe| maybe).count() < enough {
            return Ok(Verdict::New);
        }
        let seen_parts = parts.into_iter().zip(maybe).filter(|&(_, maybe)| maybe);
        let confirmed = seen_parts.filter(|(part, _)| self.count(part, recipient) >= self.rules.recipients).count();
        Ok(if confirmed >= enough { Verdict::Bulk } else { Verdict::Repeat })
    }

    /// Notes that somebody got a part; how many different people have within the window. A store that is full takes no new
    /// parts: these are then never confirmed, and what has them is delivered.
    fn count(&mut self, part: &str, recipient: &str) -> usize {
        let (now, window) = (self.now, self.rules.window);
        if self.store.len() >= self.rules.stored && !self.store.contains_key(part) {
            return 0;
        }
        let recipients = self.store.entry(part.into()).or_default();
        recipients.retain(|(_, at)| now - *at <= window);
        if let Some((_, at)) = recipients.iter_mut().find(|(one, _)| **one == *recipient) {
            *at = now;
        } else {
            // As many as are needed to confirm it, the latest of them.
            let oldest = (0..recipients.len()).min_by_key(|&one| recipients[one].1);
            if let Some(oldest) = oldest.filter(|_| recipients.len() == self.rules.recipients) {
                recipients.swap_remove(oldest);
            }
            recipients.push((recipient.into(), now));
        }
        recipients.len()
    }

    /// Takes parts out of the store that nobody got within the window, four times in each.
    fn sweep(&mut self) {
        let (now, window) = (self.now, self.rules.window);
        if now - self.swept >= window / 4 {
            self.swept = now;
            self.store.retain(|_, recipients| recipients.iter().any(|(_, at)| now - *at <= window));
        }
    }

    /// How many parts the store has.
    #[must_use]
    pub fn stored(&self) -> usize {
        self.store.len()
    }

    /// The filter: its size, and the rate it has now.
    #[must_use]
    pub fn filter(&self) -> &Rotating {
        &self.seen
    }
}
