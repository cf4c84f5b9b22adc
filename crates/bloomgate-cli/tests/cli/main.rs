//! The command as its users meet it: every verb, every exit code, good input and bad.

mod bench;
mod build;
mod check;
mod completions;
mod foreign;
mod info;
mod plan;
mod scene;
mod secret;
