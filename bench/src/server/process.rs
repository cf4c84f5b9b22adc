//! A server started for the run: pinned, on a free port and an empty folder, its CPU time read thread by thread.

use super::wire::{Answer, Talk};
use crate::args::Fault;
use crate::shared_machine::pin;
use std::collections::HashMap;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Loading a gigabyte from a slow disk is well within it.
const START_LIMIT: Duration = Duration::from_secs(180);

/// What to start, and where.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The command; `{port}`, `{folder}`, `{threads}` and `{fsync}` are filled in.
    pub words: Vec<String>,
    /// Its data.
    pub folder: PathBuf,
    /// The CPUs it is kept on; empty means all.
    pub cores: Vec<usize>,
    /// For `{threads}`.
    pub threads: usize,
    /// For `{fsync}`.
    pub fsync: &'static str,
}

/// CPU nanoseconds of each thread.
pub type Cpu = HashMap<u32, u64>;

/// A server that runs until it is dropped.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// From the start to the first answer.
    pub start_time: Duration,
}

impl Process {
    /// Starts it and waits until it answers PING.
    pub fn start(launch: &Launch) -> Result<Self, Fault> {
        Self::start_until(launch, |talk| Ok(talk.ask(&["PING"])? == Answer::Status("PONG".to_string())))
    }

    /// Starts it and waits until `ready` is true on a fresh connection.
    pub fn start_until(launch: &Launch, ready: impl Fn(&mut Talk) -> Result<bool, Fault>) -> Result<Self, Fault> {
        fs::create_dir_all(&launch.folder)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let fill = |word: &String| {
            word.replace("{port}", &port.to_string())
                .replace("{folder}", &launch.folder.to_string_lossy())
                .replace("{threads}", &launch.threads.to_string())
                .replace("{fsync}", launch.fsync)
        };
        let words: Vec<String> = launch.words.iter().map(fill).collect();
        let (program, rest) = words.split_first().ok_or_else(|| Fault("--server got no command".to_string()))?;
        let said = launch.folder.with_extension("out");
        let log = File::options().create(true).append(true).open(&said)?;
        let mut command = Command::new(program);
        command.args(rest).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let cores = launch.cores.clone();
        // SAFETY: between fork and exec only two system calls run; `cores` was allocated before.
        unsafe {
            command.pre_exec(move || {
                // The server must not outlive a benchmark that was stopped halfway.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                pin(&cores)
            });
        }
        let begun = Instant::now();
        let child = command.spawn().map_err(|error| {
            Fault(format!(
                "{program} does not start: {error}; --binary PATH names ours, apt-get install redis-server the other"
            ))
        })?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut process = Self { child, address, start_time: Duration::ZERO };
        while !Talk::to(address).and_then(|mut talk| ready(&mut talk)).unwrap_or(false) {
            let gone = process.child.try_wait()?;
            if gone.is_some() || begun.elapsed() > START_LIMIT {
                let text = fs::read_to_string(&said).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(5).collect();
                let how = gone.map_or("is still not ready".to_string(), |status| format!("ended with {status}"));
                return Err(Fault(format!("{} {how}; its last lines, latest first: {tail:?}", words.join(" "))));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        process.start_time = begun.elapsed();
        Ok(process)
    }

    /// A connection to it.
    pub fn talk(&self) -> Result<Talk, Fault> {
        Talk::to(self.address)
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it with SHUTDOWN, so that everything is on disk.
    pub fn shut_down(mut self) -> Result<(), Fault> {
        let mut talk = self.talk()?;
        // A server that goes does not answer: only a refusal is of interest.
        if let Ok(Answer::Error(text)) = talk.ask(&["SHUTDOWN"]) {
            return Err(Fault(format!("SHUTDOWN was refused: {text}")));
        }
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > START_LIMIT {
                return Err(Fault("the server does not end after SHUTDOWN".to_string()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Ends it as the power cord would, except that the page cache stays.
    pub fn kill(mut self) -> Result<(), Fault> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself: then there is nothing to kill, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// CPU time of every thread of process `id`: `schedstat` counts nanoseconds, where `stat` counts in hundredths.
pub fn cpu_of(id: u32) -> Result<Cpu, Fault> {
    let mut found = Cpu::new();
    for entry in fs::read_dir(format!("/proc/{id}/task"))? {
        let path = entry?.path();
        // A thread may end between the listing and the reading.
        let Ok(text) = fs::read_to_string(path.join("schedstat")) else { continue };
        let thread = path.file_name().and_then(|name| name.to_str()?.parse().ok());
        let spent = text.split_whitespace().next().and_then(|word| word.parse().ok());
        if let (Some(thread), Some(spent)) = (thread, spent) {
            found.insert(thread, spent);
        }
    }
    Ok(found)
}

/// What each thread spent between two readings, most first.
pub fn spent(before: &Cpu, after: &Cpu) -> Vec<u64> {
    let mut found: Vec<u64> =
        after.iter().map(|(thread, now)| now.saturating_sub(before.get(thread).copied().unwrap_or(0))).collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    found
}

/// All files below `folder`.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else if entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_counted_thread_by_thread() {
        let own = std::process::id();
        let before = cpu_of(own).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let used = spent(&before, &cpu_of(own).unwrap());
        assert!(used[0] > 0 && used.is_sorted_by(|one, other| one >= other), "{used:?}");
    }

    #[test]
    fn a_new_thread_counts_from_its_start() {
        let (before, after) = (Cpu::from([(1, 100)]), Cpu::from([(1, 150), (2, 70)]));
        assert_eq!(spent(&before, &after), [70, 50]);
    }
}
