//! Conversations without a socket: every command, in both protocols.

mod cf;
mod chores;
mod copying;
mod limits;
mod server;
mod small;
mod talk;
