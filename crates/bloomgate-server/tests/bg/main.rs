//! BG.*, through conversations without sockets: bytes in, bytes out.

mod building;
mod creating;
mod examples;
mod files;
mod harness;
mod items;
mod rekeying;
mod restarting;
mod sets;
mod telling;
mod watching;
mod windows;
