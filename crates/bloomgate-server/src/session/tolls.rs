//! What a command costs of the items that its namespace may have in a second.
//!
//! Items are paid for where they are looked at, by whomever. What is not about items costs by the time it takes, measured in
//! items of 0.1 us: without that, a tenant could keep all others waiting with commands that are free.

use bloomgate_command::{Flag, Request, Spec};

use super::names::MAX_SCAN;

/// A command that changes a filter by its name: nobody else writes meanwhile, as nobody does while EXEC runs what needs that or
/// WATCH looks. DEL costs as much for each name.
pub(super) const CHANGE: u64 = 10;
/// A command about no filter, such as INFO.
pub const TELLING: u64 = 50;
/// A long command, on a worker, or what takes as long over HTTP.
pub const LONG: u64 = 100;
/// SCAN looks at so many names for an item.
const SCANNED: u64 = 10;
/// So many bytes of words cost as much as an item.
const BYTES: u64 = 256;

/// What a look at so many filters costs: a list.
#[must_use]
pub fn of_looking(filters: u64) -> u64 {
    filters.div_ceil(SCANNED)
}

/// What a command costs beside its items. What concerns the conversation itself (PING, MULTI, ...) costs its bytes alone.
#[must_use]
pub fn of_command(spec: &Spec, request: &Request<'_>, words: &[&[u8]]) -> u64 {
    if request.items() > 0 {
        return 0;
    }
    let names = request.parts().map_or(1, |names| names.len() as u64);
    let cost = match *request {
        Request::Command(_) => TELLING,
        Request::Scan { count, .. } => TELLING + count.min(MAX_SCAN) / SCANNED,
        Request::Watch { .. } => CHANGE + names,
        _ if spec.role().is_none() => 0,
        _ if spec.heavy && !request.is_small() => LONG,
        _ if spec.has(Flag::Write) => names * CHANGE,
        _ if spec.keys.first == 0 => TELLING,
        _ => names,
    };
    cost + words.iter().map(|word| word.len() as u64).sum::<u64>() / BYTES
}
