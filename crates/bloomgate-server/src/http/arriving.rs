//! A body that arrives piece by piece, fast enough.

use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use bloomgate_http::body::broken_off;
use bloomgate_http::problem::Problem;
use http_body_util::BodyExt;
use tokio::time::timeout_at;

use super::serving::LONGEST_BODY;
use super::visit::BODY_TIME;

/// Bytes that have to arrive in each second, after the first minute.
const SLOWEST: u64 = 64 << 10;

/// How much of a body has arrived, and since when.
#[derive(Debug)]
pub(super) struct Arriving {
    begun: Instant,
    bytes: u64,
}

impl Arriving {
    /// One that begins now.
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), bytes: 0 }
    }

    /// The next piece. A body has a minute, and a second more for each 64 KB of it: whoever sends slower holds a place that
    /// others wait for.
    pub(super) async fn next(&mut self, body: &mut Body) -> Result<Option<Bytes>, Problem> {
        loop {
            let deadline = self.begun + BODY_TIME + Duration::from_secs(self.bytes / SLOWEST);
            let frame = timeout_at(deadline.into(), body.frame()).await.map_err(|_| {
                let (limit, bytes) = (self.begun.elapsed().as_secs(), self.bytes);
                Problem::too_slow(format!(
                    "{bytes} bytes of the body arrived in {limit} seconds: send it faster, or less at once"
                ))
            })?;
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.bytes += piece.len() as u64;
                        return Ok(Some(piece));
                    }
                }
                Some(Err(error)) => return Err(broken_off(error, LONGEST_BODY)),
            }
        }
    }
}
