//! `verify`: a missing key, a broken rate and a damaged file are each found, and a good filter passes.

use crate::scene::{KINDS, Scene, lines};

#[test]
fn every_kind_is_verified() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("key ", 20_000));
    for kind in KINDS {
        scene.run(&format!("build -q -o {kind}.bloom --kind {kind} --rate 1% keys.txt")).code(0);
        let ran = scene.run(&format!("verify --json {kind}.bloom keys.txt")).code(0);
        assert_eq!((ran.number("keys"), ran.number("missing")), (20_000.0, 0.0), "{kind}");
        assert_eq!(ran.number("absent_keys"), 100_000.0, "{kind}");
        // Neither above the promise nor other than expected; and inside its own interval.
        assert_eq!(
            (ran.field("rate_is_kept"), ran.field("rate_is_expected")),
            ("true".into(), "true".into()),
            "{kind}"
        );
        let (rate, low, high) = (ran.number("rate"), ran.number("rate_low"), ran.number("rate_high"));
        let width = (high - low) / (2.0 * 2.576 * (rate / 100_000.0).sqrt());
        assert!(low < rate && rate < high && (0.9..1.2).contains(&width), "{kind}: {low} {rate} {high}");
        assert_eq!(rate, ran.number("false_positives") / 100_000.0);
    }
    let ran = scene.run("verify blocked.bloom keys.txt").code(0);
    assert!(
        ran.out().contains("20,000 keys asked, none missing") && ran.out().contains("as expected"),
        "{}",
        ran.out()
    );
    assert_eq!(ran.err(), "");
    assert_eq!(scene.run("verify -q blocked.bloom keys.txt").code(0).out(), "");
    assert_eq!(
        scene.run("verify blocked.bloom keys.txt").out(),
        scene.run_with("verify blocked.bloom", lines("key ", 20_000)).code(0).out(),
        "from a pipe, and always the same keys"
    );
    let other = scene.run("verify --json --seed 1 blocked.bloom keys.txt").code(0);
    assert_ne!(
        other.field("false_positives"),
        scene.run("verify --json blocked.bloom keys.txt").field("false_positives")
    );
}

#[test]
fn missing_keys_are_shown_with_their_places() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("key ", 1_000)).write("more.txt", "key 3\n\nnew\nne\"w\n");
    scene.run("build -q -o f.bloom --rate 1e-6 keys.txt").code(0);
    let ran = scene.run("verify f.bloom keys.txt more.txt").code(1);
    assert!(ran.out().contains("1,003 keys asked, 2 missing"), "{}", ran.out());
    assert!(
        ran.out().contains("more.txt:3: \"new\"") && ran.out().contains("more.txt:4: \"ne\\\"w\""),
        "{}",
        ran.out()
    );
    let many = scene.run_with("verify f.bloom", lines("x", 500)).code(1);
    assert!(
        many.out().contains("500 missing") && many.out().matches("standard input:").count() == 10,
        "{}",
        many.out()
    );
    let json = scene.run("verify --json f.bloom more.txt").code(1);
    assert_eq!((json.number("missing"), json.field("ok")), (2.0, "false".into()));
    assert!(json.field("first_missing").contains("more.txt:3"), "{}", json.out());
    scene.run("verify -q f.bloom more.txt").code(1);
}

/// A filter that holds ten times what it was made for has all its keys and breaks its promise.
#[test]
fn a_rate_above_the_promise_fails() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("key ", 10_000)).write("few.txt", lines("key ", 1_000));
    scene.run("build -q -o full.bloom --items 1k --rate 1% keys.txt").code(0);
    let ran = scene.run("verify --json full.bloom keys.txt").code(1);
    assert_eq!((ran.number("missing"), ran.field("rate_is_kept")), (0.0, "false".into()));
    assert_eq!(ran.field("rate_is_expected"), "true", "the bits say so: {}", ran.out());
    assert!(scene.run("verify full.bloom keys.txt").code(1).out().contains("above the promise"));
    // A quarter too many is too much, for a filter of some size.
    scene.write("many.txt", lines("key ", 30_000));
    scene.run("build -q -o over.bloom --items 24k --rate 1% many.txt").code(0);
    let ran = scene.run("verify --json over.bloom many.txt").code(1);
    assert!((0.015..0.04).contains(&ran.number("rate")) && ran.number("missing") == 0.0, "{}", ran.out());
    // One with room to spare is better than promised.
    scene.run("build -q -o room.bloom --items 10k --rate 1% few.txt").code(0);
    let ran = scene.run("verify --json room.bloom few.txt").code(0);
    assert!(ran.number("rate") < 1e-3 && ran.field("rate_is_expected") == "true", "{}", ran.out());
}

#[test]
fn absent_keys_may_be_given() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("key ", 10_000)).write("half.txt", lines("key ", 5_000));
    scene.write("other.txt", lines("key ", 60_000)).write("empty.txt", "");
    scene.run("build -q -o f.bloom --rate 1% keys.txt").code(0);
    // 10,000 of them are in the source, and those that come twice count once.
    let ran = scene.run("verify --json f.bloom keys.txt --absent other.txt --absent other.txt").code(0);
    assert_eq!((ran.number("absent_keys"), ran.number("absent_keys_in_source")), (50_000.0, 10_000.0));
    assert!(ran.field("rate_is_expected") == "true" && ran.field("absent_keys_are") == "\"given\"", "{}", ran.out());
    let expected = ran.number("expected_rate") * 50_000.0;
    assert!((ran.number("false_positives") - expected).abs() < 4.5 * expected.sqrt(), "{}", ran.out());
    // Keys that are in the filter and not in the source are no false positives, but nobody can know.
    let ran = scene.run("verify f.bloom half.txt --absent other.txt").code(1);
    assert!(ran.out().contains("above the promise"), "{}", ran.out());
    scene.run("verify f.bloom keys.txt --absent empty.txt").refused(&["no keys"]);
    scene.run("verify f.bloom empty.txt").refused(&["the source has no keys", "nothing is proven"]);
    scene.run("verify f.bloom keys.txt --absent other.txt --probes 10").refused(&["--probes"]);
    scene.run_with("verify f.bloom - --absent -", "a\n").refused(&["more than once"]);
}

#[test]
fn typed_keys_and_keyed_filters_are_verified() {
    let scene = Scene::new();
    let uuids = (0..2_000u64)
        .map(|i| format!("{:032x}\n", u128::from(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
        .collect::<String>();
    scene.write("ids.txt", lines("", 2_000)).write("uuids.txt", uuids);
    scene.write("pairs.txt", (0..2_000).map(|i| format!("{i}\tname {i}\n")).collect::<String>());
    scene.write("paths.txt", (0..2_000).map(|i| format!("/data/user{i}/file\n")).collect::<String>());
    for (keys, file) in [
        ("u64", "ids.txt"),
        ("i128", "ids.txt"),
        ("uuid", "uuids.txt"),
        ("tuple(u64,text)", "pairs.txt"),
        ("prefix-delimiter(/,3)", "paths.txt"),
    ] {
        scene.run(&format!("build -q -o f.bloom --keys {keys} --rate 1% {file}")).code(0);
        let ran = scene.run(&format!("verify --json f.bloom {file}")).code(0);
        assert_eq!((ran.number("absent_keys"), ran.field("rate_is_expected")), (100_000.0, "true".into()), "{keys}");
    }
    scene.run("build -q -o f.bloom --keys u64 ids.txt").code(0);
    let ran = scene.run_with("verify f.bloom", "1\ntwo\n3\n").code(2);
    assert!(
        ran.err().contains("standard input:2:") && ran.out().contains("2 keys asked"),
        "{}{}",
        ran.err(),
        ran.out()
    );
    scene.run("secret new -o s.txt").code(0);
    scene.run("build -q -o k.bloom --secret-file s.txt ids.txt").code(0);
    scene.run("verify k.bloom ids.txt").refused(&["--secret-file"]);
    scene.run("verify k.bloom ids.txt --secret-file s.txt").code(0);
    scene.run("build -q -o b.bf --as bfv1 ids.txt").code(0);
    // That form does not say what was promised: the user may.
    let ran = scene.run("verify --json b.bf ids.txt").code(0);
    assert_eq!((ran.field("promised_rate"), ran.field("rate_is_expected")), ("null".into(), "true".into()));
    scene.run("verify b.bf ids.txt --rate 1.1%").code(0);
    assert!(scene.run("verify b.bf ids.txt --rate 0.5%").code(1).out().contains("above the promise"));
    scene.run("build -q -o g.bf --as guava:utf8 ids.txt").code(0);
    scene.run("verify g.bf --as guava:utf8 ids.txt").code(0);
}

#[test]
fn a_damaged_file_is_an_error_with_its_place() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("key ", 200_000));
    scene.run("build -q -o f.bloom keys.txt").code(0);
    let mut bytes = scene.read("f.bloom");
    let place = bytes.len() - 100;
    bytes[place] ^= 4;
    scene.write("f.bloom", &bytes);
    scene.run("verify f.bloom keys.txt").refused(&["f.bloom", "chunk", "offset", "damaged"]);
    scene.run("build -q -o f.bloom --compress --items 2M keys.txt").code(0);
    let mut bytes = scene.read("f.bloom");
    let place = bytes.len() - 100;
    bytes[place] ^= 4;
    scene.write("f.bloom", &bytes);
    scene.run("verify f.bloom keys.txt").refused(&["f.bloom"]);
    scene.run("verify missing.bloom keys.txt").refused(&["missing.bloom"]);
    scene.run("verify keys.txt keys.txt").refused(&["keys.txt", "not a Bloomgate file"]);
}
