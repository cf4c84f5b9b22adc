//! Which segments may have a document with all these terms? One small filter of its terms for each segment.
//!
//! ```text
//!  query "Red lamps" ──▶ terms: red, lamps ──▶ hashed once
//!                                               │
//!   segment 0   filter: red no ─────────────────┼──▶ skipped, certainly without a hit
//!   segment 1   filter: red maybe, lamps no ────┤──▶ skipped
//!   segment 2   filter: red maybe, lamps maybe ─┘──▶ opened and scanned
//! ```
//!
//! **Why no hit is lost.** A document that has all terms of a query put each of them into the filter of its segment, through
//! the same function that cuts the query. A filter never says "no" to what was put in, so that segment is opened.

use std::collections::BTreeSet;

use bloomgate::{Contract, Digest, Error, Fuse};

/// What is put into the filters, and asked of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terms {
    /// Words: letters and digits without what is between them, in lower case.
    Words,
    /// Every three characters in a row, in lower case: for parts of words, numbers and addresses.
    Trigrams,
}

impl Terms {
    /// The different terms of a text. The same for documents and queries, or a "no" would be wrong.
    #[must_use]
    pub fn of(self, text: &str) -> BTreeSet<String> {
        let text = folded(text);
        match self {
            Self::Words => {
                text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(String::from).collect()
            }
            Self::Trigrams => {
                let characters: Vec<char> = text.chars().collect();
                characters.windows(3).map(|three| three.iter().collect()).collect()
            }
        }
    }
}

/// A text in one case, character by character: what a letter becomes must not depend on its neighbours (as the last sigma of a
/// word does in `str::to_lowercase`), or a part of a text would not be in the whole. By way of capitals, so that ς is σ and ß is
/// ss.
#[must_use]
pub fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The filters of all segments.
#[derive(Debug)]
pub struct Pruner {
    terms: Terms,
    rate: f64,
    contract: Contract,
    /// By the number of the segment; none for one that has no filter (yet), which is always opened.
    segments: Vec<Option<Fuse>>,
}

impl Pruner {
    /// No segments yet; their filters will have this rate for each term.
    #[must_use]
    pub fn new(terms: Terms, rate: f64) -> Self {
        Self { terms, rate, contract: Contract::xxh3().for_keys::<str>(), segments: Vec::new() }
    }

    /// A segment with its documents, which do not change any more; its number.
    pub fn add<'a>(&mut self, documents: impl IntoIterator<Item = &'a str>) -> Result<usize, Error> {
        let terms: BTreeSet<String> = documents.into_iter().flat_map(|document| self.terms.of(document)).collect();
        let filter = Fuse::builder().contract(self.contract.clone()).rate(self.rate).build_from(terms)?;
        self.segments.push(Some(filter));
        Ok(self.segments.len() - 1)
    }

    /// A segment that has no filter; its number.
    pub fn add_unknown(&mut self) -> usize {
        self.segments.push(None);
        self.segments.len() - 1
    }

    /// The segments that may have a document with all terms of a query; all others certainly have none.
    pub fn candidates(&self, query: &str) -> Result<Vec<usize>, Error> {
        let terms: Vec<String> = self.terms.of(query).into_iter().collect();
        let mut digests = Vec::new();
        // Hashed once for all segments. A query without a term (too short, only signs) rules nothing out.
        self.contract.digest_batch(&terms, &mut digests)?;
        let may = |segment: &Option<Fuse>| segment.as_ref().is_none_or(|filter| may_have_all(filter, &digests));
        Ok((0..).zip(&self.segments).filter(|(_, segment)| may(segment)).map(|(number, _)| number).collect())
    }

    /// How many segments there are.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The memory of all filters, in bytes.
    #[must_use]
    pub fn size_in_bytes(&self) -> u64 {
        self.segments.iter().flatten().map(Fuse::size_in_bytes).sum()
    }

    /// The share of segments without a term that a question for that term opens: what the filters' shapes say.
    #[must_use]
    pub fn rate(&self) -> f64 {
        let widths = self.segments.iter().flatten().map(Fuse::fingerprint_bits);
        widths.max().map_or(1.0, |bits| 0.5f64.powi(bits as i32))
    }
}

fn may_have_all(filter: &Fuse, digests: &[Digest]) -> bool {
    digests.iter().all(|&digest| filter.contains_digest(digest))
}
