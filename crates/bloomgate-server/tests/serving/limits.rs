//! Limits on connections: who is over one is told or closed, the others go on, and limits that change hold at once.

use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use bloomgate_server::Settings;
use bloomgate_server::settings::HttpAt;

use super::{PATIENCE, Running, settings};

pub fn start(folder: &std::path::Path, change: impl FnOnce(&mut Settings)) -> Running {
    let mut settings = settings(folder);
    change(&mut settings);
    let server = Running::start_with(settings);
    server.ready.recv_timeout(PATIENCE).unwrap();
    server
}

pub fn end(server: Running) {
    server.client().say("SHUTDOWN");
    server.end().unwrap();
}

#[test]
fn more_clients_than_may_be_are_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.max_clients = 2);
    let (mut one, mut two) = (server.client(), server.client());
    assert_eq!((one.say("PING"), two.say("PING")), ("+PONG".into(), "+PONG".into()));
    assert_eq!(server.client().line(), "-ERR max number of clients reached");
    assert_eq!(one.say("CONFIG SET max-clients 3"), "+OK");
    let mut three = server.client();
    assert_eq!(three.say("PING"), "+PONG");
    assert_eq!(server.client().line(), "-ERR max number of clients reached");
    // Who is there stays, also when there are more than may be.
    assert_eq!(one.say("CONFIG SET maxclients 1"), "+OK");
    assert_eq!(three.say("PING"), "+PONG");
    assert!(one.text("INFO stats").contains("rejected_connections:2\r\n"));
    assert_eq!(one.say("SHUTDOWN"), "");
    server.end().unwrap();
}

#[test]
fn idle_clients_go_and_busy_ones_stay() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.idle_timeout = Duration::from_secs(1));
    let (mut idle, mut busy) = (server.client(), server.client());
    assert_eq!(idle.say("PING"), "+PONG");
    let begin = Instant::now();
    let mut gone = false;
    idle.0.get_mut().set_nonblocking(true).unwrap();
    while !gone {
        assert_eq!(busy.say("PING"), "+PONG");
        gone = matches!(idle.0.get_mut().read(&mut [0; 1]), Ok(0));
        assert!(begin.elapsed() < PATIENCE, "it stays for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(busy.text("INFO stats").contains("connections_cut_idle:1\r\n"));
    // Switched off, it holds from the next request on.
    assert_eq!(busy.say("CONFIG SET timeout 0"), "+OK");
    std::thread::sleep(Duration::from_millis(1_500));
    assert_eq!(busy.say("PING"), "+PONG");
    end(server);
}

/// With a password, whoever does not say it keeps nobody out.
#[test]
fn who_does_not_log_in_makes_room_and_goes() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| {
        settings.max_clients = 4;
        bloomgate_server::settings::table::set(settings, "password", "sesame").unwrap();
        settings.request_deadline = Duration::from_secs(6);
    });
    let silent: Vec<_> = (0..4).map(|_| server.client()).collect();
    let begin = Instant::now();
    let mut honest = loop {
        let mut client = server.client();
        // Nobody is sent away who has just come.
        match client.say("AUTH sesame").as_str() {
            "+OK" => break client,
            refused => assert!(refused.contains("max number of clients"), "{refused}"),
        }
        assert!(begin.elapsed() < PATIENCE, "there is no room for whoever has the password");
        std::thread::sleep(Duration::from_millis(50));
    };
    // The oldest went, and the others when their time was over; who is logged in stays.
    for mut guest in silent {
        let last = guest.line();
        assert!(last.is_empty() || last.starts_with("-NOAUTH Authentication required within 6000 ms"), "{last}");
    }
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(honest.say("PING"), "+PONG");
    honest.say("SHUTDOWN");
    server.end().unwrap();
}

#[test]
fn a_request_that_never_ends_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.request_deadline = Duration::from_millis(300));
    let mut slow = server.client();
    slow.0.get_mut().write_all(b"PING\r\n*2\r\n$4\r\nPI").unwrap();
    assert_eq!(slow.line(), "+PONG");
    assert_eq!(slow.line(), "-ERR Protocol error: the request was not whole after 300 ms (request-deadline)");
    assert_eq!(slow.line(), "");
    assert!(server.client().text("INFO stats").contains("connections_cut_slow:1\r\n"));
    end(server);
}

#[test]
fn one_who_takes_no_replies_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.output_stall = Duration::from_millis(300));
    let mut greedy = server.client();
    let stream = greedy.0.get_mut();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    // Each is answered with 20 KB, none of which is read: the sockets' buffers are full soon.
    let begin = Instant::now();
    while stream.write_all(&b"COMMAND DOCS bf.add bf.madd bf.reserve\r\n".repeat(100)).is_ok() {
        assert!(begin.elapsed() < PATIENCE, "it is served for ever");
    }
    assert!(server.client().text("INFO stats").contains("connections_cut_stalled:1\r\n"));
    end(server);
}

/// Sends pieces of a request, one after each pause, until the server has ended the connection; how long that took, and what it said.
fn trickle(client: &mut super::Client, piece: &[u8], pause: Duration) -> (Duration, String) {
    let begun = Instant::now();
    let stream = client.0.get_mut();
    stream.set_nonblocking(true).unwrap();
    let mut said = Vec::new();
    loop {
        match stream.read_to_end(&mut said) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Closed, or closed while something was on its way.
            Ok(_) | Err(_) => return (begun.elapsed(), String::from_utf8(said).unwrap()),
        }
        let _ = stream.write(piece);
        assert!(begun.elapsed() < PATIENCE, "it is listened to for ever");
        std::thread::sleep(pause);
    }
}

/// A byte now and then is no request that goes on: its time does not begin again with each of them.
#[test]
fn one_who_sends_byte_by_byte_has_no_more_time() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.request_deadline = Duration::from_millis(500));
    let mut begins = [server.client(), server.client(), server.client()];
    for (client, begin) in
        begins.iter_mut().zip([&b"*2\r\n$4\r\nECHO\r\n$16000000\r\n"[..], b"*2\r\n$4000\r\nEC", b"ECHO "])
    {
        client.0.get_mut().write_all(begin).unwrap();
        let (took, said) = trickle(client, b"H", Duration::from_millis(20));
        assert!(took >= Duration::from_millis(450) && took < Duration::from_secs(5), "{took:?}: {said}");
    }
    // Many bytes buy a second for each 64 KiB of them, and no more; 20 KB a second after that are too few.
    let mut heavy = server.client();
    let mut begin = b"*2\r\n$4\r\nECHO\r\n$16000000\r\n".to_vec();
    begin.resize(130 << 10, b'x');
    heavy.0.get_mut().write_all(&begin).unwrap();
    let (took, said) = trickle(&mut heavy, &[b'x'; 1_000], Duration::from_millis(50));
    assert!(took >= Duration::from_millis(2_400) && took < Duration::from_secs(10), "{took:?}: {said}");
    assert!(server.client().text("INFO stats").contains("connections_cut_slow:4\r\n"));
    end(server);
}

/// 160 KB a second, for more than four times the deadline.
#[test]
fn an_honest_client_may_send_slowly() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.request_deadline = Duration::from_secs(1));
    let mut slow = server.client();
    let begun = Instant::now();
    let bytes = 12 * (64 << 10);
    slow.0.get_mut().write_all(format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n").as_bytes()).unwrap();
    for _ in 0..12 {
        slow.0.get_mut().write_all(&[b'x'; 64 << 10]).unwrap();
        std::thread::sleep(Duration::from_millis(400));
    }
    assert!(begun.elapsed() > 4 * Duration::from_secs(1), "that was fast");
    slow.0.get_mut().write_all(b"\r\n").unwrap();
    assert_eq!(slow.line(), format!("${bytes}"));
    let mut reply = vec![0; bytes + 2];
    slow.0.read_exact(&mut reply).unwrap();
    assert!(server.client().text("INFO stats").contains("connections_cut_slow:0\r\n"));
    end(server);
}

/// 100 KB a second, for three times the stall: room in the socket has to be told of as it comes, not by the megabyte.
#[test]
fn an_honest_client_may_read_slowly() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.output_stall = Duration::from_secs(3));
    let mut slow = server.client();
    let large = 16 << 20;
    slow.0.get_mut().write_all(&echo(large)).unwrap();
    assert_eq!(slow.line(), format!("${large}"));
    let read = read_slowly(&mut slow, 100 << 10, Duration::from_secs(9));
    let read = read.unwrap_or_else(|(bytes, when)| panic!("it was dropped after {when:?}, with {bytes} bytes"));
    let mut rest = vec![0; large + 2 - read];
    slow.0.read_exact(&mut rest).unwrap();
    assert!(rest.ends_with(b"y\r\n"));
    assert!(server.client().text("INFO stats").contains("connections_cut_stalled:0\r\n"));
    end(server);
}

/// A request for so many bytes.
fn echo(bytes: usize) -> Vec<u8> {
    let mut request = format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n").into_bytes();
    request.resize(request.len() + bytes, b'y');
    request.extend_from_slice(b"\r\n");
    request
}

/// Reads so many bytes a second for so long; how many in all, or how many and for how long until the server ended it.
fn read_slowly(client: &mut super::Client, a_second: usize, long: Duration) -> Result<usize, (usize, Duration)> {
    let (begun, mut read) = (Instant::now(), 0);
    let mut piece = vec![0; 16 << 10];
    while begun.elapsed() < long {
        if (read as f64) < begun.elapsed().as_secs_f64() * a_second as f64 {
            match client.0.read(&mut piece) {
                Ok(got) if got > 0 => read += got,
                _ => return Err((read, begun.elapsed())),
            }
        } else {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    Ok(read)
}

/// Something within every stall, and too little in all: 30 KB a second, where 64 are the least.
#[test]
fn one_who_reads_too_slowly_is_dropped_though_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.output_stall = Duration::from_secs(4));
    let mut greedy = server.client();
    greedy.0.get_mut().write_all(&echo(16 << 20)).unwrap();
    let (begun, mut watching) = (Instant::now(), server.client());
    while !watching.text("INFO stats").contains("connections_cut_stalled:1\r\n") {
        assert!(begun.elapsed() < PATIENCE, "it is waited for for ever");
        read_slowly(&mut greedy, 30 << 10, Duration::from_millis(500)).unwrap();
    }
    // Five seconds: the stall, and one for the first 64 KB.
    assert!(begun.elapsed() > Duration::from_millis(4_500), "it was dropped as one who takes nothing");
    end(server);
}

/// Whoever reads a byte now and then takes nothing: what it was sent stays where it was.
#[test]
fn one_who_reads_byte_by_byte_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.output_stall = Duration::from_millis(500));
    let mut greedy = server.client();
    greedy.0.get_mut().write_all(&echo(16 << 20)).unwrap();
    let (begun, mut watching) = (Instant::now(), server.client());
    let mut bytes = 0;
    while !watching.text("INFO stats").contains("connections_cut_stalled:1\r\n") {
        assert!(begun.elapsed() < PATIENCE, "it is waited for for ever");
        // Past the buffer of the test's reader: each is a read of the socket.
        bytes += greedy.0.get_mut().read(&mut [0; 1]).unwrap_or(0);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(bytes > 1, "{bytes} were read");
    end(server);
}

#[test]
fn replies_of_a_transaction_are_bounded_by_the_setting() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.output_limit = 1 << 20);
    let mut client = server.client();
    assert_eq!(client.say("MULTI"), "+OK");
    for _ in 0..100 {
        assert_eq!(client.say("COMMAND DOCS"), "+QUEUED");
    }
    assert_eq!(client.say("EXEC"), "*100");
    let begin = Instant::now();
    loop {
        let line = client.line();
        if line.contains("take more than the 1048576 bytes a transaction may have (output-limit)") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
    }
    end(server);
}

/// The password is in the file that the server was started with: whoever reads that has it.
#[test]
fn a_password_that_everybody_can_read_is_told() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("server.toml");
    let notes = |text: &str, mode: u32| {
        std::fs::write(&config, text).unwrap();
        std::fs::set_permissions(&config, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut told = super::settings(&folder.path().join("data"));
        bloomgate_server::settings::table::set(&mut told, "password", "pw").unwrap();
        let server = Running::start_with(Settings { config: Some(config.clone()), ..told });
        let notes = server.ready.recv_timeout(PATIENCE).unwrap().notes;
        assert_eq!(server.client().say("AUTH pw"), "+OK");
        let mut client = server.client();
        client.say("AUTH pw");
        client.say("SHUTDOWN");
        server.end().unwrap();
        notes
    };
    let told = notes("password = \"pw\"\n", 0o644);
    assert!(told.len() == 1 && told[0].contains("mode 644") && told[0].contains("chmod 600"), "{told:?}");
    assert_eq!(notes("password = \"pw\"\n", 0o640), [""; 0]);
    // It came by the environment.
    assert_eq!(notes("# password = \"\"\nthreads = 2\n", 0o644), [""; 0]);
}

/// Passwords that cross a network in the clear are worth little.
#[test]
fn logins_without_tls_from_other_machines_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let far = Settings { resp: "192.0.2.1:6479".parse().ok(), ..super::settings(folder.path()) };
    assert_eq!(bloomgate_server::serve::check(&far).unwrap(), [""; 0], "nobody logs in");
    let mut far = Settings { http: HttpAt::At("192.0.2.1:8479".parse().unwrap()), ..far };
    bloomgate_server::settings::table::set(&mut far, "password", "pw").unwrap();
    let told = bloomgate_server::serve::check(&far).unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("192.0.2.1:6479 is reached from other machines without TLS"), "{told:?}");
    assert!(told[1].starts_with("192.0.2.1:8479 is reached") && told[1].contains("proxy"), "{told:?}");
    let near = Settings { resp: "127.0.0.1:6479".parse().ok(), http: HttpAt::None, ..far };
    assert_eq!(bloomgate_server::serve::check(&near).unwrap(), [""; 0]);
}

/// A command that waits for its items and whose client goes away is given up: it uses up nothing that others wait for.
#[test]
fn who_goes_away_while_it_waits_for_its_items_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |_| ());
    let mut root = server.client();
    assert_eq!(root.say("BG.NAMESPACE SET a PREFIX a: ITEMSPERSECOND 100"), "+OK");
    let mut gone = server.client();
    assert_eq!(gone.say("CLIENT SETNAME gone"), "+OK");
    // 512 at once, 200 ahead: the rest would be there after 13 seconds.
    let items: String = (0..2_000).map(|at| format!(" i{at}")).collect();
    gone.0.get_mut().write_all(format!("BF.MADD a:f{items}\r\n").as_bytes()).unwrap();
    let begin = Instant::now();
    while root.text("INFO namespaces").contains("waits=0") {
        assert!(begin.elapsed() < PATIENCE, "it does not wait");
    }
    drop(gone);
    while root.text("CLIENT LIST").contains("name=gone") {
        assert!(begin.elapsed() < PATIENCE, "it stays for ever");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(root.say("BF.EXISTS a:f i1"), ":0");
    end(server);
}

/// Thousands of guests with requests that are not whole: each has less than 16 KB, and together they are limited like everybody.
#[test]
fn what_guests_begin_and_do_not_end_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let most = 4 << 20;
    let server = start(folder.path(), |settings| {
        bloomgate_server::settings::table::set(settings, "password", "sesame").unwrap();
        settings.client_memory = most;
        settings.request_deadline = PATIENCE;
        settings.max_clients = 2_000;
    });
    let mut honest = server.client();
    assert_eq!(honest.say("AUTH sesame"), "+OK");
    let held = |client: &mut super::Client| -> u64 {
        let info = client.text("INFO memory");
        info.lines().find_map(|line| line.strip_prefix("client_memory:")).unwrap().parse().unwrap()
    };
    let mut frame = b"*2\r\n$4\r\nAUTH\r\n$15900\r\n".to_vec();
    frame.resize(15_000, b'x');
    let begin = |bytes: usize| {
        let mut guest = server.client();
        guest.0.get_mut().write_all(&frame[..bytes]).unwrap();
        guest
    };
    // A login that is on its way is nothing yet.
    let small = begin(1_000);
    let mut guests: Vec<_> = (0..100).map(|_| begin(15_000)).collect();
    let begun = Instant::now();
    while held(&mut honest) < 1_500_000 {
        assert!(begun.elapsed() < PATIENCE, "{} of 1,500,000 bytes are counted", held(&mut honest));
        std::thread::sleep(Duration::from_millis(5));
    }
    guests.extend((0..300).map(|_| begin(15_000)));
    let begun = Instant::now();
    while !honest
        .text("INFO stats")
        .lines()
        .any(|line| line.strip_prefix("connections_cut_memory:").is_some_and(|cut| cut.parse::<u64>().unwrap() >= 100))
    {
        assert!(begun.elapsed() < PATIENCE, "nobody goes: {}", honest.text("INFO stats"));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(held(&mut honest) <= most, "{}", held(&mut honest));
    assert_eq!(honest.say("PING"), "+PONG");
    drop((small, guests));
    end_as(server, honest);
}

fn end_as(server: Running, mut boss: super::Client) {
    boss.say("SHUTDOWN");
    server.end().unwrap();
}
