//! COPY.

use crate::talk::Talk;

#[test]
fn a_copy_has_the_items_the_family_and_the_expiry_of_its_source() {
    for mut talk in [Talk::new(), Talk::new().resp3()] {
        talk.say("BF.MADD seen a b c");
        talk.say("EXPIRE seen 100");
        talk.say("CF.ADD carts a");
        talk.say("CF.ADD carts a");
        talk.check(
            "COPY nobody x => :0
             COPY seen seen => -ERR source and destination objects are the same
             COPY seen x DB 1 => -ERR DB index is out of range
             COPY seen x DB 0 => :1
             BF.CARD x => :3
             TTL x => :100
             COPY carts x => :0
             TYPE x => +MBbloom--
             COPY carts x REPLACE => :1
             TYPE x => +MBbloomCF
             TTL x => :-1
             CF.COUNT x a => :2
             CF.ADD carts b => ADDED
             CF.COUNT x b => :0
             DBSIZE => :3"
                .replace(
                    "ADDED",
                    if talk.session.protocol() == bloomgate_command::Protocol::Resp2 { ":1" } else { "#t" },
                )
                .as_str(),
        );
    }
}

#[test]
fn a_copy_is_charged_and_given_back() {
    let mut talk = Talk::with(crate::talk::engine(4 << 20), crate::talk::desk());
    talk.check("BF.RESERVE a 0.01 1000000 => +OK");
    let one = talk.engine.budget.used();
    talk.check("COPY a b => :1");
    assert_eq!(talk.engine.budget.used(), 2 * one);
    let refused = talk.say("COPY a c");
    assert!(refused.starts_with("-ERR Insufficient memory to create filter: it needs "), "{refused}");
    assert_eq!(talk.engine.budget.used(), 2 * one);
    talk.check("DEL b => :1");
    assert_eq!(talk.engine.budget.used(), one);
    talk.check("COPY a b => :1");
}

#[test]
fn a_copy_is_made_within_a_transaction_too() {
    let mut talk = Talk::new();
    talk.check(
        "BF.ADD a x => :1
         MULTI => +OK
         COPY a b => +QUEUED
         BF.EXISTS b x => +QUEUED
         EXEC => *2 :1 :1",
    );
}
