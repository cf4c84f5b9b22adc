//! Conversations without a socket: every command, in both protocols.

mod access;
mod access_file;
mod attacks;
mod cf;
mod chores;
mod clock;
mod copying;
mod events;
mod forging;
mod leaving;
mod limits;
mod listing;
mod quotas;
mod server;
mod small;
mod spaces;
mod spaces_walk;
mod talk;
mod transactions;
