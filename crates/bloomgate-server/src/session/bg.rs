//! Commands.

use bloomgate_command::Request;

use super::call::{Call, Outcome};

/// Runs a command of this family.
pub fn run(_call: &mut Call<'_, '_, '_>, _request: &Request<'_>) -> Option<Outcome> {
    None
}
