//! Which bytes of a data folder mean nothing to its answers: only there may damage go unnoticed. Everything else lies under a
//! checksum, or under one of its own (docs/operations.md, "The folder"; docs/format.md), so a start has to see it.
//!
//! | file | bytes that mean nothing |
//! |---|---|
//! | `lock` | all: the process id is for people's eyes, the lock is the system's |
//! | `MANIFEST.old` | all: nothing falls back to it |
//! | `log-FIRST` | those behind its last batch: marks that say how far it was durable, and zeros made ahead. Damage there is a torn tail |
//! | `master.key` | the case of its digits, and which white space ends it |
//!
//! Zeros between the sections of an image are not among them: the reader wants them to be zero.

use std::path::Path;

/// Bytes of a log before its first frame, and of a frame before its payload.
const FILE_HEADER: usize = 64;
const FRAME_HEADER: usize = 24;
/// The bit of a frame's length that says it is a mark.
const MARK: u32 = 1 << 31;

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
    fn a_secret_is_its_digits() {
        let same = |other: &[u8]| is_same(Path::new("master.key"), b"0aff\n", other);
        assert!(same(b"0AfF\n") && same(b"0aff") && same(b"0aff\x0b"));
        assert!(!same(b"0afe\n") && !same(b"0aff\x0e") && !same(b"0aff\xff"));
    }
}
