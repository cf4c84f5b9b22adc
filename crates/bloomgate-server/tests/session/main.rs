//! Conversations without a socket: every command, in both protocols.

mod cf;
mod copying;
mod server;
mod talk;
