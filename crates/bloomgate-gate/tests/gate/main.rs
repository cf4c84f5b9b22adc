//! The gate with real parts.

mod caches;
#[cfg(feature = "redis")]
mod filter_server;
#[cfg(feature = "redis")]
mod redis_cache;
#[cfg(feature = "redis")]
mod redis_server;
#[cfg(feature = "redis")]
mod resp_filter;
