//! A day of shows at the planned number, and beyond it: how many shows new users miss, and what the filter takes.

use std::time::Duration;

use crate::measure::{grouped, percent, size};
use bloomgate::Secret;

use super::cap::{FrequencyCap, Rules};

/// Shows of an ad to a user in a day.
pub const MOST: u8 = 3;
const DAY: Duration = Duration::from_secs(86_400);

/// What a full window does to users who have seen nothing yet.
#[derive(Debug)]
pub struct Day {
    /// Shows a day that the filter was made for.
    pub planned: u64,
    /// Shows a day that there were.
    pub shows: u64,
    /// Shows that new users were allowed, of `MOST` each.
    pub allowed: u64,
    /// New users by how many shows they were allowed.
    pub users: [u64; MOST as usize + 1],
    /// The rate that the filter expects of itself.
    pub expected: f64,
    /// The rate it was asked for.
    pub promised: f64,
    /// The memory of the filter.
    pub bytes: u64,
}

/// A day and an hour of shows at an even pace, `load` times as many as planned; then 200,000 new users ask.
pub fn day(planned: u64, load: u64) -> Result<Day, Box<dyn std::error::Error>> {
    let promised = 0.01;
    let rules = Rules { most: MOST, window: DAY, generations: 24, shows: planned, rate: promised };
    let mut cap = FrequencyCap::new(&rules, &Secret::from_bytes([7; 32]))?;
    let shows = planned * load;
    let all = shows + shows / 24;
    for show in 0..all {
        let now = DAY.mul_f64(show as f64 / shows as f64);
        // Every user sees three ads once.
        cap.offer(&format!("user-{}", show / 3), &format!("ad-{}", show % 3), now)?;
    }
    // The last instant before the oldest hour goes: the ring is as full as it gets.
    let now = DAY.mul_f64((all - 1) as f64 / shows as f64);
    let expected = cap.filter().expected_rate();
    let mut users = [0; MOST as usize + 1];
    for user in 0..200_000 {
        users[usize::from(cap.left(&format!("new-{user}"), "ad-0", now)?)] += 1;
    }
    let allowed = users.iter().zip(0..).map(|(users, left)| users * left).sum();
    Ok(Day { planned, shows, allowed, users, expected, promised, bytes: cap.filter().size_in_bytes() })
}

/// A row of the page's table.
pub fn row(day: &Day) -> String {
    let users: u64 = day.users.iter().sum();
    let places = users * u64::from(MOST);
    format!(
        "| {} | {} | {} | {} | {} | {} | {} |\n",
        grouped(day.planned),
        grouped(day.shows),
        size(day.bytes),
        percent((places - day.allowed) as f64 / places as f64),
        percent(day.users[2] as f64 / users as f64),
        percent(day.users[1] as f64 / users as f64),
        grouped(day.users[0]),
    )
}

/// The page's table.
pub fn table() -> Result<String, Box<dyn std::error::Error>> {
    let mut table = String::from(
        "| planned a day | shown a day | filter | shows missed | users with one less | with two less | of 200,000, with none |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (planned, load) in [(100_000, 1), (500_000, 1), (100_000, 2)] {
        table += &row(&day(planned, load)?);
    }
    Ok(table)
}
