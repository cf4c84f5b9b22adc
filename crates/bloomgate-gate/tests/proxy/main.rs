//! The gate as a reverse proxy and as a layer, on real sockets: one binary, a module for each area.
#![cfg(feature = "proxy")]
#![forbid(unsafe_code)]

mod caps;
mod catalog;
#[cfg(feature = "sqlite")]
mod feed;
#[cfg(feature = "sqlite")]
mod feeding;
mod headers;
mod layer;
mod racing;
mod spellings;
mod stage;
mod streams;
mod troubles;
mod writes;
