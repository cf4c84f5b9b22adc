//! Redis's commands for names, whatever filter they hold.

use crate::arguments::Arguments;
use crate::glob;
use crate::number;
use crate::options::{Unknown, Word, flag, value};
use crate::refusal::Refusal;
use crate::request::{ExpireOnly, Request};
use crate::spec::{Flag, Group, Parser, Right, Spec};

const ANY: u32 = u32::MAX;
const READ: &[Flag] = &[Flag::Readonly, Flag::Fast];
const READ_SLOW: &[Flag] = &[Flag::Readonly];
const WRITE: &[Flag] = &[Flag::Write];
const WRITE_FAST: &[Flag] = &[Flag::Write, Flag::Fast];

const SCAN: &[Word] = &[value("MATCH"), value("COUNT"), value("TYPE")];
const EXPIRE: &[Word] = &[flag("NX"), flag("XX"), flag("GT"), flag("LT")];
const COPY: &[Word] = &[value("DB"), flag("REPLACE")];

const fn named(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Generic, least, most, parser).keys(1, 1, 1)
}

const fn expiring(name: &'static str, parser: Parser) -> Spec {
    named(name, 3, ANY, parser).flags(WRITE_FAST).right(Right::Delete).options(3, EXPIRE)
}

const OBJECT: [Spec; 4] = [
    named("object|encoding", 3, 3, |args| Ok(Request::ObjectEncoding { key: args.name(2)? }))
        .flags(READ_SLOW)
        .keys(2, 2, 1)
        .says("key", "How the filter is held: raw.")
        .example("OBJECT ENCODING seen", "raw"),
    named("object|freq", 3, 3, |args| Ok(Request::ObjectFreq { key: args.name(2)? }))
        .flags(READ_SLOW)
        .keys(2, 2, 1)
        .says("key", "How often the name was used, which is not counted.")
        .example("OBJECT FREQ seen", "(error) ERR An LFU maxmemory policy is not selected, ..."),
    named("object|idletime", 3, 3, |args| Ok(Request::ObjectIdletime { key: args.name(2)? }))
        .flags(READ_SLOW)
        .keys(2, 2, 1)
        .says("key", "Seconds since the name was used.")
        .example("OBJECT IDLETIME seen", "<seconds>"),
    named("object|refcount", 3, 3, |args| Ok(Request::ObjectRefcount { key: args.name(2)? }))
        .flags(READ_SLOW)
        .keys(2, 2, 1)
        .says("key", "Always 1.")
        .example("OBJECT REFCOUNT seen", "1"),
];

pub(crate) const SPECS: [Spec; 22] = [
    named("type", 2, 2, |args| Ok(Request::Type { key: args.name(1)? }))
        .flags(READ)
        .says("key", "What the name holds: MBbloom--, MBbloomCF, a kind of BG.CREATE, or none.")
        .example("TYPE seen", "MBbloom--"),
    named("exists", 2, ANY, |args| Ok(Request::Exists { keys: args.names(1)? }))
        .flags(READ)
        .keys(1, -1, 1)
        .says("key [key ...]", "How many of the names exist.")
        .costs("O(n) for n names")
        .example("EXISTS seen nobody", "1"),
    named("del", 2, ANY, |args| Ok(Request::Del { keys: args.names(1)? }))
        .flags(WRITE)
        .right(Right::Delete)
        .keys(1, -1, 1)
        .says("key [key ...]", "Deletes filters and answers how many there were.")
        .costs("O(n) for n names")
        .example("DEL archive", "1"),
    named("unlink", 2, ANY, |args| Ok(Request::Unlink { keys: args.names(1)? }))
        .flags(WRITE_FAST)
        .right(Right::Delete)
        .keys(1, -1, 1)
        .says("key [key ...]", "As DEL.")
        .costs("O(n) for n names")
        .example("UNLINK archive", "0"),
    named("touch", 2, ANY, |args| Ok(Request::Touch { keys: args.names(1)? }))
        .flags(READ)
        .keys(1, -1, 1)
        .says("key [key ...]", "How many of the names exist; they count as used.")
        .costs("O(n) for n names")
        .example("TOUCH seen", "1"),
    named("keys", 2, 2, |args| Ok(Request::Keys { pattern: glob::checked(args.word(1))? }))
        .flags(READ_SLOW)
        .keys(0, 0, 0)
        .right(Right::Dangerous)
        .says("pattern", "All names that match a pattern of * ? [a-z] and \\, of at most 256 bytes. A name that is there all the time is in it, whatever changes its filter meanwhile.")
        .costs("O(n) for n names")
        .example("KEYS s*", "1) seen")
        .heavy(),
    named("scan", 2, ANY, scan)
        .flags(READ_SLOW)
        .keys(0, 0, 0)
        .options(2, SCAN)
        .says(
            "cursor [MATCH pattern] [COUNT n] [TYPE type]",
            "Names in portions: begin with 0 and go on with the cursor that comes back until it is 0. A portion may be smaller \
             than COUNT, also empty, where names are long and the pattern (256 bytes at most) has much to try.",
        )
        .differs("Filters come in the order in which they were made, each once. A name that gets another filter while the scan goes on, by BG.SWAP or by RENAME over it, may be left out or come twice; in Redis it may come twice and is never left out. KEYS leaves none out.")
        .costs("O(COUNT)")
        .example("SCAN 0 MATCH s* COUNT 100", "1) 0\n2) 1) seen"),
    named("randomkey", 1, 1, |_| Ok(Request::Randomkey))
        .flags(READ_SLOW)
        .keys(0, 0, 0)
        .says("", "Any name, or nil.")
        .example("RANDOMKEY", "<name>"),
    expiring("expire", |args| expire(args, 1000, true))
        .says("key seconds [NX | XX | GT | LT]", "Deletes the filter after so many seconds.")
        .example("EXPIRE seen 3600 NX", "1"),
    expiring("pexpire", |args| expire(args, 1, true))
        .says("key milliseconds [NX | XX | GT | LT]", "Deletes the filter after so many milliseconds.")
        .example("PEXPIRE seen 3600000", "1"),
    expiring("expireat", |args| expire(args, 1000, false))
        .says("key unix-time-seconds [NX | XX | GT | LT]", "Deletes the filter at a time.")
        .example("EXPIREAT seen 4102444800", "1"),
    expiring("pexpireat", |args| expire(args, 1, false))
        .says("key unix-time-milliseconds [NX | XX | GT | LT]", "Deletes the filter at a time.")
        .example("PEXPIREAT seen 4102444800000", "1"),
    named("ttl", 2, 2, |args| Ok(Request::Ttl { key: args.name(1)? }))
        .flags(READ)
        .says("key", "Seconds until the filter is deleted; -1 never, -2 no such name.")
        .example("TTL seen", "<seconds>"),
    named("pttl", 2, 2, |args| Ok(Request::Pttl { key: args.name(1)? }))
        .flags(READ)
        .says("key", "Milliseconds until the filter is deleted; -1 never, -2 no such name.")
        .example("PTTL seen", "<milliseconds>"),
    named("expiretime", 2, 2, |args| Ok(Request::Expiretime { key: args.name(1)? }))
        .flags(READ)
        .says("key", "The time at which the filter is deleted, in seconds; -1 never, -2 no such name.")
        .example("EXPIRETIME seen", "4102444800"),
    named("pexpiretime", 2, 2, |args| Ok(Request::Pexpiretime { key: args.name(1)? }))
        .flags(READ)
        .says("key", "The time at which the filter is deleted, in milliseconds; -1 never, -2 no such name.")
        .example("PEXPIRETIME seen", "4102444800000"),
    named("persist", 2, 2, |args| Ok(Request::Persist { key: args.name(1)? }))
        .flags(WRITE_FAST)
        .says("key", "Takes the expiry away.")
        .example("PERSIST seen", "1"),
    named("rename", 3, 3, |args| Ok(Request::Rename { key: args.name(1)?, newkey: args.name(2)? }))
        .flags(WRITE)
        .right(Right::Delete)
        .keys(1, 2, 1)
        .says("key newkey", "Gives a filter another name; a filter of that name goes.")
        .example("RENAME both shared", "OK"),
    named("renamenx", 3, 3, |args| Ok(Request::Renamenx { key: args.name(1)?, newkey: args.name(2)? }))
        .flags(WRITE_FAST)
        .right(Right::Delete)
        .keys(1, 2, 1)
        .says("key newkey", "Gives a filter another name unless that is taken.")
        .example("RENAMENX users people", "1"),
    named("copy", 3, ANY, copy)
        .flags(&[Flag::Write, Flag::Denyoom])
        .keys(1, 2, 1)
        .options(3, COPY)
        .says("source destination [DB n] [REPLACE]", "Copies a filter as it is at one instant.")
        .costs("O(n) for n bytes of the filter")
        .differs("It works; RedisBloom's keys cannot be copied.")
        .example("COPY seen seen2 REPLACE", "1")
        .heavy(),
    named("object", 2, ANY, |args| Err(args.wrong_number()))
        .flags(READ_SLOW)
        .keys(0, 0, 0)
        .says("subcommand key", "Small facts about a name.")
        .example("OBJECT ENCODING seen", "raw")
        .subcommands(&OBJECT),
    named("dbsize", 1, 1, |_| Ok(Request::Dbsize))
        .flags(READ)
        .keys(0, 0, 0)
        .says("", "How many names there are.")
        .example("DBSIZE", "10"),
];

fn scan(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let cursor = number::unsigned(args.word(1)).ok_or(Refusal::INVALID_CURSOR)?;
    let (mut pattern, mut count, mut kind) = (None, 10, None);
    let mut options = args.options(Unknown::Syntax);
    while let Some(option) = options.next()? {
        match option.name {
            "MATCH" => pattern = Some(glob::checked(option.value)?),
            "COUNT" => match number::integer(option.value).ok_or(Refusal::NOT_INTEGER)? {
                asked @ 1.. => count = asked as u64,
                _ => return Err(Refusal::SYNTAX),
            },
            _ => kind = Some(option.value),
        }
    }
    Ok(Request::Scan { cursor, pattern, count, kind })
}

fn expire(args: Arguments<'_>, unit: i64, from_now: bool) -> Result<Request<'_>, Refusal> {
    let mut only = ExpireOnly::default();
    let mut options = args.options(Unknown::Unsupported);
    while let Some(option) = options.next()? {
        match option.name {
            "NX" => only.none_yet = true,
            "XX" => only.if_set = true,
            "GT" => only.later = true,
            _ => only.earlier = true,
        }
    }
    if only.none_yet && (only.if_set || only.later || only.earlier) {
        return Err(Refusal::err("NX and XX, GT or LT options at the same time are not compatible"));
    }
    if only.later && only.earlier {
        return Err(Refusal::err("GT and LT options at the same time are not compatible"));
    }
    let time = args.integer(2)?;
    let milliseconds = time.checked_mul(unit).ok_or_else(|| Refusal::invalid_expire(args.spec().name))?;
    Ok(Request::Expire { command: args.spec().name, key: args.name(1)?, milliseconds, from_now, only })
}

fn copy(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let (mut db, mut replace) = (None, false);
    let mut options = args.options(Unknown::Syntax);
    while let Some(option) = options.next()? {
        match option.name {
            "DB" => {
                let index = number::integer(option.value).ok_or(Refusal::NOT_INTEGER)?;
                db = Some(u64::try_from(index).map_err(|_| Refusal::DB_INDEX)?);
            }
            _ => replace = true,
        }
    }
    Ok(Request::Copy { source: args.name(1)?, destination: args.name(2)?, db, replace })
}
