//! The command as its users meet it: every verb, every exit code, good input and bad.

mod asks;
#[cfg(feature = "gate")]
mod attack;
mod bench;
mod build;
mod change;
mod check;
mod completions;
mod convert;
mod dedup;
mod delta;
#[cfg(all(unix, feature = "gate", feature = "redis", feature = "serve"))]
mod demo;
mod fold;
mod foreign;
#[cfg(all(unix, feature = "gate"))]
mod gate;
#[cfg(all(unix, feature = "gate", feature = "redis"))]
mod gate_parts;
#[cfg(all(unix, feature = "gate", feature = "postgres"))]
mod gate_postgres;
#[cfg(all(unix, feature = "gate"))]
mod gate_tenants;
#[cfg(all(unix, feature = "gate"))]
#[path = "../../../bloomgate-gate/tests/shared/got.rs"]
mod got;
#[cfg(feature = "redis")]
mod import;
mod info;
#[cfg(all(unix, feature = "redis", feature = "serve"))]
mod leaks;
#[cfg(all(unix, feature = "redis", feature = "serve"))]
mod long_files;
mod merge;
#[cfg(all(unix, feature = "redis", feature = "serve"))]
mod operating;
mod plan;
#[cfg(all(unix, feature = "postgres"))]
mod postgres;
#[cfg(all(unix, feature = "postgres"))]
#[path = "../../../bloomgate-gate/tests/shared/postgres_process.rs"]
mod postgres_process;
#[cfg(all(unix, feature = "gate"))]
mod proxy;
#[cfg(all(unix, feature = "gate", feature = "redis"))]
#[path = "../../../bloomgate-gate/tests/shared/redis_server.rs"]
#[expect(dead_code, reason = "the tests of the gate hold and restart it, those of the command do not")]
mod redis_server;
#[cfg(feature = "redis")]
mod replay;
mod scene;
mod secret;
#[cfg(all(unix, feature = "redis", feature = "serve"))]
mod serve;
#[cfg(all(unix, any(feature = "gate", all(feature = "redis", feature = "serve"))))]
mod service;
mod sources;
mod verify;
#[cfg(all(unix, feature = "gate", feature = "redis", feature = "serve"))]
mod webhook;
