//! What is told for whoever looks into it later: who changed what, who failed to come in, and never a password.

use std::io::Write;
use std::sync::{Arc, Mutex};

use bloomgate_server::logging::{Format, Level, Log};

use super::talk::{Talk, desk, engine};

/// Collects what is written.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A client of a server whose events are collected.
fn heard() -> (Talk, Paper) {
    let (mut desk, paper) = (desk(), Paper::default());
    desk.log = Log::to(Format::Json, Level::Info, paper.clone()).unwrap();
    (Talk::with(engine(64 << 20), desk), paper)
}

/// The events so far; nothing is told afterwards.
fn events(talk: &Talk, paper: &Paper) -> Vec<String> {
    talk.desk.log.close();
    let all = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    all.lines().map(|line| line.split_once("\"event\":").unwrap().1.to_owned()).collect()
}

#[test]
fn who_changed_users_namespaces_or_settings_or_deleted_everything_is_told() {
    let (mut talk, paper) = heard();
    talk.check(
        "ACL SETUSER boss on >a-password-of-boss +@all => +OK
         AUTH boss a-password-of-boss => +OK
         BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 2MB => +OK
         BG.NAMESPACE DEL shop => +OK
         CONFIG SET max-clients 77 => +OK
         FLUSHALL => +OK
         ACL SETUSER boss <a-password-of-boss >another-of-boss => +OK
         ACL DELUSER nobody => :0",
    );
    // What is refused changes nothing.
    assert!(talk.say("ACL SETUSER boss nonsense").starts_with("-ERR"));
    let events = events(&talk, &paper);
    let by = |user: &str| format!("\"user\":\"{user}\",\"client\":\"127.0.0.1:50000\"");
    for (event, (user, field)) in events.iter().zip([
        ("default", "\"access-changed\",\"command\":\"ACL SETUSER boss on >... +@all\""),
        ("boss", "\"access-changed\",\"command\":\"BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 2000000\""),
        ("boss", "\"access-changed\",\"command\":\"BG.NAMESPACE DEL shop\""),
        ("boss", "\"setting-changed\",\"setting\":\"max-clients\",\"value\":\"77\""),
        ("boss", "\"flushed\",\"namespace\":\"all\""),
        ("boss", "\"access-changed\",\"command\":\"ACL SETUSER boss <... >...\""),
    ]) {
        let (name, fields) = field.split_once(',').unwrap();
        assert!(event.starts_with(name) && event.contains(&by(user)) && event.contains(fields), "{event}");
    }
    assert_eq!(events.len(), 6, "{events:?}");
    assert!(events.iter().all(|event| !event.contains("of-boss")), "no password is in any of them");
}

#[test]
fn logins_that_fail_are_told_a_few_a_second() {
    let (mut talk, paper) = heard();
    talk.say("ACL SETUSER ann on >right +@read");
    for _ in 0..3 {
        assert!(talk.say("AUTH ann wrong-guess").starts_with("-WRONGPASS"));
    }
    talk.say("HELLO 2 AUTH right ann");
    talk.check("AUTH ann right => +OK");
    let events = events(&talk, &paper);
    let failed: Vec<&String> = events.iter().filter(|event| event.starts_with("\"login-failed\"")).collect();
    assert_eq!(failed.len(), 4, "{events:?}");
    let ann = "\"user\":\"ann\",\"client\":\"127.0.0.1:50000\"";
    assert!(failed[0].contains("127.0.0.1:50000 failed to log in as 'ann'") && failed[0].contains(ann), "{failed:?}");
    // What is no user's name may be a password in the wrong place.
    let unknown = "\"user\":\"(unknown)\",\"client\":\"127.0.0.1:50000\"";
    assert!(failed[3].contains("failed to log in as '(unknown)'") && failed[3].contains(unknown), "{failed:?}");
    assert!(events.iter().all(|event| !event.contains("guess") && !event.contains("right")), "{events:?}");
}

#[test]
fn a_limit_below_what_is_used_is_told_when_it_is_set() {
    let (mut talk, paper) = heard();
    talk.check(
        "BF.RESERVE f 0.01 1000000 => +OK
         CONFIG SET max-memory 1000 => +OK",
    );
    let doctor = talk.say("MEMORY DOCTOR");
    assert!(doctor.contains("are refused already"), "{doctor}");
    let events = events(&talk, &paper);
    assert!(events[0].starts_with("\"setting-changed\""), "{events:?}");
    assert!(events[1].starts_with("\"warning\"") && events[1].contains("filters take"), "{events:?}");
    assert_eq!(events.len(), 2, "{events:?}");
}
