//! What is kept of a filter that cannot answer: its bytes as they lie there, and what the log has said of it since.
//!
//! Nobody can read it now; with its secret, or with the right bytes from a backup, somebody can. Then nothing may be missing that was
//! added since its image, or its "no" would be wrong. So a snapshot carries both over without looking at them, and drops the log as
//! ever: one filter that is damaged does not keep the log of all others growing.
//!
//! What the log said is *owed*: it lies in the pack in pieces, one for each start that found some.
//!
//! ```text
//!  CRC32C u32 of id u64 and the records; length u64 of the records; for each: its sequence u64, and the record after its length
//! ```

use std::sync::Arc;

use super::manifest::{Made, Place};
use crate::engine::fields::{Fields, Malformed, Put};
use crate::engine::record::Record;

/// A filter that cannot answer, as it lies in the folder.
#[derive(Debug, Clone)]
pub struct Damaged {
    /// How it is made, with the example that its words need.
    pub made: Arc<Made>,
    /// The sequence of its image: what is owed came after.
    pub base: u64,
    /// Where its bits lie.
    pub place: Place,
    /// Where what is owed lies, if a manifest knows of any.
    pub owed: Option<Place>,
    /// What is owed that this start has found in the log: pieces of which no manifest knows.
    pub found: Vec<u8>,
}

/// What the log owes one filter.
#[derive(Debug, Default)]
pub struct Owed(Vec<u8>);

impl Owed {
    /// Puts a record down, if it changes what is in the filter: names and times are in the manifest.
    pub fn put(&mut self, sequence: u64, record: &Record<'_>) {
        let changes = matches!(
            record,
            Record::Add { .. }
                | Record::Fill { .. }
                | Record::Remove { .. }
                | Record::Removed { .. }
                | Record::Advance { .. }
        );
        if changes {
            let mut bytes = Vec::new();
            record.put(&mut bytes);
            self.0.put_u64(sequence);
            self.0.put_bytes(&bytes);
        }
    }

    /// All of it as a piece; no bytes if nothing is owed.
    #[must_use]
    pub fn piece(&self, id: u64) -> Vec<u8> {
        let mut piece = Vec::new();
        if !self.0.is_empty() {
            piece.put_u32(sum(id, &self.0));
            piece.put_u64(self.0.len() as u64);
            piece.extend_from_slice(&self.0);
        }
        piece
    }
}

const DAMAGED_TOO: &str = "what the log said of it since its image is damaged too";

fn sum(id: u64, records: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), records)
}

/// The records of a filter in pieces, each with its sequence; why not, if they are not what was written.
pub fn records(id: u64, pieces: &[u8]) -> Result<Vec<(u64, &[u8])>, String> {
    let wrong = |_: Malformed| DAMAGED_TOO.to_owned();
    let mut fields = Fields(pieces);
    let mut all = Vec::new();
    while !fields.is_empty() {
        let expected = fields.u32("a sum").map_err(wrong)?;
        let length = usize::try_from(fields.u64("a length").map_err(wrong)?).unwrap_or(usize::MAX);
        let records = fields.take(length, "records").map_err(wrong)?;
        if sum(id, records) != expected {
            return Err(DAMAGED_TOO.to_owned());
        }
        let mut fields = Fields(records);
        while !fields.is_empty() {
            all.push((fields.u64("a sequence").map_err(wrong)?, fields.bytes("a record").map_err(wrong)?));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_is_read_in_its_order_and_whatever_was_changed_is_noticed() {
        let piece = |ids: &[(u64, u64)]| {
            let mut owed = Owed::default();
            ids.iter().for_each(|&(sequence, count)| owed.put(sequence, &Record::Removed { id: 7, count }));
            owed.put(99, &Record::Expire { id: 7, at_ms: 1 });
            owed.piece(7)
        };
        assert_eq!(piece(&[]), b"", "when it ends is nothing that is owed");
        let mut pieces = [piece(&[(3, 30), (5, 50)]), piece(&[(9, 90)])].concat();
        let read = records(7, &pieces).unwrap();
        let read: Vec<_> =
            read.iter().map(|(sequence, record)| (*sequence, Record::get(&mut Fields(record)).unwrap())).collect();
        let expected =
            [(3, 30), (5, 50), (9, 90)].map(|(sequence, count)| (sequence, Record::Removed { id: 7, count }));
        assert_eq!(read, expected);
        assert!(records(8, &pieces).is_err(), "another filter's");
        let whole = piece(&[(3, 30), (5, 50)]).len();
        for length in (1..pieces.len()).filter(|length| *length != whole) {
            assert!(records(7, &pieces[..length]).is_err(), "cut at {length}");
        }
        for bit in 0..pieces.len() * 8 {
            pieces[bit / 8] ^= 1 << (bit % 8);
            assert!(records(7, &pieces).is_err(), "bit {bit}");
            pieces[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
