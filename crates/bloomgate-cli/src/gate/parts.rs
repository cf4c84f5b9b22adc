//! The parts of a gate, made from its settings: the source, the cache, the gate itself, and how it is served.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bloomgate_gate::caches::{Cache, LocalCache};
use bloomgate_gate::callers::Callers;
use bloomgate_gate::feed::FeedOptions;
use bloomgate_gate::proxy::{self, Host, Proxy};
use bloomgate_gate::service::http::access::{Hosts, Role, Tokens};
use bloomgate_gate::service::http::{self, Tls};
use bloomgate_gate::service::{self, Clients};
use bloomgate_gate::sources::{KeyList, Source, Sqlite, SqliteQuery, Upstream};
use bloomgate_gate::{Builder, ErrorKind, Event, Gate, KeyType, Writers};

use super::settings::{Settings, is_http};
use crate::failure::Failure;
use crate::number::duration;
#[cfg(feature = "redis")]
use crate::screen;

pub fn said(error: impl std::fmt::Display) -> Failure {
    Failure::Message(error.to_string())
}

/// Why there is no source.
pub enum Unopened {
    /// It is not there now; another time it may be.
    Unreachable(String),
    /// No try will mend it.
    Wrong(Failure),
}

impl From<Failure> for Unopened {
    fn from(failure: Failure) -> Self {
        Self::Wrong(failure)
    }
}

/// Opens the source, if it is there within this time. A file that is missing is a mistake (a typing error is likelier than
/// one that is still to come); a server that is missing is not.
pub async fn source(settings: &Settings, patience: Duration) -> Result<Arc<dyn Source>, Unopened> {
    let (url, column) = match (&settings.upstream, &settings.keys_from) {
        (None, _) => (settings.source.as_str(), settings.key.as_str()),
        (Some(_), Some(keys)) if super::settings::is_database(keys) => {
            (keys.as_str(), settings.key_column.as_deref().unwrap_or_default())
        }
        (Some(url), _) => return Ok(Arc::new(behind(settings, url)?)),
    };
    if let Some(path) = url.strip_prefix("sqlite:") {
        return Ok(match &settings.query {
            Some(query) => Arc::new(SqliteQuery::open(path, query, key_type(settings)?).map_err(said)?),
            None => Arc::new(Sqlite::open(path, &settings.table, column).map_err(said)?),
        });
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return match tokio::time::timeout(patience, postgres(settings, url, column)).await {
            Ok(opened) => opened,
            Err(_) => Err(Unopened::Unreachable(format!("PostgreSQL did not answer within {}", duration(patience)))),
        };
    }
    if is_http(url) {
        return Ok(Arc::new(upstream(settings)?));
    }
    // Not repeated, unless it is a file: an address may hold a password.
    let found = match url.split_once(':') {
        Some((scheme, _)) => format!("--source begins with {scheme:?}"),
        None if std::path::Path::new(url).is_file() => format!("--source is a file: write sqlite:{url}"),
        None => "--source names no kind of source".to_owned(),
    };
    let kinds = "sqlite:FILE, postgres://USER@HOST/DATABASE or http://HOST/PATH/{key} (or https://)";
    Err(Failure::Message(format!("{found}; a source is {kinds}")).into())
}

#[cfg(feature = "postgres")]
async fn postgres(settings: &Settings, url: &str, column: &str) -> Result<Arc<dyn Source>, Unopened> {
    use bloomgate_gate::sources::{Postgres, PostgresQuery};
    let opened: Result<Arc<dyn Source>, bloomgate_gate::Error> = match &settings.query {
        Some(query) => {
            PostgresQuery::connect(url, query, settings.connections).await.map(|source| Arc::new(source) as _)
        }
        None => {
            let source = Postgres::connect(url, &settings.table, column, settings.connections).await;
            source.map(|source| Arc::new(source) as _)
        }
    };
    match opened {
        Ok(source) => Ok(source),
        Err(error) if matches!(error.kind(), ErrorKind::Source | ErrorKind::Busy) => {
            Err(Unopened::Unreachable(error.to_string()))
        }
        Err(error) => Err(said(error).into()),
    }
}

#[cfg(not(feature = "postgres"))]
async fn postgres(_: &Settings, _: &str, _: &str) -> Result<Arc<dyn Source>, Unopened> {
    let message = "this bloomgate was built without PostgreSQL: build it with the feature postgres";
    Err(Failure::Message(message.into()).into())
}

fn key_type(settings: &Settings) -> Result<KeyType, Failure> {
    Ok(match settings.key_type.as_str() {
        "text" => KeyType::Text,
        "integer" => KeyType::Integer { bits: 64 },
        "decimal" => KeyType::Decimal,
        "uuid" => KeyType::Uuid,
        "bytes" => KeyType::Bytes,
        other => {
            let message = format!("--key-type is {other:?}: write text, integer, decimal, uuid or bytes");
            return Err(Failure::Message(message));
        }
    })
}

fn list(keys: Option<&String>) -> KeyList {
    match keys {
        None => KeyList::None,
        Some(url) if is_http(url) => KeyList::Url(url.clone()),
        Some(file) => KeyList::File(file.into()),
    }
}

/// What is behind a proxy, as the truth that its filter is held against.
fn behind(settings: &Settings, url: &str) -> Result<Upstream, Failure> {
    let template = settings.rules()?.first().map(proxy::Rule::template).unwrap_or_default();
    let url = format!("{}{template}", url.trim_end_matches('/'));
    Ok(asked(settings, &url, settings.keys_from.as_ref(), settings.upstream_ca.as_deref())?.only_existence())
}

fn upstream(settings: &Settings) -> Result<Upstream, Failure> {
    asked(settings, &settings.source, settings.key_list.as_ref(), settings.source_ca.as_deref())
}

/// An HTTP service, by its URL, its list of keys and its authorities, with everything else that was said of it.
fn asked(settings: &Settings, url: &str, keys: Option<&String>, ca: Option<&Path>) -> Result<Upstream, Failure> {
    let key_type = key_type(settings)?;
    let mut upstream = match ca {
        Some(file) => Upstream::checked_by(file, url, list(keys)).map_err(said)?,
        None => Upstream::new(url, list(keys)).map_err(said)?,
    };
    if let Some((name, value)) = &settings.source_header {
        upstream = upstream.header(name, value).map_err(said)?;
    }
    if settings.keys_as_listed {
        upstream = upstream.keys_as_listed();
    }
    Ok(upstream.keys_are(key_type).deadline(settings.source_deadline))
}

/// Opens the cache, if there is to be one.
pub async fn cache(settings: &Settings) -> Result<Option<Arc<dyn Cache>>, Failure> {
    match settings.cache.as_str() {
        // What passes is not kept.
        _ if settings.upstream.is_some() => Ok(None),
        "none" => Ok(None),
        "local" => Ok(Some(Arc::new(LocalCache::new(settings.cache_memory).map_err(said)?))),
        url => redis_cache(url, &settings.table).await.map(Some),
    }
}

#[cfg(feature = "redis")]
async fn redis_cache(url: &str, table: &str) -> Result<Arc<dyn Cache>, Failure> {
    use bloomgate_gate::caches::{RedisCache, redis};
    let prefix = format!("bloomgate:{table}");
    match RedisCache::connect(url, &prefix, redis::DEADLINE).await {
        Ok(cache) => Ok(Arc::new(cache)),
        Err(error) if error.kind() != ErrorKind::Cache => Err(said(error)),
        Err(error) => {
            // One that is not there yet is reached for later: without a cache the gate is slower, not wrong.
            screen::note(format!("{error}; every lookup of an existing key reaches the source until it is there"));
            Ok(Arc::new(RedisCache::unconnected(url, &prefix, redis::DEADLINE).map_err(said)?))
        }
    }
}

#[cfg(not(feature = "redis"))]
async fn redis_cache(_: &str, _: &str) -> Result<Arc<dyn Cache>, Failure> {
    Err(Failure::Message("this bloomgate was built without Redis: build it with the feature redis".into()))
}

/// The name of a filter behind a server: the one that was said; else that of the table, and a number for where its keys are and
/// how they are read, so that two shops with a table of one name, or two proxies with other rules, do not take each
/// other's filter away.
#[cfg(feature = "redis")]
fn filter_name(settings: &Settings) -> String {
    if let Some(name) = &settings.filter_name {
        return format!("bloomgate:{name}:filter");
    }
    let urls = [&settings.source].into_iter().chain(&settings.upstream).chain(&settings.keys_from);
    let rest = [&settings.key].into_iter().chain(&settings.key_list).chain(&settings.query).chain(&settings.key_column);
    let place: Vec<String> = urls.map(|url| without_password(url)).chain(rest.cloned()).collect();
    // FNV-1a (Fowler, Noll and Vo, 1991).
    let number = place
        .join("\n")
        .bytes()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    format!("bloomgate:{}:{number:016x}:filter", settings.table)
}

/// A URL without its password, which may change.
#[cfg(feature = "redis")]
fn without_password(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let host = host.rsplit_once('@').map_or(host.to_owned(), |(user, host)| {
                format!("{}@{host}", user.split_once(':').map_or(user, |(name, _)| name))
            });
            format!("{scheme}://{host}{path}")
        }
        None => url.to_owned(),
    }
}

#[cfg(all(test, feature = "redis"))]
mod tests {
    use super::{Settings, filter_name};

    fn name(source: &str, table: &str, key: &str) -> String {
        let (source, table, key) = (source.to_owned(), table.to_owned(), key.to_owned());
        filter_name(&Settings { source, table, key, ..Settings::default() })
    }

    #[test]
    fn one_filter_for_one_table_of_one_database_whatever_the_password() {
        let shop = name("postgres://app:old@db/shop", "t", "sku");
        assert_eq!(shop, name("postgres://app:new@db/shop", "t", "sku"));
        assert!(shop.starts_with("bloomgate:t:") && shop.ends_with(":filter"));
        for other in ["postgres://app@db/store", "postgres://app@db2/shop", "sqlite:shop.db", "http://db/shop/{key}"] {
            assert_ne!(shop, name(other, "t", "sku"));
        }
        assert_ne!(shop, name("postgres://app@db/shop", "u", "sku"));
        assert_ne!(shop, name("postgres://app@db/shop", "t", "id"), "keys of another column");
    }

    #[test]
    fn proxies_of_one_upstream_have_a_filter_for_each_set_of_keys_and_gates_the_name_they_are_given() {
        let proxy = |key: &str, keys_from: &str, query: Option<&str>| Settings {
            upstream: Some("http://catalog:8080".to_owned()),
            key: key.to_owned(),
            keys_from: Some(keys_from.to_owned()),
            query: query.map(str::to_owned),
            ..Settings::default()
        };
        let database = "postgres://app:old@db/shop";
        let all = [
            proxy("path:/products/{id}", "products.txt", None),
            proxy("path:/users/{id}", "products.txt", None),
            proxy("path:/products/{id}", "users.txt", None),
            proxy("path:/products/{id}", database, Some("SELECT sku FROM products")),
            proxy("path:/products/{id}", database, Some("SELECT id FROM products")),
        ];
        let names: std::collections::BTreeSet<String> = all.iter().map(filter_name).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        let again = proxy("path:/products/{id}", "postgres://app:new@db/shop", Some("SELECT sku FROM products"));
        assert!(names.contains(&filter_name(&again)), "whatever the password");
        let [one, other] = ["a", "b"].map(|name| Settings { filter_name: Some(name.to_owned()), ..all[0].clone() });
        assert_eq!(
            (filter_name(&one), filter_name(&other)),
            ("bloomgate:a:filter".into(), "bloomgate:b:filter".into())
        );
    }
}

#[cfg(feature = "redis")]
async fn remote_filter(builder: Builder, settings: &Settings) -> Result<Builder, Failure> {
    use bloomgate_gate::filters::resp::{DEADLINE, RespFilters};
    let (url, name) = (settings.filter.as_str(), filter_name(settings));
    let filters = match RespFilters::connect(url, &name, DEADLINE).await {
        Ok(filters) => filters,
        Err(error) if error.kind() != ErrorKind::Filter => return Err(said(error)),
        Err(error) => {
            // One that is not there yet is reached for later: until then every key is a "maybe".
            screen::note(format!("{error}; lookups go on to the source until it is there"));
            RespFilters::unconnected(url, &name, DEADLINE).map_err(said)?
        }
    };
    Ok(builder.remote_filter(filters))
}

#[cfg(not(feature = "redis"))]
async fn remote_filter(_: Builder, _: &Settings) -> Result<Builder, Failure> {
    Err(Failure::Message("this bloomgate was built without Redis: build it with the feature redis".into()))
}

/// The caps on single clients, if there are to be any.
pub fn callers(settings: &Settings) -> Option<Arc<Callers>> {
    let (misses, adds) = (settings.client_misses, settings.client_adds);
    (misses.is_some() || adds.is_some()).then(|| Arc::new(Callers::new(misses, adds)))
}

/// A feed that was never installed is a mistake, and told at the start; one that breaks later is waited for.
async fn check_feed(settings: &Settings, source: &dyn Source) -> Result<(), Failure> {
    let options = FeedOptions { reader: "start".to_owned(), hold: settings.feed_hold };
    let Some(feed) = source.feed(options) else { return Ok(()) };
    match feed.check().await {
        Err(error) if error.kind() == ErrorKind::Unsupported => Err(said(error)),
        Err(error) if error.kind() == ErrorKind::Gap => {
            // Before a service the key is a place in a request, and the column has a setting of its own.
            let (table, key) = (&settings.table, settings.key_column.as_ref().unwrap_or(&settings.key));
            Err(Failure::Message(format!("{error} --source ... --table {table} --key {key}")))
        }
        // One that cannot be asked at this moment is tried again by the gate.
        _ => Ok(()),
    }
}

/// How clients are told apart.
fn clients(settings: &Settings) -> Clients {
    Clients { by: settings.client_by.clone(), trusted: settings.trusted_proxies.clone() }
}

/// Makes the proxy, if there is to be one.
pub fn proxy(settings: &Settings) -> Result<Option<Proxy>, Failure> {
    let Some(upstream) = &settings.upstream else { return Ok(None) };
    let mut options = proxy::Options::new(upstream, settings.rules()?);
    options.upstream_ca.clone_from(&settings.upstream_ca);
    options.exceptions.clone_from(&settings.pass);
    options.new_key = settings.new_key.clone();
    options.new_key_status = settings.new_key_status.clone();
    options.whole_body = usize::try_from(settings.whole_body).unwrap_or(usize::MAX);
    options.whole_memory = usize::try_from(settings.whole_memory).unwrap_or(usize::MAX);
    options.longer = settings.longer_body;
    if let Some(host) = &settings.upstream_host {
        options.host = Host::Set(host.parse().map_err(|error| said(format!("--upstream-host: {error}")))?);
    }
    options.forwarding = settings.forwarded;
    options.connect_time = settings.connect_time;
    options.answer_time = settings.answer_time;
    options.idle_time = settings.idle_time;
    options.outcome_header = settings.outcome_header;
    options.closed = settings.policy == bloomgate_gate::Policy::Closed;
    options.clients = clients(settings);
    Proxy::new(options).map(Some).map_err(said)
}

/// Makes the gate.
pub async fn gate(
    settings: &Settings,
    source: Arc<dyn Source>,
    listener: impl Fn(Event) + Send + Sync + 'static,
) -> Result<Gate, Failure> {
    if settings.writers == Writers::Feed {
        check_feed(settings, &*source).await?;
    }
    let mut builder = Gate::builder(source)
        .on_event(listener)
        .accept_fewer(settings.accept_fewer)
        .rate(settings.rate)
        .headroom(settings.headroom)
        .filter_bytes(settings.filter_memory)
        .policy(settings.policy)
        .writers(settings.writers)
        .max_staleness(settings.max_staleness)
        .feed_save_every(settings.feed_save_every)
        .feed_hold(settings.feed_hold)
        .negatives(settings.negative_entries, settings.negative_ttl)
        .rows_for(settings.rows_for)
        .source_limit(settings.source_at_once, settings.source_waiting)
        .audit_share(settings.audit)
        .rebuild_every(settings.rebuild_every);
    if let Some(cache) = cache(settings).await? {
        builder = builder.cache(cache);
    }
    if settings.filter != "local" {
        builder = remote_filter(builder, settings).await?;
    }
    if let Some(folder) = &settings.data {
        builder = builder.data(folder);
    }
    if let Some(callers) = callers(settings) {
        builder = builder.callers(callers);
    }
    builder.build().map_err(said)
}

/// How it is served: what the service allows, and what the listener limits.
pub fn service(settings: &Settings) -> Result<(service::Options, http::Options), Failure> {
    let tokens = settings.tokens.as_deref().map(Tokens::from_file).transpose().map_err(said)?;
    if let Some(tokens) = tokens.as_ref().filter(|tokens| settings.allow_writes && !tokens.any(Role::Write)) {
        return Err(Failure::Message(format!(
            "--allow-writes, and none of the {} tokens may write: give one the role write",
            tokens.len()
        )));
    }
    let tls = match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => Some(Tls::from_files(certificate, key).map_err(said)?.into()),
        _ => None,
    };
    // Where other machines reach it, the names they use are not known, unless they were said.
    let checked = settings.is_local() || !settings.hosts.is_empty();
    let options = service::Options {
        table: settings.name.clone().unwrap_or_else(|| match settings.table.is_empty() {
            true => "keys".to_owned(),
            false => settings.table.clone(),
        }),
        writes: settings.allow_writes,
        tokens,
        open_reads: settings.open_reads,
        hosts: checked.then(|| Hosts::new(settings.hosts.iter().cloned())),
        meaning: settings.meaning,
        unconfirmed: settings.unconfirmed,
        clients: clients(settings),
        by_tenant: settings.tenant.is_some(),
        attack: std::env::current_exe().ok(),
        ..service::Options::default()
    };
    let limits = http::Limits {
        connections: settings.max_clients,
        per_address: settings.max_clients_per_address,
        drain: settings.drain,
        ..http::Limits::default()
    };
    Ok((options, http::Options { tls, limits, ..http::Options::default() }))
}
