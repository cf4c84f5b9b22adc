//! A cap on how often an ad is shown: ../ad-frequency.md.

pub mod cap;
pub mod measured;
#[cfg(test)]
mod tests;
