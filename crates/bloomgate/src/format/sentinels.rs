//! Sentinels: public strings with the digests they must hash to, so that a reader that hashes
//! differently finds out on load and not by wrong answers.
//!
//! ```text
//!   ┌───────────┐┌─────────┬────────────┬────────┬───────────────┐
//!   │ count u16 ││ form u8 │ length u16 │ bytes  │ digest [16]   │  count times
//!   └───────────┘└─────────┴────────────┴────────┴───────────────┘
//!     form 0: canonical bytes, hashed as they are
//!     form 1: text, parsed by the contract's encoding first
//! ```
//!
//! They are never inserted: the bits of the filter are not touched. The first [`LENGTHS`]`.len()`
//! entries are the same in every file, of form 0, with byte `i` of the one of length `n` being
//! `73 (n + 1) + 151 i + (i >> 8)` modulo 256. The lengths take every branch of the hashes in use:
//! XXH3 changes its method at 0, 1-3, 4-8, 9-16, 17-128, 129-240, above, and once more after each
//! 1024 bytes; SipHash works in words of 8 and BLAKE2b in blocks of 128.
//!
//! Under a keyed contract the digests are those under the secret. Knowing them tells nothing about
//! other keys as long as the hash is a pseudo-random function, and they prove that the secret is right.

use super::frame::corrupt;
use super::sections::SectionType;
use crate::error::{Error, ErrorKind, Result};

/// The lengths of the canonical sentinels, in their order.
pub const LENGTHS: [u16; 15] = [0, 1, 3, 4, 8, 9, 16, 17, 40, 128, 129, 240, 241, 512, 1025];

/// Texts for contracts over bytes or text: empty, ASCII, two forms of é, and four bytes of UTF-8.
pub const TEXT: &[&str] = &["", "bloomgate", "caf\u{e9}", "cafe\u{301}", "\u{1f338}"];
/// Texts for contracts over unsigned integers: the ends and the sign-bit neighbours.
pub const UNSIGNED: &[&str] = &["0", "1", "42", "9223372036854775807", "9223372036854775808", "18446744073709551615"];
/// Texts for contracts over signed integers.
pub const SIGNED: &[&str] = &["0", "1", "-1", "42", "-9223372036854775808", "9223372036854775807"];
/// Texts for contracts over UUIDs.
pub const UUID: &[&str] = &["00000000-0000-0000-0000-000000000000", "00112233-4455-6677-8899-aabbccddeeff"];

/// How a sentinel becomes bytes to be hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The bytes are the canonical form of a key already.
    Canonical,
    /// The bytes are text, to be parsed by the contract's encoding.
    Text,
}

/// The canonical sentinel of a length.
#[must_use]
pub fn canonical(length: u16) -> Vec<u8> {
    let start = 73 * (u32::from(length) + 1);
    (0..u32::from(length)).map(|i| (start + 151 * i + (i >> 8)) as u8).collect()
}

/// The body of a `SENTINELS` section: the canonical list, then `texts`, each with what `digest` makes of it.
pub fn write(texts: &[&str], mut digest: impl FnMut(Form, &[u8]) -> Result<[u8; 16]>) -> Result<Vec<u8>> {
    let refuse = |what: String| Error::new(ErrorKind::InvalidParameter, what);
    let count = u16::try_from(LENGTHS.len() + texts.len())
        .map_err(|_| refuse(format!("{} sentinel texts; a section holds 65535 at most", texts.len())))?;
    let mut body = count.to_le_bytes().to_vec();
    let mut push = |form: Form, bytes: &[u8]| -> Result<()> {
        let length = u16::try_from(bytes.len())
            .map_err(|_| refuse(format!("a sentinel of {} bytes; 65535 at most allowed", bytes.len())))?;
        body.push(form as u8);
        body.extend_from_slice(&length.to_le_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(&digest(form, bytes)?);
        Ok(())
    };
    for length in LENGTHS {
        push(Form::Canonical, &canonical(length))?;
    }
    for text in texts {
        push(Form::Text, text.as_bytes())?;
    }
    Ok(body)
}

/// Checks the body of a `SENTINELS` section against `digest`, the reader's own hashing, and gives their number.
///
/// A body without the canonical list is [`Corrupt`](ErrorKind::Corrupt) (it would prove nothing); another
/// digest, or a text that the reader's encoding refuses, is [`Contract`](ErrorKind::Contract).
pub fn verify(body: &[u8], mut digest: impl FnMut(Form, &[u8]) -> Result<[u8; 16]>) -> Result<u16> {
    let section = SectionType::SENTINELS;
    let short =
        |at: usize| corrupt(format!("{section}, byte {at}: goes past the end of the section at {}", body.len()));
    let (count, mut rest) = body.split_first_chunk::<2>().ok_or_else(|| short(0))?;
    let count = u16::from_le_bytes(*count);
    if usize::from(count) < LENGTHS.len() {
        return Err(corrupt(format!("{section}: {count} sentinels, at least {} expected", LENGTHS.len())));
    }
    for number in 0..count {
        let at = body.len() - rest.len();
        let (&[form, l0, l1], after) = rest.split_first_chunk::<3>().ok_or_else(|| short(at))?;
        let length = u16::from_le_bytes([l0, l1]);
        let (bytes, after) = after.split_at_checked(usize::from(length)).ok_or_else(|| short(at))?;
        let (expected, after) = after.split_first_chunk::<16>().ok_or_else(|| short(at))?;
        rest = after;
        let form = match form {
            0 => Form::Canonical,
            1 => Form::Text,
            _ => {
                let message = format!(
                    "{section}, byte {at}: sentinel {number} has the form {form}, 0 and 1 known: update Bloomgate"
                );
                return Err(Error::new(ErrorKind::Version, message));
            }
        };
        if let Some(&wanted) = LENGTHS.get(usize::from(number))
            && (form != Form::Canonical || bytes != canonical(wanted))
        {
            return Err(corrupt(format!(
                "{section}, byte {at}: sentinel {number} is not the public one of {wanted} bytes"
            )));
        }
        let found = match digest(form, bytes) {
            Ok(found) => found,
            Err(refusal) => {
                return Err(Error::new(
                    ErrorKind::Contract,
                    format!(
                        "sentinel {number} of the file, {:?}, is a key for its producer, but this reader refuses it \
                         ({refusal}): producer and consumer encode keys differently",
                        String::from_utf8_lossy(bytes)
                    ),
                ));
            }
        };
        if found != *expected {
            return Err(mismatch(number, form, bytes, expected, &found));
        }
    }
    if !rest.is_empty() {
        return Err(corrupt(format!("{section}: {} bytes after the last of {count} sentinels", rest.len())));
    }
    Ok(count)
}

#[cold]
fn mismatch(number: u16, form: Form, bytes: &[u8], expected: &[u8; 16], found: &[u8; 16]) -> Error {
    let what = match form {
        Form::Canonical => format!("{} canonical bytes", bytes.len()),
        Form::Text => format!("the text {:?}", String::from_utf8_lossy(bytes)),
    };
    let hex = |digest: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*digest));
    let message = format!(
        "sentinel {number} ({what}) hashes to {} here and to {} where the file was made: producer and consumer hash \
         differently (another secret, algorithm, seed or encoding); no answer of this filter could be trusted",
        hex(found),
        hex(expected)
    );
    Error::new(ErrorKind::Contract, message)
}
