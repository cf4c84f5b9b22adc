//! What comes while replies wait for the disk: it is read and answered behind them.

use std::io::{Read, Write};
use std::net::Shutdown;

use bloomgate_server::store::Fsync;

use super::limits::{end, start};

/// Each request in a packet of its own, cut anywhere, and nobody reads before the last one is sent and the connection is closed
/// to one side.
#[test]
fn requests_that_come_meanwhile_are_answered_in_their_order() {
    const ADDS: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    for policy in [Fsync::Always, Fsync::EverySecond] {
        let folder = folder.path().join(format!("{policy:?}"));
        let server = start(&folder, |settings| settings.fsync = policy);
        let mut client = server.client();
        let stream = client.0.get_mut();
        stream.set_nodelay(true).unwrap();
        for number in 0..ADDS {
            let line = format!("BF.ADD f item-{number}\r\nECHO {number}\r\n");
            let (one, other) = line.as_bytes().split_at(number % line.len());
            stream.write_all(one).unwrap();
            stream.write_all(other).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let mut new = 0;
        for number in 0..ADDS {
            // One or two in a hundred meet bits of others only.
            new += usize::from(client.line() == ":1");
            let length = number.to_string().len();
            assert_eq!((client.line(), client.line()), (format!("${length}"), number.to_string()));
        }
        assert_eq!(client.line(), "", "the end of the connection");
        assert!(new > ADDS * 98 / 100, "{new} of {ADDS} were new");
        end(server);
        let server = start(&folder, |settings| settings.fsync = policy);
        let mut client = server.client();
        assert!((0..ADDS).all(|number| client.say(&format!("BF.EXISTS f item-{number}")) == ":1"));
        end(server);
    }
}

/// Its connection ends, also while its replies wait and more of it is read.
#[test]
fn who_writes_much_and_is_killed_leaves_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), |settings| settings.fsync = Fsync::Always);
    let mut honest = server.client();
    let mut writer = server.client();
    let id = writer.say("CLIENT ID")[1..].to_owned();
    let lines: String = (0..20_000).map(|number| format!("BF.ADD f item-{number}\r\n")).collect();
    let mut stream = writer.0.get_ref().try_clone().unwrap();
    std::thread::scope(|scope| {
        // It may be cut before all is sent.
        scope.spawn(move || _ = stream.write_all(lines.as_bytes()));
        assert_eq!(writer.line(), ":1");
        assert_eq!(honest.say(&format!("CLIENT KILL ID {id}")), ":1");
        // With what it had sent, it is reset.
        while matches!(writer.0.read(&mut [0; 4_096]), Ok(1..)) {}
    });
    assert_eq!(honest.say("BF.EXISTS f item-0"), ":1");
    assert_eq!(honest.say("BF.ADD f later"), ":1");
    drop(honest);
    end(server);
}
