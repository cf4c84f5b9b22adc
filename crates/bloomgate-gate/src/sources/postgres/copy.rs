//! Reads the binary form of `COPY` with one column (the key) or two (tenant and key), in pieces of any size, into a batch.
//!
//! ```text
//! PGCOPY\n\xff\r\n\0 | flags 4 | length 4 | extension | rows ... | -1 (2)
//! row: fields 2 (= 1 or 2) | for each: length 4 (-1: null) | value
//! ```

use super::wire::Wire;
use crate::error::{Error, ErrorKind, Result};
use crate::sources::{KeyBatch, TenantBatch};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// What rows are read into.
pub(super) trait Gathers: Default + Send {
    /// Appends a row by its values on the wire; how many bytes its keys have.
    fn gather(&mut self, copied: &mut CopiedKeys, row: &[Option<&[u8]>]) -> Result<usize>;
    fn rows(&self) -> usize;
    fn clear(&mut self);
}

impl Gathers for KeyBatch {
    fn gather(&mut self, copied: &mut CopiedKeys, row: &[Option<&[u8]>]) -> Result<usize> {
        let [Some(value)] = row else { return Ok(0) };
        // Most types need no room in between.
        if matches!(copied.wire, Wire::Text | Wire::Bytea) {
            self.push(value);
            return Ok(value.len());
        }
        copied.canonical.clear();
        canonical(copied.wire, value, &mut copied.canonical)?;
        self.push(&copied.canonical);
        Ok(copied.canonical.len())
    }

    fn rows(&self) -> usize {
        self.len()
    }

    fn clear(&mut self) {
        Self::clear(self);
    }
}

impl Gathers for TenantBatch {
    fn gather(&mut self, copied: &mut CopiedKeys, row: &[Option<&[u8]>]) -> Result<usize> {
        let ([Some(tenant), Some(key)], Some(of_tenant)) = (row, copied.tenant) else { return Ok(0) };
        copied.canonical.clear();
        canonical(of_tenant, tenant, &mut copied.canonical)?;
        let tenant = copied.canonical.len();
        canonical(copied.wire, key, &mut copied.canonical)?;
        let (tenant, key) = copied.canonical.split_at(tenant);
        self.push(tenant, key);
        Ok(tenant.len() + key.len())
    }

    fn rows(&self) -> usize {
        self.len()
    }

    fn clear(&mut self) {
        Self::clear(self);
    }
}

fn canonical(wire: Wire, value: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if wire.canonical(value, out) {
        return Ok(());
    }
    Err(strange(&format!("a value of {} bytes is not of the column's type", value.len())))
}

/// What has been read of a copy.
#[derive(Debug)]
pub(super) struct CopiedKeys {
    wire: Wire,
    /// That of the tenant column, if it comes first.
    tenant: Option<Wire>,
    /// The begin of something whose end has not come yet. Empty as long as rows come whole, as they do.
    rest: Vec<u8>,
    begun: bool,
    ended: bool,
    canonical: Vec<u8>,
}

/// What a read met.
enum Met {
    /// So many bytes belong to it.
    Whole(usize),
    /// It ends in a later piece.
    Part,
}

impl CopiedKeys {
    pub fn new(wire: Wire, tenant: Option<Wire>) -> Self {
        Self { wire, tenant, rest: Vec::new(), begun: false, ended: false, canonical: Vec::new() }
    }

    /// Whether the mark of the end has come.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Appends the keys of the next piece, and says how many bytes of keys these are.
    pub fn read(&mut self, piece: &[u8], batch: &mut impl Gathers) -> Result<usize> {
        if self.rest.is_empty() {
            let (read, keys) = self.rows(piece, batch)?;
            self.rest.extend_from_slice(&piece[read..]);
            return Ok(keys);
        }
        let mut rest = std::mem::take(&mut self.rest);
        rest.extend_from_slice(piece);
        let (read, keys) = self.rows(&rest, batch)?;
        rest.drain(..read);
        self.rest = rest;
        Ok(keys)
    }

    /// Reads what is whole; how many bytes that is, and how many of them are keys.
    fn rows(&mut self, bytes: &[u8], batch: &mut impl Gathers) -> Result<(usize, usize)> {
        let (mut at, mut keys) = (0, 0);
        loop {
            let left = &bytes[at..];
            if self.ended {
                return if left.is_empty() { Ok((at, keys)) } else { Err(strange("more follows its end")) };
            }
            let met = if self.begun { self.row(left, batch, &mut keys)? } else { self.header(left)? };
            match met {
                Met::Whole(len) => at += len,
                Met::Part => return Ok((at, keys)),
            }
        }
    }

    fn header(&mut self, bytes: &[u8]) -> Result<Met> {
        let len = SIGNATURE.len().min(bytes.len());
        if bytes[..len] != SIGNATURE[..len] {
            return Err(strange("it does not begin as one"));
        }
        let Some((flags, after)) = bytes[len..].split_first_chunk::<4>() else { return Ok(Met::Part) };
        let Some((extension, after)) = after.split_first_chunk::<4>() else { return Ok(Met::Part) };
        // The high half of the flags is for what must be understood, and there is nothing in it that we do.
        if u32::from_be_bytes(*flags) >> 16 != 0 {
            return Err(strange("its header has unknown flags"));
        }
        let extension = u32::from_be_bytes(*extension) as usize;
        if extension > 1 << 16 {
            return Err(strange("its header is too long"));
        }
        if after.len() < extension {
            return Ok(Met::Part);
        }
        self.begun = true;
        Ok(Met::Whole(SIGNATURE.len() + 8 + extension))
    }

    fn row(&mut self, bytes: &[u8], batch: &mut impl Gathers, keys: &mut usize) -> Result<Met> {
        let Some((fields, mut after)) = bytes.split_first_chunk::<2>() else { return Ok(Met::Part) };
        let wanted = if self.tenant.is_some() { 2 } else { 1 };
        match i16::from_be_bytes(*fields) {
            fields if fields == wanted => {}
            -1 => {
                self.ended = true;
                return Ok(Met::Whole(2));
            }
            other => return Err(strange(&format!("a row has {other} fields instead of {wanted}"))),
        }
        let mut values = [None; 2];
        for value in values.iter_mut().take(wanted as usize) {
            let Some((len, rest)) = after.split_first_chunk::<4>() else { return Ok(Met::Part) };
            after = rest;
            let len = i32::from_be_bytes(*len);
            if len == -1 {
                continue;
            }
            let len = usize::try_from(len).map_err(|_| strange(&format!("a value has {len} bytes")))?;
            let Some((found, rest)) = after.split_at_checked(len) else { return Ok(Met::Part) };
            (*value, after) = (Some(found), rest);
        }
        *keys += batch.gather(self, &values[..wanted as usize])?;
        Ok(Met::Whole(bytes.len() - after.len()))
    }
}

fn strange(why: &str) -> Error {
    Error::new(ErrorKind::Source, format!("what PostgreSQL sent is no binary COPY of the keys: {why}: scan again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = [SIGNATURE, &[0; 8]].concat();
        for value in values {
            bytes.extend(1i16.to_be_bytes());
            bytes.extend(value.map_or(-1, |value| value.len() as i32).to_be_bytes());
            bytes.extend(value.unwrap_or_default());
        }
        bytes.extend((-1i16).to_be_bytes());
        bytes
    }

    fn read(wire: Wire, pieces: &[&[u8]]) -> Result<(Vec<Vec<u8>>, bool)> {
        let (mut copied, mut batch) = (CopiedKeys::new(wire, None), KeyBatch::default());
        for piece in pieces {
            let before: usize = batch.iter().map(<[u8]>::len).sum();
            let keys = copied.read(piece, &mut batch)?;
            assert_eq!(batch.iter().map(<[u8]>::len).sum::<usize>(), before + keys);
        }
        Ok((batch.iter().map(<[u8]>::to_vec).collect(), copied.ended()))
    }

    #[test]
    fn keys_are_the_same_however_they_are_cut() {
        let bytes = copy(&[Some(b"a"), None, Some(b""), Some(&[b'x'; 300]), Some(b"end")]);
        let whole = (vec![b"a".to_vec(), vec![], vec![b'x'; 300], b"end".to_vec()], true);
        assert_eq!(read(Wire::Text, &[&bytes]).unwrap(), whole);
        for size in [1, 2, 3, 5, 7, 19, 20, 64, 299] {
            assert_eq!(read(Wire::Text, &bytes.chunks(size).collect::<Vec<_>>()).unwrap(), whole, "{size}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(read(Wire::Text, &[&bytes[..cut], &[], &bytes[cut..]]).unwrap(), whole, "{cut}");
            assert!(!read(Wire::Text, &[&bytes[..cut]]).unwrap().1, "{cut}");
        }
        let integers = copy(&[Some(&7i32.to_be_bytes()), Some(&(-1i32).to_be_bytes())]);
        let (keys, ended) = read(Wire::Int4, &integers.chunks(3).collect::<Vec<_>>()).unwrap();
        assert_eq!((keys, ended), (vec![7i64.to_le_bytes().to_vec(), (-1i64).to_le_bytes().to_vec()], true));
    }

    #[test]
    fn pairs_are_the_same_however_they_are_cut_and_halves_of_pairs_are_left_out() {
        let mut bytes = [SIGNATURE, &[0; 8]].concat();
        let rows: [(Option<i32>, Option<&[u8]>); 4] =
            [(Some(7), Some(b"a")), (None, Some(b"x")), (Some(-1), None), (Some(8), Some(b""))];
        for (tenant, key) in rows {
            bytes.extend(2i16.to_be_bytes());
            bytes.extend(tenant.map_or(-1, |_| 4i32).to_be_bytes());
            bytes.extend(tenant.map(i32::to_be_bytes).unwrap_or_default().into_iter().take(tenant.map_or(0, |_| 4)));
            bytes.extend(key.map_or(-1, |key| key.len() as i32).to_be_bytes());
            bytes.extend(key.unwrap_or_default());
        }
        bytes.extend((-1i16).to_be_bytes());
        for size in 1..bytes.len() {
            let (mut copied, mut batch) = (CopiedKeys::new(Wire::Text, Some(Wire::Int4)), TenantBatch::default());
            for piece in bytes.chunks(size) {
                copied.read(piece, &mut batch).unwrap();
            }
            let pairs: Vec<_> = batch.iter().collect();
            assert_eq!(pairs, [(&7i64.to_le_bytes()[..], &b"a"[..]), (&8i64.to_le_bytes()[..], &b""[..])], "{size}");
            assert!(copied.ended());
        }
    }

    #[test]
    fn what_is_no_copy_of_keys_is_refused() {
        let good = copy(&[Some(b"four")]);
        let with = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            bytes
        };
        for (bytes, said) in [
            (with(0, b'p'), "begin"),
            (with(11, 1), "flags"),
            (with(15, 1), "too long"),
            (with(20, 2), "2 fields"),
            (with(21, 0xff), "bytes"),
            ([&good[..], b"x"].concat(), "follows"),
            (copy(&[Some(b"three")]), "not of the column's type"),
        ] {
            let error = read(Wire::Int4, &[&bytes]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        // Flags of the low half are for who knows them, and the header may be longer.
        let mut longer = with(14, 1);
        longer[18] = 3;
        longer.splice(19..19, *b"abc");
        assert_eq!(read(Wire::Text, &[&longer]).unwrap(), (vec![b"four".to_vec()], true));
    }
}
