//! The command as its users meet it: every verb, every exit code, good input and bad.

mod build;
mod check;
mod foreign;
mod info;
mod plan;
#[cfg(all(unix, feature = "postgres"))]
mod postgres;
mod scene;
mod secret;
mod sources;
