//! The gate against real parts: one binary for all areas.
#![forbid(unsafe_code)]

mod keys;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
mod postgres_server;
#[cfg(feature = "sqlite")]
mod sqlite;
