//! The HTTP side of a whole server, over real sockets.

mod access;
mod events;
mod files;
mod filters;
mod harness;
mod keys;
mod limits;
mod repeating;
mod server;
mod sets;
mod tenants;
