//! The words of small filters, one behind the other in a pack. A file of the library's form has its contract, sentinels and
//! sums for each filter: 3.8 KB for 376 bytes of bits. Here they are once for all that are made alike, in the example
//! that the manifest has; of each filter there are its words and its count under one sum.
//!
//! ```text
//!  CRC32C u32 of id u64, count u32, words; count u32; words u64 each
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

use bloomgate::AnyFilter;
use bloomgate::bloom::Sprout;

use crate::engine::facts::Facts as _;
use crate::engine::small::Small;

/// Bytes before the words.
const HEAD: usize = 8;

/// An empty filter, as a file has it: contract, sentinels, promise and shape of all that are made alike.
pub fn example(sprout: &Sprout) -> Result<Vec<u8>, String> {
    let empty: Vec<AtomicU64> = (0..sprout.words()).map(|_| AtomicU64::new(0)).collect();
    let chain = sprout.chain(&empty, 0).map_err(|error| error.to_string())?;
    AnyFilter::from(chain).to_bytes().map_err(|error| error.to_string())
}

/// What an [`example`] was made of.
pub fn sprout(example: &AnyFilter) -> Option<Sprout> {
    match example {
        AnyFilter::Scalable(chain) => Sprout::of(chain),
        _ => None,
    }
}

/// Appends the filter of an id as a pack has it.
pub fn put(id: u64, small: &Small<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(small.len() as u32).to_le_bytes());
    small.words.iter().for_each(|word| out.extend_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()));
    let sum = sum(id, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum.to_le_bytes());
}

fn sum(id: u64, rest: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), rest)
}

/// Count and words of the filter of an id; why not, if they are not what was written.
pub fn get<'a>(
    id: u64,
    sprout: &Sprout,
    bytes: &'a [u8],
) -> Result<(u32, impl Iterator<Item = u64> + use<'a>), String> {
    let wanted = HEAD + sprout.words() * 8;
    let (Some((expected, rest)), true) = (bytes.split_first_chunk::<4>(), bytes.len() == wanted) else {
        return Err(format!("its words are {} bytes in the pack where {wanted} are expected", bytes.len()));
    };
    if sum(id, rest) != u32::from_le_bytes(*expected) {
        return Err("its words in the pack do not have the sum that was written with them".to_owned());
    }
    let (count, words) = rest.split_first_chunk::<4>().unwrap_or((&[0; 4], &[]));
    let words = words.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    Ok((u32::from_le_bytes(*count), words))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use bloomgate::Scalable;

    use super::*;

    #[test]
    fn what_was_put_is_got_and_whatever_was_changed_is_noticed() {
        let made = AnyFilter::from(Scalable::builder().items(100).rate(0.01).build().unwrap());
        let sprout = sprout(&AnyFilter::from_bytes(&example(&sprout(&made).unwrap()).unwrap()).unwrap()).unwrap();
        let words: Vec<AtomicU64> = (0..sprout.words() as u64).map(|at| AtomicU64::new(at * 0x9E37)).collect();
        let small = Small { sprout: &sprout, words: &words, len: &AtomicU32::new(42) };
        let mut bytes = vec![1, 2, 3];
        put(7, &small, &mut bytes);
        let mut bytes = bytes.split_off(3);
        let (count, got) = get(7, &sprout, &bytes).unwrap();
        assert_eq!((count, got.count()), (42, sprout.words()));
        assert!(get(7, &sprout, &bytes).unwrap().1.eq((0..sprout.words() as u64).map(|at| at * 0x9E37)));
        assert!(get(8, &sprout, &bytes).is_err(), "another filter's");
        for length in 0..bytes.len() {
            assert!(get(7, &sprout, &bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(get(7, &sprout, &bytes).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
