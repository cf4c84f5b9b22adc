//! `serve`: the real server, over TCP, with the redis crate as its client; how it starts, is told its settings, stops
//! and comes back.

use std::io::{Read, Write};
use std::net::TcpStream;

use redis::{Connection, ConnectionLike, ErrorKind, RedisResult, Value, cmd, pipe};

use crate::scene::Scene;
use crate::service::{self, PATIENCE, Running, bloomgate};

/// The port in the line in which a server says that it is ready.
pub fn port_in(line: &str, ip: &str) -> Option<u16> {
    let told = line.strip_prefix(&format!("bloomgate: ready on {ip}:"))?;
    Some(told.split(',').next().unwrap().parse().unwrap())
}

/// A server, and what its clients do.
impl Running {
    /// Starts `serve` on any free port, and waits until it says that it is ready.
    pub fn serve(scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Self {
        Self::serve_on("127.0.0.1", scene, arguments, variables)
    }

    /// The same on another address.
    pub fn serve_on(ip: &str, scene: &Scene, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let mut command = bloomgate(scene, &format!("serve --resp {ip}:0 {arguments}"), variables);
        Self::spawn(command.stdout(std::process::Stdio::null()), |line| port_in(line, ip))
    }

    /// A client of it, in RESP2 or RESP3.
    pub fn client(&self, protocol: u8) -> Connection {
        let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", self.port);
        let connection = redis::Client::open(url).unwrap().get_connection_with_timeout(PATIENCE).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    /// Sends bytes as they are; everything that comes back until the server closes.
    pub fn raw(&self, sent: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(sent.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn add(client: &mut Connection, key: &str, item: impl redis::ToRedisArgs) -> bool {
    cmd("BF.ADD").arg(key).arg(item).query(client).unwrap()
}

fn exists(client: &mut Connection, key: &str, item: impl redis::ToRedisArgs) -> bool {
    cmd("BF.EXISTS").arg(key).arg(item).query(client).unwrap()
}

/// A `serve` that must be refused at once, with exit code 2 and all of this in its message.
#[track_caller]
pub fn refused(scene: &Scene, arguments: &str, variables: &[(&str, &str)], says: &[&str]) {
    service::refused(scene, &format!("serve --resp 127.0.0.1:0 {arguments}"), variables, says);
}

#[test]
fn both_protocols_and_typed_lines_are_answered_byte_for_byte() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data none", &[]);
    // Typed by hand, as with telnet.
    let typed = server.raw("PING\r\nBF.ADD f \"an item\"\r\nBF.ADD f \"an item\"\r\nBF.EXISTS f nothing\r\nQUIT\r\n");
    assert_eq!(typed, "+PONG\r\n:1\r\n:0\r\n:0\r\n+OK\r\n");
    // A pipeline of arrays, RESP2 then RESP3 on one connection.
    let sent = "*4\r\n$7\r\nBF.MADD\r\n$1\r\ng\r\n$1\r\na\r\n$1\r\na\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
        *4\r\n$10\r\nBF.MEXISTS\r\n$1\r\ng\r\n$1\r\na\r\n$1\r\nz\r\n*2\r\n$6\r\nBF.ADD\r\n$1\r\ng\r\n*1\r\n$4\r\nQUIT\r\n";
    let answer = server.raw(sent);
    assert!(answer.starts_with("*2\r\n:1\r\n:0\r\n%7\r\n"), "{answer}");
    let rest = "*2\r\n#t\r\n#f\r\n-ERR wrong number of arguments for 'bf.add' command\r\n+OK\r\n";
    assert!(answer.ends_with(rest), "{answer}");
    // What is no request ends the connection, not the server.
    assert!(server.raw("*1\r\n!nonsense\r\n").starts_with("-ERR Protocol error"));
    assert_eq!(server.raw("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    assert!(server.stop().contains("nothing is kept"));
    assert!(scene.files().is_empty(), "nothing is kept: {:?}", scene.files());
}

#[test]
fn the_redis_crate_works_unchanged() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data none", &[]);
    for protocol in [2, 3] {
        let mut client = server.client(protocol);
        cmd("FLUSHALL").exec(&mut client).unwrap();
        assert!(client.check_connection());
        assert!(add(&mut client, "f", "a") && !add(&mut client, "f", "a"));
        assert!(exists(&mut client, "f", "a") && !exists(&mut client, "f", "z"));
        let yes = cmd("BF.EXISTS").arg("f").arg("a").query::<Value>(&mut client).unwrap();
        assert_eq!(yes, if protocol == 2 { Value::Int(1) } else { Value::Boolean(true) });
        let many: Vec<bool> = cmd("BF.MADD").arg("f").arg(&["a", "b", "c"]).query(&mut client).unwrap();
        assert_eq!(many, [false, true, true]);
        // A pipeline of a thousand, and a transaction.
        let mut adding = pipe();
        (0..1_000).for_each(|item| _ = adding.cmd("BF.ADD").arg("g").arg(item));
        let added: Vec<bool> = adding.query(&mut client).unwrap();
        assert_eq!(added.len(), 1_000);
        let items: Vec<u32> = (0..1_000).collect();
        let found: Vec<bool> = cmd("BF.MEXISTS").arg("g").arg(&items).query(&mut client).unwrap();
        assert!(found.iter().all(|&found| found));
        let mut together = pipe();
        together.atomic().cmd("BF.ADD").arg("h").arg("a").cmd("BF.ADD").arg("h").arg("a").cmd("BF.CARD").arg("h");
        assert_eq!(together.query::<(bool, bool, u32)>(&mut client).unwrap(), (true, false, 1));
        // WATCH: the first try is overtaken, the second is not.
        let mut other = server.client(protocol);
        let mut tries = 0;
        let done: (bool,) = redis::transaction(&mut client, &["h"], |client, pipe| {
            tries += 1;
            if tries == 1 {
                add(&mut other, "h", "overtaking");
            }
            pipe.cmd("BF.ADD").arg("h").arg("mine").query(client)
        })
        .unwrap();
        assert_eq!((done, tries), ((true,), 2));
        cuckoo_filters_by_the_redis_crate(&mut client, protocol);
        // Errors come as the crate's own.
        let error = |result: RedisResult<Value>| result.unwrap_err();
        let twice = error(cmd("BF.RESERVE").arg("f").arg(0.01).arg(100).query(&mut client));
        assert!(twice.to_string().contains("item exists"), "{twice}");
        let unknown = error(cmd("GET").arg("f").query(&mut client));
        assert!(unknown.to_string().contains("unknown command"), "{unknown}");
        assert!(!unknown.is_io_error() && unknown.kind() != ErrorKind::Parse, "{unknown:?}");
    }
    server.stop();
}

/// Every CF.* through the crate, in types of the caller's choice.
fn cuckoo_filters_by_the_redis_crate(client: &mut Connection, protocol: u8) {
    let truth = |said: bool| if protocol == 2 { Value::Int(said.into()) } else { Value::Boolean(said) };
    let mut ask = |name: &str, items: &[&str]| -> Value { cmd(name).arg("c").arg(items).query(client).unwrap() };
    assert_eq!(ask("CF.RESERVE", &["1000", "BUCKETSIZE", "4"]), Value::Okay);
    assert_eq!(ask("CF.ADD", &["a"]), truth(true));
    assert_eq!(ask("CF.ADD", &["a"]), truth(true));
    assert_eq!((ask("CF.ADDNX", &["a"]), ask("CF.ADDNX", &["b"])), (truth(false), truth(true)));
    assert_eq!(ask("CF.COUNT", &["a"]), Value::Int(2));
    assert_eq!(ask("CF.MEXISTS", &["a", "b", "z"]), Value::Array([true, true, false].map(truth).to_vec()));
    assert_eq!(ask("CF.INSERT", &["ITEMS", "x", "x"]), Value::Array([true, true].map(truth).to_vec()));
    // Numbers in both protocols, as RedisBloom has it: -1 would be one that does not fit.
    assert_eq!(ask("CF.INSERTNX", &["ITEMS", "x", "y"]), Value::Array(vec![Value::Int(0), Value::Int(1)]));
    assert_eq!((ask("CF.DEL", &["x"]), ask("CF.DEL", &["z"])), (truth(true), truth(false)));
    assert_eq!((ask("CF.EXISTS", &["x"]), ask("CF.EXISTS", &["z"])), (truth(true), truth(false)));
    let info: std::collections::HashMap<String, u64> = cmd("CF.INFO").arg("c").query(client).unwrap();
    assert_eq!((info["Number of items inserted"], info["Number of items deleted"]), (5, 1));
    // A pipeline of a thousand, then all of it to another name, piece by piece.
    let mut adding = pipe();
    (0..1_000).for_each(|item| _ = adding.cmd("CF.ADD").arg("c").arg(item));
    assert!(adding.query::<Vec<bool>>(client).unwrap().iter().all(|&added| added));
    cmd("DEL").arg("copy").exec(client).unwrap();
    let mut cursor = 0i64;
    loop {
        let (next, piece): (i64, Option<Vec<u8>>) = cmd("CF.SCANDUMP").arg("c").arg(cursor).query(client).unwrap();
        let (1.., Some(piece)) = (next, piece) else { break };
        cmd("CF.LOADCHUNK").arg("copy").arg(next).arg(piece).exec(client).unwrap();
        cursor = next;
    }
    assert!(cursor > 0);
    let items: Vec<u32> = (0..1_000).collect();
    let found: Vec<bool> = cmd("CF.MEXISTS").arg("copy").arg(&items).query(client).unwrap();
    assert!(found.iter().all(|&found| found));
    let wrong: RedisResult<Value> = cmd("BF.ADD").arg("c").arg("a").query(client);
    assert!(wrong.unwrap_err().to_string().contains("WRONGTYPE"));
}

#[test]
fn the_log_is_compacted_by_itself_and_nothing_is_lost() {
    let scene = Scene::new();
    let small = [("BLOOMGATE_SNAPSHOT_LOG", "1MiB")];
    let server = Running::serve(&scene, "--data kept", &small);
    let mut client = server.client(2);
    let persistence = |client: &mut Connection| {
        let told: String = cmd("INFO").arg("persistence").query(client).unwrap();
        let number = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("no {name} in {told}")).parse::<u64>().unwrap()
        };
        (number("snapshots"), number("log_bytes"))
    };
    let logs = || {
        let files = std::fs::read_dir(scene.path("kept")).unwrap().map(|file| file.unwrap());
        files.filter(|file| file.file_name().to_string_lossy().starts_with("log-")).collect::<Vec<_>>()
    };
    let names = || logs().iter().map(|file| file.file_name()).collect::<std::collections::HashSet<_>>();
    // One that goes meanwhile is none.
    let on_disk = || -> u64 { logs().iter().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum() };
    // 0.4 MB of bits, so that the log of 1 MiB is what counts.
    cmd("BF.RESERVE").arg("f").arg(0.001).arg(200_000).exec(&mut client).unwrap();
    let batch = |number: u32| -> Vec<u32> { (number * 1_000..(number + 1) * 1_000).collect() };
    let (mut batches, mut largest, mut snapshots, mut held) = (0, 0, 0, names());
    // Nobody says BGSAVE. At 8 bytes an add a megabyte is 130,000 of them, and no more than two come in before a look.
    while snapshots < 2 {
        assert!(batches < 2_000, "2 M adds, {largest} bytes of log, and no second snapshot");
        cmd("BF.MADD").arg("f").arg(batch(batches)).exec(&mut client).unwrap();
        batches += 1;
        largest = largest.max(on_disk());
        snapshots = persistence(&mut client).0;
        if snapshots == 0 {
            held.extend(names());
        }
    }
    assert!(largest > 1 << 20, "a snapshot was made though the log had {largest} bytes only");
    // What the snapshots hold is gone from the disk, and from what is told. What came while they were made is not: their thread
    // waits for every other, so on a busy machine that is much.
    let begun = std::time::Instant::now();
    while !held.is_disjoint(&names()) || persistence(&mut client).1 > on_disk() {
        assert!(begun.elapsed() < PATIENCE, "{:?}, {:?}", logs(), persistence(&mut client));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    for _ in 0..3 {
        cmd("BF.MADD").arg("f").arg(batch(batches)).exec(&mut client).unwrap();
        batches += 1;
    }
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    let server = Running::serve(&scene, "--data kept", &small);
    let mut client = server.client(2);
    for number in 0..batches {
        let found: Vec<bool> = cmd("BF.MEXISTS").arg("f").arg(batch(number)).query(&mut client).unwrap();
        let lost = found.iter().filter(|&&found| !found).count();
        assert_eq!(lost, 0, "of batch {number} of {batches}");
    }
    server.stop();
}

#[test]
fn what_was_written_is_there_after_a_restart() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data kept", &[]);
    let mut client = server.client(2);
    cmd("BF.RESERVE").arg("big").arg(0.001).arg(10_000).exec(&mut client).unwrap();
    let items: Vec<u32> = (0..5_000).collect();
    cmd("BF.MADD").arg("big").arg(&items).exec(&mut client).unwrap();
    pipe().atomic().cmd("BF.ADD").arg("small").arg("a").cmd("BF.ADD").arg("gone").arg("a").exec(&mut client).unwrap();
    cmd("DEL").arg("gone").exec(&mut client).unwrap();
    cmd("RENAME").arg("small").arg("renamed").exec(&mut client).unwrap();
    let there = |server: &Running| {
        let mut client = server.client(3);
        let names: u32 = cmd("DBSIZE").query(&mut client).unwrap();
        let found: Vec<bool> = cmd("BF.MEXISTS").arg("big").arg(&items).query(&mut client).unwrap();
        let lost = found.iter().filter(|&&found| !found).count();
        let card: u32 = cmd("BF.CARD").arg("big").query(&mut client).unwrap();
        let renamed = exists(&mut client, "renamed", "a") && !exists(&mut client, "gone", "a");
        assert_eq!((names, lost, renamed), (2, 0, true));
        card
    };
    let card = there(&server);
    server.stop();
    // Stopped by SIGTERM, then by SHUTDOWN, then killed: nothing that a program can do loses what was acknowledged.
    let server = Running::serve(&scene, "--data kept", &[]);
    assert!(server.said().contains("2 filters in kept"), "{}", server.said());
    assert_eq!(there(&server), card);
    let _: RedisResult<Value> = cmd("SHUTDOWN").query(&mut server.client(2));
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    let server = Running::serve(&scene, "--data kept", &[]);
    assert_eq!(there(&server), card);
    add(&mut server.client(2), "renamed", "at the last moment");
    server.signal("-KILL");
    assert_eq!(server.end().0, None);
    let server = Running::serve(&scene, "--data kept", &[]);
    assert_eq!(there(&server), card);
    assert!(exists(&mut server.client(2), "renamed", "at the last moment"));
    server.stop();
}

#[test]
fn a_folder_and_a_port_belong_to_one_server() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data kept", &[]);
    let owner = format!("in use by process {}", server.child.id());
    refused(&scene, "--data kept", &[], &["the data folder kept", &owner, "a folder of its own"]);
    let taken =
        bloomgate(&scene, &format!("serve --resp 127.0.0.1:{} --data other", server.port), &[]).output().unwrap();
    let error = String::from_utf8_lossy(&taken.stderr);
    assert_eq!(taken.status.code(), Some(2), "{error}");
    assert!(error.contains("cannot listen on 127.0.0.1:") && error.contains("in use"), "{error}");
    // The first one did not notice.
    assert!(add(&mut server.client(2), "f", "a"));
    server.stop();
    // Once it has ended, the folder is free.
    Running::serve(&scene, "--data kept", &[]).stop();
}

#[test]
fn settings_come_by_flag_then_variable_then_file() {
    let scene = Scene::new();
    scene.write("server.toml", "max-clients = 11\nmax-filters = 12\nmax-memory = \"64MB\"\ndata = \"by-file\"\n");
    let variables = [("BLOOMGATE_MAX_CLIENTS", "21"), ("BLOOMGATE_MAX_FILTERS", "22")];
    let server = Running::serve(&scene, "--config server.toml --max-clients 31", &variables);
    let mut client = server.client(2);
    for (name, expected) in
        [("max-clients", "31"), ("max-filters", "22"), ("max-memory", "64000000"), ("data", "by-file")]
    {
        let found: (String, String) = cmd("CONFIG").arg("GET").arg(name).query(&mut client).unwrap();
        assert_eq!(found, (name.to_owned(), expected.to_owned()));
    }
    server.stop();
    assert!(scene.path("by-file").is_dir());
    // The file itself may be told by a variable.
    let by_variable = Running::serve(&scene, "", &[("BLOOMGATE_CONFIG", "server.toml")]);
    let found: (String, String) =
        cmd("CONFIG").arg("GET").arg("max-clients").query(&mut by_variable.client(2)).unwrap();
    assert_eq!(found.1, "11");
    by_variable.stop();
}

#[test]
fn mistakes_in_settings_are_told_with_what_was_meant() {
    let scene = Scene::new();
    scene.write("unknown.toml", "max-memry = \"1GB\"\n").write("broken.toml", "max-memory = \n");
    scene.write("wrong.toml", "threads = 0\n").write("sort.toml", "threads = [1]\n");
    let (none, near): (&[(&str, &str)], _) = (&[], "'max-memory'");
    refused(&scene, "--max-memry 1GB", none, &["--max-memry", "--max-memory"]);
    refused(&scene, "", &[("BLOOMGATE_MAX_MEMRY", "1GB")], &["BLOOMGATE_MAX_MEMRY", "did you mean", near]);
    refused(&scene, "--config unknown.toml", none, &["unknown.toml", "max-memry", "did you mean", near]);
    refused(&scene, "--config broken.toml", none, &["broken.toml", "line 1"]);
    refused(&scene, "--config wrong.toml", none, &["wrong.toml: threads: 0 is not between 1 and 1024"]);
    refused(
        &scene,
        "--config sort.toml",
        none,
        &["sort.toml", "threads is a text or a number, and here it is of the type array"],
    );
    refused(&scene, "--config absent.toml", none, &["absent.toml", "No such file"]);
    refused(&scene, "--threads 0", none, &["--threads: 0 is not between 1 and 1024"]);
    refused(&scene, "--import-dir nowhere", none, &["--import-dir: 'nowhere' is no folder"]);
    refused(&scene, "", &[("BLOOMGATE_THREADS", "two")], &["BLOOMGATE_THREADS", "'two' is no whole number"]);
    refused(&scene, "--fsync sometimes", none, &["--fsync", "always"]);
    refused(&scene, "--max-memory lots", none, &["--max-memory", "512MB"]);
    // Settings without a flag are found as well, and do not stand before a flag that is nearer.
    let told = [
        "unexpected argument '--idle-timeot'; did you mean the setting 'idle-timeout'?",
        "BLOOMGATE_IDLE_TIMEOUT",
        "--config",
    ];
    refused(&scene, "--idle-timeot 5s", none, &told);
    refused(&scene, "--client-memry=1GB", none, &["did you mean the setting 'client-memory'?"]);
    refused(&scene, "--idle-timeout 5s", none, &["the setting idle-timeout has no flag", "`idle-timeout = ...`"]);
    refused(&scene, "--max-client 5", none, &["unexpected argument '--max-client'", "--max-clients"]);
    refused(&scene, "--colour always", none, &["unexpected argument '--colour'"]);
    assert!(!scene.path("bloomgate-data").exists(), "nothing was begun");
}

#[test]
fn a_password_is_asked_for() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data none", &[("BLOOMGATE_PASSWORD", "open-sesame")]);
    let answers = server.raw("BF.ADD f a\r\nAUTH wrong\r\nAUTH open-sesame\r\nBF.ADD f a\r\nQUIT\r\n");
    let lines: Vec<&str> = answers.lines().collect();
    assert!(lines[0].starts_with("-NOAUTH ") && lines[1].starts_with("-WRONGPASS "), "{answers}");
    assert_eq!(lines[2..], ["+OK", ":1", "+OK"], "{answers}");
    for (password, works) in [("open-sesame", true), ("wrong", false)] {
        let url = format!("redis://:{password}@127.0.0.1:{}/?protocol=3", server.port);
        assert_eq!(redis::Client::open(url).unwrap().get_connection_with_timeout(PATIENCE).is_ok(), works);
    }
    assert!(!server.stop().contains("open-sesame"));
}

/// A client that logs in.
fn user(server: &Running, protocol: u8, name: &str, password: &str) -> RedisResult<Connection> {
    let url = format!("redis://{name}:{password}@127.0.0.1:{}/?protocol={protocol}", server.port);
    let connection = redis::Client::open(url)?.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

#[test]
fn users_have_roles_and_are_there_after_a_restart() {
    let scene = Scene::new();
    // The first admin is there before the server is.
    let made = scene.run_with("user add boss --roles read,write,delete,admin --data kept", "pass-of-boss\n").code(0);
    assert!(!made.out().contains("pass-of-boss"));
    let server = Running::serve(&scene, "--data kept", &[]);
    let mut boss = user(&server, 3, "boss", "pass-of-boss").unwrap();
    cmd("ACL").arg(&["SETUSER", "shop", "on", ">pass-of-shop", "+@read", "+@write"]).exec(&mut boss).unwrap();
    cmd("ACL").arg(&["SETUSER", "default", "off"]).exec(&mut boss).unwrap();
    let works = |server: &Running| {
        for protocol in [2, 3] {
            let mut shop = user(server, protocol, "shop", "pass-of-shop").unwrap();
            add(&mut shop, "f", "a");
            assert!(exists(&mut shop, "f", "a"));
            assert_eq!(cmd("ACL").arg("WHOAMI").query::<String>(&mut shop).unwrap(), "shop");
            let refused = cmd("DEL").arg("f").query::<Value>(&mut shop).unwrap_err();
            assert_eq!(refused.code(), Some("NOPERM"), "{refused}");
            let mut together = pipe();
            together.cmd("BF.EXISTS").arg("f").arg("a").cmd("FLUSHALL").cmd("BF.EXISTS").arg("f").arg("a");
            assert!(together.query::<Value>(&mut shop).is_err());
            assert!(exists(&mut shop, "f", "a"), "nothing was deleted");
            for (name, password) in [("shop", "pass-of-boss"), ("nobody", "pass-of-shop"), ("default", "x")] {
                assert!(user(server, protocol, name, password).is_err(), "{name}");
            }
        }
        assert!(server.raw("PING\r\nQUIT\r\n").starts_with("-NOAUTH"));
    };
    works(&server);
    server.stop();
    let server = Running::serve(&scene, "--data kept", &[]);
    works(&server);
    // SIGHUP reads what was changed by hand; a connection of somebody who is not in it any more ends.
    let mut shop = user(&server, 2, "shop", "pass-of-shop").unwrap();
    let text = String::from_utf8(scene.read("kept/access.toml")).unwrap();
    assert!(!text.contains("pass-of-") && text.contains("$argon2id$"), "{text}");
    let without = text.replace("[users.\"shop\"]", "[users.\"store\"]");
    scene.write("kept/access.toml", without);
    server.signal("-HUP");
    let began = std::time::Instant::now();
    while user(&server, 2, "store", "pass-of-shop").is_err() {
        assert!(began.elapsed() < PATIENCE, "the file is not read");
    }
    assert!(cmd("BF.EXISTS").arg("f").arg("a").query::<Value>(&mut shop).is_err());
    // A damaged one stops the start with the line.
    server.stop();
    scene.write("kept/access.toml", "[users.boss]\nroles = [\"king\"]\n");
    refused(&scene, "--data kept", &[], &["access.toml", "line 2", "'king' is no role"]);
}

/// Another address of this machine than those of the loopback, if it has one.
fn outside() -> Option<std::net::IpAddr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: the system only looks up which of its addresses it would use.
    socket.connect("192.0.2.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[test]
fn protected_mode_keeps_other_machines_out() {
    let scene = Scene::new();
    let ask = |server: &Running, ip: std::net::IpAddr| {
        let mut stream = TcpStream::connect((ip, server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // One that is refused may be closed before it has spoken.
        let _ = stream.write_all(b"PING\r\nAUTH ann pass-of-ann\r\nPING\r\nQUIT\r\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let here = std::net::IpAddr::from([127, 0, 0, 1]);
    let server = Running::serve_on("0.0.0.0", &scene, "--data none", &[]);
    assert!(ask(&server, here).starts_with("+PONG\r\n-WRONGPASS"));
    if let Some(outside) = outside() {
        let denied = ask(&server, outside);
        let words = format!("redis-cli -p {} ACL SETUSER admin on '>PASSWORD' +@all", server.port);
        assert!(
            denied.is_empty() || denied.starts_with("-DENIED protected mode") && denied.contains(&words),
            "{denied}"
        );
    }
    cmd("ACL").arg(&["SETUSER", "ann", "on", ">pass-of-ann", "+@read"]).exec(&mut server.client(2)).unwrap();
    if let Some(outside) = outside() {
        assert_eq!(ask(&server, outside), "-NOAUTH Authentication required.\r\n+OK\r\n+PONG\r\n+OK\r\n");
    }
    let words = format!("(redis-cli -p {} ACL SETUSER admin on '>PASSWORD' +@all)", server.port);
    let said = server.stop();
    assert!(said.contains("protected mode: 0.0.0.0:") && said.contains(&words), "{said}");
    let open = Running::serve_on("0.0.0.0", &scene, "--data none --protected-mode no", &[]);
    assert!(ask(&open, outside().unwrap_or(here)).starts_with("+PONG"));
    let said = open.stop();
    assert!(said.contains("whoever connects"), "{said}");
    let closed = Running::serve_on("0.0.0.0", &scene, "--data none", &[("BLOOMGATE_PASSWORD", "open-sesame")]);
    assert!(ask(&closed, outside().unwrap_or(here)).starts_with("-NOAUTH"));
    assert!(!closed.stop().contains("protected"));
}

#[test]
fn users_are_added_to_the_file_of_a_server() {
    let scene = Scene::new();
    // In the words of this command, not in those of ACL.
    scene.run_with("user add ann --roles read", "").refused(&["the password: a password has 1 to 512 bytes"]);
    scene.run_with("user add ann --roles king", "p\n").refused(&["there is no role 'king'; there are read, write"]);
    let unbound = "--namespace: there is no namespace 'shop'";
    scene.run_with("user add ann --roles read --namespace shop", "p\n").refused(&[unbound]);
    scene.run_with("user add a/b --roles read", "p\n").refused(&["the name of a user"]);
    let made = scene.run("user add ann --roles read,write --generate --access users.toml").code(0);
    assert_eq!(made.out().trim().len(), 64);
    let text = String::from_utf8(scene.read("users.toml")).unwrap();
    assert!(
        text.contains("[users.\"ann\"]")
            && text.contains("roles = [\"read\", \"write\"]")
            && !text.contains(made.out().trim())
    );
    // Once more: another password, other roles.
    scene.run_with("user add ann --roles delete --access users.toml", "new-one\r\nignored\n").code(0);
    let again = String::from_utf8(scene.read("users.toml")).unwrap();
    assert!(again.contains("roles = [\"delete\"]") && again.matches("$argon2id$").count() == 1 && again != text);
    let server = Running::serve(&scene, "--data none --access users.toml", &[]);
    assert!(user(&server, 2, "ann", "new-one").is_ok());
    server.stop();
    refused(&scene, "--data none --access absent.toml", &[], &["the access file absent.toml is not there"]);
}

#[test]
fn settings_are_checked_without_serving() {
    let scene = Scene::new();
    let right = scene.run("serve --check --data kept --max-memory 1GB").code(0);
    assert!(right.err().contains("the settings are right"), "{}", right.err());
    assert!(scene.files().is_empty(), "nothing is made: {:?}", scene.files());
    scene.write("wrong.toml", "[users.ann]\nroles = [\"king\"]\n");
    std::fs::set_permissions(scene.path("wrong.toml"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    scene.run("serve --check --data kept --access wrong.toml").refused(&["wrong.toml", "line 2", "'king' is no role"]);
    scene.run("serve --check --data kept --max-memory lots").refused(&["--max-memory: 'lots' is no size"]);
    scene
        .run("serve --check --tls 6480 --tls-cert absent.pem --tls-key absent.pem")
        .refused(&["absent.pem cannot be read"]);
    scene.run("serve --check --master-key absent.key").refused(&["absent.key is not there"]);
    // A secret that systemd hands over is for the service alone, whatever its mode looks like.
    std::fs::create_dir(scene.path("credentials")).unwrap();
    scene.write("credentials/the.key", "5a".repeat(32));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o440);
    std::fs::set_permissions(scene.path("credentials/the.key"), mode).unwrap();
    let folder = scene.path("credentials").to_str().unwrap().to_owned();
    let arguments = format!("serve --check --master-key {folder}/the.key");
    scene.run(&arguments).refused(&["the.key"]);
    let handed = bloomgate(&scene, &arguments, &[("CREDENTIALS_DIRECTORY", &folder)]).output().unwrap();
    assert_eq!(handed.status.code(), Some(0), "{}", String::from_utf8_lossy(&handed.stderr));
    // A setting without a flag says how it is set.
    for (flag, variable) in [("--idle-timeout 5s", "BLOOMGATE_IDLE_TIMEOUT"), ("--password=x", "BLOOMGATE_PASSWORD")] {
        scene.run(&format!("serve {flag}")).refused(&["has no flag: set the variable", variable, "file of --config"]);
    }
    scene.run("serve --idle-timeot 5s").refused(&["unexpected argument '--idle-timeot'"]);
}

/// Without `--http` it is on port 8479 if that is free, and the server starts without it if not.
#[test]
fn http_has_its_port_or_the_server_goes_without() {
    let scene = Scene::new();
    // Whoever has it, it is taken.
    let taken = std::net::TcpListener::bind("127.0.0.1:8479");
    let server = Running::serve(&scene, "--data none", &[]);
    server.wait_for("no HTTP: ");
    let said = server.said();
    let told = said.lines().find(|line| line.contains("no HTTP: ")).unwrap();
    assert!(told.contains("8479") && told.ends_with(", or `none`"), "{told}");
    assert!(!said.contains("HTTP on "), "{said}");
    assert!(add(&mut server.client(2), "seen", "x"), "it serves all the same");
    server.stop();
    // A port that was asked for is not gone without.
    refused(&scene, "--data none --http 127.0.0.1:8479", &[], &["8479"]);
    let Ok(ours) = taken else { return };
    drop(ours);
    let server = Running::serve(&scene, "--data none", &[]);
    let said = server.said();
    if said.contains("no HTTP: ") {
        // Somebody else was faster: it is not free.
        assert!(TcpStream::connect("127.0.0.1:8479").is_ok(), "{said}");
    } else {
        assert!(said.contains("HTTP on 127.0.0.1:8479"), "{said}");
        let mut stream = TcpStream::connect("127.0.0.1:8479").unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    server.stop();
}

/// Connections from one address of the network are limited; those of this machine are not.
#[test]
fn one_address_has_so_many_connections_and_no_more() {
    let scene = Scene::new();
    let variables = [("BLOOMGATE_MAX_CLIENTS_PER_ADDRESS", "3")];
    let server = Running::serve_on("0.0.0.0", &scene, "--data none --http none --protected-mode no", &variables);
    let ping = |ip: std::net::IpAddr| {
        let mut stream = TcpStream::connect((ip, server.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // One that is refused may be closed before it has spoken.
        let _ = stream.write_all(b"PING\r\n");
        let mut answer = [0; 256];
        let length = stream.read(&mut answer).unwrap_or(0);
        (stream, String::from_utf8_lossy(&answer[..length]).into_owned())
    };
    let own: Vec<_> = (0..10).map(|_| ping([127, 0, 0, 1].into())).collect();
    assert!(own.iter().all(|(_, answer)| answer == "+PONG\r\n"));
    let Some(outside) = outside() else {
        eprintln!(
            "this machine has no other address than those of the loopback: the limit is tested at the desk alone"
        );
        server.stop();
        return;
    };
    let mut three: Vec<_> = (0..3).map(|_| ping(outside)).collect();
    assert!(three.iter().all(|(_, answer)| answer == "+PONG\r\n"), "{three:?}");
    let (_, refused) = ping(outside);
    let why = "-ERR max number of clients from one address reached (3)";
    assert!(refused.is_empty() || refused.starts_with(why), "{refused}");
    assert!(ping([127, 0, 0, 1].into()).1 == "+PONG\r\n", "others are none of its business");
    let info: String = cmd("INFO").arg("stats").query(&mut server.client(2)).unwrap();
    assert!(info.contains("rejected_connections:1"), "{info}");
    // Who goes makes room.
    three.pop();
    let begun = std::time::Instant::now();
    while ping(outside).1 != "+PONG\r\n" {
        assert!(begun.elapsed() < PATIENCE, "the place of one who is gone stays taken");
    }
    let said = server.stop();
    assert!(said.contains(&format!("{outside}")) && said.contains("max-clients-per-address"), "{said}");
}

/// SIGTERM amid a pipeline: what was done is answered, what was answered is there after a restart, and nothing else is.
#[test]
fn a_pipeline_in_flight_is_answered_as_far_as_it_was_run() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--http none --data kept --fsync always", &[]);
    let reserve = "BG.CREATE seen KIND blocked CAPACITY 2000000 RATE 0.000001";
    cmd("BG.CREATE").arg(reserve.split(' ').skip(1).collect::<Vec<_>>()).exec(&mut server.client(2)).unwrap();
    let mut stream = server.connect();
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for item in 0..1_000_000u32 {
            let item = item.to_string();
            let command = format!("*3\r\n$6\r\nBF.ADD\r\n$4\r\nseen\r\n${}\r\n{item}\r\n", item.len());
            // It ends when the server closes.
            if writing.write_all(command.as_bytes()).is_err() {
                return item.parse::<u32>().unwrap();
            }
        }
        panic!("a million were taken before the server stopped");
    });
    let mut answers = vec![0; 4 * 2_000];
    stream.read_exact(&mut answers).unwrap();
    server.signal("-TERM");
    // The end may be a reset: what was sent and never read is still on the way.
    let mut piece = [0; 1 << 16];
    while let Ok(length @ 1..) = stream.read(&mut piece) {
        answers.extend_from_slice(&piece[..length]);
    }
    let sent = writer.join().unwrap();
    let (code, said) = server.end();
    assert_eq!(code, Some(0), "{said}");
    let answered = answers.chunks(4).filter(|&answer| answer == b":1\r\n").count();
    let known = answers.chunks(4).filter(|&answer| answer == b":0\r\n").count();
    assert_eq!(4 * (answered + known), answers.len(), "whole answers, and no errors");
    assert!(answered >= 1_900 && answered + known <= sent as usize + 1, "{answered} of {sent}");
    let server = Running::serve(&scene, "--http none --data kept", &[]);
    let mut client = server.client(2);
    // 2,000,000 at 1e-6: none of a million is taken for known by chance, but for one now and then.
    let there: usize = cmd("BF.CARD").arg("seen").query(&mut client).unwrap();
    assert_eq!(there, answered, "what was run is answered: {known} of {sent} were known");
    let asked: Vec<u32> = (0..(answered + known) as u32).collect();
    for some in asked.chunks(10_000) {
        let found: Vec<bool> = cmd("BF.MEXISTS").arg("seen").arg(some).query(&mut client).unwrap();
        assert!(found.iter().all(|&found| found), "an item that was acknowledged is gone");
    }
    server.stop();
}
