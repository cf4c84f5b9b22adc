//! Two tenants on one server: one floods it over fifty pipelined connections, the other's lookups are timed. The flood
//! gets its quota, not more and not less; the other's answers are right, and as late as they would be anyway. The
//! control takes the quota away: the drill has to see it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::abuse::{MOST_DELAY, start};
use crate::honest::Honest;
use crate::options::Options;
use crate::report::Row;
use crate::server::Server;
use crate::shared_machine::{self, Awake, run_when_idle};
use crate::subject::{Kind, Policy};
use crate::wire::{Reply, Wire};

/// Items a second that the flooding tenant may have.
const QUOTA: u64 = 40_000;
/// How far from it the rate may be measured.
const TOLERANCE: f64 = 0.2;
const CONNECTIONS: usize = 50;
/// Requests in flight on each, and items in each.
const WINDOW: usize = 16;
const ITEMS: u64 = 5;

const FLOODER: (&str, &str) = ("flooder", "flooders-password");
const OTHER: (&str, &str) = ("other", "others-password");

fn must(wire: &mut Wire, words: &[&str]) -> Result<(), String> {
    match wire.ask(words[0], &words[1..]) {
        Ok(Reply::Error(text)) => Err(format!("{words:?} was answered {text}")),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{words:?}: {error}")),
    }
}

fn declare(server: &Server, control: bool) -> Result<(), String> {
    let mut wire = Wire::connect(server.address, Duration::from_secs(30)).map_err(|error| error.to_string())?;
    let quota = QUOTA.to_string();
    let limits: &[&str] = if control { &[] } else { &["ITEMSPERSECOND", &quota] };
    must(&mut wire, &[&["BG.NAMESPACE", "SET", "flooder", "PREFIX", "flooder:"], limits].concat())?;
    must(&mut wire, &["BG.NAMESPACE", "SET", "other", "PREFIX", "other:"])?;
    for (user, password) in [FLOODER, OTHER] {
        let (password, namespace) = (format!(">{password}"), format!("namespace={user}"));
        must(&mut wire, &["ACL", "SETUSER", user, "on", &password, "+@read", "+@write", &namespace])?;
    }
    Ok(())
}

/// One flooding connection: adds and lookups, as many as it gets, until `stop`.
fn flood(honest: &Honest, number: usize, stop: &AtomicBool, items: &AtomicU64) -> Result<(), String> {
    let say = |error: std::io::Error| format!("flooding connection {number}: {error}");
    let mut wire = honest.connect().map_err(say)?;
    let (mut waiting, mut turn) = (0, 0_u64);
    while !stop.load(Ordering::Relaxed) {
        while waiting < WINDOW {
            let word = if turn % 2 == 0 { "BF.MADD" } else { "BF.MEXISTS" };
            let mut words = vec!["flood".to_owned()];
            words.extend((0..ITEMS).map(|item| format!("{number}:{}", (turn + item) % 10_000)));
            wire.push(word, &words);
            (turn, waiting) = (turn + 1, waiting + 1);
        }
        wire.flush().map_err(say)?;
        wire.fill().map_err(say)?;
        while let Some(reply) = wire.take().map_err(say)? {
            match reply {
                Reply::Array(answers) if answers.len() as u64 == ITEMS => items.fetch_add(ITEMS, Ordering::Relaxed),
                other => return Err(format!("who is over the quota waits, and gets no error: {other:?}")),
            };
            waiting -= 1;
        }
    }
    Ok(())
}

pub fn drill(options: &Options, policy: Policy) -> Result<Row, String> {
    if options.subject.kind == Kind::Redis {
        return Err("Redis has no tenants with quotas: this drill is for Bloomgate alone".into());
    }
    let server = start(options, policy, &[], None)?;
    declare(&server, options.control)?;
    let other = Honest { subject: &options.subject, address: server.address, login: Some(OTHER) };
    let flooder = Honest { login: Some(FLOODER), ..other };
    other.fill()?;
    let (stop, phase, items) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicU64::new(0));
    let (flooding, quiet) =
        (Duration::from_secs_f64(options.seconds.max(2.0)), Duration::from_secs_f64(options.seconds.max(1.0)));
    let ended = AtomicBool::new(false);
    let _awake = options.timed.then(|| Awake::keep(&shared_machine::cores()));
    let (found, rate) = std::thread::scope(|scope| {
        let asking = scope.spawn(|| other.run(options.crowd, &ended, &phase));
        std::thread::sleep(quiet);
        phase.store(1, Ordering::Relaxed);
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                let (flooder, stop, items) = (&flooder, &stop, &items);
                scope.spawn(move || {
                    // As attackers do: beside a crowd they would not run at all.
                    if options.crowd == 0 {
                        run_when_idle();
                    }
                    flood(flooder, number, stop, items)
                })
            })
            .collect();
        // All have logged in (one Argon2, then it is remembered), and the quarter of a second that may come at once is
        // spent.
        std::thread::sleep(Duration::from_secs(1));
        let (begin, before) = (Instant::now(), items.load(Ordering::Relaxed));
        std::thread::sleep(flooding);
        let rate = (items.load(Ordering::Relaxed) - before) as f64 / begin.elapsed().as_secs_f64();
        phase.store(2, Ordering::Relaxed);
        stop.store(true, Ordering::Relaxed);
        let mut outcome = Ok(());
        for connection in connections {
            outcome = outcome.and(connection.join().unwrap_or_else(|_| Err("a flooding connection panicked".into())));
        }
        phase.store(3, Ordering::Relaxed);
        std::thread::sleep(quiet);
        ended.store(true, Ordering::Relaxed);
        let found = asking.join().unwrap_or_else(|_| Err("the other tenant panicked".into()))?;
        outcome.map(|()| (found, rate))
    })?;
    let (idle, during) = (found.p99(|at| at == 0).max(found.p99(|at| at == 3)), found.p99(|at| at == 1));
    let kept = (rate / QUOTA as f64 - 1.0).abs() <= TOLERANCE;
    let row = Row::new("tenants", policy)
        .number("flooding connections", CONNECTIONS as u64)
        .number("quota, items/s", QUOTA)
        .number("measured", rate as u64)
        .number("lookups of the other", found.asked)
        .number("wrong", found.wrong)
        .text("left out", found.left_out())
        .text("idle p99", format!("{idle:.0} us"))
        .text("p99 beside the flood", format!("{during:.0} us"))
        .text("ratio", format!("{:.2}", during / idle));
    if options.control {
        return Ok(row.found(u64::from(!kept)));
    }
    found.verdict()?;
    other.check()?;
    if !kept {
        return Err(format!("the flood got {rate:.0} items a second, its quota is {QUOTA} (+-20 %)"));
    }
    if options.timed && during > MOST_DELAY * idle {
        return Err(format!("p99 {during:.0} us beside the flood, {idle:.0} us without: more than {MOST_DELAY} x"));
    }
    match server.stop(Duration::from_secs(30))? {
        status if status.success() => Ok(row),
        status => Err(format!("SIGTERM ended the server with {status}")),
    }
}
