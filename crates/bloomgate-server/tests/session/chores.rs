//! Memory that is made ready by a thread of its own: nobody waits for it on a reactor, and everything is charged once.

use bloomgate_server::session::Next;

use super::talk::{Talk, desk, engine};

fn add(talk: &mut Talk, from: u64, count: u64) -> (Next, usize) {
    let words: Vec<String> = (from..from + count).map(|item| format!("item-{item}")).collect();
    let mut input = format!("*{}\r\n$7\r\nBF.MADD\r\n$1\r\ng\r\n", count + 2);
    words.iter().for_each(|word| input += &format!("${}\r\n{word}\r\n", word.len()));
    let mut out = Vec::new();
    let turn = talk.session.turn(&mut talk.core, &talk.desk, input.as_bytes(), &mut out);
    talk.session.forget(turn.consumed);
    (turn.next, String::from_utf8_lossy(&out).matches(":1").count())
}

/// Adds so many, and tries again in a moment whenever the stage is not ready; how many were new.
fn add_patiently(talk: &mut Talk, count: u64) -> usize {
    let (mut taken, mut waited, mut from) = (0, 0, 0);
    while from < count {
        match add(talk, from, 500) {
            (Next::Wait, new) => {
                assert_eq!(new, 0, "who waits has done nothing");
                waited += 1;
                assert!(waited < 100_000, "it waits for a stage that nobody makes");
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
            (_, new) => {
                taken += new;
                from += 500;
            }
        }
    }
    taken
}

/// A stage of 12 MB behind one of 20,000 keys: the last adds before it wait until the thread has made it, none of them is
/// done by half, and the stage is charged once.
#[test]
fn a_large_stage_is_made_by_the_thread_and_adds_wait_for_it() {
    let mut talk = Talk::new();
    talk.engine.start_chores().unwrap();
    assert_eq!(talk.say("BF.RESERVE g 0.01 20000 EXPANSION 300"), "+OK");
    let entry = talk.engine.find(b"g").unwrap();
    let taken = add_patiently(&mut talk, 40_000);
    assert_eq!(talk.say("BF.INFO g FILTERS"), "*1 :2");
    assert!((39_500..=40_000).contains(&taken), "{taken}");
    assert_eq!(entry.charged(), entry.with(|g| g.size_in_bytes()).unwrap());
    assert_eq!(talk.engine.budget.used(), entry.memory());
    for item in (0..40_000).step_by(97) {
        assert_eq!(talk.say(&format!("BF.EXISTS g item-{item}")), ":1");
    }
    // What it took goes back with it, as soon as the thread has let go of it.
    drop(entry);
    assert_eq!(talk.say("DEL g"), ":1");
    let deleted = std::time::Instant::now();
    while talk.engine.budget.used() > 0 {
        assert!(deleted.elapsed().as_secs() < 20, "it is charged for ever");
        std::thread::yield_now();
    }
}

/// No memory for the stage: the adds are told, as they are without the thread, and nobody waits for what does not come.
#[test]
fn a_stage_that_there_is_no_memory_for_is_refused_and_not_waited_for() {
    let mut talk = Talk::with(engine(8 << 20), desk());
    talk.engine.start_chores().unwrap();
    assert_eq!(talk.say("BF.RESERVE g 0.01 20000 EXPANSION 300"), "+OK");
    let new = add_patiently(&mut talk, 30_000);
    assert!((19_000..=20_000).contains(&new), "{new}");
    assert_eq!(talk.say("BF.INFO g FILTERS"), "*1 :1");
}

/// A command that comes in two pieces and has to wait is found again from its beginning: read from its middle, the items of
/// one client would be the commands of another.
#[test]
fn a_command_in_pieces_waits_as_a_whole() {
    let mut talk = Talk::new();
    talk.engine.start_chores().unwrap();
    assert_eq!(talk.say("BF.RESERVE g 0.01 20000 EXPANSION 300"), "+OK");
    let entry = talk.engine.find(b"g").unwrap();
    // The thread cannot make the stage as long as this is held.
    let mut growth = Some(entry.growth().lock().unwrap());
    let mut held: Vec<u8> = Vec::new();
    let (mut out, mut waited) = (Vec::new(), 0);
    for round in 0..60u64 {
        let mut input = "*502\r\n$7\r\nBF.MADD\r\n$1\r\ng\r\n".to_owned();
        (0..500).for_each(|item| input += &format!("$11\r\nitem-{:06}\r\n", round * 500 + item));
        // Cut anywhere: within the count, a length, a name, an item.
        let (first, second) = input.split_at(1 + (round as usize * 173) % (input.len() - 1));
        for piece in [first, second] {
            held.extend_from_slice(piece.as_bytes());
            loop {
                let turn = talk.session.turn(&mut talk.core, &talk.desk, &held, &mut out);
                talk.session.forget(turn.consumed);
                held.drain(..turn.consumed);
                match turn.next {
                    Next::Read => break,
                    Next::Wait => {
                        waited += 1;
                        if waited == 5 {
                            growth = None;
                        }
                        std::thread::sleep(std::time::Duration::from_micros(100));
                    }
                    Next::Again => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(waited >= 5 && growth.is_none(), "it never had to wait");
    assert!(held.is_empty());
    let replies = String::from_utf8(out).unwrap();
    assert!(!replies.contains('-') && replies.matches("*500").count() == 60, "{}", &replies[..200]);
    assert_eq!(talk.say("BF.INFO g FILTERS"), "*1 :2");
}
