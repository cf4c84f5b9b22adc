//! No part of a secret leaves the server: everything that a real one answers, logs and writes is searched for its master
//! secret, the secrets and hash keys derived from it, and the passwords, as they are, in hexadecimal and in base64.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bloomgate::Secret;
use memchr::memmem;

use crate::scene::Scene;
use crate::service::{Running, bloomgate};

/// The master secret, in the 64 digits of its file.
const MASTER: &str = "7b1e93c0a45f28d6e10c8b37f96a52d4417ce80db5932f6a0ed871c4369bfa25";
/// Of the default user, and of the others that come and go.
const PASSWORDS: [&str; 4] =
    ["Quokka-7712-lantern", "Narwhal.4408.teapot", "Ibex_9013_gramophone", "Okapi+5561+umbrella"];

/// What is looked for, and what it would give away.
struct Needle {
    what: String,
    bytes: Vec<u8>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    text.as_bytes()
        .as_chunks::<2>()
        .0
        .iter()
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Base64 without the padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let group = three.iter().enumerate().fold(0, |group, (at, &byte)| group | u32::from(byte) << (16 - 8 * at));
        text.extend((0..=three.len()).map(|at| DIGITS[(group >> (18 - 6 * at)) as usize & 63] as char));
    }
    text
}

/// All the ways in which some bytes could stand in a longer text.
fn needles(what: &str, bytes: &[u8]) -> Vec<Needle> {
    let mut found = vec![
        ("raw", bytes.to_vec()),
        ("backwards", bytes.iter().rev().copied().collect()),
        ("hex", hex(bytes).into_bytes()),
        ("HEX", hex(bytes).to_uppercase().into_bytes()),
        ("hex of the reversed", hex(&bytes.iter().rev().copied().collect::<Vec<_>>()).into_bytes()),
    ];
    // Behind none, one or two other bytes of a group; the digits that depend on the neighbours are left out.
    for before in 0..3 {
        let padded = [&[0, 0][..before], bytes].concat();
        let text = base64(&padded);
        let from = [0, 2, 3][before];
        let to = text.len() - usize::from(!padded.len().is_multiple_of(3));
        found.push(("base64", text.as_bytes()[from..to].to_vec()));
        found.push(("base64url", text[from..to].replace('+', "-").replace('/', "_").into_bytes()));
    }
    found.into_iter().map(|(form, bytes)| Needle { what: format!("{what}, {form}"), bytes }).collect()
}

/// A secret is given away by a quarter of it: eight bytes are a word of a key.
fn needles_of_secret(what: &str, bytes: &[u8]) -> Vec<Needle> {
    let quarters = bytes.chunks(8).enumerate();
    quarters.flat_map(|(at, quarter)| needles(&format!("{what}, quarter {at}"), quarter)).collect()
}

/// What must not be seen.
fn all_needles() -> Vec<Needle> {
    let master = Secret::from_hex(MASTER).unwrap();
    let mut all = needles_of_secret("the master secret", &from_hex(MASTER));
    for (contract, epoch) in [("default", 1), ("default", 2), ("orders", 1), ("orders", 2)] {
        let mut text = Vec::new();
        master.derive(&format!("contract {contract} epoch {epoch}")).write_hex(&mut text).unwrap();
        let secret: [u8; 32] = from_hex(std::str::from_utf8(text.trim_ascii()).unwrap()).try_into().unwrap();
        all.extend(needles_of_secret(&format!("the secret {contract} {epoch}"), &secret));
        // As the library derives the keys of its hashes.
        for algorithm in ["siphash-1-3-128", "siphash-2-4-128", "blake2b-128"] {
            let key = blake3::derive_key(&format!("bloomgate 2026 {algorithm} key v1"), &secret);
            all.extend(needles_of_secret(&format!("the {algorithm} key of {contract} {epoch}"), &key));
        }
    }
    for password in PASSWORDS {
        all.extend(needles(&format!("the password {password}"), password.as_bytes()));
    }
    all
}

/// Which of the needles are in these bytes.
fn found_in<'n>(haystack: &[u8], needles: &'n [Needle]) -> Vec<&'n str> {
    let found = needles.iter().filter(|needle| memmem::find(haystack, &needle.bytes).is_some());
    found.map(|needle| needle.what.as_str()).collect()
}

/// Says commands as one user on one connection and gives back all that was answered, byte for byte.
fn converse(server: &Running, login: &[&str], commands: &[Vec<&str>]) -> Vec<u8> {
    let mut sent = Vec::new();
    let ended = vec!["QUIT"];
    for words in [&login.to_vec()].into_iter().chain(commands).chain([&ended]).filter(|words| !words.is_empty()) {
        sent.extend(format!("*{}\r\n", words.len()).into_bytes());
        words.iter().for_each(|word| sent.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes()));
    }
    let mut stream = server.connect();
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(&sent));
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let _ = writer.join().unwrap();
    answer
}

/// One line, words separated by spaces.
fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// All files below a folder.
fn files_below(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
        }
    }
}

/// What a busy week of a server asks: every sort of filter, every view of it, every way to fail.
const WORK: &str = "
    BF.RESERVE bloom 0.01 20000
    BF.MADD bloom alice bob carol
    BF.EXISTS bloom alice
    BF.INFO bloom
    BF.DEBUG bloom
    CF.RESERVE cuckoo 1000
    CF.ADD cuckoo alice
    CF.DEL cuckoo alice
    CF.INFO cuckoo
    CF.DEBUG cuckoo
    BF.ADD small alice
    BG.CREATE blocked KIND blocked CAPACITY 5000 RATE 0.01
    BG.CREATE counting KIND counting CAPACITY 1000 RATE 0.01 CONTRACT orders
    BG.CREATE quotient KIND quotient CAPACITY 1000 RATE 0.01 HASH siphash24
    BG.CREATE slow KIND classic CAPACITY 1000 RATE 0.01 HASH blake2b CONTRACT orders
    BG.CREATE window KIND rotating CAPACITY 1000 RATE 0.01 WINDOW 3600 GENERATIONS 4
    BG.ADD blocked alice bob
    BG.ADD counting alice bob
    BG.ADD quotient alice
    BG.ADD slow alice
    BG.ADD window alice
    BG.REMOVE counting ITEMS alice
    BG.EXISTS blocked alice zoe
    BG.INFO blocked
    BG.INFO slow
    BG.AUDIT blocked
    BG.DIGEST blocked
    BG.DUMP blocked
    BG.DUMP slow
    BG.DUMP quotient
    BG.ADD blocked dave
    BG.ESTIMATE KIND blocked CAPACITY 1000 RATE 0.01
    BG.REKEY blocked START
    BG.FEED blocked alice bob dave
    BG.REKEY blocked STATUS
    BG.REKEY blocked FINISH
    BG.REKEY slow START
    BG.STATS
    BG.STATS bloom
    BG.STATS blocked
    BG.FEEDBACK bloom nobody
    BG.NAMESPACE SET mail PREFIX mail: MAXMEMORY 100000
    BG.NAMESPACE LIST
    BG.NAMESPACE INFO mail
    BG.SECRETS
    BG.HELP
    BG.MERGE blocked slow
    BG.MERGE blocked bloom
    BG.INTERSECT x blocked counting
    BG.COPY blocked blocked2
    BG.SWAP blocked blocked2
    SAVE
    BGSAVE
    BG.BACKUP monday
    BG.BACKUP monday
    INFO everything
    INFO all
    CONFIG GET *
    CONFIG GET password
    CONFIG GET requirepass
    CONFIG GET master-key
    CONFIG SET password x
    CONFIG SET master-key x
    ACL LIST
    ACL USERS
    ACL GETUSER default
    ACL GETUSER ann
    ACL DRYRUN ann BF.ADD bloom x
    ACL SETUSER ann >Narwhal.4408.teapot nonsense
    ACL SETUSER ann <Narwhal.4408.teapot <Narwhal.4408.teapot
    ACL SETUSER ann >Narwhal.4408.teapot
    ACL SETUSER default >Okapi+5561+umbrella
    ACL LOG
    ACL SAVE
    ACL LOAD
    CLIENT LIST
    CLIENT INFO
    SLOWLOG GET -1
    LATENCY HISTOGRAM
    LATENCY DOCTOR
    MEMORY STATS
    MEMORY DOCTOR
    MEMORY USAGE bloom
    COMMAND
    COMMAND DOCS
    MODULE LIST
    OBJECT ENCODING bloom
    KEYS *
    SCAN 0
    HELLO 3 AUTH ann Narwhal.4408.teapot extra
    AUTH ann Narwhal.4408.teapot extra
    AUTH ann Okapi+5561+umbrella
    AUTH nobody Okapi+5561+umbrella
    HELLO 3 AUTH ann Narwhal.4408.teapot
    ACL WHOAMI
    ACL LIST
    CONFIG GET *
    BF.MADD bloom erin
    MULTI
    AUTH ann Narwhal.4408.teapot
    EXEC
    BF.RESERVE bloom 7 7
    BF.RESERVE huge 0.01 1000000000000
    BF.LOADCHUNK torn 1 nonsense
    BF.LOADCHUNK bloom 1 nonsense
    BG.DELTA blocked 0000000000000000000000000000000000000000000000000000000000000000";

#[test]
fn no_part_of_a_secret_is_answered_logged_or_written() {
    let scene = Scene::new();
    scene.write("the.key", format!("{MASTER}\n")).write("short.key", &MASTER[..62]);
    for key in ["the.key", "short.key"] {
        std::fs::set_permissions(scene.path(key), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let needles = all_needles();
    let arguments = "serve --resp 127.0.0.1:0 --data kept --log-level debug --log-format json";
    let port_in = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["event"] == "ready").then(|| event["address"].as_str()?.rsplit(':').next()?.parse().ok())?
    };
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    for round in ["the first run", "after a restart"] {
        let variables = [("BLOOMGATE_PASSWORD", PASSWORDS[0])];
        let server = Running::start(&scene, &format!("{arguments} --master-key the.key"), &variables, port_in);
        let login = ["AUTH", PASSWORDS[0]];
        let begin = [
            "CONFIG SET slower-than 0",
            "ACL SETUSER ann on >Narwhal.4408.teapot +@all",
            "ACL SETUSER ann >Ibex_9013_gramophone",
        ];
        let work: Vec<Vec<&str>> =
            begin.into_iter().chain(WORK.lines()).map(words).filter(|words| !words.is_empty()).collect();
        let answer = converse(&server, &login, &work);
        // It worked: the last of each sort is among the answers, and the user that is made is a user.
        for sign in ["$3\r\nann\r\n", "siphash13", "$argon2id$v", "monday", "bloomgate"] {
            let is_there = memmem::find(&answer, sign.as_bytes()).is_some();
            assert_eq!(is_there, sign != "$argon2id$v", "{sign} in {round}: {}", String::from_utf8_lossy(&answer));
        }
        assert!(
            answer.ends_with(b"+OK\r\n"),
            "{}",
            String::from_utf8_lossy(&answer[answer.len().saturating_sub(300)..])
        );
        seen.push((format!("the answers of {round}"), answer));
        // What is typed wrong is told back to who typed it, and to nobody else.
        converse(
            &server,
            &[],
            &[vec!["AUHT", "default", PASSWORDS[0]], vec!["AUTH", PASSWORDS[3]], vec!["BF.ADD", "f", "x"]],
        );
        converse(&server, &login, &[vec!["AUHT", "ann", PASSWORDS[1]], vec!["ACL", "STEUSER", "ann", PASSWORDS[2]]]);
        for name in ["bloom", "small", "cuckoo"] {
            let command = if name == "cuckoo" { "CF.SCANDUMP" } else { "BF.SCANDUMP" };
            let mut iterator = "0".to_owned();
            for chunk in 0.. {
                let answer = converse(&server, &login, &[vec![command, name, &iterator]]);
                let rest = answer.strip_prefix(b"+OK\r\n*2\r\n:").unwrap_or_else(|| panic!("{answer:?}"));
                iterator = rest.iter().take_while(|byte| **byte != b'\r').map(|&byte| byte as char).collect();
                seen.push((format!("chunk {chunk} of {name}"), answer));
                if iterator == "0" {
                    assert!(chunk > 1, "{name} has a header and its bits");
                    break;
                }
            }
        }
        let told = String::from_utf8(converse(&server, &login, &[vec!["BG.DIGEST", "blocked"]])).unwrap();
        let address = told.lines().find(|line| line.len() == 64).unwrap_or_else(|| panic!("{told}"));
        let delta =
            [vec!["BG.DUMP", "blocked"], vec!["BG.ADD", "blocked", "frank"], vec!["BG.DELTA", "blocked", address]];
        seen.push(("a delta".to_owned(), converse(&server, &login, &delta)));
        let late = ["SLOWLOG GET -1", "ACL LOG 128", "CLIENT LIST", "INFO everything", "BG.SECRETS"].map(words);
        let late = converse(&server, &login, &late);
        assert!(memmem::find(&late, b"(redacted)").is_some(), "the log of slow commands is on");
        seen.push((format!("the end of {round}"), late));
        let said = server.stop();
        assert!(said.contains("snapshot-made") && said.contains("slow-command"), "{said}");
        seen.push((format!("the log of {round}"), said.into_bytes()));
    }
    // Starts that fail: half a secret in the file, another one than before, and one that is readable by all.
    let failing = |key: &str| bloomgate(&scene, &format!("{arguments} --master-key {key}"), &[]).output().unwrap();
    seen.push(("the error about a short secret".to_owned(), failing("short.key").stderr));
    std::fs::set_permissions(scene.path("the.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    seen.push(("the error about an open secret".to_owned(), failing("the.key").stderr));
    assert!(seen[seen.len() - 2..].iter().all(|(_, error)| error.len() > 20), "both were refused");
    files_below(&scene.path("kept"), &mut seen);
    let access = seen.iter().find(|(name, _)| name.ends_with("access.toml")).expect("the file of users");
    assert!(memmem::find(&access.1, b"$argon2id$").is_some());
    for part in ["image-", "log-", "MANIFEST", "backups/monday/"] {
        assert!(seen.iter().any(|(name, _)| name.contains(part)), "no {part} among the files");
    }
    // The key was given by its path, so none is in the folder, and nothing is left out of the search.
    assert!(seen.iter().all(|(name, _)| !name.ends_with("master.key")));
    for (place, bytes) in &seen {
        assert_eq!(found_in(bytes, &needles), Vec::<&str>::new(), "in {place}");
    }
    // The search finds what is there: the key file, and each needle planted into the largest of them.
    assert_eq!(found_in(&scene.read("the.key"), &needles).len(), 4, "four quarters in hexadecimal digits");
    let (_, largest) = seen.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let middle = largest.len() / 2;
    for quarter in 0..4 {
        let secret = &from_hex(MASTER)[8 * quarter..][..8];
        let planted = [&largest[..middle], secret, &largest[middle..]].concat();
        assert_eq!(found_in(&planted, &needles), [format!("the master secret, quarter {quarter}, raw")]);
    }
}

#[test]
fn the_forms_that_are_searched_for_are_right() {
    assert_eq!(base64(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw");
    for (before, text) in ["c2VjcmV0LXdvcmQ", "eHNlY3JldC13b3Jk", "eHhzZWNyZXQtd29yZA"].into_iter().enumerate() {
        let all = needles("a word", b"secret-word");
        assert!(!found_in(text.as_bytes(), &all).is_empty(), "behind {before} bytes");
    }
    let all = needles_of_secret("a secret", &from_hex(MASTER));
    assert_eq!(found_in(format!("x{}", &MASTER.to_uppercase()[16..40]).as_bytes(), &all), ["a secret, quarter 1, HEX"]);
    assert_eq!(found_in(&from_hex(MASTER)[7..23], &all), ["a secret, quarter 1, raw"]);
    assert!(found_in(b"nothing of it", &all).is_empty());
}
