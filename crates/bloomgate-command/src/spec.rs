//! One entry of the table: everything there is to know about a command.

use crate::arguments::Arguments;
use crate::options::{Takes, Word};
use crate::refusal::Refusal;
use crate::request::Request;

/// How many words a command has, its name included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arity {
    /// The fewest.
    pub least: u32,
    /// The most; `u32::MAX` where there is no end.
    pub most: u32,
}

impl Arity {
    /// Whether so many words are right.
    #[inline]
    #[must_use]
    pub const fn allows(self, words: usize) -> bool {
        words >= self.least as usize && words <= self.most as usize
    }

    /// As `COMMAND` says it: the number, or minus the least if there may be more.
    #[must_use]
    pub const fn signed(self) -> i64 {
        if self.least == self.most { self.least as i64 } else { -(self.least as i64) }
    }
}

/// How a command behaves, in Redis's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Redis's own words; `COMMAND` documents them.
pub enum Flag {
    Write,
    Readonly,
    Denyoom,
    Admin,
    Fast,
    Loading,
    Stale,
    NoAuth,
    NoMulti,
    Noscript,
    Blocking,
}

impl Flag {
    /// As `COMMAND` writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Flag::Write => "write",
            Flag::Readonly => "readonly",
            Flag::Denyoom => "denyoom",
            Flag::Admin => "admin",
            Flag::Fast => "fast",
            Flag::Loading => "loading",
            Flag::Stale => "stale",
            Flag::NoAuth => "no_auth",
            Flag::NoMulti => "no_multi",
            Flag::Noscript => "noscript",
            Flag::Blocking => "blocking",
        }
    }
}

/// The family of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// `BF.*`.
    Bloom,
    /// `CF.*`.
    Cuckoo,
    /// `BG.*`: ours.
    Bloomgate,
    /// Names, whatever they hold.
    Generic,
    /// The connection itself.
    Connection,
    /// The server.
    Server,
    /// `MULTI` and what belongs to it.
    Transactions,
}

impl Group {
    /// Every group, in the order of the documentation.
    pub const ALL: [Group; 7] = [
        Group::Bloom,
        Group::Cuckoo,
        Group::Bloomgate,
        Group::Generic,
        Group::Connection,
        Group::Transactions,
        Group::Server,
    ];

    /// As `COMMAND DOCS` writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Group::Bloom => "bf",
            Group::Cuckoo => "cf",
            Group::Bloomgate => "bg",
            Group::Generic => "generic",
            Group::Connection => "connection",
            Group::Server => "server",
            Group::Transactions => "transactions",
        }
    }

    /// Its heading in the documentation.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Group::Bloom => "Bloom filters (BF)",
            Group::Cuckoo => "Cuckoo filters (CF)",
            Group::Bloomgate => "Any filter (BG)",
            Group::Generic => "Names",
            Group::Connection => "Connection",
            Group::Server => "Server",
            Group::Transactions => "Transactions",
        }
    }
}

/// A right that a command needs, as `ACL CAT` lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Right {
    /// Asks a filter.
    Read,
    /// Changes a filter.
    Write,
    /// Takes items out of a filter: a right of its own, because a wrong removal makes a "no" wrong.
    Delete,
    /// `BF.*`.
    Bloom,
    /// `CF.*`.
    Cuckoo,
    /// `BG.*`.
    Bloomgate,
    /// Names: lists, renames, expires, deletes whole filters.
    Keyspace,
    /// The own connection.
    Connection,
    /// `MULTI` and what belongs to it.
    Transaction,
    /// The server as a whole.
    Admin,
    /// Touches more than one filter's worth of data or other clients.
    Dangerous,
    /// Takes a short time whatever the data.
    Fast,
    /// May take long.
    Slow,
}

impl Right {
    /// Every right.
    pub const ALL: [Right; 13] = [
        Right::Read,
        Right::Write,
        Right::Delete,
        Right::Bloom,
        Right::Cuckoo,
        Right::Bloomgate,
        Right::Keyspace,
        Right::Connection,
        Right::Transaction,
        Right::Admin,
        Right::Dangerous,
        Right::Fast,
        Right::Slow,
    ];

    /// The right of this name, with its `@` or without.
    #[must_use]
    pub fn find(name: &[u8]) -> Option<Self> {
        let name = name.strip_prefix(b"@").unwrap_or(name);
        Self::ALL.into_iter().find(|right| name.eq_ignore_ascii_case(&right.name().as_bytes()[1..]))
    }

    /// With its `@`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Right::Read => "@read",
            Right::Write => "@write",
            Right::Delete => "@delete",
            Right::Bloom => "@bloom",
            Right::Cuckoo => "@cuckoo",
            Right::Bloomgate => "@bloomgate",
            Right::Keyspace => "@keyspace",
            Right::Connection => "@connection",
            Right::Transaction => "@transaction",
            Right::Admin => "@admin",
            Right::Dangerous => "@dangerous",
            Right::Fast => "@fast",
            Right::Slow => "@slow",
        }
    }
}

/// A set of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rights(u16);

impl Rights {
    /// These and one more.
    #[must_use]
    pub const fn with(self, right: Right) -> Self {
        Self(self.0 | 1 << right as u8)
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn contains(self, right: Right) -> bool {
        self.0 >> right as u8 & 1 == 1
    }

    /// Them, one after the other.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        Right::ALL.into_iter().filter(move |&right| self.contains(right))
    }
}

/// Where the names of filters stand among the words, as `COMMAND` says it; all zero for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// The place of the first.
    pub first: i32,
    /// The place of the last; -1 is the last word.
    pub last: i32,
    /// From one to the next.
    pub step: i32,
}

/// The parser of a command.
pub type Parser = for<'a> fn(Arguments<'a>) -> Result<Request<'a>, Refusal>;

/// A command.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// In lower case; a subcommand with its container: `client|id`.
    pub name: &'static str,
    /// The family.
    pub group: Group,
    /// How many words.
    pub arity: Arity,
    /// How it behaves.
    pub flags: &'static [Flag],
    /// Where its names stand.
    pub keys: Keys,
    /// What one must be allowed.
    pub rights: Rights,
    /// One sentence.
    pub summary: &'static str,
    /// What follows the name.
    pub syntax: &'static str,
    /// What it costs.
    pub complexity: &'static str,
    /// The first version that has it.
    pub since: &'static str,
    /// How it deliberately differs from RedisBloom or Redis.
    pub differs: Option<&'static str>,
    /// A command and its reply.
    pub example: (&'static str, &'static str),
    /// Whether it may be long and runs off the reactors; [`Request::is_small`] can say otherwise.
    pub heavy: bool,
    /// Its option words.
    pub options: &'static [Word],
    /// The place of the first option.
    pub options_from: usize,
    /// Its subcommands, for a container.
    pub subcommands: &'static [Spec],
    pub(crate) parser: Parser,
}

/// Names are unique in the table.
impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Spec {
    /// A command that reads nothing and writes nothing, of the version 0.1.0; the rest is said by the setters.
    pub(crate) const fn new(name: &'static str, group: Group, least: u32, most: u32, parser: Parser) -> Self {
        let rights = match group {
            Group::Bloom => Rights(0).with(Right::Bloom),
            Group::Cuckoo => Rights(0).with(Right::Cuckoo),
            Group::Bloomgate => Rights(0).with(Right::Bloomgate),
            Group::Generic => Rights(0).with(Right::Keyspace),
            Group::Connection => Rights(0).with(Right::Connection),
            Group::Transactions => Rights(0).with(Right::Transaction),
            Group::Server => Rights(0),
        };
        let keys = match group {
            Group::Bloom | Group::Cuckoo | Group::Bloomgate => Keys { first: 1, last: 1, step: 1 },
            _ => Keys { first: 0, last: 0, step: 0 },
        };
        Self {
            name,
            group,
            arity: Arity { least, most },
            flags: &[],
            keys,
            rights,
            summary: "",
            syntax: "",
            complexity: "O(1)",
            since: "0.1.0",
            differs: None,
            example: ("", ""),
            heavy: false,
            options: &[],
            options_from: 0,
            subcommands: &[],
            parser,
        }
    }

    pub(crate) const fn flags(mut self, flags: &'static [Flag]) -> Self {
        self.flags = flags;
        let mut at = 0;
        let mut fast = false;
        while at < flags.len() {
            self.rights = match flags[at] {
                Flag::Write => self.rights.with(Right::Write),
                Flag::Readonly => self.rights.with(Right::Read),
                Flag::Admin => self.rights.with(Right::Admin).with(Right::Dangerous),
                _ => self.rights,
            };
            fast = fast || matches!(flags[at], Flag::Fast);
            at += 1;
        }
        self.rights = self.rights.with(if fast { Right::Fast } else { Right::Slow });
        self
    }

    pub(crate) const fn right(mut self, right: Right) -> Self {
        self.rights = self.rights.with(right);
        self
    }

    pub(crate) const fn keys(mut self, first: i32, last: i32, step: i32) -> Self {
        self.keys = Keys { first, last, step };
        self
    }

    pub(crate) const fn options(mut self, from: usize, options: &'static [Word]) -> Self {
        self.options_from = from;
        self.options = options;
        self
    }

    pub(crate) const fn says(mut self, syntax: &'static str, summary: &'static str) -> Self {
        self.syntax = syntax;
        self.summary = summary;
        self
    }

    pub(crate) const fn costs(mut self, complexity: &'static str) -> Self {
        self.complexity = complexity;
        self
    }

    pub(crate) const fn example(mut self, command: &'static str, reply: &'static str) -> Self {
        self.example = (command, reply);
        self
    }

    pub(crate) const fn differs(mut self, how: &'static str) -> Self {
        self.differs = Some(how);
        self
    }

    pub(crate) const fn heavy(mut self) -> Self {
        self.heavy = true;
        self
    }

    pub(crate) const fn subcommands(mut self, subcommands: &'static [Spec]) -> Self {
        self.subcommands = subcommands;
        self
    }

    /// Whether it behaves so.
    #[must_use]
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Its word: the part of the name after `|` for a subcommand.
    #[must_use]
    pub fn word(&self) -> &'static str {
        self.name.rsplit('|').next().unwrap_or(self.name)
    }

    /// The subcommand of this word.
    #[must_use]
    pub fn subcommand(&self, word: &[u8]) -> Option<&'static Spec> {
        self.subcommands.iter().find(|sub| word.eq_ignore_ascii_case(sub.word().as_bytes()))
    }

    /// Its option words for a message: `CAPACITY, ERROR, ITEMS`.
    #[must_use]
    pub fn option_words(&self) -> String {
        self.options.iter().map(|option| option.name).collect::<Vec<_>>().join(", ")
    }

    /// The name with its syntax, as documentation writes it: `BF.ADD key item`.
    #[must_use]
    pub fn usage(&self) -> String {
        let name = self.name.replace('|', " ").to_ascii_uppercase();
        if self.syntax.is_empty() { name } else { format!("{name} {}", self.syntax) }
    }

    /// The names of filters among the words of one command, those after option words included.
    pub fn names_in<'a>(&self, words: &'a [&'a [u8]]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.name_places(words).map(|at| words[at])
    }

    /// Where those names stand; the words were parsed before.
    pub fn name_places<'a>(&self, words: &'a [&'a [u8]]) -> impl Iterator<Item = usize> + use<'a> {
        let Keys { first, last, step } = self.keys;
        let end =
            if last < 0 { words.len().saturating_sub(last.unsigned_abs() as usize - 1) } else { last as usize + 1 };
        let start = if first > 0 { first as usize } else { words.len() };
        (start..end.min(words.len())).step_by(step.max(1) as usize).chain(self.places_after_options(words))
    }

    /// The names that follow option words such as `LIKE`.
    fn places_after_options<'a>(&self, words: &'a [&'a [u8]]) -> impl Iterator<Item = usize> + use<'a> {
        let options = self.options;
        let named = options.iter().any(|option| option.takes == Takes::Name);
        let mut at = if named { self.options_from } else { words.len() };
        std::iter::from_fn(move || {
            while let Some(word) = words.get(at) {
                let takes = options.iter().find(|option| word.eq_ignore_ascii_case(option.name.as_bytes()))?.takes;
                at += 1;
                match takes {
                    Takes::Nothing => {}
                    Takes::Rest => return None,
                    Takes::Value => at += 1,
                    Takes::Two => at += 2,
                    Takes::Name => {
                        at += 1;
                        return (at <= words.len()).then_some(at - 1);
                    }
                }
            }
            None
        })
    }
}
