//! `dedup`: each line once and in order, what it says of its own errors, and its state from run to run.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::scene::{Ran, Scene, json_object, lines};

/// A field of the report on standard error.
fn told(ran: &Ran, name: &str) -> f64 {
    let error = ran.err();
    let fields = json_object(error.trim_end());
    let field = fields.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("{name} is not in {error}"));
    field.1.parse().unwrap()
}

/// What `awk '!seen[$0]++'` prints.
fn first_seen(text: &str) -> String {
    let mut seen = HashSet::new();
    text.split_inclusive('\n').filter(|line| seen.insert(line.trim_end_matches('\n'))).collect()
}

/// So many lines of so many different ones, mixed.
fn mixed(count: u64, different: u64) -> String {
    (0..count).map(|i| format!("line {}\n", i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % different)).collect()
}

#[test]
fn each_line_comes_once_and_in_order() {
    let scene = Scene::new();
    let text = "b\na\n\nb\n\nc\na\n".to_string() + &mixed(20_000, 3_000);
    scene.write("a.txt", &text[..9]).write("b.txt", &text[9..]);
    let expected = first_seen(&text);
    for kind in ["", "--kind growing-cuckoo", "--kind blocked --items 4k", "--kind classic --items 4k"]
        .into_iter()
        .chain(["--kind partitioned --items 4k", "--kind cuckoo --items 4k", "--kind quotient --items 4k"])
        .chain(["--window 1h", "--window-lines 1M", "--memory 1MB"])
    {
        let rate = if kind.contains("window-lines") { "--rate 1e-6" } else { "--rate 1e-9" };
        let ran = scene.run_with(&format!("dedup {kind} {rate}"), text.as_str()).code(0);
        assert!(ran.out() == expected, "{kind}");
        assert!(ran.err().contains("20,007 lines read: 3,004 new, 17,003 repeats dropped"), "{kind}: {}", ran.err());
        assert!(
            ran.err().contains("new lines lost: ") && ran.err().contains(" expected, chance of any "),
            "{kind}: {}",
            ran.err()
        );
        assert!(scene.run(&format!("dedup -q {kind} {rate} a.txt b.txt")).code(0).out() == expected, "{kind}");
    }
    assert_eq!(scene.run_with("dedup -d -q", "b\na\nb\nb\nc\na").code(0).out(), "b\nb\na\n");
    assert_eq!(scene.run_with("dedup -c -q", "b\na\nb\nb\nc\na").code(0).out(), "3\n");
    assert_eq!(scene.run_with("dedup -c -d -q", "b\na\nb\nb\nc\na").code(0).out(), "3\n");
    assert_eq!(scene.run_with("dedup -q -0", &b"a\n\0b\0a\n\0"[..]).code(0).out(), "a\n\0b\0");
    assert_eq!(scene.run_with("dedup -q", &b"\xff\n\xfe\n\xff\n"[..]).code(0).bytes(), b"\xff\n\xfe\n");
    let counted = scene.run_with("dedup -c --json", "b\na\nb\n").code(0);
    assert_eq!((counted.number("printed"), counted.number("repeats")), (2.0, 1.0));
}

/// Lines that were lost against lines that it says to have lost: of different lines each that is not printed is lost.
#[test]
fn what_it_says_of_lost_lines_is_what_is_lost() {
    let scene = Scene::new();
    let count = 60_000;
    let text = lines("line ", count);
    for kind in ["--kind blocked --items 60k", "--kind classic --items 60k", "--items 2k", "--kind cuckoo --items 60k"]
        .into_iter()
        .chain(["--kind quotient --items 60k", "--kind growing-cuckoo --items 5k", "--kind blocked --items 30k"])
        .chain(["--window-lines 20k", "--memory 30kB", "--window 1d --items 60k"])
    {
        let ran = scene.run_with(&format!("dedup --json --rate 5% {kind}"), text.as_str()).code(0);
        let (lost, expected) = (f64::from(count) - told(&ran, "new"), told(&ran, "expected_lost"));
        assert!(told(&ran, "chance_of_any_lost") > 0.999_999 && expected > 30.0, "{kind}: {}", ran.err());
        // 4.5 standard deviations of a count, and two percent for a rate that is itself estimated.
        let bound = 4.5 * expected.sqrt() + 0.02 * expected;
        assert!((lost - expected).abs() < bound, "{kind}: {lost} lines are lost, {expected} expected");
    }
    // A window's lines may come all at once, and its promise is kept then too; past it that is told.
    let ran = scene.run_with("dedup --json --rate 5% --window 1d --items 60k", text.as_str()).code(0);
    assert!(told(&ran, "highest_rate") < 0.05 && f64::from(count) - told(&ran, "new") < 0.05 * f64::from(count));
    let ran = scene.run_with("dedup --rate 5% --window 1d --items 10k", text.as_str()).code(0);
    assert!(ran.err().contains("warning: more different lines came"), "{}", ran.err());
    // Repeats are no new lines: they add nothing.
    let twice = scene.run_with("dedup --json --rate 5% --kind blocked --items 60k", text.repeat(2)).code(0);
    let once = scene.run_with("dedup --json --rate 5% --kind blocked --items 60k", text).code(0);
    assert_eq!(told(&twice, "new"), told(&once, "new"));
    assert!((told(&twice, "expected_lost") / told(&once, "expected_lost") - 1.0).abs() < 1e-9);
    // A full filter takes every line for a repeat: how many wrongly cannot be worked out, and is not claimed to be.
    let full = "dedup -c --rate 5% --kind blocked --items 100";
    let ran = scene.run_with(full, lines("line ", count)).code(0);
    assert!(ran.err().contains("new lines lost: at least "), "{}", ran.err());
    let ran = scene.run_with(&format!("{full} --json"), lines("line ", count)).code(0);
    assert_eq!(ran.field("expected_lost_is_lower_bound"), "true");
    assert!(ran.number("expected_lost") <= ran.number("repeats"), "{}", ran.out());
    let slight = scene.run_with("dedup --items 10k", lines("line ", 1_000).repeat(2)).code(0);
    assert!(slight.err().contains("none expected, chance of any below one in a billion"), "{}", slight.err());
    let rare = scene.run_with("dedup --json", lines("line ", 1_000)).code(0);
    assert!(told(&rare, "chance_of_any_lost") < 1e-3 && told(&rare, "new") == 1_000.0);
}

#[cfg(feature = "sqlite")]
#[test]
fn exact_is_exact_at_any_rate() {
    let scene = Scene::new();
    let text = mixed(20_000, 6_000);
    let expected = first_seen(&text);
    for options in ["--rate 50%", "--rate 50% --kind blocked --items 100", "--rate 20% --kind cuckoo --items 7k"] {
        let ran = scene.run_with(&format!("dedup {options} --exact sqlite:seen.db"), text.as_str()).code(0);
        assert!(ran.out() == expected && ran.err().contains("new lines lost: none"), "{options}: {}", ran.err());
        // Another run goes on: nothing is new but what is.
        let more = mixed(100, 50) + "another\n" + &text + "another\n";
        let ran = scene.run_with(&format!("dedup --json {options} --exact sqlite:seen.db"), more).code(0);
        assert_eq!(ran.out(), "another\n", "{options}");
        assert!(told(&ran, "expected_lost") == 0.0 && told(&ran, "looked_up") >= 20_100.0, "{}", ran.err());
        assert_eq!(scene.files(), ["seen.db"]);
        std::fs::remove_file(scene.path("seen.db")).unwrap();
    }
    // Two runs that go on from one store would both print a new line.
    let other = rusqlite::Connection::open(scene.path("busy.db")).unwrap();
    other.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE").unwrap();
    scene.run_with("dedup --exact sqlite:busy.db", "a\n").refused(&["busy.db", "locked"]);
    drop(other);
    // One that is there and that another run has only read so far, too: that run holds it from its first line on.
    scene.run_with("dedup -q --exact sqlite:busy.db", "a\n").code(0);
    let mut first = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["dedup", "-q", "--exact"])
        .arg(format!("sqlite:{}", scene.path("busy.db").display()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = first.stdin.take().unwrap();
    lines.write_all(b"b\n").unwrap();
    let mut printed = [0; 2];
    first.stdout.take().unwrap().read_exact(&mut printed).unwrap();
    scene.run_with("dedup --exact sqlite:busy.db", "b\n").refused(&["busy.db", "locked by another run"]);
    drop(lines);
    assert!(first.wait().unwrap().success() && &printed == b"b\n");
    scene.run_with("dedup --exact seen.db", "a\n").refused(&["sqlite:FILE"]);
    scene
        .write("text.txt", "this is not a database at all, but it is long enough to be asked for its header".repeat(9));
    scene.run_with("dedup --exact sqlite:text.txt", "a\n").refused(&["text.txt", "not a database"]);
    scene.run("dedup --exact sqlite:text.txt text.txt").refused(&["text.txt", "is read"]);
    scene.run_with("dedup --exact sqlite:nowhere/seen.db", "a\n").refused(&["nowhere"]);
    // Names that mean something to SQLite are names of files here: the lines are kept.
    for name in [":memory:", "file:seen.db?mode=memory"] {
        scene.run_with(&format!("dedup -q --exact sqlite:{name}"), "a\n").code(0);
        assert_eq!(scene.run_with(&format!("dedup -q --exact sqlite:{name}"), "a\nb\n").code(0).out(), "b\n");
    }
}

/// The lines that nobody read come again: neither the filter nor the store has them.
#[test]
fn a_reader_that_leaves_is_no_error_and_nothing_is_saved() {
    let scene = Scene::new();
    scene.write("lines.txt", lines("a line that takes some room in a pipe ", 200_000));
    for state in ["--filter seen.bloom", ""] {
        let ran = scene.run_and_leave(&format!("dedup lines.txt {state}")).code(0);
        assert_eq!(ran.err(), "");
        assert_eq!(scene.files(), ["lines.txt"]);
    }
}

#[test]
fn a_filter_carries_what_was_seen_from_run_to_run() {
    let scene = Scene::new();
    for (options, wrong, said) in [
        ("", "--kind blocked --items 9", "kind scalable"),
        ("--kind cuckoo --items 1k --rate 1e-4", "--rate 1e-5", "rate 0.0001"),
        ("--window 7d", "--window 8d", "window of 7.00 d"),
        ("--window-lines 500", "", "--window"),
        ("--memory 1MB", "--window 1h", "kind stable"),
    ] {
        let run = |options: &str, text: &str| scene.run_with(&format!("dedup -q --filter seen.bloom {options}"), text);
        assert_eq!(run(options, "a\nb\na\n").code(0).out(), "a\nb\n", "{options}");
        assert_eq!(run(options, "b\nc\n").code(0).out(), "c\n", "{options}");
        assert_eq!(run(options, "a\nb\nc\n").code(0).out(), "", "{options}");
        let before = scene.read("seen.bloom");
        run(wrong, "d\n").refused(&["seen.bloom", said]);
        assert!(scene.read("seen.bloom") == before && scene.files() == ["seen.bloom"], "{options}");
        scene.run("check seen.bloom a").code(0);
        std::fs::remove_file(scene.path("seen.bloom")).unwrap();
    }
    // Any filter that takes keys will do, in its encoding; and a secret keys a new one.
    scene.write("ids.txt", "1\n2\n");
    scene.run("secret new -o s.txt").code(0);
    scene.run("build -q -o ids.bloom --keys u64 --items 100 --rate 1e-6 ids.txt").code(0);
    assert_eq!(scene.run_with("dedup -q --filter ids.bloom", "02\n3\n3\n").code(0).out(), "3\n");
    scene.run_with("dedup -q --filter ids.bloom", "4\nfour\n").refused(&["standard input:2:", "four"]);
    assert_eq!(scene.run_with("dedup -q --filter ids.bloom", "4\n").code(0).out(), "4\n", "nothing was saved");
    scene.run_with("dedup -q --filter k.bloom --secret-file s.txt", "a\n").code(0);
    scene.run_with("dedup -q --filter k.bloom", "a\n").refused(&["--secret-file"]);
    assert_eq!(scene.run_with("dedup -q --filter k.bloom --secret-file s.txt", "a\nb\n").code(0).out(), "b\n");
    scene.run("build -q -o fuse.bloom --kind fuse ids.txt").code(0);
    scene.run_with("dedup --filter fuse.bloom", "a\n").refused(&["fuse.bloom", "built once"]);
    scene.run("dedup --filter ids.txt ids.txt").refused(&["ids.txt", "is read"]);
}

/// A line is a repeat for N lines and new again a quarter of that later.
#[test]
fn a_window_of_lines_forgets() {
    let scene = Scene::new();
    let gap = |between: u32| format!("once\n{}once\n", lines("other ", between));
    for (between, twice) in [(10, false), (999, false), (1_300, true), (5_000, true)] {
        let ran = scene.run_with("dedup -q --window-lines 1000", gap(between)).code(0);
        assert_eq!(ran.out() == gap(between), twice, "{between}");
    }
    // It is the last time that counts, printed or not.
    let often = (0..30).map(|_| gap(300)).collect::<String>();
    let ran = scene.run_with("dedup -q --window-lines 1000", often).code(0);
    assert_eq!(ran.out().matches("once\n").count(), 1);
}

#[test]
fn a_window_of_time_forgets() {
    let scene = Scene::new();
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["dedup", "-q", "--window", "20ms"])
        .current_dir(scene.path("."))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    // Each new line leaves before the next comes.
    for line in ["a\n", "b\n"] {
        input.write_all(line.as_bytes()).unwrap();
        let mut got = [0; 2];
        output.read_exact(&mut got).unwrap();
        assert_eq!(&got, line.as_bytes());
    }
    std::thread::sleep(std::time::Duration::from_millis(60));
    input.write_all(b"a\n").unwrap();
    let mut got = [0; 2];
    output.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"a\n", "the window has passed");
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// In a fixed memory what came lately is a repeat, what came long ago may come again, and it is told.
#[test]
fn a_fixed_memory_forgets_the_oldest() {
    let scene = Scene::new();
    let text = lines("line ", 30_000);
    let ran = scene.run_with("dedup --memory 20kB --rate 1%", text.repeat(2)).code(0);
    let printed = ran.out().lines().count();
    assert!((50_000..=60_000).contains(&printed), "{printed}: most of the first round was forgotten");
    assert!(ran.err().contains("20.0 kB") && ran.err().contains("repeats from before"), "{}", ran.err());
    let near = (0..10_000).map(|i| format!("line {i}\nline {i}\n")).collect::<String>();
    assert!(scene.run_with("dedup -q --memory 20kB --rate 1%", near).code(0).out().lines().count() <= 10_000);
}

#[test]
fn what_cannot_be_done_is_refused() {
    let scene = Scene::new();
    for (options, said) in [
        ("--kind blocked", "--items"),
        ("--kind cuckoo", "--items"),
        ("--kind stable", "--memory"),
        ("--kind rotating", "--window"),
        ("--kind fuse", "scalable"),
        ("--window 1h --memory 1MB", "--memory"),
        ("--window 1x", "36h"),
        ("--memory 10", "rate"),
        ("missing.txt", "missing.txt"),
        ("- -", "more than once"),
    ] {
        scene.run_with(&format!("dedup {options}"), "a\n").refused(&[said]);
    }
    // A filter that refuses more than it was made for says where; one that goes on says what became of its rate.
    let ran = scene.run_with("dedup --kind cuckoo --items 100", lines("", 20_000)).code(2);
    assert!(ran.err().contains("standard input:") && ran.err().contains("larger --items"), "{}", ran.err());
    let ran = scene.run_with("dedup --kind blocked --items 100 --rate 1%", lines("", 2_000)).code(0);
    assert!(ran.err().contains("warning:") && ran.err().contains("(1.00 % promised)"), "{}", ran.err());
}
