//! `import`: what comes out of Redis answers as it did there, and what could make a "no" wrong is refused.
//!
//! The server is a replay of recorded dumps (see replay.rs): no package has a RedisBloom that a test could start.

use crate::replay::{Behaviour, Kept, Recorded};
use crate::scene::{Ran, Scene, json_list, json_object};

const NAMES: [&str; 5] =
    ["bf-auto-one", "bf-nonscaling-1000-0.01", "bf-scaling-grown-0.001", "cf-bucket4-deleted", "cf-grown"];

/// A scene with a file that a failed import must leave alone.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.write("f.bloom", "what was there");
    scene
}

/// Nothing was written, and nothing was left behind.
#[track_caller]
fn untouched(scene: &Scene) {
    assert_eq!((scene.files(), scene.read("f.bloom")), (vec!["f.bloom".to_string()], b"what was there".to_vec()));
}

/// Asks a file for all that was recorded, and compares.
#[track_caller]
fn answers_as_recorded(scene: &Scene, file: &str, recorded: &Recorded) {
    let members: String = recorded.members.iter().map(|key| format!("{key}\n")).collect();
    assert!(scene.run_with(&format!("check {file}"), members.clone()).code(0).out() == members, "{file} lost a member");
    let probes: String = recorded.probes.iter().map(|(key, _)| format!("{key}\n")).collect();
    let maybes: String = recorded.probes.iter().filter(|(_, yes)| *yes).map(|(key, _)| format!("{key}\n")).collect();
    assert_eq!(scene.run_with(&format!("check {file}"), probes).out(), maybes, "{file}");
}

#[test]
fn every_recorded_filter_answers_as_it_did_in_redis() {
    let recorded: Vec<Recorded> = NAMES.iter().map(|name| Recorded::load(name)).collect();
    let keys: Vec<(&str, &Recorded)> = NAMES.iter().copied().zip(&recorded).collect();
    let mut behaviour = Behaviour::with(&keys);
    behaviour.keys.insert(2, (b"greeting".to_vec(), Kept::Other("string")));
    let server = behaviour.serve();
    let scene = Scene::new();
    let told = scene.run(&format!("import {} -d out", server.url())).code(0);
    assert!(told.out().is_empty() && told.err().lines().count() == 5, "{}", told.err());
    for (name, recorded) in &keys {
        let file = format!("out/{name}.bloom");
        answers_as_recorded(&scene, &file, recorded);
        let info = scene.run(&format!("info --json {file}")).code(0);
        let kind = if recorded.family == "BF" { "redisbloom" } else { "rediscuckoo" };
        assert_eq!(info.field("kind"), format!("\"{kind}\""));
        // Our own file, with checksums: a flipped bit is noticed, which RedisBloom's dump cannot.
        scene.run(&format!("info --verify {file}")).code(0);
        let mut damaged = scene.read(&file);
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        scene.write("damaged.bloom", damaged);
        scene.run("info --verify damaged.bloom").code(2);
    }
    // Nothing but reading was done.
    let reading = ["SCAN", "TYPE", "WATCH", "MULTI", "EXEC", "BF.INFO", "CF.INFO", "BF.SCANDUMP", "CF.SCANDUMP"];
    for command in server.heard() {
        assert!(reading.contains(&command.split(' ').next().unwrap()), "{command}");
    }
}

#[test]
fn filters_are_listed_with_what_redis_says_of_them() {
    let (bloom, cuckoo) = (Recorded::load("bf-scaling-grown-0.001"), Recorded::load("cf-grown"));
    let server = Behaviour::with(&[("urls", &bloom), ("users:1", &cuckoo), ("users:2", &cuckoo)]).serve();
    let scene = Scene::new();
    let listed = scene.run(&format!("import {}", server.url())).code(0).out();
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 4, "{listed}");
    assert_eq!(lines[1], ["redisbloom", "4,995", "9,300", "5", "24.1", "kB", "urls"]);
    assert_eq!(lines[2], ["rediscuckoo", "1,000", "-", "3", "1.88", "kB", "users:1"]);
    assert!(listed.lines().all(|line| line.chars().count() <= 80) && scene.files().is_empty());
    assert!(!server.heard().iter().any(|command| command.contains("SCANDUMP")), "a list copies nothing");
    let json = scene.run(&format!("import --json {} --match users:*", server.url())).code(0).out();
    let rows = json_list(json.trim_end());
    assert_eq!(rows.len(), 2, "{json}");
    let row = json_object(&rows[1]);
    for (name, value) in [("key", "\"users:2\""), ("kind", "\"rediscuckoo\""), ("items", "1000"), ("capacity", "null")]
    {
        assert!(row.contains(&(name.into(), value.into())), "{name} is not {value} in {json}");
    }
}

#[test]
fn keys_and_patterns_choose_and_files_are_named_after_keys() {
    let one = Recorded::load("bf-auto-one");
    let mut behaviour = Behaviour::with(&[("urls:a", &one), ("urls:b", &one), ("../up", &one)]);
    behaviour.keys.push((b"caf\xe9".to_vec(), Kept::Filter(one.clone())));
    let server = behaviour.serve();
    let scene = Scene::new();
    let url = server.url();
    scene.run(&format!("import {url} urls:a -o a.bloom")).code(0);
    let json = scene.run(&format!("import {url}/3 --match urls:* ../up -d d --json")).code(0);
    assert!(json.err().is_empty() && server.heard().contains(&"SELECT 3".to_string()), "{}", json.err());
    let files: Vec<String> = json_list(json.out().trim_end())
        .iter()
        .map(|row| json_object(row).into_iter().find(|(name, _)| name == "file").unwrap().1)
        .collect();
    assert_eq!(files, ["\"d/%2E.%2Fup.bloom\"", "\"d/urls%3Aa.bloom\"", "\"d/urls%3Ab.bloom\""]);
    assert_eq!(scene.read("a.bloom"), scene.read("d/urls%3Aa.bloom"));
    assert_eq!(scene.files(), ["a.bloom", "d"], "nothing was written outside");
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let key = std::ffi::OsStr::from_bytes(b"caf\xe9");
        let ran = scene.command(&format!("import {url} -o odd.bloom")).arg(key).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        assert_eq!(scene.read("odd.bloom"), scene.read("a.bloom"));
    }
}

#[test]
fn chunks_may_be_cut_anywhere_and_arrive_in_pieces() {
    let scene = Scene::new();
    let whole = |recorded: &Recorded, name: &str, chunk: usize, packet: usize| {
        let mut behaviour = Behaviour::with(&[("f", recorded)]);
        (behaviour.chunk, behaviour.packet) = (chunk, packet);
        scene.run(&format!("import -q {} f -o {name}", behaviour.serve().url())).code(0);
        scene.read(name)
    };
    for (name, chunks) in [
        ("bf-auto-one", &[1, 2, 3, 7, 8, 63, 64, 65, 143, 144, 145][..]),
        ("bf-scaling-grown-0.001", &[599, 600, 601, 1296, 12_959]),
        ("cf-grown", &[31, 255, 256, 257, 1024]),
    ] {
        let recorded = Recorded::load(name);
        let as_recorded = whole(&recorded, "whole.bloom", usize::MAX >> 1, usize::MAX);
        for &chunk in chunks {
            assert!(whole(&recorded, "cut.bloom", chunk, usize::MAX) == as_recorded, "{name} in chunks of {chunk}");
        }
        for packet in [1, 2, 5, 1000] {
            assert!(whole(&recorded, "cut.bloom", 1000, packet) == as_recorded, "{name} in packets of {packet}");
        }
        answers_as_recorded(&scene, "cut.bloom", &recorded);
    }
}

#[test]
fn a_connection_that_breaks_anywhere_leaves_what_was_there() {
    let recorded = Recorded::load("bf-auto-one");
    let scene = scene();
    // The whole conversation has some 700 bytes of answers.
    for after in [1, 5, 20, 100, 200, 240, 300, 310, 400, 470] {
        let mut behaviour = Behaviour::with(&[("f", &recorded)]);
        behaviour.breaks_after = Some(after);
        let server = behaviour.serve();
        scene.run(&format!("import {} f -o f.bloom", server.url())).refused(&["127.0.0.1", "the connection broke"]);
        untouched(&scene);
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let refused = scene.run(&format!("import redis://127.0.0.1:{port} f -o f.bloom"));
    refused.refused(&["cannot connect", "does the server run there"]);
    untouched(&scene);
}

/// A torn copy could say "no" to a key that is there.
#[test]
fn a_filter_that_changes_is_copied_again_and_then_given_up() {
    let recorded = Recorded::load("bf-scaling-grown-0.001");
    let run = |changes: i64, tells: bool, unknown: &'static [&'static str]| -> (Scene, Ran) {
        let mut behaviour = Behaviour::with(&[("f", &recorded)]);
        (behaviour.changes, behaviour.tells, behaviour.unknown) = (changes, tells, unknown);
        let scene = scene();
        let ran = scene.run(&format!("import {} f -o f.bloom", behaviour.serve().url()));
        (scene, ran)
    };
    // WATCH sees it, even where INFO does not; INFO sees it where there is no WATCH.
    for (tells, unknown) in [(true, &[][..]), (false, &[]), (true, &["WATCH"])] {
        let (scene, ran) = run(2, tells, unknown);
        let ran = ran.code(0);
        assert!(ran.err().contains("once more (2 of 3)") && ran.err().contains("once more (3 of 3)"), "{}", ran.err());
        answers_as_recorded(&scene, "f.bloom", &recorded);
        let (scene, ran) = run(3, tells, unknown);
        let ran = ran.code(2);
        for words in ["changed while it was copied, 3 times", "may be missing", "nothing was written", "replica"] {
            assert!(ran.err().contains(words), "{words:?} is not in {}", ran.err());
        }
        untouched(&scene);
    }
}

#[test]
fn passwords_are_given_in_two_ways_and_never_printed() {
    let recorded = Recorded::load("bf-auto-one");
    let mut behaviour = Behaviour::with(&[("f", &recorded)]);
    behaviour.password = Some(("ann", "hun:ter@2"));
    let port = behaviour.clone().serve().port;
    behaviour.password = Some(("default", "hun:ter@2"));
    let default = behaviour.serve().port;
    let scene = Scene::new();
    scene.write("pass", "hun:ter@2\n").write("wrong", "hunter3").write("empty", "\n");
    let good = "127.0.0.1";
    let mut all = String::new();
    let mut run = |arguments: String| {
        let ran = scene.run(&arguments);
        all.push_str(&(ran.out() + &ran.err()));
        ran
    };
    run(format!("import redis://ann:hun%3Ater%402@{good}:{port} f -o a.bloom")).code(0);
    run(format!("import redis://ann@{good}:{port} --password-file pass f -o b.bloom")).code(0);
    run(format!("import redis://{good}:{default} --password-file pass f -o c.bloom")).code(0);
    assert_eq!(scene.read("a.bloom"), scene.read("c.bloom"));
    run(format!("import redis://{good}:{port} f")).refused(&["wants a password", "--password-file"]);
    run(format!("import redis://ann:hunter3@{good}:{port} f")).refused(&["neither this user nor this password"]);
    run(format!("import redis://ann@{good}:{port} --password-file wrong f")).refused(&["neither"]);
    run(format!("import redis://ann@{good}:{port} f")).refused(&["no password", "--password-file"]);
    run(format!("import redis://ann@{good}:{port} --password-file empty f")).refused(&["empty", "no password"]);
    run(format!("import redis://ann@{good}:{port} --password-file nowhere f")).refused(&["nowhere"]);
    run(format!("import redis://ann:hunter3@{good}:{port} --password-file pass f")).refused(&["give one of them"]);
    run(format!("import rediss://ann:hunter3@{good}:{port} f")).refused(&["TLS", "stunnel", "redis-cli --tls"]);
    run(format!("import http://ann:hunter3@{good}:{port} f")).refused(&["redis://"]);
    run("import redis://ann:hunter3@host:nine f".into()).refused(&["cannot be read"]);
    run("import redis://ann:hunter3@host f -o x -d y".into()).code(2);
    let open = Behaviour::with(&[("f", &recorded)]).serve();
    run(format!("import redis://:hunter3@{good}:{} f", open.port)).refused(&["has no password", "leave it out"]);
    assert!(!all.contains("hunter3") && !all.contains("ter@2") && !all.contains("ter%40"), "{all}");
}

#[test]
fn a_server_without_the_module_is_told_apart_from_an_empty_one() {
    let recorded = Recorded::load("bf-auto-one");
    let scene = Scene::new();
    let mut plain = Behaviour::with(&[]);
    plain.keys = vec![(b"a".to_vec(), Kept::Other("string")), (b"v".to_vec(), Kept::Other("bloomfltr"))];
    let mut empty = plain.clone();
    empty.lies = vec![("COMMAND", "BF.SCANDUMP", b"*1\r\n*1\r\n+bf.scandump\r\n".to_vec())];
    let (plain, empty) = (plain.serve().url(), empty.serve().url());
    scene.run(&format!("import {plain}")).refused(&["among 2 keys", "without the RedisBloom module"]);
    scene.run(&format!("import {empty}")).refused(&["among 2 keys", "another database"]);
    scene.run(&format!("import {plain} a")).refused(&["a: holds a string"]);
    scene.run(&format!("import {plain} v")).refused(&["valkey-bloom"]);
    scene.run(&format!("import {plain} nowhere")).refused(&["nowhere: there is no such key"]);
    for unknown in [&["BF.INFO"][..], &["BF.SCANDUMP"]] {
        let mut behaviour = Behaviour::with(&[("f", &recorded)]);
        behaviour.unknown = unknown;
        let refused = scene.run(&format!("import {} f -o f.bloom", behaviour.serve().url()));
        refused.refused(&["does not know", unknown[0], "RedisBloom module"]);
    }
    assert!(scene.files().is_empty());
}

#[test]
fn what_no_redis_says_is_refused() {
    let recorded = Recorded::load("bf-auto-one");
    let scene = scene();
    let header = |more: u64| {
        let mut header = recorded.header.clone();
        // The bytes of the first link.
        header[20..28].copy_from_slice(&(144 + more).to_le_bytes());
        [format!("*2\r\n:1\r\n${}\r\n", header.len()).as_bytes(), &header, b"\r\n"].concat()
    };
    let large = b"*4\r\n+Size\r\n:9000000000000\r\n+Number of items inserted\r\n:1\r\n".to_vec();
    let more = b"*4\r\n+Size\r\n:240\r\n+Number of items inserted\r\n:2\r\n".to_vec();
    let lies: [(&str, &str, Vec<u8>, bool, &str); 15] = [
        ("BF.SCANDUMP", "1", b"*2\r\n:145\r\n$9223372036854775807\r\n".to_vec(), true, "longer than 16.8 MB"),
        ("BF.SCANDUMP", "1", b"*9223372036854775807\r\n".to_vec(), false, "no answer in time"),
        ("BF.SCANDUMP", "1", b"*2\r\n:145\r\n$5\r\n".to_vec(), true, "not the protocol"),
        ("BF.SCANDUMP", "1", b"*2\r\n:9\r\n$2\r\nab\r\n".to_vec(), false, "iterator 9 to 1 with 2 bytes"),
        ("BF.SCANDUMP", "1", b"*2\r\n:1\r\n$0\r\n\r\n".to_vec(), false, "iterator 1 to 1 with 0 bytes"),
        ("BF.SCANDUMP", "1", b"*2\r\n:0\r\n$0\r\n\r\n".to_vec(), false, "f:"),
        ("BF.SCANDUMP", "1", b"+OK\r\n".to_vec(), false, "no chunk"),
        ("BF.SCANDUMP", "1", b"*1\r\n:0\r\n".to_vec(), false, "no chunk"),
        ("BF.SCANDUMP", "1", b"-MOVED 99 10.0.0.7:7001\r\n".to_vec(), false, "redis://10.0.0.7:7001"),
        ("BF.SCANDUMP", "1", b"-ERR not found\r\n".to_vec(), false, "was removed"),
        ("BF.SCANDUMP", "0", header(1 << 40), false, "f:"),
        ("BF.INFO", "f", large, false, "--max-size"),
        ("BF.INFO", "f", more, false, "it is not taken"),
        ("BF.INFO", "f", b":1\r\n".to_vec(), false, "no information"),
        ("TYPE", "f", b"*0\r\n".to_vec(), false, "no type"),
    ];
    for (command, last, answer, endless, said) in lies {
        let mut behaviour = Behaviour::with(&[("f", &recorded)]);
        behaviour.lies = vec![(command, last, answer.clone())];
        behaviour.endless = endless;
        let ran = scene.run(&format!("import --timeout 300ms {} f -o f.bloom", behaviour.serve().url()));
        assert!(ran.err().contains(said), "{}: {said:?} is not in {}", String::from_utf8_lossy(&answer), ran.err());
        ran.refused(&["127.0.0.1"]);
        untouched(&scene);
    }
}

#[test]
fn limits_hold_for_the_size_and_for_what_is_written() {
    let recorded = Recorded::load("bf-scaling-grown-0.001");
    let mut empty = Recorded::load("cf-grown");
    empty.info.iter_mut().filter(|(name, _)| name.contains("items")).for_each(|(_, number)| *number = Some(0));
    let server = Behaviour::with(&[("f", &recorded), ("g", &recorded), ("none", &empty)]).serve();
    let (scene, url) = (scene(), server.url());
    scene.run(&format!("import {url} f -o f.bloom --max-size 20kB")).refused(&["24.1 kB", "20.0 kB", "--max-size"]);
    assert!(!server.heard().iter().any(|command| command.contains("SCANDUMP")), "refused before it is read");
    scene.run(&format!("import {url} -o f.bloom")).refused(&["one filter and 3 are there", "-d DIR"]);
    scene.run(&format!("import {url} none -o f.bloom")).refused(&["no keys", "empty cuckoo filter"]);
    scene.run(&format!("import {url} f -o nowhere/f.bloom")).refused(&["nowhere", "no such directory"]);
    scene.run(&format!("import {url} f -d f.bloom")).refused(&["f.bloom"]);
    untouched(&scene);
    // One that cannot be dumped does not keep the others away.
    let told = scene.run(&format!("import {url} -d d")).code(0).err();
    assert!(told.contains("none has no keys") && told.lines().count() == 3, "{told}");
    // Nor does one that fails: the other is there, and the exit code says that one is not.
    let mut behaviour = Behaviour::with(&[("large", &recorded), ("small", &Recorded::load("bf-auto-one"))]);
    // Touched, and then refused: that is no reason to take the next one for torn.
    (behaviour.changes, behaviour.tells) = (1, false);
    behaviour.lies = vec![("BF.SCANDUMP", "601", b"+OK\r\n".to_vec())];
    let told = scene.run(&format!("import {} -d e", behaviour.serve().url())).code(2).err();
    assert!(told.contains("no chunk") && told.contains("1 of 2 filters were not copied"), "{told}");
    assert!(!told.contains("once more") && !scene.path("e/large.bloom").exists(), "{told}");
    scene.run("check e/small.bloom only").code(0);
    for arguments in ["", "redis://h --tries 0", "redis://h --timeout 0", "redis://h --max-size lots"] {
        scene.run(&format!("import {arguments}")).code(2);
    }
}

#[cfg(unix)]
#[test]
fn unix_sockets_are_servers_too() {
    let recorded = Recorded::load("cf-bucket4-deleted");
    let scene = Scene::new();
    let socket = scene.path("redis.sock");
    Behaviour::with(&[("f", &recorded)]).serve_at(&socket);
    scene.run(&format!("import -q redis+unix://{} f -o f.bloom", socket.display())).code(0);
    answers_as_recorded(&scene, "f.bloom", &recorded);
    scene.run("import redis+unix:///nowhere/redis.sock f").refused(&["/nowhere/redis.sock", "cannot connect"]);
}
