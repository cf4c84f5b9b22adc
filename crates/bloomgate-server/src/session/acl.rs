//! ACL: users by commands. What changes them runs on a worker: passwords are hashed and the access file is written.

use bloomgate_command::{AclLog, Refusal, Reply, Request, acl_cat_reply, parse};

use super::call::{Call, Outcome};
use super::desk::Desk;
use crate::access::notes::Note;
use crate::access::{DEFAULT, User, generate_password, rules};

/// Runs a command of this group.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    let access = &call.desk.access;
    Some(match *request {
        Request::AclCat { category } => Ok(acl_cat_reply(category)),
        Request::AclGenpass { bits } => answer(generate_password(bits).map(Reply::text)),
        Request::AclUsers => Ok(Reply::Array(access.book().users.keys().cloned().map(Reply::text).collect())),
        Request::AclList => {
            Ok(Reply::Array(access.book().users.values().map(|user| Reply::text(user.line())).collect()))
        }
        Request::AclGetuser { user } => Ok(find(call.desk, user).map_or(Reply::Nil, |user| described(&user))),
        Request::AclDryrun { user, words } => dry_run(call.desk, user, words),
        Request::AclLog(AclLog::Reset) => {
            access.notes.forget();
            Ok(Reply::Ok)
        }
        Request::AclLog(AclLog::Newest(count)) => {
            let now_ms = call.core.engine.clock.now_ms();
            let notes = access.notes.newest(usize::try_from(count).unwrap_or(usize::MAX));
            Ok(Reply::Array(notes.into_iter().map(|note| entry(note, now_ms)).collect()))
        }
        Request::AclSetuser { user, rules } => {
            let set = access.change(|book| rules::set_user(access, book, user, rules));
            call.desk.end_strangers();
            answer(set.map(|()| Reply::Ok))
        }
        Request::AclDeluser { users } => {
            let deleted = delete(call.desk, users);
            call.desk.end_strangers();
            answer(deleted.map(|count| Reply::Int(count as i64)))
        }
        Request::AclSave => answer(access.save().map(|()| Reply::Ok)),
        Request::AclLoad => answer(super::tenants::reload(&call.core.engine, call.desk).map(|()| Reply::Ok)),
        _ => return None,
    })
}

fn answer(outcome: Result<Reply, String>) -> Outcome {
    outcome.map_err(|why| Refusal::err(why).into())
}

fn find(desk: &Desk, name: &[u8]) -> Option<std::sync::Arc<User>> {
    desk.access.user(std::str::from_utf8(name).ok()?)
}

fn delete(desk: &Desk, names: &[&[u8]]) -> Result<usize, String> {
    desk.access.change(|book| {
        if names.contains(&DEFAULT.as_bytes()) {
            return Err("The 'default' user cannot be removed: switch it off (ACL SETUSER default off)".to_owned());
        }
        let named = names.iter().filter_map(|name| std::str::from_utf8(name).ok());
        Ok(named.filter(|name| book.users.remove(*name).is_some()).count())
    })
}

/// A user as ACL GETUSER describes one: in Redis's shape, with one field more.
fn described(user: &User) -> Reply {
    let mut flags = vec![Reply::text(if user.enabled { "on" } else { "off" })];
    if user.no_password {
        flags.push(Reply::text("nopass"));
    }
    let passwords = user.passwords.iter().map(|password| Reply::text(format!("({})", password.kind()))).collect();
    Reply::Map(vec![
        (Reply::text("flags"), Reply::Set(flags)),
        (Reply::text("passwords"), Reply::Array(passwords)),
        (Reply::text("commands"), Reply::text(user.role_words())),
        (Reply::text("keys"), Reply::text("~*")),
        (Reply::text("channels"), Reply::text("&*")),
        (Reply::text("selectors"), Reply::Array(Vec::new())),
        (Reply::text("namespace"), user.namespace.clone().map_or(Reply::Nil, Reply::text)),
    ])
}

fn dry_run(desk: &Desk, name: &[u8], words: &[&[u8]]) -> Outcome {
    let user = find(desk, name)
        .ok_or_else(|| Refusal::err(format_args!("User '{}' not found", name[..name.len().min(128)].escape_ascii())))?;
    let (spec, request) = parse(words)?;
    Ok(match user.may(spec, &request) {
        true => Reply::Ok,
        false => Reply::text(format!("User {} has no permissions to run the '{}' command", user.name, spec.name)),
    })
}

/// An entry of ACL LOG, in the shape of Redis 7.
fn entry(note: Note, now_ms: u64) -> Reply {
    let number = |number: u64| Reply::Int(number.min(i64::MAX as u64) as i64);
    let age = now_ms.saturating_sub(note.last_ms) as f64 / 1_000.0;
    Reply::Map(vec![
        (Reply::text("count"), number(note.count)),
        (Reply::text("reason"), Reply::text(note.reason.name())),
        (Reply::text("context"), Reply::text("toplevel")),
        (Reply::text("object"), Reply::text(note.object)),
        (Reply::text("username"), Reply::text(note.user)),
        (Reply::text("age-seconds"), Reply::Double(age)),
        (Reply::text("client-info"), Reply::text(note.client)),
        (Reply::text("entry-id"), number(note.id)),
        (Reply::text("timestamp-created"), number(note.first_ms)),
        (Reply::text("timestamp-last-updated"), number(note.last_ms)),
    ])
}
