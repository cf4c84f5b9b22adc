//! No part of a secret leaves the server: everything that a real one answers, logs and writes is searched for its master
//! secret, the secrets and hash keys derived from it, the passwords, the private key of its certificate and the token in the URL of
//! its webhook, as they are, in hexadecimal and in base64.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bloomgate::Secret;
use memchr::memmem;
use rcgen::{CertificateParams, KeyPair};

use crate::scene::Scene;
use crate::service::{PATIENCE, Running, bloomgate};

/// The master secret, in the 64 digits of its file.
const MASTER: &str = "7b1e93c0a45f28d6e10c8b37f96a52d4417ce80db5932f6a0ed871c4369bfa25";
/// Of the default user, and of the others that come and go.
const PASSWORDS: [&str; 4] =
    ["Quokka-7712-lantern", "Narwhal.4408.teapot", "Ibex_9013_gramophone", "Okapi+5561+umbrella"];

/// In the URL of the webhook.
const TOKEN: &str = "Tapir-6620-accordion-T7xQ";

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

/// Bytes that give a secret away, wherever in it they stand: a word of a key.
const WORD: usize = 8;

/// Every eight bytes of a secret.
fn needles_of_secret(what: &str, bytes: &[u8]) -> Vec<Needle> {
    let words = bytes.windows(WORD).enumerate();
    words.flat_map(|(at, word)| needles(&format!("{what}, from byte {at}"), word)).collect()
}

/// The private number in the DER of a key of P-256: 32 bytes behind the head of its octet string (RFC 5915).
fn private_number(der: &[u8]) -> &[u8] {
    let at = memmem::find(der, &[0x02, 0x01, 0x01, 0x04, 0x20]).expect("version 1, and the octets of the key") + 5;
    &der[at..at + 32]
}

/// What must not be seen.
fn all_needles(private_key: &[u8]) -> Vec<Needle> {
    let master = Secret::from_hex(MASTER).unwrap();
    let mut all = needles_of_secret("the master secret", &from_hex(MASTER));
    // Those of a namespace have its name before theirs.
    for (contract, epoch) in
        [("default", 1), ("default", 2), ("orders", 1), ("orders", 2), ("mail/default", 1), ("mail/letters", 1)]
    {
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
    all.extend(needles_of_secret("the key of the certificate", private_key));
    for password in PASSWORDS {
        all.extend(needles(&format!("the password {password}"), password.as_bytes()));
    }
    all.extend(needles("the token of the webhook", TOKEN.as_bytes()));
    all
}

/// Needles by their first bytes: some eight thousand are looked for in one pass.
struct Search {
    needles: Vec<Needle>,
    by_begin: HashMap<[u8; WORD], Vec<usize>>,
    /// Whether any begins with these two bytes.
    likely: Vec<bool>,
}

impl Search {
    fn new(needles: Vec<Needle>) -> Self {
        let (mut by_begin, mut likely) = (HashMap::<_, Vec<usize>>::new(), vec![false; 1 << 16]);
        for (at, needle) in needles.iter().enumerate() {
            let begin: [u8; WORD] = needle.bytes[..WORD].try_into().unwrap();
            likely[usize::from(u16::from_le_bytes([begin[0], begin[1]]))] = true;
            by_begin.entry(begin).or_default().push(at);
        }
        Self { needles, by_begin, likely }
    }

    /// Which of the needles are in these bytes, in their order.
    fn found_in(&self, haystack: &[u8]) -> Vec<&str> {
        let mut found = Vec::new();
        for (at, begin) in haystack.windows(WORD).enumerate() {
            if !self.likely[usize::from(u16::from_le_bytes([begin[0], begin[1]]))] {
                continue;
            }
            let begin: [u8; WORD] = begin.try_into().unwrap();
            let known = self.by_begin.get(&begin).into_iter().flatten();
            found.extend(known.copied().filter(|&needle| haystack[at..].starts_with(&self.needles[needle].bytes)));
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().map(|needle| self.needles[needle].what.as_str()).collect()
    }
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

/// Says one request over HTTP, with a login, and gives back all that was answered.
fn request(port: u16, login: &str, line: &str) -> Vec<u8> {
    let (head, body) = line.split_once(" | ").unwrap_or((line, ""));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let padding = ["", "==", "="][login.len() % 3];
    let login = format!("Authorization: Basic {}{padding}\r\n", base64(login.as_bytes()));
    write!(
        stream,
        "{head} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{login}Content-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let (mut answer, mut piece, begun) = (Vec::new(), [0; 4096], Instant::now());
    // Events come for ever.
    while !head.contains("/events") || begun.elapsed() < Duration::from_secs(2) {
        match stream.read(&mut piece).unwrap() {
            0 => break,
            got => answer.extend_from_slice(&piece[..got]),
        }
    }
    assert!(answer.starts_with(b"HTTP/1.1 "), "{head}: {}", String::from_utf8_lossy(&answer));
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
    BG.CREATE tight KIND blocked CAPACITY 10 RATE 0.01 ONFULL goon
    BG.ADD tight 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20
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

/// What a tenant asks, who is bound to a namespace: its filters are under secrets of its own.
const TENANT: &str = "
    BF.ADD own alice
    BG.CREATE letters KIND blocked CAPACITY 5000 RATE 0.01 CONTRACT letters
    BG.ADD letters alice bob
    BG.EXISTS letters alice zoe
    BG.INFO letters
    BG.INFO own
    BG.DIGEST letters
    BG.DUMP letters
    BG.STATS letters
    BG.SECRETS
    BF.SCANDUMP own 0
    BF.RESERVE own 7 7
    ACL WHOAMI
    SCAN 0";

/// What dashboards, scrapers and programs ask over HTTP, and the status that each is answered with.
const VISITS: &str = r#"
    200 GET /metrics
    200 GET /about.json
    200 GET /openapi.json
    200 GET /readyz
    200 GET /v1/overview
    200 GET /v1/alerts
    200 GET /v1/advice
    200 GET /v1/whoami
    200 GET /v1/config
    200 GET /v1/users
    200 GET /v1/users/ann
    200 GET /v1/namespaces
    200 GET /v1/slowlog?limit=128
    200 GET /v1/events
    200 GET /v1/commands
    200 GET /v1/filters
    200 GET /v1/filters/blocked
    200 GET /v1/filters/slow
    200 GET /v1/filters/blocked/heat
    200 GET /v1/filters/blocked/explain?key=alice
    200 GET /v1/filters/blocked/audit
    200 GET /v1/filters/blocked/snapshot
    200 GET /v1/filters/slow/snapshot
    200 POST /v1/command | {"argv": ["CONFIG", "GET", "*"]}
    200 POST /v1/command | {"argv": ["ACL", "LIST"]}
    200 PUT /v1/users/ann | {"password": "Ibex_9013_gramophone", "roles": ["read", "write", "delete", "admin"]}
    400 PUT /v1/users/ann | {"password": "Narwhal.4408.teapot", "nonsense": true}
    400 PUT /v1/users/ann | {"password": ["Narwhal.4408.teapot"]}
    400 PUT /v1/users/ann | {"password": "Narwhal.4408.teapot"
    200 POST /v1/command | {"argv": ["ACL", "SETUSER", "ann", ">Narwhal.4408.teapot", "nonsense"]}
    404 GET /v1/filters/nobody
    404 GET /nowhere"#;

#[test]
fn no_part_of_a_secret_is_answered_logged_or_written() {
    let scene = Scene::new();
    scene.write("the.key", format!("{MASTER}\n")).write("short.key", &MASTER[..62]);
    for key in ["the.key", "short.key"] {
        std::fs::set_permissions(scene.path(key), std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    scene.write("server.pem", certificate.pem()).write("tls.key", key.serialize_pem());
    std::fs::set_permissions(scene.path("tls.key"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let search = Search::new(all_needles(private_number(&key.serialize_der())));
    let arguments = "serve --resp 127.0.0.1:0 --http 127.0.0.1:0 --tls 127.0.0.1:0 --tls-cert server.pem --tls-key tls.key \
                     --data kept --log-level debug --log-format json";
    let port_in = |line: &str| {
        let event: serde_json::Value = serde_json::from_str(line).ok()?;
        (event["event"] == "ready").then(|| event["address"].as_str()?.rsplit(':').next()?.parse().ok())?
    };
    let mut seen: Vec<(String, Vec<u8>)> = Vec::new();
    for round in ["the first run", "after a restart"] {
        // Nobody listens there, so every message fails and is told as failed.
        let webhook = format!("http://127.0.0.1:9/hook/{TOKEN}?token={TOKEN}");
        let variables = [("BLOOMGATE_PASSWORD", PASSWORDS[0]), ("BLOOMGATE_ALERT_WEBHOOK", &*webhook)];
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
        let tenant = "ACL SETUSER tom on >Ibex_9013_gramophone +@all namespace=mail";
        converse(&server, &login, &[words(tenant), words("SAVE")]);
        let work: Vec<Vec<&str>> = TENANT.lines().map(words).filter(|words| !words.is_empty()).collect();
        let answer = converse(&server, &["AUTH", "tom", PASSWORDS[2]], &work);
        let told = String::from_utf8_lossy(&answer);
        assert!(told.starts_with("+OK\r\n") && told.contains("$3\r\ntom\r\n") && told.contains("letters"), "{told}");
        seen.push((format!("the answers to a tenant in {round}"), answer));
        let ready: serde_json::Value = server
            .said()
            .lines()
            .find_map(|line| {
                serde_json::from_str(line).ok().filter(|event: &serde_json::Value| event["event"] == "ready")
            })
            .unwrap();
        let http: u16 = ready["http"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        for visit in VISITS.lines().map(str::trim).filter(|visit| !visit.is_empty()) {
            let (status, visit) = visit.split_once(' ').unwrap();
            let answer = request(http, &format!("default:{}", PASSWORDS[0]), visit);
            let told = String::from_utf8_lossy(&answer[..answer.len().min(600)]);
            assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{visit} in {round}: {told}");
            seen.push((format!("{visit} in {round}"), answer));
        }
        for wrong in [format!("ann:{}", PASSWORDS[3]), PASSWORDS[0].to_owned(), format!("nobody:{}", PASSWORDS[1])] {
            seen.push((format!("a login that fails in {round}"), request(http, &wrong, "GET /v1/config")));
        }
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
        assert_eq!(search.found_in(bytes), Vec::<&str>::new(), "in {place}");
    }
    // The search finds what is there: the key files, and each word planted into the largest of them.
    assert_eq!(search.found_in(&scene.read("the.key")).len(), 25, "every eight bytes in hexadecimal digits");
    let pem = scene.read("tls.key");
    let one_line: Vec<u8> = pem.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let found = search.found_in(&one_line).into_iter().filter(|what| what.ends_with(", base64")).count();
    assert_eq!(found, 25, "every eight bytes in base64");
    assert_eq!(search.found_in(format!("POST /hook/{TOKEN}").as_bytes()), ["the token of the webhook, raw"]);
    let (_, largest) = seen.iter().max_by_key(|(_, bytes)| bytes.len()).unwrap();
    let middle = largest.len() / 2;
    for from in 0..=32 - WORD {
        let word = &from_hex(MASTER)[from..][..WORD];
        let planted = [&largest[..middle], word, &largest[middle..]].concat();
        let wanted = format!("the master secret, from byte {from}, raw");
        assert!(search.found_in(&planted).contains(&&*wanted), "{wanted}");
    }
}

/// Starts a command by a shell that allows it core files of any size; `port_in` finds its port in what it says.
fn allowed_cores(scene: &Scene, arguments: &str, port_in: impl Fn(&str) -> Option<u16>) -> Running {
    let program = bloomgate(scene, arguments, &[]);
    let mut command = Command::new("sh");
    // Only root may raise what its parent was not allowed.
    command.args(["-c", "ulimit -Sc \"$(ulimit -Hc)\"; ulimit -c unlimited 2>/dev/null; exec \"$@\"", "sh"]);
    command.arg(program.get_program()).args(program.get_args()).current_dir(scene.path(""));
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Running::spawn(command.stdin(Stdio::null()).stdout(Stdio::null()), port_in)
}

/// Neither a server nor a gate leaves its memory in a core file, and nobody but root reads it while they run.
#[test]
fn no_core_file_is_left_behind() {
    let server = |scene: &Scene| {
        allowed_cores(scene, "serve --resp 127.0.0.1:0 --http none --data kept", |line| {
            crate::serve::port_in(line, "127.0.0.1")
        })
    };
    let mut all = vec![(Scene::new(), &server as &dyn Fn(&Scene) -> Running)];
    #[cfg(feature = "gate")]
    let gate = |scene: &Scene| {
        let arguments = "gate --listen 127.0.0.1:0 --source sqlite:shop.db --table products --key sku --writers sole";
        allowed_cores(scene, arguments, |line| {
            line.strip_prefix("bloomgate: gate ready on http")?.rsplit(':').next()?.parse().ok()
        })
    };
    #[cfg(feature = "gate")]
    all.push((crate::gate::shop(), &gate));
    for (scene, start) in all {
        let mut running = start(&scene);
        let id = running.child.id();
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>()[4..6], ["0", "0"], "{line}");
        // What is not dumpable belongs to root here, whoever runs it.
        assert_eq!(std::fs::metadata(format!("/proc/{id}/environ")).unwrap().uid(), 0);
        // The limit as it is where core_pattern names a program, if we may set it: none is written all the same.
        let _ = Command::new("prlimit").args(["--pid", &id.to_string(), "--core=unlimited"]).output();
        running.signal("-QUIT");
        let status = running.child.wait().unwrap();
        assert!(status.signal() == Some(3) && !status.core_dumped(), "{status}");
        let mut files = Vec::new();
        files_below(&scene.path(""), &mut files);
        let cores: Vec<&String> = files.iter().map(|(path, _)| path).filter(|path| path.contains("/core")).collect();
        assert!(cores.is_empty(), "{cores:?}");
    }
}

#[test]
fn the_forms_that_are_searched_for_are_right() {
    assert_eq!(base64(b"any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw");
    for (before, text) in ["c2VjcmV0LXdvcmQ", "eHNlY3JldC13b3Jk", "eHhzZWNyZXQtd29yZA"].into_iter().enumerate() {
        let all = Search::new(needles("a word", b"secret-word"));
        assert!(!all.found_in(text.as_bytes()).is_empty(), "behind {before} bytes");
    }
    let all = Search::new(needles_of_secret("a secret", &from_hex(MASTER)));
    // 24 digits are twelve bytes, and those have five times eight.
    let upper = format!("x{}", &MASTER.to_uppercase()[16..40]);
    let wanted: Vec<String> = (8..13).map(|at| format!("a secret, from byte {at}, HEX")).collect();
    assert_eq!(all.found_in(upper.as_bytes()), wanted);
    assert_eq!(all.found_in(&from_hex(MASTER)[3..11]), ["a secret, from byte 3, raw"]);
    assert!(all.found_in(&from_hex(MASTER)[3..10]).is_empty() && all.found_in(b"nothing of it").is_empty());
}
