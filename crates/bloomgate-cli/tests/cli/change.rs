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

/// The secret is lost for ever when a filter takes its place.
#[test]
fn no_output_replaces_the_secret_that_opens_it() {
    let scene = Scene::new();
    scene.run("secret new -o s").code(0);
    let secret = scene.read("s");
    scene.run_with("build -q -o a.bloom --kind cuckoo --secret-file s", "a\n").code(0);
    for command in ["add a.bloom -o s", "remove a.bloom -o s", "dedup --filter s"] {
        scene.run_with(&format!("{command} --secret-file s"), "a\n").refused(&["s: is read"]);
    }
    assert!(scene.read("s") == secret);
    scene.write("p", "sesame\n");
    scene.run("import redis://127.0.0.1:1 key -o p --password-file p").refused(&["p: is read"]);
}

/// More blocks of keys than are on their way at once.
#[test]
fn many_keys_are_removed_in_one_run() {
    let scene = Scene::new();
    scene.write("keys", lines("a key that is long enough to fill blocks ", 60_000));
    scene.run("build -q -o a.bloom --kind quotient keys").code(0);
    let mut remove = scene.command("remove --json a.bloom keys");
    let ran = remove.timeout(std::time::Duration::from_secs(60)).output().unwrap();
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(out.contains("\"removed\":60000,\"absent\":0"), "{out}{}", String::from_utf8_lossy(&ran.stderr));
}

/// The lock that another process holds on a file, taken as the command takes it.
#[cfg(unix)]
fn held(scene: &Scene, file: &str) -> std::fs::File {
    let lock = std::fs::File::create(scene.path(&format!(".{file}.lock"))).unwrap();
    lock.lock().unwrap();
    lock
}

/// Starts a command that has to wait for its turn, and waits until it does.
#[cfg(unix)]
fn waiting(scene: &Scene, arguments: &str, input: &str) -> std::process::Child {
    use std::io::{BufRead, Write};
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"))
        .current_dir(scene.path(""))
        .args(arguments.split_whitespace())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let mut said = String::new();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    assert!(said.contains("waiting for another"), "{arguments}: {said}");
    // The rest of what it says is not read, and must not stop it.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    child
}

/// Whoever changes a file in place waits for its turn before it reads it, whatever name the file is called by.
#[cfg(unix)]
#[test]
fn what_another_changes_meanwhile_is_not_lost() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("else")).unwrap();
    std::os::unix::fs::symlink("../a.bloom", scene.path("else/link")).unwrap();
    scene.run_with("build -q -o b.bloom --items 1000", "b\n").code(0);
    scene.run_with("build -q -o new.bloom --items 1000", "old\nnew\n").code(0);
    for change in [
        "add a.bloom",
        "add else/../a.bloom",
        "add else/link",
        "merge -o a.bloom a.bloom b.bloom",
        "merge -o else/link else/link b.bloom",
        "dedup --filter a.bloom",
    ] {
        scene.run_with("build -q -o a.bloom --items 1000", "old\n").code(0);
        let lock = held(&scene, "a.bloom");
        let mut child = waiting(&scene, change, "b\n");
        std::fs::copy(scene.path("new.bloom"), scene.path("a.bloom")).unwrap();
        std::fs::remove_file(scene.path(".a.bloom.lock")).unwrap();
        drop(lock);
        assert!(child.wait().unwrap().success(), "{change}");
        all_maybe(&scene, "a.bloom", "old\nnew\nb\n");
    }
    assert_eq!(scene.files(), ["a.bloom", "b.bloom", "else", "new.bloom"], "no lock is left behind");
}

/// A filter that is only read keeps nobody waiting: two that wrote into each other's folder waited for ever.
#[cfg(unix)]
#[test]
fn nobody_waits_for_a_file_that_is_only_read_or_for_another_one() {
    let scene = Scene::new();
    scene.run_with("build -q -o a.bloom", "a\n").code(0);
    let _read = held(&scene, "a.bloom");
    let _beside = held(&scene, "other.bloom");
    for command in ["add a.bloom -o c.bloom", "merge -o d.bloom a.bloom c.bloom", "build -o e.bloom"] {
        let mut command = scene.command(command);
        command.timeout(std::time::Duration::from_secs(60)).write_stdin("b\n").assert().success();
    }
}

/// One command reads what another prints, and each changes a filter in the same folder: at the end the first saves its
/// own while the second has its lock and waits for the end of the lines.
#[cfg(unix)]
#[test]
fn two_of_one_pipeline_do_not_wait_for_each_other() {
    let scene = Scene::new();
    scene.run_with("build -q -o all.bloom --items 1000", "1\n").code(0);
    let bloomgate = |arguments: &[&str]| {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("bloomgate"));
        command.current_dir(scene.path("")).args(arguments).stdin(std::process::Stdio::piped());
        command
    };
    let mut add = bloomgate(&["add", "-q", "all.bloom"]).spawn().unwrap();
    let lock = scene.path(".all.bloom.lock");
    let began = std::time::Instant::now();
    while !lock.exists() && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let lines = add.stdin.take().unwrap();
    let mut dedup = bloomgate(&["dedup", "-q", "--filter", "seen.bloom"]).stdout(lines).spawn().unwrap();
    std::io::Write::write_all(&mut dedup.stdin.take().unwrap(), b"2\n2\n3\n").unwrap();
    while dedup.try_wait().unwrap().is_none() && began.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    if dedup.try_wait().unwrap().is_none() {
        dedup.kill().unwrap();
        add.kill().unwrap();
        panic!("both wait for each other");
    }
    assert!(add.wait().unwrap().success());
    all_maybe(&scene, "all.bloom", "1\n2\n3\n");
    all_maybe(&scene, "seen.bloom", "2\n3\n");
}
