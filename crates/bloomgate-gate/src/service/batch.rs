//! Many keys in one request: a JSON array of texts and numbers in, an answer for each out, in their order.
//!
//! Numbers are taken as they are written, digit by digit: through a floating-point number a long key would become another
//! one, and that one's "no" would be wrong.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use axum::http::StatusCode;
use bloomgate_http::problem::Problem;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::callers::ClientId;
use crate::error::Error;
use crate::gate::{Gate, MOST_KEYS};
use crate::key::Key;
use crate::outcome::Answer;

use super::deny::Decision;
use super::{Desk, answers};

/// Rows of one answer together, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// The whole answer: the rows, and 10,000 keys of 400 bytes around them.
const MOST_OUT: usize = MOST_BYTES + (4 << 20);
/// Keys that are asked for before it is known how long rows are.
const FIRST: usize = 500;

/// Who answers for keys: a gate, or that of one tenant.
pub(super) trait Answering: Sync {
    fn parse_key(&self, text: &str) -> crate::Result<Key>;

    /// Looks keys up for a client, if somebody counts what it asks for.
    fn get_each(
        &self,
        keys: &[Key],
        client: Option<ClientId>,
    ) -> impl Future<Output = crate::Result<Vec<crate::Result<Answer>>>> + Send;
}

impl Answering for Gate {
    fn parse_key(&self, text: &str) -> crate::Result<Key> {
        Self::parse_key(self, text)
    }

    async fn get_each(&self, keys: &[Key], client: Option<ClientId>) -> crate::Result<Vec<crate::Result<Answer>>> {
        self.get_each_by(keys, client).await
    }
}

/// The keys of a request as they were written: the JSON of each.
#[derive(Debug)]
pub(super) struct Asked<'a>(Vec<&'a RawValue>);

impl<'a> serde::Deserialize<'a> for Asked<'a> {
    fn deserialize<D: Deserializer<'a>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'a> Visitor<'a> for Keys {
            type Value = Asked<'a>;

            fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
                to.write_str("an array of keys")
            }

            fn visit_seq<S: SeqAccess<'a>>(self, mut from: S) -> Result<Asked<'a>, S::Error> {
                let mut keys = Vec::new();
                while let Some(key) = from.next_element()? {
                    // Before it is stored: a body of four megabytes has room for two million.
                    if keys.len() == MOST_KEYS {
                        return Err(serde::de::Error::custom(format_args!("more than {MOST_KEYS} keys, ask in parts")));
                    }
                    keys.push(key);
                }
                Ok(Asked(keys))
            }
        }
        from.deserialize_seq(Keys)
    }
}

impl<'a> Asked<'a> {
    /// Reads the body of a request.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, Problem> {
        serde_json::from_slice(body).map_err(|error| {
            Problem::bad_request(format!("the body is a JSON array of at most {MOST_KEYS} keys: {error}"))
        })
    }

    /// Looks all of them up and writes the answers.
    pub(super) async fn answer(
        &self,
        desk: &Desk,
        gate: &impl Answering,
        client: Option<ClientId>,
    ) -> Result<(Vec<u8>, Option<Answer>), Problem> {
        let parsed: Vec<Result<Key, String>> = self.0.iter().map(|key| parse(gate, key)).collect();
        let (keys, places) = once_each(&parsed);
        let mut answers = Vec::with_capacity(keys.len());
        let (mut left, mut bytes, mut longest) = (&keys[..], 0, 0);
        while !left.is_empty() {
            // As many as fit if their rows are as long as the longest so far: what is read and not given is little.
            let some = ((MOST_BYTES - bytes) / longest.max(1)).clamp(1, if longest == 0 { FIRST } else { MOST_KEYS });
            let (now, later) = left.split_at(some.min(left.len()));
            left = later;
            for answer in gate.get_each(now, client).await.map_err(|error| answers::problem(&error))? {
                let row = answer.as_ref().ok().and_then(|answer| answer.row.as_ref()).map_or(0, |row| row.len());
                (bytes, longest) = (bytes + row, longest.max(row));
                answers.push(answer);
            }
            if bytes > MOST_BYTES {
                return Err(too_large());
            }
        }
        // Where nothing could be said of any key, the whole request was refused.
        let is_said =
            |answer: &Result<Answer, Error>| answer.as_ref().map_or_else(|error| desk.lets_pass(error), |_| true);
        if let (Some(Err(error)), false) = (answers.first(), answers.iter().any(is_said)) {
            return Err(answers::problem(error));
        }
        let deny = desk.is_deny_list();
        let first = answers.iter().flatten().next().cloned();
        let mut out = Vec::with_capacity(bytes + 80 * self.0.len() + 16);
        out.extend_from_slice(br#"{"answers":["#);
        let mut places = places.into_iter();
        for (at, (asked, parsed)) in self.0.iter().zip(&parsed).enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(br#"{"key":"#);
            out.extend_from_slice(asked.get().as_bytes());
            let answer = parsed.as_ref().ok().and_then(|_| places.next()).and_then(|place| answers.get(place));
            match (parsed, answer) {
                (Err(why), _) => unanswered(&mut out, deny, "bad-key", why),
                // A key that is asked for many times has its row that often.
                (Ok(_), Some(Ok(answer))) if out.len() + answer.row.as_ref().map_or(0, |row| row.len()) > MOST_OUT => {
                    return Err(too_large());
                }
                (Ok(_), Some(Ok(answer))) if !deny => one(&mut out, answer),
                (Ok(_), Some(answer)) => match desk.decide(answer.as_ref()) {
                    Some(decision) => decided(&mut out, decision, answer.as_ref()),
                    None => {
                        let why = answer.as_ref().err().map(Error::to_string).unwrap_or_default();
                        unanswered(&mut out, deny, "refused", &why);
                    }
                },
                (Ok(_), None) => return Err(Problem::internal("an answer is missing: this is a fault of the gate")),
            }
            out.push(b'}');
        }
        out.extend_from_slice(b"]}");
        Ok((out, first))
    }
}

/// Why nothing is known of one key.
fn unanswered(out: &mut Vec<u8>, deny: bool, outcome: &str, why: &str) {
    let (why, what) = (serde_json::Value::from(why), if deny { "denied" } else { "found" });
    out.extend_from_slice(format!(r#","{what}":null,"outcome":"{outcome}","error":{why}"#).as_bytes());
}

/// What a deny list says of one key.
fn decided(out: &mut Vec<u8>, decision: Decision, answer: Result<&Answer, &Error>) {
    let (denied, outcome) = (decision == Decision::Denied, decision.name());
    out.extend_from_slice(format!(r#","denied":{denied},"outcome":"{outcome}""#).as_bytes());
    match answer {
        Ok(answer) => row(out, answer),
        Err(error) => {
            let why = serde_json::Value::from(error.to_string());
            out.extend_from_slice(format!(r#","error":{why}"#).as_bytes());
        }
    }
}

/// Each key once, and for each that was asked for its place among them.
fn once_each(parsed: &[Result<Key, String>]) -> (Vec<Key>, Vec<usize>) {
    let mut known: HashMap<&Key, usize> = HashMap::with_capacity(parsed.len());
    let mut keys = Vec::with_capacity(parsed.len());
    let places = parsed.iter().flatten().map(|key| {
        *known.entry(key).or_insert_with(|| {
            keys.push(key.clone());
            keys.len() - 1
        })
    });
    let places = places.collect();
    (keys, places)
}

fn too_large() -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "too-large",
        "The answer is too large",
        format!("the rows have more than {MOST_BYTES} bytes together: ask for fewer keys at once"),
    )
}

/// What became of one key, behind the key itself.
fn one(out: &mut Vec<u8>, answer: &Answer) {
    let (found, outcome) = (answer.row.is_some(), answer.outcome.name());
    out.extend_from_slice(format!(r#","found":{found},"outcome":"{outcome}""#).as_bytes());
    row(out, answer);
}

/// The row, if there is one.
fn row(out: &mut Vec<u8>, answer: &Answer) {
    let Some(row) = &answer.row else { return };
    // One row that is no JSON (a source of one's own may have such) must not spoil the answers of the others.
    match serde_json::from_slice::<&RawValue>(row) {
        Ok(row) => {
            out.extend_from_slice(br#","row":"#);
            out.extend_from_slice(row.get().as_bytes());
        }
        Err(_) => out.extend_from_slice(br#","row":null,"error":"the row is no JSON: ask for it alone""#),
    }
}

fn parse(gate: &impl Answering, asked: &RawValue) -> Result<Key, String> {
    let json = asked.get();
    let text: Cow<'_, str> = match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(json).map_err(|error| error.to_string())?.into(),
        Some(b'-' | b'0'..=b'9') => json.into(),
        _ => return Err("a key is a text or a number".to_owned()),
    };
    gate.parse_key(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_arrays_and_not_too_long_ones() {
        let count =
            |body: &str| Asked::parse(body.as_bytes()).map(|asked| asked.0.len()).map_err(|p| p.status().as_u16());
        assert_eq!(count("[]"), Ok(0));
        assert_eq!(count(r#" ["a", 1, 12345678901234567890123, -1.50] "#), Ok(4));
        for wrong in ["", "{}", "\"a\"", "[1,]", "[1] 2", "[nope]"] {
            assert_eq!(count(wrong), Err(400), "{wrong}");
        }
        let many = |keys: usize| format!("[{}]", vec!["1"; keys].join(","));
        assert_eq!(count(&many(MOST_KEYS)), Ok(MOST_KEYS));
        assert_eq!(count(&many(MOST_KEYS + 1)), Err(400));
    }
}
