//! A Redis-protocol server of membership filters: every core, and durable when it says so.

#![forbid(unsafe_code)]

pub mod engine;
pub mod resp;
pub mod store;
