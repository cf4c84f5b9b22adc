//! What a small filter costs: the memory of the process is looked at, so this is a binary with one test.

use std::sync::Arc;

use bloomgate::Secret;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::{Core, Defaults, Engine, Limits};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::info::resident_bytes;
use bloomgate_server::session::{Next, Session};

const FILTERS: u64 = 100_000;
/// Memory beside the bits, the name included: 12 bytes of these.
const MOST: f64 = 128.0;

/// A client that gives a command for each of many users, a thousand at a time.
struct Client {
    core: Core,
    desk: Arc<Desk>,
    session: Session,
    input: Vec<u8>,
    out: Vec<u8>,
}

impl Client {
    fn each(&mut self, users: std::ops::Range<u64>, command: impl Fn(u64) -> Vec<String>) {
        for first in users.clone().step_by(1_000) {
            self.input.clear();
            for user in first..users.end.min(first + 1_000) {
                let words = command(user);
                self.input.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
                for word in words {
                    self.input.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
                }
            }
            let mut rest = &self.input[..];
            self.out.clear();
            loop {
                let turn = self.session.turn(&mut self.core, &self.desk, rest, &mut self.out);
                self.session.forget(turn.consumed);
                rest = &rest[turn.consumed..];
                match turn.next {
                    Next::Again => {}
                    next => break assert_eq!((next, rest.len()), (Next::Read, 0)),
                }
            }
            assert!(!self.out.starts_with(b"-") && !self.out.windows(3).any(|three| three == b"\n-E"));
        }
    }
}

fn words(line: String) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_small_filter_takes_its_bits_and_at_most_128_bytes() {
    let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
    let limits = Limits { max_memory: 1 << 30, max_filter_memory: 1 << 30, max_filters: 10 * FILTERS };
    let engine = Engine::new(Journal::nowhere(), contracts, Clock::start(), limits, Defaults::default(), 2);
    let engine = Arc::new(engine);
    let desk = Arc::new(Desk::new(2, None, "run".to_owned(), Vec::new()));
    let session = Session::new(desk.welcome(None), &desk);
    let core = Core::new(engine.clone(), 0);
    let mut client = Client { core, desk, session, input: Vec::new(), out: Vec::new() };
    // Buffers, code and one round of everything first: they are there once.
    let reserve = |user: u64| words(format!("BF.RESERVE user:{user:07} 0.01 100"));
    let add = |user: u64| {
        let items = (0..100).map(|item| format!("item-{user}-{item}"));
        ["BF.MADD".to_owned(), format!("user:{user:07}")].into_iter().chain(items).collect()
    };
    client.each(FILTERS..FILTERS + 1_000, reserve);
    client.each(FILTERS..FILTERS + 1_000, add);
    let (before, charged_before) = (resident_bytes().unwrap(), engine.budget.used());
    client.each(0..FILTERS, reserve);
    // The first hundred keys of a filter for a hundred: it is full, and has not grown.
    client.each(0..FILTERS / 4, add);
    let grown = resident_bytes().unwrap() - before;
    let charged = engine.budget.used() - charged_before;
    let bits = FILTERS * engine.find(b"user:0000001").unwrap().size_in_bytes();
    let beside = (grown - bits) as f64 / FILTERS as f64;
    assert!(beside <= MOST, "{beside:.1} bytes beside {} of bits", bits / FILTERS);
    // What the budget is charged is what the process takes, or its limit would mean nothing.
    let off = charged as f64 / grown as f64;
    assert!((0.9..=1.1).contains(&off), "{charged} bytes charged, {grown} taken");
    assert_eq!(engine.names.visible() as u64, FILTERS + 1_000);
    // What goes is given back: the same again takes no more, whatever the allocator keeps meanwhile.
    client.each(0..FILTERS, |user| words(format!("DEL user:{user:07}")));
    assert_eq!(engine.budget.used(), charged_before);
    client.each(0..FILTERS, reserve);
    let again = resident_bytes().unwrap() - before;
    assert!(again as f64 <= grown as f64 * 1.1, "{grown} bytes at first, {again} the second time");
}
