//! `BF.*`: RedisBloom's commands for Bloom filters.

use crate::arguments::Arguments;
use crate::number;
use crate::options::{Takes, Unknown, Word, flag, value};
use crate::refusal::Refusal;
use crate::request::{BfField, Request};
use crate::spec::{Flag, Group, Spec};

/// The most items one can ask RedisBloom's commands for.
pub(crate) const MAX_CAPACITY: i64 = 1 << 30;
/// The largest factor from stage to stage of RedisBloom's commands.
pub(crate) const MAX_EXPANSION: i64 = 32768;
/// RedisBloom 8 takes higher rates for this one.
const MAX_RATE: f64 = 0.25;

const ANY: u32 = u32::MAX;
const WRITE: &[Flag] = &[Flag::Write, Flag::Denyoom];
const READ: &[Flag] = &[Flag::Readonly, Flag::Fast];

const RESERVE: &[Word] = &[value("EXPANSION"), flag("NONSCALING")];
const INSERT: &[Word] = &[
    value("CAPACITY"),
    value("ERROR"),
    value("EXPANSION"),
    flag("NOCREATE"),
    flag("NONSCALING"),
    Word { name: "ITEMS", takes: Takes::Rest },
];

const fn bf(name: &'static str, least: u32, most: u32, parser: crate::spec::Parser) -> Spec {
    Spec::new(name, Group::Bloom, least, most, parser)
}

pub(crate) const SPECS: [Spec; 11] = [
    bf("bf.reserve", 4, 7, reserve)
        .flags(WRITE)
        .options(4, RESERVE)
        .says("key error_rate capacity [EXPANSION n] [NONSCALING]", "Makes an empty Bloom filter for a number of items at a rate of false positives.")
        .costs("O(capacity): the memory is cleared")
        .differs("Words that are no option are refused, and so is one that is given twice; RedisBloom ignores both. Rates below 1e-15 are refused. Where a capacity is out of range or there is no memory for it, more words come behind RedisBloom's: what was asked for, what is allowed, what to do.")
        .example("BF.RESERVE seen 0.001 100000", "OK")
        .heavy(),
    bf("bf.add", 3, 3, |args| Ok(Request::BfAdd { key: args.name(1)?, item: args.item(2)? }))
        .flags(WRITE)
        .says("key item", "Adds an item and answers whether it is certainly new; makes the filter if there is none.")
        .differs("Where there is no memory to grow, the error goes on after RedisBloom's words: what is needed, what is left and what would fit.")
        .example("BF.ADD seen alice", "1"),
    bf("bf.madd", 3, ANY, |args| Ok(Request::BfMadd { key: args.name(1)?, items: args.items(2)? }))
        .flags(WRITE)
        .says("key item [item ...]", "Adds items and answers for each whether it is certainly new.")
        .costs("O(n) for n items")
        .differs("On a full filter that may not grow there is still one element per item: an error for each item that is not in; RedisBloom's array ends at the first error. Where there is no memory to grow, the error tells after RedisBloom's words what is needed, what is left and what would fit.")
        .example("BF.MADD seen bob carol", "1) 1\n2) 1"),
    bf("bf.insert", 4, ANY, insert)
        .flags(WRITE)
        .options(2, INSERT)
        .says("key [CAPACITY n] [ERROR rate] [EXPANSION n] [NOCREATE] [NONSCALING] ITEMS item [item ...]", "Adds items to a filter that is made as asked if there is none.")
        .costs("O(n) for n items, and O(capacity) if it makes the filter")
        .differs("Option words are whole words and come once; RedisBloom looks at their first letters. On a full filter there is one element per item, as with BF.MADD.")
        .example("BF.INSERT users CAPACITY 10000 ERROR 0.001 ITEMS dave erin", "1) 1\n2) 1")
        .heavy(),
    bf("bf.exists", 3, 3, |args| Ok(Request::BfExists { key: args.name(1)?, item: args.item(2)? }))
        .flags(READ)
        .says("key item", "Answers 0 if the item is certainly not in the filter, 1 if it may be.")
        .differs("A filter that exists but is loading, quarantined, without its secret or of the other family answers an error, never 0.")
        .example("BF.EXISTS seen mallory", "0"),
    bf("bf.mexists", 3, ANY, |args| Ok(Request::BfMexists { key: args.name(1)?, items: args.items(2)? }))
        .flags(READ)
        .says("key item [item ...]", "Answers for each item 0 if it is certainly not in the filter, 1 if it may be.")
        .costs("O(n) for n items")
        .differs("As BF.EXISTS: an error where the filter cannot be asked, never 0.")
        .example("BF.MEXISTS seen alice mallory", "1) 1\n2) 0"),
    bf("bf.card", 2, 2, |args| Ok(Request::BfCard { key: args.name(1)? }))
        .flags(READ)
        .says("key", "How many adds found a new item; 0 if there is no filter.")
        .example("BF.CARD seen", "3"),
    bf("bf.info", 2, 3, info)
        .flags(READ)
        .says("key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]", "What the filter was made for and what it holds, or one field of it.")
        .differs("Size is what the filter takes here.")
        .example("BF.INFO seen ITEMS", "1) 3"),
    bf("bf.scandump", 3, 3, scandump)
        .flags(&[Flag::Readonly])
        .says("key iterator", "The filter in chunks: begin with iterator 0 and go on with the number that comes back until it is 0.")
        .costs("O(n) for n bytes of the chunk")
        .differs("The dump is made when iterator 0 is answered: what is added after that is not in it. Chunks have up to 1 MiB, checksums and a form of their own, which RedisBloom does not load. A dump is kept in memory for 60 seconds after the last call, and takes as much of max-memory as the filter until then; an iterator of one that is gone, past its end or negative is an error, where RedisBloom answers 0 and an empty chunk. It is not flagged fast: it is not.")
        .example("BF.SCANDUMP seen 0", "1) <iterator>\n2) <chunk>")
        .heavy(),
    bf("bf.loadchunk", 4, 4, loadchunk)
        .flags(WRITE)
        .says("key iterator data", "Takes a chunk as BF.SCANDUMP gave it.")
        .costs("O(n) for n bytes of the chunk")
        .differs("The filter appears when all chunks are there and right, not with its header; a load that nobody goes on with is dropped after 60 seconds. Chunks come in any order. A name that has a filter is refused: RedisBloom writes the chunk into it. Dumps of RedisBloom load too, answer alike and grow alike, unless a lookup would read more than 4,096 bits of their links. Refusals say in words of their own which chunk is wrong and why.")
        .example("BF.LOADCHUNK seen.copy <iterator> <chunk>", "OK")
        .heavy(),
    bf("bf.debug", 2, 2, |args| Ok(Request::BfDebug { key: args.name(1)? }))
        .flags(READ)
        .says("key", "The numbers of the filter: what is in it, and how it is made.")
        .differs("The first line is RedisBloom's; the second tells the whole chain in fields of this server's filters, not a line a stage.")
        .example("BF.DEBUG seen", "1) size:3\n2) kind:scalable bytes:... stages:1 capacity:100000 size:3 rate:0.001 expected:..."),
];

fn rate(text: &[u8], bad: Refusal, range: Refusal) -> Result<f64, Refusal> {
    let rate = number::decimal(text).ok_or(bad)?;
    if rate > 0.0 && rate < 1.0 { Ok(rate.min(MAX_RATE)) } else { Err(range) }
}

fn capacity(text: &[u8], bad: Refusal, range: Refusal) -> Result<u64, Refusal> {
    let capacity = number::integer(text).ok_or(bad)?;
    if (1..=MAX_CAPACITY).contains(&capacity) { Ok(capacity as u64) } else { Err(range) }
}

pub(crate) fn expansion(text: &[u8], bad: Refusal, range: Refusal) -> Result<u32, Refusal> {
    let expansion = number::integer(text).ok_or(bad)?;
    if (0..=MAX_EXPANSION).contains(&expansion) { Ok(expansion as u32) } else { Err(range) }
}

fn reserve(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let key = args.name(1)?;
    let rate = rate(args.word(2), Refusal::ERR_BAD_RATE, Refusal::RATE_RANGE)?;
    let capacity = capacity(args.word(3), Refusal::ERR_BAD_CAPACITY, Refusal::CAPACITY_RANGE).map_err(|refusal| {
        // RedisBloom's words, and where larger ones are made.
        match number::unsigned(args.word(3)) {
            Some(capacity) if capacity > MAX_CAPACITY as u64 => {
                Refusal::new(format!("{refusal}; BG.CREATE name CAPACITY n RATE p makes filters for up to 2^40 items"))
            }
            _ => refusal,
        }
    })?;
    let (mut factor, mut nonscaling) = (None, false);
    let last = args.word(args.len() - 1);
    let mut options = args.options(Unknown::Named);
    loop {
        match options.next() {
            Ok(Some(option)) if option.name == "EXPANSION" => {
                factor = Some(expansion(option.value, Refusal::ERR_BAD_EXPANSION, Refusal::EXPANSION_RANGE)?);
            }
            Ok(Some(_)) => nonscaling = true,
            Ok(None) => break,
            // The word without its number has a text of its own here.
            Err(_) if factor.is_none() && last.eq_ignore_ascii_case(b"EXPANSION") => return Err(Refusal::NO_EXPANSION),
            Err(refusal) => return Err(refusal),
        }
    }
    if nonscaling && factor.is_some() {
        return Err(Refusal::NONSCALING_EXPANSION);
    }
    Ok(Request::BfReserve { key, rate, capacity, expansion: if nonscaling { Some(0) } else { factor } })
}

fn insert(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let key = args.name(1)?;
    let (mut asked, mut error, mut factor, mut create, mut nonscaling) = (None, None, None, true, false);
    let mut options = args.options(Unknown::RedisBloom);
    while let Some(option) = options.next()? {
        let text = option.value;
        match option.name {
            "CAPACITY" => asked = Some(capacity(text, Refusal::BAD_CAPACITY, Refusal::BAD_CAPACITY)?),
            "ERROR" => error = Some(rate(text, Refusal::BAD_RATE, Refusal::BAD_RATE)?),
            "EXPANSION" => factor = Some(expansion(text, Refusal::BAD_EXPANSION, Refusal::BAD_EXPANSION)?),
            "NOCREATE" => create = false,
            "NONSCALING" => nonscaling = true,
            _ if option.rest.is_empty() => break,
            _ => {
                let items = crate::arguments::items(option.rest)?;
                let expansion = if nonscaling { Some(0) } else { factor };
                return Ok(Request::BfInsert { key, capacity: asked, rate: error, expansion, create, items });
            }
        }
    }
    Err(args.wrong_number())
}

fn info(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let field = match args.from(2).first() {
        None => None,
        Some(word) => {
            let field = BfField::ALL.into_iter().find(|field| word.eq_ignore_ascii_case(field.word().as_bytes()));
            Some(field.ok_or(Refusal::INVALID_INFORMATION)?)
        }
    };
    Ok(Request::BfInfo { key: args.name(1)?, field })
}

fn scandump(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let iterator = number::integer(args.word(2)).ok_or(Refusal::SECOND_NUMERIC)?;
    Ok(Request::BfScandump { key: args.name(1)?, iterator })
}

fn loadchunk(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let iterator = number::integer(args.word(2)).ok_or(Refusal::ERR_SECOND_NUMERIC)?;
    Ok(Request::BfLoadchunk { key: args.name(1)?, iterator, data: args.word(3) })
}
