//! The HTTP side of a whole server, over real sockets.

mod access;
mod alerts;
mod described;
mod events;
mod files;
mod filters;
mod harness;
mod health;
mod keys;
mod limits;
mod long_files;
mod metrics;
mod neighbours;
mod repeating;
mod secure;
mod server;
mod sets;
mod tenants;
