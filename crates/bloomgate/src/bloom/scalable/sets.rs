//! Chains together: the union of two, and of two that have not grown what they have in common.
//!
//! **When.** Shards or days were each filled by somebody who could not know how many keys would come, and become one
//! filter. **When not.** The number of all keys is known beforehand: filters of a fixed size for as many are smaller, and
//! their union keeps its rate.
//!
//! Chains that were made alike (first stage, growth, rate and its shares, kind of the stages, contract) have stages of the
//! same shapes, so they are united stage by stage, and what the longer one has beyond the other is copied:
//!
//! ```text
//!  stage      0      1       2
//!  A         [##]  [####]  [##.....]
//!  B         [##]  [#...]
//!  A ∪ B     [##]  [####]  [##.....]     0 and 1 have the bits of both, 2 is that of A
//! ```
//!
//! **No key is lost.** A key that was inserted into A has all its bits in some stage of A, the i-th. The i-th stage of the
//! union has the shape of that stage and every bit of it, so it says "maybe" to the key; and a chain says "maybe" if any of its
//! stages does. The same holds for B.
//!
//! **The rate is told, not kept.** A stage that has the keys of two may hold more than it was made for, and then costs more
//! than its share; stages that are opened afterwards keep theirs. Each stage counts what its bits speak of, as a
//! union of fixed size does (`bloom/algebra.rs`), and `expected_rate`, `remaining` and growth go by these counts: a last
//! stage that is full takes no further key. Two chains for 1,000 keys at 1 % and default shares, each with its first stage
//! just full, have 0.05 % each; their union of 2,000 keys has 1.8 %. Chains with a first stage for all keys keep the rate.
//!
//! A key that came to one stage of A and to another of B is in both stages of the union, and counts twice: the bits do not
//! tell. So [`len`](Scalable::len) and [`approximate_count`](Scalable::approximate_count) of grown chains that share keys are
//! too high, and growth comes early.
//!
//! **Intersections** keep a common key only where both have it in the same stage, which is certain of chains with one stage
//! alone. The others are refused.

use super::super::algebra::{believed, disbelieved, incompatible, shape, union_len};
use super::super::layout::sealed::Layout as _;
use super::super::layout::{AnyLayout, Layout};
use super::{Bloom, Growth, Scalable, Stage};
use crate::arch::words::ReadWords;
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::math::overlap::Overlap;
use crate::promise::WhenFull;

/// The same call on whichever kind of stage it is.
macro_rules! on {
    ($stage:expr, $filter:ident => $call:expr) => {
        match $stage {
            Stage::Blocked($filter) => $call,
            Stage::Classic($filter) => $call,
            Stage::Partitioned($filter) => $call,
        }
    };
}

/// The same call on two stages of one kind.
macro_rules! on_both {
    ($one:expr, $other:expr, ($a:ident, $b:ident) => $call:expr) => {
        match ($one, $other) {
            (Stage::Blocked($a), Stage::Blocked($b)) => $call,
            (Stage::Classic($a), Stage::Classic($b)) => $call,
            (Stage::Partitioned($a), Stage::Partitioned($b)) => $call,
            _ => Err(Error::new(
                ErrorKind::Shape,
                "stages of two kinds do not lie over each other: build both chains with stages of one kind",
            )),
        }
    };
}

/// Sets together, in any place: what comes out is owned.
impl<S: Store> Scalable<S> {
    /// The chain of all keys of both, of as many stages as the longer one has.
    ///
    /// Takes its promise from `self`. [`expected_rate`](Self::expected_rate) tells what it costs if the keys of both are
    /// more than the stages were made for. A chain that refuses when it is full refuses a union that certainly holds more with
    /// [`ErrorKind::Full`], and one that does not grow takes in no longer one.
    ///
    /// ```
    /// use bloomgate::Scalable;
    ///
    /// let make = || Scalable::builder().keys::<u64>().items(1_000).rate(0.01).build();
    /// let (mut monday, mut tuesday) = (make()?, make()?);
    /// monday.insert_all(0..10_000u64)?;
    /// tuesday.insert_all(10_000..12_000u64)?;
    /// let both = tuesday.union(&monday)?;
    /// assert_eq!(both.stages(), monday.stages());
    /// assert!(both.contains(&0u64)? && both.contains(&11_999u64)?);
    /// # Ok::<(), bloomgate::Error>(())
    /// ```
    #[doc(alias = "merge")]
    #[doc(alias = "or")]
    pub fn union<T: Store>(&self, other: &Scalable<T>) -> Result<Scalable<Owned>> {
        let (ours, theirs) = (Open::of(self), Open::of(other));
        check(&ours, &theirs, "united")?;
        let stages = ours.stages.iter().map(|stage| copied(stage)).collect::<Result<Vec<_>>>()?;
        let mut union = Scalable::from_parts(self.contract.clone(), self.promise, self.growth, stages)?;
        union.union_with(other)?;
        Ok(union)
    }

    /// The filter of the bits that both have, for chains that have not grown:
    /// [`Bloom::intersection`](crate::Bloom::intersection). It goes on growing as `self` does.
    ///
    /// Chains of several stages are refused with [`ErrorKind::Unsupported`]: a key of both may be in one stage here and in
    /// another there.
    #[doc(alias = "and")]
    pub fn intersection<T: Store>(&self, other: &Scalable<T>) -> Result<Scalable<Owned>> {
        let (one, other) = ungrown(&Open::of(self), &Open::of(other), "intersected")?;
        let stage = on_both!(one, other, (a, b) => a.intersection(b).map(Stage::from))?;
        Scalable::from_parts(self.contract.clone(), self.promise, self.growth, vec![stage])
    }

    /// How many keys each of two sets has, how many they have together and in common, and how alike they are, for chains
    /// that have not grown: [`Bloom::overlap`](crate::Bloom::overlap). Others are refused as by
    /// [`intersection`](Self::intersection).
    #[doc(alias = "jaccard")]
    #[doc(alias = "similarity")]
    pub fn overlap<T: Store>(&self, other: &Scalable<T>) -> Result<Overlap> {
        let (one, other) = ungrown(&Open::of(self), &Open::of(other), "compared")?;
        on_both!(one, other, (a, b) => a.overlap(b))
    }
}

/// Sets together, in place.
impl Scalable<Owned> {
    /// Takes in all keys of another chain: [`union`](Self::union), in place and all or nothing.
    #[doc(alias = "merge")]
    #[doc(alias = "put_all")]
    pub fn union_with<T: Store>(&mut self, other: &Scalable<T>) -> Result<()> {
        let theirs = Open::of(other);
        // Whatever may be refused, memory too, is refused before the first bit changes.
        let (lens, further) = before_union(&Open::of(self), &theirs)?;
        for (at, (theirs, len)) in theirs.stages.iter().zip(lens).enumerate() {
            if let Some(ours) = self.chain.get_mut(at) {
                on_both!(ours, *theirs, (ours, theirs) => {
                    ours.take_in(theirs, len);
                    Ok(())
                })?;
            }
        }
        for stage in further {
            self.chain.push(stage);
        }
        Ok(())
    }

    /// Keeps what another chain has too: [`intersection`](Self::intersection), in place and all or nothing.
    pub fn intersect_with<T: Store>(&mut self, other: &Scalable<T>) -> Result<()> {
        let (_, theirs) = ungrown(&Open::of(self), &Open::of(other), "intersected")?;
        on_both!(self.chain.newest_mut(), theirs, (ours, theirs) => ours.intersect_with(theirs))
    }
}

/// A chain with the stages that it had at one moment: others may open more meanwhile.
struct Open<'a, S: Store> {
    chain: &'a Scalable<S>,
    stages: Vec<&'a Stage<S>>,
}

impl<'a, S: Store> Open<'a, S> {
    fn of(chain: &'a Scalable<S>) -> Self {
        Self { chain, stages: chain.each_stage().collect() }
    }

    /// Whether every word of it may be believed.
    fn believed(&self) -> bool {
        self.stages.iter().all(|stage| on!(stage, filter => believed(filter.store())))
    }

    /// How it was made, how long it is, and the shape of one stage if that is where it differs.
    fn described(&self, differing: Option<usize>) -> String {
        let Growth { stages, first, factor, tightening } = self.chain.growth;
        let stage = differing.and_then(|at| self.stages.get(at).map(|stage| (at, shape(layout(stage)))));
        format!(
            "scalable, the first of its {stages} stages for {first} keys, rate {}, growth {factor}, shares {tightening:?}, {} \
             open{} ({})",
            self.chain.promise.rate,
            self.stages.len(),
            stage.map(|(at, shape)| format!(", stage {at} {shape}")).unwrap_or_default(),
            self.chain.contract
        )
    }
}

fn layout<S: Store>(stage: &Stage<S>) -> AnyLayout {
    on!(stage, filter => filter.layout().any())
}

/// Everything that may be refused before two chains are laid over each other.
fn check<A: Store, B: Store>(a: &Open<'_, A>, b: &Open<'_, B>, doing: &str) -> Result<()> {
    let made_alike = a.chain.growth == b.chain.growth && a.chain.promise.rate == b.chain.promise.rate;
    // Stages that were made alike are alike; those of a file may differ by what powers do from machine to machine.
    let differing = match made_alike {
        true => a.stages.iter().zip(&b.stages).position(|(one, other)| layout(one) != layout(other)),
        false => None,
    };
    let same_shape = made_alike && differing.is_none();
    let same_contract = a.chain.contract == b.chain.contract;
    if !same_shape || !same_contract {
        let what = "build both for as many first keys, with the same rate, shares, growth, keys and hash";
        let (a, b) = (a.described(differing), b.described(differing));
        return Err(incompatible(doing, same_shape, same_contract, &a, &b, what));
    }
    if a.believed() && b.believed() { Ok(()) } else { Err(disbelieved(doing)) }
}

/// Checks a union: the counts that the stages of both will have, and a copy of those that the first does not have.
fn before_union<A: Store, B: Store>(a: &Open<'_, A>, b: &Open<'_, B>) -> Result<(Vec<u64>, Vec<Stage<Owned>>)> {
    check(a, b, "united")?;
    let when_full = a.chain.promise.when_full;
    if when_full != WhenFull::Grow && b.stages.len() > a.stages.len() {
        return Err(Error::new(
            ErrorKind::Shape,
            format!(
                "a chain that does not grow takes in no further stages: the first is {}, the second {}; unite them the other \
                 way round",
                a.described(None),
                b.described(None)
            ),
        ));
    }
    let pairs = a.stages.iter().zip(&b.stages);
    let lens = pairs.map(|(one, other)| on_both!(*one, *other, (one, other) => union_len(one, other, when_full)));
    let further = b.stages.iter().skip(a.stages.len()).map(|stage| copied(stage));
    Ok((lens.collect::<Result<_>>()?, further.collect::<Result<_>>()?))
}

/// The only stages of two chains that have no others.
fn ungrown<'a, 'b, A: Store, B: Store>(
    a: &Open<'a, A>,
    b: &Open<'b, B>,
    doing: &str,
) -> Result<(&'a Stage<A>, &'b Stage<B>)> {
    check(a, b, doing)?;
    if let (&[one], &[other]) = (&a.stages[..], &b.stages[..]) {
        return Ok((one, other));
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "chains that have grown cannot be {doing}, since a key of both may be in one stage here and in another there: the \
             first is {}, the second {}; ask both, or build both with a first stage for all keys",
            a.described(None),
            b.described(None)
        ),
    ))
}

/// A stage of its own with the same bits and the same count.
fn copied<S: Store>(stage: &Stage<S>) -> Result<Stage<Owned>> {
    on!(stage, filter => copied_filter(filter).map(Stage::from))
}

fn copied_filter<L: Layout, S: Store>(filter: &Bloom<L, S>) -> Result<Bloom<L, Owned>> {
    let mut copy = Bloom::empty(*filter.layout(), filter.contract().clone(), filter.promise())?;
    let words = filter.store().words();
    for (at, word) in copy.words_mut().iter_mut().enumerate() {
        *word = words.load(at);
    }
    copy.set_len(filter.len());
    Ok(copy)
}

macro_rules! stage_of {
    ($($kind:ident),*) => {$(
        impl From<super::super::$kind<Owned>> for Stage<Owned> {
            fn from(filter: super::super::$kind<Owned>) -> Self {
                Stage::$kind(filter)
            }
        }
    )*};
}
stage_of!(Blocked, Classic, Partitioned);
