//! `bench`: every kind is there with its true size and its true rate. Times are looked at, never judged.

use crate::scene::{KINDS, Scene, json_list, json_object};

/// A field of a row.
fn field<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    row.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).expect("the field is there")
}

#[test]
fn all_kinds_keep_their_rate_and_have_the_planned_size() {
    let scene = Scene::new();
    let ran = scene.run("bench --items 20k --passes 1 --json").code(0);
    assert_eq!((ran.number("items"), ran.number("rate"), ran.number("passes")), (20_000.0, 0.01, 1.0));
    assert_eq!((ran.field("hash"), ran.number("absent_keys")), ("\"xxh3\"".into(), 1e6));
    let planned = scene.run("plan --items 20k --rate 1% --json").code(0);
    let planned: Vec<_> = json_list(&planned.field("table")).iter().map(|row| json_object(row)).collect();
    let rows: Vec<_> = json_list(&ran.field("rows")).iter().map(|row| json_object(row)).collect();
    let mut names: Vec<&str> = rows.iter().map(|row| field(row, "kind").trim_matches('"')).collect();
    for (name, row) in names.iter().zip(&rows) {
        let number = |key| field(row, key).parse::<f64>().unwrap();
        let rate = number("measured_rate");
        let (low, high) = match *name {
            "hash-set" => (0.0, 0.0),
            // A chain whose first stage is not yet full keeps less than a tenth of the rate for the stages to come.
            "scalable" | "growing-cuckoo" => (0.0002, 0.0080),
            // Fingerprints come in whole bits: 7 of them keep 0.78 %.
            _ => (0.0055, 0.0112),
        };
        assert!((low..=high).contains(&rate), "{name}: {rate}");
        for time in ["insert_ns", "hit_ns", "miss_ns", "floor_ns"] {
            assert!(number(time) > 0.0, "{name}: {time}");
        }
        assert_eq!(field(row, "miss_batch_ns") == "null", *name == "hash-set", "{name}");
        if *name == "hash-set" {
            // 2^15 slots of nine bytes.
            assert_eq!(number("bytes"), 32_768.0 * 9.0 + 16.0);
            continue;
        }
        let plan = planned.iter().find(|plan| field(plan, "kind") == field(row, "kind")).expect("planned too");
        let (planned, built) = (field(plan, "bytes").parse::<f64>().unwrap(), number("bytes"));
        // The size of a ribbon depends on its keys a little; all are filled up to words.
        let slack = if *name == "ribbon" { planned * 0.03 } else { 64.0 };
        assert!((planned - built).abs() <= slack, "{name}: planned {planned}, built {built}");
        assert!((number("bits_per_key") - built * 8.0 / 20_000.0).abs() < 1e-9, "{name}");
    }
    let mut expected = [&KINDS[..], &["rotating", "hash-set"]].concat();
    names.sort_unstable();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn the_screen_has_a_table_a_plot_and_a_conclusion() {
    let scene = Scene::new();
    let screen = scene.run("bench --items 2k --passes 1").code(0);
    assert!(screen.err().is_empty(), "no progress where there is no terminal: {}", screen.err());
    let screen = screen.out();
    for name in KINDS.iter().chain(&["rotating", "hash-set"]) {
        let lines = screen.lines().filter(|line| line.trim_start().starts_with(&format!("{name} "))).count();
        assert!(lines >= 2, "{name} is not in the table and in the plot:\n{screen}");
    }
    for words in ["2,000 keys at 1.00 %", "bits/key", "floor", "█", "┃ is the floor", "says \"no\" soonest", "hash set"]
    {
        assert!(screen.contains(words), "{words:?} is not in\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    let plain = scene.run("bench --ascii --items 1k --passes 1 --kind blocked --kind fuse").code(0).out();
    assert!(plain.is_ascii() && plain.contains('#') && !plain.contains("ribbon"), "{plain}");
}

#[test]
fn a_lower_rate_takes_more_bits_and_few_keys_are_no_trouble() {
    let scene = Scene::new();
    let bits = |arguments: &str| {
        let ran = scene.run(&format!("bench --json --passes 1 --kind blocked {arguments}")).code(0);
        let rows = json_list(&ran.field("rows"));
        assert_eq!(rows.len(), 2, "the kind that was asked for, and the hash set");
        let row = json_object(&rows[0]);
        (field(&row, "bits_per_key").parse::<f64>().unwrap(), field(&row, "measured_rate").parse::<f64>().unwrap())
    };
    let ((wide, low), (narrow, high)) = (bits("--items 10k --rate 0.1%"), bits("--items 10k --rate 5%"));
    assert!(wide > 1.8 * narrow && low < 0.0013 && (0.0006..).contains(&low), "{wide} {narrow} {low}");
    assert!((0.035..0.056).contains(&high), "{high}");
    for items in ["1", "2", "63"] {
        scene.run(&format!("bench --items {items} --passes 1")).code(0);
    }
}

#[test]
fn nonsense_is_refused() {
    let scene = Scene::new();
    for (arguments, said) in [
        ("--items 0", &["1 to 100,000,000"][..]),
        ("--items 1G", &["1 to 100,000,000"]),
        ("--items lots", &["10M"]),
        ("--rate 5", &["write 5%"]),
        ("--kind stable", &["forgets"]),
        ("--kind guava", &["another system"]),
        ("--kind bloom", &["bloom", "ribbon"]),
        ("--passes 0", &["1..=1000"]),
    ] {
        scene.run(&format!("bench {arguments}")).refused(said);
    }
}
