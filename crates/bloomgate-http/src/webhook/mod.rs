//! Tells a URL when alerts begin and end.
//!
//! ```text
//!  alerts of now ──▶ firing (what changed?) ──▶ queue ──▶ a thread of its own ──▶ POST, again if need be
//! ```
//!
//! Whoever looks for alerts gives all there are, [`Webhook::tell`], as often as it likes; what changed since the last time
//! becomes one message. Nothing waits for the receiver: a message has some seconds, is tried again a few times with longer
//! and longer pauses, and is given up then. Those behind it wait in a queue; one that finds the queue full is given up at once.
//! A server that ends waits for none of them.
//!
//! A message is in the form of Alertmanager's webhooks (version 4), so whatever takes those takes these. It holds names,
//! figures and sentences of alerts: no key, no password, no address of a source.

mod firing;
mod receiver;
mod sending;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use tokio::sync::{mpsc, oneshot};

pub use firing::{Alert, Origin};
pub use receiver::Receiver;

use crate::error::Error;
use crate::metrics::{Metric, Scrape};
use firing::Firing;
use receiver::Dial;

/// Messages that wait. Alerts are looked for every ten seconds, so these are ten minutes of an unrest.
const WAITING: usize = 64;

static MESSAGES: Metric = Metric::counter(
    "bloomgate_alert_webhook_messages_total",
    "Messages to alert-webhook: sent, or failed (refused, given up after some tries, or too many at once)",
    "",
)
.labels(&["result"]);

/// The metrics of a webhook.
pub const TABLE: &[&Metric] = &[&MESSAGES];

/// How long a receiver is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For one try, from the name of the host to the answer: 10 s.
    pub each: Duration,
    /// The pauses between tries, one fewer than there are tries: 1 s, 4 s, 15 s, 60 s.
    pub pauses: Vec<Duration>,
}

impl Default for Patience {
    fn default() -> Self {
        Self { each: Duration::from_secs(10), pauses: [1, 4, 15, 60].map(Duration::from_secs).to_vec() }
    }
}

#[derive(Debug, Default)]
struct Counted {
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Who is told, and what was told so far. It ends when it is dropped.
#[derive(Debug)]
pub struct Webhook {
    origin: Origin,
    firing: Mutex<Firing>,
    queue: mpsc::Sender<Bytes>,
    counted: Arc<Counted>,
    /// Its end is the thread's.
    _running: oneshot::Sender<()>,
}

impl Webhook {
    /// Begins, on a thread of its own. `failed` is told of each message that was given up, by that thread.
    pub fn start(
        to: &Receiver,
        origin: Origin,
        patience: Patience,
        failed: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, Error> {
        Self::over(to.dial()?, origin, patience, failed)
    }

    fn over(
        dial: Dial,
        origin: Origin,
        patience: Patience,
        failed: impl Fn(&str) + Send + 'static,
    ) -> Result<Self, Error> {
        let no_thread = |error: std::io::Error| Error::new(format!("no thread for the webhook: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let (queue, messages) = mpsc::channel(WAITING);
        let (running, ended) = oneshot::channel();
        let counted: Arc<Counted> = Arc::default();
        let outcome = counted.clone();
        let all = sending::all(messages, dial, patience, move |sent| match sent {
            Ok(()) => _ = outcome.sent.fetch_add(1, Relaxed),
            Err(why) => {
                outcome.failed.fetch_add(1, Relaxed);
                failed(&why);
            }
        });
        std::thread::Builder::new()
            .name("bloomgate-webhook".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = all => {}
                        // Nobody sends here: the other end is gone.
                        _ = ended => {}
                    }
                });
                // The system may still be asked for the address of a host, and is not waited for.
                runtime.shutdown_background();
            })
            .map_err(no_thread)?;
        Ok(Self { origin, firing: Mutex::default(), queue, counted, _running: running })
    }

    /// All alerts there are at this time since 1970. What began and what ended since the last call is sent.
    pub fn tell(&self, now: Vec<Alert>, at: Duration) {
        let change = self.firing.lock().unwrap_or_else(PoisonError::into_inner).change(now, at);
        let Some(change) = change else { return };
        let message = change.message(&self.origin).to_string();
        if self.queue.try_send(message.into()).is_err() {
            self.counted.failed.fetch_add(1, Relaxed);
        }
    }

    /// Messages that were sent, and those that were given up.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.counted.sent.load(Relaxed), self.counted.failed.load(Relaxed))
    }
}

/// Adds what was counted; zeros where there is no webhook.
pub fn collect(webhook: Option<&Webhook>, scrape: &mut Scrape) {
    let (sent, failed) = webhook.map_or((0, 0), Webhook::counts);
    scrape.whole(&MESSAGES, &[("result", "sent")], sent);
    scrape.whole(&MESSAGES, &[("result", "failed")], failed);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;

    use tokio_rustls::rustls::{ServerConnection, StreamOwned};

    use super::*;
    use crate::Tls;

    /// Over TLS, to a receiver whose certificate is checked: the right one is told, one of another authority is not.
    #[test]
    fn messages_go_over_tls_to_whom_the_authorities_know() {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [own, strange] = ["own.pem", "strange.pem"].map(|name| folder.path().join(name));
        std::fs::write(&own, made.cert.pem()).unwrap();
        std::fs::write(&strange, other.cert.pem()).unwrap();
        let tls =
            Tls::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes(), "c", "k").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hear, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let session = ServerConnection::new(tls.config()).unwrap();
                let mut stream = StreamOwned::new(session, stream.unwrap());
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                // A message ends with its outermost brace.
                while !request.ends_with(b"}") {
                    match stream.read(&mut piece) {
                        Ok(read @ 1..) => request.extend_from_slice(&piece[..read]),
                        _ => break,
                    }
                }
                if !request.is_empty() {
                    hear.send(String::from_utf8(request).unwrap()).unwrap();
                    stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
                    stream.flush().unwrap();
                }
            }
        });
        let receiver: Receiver = format!("https://localhost:{port}/hook").parse().unwrap();
        let alert = Alert {
            name: "BloomgateStoreReadOnly",
            severity: "critical",
            summary: "writes are refused".to_owned(),
            section: "store-read-only",
            filter: None,
        };
        for (authorities, wanted) in [(&own, (1, 0)), (&strange, (0, 1))] {
            let origin = Origin { job: "bloomgate-server", instance: "here:1".to_owned(), pages: None };
            let (fail, failed) = channel();
            let patience = Patience { each: Duration::from_secs(20), pauses: Vec::new() };
            let dial = receiver.dial_trusting(authorities).unwrap();
            let webhook = Webhook::over(dial, origin, patience, move |why| fail.send(why.to_owned()).unwrap()).unwrap();
            webhook.tell(vec![alert.clone()], Duration::from_secs(1));
            if wanted.0 == 1 {
                let request = heard.recv_timeout(Duration::from_secs(30)).unwrap();
                assert!(request.starts_with("POST /hook HTTP/1.1\r\n"), "{request}");
                assert!(request.contains("BloomgateStoreReadOnly"), "{request}");
            } else {
                let why = failed.recv_timeout(Duration::from_secs(30)).unwrap();
                assert!(why.contains("TLS") && why.contains("https://localhost:") && !why.contains("hook"), "{why}");
            }
            let began = std::time::Instant::now();
            while webhook.counts() != wanted {
                assert!(began.elapsed() < Duration::from_secs(30), "{:?}", webhook.counts());
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
