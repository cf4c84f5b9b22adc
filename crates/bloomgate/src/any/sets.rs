//! Sets together, for filters whose kind is known only at run time: intersection, overlap and folds of those that have
//! them. (Union is [`AnyFilter::union_with`].)

use super::AnyFilter;
use crate::bits::{Owned, Store};
use crate::bloom::algebra::fold_onto;
use crate::bloom::layout::sealed::Layout as _;
use crate::error::{Error, ErrorKind, Result};
use crate::kind::Kind;
use crate::math::overlap::Overlap;

/// The same call on the Bloom kinds of one fixed size; the others refuse.
macro_rules! on_bloom {
    ($any:expr, $doing:literal, $filter:ident => $call:expr) => {
        match $any {
            AnyFilter::Classic($filter) => $call,
            AnyFilter::Blocked($filter) => $call,
            AnyFilter::Partitioned($filter) => $call,
            other => Err(not_bloom(other.kind(), $doing)),
        }
    };
}

/// The same call on two Bloom filters of one kind, or on two chains of them; the others refuse.
macro_rules! on_both {
    ($one:expr, $other:expr, $doing:literal, ($a:ident, $b:ident) => $call:expr) => {
        match ($one, $other) {
            (AnyFilter::Classic($a), AnyFilter::Classic($b)) => $call,
            (AnyFilter::Blocked($a), AnyFilter::Blocked($b)) => $call,
            (AnyFilter::Partitioned($a), AnyFilter::Partitioned($b)) => $call,
            (AnyFilter::Scalable($a), AnyFilter::Scalable($b)) => $call,
            (one, other) if one.kind() == other.kind() => Err(not_bloom(one.kind(), $doing)),
            (one, other) => Err(Error::new(
                ErrorKind::Shape,
                format!(
                    "a {} filter ({}) and a {} filter ({}) cannot be {}: build both of one kind, shape and contract",
                    one.kind(),
                    one.contract(),
                    other.kind(),
                    other.contract(),
                    $doing
                ),
            )),
        }
    };
}

#[cold]
fn not_bloom(kind: Kind, doing: &str) -> Error {
    let why = match kind {
        // Its rule makes every stage from the first, and a reader of its file checks that.
        Kind::Scalable => ", since its stages follow from the size of its first",
        _ => "",
    };
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "a {kind} filter cannot be {doing}{why}: blocked, classic and partitioned filters can; build one of these from \
             the keys"
        ),
    )
}

/// Sets together, for blocked, classic and partitioned filters, and as far as [it can be](crate::Scalable::intersection) for
/// scalable ones; the other kinds refuse with [`ErrorKind::Unsupported`].
impl<S: Store> AnyFilter<S> {
    /// How many keys each of two sets has, how many they have together and in common, and how alike they are:
    /// [`Bloom::overlap`](crate::Bloom::overlap).
    ///
    /// ```
    /// use bloomgate::{AnyFilter, Blocked};
    ///
    /// let make = || Blocked::builder().keys::<u64>().items(20_000).build().map(AnyFilter::from);
    /// let (mut a, mut b) = (make()?, make()?);
    /// a.insert_all(0..10_000u64)?;
    /// b.insert_all(5_000..15_000u64)?;
    /// assert!((a.overlap(&b)?.intersection.value / 5_000.0 - 1.0).abs() < 0.1);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[doc(alias = "jaccard")]
    pub fn overlap<T: Store>(&self, other: &AnyFilter<T>) -> Result<Overlap> {
        on_both!(self, other, "compared", (ours, theirs) => ours.overlap(theirs))
    }

    /// The filter of the bits that both have: [`Bloom::intersection`](crate::Bloom::intersection).
    #[doc(alias = "and")]
    pub fn intersection<T: Store>(&self, other: &AnyFilter<T>) -> Result<AnyFilter<Owned>> {
        on_both!(self, other, "intersected", (ours, theirs) => ours.intersection(theirs).map(Into::into))
    }

    /// The filter at a `factor`-th of its size, as if it had been built so:
    /// [`Bloom::folded`](crate::Bloom::folded).
    pub fn folded(&self, factor: u32) -> Result<AnyFilter<Owned>> {
        on_bloom!(self, "folded", filter => filter.folded(factor).map(Into::into))
    }

    /// The filter made as small as it can be for its keys at this rate: [`Bloom::fit`](crate::Bloom::fit).
    #[doc(alias = "shrink_to_fit")]
    pub fn fit(&self, rate: f64) -> Result<AnyFilter<Owned>> {
        on_bloom!(self, "folded", filter => filter.fit(rate).map(Into::into))
    }

    /// How many times it can be folded in half; nothing for kinds that cannot be folded at all.
    #[must_use]
    pub fn halvings(&self) -> Option<u32> {
        on_bloom!(self, "folded", filter => Ok(filter.layout().spread().trailing_zeros())).ok()
    }

    /// By what this filter is [`folded`](Self::folded) to have the shape of a smaller one, with which it can then be
    /// united: nothing if no fold leads there.
    #[must_use]
    pub fn folds_onto<T: Store>(&self, smaller: &AnyFilter<T>) -> Option<u64> {
        match (self, smaller) {
            (AnyFilter::Classic(large), AnyFilter::Classic(small)) => fold_onto(large.layout(), small.layout()),
            (AnyFilter::Blocked(large), AnyFilter::Blocked(small)) => fold_onto(large.layout(), small.layout()),
            (AnyFilter::Partitioned(large), AnyFilter::Partitioned(small)) => fold_onto(large.layout(), small.layout()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::Mapped;
    use crate::format::OpenOptions;
    use crate::{Blocked, Classic, Counting, Cuckoo, Partitioned, Scalable};

    fn filled(mut filter: AnyFilter, keys: std::ops::Range<u64>) -> AnyFilter {
        filter.insert_all(keys).unwrap();
        filter
    }

    fn makers() -> [fn() -> AnyFilter; 3] {
        [
            || Blocked::builder().keys::<u64>().items(4_000).fold_levels(4).build().unwrap().into(),
            || Classic::builder().keys::<u64>().items(4_000).fold_levels(4).build().unwrap().into(),
            || Partitioned::builder().keys::<u64>().items(4_000).fold_levels(4).build().unwrap().into(),
        ]
    }

    #[test]
    fn any_bloom_filter_does_what_its_kind_does() {
        for make in makers() {
            let (a, b) = (filled(make(), 0..2_000), filled(make(), 1_000..3_000));
            let both: AnyFilter<Mapped> = AnyFilter::map_bytes(&b.to_bytes().unwrap(), &OpenOptions::new()).unwrap();
            let overlap = a.overlap(&both).unwrap();
            let (low, high) = (overlap.intersection.low, overlap.intersection.high.unwrap());
            assert!((low..=high).contains(&1_000.0) && high - low < 300.0, "{} {overlap:?}", a.kind());
            let common = a.intersection(&both).unwrap();
            assert!((1_000..2_000u64).all(|key| common.contains(&key).unwrap()));
            assert!((0..900u64).filter(|key| common.contains(key).unwrap()).count() < 60);
            let halvings = a.halvings().unwrap();
            assert!(halvings >= 4, "{} {halvings}", a.kind());
            let small = a.folded(4).unwrap();
            assert!((0..2_000u64).all(|key| small.contains(&key).unwrap()));
            assert_eq!((a.folds_onto(&small), small.folds_onto(&a), a.folds_onto(&both)), (Some(4), None, None));
            assert_eq!(small.halvings(), Some(halvings - 2));
            let fitted = a.fit(0.05).unwrap();
            assert!(fitted.size_in_bytes() < a.size_in_bytes() && fitted.expected_rate() <= 0.0501);
            assert!((0..2_000u64).all(|key| fitted.contains(&key).unwrap()));
        }
    }

    #[test]
    fn chains_that_have_not_grown_do_what_their_stage_does() {
        for stages in [Kind::Blocked, Kind::Classic, Kind::Partitioned] {
            let make =
                || AnyFilter::from(Scalable::builder().keys::<u64>().items(4_000).stages(stages).build().unwrap());
            let (a, b) = (filled(make(), 0..2_000), filled(make(), 1_000..3_000));
            let common = a.intersection(&b).unwrap();
            assert_eq!(common.kind(), Kind::Scalable);
            for key in 0..20_000u64 {
                assert_eq!(common.contains(&key).unwrap(), a.contains(&key).unwrap() && b.contains(&key).unwrap());
            }
            let overlap = a.overlap(&b).unwrap();
            assert!((overlap.intersection.value / 1_000.0 - 1.0).abs() < 0.15, "{stages} {overlap:?}");
            let grown = filled(make(), 0..10_000);
            for refusal in [grown.intersection(&b).unwrap_err(), b.overlap(&grown).unwrap_err()] {
                assert_eq!(refusal.kind(), ErrorKind::Unsupported);
                assert!(refusal.to_string().contains("may be in one stage here and in another there"), "{refusal}");
            }
            for refusal in [a.folded(2).unwrap_err(), a.fit(0.1).unwrap_err()] {
                assert!(refusal.to_string().contains("its stages follow from the size of its first"), "{refusal}");
            }
            assert_eq!((a.halvings(), a.folds_onto(&b)), (None, None));
        }
    }

    #[test]
    fn the_other_kinds_refuse_and_say_which_can() {
        let counting: AnyFilter = Counting::builder().items(100).build().unwrap().into();
        let cuckoo: AnyFilter = Cuckoo::builder().items(100).build().unwrap().into();
        let blocked: AnyFilter = Blocked::builder().items(100).build().unwrap().into();
        for filter in [&counting, &cuckoo] {
            let refusals = [
                filter.overlap(filter).unwrap_err(),
                filter.intersection(filter).unwrap_err(),
                filter.folded(2).unwrap_err(),
                filter.fit(0.1).unwrap_err(),
            ];
            for refusal in refusals {
                assert_eq!(refusal.kind(), ErrorKind::Unsupported);
                assert!(refusal.to_string().contains("blocked, classic and partitioned"), "{refusal}");
            }
            assert_eq!((filter.halvings(), filter.folds_onto(filter)), (None, None));
        }
        let refusal = blocked.overlap(&cuckoo).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Shape);
        assert!(refusal.to_string().contains("a blocked filter") && refusal.to_string().contains("a cuckoo filter"));
    }
}
