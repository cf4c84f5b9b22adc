//! Replies in both protocols, and what `COMMAND` and its like answer.

use bloomgate_command::{
    CommandFilter, CommandQuery, Protocol, Refusal, Reply, TABLE, acl_cat_reply, command_reply, command_reply_in, find,
    help_reply, write,
};

fn both(reply: &Reply) -> (String, String) {
    let text = |protocol| String::from_utf8(reply.to_bytes(protocol)).unwrap();
    (text(Protocol::Resp2), text(Protocol::Resp3))
}

#[test]
fn each_reply_is_written_as_its_protocol_says() {
    let map =
        Reply::Map(vec![(Reply::simple("Capacity"), Reply::Int(100)), (Reply::simple("Expansion rate"), Reply::Nil)]);
    for (reply, resp2, resp3) in [
        (Reply::Ok, "+OK\r\n", "+OK\r\n"),
        (Reply::simple("PONG"), "+PONG\r\n", "+PONG\r\n"),
        (Reply::Error(Refusal::NOT_FOUND), "-ERR not found\r\n", "-ERR not found\r\n"),
        (Reply::Int(0), ":0\r\n", ":0\r\n"),
        (Reply::Int(-1), ":-1\r\n", ":-1\r\n"),
        (Reply::Int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (Reply::Int(i64::MAX), ":9223372036854775807\r\n", ":9223372036854775807\r\n"),
        (Reply::Bool(true), ":1\r\n", "#t\r\n"),
        (Reply::Bool(false), ":0\r\n", "#f\r\n"),
        (Reply::Stored(true), ":1\r\n", "#t\r\n"),
        (Reply::Stored(false), ":-1\r\n", "#f\r\n"),
        (Reply::Double(0.01), "$4\r\n0.01\r\n", ",0.01\r\n"),
        (Reply::Double(-3.0), "$2\r\n-3\r\n", ",-3\r\n"),
        (Reply::Double(0.0), "$1\r\n0\r\n", ",0\r\n"),
        (Reply::Double(1e-9), "$4\r\n1e-9\r\n", ",1e-9\r\n"),
        (Reply::Double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
        (Reply::Double(f64::NEG_INFINITY), "$4\r\n-inf\r\n", ",-inf\r\n"),
        (Reply::Double(f64::NAN), "$3\r\nnan\r\n", ",nan\r\n"),
        (Reply::Bulk(b"a\r\nb".to_vec()), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
        (Reply::text(""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (Reply::Verbatim("ab".into()), "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"),
        (Reply::Nil, "$-1\r\n", "_\r\n"),
        (Reply::NilArray, "*-1\r\n", "_\r\n"),
        (Reply::Array(vec![Reply::Int(7), Reply::Bool(true)]), "*2\r\n:7\r\n:1\r\n", "*2\r\n:7\r\n#t\r\n"),
        (
            map,
            "*4\r\n+Capacity\r\n:100\r\n+Expansion rate\r\n$-1\r\n",
            "%2\r\n+Capacity\r\n:100\r\n+Expansion rate\r\n_\r\n",
        ),
        (Reply::Field("Size", Box::new(Reply::Int(9))), "*1\r\n:9\r\n", "%1\r\n+Size\r\n:9\r\n"),
        (Reply::Set(vec![Reply::Int(1)]), "*1\r\n:1\r\n", "~1\r\n:1\r\n"),
        (Reply::Raw(b"*0\r\n".to_vec()), "*0\r\n", "*0\r\n"),
    ] {
        assert_eq!(both(&reply), (resp2.to_string(), resp3.to_string()), "{reply:?}");
    }
}

#[test]
fn an_error_is_one_short_line_whatever_is_in_it() {
    let line = |text: &str| {
        let mut out = Vec::new();
        write::error(&mut out, text);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(line("ERR a\r\n+OK\r\nb\x07\x7f\tc"), "-ERR a\\r\\n+OK\\r\\nb\\x07\\x7f\\tc\r\n");
    assert_eq!(line(&"x".repeat(600)), format!("-{}\r\n", "x".repeat(512)));
    // Nothing is cut in the middle of a character or of an escape.
    assert_eq!(line(&"ü".repeat(300)), format!("-{}\r\n", "ü".repeat(256)));
    assert_eq!(line(&format!("{}\n", "x".repeat(511))), format!("-{}\r\n", "x".repeat(511)));
    let hostile: Vec<&[u8]> = vec![b"no\r\n+OK", b"\xff\xfe\0"];
    let refusal = bloomgate_command::parse(&hostile).unwrap_err();
    let wire = Reply::Error(refusal).to_bytes(Protocol::Resp3);
    assert_eq!(wire.iter().filter(|&&byte| byte == b'\n').count(), 1);
    assert!(wire.ends_with(b"\r\n") && wire.len() <= 515);
    let long = vec![b'a'; 100_000];
    let words: Vec<&[u8]> = vec![&long; 100];
    assert!(Reply::Error(bloomgate_command::parse(&words).unwrap_err()).to_bytes(Protocol::Resp2).len() <= 515);
}

#[test]
fn integers_are_written_as_fmt_writes_them() {
    let mut state = 7u64;
    for _ in 0..10_000 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let value = (state as i64) >> (state >> 58);
        let mut out = Vec::new();
        write::int(&mut out, value);
        assert_eq!(out, format!(":{value}\r\n").into_bytes());
    }
}

#[test]
fn command_describes_the_table() {
    let Reply::Array(all) = command_reply(&CommandQuery::All) else { panic!() };
    assert_eq!(all.len(), TABLE.len());
    assert_eq!(command_reply(&CommandQuery::Count), Reply::Int(TABLE.len() as i64));
    for protocol in [Protocol::Resp2, Protocol::Resp3, Protocol::Resp2] {
        let one: [&[u8]; 1] = [b"BF.ADD"];
        let queries = [CommandQuery::All, CommandQuery::Docs(&[]), CommandQuery::Info(&[]), CommandQuery::Docs(&one)];
        for query in queries {
            let written = command_reply_in(protocol, &query).to_bytes(protocol);
            assert_eq!(written, command_reply(&query).to_bytes(protocol), "{protocol:?} {query:?}");
        }
    }

    let Reply::Array(entries) = command_reply(&CommandQuery::Info(&[b"BF.ADD", b"nosuch", b"client|id"])) else {
        panic!()
    };
    let (resp2, resp3) = both(&entries[0]);
    assert!(
        resp2.starts_with(
            "*10\r\n$6\r\nbf.add\r\n:3\r\n*2\r\n+write\r\n+denyoom\r\n:1\r\n:1\r\n:1\r\n*3\r\n+@write\r\n"
        )
    );
    assert!(
        resp3.starts_with(
            "*10\r\n$6\r\nbf.add\r\n:3\r\n~2\r\n+write\r\n+denyoom\r\n:1\r\n:1\r\n:1\r\n~3\r\n+@write\r\n"
        )
    );
    assert_eq!(entries[1], Reply::NilArray);
    assert!(both(&entries[2]).0.starts_with("*10\r\n$9\r\nclient|id\r\n:2\r\n"));

    let Reply::Map(docs) = command_reply(&CommandQuery::Docs(&[b"bf.add", b"nosuch"])) else { panic!() };
    assert_eq!(docs.len(), 1, "unknown names are left out");
    assert_eq!(docs[0].0, "bf.add".into());

    let list = |filter| match command_reply(&CommandQuery::List(filter)) {
        Reply::Array(names) => names.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(list(CommandFilter::Pattern(b"BF.*")), 11);
    assert_eq!(list(CommandFilter::Pattern(b"cf.*")), 14);
    assert_eq!(list(CommandFilter::Category(b"delete")), 15);
    assert_eq!(list(CommandFilter::Category(b"nosuch")), 0);
    assert_eq!(list(CommandFilter::Module(b"bf")), 25);
    assert_eq!(list(CommandFilter::Module(b"search")), 0);
    assert!(list(CommandFilter::None) > TABLE.len(), "subcommands are listed too");

    let keys = |words: &[&[u8]]| command_reply(&CommandQuery::GetKeys(words));
    assert_eq!(
        keys(&[b"BG.MERGE", b"a", b"b"]),
        Reply::Array(vec![Reply::Bulk(b"a".to_vec()), Reply::Bulk(b"b".to_vec())])
    );
    assert_eq!(keys(&[b"nosuch"]), Reply::Error(Refusal::new("ERR Invalid command specified")));
    assert_eq!(keys(&[b"PING"]), Reply::Error(Refusal::new("ERR The command has no key arguments")));
    assert_eq!(
        keys(&[b"BF.ADD", b"k"]),
        Reply::Error(Refusal::new("ERR Invalid number of arguments specified for command"))
    );
}

#[test]
fn help_and_rights_are_listed() {
    let Reply::Array(lines) = help_reply(find(b"client").unwrap()) else { panic!() };
    assert!(lines.contains(&Reply::simple("SETNAME name")));
    let Reply::Array(deleting) = acl_cat_reply(Some(b"delete")) else { panic!() };
    assert_eq!(deleting[..2], ["cf.del".into(), "bg.remove".into()]);
    assert!(deleting.contains(&"del".into()) && !deleting.contains(&"bf.add".into()));
    let Reply::Array(rights) = acl_cat_reply(None) else { panic!() };
    assert!(rights.contains(&Reply::text("cuckoo")));
}
