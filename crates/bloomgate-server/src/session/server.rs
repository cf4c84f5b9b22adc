//! Commands that tell about the server and steer it.

use bloomgate_command::Request;

use super::call::{Call, Outcome};

/// The Redis that clients take us for: they look at it to decide what they may send.
pub const REDIS_VERSION: &str = "8.0.0";
/// The version of RedisBloom whose commands are answered, as MODULE LIST writes it.
pub const BF_VERSION: i64 = 80_800;

/// Runs a command of this group.
pub fn run(_call: &mut Call<'_, '_, '_>, _request: &Request<'_>) -> Option<Outcome> {
    None
}
