//! From a request to the function that does it.

use bloomgate_command::{Refusal, Request};

use super::call::{Call, Outcome};
use super::{acl, bf, bg, cf, dumping, loading, names, server, tenants};

/// Runs a command that concerns the filters or the server. What concerns the conversation itself was done before.
pub fn run(call: &mut Call<'_, '_, '_>, request: Request<'_>) -> Outcome {
    bf::run(call, &request)
        .or_else(|| cf::run(call, &request))
        .or_else(|| bg::run(call, &request))
        .or_else(|| dumping::run(call, &request))
        .or_else(|| loading::run(call, &request))
        .or_else(|| names::run(call, &request))
        .or_else(|| acl::run(call, &request))
        .or_else(|| tenants::run(call, &request))
        .or_else(|| server::run(call, &request))
        .unwrap_or_else(|| Err(Refusal::err("this command cannot be used here").into()))
}
