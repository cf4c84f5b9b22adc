//! Server-sent events: a response that goes on, one event after the other, for as long as the client listens.
//!
//! ```text
//! event: stats
//! data: {"lookups":12}
//! ```
//!
//! A client that does not read fast enough holds up its own sender and nobody else: at most four events wait for it.

use axum::body::{Body, Bytes};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderName, HeaderValue, Response};
use tokio::sync::mpsc;

use crate::body;

/// The media type of a stream of events.
pub const MEDIA_TYPE: &str = "text/event-stream";
/// Events that wait for a client that reads slowly.
const WAITING: usize = 4;

/// Sends events to one client.
#[derive(Clone, Debug)]
pub struct Sender {
    to: mpsc::Sender<Bytes>,
}

impl Sender {
    /// Sends an event, and waits while the client is behind; false if it has gone. `name` is a word of ours, `data` any text:
    /// each of its lines becomes a line of the event.
    pub async fn send(&self, name: &str, data: &str) -> bool {
        self.to.send(event(name, data)).await.is_ok()
    }

    /// Sends a remark that no program reads, so that nobody on the way takes the silence for the end.
    pub async fn alive(&self) -> bool {
        self.to.send(Bytes::from_static(b": alive\n\n")).await.is_ok()
    }

    /// Ends when the client has gone.
    pub async fn gone(&self) {
        self.to.closed().await;
    }
}

/// One event as it is sent. A carriage return would end a line too, so it becomes a line's end.
fn event(name: &str, data: &str) -> Bytes {
    let mut text = format!("event: {name}\n");
    for line in data.replace("\r\n", "\n").replace('\r', "\n").split('\n') {
        text.push_str("data: ");
        text.push_str(line);
        text.push('\n');
    }
    text.push('\n');
    text.into()
}

/// A stream of events: the answer for the client, and what sends them. It ends when every sender is gone.
#[must_use]
pub fn stream() -> (Sender, Response<Body>) {
    let (to, from) = mpsc::channel(WAITING);
    let mut response = Response::new(body::pieces(from));
    let head = response.headers_mut();
    head.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    head.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that would collect events until there are enough of them.
    head.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    (Sender { to }, response)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn whatever_the_data_is_it_stays_one_event() {
        assert_eq!(event("stats", "{}"), "event: stats\ndata: {}\n\n");
        assert_eq!(event("log", "a\nb\r\nc\rd\n"), "event: log\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
        assert_eq!(event("log", "\n\nevent: forged"), "event: log\ndata: \ndata: \ndata: event: forged\n\n");
    }

    #[tokio::test]
    async fn a_stream_ends_with_its_sender_and_a_sender_hears_of_its_client() {
        let (sender, response) = stream();
        assert_eq!(response.headers()[CONTENT_TYPE], MEDIA_TYPE);
        let sending = tokio::spawn(async move { sender.send("a", "1").await && sender.alive().await });
        let all = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(all, "event: a\ndata: 1\n\n: alive\n\n");
        assert!(sending.await.unwrap());

        let (sender, response) = stream();
        drop(response);
        sender.gone().await;
        assert!(!sender.send("a", "1").await);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_holds_up_its_sender() {
        let (sender, response) = stream();
        let mut sent = 0;
        let slow = std::time::Duration::from_millis(50);
        while tokio::time::timeout(slow, sender.send("a", "1")).await.is_ok_and(|sent| sent) {
            sent += 1;
        }
        assert_eq!(sent, WAITING);
        drop(response);
    }
}
