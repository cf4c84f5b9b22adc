//! How many segments are opened for queries of each sort, and what filters and inverted indexes take.

use crate::measure::{Dice, grouped, percent, size, word};

use super::corpus::{Corpus, VOCABULARY_BITS};
use super::pruner::{Pruner, Terms};

/// Queries of each sort.
pub const QUERIES: u64 = 300;

/// The corpus of the page: 128 segments of 50 documents with 80 words.
#[must_use]
pub fn corpus() -> Corpus {
    Corpus::new(7, 128, 50, 80)
}

/// The filters of a corpus.
pub fn filters(corpus: &Corpus, terms: Terms, rate: f64) -> Result<Pruner, Box<dyn std::error::Error>> {
    let mut pruner = Pruner::new(terms, rate);
    for documents in &corpus.segments {
        pruner.add(documents.iter().map(String::as_str))?;
    }
    Ok(pruner)
}

/// What became of the queries of one sort.
#[derive(Debug, Default)]
pub struct Opened {
    /// Segments that were asked for, over all queries.
    pub asked: u64,
    /// Those with a hit.
    pub hits: u64,
    /// Those that were opened.
    pub opened: u64,
    /// Those with a hit that were not opened: a lost hit.
    pub lost: u64,
}

/// Asks the filters, and every document.
pub fn ask(corpus: &Corpus, pruner: &Pruner, queries: &[String]) -> Result<Opened, Box<dyn std::error::Error>> {
    let mut sum = Opened::default();
    for query in queries {
        let opened = pruner.candidates(query)?;
        let hits = corpus.scan(query);
        sum.asked += pruner.segments() as u64;
        sum.hits += hits.len() as u64;
        sum.opened += opened.len() as u64;
        sum.lost += hits.iter().filter(|hit| opened.binary_search(hit).is_err()).count() as u64;
    }
    Ok(sum)
}

/// One of the words that are no commoner than rank 4,096.
fn rare(dice: &mut Dice) -> String {
    const COMMON: u64 = 1 << 12;
    word(COMMON + dice.below((1 << VOCABULARY_BITS) - 1 - COMMON))
}

/// The sorts of queries, by what the page calls them.
#[must_use]
pub fn queries(corpus: &Corpus) -> Vec<(&'static str, Vec<String>)> {
    let mut dice = Dice(11);
    let mut some =
        |make: &mut dyn FnMut(&mut Dice) -> String| (0..QUERIES).map(|_| make(&mut dice)).collect::<Vec<_>>();
    vec![
        ("one rare word", some(&mut rare)),
        ("two rare words", some(&mut |dice| format!("{} {}", rare(dice), rare(dice)))),
        ("a word that is nowhere", some(&mut |dice| format!("nowhere{}", dice.below(1 << 40)))),
        ("two words of one document", some(&mut |dice| corpus.pick(dice, 2))),
        ("four words of one document", some(&mut |dice| corpus.pick(dice, 4))),
        (
            "two of the 30 commonest words",
            some(&mut |dice| format!("{} {}", word(dice.below(30)), word(dice.below(30)))),
        ),
    ]
}

/// A row of the first table.
pub fn row(name: &str, opened: &Opened) -> String {
    let share = |part: u64| percent(part as f64 / opened.asked as f64);
    format!(
        "| {name} | {} | {} | {} | {} |\n",
        share(opened.hits),
        share(opened.opened),
        share(opened.asked - opened.opened),
        opened.lost
    )
}

/// The table of segments that were opened.
pub fn skipped() -> Result<String, Box<dyn std::error::Error>> {
    let corpus = corpus();
    let pruner = filters(&corpus, Terms::Words, 0.01)?;
    let mut table = String::from("| query | have a hit | opened | skipped | hits lost |\n|---|---|---|---|---|\n");
    for (name, queries) in queries(&corpus) {
        table += &row(name, &ask(&corpus, &pruner, &queries)?);
    }
    Ok(table)
}

/// The table of sizes.
pub fn sizes() -> Result<String, Box<dyn std::error::Error>> {
    let mut table = String::from(
        "| segments | terms of all segments | filters, 1 % | filters, 6.25 % | index of segments | index of documents |\n\
         |---|---|---|---|---|---|\n",
    );
    for (segments, documents, words) in [(16, 100, 80), (64, 25, 80), (512, 25, 80)] {
        let corpus = Corpus::new(7, segments, documents, words);
        let (by_segment, by_document) = corpus.inverted_bytes();
        table += &format!(
            "| {} of {} documents | {} | {} | {} | {} | {} |\n",
            segments,
            grouped(documents as u64),
            grouped(corpus.keys()),
            size(filters(&corpus, Terms::Words, 0.01)?.size_in_bytes()),
            size(filters(&corpus, Terms::Words, 0.0625)?.size_in_bytes()),
            size(by_segment),
            size(by_document),
        );
    }
    Ok(table)
}

/// Both tables of the page.
pub fn table() -> Result<String, Box<dyn std::error::Error>> {
    Ok(format!("{}\n{}", skipped()?, sizes()?))
}
