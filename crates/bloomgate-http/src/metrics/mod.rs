//! Metrics as one table: a name, a help text, a unit, a kind and the labels are written down once, and the scrape, the
//! documentation and the check of names come from there.
//!
//! Whoever has something to count keeps its own counters; a [`Scrape`] collects them when somebody asks.
//!
//! ```
//! use bloomgate_http::metrics::{Form, Metric, Scrape};
//!
//! static LOOKUPS: Metric = Metric::counter("bloomgate_gate_lookups_total", "Lookups by outcome", "").labels(&["outcome"]);
//! let mut scrape = Scrape::default();
//! scrape.whole(&LOOKUPS, &[("outcome", "cache")], 7);
//! assert!(scrape.write(Form::Prometheus).ends_with("bloomgate_gate_lookups_total{outcome=\"cache\"} 7\n"));
//! ```

mod negotiate;
mod rules;
mod write;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Response};

pub use negotiate::form_for;
pub use rules::{check, markdown};

/// The metrics of a program, a line each, and the table of them all: what the scrape, the documentation and the checks are made of.
///
/// ```
/// bloomgate_http::metrics! {
///     /// All of them.
///     LOOKUPS = counter "bloomgate_lookups_total" "" &["answer"], "Lookups by their answer";
///     READY = gauge "bloomgate_ready" "" &[], "1 while it may be sent traffic, else 0";
/// }
/// assert_eq!(TABLE.len(), 2);
/// assert!(std::ptr::eq(&LOOKUPS, TABLE[0]));
/// ```
#[macro_export]
macro_rules! metrics {
    (#[doc = $all:literal] $($id:ident = $kind:ident $name:literal $unit:literal $labels:expr, $help:literal;)+) => {
        $(static $id: $crate::metrics::Metric = $crate::metrics::Metric::$kind($name, $help, $unit).labels($labels);)+
        #[doc = $all]
        pub static TABLE: &[&$crate::metrics::Metric] = &[$(&$id),+];
    };
}

/// What the numbers of a metric mean to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// How many values lie below each of some bounds.
    Histogram,
}

impl Kind {
    /// The name in scrapes and documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One metric. Declared as a static; a table is a list of references to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name as Prometheus shows it: with the unit, and `_total` if it is a counter.
    pub name: &'static str,
    /// One line about it.
    pub help: &'static str,
    /// The base unit (`seconds`, `bytes`, `ratio`), or nothing.
    pub unit: &'static str,
    /// The kind.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

impl Metric {
    /// A counter. Its name ends in `_total`.
    #[must_use]
    pub const fn counter(name: &'static str, help: &'static str, unit: &'static str) -> Self {
        Self { name, help, unit, kind: Kind::Counter, labels: &[] }
    }

    /// A gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, help: &'static str, unit: &'static str) -> Self {
        Self { name, help, unit, kind: Kind::Gauge, labels: &[] }
    }

    /// A histogram.
    #[must_use]
    pub const fn histogram(name: &'static str, help: &'static str, unit: &'static str) -> Self {
        Self { name, help, unit, kind: Kind::Histogram, labels: &[] }
    }

    /// The same with labels.
    #[must_use]
    pub const fn labels(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }
}

/// A list of metrics.
pub type Table = &'static [&'static Metric];

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A count.
    Whole(u64),
    /// A measured number.
    Number(f64),
    /// A histogram.
    Buckets {
        /// The upper bounds, rising, without infinity.
        bounds: &'static [f64],
        /// How many values lie in each bucket (not: in it and all before), one more than there are bounds.
        counts: Vec<u64>,
        /// The sum of all values.
        sum: f64,
    },
}

/// One number of a scrape.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    /// The values of the labels, in the metric's order.
    labels: Vec<String>,
    value: Value,
}

/// What was collected at one moment.
#[derive(Clone, Debug, Default)]
pub struct Scrape {
    families: Vec<(&'static Metric, Vec<Sample>)>,
}

impl Scrape {
    /// Adds a count.
    pub fn whole(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: u64) {
        self.add(metric, labels, Value::Whole(value));
    }

    /// Adds a measured number.
    pub fn number(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: f64) {
        self.add(metric, labels, Value::Number(value));
    }

    /// Adds a sample. Labels that are not the metric's, or a value of another kind, are a mistake in the program: debug
    /// builds stop, others leave the sample out rather than spoil the scrape.
    pub fn add(&mut self, metric: &'static Metric, labels: &[(&str, &str)], value: Value) {
        let right = labels.len() == metric.labels.len()
            && labels.iter().zip(metric.labels).all(|((name, _), known)| name == known)
            && match &value {
                Value::Buckets { bounds, counts, .. } => {
                    metric.kind == Kind::Histogram && counts.len() == bounds.len() + 1
                }
                Value::Whole(_) => metric.kind != Kind::Histogram,
                Value::Number(number) => {
                    metric.kind == Kind::Gauge || metric.kind == Kind::Counter && number.is_finite() && *number >= 0.0
                }
            };
        debug_assert!(right, "{} does not take {labels:?} {value:?}", metric.name);
        if !right {
            return;
        }
        let labels = labels.iter().map(|(_, value)| (*value).to_owned()).collect();
        let sample = Sample { labels, value };
        match self.families.iter_mut().find(|(known, _)| known.name == metric.name) {
            Some((_, samples)) => samples.push(sample),
            None => self.families.push((metric, vec![sample])),
        }
    }

    /// The scrape in a form.
    #[must_use]
    pub fn write(&self, form: Form) -> String {
        write::scrape(self, form)
    }

    /// The answer to a scrape, in the form that the client asked for.
    #[must_use]
    pub fn respond(&self, headers: &HeaderMap) -> Response<Body> {
        let form = form_for(headers);
        let mut response = Response::new(Body::from(self.write(form)));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
        response
    }
}

/// How a scrape is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The text format of Prometheus, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Form {
    /// What stands in `Content-Type`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}
