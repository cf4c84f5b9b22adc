//! Documents to search in, made from a seed: common words are everywhere, rare ones in few places, as in real text.

use std::collections::{BTreeMap, BTreeSet};

use crate::measure::{Dice, word};

use super::pruner::{Terms, folded};

/// Words in all: 2^15, of which half of the text uses 180.
pub const VOCABULARY_BITS: u64 = 15;

/// Segments of documents.
#[derive(Debug)]
pub struct Corpus {
    /// The documents of each segment.
    pub segments: Vec<Vec<String>>,
    /// Their words: what a scan looks at.
    words: Vec<Vec<BTreeSet<String>>>,
}

impl Corpus {
    /// So many segments, with so many documents each, with so many words each.
    #[must_use]
    pub fn new(seed: u64, segments: usize, documents: usize, words: usize) -> Self {
        let mut dice = Dice(seed);
        let segments: Vec<Vec<String>> =
            (0..segments).map(|_| (0..documents).map(|_| sentence(&mut dice, words)).collect()).collect();
        let of = |documents: &Vec<String>| documents.iter().map(|document| Terms::Words.of(document)).collect();
        let words = segments.iter().map(of).collect();
        Self { segments, words }
    }

    /// The segments with a document that has all words of a query: by looking at every document.
    #[must_use]
    pub fn scan(&self, query: &str) -> Vec<usize> {
        let query = Terms::Words.of(query);
        let hit = |documents: &Vec<BTreeSet<String>>| documents.iter().any(|words| query.is_subset(words));
        (0..).zip(&self.words).filter(|(_, documents)| hit(documents)).map(|(number, _)| number).collect()
    }

    /// The segments with a document that has this text in it, in any case: by looking at every document.
    #[must_use]
    pub fn scan_for_part(&self, part: &str) -> Vec<usize> {
        let part = folded(part);
        let hit = |documents: &Vec<String>| documents.iter().any(|text| folded(text).contains(&part));
        (0..).zip(&self.segments).filter(|(_, documents)| hit(documents)).map(|(number, _)| number).collect()
    }

    /// Some words of one document, picked at random, with their signs and capitals.
    #[must_use]
    pub fn pick(&self, dice: &mut Dice, words: usize) -> String {
        let segment = &self.segments[dice.below(self.segments.len() as u64) as usize];
        let document = &segment[dice.below(segment.len() as u64) as usize];
        let all: Vec<&str> = document.split(' ').collect();
        let picked: Vec<&str> = (0..words).map(|_| all[dice.below(all.len() as u64) as usize]).collect();
        picked.join(" ")
    }

    /// How many bytes an inverted index takes: each word with its length, and for each the places it is in as gaps of seven
    /// bits a byte. By segments, and by documents as a search engine has it.
    #[must_use]
    pub fn inverted_bytes(&self) -> (u64, u64) {
        let (mut by_segment, mut by_document) = (BTreeMap::new(), BTreeMap::new());
        let mut document = 0u64;
        for (segment, documents) in (0u64..).zip(&self.words) {
            for words in documents {
                for word in words {
                    by_segment.entry(word).or_insert_with(BTreeSet::new).insert(segment);
                    by_document.entry(word).or_insert_with(BTreeSet::new).insert(document);
                }
                document += 1;
            }
        }
        (index_bytes(&by_segment), index_bytes(&by_document))
    }

    /// Different words, summed over the segments: the keys in all filters.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.words.iter().map(|documents| documents.iter().flatten().collect::<BTreeSet<_>>().len() as u64).sum()
    }
}

fn index_bytes(index: &BTreeMap<&String, BTreeSet<u64>>) -> u64 {
    let gap_bytes = |gap: u64| u64::from((64 - gap.leading_zeros()).max(1).div_ceil(7));
    let places = |places: &BTreeSet<u64>| {
        let mut before = 0;
        gap_bytes(places.len() as u64)
            + places.iter().map(|&place| gap_bytes(place - std::mem::replace(&mut before, place))).sum::<u64>()
    };
    index.iter().map(|(word, of)| 1 + word.len() as u64 + places(of)).sum()
}

fn sentence(dice: &mut Dice, words: usize) -> String {
    let mut text = String::new();
    for at in 0..words {
        let mut next = word(dice.rank(VOCABULARY_BITS));
        if dice.below(10) == 0 {
            next = next[..1].to_uppercase() + &next[1..];
        }
        if at > 0 {
            text.push_str(if dice.below(8) == 0 { ", " } else { " " });
        }
        text.push_str(&next);
    }
    text.push('.');
    text
}
