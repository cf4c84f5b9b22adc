//! Answers that are kept for a while, so that a client which lost the reply can ask again and nothing is done twice.

use std::collections::{HashMap, VecDeque};

use super::fields::{Fields, Malformed, Put};

/// How many answered requests are kept for one filter: at 100 removals a second, 40 s of them.
pub const KEPT: usize = 4_096;
/// What they take at most, with what is kept beside each; the last one is kept however long it is.
pub const KEPT_BYTES: u64 = 1 << 20;
/// What an answer takes beside its id, which is there twice, and its bits.
const BESIDE: u64 = 128;

/// What was answered: one bit for each item.
#[derive(Debug, Clone)]
struct Answer {
    count: usize,
    bits: Box<[u8]>,
}

impl Answer {
    fn of(answers: &[bool]) -> Self {
        let byte = |some: &[bool]| some.iter().rev().fold(0, |byte, &answer| byte << 1 | u8::from(answer));
        Self { count: answers.len(), bits: answers.chunks(8).map(byte).collect() }
    }

    fn to_vec(&self) -> Vec<bool> {
        (0..self.count).map(|at| self.bits[at / 8] >> (at % 8) & 1 == 1).collect()
    }

    fn bytes(&self, request: &[u8]) -> u64 {
        (2 * request.len() + self.bits.len()) as u64 + BESIDE
    }
}

/// The last requests with an id, and what was answered.
#[derive(Debug, Default, Clone)]
pub struct Retries {
    answers: HashMap<Box<[u8]>, Answer>,
    order: VecDeque<Box<[u8]>>,
    bytes: u64,
}

impl Retries {
    /// What was answered to this request, if it was one of the last.
    #[must_use]
    pub fn answered(&self, request: &[u8]) -> Option<Vec<bool>> {
        self.answers.get(request).map(Answer::to_vec)
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Memory that they take.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps an answer; the oldest go when there are too many, or they take too much.
    pub fn keep(&mut self, request: &[u8], answers: &[bool]) {
        let answer = Answer::of(answers);
        self.bytes += answer.bytes(request);
        match self.answers.insert(request.into(), answer) {
            Some(before) => self.bytes -= before.bytes(request),
            None => self.order.push_back(request.into()),
        }
        while self.order.len() > KEPT || (self.bytes > KEPT_BYTES && self.order.len() > 1) {
            let Some(oldest) = self.order.pop_front() else { return };
            self.bytes -= self.answers.remove(&oldest).map_or(0, |answer| answer.bytes(&oldest));
        }
    }

    /// The requests with their answers, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Vec<bool>)> {
        self.order.iter().map(|request| (&**request, self.answered(request).unwrap_or_default()))
    }

    /// Appends them to a manifest, oldest first.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.order.len() as u32);
        for (request, answers) in self.iter() {
            out.put_bytes(request);
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
        assert_eq!(read.answered(&10u32.to_le_bytes()), Some(vec![true]));
        assert_eq!(read.answered(&11u32.to_le_bytes()), Some(vec![false]));
        assert!(Retries::get(&mut Fields(&bytes[..bytes.len() - 1])).is_err());
    }

    #[test]
    fn long_answers_are_bits_and_have_an_end() {
        let mut retries = Retries::default();
        let answers = |seed: usize| (0..100_003).map(|at| (at * 7 + seed).is_multiple_of(3)).collect::<Vec<bool>>();
        for number in 0..300 {
            retries.keep(format!("request {number}").as_bytes(), &answers(number));
        }
        assert!(
            retries.bytes() <= KEPT_BYTES && retries.order.len() == 82,
            "{} {}",
            retries.bytes,
            retries.order.len()
        );
        assert_eq!(retries.answered(b"request 299"), Some(answers(299)));
        let mut bytes = Vec::new();
        retries.put(&mut bytes);
        let read = Retries::get(&mut Fields(&bytes)).unwrap();
        assert_eq!((read.bytes(), read.answered(b"request 218")), (retries.bytes(), Some(answers(218))));
        // One alone is kept however long it is, and again in place of itself.
        retries.keep(b"long", &vec![true; 9_000_000]);
        retries.keep(b"long", &vec![false; 9_000_001]);
        assert_eq!((retries.order.len(), retries.bytes()), (1, 8 + 1_125_001 + BESIDE));
    }
}
