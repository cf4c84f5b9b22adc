//! Filters of other systems: recognised where they can be, named where they cannot, and never guessed.

use crate::scene::{Scene, lines};

/// A file that real Guava wrote, and beside it what it answered.
const GUAVA: &[u8] = include_bytes!("../../../bloomgate/tests/foreign/guava/utf8-1-300.bf");

#[test]
fn what_is_built_in_a_form_is_recognised_or_named() {
    let scene = Scene::new();
    let keys = lines("https://example.org/", 3_000);
    scene.write("keys.txt", &keys);
    for (form, recognised) in
        [("bfv1", true), ("redisbloom", true), ("rediscuckoo", true), ("guava:utf8", false), ("parquet", false)]
    {
        let told = scene.run(&format!("build -o f --as {form} --rate 0.05 keys.txt")).code(0);
        assert!(told.err().contains("3,000 keys read"), "{form}: {}", told.err());
        let name = if recognised { String::new() } else { format!("--as {form}") };
        let found = scene.run(&format!("check {name} f -f keys.txt")).code(0);
        assert!(found.out() == keys, "{form}: a key is missing");
        let strangers = scene.run_with(&format!("check -c {name} f"), lines("https://example.com/", 3_000));
        let maybes: u32 = strangers.out().trim().parse().unwrap();
        assert!((1..300).contains(&maybes), "{form}: {maybes} of 3,000");
        let screen = scene.run(&format!("info {name} f")).code(0);
        for words in
            [form.split(':').next().unwrap(), "form of another system", "no secret", "no checksums", "certainly"]
        {
            assert!(screen.out().contains(words), "{form}: {words:?} is not in\n{}", screen.out());
        }
        assert!(screen.out().lines().all(|line| line.chars().count() <= 80), "{}", screen.out());
        let json = scene.run(&format!("info --json {name} f")).code(0);
        assert_eq!(json.field("foreign"), "true");
        if !recognised {
            // A guess would be a wrong "no".
            scene.run("check f https://example.org/1").refused(&["not a"]);
            scene.run("info f").refused(&["not a"]);
        }
    }
}

/// Its fingerprints have eight bits: only a rate that somebody asked for is held against them.
#[test]
fn rediscuckoo_needs_no_rate() {
    let scene = Scene::new();
    let keys = lines("k", 1_000);
    scene.write("keys.txt", &keys);
    scene.run("build -q -o f --as rediscuckoo keys.txt").code(0);
    assert!(scene.run("check f -f keys.txt").code(0).out() == keys);
    scene.run("build -o f --as rediscuckoo --rate 0.01 keys.txt").refused(&["0.016", "0.01"]);
}

#[test]
fn what_guava_wrote_is_answered_as_guava_does() {
    let scene = Scene::new();
    scene.write("words.bf", GUAVA);
    let told = include_str!("../../../bloomgate/tests/foreign/guava/utf8-1-300.txt");
    let mut asked = 0;
    for (fact, key) in told.lines().filter_map(|line| line.split_once(' ')) {
        let maybe = match fact {
            "member" | "yes" => true,
            "no" => false,
            _ => continue,
        };
        asked += 1;
        if asked % 97 == 0 {
            let ran = scene.command("check -q --as guava:utf8 words.bf --").arg(key).output().unwrap();
            assert_eq!(ran.status.code(), Some(i32::from(!maybe)), "{key}");
        }
    }
    assert!(asked > 300, "{asked} keys in the fixture");
    // The wrong type of key is refused where it can be: a word is no number.
    scene.run("check --as guava:long words.bf word").refused(&["word"]);
    scene.run("check --as guava words.bf word").refused(&["guava:utf8"]);
    scene.run("check --as nobody words.bf word").refused(&["bfv1"]);
}

#[test]
fn forms_and_our_own_options_exclude_each_other() {
    let scene = Scene::new();
    scene.write("keys.txt", "a\n");
    for options in ["--kind classic", "--keys u64", "--hash murmur3", "--compress"] {
        scene.run(&format!("build -o f --as bfv1 {options} keys.txt")).code(2);
    }
    for options in ["--headroom 2", "--when-full refuse", "--items 5"] {
        scene.run(&format!("build -o f --kind fuse {options} keys.txt")).refused(&["built once"]);
    }
}

/// Lines that repeat take one slot: a list of keys is a set, however it was put together.
#[test]
fn repeated_lines_fill_no_table() {
    let scene = Scene::new();
    let keys = lines("k", 20_000);
    scene.write("once.txt", &keys);
    scene.write("twice.txt", format!("{keys}{keys}{keys}"));
    for kind in ["cuckoo", "growing-cuckoo", "quotient"] {
        scene.run(&format!("build -q -o once.bloom --kind {kind} once.txt")).code(0);
        let told = scene.run(&format!("build -o thrice.bloom --kind {kind} twice.txt")).code(0);
        assert!(told.err().contains("60,000 keys read, 20,000 different"), "{}", told.err());
        assert_eq!(scene.read("once.bloom"), scene.read("thrice.bloom"), "{kind}");
    }
    // RedisBloom's cuckoo form keeps what its 8 bits can, and says so if more is asked.
    scene.run("build -q -o f --as rediscuckoo once.txt").code(0);
    scene.run("build -o f --as rediscuckoo --rate 0.1% once.txt").refused(&["leave --rate out"]);
}
