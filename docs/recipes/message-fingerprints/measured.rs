//! An hour of mail: how many copies of campaigns are recognised, how many personal messages reach the store, what it takes.

use std::time::Duration;

use crate::measure::{Dice, grouped, percent, size};
use bloomgate::Secret;

use super::bulk::{Detector, Parts, Rules, Verdict};
use super::mail::{Campaign, WORDS, personal};
use super::normalise::normalised;

/// Personal messages an hour.
pub const PERSONAL: u64 = 20_000;
/// Senders of bulk mail, and the copies of each.
pub const CAMPAIGNS: usize = 50;
/// Copies of each campaign.
pub const COPIES: usize = 100;
/// Recipients from whom on mail is bulk.
pub const RECIPIENTS: usize = 10;

const HOUR: Duration = Duration::from_secs(3_600);

/// What became of an hour's mail.
#[derive(Debug, Default)]
pub struct Hour {
    /// Personal messages that looked seen, and went to the store.
    pub alarms: u64,
    /// Personal messages that were called bulk.
    pub blocked: u64,
    /// Copies after the first of each campaign that were called new.
    pub missed: u64,
    /// For each campaign, the copy that was the first to be called bulk, counted from 1.
    pub caught_at: Vec<usize>,
    /// Copies after that one that were not called bulk.
    pub let_through: u64,
    /// The mean of the rates that the filter expected of itself while the personal messages came.
    pub expected: f64,
    /// The memory of the filter.
    pub filter_bytes: u64,
    /// Parts in the store at the end.
    pub stored: usize,
    /// The bytes of all normalised messages: what an exact store of all would keep, without its own overhead.
    pub text_bytes: u64,
}

/// An hour that fills the filter with other mail, then an hour with campaigns in it.
pub fn hour(parts: Parts) -> Result<Hour, Box<dyn std::error::Error>> {
    let (alike, items, edited) = match parts {
        Parts::Whole => (1.0, PERSONAL + (CAMPAIGNS * COPIES) as u64, false),
        Parts::Shingles(_) => (0.6, (PERSONAL + (CAMPAIGNS * COPIES) as u64) * WORDS as u64, true),
    };
    let rules = Rules {
        parts,
        least_words: 8,
        alike,
        recipients: RECIPIENTS,
        window: HOUR,
        items,
        rate: 0.01,
        stored: 100_000,
    };
    let mut detector = Detector::new(rules, &Secret::from_bytes([7; 32]))?;
    let mut dice = Dice(17);
    let campaigns: Vec<Campaign> = (0..CAMPAIGNS).map(|_| Campaign::new(&mut dice)).collect();
    let (mut hour, mut rates) = (Hour { caught_at: vec![0; CAMPAIGNS], ..Hour::default() }, Vec::new());
    let every = PERSONAL as usize / (CAMPAIGNS * COPIES);
    for message in 0..2 * PERSONAL {
        let now = HOUR.mul_f64(message as f64 / PERSONAL as f64);
        let text = personal(&mut dice);
        let verdict = detector.receive(&format!("person-{}", dice.below(50_000)), &text, now)?;
        if message < PERSONAL {
            continue;
        }
        hour.alarms += u64::from(verdict != Verdict::New);
        hour.blocked += u64::from(verdict == Verdict::Bulk);
        hour.text_bytes += normalised(&text).len() as u64;
        let at = (message - PERSONAL) as usize;
        if at % 1_000 == 500 {
            rates.push(detector.filter().expected_rate());
        }
        if at.is_multiple_of(every) && at / every < CAMPAIGNS * COPIES {
            // One copy of each campaign in turn, spread over the hour.
            let (campaign, copy) = (at / every % CAMPAIGNS, at / every / CAMPAIGNS + 1);
            let text = if edited { campaigns[campaign].edited(&mut dice) } else { campaigns[campaign].copy(&mut dice) };
            let verdict = detector.receive(&format!("target-{}", dice.roll()), &text, now)?;
            hour.missed += u64::from(copy > 1 && verdict == Verdict::New);
            match verdict {
                Verdict::Bulk if hour.caught_at[campaign] == 0 => hour.caught_at[campaign] = copy,
                Verdict::Bulk => {}
                _ => hour.let_through += u64::from(hour.caught_at[campaign] != 0),
            }
        }
    }
    hour.expected = rates.iter().sum::<f64>() / rates.len() as f64;
    hour.filter_bytes = detector.filter().size_in_bytes();
    hour.stored = detector.stored();
    Ok(hour)
}

/// A row of the page's table.
pub fn row(name: &str, hour: &Hour) -> String {
    let latest = hour.caught_at.iter().max().copied().unwrap_or_default();
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} |\n",
        size(hour.text_bytes),
        size(hour.filter_bytes),
        grouped(hour.stored as u64),
        hour.missed,
        latest,
        percent(hour.alarms as f64 / PERSONAL as f64),
        hour.blocked,
    )
}

/// The page's table.
pub fn table() -> Result<String, Box<dyn std::error::Error>> {
    let mut table = String::from(
        "| by | text of all mail | filter | parts in the store | copies called new | bulk from copy | personal mail looked up | \
         and blocked |\n|---|---|---|---|---|---|---|---|\n",
    );
    for (name, parts) in [("whole messages", Parts::Whole), ("four words in a row", Parts::Shingles(4))] {
        table += &row(name, &hour(parts)?);
    }
    Ok(table)
}
