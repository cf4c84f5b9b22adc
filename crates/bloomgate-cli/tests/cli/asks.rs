//! `check` of several filters, of breached passwords, and with every maybe confirmed.

use crate::scene::{Scene, json_object, lines};

fn two() -> Scene {
    let scene = Scene::new();
    scene.write("a.txt", "apple\npear\n").write("b.txt", "pear\nplum\n").write("ids.txt", "7\n8\n");
    scene.run("build -q -o a.bloom --rate 1e-9 a.txt").code(0);
    scene.run("build -q -o b.bloom --kind cuckoo --rate 1e-9 b.txt").code(0);
    scene.run("build -q -o seeded.bloom --seed 5 --rate 1e-9 b.txt").code(0);
    scene.run("build -q -o ids.bloom --keys u64 --rate 1e-9 ids.txt").code(0);
    scene
}

#[test]
fn several_filters_are_asked_together() {
    let scene = two();
    let asked = "apple\npear\nplum\nfig\n";
    // The third hashes otherwise and must give the same answers as the second.
    for filters in ["-F a.bloom -F b.bloom", "-F a.bloom --filter seeded.bloom"] {
        let second = filters.split_whitespace().last().unwrap();
        for (options, printed) in [
            ("", "apple\npear\nplum\n".into()),
            ("--all", "pear\n".into()),
            ("-v", "fig\n".into()),
            ("-v --all", "apple\nplum\nfig\n".into()),
            ("-c", "3\n".into()),
            (
                "--label",
                format!("maybe\ta.bloom\tapple\nmaybe\ta.bloom,{second}\tpear\nmaybe\t{second}\tplum\nabsent\t\tfig\n"),
            ),
        ] {
            let ran = scene.run_with(&format!("check {filters} {options}"), asked).code(0);
            assert_eq!((ran.out(), ran.err()), (printed, String::new()), "{filters} {options}");
        }
        let ran = scene.run_with(&format!("check {filters} --json --label"), asked).code(0);
        let names: Vec<String> = ran.out().lines().map(|line| field(line, "filters")).collect();
        let second = format!("\"{second}\"");
        assert_eq!(
            names,
            ["[\"a.bloom\"]".into(), format!("[\"a.bloom\",{second}]"), format!("[{second}]"), "[]".into()]
        );
    }
    assert_eq!(scene.run("check -F a.bloom -F b.bloom plum fig").code(0).out(), "plum\n", "all arguments are keys");
    assert_eq!(scene.run("check -F a.bloom pear").code(0).out(), "pear\n");
    scene.run("check -F a.bloom -F b.bloom --all apple plum").code(1);
    scene.run("check -F a.bloom -F b.bloom fig").code(1);
    scene.run("check -F a.bloom -F missing.bloom fig").refused(&["missing.bloom"]);
    scene.run("check -F a.bloom pear -f a.txt").refused(&["keys come from the arguments or from files"]);
    scene.run("check a.bloom pear --all").refused(&["--filter"]);
}

fn field(object: &str, name: &str) -> String {
    json_object(object).into_iter().find(|(key, _)| key == name).map(|(_, value)| value).unwrap_or_default()
}

/// A word is no key of a filter of numbers: the others answer for themselves, and nobody says "absent" for that one.
#[test]
fn a_key_that_one_filter_cannot_hold_is_never_absent() {
    let scene = two();
    let ran = scene.run_with("check --label -F a.bloom -F ids.bloom", "pear\nfig\n7\n9\n").code(2);
    assert_eq!(ran.out(), "maybe\ta.bloom\tpear\nmaybe\tids.bloom\t7\nabsent\t\t9\n");
    assert!(ran.err().contains("standard input:2: ids.bloom:"), "{}", ran.err());
    let ran = scene.run_with("check --label --all -F a.bloom -F ids.bloom", "pear\nfig\n7\n").code(2);
    assert_eq!(ran.out(), "absent\t\tfig\nabsent\tids.bloom\t7\n", "{}", ran.err());
}

const PASSWORD: &str = "5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8";

#[test]
fn breached_passwords_are_found_by_hash_and_by_password() {
    let scene = Scene::new();
    scene.write("pwned.txt", format!("{PASSWORD}:10437277\r\n7C4A8D09CA3762AF61E59520943DC26494F8941B:42542807\r\n"));
    scene.run("build -q -o pwned.bloom --rate 1e-9 --hibp pwned.txt").code(0);
    // As a filter of anybody's hashes, in either case, with a count or without.
    assert_eq!(scene.run(&format!("check pwned.bloom {PASSWORD}")).code(0).out(), format!("{PASSWORD}\n"));
    let lower = PASSWORD.to_lowercase();
    assert_eq!(scene.run_with("check --hibp pwned.bloom", lower.as_str()).code(0).out(), format!("{PASSWORD}\n"));
    assert_eq!(scene.run(&format!("check --hibp pwned.bloom {lower}:3")).code(0).out(), format!("{PASSWORD}\n"));
    scene.run_with("check --hibp pwned.bloom", "\npassword\n").refused(&["standard input:2:", "--password"]);
    scene.run("check --hibp pwned.bloom password").refused(&["argument 1", "40 hexadecimal digits"]);
    scene.run_with("build -q -o x.bloom --hibp", "password\n").refused(&["standard input:1:"]);

    let passwords = "correct horse battery staple\npassword\n\n123456\nsecret!\n";
    scene.write("passwords.txt", passwords);
    for (options, printed, code) in [
        ("", "2\n4\n", 0),
        ("--label", "absent\t1\nmaybe\t2\nmaybe\t4\nabsent\t5\n", 0),
        ("-v", "1\n5\n", 0),
        ("-c", "2\n", 0),
        ("--show", "2\tpassword\n4\t123456\n", 0),
        ("--json", "{\"answer\":\"maybe\",\"line\":2}\n{\"answer\":\"maybe\",\"line\":4}\n", 0),
        ("-f passwords.txt -f passwords.txt -c", "4\n", 0),
        ("--confirm pwned.sorted", "2\n4\n", 0),
    ] {
        let mut sorted: Vec<String> =
            String::from_utf8(scene.read("pwned.txt")).unwrap().lines().map(Into::into).collect();
        sorted.sort();
        scene.write("pwned.sorted", sorted.join("\r\n"));
        let ran = scene.run_with(&format!("check --hibp --password pwned.bloom {options}"), passwords).code(code);
        assert_eq!(ran.out(), printed, "{options}");
        if options != "--show" {
            assert!(!(ran.out() + &ran.err()).contains("123456"), "{options}");
        }
    }
    let several = scene.run("check --hibp --password pwned.bloom -f passwords.txt -f passwords.txt").code(0);
    assert_eq!(several.out(), "passwords.txt:2\npasswords.txt:4\n".repeat(2));
    let ran = scene.run("check --hibp --password pwned.bloom 123456").code(2);
    assert!(ran.err().contains("can be seen") && !ran.err().contains("123456"), "{}", ran.err());
    let ran = scene.run_with("check --hibp --password pwned.bloom", "correct horse battery staple\n").code(1);
    assert_eq!(ran.err(), "");
}

/// A filter that holds no such hashes says "absent" to every password, the worst of them included.
#[test]
fn a_filter_of_other_keys_is_not_asked_for_passwords_in_silence() {
    let scene = Scene::new();
    scene.write("words.txt", "password\n123456\nqwerty\n");
    scene.run("build -q -o words.bloom --rate 1e-9 words.txt").code(0);
    let ran = scene.run_with("check --password words.bloom", "password\n");
    ran.refused(&["only a filter that was built with `build --hibp`", "say so with --hibp as well"]);
    // Said, and not true; or the hashes are NTLM and not SHA-1.
    scene.run_with("build -q -o ntlm.bloom --rate 1e-9 --hibp", "8846F7EAEE8FB117AD06BDD830B7586C:9\n").code(0);
    for name in ["words.bloom", "ntlm.bloom"] {
        let ran = scene.run_with(&format!("check --hibp --password {name}"), "password\n").code(1);
        assert!(ran.err().starts_with(&format!("note: {name}: not even the commonest passwords")), "{}", ran.err());
    }
}

#[test]
fn a_dash_is_standard_input() {
    let scene = two();
    for arguments in ["check a.bloom -", "check -F a.bloom -", "check a.bloom -f -"] {
        assert_eq!(scene.run_with(arguments, "fig\npear\n").code(0).out(), "pear\n", "{arguments}");
    }
    scene.run("check a.bloom pear -").refused(&["- is standard input and stands alone"]);
    scene.run_with("build -q -o dash.bloom", "-\n").code(0);
    assert_eq!(scene.run_with("check dash.bloom", "-\n").code(0).out(), "-\n");
}

/// Lines of Windows are other keys than the same without their carriage returns, and are then all absent: a note says so.
#[test]
fn keys_with_a_carriage_return_are_told_of() {
    let scene = two();
    for (keys, told) in [("fig\r\npear\r\n", "--crlf"), ("\u{feff}fig\n", "byte order mark"), ("fig\n", "")] {
        for verb in ["check", "add -o x.bloom"] {
            let ran = scene.run_with(&format!("{verb} a.bloom"), keys);
            assert_eq!(ran.err().contains("note: standard input: "), !told.is_empty(), "{verb}: {}", ran.err());
            assert!(ran.err().contains(told), "{verb}: {}", ran.err());
        }
    }
    assert_eq!(scene.run_with("check --crlf a.bloom", "pear\r\n").code(0).err(), "");
}

/// With a filter that is wrong half of the time, what is printed is the truth all the same.
#[test]
fn confirmed_answers_are_certain() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("key ", 2_000));
    let mut sorted: Vec<String> = (0..2_000).map(|i| format!("key {i}\n")).collect();
    sorted.sort();
    scene.write("sorted.txt", sorted.concat());
    scene.run("build -q -o f.bloom --rate 50% keys.txt").code(0);
    scene.write("ask.txt", lines("key ", 10_000));
    let unsure = scene.run("check -c f.bloom -f ask.txt").code(0).out().trim().parse::<u64>().unwrap();
    assert!((5_600..6_400).contains(&unsure), "{unsure} of 2,000 and half of 8,000");

    let mut places = vec!["sorted.txt"];
    if cfg!(feature = "sqlite") {
        database(&scene);
        places.extend(["sqlite:keys.db?my\"table.the.key", "sqlite:keys.db?blobs.key"]);
    }
    for place in places {
        // A table whose name has a quote, a column whose name has a dot: the last dot parts them.
        let place = place.replace("the.key", "key");
        let ran = scene.run(&format!("check f.bloom -f ask.txt --confirm {place}")).code(0);
        assert_eq!(ran.out(), lines("key ", 2_000), "{place}");
        let told = format!("{} maybes confirmed: 2,000 present, {} false", grouped(unsure), grouped(unsure - 2_000));
        assert!(ran.err().contains(&told), "{told}: {}", ran.err());
        let ran = scene.run(&format!("check f.bloom -f ask.txt --confirm {place} -c --json")).code(0);
        assert_eq!((ran.number("present"), ran.number("absent")), (2_000.0, 8_000.0), "{place}");
        assert_eq!(ran.number("false_maybes"), (unsure - 2_000) as f64);
        let labels = scene.run_with(&format!("check f.bloom --label --confirm {place}"), "key 1\nkey 2000\n").code(0);
        assert_eq!(labels.out(), "present\tkey 1\nabsent\tkey 2000\n");
        // Nothing to share out, nothing said of shares.
        let ran = scene.run(&format!("check f.bloom --confirm {place} -c -f keys.txt")).code(0);
        assert!(ran.err().ends_with("2,000 maybes confirmed: 2,000 present, 0 false\n"), "{}", ran.err());
        let certain = (2_000..2_100).map(|i| format!("key {i}\n")).collect::<String>();
        let certain = scene.run_with("check -v f.bloom", certain).code(0).out();
        let ran = scene.run_with(&format!("check f.bloom --confirm {place}"), certain).code(1);
        assert!(!ran.err().contains("confirmed"), "{}", ran.err());
        let none = (2_000..3_000).map(|i| format!("key {i}\n")).collect::<String>();
        scene.run_with(&format!("check f.bloom --confirm {place}"), none).code(1);
    }
}

fn grouped(number: u64) -> String {
    format!("{},{:03}", number / 1000, number % 1000)
}

#[cfg(feature = "sqlite")]
fn database(scene: &Scene) {
    let mut database = rusqlite::Connection::open(scene.path("keys.db")).unwrap();
    database
        .execute_batch(
            "CREATE TABLE \"my\"\"table\" (id INTEGER PRIMARY KEY, key TEXT UNIQUE COLLATE NOCASE, number INTEGER UNIQUE);
             CREATE TABLE blobs (key BLOB UNIQUE);
             CREATE TABLE bare (key TEXT);",
        )
        .unwrap();
    let all = database.transaction().unwrap();
    for i in 0..2_000 {
        let key = format!("key {i}");
        all.execute("INSERT INTO \"my\"\"table\" (key, number) VALUES (?1, ?2)", (&key, i)).unwrap();
        all.execute("INSERT INTO blobs VALUES (?1)", (key.as_bytes(),)).unwrap();
    }
    all.execute("INSERT INTO bare VALUES ('key 1')", ()).unwrap();
    all.commit().unwrap();
}

#[cfg(not(feature = "sqlite"))]
fn database(_: &Scene) {}

#[cfg(feature = "sqlite")]
#[test]
fn tables_are_asked_by_value_and_wrong_names_are_told() {
    let scene = Scene::new();
    database(&scene);
    scene.write("keys.txt", "key 1\nKEY 1\n007\n7\n").write("ids.txt", "7\n");
    scene.run("build -q -o f.bloom --rate 1e-9 keys.txt").code(0);
    scene.run("build -q -o ids.bloom --keys u64 --rate 1e-9 ids.txt").code(0);
    // Neither the collation nor the type of a column makes another key of it.
    let ran = scene.run_with("check f.bloom --confirm sqlite:keys.db?my\"table.key", "key 1\nKEY 1\n").code(0);
    assert_eq!(ran.out(), "key 1\n");
    assert!(!ran.err().contains("no index"), "{}", ran.err());
    let ran = scene.run_with("check f.bloom --confirm sqlite:keys.db?my\"table.number", "007\n7\n").code(0);
    assert_eq!(ran.out(), "7\n");
    // For a filter of numbers they are one.
    let ran = scene.run_with("check ids.bloom --confirm sqlite:keys.db?my\"table.number", "007\n7\n").code(0);
    assert_eq!(ran.out(), "007\n7\n");
    let ran = scene.run_with("check f.bloom --confirm sqlite:keys.db?bare.key", "key 1\n").code(0);
    assert!(ran.out() == "key 1\n" && ran.err().contains("no index"), "{}", ran.err());
    for (place, said) in [
        ("sqlite:keys.db", "table.column"),
        ("sqlite:keys.db?key", "table.column"),
        ("sqlite:missing.db?a.b", "missing.db"),
        ("sqlite:keys.db?nowhere.key", "no such table"),
        ("sqlite:keys.db?bare.nothing", "no such column"),
        ("sqlite:keys.txt?bare.key", "not a database"),
    ] {
        scene.run_with(&format!("check f.bloom --confirm {place}"), "key 1\n").refused(&[said]);
    }
    assert!(!scene.files().contains(&"missing.db".into()));
}

#[test]
fn a_truth_that_cannot_be_searched_is_an_error() {
    let scene = two();
    scene.write("unsorted.txt", "pear\napple\n").write("long.txt", lines("", 5_000));
    scene.run("check a.bloom apple --confirm unsorted.txt").refused(&["unsorted.txt", "not sorted", "LC_ALL=C sort"]);
    scene.run("build -q -o long.bloom long.txt").code(0);
    let ran = scene.run("check long.bloom -f long.txt --confirm long.txt").code(2);
    assert!(ran.err().contains("long.txt: is not sorted"), "{}", ran.err());
    scene.run("check a.bloom apple --confirm missing.txt").refused(&["missing.txt"]);
    scene.run("check -F a.bloom -F ids.bloom 7 --confirm a.txt").refused(&["one after the other"]);
    scene.write("uuid.txt", "67e55044-10b1-426f-9247-bb680e5fe0c8\n");
    scene.run("build -q -o u.bloom --keys uuid uuid.txt").code(0);
    scene.run("check u.bloom 67e55044-10b1-426f-9247-bb680e5fe0c8 --confirm uuid.txt").refused(&["uuid"]);
}

/// A file with CR LF at its line ends is in the order of its bytes, in which `a` stands behind `a<TAB>`.
#[test]
fn every_line_with_a_carriage_return_is_confirmed() {
    let scene = Scene::new();
    let mut lines: Vec<String> = (0..3000).map(|i| format!("a\t{i:05}\r\n")).collect();
    lines.extend(["a\r\n".into(), "a\x01\r\n".into(), "ab\n".into(), "b\r\n".into()]);
    lines.sort();
    scene.write("keys.txt", lines.concat()).run("build -q -o f.bloom --crlf keys.txt").code(0);
    let ran = scene.run("check f.bloom --crlf -vc -f keys.txt --confirm keys.txt").code(0);
    assert_eq!(ran.out(), "0\n", "{}", ran.err());
    let ran = scene.run("check f.bloom --crlf --label --confirm keys.txt a ab ac").code(0);
    assert_eq!(ran.out(), "present\ta\npresent\tab\nabsent\tac\n", "{}", ran.err());
}

/// Whatever type a value has and however the database writes its texts, a key that `build --query` takes is confirmed.
#[cfg(feature = "sqlite")]
#[test]
fn every_value_of_a_database_is_confirmed() {
    for encoding in ["UTF-8", "UTF-16le"] {
        let scene = Scene::new();
        let database = rusqlite::Connection::open(scene.path("k.db")).unwrap();
        database.execute_batch(&format!("PRAGMA encoding = '{encoding}'")).unwrap();
        for (table, kind) in
            [("bare", ""), ("texts", "TEXT"), ("numbers", "NUMERIC"), ("folded", "TEXT COLLATE NOCASE")]
        {
            database
                .execute_batch(&format!(
                    "CREATE TABLE {table} (k {kind}); CREATE INDEX {table}_k ON {table} (k);
                     INSERT INTO {table} VALUES (7), (-3), (9223372036854775807), ('abc'), ('ABC'), ('\u{e4}'), ('007'),
                     (x'fffe'), (x'616264'), ('nul' || char(0) || 'x'), (CAST(x'ff41' AS TEXT)), ('1e3'), (NULL)"
                ))
                .unwrap();
            let query = format!("SELECT k FROM {table}");
            scene.command("build -q -o f.bloom sqlite:k.db --query").arg(&query).assert().success();
            let place = format!("sqlite:k.db?{table}.k");
            let asked = ["check", "f.bloom", "-vc", "-f", "sqlite:k.db", "--confirm", &place, "--query", &query];
            let ran = scene.command("").args(asked).output().unwrap();
            let said = String::from_utf8_lossy(&ran.stderr);
            assert_eq!(String::from_utf8_lossy(&ran.stdout), "0\n", "{encoding} {table}: {said}");
            assert!(said.contains("0 false"), "{encoding} {table}: {said}");
            // What is equal and not the same is absent.
            scene.run_with("build -q -o equal.bloom", "07\nAbc\n+7\n7.0\n").code(0);
            scene.run(&format!("check equal.bloom 07 Abc +7 7.0 --confirm {place}")).code(1);
        }
        database.execute_batch("CREATE TABLE reals (k); INSERT INTO reals VALUES (2.5)").unwrap();
        scene.run_with("build -q -o f.bloom", "2.5\n2.50\n").code(0);
        let ran = scene.run("check f.bloom 2.5 2.50 --label --confirm sqlite:k.db?reals.k").code(0);
        assert_eq!(ran.out(), "present\t2.5\nabsent\t2.50\n");
    }
}
