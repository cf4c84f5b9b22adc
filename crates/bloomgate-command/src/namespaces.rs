//! `BG.NAMESPACE`: tenants. A declared namespace is a prefix of names with limits of its own.

use crate::arguments::{Arguments, within};
use crate::number;
use crate::options::{Unknown, Word, value};
use crate::refusal::{Refusal, shown};
use crate::request::{NamespaceChange, Request};
use crate::spec::{Flag, Group, Parser, Spec};

/// A change stops all writers: within a transaction it would wait for itself.
const CHANGE: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::NoMulti];
const ADMIN: &[Flag] = &[Flag::Admin, Flag::Noscript];

const SET: &[Word] = &[value("PREFIX"), value("MAXMEMORY"), value("MAXFILTERS"), value("ITEMSPERSECOND")];
/// The most of any limit: as many bytes as one can ask for.
const MOST: u64 = 1 << 50;

const fn namespace(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Bloomgate, least, most, parser).keys(0, 0, 0)
}

const NAMESPACE: [Spec; 4] = [
    namespace("bg.namespace|set", 3, 11, set)
        .flags(CHANGE)
        .options(3, SET)
        .says(
            "name [PREFIX prefix] [MAXMEMORY size] [MAXFILTERS n] [ITEMSPERSECOND n]",
            "Declares a namespace, or changes one: what is not said stays, and 0 is no limit. A size may have a \
             unit (512MB, 8GiB). Its filters are those whose \
             names begin with the prefix, which a new one needs; where several prefixes fit, the longest counts. Filters \
             that are there already belong to it at once, also if they take more than it may have: then it gets no more. \
             The prefix of one that has filters stays. \
             Items beyond ITEMSPERSECOND, asked for or added, make their connections wait; 256 bytes of an item cost as much as \
             another, and commands without items cost by the time they take.",
        )
        .costs("O(n) for n filters if the prefix is new, else O(1)")
        .example("BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 100MB MAXFILTERS 1000 ITEMSPERSECOND 500000", "OK")
        .heavy(),
    namespace("bg.namespace|list", 2, 2, |_| Ok(Request::BgNamespaceList))
        .flags(ADMIN)
        .says("", "The names of the declared namespaces.")
        .costs("O(n) for n namespaces")
        .example("BG.NAMESPACE LIST", "1) shop"),
    namespace("bg.namespace|info", 3, 3, |args| Ok(Request::BgNamespaceInfo { name: args.word(2) }))
        .flags(ADMIN)
        .says(
            "name",
            "The limits of a namespace, what its filters take, and what was counted about them. A user that is bound to it may \
             ask without the role.",
        )
        .example("BG.NAMESPACE INFO shop", "1) name\n2) shop\n3) prefix\n4) shop:\n5) filters\n6) 0\n7) ..."),
    namespace("bg.namespace|del", 3, 3, |args| Ok(Request::BgNamespaceDel { name: args.word(2) }))
        .flags(CHANGE)
        .says(
            "name",
            "A namespace is no more; its filters stay and belong to none. It is refused while users are bound to it.",
        )
        .costs("O(n) for n filters")
        .example("BG.NAMESPACE DEL shop", "OK")
        .heavy(),
];

pub(crate) const SPEC: Spec = namespace("bg.namespace", 2, u32::MAX, |args| Err(args.wrong_number()))
    .flags(&[Flag::Fast])
    .says("subcommand [argument ...]", "Tenants: prefixes of names with limits of their own.")
    .example("BG.NAMESPACE LIST", "(empty array)")
    .subcommands(&NAMESPACE);

/// Bytes, with a unit if one is said; 0 for no limit.
fn memory(text: &[u8]) -> Result<u64, Refusal> {
    let bytes = match text {
        b"0" => Some(0),
        _ => std::str::from_utf8(text).ok().filter(|text| text.len() <= 32).and_then(number::size),
    };
    bytes.filter(|&bytes| bytes <= MOST).ok_or_else(|| {
        let text = shown(text);
        Refusal::err(format_args!(
            "MAXMEMORY must be a size up to {MOST} bytes, like 512MB, 8GiB or 1000000, or 0 for no limit, not '{text}'"
        ))
    })
}

fn set(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let mut change = NamespaceChange::default();
    let mut options = args.options(Unknown::Named);
    while let Some(option) = options.next()? {
        let number = || within(option.name, option.value, 0, MOST);
        match option.name {
            "PREFIX" => {
                change.prefix = Some(std::str::from_utf8(option.value).map_err(|_| {
                    Refusal::err(format_args!("a PREFIX is text (UTF-8), not '{}'", shown(option.value)))
                })?);
            }
            "MAXMEMORY" => change.max_memory = Some(memory(option.value)?),
            "MAXFILTERS" => change.max_filters = Some(number()?),
            _ => change.items_per_second = Some(number()?),
        }
    }
    Ok(Request::BgNamespaceSet { name: args.word(2), change })
}
