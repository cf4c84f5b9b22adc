//! The gate with real parts.

mod caches;
#[cfg(feature = "redis")]
mod redis_cache;
#[cfg(feature = "redis")]
mod redis_server;
