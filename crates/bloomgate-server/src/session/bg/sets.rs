//! BG.MERGE, BG.INTERSECT, BG.FOLD, BG.COPY and BG.SWAP: filters made of others, and filters that change places.

use std::sync::PoisonError;

use bloomgate::{AnyFilter, ErrorKind, Kind};
use bloomgate_command::{FoldTo, Refusal, Reply};

use super::super::call::{Call, Outcome};
use super::super::installing::Built;
use super::existing;
use super::replacing::{Held, copy_of, replace};
use crate::engine::check_available;
use crate::engine::entry::{Body, Entry};
use crate::engine::recipe::{Recipe, refused};

fn bytes(entry: &Entry) -> u64 {
    entry.with(|filter| filter.size_in_bytes()).unwrap_or(0)
}

/// The filter of a name that a command reads, with the name in the refusal: there are several.
fn source(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Result<Entry, Refusal> {
    if call.find(name).is_none() {
        return Err(Refusal::err(format_args!("not found: there is no filter '{}'", name.escape_ascii())));
    }
    existing(call, name)
}

/// Adds all items of a filter to another, which was made by this recipe; an ordered one is not changed meanwhile.
fn unite(into: &mut AnyFilter, recipe: &Recipe, entry: &Entry) -> Result<(), Refusal> {
    let _still = entry.is_ordered().then(|| entry.write());
    let united = match entry.body() {
        Body::Small(small) => small.copy().and_then(|filter| into.union_with(&filter)),
        Body::Shared(filter) => into.union_with(filter),
        Body::Guarded(filter) => into.union_with(&*filter.read().unwrap_or_else(PoisonError::into_inner)),
        Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
    };
    united.map_err(|error| apart(&error, recipe, entry.recipe()))
}

/// Why two filters do not go together. What made two chains differ is often nothing that anybody said.
fn apart(error: &bloomgate::Error, one: &Recipe, other: &Recipe) -> Refusal {
    let chains = one.kind == Kind::Scalable && other.kind == Kind::Scalable;
    if !chains || error.kind() != ErrorKind::Shape || one.is_sized == other.is_sized {
        return refused(error);
    }
    let made = |recipe: &Recipe| {
        let by = if recipe.is_sized { "with a capacity" } else { "by its first add" };
        format!("made {by}, for {} items at {}", recipe.capacity, recipe.rate)
    };
    Refusal::err(format_args!(
        "filters whose stages share out their rate differently cannot be united: the first was {}, the second {}; make both \
         with BF.RESERVE or BF.INSERT and one CAPACITY",
        made(one),
        made(other)
    ))
}

/// BG.MERGE.
pub fn merge(call: &mut Call<'_, '_, '_>, destination: &[u8], names: &[&[u8]]) -> Outcome {
    let engine = call.engine();
    let mut sources = Vec::with_capacity(names.len());
    // The destination is in it anyway.
    for name in names.iter().filter(|&&name| name != destination) {
        sources.push(source(call, name)?);
    }
    let Some((first, others)) = sources.split_first() else {
        source(call, destination)?;
        return Ok(Reply::Ok);
    };
    // A union of chains is as long as the longest.
    let most = sources.iter().map(bytes).max().unwrap_or(0);
    engine.check_room(destination, most)?;
    // The union of the sources, and the copy of it that becomes the destination: that one is charged when it does.
    let mut held = Held::take(&engine, most.saturating_mul(2))?;
    held.shrink_to(most);
    let mut union = copy_of(first)?;
    for other in others {
        unite(&mut union, first.recipe(), other)?;
    }
    // Somebody may have added stages meanwhile.
    held.grow_to(union.size_in_bytes())?;
    replace(call, destination, |before| {
        let Some(before) = before else {
            return Ok(Built {
                name: b"",
                filter: union.clone(),
                recipe: first.recipe().clone(),
                maker: first.maker(),
                expires_ms: 0,
            });
        };
        check_available(before)?;
        // It takes the others in, and so it goes on promising what it did.
        let mut filter = copy_of(before)?;
        filter.union_with(&union).map_err(|error| apart(&error, before.recipe(), first.recipe()))?;
        Ok(Built {
            name: b"",
            filter,
            recipe: before.recipe().clone(),
            maker: before.maker(),
            expires_ms: before.expires_ms(),
        })
    })?;
    Ok(Reply::Ok)
}

/// Chains are intersected only while each has one stage; said before a copy is made.
fn check_ungrown(one: &Entry, other: &Entry) -> Result<(), Refusal> {
    let stages = |entry: &Entry| entry.with(|filter| filter.stages()).unwrap_or(1);
    let (ours, theirs) = (stages(one), stages(other));
    let chains = one.kind() == Kind::Scalable && other.kind() == Kind::Scalable;
    if !chains || ours.max(theirs) == 1 {
        return Ok(());
    }
    Err(Refusal::err(format_args!(
        "scalable filters with several stages cannot be intersected: the first has {ours} open, the second {theirs}, and an \
         item of both may be in different stages; ask both, or make both with a CAPACITY for all items"
    )))
}

/// BG.INTERSECT.
pub fn intersect(call: &mut Call<'_, '_, '_>, destination: &[u8], left: &[u8], right: &[u8]) -> Outcome {
    let engine = call.engine();
    let (one, other) = (source(call, left)?, source(call, right)?);
    engine.check_room(destination, bytes(&one))?;
    let mut held = Held::take(&engine, bytes(&one).saturating_mul(2))?;
    held.shrink_to(bytes(&one));
    let common = |one: &Entry, other: &Entry| -> Result<Built<'static>, Refusal> {
        check_ungrown(one, other)?;
        let copy = copy_of(one)?;
        let filter = match other.body() {
            Body::Small(small) => small.copy().and_then(|filter| copy.intersection(&filter)),
            Body::Shared(filter) => copy.intersection(filter),
            Body::Guarded(filter) => copy.intersection(&*filter.read().unwrap_or_else(PoisonError::into_inner)),
            Body::Unavailable { why, .. } => return Err(other.no_answer(why)),
        };
        let filter = filter.map_err(|error| refused(&error))?;
        Ok(Built { name: b"", filter, recipe: one.recipe().clone(), maker: one.maker(), expires_ms: 0 })
    };
    // Made from what has the name now: whatever is added to that meanwhile counts.
    replace(call, destination, |before| match before {
        Some(before) if left == destination && right == destination => {
            let expires_ms = before.expires_ms();
            common(before, before).map(|made| Built { expires_ms, ..made })
        }
        Some(before) if left == destination => {
            let expires_ms = before.expires_ms();
            common(before, &other).map(|made| Built { expires_ms, ..made })
        }
        Some(before) if right == destination => {
            let expires_ms = before.expires_ms();
            common(&one, before).map(|made| Built { expires_ms, ..made })
        }
        _ => common(&one, &other),
    })?;
    Ok(Reply::Ok)
}

/// BG.FOLD.
pub fn fold(call: &mut Call<'_, '_, '_>, name: &[u8], to: FoldTo) -> Outcome {
    let engine = call.engine();
    let entry = existing(call, name)?;
    let kind = entry.kind();
    if !matches!(kind, Kind::Classic | Kind::Blocked | Kind::Partitioned) {
        // Before a copy is made of it: one of gigabytes takes seconds.
        let why = match kind {
            Kind::Scalable => ", since its stages follow from the size of its first",
            _ => "",
        };
        return Err(Refusal::err(format_args!(
            "a {kind} filter cannot be folded{why}: classic, blocked and partitioned ones can; make a smaller one and add its \
             items again"
        ))
        .into());
    }
    let mut held = Held::take(&engine, bytes(&entry).saturating_mul(2))?;
    held.shrink_to(bytes(&entry));
    drop(entry);
    replace(call, name, |before| {
        let before = before.ok_or(Refusal::NOT_FOUND)?;
        let copy = copy_of(before)?;
        let folded = match to {
            FoldTo::Factor(factor) => copy.folded(factor),
            FoldTo::Rate(rate) => copy.fit(rate),
        };
        let filter = folded.map_err(|error| unfolded(&error))?;
        let recipe =
            Recipe { capacity: filter.capacity(), rate: filter.promised_rate(), bytes: 0, ..before.recipe().clone() };
        Ok(Built { name: b"", filter, recipe, maker: before.maker(), expires_ms: before.expires_ms() })
    })?;
    Ok(Reply::Ok)
}

/// Why a filter cannot be folded, with what to do in the words of the command: the library's advice is for its own callers.
fn unfolded(error: &bloomgate::Error) -> Refusal {
    let text = error.to_string();
    match text.split_once("; build it with fold_levels") {
        Some((why, _)) => Refusal::err(format_args!("{why}; give one of these, or RATE and the rate it may have")),
        None => refused(error),
    }
}

/// BG.SWAP.
pub fn swap(call: &mut Call<'_, '_, '_>, left: &[u8], right: &[u8]) -> Outcome {
    call.alone(|permit| {
        let missing =
            |name: &[u8]| Refusal::err(format_args!("not found: there is no filter '{}'", name.escape_ascii()));
        let one = permit.find(left)?.ok_or_else(|| missing(left))?;
        let other = permit.find(right)?.ok_or_else(|| missing(right))?;
        if one.id == other.id {
            return Ok((Reply::Ok, 0));
        }
        let sequence = permit.swap(&one, &other)?;
        Ok((Reply::Ok, sequence))
    })
}
