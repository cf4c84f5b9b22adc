//! `diff`, `patch` and `info` of a delta: the very file on the other side, or nothing.

use crate::scene::{Scene, lines};

/// `old.bloom` of 9,000 keys, `new.bloom` of 9,100; `new.txt` are the keys of the new one.
fn published(kind: &str) -> Scene {
    let scene = Scene::new();
    scene.write("old.txt", lines("k", 9_000)).write("new.txt", lines("k", 9_100));
    for name in ["old", "new"] {
        scene.run(&format!("build -q -o {name}.bloom --kind {kind} --items 10000 {name}.txt")).code(0);
    }
    scene
}

#[test]
fn a_patched_filter_is_the_new_filter() {
    for kind in ["blocked", "classic", "counting", "cuckoo", "quotient"] {
        let scene = published(kind);
        let told = scene.run("diff old.bloom new.bloom -o d.delta").code(0);
        for words in ["d.delta: ", " of the new file's ", "the smallest form is"] {
            assert!(told.err().contains(words), "{kind}: {words:?} is not in {}", told.err());
        }
        let info = scene.run("info --json d.delta").code(0);
        let (from, to) = (scene.run("info --json old.bloom"), scene.run("info --json new.bloom"));
        assert_eq!((info.field("from"), info.field("to")), (from.field("address"), to.field("address")), "{kind}");
        assert_eq!(info.number("file_bytes"), scene.read("d.delta").len() as f64);
        if kind == "blocked" {
            assert!(info.field("form").contains("changed bits") && info.number("share_of_whole") < 0.2);
        }
        scene.run("patch old.bloom d.delta -o patched.bloom").code(0);
        assert!(scene.read("patched.bloom") == scene.read("new.bloom"), "{kind}");
        let told = scene.run("patch old.bloom d.delta").code(0);
        assert!(told.err().contains(to.field("address").trim_matches('"')), "{kind}: {}", told.err());
        assert!(scene.read("old.bloom") == scene.read("new.bloom"), "{kind}");
        assert!(scene.run("check old.bloom -f new.txt").code(0).out() == lines("k", 9_100), "{kind}: a key is missing");
    }
}

#[test]
fn a_delta_says_what_it_is() {
    let scene = published("blocked");
    let json = scene.run("diff --json -q old.bloom new.bloom -o d.delta").code(0);
    assert!(json.err().is_empty());
    let screen = scene.run("info d.delta").code(0);
    let (from, to) = (json.field("from"), json.field("to"));
    for words in [
        from.trim_matches('"'),
        to.trim_matches('"'),
        "the bits that changed",
        "a delta",
        "bloomgate patch",
        "checksum",
    ] {
        assert!(screen.out().contains(words), "{words:?} is not in\n{}", screen.out());
    }
    assert!(screen.out().lines().all(|line| line.chars().count() <= 80), "{}", screen.out());
    assert!(scene.run("info --verify d.delta").code(0).out().contains("every checksum right"));
    assert_eq!(scene.run("info --json d.delta").code(0).out(), json.out());
    // A delta is no filter, and a filter no delta.
    scene.run("check d.delta k1").refused(&["d.delta", "delta, not a filter"]);
    scene.run("patch old.bloom new.bloom").refused(&["new.bloom", "not a delta"]);
    scene.run("diff old.bloom d.delta -o x").refused(&["d.delta", "delta, not a filter"]);
}

#[test]
fn a_delta_on_the_wrong_file_or_twice_changes_nothing() {
    let scene = published("blocked");
    scene.write("later.txt", lines("k", 9_200));
    scene.run("build -q -o later.bloom --items 10000 later.txt").code(0);
    scene.run("diff -q old.bloom new.bloom -o one.delta").code(0);
    scene.run("diff -q new.bloom later.bloom -o two.delta").code(0);
    let old = scene.read("old.bloom");
    scene.run("patch old.bloom two.delta").refused(&["old.bloom", "two.delta is for another file", "in their order"]);
    scene.run("patch old.bloom two.delta -o x").refused(&["another file"]);
    assert!(scene.read("old.bloom") == old && !scene.files().contains(&"x".into()));
    scene.run("patch -q old.bloom one.delta").code(0);
    scene.run("patch old.bloom one.delta").refused(&[
        "old.bloom",
        "one.delta was applied already",
        "nothing was changed",
    ]);
    assert!(scene.read("old.bloom") == scene.read("new.bloom"));
    let json = scene.run("patch -q --json old.bloom two.delta").code(0);
    assert!(scene.read("old.bloom") == scene.read("later.bloom"));
    assert_eq!(json.field("address"), scene.run("info --json later.bloom").field("address"));
}

#[test]
fn nothing_that_is_read_is_replaced() {
    let scene = published("blocked");
    scene.run("diff -q old.bloom new.bloom -o d.delta").code(0);
    let files = scene.files();
    for name in ["old.bloom", "new.bloom"] {
        scene.run(&format!("diff old.bloom new.bloom -o {name}")).refused(&[name, "write to another file"]);
    }
    scene.run("patch old.bloom d.delta -o d.delta").refused(&["d.delta", "write to another file"]);
    scene.run("patch old.bloom missing.delta").refused(&["missing.delta"]);
    scene.run("diff old.bloom missing.bloom -o x").refused(&["missing.bloom"]);
    assert_eq!(scene.files(), files);
}

#[test]
fn damage_is_named_with_its_file_and_place() {
    let scene = published("blocked");
    scene.run("diff -q old.bloom new.bloom -o d.delta").code(0);
    let flipped = |name: &str, back: usize| {
        let mut bytes = scene.read(name);
        let at = bytes.len() - back;
        bytes[at] ^= 4;
        bytes
    };
    scene.write("old.bad", flipped("old.bloom", 5_000)).write("d.bad", flipped("d.delta", 100));
    scene.run("diff old.bad new.bloom -o x").refused(&["old.bad", "PAYLOAD", "chunk 0", "offset"]);
    scene.run("diff new.bloom old.bad -o x").refused(&["old.bad", "PAYLOAD", "chunk 0", "offset"]);
    scene.run("patch old.bad d.delta -o x").refused(&["old.bad", "damaged", "PAYLOAD", "chunk 0", "offset"]);
    let said = scene.run("patch old.bad d.delta -o x").err();
    assert!(!said.contains("another file") && said.contains("nothing was changed"), "{said}");
    let half = scene.read("old.bad");
    scene.write("old.bad", &half[..half.len() / 2]);
    let said = scene.run("patch old.bad d.delta -o x").err();
    assert!(said.contains("ends too early") && said.matches("old.bad").count() == 1, "{said}");
    scene.run("patch old.bloom d.bad -o x").refused(&["d.bad", "PAYLOAD", "chunk 0", "offset"]);
    scene.run("info d.bad").refused(&["d.bad", "PAYLOAD", "chunk 0", "offset"]);
    assert!(!scene.files().contains(&"x".into()));
}

#[test]
fn what_differs_everywhere_is_sent_whole_and_said() {
    let scene = published("blocked");
    scene.run("build -q -o other.bloom --items 10000 --seed 9 new.txt").code(0);
    let told = scene.run("diff old.bloom other.bloom -o d.delta").code(0);
    assert!(told.err().contains("the whole new file") && told.err().contains("--seed"), "{}", told.err());
    scene.run("patch -q old.bloom d.delta -o x").code(0);
    assert!(scene.read("x") == scene.read("other.bloom"));
    let same = scene.run("diff old.bloom old.bloom -o none.delta").code(0);
    assert!(same.err().contains("both files are the same"), "{}", same.err());
    scene.run("patch -q old.bloom none.delta").code(0);
    // No secret is needed for a keyed one, and foreign forms are wrapped first.
    scene.run("secret new -o s.key").code(0);
    for name in ["old", "new"] {
        scene.run(&format!("build -q -o {name}.bloom --items 10000 --secret-file s.key {name}.txt")).code(0);
    }
    scene.run("diff -q old.bloom new.bloom -o d.delta").code(0);
    scene.run("patch -q old.bloom d.delta").code(0);
    assert!(scene.read("old.bloom") == scene.read("new.bloom"));
    scene.run("build -q -o f.bfv1 --as bfv1 old.txt").code(0);
    scene.run("diff f.bfv1 new.bloom -o x").refused(&["f.bfv1", "convert --to bloomgate"]);
}

#[test]
fn deltas_go_through_pipes() {
    let scene = published("blocked");
    scene.run("diff -q old.bloom new.bloom -o d.delta").code(0);
    let piped = scene.command("diff old.bloom new.bloom -o -").output().unwrap();
    assert!(piped.status.success() && piped.stdout == scene.read("d.delta"));
    assert!(String::from_utf8_lossy(&piped.stderr).contains("the smallest form is"));
    scene.run("diff --json old.bloom new.bloom -o -").refused(&["standard output"]);
    scene.run_with("patch old.bloom -", "no delta").refused(&["standard input", "not a Bloomgate file"]);
    scene.run_with("patch old.bloom -", &piped.stdout[..100]).refused(&["standard input"]);
    scene.run_with("patch -q old.bloom -", &piped.stdout[..]).code(0);
    assert!(scene.read("old.bloom") == scene.read("new.bloom"));
    scene.run_with("patch old.bloom -", &piped.stdout[..]).refused(&["old.bloom", "applied already"]);
}
