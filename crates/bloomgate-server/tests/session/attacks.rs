//! Attacks with what everybody can know, on filters of this server, and on RedisBloom's own form as the control in which
//! each of them has to work.
//!
//! After Gerbet, Kumar and Lauradoux, "The Power of Evil Choices in Bloom Filters" (2015), and Filić, Hofmann, Markelon,
//! Paterson and Unnikrishnan, "Probabilistic Data Structures in the Wild: A Security Analysis of Redis" (2024). Keys that are
//! calculated instead of tried are in [`crate::forging`].

use bloomgate::foreign::RedisBloom;
use bloomgate::math::estimate::within;

use super::talk::Talk;

pub const ITEMS: usize = 100_000;
pub const RATE: f64 = 0.01;
const PROBES: u64 = 1_000_000;
/// The most keys that are tried for one that sets only bits that are clear: the last ones need about 5,000, and who
/// stops at 600 has nearly all of the damage for a tenth of the work.
const TRIES: u64 = 600;

/// Keys of 20 printable bytes, told apart by who uses them: 1 the attacker, 2 honest clients, 3 the probe.
pub fn key(stream: u64, number: u64) -> String {
    // SplitMix64.
    let mut z = (stream << 40 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    format!("user{:016x}", z ^ (z >> 31))
}

pub fn keys(stream: u64, many: u64) -> Vec<String> {
    (0..many).map(|number| key(stream, number)).collect()
}

pub fn theirs() -> RedisBloom {
    RedisBloom::builder().items(ITEMS as u64).rate(RATE).nonscaling().build().unwrap()
}

/// The pollution set: keys each of which sets as many clear bits as can be found, by RedisBloom's public hash and
/// layout alone, and the filter of theirs that holds them.
fn pollution() -> (Vec<String>, RedisBloom) {
    let mut filter = theirs();
    let (bits, hashes) = (filter.shape().links()[0].bits(), filter.shape().links()[0].hashes());
    let (mut set, mut chosen, mut next) = (vec![false; bits as usize], Vec::with_capacity(ITEMS), 0);
    while chosen.len() < ITEMS {
        let mut best = (0, [0; 16], String::new());
        for _ in 0..TRIES {
            let candidate = key(1, next);
            next += 1;
            let digest = filter.contract().digest(candidate.as_str()).unwrap();
            let (mut sum, mut places) = (digest.lo, [0; 16]);
            for place in &mut places[..hashes as usize] {
                *place = (sum % bits) as usize;
                sum = sum.wrapping_add(digest.hi);
            }
            let fresh = places[..hashes as usize].iter().filter(|&&place| !set[place]).count();
            if fresh > best.0 {
                best = (fresh, places, candidate);
            }
            if best.0 == hashes as usize {
                break;
            }
        }
        best.1[..hashes as usize].iter().for_each(|&place| set[place] = true);
        filter.insert(best.2.as_str()).unwrap();
        chosen.push(best.2);
    }
    // The attacker's arithmetic is theirs.
    assert_eq!(set.iter().filter(|&&set| set).count() as u64, filter.set_cells());
    (chosen, filter)
}

/// Loads a filter of theirs, chunk by chunk, as a client who moves here does.
pub fn import(talk: &mut Talk, name: &str, filter: &RedisBloom) {
    for (iterator, data) in filter.to_chunks().unwrap() {
        let reply = talk.send(&[b"BF.LOADCHUNK", name.as_bytes(), iterator.to_string().as_bytes(), &data]);
        assert_eq!(reply, b"+OK\r\n");
    }
}

/// How many of the keys a filter takes for its own.
fn positives(talk: &mut Talk, exists: &str, name: &str, keys: &[String]) -> u64 {
    talk.each(exists, name, keys).iter().filter(|reply| *reply == ":1").count() as u64
}

pub fn expected_rate(talk: &Talk, name: &str) -> f64 {
    talk.engine.find(name.as_bytes()).unwrap().with(|filter| filter.expected_rate()).unwrap()
}

/// A filter for 100,000 keys at 1 % and the commands for it.
pub struct Ours {
    pub name: &'static str,
    pub create: &'static str,
    pub add: &'static str,
    pub exists: &'static str,
    /// Its rate when it is full: one that may grow keeps the other half for what is to come.
    pub full: f64,
}

pub const OURS: [Ours; 3] = [
    Ours {
        name: "grows",
        create: "BF.RESERVE grows 0.01 100000",
        add: "BF.ADD",
        exists: "BF.EXISTS",
        full: 0.5 * RATE,
    },
    Ours {
        name: "fixed",
        create: "BF.RESERVE fixed 0.01 100000 NONSCALING",
        add: "BF.ADD",
        exists: "BF.EXISTS",
        full: RATE,
    },
    Ours {
        name: "tight",
        create: "BG.CREATE tight KIND classic CAPACITY 100000 RATE 0.01",
        add: "BG.ADD",
        exists: "BG.EXISTS",
        full: RATE,
    },
];

/// Measured on 1 M probes, one standard deviation of the tight one is 1 % of the rate: 1.05 is five of them above the
/// promise.
#[test]
fn the_pollution_set_leaves_the_promised_rate_as_it_is() {
    let (chosen, polluted) = pollution();
    let (honest, probes) = (keys(2, ITEMS as u64), keys(3, PROBES));
    let mut talk = Talk::new();
    import(&mut talk, "theirs", &polluted);
    let theirs = positives(&mut talk, "BF.EXISTS", "theirs", &probes) as f64 / PROBES as f64;
    assert!(theirs > 5.0 * RATE, "the attack does not work where it should: {theirs}");
    println!("RedisBloom's form: {:.2} %", theirs * 1e2);
    for Ours { name, create, add, exists, full } in OURS {
        let mut rates = [0; 2];
        for (rate, (filled, keys)) in rates.iter_mut().zip([("chosen", &chosen), ("honest", &honest)]) {
            assert_eq!(talk.say(create), "+OK");
            assert!(talk.each(add, name, keys).iter().all(|reply| !reply.starts_with('-')));
            assert_eq!(positives(&mut talk, exists, name, keys), ITEMS as u64, "{name} forgot a key");
            *rate = positives(&mut talk, exists, name, &probes);
            println!("{name}, {filled} keys: {:.4} %", *rate as f64 / 1e4);
            let expected = expected_rate(&talk, name);
            assert!(within(*rate, PROBES, expected, 4.5), "{name}: {rate} of {PROBES}, by theory {expected}");
            let full = full * PROBES as f64;
            assert!((0.9 * full..=1.05 * full).contains(&(*rate as f64)), "{name}: {rate} of {PROBES}");
            assert_eq!(talk.say(&format!("DEL {name}")), ":1");
        }
        let [chosen, honest] = rates.map(|rate| rate as f64);
        assert!((chosen - honest).abs() <= 4.5 * (chosen + honest).sqrt(), "{name}: {chosen} and {honest} differ");
    }
}

/// Keys that a copy under the public hash, with the same members, takes for present.
#[test]
fn keys_forged_against_the_public_hash_hit_like_any_others() {
    let members = keys(2, ITEMS as u64);
    let mut copy = theirs();
    members.iter().for_each(|member| _ = copy.insert(member.as_str()).unwrap());
    let mut forged = Vec::new();
    let mut tried = 0;
    while forged.len() < 100_000 {
        let candidate = key(4, tried);
        tried += 1;
        if copy.contains(candidate.as_str()).unwrap() {
            forged.push(candidate);
        }
    }
    let many = forged.len() as u64;
    let mut talk = Talk::new();
    import(&mut talk, "theirs", &copy);
    let theirs = positives(&mut talk, "BF.EXISTS", "theirs", &forged);
    assert_eq!(theirs, many, "every forged key hits where the hash is public");
    for Ours { name, create, add, exists, full } in OURS {
        assert_eq!(talk.say(create), "+OK");
        talk.each(add, name, &members);
        let hits = positives(&mut talk, exists, name, &forged);
        println!("{name}: {hits} of {many} forged keys; {tried} tried");
        assert!(within(hits, many, expected_rate(&talk, name), 4.5), "{name}: {hits} of {many}");
        // 100,000 of them: four standard deviations of the smallest rate are 18 % of it.
        let expected = full * many as f64;
        assert!((hits as f64 - expected).abs() <= 4.5 * expected.sqrt(), "{name}: {hits} of {many}");
        assert!(hits as f64 <= 1.05 * RATE * many as f64, "{name}: {hits} of {many}");
    }
}

/// RedisBloom takes 125 of them, is then 32 tables large, and refuses every item of everybody.
#[test]
fn one_item_added_ten_thousand_times_costs_nothing_and_stops_nobody() {
    let mut talk = Talk::new();
    for reserve in ["CF.RESERVE f 100000", "CF.RESERVE f 100000 EXPANSION 2", "CF.RESERVE f 1000"] {
        assert_eq!(talk.say(reserve), "+OK");
        talk.each("CF.ADD", "f", &keys(2, 500));
        let before = talk.engine.budget.used();
        let replies = talk.each("CF.ADD", "f", &vec!["the same".to_owned(); 10_000]);
        let taken = replies.iter().filter(|reply| *reply == ":1").count();
        let refused = replies.iter().filter(|reply| reply.starts_with("-ERR the filter holds 8 copies")).count();
        assert_eq!((taken, refused), (8, 9_992), "{reserve}");
        let after = talk.engine.budget.used();
        assert!(after <= before + before / 100, "{reserve}: {before} bytes became {after}");
        // Another client, meanwhile and after it, has all the room that it had.
        let others = keys(3, 400);
        assert!(talk.another().each("CF.ADD", "f", &others).iter().all(|reply| reply == ":1"), "{reserve}");
        assert!(talk.each("CF.EXISTS", "f", &others).iter().all(|reply| reply == ":1"));
        assert_eq!((talk.engine.budget.used(), talk.say("DEL f").as_str()), (after, ":1"), "{reserve}");
    }
}

/// Whoever may delete items that were never added makes a "no" wrong; so adding is not enough to be allowed to.
#[test]
fn only_who_has_the_role_can_delete_what_was_never_added() {
    let mut admin = Talk::new();
    admin.check(
        "ACL SETUSER writer on >p +@read +@write => +OK
         ACL SETUSER remover on >p +@read +@delete => +OK
         CF.RESERVE f 20000 RATE 0.03 => +OK",
    );
    let members = keys(2, 15_000);
    assert!(admin.each("CF.ADD", "f", &members).iter().all(|reply| reply == ":1"));
    let mut writer = admin.another();
    writer.check("AUTH writer p => +OK");
    let probes = keys(3, 300_000);
    let answers = writer.each("CF.EXISTS", "f", &probes);
    let found: Vec<String> =
        probes.into_iter().zip(answers).filter(|(_, reply)| reply == ":1").map(|(probe, _)| probe).collect();
    assert!(found.len() > 100, "{} positives among 300,000", found.len());
    let refused = writer.each("CF.DEL", "f", &found);
    assert!(refused.iter().all(|reply| reply.starts_with("-NOPERM")), "{:?}", refused.first());
    for other in ["BG.REMOVE f ITEMS x", "DEL f", "UNLINK f", "RENAME f g", "FLUSHALL", "EXPIRE f 1", "BG.FEEDBACK f x"]
    {
        assert!(writer.say(other).starts_with("-NOPERM"), "{other}");
    }
    let missing = |talk: &mut Talk| talk.each("CF.EXISTS", "f", &members).iter().filter(|reply| *reply == ":0").count();
    assert_eq!(missing(&mut admin), 0);
    // What the role keeps away: each of these deletes takes a member's place.
    let mut remover = admin.another();
    remover.check("AUTH remover p => +OK");
    remover.each("CF.DEL", "f", &found);
    let lost = missing(&mut admin);
    assert!(lost > found.len() / 2, "{lost} members are lost to {} deletes", found.len());
}
