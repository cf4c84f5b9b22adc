//! While the folder is read: nothing is answered about a filter, nothing is taken, and everything else is.
//!
//! To make a start last as long as a test wants, the disk holds up the sync with which the reading of the log ends.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::TryRecvError;

use bloomgate_server::store::{FaultyDisk, RealDisk};

use super::{PATIENCE, Running};

/// Makes a folder with a filter that has an image of its own, and one whose image lies with others.
fn make(folder: &Path) {
    let server = Running::start(folder);
    server.ready.recv_timeout(PATIENCE).unwrap();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE large 0.01 200000"), "+OK");
    assert_eq!(client.say("BF.ADD large x"), ":1");
    assert_eq!(client.say("BF.ADD small x"), ":1");
    assert_eq!(client.say("SAVE"), "+OK");
    assert_eq!(client.say("BF.ADD small later"), ":1");
    assert_eq!(client.say("SHUTDOWN"), "");
    assert_eq!(server.end().unwrap().abandoned, [""; 0]);
}

/// Starts a server whose reading does not end until the disk lets it go.
fn held_up(folder: &Path) -> (FaultyDisk, Running) {
    let disk = FaultyDisk::new(RealDisk);
    disk.hold_syncs(true);
    let server = Running::start_on(Arc::new(disk.clone()), folder);
    (disk, server)
}

#[test]
fn a_server_that_is_loading_answers_and_never_answers_no() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let (disk, server) = held_up(folder.path());
    let mut client = server.client();
    for line in ["BF.EXISTS small x", "BF.MEXISTS small x later", "BF.ADD small y", "BF.ADD new y", "EXISTS small"] {
        assert!(client.say(line).starts_with("-LOADING "), "{line}");
    }
    for line in ["PING", "DEL small", "SAVE", "BG.INFO small", "CF.ADD new y", "FLUSHALL", "DBSIZE", "BG.BACKUP now"] {
        assert!(client.say(line).starts_with("-LOADING "), "{line}");
    }
    // In a transaction too: what is refused spoils it.
    assert_eq!(client.say("MULTI"), "+OK");
    assert!(client.say("BF.ADD small y").starts_with("-LOADING "));
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    assert!(client.text("INFO persistence").contains("loading:1\r\n"));
    assert!(client.say("CLIENT ID").starts_with(':'));
    assert_eq!(client.say("WATCH small"), "+OK");
    assert_eq!(server.ready.try_recv(), Err(TryRecvError::Empty));
    disk.hold_syncs(false);
    let ready = server.ready.recv_timeout(PATIENCE).unwrap();
    assert_eq!(ready.found.filters, 2);
    // The same connection goes on, with all that was written before.
    assert_eq!(client.say("BF.EXISTS small x"), ":1");
    assert_eq!(client.say("BF.EXISTS small later"), ":1");
    assert_eq!(client.say("BF.EXISTS small y"), ":0");
    assert_eq!(client.say("BF.EXISTS large x"), ":1");
    // What was watched has come meanwhile.
    assert_eq!(client.say("MULTI"), "+OK");
    assert_eq!(client.say("BF.ADD small z"), "+QUEUED");
    assert_eq!(client.say("EXEC"), "*-1");
    assert!(client.text("INFO persistence").contains("loading:0\r\n"));
    assert_eq!(client.say("BF.ADD small y"), ":1");
    assert_eq!(client.say("SHUTDOWN"), "");
    server.end().unwrap();
}

#[test]
fn a_ping_without_the_password_tells_loading_from_ready() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let disk = FaultyDisk::new(RealDisk);
    disk.hold_syncs(true);
    let mut settings = super::settings(folder.path());
    bloomgate_server::settings::table::set(&mut settings, "password", "secret").unwrap();
    let server = Running::start_both(Arc::new(disk.clone()), settings);
    let mut client = server.client();
    assert!(client.say("PING").starts_with("-LOADING "));
    assert!(client.say("BF.EXISTS small x").starts_with("-NOAUTH "), "of anything else nothing is told");
    disk.hold_syncs(false);
    server.ready.recv_timeout(PATIENCE).unwrap();
    assert!(client.say("PING").starts_with("-NOAUTH "));
    assert_eq!(client.say("AUTH secret"), "+OK");
    assert_eq!(client.say("SHUTDOWN"), "");
    server.end().unwrap();
}

#[test]
fn a_server_that_is_loading_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    make(folder.path());
    let (disk, server) = held_up(folder.path());
    let mut client = server.client();
    assert!(client.say("BF.EXISTS large x").starts_with("-LOADING "));
    assert_eq!(client.say("SHUTDOWN"), "");
    assert!(server.ready.try_recv().is_err(), "it never was ready");
    server.end().unwrap();
    // The thread that reads would have ended with the process.
    disk.hold_syncs(false);
}
