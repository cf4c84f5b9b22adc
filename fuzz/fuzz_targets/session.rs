//! A client's bytes, whatever they are: never a panic, and the same answers whether they come at once or in pieces.
//!
//! The first byte says how long the pieces are. Memory is bounded twice: the filters by their budget, everything else by
//! libFuzzer's limit.

#![no_main]

use std::sync::Arc;

use bloomgate::Secret;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::{Core, Defaults, Engine, Limits};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Next, Session, run_job};
use libfuzzer_sys::fuzz_target;

/// What the server answers to these bytes in pieces of this size.
fn answers(bytes: &[u8], piece: usize) -> Vec<u8> {
    let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
    let limits = Limits { max_memory: 8 << 20, max_filter_memory: 4 << 20, max_filters: 100 };
    let clock = Clock::fixed(1_767_225_600_000);
    let engine = Arc::new(Engine::new(Journal::nowhere(), contracts, clock, limits, Defaults::default(), 1));
    let desk = Desk::new(1, None, "run".to_owned(), Vec::new());
    let mut session = Session::new(desk.welcome(None), &desk);
    let mut core = Core::new(engine, 0);
    let (mut held, mut out) = (Vec::new(), Vec::new());
    for piece in bytes.chunks(piece.max(1)) {
        held.extend_from_slice(piece);
        loop {
            let turn = session.turn(&mut core, &desk, &held, &mut out);
            assert!(turn.consumed <= held.len(), "more was consumed than there is");
            session.forget(turn.consumed);
            held.drain(..turn.consumed);
            match turn.next {
                Next::Read => break,
                Next::Again => {}
                Next::Wait => panic!("nobody else writes, so nobody is waited for"),
                Next::Job(job) => {
                    run_job(&mut core, &desk, &job, &mut out);
                }
                Next::Close | Next::Drop | Next::Shutdown => return out,
            }
        }
    }
    out
}

/// Commands whose answers tell the time or draw lots.
fn varies(bytes: &[u8]) -> bool {
    let words: [&[u8]; 9] =
        [b"acl", b"info", b"time", b"slowlog", b"client", b"latency", b"memory", b"scandump", b"randomkey"];
    let lower = bytes.to_ascii_lowercase();
    words.iter().any(|word| lower.windows(word.len()).any(|part| part == *word))
}

fuzz_target!(|data: &[u8]| {
    let Some((&size, bytes)) = data.split_first() else { return };
    let whole = answers(bytes, bytes.len());
    if !varies(bytes) {
        assert_eq!(answers(bytes, usize::from(size)), whole, "in pieces of {size}");
    }
});
