//! Every setting of `gate` by name: what its flag, its variable, its line in a file and the documentation agree on.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use bloomgate_gate::callers::Limit;
use bloomgate_gate::service::{ClientBy, Network};
use bloomgate_gate::tenants::{Own, Spending};
use bloomgate_gate::{Meaning, Policy, Unconfirmed, Writers};

use crate::number;
use crate::told::{self, Named};

/// The folder that keeps the filter when none is named.
const DATA: &str = "bloomgate-gate-data";

/// Everything a gate is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub source: String,
    pub table: String,
    pub key: String,
    pub tenant: Option<String>,
    pub tenants_most: usize,
    pub tenant_budget: Spending,
    /// What single tenants have of their own, by sections of the settings file.
    pub own: Vec<(String, Own)>,
    pub name: Option<String>,
    pub key_list: Option<String>,
    pub key_type: String,
    pub source_header: Option<(String, String)>,
    pub source_deadline: Duration,
    pub connections: usize,
    pub source_at_once: usize,
    pub source_waiting: usize,
    pub cache: String,
    pub cache_memory: u64,
    pub rows_for: Duration,
    pub negative_entries: usize,
    pub negative_ttl: Duration,
    pub filter: String,
    pub filter_memory: u64,
    pub rate: f64,
    pub headroom: f64,
    pub writers: Writers,
    pub max_staleness: Duration,
    pub feed_save_every: Duration,
    pub feed_hold: Duration,
    pub policy: Policy,
    pub meaning: Meaning,
    pub unconfirmed: Unconfirmed,
    pub rebuild_every: Option<Duration>,
    pub accept_fewer: bool,
    pub audit: f64,
    pub data: Option<PathBuf>,
    pub listen: SocketAddr,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    pub tokens: Option<PathBuf>,
    pub open_reads: bool,
    pub allow_writes: bool,
    pub hosts: Vec<String>,
    pub client_misses: Option<Limit>,
    pub client_adds: Option<Limit>,
    pub client_by: ClientBy,
    pub trusted_proxies: Vec<Network>,
    pub max_clients: usize,
    pub max_clients_per_address: usize,
    pub threads: usize,
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            source: String::new(),
            table: String::new(),
            key: String::new(),
            tenant: None,
            tenants_most: 10_000,
            tenant_budget: Spending::default(),
            own: Vec::new(),
            name: None,
            key_list: None,
            key_type: "text".to_owned(),
            source_header: None,
            source_deadline: Duration::from_secs(2),
            connections: 16,
            source_at_once: 64,
            source_waiting: 4_096,
            cache: "local".to_owned(),
            cache_memory: 64_000_000,
            rows_for: Duration::from_secs(60),
            negative_entries: 1_000_000,
            negative_ttl: Duration::from_secs(60),
            filter: "local".to_owned(),
            filter_memory: 4 << 30,
            rate: 0.001,
            headroom: 1.5,
            writers: Writers::default(),
            max_staleness: Duration::from_secs(5),
            feed_save_every: Duration::from_secs(300),
            feed_hold: Duration::from_secs(86_400),
            policy: Policy::default(),
            meaning: Meaning::default(),
            unconfirmed: Unconfirmed::default(),
            rebuild_every: Some(Duration::from_secs(86_400)),
            accept_fewer: false,
            audit: 0.001,
            data: Some(DATA.into()),
            listen: SocketAddr::from(([127, 0, 0, 1], 8480)),
            tls_cert: None,
            tls_key: None,
            tokens: None,
            open_reads: false,
            allow_writes: false,
            hosts: Vec::new(),
            client_misses: None,
            client_adds: None,
            client_by: ClientBy::default(),
            trusted_proxies: Vec::new(),
            max_clients: 10_000,
            max_clients_per_address: 1_000,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            drain: Duration::from_secs(10),
        }
    }
}

/// One setting.
pub struct Setting {
    name: &'static str,
    /// What its value looks like.
    pub value: &'static str,
    /// What it is unless said otherwise.
    pub default: &'static str,
    /// One line about it.
    pub about: &'static str,
    set: fn(&mut Settings, &str) -> Result<(), String>,
}

impl Named for Setting {
    fn name(&self) -> &'static str {
        self.name
    }
}

macro_rules! settings {
    ($($name:literal $value:literal $default:literal $about:literal |$to:ident, $text:ident| $set:expr;)+) => {
        /// All settings, in the order of the documentation.
        pub static TABLE: &[Setting] = &[$(Setting {
            name: $name,
            value: $value,
            default: $default,
            about: $about,
            set: |$to, $text| {
                $set;
                Ok(())
            },
        }),+];
    };
}

settings! {
    "source" "URL" "" "where the rows are: `sqlite:FILE`, `postgres://USER@HOST/DATABASE` or `http://HOST/PATH/{key}`"
        |to, text| to.source = text.to_owned();
    "table" "NAME" "" "the table; for an HTTP source the name in the gate's own paths"
        |to, text| to.table = text.to_owned();
    "key" "COLUMN" "" "the column that rows are looked up by: unique, and compared byte by byte; not for HTTP sources"
        |to, text| to.key = text.to_owned();
    "tenant" "COLUMN" "none" "the column that says whose a row is: each tenant gets its own filter, and paths name it before the key; unique together with the key"
        |to, text| to.tenant = Some(filled(text)?);
    "tenants-most" "N" "10000" "with --tenant: tenants there may be; each takes about 8 KB beside its bits"
        |to, text| to.tenants_most = within(text, 1, 1_000_000)?;
    "tenant-budget" "HOW" "strict" "with --tenant, when the filters of all do not fit into --filter-memory: `strict` keeps rates and leaves the largest out, `cost-first` loosens rates where it costs the source least"
        |to, text| to.tenant_budget = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "name" "NAME" "the table" "the table's name in paths"
        |to, text| to.name = Some(filled(text)?);
    "key-list" "FILE or URL" "none" "HTTP sources: where all keys are listed, one a line; without it the gate only watches"
        |to, text| to.key_list = Some(filled(text)?);
    "key-type" "TYPE" "text" "HTTP sources: the type of the keys: text, integer, decimal, uuid or bytes"
        |to, text| to.key_type = text.to_owned();
    "source-header" "NAME: VALUE" "none" "HTTP sources: a header that goes with every request; by variable or file, never a flag"
        |to, text| to.source_header = Some(header(text)?);
    "source-deadline" "TIME" "2s" "HTTP sources: how long a request may take"
        |to, text| to.source_deadline = number::period(text)?;
    "connections" "N" "16" "PostgreSQL: connections that are kept"
        |to, text| to.connections = within(text, 1, 1_000)?;
    "source-at-once" "N" "64" "reads at the source at once"
        |to, text| to.source_at_once = within(text, 1, 100_000)?;
    "source-waiting" "N" "4096" "lookups that may wait for their turn at the source; more are refused with 503"
        |to, text| to.source_waiting = within(text, 0, 1_000_000)?;
    "cache" "WHERE" "local" "where rows are kept that were read before: `local` (in the process), `redis://HOST`, or `none`"
        |to, text| to.cache = place(text, &["local", "none"], &["redis://"])?;
    "cache-memory" "SIZE" "64MB" "memory of the local cache"
        |to, text| to.cache_memory = number::size(text)?;
    "rows-for" "TIME" "60s" "how long a row stays in the cache"
        |to, text| to.rows_for = number::period(text)?;
    "negative-entries" "N" "1000000" "absent keys that are remembered, 100 bytes each; 0 for none"
        |to, text| to.negative_entries = within(text, 0, 1_000_000_000)?;
    "negative-ttl" "TIME" "60s" "how long an absent key is remembered"
        |to, text| to.negative_ttl = number::period(text)?;
    "filter" "WHERE" "local" "where the filter is: `local` (in the process), or `redis://HOST` for a server with BF commands"
        |to, text| to.filter = place(text, &["local"], &["redis://"])?;
    "filter-memory" "SIZE" "4GiB" "the most memory a filter may take; twice that during a rebuild"
        |to, text| to.filter_memory = number::size(text)?;
    "rate" "RATE" "0.1%" "the share of absent keys that may pass the filter"
        |to, text| to.rate = number::rate(text)?;
    "headroom" "FACTOR" "1.5" "the filter is sized for the source's rows times this"
        |to, text| to.headroom = number::factor(text)?;
    "writers" "WHO" "unknown" "who changes the source: `sole` (only this gate), `feed` (others too, and triggers tell: `gate install-feed`) or `unknown` (others too: nothing is ever blocked)"
        |to, text| to.writers = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "max-staleness" "TIME" "5s" "writers feed: how old what is known of others' writes may be; a filter that is further behind does not say no"
        |to, text| to.max_staleness = number::period(text)?;
    "feed-save-every" "TIME" "5min" "writers feed: how often the filter is saved; what was told since is read again after a kill, and stays in the outbox until then"
        |to, text| to.feed_save_every = number::period(text)?;
    "feed-hold" "TIME" "24h" "writers feed: how long the outbox keeps what a gate that is away has not read"
        |to, text| to.feed_hold = number::period(text)?;
    "policy" "POLICY" "open" "what a lookup gets while the filter cannot say no: `open` asks the source, `closed` refuses with 503, `shadow` only watches"
        |to, text| to.policy = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "meaning" "MEANING" "present" "what a row means: `present` (200 with the row, else 404) or `deny` (403 with the row, else 204; never by the filter alone)"
        |to, text| to.meaning = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "unconfirmed" "ANSWER" "refuse" "deny lists: what a key gets that the filter may know while the source cannot be asked: `refuse` (503) or `allow` (204)"
        |to, text| to.unconfirmed = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "rebuild-every" "TIME" "24h" "how often the filter is rebuilt, give or take a tenth; `never`: only when somebody asks for it or the filter needs it"
        |to, text| to.rebuild_every = if text == "never" { None } else { Some(number::period(text)?) };
    "accept-fewer" "yes or no" "no" "for one start: believe a source that has far fewer keys than at the last rebuild"
        |to, text| to.accept_fewer = yes(text)?;
    "audit" "SHARE" "0.1%" "the share of \"no\" answers that are checked at the source in the background"
        |to, text| to.audit = number::share(text)?;
    "data" "DIR" "bloomgate-gate-data" "the folder that keeps the filter over a restart; `none` keeps nothing"
        |to, text| to.data = if text == "none" { None } else { Some(PathBuf::from(filled(text)?)) };
    "listen" "ADDR" "127.0.0.1:8480" "where clients connect: HOST:PORT, or a port of this machine; port 0 takes any that is free"
        |to, text| to.listen = address(text)?;
    "tls-cert" "FILE" "none" "the certificate, a PEM file, the server's own first"
        |to, text| to.tls_cert = Some(PathBuf::from(filled(text)?));
    "tls-key" "FILE" "none" "the certificate's key, a PEM file"
        |to, text| to.tls_key = Some(PathBuf::from(filled(text)?));
    "tokens" "FILE" "none" "tokens that clients must send, one a line: `read`, `write` or `admin`, then the token or `sha256:` and its hash"
        |to, text| to.tokens = Some(PathBuf::from(filled(text)?));
    "open-reads" "yes or no" "no" "with tokens: whether lookups and metrics need none"
        |to, text| to.open_reads = yes(text)?;
    "allow-writes" "yes or no" "no" "whether PUT and DELETE are there"
        |to, text| to.allow_writes = yes(text)?;
    "hosts" "NAME,NAME" "none" "without tokens: names beside this machine's own under which clients ask for it, as through a proxy"
        |to, text| to.hosts = text.split(',').map(|name| filled(name.trim())).collect::<Result<_, _>>()?;
    "client-misses" "N/TIME" "none" "lookups of one client that may reach the source and find nothing, as `100/1min`; more are refused with 429"
        |to, text| to.client_misses = limit(text)?;
    "client-adds" "N/TIME" "none" "rows that one client may PUT, as `1000/1h`; more are refused with 429"
        |to, text| to.client_adds = limit(text)?;
    "client-by" "WHAT" "address" "who is one client: `address` (one of IPv4, a /64 of IPv6) or `header:NAME`, a header that a trusted proxy sets"
        |to, text| to.client_by = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "trusted-proxies" "ADDR,ADDR/BITS" "none" "proxies whose `X-Forwarded-For` and header of `client-by` are believed"
        |to, text| to.trusted_proxies = networks(text)?;
    "max-clients" "N" "10000" "connections at once"
        |to, text| to.max_clients = within(text, 1, 1 << 20)?;
    "max-clients-per-address" "N" "1000" "connections at once from one address"
        |to, text| to.max_clients_per_address = within(text, 1, 1 << 20)?;
    "threads" "N" "one for each core" "threads that serve requests"
        |to, text| to.threads = within(text, 1, 1_024)?;
    "drain" "TIME" "10s" "how long requests under way may take to end when it stops"
        |to, text| to.drain = number::period(text)?;
}

/// Sets one setting. The error does not name it: who calls knows whether a flag, a variable or a file said so.
pub fn set(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    (told::find(TABLE, name)?.set)(settings, text)
}

impl Settings {
    /// Whether everything that is needed was said, and nothing that must not be.
    pub fn check(&self) -> Result<(), String> {
        let is_http = self.source.starts_with("http://");
        if self.source.is_empty() {
            return Err("where are the rows? Say --source sqlite:FILE, postgres://USER@HOST/DATABASE or \
                        http://HOST/PATH/{key}, with --table and --key"
                .into());
        }
        if self.table.is_empty() {
            return Err("which table? Say --table NAME".into());
        }
        if self.key.is_empty() && !is_http {
            return Err(
                "which column are rows looked up by? Say --key COLUMN: a unique one, like the primary key".into()
            );
        }
        if is_http && !self.key.is_empty() {
            return Err(
                "--key is for tables: an HTTP source has its key where the URL says {key}; leave --key out".into()
            );
        }
        if is_http && self.writers == Writers::Feed {
            return Err("--writers feed is for tables of SQLite and PostgreSQL: an HTTP service tells no gate what others write".into());
        }
        if is_http && self.key_list.is_none() && self.policy == Policy::Closed {
            return Err(
                "--policy closed answers nothing without a filter, and without --key-list there is none to build"
                    .into(),
            );
        }
        if !is_http {
            for (name, said) in
                [("--key-list", self.key_list.is_some()), ("--source-header", self.source_header.is_some())]
            {
                if said {
                    return Err(format!("{name} is for sources that are HTTP services: a table lists its keys itself"));
                }
            }
        }
        self.check_tenants(is_http)?;
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => {
                return Err("--tls-cert needs --tls-key beside it: the file of the certificate's key".into());
            }
            (None, Some(_)) => return Err("--tls-key needs --tls-cert beside it: the file of the certificate".into()),
            _ => {}
        }
        if matches!(self.client_by, ClientBy::Header(_)) && self.trusted_proxies.is_empty() {
            return Err(
                "--client-by header:NAME needs --trusted-proxies: a header that anybody may write says nothing about \
                        who it is"
                    .into(),
            );
        }
        if self.client_misses.is_none() && self.client_adds.is_none() {
            for (name, said) in [
                ("--client-by", self.client_by != ClientBy::default()),
                ("--trusted-proxies", !self.trusted_proxies.is_empty()),
            ] {
                if said {
                    return Err(format!("{name} means nothing without --client-misses or --client-adds"));
                }
            }
        }
        if self.client_adds.is_some() && !self.allow_writes {
            return Err("--client-adds means nothing without --allow-writes: nobody can add a row".into());
        }
        if self.unconfirmed == Unconfirmed::Allow && self.meaning != Meaning::Deny {
            return Err("--unconfirmed is for deny lists: say --meaning deny, or leave it out".into());
        }
        if self.open_reads && self.tokens.is_none() {
            return Err("--open-reads means nothing without --tokens: without tokens reads are open already".into());
        }
        if self.allow_writes && !self.is_local() && (self.tokens.is_none() || self.tls_cert.is_none()) {
            return Err(format!(
                "{} is reached from other machines: with --allow-writes it needs --tokens, and --tls-cert with --tls-key so \
                 that nobody on the way reads them; or listen on 127.0.0.1",
                self.listen
            ));
        }
        Ok(())
    }

    fn check_tenants(&self, is_http: bool) -> Result<(), String> {
        if self.tenant.is_none() {
            return match self.own.first() {
                None => Ok(()),
                Some((name, _)) => {
                    Err(format!("the settings of the tenant {name:?} mean nothing without --tenant COLUMN"))
                }
            };
        }
        if is_http {
            return Err(
                "--tenant is for tables: an HTTP source lists its keys without saying whose they are. Run a gate for \
                        each tenant's URL, or gate the table itself"
                    .into(),
            );
        }
        if self.filter != "local" {
            return Err(
                "--tenant and --filter redis:// do not go together: the filters of tenants are in this process".into(),
            );
        }
        Ok(())
    }

    /// Whether only this machine reaches it.
    pub fn is_local(&self) -> bool {
        self.listen.ip().to_canonical().is_loopback()
    }

    /// Whether the filter may ever answer alone.
    fn may_block(&self) -> bool {
        let lists_keys = !self.source.starts_with("http://") || self.key_list.is_some();
        lists_keys && self.writers != Writers::Unknown && self.policy != Policy::Shadow
    }

    /// What whoever starts it should know, though nothing is wrong.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.meaning == Meaning::Deny && !self.may_block() {
            all.push(
                "the filter may not say no here (--writers, --policy, --key-list), so EVERY LOOKUP IS CONFIRMED AT THE SOURCE: \
                 nobody who is denied gets in, and nothing is kept away from the source. If every write passes this gate, start \
                 it with --writers sole"
                    .to_owned(),
            );
        } else if self.source.starts_with("http://") && self.key_list.is_none() {
            all.push(
                "there is no --key-list, so no filter can be built and NOTHING IS BLOCKED: every lookup goes on to the \
                 cache and the source"
                    .to_owned(),
            );
        } else if self.writers == Writers::Unknown {
            all.push(
                "writers are unknown, so NOTHING IS BLOCKED: others may write to the source, and a row that the filter does \
                 not know yet must be found. The gate watches and counts what it would have blocked (/stats, shadow). If \
                 every write passes this gate, start it with --writers sole; if others write, install a feed (gate install-feed) \
                 and start it with --writers feed"
                    .to_owned(),
            );
        }
        if self.meaning == Meaning::Deny && self.unconfirmed == Unconfirmed::Allow {
            all.push(
                "while the source cannot be asked, whoever is denied gets in (--unconfirmed allow); the answers say \
                 allowed-unconfirmed, and are counted"
                    .to_owned(),
            );
        }
        if self.policy == Policy::Shadow && self.meaning != Meaning::Deny {
            all.push("the policy is shadow, so nothing is blocked: it is only counted (/stats, shadow)".to_owned());
        }
        if !self.is_local() && self.tokens.is_none() {
            all.push(format!(
                "{} is reached from other machines and there are no tokens: whoever connects can read every row whose key it \
                 knows. Set --tokens, or listen on 127.0.0.1",
                self.listen
            ));
        }
        if !self.is_local() && self.tokens.is_some() && self.tls_cert.is_none() {
            all.push(
                "tokens are sent in plain text: set --tls-cert and --tls-key, or let a proxy in front do it".to_owned(),
            );
        }
        all
    }
}

fn filled(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("it is empty: leave it out".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// So many in so much time: `100/1min`; `none` for no limit.
fn limit(text: &str) -> Result<Option<Limit>, String> {
    if text == "none" {
        return Ok(None);
    }
    let (count, time) = text
        .split_once('/')
        .ok_or_else(|| format!("{text:?} is no number in a time: write one like 100/1min, or none"))?;
    let count = number::count(count.trim())?;
    let count = u32::try_from(count).map_err(|_| format!("{count} is too many: from 1 to 1000000 are allowed"))?;
    Limit::new(count, number::period(time.trim())?).map(Some).map_err(|error| error.to_string())
}

/// Proxies, with commas between them.
fn networks(text: &str) -> Result<Vec<Network>, String> {
    let parse = |one: &str| one.trim().parse().map_err(|error: bloomgate_gate::Error| error.to_string());
    text.split(',').map(parse).collect()
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" | "1" => Ok(true),
        "no" | "false" | "0" => Ok(false),
        other => Err(format!("'{other}' is neither yes nor no")),
    }
}

fn within(text: &str, least: usize, most: usize) -> Result<usize, String> {
    let number = number::count(text)?;
    match usize::try_from(number).ok().filter(|number| (least..=most).contains(number)) {
        Some(number) => Ok(number),
        None => Err(format!("{number} is not between {least} and {most}")),
    }
}

fn place(text: &str, words: &[&str], schemes: &[&str]) -> Result<String, String> {
    if words.contains(&text) || schemes.iter().any(|scheme| text.starts_with(scheme)) {
        return Ok(text.to_owned());
    }
    // Not repeated: an address may hold a password.
    let all: Vec<String> = words
        .iter()
        .map(|word| (*word).to_owned())
        .chain(schemes.iter().map(|scheme| format!("{scheme}HOST")))
        .collect();
    Err(format!("it is none of {}", all.join(", ")))
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is written NAME: VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    // A port alone is one of this machine, and seen from this machine only.
    let full =
        if text.bytes().all(|byte| byte.is_ascii_digit()) { format!("127.0.0.1:{text}") } else { text.to_owned() };
    let mut found = full
        .to_socket_addrs()
        .map_err(|error| format!("'{text}' is no address ({error}); give one like 127.0.0.1:8480"))?;
    found.next().ok_or_else(|| format!("'{text}' names no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimal() -> Settings {
        let mut settings = Settings::default();
        for (name, text) in [("source", "sqlite:shop.db"), ("table", "products"), ("key", "sku")] {
            set(&mut settings, name, text).unwrap();
        }
        settings
    }

    #[test]
    fn values_are_read_and_wrong_ones_say_why() {
        let mut settings = minimal();
        assert_eq!(settings.check(), Ok(()));
        for (name, text) in [
            ("rate", "1%"),
            ("listen", "9000"),
            ("rebuild-every", "never"),
            ("writers", "sole"),
            ("max-staleness", "2s"),
            ("policy", "closed"),
            ("data", "none"),
            ("hosts", "shop.example, api.example"),
            ("allow-writes", "yes"),
            ("meaning", "deny"),
            ("unconfirmed", "allow"),
            ("client-misses", "100 / 1min"),
            ("client-adds", "1k/1h"),
            ("client-by", "header:X-User"),
            ("trusted-proxies", "10.0.0.0/8, 2001:db8::1"),
        ] {
            set(&mut settings, name, text).unwrap();
        }
        assert_eq!((settings.rate, settings.listen.port(), settings.rebuild_every), (0.01, 9000, None));
        assert_eq!((settings.writers, settings.policy, &settings.data), (Writers::Sole, Policy::Closed, &None));
        assert_eq!((settings.hosts.len(), settings.allow_writes), (2, true));
        assert_eq!((settings.meaning, settings.unconfirmed), (Meaning::Deny, Unconfirmed::Allow));
        let limits = [settings.client_misses, settings.client_adds].map(|limit| limit.unwrap().to_string());
        assert_eq!(limits, ["100 in 60s", "1000 in 3600s"]);
        assert_eq!((settings.trusted_proxies.len(), settings.check()), (2, Ok(())));
        assert_eq!(settings.max_staleness, Duration::from_secs(2));
        for (name, text, says) in [
            ("rate", "2", "between 0 and 1"),
            ("listen", "nowhere", "no address"),
            ("writers", "me", "sole, feed, unknown"),
            ("policy", "ajar", "open, closed, shadow"),
            ("cache", "memcached://h", "local, none, redis://HOST"),
            ("connections", "0", "not between 1 and 1000"),
            ("allow-writes", "maybe", "neither yes nor no"),
            ("negative-ttl", "soon", "not a period"),
            ("polcy", "open", "did you mean 'policy'"),
            ("name", "", "empty"),
            ("meaning", "absent", "present, deny"),
            ("unconfirmed", "maybe", "refuse, allow"),
            ("client-misses", "100", "like 100/1min"),
            ("client-misses", "0/1min", "from 1 to"),
            ("client-misses", "5000M/1min", "from 1 to"),
            ("client-adds", "5/never", "not a period"),
            ("client-adds", "5/365d", "to 7 days"),
            ("client-by", "cookie", "header:NAME"),
            ("trusted-proxies", "10.0.0.0/33", "10.0.0.0/8"),
        ] {
            let error = set(&mut settings, name, text).unwrap_err();
            assert!(error.contains(says), "{name} {text}: {error}");
        }
    }

    #[test]
    fn the_documentation_has_this_table() {
        let mut page = String::from("| setting | value | default | what it is |\n|---|---|---|---|\n");
        for setting in TABLE {
            let Setting { name, value, default, about, .. } = setting;
            page.push_str(&format!("| `{name}` | {value} | {default} | {about} |\n"));
        }
        assert!(include_str!("../../../../docs/gate.md").contains(&page), "docs/gate.md should have\n{page}");
    }

    #[test]
    fn what_means_nothing_or_is_believed_from_anybody_is_refused() {
        let hundred = limit("100/1min").unwrap();
        let header = ClientBy::Header("x-user".parse().unwrap());
        for (settings, says) in [
            (Settings { client_by: header.clone(), client_misses: hundred, ..minimal() }, "needs --trusted-proxies"),
            (Settings { trusted_proxies: networks("::1").unwrap(), ..minimal() }, "without --client-misses"),
            (Settings { client_adds: hundred, ..minimal() }, "without --allow-writes"),
            (Settings { unconfirmed: Unconfirmed::Allow, ..minimal() }, "--meaning deny"),
        ] {
            let error = settings.check().unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        let trusted = networks("127.0.0.1").unwrap();
        let good = Settings { client_by: header, client_misses: hundred, trusted_proxies: trusted, ..minimal() };
        assert_eq!(good.check(), Ok(()));
        // What is said of gates that block nothing is not said of deny lists, which deny all the same.
        let deny = Settings { meaning: Meaning::Deny, ..minimal() };
        assert!(deny.warnings().len() == 1 && deny.warnings()[0].contains("CONFIRMED AT THE SOURCE"));
        let sole = Settings { writers: Writers::Sole, unconfirmed: Unconfirmed::Allow, ..deny };
        assert!(sole.warnings().len() == 1 && sole.warnings()[0].contains("--unconfirmed allow"));
    }

    #[test]
    fn writes_need_a_lock_where_others_reach_the_door() {
        let mut settings = minimal();
        settings.allow_writes = true;
        assert_eq!(settings.check(), Ok(()), "on this machine alone");
        settings.listen = "0.0.0.0:8480".parse().unwrap();
        assert!(settings.check().unwrap_err().contains("--tokens"));
        settings.tokens = Some("tokens".into());
        assert!(settings.check().unwrap_err().contains("--tls-cert"));
        settings.tls_cert = Some("cert.pem".into());
        assert!(settings.check().unwrap_err().contains("needs --tls-key"));
        settings.tls_key = Some("key.pem".into());
        assert_eq!(settings.check(), Ok(()));
        settings.tokens = None;
        assert!(settings.check().is_err());
    }

    #[test]
    fn what_is_missing_is_asked_for_and_what_is_unsafe_is_told() {
        assert!(Settings::default().check().unwrap_err().contains("--source"));
        assert!(Settings { key: String::new(), ..minimal() }.check().unwrap_err().contains("--key"));
        assert!(Settings { table: String::new(), ..minimal() }.check().unwrap_err().contains("--table"));
        let told =
            Settings { source: "http://h/{key}".into(), key: String::new(), writers: Writers::Feed, ..minimal() };
        assert!(told.check().unwrap_err().contains("--writers feed"));
        assert!(Settings { open_reads: true, ..minimal() }.check().unwrap_err().contains("--tokens"));
        let warnings = minimal().warnings();
        assert!(
            warnings.len() == 1 && warnings[0].contains("NOTHING IS BLOCKED") && warnings[0].contains("--writers sole")
        );
        let open = Settings { listen: "0.0.0.0:1".parse().unwrap(), writers: Writers::Sole, ..minimal() };
        assert!(open.warnings().len() == 1 && open.warnings()[0].contains("--tokens"));
        assert!(Settings { writers: Writers::Sole, ..minimal() }.warnings().is_empty());
    }
}
