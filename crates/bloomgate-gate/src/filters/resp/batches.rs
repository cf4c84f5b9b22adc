//! Many keys as commands and pipelines that no server minds.

use crate::error::{Error, ErrorKind, Result};
use crate::key;

/// Items in one command, about a millisecond of a server that runs one command at a time.
const ITEMS: usize = 1_000;
/// Bytes of items in one command.
const BYTES: usize = 1 << 20;
/// Commands in one pipeline.
const COMMANDS: usize = 16;

/// Refuses keys that are too long to be any.
pub(super) fn check(keys: &[&[u8]]) -> Result<()> {
    match keys.iter().find(|key| key.len() > key::LONGEST) {
        Some(long) => {
            let message = format!("a key of {} bytes: {} is the most", long.len(), key::LONGEST);
            Err(Error::new(ErrorKind::Invalid, message))
        }
        None => Ok(()),
    }
}

/// The keys by pipelines, and in each by commands.
pub(super) fn groups<'a, 'k>(keys: &'a [&'k [u8]]) -> Vec<Vec<&'a [&'k [u8]]>> {
    let mut commands = Vec::new();
    let (mut begin, mut bytes) = (0, 0);
    for (place, key) in keys.iter().enumerate() {
        if place - begin == ITEMS || (bytes + key.len() > BYTES && place > begin) {
            commands.push(&keys[begin..place]);
            (begin, bytes) = (place, 0);
        }
        bytes += key.len();
    }
    if begin < keys.len() {
        commands.push(&keys[begin..]);
    }
    commands.chunks(COMMANDS).map(<[_]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_split_by_count_and_by_bytes_and_none_is_left_out() {
        let short = [b"k".as_slice(); 40_001];
        let long = [[7; 4096].as_slice(); 1_000];
        for keys in [&short[..], &long, &short[..1_000], &short[..1], &[]] {
            let groups = groups(keys);
            let commands: Vec<_> = groups.iter().flatten().collect();
            assert_eq!(commands.iter().map(|keys| keys.len()).sum::<usize>(), keys.len());
            for keys in commands {
                assert!(!keys.is_empty() && keys.len() <= ITEMS);
                assert!(keys.iter().map(|key| key.len()).sum::<usize>() <= BYTES);
            }
            assert!(groups.iter().all(|group| !group.is_empty() && group.len() <= COMMANDS));
        }
        assert_eq!(groups(&short).len(), 3);
        assert_eq!(groups(&long)[0].len(), 4, "256 keys of 4 KiB are a mebibyte");
    }
}
