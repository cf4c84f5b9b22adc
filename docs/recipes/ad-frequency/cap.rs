//! At most so many shows of an ad to a user in 24 hours, without a row for each of them.
//!
//! ```text
//!  (user, ad, 1)  (user, ad, 2)  (user, ad, 3)      three places for three shows a day
//!      taken          free           taken
//!                      └── certainly not within 24 h: show, and take the place
//! ```
//!
//! **Why no ad is shown too often.** A show takes a place that was certainly free, and the filter keeps a place taken for 24
//! hours at least. So in any 24 hours each place is taken once at most, and there are as many places as shows.
//!
//! **What a wrong "maybe" does.** A free place looks taken, and the ad is shown once less: with k places, each at the rate.
//! Nothing is ever shown more often for it.

use std::time::Duration;

use bloomgate::{Error, Rotating, Secret};

/// What a cap is made for.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Shows of an ad to a user within the window.
    pub most: u8,
    /// The window.
    pub window: Duration,
    /// Parts of the window by which shows are forgotten: with 24 of them a day ends after 24 to 25 hours.
    pub generations: u32,
    /// Shows of all ads to all users within a window.
    pub shows: u64,
    /// The share of free places that look taken.
    pub rate: f64,
}

/// The cap on how often ads are shown.
#[derive(Debug)]
pub struct FrequencyCap {
    most: u8,
    shown: Rotating,
}

impl FrequencyCap {
    /// A cap under these rules.
    pub fn new(rules: &Rules, secret: &Secret) -> Result<Self, Box<dyn std::error::Error>> {
        if rules.most == 0 {
            return Err("an ad that is shown 0 times needs no filter: allow 1 to 255 shows".into());
        }
        let shown = Rotating::builder()
            .window(rules.window)
            .generations(rules.generations)
            .items(rules.shows)
            .rate(rules.rate)
            // A tuple keeps its parts apart: ("ab", "c", 1) is not ("a", "bc", 1).
            .keys::<(&str, &str, u8)>()
            .secret(secret)
            .build()?;
        Ok(Self { most: rules.most, shown })
    }

    /// Whether to show the ad now; if so, it counts as shown.
    ///
    /// A free place is looked for first and only that one is inserted: to insert a place that is taken would keep it taken
    /// for another window, and somebody who is offered an ad all day would never see it again.
    pub fn offer(&mut self, user: &str, ad: &str, now: Duration) -> Result<bool, Error> {
        self.shown.advance(now);
        for place in 1..=self.most {
            if !self.shown.contains(&(user, ad, place))? {
                self.shown.insert(&(user, ad, place))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many more times the ad may be shown now: what an auction asks before it bids. Never more than it really may.
    pub fn left(&mut self, user: &str, ad: &str, now: Duration) -> Result<u8, Error> {
        self.shown.advance(now);
        let mut left = 0;
        for place in 1..=self.most {
            left += u8::from(!self.shown.contains(&(user, ad, place))?);
        }
        Ok(left)
    }

    /// The filter: its size, and the rate it has now.
    #[must_use]
    pub fn filter(&self) -> &Rotating {
        &self.shown
    }
}
