//! Starting, serving and stopping a gate, and telling whoever started it what goes on.

use std::time::{Duration, Instant};

use bloomgate_gate::service;
use bloomgate_gate::{Gate, State, Stats};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::parts;
use super::settings::Settings;
use crate::failure::{DONE, Failure, Outcome};
use crate::number::{counted, duration};
use crate::screen;

/// How often the state is looked at until the first filter is ready, and after that.
const LOOKS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Serves until it is told to stop.
pub fn run(settings: &Settings, quiet: bool) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(settings.threads)
        .enable_all()
        .build()
        .map_err(|error| Failure::Message(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(serve(settings, quiet));
    // A read that hangs at the source does not hold up the end.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

async fn serve(settings: &Settings, quiet: bool) -> Outcome {
    let (options, http) = parts::service(settings)?;
    let bound = |error: std::io::Error| {
        Failure::Message(format!("cannot listen on {}: {error}; --listen names another address", settings.listen))
    };
    // Bound first: a port that is taken is told before anything is opened.
    let listener = TcpListener::bind(settings.listen).await.map_err(bound)?;
    let address = listener.local_addr().map_err(bound)?;
    let failed = |error: std::io::Error| Failure::Message(format!("no signals: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let source = parts::source(settings).await?;
    let gate = parts::gate(settings, source).await?;
    if !quiet {
        settings.warnings().iter().for_each(screen::note);
        let url = format!("{}://{address}", if http.tls.is_some() { "https" } else { "http" });
        tell(&gate, settings, &options, &url);
    }
    let state = gate.state();
    gate.start();
    let watching = tokio::spawn(watch(gate.clone(), state, quiet));
    notify_system("READY=1");
    let shutdown = async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
        notify_system("STOPPING=1");
    };
    let served = service::serve(listener, gate.clone(), options, http, shutdown).await;
    watching.abort();
    gate.stop().await;
    if served.cut > 0 {
        screen::note(format!("{} did not end in time and were cut off", counted(served.cut as u64, "connection")));
    }
    let saves_failed = gate.stats().rebuild.save_errors;
    if saves_failed > 0 {
        screen::complain("the filter could not be saved: the next start begins without one");
    }
    Ok(DONE)
}

/// Where it listens, what is behind it, and three commands to try.
fn tell(gate: &Gate, settings: &Settings, options: &service::Options, url: &str) {
    let stats = gate.stats();
    screen::tell(format_args!("bloomgate: gate ready on {url}"));
    screen::tell(format_args!("  source  {}, cache {}", stats.source, stats.cache.as_deref().unwrap_or("none")));
    let filter = match &stats.filter {
        Some(filter) => format!(
            "{}, version {} with {} from the last run; it may say no when it is built anew",
            stats.state,
            filter.version,
            counted(filter.scanned, "key")
        ),
        None => "is being built; until then lookups go on to the source".to_owned(),
    };
    screen::tell(format_args!("  filter  {filter}"));
    let writes = if options.writes { "PUT and DELETE are allowed" } else { "PUT and DELETE are not there" };
    screen::tell(format_args!("  policy  {}, writers {}; {writes}", settings.policy, settings.writers));
    let secured =
        if options.tokens.is_some() && !options.open_reads { " -H 'Authorization: Bearer TOKEN'" } else { "" };
    let table = &options.table;
    screen::tell(format_args!("  try     curl -i{secured} {url}/v1/{table}/KEY"));
    screen::tell(format_args!("          curl{secured} {url}/explain/KEY"));
    screen::tell(format_args!("          curl{secured} {url}/stats"));
}

/// Tells what changes: the first filter, one that is lost, rebuilds that fail, a wrong "no".
async fn watch(gate: Gate, mut last: State, quiet: bool) {
    let begun = Instant::now();
    let (mut was_ready, mut failures, mut wrong, mut looks) = (false, 0, 0, 0u32);
    loop {
        tokio::time::sleep(if was_ready { LOOKS.1 } else { LOOKS.0 }).await;
        let state = gate.state();
        let is_ready = matches!(state, State::Ready { .. });
        looks += 1;
        // The numbers cost a walk over the bits: once a minute while all is well.
        if state.name() == last.name() && is_ready && !looks.is_multiple_of(12) {
            continue;
        }
        let stats = numbers(&gate).await;
        if is_ready && !matches!(last, State::Ready { .. }) && !quiet {
            ready(&stats, begun.elapsed(), was_ready);
        }
        if state.name() != last.name() && !is_ready {
            screen::complain(format!("the filter is {}: lookups are not filtered until it is rebuilt", state.name()));
        }
        if stats.rebuild.failures_in_a_row > failures {
            let why = stats.rebuild.history.iter().rev().find_map(|rebuilt| rebuilt.failure.as_deref());
            screen::complain(format!(
                "a rebuild failed, the filter of before stays: {}",
                why.unwrap_or("no reason known")
            ));
        }
        if stats.audit.wrong > wrong {
            screen::complain(
                "a \"no\" was wrong: the source has the key. The filter is not trusted until it is rebuilt. Does somebody \
                 write past the gate? Then start it with --writers unknown",
            );
        }
        (failures, wrong, last) = (stats.rebuild.failures_in_a_row, stats.audit.wrong, state);
        was_ready |= is_ready;
    }
}

/// Counting is work: not on a thread that serves.
async fn numbers(gate: &Gate) -> Stats {
    let counted = gate.clone();
    match tokio::task::spawn_blocking(move || counted.stats()).await {
        Ok(stats) => stats,
        Err(_) => gate.stats(),
    }
}

fn ready(stats: &Stats, took: Duration, again: bool) {
    let Some(filter) = &stats.filter else { return };
    let what = if stats.blocking { "absent keys are answered here" } else { "it only watches" };
    let since = if again { String::new() } else { format!(" after {}", duration(took)) };
    screen::tell(format_args!(
        "bloomgate: filter ready{since}: version {}, {}; {what}",
        filter.version,
        counted(filter.scanned, "key")
    ));
}

/// Tells systemd, if it started us.
fn notify_system(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() {
        // Nobody to tell is no reason to stop.
        let _ = socket.send_to(state.as_bytes(), path);
    }
}
