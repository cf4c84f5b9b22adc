//! Limits on connections, which may change while they are served, and how often each was used.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::settings::Settings;

/// The limits: numbers that are read without a lock.
#[derive(Debug)]
pub struct Rules {
    max_clients: AtomicU64,
    per_address: AtomicU64,
    idle_ms: AtomicU64,
    request_ms: AtomicU64,
    stall_ms: AtomicU64,
    output_bytes: AtomicU64,
    held_bytes: AtomicU64,
}

impl Rules {
    /// Those of the settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let rules = Self {
            max_clients: AtomicU64::new(0),
            per_address: AtomicU64::new(0),
            idle_ms: AtomicU64::new(0),
            request_ms: AtomicU64::new(0),
            stall_ms: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            held_bytes: AtomicU64::new(0),
        };
        rules.set(settings);
        rules
    }

    /// Changes them to those of the settings.
    pub fn set(&self, settings: &Settings) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        self.max_clients.store(settings.max_clients as u64, Relaxed);
        self.per_address.store(settings.max_clients_per_address as u64, Relaxed);
        self.idle_ms.store(millis(settings.idle_timeout), Relaxed);
        self.request_ms.store(millis(settings.request_deadline), Relaxed);
        self.stall_ms.store(millis(settings.output_stall), Relaxed);
        self.output_bytes.store(settings.output_limit as u64, Relaxed);
        self.held_bytes.store(settings.client_memory, Relaxed);
    }

    /// Writes them into settings.
    pub fn tell(&self, settings: &mut Settings) {
        settings.max_clients = self.max_clients();
        settings.max_clients_per_address = self.per_address.load(Relaxed) as usize;
        settings.idle_timeout = Duration::from_millis(self.idle_ms.load(Relaxed));
        settings.request_deadline = self.request_deadline();
        settings.output_stall = self.output_stall();
        settings.output_limit = self.output_limit();
        settings.client_memory = self.client_memory();
    }

    /// Connections at once.
    #[must_use]
    pub fn max_clients(&self) -> usize {
        self.max_clients.load(Relaxed) as usize
    }

    /// Connections at once from one address, if that is limited.
    #[must_use]
    pub fn max_per_address(&self) -> Option<usize> {
        Some(self.per_address.load(Relaxed) as usize).filter(|&most| most > 0)
    }

    /// After how long a connection on which nothing is asked is closed, if ever.
    #[inline]
    #[must_use]
    pub fn idle_timeout(&self) -> Option<Duration> {
        Some(self.idle_ms.load(Relaxed)).filter(|&millis| millis > 0).map(Duration::from_millis)
    }

    /// How long a short request may take to be whole.
    #[must_use]
    pub fn request_deadline(&self) -> Duration {
        Duration::from_millis(self.request_ms.load(Relaxed))
    }

    /// How long a client may take nothing of its replies, or too little of them.
    #[must_use]
    pub fn output_stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms.load(Relaxed))
    }

    /// Bytes that the replies of one client may take at once.
    #[must_use]
    pub fn output_limit(&self) -> usize {
        self.output_bytes.load(Relaxed) as usize
    }

    /// Bytes that all clients together may make the server hold.
    #[must_use]
    pub fn client_memory(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }
}

/// How many connections were ended by a limit.
#[derive(Debug, Default)]
pub struct Cuts {
    /// Nothing was asked.
    pub idle: AtomicU64,
    /// Nobody logged in, in time or before others wanted the room.
    pub guests: AtomicU64,
    /// A request was not whole in time.
    pub slow: AtomicU64,
    /// Replies were not taken.
    pub stalled: AtomicU64,
    /// It held most when clients held too much.
    pub memory: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub handshakes: AtomicU64,
}
