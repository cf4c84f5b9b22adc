//! BG.REKEY and BG.FEED: a filter moves to a new secret without a moment in which it does not answer.
//!
//! START makes a shadow under the next epoch of the filter's contract; from then on adds go to both. BG.FEED
//! brings the items from before, which only their owner has. FINISH puts the shadow in place, and that epoch is the current
//! one from then on; ABORT lets the shadow go, and nothing has changed. Who is bound to a namespace moves a filter that hashes
//! under a contract from outside to the namespace's own.
//!
//! Whoever fed other items than those of the filter until both count alike would make it forget all it had. So only items that
//! the filter has are taken, and of those that it has not, its rate's share was taken for ones it has: as many more must have
//! come. FINISH counts twice: what came (no fewer than the filter counts, so a feed without repeats lacks no item that the
//! filter counted as new), and what the shadow took for new (so repeats do not stand for what is missing). It is a count and no
//! proof. No proof can be had: an item all of whose bits were set when it was added has left no trace, in the filter, in
//! its count or in the log, by which anybody could miss it. So FINISH needs the role `delete` too.

use bloomgate_command::{Refusal, RekeyStep, Reply};

use super::super::call::{Call, Outcome};
use super::existing;
use crate::engine::adding::{Added, Copies, look};
use crate::engine::audit::Counts;
use crate::engine::check_available;
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::Entry;
use crate::engine::recipe::{Hashing, Recipe};

pub fn step(call: &mut Call<'_, '_, '_>, name: &[u8], step: RekeyStep) -> Outcome {
    match step {
        RekeyStep::Start => start(call, name),
        RekeyStep::Status => status(call, name),
        RekeyStep::Finish { force } => finish(call, name, force),
        RekeyStep::Abort => abort(call, name),
    }
}

fn not_begun(name: &[u8]) -> Refusal {
    Refusal::err(format_args!("'{0}' is not being rekeyed: BG.REKEY {0} START begins", name.escape_ascii()))
}

fn start(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let engine = call.engine();
    let entry = existing(call, name)?;
    let algorithm = entry.recipe().hashing.algorithm;
    if !algorithm.is_keyed() {
        return Err(Refusal::err(format_args!(
            "the filter hashes by {algorithm}, which has no secret to change: make a keyed one, fill it and BG.SWAP them"
        ))
        .into());
    }
    if entry.is_ordered() {
        return Err(Refusal::err(format_args!(
            "a {} filter is not rekeyed in place (classic, blocked, partitioned and scalable ones are): make another one \
             under a new contract, fill it and BG.SWAP them",
            entry.kind()
        ))
        .into());
    }
    let begun = || Refusal::err("the filter is being rekeyed already: BG.REKEY it to STATUS, FINISH or ABORT");
    if engine.shadow_of(&entry).is_some() {
        return Err(begun().into());
    }
    let hashing = next_secret(call, &entry);
    engine.contracts.check_next_epoch(&hashing.contract)?;
    // As large as the filter has become: a chain that grew through ten stages would do so again.
    let capacity = match entry.recipe().capacity {
        0 => 0,
        asked => asked.max(needed(&entry)),
    };
    let recipe = Recipe { hashing, capacity, ..entry.recipe().clone() };
    let prepared = engine.prepare_shadow(name, recipe, entry.maker())?;
    call.alone(|permit| {
        let now = match permit.find(name) {
            Ok(now) => now,
            Err(refusal) => {
                engine.abandon(prepared);
                return Err(refusal);
            }
        };
        if now.as_ref().is_none_or(|now| now.id != entry.id) || engine.shadow_of(&entry).is_some() {
            engine.abandon(prepared);
            return Err(if now.is_some() { begun() } else { Refusal::NOT_FOUND });
        }
        let shadow = permit.begin_shadow(&entry, prepared)?;
        Ok((Reply::Ok, shadow.touched()))
    })
}

/// The capacity that takes all items of a filter: those that it counts, those that it took for known when they were added, and
/// what both may be more by chance. One that is full to the last item would refuse some of its own under another secret.
fn needed(entry: &Entry) -> u64 {
    let (items, rate) = entry.with(|filter| (filter.len() as f64, filter.expected_rate())).unwrap_or_default();
    (items + items * rate + 4.0 * (items * rate).sqrt()).ceil() as u64
}

/// The secret after the contract's last, and after the filter's own; for a filter under somebody else's contract, the own one.
fn next_secret(call: &Call<'_, '_, '_>, entry: &Entry) -> Hashing {
    let (contracts, hashing) = (&call.core.engine.contracts, &entry.recipe().hashing);
    if call.space().is_some_and(|space| !space.has_contract(&hashing.contract)) {
        let own = contracts.keyed(&call.contract(DEFAULT));
        return Hashing { algorithm: hashing.algorithm, ..own };
    }
    let epoch = contracts.keyed(&hashing.contract).epoch.max(hashing.epoch).saturating_add(1);
    Hashing { epoch, ..hashing.clone() }
}

fn status(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let engine = call.engine();
    let entry = existing(call, name)?;
    let items = |entry: &Entry| Reply::Int(entry.with(|filter| filter.len()).unwrap_or(0) as i64);
    let id = |entry: &Entry| {
        let id = entry.contract().and_then(|contract| contract.secret_id());
        id.map_or(Reply::Nil, |id| Reply::text(id.to_string()))
    };
    let epoch = |entry: &Entry| Reply::Int(i64::from(entry.recipe().hashing.epoch));
    let mut told = vec![
        (Reply::text("state"), Reply::text("idle")),
        (Reply::text("epoch"), epoch(&entry)),
        (Reply::text("secret_id"), id(&entry)),
        (Reply::text("items"), items(&entry)),
    ];
    if let Some(shadow) = engine.shadow_of(&entry) {
        told[0].1 = Reply::text("feeding");
        told.extend([
            (Reply::text("new_epoch"), epoch(&shadow)),
            (Reply::text("new_secret_id"), id(&shadow)),
            (Reply::text("new_items"), items(&shadow)),
            (Reply::text("missing_at_least"), Reply::Int(missing(&entry, &shadow) as i64)),
            (Reply::text("fed"), Reply::Int(fed(&shadow) as i64)),
            (Reply::text("fed_in_vain"), Reply::Int(strangers(&shadow) as i64)),
            (Reply::text("started_ms"), Reply::Int(shadow.created_ms as i64)),
        ]);
    }
    Ok(Reply::Map(told))
}

/// Items that were fed and that the filter does not have, since the server started. Nobody else asks a shadow for anything.
fn strangers(shadow: &Entry) -> u64 {
    shadow.counts().lookups
}

/// Items that were fed or added, and that the shadow had no place for.
fn refused(shadow: &Entry) -> u64 {
    shadow.counts().refused
}

/// Items that came to the shadow since the server started, fed or added, each as often as it came.
fn fed(shadow: &Entry) -> u64 {
    shadow.counts().adds.saturating_sub(refused(shadow))
}

/// How many items have certainly not come to the shadow since the server started: a filter counts no item twice, so a whole feed
/// has as many as it counts.
fn not_fed(entry: &Entry, shadow: &Entry) -> u64 {
    entry.with(|filter| filter.len()).unwrap_or(0).saturating_sub(fed(shadow))
}

/// How many items the shadow does not have yet. Both count items that were certainly new: of a whole feed the shadow counts
/// less than there are by its false positives while it was filled, which are fewer than its rate of now times the items (it only
/// rises), and more by the strangers that the filter takes for its own; and by chance four standard deviations more at most.
fn missing(entry: &Entry, shadow: &Entry) -> u64 {
    let items = |entry: &Entry| entry.with(|filter| filter.len()).unwrap_or(0);
    let wanted = items(entry) as f64;
    let lag = wanted * shadow.with(|filter| filter.expected_rate()).unwrap_or(0.0);
    let rate = entry.with(|filter| filter.expected_rate()).unwrap_or(0.0).clamp(0.0, 0.5);
    let passed = strangers(shadow) as f64 * rate / (1.0 - rate);
    let slack = (lag + 4.0 * (lag + passed).sqrt()).floor();
    ((wanted + passed - slack).max(0.0) as u64).saturating_sub(items(shadow))
}

fn finish(call: &mut Call<'_, '_, '_>, name: &[u8], force: bool) -> Outcome {
    let engine = call.engine();
    call.alone(|permit| {
        let entry = permit.find(name)?.ok_or(Refusal::NOT_FOUND)?;
        let shadow = engine.shadow_of(&entry).ok_or_else(|| not_begun(name))?;
        check_available(&shadow)?;
        let (missing, not_fed) = (missing(&entry, &shadow), not_fed(&entry, &shadow));
        if missing > 0 && !force {
            let vain = match strangers(&shadow) {
                0 => String::new(),
                vain => format!(" ({vain} that were fed are not in the filter and count for nothing)"),
            };
            return Err(Refusal::err(format_args!(
                "at least {missing} items are not in the new filter yet, and would be lost{vain}: BG.FEED them, or \
                 BG.REKEY it to ABORT, or to FINISH FORCE if they may be lost"
            )));
        }
        if refused(&shadow) > 0 && !force {
            return Err(Refusal::err(format_args!(
                "the new filter has refused {} items, and what did not come again would be lost: BG.REKEY it to ABORT and START \
                 again, or to FINISH FORCE if you know that none is missing",
                refused(&shadow)
            )));
        }
        if not_fed > 0 && !force {
            return Err(Refusal::err(format_args!(
                "{not_fed} items fewer than the filter has were fed or added since BG.REKEY START, or since the server \
                 started, and what was not would be lost: BG.FEED all of them (again: what is there already stays as it is), or \
                 BG.REKEY it to FINISH FORCE if you know that none is missing"
            )));
        }
        let Hashing { contract, epoch, .. } = &shadow.recipe().hashing;
        permit.begin_epoch(contract, *epoch)?;
        let sequence = permit.finish_shadow(&entry, &shadow)?;
        Ok((Reply::Ok, sequence))
    })
}

fn abort(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Outcome {
    let engine = call.engine();
    call.alone(|permit| {
        let entry = permit.find(name)?.ok_or(Refusal::NOT_FOUND)?;
        let shadow = engine.shadow_of(&entry).ok_or_else(|| not_begun(name))?;
        let sequence = permit.abort_shadow(&entry, &shadow)?;
        Ok((Reply::Ok, sequence))
    })
}

/// BG.FEED: how many of the items were new to the shadow. What the filter does not have is left out: it can be added.
pub fn feed(call: &mut Call<'_, '_, '_>, name: &[u8], items: &[&[u8]]) -> Outcome {
    let engine = call.engine();
    let (mut held, mut added) = (Vec::new(), Vec::new());
    call.write(|permit, core| {
        let entry = engine.find(name).ok_or(Refusal::NOT_FOUND)?;
        let shadow = engine.shadow_of(&entry).ok_or_else(|| not_begun(name))?;
        // Items that come to the filter from now on come to the shadow first, so none is missed that it does not have yet.
        // A report that one is absent ends some day, and what it was wrong about is in the filter then as it was before.
        look(&entry, items, &mut held)?;
        let of =
            |wanted: bool| items.iter().zip(&held).filter(move |(_, held)| **held == wanted).map(|(item, _)| *item);
        let (vain, items): (Vec<&[u8]>, Vec<&[u8]>) = (of(false).collect(), of(true).collect());
        core.scratch.pay_absent(&engine, name, &vain)?;
        let sequence = core.scratch.add(permit, &shadow, &items, Copies::One, &mut added)?;
        shadow.count(Counts { lookups: vain.len() as u64, ..Counts::default() });
        Ok(((), sequence))
    })?;
    if let Some(refused) = added.iter().find(|added| !matches!(added, Added::New | Added::Known)) {
        return Err(match refused {
            Added::NoMemory => Refusal::err("there is no memory for the new filter to grow: raise max-memory"),
            _ => Refusal::err("the new filter is full: more items are fed than the filter has; BG.REKEY it to ABORT"),
        }
        .into());
    }
    Ok(Reply::Int(added.iter().filter(|&&added| added == Added::New).count() as i64))
}
