//! From keys to a full filter of the right size.
//!
//! A filter is sized before the first key goes in. When nobody says how many keys there are, a file of lines is sized by
//! a look at samples of it, read once, and folded down if many lines were the same; what cannot be looked at before it
//! is read (a pipe, a compressed file, a query) waits as digests on disk until it is counted. Kinds that cannot be folded
//! keep digests in memory, or, when asked to, read the files twice.

use bloomgate::{AnyFilter, Contract, Digest, ErrorKind, Fuse, Kind, Ribbon, WhenFull};

use super::empty::empty;
use super::{Args, Counting};
use crate::conveyor::{Batch, Conveyor};
use crate::failure::Failure;
use crate::keys::{Block, Source, Strange, bytes_of};
use crate::lines_about::lines_about;
use crate::number;
use crate::progress::Progress;
use crate::spill::Spill;

/// The first stage of a chain when nothing is known: what a hash set would have done for.
const FIRST_STAGE: u64 = 10_000;
/// Digests inserted at once from memory: enough to hide the cost of the call.
const BATCH: usize = 8192;
/// What the library allows above a promised rate before it calls the promise broken.
const KEPT: f64 = 1.0001;

/// What came of it.
pub struct Built {
    pub filter: AnyFilter,
    pub read: u64,
    /// Different keys, where they were counted.
    pub different: Option<u64>,
    /// What looked strange in the sources.
    pub strange: Strange,
    /// What the sources left out.
    pub skipped: Vec<String>,
}

/// How the filter gets its size.
enum Way {
    /// It was told, or counted before.
    Known(u64),
    /// By samples: one pass, then folded, and a second pass if it was too small.
    Guessed(u64),
    /// By the digests, which wait on disk unless they are few; then folded.
    Spilled,
    /// By the digests, which wait in memory, sorted: different keys are counted exactly.
    Gathered,
}

/// Kinds with a slot for every copy, which repeated lines would fill.
fn has_slots(kind: Kind) -> bool {
    matches!(kind, Kind::Cuckoo | Kind::GrowingCuckoo | Kind::Quotient | Kind::RedisCuckoo)
}

/// Kinds that can be made smaller when they are full.
pub fn can_fold(kind: Kind) -> bool {
    matches!(kind, Kind::Blocked | Kind::Classic | Kind::Partitioned)
}

/// Reads all keys into a filter.
pub fn fill(args: &Args, contract: &Contract, sources: &[Source]) -> Result<Built, Failure> {
    let bytes = bytes_of(sources)?;
    match way(args, sources, bytes)? {
        Way::Known(items) => {
            let mut pass = Pass::new(args, sources, contract, "building", bytes);
            let mut filter = empty(args, items, 0, contract.clone())?;
            pass.each(|batch| insert(&mut filter, &batch.digests, || batch.block.keys().place(0)))?;
            Ok(pass.built(filter, None))
        }
        Way::Guessed(guess) => guessed(args, contract, sources, bytes, guess),
        Way::Spilled => {
            let mut pass = Pass::new(args, sources, contract, "reading", bytes);
            let mut spill = Spill::new(&args.output);
            pass.each(|batch| spill.push(&batch.digests))?;
            let spill = match spill.into_memory() {
                Ok(few) => return sorted(args, contract, pass, few),
                Err(spill) => spill,
            };
            let mut filter = empty(args, spill.len(), fold_levels(spill.len()), contract.clone())?;
            let progress = Progress::new("building", Some(spill.len() * 16), args.quiet);
            spill.drain(|digests| {
                progress.advance(digests.len() as u64 * 16);
                insert(&mut filter, digests, || "the keys".into())
            })?;
            drop(progress);
            Ok(pass.built(folded(args, filter)?, None))
        }
        Way::Gathered => gathered(args, contract, sources, bytes),
    }
}

fn way(args: &Args, sources: &[Source], bytes: Option<u64>) -> Result<Way, Failure> {
    let kind = args.kind();
    if !kind.takes_inserts() {
        return Ok(Way::Gathered);
    }
    if let Some(items) = args.items {
        return Ok(Way::Known(items));
    }
    match args.count {
        Some(Counting::Twice) => match bytes {
            Some(bytes) => Ok(Way::Known(count(args, sources, bytes)?)),
            None => Err(Failure::Message(
                "--count twice needs files, and one of the sources is a pipe or a query, which can be read once: leave it \
                 out, or give --items"
                    .into(),
            )),
        },
        Some(Counting::Digests) => Ok(Way::Gathered),
        Some(Counting::Fold) if !can_fold(kind) => Err(Failure::Message(format!(
            "a {kind} filter cannot be folded: use --count twice or --count digests, or --kind blocked, classic or \
             partitioned"
        ))),
        _ if kind == Kind::Scalable => Ok(Way::Known(lines_about(sources, &args.reading).unwrap_or(FIRST_STAGE))),
        _ if !can_fold(kind) => Ok(Way::Gathered),
        // One that refuses keys past its capacity must not be too small at first.
        _ if args.when_full == Some(WhenFull::Refuse) => Ok(Way::Spilled),
        _ => Ok(lines_about(sources, &args.reading).map_or(Way::Spilled, Way::Guessed)),
    }
}

/// One pass by samples, and another if they misled.
fn guessed(
    args: &Args,
    contract: &Contract,
    sources: &[Source],
    bytes: Option<u64>,
    guess: u64,
) -> Result<Built, Failure> {
    let mut items = guess;
    let starts = sources.iter().map(Source::position).collect::<Result<Vec<_>, _>>()?;
    loop {
        let mut pass = Pass::new(args, sources, contract, "building", bytes);
        let mut filter = empty(args, items, fold_levels(items), contract.clone())?;
        pass.each(|batch| insert(&mut filter, &batch.digests, || batch.block.keys().place(0)))?;
        if pass.read > items && filter.expected_rate() > filter.promised_rate() * KEPT {
            items = pass.read;
            for (source, &start) in sources.iter().zip(&starts) {
                source.rewind(start)?;
            }
            continue;
        }
        return Ok(pass.built(folded(args, filter)?, None));
    }
}

/// Halvings to prepare for: rounding for them costs less than 1 % of the filter.
fn fold_levels(items: u64) -> u32 {
    (items / 5_000).checked_ilog2().unwrap_or(0).min(10)
}

/// The filter made as small as the keys in it allow. At most half of it is made anew, so memory stays below twice that
/// of the largest.
fn folded(args: &Args, filter: AnyFilter) -> Result<AnyFilter, Failure> {
    let wanted = (filter.len() as f64 * args.headroom) as u64;
    if wanted.max(1).saturating_mul(2) > filter.capacity() {
        return Ok(filter);
    }
    Ok(match filter {
        AnyFilter::Blocked(filter) => filter.fold_to(wanted, args.rate())?.into(),
        AnyFilter::Classic(filter) => filter.fold_to(wanted, args.rate())?.into(),
        AnyFilter::Partitioned(filter) => filter.fold_to(wanted, args.rate())?.into(),
        other => other,
    })
}

/// The first of two passes: how many keys there are, those that occur twice counted twice.
fn count(args: &Args, sources: &[Source], bytes: u64) -> Result<u64, Failure> {
    let progress = Progress::new("counting", Some(bytes), args.quiet);
    let mut items = 0;
    let mut block = Block::default();
    for source in sources {
        // Standard input shares its place in the file with every copy of it: it has to go back to where it was.
        let start = source.position()?;
        let mut stream = args.reading.open(source)?;
        while stream.next(&mut block)? {
            items += block.keys().keys.len() as u64;
            progress.advance(block.consumed());
        }
        source.rewind(start)?;
    }
    Ok(items)
}

/// One pass with all digests in memory: the different ones are counted, and the filter made then.
fn gathered(args: &Args, contract: &Contract, sources: &[Source], bytes: Option<u64>) -> Result<Built, Failure> {
    let mut pass = Pass::new(args, sources, contract, "reading", bytes);
    let mut digests: Vec<Digest> = Vec::new();
    pass.each(|batch| {
        digests.try_reserve(batch.digests.len()).map_err(|_| {
            Failure::Message(format!(
                "no memory for the digests of more than {}: give --items, or --kind scalable, and none are kept",
                number::counted(digests.len() as u64, "key")
            ))
        })?;
        digests.extend_from_slice(&batch.digests);
        Ok(())
    })?;
    sorted(args, contract, pass, digests)
}

/// The filter of digests in memory, the different ones counted.
fn sorted(args: &Args, contract: &Contract, pass: Pass<'_>, mut digests: Vec<Digest>) -> Result<Built, Failure> {
    // Sorted, equal keys stand together. Their order makes no difference to the bits.
    digests.sort_unstable();
    let different = digests.chunk_by(|a, b| a == b).count() as u64;
    // A counting filter counts a key as often as it comes; slots are for different keys.
    let items = if args.kind() == Kind::Counting {
        pass.read
    } else {
        digests.dedup();
        different
    };
    let filter = match args.kind() {
        Kind::Fuse => Fuse::builder().rate(args.rate()).contract(contract.clone()).build_from_digests(&digests)?.into(),
        Kind::Ribbon => {
            Ribbon::builder().rate(args.rate()).contract(contract.clone()).build_from_digests(&digests)?.into()
        }
        _ => {
            let mut filter = empty(args, items, 0, contract.clone())?;
            for batch in digests.chunks(BATCH) {
                insert(&mut filter, batch, || "the keys".into())?;
            }
            filter
        }
    };
    Ok(pass.built(filter, Some(different)))
}

fn insert(filter: &mut AnyFilter, digests: &[Digest], place: impl Fn() -> String) -> Result<(), Failure> {
    filter.insert_digests(digests).map(|_| ()).map_err(|error| match error.kind() {
        ErrorKind::Full => Failure::Message(format!(
            "at or after {}: there is no room for more keys than the {} that the filter is for{}: give a larger --items or \
             --headroom",
            place(),
            number::grouped(filter.capacity()),
            if has_slots(filter.kind()) { " (a key that comes again takes a place again)" } else { "" }
        )),
        _ => error.into(),
    })
}

/// One reading of all sources.
struct Pass<'a> {
    args: &'a Args,
    conveyor: Conveyor,
    progress: Progress,
    read: u64,
    strange: Strange,
}

impl<'a> Pass<'a> {
    fn new(args: &'a Args, sources: &[Source], contract: &Contract, doing: &'static str, bytes: Option<u64>) -> Self {
        let conveyor = Conveyor::start(sources, &args.reading, contract);
        let progress = Progress::new(doing, bytes, args.quiet);
        Self { args, conveyor, progress, read: 0, strange: Strange::default() }
    }

    fn each(&mut self, mut take: impl FnMut(&Batch) -> Result<(), Failure>) -> Result<(), Failure> {
        while let Some(batch) = self.conveyor.next()? {
            if batch.begins {
                self.strange.look(&self.args.reading.cut, &batch.block.keys());
            }
            take(&batch)?;
            self.read += batch.digests.len() as u64;
            self.progress.advance(batch.block.consumed());
            self.conveyor.recycle(batch);
        }
        Ok(())
    }

    fn built(self, filter: AnyFilter, different: Option<u64>) -> Built {
        let skipped = self.conveyor.skipped();
        Built { filter, read: self.read, different, strange: self.strange, skipped }
    }
}
