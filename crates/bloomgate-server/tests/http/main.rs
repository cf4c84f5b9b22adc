//! The HTTP side of a whole server, over real sockets.

mod access;
mod filters;
mod harness;
mod keys;
mod limits;
mod repeating;
