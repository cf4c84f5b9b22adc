//! TLS beside the plain port: who is let in, who is believed, how certificates change, and that strangers hold up nobody.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bloomgate_http::tls::rustls::pki_types::{PrivateKeyDer, ServerName};
use bloomgate_http::tls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, crypto};
use bloomgate_server::Settings;
use bloomgate_server::net::greeting::Greeter;
use bloomgate_server::net::identity::{Files, Identity};
use bloomgate_server::session::desk::Desk;
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use super::{PATIENCE, Running};

/// An authority.
struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { certificate: params.self_signed(&key).unwrap(), issuer: Issuer::new(params, key) }
    }

    /// A certificate of it, and its key.
    fn sign(&self, name: &str) -> (Certificate, KeyPair) {
        self.sign_until(name, 3_000)
    }

    /// The same that ends with a year.
    fn sign_until(&self, name: &str, year: i32) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 12, 31);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a certificate of it as the server's.
    fn write(&self, folder: &Path) {
        let (certificate, key) = self.sign("localhost");
        std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        std::fs::write(folder.join("cert.pem"), certificate.pem()).unwrap();
    }

    /// What a client knows that believes this authority, and shows a certificate of another.
    fn believed(&self, shows: Option<&Authority>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match shows {
            None => config.with_no_client_auth(),
            Some(authority) => {
                let (certificate, key) = authority.sign("client");
                let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
                config.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        })
    }
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

fn connect(to: SocketAddr, config: &Arc<ClientConfig>) -> Secure {
    let socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let session = ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
    StreamOwned::new(session, socket)
}

/// Says a line and takes so many bytes of the reply, or the error that came instead.
fn say(client: &mut Secure, line: &str, reply: &str) -> std::io::Result<()> {
    client.write_all(format!("{line}\r\n").as_bytes())?;
    let mut got = vec![0; reply.len()];
    client.read_exact(&mut got)?;
    assert_eq!(String::from_utf8_lossy(&got), reply, "{line}");
    Ok(())
}

/// A server with TLS whose certificate is of an authority.
struct House {
    folder: TempDir,
    server: Running,
    tls: SocketAddr,
}

impl House {
    fn new(authority: &Authority, clients: Option<&Authority>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        authority.write(folder.path());
        let path = |name: &str| Some(folder.path().join(name));
        let ca = clients.map(|clients| {
            std::fs::write(folder.path().join("ca.pem"), clients.certificate.pem()).unwrap();
            folder.path().join("ca.pem")
        });
        let tls = super::free_port();
        let server = Running::start_with(Settings {
            tls: Some(tls),
            tls_cert: path("cert.pem"),
            tls_key: path("key.pem"),
            tls_client_ca: ca,
            ..super::settings(&folder.path().join("data"))
        });
        let ready = server.ready.recv_timeout(PATIENCE).unwrap();
        assert_eq!((ready.address, ready.tls), (server.address, Some(tls)));
        Self { folder, server, tls }
    }

    fn end(self) {
        self.server.client().say("SHUTDOWN");
        self.server.end().unwrap();
    }
}

#[test]
fn the_same_filters_over_tls_and_long_pipelines_both_ways() {
    let authority = Authority::new();
    let house = House::new(&authority, None);
    let mut client = connect(house.tls, &authority.believed(None));
    say(&mut client, "PING", "+PONG\r\n").unwrap();
    say(&mut client, "BF.RESERVE f 0.0001 200000", "+OK\r\n").unwrap();
    say(&mut client, "BF.ADD f a", ":1\r\n").unwrap();
    assert_eq!(house.server.client().say("BF.EXISTS f a"), ":1");
    // 4 MB in and 0.8 MB out, read while written: neither side may wait for the other for ever.
    let line = |item: u32| format!("*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$8\r\nit{item:06}\r\n");
    for chunk in 0..100 {
        let sent: String = (chunk * 1_000..(chunk + 1) * 1_000).map(line).collect();
        client.write_all(sent.as_bytes()).unwrap();
        let mut replies = vec![0; 4 * 1_000];
        client.read_exact(&mut replies).unwrap();
        assert!(replies.chunks(4).all(|reply| reply == b":1\r\n" || reply == b":0\r\n"));
    }
    // One reply that is far longer than what TLS seals at once.
    let items: Vec<String> = (0..200_000).map(|item| format!("it{item:06}")).collect();
    client.write_all(format!("*{}\r\n$10\r\nBF.MEXISTS\r\n$1\r\nf\r\n", items.len() + 2).as_bytes()).unwrap();
    let rest: String = items.iter().map(|item| format!("$8\r\n{item}\r\n")).collect();
    client.write_all(rest.as_bytes()).unwrap();
    let mut reply = vec![0; "*200000\r\n".len() + 4 * items.len()];
    client.read_exact(&mut reply).unwrap();
    let answers: Vec<&[u8]> = reply["*200000\r\n".len()..].chunks(4).collect();
    assert!(answers[..100_000].iter().all(|answer| *answer == b":1\r\n"), "no key is lost");
    assert!(answers[100_000..].iter().filter(|answer| **answer == b":1\r\n").count() < 100);
    // It ends in good order: an end without that would be an error here.
    client.write_all(b"QUIT\r\n").unwrap();
    let mut last = Vec::new();
    client.read_to_end(&mut last).unwrap();
    assert_eq!(last, b"+OK\r\n");
    house.end();
}

#[test]
fn who_is_not_believed_gets_nothing() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let house = House::new(&ours, Some(&ours));
    let mut good = connect(house.tls, &ours.believed(Some(&ours)));
    say(&mut good, "PING", "+PONG\r\n").unwrap();
    // A client without a certificate, one of a stranger, and one that does not believe the server.
    for config in [ours.believed(None), ours.believed(Some(&theirs)), theirs.believed(Some(&ours))] {
        let mut bad = connect(house.tls, &config);
        assert!(say(&mut bad, "PING", "+PONG\r\n").is_err());
    }
    // Plain text is no handshake: no reply of ours, and the end.
    let mut plain = TcpStream::connect(house.tls).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"*1\r\n$4\r\nPING\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.windows(4).any(|bytes| bytes == b"PONG"), "{answer:?}");
    say(&mut good, "BF.ADD f a", ":1\r\n").unwrap();
    // Counted a moment after the client has its end.
    let begin = Instant::now();
    loop {
        let told = house.server.client().text("INFO stats");
        if told.contains("tls_handshakes_failed:4\r\n") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{told}");
    }
    house.end();
}

#[test]
fn a_certificate_that_changes_is_seen_by_those_who_come_then() {
    let (old, new) = (Authority::new(), Authority::new());
    let house = House::new(&old, None);
    let mut before = connect(house.tls, &old.believed(None));
    say(&mut before, "PING", "+PONG\r\n").unwrap();
    new.write(house.folder.path());
    let begin = Instant::now();
    // Those who believe the new one alone are served before long.
    while say(&mut connect(house.tls, &new.believed(None)), "PING", "+PONG\r\n").is_err() {
        assert!(begin.elapsed() < PATIENCE, "it never came");
    }
    assert!(say(&mut connect(house.tls, &old.believed(None)), "PING", "+PONG\r\n").is_err());
    say(&mut before, "BF.ADD f a", ":1\r\n").unwrap();
    let told = house.server.client().text("INFO server");
    assert!(told.contains("tls_certificate_not_after:32535129600\r\n"), "{told}");
    house.end();
}

fn files(folder: &Path) -> Files {
    Files { certificate: folder.join("cert.pem"), key: folder.join("key.pem"), client_authorities: None }
}

#[test]
fn a_wrong_certificate_leaves_the_old_one_and_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.write(folder.path());
    let identity = Identity::read(files(folder.path())).unwrap();
    let first = identity.config();
    assert!(identity.renew_if_changed().is_none());
    let other = KeyPair::generate().unwrap();
    for (file, text, says) in [
        ("key.pem", other.serialize_pem(), "do not belong together"),
        ("key.pem", "nonsense".to_owned(), "holds no private key"),
        ("cert.pem", String::new(), "holds no certificate"),
    ] {
        // Of another length each time, so that the change is seen however coarse the clock of the file system is.
        std::fs::write(folder.path().join(file), text + "\n\n").unwrap();
        let why = identity.renew_if_changed().unwrap().unwrap_err();
        assert!(why.contains(says), "{why}");
        assert!(identity.renew_if_changed().is_none(), "told once");
        assert!(Arc::ptr_eq(&first, &identity.config()));
    }
    std::fs::remove_file(folder.path().join("cert.pem")).unwrap();
    assert!(identity.renew().unwrap_err().contains("cannot be read"));
    authority.write(folder.path());
    let written = ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    assert_eq!(identity.renew_if_changed().unwrap().unwrap(), written);
    assert!(!Arc::ptr_eq(&first, &identity.config()));
}

#[test]
fn a_certificate_that_has_ended_replaces_none_and_one_that_stays_is_no_news() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let authority = Authority::new();
    authority.write(folder.path());
    std::fs::write(path("ca.pem"), authority.certificate.pem()).unwrap();
    let files = Files { client_authorities: Some(path("ca.pem")), ..files(folder.path()) };
    let identity = Identity::read(files.clone()).unwrap();
    let (first, end) = (identity.config(), identity.not_after());
    // 3000-12-31.
    assert_eq!(end, Some(32_535_129_600));
    // Read again by SIGHUP, or written anew with the same bytes: nothing has changed.
    assert_eq!(identity.renew(), Ok(Vec::new()));
    std::fs::write(path("cert.pem"), std::fs::read(path("cert.pem")).unwrap()).unwrap();
    assert_eq!(identity.renew(), Ok(Vec::new()));
    assert!(Arc::ptr_eq(&first, &identity.config()));
    // One that has ended.
    let (certificate, key) = authority.sign_until("localhost", 2_020);
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(path("cert.pem"), certificate.pem()).unwrap();
    let why = identity.renew().unwrap_err();
    assert!(why.ends_with("cert.pem ended on 2020-12-31T00:00:00.000Z"), "{why}");
    assert!(Arc::ptr_eq(&first, &identity.config()) && identity.not_after() == end);
    // At a start it is better than none, and told once a day.
    let ended = Identity::read(files).unwrap();
    let now = 1_767_225_600;
    assert!(ended.ending(now).is_some_and(|ending| ending.name == "certificate-ended"));
    assert_eq!(ended.ending(now + 3_600), None);
    assert!(ended.ending(now + 86_400).is_some());
    assert_eq!(identity.ending(now), None);
    // The authorities of clients are files of it too.
    let (certificate, key) = authority.sign_until("localhost", 3_000);
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(path("cert.pem"), certificate.pem()).unwrap();
    identity.renew().unwrap();
    std::fs::write(path("ca.pem"), Authority::new().certificate.pem()).unwrap();
    assert_eq!(identity.renew(), Ok(vec![path("ca.pem").display().to_string()]));
}

#[test]
fn strangers_who_hold_on_make_room_for_those_who_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.write(folder.path());
    let identity = Arc::new(Identity::read(files(folder.path())).unwrap());
    let desk = Arc::new(Desk::new(1, None, String::new(), Vec::new()));
    let (greeter, mut greeted) = Greeter::start(identity, desk.clone(), 4).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let come = || {
        let client = TcpStream::connect(address).unwrap();
        let (socket, from) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        // The door holds four; the thread takes them in.
        while !greeter.take(socket.try_clone().unwrap(), from) {
            std::thread::yield_now();
        }
        client
    };
    let mut strangers: Vec<TcpStream> = (0..4).map(|_| come()).collect();
    let config = authority.believed(None);
    for _ in 0..4 {
        // Each honest client finds all places taken by strangers.
        let honest = come();
        honest.set_read_timeout(Some(PATIENCE)).unwrap();
        let session = ClientConnection::new(config.clone(), ServerName::try_from("localhost").unwrap()).unwrap();
        let mut honest = StreamOwned::new(session, honest);
        honest.write_all(b"PING\r\n").unwrap();
        let (arrival, _) = greeted.blocking_recv().unwrap();
        assert!(arrival.session.is_some());
        // The oldest stranger has gone, and the next one comes.
        let mut oldest = strangers.remove(0);
        oldest.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut nothing = Vec::new();
        let end = oldest.read_to_end(&mut nothing);
        assert_eq!(end.unwrap(), 0, "the oldest is given up");
        strangers.push(come());
    }
    assert_eq!(desk.cuts.handshakes.load(std::sync::atomic::Ordering::Relaxed), 4);
    greeter.stop();
    for mut stranger in strangers {
        stranger.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = stranger.read(&mut [0; 1]);
        assert!(
            ended.as_ref().is_ok_and(|&read| read == 0)
                || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
        );
    }
}

#[test]
fn handshakes_of_one_address_leave_room_for_those_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    authority.write(folder.path());
    let identity = Arc::new(Identity::read(files(folder.path())).unwrap());
    let desk = Arc::new(Desk::new(1, None, String::new(), Vec::new()));
    let (greeter, mut greeted) = Greeter::start(identity, desk.clone(), 8).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // Told to come from there.
    let come = |last: u8| {
        let client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        greeter.take(socket, ([192, 0, 2, last], 1000).into()).then_some(client)
    };
    let first: Vec<TcpStream> = (0..2).map(|_| come(1).unwrap()).collect();
    let mut crowd: Vec<TcpStream> = (0..4).map(|_| come(2).unwrap()).collect();
    assert!(come(2).is_none(), "one address has half of the places at most");
    let others: Vec<TcpStream> = (0..2).map(|_| come(3).unwrap()).collect();
    // All places are taken: the oldest of the crowd goes, not the oldest of all.
    let begin = std::time::Instant::now();
    let honest = loop {
        match come(4) {
            Some(honest) => break honest,
            None => assert!(begin.elapsed() < PATIENCE, "the door stays full"),
        }
    };
    let session = ClientConnection::new(authority.believed(None), ServerName::try_from("localhost").unwrap()).unwrap();
    let mut honest = StreamOwned::new(session, honest);
    honest.write_all(b"PING\r\n").unwrap();
    let (arrival, from) = greeted.blocking_recv().unwrap();
    assert!(arrival.session.is_some() && from.ip() == std::net::IpAddr::from([192, 0, 2, 4]));
    assert_eq!(crowd.remove(0).read_to_end(&mut Vec::new()).unwrap(), 0, "the oldest of the crowd is given up");
    for stranger in first.iter().chain(&crowd).chain(&others) {
        stranger.set_nonblocking(true).unwrap();
        let read = (&mut &*stranger).read(&mut [0; 1]);
        assert!(read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "the others stay");
    }
    // What is given up gives its place back.
    assert!(come(2).is_some());
    greeter.stop();
}

#[test]
fn what_is_missing_for_tls_is_told_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    let told = |settings: Settings| bloomgate_server::serve(&settings, |_| ()).unwrap_err();
    let base = || super::settings(&folder.path().join("data"));
    let (tls, file) = (Some(super::free_port()), || Some(PathBuf::from("/nowhere/cert.pem")));
    let bare = told(Settings { tls, ..base() });
    assert!(bare.contains("tls-cert names no file"), "{bare}");
    let keyless = told(Settings { tls, tls_cert: file(), ..base() });
    assert!(keyless.contains("tls-key names no file"), "{keyless}");
    let absent = told(Settings { tls, tls_cert: file(), tls_key: file(), ..base() });
    assert!(absent.contains("the certificate /nowhere/cert.pem cannot be read"), "{absent}");
    let pointless = told(Settings { tls_cert: file(), ..base() });
    assert!(pointless.contains("tls-cert is set and tls is not"), "{pointless}");
    let nowhere = told(Settings { resp: None, ..base() });
    assert!(nowhere.contains("there is nowhere to connect"), "{nowhere}");
    assert!(!folder.path().join("data").exists());
}
