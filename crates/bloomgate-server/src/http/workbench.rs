//! The workbench: any command and its reply as JSON, the commands there are, and what was slow.

use std::time::Instant;

use axum::http::StatusCode;
use bloomgate_command::{Flag, Group, Spec, every_command, find};
use bloomgate_http::base64;
use bloomgate_http::problem::Problem;
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::visit::Visit;
use super::{Answer, answers};

/// Words of one command.
const MOST_WORDS: usize = 100_000;

/// A word for a shell that reads RESP commands: in quotes where it must be.
pub(super) fn quoted(word: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/@+=,*".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    let mut text = String::from("\"");
    for &byte in word {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

/// Whether a command changes the conversation, or the server under it: a request is one conversation.
fn is_of_conversations(spec: &Spec) -> bool {
    matches!(spec.group, Group::Connection | Group::Transactions) && !matches!(spec.name, "ping" | "echo")
        || matches!(spec.name, "shutdown" | "client")
        || spec.has(Flag::NoAuth) && spec.name != "ping"
}

/// `POST /v1/command`.
pub(super) async fn command(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let (texts, coded) = (body.texts("argv")?, body.texts("argv_base64")?);
    body.end()?;
    let words: Vec<Vec<u8>> = match (texts, coded) {
        (Some(texts), None) => texts.into_iter().map(String::into_bytes).collect(),
        (None, Some(coded)) => coded
            .iter()
            .map(|text| {
                base64::decode(text).ok_or_else(|| Problem::bad_request("a word of 'argv_base64' is no base64"))
            })
            .collect::<Result<_, _>>()?,
        _ => {
            return Err(Problem::bad_request(
                "the body has 'argv', or 'argv_base64', a list of words: {\"argv\":[\"PING\"]}",
            ));
        }
    };
    if words.is_empty() || words.len() > MOST_WORDS {
        return Err(Problem::bad_request(format!("a command has 1 to {MOST_WORDS} words, not {}", words.len())));
    }
    if let Some(spec) = find(&words[0])
        && is_of_conversations(spec)
    {
        let name = spec.name.to_ascii_uppercase();
        return Err(reply::refused(format!(
            "{name} is about a conversation, and a request over HTTP is none: give it over the Redis protocol"
        )));
    }
    let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    let began = Instant::now();
    let (reply, error) = match visit.talk.hear(&words).await? {
        Reply::Error(line) => (Value::Null, Value::from(line)),
        reply => (reply.to_json(), Value::Null),
    };
    let took = began.elapsed().as_secs_f64();
    Ok(answers::json(StatusCode::OK, &json!({"reply": reply, "error": error, "took_seconds": took})))
}

/// `GET /v1/commands`.
pub(super) async fn commands(_: &mut Visit) -> Answer {
    let told: Vec<Value> = every_command()
        .map(|spec| {
            json!({
                "name": spec.name.to_ascii_uppercase(), "syntax": spec.syntax, "summary": spec.summary,
                "role": spec.role().map(|role| role.name()), "group": spec.group.name(),
            })
        })
        .collect();
    Ok(answers::json(StatusCode::OK, &json!({"commands": told})))
}

/// `GET /v1/slowlog`.
pub(super) async fn slow(visit: &mut Visit) -> Answer {
    let limit = visit.query.usual_whole("limit")?.to_string();
    let told = match visit.talk.say(&[b"SLOWLOG", b"GET", limit.as_bytes()]).await? {
        Reply::List(list) => list.iter().map(row).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    Ok(answers::json(StatusCode::OK, &json!({"slow": told})))
}

/// A row of SLOWLOG GET: number, second, microseconds, words, client, name.
fn row(row: &Reply<'_>) -> Value {
    let Reply::List(fields) = row else { return Value::Null };
    let at = |place: usize| fields.get(place).map_or(Value::Null, Reply::to_json);
    let micros = at(2).as_f64().unwrap_or(0.0);
    json!({
        "id": at(0), "at_ms": at(1).as_u64().unwrap_or(0) * 1_000, "took_seconds": micros / 1e6, "argv": at(3),
        "client": at(4), "name": at(5),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_they_must_be() {
        for (word, wanted) in [
            (&b"seen"[..], "seen"),
            (b"shop:seen", "shop:seen"),
            (b"", "\"\""),
            (b"a b", "\"a b\""),
            (b"\"\\\xff\n", r#""\"\\\xff\x0a""#),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }

    #[test]
    fn conversations_are_not_for_one_request() {
        let refused = |name: &str| is_of_conversations(find(name.as_bytes()).unwrap());
        for name in ["auth", "hello", "multi", "exec", "watch", "quit", "reset", "client", "shutdown", "select"] {
            assert!(refused(name), "{name}");
        }
        for name in ["ping", "bf.add", "bg.info", "config", "acl", "info", "keys", "del"] {
            assert!(!refused(name), "{name}");
        }
    }
}
