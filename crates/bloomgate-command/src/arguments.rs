//! The arguments of one command, with the checks that many commands share: names, items, numbers.

use crate::number;
use crate::options::{Options, Unknown};
use crate::refusal::{Refusal, shown};
use crate::spec::Spec;

/// The most bytes of a filter's name.
pub const MAX_NAME: usize = 4096;
/// The most bytes of an item.
pub const MAX_ITEM: usize = 64 << 10;

/// The most words of a list that is neither of filters nor of items.
pub(crate) const MAX_FEW: usize = 256;

/// The words of one command, its name included, and the command they are for.
#[derive(Clone, Copy)]
pub struct Arguments<'a> {
    spec: &'static Spec,
    words: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    pub(crate) fn new(spec: &'static Spec, words: &'a [&'a [u8]]) -> Self {
        Self { spec, words }
    }

    pub(crate) fn spec(&self) -> &'static Spec {
        self.spec
    }

    pub(crate) fn words(&self) -> &'a [&'a [u8]] {
        self.words
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len()
    }

    /// The word at this place; empty past the end, which the arity rules out.
    #[inline]
    pub(crate) fn word(&self, at: usize) -> &'a [u8] {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The words from this place on.
    #[inline]
    pub(crate) fn from(&self, at: usize) -> &'a [&'a [u8]] {
        self.words.get(at..).unwrap_or_default()
    }

    /// The words from this place on, where each is compared with everything there is of its sort: more than so many could
    /// only be the same again, and would take seconds.
    pub(crate) fn few(&self, at: usize) -> Result<&'a [&'a [u8]], Refusal> {
        let words = self.from(at);
        if words.len() <= MAX_FEW {
            return Ok(words);
        }
        let (name, given) = (self.spec.name, words.len());
        Err(Refusal::err(format_args!("'{name}' takes {MAX_FEW} words at most, not {given}: ask for fewer")))
    }

    /// The name of a filter.
    #[inline]
    pub(crate) fn name(&self, at: usize) -> Result<&'a [u8], Refusal> {
        name(self.word(at))
    }

    /// The names of filters from this place on.
    pub(crate) fn names(&self, at: usize) -> Result<&'a [&'a [u8]], Refusal> {
        let names = self.from(at);
        names.iter().try_for_each(|&word| name(word).map(drop))?;
        Ok(names)
    }

    /// An item.
    #[inline]
    pub(crate) fn item(&self, at: usize) -> Result<&'a [u8], Refusal> {
        let item = self.word(at);
        if item.len() > MAX_ITEM { Err(item_too_long(item.len(), 1)) } else { Ok(item) }
    }

    /// The items from this place on.
    #[inline]
    pub(crate) fn items(&self, at: usize) -> Result<&'a [&'a [u8]], Refusal> {
        items(self.from(at))
    }

    /// An integer, in Redis's words if it is none.
    pub(crate) fn integer(&self, at: usize) -> Result<i64, Refusal> {
        number::integer(self.word(at)).ok_or(Refusal::NOT_INTEGER)
    }

    /// The options of the command.
    pub(crate) fn options(&self, unknown: Unknown) -> Options<'a> {
        Options::new(*self, unknown)
    }

    /// The refusal of this number of arguments.
    pub(crate) fn wrong_number(&self) -> Refusal {
        Refusal::arity(self.spec.name)
    }
}

/// A name, if it is not too long.
#[inline]
pub(crate) fn name(word: &[u8]) -> Result<&[u8], Refusal> {
    if word.len() <= MAX_NAME { Ok(word) } else { Err(name_too_long(word.len())) }
}

/// Items, if none of them is too long.
#[inline]
pub(crate) fn items<'a>(items: &'a [&'a [u8]]) -> Result<&'a [&'a [u8]], Refusal> {
    match items.iter().position(|item| item.len() > MAX_ITEM) {
        None => Ok(items),
        Some(at) => Err(item_too_long(items[at].len(), at + 1)),
    }
}

#[cold]
fn name_too_long(bytes: usize) -> Refusal {
    Refusal::err(format_args!("name is {bytes} bytes, at most {MAX_NAME} are allowed: use a shorter name"))
}

#[cold]
fn item_too_long(bytes: usize, at: usize) -> Refusal {
    Refusal::err(format_args!("item {at} is {bytes} bytes, at most {MAX_ITEM} are allowed: send its hash instead"))
}

/// A number without a sign in this range, or what was wrong with it.
pub(crate) fn within(what: &str, text: &[u8], least: u64, most: u64) -> Result<u64, Refusal> {
    number::unsigned(text).filter(|value| (least..=most).contains(value)).ok_or_else(|| {
        Refusal::err(format_args!("{what} must be an integer from {least} to {most}, not '{}'", shown(text)))
    })
}

/// A false-positive rate that the library can keep, or what was wrong with it.
pub(crate) fn rate(what: &str, text: &[u8]) -> Result<f64, Refusal> {
    let least = bloomgate::promise::MIN_RATE;
    number::decimal(text).filter(|rate| (least..1.0).contains(rate)).ok_or_else(|| {
        let text = shown(text);
        Refusal::err(format_args!("{what} must be a rate from {least:e} to below 1 (1 % is 0.01), not '{text}'"))
    })
}

/// A short name of a thing of the server: 1 to 64 of `A-Za-z0-9._-`, not starting with a dot.
pub(crate) fn label<'a>(what: &str, text: &'a [u8]) -> Result<&'a str, Refusal> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let label = std::str::from_utf8(text).ok();
    label.filter(|_| (1..=64).contains(&text.len()) && text[0] != b'.' && text.iter().all(plain)).ok_or_else(|| {
        let text = shown(text);
        Refusal::err(format_args!("{what} is 1 to 64 of A-Z a-z 0-9 . _ - and starts with no dot, not '{text}'"))
    })
}
