//! Which bytes of a data folder mean nothing to its answers: only there may damage go unnoticed. Everything else lies under a
//! checksum, or under one of its own (docs/operations.md, "The folder"; docs/format.md), so a start has to see it.
//!
//! | file | bytes that mean nothing |
//! |---|---|
//! | `lock` | all: the process id is for people's eyes, the lock is the system's |
//! | `MANIFEST.old` | all: nothing falls back to it |
//! | `log-FIRST` | those behind its last batch: marks that say how far it was durable, and zeros made ahead. Damage there is a torn tail |
//! | `log-FIRST` | all, where the log that follows it begins with what the manifest wants replayed: it goes within a second of a snapshot, and no start reads it |
//! | `master.key` | the case of its digits, and which white space ends it |
//!
//! Zeros between the sections of an image are not among them: the reader wants them to be zero.

use std::path::{Path, PathBuf};

/// Bytes of a log before its first frame, and of a frame before its payload.
const FILE_HEADER: usize = 64;
const FRAME_HEADER: usize = 24;
/// The bit of a frame's length that says it is a mark.
const MARK: u32 = 1 << 31;
/// Where a manifest says which sequence the log is read after.
const REPLAY_AFTER: std::ops::Range<usize> = 16..24;

/// Those of a folder's log files that a snapshot has superseded, by the bytes of its manifest and the names of its files.
pub fn superseded(manifest: &[u8], names: &[PathBuf]) -> Vec<PathBuf> {
    let after = manifest.get(REPLAY_AFTER).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let first = |name: &PathBuf| name.to_str()?.strip_prefix("log-")?.parse::<u64>().ok();
    let mut logs: Vec<(u64, &PathBuf)> = names.iter().filter_map(|name| Some((first(name)?, name))).collect();
    logs.sort_unstable();
    let read_from = logs.partition_point(|(first, _)| *first <= after.saturating_add(1)).saturating_sub(1);
    logs[..read_from].iter().map(|(_, name)| name.to_path_buf()).collect()
}

/// Whether a file that became `damaged` says to a server what it said before.
pub fn is_same(name: &Path, whole: &[u8], damaged: &[u8]) -> bool {
    let name = name.to_string_lossy();
    match &*name {
        "lock" | "MANIFEST.old" => true,
        "master.key" => said_by_key(whole) == said_by_key(damaged),
        _ if name.starts_with("log-") => {
            let end = end_of_batches(whole);
            damaged.get(..end) == whole.get(..end)
        }
        _ => whole == damaged,
    }
}

/// What is read of a file with a secret.
fn said_by_key(bytes: &[u8]) -> Option<String> {
    Some(std::str::from_utf8(bytes).ok()?.trim_end().to_ascii_lowercase())
}

/// Where the last batch of a log ends.
fn end_of_batches(log: &[u8]) -> usize {
    let (mut at, mut end) = (FILE_HEADER, FILE_HEADER);
    while let Some(header) = log.get(at..at + FRAME_HEADER) {
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        if header.iter().all(|&byte| byte == 0) {
            break;
        }
        at += FRAME_HEADER;
        if length != MARK {
            at += (length as usize).next_multiple_of(8);
            end = at;
        }
    }
    end.min(log.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(log: &mut Vec<u8>, length: u32, payload: &[u8]) {
        log.extend_from_slice(&length.to_le_bytes());
        log.resize(log.len() + FRAME_HEADER - 4, 7);
        log.extend_from_slice(payload);
        log.resize(log.len().next_multiple_of(8), 0);
    }

    #[test]
    fn behind_the_last_batch_of_a_log_nothing_means_anything() {
        let mut log = vec![1; FILE_HEADER];
        frame(&mut log, 5, b"hello");
        frame(&mut log, MARK, b"");
        frame(&mut log, 9, b"and again");
        let end = log.len();
        frame(&mut log, MARK, b"");
        log.resize(log.len() + 1_000, 0);
        assert_eq!(end_of_batches(&log), end);
        let name = Path::new("log-00000000000000000001");
        for at in 0..log.len() {
            let mut damaged = log.clone();
            damaged[at] ^= 16;
            assert_eq!(is_same(name, &log, &damaged), at >= end, "byte {at}");
            assert_eq!(is_same(name, &log, &log[..at]), at >= end, "cut at {at}");
            assert!(!is_same(Path::new("image-1-5.bloom"), &log, &damaged));
            assert!(!is_same(Path::new("MANIFEST"), &log, &log[..at]));
            assert!(is_same(Path::new("MANIFEST.old"), &log, &damaged));
        }
    }

    #[test]
    fn a_log_is_read_unless_a_later_one_begins_where_the_snapshot_ends() {
        let names = ["log-00000000000000000001", "MANIFEST", "log-00000000000000000673", "log-00000000000000000339"];
        let names = names.map(PathBuf::from);
        for (after, expected) in [(0, 0), (337, 0), (338, 1), (671, 1), (672, 2), (5_000, 2)] {
            let mut manifest = vec![9; 200];
            manifest[REPLAY_AFTER].copy_from_slice(&u64::to_le_bytes(after));
            let found = superseded(&manifest, &names);
            assert_eq!(found, [&names[0], &names[3]].map(Clone::clone)[..expected], "read after {after}");
        }
        assert!(superseded(&[], &names[..1]).is_empty());
    }

    #[test]
    fn a_secret_is_its_digits() {
        let same = |other: &[u8]| is_same(Path::new("master.key"), b"0aff\n", other);
        assert!(same(b"0AfF\n") && same(b"0aff") && same(b"0aff\x0b"));
        assert!(!same(b"0afe\n") && !same(b"0aff\x0e") && !same(b"0aff\xff"));
    }
}
