//! Redis's commands for the server: what operators ask and what clients send on connect.

use crate::acl;
use crate::arguments::Arguments;
use crate::glob;
use crate::number;
use crate::options::{Unknown, Word, flag, value};
use crate::refusal::{Refusal, shown};
use crate::request::{CommandFilter, CommandQuery, Request, Shutdown};
use crate::spec::{Flag, Group, Parser, Right, Spec};

const ANY: u32 = u32::MAX;
const PLAIN: &[Flag] = &[Flag::Loading, Flag::Stale];
const PLAIN_FAST: &[Flag] = &[Flag::Loading, Flag::Stale, Flag::Fast];
const ADMIN: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::Loading, Flag::Stale];
const SAVING: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::NoMulti];

const FLUSH: &[Word] = &[flag("ASYNC"), flag("SYNC")];
const SAMPLES: &[Word] = &[value("SAMPLES")];
const SCHEDULE: &[Word] = &[flag("SCHEDULE")];
const SHUTDOWN: &[Word] = &[flag("NOSAVE"), flag("SAVE"), flag("NOW"), flag("FORCE"), flag("ABORT")];

const fn server(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Server, least, most, parser)
}

/// A command that is only the container of others.
const fn container(name: &'static str, subcommands: &'static [Spec]) -> Spec {
    server(name, 2, ANY, |args| Err(args.wrong_number())).flags(PLAIN).subcommands(subcommands)
}

const COMMAND: [Spec; 5] = [
    server("command|count", 2, 2, |_| Ok(Request::Command(CommandQuery::Count)))
        .flags(PLAIN)
        .right(Right::Connection)
        .says("", "How many commands there are.")
        .example("COMMAND COUNT", "105"),
    server("command|docs", 2, ANY, |args| Ok(Request::Command(CommandQuery::Docs(args.from(2)))))
        .flags(PLAIN)
        .right(Right::Connection)
        .says("[command [command ...]]", "What commands do, from the table of commands.")
        .costs("O(n) for n commands")
        .example("COMMAND DOCS bf.add", "1) bf.add\n2) ..."),
    server("command|info", 2, ANY, |args| Ok(Request::Command(CommandQuery::Info(args.from(2)))))
        .flags(PLAIN)
        .right(Right::Connection)
        .says("[command [command ...]]", "Arity, flags, keys and rights of commands.")
        .costs("O(n) for n commands")
        .example("COMMAND INFO bf.add", "1) 1) bf.add\n   2) 3\n   3) ..."),
    server("command|list", 2, ANY, command_list)
        .flags(PLAIN)
        .right(Right::Connection)
        .options(2, FILTERBY)
        .says("[FILTERBY (MODULE module | ACLCAT category | PATTERN pattern)]", "The names of commands.")
        .costs("O(n) for n commands")
        .example("COMMAND LIST FILTERBY PATTERN bf.*", "1) bf.reserve\n2) ..."),
    server("command|getkeys", 3, ANY, |args| Ok(Request::Command(CommandQuery::GetKeys(args.from(2)))))
        .flags(PLAIN)
        .right(Right::Connection)
        .says("command [argument ...]", "The names of filters in a command.")
        .costs("O(n) for n arguments")
        .example("COMMAND GETKEYS BG.MERGE week monday", "1) week\n2) monday"),
];
const FILTERBY: &[Word] = &[Word { name: "FILTERBY", takes: crate::options::Takes::Two }];

const CONFIG: [Spec; 4] = [
    server("config|get", 3, ANY, config_get)
        .flags(ADMIN)
        .says("pattern [pattern ...]", "Settings whose names match.")
        .costs("O(n) for n settings")
        .example("CONFIG GET bf-*", "1) bf-error-rate\n2) 0.01\n3) ..."),
    server("config|set", 4, ANY, config_set)
        .flags(ADMIN)
        .says("setting value [setting value ...]", "Changes settings that can change while the server runs.")
        .costs("O(n) for n settings")
        .differs("The limits on memory, filters and clients, the bf-* and cf-* defaults (not cf-max-expansions), slower-than and log-level change; everything else is set where the server is started. maxmemory, maxclients, timeout and slowlog-log-slower-than are names of max-memory, max-clients, idle-timeout and slower-than. A size has the units MB (10^6 bytes) and MiB (2^20).")
        .example("CONFIG SET slowlog-log-slower-than 0", "OK"),
    server("config|resetstat", 2, 2, |_| Ok(Request::ConfigResetstat))
        .flags(ADMIN)
        .says("", "Sets the counters of INFO to zero.")
        .example("CONFIG RESETSTAT", "OK"),
    server("config|rewrite", 2, 2, |_| Ok(Request::ConfigRewrite))
        .flags(ADMIN)
        .says("", "Writes the settings that CONFIG SET changed into the file the server was started with (--config).")
        .differs("Only their lines change; a flag or a variable that says otherwise still wins at the next start.")
        .example("CONFIG REWRITE", "(error) ERR The server is running without a config file: ...")
        .heavy(),
];

const MEMORY: [Spec; 3] = [
    server("memory|usage", 3, ANY, memory_usage)
        .flags(&[Flag::Readonly])
        .keys(2, 2, 1)
        .options(3, SAMPLES)
        .says("key [SAMPLES n]", "The bytes a filter takes.")
        .example("MEMORY USAGE seen", "<bytes>"),
    server("memory|doctor", 2, 2, |_| Ok(Request::MemoryDoctor))
        .flags(PLAIN)
        .right(Right::Admin)
        .says("", "Whether memory is well.")
        .example("MEMORY DOCTOR", "Filters take ... bytes, ... %. There is room."),
    server("memory|stats", 2, 2, |_| Ok(Request::MemoryStats))
        .flags(PLAIN)
        .right(Right::Admin)
        .says("", "Where the memory is.")
        .example("MEMORY STATS", "1) total.allocated\n2) ..."),
];

const MODULE: [Spec; 1] = [server("module|list", 2, 2, |_| Ok(Request::ModuleList))
    .flags(&[Flag::Admin, Flag::Noscript])
    .says("", "The modules whose commands are here: bf as RedisBloom has them, and our own.")
    .example("MODULE LIST", "1) 1) name\n   2) bf\n   3) ver\n   4) 80800\n   5) ...")];

const SLOWLOG: [Spec; 3] = [
    server("slowlog|get", 2, 3, slowlog_get)
        .flags(ADMIN)
        .says("[count]", "The slowest commands lately; 10 if not said, -1 for all.")
        .costs("O(n) for n entries")
        .example("SLOWLOG GET 1", "1) 1) <id>\n   2) <seconds>\n   3) <microseconds>\n   4) 1) ..."),
    server("slowlog|len", 2, 2, |_| Ok(Request::SlowlogLen))
        .flags(ADMIN)
        .says("", "How many there are.")
        .example("SLOWLOG LEN", "<count>"),
    server("slowlog|reset", 2, 2, |_| Ok(Request::SlowlogReset))
        .flags(ADMIN)
        .says("", "Forgets them.")
        .example("SLOWLOG RESET", "OK"),
];

const LATENCY: [Spec; 5] = [
    server("latency|latest", 2, 2, |_| Ok(Request::LatencyLatest))
        .flags(ADMIN)
        .says("", "Nothing: delays are not recorded by their cause. SLOWLOG has the slow commands.")
        .example("LATENCY LATEST", "(empty array)"),
    server("latency|history", 3, 3, |args| Ok(Request::LatencyHistory { event: args.name(2)? }))
        .flags(ADMIN)
        .says("event", "Nothing: delays are not recorded by their cause.")
        .example("LATENCY HISTORY fsync", "(empty array)"),
    server("latency|reset", 2, ANY, |args| Ok(Request::LatencyReset { events: args.few(2)? }))
        .flags(ADMIN)
        .says("[event [event ...]]", "Answers 0: there are no delays to forget.")
        .example("LATENCY RESET", "0"),
    server("latency|doctor", 2, 2, |_| Ok(Request::LatencyDoctor))
        .flags(ADMIN)
        .says("", "What the delays mean.")
        .example("LATENCY DOCTOR", "Delays are not recorded by their cause. ..."),
    server("latency|histogram", 2, ANY, |args| Ok(Request::LatencyHistogram { commands: args.few(2)? }))
        .flags(ADMIN)
        .says("[command [command ...]]", "How often each command was run, and in how many microseconds: powers of two, each with how many calls took no longer. BF.ADD, BF.MADD, BF.EXISTS and BF.MEXISTS are timed one batch in 16.")
        .example("LATENCY HISTOGRAM latency|latest", "1) latency|latest\n2) 1) calls\n   2) ..."),
];

pub(crate) const SPECS: [Spec; 20] = [
    server("command", 1, ANY, |_| Ok(Request::Command(CommandQuery::All)))
        .flags(PLAIN)
        .right(Right::Connection)
        .says("", "Arity, flags, keys and rights of every command.")
        .costs("O(n) for n commands")
        .example("COMMAND", "1) 1) bf.reserve\n   2) -4\n   3) ...")
        .subcommands(&COMMAND),
    server("info", 1, ANY, |args| Ok(Request::Info { sections: args.few(1)? }))
        .flags(PLAIN)
        .right(Right::Dangerous)
        .says("[section [section ...]]", "Facts and counters of the server.")
        .example("INFO server", "# Server\nredis_version:..."),
    container("config", &CONFIG).says("subcommand [argument ...]", "Settings.").example("CONFIG GET save", "..."),
    container("memory", &MEMORY).says("subcommand [argument ...]", "Memory.").example("MEMORY USAGE seen", "<bytes>"),
    server("flushall", 1, ANY, |args| flush(args, Request::Flushall))
        .flags(&[Flag::Write])
        .right(Right::Delete)
        .right(Right::Keyspace)
        .right(Right::Dangerous)
        .options(1, FLUSH)
        .says("[ASYNC | SYNC]", "Deletes every filter.")
        .costs("O(n) for n filters")
        .example("FLUSHALL", "OK")
        .heavy(),
    server("flushdb", 1, ANY, |args| flush(args, Request::Flushdb))
        .flags(&[Flag::Write])
        .right(Right::Delete)
        .right(Right::Keyspace)
        .right(Right::Dangerous)
        .options(1, FLUSH)
        .says("[ASYNC | SYNC]", "Deletes every filter.")
        .costs("O(n) for n filters")
        .example("FLUSHDB SYNC", "OK")
        .heavy(),
    container("module", &MODULE).says("LIST", "Modules.").example("MODULE LIST", "..."),
    server("save", 1, 1, |_| Ok(Request::Save))
        .flags(SAVING)
        .says("", "Writes a snapshot and answers when it is safe.")
        .costs("O(n) for n bytes of all filters")
        .example("SAVE", "OK")
        .heavy(),
    server("bgsave", 1, ANY, bgsave)
        .flags(SAVING)
        .options(1, SCHEDULE)
        .says("[SCHEDULE]", "Begins a snapshot.")
        .example("BGSAVE", "Background saving started"),
    server("lastsave", 1, 1, |_| Ok(Request::Lastsave))
        .flags(PLAIN_FAST)
        .right(Right::Admin)
        .right(Right::Dangerous)
        .says("", "When the last snapshot was safe, in seconds since 1970.")
        .example("LASTSAVE", "<seconds>"),
    server("shutdown", 1, ANY, shutdown)
        .flags(&[Flag::Admin, Flag::Noscript, Flag::Loading, Flag::Stale, Flag::NoMulti])
        .options(1, SHUTDOWN)
        .says(
            "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
            "Ends the server after everything acknowledged is safe; with SAVE after a snapshot, while which others are answered. If \
             that fails it says so and goes on, unless FORCE is said.",
        )
        .costs("O(1), with SAVE O(n) for n bytes of all filters")
        .example("SHUTDOWN NOSAVE", "")
        .heavy(),
    container("acl", &acl::SUBCOMMANDS)
        .says("subcommand [argument ...]", "Users and rights.")
        .example("ACL WHOAMI", "default"),
    container("slowlog", &SLOWLOG)
        .says("subcommand [argument ...]", "Slow commands.")
        .example("SLOWLOG LEN", "<count>"),
    container("latency", &LATENCY).says("subcommand [argument ...]", "Delays.").example("LATENCY LATEST", "..."),
    server("time", 1, 1, |_| Ok(Request::Time))
        .flags(PLAIN_FAST)
        .says("", "The server's clock: seconds and microseconds.")
        .example("TIME", "1) <seconds>\n2) <microseconds>"),
    server("wait", 3, 3, wait)
        .flags(&[Flag::Noscript, Flag::Blocking])
        .says("numreplicas timeout", "How many replicas have this connection's writes: 0, there are none.")
        .example("WAIT 0 100", "0"),
    server("role", 1, 1, |_| Ok(Request::Role))
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast])
        .right(Right::Admin)
        .right(Right::Dangerous)
        .says("", "The role in replication: master.")
        .example("ROLE", "1) master\n2) 0\n3) (empty array)"),
    server("debug", 2, ANY, |_| Err(NO_DEBUG))
        .flags(ADMIN)
        .says("...", "Refused: a server does not sleep, crash or change on request.")
        .example("DEBUG SLEEP 0", "(error) ERR DEBUG is not available: ask INFO, BG.INFO, BF.DEBUG or CF.DEBUG"),
    server("lolwut", 1, ANY, |_| Err(NO_LOLWUT))
        .flags(PLAIN_FAST)
        .says("...", "Refused: there is no art here.")
        .example("LOLWUT", "(error) ERR LOLWUT is not available: bits are all there is to see"),
    server("swapdb", 3, 3, |_| Err(NO_SWAPDB))
        .flags(&[Flag::Write, Flag::Fast])
        .right(Right::Dangerous)
        .says("index1 index2", "Refused: there is one database. BG.SWAP exchanges two filters.")
        .example("SWAPDB 0 1", "(error) ERR there is one database, 0: BG.SWAP exchanges two filters"),
];

const NO_DEBUG: Refusal = Refusal::fixed("ERR DEBUG is not available: ask INFO, BG.INFO, BF.DEBUG or CF.DEBUG");
const NO_LOLWUT: Refusal = Refusal::fixed("ERR LOLWUT is not available: bits are all there is to see");
const NO_SWAPDB: Refusal = Refusal::fixed("ERR there is one database, 0: BG.SWAP exchanges two filters");

fn command_list(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let filter = match args.options(Unknown::Syntax).only()?.map(|option| option.rest) {
        None => CommandFilter::None,
        Some([by, what]) if by.eq_ignore_ascii_case(b"module") => CommandFilter::Module(what),
        Some([by, what]) if by.eq_ignore_ascii_case(b"aclcat") => CommandFilter::Category(what),
        Some([by, what]) if by.eq_ignore_ascii_case(b"pattern") => CommandFilter::Pattern(glob::checked(what)?),
        Some(_) => return Err(Refusal::SYNTAX),
    };
    Ok(Request::Command(CommandQuery::List(filter)))
}

fn config_get(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let patterns = args.few(2)?;
    patterns.iter().try_for_each(|pattern| glob::checked(pattern).map(drop))?;
    Ok(Request::ConfigGet { patterns })
}

fn config_set(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let pairs = args.from(2);
    if pairs.len() % 2 == 1 {
        return Err(args.wrong_number());
    }
    for (at, pair) in pairs.chunks(2).enumerate() {
        if pairs.chunks(2).take(at).any(|before| before[0].eq_ignore_ascii_case(pair[0])) {
            return Err(Refusal::err(format_args!(
                "CONFIG SET failed (possibly related to argument '{}') - duplicate parameter",
                shown(pair[0])
            )));
        }
        // Settings are few: a longer list can only repeat or be wrong, and the search above is quadratic.
        if at >= 64 {
            return Err(Refusal::err("CONFIG SET takes at most 64 settings at once"));
        }
    }
    Ok(Request::ConfigSet { pairs })
}

fn flush<'a>(args: Arguments<'a>, request: Request<'a>) -> Result<Request<'a>, Refusal> {
    args.options(Unknown::Syntax).only()?;
    Ok(request)
}

fn memory_usage(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    if let Some(option) = args.options(Unknown::Syntax).only()?
        && number::integer(option.value).ok_or(Refusal::NOT_INTEGER)? < 0
    {
        return Err(Refusal::SYNTAX);
    }
    Ok(Request::MemoryUsage { key: args.name(2)? })
}

fn bgsave(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    args.options(Unknown::Syntax).only()?;
    Ok(Request::Bgsave)
}

fn shutdown(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let mut how = Shutdown::default();
    let mut options = args.options(Unknown::Syntax);
    while let Some(option) = options.next()? {
        match option.name {
            "SAVE" | "NOSAVE" if how.save.is_some() => return Err(Refusal::SYNTAX),
            "SAVE" => how.save = Some(true),
            "NOSAVE" => how.save = Some(false),
            "NOW" => how.now = true,
            "FORCE" => how.force = true,
            _ => how.abort = true,
        }
    }
    // ABORT stands alone.
    if how.abort && how != (Shutdown { abort: true, ..Shutdown::default() }) {
        return Err(Refusal::SYNTAX);
    }
    Ok(Request::Shutdown(how))
}

fn slowlog_get(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let count = match args.from(2).first() {
        None => 10,
        Some(text) => number::integer(text)
            .filter(|&count| count >= -1)
            .ok_or(Refusal::new("ERR count should be greater than or equal to -1"))?,
    };
    Ok(Request::SlowlogGet { count })
}

fn wait(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let replicas = args.integer(1)?.max(0) as u64;
    let time = number::integer(args.word(2)).ok_or(Refusal::new("ERR timeout is not an integer or out of range"))?;
    let milliseconds = u64::try_from(time).map_err(|_| Refusal::new("ERR timeout is negative"))?;
    Ok(Request::Wait { replicas, milliseconds })
}
