//! Sends messages one after the other, each as often as patience lasts.

use axum::body::Bytes;
use axum::http::StatusCode;
use tokio::sync::mpsc;

use super::Patience;
use super::receiver::Dial;

/// Sends what comes, until nothing more can come.
pub(super) async fn all(
    mut messages: mpsc::Receiver<Bytes>,
    dial: Dial,
    patience: Patience,
    outcome: impl Fn(Result<(), String>),
) {
    while let Some(message) = messages.recv().await {
        let sent = one(&dial, &message, &patience).await;
        outcome(sent.map_err(|why| format!("a message to {dial} was given up: {why}")));
    }
}

async fn one(dial: &Dial, message: &Bytes, patience: &Patience) -> Result<(), String> {
    let mut pauses = patience.pauses.iter();
    let mut tries = 0;
    loop {
        tries += 1;
        let answer = tokio::time::timeout(patience.each, dial.post(message.clone())).await;
        let why = match answer {
            Ok(Ok(status)) if status.is_success() => return Ok(()),
            // It will say the same again.
            Ok(Ok(status)) if !may_change(status) => return Err(format!("it answers {status}")),
            Ok(Ok(status)) => format!("it answers {status}"),
            Ok(Err(why)) => why,
            Err(_) => format!("it did not answer within {:?}", patience.each),
        };
        match pauses.next() {
            Some(pause) => tokio::time::sleep(*pause).await,
            None if tries == 1 => return Err(why),
            None => return Err(format!("{why} (the last of {tries} tries)")),
        }
    }
}

/// Whether the same message may be taken later.
fn may_change(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS)
}
