//! Rate limits with counters for repeat visitors alone: ../rate-limiting.md.

pub mod limiter;
pub mod measured;
#[cfg(test)]
mod tests;
