//! BG.NAMESPACE: tenants by commands. What changes them runs on a worker: the access file is written, then the engine
//! counts with nobody writing.
//!
//! The prefix of a namespace that has filters stays: its users would find other names behind the same words, and "no" where it
//! was "maybe". That is looked at with nobody writing, until the new prefix is in use.

use bloomgate_command::{NamespaceChange, Refusal, Reply, Request};

use super::call::{Call, Outcome};
use super::desk::Desk;
use crate::access::{Book, Namespace, check_name};
use crate::engine::namespaces::Told;
use crate::engine::{Engine, Permit};

/// Runs a command of this group.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::BgNamespaceSet { name, change } => set(call, name, change),
        Request::BgNamespaceDel { name } => delete(call, name),
        Request::BgNamespaceList => {
            Ok(Reply::Array(call.desk.access.book().namespaces.keys().cloned().map(Reply::text).collect()))
        }
        Request::BgNamespaceInfo { name } => info(call, name),
        _ => return None,
    })
}

fn missing(name: &str) -> String {
    format!("there is no namespace '{name}': BG.NAMESPACE LIST has all")
}

/// Refuses prefixes that change under filters; if one changes at all, nobody writes as long as what is given lasts.
pub fn settle<'e>(engine: &'e Engine, before: &Book, after: &Book) -> Result<Option<Permit<'e>>, String> {
    let moved: Vec<(&String, &Namespace)> = before
        .namespaces
        .iter()
        .filter(|(name, was)| after.namespaces.get(*name).is_some_and(|is| is.prefix != was.prefix))
        .collect();
    if moved.is_empty() {
        return Ok(None);
    }
    if engine.is_loading() {
        return Err("a prefix changes, and the filters are still being read: try again when they are".to_owned());
    }
    let alone = engine.stop();
    for (name, Namespace { prefix, .. }) in moved {
        let filters = engine.namespaces.tell(name).map_or(0, |told| told.filters);
        if filters > 0 {
            return Err(format!(
                "the namespace '{name}' has {filters} filters under its prefix '{}', which its users would find no more: \
                 declare another namespace for the new prefix, or delete the filters (FLUSHALL by a user of the namespace)",
                prefix.escape_debug()
            ));
        }
    }
    Ok(Some(alone))
}

fn set(call: &mut Call<'_, '_, '_>, name: &[u8], change: NamespaceChange<'_>) -> Outcome {
    let name = check_name("namespace", name).map_err(Refusal::err)?;
    let engine = call.engine();
    let changed = call.desk.access.change(|book| {
        let before = book.clone();
        let mut namespace = match (book.namespaces.get(&name), change.prefix) {
            (Some(known), _) => known.clone(),
            (None, Some(_)) => Namespace::default(),
            (None, None) => {
                return Err(format!(
                    "the namespace '{name}' is new and needs a prefix: BG.NAMESPACE SET {name} PREFIX {name}:"
                ));
            }
        };
        if let Some(prefix) = change.prefix {
            namespace.prefix = prefix.to_owned();
        }
        // A limit of 0 is none, and is left out of the file.
        let limit = |said: Option<u64>, before: Option<u64>| {
            said.map_or(before, |limit| Some(limit).filter(|&limit| limit > 0))
        };
        namespace.max_memory = limit(change.max_memory, namespace.max_memory);
        namespace.max_filters = limit(change.max_filters, namespace.max_filters);
        namespace.items_per_second = limit(change.items_per_second, namespace.items_per_second);
        book.namespaces.insert(name.clone(), namespace);
        book.check_namespaces().map_err(|(_, why)| why)?;
        settle(&engine, &before, book)
    });
    match changed {
        // With nobody writing since it was looked at.
        Ok(Some(mut alone)) => alone.declare(&call.desk.access.book().namespaces),
        Ok(None) => apply(call)?,
        // What is said in vain changes nothing; but a file that may not be safe is in use.
        Err(why) => {
            apply(call)?;
            return Err(Refusal::err(why).into());
        }
    }
    Ok(Reply::Ok)
}

fn delete(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let name = check_name("namespace", name).map_err(Refusal::err)?;
    let deleted = call.desk.access.change(|book| {
        let bound: Vec<&str> =
            book.users.values().filter(|user| user.namespace.as_ref() == Some(&name)).map(|user| &*user.name).collect();
        if let Some(first) = bound.first() {
            return Err(format!(
                "{} users are bound to the namespace '{name}', {first} among them: delete them (ACL DELUSER), or bind them to \
                 another (ACL SETUSER {first} namespace=OTHER)",
                bound.len()
            ));
        }
        book.namespaces.remove(&name).map(drop).ok_or_else(|| missing(&name))
    });
    apply(call)?;
    deleted.map_err(Refusal::err)?;
    Ok(Reply::Ok)
}

/// Reads the access file again and takes over its namespaces: all of it, or everything stays as it is.
pub fn reload(engine: &Engine, desk: &Desk) -> Result<(), String> {
    let alone = desk.access.reload(|before, after| settle(engine, before, after))?;
    alone.unwrap_or_else(|| engine.stop()).declare(&desk.access.book().namespaces);
    desk.end_strangers();
    Ok(())
}

/// The engine takes over what the book says now: also if somebody else changed it meanwhile.
pub fn apply(call: &mut Call<'_, '_, '_>) -> Result<(), Refusal> {
    let desk = call.desk;
    let applied = call.alone(|permit| {
        permit.declare(&desk.access.book().namespaces);
        Ok(((), 0))
    });
    // It cannot be refused, and nobody is waited for.
    applied.map_err(|_| Refusal::err("the namespaces are in the access file and not in use: ACL LOAD tries again"))
}

fn info(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let name = String::from_utf8_lossy(&name[..name.len().min(128)]).into_owned();
    let told = call.core.engine.namespaces.tell(&name).ok_or_else(|| Refusal::err(missing(&name)))?;
    let mut rows = vec![(Reply::text("name"), Reply::text(told.name.clone()))];
    // Who is bound to it does not see the prefix, and need not know who else is.
    if call.space().is_none() {
        rows.push((Reply::text("prefix"), Reply::text(told.prefix.clone())));
    }
    rows.extend(facts(&told).into_iter().map(|(name, value)| (Reply::text(name), number(value))));
    if call.space().is_none() {
        let book = call.desk.access.book();
        let users = book.users.values().filter(|user| user.namespace.as_ref() == Some(&told.name)).count();
        rows.push((Reply::text("users"), number(users as u64)));
    }
    Ok(Reply::Map(rows))
}

fn number(value: u64) -> Reply {
    Reply::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// The numbers of a namespace with their names; a limit of 0 is none.
pub(super) fn facts(told: &Told) -> Vec<(&'static str, u64)> {
    let mut facts = vec![
        ("filters", told.filters),
        ("max_filters", told.max_filters),
        ("used_memory", told.used),
        ("max_memory", told.max_memory),
        ("items_per_second", told.items_per_second),
        ("waits", told.waits),
        ("waited_usec", told.waited_micros),
    ];
    facts.extend(told.counts.rows());
    facts
}
