//! Redis's commands for the connection itself and for transactions.

use crate::arguments::{self, Arguments, MAX_FEW};
use crate::number;
use crate::options::{Takes, Unknown, Word, flag, value};
use crate::refusal::{Refusal, shown};
use crate::request::{ClientAttribute, ClientKill, ClientReply, Request};
use crate::spec::{Flag, Group, Parser, Right, Spec};

const ANY: u32 = u32::MAX;
const OPEN: &[Flag] = &[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth];
const LOGIN: &[Flag] = &[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoAuth, Flag::NoMulti];
const OWN: &[Flag] = &[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast];
const OTHERS: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::Loading, Flag::Stale];

const HELLO: &[Word] = &[Word { name: "AUTH", takes: Takes::Two }, value("SETNAME")];
const LIST: &[Word] = &[value("TYPE"), Word { name: "ID", takes: Takes::Rest }];
const KILL: &[Word] = &[value("ID"), value("ADDR"), value("LADDR"), value("USER"), value("TYPE"), value("SKIPME")];
const ON_OFF: &[Word] = &[flag("ON"), flag("OFF")];
const REPLY: &[Word] = &[flag("ON"), flag("OFF"), flag("SKIP")];
const OFF: &[Word] = &[flag("OFF")];
const PAUSE: &[Word] = &[flag("WRITE"), flag("ALL")];

/// How those that change the conversation differ.
const NO_MULTI: &str = "It is refused between MULTI and EXEC, and EXEC with it; Redis runs it there.";

const fn connection(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Connection, least, most, parser)
}

const fn transaction(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Transactions, least, most, parser)
}

const CLIENT: [Spec; 13] = [
    connection("client|id", 2, 2, |_| Ok(Request::ClientId))
        .flags(OWN)
        .says("", "The number of this connection.")
        .example("CLIENT ID", "<id>"),
    connection("client|info", 2, 2, |_| Ok(Request::ClientInfo))
        .flags(OWN)
        .says("", "This connection in one line.")
        .example("CLIENT INFO", "id=<id> addr=..."),
    connection("client|list", 2, ANY, client_list)
        .flags(OTHERS)
        .options(2, LIST)
        .says("[TYPE normal] [ID id [id ...]]", "Connections, one line each.")
        .costs("O(n) for n connections")
        .example("CLIENT LIST", "id=<id> addr=..."),
    connection("client|getname", 2, 2, |_| Ok(Request::ClientGetname))
        .flags(OWN)
        .says("", "The name this connection was given, or nil.")
        .example("CLIENT GETNAME", "(nil)"),
    connection("client|setname", 3, 3, |args| Ok(Request::ClientSetname { name: client_name(args.word(2))? }))
        .flags(OWN)
        .says("name", "Names this connection.")
        .example("CLIENT SETNAME loader", "OK"),
    connection("client|setinfo", 4, 4, client_setinfo)
        .flags(OWN)
        .says("(LIB-NAME name | LIB-VER version)", "Says which library the client uses.")
        .example("CLIENT SETINFO LIB-NAME redis-py", "OK"),
    connection("client|kill", 3, ANY, client_kill)
        .flags(OTHERS)
        .options(2, KILL)
        .says(
            "(ip:port | [ID id] [ADDR ip:port] [LADDR ip:port] [USER name] [TYPE normal] [SKIPME yes|no])",
            "Ends connections.",
        )
        .costs("O(n) for n connections")
        .example("CLIENT KILL ID 9999", "0"),
    connection("client|no-evict", 3, 3, |args| on_off(args).map(|on| Request::ClientNoEvict { on }))
        .flags(OTHERS)
        .options(2, ON_OFF)
        .says("(ON | OFF)", "Taken for compatibility: nobody is evicted.")
        .example("CLIENT NO-EVICT ON", "OK"),
    connection("client|no-touch", 3, 3, |args| on_off(args).map(|on| Request::ClientNoTouch { on }))
        .flags(OWN)
        .options(2, ON_OFF)
        .says("(ON | OFF)", "Taken for compatibility: nothing is evicted by use.")
        .example("CLIENT NO-TOUCH ON", "OK"),
    connection("client|reply", 3, 3, client_reply)
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoMulti])
        .differs(NO_MULTI)
        .options(2, REPLY)
        .says("(ON | OFF | SKIP)", "Whether this connection gets replies.")
        .example("CLIENT REPLY ON", "OK"),
    connection("client|tracking", 3, 3, client_tracking)
        .flags(OWN)
        .options(2, OFF)
        .says("OFF", "There is no tracking of names: it can only be off.")
        .differs("ON is an error: there are no invalidations, and nothing to keep in a client's cache but answers that change with every add.")
        .example("CLIENT TRACKING OFF", "OK"),
    connection("client|pause", 3, 4, client_pause)
        .flags(OTHERS)
        .options(3, PAUSE)
        .says("milliseconds [WRITE | ALL]", "Refused: clients are not paused.")
        .differs("An error that says so; Redis holds clients off for that time.")
        .example("CLIENT PAUSE 100 WRITE", "(error) ERR clients are not paused: ..."),
    connection("client|unpause", 2, 2, |_| Ok(Request::ClientUnpause))
        .flags(OTHERS)
        .says("", "Answers OK: nobody is paused.")
        .example("CLIENT UNPAUSE", "OK"),
];

pub(crate) const SPECS: [Spec; 13] = [
    connection("hello", 1, ANY, hello)
        .flags(LOGIN)
        .differs(NO_MULTI)
        .options(2, HELLO)
        .says(
            "[(2 | 3) [AUTH user password] [SETNAME name]]",
            "Chooses the protocol, logs in, and says who the server is.",
        )
        .example(
            "HELLO 3 AUTH default secret SETNAME loader",
            "1# server => redis\n2# version => 8.0.0\n3# proto => 3\n4# ...",
        ),
    connection("auth", 2, ANY, auth)
        .flags(LOGIN)
        .differs(NO_MULTI)
        .says("[user] password", "Logs in.")
        .example("AUTH default secret", "OK"),
    connection("ping", 1, 2, |args| Ok(Request::Ping { message: args.from(1).first().copied() }))
        .flags(&[Flag::Fast])
        .says("[message]", "Answers PONG, or the message.")
        .example("PING", "PONG"),
    connection("echo", 2, 2, |args| Ok(Request::Echo { message: args.word(1) }))
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .says("message", "Answers the message.")
        .example("ECHO hello", "hello"),
    connection("select", 2, 2, select)
        .flags(&[Flag::Loading, Flag::Stale, Flag::Fast])
        .says("index", "Chooses a database; there is one, 0.")
        .example("SELECT 0", "OK"),
    connection("reset", 1, 1, |_| Ok(Request::Reset))
        .flags(OPEN)
        .says("", "Makes the connection as new.")
        .example("RESET", "RESET"),
    connection("quit", 1, ANY, |_| Ok(Request::Quit))
        .flags(OPEN)
        .says("", "Ends the connection after its replies.")
        .example("QUIT", "OK"),
    connection("client", 2, ANY, |args| Err(args.wrong_number()))
        .flags(OWN)
        .says("subcommand [argument ...]", "Connections.")
        .example("CLIENT ID", "<id>")
        .subcommands(&CLIENT),
    transaction("multi", 1, 1, |_| Ok(Request::Multi))
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast])
        .says("", "Begins a transaction: commands are queued until EXEC.")
        .example("MULTI", "OK\n> BF.ADD seen alice\nQUEUED\n> EXEC\n1) 0"),
    transaction("exec", 1, 1, |_| Ok(Request::Exec))
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale])
        .says("", "Runs the queued commands as one; nil if a watched name changed.")
        .differs("Others do not write meanwhile where a queued command writes, a name is watched, or two of them look at filters; lookups of others go on. A long one that only asks runs beside writers.")
        .costs("that of the queued commands")
        .example("EXEC", "(error) ERR EXEC without MULTI"),
    transaction("discard", 1, 1, |_| Ok(Request::Discard))
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast])
        .says("", "Forgets the queued commands.")
        .example("DISCARD", "(error) ERR DISCARD without MULTI"),
    transaction("watch", 2, ANY, |args| Ok(Request::Watch { keys: args.names(1)? }))
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast, Flag::NoMulti])
        .keys(1, -1, 1)
        .right(Right::Read)
        .says("key [key ...]", "EXEC runs only if these names do not change before it.")
        .differs("A name without a filter that gets one and loses it again before EXEC has not changed; in Redis it has.")
        .costs("O(n) for n names")
        .example("WATCH seen", "OK"),
    transaction("unwatch", 1, 1, |_| Ok(Request::Unwatch))
        .flags(&[Flag::Noscript, Flag::Loading, Flag::Stale, Flag::Fast])
        .says("", "Forgets the watched names.")
        .example("UNWATCH", "OK"),
];

/// A name that fits into the lines of `CLIENT LIST`.
fn printable<'a>(what: &str, text: &'a [u8]) -> Result<&'a [u8], Refusal> {
    if text.iter().all(u8::is_ascii_graphic) {
        return Ok(text);
    }
    Err(Refusal::err(format_args!("{what} cannot contain spaces, newlines or special characters.")))
}

/// Names are kept for every connection, so they are short: 256 bytes.
fn client_name(text: &[u8]) -> Result<&[u8], Refusal> {
    if text.len() > 256 {
        return Err(Refusal::err(format_args!("a client's name is at most 256 bytes, not {}", text.len())));
    }
    printable("Client names", text)
}

fn hello(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let (mut auth, mut name) = (None, None);
    let version = match args.from(1).first() {
        None => None,
        Some(text) => match number::integer(text).ok_or(Refusal::PROTO_NOT_INTEGER)? {
            version @ 2..=3 => Some(version as u8),
            _ => return Err(Refusal::NO_PROTO),
        },
    };
    let mut options = args.options(Unknown::Hello);
    while let Some(option) = options.next()? {
        match (option.name, option.rest) {
            ("AUTH", [user, password]) => auth = Some((*user, *password)),
            _ => name = Some(client_name(option.value)?),
        }
    }
    Ok(Request::Hello { version, auth, name })
}

fn auth(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    Ok(match args.from(1) {
        [password] => Request::Auth { user: None, password },
        [user, password] => Request::Auth { user: Some(user), password },
        _ => return Err(Refusal::SYNTAX),
    })
}

fn select(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let index = u64::try_from(args.integer(1)?).map_err(|_| Refusal::DB_INDEX)?;
    Ok(Request::Select { index })
}

fn client_type(text: &[u8]) -> Result<&[u8], Refusal> {
    let types = ["normal", "master", "replica", "slave", "pubsub"];
    if types.iter().any(|known| text.eq_ignore_ascii_case(known.as_bytes())) {
        return Ok(text);
    }
    Err(Refusal::err(format_args!("Unknown client type '{}'", shown(text))))
}

fn client_list(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let (mut kind, mut ids) = (None, &[][..]);
    let mut options = args.options(Unknown::Syntax);
    while let Some(option) = options.next()? {
        if option.name == "TYPE" {
            kind = Some(client_type(option.value)?);
        } else if option.rest.is_empty() {
            return Err(Refusal::SYNTAX);
        } else if option.rest.iter().any(|id| number::integer(id).is_none_or(|id| id < 1)) {
            return Err(Refusal::err("Invalid client ID"));
        } else if option.rest.len() > MAX_FEW {
            return Err(Refusal::err(format_args!(
                "'client|list' takes {MAX_FEW} ids at most, not {}: ask for fewer, or for all",
                option.rest.len()
            )));
        } else {
            ids = option.rest;
        }
    }
    Ok(Request::ClientList { kind, ids })
}

fn client_setinfo(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let (word, value) = (args.word(2), args.word(3));
    let (attribute, what) = if word.eq_ignore_ascii_case(b"LIB-NAME") {
        (ClientAttribute::LibName, "lib-name")
    } else if word.eq_ignore_ascii_case(b"LIB-VER") {
        (ClientAttribute::LibVer, "lib-ver")
    } else {
        return Err(Refusal::err(format_args!("Unrecognized option '{}'", shown(word))));
    };
    if value.len() > 256 {
        return Err(Refusal::err(format_args!("{what} is at most 256 bytes, not {}", value.len())));
    }
    Ok(Request::ClientSetinfo { attribute, value: printable(what, value)? })
}

fn client_kill(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    if args.len() == 3 {
        return Ok(Request::ClientKill(ClientKill::Address(args.word(2))));
    }
    let (mut id, mut address, mut local, mut user, mut skip_me) = (None, None, None, None, true);
    let mut options = args.options(Unknown::Syntax);
    while let Some(option) = options.next()? {
        let text = option.value;
        match option.name {
            "ID" => {
                let number = number::integer(text).filter(|&id| id > 0);
                id = Some(number.ok_or_else(|| Refusal::err("client-id should be greater than 0"))?);
            }
            "ADDR" => address = Some(text),
            "LADDR" => local = Some(text),
            "USER" => user = Some(arguments::name(text)?),
            // Every client is a normal one: of the other types there is none, and an id of 0 nobody has.
            "TYPE" if !client_type(text)?.eq_ignore_ascii_case(b"normal") => id = Some(0),
            "TYPE" => {}
            _ if text.eq_ignore_ascii_case(b"yes") => skip_me = true,
            _ if text.eq_ignore_ascii_case(b"no") => skip_me = false,
            _ => return Err(Refusal::SYNTAX),
        }
    }
    Ok(Request::ClientKill(ClientKill::Matching { id, address, local, user, skip_me }))
}

/// The only word of a command that takes one option.
fn only_word(args: Arguments<'_>) -> Result<&'static str, Refusal> {
    args.options(Unknown::Syntax).only()?.map(|option| option.name).ok_or(Refusal::SYNTAX)
}

fn on_off(args: Arguments<'_>) -> Result<bool, Refusal> {
    only_word(args).map(|word| word == "ON")
}

fn client_reply(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    Ok(Request::ClientReply(match only_word(args)? {
        "ON" => ClientReply::On,
        "OFF" => ClientReply::Off,
        _ => ClientReply::Skip,
    }))
}

fn client_tracking(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    if args.word(2).eq_ignore_ascii_case(b"on") {
        return Err(Refusal::err("tracking of names is not supported: leave client-side caching off"));
    }
    only_word(args).map(|_| Request::ClientTrackingOff)
}

fn client_pause(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let time = number::integer(args.word(2)).ok_or(Refusal::new("ERR timeout is not an integer or out of range"))?;
    let milliseconds = u64::try_from(time).map_err(|_| Refusal::new("ERR timeout is negative"))?;
    let mode = args.options(Unknown::Syntax).only().map_err(|_| {
        // The same text for every other word.
        Refusal::new("ERR CLIENT PAUSE mode must be WRITE or ALL")
    })?;
    let writes_only = mode.is_some_and(|option| option.name == "WRITE");
    Ok(Request::ClientPause { milliseconds, writes_only })
}
