//! The gate on real parts and under interleavings: one binary, a module for each area.
#![forbid(unsafe_code)]

mod caches;
#[cfg(feature = "redis")]
mod filter_server;
mod interleavings;
mod keys;
mod memory_source;
mod paths;
mod rebuilds;
#[cfg(feature = "redis")]
mod redis_cache;
#[cfg(feature = "redis")]
mod redis_server;
#[cfg(feature = "redis")]
mod resp_filter;
#[cfg(feature = "sqlite")]
mod sqlite;
