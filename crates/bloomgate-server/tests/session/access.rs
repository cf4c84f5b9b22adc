//! Users, passwords and roles, as clients meet them.

use std::sync::Arc;

use bloomgate_command::{Flag, Role, every_command};
use bloomgate_server::Settings;
use bloomgate_server::access::{Directory, Namespace};
use bloomgate_server::session::desk::Desk;
use bloomgate_server::session::{Next, Session, run_job};
use bloomgate_server::settings::table;

use super::talk::{Talk, desk, engine, readable};

/// A server with users of one role each, all with the password "p", and one of all roles.
fn staffed() -> Talk {
    let mut talk = Talk::new();
    for role in Role::ALL {
        talk.check(&format!("ACL SETUSER {role}r on >p +@{role} => +OK"));
    }
    talk.check("ACL SETUSER boss on >p +@all => +OK");
    talk
}

impl Talk {
    /// Another client, logged in as a user with the password "p".
    fn logged_in(&self, user: &str) -> Self {
        let mut talk = self.another();
        talk.check(&format!("AUTH {user} p => +OK"));
        talk
    }
}

fn with_password(password: &str) -> Desk {
    let mut settings = Settings::default();
    table::set(&mut settings, "password", password).unwrap();
    assert!(!format!("{settings:?}").contains(password), "settings show no password");
    Desk::new(1, Some(Directory::open(&settings).unwrap()), String::new(), Vec::new())
}

#[test]
fn nobody_but_default_may_do_everything_at_first() {
    let mut talk = Talk::new();
    talk.check(
        "ACL WHOAMI => $7 default
         ACL USERS => *1 $7 default
         ACL LIST => *1 $34 user default on nopass ~* &* +@all
         ACL GETUSER nobody => $-1
         ACL GETUSER default => *14 $5 flags *2 $2 on $6 nopass $9 passwords *0 $8 commands $5 +@all $4 keys $2 ~* $8 channels $2 &* $9 selectors *0 $9 namespace $-1
         ACL CAT nonsense => -ERR Unknown category 'nonsense'
         AUTH x => -ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?
         AUTH default anything => +OK
         AUTH nobody x => -WRONGPASS invalid username-password pair or user is disabled.
         ACL WHOAMI => $7 default",
    );
    assert!(talk.say("ACL CAT").contains("delete"));
    assert!(talk.say("ACL CAT delete").contains("cf.del"));
    let mut talk = talk.resp3();
    assert!(talk.say("ACL GETUSER default").starts_with("%7 $5 flags ~2 $2 on $6 nopass"));
}

#[test]
fn the_setting_is_the_password_of_default_and_is_shown_nowhere() {
    let mut talk = Talk::with(engine(1 << 20), with_password("open sesame"));
    talk.check(
        "ACL LIST => -NOAUTH Authentication required.
         PING => -NOAUTH Authentication required.
         NONSENSE => -NOAUTH Authentication required.
         AUTH sesame => -WRONGPASS invalid username-password pair or user is disabled.
         AUTH default sesame => -WRONGPASS invalid username-password pair or user is disabled.
         AUTH nobody sesame => -WRONGPASS invalid username-password pair or user is disabled.",
    );
    assert_eq!(talk.send(&[b"AUTH", b"open sesame"]), b"+OK\r\n");
    talk.check(
        "ACL LIST => *1 $38 user default on #(setting) ~* &* +@all
         ACL SETUSER default >other => -ERR Error in ACL SETUSER modifier '>...': the password of the default user is the setting `password`: change it where the server is started
         ACL SETUSER default nopass => -ERR Error in ACL SETUSER modifier 'nopass': the password of the default user is the setting `password`: change it where the server is started
         CONFIG SET slowlog-log-slower-than 0 => +OK",
    );
    // Neither does what is kept for people to look at.
    assert_eq!(talk.send(&[b"AUTH", b"default", b"open sesame"]), b"+OK\r\n");
    talk.send(&[b"ACL", b"SETUSER", b"ann", b">open sesame"]);
    talk.send(&[b"HELLO", b"2", b"AUTH", b"ann", b"open sesame"]);
    talk.send(&[b"AUTH", b"ann", b"open sesame, too"]);
    for command in [
        "ACL GETUSER default",
        "ACL GETUSER ann",
        "ACL LIST",
        "CONFIG GET *",
        "SLOWLOG GET -1",
        "ACL LOG",
        "INFO all",
        "CLIENT LIST",
    ] {
        let told = talk.say(command);
        assert!(!told.contains("sesame") && !told.starts_with('-'), "{command}: {told}");
    }
    assert!(talk.say("SLOWLOG GET -1").contains("$3 ACL $7 SETUSER $10 (redacted)"));
    assert!(!format!("{:?}", talk.desk).contains("sesame"));
}

#[test]
fn guests_get_little_room_until_they_log_in() {
    let mut talk = Talk::with(engine(1 << 24), with_password("pw"));
    let long = "x".repeat(20_000);
    let (mut out, mut another) = (Vec::new(), talk.another());
    let input = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{long}\r\n", long.len());
    let turn = another.session.turn(&mut another.core, &another.desk, input.as_bytes(), &mut out);
    assert_eq!((turn.next, out.starts_with(b"-ERR Protocol error")), (Next::Close, true));
    // In one pipeline with the login, what comes behind it has all the room there is.
    let input =
        format!("*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n${}\r\n{long}\r\n", long.len());
    assert_eq!(talk.pipeline(input.as_bytes()), (input.len(), "+OK :1".to_owned()));
}

#[test]
fn each_role_may_give_its_own_commands_and_no_others() {
    let boss = staffed();
    let lines: Vec<(&str, Option<Role>)> = every_command()
        .filter(|spec| spec.subcommands.is_empty() && !spec.has(Flag::NoAuth))
        // What ends the conversation or holds replies back, and what nobody may.
        .filter(|spec| !["shutdown", "client|reply", "client|kill", "multi", "debug", "swapdb"].contains(&spec.name))
        // What changes who may do what.
        .filter(|spec| !["acl|setuser", "acl|deluser", "acl|load", "acl|save"].contains(&spec.name))
        .map(|spec| (spec.example.0, spec.role()))
        .collect();
    assert!(lines.len() > 120);
    for role in Role::ALL {
        let mut talk = boss.logged_in(&format!("{role}r"));
        for (line, needs) in &lines {
            let line = line.replace("<iterator>", "1").replace("<address>", &"0".repeat(64)).replace(" REPLACE", "");
            let reply = talk.say(&line);
            let allowed = needs.is_none_or(|needs| needs == role);
            assert_eq!(!reply.starts_with("-NOPERM"), allowed, "{role}: {line}: {reply}");
        }
        assert_eq!(talk.say("PING"), "+PONG");
    }
    let mut reader = boss.logged_in("readr");
    reader.check(
        "BF.ADD f a => -NOPERM User readr has no permissions to run the 'bf.add' command: it needs the role write
         CONFIG GET * => -NOPERM User readr has no permissions to run the 'config|get' command: it needs the role admin
         ACL WHOAMI => $5 readr",
    );
    let mut writer = boss.logged_in("writer");
    writer.check(
        "BF.ADD g a => :1
         COPY g h => :1
         COPY g h REPLACE => -NOPERM User writer has no permissions to run the 'copy' command: it needs the role delete
         BF.EXISTS g a => -NOPERM User writer has no permissions to run the 'bf.exists' command: it needs the role read
         DEL g => -NOPERM User writer has no permissions to run the 'del' command: it needs the role delete",
    );
}

#[test]
fn pipelines_are_checked_item_command_by_item_command() {
    let boss = staffed();
    let no = |user: &str, command: &str, role: &str| {
        format!("-NOPERM User {user} has no permissions to run the '{command}' command: it needs the role {role}")
    };
    let items: Vec<String> = (0..1_500).map(|item| format!("item{item}")).collect();
    let mut writer = boss.logged_in("writer");
    writer.check("BF.RESERVE f 0.0000001 10000 => +OK");
    assert!(writer.each("BF.ADD", "f", &items).iter().all(|reply| reply == ":1"));
    assert!(writer.each("BF.EXISTS", "f", &items).iter().all(|reply| *reply == no("writer", "bf.exists", "read")));
    let mut reader = boss.logged_in("readr");
    assert!(reader.each("BF.EXISTS", "f", &items).iter().all(|reply| reply == ":1"));
    assert!(reader.each("BF.ADD", "f", &items).iter().all(|reply| *reply == no("readr", "bf.add", "write")));
    assert_eq!(reader.say("BF.CARD f"), ":1500");
}

#[test]
fn transactions_are_checked_when_they_are_queued_and_when_they_run() {
    let mut boss = staffed();
    let mut writer = boss.logged_in("writer");
    writer.check(
        "MULTI => +OK
         BF.ADD f a => +QUEUED
         DEL f => -NOPERM User writer has no permissions to run the 'del' command: it needs the role delete
         EXEC => -EXECABORT Transaction discarded because of previous errors.
         MULTI => +OK
         BF.ADD f a => +QUEUED
         ACL WHOAMI => +QUEUED
         BF.RESERVE g 0.01 100 => +QUEUED",
    );
    boss.check("ACL SETUSER writer -@write +@read => +OK");
    let no = |command: &str| {
        format!("-NOPERM User writer has no permissions to run the '{command}' command: it needs the role write")
    };
    assert_eq!(writer.say("EXEC"), format!("*3 {} $6 writer {}", no("bf.add"), no("bf.reserve")));
    boss.check("DBSIZE => :0");
    // What changes users is no part of one: it would hold everybody up while it hashes.
    boss.check("MULTI => +OK");
    assert!(boss.say("ACL SETUSER x >y").contains("is not allowed in transactions"));
    boss.check("DISCARD => +OK");
}

/// A command that waits for a worker is checked again before it runs.
#[test]
fn long_commands_are_checked_when_they_come_and_when_they_run() {
    let mut boss = staffed();
    let mut out = Vec::new();
    let mut hand = |talk: &mut Talk, line: &str| {
        out.clear();
        let turn = talk.session.turn(&mut talk.core, &talk.desk, format!("{line}\r\n").as_bytes(), &mut out);
        talk.session.forget(turn.consumed);
        (turn.next, readable(&out))
    };
    let mut reader = boss.logged_in("readr");
    let (next, reply) = hand(&mut reader, "BF.RESERVE f 0.01 10000000");
    assert_eq!(
        (next, reply.as_str()),
        (Next::Read, "-NOPERM User readr has no permissions to run the 'bf.reserve' command: it needs the role write")
    );
    let mut writer = boss.logged_in("writer");
    for (change, answer) in [
        (
            "ACL SETUSER writer -@all",
            "-NOPERM User writer has no permissions to run the 'bf.reserve' command: it needs the role write",
        ),
        ("ACL DELUSER writer", "-NOAUTH Authentication required."),
    ] {
        boss.check("ACL SETUSER writer +@write => +OK");
        let (Next::Job(job), reply) = hand(&mut writer, "BF.RESERVE f 0.01 10000000") else { panic!("it is no job") };
        assert_eq!(reply, "");
        boss.say(change);
        let mut out = Vec::new();
        run_job(&mut writer.core, &writer.desk, &job, &mut out);
        assert_eq!(readable(&out), answer);
    }
    boss.check("DBSIZE => :0");
}

#[test]
fn a_change_counts_from_the_next_turn_and_who_is_gone_loses_the_connection() {
    let mut boss = staffed();
    let mut writer = boss.logged_in("writer");
    let mut idle = boss.logged_in("writer");
    boss.check("ACL SETUSER writer -@write +@read => +OK");
    writer
        .check("BF.ADD f a => -NOPERM User writer has no permissions to run the 'bf.add' command: it needs the role write\nBF.EXISTS f a => :0");
    assert!(boss.say("CLIENT LIST").contains("user=writer\n") || boss.say("CLIENT LIST").contains("user=writer"));
    // A new password keeps those that are there.
    boss.check("ACL SETUSER writer resetpass >q => +OK");
    writer.check("PING => +PONG\nAUTH writer p => -WRONGPASS invalid username-password pair or user is disabled.\nACL WHOAMI => $6 writer");
    for (change, reply) in [("ACL SETUSER writer off", "+OK"), ("ACL DELUSER writer nobody", ":1")] {
        boss.check("ACL SETUSER writer on +@all resetpass >p => +OK");
        let mut there = boss.logged_in("writer");
        assert_eq!(boss.say(change), reply);
        assert!(there.session.client.is_killed() && idle.session.client.is_killed(), "{change}");
        assert!(!boss.session.client.is_killed());
        let mut out = Vec::new();
        let turn = there.session.turn(&mut there.core, &there.desk, b"BF.ADD f a\r\n", &mut out);
        assert_eq!((turn.consumed, turn.next, out.len()), (0, Next::Drop, 0), "{change}");
        assert_eq!(
            there.another().say("AUTH writer p"),
            "-WRONGPASS invalid username-password pair or user is disabled."
        );
    }
    assert_eq!(idle.session.turn(&mut idle.core, &idle.desk, b"PING\r\n", &mut Vec::new()).next, Next::Drop);
}

/// Who is deleted while a password is checked does not get in by it.
#[test]
fn a_login_of_somebody_who_is_deleted_meanwhile_is_none() {
    let mut boss = staffed();
    let mut talk = boss.another();
    let mut out = Vec::new();
    let input = b"AUTH writer p\r\nACL WHOAMI\r\n";
    let turn = talk.session.turn(&mut talk.core, &talk.desk, input, &mut out);
    talk.session.forget(turn.consumed);
    let Next::Job(job) = turn.next else { panic!("{:?}", turn.next) };
    assert_eq!((turn.consumed, format!("{:?}", job.login)), (15, "Some(Login(writer))".to_owned()));
    run_job(&mut talk.core, &talk.desk, &job, &mut out);
    assert_eq!(out, b"+OK\r\n");
    boss.check("ACL DELUSER writer => :1");
    let turn = talk.session.turn(&mut talk.core, &talk.desk, &input[15..], &mut out);
    assert_eq!((turn.next, out.len()), (Next::Drop, 5));
}

#[test]
fn a_password_is_hashed_once_and_remembered() {
    let boss = staffed();
    let mut talk = boss.another();
    let mut login = |line: &str| {
        let mut out = Vec::new();
        let turn = talk.session.turn(&mut talk.core, &talk.desk, format!("{line}\r\n").as_bytes(), &mut out);
        talk.session.forget(turn.consumed);
        let at_once = turn.next == Next::Read;
        if let Next::Job(job) = turn.next {
            run_job(&mut talk.core, &talk.desk, &job, &mut out);
        }
        (at_once, readable(&out).chars().take(9).collect::<String>())
    };
    let ok = "+OK".to_owned();
    assert_eq!(login("AUTH writer p"), (false, ok.clone()), "the first time it is checked");
    assert_eq!(login("AUTH writer p"), (true, ok.clone()), "then it is known");
    // A wrong one is never decided on the reactor: by its time nobody can tell what is wrong with it.
    for wrong in ["AUTH writer q", "AUTH nobody p", "AUTH writer P", "AUTH default2 p", "HELLO 3 AUTH writer q"] {
        assert_eq!(login(wrong), (false, "-WRONGPAS".to_owned()), "{wrong}");
    }
    assert_eq!(login("AUTH writer p"), (true, ok), "and is still known");
    assert!(login("HELLO 3 AUTH writer p SETNAME me").1.starts_with("%7"));
    assert_eq!(talk.say("CLIENT GETNAME"), "$2 me");
}

#[test]
fn hello_logs_in_and_chooses_the_protocol_in_one_step() {
    let boss = staffed();
    let mut talk = Talk::join(boss.engine.clone(), boss.desk.clone());
    assert!(talk.say("HELLO 3 AUTH readr wrong SETNAME me").starts_with("-WRONGPASS"));
    talk.check("CLIENT GETNAME => $-1\nACL WHOAMI => $7 default");
    assert!(talk.say("HELLO 3 AUTH readr p SETNAME me").starts_with("%7 $6 server $5 redis"));
    talk.check("ACL WHOAMI => $5 readr\nCLIENT GETNAME => $2 me\nBF.EXISTS f a => #f");
    talk.check("RESET => +RESET\nACL WHOAMI => $7 default");
}

#[test]
fn rules_are_redis_words_and_wrong_ones_say_what_is_possible() {
    let mut talk = Talk::new();
    let hash = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
    talk.check(&format!(
        "ACL SETUSER ann => +OK
         ACL LIST => *2 $24 user ann off ~* &* -@all $34 user default on nopass ~* &* +@all
         ACL SETUSER ann ON >one >two >one #{hash} allkeys ~* &* +@READ +@write -@read sanitize-payload => +OK
         ACL GETUSER ann => *14 $5 flags *1 $2 on $9 passwords *3 $10 (argon2id) $10 (argon2id) $8 (sha256) $8 commands $13 -@all +@write $4 keys $2 ~* $8 channels $2 &* $9 selectors *0 $9 namespace $-1
         ACL SETUSER ann <one !{hash} => +OK
         ACL GETUSER ann => *14 $5 flags *1 $2 on $9 passwords *1 $10 (argon2id) $8 commands $13 -@all +@write $4 keys $2 ~* $8 channels $2 &* $9 selectors *0 $9 namespace $-1
         ACL SETUSER ann <one => -ERR Error in ACL SETUSER modifier '<...': the password that is to go is not one of the user's
         ACL SETUSER ann nopass allcommands => +OK
         ACL LIST => *2 $30 user ann on nopass ~* &* +@all $34 user default on nopass ~* &* +@all
         ACL SETUSER ann reset => +OK
         ACL SETUSER ann ~shop:* => -ERR Error in ACL SETUSER modifier '~shop:*': names are not limited by patterns here: bind the user to a namespace (namespace=NAME)
         ACL SETUSER ann +get => -ERR Error in ACL SETUSER modifier '+get': users have roles here, not single commands: give +@read, +@write, +@delete or +@admin
         ACL SETUSER ann -@dangerous => -ERR Error in ACL SETUSER modifier '-@dangerous': users have the roles @read, @write, @delete and @admin, or @all of them; other categories are not given
         ACL SETUSER ann (+@read) => -ERR Error in ACL SETUSER modifier '(+@read)': there are no selectors here: give the user roles, and a namespace (namespace=NAME)
         ACL SETUSER ann namespace=shop => -ERR Error in ACL SETUSER modifier 'namespace=shop': there is no namespace 'shop': declare it first
         ACL SETUSER ann #abc => -ERR Error in ACL SETUSER modifier '#...': a SHA-256 has 64 hexadecimal digits
         ACL SETUSER ann > => -ERR Error in ACL SETUSER modifier '>...': a password has 1 to 512 bytes, not 0
         ACL SETUSER a/b on => -ERR the name of a user has 1 to 128 of the characters A-Z a-z 0-9 . _ - and not 'a/b'
         ACL DELUSER default => -ERR The 'default' user cannot be removed: switch it off (ACL SETUSER default off)
         ACL DELUSER ann bob => :1
         ACL DELUSER ann => :0"
    ));
    let wrong = talk.say("ACL SETUSER ann maybe");
    assert!(wrong.contains("'maybe': Syntax error: possible are on, off, >password"), "{wrong}");
    // All rules or none.
    assert!(talk.say("ACL SETUSER ann on >p nonsense").starts_with("-ERR"));
    talk.check("ACL GETUSER ann => $-1");
    let long = format!("ACL SETUSER ann >{}", "x".repeat(513));
    assert!(talk.say(&long).ends_with("a password has 1 to 512 bytes, not 513"));
    let many: Vec<String> = (0..9).map(|number| format!(">p{number}")).collect();
    assert!(talk.say(&format!("ACL SETUSER ann {}", many.join(" "))).contains("at most 8 passwords"));
    // What is left when a shell has taken >password for itself.
    let eaten = talk.say("ACL SETUSER eve on +@all");
    assert!(eaten.contains("'eve' would be on and have no password") && eaten.contains("a shell takes >"), "{eaten}");
    talk.check(
        "ACL GETUSER eve => $-1
         ACL SETUSER eve on resetpass +@all => +OK
         ACL DELUSER eve => :1
         ACL SETUSER eve on nopass +@all => +OK
         ACL SETUSER eve resetpass => +OK
         ACL DELUSER eve => :1
         ACL SETUSER eve on => +OK
         ACL SETUSER eve +@all => +OK
         ACL DELUSER eve => :1",
    );
    // Redis's hash logs in.
    talk.check(&format!("ACL SETUSER ann on #{hash} +@read => +OK\nAUTH ann secret => +OK\nACL WHOAMI => $3 ann"));
}

#[test]
fn the_last_admin_stays() {
    let mut talk = Talk::new();
    let refused = "-ERR nobody could change users any more: make another user first that can log in and has +@admin and no namespace";
    talk.check(&format!(
        "ACL SETUSER default off => {refused}
         ACL SETUSER default -@admin => {refused}
         ACL SETUSER default resetpass => {refused}
         ACL SETUSER boss on resetpass +@all => +OK
         ACL SETUSER default off => {refused}
         ACL SETUSER boss >p => +OK"
    ));
    let mut boss = talk.another();
    boss.check(&format!("AUTH boss p => +OK\nACL SETUSER default off => +OK\nACL DELUSER boss => {refused}"));
    assert!(talk.session.client.is_killed());
    talk.another().check("PING => -NOAUTH Authentication required.\nAUTH default x => -WRONGPASS invalid username-password pair or user is disabled.");
}

#[test]
fn a_user_of_a_namespace_is_bound_to_a_declared_one_and_never_steers_the_server() {
    let mut talk = Talk::new();
    let shop = Namespace { prefix: "shop:".to_owned(), ..Namespace::default() };
    talk.desk.access.change(|book| Ok(book.namespaces.insert("shop".to_owned(), shop))).unwrap();
    talk.check("ACL SETUSER ann on nopass +@all namespace=shop => +OK");
    assert!(talk.say("ACL GETUSER ann").ends_with("$9 namespace $4 shop"));
    assert!(talk.say("ACL LIST").contains("user ann on nopass ~* &* +@all namespace=shop"));
    let mut ann = talk.another();
    ann.check(
        "AUTH ann x => +OK
         CONFIG GET * => -NOPERM User ann has no permissions to run the 'config|get' command: it is about the whole server, and the user is bound to the namespace 'shop'
         SHUTDOWN => -NOPERM User ann has no permissions to run the 'shutdown' command: it is about the whole server, and the user is bound to the namespace 'shop'
         ACL SETUSER ann namespace=* => -NOPERM User ann has no permissions to run the 'acl|setuser' command: it is about the whole server, and the user is bound to the namespace 'shop'
         BG.REKEY f STATUS => -ERR not found",
    );
    assert_eq!(ann.session.user().and_then(|user| user.namespace.as_deref()), Some("shop"));
    talk.check("ACL SETUSER ann namespace=* => +OK");
    ann.check("CONFIG GET databases => *2 $9 databases $1 1");
    assert_eq!(ann.session.user().unwrap().namespace, None);
}

#[test]
fn what_was_refused_is_noted_and_counted() {
    let mut boss = staffed();
    let mut reader = boss.logged_in("readr");
    reader.say("DEL f");
    reader.say("DEL g");
    reader.say("AUTH readr wrong");
    reader.say("HELLO 2 AUTH mallory wrong");
    let log = boss.say("ACL LOG");
    let entries: Vec<&str> = log.split("*20 ").collect();
    assert_eq!(entries.len(), 4, "{log}");
    assert!(entries[1].contains("$4 auth $7 context $8 toplevel $6 object $5 hello $8 username $9 (unknown)"), "{log}");
    assert!(entries[2].contains("$6 object $4 auth $8 username $5 readr"), "{log}");
    assert!(entries[3].starts_with("$5 count :2 $6 reason $7 command"), "{log}");
    assert!(entries[3].contains("$6 object $3 del $8 username $5 readr") && entries[3].contains("user=readr"), "{log}");
    // The command that was refused, not the one before it.
    for (entry, command) in [(1, "cmd=hello "), (2, "cmd=auth "), (3, "cmd=del ")] {
        assert!(entries[entry].contains(command), "{log}");
    }
    assert_eq!(boss.say("ACL LOG 1").matches("$5 count").count(), 1);
    let info = boss.say("INFO stats");
    assert!(info.contains("acl_access_denied_auth:2 acl_access_denied_cmd:2"), "{info}");
    boss.check("ACL LOG RESET => +OK\nACL LOG => *0\nCONFIG RESETSTAT => +OK\nACL LOG x => -ERR value is not an integer or out of range");
    assert!(boss.say("INFO stats").contains("acl_access_denied_auth:0"));
}

#[test]
fn small_answers() {
    let mut boss = staffed();
    boss.check(
        "ACL DRYRUN readr BF.EXISTS f a => +OK
         ACL DRYRUN readr DEL f => $80 User readr has no permissions to run the 'del' command: it needs the role delete
         ACL DRYRUN nobody DEL f => -ERR User 'nobody' not found
         ACL DRYRUN readr DEL => -ERR wrong number of arguments for 'del' command
         ACL GENPASS 0 => -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
         ACL USERS => *6 $6 adminr $4 boss $7 default $7 deleter $5 readr $6 writer
         CLIENT KILL USER nobody => -ERR No such user 'nobody'",
    );
    let (one, other) = (boss.say("ACL GENPASS"), boss.say("ACL GENPASS"));
    assert!(one.starts_with("$64 ") && one != other, "{one}");
    assert_eq!(boss.say("ACL GENPASS 5").len(), "$2 xy".len());
    let reader = boss.logged_in("readr");
    boss.check("CLIENT KILL USER readr => :1");
    assert!(reader.session.client.is_killed());
    for without_file in ["ACL LOAD", "ACL SAVE"] {
        assert!(boss.say(without_file).starts_with("-ERR there is no access file"), "{without_file}");
    }
}

#[test]
fn clients_of_other_machines_are_nobody_as_long_as_default_is_open() {
    let talk = Talk::new();
    let addresses = |texts: [&str; 4]| texts.map(|text| text.parse::<std::net::SocketAddr>().unwrap());
    let near = addresses(["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"]);
    let far = addresses(["192.0.2.1:1", "10.0.0.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.1]:1"]);
    let access = &talk.desk.access;
    let user = |from: std::net::SocketAddr| {
        Session::new(talk.desk.welcome(Some(from)), &talk.desk).user().map(|user| user.name.clone())
    };
    for &near in &near {
        assert_eq!((access.denies(near.ip()), user(near)), (false, Some("default".to_owned())), "{near}");
    }
    for &far in &far {
        let told = talk.desk.admit(far, false).unwrap_err();
        assert!(told.contains("(redis-cli -p 6479 ACL SETUSER admin on '>PASSWORD' +@all)"), "{told}");
        assert_eq!((access.denies(far.ip()), user(far)), (true, None), "{far}");
        assert!(access.enter(b"default", b"", Some(far)).is_none(), "nor by AUTH");
    }
    access.set_protected(false);
    assert_eq!((access.denies(far[0].ip()), user(far[0])), (false, Some("default".to_owned())));
    access.set_protected(true);
    // With a user they get in, as that user alone.
    let mut talk = talk;
    talk.check("ACL SETUSER ann on >p +@read => +OK");
    let client = talk.desk.welcome(Some(far[0]));
    talk.session = Session::new(client, &talk.desk);
    assert!(!talk.desk.access.denies(far[0].ip()));
    talk.check(
        "PING => -NOAUTH Authentication required.
         AUTH default x => -WRONGPASS invalid username-password pair or user is disabled.
         AUTH ann p => +OK
         PING => +PONG
         RESET => +RESET
         PING => -NOAUTH Authentication required.",
    );
    let closed = with_password("pw");
    assert!(!closed.access.denies(far[0].ip()), "whoever has the password gets in");
}

/// A certificate is a lock where there is no other. Where there are users it opens the door, and says nothing about who it is.
#[test]
fn a_certificate_lets_in_and_logs_nobody_in() {
    let mut talk = Talk::new();
    let far: std::net::SocketAddr = "192.0.2.1:1".parse().unwrap();
    let user = |desk: &Desk, certificate: bool| {
        let client = desk.admit(far, certificate)?;
        Ok::<_, String>(Session::new(client, desk).user().map(|user| user.name.clone()))
    };
    assert!(user(&talk.desk, false).unwrap_err().starts_with("DENIED"));
    assert_eq!(user(&talk.desk, true), Ok(Some("default".to_owned())), "there is nothing else to show");
    talk.check("ACL SETUSER ann on >p +@read => +OK");
    assert_eq!(user(&talk.desk, true), Ok(None));
    let client = talk.desk.admit(far, true).unwrap();
    talk.session = Session::new(client, &talk.desk);
    talk.check(
        "FLUSHALL => -NOAUTH Authentication required.
         AUTH default x => -WRONGPASS invalid username-password pair or user is disabled.
         AUTH ann p => +OK
         FLUSHALL => -NOPERM User ann has no permissions to run the 'flushall' command: it needs the role delete",
    );
    // Where clients of other machines are default without one, they are with one.
    talk.desk.access.set_protected(false);
    assert_eq!(user(&talk.desk, true), Ok(Some("default".to_owned())));
    assert_eq!(user(&with_password("pw"), true), Ok(None));
}

/// One thread asks and adds in pipelines while another takes and gives roles: from a change on that was acknowledged before
/// a turn began, that turn obeys it.
#[test]
fn users_change_while_pipelines_run() {
    let mut boss = Talk::with(engine(64 << 20), desk());
    boss.check("ACL SETUSER ann on nopass +@read +@write => +OK");
    let (engine, desk) = (boss.engine.clone(), boss.desk.clone());
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let told = done.clone();
    let worker = std::thread::spawn(move || {
        let mut ann = Talk::join(engine, desk);
        ann.check("AUTH ann x => +OK");
        let items: Vec<String> = (0..200).map(|item| format!("item{item}")).collect();
        let (mut allowed, mut refused) = (0, 0);
        while !told.load(std::sync::atomic::Ordering::Acquire) || allowed == 0 || refused == 0 {
            let before = ann.desk.access.user("ann").unwrap();
            let replies = ann.each("BF.ADD", "f", &items);
            let after = ann.desk.access.user("ann").unwrap();
            let no = replies.iter().filter(|reply| reply.starts_with("-NOPERM")).count();
            assert_eq!(replies.len(), 200);
            if Arc::ptr_eq(&before, &after) {
                assert_eq!(no, if after.roles.contains(Role::Write) { 0 } else { 200 });
            }
            (allowed, refused) = (allowed + 200 - no, refused + no);
        }
    });
    for round in 0..400 {
        boss.check(&format!("ACL SETUSER ann {}@write => +OK", if round % 2 == 0 { '-' } else { '+' }));
    }
    done.store(true, std::sync::atomic::Ordering::Release);
    let mut round = 0;
    while !worker.is_finished() {
        round += 1;
        boss.say(&format!("ACL SETUSER ann {}@write", if round % 2 == 0 { '-' } else { '+' }));
        std::thread::yield_now();
    }
    worker.join().unwrap();
}
