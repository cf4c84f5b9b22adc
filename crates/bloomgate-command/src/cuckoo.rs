//! `CF.*`: RedisBloom's commands for cuckoo filters.

use crate::arguments::{self, Arguments};
use crate::bloom::{MAX_CAPACITY, expansion};
use crate::number;
use crate::options::{Takes, Unknown, Word, flag, value};
use crate::refusal::Refusal;
use crate::request::{Request, Width};
use crate::spec::{Flag, Group, Right, Spec};

/// The least that `cf-bucket-size` may be: a capacity holds two buckets at least, and how large they are when nobody says so
/// the server knows.
const LEAST_BUCKET_SIZE: u8 = 1;

const ANY: u32 = u32::MAX;
const WRITE: &[Flag] = &[Flag::Write, Flag::Denyoom];
const READ: &[Flag] = &[Flag::Readonly, Flag::Fast];

const RESERVE: &[Word] =
    &[value("BUCKETSIZE"), value("MAXITERATIONS"), value("EXPANSION"), value("RATE"), value("FINGERPRINT")];
const INSERT: &[Word] = &[value("CAPACITY"), flag("NOCREATE"), Word { name: "ITEMS", takes: Takes::Rest }];
const INSERT_SYNTAX: &str = "key [CAPACITY n] [NOCREATE] ITEMS item [item ...]";

const fn cf(name: &'static str, least: u32, most: u32, parser: crate::spec::Parser) -> Spec {
    Spec::new(name, Group::Cuckoo, least, most, parser)
}

pub(crate) const SPECS: [Spec; 14] = [
    cf("cf.reserve", 3, 11, reserve)
        .flags(WRITE)
        .options(3, RESERVE)
        .says("key capacity [BUCKETSIZE n] [MAXITERATIONS n] [EXPANSION n] [RATE rate | FINGERPRINT bits]", "Makes an empty cuckoo filter for a number of items.")
        .costs("O(capacity): the memory is cleared")
        .differs("The filter keeps a rate of 0.01 % over all its tables (fingerprints of 17 bits in the first); RATE chooses another, or FINGERPRINT the width of one table (EXPANSION 0) or the rate of such a table (8 in 2^bits) over all of them. RedisBloom's fingerprints have 8 bits, 3 % a table. EXPANSION 1 doubles: removals need tables of different sizes. BUCKETSIZE and MAXITERATIONS are kept and told by CF.INFO; buckets have 4 slots here. Words that are no option are refused, and so is one that is given twice.")
        .example("CF.RESERVE carts 100000 RATE 0.001", "OK")
        .heavy(),
    cf("cf.add", 3, 3, |args| Ok(Request::CfAdd { key: args.name(1)?, item: args.item(2)? }))
        .flags(WRITE)
        .says("key item", "Adds a copy of an item; makes the filter if there is none.")
        .differs("The ninth copy of an item is refused and changes nothing: eight are counted and can be removed one by one. (In a filter that came from a file or a list where the fourth sticks, it is the fourth.) A chain has at most 64 tables; RedisBloom's has 32 unless cf-max-expansions says otherwise. Where there is no memory to grow, the error goes on after RedisBloom's words: what is needed, what is left and what would fit.")
        .example("CF.ADD carts alice", "1"),
    cf("cf.addnx", 3, 3, |args| Ok(Request::CfAddnx { key: args.name(1)?, item: args.item(2)? }))
        .flags(WRITE)
        .says("key item", "Adds an item unless it may be there already: once a look-alike is removed, it is gone with it.")
        .example("CF.ADDNX carts alice", "0"),
    cf("cf.insert", 4, ANY, insert)
        .flags(WRITE)
        .options(2, INSERT)
        .says(INSERT_SYNTAX, "Adds copies of items to a filter that is made as asked if there is none.")
        .costs("O(n) for n items, and O(capacity) if it makes the filter")
        .differs("Option words are whole words and come once; RedisBloom looks at their first letters. -1 (false in RESP3) for each item that is not in: when the chain has all its tables, where RedisBloom refuses the command, for a ninth copy, and when there is no memory to grow.")
        .example("CF.INSERT carts CAPACITY 1000 ITEMS bob carol", "1) 1\n2) 1")
        .heavy(),
    cf("cf.insertnx", 4, ANY, insertnx)
        .flags(WRITE)
        .options(2, INSERT)
        .says(INSERT_SYNTAX, "Adds the items that are certainly not there: 1 added, 0 may be there, -1 no room.")
        .costs("O(n) for n items, and O(capacity) if it makes the filter")
        .differs("Option words are whole words and come once; RedisBloom looks at their first letters. -1 as with CF.INSERT.")
        .example("CF.INSERTNX carts ITEMS bob dave", "1) 0\n2) 1")
        .heavy(),
    cf("cf.exists", 3, 3, |args| Ok(Request::CfExists { key: args.name(1)?, item: args.item(2)? }))
        .flags(READ)
        .says("key item", "Answers 0 if the item is certainly not in the filter, 1 if it may be.")
        .differs("A filter that exists but is loading, quarantined, without its secret or of the other family answers an error, never 0.")
        .example("CF.EXISTS carts mallory", "0"),
    cf("cf.mexists", 3, ANY, |args| Ok(Request::CfMexists { key: args.name(1)?, items: args.items(2)? }))
        .flags(READ)
        .says("key item [item ...]", "Answers for each item 0 if it is certainly not in the filter, 1 if it may be.")
        .costs("O(n) for n items")
        .differs("As CF.EXISTS: an error where the filter cannot be asked, never 0.")
        .example("CF.MEXISTS carts alice mallory", "1) 1\n2) 0"),
    cf("cf.count", 3, 3, |args| Ok(Request::CfCount { key: args.name(1)?, item: args.item(2)? }))
        .flags(READ)
        .says("key item", "How many copies of an item there may be, never fewer than there are.")
        .differs("A fingerprint is counted once where its two buckets are one; RedisBloom counts it twice. A filter of the other family is an error, not 0.")
        .example("CF.COUNT carts alice", "1"),
    cf("cf.del", 3, 3, |args| Ok(Request::CfDel { key: args.name(1)?, item: args.item(2)? }))
        .flags(&[Flag::Write, Flag::Fast])
        .right(Right::Delete)
        .says("key item", "Removes one copy of an item. Remove only what was added: another item may look alike.")
        .differs("It is a right of its own, @delete. A filter of the other family is WRONGTYPE. Tables are packed by CF.COMPACT alone; RedisBloom also does so when a tenth of the items was deleted.")
        .example("CF.DEL carts bob", "1"),
    cf("cf.compact", 2, 2, |args| Ok(Request::CfCompact { key: args.name(1)? }))
        .flags(WRITE)
        .says("key", "Moves items to older tables and gives back the tables that become empty.")
        .costs("O(n) for n items")
        .differs("It counts as a write, which it is. A filter of the other family is WRONGTYPE.")
        .example("CF.COMPACT carts", "OK")
        .heavy(),
    cf("cf.info", 2, 2, |args| Ok(Request::CfInfo { key: args.name(1)? }))
        .flags(READ)
        .says("key", "What the filter was made for and what it holds.")
        .differs("Size is what the filter takes here, and the number of buckets is of buckets with 4 slots.")
        .example("CF.INFO carts", "1) Size\n2) ...\n3) Number of buckets\n4) ..."),
    cf("cf.scandump", 3, 3, scandump)
        .flags(&[Flag::Readonly])
        .says("key iterator", "The filter in chunks: begin with iterator 0 and go on with the number that comes back until it is 0.")
        .costs("O(n) for n bytes of the chunk")
        .differs("As BF.SCANDUMP: all chunks are of one instant, have checksums and a form of their own, and are kept for 60 seconds. An empty filter can be dumped too.")
        .example("CF.SCANDUMP carts 0", "1) <iterator>\n2) <chunk>")
        .heavy(),
    cf("cf.loadchunk", 4, 4, loadchunk)
        .flags(WRITE)
        .says("key iterator data", "Takes a chunk as CF.SCANDUMP gave it.")
        .costs("O(n) for n bytes of the chunk")
        .differs("As BF.LOADCHUNK: the filter appears when all chunks are there and right. It is logged whole; RedisBloom logs the header alone. Dumps of RedisBloom load too and answer alike.")
        .example("CF.LOADCHUNK carts.copy <iterator> <chunk>", "OK")
        .heavy(),
    cf("cf.debug", 2, 2, |args| Ok(Request::CfDebug { key: args.name(1)? }))
        .flags(READ)
        .says("key", "The numbers of the filter in one line.")
        .differs("The number of buckets is of buckets with 4 slots.")
        .example("CF.DEBUG carts", "bktsize:2 buckets:26586 items:3 deletes:0 filters:1 max_iterations:20 expansion:1"),
];

/// A number of `CF.RESERVE` in its range, with its two texts.
fn ranged(text: &[u8], most: i64, parse: Refusal, range: Refusal) -> Result<i64, Refusal> {
    let value = number::integer(text).ok_or(parse)?;
    if (1..=most).contains(&value) { Ok(value) } else { Err(range) }
}

fn capacity(capacity: i64, bucket_size: u8, range: Refusal) -> Result<u64, Refusal> {
    let least = 2 * i64::from(bucket_size);
    if (least..=MAX_CAPACITY).contains(&capacity) { Ok(capacity as u64) } else { Err(range) }
}

fn reserve(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    if args.len().is_multiple_of(2) {
        return Err(args.wrong_number());
    }
    let key = args.name(1)?;
    let asked = number::integer(args.word(2)).ok_or(Refusal::BAD_CAPACITY)?;
    let (mut bucket_size, mut max_iterations, mut factor, mut width) = (None, None, None, None);
    let mut options = args.options(Unknown::Named);
    while let Some(option) = options.next()? {
        let text = option.value;
        match option.name {
            "BUCKETSIZE" => {
                let size = ranged(text, 255, Refusal::BUCKETSIZE_PARSE, Refusal::BUCKETSIZE_RANGE)?;
                bucket_size = Some(size as u8);
            }
            "MAXITERATIONS" => {
                let most = ranged(text, 65535, Refusal::MAXITERATIONS_PARSE, Refusal::MAXITERATIONS_RANGE)?;
                max_iterations = Some(most as u16);
            }
            "EXPANSION" => {
                factor = Some(expansion(text, Refusal::CF_EXPANSION_PARSE, Refusal::CF_EXPANSION_RANGE)?);
            }
            _ if width.is_some() => {
                return Err(Refusal::err("RATE and FINGERPRINT both choose the width: give one of them"));
            }
            "RATE" => width = Some(Width::Rate(arguments::rate("RATE", text)?)),
            _ => width = Some(Width::Bits(arguments::within("FINGERPRINT", text, 2, 56)? as u32)),
        }
    }
    let capacity = capacity(asked, bucket_size.unwrap_or(LEAST_BUCKET_SIZE), Refusal::CF_CAPACITY_RANGE)?;
    Ok(Request::CfReserve { key, capacity, bucket_size, max_iterations, expansion: factor, width })
}

fn insert(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let (capacity, create, items) = inserted(args)?;
    Ok(Request::CfInsert { key: args.name(1)?, capacity, create, items })
}

fn insertnx(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let (capacity, create, items) = inserted(args)?;
    Ok(Request::CfInsertnx { key: args.name(1)?, capacity, create, items })
}

type Inserted<'a> = (Option<u64>, bool, &'a [&'a [u8]]);

fn inserted(args: Arguments<'_>) -> Result<Inserted<'_>, Refusal> {
    let (mut asked, mut create) = (None, true);
    let mut options = args.options(Unknown::RedisBloom);
    while let Some(option) = options.next()? {
        match option.name {
            "CAPACITY" => {
                let value = number::integer(option.value).ok_or(Refusal::BAD_CAPACITY)?;
                asked = Some(capacity(value, LEAST_BUCKET_SIZE, Refusal::CF_INSERT_CAPACITY_RANGE)?);
            }
            "NOCREATE" => create = false,
            _ if option.rest.is_empty() => break,
            _ => return Ok((asked, create, arguments::items(option.rest)?)),
        }
    }
    Err(args.wrong_number())
}

fn position(args: Arguments<'_>, least: i64) -> Result<i64, Refusal> {
    number::integer(args.word(2)).filter(|&position| position >= least).ok_or(Refusal::INVALID_POSITION)
}

fn scandump(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    Ok(Request::CfScandump { key: args.name(1)?, position: position(args, 0)? })
}

fn loadchunk(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    Ok(Request::CfLoadchunk { key: args.name(1)?, position: position(args, 1)?, data: args.word(3) })
}
