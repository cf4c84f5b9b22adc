//! Sockets and threads: one acceptor, a reactor per core, and a few workers for what takes long.

pub mod connection;
pub mod reactor;
pub mod worker;

pub use reactor::{Reactor, Reactors};
