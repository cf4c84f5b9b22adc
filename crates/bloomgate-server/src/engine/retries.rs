//! Answers that are kept for a while, so that a client which lost the reply can ask again and nothing is done twice.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroU64;

use bloomgate::Digest;

use super::fields::{Fields, Malformed, Put};

/// How many answered requests are kept for one filter: at 100 removals a second, 40 s of them.
pub const KEPT: usize = 4_096;
/// What they take at most, with what is kept beside each; the last one is kept however long it is.
pub const KEPT_BYTES: u64 = 1 << 20;
/// What an answer takes beside its id, which is there twice, and its bits.
const BESIDE: u64 = 128;

/// What was answered to a request, and for which items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// For each item.
    pub answers: Vec<bool>,
    /// A sum over the items in their order; nothing for answers that were kept before there was one.
    items: Option<NonZeroU64>,
}

/// The first byte of answers that begin with a sum: those without begin with an answer, 0 or 1.
const SUMMED: u8 = 2;

impl Answered {
    /// Answers without the items that they are for.
    #[must_use]
    pub fn plain(answers: Vec<bool>) -> Self {
        Self { answers, items: None }
    }

    /// Answers for items.
    #[must_use]
    pub fn of(answers: Vec<bool>, items: &[Digest]) -> Self {
        Self { answers, items: Some(sum_of(items)) }
    }

    /// Whether it answers these items, as far as is known.
    #[must_use]
    pub fn is_for(&self, items: &[Digest]) -> bool {
        self.answers.len() == items.len() && self.items.is_none_or(|sum| sum == sum_of(items))
    }

    /// Appends it to a record or a manifest: its length, the sum if it has one, and a byte for each answer.
    pub fn put(&self, out: &mut Vec<u8>) {
        let summed = self.items.map_or(0, |_| 9);
        out.put_u32((summed + self.answers.len()) as u32);
        if let Some(sum) = self.items {
            out.put_u8(SUMMED);
            out.put_u64(sum.get());
        }
        out.extend(self.answers.iter().map(|&answer| u8::from(answer)));
    }

    /// Reads it, without its length.
    pub fn get(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields(bytes);
        let items = match bytes.first() {
            Some(&SUMMED) => {
                fields.u8("the form of answers")?;
                NonZeroU64::new(fields.u64("a sum over items")?)
            }
            _ => None,
        };
        Ok(Self { answers: fields.0.iter().map(|&byte| byte != 0).collect(), items })
    }
}

/// A sum over items in their order: answers stand in the order of the items too.
fn sum_of(items: &[Digest]) -> NonZeroU64 {
    let add = |sum: u64, item: &Digest| {
        (sum ^ item.lo).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_add(item.hi)
    };
    NonZeroU64::new(items.iter().fold(0, add)).unwrap_or(NonZeroU64::MIN)
}

/// What was answered: one bit for each item.
#[derive(Debug, Clone)]
struct Answer {
    count: usize,
    items: Option<NonZeroU64>,
    bits: Box<[u8]>,
}

impl Answer {
    fn of(Answered { answers, items }: &Answered) -> Self {
        let byte = |some: &[bool]| some.iter().rev().fold(0, |byte, &answer| byte << 1 | u8::from(answer));
        Self { count: answers.len(), items: *items, bits: answers.chunks(8).map(byte).collect() }
    }

    fn told(&self) -> Answered {
        let answers = (0..self.count).map(|at| self.bits[at / 8] >> (at % 8) & 1 == 1).collect();
        Answered { answers, items: self.items }
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
    pub fn answered(&self, request: &[u8]) -> Option<Answered> {
        self.answers.get(request).map(Answer::told)
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
    pub fn keep(&mut self, request: &[u8], answered: &Answered) {
        let answer = Answer::of(answered);
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
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Answered)> {
        self.order.iter().filter_map(|request| Some((&**request, self.answered(request)?)))
    }

    /// Appends them to a manifest, oldest first.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.order.len() as u32);
        for (request, answered) in self.iter() {
            out.put_bytes(request);
            answered.put(out);
        }
    }

    /// Reads them from a manifest.
    pub fn get(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let mut retries = Self::default();
        for _ in 0..fields.u32("answered requests")? {
            let request = fields.bytes("a request id")?;
            retries.keep(request, &Answered::get(fields.bytes("its answers")?)?);
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
            retries.keep(&number.to_le_bytes(), &Answered::plain(vec![number % 2 == 0]));
        }
        retries.keep(&20u32.to_le_bytes(), &Answered::plain(vec![true]));
        let mut bytes = Vec::new();
        retries.put(&mut bytes);
        let read = Retries::get(&mut Fields(&bytes)).unwrap();
        assert_eq!(read.order.len(), KEPT);
        assert_eq!(read.answered(&9u32.to_le_bytes()), None);
        assert_eq!(read.answered(&10u32.to_le_bytes()), Some(Answered::plain(vec![true])));
        assert_eq!(read.answered(&11u32.to_le_bytes()), Some(Answered::plain(vec![false])));
        assert!(Retries::get(&mut Fields(&bytes[..bytes.len() - 1])).is_err());
    }

    #[test]
    fn the_pages_tell_how_many_are_kept() {
        assert_eq!((KEPT, KEPT_BYTES, BESIDE), (4_096, 1 << 20, 128));
        for page in ["operations.md", "commands.md"] {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
            let text = std::fs::read_to_string(path).unwrap();
            assert!(text.contains("4,096") && text.contains("more than 1 MiB"), "docs/{page}");
        }
    }

    #[test]
    fn long_answers_are_bits_and_have_an_end() {
        let mut retries = Retries::default();
        let answers = |seed: usize| (0..100_003).map(|at| (at * 7 + seed).is_multiple_of(3)).collect::<Vec<bool>>();
        let answers = |seed: usize| Answered::plain(answers(seed));
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
        retries.keep(b"long", &Answered::plain(vec![true; 9_000_000]));
        retries.keep(b"long", &Answered::plain(vec![false; 9_000_001]));
        assert_eq!((retries.order.len(), retries.bytes()), (1, 8 + 1_125_001 + BESIDE));
    }

    #[test]
    fn answers_know_their_items_in_a_manifest_and_those_of_before_do_not() {
        let items = [(1, 2), (3, 4), (5, 6)].map(|(lo, hi)| Digest { lo, hi });
        let answered = Answered::of(vec![true, false, true], &items);
        let mut retries = Retries::default();
        retries.keep(b"summed", &answered);
        retries.keep(b"none", &Answered::of(Vec::new(), &[]));
        let mut bytes = Vec::new();
        retries.put(&mut bytes);
        let read = Retries::get(&mut Fields(&bytes)).unwrap();
        assert_eq!(read.answered(b"summed"), Some(answered.clone()));
        assert!(read.answered(b"none").is_some_and(|none| none.is_for(&[]) && !none.is_for(&items[..1])));
        assert!(answered.is_for(&items));
        let [one, two, three] = items;
        for others in [vec![one, two], vec![two, one, three], vec![one, two, Digest { lo: 5, hi: 7 }]] {
            assert!(!answered.is_for(&others), "{others:?}");
        }
        // As they were written before: a byte each, and only their number is known.
        let plain = Answered::get(&[1, 0, 1]).unwrap();
        assert_eq!(plain, Answered::plain(vec![true, false, true]));
        assert!(plain.is_for(&[three, three, one]) && !plain.is_for(&items[..2]));
        assert!(Answered::get(&[SUMMED, 1, 2]).is_err());
    }
}
