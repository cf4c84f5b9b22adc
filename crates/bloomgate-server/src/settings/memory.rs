//! How much memory this process may have: the machine's, or less where a control group says so.
//!
//! A container on a machine of 64 GB that may use 2 is killed at 2, whatever the machine has. Linux tells it in files: by
//! version 2 in `memory.max`, by version 1 in `memory.limit_in_bytes`, of the group and of every group around it.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

/// Groups within groups that are looked at.
const DEPTH: usize = 64;
/// Bytes of a file that are read: a limit is one number, a list of groups a line each.
const READ: u64 = 64 << 10;

/// A limit on memory and who set it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes.
    pub bytes: u64,
    /// `machine`, or the file that says less.
    pub source: String,
}

/// The limit of this process, found once.
pub fn limit() -> &'static MemoryLimit {
    static FOUND: OnceLock<MemoryLimit> = OnceLock::new();
    FOUND.get_or_init(|| within(machine_bytes(), Path::new("/")))
}

/// What clients may make the server hold where nobody says it, of a process that may have so much: a quarter of what filters leave
/// over, and enough for a long request.
#[must_use]
pub fn for_clients(bytes: u64) -> u64 {
    (bytes / 16).clamp(64 << 20, 4 << 30)
}

/// What is wrong with a limit for the filters, for whoever set it.
#[must_use]
pub fn worries(max_memory: u64, used: u64, limit: &MemoryLimit) -> Vec<String> {
    let mut worries = Vec::new();
    if max_memory > limit.bytes {
        worries.push(format!(
            "max-memory is {max_memory}, and the process may have {} (by {}): it may be killed before the limit is reached. Set it \
             to three quarters of that, {}",
            limit.bytes,
            limit.source,
            limit.bytes / 4 * 3
        ));
    }
    if used > max_memory {
        worries.push(format!(
            "max-memory is {max_memory}, and filters take {used} already: new filters and growth are refused until they take \
             less. Delete some, or raise it"
        ));
    }
    worries
}

/// The memory of this machine; 4 GB where the system does not tell.
fn machine_bytes() -> u64 {
    let pages = rustix::system::sysinfo();
    let bytes = (pages.totalram as u64).saturating_mul(u64::from(pages.mem_unit));
    if bytes == 0 { 4 << 30 } else { bytes }
}

/// The least of the machine's memory and what the groups of this process say, with the system's files under a root.
fn within(machine: u64, root: &Path) -> MemoryLimit {
    let mut least = MemoryLimit { bytes: machine, source: "machine".to_owned() };
    let groups = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    for line in groups.lines() {
        // number:controllers:path; of version 2 the number is 0 and the controllers are none.
        let mut parts = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let tops: &[(&str, &str)] = if number == "0" && controllers.is_empty() {
            &[("sys/fs/cgroup", "memory.max"), ("sys/fs/cgroup/unified", "memory.max")]
        } else if controllers.split(',').any(|controller| controller == "memory") {
            &[("sys/fs/cgroup/memory", "memory.limit_in_bytes")]
        } else {
            continue;
        };
        for (top, file) in tops {
            for folder in around(Path::new(path)) {
                let file = Path::new(top).join(folder).join(file);
                // "max" is no number and no limit; nor is 0, under which nothing could run.
                let bytes = read(&root.join(&file)).and_then(|text| text.trim().parse::<u64>().ok());
                if let Some(bytes) = bytes.filter(|&bytes| bytes > 0 && bytes < least.bytes) {
                    least = MemoryLimit { bytes, source: Path::new("/").join(file).display().to_string() };
                }
            }
        }
    }
    least
}

/// A group's folder and all around it, relative to the top, which is the last. A path that leads out of the top (as one
/// container sees another's) is taken for the top itself.
fn around(path: &Path) -> Vec<PathBuf> {
    let mut folder = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => folder.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                folder.clear();
                break;
            }
        }
    }
    let mut all: Vec<PathBuf> = folder.ancestors().take(DEPTH).map(Path::to_path_buf).collect();
    if all.last().is_none_or(|last| !last.as_os_str().is_empty()) {
        all.push(PathBuf::new());
    }
    all
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(READ).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system of these files.
    fn found(files: &[(&str, &str)]) -> (u64, String) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let limit = within(1_000_000, root.path());
        (limit.bytes, limit.source)
    }

    fn machine() -> (u64, String) {
        (1_000_000, "machine".to_owned())
    }

    #[test]
    fn a_limit_above_what_there_is_or_below_what_is_used_is_told() {
        let limit = MemoryLimit { bytes: 1_000, source: "a file".to_owned() };
        assert_eq!(worries(1_000, 1_000, &limit), Vec::<String>::new());
        let above = worries(1_001, 0, &limit);
        assert!(
            above.len() == 1 && above[0].contains("may have 1000 (by a file)") && above[0].contains("750"),
            "{above:?}"
        );
        let below = worries(10, 11, &limit);
        assert!(below.len() == 1 && below[0].contains("filters take 11 already"), "{below:?}");
    }

    #[test]
    fn version_2_up_the_hierarchy() {
        let group = ("proc/self/cgroup", "0::/system.slice/bloomgate.service\n");
        let own = "sys/fs/cgroup/system.slice/bloomgate.service/memory.max";
        let around = "sys/fs/cgroup/system.slice/memory.max";
        assert_eq!(found(&[group, (own, "300000\n"), (around, "max\n")]), (300_000, format!("/{own}")));
        assert_eq!(found(&[group, (own, "max\n"), (around, "200000\n")]), (200_000, format!("/{around}")));
        assert_eq!(found(&[group, (own, "300000\n"), (around, "200000\n")]), (200_000, format!("/{around}")));
        assert_eq!(found(&[group, (own, "max\n"), (around, "max\n")]), machine());
        assert_eq!(found(&[group, (own, "2000000\n")]), machine(), "more than there is");
        // In a container the group is the top.
        let inside = [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "5000\n")];
        assert_eq!(found(&inside), (5_000, "/sys/fs/cgroup/memory.max".to_owned()));
    }

    #[test]
    fn version_1_and_both_at_once() {
        let groups = "12:cpu,cpuacct:/a\n4:pids,memory:/docker/0123\n1:name=systemd:/b\n0::/c\n";
        let group = ("proc/self/cgroup", groups);
        let own = "sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes";
        let top = "sys/fs/cgroup/memory/memory.limit_in_bytes";
        let none = "9223372036854771712\n";
        assert_eq!(found(&[group, (own, "7000\n"), (top, none)]), (7_000, format!("/{own}")));
        assert_eq!(found(&[group, (own, none), (top, none)]), machine());
        // A container that sees the outer path and has its own group mounted at the top.
        assert_eq!(found(&[group, (top, "6000\n")]), (6_000, format!("/{top}")));
        let unified = ("sys/fs/cgroup/unified/c/memory.max", "5000\n");
        assert_eq!(found(&[group, (own, "7000\n"), unified]), (5_000, format!("/{}", unified.0)));
        // Another controller's number is no limit on memory.
        let cpu = ("proc/self/cgroup", "12:cpu,memory_hog:/a\n");
        assert_eq!(found(&[cpu, ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "10\n")]), machine());
    }

    #[test]
    fn nonsense_is_the_machine() {
        let group = |text| ("proc/self/cgroup", text);
        let top = "sys/fs/cgroup/memory.max";
        assert_eq!(found(&[]), machine());
        assert_eq!(found(&[group("nonsense\n0:\n\n::::\n")]), machine());
        for text in ["", "-5", "0", "0x10", "1e3", "99999999999999999999999", "\u{fffd}"] {
            assert_eq!(found(&[group("0::/\n"), (top, text)]), machine(), "{text:?}");
        }
        // Out of the top: taken for the top.
        let outside = [group("0::/../../etc\n"), (top, "4000"), ("sys/etc/memory.max", "1"), ("etc/memory.max", "1")];
        assert_eq!(found(&outside), (4_000, format!("/{top}")));
        let deep = format!("0::{}\n", "/d".repeat(5_000));
        assert_eq!(found(&[group(&deep), (top, "4000")]), (4_000, format!("/{top}")));
    }
}
