//! Search that opens few segments: ../search-pruning.md.

pub mod corpus;
pub mod measured;
pub mod pruner;
#[cfg(test)]
mod tests;
