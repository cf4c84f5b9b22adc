//! Every command that is advised, run on a server in the order in which it is told, with keys that only a user has between them: at
//! the end the filter has all of them, and nothing is left beside it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use bloomgate::Kind;

use super::tests::FINE;
use super::{Case, DAY, Said, of_filter, of_memory, of_snapshot};
use crate::engine::audit::Counts;
use crate::engine::watch::findings::Verdict;
use crate::serve::serve_on;
use crate::settings::HttpAt;
use crate::store::{Fsync, RealDisk};
use crate::{Ready, Settings};

/// No test waits longer for a reply.
const PATIENCE: Duration = Duration::from_secs(20);
/// Keys that a filter gets.
const KEYS: u64 = 300;

/// A client that reads each reply to its end.
struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    /// The lines of a reply to what must not be refused.
    #[track_caller]
    fn done(&mut self, line: &str) -> Vec<String> {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        let mut lines = Vec::new();
        self.reply(line, &mut lines);
        lines
    }

    #[track_caller]
    fn reply(&mut self, asked: &str, lines: &mut Vec<String>) {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let length = line.get(1..).and_then(|rest| rest.trim_end().parse::<usize>().ok());
        match (line.as_bytes().first(), length) {
            (Some(b'*'), Some(elements)) => (0..elements).for_each(|_| self.reply(asked, lines)),
            (Some(b'$'), Some(bytes)) => {
                let mut bulk = vec![0; bytes + 2];
                self.0.read_exact(&mut bulk).unwrap();
                lines.push(String::from_utf8_lossy(&bulk[..bytes]).into_owned());
            }
            (Some(b'-'), _) => panic!("{asked:.200}: {line:.200}"),
            _ => lines.push(line.trim_end().to_owned()),
        }
    }
}

fn keys(name: &str) -> String {
    let keys: Vec<String> = (0..KEYS).map(|number| format!("{name}-{number}")).collect();
    keys.join(" ")
}

/// Does what is said, as somebody would who has the keys.
fn follow(client: &mut Client, said: &Said, name: &str) {
    for step in &said.steps {
        let about = step.about.clone().unwrap_or_default();
        match &step.command {
            Some(command) => drop(client.done(command)),
            // The words name the command, and the keys are mine.
            None => {
                let (_, command) = about.split_once(": ").unwrap();
                let (command, _) = command.split_once(" KEY KEY ...").unwrap();
                client.done(&format!("{command} {}", keys(name)));
            }
        }
    }
}

/// What is advised of filters in every state in which something is said, and how such a one is made.
fn cases() -> Vec<(Case<'static>, &'static str)> {
    let small = Case { items: KEYS, capacity: 1_000, ..FINE };
    let refused = Counts { refused: 7, ..FINE.counts };
    let spares_little = Counts { lookups: 20_000, positives: 19_500, ..FINE.counts };
    let bare = Case { is_keyed: false, ..small };
    let ring = Case { kind: Kind::Rotating, window: 3_600.0, is_keyed: false, ..small };
    vec![
        (Case { items: 1_001, is_over_capacity: true, ..small }, "KIND blocked CAPACITY 1000 RATE 0.01 ONFULL goon"),
        (Case { items: 1_000, counts: refused, ..small }, "KIND blocked CAPACITY 1000 RATE 0.01"),
        (Case { full_in: Some(DAY), ..small }, "KIND classic CAPACITY 1000 RATE 0.01"),
        (Case { over_capacity_in: Some(DAY), ..small }, "KIND blocked CAPACITY 1000 RATE 0.01 ONFULL goon"),
        (Case { capacity: 1_000_000, ..small }, "KIND blocked CAPACITY 1000000 RATE 0.01"),
        (Case { capacity: 1_000_000, halvings: 1, ..small }, "KIND classic CAPACITY 1000000 RATE 0.01"),
        (Case { kind: Kind::Scalable, layers: 5, ..small }, "KIND scalable CAPACITY 100 RATE 0.01"),
        (Case { kind: Kind::GrowingCuckoo, layers: 5, ..small }, "KIND growing-cuckoo CAPACITY 100 RATE 0.01"),
        (
            Case { kind: Kind::GrowingCuckoo, layers: 5, removed: 9, ..small },
            "KIND growing-cuckoo CAPACITY 100 RATE 0.01",
        ),
        (Case { kind: Kind::Counting, ..small }, "KIND counting CAPACITY 1000 RATE 0.01"),
        (Case { kind: Kind::Quotient, bytes: 2_000_000, ..small }, "KIND quotient CAPACITY 1000 RATE 0.01"),
        (Case { age: DAY, ..bare }, "KIND blocked CAPACITY 1000 RATE 0.01 HASH xxh3"),
        (Case { kind: Kind::Classic, ..bare }, "KIND classic CAPACITY 1000 RATE 0.01 HASH xxh3"),
        (Case { kind: Kind::Stable, ..bare }, "KIND stable CAPACITY 1000 RATE 0.01 HASH xxh3"),
        (ring, "KIND rotating CAPACITY 1000 RATE 0.01 WINDOW 3600 HASH xxh3"),
        (Case { verdict: Verdict::Poisoned, ..bare }, "KIND blocked CAPACITY 1000 RATE 0.01 HASH xxh3"),
        (Case { verdict: Verdict::Suspicious, ..small }, "KIND blocked CAPACITY 1000 RATE 0.01"),
        (Case { verdict: Verdict::Poisoned, ..small }, "KIND classic CAPACITY 1000 RATE 0.01"),
        (Case { counts: spares_little, ..small }, "KIND blocked CAPACITY 1000 RATE 0.01"),
    ]
}

#[test]
fn every_command_that_is_advised_does_what_is_said_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let settings = Settings {
        resp: Some(any),
        http: HttpAt::At(any),
        data: Some(folder.path().to_path_buf()),
        fsync: Fsync::Never,
        threads: 1,
        ..Settings::default()
    };
    let (tell, told) = channel::<Ready>();
    let server =
        std::thread::spawn(move || serve_on(Arc::new(RealDisk), &settings, |ready| tell.send(ready.clone()).unwrap()));
    let mut client = Client::new(told.recv_timeout(PATIENCE).unwrap().address);
    for (number, (case, options)) in cases().into_iter().enumerate() {
        // One that is quoted, and one that is not.
        let name = if number % 2 == 0 { "seen" } else { "seen by you" };
        let case = Case { name: name.as_bytes(), ..case };
        let quoted = format!("\"{name}\"");
        client.done(&format!("BG.CREATE {quoted} {options}"));
        let key = name.replace(' ', "-");
        client.done(&format!("BG.ADD {quoted} {}", keys(&key)));
        let all = of_filter(&case, true);
        assert_eq!(all.len(), 1, "{options}: {all:?}");
        follow(&mut client, &all[0], &key);
        let found = client.done(&format!("BG.EXISTS {quoted} {}", keys(&key)));
        assert_eq!(found, vec![":1".to_owned(); KEYS as usize], "{options}: {:?}", all[0]);
        assert_eq!(client.done("KEYS *"), [name], "{options}: nothing is left beside it");
        assert_eq!(client.done(&format!("DEL {quoted}")), [":1"]);
    }
    let old = of_snapshot(2.0 * DAY, 1 << 30, None).unwrap();
    let failed = of_snapshot(0.0, 0, Some("no space left on device".to_owned())).unwrap();
    let spent = of_memory(950_000_000, 1_000_000_000).unwrap();
    assert_eq!(old.command(), failed.command());
    for said in [&old, &spent] {
        client.done(said.command());
    }
    client.0.get_mut().write_all(b"SHUTDOWN\r\n").unwrap();
    server.join().unwrap().unwrap();
}
