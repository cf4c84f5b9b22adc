//! Each entry of the table against itself: arity, names, examples, options and syntax.

use std::collections::HashSet;

use bloomgate_command::{
    Flag, Request, Right, Spec, TABLE, Takes, find, help, markdown_commands, markdown_differences, parse,
};

use crate::{parsed, words};

/// Every entry, subcommands included.
pub fn every() -> impl Iterator<Item = &'static Spec> {
    TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands))
}

#[test]
fn every_name_is_found_in_any_case_and_near_misses_are_not() {
    let names: HashSet<&str> = TABLE.iter().map(|spec| spec.name).collect();
    assert_eq!(names.len(), TABLE.len(), "names are unique");
    for spec in TABLE {
        let mixed: String =
            spec.name.chars().enumerate().map(|(at, c)| if at % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
        for name in [spec.name, &spec.name.to_ascii_uppercase(), &mixed] {
            assert_eq!(find(name.as_bytes()).map(|found| found.name), Some(spec.name), "{name}");
        }
        let mut misses: Vec<Vec<u8>> = vec![
            [spec.name.as_bytes(), b"x"].concat(),
            [spec.name.as_bytes(), b" "].concat(),
            [spec.name.as_bytes(), b"\0"].concat(),
            [b"x", spec.name.as_bytes()].concat(),
            spec.name.as_bytes()[..spec.name.len() - 1].to_vec(),
        ];
        for at in 0..spec.name.len() {
            // Bit 5 is the case of letters; elsewhere it makes another byte. The others make another name.
            for bit in 0..8 {
                let mut name = spec.name.as_bytes().to_vec();
                name[at] ^= 1 << bit;
                misses.push(name);
            }
        }
        for miss in misses {
            let expected = std::str::from_utf8(&miss).ok().map(str::to_ascii_lowercase);
            let expected = expected.filter(|name| names.contains(name.as_str()));
            assert_eq!(find(&miss).map(|found| found.name.to_string()), expected, "{miss:?}");
        }
    }
    for name in ["", " ", "get", "set", "bf.", "bf", "no-such-command-at-all-anywhere", "client|id"] {
        assert!(find(name.as_bytes()).is_none(), "{name}");
    }
}

#[test]
fn too_few_and_too_many_words_are_refused_with_the_name() {
    let expected = |spec: &Spec| format!("ERR wrong number of arguments for '{}' command", spec.name);
    for spec in every() {
        let head = words(&spec.name.replace('|', " "));
        let (least, most) = (spec.arity.least as usize, spec.arity.most as usize);
        assert!(least >= head.len() && least <= most, "{}", spec.name);
        let with = |count: usize| -> Vec<Vec<u8>> {
            head.iter().cloned().chain(std::iter::repeat_n(b"1".to_vec(), count - head.len())).collect()
        };
        let refusal = |count: usize| {
            let words = with(count);
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            parse(&words).err().map(|refusal| refusal.as_str().to_string())
        };
        for count in head.len()..least {
            assert_eq!(refusal(count), Some(expected(spec)), "{} with {count}", spec.name);
        }
        if most < 100 && spec.subcommands.is_empty() {
            assert_eq!(refusal(most + 1), Some(expected(spec)), "{} with {}", spec.name, most + 1);
        }
        let signed = spec.arity.signed();
        assert_eq!(signed.unsigned_abs() as usize, least);
        assert_eq!(signed > 0, least == most, "{}", spec.name);
    }
    // As RedisBloom 8.8 and Redis 7 declare them.
    for (name, arity) in [
        ("bf.reserve", -4),
        ("bf.add", 3),
        ("bf.madd", -3),
        ("bf.insert", -4),
        ("bf.exists", 3),
        ("bf.mexists", -3),
        ("bf.card", 2),
        ("bf.info", -2),
        ("bf.scandump", 3),
        ("bf.loadchunk", 4),
        ("cf.add", 3),
        ("cf.del", 3),
        ("ping", -1),
        ("echo", 2),
        ("select", 2),
        ("del", -2),
        ("exists", -2),
        ("scan", -2),
        ("expire", -3),
        ("copy", -3),
        ("hello", -1),
        ("auth", -2),
        ("client", -2),
        ("config", -2),
        ("command", -1),
        ("watch", -2),
        ("multi", 1),
        ("rename", 3),
    ] {
        assert_eq!(find(name.as_bytes()).unwrap().arity.signed(), arity, "{name}");
    }
}

#[test]
fn every_example_is_a_command_that_parses() {
    for spec in every() {
        // What is in angle brackets comes from an earlier reply.
        let line = spec.example.0.replace("<iterator>", "1").replace("<address>", &"0".repeat(64));
        parsed(&line, |result| match (result, spec.example.1.strip_prefix("(error) ")) {
            (Ok((found, request)), _) => {
                // A container's example is one of its subcommands.
                assert!(found == spec || spec.subcommands.contains(found), "{} is {}", spec.example.0, found.name);
                assert!(spec.has(Flag::Write) || !matches!(request, Request::BfAdd { .. }));
            }
            (Err(refusal), Some(error)) => assert_eq!(refusal.as_str(), error),
            (Err(refusal), None) => panic!("{}: {refusal}", spec.example.0),
        });
        assert!(!spec.summary.is_empty() && spec.summary.ends_with('.'), "{} has a sentence", spec.name);
    }
}

#[test]
fn syntax_and_options_agree() {
    for spec in every() {
        let mentioned: HashSet<&str> = spec
            .syntax
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.len() > 1 && word.chars().any(|c| c.is_ascii_uppercase()))
            .collect();
        for option in spec.options {
            assert!(mentioned.contains(option.name), "{}: {} is not in its syntax", spec.name, option.name);
        }
        assert!(spec.options.len() <= 32, "the options seen are bits of a u32");
        if spec.options.is_empty() {
            continue;
        }
        // Every option is read: alone at its place it is never an unknown word.
        for option in spec.options {
            let mut line: Vec<Vec<u8>> = words(&spec.name.replace('|', " "));
            while line.len() < spec.options_from {
                line.push(if line.len() == 2 { b"0.5".to_vec() } else { b"100".to_vec() });
            }
            line.push(option.name.to_ascii_lowercase().into_bytes());
            let needed = match option.takes {
                Takes::Nothing => 0,
                Takes::Value | Takes::Name | Takes::Rest => 1,
                Takes::Two => 2,
            };
            line.extend(std::iter::repeat_n(b"8".to_vec(), needed));
            let borrowed: Vec<&[u8]> = line.iter().map(Vec::as_slice).collect();
            if let Err(refusal) = parse(&borrowed) {
                assert!(!refusal.as_str().contains("unknown option"), "{} {}: {refusal}", spec.name, option.name);
                assert!(!refusal.as_str().contains("Unknown argument"), "{} {}: {refusal}", spec.name, option.name);
            }
        }
    }
}

#[test]
fn names_stand_where_the_table_says() {
    let names = |line: &str| -> Vec<String> {
        let words = words(line);
        let borrowed: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let (spec, _) = parse(&borrowed).unwrap();
        spec.names_in(&borrowed).map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    };
    assert_eq!(names("BF.ADD seen alice"), ["seen"]);
    assert_eq!(names("BG.MERGE week monday tuesday"), ["week", "monday", "tuesday"]);
    assert_eq!(names("BG.INTERSECT c a b"), ["c", "a", "b"]);
    assert_eq!(names("DEL a b c"), ["a", "b", "c"]);
    assert_eq!(names("RENAME a b"), ["a", "b"]);
    assert_eq!(names("COPY a b REPLACE"), ["a", "b"]);
    assert_eq!(names("MEMORY USAGE seen SAMPLES 5"), ["seen"]);
    assert_eq!(names("OBJECT ENCODING seen"), ["seen"]);
    assert_eq!(names("BG.CREATE a KIND blocked RATE 0.1"), ["a"]);
    assert_eq!(names("BG.CREATE a RATE 0.1 like b"), ["a", "b"]);
    assert_eq!(names("BG.REMOVE a ITEMS LIKE b"), ["a"]);
    assert_eq!(names("PING"), [""; 0]);
    assert_eq!(names("KEYS *"), [""; 0]);
    assert_eq!(names("BG.BACKUP monday"), [""; 0]);
}

#[test]
fn rights_follow_what_a_command_does() {
    let rights = |name: &str| find(name.as_bytes()).unwrap().rights;
    for spec in every() {
        assert_eq!(spec.has(Flag::Write), spec.rights.contains(Right::Write), "{}", spec.name);
        assert!(!spec.has(Flag::Readonly) || spec.rights.contains(Right::Read), "{}", spec.name);
        assert!(!(spec.has(Flag::Write) && spec.has(Flag::Readonly)), "{}", spec.name);
        assert_ne!(spec.rights.contains(Right::Fast), spec.rights.contains(Right::Slow), "{}", spec.name);
        assert!(!spec.heavy || !spec.has(Flag::Fast), "{} is heavy and fast", spec.name);
    }
    let deleting: Vec<&str> =
        every().filter(|spec| spec.rights.contains(Right::Delete)).map(|spec| spec.name).collect();
    assert_eq!(deleting, ["cf.del", "bg.remove", "bg.feedback"]);
    assert!(rights("bf.add").contains(Right::Bloom) && rights("bf.add").contains(Right::Write));
    assert!(rights("cf.exists").contains(Right::Cuckoo) && rights("cf.exists").contains(Right::Read));
    assert!(rights("cf.compact").contains(Right::Write), "it writes");
    assert!(rights("bg.backup").contains(Right::Admin));
    assert!(rights("flushall").contains(Right::Dangerous));
}

#[test]
fn documents_have_every_command_and_every_difference() {
    let (commands, differences) = (markdown_commands(), markdown_differences());
    for spec in every() {
        if spec.subcommands.is_empty() {
            // In a table a bar is escaped.
            let usage = format!("`{}`", spec.usage());
            let there = commands.contains(&usage) || commands.contains(&usage.replace('|', "\\|"));
            assert!(there, "{}", spec.name);
        }
        if let Some(differs) = spec.differs {
            assert!(differences.contains(&differs.replace('|', "\\|")), "{}", spec.name);
        }
        let text = help(Some(spec.name)).unwrap();
        assert!(text.contains(spec.summary) && text.starts_with(&spec.usage()));
    }
    assert!(help(Some("client id")).unwrap().starts_with("CLIENT ID"));
    assert!(help(Some("bg")).unwrap().contains("BG.SWAP"));
    assert!(!help(Some("bg")).unwrap().contains("BF.ADD"));
    assert!(help(None).unwrap().contains("BF.ADD"));
    assert!(help(Some("nothing")).is_none());
}

#[test]
fn every_command_has_a_number_of_its_own() {
    for (number, spec) in bloomgate_command::every_command().enumerate() {
        assert_eq!(bloomgate_command::number_of(spec), number, "{}", spec.name);
    }
    assert!(bloomgate_command::every_command().count() > TABLE.len());
}
