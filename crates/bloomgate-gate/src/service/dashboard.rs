//! What the dashboard needs of the service beside the figures: its files, what this process is, events, and the attack.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Response, StatusCode};
use bloomgate_http::access::Role;
use bloomgate_http::problem::Problem;
use bloomgate_http::{body, events, pages};

use super::routes::{Head, only};
use super::{Desk, answers};

/// How often the figures are sent.
const EVERY: Duration = Duration::from_secs(1);
/// The most streams of events at once: each costs a look at all counters a second.
const MOST_STREAMS: usize = 100;
/// The longest wish for an attack.
const MOST_WISH: usize = 1 << 10;
/// When to come again for a stream.
const AGAIN: Duration = Duration::from_secs(5);

/// A file of the dashboard. They hold nothing that not everybody may read, so nobody has to say who it is.
pub(super) fn page(head: &Head) -> Option<Response<Body>> {
    matches!(head.method, Method::GET | Method::HEAD).then(|| pages::answer(head.uri.path(), &head.headers))?
}

/// One place among the streams, given back at its end.
struct Watching(Arc<Desk>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watching.fetch_sub(1, Relaxed);
    }
}

impl Desk {
    /// What the dashboard alone asks for; nothing if the path is another one.
    pub(super) async fn dashboard(
        self: &Arc<Self>,
        head: &Head,
        rest: &mut Body,
    ) -> Option<Result<Response<Body>, Problem>> {
        Some(match head.uri.path() {
            "/about.json" => only(&head.method, &[Method::GET]).map(|()| self.about()),
            "/events" => self.may_watch(head).and_then(|()| self.events()),
            "/alerts" => self.may_watch(head).map(|()| self.json(StatusCode::OK, &self.alerts_told())),
            "/attack" | "/attack/stop" => self.attack(head, rest).await,
            _ => return None,
        })
    }

    fn may_watch(&self, head: &Head) -> Result<(), Problem> {
        only(&head.method, &[Method::GET])?;
        self.may(&head.headers, &head.uri, Role::Read)
    }

    /// `/about.json`: what the dashboard asks first.
    fn about(&self) -> Response<Body> {
        let about = serde_json::json!({
            "process": "gate",
            "version": env!("CARGO_PKG_VERSION"),
            "api": null,
            "login_needed": self.options.tokens.is_some() && !self.options.open_reads,
            "stats": "/stats",
            "events": "/events",
            "alerts": "/alerts",
            "attack": self.attack.as_ref().map(|_| "/attack"),
        });
        answers::json(StatusCode::OK, about.to_string())
    }

    /// `/events`: the figures, once a second, and the alerts when they change, until the client goes or the service ends.
    fn events(self: &Arc<Self>) -> Result<Response<Body>, Problem> {
        let place = self.watching.fetch_add(1, Relaxed);
        let watching = Watching(self.clone());
        if place >= MOST_STREAMS {
            return Err(Problem::unavailable(
                format!("{MOST_STREAMS} streams of events are open, and no more are possible: ask GET /stats instead"),
                AGAIN,
            ));
        }
        let (sender, response) = events::stream();
        tokio::spawn(async move {
            let desk = &watching.0;
            let mut before = String::new();
            loop {
                let Some(told) = desk.told_now().await else { break };
                if !sender.send("gate", &told).await {
                    break;
                }
                let alerts = desk.alerts_told().to_string();
                if alerts != before && !sender.send("alerts", &alerts).await {
                    break;
                }
                before = alerts;
                tokio::select! {
                    () = tokio::time::sleep(EVERY) => {}
                    () = sender.gone() => break,
                    () = desk.traffic.ended() => break,
                }
            }
        });
        Ok(response)
    }

    /// What `/stats` tells, in one line.
    async fn told_now(&self) -> Option<String> {
        if let Some(tenants) = self.tenants.get() {
            return serde_json::to_string(&self.told_of(tenants)).ok();
        }
        match self.gate.get() {
            Some(gate) => serde_json::to_string(&self.told_of_gate(gate).await.ok()?).ok(),
            None => Some(self.waiting_told().to_string()),
        }
    }

    /// `/attack` and `/attack/stop`.
    async fn attack(&self, head: &Head, rest: &mut Body) -> Result<Response<Body>, Problem> {
        let begins = head.uri.path() == "/attack";
        only(&head.method, if begins { &[Method::GET, Method::POST] } else { &[Method::POST] })?;
        let role = if head.method == Method::POST { Role::Admin } else { Role::Read };
        self.may(&head.headers, &head.uri, role)?;
        let Some(attack) = &self.attack else {
            return Err(Problem::not_found(
                "this service knows no program to attack with: run `bloomgate attack` yourself",
            ));
        };
        match (role, begins) {
            (Role::Admin, true) => attack.begin(&body::read(rest, MOST_WISH, self.options.body_time).await?)?,
            (Role::Admin, false) => attack.stop(),
            _ => {}
        }
        Ok(self.json(StatusCode::OK, &attack.told()))
    }
}
