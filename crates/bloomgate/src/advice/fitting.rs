//! Which kinds a need leaves over, and why the others fall away.

use super::{Growth, Need};
use crate::kind::{Guarantee, Kind};

/// Why a kind does not do what is needed, in two or three words; nothing if it does. Memory and rate are not asked for
/// here: they are a matter of size.
///
/// ```
/// use bloomgate::Kind;
/// use bloomgate::advice::{Need, misfit};
/// let need = Need { deletes: true, ..Need::default() };
/// assert_eq!(misfit(Kind::Blocked, &need), Some("no removals"));
/// assert_eq!(misfit(Kind::Cuckoo, &need), None);
/// ```
#[must_use]
pub fn misfit(kind: Kind, need: &Need) -> Option<&'static str> {
    let room = need.growth != Growth::Fixed;
    match kind.guarantee() {
        Guarantee::Forgetful => Some("proves nothing"),
        Guarantee::Window if !need.window => Some("forgets old keys"),
        Guarantee::Superset if need.window => Some("never forgets"),
        _ if need.deletes && !kind.takes_removals() => Some("no removals"),
        _ if room && !kind.takes_inserts() => Some("built once"),
        // A ring has room for three times the keys instead.
        _ if need.growth == Growth::Unknown && !kind.grows() && !need.window => Some("cannot grow"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Choice, advise};
    use super::*;

    #[test]
    fn what_is_advised_fits() {
        let growths = [Growth::Fixed, Growth::Some, Growth::Known { factor: 4.0 }, Growth::Unknown];
        for bits in 0..8 {
            for growth in growths {
                let need = Need {
                    items: Some(1_000_000),
                    deletes: bits & 1 != 0,
                    window: bits & 2 != 0,
                    static_set: bits & 4 != 0,
                    growth,
                    ..Need::default()
                };
                // A ring forgets by itself, and removes nothing.
                if need.window && need.deletes {
                    continue;
                }
                let Choice::Filter(kind) = advise(&need).unwrap().choice else { panic!("{need:?}") };
                assert_eq!(misfit(kind, &need), None, "{kind}: {need:?}");
            }
        }
    }

    #[test]
    fn the_reasons_are_the_first_that_hold() {
        let of = |need: &Need| Kind::ALL.map(|kind| misfit(kind, need));
        let plain = of(&Need::default());
        let fitting = Kind::ALL.iter().zip(plain).filter(|(kind, why)| !kind.is_foreign() && why.is_none()).count();
        assert_eq!(fitting, 10, "all but the two that forget");
        let window = Need { window: true, ..Need::default() };
        assert_eq!((misfit(Kind::Rotating, &window), misfit(Kind::Fuse, &window)), (None, Some("never forgets")));
        let growing = Need { growth: Growth::Unknown, ..Need::default() };
        assert_eq!((misfit(Kind::Classic, &growing), misfit(Kind::Scalable, &growing)), (Some("cannot grow"), None));
        assert_eq!(misfit(Kind::Ribbon, &growing), Some("built once"));
    }
}
