//! The server's own time beside that of the wall clock.

use super::talk::{NOW_MS, Talk};

/// After a start with a clock that is ahead the server's own time stays ahead; what a client says in the wall clock's is meant so.
#[test]
fn a_time_of_the_wall_clock_is_that_of_the_wall_clock() {
    let mut talk = Talk::new();
    let years = 70 * 365 * 86_400_000;
    talk.engine.clock.set(NOW_MS + years);
    talk.engine.clock.set_wall(NOW_MS);
    let tomorrow = NOW_MS / 1_000 + 86_400;
    talk.check(&format!(
        "BF.ADD f item => :1
         EXPIREAT f {tomorrow} => :1
         TTL f => :86400
         EXPIRETIME f => :{tomorrow}
         BF.EXISTS f item => :1
         PEXPIREAT f {} => :1
         PEXPIRETIME f => :{}
         PTTL f => :5000
         EXPIRE f 100 => :1
         EXPIRETIME f => :{}
         TIME => *2 $10 {} $1 0",
        NOW_MS + 5_000,
        NOW_MS + 5_000,
        NOW_MS / 1_000 + 100,
        NOW_MS / 1_000
    ));
    let info = talk.say("INFO server");
    assert!(info.contains(&format!("clock_ahead_seconds:{}", years / 1_000)), "{info}");
    talk.engine.clock.set(NOW_MS + years + 100_000);
    talk.engine.clock.set_wall(NOW_MS + 100_000);
    talk.check("EXISTS f => :0");
    // What is past by the wall clock is past.
    talk.check(&format!("BF.ADD g item => :1\n EXPIREAT g {} => :1\n EXISTS g => :0", NOW_MS / 1_000 + 99));
}
