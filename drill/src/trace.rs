//! What strace wrote down: which calls are made at all, which failed, and for which file.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

/// Calls that name a file by its path; all others are on an open one.
const NAMED: [&str; 11] =
    ["openat", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "statx"];

/// The calls that failed.
#[derive(Default)]
pub struct Failed {
    /// As strace wrote them down, those for the data folder first.
    pub calls: Vec<String>,
    /// Whether one of them was for the data folder.
    pub in_data: bool,
}

impl Failed {
    /// Those that a trace tells of.
    pub fn read(trace: &Path, data: &Path) -> Failed {
        let text = std::fs::read_to_string(trace).unwrap_or_default();
        let folder = data.display().to_string();
        let inside = |line: &String| match path_of(line) {
            Some(path) if path.starts_with('/') => path.starts_with(&folder),
            // Redis works in its folder and names its files from there; strace tells the folder of an openat.
            Some(_) => line.contains(&folder) || !line.contains("at("),
            None => line.contains(&folder),
        };
        let mut calls = failed_calls(&text);
        calls.sort_by_key(|line| !inside(line));
        Failed { in_data: calls.iter().any(inside), calls }
    }

    /// Whether there is nothing but the wakening of a runtime among them.
    pub fn is_wakening(&self) -> bool {
        !self.calls.is_empty() && self.calls.iter().all(|call| call.contains("<anon_inode:[eventfd]>"))
    }
}

/// The names of all calls in a trace.
pub fn made(trace: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    text.lines().filter_map(name_of).map(str::to_owned).collect()
}

/// strace ends shortly after what it traces: its file is whole when it has written down the end.
pub fn wait_for_end(trace: &Path) {
    for _ in 0..200 {
        let text = std::fs::read_to_string(trace).unwrap_or_default();
        if text.lines().next_back().is_some_and(|line| line.contains("+++")) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The calls that failed. One that was interrupted in the trace by those of other threads stands in two lines: they are
/// joined, for the first alone says which file it was.
fn failed_calls(trace: &str) -> Vec<String> {
    let mut begun: HashMap<&str, &str> = HashMap::new();
    let mut failed = Vec::new();
    for line in trace.lines() {
        let thread = line.split(' ').next().unwrap_or_default();
        if let Some(first) = line.strip_suffix("<unfinished ...>") {
            begun.insert(thread, first);
        } else if line.contains("(INJECTED)") {
            let first = begun.get(thread).filter(|_| line.contains("resumed>"));
            failed.push(first.map_or_else(|| line.to_owned(), |first| format!("{first}{line}")));
        }
    }
    failed
}

/// The name of the call that a line begins with: after the thread, before its arguments.
fn name_of(line: &str) -> Option<&str> {
    let (name, _) = line.split_whitespace().nth(1)?.split_once('(')?;
    Some(name).filter(|name| !name.is_empty())
}

/// The path that a call names a file by: of two the first. An empty one stands for a file that is open.
fn path_of(line: &str) -> Option<&str> {
    name_of(line).filter(|name| NAMED.contains(name))?;
    line.split('"').nth(1).filter(|path| !path.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "7 write(3</data/log>, \"x\", 1 <unfinished ...>\n\
                         8 write(4<anon_inode:[eventfd]>, \"\", 8) = 8\n\
                         7 <... write resumed>) = -1 EIO (Input/output error) (INJECTED)\n\
                         8 write(5<pipe>, \"mkdir(\\\"/data/\", 1) = -1 EIO (Input/output error) (INJECTED)\n\
                         8 +++ exited with 1 +++\n";

    #[test]
    fn a_call_in_two_lines_is_one() {
        let failed = failed_calls(TRACE);
        assert_eq!(failed.len(), 2);
        assert!(failed[0].contains("/data/log") && failed[0].contains("(INJECTED)"));
        assert!(failed[1].contains("<pipe>"));
    }

    #[test]
    fn a_call_is_known_by_its_name_and_not_by_what_it_writes() {
        assert_eq!(path_of("7  mkdir(\"/data/backups\", 0777) = 0"), Some("/data/backups"));
        assert_eq!(
            path_of("7 linkat(AT_FDCWD</>, \"/data/MANIFEST\", AT_FDCWD</>, \"/b\", 0)"),
            Some("/data/MANIFEST")
        );
        assert_eq!(path_of("7 statx(3</proc/7/cgroup>, \"\", AT_EMPTY_PATH, STATX_ALL, 0x7f) = 0"), None);
        assert_eq!(path_of("7 read(3</data/log>, \"mkdir(\", 6) = 6"), None);
        assert_eq!(TRACE.lines().find_map(name_of), Some("write"));
        assert_eq!(name_of("7 <... write resumed>) = 1"), None);
        assert_eq!(name_of("8 +++ exited with 1 +++"), None);
    }

    #[test]
    fn a_fault_is_in_the_data_folder_or_elsewhere() {
        let trace = std::env::temp_dir().join(format!("bloomgate-drill-trace.{}", std::process::id()));
        std::fs::write(&trace, TRACE).unwrap();
        let (here, elsewhere) = (Failed::read(&trace, Path::new("/data")), Failed::read(&trace, Path::new("/other")));
        let made = made(&trace);
        std::fs::remove_file(&trace).unwrap();
        assert!(here.in_data && here.calls.len() == 2 && here.calls[0].contains("/data/log"));
        assert!(!elsewhere.in_data && elsewhere.calls.len() == 2 && !elsewhere.is_wakening());
        assert_eq!(made.into_iter().collect::<Vec<_>>(), ["write"]);
    }
}
