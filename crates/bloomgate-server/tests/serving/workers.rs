//! Workers: the long commands of one tenant hold up neither the others nor those who run the server.

use std::sync::Arc;

use bloomgate::AnyFilter;
use bloomgate_server::net::worker::Workers;
use bloomgate_server::session::Job;
use bloomgate_server::session::desk::{Desk, Keeper};
use bloomgate_server::store::Spool;

use super::stopping::{engine_and_desk, job};

/// A job of a user.
fn of(desk: &Desk, user: &str, line: &str) -> Job {
    Job { user: Some(Arc::clone(&desk.access.book().users[user])), ..job(desk, line) }
}

#[test]
fn what_nobody_waits_for_is_not_begun_and_what_waits_is_bounded() {
    let (engine, desk) = engine_and_desk();
    let workers = Workers::start(&engine, &desk, 1, 0).unwrap();
    let give = |line: &str| workers.run(job(&desk, line)).unwrap();
    assert_eq!(give("cf.add seen x").blocking_recv().unwrap().0, b":1\r\n");
    let entry = engine.find(b"seen").unwrap();
    let block = || {
        let (writer, stuck) = (entry.write(), give("cf.add seen y"));
        while workers.is_idle() {
            std::thread::yield_now();
        }
        (writer, stuck)
    };
    // Some hang up, and some are given up by their connection.
    let (writer, stuck) = block();
    drop(give("cf.add gone x"));
    let left = job(&desk, "cf.add left x");
    let client = left.client.clone();
    let waits = workers.run(left).unwrap();
    workers.forget(&client);
    assert!(waits.blocking_recv().is_err());
    let last = give("cf.add stays x");
    drop(writer);
    assert_eq!(stuck.blocking_recv().unwrap().0, b":1\r\n");
    assert_eq!(last.blocking_recv().unwrap().0, b":1\r\n");
    assert!(engine.find(b"gone").is_none() && engine.find(b"left").is_none());
    // So many wait, and no more; those that hang up make room.
    let (writer, stuck) = block();
    let mut waiting: Vec<_> = (0..4_096).map(|_| give("cf.exists stays x")).collect();
    let refusal = b"-ERR too many long commands wait to be run: try again in a moment\r\n";
    assert_eq!(give("cf.exists stays x").blocking_recv().unwrap().0, refusal);
    waiting.truncate(4_000);
    waiting.extend((0..96).map(|_| give("cf.exists stays x")));
    assert_eq!(give("cf.exists stays x").blocking_recv().unwrap().0, refusal);
    drop(writer);
    assert_eq!(stuck.blocking_recv().unwrap().0, b":1\r\n");
    assert!(waiting.into_iter().all(|one| one.blocking_recv().unwrap().0 == b":1\r\n"));
}

#[test]
fn namespaces_take_turns_and_admin_commands_wait_for_no_tenant() {
    let (engine, desk) = engine_and_desk();
    let workers = Workers::start(&engine, &desk, 3, 0).unwrap();
    let done = |job: Job| workers.run(job).unwrap().blocking_recv().unwrap().0;
    for (space, user) in [("a", "ann"), ("b", "bob"), ("c", "cat")] {
        assert_eq!(done(job(&desk, &format!("BG.NAMESPACE SET {space} PREFIX {space}:"))), b"+OK\r\n");
        assert_eq!(done(job(&desk, &format!("ACL SETUSER {user} on nopass +@all namespace={space}"))), b"+OK\r\n");
        assert_eq!(done(of(&desk, user, "cf.add seen x")), b":1\r\n");
    }
    // As long as somebody writes to a filter, a command on it waits: these take long.
    let (anns, bobs) = (engine.find(b"a:seen").unwrap(), engine.find(b"b:seen").unwrap());
    let writer = anns.write();
    let stuck: Vec<_> = (0..8).map(|at| workers.run(of(&desk, "ann", &format!("cf.add seen {at}"))).unwrap()).collect();
    // She has one worker, however much she asks for; the others have the other.
    assert_eq!(done(of(&desk, "bob", "cf.add seen y")), b":1\r\n");
    assert_eq!(done(of(&desk, "cat", "cf.add seen y")), b":1\r\n");
    assert_eq!(done(job(&desk, "cf.add seen y")), b":1\r\n");
    // When tenants have all that is theirs, whoever runs the server still does.
    let writes_too = bobs.write();
    let also_stuck = workers.run(of(&desk, "bob", "cf.add seen z")).unwrap();
    let waits = workers.run(of(&desk, "cat", "cf.add seen z")).unwrap();
    assert!(done(job(&desk, "BG.SECRETS")).starts_with(b"*"));
    assert_eq!(done(job(&desk, "BG.NAMESPACE SET a MAXFILTERS 5")), b"+OK\r\n");
    drop((writer, writes_too));
    for one in stuck.into_iter().chain([also_stuck, waits]) {
        assert_eq!(one.blocking_recv().unwrap().0, b":1\r\n");
    }
}

/// A keeper with a fault.
#[derive(Debug)]
struct Faulty;

impl Keeper for Faulty {
    fn save(&self) -> Result<(), String> {
        panic!("a fault that this test makes");
    }
    fn save_in_background(&self) -> bool {
        false
    }
    fn last_save_s(&self) -> u64 {
        0
    }
    fn is_saving(&self) -> bool {
        false
    }
    fn last_error(&self) -> Option<String> {
        None
    }
    fn write_image(&self, _: u64, _: &AnyFilter) -> Result<Arc<str>, String> {
        Err("it keeps nothing".to_owned())
    }
    fn spool(&self, _: u64) -> Result<Spool, String> {
        Err("it keeps nothing".to_owned())
    }
    fn backup(&self, _: &str) -> Result<String, String> {
        Err("it keeps nothing".to_owned())
    }
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

#[test]
fn a_command_that_panics_is_answered_and_its_worker_goes_on() {
    let (engine, desk) = engine_and_desk();
    desk.keeper.set(Arc::new(Faulty)).unwrap();
    let mut told = desk.log.listen();
    let workers = Workers::start(&engine, &desk, 2, 0).unwrap();
    let done = |line: &str| workers.run(job(&desk, line)).unwrap().blocking_recv().expect("an answer").0;
    // More often than there are workers: each would be lost by it.
    for _ in 0..5 {
        let reply = String::from_utf8(done("SAVE")).unwrap();
        assert!(reply.starts_with("-ERR the server has a fault: the command was given up"), "{reply}");
        let event = told.blocking_recv().unwrap();
        assert!(event.contains("command-failed") && event.contains("SAVE"), "{event}");
    }
    let silent = workers.run(Job { silent: true, ..job(&desk, "SAVE") }).unwrap();
    assert_eq!(silent.blocking_recv().unwrap().0, b"");
    assert_eq!(done("cf.add seen x"), b":1\r\n");
    assert!(workers.is_idle());
    assert_eq!(workers.stop(std::time::Duration::from_secs(20)), [""; 0]);
}
