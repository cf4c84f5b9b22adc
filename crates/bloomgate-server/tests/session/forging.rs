//! Keys that are calculated from MurmurHash64A, which RedisBloom hashes by: each of these attacks has to work on RedisBloom's own
//! form, and hit a filter of ours like any other key.
//!
//! The hash takes a key in blocks of eight bytes, and mixes each by a function that can be run backwards; so can the
//! function at its end. What is left of an attacker's work:
//!
//! - Two blocks whose mixed values have their top bits flipped leave the same state under every seed (Aumasson and
//!   Bernstein, 2012): eleven blocks have 1,024 such forms.
//! - RedisBloom's places are `a + i*b`, of one hash `a` and a second `b` that is seeded by `a`. Three blocks have bits enough for both:
//!   products by an odd number go from the low bits to the high ones, so one bit after the other is guessed and checked.
//!
//! So a key can be made for any `a` and `b` whose lowest bits fit.

use bloomgate::foreign::RedisBloom;
use bloomgate::math::estimate::within;

use super::attacks::{ITEMS, OURS, Ours, RATE, expected_rate, import, key, keys, theirs};
use super::talk::Talk;

const M: u64 = 0xc6a4_a793_5bd1_e995;
/// The seed of RedisBloom's first hash, which is the same number.
const SEED: u64 = M;
/// Blocks of a key that have 1,024 forms, and those that are solved for.
const COLLIDING: usize = 11;
const BYTES: usize = (COLLIDING + 3) * 8;
/// Guesses after which a pair of hashes is given up; those that can be had take a few hundred.
const GUESSES: u32 = 20_000;

/// The inverse of M. Newton's iteration doubles the bits that are right: 3 of an odd number by itself, then 6, 12, 24, 48, 96.
fn inverse() -> u64 {
    (0..5).fold(M, |x, _| x.wrapping_mul(2u64.wrapping_sub(M.wrapping_mul(x))))
}

/// A block as it goes into the state.
fn mixed(block: u64) -> u64 {
    let x = block.wrapping_mul(M);
    (x ^ (x >> 47)).wrapping_mul(M)
}

/// The block that goes into the state as this.
fn unmixed(mixed: u64) -> u64 {
    let x = mixed.wrapping_mul(inverse());
    (x ^ (x >> 47)).wrapping_mul(inverse())
}

/// The state before the end of the hash that this is.
fn unfinished(hash: u64) -> u64 {
    let x = (hash ^ (hash >> 47)).wrapping_mul(inverse());
    x ^ (x >> 47)
}

/// Blocks that begin every key.
fn blocks() -> [u64; COLLIDING] {
    std::array::from_fn(|at| u64::from_le_bytes(*b"collider") ^ at as u64)
}

/// 1,024 forms of the first blocks of a key that leave the same state: ten bits of freedom over eleven blocks.
fn forms() -> Vec<[u8; COLLIDING * 8]> {
    assert_eq!(M.wrapping_mul(inverse()), 1);
    let form = |flips: u32| {
        let mut form = [0; COLLIDING * 8];
        for (at, block) in blocks().into_iter().enumerate() {
            let top = u64::from(flips >> at & 1) << 63;
            form[at * 8..][..8].copy_from_slice(&unmixed(mixed(block) ^ top).to_le_bytes());
        }
        form
    };
    (0..1u32 << COLLIDING).filter(|flips| flips.count_ones() % 2 == 0).map(form).collect()
}

/// Bits `0..=at` of what the second seed changes in a state that is multiplied.
fn apart(state: u64, difference: u64) -> u64 {
    state.wrapping_mul(M) ^ (state ^ difference).wrapping_mul(M)
}

/// States after the first and the second block that lead from one difference between the seeds to another; the bits below `at` are
/// guessed. Bit `at` of the outcome follows from them, whatever bit `at` of the states is.
fn solve(from: u64, to: u64, at: u32, states: (u64, u64), guesses: &mut u32) -> Option<(u64, u64)> {
    *guesses = guesses.checked_sub(1)?;
    let (one, two) = states;
    let reached = apart(two, apart(one, from));
    if (reached ^ to) >> at & 1 == 1 {
        return None;
    }
    if at == 63 {
        return Some(states);
    }
    let mut bits = (0..4u64).map(|guess| (one | (guess & 1) << at, two | (guess >> 1) << at));
    bits.find_map(|states| solve(from, to, at + 1, states, guesses))
}

/// The end of a key, behind any of [`forms`], that hashes to these two; not every pair can be had.
fn forge(a: u64, b: u64) -> Option<[u8; 24]> {
    let begun = |seed: u64| {
        let start = seed ^ (BYTES as u64).wrapping_mul(M);
        blocks().into_iter().fold(start, |state, block| (state ^ mixed(block)).wrapping_mul(M))
    };
    let ends = [a, b].map(|hash| unfinished(hash).wrapping_mul(inverse()));
    let (first, second) = (begun(SEED), begun(a));
    let (one, two) = solve(first ^ second, ends[0] ^ ends[1], 0, (0, 0), &mut { GUESSES })?;
    let solved = [one ^ first, two ^ one.wrapping_mul(M), two.wrapping_mul(M) ^ ends[0]];
    let mut end = [0; 24];
    for (at, block) in solved.into_iter().enumerate() {
        end[at * 8..][..8].copy_from_slice(&unmixed(block).to_le_bytes());
    }
    Some(end)
}

/// A number that nobody chose.
fn any(number: u64) -> u64 {
    u64::from_str_radix(&key(6, number)[4..], 16).unwrap()
}

fn pair(filter: &RedisBloom, key: &[u8]) -> (u64, u64) {
    let digest = filter.contract().digest(key).unwrap();
    (digest.lo, digest.hi)
}

/// The places of a pair of hashes in a filter of theirs.
fn places(filter: &RedisBloom, (a, b): (u64, u64)) -> Vec<u64> {
    let link = &filter.shape().links()[0];
    (0..u64::from(link.hashes())).map(|i| a.wrapping_add(i.wrapping_mul(b)) % link.bits()).collect()
}

/// How many of the keys a filter takes for its own.
fn hits(talk: &mut Talk, name: &str, keys: &[Vec<u8>]) -> u64 {
    let words: Vec<&[u8]> =
        [&b"BF.MEXISTS"[..], name.as_bytes()].into_iter().chain(keys.iter().map(|key| &key[..])).collect();
    let reply = String::from_utf8(talk.send(&words)).unwrap();
    assert!(reply.starts_with(&format!("*{}", keys.len())), "{:.100}", reply);
    reply.lines().filter(|line| *line == ":1").count() as u64
}

#[test]
fn keys_that_collide_under_every_seed_are_different_keys_here() {
    let all: Vec<Vec<u8>> = forms().iter().map(|form| form.to_vec()).collect();
    assert_eq!(all.len(), 1_024);
    let mut theirs = theirs();
    theirs.insert(&all[0][..]).unwrap();
    let mut talk = Talk::new();
    import(&mut talk, "theirs", &theirs);
    assert_eq!(talk.say("BF.RESERVE ours 0.01 100000"), "+OK");
    assert_eq!(talk.send(&[b"BF.ADD", b"ours", &all[0]]), b":1\r\n");
    for (name, found) in [("theirs", 1_024), ("ours", 1)] {
        assert_eq!(hits(&mut talk, name, &all), found, "{name}");
    }
}

/// Half of the keys have `b = 0`, so that all their places are one: whoever knows nothing of the contents hits where one bit is
/// set, every second time. The others have besides an `a` whose place is one of a member's: they always hit. 1,000 of each are
/// solved, and each has 1,024 forms with the same hashes: 2 M keys.
#[test]
fn a_million_keys_made_for_the_public_hash_hit_like_any_others() {
    const SOLVED: usize = 1_000;
    let members = keys(2, ITEMS as u64);
    let mut filter = theirs();
    members.iter().for_each(|member| _ = filter.insert(member.as_str()).unwrap());
    let bits = filter.shape().links()[0].bits();
    let known = pair(&filter, members[0].as_bytes()).0;
    let blind = (0..).filter_map(|number| forge(any(number), 0)).take(SOLVED);
    // Their a lies anywhere above the known one.
    let aimed = (0..).filter_map(|number| {
        let above = any(number) >> 24;
        forge(known.checked_add(above.checked_mul(bits)?)?, 0)
    });
    let forms = forms();
    let with_forms = |end: &[u8; 24]| -> Vec<Vec<u8>> { forms.iter().map(|form| [&form[..], end].concat()).collect() };
    let mut talk = Talk::new();
    import(&mut talk, "theirs", &filter);
    for Ours { name, create, add, .. } in OURS {
        assert_eq!(talk.say(create), "+OK");
        talk.each(add, name, &members);
    }
    for (attack, ends) in [("blind", blind.collect::<Vec<_>>()), ("aimed", aimed.take(SOLVED).collect())] {
        let many = (SOLVED * forms.len()) as u64;
        assert_eq!(pair(&filter, &with_forms(&ends[0])[7]).1, 0, "the attacker's arithmetic is theirs");
        let mut found = [0; 4];
        for end in &ends {
            let keys = with_forms(end);
            for (found, name) in found.iter_mut().zip(["theirs"].into_iter().chain(OURS.map(|ours| ours.name))) {
                *found += hits(&mut talk, name, &keys);
            }
        }
        println!("{attack}: {found:?} of {many}");
        // By theirs all forms of a key are answered alike. 52 % of its bits are set; 1,000 keys tell it to 1.6 %.
        let share = found[0] as f64 / many as f64;
        let works = if attack == "blind" { (0.44..0.60).contains(&share) } else { share == 1.0 };
        assert!(works, "{attack} does not work where it should: {share}");
        for (Ours { name, full, .. }, hits) in OURS.iter().zip(&found[1..]) {
            assert!(within(*hits, many, expected_rate(&talk, name), 4.5), "{attack}, {name}: {hits} of {many}");
            assert!(*hits as f64 <= 1.05 * full * many as f64, "{attack}, {name}: {hits} of {many}");
            assert!(*hits as f64 <= 1.05 * RATE * many as f64, "{attack}, {name}: {hits} of {many}");
        }
    }
}

/// Whoever may add makes a key of somebody else's a false positive: by one add of another key with the same places.
#[test]
fn nobody_can_choose_whose_key_becomes_a_false_positive() {
    let victims = keys(5, 1_000);
    let mut filter = theirs();
    let bits = filter.shape().links()[0].bits();
    // Of the pairs with a victim's places, the first one that can be had.
    let twin = |victim: &String| {
        let (a, b) = pair(&filter, victim.as_bytes());
        let wanted = places(&filter, (a, b));
        let near = (0..16u64).flat_map(|i| (0..16u64).map(move |j| (i, j)));
        let mut pairs = near.map(|(i, j)| (a.wrapping_add(i * bits), b.wrapping_add(j * bits)));
        pairs.find_map(|pair| if places(&filter, pair) == wanted { forge(pair.0, pair.1) } else { None })
    };
    let form = forms().remove(3);
    let twins: Vec<Vec<u8>> = victims.iter().filter_map(twin).map(|end| [&form[..], &end].concat()).collect();
    assert!(twins.len() >= 980, "only {} of {} victims have a twin", twins.len(), victims.len());
    let victims: Vec<Vec<u8>> = victims.into_iter().map(String::into_bytes).collect();
    twins.iter().for_each(|twin| _ = filter.insert(&twin[..]).unwrap());
    let mut talk = Talk::new();
    import(&mut talk, "theirs", &filter);
    let found = hits(&mut talk, "theirs", &victims);
    assert!(found >= twins.len() as u64, "{found} of {} victims: it does not work where it should", twins.len());
    for Ours { name, create, add, .. } in OURS {
        assert_eq!(talk.say(create), "+OK");
        for twin in &twins {
            assert!(!talk.send(&[add.as_bytes(), name.as_bytes(), twin]).starts_with(b"-"));
        }
        // A hundredth of what fits is in: by chance it would take longer than anybody waits for one to hit.
        assert_eq!(hits(&mut talk, name, &victims), 0, "{name}");
    }
}
