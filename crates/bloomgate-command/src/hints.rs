//! The syntax of a command as a tree of arguments, in the form of Redis 7: what `COMMAND DOCS` tells and redis-cli hints with
//! while one types. It comes from the syntax that the documentation shows, so the two cannot differ:
//!
//! ```text
//! key [CAPACITY n] [NX | XX] ITEMS item [item ...]
//! │   │            │         └ a token with a value that may come again
//! │   │            └ one of some, may be left out
//! │   └ a token with a value, may be left out
//! └ a value
//! ```

use crate::reply::Reply;
use crate::spec::Spec;

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hint {
    /// What it is called; for a token alone, that in lower case.
    pub name: String,
    /// The word that comes before it, or all there is.
    pub token: Option<String>,
    /// What it is made of.
    pub shape: Shape,
    /// Whether it may be left out.
    pub optional: bool,
    /// Whether it may come again.
    pub multiple: bool,
}

/// What an argument is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shape {
    /// Its token alone.
    #[default]
    Token,
    /// A value.
    Value,
    /// One of these.
    OneOf(Vec<Hint>),
    /// All of these.
    Block(Vec<Hint>),
}

/// The arguments of a command.
#[must_use]
pub fn hints(spec: &Spec) -> Vec<Hint> {
    let spaced = spec.syntax.chars().fold(String::new(), |mut text, letter| {
        match letter {
            '[' | ']' | '(' | ')' => text.extend([' ', letter, ' ']),
            _ => text.push(letter),
        }
        text
    });
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    sequence(&mut rest)
}

/// Arguments up to the end of a bracket or to the next alternative.
fn sequence(rest: &mut &[&str]) -> Vec<Hint> {
    let mut hints: Vec<Hint> = Vec::new();
    while let Some((&word, after)) = rest.split_first() {
        match word {
            "]" | ")" | "|" => break,
            "[" | "(" => {
                if let Some(again) = repetition(after, &hints) {
                    repeat(&mut hints, again);
                    *rest = &after[again + 2..];
                    continue;
                }
                *rest = after;
                let mut hint = alternatives(rest);
                hint.optional |= word == "[";
                hints.push(hint);
            }
            "..." => {
                *rest = after;
                if let Some(last) = hints.last_mut() {
                    last.multiple = true;
                }
            }
            _ if is_token(word) => {
                *rest = after;
                hints.push(token(word, rest));
            }
            _ => {
                *rest = after;
                hints.push(value(word));
            }
        }
    }
    hints
}

/// A word that is typed as it stands; values have small letters.
fn is_token(word: &str) -> bool {
    !word.contains(|letter: char| letter.is_ascii_lowercase())
}

fn value(word: &str) -> Hint {
    Hint { name: word.to_owned(), shape: Shape::Value, ..Hint::default() }
}

/// A token with the values that follow it.
fn token(word: &str, rest: &mut &[&str]) -> Hint {
    let is_value = |word: &&&str| !is_token(word) && **word != "...";
    let mut values: Vec<Hint> = rest.iter().take_while(is_value).map(|word| value(word)).collect();
    *rest = &rest[values.len()..];
    let mut hint = match values.len() {
        0 if rest.first() == Some(&"(") => {
            *rest = &rest[1..];
            alternatives(rest)
        }
        0 => Hint { name: word.to_ascii_lowercase(), ..Hint::default() },
        1 => values.remove(0),
        _ => Hint { name: word.to_ascii_lowercase(), shape: Shape::Block(values), ..Hint::default() },
    };
    hint.token = Some(word.to_owned());
    hint
}

/// What is in a bracket that has been opened, which is closed afterwards.
fn alternatives(rest: &mut &[&str]) -> Hint {
    let mut all = Vec::new();
    loop {
        all.push(joined(sequence(rest)));
        let closing = rest.split_first();
        *rest = closing.map_or(&[], |(_, after)| after);
        if closing.is_none_or(|(&word, _)| word != "|") {
            break;
        }
    }
    match all.len() {
        1 => all.remove(0),
        _ => Hint { name: named(&all), shape: Shape::OneOf(all), ..Hint::default() },
    }
}

/// Several arguments as one.
fn joined(mut hints: Vec<Hint>) -> Hint {
    match hints.len() {
        1 => hints.remove(0),
        _ => Hint { name: named(&hints), shape: Shape::Block(hints), ..Hint::default() },
    }
}

fn named(hints: &[Hint]) -> String {
    hints.iter().map(|hint| &hint.name[..]).collect::<Vec<_>>().join("-")
}

/// How many of the last values come again in a bracket that has been opened: `item [item ...]`.
fn repetition(after: &[&str], hints: &[Hint]) -> Option<usize> {
    let count = after.iter().position(|&word| word == "...")?;
    let last = hints.get(hints.len().checked_sub(count)?..)?;
    let same = count > 0 && last.iter().zip(after).all(|(hint, &word)| hint.name == word);
    (same && after.get(count + 1) == Some(&"]")).then_some(count)
}

fn repeat(hints: &mut Vec<Hint>, count: usize) {
    let mut again = joined(hints.split_off(hints.len() - count));
    again.multiple = true;
    hints.push(again);
}

impl Hint {
    /// In the form of `COMMAND DOCS`.
    pub(crate) fn reply(&self) -> Reply {
        let kind = match &self.shape {
            Shape::Token => "pure-token",
            Shape::OneOf(_) => "oneof",
            Shape::Block(_) => "block",
            Shape::Value => match &self.name[..] {
                "key" | "newkey" | "name" | "source" | "destination" | "left" | "right" | "other" => "key",
                "n" | "seconds" | "milliseconds" | "index" | "count" | "iterator" | "bits" | "timeout" => "integer",
                "rate" | "error_rate" => "double",
                "pattern" => "pattern",
                name if name.starts_with("unix-time") => "unix-time",
                _ => "string",
            },
        };
        let mut pairs: Vec<(Reply, Reply)> =
            vec![("name".into(), self.name.clone().into()), ("type".into(), kind.into())];
        if matches!(self.shape, Shape::Value) {
            pairs.push(("display_text".into(), self.name.clone().into()));
        }
        if let Some(token) = &self.token {
            pairs.push(("token".into(), token.clone().into()));
        }
        let flags = [("optional", self.optional), ("multiple", self.multiple)];
        if self.optional || self.multiple {
            let set = flags.iter().filter(|(_, is)| *is).map(|&(flag, _)| Reply::simple(flag)).collect();
            pairs.push(("flags".into(), Reply::Set(set)));
        }
        if let Shape::OneOf(within) | Shape::Block(within) = &self.shape {
            pairs.push(("arguments".into(), Reply::Array(within.iter().map(Self::reply).collect())));
        }
        Reply::Map(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TABLE;

    /// As redis-cli writes it, but for the brackets around one of some, which it leaves out.
    fn shown(hint: &Hint) -> String {
        let all = |within: &[Hint], between: &str| within.iter().map(shown).collect::<Vec<_>>().join(between);
        let value = match &hint.shape {
            Shape::Token => String::new(),
            Shape::Value => hint.name.clone(),
            Shape::Block(within) => all(within, " "),
            Shape::OneOf(within) if hint.optional && hint.token.is_none() => all(within, " | "),
            Shape::OneOf(within) => format!("({})", all(within, " | ")),
        };
        let words = [hint.token.clone().unwrap_or_default(), value.clone()];
        let mut text = words.iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join(" ");
        if hint.multiple {
            text = format!("{text} [{value} ...]");
        }
        if hint.optional { format!("[{text}]") } else { text }
    }

    #[test]
    fn every_syntax_is_what_its_arguments_say() {
        let all = TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
        let mut count = 0;
        for spec in all.filter(|spec| spec.syntax != "...") {
            let shown: Vec<String> = hints(spec).iter().map(shown).collect();
            // Two ways to write any number of arguments, none among them.
            let syntax = spec.syntax.replace("[argument ...]", "[argument [argument ...]]");
            assert_eq!(shown.join(" "), syntax, "{}", spec.name);
            count += usize::from(!syntax.is_empty());
        }
        assert!(count > 80, "{count}");
    }

    #[test]
    fn tokens_values_and_choices_are_told_apart() {
        let reserve = hints(crate::find(b"bf.insert").unwrap());
        let shapes: Vec<_> =
            reserve.iter().map(|hint| (&hint.name[..], hint.token.as_deref(), hint.optional, hint.multiple)).collect();
        assert_eq!(
            shapes,
            [
                ("key", None, false, false),
                ("n", Some("CAPACITY"), true, false),
                ("rate", Some("ERROR"), true, false),
                ("n", Some("EXPANSION"), true, false),
                ("nocreate", Some("NOCREATE"), true, false),
                ("nonscaling", Some("NONSCALING"), true, false),
                ("item", Some("ITEMS"), false, true),
            ]
        );
        let expire = hints(crate::find(b"expire").unwrap());
        let Shape::OneOf(only) = &expire[2].shape else { panic!("{expire:?}") };
        assert!(expire[2].optional && only.iter().all(|hint| hint.shape == Shape::Token) && only.len() == 4);
    }
}
