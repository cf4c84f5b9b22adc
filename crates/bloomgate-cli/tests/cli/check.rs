//! `check`: what is printed, what the exit code says, and what cannot be answered.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::scene::{Scene, json_object, lines};

fn small() -> Scene {
    let scene = Scene::new();
    scene.write("keys.txt", "apple\npear\nplum\n");
    scene.run("build -q -o f.bloom --rate 1e-9 keys.txt").code(0);
    scene
}

#[test]
fn it_prints_maybes_absents_both_or_counts() {
    let scene = small();
    let asked = "pear\nlemon\napple\nlime\nfig\n";
    for (options, printed) in [
        ("", "pear\napple\n"),
        ("-v", "lemon\nlime\nfig\n"),
        ("--absent", "lemon\nlime\nfig\n"),
        ("--label", "maybe\tpear\nabsent\tlemon\nmaybe\tapple\nabsent\tlime\nabsent\tfig\n"),
        ("-c", "2\n"),
        ("-c -v", "3\n"),
        ("--count --label", "maybe\t2\nabsent\t3\n"),
        ("-c --json", "{\"maybe\":2,\"absent\":3,\"refused\":0}\n"),
        ("-q", ""),
    ] {
        let ran = scene.run_with(&format!("check f.bloom {options}"), asked).code(0);
        assert_eq!((ran.out().as_str(), ran.err().as_str()), (printed, ""), "{options}");
    }
    scene.write("ask.txt", asked);
    assert_eq!(scene.run("check f.bloom pear lemon apple").code(0).out(), "pear\napple\n");
    assert_eq!(scene.run("check f.bloom -f ask.txt -f keys.txt").code(0).out(), "pear\napple\napple\npear\nplum\n");
    assert_eq!(scene.run_with("check f.bloom -f -", asked).code(0).out(), "pear\napple\n");
    assert_eq!(scene.run_with("check f.bloom", "plum").code(0).out(), "plum\n", "no line end is needed");
}

#[test]
fn exit_codes_are_those_of_grep() {
    let scene = small();
    for (options, input, code) in [
        ("", "pear\n", 0),
        ("", "lemon\n", 1),
        ("", "", 1),
        ("-v", "pear\nlemon\n", 0),
        ("-v", "lemon\n", 1),
        ("-q", "lemon\npear\n", 0),
        ("-q", "lemon\n", 1),
        ("-c", "lemon\n", 1),
        ("-f missing.txt", "", 2),
    ] {
        scene.run_with(&format!("check f.bloom {options}"), input).code(code);
    }
    scene.run("check f.bloom lemon").code(1);
}

#[test]
fn json_tells_each_answer_with_its_line() {
    let scene = small();
    let ran = scene.run_with("check --json --label f.bloom", &b"pear\n\nle\"mon\n\xff\xfe\n"[..]).code(0);
    let told: Vec<_> = ran.out().lines().map(json_object).collect();
    let field = |at: usize, name: &str| {
        told[at].iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()).unwrap_or_default()
    };
    assert_eq!(told.len(), 3);
    assert_eq!(
        (field(0, "answer"), field(0, "key"), field(0, "line")),
        ("\"maybe\"".into(), "\"pear\"".into(), "1".into())
    );
    assert_eq!(
        (field(1, "answer"), field(1, "key"), field(1, "line")),
        ("\"absent\"".into(), "\"le\\\"mon\"".into(), "3".into())
    );
    assert_eq!(
        (field(2, "key"), field(2, "key_hex"), field(2, "line")),
        (String::new(), "\"fffe\"".into(), "4".into())
    );
}

#[test]
fn keys_that_the_filter_cannot_hold_are_errors_and_never_absent() {
    let scene = Scene::new();
    scene.write("ids.txt", lines("", 1_000));
    scene.run("build -q -o f.bloom --keys u64 --rate 1e-6 ids.txt").code(0);
    let ran = scene.run_with("check --label f.bloom", "7\nseven\n0008\n\n-1\n5000\n").code(2);
    assert_eq!(ran.out(), "maybe\t7\nmaybe\t0008\nabsent\t5000\n");
    assert!(ran.err().contains("standard input:2:") && ran.err().contains("seven"), "{}", ran.err());
    assert!(ran.err().contains("standard input:5:") && ran.err().contains("decimal"), "{}", ran.err());
    let ran = scene.run("check f.bloom 7 x").code(2);
    assert!(ran.out() == "7\n" && ran.err().contains("argument 2"), "{}", ran.err());
    let many = scene.run_with("check -c --label --json f.bloom", lines("x", 5_000)).code(2);
    assert_eq!(many.number("refused"), 5_000.0);
    assert_eq!(many.err().lines().count(), 11, "{}", many.err());
    assert!(many.err().contains("4,990 more"), "{}", many.err());
    let raw = scene.run_with("check f.bloom", &b"\xff\n"[..]).code(2);
    assert!(raw.err().contains("not UTF-8"), "{}", raw.err());
}

#[test]
fn typed_keys_are_asked_by_value() {
    let scene = Scene::new();
    let uuid = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    scene.write("uuids.txt", format!("{uuid}\n")).write("pairs.txt", "7\tabc\n").write("paths.txt", "/a/b/c\n");
    scene.run("build -q -o u.bloom --keys uuid uuids.txt").code(0);
    scene.run(&format!("check u.bloom {}", uuid.to_uppercase())).code(0);
    scene.run("build -q -o p.bloom --keys tuple(u64,text) --rate 1e-6 pairs.txt").code(0);
    scene.run_with("check p.bloom", "07\tabc\n").code(0);
    scene.run_with("check p.bloom", "7\tabd\n").code(1);
    scene.run("build -q -o d.bloom --keys prefix-delimiter(/,2) --rate 1e-6 paths.txt").code(0);
    scene.run("check d.bloom /a/x").code(0);
    scene.run("check d.bloom /b/x").code(1);
}

#[test]
fn what_is_no_filter_is_refused() {
    let scene = small();
    let whole = scene.read("f.bloom");
    std::fs::create_dir(scene.path("folder")).unwrap();
    scene.write("empty.bloom", "").write("short.bloom", &whole[..whole.len() - 1]).write("stub.bloom", &whole[..40]);
    scene.write("gzip.bloom", b"\x1f\x8b\x08rest");
    for verb in ["check", "info"] {
        let key = if verb == "check" { "key" } else { "" };
        for (file, said) in [
            ("missing.bloom", &["missing.bloom", "No such file"][..]),
            ("folder", &["folder"]),
            ("empty.bloom", &["empty.bloom", "empty"]),
            ("stub.bloom", &["stub.bloom", "64"]),
            ("short.bloom", &["short.bloom"]),
            ("keys.txt", &["keys.txt", "not a Bloomgate file", "bloomgate build"]),
            ("gzip.bloom", &["gzip"]),
        ] {
            scene.run(&format!("{verb} {file} {key}")).refused(said);
        }
    }
}

#[test]
fn damaged_bits_never_make_a_no() {
    let scene = small();
    let mut bytes = scene.read("f.bloom");
    let last = bytes.len() - 8;
    bytes[last] ^= 0x10;
    scene.write("bad.bloom", &bytes);
    let ran = scene.run_with("check bad.bloom", "apple\npear\nplum\n").code(2);
    assert_eq!(ran.out(), "apple\npear\nplum\n");
    assert!(ran.err().contains("bad.bloom") && ran.err().contains("damaged"), "{}", ran.err());
    let mut head = scene.read("f.bloom");
    head[70] ^= 1;
    scene.write("head.bloom", &head);
    scene.run("check head.bloom apple").refused(&["head.bloom"]);
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let scene = Scene::new();
    let keys = lines("a key that takes some room in a pipe ", 200_000);
    scene.write("keys.txt", &keys);
    scene.run("build -q -o f.bloom keys.txt").code(0);
    scene.run("build -q -o empty.bloom").code(0);
    // What was found until then is the answer: all maybes, or all absent.
    for (filter, option, code) in [("f.bloom", "--label", 0), ("empty.bloom", "-v", 1)] {
        let ran = scene.run_and_leave(&format!("check {filter} {option} -f keys.txt")).code(code);
        assert_eq!(ran.err(), "");
    }
    for arguments in [&["plan", "--items", "1M"][..], &["info", "f.bloom"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
            .args(arguments)
            .current_dir(scene.path("."))
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stderr.is_empty(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn in_a_pipe_each_answer_leaves_before_the_next_question() {
    let scene = small();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["check", "--label", "f.bloom"])
        .current_dir(scene.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = child.stdout.take().unwrap();
    for (question, answer) in [("pear\n", "maybe\tpear\n"), ("fig\n", "absent\tfig\n"), ("plum\n", "maybe\tplum\n")] {
        questions.write_all(question.as_bytes()).unwrap();
        let mut got = vec![0; answer.len()];
        answers.read_exact(&mut got).unwrap();
        assert_eq!(got, answer.as_bytes());
    }
    drop(questions);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn negative_numbers_are_keys_and_options_stay_options() {
    let scene = Scene::new();
    scene.write("ids.txt", "-3\n-42\n7\n-170141183460469231731687303715884105728\n");
    scene.run("build -q -o ids.bloom --keys i128 --rate 1e-9 ids.txt").code(0);
    for (arguments, printed, code) in [
        ("ids.bloom -3", "-3\n", 0),
        ("ids.bloom 7 -42 -5", "7\n-42\n", 0),
        ("ids.bloom -5 -170141183460469231731687303715884105728", "-170141183460469231731687303715884105728\n", 0),
        ("ids.bloom -4", "", 1),
        ("-c ids.bloom -3 -4", "1\n", 0),
        ("ids.bloom -3 -v -4", "-4\n", 0),
        ("ids.bloom -- -3 -0", "-3\n", 0),
    ] {
        assert_eq!(scene.run(&format!("check {arguments}")).code(code).out(), printed, "{arguments}");
    }
    // After the filter too, -0 is the separator and no key.
    for arguments in ["ids.bloom -0", "-0 ids.bloom", "ids.bloom -0 -f -", "ids.bloom -0v"] {
        let ran = scene.run_with(&format!("check {arguments}"), &b"-3\x00-4\x00"[..]).code(0);
        assert_eq!(ran.out(), if arguments.ends_with('v') { "-4\0" } else { "-3\0" }, "{arguments}");
    }
    scene.run("check ids.bloom -x").refused(&["-x"]);
    scene.run("check -3").refused(&["-3"]);
}

/// The bits that a shorter file has lost cannot be answered for: that is an error with a message, not a core dump.
#[cfg(unix)]
#[test]
fn a_filter_that_is_made_shorter_while_it_is_asked_is_an_error() {
    let scene = Scene::new();
    scene.write("keys.txt", (0..200_000).map(|i| format!("key {i}\n")).collect::<String>());
    scene.run("build -q -o f.bloom keys.txt").code(0);
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["check", "--label", "f.bloom"])
        .current_dir(scene.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut questions = child.stdin.take().unwrap();
    let mut answers = child.stdout.take().unwrap();
    questions.write_all(b"key 7\n").unwrap();
    let mut got = [0; 12];
    answers.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"maybe\tkey 7\n");

    std::fs::File::options().write(true).open(scene.path("f.bloom")).unwrap().set_len(4096).unwrap();
    // It ends at the first of them; what is not read any more is no matter.
    let _ = questions.write_all((0..1_000).map(|i| format!("key {i}\n")).collect::<String>().as_bytes());
    drop(questions);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("bloomgate: the filter file was made shorter while it was mapped"), "{said}");
}

/// A filter that is being written in place, or was when its program ended, is not asked.
#[test]
fn an_unfinished_filter_is_refused() {
    let scene = Scene::new();
    let filter = bloomgate::Blocked::builder().items(1_000).create_mapped(scene.path("f.bloom")).unwrap();
    filter.insert("pear").unwrap();
    scene.run("check f.bloom pear").refused(&["f.bloom", "being written in place", "recover"]);
    scene.run("info f.bloom").refused(&["f.bloom", "being written in place"]);
    filter.close().unwrap();
    assert_eq!(scene.run("check f.bloom pear apple").code(0).out(), "pear\n");
}
