//! Bulk mail by fingerprints: ../message-fingerprints.md.

pub mod bulk;
pub mod mail;
pub mod measured;
pub mod normalise;
#[cfg(test)]
mod tests;
