//! Tenants: what each may take, what each sees, and that none reaches another.

use bloomgate_command::{Flag, every_command, parse};
use bloomgate_server::engine::Limits;
use bloomgate_server::session::{Next, run_job};

use super::talk::{NOW_MS, Talk, desk, engine, readable};

/// A server with two tenants and a user of all roles in each, password "p".
fn two() -> Talk {
    let mut talk = Talk::new();
    talk.check(
        "BG.NAMESPACE SET a PREFIX a: => +OK
         BG.NAMESPACE SET b PREFIX b: => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK
         ACL SETUSER bob on >p +@all namespace=b => +OK",
    );
    talk
}

fn as_user(talk: &Talk, user: &str) -> Talk {
    let mut other = talk.another();
    other.check(&format!("AUTH {user} p => +OK"));
    other
}

/// A fact about a namespace.
fn fact(talk: &Talk, space: &str, fact: &str) -> u64 {
    let told = talk.engine.namespaces.tell(space).unwrap();
    match fact {
        "used" => told.used,
        "filters" => told.filters,
        "lookups" => told.counts.lookups,
        "positives" => told.counts.positives,
        "adds" => told.counts.adds,
        "new" => told.counts.fresh,
        "refused" => told.counts.refused,
        "waits" => told.waits,
        "waited" => told.waited_micros,
        other => panic!("{other}"),
    }
}

#[test]
fn namespaces_are_declared_changed_and_deleted() {
    let mut talk = Talk::new();
    talk.check(
        "BG.NAMESPACE LIST => *0
         BG.NAMESPACE SET shop => -ERR the namespace 'shop' is new and needs a prefix: BG.NAMESPACE SET shop PREFIX shop:
         BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 5000000 => +OK
         BG.NAMESPACE SET shop MAXFILTERS 3 ITEMSPERSECOND 1000 => +OK
         BG.NAMESPACE LIST => *1 $4 shop
         BG.NAMESPACE INFO nobody => -ERR there is no namespace 'nobody': BG.NAMESPACE LIST has all
         BG.NAMESPACE DEL nobody => -ERR there is no namespace 'nobody': BG.NAMESPACE LIST has all
         BG.NAMESPACE SET other PREFIX shop: => -ERR the namespaces 'other' and 'shop' have the same prefix 'shop:': choose another
         BG.NAMESPACE SET other PREFIX bloomgate:rekey:x => -ERR names that begin with 'bloomgate:rekey:x' are the server's own: choose another prefix
         BG.NAMESPACE SET x/y PREFIX x => -ERR the name of a namespace has 1 to 128 of the characters A-Z a-z 0-9 . _ - and not 'x/y'
         BG.NAMESPACE SET shop MAXMEMORY -1 => -ERR MAXMEMORY must be a size up to 1125899906842624 bytes, like 512MB, 8GiB or 1000000, or 0 for no limit, not '-1'
         BG.NAMESPACE SET shop MAXMEMORY 2000000GB => -ERR MAXMEMORY must be a size up to 1125899906842624 bytes, like 512MB, 8GiB or 1000000, or 0 for no limit, not '2000000GB'
         BG.NAMESPACE SET shop MAXMEMORY 5.5MB => +OK
         BG.NAMESPACE SET shop MAXMEMORY 5000000 => +OK
         BG.NAMESPACE SET shop SPEED 1 => -ERR unknown option 'SPEED' for 'bg.namespace|set': allowed are PREFIX, MAXMEMORY, MAXFILTERS, ITEMSPERSECOND
         MULTI => +OK
         BG.NAMESPACE DEL shop => -ERR BG.NAMESPACE DEL name is not allowed in transactions
         DISCARD => +OK
         ACL SETUSER ann on >p +@read namespace=shop => +OK",
    );
    assert_eq!(
        readable(&talk.send(&[b"BG.NAMESPACE", b"SET", b"other", b"PREFIX", b""])),
        "-ERR the prefix of a namespace has 1 to 256 bytes, that of 'other' has 0"
    );
    assert!(readable(&talk.send(&[b"BG.NAMESPACE", b"SET", b"other", b"PREFIX", b"\xff"])).contains("is text"));
    let info = talk.say("BG.NAMESPACE INFO shop");
    for row in [
        "$6 prefix $5 shop:",
        "$7 filters :0",
        "$11 max_filters :3",
        "$10 max_memory :5000000",
        "$16 items_per_second :1000",
        "$5 users :1",
    ] {
        assert!(info.contains(row), "{row}: {info}");
    }
    let refused = talk.say("BG.NAMESPACE DEL shop");
    assert!(
        refused.starts_with("-ERR user ann is bound to the namespace 'shop': delete (ACL DELUSER ann)"),
        "{refused}"
    );
    talk.check(
        "BF.ADD shop:f x => :1
         ACL DELUSER ann => :1
         BG.NAMESPACE DEL shop => +OK
         BG.NAMESPACE LIST => *0
         BF.EXISTS shop:f x => :1
         BG.NAMESPACE SET shop PREFIX shop: => +OK",
    );
    assert_eq!(fact(&talk, "shop", "filters"), 1);
}

#[test]
fn a_refusal_says_what_was_asked_what_is_left_and_what_would_fit() {
    let limits = Limits { max_memory: 50_000_000, max_filter_memory: 20_000_000, max_filters: 100 };
    let mut talk = Talk::with(super::talk::engine_with(limits), desk());
    talk.check("BG.NAMESPACE SET a PREFIX a: MAXMEMORY 1000000 => +OK");
    let cases = [
        ("BF.RESERVE x 0.01 1000000000", "BF.RESERVE x 0.01 {}", "max-filter-memory; ", ", or raise it"),
        ("CF.RESERVE x 1000000000", "CF.RESERVE x {}", "max-filter-memory; ", ", or raise it"),
        (
            "BG.CREATE x KIND counting RATE 0.001 CAPACITY 100000000",
            "BG.CREATE x KIND counting RATE 0.001 CAPACITY {}",
            "max-filter-memory; ",
            ", or raise it",
        ),
        (
            "BF.RESERVE a:x 0.01 10000000",
            "BF.RESERVE a:x 0.01 {}",
            "MAXMEMORY of the namespace 'a'; ",
            ", or raise it (BG.NAMESPACE SET a MAXMEMORY bytes)",
        ),
        (
            "BG.CREATE a:x KIND blocked CAPACITY 9000000",
            "BG.CREATE a:x KIND blocked CAPACITY {}",
            "MAXMEMORY of the namespace 'a'; ",
            ", or raise it (BG.NAMESPACE SET a MAXMEMORY bytes)",
        ),
    ];
    for (command, with, limit, end) in cases {
        let refused = talk.say(command);
        let rest = refused
            .strip_prefix("-ERR Insufficient memory to create filter: it needs ")
            .unwrap_or_else(|| panic!("{refused}"));
        let (wanted, rest) = rest.split_once(" bytes and ").unwrap();
        let (left, rest) = rest.split_once(" are left under ").unwrap();
        let (wanted, left): (u64, u64) = (wanted.parse().unwrap(), left.parse().unwrap());
        assert!(wanted > left, "{refused}");
        let fits = rest
            .strip_prefix(limit)
            .and_then(|rest| rest.strip_prefix("a capacity of "))
            .unwrap_or_else(|| panic!("{refused}"));
        let (fits, told) = fits.split_once(" would fit: ask for less").unwrap();
        assert_eq!(told, end);
        // What it says fits does, and a tenth more does not.
        let fits: u64 = fits.parse().unwrap();
        assert!(
            talk.say(&with.replace("{}", &(fits + fits / 10 + 1).to_string())).starts_with("-ERR Insufficient"),
            "{command}: {fits}"
        );
        assert_eq!(talk.say(&with.replace("{}", &fits.to_string())), "+OK", "{command}");
        assert_eq!(talk.say(&format!("DEL {}", command.split(' ').nth(1).unwrap())), ":1");
    }
    let refused = talk.say("BG.CREATE a:x KIND blocked BYTES 2000000 CAPACITY 1000");
    assert!(
        refused.contains(" bytes would fit: ask for less, or raise it (BG.NAMESPACE SET a MAXMEMORY bytes)"),
        "{refused}"
    );
    talk.check("BG.NAMESPACE SET a MAXMEMORY 10 => +OK");
    assert!(
        talk.say("BF.ADD a:x y")
            .ends_with("no filter would fit: delete some, or raise it (BG.NAMESPACE SET a MAXMEMORY bytes)")
    );
    // Nothing is left over of what was refused.
    assert_eq!((fact(&talk, "a", "used"), talk.engine.budget.used()), (0, 0));
    assert!(fact(&talk, "a", "refused") > 0);
}

#[test]
fn a_namespace_has_no_more_filters_than_it_may_have() {
    let mut talk = two();
    talk.check(
        "BG.NAMESPACE SET a MAXFILTERS 2 => +OK
         BF.ADD a:1 x => :1
         CF.ADD a:2 x => :1
         BF.ADD a:3 x => -ERR the namespace 'a' has 2 filters and may have 2: delete some, or raise it (BG.NAMESPACE SET a MAXFILTERS n)
         BF.RESERVE a:3 0.01 100 => -ERR the namespace 'a' has 2 filters and may have 2: delete some, or raise it (BG.NAMESPACE SET a MAXFILTERS n)
         COPY a:1 a:3 => -ERR the namespace 'a' has 2 filters and may have 2: delete some, or raise it (BG.NAMESPACE SET a MAXFILTERS n)
         BF.ADD b:1 x => :1
         RENAME b:1 a:3 => -ERR the namespace 'a' has 2 filters and may have 2: delete some, or raise it (BG.NAMESPACE SET a MAXFILTERS n)
         RENAME b:1 a:1 => +OK
         BF.ADD b:1 x => :1
         COPY b:1 a:1 REPLACE => :1
         BG.SWAP a:1 b:1 => +OK
         BG.REKEY a:1 START => +OK
         BG.REKEY a:1 ABORT => +OK
         RENAME a:1 b:3 => +OK
         BF.ADD a:3 x => :1
         BF.ADD a:4 x => -ERR the namespace 'a' has 2 filters and may have 2: delete some, or raise it (BG.NAMESPACE SET a MAXFILTERS n)
         BG.NAMESPACE SET a MAXFILTERS 0 => +OK
         BF.ADD a:4 x => :1",
    );
    assert_eq!((fact(&talk, "a", "filters"), fact(&talk, "b", "filters")), (3, 2));
}

#[test]
fn filters_that_are_there_belong_to_a_new_namespace_whatever_they_take() {
    let mut talk = Talk::new();
    talk.check(
        "BF.RESERVE a:big 0.01 20000 EXPANSION 2 => +OK
         BF.RESERVE a:b:f 0.01 1000 => +OK
         BF.RESERVE c 0.01 1000 => +OK
         BG.NAMESPACE SET a PREFIX a: MAXMEMORY 1 MAXFILTERS 1 => +OK",
    );
    assert_eq!(fact(&talk, "a", "filters"), 2);
    let used = fact(&talk, "a", "used");
    assert!(used > 1);
    // It answers, and takes what it has room for; only growth is refused.
    let items: Vec<String> = (0..25_000).map(|at| format!("item{at}")).collect();
    let replies = talk.each("BF.ADD", "a:big", &items);
    assert!(replies[..19_000].iter().all(|reply| reply.starts_with(':')));
    assert!(replies.iter().any(|reply| reply.starts_with('-')), "it would have to grow");
    assert_eq!(fact(&talk, "a", "used"), used);
    talk.check(
        "BG.NAMESPACE SET b PREFIX a:b: => +OK
         BG.NAMESPACE SET a MAXMEMORY 0 MAXFILTERS 0 => +OK",
    );
    assert_eq!((fact(&talk, "a", "filters"), fact(&talk, "b", "filters")), (1, 1));
    assert_eq!(talk.say("BF.ADD a:big another"), ":1");
    talk.check("BG.NAMESPACE DEL b => +OK");
    assert_eq!(fact(&talk, "a", "filters"), 2);
    talk.check("FLUSHALL => +OK");
    assert_eq!((fact(&talk, "a", "filters"), fact(&talk, "a", "used")), (0, 0));
}

#[test]
fn a_bound_user_sees_the_namespace_and_nothing_else() {
    let talk = two();
    let (mut ann, mut bob, mut root) = (as_user(&talk, "ann"), as_user(&talk, "bob"), talk.another());
    ann.check(
        "BF.ADD f x => :1
         CF.ADD g x => :1
         BF.EXISTS f x => :1
         DBSIZE => :2
         KEYS * => *2 $1 f $1 g
         KEYS a:* => *0
         SCAN 0 => *2 $1 0 *2 $1 f $1 g
         SCAN 0 MATCH f* => *2 $1 0 *1 $1 f
         SCAN 0 TYPE MBbloomCF => *2 $1 0 *1 $1 g
         TYPE f => +MBbloom--
         BG.INFO f name => $1 f
         BG.SWAP f h => -ERR not found: there is no filter 'h'
         BG.REKEY f FINISH => -ERR 'f' is not being rekeyed: BG.REKEY f START begins
         RENAME g k => +OK
         KEYS * => *2 $1 f $1 k",
    );
    assert!(["$1 f", "$1 k"].contains(&&*ann.say("RANDOMKEY")));
    bob.check(
        "DBSIZE => :0
         KEYS * => *0
         RANDOMKEY => $-1
         BF.EXISTS f x => :0
         BF.EXISTS a:f x => :0
         BF.ADD f y => :1
         EXISTS f a:f b:f ../a:f => :1
         DEL a:f => :0
         FLUSHALL => +OK
         DBSIZE => :0",
    );
    ann.check("DBSIZE => :2");
    root.check("KEYS * => *2 $3 a:f $3 a:k");
    root.check("BF.ADD none x => :1");
    let info = ann.say("INFO everything");
    for told in ["# Server", "redis_version:", "db0:keys=2", "# Namespaces", "namespace_a:filters=2,"] {
        assert!(info.contains(told), "{told}: {info}");
    }
    for hidden in ["namespace_b", "connected_clients", "used_memory_rss", "process_id", "master_secret_id", "a:k"] {
        assert!(!info.contains(hidden), "{hidden}: {info}");
    }
    assert!(root.say("INFO").contains("namespace_b:filters=0,"));
    assert!(ann.say("BG.NAMESPACE INFO a").contains("$7 filters :2") && !ann.say("BG.NAMESPACE INFO a").contains("a:"));
    for other in [
        "BG.NAMESPACE INFO b",
        "BG.NAMESPACE LIST",
        "BG.NAMESPACE SET a MAXMEMORY 0",
        "CONFIG GET *",
        "CLIENT LIST",
        "SLOWLOG GET",
    ] {
        assert!(ann.say(other).starts_with("-NOPERM"), "{other}");
    }
    // What is not theirs to raise they are not told to raise; whoever runs the server is.
    root.check("BG.NAMESPACE SET a MAXMEMORY 1KB MAXFILTERS 1 => +OK");
    for (command, limit) in [("BF.RESERVE large 0.01 100000", "and may have 1"), ("BF.ADD k9 x", "and may have 1")] {
        let refused = ann.say(command);
        assert!(refused.contains(limit), "{refused}");
        assert!(refused.ends_with("delete some, or ask whoever runs the server to raise it"), "{refused}");
    }
    root.check("BG.NAMESPACE SET a MAXFILTERS 0 => +OK");
    let refused = ann.say("BF.RESERVE large 0.01 100000");
    assert!(refused.contains("MAXMEMORY of the namespace 'a'"), "{refused}");
    assert!(refused.ends_with(", or ask whoever runs the server to raise it"), "{refused}");
    root.check("BG.NAMESPACE SET a MAXMEMORY 0 => +OK");
    ann.check(
        "FLUSHDB => +OK
         DBSIZE => :0",
    );
    root.check("KEYS * => *1 $4 none");
    assert_eq!((fact(&talk, "a", "used"), fact(&talk, "b", "used")), (0, 0));
}

#[test]
fn names_are_relative_in_transactions_on_workers_and_in_pipelines() {
    let talk = two();
    let (mut ann, mut root) = (as_user(&talk, "ann"), talk.another());
    ann.check(
        "WATCH f => +OK
         MULTI => +OK
         BF.ADD f x => +QUEUED
         BG.CREATE g LIKE f => +QUEUED
         DBSIZE => +QUEUED
         KEYS * => +QUEUED
         BG.SWAP f nobody => +QUEUED
         EXEC => *5 :1 +OK :2 *2 $1 f $1 g -ERR not found: there is no filter 'nobody'
         WATCH f => +OK",
    );
    root.check("BF.ADD a:f y => :1");
    ann.check(
        "MULTI => +OK
         PING => +QUEUED
         EXEC => *-1
         BF.RESERVE big 0.01 2000000 => +OK
         COPY f copy => :1",
    );
    // Of one pipeline and of two users: the binding is that of whoever gave the command.
    let input = b"*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$1\r\n1\r\n*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$1\r\n2\r\n\
        *3\r\n$4\r\nAUTH\r\n$3\r\nbob\r\n$1\r\np\r\n*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$1\r\n1\r\n*1\r\n$6\r\nDBSIZE\r\n";
    as_user(&talk, "bob");
    assert_eq!(ann.pipeline(input), (input.len(), ":1 :1 +OK :1 :1".to_owned()));
    root.check("KEYS * => *5 $3 a:f $3 a:g $5 a:big $6 a:copy $3 b:f");
    // A name has room for the prefix.
    let mut ann = as_user(&talk, "ann");
    let long = "n".repeat(4_095);
    assert_eq!(
        ann.say(&format!("BF.ADD {long} x")),
        "-ERR name is 4095 bytes, at most 4094 are allowed in this namespace: use a shorter name"
    );
    assert_eq!(
        ann.say(&format!("TYPE {long}")),
        "-ERR name is 4095 bytes, at most 4094 are allowed in this namespace: use a shorter name"
    );
    assert_eq!(ann.say(&format!("BF.ADD {} x", &long[1..])), ":1");
}

#[test]
fn a_change_of_the_binding_counts_from_the_next_turn_on() {
    let talk = two();
    let (mut ann, mut root) = (as_user(&talk, "ann"), talk.another());
    ann.check("BF.ADD f x => :1");
    ann.check("MULTI => +OK");
    ann.check("BF.ADD f y => +QUEUED");
    root.check("ACL SETUSER ann namespace=b => +OK");
    ann.check(
        "EXEC => *1 :1
         KEYS * => *1 $1 f",
    );
    root.check(
        "KEYS * => *2 $3 a:f $3 b:f
         BF.MEXISTS a:f x y => *2 :1 :0
         DEL b:f => :1
         BG.NAMESPACE SET b PREFIX c: => +OK
         BF.ADD c:g x => :1",
    );
    ann.check("KEYS * => *1 $1 g");
    root.check("ACL SETUSER ann namespace=* => +OK");
    ann.check("DBSIZE => :2");
}

/// Its users would find nothing behind the names they know: a "no" for everything that was added.
#[test]
fn a_prefix_stays_as_long_as_there_are_filters_under_it() {
    use bloomgate_server::access::Directory;
    use bloomgate_server::session::desk::Desk;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let desk = Desk::new(2, Some(Directory::of_file(&path).unwrap()), String::new(), Vec::new());
    let mut talk = Talk::with(engine(256 << 20), desk);
    talk.check(
        "BG.NAMESPACE SET a PREFIX a: => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK
         ACL SETUSER op on >p +@admin => +OK",
    );
    let (mut ann, mut op) = (as_user(&talk, "ann"), as_user(&talk, "op"));
    ann.check("BF.ADD f x => :1\nCF.ADD g x => :1");
    let refused = op.say("BG.NAMESPACE SET a PREFIX aa: MAXFILTERS 7");
    assert!(refused.starts_with("-ERR the namespace 'a' has 2 filters under its prefix 'a:'"), "{refused}");
    op.check("BG.NAMESPACE SET a PREFIX a: MAXFILTERS 7 => +OK");
    // Nor by hand.
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("max-filters = 7"), "{text}");
    std::fs::write(&path, text.replace("\"a:\"", "\"aa:\"").replace("max-filters = 7", "")).unwrap();
    let refused = op.say("ACL LOAD");
    assert!(refused.contains("has 2 filters under its prefix"), "{refused}");
    assert!(talk.desk.reload(&talk.engine).is_err());
    ann.check("BF.EXISTS f x => :1");
    assert_eq!(talk.engine.namespaces.tell("a").unwrap().max_filters, 7);
    // Without filters it is anybody's.
    ann.check("FLUSHALL => +OK");
    op.check("ACL LOAD => +OK");
    ann.check("BF.ADD f x => :1");
    talk.check("KEYS * => *1 $4 aa:f");
    ann.check("DEL f => :1");
    op.check("BG.NAMESPACE SET a PREFIX b: => +OK");
    ann.check("BF.ADD f x => :1");
    talk.check("KEYS * => *1 $3 b:f");
}

#[test]
fn a_namespace_within_another_is_its_own() {
    let mut talk = two();
    talk.check(
        "BG.NAMESPACE SET inner PREFIX a:b: => +OK
         BF.ADD a:b:f x => :1
         BF.ADD a:bf x => :1",
    );
    let mut ann = as_user(&talk, "ann");
    ann.check(
        "KEYS * => *1 $2 bf
         DBSIZE => :1
         BF.EXISTS b:f x => -ERR names that begin with 'b:' are not of this namespace: choose another
         TYPE b:f => -ERR names that begin with 'b:' are not of this namespace: choose another
         FLUSHALL => +OK",
    );
    talk.check("KEYS * => *1 $5 a:b:f");
}

/// Every command that takes names, with names of another tenant in every way they could be written: nothing of that tenant is
/// touched, and the answers are the same whether it has filters or not.
#[test]
fn no_command_reaches_the_names_of_another_tenant() {
    let crafted = [
        "b:secret",
        "a:b:secret",
        "../b:secret",
        "b:*",
        "\0b:secret",
        "b:",
        "secret",
        "bloomgate:rekey:b:secret",
        "*secret*",
    ];
    let specs: Vec<_> = every_command()
        .filter(|spec| spec.subcommands.is_empty() && !spec.has(Flag::NoAuth))
        .filter(|spec| !["shutdown", "client|reply", "client|kill", "multi", "exec", "discard"].contains(&spec.name))
        .collect();
    let mut runs = Vec::new();
    for there in [false, true] {
        let talk = two();
        let (mut bob, mut ann) = (as_user(&talk, "bob"), as_user(&talk, "ann"));
        if there {
            bob.check(
                "BF.RESERVE secret 0.001 5000 => +OK
                 BF.MADD secret x y z alice => *4 :1 :1 :1 :1
                 BG.CREATE b:secret KIND cuckoo CAPACITY 1000 => +OK
                 BG.DUMP nothing => -ERR not found",
            );
        }
        let before = (fact(&talk, "b", "used"), fact(&talk, "b", "filters"));
        let mut told = Vec::new();
        for spec in &specs {
            let example = spec.example.0.replace("<iterator>", "1").replace("<address>", &"0".repeat(64));
            let words: Vec<&[u8]> = example.split(' ').map(str::as_bytes).collect();
            let places: Vec<usize> =
                parse(&words).map(|(spec, _)| spec.name_places(&words).collect()).unwrap_or_default();
            for craft in crafted {
                let mut crafted = words.clone();
                places.iter().for_each(|&at| crafted[at] = craft.as_bytes());
                if places.is_empty()
                    && !["keys", "scan", "randomkey", "dbsize", "info", "bg.delta"].contains(&spec.name)
                {
                    continue;
                }
                if spec.name == "keys" {
                    crafted[1] = craft.as_bytes();
                }
                if spec.name == "scan" {
                    crafted = vec![b"SCAN", b"0", b"MATCH", craft.as_bytes(), b"COUNT", b"1000"];
                }
                let reply = readable(&ann.send(&crafted));
                // Other numbers in another run: times, ids of filters, addresses that depend on them.
                if !["info", "scan", "bg.info", "bg.stats", "bf.scandump", "cf.scandump"].contains(&spec.name) {
                    told.push((spec.name, craft, reply.clone()));
                }
                assert!(
                    // BG.STATS says the name that it was given, which may look like a full one.
                    !reply.replacen(craft, "", usize::from(spec.name == "bg.stats")).contains("a:")
                        && (craft.contains("b:") || !reply.contains("b:secret")),
                    "{} {craft:?}: {reply}",
                    spec.name
                );
            }
            ann.send(&[b"DISCARD"]);
            ann.send(&[b"UNWATCH"]);
            assert_eq!((fact(&talk, "b", "used"), fact(&talk, "b", "filters")), before, "{}", spec.name);
        }
        if there {
            bob.check("BF.MEXISTS secret x y z alice w => *5 :1 :1 :1 :1 :0");
            assert_eq!(talk.engine.find(b"b:secret").unwrap().counts().lookups, 5, "nobody else asked it");
        }
        runs.push(told);
    }
    assert!(runs[0].len() > 400, "only {}", runs[0].len());
    for (without, with) in runs[0].iter().zip(&runs[1]) {
        assert_eq!(without, with);
    }
}

#[test]
fn a_delta_from_the_file_of_another_tenant_is_refused() {
    let talk = two();
    let (mut ann, mut bob) = (as_user(&talk, "ann"), as_user(&talk, "bob"));
    for one in [&mut ann, &mut bob] {
        one.check("BG.CREATE f KIND blocked CAPACITY 1000 => +OK");
    }
    bob.check("BG.ADD f secret => *1 :1");
    let dumped = bob.send(&[b"BG.DUMP", b"f"]);
    let address = String::from_utf8_lossy(&dumped[..80]).lines().nth(2).unwrap().to_owned();
    assert!(bob.say(&format!("BG.DELTA f {address}")).starts_with('$'));
    let refused = ann.say(&format!("BG.DELTA f {address}"));
    assert!(refused.starts_with(&format!("-ERR the file {address} is not kept here")), "{refused}");
}

#[test]
fn scan_looks_at_so_many_names_however_few_are_its_own() {
    let mut talk = two();
    talk.check("BF.ADD a:first x => :1");
    let adds: Vec<String> = (0..900).map(|at| format!("none{at}")).collect();
    let mut big = Talk::with(engine(1 << 30), desk());
    drop(talk);
    big.check(
        "BG.NAMESPACE SET a PREFIX a: => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK
         BF.ADD a:first x => :1",
    );
    for name in &adds {
        assert_eq!(big.say(&format!("BF.ADD {name} x")), ":1");
    }
    big.check("BF.ADD a:last x => :1");
    let mut ann = as_user(&big, "ann");
    ann.check("SCAN 0 COUNT 10 => *2 $1 0 *2 $5 first $4 last");
    // One at a time: the cursor goes on behind what was told.
    let one = ann.say("SCAN 0 COUNT 1");
    let cursor = one.split(' ').nth(2).unwrap().to_owned();
    assert!(one.ends_with("*1 $5 first") && cursor != "0", "{one}");
    assert!(ann.say(&format!("SCAN {cursor} COUNT 1")).ends_with("*1 $4 last"));
}

#[test]
fn who_sends_more_items_than_the_namespace_may_have_waits() {
    let mut talk = two();
    talk.check("BG.NAMESPACE SET a ITEMSPERSECOND 1000 => +OK");
    let (mut ann, mut bob, mut root) = (as_user(&talk, "ann"), as_user(&talk, "bob"), talk.another());
    let many = |name: &str, count: usize| {
        let items: String = (0..count).map(|at| format!(" i{at}")).collect();
        format!("BF.MADD {name}{items}\r\n")
    };
    let turn = |talk: &mut Talk, line: &str| {
        let mut out = Vec::new();
        let turn = talk.session.turn(&mut talk.core, &talk.desk, line.as_bytes(), &mut out);
        talk.session.forget(turn.consumed);
        if let Next::Job(job) = turn.next {
            run_job(&mut talk.core, &talk.desk, &job, &mut out);
        }
        (turn.consumed, turn.pause.as_millis() as u64, out)
    };
    // 512 at once, as a turn may have; then a millisecond each.
    let line = many("f", 512);
    assert_eq!((turn(&mut ann, &line).1, fact(&talk, "a", "waits")), (0, 0));
    let (consumed, pause, out) = turn(&mut ann, &many("f", 300));
    assert!(
        (consumed > 0, pause) == (true, 300) && out.starts_with(b"*300\r\n:"),
        "it is answered, not refused: {pause}"
    );
    // Until then nothing of it is taken, not even what is no item.
    let (consumed, pause, out) = turn(&mut ann, "PING\r\n");
    assert_eq!((consumed, pause, out.len()), (0, 300, 0));
    // Who is not bound waits for the namespace's names too, behind those before; others do not wait.
    assert_eq!(turn(&mut root, "BF.EXISTS a:f x\r\n").1, 301);
    assert_eq!(turn(&mut bob, &many("f", 5_000)).1, 0);
    assert_eq!(turn(&mut bob, "PING\r\n").2, b"+PONG\r\n");
    // So do lookups under names that are not there, and those of every family.
    talk.engine.clock.set(NOW_MS + 301);
    assert_eq!(turn(&mut root, "BF.EXISTS a:none x\r\n").1, 1);
    talk.engine.clock.set(NOW_MS + 302);
    let mut expected = 0;
    for line in [
        "CF.ADD a:c x",
        "CF.EXISTS a:c x",
        "CF.COUNT a:c x",
        "CF.DEL a:c x",
        "BG.ADD a:f x y",
        "BG.EXISTS a:f x",
        "BF.INSERT a:f ITEMS x",
    ] {
        expected += line.split(' ').count() as u64 - 2 - u64::from(line.contains("ITEMS"));
        let mut another = talk.another();
        assert_eq!(turn(&mut another, &format!("{line}\r\n")).1, expected, "{line}");
    }
    talk.engine.clock.set(NOW_MS + 400);
    assert_eq!(turn(&mut ann, "PING\r\n").2, b"+PONG\r\n");
    // More than two seconds' worth are paid for before they are asked for: a second at a time, and all of them.
    let line = many("f", 5_000);
    assert_eq!(turn(&mut ann, &line), (0, 1_000, Vec::new()));
    assert_eq!(turn(&mut ann, &line), (0, 1_000, Vec::new()));
    talk.engine.clock.set(NOW_MS + 2_000);
    assert_eq!(turn(&mut ann, &line), (0, 1_000, Vec::new()));
    talk.engine.clock.set(NOW_MS + 3_310);
    let (consumed, pause, out) = turn(&mut ann, &line);
    assert!((consumed, pause) == (line.len(), 1_000) && out.starts_with(b"*5000\r\n:"), "{consumed} {pause}");
    assert!(fact(&talk, "a", "waits") >= 5 && fact(&talk, "a", "waited") >= 2_600_000);
    // A limit that is raised counts at once.
    talk.check("BG.NAMESPACE SET a ITEMSPERSECOND 0 => +OK");
    assert_eq!(turn(&mut ann, "PING\r\n").2, b"+PONG\r\n");
    assert_eq!(turn(&mut ann, &many("f", 9_000)).1, 0);
}

#[test]
fn a_namespace_counts_what_is_asked_and_added() {
    let talk = two();
    let mut ann = as_user(&talk, "ann");
    ann.check(
        "BF.MADD f x y x => *3 :1 :1 :0
         BF.MEXISTS f x z => *2 :1 :0
         BF.EXISTS nothing x => :0
         BF.RESERVE full 0.01 1 NONSCALING => +OK
         BF.ADD full x => :1",
    );
    assert!(ann.say("BF.ADD full y").starts_with("-ERR"));
    let counted = ["adds", "new", "refused", "lookups", "positives"].map(|name| fact(&talk, "a", name));
    assert_eq!(counted, [5, 3, 1, 3, 1]);
    assert_eq!(fact(&talk, "b", "adds"), 0);
}

#[test]
fn a_bound_admin_builds_from_the_files_of_the_namespace() {
    let folder = tempfile::tempdir().unwrap();
    for (file, line) in [("a/list.txt", "alice\n"), ("b/list.txt", "bob\n"), ("all.txt", "carol\n")] {
        let path = folder.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, line).unwrap();
    }
    std::os::unix::fs::symlink(folder.path().join("all.txt"), folder.path().join("a/link.txt")).unwrap();
    let mut desk = desk();
    desk.told.import_dir = Some(folder.path().to_path_buf());
    let mut root = Talk::with(engine(256 << 20), desk);
    root.check(
        "BG.NAMESPACE SET a PREFIX a: => +OK
         ACL SETUSER ann on >p +@all namespace=a => +OK
         BG.BUILD all FROM all.txt => +OK",
    );
    let mut ann = as_user(&root, "ann");
    ann.check(
        "BG.BUILD f FROM list.txt => +OK
         BG.EXISTS f alice bob => *2 :1 :0",
    );
    for file in ["all.txt", "b/list.txt", "a/list.txt", "../b/list.txt", "link.txt"] {
        let refused = ann.say(&format!("BG.BUILD g FROM {file}"));
        assert!(
            refused.starts_with("-ERR") && !refused.contains(&*folder.path().to_string_lossy()),
            "{file}: {refused}"
        );
    }
    ann.check("DBSIZE => :1");
}

/// What the access file says counts when it is read again, all of it or nothing.
#[test]
fn namespaces_are_in_the_access_file() {
    use bloomgate_server::access::Directory;
    use bloomgate_server::session::desk::Desk;
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.toml");
    let opened = || Desk::new(2, Some(Directory::of_file(&path).unwrap()), String::new(), Vec::new());
    let mut talk = Talk::with(engine(256 << 20), opened());
    talk.check("BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 1000000 MAXFILTERS 7 => +OK");
    talk.check("BG.NAMESPACE SET shop MAXFILTERS 0 => +OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("[namespaces.\"shop\"]\nprefix = \"shop:\"\nmax-memory = 1000000\n")
            && !text.contains("max-filters"),
        "{text}"
    );
    talk.check("BF.ADD shop:f x => :1");
    for (wrong, why) in [
        ("[namespaces.a]\nprefix = \"\"\n", "line 1: the prefix of a namespace has 1 to 256 bytes"),
        (
            "[namespaces.a]\nprefix = \"x\"\n\n[namespaces.b]\nprefix = \"x\"\n",
            "line 4: the namespaces 'a' and 'b' have the same prefix 'x'",
        ),
        (
            "[namespaces.a]\nprefix = \"bloomgate:rekey:\"\n",
            "line 1: names that begin with 'bloomgate:rekey:' are the server's own",
        ),
    ] {
        std::fs::write(&path, wrong).unwrap();
        let refused = talk.say("ACL LOAD");
        assert!(refused.contains(why), "{refused}");
        assert_eq!(fact(&talk, "shop", "filters"), 1);
    }
    std::fs::write(&path, "[namespaces.other]\nprefix = \"sh\"\nmax-filters = 1\n").unwrap();
    talk.check(
        "ACL LOAD => +OK
         BG.NAMESPACE LIST => *1 $5 other",
    );
    assert_eq!(fact(&talk, "other", "filters"), 1);
    assert!(talk.say("BF.ADD shop:g x").starts_with("-ERR the namespace 'other' has 1 filter and may have 1"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
