//! Every command has exactly one role, and it is written down here a second time: a new command has to be decided.

use bloomgate_command::{Role, Roles, every_command, find};

use crate::parsed;

const READ: &str = "bf.card bf.debug bf.exists bf.info bf.mexists bf.scandump bg.audit bg.count bg.delta bg.digest bg.dump \
    bg.estimate bg.exists bg.info bg.stats cf.count cf.debug cf.exists cf.info cf.mexists cf.scandump dbsize exists expiretime keys \
    memory|usage object object|encoding object|freq object|idletime object|refcount pexpiretime pttl randomkey scan touch \
    ttl type watch";
const WRITE: &str = "bf.add bf.insert bf.loadchunk bf.madd bf.reserve bg.add bg.copy bg.create bg.feed bg.fold bg.merge \
    cf.add cf.addnx cf.compact cf.insert cf.insertnx cf.loadchunk cf.reserve copy persist swapdb";
const DELETE: &str = "bg.feedback bg.intersect bg.remove bg.swap cf.del del expire expireat flushall flushdb pexpire pexpireat rename \
    renamenx unlink";
const ADMIN: &str = "acl|deluser acl|dryrun acl|getuser acl|list acl|load acl|log acl|save acl|setuser acl|users bg.backup \
    bg.build bg.namespace|del bg.namespace|info bg.namespace|list bg.namespace|set bg.rekey bg.secrets bgsave client|kill client|list client|no-evict client|pause client|unpause config|get \
    config|resetstat config|rewrite config|set debug lastsave latency|doctor latency|histogram latency|history \
    latency|latest latency|reset memory|doctor memory|stats module|list role save shutdown slowlog|get slowlog|len \
    slowlog|reset";
const ANY: &str = "acl acl|cat acl|genpass acl|whoami auth bg.help bg.namespace client client|getname client|id client|info \
    client|no-touch client|reply client|setinfo client|setname client|tracking command command|count command|docs \
    command|getkeys command|info command|list config discard echo exec hello info latency lolwut memory module multi ping \
    quit reset select slowlog time unwatch wait";

#[test]
fn every_command_has_the_role_that_was_decided() {
    let decided = [
        (Some(Role::Read), READ),
        (Some(Role::Write), WRITE),
        (Some(Role::Delete), DELETE),
        (Some(Role::Admin), ADMIN),
        (None, ANY),
    ];
    let mut wrong = Vec::new();
    for spec in every_command() {
        let places: Vec<Option<Role>> = decided
            .iter()
            .filter(|(_, names)| names.split_whitespace().any(|name| name == spec.name))
            .map(|(role, _)| *role)
            .collect();
        if places != [spec.role()] {
            wrong.push(format!("{}: the table says {:?}, decided was {places:?}", spec.name, spec.role()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let known = decided.iter().map(|(_, names)| names.split_whitespace().count()).sum::<usize>();
    assert_eq!(known, every_command().count(), "a command that was decided is not in the table");
}

#[test]
fn what_replaces_a_filter_needs_the_role_to_delete_too() {
    for (line, plain) in
        [("COPY a b", Role::Write), ("BG.COPY a b", Role::Write), ("BG.BUILD a FROM list.txt", Role::Admin)]
    {
        let needs = |line: &str| parsed(line, |result| result.map(|(spec, request)| spec.needs(&request)).unwrap());
        assert_eq!(needs(line), Roles::NONE.with(plain), "{line}");
        assert_eq!(needs(&format!("{line} REPLACE")), Roles::NONE.with(plain).with(Role::Delete), "{line} REPLACE");
    }
    let rekey = |step: &str| {
        parsed(&format!("BG.REKEY f {step}"), |result| result.map(|(spec, request)| spec.needs(&request)).unwrap())
    };
    assert_eq!(rekey("FINISH"), Roles::NONE.with(Role::Admin).with(Role::Delete));
    assert_eq!(["START", "STATUS", "ABORT"].map(rekey), [Roles::NONE.with(Role::Admin); 3]);
    assert_eq!(find(b"bg.rekey").unwrap().role_words(), "admin; FINISH also delete");
    // Who may only ask must not hide how much was asked.
    let audit = |line: &str| parsed(line, |result| result.map(|(spec, request)| spec.needs(&request)).unwrap());
    assert_eq!(audit("BG.AUDIT f"), Roles::NONE.with(Role::Read));
    assert_eq!(audit("BG.AUDIT f RESET"), Roles::NONE.with(Role::Read).with(Role::Admin));
    assert_eq!(find(b"bg.audit").unwrap().role_words(), "read; RESET also admin");
    // No other command has the word.
    let replacing: Vec<&str> = every_command()
        .filter(|spec| spec.options.iter().any(|option| option.name == "REPLACE"))
        .map(|spec| spec.name)
        .collect();
    assert_eq!(replacing, ["bg.copy", "bg.build", "copy"]);
    assert_eq!(find(b"copy").unwrap().role_words(), "write; REPLACE also delete");
    assert_eq!(
        (find(b"ping").unwrap().role_words(), find(b"del").unwrap().role_words()),
        ("any".into(), "delete".into())
    );
}

#[test]
fn an_admin_of_one_namespace_steers_its_filters_and_not_the_server() {
    let of_filters: Vec<&str> = every_command()
        .filter(|spec| spec.role() == Some(Role::Admin) && !spec.is_of_server())
        .map(|spec| spec.name)
        .collect();
    assert_eq!(of_filters, ["bg.build", "bg.rekey"]);
    assert!(every_command().filter(|spec| spec.is_of_server()).all(|spec| spec.role() == Some(Role::Admin)));
}

#[test]
fn sets_of_roles() {
    let some = Roles::NONE.with(Role::Read).with(Role::Delete);
    assert_eq!(some.iter().collect::<Vec<_>>(), [Role::Read, Role::Delete]);
    assert!(some.covers(Roles::NONE) && some.covers(some) && Roles::ALL.covers(some) && !some.covers(Roles::ALL));
    assert!(some.contains(Role::Delete) && !some.contains(Role::Write) && !some.is_empty());
    assert_eq!(some.without(Role::Read).without(Role::Delete), Roles::NONE);
    assert_eq!(Role::ALL.into_iter().collect::<Roles>(), Roles::ALL);
    for role in Role::ALL {
        assert_eq!(Role::find(role.name().to_ascii_uppercase().as_bytes()), Some(role));
    }
    assert_eq!((Role::find(b"@read"), Role::find(b"")), (None, None));
}
