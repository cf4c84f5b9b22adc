//! Looks every ten seconds what is wrong, whether or not somebody watches, and tells the webhook what began and what ended.
//!
//! On a thread of its own: alerts are told where there is no HTTP side too, and a walk over 200,000 filters (50 ms) holds up no
//! request.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bloomgate_http::listen::Traffic;
use bloomgate_http::moment;
use bloomgate_http::webhook::{Origin, Patience, Receiver, Webhook};

use super::alerts::{Alert, Alerts, Found};
use super::survey::{Survey, Surveys};
use crate::engine::Engine;
use crate::logging::{Level, Log};
use crate::session::desk::Desk;
use crate::settings::Settings;

/// How often it is looked.
const EVERY: Duration = Duration::from_secs(10);
/// How often it is looked whether the filters are read and the first look can be taken.
const READING: Duration = Duration::from_millis(100);

/// The alerts of the last look, and who is told of them.
#[derive(Debug)]
pub struct Lookout {
    alerts: Alerts,
    surveys: Surveys,
    /// Connections of HTTP.
    pub(super) traffic: Arc<Traffic>,
    webhook: Option<Webhook>,
}

impl Lookout {
    /// A lookout that tells the webhook of the settings, if there is one; clients know the server by this address, or by that
    /// of its HTTP side.
    pub fn new(
        settings: &Settings,
        log: &Log,
        address: SocketAddr,
        http: Option<SocketAddr>,
    ) -> Result<Arc<Self>, String> {
        let start = |to: &Receiver| {
            let log = log.clone();
            let failed = move |why: &str| log.say(Level::Warn, "webhook-failed", format_args!("{why}"), &[]);
            let mut origin = Origin::here("bloomgate-server", http.unwrap_or(address));
            if let Some(http) = http {
                origin = origin.with_pages(settings.http_tls, http);
            }
            Webhook::start(to, origin, Patience::default(), failed)
        };
        let webhook = settings.alert_webhook.as_ref().map(start).transpose();
        let webhook = webhook.map_err(|error| format!("alert-webhook: {error}"))?;
        Ok(Arc::new(Self { alerts: Alerts::default(), surveys: Surveys::default(), traffic: Arc::default(), webhook }))
    }

    /// The alerts there are.
    pub(super) fn now(&self) -> Arc<Found> {
        self.alerts.now()
    }

    /// What the last walk over all filters found.
    pub(super) fn survey(&self) -> Arc<Survey> {
        self.surveys.last()
    }

    /// Who is told.
    pub(super) fn webhook(&self) -> Option<&Webhook> {
        self.webhook.as_ref()
    }

    fn look(&self, engine: &Engine, desk: &Desk) {
        self.surveys.go_on(engine);
        self.alerts.look(engine, desk, &self.traffic, &self.survey());
        if let Some(webhook) = &self.webhook {
            webhook.tell(self.now().all().iter().map(Alert::for_webhook).collect(), moment::now());
        }
    }

    /// Begins to look, until what is given back is dropped; not where there is neither an HTTP side nor a webhook.
    pub fn start(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        desk: &Arc<Desk>,
        has_http: bool,
    ) -> io::Result<Option<Looking>> {
        if !has_http && self.webhook.is_none() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::sync_channel::<()>(0);
        let (lookout, engine, desk) = (self.clone(), engine.clone(), desk.clone());
        let thread = std::thread::Builder::new().name("bloomgate-alerts".into()).spawn(move || {
            crate::net::step_back(10);
            let mut looked: Option<Instant> = None;
            loop {
                let pause = match looked {
                    Some(last) => EVERY.saturating_sub(last.elapsed()),
                    None => READING,
                };
                // Nobody sends: the other end is dropped.
                if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                if !engine.is_loading() {
                    looked = Some(Instant::now());
                    lookout.look(&engine, &desk);
                }
            }
        })?;
        Ok(Some(Looking { stop: Some(stop), thread: Some(thread) }))
    }
}

/// A lookout at work. It ends when this is dropped, and has let go of the filters then.
#[derive(Debug)]
pub struct Looking {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Looking {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
