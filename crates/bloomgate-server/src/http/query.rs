//! The query of a request: each name at most once, none that is not known.

use bloomgate::Address;
use bloomgate_http::problem::Problem;

use super::path;
use super::routes::{Asks, Takes};

/// The query of a request, and what the route says may stand in it.
#[derive(Debug)]
pub(super) struct Query {
    given: Vec<(String, Vec<u8>)>,
    asks: &'static [Asks],
}

impl Query {
    /// Reads it. What is not understood is refused, not left out: a misspelt limit is no limit.
    pub(super) fn read(query: Option<&str>, asks: &'static [Asks]) -> Result<Self, Problem> {
        let mut given: Vec<(String, Vec<u8>)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = String::from_utf8_lossy(&path::decoded(name)?).into_owned();
            if !asks.iter().any(|asks| asks.name == name) {
                let name: String = name.chars().take(64).collect();
                let known: Vec<&str> = asks.iter().map(|asks| asks.name).collect();
                let known =
                    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
                return Err(Problem::bad_request(format!("the query of this path has no '{name}': {known}")));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(Problem::bad_request(format!("'{name}' stands in the query twice: give it once")));
            }
            given.push((name, path::decoded(&value.replace('+', "%20"))?));
        }
        Ok(Self { given, asks })
    }

    /// Refuses if something is missing that must be there.
    pub(super) fn check_needed(&self) -> Result<(), Problem> {
        let missing = self.asks.iter().find(|asks| asks.is_needed && self.bytes(asks.name).is_none());
        missing.map_or(Ok(()), |asks| Err(needed(asks.name, asks.about)))
    }

    fn asks(&self, name: &str) -> Option<&'static Asks> {
        self.asks.iter().find(|asks| asks.name == name)
    }

    /// The bytes of a name, or those that it has unless somebody says others; a name without a value is not given.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let given = self.given.iter().find(|(known, _)| known == name);
        let given = given.map(|(_, value)| &**value).filter(|value| !value.is_empty());
        given.or_else(|| Some(self.asks(name)?.usual?.as_bytes()))
    }

    /// Whether a name is given, with a value or without.
    pub(super) fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(known, _)| known == name)
    }

    /// The text of a name.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let text = |value| std::str::from_utf8(value);
        self.bytes(name).map(text).transpose().map_err(|_| wrong(name, "is no UTF-8: write a text"))
    }

    /// A whole number within the bounds that the route gives.
    pub(super) fn whole(&self, name: &str) -> Result<Option<u64>, Problem> {
        let (least, most) = match self.asks(name).map(|asks| asks.takes) {
            Some(Takes::Whole(least, most)) => (least, most),
            _ => (0, u64::MAX),
        };
        let Some(text) = self.text(name)? else { return Ok(None) };
        let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| wrong(name, &format!("is no whole number from {least} to {most}")))
    }

    /// The same where the route says what it is unless somebody says another.
    pub(super) fn usual_whole(&self, name: &str) -> Result<u64, Problem> {
        let about = self.asks(name).map_or("", |asks| asks.about);
        self.whole(name)?.ok_or_else(|| needed(name, about))
    }

    /// Any number.
    pub(super) fn number(&self, name: &str) -> Result<Option<f64>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| wrong(name, "is no number: write one like 0.01"))
    }

    /// Yes or no; a name without a value is yes.
    pub(super) fn truth(&self, name: &str) -> Result<bool, Problem> {
        match self.text(name)? {
            None => Ok(self.has(name)),
            Some("true" | "yes" | "1") => Ok(true),
            Some("false" | "no" | "0") => Ok(false),
            Some(_) => Err(wrong(name, "is neither true nor false")),
        }
    }

    /// One of the words that the route gives.
    pub(super) fn word(&self, name: &str) -> Result<Option<&'static str>, Problem> {
        let words = match self.asks(name).map(|asks| asks.takes) {
            Some(Takes::Words(words)) => words,
            _ => &[],
        };
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|word| **word == text);
        found.map(|word| Some(*word)).ok_or_else(|| wrong(name, &format!("is none of {}", words.join(", "))))
    }

    /// The address of a file, which must be there.
    pub(super) fn address(&self, name: &str) -> Result<Address, Problem> {
        let about = self.asks(name).map_or("", |asks| asks.about);
        let text = self.text(name)?.ok_or_else(|| needed(name, about))?;
        text.parse().map_err(|_| {
            wrong(name, "is no address of a file: that is 64 hexadecimal digits, as ETag of a snapshot has it")
        })
    }
}

fn needed(name: &str, about: &str) -> Problem {
    Problem::bad_request(format!("the query of this path needs '{name}': {about}"))
}

fn wrong(name: &str, why: &str) -> Problem {
    Problem::bad_request(format!("'{name}' in the query {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn asks(name: &'static str, takes: Takes) -> Asks {
        Asks { name, takes, usual: None, is_needed: false, about: "What it is." }
    }

    static KNOWN: [Asks; 7] = [
        asks("a", Takes::Text),
        asks("n", Takes::Whole(1, 10)),
        asks("yes", Takes::Truth),
        asks("key", Takes::Text),
        Asks { usual: Some("up"), ..asks("order", Takes::Words(&["up", "down"])) },
        Asks { usual: Some("4"), ..asks("limit", Takes::Whole(1, 8)) },
        Asks { is_needed: true, ..asks("since", Takes::Address) },
    ];

    #[test]
    fn values_are_read_and_mistakes_told() {
        let address = "5a".repeat(32);
        let text = format!("a=b%20c+d&n=7&yes&key=%FF&since={address}");
        let query = Query::read(Some(&text), &KNOWN).unwrap();
        assert_eq!(query.text("a").unwrap(), Some("b c d"));
        assert_eq!(query.whole("n").unwrap(), Some(7));
        assert!(query.truth("yes").unwrap() && query.has("yes"));
        assert_eq!((query.bytes("key"), query.text("key").is_err()), (Some(&b"\xff"[..]), true));
        assert_eq!(query.address("since").unwrap().to_string(), address);
        // What nobody gave is as usual, or nothing.
        assert_eq!((query.word("order").unwrap(), query.usual_whole("limit").unwrap()), (Some("up"), 4));
        assert!(query.check_needed().is_ok());
        for wrong in ["b=1", "a=1&a=2", "a=%", "limt=4"] {
            assert_eq!(Query::read(Some(wrong), &KNOWN).unwrap_err().status(), 400, "{wrong}");
        }
        let why = |text: &str| {
            let query = Query::read(Some(text), &KNOWN).unwrap();
            let read = query.check_needed().and_then(|()| query.address("since").map(drop));
            let read = read.and_then(|()| query.usual_whole("limit").map(drop));
            read.and_then(|()| query.word("order").map(drop)).unwrap_err().detail().to_owned()
        };
        for (text, says) in [
            ("", "needs 'since': What it is."),
            ("since=", "needs 'since'"),
            ("since=5a", "64 hexadecimal digits"),
            (&*format!("since={address}&limit=9"), "'limit' in the query is no whole number from 1 to 8"),
            (&*format!("since={address}&limit=0"), "from 1 to 8"),
            (&*format!("since={address}&order=left"), "'order' in the query is none of up, down"),
        ] {
            assert!(why(text).contains(says), "{text}: {}", why(text));
        }
    }
}
