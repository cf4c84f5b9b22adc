//! Every error text that a parser gives, as RedisBloom 8.8 and Redis 7 say it; and ours.

use bloomgate_command::{MAX_ITEM, MAX_NAME, Refusal, parse};

use crate::parsed;

/// Pairs of a command line and its refusal, or nothing where it is right.
fn check(cases: &[(&str, &str)]) {
    for &(line, expected) in cases {
        parsed(line, |result| match result {
            Ok((_, request)) => assert_eq!(expected, "", "{line} gave {request:?}"),
            Err(refusal) => assert_eq!(refusal.as_str(), expected, "{line}"),
        });
    }
}

#[test]
fn bf_refuses_in_redis_blooms_words() {
    let arity = |name: &str| format!("ERR wrong number of arguments for '{name}' command");
    check(&[
        ("BF.RESERVE k 0.01 100", ""),
        ("BF.RESERVE k 0.01 100 EXPANSION 2", ""),
        ("BF.RESERVE k 0.01 100 EXPANSION 0", ""),
        ("BF.RESERVE k 0.01 100 EXPANSION 32768", ""),
        ("BF.RESERVE k 0.01 1073741824 NONSCALING", ""),
        ("BF.RESERVE k 0.9 1", ""),
        ("BF.RESERVE k x 100", "ERR bad error rate"),
        ("BF.RESERVE k inf 100", "ERR bad error rate"),
        ("BF.RESERVE k nan 100", "ERR bad error rate"),
        ("BF.RESERVE k 0x1p-2 100", "ERR bad error rate"),
        ("BF.RESERVE k \"\" 100", "ERR bad error rate"),
        ("BF.RESERVE k 0 100", "ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k 1 100", "ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k -0.1 100", "ERR error rate must be in the range (0.000000, 1.000000)"),
        ("BF.RESERVE k 0.01 x", "ERR bad capacity"),
        ("BF.RESERVE k 0.01 1.5", "ERR bad capacity"),
        ("BF.RESERVE k 0.01 99999999999999999999", "ERR bad capacity"),
        ("BF.RESERVE k 0.01 0", "ERR capacity must be in the range [1, 1073741824]"),
        ("BF.RESERVE k 0.01 -1", "ERR capacity must be in the range [1, 1073741824]"),
        (
            "BF.RESERVE k 0.01 1073741825",
            "ERR capacity must be in the range [1, 1073741824]; BG.CREATE name CAPACITY n RATE p makes filters for up to 2^40 items",
        ),
        (
            "BF.RESERVE k 0.01 1000000000000",
            "ERR capacity must be in the range [1, 1073741824]; BG.CREATE name CAPACITY n RATE p makes filters for up to 2^40 items",
        ),
        ("BF.RESERVE k 0.01 100 EXPANSION", "ERR no expansion"),
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION", "ERR no expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION x", "ERR bad expansion"),
        ("BF.RESERVE k 0.01 100 EXPANSION -1", "ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 100 EXPANSION 32769", "ERR expansion must be in the range [0, 32768]"),
        ("BF.RESERVE k 0.01 100 NONSCALING EXPANSION 2", "Nonscaling filters cannot expand"),
        ("BF.RESERVE k 0.01 100 EXPANSION 2 NONSCALING", "Nonscaling filters cannot expand"),
        ("BF.RESERVE k 0.01 100 FOO", "ERR unknown option 'FOO' for 'bf.reserve': allowed are EXPANSION, NONSCALING"),
        (
            "BF.RESERVE k 0.01 100 NONSCAL",
            "ERR unknown option 'NONSCAL' for 'bf.reserve': allowed are EXPANSION, NONSCALING",
        ),
        (
            "BF.RESERVE k 0.01 100 NONSCALING NONSCALING",
            "ERR option NONSCALING of 'bf.reserve' was given twice: give it once",
        ),
        ("BF.RESERVE k 0.01", &arity("bf.reserve")),
        ("BF.RESERVE k 0.01 100 EXPANSION 2 NONSCALING x", &arity("bf.reserve")),
        ("bf.Add k", &arity("bf.add")),
        ("BF.ADD k \"\"", ""),
        ("BF.MADD k", &arity("bf.madd")),
        ("BF.INSERT k ITEMS a", ""),
        ("BF.INSERT k capacity 5 error 0.1 expansion 3 nocreate nonscaling items a b", ""),
        ("BF.INSERT k EXPANSION 2 NONSCALING ITEMS a", ""),
        ("BF.INSERT k ERROR x ITEMS a", "Bad error rate"),
        ("BF.INSERT k ERROR 0 ITEMS a", "Bad error rate"),
        ("BF.INSERT k ERROR 1 ITEMS a", "Bad error rate"),
        ("BF.INSERT k CAPACITY x ITEMS a", "Bad capacity"),
        ("BF.INSERT k CAPACITY 0 ITEMS a", "Bad capacity"),
        ("BF.INSERT k CAPACITY 1073741825 ITEMS a", "Bad capacity"),
        ("BF.INSERT k EXPANSION x ITEMS a", "Bad expansion"),
        ("BF.INSERT k EXPANSION 32769 ITEMS a", "Bad expansion"),
        ("BF.INSERT k FOO ITEMS a", "Unknown argument received"),
        ("BF.INSERT k IFOO a", "Unknown argument received"),
        (
            "BF.INSERT k CAPACITY 5 CAPACITY 6 ITEMS a",
            "ERR option CAPACITY of 'bf.insert' was given twice: give it once",
        ),
        ("BF.INSERT k ITEMS", &arity("bf.insert")),
        ("BF.INSERT k NOCREATE ITEMS", &arity("bf.insert")),
        ("BF.INSERT k CAPACITY 5", &arity("bf.insert")),
        ("BF.INSERT k NOCREATE CAPACITY", &arity("bf.insert")),
        ("BF.INFO k items", ""),
        ("BF.INFO k foo", "Invalid information value"),
        ("BF.SCANDUMP k -5", ""),
        ("BF.SCANDUMP k x", "Second argument must be numeric"),
        ("BF.LOADCHUNK k x data", "ERR Second argument must be numeric"),
        ("BF.LOADCHUNK k 1", &arity("bf.loadchunk")),
        ("BF.FOO k", "ERR unknown command 'BF.FOO', with args beginning with: 'k' "),
    ]);
}

#[test]
fn cf_refuses_in_redis_blooms_words() {
    let arity = |name: &str| format!("ERR wrong number of arguments for '{name}' command");
    check(&[
        ("CF.RESERVE k 4", ""),
        ("CF.RESERVE k 1000 BUCKETSIZE 255 MAXITERATIONS 65535 EXPANSION 32768", ""),
        ("CF.RESERVE k 1000 RATE 0.001", ""),
        ("CF.RESERVE k 1000 FINGERPRINT 16", ""),
        ("CF.RESERVE k x", "Bad capacity"),
        ("CF.RESERVE k 1", "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"),
        ("CF.RESERVE k 7 BUCKETSIZE 4", "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"),
        ("CF.RESERVE k 1073741825", "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"),
        ("CF.RESERVE k -1", "Capacity must be in the range [2 * BUCKETSIZE, 1073741824]"),
        ("CF.RESERVE k 1000 BUCKETSIZE x", "Couldn't parse BUCKETSIZE"),
        ("CF.RESERVE k 1000 BUCKETSIZE 0", "BUCKETSIZE: value must be in the range [1, 255]"),
        ("CF.RESERVE k 1000 BUCKETSIZE 256", "BUCKETSIZE: value must be in the range [1, 255]"),
        ("CF.RESERVE k 1000 MAXITERATIONS x", "Couldn't parse MAXITERATIONS"),
        ("CF.RESERVE k 1000 MAXITERATIONS 65536", "MAXITERATIONS: value must be in the range [1, 65535]"),
        ("CF.RESERVE k 1000 EXPANSION x", "Couldn't parse EXPANSION"),
        ("CF.RESERVE k 1000 EXPANSION -1", "EXPANSION: value must be in the range [0, 32768]"),
        ("CF.RESERVE k 1000 EXPANSION 32769", "EXPANSION: value must be in the range [0, 32768]"),
        (
            "CF.RESERVE k 1000 RATE 0.1 FINGERPRINT 8",
            "ERR RATE and FINGERPRINT both choose the width: give one of them",
        ),
        ("CF.RESERVE k 1000 RATE 1", "ERR RATE must be a rate from 1e-15 to below 1 (1 % is 0.01), not '1'"),
        ("CF.RESERVE k 1000 FINGERPRINT 57", "ERR FINGERPRINT must be an integer from 2 to 56, not '57'"),
        (
            "CF.RESERVE k 1000 FOO 1",
            "ERR unknown option 'FOO' for 'cf.reserve': allowed are BUCKETSIZE, MAXITERATIONS, EXPANSION, RATE, FINGERPRINT",
        ),
        (
            "CF.RESERVE k 1000 EXPANSION 1 EXPANSION 1",
            "ERR option EXPANSION of 'cf.reserve' was given twice: give it once",
        ),
        ("CF.RESERVE k 1000 BUCKETSIZE", &arity("cf.reserve")),
        ("CF.RESERVE k", &arity("cf.reserve")),
        ("CF.INSERT k CAPACITY 4 NOCREATE ITEMS a", ""),
        ("CF.INSERT k CAPACITY x ITEMS a", "Bad capacity"),
        ("CF.INSERT k CAPACITY 1 ITEMS a", "Capacity must be in the range [cf-bucket-size * 2, 1073741824]"),
        ("CF.INSERTNX k CAPACITY 1073741825 ITEMS a", "Capacity must be in the range [cf-bucket-size * 2, 1073741824]"),
        ("CF.INSERT k NOFOO ITEMS a", "Unknown argument received"),
        ("CF.INSERTNX k ITEMS", &arity("cf.insertnx")),
        ("CF.INSERTNX k NOCREATE CAPACITY", &arity("cf.insertnx")),
        ("CF.SCANDUMP k 0", ""),
        ("CF.SCANDUMP k x", "Invalid position"),
        ("CF.SCANDUMP k -1", "Invalid position"),
        ("CF.LOADCHUNK k 0 data", "Invalid position"),
        ("CF.LOADCHUNK k -1 data", "Invalid position"),
        ("CF.LOADCHUNK k x data", "Invalid position"),
        ("CF.LOADCHUNK k 1 data", ""),
        ("CF.DEL k", &arity("cf.del")),
        ("CF.COMPACT k x", &arity("cf.compact")),
        ("CF.COUNT k a b", &arity("cf.count")),
    ]);
}

#[test]
fn texts_of_the_engine_are_redis_blooms() {
    let texts: Vec<&str> = Refusal::TEXTS.iter().map(|&(_, text)| text).collect();
    for text in [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "ERR not found",
        "ERR item exists",
        "ERR non scaling filter is full",
        "ERR problem inserting into filter",
        "ERR Insufficient memory to create filter",
        "ERR could not create filter",
        "ERR Could not create filter",
        "ERR received bad data",
        "ERR invalid offset - no link found",
        "ERR invalid chunk - Too big for current filter",
        "Filter is full",
        "Maximum expansions reached",
        "ERR Insufficient memory",
        "Not found",
        "Cuckoo filter was not found",
        "Invalid header",
        "Couldn't create filter!",
        "Couldn't load chunk!",
    ] {
        assert!(texts.contains(&text), "{text}");
    }
    assert_eq!(Refusal::WRONG_TYPE.code(), Some("WRONGTYPE"));
    assert_eq!(Refusal::NOT_FOUND.code(), Some("ERR"));
    assert_eq!(Refusal::FILTER_FULL.code(), None);
}

#[test]
fn generic_commands_refuse_in_redis_words() {
    // Taken from Redis 7.0.15.
    check(&[
        ("expire k 5 FOO", "ERR Unsupported option FOO"),
        ("expire k 5 NX XX", "ERR NX and XX, GT or LT options at the same time are not compatible"),
        ("expire k 5 GT LT", "ERR GT and LT options at the same time are not compatible"),
        ("expire k 5 xx gt", ""),
        ("expire k x", "ERR value is not an integer or out of range"),
        ("expire k 99999999999999999", "ERR invalid expire time in 'expire' command"),
        ("expireat k 99999999999999999", "ERR invalid expire time in 'expireat' command"),
        ("pexpire k 99999999999999999", ""),
        ("expire k -1", ""),
        ("scan x", "ERR invalid cursor"),
        ("scan 0 COUNT 0", "ERR syntax error"),
        ("scan 0 COUNT x", "ERR value is not an integer or out of range"),
        ("scan 0 FOO 1", "ERR syntax error"),
        ("scan 0 MATCH", "ERR syntax error"),
        ("scan 0 match a* count 5 type MBbloom--", ""),
        ("select x", "ERR value is not an integer or out of range"),
        ("select -1", "ERR DB index is out of range"),
        ("hello 4", "NOPROTO unsupported protocol version"),
        ("hello x", "ERR Protocol version is not an integer or out of range"),
        ("hello 3 FOO", "ERR Syntax error in HELLO option 'FOO'"),
        ("hello 3 AUTH a", "ERR Syntax error in HELLO option 'AUTH'"),
        ("hello 3 SETNAME \"a b\"", "ERR Client names cannot contain spaces, newlines or special characters."),
        ("hello", ""),
        ("hello 2 setname me auth u p", ""),
        ("auth", "ERR wrong number of arguments for 'auth' command"),
        ("auth a b c", "ERR syntax error"),
        ("client", "ERR wrong number of arguments for 'client' command"),
        ("client foo", "ERR unknown subcommand 'foo'. Try CLIENT HELP."),
        ("client help", ""),
        ("client kill", "ERR wrong number of arguments for 'client|kill' command"),
        ("client kill id x", "ERR client-id should be greater than 0"),
        ("client kill type x", "ERR Unknown client type 'x'"),
        ("client kill foo bar", "ERR syntax error"),
        ("client kill 1.2.3.4:5", ""),
        ("client setname", "ERR wrong number of arguments for 'client|setname' command"),
        ("client setname \"a b\"", "ERR Client names cannot contain spaces, newlines or special characters."),
        ("client setinfo foo x", "ERR Unrecognized option 'foo'"),
        ("client setinfo lib-name \"a b\"", "ERR lib-name cannot contain spaces, newlines or special characters."),
        ("client no-evict x", "ERR syntax error"),
        ("client reply x", "ERR syntax error"),
        ("client tracking x", "ERR syntax error"),
        ("client tracking on", "ERR tracking of names is not supported: leave client-side caching off"),
        ("client pause x", "ERR timeout is not an integer or out of range"),
        ("client pause -5", "ERR timeout is negative"),
        ("client pause 5 FOO", "ERR CLIENT PAUSE mode must be WRITE or ALL"),
        ("client list foo", "ERR syntax error"),
        ("client list type x", "ERR Unknown client type 'x'"),
        ("client list id x", "ERR Invalid client ID"),
        ("client list type normal id 1 2", ""),
        ("command foo", "ERR unknown subcommand 'foo'. Try COMMAND HELP."),
        ("command list foo", "ERR syntax error"),
        ("command list filterby foo x", "ERR syntax error"),
        ("command count x", "ERR wrong number of arguments for 'command|count' command"),
        ("command getkeys foo", ""),
        ("copy a b DB x", "ERR value is not an integer or out of range"),
        ("copy a b DB -1", "ERR DB index is out of range"),
        ("copy a b FOO", "ERR syntax error"),
        ("flushall foo", "ERR syntax error"),
        ("flushall async sync", "ERR syntax error"),
        ("memory usage k samples x", "ERR value is not an integer or out of range"),
        ("memory usage k samples -1", "ERR syntax error"),
        ("memory usage k foo 1", "ERR syntax error"),
        ("object encoding", "ERR wrong number of arguments for 'object|encoding' command"),
        ("object foo k", "ERR unknown subcommand 'foo'. Try OBJECT HELP."),
        ("bgsave foo", "ERR syntax error"),
        ("shutdown foo", "ERR syntax error"),
        ("shutdown save nosave", "ERR syntax error"),
        ("shutdown abort now", "ERR syntax error"),
        ("shutdown nosave now force", ""),
        ("acl cat foo", "ERR Unknown category 'foo'"),
        ("acl cat cuckoo", ""),
        ("slowlog get x", "ERR count should be greater than or equal to -1"),
        ("slowlog get -2", "ERR count should be greater than or equal to -1"),
        ("slowlog get -1", ""),
        ("wait x 0", "ERR value is not an integer or out of range"),
        ("wait 0 x", "ERR timeout is not an integer or out of range"),
        ("wait 0 -1", "ERR timeout is negative"),
        ("config get", "ERR wrong number of arguments for 'config|get' command"),
        ("config set a", "ERR wrong number of arguments for 'config|set' command"),
        ("config set a 1 b", "ERR wrong number of arguments for 'config|set' command"),
        ("config set a 1 A 2", "ERR CONFIG SET failed (possibly related to argument 'A') - duplicate parameter"),
        ("config foo", "ERR unknown subcommand 'foo'. Try CONFIG HELP."),
        ("ping a b", "ERR wrong number of arguments for 'ping' command"),
        ("quit now please", ""),
        ("foo a b", "ERR unknown command 'foo', with args beginning with: 'a' 'b' "),
        ("foo", "ERR unknown command 'foo', with args beginning with: "),
    ]);
    let none: [&[u8]; 0] = [];
    assert!(parse(&none).is_err());
}

#[test]
fn bg_refuses_with_what_is_allowed() {
    check(&[
        (
            "BG.CREATE a KIND nosuch",
            "ERR KIND must be one of classic, blocked, partitioned, counting, scalable, rotating, stable, cuckoo, growing-cuckoo, quotient, fuse, ribbon, not 'nosuch'",
        ),
        (
            "BG.CREATE a KIND guava",
            "ERR KIND must be one of classic, blocked, partitioned, counting, scalable, rotating, stable, cuckoo, growing-cuckoo, quotient, fuse, ribbon, not 'guava'",
        ),
        ("BG.CREATE a KIND fuse", "ERR a fuse filter is built once from all its items: use BG.BUILD"),
        ("BG.CREATE a RATE 0.1", "ERR BG.CREATE needs KIND (or LIKE another filter): BG.CREATE name KIND scalable"),
        ("BG.CREATE a KIND blocked CAPACITY 0", "ERR CAPACITY must be an integer from 1 to 1099511627776, not '0'"),
        (
            "BG.CREATE a KIND blocked CAPACITY 1099511627777",
            "ERR CAPACITY must be an integer from 1 to 1099511627776, not '1099511627777'",
        ),
        (
            "BG.CREATE a KIND blocked RATE 1e-16",
            "ERR RATE must be a rate from 1e-15 to below 1 (1 % is 0.01), not '1e-16'",
        ),
        ("BG.CREATE a KIND scalable GROWTH 0.5", "ERR GROWTH must be a factor from 1 to 32768, not '0.5'"),
        ("BG.CREATE a KIND blocked ONFULL maybe", "ERR ONFULL must be one of refuse, grow, goon, not 'maybe'"),
        ("BG.CREATE a KIND rotating WINDOW 0", "ERR WINDOW must be 1 to 3153600000 seconds (100 years), not '0'"),
        (
            "BG.CREATE a KIND rotating WINDOW 0.999",
            "ERR WINDOW must be 1 to 3153600000 seconds (100 years), not '0.999'",
        ),
        ("BG.CREATE a KIND rotating WINDOW -1", "ERR WINDOW must be 1 to 3153600000 seconds (100 years), not '-1'"),
        (
            "BG.CREATE a KIND rotating WINDOW 1e300",
            "ERR WINDOW must be 1 to 3153600000 seconds (100 years), not '1e300'",
        ),
        ("BG.CREATE a KIND rotating GENERATIONS 65", "ERR GENERATIONS must be an integer from 1 to 64, not '65'"),
        ("BG.CREATE a KIND counting COUNTERS 5", "ERR COUNTERS must be one of 4, 8, 16, not '5'"),
        ("BG.CREATE a KIND blocked HASH md5", "ERR HASH must be one of siphash13, siphash24, blake2b, xxh3, not 'md5'"),
        (
            "BG.CREATE a KIND blocked SEED 1",
            "ERR SEED is for HASH xxh3: the other hashes take their secret from a contract",
        ),
        (
            "BG.CREATE a KIND blocked HASH xxh3 CONTRACT c",
            "ERR CONTRACT names a secret, and HASH xxh3 has none: leave one of them out",
        ),
        (
            "BG.CREATE a LIKE b HASH xxh3",
            "ERR LIKE takes the contract of the other filter: leave HASH, SEED and CONTRACT out",
        ),
        (
            "BG.CREATE a KIND blocked CONTRACT a/b",
            "ERR a contract's name is 1 to 64 of A-Z a-z 0-9 . _ - and starts with no dot, not 'a/b'",
        ),
        (
            "BG.CREATE a KIND blocked CAPACITY 5 RATE 0.1 BYTES 9",
            "ERR CAPACITY, RATE and BYTES are one too many: two of them give the third",
        ),
        ("BG.CREATE a KIND blocked KIND classic", "ERR option KIND of 'bg.create' was given twice: give it once"),
        ("BG.CREATE a KIND blocked RATE", "ERR option RATE of 'bg.create' needs a value after it"),
        ("BG.CREATE a KIND blocked HASH xxh3 SEED 18446744073709551615", ""),
        ("BG.REMOVE a ITEMS", "ERR wrong number of arguments for 'bg.remove' command"),
        (
            "BG.REMOVE a REQUEST 1 ITEMS",
            "ERR BG.REMOVE needs ITEMS and at least one item: BG.REMOVE name [REQUEST id] ITEMS item",
        ),
        (
            "BG.REMOVE a REQUEST 1",
            "ERR BG.REMOVE needs ITEMS and at least one item: BG.REMOVE name [REQUEST id] ITEMS item",
        ),
        ("BG.REMOVE a REQUEST \"\" ITEMS b", "ERR a REQUEST id is 1 to 64 bytes, not 0: a random number does"),
        ("BG.REMOVE a b c", "ERR unknown option 'b' for 'bg.remove': allowed are REQUEST, ITEMS"),
        ("BG.DELTA a 00", "ERR an address is 64 hexadecimal digits, but 2 characters were given: \"00\""),
        ("BG.FOLD a 1", "ERR a factor (or the word RATE and a rate) must be an integer from 2 to 1048576, not '1'"),
        ("BG.FOLD a RATE 2", "ERR RATE must be a rate from 1e-15 to below 1 (1 % is 0.01), not '2'"),
        ("BG.FOLD a 2", ""),
        ("BG.AUDIT a FOO", "ERR unknown option 'FOO' for 'bg.audit': allowed are RESET"),
        (
            "BG.BUILD a KIND fuse",
            "ERR BG.BUILD needs FROM and a file of the import folder: BG.BUILD name FROM items.txt",
        ),
        (
            "BG.BUILD a FROM /etc/passwd",
            "ERR a file is a path below the import folder, such as lists/items.txt, not '/etc/passwd'",
        ),
        (
            "BG.BUILD a FROM ../secret",
            "ERR a file is a path below the import folder, such as lists/items.txt, not '../secret'",
        ),
        (
            "BG.BUILD a FROM lists/../../x",
            "ERR a file is a path below the import folder, such as lists/items.txt, not 'lists/../../x'",
        ),
        ("BG.BUILD a FROM lists/items.txt KIND ribbon REPLACE", ""),
        ("BG.REKEY a GO", "ERR the step must be one of START, STATUS, FINISH, ABORT, not 'GO'"),
        ("BG.BACKUP ..", "ERR a folder name is 1 to 64 of A-Z a-z 0-9 . _ - and starts with no dot, not '..'"),
        ("BG.HELP nosuch", "ERR there is no command 'nosuch': COMMAND LIST gives all names"),
    ]);
}

#[test]
fn names_and_items_have_their_limits() {
    let (name, item) = (vec![b'n'; MAX_NAME + 1], vec![b'i'; MAX_ITEM + 1]);
    let refused = |words: &[&[u8]]| parse(words).unwrap_err().as_str().to_string();
    assert_eq!(
        refused(&[b"BF.ADD", &name, b"a"]),
        "ERR name is 4097 bytes, at most 4096 are allowed: use a shorter name"
    );
    assert_eq!(refused(&[b"DEL", b"a", &name]), "ERR name is 4097 bytes, at most 4096 are allowed: use a shorter name");
    assert!(parse(&[b"BF.ADD", &name[1..], &item[1..]]).is_ok());
    let long = "is 65537 bytes, at most 65536 are allowed: send its hash instead";
    assert_eq!(refused(&[b"BF.ADD", b"k", &item]), format!("ERR item 1 {long}"));
    assert_eq!(refused(&[b"BF.MEXISTS", b"k", b"a", b"b", &item]), format!("ERR item 3 {long}"));
    assert_eq!(refused(&[b"CF.INSERT", b"k", b"ITEMS", b"a", &item]), format!("ERR item 2 {long}"));
    assert_eq!(refused(&[b"BG.REMOVE", b"k", b"ITEMS", &item]), format!("ERR item 1 {long}"));
    // A chunk of a dump is not an item.
    assert!(parse(&[b"BF.LOADCHUNK", b"k", b"9", &item]).is_ok());
}
