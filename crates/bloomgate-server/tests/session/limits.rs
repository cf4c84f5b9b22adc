//! What clients cannot make the server do: promise what it refused, grow past its memory, pile up replies.

use bloomgate_server::engine::Core;
use bloomgate_server::session::{Job, Next, run_job};

use super::talk::{Talk, desk, engine, readable};

#[test]
fn an_item_that_is_refused_is_refused_as_often_as_it_comes() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BF.RESERVE full 0.001 2 NONSCALING"), "+OK");
    let full = "-ERR non scaling filter is full";
    assert_eq!(talk.say("BF.MADD full a b x x a y x"), format!("*7 :1 :1 {full} {full} :0 {full} {full}"));
    assert_eq!(talk.say("BF.MEXISTS full a b x y"), "*4 :1 :1 :0 :0");
    // By the command that makes a filter if there is none, too.
    assert_eq!(talk.say("BF.INSERT full ITEMS z z"), format!("*2 {full} {full}"));
}

#[test]
fn an_item_that_comes_twice_is_new_once() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BF.MADD f a a b a"), "*4 :1 :0 :1 :0");
    assert_eq!(talk.say("BF.CARD f"), ":2");
}

/// However many items stand between the two: a "1" says that it was certainly new, and a count grows by it.
#[test]
fn an_item_that_comes_twice_far_apart_is_new_once() {
    for (create, add) in [
        ("BF.RESERVE f 0.0000001 100000", "BF.MADD"),
        ("BF.RESERVE f 0.0000001 25000 NONSCALING", "BF.MADD"),
        ("BG.CREATE f KIND blocked CAPACITY 100000 RATE 0.0000001", "BG.ADD"),
    ] {
        let mut talk = Talk::new();
        assert_eq!(talk.say(create), "+OK");
        let items: Vec<String> = (0..20_000).map(|item| format!("it{item}")).collect();
        let line = items.join(" ");
        let reply = talk.say(&format!("{add} f {line} {line}"));
        let answers: Vec<&str> = reply.split(' ').skip(1).collect();
        assert_eq!(answers.len(), 40_000, "{create}");
        assert!(answers[..20_000].iter().all(|&answer| answer == ":1"), "{create}");
        assert!(answers[20_000..].iter().all(|&answer| answer == ":0"), "{create}");
        assert_eq!(talk.say("BF.CARD f"), ":20000", "{create}");
    }
}

/// The third stage of this one would take 2.3 GB; the first two have 32,769 keys.
#[test]
fn a_batch_that_goes_over_several_stages_is_charged_for_each() {
    let mut talk = Talk::with(engine(16 << 20), desk());
    assert_eq!(talk.say("BF.RESERVE steep 0.01 1 EXPANSION 32768"), "+OK");
    let items: Vec<String> = (0..40_000).map(|number| format!("i{number}")).collect();
    let reply = talk.say(&format!("BF.MADD steep {}", items.join(" ")));
    let (taken, refused) = (reply.matches(":1").count(), reply.matches("-ERR").count());
    assert!((32_000..=32_769).contains(&taken), "{taken} were taken");
    assert!(refused > 7_000, "{refused} were refused");
    assert_eq!(talk.say("BF.INFO steep FILTERS"), "*1 :2");
    let used = talk.engine.budget.used();
    assert!(used < 16 << 20, "{used}");
    // What fits is charged, whatever the number of stages.
    let reply = talk.say(&format!("BF.MADD gentle {}", items.join(" ")));
    assert_eq!(reply.matches("-ERR").count(), 0);
    let size: u64 = talk.say("BF.INFO gentle SIZE").trim_start_matches("*1 :").parse().unwrap();
    let gentle = talk.engine.budget.used() - used;
    assert!(gentle >= size * 9 / 10, "{gentle} bytes are charged for a filter of {size}");
}

/// A table of a cuckoo chain has no slot for a key when it happens to, before it holds what it was made for or after:
/// whenever the next one is opened, it was charged, and a key that opens none costs nothing.
#[test]
fn a_chain_of_tables_never_has_more_than_it_was_charged_for() {
    let mut talk = Talk::new();
    for (name, copies) in [("once", 1), ("thrice", 3), ("eight", 8)] {
        assert_eq!(talk.say(&format!("CF.RESERVE {name} 40")), "+OK");
        let entry = talk.engine.find(name.as_bytes()).unwrap();
        let (mut early, mut stages) = (0, 1);
        for item in 0..400 {
            for _ in 0..copies {
                let room = entry.with(|filter| filter.capacity().saturating_sub(filter.len())).unwrap_or(0);
                assert_eq!(talk.say(&format!("CF.ADD {name} item{item}")), ":1");
                let (size, now) = entry.with(|filter| (filter.size_in_bytes(), filter.stages())).unwrap();
                assert_eq!(entry.charged(), size, "{name} {item}");
                early += u32::from(now > stages && room > 0);
                stages = now;
            }
        }
        // With copies there are tables that were opened early: those that nobody would have been charged for.
        assert!(stages > 2 && (copies < 8 || early > 0), "{name}: {stages} stages, {early} early");
    }
    let all: u64 =
        ["once", "thrice", "eight"].iter().map(|name| talk.engine.find(name.as_bytes()).unwrap().memory()).sum();
    assert_eq!(talk.engine.budget.used(), all);
}

#[test]
fn the_replies_of_a_transaction_have_a_size() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("MULTI"), "+OK");
    for _ in 0..2_000 {
        assert_eq!(talk.say("COMMAND DOCS"), "+QUEUED");
    }
    assert_eq!(talk.say("BF.ADD f x"), "+QUEUED");
    let reply = talk.send(&[b"EXEC"]);
    assert!(reply.starts_with(b"*2001\r\n"));
    assert!(reply.len() < 128 << 20, "{} bytes", reply.len());
    let end = String::from_utf8_lossy(&reply[reply.len() - 200..]).into_owned();
    assert!(end.contains("-ERR not run: the replies before"), "{end}");
    assert_eq!(talk.say("BF.EXISTS f x"), ":0");
}

/// What EXEC would be for a connection: a job, or the reply at once.
fn exec(talk: &mut Talk) -> Result<Job, String> {
    let (input, mut out) = (b"*1\r\n$4\r\nEXEC\r\n", Vec::new());
    let turn = talk.session.turn(&mut talk.core, &talk.desk, input, &mut out);
    assert_eq!(turn.consumed, input.len());
    talk.session.forget(turn.consumed);
    match turn.next {
        Next::Job(job) => Ok(job),
        _ => Err(readable(&out)),
    }
}

/// A transaction must not hold up a reactor, and one that only asks holds up no writer: it does not wait for one either.
#[test]
fn a_long_transaction_is_a_workers_and_stops_nobody_if_it_only_asks() {
    let mut talk = Talk::new();
    talk.check("BF.MADD f x y => *2 :1 :1\nMULTI => +OK\nBF.ADD f z => +QUEUED\nBF.EXISTS f z => +QUEUED");
    assert_eq!(exec(&mut talk).unwrap_err(), "*2 :1 :1", "a short one runs at once");
    let items = "MEXISTS f x y z w ".to_owned() + &"w ".repeat(300);
    for (what, lines) in
        [("long", vec!["BG.ESTIMATE f".to_owned()]), ("many", vec![format!("BF.{}", items.trim_end()); 4])]
    {
        assert_eq!(talk.say("MULTI"), "+OK");
        lines.iter().for_each(|line| assert_eq!(talk.say(line), "+QUEUED", "{what}"));
        let job = exec(&mut talk).expect(what);
        assert!(talk.say("PING") == "+PONG", "it is over for the conversation");
        let (engine, desk) = (talk.engine.clone(), talk.desk.clone());
        let (tell, told) = std::sync::mpsc::channel();
        // Somebody writes all the while.
        let writing = talk.engine.pass(1);
        let worker = std::thread::spawn(move || {
            let mut out = Vec::new();
            run_job(&mut Core::new(engine, 0), &desk, &job, &mut out);
            tell.send(out).unwrap();
        });
        let reply = told.recv_timeout(std::time::Duration::from_secs(20));
        drop(writing);
        worker.join().unwrap();
        let reply = readable(&reply.expect("it waits for nobody"));
        assert!(reply.starts_with(&format!("*{} ", lines.len())) && !reply.contains("-ERR"), "{what}: {reply}");
    }
    // One that writes is alone, on a worker too, and is one: the watch and the user count when it runs.
    talk.check("WATCH f => +OK\nMULTI => +OK\nBF.ADD f v => +QUEUED\nBG.ESTIMATE f => +QUEUED");
    let job = exec(&mut talk).unwrap();
    talk.another().check("BF.ADD f other => :1");
    let mut out = Vec::new();
    run_job(&mut talk.core, &talk.desk, &job, &mut out);
    assert_eq!((readable(&out).as_str(), talk.say("BF.EXISTS f v").as_str()), ("*-1", ":0"));
    talk.check("MULTI => +OK\nBF.ADD f v => +QUEUED\nBG.ESTIMATE f => +QUEUED");
    assert!(talk.say("EXEC").starts_with("*2 :1 "));
    talk.check("BF.EXISTS f v => :1\nEXEC => -ERR EXEC without MULTI");
}

#[test]
fn a_transaction_has_a_price_and_a_limit() {
    let mut talk = Talk::new();
    talk.check("BF.ADD f x => :1\nMULTI => +OK");
    let line = format!("BF.MEXISTS f{}", " x".repeat(1_000));
    let refused = (0..1_000).map(|_| talk.say(&line)).find(|reply| reply != "+QUEUED").expect("a million items");
    assert!(refused.starts_with("-ERR a transaction holds up everybody") && refused.ends_with("split it"), "{refused}");
    assert!(talk.say("EXEC").starts_with("-EXECABORT"));
    // A long command costs what its filters have, when it is queued and when it runs.
    talk.check("BF.RESERVE big 0.01 20000000 => +OK\nMULTI => +OK");
    let queued = (0..100).take_while(|_| talk.say("BG.DIGEST big") == "+QUEUED").count();
    assert!((1..20).contains(&queued), "{queued} times 24 MB and more");
    talk.check("DISCARD => +OK\nRENAME big other => +OK\nBF.ADD big x => :1\nMULTI => +OK");
    (0..20).for_each(|_| assert_eq!(talk.say("BG.DIGEST big"), "+QUEUED"));
    talk.another().check("DEL big => :1\nRENAME other big => +OK");
    let reply = talk.say("EXEC");
    assert_eq!(reply.matches("-ERR not run: its filters have grown").count(), 20 - queued, "{reply}");
    // As many commands as there may be fit if they are short.
    talk.check("MULTI => +OK");
    let mut add = || talk.send(&[b"BF.ADD", b"f", b"x"]);
    assert!((0..100_000).all(|_| add() == b"+QUEUED\r\n"));
    assert!(talk.send(&[b"EXEC"]).starts_with(b"*100000\r\n:0\r\n"));
}

#[test]
fn watched_names_have_an_end() {
    let mut talk = Talk::new();
    let name = "n".repeat(400);
    let names: Vec<String> = (0..10_000).map(|number| format!("{name}{number}")).collect();
    let line = format!("WATCH {}", names.join(" "));
    let replies: Vec<String> = (0..10).map(|_| talk.say(&line)).collect();
    assert_eq!(replies[0], "+OK");
    assert!(replies[9].starts_with("-ERR a connection watches at most"), "{}", replies[9]);
    assert_eq!(talk.say("UNWATCH"), "+OK");
    assert_eq!(talk.say(&line), "+OK");
    // EXEC and DISCARD end the watch too.
    for end in ["EXEC", "DISCARD"] {
        for _ in 0..4 {
            assert_eq!((talk.say("MULTI"), talk.say(end).len()), ("+OK".to_owned(), if end == "EXEC" { 2 } else { 3 }));
            assert_eq!(talk.say(&line), "+OK", "after {end}");
        }
    }
}

/// They wait until nobody writes, and a transaction that asked for them would wait for itself, with all others.
#[test]
fn what_stops_everybody_is_no_part_of_a_transaction() {
    let mut talk = Talk::new();
    for command in ["SAVE", "BGSAVE", "BG.BACKUP monday", "SHUTDOWN", "BG.BUILD f FROM list.txt"] {
        assert_eq!(talk.say("MULTI"), "+OK");
        let refused = talk.say(command);
        assert!(refused.contains("is not allowed in transactions"), "{command}: {refused}");
        assert!(talk.say("EXEC").starts_with("-EXECABORT"), "{command}");
    }
    assert_eq!(
        (talk.say("MULTI"), talk.say("UNWATCH"), talk.say("EXEC")),
        ("+OK".into(), "+QUEUED".into(), "*1 +OK".into())
    );
}

#[test]
fn a_client_that_wants_no_replies_gets_none_from_long_commands_either() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BF.ADD f x"), ":1");
    assert_eq!(talk.say("CLIENT REPLY SKIP"), "");
    assert_eq!(talk.say("COPY f g"), "", "a command for a worker");
    assert_eq!(talk.say("EXISTS g"), ":1");
    assert_eq!(talk.say("CLIENT REPLY OFF"), "");
    assert_eq!(talk.say("COPY f h"), "");
    assert_eq!(talk.say("CLIENT REPLY ON"), "+OK");
    assert_eq!(talk.say("EXISTS h"), ":1");
}

#[test]
fn a_bare_ping_keeps_its_place_its_rules_and_its_turn() {
    let mut talk = Talk::new();
    // Among lookups of one batch, in whatever case, and not taken for a longer word.
    let lookup = "*3\r\n$9\r\nBF.EXISTS\r\n$1\r\nf\r\n$1\r\nx\r\n";
    assert_eq!(talk.say("BF.ADD f x"), ":1");
    let input = format!("{lookup}*1\r\n$4\r\nPiNg\r\n{lookup}*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n$5\r\nPINGS\r\n");
    let mut out = Vec::new();
    let turn = talk.session.turn(&mut talk.core, &talk.desk, input.as_bytes(), &mut out);
    talk.session.forget(turn.consumed);
    assert_eq!((turn.consumed, turn.replies), (input.len(), 5));
    assert!(readable(&out).starts_with(":1 +PONG :1 $2 hi -ERR unknown command"), "{}", readable(&out));
    assert_eq!((talk.say("MULTI"), talk.say("PING")), ("+OK".into(), "+QUEUED".into()));
    assert_eq!(talk.say("EXEC"), "*1 +PONG");
    assert_eq!((talk.say("CLIENT REPLY OFF"), talk.say("PING")), (String::new(), String::new()));
    assert_eq!((talk.say("CLIENT REPLY ON"), talk.say("PING")), ("+OK".into(), "+PONG".into()));
    // A flood of them ends its turn like anything else, so that other connections have theirs.
    let flood = "*1\r\n$4\r\nPING\r\n".repeat(10_000);
    let mut out = Vec::new();
    let turn = talk.session.turn(&mut talk.core, &talk.desk, flood.as_bytes(), &mut out);
    talk.session.forget(turn.consumed);
    assert_eq!(turn.next, Next::Again);
    assert_eq!((turn.consumed, turn.replies), (256 * 14, 256), "512 words with the counts of them");
    let stats = talk.say("INFO commandstats");
    let calls = format!("cmdstat_ping:calls={},", 3 + 1 + 1 + 256);
    assert!(stats.contains(&calls), "{calls} in {stats}");
}

#[test]
fn names_are_not_listed_all_at_once_if_they_take_too_much() {
    let mut talk = Talk::with(engine(8 << 20), desk());
    // 600 names of 1 KB, where a sixteenth of the memory is 512 KB.
    for number in 0..600 {
        assert_eq!(talk.say(&format!("BF.ADD {number:03}-{} x", "n".repeat(1_000))), ":1");
    }
    let refusal = talk.say("KEYS *");
    assert!(
        refusal.starts_with("-ERR the names that match") && refusal.ends_with("524288 bytes: use SCAN"),
        "{refusal}"
    );
    assert!(talk.say("KEYS 1*").starts_with("*100 "));
    let (mut cursor, mut seen) = ("0".to_owned(), 0);
    loop {
        let reply = talk.say(&format!("SCAN {cursor} COUNT 100"));
        seen += reply.matches("-n").count();
        cursor = reply.split(' ').nth(2).unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 600);
}
