//! BG.ADD, BG.EXISTS, BG.COUNT and BG.REMOVE: items of a filter of any kind, one answer for each.

use bloomgate::Kind;
use bloomgate_command::{Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::super::refusing::{Answers, no_memory};
use super::super::space::Space;
use super::existing;
use crate::engine::adding::{Added, Copies};
use crate::engine::entry::Entry;
use crate::engine::{Engine, check_available};

/// What an item that was not added answers, in few words.
fn short(added: Added) -> Refusal {
    Refusal::new(match added {
        Added::NoMemory => "ERR the filter is full and there is no memory for it to grow",
        Added::TooManyCopies => "ERR the filter holds too many copies of this item",
        _ => "ERR the filter is full",
    })
}

/// What an item that was not added answers.
fn refusal(engine: &Engine, space: Option<&Space>, entry: &Entry, added: Added) -> Refusal {
    match added {
        Added::NoMemory => no_memory(engine, space, &entry.name(), short(added)),
        Added::TooManyCopies => Refusal::err(format_args!(
            "the filter holds {} copies of this item, the most that it can remove again one by one; nothing was changed: \
             remove one first, or use a counting filter",
            entry.with(|filter| filter.max_copies()).flatten().unwrap_or(0)
        )),
        _ => Refusal::err(format_args!(
            "the filter is full: it holds the {} items it was made for, and refuses more",
            entry.with(|filter| filter.capacity()).unwrap_or(0)
        )),
    }
}

fn kinds(can: impl Fn(Kind) -> bool) -> String {
    let names: Vec<&str> = Kind::ALL.iter().filter(|&&kind| can(kind)).map(|kind| kind.name()).collect();
    names.join(", ")
}

pub fn add(call: &mut Call<'_, '_, '_>, name: &[u8], items: &[&[u8]]) -> Outcome {
    let engine = call.engine();
    let mut added = Vec::new();
    let entry = call.write(|permit, core| {
        let entry = engine.find(name).ok_or(Refusal::NOT_FOUND)?;
        check_available(&entry)?;
        if !entry.kind().takes_inserts() {
            return Err(Refusal::err(format_args!(
                "a {} filter is built once from all its items and takes none after: it answers BG.EXISTS; to change it, \
                 BG.BUILD it again with REPLACE",
                entry.kind()
            ))
            .into());
        }
        let sequence = core.scratch.add(permit, &entry, items, Copies::Each, &mut added)?;
        Ok((entry, sequence))
    })?;
    call.desk.count_items(call.core.thread, true, items.len() as u64);
    let mut answers = Answers::new(|added| refusal(&engine, call.space(), &entry, added), short, call.after_refusals);
    Ok(Reply::Array(added.into_iter().map(|added| answers.reply(added)).collect()))
}

pub fn exists(call: &mut Call<'_, '_, '_>, name: &[u8], items: &[&[u8]]) -> Outcome {
    call.desk.count_items(call.core.thread, false, items.len() as u64);
    let engine = call.engine();
    if call.find(name).is_none() && !call.is_strict() {
        call.core.scratch.pay_absent(&engine, name, items)?;
        // A name that never was: no item is in it.
        return Ok(Reply::Array(items.iter().map(|_| Reply::Bool(false)).collect()));
    }
    let entry = existing(call, name)?;
    let mut answers = Vec::new();
    call.core.scratch.ask(&engine, &entry, items, &mut answers)?;
    // The look may show a write that came after the filter was found.
    call.shows(&entry, answers.contains(&true))?;
    Ok(Reply::Array(answers.into_iter().map(Reply::Bool).collect()))
}

pub fn count(call: &mut Call<'_, '_, '_>, name: &[u8], items: &[&[u8]]) -> Outcome {
    let engine = call.engine();
    if call.find(name).is_none() && !call.is_strict() {
        call.core.scratch.pay_absent(&engine, name, items)?;
        return Ok(Reply::Array(items.iter().map(|_| Reply::Int(0)).collect()));
    }
    let entry = existing(call, name)?;
    let mut counts = Vec::new();
    call.core.scratch.count(&engine, &entry, items, &mut counts)?;
    call.shows(&entry, counts.iter().any(|&count| count > 0))?;
    Ok(Reply::Array(counts.into_iter().map(|count| Reply::Int(count as i64)).collect()))
}

pub fn remove(call: &mut Call<'_, '_, '_>, name: &[u8], request: &[u8], items: &[&[u8]]) -> Outcome {
    let engine = call.engine();
    let mut removed = Vec::new();
    call.write(|permit, core| {
        let entry = engine.find(name).ok_or(Refusal::NOT_FOUND)?;
        check_available(&entry)?;
        if !entry.kind().takes_removals() {
            return Err(Refusal::err(format_args!(
                "a {} filter cannot let go of single items: {} filters can",
                entry.kind(),
                kinds(|kind| kind.takes_removals() && !kind.is_foreign())
            ))
            .into());
        }
        let sequence = core.scratch.remove(permit, &entry, items, request, &mut removed)?;
        Ok(((), sequence))
    })?;
    Ok(Reply::Array(removed.into_iter().map(Reply::Bool).collect()))
}
