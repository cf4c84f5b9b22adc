//! BG.*: Bloomgate's own commands, for every kind of filter and what the kinds can do.

mod building;
mod creating;
mod files;
mod items;
mod rekeying;
mod replacing;
mod sets;
mod telling;
mod watching;

pub(crate) use building::{built, secrets};

use bloomgate_command::{Refusal, Reply, Request, help};

use super::call::{Call, Outcome};
use super::copying;
use crate::engine::check_available;
use crate::engine::entry::Entry;

/// Runs a command of this family.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::BgCreate { name, ref create } => creating::create(call, name, create),
        Request::BgAdd { name, items } => items::add(call, name, items),
        Request::BgExists { name, items } => items::exists(call, name, items),
        Request::BgCount { name, items } => items::count(call, name, items),
        Request::BgRemove { name, request, items } => items::remove(call, name, request.unwrap_or_default(), items),
        Request::BgInfo { name, field } => telling::info(call, name, field),
        Request::BgEstimate { name } => telling::estimate(call, name),
        Request::BgAudit { name, reset } => telling::audit(call, name, reset),
        Request::BgSecrets => Ok(telling::secrets(call)),
        Request::BgStats { name: Some(name), .. } => watching::filter(call, name),
        Request::BgStats { name: None, count } => watching::server(call, count),
        Request::BgFeedback { name, items } => watching::feedback(call, name, items),
        Request::BgDigest { name } => files::digest(call, name),
        Request::BgDump { name } => files::dump(call, name),
        Request::BgDelta { name, base } => files::delta(call, name, base),
        Request::BgMerge { destination, sources } => sets::merge(call, destination, sources),
        Request::BgIntersect { destination, left, right } => sets::intersect(call, destination, left, right),
        Request::BgFold { name, to } => sets::fold(call, name, to),
        Request::BgCopy { source, destination, replace } => copying::copy(call, source, destination, None, replace),
        Request::BgSwap { left, right } => sets::swap(call, left, right),
        Request::BgBuild { name, file, kind, capacity, rate, contract, like, replace } => {
            building::build(call, name, &building::Wish { file, kind, capacity, rate, contract, like, replace })
        }
        Request::BgRekey { name, step } => rekeying::step(call, name, step),
        Request::BgFeed { name, items } => rekeying::feed(call, name, items),
        Request::BgBackup { folder } => backup(call, folder),
        Request::BgHelp { command } => {
            Ok(help(command.map(|spec| spec.name).or(Some("bg"))).map_or(Reply::Nil, Reply::Verbatim))
        }
        _ => return None,
    })
}

/// The filter of a name, able to answer. What it tells may show a write that is not durable yet, so the reply waits.
fn existing(call: &mut Call<'_, '_, '_>, name: &[u8]) -> Result<Entry, Refusal> {
    let entry = call.find(name).ok_or(Refusal::NOT_FOUND)?;
    check_available(&entry)?;
    call.sees(&entry);
    Ok(entry)
}

fn backup(call: &mut Call<'_, '_, '_>, folder: &str) -> Outcome {
    let keeper = call.desk.keeper.get().ok_or_else(|| {
        Refusal::err("this server keeps nothing on disk, so there is nothing to back up: start it with --data")
    })?;
    match keeper.backup(folder) {
        Ok(place) => {
            let fields = [("folder", place.as_str().into())];
            call.tell("backup-made", format_args!("a backup was made in {place}"), &fields);
            Ok(Reply::text(place))
        }
        Err(why) => Err(Refusal::err(why).into()),
    }
}
