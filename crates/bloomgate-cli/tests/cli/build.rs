//! `build`: inputs, sizes, kinds, and what is there when it fails.

use crate::scene::{KINDS, Scene, lines};

#[test]
fn no_key_is_ever_lost_in_any_kind_or_way() {
    let scene = Scene::new();
    let keys = lines("https://example.org/", 20_000);
    scene.write("keys.txt", &keys);
    for kind in KINDS {
        for (way, input) in [("keys.txt", ""), ("", keys.as_str()), ("--items 20k -", keys.as_str())] {
            if way.contains("items") && ["fuse", "ribbon"].contains(&kind) {
                continue;
            }
            scene.run_with(&format!("build -q -o f.bloom --kind {kind} {way}"), input).code(0);
            let found = scene.run("check f.bloom -f keys.txt").code(0);
            assert!(found.out() == keys, "{kind} {way}: a key is missing");
            let strangers = scene.run_with("check -c f.bloom", lines("https://example.com/", 20_000));
            let maybes: f64 = strangers.out().trim().parse().unwrap();
            // 200 expected at 1 %; six standard deviations above. A chain of many stages has at most that.
            assert!(maybes <= 285.0, "{kind} {way}: {maybes}");
            // Whole bits of fingerprints keep less than was asked: 0.64 % the least. A chain keeps a share until it grew.
            let grows = ["scalable", "growing-cuckoo"].contains(&kind);
            assert!(maybes >= if grows { 1.0 } else { 60.0 }, "{kind} {way}: {maybes}");
        }
    }
}

#[test]
fn the_summary_tells_keys_size_and_rate() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 5_000) + &lines("k", 1_000));
    let ran = scene.run("build -o f.bloom --rate 0.1% --json keys.txt").code(0);
    assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    assert!(ran.err().contains("6,000 keys read") && ran.err().contains("f.bloom"), "{}", ran.err());
    assert_eq!(ran.number("keys_read"), 6_000.0);
    assert!((ran.number("distinct") - 5_000.0).abs() < 60.0);
    assert_eq!(ran.number("capacity"), 6_000.0, "duplicates are counted when files are");
    assert_eq!(ran.number("promised_rate"), 0.001);
    assert!(ran.number("expected_rate") < 0.001);
    assert_eq!(ran.number("file_bytes"), scene.read("f.bloom").len() as f64);
    assert_eq!(ran.field("address").len(), 66);
    let piped = scene.run_with("build -o f.bloom --json", lines("k", 5_000) + &lines("k", 1_000)).code(0);
    assert_eq!(
        (piped.number("distinct"), piped.number("capacity"), piped.field("distinct_is_exact")),
        (5_000.0, 5_000.0, "true".into())
    );
    assert!(scene.run("build -q -o f.bloom keys.txt").code(0).err().is_empty());
    assert_eq!(scene.files(), ["f.bloom", "keys.txt"]);
}

#[test]
fn the_same_keys_give_the_same_file() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 30_000));
    for options in ["", "--kind classic", "--kind scalable --items 100", "--hash murmur3 --seed 7", "--headroom 1.5"] {
        let address = |out: &str, from: &str| {
            let input = if from.is_empty() { lines("k", 30_000) } else { String::new() };
            scene.run_with(&format!("build -o {out} --json {options} {from}"), input).code(0).field("address")
        };
        assert_eq!(address("a.bloom", "keys.txt"), address("b.bloom", "keys.txt"), "{options}");
        assert!(scene.read("a.bloom") == scene.read("b.bloom"), "{options}");
        assert_eq!(address("a.bloom", ""), address("b.bloom", ""), "{options} from a pipe");
    }
    // A redirected file is counted first and read from where it was, as a named one.
    let redirected = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["build", "-q", "-o"])
        .arg(scene.path("c.bloom"))
        .stdin(std::fs::File::open(scene.path("keys.txt")).unwrap())
        .status()
        .unwrap();
    assert!(redirected.success());
    scene.run("build -q -o d.bloom keys.txt").code(0);
    assert!(scene.read("c.bloom") == scene.read("d.bloom"));
}

#[test]
fn lines_are_cut_as_the_help_says() {
    let scene = Scene::new();
    let check = |options: &str, key: &[u8], expected: i32| {
        let mut input = key.to_vec();
        input.push(0);
        let ran = scene.run_with(&format!("check -q --null --keep-empty f.bloom {options}"), input);
        ran.code(expected);
    };
    scene.write("keys.txt", b"one\r\n\ntwo\n\xff\xfe raw \x00 bytes\nlast without end");
    scene.run("build -q -o f.bloom --rate 1e-6 keys.txt").code(0);
    for (key, expected) in
        [(&b"one\r"[..], 0), (b"one", 1), (b"two", 0), (b"", 1), (b"last without end", 0), (b"\xff\xfe raw ", 1)]
    {
        check("", key, expected);
    }
    scene.run_with("check -q f.bloom", &b"\xff\xfe raw \x00 bytes"[..]).code(0);
    scene.run("build -q -o f.bloom --rate 1e-6 --crlf --keep-empty keys.txt").code(0);
    for (key, expected) in [(&b"one"[..], 0), (b"one\r", 1), (b"", 0), (b"two", 0)] {
        check("", key, expected);
    }
    scene.write("null.bin", b"a\nb\0\0c");
    let ran = scene.run("build -o f.bloom --rate 1e-6 --null --json null.bin").code(0);
    assert_eq!(ran.number("keys_read"), 2.0);
    check("", b"a\nb", 0);
    check("", b"c", 0);
    check("", b"a", 1);
}

#[test]
fn an_empty_input_is_an_empty_set() {
    let scene = Scene::new();
    scene.write("empty.txt", "").write("blank.txt", "\n\n\n");
    for way in ["empty.txt", "blank.txt", "", "empty.txt blank.txt", "--kind scalable", "--items 0 empty.txt"] {
        let ran = scene.run(&format!("build -o f.bloom --json {way}")).code(0);
        assert!(ran.err().contains("note: there was no key"), "{way}: {}", ran.err());
        assert_eq!((ran.number("keys_read"), ran.number("expected_rate")), (0.0, 0.0), "{way}");
        scene.run("check f.bloom anything").code(1);
        assert_eq!(scene.run_with("check f.bloom", lines("k", 100)).code(1).out(), "");
        scene.run("info f.bloom").code(0);
    }
}

#[test]
fn a_build_that_fails_leaves_the_old_file_and_nothing_else() {
    let scene = Scene::new();
    scene.write("good.txt", lines("k", 100)).write("bad.txt", "1\n2\nthree\n").write("long.txt", vec![b'x'; 17 << 20]);
    scene.write("many.txt", lines("k", 1_000));
    scene.run("build -q -o f.bloom good.txt").code(0);
    let before = scene.read("f.bloom");
    std::fs::create_dir(scene.path("folder")).unwrap();
    for (arguments, said) in [
        ("missing.txt", &["missing.txt", "No such file"][..]),
        ("good.txt missing.txt", &["missing.txt"]),
        ("folder", &["folder is a directory"]),
        ("--keys u64 bad.txt", &["bad.txt:3:", "three", "decimal"]),
        ("long.txt", &["long.txt:1:", "16,777,216", "--null"]),
        ("--when-full refuse --items 50 good.txt", &["at or after good.txt:1:", "50", "--headroom"]),
        ("--kind cuckoo --items 50 good.txt", &["at or after good.txt:1:", "50", "no room for more keys", "--items"]),
        (
            "--kind quotient --items 1 many.txt",
            &["at or after many.txt:1:", "no room for more keys", "give a larger --items"],
        ),
        ("--when-full grow good.txt", &["cannot grow", "Scalable"]),
        ("--hash siphash13 good.txt", &["secret new"]),
        ("--secret-file missing.key good.txt", &["missing.key"]),
        ("--hash murmur3 --seed 4294967296 good.txt", &["4294967295"]),
        ("--items 1e13 good.txt", &["2^40"]),
        ("- -", &["standard input", "once"]),
    ] {
        scene.run(&format!("build -o f.bloom {arguments}")).refused(said);
        assert!(scene.read("f.bloom") == before, "{arguments}: the old file changed");
    }
    scene.run("build -o folder good.txt").refused(&["folder", "directory"]);
    scene.run("build -o good.txt bad.txt ./good.txt").refused(&["good.txt", "replaced"]);
    scene.run("build -o /dev/null good.txt").refused(&["/dev/null", "replaced"]);
    scene.run("build -o nowhere/f.bloom good.txt").refused(&["nowhere", "no such directory"]);
    scene.run_with("build -o f.bloom --keys text", &b"fine\nnot \xff text\n"[..]).refused(&[
        "standard input:2:",
        "byte 5 is 0xff",
        "--keys bytes",
    ]);
    assert_eq!(scene.files(), ["bad.txt", "f.bloom", "folder", "good.txt", "long.txt", "many.txt"]);
}

#[test]
fn arguments_that_make_no_sense_teach() {
    let scene = Scene::new();
    for (arguments, said) in [
        ("--rate 5", &["not 5", "write 5%"][..]),
        ("--rate 0", &["0.01"]),
        ("--rate -1", &["0.01"]),
        ("--items -1", &["-1", "10M"]),
        ("--items many", &["many", "10M"]),
        ("--kind bloom", &["bloom", "blocked", "scalable"]),
        ("--keys f64", &["f64", "u64", "uuid"]),
        ("--hash md5", &["md5", "xxh3", "blake2b"]),
        ("--hash given", &["digests", "xxh3"]),
        ("--headroom 0.5", &["0.5", "1.5"]),
        ("--when-full explode", &["explode", "refuse"]),
        ("--frobnicate", &["--frobnicate"]),
    ] {
        scene.run(&format!("build -o f.bloom {arguments}")).refused(said);
    }
    scene.run("build keys.txt").refused(&["--output"]);
    scene.run("").refused(&["Usage"]);
    scene.run("rebuild").refused(&["rebuild"]);
    assert!(scene.files().is_empty());
}

#[test]
fn more_keys_than_planned_are_kept_and_warned_of() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 10_000));
    let ran = scene.run("build -o f.bloom --items 2000 --json keys.txt").code(0);
    assert!(ran.err().contains("warning:") && ran.err().contains("2,000"), "{}", ran.err());
    assert!(ran.number("expected_rate") > 0.5);
    assert_eq!(scene.run("check -c f.bloom -f keys.txt").code(0).out(), "10000\n");
    let grown = scene.run("build -o f.bloom --items 2000 --kind scalable --json keys.txt").code(0);
    assert!(!grown.err().contains("warning:") && grown.number("expected_rate") <= 0.01, "{}", grown.err());
}

#[test]
fn compression_pays_or_says_why_not() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 1_000));
    let sparse = scene.run("build -o c.bloom --items 1M --compress --json keys.txt").code(0);
    assert!(sparse.number("file_bytes") < sparse.number("filter_bytes") / 20.0 && !sparse.err().contains("note:"));
    assert_eq!(scene.run("check -c c.bloom -f keys.txt").code(0).out(), "1000\n");
    let full = scene.run("build -o f.bloom --compress keys.txt").code(0);
    assert!(full.err().contains("not compressed"), "{}", full.err());
    assert!(scene.run("info c.bloom").code(0).out().contains("compressed"));
    assert_eq!(scene.run("info --json c.bloom").code(0).field("compressed"), "true");
}

#[cfg(unix)]
#[test]
fn a_redirected_output_is_never_replaced() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 100));
    std::fs::create_dir(scene.path("folder")).unwrap();
    std::os::unix::fs::symlink("/dev/stdout", scene.path("folder/link")).unwrap();
    for (target, to_err) in
        [("/dev/stdout", false), ("/dev/fd/1", false), ("folder/link", false), ("log.txt", false), ("log.txt", true)]
    {
        scene.write("log.txt", "");
        let log = || std::fs::OpenOptions::new().append(true).open(scene.path("log.txt")).unwrap();
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"));
        command.current_dir(scene.path("")).args(["build", "-o", target, "keys.txt"]);
        let output = if to_err { command.stderr(log()) } else { command.stdout(log()) }.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{target}");
        let told = if to_err { scene.read("log.txt") } else { output.stderr };
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains(target) && told.contains("would be replaced"), "{target}: {told}");
        assert!(to_err || scene.read("log.txt").is_empty(), "{target}: the log was written to");
    }
    assert_eq!(scene.files(), ["folder", "keys.txt", "log.txt"]);
    // A file in memory is a file.
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        scene.run(&format!("build -q -o {} keys.txt", folder.path().join("f.bloom").display())).code(0);
    }
}

#[test]
fn a_forgotten_crlf_is_told_of() {
    let scene = Scene::new();
    scene.write("dos.txt", "a\r\nb\r\nc").write("mixed.txt", "a\r\nb\nc\r\n").write("one.txt", "a");
    scene.write("numbers.txt", "1\r\n2\r\n");
    for (arguments, told) in [
        ("dos.txt", true),
        ("--items 10 one.txt dos.txt", true),
        ("-", true),
        ("--crlf dos.txt", false),
        ("--null dos.txt", false),
        ("-q dos.txt", false),
        ("mixed.txt", false),
        ("one.txt", false),
    ] {
        let ran = scene.run_with(&format!("build -o f.bloom {arguments}"), "x\r\n\r\n").code(0);
        let said = ran.err().contains("every key ends in a carriage return") && ran.err().contains("--crlf");
        assert_eq!(said, told, "{arguments}: {}", ran.err());
    }
    scene.run("build -o f.bloom --keys u64 numbers.txt").refused(&["numbers.txt:1:", "carriage return", "--crlf"]);
    scene.run("build -q -o f.bloom --keys u64 --crlf numbers.txt").code(0);
    scene.run("check -q f.bloom -f numbers.txt").refused(&["numbers.txt:2:", "--crlf"]);
}

#[test]
fn a_filter_that_is_far_too_small_is_not_flattered() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 100_000));
    for kind in ["blocked", "classic", "partitioned", "counting"] {
        let ran = scene.run(&format!("build -o f.bloom --kind {kind} --items 10 --json keys.txt")).code(0);
        assert!(ran.err().contains("rate by the bits 100 % (1.00 % promised)"), "{kind}: {}", ran.err());
        assert!(ran.err().contains("at least ") && ran.err().contains("warning:"), "{kind}: {}", ran.err());
        assert!((ran.number("estimated_rate") - 1.0).abs() < 1e-9, "{kind}: {}", ran.out());
        assert_eq!(ran.field("distinct_is_lower_bound"), "true", "{kind}");
        let strangers = scene.run_with("check -c f.bloom", lines("other", 1_000)).code(0);
        assert_eq!(strangers.out(), "1000\n", "{kind}");
    }
    // Twice as many: some bits are clear, and what the bits say is what strangers see.
    let ran = scene.run("build -o f.bloom --items 50000 --json keys.txt").code(0);
    let maybes = scene.run_with("check -c f.bloom", lines("other", 100_000)).out();
    let measured = maybes.trim().parse::<f64>().unwrap() / 1e5;
    // A rate near 15 % of 100,000 strangers: six standard deviations are 0.007.
    assert!((ran.number("estimated_rate") - measured).abs() < 0.007, "{measured} {}", ran.out());
    assert!(ran.err().contains("rate by the bits") && ran.err().contains("about "), "{}", ran.err());
    let enough = scene.run("build -o f.bloom --items 100k --json keys.txt").code(0);
    assert!(enough.err().contains("expected rate") && enough.field("estimated_rate") == "null", "{}", enough.err());
}

/// What is read is never replaced: not the file on standard input, nor the secret.
#[cfg(unix)]
#[test]
fn the_file_on_standard_input_and_the_secret_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (keys, secret) = (dir.path().join("keys.txt"), dir.path().join("users.secret"));
    std::fs::write(&keys, "a\nb\n").unwrap();
    let bloomgate = || assert_cmd::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"));
    bloomgate().args(["secret", "new", "-o"]).arg(&secret).assert().success();
    let before = std::fs::read(&secret).unwrap();
    bloomgate().args(["build", "-o"]).arg(&secret).arg("--secret-file").arg(&secret).arg(&keys).assert().code(2);
    assert_eq!(std::fs::read(&secret).unwrap(), before);
    let input = std::fs::File::open(&keys).unwrap();
    let status = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["build", "-o"])
        .arg(&keys)
        .stdin(input)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
    assert_eq!(std::fs::read(&keys).unwrap(), b"a\nb\n");
}

/// Keys that come twice are counted twice by kinds that can remove, from a pipe as from a file.
#[test]
fn a_counting_filter_has_room_for_every_occurrence() {
    let scene = Scene::new();
    scene.write("keys.txt", "a\na\nb\n");
    scene.run("build -q -o f.bloom --kind counting --when-full refuse keys.txt").code(0);
    scene.run_with("build -q -o p.bloom --kind counting --when-full refuse", "a\na\nb\n").code(0);
    assert_eq!(scene.read("f.bloom"), scene.read("p.bloom"), "the same keys, the same file");
}

#[test]
fn a_byte_order_mark_is_told() {
    let scene = Scene::new();
    scene.write("keys.txt", "\u{feff}first\nsecond\n");
    let ran = scene.run("build -o f.bloom keys.txt").code(0);
    assert!(ran.err().contains("keys.txt: it begins with a byte order mark"), "{}", ran.err());
    let plain = scene.run_with("build -o f.bloom", "first\nsecond\n").code(0);
    assert!(!plain.err().contains("byte order"), "{}", plain.err());
}

/// One pass over a pipe: the digests wait on disk, and the filter is folded down when many lines were the same.
#[test]
fn a_long_pipe_is_built_in_one_pass_and_folded_to_what_was_different() {
    let scene = Scene::new();
    // 300,000 lines, more than wait in memory; every one of 60,000 keys five times.
    let keys = lines("key-", 60_000);
    let ran = scene.run_with("build -o a.bloom --json", keys.repeat(5)).code(0);
    assert_eq!((ran.number("keys_read"), ran.field("distinct_is_exact")), (300_000.0, "false".into()));
    let distinct = ran.number("distinct");
    assert!((59_400.0..=60_600.0).contains(&distinct), "{distinct}");
    // Folded by a whole number: at most a third more than the keys need, and never less.
    let bits = ran.number("bits_per_key");
    assert!((10.0..=13.6).contains(&bits) && ran.number("expected_rate") <= 0.0101, "{}", ran.out());
    assert_eq!(scene.run_with("check --count -v a.bloom", keys).out().trim(), "0");
    assert_eq!(scene.files(), ["a.bloom"], "nothing is left of what waited");
}

/// Samples that mislead: long lines where they are taken, short ones between. Too small a filter is noticed, and the
/// file read again.
#[test]
fn a_file_that_misleads_the_samples_still_keeps_its_rate() {
    let scene = Scene::new();
    let (part, sample) = (256 << 10, 64 << 10);
    let mut text = Vec::new();
    let mut short = 0u32;
    for _ in 0..64 {
        let end = text.len() + part;
        let middle = end - part / 2 - sample / 2..end - part / 2 + sample / 2;
        while text.len() < end {
            if middle.contains(&text.len()) {
                text.extend_from_slice(format!("{short:_>2000}\n").as_bytes());
            } else {
                text.extend_from_slice(format!("{short:014}\n").as_bytes());
            }
            short += 1;
        }
    }
    scene.write("keys.txt", &text);
    let ran = scene.run("build -o a.bloom --json keys.txt").code(0);
    assert_eq!(ran.number("keys_read"), f64::from(short));
    assert!(ran.number("capacity") >= f64::from(short) * 0.99, "{}", ran.out());
    assert!((0.005..=0.0101).contains(&ran.number("expected_rate")), "{}", ran.out());
    assert_eq!(scene.run_with("check --count -v a.bloom", text).out().trim(), "0");
}

#[test]
fn keys_are_counted_as_was_asked() {
    let scene = Scene::new();
    let keys = lines("k", 20_000);
    scene.write("keys.txt", keys.repeat(2));
    let of = |how: &str| scene.run(&format!("build -o a.bloom --json {how} keys.txt")).code(0);
    assert_eq!(of("--count twice").number("capacity"), 40_000.0, "every line has room");
    let exact = of("--count digests");
    assert_eq!((exact.number("capacity"), exact.field("distinct_is_exact")), (20_000.0, "true".into()));
    let folded = of("");
    assert!(folded.number("bits_per_key") < 10.5, "{}", folded.out());
    for options in ["--count twice", "--count digests", "--count fold", ""] {
        of(options);
        assert_eq!(scene.run_with("check --count -v a.bloom", keys.as_str()).out().trim(), "0", "{options}");
    }
    scene.run("build -o b.bloom --kind cuckoo --count fold keys.txt").refused(&["cuckoo", "--count"]);
    scene.run_with("build -o b.bloom --count twice", "a\n").refused(&["pipe", "--items"]);
    scene.run("build -o b.bloom --count fold --items 5 keys.txt").refused(&["--items"]);
}

/// Killed at any moment, a build leaves the old file, and nothing beside it.
#[test]
#[cfg(unix)]
fn a_killed_build_leaves_the_old_file() {
    use std::io::Write;
    let scene = Scene::new();
    scene.run_with("build -q -o a.bloom", "old\n").code(0);
    let old = scene.read("a.bloom");
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .args(["build", "-q", "-o"])
        .arg(scene.path("a.bloom"))
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Enough to have digests on disk, and no end.
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(lines("new", 400_000).as_bytes()).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(scene.read("a.bloom") == old);
    assert_eq!(scene.files(), ["a.bloom"]);
    scene.run("check -q a.bloom old").code(0);
}

#[test]
fn a_log_gets_a_line_now_and_then() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("some-longer-key-", 100_000));
    let ran = scene.command("build -o a.bloom keys.txt").env("BLOOMGATE_PROGRESS_SECONDS", "0").output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    let line = said.lines().find(|line| line.starts_with("building: ")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("% of 2.1") && line.contains("/s, ") && line.ends_with(" left"), "{said}");
    let quiet = scene.command("build -q -o a.bloom keys.txt").env("BLOOMGATE_PROGRESS_SECONDS", "0").output().unwrap();
    assert!(quiet.stderr.is_empty());
}

#[test]
fn a_filter_goes_through_a_pipe_as_it_goes_into_a_file() {
    let scene = Scene::new();
    let keys = lines("k", 5000);
    for options in ["", "--kind fuse", "--as guava:utf8", "--compress --items 1M"] {
        scene.run_with(&format!("build -q -o a.bloom {options}"), keys.as_str()).code(0);
        let piped = scene.command(&format!("build -o - {options}")).write_stdin(keys.as_str()).output().unwrap();
        assert!(piped.stdout == scene.read("a.bloom"), "{options}");
        assert!(String::from_utf8_lossy(&piped.stderr).contains("5,000 keys read"), "{options}");
    }
    scene.run_with("build -o - --json", "a\n").refused(&["--json", "name a file"]);
    assert_eq!(scene.files(), ["a.bloom"]);
}
