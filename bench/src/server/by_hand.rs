//! `scripts/bench server --load COMMAND`: load for humans, against a server that already runs.

use super::load::{self, Plan};
use super::table::rate;
use super::wire::{Answer, Talk};
use super::{process, traffic};
use crate::args::Fault;
use crate::shared_machine;
use std::net::ToSocketAddrs;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What was asked for.
pub struct Load {
    /// The command, with placeholders.
    pub command: String,
    /// Where the server listens.
    pub address: String,
    /// Commands in flight on each connection.
    pub pipeline: usize,
    /// Connections.
    pub connections: usize,
    /// Threads of load.
    pub threads: usize,
    /// How long.
    pub seconds: f64,
}

/// Runs it and prints one paragraph.
pub fn run(asked: &Load) -> Result<(), Fault> {
    let traffic = traffic::by_hand(&asked.command, asked.pipeline)?;
    let found = asked.address.to_socket_addrs().ok().and_then(|mut found| found.next());
    let address = found.ok_or_else(|| Fault(format!("--address {} is no HOST:PORT", asked.address)))?;
    let server = if address.ip().is_loopback() { process_id(&mut Talk::to(address)?) } else { None };
    let cores = shared_machine::cores();
    // From the last CPU on: a server with fewer threads than CPUs is likely to sit on the first ones.
    let own: Vec<usize> = cores.iter().rev().cycle().take(asked.threads).copied().collect();
    let plan = Plan { address, traffic: &traffic, connections: asked.connections, cores: &own };
    let time = Duration::from_secs_f64(asked.seconds);
    let (sample, counts) = load::run_for(plan, server, time / 20, time)?;
    let commands = traffic.commands as f64 / traffic.items() as f64;
    println!(
        "{} on {} connections, pipeline {}, {:.1} s: {}/s commands, {}/s items, {:.2} % answered :1",
        asked.command,
        asked.connections,
        asked.pipeline,
        sample.seconds,
        rate(sample.wall() * commands),
        rate(sample.wall()),
        sample.ones() * 100.0
    );
    match server {
        Some(id) if !sample.server_ns.is_empty() => println!(
            "server (process {id}): {} items per CPU-second, {:.0} ns an item, {:.2} CPUs busy; load: {:.0} ns an item",
            rate(sample.per_cpu()),
            1e9 / sample.per_cpu(),
            sample.wall() / sample.per_cpu(),
            sample.client_ns as f64 / sample.items as f64
        ),
        _ => println!("its CPU time is not known: INFO names no process on this machine"),
    }
    let errors = counts.errors.load(Ordering::Relaxed);
    if errors > 0 {
        let first = counts.first_error.lock().ok().and_then(|mut first| first.take()).unwrap_or_default();
        println!("{errors} refusals, the first: {first}");
    }
    Ok(())
}

/// The server's process, if it says so and this process may read its times.
fn process_id(talk: &mut Talk) -> Option<u32> {
    let Ok(Answer::Bulk(text)) = talk.ask(&["INFO", "server"]) else { return None };
    let text = String::from_utf8_lossy(&text).into_owned();
    let id = text.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())?;
    process::cpu_of(id).ok().filter(|found| !found.is_empty()).map(|_| id)
}
