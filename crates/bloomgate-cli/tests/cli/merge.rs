//! `merge` and `intersect`: one filter of several, no key lost, the rate told as it is, and nothing written when refused.

use crate::scene::{Scene, json_object, lines};

/// Lines `k{from}` to `k{to - 1}`.
fn keys(range: std::ops::Range<u32>) -> String {
    range.map(|i| format!("k{i}\n")).collect()
}

/// `a.txt` and `b.txt`, of 4,000 keys each, half of them in both; and their filters of one shape.
fn two(options: &str) -> Scene {
    let scene = Scene::new();
    scene.write("a.txt", keys(0..4_000)).write("b.txt", keys(2_000..6_000)).write("all.txt", keys(0..6_000));
    for name in ["a", "b"] {
        scene.run(&format!("build -q -o {name}.bloom {options} {name}.txt")).code(0);
    }
    scene
}

/// Flips one byte of a file.
fn flip(scene: &Scene, name: &str, at: usize) {
    let mut bytes = scene.read(name);
    bytes[at] ^= 0x10;
    scene.write(name, bytes);
}

#[test]
fn every_kind_that_merges_keeps_every_key_of_all() {
    for kind in ["blocked", "classic", "partitioned", "counting", "scalable", "quotient"] {
        let scene = two(&format!("--kind {kind} --items 9000"));
        let told = scene.run("merge -o all.bloom a.bloom b.bloom").code(0);
        for words in ["a.bloom: ", "b.bloom: ", "all.bloom: ", "made for 9,000", "expected rate", "1.00 % promised"] {
            assert!(told.err().contains(words), "{kind}: {words:?} is not in {}", told.err());
        }
        assert!(told.out().is_empty() && !told.err().contains("warning"), "{kind}: {}", told.err());
        assert!(scene.run("check all.bloom -f all.txt").code(0).out() == keys(0..6_000), "{kind}: a key is missing");
        let strangers = scene.run_with("check -c all.bloom", lines("stranger", 20_000));
        let maybes: u32 = strangers.out().trim().parse().unwrap();
        assert!(maybes < 260, "{kind}: {maybes} of 20,000 at 1 %");
        let json = scene.run("merge --json -q -o all.bloom a.bloom b.bloom").code(0);
        assert!(json.err().is_empty(), "{}", json.err());
        let (low, high) = (json.number("keys_low"), json.number("keys_high"));
        assert!(low <= json.number("keys") && json.number("keys") <= high, "{kind}: {low} {high}");
        // Quotient filters count copies of a key as often as they are merged in.
        let different = if kind == "quotient" { 5_500.0..=8_500.0 } else { 5_700.0..=6_300.0 };
        assert!(different.contains(&json.number("keys")), "{kind}: {}", json.number("keys"));
        assert_eq!((json.field("over_capacity"), json.number("capacity")), ("false".into(), 9_000.0), "{kind}");
        assert_eq!(json.field("inputs").matches("\"path\"").count(), 2);
        let info = scene.run("info --json all.bloom").code(0);
        assert_eq!(json.field("address"), info.field("address"));
    }
}

/// Chains that have grown, one further than the other, in either order; and what they cost is said.
#[test]
fn chains_of_any_length_merge_and_other_makings_are_refused() {
    let scene = two("--kind scalable --items 500");
    scene.write("c.txt", keys(50_000..50_300));
    scene.run("build -q -o c.bloom --kind scalable --items 500 c.txt").code(0);
    scene.run("build -q -o other.bloom --kind scalable --items 400 c.txt").code(0);
    for (first, second) in [("a", "c"), ("c", "a")] {
        let json = scene.run(&format!("merge --json -q -o all.bloom {first}.bloom {second}.bloom b.bloom")).code(0);
        let found = scene.run("check all.bloom -f all.txt -f c.txt").code(0);
        assert!(found.out() == keys(0..6_000) + &keys(50_000..50_300), "{first}: a key is missing");
        let strangers = scene.run_with("check -c all.bloom", lines("stranger", 20_000));
        let measured = strangers.out().trim().parse::<f64>().unwrap() / 20_000.0;
        let said = json.number("estimated_rate");
        assert!((measured / said - 1.0).abs() < 0.4, "{said} said, {measured} measured");
        assert_eq!(json.field("over_capacity"), (json.number("expected_rate") > 0.01001).to_string());
    }
    scene.run("intersect -o x a.bloom c.bloom").refused(&["a.bloom", "c.bloom", "chains that have grown", "ask both"]);
    let files = scene.files();
    scene.run("merge -o x a.bloom other.bloom").refused(&["500 keys", "400 keys", "--items"]);
    assert_eq!(scene.files(), files);
}

/// The bits are those that all keys would have made.
#[test]
fn a_union_of_bits_is_what_all_keys_would_have_built() {
    for kind in ["blocked", "classic", "partitioned"] {
        let scene = two(&format!("--kind {kind} --items 9000"));
        scene.run("merge -q -o merged.bloom a.bloom b.bloom").code(0);
        scene.run(&format!("build -q -o built.bloom --kind {kind} --items 9000 all.txt")).code(0);
        let (merged, built) = (scene.read("merged.bloom"), scene.read("built.bloom"));
        // The payload is last; before it the count differs, which a union can only estimate.
        assert_eq!(merged.len(), built.len());
        let payload = scene.run("info --json built.bloom").number("filter_bytes") as usize;
        assert!(merged[merged.len() - payload..] == built[built.len() - payload..], "{kind}: other bits");
    }
}

#[test]
fn a_result_past_its_capacity_is_written_and_said() {
    let scene = two("--items 2000");
    scene.write("c.txt", keys(50_000..54_000));
    scene.run("build -q -o c.bloom --items 2000 c.txt").code(0);
    let told = scene.run("merge -o all.bloom a.bloom b.bloom c.bloom").code(0);
    for words in ["warning:", "made for 2,000 keys and holds more", "promised 1.00 %", "--items"] {
        assert!(told.err().contains(words), "{words:?} is not in {}", told.err());
    }
    let json = scene.run("merge --json -q -o all.bloom a.bloom b.bloom c.bloom").code(0);
    assert_eq!(json.field("over_capacity"), "true");
    // The rate that is told is the rate that is there.
    let strangers = scene.run_with("check -c all.bloom", lines("stranger", 20_000));
    let measured = strangers.out().trim().parse::<f64>().unwrap() / 20_000.0;
    let said = json.number("estimated_rate");
    assert!(said > 0.05 && (measured / said - 1.0).abs() < 0.1, "{said} said, {measured} measured");
    assert!(scene.run("check all.bloom -f all.txt -f c.txt").code(0).out() == keys(0..6_000) + &keys(50_000..54_000));
}

#[test]
fn what_does_not_fit_is_refused_with_both_shapes_and_nothing_is_written() {
    let scene = two("--items 9000");
    scene.run("build -q -o large.bloom --items 90000 a.txt").code(0);
    scene.run("build -q -o seed.bloom --items 9000 --seed 7 a.txt").code(0);
    scene.run("build -q -o classic.bloom --items 9000 --kind classic a.txt").code(0);
    scene.run("build -q -o cuckoo.bloom --kind cuckoo a.txt").code(0);
    scene.run("build -q -o full.bloom --items 4000 --when-full refuse a.txt").code(0);
    scene.run("build -q -o more.bloom --items 4000 --when-full refuse b.txt").code(0);
    scene.run("build -q -o a.bfv1 --as bfv1 a.txt").code(0);
    let files = scene.files();
    for verb in ["merge -o x", "intersect -o x", "intersect"] {
        let both = ["a.bloom", "large.bloom", "shape", "--items", "--rate", "--seed"];
        scene.run(&format!("{verb} a.bloom large.bloom")).refused(&both);
        scene.run(&format!("{verb} a.bloom seed.bloom")).refused(&["contract", "seed 0", "seed 7", "--seed"]);
        scene.run(&format!("{verb} a.bloom classic.bloom")).refused(&["blocked", "classic", "--kind"]);
        scene.run(&format!("{verb} cuckoo.bloom cuckoo.bloom")).refused(&["cuckoo", "blocked, classic"]);
        scene.run(&format!("{verb} a.bfv1 a.bfv1")).refused(&["bfv1", "blocked, classic"]);
        scene.run(&format!("{verb} a.bloom nothing.bloom")).refused(&["nothing.bloom"]);
    }
    scene.run("merge -o x full.bloom more.bloom").refused(&["full.bloom", "more.bloom", "4000", "refuses more"]);
    // All or nothing: the second fits and the third does not.
    scene.run("merge -o x a.bloom b.bloom large.bloom").refused(&["large.bloom"]);
    assert_eq!(scene.files(), files);
    scene.run("merge -o x a.bloom").code(2);
}

#[test]
fn a_larger_filter_is_folded_first_and_the_command_is_printed() {
    let scene = two("--items 9000");
    let large = bloomgate::Blocked::builder().items(9_000).fold_levels(4).build().unwrap();
    large.save(scene.path("large.bloom")).unwrap();
    large.folded(4).unwrap().save(scene.path("small.bloom")).unwrap();
    scene.run("merge -o x large.bloom small.bloom").refused(&["bloomgate fold --by 4 -o SMALLER large.bloom"]);
    scene.run("merge -o x small.bloom large.bloom").refused(&["bloomgate fold --by 4 -o SMALLER large.bloom"]);
    scene.run("fold -q --by 4 -o smaller.bloom large.bloom").code(0);
    scene.run("merge -q -o x small.bloom smaller.bloom").code(0);
}

#[test]
fn the_output_may_be_an_input_and_counts_are_not_doubled() {
    let scene = two("--items 9000");
    scene.run("merge -q -o a.bloom a.bloom b.bloom").code(0);
    assert!(scene.run("check a.bloom -f all.txt").code(0).out() == keys(0..6_000));
    for kind in ["counting", "quotient"] {
        let scene = two(&format!("--kind {kind} --items 9000"));
        scene.run("merge -o x a.bloom ./a.bloom").refused(&["a.bloom", "twice", kind]);
    }
    scene.run("merge -o missing/x a.bloom b.bloom").refused(&["missing"]);
}

#[test]
fn keyed_filters_need_their_one_secret() {
    let scene = Scene::new();
    scene.write("a.txt", keys(0..500)).write("b.txt", keys(300..900));
    scene.run("secret new -o one.key").code(0);
    scene.run("secret new -o two.key").code(0);
    for (filter, keys, secret) in [("a", "a", "one"), ("b", "b", "one"), ("c", "b", "two")] {
        scene.run(&format!("build -q -o {filter}.bloom --items 1000 --secret-file {secret}.key {keys}.txt")).code(0);
    }
    scene.run("merge -o x a.bloom b.bloom").refused(&["a.bloom", "--secret-file"]);
    scene.run("merge -o x --secret-file one.key a.bloom c.bloom").refused(&["c.bloom", "secret"]);
    scene.run("merge -o one.key --secret-file one.key a.bloom b.bloom").refused(&["one.key"]);
    scene.run("merge -q -o ab.bloom --secret-file one.key a.bloom b.bloom").code(0);
    let found = scene.run("check -c ab.bloom --secret-file one.key -f a.txt -f b.txt").code(0);
    assert_eq!(found.out(), "1100\n");
    scene.run("intersect --secret-file one.key a.bloom b.bloom").code(0);
}

#[test]
fn what_two_sets_share_is_told_without_a_key() {
    for kind in ["blocked", "classic", "partitioned"] {
        let scene = two(&format!("--kind {kind} --items 9000"));
        let table = scene.run("intersect a.bloom b.bloom").code(0);
        for words in ["a.bloom", "b.bloom", "in one or the other", "in both", "Jaccard", "95 % interval"] {
            assert!(table.out().contains(words), "{kind}: {words:?} is not in\n{}", table.out());
        }
        assert!(table.err().is_empty() && table.out().lines().all(|line| line.len() <= 80));
        let json = scene.run("intersect --json a.bloom b.bloom").code(0);
        for (name, truth, doubt) in
            [("keys_a", 4e3, 100.0), ("keys_b", 4e3, 100.0), ("union", 6e3, 150.0), ("intersection", 2e3, 200.0)]
        {
            let (value, low, high) =
                (json.number(name), json.number(&format!("{name}_low")), json.number(&format!("{name}_high")));
            assert!(
                (value - truth).abs() < doubt && low <= value && value <= high,
                "{kind} {name}: {low} {value} {high}"
            );
            // Two sides: an interval that says something, and that is not twice off.
            assert!(high > low && high - low < 4.0 * doubt, "{kind} {name}: {low} to {high}");
            assert!((value - truth).abs() <= 2.0 * (high - low), "{kind} {name}: {truth} is far from {low} to {high}");
        }
        assert!((json.number("jaccard") - 1.0 / 3.0).abs() < 0.05, "{kind}: {}", json.number("jaccard"));
    }
}

#[test]
fn an_intersection_answers_maybe_exactly_where_both_do() {
    let scene = two("--items 9000 --rate 5%");
    let told = scene.run("intersect -o both.bloom a.bloom b.bloom").code(0);
    for words in ["every key that both hold", "of the keys of the first alone", "in both", "both.bloom"] {
        assert!(told.err().contains(words), "{words:?} is not in {}", told.err());
    }
    assert!(told.out().is_empty());
    let asked = keys(0..6_000) + &lines("stranger", 6_000);
    let maybes = |filter: &str| scene.run_with(&format!("check {filter}.bloom"), asked.clone()).out();
    let (a, b, both) = (maybes("a"), maybes("b"), maybes("both"));
    let in_b: std::collections::HashSet<&str> = b.lines().collect();
    let expected: Vec<&str> = a.lines().filter(|key| in_b.contains(key)).collect();
    assert_eq!(both.lines().collect::<Vec<_>>(), expected);
    assert!((0..2_000).all(|i| both.contains(&format!("k{}\n", 2_000 + i))), "a common key is missing");
    let json = scene.run("intersect --json -q -o both.bloom a.bloom b.bloom").code(0);
    let result = json_object(&json.field("result"));
    let rate: f64 = result.iter().find(|(name, _)| name == "estimated_rate").unwrap().1.parse().unwrap();
    assert!(rate < 0.01, "{rate}");
}

#[test]
fn damage_is_named_with_file_chunk_and_offset() {
    let scene = two("--items 200000");
    let length = scene.read("b.bloom").len();
    assert!(length > 3 * 65_536, "{length}");
    flip(&scene, "b.bloom", length - 70_000);
    for verb in ["merge -o x", "intersect -o x", "intersect"] {
        scene.run(&format!("{verb} a.bloom b.bloom")).refused(&["b.bloom", "PAYLOAD", "chunk", "offset"]);
        scene.run(&format!("{verb} b.bloom a.bloom")).refused(&["b.bloom", "PAYLOAD", "chunk", "offset"]);
    }
    flip(&scene, "a.bloom", 70);
    scene.run("merge -o x a.bloom a.bloom").refused(&["a.bloom"]);
    assert!(!scene.files().contains(&"x".into()));
}

#[test]
fn empty_and_full_filters_have_numbers_too() {
    let scene = Scene::new();
    scene.write("none.txt", "").write("many.txt", keys(0..5_000));
    scene.run("build -q -o empty.bloom --items 10 none.txt").code(0);
    scene.run("build -q -o full.bloom --items 10 many.txt").code(0);
    let json = scene.run("intersect --json empty.bloom empty.bloom").code(0);
    assert_eq!((json.number("union"), json.number("jaccard")), (0.0, 1.0));
    let json = scene.run("merge --json -q -o x empty.bloom empty.bloom").code(0);
    assert_eq!((json.number("keys"), json.number("expected_rate")), (0.0, 0.0));
    scene.run("check x k1").code(1);
    // Every bit is set: any larger number of keys would look the same.
    let told = scene.run("merge -o x empty.bloom full.bloom").code(0);
    assert!(told.err().contains("at least") && told.err().contains("warning:"), "{}", told.err());
    let json = scene.run("merge --json -q -o x empty.bloom full.bloom").code(0);
    assert_eq!((json.field("keys_high"), json.field("over_capacity")), ("null".into(), "true".into()));
    assert!(json.number("estimated_rate") > 0.99, "{}", json.number("estimated_rate"));
    assert!(scene.run("intersect full.bloom full.bloom").code(0).out().contains("or more"));
}
