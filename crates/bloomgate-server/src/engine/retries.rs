//! Answers that are kept for a while, so that a client which lost the reply can ask again and nothing is done twice.

use std::collections::{HashMap, VecDeque};

use super::fields::{Fields, Malformed, Put};

/// How many answered requests are kept for one filter: at 100 removals a second, 40 s of them.
pub const KEPT: usize = 4_096;

/// The last requests with an id, and what was answered.
#[derive(Debug, Default, Clone)]
pub struct Retries {
    answers: HashMap<Box<[u8]>, Box<[bool]>>,
    order: VecDeque<Box<[u8]>>,
}

impl Retries {
    /// What was answered to this request, if it was one of the last.
    #[must_use]
    pub fn answered(&self, request: &[u8]) -> Option<&[bool]> {
        self.answers.get(request).map(|answers| &**answers)
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Keeps an answer; the oldest goes when there are too many.
    pub fn keep(&mut self, request: &[u8], answers: &[bool]) {
        if self.answers.insert(request.into(), answers.into()).is_none() {
            self.order.push_back(request.into());
        }
        while self.order.len() > KEPT {
            if let Some(oldest) = self.order.pop_front() {
                self.answers.remove(&oldest);
            }
        }
    }

    /// The requests with their answers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[bool])> {
        self.order.iter().map(|request| (&**request, self.answered(request).unwrap_or_default()))
    }

    /// Appends them to a manifest, oldest first.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.order.len() as u32);
        for request in &self.order {
            out.put_bytes(request);
            let answers = self.answered(request).unwrap_or_default();
            let bytes: Vec<u8> = answers.iter().map(|&answer| u8::from(answer)).collect();
            out.put_bytes(&bytes);
        }
    }

    /// Reads them from a manifest.
    pub fn get(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let mut retries = Self::default();
        for _ in 0..fields.u32("answered requests")? {
            let request = fields.bytes("a request id")?;
            let answers: Vec<bool> = fields.bytes("its answers")?.iter().map(|&byte| byte != 0).collect();
            retries.keep(request, &answers);
        }
        Ok(retries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_through_a_manifest() {
        let mut retries = Retries::default();
        for number in 0..KEPT as u32 + 10 {
            retries.keep(&number.to_le_bytes(), &[number % 2 == 0]);
        }
        retries.keep(&20u32.to_le_bytes(), &[true]);
        let mut bytes = Vec::new();
        retries.put(&mut bytes);
        let read = Retries::get(&mut Fields(&bytes)).unwrap();
        assert_eq!(read.order.len(), KEPT);
        assert_eq!(read.answered(&9u32.to_le_bytes()), None);
        assert_eq!(read.answered(&10u32.to_le_bytes()), Some(&[true][..]));
        assert_eq!(read.answered(&11u32.to_le_bytes()), Some(&[false][..]));
        assert!(Retries::get(&mut Fields(&bytes[..bytes.len() - 1])).is_err());
    }
}
