//! Files of filters that are too long for a reply in one piece: put on the disk as they are at one moment, and sent from there.
//!
//! The address of a file is known when all of it is written, and stands before it in the answer; and what is sent must not
//! change under way. So the file is written to the data folder first, without a name and without a copy in memory, and is kept
//! there for an hour: whoever was cut off goes on with it, and whoever asks for the filter while nothing has changed gets the same.
//! A server that keeps nothing has no folder: then it is in memory, charged, and kept for a minute.

use std::io::{Cursor, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use bloomgate::format::Addressing;
use bloomgate::{Address, Delta};
use bloomgate_command::{Refusal, Role};
use bloomgate_http::body;
use bloomgate_http::problem::Problem;
use tokio::sync::{Semaphore, mpsc};

use super::files::{File, full_name};
use super::reply;
use super::seats::{Full, Seat, Seats};
use super::serving::{Busy, House};
use super::visit::Visit;
use crate::engine::bases::{KEPT_MS, MAX_FILE};
use crate::engine::budget::Refused;
use crate::engine::dumps::IDLE_MS;
use crate::engine::entry::Entry;
use crate::engine::holders::Holder;
use crate::engine::namespaces::Beside;
use crate::engine::{Engine, check_available};
use crate::session::filing::{Moment, expected_length};
use crate::store::Spooled;

/// Files that are made at once: each reads a whole filter and writes it to the disk.
const MAKING: usize = 2;
/// Files there are at once, and how many of one tenant or user.
const MOST: usize = 16;
const MOST_OF_ONE: usize = 4;
/// Bytes that are read from the disk at once, and that wait for the client.
const PIECE: usize = 256 << 10;
/// When to come again if there are too many.
const AGAIN: Duration = Duration::from_secs(5);

/// A file of a filter as it was at one moment.
#[derive(Debug)]
pub(super) struct Fetched {
    /// The filter's number, and the sequence of its last change that is in the file.
    filter: u64,
    touched: u64,
    /// What the filter was called.
    name: Box<[u8]>,
    pub(super) address: Address,
    content: Content,
    seat: Seat,
}

#[derive(Debug)]
enum Content {
    Disk(Spooled),
    Memory(Vec<u8>, #[allow(dead_code)] Charged), // Held until the bytes go.
}

/// Memory beside the filters that is given back when this goes.
#[derive(Debug)]
struct Charged {
    engine: Arc<Engine>,
    charge: Option<Beside>,
}

impl Drop for Charged {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.engine.give_up_beside(charge);
        }
    }
}

/// Files that were made, with the time of their last use; newest last.
#[derive(Debug)]
pub(super) struct Fetches {
    kept: Mutex<Vec<(Arc<Fetched>, u64)>>,
    seats: Arc<Seats>,
    making: Semaphore,
}

impl Default for Fetches {
    fn default() -> Self {
        Self { kept: Mutex::default(), seats: Seats::new(MOST, MOST_OF_ONE), making: Semaphore::new(MAKING) }
    }
}

impl Fetches {
    fn kept(&self) -> MutexGuard<'_, Vec<(Arc<Fetched>, u64)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, now_ms: u64, is_it: impl Fn(&Fetched) -> bool) -> Option<Arc<Fetched>> {
        let mut kept = self.kept();
        let (file, used_ms) = kept.iter_mut().find(|(file, _)| is_it(file))?;
        *used_ms = now_ms;
        Some(file.clone())
    }

    /// The file of an address, if it is kept and of a filter of this name.
    pub(super) fn of_address(&self, now_ms: u64, name: &[u8], address: Address) -> Option<Arc<Fetched>> {
        self.find(now_ms, |file| file.address == address && *file.name == *name)
    }

    /// Lets go of files that nobody has used for long. Who is reading one still has it.
    pub(super) fn forget_old(&self, now_ms: u64) {
        self.kept().retain(|(file, used_ms)| {
            let most = if matches!(file.content, Content::Disk(_)) { KEPT_MS } else { IDLE_MS };
            now_ms.saturating_sub(*used_ms) < most
        });
    }

    /// A place for one more file of a holder. Those that nobody reads make room, the one that was not used for longest first.
    fn seat(&self, holder: &Holder) -> Result<Seat, Problem> {
        loop {
            let full = match self.seats.take(holder.clone()) {
                Ok(seat) => return Ok(seat),
                Err(full) => full,
            };
            let mut kept = self.kept();
            let may_go = |file: &Arc<Fetched>| {
                Arc::strong_count(file) == 1 && (matches!(full, Full::OfAll(_)) || file.seat.holder() == holder)
            };
            let oldest =
                kept.iter().enumerate().filter(|(_, (file, _))| may_go(file)).min_by_key(|(_, (_, used))| *used);
            let Some(at) = oldest.map(|(at, _)| at) else {
                let (Full::OfOne(most) | Full::OfAll(most)) = full;
                return Err(Problem::unavailable(
                    format!(
                        "{most} files of filters are being fetched, the most at once: come again when one has ended"
                    ),
                    AGAIN,
                ));
            };
            kept.remove(at);
        }
    }
}

/// 507: no memory, or no place on the disk.
pub(super) fn no_room(detail: impl Into<String>) -> Problem {
    let title = "There is no room for this now";
    Problem::new(StatusCode::INSUFFICIENT_STORAGE, "no-room", title, detail)
}

/// A refusal as a problem: no memory is 507 here, since what was asked for is right.
fn refused(refusal: &Refusal) -> Problem {
    let text = refusal.as_str();
    match text.contains("Insufficient memory") {
        true => no_room(text.trim_start_matches("ERR ")),
        false => reply::problem(text),
    }
}

/// The filter of a name, if its file is too long for a reply in one piece.
pub(super) fn long_one(visit: &mut Visit, name: &[u8]) -> Result<Option<Entry>, Problem> {
    visit.talk.view(Role::Read, |call| {
        let full = full_name(call, name)?;
        let entry = call.find(&full).ok_or(Refusal::NOT_FOUND)?;
        check_available(&entry)?;
        let bytes = entry.with(|filter| filter.size_in_bytes()).unwrap_or(0);
        Ok((bytes > MAX_FILE).then_some(entry))
    })
}

fn stopping() -> Problem {
    Problem::unavailable("the server is stopping: ask again when it is back", AGAIN)
}

/// The file of a filter as it is now: one that was made before if nothing has changed since.
pub(super) async fn fetch(visit: &mut Visit, entry: &Entry) -> Result<Arc<Fetched>, Problem> {
    let house = visit.house.clone();
    let (fetches, now_ms) = (&house.fetches, house.engine.clock.now_ms());
    let holder = visit.talk.view(Role::Read, |call| Ok(call.holder()))?;
    let same =
        |file: &Fetched| file.filter == entry.id && file.touched == entry.touched() && entry.is_named(&file.name);
    let mut found = fetches.find(now_ms, same);
    if found.is_none() {
        let _turn = fetches.making.acquire().await.map_err(|_| stopping())?;
        // Whoever was before may have made it.
        found = fetches.find(now_ms, same);
        if found.is_none() {
            let seat = fetches.seat(&holder)?;
            let (shared, filter) = (house.clone(), entry.clone());
            let made = tokio::task::spawn_blocking(move || make(&shared, &filter, seat)).await;
            let made = Arc::new(made.map_err(|_| stopping())??);
            fetches.kept().push((made.clone(), now_ms));
            found = Some(made);
        }
    }
    // What is in it may not be on the disk yet: the answer waits for that.
    visit.talk.view(Role::Read, |call| {
        call.sees(entry);
        Ok(())
    })?;
    found.ok_or_else(|| Problem::internal("the file was not made"))
}

/// Writes the file.
fn make(house: &House, entry: &Entry, seat: Seat) -> Result<Fetched, Problem> {
    let engine = &house.engine;
    let (expected, name) = (expected_length(entry), entry.name().into_owned().into_boxed_slice());
    let (touched, content, address) = match house.desk.keeper.get() {
        Some(keeper) => {
            let failed =
                |why: String| no_room(format!("the file could not be put on the server's disk to be sent: {why}"));
            let mut spool = keeper.spool(expected).map_err(failed)?;
            let touched = write(engine, entry, &mut spool)?;
            let file = spool.finish().map_err(|error| failed(error.to_string()))?;
            let address = address_of(&file).map_err(|error| failed(error.to_string()))?;
            (touched, Content::Disk(file), address)
        }
        None => {
            let told = |refused: Refused| no_room(refused.to_string().trim_start_matches("ERR "));
            let charge = engine.claim_beside(&name, expected, expected).map_err(told)?;
            let charged = Charged { engine: engine.clone(), charge: Some(charge) };
            let mut bytes = Vec::new();
            let room = usize::try_from(expected).ok().filter(|&room| bytes.try_reserve_exact(room).is_ok());
            room.ok_or_else(|| no_room(format!("the system has no {expected} bytes of memory for the file")))?;
            let mut file = Cursor::new(bytes);
            let touched = write(engine, entry, &mut file)?;
            let bytes = file.into_inner();
            let address = Address::of(&bytes);
            (touched, Content::Memory(bytes, charged), address)
        }
    };
    Ok(Fetched { filter: entry.id, touched, name, address, content, seat })
}

/// Writes the file of a filter; the sequence of its last change that is certainly in it.
fn write(engine: &Engine, entry: &Entry, out: &mut (impl std::io::Write + std::io::Seek)) -> Result<u64, Problem> {
    let (touched, image) = match entry.is_ordered() {
        true => (entry.touched(), None),
        false => {
            let alone = engine.stop();
            (entry.touched(), Moment::image(&alone, entry).map_err(|refusal| refused(&refusal))?)
        }
    };
    let moment = match image {
        Some(image) => image,
        None => Moment::copied(&engine.budget, entry).map_err(|refusal| refused(&refusal))?,
    };
    let failed = |refusal: Refusal| {
        no_room(format!("the file could not be made: {}", refusal.as_str().trim_start_matches("ERR ")))
    };
    moment.write(out).map_err(failed)?;
    Ok(touched)
}

fn address_of(file: &Spooled) -> std::io::Result<Address> {
    let mut reader = Addressing::new(Reading { file, offset: 0 });
    std::io::copy(&mut reader, &mut std::io::sink())?;
    Ok(reader.address())
}

/// A file from front to back.
struct Reading<'f> {
    file: &'f Spooled,
    offset: u64,
}

impl Read for Reading<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let piece = self.file.read(self.offset, into.len())?;
        into[..piece.len()].copy_from_slice(&piece);
        self.offset += piece.len() as u64;
        Ok(piece.len())
    }
}

/// How many times as much memory as the longer of two files the difference of both takes while it is made: both, the
/// difference, and the second made from it to see that it is right.
const TO_COMPARE: u64 = 5;

/// What makes one file into another, and the address that it leads to. Both are held in memory meanwhile, charged.
pub(super) async fn difference(house: &Arc<House>, old: File, new: Arc<Fetched>) -> Result<(Address, Bytes), Problem> {
    let _turn = house.fetches.making.acquire().await.map_err(|_| stopping())?;
    let (engine, to) = (house.engine.clone(), new.address);
    let made = tokio::task::spawn_blocking(move || {
        let needed = old.length().max(new.length()).saturating_mul(TO_COMPARE);
        let told = |refused: Refused| no_room(refused.to_string().trim_start_matches("ERR "));
        let _held = engine.budget.hold(needed).map_err(told)?;
        let failed = |error: std::io::Error| no_room(format!("the file could not be read again: {error}"));
        let (name, old, new) = (new.name.clone(), old.read().map_err(failed)?, new.read().map_err(failed)?);
        let delta = Delta::between(&old, &new).and_then(|delta| delta.to_bytes());
        let delta = delta.map_err(|error| reply::refused(error.to_string()))?;
        // Until the client has it.
        let charge = engine.claim_beside(&name, 0, delta.len() as u64).map_err(told)?;
        Ok::<_, Problem>(Bytes::from_owner(Owned(delta, Charged { engine: engine.clone(), charge: Some(charge) })))
    });
    Ok((to, made.await.map_err(|_| stopping())??))
}

/// Bytes that are charged for as long as somebody has them.
struct Owned(Vec<u8>, #[allow(dead_code)] Charged); // Held until the bytes go.

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A file in memory, as bytes that are not copied.
struct Whole(Arc<Fetched>);

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        match &self.0.content {
            Content::Memory(bytes, _) => bytes,
            Content::Disk(_) => &[],
        }
    }
}

impl Fetched {
    pub(super) fn length(&self) -> u64 {
        match &self.content {
            Content::Disk(file) => file.length(),
            Content::Memory(bytes, _) => bytes.len() as u64,
        }
    }

    /// All of it, in memory.
    pub(super) fn read(&self) -> std::io::Result<Vec<u8>> {
        match &self.content {
            Content::Disk(file) => file.read(0, usize::MAX),
            Content::Memory(bytes, _) => Ok(bytes.clone()),
        }
    }

    /// The bytes from the first to the last, both included, read as the client takes them. Stopping waits for them a while.
    pub(super) fn part(self: &Arc<Self>, first: u64, last: u64, busy: Busy) -> Body {
        if let Content::Memory(..) = self.content {
            // Within what is in memory, so within `usize`.
            return Body::from(Bytes::from_owner(Whole(self.clone())).slice(first as usize..=last as usize));
        }
        let (door, pieces) = mpsc::channel(1);
        tokio::spawn(send(self.clone(), first, last, door, busy));
        body::pieces(pieces)
    }
}

/// Sends a stretch of a file, piece by piece. A disk that fails ends the body before its announced end, which is an error to
/// every client.
async fn send(file: Arc<Fetched>, first: u64, last: u64, door: mpsc::Sender<Bytes>, _busy: Busy) {
    let mut at = first;
    while at <= last {
        let (from, most) = (file.clone(), usize::try_from(last - at + 1).unwrap_or(PIECE).min(PIECE));
        let read = tokio::task::spawn_blocking(move || match &from.content {
            Content::Disk(spooled) => spooled.read(at, most),
            Content::Memory(..) => Ok(Vec::new()),
        });
        let Ok(Ok(piece)) = read.await else { return };
        at += piece.len() as u64;
        if piece.is_empty() || door.send(piece.into()).await.is_err() {
            return;
        }
    }
}
