//! Thousands of random commands, after each of which every namespace is charged for just what its filters take.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bloomgate_server::Settings;
use bloomgate_server::access::Directory;
use bloomgate_server::engine::{Engine, Limits};
use bloomgate_server::keeping::SharedKeeping;
use bloomgate_server::keeping::opening::Opening;
use bloomgate_server::session::desk::Desk;
use bloomgate_server::store::{Fsync, RealDisk};

use super::talk::{NOW_MS, Talk, desk, engine};

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    fn name(&mut self) -> String {
        format!("{}{}", self.of(&["a:", "a:b:", "c:", "x"]), self.below(4))
    }
}

/// The names and prefixes of what is declared.
fn declared(desk: &Desk) -> Vec<(String, Vec<u8>)> {
    let book = desk.access.book();
    book.namespaces.iter().map(|(name, one)| (name.clone(), one.prefix.clone().into_bytes())).collect()
}

/// What every namespace should be charged, worked out from the filters' names alone: bytes and filters.
fn expected(engine: &Engine, declared: &[(String, Vec<u8>)]) -> BTreeMap<String, (u64, u64)> {
    let mut sums: BTreeMap<String, (u64, u64)> = declared.iter().map(|(name, _)| (name.clone(), (0, 0))).collect();
    for entry in engine.names.from_id(0, usize::MAX >> 1) {
        let name = entry.name().into_owned();
        let plain = name.strip_prefix(b"bloomgate:rekey:".as_slice());
        let owner = plain.unwrap_or(&name);
        if let Some(space) = owner_of(declared, owner) {
            let sum = sums.get_mut(space).unwrap();
            sum.0 += entry.charged() + entry.overhead();
            sum.1 += u64::from(plain.is_none());
        }
    }
    sums
}

/// The namespace of a name.
fn owner_of<'a>(declared: &'a [(String, Vec<u8>)], name: &[u8]) -> Option<&'a String> {
    let fitting = declared.iter().filter(|(_, prefix)| name.starts_with(prefix));
    fitting.max_by_key(|(_, prefix)| prefix.len()).map(|(space, _)| space)
}

fn check(talk: &Talk, after: &str) {
    check_with(talk, after, (b"", 0));
}

/// [`check`] while a filter of this name is coming, which takes so many bytes until it is there.
fn check_with(talk: &Talk, after: &str, (name, coming): (&[u8], u64)) {
    let declared = declared(&talk.desk);
    let mut expected = expected(&talk.engine, &declared);
    if let Some(space) = owner_of(&declared, name) {
        expected.get_mut(space).unwrap().0 += coming;
    }
    let told = talk.engine.namespaces.tell_first(100);
    let told: BTreeMap<String, (u64, u64)> = told.into_iter().map(|one| (one.name, (one.used, one.filters))).collect();
    assert_eq!(told, expected, "after {after}");
}

fn items(random: &mut Random, most: u64) -> String {
    (0..1 + random.below(most)).map(|_| format!(" i{}", random.below(1 << 40))).collect()
}

/// One random command.
fn command(random: &mut Random) -> String {
    let (one, other, third) = (random.name(), random.name(), random.name());
    match random.below(34) {
        0 => format!("BF.RESERVE {one} 0.01 {}", 1 + random.below(60_000)),
        1 => format!("BF.RESERVE {one} 0.001 {} EXPANSION {}", 1 + random.below(500), 1 + random.below(4)),
        2..=7 => format!("BF.MADD {one}{}", items(random, 900)),
        8 => format!("CF.RESERVE {one} {}", 1 + random.below(20_000)),
        9..=11 => format!("CF.INSERT {one} ITEMS{}", items(random, 900)),
        12 => format!("CF.COMPACT {one}"),
        13 => {
            let kind = random.of(&["blocked", "classic", "counting", "cuckoo", "quotient", "scalable", "stable"]);
            format!("BG.CREATE {one} KIND {kind} CAPACITY {} RATE 0.01", 1 + random.below(40_000))
        }
        14 => format!("BG.CREATE {one} KIND rotating CAPACITY 1000 RATE 0.01 WINDOW 60"),
        15 => format!("BG.CREATE {one} LIKE {other}"),
        16 | 17 => format!("BG.ADD {one}{}", items(random, 200)),
        18 | 19 => format!("DEL {one} {other}"),
        20 => format!("RENAME {one} {other}"),
        21 => format!("RENAMENX {one} {other}"),
        22 => format!("COPY {one} {other}"),
        23 => format!("COPY {one} {other} REPLACE"),
        24 => format!("BG.SWAP {one} {other}"),
        25 => format!("BG.MERGE {one} {other} {third}"),
        26 => format!("BG.INTERSECT {one} {other} {third}"),
        27 => format!("BG.FOLD {one} 2"),
        28 => format!("BG.REKEY {one} START"),
        29 => format!("BG.REKEY {one} {}", random.of(&["FINISH", "ABORT"])),
        30 => format!("BG.FEED {one}{}", items(random, 300)),
        31 => format!("PEXPIRE {one} {}", 1 + random.below(100_000)),
        32 => format!("PERSIST {one}"),
        _ => {
            let space = random.of(&["a", "b", "c"]);
            let prefix = match space {
                "a" => "a:",
                "b" => "a:b:",
                _ => "c:",
            };
            match random.below(4) {
                0 => format!("BG.NAMESPACE DEL {space}"),
                1 => format!("BG.NAMESPACE SET {space} PREFIX {prefix} MAXMEMORY 0 MAXFILTERS 0"),
                _ => {
                    let (bytes, filters) = (random.below(400_000), 1 + random.below(4));
                    format!("BG.NAMESPACE SET {space} PREFIX {prefix} MAXMEMORY {bytes} MAXFILTERS {filters}")
                }
            }
        }
    }
}

/// Commands that were done and that a limit refused.
#[derive(Default)]
struct Seen {
    done: u64,
    memory: u64,
    filters: u64,
}

fn walk(talk: &mut Talk, random: &mut Random, steps: usize, seen: &mut Seen) {
    for _ in 0..steps {
        let line = command(random);
        let in_transaction = random.below(8) == 0 && !line.starts_with("BG.NAMESPACE");
        let reply = match in_transaction {
            true => {
                talk.say("MULTI");
                talk.say(&line);
                talk.say("EXEC")
            }
            false => talk.say(&line),
        };
        seen.done += u64::from(!reply.contains('-'));
        seen.memory += u64::from(reply.contains("MAXMEMORY of the namespace"));
        seen.filters += u64::from(reply.contains("filters and may have"));
        check(talk, &line.chars().take(80).collect::<String>());
    }
}

/// A dump of a filter comes back under another name.
fn load_again(talk: &mut Talk, from: &str, to: &str) {
    let mut iterator = b"0".to_vec();
    loop {
        let reply = talk.send(&[b"BF.SCANDUMP", from.as_bytes(), &iterator]);
        let lines: Vec<&[u8]> = reply.splitn(3, |&byte| byte == b'\n').collect();
        let (Some(b"*2\r"), Some(number)) = (lines.first().copied(), lines.get(1)) else { return };
        iterator = number[1..number.len() - 1].to_vec();
        let data = lines[2];
        let at = data.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        if iterator == b"0" || data.len() < at + 2 {
            return;
        }
        talk.send(&[b"BF.LOADCHUNK", to.as_bytes(), &iterator, &data[at..data.len() - 2]]);
        // What is not whole yet is charged too, as far as it will surely be the filter's.
        let coming = talk.engine.loads.find(to.as_bytes()).map_or(0, |load| {
            let length = load.announced.length();
            (length - length / 32).saturating_sub(16 << 10)
        });
        check_with(talk, "a chunk", (to.as_bytes(), coming));
    }
}

#[test]
fn a_namespace_is_charged_for_what_its_filters_take_whatever_happens() {
    let mut seen = Seen::default();
    for seed in 1..=6 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let mut talk = Talk::with(engine(3 << 20), desk());
        for round in 0..30 {
            walk(&mut talk, &mut random, 40, &mut seen);
            let (from, to) = (random.name(), random.name());
            load_again(&mut talk, &from, &to);
            talk.engine.clock.set(NOW_MS + round * 10_000);
            talk.engine.remove_expired();
            // Ten times a second a thread lets go of what it knew.
            talk.core.nearby.refresh(&talk.engine.names);
            talk.engine.free_leaving();
            check(&talk, "the end of some");
        }
        if seed % 2 == 0 {
            talk.say("BG.NAMESPACE SET a PREFIX a: MAXMEMORY 0 MAXFILTERS 0");
            talk.say("ACL SETUSER ann on >p +@all namespace=a");
            talk.say("BF.ADD a:0 x");
            let mut ann = talk.another();
            ann.say("AUTH ann p");
            assert_eq!(ann.say("FLUSHALL"), "+OK");
            talk.core.nearby.refresh(&talk.engine.names);
            talk.engine.free_leaving();
            check(&talk, "FLUSHALL of a namespace");
            let a = talk.engine.namespaces.tell("a").unwrap();
            assert_eq!((a.used, a.filters), (0, 0));
        }
        talk.say("FLUSHALL");
        check(&talk, "FLUSHALL");
        assert!(talk.engine.namespaces.tell_first(9).iter().all(|told| (told.used, told.filters) == (0, 0)));
    }
    assert!(
        seen.done > 1_000 && seen.memory > 20 && seen.filters > 100,
        "{} {} {}",
        seen.done,
        seen.memory,
        seen.filters
    );
}

/// A server on a folder; namespaces are declared before the filters are read, or after.
fn open(folder: &Path, before: bool) -> Talk {
    let settings = Settings {
        data: Some(folder.to_path_buf()),
        fsync: Fsync::Never,
        threads: 2,
        limits: Limits { max_memory: 3 << 20, max_filter_memory: 3 << 20, max_filters: 1_000 },
        ..Settings::default()
    };
    let opening = Opening::begin(&settings, Arc::new(RealDisk), 4).unwrap();
    let access = Directory::open(&settings).unwrap();
    if before {
        opening.engine.stop().declare(&access.book().namespaces);
    }
    let opened = opening.load().unwrap();
    opened.engine.end_loading();
    if !before {
        opened.engine.stop().declare(&access.book().namespaces);
    }
    let desk = Desk::new(4, Some(access), "run".to_owned(), Vec::new());
    desk.keeper.set(Arc::new(SharedKeeping(opened.keeping.unwrap()))).unwrap();
    Talk::join(opened.engine, Arc::new(desk))
}

#[test]
fn so_it_is_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut seen = Seen::default();
    for round in 0..6 {
        let mut talk = open(folder.path(), round % 2 == 0);
        check(&talk, "a start");
        let told = talk.engine.namespaces.tell_first(9);
        assert_eq!(told.len(), talk.desk.access.book().namespaces.len());
        assert!(round < 2 || told.iter().map(|one| one.filters).sum::<u64>() > 0, "there is something to count");
        walk(&mut talk, &mut random, 120, &mut seen);
        talk.say("BG.NAMESPACE SET a PREFIX a: MAXMEMORY 0 MAXFILTERS 0");
        talk.say("BF.ADD a:0 x");
        if round == 3 {
            assert_eq!(talk.say("SAVE"), "+OK");
        }
        talk.engine.journal.flush();
    }
    assert!(seen.done > 100);
}
