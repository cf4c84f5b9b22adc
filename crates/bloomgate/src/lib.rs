//! Membership filters that keep their promise.

mod arch;
pub mod error;
pub mod hash;
pub mod key;

#[doc(hidden)]
pub use arch::set_simd;
pub use error::{Error, ErrorKind, Result};
pub use hash::{Algorithm, Contract, Digest, Secret, SecretId};
pub use key::{Encoding, Key, Uuid};
