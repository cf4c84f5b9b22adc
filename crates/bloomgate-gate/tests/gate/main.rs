//! The gate against real parts: one binary for all areas.
#![forbid(unsafe_code)]

mod keys;
#[cfg(feature = "sqlite")]
mod sqlite;
