//! `plan`: the table, the advice, the next command, and numbers as people write them.

use crate::scene::Scene;

#[test]
fn the_golden_figures() {
    let scene = Scene::new();
    let screen = scene.run("plan --items 10M --rate 1%").code(0).out();
    for words in ["10,000,000 keys at a rate of 1.00 %", "9.59", "10.11", "Use a blocked filter", "not when", "Next"] {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
    assert!(screen.lines().filter(|line| !line.contains("bloomgate build")).all(|line| line.chars().count() <= 80));
    let json = scene.run("plan --items 1e6 --rate 0.001 --json").code(0);
    assert!(json.field("table").contains("\"bits\":14377588") && json.field("table").contains("\"probes\":10"));
    assert_eq!((json.field("choice"), json.field("kind")), ("\"filter\"".into(), "\"blocked\"".into()));
    assert!(json.field("next").contains("--rate 0.001 --items 1000000"), "{}", json.field("next"));
}

#[test]
fn the_next_command_works_and_keeps_what_was_planned() {
    let scene = Scene::new();
    scene.write("keys.txt", crate::scene::lines("k", 50_000));
    for (options, kind, limit) in [
        ("--items 50k --rate 0.1%", "blocked", u64::MAX),
        ("--items 50k --memory 100kB", "blocked", 100_000),
        ("--memory 100kB --rate 0.02", "blocked", 100_000),
        ("--items 50k --rate 0.01 --deletes", "cuckoo", u64::MAX),
        ("--items 50k --deletes --growth unknown", "growing-cuckoo", u64::MAX),
        ("--items 50k --static", "fuse", u64::MAX),
        ("--items 50k --growth unknown", "scalable", u64::MAX),
        ("--items 50k --growth some", "blocked", u64::MAX),
        ("--items 50k --untrusted", "blocked", u64::MAX),
        ("--items 50k --rate 0.01 --memory 60500", "classic", 60_500),
    ] {
        let planned = scene.run(&format!("plan --json {options}")).code(0);
        let next = planned.field("next");
        for command in next.trim_matches(['[', ']']).split("\",\"") {
            let command = command.trim_matches('"').strip_prefix("bloomgate ").unwrap();
            scene.run(command).code(0);
        }
        let info = scene.run("info --json keys.bloom").code(0);
        assert_eq!(info.field("kind"), format!("\"{kind}\""), "{options}");
        assert!(info.number("filter_bytes") <= limit as f64, "{options}");
        assert!(info.number("expected_rate") <= 0.021, "{options}");
        assert_eq!(info.field("secret_id") != "null", options.contains("untrusted"));
        if options.contains("some") {
            assert_eq!(info.number("capacity"), 75_000.0);
        }
    }
}

#[test]
fn something_else_may_be_better() {
    let scene = Scene::new();
    for (options, choice, words) in [
        ("--items 5000", "hash-set", "hash set"),
        ("--items 1M --dense-integers", "bitmap", "bitmap"),
        ("--wants distinct-count", "hyperloglog", "HyperLogLog"),
        ("--wants listing", "sorted-file", "sorted"),
        ("--wants exact-counts", "count-table", "table of counts"),
        ("--items 1M --must-be-right", "two-phase", "confirm"),
        ("--items 1M --absent-share 0 --lookup-cost 1ms", "no-filter", "no filter"),
        ("--items 1M --window", "filter", "rotating"),
        ("--items 1M --static", "filter", "fuse"),
    ] {
        let json = scene.run(&format!("plan --json {options}")).code(0);
        assert_eq!(json.field("choice"), format!("\"{choice}\""), "{options}");
        let screen = scene.run(&format!("plan {options}")).code(0).out();
        assert!(screen.contains(words), "{options}\n{screen}");
        assert_eq!(screen.contains("bloomgate build"), json.field("next") != "[]");
    }
}

#[test]
fn a_window_is_for_a_program_and_not_for_a_file() {
    let scene = Scene::new();
    for options in ["--items 1M --window", "--items 1M --window --must-be-right"] {
        let screen = scene.run(&format!("plan {options}")).code(0).out();
        assert!(screen.contains("Use a rotating filter") && !screen.contains("bloomgate build"), "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
        assert_eq!(screen.contains("confirm every"), options.contains("right"), "{screen}");
    }
    scene.write("keys.txt", "a\n");
    let refusal = scene.run("build -o f.bloom --kind rotating keys.txt").code(2);
    assert!(refusal.err().contains("a file of keys has no time"), "{}", refusal.err());
}

#[test]
fn reasons_are_written_in_figures_that_people_read() {
    let scene = Scene::new();
    for (options, words) in [
        ("--items 1M --absent-share 7.33% --lookup-cost 100ns", "7.26 % of lookups avoided x 100 ns - 50 ns for the"),
        ("--memory 64MB --rate 0.001", "64,000,000 bytes hold "),
        ("--items 1", "holds 1 key in"),
        ("--items 5000", "more than 10,000 keys"),
        ("--growth unknown", "the first stage holds 10,000"),
    ] {
        let reasons = scene.run(&format!("plan --json {options}")).code(0);
        let reasons = reasons.field("reasons") + &reasons.field("when_not");
        assert!(reasons.contains(words) && !reasons.contains("e-"), "{words:?} is not in {reasons}");
    }
}

#[test]
fn savings_are_told() {
    let scene = Scene::new();
    let options =
        "plan --items 50M --absent-share 90% --lookup-cost 2ms --lookups-per-second 20k --false-positive-cost 1ms";
    let screen = scene.run(options).code(0).out();
    assert!(screen.contains("What it saves") && screen.contains("lookups avoided"), "{screen}");
    let savings = scene.run(&format!("{options} --json")).code(0).field("savings");
    assert!(savings.contains("\"worth_it\":true"), "{savings}");
}

#[test]
fn plots_are_plain_when_asked() {
    let scene = Scene::new();
    assert!(scene.run("plan --ascii --items 1M").code(0).out().is_ascii());
    assert!(scene.run("plan --items 1M").code(0).out().contains('●'));
    for items in ["1", "10", "1000", "1e9", "1e12"] {
        scene.run(&format!("plan --growth unknown --items {items} --rate 1e-9")).code(0);
    }
}

#[test]
fn nonsense_is_refused_with_an_example() {
    let scene = Scene::new();
    for (arguments, said) in [
        ("", &["--items 10M", "--memory 64MB"][..]),
        ("--items -1", &["-1", "10M"]),
        ("--items 0", &["not 0"]),
        ("--items 1M --rate 5", &["write 5%"]),
        ("--items 1M --rate 0", &["0.01"]),
        ("--items 1M --memory 64mb", &["64mb", "64MB"]),
        ("--items 1M --memory 0", &["0 bytes"]),
        ("--items 1G --memory 64", &["too few"]),
        ("--items 1M --growth lots", &["lots", "unknown"]),
        ("--items 1M --growth 0.5", &["0.5", "factor"]),
        ("--items 1M --absent-share 90", &["90%"]),
        ("--items 1M --lookup-cost 2h", &["2ms"]),
        ("--items 1M --lookups-per-second -5", &["10k"]),
        ("--wants magic", &["membership"]),
    ] {
        scene.run(&format!("plan {arguments}")).refused(said);
    }
}

#[test]
fn help_and_version_are_there() {
    let scene = Scene::new();
    assert!(scene.run("--version").code(0).out().starts_with("bloomgate 0."));
    assert!(scene.run("--help").code(0).out().contains("Exit codes"));
    assert!(scene.run("-h").code(0).out().contains("Exit codes"));
    for verb in ["plan", "build", "check", "info", "secret new"] {
        let help = scene.run(&format!("{verb} --help")).code(0).out();
        assert!(help.contains("Examples:") && help.contains("bloomgate"), "{verb}");
        assert!(scene.run(&format!("{verb} -h")).code(0).out().len() < help.len(), "{verb}");
    }
}
