//! What survives: filters, names and counts through restarts, with and without snapshots, and what does not pass.

mod backups;
mod crashing;
mod damaged;
mod failing;
mod house;
mod races;
mod shaky;
mod small;
mod snapshots;
#[path = "../shared/talk.rs"]
mod talk;

use std::sync::atomic::{AtomicBool, Ordering};

use house::{House, files};
use talk::Talk;

fn items(range: std::ops::Range<u64>) -> impl Iterator<Item = String> {
    range.map(|number| format!("item-{number}"))
}

#[test]
fn everything_that_was_said_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.RESERVE seen 0.001 500"), "+OK");
    let new = talk.add_all("seen", items(0..3_000));
    assert!((2_990..=3_000).contains(&new), "{new} of 3000 are new at a rate of 0.1 %");
    talk.say("BF.ADD other x");
    talk.say("BF.ADD third y");
    assert_eq!(talk.say("RENAME other renamed"), "+OK");
    assert_eq!(talk.say("DEL third"), ":1");
    assert_eq!(talk.say("EXPIRE renamed 1000"), ":1");
    let info = talk.say("BF.INFO seen");
    drop(talk);
    house.end();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(house.found.filters, 2);
    assert_eq!(talk.say("BF.INFO seen"), info, "capacity, size, stages and items are what they were");
    assert_eq!(talk.say("BF.CARD seen"), format!(":{new}"));
    assert_eq!(talk.count_found("seen", items(0..3_000)), 3_000);
    assert_eq!(talk.say("EXISTS other third renamed"), ":1");
    let ttl: u64 = talk.say("TTL renamed")[1..].parse().unwrap();
    assert!((990..=1_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_snapshot_and_the_log_since_make_the_same_filters() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("BF.RESERVE big 0.01 100000");
    talk.say("BF.RESERVE small 0.01 100");
    talk.say("BF.RESERVE gone 0.01 100");
    let mut new = talk.add_all("big", items(0..5_000));
    talk.add_all("small", items(0..50));
    house.keeping.snapshot().unwrap();
    new += talk.add_all("big", items(5_000..9_000));
    while files(folder.path(), "log-").len() > 1 {
        // What the images hold is not kept twice: it goes as soon as the next segment has begun.
        house.keeping.trim_log().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    talk.add_all("small", items(50..500));
    talk.say("DEL gone");
    talk.say("RENAME small little");
    talk.say("BF.ADD small again");
    let (big, little) = (talk.say("BF.INFO big"), talk.say("BF.INFO little"));
    drop(talk);
    house.end();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!((talk.say("BF.INFO big"), talk.say("BF.INFO little")), (big, little));
    assert_eq!(talk.say("BF.CARD big"), format!(":{new}"));
    assert_eq!(talk.count_found("big", items(0..9_000)), 9_000);
    assert_eq!(talk.count_found("little", items(0..500)), 500);
    assert_eq!(talk.say("BF.EXISTS small again"), ":1");
    assert_eq!(talk.say("EXISTS gone"), ":0");
    // A second snapshot of what was just read, and nothing else.
    house.keeping.snapshot().unwrap();
    drop(talk);
    house.end();
    let house = House::open(folder.path());
    assert_eq!(house.found.batches, 0);
    assert_eq!(house.talk(0).count_found("big", items(0..9_000)), 9_000);
}

#[test]
fn snapshots_while_two_threads_add_lose_nothing_and_count_right() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    house.talk(0).say("BF.RESERVE seen 0.0001 1000 EXPANSION 2");
    let done = AtomicBool::new(false);
    let new: usize = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2u64)
            .map(|thread| {
                let mut talk = house.talk(thread as usize);
                scope.spawn(move || {
                    let mut new = 0;
                    for batch in 0..150 {
                        let first = thread * 1_000_000 + batch * 100;
                        new += talk.add_all("seen", items(first..first + 100));
                        let name = format!("mine-{thread}-{batch}");
                        talk.say(&format!("BF.ADD {name} x"));
                        if batch % 3 == 0 {
                            talk.say(&format!("RENAME {name} moved-{thread}"));
                        } else if batch % 3 == 1 {
                            talk.say(&format!("DEL {name}"));
                        }
                    }
                    new
                })
            })
            .collect();
        let snapshots = scope.spawn(|| {
            let mut count = 0;
            while !done.load(Ordering::Relaxed) {
                house.keeping.snapshot().unwrap();
                count += 1;
            }
            count
        });
        let new = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        done.store(true, Ordering::Relaxed);
        assert!(snapshots.join().unwrap() >= 1);
        new
    });
    let names = house.talk(0).say("DBSIZE");
    house.end();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(talk.say("BF.CARD seen"), format!(":{new}"));
    for thread in 0..2 {
        let first = thread * 1_000_000;
        assert_eq!(talk.count_found("seen", items(first..first + 15_000)), 15_000);
        assert_eq!(talk.say(&format!("BF.EXISTS moved-{thread} x")), ":1");
    }
    assert_eq!(talk.say("DBSIZE"), names);
}

#[test]
fn a_transaction_is_in_the_log_as_a_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("BF.ADD before x");
    talk.say("MULTI");
    talk.say("BF.ADD one a");
    talk.say("BF.ADD two b");
    talk.say("RENAME before after");
    assert_eq!(talk.say("EXEC"), "*3 :1 :1 +OK");
    drop(talk);
    house.end();
    let log = files(folder.path(), "log-").pop().unwrap();
    let bytes = std::fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let mut wholes = 0;
    for length in (end.saturating_sub(300)..=end).step_by(3) {
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(folder.path().join("master.key"), copy.path().join("master.key")).unwrap();
        std::fs::write(copy.path().join(log.file_name().unwrap()), &bytes[..length]).unwrap();
        let Ok(house) = House::try_open(copy.path()) else { continue };
        let found = house.talk(0).say("EXISTS one two after");
        assert!(found == ":0" || found == ":3", "{found} of three after {length} bytes");
        wholes += usize::from(found == ":3");
    }
    assert!(wholes >= 1, "the whole log has the whole transaction");
}

#[test]
fn a_transaction_that_makes_filters_and_fills_them_keeps_what_it_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("BF.ADD early x");
    talk.say("MULTI");
    // One batch of the log: what comes after a creation in it is part of it no less than what came before.
    talk.say("BF.ADD gone x");
    talk.say("FLUSHALL");
    talk.say("BF.RESERVE one 0.01 100");
    talk.say("BF.MADD one a b c");
    talk.say("CF.ADD two a");
    talk.say("CF.ADD two a");
    talk.say("CF.DEL two a");
    talk.say("RENAME two three");
    talk.say("EXPIRE three 1000");
    assert_eq!(talk.say("EXEC"), "*9 :1 +OK +OK *3 :1 :1 :1 :1 :1 :1 +OK :1");
    let ask = |talk: &mut Talk| {
        ["KEYS *", "BF.MEXISTS one a b c", "BF.CARD one", "CF.COUNT three a", "EXISTS gone early two"]
            .map(|line| talk.say(line))
    };
    let before = ask(&mut talk);
    assert_eq!(before[1..], ["*3 :1 :1 :1", ":3", ":1", ":0"]);
    drop(talk);
    house.end();
    for _ in 0..2 {
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!(ask(&mut talk), before);
        assert!(talk.say("TTL three").trim_start_matches(':').parse::<i64>().unwrap() > 900);
        // From the log first, then from a snapshot.
        assert_eq!(talk.say("SAVE"), "+OK");
        drop(talk);
        house.end();
    }
}

#[test]
fn filters_with_a_flipped_bit_answer_an_error_and_are_counted_until_they_are_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    for number in 10..23 {
        talk.say(&format!("BF.RESERVE big-{number} 0.01 200000"));
        talk.say(&format!("BF.ADD big-{number} x"));
    }
    house.keeping.snapshot().unwrap();
    drop(talk);
    house.end();
    let key = folder.path().join("master.key");
    let right = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    assert!(House::try_open(folder.path()).is_err_and(|why| why.contains("master secret")));
    std::fs::write(&key, right).unwrap();
    std::process::Command::new("chmod").args(["600", key.to_str().unwrap()]).status().unwrap();
    let images = files(folder.path(), "image-");
    assert_eq!(images.len(), 13);
    for image in &images[..12] {
        let mut bytes = std::fs::read(image).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        std::fs::write(image, bytes).unwrap();
    }
    let house = House::open(folder.path());
    // However many there are, a few are named.
    assert_eq!((house.found.filters, house.found.unavailable, house.found.named.len()), (13, 12, 10));
    let mut talk = house.talk(0);
    let (name, why) = &house.found.named[0];
    let answer = talk.say(&format!("BF.EXISTS {name} x"));
    assert!(answer.starts_with(&format!("-ERR filter '{name}' is unavailable")) && answer.ends_with(why), "{answer}");
    assert_eq!(talk.say(&format!("EXISTS {name}")), ":1");
    assert!(talk.say(&format!("BF.MADD {name} a b")).starts_with("-ERR"));
    // Under the name that it has, also when that is another by now.
    assert_eq!(talk.say(&format!("RENAME {name} moved")), "+OK");
    assert!(talk.say("BF.EXISTS moved x").starts_with("-ERR filter 'moved' is unavailable: "));
    assert_eq!(talk.say(&format!("RENAME moved {name}")), "+OK");
    let counted = |talk: &mut Talk| {
        let info = talk.say("INFO bloomgate");
        info.split_once("unavailable_filters:").unwrap().1.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(counted(&mut talk), "12");
    assert_eq!(talk.say(&format!("DEL {name}")), ":1");
    assert_eq!(talk.say("RENAME big-22 other"), "+OK");
    assert_eq!(counted(&mut talk), "11");
    assert_eq!(talk.say("FLUSHALL"), "+OK");
    assert_eq!(counted(&mut talk), "0");
}

#[test]
fn a_backup_taken_at_work_is_a_folder_to_start_from() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("BF.RESERVE seen 0.01 20000");
    talk.add_all("seen", items(0..4_000));
    let place = house.keeping.backup("monday").unwrap();
    assert!(house.keeping.backup("monday").is_err_and(|why| why.contains("already")));
    talk.add_all("seen", items(4_000..5_000));
    let place = std::path::Path::new(&place);
    assert!(!place.join("master.key").exists(), "the secret stays apart from the data");
    std::fs::copy(folder.path().join("master.key"), place.join("master.key")).unwrap();
    let restored = House::open(place);
    let mut talk = restored.talk(0);
    assert_eq!(talk.count_found("seen", items(0..4_000)), 4_000);
    assert!(talk.count_found("seen", items(4_000..5_000)) < 100);
}

#[test]
fn a_copy_keeps_the_count_of_removed_keys_through_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    for item in ["a", "b", "c"] {
        talk.say(&format!("CF.ADD carts {item}"));
    }
    assert_eq!((talk.say("CF.DEL carts a"), talk.say("CF.DEL carts b")), (":1".into(), ":1".into()));
    assert_eq!(talk.say("BG.COPY carts copy"), ":1");
    assert_eq!(talk.say("CF.DEL copy c"), ":1");
    let debug = |talk: &mut Talk| ["carts", "copy"].map(|name| talk.say(&format!("CF.DEBUG {name}")));
    let before = debug(&mut talk);
    assert!(before[0].contains("deletes:2 ") && before[1].contains("deletes:3 "), "{before:?}");
    drop(talk);
    house.end();
    for _ in 0..2 {
        // From the log first, then from a snapshot.
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!(debug(&mut talk), before);
        assert_eq!(talk.say("SAVE"), "+OK");
        drop(talk);
        house.end();
    }
}

#[test]
fn a_request_that_was_answered_is_known_by_its_items_through_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    talk.say("BG.CREATE carts KIND counting CAPACITY 1000 RATE 0.001");
    talk.say("BG.ADD carts a b c");
    assert_eq!(talk.say("BG.REMOVE carts REQUEST r ITEMS a x"), "*2 :1 :0");
    drop(talk);
    house.end();
    for _ in 0..3 {
        // From the log first, then from a snapshot, and with the filter that a fold has put in its place.
        let house = House::open(folder.path());
        let mut talk = house.talk(0);
        assert_eq!(talk.say("BG.REMOVE carts REQUEST r ITEMS a x"), "*2 :1 :0");
        let refused = talk.say("BG.REMOVE carts REQUEST r ITEMS b c");
        assert!(refused.starts_with("-ERR request 'r' was answered before for other items"), "{refused}");
        assert_eq!(talk.say("BG.EXISTS carts a b c"), "*3 :0 :1 :1");
        assert_eq!(talk.say("SAVE"), "+OK");
        assert_eq!(talk.say("BG.CREATE others LIKE carts"), "+OK");
        assert_eq!(talk.say("BG.MERGE carts others"), "+OK");
        talk.say("DEL others");
        drop(talk);
        house.end();
    }
}

#[test]
fn the_count_of_removed_keys_that_a_compaction_ended_stays_ended_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    // One is packed with nobody writing, the other, of more than 1 MiB, while others write; nothing is freed in either.
    talk.say("CF.RESERVE small 1000");
    talk.say("CF.RESERVE large 2000000");
    for name in ["small", "large"] {
        assert_eq!(
            (talk.say(&format!("CF.ADD {name} a")), talk.say(&format!("CF.DEL {name} a"))),
            (":1".into(), ":1".into())
        );
        assert!(talk.say(&format!("CF.DEBUG {name}")).contains("deletes:1 "));
        assert_eq!(talk.say(&format!("CF.COMPACT {name}")), "+OK");
    }
    let debug = |talk: &mut Talk| ["small", "large"].map(|name| talk.say(&format!("CF.DEBUG {name}")));
    let before = debug(&mut talk);
    assert!(before.iter().all(|told| told.contains("deletes:0 ")), "{before:?}");
    drop(talk);
    house.end();
    assert_eq!(debug(&mut House::open(folder.path()).talk(0)), before);
}

#[test]
fn what_filters_take_is_what_the_budget_is_charged() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    let agree = |house: &House, talk: &mut Talk, when: &str| {
        let names = talk.say("KEYS *");
        let names: Vec<&str> = names.split(' ').skip(1).filter(|word| !word.starts_with('$')).collect();
        let told: u64 =
            names.iter().map(|name| talk.say(&format!("MEMORY USAGE {name}"))[1..].parse::<u64>().unwrap()).sum();
        let used = house.engine.budget.used();
        let off = (told as f64 - used as f64).abs() / used.max(1) as f64;
        assert!(off < 0.03, "{when}: {told} told for {} filters, {used} charged", names.len());
        used
    };
    for number in 0..200 {
        talk.say(&format!("BF.ADD bloom-{number} x"));
        talk.say(&format!("CF.ADD cuckoo-{number} x"));
    }
    let small = agree(&house, &mut talk, "small ones");
    assert!(small > 400 * 500, "what is kept beside the bits counts: {small}");
    talk.add_all("bloom-7", items(0..5_000));
    talk.say("BF.RESERVE large 0.01 100000");
    talk.say("COPY large copy");
    agree(&house, &mut talk, "one has grown");
    for number in 0..150 {
        talk.say(&format!("RENAME bloom-{number} {}-{number}", "a-longer-name".repeat(20)));
        talk.say(&format!("DEL cuckoo-{number}"));
    }
    talk.say("BG.SWAP large bloom-199");
    talk.say("RENAME copy large");
    let used = agree(&house, &mut talk, "after renames");
    drop(talk);
    house.end();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    assert_eq!(agree(&house, &mut talk, "after a restart"), used);
    assert_eq!(talk.say("FLUSHALL"), "+OK");
    assert_eq!(house.engine.budget.used(), 0);
}
