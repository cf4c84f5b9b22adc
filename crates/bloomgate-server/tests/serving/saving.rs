//! SHUTDOWN SAVE: the snapshot is a worker's, so everybody else is answered while it is made; and if it fails, the server goes on.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bloomgate_server::Settings;
use bloomgate_server::store::{FaultyDisk, Kind, RealDisk, Trouble};

use super::{PATIENCE, Running};

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Everybody is on one reactor, which would stand still for the snapshot if it made it itself.
#[test]
fn others_are_answered_while_the_last_snapshot_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(RealDisk);
    let settings = Settings { threads: 1, ..super::settings(folder.path()) };
    let server = Running::start_both(Arc::new(disk.clone()), settings.clone());
    server.ready.recv_timeout(PATIENCE).unwrap();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE large 0.01 200000"), "+OK");
    assert_eq!(client.say("BF.ADD large x"), ":1");
    assert_eq!(client.say("BF.ADD small x"), ":1");
    let mut saver = server.client();
    assert_eq!(saver.say("PING"), "+PONG");
    disk.hold_syncs(true);
    // What is sent behind it is not answered any more, as with any SHUTDOWN.
    saver.0.get_mut().write_all(b"SHUTDOWN SAVE\r\nPING\r\n").unwrap();
    until("a snapshot", || disk.syncing() > 0);
    for _ in 0..100 {
        assert_eq!(client.say("BF.EXISTS large x"), ":1");
        assert_eq!(client.say("BF.EXISTS small y"), ":0");
    }
    assert_eq!(server.client().say("PING"), "+PONG", "one who comes now");
    assert!(!server.thread.is_finished());
    disk.hold_syncs(false);
    assert_eq!(saver.line(), "");
    assert_eq!(server.end().unwrap().abandoned, [""; 0]);
    let server = Running::start_with(settings);
    let found = server.ready.recv_timeout(PATIENCE).unwrap().found;
    assert_eq!((found.filters, found.batches), (2, 0), "all of it is in the snapshot");
    let mut client = server.client();
    assert_eq!((client.say("BF.EXISTS large x"), client.say("BF.EXISTS small x")), (":1".into(), ":1".into()));
    assert_eq!(client.say("SHUTDOWN SAVE"), "");
    server.end().unwrap();
}

#[test]
fn without_its_snapshot_the_server_goes_on_unless_it_is_forced_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(RealDisk);
    let server = Running::start_on(Arc::new(disk.clone()), folder.path());
    server.ready.recv_timeout(PATIENCE).unwrap();
    let mut client = server.client();
    assert_eq!(client.say("BF.ADD seen x"), ":1");
    let full = Trouble { from: 1, steps: u64::MAX, errno: 28, torn: false, steps_of: Kind::Change };
    disk.plan(full);
    let refused = |told: String| {
        assert!(told.starts_with("-ERR no snapshot, so no shutdown: ") && told.contains("No space left"), "{told}");
    };
    refused(client.say("SHUTDOWN SAVE"));
    refused(client.say("SHUTDOWN SAVE NOW"));
    assert_eq!(client.say("BF.EXISTS seen x"), ":1", "and so does the one who asked for it");
    disk.heal();
    until("writers are served again", || client.say("BF.ADD seen y").starts_with(':'));
    assert_eq!(client.say("SAVE"), "+OK");
    disk.plan(full);
    refused(client.say("SHUTDOWN SAVE"));
    assert_eq!(client.say("SHUTDOWN SAVE FORCE"), "");
    assert_eq!(server.end().unwrap().abandoned, [""; 0]);
    let server = Running::start(folder.path());
    server.ready.recv_timeout(PATIENCE).unwrap();
    let mut client = server.client();
    assert_eq!((client.say("BF.EXISTS seen x"), client.say("BF.EXISTS seen y")), (":1".into(), ":1".into()));
    assert_eq!(client.say("SHUTDOWN"), "");
    server.end().unwrap();
}

/// There is nothing to save it to.
#[test]
fn a_server_that_keeps_nothing_just_ends() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::start_with(Settings { data: None, ..super::settings(folder.path()) });
    server.ready.recv_timeout(PATIENCE).unwrap();
    assert_eq!(server.client().say("SHUTDOWN SAVE"), "");
    server.end().unwrap();
}
