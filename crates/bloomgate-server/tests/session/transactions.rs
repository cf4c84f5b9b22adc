//! What a transaction holds up, what it costs, and what may be in it.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use bloomgate_command::{Flag, TABLE};
use bloomgate_server::engine::Engine;

use super::talk::Talk;

/// Whether a transaction of these commands ends while somebody writes, and what it answered in the end.
fn beside_a_writer(lines: &'static [&'static str]) -> (bool, String) {
    let mut talk = Talk::new();
    talk.check("BF.ADD f a => :1\n BF.ADD g a => :1");
    let engine: Arc<Engine> = talk.engine.clone();
    let writing = engine.pass(1);
    let (tell, told) = channel();
    let desk = talk.desk.clone();
    let begun = engine.clone();
    let thread = std::thread::spawn(move || {
        let mut talk = Talk::join(begun, desk);
        let reply = lines.iter().map(|line| talk.say(line)).last().unwrap();
        tell.send(reply).unwrap();
    });
    let at_once = told.recv_timeout(Duration::from_secs(2));
    drop(writing);
    let ended = at_once.is_ok();
    let reply = at_once.or_else(|_| told.recv_timeout(Duration::from_secs(20))).unwrap();
    thread.join().unwrap();
    (ended, reply)
}

#[test]
fn a_transaction_that_needs_no_standstill_waits_for_nobody() {
    for (lines, reply) in [
        (&["MULTI", "EXEC"][..], "*0"),
        (&["MULTI", "PING", "ECHO a", "CLIENT GETNAME", "EXEC"], "*3 +PONG $1 a $-1"),
        (&["MULTI", "PING", "BF.EXISTS f a", "EXEC"], "*2 +PONG :1"),
    ] {
        assert_eq!(beside_a_writer(lines), (true, reply.to_owned()), "{lines:?}");
    }
}

#[test]
fn what_has_to_be_of_one_instant_has_nobody_write() {
    for (lines, reply) in [
        (&["MULTI", "BF.EXISTS f a", "BF.EXISTS g a", "EXEC"][..], "*2 :1 :1"),
        (&["MULTI", "BF.ADD f b", "EXEC"], "*1 :1"),
    ] {
        assert_eq!(beside_a_writer(lines), (false, reply.to_owned()), "{lines:?}");
    }
}

/// Also of one who may do nothing else.
#[test]
fn transactions_and_watches_are_paid_for() {
    let mut root = Talk::new();
    root.check(
        "BG.NAMESPACE SET a PREFIX a: ITEMSPERSECOND 1000 => +OK
         ACL SETUSER nobody on >p namespace=a => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK",
    );
    let mut taken_by = |user: &str, lines: &[&str]| {
        root.check("BG.NAMESPACE SET a ITEMSPERSECOND 999 => +OK\n BG.NAMESPACE SET a ITEMSPERSECOND 1000 => +OK");
        let mut talk = root.another();
        talk.check(&format!("AUTH {user} p => +OK"));
        let input: String = lines
            .iter()
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
                format!("*{}\r\n{bulks}", words.len())
            })
            .collect();
        let (mut rounds, mut out, begin) = (0, Vec::new(), Instant::now());
        // 512 items may come at once, what a second has 1,000 of meanwhile, and 2,000 ahead of their time, with a pause for those.
        loop {
            // A turn may end before its input: it has so much of the thread's time.
            let mut rest = input.as_bytes();
            while !rest.is_empty() {
                let turn = talk.session.turn(&mut talk.core, &talk.desk, rest, &mut out);
                talk.session.forget(turn.consumed);
                if !turn.pause.is_zero() || rounds > 5_000 {
                    return (rounds, 512 + begin.elapsed().as_millis() as u64 + 1);
                }
                rest = &rest[turn.consumed..];
            }
            rounds += 1;
        }
    };
    let asked: [(&str, &[&str], u64); 3] = [
        ("nobody", &["MULTI", "PING", "EXEC"], 1),
        ("ann", &["MULTI", "EXISTS f", "EXISTS g", "EXEC"], 12),
        ("ann", &["WATCH f", "UNWATCH"], 11),
    ];
    for (user, lines, price) in asked {
        let (rounds, most) = taken_by(user, lines);
        assert!(
            (512 / price..=most / price).contains(&rounds),
            "{user} {lines:?}: {rounds} rounds at {price} of {most}"
        );
    }
}

/// Every command is refused when it is queued, or does what it does.
#[test]
fn no_command_is_queued_that_cannot_be_run() {
    let all = TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands));
    let mut queued = 0;
    for spec in all {
        let line = spec.example.0;
        // Those that concern the transaction itself are not queued.
        if ["MULTI", "EXEC", "DISCARD", "QUIT", "RESET", "WATCH seen"].contains(&line)
            || line.contains(['"', '\'', '<'])
        {
            continue;
        }
        let mut talk = Talk::new();
        talk.check("MULTI => +OK");
        let reply = talk.say(line);
        if reply != "+QUEUED" {
            assert_eq!(talk.say("EXEC"), "-EXECABORT Transaction discarded because of previous errors.", "{line}");
            continue;
        }
        assert!(!spec.has(Flag::NoMulti), "{line}");
        queued += 1;
        let reply = talk.say("EXEC");
        assert!(!reply.contains("cannot be used here"), "{line}: {reply}");
    }
    assert!(queued > 50, "{queued}");
    let mut talk = Talk::new();
    talk.check(
        "MULTI => +OK
         CLIENT SETNAME loader => +QUEUED
         CLIENT GETNAME => +QUEUED
         EXEC => *2 +OK $6 loader
         MULTI => +OK",
    );
    assert!(talk.say("HELLO 3").starts_with("-ERR HELLO"));
    talk.check("EXEC => -EXECABORT Transaction discarded because of previous errors.");
}
