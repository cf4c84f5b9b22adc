//! Workers: the long commands of one tenant hold up neither the others nor those who run the server.

use std::sync::Arc;

use bloomgate_server::net::worker::Workers;
use bloomgate_server::session::Job;
use bloomgate_server::session::desk::Desk;

use super::stopping::{engine_and_desk, job};

/// A job of a user.
fn of(desk: &Desk, user: &str, line: &str) -> Job {
    Job { user: Some(Arc::clone(&desk.access.book().users[user])), ..job(desk, line) }
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
