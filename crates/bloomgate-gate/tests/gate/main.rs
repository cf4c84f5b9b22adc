//! The gate on real parts and under interleavings: one binary, a module for each area.
#![forbid(unsafe_code)]

mod interleavings;
mod keys;
mod memory_source;
mod paths;
mod rebuilds;
#[cfg(feature = "sqlite")]
mod sqlite;
