//! Limits and defaults that may change while filters are served. Who reads them takes no lock: each is one atomic number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{Defaults, Engine, Limits};

/// [`Defaults`] that may change: fields one by one, so who reads while they change may see some of before. Each is right
/// by itself.
#[derive(Debug)]
pub(super) struct LiveDefaults([AtomicU64; 8]);

impl LiveDefaults {
    pub(super) fn new(defaults: &Defaults) -> Self {
        Self(numbers(defaults).map(AtomicU64::new))
    }
}

fn numbers(defaults: &Defaults) -> [u64; 8] {
    [
        defaults.bf_error_rate.to_bits(),
        defaults.bf_initial_size,
        defaults.bf_expansion_factor.into(),
        defaults.cf_bucket_size.into(),
        defaults.cf_initial_size,
        defaults.cf_max_iterations.into(),
        defaults.cf_expansion_factor.into(),
        defaults.cf_error_rate.to_bits(),
    ]
}

impl Engine {
    /// What filters are like when nobody says.
    #[must_use]
    pub fn defaults(&self) -> Defaults {
        let number = |at: usize| self.defaults.0[at].load(Relaxed);
        // Only what `numbers` made is in them, so every one fits.
        Defaults {
            bf_error_rate: f64::from_bits(number(0)),
            bf_initial_size: number(1),
            bf_expansion_factor: number(2) as u32,
            cf_bucket_size: number(3) as u16,
            cf_initial_size: number(4),
            cf_max_iterations: number(5) as u16,
            cf_expansion_factor: number(6) as u16,
            cf_error_rate: f64::from_bits(number(7)),
        }
    }

    /// Changes them for filters that are made from now on.
    pub fn set_defaults(&self, defaults: &Defaults) {
        self.defaults.0.iter().zip(numbers(defaults)).for_each(|(live, number)| live.store(number, Relaxed));
    }

    /// The limits now.
    #[must_use]
    pub fn limits(&self) -> Limits {
        Limits {
            max_memory: self.budget.most(),
            max_filter_memory: self.budget.most_each(),
            max_filters: self.max_filters(),
        }
    }

    /// How many filters there may be.
    #[must_use]
    pub fn max_filters(&self) -> u64 {
        self.max_filters.load(Relaxed)
    }

    /// Changes the limits. What is there already stays, also when it is more: then nothing comes to it.
    pub fn set_limits(&self, limits: &Limits) {
        self.budget.set_limits(limits.max_memory, limits.max_filter_memory);
        self.max_filters.store(limits.max_filters, Relaxed);
    }
}
