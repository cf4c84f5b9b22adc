//! Option words of commands: one list per command, read by its parser, by its help and by the tests.
//!
//! Words are whole words in any case. A word that is no option, one that is there twice and one without its value are
//! refused, where RedisBloom reads first letters and ignores what it does not know.

use crate::arguments::Arguments;
use crate::refusal::{Refusal, shown};

/// What follows an option word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing.
    Nothing,
    /// One value.
    Value,
    /// One value that is the name of a filter: its rights are checked as those of other names are.
    Name,
    /// Two values.
    Two,
    /// Everything to the end of the command.
    Rest,
}

/// An option word and what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// The word in capitals.
    pub name: &'static str,
    /// What follows.
    pub takes: Takes,
}

/// An option word that stands alone.
pub(crate) const fn flag(name: &'static str) -> Word {
    Word { name, takes: Takes::Nothing }
}

/// An option word with a value.
pub(crate) const fn value(name: &'static str) -> Word {
    Word { name, takes: Takes::Value }
}

/// What a word that is no option is answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The word and those that are allowed: ours.
    Named,
    /// RedisBloom's `Unknown argument received`; a missing value is a wrong number of arguments.
    RedisBloom,
    /// Redis's `ERR syntax error`, for everything.
    Syntax,
    /// Redis's `ERR Unsupported option X`, of the expiries.
    Unsupported,
    /// Redis's `ERR Syntax error in HELLO option 'X'`, for everything.
    Hello,
}

/// An option that was found, with its value (empty if it takes none).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found<'a> {
    pub(crate) name: &'static str,
    pub(crate) value: &'a [u8],
    /// What follows the word, for [`Takes::Two`] and [`Takes::Rest`].
    pub(crate) rest: &'a [&'a [u8]],
}

/// The options of a command, one after the other.
pub(crate) struct Options<'a> {
    args: Arguments<'a>,
    at: usize,
    seen: u32,
    unknown: Unknown,
}

impl<'a> Options<'a> {
    pub(crate) fn new(args: Arguments<'a>, unknown: Unknown) -> Self {
        Self { args, at: args.spec().options_from, seen: 0, unknown }
    }

    /// The one option of a command that takes one of its words at most.
    pub(crate) fn only(mut self) -> Result<Option<Found<'a>>, Refusal> {
        let first = self.next()?;
        match self.next()? {
            None => Ok(first),
            Some(_) if self.unknown == Unknown::Named => Err(self.args.wrong_number()),
            Some(_) => Err(Refusal::SYNTAX),
        }
    }

    /// The next option, or none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Found<'a>>, Refusal> {
        let words = self.args.words();
        let Some(&word) = words.get(self.at) else { return Ok(None) };
        let spec = self.args.spec();
        let Some(index) = spec.options.iter().position(|option| word.eq_ignore_ascii_case(option.name.as_bytes()))
        else {
            return Err(match self.unknown {
                Unknown::Named => Refusal::unknown_option(spec.name, word, &spec.option_words()),
                Unknown::RedisBloom => Refusal::UNKNOWN_ARGUMENT,
                Unknown::Syntax => Refusal::SYNTAX,
                Unknown::Unsupported => Refusal::err(format_args!("Unsupported option {}", shown(word))),
                Unknown::Hello => hello(word),
            });
        };
        let Word { name, takes } = spec.options[index];
        if self.seen >> index & 1 == 1 {
            return Err(match self.unknown {
                Unknown::Syntax => Refusal::SYNTAX,
                Unknown::Hello => hello(word),
                _ => Refusal::duplicate_option(spec.name, name),
            });
        }
        self.seen |= 1 << index;
        let rest = words.get(self.at + 1..).unwrap_or_default();
        let value = match takes {
            Takes::Nothing => &[][..],
            Takes::Rest => {
                self.at = words.len();
                return Ok(Some(Found { name, value: &[], rest }));
            }
            Takes::Two => match rest.get(..2) {
                Some(two) => {
                    self.at += 3;
                    return Ok(Some(Found { name, value: &[], rest: two }));
                }
                None if self.unknown == Unknown::Hello => return Err(hello(word)),
                None => return Err(Refusal::SYNTAX),
            },
            Takes::Value | Takes::Name => match rest.first() {
                Some(&value) => value,
                None => {
                    return Err(match self.unknown {
                        Unknown::Named | Unknown::Unsupported => Refusal::missing_value(spec.name, name),
                        Unknown::RedisBloom => Refusal::arity(spec.name),
                        Unknown::Syntax => Refusal::SYNTAX,
                        Unknown::Hello => hello(word),
                    });
                }
            },
        };
        self.at += if takes == Takes::Nothing { 1 } else { 2 };
        Ok(Some(Found { name, value, rest: &[] }))
    }
}

fn hello(word: &[u8]) -> Refusal {
    Refusal::err(format_args!("Syntax error in HELLO option '{}'", shown(word)))
}
