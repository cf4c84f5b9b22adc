//! A flood of addresses that come once: what the filter takes, what counters for all would take, and how many counters there
//! are after all.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::measure::{grouped, map_bytes, percent, size};
use bloomgate::{Rotating, Secret};

use super::limiter::{Counter, Limiter, Limits, Verdict};

/// One flood: so many visitors in a minute, each of them once.
#[derive(Debug)]
pub struct Flood {
    /// Visitors a minute.
    pub visitors: u64,
    /// First visits that were counted.
    pub counted: u64,
    /// The mean of the rates that the filter expected of itself while they came.
    pub expected: f64,
    /// The rate it was asked for.
    pub promised: f64,
    /// The memory of the filter.
    pub filter_bytes: u64,
    /// The memory of the counters that there are at the end.
    pub counter_bytes: u64,
    /// The memory of counters for all visitors of a minute.
    pub exact_bytes: u64,
}

/// The i-th address: all of IPv4 in an order without a pattern, each once.
pub fn address(i: u32) -> IpAddr {
    let mixed = (i ^ (i >> 16)).wrapping_mul(0x7feb_352d);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b);
    Ipv4Addr::from_bits(mixed ^ (mixed >> 16)).into()
}

/// Two minutes of it at an even pace. The first fills the window; what is told is of the second, when it is full.
pub fn flood(visitors: u32) -> Result<Flood, Box<dyn std::error::Error>> {
    const ASK_EVERY: u32 = 10_000;
    let promised = 0.01;
    let limits = Limits {
        visits: 100,
        window: Duration::from_secs(60),
        visitors: visitors.into(),
        rate: promised,
        counters: 1_000_000,
    };
    let mut limiter = Limiter::new(limits, &Secret::from_bytes([7; 32]))?;
    let (mut counted, mut rates) = (0, Vec::new());
    for i in 0..2 * visitors {
        let now = Duration::from_secs(60).mul_f64(f64::from(i) / f64::from(visitors));
        let verdict = limiter.visit(address(i), now)?;
        assert!(verdict.passes(), "a first visit always passes");
        if i >= visitors {
            counted += u64::from(verdict != Verdict::First);
            if i % ASK_EVERY == ASK_EVERY / 2 {
                rates.push(limiter.filter().expected_rate());
            }
        }
    }
    Ok(Flood {
        visitors: visitors.into(),
        counted,
        expected: rates.iter().sum::<f64>() / rates.len() as f64,
        promised,
        filter_bytes: limiter.filter().size_in_bytes(),
        counter_bytes: map_bytes::<u128, Counter>(limiter.counters() as u64),
        exact_bytes: map_bytes::<u128, Counter>(visitors.into()),
    })
}

/// A row of the page's table.
pub fn row(flood: &Flood) -> String {
    format!(
        "| {} | {} | {} | {} | {} | {} |\n",
        grouped(flood.visitors),
        size(flood.exact_bytes),
        size(flood.filter_bytes),
        size(flood.counter_bytes),
        grouped(flood.counted),
        percent(flood.counted as f64 / flood.visitors as f64),
    )
}

/// What the page says of ten million: by the same arithmetic, without sending them.
pub fn ten_million() -> Result<String, Box<dyn std::error::Error>> {
    const VISITORS: u64 = 10_000_000;
    let filter = Rotating::builder().window(Duration::from_secs(60)).items(VISITORS).rate(0.01).bytes_needed()?;
    let exact = map_bytes::<u128, Counter>(VISITORS);
    Ok(format!("Of ten million a minute the counters would take {}, the filter takes {}.", size(exact), size(filter)))
}

/// The page's table.
pub fn table() -> Result<String, Box<dyn std::error::Error>> {
    let mut table = String::from(
        "| visitors a minute, each once | counters for all | filter | counters that were made | first visits counted | share |\n\
         |---|---|---|---|---|---|\n",
    );
    for visitors in [100_000, 1_000_000] {
        table += &row(&flood(visitors)?);
    }
    Ok(table + "\n" + &ten_million()? + "\n")
}
