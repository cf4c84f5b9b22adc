//! Commands that tell about the server and steer it.

use bloomgate_command::{ClientKill, Refusal, Reply, Request, Shutdown, help_reply};

use super::call::{Call, Outcome};
use super::connection::describe;
use super::desk::{Client, Desk};
use super::{config, info};

/// The Redis that clients take us for: they look at it to decide what they may send.
pub const REDIS_VERSION: &str = "8.0.0";
/// The version of RedisBloom whose commands are answered, as MODULE LIST writes it.
pub const BF_VERSION: i64 = 80_800;

const KEEPS_NOTHING: &str = "ERR the server keeps nothing on disk: start it with a data folder (--data DIR)";

/// Our own version as MODULE LIST writes it: 1.2.3 is 10203.
#[must_use]
pub fn own_version() -> i64 {
    let parts = env!("CARGO_PKG_VERSION").split(['.', '-']).take(3);
    parts.fold(0, |version, part| version * 100 + part.parse::<i64>().unwrap_or(0))
}

/// Runs a command of this group.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::Info { sections } => Ok(Reply::Verbatim(match call.space() {
            None => info::text(&call.core.engine, call.desk, sections),
            Some(space) => info::text_of_space(&call.core.engine, call.desk, space, sections),
        })),
        Request::ConfigGet { patterns } => Ok(config::get(&call.core.engine, call.desk, patterns)),
        Request::ConfigSet { pairs } => config::set(call, pairs).map_err(Into::into),
        Request::ConfigResetstat => {
            call.desk.reset_counters();
            Ok(Reply::Ok)
        }
        Request::ConfigRewrite => config::rewrite(call).map_err(Into::into),
        Request::MemoryDoctor => Ok(Reply::Verbatim(memory_doctor(call))),
        Request::MemoryStats => Ok(memory_stats(call)),
        Request::ModuleList => Ok(Reply::Array(vec![module("bf", BF_VERSION), module("bloomgate", own_version())])),
        Request::Save => save(call.desk),
        Request::Bgsave => save_in_background(call.desk),
        Request::Shutdown(how) => save_and_stop(call, how),
        Request::Lastsave => Ok(Reply::Int(call.desk.keeper.get().map_or(0, |keeper| keeper.last_save_s() as i64))),
        Request::ClientList { kind, ids } => Ok(client_list(call.desk, kind, ids)),
        Request::ClientPause { .. } => {
            Err(Refusal::err("clients are not paused: stop the writers, or copy the filter (BG.COPY)").into())
        }
        Request::ClientUnpause => Ok(Reply::Ok),
        Request::SlowlogGet { count } => Ok(slowlog(call.desk, count)),
        Request::SlowlogLen => Ok(Reply::Int(call.desk.slow().len() as i64)),
        Request::SlowlogReset => {
            call.desk.forget_slow();
            Ok(Reply::Ok)
        }
        // Delays by their cause are not recorded: what took long is in SLOWLOG, what the disk did in INFO.
        Request::LatencyLatest | Request::LatencyHistory { .. } => Ok(Reply::Array(Vec::new())),
        Request::LatencyReset { .. } => Ok(Reply::Int(0)),
        Request::LatencyHistogram { commands } => Ok(histogram(call.desk, commands)),
        Request::LatencyDoctor => Ok(Reply::Verbatim(latency_doctor(call))),
        Request::Time => {
            let now = call.core.engine.clock.wall_ns();
            let (seconds, micros) = (now / 1_000_000_000, now / 1_000 % 1_000_000);
            Ok(Reply::Array(vec![Reply::text(seconds.to_string()), Reply::text(micros.to_string())]))
        }
        Request::Role => Ok(Reply::Array(vec![Reply::text("master"), Reply::Int(0), Reply::Array(Vec::new())])),
        // There are no replicas to wait for.
        Request::Wait { .. } => Ok(Reply::Int(0)),
        Request::Help(container) => Ok(help_reply(container)),
        _ => return None,
    })
}

/// A module as MODULE LIST and HELLO describe it.
#[must_use]
pub fn module(name: &'static str, version: i64) -> Reply {
    Reply::Map(vec![
        (Reply::text("name"), Reply::text(name)),
        (Reply::text("ver"), Reply::Int(version)),
        (Reply::text("path"), Reply::text("")),
        (Reply::text("args"), Reply::Array(Vec::new())),
    ])
}

fn memory_doctor(call: &Call<'_, '_, '_>) -> String {
    let budget = &call.core.engine.budget;
    let (used, most) = (budget.used(), budget.most());
    let percent = if most == 0 { 100.0 } else { used as f64 * 100.0 / most as f64 };
    let advice = match percent {
        100.0.. => "New filters and growth are refused already: delete filters, compact them, or raise max-memory.",
        90.0.. => "New filters and growth will soon be refused: delete filters, compact them, or raise max-memory.",
        // A stage is twice the one before it: what grows asks for up to twice of what it has.
        33.3.. => {
            "There is room, but not for a filter of most of it that grows: its next stage takes about twice of what it has."
        }
        _ => "There is room.",
    };
    format!("Filters take {used} of {most} bytes, {percent:.1} %. {advice}\n")
}

fn memory_stats(call: &Call<'_, '_, '_>) -> Reply {
    let engine = &call.core.engine;
    let (used, keys) = (engine.budget.used(), engine.names.visible() as u64);
    let row = |name: &'static str, value: u64| (Reply::text(name), Reply::Int(value.min(i64::MAX as u64) as i64));
    let mut rows = vec![
        row("total.allocated", used),
        row("dataset.bytes", used),
        row("keys.count", keys),
        row("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0)),
        row("maxmemory", engine.budget.most()),
    ];
    rows.extend(info::resident_bytes().map(|bytes| row("process.resident", bytes)));
    Reply::Map(rows)
}

fn save(desk: &Desk) -> Outcome {
    let keeper = desk.keeper.get().ok_or(Refusal::new(KEEPS_NOTHING))?;
    match keeper.save() {
        Ok(()) => Ok(Reply::Ok),
        Err(why) => Err(Refusal::err(format_args!("the snapshot failed, the log goes on: {why}")).into()),
    }
}

/// SHUTDOWN SAVE, on a worker. Whoever gave it is told nothing more, as by any other SHUTDOWN.
fn save_and_stop(call: &Call<'_, '_, '_>, how: Shutdown) -> Outcome {
    let saved = call.desk.keeper.get().map_or(Ok(()), |keeper| keeper.save());
    match saved {
        Err(why) if !how.force => Err(Refusal::err(format_args!("no snapshot, so no shutdown: {why}")).into()),
        _ => {
            call.end_client();
            call.desk.stop.notify_one();
            Ok(Reply::Raw(Vec::new()))
        }
    }
}

fn save_in_background(desk: &Desk) -> Outcome {
    let keeper = desk.keeper.get().ok_or(Refusal::new(KEEPS_NOTHING))?;
    match keeper.save_in_background() {
        true => Ok(Reply::simple("Background saving started")),
        false => Err(Refusal::SAVE_RUNNING.into()),
    }
}

fn client_list(desk: &Desk, kind: Option<&[u8]>, ids: &[&[u8]]) -> Reply {
    let wanted = |client: &Client| {
        let id = client.id.to_string();
        // All are of one type.
        kind.is_none_or(|kind| kind.eq_ignore_ascii_case(b"normal")) && (ids.is_empty() || ids.contains(&id.as_bytes()))
    };
    let lines = desk.clients().iter().filter(|client| wanted(client)).map(|client| describe(client) + "\n").collect();
    Reply::Verbatim(lines)
}

/// CLIENT KILL, by one of the clients.
pub(super) fn kill(desk: &Desk, me: &Client, whom: ClientKill<'_>) -> Result<Reply, Refusal> {
    let comes_from =
        |client: &Client, address: &[u8]| client.address.is_some_and(|known| known.to_string().as_bytes() == address);
    match whom {
        ClientKill::Address(address) => {
            let all = desk.clients();
            let client = all.iter().find(|client| comes_from(client, address)).ok_or(Refusal::NO_SUCH_CLIENT)?;
            client.end();
            Ok(Reply::Ok)
        }
        ClientKill::Matching { local: Some(_), .. } => {
            Err(Refusal::err("by which of its addresses the server was reached is not kept: use ID or ADDR"))
        }
        ClientKill::Matching { user: Some(user), .. }
            if std::str::from_utf8(user).ok().and_then(|user| desk.access.user(user)).is_none() =>
        {
            Err(Refusal::err(format_args!("No such user '{}'", user.escape_ascii())))
        }
        ClientKill::Matching { id, address, user, skip_me, .. } => {
            let is = |client: &Client, user: &[u8]| {
                client.card().user.as_ref().is_some_and(|known| known.name.as_bytes() == user)
            };
            let all = desk.clients();
            let ended = all.iter().filter(|client| {
                id.is_none_or(|id| u64::try_from(id) == Ok(client.id))
                    && address.is_none_or(|address| comes_from(client, address))
                    && user.is_none_or(|user| is(client, user))
                    && !(skip_me && client.id == me.id)
            });
            Ok(Reply::Int(ended.map(|client| client.end()).count() as i64))
        }
    }
}

fn slowlog(desk: &Desk, count: i64) -> Reply {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let entries = desk.slow().into_iter().take(count).map(|slow| {
        Reply::Array(vec![
            Reply::Int(slow.id as i64),
            Reply::Int(slow.at_s as i64),
            Reply::Int(slow.micros as i64),
            Reply::Array(slow.words.into_iter().map(Reply::Bulk).collect()),
            Reply::text(slow.address),
            Reply::Bulk(slow.name),
        ])
    });
    Reply::Array(entries.collect())
}

/// LATENCY HISTOGRAM: of the commands asked for, or of all; of a container with what is in it.
fn histogram(desk: &Desk, commands: &[&[u8]]) -> Reply {
    let asked = |name: &str| {
        let container = name.split('|').next().unwrap_or(name);
        let is = |word: &&&[u8]| [name, container].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        commands.is_empty() || commands.iter().any(|word| is(&word))
    };
    let number = |number: u64| Reply::Int(number.min(i64::MAX as u64) as i64);
    let told = desk.tallies.told().filter(|(spec, told)| told.calls > 0 && asked(spec.name));
    let rows = told.map(|(spec, told)| {
        let steps = told.histogram().into_iter().map(|(micros, calls)| (number(micros), number(calls))).collect();
        let row = vec![(Reply::text("calls"), number(told.calls)), (Reply::text("histogram_usec"), Reply::Map(steps))];
        (Reply::text(spec.name), Reply::Map(row))
    });
    Reply::Map(rows.collect())
}

fn latency_doctor(call: &Call<'_, '_, '_>) -> String {
    let slow = call.desk.slow().len();
    let commands = format!("Delays are not recorded by their cause. {slow} slow commands are in SLOWLOG.");
    match call.core.engine.journal.log().map(|log| log.statistics()) {
        Some(log) => format!(
            "{commands} Of {} syncs of the log the slowest took {} ms; the disk is {} ms behind.",
            log.syncs,
            log.slowest_sync.as_millis(),
            log.lag.as_millis()
        ),
        None => format!("{commands} Nothing is written to a disk."),
    }
}
