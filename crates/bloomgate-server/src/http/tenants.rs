//! Namespaces, users and settings, as the commands tell and change them.

use axum::http::StatusCode;
use bloomgate_command::Role;
use bloomgate_http::problem::Problem;
use serde_json::{Value, json};

use super::reply::{self, Reply};
use super::visit::Visit;
use super::{Answer, answers};
use crate::access::User;
use crate::settings::table::TABLE;

/// A limit of 0 is none.
fn limit(value: Option<&Reply<'_>>) -> Value {
    match value {
        Some(Reply::Int(0)) | None => Value::Null,
        Some(other) => other.to_json(),
    }
}

/// A namespace as BG.NAMESPACE INFO tells it.
async fn namespace(visit: &mut Visit, name: &[u8]) -> Result<Value, Problem> {
    let told = match visit.talk.hear(&[b"BG.NAMESPACE", b"INFO", name]).await? {
        Reply::Error(line) if line.contains("there is no namespace") => {
            return Err(Problem::not_found(line.trim_start_matches("ERR ").to_owned()));
        }
        Reply::Error(line) => return Err(reply::problem(line)),
        told => told,
    };
    let of = |field: &str| told.field(field).map_or(Value::Null, Reply::to_json);
    Ok(json!({
        "name": of("name"), "prefix": of("prefix"), "filters": of("filters"), "memory": of("used_memory"),
        "max_memory": limit(told.field("max_memory")), "max_filters": limit(told.field("max_filters")),
        "items_per_second": limit(told.field("items_per_second")), "users": of("users"),
        "waits": of("waits"), "waited_seconds": of("waited_usec").as_f64().unwrap_or(0.0) / 1e6,
        "lookups": of("lookups"), "maybe": of("positives"), "adds": of("adds"), "new": of("new"),
        "removed": of("removed"), "refused": of("refused"),
    }))
}

/// `GET /v1/namespaces`.
pub(super) async fn namespaces(visit: &mut Visit) -> Answer {
    // A user that is bound to one sees that one.
    let names: Vec<Vec<u8>> = match visit.talk.namespace().map(|name| name.as_bytes().to_vec()) {
        Some(name) => vec![name],
        None => match visit.talk.say(&[b"BG.NAMESPACE", b"LIST"]).await? {
            Reply::List(list) => list
                .iter()
                .filter_map(|name| match name {
                    Reply::Bytes(name) => Some(name.to_vec()),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        },
    };
    let mut told = Vec::with_capacity(names.len());
    for name in names {
        match namespace(visit, &name).await {
            Ok(one) => told.push(one),
            // It went away meanwhile.
            Err(problem) if problem.status() == StatusCode::NOT_FOUND => {}
            Err(problem) => return Err(problem),
        }
    }
    Ok(answers::json(StatusCode::OK, &json!({"namespaces": told})))
}

/// `GET /v1/namespaces/{name}`.
pub(super) async fn one_namespace(visit: &mut Visit) -> Answer {
    let name = visit.name();
    Ok(answers::json(StatusCode::OK, &namespace(visit, &name).await?))
}

/// `PUT /v1/namespaces/{name}`.
pub(super) async fn set_namespace(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let mut words: Vec<Vec<u8>> = vec![b"BG.NAMESPACE".to_vec(), b"SET".to_vec(), visit.name()];
    if let Some(prefix) = body.text("prefix")? {
        words.extend([b"PREFIX".to_vec(), prefix.into_bytes()]);
    }
    // Null is no limit, which the command says with 0; what is left out stays.
    for (field, option) in
        [("max_memory", "MAXMEMORY"), ("max_filters", "MAXFILTERS"), ("items_per_second", "ITEMSPERSECOND")]
    {
        let is_there = body.has(field);
        let value = match body.take(field) {
            None if is_there => Some("0".to_owned()),
            None => None,
            Some(Value::String(size)) if field == "max_memory" => Some(size),
            Some(Value::Number(number)) if number.as_u64().is_some() => Some(number.to_string()),
            Some(_) => {
                return Err(Problem::bad_request(format!(
                    "'{field}' is no whole number of 0 or more (null or 0 for no limit)"
                )));
            }
        };
        if let Some(value) = value {
            words.extend([option.as_bytes().to_vec(), value.into_bytes()]);
        }
    }
    body.end()?;
    let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    visit.talk.say(&words).await?;
    let name = visit.name();
    Ok(answers::json(StatusCode::OK, &namespace(visit, &name).await?))
}

/// `DELETE /v1/namespaces/{name}`.
pub(super) async fn delete_namespace(visit: &mut Visit) -> Answer {
    let name = visit.name();
    match visit.talk.hear(&[b"BG.NAMESPACE", b"DEL", &name]).await? {
        Reply::Error(line) if line.contains("there is no namespace") => {
            Err(Problem::not_found(line.trim_start_matches("ERR ").to_owned()))
        }
        Reply::Error(line) => Err(reply::problem(line)),
        _ => Ok(answers::nothing()),
    }
}

fn told(user: &User) -> Value {
    let roles: Vec<&str> =
        Role::ALL.iter().filter(|role| user.roles.contains(**role)).map(|role| role.name()).collect();
    json!({
        "name": user.name, "enabled": user.enabled, "roles": roles, "namespace": user.namespace,
        "passwords": user.passwords.len(), "no_password": user.no_password,
    })
}

/// `GET /v1/users`.
pub(super) async fn users(visit: &mut Visit) -> Answer {
    // Asked of the command, so that who may ask is as over RESP.
    visit.talk.say(&[b"ACL", b"USERS"]).await?;
    let users: Vec<Value> = visit.house.desk.access.book().users.values().map(|user| told(user)).collect();
    Ok(answers::json(StatusCode::OK, &json!({"users": users})))
}

/// A user by the name in the path.
fn named(visit: &Visit) -> Result<Value, Problem> {
    let missing = || Problem::not_found("there is no user of this name: GET /v1/users lists those there are");
    let name = String::from_utf8(visit.name()).map_err(|_| missing())?;
    visit.house.desk.access.user(&name).map(|user| told(&user)).ok_or_else(missing)
}

/// `GET /v1/users/{name}`.
pub(super) async fn user(visit: &mut Visit) -> Answer {
    visit.talk.say(&[b"ACL", b"USERS"]).await?;
    Ok(answers::json(StatusCode::OK, &named(visit)?))
}

/// `PUT /v1/users/{name}`.
pub(super) async fn set_user(visit: &mut Visit) -> Answer {
    let mut body = visit.json().await?;
    let mut words: Vec<Vec<u8>> = vec![b"ACL".to_vec(), b"SETUSER".to_vec(), visit.name()];
    if body.truth("reset_passwords")?.unwrap_or(false) {
        words.push(b"resetpass".to_vec());
    }
    if let Some(password) = body.text("password")? {
        words.push([b">", password.as_bytes()].concat());
    }
    if let Some(enabled) = body.truth("enabled")? {
        words.push(if enabled { b"on".to_vec() } else { b"off".to_vec() });
    }
    if let Some(roles) = body.texts("roles")? {
        for role in &roles {
            if Role::find(role.as_bytes()).is_none() {
                return Err(Problem::bad_request("a role is one of read, write, delete, admin"));
            }
        }
        // Exactly these.
        words.push(b"-@all".to_vec());
        words.extend(roles.iter().map(|role| format!("+@{}", role.to_ascii_lowercase()).into_bytes()));
    }
    let is_there = body.has("namespace");
    if let Some(namespace) = body.text("namespace")? {
        words.push(format!("namespace={namespace}").into_bytes());
    } else if is_there {
        words.push(b"namespace=*".to_vec());
    }
    body.end()?;
    let words: Vec<&[u8]> = words.iter().map(|word| &word[..]).collect();
    visit.talk.say(&words).await?;
    Ok(answers::json(StatusCode::OK, &named(visit)?))
}

/// `DELETE /v1/users/{name}`.
pub(super) async fn delete_user(visit: &mut Visit) -> Answer {
    let name = visit.name();
    match visit.talk.say(&[b"ACL", b"DELUSER", &name]).await? {
        Reply::Int(0) => Err(Problem::not_found("there is no user of this name: GET /v1/users lists those there are")),
        _ => Ok(answers::nothing()),
    }
}

/// `GET /v1/config`.
pub(super) async fn config(visit: &mut Visit) -> Answer {
    let told = visit.talk.say(&[b"CONFIG", b"GET", b"*"]).await?;
    let Reply::Map(pairs) = &told else { return Err(Problem::internal("the settings were not told")) };
    let rows = pairs.iter().map(|(name, value)| {
        let (name, value) = (name.to_json(), value.to_json());
        let known = TABLE.iter().find(|setting| name == setting.name);
        json!({
            "name": name, "value": value, "changeable": known.is_some_and(|setting| setting.live),
            "about": known.map(|setting| setting.about),
        })
    });
    Ok(answers::json(StatusCode::OK, &json!({"settings": rows.collect::<Vec<_>>()})))
}
