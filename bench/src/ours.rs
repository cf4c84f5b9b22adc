//! Our side: the one file that knows Bloomgate's interface.
//!
//! Everything else sees `Side`.

use crate::args::Fault;
use crate::sides::{Mode, Shared, Side, Subject};
use bloomgate::bits::Shared as Threads;
use bloomgate::bloom::{Bloom, Layout};
use bloomgate::{
    Blocked, Classic, Contract, Counting, Cuckoo, Encoding, Fuse, GrowingCuckoo, Kind, Partitioned, Quotient, Ribbon,
    Rotating, Scalable, Secret,
};

/// The kinds that take part in races: those of ours that hold all keys they are given.
pub const KINDS: [Kind; 11] = [
    Kind::Blocked,
    Kind::Classic,
    Kind::Partitioned,
    Kind::Counting,
    Kind::Scalable,
    Kind::Rotating,
    Kind::Cuckoo,
    Kind::GrowingCuckoo,
    Kind::Quotient,
    Kind::Fuse,
    Kind::Ribbon,
];

/// The kind called `name`, if it can be raced.
pub fn kind(name: &str) -> Result<Kind, Fault> {
    KINDS.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let names: Vec<&str> = KINDS.iter().map(|kind| kind.name()).collect();
        Fault(format!("no kind called {name:?} is raced; there are {}", names.join(", ")))
    })
}

/// What is asked of our side beyond kind, size and rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Form {
    /// Usable by several threads at once.
    pub shared: bool,
    /// Hashed by SipHash-1-3 under a secret.
    pub keyed: bool,
}

/// The contract of our side for these keys.
fn contract(encoding: Encoding, keyed: bool) -> Contract {
    let contract = if keyed { Contract::keyed(&Secret::from_bytes([7; 32])) } else { Contract::xxh3() };
    contract.with_encoding(encoding)
}

/// Our filter of `kind` for `n` keys at `rate`.
pub fn build<'a, K: Subject + 'a>(kind: Kind, n: usize, rate: f64, form: Form) -> Result<Box<dyn Side<K> + 'a>, Fault> {
    let contract = contract(K::ENCODING, form.keyed);
    let n = n as u64;
    macro_rules! fixed {
        ($kind:ident) => {{
            let builder = $kind::builder().contract(contract).items(n).rate(rate);
            if form.shared {
                Ok(Box::new(builder.build_shared()?) as Box<dyn Side<K> + 'a>)
            } else {
                Ok(Box::new(builder.build()?) as Box<dyn Side<K> + 'a>)
            }
        }};
    }
    macro_rules! alone {
        ($side:expr) => {
            if form.shared {
                Err(Fault(format!("{kind} filters are not raced by several threads")))
            } else {
                Ok(Box::new($side) as Box<dyn Side<K> + 'a>)
            }
        };
    }
    match kind {
        Kind::Blocked => fixed!(Blocked),
        Kind::Classic => fixed!(Classic),
        Kind::Partitioned => fixed!(Partitioned),
        Kind::Scalable => fixed!(Scalable),
        Kind::Counting => alone!(Counting::builder().contract(contract).items(n).rate(rate).build()?),
        Kind::Cuckoo => alone!(Cuckoo::builder().contract(contract).items(n).rate(rate).build()?),
        Kind::GrowingCuckoo => alone!(GrowingCuckoo::builder().contract(contract).items(n).rate(rate).build()?),
        Kind::Quotient => alone!(Quotient::builder().contract(contract).items(n).rate(rate).build()?),
        Kind::Rotating => {
            let hour = std::time::Duration::from_secs(3600);
            alone!(Rotating::builder().contract(contract).window(hour).items(n).rate(rate).build()?)
        }
        Kind::Fuse => alone!(Static::<Fuse> { contract, rate, filter: None }),
        Kind::Ribbon => alone!(Static::<Ribbon> { contract, rate, filter: None }),
        other => Err(Fault(format!("{other} filters are not raced"))),
    }
}

/// A filter that is built once, from all keys.
struct Static<F> {
    contract: Contract,
    rate: f64,
    filter: Option<F>,
}

impl From<bloomgate::Error> for Fault {
    fn from(error: bloomgate::Error) -> Self {
        Fault(error.to_string())
    }
}

/// The keys are of the filter's own type and it never refuses: an error here is a fault of the race.
fn sure<T>(result: bloomgate::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("our side refused: {error}"))
}

/// One filter type as a side; what follows its name are further methods of the trait.
macro_rules! side {
    ([$($generics:tt)*] $filter:ty { $($more:tt)* }) => {
        impl<K: Subject, $($generics)*> Side<K> for $filter {
            fn insert(&mut self, mode: Mode, keys: &[K]) -> usize {
                match mode {
                    Mode::Single => keys.iter().map(|key| usize::from(sure(<$filter>::insert(self, key)))).sum(),
                    Mode::Batch => sure(self.insert_batch(keys)) as usize,
                }
            }

            fn contains(&self, mode: Mode, keys: &[K], answers: &mut [bool]) {
                match mode {
                    Mode::Single => {
                        for (key, answer) in keys.iter().zip(answers) {
                            *answer = sure(<$filter>::contains(self, key));
                        }
                    }
                    Mode::Batch => sure(self.contains_batch(keys, answers)),
                }
            }

            fn bytes(&self) -> usize {
                self.size_in_bytes() as usize
            }

            $($more)*
        }
    };
}

/// The same for several threads.
macro_rules! shared_side {
    ([$($generics:tt)*] $filter:ty { $($more:tt)* }) => {
        side!([$($generics)*] $filter {
            $($more)*
            fn shared(&self) -> Option<&dyn Shared<K>> {
                Some(self)
            }
        });

        impl<K: Subject, $($generics)*> Shared<K> for $filter {
            fn insert_shared(&self, mode: Mode, keys: &[K]) -> usize {
                match mode {
                    Mode::Single => keys.iter().map(|key| usize::from(sure(<$filter>::insert(self, key)))).sum(),
                    Mode::Batch => sure(self.insert_batch(keys)) as usize,
                }
            }
        }
    };
}

side!([L: Layout] Bloom<L> {
    fn clear(&mut self) {
        Bloom::<L>::clear(self);
    }
});
side!([] Counting {
    fn clear(&mut self) {
        Counting::<bloomgate::Owned>::clear(self);
    }
});
side!([] Scalable {
    fn clear(&mut self) {
        sure(Scalable::<bloomgate::Owned>::clear(self));
    }
});
shared_side!([L: Layout] Bloom<L, Threads> {
    fn clear(&mut self) {
        Bloom::<L, Threads>::clear(self);
    }
});
shared_side!([] Scalable<Threads> {
    fn clear(&mut self) {
        sure(Scalable::<Threads>::clear(self));
    }
});
side!([] Cuckoo {
    fn clear(&mut self) {
        Cuckoo::<bloomgate::Owned>::clear(self);
    }
});
side!([] GrowingCuckoo {
    fn clear(&mut self) {
        sure(GrowingCuckoo::<bloomgate::Owned>::clear(self));
    }
});
side!([] Quotient {
    fn clear(&mut self) {
        Quotient::<bloomgate::Owned>::clear(self);
    }
});
side!([] Rotating {
    fn clear(&mut self) {
        Rotating::<bloomgate::Owned>::clear(self);
    }

    /// The keys of a window, as they come: a generation's share at a time.
    fn fill(&mut self, mode: Mode, keys: &[K]) -> usize {
        let slice = self.window() / self.generations();
        let mut new = 0;
        for (number, share) in keys.chunks(keys.len().div_ceil(self.generations() as usize).max(1)).enumerate() {
            if number > 0 {
                self.advance_by(slice);
            }
            new += share.chunks(crate::race::CALL).map(|call| Side::insert(self, mode, call)).sum::<usize>();
        }
        new
    }
});

/// The builder with one thread, for the kind that can use more.
macro_rules! one_thread {
    (Fuse, $builder:expr) => {
        $builder.threads(1)
    };
    ($other:ident, $builder:expr) => {
        $builder
    };
}

/// One kind that is built once as a side.
macro_rules! static_side {
    ($filter:ident) => {
        impl<K: Subject> Side<K> for Static<$filter> {
            fn clear(&mut self) {
                self.filter = None;
            }

            fn insert(&mut self, mode: Mode, keys: &[K]) -> usize {
                self.fill(mode, keys)
            }

            fn fill(&mut self, _: Mode, keys: &[K]) -> usize {
                // One thread: what is measured is the CPU time of this one.
                let builder = $filter::builder().contract(self.contract.clone()).rate(self.rate);
                self.filter = Some(sure(one_thread!($filter, builder).build_from_slice(keys)));
                keys.len()
            }

            fn contains(&self, mode: Mode, keys: &[K], answers: &mut [bool]) {
                let Some(filter) = &self.filter else { return answers.fill(false) };
                match mode {
                    Mode::Single => {
                        for (key, answer) in keys.iter().zip(answers) {
                            *answer = sure(filter.contains(key));
                        }
                    }
                    Mode::Batch => sure(filter.contains_batch(keys, answers)),
                }
            }

            fn bytes(&self) -> usize {
                self.filter.as_ref().map_or(0, |filter| filter.size_in_bytes() as usize)
            }
        }
    };
}

static_side!(Fuse);
static_side!(Ribbon);
