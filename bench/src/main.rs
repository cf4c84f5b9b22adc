//! Bloomgate beside its peers.
fn main() {}
