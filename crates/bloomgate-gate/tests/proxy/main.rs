//! The gate as a reverse proxy and as a layer, on real sockets: one binary, a module for each area.
#![cfg(feature = "proxy")]
#![forbid(unsafe_code)]

mod caps;
mod catalog;
#[cfg(feature = "sqlite")]
mod feed;
mod hanging_up;
mod headers;
mod layer;
mod named;
mod queries;
mod racing;
mod spellings;
mod stage;
mod streams;
mod troubles;
mod whole;
mod writes;
