//! No segment with a hit is ever skipped, and segments without one are opened as often as promised.

use crate::measure::{Dice, assert_shown};
use bloomgate::math::estimate::within;

use super::corpus::Corpus;
use super::measured::{ask, corpus, filters, queries, row, sizes};
use super::pruner::{Pruner, Terms};

const PAGE: &str = include_str!("../search-pruning.md");

/// Against a scan of every document: words of one document in any number, at good and at very bad rates.
#[test]
fn no_segment_with_a_hit_is_skipped() {
    for (seed, rate) in [(1, 0.01), (2, 0.25), (3, 0.001)] {
        let corpus = Corpus::new(seed, 40, 20, 50);
        let pruner = filters(&corpus, Terms::Words, rate).unwrap();
        let mut dice = Dice(seed);
        let queries: Vec<String> = (0..500).map(|at| corpus.pick(&mut dice, 1 + at % 5)).collect();
        let opened = ask(&corpus, &pruner, &queries).unwrap();
        assert_eq!(opened.lost, 0, "{opened:?}");
        // Each of them has a hit, and not all segments were opened: the filters did something.
        assert!(opened.hits >= 500 && opened.opened < opened.asked, "{opened:?}");
    }
}

/// The same for parts of words and across them, by trigrams, in the case and with the signs that the text has.
#[test]
fn no_segment_with_a_part_of_a_word_is_skipped() {
    let corpus = Corpus::new(5, 40, 3, 12);
    let pruner = filters(&corpus, Terms::Trigrams, 0.01).unwrap();
    let mut dice = Dice(5);
    let (mut opened, mut hits) = (0, 0);
    for _ in 0..500 {
        let segment = &corpus.segments[dice.below(40) as usize];
        let text = &segment[dice.below(3) as usize];
        let start = dice.below(text.len() as u64 - 12) as usize;
        let part = &text[start..start + 3 + dice.below(9) as usize];
        let candidates = pruner.candidates(part).unwrap();
        let truth = corpus.scan_for_part(part);
        assert!(!truth.is_empty() && truth.iter().all(|hit| candidates.contains(hit)), "{part:?}: {truth:?}");
        (opened, hits) = (opened + candidates.len(), hits + truth.len());
    }
    assert!(opened < 500 * 40 * 3 / 4, "{opened} opened, {hits} with a hit");
}

/// A word that no segment has opens each of them at the rate of its filter, two-sided; of two such words, at its square.
#[test]
fn segments_without_the_word_are_opened_at_the_promised_rate() {
    let corpus = Corpus::new(4, 40, 20, 50);
    for asked in [0.0625, 0.01] {
        let pruner = filters(&corpus, Terms::Words, asked).unwrap();
        let rate = pruner.rate();
        assert!(rate <= asked && rate > asked / 2.0, "{rate} for {asked}");
        for words in [1, 2] {
            let query = |i: u32| (0..words).map(|word| format!("absent{i}x{word} ")).collect::<String>();
            let opened: usize = (0..20_000).map(|i| pruner.candidates(&query(i)).unwrap().len()).sum();
            assert!(
                within(opened as u64, 800_000, rate.powi(words), 4.5),
                "{opened} of 800000 at {rate}, {words} words"
            );
        }
    }
}

#[test]
fn documents_and_queries_are_cut_alike() {
    let mut pruner = Pruner::new(Terms::Words, 1e-6);
    pruner.add(["The Müller's red-hot LAMPS, 42 of them"]).unwrap();
    for query in ["lamps", "Red", "HOT", "MÜLLER", "42", "s", "red, lamps!"] {
        assert_eq!(pruner.candidates(query).unwrap(), [0], "{query:?}");
    }
    for query in ["lamp", "redhot", "4", "the blue lamps"] {
        assert!(pruner.candidates(query).unwrap().is_empty(), "{query:?}");
    }
    let mut pruner = Pruner::new(Terms::Trigrams, 1e-6);
    // In a word of its own the last sigma is another letter than within one, and an ß has no capital.
    pruner.add(["order AB-4711 shipped to ΟΔΟΣΑ, Straße 7"]).unwrap();
    for query in ["b-47", "DER ab", "4711", "ΟΔΟΣ", "οδος", "STRASSE", "straße"] {
        assert_eq!(pruner.candidates(query).unwrap(), [0], "{query:?}");
    }
    assert!(pruner.candidates("4712").unwrap().is_empty());
}

/// What a filter cannot rule out is opened: queries without a term, segments without a filter, and no segment without documents.
#[test]
fn what_is_not_known_is_opened() {
    let mut words = Pruner::new(Terms::Words, 0.01);
    words.add(["a lamp"]).unwrap();
    let unknown = words.add_unknown();
    assert_eq!(words.add([]).unwrap(), 2);
    assert_eq!(words.candidates("").unwrap(), [0, 1, 2]);
    assert_eq!(words.candidates("?!").unwrap(), [0, 1, 2]);
    assert_eq!(words.candidates("chair").unwrap(), [unknown]);
    assert_eq!(words.segments(), 3);
    let mut trigrams = Pruner::new(Terms::Trigrams, 0.01);
    trigrams.add(["a lamp"]).unwrap();
    assert_eq!(trigrams.candidates("la").unwrap(), [0], "too short to rule anything out");
}

#[test]
fn the_page_shows_what_was_measured() {
    let corpus = corpus();
    let pruner = filters(&corpus, Terms::Words, 0.01).unwrap();
    for (name, queries) in queries(&corpus) {
        let opened = ask(&corpus, &pruner, &queries).unwrap();
        assert_eq!(opened.lost, 0, "{name}: {opened:?}");
        assert_shown(PAGE, &row(name, &opened));
    }
    assert_shown(PAGE, &sizes().unwrap());
}
