//! What the parsers make of right commands.

use std::time::Duration;

use bloomgate::{Algorithm, Kind, WhenFull};
use bloomgate_command::{
    BfField, ClientKill, CommandFilter, CommandQuery, Create, ExpireOnly, FoldTo, Request, Shutdown, Width,
};

use crate::parsed;

fn is(line: &str, expected: Request<'_>) {
    parsed(line, |result| match result {
        Ok((_, request)) => assert_eq!(request, expected, "{line}"),
        Err(refusal) => panic!("{line}: {refusal}"),
    });
}

#[test]
fn bf_and_cf() {
    let key = &b"k"[..];
    is("BF.RESERVE k 0.01 100", Request::BfReserve { key, rate: 0.01, capacity: 100, expansion: None });
    is("bf.reserve k 1e-3 7 expansion 4", Request::BfReserve { key, rate: 0.001, capacity: 7, expansion: Some(4) });
    is("BF.RESERVE k 0.9 7 NONSCALING", Request::BfReserve { key, rate: 0.25, capacity: 7, expansion: Some(0) });
    is("BF.MADD k a b", Request::BfMadd { key, items: &[b"a", b"b"] });
    is(
        "BF.INSERT k NOCREATE EXPANSION 3 NONSCALING CAPACITY 5 ERROR 0.1 ITEMS ITEMS b",
        Request::BfInsert {
            key,
            capacity: Some(5),
            rate: Some(0.1),
            expansion: Some(0),
            create: false,
            items: &[b"ITEMS", b"b"],
        },
    );
    is("BF.INFO k Filters", Request::BfInfo { key, field: Some(BfField::Filters) });
    is("BF.SCANDUMP k -1", Request::BfScandump { key, iterator: -1 });
    is(
        "CF.RESERVE k 100 BUCKETSIZE 4 FINGERPRINT 16",
        Request::CfReserve {
            key,
            capacity: 100,
            bucket_size: Some(4),
            max_iterations: None,
            expansion: None,
            width: Some(Width::Bits(16)),
        },
    );
    is("CF.INSERTNX k NOCREATE ITEMS a", Request::CfInsertnx { key, capacity: None, create: false, items: &[b"a"] });
    is("CF.LOADCHUNK k 9 d", Request::CfLoadchunk { key, position: 9, data: b"d" });
}

#[test]
fn bg() {
    let name = &b"n"[..];
    let create = Create {
        kind: Some(Kind::GrowingCuckoo),
        capacity: Some(1 << 40),
        rate: Some(0.001),
        growth: Some(2.0),
        on_full: Some(WhenFull::Grow),
        fingerprint: Some(20),
        hash: Some(Algorithm::SipHash24),
        contract: Some("users.v2"),
        ..Create::default()
    };
    is(
        "BG.CREATE n kind Growing-Cuckoo capacity 1099511627776 rate 0.001 growth 2 onfull GROW fingerprint 20 \
         hash SIPHASH24 contract users.v2",
        Request::BgCreate { name, create },
    );
    let create = Create {
        kind: Some(Kind::Rotating),
        bytes: Some(65536),
        window: Some(Duration::from_millis(1500)),
        generations: Some(6),
        hash: Some(Algorithm::Xxh3),
        seed: Some(7),
        ..Create::default()
    };
    is(
        "BG.CREATE n KIND rotating BYTES 65536 WINDOW 1.5 GENERATIONS 6 HASH xxh3 SEED 7",
        Request::BgCreate { name, create },
    );
    is("BG.REMOVE n REQUEST r1 ITEMS a b", Request::BgRemove { name, request: Some(b"r1"), items: &[b"a", b"b"] });
    is("BG.FOLD n 4", Request::BgFold { name, to: FoldTo::Factor(4) });
    is("BG.FOLD n rate 0.1", Request::BgFold { name, to: FoldTo::Rate(0.1) });
    is("BG.AUDIT n reset", Request::BgAudit { name, reset: true });
    is("BG.MERGE n a b", Request::BgMerge { destination: name, sources: &[b"a", b"b"] });
    is(
        "BG.BUILD n FROM a/b.txt RATE 0.1 REPLACE KIND ribbon",
        Request::BgBuild {
            name,
            file: "a/b.txt",
            kind: Some(Kind::Ribbon),
            capacity: None,
            rate: Some(0.1),
            contract: None,
            like: None,
            replace: true,
        },
    );
    let (file, replace) = ("items", false);
    let plain = |contract, like| Request::BgBuild {
        name,
        file,
        kind: None,
        capacity: None,
        rate: None,
        contract,
        like,
        replace,
    };
    is("BG.BUILD n FROM items CONTRACT orders", plain(Some("orders"), None));
    is("BG.BUILD n LIKE other FROM items", plain(None, Some(b"other")));
    is("BG.HELP bf.add", Request::BgHelp { command: bloomgate_command::find(b"bf.add") });
}

#[test]
fn redis() {
    let key = &b"k"[..];
    let later = ExpireOnly { if_set: true, later: true, ..ExpireOnly::default() };
    is("EXPIRE k 5 XX GT", Request::Expire { command: "expire", key, milliseconds: 5000, from_now: true, only: later });
    let always = ExpireOnly::default();
    is("PEXPIREAT k 5", Request::Expire { command: "pexpireat", key, milliseconds: 5, from_now: false, only: always });
    is("SCAN 7", Request::Scan { cursor: 7, pattern: None, count: 10, kind: None });
    is("HELLO 3 SETNAME me AUTH u p", Request::Hello { version: Some(3), auth: Some((b"u", b"p")), name: Some(b"me") });
    is("AUTH p", Request::Auth { user: None, password: b"p" });
    is("AUTH u p", Request::Auth { user: Some(b"u"), password: b"p" });
    is(
        "CLIENT KILL ID 5 SKIPME no",
        Request::ClientKill(ClientKill::Matching {
            id: Some(5),
            address: None,
            local: None,
            user: None,
            skip_me: false,
        }),
    );
    is("COMMAND", Request::Command(CommandQuery::All));
    is("COMMAND LIST FILTERBY ACLCAT bloom", Request::Command(CommandQuery::List(CommandFilter::Category(b"bloom"))));
    is("SHUTDOWN NOSAVE", Request::Shutdown(Shutdown { save: Some(false), ..Shutdown::default() }));
    is("CONFIG SET a 1 b 2", Request::ConfigSet { pairs: &[b"a", b"1", b"b", b"2"] });
    is("COPY k d DB 0 REPLACE", Request::Copy { source: key, destination: b"d", db: Some(0), replace: true });
}

#[test]
fn small_filters_are_made_within_a_turn_and_large_ones_are_not() {
    for (line, small) in [
        ("BF.RESERVE k 0.01 1048576", true),
        ("BF.RESERVE k 0.01 1048577", false),
        ("BF.INSERT k ITEMS a", true),
        ("BF.INSERT k CAPACITY 1000000000 ITEMS a", false),
        ("CF.RESERVE k 1000", true),
        ("BG.CREATE k KIND blocked CAPACITY 1000", true),
        ("BG.CREATE k KIND blocked BYTES 1000000000", false),
        ("KEYS *", false),
        ("SAVE", false),
        ("SHUTDOWN", true),
        ("SHUTDOWN NOSAVE NOW", true),
        ("SHUTDOWN SAVE", false),
        ("SHUTDOWN NOW SAVE FORCE", false),
    ] {
        parsed(line, |result| {
            let (spec, request) = result.unwrap();
            assert!(spec.heavy, "{line}");
            assert_eq!(request.is_small(), small, "{line}");
        });
    }
    for line in ["BF.ADD k a", "BF.MEXISTS k a", "CF.DEL k a", "BG.EXISTS k a", "PING"] {
        parsed(line, |result| assert!(!result.unwrap().0.heavy, "{line}"));
    }
}
