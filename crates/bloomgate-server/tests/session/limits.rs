//! What clients cannot make the server do: promise what it refused, grow past its memory, pile up replies.

use std::time::Duration;

use bloomgate_server::engine::Core;
use bloomgate_server::session::{Job, Next, run_job};
use rustix::time::{ClockId, clock_gettime};

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

/// The most memory that this process ever had mapped, touched or not.
fn most_mapped() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A filter that is too large is refused before any memory is asked for: by its capacity if nobody could have it, by the budget
/// if this server cannot. One that was mapped and given back would show in the peak, which tests of other processes do not touch.
#[test]
fn a_filter_that_is_too_large_is_refused_before_memory_is_asked_for() {
    let mut talk = Talk::with(engine(256 << 20), desk());
    assert_eq!(talk.say("BF.RESERVE small 0.01 100"), "+OK");
    let (used, mapped) = (talk.engine.budget.used(), most_mapped());
    for _ in 0..200 {
        for (command, why) in [
            // 1.2 TB.
            ("BF.RESERVE x 0.01 1000000000000", "apacity"),
            ("CF.RESERVE x 1000000000000", "apacity"),
            // 1.3 GB, which other servers have.
            ("BF.RESERVE x 0.01 1000000000", "Insufficient memory to create filter: it needs"),
            ("BF.RESERVE x 0.01 1073741824 NONSCALING", "left under"),
            ("CF.RESERVE x 1000000000", "Insufficient memory"),
            ("BG.CREATE x KIND blocked CAPACITY 1000000000000", "-ERR"),
            ("BF.INSERT x CAPACITY 1000000000 ITEMS a", "Insufficient memory"),
        ] {
            let reply = talk.say(command);
            assert!(reply.starts_with('-') && reply.contains(why), "{command}: {reply}");
        }
    }
    assert_eq!(talk.engine.budget.used(), used, "nothing stays charged");
    let more = most_mapped() - mapped;
    assert!(more < 32 << 20, "{more} bytes were mapped on the way");
    assert_eq!((talk.say("DBSIZE"), talk.say("BF.ADD small a")), (":1".to_owned(), ":1".to_owned()));
}

/// The time that this thread has had of its core: what others do meanwhile does not count.
fn worked() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Whoever asks for what nobody can have costs nobody time. What other servers may have is refused by a worker, which works out
/// what would fit here: 0.5 ms without optimisation.
#[test]
fn a_filter_that_is_too_large_is_refused_in_microseconds_with_what_would_be_allowed() {
    let mut talk = Talk::with(engine(256 << 20), desk());
    let nobodys = ["must be in the range [1, 1073741824]", "for up to 2^40 items"];
    let others = ["bytes and 268435456 are left under", "would fit: ask for less, or raise it"];
    for (capacity, allowed, micros) in [(1_000_000_000_000_u64, nobodys, 100), (1_000_000_000, others, 2_000)] {
        let mut took: Vec<Duration> = (0..1_001)
            .map(|_| {
                let before = worked();
                let reply = talk.say(&format!("BF.RESERVE x 0.01 {capacity}"));
                let took = worked() - before;
                assert!(reply.starts_with("-ERR") && allowed.iter().all(|words| reply.contains(words)), "{reply}");
                took
            })
            .collect();
        took.sort();
        let median = took[took.len() / 2];
        assert!(median < Duration::from_micros(micros), "{capacity}: {median:?}");
    }
    assert_eq!((talk.say("DBSIZE"), talk.engine.budget.used()), (":0".to_owned(), 0));
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

/// A pattern that nearly fits everywhere is tried at every byte of a name: a call gives its cursor back before that takes
/// long, and still sees every name once.
#[test]
fn a_scan_takes_so_many_steps_and_goes_on_where_it_was() {
    let mut talk = Talk::new();
    for number in 0..50 {
        assert_eq!(talk.say(&format!("BF.ADD {}{number:02} x", "a".repeat(4_000))), ":1");
    }
    assert_eq!(talk.say("BF.ADD short x"), ":1");
    let worst = format!("*{}b", "a".repeat(250));
    let (mut cursor, mut calls) = ("0".to_owned(), 0);
    loop {
        let reply = talk.say(&format!("SCAN {cursor} MATCH {worst} COUNT 10000"));
        assert!(reply.ends_with("*0"), "{reply}");
        cursor = reply.split(' ').nth(2).unwrap().to_owned();
        calls += 1;
        if cursor == "0" {
            break;
        }
    }
    assert!((25..=51).contains(&calls), "two names of a million steps each are enough for a call: {calls}");
    // What is easily decided is decided in one call, as before.
    assert_eq!(talk.say("SCAN 0 MATCH s* COUNT 100"), "*2 $1 0 *1 $5 short");
    let (mut cursor, mut seen) = ("0".to_owned(), 0);
    loop {
        let reply = talk.say(&format!("SCAN {cursor} COUNT 3 MATCH *a*"));
        seen += reply.matches("aaaa").count().min(1) * reply.matches("$4002").count();
        cursor = reply.split(' ').nth(2).unwrap().to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen, 50);
}

#[test]
fn patterns_have_a_length() {
    let mut talk = Talk::new();
    let long = "a".repeat(257);
    for line in [
        format!("SCAN 0 MATCH {long}"),
        format!("KEYS {long}"),
        format!("CONFIG GET x {long}"),
        format!("COMMAND LIST FILTERBY PATTERN {long}"),
    ] {
        assert_eq!(talk.say(&line), "-ERR pattern is 257 bytes, at most 256 are allowed: use a shorter one", "{line}");
    }
}

/// What takes long ends its turn, so that a pipeline of it holds up nobody for longer than one of them does.
#[test]
fn a_command_that_took_long_is_the_last_of_its_turn() {
    let mut talk = Talk::new();
    for number in 0..900 {
        assert_eq!(talk.say(&format!("BF.ADD {number} x")), ":1");
    }
    let pipeline = "*4\r\n$4\r\nSCAN\r\n$1\r\n0\r\n$5\r\nCOUNT\r\n$3\r\n900\r\n".repeat(3);
    let mut out = Vec::new();
    let turn = talk.session.turn(&mut talk.core, &talk.desk, pipeline.as_bytes(), &mut out);
    talk.session.forget(turn.consumed);
    assert_eq!((turn.next, turn.consumed, turn.replies), (Next::Again, pipeline.len() / 3, 1));
}

/// A name takes 12 bytes to send, and what it asks for kilobytes.
#[test]
fn a_request_that_asks_for_the_same_again_and_again_gets_little() {
    let mut talk = Talk::new();
    for line in ["COMMAND DOCS", "COMMAND INFO"] {
        let refusal = talk.say(&format!("{line} {}", vec!["client"; 100_000].join(" ")));
        assert!(refusal.starts_with("-ERR 100000 commands were asked for, and there are "), "{refusal}");
    }
    let (once, often) = (talk.say("COMMAND DOCS client"), talk.say("COMMAND DOCS client CLIENT client nobody"));
    assert_eq!(once, often);
    assert_eq!(talk.say("COMMAND INFO ping ping nobody").matches("$4 ping").count(), 2);
    for line in ["CONFIG GET", "INFO", "LATENCY HISTOGRAM", "LATENCY RESET", "ACL SETUSER somebody", "CLIENT LIST ID"] {
        let refusal = talk.say(&format!("{line} {}", ["7"; 257].join(" ")));
        assert!(refusal.contains("256") && refusal.contains("at most, not 257"), "{line}: {refusal}");
    }
    assert!(
        talk.say(&format!("COMMAND GETKEYS DEL{}", " x".repeat(2_000))).starts_with("-ERR the command has 2001 words")
    );
}

#[test]
fn the_reply_to_any_command_has_a_size() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("CONFIG SET output-limit 1MiB"), "+OK");
    let message = vec![b'm'; 2 << 20];
    let refusal = readable(&talk.send(&[b"ECHO", &message]));
    assert_eq!(
        refusal,
        "-ERR the reply takes 2097164 bytes, of 1048576 that one may take: ask for less at once, or raise output-limit"
    );
    // By a worker, too.
    assert_eq!(talk.say("BF.RESERVE f 0.01 1000000"), "+OK");
    assert!(talk.say("BG.DUMP f").starts_with("-ERR the reply takes "));
    assert_eq!(talk.say("CONFIG SET output-limit 64MiB"), "+OK");
    assert_eq!(talk.send(&[b"ECHO", &message]).len(), 2_097_164);
    assert!(talk.send(&[b"BG.DUMP", b"f"]).starts_with(b"*2\r\n"));
}

/// Each of a million refused items has an answer, which must not be a page.
#[test]
fn items_that_are_refused_by_the_thousand_are_told_in_few_words() {
    let mut talk = Talk::new();
    assert_eq!(talk.say("BG.CREATE f KIND cuckoo CAPACITY 1000 RATE 0.01"), "+OK");
    let reply = talk.say(&format!("BG.ADD f{}", " x".repeat(4_000)));
    assert!(reply.starts_with("*4000 :1 :0 :0 "), "{}", &reply[..200]);
    let in_full = "-ERR the filter holds 8 copies of this item, the most that it can remove again one by one; nothing was \
                   changed: remove one first, or use a counting filter";
    assert_eq!(reply.matches(in_full).count(), 100);
    assert_eq!(reply.matches(" -ERR the filter holds too many copies of this item").count(), 4_000 - 8 - 100);
    assert!(reply.len() < 250_000, "{}", reply.len());
}

/// What a command is for a connection: a worker's job, or answered in its turn.
fn is_a_workers(talk: &mut Talk, words: &[&str]) -> (bool, String) {
    let mut input = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| input += &format!("${}\r\n{word}\r\n", word.len()));
    let mut out = Vec::new();
    let turn = talk.session.turn(&mut talk.core, &talk.desk, input.as_bytes(), &mut out);
    assert_eq!(turn.consumed, input.len());
    talk.session.forget(turn.consumed);
    let Next::Job(job) = turn.next else { return (false, readable(&out)) };
    run_job(&mut talk.core, &talk.desk, &job, &mut out);
    (true, readable(&out))
}

#[test]
fn a_command_of_very_many_items_or_names_is_a_workers_and_answers_as_ever() {
    let mut talk = Talk::new();
    talk.check(
        "BG.CREATE f KIND scalable CAPACITY 20000 RATE 0.0000001 => +OK
         BG.CREATE c KIND cuckoo CAPACITY 20000 RATE 0.0000001 => +OK",
    );
    let items: Vec<String> = (0..5_000).map(|item| format!("i{item}")).collect();
    let long = "l".repeat(60_000);
    let cases: [(&str, usize, &str); 12] = [
        ("BF.MADD f", 5_000, ":1"),
        ("BF.MEXISTS f", 5_000, ":1"),
        ("BF.INSERT f ITEMS", 5_000, ":0"),
        ("BF.MEXISTS nobody", 5_000, ":0"),
        ("CF.INSERT c ITEMS", 5_000, ":1"),
        ("CF.MEXISTS c", 5_000, ":1"),
        ("BG.ADD c", 5_000, ":0"),
        ("BG.EXISTS c", 5_000, ":1"),
        ("BG.COUNT c", 5_000, ":2"),
        ("BG.REMOVE c ITEMS", 5_000, ":1"),
        ("BG.REMOVE c REQUEST 7 ITEMS", 5_000, ":1"),
        ("BG.REMOVE c REQUEST 7 ITEMS", 5_000, ":1"),
    ];
    for (head, count, each) in cases {
        let words: Vec<&str> = head.split(' ').chain(items.iter().map(|item| &**item)).collect();
        let expected = format!("*{count}{}", format!(" {each}").repeat(count));
        assert_eq!(is_a_workers(&mut talk, &words), (true, expected), "{head}");
        let few: Vec<&str> = head.split(' ').chain(["another"; 100]).collect();
        assert!(!is_a_workers(&mut talk, &few).0, "{head}");
    }
    // A few items can be as much work: by their bytes.
    let words: Vec<&str> = ["BF.MADD", "f"].into_iter().chain([&*long; 5]).collect();
    assert_eq!(is_a_workers(&mut talk, &words), (true, "*5 :1 :0 :0 :0 :0".to_owned()));
    assert_eq!(is_a_workers(&mut talk, &words[..5]), (false, "*3 :0 :0 :0".to_owned()));
    // Names are counted together.
    let names: Vec<String> = (0..300).map(|name| format!("n{name}")).collect();
    names.iter().for_each(|name| assert_eq!(talk.say(&format!("BF.ADD {name} x")), ":1"));
    for (command, expected) in [("EXISTS", ":301"), ("TOUCH", ":301"), ("DEL", ":300"), ("UNLINK", ":0")] {
        let words: Vec<&str> = [command, "n0"].into_iter().chain(names.iter().map(|name| &**name)).collect();
        assert_eq!(is_a_workers(&mut talk, &words), (true, expected.to_owned()), "{command}");
    }
    // In a transaction it is as long as the transaction may be.
    talk.check("MULTI => +OK");
    let words: Vec<&str> = ["BF.MEXISTS", "f"].into_iter().chain(items.iter().map(|item| &**item)).collect();
    assert_eq!(is_a_workers(&mut talk, &words), (false, "+QUEUED".to_owned()));
}

/// Refusals come for the whole command, or for each item: never half a reply.
#[test]
fn a_command_in_pieces_is_refused_as_one() {
    let mut talk = Talk::new();
    let items = " x".repeat(5_000);
    assert_eq!(talk.say("CF.ADD c x"), ":1");
    assert!(talk.say(&format!("BF.MADD c{items}")).starts_with("-WRONGTYPE"));
    assert_eq!(talk.say(&format!("BG.ADD nobody{items}")), "-ERR not found");
    assert_eq!(talk.say("BG.CREATE full KIND classic CAPACITY 700 RATE 0.01 ONFULL refuse"), "+OK");
    let items: String = (0..5_000).map(|item| format!(" i{item}")).collect();
    let reply = talk.say(&format!("BG.ADD full{items}"));
    let (new, known) = (reply.matches(":1").count(), reply.matches(":0").count());
    assert_eq!(new, 700);
    let in_full =
        reply.matches("-ERR the filter is full: it holds the 700 items it was made for, and refuses more").count();
    let short = reply.matches("-ERR the filter is full").count() - in_full;
    assert!(in_full <= 100 && new + known + in_full + short == 5_000, "{new} {known} {in_full} {short}");
    assert_eq!(talk.say("SLOWLOG RESET"), "+OK");
    let stats = talk.say("INFO commandstats");
    assert!(stats.contains("cmdstat_bg.add:calls=2,"), "each is one call: {stats}");
}

/// A refusal says what was asked for, what is left under which limit, and what would fit; to a tenant, who can raise it.
#[test]
fn growth_that_is_refused_says_what_would_fit() {
    let mut talk = Talk::with(engine(100_000), desk());
    talk.check(
        "BG.NAMESPACE SET a PREFIX a: MAXMEMORY 30000 => +OK
         ACL SETUSER ann on nopass +@all namespace=a => +OK",
    );
    let mut ann = talk.another();
    ann.check(
        "AUTH ann p => +OK
         BF.RESERVE f 0.01 5000 => +OK
         BG.CREATE s KIND scalable CAPACITY 5000 RATE 0.01 => +OK",
    );
    talk.check("BF.RESERVE big 0.01 20000 EXPANSION 8 => +OK");
    let items: String = (0..30_000).map(|item| format!(" i{item}")).collect();
    let figures = |reply: &str, head: &str| -> (u64, u64, u64) {
        let at = reply.find(head).unwrap_or_else(|| panic!("{head}: {:.200}", reply)) + head.len();
        let numbers = reply[at..].split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        let numbers: Vec<u64> = numbers.take(3).collect();
        (numbers[0], numbers[1], numbers[2])
    };
    let growing = "-ERR problem inserting into filter: to grow it needs ";
    let cases = [
        (false, "BF.MADD big", growing, "max-filter-memory", "raise it"),
        (true, "BF.MADD f", growing, "MAXMEMORY of the namespace 'a'", "ask whoever runs the server to raise it"),
        (
            true,
            "BG.ADD s",
            "-ERR the filter is full and there is no memory for it to grow: to grow it needs ",
            "MAXMEMORY of the namespace 'a'",
            "ask whoever runs the server to raise it",
        ),
    ];
    for (is_anns, command, head, limit, raise) in cases {
        let client = if is_anns { &mut ann } else { &mut talk };
        let reply = client.say(&format!("{command}{items}"));
        let (wanted, left, fits) = figures(&reply, head);
        let whole = format!(
            "{head}{wanted} bytes and {left} are left under {limit}; a new filter for {fits} items would fit: add to that, or {raise}"
        );
        assert!(
            reply.starts_with("*30000 ") && reply.contains(&whole),
            "{whole}: {:.600}",
            &reply[reply.find('-').unwrap()..]
        );
        assert!(wanted > left, "{command}: {wanted} {left}");
        // What was said to fit does, and a few hundredths more would not.
        let reserve = |items: u64| format!("BF.RESERVE beside 0.01 {items}");
        assert!(client.say(&reserve(fits * 6 / 5)).starts_with("-ERR Insufficient memory"), "{command}: {fits}");
        assert_eq!(client.say(&reserve(fits)), "+OK", "{command}: {fits}");
        assert_eq!(client.say("DEL beside"), ":1");
        assert!(reply.matches(head).count() <= 100, "the others in few words");
    }
}

/// What looks at many names costs a transaction by them: everybody who writes waits for it.
#[test]
fn a_transaction_pays_for_the_names_it_looks_at() {
    let mut talk = Talk::new();
    talk.check("MULTI => +OK");
    let line = "SCAN 0 COUNT 10000";
    let taken = (0..10).take_while(|_| talk.say(line) == "+QUEUED").count();
    assert_eq!(taken, 4, "100,000 each, of 500,000");
    assert!(talk.say(line).starts_with("-ERR a transaction holds up everybody who writes"));
    talk.check("EXEC => -EXECABORT Transaction discarded because of previous errors.");
}
