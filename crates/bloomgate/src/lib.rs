//! Membership filters that keep their promise.

pub mod advice;
pub mod error;
pub mod hash;
pub mod key;
pub mod math;

pub use error::{Error, ErrorKind, Result};
pub use hash::{Contract, Digest};
pub use key::{Encoding, Key};
