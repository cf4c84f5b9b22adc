//! Words of any content: nothing panics, loops or reads elsewhere.

use super::*;
use crate::ErrorKind;
use crate::bits::Owned;
use crate::bits::mapped::{CHUNK_BYTES, Mapped, Region};
use crate::hash::Contract;
use crate::promise::{Promise, WhenFull};

const PROMISE: Promise = Promise { capacity: 1000, rate: 0.01, when_full: WhenFull::GoOn };

#[test]
fn random_words_are_survived() {
    let mut dice = Dice(3);
    for (slots, interval) in [(3, 2), (60, 128), (1000, 96), (3000, 1 << 20), (30_000, 100), (300, 1 << 48)] {
        let shape = QuotientShape::new(slots, interval).unwrap();
        for style in 0..6 {
            let mut store = Owned::zeroed(shape.words()).unwrap();
            for word in store.as_mut_slice() {
                *word = match style {
                    0 => dice.next(),
                    1 => dice.next() & dice.next() & dice.next(),
                    2 => u64::MAX,
                    // Offsets of nothing and of everything, runs without ends and ends without runs.
                    3 => dice.next() & !0xffff,
                    4 => dice.next() | 0xffff,
                    _ => dice.next() & dice.next() & dice.next() & dice.next() & !0xff00,
                };
            }
            let len = dice.below(shape.all_slots());
            let mut filter = Quotient::from_parts(shape, Contract::xxh3(), PROMISE, len, store).unwrap();
            let digests: Vec<_> = (0..200).map(|_| random(&mut dice)).collect();
            let mut answers = vec![false; digests.len()];
            filter.contains_digests(&digests, &mut answers).unwrap();
            for (&digest, &answer) in digests.iter().zip(&answers) {
                assert_eq!(filter.contains_digest(digest), answer);
                let _ = filter.count_of_digest(digest);
            }
            assert!(filter.fingerprints().count() as u64 <= shape.all_slots());
            let _ = (filter.estimated_rate(), filter.approximate_count());
            let mut other = filter.clone();
            let _ = other.merge(&filter);
            for &digest in &digests[..60] {
                let _ = filter.remove_digest(digest);
                let _ = filter.insert_digest(digest);
            }
            let shared = filter.into_shared().unwrap();
            digests.iter().for_each(|&digest| {
                let _ = (shared.contains_digest(digest), shared.remove_digest(digest));
            });
        }
    }
}

#[test]
fn words_and_counts_that_do_not_belong_to_the_shape_are_refused() {
    let shape = QuotientShape::new(600, 128).unwrap();
    for (words, len) in [(shape.words() - 1, 0), (shape.words() + 8, 0), (shape.words(), shape.all_slots() + 1)] {
        let store = Owned::zeroed(words).unwrap();
        let refusal = Quotient::from_parts(shape, Contract::xxh3(), PROMISE, len, store).unwrap_err();
        assert_eq!(refusal.kind(), ErrorKind::Corrupt);
    }
    for (slots, interval) in [(0, 128), (10, 0), (10, 1), (u64::MAX, u64::MAX), (1 << 43, 2), (1 << 41, 1 << 41)] {
        assert_eq!(QuotientShape::new(slots, interval).unwrap_err().kind(), ErrorKind::InvalidParameter);
    }
}

#[test]
fn the_spare_bits_of_the_last_word_stay_zero() {
    for bits in 1..=48 {
        let shape = QuotientShape::new(3, 1 << bits).unwrap();
        let mut filter = Quotient::empty(shape, Contract::xxh3(), PROMISE).unwrap();
        // The greatest remainder everywhere: every bit that can be set is.
        let last = shape.fingerprints() - 1;
        while filter.shape() == &shape && filter.len() < shape.all_slots() {
            let x = last - filter.len() / 8 % 2;
            if filter.count_of_digest(digest_of(&shape, x)).unwrap() == 15
                || filter.insert_digest(digest_of(&shape, x)).is_err()
            {
                break;
            }
        }
        let words = filter.first.store.as_slice();
        assert_eq!(words[words.len() - 1] & filter.shape().spare(), 0, "{bits}");
    }
}

fn mapped(filter: &Quotient, damage: Option<usize>) -> Quotient<Mapped> {
    let mut bytes: Vec<u8> = filter.first.store.as_slice().iter().flat_map(|word| word.to_le_bytes()).collect();
    let sums = bytes.chunks(CHUNK_BYTES).map(crc32c::crc32c).collect();
    if let Some(at) = damage {
        bytes[at..at + 4096].fill(0);
    }
    let region = Region::of_bytes(&bytes).unwrap();
    let store = Mapped::new(region, 0, 0, filter.shape().words(), sums).unwrap();
    Quotient::from_parts(*filter.shape(), filter.contract().clone(), filter.promise(), filter.len(), store).unwrap()
}

#[test]
fn a_mapped_table_answers_as_it_is_and_maybe_where_it_is_damaged() {
    let mut filter = Quotient::builder().keys::<u64>().items(200_000).rate(0.01).build().unwrap();
    let keys: Vec<u64> = (0..200_000).collect();
    filter.insert_batch(&keys).unwrap();
    let whole = mapped(&filter, None);
    let broken = mapped(&filter, Some(CHUNK_BYTES + 1000));
    let asked: Vec<u64> = (150_000..250_000).collect();
    let (mut expected, mut sound, mut damaged) = (vec![false; 100_000], vec![false; 100_000], vec![false; 100_000]);
    filter.contains_batch(&asked, &mut expected).unwrap();
    whole.contains_batch(&asked, &mut sound).unwrap();
    broken.contains_batch(&asked, &mut damaged).unwrap();
    assert_eq!(sound, expected);
    assert!(crate::bits::sealed::Sealed::admitted(whole.store()), "all chunks were touched");
    assert!(expected.iter().zip(&damaged).all(|(&right, &answer)| answer || !right));
    let maybe = damaged.iter().filter(|&&answer| answer).count();
    assert!(maybe > 60_000 && maybe < 90_000, "one chunk of four or five: {maybe}");
    assert!(whole == filter);
    assert!(whole.fingerprints().unwrap().eq(filter.fingerprints()));
    assert_eq!(broken.fingerprints().unwrap_err().kind(), ErrorKind::Corrupt);
    let mut into = Quotient::builder().keys::<u64>().items(200_000).rate(0.01).build().unwrap();
    assert_eq!(into.merge(&broken).unwrap_err().kind(), ErrorKind::Corrupt);
    into.merge(&whole).unwrap();
    assert!(into == filter);
    assert_eq!(whole.count_of(&5u64).unwrap(), filter.count_of(&5u64).unwrap());
    assert!(keys.iter().any(|key| broken.count_of(key).is_err()));
}

/// What inserting, removing and growing leave is sound, and no mark of a slot can be another unnoticed.
#[test]
fn only_tables_that_could_have_been_made_are_sound() {
    let mut dice = Dice(8);
    for (slots, interval) in [(60, 1 << 10), (300, 96), (1000, 1 << 20)] {
        let mut filter =
            Quotient::empty(QuotientShape::new(slots, interval).unwrap(), Contract::xxh3(), PROMISE).unwrap();
        let mut inside = Vec::new();
        for step in 0..1_500 {
            if inside.is_empty() || dice.below(5) < 3 {
                inside.push(random(&mut dice));
                filter.insert_digest(inside[inside.len() - 1]).unwrap();
            } else {
                assert!(filter.remove_digest(inside.swap_remove(dice.below(inside.len() as u64) as usize)));
            }
            assert!(filter.shape().is_sound(filter.store().as_slice()), "{slots} {step}");
        }
        let (shape, mut words) = (*filter.shape(), filter.store().as_slice().to_vec());
        let per_block = shape.slots_per_block();
        for at in (0..words.len()).step_by(8).flat_map(|line| [line, line + 1]) {
            // All slots' marks; and in word 0, from bit 56 on, bits of the offset.
            for bit in (0..per_block).chain(if at % 8 == 0 { 56..64 } else { 0..0 }) {
                words[at] ^= 1 << bit;
                assert!(!shape.is_sound(&words[..]), "{slots}: bit {bit} of word {at}");
                words[at] ^= 1 << bit;
            }
        }
        assert!(shape.is_sound(&words[..]));
    }
}
