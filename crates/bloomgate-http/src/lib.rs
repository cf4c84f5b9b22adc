//! The one HTTP stack of Bloomgate: what the gate's service and the server's HTTP side have in common.
//!
//! | module | what it answers |
//! |---|---|
//! | [`listen`] | how is a service put on a socket, with limits, and taken off it again? |
//! | [`tls`] | which certificate? |
//! | [`access`] | may this client do that? |
//! | [`body`] | what did the client send, if it is not too much or too slow? |
//! | [`base64`] | which bytes are these letters? |
//! | [`problem`] | what went wrong? (RFC 9457) |
//! | [`health`] | is it alive, is it ready? |
//! | [`metrics`](mod@metrics) | how much of everything? |
//! | [`events`] | what happens, as it happens? |
//! | [`webhook`] | who is told when something is wrong? |
//! | [`pages`] | how does all that look in a browser? |
//! | [`runbook`] | what is to be done about an alert? |
//! | [`moment`] | when was that, in letters? |
//!
//! Nothing here knows of filters. There is no stack of layers: what a request does not need, it does not pass.
#![forbid(unsafe_code)]

pub mod access;
pub mod base64;
pub mod body;
mod connections;
mod error;
pub mod events;
pub mod health;
pub mod listen;
pub mod metrics;
pub mod moment;
pub mod pages;
pub mod problem;
pub mod runbook;
pub mod tls;
mod validity;
pub mod webhook;

pub use error::Error;
pub use listen::{Limits, Options, Peer, Served, serve, serve_each, serve_streams};
pub use problem::Problem;
pub use tls::{Certificates, Tls};
/// What a service is for [`serve`]: for those that are no `Router`.
pub use tower::Service;
