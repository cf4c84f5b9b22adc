//! Filters that are asked together: several files, each key hashed once for all that hash alike.

use std::path::{Path, PathBuf};

use bloomgate::foreign::Form;
use bloomgate::kind::Guarantee;
use bloomgate::{AnyFilter, Contract, Digest, Encoding, Kind};

use crate::digest;
use crate::failure::Failure;
use crate::file::{self, Opened};

/// The same call on a filter in its file or in memory.
macro_rules! on_opened {
    ($opened:expr, $filter:ident => $call:expr) => {
        match $opened {
            Opened::InPlace($filter) => $call,
            Opened::Loaded($filter) => $call,
        }
    };
}

impl Opened {
    /// How keys become digests.
    pub fn contract(&self) -> &Contract {
        on_opened!(self, filter => filter.contract())
    }

    /// The kind of filter.
    pub fn kind(&self) -> Kind {
        on_opened!(self, filter => filter.kind())
    }

    /// What a "no" means.
    pub fn guarantee(&self) -> Guarantee {
        on_opened!(self, filter => filter.guarantee())
    }

    /// The memory of the filter, in bytes.
    pub fn size_in_bytes(&self) -> u64 {
        on_opened!(self, filter => filter.size_in_bytes())
    }

    /// The rate that was asked for.
    pub fn promised_rate(&self) -> f64 {
        on_opened!(self, filter => filter.promised_rate())
    }

    /// The rate that is expected with what was inserted: by the bits when there are more keys than it was made for,
    /// since a count of what looked new would then flatter it.
    pub fn expected_rate(&self) -> Result<f64, Failure> {
        on_opened!(self, filter => expected_rate(filter))
    }

    /// Asks for digests.
    pub fn contains_digests(&self, digests: &[Digest], answers: &mut [bool]) -> Result<(), Failure> {
        Ok(on_opened!(self, filter => filter.contains_digests(digests, answers))?)
    }

    fn contains_batch(&self, keys: &[&[u8]], answers: &mut [bool]) -> Result<(), Failure> {
        Ok(on_opened!(self, filter => filter.contains_batch(keys, answers))?)
    }
}

/// The rate that a filter is expected to have now: see [`Opened::expected_rate`].
pub fn expected_rate<S: bloomgate::bits::Store>(filter: &AnyFilter<S>) -> Result<f64, Failure> {
    let over = filter.len() > filter.capacity() && !matches!(filter.kind(), Kind::Stable | Kind::Rotating);
    Ok(if over { filter.estimated_rate()? } else { filter.expected_rate() })
}

/// A filter that is asked, and its name in answers.
pub struct Asked {
    /// The path as it was given.
    pub path: PathBuf,
    /// The filter.
    pub filter: Opened,
}

/// Filters that hash alike.
struct Alike {
    contract: Contract,
    /// Which filters, by their number.
    filters: Vec<usize>,
}

/// All filters of a question.
pub struct Panel {
    filters: Vec<Asked>,
    alike: Vec<Alike>,
}

impl Panel {
    /// Opens all of them; the form and the secret are those of each.
    pub fn open(paths: &[PathBuf], form: Option<Form>, secret_file: Option<&Path>) -> Result<Self, Failure> {
        let mut panel = Self { filters: Vec::new(), alike: Vec::new() };
        for path in paths {
            let filter = file::open(path, form, secret_file)?;
            let contract = filter.contract();
            digest::refuse_given(contract)?;
            let number = panel.filters.len();
            match panel.alike.iter_mut().find(|alike| alike.contract == *contract) {
                Some(alike) => alike.filters.push(number),
                None => panel.alike.push(Alike { contract: contract.clone(), filters: vec![number] }),
            }
            panel.filters.push(Asked { path: path.clone(), filter });
        }
        Ok(panel)
    }

    /// The filters, in the order in which they were named.
    pub fn filters(&self) -> &[Asked] {
        &self.filters
    }

    /// The encodings of their keys, each once.
    pub fn encodings(&self) -> impl Iterator<Item = Encoding> {
        self.alike.iter().map(|alike| alike.contract.encoding())
    }

    /// Asks all filters for these keys.
    pub fn ask(&self, keys: &[&[u8]], answers: &mut Answers) -> Result<(), Failure> {
        answers.maybe.resize_with(self.filters.len(), Vec::new);
        answers.refused.clear();
        for maybe in &mut answers.maybe {
            maybe.clear();
            maybe.resize(keys.len(), Some(false));
        }
        for alike in &self.alike {
            self.ask_alike(alike, keys, answers)?;
        }
        answers.refused.sort_by_key(|(at, _)| *at);
        Ok(())
    }

    fn ask_alike(&self, alike: &Alike, keys: &[&[u8]], answers: &mut Answers) -> Result<(), Failure> {
        let Answers { maybe, refused, digests, places, found } = answers;
        let bytes = digest::takes_bytes(&alike.contract);
        let fill = |number: usize, found: &[bool], maybe: &mut [Vec<Option<bool>>], places: Option<&[usize]>| {
            let maybe = &mut maybe[number];
            match places {
                None => maybe.iter_mut().zip(found).for_each(|(maybe, &found)| *maybe = Some(found)),
                Some(places) => places.iter().zip(found).for_each(|(&at, &found)| maybe[at] = Some(found)),
            }
        };
        // One filter alone hashes and asks in one go, side by side.
        if let ([number], true) = (&alike.filters[..], bytes) {
            found.clear();
            found.resize(keys.len(), false);
            self.filters[*number].filter.contains_batch(keys, found)?;
            fill(*number, found, maybe, None);
            return Ok(());
        }
        digests.clear();
        places.clear();
        if bytes {
            digests.extend(keys.iter().map(|key| alike.contract.digest_bytes(key)));
        } else {
            let mut scratch = Vec::new();
            for (at, key) in keys.iter().enumerate() {
                match digest::digest(&alike.contract, key, &mut scratch) {
                    Ok(digest) => {
                        digests.push(digest);
                        places.push(at);
                    }
                    Err(why) => {
                        let name = self.filters[alike.filters[0]].path.display();
                        refused.push((at, if self.filters.len() > 1 { format!("{name}: {why}") } else { why }));
                        alike.filters.iter().for_each(|&number| maybe[number][at] = None);
                    }
                }
            }
        }
        found.clear();
        found.resize(digests.len(), false);
        for &number in &alike.filters {
            self.filters[number].filter.contains_digests(digests, found)?;
            fill(number, found, maybe, (!bytes).then_some(places));
        }
        Ok(())
    }

    /// Refuses the answers if one of the files was found damaged while it was asked.
    pub fn refuse_damage(&self) -> Result<(), Failure> {
        for Asked { path, filter } in &self.filters {
            if let Opened::InPlace(filter) = filter
                && let Some(damage) = filter.damage()
            {
                return Err(Failure::at(
                    path,
                    format!("{damage}: keys that touch it were answered \"maybe\"; fetch or build the file again"),
                ));
            }
        }
        Ok(())
    }
}

/// What the filters of a panel answered to some keys; the memory is used again for the next.
#[derive(Default)]
pub struct Answers {
    /// By filter, then by key; nothing where the key is none of that filter's.
    maybe: Vec<Vec<Option<bool>>>,
    /// Keys that are none of some filter's, in order, and why.
    pub refused: Vec<(usize, String)>,
    digests: Vec<Digest>,
    places: Vec<usize>,
    found: Vec<bool>,
}

impl Answers {
    /// Whether a key may be in any of the filters, or in all of them. Nothing when a filter that could not be asked
    /// would decide it.
    pub fn of(&self, key: usize, all: bool) -> Option<bool> {
        // One that says yes decides "any", one that says no decides "all"; else nobody may be silent.
        let decides = !all;
        let mut silent = false;
        for answer in self.maybe.iter().map(|maybe| maybe[key]) {
            match answer {
                Some(answer) if answer == decides => return Some(decides),
                Some(_) => {}
                None => silent = true,
            }
        }
        (!silent).then_some(!decides)
    }

    /// The numbers of the filters that may have a key.
    pub fn holders(&self, key: usize) -> impl Iterator<Item = usize> {
        self.maybe.iter().enumerate().filter(move |(_, maybe)| maybe[key] == Some(true)).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_could_not_be_asked_decides_nothing() {
        let (yes, no, silent) = (Some(true), Some(false), None);
        for (answers, any, all) in [
            ([yes, no, no], yes, no),
            ([no, no, no], no, no),
            ([yes, yes, yes], yes, yes),
            ([no, silent, no], silent, no),
            ([no, silent, yes], yes, no),
            ([yes, silent, yes], yes, silent),
        ] {
            let told = Answers { maybe: answers.iter().map(|&answer| vec![answer]).collect(), ..Answers::default() };
            assert_eq!((told.of(0, false), told.of(0, true)), (any, all), "{answers:?}");
        }
    }
}
