//! The power cord is pulled at every step of the disk while large filters are put under names: what was acknowledged is there
//! exactly as it was, and what was not is done or not done, never by half.
//!
//! Filters of more than 1 MiB are written to a file of their own before the log names it, so there are many steps to go wrong
//! between: the file, its name, the record, the snapshot that takes over, and the removal of what nobody needs any more.

use std::collections::BTreeMap;
use std::time::Duration;

use bloomgate_server::store::{Disk, Fsync, Kind, LogOptions, MemoryDisk, Trouble};

use super::shaky::{DATA, Shaky, options};
use super::talk::Talk;

/// Two filters of 1.2 MB with different items.
const BEGIN: [&str; 4] = [
    "BG.CREATE one KIND blocked CAPACITY 1000000 RATE 0.01",
    "BG.ADD one a b c",
    "BG.CREATE two KIND blocked CAPACITY 1000000 RATE 0.01",
    "BG.ADD two x y",
];

type Command = Vec<Vec<u8>>;

fn words(line: &str) -> Command {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// A log that stays as it is when the disk has failed.
fn forever() -> LogOptions {
    LogOptions { retry_every: Duration::from_secs(3_600), ..options(Fsync::Always) }
}

fn begun(commands: &[&str]) -> (Shaky, Talk) {
    let house = Shaky::open(MemoryDisk::default(), forever());
    let mut talk = house.talk();
    commands.iter().for_each(|line| assert!(acknowledges(&house, &mut talk, &words(line)), "{line}"));
    house.sync();
    (house, talk)
}

fn acknowledges(house: &Shaky, talk: &mut Talk, command: &Command) -> bool {
    house.acknowledges(talk, &command.iter().map(|word| &word[..]).collect::<Vec<_>>())
}

fn shown(command: &Command) -> String {
    let shown = |word: &Vec<u8>| word[..word.len().min(40)].escape_ascii().to_string();
    command.iter().map(shown).collect::<Vec<_>>().join(" ")
}

/// Gives these commands one after the other until the disk fails, at each of its steps, and pulls the cord then.
fn cut_at_every_step(begin: &[&str], commands: &[Command]) {
    // What the names hold after each of them where nothing fails.
    let (house, mut talk) = begun(begin);
    let mut states: Vec<BTreeMap<String, String>> = vec![house.contents()];
    let mut files = 0;
    for command in commands {
        assert!(acknowledges(&house, &mut talk, command), "{}", shown(command));
        states.push(house.contents());
        let names = house.memory.list(DATA.as_ref()).unwrap();
        files = files.max(names.iter().filter(|name| name.starts_with("image-") && !name.contains(".tmp")).count());
    }
    assert!(files > 0, "none of them is written to a file of its own");
    drop((talk, house));
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut halfway = 0;
    for step in 1.. {
        assert!(step < 1_000, "it never ends");
        let (house, mut talk) = begun(begin);
        // From this step on nothing reaches the disk any more.
        let torn = step % 2 == 0;
        house.disk.plan(Trouble { from: step, steps: u64::MAX, errno: 5, torn, steps_of: Kind::Any });
        let done = commands.iter().take_while(|command| acknowledges(&house, &mut talk, command)).count();
        let fired = house.disk.fired();
        // Of what was not synced nothing has reached the disk, half of it by chance, or all.
        for chance in [0, 2, 4] {
            let found = house.memory.power_cut(|_| {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % 4 < chance
            });
            let after = Shaky::open(found, forever());
            let contents = after.contents();
            let is = |state: usize| states.get(state) == Some(&contents);
            assert!(
                is(done) || is(done + 1),
                "step {step}, chance {chance} of 4: {done} were acknowledged, the next is {:?}; there is {contents:?}, \
                 acknowledged was {:?}",
                commands.get(done).map(shown),
                states[done]
            );
            halfway += usize::from(!is(done));
            // It goes on, and what comes then is as safe.
            if chance == 2 {
                let name = contents.keys().next().unwrap();
                assert!(acknowledges(&after, &mut after.talk(), &words(&format!("BG.ADD {name} once-more"))));
                assert_eq!(after.after_power_cut(Fsync::Always).contents(), after.contents());
            }
        }
        if fired == 0 {
            assert_eq!(done, commands.len());
            break;
        }
    }
    assert!(halfway > 0, "some are done though nobody was told: else the cord was never pulled in between");
}

fn lines(commands: &[&str]) -> Vec<Command> {
    commands.iter().map(|line| words(line)).collect()
}

#[test]
fn a_copy_is_there_or_what_it_was_to_replace() {
    let commands = ["COPY one copy", "BG.ADD copy later", "COPY two copy REPLACE", "SAVE", "COPY one copy REPLACE"];
    cut_at_every_step(&BEGIN, &lines(&commands));
}

#[test]
fn names_are_exchanged_or_not() {
    let commands =
        ["COPY one copy", "BG.ADD copy later", "BG.SWAP copy two", "SAVE", "BG.SWAP two one", "BG.ADD one z"];
    cut_at_every_step(&BEGIN, &lines(&commands));
}

#[test]
fn a_name_that_is_taken_over_holds_the_one_or_the_other() {
    let commands =
        ["COPY one copy", "BG.ADD copy later", "RENAME copy two", "SAVE", "COPY two copy", "RENAME copy one"];
    cut_at_every_step(&BEGIN, &lines(&commands));
}

#[test]
fn what_is_deleted_and_made_anew_is_never_what_it_was_before() {
    let commands = [
        "COPY one copy",
        "DEL copy",
        "COPY two copy",
        "SAVE",
        "DEL copy",
        "BG.CREATE copy KIND blocked CAPACITY 1000000 RATE 0.01",
        "BG.ADD copy z",
        "SAVE",
    ];
    cut_at_every_step(&BEGIN, &lines(&commands));
}

#[test]
fn a_merge_is_in_its_place_or_what_was_there_before() {
    let commands = ["BG.MERGE one two", "BG.ADD one later", "SAVE", "BG.MERGE three one two", "BG.MERGE two three"];
    cut_at_every_step(&BEGIN, &lines(&commands));
}

/// The chunks of a dump, each with its iterator.
fn dump(talk: &mut Talk, name: &str) -> Vec<(i64, Vec<u8>)> {
    let (mut chunks, mut iterator) = (Vec::new(), 0);
    loop {
        let (reply, _) = talk.send(&[b"BF.SCANDUMP", name.as_bytes(), iterator.to_string().as_bytes()]);
        let mut parts = reply.splitn(4, |&byte| byte == b'\n');
        let mut line = || String::from_utf8(parts.next().unwrap().to_vec()).unwrap().trim_end().to_owned();
        assert_eq!(line(), "*2");
        iterator = line()[1..].parse().unwrap();
        let length: usize = line()[1..].parse().unwrap();
        if iterator == 0 {
            return chunks;
        }
        chunks.push((iterator, parts.next().unwrap()[..length].to_vec()));
    }
}

#[test]
fn a_filter_that_comes_in_chunks_is_there_as_a_whole_or_not_at_all() {
    let begin = ["BF.RESERVE chain 0.01 1000000", "BF.MADD chain a b c"];
    let (house, mut talk) = begun(&begin);
    let chunks = dump(&mut talk, "chain");
    assert!(chunks.len() > 2, "a header, and more than one chunk");
    drop((talk, house));
    let load = |(iterator, bytes): (i64, Vec<u8>)| {
        vec![b"BF.LOADCHUNK".to_vec(), b"loaded".to_vec(), iterator.to_string().into_bytes(), bytes]
    };
    let mut commands: Vec<Command> = chunks.into_iter().map(load).collect();
    commands.extend(lines(&["BF.ADD loaded later", "SAVE", "DEL loaded"]));
    cut_at_every_step(&begin, &commands);
}

/// Small filters lie in one file together, which every snapshot writes anew. Nothing is written to the log between the beginnings
/// of two snapshots, and filters grow during the second: its file is another one, as of the same sequence.
#[test]
fn small_filters_survive_a_snapshot_that_is_cut_short_after_one_as_of_the_same_sequence() {
    const FILTERS: usize = 80;
    // Snapshots copy 64 at a time: these come after the first piece of the file.
    const GROWN: std::ops::Range<usize> = 64..FILTERS;
    let mut dice = 0x2545_f491_4f6c_dd1d_u64;
    let missing = |house: &Shaky| {
        let mut talk = house.talk();
        let mut is_there = |number: &usize| talk.say(&format!("BF.MEXISTS f{number} a b c")) == "*3 :1 :1 :1";
        (0..FILTERS).filter(|number| !is_there(number)).collect::<Vec<_>>()
    };
    // The disk fails once and works again, or never again.
    for steps in [1, u64::MAX] {
        for step in 1.. {
            assert!(step < 1_000, "it never ends");
            let house = Shaky::open(MemoryDisk::default(), forever());
            let mut talk = house.talk();
            for number in 0..FILTERS {
                assert_eq!(talk.say(&format!("BF.RESERVE f{number} 0.01 20")), "+OK");
                assert_eq!(talk.say(&format!("BF.MADD f{number} a b c")), "*3 :1 :1 :1");
            }
            house.sync();
            house.keeping.snapshot().unwrap();
            house.disk.before_making("image-0-", move || {
                let items: Vec<String> = (0..100).map(|item| format!("item-{item}")).collect();
                GROWN.for_each(|number| drop(talk.say(&format!("BF.MADD f{number} {}", items.join(" ")))));
            });
            house.disk.plan(Trouble { from: step, steps, errno: 5, torn: step % 2 == 0, steps_of: Kind::Any });
            let made = house.keeping.snapshot();
            let fired = house.disk.fired();
            // The last one is what kill -9 leaves.
            for chance in [0, 2, 4] {
                let found = house.memory.power_cut(|_| {
                    dice ^= dice << 13;
                    dice ^= dice >> 7;
                    dice ^= dice << 17;
                    dice % 4 < chance
                });
                let after = Shaky::open(found, forever());
                assert_eq!(missing(&after), [0; 0], "step {step} of {steps}, chance {chance} of 4: {made:?}");
                after.keeping.snapshot().unwrap();
                assert_eq!(
                    missing(&after.after_power_cut(Fsync::Always)),
                    [0; 0],
                    "step {step} of {steps}, then once more"
                );
            }
            house.disk.heal();
            if fired == 0 {
                made.unwrap();
                break;
            }
        }
    }
}
