//! Replies of the conversation as they are on the wire (RESP3), read without copying, and what they are in JSON and HTTP.

use std::time::Duration;

use axum::http::StatusCode;
use bloomgate_http::base64;
use bloomgate_http::problem::Problem;
use serde_json::{Map, Value, json};

/// How deep replies are; ours are four deep at most.
const DEEPEST: usize = 16;
/// When to come again for what cannot be answered now.
const AGAIN: Duration = Duration::from_secs(1);

/// One reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Reply<'a> {
    /// Text or bytes.
    Bytes(&'a [u8]),
    /// An error's line.
    Error(&'a str),
    Int(i64),
    Double(f64),
    Bool(bool),
    Nil,
    List(Vec<Reply<'a>>),
    Map(Vec<(Reply<'a>, Reply<'a>)>),
}

impl<'a> Reply<'a> {
    /// The first reply in some bytes, and the bytes behind it. Nothing where there is none: a fault of ours.
    pub(super) fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        Self::read_at(bytes, DEEPEST)
    }

    fn read_at(bytes: &'a [u8], depth: usize) -> Option<(Self, &'a [u8])> {
        let (&kind, rest) = bytes.split_first()?;
        let end = memchr::memchr(b'\r', rest)?;
        let (line, rest) = (&rest[..end], rest.get(end + 2..)?);
        let text = || std::str::from_utf8(line).ok();
        let number = || text()?.parse::<i64>().ok();
        let depth = depth.checked_sub(1)?;
        Some(match kind {
            b'+' => (Self::Bytes(line), rest),
            b'-' => (Self::Error(text()?), rest),
            b':' => (Self::Int(number()?), rest),
            b',' => (Self::Double(double(text()?)?), rest),
            b'#' => (Self::Bool(line == b"t"), rest),
            b'_' => (Self::Nil, rest),
            b'$' | b'=' => {
                let length = usize::try_from(number()?).ok()?;
                let (bulk, rest) = (rest.get(..length)?, rest.get(length + 2..)?);
                (Self::Bytes(if kind == b'=' { bulk.get(4..)? } else { bulk }), rest)
            }
            b'*' | b'~' => {
                let (mut list, mut rest) = (Vec::new(), rest);
                for _ in 0..number()? {
                    let (reply, after) = Self::read_at(rest, depth)?;
                    list.push(reply);
                    rest = after;
                }
                (Self::List(list), rest)
            }
            b'%' => {
                let (mut map, mut rest) = (Vec::new(), rest);
                for _ in 0..number()? {
                    let (key, after) = Self::read_at(rest, depth)?;
                    let (value, after) = Self::read_at(after, depth)?;
                    map.push((key, value));
                    rest = after;
                }
                (Self::Map(map), rest)
            }
            _ => return None,
        })
    }

    /// Whether it says yes, alone or as the answer to the one key that was asked for. What is neither yes nor no is a problem:
    /// a "no" that nobody said would be wrong.
    pub(super) fn truth(&self) -> Result<bool, Problem> {
        match self {
            Self::Bool(truth) => Ok(*truth),
            Self::List(list) if list.len() == 1 => list[0].truth(),
            Self::Error(line) => Err(problem(line)),
            _ => Err(Problem::internal("the reply to a command is neither yes nor no: this is a fault of the server")),
        }
    }

    /// The value of a field of a map.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Map(pairs) => pairs
                .iter()
                .find(|(key, _)| matches!(key, Self::Bytes(bytes) if *bytes == name.as_bytes()))
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// As JSON: bytes that are no text in base64.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.into(),
                Err(_) => json!({"base64": base64::encode(bytes)}),
            },
            Self::Error(line) => json!({"error": line}),
            Self::Int(number) => (*number).into(),
            Self::Double(number) => (*number).into(),
            Self::Bool(truth) => (*truth).into(),
            Self::Nil => Value::Null,
            Self::List(list) => list.iter().map(Self::to_json).collect(),
            Self::Map(pairs) => {
                pairs.iter().map(|(key, value)| (key.word(), value.to_json())).collect::<Map<_, _>>().into()
            }
        }
    }

    /// As the name of a field.
    fn word(&self) -> String {
        match self {
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => other.to_json().to_string(),
        }
    }
}

/// A floating-point number as RESP writes it; JSON has no infinity, so that is nothing there.
fn double(text: &str) -> Option<f64> {
    match text {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        _ => text.parse().ok(),
    }
}

/// An error of RESP as a problem of HTTP.
pub(super) fn problem(line: &str) -> Problem {
    let (code, rest) = line.split_once(' ').unwrap_or(("", line));
    let has_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase());
    let detail = if has_code && code == "ERR" { rest } else { line };
    match code {
        "NOAUTH" | "WRONGPASS" => Problem::unauthorized(detail),
        "NOPERM" | "DENIED" => Problem::forbidden(rest),
        "LOADING" => {
            let title = "The filters are still being read";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "loading", title, rest).retry_after(AGAIN)
        }
        "MISCONF" => {
            let title = "The store cannot be written now";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "read-only", title, rest).retry_after(AGAIN)
        }
        "OOM" => out_of_memory(rest),
        "WRONGTYPE" => refused("the filter is of another kind than this is for"),
        _ => match detail {
            "not found" | "no such key" | "Not found" => {
                Problem::not_found("there is no filter of this name: GET /v1/filters lists those there are")
            }
            _ if detail.starts_with("not found:") => Problem::not_found(detail),
            "item exists" => exists("there is a filter of this name already: choose another, or delete it first"),
            _ if detail.contains("memory") && detail.contains("more than")
                || detail.starts_with("Insufficient memory") =>
            {
                out_of_memory(detail)
            }
            _ => refused(detail),
        },
    }
}

/// 409: the name is taken.
pub(super) fn exists(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::CONFLICT, "exists", "The name is taken", detail)
}

/// 422: understood, and not done.
pub(super) fn refused(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", "The command was refused", detail)
}

fn out_of_memory(detail: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "out-of-memory", "There is no memory for this", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloomgate_command::{Protocol, Reply as Told};

    #[test]
    fn every_form_of_reply_is_read() {
        let told = Told::Map(vec![
            (Told::text("ok"), Told::Ok),
            (Told::text("int"), Told::Int(-7)),
            (Told::text("double"), Told::Double(0.015)),
            (Told::text("small"), Told::Double(1e-9)),
            (Told::text("yes"), Told::Bool(true)),
            (Told::text("nothing"), Told::Nil),
            (Told::text("bytes"), Told::Bulk(vec![0xff, b'\r', b'\n'])),
            (
                Told::text("list"),
                Told::Array(vec![Told::Int(1), Told::Verbatim("two\r\nlines".into()), Told::Array(vec![])]),
            ),
            (Told::text("set"), Told::Set(vec![Told::simple("a")])),
            (Told::text("error"), Told::Error(bloomgate_command::Refusal::NOT_FOUND)),
        ]);
        let bytes = told.to_bytes(Protocol::Resp3);
        let (reply, rest) = Reply::read(&bytes).unwrap();
        assert!(rest.is_empty());
        assert_eq!(reply.field("int"), Some(&Reply::Int(-7)));
        let json = json!({
            "ok": "OK", "int": -7, "double": 0.015, "small": 1e-9, "yes": true, "nothing": null,
            "bytes": {"base64": "/w0K"}, "list": [1, "two\r\nlines", []], "set": ["a"],
            "error": {"error": "ERR not found"},
        });
        assert_eq!(reply.to_json(), json);
        for end in 0..bytes.len() {
            assert_eq!(Reply::read(&bytes[..end]), None, "{end}");
        }
    }

    /// A "no" that nobody said would be wrong.
    #[test]
    fn what_is_neither_yes_nor_no_is_never_taken_for_a_no() {
        let truth = |reply: &Reply<'_>| reply.truth().map_err(|problem| problem.status().as_u16());
        for said in [true, false] {
            assert_eq!(truth(&Reply::Bool(said)), Ok(said));
            assert_eq!(truth(&Reply::List(vec![Reply::Bool(said)])), Ok(said));
        }
        let two = Reply::List(vec![Reply::Bool(false), Reply::Bool(true)]);
        for other in [Reply::Nil, Reply::Int(0), Reply::Int(1), Reply::Bytes(b"f"), Reply::List(vec![]), two] {
            assert_eq!(truth(&other), Err(500), "{other:?}");
            assert_eq!(truth(&Reply::List(vec![other])), Err(500));
        }
        assert_eq!(truth(&Reply::List(vec![Reply::Error("LOADING still reading")])), Err(503));
        assert_eq!(truth(&Reply::Error("ERR not found")), Err(404));
    }

    #[test]
    fn refusals_have_their_status() {
        for (line, status) in [
            ("ERR not found", 404),
            ("ERR no such key", 404),
            ("ERR not found: there is no filter 'none'", 404),
            ("ERR item exists", 409),
            ("NOAUTH Authentication required.", 401),
            ("NOPERM User a has no permissions to run the 'del' command: x", 403),
            ("LOADING Bloomgate is loading", 503),
            ("MISCONF the log cannot be written", 503),
            ("OOM command not allowed when used memory > 'maxmemory'.", 422),
            ("WRONGTYPE Operation", 422),
            ("Bad capacity", 422),
        ] {
            assert_eq!(problem(line).status().as_u16(), status, "{line}");
        }
        assert_eq!(problem("ERR bad rate").detail(), "bad rate");
    }
}
