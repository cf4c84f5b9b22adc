//! The OpenAPI 3.1 description, made of the table of routes and of the schemas here; committed as docs/openapi.json.

use serde_json::{Map, Value, json};

use super::headers::{self, Form, Header, IDEMPOTENCY_KEY};
use super::routes::{Asks, ROUTES, Route, Shape, Takes, Who};
use super::schemas;

/// Problems that every route for users may have.
const USUAL: [u16; 8] = [400, 401, 403, 405, 408, 413, 415, 503];

/// The description, as text.
#[must_use]
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&description()).unwrap_or_default();
    text.push('\n');
    text
}

/// The description.
#[must_use]
pub fn description() -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Bloomgate",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Membership filters over HTTP/JSON",
            "description": "Is this key definitely absent, or maybe present? The same filters, users, quotas and limits as over \
                            the Redis protocol. docs/http.md has examples.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8479"}],
        "security": [{}, {"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "USER:PASSWORD of the server's users."},
                "bearer": {"type": "http", "scheme": "bearer", "description": "USER:PASSWORD, or the default user's password."},
            },
            "schemas": schemas::all(),
        },
    })
}

fn operation(route: &Route) -> Value {
    let parts = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut parameters: Vec<Value> = parts.map(|name| in_path(route.path, name)).collect();
    parameters.extend(route.query.iter().map(in_query));
    let is_write = route.method.as_str() != "GET";
    let (role, is_open) = match &route.who {
        Who::Anybody(_) => ("", true),
        Who::User(role) => (*role, false),
    };
    parameters.extend(route.reads.iter().chain(is_write.then_some(&IDEMPOTENCY_KEY)).map(in_header));
    let mut description = match role {
        "" if is_open => "Needs no login.".to_owned(),
        "" => "Needs a login where the server has users, and no role.".to_owned(),
        role => format!("Needs the role {role}."),
    };
    if route.takes == Shape::Nothing && is_write {
        description.push_str(" Takes no body.");
    }
    let mut operation = json!({
        "operationId": id(route),
        "summary": route.about,
        "description": description,
        "parameters": parameters,
        "responses": responses(route, is_open),
    });
    if is_open {
        operation["security"] = json!([]);
    }
    if let Some(content) = content(route.takes, true) {
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

/// A name that programs made from the description can use: `getFiltersNameKeysKey`.
fn id(route: &Route) -> String {
    let mut id = route.method.as_str().to_ascii_lowercase();
    for part in route.path.split(['/', '.', '{', '}']).filter(|part| !part.is_empty() && *part != "v1") {
        let mut letters = part.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.extend(letters);
    }
    id
}

/// What may stand in a path, for readers and for those who try what is described: of any text next to nothing is there.
/// `scripts/test-http` makes a filter for each of the names, of the kind that it is the name of.
fn examples(path: &str, name: &str) -> &'static [&'static str] {
    match (name, path.split('/').nth(2)) {
        ("name", Some("filters")) => &["blocked", "counting", "cuckoo", "quotient", "scalable"],
        ("name", Some("users")) => &["reader"],
        ("name", Some("namespaces")) => &["shop"],
        ("key", _) => &["alice", "bob"],
        _ => &[],
    }
}

fn in_path(path: &str, name: &str) -> Value {
    let about = match name {
        "name" => "The name, percent-encoded: any bytes, a slash as %2F.",
        "key" => "The key, percent-encoded: any bytes, a slash as %2F.",
        "address" => "The address of the file, as ETag of a snapshot has it.",
        _ => "Percent-encoded.",
    };
    let mut schema = match name {
        "address" => json!({"type": "string", "pattern": ADDRESS}),
        _ => json!({"type": "string", "minLength": 1}),
    };
    let examples = examples(path, name);
    if !examples.is_empty() {
        schema["examples"] = json!(examples);
    }
    json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema})
}

/// The address of a file.
const ADDRESS: &str = "^[0-9A-Fa-f]{64}$";
/// The largest whole number that every reader of JSON understands: 2^53 - 1.
const LARGEST: u64 = (1 << 53) - 1;

fn in_query(asks: &Asks) -> Value {
    let mut schema = match asks.takes {
        Takes::Text => json!({"type": "string"}),
        Takes::Address => json!({"type": "string", "pattern": ADDRESS}),
        Takes::Whole(least, most) if most > LARGEST => json!({"type": "integer", "minimum": least}),
        Takes::Whole(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Takes::Number => json!({"type": "number"}),
        Takes::Truth => json!({"type": "boolean"}),
        Takes::Words(words) => json!({"type": "string", "enum": words}),
    };
    if let Some(usual) = asks.usual {
        let number = usual.parse::<u64>().ok().filter(|_| matches!(asks.takes, Takes::Whole(..)));
        schema["default"] = number.map_or_else(|| usual.into(), Value::from);
    }
    json!({"name": asks.name, "in": "query", "required": asks.is_needed, "description": asks.about, "schema": schema})
}

fn form(form: Form) -> Value {
    match form {
        Form::Text => json!({"type": "string"}),
        Form::Like(pattern) => json!({"type": "string", "pattern": pattern}),
        Form::Only(text) => json!({"type": "string", "enum": [text]}),
        Form::Whole => json!({"type": "integer", "minimum": 0}),
    }
}

fn in_header(header: &Header) -> Value {
    json!({
        "name": header.name, "in": "header", "required": false, "description": header.about, "schema": form(header.form),
    })
}

/// The headers of the answers with a status.
fn in_answer(route: &Route, status: u16) -> Map<String, Value> {
    let own = route.sends.iter().filter(|sends| sends.on.contains(&status)).map(|sends| (sends.header, true));
    let all = headers::of_status(status, route.method.as_str() != "GET").into_iter().chain(own);
    let told = all.map(|(header, always)| {
        let schema = form(header.form);
        (header.name.to_owned(), json!({"description": header.about, "required": always, "schema": schema}))
    });
    told.collect()
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn content(shape: Shape, is_request: bool) -> Option<Value> {
    let bytes = json!({"schema": {"type": "string", "format": "binary"}});
    Some(match shape {
        Shape::Nothing => return None,
        Shape::Json(name) => json!({"application/json": {"schema": reference(name)}}),
        Shape::Keys(name) => json!({
            "application/json": {"schema": reference(name)},
            "text/plain": {"schema": {
                "type": "string",
                "description": if is_request { "A key a line." } else { "1 or 0 a line, in the order of the keys; - for one that was refused." },
            }},
            "application/octet-stream": {"schema": {
                "type": "string", "format": "binary",
                "description": if is_request {
                    "Each key behind its length in 4 bytes, little-endian."
                } else {
                    "A bit a key: bit i is in byte i/8, its value 2^(i%8)."
                },
            }},
        }),
        Shape::File(kind) if is_request => json!({kind: bytes, "application/octet-stream": bytes}),
        Shape::File(kind) => json!({kind: bytes}),
        Shape::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
    })
}

/// The headers that count what came of many keys, for whoever does not want to count the answers.
fn counts(schema: &str) -> Map<String, Value> {
    let of: &[(&str, &str)] = match schema {
        "Checked" => &[("Bloomgate-Maybe", "How many may be in.")],
        "Added" => &[
            ("Bloomgate-New", "How many were certainly new."),
            ("Bloomgate-Refused", "How many were refused: they are not in."),
        ],
        "Removed" => &[("Bloomgate-Removed", "How many were taken out.")],
        "Reported" => &[("Bloomgate-Taken", "How many were taken.")],
        _ => return Map::new(),
    };
    let all = [("Bloomgate-Keys", "How many keys the body had.")].iter().chain(of);
    let header =
        |about: &str| json!({"description": about, "required": true, "schema": {"type": "integer", "minimum": 0}});
    all.map(|(name, about)| ((*name).to_owned(), header(about))).collect()
}

fn put_headers(answer: &mut Value, headers: Map<String, Value>) {
    if !headers.is_empty() {
        answer["headers"] = headers.into();
    }
}

fn responses(route: &Route, is_open: bool) -> Value {
    let (status, shape) = route.gives;
    let mut responses = Map::new();
    let mut answer = json!({"description": "As asked."});
    if let Some(content) = content(shape, false) {
        answer["content"] = content;
    }
    let mut headers = in_answer(route, status);
    if let Shape::Keys(name) | Shape::Json(name) = shape {
        headers.extend(counts(name));
    }
    put_headers(&mut answer, headers);
    responses.insert(status.to_string(), answer);
    let usual = if is_open { &[405, 503][..] } else { &USUAL[..] };
    let mut others: Vec<u16> = usual.iter().chain(route.problems).copied().collect();
    let keys = matches!(route.takes, Shape::Keys(_));
    if keys {
        others.push(406);
    }
    if route.method.as_str() != "GET" {
        // Of the Idempotency-Key.
        others.extend([409, 422, 429]);
    }
    others.sort_unstable();
    others.dedup();
    for other in others.into_iter().filter(|other| *other != status) {
        let about = match other {
            200 => "As asked, and it was there before.",
            204 => "Done, and there is nothing to tell.",
            206 => "A part of it.",
            304 => "It is the one you have.",
            400 => "The request is not understood.",
            401 => "A login is needed, or it is wrong.",
            403 => "The user may not, or the request comes from a web page of another site.",
            404 => "There is no such thing.",
            405 => "The method is not allowed here.",
            406 => "The answer is not to be had in this form.",
            408 => "The body did not arrive in time.",
            409 => {
                "The name is taken, or a request with this Idempotency-Key is under way, or was done and its answer not kept."
            }
            412 => "It is not the one you think it is.",
            413 => "The body is too large.",
            415 => "A body of this type is not understood.",
            416 => "There is no such range.",
            422 => "Understood, and refused: the detail says why.",
            429 => "The answers to requests with an Idempotency-Key take too much; nothing was done.",
            507 => "There is no memory for it now, or no room on the disk.",
            _ => "Not now: the server loads, stops, is busy, or its disk fails.",
        };
        let mut answer = json!({"description": about});
        put_headers(&mut answer, in_answer(route, other));
        if other >= 400 {
            answer["content"] = json!({"application/problem+json": {"schema": reference("Problem")}});
        } else if matches!(other, 200 | 206)
            && let Some(content) = content(shape, false)
        {
            answer["content"] = content;
        }
        responses.insert(other.to_string(), answer);
    }
    responses.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_description_is_this_one() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
        let wanted = text();
        if std::env::var_os("BLOOMGATE_WRITE").is_some() {
            std::fs::write(&path, &wanted).unwrap();
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            there == wanted,
            "docs/openapi.json is not what the code says: BLOOMGATE_WRITE=1 and this test write it"
        );
    }

    /// The handlers of files read no header but by the table, each that they read is described where it is read, and what must be
    /// in a query says so.
    #[test]
    fn every_header_that_files_are_read_by_is_described() {
        use super::super::headers::{CONTENT_ADDRESS, IF_MATCH, IF_RANGE, RANGE, UNLESS_SAME, UNLESS_THERE};
        let known = [
            ("CONTENT_ADDRESS", CONTENT_ADDRESS),
            ("IF_MATCH", IF_MATCH),
            ("IF_RANGE", IF_RANGE),
            ("RANGE", RANGE),
            ("UNLESS_SAME", UNLESS_SAME),
            ("UNLESS_THERE", UNLESS_THERE),
        ];
        let whole = description();
        let parameters = |route: &Route| {
            let method = route.method.as_str().to_ascii_lowercase();
            whole["paths"][route.path][method]["parameters"].as_array().unwrap().clone()
        };
        let mut seen = 0;
        for (source, path) in [(include_str!("files.rs"), "/snapshot"), (include_str!("bringing.rs"), "/snapshot")] {
            let handlers = source.split("#[cfg(test)]").next().unwrap();
            // Of the head alone the length of a body is read, which is for every body alike.
            let rest = handlers.replace("announced(&visit.head.headers)", "");
            assert!(!rest.contains("head.headers"), "a header is read past the table");
            for start in ["visit.header(&", "tags(visit, &"] {
                for found in handlers.split(start).skip(1) {
                    let name = found.split(')').next().unwrap();
                    let (_, header) =
                        known.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("{name}"));
                    let mut routes = ROUTES.iter().filter(|route| route.path.contains(path)).peekable();
                    routes.peek().unwrap();
                    let described = routes.filter(|route| {
                        let is_named = |told: &Value| told["in"] == "header" && told["name"] == header.name;
                        let told = parameters(route).iter().any(is_named);
                        assert_eq!(told, route.reads.iter().any(|known| known.name == header.name), "{}", route.path);
                        told
                    });
                    assert!(described.count() > 0, "nobody is told of {}", header.name);
                    seen += 1;
                }
            }
        }
        assert!(seen >= 8, "{seen} places where headers are read");
        let since = &whole["paths"]["/v1/filters/{name}/delta"]["get"]["parameters"][1];
        assert_eq!((&since["name"], &since["required"]), (&json!("since"), &json!(true)));
        let schema = |path: &str, place: usize| whole["paths"][path]["get"]["parameters"][place]["schema"].clone();
        let cells = json!({"type": "integer", "minimum": 1, "maximum": 4_096, "default": 256});
        assert_eq!(schema("/v1/filters/{name}/heat", 1), cells);
        let limit = json!({"type": "integer", "minimum": 1, "maximum": 128, "default": 32});
        assert_eq!(schema("/v1/slowlog", 0), limit);
    }

    /// What something is unless somebody says another is what may be said.
    #[test]
    fn what_is_usual_is_allowed() {
        for asks in ROUTES.iter().flat_map(|route| route.query) {
            let Some(usual) = asks.usual else { continue };
            let is_allowed = match asks.takes {
                Takes::Whole(least, most) => usual.parse().is_ok_and(|usual: u64| (least..=most).contains(&usual)),
                Takes::Words(words) => words.contains(&usual),
                Takes::Text => true,
                _ => false,
            };
            assert!(is_allowed && !asks.is_needed, "{}: {usual}", asks.name);
        }
    }

    #[test]
    fn every_schema_that_is_named_is_there_and_ids_are_one_each() {
        let whole = text();
        let schemas = schemas::all();
        for name in whole.split("#/components/schemas/").skip(1) {
            let name = name.split('"').next().unwrap();
            assert!(schemas.get(name).is_some(), "{name}");
        }
        for name in schemas.as_object().unwrap().keys() {
            assert!(whole.contains(&format!("#/components/schemas/{name}\"")), "nobody uses {name}");
        }
        let mut ids: Vec<String> = ROUTES.iter().map(id).collect();
        ids.sort();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
