//! What can be a file: each kind of filter taken apart into pieces and words, and put together again.

use super::frame::corrupt;
use super::load::wrong_kind;
use super::shapes::{AForm, Cells, Chain, Piece, Plan, Rule};
use crate::any::{AnyFilter, every_kind, on};
use crate::bits::Store;
use crate::bloom::layout::AnyLayout;
use crate::bloom::{Bloom, Counting, Layout, Rotating, RotatingState, Scalable, Stable, Stage};
use crate::cuckoo::{Cuckoo, GrowingCuckoo};
use crate::error::{Error, Result};
use crate::foreign::Foreign;
use crate::fuse::Fuse;
use crate::hash::Contract;
use crate::kind::Kind;
use crate::quotient::Quotient;
use crate::ribbon::Ribbon;

/// A filter that can be taken apart and put together, in the place `S`.
pub(crate) trait Filed<S: Store>: Sized {
    /// The kind it is, unless it can be any.
    const KIND: Option<Kind>;
    fn contract_of(&self) -> &Contract;
    /// Its pieces with their words, in the order of their parts.
    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>);
    /// Works with the pieces while none of them can change, for kinds whose cells move: what is copied then fits
    /// together.
    fn at_rest<'a, T>(&'a self, work: impl FnOnce((Option<Chain>, Vec<(Piece, &'a S)>)) -> T) -> Result<T>
    where
        S: 'a,
    {
        Ok(work(self.pieces()))
    }
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
        let kind = cells.kind();
        let layout = match cells {
            Cells::Bits(any) => L::from_any(any),
            _ => None,
        };
        let layout = layout.ok_or_else(|| wrong_kind(L::KIND, kind))?;
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

    fn at_rest<'a, T>(&'a self, work: impl FnOnce((Option<Chain>, Vec<(Piece, &'a S)>)) -> T) -> Result<T>
    where
        S: 'a,
    {
        Ok(Counting::at_rest(self, || work(self.pieces())))
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let (Piece { cells, promise, len }, store) = only(plan, stores, Kind::Counting)?;
        match cells {
            Cells::Counters(layout, width) => Ok(Counting::from_parts(layout, width, contract, promise, len, store)),
            other => Err(wrong_kind(Kind::Counting, other.kind())),
        }
    }
}

/// The kinds whose one payload is fixed by a shape.
macro_rules! shaped {
    ($($filter:ident $($moves:ident)?),*) => {$(
        impl<S: Store> Filed<S> for $filter<S> {
            const KIND: Option<Kind> = Some(Kind::$filter);

            fn contract_of(&self) -> &Contract {
                self.contract()
            }

            fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
                let cells = Cells::$filter(*self.shape());
                (None, vec![(Piece { cells, promise: self.promise(), len: self.len() }, self.store())])
            }

            $(
                fn at_rest<'a, T>(&'a self, work: impl FnOnce((Option<Chain>, Vec<(Piece, &'a S)>)) -> T) -> Result<T>
                where
                    S: 'a,
                {
                    $filter::$moves(self, || work(self.pieces()))
                }
            )?

            fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
                let (Piece { cells, promise, len }, store) = only(plan, stores, Kind::$filter)?;
                match cells {
                    Cells::$filter(shape) => $filter::from_parts(shape, contract, promise, len, store),
                    other => Err(wrong_kind(Kind::$filter, other.kind())),
                }
            }
        }
    )*};
}
shaped!(Stable, Cuckoo at_rest, Quotient at_rest, Fuse, Ribbon);

impl<F: AForm, S: Store> Filed<S> for Foreign<F, S> {
    const KIND: Option<Kind> = Some(F::KIND);

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        let cells = Cells::Foreign(self.shape().any());
        (None, vec![(Piece { cells, promise: self.promise(), len: self.len() }, self.store())])
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let (Piece { cells, promise, len }, store) = only(plan, stores, F::KIND)?;
        let kind = cells.kind();
        let shape = match cells {
            Cells::Foreign(form) => F::from_any(form),
            _ => None,
        };
        let shape = shape.ok_or_else(|| wrong_kind(F::KIND, kind))?;
        Foreign::from_parts(shape, contract, promise, len, store)
    }
}

impl<S: Store> Filed<S> for GrowingCuckoo<S> {
    const KIND: Option<Kind> = Some(Kind::GrowingCuckoo);

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        let chain = Chain { rule: Rule::GrowingCuckoo(self.growth_rule()), promise: self.promise() };
        (Some(chain), self.each_stage().flat_map(|stage| stage.pieces().1).collect())
    }

    fn at_rest<'a, T>(&'a self, work: impl FnOnce((Option<Chain>, Vec<(Piece, &'a S)>)) -> T) -> Result<T>
    where
        S: 'a,
    {
        GrowingCuckoo::at_rest(self, || work(self.pieces()))
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let Some(Chain { rule: Rule::GrowingCuckoo(growth), promise }) = plan.chain else {
            return Err(wrong_kind(Kind::GrowingCuckoo, plan.kind()));
        };
        let stages = each_piece(&contract, plan.pieces, stores)?;
        GrowingCuckoo::from_parts(contract, promise, growth, stages)
    }
}

impl<S: Store> Filed<S> for Rotating<S> {
    const KIND: Option<Kind> = Some(Kind::Rotating);

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        self.while_still(|state| ring(self, state))
    }

    fn at_rest<'a, T>(&'a self, work: impl FnOnce((Option<Chain>, Vec<(Piece, &'a S)>)) -> T) -> Result<T>
    where
        S: 'a,
    {
        Ok(self.while_still(|state| work(ring(self, state))))
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        let Some(Chain { rule: Rule::Rotating(rule, state), promise }) = plan.chain else {
            return Err(wrong_kind(Kind::Rotating, plan.kind()));
        };
        let generations = each_piece(&contract, plan.pieces, stores)?;
        Rotating::from_parts(contract, promise, rule, state, generations)
    }
}

/// A ring that stands so, with its generations, oldest first.
fn ring<S: Store>(filter: &Rotating<S>, state: RotatingState) -> (Option<Chain>, Vec<(Piece, &S)>) {
    let chain = Chain { rule: Rule::Rotating(filter.rule(), state), promise: filter.promise() };
    (Some(chain), filter.each_generation().map(piece).collect())
}

/// A filter for each piece of a chain.
fn each_piece<F: Filed<S>, S: Store>(contract: &Contract, pieces: Vec<Piece>, stores: Vec<S>) -> Result<Vec<F>> {
    let one = |(piece, store)| F::of(contract.clone(), Plan { chain: None, pieces: vec![piece] }, vec![store]);
    pieces.into_iter().zip(stores).map(one).collect()
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
                _ => Err(unexpected_stage()),
            }
        };
        let stages = plan.pieces.into_iter().zip(stores).map(stage).collect::<Result<Vec<_>>>()?;
        Scalable::from_parts(contract, whole, growth, stages)
    }
}

fn unexpected_stage() -> Error {
    corrupt("SHAPE: a stage of another kind; blocked, classic or partitioned stages expected".into())
}

impl<S: Store> Filed<S> for AnyFilter<S> {
    const KIND: Option<Kind> = None;

    fn contract_of(&self) -> &Contract {
        self.contract()
    }

    fn pieces(&self) -> (Option<Chain>, Vec<(Piece, &S)>) {
        on!(self, filter => filter.pieces())
    }

    fn at_rest<'a, T>(&'a self, work: impl FnOnce((Option<Chain>, Vec<(Piece, &'a S)>)) -> T) -> Result<T>
    where
        S: 'a,
    {
        on!(self, filter => Filed::at_rest(filter, work))
    }

    fn of(contract: Contract, plan: Plan, stores: Vec<S>) -> Result<Self> {
        macro_rules! made {
            ($($kind:ident),*) => {
                match plan.kind() {
                    $(Kind::$kind => AnyFilter::$kind(Filed::of(contract, plan, stores)?),)*
                }
            };
        }
        Ok(every_kind!(made))
    }
}
