//! Our side: the one file that knows Bloomgate's interface.
//!
//! Everything else sees `Side`.

use crate::args::Fault;
use crate::sides::{Mode, Shared, Side, Subject};
use bloomgate::bits::Shared as Threads;
use bloomgate::bloom::{Bloom, Layout};
use bloomgate::{Blocked, Classic, Contract, Counting, Encoding, Partitioned, Scalable, Secret};

/// The kinds of filter that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// One cache line per key.
    Blocked,
    /// k bits anywhere.
    Classic,
    /// k bits, one in each part.
    Partitioned,
    /// Counters for bits.
    Counting,
    /// A chain that grows; sized right from the start here.
    Scalable,
}

impl Kind {
    /// The kind called `name`.
    pub fn of(name: &str) -> Result<Self, Fault> {
        Ok(match name {
            "blocked" => Kind::Blocked,
            "classic" => Kind::Classic,
            "partitioned" => Kind::Partitioned,
            "counting" => Kind::Counting,
            "scalable" => Kind::Scalable,
            _ => {
                return Err(Fault(format!(
                    "no kind is called {name:?}; there are blocked, classic, partitioned, counting and scalable"
                )));
            }
        })
    }

    /// The kind's name in results.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Blocked => "blocked",
            Kind::Classic => "classic",
            Kind::Partitioned => "partitioned",
            Kind::Counting => "counting",
            Kind::Scalable => "scalable",
        }
    }
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
    match kind {
        Kind::Blocked => fixed!(Blocked),
        Kind::Classic => fixed!(Classic),
        Kind::Partitioned => fixed!(Partitioned),
        Kind::Scalable => fixed!(Scalable),
        Kind::Counting if form.shared => Err(Fault("counting filters have no shared form".to_string())),
        Kind::Counting => {
            Ok(Box::new(Counting::builder().contract(contract).items(n).rate(rate).build()?) as Box<dyn Side<K> + 'a>)
        }
    }
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
        Counting::clear(self);
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
