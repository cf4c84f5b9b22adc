//! A Redis-protocol server of membership filters: every core, and durable when it says so.
//!
//! ```text
//!  net  ──▶ session ──▶ engine ──▶ bloomgate
//!  http ──┘               └──────▶ store
//! ```
//!
//! [`session`] is the protocol without a socket: bytes in, bytes out. [`engine`] has the filters and decides what is
//! written to the log. [`store`] keeps the log and the snapshots and knows nothing of filters. [`access`] knows
//! the users. [`net`] is sockets and
//! threads, [`http`] the same commands as HTTP/JSON. [`Settings`] says how a server is started, [`serve()`] does it.

#![forbid(unsafe_code)]

pub mod access;
pub mod engine;
pub mod http;
pub mod keeping;
pub mod logging;
pub mod net;
pub mod resp;
pub mod serve;
pub mod session;
pub mod settings;
pub mod store;
pub mod sync;
pub mod systemd;

pub use serve::{Ready, Stopped, serve};
pub use settings::Settings;
