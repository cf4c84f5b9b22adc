//! A real PostgreSQL server in an empty folder, behind a socket file there: made, started, waited for and stopped, for the
//! tests of every crate.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Who runs the server when we are root, which it refuses to be run by: `nobody`, on every Unix.
const NOBODY: u32 = 65534;

/// A server with its folder, whose user is `tester`. Stopped when dropped.
pub struct PostgresProcess {
    pub folder: tempfile::TempDir,
    port: u16,
    settings: Vec<String>,
    child: Child,
}

impl PostgresProcess {
    /// Starts one on a port, with these files in its folder `data` and these settings.
    pub fn start(port: u16, files: &[(&str, String)], settings: &[&str]) -> Self {
        let folder = empty_folder();
        let data = folder.path().join("data");
        give_away(folder.path());
        let made = tool("initdb", folder.path())
            .args(["--no-sync", "--auth=trust", "--username=tester", "--encoding=UTF8", "--no-locale", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for (name, text) in files {
            let path = data.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            give_away(&path);
        }
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let child = spawn(&folder, port, &settings);
        let mut server = Self { folder, port, settings, child };
        server.wait();
        server
    }

    /// Stops it in good order; its folder stays.
    pub fn stop(&mut self) {
        self.end("-INT");
    }

    /// Ends it by a signal: `-INT` in good order, `-QUIT` as after a crash, `-KILL` without a word to its own processes.
    pub fn end(&mut self, signal: &str) {
        let done = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(done.unwrap().success());
        self.child.wait().unwrap();
    }

    /// Starts it again on the same port and folder; `standby`: as one that follows another server.
    pub fn start_again(&mut self, standby: bool) {
        if standby {
            let signal = self.folder.path().join("data/standby.signal");
            std::fs::write(&signal, "").unwrap();
            give_away(&signal);
        }
        let begin = Instant::now();
        loop {
            self.child = spawn(&self.folder, self.port, &self.settings);
            // After a kill its processes still hold its memory for a moment.
            while !self.is_ready(self.port) && self.child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
            if self.child.try_wait().unwrap().is_none() {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "the server does not start again");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn wait(&mut self) {
        let begin = Instant::now();
        while !self.is_ready(self.port) {
            assert!(self.child.try_wait().unwrap().is_none(), "the server ended");
            assert!(begin.elapsed() < Duration::from_secs(60), "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_ready(&self, port: u16) -> bool {
        let address = format!("postgres://tester@{}:{port}/postgres", self.host());
        tool("pg_isready", self.folder.path()).args(["-q", "-t", "1", "-d", &address]).status().unwrap().success()
    }

    /// The folder of the socket file, as the host of an address.
    pub fn host(&self) -> String {
        self.folder.path().to_str().unwrap().replace('/', "%2F")
    }
}

/// In memory where there is plenty: a server makes a thousand files, which took ext4 a second of a processor on a disk with half
/// a million of them.
fn empty_folder() -> tempfile::TempDir {
    const MEMORY: &str = "/dev/shm";
    const PLENTY_KIB: u64 = 4 << 20;
    let free = Command::new("df").args(["-k", "--output=avail", MEMORY]).output().ok();
    let free = free.and_then(|df| String::from_utf8_lossy(&df.stdout).lines().last()?.trim().parse::<u64>().ok());
    match free {
        Some(free) if free >= PLENTY_KIB => tempfile::tempdir_in(MEMORY),
        _ => tempfile::tempdir(),
    }
    .unwrap()
}

fn spawn(folder: &tempfile::TempDir, port: u16, settings: &[String]) -> Child {
    tool("postgres", folder.path())
        .args(["-c", "fsync=off"])
        .args(settings.iter().flat_map(|setting| ["-c", setting.as_str()]))
        .args(["-p", &port.to_string(), "-k"])
        .arg(folder.path())
        .arg("-D")
        .arg(folder.path().join("data"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for PostgresProcess {
    fn drop(&mut self) {
        let data = self.folder.path().join("data");
        // At once: there is nothing to keep.
        _ = tool("pg_ctl", self.folder.path()).args(["stop", "-s", "-m", "immediate", "-D"]).arg(data).status();
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Makes a file that of whoever runs the server.
fn give_away(path: &Path) {
    if is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A program of PostgreSQL, from the path or from where Debian keeps them.
fn tool(name: &str, folder: &Path) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found: Option<PathBuf> = versions
        .map(|version| version.path().join("bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|program| program.is_file());
    let mut command = Command::new(found.unwrap_or_else(|| panic!("{name} is missing: install PostgreSQL")));
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}
