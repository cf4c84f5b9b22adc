//! Sockets and threads: one acceptor, one for TLS handshakes, a reactor per core, and a few workers for what takes long.

pub mod connection;
pub mod greeting;
pub mod identity;
pub mod line;
pub mod listening;
pub mod logins;
pub mod reactor;
pub mod stream;
pub mod turns;
pub mod worker;

pub use reactor::{Reactor, Reactors};

/// Lowers the priority of this thread (nice, 1 to 19), so that those who answer clients go first. A system that does not
/// allow it is as good as before.
pub fn step_back(nice: i32) {
    // Of a process that is not named, Linux changes the calling thread alone.
    let _ = rustix::process::setpriority_process(None, nice);
}
