//! Loading: from a file, a stream or memory, chunk by verified chunk into words of our own; and mapping, where the
//! words stay in the file.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use super::agreement::{open_contract, read_contract, verify_sentinels};
use super::filed::Filed;
use super::frame::{MAGIC, corrupt};
use super::read::{Head, Limits, MemoryFile, SectionReader};
use super::sections::Codec;
use super::shapes::Plan;
use super::sums::CHUNK_LEN;
use crate::any::AnyFilter;
use crate::bits::mapped::{CHUNK_BYTES, Region};
use crate::bits::sealed::Sealed as _;
use crate::bits::{Mapped, Owned};
use crate::error::{Error, ErrorKind, Result};
use crate::foreign::{self, Form};
use crate::hash::{Contract, Secret};
use crate::kind::Kind;

const _: () = assert!(CHUNK_LEN == CHUNK_BYTES, "the mapped store checks the chunks of the format");

/// What a filter is opened with: its secret, limits, the contract that it must have. All may be left out.
///
/// ```
/// use bloomgate::format::{Limits, OpenOptions};
/// use bloomgate::{Blocked, Contract, Secret};
///
/// let secret = Secret::from_bytes([7; 32]);
/// let mut seen = Blocked::builder().secret(&secret).items(1_000).build()?;
/// seen.insert("https://example.org/")?;
/// let bytes = seen.to_bytes()?;
///
/// assert!(Blocked::from_bytes(&bytes).is_err()); // keyed, and the secret is not in the file
/// let options = OpenOptions::new().secret(&secret).limits(Limits::payload(1 << 20));
/// assert!(Blocked::from_bytes_with(&bytes, &options)?.contains("https://example.org/")?);
/// # Ok::<(), bloomgate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct OpenOptions<'a> {
    /// The secret of a keyed filter. Not used for one that is not keyed.
    pub secret: Option<&'a Secret>,
    /// How much the file may ask for: [`Limits::for_file`] for files and bytes, 1 GiB for streams, unless said.
    pub limits: Option<Limits>,
    /// The contract that the file must have; a keyed one needs no `secret` beside it.
    pub contract: Option<&'a Contract>,
    /// How many threads read and verify the bits of a file that is loaded; one unless said.
    pub threads: Option<usize>,
    /// Whether the bytes of a file that is loaded need not stay in the page cache.
    pub once: bool,
}

impl<'a> OpenOptions<'a> {
    /// No secret, default limits, any contract.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The secret of a keyed filter.
    #[must_use]
    pub fn secret(mut self, secret: &'a Secret) -> Self {
        self.secret = Some(secret);
        self
    }

    /// How much the file may ask for.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// How many threads read and verify the bits of a file that is loaded: one unless said. Two load a gigabyte from the
    /// page cache in less than half a second. Streams and bytes are read by one.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// The file is loaded now and not again soon: its bytes do not stay in the page cache, where they would take as much
    /// memory again as the filter. From a cold disk that is up to twice as fast. Bytes that are there already stay.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.once = true;
        self
    }

    /// The contract that the file must have: another is refused with what differs.
    #[must_use]
    pub fn contract(mut self, contract: &'a Contract) -> Self {
        self.contract = Some(contract);
        self
    }
}

/// A file of a filter, and nothing else: opening a pipe would wait for ever, and a device is no file.
pub(crate) fn plain_file(path: &Path) -> Result<(File, u64)> {
    let doing = || format!("opening {}", path.display());
    let refuse = |metadata: std::fs::Metadata| {
        if metadata.is_file() {
            return Ok(metadata.len());
        }
        let what = if metadata.is_dir() { "a directory" } else { "a pipe, socket or device" };
        let message = format!(
            "{} is {what}, not a plain file: give the path of a file, or read a stream with read_from",
            path.display()
        );
        Err(Error::new(ErrorKind::InvalidParameter, message))
    };
    refuse(std::fs::metadata(path).map_err(|e| Error::io(doing(), e))?)?;
    let file = File::open(path).map_err(|e| Error::io(doing(), e))?;
    // Asked again of what was really opened.
    let length = refuse(file.metadata().map_err(|e| Error::io(doing(), e))?)?;
    Ok((file, length))
}

/// Names the file in whatever went wrong inside it.
pub(crate) fn in_file<T>(path: &Path, result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::Io => error,
        kind => Error::new(kind, format!("{}: {error}", path.display())),
    })
}

/// Everything of a file that is checked before its words are looked at.
pub(crate) fn agree<F: Filed<S>, S: crate::bits::Store>(
    head: &Head,
    options: &OpenOptions<'_>,
) -> Result<(Contract, Plan)> {
    let plan = Plan::read(head)?;
    if let Some(wanted) = F::KIND
        && plan.kind() != wanted
    {
        return Err(wrong_kind(wanted, plan.kind()));
    }
    let contract = open_contract(&read_contract(head)?, options)?;
    verify_sentinels(head, &contract)?;
    Ok((contract, plan))
}

#[cold]
pub(crate) fn wrong_kind(wanted: Kind, found: Kind) -> Error {
    let message = format!(
        "the file holds a {found} filter, and a {wanted} one was asked for: open it as the type of its kind, or as an \
         AnyFilter"
    );
    Error::new(ErrorKind::Shape, message)
}

/// A filter, and the reader just after its last byte.
pub(crate) fn load<F: Filed<Owned>, R: Read>(mut file: SectionReader<R>, options: &OpenOptions<'_>) -> Result<(F, R)> {
    let (contract, plan) = agree::<F, Owned>(file.head(), options)?;
    let stores = read_words(&mut file, &plan)?;
    let reader = file.finish()?;
    Ok((F::of(contract, plan, stores).map_err(disagreeing)?, reader))
}

/// [`load`] from a file that can be read at any place: straight into the words, by the threads that are allowed.
fn load_file<F: Filed<Owned>>(file: File, options: &OpenOptions<'_>) -> Result<F> {
    let mut file = SectionReader::from_file(file, options.limits)?;
    let (contract, plan) = agree::<F, Owned>(file.head(), options)?;
    #[cfg(unix)]
    let stores = each_store(&plan, |part, words| {
        match file.read_words(part, words, options.threads.unwrap_or(1), options.once)? {
            true => Ok(()),
            false => deliver(&mut file, part, words),
        }
    })?;
    #[cfg(not(unix))]
    let stores = read_words(&mut file, &plan)?;
    file.finish()?;
    F::of(contract, plan, stores).map_err(disagreeing)
}

/// Parts that are each in order and do not belong together: what a builder calls a wrong parameter is a corrupt file.
fn disagreeing(refusal: Error) -> Error {
    match refusal.kind() {
        ErrorKind::InvalidParameter => corrupt(format!("SHAPE: {refusal}")),
        _ => refusal,
    }
}

/// The words of every piece of a plan, each chunk verified before it is taken.
pub(crate) fn read_words<R: Read>(file: &mut SectionReader<R>, plan: &Plan) -> Result<Vec<Owned>> {
    each_store(plan, |part, words| deliver(file, part, words))
}

/// The words of every piece of a plan, which `fill` fills.
fn each_store(plan: &Plan, mut fill: impl FnMut(u16, &mut [u64]) -> Result<()>) -> Result<Vec<Owned>> {
    let mut stores = Vec::with_capacity(plan.pieces.len());
    for (part, piece) in plan.parts() {
        // Zero pages from the system: memory is used as verified bytes arrive, not as they are claimed.
        let mut store = Owned::zeroed(piece.cells.words())?;
        let words = store.as_mut_slice();
        fill(part, words)?;
        piece.cells.check_last_word(part, words.last().copied().unwrap_or(0))?;
        piece.cells.check_words(part, store.as_slice())?;
        stores.push(store);
    }
    Ok(stores)
}

/// Reads the payload of a part chunk by chunk, each after it was verified.
fn deliver<R: Read>(file: &mut SectionReader<R>, part: u16, words: &mut [u64]) -> Result<()> {
    file.read_payload(part, words.len() as u64 * 8, &mut |offset, bytes| {
        let to = usize::try_from(offset / 8).ok().and_then(|at| words.get_mut(at..)).unwrap_or_default();
        let (from, rest) = bytes.as_chunks::<8>();
        if to.len() < from.len() || !rest.is_empty() || offset % 8 != 0 {
            return Err(corrupt(format!("PAYLOAD of part {part}: {} bytes at {offset} are no words", bytes.len())));
        }
        for (word, bytes) in to.iter_mut().zip(from) {
            *word = u64::from_le_bytes(*bytes);
        }
        Ok(())
    })
}

pub(crate) fn open<F: Filed<Owned>>(path: &Path, options: &OpenOptions<'_>) -> Result<F> {
    let (file, _) = plain_file(path)?;
    in_file(path, load_file(file, options))
}

pub(crate) fn from_bytes<F: Filed<Owned>>(bytes: &[u8], options: &OpenOptions<'_>) -> Result<F> {
    Ok(load(SectionReader::from_slice(bytes, options.limits)?, options)?.0)
}

/// [`open`] for a filter of any kind: other systems' files are recognised where they can be.
pub(crate) fn open_any(path: &Path, options: &OpenOptions<'_>) -> Result<AnyFilter> {
    let (mut file, length) = plain_file(path)?;
    let doing = || format!("reading {}", path.display());
    let ours = is_ours(&mut file).map_err(|e| Error::io(doing(), e))?;
    if ours || length > options.limits.unwrap_or_else(|| Limits::for_file(length)).max_payload_bytes {
        return in_file(path, load_file(file, options));
    }
    // As much memory as the file is long, and no more if it grows meanwhile.
    let mut bytes = Vec::new();
    (&file).take(length).read_to_end(&mut bytes).map_err(|e| Error::io(doing(), e))?;
    in_file(path, any_from_bytes(&bytes, options))
}

/// The form of another system that a file certainly is in, if it is not ours: reads the file if it might be.
pub fn recognise(path: impl AsRef<Path>) -> Result<Option<Form>> {
    let path = path.as_ref();
    let (mut file, length) = plain_file(path)?;
    let doing = || format!("reading {}", path.display());
    if is_ours(&mut file).map_err(|e| Error::io(doing(), e))? {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    (&file).take(length).read_to_end(&mut bytes).map_err(|e| Error::io(doing(), e))?;
    Ok(foreign::detect(&bytes))
}

/// Whether a file begins as ours do; leaves it at its beginning.
fn is_ours(file: &mut File) -> std::io::Result<bool> {
    let mut start = Vec::new();
    (&*file).take(MAGIC.len() as u64).read_to_end(&mut start)?;
    file.rewind()?;
    Ok(start == MAGIC)
}

/// [`from_bytes`] for a filter of any kind.
pub(crate) fn any_from_bytes(bytes: &[u8], options: &OpenOptions<'_>) -> Result<AnyFilter> {
    if bytes.starts_with(&MAGIC) {
        return from_bytes(bytes, options);
    }
    let Some(form) = foreign::detect(bytes) else { return from_bytes(bytes, options) };
    let filter = AnyFilter::from_foreign(bytes, form)?;
    if let Some(wanted) = options.contract.filter(|wanted| *wanted != filter.contract()) {
        return Err(Error::new(
            ErrorKind::Contract,
            format!("a filter in the form {form} has its own contract, {}; {wanted} was expected", filter.contract()),
        ));
    }
    Ok(filter)
}

pub(crate) fn read_from<F: Filed<Owned>>(reader: impl Read, options: &OpenOptions<'_>) -> Result<F> {
    Ok(load(SectionReader::new(reader, options.limits.unwrap_or_default())?, options)?.0)
}

/// Maps a file: its head is verified now, its words when they are touched.
pub(crate) fn map<F: Filed<Mapped>>(path: &Path, options: &OpenOptions<'_>) -> Result<F> {
    refuse_big_endian()?;
    let (file, length) = plain_file(path)?;
    if length == 0 {
        // An empty file cannot be mapped; what is wrong with it is said by the reader.
        return in_file(path, map_region(Region::of_bytes(&[]), 0, options));
    }
    in_file(path, map_region(Region::of_file(&file), length, options))
}

/// The same for bytes, which are copied: for tests and fuzzing.
pub(crate) fn map_bytes<F: Filed<Mapped>>(bytes: &[u8], options: &OpenOptions<'_>) -> Result<F> {
    refuse_big_endian()?;
    map_region(Region::of_bytes(bytes), bytes.len() as u64, options)
}

pub(crate) fn refuse_big_endian() -> Result<()> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    let message = "the words of a file are little-endian and this machine is not: load the file instead of mapping it";
    Err(Error::new(ErrorKind::Unsupported, message))
}

fn map_region<F: Filed<Mapped>>(region: std::io::Result<Region>, length: u64, options: &OpenOptions<'_>) -> Result<F> {
    let region = region.map_err(|e| Error::io("mapping a filter file", e))?;
    // The real length of what is mapped, which may be less by now; and never the one byte that nothing was padded to.
    let bytes = region.bytes().get(..length as usize).unwrap_or(region.bytes());
    if F::KIND.is_none()
        && !bytes.starts_with(&MAGIC)
        && let Some(form) = foreign::detect(bytes)
    {
        // It has no checksums by which it could be verified as it is touched.
        let message =
            format!("a filter in the form {form} cannot be queried in place: load the file instead of mapping it");
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let file = MemoryFile::open(bytes, options.limits.unwrap_or_else(|| Limits::for_file(length)))?;
    let head = file.head();
    let (contract, plan) = agree::<F, Mapped>(head, options)?;
    let mut stores = Vec::with_capacity(plan.pieces.len());
    for (part, piece) in plan.parts() {
        let payload = file.payload(part)?;
        let section = payload.section();
        if section.codec != Codec::Raw.number() {
            let message =
                format!("{section} is compressed and cannot be queried in place: load the file instead of mapping it");
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let sums = head.sums(part).map(|sums| sums.as_slice().to_vec()).unwrap_or_default();
        let words = piece.cells.words();
        let store = Mapped::new(region.clone(), part, section.offset, words, sums)?;
        let last = (words as usize).saturating_sub(1);
        // Where a word has bits that no key sets, its chunk is checked now: a good one with such bits is a bad file.
        if piece.cells.spare() != 0 && store.admit(last) {
            piece.cells.check_last_word(part, store.words().last().copied().unwrap_or(0))?;
        }
        stores.push(store);
    }
    F::of(contract, plan, stores).map_err(disagreeing)
}
