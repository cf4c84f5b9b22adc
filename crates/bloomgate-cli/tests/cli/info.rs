//! `info`: the screen, the JSON, and damage.

use crate::scene::{Scene, lines};

#[test]
fn every_kind_is_told_of() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 20_000));
    for kind in ["blocked", "classic", "partitioned", "counting", "scalable"] {
        scene.run(&format!("build -q -o f.bloom --kind {kind} --items 20000 --headroom 1.5 keys.txt")).code(0);
        let screen = scene.run("info f.bloom").code(0);
        for words in [kind, "1.00 % promised", "expected", "by the bits", "xxh3", "every checksum right", "address"] {
            assert!(screen.out().contains(words), "{kind}: {words:?} is not in\n{}", screen.out());
        }
        assert!(screen.out().lines().all(|line| line.chars().count() <= 80), "{}", screen.out());
        assert!(screen.out().contains('▃') || screen.out().contains('▄'), "a picture: {}", screen.out());
        assert!(!screen.out().contains('\x1b'), "no colours in a pipe");
        let json = scene.run("info --json f.bloom").code(0);
        assert_eq!(json.field("kind"), format!("\"{kind}\""));
        assert_eq!((json.number("capacity"), json.number("promised_rate")), (30_000.0, 0.01));
        assert!((json.number("counted") - 20_000.0).abs() < 60.0);
        let (low, high) = (json.number("approximate_count_low"), json.number("approximate_count_high"));
        assert!(low < 20_100.0 && high > 19_900.0 && low < json.number("approximate_count"), "{kind} {low} {high}");
        assert_eq!(json.number("file_bytes"), scene.read("f.bloom").len() as f64);
        assert!(json.number("estimated_rate") < 0.01 && json.number("fill_ratio") > 0.1);
        assert_eq!((json.field("intact"), json.field("sentinels_agree")), ("true".into(), "true".into()));
    }
}

#[test]
fn fingerprints_are_told_of_without_guesses_from_their_bits() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 20_000));
    for kind in ["cuckoo", "growing-cuckoo", "quotient", "fuse", "ribbon"] {
        scene.run(&format!("build -q -o f.bloom --kind {kind} keys.txt")).code(0);
        let screen = scene.run("info f.bloom").code(0);
        for words in [kind, "1.00 % promised", "expected", "certainly", "xxh3", "every checksum right", "20,000"] {
            assert!(screen.out().contains(words), "{kind}: {words:?} is not in\n{}", screen.out());
        }
        assert!(!screen.out().contains("by the bits"), "{}", screen.out());
        assert!(screen.out().lines().all(|line| line.chars().count() <= 80), "{}", screen.out());
        let json = scene.run("info --json f.bloom").code(0);
        assert_eq!((json.field("kind"), json.field("estimated_rate")), (format!("\"{kind}\""), "null".into()));
        assert_eq!((json.number("counted"), json.field("guarantee")), (20_000.0, "\"superset\"".into()));
        assert!(json.number("expected_rate") <= 0.01 && json.number("bits_per_key") < 20.0, "{kind}");
    }
}

#[test]
fn plain_characters_where_unicode_is_not_wanted() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 1_000));
    scene.run("build -q -o f.bloom keys.txt").code(0);
    assert!(scene.run("info --ascii f.bloom").code(0).out().is_ascii());
    assert!(!scene.run("info f.bloom").code(0).out().is_ascii());
    for locale in ["C", "POSIX", "en_US.ISO-8859-1"] {
        let output = scene.command("info f.bloom").env("LC_ALL", locale).output().unwrap();
        assert!(output.stdout.is_ascii() && output.status.success(), "{locale}");
    }
    let coloured = |no_color: bool| {
        let mut command = scene.command("info f.bloom");
        command.env("CLICOLOR_FORCE", "1");
        if no_color {
            command.env_remove("CLICOLOR_FORCE").env("NO_COLOR", "1");
        }
        command.output().unwrap().stdout.contains(&0x1b)
    };
    assert!(coloured(false) && !coloured(true));
}

#[test]
fn a_keyed_filter_shows_its_shape_without_the_secret() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 1_000));
    scene.run("secret new -o s.key").code(0);
    scene.run("build -q -o f.bloom --secret-file s.key keys.txt").code(0);
    let json = scene.run("info --json f.bloom").code(0);
    assert_eq!((json.field("hash"), json.field("sentinels_agree")), ("\"siphash13\"".into(), "null".into()));
    assert_eq!(json.field("secret_id").len(), 18);
    assert!((json.number("approximate_count") - 1_000.0).abs() < 60.0);
    let screen = scene.run("info f.bloom").code(0).out();
    let secret = String::from_utf8(scene.read("s.key")).unwrap();
    assert!(screen.contains("siphash13 with the secret") && !screen.contains(secret.trim()), "{screen}");
}

#[test]
fn damage_is_told_with_its_place() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 100_000));
    scene.run("build -q -o f.bloom keys.txt").code(0);
    let intact = scene.run("info --verify f.bloom").code(0);
    assert!(intact.out().contains("every checksum right") && intact.out().lines().count() == 1, "{}", intact.out());
    let mut bytes = scene.read("f.bloom");
    let place = bytes.len() - 1000;
    bytes[place] ^= 4;
    scene.write("f.bloom", &bytes);
    for arguments in ["info f.bloom", "info --verify f.bloom", "info --json f.bloom"] {
        let ran = scene.run(arguments).code(2);
        assert!(ran.err().contains("f.bloom") && ran.err().contains("chunk"), "{arguments}: {}", ran.err());
        assert!(ran.out().contains("DAMAGED") || ran.field("intact") == "false", "{arguments}: {}", ran.out());
    }
}

#[test]
fn what_is_no_plain_file_is_refused_in_the_words_of_the_command() {
    let scene = Scene::new();
    std::fs::create_dir(scene.path("folder")).unwrap();
    for arguments in ["info folder", "info --verify folder", "check folder key"] {
        let said = scene.run(arguments).err();
        scene.run(arguments).refused(&["folder: is a directory", "give the file of a filter"]);
        assert!(!said.contains("read_from"), "{arguments}: {said}");
    }
    #[cfg(unix)]
    scene.run("info /dev/null").refused(&["/dev/null", "plain file"]);
    scene.run("info missing.bloom").refused(&["missing.bloom", "No such file"]);
}

#[test]
fn one_is_not_many() {
    let scene = Scene::new();
    scene.write("one.txt", "key\n");
    let built = scene.run("build -o f.bloom one.txt").code(0).err();
    assert!(built.contains(" 1 key read,"), "{built}");
    let screen = scene.run("info f.bloom").code(0).out();
    assert!(screen.contains("1 line of 512 bits") && screen.contains("about 1 key (1 to 1)"), "{screen}");
    scene.run("build -q -o f.bloom --kind counting one.txt").code(0);
    assert!(scene.run("info f.bloom").code(0).out().contains("1 line of 512 counters"));
    scene.run("build -q -o f.bloom --kind scalable one.txt").code(0);
    assert!(scene.run("info f.bloom").code(0).out().contains("1 stage of"));
}
