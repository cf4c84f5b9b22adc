//! While the folder is read: nothing is answered about a filter, nothing is taken, and everything else is.
//!
//! To make a start last as long as a test wants, a pipe lies where an image should: whoever opens it to read waits until
//! somebody opens it to write.

use std::path::{Path, PathBuf};
use std::sync::mpsc::TryRecvError;

use super::{PATIENCE, Running};

/// Makes a folder with a large filter, whose image is a file of its own, and a small one, whose image is now a pipe.
fn folder_that_waits(folder: &Path) -> PathBuf {
    let server = Running::start(folder);
    server.ready.recv_timeout(PATIENCE).unwrap();
    let mut client = server.client();
    assert_eq!(client.say("BF.RESERVE large 0.01 200000"), "+OK");
    assert_eq!(client.say("BF.ADD large x"), ":1");
    assert_eq!(client.say("BF.ADD small x"), ":1");
    assert_eq!(client.say("SAVE"), "+OK");
    assert_eq!(client.say("BF.ADD large later"), ":1");
    assert_eq!(client.say("SHUTDOWN"), "");
    assert_eq!(server.end().unwrap().abandoned, [""; 0]);
    let small = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let small = small.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("image-0-"));
    let small = small.expect("small filters lie together in one image");
    std::fs::remove_file(&small).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&small).status().unwrap();
    assert!(made.success());
    small
}

/// Lets the start go on. Waits until it has come to the pipe.
fn let_go(pipe: &Path) {
    std::fs::OpenOptions::new().write(true).open(pipe).unwrap();
}

#[test]
fn a_server_that_is_loading_answers_and_never_answers_no() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder_that_waits(folder.path());
    let server = Running::start(folder.path());
    let mut client = server.client();
    for line in ["BF.EXISTS large x", "BF.MEXISTS large x later", "BF.ADD large y", "BF.ADD new y", "EXISTS large"] {
        assert!(client.say(line).starts_with("-LOADING "), "{line}");
    }
    for line in ["PING", "DEL large", "SAVE", "BG.INFO large", "CF.ADD new y", "FLUSHALL", "DBSIZE", "BG.BACKUP now"] {
        assert!(client.say(line).starts_with("-LOADING "), "{line}");
    }
    // In a transaction too: what is refused spoils it.
    assert_eq!(client.say("MULTI"), "+OK");
    assert!(client.say("BF.ADD large y").starts_with("-LOADING "));
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    assert!(client.text("INFO persistence").contains("loading:1\r\n"));
    assert!(client.say("CLIENT ID").starts_with(':'));
    assert_eq!(client.say("WATCH large"), "+OK");
    assert_eq!(server.ready.try_recv(), Err(TryRecvError::Empty));
    let_go(&pipe);
    let ready = server.ready.recv_timeout(PATIENCE).unwrap();
    assert_eq!(ready.found.filters, 2);
    // The same connection goes on, with all that was written before.
    assert_eq!(client.say("BF.EXISTS large x"), ":1");
    assert_eq!(client.say("BF.EXISTS large later"), ":1");
    assert_eq!(client.say("BF.EXISTS large y"), ":0");
    // Of this one the image was a pipe: it exists, and cannot say no.
    assert!(client.say("BF.EXISTS small x").starts_with("-ERR filter 'small' is unavailable"));
    // What was watched has come meanwhile.
    assert_eq!(client.say("MULTI"), "+OK");
    assert_eq!(client.say("BF.ADD large z"), "+QUEUED");
    assert_eq!(client.say("EXEC"), "*-1");
    assert!(client.text("INFO persistence").contains("loading:0\r\n"));
    assert_eq!(client.say("BF.ADD large y"), ":1");
    assert_eq!(client.say("SHUTDOWN"), "");
    server.end().unwrap();
}

#[test]
fn a_server_that_is_loading_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder_that_waits(folder.path());
    let server = Running::start(folder.path());
    let mut client = server.client();
    assert!(client.say("BF.EXISTS large x").starts_with("-LOADING "));
    assert_eq!(client.say("SHUTDOWN"), "");
    assert_eq!(server.ready.try_recv(), Err(TryRecvError::Empty));
    server.end().unwrap();
    // The thread that reads would have ended with the process.
    let_go(&pipe);
}
