//! The memory that filters may take, charged before it is allocated.

use bloomgate_command::Refusal;

use crate::sync::atomic::{AtomicU64, Ordering};

/// A limit for all filters together and one for each.
#[derive(Debug)]
pub struct Budget {
    /// Numbers by themselves: nobody waits for them, and no model has to try their orders.
    most: std::sync::atomic::AtomicU64,
    most_each: std::sync::atomic::AtomicU64,
    used: AtomicU64,
}

/// Which limit there is no room under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    /// That of all filters together.
    All,
    /// That of one filter.
    Each,
    /// That of the namespace of this name.
    Namespace(String),
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All => f.write_str("max-memory"),
            Self::Each => f.write_str("max-filter-memory"),
            Self::Namespace(name) => write!(f, "MAXMEMORY of the namespace '{name}'"),
        }
    }
}

/// What there would be room for instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fits {
    /// A filter for so many items, all else as it was asked for.
    Capacity(u64),
    /// So many bytes.
    Bytes(u64),
    /// No filter at all.
    Nothing,
}

/// Why memory was refused: said in the words of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    wanted: u64,
    allowed: u64,
    limit: Limit,
    fits: Option<Fits>,
    /// There is room as soon as filters that were deleted are let go of.
    soon: bool,
}

impl Refused {
    /// So many bytes were wanted, and so many are left under a limit.
    #[must_use]
    pub fn new(wanted: u64, allowed: u64, limit: Limit) -> Self {
        Self { wanted, allowed, limit, fits: None, soon: false }
    }

    /// The limit that there is no room under.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The bytes that are left.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Why a filter does not grow, after what became of the item: in the words of a reply.
    #[must_use]
    pub fn of_growth(&self) -> String {
        let Self { wanted, allowed, limit, fits, .. } = self;
        let instead = match fits {
            Some(Fits::Capacity(items)) => format!("a new filter for {items} items would fit: add to that"),
            Some(Fits::Bytes(bytes)) => format!("a new filter of {bytes} bytes would fit: add to that"),
            Some(Fits::Nothing) | None => "no new filter would fit: delete some".to_owned(),
        };
        let raise = match limit {
            Limit::Namespace(name) => format!("raise it (BG.NAMESPACE SET {name} MAXMEMORY bytes)"),
            _ => "raise it".to_owned(),
        };
        format!("to grow it needs {wanted} bytes and {allowed} are left under {limit}; {instead}, or {raise}")
    }

    /// The same of a copy of a filter, which a dump or an address is made of.
    #[must_use]
    pub fn for_a_copy(&self) -> Refusal {
        let Self { wanted, allowed, limit, .. } = self;
        Refusal::err(format_args!(
            "not enough memory for a copy of the filter: it needs {wanted} bytes while it is read and {allowed} are left under \
             {limit}; delete other filters, or raise it"
        ))
    }

    /// The same where there is room in a moment: what is said then is [`Refusal::MEMORY_IN_USE`], whatever was asked for.
    #[must_use]
    pub fn for_a_moment(self) -> Self {
        Self { soon: true, ..self }
    }

    /// With what there would be room for.
    #[must_use]
    pub fn with(self, fits: Fits) -> Self {
        Self { fits: Some(fits), ..self }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { wanted, allowed, limit, fits, soon } = self;
        if *soon {
            return f.write_str(Refusal::MEMORY_IN_USE.as_str());
        }
        write!(
            f,
            "ERR Insufficient memory to create filter: it needs {wanted} bytes and {allowed} are left under {limit}; "
        )?;
        match fits {
            Some(Fits::Capacity(items)) => write!(f, "a capacity of {items} would fit: ask for less")?,
            Some(Fits::Bytes(bytes)) => write!(f, "{bytes} bytes would fit: ask for less")?,
            Some(Fits::Nothing) => write!(f, "no filter would fit: delete some")?,
            None => write!(f, "ask for less")?,
        }
        match limit {
            Limit::Namespace(name) => write!(f, ", or raise it (BG.NAMESPACE SET {name} MAXMEMORY bytes)"),
            _ => write!(f, ", or raise it"),
        }
    }
}

impl Budget {
    /// A budget of so many bytes in all, and so many for one filter.
    #[must_use]
    pub fn new(most: u64, most_each: u64) -> Self {
        Self { most: most.into(), most_each: most_each.min(most).into(), used: AtomicU64::new(0) }
    }

    /// Takes bytes for a filter that has `has` already.
    pub fn charge(&self, has: u64, bytes: u64) -> Result<(), Refused> {
        self.fits_one(has, bytes)?;
        self.charge_beside(bytes)
    }

    /// Takes bytes for something beside the filters, such as a copy of one: the limit for all counts alone.
    pub fn charge_beside(&self, bytes: u64) -> Result<(), Refused> {
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            let left = self.most().saturating_sub(used);
            if bytes > left {
                return Err(Refused::new(bytes, left, Limit::All));
            }
            match self.used.compare_exchange_weak(used, used + bytes, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(now) => used = now,
            }
        }
    }

    /// [`charge_beside`](Self::charge_beside), given back when the guard goes.
    pub fn hold(&self, bytes: u64) -> Result<Held<'_>, Refused> {
        self.charge_beside(bytes)?;
        Ok(Held { budget: self, bytes })
    }

    /// A guard for bytes that were charged before.
    #[must_use]
    pub fn holding(&self, bytes: u64) -> Held<'_> {
        Held { budget: self, bytes }
    }

    /// Whether one filter may grow by so much, whatever the others have.
    pub fn fits_one(&self, has: u64, bytes: u64) -> Result<(), Refused> {
        let most = self.most_each();
        match has.checked_add(bytes) {
            Some(all) if all <= most => Ok(()),
            _ => {
                let allowed = most.saturating_sub(has);
                Err(Refused::new(bytes, allowed, Limit::Each))
            }
        }
    }

    /// Takes bytes without asking: what was there before a restart is there after it.
    pub fn charge_anyway(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives bytes back.
    pub fn release(&self, bytes: u64) {
        // Never below zero, so that a miscount cannot turn into a limit of exabytes.
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
    }

    /// Bytes taken now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Bytes that may be taken.
    #[must_use]
    pub fn most(&self) -> u64 {
        self.most.load(Ordering::Relaxed)
    }

    /// Bytes that one filter may take.
    #[must_use]
    pub fn most_each(&self) -> u64 {
        self.most_each.load(Ordering::Relaxed)
    }

    /// Changes both limits. What is taken stays so, also when it is more: then nothing more is given.
    pub fn set_limits(&self, most: u64, most_each: u64) {
        self.most.store(most, Ordering::Relaxed);
        self.most_each.store(most_each.min(most), Ordering::Relaxed);
    }
}

/// Bytes that are given back when this goes.
#[derive(Debug)]
pub struct Held<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Held<'_> {
    /// Holds so many bytes from now on: more are charged, too many are given back.
    pub fn resize(&mut self, bytes: u64) -> Result<(), Refused> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.budget.charge_beside(more)?,
            None => self.budget.release(self.bytes - bytes),
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Leaves the bytes charged, for somebody who gives them back later; how many.
    #[must_use]
    pub fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused_and_costs_nothing() {
        let budget = Budget::new(1_000, 600);
        budget.charge(0, 600).unwrap();
        assert_eq!(budget.charge(600, 1).unwrap_err().limit, Limit::Each);
        let refused = budget.charge(0, 401).unwrap_err();
        assert_eq!(refused, Refused::new(401, 400, Limit::All));
        budget.charge(0, 400).unwrap();
        assert_eq!(budget.used(), 1_000);
        budget.release(600);
        assert_eq!(budget.used(), 400);
        assert!(budget.charge(u64::MAX, u64::MAX).is_err());
        budget.release(u64::MAX);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn limits_that_change_hold_from_then_on() {
        let budget = Budget::new(1_000, 1_000);
        budget.charge(0, 900).unwrap();
        budget.set_limits(500, 800);
        assert_eq!((budget.most(), budget.most_each()), (500, 500));
        assert_eq!(budget.charge(0, 1).unwrap_err(), Refused::new(1, 0, Limit::All));
        budget.release(600);
        budget.charge(0, 200).unwrap();
        budget.set_limits(2_000, 300);
        assert_eq!(budget.charge(200, 101).unwrap_err().limit, Limit::Each);
        budget.charge(200, 100).unwrap();
        assert_eq!(budget.used(), 600);
    }

    #[test]
    fn what_is_held_comes_back() {
        let budget = Budget::new(1_000, 100);
        let mut held = budget.hold(500).unwrap();
        held.resize(900).unwrap();
        assert!(held.resize(1_001).is_err() && budget.hold(101).is_err());
        held.resize(300).unwrap();
        assert_eq!(budget.used(), 300);
        assert_eq!(held.keep(), 300);
        assert_eq!(budget.used(), 300);
        drop(budget.holding(300));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn threads_together_never_take_more() {
        let budget = Budget::new(10_000, 10_000);
        let taken = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        if budget.charge(0, 7).is_ok() {
                            taken.fetch_add(7, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), budget.used());
        assert_eq!(budget.used(), 9_996);
    }
}
