//! Membership filters that keep their promise.

pub mod advice;
pub mod any;
pub mod arch;
pub mod bits;
pub mod bloom;
pub mod error;
pub mod format;
pub mod hash;
pub mod key;
pub mod kind;
pub mod math;

pub use any::AnyFilter;
pub use bits::{HugePages, Owned, Shared};
pub use bloom::{Blocked, Bloom, Classic, Counting, Partitioned, Scalable, WhenFull};
pub use error::{Error, ErrorKind, Result};
pub use hash::{Contract, Digest, Secret};
pub use key::{Encoding, Key};
pub use kind::{Guarantee, Kind};
