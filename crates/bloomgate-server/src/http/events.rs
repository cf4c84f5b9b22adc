//! `GET /v1/events`: figures once a second, and what happens when it does, as server-sent events.
//!
//! A stream is a task of its own with the user's conversation: who is deleted or loses the role gets nothing more, and one who
//! runs the server no more (without the role admin, or bound to a namespace) hears the end of what it was told as such: the
//! next stream tells what it may see. Who does not read is waited for a while, and then its stream ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bloomgate_command::{Refusal, Role};
use bloomgate_http::events::{self, Sender};
use bloomgate_http::problem::Problem;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;

use super::figures::{Brief, number, path_of, shown};
use super::seats::Full;
use super::serving::{House, ended};
use super::talk::Talk;
use super::visit::Visit;
use super::{Answer, overview};
use crate::engine::audit::Counts;
use crate::session::call::Call;
use crate::session::names::seen_from_id;
use crate::session::tolls;

/// How often figures are told.
const EVERY: Duration = Duration::from_secs(1);
/// How long one who does not read is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// Filters that are looked at for what was asked of them since the last time: of a bound user those of the namespace.
const LOOKED_AT: usize = 5_000;
/// Of those, the most that are told.
const TOLD: usize = 200;

/// `GET /v1/events`.
pub(super) async fn events(visit: &mut Visit) -> Answer {
    let house = visit.house.clone();
    let seat = house.streams.take(visit.talk.holder()).map_err(|full| {
        let (Full::OfOne(most) | Full::OfAll(most)) = full;
        let detail = format!("{most} streams of events are open, the most at once: close one, or come again later");
        Problem::unavailable(detail, EVERY)
    })?;
    // Whoever may not gets a refusal, not a stream.
    let runs_it = runs_the_server(&mut visit.talk)?;
    let talk = visit.take_talk();
    let (door, response) = events::stream();
    let listening = runs_it.then(|| house.desk.log.listen());
    // What happens from here on is told, however late the task begins: the reader may ask for it as soon as it has the head.
    let (ran, slow) = (ran(&house), house.desk.slow().first().map_or(0, |slow| slow.id + 1));
    tokio::spawn(async move {
        let _seat = seat;
        // Ends with its reader, its user or the server.
        let _ = Stream { house, talk, door, listening, before: HashMap::new(), ran, slow }.run().await;
    });
    Ok(response)
}

/// Whether the user, as it is now, may see what all clients do.
fn runs_the_server(talk: &mut Talk) -> Result<bool, Problem> {
    let has_all_names = talk.view(Role::Read, |call| Ok(call.space().is_none()))?;
    Ok(has_all_names && talk.user().is_some_and(|user| user.roles.contains(Role::Admin)))
}

/// A stream to one reader.
struct Stream {
    house: Arc<House>,
    talk: Talk,
    door: Sender,
    /// The server's log, for those who run it.
    listening: Option<broadcast::Receiver<Arc<str>>>,
    /// What was counted of each filter the last time.
    before: HashMap<u64, Counts>,
    /// What was counted of each command the last time.
    ran: HashMap<&'static str, [u64; 3]>,
    /// The first slow command that is to be told.
    slow: u64,
}

impl Stream {
    async fn run(mut self) -> Option<()> {
        let mut ending = self.house.ending();
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut alerts = None;
        loop {
            tokio::select! {
                () = ended(&mut ending) => return None,
                () = self.door.gone() => return None,
                line = heard(self.listening.as_mut()) => self.tell_who_runs_it("log", &logged(&line)).await?,
                _ = tick.tick() => {
                    let house = self.house.clone();
                    // For what it looked at the last time; nobody who ends it waits for that.
                    let cost = tolls::TELLING + tolls::of_looking(self.before.len() as u64);
                    tokio::select! {
                        () = ended(&mut ending) => return None,
                        () = self.door.gone() => return None,
                        paid = self.talk.pay(cost) => paid.ok()?,
                    }
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
                        self.still_runs_it()?;
                        let commands = self.commands();
                        if !commands.is_empty() {
                            let at_ms = self.house.engine.clock.now_ms();
                            self.tell_who_runs_it("work", &json!({"at_ms": at_ms, "commands": commands})).await?;
                        }
                        let news: Vec<_> = self.house.desk.slow().into_iter().filter(|one| one.id >= self.slow).collect();
                        for one in news.iter().rev() {
                            self.slow = one.id + 1;
                            let words: Vec<String> = one.words.iter().map(|word| shown(word)).collect();
                            let told = json!({
                                "id": one.id, "at_ms": one.at_s * 1_000, "took_seconds": one.micros as f64 / 1e6,
                                "argv": words, "client": one.address, "name": shown(&one.name),
                            });
                            self.tell_who_runs_it("slow", &told).await?;
                        }
                    }
                }
            }
        }
    }

    /// The commands that were run or refused since the last time, those with the most calls first. Of a busy server that is all
    /// there is to tell, and it is read from counters that are kept anyhow: a tail of single commands would have each of
    /// them ask whether somebody watches, and would show keys.
    fn commands(&mut self) -> Vec<Value> {
        let now = ran(&self.house);
        let mut told = Vec::new();
        for (&name, &[calls, failed, rejected]) in &now {
            let [calls_then, failed_then, rejected_then] = self.ran.get(name).copied().unwrap_or_default();
            // CONFIG RESETSTAT sets them to nothing.
            let more = (
                calls.saturating_sub(calls_then),
                failed.saturating_sub(failed_then),
                rejected.saturating_sub(rejected_then),
            );
            if more != (0, 0, 0) {
                told.push((name, more));
            }
        }
        self.ran = now;
        told.sort_by_key(|(name, (calls, ..))| (std::cmp::Reverse(*calls), *name));
        let of_command = |(name, (calls, failed, rejected)): (&str, (u64, u64, u64))| json!({"name": name.to_ascii_uppercase(), "calls": calls, "failed": failed, "rejected": rejected});
        told.into_iter().map(of_command).collect()
    }

    /// Nothing when the user runs the server no more.
    fn still_runs_it(&mut self) -> Option<()> {
        runs_the_server(&mut self.talk).is_ok_and(|runs_it| runs_it).then_some(())
    }

    /// Sends an event that is for those alone who run the server. Each is asked for by itself: the one before may have waited
    /// half a minute for its reader.
    async fn tell_who_runs_it(&mut self, event: &str, data: &Value) -> Option<()> {
        self.still_runs_it()?;
        self.tell(event, data).await
    }

    /// Sends an event; nothing when nobody takes it.
    async fn tell(&self, event: &str, data: &Value) -> Option<()> {
        let sent = timeout(PATIENCE, self.door.send(event, &data.to_string())).await;
        sent.is_ok_and(|taken| taken).then_some(())
    }
}

/// How often each command was run, failed and was refused.
fn ran(house: &House) -> HashMap<&'static str, [u64; 3]> {
    house.desk.tallies.told().map(|(spec, told)| (spec.name, [told.calls, told.failed, told.rejected])).collect()
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
    let mut now = HashMap::new();
    let mut moved = Vec::new();
    for entry in seen_from_id(&engine, call.bound(), 0, LOOKED_AT).0 {
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
        // As lists tell it: a page puts the one in the place of the other.
        let brief = Brief::of(call, entry, None);
        let counts = &brief.counts;
        json!({
            "path": path_of(&brief.name), "name": shown(&brief.name), "items": brief.items,
            "used": number(brief.used()), "lookups": counts.lookups,
            "definitely_not": counts.lookups.saturating_sub(counts.positives), "adds": counts.adds,
            "refused": counts.refused,
        })
    });
    Ok(told.collect())
}
