//! What can be a file: each kind of filter taken apart into pieces and words, and put together again.

use super::frame::corrupt;
use super::load::wrong_kind;
use super::shapes::{Cells, Chain, Piece, Plan, Rule};
use crate::any::AnyFilter;
use crate::bits::Store;
use crate::bloom::layout::AnyLayout;
use crate::bloom::{Blocked, Bloom, Classic, Counting, Layout, Partitioned, Scalable, Stage};
use crate::error::{Error, Result};
use crate::hash::Contract;
use crate::kind::Kind;

/// A filter that can be taken apart and put together, in the place `S`.
pub(crate) trait Filed<S: Store>: Sized {
    /// The kind it is, unless it can be any.
    const KIND: Option<Kind>;
    fn contract_of(&self) -> &Contract;
    /// Its pieces with their words, in the order of their parts.
    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>);
    /// The filter of these pieces; `stores` has one for each, of the words that its cells say.
    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self>;
}

/// The only piece of a filter without a chain, and its words.
fn only<S>(plan: Plan, stores: Vec<S>, wanted: Kind) -> Result<(Piece, S)> {
    let found = plan.kind();
    match (plan.chain, <[Piece; 1]>::try_from(plan.pieces), <[S; 1]>::try_from(stores)) {
        (None, Ok([piece]), Ok([store])) => Ok((piece, store)),
        _ => Err(wrong_kind(wanted, found)),
    }
}

fn piece<L: Layout, S: Store>(filter: &Bloom<L, S>) -> (Piece, &S) {
    let cells = Cells::Bits(filter.layout().any());
    (Piece { cells, promise: filter.promise(), len: filter.len() }, filter.store())
}

impl<L: Layout, S: Store> Filed<S> for Bloom<L, S> {
    const KIND: Option<Kind> = Some(L::KIND);

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        (None, vec![piece(self)])
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let (Piece { cells, promise, len }, store) = only(plan, stores, L::KIND)?;
        let layout = match cells {
            Cells::Bits(any) => L::from_any(any),
            Cells::Counters(..) => None,
        };
        let layout = layout.ok_or_else(|| wrong_kind(L::KIND, cells.kind()))?;
        Ok(Bloom::from_parts(layout, contract, promise, len, store))
    }
}

impl<S: Store> Filed<S> for Counting<S> {
    const KIND: Option<Kind> = Some(Kind::Counting);

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        let cells = Cells::Counters(*self.layout(), self.counter_bits());
        (None, vec![(Piece { cells, promise: self.promise(), len: self.len() }, self.store())])
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let (Piece { cells, promise, len }, store) = only(plan, stores, Kind::Counting)?;
        match cells {
            Cells::Counters(layout, width) => Ok(Counting::from_parts(layout, width, contract, promise, len, store)),
            Cells::Bits(_) => Err(wrong_kind(Kind::Counting, cells.kind())),
        }
    }
}

impl<S: Store> Filed<S> for Scalable<S> {
    const KIND: Option<Kind> = Some(Kind::Scalable);

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        let chain = Chain { rule: Rule::Scalable(self.growth_rule()), promise: self.promise() };
        let stages = self.each_stage().map(|stage| match stage {
            Stage::Blocked(filter) => piece(filter),
            Stage::Classic(filter) => piece(filter),
            Stage::Partitioned(filter) => piece(filter),
        });
        (Some(chain), stages.collect())
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let Some(Chain { rule: Rule::Scalable(growth), promise: whole }) = plan.chain else {
            return Err(wrong_kind(Kind::Scalable, plan.kind()));
        };
        let stage = |(Piece { cells, promise, len }, store): (Piece, S)| {
            let contract = contract.clone();
            match cells {
                Cells::Bits(AnyLayout::Blocked(layout)) => {
                    Ok(Stage::Blocked(Bloom::from_parts(layout, contract, promise, len, store)))
                }
                Cells::Bits(AnyLayout::Classic(layout)) => {
                    Ok(Stage::Classic(Bloom::from_parts(layout, contract, promise, len, store)))
                }
                Cells::Bits(AnyLayout::Partitioned(layout)) => {
                    Ok(Stage::Partitioned(Bloom::from_parts(layout, contract, promise, len, store)))
                }
                Cells::Counters(..) => Err(unexpected_stage()),
            }
        };
        let stages = plan.pieces.into_iter().zip(stores).map(stage).collect::<Result<Vec<_>>>()?;
        Scalable::from_parts(contract, whole, growth, stages)
    }
}

fn unexpected_stage() -> Error {
    corrupt("SHAPE: a stage of counters; blocked, classic or partitioned stages expected".into())
}

impl<S: Store> Filed<S> for AnyFilter<S> {
    const KIND: Option<Kind> = None;

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        match self {
            AnyFilter::Classic(filter) => filter.pieces(),
            AnyFilter::Blocked(filter) => filter.pieces(),
            AnyFilter::Partitioned(filter) => filter.pieces(),
            AnyFilter::Counting(filter) => filter.pieces(),
            AnyFilter::Scalable(filter) => filter.pieces(),
        }
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        Ok(match plan.kind() {
            Kind::Classic => AnyFilter::Classic(Classic::of(contract, plan, stores)?),
            Kind::Blocked => AnyFilter::Blocked(Blocked::of(contract, plan, stores)?),
            Kind::Partitioned => AnyFilter::Partitioned(Partitioned::of(contract, plan, stores)?),
            Kind::Counting => AnyFilter::Counting(Counting::of(contract, plan, stores)?),
            _ => AnyFilter::Scalable(Scalable::of(contract, plan, stores)?),
        })
    }
}
