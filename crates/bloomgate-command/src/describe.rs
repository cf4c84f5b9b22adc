//! The table told to clients: what `COMMAND` and its subcommands, `ACL CAT` and `HELP` answer.

use std::sync::OnceLock;

use crate::arguments;
use crate::glob;
use crate::hints::{Hint, hints};
use crate::refusal::Refusal;
use crate::reply::{Protocol, Reply};
use crate::request::{CommandFilter, CommandQuery};
use crate::spec::{Flag, Keys, Right, Spec};
use crate::table::{TABLE, every_command, find};

/// `COMMAND GETKEYS` looks at so many words.
const MAX_WORDS: usize = 1_024;

/// What `COMMAND` answers to this question.
#[must_use]
pub fn command_reply(query: &CommandQuery<'_>) -> Reply {
    match *query {
        CommandQuery::All => Reply::Array(TABLE.iter().map(entry).collect()),
        CommandQuery::Count => Reply::Int(TABLE.len() as i64),
        CommandQuery::Docs([]) => Reply::Map(TABLE.iter().map(|spec| (spec.name.into(), docs(spec))).collect()),
        CommandQuery::Docs(names) if names.len() > every_command().count() => too_many_names(names.len()),
        CommandQuery::Docs(names) => {
            // A map has each name once, however often it was asked for.
            let mut specs: Vec<&Spec> = Vec::new();
            for spec in names.iter().filter_map(|name| find_any(name)) {
                if !specs.iter().any(|known| known.name == spec.name) {
                    specs.push(spec);
                }
            }
            Reply::Map(specs.into_iter().map(|spec| (spec.name.into(), docs(spec))).collect())
        }
        CommandQuery::Info([]) => Reply::Array(TABLE.iter().map(entry).collect()),
        CommandQuery::Info(names) if names.len() > every_command().count() => too_many_names(names.len()),
        CommandQuery::Info(names) => {
            Reply::Array(names.iter().map(|name| find_any(name).map_or(Reply::NilArray, entry)).collect())
        }
        CommandQuery::List(filter) => list(filter),
        CommandQuery::GetKeys(words) => Reply::from(keys_of(words)),
    }
}

/// A name takes 12 bytes to send and its description kilobytes: without a limit one request would fill the memory.
#[cold]
fn too_many_names(count: usize) -> Reply {
    let most = every_command().count();
    Reply::Error(Refusal::err(format_args!(
        "{count} commands were asked for, and there are {most}: ask for each once, or without names for all"
    )))
}

/// [`command_reply`] in a protocol. What tells the whole table is put together once: 66 KB of `COMMAND DOCS` took 350 us, and
/// clients that ask for it a thousand times and never read made others wait half a second.
#[must_use]
pub fn command_reply_in(protocol: Protocol, query: &CommandQuery<'_>) -> Reply {
    static ENTRIES: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    static DOCS: [OnceLock<Vec<u8>>; 2] = [const { OnceLock::new() }; 2];
    let whole = match *query {
        CommandQuery::All | CommandQuery::Info([]) => &ENTRIES,
        CommandQuery::Docs([]) => &DOCS,
        _ => return command_reply(query),
    };
    let bytes = whole[protocol as usize].get_or_init(|| command_reply(query).to_bytes(protocol));
    Reply::Raw(bytes.clone())
}

/// What `ACL CAT` answers: the rights, or the commands that need one.
#[must_use]
pub fn acl_cat_reply(category: Option<&[u8]>) -> Reply {
    match category {
        None => Reply::Array(Right::ALL.iter().map(|right| right.name()[1..].to_string().into()).collect()),
        Some(category) => list(CommandFilter::Category(category)),
    }
}

/// What `CLIENT HELP` and the help of other containers answer: a line of syntax and one of words each.
#[must_use]
pub fn help_reply(container: &Spec) -> Reply {
    let name = container.name.to_ascii_uppercase();
    let head = format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    let mut lines = vec![Reply::simple(head)];
    for spec in container.subcommands {
        let word = spec.word().to_ascii_uppercase();
        lines.push(Reply::simple(if spec.syntax.is_empty() { word } else { format!("{word} {}", spec.syntax) }));
        lines.push(Reply::simple(format!("    {}", spec.summary)));
    }
    lines.push(Reply::simple("HELP"));
    lines.push(Reply::simple("    Print this help."));
    Reply::Array(lines)
}

/// A command or, as `client|id`, a subcommand.
fn find_any(name: &[u8]) -> Option<&'static Spec> {
    match name.iter().position(|&byte| byte == b'|') {
        None => find(name),
        Some(bar) => find(&name[..bar])?.subcommand(&name[bar + 1..]),
    }
}

/// One command as Redis 7 describes it, in ten elements.
fn entry(spec: &Spec) -> Reply {
    let Keys { first, last, step } = spec.keys;
    let keys = if first > 0 { vec![key_range(spec)] } else { Vec::new() };
    Reply::Array(vec![
        spec.name.into(),
        Reply::Int(spec.arity.signed()),
        Reply::Set(spec.flags.iter().map(|flag| Reply::simple(flag.name())).collect()),
        Reply::Int(first.into()),
        Reply::Int(last.into()),
        Reply::Int(step.into()),
        Reply::Set(spec.rights.iter().map(|right| Reply::simple(right.name())).collect()),
        Reply::Array(Vec::new()),
        Reply::Array(keys),
        Reply::Array(spec.subcommands.iter().map(entry).collect()),
    ])
}

/// Where the keys stand, as Redis 7 says it: where the search begins, and how far it goes.
fn key_range(spec: &Spec) -> Reply {
    let Keys { first, last, step } = spec.keys;
    let reach = if last < 0 { last } else { last - first };
    let flags: &[&'static str] = match spec.name {
        "del" | "unlink" => &["RM", "delete"],
        _ if spec.has(Flag::Write) => &["RW", "update"],
        _ => &["RO", "access"],
    };
    let begin = Reply::Map(vec![("index".into(), Reply::Int(first.into()))]);
    let find = Reply::Map(vec![
        ("lastkey".into(), Reply::Int(reach.into())),
        ("keystep".into(), Reply::Int(step.into())),
        ("limit".into(), Reply::Int(0)),
    ]);
    Reply::Map(vec![
        ("flags".into(), Reply::Set(flags.iter().map(|&flag| Reply::simple(flag)).collect())),
        ("begin_search".into(), Reply::Map(vec![("type".into(), "index".into()), ("spec".into(), begin)])),
        ("find_keys".into(), Reply::Map(vec![("type".into(), "range".into()), ("spec".into(), find)])),
    ])
}

fn docs(spec: &Spec) -> Reply {
    let mut pairs: Vec<(Reply, Reply)> = vec![
        ("summary".into(), spec.summary.into()),
        ("since".into(), spec.since.into()),
        ("group".into(), spec.group.name().into()),
        ("complexity".into(), spec.complexity.into()),
        ("syntax".into(), spec.usage().into()),
    ];
    if !spec.subcommands.is_empty() {
        let subcommands = spec.subcommands.iter().map(|sub| (sub.name.into(), docs(sub))).collect();
        pairs.push(("subcommands".into(), Reply::Map(subcommands)));
    } else if !spec.syntax.is_empty() {
        let arguments = hints(spec).iter().map(Hint::reply).collect();
        pairs.push(("arguments".into(), Reply::Array(arguments)));
    }
    Reply::Map(pairs)
}

fn list(filter: CommandFilter<'_>) -> Reply {
    let passes = |spec: &&Spec| match filter {
        CommandFilter::None => true,
        CommandFilter::Module(module) => module.eq_ignore_ascii_case(b"bf") && matches!(spec.group.name(), "bf" | "cf"),
        CommandFilter::Category(name) => Right::find(name).is_some_and(|right| spec.rights.contains(right)),
        CommandFilter::Pattern(pattern) => glob::matches(&pattern.to_ascii_lowercase(), spec.name.as_bytes()),
    };
    // Containers alone have no rights of their own: their subcommands are listed with them.
    let all = TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    Reply::Array(all.filter(passes).map(|spec| spec.name.into()).collect())
}

fn keys_of(words: &[&[u8]]) -> Result<Reply, Refusal> {
    if words.len() > MAX_WORDS {
        return Err(Refusal::err(format_args!(
            "the command has {} words, of {MAX_WORDS} that are looked at: leave most of its names out",
            words.len()
        )));
    }
    let Some(mut spec) = words.first().and_then(|name| find(name)) else {
        return Err(Refusal::fixed("ERR Invalid command specified"));
    };
    if let Some(subcommand) = words.get(1).and_then(|word| spec.subcommand(word)) {
        spec = subcommand;
    }
    if spec.keys.first == 0 {
        return Err(Refusal::fixed("ERR The command has no key arguments"));
    }
    if !spec.arity.allows(words.len()) {
        return Err(Refusal::fixed("ERR Invalid number of arguments specified for command"));
    }
    let names: Result<Vec<Reply>, Refusal> =
        spec.names_in(words).map(|name| arguments::name(name).map(|name| Reply::Bulk(name.to_vec()))).collect();
    names.map(Reply::Array)
}
