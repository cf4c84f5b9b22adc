//! The programs of the recipes: each in the folder of its page, small enough to be copied, and proven by the tests beside it.

#![forbid(unsafe_code)]

#[path = "ad-frequency/mod.rs"]
pub mod ad_frequency;
pub mod measure;
#[path = "message-fingerprints/mod.rs"]
pub mod message_fingerprints;
#[path = "rate-limiting/mod.rs"]
pub mod rate_limiting;
#[path = "search-pruning/mod.rs"]
pub mod search_pruning;
