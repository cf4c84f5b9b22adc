//! `ACL`: users, their passwords and their roles, in Redis's words.

use crate::arguments::Arguments;
use crate::number;
use crate::refusal::{Refusal, shown};
use crate::request::{AclLog, Request};
use crate::spec::{Flag, Group, Parser, Right, Spec};

const ANY: u32 = u32::MAX;
const OPEN: &[Flag] = &[Flag::Noscript, Flag::Loading, Flag::Stale];
const ADMIN: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::Loading, Flag::Stale];
/// They write a file and hash passwords, for which no transaction may hold everybody up.
const CHANGE: &[Flag] = &[Flag::Admin, Flag::Noscript, Flag::Loading, Flag::Stale, Flag::NoMulti];

const fn acl(name: &'static str, least: u32, most: u32, parser: Parser) -> Spec {
    Spec::new(name, Group::Server, least, most, parser)
}

pub(crate) const SUBCOMMANDS: [Spec; 12] = [
    acl("acl|whoami", 2, 2, |_| Ok(Request::AclWhoami))
        .flags(OPEN)
        .says("", "The user of this connection.")
        .example("ACL WHOAMI", "default"),
    acl("acl|cat", 2, 3, cat)
        .flags(OPEN)
        .says("[category]", "The rights there are, or the commands of one.")
        .example("ACL CAT delete", "1) cf.del\n2) bg.remove\n3) ..."),
    acl("acl|genpass", 2, 3, genpass)
        .flags(OPEN)
        .says("[bits]", "A random password of 256 bits, or of so many, in hexadecimal digits.")
        .example("ACL GENPASS 32", "<password>"),
    acl("acl|setuser", 3, ANY, |args| Ok(Request::AclSetuser { user: args.word(2), rules: args.few(3)? }))
        .flags(CHANGE)
        .says("user [rule [rule ...]]", "Makes or changes a user; all rules or none. Rules: on, off, >password, <password, nopass, resetpass, #sha256, +@role, -@role (read, write, delete, admin, all), namespace=NAME (* for all), reset.")
        .costs("O(1), about 25 ms for each password")
        .differs("A user has roles (+@read, +@write, +@delete, +@admin, +@all) and at most one namespace, not single commands, categories, patterns of names or selectors: those are errors. ~*, &*, allkeys and allchannels are taken and change nothing. Passwords are kept as Argon2id. A new user that is on and has roles needs a password, or nopass or resetpass said: in Redis it is made, and nobody can log in. The access file is written at once.")
        .example("ACL SETUSER shop on >long-and-random +@read +@write", "OK")
        .heavy(),
    acl("acl|getuser", 3, 3, |args| Ok(Request::AclGetuser { user: args.word(2) }))
        .flags(ADMIN)
        .says("user", "The roles and the namespace of a user, or nil.")
        .differs("Of passwords it tells how they are hashed, not the hashes; and there is a field more, namespace.")
        .example("ACL GETUSER shop", "1) flags\n2) 1) on\n3) passwords\n4) 1) (argon2id)\n5) commands\n6) -@all +@read +@write\n7) ..."),
    acl("acl|list", 2, 2, |_| Ok(Request::AclList))
        .flags(ADMIN)
        .says("", "The users with their roles.")
        .costs("O(n) for n users")
        .differs("Of passwords it tells how they are hashed, not the hashes.")
        .example("ACL LIST", "1) user default on nopass ~* &* +@all\n2) user shop on #(argon2id) ~* &* -@all +@read +@write"),
    acl("acl|users", 2, 2, |_| Ok(Request::AclUsers))
        .flags(ADMIN)
        .says("", "The names of the users.")
        .costs("O(n) for n users")
        .example("ACL USERS", "1) default\n2) shop"),
    acl("acl|dryrun", 4, ANY, |args| Ok(Request::AclDryrun { user: args.word(2), words: args.from(3) }))
        .flags(ADMIN)
        .says("user command [argument ...]", "Whether a user may give a command: OK, or why not. Nothing is done.")
        .example("ACL DRYRUN shop DEL seen", "User shop has no permissions to run the 'del' command: it needs the role delete"),
    acl("acl|log", 2, 3, log)
        .flags(ADMIN)
        .says("[count | RESET]", "Logins that failed and commands that were not allowed, newest first; 10 if not said. 128 are kept.")
        .example("ACL LOG RESET", "OK"),
    acl("acl|deluser", 3, ANY, |args| Ok(Request::AclDeluser { users: args.from(2) }))
        .flags(CHANGE)
        .says("user [user ...]", "Deletes users and ends their connections; answers how many there were.")
        .costs("O(n) for n users and connections")
        .example("ACL DELUSER shop", "1")
        .heavy(),
    acl("acl|save", 2, 2, |_| Ok(Request::AclSave))
        .flags(CHANGE)
        .says("", "Writes the access file, which every change does by itself.")
        .costs("O(n) for n users")
        .example("ACL SAVE", "OK")
        .heavy(),
    acl("acl|load", 2, 2, |_| Ok(Request::AclLoad))
        .flags(CHANGE)
        .says("", "Reads the access file again, all of it or nothing: for when it was changed by hand.")
        .costs("O(n) for n users and connections")
        .differs("The file is TOML, with users and namespaces; Redis's ACL files are not read.")
        .example("ACL LOAD", "OK")
        .heavy(),
];

fn cat(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let category = args.from(2).first().copied();
    if let Some(category) = category
        && Right::find(category).is_none()
    {
        return Err(Refusal::err(format_args!("Unknown category '{}'", shown(category))));
    }
    Ok(Request::AclCat { category })
}

fn genpass(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    let bits = match args.from(2).first() {
        None => 256,
        Some(text) => number::unsigned(text).filter(|bits| (1..=4096).contains(bits)).ok_or(Refusal::new(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
        ))?,
    };
    Ok(Request::AclGenpass { bits: bits as u16 })
}

fn log(args: Arguments<'_>) -> Result<Request<'_>, Refusal> {
    Ok(Request::AclLog(match args.from(2).first() {
        None => AclLog::Newest(10),
        Some(word) if word.eq_ignore_ascii_case(b"reset") => AclLog::Reset,
        Some(text) => AclLog::Newest(number::unsigned(text).ok_or(Refusal::NOT_INTEGER)?),
    }))
}
