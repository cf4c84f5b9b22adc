//! `convert`: foreign filters into our file and out again byte for byte, and what cannot be, with the reason.

use crate::scene::{Scene, lines};

/// Files that Guava wrote.
const GUAVA: [(&str, &[u8]); 5] = [
    ("guava:utf8", include_bytes!("../../../bloomgate/tests/foreign/guava/utf8-1-300.bf")),
    ("guava:utf8", include_bytes!("../../../bloomgate/tests/foreign/guava/utf8-0-7.bf")),
    ("guava:long", include_bytes!("../../../bloomgate/tests/foreign/guava/long-1-300.bf")),
    ("guava:bytes", include_bytes!("../../../bloomgate/tests/foreign/guava/bytes-1-7.bf")),
    ("guava:bytes", include_bytes!("../../../bloomgate/tests/foreign/guava/int-0-7.bf")),
];

/// Dumps of RedisBloom, as JSON.
const REDIS: [(&str, &str); 4] = [
    ("redisbloom", include_str!("../../../bloomgate/tests/foreign/redisbloom/bf-nonscaling-1000-0.01.json")),
    ("redisbloom", include_str!("../../../bloomgate/tests/foreign/redisbloom/bf-scaling-grown-0.001.json")),
    ("rediscuckoo", include_str!("../../../bloomgate/tests/foreign/redisbloom/cf-grown.json")),
    ("rediscuckoo", include_str!("../../../bloomgate/tests/foreign/redisbloom/cf-bucket4-deleted.json")),
];

const BFV1: [&str; 2] = [
    include_str!("../../../bloomgate/tests/foreign/bfv1/coffee.json"),
    include_str!("../../../bloomgate/tests/foreign/bfv1/tiny.json"),
];

fn base64(text: &str) -> Vec<u8> {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other} is no base64"),
    };
    let sextets: Vec<u8> = text.bytes().filter(|&c| c != b'=').map(value).collect();
    sextets
        .chunks(4)
        .flat_map(|four| {
            let bits = four.iter().enumerate().fold(0u32, |bits, (at, &six)| bits | u32::from(six) << (18 - 6 * at));
            bits.to_be_bytes()[1..four.len()].to_vec()
        })
        .collect()
}

/// What stands after a name, up to an end.
fn list<'a>(json: &'a str, name: &str, end: &str) -> &'a str {
    let after = json.split_once(&format!("\"{name}\"")).unwrap().1;
    after.split_once(end).unwrap().0
}

/// The dump file: each chunk behind its iterator and its length.
fn dump(json: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in list(json, "chunks", "\"members\"").split('[').filter(|chunk| chunk.contains('"')) {
        let (iterator, data) = chunk.split_once(',').unwrap();
        let data = base64(data.split('"').nth(1).unwrap());
        out.extend_from_slice(&iterator.trim().parse::<i64>().unwrap().to_le_bytes());
        out.extend_from_slice(&(data.len() as u64).to_le_bytes());
        out.extend_from_slice(&data);
    }
    out
}

/// The texts of a list, one a line.
fn texts(json: &str, name: &str) -> String {
    list(json, name, "]").split('"').skip(1).step_by(2).map(|text| format!("{text}\n")).collect()
}

/// Wraps `f` into ours, unwraps it, and wraps that again: the same bytes, each time.
fn round_trip(scene: &Scene, form: &str, from: &str) {
    let original = scene.read("f");
    let told = scene.run(&format!("convert f {from} -o ours --to bloomgate")).code(0);
    assert!(told.err().contains("checksums") && told.out().is_empty(), "{form}: {}", told.err());
    let json = scene.run(&format!("convert --json -q ours -o back --to {form}")).code(0);
    assert_eq!((json.field("from"), json.number("file_bytes")), ("\"bloomgate\"".into(), original.len() as f64));
    assert!(scene.read("back") == original, "{form}: other bytes");
    scene.run(&format!("convert -q back {from} -o again --to bloomgate")).code(0);
    assert!(scene.read("again") == scene.read("ours"), "{form}: other bytes in our file");
    scene.run("info --verify ours").code(0);
    let screen = scene.run("info ours").code(0);
    assert!(screen.out().contains(form.split(':').next().unwrap()), "{form}: {}", screen.out());
    // Forms that do not say for how many keys they were made promised nothing that could be broken.
    assert!(form.contains("redis") || !screen.out().contains("above the promise"), "{form}: {}", screen.out());
}

#[test]
fn what_other_systems_wrote_comes_back_byte_for_byte() {
    let scene = Scene::new();
    for (form, bytes) in GUAVA {
        scene.write("f", bytes);
        round_trip(&scene, form, &format!("--from {form}"));
    }
    for json in BFV1 {
        scene.write("f", base64(list(json, "blob", "\",").split('"').nth(1).unwrap()));
        round_trip(&scene, "bfv1", "");
    }
}

#[test]
fn redis_dumps_come_back_and_answer_as_before() {
    let scene = Scene::new();
    for (form, json) in REDIS {
        scene.write("f", dump(json));
        round_trip(&scene, form, "");
        let members = texts(json, "members");
        assert!(members.lines().count() >= 900, "{form}");
        assert!(scene.run_with("check ours", members.clone()).code(0).out() == members, "{form}: a key is missing");
        let asked = texts(json, "probe");
        let (there, here) = (scene.run_with("check f", asked.clone()), scene.run_with("check ours", asked));
        assert_eq!(there.out(), here.out(), "{form}");
    }
}

#[test]
fn what_is_built_in_a_form_goes_through_ours_and_keeps_its_keys() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("", 2_000));
    for form in ["bfv1", "redisbloom", "rediscuckoo", "guava:utf8", "guava:long", "parquet", "parquet:u64"] {
        scene.run(&format!("build -q -o f --as {form} --rate 0.05 keys.txt")).code(0);
        let from =
            if form.contains("guava") || form.contains("parquet") { format!("--from {form}") } else { "".into() };
        round_trip(&scene, form, &from);
        assert!(scene.run("check ours -f keys.txt").code(0).out() == lines("", 2_000), "{form}: a key is missing");
        let strangers = scene.run_with("check -c ours", (5_000..7_000).map(|i| format!("{i}\n")).collect::<String>());
        let maybes: u32 = strangers.out().trim().parse().unwrap();
        assert!(maybes < 200, "{form}: {maybes} of 2,000");
        // As our file it has deltas too.
        scene.run("diff -q ours again -o d.delta").code(0);
    }
    // Text and bytes are the same bytes to a hash, and the form does not say which they were.
    scene.run("build -q -o f --as guava:utf8 keys.txt").code(0);
    scene.run("convert -q f --from guava:utf8 -o same --to guava:bytes").code(0);
    assert!(scene.read("same") == scene.read("f"));
}

#[test]
fn what_cannot_be_converted_is_told_why_with_the_command_that_makes_it() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 1_000));
    scene.run("build -q -o ours.bloom --items 2000 --rate 0.02 keys.txt").code(0);
    scene.run("convert ours.bloom -o x --to guava:utf8").refused(&[
        "ours.bloom",
        "hash: xxh3 with seed 0 here, murmur3 there",
        "layout: ",
        "bloomgate build -o x --as guava:utf8 --items 2000 --rate 0.02 KEYS",
    ]);
    scene.run("build -q -o f.bfv1 --as bfv1 --items 2000 keys.txt").code(0);
    scene.run("convert f.bfv1 -o x --to redisbloom").refused(&[
        "blake2b",
        "murmur64a",
        "layout: ",
        "count: ",
        "--as redisbloom",
    ]);
    scene.run("convert f.bfv1 -o x --to rediscuckoo").refused(&["fingerprints", "--as rediscuckoo --items"]);
    // The hash may be the same: then the layout is what differs.
    scene.run("build -q -o m.bloom --kind classic --hash murmur3 keys.txt").code(0);
    let ran = scene.run("convert m.bloom -o x --to guava:bytes").code(2);
    assert!(!ran.err().contains("hash:") && ran.err().contains("layout:"), "{}", ran.err());
    // And of one form the type of the keys.
    scene.run("build -q -o g.bf --as guava:utf8 keys.txt").code(0);
    scene.run("convert g.bf --from guava:utf8 -o x --to guava:long").refused(&["keys: text here, i64 there"]);
    // A keyed one is refused without its secret.
    scene.run("secret new -o s.key").code(0);
    scene.run("build -q -o k.bloom --secret-file s.key keys.txt").code(0);
    scene.run("convert k.bloom -o x --to parquet").refused(&["siphash13 with a secret", "--as parquet"]);
    scene.run("convert ours.bloom -o x --to bloomgate").refused(&["ours.bloom", "already"]);
    assert!(!scene.files().contains(&"x".into()));
    // The command that is printed does what it says.
    let said = scene.run("convert ours.bloom -o x --to guava:utf8").code(2).err();
    let command = said.lines().last().unwrap().trim().strip_prefix("bloomgate ").unwrap().replace("KEYS", "keys.txt");
    scene.run(&command).code(0);
    assert_eq!(scene.run("check -c --as guava:utf8 x -f keys.txt").code(0).out(), "1000\n");
}

#[test]
fn wrong_names_places_and_damage_are_refused() {
    let scene = Scene::new();
    scene.write("keys.txt", lines("k", 60_000));
    scene.run("build -q -o f.bfv1 --as bfv1 keys.txt").code(0);
    scene.run("build -q -o g.bf --as guava:utf8 keys.txt").code(0);
    scene.run("convert -q f.bfv1 -o ours --to bloomgate").code(0);
    scene.run("convert f.bfv1 -o f.bfv1 --to bloomgate").refused(&["f.bfv1", "another file"]);
    scene.run("convert g.bf -o x --to bloomgate").refused(&["g.bf", "guava"]);
    scene.run("convert f.bfv1 -o x --to guava").refused(&["guava:utf8"]);
    scene.run("convert f.bfv1 -o x --to nobody").refused(&["bloomgate"]);
    scene.run("convert f.bfv1 --from redisbloom -o x --to bloomgate").refused(&["f.bfv1"]);
    scene.run("convert ours --from bfv1 -o x --to bfv1").refused(&["ours", "leave --from out"]);
    scene.run("convert keys.txt -o x --to bloomgate").refused(&["keys.txt", "text"]);
    scene.run("convert missing -o x --to bloomgate").refused(&["missing"]);
    let mut bytes = scene.read("ours");
    let at = bytes.len() - 1_000;
    bytes[at] ^= 1;
    scene.write("ours", bytes);
    scene.run("convert ours -o x --to bfv1").refused(&["ours", "PAYLOAD", "chunk", "offset"]);
    let mut short = scene.read("f.bfv1");
    short.truncate(40);
    scene.write("short.bfv1", short);
    scene.run("convert short.bfv1 -o x --to bloomgate").refused(&["short.bfv1"]);
    assert!(!scene.files().contains(&"x".into()));
}
