//! Chunks that strangers changed: nothing panics, and nothing is seen that is not what was dumped.

use bloomgate_server::engine::dump_form::Header;

use crate::fixture::Fixture;
use crate::talk::{Random, Server, Value, items};

type Chunks = Vec<(i64, Vec<u8>)>;

/// A dump cut into chunks of 1 KiB, so that a small filter has several.
fn finely_cut(server: &mut Server, name: &str) -> Chunks {
    let chunks = server.dump("BF", name);
    let mut header = Header::from_bytes(&chunks[0].1).unwrap();
    let file: Vec<u8> = chunks[1..].iter().flat_map(|(_, data)| header.open_chunk(data).unwrap().1.to_vec()).collect();
    header.chunk = 1 << 10;
    let number = chunks[0].0 & !((1 << 40) - 1);
    let mut cut = vec![(number | 1, header.to_bytes())];
    for offset in (0..file.len() as u64).step_by(1 << 10) {
        let data = Header::chunk_at(header.address, &file, offset, header.chunk);
        let (_, bytes) = header.open_chunk(&data).unwrap();
        cut.push((number | (1 + offset as i64 + bytes.len() as i64), data.clone()));
    }
    assert!(cut.len() >= 4);
    cut
}

/// One change of a sequence of chunks.
fn change(random: &mut Random, chunks: &mut Chunks, others: &Chunks) {
    if chunks.is_empty() {
        return;
    }
    let at = random.below(chunks.len());
    match random.below(9) {
        0 | 1 => {
            let data = &mut chunks[at].1;
            if !data.is_empty() {
                let byte = random.below(data.len());
                data[byte] ^= 1 << random.below(8);
            }
        }
        2 => {
            let length = random.below(chunks[at].1.len() + 1);
            chunks[at].1.truncate(length);
        }
        3 => chunks[at].1.extend((0..1 + random.below(40)).map(|_| random.below(256) as u8).collect::<Vec<_>>()),
        4 => {
            let other = random.below(chunks.len());
            chunks.swap(at, other);
        }
        5 => {
            let again = chunks[at].clone();
            chunks.insert(random.below(chunks.len() + 1), again);
        }
        6 => drop(chunks.remove(at)),
        7 => chunks.insert(at, others[random.below(others.len())].clone()),
        _ => {
            chunks[at].0 = match random.below(4) {
                0 => chunks[at].0 ^ (1 << random.below(63)),
                1 => random.below(1 << 20) as i64 - 1,
                2 => chunks[at].0.wrapping_add(random.below(64) as i64 - 32),
                _ => others[random.below(others.len())].0,
            }
        }
    }
}

/// 5,000 changed sequences of one family: how many filters became visible. `right` says whether one is what it must be.
fn attack(
    server: &mut Server,
    family: &str,
    seed: u64,
    valid: &Chunks,
    others: &Chunks,
    mut right: impl FnMut(&mut Server, &Chunks) -> bool,
) -> usize {
    let before = server.engine.budget.used();
    let mut random = Random(seed);
    let mut seen = 0;
    for round in 0..5_000 {
        let mut chunks = valid.clone();
        for _ in 0..1 + random.below(3) {
            change(&mut random, &mut chunks, others);
        }
        for chunk in &chunks {
            let reply = server.load(family, "target", chunk);
            assert!(reply.is_ok() || matches!(&reply, Value::Error(_)), "{reply:?}");
        }
        if server.engine.find(b"target").is_some() {
            seen += 1;
            assert!(right(server, &chunks), "round {round}: a filter that is not what was dumped");
            assert_eq!(server.tell("DEL target"), Value::Int(1));
        }
        server.wait_ms(60_000);
        server.engine.drop_abandoned();
        assert_eq!(server.engine.budget.used(), before, "round {round}");
        assert!(server.engine.loads.is_empty());
    }
    seen
}

fn attack_ours(seed: u64) {
    let mut server = Server::new();
    for (name, count) in [("seen", 900), ("other", 800)] {
        server.tell(&format!("BF.RESERVE {name} 0.01 1000"));
        server.add(name, &items(name, count));
    }
    let (valid, others) = (finely_cut(&mut server, "seen"), finely_cut(&mut server, "other"));
    let (address, other) = (server.address("seen"), server.address("other"));
    assert_ne!(address, other);
    let seen = attack(&mut server, "BF", seed, &valid, &others, |server, _| server.address("target") == address);
    // Chunks in another order or twice are no damage.
    assert!((500..4_000).contains(&seen), "{seen} of 5,000 were whole");
}

#[test]
fn no_change_of_our_chunks_is_taken_for_a_filter() {
    attack_ours(0x9e37_79b9_7f4a_7c15);
}

#[test]
fn nor_another_one() {
    attack_ours(0xd1b5_4a32_d192_ed03);
}

/// RedisBloom's form has no checksums: what is seen then is what the chunks say, and asking it is harmless.
fn attack_theirs(family: &str, name: &str, other: &str, seed: u64) {
    let mut server = Server::new();
    let fixture = Fixture::load(name);
    let (valid, others) = (fixture.chunks(), Fixture::load(other).chunks());
    let (members, probe) = (fixture.texts("members"), fixture.texts("probe"));
    let seen = attack(&mut server, family, seed, &valid, &others, |server, chunks| {
        let answers = server.answers("target", &members[..members.len().min(50)]);
        server.answers("target", &probe[..50]);
        server.add("target", &probe[..5]);
        let untouched = chunks.iter().all(|chunk| valid.contains(chunk));
        !untouched || answers.iter().all(|&answer| answer)
    });
    assert!((500..4_900).contains(&seen), "{seen} of 5,000 were whole");
}

#[test]
fn changed_chunks_of_their_bloom_filters_are_harmless() {
    attack_theirs("BF", "bf-nonscaling-1000-0.01", "bf-auto-one", 0x2545_f491_4f6c_dd1d);
}

#[test]
fn changed_chunks_of_their_cuckoo_filters_are_harmless() {
    attack_theirs("CF", "cf-grown", "cf-bucket4-deleted", 0x94d0_49bb_1331_11eb);
}

/// Whoever makes a dump by hand gets its checksums right. What is not refused is a filter that can be used.
#[test]
fn headers_made_by_hand_are_refused_or_harmless() {
    let mut server = Server::new();
    server.tell("BF.RESERVE seen 0.01 1000");
    server.add("seen", &items("seen", 900));
    let valid = finely_cut(&mut server, "seen");
    let before = server.engine.budget.used();
    let mut random = Random(0x5851_f42d_4c95_7f2d);
    let (mut refused, mut seen) = (0, 0);
    for _ in 0..3_000 {
        let mut header = valid[0].1.clone();
        header.truncate(header.len() - 4);
        for _ in 0..1 + random.below(2) {
            let byte = random.below(header.len());
            header[byte] ^= 1 << random.below(8);
        }
        header.extend_from_slice(&crc32c::crc32c(&header).to_le_bytes());
        let mut chunks = valid.clone();
        chunks[0].1 = header;
        let ok = chunks.iter().map(|chunk| server.load("BF", "target", chunk)).filter(Value::is_ok).count();
        refused += usize::from(ok < chunks.len());
        if server.engine.find(b"target").is_some() {
            seen += 1;
            assert!(server.answers("target", &items("seen", 900)).iter().all(|&answer| answer));
            server.tell("BF.INFO target");
            server.tell("BF.DEBUG target");
            assert!(matches!(server.tell("BF.ADD target more"), Value::Int(0 | 1) | Value::Error(_)));
            assert!(!server.dump("BF", "target").is_empty());
            server.tell("DEL target");
        }
        server.wait_ms(60_000);
        server.engine.drop_abandoned();
        assert_eq!(server.engine.budget.used(), before);
    }
    assert!(refused > 1_000 && seen > 100, "{refused} refused, {seen} seen");
}

/// Files made by hand, with the right address and the right checksum of every chunk: the library's own checks are left.
#[test]
fn files_made_by_hand_are_refused_or_harmless() {
    let mut server = Server::new();
    server.tell("BF.RESERVE seen 0.01 1000");
    server.add("seen", &items("seen", 900));
    let chunks = server.dump("BF", "seen");
    let mut header = Header::from_bytes(&chunks[0].1).unwrap();
    let file = header.open_chunk(&chunks[1].1).unwrap().1.to_vec();
    let before = server.engine.budget.used();
    let mut random = Random(0xda94_2042_e4dd_58b5);
    for round in 0..3_000 {
        let mut file = file.clone();
        if round % 3 == 0 {
            let length = 1 + random.below(file.len());
            file.truncate(length);
        } else {
            let byte = random.below(file.len());
            file[byte] ^= 1 << random.below(8);
        }
        (header.length, header.address) = (file.len() as u64, bloomgate::Address::of(&file));
        assert!(server.load("BF", "target", &(1, header.to_bytes())).is_ok());
        let chunk = (1 + file.len() as i64, Header::chunk_at(header.address, &file, 0, 1 << 24));
        let reply = server.load("BF", "target", &chunk);
        // Every byte of a file is under one of its checksums, or must be zero.
        let whole = file.len() as u64 == Header::from_bytes(&chunks[0].1).unwrap().length && round % 3 == 0;
        assert_eq!(reply.is_ok(), whole, "round {round}: {reply:?}");
        if whole {
            server.tell("DEL target");
        }
        assert_eq!(server.engine.budget.used(), before);
    }
}
