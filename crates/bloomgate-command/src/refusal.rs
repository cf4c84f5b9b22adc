//! A refusal: the one line of an error reply, as RedisBloom or Redis would say it.
//!
//! Clients compare these lines, so they are kept byte for byte: some have the code `ERR`, some another (`WRONGTYPE`),
//! some of RedisBloom's have none (`Bad capacity`). The ones that only the engine can find out about are here too, so
//! that every text stands in one crate.

use std::borrow::Cow;
use std::fmt;

/// The whole line of an error reply, without the leading `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(Cow<'static, str>);

/// The texts that need no argument, each as a constant.
macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        impl Refusal {
            $($(#[$doc])* #[doc = concat!("\n\n`", $text, "`")] pub const $name: Refusal = Refusal(Cow::Borrowed($text));)*

            /// Every constant text with its name, for tests and documentation.
            pub const TEXTS: &'static [(&'static str, &'static str)] = &[$((stringify!($name), $text)),*];
        }
    };
}

texts! {
    /// The key holds a filter of the other family.
    WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value";
    /// There is no such filter.
    NOT_FOUND = "ERR not found";
    /// There is such a filter already.
    ITEM_EXISTS = "ERR item exists";
    /// There would be memory, if filters that were deleted were not being read.
    MEMORY_IN_USE = "ERR the memory of deleted filters is still being read from: try again in a moment";
    /// A word where none or another should be.
    SYNTAX = "ERR syntax error";
    /// Not an integer of 64 bits.
    NOT_INTEGER = "ERR value is not an integer or out of range";
    /// Not a floating-point number.
    NOT_FLOAT = "ERR value is not a valid float";
    /// `RENAME` of a name that is not there.
    NO_SUCH_KEY = "ERR no such key";
    /// `SELECT` of another database than 0.
    DB_INDEX = "ERR DB index is out of range";
    /// `SCAN` with a cursor that is no number.
    INVALID_CURSOR = "ERR invalid cursor";
    /// `HELLO` with another version than 2 or 3.
    NO_PROTO = "NOPROTO unsupported protocol version";
    /// `HELLO x`.
    PROTO_NOT_INTEGER = "ERR Protocol version is not an integer or out of range";
    /// A command before `AUTH`.
    NO_AUTH = "NOAUTH Authentication required.";
    /// `AUTH` with a wrong name or password.
    WRONG_PASS = "WRONGPASS invalid username-password pair or user is disabled.";
    /// `AUTH password` where there is none.
    AUTH_NO_PASSWORD = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
    /// `MULTI` within `MULTI`.
    NESTED_MULTI = "ERR MULTI calls can not be nested";
    /// `EXEC` without `MULTI`.
    EXEC_WITHOUT_MULTI = "ERR EXEC without MULTI";
    /// `DISCARD` without `MULTI`.
    DISCARD_WITHOUT_MULTI = "ERR DISCARD without MULTI";
    /// `WATCH` within `MULTI`.
    WATCH_IN_MULTI = "ERR WATCH inside MULTI is not allowed";
    /// `EXEC` after a command was refused while it was queued.
    EXEC_ABORT = "EXECABORT Transaction discarded because of previous errors.";
    /// The data is not loaded yet.
    LOADING = "LOADING Bloomgate is loading its filters into memory";
    /// The memory budget is spent.
    OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'.";
    /// `COPY` onto itself.
    SAME_OBJECT = "ERR source and destination objects are the same";
    /// `BGSAVE` while one runs.
    SAVE_RUNNING = "ERR Background save already in progress";
    /// `CLIENT KILL` of nobody.
    NO_SUCH_CLIENT = "ERR No such client";

    /// A full filter that must not grow (`BF.*`).
    FULL_NONSCALING = "ERR non scaling filter is full";
    /// No memory while adding (`BF.*`).
    INSERT_PROBLEM = "ERR problem inserting into filter";
    /// `BF.RESERVE` of more than there is room for.
    NO_MEMORY_TO_CREATE = "ERR Insufficient memory to create filter";
    /// `BF.RESERVE` failed otherwise.
    BF_NOT_CREATED = "ERR could not create filter";
    /// `CF.RESERVE` failed otherwise.
    CF_NOT_CREATED = "ERR Could not create filter";
    /// A header or chunk that is not what was dumped (`BF.LOADCHUNK`).
    BAD_DATA = "ERR received bad data";
    /// `BF.LOADCHUNK` past the end.
    NO_LINK = "ERR invalid offset - no link found";
    /// `BF.LOADCHUNK` with a chunk that is too long.
    CHUNK_TOO_BIG = "ERR invalid chunk - Too big for current filter";
    /// `BF.INFO` with an unknown field.
    INVALID_INFORMATION = "Invalid information value";
    /// `BF.RESERVE` with a rate that is no number.
    ERR_BAD_RATE = "ERR bad error rate";
    /// `BF.RESERVE` with a rate out of range.
    RATE_RANGE = "ERR error rate must be in the range (0.000000, 1.000000)";
    /// `BF.RESERVE` with a capacity that is no number.
    ERR_BAD_CAPACITY = "ERR bad capacity";
    /// `BF.RESERVE` with a capacity out of range.
    CAPACITY_RANGE = "ERR capacity must be in the range [1, 1073741824]";
    /// `BF.RESERVE … EXPANSION` without its number.
    NO_EXPANSION = "ERR no expansion";
    /// `BF.RESERVE` with an expansion that is no number.
    ERR_BAD_EXPANSION = "ERR bad expansion";
    /// `BF.RESERVE` with an expansion out of range.
    EXPANSION_RANGE = "ERR expansion must be in the range [0, 32768]";
    /// `BF.RESERVE` with both words.
    NONSCALING_EXPANSION = "Nonscaling filters cannot expand";
    /// `BF.INSERT` with a bad rate.
    BAD_RATE = "Bad error rate";
    /// `BF.INSERT`, `CF.RESERVE`, `CF.INSERT` with a bad capacity.
    BAD_CAPACITY = "Bad capacity";
    /// `BF.INSERT` with a bad expansion.
    BAD_EXPANSION = "Bad expansion";
    /// `BF.INSERT`, `CF.INSERT` with a word that is no option.
    UNKNOWN_ARGUMENT = "Unknown argument received";
    /// `BF.SCANDUMP` with an iterator that is no number.
    SECOND_NUMERIC = "Second argument must be numeric";
    /// `BF.LOADCHUNK` with an iterator that is no number.
    ERR_SECOND_NUMERIC = "ERR Second argument must be numeric";

    /// A cuckoo filter that is full.
    FILTER_FULL = "Filter is full";
    /// A cuckoo filter with as many tables as it may have.
    MAX_EXPANSIONS = "Maximum expansions reached";
    /// No memory while adding (`CF.*`).
    NO_MEMORY = "ERR Insufficient memory";
    /// `CF.DEL` of a filter that is not there.
    CF_DEL_NOT_FOUND = "Not found";
    /// `CF.COMPACT` of a filter that is not there.
    CF_COMPACT_NOT_FOUND = "Cuckoo filter was not found";
    /// `CF.SCANDUMP`, `CF.LOADCHUNK` with a bad position.
    INVALID_POSITION = "Invalid position";
    /// `CF.LOADCHUNK` with a bad header.
    INVALID_HEADER = "Invalid header";
    /// `CF.LOADCHUNK` without room for the filter.
    CF_NOT_LOADED = "Couldn't create filter!";
    /// `CF.LOADCHUNK` with a bad chunk.
    CHUNK_NOT_LOADED = "Couldn't load chunk!";
    /// `CF.RESERVE` with a capacity out of range.
    CF_CAPACITY_RANGE = "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]";
    /// `CF.INSERT` with a capacity out of range.
    CF_INSERT_CAPACITY_RANGE = "Capacity must be in the range [cf-bucket-size * 2, 1073741824]";
    /// `CF.RESERVE` with a bad number.
    BUCKETSIZE_PARSE = "Couldn't parse BUCKETSIZE";
    /// `CF.RESERVE` with a number out of range.
    BUCKETSIZE_RANGE = "BUCKETSIZE: value must be in the range [1, 255]";
    /// `CF.RESERVE` with a bad number.
    MAXITERATIONS_PARSE = "Couldn't parse MAXITERATIONS";
    /// `CF.RESERVE` with a number out of range.
    MAXITERATIONS_RANGE = "MAXITERATIONS: value must be in the range [1, 65535]";
    /// `CF.RESERVE` with a bad number.
    CF_EXPANSION_PARSE = "Couldn't parse EXPANSION";
    /// `CF.RESERVE` with a number out of range.
    CF_EXPANSION_RANGE = "EXPANSION: value must be in the range [0, 32768]";
}

impl Refusal {
    /// A refusal from its whole line.
    #[must_use]
    pub fn new(line: impl Into<Cow<'static, str>>) -> Self {
        Self(line.into())
    }

    /// A refusal that never changes.
    pub(crate) const fn fixed(line: &'static str) -> Self {
        Self(Cow::Borrowed(line))
    }

    /// A refusal with the code `ERR`.
    #[must_use]
    pub fn err(text: impl fmt::Display) -> Self {
        Self(Cow::Owned(format!("ERR {text}")))
    }

    /// The whole line, without the leading `-`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The code: the first word, if it is in capitals.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        let word = self.0.split(' ').next().unwrap_or("");
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase())).then_some(word)
    }

    /// Too few or too many arguments.
    #[must_use]
    pub fn arity(name: &str) -> Self {
        Self::err(format_args!("wrong number of arguments for '{name}' command"))
    }

    /// A command that a user has no role for, in Redis's words.
    #[must_use]
    pub fn no_permission(user: &str, command: &str, why: &str) -> Self {
        Self(Cow::Owned(format!("NOPERM User {user} has no permissions to run the '{command}' command: {why}")))
    }

    /// A time that is not, or is too far, in the future.
    #[must_use]
    pub fn invalid_expire(name: &str) -> Self {
        Self::err(format_args!("invalid expire time in '{name}' command"))
    }

    /// A command that is not in the table, in Redis's words: the arguments up to 128 characters.
    #[must_use]
    pub fn unknown_command(args: &[&[u8]]) -> Self {
        let name = shown(args.first().copied().unwrap_or_default());
        let mut line = format!("ERR unknown command '{name}', with args beginning with: ");
        let start = line.len();
        for argument in args.iter().skip(1) {
            let room = 128usize.saturating_sub(line.len() - start);
            if room == 0 {
                break;
            }
            let shown = shown(argument);
            line.push('\'');
            line.extend(shown.char_indices().take_while(|(at, c)| at + c.len_utf8() <= room).map(|(_, c)| c));
            line.push_str("' ");
        }
        Self(Cow::Owned(line))
    }

    /// A subcommand that its container does not have, in Redis's words.
    #[must_use]
    pub fn unknown_subcommand(container: &str, word: &[u8]) -> Self {
        Self::err(format_args!("unknown subcommand '{}'. Try {} HELP.", shown(word), container.to_ascii_uppercase()))
    }

    /// A word that is no option of the command, with those that are.
    #[must_use]
    pub fn unknown_option(name: &str, word: &[u8], allowed: &str) -> Self {
        let word = shown(word);
        if allowed.is_empty() {
            return Self::err(format_args!("unknown option '{word}' for '{name}': it has none"));
        }
        Self::err(format_args!("unknown option '{word}' for '{name}': allowed are {allowed}"))
    }

    /// An option that was given twice.
    #[must_use]
    pub fn duplicate_option(name: &str, word: &str) -> Self {
        Self::err(format_args!("option {word} of '{name}' was given twice: give it once"))
    }

    /// An option at the end, without its value.
    #[must_use]
    pub fn missing_value(name: &str, word: &str) -> Self {
        Self::err(format_args!("option {word} of '{name}' needs a value after it"))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

impl From<bloomgate::Error> for Refusal {
    fn from(error: bloomgate::Error) -> Self {
        Self::err(error)
    }
}

/// Bytes from outside for a message: at most 128 of them, as text; control characters are escaped when it is written.
pub(crate) fn shown(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(128)])
}
