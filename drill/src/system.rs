//! The calls that the standard library has no name for: the monotonic clock all times are told by, a signal, the clone of
//! an image, priorities, limits, and the memory of a process.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

/// Nanoseconds since the first call, on the monotonic clock: acknowledgements and cuts are told on this one scale.
pub fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Asks a process to stop (SIGTERM).
pub fn terminate(pid: u32) -> Result<(), String> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| format!("{pid} is no process id"))?;
    // SAFETY: kill takes two integers; the child is ours and not yet waited for, so its id is not reused.
    match unsafe { libc::kill(pid, libc::SIGTERM) } {
        0 => Ok(()),
        _ => Err(format!("SIGTERM to {pid}: {}", std::io::Error::last_os_error())),
    }
}

/// The image `from` as it is at one instant, as the new file `to` (FICLONE: what `cp --reflink=always` does, without
/// the start of a process in between). The file system holds back every write to `from` while it shares the extents.
pub fn clone_image(from: &Path, to: &Path) -> Result<(), String> {
    let say = |error: std::io::Error| format!("clone {} to {}: {error}", from.display(), to.display());
    let source = File::open(from).map_err(say)?;
    let target = File::create(to).map_err(say)?;
    // SAFETY: both descriptors are open for the whole call, and FICLONE reads nothing but the integer given.
    match unsafe { libc::ioctl(target.as_raw_fd(), libc::FICLONE as _, source.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(say(std::io::Error::last_os_error())),
    }
}

/// The memory of a process, in bytes.
pub struct Memory {
    pub resident: u64,
    /// The most there ever was.
    pub highest: u64,
}

impl Memory {
    /// That of the process with this id.
    pub fn of(pid: u32) -> Result<Memory, String> {
        let path = format!("/proc/{pid}/status");
        let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
            kilobytes.map(|kilobytes| kilobytes * 1024).ok_or_else(|| format!("{path} tells no {name}"))
        };
        Ok(Memory { resident: field("VmRSS:")?, highest: field("VmHWM:")? })
    }
}

/// As many open files as the system allows, for this process and those it starts: 2,000 connections are 4,000 of them.
pub fn many_files() -> Result<(), String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write the one structure given, which lives through them.
    let done = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && {
            limit.rlim_cur = limit.rlim_max.min(65_536);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0
        }
    };
    match done && limit.rlim_cur >= 4_096 {
        true => Ok(()),
        false => Err(format!("{} open files are allowed, 4,096 are needed (ulimit -n)", limit.rlim_cur)),
    }
}

/// Runs a command of the system to its end; its words on failure.
pub fn run(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(format!("{command:?}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr).trim()))
}

/// Copies a folder of plain files and folders. Sockets and the like are left out.
pub fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let say = |error: std::io::Error| format!("copy {} to {}: {error}", from.display(), to.display());
    fs::create_dir_all(to).map_err(say)?;
    for entry in fs::read_dir(from).map_err(say)? {
        let entry = entry.map_err(say)?;
        let kind = entry.file_type().map_err(say)?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else if kind.is_file() {
            match fs::copy(entry.path(), &target) {
                // A running server may have removed it since the folder was listed.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                other => drop(other.map_err(say)?),
            }
        }
    }
    Ok(())
}

/// Every plain file below a folder with its size, sorted by path, so that a seed picks the same one each time.
pub fn files(folder: &Path) -> Result<Vec<(std::path::PathBuf, u64)>, String> {
    let say = |error: std::io::Error| format!("list {}: {error}", folder.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(say)? {
        let entry = entry.map_err(say)?;
        let data = entry.metadata().map_err(say)?;
        if data.is_dir() {
            found.extend(files(&entry.path())?);
        } else if data.is_file() {
            found.push((entry.path(), data.len()));
        }
    }
    found.sort();
    Ok(found)
}

/// Removes a folder and makes it again, empty.
pub fn empty_folder(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| format!("remove {}: {error}", folder.display()))?;
    }
    fs::create_dir_all(folder).map_err(|error| format!("make {}: {error}", folder.display()))
}
