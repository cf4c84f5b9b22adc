//! What the server says about itself on standard error: one line an event, as text or as JSON.
//!
//! Lines are written by a thread of their own: a terminal or a collector that takes nothing holds up no client. What does
//! not fit is counted and told later. What strangers can cause is told at most [`EACH_SECOND`] times a second of each sort.
//! Text from outside is escaped and cut to [`SHOWN`] bytes; keys of items and secrets are in no event.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::io::Write;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use bloomgate_http::moment::{now, rfc3339 as time};
use tokio::sync::broadcast;

/// How often a second events of one sort are told, of those that strangers can cause.
pub const EACH_SECOND: u64 = 5;
/// Bytes of a text from outside that are shown.
pub const SHOWN: usize = 128;
/// Lines that wait to be written; more are lost, and counted.
const WAITING: usize = 1_024;
/// Events that wait for one who listens.
const TAPPED: usize = 256;
/// How long the last lines may take to be written when the server ends.
const LAST_LINES: Duration = Duration::from_secs(1);

/// How long one who writes behind the log waits for the lines before.
const SETTLING: Duration = Duration::from_millis(200);

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Something does not work.
    Error,
    /// Something may not work for long, or for somebody.
    Warn,
    /// What happened.
    #[default]
    Info,
    /// For those who look for something.
    Debug,
}

impl Level {
    const ALL: [Self; 4] = [Self::Error, Self::Warn, Self::Info, Self::Debug];

    /// Its name as a setting.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| format!("'{text}' is no level; there are error, warn, info and debug"))
    }
}

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// An object a line, for machines.
    Json,
}

impl Format {
    /// Its name as a setting.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(format!("'{text}' is no format of logs; there are text and json")),
        }
    }
}

/// A field of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A text.
    Text(Cow<'a, str>),
    /// A whole number.
    Number(u64),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

/// Sorts of events that strangers can cause as often as they like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Often {
    /// A client was not taken.
    Refused,
    /// What a client sent is no request.
    Protocol,
    /// A TLS handshake failed.
    Handshake,
    /// A client was too slow.
    Cut,
    /// A command took long.
    Slow,
    /// A login failed.
    Login,
}

const SORTS: [&str; 6] =
    ["client-refused", "protocol-error", "tls-handshake-failed", "client-cut", "slow-command", "login-failed"];

/// How many of a sort were told in a second.
#[derive(Debug, Default)]
struct Quota {
    second: AtomicU64,
    told: AtomicU64,
    untold: AtomicU64,
}

impl Quota {
    /// Whether one more is told now.
    fn takes(&self, second: u64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.told.store(0, Ordering::Relaxed);
        }
        let takes = self.told.fetch_add(1, Ordering::Relaxed) < EACH_SECOND;
        if !takes {
            self.untold.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }
}

/// Where events go. Cheap to clone: all clones are one.
#[derive(Debug, Clone)]
pub struct Log(Arc<Shared>);

/// What the thread that writes is given.
#[derive(Debug)]
enum Put {
    Line(String),
    /// Somebody wants to know that what came before is written.
    Mark(SyncSender<()>),
}

#[derive(Debug)]
struct Shared {
    level: AtomicU8,
    format: Format,
    door: Mutex<Option<SyncSender<Put>>>,
    /// Told when the last line is written.
    written: Mutex<Option<Receiver<()>>>,
    lost: AtomicU64,
    quotas: [Quota; SORTS.len()],
    /// Whoever listens to events as they come, each an object of JSON.
    taps: broadcast::Sender<Arc<str>>,
}

impl Log {
    /// Nobody listens.
    #[must_use]
    pub fn silent() -> Self {
        Self::with(Format::Text, Level::Error, None, None)
    }

    /// Lines on standard error.
    pub fn start(format: Format, level: Level) -> std::io::Result<Self> {
        Self::to(format, level, std::io::stderr())
    }

    /// Lines into anything.
    pub fn to(format: Format, level: Level, mut writer: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (door, lines) = sync_channel(WAITING);
        let (tell, written) = sync_channel(1);
        std::thread::Builder::new().name("bloomgate-log".into()).spawn(move || {
            for put in lines {
                // Nobody who can read it, or who waits, is no reason to stop.
                let _ = match put {
                    Put::Line(line) => writer.write_all(line.as_bytes()).and_then(|()| writer.flush()).is_ok(),
                    Put::Mark(tell) => tell.try_send(()).is_ok(),
                };
            }
            let _ = tell.send(());
        })?;
        Ok(Self::with(format, level, Some(door), Some(written)))
    }

    fn with(format: Format, level: Level, door: Option<SyncSender<Put>>, written: Option<Receiver<()>>) -> Self {
        Self(Arc::new(Shared {
            level: AtomicU8::new(level as u8),
            format,
            door: Mutex::new(door),
            written: Mutex::new(written),
            lost: AtomicU64::new(0),
            quotas: Default::default(),
            taps: broadcast::Sender::new(TAPPED),
        }))
    }

    /// The least that is told.
    #[must_use]
    pub fn level(&self) -> Level {
        let level = self.0.level.load(Ordering::Relaxed);
        Level::ALL.into_iter().find(|known| *known as u8 == level).unwrap_or_default()
    }

    /// Tells more or less from now on.
    pub fn set_level(&self, level: Level) {
        self.0.level.store(level as u8, Ordering::Relaxed);
    }

    /// Whether events of a level are told.
    #[inline]
    #[must_use]
    pub fn tells(&self, level: Level) -> bool {
        level as u8 <= self.0.level.load(Ordering::Relaxed)
    }

    /// Tells an event: its name for machines, a sentence for people, and the fields of which the sentence is made.
    pub fn say(&self, level: Level, name: &str, message: fmt::Arguments<'_>, fields: &[(&str, Value<'_>)]) {
        if self.tells(level) {
            self.put(level, name, message, fields);
        }
    }

    /// Tells an event that strangers can cause, unless enough of its sort were told this second.
    pub fn often(
        &self,
        sort: Often,
        level: Level,
        name: &str,
        message: fmt::Arguments<'_>,
        fields: &[(&str, Value<'_>)],
    ) {
        if self.tells(level) && self.0.quotas[sort as usize].takes(now().as_secs()) {
            self.put(level, name, message, fields);
        }
    }

    /// Events from now on, each an object of JSON. Who does not keep up misses some.
    #[must_use]
    pub fn listen(&self) -> broadcast::Receiver<Arc<str>> {
        self.0.taps.subscribe()
    }

    fn put(&self, level: Level, name: &str, message: fmt::Arguments<'_>, fields: &[(&str, Value<'_>)]) {
        if self.0.taps.receiver_count() > 0 {
            // Nobody who listens any more is no error.
            let _ = self.0.taps.send(line(Format::Json, level, name, message, fields).into());
        }
        let line = line(self.0.format, level, name, message, fields);
        let door = self.0.door.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Err(TrySendError::Full(_))) = door.as_ref().map(|door| door.try_send(Put::Line(line))) {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Says how much was not told; once a second is enough.
    pub fn sum_up(&self) {
        for (sort, quota) in SORTS.iter().zip(&self.0.quotas) {
            let untold = quota.untold.swap(0, Ordering::Relaxed);
            if untold > 0 {
                let message = format_args!("{untold} more events {sort} were not told");
                let fields = [("sort", (*sort).into()), ("count", untold.into())];
                self.say(Level::Warn, "not-told", message, &fields);
            }
        }
        let lost = self.0.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let message = format_args!("{lost} lines were lost: standard error does not take them");
            self.say(Level::Warn, "lines-lost", message, &[("count", lost.into())]);
        }
    }

    /// Waits until what was told so far is written, not for long: for whoever writes to the same place.
    pub fn settle(&self) {
        let (tell, told) = sync_channel(1);
        let door = self.0.door.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if door.is_some_and(|door| door.try_send(Put::Mark(tell)).is_ok()) {
            let _ = told.recv_timeout(SETTLING);
        }
    }

    /// Waits until everything is written, not for ever. Nothing is told afterwards.
    pub fn close(&self) {
        self.sum_up();
        drop(self.0.door.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(written) = self.0.written.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = written.recv_timeout(LAST_LINES);
        }
    }
}

/// A text from outside as it may be shown.
#[must_use]
pub fn shown(text: &[u8]) -> String {
    let mut shown = text[..text.len().min(SHOWN)].escape_ascii().to_string();
    if text.len() > SHOWN {
        let _ = write!(shown, "... ({} bytes)", text.len());
    }
    shown
}

/// So many of something, for people: 1 filter, 12,000 filters.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} {noun}{}", if count == 1 { "" } else { "s" })
}

/// One event as a line, with its end.
#[must_use]
pub fn line(
    format: Format,
    level: Level,
    name: &str,
    message: fmt::Arguments<'_>,
    fields: &[(&str, Value<'_>)],
) -> String {
    let mut line = String::new();
    match format {
        Format::Text => {
            line.push_str(match level {
                Level::Error => "bloomgate: error: ",
                Level::Warn => "bloomgate: warning: ",
                Level::Info | Level::Debug => "bloomgate: ",
            });
            // One event is one line, and moves no cursor.
            for letter in message.to_string().chars() {
                match letter.is_control() {
                    true => line.extend(letter.escape_default()),
                    false => line.push(letter),
                }
            }
        }
        Format::Json => {
            let _ = write!(line, r#"{{"time":"{}","level":"{}""#, time(now()), level.name());
            let texts = [("event", Value::from(name)), ("message", message.to_string().into())];
            for (name, value) in texts.iter().chain(fields) {
                let _ = write!(line, r#","{name}":"#);
                match value {
                    Value::Text(text) => quote(&mut line, text),
                    Value::Number(number) => _ = write!(line, "{number}"),
                }
            }
            line.push('}');
        }
    }
    line.push('\n');
    line
}

/// A text of JSON.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => line.extend(['\\', letter]),
            _ if letter.is_control() => _ = write!(line, "\\u{:04x}", u32::from(letter)),
            _ => line.push(letter),
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Collects what is written.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn read(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn a_line_is_one_line_whatever_it_says() {
        let evil = "a\"b\\c\r\nbloomgate: error: forged\u{1b}[2J";
        let text = line(Format::Text, Level::Warn, "x", format_args!("got {evil}"), &[]);
        assert_eq!(text, "bloomgate: warning: got a\"b\\c\\r\\nbloomgate: error: forged\\u{1b}[2J\n");
        let json = line(
            Format::Json,
            Level::Info,
            "x",
            format_args!("got {evil}"),
            &[("why", evil.into()), ("count", 3u64.into())],
        );
        assert_eq!(json.matches('\n').count(), 1);
        let rest = json.split_once(r#","level""#).unwrap().1;
        let quoted = r#"a\"b\\c\u000d\u000abloomgate: error: forged\u001b[2J"#;
        assert_eq!(
            rest,
            format!(":\"info\",\"event\":\"x\",\"message\":\"got {quoted}\",\"why\":\"{quoted}\",\"count\":3}}\n")
        );
        assert_eq!(shown(b"\x00\xff'\n"), "\\x00\\xff\\'\\n");
        assert_eq!(shown(&[b'x'; 200]), format!("{}... (200 bytes)", "x".repeat(128)));
    }

    #[test]
    fn levels_leave_out_and_floods_are_summed_up() {
        let paper = Paper::default();
        let log = Log::to(Format::Text, Level::Warn, paper.clone()).unwrap();
        log.say(Level::Info, "a", format_args!("quiet"), &[]);
        log.set_level(Level::Info);
        assert_eq!(log.level(), Level::Info);
        log.say(Level::Info, "a", format_args!("loud"), &[]);
        for number in 0..100 {
            log.often(Often::Protocol, Level::Warn, "protocol-error", format_args!("number {number}"), &[]);
        }
        log.close();
        log.say(Level::Error, "a", format_args!("too late"), &[]);
        let read = paper.read();
        assert!(read.starts_with("bloomgate: loud\nbloomgate: warning: number 0\n"), "{read}");
        // A second may end in between.
        let told = read.matches("warning: number").count() as u64;
        assert!((EACH_SECOND..=2 * EACH_SECOND).contains(&told), "{read}");
        assert!(read.ends_with(&format!("{} more events protocol-error were not told\n", 100 - told)), "{read}");
    }

    #[test]
    fn one_who_takes_no_lines_holds_up_nobody() {
        /// Takes nothing until it is let go.
        struct Stuck(Receiver<()>);
        impl Write for Stuck {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                let _ = self.0.recv();
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (let_go, held) = sync_channel(0);
        let log = Log::to(Format::Text, Level::Info, Stuck(held)).unwrap();
        for number in 0..2 * WAITING {
            log.say(Level::Info, "a", format_args!("{number}"), &[]);
        }
        assert!(log.0.lost.load(Ordering::Relaxed) >= WAITING as u64 - 1);
        // Nor one who wants to write behind them: there is no place, or it takes too long.
        let begun = std::time::Instant::now();
        log.settle();
        let_go.send(()).unwrap();
        log.settle();
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        drop(let_go);
    }

    #[test]
    fn who_writes_behind_the_log_finds_everything_written() {
        let paper = Paper::default();
        let log = Log::to(Format::Text, Level::Info, paper.clone()).unwrap();
        for number in 0..100 {
            log.say(Level::Info, "a", format_args!("line {number}"), &[]);
            log.settle();
            assert!(paper.read().ends_with(&format!("line {number}\n")), "{}", paper.read());
        }
        log.close();
        log.settle();
    }
}
