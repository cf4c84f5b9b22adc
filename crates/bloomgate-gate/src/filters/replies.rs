//! What servers of filters answer, in either version of the protocol.

use redis::{ServerError, Value};

use crate::link::refusal;

/// Something else than was asked for: a refusal, or a reply of another form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its words.
    pub text: String,
    /// There is no such filter, or something under its name that is none.
    pub is_missing: bool,
    /// There is such a filter already.
    pub is_there_already: bool,
}

impl Said {
    /// What a server said. RedisBloom, valkey-bloom and our own have the same words for these.
    pub fn new(error: &ServerError) -> Self {
        let text = refusal(error);
        let lower = text.to_ascii_lowercase();
        let is_missing = error.code() == "WRONGTYPE" || lower.contains("not found") || lower.contains("no such key");
        let is_there_already = lower.contains("exists");
        Self { text, is_missing, is_there_already }
    }

    /// That the filter is not there.
    pub fn missing() -> Self {
        Self { text: "no such filter".to_owned(), is_missing: true, is_there_already: false }
    }

    /// A reply of a form that nobody expects.
    pub fn odd(what: &str) -> Self {
        let text = format!("its answer is {what}, which no filter gives");
        Self { text, is_missing: false, is_there_already: false }
    }
}

/// A list of so many yes and no: numbers in version 2 of the protocol, booleans in version 3.
pub fn booleans(value: &Value, count: usize) -> Result<Vec<bool>, Said> {
    let values = match value {
        Value::Array(values) => values,
        Value::ServerError(error) => return Err(Said::new(error)),
        _ => return Err(Said::odd("no list")),
    };
    let read = |value: &Value| match value {
        Value::Int(0) | Value::Boolean(false) => Ok(false),
        Value::Int(1) | Value::Boolean(true) => Ok(true),
        Value::ServerError(error) => Err(Said::new(error)),
        _ => Err(Said::odd("neither yes nor no")),
    };
    let booleans = values.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    // A filter that takes no more keys ends its list early.
    if booleans.len() == count { Ok(booleans) } else { Err(Said::odd(&format!("{} items to {count}", booleans.len()))) }
}

/// Labels and numbers: a flat list in version 2 of the protocol, a map in version 3. What is no number is left out.
pub fn facts(value: &Value) -> Result<Vec<(String, u64)>, Said> {
    let pairs: Vec<(&Value, &Value)> = match value {
        Value::Array(values) => values.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
        Value::Map(pairs) => pairs.iter().map(|(label, value)| (label, value)).collect(),
        Value::ServerError(error) => return Err(Said::new(error)),
        _ => return Err(Said::odd("neither a list nor a map")),
    };
    let fact = |(label, value): (&Value, &Value)| {
        let label = match label {
            Value::SimpleString(text) => text.clone(),
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => return None,
        };
        match value {
            Value::Int(number) => Some((label, u64::try_from(*number).ok()?)),
            _ => None,
        }
    };
    Ok(pairs.into_iter().filter_map(fact).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_the_protocol_are_read() {
        let two = Value::Array(vec![Value::Int(1), Value::Int(0)]);
        let three = Value::Array(vec![Value::Boolean(true), Value::Boolean(false)]);
        assert_eq!(booleans(&two, 2), Ok(vec![true, false]));
        assert_eq!(booleans(&three, 2), Ok(vec![true, false]));
        let label = |text: &str| Value::SimpleString(text.to_owned());
        let flat = Value::Array(vec![label("Capacity"), Value::Int(7), label("Expansion rate"), Value::Nil]);
        let map = Value::Map(vec![(label("Capacity"), Value::Int(7)), (label("Expansion rate"), Value::Nil)]);
        assert_eq!(facts(&flat), Ok(vec![("Capacity".to_owned(), 7)]));
        assert_eq!(facts(&map), facts(&flat));
    }

    #[test]
    fn what_is_not_as_many_answers_as_questions_is_no_answer() {
        for odd in [
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Int(1), Value::Int(-1)]),
            Value::Array(vec![Value::Int(1), Value::Nil]),
            Value::Array(vec![Value::Int(1); 3]),
            Value::Int(1),
            Value::Nil,
            Value::Okay,
        ] {
            let said = booleans(&odd, 2).unwrap_err();
            assert!(!said.is_missing, "{odd:?} is no sign that the filter is gone");
        }
    }
}
