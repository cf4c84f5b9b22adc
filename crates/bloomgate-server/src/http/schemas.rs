//! What goes in and comes out as JSON, for the OpenAPI description.

use bloomgate::Kind;
use serde_json::{Map, Value, json};

/// A field: its name and its schema.
type Field = (&'static str, Value);

fn text() -> Value {
    json!({"type": "string"})
}

fn whole() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn number() -> Value {
    json!({"type": "number"})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

/// The same, or null.
fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").and_then(Value::as_str).map(str::to_owned) {
        schema["type"] = json!([kind, "null"]);
    }
    schema
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn about(mut schema: Value, text: &str) -> Value {
    schema["description"] = text.into();
    schema
}

/// An answer: its fields are always there.
fn answer(fields: Vec<Field>) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let fields: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({"type": "object", "required": names, "properties": fields})
}

/// A request: these fields and no other, of which some must be there.
fn request(needed: &[&str], fields: Vec<Field>) -> Value {
    let fields: Map<String, Value> = fields.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({"type": "object", "required": needed, "properties": fields, "additionalProperties": false})
}

fn kinds(can: impl Fn(Kind) -> bool) -> Value {
    let names: Vec<&str> = Kind::ALL.iter().filter(|&&kind| can(kind)).map(|kind| kind.name()).collect();
    json!({"type": "string", "enum": names})
}

fn brief() -> Vec<Field> {
    vec![
        ("name", about(text(), "As it is shown; what is no UTF-8 is replaced.")),
        ("path", about(text(), "Its exact path.")),
        ("namespace", or_null(text())),
        ("kind", kinds(|_| true)),
        ("maker", about(text(), "Whose commands made it: BF, CF or BG.")),
        ("guarantee", or_null(text())),
        ("available", about(truth(), "Whether it can answer.")),
        ("items", whole()),
        ("capacity", whole()),
        ("used", about(or_null(number()), "items / capacity")),
        ("bytes", whole()),
        ("memory", about(whole(), "Bytes with what is kept beside the bits.")),
        (
            "bits_per_item",
            about(
                or_null(number()),
                "What an item costs it: one that it has room for, and once it is half full one that is in it.",
            ),
        ),
        ("fill", about(or_null(number()), "The share of bits or slots in use.")),
        ("rate", of("Rates")),
        ("verdict", json!({"type": "string", "enum": ["ok", "suspicious", "poisoned", "unknown"]})),
        ("score", about(or_null(number()), "How far its bits are from those of random keys, in standard deviations.")),
        ("created_ms", whole()),
        ("age_seconds", number()),
        ("expires_ms", or_null(whole())),
        ("version", about(whole(), "The number of its last change in the log.")),
        ("lookups", whole()),
        ("definitely_not", about(whole(), "Lookups that were answered with no: what it spared.")),
        ("maybe", whole()),
        ("adds", whole()),
        ("new", whole()),
        ("seen", whole()),
        ("removed", whole()),
        ("refused", whole()),
        ("growth_per_second", or_null(number())),
        (
            "on_full",
            about(
                json!({"type": ["string", "null"], "enum": ["refuse", "goon", "grow", null]}),
                "What it does when it holds what it was made for: it refuses keys, goes on at a higher rate, or opens another \
                 layer. null of one that cannot answer.",
            ),
        ),
        (
            "capacity_in_seconds",
            about(
                or_null(number()),
                "When it holds what it was made for, if it goes on as in the last minutes. null of one that does not grow, \
                 forgets, or keeps a window.",
            ),
        ),
        ("full_in_seconds", about(or_null(number()), "The same of one that refuses keys then; null of all others.")),
    ]
}

fn filters() -> Vec<(&'static str, Value)> {
    let mut filter = answer(brief());
    filter["description"] =
        "A filter that can answer has all of these; one that cannot has unavailable_because.".into();
    for (name, schema) in [
        ("contract", or_null(text())),
        ("contract_name", or_null(text())),
        ("secret_epoch", or_null(whole())),
        ("secret_id", or_null(text())),
        ("secret_age_seconds", or_null(whole())),
        ("ordered", or_null(truth())),
        ("rekeying", or_null(truth())),
        ("window_seconds", or_null(number())),
        ("generations", or_null(whole())),
        ("stages", list(of("Stage"))),
        (
            "generation_list",
            list(answer(vec![("items", whole()), ("fill", or_null(number())), ("age_seconds", number())])),
        ),
        (
            "recreate",
            about(
                json!({"type": "object", "additionalProperties": or_null(text())}),
                "The lines that make an empty filter like it: resp, http, cli, rust, each or null; cli_why and rust_why say why \
                 there is none, secret what is to be done where keys are hashed under a secret.",
            ),
        ),
        ("estimate", answer(vec![("items", or_null(whole())), ("low", or_null(whole())), ("high", or_null(whole()))])),
        ("watch", json!({"type": "object"})),
        ("feedback", json!({"type": ["object", "null"]})),
        ("unavailable_because", or_null(text())),
    ] {
        filter["properties"][name] = schema;
    }
    let mut written = json!({"anyOf": [of("Filter"), of("Named")]});
    written["description"] = "Everything about the filter; to whoever has not the role read, which it is.".into();
    vec![
        ("Filter", filter),
        ("Named", answer(vec![("name", text()), ("path", text())])),
        ("Written", written),
        (
            "FilterList",
            answer(vec![
                ("total", whole()),
                ("offset", whole()),
                ("limit", whole()),
                (
                    "truncated",
                    about(
                        truth(),
                        "More than 100,000 filters match, and only the first made of them are in the list; or the pattern took too long.",
                    ),
                ),
                ("filters", list(answer(brief()))),
            ]),
        ),
        (
            "Stage",
            answer(vec![
                ("kind", text()),
                ("items", whole()),
                ("capacity", whole()),
                ("bytes", whole()),
                ("fill", or_null(number())),
                ("rate", or_null(number())),
                ("lines", about(or_null(whole()), "Of 512 bits or counters; null, as the next two, of kinds without.")),
                ("lines_per_key", about(or_null(whole()), "How many of them a key uses.")),
                ("paired", about(or_null(truth()), "Whether it chooses words in pairs, as counting filters do.")),
            ]),
        ),
        (
            "Heat",
            answer(vec![
                (
                    "cells",
                    about(
                        list(or_null(number())),
                        "The share of set bits of each stretch, of a cuckoo or quotient filter of slots in use; none for kinds without such bits.",
                    ),
                ),
                ("bits_per_cell", about(whole(), "Bits, or slots, of a stretch.")),
                ("expected", or_null(number())),
                ("histogram", list(answer(vec![("fill", or_null(number())), ("share", number())]))),
                ("sampled", truth()),
            ]),
        ),
        (
            "Explanation",
            key(vec![
                ("filter", text()),
                ("verdict", json!({"type": "string", "enum": ["maybe", "no"]})),
                ("contract", text()),
                ("count", or_null(whole())),
                ("digest", or_null(text())),
                (
                    "stages",
                    list(answer(vec![
                        ("stage", whole()),
                        ("kind", text()),
                        ("verdict", text()),
                        ("block", or_null(whole())),
                        ("bits", json!({"type": ["array", "null"], "items": whole()})),
                        ("set", json!({"type": ["array", "null"], "items": truth()})),
                        (
                            "counters",
                            about(
                                json!({"type": ["array", "null"], "items": answer(vec![("counter", whole()), ("holds", whole())])}),
                                "Of a counting filter; the cells of a stable one.",
                            ),
                        ),
                        (
                            "fingerprint",
                            about(
                                or_null(text()),
                                "What is kept of the key, in hexadecimal: the fingerprint of a cuckoo filter, the \
                                 remainder of a quotient filter.",
                            ),
                        ),
                        (
                            "buckets",
                            about(
                                json!({
                                    "type": ["array", "null"],
                                    "items": answer(vec![("bucket", whole()), ("slots", list(or_null(text())))]),
                                }),
                                "Where that may lie: the two buckets of a cuckoo filter, with null for a free slot; the \
                                 home slot of a quotient filter, without any.",
                            ),
                        ),
                    ])),
                ),
                ("note", or_null(text())),
            ]),
        ),
        (
            "Rates",
            answer(vec![
                ("asked", or_null(number())),
                ("expected", about(or_null(number()), "Of the items in it, by theory.")),
                ("estimated", about(or_null(number()), "Of its bits, counted; null in lists.")),
                ("measured", about(or_null(number()), "With random keys; with its 95 % interval.")),
                ("measured_low", or_null(number())),
                ("measured_high", or_null(number())),
            ]),
        ),
        (
            "NewFilter",
            request(
                &["name"],
                vec![
                    ("name", json!({"type": "string", "minLength": 1, "maxLength": 1024})),
                    ("kind", kinds(|kind| kind.takes_inserts() && !kind.is_foreign())),
                    ("like", about(text(), "A filter whose kind, shape and contract it takes.")),
                    ("capacity", json!({"type": "integer", "minimum": 1})),
                    ("rate", json!({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})),
                    ("bytes", json!({"type": "integer", "minimum": 1})),
                    ("growth", number()),
                    ("on_full", json!({"type": "string", "enum": ["refuse", "grow", "goon"]})),
                    ("window_seconds", number()),
                    ("generations", json!({"type": "integer", "minimum": 1})),
                    ("fingerprint", json!({"type": "integer", "minimum": 1})),
                    ("counters", json!({"type": "integer", "enum": [4, 8, 16]})),
                    ("hash", json!({"type": "string", "enum": ["siphash13", "siphash24", "blake2b", "xxh3"]})),
                    ("seed", whole()),
                    ("contract", text()),
                ],
            ),
        ),
        (
            "FilterChange",
            request(
                &[],
                vec![
                    ("name", json!({"type": "string", "minLength": 1, "maxLength": 1024})),
                    ("replace", about(truth(), "Whether a filter that has the new name goes.")),
                    (
                        "expires_ms",
                        about(or_null(whole()), "When it ends, in milliseconds since 1970; null for never."),
                    ),
                ],
            ),
        ),
    ]
}

/// A key in an answer: a text, or base64 under another name where it is none.
fn key(fields: Vec<Field>) -> Value {
    let mut schema = answer(fields);
    schema["properties"]["key"] = text();
    schema["properties"]["key_base64"] = about(text(), "In place of key, where that is no UTF-8.");
    schema
}

fn keys() -> Vec<(&'static str, Value)> {
    let counted = |mut fields: Vec<Field>, answers: Value| {
        fields.splice(0..0, [("filter", text()), ("keys", whole())]);
        fields.push(("answers", answers));
        answer(fields)
    };
    vec![
        (
            "Keys",
            request(
                &["keys"],
                vec![
                    ("keys", json!({"type": "array", "items": {"type": "string"}, "maxItems": 100_000})),
                    ("encoding", json!({"type": "string", "enum": ["text", "base64"]})),
                ],
            ),
        ),
        ("KeyAnswer", key(vec![("answer", json!({"type": "string", "enum": ["maybe", "no"]})), ("maybe", truth())])),
        ("KeyAdded", key(vec![("new", about(truth(), "Whether it was certainly new."))])),
        ("KeyRemoved", key(vec![("removed", truth())])),
        ("KeyCount", key(vec![("count", whole())])),
        ("Checked", counted(vec![("maybe", whole()), ("no", whole())], about(list(truth()), "true is maybe."))),
        (
            "Added",
            counted(
                vec![("new", whole()), ("seen", whole()), ("refused", whole()), ("error", or_null(text()))],
                about(list(or_null(truth())), "true is certainly new, null is refused."),
            ),
        ),
        ("Removed", counted(vec![("removed", whole())], list(truth()))),
        ("Reported", answer(vec![("filter", text()), ("keys", whole()), ("taken", whole())])),
    ]
}

fn sets() -> Vec<(&'static str, Value)> {
    let name = || json!({"type": "string", "minLength": 1, "maxLength": 1024});
    vec![
        ("Merge", request(&["sources"], vec![("sources", json!({"type": "array", "items": name(), "minItems": 1}))])),
        ("Intersect", request(&["left", "right"], vec![("left", name()), ("right", name())])),
        ("Copy", request(&["to"], vec![("to", name()), ("replace", truth())])),
        ("Swap", request(&["with"], vec![("with", name())])),
        ("Fold", request(&[], vec![("factor", json!({"type": "integer", "minimum": 2})), ("rate", number())])),
        (
            "Counters",
            answer(["lookups", "positives", "adds", "new", "removed", "refused"].map(|name| (name, whole())).to_vec()),
        ),
    ]
}

fn server() -> Vec<(&'static str, Value)> {
    let alert = answer(vec![
        ("name", text()),
        ("severity", json!({"type": "string", "enum": ["warning", "critical"]})),
        ("summary", text()),
        ("filter", or_null(text())),
        ("path", or_null(text())),
        (
            "total",
            about(
                or_null(whole()),
                "Alerts of this name that there are, of which 100 are told at most; null for users of a namespace.",
            ),
        ),
        ("runbook", text()),
    ]);
    let advice = answer(vec![
        ("severity", json!({"type": "string", "enum": ["critical", "warning", "info"]})),
        ("about", or_null(text())),
        ("path", or_null(text())),
        ("sentence", text()),
        ("reason", text()),
        ("command", about(text(), "The first command of the steps.")),
        (
            "steps",
            about(
                list(answer(vec![("about", or_null(text())), ("command", or_null(text()))])),
                "All that is to be done, in this order. What only you can do has no command: filling a filter from your data.",
            ),
        ),
    ]);
    let numbers = |names: &[&'static str]| answer(names.iter().map(|name| (*name, or_null(number()))).collect());
    vec![
        (
            "About",
            answer(vec![
                ("process", json!({"type": "string", "enum": ["server", "gate"]})),
                ("version", text()),
                ("api", or_null(text())),
                ("stats", text()),
                ("login_needed", truth()),
            ]),
        ),
        (
            "Overview",
            answer(vec![
                ("version", text()),
                ("api_version", whole()),
                ("simd", text()),
                ("uptime_seconds", number()),
                ("now_ms", whole()),
                ("health", answer(vec![("ready", truth()), ("state", text()), ("why", or_null(text()))])),
                ("user", of("User")),
                ("filters", or_null(whole())),
                ("max_filters", or_null(whole())),
                ("unavailable_filters", or_null(whole())),
                ("lookups", whole()),
                ("definitely_not", about(whole(), "Lookups that were spared.")),
                ("maybe", whole()),
                ("adds", whole()),
                ("new", whole()),
                ("commands", or_null(whole())),
                ("per_second", numbers(&["lookups", "definitely_not", "adds", "commands"])),
                ("latency", numbers(&["p50_seconds", "p99_seconds"])),
                ("memory", numbers(&["used", "budget", "resident"])),
                ("clients", numbers(&["resp", "http"])),
                ("persistence", json!({"type": ["object", "null"]})),
                ("watch", json!({"type": ["object", "null"]})),
                ("kinds", json!({"type": "object", "additionalProperties": whole()})),
                ("addresses", json!({"type": ["object", "null"]})),
                (
                    "history",
                    about(
                        json!({"type": ["object", "null"]}),
                        "Rates of the last five minutes: at_ms, lookups and definitely_not are lists of one value a second.",
                    ),
                ),
                ("alerts", list(alert.clone())),
            ]),
        ),
        ("Alerts", answer(vec![("alerts", list(alert))])),
        (
            "Advices",
            answer(vec![
                ("total", about(whole(), "Pieces of advice that there are, of which the 100 most urgent are told.")),
                ("advice", list(advice)),
            ]),
        ),
        (
            "Plan",
            answer(vec![
                ("choice", text()),
                ("kind", or_null(text())),
                ("verdict", text()),
                ("reasons", list(text())),
                ("when_not", list(text())),
                ("or_else", or_null(text())),
                ("plan", json!({"type": ["object", "null"]})),
                ("savings", json!({"type": ["object", "null"]})),
                ("table", list(json!({"type": "object"}))),
                ("curve", list(answer(vec![("bytes", whole()), ("rate", or_null(number()))]))),
                ("lines", json!({"type": ["object", "null"]})),
            ]),
        ),
        ("Command", request(&[], vec![("argv", list(text())), ("argv_base64", list(text()))])),
        ("CommandReply", answer(vec![("reply", json!({})), ("error", or_null(text())), ("took_seconds", number())])),
        (
            "Commands",
            answer(vec![(
                "commands",
                list(answer(vec![
                    ("name", text()),
                    ("syntax", text()),
                    ("summary", text()),
                    ("role", or_null(text())),
                    ("group", text()),
                ])),
            )]),
        ),
        (
            "Slow",
            answer(vec![(
                "slow",
                list(answer(vec![
                    ("id", whole()),
                    ("at_ms", whole()),
                    ("took_seconds", number()),
                    ("argv", list(json!({}))),
                    ("client", json!({})),
                    ("name", json!({})),
                ])),
            )]),
        ),
    ]
}

fn tenants() -> Vec<(&'static str, Value)> {
    let roles = || json!({"type": "array", "items": {"type": "string", "enum": ["read", "write", "delete", "admin"]}});
    let counted = ["filters", "memory", "waits", "lookups", "maybe", "adds", "new", "removed", "refused"];
    let mut namespace = vec![
        ("name", text()),
        ("prefix", or_null(text())),
        ("max_memory", or_null(whole())),
        ("max_filters", or_null(whole())),
        ("items_per_second", or_null(whole())),
        ("users", or_null(whole())),
        ("waited_seconds", number()),
    ];
    namespace.extend(counted.map(|name| (name, or_null(whole()))));
    let mut user = answer(vec![("name", text()), ("namespace", or_null(text())), ("roles", roles())]);
    for (name, schema) in [("enabled", truth()), ("passwords", whole()), ("no_password", truth())] {
        user["properties"][name] = schema;
    }
    vec![
        ("Namespace", answer(namespace)),
        ("Namespaces", answer(vec![("namespaces", list(of("Namespace")))])),
        (
            "NamespaceChange",
            request(
                &[],
                vec![
                    ("prefix", json!({"type": "string", "minLength": 1})),
                    ("max_memory", json!({"type": ["integer", "string", "null"], "minimum": 0})),
                    ("max_filters", or_null(whole())),
                    ("items_per_second", or_null(whole())),
                ],
            ),
        ),
        ("User", user),
        ("Users", answer(vec![("users", list(of("User")))])),
        (
            "UserChange",
            request(
                &[],
                vec![
                    ("enabled", truth()),
                    ("roles", about(roles(), "Exactly these.")),
                    ("namespace", about(or_null(text()), "The one it is bound to; null for none.")),
                    ("password", about(json!({"type": "string", "minLength": 1}), "One more.")),
                    ("reset_passwords", about(truth(), "Whether those from before go.")),
                ],
            ),
        ),
        (
            "Settings",
            answer(vec![(
                "settings",
                list(answer(vec![
                    ("name", text()),
                    ("value", text()),
                    ("changeable", truth()),
                    ("about", or_null(text())),
                ])),
            )]),
        ),
    ]
}

/// Every schema by its name.
pub(super) fn all() -> Value {
    let problem = answer(vec![
        ("type", about(text(), "urn:bloomgate:problem: and a name that never changes.")),
        ("title", text()),
        ("status", json!({"type": "integer"})),
        ("detail", about(text(), "What was got, what is allowed, what to do.")),
    ]);
    let all = filters().into_iter().chain(keys()).chain(sets()).chain(server()).chain(tenants());
    let all = all.chain([("Problem", problem)]);
    all.map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>().into()
}
