//! `BG.*`: Bloomgate's own commands, for every kind of filter and what the kinds can do.

use std::time::Duration;

use bloomgate::bloom::rotating::{MAX_GENERATIONS, MAX_WINDOW};
use bloomgate::promise::MAX_ITEMS;
use bloomgate::{Algorithm, Kind, WhenFull};

use crate::arguments::{self, Arguments, label, rate, within};
use crate::namespaces;
use crate::number;
use crate::options::{Takes, Unknown, Word, flag, value};
use crate::refusal::{Refusal, shown};
use crate::request::{Create, DeltaBase, FoldTo, RekeyStep, Request};
use crate::spec::{Flag, Group, Parser, Right, Spec};
use crate::table::find;

/// The most bytes of a `REQUEST` id.
const MAX_REQUEST: usize = 64;
/// The most bytes one can ask for: 2^50, a petabyte; the memory budget decides long before.
const MAX_BYTES: u64 = 1 << 50;
/// The factors from stage to stage that the chains take.
const GROWTH: std::ops::RangeInclusive<f64> = 1.0..=32768.0;
/// The widest fingerprint of any kind.
const MAX_FINGERPRINT: u64 = 56;
/// The hashes a filter of the server can have.
const HASHES: [Algorithm; 4] = [Algorithm::SipHash13, Algorithm::SipHash24, Algorithm::Blake2b, Algorithm::Xxh3];

const ANY: u32 = u32::MAX;
const WRITE: &[Flag] = &[Flag::Write, Flag::Denyoom];
const READ: &[Flag] = &[Flag::Readonly, Flag::Fast];
const READ_SLOW: &[Flag] = &[Flag::Readonly];
const ADMIN: &[Flag] = &[Flag::Admin, Flag::Noscript];
/// A snapshot waits for everybody who writes: within a transaction it would wait for itself.
const BACKUP: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::NoMulti];
const WRITE_ADMIN: &[Flag] = &[Flag::Write, Flag::Denyoom, Flag::Admin];
/// It reads a file of any length, for which no transaction may hold everybody up.
const BUILDING: &[Flag] = &[Flag::Write, Flag::Denyoom, Flag::Admin, Flag::NoMulti];

const CREATE: &[Word] = &[
    value("KIND"),
    value("CAPACITY"),
    value("RATE"),
    value("BYTES"),
    value("GROWTH"),
    value("ONFULL"),
    value("WINDOW"),
    value("GENERATIONS"),
    value("FINGERPRINT"),
    value("COUNTERS"),
    value("HASH"),
    value("SEED"),
    value("CONTRACT"),
    Word { name: "LIKE", takes: Takes::Name },
];
const REMOVE: &[Word] = &[value("REQUEST"), Word { name: "ITEMS", takes: Takes::Rest }];
const BUILD: &[Word] = &[
    value("FROM"),
    value("KIND"),
    value("CAPACITY"),
    value("RATE"),
    value("CONTRACT"),
    Word { name: "LIKE", takes: Takes::Name },
    flag("REPLACE"),
];
const REPLACE: &[Word] = &[flag("REPLACE")];
const RESET: &[Word] = &[flag("RESET")];
const RATE: &[Word] = &[value("RATE")];

const fn bg(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Bloomgate, least, most, parser)
}

pub(crate) const SPECS: [Spec; 25] = [
    bg("bg.create", 4, 30, create)
        .flags(WRITE)
        .options(2, CREATE)
        .says(
            "name (KIND kind | LIKE other) [CAPACITY n] [RATE rate] [BYTES n] [GROWTH factor] [ONFULL refuse|grow|goon] \
             [WINDOW seconds] [GENERATIONS n] [FINGERPRINT bits] [COUNTERS bits] \
             [HASH siphash13|siphash24|blake2b|xxh3] [SEED n] [CONTRACT contract]",
            "Makes an empty filter of any kind that takes adds. Of CAPACITY, RATE and BYTES two give the third; ONFULL is \
             grow for chains, goon for rotating and stable filters, refuse for the others. A CONTRACT that was not used \
             before begins with a secret of its own. LIKE takes the kind, shape and contract of another filter, and the \
             other options (KIND too) change them.",
        )
        .costs("O(capacity): the memory is cleared")
        .example("BG.CREATE visits KIND rotating CAPACITY 100000 RATE 0.01 WINDOW 3600 GENERATIONS 6", "OK\n> BG.CREATE monday KIND blocked CAPACITY 100000\nOK\n> BG.CREATE tuesday LIKE monday\nOK")
        .heavy(),
    bg("bg.add", 3, ANY, |args| Ok(Request::BgAdd { name: args.name(1)?, items: args.items(2)? }))
        .flags(WRITE)
        .says("name item [item ...]", "Adds items to a filter of any kind that exists and answers for each whether it is certainly new, with an error where one did not fit. Counting, quotient and cuckoo filters count each time: who adds an item twice removes it twice (a cuckoo filter keeps eight copies and refuses the ninth). A rotating one keeps the item for another window.")
        .costs("O(n) for n items")
        .example("BG.ADD visits alice bob", "1) 1\n2) 1"),
    bg("bg.exists", 3, ANY, |args| Ok(Request::BgExists { name: args.name(1)?, items: args.items(2)? }))
        .flags(READ)
        .says("name item [item ...]", "Answers for each item 0 if it is certainly absent, 1 if it may be there. A name that is not there holds nothing; a filter that cannot answer is an error.")
        .costs("O(n) for n items")
        .example("BG.EXISTS visits alice mallory", "1) 1\n2) 0"),
    bg("bg.count", 3, ANY, |args| Ok(Request::BgCount { name: args.name(1)?, items: args.items(2)? }))
        .flags(READ)
        .says("name item [item ...]", "How often each item may have been added, never less than it was (counting, cuckoo, quotient).")
        .costs("O(n) for n items")
        .example("BG.COUNT carts alice", "1) 1"),
    bg("bg.remove", 4, ANY, remove)
        .flags(&[Flag::Write])
        .right(Right::Delete)
        .options(2, REMOVE)
        .says(
            "name [REQUEST id] ITEMS item [item ...]",
            "Takes one copy of each item out and answers whether it was there. With a REQUEST id the same command again \
             changes nothing and answers alike, as long as the id is among the last 4,096 of the filter (fewer where their \
             answers take more than 1 MiB).",
        )
        .costs("O(n) for n items")
        .example("BG.REMOVE carts REQUEST 8f14e45f ITEMS alice", "1) 1"),
    bg("bg.info", 2, 3, info)
        .flags(READ_SLOW)
        .says("name [field]", "Everything about a filter as a map, or one field of it: kind, items, capacity, rates, fill, contract and age of its secret, window, version, counters.")
        .costs("O(n) for n bytes of the filter")
        .example("BG.INFO visits kind", "rotating")
        .heavy(),
    bg("bg.estimate", 2, 2, |args| Ok(Request::BgEstimate { name: args.name(1)? }))
        .flags(READ_SLOW)
        .says("name", "How many different items the filter holds and at what rate it answers now, estimated from its bits.")
        .costs("O(n) for n bytes of the filter")
        .example("BG.ESTIMATE visits", "1) items\n2) 2\n3) items_low\n4) 2\n5) items_high\n6) 2\n7) ...")
        .heavy(),
    bg("bg.audit", 2, 3, audit)
        .flags(READ)
        .options(2, RESET)
        .says("name [RESET]", "The counters of what was asked and answered, and with RESET from zero again.")
        .example("BG.AUDIT visits", "1) lookups\n2) 2\n3) positives\n4) 1\n5) ..."),
    bg("bg.stats", 1, 3, stats)
        .flags(READ_SLOW)
        .says(
            "[name | COUNT n]",
            "What the server measures. Of a filter: the rates promised, expected by its items, estimated from its bits and \
             measured with random keys (probed now; with its 95 % interval), its fill against theory, how far its bits are \
             from those of random keys in standard deviations, and the verdict: ok, suspicious or poisoned; feedback and \
             counters. Without a name: what was probed and reported in all, the filters whose rate is certainly above the promise, and \
             those with the highest scores; ten of each, or COUNT.",
        )
        .costs("O(n) for n bytes of the filter; without a name O(1)")
        .example("BG.STATS visits", "1) name\n2) visits\n3) kind\n4) rotating\n5) ...verdict\n...) ok\n...\n> BG.STATS\n1) filters\n...")
        .heavy(),
    bg("bg.feedback", 3, ANY, |args| Ok(Request::BgFeedback { name: args.name(1)?, items: args.items(2)? }))
        .flags(&[Flag::Write])
        .right(Right::Delete)
        .says(
            "name item [item ...]",
            "Reports items that the filter takes for present and that a look at the data has just proved absent: for an hour \
             (feedback-ttl) they are answered with 0, or until they are added. Answers how many of them are from now on. \
             The first report of a filter begins to watch its adds, and reports count a minute later (feedback-settle): an \
             item that was added within that time is not taken, because its writer may not have been done when you looked. \
             Reporting an item that is there makes a \"no\" wrong, so it needs the right to delete. Not for kinds that count \
             or remove (counting, cuckoo, quotient).",
        )
        .costs("O(n) for n items")
        .example("BG.FEEDBACK visits mallory", "0"),
    bg("bg.digest", 2, 2, |args| Ok(Request::BgDigest { name: args.name(1)? }))
        .flags(READ_SLOW)
        .says("name", "The content address of the filter: the BLAKE3 of its file, 64 hexadecimal digits.")
        .costs("O(n) for n bytes of the filter")
        .example("BG.DIGEST visits", "<address>")
        .heavy(),
    bg("bg.dump", 2, 2, |args| Ok(Request::BgDump { name: args.name(1)? }))
        .flags(READ_SLOW)
        .says("name", "The address of the filter's file and the whole .bloom file, up to 16 MiB. It is remembered as a base for BG.DELTA: for an hour, the last four of a filter.")
        .costs("O(n) for n bytes of the filter")
        .example("BG.DUMP visits", "1) <address>\n2) (bytes)")
        .heavy(),
    bg("bg.delta", 3, 3, delta)
        .flags(READ_SLOW)
        .says("name (address | version)", "What makes the file of this address (one that BG.DUMP gave, or that a delta made) into the file of the filter as it is now, which is remembered as the next base. In place of the address the version that BG.INFO told of the filter when it was given. The last four of a filter are kept, for an hour. For filters above 16 MiB use HTTP (/v1/filters/NAME/delta).")
        .costs("O(n) for n bytes of the filter")
        .example(
            "BG.DELTA visits <address>",
            "(bytes)",
        )
        .heavy(),
    bg("bg.merge", 3, ANY, |args| Ok(Request::BgMerge { destination: args.name(1)?, sources: args.names(2)? }))
        .flags(WRITE)
        .keys(1, -1, 1)
        .says("destination source [source ...]", "Adds all items of filters of one shape and contract to the destination, which is made if there is none. Nothing that is added to the destination meanwhile is lost.")
        .costs("O(n) for n bytes of the filters")
        .example("BG.MERGE week monday tuesday", "OK")
        .heavy(),
    bg("bg.intersect", 4, 4, |args| {
        Ok(Request::BgIntersect { destination: args.name(1)?, left: args.name(2)?, right: args.name(3)? })
    })
    .flags(WRITE)
    .right(Right::Delete)
    .keys(1, 3, 1)
    .says("destination left right", "Makes a filter that covers the items that are in both of two filters of one shape and contract.")
    .costs("O(n) for n bytes of the filters")
    .example("BG.INTERSECT both monday tuesday", "OK")
    .heavy(),
    bg("bg.fold", 3, 4, fold)
        .flags(WRITE)
        .options(2, RATE)
        .says("name (factor | RATE rate)", "Makes a filter smaller, by a factor or as far as a rate allows for the items that are in.")
        .costs("O(n) for n bytes of the filter")
        .example("BG.FOLD week RATE 0.01", "OK")
        .heavy(),
    bg("bg.copy", 3, 4, copy)
        .flags(WRITE)
        .keys(1, 2, 1)
        .options(3, REPLACE)
        .says("source destination [REPLACE]", "Copies a filter as it is at one instant.")
        .costs("O(n) for n bytes of the filter")
        .example("BG.COPY week archive REPLACE", "1")
        .heavy(),
    bg("bg.swap", 3, 3, |args| Ok(Request::BgSwap { left: args.name(1)?, right: args.name(2)? }))
        .flags(&[Flag::Write, Flag::Fast])
        .right(Right::Delete)
        .keys(1, 2, 1)
        .says("left right", "Exchanges the names of two filters at one instant: the end of a rebuild beside the live filter.")
        .example("BG.SWAP week archive", "OK"),
    bg("bg.build", 4, 15, build)
        .flags(BUILDING)
        .options(2, BUILD)
        .says(
            "name FROM file [KIND kind] [CAPACITY n] [RATE rate] [CONTRACT name | LIKE other] [REPLACE]",
            "Makes a filter from a file in the server's import folder: one item a line, or a .bloom file whose secret is one of \
             the server's. Without KIND it is scalable, without CAPACITY the lines are counted first. CONTRACT and LIKE are as \
             in BG.CREATE: what is built LIKE another filter can be merged with it. Nothing is seen of it before it is whole.",
        )
        .costs("O(n) for n bytes of the file")
        .example("BG.BUILD blocked FROM blocklist.txt KIND fuse RATE 0.001", "OK")
        .heavy(),
    bg("bg.rekey", 3, 4, rekey)
        .flags(WRITE_ADMIN)
        .says("name (START | STATUS | FINISH [FORCE] | ABORT)", "Moves a filter to a new secret: START makes a shadow, which nobody sees, that takes all adds too, BG.FEED brings the items from before, FINISH puts it in place, once as many items came as the filter has and the shadow has as many; with FORCE whatever came: what was not fed is lost then. For classic, blocked, partitioned and scalable filters; lookups are answered all the while.")
        .example("BG.REKEY users START", "OK")
        .heavy(),
    bg("bg.feed", 3, ANY, |args| Ok(Request::BgFeed { name: args.name(1)?, items: args.items(2)? }))
        .flags(WRITE)
        .says("name item [item ...]", "Adds items to the shadow of a filter that is being rekeyed, those that the filter has; how many were new to it.")
        .costs("O(n) for n items")
        .example("BG.FEED users dave erin", "2\n> BG.REKEY users FINISH\nOK"),
    namespaces::SPEC,
    bg("bg.secrets", 1, 1, |_| Ok(Request::BgSecrets))
        .flags(ADMIN)
        .keys(0, 0, 0)
        .says("", "The contracts of the server, each secret they have had with its age and how many filters use it; never a secret itself.")
        .costs("O(n) for n filters")
        .example("BG.SECRETS", "1) 1) contract\n   2) default\n   3) epoch\n   4) 1\n   5) ...")
        .heavy(),
    bg("bg.backup", 2, 2, |args| Ok(Request::BgBackup { folder: label("a folder name", args.word(1))? }))
        .flags(BACKUP)
        .keys(0, 0, 0)
        .says("folder", "Writes all filters as of one instant into a new folder of the server's backup folder.")
        .costs("O(n) for n bytes of all filters")
        .example("BG.BACKUP monday", ".../backups/monday")
        .heavy(),
    bg("bg.help", 1, 2, help)
        .flags(&[Flag::Fast, Flag::Loading, Flag::Stale])
        .keys(0, 0, 0)
        .says("[command]", "What a command does, or all of BG.*.")
        .example("BG.HELP bg.swap", "BG.SWAP left right\n..."),
];

/// One of a list of words, or which there are.
fn choice<T: Copy>(what: &str, text: &[u8], choices: &[(&str, T)]) -> Result<T, Refusal> {
    let found = choices.iter().find(|(word, _)| text.eq_ignore_ascii_case(word.as_bytes()));
    found.map(|&(_, chosen)| chosen).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|&(word, _)| word).collect();
        Refusal::err(format_args!("{what} must be one of {}, not '{}'", words.join(", "), shown(text)))
    })
}

fn kind(text: &[u8], adds: bool) -> Result<Kind, Refusal> {
    let kinds = Kind::ALL.into_iter().filter(|kind| !kind.is_foreign());
    let choices: Vec<(&str, Kind)> = kinds.map(|kind| (kind.name(), kind)).collect();
    let kind = choice("KIND", text, &choices)?;
    if adds && !kind.takes_inserts() {
        return Err(Refusal::err(format_args!("a {kind} filter is built once from all its items: use BG.BUILD")));
    }
    Ok(kind)
}

fn create(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let name = args.name(1)?;
    let mut create = Create::default();
    let mut options = args.options(Unknown::Named);
    while let Some(option) = options.next()? {
        let text = option.value;
        match option.name {
            "KIND" => create.kind = Some(kind(text, true)?),
            "CAPACITY" => create.capacity = Some(within("CAPACITY", text, 1, MAX_ITEMS)?),
            "RATE" => create.rate = Some(rate("RATE", text)?),
            "BYTES" => create.bytes = Some(within("BYTES", text, 1, MAX_BYTES)?),
            "GROWTH" => create.growth = Some(growth(text)?),
            "ONFULL" => {
                let choices = [("refuse", WhenFull::Refuse), ("grow", WhenFull::Grow), ("goon", WhenFull::GoOn)];
                create.on_full = Some(choice("ONFULL", text, &choices)?);
            }
            "WINDOW" => create.window = Some(window(text)?),
            "GENERATIONS" => {
                create.generations = Some(within("GENERATIONS", text, 1, u64::from(MAX_GENERATIONS))? as u32);
            }
            "FINGERPRINT" => create.fingerprint = Some(within("FINGERPRINT", text, 1, MAX_FINGERPRINT)? as u32),
            "COUNTERS" => create.counters = Some(choice("COUNTERS", text, &[("4", 4), ("8", 8), ("16", 16)])?),
            "HASH" => create.hash = Some(choice("HASH", text, &HASHES.map(|hash| (hash.name(), hash)))?),
            "SEED" => create.seed = Some(within("SEED", text, 0, u64::MAX)?),
            "CONTRACT" => create.contract = Some(label("a contract's name", text)?),
            _ => create.like = Some(arguments::name(text)?),
        }
    }
    if create.kind.is_none() && create.like.is_none() {
        return Err(Refusal::err("BG.CREATE needs KIND (or LIKE another filter): BG.CREATE name KIND scalable"));
    }
    if create.seed.is_some() && create.hash != Some(Algorithm::Xxh3) {
        return Err(Refusal::err("SEED is for HASH xxh3: the other hashes take their secret from a contract"));
    }
    if create.contract.is_some() && create.hash == Some(Algorithm::Xxh3) {
        return Err(Refusal::err("CONTRACT names a secret, and HASH xxh3 has none: leave one of them out"));
    }
    if create.like.is_some() && (create.hash.is_some() || create.contract.is_some()) {
        return Err(Refusal::err("LIKE takes the contract of the other filter: leave HASH, SEED and CONTRACT out"));
    }
    if create.capacity.is_some() && create.rate.is_some() && create.bytes.is_some() {
        return Err(Refusal::err("CAPACITY, RATE and BYTES are one too many: two of them give the third"));
    }
    Ok(Request::BgCreate { name, create })
}

fn growth(text: &[u8]) -> Result<f64, Refusal> {
    number::decimal(text).filter(|factor| GROWTH.contains(factor)).ok_or_else(|| {
        let (least, most) = (GROWTH.start(), GROWTH.end());
        Refusal::err(format_args!("GROWTH must be a factor from {least} to {most}, not '{}'", shown(text)))
    })
}

/// Windows are told the time ten times a second, and each that ends a generation then is written to the log.
const MIN_WINDOW: Duration = Duration::from_secs(1);

fn window(text: &[u8]) -> Result<Duration, Refusal> {
    let window = number::decimal(text).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    window.filter(|window| (MIN_WINDOW..=MAX_WINDOW).contains(window)).ok_or_else(|| {
        let (least, most) = (MIN_WINDOW.as_secs_f64(), MAX_WINDOW.as_secs());
        Refusal::err(format_args!("WINDOW must be {least} to {most} seconds (100 years), not '{}'", shown(text)))
    })
}

fn remove(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let name = args.name(1)?;
    let mut request = None;
    let mut options = args.options(Unknown::Named);
    while let Some(option) = options.next()? {
        if option.name == "REQUEST" {
            if !(1..=MAX_REQUEST).contains(&option.value.len()) {
                return Err(Refusal::err(format_args!(
                    "a REQUEST id is 1 to {MAX_REQUEST} bytes, not {}: a random number does",
                    option.value.len()
                )));
            }
            request = Some(option.value);
        } else if !option.rest.is_empty() {
            return Ok(Request::BgRemove { name, request, items: arguments::items(option.rest)? });
        }
    }
    Err(Refusal::err("BG.REMOVE needs ITEMS and at least one item: BG.REMOVE name [REQUEST id] ITEMS item"))
}

fn info(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let field = args.from(2).first().map(|field| label("a field", field)).transpose()?;
    Ok(Request::BgInfo { name: args.name(1)?, field })
}

/// Filters whose measurements are kept, so more cannot be told.
const MOST_STATS: u64 = 4_096;

fn stats(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    match args.len() {
        1 => Ok(Request::BgStats { name: None, count: None }),
        2 => Ok(Request::BgStats { name: Some(args.name(1)?), count: None }),
        _ if args.word(1).eq_ignore_ascii_case(b"COUNT") => {
            Ok(Request::BgStats { name: None, count: Some(within("COUNT", args.word(2), 1, MOST_STATS)?) })
        }
        _ => Err(Refusal::err("BG.STATS takes a name, or COUNT and a number")),
    }
}

fn audit(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let reset = args.options(Unknown::Named).only()?.is_some();
    Ok(Request::BgAudit { name: args.name(1)?, reset })
}

fn delta(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let word = args.word(2);
    // An address has 64 digits, more than any number.
    let base = match number::unsigned(word) {
        Some(version) => DeltaBase::Version(version),
        None => DeltaBase::Address(shown(word).parse()?),
    };
    Ok(Request::BgDelta { name: args.name(1)?, base })
}

fn fold(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let name = args.name(1)?;
    if args.len() == 3 {
        let factor = within("a factor (or the word RATE and a rate)", args.word(2), 2, 1 << 20)?;
        return Ok(Request::BgFold { name, to: FoldTo::Factor(factor as u32) });
    }
    match args.options(Unknown::Named).only()? {
        Some(option) => Ok(Request::BgFold { name, to: FoldTo::Rate(rate("RATE", option.value)?) }),
        None => Err(args.wrong_number()),
    }
}

fn copy(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let replace = args.options(Unknown::Named).only()?.is_some();
    Ok(Request::BgCopy { source: args.name(1)?, destination: args.name(2)?, replace })
}

fn build(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let name = args.name(1)?;
    let (mut file, mut of, mut capacity, mut at, mut replace) = (None, None, None, None, false);
    let (mut contract, mut like) = (None, None);
    let mut options = args.options(Unknown::Named);
    while let Some(option) = options.next()? {
        match option.name {
            "FROM" => file = Some(import(option.value)?),
            "KIND" => of = Some(kind(option.value, false)?),
            "CAPACITY" => capacity = Some(within("CAPACITY", option.value, 1, MAX_ITEMS)?),
            "RATE" => at = Some(rate("RATE", option.value)?),
            "CONTRACT" => contract = Some(label("a contract's name", option.value)?),
            "LIKE" => like = Some(arguments::name(option.value)?),
            _ => replace = true,
        }
    }
    let Some(file) = file else {
        return Err(Refusal::err("BG.BUILD needs FROM and a file of the import folder: BG.BUILD name FROM items.txt"));
    };
    if contract.is_some() && like.is_some() {
        return Err(Refusal::err("LIKE takes the contract of the other filter: leave CONTRACT out"));
    }
    Ok(Request::BgBuild { name, file, kind: of, capacity, rate: at, contract, like, replace })
}

/// A path below the import folder: relative, and it cannot climb out of it.
fn import(text: &[u8]) -> Result<&str, Refusal> {
    let inside = |path: &&str| {
        !path.is_empty()
            && path.len() <= 1024
            && !path.contains(['\0', '\\'])
            && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
    };
    std::str::from_utf8(text).ok().filter(inside).ok_or_else(|| {
        let text = shown(text);
        Refusal::err(format_args!("a file is a path below the import folder, such as lists/items.txt, not '{text}'"))
    })
}

fn rekey(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let steps = [
        ("START", RekeyStep::Start),
        ("STATUS", RekeyStep::Status),
        ("FINISH", RekeyStep::Finish { force: false }),
        ("ABORT", RekeyStep::Abort),
    ];
    let mut step = choice("the step", args.word(2), &steps)?;
    if args.len() > 3 {
        match &mut step {
            RekeyStep::Finish { force } => *force = choice("the word after FINISH", args.word(3), &[("FORCE", true)])?,
            _ => return Err(Refusal::err("FORCE goes with FINISH alone")),
        }
    }
    Ok(Request::BgRekey { name: args.name(1)?, step })
}

fn help(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let command = match args.from(1).first() {
        None => None,
        Some(name) => Some(find(name).ok_or_else(|| {
            Refusal::err(format_args!("there is no command '{}': COMMAND LIST gives all names", shown(name)))
        })?),
    };
    Ok(Request::BgHelp { command })
}
