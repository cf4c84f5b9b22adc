//! `add` and `remove`: a filter that is there gets or loses keys, whole or not at all.

use crate::scene::{Scene, lines};

fn all_maybe(scene: &Scene, filter: &str, keys: &str) {
    let ran = scene.run_with(&format!("check --count -v {filter}"), keys);
    assert_eq!(ran.out().trim(), "0", "{filter}: {}", ran.err());
}

#[test]
fn added_keys_are_there_beside_the_old_ones_in_every_kind_that_takes_them() {
    let scene = Scene::new();
    scene.write("old.txt", lines("old", 4000)).write("new.txt", lines("new", 3000));
    for kind in ["blocked", "classic", "partitioned", "counting", "scalable", "cuckoo", "growing-cuckoo", "quotient"] {
        scene.run(&format!("build -q -o a.bloom --kind {kind} --headroom 2 old.txt")).code(0);
        let ran = scene.run("add a.bloom --json new.txt").code(0);
        assert_eq!(ran.number("keys_read"), 3000.0, "{kind}");
        // At most one in a hundred was taken for known.
        assert!((2950.0..=3000.0).contains(&ran.number("certainly_new")), "{kind}: {}", ran.out());
        all_maybe(&scene, "a.bloom", &(lines("old", 4000) + &lines("new", 3000)));
        scene.run("info --verify a.bloom").code(0);
    }
    for kind in ["fuse", "ribbon"] {
        scene.run(&format!("build -q -o a.bloom --kind {kind} old.txt")).code(0);
        scene.run("add a.bloom new.txt").refused(&["a.bloom", kind, "build it again"]);
    }
    assert_eq!(scene.files(), ["a.bloom", "new.txt", "old.txt"]);
}

#[test]
fn keyed_typed_and_foreign_filters_are_added_to_under_their_own_contract() {
    let scene = Scene::new();
    scene.run("secret new -o s").code(0);
    scene.run_with("build -q -o k.bloom --keys u64 --secret-file s --headroom 3", "1\n2\n3\n").code(0);
    scene.run_with("add k.bloom", "4\n").refused(&["--secret-file"]);
    scene.run_with("add -q k.bloom --secret-file s", "4\n0005\n").code(0);
    scene.run("check -q k.bloom --secret-file s 5").code(0);
    scene.run_with("add k.bloom --secret-file s", "6\nseven\n").refused(&["standard input:2", "decimal"]);
    scene.run("check -q k.bloom --secret-file s 6").code(1);
    scene.run_with("build -q -o g.bf --as guava:utf8 --headroom 100", "a\nb\n").code(0);
    scene.run_with("add -q g.bf --as guava:utf8", "c\n").code(0);
    scene.run("check -q --as guava:utf8 g.bf c").code(0);
}

#[test]
fn what_goes_wrong_leaves_the_filter_as_it_was() {
    let scene = Scene::new();
    scene.run_with("build -q -o c.bloom --kind cuckoo", lines("k", 2000)).code(0);
    let before = scene.read("c.bloom");
    scene.run_with("add c.bloom", lines("more", 5000)).refused(&["c.bloom", "nothing was added", "--headroom"]);
    assert!(scene.read("c.bloom") == before);
    scene.run("add c.bloom nowhere.txt").refused(&["nowhere.txt"]);
    scene.run("add nowhere.bloom c.bloom").refused(&["nowhere.bloom"]);
    scene.run_with("remove --strict c.bloom", "k1\nnever-there\n").code(2);
    assert!(scene.read("c.bloom") == before, "strict is all or nothing");
    // Elsewhere on request.
    scene.run_with("remove -q -o d.bloom c.bloom", "k1\n").code(0);
    assert!(scene.read("c.bloom") == before && scene.read("d.bloom") != before);
    scene.run_with("add -q -o e.bloom c.bloom", "z\n").code(0);
    assert!(scene.read("c.bloom") == before);
}

#[test]
fn removed_keys_go_and_the_others_stay() {
    let scene = Scene::new();
    for kind in ["counting", "cuckoo", "growing-cuckoo", "quotient"] {
        scene.run_with(&format!("build -q -o a.bloom --rate 0.001 --kind {kind}"), lines("k", 4000)).code(0);
        let ran = scene.run_with("remove --json a.bloom", lines("k", 1000) + &lines("k", 1000)).code(0);
        assert_eq!((ran.number("removed"), ran.number("absent")), (1000.0, 0.0), "{kind}: each different key once");
        let left: String = (1000..4000).map(|i| format!("k{i}\n")).collect();
        all_maybe(&scene, "a.bloom", &left);
        let ran = scene.run_with("check --count a.bloom", lines("k", 1000));
        let still: u64 = ran.out().trim().parse().unwrap();
        assert!(still <= 8, "{kind}: {still} of 1,000 removed keys still answer maybe at 0.1 %");
        // A key that is certainly absent is told of, and the exit code says so.
        let ran = scene.run_with("remove a.bloom", "k0\nk2000\n").code(1);
        assert!(ran.err().contains("standard input:1") && ran.err().contains("1 removed"), "{kind}: {}", ran.err());
    }
    scene.run_with("build -q -o b.bloom", lines("k", 10)).code(0);
    scene.run_with("remove b.bloom", "k1\n").refused(&["blocked", "--kind cuckoo"]);
}

/// Two that load, change and save at once would lose what the first changed: they take turns.
#[test]
fn additions_at_the_same_time_are_not_lost() {
    let scene = Scene::new();
    scene.run_with("build -q -o a.bloom --items 100000", "").code(0);
    for part in 0..6 {
        scene.write(&format!("part{part}"), lines(&format!("p{part}-"), 2000));
    }
    let running: Vec<_> = (0..6)
        .map(|part| {
            std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
                .args(["add", "-q"])
                .arg(scene.path("a.bloom"))
                .arg(scene.path(&format!("part{part}")))
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    for part in 0..6 {
        all_maybe(&scene, "a.bloom", &lines(&format!("p{part}-"), 2000));
    }
}
