//! What all conversations share besides the filters: who is there, what was counted, what was slow, and how to stop.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bloomgate_command::Refusal;
use tokio::sync::Notify;

use super::config::setting;
use super::ledger::Ledger;
use super::rules::{Cuts, Rules};
use super::tallies::Tallies;
use crate::access::directory::{denied, first_user};
use crate::access::{Directory, User};
use crate::engine::Engine;
use crate::engine::audit::Counts;
use crate::engine::namespaces::Owed;
use crate::logging::{Level, Log, Often, Value};
use crate::net::identity::Identity;
use crate::settings::Settings;
use crate::store::Spool;

/// One counter set per thread, on cache lines of its own.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Counters {
    commands: AtomicU64,
    lookups: AtomicU64,
    positives: AtomicU64,
    adds: AtomicU64,
    fresh: AtomicU64,
    refused: AtomicU64,
    removed: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// What was counted over all threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // Counters: their names say it.
pub struct Totals {
    pub commands: u64,
    pub lookups: u64,
    /// Of those, answered with "maybe".
    pub positives: u64,
    pub adds: u64,
    /// Of those, certainly new.
    pub fresh: u64,
    /// Of those, not taken.
    pub refused: u64,
    pub removed: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub connections: u64,
    pub rejected: u64,
}

/// Who a client is.
#[derive(Debug, Clone)]
pub struct Client(Arc<ClientState>);

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What is known about a client.
#[derive(Debug)]
pub struct ClientState {
    /// Its number: never given twice; 0 for those that come over HTTP.
    pub id: u64,
    /// Where it comes from.
    pub address: Option<SocketAddr>,
    /// Whether it has proven who it is by a certificate (`tls-client-ca`).
    has_certificate: bool,
    /// Whether it came over HTTP, for one request: a filter that is not there is an error to it, and not one without items.
    pub is_visitor: bool,
    /// When it came.
    pub since: Instant,
    /// What it says about itself.
    pub card: Mutex<Card>,
    killed: AtomicBool,
    /// What it owes for what others did for it, until its conversation takes it.
    owed: Mutex<Owed>,
    owes: AtomicBool,
    /// Wakes its connection when it is to end.
    pub ending: Notify,
    is_cut_off: AtomicBool,
    /// Wakes its connection when it is to end at once, in the middle of a reply.
    pub cutting: Notify,
}

/// What a client says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Card {
    /// CLIENT SETNAME.
    pub name: Vec<u8>,
    /// CLIENT SETINFO LIB-NAME.
    pub library: Vec<u8>,
    /// CLIENT SETINFO LIB-VER.
    pub version: Vec<u8>,
    /// The last command's name.
    pub last: &'static str,
    /// The protocol: 2 or 3.
    pub protocol: u8,
    /// Who it is logged in as; nobody before that.
    pub user: Option<Arc<User>>,
}

impl Client {
    fn new(id: u64, address: Option<SocketAddr>, has_certificate: bool, is_visitor: bool) -> Self {
        Self(Arc::new(ClientState {
            id,
            address,
            has_certificate,
            is_visitor,
            since: Instant::now(),
            card: Mutex::new(Card { protocol: if is_visitor { 3 } else { 2 }, ..Card::default() }),
            killed: AtomicBool::new(false),
            owed: Mutex::default(),
            owes: AtomicBool::new(false),
            ending: Notify::new(),
            is_cut_off: AtomicBool::new(false),
            cutting: Notify::new(),
        }))
    }
}

impl std::ops::Deref for Client {
    type Target = ClientState;
    fn deref(&self) -> &ClientState {
        &self.0
    }
}

impl ClientState {
    /// Where it comes from, as far as protected mode is concerned. With a certificate of ours it is as near as this machine
    /// while that is all there is to show; where there are users or a password, it is welcome and logs in as everybody does.
    #[must_use]
    pub fn comes_from(&self, access: &Directory) -> Option<SocketAddr> {
        self.address.filter(|_| !(self.has_certificate && access.has_nobody()))
    }

    /// Where it comes from, in words.
    #[must_use]
    pub fn from(&self) -> String {
        self.address.map_or_else(|| "nowhere".to_owned(), |address| address.to_string())
    }

    /// Ends its connection, after the turn it is in.
    pub fn end(&self) {
        self.killed.store(true, Ordering::Release);
        self.ending.notify_one();
    }

    /// Ends its connection at once: what it makes the server hold is needed for others.
    pub fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Release);
        self.cutting.notify_one();
        self.end();
    }

    /// Whether it was cut off.
    #[must_use]
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }

    /// A worker did something for it that has to be waited for.
    pub fn owe(&self, owed: Owed) {
        if owed.until_ns != 0 {
            self.owed.lock().unwrap_or_else(PoisonError::into_inner).add(owed);
            self.owes.store(true, Ordering::Release);
        }
    }

    /// What it owes for that.
    #[inline]
    pub fn take_owed(&self) -> Owed {
        if !self.owes.load(Ordering::Acquire) {
            return Owed::default();
        }
        self.owes.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.owed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it has not logged in.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.card().user.is_none()
    }

    /// Whether its connection is to end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// What it says about itself.
    pub fn card(&self) -> std::sync::MutexGuard<'_, Card> {
        self.card.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A command that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slow {
    /// Its number.
    pub id: u64,
    /// When it began, in seconds since 1970.
    pub at_s: u64,
    /// How long it took, in microseconds.
    pub micros: u64,
    /// The command, shortened.
    pub words: Vec<Vec<u8>>,
    /// Who gave it.
    pub address: String,
    /// What they call themselves.
    pub name: Vec<u8>,
}

/// Guests that have made room for others and are still on their way out.
const CUT_AT_ONCE: usize = 64;

/// The slow log keeps so many.
pub const SLOW_KEPT: usize = 128;
/// Of each command so many words, and of each word so many bytes.
const SLOW_WORDS: usize = 32;
const SLOW_BYTES: usize = 128;

/// A command for the slow log: shortened, and without what may be a password.
fn told(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let is = |name: &[u8]| words.first().is_some_and(|word| word.eq_ignore_ascii_case(name));
    let secret_from = if is(b"auth") { Some(1) } else { (is(b"hello") || is(b"acl")).then_some(2) };
    // The values of settings: one that cannot be set so may be a password all the same, and is told before it is refused.
    let are_settings = is(b"config") && words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"set"));
    let shown = secret_from.unwrap_or(SLOW_WORDS);
    let mut told: Vec<Vec<u8>> =
        words.iter().take(shown).map(|word| word[..word.len().min(SLOW_BYTES)].to_vec()).collect();
    if secret_from.is_some() && words.len() > shown {
        told.push(b"(redacted)".to_vec());
    }
    if are_settings {
        told.iter_mut().skip(3).step_by(2).for_each(|value| *value = b"(redacted)".to_vec());
    }
    told
}

/// What all conversations share.
#[derive(Debug)]
pub struct Desk {
    counters: Box<[Counters]>,
    /// Each command by itself.
    pub tallies: Tallies,
    clients: Mutex<Present>,
    next_client: AtomicU64,
    rejected: AtomicU64,
    slow: Mutex<VecDeque<Slow>>,
    next_slow: AtomicU64,
    /// Commands that take longer are noted, in microseconds; `u64::MAX` for none.
    pub slow_micros: AtomicU64,
    /// Who may do what.
    pub access: Directory,
    /// When the server started.
    pub started: Instant,
    /// A number for this run of the server: another one after every start.
    pub run_id: String,
    /// What is only known once the server listens, for CONFIG GET.
    pub settings: Vec<(&'static str, String)>,
    /// What the server was told at its start. What changed since is with whom it concerns.
    pub told: Settings,
    /// Limits on connections.
    pub rules: Rules,
    /// How often they were used.
    pub cuts: Cuts,
    /// What clients make the server hold.
    pub ledger: Ledger,
    /// The settings that CONFIG SET has changed; held while it does.
    pub changed: Mutex<BTreeSet<&'static str>>,
    /// Where events are told.
    pub log: Log,
    /// The certificate of TLS, if there is one.
    pub certificate: OnceLock<Arc<Identity>>,
    /// Snapshots and other work on the data folder; nobody while it is read, and where nothing is kept.
    pub keeper: OnceLock<Arc<dyn Keeper>>,
    /// Tells the server to stop.
    pub stop: Arc<Notify>,
}

/// Who is there.
#[derive(Debug, Default)]
struct Present {
    by_id: BTreeMap<u64, Client>,
    /// How many of each address that is counted.
    by_address: HashMap<IpAddr, usize>,
    /// Those that came without a login, in the order they came; some have logged in since, or gone.
    guests: VecDeque<Client>,
    /// The namespace of each that is bound to one, and how many each namespace has.
    bound: HashMap<u64, String>,
    by_space: HashMap<String, usize>,
}

/// A guest has so long to log in, however many come: one that has just come may not have been read from yet.
const LEAST_STAY: Duration = Duration::from_secs(1);

impl Present {
    /// The guest that has been there for longest and has not logged in.
    fn oldest_guest(&mut self) -> Option<Client> {
        while let Some(first) = self.guests.front() {
            if first.is_guest() && !first.is_killed() && self.by_id.contains_key(&first.id) {
                return self.guests.front().filter(|first| first.since.elapsed() >= LEAST_STAY).cloned();
            }
            self.guests.pop_front();
        }
        None
    }

    /// A client is bound to this namespace from now on, or to none.
    fn bind(&mut self, client: u64, space: Option<&str>) {
        if let Some(before) = self.bound.remove(&client)
            && let Some(count) = self.by_space.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                self.by_space.remove(&before);
            }
        }
        if let Some(space) = space {
            *self.by_space.entry(space.to_owned()).or_default() += 1;
            self.bound.insert(client, space.to_owned());
        }
    }
}

/// Whom the limit for one address counts together, and whose logins take one turn: an IPv4 address, or the 64 bits of an IPv6 one that a provider gives to
/// one customer. This machine's own are not counted: behind a proxy on it everybody has them.
pub(crate) fn neighbourhood(address: Option<SocketAddr>) -> Option<IpAddr> {
    let address = address?.ip().to_canonical();
    match address {
        _ if address.is_loopback() => None,
        IpAddr::V4(_) => Some(address),
        IpAddr::V6(address) => Some(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))),
    }
}

/// Whoever keeps the filters on disk.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// Makes a snapshot now and waits for it.
    fn save(&self) -> Result<(), String>;
    /// Makes a snapshot in the background; false if one is being made.
    fn save_in_background(&self) -> bool;
    /// When the last snapshot was complete, in seconds since 1970; 0 for never.
    fn last_save_s(&self) -> u64;
    /// Whether one is being made.
    fn is_saving(&self) -> bool;
    /// What went wrong with the last one.
    fn last_error(&self) -> Option<String>;
    /// Writes the image of a filter into the folder before it is installed; its file name. The file stays as long as that is
    /// held, and from then on as long as the filter needs it.
    fn write_image(&self, id: u64, filter: &bloomgate::AnyFilter) -> Result<Arc<str>, String>;
    /// A file without a name in the folder, for about so many bytes that somebody fetches.
    fn spool(&self, bytes: u64) -> Result<Spool, String>;
    /// Copies everything into a folder beside the data.
    fn backup(&self, folder: &str) -> Result<String, String>;
    /// Lines for INFO's section persistence.
    fn facts(&self) -> Vec<(&'static str, String)>;
}

impl Desk {
    /// A desk for so many threads; without a directory of users everybody may do everything.
    #[must_use]
    pub fn new(
        threads: usize,
        access: Option<Directory>,
        run_id: String,
        settings: Vec<(&'static str, String)>,
    ) -> Self {
        let told = Settings::default();
        Self {
            counters: (0..threads.max(1)).map(|_| Counters::default()).collect(),
            tallies: Tallies::new(threads),
            clients: Mutex::default(),
            next_client: AtomicU64::new(1),
            rejected: AtomicU64::new(0),
            slow: Mutex::default(),
            next_slow: AtomicU64::new(0),
            slow_micros: AtomicU64::new(10_000),
            access: access.unwrap_or_default(),
            started: Instant::now(),
            run_id,
            settings,
            rules: Rules::new(&told),
            told,
            cuts: Cuts::default(),
            ledger: Ledger::default(),
            changed: Mutex::default(),
            log: Log::silent(),
            certificate: OnceLock::new(),
            keeper: OnceLock::new(),
            stop: Arc::default(),
        }
    }

    /// The desk of a server that was told these settings and tells its events there.
    #[must_use]
    pub fn told(mut self, settings: &Settings, log: Log) -> Self {
        self.slow_micros = settings.slow_micros.into();
        self.rules = Rules::new(settings);
        self.told = settings.clone();
        self.log = log;
        self
    }

    /// Tells what a client did that others may want to know of: as which user, and from where.
    pub fn tell_of(&self, client: &Client, event: &str, what: fmt::Arguments<'_>, fields: &[(&str, Value<'_>)]) {
        if !self.log.tells(Level::Info) {
            return;
        }
        let (user, from) = (client.card().user.clone(), client.from());
        let user = user.as_ref().map_or("(none)", |user| &user.name);
        let mut all = vec![("user", user.into()), ("client", from.as_str().into())];
        all.extend(fields.iter().cloned());
        self.log.say(Level::Info, event, format_args!("{what} (by {user} at {from})"), &all);
    }

    /// SIGHUP: users and namespaces are read again, all of them or none, and what came of it is told.
    pub fn reload(&self, engine: &Engine) -> Result<(), String> {
        if self.access.path().is_none() {
            return Ok(());
        }
        let read = super::tenants::reload(engine, self);
        match &read {
            Ok(()) => {
                self.log.say(Level::Info, "reloaded", format_args!("users and namespaces were read again"), &[]);
            }
            Err(why) => self.log.say(
                Level::Error,
                "reload-failed",
                format_args!("users and namespaces stay as they were: {why}"),
                &[("why", why.as_str().into())],
            ),
        }
        read
    }

    /// A client comes, if there is room for it; if not, what it is told.
    pub fn admit(&self, address: SocketAddr, has_certificate: bool) -> Result<Client, String> {
        let refused = if !has_certificate && self.access.denies(address.ip()) {
            let port = |name| setting(self, name).and_then(|port| port.parse().ok()).filter(|&port: &u16| port > 0);
            Some(denied(&first_user(port("port"), port("tls-port"))))
        } else {
            let mut present = self.present();
            let from_there = neighbourhood(Some(address)).and_then(|from| present.by_address.get(&from).copied());
            let most_there = self.rules.max_per_address();
            match (self.rules.max_clients(), most_there) {
                (_, Some(most)) if from_there.unwrap_or(0) >= most => Some(format!(
                    "ERR max number of clients from one address reached ({most}): close some, or raise \
                     max-clients-per-address"
                )),
                // Whoever has not logged in keeps nobody out who wants to.
                (most, _) if present.by_id.len() >= most => match present.oldest_guest() {
                    Some(guest) if present.by_id.len() < most + CUT_AT_ONCE => {
                        drop(present);
                        guest.end();
                        self.note_cut(
                            &guest,
                            &self.cuts.guests,
                            "it had not logged in, and there was no room for others",
                        );
                        None
                    }
                    _ => Some("ERR max number of clients reached".to_owned()),
                },
                _ => None,
            }
        };
        let Some(why) = refused else { return Ok(self.welcome_as(Some(address), has_certificate)) };
        self.rejected.fetch_add(1, Ordering::Relaxed);
        self.log.often(
            Often::Refused,
            Level::Warn,
            "client-refused",
            format_args!("{address} was refused: {}", why.trim_start_matches("ERR ")),
            &[("client", address.to_string().into()), ("why", why.as_str().into())],
        );
        Err(why)
    }

    fn present(&self) -> std::sync::MutexGuard<'_, Present> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client comes, whoever is there.
    pub fn welcome(&self, address: Option<SocketAddr>) -> Client {
        self.welcome_as(address, false)
    }

    /// A client that comes over HTTP for one request. Nobody lists or counts it: its connection is counted by whoever has that.
    #[must_use]
    pub fn visitor(&self, address: SocketAddr, has_certificate: bool) -> Client {
        Client::new(0, Some(address), has_certificate, true)
    }

    fn welcome_as(&self, address: Option<SocketAddr>, has_certificate: bool) -> Client {
        let id = self.next_client.fetch_add(1, Ordering::Relaxed);
        let client = Client::new(id, address, has_certificate, false);
        let mut present = self.present();
        present.by_id.insert(id, client.clone());
        if let Some(from) = neighbourhood(address) {
            *present.by_address.entry(from).or_default() += 1;
        }
        // Where everybody is somebody at once, nobody is asked for room.
        if !self.access.is_open() {
            if present.guests.len() > 2 * present.by_id.len() + 64 {
                let there: std::collections::HashSet<u64> = present.by_id.keys().copied().collect();
                present.guests.retain(|guest| guest.is_guest() && there.contains(&guest.id));
            }
            present.guests.push_back(client.clone());
        }
        drop(present);
        client
    }

    /// A client makes the server hold so much from now on; false if it has to go for that. Others may have to.
    #[must_use]
    pub fn hold(&self, client: &Client, bytes: usize) -> bool {
        let most = self.rules.client_memory();
        let gone = self.ledger.hold(client, bytes as u64, most);
        for (one, held) in &gone {
            one.cut_off();
            let why = format!("it held {held} bytes, the most, when clients held more than {most} (client-memory)");
            self.note_cut(one, &self.cuts.memory, &why);
        }
        gone.iter().all(|(one, _)| one != client)
    }

    /// Counts and tells that a limit ends a connection.
    pub fn note_cut(&self, client: &Client, counter: &AtomicU64, why: &str) {
        counter.fetch_add(1, Ordering::Relaxed);
        let client = client.address.map(|address| address.to_string()).unwrap_or_default();
        self.log.often(
            Often::Cut,
            Level::Info,
            "client-cut",
            format_args!("{client} was closed: {why}"),
            &[("client", client.as_str().into()), ("why", why.into())],
        );
    }

    /// A client goes.
    pub fn goodbye(&self, client: &Client) {
        self.ledger.release(client);
        let mut present = self.present();
        if present.by_id.remove(&client.id).is_none() {
            return;
        }
        present.bind(client.id, None);
        if let Some(from) = neighbourhood(client.address)
            && let Some(count) = present.by_address.get_mut(&from)
        {
            *count -= 1;
            if *count == 0 {
                present.by_address.remove(&from);
            }
        }
    }

    /// A client logs in as somebody who is bound to this namespace, or to none. One namespace has at most half of all
    /// connections, so that others have the rest.
    pub fn bind(&self, client: &Client, space: Option<&str>) -> Result<(), Refusal> {
        let mut present = self.present();
        if !present.by_id.contains_key(&client.id) {
            // Over HTTP connections are counted elsewhere.
            return Ok(());
        }
        if let Some(space) = space.filter(|space| present.bound.get(&client.id).is_none_or(|bound| bound != space)) {
            let most = (self.rules.max_clients() / 2).max(1);
            if present.by_space.get(space).is_some_and(|&count| count >= most) {
                return Err(Refusal::err(format_args!(
                    "the namespace '{space}' has {most} connections, the most that one may have (half of max-clients): close some"
                )));
            }
        }
        present.bind(client.id, space);
        Ok(())
    }

    /// Ends the connections of users who were deleted or switched off.
    pub fn end_strangers(&self) {
        for client in self.clients() {
            let user = client.card().user.clone();
            if user.is_some_and(|user| self.access.renewed(&user).is_none()) {
                client.end();
            }
        }
    }

    /// A client could not be taken, without a word.
    pub fn reject(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// Everybody who is there, in the order they came.
    #[must_use]
    pub fn clients(&self) -> Vec<Client> {
        self.present().by_id.values().cloned().collect()
    }

    /// How many are there.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.present().by_id.len()
    }

    /// How many threads it was made for.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.counters.len()
    }

    /// Counts commands of a thread.
    #[inline]
    pub fn count_commands(&self, thread: usize, commands: u64) {
        self.counters[thread % self.counters.len()].commands.fetch_add(commands, Ordering::Relaxed);
    }

    /// Counts items of a thread.
    #[inline]
    pub fn count_items(&self, thread: usize, adds: bool, items: u64) {
        let counters = &self.counters[thread % self.counters.len()];
        let counter = if adds { &counters.adds } else { &counters.lookups };
        counter.fetch_add(items, Ordering::Relaxed);
    }

    /// Counts what a thread has answered since the last time.
    #[inline]
    pub fn count_answers(&self, thread: usize, answered: &mut Counts) {
        if *answered == Counts::default() {
            return;
        }
        let counters = &self.counters[thread % self.counters.len()];
        let Counts { positives, fresh, refused, removed, .. } = std::mem::take(answered);
        let all = [&counters.positives, &counters.fresh, &counters.refused, &counters.removed];
        for (counter, more) in all.into_iter().zip([positives, fresh, refused, removed]) {
            if more > 0 {
                counter.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// Counts bytes of a thread.
    #[inline]
    pub fn count_bytes(&self, thread: usize, bytes_in: u64, bytes_out: u64) {
        let counters = &self.counters[thread % self.counters.len()];
        counters.bytes_in.fetch_add(bytes_in, Ordering::Relaxed);
        counters.bytes_out.fetch_add(bytes_out, Ordering::Relaxed);
    }

    /// Everything that was counted.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            connections: self.next_client.load(Ordering::Relaxed) - 1,
            rejected: self.rejected.load(Ordering::Relaxed),
            ..Totals::default()
        };
        for counters in &self.counters {
            totals.commands += counters.commands.load(Ordering::Relaxed);
            totals.lookups += counters.lookups.load(Ordering::Relaxed);
            totals.positives += counters.positives.load(Ordering::Relaxed);
            totals.adds += counters.adds.load(Ordering::Relaxed);
            totals.fresh += counters.fresh.load(Ordering::Relaxed);
            totals.refused += counters.refused.load(Ordering::Relaxed);
            totals.removed += counters.removed.load(Ordering::Relaxed);
            totals.bytes_in += counters.bytes_in.load(Ordering::Relaxed);
            totals.bytes_out += counters.bytes_out.load(Ordering::Relaxed);
        }
        totals
    }

    /// CONFIG RESETSTAT.
    pub fn reset_counters(&self) {
        self.tallies.reset();
        self.access.notes.reset_counts();
        for counters in &self.counters {
            let Counters { commands, lookups, positives, adds, fresh, refused, removed, bytes_in, bytes_out } =
                counters;
            let all = [commands, lookups, positives, adds, fresh, refused, removed, bytes_in, bytes_out];
            all.iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
        }
    }

    /// A command is over; noted if it was slow.
    #[inline]
    pub fn note_slow(&self, took: Duration, words: &[&[u8]], client: &Client) {
        if took.as_micros() as u64 >= self.slow_micros.load(Ordering::Relaxed) {
            self.keep_slow(took, words, client);
        }
    }

    #[cold]
    fn keep_slow(&self, took: Duration, words: &[&[u8]], client: &Client) {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let slow = Slow {
            id: self.next_slow.fetch_add(1, Ordering::Relaxed),
            at_s: now.map_or(0, |since| since.as_secs()),
            micros: took.as_micros() as u64,
            words: told(words),
            address: client.address.map(|address| address.to_string()).unwrap_or_default(),
            name: client.card().name.clone(),
        };
        if self.log.tells(Level::Debug) {
            // The command alone: what it was about may be somebody's.
            let command = words.first().and_then(|word| bloomgate_command::find(word)).map_or("?", |spec| spec.name);
            self.log.often(
                Often::Slow,
                Level::Debug,
                "slow-command",
                format_args!("{command} of {} took {} us", slow.address, slow.micros),
                &[
                    ("command", command.into()),
                    ("client", slow.address.as_str().into()),
                    ("micros", slow.micros.into()),
                ],
            );
        }
        let mut all = self.slow.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_front(slow);
        all.truncate(SLOW_KEPT);
    }

    /// The commands that took long, newest first.
    #[must_use]
    pub fn slow(&self) -> Vec<Slow> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// SLOWLOG RESET.
    pub fn forget_slow(&self) {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_by_address_and_given_back() {
        let settings = Settings { max_clients: 5, max_clients_per_address: 2, ..Settings::default() };
        let desk = Desk::new(1, None, String::new(), Vec::new()).told(&settings, Log::silent());
        let admit = |from: &str| desk.admit(from.parse().unwrap(), true);
        let one = admit("192.0.2.1:1000").unwrap();
        let two = admit("[::ffff:192.0.2.1]:1001").unwrap();
        let why = admit("192.0.2.1:1002").unwrap_err();
        assert!(why.starts_with("ERR max number of clients from one address reached (2)"), "{why}");
        let three = admit("[2001:db8::1]:1").unwrap();
        let four = admit("[2001:db8::2:1]:1").unwrap();
        assert!(admit("[2001:db8::3]:1").is_err(), "one /64 is one address");
        desk.goodbye(&one);
        // Twice is once.
        desk.goodbye(&one);
        let again = admit("192.0.2.1:1003").unwrap();
        assert!(admit("192.0.2.1:1004").is_err());
        let five = admit("127.0.0.1:1").unwrap();
        assert_eq!(admit("192.0.2.9:1").unwrap_err(), "ERR max number of clients reached");
        assert_eq!(desk.totals().rejected, 4);
        desk.goodbye(&four);
        // This machine's own are not counted together.
        desk.rules.set(&Settings { max_clients: 100, ..settings.clone() });
        let own: Vec<Client> = (0..10).map(|port| admit(&format!("127.0.0.1:{port}")).unwrap()).collect();
        desk.rules.set(&Settings { max_clients: 100, max_clients_per_address: 0, ..settings });
        let many: Vec<Client> = (0..10).map(|port| admit(&format!("192.0.2.1:{port}")).unwrap()).collect();
        for client in [two, three, again, five].iter().chain(&own).chain(&many) {
            desk.goodbye(client);
        }
        let present = desk.present();
        assert!(present.by_id.is_empty() && present.by_address.is_empty());
    }
}
