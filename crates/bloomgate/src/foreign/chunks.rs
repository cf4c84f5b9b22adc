//! RedisBloom's dumps: the chunks of `SCANDUMP`, and a file of them.
//!
//! ```text
//!  SCANDUMP      (1, header)  (1 + 601, 601 bytes)  ...     the iterator of a chunk is 1 + where it ends
//!  a dump file   i64 iterator  u64 length  bytes   again and again, little-endian; (0, nothing) may end it
//! ```
//!
//! The cells of all links (or tables) lie one after another; a chunk has at most 16 MiB and stays in one link.

use super::Foreign;
use super::shape::{Shape, append_bytes, check_length, corrupt, not_the_form, put_bytes};
use crate::bits::{Owned, Store};
use crate::error::{Error, ErrorKind, Result};
use crate::kind::Kind;

/// The most bytes that RedisBloom puts in a chunk.
const MOST: u64 = 16 << 20;
/// What stands before a chunk in a dump file: the iterator and the length.
const FRAME: usize = 16;

/// The chunks of a dump file, one by one; nothing is copied.
#[derive(Clone)]
pub(super) struct Frames<'a> {
    rest: &'a [u8],
}

impl<'a> Frames<'a> {
    pub(super) fn new(file: &'a [u8]) -> Self {
        Self { rest: file }
    }

    fn take(&mut self) -> Option<(i64, &'a [u8])> {
        let (frame, rest) = self.rest.split_first_chunk::<FRAME>()?;
        let &[i0, i1, i2, i3, i4, i5, i6, i7, l0, l1, l2, l3, l4, l5, l6, l7] = frame;
        let iterator = i64::from_le_bytes([i0, i1, i2, i3, i4, i5, i6, i7]);
        let length = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        let (chunk, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some((iterator, chunk))
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<(i64, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_none() {
            self.rest = &[];
        }
        Some(taken.ok_or_else(|| {
            Error::new(
                ErrorKind::Truncated,
                "the dump file ends inside a chunk (each stands behind an 8-byte iterator and an 8-byte length): fetch it \
                 again",
            )
        }))
    }
}

/// The header of a dump, and the chunks after it.
pub(super) fn header<'a, I>(kind: Kind, mut chunks: I) -> Result<(&'a [u8], I)>
where
    I: Iterator<Item = Result<(i64, &'a [u8])>>,
{
    match chunks.next() {
        Some(Ok((1, header))) => Ok((header, chunks)),
        Some(Ok((iterator, _))) => Err(not_the_form(
            kind,
            format_args!("its first chunk has the iterator {iterator}, and a dump begins with its header at 1"),
        )),
        Some(Err(error)) => Err(error),
        None => Err(not_the_form(kind, "there is no chunk at all")),
    }
}

/// Checks that the chunks follow one another and are `bytes` bytes together; nothing is allocated.
pub(super) fn check<'a>(kind: Kind, chunks: impl Iterator<Item = Result<(i64, &'a [u8])>>, bytes: u64) -> Result<()> {
    let mut end = 0u64;
    let mut ended = false;
    for chunk in chunks {
        let (iterator, chunk) = chunk?;
        if ended || chunk.is_empty() && iterator != 0 {
            return Err(corrupt(kind, "chunks follow the one that ends the dump, or have no bytes"));
        }
        if chunk.is_empty() {
            ended = true;
            continue;
        }
        end += chunk.len() as u64;
        if i64::try_from(end + 1) != Ok(iterator) {
            return Err(corrupt(
                kind,
                format_args!(
                    "a chunk with the iterator {iterator} comes where {} is next: a chunk is missing",
                    end + 1
                ),
            ));
        }
    }
    check_length(kind, bytes, end)
}

/// The words of chunks that were checked.
pub(super) fn gather<'a>(words: u64, chunks: impl Iterator<Item = Result<(i64, &'a [u8])>>) -> Result<Owned> {
    let mut store = Owned::zeroed(words)?;
    let mut at = 0;
    for chunk in chunks {
        let (_, chunk) = chunk?;
        put_bytes(store.as_mut_slice(), at, chunk);
        at += chunk.len();
    }
    Ok(store)
}

/// The chunks that RedisBloom would dump: the header, then each stretch of cells cut to the most that a chunk has.
pub(super) fn cut<F: Shape, S: Store>(
    filter: &Foreign<F, S>,
    stretches: impl Iterator<Item = u64>,
) -> Result<Vec<(i64, Vec<u8>)>> {
    filter.check_words()?;
    let mut chunks = vec![(1, filter.shape.header())];
    let mut at = 0;
    for mut left in stretches {
        while left > 0 {
            let len = left.min(MOST);
            let mut chunk = Vec::with_capacity(len as usize);
            append_bytes(filter.store.words(), at as usize, len as usize, &mut chunk);
            at += len;
            left -= len;
            chunks.push((at as i64 + 1, chunk));
        }
    }
    Ok(chunks)
}

/// The dump file of these chunks.
pub(super) fn file(chunks: Vec<(i64, Vec<u8>)>) -> Vec<u8> {
    let mut file = Vec::with_capacity(chunks.iter().map(|(_, chunk)| FRAME + chunk.len()).sum());
    for (iterator, chunk) in chunks {
        file.extend_from_slice(&iterator.to_le_bytes());
        file.extend_from_slice(&(chunk.len() as u64).to_le_bytes());
        file.extend_from_slice(&chunk);
    }
    file
}

/// Little-endian numbers from the front of a header whose length was checked.
pub(super) struct Numbers<'a>(pub(super) &'a [u8]);

impl Numbers<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk::<N>() {
            Some((number, rest)) => {
                self.0 = rest;
                *number
            }
            None => [0; N],
        }
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(super) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    pub(super) fn f64(&mut self) -> f64 {
        f64::from_bits(self.u64())
    }
}
