//! `serve` as an operator meets it: under a service manager, with sockets handed over, signals, logs and settings that
//! change.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use redis::{RedisResult, Value, cmd};

use crate::scene::Scene;
use crate::serve::{port_in, refused};
use crate::service::{PATIENCE, Running, bloomgate};

/// A service manager that only listens.
struct Manager {
    socket: UnixDatagram,
    path: String,
}

impl Manager {
    fn new(scene: &Scene) -> Self {
        let path = scene.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path: path.to_str().unwrap().to_owned() }
    }

    /// The next state that begins with this.
    fn next(&self, begin: &str) -> String {
        loop {
            let mut state = [0; 512];
            let length = self.socket.recv(&mut state).unwrap();
            let state = String::from_utf8_lossy(&state[..length]).into_owned();
            if state.starts_with(begin) {
                return state;
            }
        }
    }
}

#[test]
fn a_service_manager_is_told() {
    let scene = Scene::new();
    let manager = Manager::new(&scene);
    let variables = [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", "400000")];
    let server = Running::serve(&scene, "--data none", &variables);
    assert_eq!(manager.next("READY=1"), "READY=1");
    assert_eq!(manager.next("STATUS=Serving"), "STATUS=Serving 0 filters, 0 clients");
    assert_eq!(manager.next("WATCHDOG"), "WATCHDOG=1");
    assert_eq!(manager.next("WATCHDOG"), "WATCHDOG=1");
    server.signal("-HUP");
    let reloading = manager.next("RELOADING=1");
    let micros = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
    assert!(micros.parse::<u64>().unwrap() > 0, "{reloading}");
    assert_eq!(manager.next("READY=1"), "READY=1");
    server.stop();
    assert_eq!(manager.next("STOPPING=1").lines().next(), Some("STOPPING=1"));
    // A reload that was refused is told to whoever asks for the status.
    let server = Running::serve(&scene, "--data kept", &variables);
    manager.next("STATUS=Serving");
    scene.write("kept/access.toml", "[users.ann]\nroles = [\"king\"]\n");
    server.signal("-HUP");
    let status = manager.next("STATUS=Serving");
    assert!(status.contains("; the last reload was refused: ") && status.contains("access.toml"), "{status}");
    server.stop();
    assert_eq!(manager.next("STOPPING=1").lines().next(), Some("STOPPING=1"));
    // A sign of life that is asked of another process is not ours.
    let variables = [("NOTIFY_SOCKET", &*manager.path), ("WATCHDOG_USEC", "2000"), ("WATCHDOG_PID", "1")];
    let server = Running::serve(&scene, "--data none", &variables);
    manager.next("STATUS=Serving");
    std::thread::sleep(Duration::from_millis(300));
    server.stop();
    let mut state = [0; 512];
    let length = manager.socket.recv(&mut state).unwrap();
    assert!(state[..length].starts_with(b"STOPPING=1"), "{}", String::from_utf8_lossy(&state[..length]));
}

/// Starts a server in whose place a shell has put the sockets 3 and 4, as systemd does.
fn handed(scene: &Scene, sockets: [TcpListener; 2], variables: &str, arguments: &str) -> Command {
    let binary = assert_cmd::cargo::cargo_bin!("bloomgate").to_str().unwrap().to_owned();
    let script =
        format!("exec 3<&0 4<&1 0</dev/null 1>/dev/null; LISTEN_PID=$$ {variables} exec '{binary}' serve {arguments}");
    // The same environment as other servers of the tests have.
    let clean = bloomgate(scene, "", &[]);
    let mut command = Command::new("sh");
    clean.get_envs().for_each(|(name, value)| match value {
        Some(value) => _ = command.env(name, value),
        None => _ = command.env_remove(name),
    });
    let [first, second] = sockets.map(OwnedFd::from);
    command.arg("-c").arg(script).current_dir(scene.path("")).stdin(first).stdout(second);
    command
}

fn two_sockets() -> ([TcpListener; 2], [u16; 2]) {
    let sockets = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [0, 1].map(|number: usize| sockets[number].local_addr().unwrap().port());
    (sockets, ports)
}

/// A port that is free. Somebody else may take it before it is used; then the start says so.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sends bytes to a server that may be starting; everything that comes back until it closes.
fn say(port: u16, sent: &str) -> String {
    let begin = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => break stream,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Writes a certificate and its key.
fn certificate(scene: &Scene) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    scene.write("cert.pem", made.cert.pem()).write("key.pem", made.signing_key.serialize_pem());
}

#[test]
fn sockets_that_are_handed_over_are_used() {
    let scene = Scene::new();
    // Without names the first is the plain one; what was bound before the server ran is served by it.
    let (sockets, [first, _]) = two_sockets();
    let server =
        Running::spawn(&mut handed(&scene, sockets, "LISTEN_FDS=1", "--data none"), |line| port_in(line, "127.0.0.1"));
    assert_eq!(server.port, first);
    assert_eq!(server.raw("PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    server.stop();
    // By their names, in any order.
    certificate(&scene);
    let (sockets, [first, second]) = two_sockets();
    let arguments = "--data none --tls-cert cert.pem --tls-key key.pem";
    let server =
        Running::spawn(&mut handed(&scene, sockets, "LISTEN_FDS=2 LISTEN_FDNAMES=tls:resp", arguments), |line| {
            port_in(line, "127.0.0.1")
        });
    assert_eq!(server.port, second);
    server.wait_for(&format!(", TLS on 127.0.0.1:{first},"));
    assert_eq!(server.raw("PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    server.stop();
    // What cannot be used is told; those for another process are left alone.
    for (variables, says) in [
        ("LISTEN_FDS=2", "tls-cert names no file"),
        ("LISTEN_FDS=2 LISTEN_FDNAMES=resp:resp", "there are two of its name"),
        ("LISTEN_FDS=3", "is called '': resp, tls or http is expected"),
        ("LISTEN_FDS=1000000000", "there is use for three"),
    ] {
        let (sockets, _) = two_sockets();
        let ran = handed(&scene, sockets, variables, "--data none").stderr(Stdio::piped()).output().unwrap();
        let error = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.code() == Some(2) && error.contains(says), "{variables}: {error}");
    }
    let variables = [("LISTEN_PID", "1"), ("LISTEN_FDS", "1")];
    Running::serve(&scene, "--data none", &variables).stop();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let scene = Scene::new();
    let server = Running::serve(&scene, "--data kept", &[]);
    // A client that takes none of its replies holds up the end for three seconds.
    let mut greedy = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    greedy.set_nonblocking(true).unwrap();
    let line = b"COMMAND DOCS bf.add bf.madd bf.reserve\r\n".repeat(1_000);
    // Full pipes of one moment may only wait for the server's turn: it is stuck once nothing moves for a while.
    let begin = Instant::now();
    let mut moved = begin;
    while moved.elapsed() < Duration::from_millis(300) {
        assert!(begin.elapsed() < PATIENCE, "it takes everything");
        match greedy.write(&line) {
            Ok(_) => moved = Instant::now(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::sleep(Duration::from_millis(5)),
            Err(error) => panic!("{error}"),
        }
    }
    server.signal("-TERM");
    server.wait_for("bloomgate: stopping, told by SIGTERM");
    // The same thing said twice, as `timeout` does to a process and its group; and after a second, one who means it.
    server.signal("-TERM");
    thread::sleep(Duration::from_millis(1_200));
    server.signal("-INT");
    let (code, said) = server.end();
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("ended at once, told by a second SIGINT"), "{said}");
    // What was there is there.
    Running::serve(&scene, "--data kept", &[]).stop();
}

#[test]
fn a_certificate_is_read_again_when_told_and_a_wrong_one_is_refused() {
    let scene = Scene::new();
    certificate(&scene);
    let arguments = "--data none --tls 127.0.0.1:0 --tls-cert cert.pem --tls-key key.pem";
    let server = Running::serve(&scene, arguments, &[]);
    server.wait_for(", TLS on 127.0.0.1:");
    // Nothing has changed, so nothing is said.
    server.signal("-HUP");
    scene.write("key.pem", "nonsense");
    server.signal("-HUP");
    server.wait_for("cannot be used, what was there before stays: key.pem holds no private key");
    certificate(&scene);
    server.signal("-HUP");
    server.wait_for("what TLS is served with has changed (cert.pem, key.pem)");
    assert_eq!(server.raw("PING\r\nQUIT\r\n"), "+PONG\r\n+OK\r\n");
    let said = server.stop();
    assert!(!said.contains("nonsense") && said.matches("has changed").count() == 1, "{said}");
}

#[test]
fn logs_are_objects_when_asked_for() {
    let scene = Scene::new();
    let port = free_port();
    let arguments = format!("serve --resp {port} --data kept --log-format json --log-level debug");
    let mut command = bloomgate(&scene, &arguments, &[]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut events: Vec<serde_json::Value> = Vec::new();
    let mut read_to = |event: &str| loop {
        let line = lines.next().unwrap().unwrap();
        let object: serde_json::Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let found = object["event"] == event;
        events.push(object);
        if found {
            break;
        }
    };
    read_to("ready");
    assert!(say(port, "*1\r\n!evil\x1b[2J\r\n").starts_with("-ERR Protocol error"));
    read_to("protocol-error");
    say(port, "CONFIG SET slower-than 0\r\nBF.INSERT tenant ITEMS somebodys-address\r\nQUIT\r\n");
    read_to("slow-command");
    say(port, "SAVE\r\nQUIT\r\n");
    read_to("snapshot-made");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    read_to("stopped");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(lines.next().is_none());
    let text = |event: &str, field: &str| {
        let found = events.iter().find(|object| object["event"] == event).unwrap();
        (found["level"].as_str().unwrap().to_owned(), found[field].to_string())
    };
    assert_eq!(text("ready", "address"), ("info".to_owned(), format!("\"127.0.0.1:{port}\"")));
    assert_eq!(text("protocol-error", "client").0, "warn");
    assert_eq!(text("setting-changed", "setting").1, "\"slower-than\"");
    assert_eq!(text("stopping", "by").1, "\"SIGTERM\"");
    let order: Vec<&str> =
        ["start", "ready", "protocol-error", "setting-changed", "snapshot-made", "stopping", "stopped"]
            .into_iter()
            .filter(|name| events.iter().any(|object| object["event"] == *name))
            .collect();
    assert_eq!(order.len(), 7, "{events:?}");
    for object in &events {
        let all = object.to_string();
        assert!(!all.contains("somebodys-address") && !all.contains('\u{1b}'), "{all}");
        let time = object["time"].as_str().unwrap();
        assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{time}");
    }
    // A start that fails is told in the same form.
    let failed = bloomgate(&scene, &format!("{arguments} --tls-key key.pem"), &[]).output().unwrap();
    assert_eq!(failed.status.code(), Some(2));
    let object: serde_json::Value = serde_json::from_slice(&failed.stderr).unwrap();
    assert!(object["message"].as_str().unwrap().contains("tls-key is set and tls is not"), "{object}");
}

#[test]
fn changed_settings_survive_a_restart_once_they_are_written() {
    let scene = Scene::new();
    scene.write("server.toml", "# mine\ndata = \"kept\"\nmax-clients = 50\n");
    let server = Running::serve(&scene, "--config server.toml", &[]);
    let mut client = server.client(2);
    let mut set = |name: &str, value: &str| -> RedisResult<Value> {
        cmd("CONFIG").arg("SET").arg(name).arg(value).query(&mut client)
    };
    set("max-clients", "60").unwrap();
    set("bf-initial-size", "777").unwrap();
    set("log-level", "warn").unwrap();
    assert!(set("data", "other").is_err());
    let written: String = cmd("CONFIG").arg("REWRITE").query(&mut client).unwrap();
    assert_eq!(written, "OK");
    let said = server.stop();
    assert!(said.contains("max-clients is 60 now") && said.contains("bf-initial-size is 777 now"), "{said}");
    assert!(!said.contains("stopping"), "less is told from then on: {said}");
    let text = String::from_utf8(scene.read("server.toml")).unwrap();
    assert_eq!(text, "# mine\ndata = \"kept\"\nmax-clients = 60\nlog-level = \"warn\"\nbf-initial-size = 777\n");
    let server = Running::serve(&scene, "--config server.toml --log-level info", &[]);
    let found: (String, String) = cmd("CONFIG").arg("GET").arg("bf-initial-size").query(&mut server.client(2)).unwrap();
    assert_eq!(found.1, "777");
    server.stop();
}

#[test]
fn an_open_address_is_warned_of_and_quiet_says_nothing() {
    let scene = Scene::new();
    refused(&scene, "--tls 127.0.0.1:0", &[], &["tls-cert names no file"]);
    refused(&scene, "--log-level loud", &[], &["--log-level: 'loud' is no level"]);
    refused(&scene, "--tls-cert absent.pem", &[], &["tls-cert is set and tls is not"]);
    let port = free_port();
    let mut command = bloomgate(&scene, &format!("serve --quiet --resp 0.0.0.0:{port} --data none"), &[]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(say(port, "PING\r\nQUIT\r\n").starts_with(['+', '-']));
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), &*String::from_utf8_lossy(&ended.stderr)), (Some(0), ""));
    let server =
        bloomgate(&scene, &format!("serve --resp 0.0.0.0:{port} --data none"), &[]).stderr(Stdio::piped()).spawn();
    let server = server.unwrap();
    assert!(say(port, "PING\r\nQUIT\r\n").starts_with(['+', '-']));
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    let said = String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap();
    assert!(
        said.contains("bloomgate: warning: protected mode: 0.0.0.0:") && said.contains("BLOOMGATE_PASSWORD"),
        "{said}"
    );
}

/// Connections are files: all that the system allows are asked for, and some are kept for the disk.
#[test]
fn files_are_asked_for_and_clients_do_not_have_them_all() {
    let scene = Scene::new();
    let run = |limits: &str| {
        let port = free_port();
        let arguments = format!("serve --resp 127.0.0.1:{port} --http none --data none");
        let program = bloomgate(&scene, &arguments, &[]);
        let mut command = Command::new("sh");
        // A limit is the process's own, and its children's.
        command.arg("-c").arg(format!("{limits} && exec \"$@\"")).arg("sh").arg(program.get_program());
        command.args(program.get_args()).current_dir(program.get_current_dir().unwrap());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let server = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let most = say(port, "CONFIG GET max-clients\r\nCONFIG SET max-clients 9000\r\nQUIT\r\n");
        let files = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
        let files = files.lines().find(|line| line.starts_with("Max open files")).unwrap().to_owned();
        assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
        let said = String::from_utf8(server.wait_with_output().unwrap().stderr).unwrap();
        (most, files.split_whitespace().nth(3).unwrap().to_owned(), said)
    };
    // Few now, and more if asked for.
    let (most, files, said) = run("ulimit -Sn 300 && ulimit -Hn 15000");
    assert!(files == "15000" && most.contains("\r\n10000\r\n") && most.contains("+OK\r\n+OK"), "{files}: {most}");
    assert!(!said.contains("files open"), "{said}");
    // Few and no more.
    let (most, files, said) = run("ulimit -n 1024");
    assert!(files == "1024" && most.contains("\r\n768\r\n"), "{files}: {most}");
    assert!(most.contains("1024 files open: 768 clients are let in at most"), "{most}");
    assert!(said.contains("warning: max-clients is 10000, and the process may have 1024 files open"), "{said}");
}

/// The container file's question whether the server is well, asked here as the container would.
#[test]
fn the_container_knows_whether_it_is_well() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/Containerfile");
    let file = std::fs::read_to_string(file).unwrap();
    let asked = file.lines().find_map(|line| line.trim().strip_prefix("CMD [\"bash\"")).unwrap();
    let words: Vec<String> = serde_json::from_str(&format!("[\"bash\"{asked}")).unwrap();
    let is_well = |port: u16| {
        let words: Vec<String> = words.iter().map(|word| word.replace("/6479", &format!("/{port}"))).collect();
        Command::new(&words[0]).args(&words[1..]).stderr(Stdio::null()).status().unwrap().success()
    };
    let scene = Scene::new();
    for variables in [&[][..], &[("BLOOMGATE_PASSWORD", "open-sesame")][..]] {
        let server = Running::serve(&scene, "--data none", variables);
        assert!(is_well(server.port));
        server.stop();
    }
    assert!(!is_well(free_port()), "nobody answers there");
    // Somebody who answers otherwise.
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let answering = std::thread::spawn(move || other.accept().unwrap().0.write_all(b"-LOADING\r\n").unwrap());
    assert!(!is_well(port));
    answering.join().unwrap();
}

/// A control group below that of this test, which goes with it.
struct Group(std::path::PathBuf);

impl Group {
    /// One that may have so much memory; why there can be none.
    fn new(bytes: u64) -> Result<Self, String> {
        let groups = std::fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let path_of = |is_it: &dyn Fn(&str, &str) -> bool| {
            groups.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':');
                let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
                is_it(number, controllers).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        // Version 1 has a tree for memory; in that of version 2 memory may be somebody else's.
        let first = path_of(&|_, controllers| controllers.split(',').any(|controller| controller == "memory"));
        let (top, path, file) = match first {
            Some(path) => ("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"),
            None => {
                let path = path_of(&|number, controllers| number == "0" && controllers.is_empty());
                ("/sys/fs/cgroup", path.ok_or("this process is in no control group")?, "memory.max")
            }
        };
        let group = Self(std::path::Path::new(top).join(path).join(format!("bloomgate-test-{}", std::process::id())));
        std::fs::create_dir(&group.0).map_err(|error| format!("{}: {error}", group.0.display()))?;
        let limit = group.0.join(file);
        std::fs::write(&limit, bytes.to_string()).map_err(|error| format!("{}: {error}", limit.display()))?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Whoever was in it has ended, and the system may need a moment to see that.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A server in a group that may have 512 MiB plans with those, not with what the machine has.
#[test]
fn a_budget_follows_the_control_group() {
    const MAY_HAVE: u64 = 512 << 20;
    let group = match Group::new(MAY_HAVE) {
        Ok(group) => group,
        Err(why) => {
            // Where root has a tree of groups it can make one: anything else is worth a look.
            let is_root =
                std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
            let has_memory = std::path::Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists();
            assert!(!(is_root && has_memory), "no group can be made: {why}");
            eprintln!("no group can be made here, so the budget in one is not looked at: {why}");
            return;
        }
    };
    let scene = Scene::new();
    let binary = assert_cmd::cargo::cargo_bin!("bloomgate");
    let enter = format!(
        "echo $$ > {}/cgroup.procs && exec {} serve --resp 127.0.0.1:0 --http none --data none",
        group.0.display(),
        binary.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &enter]).current_dir(scene.path("")).stdin(Stdio::null()).stdout(Stdio::null());
    // Settings in the caller's shell are meant for another server.
    for (name, value) in bloomgate(&scene, "", &[]).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let server = Running::spawn(&mut command, |line| port_in(line, "127.0.0.1"));
    let info: String = cmd("INFO").arg("memory").query(&mut server.client(2)).unwrap();
    let most = info.lines().find_map(|line| line.strip_prefix("maxmemory:")).unwrap().trim().parse::<u64>().unwrap();
    assert_eq!(most, MAY_HAVE / 4 * 3, "three quarters of what the group may have: {info}");
    // What does not fit there is refused, and does not end the process.
    let refused: RedisResult<Value> =
        cmd("BF.RESERVE").arg(&["large", "0.01", "800000000"]).query(&mut server.client(2));
    assert!(refused.unwrap_err().to_string().contains("Insufficient memory"));
    server.stop();
}
