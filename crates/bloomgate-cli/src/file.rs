//! Filters in files: what the verbs need of the library's doors, with messages that name the file.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use bloomgate::bits::{Mapped, Store};
use bloomgate::foreign::Form;
use bloomgate::format::{Address, Compression, OpenOptions, SaveOptions, gaps};
use bloomgate::{AnyFilter, Error, ErrorKind, Secret};

use crate::failure::Failure;
use crate::keys::Source;
use crate::screen;

/// A filter that can be asked.
pub enum Opened {
    /// In its file: opens at once, however large it is.
    InPlace(AnyFilter<Mapped>),
    /// In memory, because it was compressed.
    Loaded(AnyFilter),
}

/// Opens a filter to be asked; a keyed one needs its secret, and some forms of other systems their name.
pub fn open(path: &Path, form: Option<Form>, secret_file: Option<&Path>) -> Result<Opened, Failure> {
    check_filter(path)?;
    if let Some(form) = form {
        return read_foreign(path, form).map(Opened::Loaded);
    }
    with_secret(secret_file, |options| match AnyFilter::map_with(path, options) {
        // Compressed, or a machine whose words are the other way round.
        Err(error) if error.kind() == ErrorKind::Unsupported => AnyFilter::open_with(path, options).map(Opened::Loaded),
        mapped => mapped.map(Opened::InPlace),
    })
}

/// Loads a filter into memory.
fn load(path: &Path, secret_file: Option<&Path>) -> Result<AnyFilter, Failure> {
    with_secret(secret_file, |options| AnyFilter::open_with(path, options))
}

fn with_secret<T>(
    secret_file: Option<&Path>,
    open: impl FnOnce(&OpenOptions) -> bloomgate::Result<T>,
) -> Result<T, Failure> {
    let secret = secret_file.map(Secret::read_file).transpose()?;
    let options = match &secret {
        Some(secret) => OpenOptions::new().secret(secret),
        None => OpenOptions::new(),
    };
    open(&options).map_err(|error| match error.kind() {
        ErrorKind::Secret if secret.is_none() => Failure::Message(format!("{error}, with --secret-file FILE")),
        _ => error.into(),
    })
}

/// The same call on an opened filter, wherever it is.
macro_rules! in_any_place {
    ($opened:expr, $filter:ident => $call:expr) => {
        match $opened {
            $crate::file::Opened::InPlace($filter) => $call,
            $crate::file::Opened::Loaded($filter) => $call,
        }
    };
}
pub(crate) use in_any_place;

/// Opens a filter whose every bit is to be used: a damaged chunk is refused here, with its place.
pub fn open_whole(path: &Path, secret_file: Option<&Path>) -> Result<Opened, Failure> {
    let opened = open(path, None, secret_file)?;
    if let Opened::InPlace(filter) = &opened {
        filter.verify_all(|_, _| ()).map_err(|error| Failure::at(path, error))?;
    }
    Ok(opened)
}

/// The bytes of a plain file.
pub fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    check_filter(path)?;
    std::fs::read(path).map_err(|error| Failure::at(path, error))
}

/// The length of a file.
pub fn length(path: &Path) -> Result<u64, Failure> {
    std::fs::metadata(path).map(|metadata| metadata.len()).map_err(|error| Failure::at(path, error))
}

/// Whether two paths lead to one file that is there.
pub fn are_one(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The form of another system, from its name.
pub fn form(text: &str) -> Result<Form, String> {
    text.parse().map_err(|error: bloomgate::Error| error.to_string())
}

/// Reads a filter of another system in the form that was named.
pub fn read_foreign(path: &Path, form: Form) -> Result<AnyFilter, Failure> {
    let bytes = std::fs::read(path).map_err(|error| Failure::at(path, error))?;
    AnyFilter::from_foreign(&bytes, form).map_err(|error| Failure::at(path, error))
}

/// Refuses what is there and is no plain file: opening a pipe would wait for ever. What is not there is told of when
/// it is opened.
pub fn check_filter(path: &Path) -> Result<(), Failure> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(Failure::at(path, "is a directory: give the file of a filter")),
        Ok(metadata) if !metadata.is_file() => {
            Err(Failure::at(path, "is a pipe, socket or device: write it to a plain file first, and give that"))
        }
        _ => Ok(()),
    }
}

/// What was written.
pub struct Saved {
    /// The size of the file.
    pub bytes: u64,
    /// Its content address.
    pub address: String,
}

/// Saves a filter; whatever goes wrong, a file that was there stays as it was.
pub fn save<S: Store>(filter: &AnyFilter<S>, path: &Path, compress: bool) -> Result<Saved, Failure> {
    let _lock = lock(path)?;
    save_locked(filter, path, compress)
}

/// The same for who has [locked](lock) the file already.
pub fn save_locked<S: Store>(filter: &AnyFilter<S>, path: &Path, compress: bool) -> Result<Saved, Failure> {
    let address = if filter.kind().is_foreign() {
        filter.save_foreign(path)?
    } else {
        filter.save_with(path, &save_options(compress))?
    };
    Ok(Saved { bytes: length(path)?, address: address.to_string() })
}

/// Writes a filter to standard output, for a pipe.
pub fn print(filter: &AnyFilter, compress: bool) -> Result<Saved, Failure> {
    let mut out = Counted { out: std::io::stdout().lock(), bytes: 0, gone: false };
    let written = if filter.kind().is_foreign() {
        filter.to_foreign().and_then(|bytes| {
            let address = Address::of(&bytes);
            out.write_all(&bytes).map(|()| address).map_err(|error| Error::io("writing to standard output", error))
        })
    } else {
        filter.write_to_with(&mut out, &save_options(compress))
    };
    match written {
        Ok(address) => {
            out.flush()?;
            Ok(Saved { bytes: out.bytes, address: address.to_string() })
        }
        Err(_) if out.gone => Err(Failure::Gone),
        Err(error) => Err(error.into()),
    }
}

/// Counts the bytes that pass, and remembers whether the reader went away.
struct Counted<W> {
    out: W,
    bytes: u64,
    gone: bool,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        match &written {
            Ok(written) => self.bytes += *written as u64,
            Err(error) => self.gone |= error.kind() == std::io::ErrorKind::BrokenPipe,
        }
        written
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

fn save_options(compress: bool) -> SaveOptions {
    SaveOptions::new().compress(if compress { Compression::WhereItPays } else { Compression::Never })
}

/// A filter that is loaded, changed and saved again, by one process at a time: two that did so at once would lose what
/// the first of them changed, and a lost key is a wrong "no".
pub struct Update {
    pub filter: AnyFilter,
    path: PathBuf,
    /// Where it is saved, if not in its place. Then it is only read, and nobody has to wait.
    elsewhere: Option<PathBuf>,
    _lock: Option<Lock>,
}

impl Update {
    /// Waits for its turn and loads the filter, to be saved in its place or elsewhere.
    pub fn begin(
        path: &Path,
        output: Option<&Path>,
        form: Option<Form>,
        secret_file: Option<&Path>,
    ) -> Result<Self, Failure> {
        check_filter(path)?;
        // What a link names is changed, not the link.
        let path = path.canonicalize().map_err(|error| Failure::at(path, error))?;
        let elsewhere = output.filter(|output| !are_one(output, &path)).map(Path::to_path_buf);
        let lock = if elsewhere.is_none() { lock(&path)? } else { None };
        let filter = match form {
            Some(form) => read_foreign(&path, form)?,
            None => load(&path, secret_file)?,
        };
        Ok(Self { filter, path, elsewhere, _lock: lock })
    }

    /// Saves it, in its place or elsewhere.
    pub fn save(&self, compress: bool) -> Result<Saved, Failure> {
        match &self.elsewhere {
            Some(output) => save(&self.filter, output, compress),
            None => save_locked(&self.filter, &self.path, compress),
        }
    }
}

/// The folder that a path names a file in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The turn of one process to change a file. It goes with the process, and so does the lock file, unless that is killed:
/// an empty file stays then, which is taken again and keeps nobody waiting.
pub struct Lock {
    _file: File,
    place: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Elsewhere a file that is open stays: it is taken again the next time.
        if cfg!(unix) {
            _ = std::fs::remove_file(&self.place);
        }
    }
}

/// The lock that whoever changes a filter holds: a file of its own beside it, since the filter is replaced by another.
/// A lock of the whole folder would let two wait for each other that change two files, one reading what the other
/// prints. Nothing where files cannot be locked.
pub fn lock(path: &Path) -> Result<Option<Lock>, Failure> {
    // What a link names is replaced.
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    let mut name = OsString::from(".");
    // File systems stop at 255 bytes.
    name.push(real.file_name().filter(|name| name.len() <= 200).unwrap_or("bloomgate".as_ref()));
    name.push(".lock");
    let place = folder_of(real).join(name);
    let mut told = false;
    loop {
        // One that somebody else left behind may be read only.
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&place);
        let Ok(file) = opened.or_else(|_| File::open(&place)) else { return Ok(None) };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut told, true) {
                    screen::tell(format_args!("{}: waiting for another bloomgate that changes it", path.display()));
                }
                file.lock().map_err(|error| Failure::at(&place, error))?;
            }
            Err(TryLockError::Error(_)) => return Ok(None),
        }
        // Whoever had it before has removed it: the next one makes another, and both would hold a lock.
        if is_at(&file, &place) {
            return Ok(Some(Lock { _file: file, place }));
        }
    }
}

/// Whether a path still leads to this file.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(file), Ok(path)) => (file.dev(), file.ino()) == (path.dev(), path.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Whether compression makes a file of this filter smaller.
pub fn pays(filter: &AnyFilter) -> bool {
    gaps::worth_it(filter.fill_ratio())
}

/// Refuses a place that cannot or must not be written to, before an hour was spent on reading keys.
pub fn check_target(path: &Path, sources: &[Source]) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::at(path, "is a directory: name the file to write"));
    }
    // The output takes the place of what was there: right for a file, a disaster for /dev/null.
    if path.exists() && !path.is_file() {
        return Err(Failure::at(path, "is no plain file and would be replaced: name the file to write"));
    }
    if path.as_os_str() == "-" {
        return Err(Failure::Message("this verb writes to a file, not to standard output: name one with -o".into()));
    }
    if is_of_the_system(path) {
        return Err(Failure::at(path, "is a device or a stream and would be replaced: name the file to write"));
    }
    if is_a_stream(path) {
        return Err(Failure::at(
            path,
            "is standard input, output or error, redirected, and would be replaced: name another file to write",
        ));
    }
    for source in sources {
        if let Some(from) = source.path()
            && are_one(from, path)
        {
            return Err(Failure::at(path, "is read and would be replaced by the filter: write to another file"));
        }
    }
    let parent = folder_of(path);
    if !parent.is_dir() {
        return Err(Failure::at(parent, "there is no such directory: make it, or write elsewhere"));
    }
    Ok(())
}

/// Whether a path lies where the system keeps its devices and processes: `/dev/stdout` looks like a plain file when
/// standard output is one. `/dev/shm` is a folder of plain files in memory.
fn is_of_the_system(path: &Path) -> bool {
    // The folder first: resolved to the end, /dev/stdout is the file that it was redirected to.
    let folder = folder_of(path);
    let places = [folder.canonicalize(), path.canonicalize()];
    let system =
        |place: &Path| (place.starts_with("/dev") && !place.starts_with("/dev/shm")) || place.starts_with("/proc");
    places.iter().flatten().any(|place| system(place))
}

/// Whether a path is the file that standard input, output or error was redirected to, whatever its name.
#[cfg(unix)]
fn is_a_stream(path: &Path) -> bool {
    use std::fs::{File, Metadata};
    use std::os::fd::AsFd;
    use std::os::unix::fs::MetadataExt;
    let Ok(target) = std::fs::metadata(path) else { return false };
    let same = |stream: Metadata| (stream.dev(), stream.ino()) == (target.dev(), target.ino());
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    [input.as_fd(), output.as_fd(), error.as_fd()].into_iter().any(|stream| {
        let stream = stream.try_clone_to_owned().and_then(|stream| File::from(stream).metadata());
        stream.is_ok_and(same)
    })
}

#[cfg(not(unix))]
fn is_a_stream(_: &Path) -> bool {
    false
}
