//! The command as its users meet it: every verb, every exit code, good input and bad.

mod asks;
mod build;
mod check;
mod dedup;
mod foreign;
mod info;
mod plan;
mod scene;
mod secret;
mod verify;
