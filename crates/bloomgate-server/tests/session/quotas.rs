//! What one tenant cannot take from the others, nor one connection of it from the rest.

use bloomgate_server::session::{Next, run_job};

use super::talk::{NOW_MS, Talk};

/// A server with a tenant that may have a thousand items a second, and a user of all roles in it, password "p".
fn one() -> Talk {
    let mut talk = Talk::new();
    talk.check(
        "BG.NAMESPACE SET a PREFIX a: ITEMSPERSECOND 1000 => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK",
    );
    talk
}

fn ann(talk: &Talk) -> Talk {
    let mut ann = talk.another();
    ann.check("AUTH ann p => +OK");
    ann
}

fn many(command: &str, count: usize) -> String {
    let items: String = (0..count).map(|at| format!(" i{at}")).collect();
    format!("{command}{items}\r\n")
}

/// One turn on a line: whether it was taken, how long to wait in milliseconds, what was answered.
fn turn(talk: &mut Talk, line: &str) -> (bool, u64, String) {
    let mut out = Vec::new();
    let words: Vec<&str> = line.trim_end().split(' ').collect();
    let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    let input = format!("*{}\r\n{bulks}", words.len());
    let turn = talk.session.turn(&mut talk.core, &talk.desk, input.as_bytes(), &mut out);
    talk.session.forget(turn.consumed);
    if let Next::Job(job) = turn.next {
        run_job(&mut talk.core, &talk.desk, &job, &mut out);
    }
    (turn.consumed > 0, turn.pause.as_millis() as u64, super::talk::readable(&out))
}

#[test]
fn one_namespace_leaves_half_of_the_connections_to_others() {
    let root = one();
    root.another().check("CONFIG SET max-clients 8 => +OK");
    let mut theirs: Vec<Talk> = (0..4).map(|_| ann(&root)).collect();
    let mut fifth = root.another();
    fifth.check(
        "AUTH ann p => -ERR the namespace 'a' has 4 connections, the most that one may have (half of max-clients): close some
         PING => +PONG",
    );
    // The same user again is no other connection, and one that goes makes room.
    theirs[0].check("AUTH ann p => +OK");
    let gone = theirs.pop().unwrap();
    gone.desk.goodbye(&gone.session.client);
    fifth.check("AUTH ann p => +OK");
    root.another().check("AUTH ann p => -ERR the namespace 'a' has 4 connections, the most that one may have (half of max-clients): close some");
}

#[test]
fn a_new_connection_waits_behind_those_before_it() {
    let root = one();
    let line = many("BF.MADD f", 500);
    let mut late = ann(&root);
    let taken = (0..40).filter(|_| turn(&mut ann(&root), &line).0).count();
    // 512 at once, and two seconds' worth ahead.
    assert_eq!(taken, 5);
    let told = root.engine.namespaces.tell("a").unwrap();
    assert_eq!(told.counts.adds, 2_500);
    assert_eq!(turn(&mut late, "BF.EXISTS f i1\r\n"), (false, 1, String::new()));
    root.engine.clock.set(NOW_MS + 1);
    assert_eq!(turn(&mut late, "BF.EXISTS f i1\r\n"), (true, 1_000, ":1".to_owned()));
    // Over any time no more than the limit, however many come.
    for second in 1..=20 {
        root.engine.clock.set(NOW_MS + second * 1_000);
        (0..10).for_each(|_| drop(turn(&mut ann(&root), &line)));
    }
    let told = root.engine.namespaces.tell("a").unwrap();
    assert!((18_000..=22_512).contains(&(told.counts.adds + told.counts.lookups)), "{told:?}");
}

/// Neither a request that is too large nor one whose client goes away makes a namespace wait for longer than two seconds.
#[test]
fn one_request_does_not_use_up_a_namespace() {
    let root = one();
    let large = many("BF.MADD f", 20_000);
    assert_eq!(turn(&mut ann(&root), &large), (false, 1_000, String::new()));
    root.engine.clock.set(NOW_MS + 2_000);
    assert_eq!(turn(&mut ann(&root), "BF.EXISTS f i1\r\n"), (true, 1, ":0".to_owned()));
    let (taken, _, reply) = turn(&mut ann(&root), &many("BF.MADD f", 30_001));
    assert!(taken, "it is answered at once");
    assert_eq!(
        reply,
        "-ERR the command costs 30001 items (1 each, 1 more for each 256 bytes), and the namespace 'a' may have 1000 a second: send \
         at most 30000 at once, or ask whoever runs the server to raise it"
    );
    // One that stays is served in its time, and everybody else beside it.
    let (mut patient, mut other) = (ann(&root), ann(&root));
    let mut seconds = 2;
    loop {
        root.engine.clock.set(NOW_MS + seconds * 1_000);
        let (taken, _, reply) = turn(&mut patient, &large);
        if taken {
            assert!(reply.starts_with("*20000 :1 "));
            break;
        }
        root.engine.clock.set(NOW_MS + seconds * 1_000 + 10);
        let (taken, _, reply) = turn(&mut other, "BF.MEXISTS f i1 i2\r\n");
        assert!(!taken || reply == "*2 :0 :0", "{reply}");
        seconds += 1;
    }
    assert!((20..=23).contains(&seconds), "{seconds} seconds");
    let told = root.engine.namespaces.tell("a").unwrap();
    assert!(told.counts.lookups >= 10, "the other one got {} items", told.counts.lookups);
}

#[test]
fn who_waits_in_vain_is_told_so() {
    let root = one();
    let (mut greedy, mut waits) = (ann(&root), ann(&root));
    let (line, mut second) = (many("BF.MADD f", 10_000), 0);
    let reply = loop {
        root.engine.clock.set(NOW_MS + second * 1_000);
        // Somebody takes all that there is before it has its turn.
        while turn(&mut greedy, &many("BF.MADD g", 100)).0 {
            greedy = ann(&root);
        }
        greedy = ann(&root);
        let (taken, _, reply) = turn(&mut waits, &line);
        if taken {
            break reply;
        }
        second += 1;
        assert!(second < 100);
    };
    assert!(
        reply.starts_with(
            "-ERR the namespace 'a' may have 1000 items a second, and the 10000 that this command costs were not there"
        ),
        "{reply}"
    );
    assert!((60..=63).contains(&second), "{second}");
    // It does not wait any more, and nothing of it is left.
    assert_eq!(turn(&mut waits, "PING\r\n").2, "+PONG");
}

/// What cannot wait once it runs has its items paid for before, once.
#[test]
fn transactions_and_workers_are_paid_for_before_they_run() {
    // EXEC costs 10 by itself: nobody writes meanwhile.
    for (begin, run, itself) in [
        (vec!["MULTI\r\n".to_owned(), many("BF.MADD f", 4_000)], "EXEC\r\n".to_owned(), 10),
        (vec![], many("BF.INSERT f CAPACITY 5000000 ITEMS", 4_000), 0),
    ] {
        let root = one();
        let mut ann_ = ann(&root);
        for line in &begin {
            assert!(turn(&mut ann_, line).0);
        }
        assert_eq!(turn(&mut ann_, &run), (false, 1_000, String::new()));
        root.engine.clock.set(NOW_MS + 1_000);
        assert_eq!(turn(&mut ann_, &run), (false, 488 + itself, String::new()));
        root.engine.clock.set(NOW_MS + 1_488 + itself);
        let (taken, pause, reply) = turn(&mut ann_, &run);
        assert!(taken && pause == 1_000 && reply.contains("*4000 :1 :1"), "{pause} {:.40}", reply);
        // Until then, and not for longer: nothing was paid for twice.
        root.engine.clock.set(NOW_MS + 3_488 + itself);
        assert_eq!(turn(&mut ann_, "PING\r\n").2, "+PONG");
        assert_eq!(turn(&mut ann(&root), "BF.EXISTS f x\r\n").1, 1);
    }
    let root = one();
    let mut large = ann(&root);
    assert!(turn(&mut large, "MULTI\r\n").0 && turn(&mut large, &many("BF.MADD f", 20_000)).0);
    assert!(turn(&mut large, &many("BF.MADD f", 20_000)).0);
    assert!(turn(&mut large, "EXEC\r\n").2.starts_with("-ERR the command costs 40010 items"));
    assert!(turn(&mut large, "EXEC\r\n").2.starts_with("-ERR EXEC without MULTI"));
}

/// Items cost the same whatever is found, and whatever was answered before.
#[test]
fn what_comes_to_nothing_is_paid_for_too() {
    let root = one();
    let mut first = ann(&root);
    first.check(
        "BG.CREATE q KIND quotient CAPACITY 1000 => +OK
         BG.CREATE b KIND blocked CAPACITY 1000 => +OK",
    );
    root.engine.clock.set(NOW_MS + 1_000);
    assert_eq!(turn(&mut first, &many("BG.ADD b", 512)).1, 0);
    let mut owed = 0;
    for (line, items) in [
        ("BG.REMOVE q ITEMS x y z", 3),
        ("BG.REMOVE q REQUEST r1 ITEMS x y z", 3),
        ("BG.REMOVE q REQUEST r1 ITEMS x y z", 3),
        ("BG.FEEDBACK b x y", 2),
        ("BG.COUNT none x y z", 3),
        ("CF.COUNT none x", 1),
        ("CF.EXISTS none x", 1),
        ("BG.EXISTS none x y", 2),
    ] {
        owed += items;
        let (taken, pause, reply) = turn(&mut ann(&root), &format!("{line}\r\n"));
        assert!(taken && !reply.starts_with('-'), "{line}: {reply}");
        assert_eq!(pause, owed, "{line}");
    }
}

/// A server with two tenants that may have so much memory, and a user of all roles in each.
fn two(max_memory: u64) -> (Talk, Talk, Talk) {
    let mut root = Talk::new();
    for (space, user) in [("a", "ann"), ("b", "bob")] {
        assert_eq!(root.say(&format!("BG.NAMESPACE SET {space} PREFIX {space}: MAXMEMORY {max_memory}")), "+OK");
        assert_eq!(root.say(&format!("ACL SETUSER {user} on >p +@all namespace={space}")), "+OK");
    }
    let (mut ann, mut bob) = (root.another(), root.another());
    ann.check("AUTH ann p => +OK");
    bob.check("AUTH bob p => +OK");
    (root, ann, bob)
}

/// The next iterator and the bytes of a chunk.
fn scan(talk: &mut Talk, name: &str, iterator: &str) -> (String, Vec<u8>) {
    let reply = talk.send(&[b"BF.SCANDUMP", name.as_bytes(), iterator.as_bytes()]);
    let mut lines = reply.splitn(4, |&byte| byte == b'\n');
    assert_eq!(lines.next(), Some(&b"*2\r"[..]), "{}", super::talk::readable(&reply));
    let next = String::from_utf8_lossy(lines.next().unwrap()).trim_end().trim_start_matches(':').to_owned();
    lines.next();
    let data = lines.next().unwrap();
    (next, data[..data.len() - 2].to_vec())
}

fn load(talk: &mut Talk, name: &str, (iterator, data): &(String, Vec<u8>)) -> String {
    super::talk::readable(&talk.send(&[b"BF.LOADCHUNK", name.as_bytes(), iterator.as_bytes(), data]))
}

/// What is announced and what was given out counts for the namespace, and makes place for filters.
#[test]
fn loads_and_files_are_charged_to_their_namespace() {
    let most = 3_000_000;
    let (root, mut ann, _) = two(most);
    ann.check("BF.RESERVE f 0.01 400000 => +OK");
    let size = root.engine.namespaces.tell("a").unwrap().used;
    assert!(size > 500_000 && size < 900_000, "{size}");
    let used = || root.engine.namespaces.tell("a").unwrap().used;
    let header = scan(&mut ann, "f", "0");
    let mut begun = 0;
    let refused = loop {
        let reply = load(&mut ann, &format!("copy{begun}"), &header);
        if reply != "+OK" {
            break reply;
        }
        begun += 1;
    };
    assert!(refused.contains("MAXMEMORY of the namespace 'a'"), "{refused}");
    assert!((3..=4).contains(&begun), "{begun} of {size} bytes");
    assert!(used() <= most && used() > most - size);
    // One that becomes whole is the filter alone, and those that nobody goes on with go.
    root.engine.clock.set(NOW_MS + 59_000);
    let mut chunk = scan(&mut ann, "f", &header.0);
    loop {
        assert_eq!(load(&mut ann, "copy0", &chunk), "+OK");
        let next = chunk.0.clone();
        chunk = scan(&mut ann, "f", &next);
        if chunk.0 == "0" {
            break;
        }
    }
    root.engine.clock.set(NOW_MS + 61_000);
    root.engine.drop_abandoned();
    assert_eq!(ann.say("DBSIZE"), ":2");
    assert!(used().abs_diff(2 * size) < 10_000, "{} {size}", used());
    ann.check("DEL copy0 => :1");
    // Files that were given out take what is left, and no more.
    for file in 0..6 {
        ann.say(&format!("BF.ADD f {file}"));
        assert!(ann.send(&[b"BG.DUMP", b"f"]).starts_with(b"*2\r\n$64\r\n"));
        assert!(used() <= most);
    }
    assert!(used() > 2 * size && root.engine.budget.used() <= most, "{} {}", used(), root.engine.budget.used());
    // A filter is worth more than they are.
    for name in ["g", "h"] {
        assert_eq!(ann.say(&format!("BF.RESERVE {name} 0.01 400000")), "+OK");
    }
    assert!(used() <= most && root.engine.budget.used() <= most);
}

/// Whoever has all its places taken makes nobody else wait, and keeps none of them by saying the same again.
#[test]
fn each_namespace_has_places_of_its_own_for_loads_and_dumps() {
    let (root, mut ann, mut bob) = two(50_000_000);
    for one in [&mut ann, &mut bob] {
        one.check("BF.RESERVE f 0.01 1000 => +OK");
    }
    let header = scan(&mut ann, "f", "0");
    for at in 0..16 {
        assert_eq!(load(&mut ann, &format!("copy{at}"), &header), "+OK");
    }
    (1..16).for_each(|_| drop(scan(&mut ann, "f", "0")));
    assert!(load(&mut ann, "copy16", &header).contains("16 filters are being loaded"));
    assert!(ann.say("BF.SCANDUMP f 0").contains("16 dumps are being fetched"));
    let bobs = scan(&mut bob, "f", "0");
    assert_eq!(load(&mut bob, "copy", &bobs), "+OK");
    let mut root_ = root.another();
    root_.check("BF.RESERVE f 0.01 1000 => +OK");
    let roots = scan(&mut root_, "f", "0");
    assert_eq!(load(&mut root_, "copy", &roots), "+OK");
    // The header again, and the same chunk again, bring nothing new.
    for second in 1..=5 {
        root.engine.clock.set(NOW_MS + second * 1_000);
        (0..16).for_each(|at| drop(load(&mut ann, &format!("copy{at}"), &header)));
    }
    assert_eq!(load(&mut ann, "copy16", &header), "+OK");
    scan(&mut ann, "f", "0");
}

/// The dumps of a namespace that are being fetched take no more than its filters may.
#[test]
fn dumps_have_a_size_in_all() {
    let (root, mut ann, _) = two(1_500_000);
    ann.check("BF.RESERVE f 0.01 400000 => +OK");
    let first = scan(&mut ann, "f", "0");
    scan(&mut ann, "f", "0");
    let refused = ann.say("BF.SCANDUMP f 0");
    assert!(refused.contains("those of a namespace take 1500000 at most"), "{refused}");
    assert!(root.engine.budget.used() < 2_500_000);
    // Whoever stands still makes place.
    root.engine.clock.set(NOW_MS + 5_000);
    scan(&mut ann, "f", "0");
    assert!(ann.say(&format!("BF.SCANDUMP f {}", first.0)).contains("start again from 0"));
}

/// What one tenant finds out about its own filters says nothing about those of another, and its dumps are its own.
#[test]
fn tenants_have_no_secret_in_common() {
    let (root, mut ann, mut bob) = two(50_000_000);
    let mut root = root.another();
    for one in [&mut ann, &mut bob, &mut root] {
        one.check(
            "BF.ADD f x => :1
             CF.ADD c x => :1
             BG.CREATE d KIND blocked CAPACITY 1000 => +OK
             BG.CREATE e KIND blocked CAPACITY 1000 CONTRACT orders => +OK
             BG.CREATE l LIKE e => +OK",
        );
    }
    for (filter, contract) in [("f", "default"), ("c", "default"), ("d", "default"), ("e", "orders"), ("l", "orders")] {
        let line = format!("BG.INFO {filter} secret_id");
        let ids = [ann.say(&line), bob.say(&line), root.say(&line)];
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{filter}: {ids:?}");
        // Names of contracts are relative, as those of filters are.
        for one in [&mut ann, &mut bob, &mut root] {
            let shown = one.say(&format!("BG.INFO {filter} contract_name"));
            assert!(shown.ends_with(contract) && !shown.contains('/'), "{shown}");
        }
    }
    let own = root.say("BG.INFO a:e contract_name");
    assert!(own.ends_with("a/orders"), "{own}");
    for (name, from) in [("f", "a"), ("e", "a")] {
        let dumped = scan(&mut ann, name, "0");
        let refused = load(&mut bob, "stolen", &dumped);
        assert!(
            refused.contains("which is not of this namespace") && refused.contains(&format!("'/{from}/")),
            "{refused}"
        );
        assert_eq!(load(&mut ann, "copy", &dumped), "+OK");
        assert_eq!(load(&mut root, "copy", &dumped), "+OK", "who has all names may move it");
        root.engine.clock.set(root.engine.clock.now_ms() + 61_000);
        root.engine.drop_abandoned();
    }
    // Of before: what unbound users made keeps its secret until it is rekeyed, and then it is the tenant's own.
    root.check("BF.ADD a:old x => :1");
    assert!(ann.say("BG.INFO old contract_name").ends_with("/default"));
    let dumped = scan(&mut ann, "old", "0");
    assert!(load(&mut ann, "again", &dumped).contains("which is not of this namespace"));
    ann.check(
        "BG.REKEY old START => +OK
         BG.FEED old x => :1
         BG.REKEY old FINISH => +OK
         BF.EXISTS old x => :1",
    );
    assert_eq!(ann.say("BG.INFO old contract_name"), "$7 default");
    assert_eq!(ann.say("BG.INFO old secret_id"), ann.say("BG.INFO f secret_id"));
    // One tenant's new secret is none of the others'.
    let epoch = |talk: &mut Talk, name: &str| {
        assert_eq!(talk.say(&format!("BG.CREATE {name} KIND blocked CAPACITY 10")), "+OK");
        talk.say(&format!("BG.INFO {name} secret_epoch"))
    };
    ann.check("BG.REKEY d START => +OK");
    assert_eq!(epoch(&mut ann, "during"), ":1");
    ann.check("BG.REKEY d ABORT => +OK");
    assert_eq!(epoch(&mut ann, "aborted"), ":1");
    ann.check(
        "BG.REKEY d START => +OK
         BG.REKEY d FINISH => +OK",
    );
    assert_eq!([epoch(&mut ann, "after"), epoch(&mut bob, "after"), epoch(&mut root, "after")], [":2", ":1", ":1"]);
}

#[test]
fn contracts_without_filters_make_place_and_others_have_an_end() {
    let (root, mut ann, mut bob) = two(50_000_000);
    // Far more than may be, none of which is needed.
    for number in 0..2_500 {
        ann.check(&format!("BG.CREATE f KIND blocked CAPACITY 10 CONTRACT c{number} => +OK\nDEL f => :1"));
    }
    assert!(root.engine.contracts.all().len() <= 1_001, "{}", root.engine.contracts.all().len());
    root.engine.drop_unused_contracts();
    assert!(root.engine.contracts.all().len() <= 1);
    let mut root = root.another();
    root.check("BG.NAMESPACE SET a MAXMEMORY 0 => +OK");
    let reply = (0..1_001)
        .map(|number| ann.say(&format!("BG.CREATE f{number} KIND blocked CAPACITY 10 CONTRACT c{number}")))
        .find(|reply| reply != "+OK")
        .unwrap();
    // The engine of these tests has 1,000 filters at most, and the namespace as many contracts.
    assert!(reply.contains("1000 filters") || reply.contains("1000 contracts"), "{reply}");
    ann.check("FLUSHALL => +OK");
    bob.check("BG.CREATE f KIND blocked CAPACITY 10 CONTRACT c1 => +OK");
}

/// Answers that are kept for those who ask again are paid for, and take a bit for each item.
#[test]
fn answers_that_are_kept_are_charged() {
    let (root, mut ann, _) = two(50_000_000);
    ann.check("BG.CREATE q KIND quotient CAPACITY 1000 => +OK");
    let used = || root.engine.namespaces.tell("a").unwrap().used;
    let before = used();
    let line = format!("BG.REMOVE q REQUEST long ITEMS{}", many("", 80_000).trim_end());
    assert!(ann.say(&line).starts_with("*80000 :0 "));
    assert!((10_000..11_000).contains(&(used() - before)), "{}", used() - before);
    // Of 270 bytes each 3,900 fill the mebibyte that is kept of one filter.
    let items = many("", 100);
    for request in 0..4_200 {
        let line = format!("BG.REMOVE q REQUEST {request:064} ITEMS{}", items.trim_end());
        assert!(ann.say(&line).starts_with("*100 :0 "));
    }
    assert!((900_000..1_100_000).contains(&(used() - before)), "{}", used() - before);
    assert_eq!(root.engine.budget.used(), used());
    ann.check("DEL q => :1");
    assert_eq!((used(), root.engine.budget.used()), (0, 0));
}

/// An item that takes as long as 257 others costs as much, and what is no item at all costs by the time it takes.
#[test]
fn bytes_and_commands_without_items_are_paid_for() {
    let root = one();
    ann(&root).check("BF.RESERVE f 0.01 1000 => +OK");
    let long = "l".repeat(1 << 10);
    let mut second = 0;
    for (lines, expected) in [
        (vec![format!("BF.ADD f {long}")], 5),
        (vec![format!("BF.MEXISTS f {long} {long} x")], 11),
        (vec![format!("BF.EXISTS nobody {long}")], 5),
        (vec![format!("CF.EXISTS nobody {long}")], 5),
        (vec![format!("BG.ADD f {long}")], 5),
        (vec![format!("ECHO {long}")], 4),
        (vec!["PING".to_owned(), "PING".to_owned(), "MULTI".to_owned(), "DISCARD".to_owned()], 0),
        (vec!["EXISTS f g h".to_owned()], 3),
        (vec!["TTL f".to_owned()], 1),
        (vec!["EXPIRE f 1000".to_owned(), "PERSIST f".to_owned()], 20),
        (vec!["DEL x y z".to_owned()], 30),
        (vec!["SCAN 0 COUNT 1000".to_owned()], 150),
        (vec!["DBSIZE".to_owned()], 50),
        (vec!["COMMAND DOCS".to_owned()], 50),
        (vec!["BG.INFO f".to_owned()], 100),
        (
            vec![
                "MULTI".to_owned(),
                "TTL f".to_owned(),
                "BF.ADD f x".to_owned(),
                "EXPIRE f 9".to_owned(),
                "EXEC".to_owned(),
            ],
            22,
        ),
    ] {
        second += 10;
        root.engine.clock.set(NOW_MS + second * 1_000);
        // All that may come at once has come.
        assert_eq!(turn(&mut ann(&root), &many("BF.MEXISTS f", 512)).1, 0);
        let mut one = ann(&root);
        let mut owed = 0;
        for line in &lines {
            let (taken, pause, reply) = turn(&mut one, line);
            assert!(taken && !reply.starts_with("-"), "{line:.40}: {reply:.80}");
            root.engine.clock.set(NOW_MS + second * 1_000 + owed + pause);
            owed += pause;
        }
        assert_eq!(owed, expected, "{:.40}", lines.join("; "));
    }
    // Who runs the server does not pay for commands; for items of a tenant's filters everybody does.
    let mut boss = root.another();
    assert_eq!((turn(&mut boss, "EXPIRE a:f 100").1, turn(&mut boss, &format!("BF.ADD a:f {long}")).1), (0, 5));
}
