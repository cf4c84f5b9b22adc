//! Membership filters that keep their promise.

pub mod error;
pub mod format;
pub mod hash;
pub mod key;

pub use error::{Error, ErrorKind, Result};
pub use hash::{Contract, Digest};
pub use key::{Encoding, Key};
