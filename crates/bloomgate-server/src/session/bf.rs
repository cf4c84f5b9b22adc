//! BF.*: Bloom filters by RedisBloom's commands.

use bloomgate::{Kind, WhenFull};
use bloomgate_command::{BfField, Refusal, Reply, Request};

use super::call::{Call, Outcome};
use super::refusing::{Answers, no_memory};
use super::space::{Space, contract_in};
use crate::engine::adding::{Added, Copies, NotDone};
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::{Family, Maker};
use crate::engine::recipe::Recipe;
use crate::engine::{Engine, check_available};

/// What items of a filter that were not added answer.
pub fn answers<'a>(
    engine: &'a Engine,
    space: Option<&'a Space>,
    name: &'a [u8],
    after_refusals: bool,
) -> Answers<impl Fn(Added) -> Refusal + 'a> {
    let short = |added| match added {
        Added::NoMemory => Refusal::INSERT_PROBLEM,
        _ => Refusal::FULL_NONSCALING,
    };
    let full = move |added| match added {
        Added::NoMemory => no_memory(engine, space, name, Refusal::INSERT_PROBLEM),
        added => short(added),
    };
    Answers::new(full, short, after_refusals)
}

/// The recipe behind BF.RESERVE and its relatives: a chain of blocked stages, or one that refuses when it is full. Without a
/// capacity it begins with the default.
fn recipe(engine: &Engine, space: Option<&Space>, rate: f64, capacity: Option<u64>, expansion: u32) -> Recipe {
    let first = capacity.unwrap_or(engine.defaults().bf_initial_size);
    let hashing = engine.contracts.keyed(&contract_in(space, DEFAULT));
    let mut recipe = Recipe::new(Kind::Scalable, first, rate, hashing);
    recipe.is_sized = capacity.is_some() || expansion == 0;
    match expansion {
        0 => recipe.when_full = WhenFull::Refuse,
        // A factor of 1 is a chain of equal stages.
        factor => recipe.growth = f64::from(factor),
    }
    recipe
}

/// Makes a filter by the defaults, as the first BF.ADD to a name does, unless somebody else just did.
pub fn create_default(engine: &Engine, space: Option<&Space>, name: &[u8]) -> Result<(), Refusal> {
    let defaults = engine.defaults();
    let expansion = defaults.bf_expansion_factor;
    let recipe = recipe(engine, space, defaults.bf_error_rate, None, expansion);
    let prepared = engine.prepare(name, recipe, Maker::Bf { expansion })?;
    match engine.stop().create(prepared) {
        Ok(_) => Ok(()),
        Err(refusal) if refusal == Refusal::ITEM_EXISTS => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

/// Runs a command of this family.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::BfReserve { key, rate, capacity, expansion } => reserve(call, key, rate, capacity, expansion),
        Request::BfAdd { key, item } => add(call, key, &[item], Creation::Default).map(only),
        Request::BfMadd { key, items } => add(call, key, items, Creation::Default).map(Reply::Array),
        Request::BfInsert { key, capacity, rate, expansion, create, items } => {
            let creation = if create { Creation::As { capacity, rate, expansion } } else { Creation::No };
            add(call, key, items, creation).map(Reply::Array)
        }
        Request::BfExists { key, item } => exists(call, key, &[item]).map(only),
        Request::BfMexists { key, items } => exists(call, key, items).map(Reply::Array),
        Request::BfCard { key } => card(call, key),
        Request::BfInfo { key, field } => info(call, key, field),
        Request::BfDebug { key } => debug(call, key),
        _ => return None,
    })
}

fn only(mut replies: Vec<Reply>) -> Reply {
    replies.pop().unwrap_or(Reply::Nil)
}

fn reserve(call: &mut Call<'_, '_, '_>, key: &[u8], rate: f64, capacity: u64, expansion: Option<u32>) -> Outcome {
    let engine = call.engine();
    match call.find(key).map(|entry| entry.family()) {
        Some(Family::Bloom) => return Err(Refusal::ITEM_EXISTS.into()),
        Some(Family::Cuckoo) => return Err(Refusal::WRONG_TYPE.into()),
        None => {}
    }
    let expansion = expansion.unwrap_or(engine.defaults().bf_expansion_factor);
    let prepared =
        engine.prepare(key, recipe(&engine, call.space(), rate, Some(capacity), expansion), Maker::Bf { expansion })?;
    call.alone(|permit| permit.create(prepared).map(|entry| ((), entry.touched())))?;
    Ok(Reply::Ok)
}

/// Whether and how a missing filter is made.
#[derive(Debug, Clone, Copy)]
enum Creation {
    No,
    Default,
    As { capacity: Option<u64>, rate: Option<f64>, expansion: Option<u32> },
}

fn add(call: &mut Call<'_, '_, '_>, key: &[u8], items: &[&[u8]], creation: Creation) -> Result<Vec<Reply>, NotDone> {
    let engine = call.engine();
    loop {
        let mut added = Vec::new();
        let found = call.write(|permit, core| {
            let Some(entry) = engine.find(key) else { return Ok((false, 0)) };
            if entry.family() != Family::Bloom {
                return Err(Refusal::WRONG_TYPE.into());
            }
            let sequence = core.scratch.add(permit, &entry, items, Copies::One, &mut added)?;
            Ok((true, sequence))
        })?;
        if found {
            call.desk.count_items(call.core.thread, true, items.len() as u64);
            let mut answers = answers(&engine, call.space(), key, call.after_refusals);
            return Ok(added.into_iter().map(|added| answers.reply(added)).collect());
        }
        let (capacity, rate, expansion) = match creation {
            Creation::No => return Err(Refusal::NOT_FOUND.into()),
            Creation::Default => (None, None, None),
            Creation::As { capacity, rate, expansion } => (capacity, rate, expansion),
        };
        let defaults = engine.defaults();
        let expansion = expansion.unwrap_or(defaults.bf_expansion_factor);
        let rate = rate.unwrap_or(defaults.bf_error_rate);
        let prepared =
            engine.prepare(key, recipe(&engine, call.space(), rate, capacity, expansion), Maker::Bf { expansion })?;
        let made = call.alone(|permit| permit.create(prepared).map(|entry| ((), entry.touched())));
        if !matches!(&made, Err(NotDone::Refused(refusal)) if *refusal == Refusal::ITEM_EXISTS) {
            made?;
        }
    }
}

fn exists(call: &mut Call<'_, '_, '_>, key: &[u8], items: &[&[u8]]) -> Result<Vec<Reply>, NotDone> {
    call.desk.count_items(call.core.thread, false, items.len() as u64);
    let engine = call.engine();
    let Some(entry) = call.find_of(key, Family::Bloom)? else {
        call.core.scratch.pay_absent(&engine, key, items)?;
        return Ok(items.iter().map(|_| Reply::Bool(false)).collect());
    };
    let mut answers = Vec::new();
    call.core.scratch.ask(&engine, &entry, items, &mut answers)?;
    // The look may show a write that came after the filter was found.
    call.shows(&entry, answers.contains(&true))?;
    Ok(answers.into_iter().map(Reply::Bool).collect())
}

fn card(call: &mut Call<'_, '_, '_>, key: &[u8]) -> Outcome {
    let Some(entry) = call.find_of(key, Family::Bloom)? else { return Ok(Reply::Int(0)) };
    let items = entry.with(|filter| filter.len()).unwrap_or(0);
    call.sees(&entry);
    Ok(Reply::Int(items as i64))
}

fn info(call: &mut Call<'_, '_, '_>, key: &[u8], field: Option<BfField>) -> Outcome {
    let entry = call.find_of(key, Family::Bloom)?.ok_or(Refusal::NOT_FOUND)?;
    let value = |field: BfField| match field {
        BfField::Capacity => Reply::Int(entry.with(|filter| filter.capacity()).unwrap_or(0) as i64),
        BfField::Size => Reply::Int(entry.memory() as i64),
        BfField::Filters => Reply::Int(entry.with(|filter| filter.stages()).unwrap_or(0) as i64),
        BfField::Items => Reply::Int(entry.with(|filter| filter.len()).unwrap_or(0) as i64),
        BfField::Expansion => match entry.maker() {
            Maker::Bf { expansion: 0 } => Reply::Nil,
            Maker::Bf { expansion } => Reply::Int(i64::from(expansion)),
            _ if entry.recipe().when_full == WhenFull::Grow => Reply::Int(entry.recipe().growth as i64),
            _ => Reply::Nil,
        },
    };
    let told = match field {
        Some(field) => Reply::Field(field.label(), Box::new(value(field))),
        None => Reply::Map(BfField::ALL.iter().map(|&field| (Reply::simple(field.label()), value(field))).collect()),
    };
    call.sees(&entry);
    Ok(told)
}

fn debug(call: &mut Call<'_, '_, '_>, key: &[u8]) -> Outcome {
    let entry = call.find_of(key, Family::Bloom)?.ok_or(Refusal::NOT_FOUND)?;
    check_available(&entry)?;
    let line = entry.with(|filter| {
        format!(
            "kind:{} bytes:{} stages:{} capacity:{} size:{} rate:{} expected:{:.9}",
            filter.kind(),
            filter.size_in_bytes(),
            filter.stages(),
            filter.capacity(),
            filter.len(),
            filter.promised_rate(),
            filter.expected_rate(),
        )
    });
    let size = entry.with(|filter| filter.len()).unwrap_or(0);
    Ok(Reply::Array(vec![Reply::text(format!("size:{size}")), Reply::text(line.unwrap_or_default())]))
}
