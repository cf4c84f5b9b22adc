//! Filters: in this process, or behind the Redis protocol.

#[cfg(feature = "redis")]
mod replies;
#[cfg(feature = "redis")]
pub mod resp;
