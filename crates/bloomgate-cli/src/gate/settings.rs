//! Every setting of `gate` by name: what its flag, its variable, its line in a file and the documentation agree on.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use bloomgate_gate::callers::Limit;
use bloomgate_gate::proxy::{Exception, Forwarding, KeyStatuses, Longer, NewKey, Rule};
use bloomgate_gate::service::http::webhook::Receiver;
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
    pub upstream: Option<String>,
    pub keys_from: Option<String>,
    pub query: Option<String>,
    pub key_column: Option<String>,
    pub pass: Vec<Exception>,
    pub new_key: NewKey,
    pub new_key_status: KeyStatuses,
    pub whole_body: u64,
    pub whole_memory: u64,
    pub longer_body: Longer,
    pub admin: SocketAddr,
    pub upstream_ca: Option<PathBuf>,
    pub upstream_host: Option<String>,
    pub forwarded: Forwarding,
    pub connect_time: Duration,
    pub answer_time: Duration,
    pub idle_time: Duration,
    pub outcome_header: bool,
    pub key_list: Option<String>,
    pub keys_as_listed: bool,
    pub key_type: String,
    pub source_header: Option<(String, String)>,
    pub source_deadline: Duration,
    pub source_ca: Option<PathBuf>,
    pub connections: usize,
    pub source_at_once: usize,
    pub source_waiting: usize,
    pub cache: String,
    pub cache_memory: u64,
    pub rows_for: Duration,
    pub negative_entries: usize,
    pub negative_ttl: Duration,
    pub filter: String,
    pub filter_name: Option<String>,
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
    pub alert_webhook: Option<Receiver>,
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
            upstream: None,
            keys_from: None,
            query: None,
            key_column: None,
            pass: Vec::new(),
            new_key: NewKey::default(),
            new_key_status: KeyStatuses::default(),
            whole_body: 1 << 20,
            whole_memory: 64 << 20,
            longer_body: Longer::default(),
            admin: SocketAddr::from(([127, 0, 0, 1], 8481)),
            upstream_ca: None,
            upstream_host: None,
            forwarded: Forwarding::default(),
            connect_time: Duration::from_secs(2),
            answer_time: Duration::from_secs(60),
            idle_time: Duration::from_secs(60),
            outcome_header: false,
            key_list: None,
            keys_as_listed: false,
            key_type: "text".to_owned(),
            source_header: None,
            source_deadline: Duration::from_secs(2),
            source_ca: None,
            connections: 16,
            source_at_once: 64,
            source_waiting: 4_096,
            cache: "local".to_owned(),
            cache_memory: 64_000_000,
            rows_for: Duration::from_secs(60),
            negative_entries: 1_000_000,
            negative_ttl: Duration::from_secs(60),
            filter: "local".to_owned(),
            filter_name: None,
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
            alert_webhook: None,
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
    "source" "URL" "" "where the rows are: `sqlite:FILE`, `postgres://USER@HOST/DATABASE`, or `http://HOST/PATH/{key}` (or `https://`)"
        |to, text| to.source = text.to_owned();
    "table" "NAME" "" "the table; for an HTTP source the name in the gate's own paths"
        |to, text| to.table = text.to_owned();
    "key" "COLUMN or RULE" "" "the column that rows are looked up by: unique, and compared byte by byte; not for HTTP sources. With `upstream`: where the key is in a request, `path:/products/{id}` or `query:/lookup?sku={id}`; several with spaces between them"
        |to, text| to.key = text.to_owned();
    "tenant" "COLUMN" "none" "the column that says whose a row is: each tenant gets its own filter, and paths name it before the key; unique together with the key"
        |to, text| to.tenant = Some(filled(text)?);
    "tenants-most" "N" "10000" "with --tenant: tenants there may be; each takes about 8 KB beside its bits"
        |to, text| to.tenants_most = within(text, 1, 1_000_000)?;
    "tenant-budget" "HOW" "strict" "with --tenant, when the filters of all do not fit into --filter-memory: `strict` keeps rates and leaves the largest out, `cost-first` loosens rates where it costs the source least"
        |to, text| to.tenant_budget = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "name" "NAME" "the table" "the table's name in paths"
        |to, text| to.name = Some(filled(text)?);
    "upstream" "URL" "none" "reverse proxy: what is behind it, `http://catalog:8080` or `https://`; then lookups of absent keys get 404 and everything else passes"
        |to, text| to.upstream = Some(filled(text)?);
    "keys-from" "WHERE" "none" "reverse proxy: where all keys are: a file or `http://` URL with one a line, `sqlite:FILE` or `postgres://…` (with `query`, or `table` and `key-column`); without it the proxy only watches"
        |to, text| to.keys_from = Some(filled(text)?);
    "query" "SQL" "none" "reverse proxy: the query that gives all keys of a database, in one column"
        |to, text| to.query = Some(filled(text)?);
    "key-column" "COLUMN" "none" "reverse proxy: the column of `table` that has the keys"
        |to, text| to.key_column = Some(filled(text)?);
    "pass" "PATH" "none" "reverse proxy: paths that are routes and no keys, though a rule finds a key there: `/products/search`, or `/products/admin/**` with everything below; several with spaces between them. Without it such a route gets 404"
        |to, text| to.pass = exceptions(text)?;
    "new-key" "WHERE" "location" "reverse proxy: where the answer to a write at `/products` tells the key that was made: `location`, `json:/id` (a pointer into its body), or `none` if such writes make no key"
        |to, text| to.new_key = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "new-key-status" "LIST" "2xx,3xx,5xx" "reverse proxy: the answers to such a write after which a key may be there, as `201`; others made none. Leave 5xx out only if a write that fails leaves no row behind"
        |to, text| to.new_key_status = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "whole-body" "SIZE" "1MiB" "reverse proxy: the body of such a write is read whole before any of it is passed on, up to this size, so that one which breaks off reaches nobody"
        |to, text| to.whole_body = number::size(text)?;
    "whole-memory" "SIZE" "64MiB" "reverse proxy: what these bodies may take together, beyond the first 64 KiB of each"
        |to, text| to.whole_memory = number::size(text)?;
    "longer-body" "HOW" "stream" "reverse proxy: a body of such a write that is longer, or for which there is no room: `stream` it as it comes, or `refuse` it (413 or 503)"
        |to, text| to.longer_body = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "admin" "ADDR" "127.0.0.1:8481" "reverse proxy: where the gate's own paths are (/stats, /metrics, /readyz and the others)"
        |to, text| to.admin = address(text)?;
    "upstream-ca" "FILE" "the system's" "reverse proxy to https: the authorities that the upstream is checked by, a PEM file"
        |to, text| to.upstream_ca = Some(PathBuf::from(filled(text)?));
    "upstream-host" "NAME" "the client's" "reverse proxy: the Host that is sent on"
        |to, text| to.upstream_host = Some(filled(text)?);
    "forwarded" "HOW" "append" "reverse proxy: how the upstream is told who asked: `append` to X-Forwarded-For, `replace` it, `standard` (Forwarded), or `keep` what came"
        |to, text| to.forwarded = text.parse().map_err(|error: bloomgate_gate::Error| error.to_string())?;
    "connect-time" "TIME" "2s" "reverse proxy: how long a connection to the upstream may take"
        |to, text| to.connect_time = number::period(text)?;
    "answer-time" "TIME" "60s" "reverse proxy: how long an answer may take to begin once the request was sent"
        |to, text| to.answer_time = number::period(text)?;
    "idle-time" "TIME" "60s" "reverse proxy: how long a body or a WebSocket may be silent"
        |to, text| to.idle_time = number::period(text)?;
    "outcome-header" "yes or no" "no" "reverse proxy: whether answers that passed say so, by bloomgate-outcome"
        |to, text| to.outcome_header = yes(text)?;
    "key-list" "FILE or URL" "none" "HTTP sources: where all keys are listed, one a line; without it the gate only watches"
        |to, text| to.key_list = Some(filled(text)?);
    "keys-as-listed" "yes or no" "no" "lists of keys: take keys as their lines are, also such with blanks at their ends or control characters; otherwise a list with one is refused"
        |to, text| to.keys_as_listed = yes(text)?;
    "key-type" "TYPE" "text" "HTTP sources, lists and queries to SQLite: the type of the keys: text, integer, decimal, uuid or bytes"
        |to, text| to.key_type = text.to_owned();
    "source-header" "NAME: VALUE" "none" "HTTP sources, and the questions that a proxy asks by itself: a header that goes with every request; by variable or file, never a flag"
        |to, text| to.source_header = Some(header(text)?);
    "source-deadline" "TIME" "2s" "HTTP sources: how long a request may take"
        |to, text| to.source_deadline = number::period(text)?;
    "source-ca" "FILE" "the system's" "HTTP sources over https: the authorities that they and their key list are checked by, a PEM file"
        |to, text| to.source_ca = Some(PathBuf::from(filled(text)?));
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
    "filter-name" "NAME" "by the source, the table and the key" "the filter's name at the server of `filter`, of letters, digits and `-_.:`; two gates that are told the same and share a server need a name each, or they take each other's filter away"
        |to, text| to.filter_name = Some(name(text)?);
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
    "alert-webhook" "URL" "none" "http:// or https:// URL that is told when an alert begins or ends, as Alertmanager would; with a token in it rather by variable or file"
        |to, text| to.alert_webhook = webhook(text)?;
    "max-clients" "N" "10000" "connections at once"
        |to, text| to.max_clients = within(text, 1, 1 << 20)?;
    "max-clients-per-address" "N" "1000" "connections at once from one address"
        |to, text| to.max_clients_per_address = within(text, 1, 1 << 20)?;
    "threads" "N" "one for each core" "threads that serve requests"
        |to, text| to.threads = within(text, 1, 1_024)?;
    "drain" "TIME" "10s" "how long requests under way may take to end when it stops"
        |to, text| to.drain = number::period(text)?;
}

/// Whether a source is an HTTP service.
pub fn is_http(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// Sets one setting. The error does not name it: who calls knows whether a flag, a variable or a file said so.
pub fn set(settings: &mut Settings, name: &str, text: &str) -> Result<(), String> {
    (told::find(TABLE, name)?.set)(settings, text)
}

impl Settings {
    /// Whether everything that is needed was said, and nothing that must not be.
    pub fn check(&self) -> Result<(), String> {
        if self.upstream.is_some() {
            return self.check_proxy();
        }
        for (name, said) in [
            ("--keys-from", self.keys_from.is_some()),
            ("--query", self.query.is_some()),
            ("--key-column", self.key_column.is_some()),
            ("--upstream-ca", self.upstream_ca.is_some()),
            ("--pass", !self.pass.is_empty()),
        ] {
            if said {
                return Err(format!("{name} is for a reverse proxy: say --upstream http://HOST:PORT, or leave it out"));
            }
        }
        let is_http = is_http(&self.source);
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
            for (name, said) in [
                ("--key-list", self.key_list.is_some()),
                ("--keys-as-listed", self.keys_as_listed),
                ("--source-header", self.source_header.is_some()),
                ("--source-ca", self.source_ca.is_some()),
            ] {
                if said {
                    return Err(format!("{name} is for sources that are HTTP services: a table lists its keys itself"));
                }
            }
        }
        self.check_tenants(is_http)?;
        self.check_shared()?;
        if self.client_adds.is_some() && !self.allow_writes {
            return Err("--client-adds means nothing without --allow-writes: nobody can add a row".into());
        }
        if self.unconfirmed == Unconfirmed::Allow && self.meaning != Meaning::Deny {
            return Err("--unconfirmed is for deny lists: say --meaning deny, or leave it out".into());
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
            return Ok(());
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

    /// What holds for a gate that answers itself and for a reverse proxy.
    fn check_shared(&self) -> Result<(), String> {
        self.check_tls()?;
        self.check_clients()?;
        if let Some((name, _)) = self.own.first().filter(|_| self.tenant.is_none()) {
            return Err(format!("the settings of the tenant {name:?} mean nothing without --tenant COLUMN"));
        }
        if self.filter_name.is_some() && self.filter == "local" {
            return Err(
                "--filter-name is for filters behind a server: say --filter redis://HOST, or leave it out".into()
            );
        }
        if self.open_reads && self.tokens.is_none() {
            return Err("--open-reads means nothing without --tokens: without tokens reads are open already".into());
        }
        Ok(())
    }

    fn check_clients(&self) -> Result<(), String> {
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
        Ok(())
    }

    fn check_tls(&self) -> Result<(), String> {
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => Err("--tls-cert needs --tls-key beside it: the file of the certificate's key".into()),
            (None, Some(_)) => Err("--tls-key needs --tls-cert beside it: the file of the certificate".into()),
            _ => Ok(()),
        }
    }

    /// The same for a reverse proxy.
    fn check_proxy(&self) -> Result<(), String> {
        self.rules()?;
        let of_database = self.keys_from.as_deref().is_some_and(is_database);
        for (name, said) in [
            ("--source", !self.source.is_empty()),
            ("--key-list", self.key_list.is_some()),
            ("--allow-writes", self.allow_writes),
        ] {
            if said {
                return Err(format!(
                    "{name} is for a gate that answers itself; a reverse proxy has --upstream and --keys-from"
                ));
            }
        }
        match (&self.keys_from, of_database, &self.query, &self.key_column) {
            (None, ..) if self.policy == Policy::Closed => {
                return Err(
                    "--policy closed answers nothing without a filter: say by --keys-from where all keys are".into()
                );
            }
            (_, false, Some(_), _) | (_, false, _, Some(_)) => {
                return Err(
                    "--query and --key-column are for keys from a database: --keys-from sqlite:FILE or postgres://…"
                        .into(),
                );
            }
            (_, true, Some(_), Some(_)) => {
                return Err("--query and --key-column say the same in two ways: leave one out".into());
            }
            (_, true, None, None) => {
                return Err(
                    "which keys of the database? Say --query 'SELECT sku FROM products', or --table with --key-column"
                        .into(),
                );
            }
            (_, true, None, Some(_)) if self.table.is_empty() => return Err("which table? Say --table NAME".into()),
            _ => {}
        }
        if self.source_ca.is_some() {
            return Err("--source-ca is for a gate that answers itself; a reverse proxy has --upstream-ca, which its list of keys is \
                        checked by too"
                .into());
        }
        self.check_shared()?;
        let ask = "let the proxy in front ask /check of a gate with --meaning deny (auth_request), or put the layer of the \
                   crate bloomgate-gate into the service";
        for (name, said, instead) in [
            ("--tenant", self.tenant.is_some(), "let the service ask a gate with --tenant, which has no --upstream"),
            ("--meaning deny", self.meaning == Meaning::Deny, ask),
            ("--unconfirmed", self.unconfirmed != Unconfirmed::default(), ask),
        ] {
            if said {
                return Err(format!(
                    "{name} is for a gate that answers itself: a reverse proxy stops absent keys; {instead}"
                ));
            }
        }
        if self.admin == self.listen && self.admin.port() != 0 {
            return Err(format!(
                "--admin and --listen are both {}: the gate's own paths need an address of their own",
                self.admin
            ));
        }
        Ok(())
    }

    /// Where the key is in a request.
    pub fn rules(&self) -> Result<Vec<Rule>, String> {
        let rules = self
            .key
            .split_whitespace()
            .map(|rule| rule.parse().map_err(|error: bloomgate_gate::Error| error.to_string()));
        let rules: Vec<Rule> = rules.collect::<Result<_, _>>()?;
        match rules.is_empty() {
            true => Err("where is the key in a request? Say --key 'path:/products/{id}'".into()),
            false => Ok(rules),
        }
    }

    /// Where the gate's own paths are.
    pub fn door(&self) -> SocketAddr {
        if self.upstream.is_some() { self.admin } else { self.listen }
    }

    /// Whether only this machine reaches them.
    pub fn is_local(&self) -> bool {
        self.door().ip().to_canonical().is_loopback()
    }

    /// Whether the filter may ever answer alone.
    fn may_block(&self) -> bool {
        let lists_keys = !is_http(&self.source) || self.key_list.is_some();
        lists_keys && self.writers != Writers::Unknown && self.policy != Policy::Shadow
    }

    /// What whoever starts it should know, though nothing is wrong.
    pub fn warnings(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.upstream.is_some() && self.keys_from.is_none() {
            all.push(
                "there is no --keys-from, so no filter can be built and NOTHING IS BLOCKED: everything passes to the upstream"
                    .to_owned(),
            );
        } else if self.meaning == Meaning::Deny && !self.may_block() {
            all.push(
                "the filter may not say no here (--writers, --policy, --key-list), so EVERY LOOKUP IS CONFIRMED AT THE SOURCE: \
                 nobody who is denied gets in, and nothing is kept away from the source. If every write passes this gate, start \
                 it with --writers sole"
                    .to_owned(),
            );
        } else if is_http(&self.source) && self.key_list.is_none() {
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
                self.door()
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

/// Whether keys come from a database.
pub fn is_database(keys_from: &str) -> bool {
    ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| keys_from.starts_with(scheme))
}

fn filled(text: &str) -> Result<String, String> {
    match text.is_empty() {
        true => Err("it is empty: leave it out".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// What a filter is called at its server.
fn name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    match !text.is_empty() && text.len() <= 200 && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("a name has from 1 to 200 letters, digits and -_.: in it".to_owned()),
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

fn webhook(text: &str) -> Result<Option<Receiver>, String> {
    match text {
        "none" => Ok(None),
        url => url.parse().map(Some).map_err(|error: bloomgate_gate::service::http::Error| error.to_string()),
    }
}

/// Paths that pass, with spaces between them.
fn exceptions(text: &str) -> Result<Vec<Exception>, String> {
    let parse = |one: &str| one.parse().map_err(|error: bloomgate_gate::Error| error.to_string());
    filled(text)?.split_whitespace().map(parse).collect()
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
            ("alert-webhook", "https://alerts.example/hook"),
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
            ("alert-webhook", "mailto:me@example.com", "neither http nor https"),
            ("filter-name", "", "from 1 to 200"),
            ("filter-name", "two words", "letters, digits"),
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
            (Settings { filter_name: Some("mine".into()), ..minimal() }, "--filter redis://HOST"),
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
    fn a_proxy_needs_an_upstream_a_rule_and_keys() {
        let said = |pairs: &[(&str, &str)]| {
            let mut settings = Settings::default();
            for (name, text) in pairs {
                set(&mut settings, name, text).unwrap();
            }
            settings.check()
        };
        let (upstream, key) =
            (("upstream", "http://catalog:8080"), ("key", "path:/products/{id} query:/find?sku={id}"));
        assert_eq!(said(&[upstream, key, ("keys-from", "keys.txt")]), Ok(()));
        assert_eq!(said(&[upstream, key]), Ok(()), "it only watches");
        let database = ("keys-from", "postgres://app@db/shop");
        assert_eq!(said(&[upstream, key, database, ("query", "SELECT sku FROM products")]), Ok(()));
        assert_eq!(said(&[upstream, key, database, ("table", "products"), ("key-column", "sku")]), Ok(()));
        let secured = ("upstream", "https://catalog");
        assert_eq!(said(&[secured, key, database, ("query", "SELECT 1")]), Ok(()));
        assert_eq!(said(&[secured, key, ("keys-from", "https://catalog/keys"), ("upstream-ca", "ca.pem")]), Ok(()));
        for (pairs, says) in [
            (&[upstream][..], "path:/products/{id}"),
            (&[upstream, ("key", "sku")], "no place of a key"),
            (&[upstream, key, ("source", "sqlite:shop.db")], "--keys-from"),
            (&[upstream, key, ("allow-writes", "yes")], "--allow-writes"),
            (&[upstream, key, ("keys-from", "keys.txt"), ("query", "SELECT 1")], "for keys from a database"),
            (&[upstream, key, database], "--query"),
            (&[upstream, key, database, ("key-column", "sku")], "which table"),
            (&[upstream, key, ("policy", "closed")], "--keys-from"),
            (&[secured, key, ("keys-from", "keys.txt"), ("source-ca", "ca.pem")], "has --upstream-ca"),
            (&[upstream, key, ("admin", "127.0.0.1:8480")], "address of their own"),
            (&[upstream, key, ("open-reads", "yes")], "without --tokens"),
            (&[upstream, key, ("filter-name", "mine")], "--filter redis://HOST"),
            (&[upstream, key, ("tenant", "shop")], "ask a gate with --tenant"),
            (&[upstream, key, ("meaning", "deny")], "auth_request"),
            (&[upstream, key, ("unconfirmed", "allow")], "--unconfirmed is for a gate that answers itself"),
            (&[("query", "SELECT 1")], "--upstream"),
        ] {
            let error = said(pairs).unwrap_err();
            assert!(error.contains(says), "{pairs:?}: {error}");
        }
        let own = vec![("acme".to_owned(), Own::default())];
        let proxy = Settings { upstream: Some("http://h".into()), key: "path:/p/{id}".into(), ..Settings::default() };
        assert_eq!(proxy.check(), Ok(()));
        assert!(Settings { own, ..proxy }.check().unwrap_err().contains("without --tenant"));
    }

    #[test]
    fn what_is_missing_is_asked_for_and_what_is_unsafe_is_told() {
        assert!(Settings::default().check().unwrap_err().contains("--source"));
        assert!(Settings { key: String::new(), ..minimal() }.check().unwrap_err().contains("--key"));
        assert!(Settings { table: String::new(), ..minimal() }.check().unwrap_err().contains("--table"));
        let told =
            Settings { source: "http://h/{key}".into(), key: String::new(), writers: Writers::Feed, ..minimal() };
        assert!(told.check().unwrap_err().contains("--writers feed"));
        let secured = Settings { source: "https://h/{key}".into(), source_ca: Some("ca.pem".into()), ..minimal() };
        assert!(secured.check().unwrap_err().contains("leave --key out"), "an HTTP source as any");
        assert_eq!(Settings { key: String::new(), ..secured.clone() }.check(), Ok(()));
        let table = Settings { source_ca: secured.source_ca, ..minimal() };
        assert!(table.check().unwrap_err().contains("--source-ca is for sources that are HTTP services"));
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
