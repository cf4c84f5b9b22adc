//! `fold`: smaller, no key lost, the rate told before and after, and refused with how often it can be halved.

use bloomgate::Blocked;

use crate::scene::{Scene, lines};

/// `f.bloom` for 100,000 keys with 3,000 in it, which can be halved six times; `keys.txt` are those.
fn sparse() -> Scene {
    let scene = Scene::new();
    let keys = lines("k", 3_000);
    let mut filter = Blocked::builder().items(100_000).fold_levels(6).build().unwrap();
    filter.insert_all(keys.lines()).unwrap();
    filter.save(scene.path("f.bloom")).unwrap();
    scene.write("keys.txt", keys);
    scene
}

fn measured(scene: &Scene, filter: &str) -> f64 {
    let strangers = scene.run_with(&format!("check -c {filter}"), lines("stranger", 20_000));
    strangers.out().trim().parse::<f64>().unwrap() / 20_000.0
}

#[test]
fn every_way_to_fold_keeps_every_key_and_its_rate() {
    let scene = sparse();
    for (how, most) in [("--fit", 0.01), ("--to-rate 5%", 0.05), ("--times 5", 0.02), ("--by 4", 0.01)] {
        let told = scene.run(&format!("fold {how} -o small.bloom f.bloom")).code(0);
        for words in ["small.bloom: folded by ", " to ", "before: about", "now: about", "made for", "by the bits"] {
            assert!(told.err().contains(words), "{how}: {words:?} is not in {}", told.err());
        }
        assert!(told.out().is_empty() && !told.err().contains("warning"), "{how}: {}", told.err());
        assert!(
            scene.run("check small.bloom -f keys.txt").code(0).out() == lines("k", 3_000),
            "{how}: a key is missing"
        );
        let json = scene.run(&format!("fold --json -q {how} -o small.bloom f.bloom")).code(0);
        let (factor, size) = (json.number("folded_by"), json.number("filter_bytes"));
        assert!(factor >= 4.0 && scene.read("small.bloom").len() as f64 == json.number("file_bytes"), "{how}");
        let before = scene.run("info --json f.bloom").number("filter_bytes");
        assert_eq!(before / size, factor, "{how}");
        let (said, is) = (json.number("estimated_rate"), measured(&scene, "small.bloom"));
        assert!(said <= most * 1.05 && (is - said).abs() < 0.002 + 0.25 * said, "{how}: {said} said, {is} measured");
    }
    // As far as the rate allows, and no less.
    let fitted = scene.run("fold --json -q --fit -o small.bloom f.bloom").code(0);
    assert!(fitted.number("expected_rate") > 0.002 && fitted.number("folded_by") >= 20.0);
    assert_eq!(scene.files(), ["f.bloom", "keys.txt", "small.bloom"]);
}

#[test]
fn without_an_output_the_filter_is_replaced() {
    let scene = sparse();
    let before = scene.read("f.bloom").len();
    scene.run("fold -q --times 1 f.bloom").code(0);
    scene.run("fold -q --times 2 f.bloom").code(0);
    // An eighth of the bits, and a head of some 3 kB as before.
    assert!(scene.read("f.bloom").len() * 6 < before);
    assert_eq!(scene.run("check -c f.bloom -f keys.txt").code(0).out(), "3000\n");
    assert_eq!(scene.files(), ["f.bloom", "keys.txt"]);
    // Fitted twice: the second time there is nothing to do, and nothing is done.
    scene.run("fold -q --fit f.bloom").code(0);
    let fitted = scene.read("f.bloom");
    let told = scene.run("fold --fit f.bloom").code(0);
    assert!(told.err().contains("nothing was changed") && scene.read("f.bloom") == fitted, "{}", told.err());
    let json = scene.run("fold --json -q --fit f.bloom").code(0);
    assert_eq!((json.number("folded_by"), json.field("written")), (1.0, "false".into()));
    let told = scene.run("fold --fit -o copy.bloom f.bloom").code(0);
    assert!(told.err().contains("copied to copy.bloom") && scene.read("copy.bloom") == fitted, "{}", told.err());
}

#[test]
fn a_fold_past_the_promise_is_done_and_said() {
    let scene = sparse();
    let told = scene.run("fold --times 6 -o small.bloom f.bloom").code(0);
    for words in ["warning:", "holds more", "promised 1.00 %", "--to-rate"] {
        assert!(told.err().contains(words), "{words:?} is not in {}", told.err());
    }
    let said = scene.run("fold --json -q --times 6 -o small.bloom f.bloom").number("estimated_rate");
    let is = measured(&scene, "small.bloom");
    assert!(said > 0.01 && (is / said - 1.0).abs() < 0.15, "{said} said, {is} measured");
    assert_eq!(scene.run("check -c small.bloom -f keys.txt").code(0).out(), "3000\n");
}

#[test]
fn what_cannot_be_folded_is_refused_with_the_reason() {
    let scene = sparse();
    let before = scene.read("f.bloom");
    scene.run("fold --times 20 f.bloom").refused(&[
        "f.bloom",
        "cannot be folded by 1048576",
        "it can be halved 6 times",
    ]);
    scene.run("fold --by 7919 f.bloom").refused(&["f.bloom", "7919", "it can be halved 6 times"]);
    scene.run("fold --to-rate 1e-12 f.bloom").refused(&["f.bloom", "3000 keys", "a rate of"]);
    for kind in ["cuckoo", "counting", "fuse", "scalable"] {
        scene.run(&format!("build -q -o k.bloom --kind {kind} keys.txt")).code(0);
        scene.run("fold --fit k.bloom").refused(&["k.bloom", kind, "blocked, classic and partitioned"]);
    }
    for wrong in ["", "--times 0", "--times 32", "--by 1", "--times 1 --fit", "--to-rate 0"] {
        scene.run(&format!("fold {wrong} f.bloom")).code(2);
    }
    assert!(scene.read("f.bloom") == before);
    let at = before.len() - 70_000;
    let mut damaged = before;
    damaged[at] ^= 1;
    scene.write("f.bloom", &damaged);
    scene.run("fold --fit f.bloom").refused(&["f.bloom", "PAYLOAD", "chunk", "offset"]);
    assert!(scene.read("f.bloom") == damaged);
}

/// A keyed filter opens with its secret alone, and a compressed one stays compressed where that pays.
#[test]
fn keyed_and_compressed_filters_fold_too() {
    let scene = sparse();
    scene.run("secret new -o s.key").code(0);
    let secret = bloomgate::Secret::read_file(scene.path("s.key")).unwrap();
    let mut filter = Blocked::builder().secret(&secret).items(100_000).fold_levels(3).build().unwrap();
    filter.insert_all(lines("k", 1_000).lines()).unwrap();
    let compress = bloomgate::format::Compression::WhereItPays;
    filter.save_with(scene.path("f.bloom"), &bloomgate::SaveOptions::new().compress(compress)).unwrap();
    scene.run("fold --times 2 f.bloom").refused(&["f.bloom", "--secret-file"]);
    scene.run("fold -q --times 2 --secret-file s.key f.bloom").code(0);
    let info = scene.run("info --json f.bloom").code(0);
    assert_eq!(info.field("compressed"), "true");
    let found = scene.run_with("check -c f.bloom --secret-file s.key", lines("k", 1_000));
    assert_eq!(found.out(), "1000\n");
}

/// Built with room for halvings, a filter can be folded so often whatever its size.
#[test]
fn a_filter_built_for_halvings_is_halved() {
    let scene = Scene::new();
    let keys = lines("k", 1000);
    for kind in ["blocked", "classic", "partitioned"] {
        let build = format!("build -q -o a.bloom --kind {kind} --items 99991 --rate 0.003 --fold-levels 5");
        scene.run_with(&build, keys.as_str()).code(0);
        scene.run("fold --times 5 -o b.bloom a.bloom").code(0);
        // A thirty-second of the bits, and the same few kilobytes around them.
        assert!(scene.read("b.bloom").len() * 12 < scene.read("a.bloom").len(), "{kind}");
        assert_eq!(scene.run_with("check --count -v b.bloom", keys.as_str()).out().trim(), "0", "{kind}");
    }
    scene.run_with("build -o c.bloom --kind cuckoo --fold-levels 2", "a\n").refused(&["cuckoo", "--fold-levels"]);
    scene.run_with("build -o c.bloom --fold-levels 21", "a\n").refused(&["0..=20"]);
}
