//! The command as its users meet it: every verb, every exit code, good input and bad.

mod bench;
mod build;
mod check;
mod completions;
mod foreign;
#[cfg(feature = "redis")]
mod import;
mod info;
mod plan;
#[cfg(feature = "redis")]
mod replay;
mod scene;
mod secret;
