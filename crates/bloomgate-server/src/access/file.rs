//! The access file: users and namespaces as TOML, for people to read and write too.
//!
//! ```toml
//! [users.shop]
//! password-hash = ["$argon2id$v=19$m=19456,t=2,p=1$..."]
//! roles = ["read", "write"]
//! namespace = "shop"
//!
//! [namespaces.shop]
//! prefix = "shop:"
//! max-memory = 1000000000
//! ```
//!
//! It is read whole or not at all, and an error has the line. Only its owner may read it, it is never a link, and it is
//! replaced in one step: written beside, synced, renamed.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

use bloomgate_command::{Role, Roles};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Book, MAX_PASSWORDS, MAX_USERS, Namespace, Password, User, check_name};
use crate::settings::table::{near, size};

/// Bytes of a file that are read: 10,000 users with eight passwords each have 13 MB.
const MOST_BYTES: u64 = 32 << 20;

const USER_KEYS: [&str; 5] = ["password-hash", "no-password", "roles", "namespace", "enabled"];
const NAMESPACE_KEYS: [&str; 4] = ["prefix", "max-memory", "max-filters", "items-per-second"];

/// The text of the file; none if there is no file.
pub fn read(path: &Path) -> Result<Option<String>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("the access file {}: {why}", path.display());
    // O_NONBLOCK: a pipe that someone put here must not hang the start.
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_symlink() => return Err(failed(&"it is a link; name the file itself")),
        Err(error) => return Err(failed(&error)),
    };
    // Asked of the open file, so it is the mode of the bytes that will be read.
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        return Err(failed(&"it is no regular file"));
    }
    if metadata.mode() & 0o077 != 0 {
        let (mode, path) = (metadata.mode() & 0o777, path.display());
        return Err(failed(&format_args!(
            "it has mode {mode:03o}: only its owner may have access, run `chmod 600 {path}`"
        )));
    }
    let mut text = String::new();
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(failed(&format_args!("it has more than {MOST_BYTES} bytes")));
    }
    Ok(Some(text))
}

/// Puts this text in place of the file, in one step; what is not sure then, if anything.
pub fn write(path: &Path, text: &str) -> Result<Option<String>, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = path.with_file_name(format!("{name}.tmp-{:016x}", crate::store::random()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    written.map_err(|error: std::io::Error| {
        // What could not be written is of no use; if it cannot be removed either, the next start does.
        let _ = std::fs::remove_file(&temporary);
        format!("the access file {} cannot be written: {error}; nothing was changed", path.display())
    })?;
    // It is in place all the same.
    Ok(sync_folder(path).err().map(|error| {
        format!(
            "the access file {} is written and in use, and its folder cannot be synced: {error}; a power cut may bring back \
             the one before, ACL SAVE tries again",
            path.display()
        )
    }))
}

fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Whether there is a file; an error where the disk does not say: without its users a server would be open to everybody.
pub fn is_there(path: &Path) -> Result<bool, String> {
    path.try_exists().map_err(|error| format!("looking for {}: {error}", path.display()))
}

/// Notes beside the data that the access file has users, or that it has none.
pub fn expect(note: Option<&Path>, has_users: bool) -> Result<(), String> {
    let Some(note) = note else { return Ok(()) };
    if is_there(note)? == has_users {
        return Ok(());
    }
    let noted = if has_users {
        let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(note);
        made.and_then(|mut file| {
            file.write_all(b"The access file of this server has users: it does not start without them.\n")?;
            file.sync_all()
        })
    } else {
        std::fs::remove_file(note)
    };
    noted
        .and_then(|()| sync_folder(note))
        .map_err(|error| format!("{} notes that there are users, and cannot be changed: {error}", note.display()))
}

/// A mistake and where it stands.
struct Wrong(usize, String);

fn wrong<T>(at: &Spanned<T>, why: impl Into<String>) -> Wrong {
    Wrong(at.span().start, why.into())
}

/// What a text holds. The error has the line and shows no hash.
pub fn parse(text: &str) -> Result<Book, String> {
    let line = |at: usize| text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        // Its own text shows the line, with what may be a hash in it.
        format!("line {}: {}", line(error.span().map_or(0, |span| span.start)), error.message())
    })?;
    book(table.get_ref()).map_err(|Wrong(at, why)| format!("line {}: {why}", line(at)))
}

fn book(table: &DeTable<'_>) -> Result<Book, Wrong> {
    let mut book = Book::default();
    for (key, value) in table {
        let entries = value.get_ref().as_table();
        let entries = entries.ok_or_else(|| wrong(key, format!("{} is a table of names", key.get_ref())))?;
        match key.get_ref().as_ref() {
            "users" if entries.len() > MAX_USERS => {
                return Err(wrong(key, format!("there are {} users, and {MAX_USERS} are allowed", entries.len())));
            }
            "users" => entries.iter().try_for_each(|(name, value)| {
                book.put(user(name, value)?);
                Ok(())
            })?,
            "namespaces" => entries.iter().try_for_each(|(name, value)| {
                let named = check_name("namespace", name.get_ref().as_bytes()).map_err(|why| wrong(name, why))?;
                book.namespaces.insert(named, namespace(name, value)?);
                Ok(())
            })?,
            other => return Err(wrong(key, unknown(other, &["users", "namespaces"]))),
        }
    }
    if let Err((name, why)) = book.check_namespaces() {
        let namespaces = table.get("namespaces").and_then(|all| all.get_ref().as_table());
        let at = namespaces.and_then(|all| all.get_key_value(name.as_str())).map_or(0, |(name, _)| name.span().start);
        return Err(Wrong(at, why));
    }
    // Only now all namespaces are known, wherever in the file they stand.
    for (name, value) in table.get("users").and_then(|users| users.get_ref().as_table()).into_iter().flatten() {
        let bound = book.user(name.get_ref()).and_then(|user| user.namespace.as_ref());
        if let Some(bound) = bound.filter(|bound| !book.namespaces.contains_key(*bound)) {
            let at = value.get_ref().get("namespace").unwrap_or(value);
            return Err(wrong(
                at,
                format!("user {} is bound to the namespace '{bound}', which is not in the file", name.get_ref()),
            ));
        }
    }
    Ok(book)
}

fn unknown(key: &str, known: &[&str]) -> String {
    match near(key, known.iter().copied()) {
        Some(near) => format!("there is no '{key}' here; did you mean '{near}'?"),
        None => format!("there is no '{key}' here; there are {}", known.join(", ")),
    }
}

type Name<'a> = Spanned<std::borrow::Cow<'a, str>>;

fn fields<'t, 'a>(what: &str, name: &Name<'_>, value: &'t Spanned<DeValue<'a>>) -> Result<&'t DeTable<'a>, Wrong> {
    value
        .get_ref()
        .as_table()
        .ok_or_else(|| wrong(name, format!("{what} {} is a table: [{what}s.{0}]", name.get_ref())))
}

fn user(name: &Name<'_>, value: &Spanned<DeValue<'_>>) -> Result<User, Wrong> {
    let named = check_name("user", name.get_ref().as_bytes()).map_err(|why| wrong(name, why))?;
    let mut user = User { enabled: true, ..User::new(named) };
    for (key, value) in fields("user", name, value)? {
        match key.get_ref().as_ref() {
            "enabled" => user.enabled = truth(value)?,
            "no-password" => user.no_password = truth(value)?,
            "namespace" => user.namespace = Some(text(value)?.to_owned()),
            "roles" => {
                let roles = texts(value)?.into_iter().map(|(at, text)| {
                    let there_are = "there are read, write, delete and admin";
                    Role::find(text.as_bytes()).ok_or_else(|| Wrong(at, format!("'{text}' is no role; {there_are}")))
                });
                user.roles = roles.collect::<Result<Roles, Wrong>>()?;
            }
            "password-hash" => {
                let hashes = texts(value)?;
                if hashes.len() > MAX_PASSWORDS {
                    return Err(wrong(
                        value,
                        format!("a user has at most {MAX_PASSWORDS} passwords, not {}", hashes.len()),
                    ));
                }
                let read =
                    |(at, text): (usize, &str)| Password::from_text(text).map(Arc::new).map_err(|why| Wrong(at, why));
                user.passwords = hashes.into_iter().map(read).collect::<Result<_, Wrong>>()?;
            }
            other => return Err(wrong(key, unknown(other, &USER_KEYS))),
        }
    }
    if user.no_password && !user.passwords.is_empty() {
        return Err(wrong(name, format!("user {} has both password-hash and no-password: leave one out", user.name)));
    }
    Ok(user)
}

fn namespace(name: &Name<'_>, value: &Spanned<DeValue<'_>>) -> Result<Namespace, Wrong> {
    let (mut namespace, mut has_prefix) = (Namespace::default(), false);
    for (key, value) in fields("namespace", name, value)? {
        match key.get_ref().as_ref() {
            "prefix" => (namespace.prefix, has_prefix) = (text(value)?.to_owned(), true),
            "max-memory" => namespace.max_memory = Some(bytes(value)?),
            "max-filters" => namespace.max_filters = Some(number(value)?),
            "items-per-second" => namespace.items_per_second = Some(number(value)?),
            other => return Err(wrong(key, unknown(other, &NAMESPACE_KEYS))),
        }
    }
    if !has_prefix {
        return Err(wrong(name, format!("namespace {} needs a prefix", name.get_ref())));
    }
    Ok(namespace)
}

fn truth(value: &Spanned<DeValue<'_>>) -> Result<bool, Wrong> {
    value.get_ref().as_bool().ok_or_else(|| wrong(value, "this is true or false, without quotes"))
}

fn text<'t>(value: &'t Spanned<DeValue<'_>>) -> Result<&'t str, Wrong> {
    value.get_ref().as_str().ok_or_else(|| wrong(value, "this is a text, in quotes"))
}

/// A list of texts, or one.
fn texts<'t>(value: &'t Spanned<DeValue<'_>>) -> Result<Vec<(usize, &'t str)>, Wrong> {
    match value.get_ref().as_array() {
        Some(all) => all.iter().map(|each| Ok((each.span().start, text(each)?))).collect(),
        None => Ok(vec![(value.span().start, text(value)?)]),
    }
}

/// A whole number.
fn number(value: &Spanned<DeValue<'_>>) -> Result<u64, Wrong> {
    match value.get_ref() {
        DeValue::Integer(integer) => u64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| wrong(value, "this is a whole number that is not negative")),
        _ => Err(wrong(value, "this is a whole number like 1000, without quotes")),
    }
}

/// Bytes: a whole number, or a text with a unit.
fn bytes(value: &Spanned<DeValue<'_>>) -> Result<u64, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => size(text).map_err(|why| wrong(value, why)),
        DeValue::Integer(_) => number(value),
        _ => Err(wrong(value, "this is a whole number, or a size like \"512MB\"")),
    }
}

/// The text of the file that holds all this. `default` is in it only if somebody said what it is, and the password of the
/// settings never.
#[must_use]
pub fn render(book: &Book) -> String {
    let mut out = String::from(
        "# Users and namespaces of this server. It writes this file when they are changed by commands: comments are lost then.\n\
         # After a change by hand: ACL LOAD, or SIGHUP. Only its owner may read it.\n",
    );
    for user in book.users.values().filter(|user| user.name != super::DEFAULT || book.default_is_declared) {
        out += &format!("\n[users.{}]\n", quoted(&user.name));
        let hashes: Vec<String> =
            user.passwords.iter().filter_map(|password| password.text()).map(|text| quoted(&text)).collect();
        if !hashes.is_empty() {
            out += &format!("password-hash = [{}]\n", hashes.join(", "));
        }
        if user.no_password {
            out += "no-password = true\n";
        }
        let roles: Vec<String> = user.roles.iter().map(|role| quoted(role.name())).collect();
        out += &format!("roles = [{}]\n", roles.join(", "));
        if let Some(namespace) = &user.namespace {
            out += &format!("namespace = {}\n", quoted(namespace));
        }
        if !user.enabled {
            out += "enabled = false\n";
        }
    }
    for (name, namespace) in &book.namespaces {
        out += &format!("\n[namespaces.{}]\nprefix = {}\n", quoted(name), quoted(&namespace.prefix));
        let rows = [namespace.max_memory, namespace.max_filters, namespace.items_per_second];
        for (key, value) in NAMESPACE_KEYS[1..].iter().zip(rows) {
            value.iter().for_each(|value| out += &format!("{key} = {value}\n"));
        }
    }
    out
}

/// A text in quotes, as TOML has it.
fn quoted(text: &str) -> String {
    let inner: String = text
        .chars()
        .map(|letter| match letter {
            '"' | '\\' => format!("\\{letter}"),
            letter if letter.is_control() => format!("\\u{:04X}", letter as u32),
            letter => letter.to_string(),
        })
        .collect();
    format!("\"{inner}\"")
}
