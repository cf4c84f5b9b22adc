//! RedisBloom's own dumps: they answer here as they did there, and go on from there.

use bloomgate::{AnyFilter, Kind};
use bloomgate_server::engine::adding::Added;
use bloomgate_server::engine::entry::{Body, Maker};

use crate::fixture::Fixture;
use crate::talk::{Server, Value, items, limits};

const BF: [&str; 3] = ["bf-auto-one", "bf-nonscaling-1000-0.01", "bf-scaling-grown-0.001"];
const CF: [&str; 2] = ["cf-bucket4-deleted", "cf-grown"];

fn answers_as_there(server: &mut Server, name: &str, fixture: &Fixture) {
    assert!(server.answers(name, &fixture.texts("members")).iter().all(|&answer| answer));
    assert_eq!(server.answers(name, &fixture.texts("probe")), fixture.answers("probe_answers"));
}

#[test]
fn bloom_filters_answer_as_they_did_there() {
    let mut server = Server::new();
    for name in BF {
        let fixture = Fixture::load(name);
        let mut chunks = fixture.chunks();
        server.load_all("BF", "copy", &chunks);
        answers_as_there(&mut server, "copy", &fixture);
        let probe = fixture.texts("probe");
        let words: Vec<&[u8]> =
            [&b"BF.MEXISTS"[..], b"copy"].into_iter().chain(probe.iter().map(|item| item.as_bytes())).collect();
        let expected = fixture.answers("probe_answers").into_iter().map(|answer| Value::Int(answer.into())).collect();
        assert_eq!(server.say(&words), Value::Array(expected));
        for (field, told) in
            [("CAPACITY", "Capacity"), ("FILTERS", "Number of filters"), ("ITEMS", "Number of items inserted")]
        {
            let info = server.tell(&format!("BF.INFO copy {field}"));
            assert_eq!(info, Value::Array(vec![Value::Int(fixture.number(told))]), "{name} {field}");
        }
        let expansion = if name.contains("nonscaling") { Value::Nil } else { Value::Int(2) };
        assert_eq!(server.tell("BF.INFO copy EXPANSION"), Value::Array(vec![expansion]));
        assert_eq!(server.tell("TYPE copy"), Value::Simple("MBbloom--".into()));
        let entry = server.entry("copy");
        assert_eq!((entry.kind(), entry.recipe().kind), (Kind::RedisBloom, Kind::RedisBloom));
        assert_eq!(entry.memory(), server.engine.budget.used());
        // What a snapshot keeps of it is the same filter.
        let Body::Guarded(filter) = entry.body() else { panic!("{:?}", entry.body()) };
        let bytes = filter.read().unwrap().to_bytes().unwrap();
        let AnyFilter::RedisBloom(again) = AnyFilter::from_bytes(&bytes).unwrap() else { panic!("another kind") };
        assert_eq!(again.to_chunks().unwrap(), chunks);
        // The header first, and then in any order.
        chunks[1..].reverse();
        server.load_all("BF", "backwards", &chunks);
        assert_eq!(server.address("backwards"), server.address("copy"));
        drop(entry);
        assert_eq!(server.tell("DEL copy backwards"), Value::Int(2));
    }
    assert_eq!(server.engine.budget.used(), 0);
}

#[test]
fn cuckoo_filters_answer_as_they_did_there_and_forget() {
    let mut server = Server::new();
    for name in CF {
        let fixture = Fixture::load(name);
        let chunks = fixture.chunks();
        server.load_all("CF", "copy", &chunks);
        answers_as_there(&mut server, "copy", &fixture);
        let entry = server.entry("copy");
        let number = |told: &str| fixture.number(told);
        let expansion = number("Expansion rate") as u16;
        let (bucket_size, max_iterations) = (number("Bucket size") as u16, number("Max iterations") as u16);
        assert_eq!(entry.maker(), Maker::Cf { bucket_size, max_iterations, expansion });
        assert_eq!(entry.deleted() as i64, number("Number of items deleted"));
        assert_eq!(entry.with(|filter| filter.len()), Some(number("Number of items inserted") as u64));
        assert_eq!(entry.with(|filter| filter.stages()), Some(number("Number of filters") as usize));
        let Body::Guarded(filter) = entry.body() else { panic!("{:?}", entry.body()) };
        let bytes = filter.read().unwrap().to_bytes().unwrap();
        let AnyFilter::RedisCuckoo(again) = AnyFilter::from_bytes(&bytes).unwrap() else { panic!("another kind") };
        assert_eq!(again.to_chunks().unwrap(), chunks);
        // More go in, tables are added and paid for, and every key can be taken out again.
        let more = items("more", 3_000);
        assert!(server.add("copy", &more).iter().all(|&added| added == Added::New));
        assert!(server.answers("copy", &more).iter().all(|&answer| answer));
        assert!(entry.with(|filter| filter.stages()).unwrap() > number("Number of filters") as usize);
        let size = entry.with(|filter| filter.size_in_bytes()).unwrap();
        assert_eq!((entry.charged(), server.engine.budget.used()), (size, entry.memory()));
        let members = fixture.texts("members");
        assert!(server.remove("copy", &members).iter().all(|&removed| removed));
        assert!(server.remove("copy", &more).iter().all(|&removed| removed));
        assert_eq!(entry.with(|filter| filter.len()), Some(0));
        drop(entry);
        server.tell("DEL copy");
    }
    assert_eq!(server.engine.budget.used(), 0);
}

/// A chain that scales goes on past its capacity, keeps every key and its rate, and is charged link by link.
#[test]
fn a_scaling_filter_grows_on() {
    let mut server = Server::new();
    let fixture = Fixture::load("bf-auto-one");
    server.load_all("BF", "copy", &fixture.chunks());
    let more = items("more", 20_000);
    for some in more.chunks(500) {
        let words: Vec<&[u8]> =
            [&b"BF.MADD"[..], b"copy"].into_iter().chain(some.iter().map(|item| item.as_bytes())).collect();
        assert!(server.say(&words).array().iter().all(|added| matches!(added, Value::Int(0 | 1))));
    }
    assert!(server.answers("copy", &more).iter().all(|&answer| answer));
    assert_eq!(server.tell("BF.EXISTS copy only"), Value::Int(1));
    // Links of 100 · 2^i at 0.5 % · 2^-i each: 1 % at most, and here 20,000 keys of 25,500.
    let strangers = server.answers("copy", &items("stranger", 40_000)).into_iter().filter(|&answer| answer).count();
    assert!((40..440).contains(&strangers), "{strangers} of 40,000 where up to 1 % were promised");
    let entry = server.entry("copy");
    let (size, links) = entry.with(|filter| (filter.size_in_bytes(), filter.stages())).unwrap();
    assert_eq!((entry.charged(), links), (size, 8));
    assert_eq!(server.engine.budget.used(), entry.memory());
    // A copy of it is ours in form, and the same filter.
    let chunks = server.dump("BF", "copy");
    server.load_all("BF", "again", &chunks);
    assert_eq!(server.address("again"), server.address("copy"));
    assert_eq!(server.entry("again").maker(), Maker::Bf { expansion: 2 });
}

/// Where the next link does not fit, the key is refused, nothing is changed, and those that are in stay in.
#[test]
fn growth_is_charged_before_it_happens() {
    let mut server = Server::with(limits(5_000), Some("5a"));
    let fixture = Fixture::load("bf-auto-one");
    server.load_all("BF", "copy", &fixture.chunks());
    let replies: Vec<Value> =
        items("more", 2_000).iter().map(|item| server.tell(&format!("BF.ADD copy {item}"))).collect();
    let is_refused = |reply: &Value| match reply {
        Value::Error(why) => why.starts_with("ERR problem inserting into filter: to grow it needs "),
        _ => false,
    };
    let first = replies.iter().position(is_refused).expect("a refusal");
    assert!((600..1_600).contains(&first), "refused at {first}");
    assert!(replies[first..].iter().all(|reply| is_refused(reply) || *reply == Value::Int(0)));
    assert!(server.answers("copy", &items("more", first)).iter().all(|&answer| answer));
    assert_eq!(server.engine.budget.used(), server.entry("copy").memory());
    assert!(server.engine.budget.used() <= 5_000);
}

#[test]
fn a_full_filter_that_does_not_scale_refuses() {
    let mut server = Server::new();
    let fixture = Fixture::load("bf-nonscaling-1000-0.01");
    server.load_all("BF", "copy", &fixture.chunks());
    let replies: Vec<Value> =
        items("more", 20).iter().map(|item| server.tell(&format!("BF.ADD copy {item}"))).collect();
    let taken = replies.iter().filter(|reply| **reply == Value::Int(1)).count();
    assert_eq!(taken as i64, 1_000 - fixture.number("Number of items inserted"));
    assert!(replies.contains(&Value::Error("ERR non scaling filter is full".into())));
    answers_as_there(&mut server, "copy", &Fixture::load("bf-nonscaling-1000-0.01"));
}

#[test]
fn wrong_chunks_of_theirs_are_refused_in_their_words() {
    let mut server = Server::new();
    let chunks = Fixture::load("bf-scaling-grown-0.001").chunks();
    let (iterator, first) = chunks[1].clone();
    for header in [&chunks[0].1[..72], &chunks[0].1[1..], b"", b"header"] {
        assert!(server.load("BF", "copy", &(1, header.to_vec())).error().starts_with("ERR received bad data"));
    }
    // A link whose number of hashes is not that of its bits per entry.
    let mut header = chunks[0].1.clone();
    header[20 + 40] ^= 1;
    assert!(server.load("BF", "copy", &(1, header)).error().starts_with("ERR received bad data"));
    assert!(server.load("BF", "copy", &chunks[0]).is_ok());
    for wrong in [0, -3, i64::MIN] {
        assert_eq!(server.load("BF", "copy", &(wrong, first.clone())).error(), "ERR received bad data");
    }
    assert!(server.load("BF", "copy", &(5, first.clone())).error().starts_with("ERR received bad data"));
    assert!(server.load("BF", "copy", &(iterator, Vec::new())).error().starts_with("ERR received bad data"));
    let past = (1 << 30) + 1;
    assert_eq!(server.load("BF", "copy", &(past, first.clone())).error(), "ERR invalid offset - no link found");
    let end = chunks.last().unwrap().0;
    let crossing = server.load("BF", "copy", &(end + 8, first.clone()));
    assert_eq!(crossing.error(), "ERR invalid chunk - Too big for current filter");
    // The same bytes twice are harmless, others at their place are not taken.
    assert!(server.load("BF", "copy", &chunks[1]).is_ok() && server.load("BF", "copy", &chunks[1]).is_ok());
    let mut other = first.clone();
    other[7] ^= 0x10;
    assert!(server.load("BF", "copy", &(iterator, other)).error().contains("differ"));
    server.load_all("BF", "copy", &chunks[2..]);
    answers_as_there(&mut server, "copy", &Fixture::load("bf-scaling-grown-0.001"));

    // A link of zeros: the header counts keys that the bits do not speak of.
    let zeros: Vec<_> = chunks.iter().map(|(at, data)| (*at, vec![0; data.len()])).collect();
    assert!(server.load("BF", "zeros", &chunks[0]).is_ok());
    let last = zeros[1..].iter().map(|chunk| server.load("BF", "zeros", chunk)).last().unwrap();
    assert!(last.error().contains("the header counts 4995 items, and the bits are those of 0"), "{last:?}");

    let chunks = Fixture::load("cf-grown").chunks();
    assert!(server.load("CF", "carts", &(1, chunks[0].1[..37].to_vec())).error().starts_with("Invalid header"));
    assert!(server.load("CF", "carts", &chunks[0]).is_ok());
    assert!(server.load("CF", "carts", &(5_000, chunks[1].1.clone())).error().starts_with("Couldn't load chunk!"));
    // A table of zeros: the header counts fingerprints that are not there.
    let mut missing = chunks.clone();
    missing[3].1.fill(0);
    assert!(server.load("CF", "carts", &missing[1]).is_ok() && server.load("CF", "carts", &missing[2]).is_ok());
    let refused = server.load("CF", "carts", &missing[3]);
    assert!(refused.error().contains("the header counts 1000 items"), "{refused:?}");
    assert_eq!(server.tell("EXISTS carts"), Value::Int(0));
    server.load_all("CF", "carts", &chunks);
}

/// A header of 64 GiB is refused by its number, not by the system's memory.
#[test]
fn their_headers_are_checked_against_the_limits() {
    let mut server = Server::new();
    let mut header = Fixture::load("cf-grown").chunks()[0].1.clone();
    header[8..16].copy_from_slice(&(1u64 << 33).to_le_bytes());
    let refused = server.load("CF", "copy", &(1, header));
    assert!(refused.error().contains("max-filter-memory"), "{refused:?}");
    assert_eq!((server.engine.budget.used(), server.engine.loads.len()), (0, 0));
}
