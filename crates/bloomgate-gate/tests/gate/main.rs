//! The gate on real parts and under interleavings: one binary, a module for each area.
#![forbid(unsafe_code)]

#[cfg(feature = "redis")]
mod cached_gate;
mod caches;
#[cfg(all(feature = "service", feature = "sqlite"))]
mod caps;
#[cfg(all(feature = "service", feature = "sqlite"))]
mod deny;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod differential;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod feeds;
#[cfg(feature = "redis")]
mod filter_server;
#[cfg(feature = "service")]
#[path = "../shared/got.rs"]
mod got;
mod ground;
#[cfg(feature = "upstream")]
mod http_service;
mod interleavings;
#[cfg(feature = "redis")]
mod keyed_items;
mod keys;
mod listening;
mod memory_source;
#[cfg(all(feature = "redis", feature = "service"))]
mod parts_down;
mod paths;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
#[path = "../shared/postgres_process.rs"]
mod postgres_process;
#[cfg(feature = "postgres")]
mod postgres_server;
mod rebuilds;
#[cfg(feature = "redis")]
mod redis_cache;
#[cfg(feature = "redis")]
#[path = "../shared/redis_server.rs"]
mod redis_server;
#[cfg(feature = "redis")]
mod remote;
#[cfg(feature = "redis")]
mod resp_filter;
#[cfg(all(feature = "service", feature = "upstream"))]
mod secured_upstream;
#[cfg(feature = "service")]
mod service;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod side_by_side;
#[cfg(feature = "sqlite")]
mod sqlite;
mod storms;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod tables;
#[cfg(feature = "sqlite")]
mod tenant_caps;
#[cfg(feature = "sqlite")]
mod tenant_memory;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod tenant_schedules;
#[cfg(feature = "sqlite")]
mod tenants;
#[cfg(feature = "postgres")]
mod tenants_postgres;
#[cfg(all(feature = "service", feature = "sqlite"))]
mod tenants_service;
#[cfg(feature = "upstream")]
mod upstream;
#[cfg(feature = "redis")]
mod waiting;
mod worn;
