//! The command as its users meet it: every verb, every exit code, good input and bad.

mod build;
mod change;
mod check;
mod convert;
mod delta;
mod fold;
mod foreign;
mod info;
mod merge;
mod plan;
#[cfg(all(unix, feature = "postgres"))]
mod postgres;
mod scene;
mod secret;
mod sources;
