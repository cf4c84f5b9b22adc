//! `GET /v1/events`: figures once a second, and what happens when it does, as server-sent events.
//!
//! A stream is a task of its own with the user's conversation: who is deleted or loses the role gets nothing more. Who does not
//! read is waited for a while, and then its stream ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode};
use bloomgate_command::{Refusal, Role};
use bloomgate_http::body;
use bloomgate_http::problem::Problem;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, mpsc};

use super::figures::{path_of, shown};
use super::serving::{House, ended};
use super::talk::Talk;
use super::visit::Visit;
use super::{Answer, answers, overview};
use crate::engine::audit::Counts;
use crate::engine::shadows::is_reserved;
use crate::session::call::Call;

/// How often figures are told.
const EVERY: Duration = Duration::from_secs(1);
/// Events that wait for one who reads.
const WAITING: usize = 8;
/// How long one who does not read is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Filters that are looked at for what was asked of them since the last time.
const LOOKED_AT: usize = 5_000;
/// Of those, the most that are told.
const TOLD: usize = 200;

/// `GET /v1/events`.
pub(super) async fn events(visit: &mut Visit) -> Answer {
    let house = visit.house.clone();
    let place = house.streams.clone().try_acquire_owned().map_err(|_| {
        Problem::unavailable(
            "as many streams of events are open as there may be: close one, or come again later",
            EVERY,
        )
    })?;
    // Whoever may not gets a refusal, not a stream.
    let is_admin = visit.talk.view(Role::Read, |call| Ok(call.space().is_none()))?
        && visit.talk.user().is_some_and(|user| user.roles.contains(Role::Admin));
    let talk = visit.take_talk();
    let (door, events) = mpsc::channel(WAITING);
    let listening = is_admin.then(|| house.desk.log.listen());
    tokio::spawn(async move {
        let _place = place;
        // Ends with its reader, its user or the server.
        let _ = Stream { house, talk, door, listening, before: HashMap::new() }.run().await;
    });
    let mut response = answers::of(StatusCode::OK, "text/event-stream", body::pieces(events));
    response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

/// A stream to one reader.
struct Stream {
    house: Arc<House>,
    talk: Talk,
    door: mpsc::Sender<Bytes>,
    /// The server's log, for those who run it.
    listening: Option<broadcast::Receiver<Arc<str>>>,
    /// What was counted of each filter the last time.
    before: HashMap<u64, Counts>,
}

impl Stream {
    async fn run(mut self) -> Option<()> {
        let mut ending = self.house.ending();
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let (mut alerts, mut slow) = (None, self.house.desk.slow().first().map_or(0, |slow| slow.id + 1));
        loop {
            tokio::select! {
                () = ended(&mut ending) => return None,
                () = self.door.closed() => return None,
                line = heard(self.listening.as_mut()) => self.tell("log", &logged(&line)).await?,
                _ = tick.tick() => {
                    let house = self.house.clone();
                    let before = &mut self.before;
                    let told = self.talk.view(Role::Read, |call| {
                        let stats = json!({
                            "at_ms": house.engine.clock.now_ms(),
                            "overview": overview::figures(&house, call),
                            "filters": active(call, before)?,
                        });
                        Ok((stats, overview::alerts_of(&house, call)))
                    });
                    let (stats, now) = told.ok()?;
                    self.tell("stats", &stats).await?;
                    if alerts.as_ref() != Some(&now) {
                        self.tell("alerts", &json!({"alerts": now})).await?;
                        alerts = Some(now);
                    }
                    if self.listening.is_some() {
                        let news: Vec<_> = self.house.desk.slow().into_iter().filter(|one| one.id >= slow).collect();
                        for one in news.iter().rev() {
                            slow = one.id + 1;
                            let words: Vec<String> = one.words.iter().map(|word| shown(word)).collect();
                            let told = json!({
                                "id": one.id, "at_ms": one.at_s * 1_000, "took_seconds": one.micros as f64 / 1e6,
                                "argv": words, "client": one.address, "name": shown(&one.name),
                            });
                            self.tell("slow", &told).await?;
                        }
                    }
                }
            }
        }
    }

    /// Sends an event; nothing when nobody takes it.
    async fn tell(&self, event: &str, data: &Value) -> Option<()> {
        let text = format!("event: {event}\ndata: {data}\n\n");
        self.door.send_timeout(text.into(), PATIENCE).await.ok()
    }
}

/// The next line of the log; never for those who do not get it.
async fn heard(listening: Option<&mut broadcast::Receiver<Arc<str>>>) -> Arc<str> {
    let Some(listening) = listening else { return std::future::pending().await };
    loop {
        match listening.recv().await {
            Ok(line) => return line,
            // Some were missed: those after them come.
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return std::future::pending().await,
        }
    }
}

/// A line of the log as an event.
fn logged(line: &str) -> Value {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(line) else { return Value::Null };
    let mut take = |name: &str| fields.remove(name).unwrap_or(Value::Null);
    let (time, level, event, message) = (take("time"), take("level"), take("event"), take("message"));
    json!({"time": time, "level": level, "event": event, "message": message, "fields": fields})
}

/// The filters that were asked or changed since the last time, those with the most first.
fn active(call: &Call<'_, '_, '_>, before: &mut HashMap<u64, Counts>) -> Result<Vec<Value>, Refusal> {
    let engine = call.engine();
    let bound = call.bound();
    let mut now = HashMap::new();
    let mut moved = Vec::new();
    for entry in engine.names.from_id(0, LOOKED_AT) {
        let is_seen = match bound {
            None => !is_reserved(&entry.name()),
            Some((number, space)) => entry.space() == number && space.has(&entry.name()),
        };
        if !is_seen {
            continue;
        }
        let counts = entry.counts();
        let was = before.get(&entry.id).copied().unwrap_or_default();
        let more = counts.lookups.saturating_sub(was.lookups) + counts.adds.saturating_sub(was.adds);
        now.insert(entry.id, counts);
        if more > 0 {
            moved.push((more, entry));
        }
    }
    *before = now;
    moved.sort_by_key(|(more, entry)| (std::cmp::Reverse(*more), entry.id));
    let told = moved.iter().take(TOLD).map(|(_, entry)| {
        let (name, counts) = (call.shown(entry), entry.counts());
        let (items, capacity) = entry.with(|filter| (filter.len(), filter.capacity())).unwrap_or((0, 0));
        json!({
            "path": path_of(&name), "name": shown(&name), "items": items,
            "used": items as f64 / capacity.max(1) as f64, "lookups": counts.lookups,
            "definitely_not": counts.lookups.saturating_sub(counts.positives), "adds": counts.adds,
        })
    });
    Ok(told.collect())
}
