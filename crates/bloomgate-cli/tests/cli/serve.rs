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
