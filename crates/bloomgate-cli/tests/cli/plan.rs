//! `plan`: the table, the advice, the next command, and numbers as people write them.

use crate::scene::{Scene, lines};

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
        assert_eq!(screen.contains("\nNext\n"), json.field("next") != "[]");
    }
}

#[test]
fn a_window_is_for_a_stream_and_not_for_a_file() {
    let scene = Scene::new();
    scene.write("keys.txt", "a\n");
    for options in ["--items 1M --window", "--items 1M --window --must-be-right"] {
        let screen = scene.run(&format!("plan {options}")).code(0).out();
        assert!(screen.contains("Use a rotating filter") && !screen.contains("bloomgate build"), "{screen}");
        let told = screen.lines().filter(|line| !line.starts_with("  bloomgate "));
        assert!(told.clone().count() > 10 && told.clone().all(|line| line.chars().count() <= 80), "{screen}");
        // The next command makes what was planned, to the byte.
        let planned = scene.run(&format!("plan --json {options}")).code(0);
        let next = planned.field("next");
        let next = next.trim_matches(['[', ']', '"']).strip_prefix("bloomgate ").unwrap();
        let ran = scene.run(&format!("{next} -c --json")).code(0);
        assert!(planned.out().contains(&format!("\"bytes\":{},", ran.field("filter_bytes"))), "{next}: {}", ran.out());
        scene.run("info keys.bloom").code(0);
        std::fs::remove_file(scene.path("keys.bloom")).unwrap();
        assert_eq!(screen.contains("confirm every"), options.contains("right"), "{screen}");
    }
    let refusal = scene.run("build -o f.bloom --kind rotating keys.txt").code(2);
    assert!(
        refusal.err().contains("a file of keys has no time") && refusal.err().contains("dedup --window 1h"),
        "{}",
        refusal.err()
    );
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

/// The text of the commands that the screen prints under "Next".
fn printed_commands(screen: &str) -> Vec<String> {
    let (_, next) = screen.split_once("\nNext\n").unwrap_or_else(|| panic!("no next command in\n{screen}"));
    next.lines().map(|line| line.trim().to_string()).collect()
}

#[test]
fn the_printed_command_runs_as_it_stands() {
    let scene = Scene::new();
    scene.write("my keys.txt", lines("k", 20_000).replace('\n', "\r\n")).write("more.txt", "\r\nextra\r\n");
    let planned = scene.command("plan --rate 0.5% --crlf --keep-empty --plot none --from more.txt --from");
    let planned = { planned }.arg("my keys.txt").output().unwrap();
    let screen = String::from_utf8(planned.stdout).unwrap();
    assert!(screen.contains("my keys.txt: 20,002 keys, 20,002 different"), "{screen}");
    let commands = printed_commands(&screen);
    assert_eq!(commands.len(), 1, "{screen}");
    let folder = assert_cmd::cargo::cargo_bin("bloomgate").parent().unwrap().to_path_buf();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let shell = std::process::Command::new("sh")
        .args(["-c", &commands[0]])
        .env("PATH", path)
        .current_dir(scene.path(""))
        .output()
        .unwrap();
    assert!(shell.status.success(), "{}\n{}", commands[0], String::from_utf8_lossy(&shell.stderr));
    let info = scene.run("info --json keys.bloom").code(0);
    assert_eq!((info.number("capacity"), info.number("promised_rate")), (20_002.0, 0.005));
    assert_eq!(scene.run("check -c keys.bloom k0 k19999 extra").code(0).out(), "3\n");
}

#[test]
fn only_kinds_that_fit_have_a_row() {
    let scene = Scene::new();
    for (options, rows, left_out) in [
        ("", &["classic", "blocked", "fuse", "ribbon", "cuckoo"][..], "rotating (forgets old keys)"),
        ("--deletes", &["cuckoo", "counting", "quotient"], "(no removals)"),
        ("--growth unknown", &["scalable", "growing-cuckoo", "quotient"], "fuse, ribbon (built once)"),
        ("--growth unknown", &["scalable"], "cuckoo (cannot grow)"),
        ("--window", &["rotating"], "(never forgets)"),
        ("--rate 1% --memory 1.3MB", &["blocked", "classic", "fuse"], "counting, scalable"),
    ] {
        let screen = scene.run(&format!("plan --plot none --items 1M {options}")).code(0).out();
        let (table, rest) = screen.split_once("left out: ").unwrap_or_else(|| panic!("{options}\n{screen}"));
        let rest = rest.split("\n\n").next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(rest.contains(left_out), "{options}: {left_out:?} is not in {rest}");
        let is_row =
            |kind: &str| table.lines().any(|line| line.trim_start_matches(['▸', ' ']).starts_with(&format!("{kind} ")));
        for row in rows {
            assert!(is_row(row), "{options}: {row} is no row in\n{screen}");
        }
        assert!(screen.lines().all(|line| line.chars().count() <= 80 || line.starts_with("  bloomgate ")), "{screen}");
        let json = scene.run(&format!("plan --json --plot none --items 1M {options}")).code(0).field("table");
        // In JSON every kind is there, and says whether it fits.
        assert_eq!(json.matches("\"fits\":").count(), 11, "{json}");
        assert_eq!(json.matches("\"why_not\":").count(), json.matches("\"fits\":false").count());
    }
}

#[test]
fn what_cannot_be_had_together_is_refused_with_both_ways_out() {
    let scene = Scene::new();
    for (options, said) in [
        ("--static --growth 4", ["--static", "--growth", "fuse", "blocked"]),
        ("--static --growth unknown", ["--static", "--growth", "fuse", "scalable"]),
        ("--static --deletes", ["--static", "--deletes", "fuse", "cuckoo"]),
        ("--static --window", ["--static", "--window", "fuse", "rotating"]),
        ("--window --deletes", ["--window", "--deletes", "rotating", "cuckoo"]),
    ] {
        scene.run(&format!("plan --items 1M {options}")).refused(&said);
        scene.run(&format!("plan --json --items 1M {options}")).refused(&["cannot be had together"]);
    }
    scene.run("plan --items 1M --static --growth fixed").code(0);
}

#[test]
fn an_endless_stream_in_bounded_memory_leads_to_stable_too() {
    let scene = Scene::new();
    let screen = scene.run("plan --window --memory 64MB --plot none").code(0).out();
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in ["Use a rotating filter", "or a stable filter", "remembers the last", "proves nothing"] {
        assert!(words.contains(said), "{said:?} is not in\n{screen}");
    }
    assert_eq!(scene.run("plan --json --window --memory 64MB").code(0).field("or_else"), "\"stable\"");
}

#[test]
fn keys_of_files_are_counted_first() {
    let scene = Scene::new();
    scene.write("a.txt", lines("user-", 30_000)).write("b.txt", lines("user-", 40_000));
    let json = scene.run("plan --json --from a.txt --from b.txt").code(0);
    let counted = json.field("counted");
    for words in ["\"keys\":70000", "\"distinct\":40000", "\"distinct_is_exact\":true", "\"integers\":false"] {
        assert!(counted.contains(words), "{words} is not in {counted}");
    }
    assert!(json.field("plan").contains("\"items\":40000,"), "{}", json.field("plan"));
    assert!(json.field("next").contains("--items 40000 a.txt b.txt"), "{}", json.field("next"));
    let screen = scene.run_with("plan --plot none --from -", lines("k", 12_345)).code(0).out();
    assert!(
        screen.starts_with("standard input: 12,345 keys, 12,345 different, 5.10 bytes each on average"),
        "{screen}"
    );
    // Integers far apart, and integers that fill a bitmap.
    let ids: String = (0..20_000u64).map(|i| format!("{}\n", i * 1_000_003)).collect();
    let far = scene.run_with("plan --plot none --from -", ids).code(0).out();
    assert!(far.contains("--keys u64") && far.contains("Use a blocked filter"), "{far}");
    let near =
        scene.run_with("plan --from -", (5_000..25_000).map(|i| format!("{i}\n")).collect::<String>()).code(0).out();
    assert!(near.contains("Use a bitmap") && near.contains("5,000 to 24,999: build with --keys u64"), "{near}");
    scene.run("plan --from a.txt --items 5").code(2);
    scene.run("plan --from empty.txt").refused(&["empty.txt"]);
    scene.run("plan --from - --from -").refused(&["more than once"]);
    scene.run("plan --from -").refused(&["no key"]);
}

#[test]
fn kinds_are_measured_when_asked() {
    let scene = Scene::new();
    let screen = scene.run("plan --items 10k --measure --plot none").code(0).out();
    assert!(screen.contains("ns a key") && screen.contains("measured on this machine with 10,000 keys"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let json = scene.run("plan --items 10k --deletes --measure --json").code(0);
    let measured = json.field("measured");
    assert_eq!(measured.matches("\"miss_ns\":").count(), 4, "the four that remove: {measured}");
    assert!(measured.contains("\"items\":10000,") && !measured.contains("_ns\":0.0"), "{measured}");
    assert_eq!(scene.run("plan --items 10k --json").code(0).field("measured"), "null");
    // What asking costs is then what was measured: a lookup of a second pays, one of no time at all does not.
    for (cost, worth) in [("1s", "true"), ("0s", "false")] {
        let options = format!("plan --items 10k --measure --absent-share 90% --lookup-cost {cost} --json");
        let savings = scene.run(&options).code(0).field("savings");
        assert!(savings.contains(&format!("\"worth_it\":{worth}")), "{savings}");
    }
}

#[test]
fn levels_share_memory_in_proportion() {
    let scene = Scene::new();
    let json = scene.run("plan --json --levels 10k,100k,1M --memory 1.4MB").code(0);
    let of = |field: &str| {
        let text = json.field(field);
        let (_, number) = text.split_once("\"false_positives_per_absent_lookup\":").unwrap();
        number.split(',').next().unwrap().parse::<f64>().unwrap()
    };
    assert!(of("best") < 0.6 * of("uniform"), "{} {}", of("best"), of("uniform"));
    let screen = scene.run("plan --levels 10k,100k,1M --memory 1.4MB").code(0).out();
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("times fewer in the same memory") && words.contains("uniform"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    // Every level's command makes what the table says.
    let mut bytes = 0.0;
    for (at, command) in printed_commands(&screen).iter().enumerate() {
        scene.write(&format!("level{}.txt", at + 1), lines("k", 10_000));
        scene.run(command.strip_prefix("bloomgate ").unwrap()).code(0);
        bytes += scene.run(&format!("info --json level{}.bloom", at + 1)).code(0).number("filter_bytes");
    }
    assert!((1.3e6..=1.4e6).contains(&bytes), "{bytes}");
    let less = scene.run("plan --levels 10k,100k,1M --rate 1%").code(0).out();
    assert!(less.contains("less memory"), "{less}");
    let few = scene.run("plan --levels 10k,1M --memory 20kB").code(0).out();
    assert!(few.contains("no filter") && few.contains("1 level without a filter"), "{few}");
    assert!(scene.run("plan --levels 10k,1M --static").code(0).out().contains("--kind fuse"));
    scene.run("plan --levels 10k,1M --memory 1MB --rate 1%").refused(&["--memory", "--rate", "one of them"]);
    scene.run("plan --levels 10k,0").refused(&["1 to 2^56 keys"]);
    for other in ["--deletes", "--items 5", "--svg x.svg", "--window", "--measure"] {
        scene.run(&format!("plan --levels 10k,1M {other}")).code(2);
    }
}

#[test]
fn plots_are_chosen() {
    let scene = Scene::new();
    let drawn = |options: &str| {
        let screen = scene.run(&format!("plan --items 1M {options}")).code(0).out();
        let mut lines = screen.lines().filter(|line| !line.contains("bloomgate build"));
        assert!(lines.all(|line| line.chars().count() <= 80), "{screen}");
        assert!(!screen.contains("\n\n\n"), "two empty lines in\n{screen}");
        ["Rate against memory", "Rate against hashes", "Rate with too many keys"].map(|title| screen.contains(title))
    };
    assert_eq!(drawn(""), [true, false, false]);
    assert_eq!(drawn("--plot none"), [false, false, false]);
    assert_eq!(drawn("--plot k"), [false, true, false]);
    assert_eq!(drawn("--plot k,overfill"), [false, true, true]);
    assert_eq!(drawn("--plot all --ascii"), [true, true, true]);
    assert_eq!(drawn("--plot all --deletes"), [true, true, false]);
    let screen = scene.run("plan --items 1M --plot all --static").code(0).out();
    assert!(screen.contains("a fuse filter takes no more than it was made for"), "{screen}");
    let hashes = scene.run("plan --items 1M --rate 1% --memory 1.2MB --plot k").code(0).out();
    assert!(hashes.contains("least at k = 7"), "{hashes}");
    let json = scene.run("plan --json --items 1M --plot all").code(0).field("plots");
    for name in ["memory", "k", "overfill"] {
        assert!(json.contains(&format!("\"plot\":\"{name}\"")), "{json}");
    }
    scene.run("plan --items 1M --plot pie").code(2);
}

#[test]
fn a_picture_is_a_document_of_its_own() {
    let scene = Scene::new();
    scene.run("plan --items 1M --plot all --svg plan.svg").code(0);
    let svg = String::from_utf8(scene.read("plan.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>") && svg.matches("http").count() == 1);
    for words in ["A blocked filter of 1,000,000 keys", "false positives", "least at k = 7", "classic", "10x"] {
        assert!(svg.contains(words), "{words:?} is not in the picture");
    }
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(svg.matches("<polyline").count() >= 6, "several kinds beside each other");
    let piped = scene.run("plan --items 1M --plot all --svg -").code(0);
    assert_eq!(piped.out(), svg, "the same on standard output, and nothing else");
    scene.run("plan --items 1M --plot none --svg x.svg").refused(&["nothing to draw"]);
    scene.run("plan --items 100 --svg x.svg").refused(&["nothing to draw"]);
    scene.write("keys.txt", lines("k", 20_000));
    scene.run("plan --from keys.txt --svg keys.txt").refused(&["keys.txt", "read"]);
    scene.run("plan --items 1M --svg no/where.svg").refused(&["no such directory"]);
    assert_eq!(scene.files(), ["keys.txt", "plan.svg"]);
}

#[test]
fn savings_are_told_by_the_second_and_by_the_day() {
    let scene = Scene::new();
    let day = "plan --items 50M --absent-share 90% --lookup-cost 2ms --lookups-per-second 20k --plot none";
    let screen = scene.run(day).code(0).out();
    // 20,000 x 0.9 x 0.99 x 2 ms = 35.6 s each second, 855 hours each day.
    assert!(screen.contains("17,820 lookups avoided and 180 false positives a second"), "{screen}");
    assert!(screen.contains("35.6 s of work saved a second, 855 hours a day"), "{screen}");
    let each = scene.run("plan --items 50M --absent-share 90% --lookup-cost 2ms --plot none").code(0).out();
    assert!(each.contains("89.1 % of the lookups avoided") && each.contains("saved for each lookup"), "{each}");
    let never = scene.run("plan --items 50M --absent-share 1% --lookup-cost 1us").code(0).out();
    assert!(never.contains("Use no filter: it would cost more than it saves."), "{never}");
}
