//! CF.*: cuckoo filters by RedisBloom's commands.

use bloomgate::bits::Store;
use bloomgate::{AnyFilter, Kind, WhenFull};
use bloomgate_command::{Refusal, Reply, Request, Width};

use super::call::{Call, Outcome};
use super::copying::bits_of;
use super::desk::Desk;
use super::installing::{Built, INLINE, Ready};
use super::refusing::no_memory;
use crate::engine::adding::{Added, Copies, NotDone};
use crate::engine::contracts::DEFAULT;
use crate::engine::entry::{Body, Entry, Family, Maker};
use crate::engine::recipe::Recipe;
use crate::engine::record::Record;
use crate::engine::retries::Retries;
use crate::engine::structure::Existing;
use crate::engine::{Engine, Permit, check_available};

/// Slots of our buckets, for filters that were made without RedisBloom's words.
const BUCKET_SIZE: u16 = 4;
/// Buckets that an insert into ours looks at before it gives up, for the same.
const MAX_ITERATIONS: u16 = 2_048;
/// The largest rate that a narrow fingerprint stands for.
const MAX_RATE: f64 = 0.5;

/// Runs a command of this family.
pub fn run(call: &mut Call<'_, '_, '_>, request: &Request<'_>) -> Option<Outcome> {
    Some(match *request {
        Request::CfReserve { key, capacity, bucket_size, max_iterations, expansion, width } => {
            let wish = Wish { capacity: Some(capacity), bucket_size, max_iterations, expansion, width };
            wish.check(&call.core.engine, Refusal::CF_CAPACITY_RANGE).and_then(|()| reserve(call, key, wish))
        }
        Request::CfAdd { key, item } => {
            add(call, key, &[item], Copies::Many, Some(Wish::default())).and_then(|added| one(call, key, &added))
        }
        Request::CfAddnx { key, item } => {
            add(call, key, &[item], Copies::One, Some(Wish::default())).and_then(|added| one(call, key, &added))
        }
        Request::CfInsert { key, capacity, create, items } => {
            let added = insert(call, key, items, Copies::Many, (capacity, create));
            added.map(|added| each(&added, |done| Reply::Stored(done == 1)))
        }
        Request::CfInsertnx { key, capacity, create, items } => {
            insert(call, key, items, Copies::One, (capacity, create)).map(|added| each(&added, Reply::Int))
        }
        Request::CfExists { key, item } => {
            exists(call, key, &[item]).map(|answers| Reply::Bool(answers.first().is_some_and(|&answer| answer)))
        }
        Request::CfMexists { key, items } => {
            exists(call, key, items).map(|answers| Reply::Array(answers.into_iter().map(Reply::Bool).collect()))
        }
        Request::CfCount { key, item } => copies(call, key, item),
        Request::CfDel { key, item } => delete(call, key, item),
        Request::CfCompact { key } => compact(call, key),
        Request::CfInfo { key } => info(call, key),
        Request::CfDebug { key } => debug(call, key),
        _ => return None,
    })
}

/// What a filter is to be like; what is none is the server's default.
#[derive(Debug, Clone, Copy, Default)]
struct Wish {
    capacity: Option<u64>,
    bucket_size: Option<u8>,
    max_iterations: Option<u16>,
    expansion: Option<u32>,
    width: Option<Width>,
}

impl Wish {
    /// Two buckets at least, of the size that was asked for or that the server's setting has now.
    fn check(&self, engine: &Engine, range: Refusal) -> Result<(), NotDone> {
        let bucket_size = self.bucket_size.map_or(engine.defaults().cf_bucket_size, u16::from);
        match self.capacity {
            Some(capacity) if capacity < 2 * u64::from(bucket_size) => Err(range.into()),
            _ => Ok(()),
        }
    }

    /// The filter behind it: a chain of tables that grows, or one that refuses when it is full.
    fn recipe(&self, engine: &Engine, contract: &str) -> (Recipe, Maker) {
        let defaults = engine.defaults();
        // RedisBloom takes the next power of two as well; 32,768, the most that can be asked for, is one.
        let expansion = match self.expansion.unwrap_or(u32::from(defaults.cf_expansion_factor)) {
            0 => 0,
            factor => factor.next_power_of_two().min(1 << 15) as u16,
        };
        let maker = Maker::Cf {
            bucket_size: self.bucket_size.map_or(defaults.cf_bucket_size, u16::from),
            max_iterations: self.max_iterations.unwrap_or(defaults.cf_max_iterations),
            expansion,
        };
        let rate = match self.width {
            None => defaults.cf_error_rate,
            Some(Width::Rate(rate)) => rate,
            // Two buckets of four slots are compared with the fingerprint.
            Some(Width::Bits(bits)) => (8.0 / 2f64.powi(bits as i32)).min(MAX_RATE),
        };
        let kind = match self.width {
            // One table, so the width can be just what was asked for; a chain shares the rate out over its stages.
            Some(Width::Bits(_)) if expansion == 0 => Kind::Cuckoo,
            _ => Kind::GrowingCuckoo,
        };
        let capacity = self.capacity.unwrap_or(defaults.cf_initial_size);
        let mut recipe = Recipe::new(kind, capacity, rate, engine.contracts.keyed(contract));
        match (kind, self.width) {
            (Kind::Cuckoo, Some(Width::Bits(bits))) => recipe.fingerprint_bits = bits,
            _ if expansion == 0 => recipe.when_full = WhenFull::Refuse,
            // Removals need stages of different sizes, so equal ones (a factor of 1, RedisBloom's default) double.
            _ => recipe.growth = f64::from(expansion.max(2)),
        }
        (recipe, maker)
    }
}

fn check_family(entry: &Entry) -> Result<(), Refusal> {
    if entry.family() == Family::Cuckoo { Ok(()) } else { Err(Refusal::WRONG_TYPE) }
}

fn reserve(call: &mut Call<'_, '_, '_>, key: &[u8], wish: Wish) -> Outcome {
    if let Some(entry) = call.find(key) {
        check_family(&entry)?;
        return Err(Refusal::ITEM_EXISTS.into());
    }
    create(call, key, wish)?;
    Ok(Reply::Ok)
}

fn create(call: &mut Call<'_, '_, '_>, key: &[u8], wish: Wish) -> Result<(), NotDone> {
    let engine = call.engine();
    let (recipe, maker) = wish.recipe(&engine, &call.contract(DEFAULT));
    let prepared = engine.prepare(key, recipe, maker).map_err(|refusal| match wish.width {
        // The library speaks of a rate, which nobody gave.
        Some(Width::Bits(bits)) if refusal.as_str().contains("rate") => Refusal::err(format_args!(
            "FINGERPRINT {bits} stands for a rate of 8 in 2^{bits} over all tables of a filter that grows, which they cannot keep: \
             give fewer bits, or EXPANSION 0 for one table of this width"
        )),
        _ => refusal,
    })?;
    call.alone(|permit| permit.create(prepared).map(|entry| ((), entry.touched())))
}

/// Items that were to be added, with the filter they were for.
struct Addition {
    added: Vec<Added>,
    entry: Entry,
}

/// Adds items; a missing filter is made by the wish, if there is one.
fn add(
    call: &mut Call<'_, '_, '_>,
    key: &[u8],
    items: &[&[u8]],
    copies: Copies,
    wish: Option<Wish>,
) -> Result<Addition, NotDone> {
    let engine = call.engine();
    loop {
        let mut added = Vec::new();
        let found = call.write(|permit, core| {
            let Some(entry) = engine.find(key) else { return Ok((None, 0)) };
            check_family(&entry)?;
            let sequence = core.scratch.add(permit, &entry, items, copies, &mut added)?;
            Ok((Some(entry), sequence))
        })?;
        if let Some(entry) = found {
            call.desk.count_items(call.core.thread, true, items.len() as u64);
            return Ok(Addition { added, entry });
        }
        match create(call, key, wish.ok_or(Refusal::NOT_FOUND)?) {
            // Somebody else just made it.
            Err(NotDone::Refused(refusal)) if refusal == Refusal::ITEM_EXISTS => {}
            made => made?,
        }
    }
}

/// CF.INSERT and CF.INSERTNX: what a missing filter is to be like is refused before it is known whether it is missing.
fn insert(
    call: &mut Call<'_, '_, '_>,
    key: &[u8],
    items: &[&[u8]],
    copies: Copies,
    (capacity, create): (Option<u64>, bool),
) -> Result<Addition, NotDone> {
    let wish = Wish { capacity, ..Wish::default() };
    wish.check(&call.core.engine, Refusal::CF_INSERT_CAPACITY_RANGE)?;
    add(call, key, items, copies, create.then_some(wish))
}

/// The reply to one item.
fn one(call: &Call<'_, '_, '_>, key: &[u8], addition: &Addition) -> Outcome {
    Err(match addition.added.first() {
        Some(Added::New) => return Ok(Reply::Bool(true)),
        Some(Added::Known) | None => return Ok(Reply::Bool(false)),
        Some(Added::Full) if addition.entry.recipe().when_full == WhenFull::Grow => Refusal::MAX_EXPANSIONS,
        Some(Added::Full) => Refusal::FILTER_FULL,
        Some(Added::NoMemory) => no_memory(&call.core.engine, None, key, Refusal::NO_MEMORY),
        Some(Added::TooManyCopies) => Refusal::err(format_args!(
            "the filter holds {} copies of this item, the most that it can remove again one by one; nothing was changed: \
             use CF.ADDNX, or a counting filter of BG.CREATE",
            addition.entry.with(|filter| filter.max_copies()).flatten().unwrap_or(0)
        )),
    }
    .into())
}

/// The reply to several items: 1 added, 0 may be there, -1 no room for it.
fn each(addition: &Addition, reply: impl Fn(i64) -> Reply) -> Reply {
    let done = addition.added.iter().map(|added| match added {
        Added::New => 1,
        Added::Known => 0,
        Added::Full | Added::NoMemory | Added::TooManyCopies => -1,
    });
    Reply::Array(done.map(reply).collect())
}

fn exists(call: &mut Call<'_, '_, '_>, key: &[u8], items: &[&[u8]]) -> Result<Vec<bool>, NotDone> {
    call.desk.count_items(call.core.thread, false, items.len() as u64);
    let engine = call.engine();
    let mut answers = vec![false; items.len()];
    match call.find_of(key, Family::Cuckoo)? {
        None => call.core.scratch.pay_absent(&engine, key, items)?,
        Some(entry) => {
            call.core.scratch.ask(&engine, &entry, items, &mut answers)?;
            // The look may show a write that came after the first question about it.
            call.shows(&entry, answers.contains(&true))?;
        }
    }
    Ok(answers)
}

fn copies(call: &mut Call<'_, '_, '_>, key: &[u8], item: &[u8]) -> Outcome {
    let engine = call.engine();
    let Some(entry) = call.find_of(key, Family::Cuckoo)? else {
        call.core.scratch.pay_absent(&engine, key, &[item])?;
        return Ok(Reply::Int(0));
    };
    let mut counts = Vec::new();
    call.core.scratch.count(&engine, &entry, &[item], &mut counts)?;
    call.shows(&entry, counts.iter().any(|&count| count > 0))?;
    Ok(Reply::Int(counts.first().map_or(0, |&copies| copies as i64)))
}

fn delete(call: &mut Call<'_, '_, '_>, key: &[u8], item: &[u8]) -> Outcome {
    let engine = call.engine();
    let mut removed = Vec::new();
    call.write(|permit, core| {
        let entry = engine.find(key).ok_or(Refusal::CF_DEL_NOT_FOUND)?;
        check_family(&entry)?;
        let sequence = core.scratch.remove(permit, &entry, &[item], &[], &mut removed)?;
        Ok(((), sequence))
    })?;
    Ok(Reply::Bool(removed.first().is_some_and(|&was_there| was_there)))
}

/// Packs the keys into the older tables: a packed copy takes the filter's place.
fn compact(call: &mut Call<'_, '_, '_>, key: &[u8]) -> Outcome {
    let (engine, desk) = (call.engine(), call.desk);
    let entry = call.find(key).ok_or(Refusal::CF_COMPACT_NOT_FOUND)?;
    check_family(&entry)?;
    check_available(&entry)?;
    if call.is_in_transaction() || entry.with(|filter| filter.size_in_bytes()).unwrap_or(0) <= INLINE {
        return call.alone(|permit| {
            let entry = permit.find(key)?.ok_or(Refusal::CF_COMPACT_NOT_FOUND)?;
            check_family(&entry)?;
            check_available(&entry)?;
            let sequence = match packed(&engine, desk, &entry)? {
                Some(ready) => replace(permit, &entry, ready, entry.retries())?,
                None => count_anew(permit, &entry)?,
            };
            Ok((Reply::Ok, sequence))
        });
    }
    // A large one is packed while others work; only those who write to it wait, elsewhere.
    let frozen = entry.freeze().ok_or(NotDone::Busy)?;
    let seen = entry.touched();
    let Some(ready) = packed(&engine, desk, &entry)? else {
        return call.alone(|permit| match permit.find(key)? {
            Some(now) if now.is(&entry) => Ok((Reply::Ok, count_anew(permit, &entry)?)),
            _ => Ok((Reply::Ok, 0)),
        });
    };
    // Before anybody stands still: whoever copies the filter has the lock over them for as long as that takes.
    let retries = entry.retries();
    let installed = call.alone(|permit| {
        let now = permit.find(key);
        let same = matches!(&now, Ok(Some(now)) if now.is(&entry)) && entry.touched() == seen;
        if !same {
            // It was deleted, renamed, or changed by a transaction, which does not wait.
            ready.abandon(&engine);
            return now.map(|_| (false, 0));
        }
        replace(permit, &entry, ready, retries).map(|sequence| (true, sequence))
    })?;
    drop(frozen);
    if installed { Ok(Reply::Ok) } else { Err(NotDone::Busy) }
}

/// Puts the packed copy in the filter's place, with what is known beside the bits: requests that were answered stay
/// answered.
fn replace(permit: &mut Permit<'_>, entry: &Entry, ready: Ready, retries: Retries) -> Result<u64, Refusal> {
    ready.entry().count(entry.counts());
    ready.entry().keep_answers(retries);
    Ok(ready.install(permit, Existing::Replace)?.touched())
}

/// Nothing was to be packed: the count of removals begins anew as it does with a packed copy, also after a restart.
fn count_anew(permit: &mut Permit<'_>, entry: &Entry) -> Result<u64, Refusal> {
    if entry.deleted() > 0 {
        let mut record = Vec::new();
        Record::Removed { id: entry.id, count: 0 }.put(&mut record);
        entry.touch(permit.log(&record)?);
        entry.set_deleted(0);
    }
    Ok(entry.touched())
}

/// A packed copy of a filter; nothing if that frees no table.
fn packed(engine: &Engine, desk: &Desk, entry: &Entry) -> Result<Option<Ready>, Refusal> {
    if entry.kind() != Kind::GrowingCuckoo || entry.with(|filter| filter.stages()) == Some(1) {
        return Ok(None);
    }
    let mut filter = bits_of(engine, entry)?;
    let freed = match &mut filter {
        AnyFilter::GrowingCuckoo(chain) => chain.compact(),
        _ => 0,
    };
    if freed == 0 {
        return Ok(None);
    }
    let built = Built {
        name: &entry.name(),
        recipe: entry.recipe().clone(),
        maker: entry.maker(),
        filter,
        expires_ms: entry.expires_ms(),
    };
    Ready::make(engine, desk, built).map(Some)
}

/// What CF.INFO and CF.DEBUG tell.
struct Numbers {
    buckets: u64,
    filters: u64,
    items: u64,
    deleted: u64,
    bucket_size: u16,
    max_iterations: u16,
    expansion: u16,
}

/// The buckets of the first table, and how many tables there are.
fn tables<S: Store>(filter: &AnyFilter<S>) -> (u64, u64) {
    match filter {
        AnyFilter::GrowingCuckoo(chain) => {
            (chain.shapes().next().map_or(0, |first| first.buckets()), chain.stages() as u64)
        }
        AnyFilter::Cuckoo(table) => (table.shape().buckets(), 1),
        AnyFilter::RedisCuckoo(filter) => (filter.shape().buckets(), filter.shape().tables()),
        _ => (0, 1),
    }
}

impl Numbers {
    fn of(entry: &Entry) -> Result<Self, Refusal> {
        let ((buckets, filters), removed_before) = match entry.body() {
            Body::Small(_) => ((0, 1), None),
            Body::Shared(filter) => (tables(filter), None),
            Body::Guarded(filter) => {
                let filter = filter.read().unwrap_or_else(std::sync::PoisonError::into_inner);
                let removed = match &*filter {
                    AnyFilter::RedisCuckoo(filter) => Some(filter.shape().deletes()),
                    _ => None,
                };
                (tables(&*filter), removed)
            }
            Body::Unavailable { why, .. } => return Err(entry.no_answer(why)),
        };
        let (bucket_size, max_iterations, expansion) = match entry.maker() {
            Maker::Cf { bucket_size, max_iterations, expansion } => (bucket_size, max_iterations, expansion),
            _ if entry.recipe().when_full == WhenFull::Grow => {
                (BUCKET_SIZE, MAX_ITERATIONS, entry.recipe().growth as u16)
            }
            _ => (BUCKET_SIZE, MAX_ITERATIONS, 0),
        };
        Ok(Self {
            buckets,
            filters,
            items: entry.with(|filter| filter.len()).unwrap_or(0),
            deleted: removed_before.unwrap_or_else(|| entry.deleted()),
            bucket_size,
            max_iterations,
            expansion,
        })
    }
}

fn info(call: &mut Call<'_, '_, '_>, key: &[u8]) -> Outcome {
    let entry = call.find_of(key, Family::Cuckoo)?.ok_or(Refusal::NOT_FOUND)?;
    let numbers = Numbers::of(&entry)?;
    call.sees(&entry);
    let rows = [
        ("Size", entry.memory()),
        ("Number of buckets", numbers.buckets),
        ("Number of filters", numbers.filters),
        ("Number of items inserted", numbers.items),
        ("Number of items deleted", numbers.deleted),
        ("Bucket size", numbers.bucket_size.into()),
        ("Expansion rate", numbers.expansion.into()),
        ("Max iterations", numbers.max_iterations.into()),
    ];
    Ok(Reply::Map(rows.into_iter().map(|(name, value)| (Reply::simple(name), Reply::Int(value as i64))).collect()))
}

fn debug(call: &mut Call<'_, '_, '_>, key: &[u8]) -> Outcome {
    let entry = call.find_of(key, Family::Cuckoo)?.ok_or(Refusal::NOT_FOUND)?;
    let Numbers { buckets, filters, items, deleted, bucket_size, max_iterations, expansion } = Numbers::of(&entry)?;
    Ok(Reply::text(format!(
        "bktsize:{bucket_size} buckets:{buckets} items:{items} deletes:{deleted} filters:{filters} \
         max_iterations:{max_iterations} expansion:{expansion}"
    )))
}
