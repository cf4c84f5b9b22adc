//! Workers: whose turn it is, and stopping: commands that take too long to end are named and left, whatever they wait for.

use std::sync::Arc;
use std::time::Duration;

use bloomgate::Secret;
use bloomgate_command::Protocol;
use bloomgate_server::engine::clock::Clock;
use bloomgate_server::engine::contracts::Contracts;
use bloomgate_server::engine::journal::Journal;
use bloomgate_server::engine::namespaces::Owed;
use bloomgate_server::engine::{Core, Defaults, Engine, Limits};
use bloomgate_server::net::worker::Workers;
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Job, Next, Session};

pub fn engine_and_desk() -> (Arc<Engine>, Arc<Desk>) {
    let contracts = Contracts::new(Secret::from_hex(&"5a".repeat(32)).ok());
    let limits = Limits { max_memory: 1 << 24, max_filter_memory: 1 << 24, max_filters: 100 };
    let engine = Engine::new(Journal::nowhere(), contracts, Clock::start(), limits, Defaults::default(), 2);
    (Arc::new(engine), Arc::new(Desk::new(2, None, "run".into(), Vec::new())))
}

pub fn job(desk: &Desk, line: &str) -> Job {
    let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let user = Some(desk.access.default_user());
    Job {
        words,
        protocol: Protocol::Resp2,
        silent: false,
        client: desk.welcome(None),
        user,
        login: None,
        transaction: None,
        paid: Owed::default(),
    }
}

#[test]
fn a_job_that_does_not_end_is_named_and_left() {
    let (engine, desk) = engine_and_desk();
    let workers = Workers::start(&engine, &desk, 1, 0).unwrap();
    let made = workers.run(job(&desk, "cf.add seen a")).unwrap();
    assert_eq!(made.blocking_recv().unwrap().0, b":1\r\n");
    let entry = engine.find(b"seen").unwrap();
    // As long as somebody writes to it, a command on it waits.
    let writer = entry.write();
    let stuck = workers.run(job(&desk, "cf.add seen b")).unwrap();
    let behind = workers.run(job(&desk, "cf.add other b")).unwrap();
    while workers.is_idle() {
        std::thread::yield_now();
    }
    assert_eq!(workers.stop(Duration::from_millis(20)), ["CF.ADD seen", "CF.ADD other"]);
    assert!(workers.run(job(&desk, "cf.add seen c")).is_none(), "no more jobs are taken");
    assert!(behind.blocking_recv().is_err(), "one that was never begun is not answered");
    assert!(engine.find(b"other").is_none());
    // In a process that goes on it would end after all.
    drop(writer);
    assert_eq!(stuck.blocking_recv().unwrap().0, b":1\r\n");
}

#[test]
fn jobs_that_end_in_time_are_waited_for() {
    let (engine, desk) = engine_and_desk();
    let workers = Workers::start(&engine, &desk, 2, 0).unwrap();
    workers.run(job(&desk, "cf.add seen a")).unwrap().blocking_recv().unwrap();
    let entry = engine.find(b"seen").unwrap();
    let writer = entry.write();
    let waiting = workers.run(job(&desk, "cf.add seen b")).unwrap();
    while workers.is_idle() {
        std::thread::yield_now();
    }
    let stopper = {
        let workers = workers.clone();
        std::thread::spawn(move || workers.stop(Duration::from_secs(600)))
    };
    drop(writer);
    assert!(stopper.join().unwrap().is_empty());
    assert_eq!(waiting.blocking_recv().unwrap().0, b":1\r\n");
    // Idle ones end at once.
    assert!(workers.stop(Duration::from_secs(600)).is_empty());
}

/// A customer of an IPv6 provider has 2^64 addresses: they take one turn together.
#[test]
fn logins_of_one_neighbourhood_take_one_turn() {
    let (engine, desk) = engine_and_desk();
    let workers = Workers::start(&engine, &desk, 1, 0).unwrap();
    let mut core = Core::new(engine.clone(), 1);
    let mut login = |from: String| {
        let mut session = Session::new(desk.welcome(from.parse().ok()), &desk);
        let input = b"*3\r\n$4\r\nAUTH\r\n$6\r\nnobody\r\n$1\r\nx\r\n";
        match session.turn(&mut core, &desk, input, &mut Vec::new()).next {
            Next::Job(job) => workers.run(job).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let mut many: Vec<_> = (1..=40).map(|host| login(format!("[2001:db8::{host:x}]:1"))).collect();
    // By the address alone its turn would be after all of them.
    let honest = login("[2001:db9::1]:1".to_owned());
    assert!(honest.blocking_recv().unwrap().0.starts_with(b"-WRONGPASS"));
    let before = many.iter_mut().filter_map(|one| one.try_recv().ok()).count();
    assert!(before < 10, "{before} of 40 were before it");
    assert!(workers.stop(Duration::from_secs(600)).is_empty());
}
