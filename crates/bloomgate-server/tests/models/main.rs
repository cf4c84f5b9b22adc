//! Models of the server's core: sessions, engine, snapshots and the reading of the log, run through thousands of
//! interleavings by shuttle, each the same whenever it is run again (`scripts/soak models`).
//!
//! Everything is the server's own code: commands in, replies and what they wait for out. Only the log's file is a list in
//! memory, and the disk of the snapshots too. Each model is run again with one step broken on purpose
//! ([`bloomgate_server::sync::Fault`]) and has to notice.

#![cfg(bloomgate_shuttle)]

mod adding;
mod explore;
mod failing;
mod feedback;
mod house;
mod naming;
mod snapshots;
#[path = "../shared/talk.rs"]
mod talk;
mod watching;
