//! Reads the body of a request: not too much of it, and not for too long.

use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::problem::Problem;

/// The whole body, if it has at most `most` bytes and arrives `within` that time.
///
/// The memory grows with what has arrived, never with what was announced.
pub async fn read(body: Body, most: usize, within: Duration) -> Result<Bytes, Problem> {
    let collected = tokio::time::timeout(within, Limited::new(body, most).collect()).await;
    match collected {
        Err(_) => Err(Problem::too_slow(format!(
            "the body did not arrive within {} seconds; send it faster, or less at once",
            within.as_secs()
        ))),
        Ok(Err(error)) if is_too_long(error.as_ref()) => Err(too_large(most)),
        Ok(Err(error)) => Err(Problem::bad_request(format!("the body broke off: {error}"))),
        Ok(Ok(body)) => Ok(body.to_bytes()),
    }
}

/// The refusal of a body that is too long.
pub(crate) fn too_large(most: usize) -> Problem {
    Problem::too_large(format!("the body has more than {most} bytes; send less at once"))
}

/// Whether it was a limit that ended the body: this one, or that of the listener below it.
fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<LengthLimitError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn as_much_as_allowed_and_no_byte_more() {
        let second = Duration::from_secs(1);
        assert_eq!(read(Body::from("1234"), 4, second).await.unwrap(), "1234");
        let refused = read(Body::from("12345"), 4, second).await.unwrap_err();
        assert_eq!(refused.status(), 413);
        // The limit below it is told the same way.
        let inner = Body::new(Limited::new(Body::from("12345"), 4));
        assert_eq!(read(inner, 100, second).await.unwrap_err().status(), 413);
    }
}
