//! How a filter stands: the keys that its bits speak of, and its rates beside the promise. What the verbs that make one
//! filter of others (merge, intersect, fold) tell of each of them.

use std::path::Path;

use bloomgate::bits::Store;
use bloomgate::math::estimate::Estimate;
use bloomgate::{AnyFilter, Kind};

use crate::failure::Failure;
use crate::json::Object;
use crate::number::{bytes, counted, grouped, percent, short};
use crate::screen::{WARN, paint, tell};

/// The numbers of one filter.
pub struct Standing {
    path: String,
    kind: Kind,
    keys: Estimate,
    capacity: u64,
    counted: u64,
    promised: f64,
    expected: f64,
    /// What the bits as they are will show.
    pub by_bits: f64,
    filter_bytes: u64,
}

impl Standing {
    /// Reads all bits of the filter.
    pub fn of<S: Store>(path: &Path, filter: &AnyFilter<S>) -> Result<Self, Failure> {
        Ok(Self {
            path: path.to_string_lossy().into_owned(),
            kind: filter.kind(),
            keys: filter.approximate_count(),
            capacity: filter.capacity(),
            counted: filter.len(),
            promised: filter.promised_rate(),
            expected: filter.expected_rate(),
            by_bits: filter.estimated_rate().map_err(|error| Failure::at(path, error))?,
            filter_bytes: filter.size_in_bytes(),
        })
    }

    /// Whether it holds more than keeps the promise.
    pub fn is_over(&self) -> bool {
        self.expected > self.promised * 1.001
    }

    /// One line: the keys and the room.
    pub fn tell_keys(&self) {
        tell(format_args!("{}: {}, made for {}", self.path, between(&self.keys), grouped(self.capacity)));
    }

    /// One line: size, keys and rates.
    pub fn tell_whole(&self, file_bytes: u64) {
        tell(format_args!("{}: {} in {}; {}", self.path, self.kind, bytes(file_bytes), self.keys_and_rates()));
    }

    /// The keys, the room, and the rates beside the promise.
    pub fn keys_and_rates(&self) -> String {
        format!(
            "{}, made for {}; {} ({} promised)",
            between(&self.keys),
            grouped(self.capacity),
            self.rates(),
            percent(self.promised)
        )
    }

    /// The rate that is expected and the one that the bits will show, where both say something.
    pub fn rates(&self) -> String {
        if self.is_over() {
            // Past its capacity a filter counts few of the keys as new: the bits alone can be believed.
            return format!("rate by the bits {}", percent(self.by_bits));
        }
        format!("expected rate {}, {} by the bits", percent(self.expected), percent(self.by_bits))
    }

    /// Says that the promise is broken, if it is, and what to do.
    pub fn warn_if_over(&self, what_to_do: &str) {
        if self.is_over() {
            tell(format_args!(
                "{} it was made for {} and holds more: it promised {} and now passes {} of the absent keys; every key is \
                 still found; {what_to_do}",
                paint(WARN, "warning:"),
                counted(self.capacity, "key"),
                percent(self.promised),
                percent(self.by_bits)
            ));
        }
    }

    /// The same as JSON, in an object that goes on.
    pub fn json(&self) -> Object {
        estimate(Object::default().text("path", &self.path).text("kind", self.kind.name()), "keys", &self.keys)
            .whole("counted", self.counted)
            .whole("capacity", self.capacity)
            .flag("over_capacity", self.is_over())
            .number("promised_rate", self.promised)
            .number("expected_rate", self.expected)
            .number("estimated_rate", self.by_bits)
            .whole("filter_bytes", self.filter_bytes)
    }
}

/// An estimate with its interval, as three fields; the upper end is null when every bit is set.
pub fn estimate(object: Object, name: &str, estimate: &Estimate) -> Object {
    object
        .number(name, estimate.value)
        .number(&format!("{name}_low"), estimate.low)
        .maybe_number(&format!("{name}_high"), estimate.high)
}

/// `about 1,000 keys (990 to 1,010)`.
pub fn between(estimate: &Estimate) -> String {
    let keys = |value: f64| counted(value.round() as u64, "key");
    match estimate.high {
        Some(high) if high <= estimate.low && high > 0.0 => keys(estimate.value),
        Some(_) => format!("about {} ({})", keys(estimate.value), interval(estimate)),
        None => format!("at least {}: every bit is set", keys(estimate.low)),
    }
}

/// `990 to 1,010`, of whole numbers.
pub fn interval(estimate: &Estimate) -> String {
    let whole = |value: f64| grouped(value.round() as u64);
    match estimate.high {
        Some(high) => format!("{} to {}", whole(estimate.low), whole(high)),
        None => format!("{} or more", whole(estimate.low)),
    }
}

/// `0.330 to 0.337`, of shares.
pub fn share_interval(estimate: &Estimate) -> String {
    format!("{} to {}", short(estimate.low), short(estimate.high.unwrap_or(1.0)))
}
