//! What a file that is not ours looks like, so that the error can say "this is gzip" instead of "bad magic".

use super::frame::MAGIC;
use crate::error::{Error, ErrorKind};

/// First bytes that name their own format. Sources: the formats' own specifications.
const SIGNATURES: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "gzip data: decompress it first"),
    (b"PK\x03\x04", "a zip archive: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd data: decompress it first"),
    (b"\xfd7zXZ\x00", "xz data: decompress it first"),
    (b"BZh", "bzip2 data: decompress it first"),
    (b"PAR1", "a Parquet file: its Bloom filters are inside the column chunks"),
    (b"REDIS", "a Redis snapshot (RDB): dump the filter itself with BF.SCANDUMP"),
    (b"\x7fELF", "an executable"),
    (b"SQLite format 3\0", "an SQLite database"),
    // The ways a text-mode copy mangles our magic: CR LF made LF, LF made CR LF, the high bit cut off.
    (b"\x89BGF\n", "a Bloomgate file damaged by a text-mode copy (line ends changed): copy it again in binary mode"),
    (
        b"\x89BGF\r\r\n",
        "a Bloomgate file damaged by a text-mode copy (line ends changed): copy it again in binary mode",
    ),
    (b"\x09BGF", "a Bloomgate file damaged by a 7-bit copy (high bits lost): copy it again in binary mode"),
];

/// The error for bytes that do not begin with the magic; `first` is what there is, 64 bytes at most.
#[cold]
pub(crate) fn not_a_filter(first: &[u8]) -> Error {
    if first.is_empty() {
        return Error::new(ErrorKind::NotAFilter, "the input is empty; a Bloomgate file begins with a 64-byte header");
    }
    if first.len() < MAGIC.len() && MAGIC.starts_with(first) {
        let message = format!("the file ends in its magic: {} bytes found, 64 bytes of header expected", first.len());
        return Error::new(ErrorKind::Truncated, message);
    }
    let mut hex = String::new();
    for byte in first.iter().take(8) {
        hex.push_str(&format!("{}{byte:02x}", if hex.is_empty() { "" } else { " " }));
    }
    let message = format!(
        "not a Bloomgate file: it begins {hex} instead of 89 42 47 46 0d 0a 1a 0a{}",
        guess(first).map(|what| format!("; it looks like {what}")).unwrap_or_default()
    );
    Error::new(ErrorKind::NotAFilter, message)
}

fn guess(first: &[u8]) -> Option<&'static str> {
    if let Some((_, what)) = SIGNATURES.iter().find(|(signature, _)| first.starts_with(signature)) {
        return Some(what);
    }
    if is_redisbloom_header(first) {
        return Some(
            "the first chunk of a RedisBloom dump (BF.SCANDUMP): write all chunks to one file, each behind its iterator and \
             its length as 8 bytes, little-endian",
        );
    }
    if is_guava(first) {
        return Some(
            "a Guava BloomFilter stream, which does not say what its keys are: name it: guava:utf8, guava:long or \
             guava:bytes, with --as (convert: --from; in a program: AnyFilter::from_foreign)",
        );
    }
    if first.iter().all(|&b| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e | 0x80..)) && utf8_prefix(first) {
        return Some("text: to build a filter from a list of keys use `bloomgate build`");
    }
    None
}

/// RedisBloom's dump header has no magic: items (u64), links (u32), options (u32), growth (u32), all
/// little-endian, then the links. Plausible values in all of them are the signature.
fn is_redisbloom_header(first: &[u8]) -> bool {
    let Some((items, rest)) = first.split_first_chunk::<8>() else { return false };
    let Some((links, rest)) = rest.split_first_chunk::<4>() else { return false };
    let Some((options, rest)) = rest.split_first_chunk::<4>() else { return false };
    let Some((growth, _)) = rest.split_first_chunk::<4>() else { return false };
    u64::from_le_bytes(*items) < 1 << 48
        && (1..=64).contains(&u32::from_le_bytes(*links))
        && u32::from_le_bytes(*options) < 16
        && u32::from_le_bytes(*growth) <= 32768
}

/// Guava's stream: strategy (0 or 1), hash count (u8), number of longs (i32, big-endian), longs.
fn is_guava(first: &[u8]) -> bool {
    let [strategy @ 0..=1, hashes @ 1..=100, a, b, c, d, _, ..] = first else { return false };
    let longs = i32::from_be_bytes([*a, *b, *c, *d]);
    *strategy <= 1 && *hashes > 0 && longs > 0
}

/// Whether the bytes are UTF-8, but for a character cut off at the end.
fn utf8_prefix(first: &[u8]) -> bool {
    match std::str::from_utf8(first) {
        Ok(_) => true,
        Err(e) => e.error_len().is_none(),
    }
}
