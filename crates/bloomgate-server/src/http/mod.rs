//! HTTP/JSON: the same filters, users, quotas and limits for whoever speaks no Redis.
//!
//! ```text
//!  request ──▶ routes ──▶ visit ──▶ talk ──▶ session (the same as RESP) ──▶ engine
//! ```
//!
//! A handler reimplements no command. It makes words of a request, gives them to a [`Session`](crate::session::Session) as a
//! socket would (`talk`), and makes JSON of the reply; so roles, namespaces, quotas, the log and what has to be durable
//! before an answer leaves are those of RESP, because they are the same code. What no command tells (lists of filters with
//! their figures, metrics) is read under the same user by [`Session::view`](crate::session::Session::view).
//!
//! One [`table`](routes::ROUTES) of routes gives the router, the OpenAPI description and the documentation.

mod advice;
mod alerts;
mod answers;
mod arriving;
mod attack;
mod bits;
mod bringing;
mod bulk;
mod events;
mod fetching;
mod figures;
mod files;
mod filters;
mod growth;
mod headers;
mod idempotency;
mod inside;
mod items;
mod json;
mod keys;
#[cfg(test)]
mod lines_tests;
mod lookout;
pub mod metrics;
pub mod openapi;
mod overview;
mod path;
mod plan;
mod pulse;
mod query;
mod reply;
mod routes;
mod schemas;
mod seats;
mod serving;
mod sets;
mod shelf;
mod survey;
mod talk;
mod tenants;
mod visit;
mod workbench;

pub use lookout::Lookout;
pub use routes::{ROUTES, Route};
pub use serving::{House, Http};

use axum::body::Body;
use axum::http::Response;
use bloomgate_http::problem::Problem;

/// What a handler comes to.
pub(crate) type Answer = Result<Response<Body>, Problem>;
