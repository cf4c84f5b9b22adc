//! The query of a request: each name at most once, none that is not known.

use bloomgate_http::problem::Problem;

use super::path;

/// The query of a request.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Reads it. What is not understood is refused, not left out: a misspelt limit is no limit.
    pub(super) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, Problem> {
        let mut read: Vec<(String, Vec<u8>)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let name = String::from_utf8_lossy(&path::decoded(name)?).into_owned();
            if !known.contains(&&*name) {
                let name: String = name.chars().take(64).collect();
                let known =
                    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
                return Err(Problem::bad_request(format!("the query of this path has no '{name}': {known}")));
            }
            if read.iter().any(|(other, _)| *other == name) {
                return Err(Problem::bad_request(format!("'{name}' stands in the query twice: give it once")));
            }
            read.push((name, path::decoded(&value.replace('+', "%20"))?));
        }
        Ok(Self(read))
    }

    /// The bytes of a name; nothing where it is not given, or given without a value.
    pub(super) fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value).filter(|value| !value.is_empty())
    }

    /// Whether a name is given, with a value or without.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(known, _)| known == name)
    }

    /// The text of a name.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        let text = |value| std::str::from_utf8(value);
        self.bytes(name).map(text).transpose().map_err(|_| wrong(name, "is no UTF-8: write a text"))
    }

    /// A whole number within bounds.
    pub(super) fn whole(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
        number.map(Some).ok_or_else(|| wrong(name, &format!("is no whole number from {least} to {most}")))
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

    /// One of some words.
    pub(super) fn one_of<'w>(&self, name: &str, words: &'w [&'w str]) -> Result<Option<&'w str>, Problem> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let found = words.iter().find(|word| **word == text);
        found.map(|word| Some(*word)).ok_or_else(|| wrong(name, &format!("is none of {}", words.join(", "))))
    }
}

fn wrong(name: &str, why: &str) -> Problem {
    Problem::bad_request(format!("'{name}' in the query {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_mistakes_told() {
        let known = ["a", "n", "yes", "key"];
        let query = Query::read(Some("a=b%20c+d&n=7&yes&key=%FF"), &known).unwrap();
        assert_eq!(query.text("a").unwrap(), Some("b c d"));
        assert_eq!(query.whole("n", 1, 10).unwrap(), Some(7));
        assert_eq!(query.whole("n", 8, 10).unwrap_err().status(), 400);
        assert!(query.truth("yes").unwrap() && query.has("yes"));
        assert_eq!((query.bytes("key"), query.text("key").is_err()), (Some(&b"\xff"[..]), true));
        for wrong in ["b=1", "a=1&a=2", "a=%", "limt=4"] {
            assert_eq!(Query::read(Some(wrong), &known).unwrap_err().status(), 400, "{wrong}");
        }
    }
}
