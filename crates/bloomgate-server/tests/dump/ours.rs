//! Copies of our own filters: the same answers, nothing seen before it is whole, and nothing kept that nobody fetches.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bloomgate::{AnyFilter, Kind, Secret, WhenFull};
use bloomgate_server::engine::Core;
use bloomgate_server::engine::adding::Copies;
use bloomgate_server::engine::dump_form::{self, Header};
use bloomgate_server::engine::entry::Maker;
use bloomgate_server::engine::recipe::Recipe;
use bloomgate_server::session::desk::Keeper;

use crate::talk::{Server, Value, items, limits};

const CF: Maker = Maker::Cf { bucket_size: 2, max_iterations: 20, expansion: 1 };

fn recipe(server: &Server, kind: Kind) -> Recipe {
    let mut recipe = Recipe::new(kind, 3_000, 0.01, server.engine.contracts.keyed("default"));
    recipe.window_ns = 3_600_000_000_000;
    recipe
}

/// A copy of a filter is the same filter, of every kind, empty or not, and costs what the filter costs.
#[test]
fn a_copy_is_the_same_filter() {
    let mut server = Server::new();
    let (members, strangers) = (items("member", 2_500), items("stranger", 20_000));
    let kinds = [
        (Kind::Scalable, Maker::Bf { expansion: 2 }, "BF"),
        (Kind::Blocked, Maker::Bg, "BF"),
        (Kind::Classic, Maker::Bg, "BF"),
        (Kind::Partitioned, Maker::Bg, "BF"),
        (Kind::Counting, Maker::Bg, "BF"),
        (Kind::Quotient, Maker::Bg, "BF"),
        (Kind::Rotating, Maker::Bg, "BF"),
        (Kind::Stable, Maker::Bg, "BF"),
        (Kind::Cuckoo, Maker::Bg, "CF"),
        (Kind::GrowingCuckoo, CF, "CF"),
    ];
    for (kind, maker, family) in kinds {
        for filled in [false, true] {
            let recipe = recipe(&server, kind);
            server.make("original", recipe, maker);
            if filled {
                server.add("original", &members);
            }
            let removable = matches!(kind, Kind::Counting | Kind::Quotient | Kind::Cuckoo | Kind::GrowingCuckoo);
            if filled && removable {
                assert!(server.remove("original", &members[..100]).iter().all(|&removed| removed));
            }
            let before = server.engine.budget.used();
            let chunks = server.dump(family, "original");
            assert_eq!(server.engine.budget.used(), before, "the dump of {kind} is over");
            server.load_all(family, "copy", &chunks);
            let (original, copy) = (server.entry("original"), server.entry("copy"));
            assert_eq!((copy.kind(), copy.maker(), copy.recipe()), (kind, maker, original.recipe()));
            assert_eq!(copy.deleted(), original.deleted());
            assert_eq!(server.engine.budget.used(), before + copy.memory());
            assert_eq!(server.answers("copy", &members), server.answers("original", &members), "{kind}");
            assert_eq!(server.answers("copy", &strangers), server.answers("original", &strangers), "{kind}");
            assert_eq!(server.address("copy"), server.address("original"), "{kind}");
            // What somebody holds is charged.
            drop((original, copy));
            assert_eq!(server.tell("DEL original copy"), Value::Int(2));
        }
    }
    assert_eq!(server.engine.budget.used(), 0);
}

/// Chunks of 1 MiB, in order: each says where it goes, and the numbers are exact in a double.
#[test]
fn a_large_filter_comes_in_pieces() {
    let mut server = Server::new();
    server.tell("BF.RESERVE big 0.01 2000000");
    server.add("big", &items("member", 10_000));
    let chunks = server.dump("BF", "big");
    let header = Header::from_bytes(&chunks[0].1).unwrap();
    let bytes: usize = chunks[1..].iter().map(|(_, data)| data.len() - dump_form::FRAME).sum();
    assert_eq!(bytes as u64, header.length);
    assert_eq!(chunks.len() as u64, 1 + header.length.div_ceil(1 << 20));
    assert!(chunks.len() > 2 && chunks.iter().all(|&(iterator, _)| iterator > 0 && iterator < 1 << 53));
    // In any order after the header, and one of them twice.
    let mut mixed = chunks.clone();
    mixed[1..].reverse();
    mixed.insert(2, chunks[chunks.len() - 1].clone());
    server.load_all("BF", "copy", &mixed);
    assert_eq!(server.address("copy"), server.address("big"));
    // It is whole: more is refused, as for every name that has a filter.
    assert_eq!(server.load("BF", "copy", &chunks[0]).error(), "ERR item exists");
    assert_eq!(server.load("BF", "copy", &chunks[1]).error(), "ERR item exists");
}

/// What is added between the chunks is not in the dump, and the original keeps it.
#[test]
fn a_dump_is_of_one_moment() {
    let mut server = Server::new();
    server.tell("BF.RESERVE seen 0.001 1000000");
    server.add("seen", &items("before", 50_000));
    let (counted, address) = (server.tell("BF.CARD seen"), server.address("seen"));
    let mut chunks = Vec::new();
    let (mut next, mut data) = server.scan("BF.SCANDUMP", "seen", 0);
    for round in 0.. {
        let Value::Bulk(bytes) = data else { panic!("{data:?}") };
        if next == 0 {
            break;
        }
        chunks.push((next, bytes));
        server.add("seen", &items(&format!("after {round}"), 10_000));
        (next, data) = server.scan("BF.SCANDUMP", "seen", next);
    }
    assert!(chunks.len() > 2);
    server.load_all("BF", "copy", &chunks);
    assert_eq!((server.tell("BF.CARD copy"), server.address("copy")), (counted, address));
    assert!(server.answers("copy", &items("before", 50_000)).iter().all(|&answer| answer));
    assert!(server.answers("seen", &items("after 0", 10_000)).iter().all(|&answer| answer));
}

/// Dumps that are fetched at once do not mix, neither when they are read nor when they are loaded.
#[test]
fn dumps_at_once_stay_apart() {
    let mut server = Server::new();
    for name in ["one", "two"] {
        server.tell(&format!("BF.RESERVE {name} 0.01 1500000"));
        server.add(name, &items(name, 20_000));
    }
    let (mut one, mut two) = (vec![server.scan("BF.SCANDUMP", "one", 0)], vec![server.scan("BF.SCANDUMP", "two", 0)]);
    for _ in 0..20 {
        for (name, chunks) in [("one", &mut one), ("two", &mut two)] {
            let last = chunks.last().unwrap().0;
            if last != 0 {
                chunks.push(server.scan("BF.SCANDUMP", name, last));
            }
        }
    }
    let bytes = |chunks: Vec<(i64, Value)>| -> Vec<(i64, Vec<u8>)> {
        assert_eq!(chunks.last().unwrap(), &(0, Value::Bulk(Vec::new())));
        let whole = chunks.into_iter().filter(|(next, _)| *next != 0);
        whole.map(|(next, data)| if let Value::Bulk(data) = data { (next, data) } else { panic!("{data:?}") }).collect()
    };
    let (one, two) = (bytes(one), bytes(two));
    // An iterator of the other filter's dump is none of this one's, also while both are there.
    let foreign = server.tell(&format!("BF.SCANDUMP one {}", two[1].0));
    assert!(foreign.error().contains("start again from 0"), "{foreign:?}");
    assert!(server.load("BF", "copy one", &one[0]).is_ok());
    let refused = server.load("BF", "copy one", &two[1]);
    assert!(refused.error().starts_with("ERR received bad data: "), "{refused:?}");
    for chunk in &one[1..] {
        assert!(server.load("BF", "copy one", chunk).is_ok());
    }
    server.load_all("BF", "copy-two", &two);
    assert_eq!(server.address("copy one"), server.address("one"));
    assert_eq!(server.address("copy-two"), server.address("two"));
}

#[test]
fn what_nobody_goes_on_with_is_dropped() {
    let mut server = Server::new();
    server.tell("BF.RESERVE seen 0.01 100000");
    let kept = server.engine.budget.used();
    let chunks = server.dump("BF", "seen");
    // The end can be asked for again; what is before it is gone.
    let end = chunks.last().unwrap().0;
    assert_eq!(server.scan("BF.SCANDUMP", "seen", end).0, 0);
    assert!(server.tell(&format!("BF.SCANDUMP seen {}", chunks[0].0)).error().contains("start again from 0"));

    let (next, _) = server.scan("BF.SCANDUMP", "seen", 0);
    assert!(server.load("BF", "copy", &chunks[0]).is_ok());
    assert_eq!((server.engine.dumps.len(), server.engine.loads.len()), (1, 1));
    assert!(server.engine.budget.used() > kept + 200_000);
    server.wait_ms(59_000);
    assert_ne!(server.scan("BF.SCANDUMP", "seen", next).0, 0);
    server.wait_ms(59_999);
    server.engine.drop_abandoned();
    assert_eq!((server.engine.dumps.len(), server.engine.loads.len()), (1, 0), "the load is older than the last call");
    server.wait_ms(1);
    assert!(server.tell(&format!("BF.SCANDUMP seen {next}")).error().contains("start again from 0"));
    server.engine.drop_abandoned();
    assert_eq!((server.engine.dumps.len(), server.engine.budget.used()), (0, kept));
    assert!(server.load("BF", "copy", &chunks[1]).error().starts_with("ERR not found"));

    // Another run of the server knows no dump of before; numbers that were never given out belong to none.
    let mut again = Server::new();
    again.tell("BF.RESERVE seen 0.01 100000");
    for iterator in [1, 2, -1, -5, i64::MAX, i64::MIN, 1 << 40, (1 << 40) + 1, (1 << 53) + 1] {
        let reply = again.tell(&format!("BF.SCANDUMP seen {iterator}"));
        assert!(reply.error().contains("start again from 0"), "{iterator}: {reply:?}");
    }
}

/// A filter that was deleted, or made again under its name, is not fetched any more.
#[test]
fn a_dump_ends_with_its_filter() {
    let mut server = Server::new();
    server.tell("BF.ADD seen a");
    let (next, _) = server.scan("BF.SCANDUMP", "seen", 0);
    server.tell("DEL seen");
    assert_eq!(server.tell(&format!("BF.SCANDUMP seen {next}")).error(), "ERR not found");
    server.tell("BF.ADD seen b");
    assert!(server.tell(&format!("BF.SCANDUMP seen {next}")).error().contains("start again from 0"));
}

#[test]
fn there_are_only_so_many_at_once() {
    let mut server = Server::new();
    server.tell("BF.RESERVE seen 0.01 1000");
    let chunks = server.dump("BF", "seen");
    let first = server.scan("BF.SCANDUMP", "seen", 0).0;
    for at in 0..16 {
        if at > 0 {
            server.scan("BF.SCANDUMP", "seen", 0);
        }
        assert!(server.load("BF", &format!("copy{at}"), &chunks[0]).is_ok());
    }
    assert!(server.tell("BF.SCANDUMP seen 0").error().contains("16 dumps"));
    assert!(server.load("BF", "copy16", &chunks[0]).error().contains("16 filters are being loaded"));
    assert!(server.load("BF", "copy3", &chunks[0]).is_ok(), "the same header goes on");
    // Whoever stands still for five seconds makes place.
    server.wait_ms(5_000);
    let (_, data) = server.scan("BF.SCANDUMP", "seen", 0);
    assert_ne!(data, Value::Bulk(Vec::new()));
    assert!(server.tell(&format!("BF.SCANDUMP seen {first}")).error().contains("start again from 0"));
    assert!(server.load("BF", "copy16", &chunks[0]).is_ok());
    assert_eq!((server.engine.dumps.len(), server.engine.loads.len()), (16, 16));
}

#[test]
fn memory_is_asked_for_before_it_is_taken() {
    let mut large = Server::new();
    large.tell("BF.RESERVE seen 0.01 400000");
    let size = large.engine.budget.used();
    // The filter and its file fit; a second file does not.
    let mut server = Server::with(limits(size * 5 / 2), Some("5a"));
    server.tell("BF.RESERVE seen 0.01 400000");
    let (next, _) = server.scan("BF.SCANDUMP", "seen", 0);
    let refused = server.tell("BF.SCANDUMP seen 0");
    assert!(refused.error().contains("max-memory"), "{refused:?}");
    assert_ne!(server.scan("BF.SCANDUMP", "seen", next).0, 0);

    large.tell("BF.RESERVE larger 0.01 3000000");
    let chunks = large.dump("BF", "larger");
    let before = server.engine.budget.used();
    let refused = server.load("BF", "copy", &chunks[0]);
    assert!(refused.error().contains("max-filter-memory"), "{refused:?}");
    assert_eq!((server.engine.budget.used(), server.engine.loads.len()), (before, 0));
    // A header that announces more than any memory is refused by its number.
    let mut header = Header::from_bytes(&chunks[0].1).unwrap();
    header.length = 1 << 39;
    let refused = large.load("BF", "copy", &(chunks[0].0, header.to_bytes()));
    assert!(refused.error().contains("max-filter-memory"), "{refused:?}");
}

#[test]
fn a_dump_needs_its_secret() {
    let mut server = Server::new();
    server.tell("BF.ADD seen alice");
    let chunks = server.dump("BF", "seen");
    let mut same = Server::new();
    same.load_all("BF", "copy", &chunks);
    assert_eq!(same.tell("BF.EXISTS copy alice"), Value::Int(1));
    let mut other = Server::with(limits(1 << 30), Some("33"));
    assert!(other.load("BF", "copy", &chunks[0]).is_ok());
    let refused = other.load("BF", "copy", &chunks[1]);
    assert!(refused.error().contains("another master secret"), "{refused:?}");
    assert_eq!((other.tell("EXISTS copy"), other.engine.budget.used()), (Value::Int(0), 0));
    let mut none = Server::with(limits(1 << 30), None);
    assert!(none.load("BF", "copy", &chunks[0]).error().contains("no master secret"));
}

#[test]
fn names_and_families_are_checked() {
    let mut server = Server::new();
    server.tell("BF.ADD seen a");
    let recipe = recipe(&server, Kind::GrowingCuckoo);
    server.make("carts", recipe, CF);
    let (bloom, cuckoo) = (server.dump("BF", "seen"), server.dump("CF", "carts"));
    let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(server.tell("BF.SCANDUMP carts 0").error(), wrong);
    assert_eq!(server.tell("CF.SCANDUMP seen 0").error(), wrong);
    assert_eq!(server.tell("BF.SCANDUMP nothing 0").error(), "ERR not found");
    assert_eq!(server.tell("CF.SCANDUMP nothing 0").error(), "ERR not found");
    assert_eq!(server.load("BF", "carts", &bloom[0]).error(), wrong);
    assert_eq!(server.load("CF", "carts", &cuckoo[0]).error(), "ERR item exists");
    assert!(server.load("BF", "copy", &cuckoo[0]).error().contains("CF.LOADCHUNK"));
    assert!(server.load("CF", "copy", &bloom[0]).error().contains("BF.LOADCHUNK"));
    assert!(server.load("BF", "copy", &bloom[1]).error().starts_with("ERR not found"));
    assert!(server.load("CF", "copy", &cuckoo[1]).error().starts_with("ERR not found"));
    assert!(server.load("BF", "copy", &bloom[0]).is_ok());
    assert_eq!(
        server.load("CF", "copy", &cuckoo[1]).error(),
        wrong,
        "a load of one family takes no chunk of the other"
    );
    // Somebody else makes the filter first: the load is refused, and then the name is free again for a new one.
    server.tell("BF.ADD copy somebody");
    assert_eq!(server.load("BF", "copy", &bloom[1]).error(), "ERR item exists");
    assert_eq!(server.tell("BF.EXISTS copy somebody"), Value::Int(1));
}

/// In a transaction both work, and the copy comes with the rest of it.
#[test]
fn transactions_dump_and_load() {
    let mut server = Server::new();
    server.tell("BF.ADD seen alice");
    let chunks = server.dump("BF", "seen");
    server.tell("MULTI");
    server.tell("BF.ADD seen bob");
    server.tell("BF.SCANDUMP seen 0");
    for chunk in &chunks {
        assert_eq!(server.load("BF", "copy", chunk), Value::Simple("QUEUED".into()));
    }
    server.tell("BF.EXISTS copy alice");
    let replies = server.tell("EXEC");
    let replies = replies.array();
    assert_eq!(replies[0], Value::Int(1));
    assert!(matches!(&replies[1].array()[1], Value::Bulk(header) if header.starts_with(b"BGDUMP01")));
    assert_eq!(replies.last(), Some(&Value::Int(1)));
    assert_eq!(server.tell("BF.EXISTS copy bob"), Value::Int(0));
}

/// A folder that images are written to.
#[derive(Debug)]
struct Folder(tempfile::TempDir, Mutex<Vec<String>>);

impl Keeper for Folder {
    fn save(&self) -> Result<(), String> {
        Ok(())
    }
    fn save_in_background(&self) -> bool {
        false
    }
    fn last_save_s(&self) -> u64 {
        0
    }
    fn is_saving(&self) -> bool {
        false
    }
    fn last_error(&self) -> Option<String> {
        None
    }
    fn write_image(&self, id: u64, filter: &AnyFilter) -> Result<std::sync::Arc<str>, String> {
        let name = format!("{id}.image");
        filter.save(self.0.path().join(&name)).map_err(|error| error.to_string())?;
        self.1.lock().unwrap().push(name.clone());
        Ok(name.into())
    }
    fn spool(&self, _: u64) -> Result<bloomgate_server::store::Spool, String> {
        Err("nobody fetches anything here".to_owned())
    }
    fn backup(&self, folder: &str) -> Result<String, String> {
        Err(folder.into())
    }
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The image of a large filter is in the folder, complete, before the filter has its name; that of a small one is not.
#[test]
fn large_images_are_files() {
    let mut server = Server::new();
    let folder = std::sync::Arc::new(Folder(tempfile::tempdir().unwrap(), Mutex::default()));
    server.desk.keeper.set(folder.clone()).unwrap();
    server.tell("BF.RESERVE large 0.01 1000000 NONSCALING");
    server.add("large", &items("member", 1_000));
    server.tell("BF.ADD small a");
    let (large, small) = (server.dump("BF", "large"), server.dump("BF", "small"));
    server.load_all("BF", "copy", &large);
    server.load_all("BF", "copy-of-small", &small);
    let names = folder.1.lock().unwrap().clone();
    let entry = server.entry("copy");
    assert_eq!(names, [format!("{}.image", entry.id)]);
    assert_eq!(entry.recipe().when_full, WhenFull::Refuse);
    let secret = Secret::from_hex(&"5a".repeat(32)).unwrap().derive("contract default epoch 1");
    let file = AnyFilter::open_keyed(folder.0.path().join(&names[0]), &secret).unwrap();
    assert!(items("member", 1_000).iter().all(|item| file.contains(item.as_bytes()).unwrap()));
}

/// While another thread adds, a dump has every item that was acknowledged before it began, and it is whole.
#[test]
fn a_dump_beside_a_writer_has_all_that_came_before() {
    for (kind, maker, family) in [(Kind::Scalable, Maker::Bf { expansion: 2 }, "BF"), (Kind::GrowingCuckoo, CF, "CF")] {
        let mut server = Server::new();
        let recipe = recipe(&server, kind);
        server.make("seen", recipe, maker);
        let (acknowledged, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (engine, all) = (server.engine.clone(), items("member", 60_000));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut core = Core::new(engine.clone(), 1);
                let entry = engine.find(b"seen").unwrap();
                for some in all.chunks(20) {
                    let words: Vec<&[u8]> = some.iter().map(|item| item.as_bytes()).collect();
                    let mut added = Vec::new();
                    while core.scratch.add(&mut engine.pass(1), &entry, &words, Copies::One, &mut added).is_err() {}
                    acknowledged.fetch_add(words.len(), Ordering::Release);
                }
                over.store(true, Ordering::Release);
            });
            let mut dumps = 0;
            while !over.load(Ordering::Acquire) || dumps == 0 {
                let before = acknowledged.load(Ordering::Acquire);
                let chunks = server.dump(family, "seen");
                server.load_all(family, "copy", &chunks);
                let answers = server.answers("copy", &all[..before]);
                assert!(answers.iter().all(|&answer| answer), "{kind}: an item of before the dump is missing");
                server.tell("DEL copy");
                dumps += 1;
            }
        });
    }
}
