//! `completions`, `man` and `--version`: what the shell, the manual and a bug report are told.

use std::process::Command;

use crate::scene::Scene;

/// The verbs that the main help lists, in its groups.
fn verbs(scene: &Scene) -> Vec<String> {
    let help = scene.run("-h").code(0).out();
    let listed = help.lines().skip_while(|line| !line.starts_with("Usage:")).take_while(|line| *line != "Options:");
    let named = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = named.filter_map(|line| line.split_whitespace().next()).map(String::from);
    names.filter(|name| name != "help").collect()
}

/// The long options in the help of a verb.
fn long_options(help: &str) -> Vec<String> {
    let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = lines.flat_map(|line| line.split_whitespace().take(2));
    let names = words.filter_map(|word| word.strip_prefix("--"));
    names.map(|name| name.trim_end_matches(',').split(['=', '[', '.']).next().unwrap_or(name).to_string()).collect()
}

#[test]
fn every_shell_has_completions_that_know_every_verb() {
    let scene = Scene::new();
    let verbs = verbs(&scene);
    assert!(verbs.len() >= 8 && verbs.contains(&"build".to_string()), "{verbs:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = scene.run(&format!("completions {shell}")).code(0);
        for verb in &verbs {
            assert!(script.out().contains(verb.as_str()), "{shell} does not know {verb}");
        }
        assert!(script.out().contains("secret-file") && script.err().is_empty(), "{shell}");
    }
    scene.run("completions tcsh").refused(&["tcsh", "bash", "fish"]);
}

#[test]
fn bash_takes_its_completions_and_completes_with_them() {
    let scene = Scene::new();
    scene.write("completions.bash", scene.run("completions bash").code(0).out());
    let bash = |arguments: &[&str]| {
        Command::new("bash").current_dir(scene.path("")).args(arguments).output().expect("bash is there")
    };
    let checked = bash(&["-n", "completions.bash"]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let asked = "source ./completions.bash; COMP_WORDS=(bloomgate buil); COMP_CWORD=1; \
                 _bloomgate bloomgate buil bloomgate; echo \"${COMPREPLY[@]}\"";
    let completed = bash(&["--norc", "-c", asked]);
    assert_eq!(String::from_utf8_lossy(&completed.stdout).trim(), "build", "{completed:?}");
}

#[test]
fn every_verb_has_a_manual_page_with_all_its_options() {
    let scene = Scene::new();
    let told = scene.run("man -o pages/man1").code(0);
    assert!(told.out().is_empty() && told.err().contains("pages"), "{}", told.err());
    let mut named = verbs(&scene);
    named.extend(["".into(), "secret new".into()]);
    let mut options = 0;
    for verb in named {
        let dashed = if verb.is_empty() { String::new() } else { format!("-{}", verb.replace(' ', "-")) };
        let name = format!("pages/man1/bloomgate{dashed}.1");
        let page = String::from_utf8(scene.read(&name)).unwrap();
        // After what turns an apostrophe into one, a page begins with its title.
        assert!(page.lines().any(|line| line.starts_with(&format!(".TH bloomgate{dashed} 1"))), "{name}: {page}");
        for section in [".SH NAME", ".SH SYNOPSIS", ".SH DESCRIPTION"] {
            assert!(page.contains(section), "{name} has no {section}");
        }
        for option in long_options(&scene.run(&format!("{verb} --help")).code(0).out()) {
            // A hyphen is \- in a page.
            assert!(page.contains(&format!("\\-\\-{}", option.replace('-', "\\-"))), "{name} has no --{option}");
            options += 1;
        }
        assert!(!page.contains('\u{1b}'), "{name} has colours");
    }
    assert!(options > 60, "only {options} options were looked for");
    assert!(!scene.files().iter().any(|name| name.contains("tmp")));
    // Written again, over what is there; and where there is no directory, but a file.
    scene.run("man -o pages/man1").code(0);
    scene.write("file", "");
    scene.run("man -o file").refused(&["file"]);
}

#[test]
fn without_a_directory_the_main_page_is_printed() {
    let scene = Scene::new();
    let page = scene.run("man").code(0).out();
    assert!(page.contains(".TH bloomgate 1") && page.contains("bloomgate\\-build(1)"), "{page}");
    assert!(page.contains(".SH EXAMPLES") && page.contains("Exit codes"), "{page}");
}

#[test]
fn the_version_is_one_line_or_what_a_bug_report_needs() {
    let scene = Scene::new();
    let short = scene.run("-V").code(0).out();
    assert_eq!(short, format!("bloomgate {}\n", env!("CARGO_PKG_VERSION")));
    let long = scene.run("--version").code(0).out();
    assert!(long.starts_with(&short), "{long}");
    for words in ["features: ", "cpu path: ", "file format: version 1\n", "target: ", std::env::consts::ARCH] {
        assert!(long.contains(words), "{words:?} is not in {long}");
    }
    let features = long.lines().find(|line| line.starts_with("features: ")).unwrap();
    let with = features.split(" (without ").next().unwrap();
    for (feature, on) in [
        ("parquet", cfg!(feature = "parquet")),
        ("postgres", cfg!(feature = "postgres")),
        ("redis", cfg!(feature = "redis")),
        ("sqlite", cfg!(feature = "sqlite")),
    ] {
        assert_eq!(with.contains(feature), on, "{long}");
        assert!(features.contains(feature), "{long}");
    }
    let portable = scene.command("--version").env("BLOOMGATE_SIMD", "off").output().unwrap();
    let portable = String::from_utf8(portable.stdout).unwrap();
    assert!(portable.contains("cpu path: portable (BLOOMGATE_SIMD=off)"), "{portable}");
    let odd = scene.command("--version").env("BLOOMGATE_SIMD", "fast").output().unwrap();
    assert!(String::from_utf8(odd.stdout).unwrap().contains("only off does"));
}

#[test]
fn the_main_help_groups_the_verbs_and_begins_with_five_commands() {
    let scene = Scene::new();
    let help = scene.run("--help").code(0).out();
    let at = |words: &str| help.find(words).unwrap_or_else(|| panic!("{words:?} is not in\n{help}"));
    let order =
        ["Usage:", "Make a filter:", "  plan ", "  build ", "Ask it:", "  check ", "Look at", "  info ", "Around it:"];
    assert!(order.map(at).is_sorted(), "{help}");
    assert!(!help.contains("More:"), "a verb is in no group:\n{help}");
    assert!(help.lines().all(|line| line.chars().count() <= 100) && !help.contains('\u{1b}'), "{help}");
    let examples: Vec<&str> = help.lines().filter(|line| line.starts_with("  bloomgate ")).collect();
    assert!(examples.len() >= 5, "{help}");
}

/// Whoever reads the output may go at any time: that is no error, and nothing to talk about.
#[cfg(unix)]
#[test]
fn every_verb_is_quiet_when_its_reader_has_gone() {
    let scene = Scene::new();
    scene.write("keys.txt", crate::scene::lines("k", 2_000));
    scene.run("build -q -o f.bloom keys.txt").code(0);
    for arguments in [
        "--help",
        "build --help",
        "--version",
        "plan --items 1M",
        "plan --items 1M --json",
        "build --json -q -o g.bloom keys.txt",
        "check f.bloom -f keys.txt",
        "info f.bloom",
        "info --json f.bloom",
        "bench --items 1k --passes 1 --kind blocked",
        "bench --items 1k --passes 1 --kind blocked --json",
        "attack poison --products 100 --chosen 10",
        "completions zsh",
        "man",
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("bloomgate"));
        let command = command.current_dir(scene.path("")).args(arguments.split_whitespace());
        let ran = command.stdin(std::process::Stdio::null()).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(0) && said.is_empty(), "{arguments}: {:?} {said}", ran.status);
    }
}
