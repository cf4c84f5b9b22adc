//! Many small filters through a restart: from the log, from a snapshot, and from both.

use super::house::House;

const USERS: usize = 3_000;

fn item(user: usize, number: usize) -> String {
    format!("{user}-{number}")
}

/// All there is: each filter's INFO, and which of its items are in.
fn all(house: &House) -> Vec<(String, String)> {
    let mut talk = house.talk(0);
    let told = (0..USERS).map(|user| {
        let asked: Vec<String> = (0..20).map(|number| item(user, number)).collect();
        let info = talk.say(&format!("BF.INFO user:{user}"));
        // But its size: one that was renamed has two names until it comes from an image.
        let info = info.split(' ').filter(|word| *word != ":0").collect::<Vec<_>>();
        let size = info.iter().position(|word| *word == "+Size").map_or(0, |at| at + 1);
        let info = info.iter().enumerate().filter(|(at, _)| *at != size).map(|(_, word)| *word).collect::<String>();
        (info, talk.say(&format!("BF.MEXISTS user:{user} {}", asked.join(" "))))
    });
    told.collect()
}

#[test]
fn small_filters_are_there_again_with_their_counts_and_take_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let house = House::open(folder.path());
    let mut talk = house.talk(0);
    for user in 0..USERS {
        talk.say(&format!("BF.RESERVE user:{user} 0.01 {}", [10, 100, 100, 3_000][user % 4]));
        let items: Vec<String> = (0..user % 19).map(|number| item(user, number)).collect();
        if !items.is_empty() {
            talk.say(&format!("BF.MADD user:{user} {}", items.join(" ")));
        }
    }
    talk.say("RENAME user:7 user:8");
    talk.say("EXPIRE user:9 100000");
    drop(talk);
    let (before, used) = (all(&house), house.engine.budget.used());
    house.end();
    // From the log alone.
    let house = House::open(folder.path());
    assert!(all(&house) == before && house.engine.budget.used() == used && house.found.unavailable == 0);
    assert_eq!(house.talk(0).say("SAVE"), "+OK");
    house.end();
    // From the images: a filter with another name than at first, or one that has grown, may take less now.
    let house = House::open(folder.path());
    let (now, takes) = (all(&house), house.engine.budget.used());
    let other = now.iter().zip(&before).find(|(now, before)| now != before);
    assert!(other.is_none() && takes <= used, "{other:?}, {takes} bytes after {used}");
    assert_eq!((house.found.batches, house.engine.names.ending()), (0, 1));
    let mut talk = house.talk(0);
    (0..USERS).step_by(5).for_each(|user| drop(talk.say(&format!("BF.ADD user:{user} later"))));
    drop(talk);
    let (before, used) = (all(&house), house.engine.budget.used());
    house.end();
    let house = House::open(folder.path());
    assert!(all(&house) == before && house.engine.budget.used() == used);
    assert!((0..USERS).step_by(5).all(|user| house.talk(0).say(&format!("BF.EXISTS user:{user} later")) == ":1"));
}
