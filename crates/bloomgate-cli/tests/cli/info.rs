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
        assert_eq!(ran.out().contains(" sections is DAMAGED"), arguments.contains("--verify"), "{}", ran.out());
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

#[test]
fn everything_of_a_keyed_filter_is_shown() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 1_000));
    scene.run("secret new -o s.key").code(0);
    scene.run("secret new -o other.key").code(0);
    scene.run("build -q -o f.bloom --secret-file s.key keys.txt").code(0);
    let json = scene.run("info --json f.bloom").code(0);
    let id = json.field("secret_id").trim_matches('"').to_string();
    assert!(json.field("contract").contains(&id) && json.field("contract").contains("siphash13"));
    let screen = scene.run("info f.bloom").code(0).out();
    let address = json.field("address").trim_matches('"').to_string();
    for words in [&id, &address, "over bytes", "sentinels need the secret", "every checksum right"] {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
    let with = scene.run("info --secret-file s.key f.bloom").code(0).out();
    assert!(with.contains("sentinels agree"), "{with}");
    assert_eq!(scene.run("info --json --secret-file s.key f.bloom").code(0).field("sentinels_agree"), "true");
    scene.run("info --secret-file other.key f.bloom").refused(&["secret"]);
    scene.run("info --svg s.key --secret-file s.key f.bloom").refused(&["s.key", "read"]);
}

#[test]
fn numbers_are_grouped_in_every_shape() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 100_000));
    for (kind, shape) in [
        ("classic", "959,278 bits, 7 for each key"),
        ("blocked", "1,976 lines of 512 bits, one for each key"),
        ("partitioned", "7 slices of 137,0"),
    ] {
        scene.run(&format!("build -q -o f.bloom --kind {kind} --items 100000 keys.txt")).code(0);
        let json = scene.run("info --json f.bloom").code(0).field("parts");
        let (_, told) = json.split_once("\"shape\":\"").unwrap();
        assert!(told.starts_with(shape), "{kind}: {told}");
    }
}

#[test]
fn a_form_that_writes_no_capacity_down_is_not_credited_with_one() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 3_000));
    for (form, name, guessed) in
        [("bfv1", "", true), ("guava:utf8", "--as guava:utf8", true), ("redisbloom", "", false)]
    {
        scene.run(&format!("build -q -o f --as {form} keys.txt")).code(0);
        let screen = scene.run(&format!("info {name} f")).code(0).out();
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.contains("does not say for how many it was made"), guessed, "{form}\n{screen}");
        assert_eq!(words.contains("half of its bits are set"), guessed, "{form}\n{screen}");
        let json = scene.run(&format!("info --json {name} f")).code(0);
        assert_eq!(json.field("capacity_is_guessed"), guessed.to_string());
        assert!((json.number("approximate_count") - 3_000.0).abs() < 150.0, "{form}");
    }
}

#[test]
fn the_picture_can_be_a_document() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 20_000));
    for kind in ["blocked", "counting", "scalable", "cuckoo", "fuse"] {
        scene.run(&format!("build -q -o f.bloom --kind {kind} keys.txt")).code(0);
        let screen = scene.run("info --svg f.svg f.bloom").code(0).out();
        assert!(screen.contains("promised"), "the screen is there too: {screen}");
        let svg = String::from_utf8(scene.read("f.svg")).unwrap();
        assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>") && svg.matches("http").count() == 1);
        for words in [&format!("f.bloom: a {kind} filter"), "1.00 % promised", "How full the regions are", "mean "] {
            assert!(svg.contains(words), "{kind}: {words:?} is not in the picture");
        }
        assert!(svg.matches("<rect").count() > 100, "{kind}: regions are drawn");
        assert_eq!(scene.run("info --svg - f.bloom").code(0).out(), svg);
    }
    scene.run("info --svg f.bloom f.bloom").refused(&["f.bloom", "read"]);
    scene.run("build -q -o foreign --as bfv1 keys.txt").code(0);
    scene.run("info --svg x.svg foreign").refused(&["another system"]);
    let mut bytes = scene.read("f.bloom");
    let place = bytes.len() / 2;
    bytes[place] ^= 1;
    scene.write("f.bloom", bytes);
    assert!(scene.run("info --svg x.svg f.bloom").code(2).err().contains("damaged bits are not drawn"));
    assert_eq!(scene.files(), ["f.bloom", "f.svg", "foreign", "keys.txt"]);
}
