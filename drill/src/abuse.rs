//! Abuse: one attack after the other on a real server, while an honest client asks on. The process may grow by 64 MB, the
//! honest client gets every answer right and keeps its connections, and afterwards all is as it was. Limits on slow clients are half as
//! long as attackers hold on, and have to end as many as went beyond them, by the server's own count. The control breaks three
//! things on purpose (a filter of 120 MB, the honest client's own filter is emptied, and the limits are far longer than said): all
//! have to be noticed.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::attacks::{self, ATTACKS, Arena, FIRST_THAT_IS_HELD, Limits};
use crate::honest::{Findings, Honest};
use crate::options::Options;
use crate::report::Row;
use crate::server::{self, Server, Start};
use crate::shared_machine::{self, Awake};
use crate::subject::{Kind, Policy, Subject};
use crate::system::{self, Memory};
use crate::wire::{Reply, Wire};

/// What the process may grow by while it is abused, beside what it says that its clients may make it hold. Those attacks that come
/// before [`FIRST_THAT_IS_HELD`] have to do without that.
const MOST_GROWTH: u64 = 64 << 20;
/// What its clients together may make it hold, beside that growth: little, so that it is little that the last attacks can get. With
/// `--defaults` it is what it is without a word: a sixteenth of the machine's memory.
const CLIENT_MEMORY: &str = "BLOOMGATE_CLIENT_MEMORY=8MiB";
/// How much later an answer may come beside an attack, at the 99th percentile.
pub const MOST_DELAY: f64 = 2.0;

/// Starts a server with settings of its own, and an HTTP side if an address for it is given.
pub fn start(
    options: &Options,
    policy: Policy,
    settings: &[String],
    http: Option<SocketAddr>,
) -> Result<Server, String> {
    let subject = Subject { http, ..options.subject.clone() };
    let (data, log) = (options.work.join("data"), options.work.join("server.log"));
    let prefix: Vec<String> = match settings.is_empty() {
        true => Vec::new(),
        false => std::iter::once("env".to_owned()).chain(settings.iter().cloned()).collect(),
    };
    match server::start(&subject, &data, policy, &log, &prefix, Duration::from_secs(60))? {
        Start::Ready(server) => Ok(server),
        Start::Gone(status, text) => Err(format!("the server did not start: {status}; it printed:\n{text}")),
    }
}

fn free_port() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(|error| error.to_string())
}

/// A certificate, and the settings of a listener for TLS on a free port.
fn tls(options: &Options) -> Result<(Vec<String>, Option<SocketAddr>), String> {
    if options.subject.kind == Kind::Redis {
        return Ok((Vec::new(), None));
    }
    let (cert, key) = (options.work.join("cert.pem"), options.work.join("key.pem"));
    let path = |path: &Path| path.display().to_string();
    system::run(
        Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
            .args(["-subj", "/CN=localhost", "-keyout", &path(&key), "-out", &path(&cert)]),
    )?;
    let free = free_port()?;
    let (cert, key) = (path(&cert), path(&key));
    let settings = [format!("TLS={free}"), format!("TLS_CERT={cert}"), format!("TLS_KEY={key}")];
    Ok((settings.map(|setting| format!("BLOOMGATE_{setting}")).into(), Some(free)))
}

/// A setting, as the server tells it.
fn setting(wire: &mut Wire, name: &str) -> Result<String, String> {
    match wire.ask("CONFIG", &["GET", name]) {
        Ok(Reply::Array(pair)) => match pair.into_iter().nth(1) {
            Some(Reply::Bulk(bytes)) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            other => Err(format!("CONFIG GET {name} tells {other:?}")),
        },
        other => Err(format!("CONFIG GET {name} was answered {other:?}")),
    }
}

/// A time as settings tell it: 250ms or 30s.
fn time(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
    match (digits.parse(), unit) {
        (Ok(number), "ms") => Ok(Duration::from_millis(number)),
        (Ok(number), "s") => Ok(Duration::from_secs(number)),
        _ => Err(format!("'{text}' is no time in ms or s")),
    }
}

/// Half of the time for which attackers hold on: what slow clients have. No less than the server takes.
fn half(options: &Options) -> Duration {
    Duration::from_millis((options.seconds * 500.0) as u64).max(Duration::from_millis(100))
}

/// The limits as the server tells them; in a control as they would be if it had been told them.
fn limits(options: &Options, wire: &mut Wire) -> Result<Limits, String> {
    let memory = setting(wire, "client-memory")?;
    let memory = memory.parse().map_err(|_| format!("client-memory is '{memory}', which is no number"))?;
    Ok(match options.control {
        true => Limits { request: half(options), stall: half(options), memory, patience: Duration::from_millis(200) },
        false => Limits {
            request: time(&setting(wire, "request-deadline")?)?,
            stall: time(&setting(wire, "output-stall")?)?,
            memory,
            patience: Duration::from_secs(10),
        },
    })
}

/// What is broken on purpose in the control.
fn breakage(options: &Options, honest: &Honest) -> Result<String, String> {
    let mut wire = honest.connect().map_err(|error| error.to_string())?;
    let redis = options.subject.kind == Kind::Redis;
    let spoil: [&[&str]; 2] = match redis {
        false => [&["BF.RESERVE", "ballast", "0.01", "100000000"], &["DEL", "drill:adds"]],
        true => [&["SETRANGE", "ballast", "134217728", "x"], &["FLUSHALL"]],
    };
    for words in spoil {
        match wire.ask(words[0], &words[1..]) {
            Ok(Reply::Error(text)) => return Err(format!("{words:?} was answered {text}")),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok("120 MB more, and the honest client's items are gone".into())
}

/// An attack, and what it came to.
struct Attacked {
    /// Its place among all.
    at: usize,
    name: &'static str,
    told: String,
    /// Bytes the process had grown by at its end.
    growth: u64,
}

/// What the attacks came to.
struct Outcome {
    findings: Findings,
    /// Bytes the process grew by at most.
    growth: u64,
    attacks: Vec<Attacked>,
}

fn attacked(options: &Options, server: &Server, honest: &Honest, arena: &Arena) -> Result<Outcome, String> {
    let (stop, phase, peak) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicU64::new(0));
    let idle = Duration::from_secs_f64(options.seconds.max(1.0));
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| honest.run(options.crowd, &stop, &phase));
        std::thread::sleep(idle);
        let before = Memory::of(server.id())?;
        let sampling = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(memory) = Memory::of(server.id()) {
                    peak.fetch_max(memory.resident, Ordering::Relaxed);
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let mut told = Vec::new();
        let mut failed = None;
        for (at, (name, attack)) in
            ATTACKS.into_iter().enumerate().filter(|(_, (name, _))| name.contains(&options.only))
        {
            phase.store(at + 1, Ordering::Relaxed);
            match attacks::run(attack, arena) {
                Ok(text) => {
                    let growth = peak.load(Ordering::Relaxed).saturating_sub(before.resident);
                    told.push(Attacked { at, name, told: text, growth });
                }
                Err(what) => {
                    failed = Some(format!("{name}: {what}"));
                    break;
                }
            }
        }
        if options.control && failed.is_none() {
            failed = breakage(options, honest).err();
        }
        phase.store(ATTACKS.len() + 1, Ordering::Relaxed);
        std::thread::sleep(idle);
        stop.store(true, Ordering::Relaxed);
        let findings = asking.join().unwrap_or_else(|_| Err("the honest client panicked".into()));
        let _ = sampling.join();
        let after = Memory::of(server.id()).map_err(|what| format!("the server is gone after the attacks: {what}"))?;
        if let Some(what) = failed {
            return Err(what);
        }
        // The kernel's own highest mark, unless it was set before: samples can miss a moment.
        let highest = if after.highest > before.highest { after.highest } else { peak.load(Ordering::Relaxed) };
        Ok(Outcome { findings: findings?, growth: highest.saturating_sub(before.resident), attacks: told })
    })
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    system::many_files()?;
    if !ATTACKS.iter().any(|(name, _)| name.contains(&options.only)) {
        let names = ATTACKS.map(|(name, _)| name).join("\n  ");
        return Err(format!("--only '{}' is in the name of none of the attacks, which are:\n  {names}", options.only));
    }
    let (mut settings, tls) = tls(options)?;
    let mut http = None;
    if options.subject.kind == Kind::Bloomgate {
        http = Some(free_port()?);
        if !options.defaults {
            settings.push(CLIENT_MEMORY.to_owned());
        }
        if !options.defaults && !options.control {
            let half = half(options).as_millis();
            settings.extend(["REQUEST_DEADLINE", "OUTPUT_STALL"].map(|name| format!("BLOOMGATE_{name}={half}ms")));
        }
    }
    let server = start(options, policy, &settings, http)?;
    let honest = Honest { subject: &options.subject, address: server.address, login: None };
    honest.fill()?;
    let mut wire = Wire::connect(server.address, Duration::from_secs(30)).map_err(|error| error.to_string())?;
    match wire.ask("ACL", &["SETUSER", "victim", "on", ">a-password-nobody-guesses", "+@all"]) {
        Ok(Reply::Status(_)) => {}
        other => return Err(format!("ACL SETUSER was answered {other:?}")),
    }
    let limits = match options.subject.kind {
        Kind::Bloomgate => Some(limits(options, &mut wire)?),
        Kind::Redis => None,
    };
    // Its clients may have what it says they may: 64 MB are beside that.
    let most_growth = MOST_GROWTH + limits.as_ref().map_or(0, |limits| limits.memory);
    drop(wire);
    let arena = Arena {
        subject: &options.subject,
        address: server.address,
        tls,
        http,
        seed: options.seed,
        beside_crowd: options.crowd > 0,
        hold: Duration::from_secs_f64(options.seconds),
        limits,
        unmet: Mutex::default(),
    };
    let _awake = options.timed.then(|| Awake::keep(&shared_machine::cores()));
    let outcome = attacked(options, &server, &honest, &arena)?;
    let found = &outcome.findings;
    let last = ATTACKS.len() + 1;
    let (before, after) = (found.p99(|at| at == 0), found.p99(|at| at == last));
    let (idle, during) = (before.max(after), found.p99(|at| at > 0 && at < last));
    println!(
        "| attack | what became of it | honest p99 | over idle | growth so far |\n| --- | --- | --- | --- | --- |"
    );
    let mut late = Vec::new();
    for Attacked { at, name, told, growth } in &outcome.attacks {
        let its = found.p99(|phase| phase == at + 1);
        let (ratio, growth) = (its / idle, *growth as f64 / 1e6);
        println!("| {name} | {told} | {its:.0} us | {ratio:.2} | {growth:.1} MB |");
        // Of none that was looked at it is no number.
        if ratio.is_nan() || ratio > MOST_DELAY {
            late.push(format!("{name}: {ratio:.2}"));
        }
    }
    println!("| nothing, before and after | | {before:.0} us, {after:.0} us | |\n");
    let verdict = found.verdict();
    let unmet = std::mem::take(&mut *arena.unmet.lock().unwrap_or_else(PoisonError::into_inner));
    let row = Row::new("abuse", policy)
        .number("honest lookups", found.asked)
        .number("wrong", found.wrong)
        .number("lost connections", found.lost)
        .text("left out", found.left_out())
        .text("growth", format!("{:.1} MB", outcome.growth as f64 / 1e6))
        .text("idle p99", format!("{idle:.0} us"))
        .text("p99 under attack", format!("{during:.0} us"))
        .text("ratio", format!("{:.2}", during / idle));
    if options.control {
        // All have to be seen: the memory, the answers, and of a server that has them the limits.
        let is_held = arena.limits.is_some() && unmet.is_empty();
        let noticed = u64::from(outcome.growth > most_growth && verdict.is_err() && !is_held);
        return Ok(row.found(noticed));
    }
    verdict?;
    if !unmet.is_empty() {
        return Err(format!("limits did not end those beyond them: {}", unmet.join("; ")));
    }
    honest.check()?;
    let nothing_held = outcome.attacks.iter().take_while(|it| it.name != FIRST_THAT_IS_HELD).map(|it| it.growth).max();
    if nothing_held > Some(MOST_GROWTH) && options.subject.kind == Kind::Bloomgate {
        return Err(format!("the process grew by more than {MOST_GROWTH} bytes before it was made to hold any"));
    }
    if outcome.growth > most_growth && options.subject.kind == Kind::Bloomgate {
        let (grown, most) = (outcome.growth as f64 / 1e6, most_growth as f64 / 1e6);
        return Err(format!("the process grew by {grown:.1} MB, {most:.1} MB are allowed; see the table above"));
    }
    if options.timed && (idle.is_nan() || during > MOST_DELAY * idle || !late.is_empty()) {
        let late = late.join(", ");
        return Err(format!(
            "honest p99 {during:.0} us under attack, {idle:.0} us idle; more than {MOST_DELAY} x: {late}"
        ));
    }
    match server.stop(Duration::from_secs(30))? {
        status if status.success() => Ok(row),
        status => Err(format!("after all of it SIGTERM ended the server with {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_settings_tell_them() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("30s"), Ok(Duration::from_secs(30)));
        assert!(["", "0", "5m", "ms", "1.5s"].iter().all(|text| time(text).is_err()));
    }
}
