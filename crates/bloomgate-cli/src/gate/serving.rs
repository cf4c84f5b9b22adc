//! Starting, serving and stopping a gate, and telling whoever started it what goes on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bloomgate_gate::proxy::Proxy;
use bloomgate_gate::service::http;
use bloomgate_gate::service::http::webhook::{Origin, Patience, Webhook};
use bloomgate_gate::service::{self, GateService};
use bloomgate_gate::tenants::Tenants;
use bloomgate_gate::{Event, Gate, Meaning, Policy};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::parts::{self, Unopened};
use super::settings::Settings;
use super::telling::Telling;
use super::tenants;
use crate::failure::{DONE, Failure, Outcome};
use crate::number::{counted, duration};
use crate::screen;

/// How long the source may take to be reached before the gate listens without it, and then at each further try.
const REACH: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(30));
/// Between two tries: first one second, then twice as long each time, at most thirty.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

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
    let proxy = parts::proxy(settings)?;
    let admin = match &proxy {
        None => None,
        Some(_) => Some(TcpListener::bind(settings.admin).await.map_err(|error| {
            Failure::Message(format!("cannot listen on {}: {error}; --admin names another address", settings.admin))
        })?),
    };
    let failed = |error: std::io::Error| Failure::Message(format!("no signals: {error}"));
    let mut term = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let telling = Telling::begin(quiet).map_err(|error| Failure::Message(format!("no thread: {error}")))?;
    let url = format!("{}://{}", if http.tls.is_some() { "https" } else { "http" }, reachable(address));
    let service = GateService::waiting(options.clone(), http.traffic.clone());
    // Where the gate's own paths are, its pages among them. On this machine alone they need no certificate, which names
    // none of this machine's addresses; elsewhere their tokens are sent as safely as everything else.
    let (own_address, own_tls) = match &admin {
        None => (address, http.tls.clone()),
        Some(admin) => (admin.local_addr().map_err(bound)?, http.tls.clone().filter(|_| !settings.is_local())),
    };
    let webhook = settings.alert_webhook.as_ref().map(|to| {
        let origin = Origin::here("bloomgate-gate", address).with_pages(own_tls.is_some(), own_address);
        Webhook::start(to, origin, Patience::default(), |why| screen::note(why))
    });
    let webhook = webhook.transpose().map_err(|error| Failure::Message(format!("alert-webhook: {error}")))?;
    if !quiet {
        settings.warnings().iter().for_each(screen::note);
    }
    let own = format!("{}://{}", if own_tls.is_some() { "https" } else { "http" }, reachable(own_address));
    if let Some(proxy) = proxy.clone() {
        service.also_collect(move |scrape| proxy.collect(scrape));
    }
    let opening = Opening {
        settings,
        options: &options,
        service: &service,
        proxy: proxy.as_ref(),
        telling: &telling,
        url: &url,
        own: &own,
        quiet,
    };
    let unreached = match opening.try_to(REACH.0).await {
        Ok(opened) => {
            opening.open(opened);
            None
        }
        Err(Unopened::Wrong(failure)) => return Err(failure),
        Err(Unopened::Unreachable(why)) => Some(why),
    };
    if let Some(why) = &unreached {
        if !quiet {
            screen::tell(format_args!("bloomgate: gate listens on {url}, and waits for its source"));
        }
        let again = format!("tried again after 1 s, 2 s, ... {}", duration(PAUSES.1));
        let meanwhile = match proxy {
            Some(_) => "lookups pass, and writes are refused with 503 until it is there",
            None => "lookups are refused with 503 until it is there",
        };
        screen::complain(format!("{why}; {meanwhile} ({again})"));
        service.waits_for(why);
    }
    notify_system("READY=1");
    let ended = tokio::sync::Notify::new();
    let stopping = async {
        ended.notified().await;
        notify_system("STOPPING=1");
    };
    let serving = async {
        match (&proxy, admin) {
            (Some(proxy), Some(admin)) => {
                // The gate's own paths are there until the last request has passed.
                let passed = tokio::sync::Notify::new();
                let own = http::Options { tls: own_tls, traffic: Default::default(), ..http.clone() };
                let answering = service.clone();
                let beside =
                    http::serve_each(admin, move |peer| answering.of(peer.address.ip()), own, passed.notified());
                let passing = async {
                    let served = proxy.serve(listener, http, stopping).await;
                    passed.notify_one();
                    served
                };
                tokio::join!(passing, beside).0
            }
            _ => {
                let answering = service.clone();
                http::serve_each(listener, move |peer| answering.of(peer.address.ip()), http, stopping).await
            }
        }
    };
    let stopped = async {
        let asked = async {
            tokio::select! {
                _ = term.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        // What is wrong with the settings is known only once the source answers.
        let outcome = tokio::select! {
            () = asked => Ok(()),
            failure = opening.reach(unreached.is_some()) => Err(failure),
        };
        if !quiet {
            let drain = duration(settings.drain);
            screen::tell(format_args!("bloomgate: stopping; requests under way have {drain} to end"));
        }
        ended.notify_one();
        outcome
    };
    let served_and_stopped = async { tokio::join!(serving, stopped) };
    let (served, outcome) = tokio::select! {
        ended = served_and_stopped => ended,
        never = service.watch_alerts(webhook) => match never {},
    };
    if let Some(gate) = service.gate() {
        gate.stop().await;
    }
    if let Some(tenants) = service.tenants() {
        tenants.stop().await;
    }
    if served.cut > 0 {
        screen::note(format!("{} did not end in time and were cut off", counted(served.cut as u64, "connection")));
    }
    telling.end();
    if !quiet && outcome.is_ok() {
        screen::tell("bloomgate: stopped");
    }
    outcome.map(|()| DONE)
}

/// What it takes to open the gate, now or later.
struct Opening<'a> {
    settings: &'a Settings,
    options: &'a service::Options,
    service: &'a GateService,
    proxy: Option<&'a Proxy>,
    telling: &'a Telling,
    url: &'a str,
    /// Where the gate's own paths are.
    own: &'a str,
    quiet: bool,
}

/// What was opened: one gate, or those of many tenants.
enum Opened {
    One(Gate),
    Many(Tenants),
}

impl Opening<'_> {
    /// Makes the gate, if its source is there within this time.
    async fn try_to(&self, patience: Duration) -> Result<Opened, Unopened> {
        let (settings, listener) = (self.settings, self.telling.listener());
        match &settings.tenant {
            None => {
                let source = parts::source(settings, patience).await?;
                Ok(Opened::One(parts::gate(settings, source, listener).await?))
            }
            Some(column) => {
                let table = tenants::table(settings, column, patience).await?;
                Ok(Opened::Many(tenants::gates(settings, table, listener).await?))
            }
        }
    }

    /// Opens the gate.
    fn open(&self, opened: Opened) {
        match opened {
            Opened::One(gate) => {
                if !self.quiet {
                    tell(&gate, self);
                }
                if let Some(proxy) = self.proxy {
                    proxy.open(gate.clone());
                }
                gate.start();
                self.service.open(gate);
            }
            Opened::Many(tenants) => {
                if !self.quiet {
                    tenants::tell(&tenants, self.settings, self.options, self.url);
                }
                self.service.open_tenants(tenants.clone());
                tenants.start();
            }
        }
    }

    /// Tries to reach the source until it is there, if it is not yet. Ends only with a mistake that no further try mends.
    async fn reach(&self, mut is_missing: bool) -> Failure {
        let mut pause = PAUSES.0;
        while is_missing {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
            match self.try_to(REACH.1).await {
                Err(Unopened::Unreachable(why)) => self.service.waits_for(why),
                Err(Unopened::Wrong(failure)) => return failure,
                Ok(opened) => {
                    (self.telling.listener())(Event::Regained { part: bloomgate_gate::Part::Source });
                    self.open(opened);
                    is_missing = false;
                }
            }
        }
        std::future::pending().await
    }
}

/// An address that a client on this machine can ask: what listens everywhere listens here too.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Where it listens, what is behind it, and three commands to try.
fn tell(gate: &Gate, opening: &Opening<'_>) {
    let Opening { settings, options, url, own, .. } = opening;
    let stats = gate.stats();
    screen::tell(format_args!("bloomgate: gate ready on {url}"));
    match &settings.upstream {
        Some(upstream) => {
            screen::tell(format_args!("  passes  to {upstream}; the gate's own paths are on {own}"));
            screen::tell(format_args!("  keys    {}, from {}", settings.key, stats.source));
            let routes = match settings.pass.is_empty() {
                true => {
                    "a route that looks like a key gets 404 like an absent one: name such routes by --pass".to_owned()
                }
                false => {
                    let routes: Vec<String> = settings.pass.iter().map(ToString::to_string).collect();
                    format!("{} pass", routes.join(" "))
                }
            };
            screen::tell(format_args!("  routes  {routes}"));
        }
        None => {
            screen::tell(format_args!(
                "  source  {}, cache {}",
                stats.source,
                stats.cache.as_deref().unwrap_or("none")
            ));
        }
    }
    let meanwhile = match settings.policy {
        Policy::Closed => "lookups are refused with 503 (policy closed)",
        _ => "lookups go on to the source",
    };
    let filter = match &stats.filter {
        _ if !stats.lists_keys => "none, for the source has no list of its keys: it only watches".to_owned(),
        Some(filter) => format!(
            "{}, version {} with {} from the last run; it may say no when it is built anew{}",
            stats.state,
            filter.version,
            counted(filter.scanned, "key"),
            if stats.feed.is_some() { ", or has caught up with the feed" } else { "" }
        ),
        None => format!("is being built; until then {meanwhile}"),
    };
    screen::tell(format_args!("  filter  {filter}"));
    let writes = match (&settings.upstream, options.writes) {
        (Some(_), _) => "writes pass, and the filter takes their keys",
        (None, true) => "PUT and DELETE are allowed",
        (None, false) => "PUT and DELETE are not there",
    };
    screen::tell(format_args!("  policy  {}, writers {}; {writes}", settings.policy, settings.writers));
    if settings.meaning == Meaning::Deny {
        let unconfirmed = settings.unconfirmed;
        screen::tell(format_args!("  meaning deny: 204 allowed, 403 denied; what cannot be confirmed: {unconfirmed}"));
    }
    let secured =
        if options.tokens.is_some() && !options.open_reads { " -H 'Authorization: Bearer TOKEN'" } else { "" };
    let table = &options.table;
    match settings.rules() {
        Ok(rules) if settings.upstream.is_some() => {
            let path = rules.first().map(|rule| rule.template().replace("{key}", "KEY")).unwrap_or_default();
            screen::tell(format_args!("  try     curl -i {url}{path}"));
        }
        _ => screen::tell(format_args!("  try     curl -i{secured} {url}/v1/{table}/KEY")),
    }
    screen::tell(format_args!("          curl{secured} {own}/explain/KEY"));
    screen::tell(format_args!("          curl{secured} {own}/stats"));
    screen::tell(format_args!("  watch   {own}/ in a browser"));
}

/// Tells systemd, if it started us.
fn notify_system(state: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    if let Ok(socket) = std::os::unix::net::UnixDatagram::unbound() {
        // Nobody to tell is no reason to stop.
        let _ = socket.send_to(state.as_bytes(), path);
    }
}
