//! Every example of docs/commands.md, in the order of the page, against a fresh server.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use bloomgate_server::Settings;
use bloomgate_server::access::Directory;
use bloomgate_server::keeping::SharedKeeping;
use bloomgate_server::keeping::opening::open;
use bloomgate_server::session::desk::Desk;
use bloomgate_server::store::Fsync;

use crate::harness::{Server, Value};

/// They end the conversation or the server; the tests of the command have them.
const LAST_WORDS: [&str; 2] = ["QUIT", "SHUTDOWN NOSAVE"];

/// The commands of the page with the replies it shows.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (false, "```text") => inside = true,
            (true, "```") => inside = false,
            (true, _) => match line.strip_prefix("> ") {
                Some(command) => found.push((command.to_owned(), Vec::new())),
                None => found.last_mut().expect("a block begins with a command").1.push(line),
            },
            _ => {}
        }
    }
    found.into_iter().map(|(command, reply)| (command, reply.join("\n"))).collect()
}

/// Any bytes as text that can be turned back: each byte is the character of its number.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    text.chars().map(|letter| u8::try_from(u32::from(letter)).expect("from text()")).collect()
}

/// A reply as the page writes it.
fn shown(value: &Value, indent: &str) -> String {
    let deeper = format!("{indent}   ");
    let rows = |rows: Vec<String>| match rows.is_empty() {
        true => "(empty array)".to_owned(),
        false => rows.join(&format!("\n{indent}")),
    };
    match value {
        Value::Simple(text) => text.clone(),
        Value::Error(text) => format!("(error) {text}"),
        Value::Int(number) => number.to_string(),
        Value::Bool(yes) => format!("({yes})"),
        Value::Double(number) => number.to_string(),
        // Chunks are taken back as they were.
        Value::Bulk(bulk) if std::str::from_utf8(bulk).is_err() => text(bulk),
        Value::Bulk(bulk) => text(bulk).replace("\r\n", "\n").trim_end_matches('\n').to_owned(),
        Value::Nil => "(nil)".to_owned(),
        Value::Array(values) => rows(
            values.iter().enumerate().map(|(at, value)| format!("{}) {}", at + 1, shown(value, &deeper))).collect(),
        ),
        Value::Map(pairs) => rows(
            pairs
                .iter()
                .enumerate()
                .map(|(at, (key, value))| format!("{}# {} => {}", at + 1, shown(key, ""), shown(value, &deeper)))
                .collect(),
        ),
    }
}

/// Whether a reply is what the page shows; what stands in angle brackets goes into `named`.
fn fits(page: &str, reply: &str, named: &mut HashMap<String, String>) -> bool {
    let wild = [page.find("..."), page.find("(bytes)"), page.find('<')].into_iter().flatten().min();
    let Some(at) = wild else { return page == reply };
    let (before, rest) = page.split_at(at);
    let Some(reply) = reply.strip_prefix(before) else { return false };
    let (name, rest) = match rest.strip_prefix('<') {
        Some(rest) => rest.split_once('>').map(|(name, rest)| (Some(name), rest)).expect("a closed bracket"),
        None => (None, rest.strip_prefix("...").or(rest.strip_prefix("(bytes)")).expect("found above")),
    };
    let ends = reply.char_indices().map(|(end, _)| end).chain([reply.len()]);
    for end in ends.filter(|&end| name.is_none() || end > 0) {
        // Cheap before the next step: most ends are not before what follows.
        if rest.is_empty() && end < reply.len() {
            continue;
        }
        if fits(rest, &reply[end..], named) {
            name.map(|name| named.insert(name.to_owned(), reply[..end].to_owned()));
            return true;
        }
    }
    false
}

#[test]
fn what_the_page_shows_is_what_happens() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let page = std::fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let import = folder.path().join("import");
    std::fs::create_dir(&import).unwrap();
    std::fs::write(import.join("blocklist.txt"), "spam.example\nscam.example\n").unwrap();
    let settings = Settings {
        data: Some(folder.path().join("data")),
        import_dir: Some(import),
        fsync: Fsync::Never,
        threads: 2,
        ..Settings::default()
    };
    // The same secret in every run: estimates depend on where the bits fall.
    let data = settings.data.as_ref().unwrap();
    std::fs::create_dir_all(data).unwrap();
    bloomgate::Secret::from_hex(&"5a".repeat(32)).unwrap().write_file(data.join("master.key")).unwrap();
    let opened = open(&settings, 4).unwrap();
    let access = Directory::open(&settings).unwrap();
    let mut desk = Desk::new(4, Some(access), "run".into(), settings.rows(settings.resp, None, None));
    desk.told = settings.clone();
    desk.keeper.set(Arc::new(SharedKeeping(opened.keeping.unwrap()))).unwrap();
    let server = Server { engine: opened.engine, desk };
    let mut client = server.client(0);
    let mut named: HashMap<String, String> = HashMap::new();
    let mut wrong = Vec::new();
    let examples = examples(&page);
    // 105 commands, and more with their subcommands.
    assert!(examples.len() > 130, "only {} examples were found", examples.len());
    for (command, reply) in &examples {
        if LAST_WORDS.contains(&command.as_str()) {
            continue;
        }
        let words: Vec<Vec<u8>> = command
            .split(' ')
            .map(|word| match word.strip_prefix('<').and_then(|word| word.strip_suffix('>')) {
                Some(name) => bytes(named.get(name).unwrap_or_else(|| panic!("{command}: no reply had a <{name}>"))),
                None => word.as_bytes().to_vec(),
            })
            .collect();
        let got = shown(&client.words(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()), "");
        if !fits(reply, &got, &mut named) {
            let got: String = got.chars().take(400).collect();
            wrong.push(format!("> {command}\nthe page shows\n{reply}\nit answers\n{got}\n"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_example_would_be_noticed() {
    let mut named = HashMap::new();
    for (page, reply, expected) in [
        ("OK", "OK", true),
        ("OK", "OKAY", false),
        ("1) 1\n2) ...", "1) 1\n2) 2\n3) 3", true),
        ("1) 1\n2) ...", "1) 2\n2) 2", false),
        ("a ... b", "a  b", true),
        ("a ... b", "a x", false),
        ("id=<id> addr=...", "id=17 addr=x", true),
        ("<id>", "", false),
    ] {
        assert_eq!(fits(page, reply, &mut named), expected, "{page:?} {reply:?}");
    }
    assert_eq!(named["id"], "17");
    assert_eq!(
        examples("```text\n> A b\n1\n> C\n```\n> D\n"),
        [("A b".into(), "1".into()), ("C".into(), String::new())]
    );
}
