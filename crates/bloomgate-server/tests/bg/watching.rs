//! BG.STATS, BG.FEEDBACK, the background probe and INFO's section about them.

use std::time::Duration;

use bloomgate::foreign::RedisBloom;
use bloomgate::math::estimate::within;
use bloomgate::{Contract, Digest};
use bloomgate_server::engine::watch::random::Random;
use bloomgate_server::engine::watch::rounds::Rounds;
use bloomgate_server::engine::watch::{Watch, WatchSettings};

use super::harness::{Client, Server, Value};

/// The kinds that a command can make, as BG.CREATE names them.
const KINDS: [&str; 8] =
    ["classic", "blocked", "partitioned", "counting", "scalable", "cuckoo", "growing-cuckoo", "quotient"];

#[test]
fn the_measured_rate_is_the_real_one_and_probes_are_no_lookups() {
    let server = Server::new();
    let mut client = server.client(0);
    for kind in KINDS {
        client.ok(&format!("BG.CREATE {kind} KIND {kind} CAPACITY 4000 RATE 0.02"));
        client.items(&format!("BG.ADD {kind}"), 0..4_000);
        let stats = client.ask(&format!("BG.STATS {kind}"));
        let (probes, measured) = (stats.field("probes").int() as u64, stats.field("measured_rate").double());
        let hits = (measured * probes as f64).round() as u64;
        let (low, high) = (stats.field("measured_low").double(), stats.field("measured_high").double());
        assert!(probes >= 32_768 && low < measured && measured < high, "{stats:?}");
        // The rate of this very filter, by other keys than the probe's.
        let found = client.found(kind, 100_000..150_000);
        assert!(within(found, 50_000, measured, 6.0), "{kind}: {found} of 50,000 found, {measured} measured");
        assert!(within(hits, probes, found as f64 / 50_000.0, 6.0), "{kind}: {hits} of {probes}");
        assert_eq!(stats.field("verdict").text(), "ok", "{stats:?}");
        assert!(measured < 1.5 * stats.field("promised_rate").double(), "{stats:?}");
        let audit = client.ask(&format!("BG.AUDIT {kind}"));
        assert_eq!(audit.field("lookups").int(), 50_000, "{kind}");
        assert_eq!(stats.field("keyed").int(), 1);
    }
    client.refuses("BG.STATS nobody", "ERR not found");
    let all = client.ask("BG.STATS");
    assert_eq!((all.field("filters").int(), all.field("known_filters").int()), (8, 8));
    assert_eq!((all.field("suspicious").int(), all.field("poisoned").int()), (0, 0));
    assert!(all.field("probes").int() >= 8 * 32_768);
    // Kinds that keep fingerprints have no bits to look at.
    assert_eq!(all.field("worst_scores").array().len(), 5);
    assert_eq!(client.ask("BG.STATS COUNT 2").field("worst_scores").array().len(), 2);
    client.refuses("BG.STATS COUNT 0", "COUNT must be an integer from 1 to 4096");
    client.refuses("BG.STATS seen 5", "takes a name, or COUNT and a number");
    // Two that hold more than they were made for, one of them by far; the others are as they should be, give or take chance.
    for (name, items) in [("over", 5_000), ("far-over", 9_000)] {
        client.ok(&format!("BG.CREATE {name} KIND classic CAPACITY 3000 RATE 0.02 ONFULL goon"));
        client.items(&format!("BG.ADD {name}"), 0..items);
        client.ask(&format!("BG.STATS {name}"));
    }
    let all = client.ask("BG.STATS");
    let worst = all.field("worst_rates").array();
    assert!(worst.len() < 10 && worst[0].field("name").text() == "far-over", "{worst:?}");
    assert_eq!(worst[1].field("name").text(), "over");
    for one in worst {
        assert!(one.field("measured_low").double() > one.field("promised_rate").double(), "{one:?}");
    }
}

/// Keys chosen at home against RedisBloom's public hash: of 24 candidates the one that sets the most new bits.
fn chosen(bits: u64, hashes: u64, count: usize) -> Vec<Vec<u8>> {
    chosen_after(bits, hashes, count, &[])
}

/// The same for a filter that has these.
fn chosen_after(bits: u64, hashes: u64, count: usize, had: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (hash, mut random) = (Contract::murmur64a_pair(), Random::from_seed(9));
    let mut copy = vec![false; bits as usize];
    let places = |key: &[u8]| {
        let Digest { lo, hi } = hash.digest(key).unwrap();
        (0..hashes).map(move |i| (lo.wrapping_add(hi.wrapping_mul(i)) % bits) as usize)
    };
    had.iter().flat_map(|key| places(key)).for_each(|at| copy[at] = true);
    let mut chosen = Vec::new();
    for _ in 0..count {
        let keys: Vec<Vec<u8>> = (0..24).map(|_| format!("{:016x}", random.next()).into_bytes()).collect();
        let best = keys.into_iter().max_by_key(|key| places(key).filter(|&at| !copy[at]).count()).unwrap();
        places(&best).for_each(|at| copy[at] = true);
        chosen.push(best);
    }
    chosen
}

#[test]
fn a_poisoned_import_is_told_and_the_same_keys_do_nothing_to_ours() {
    let server = Server::new();
    let mut client = server.client(0);
    let mut theirs = RedisBloom::builder().items(5_000).rate(0.01).nonscaling().build().unwrap();
    let link = theirs.shape().links()[0];
    let keys = chosen(link.bits(), link.hashes().into(), 5_000);
    client.ok("BF.RESERVE ours 0.01 5000 NONSCALING");
    for key in &keys {
        theirs.insert(&key[..]).unwrap();
        client.words(&[b"BF.ADD", b"ours", key]);
    }
    for (iterator, data) in theirs.to_chunks().unwrap() {
        let loaded = client.words(&[b"BF.LOADCHUNK", b"theirs", iterator.to_string().as_bytes(), &data]);
        assert_eq!(loaded, Value::Simple("OK".into()));
    }
    let theirs = client.ask("BG.STATS theirs");
    assert_eq!(theirs.field("verdict").text(), "poisoned", "{theirs:?}");
    assert!(theirs.field("fill_score").double() > 20.0 && theirs.field("measured_low").double() > 0.02, "{theirs:?}");
    assert_eq!(theirs.field("keyed").int(), 0);
    let ours = client.ask("BG.STATS ours");
    assert_eq!(ours.field("verdict").text(), "ok", "{ours:?}");
    assert!(ours.field("score").double().abs() < 5.0 && ours.field("measured_rate").double() < 0.0125, "{ours:?}");
    let all = client.ask("BG.STATS");
    assert_eq!((all.field("suspicious").int(), all.field("poisoned").int()), (0, 1));
    assert_eq!(all.field("worst_scores").array()[0].field("name").text(), "theirs");
    let info = client.ask("INFO watch");
    assert!(info.text().contains("poisoned_filters:1") && info.text().contains("worst_rate_ratio:"), "{info:?}");
    // What was told about a filter goes with it.
    client.ask("DEL theirs");
    assert_eq!(client.ask("BG.STATS").field("poisoned").int(), 0);
}

/// Loaded with a count that is more than its keys, as merged or edited elsewhere: what is added to it later is far from
/// making up for that, and hides in it.
#[test]
fn late_pollution_of_a_filter_that_counts_too_many_is_told() {
    let server = Server::new();
    let mut client = server.client(0);
    let keys = |from: u32, to: u32| -> Vec<Vec<u8>> { (from..to).map(|key| format!("k{key}").into_bytes()).collect() };
    let theirs = |count: u32| {
        let mut filter = RedisBloom::builder().items(20_000).rate(0.01).nonscaling().build().unwrap();
        keys(0, count).iter().for_each(|key| _ = filter.insert(&key[..]).unwrap());
        filter
    };
    // The header tells of 16,000 keys, the bits are those of 12,000.
    let (told, held) = (theirs(16_000), theirs(12_000));
    let link = held.shape().links()[0];
    let header = told.to_chunks().unwrap().into_iter().take(1);
    for (iterator, data) in header.chain(held.to_chunks().unwrap().into_iter().skip(1)) {
        let loaded = client.words(&[b"BF.LOADCHUNK", b"theirs", iterator.to_string().as_bytes(), &data]);
        assert_eq!(loaded, Value::Simple("OK".into()));
    }
    client.ok("BF.RESERVE ours 0.01 20000 NONSCALING");
    keys(0, 16_000).iter().for_each(|key| _ = client.words(&[b"BF.ADD", b"ours", key]));
    let stats = |client: &mut Client, name: &str| client.ask(&format!("BG.STATS {name}"));
    let begun = stats(&mut client, "theirs");
    assert!(begun.field("fill_score").double() < -50.0 && begun.field("recent_score") == &Value::Nil, "{begun:?}");
    assert_eq!(begun.field("verdict").text(), "ok");
    stats(&mut client, "ours");
    // Honest keys look honest, whatever the count is.
    let honest = keys(20_000, 21_500);
    let mut polluting =
        chosen_after(link.bits(), link.hashes().into(), 1_500, &[keys(0, 12_000), honest.clone()].concat());
    for (added, bad) in [(honest, false), (std::mem::take(&mut polluting), true)] {
        for name in ["theirs", "ours"] {
            for key in &added {
                let reply = client.words(&[b"BF.ADD", name.as_bytes(), key]);
                assert!(matches!(reply, Value::Int(_)), "{reply:?}");
            }
            let found = stats(&mut client, name);
            let (items, score) = (found.field("recent_items").int(), found.field("recent_score").double());
            assert!((1_450..=1_500).contains(&items), "{found:?}");
            if bad && name == "theirs" {
                assert!(found.field("fill_score").double() < -5.0, "all bits together hide it: {found:?}");
                assert!(score > 20.0 && found.field("score").double() == score, "{found:?}");
                assert_eq!(found.field("verdict").text(), "suspicious", "{found:?}");
            } else {
                assert!(score < 5.0, "{name}: {found:?}");
                assert_eq!(found.field("verdict").text(), "ok", "{name}: {found:?}");
            }
        }
    }
}

#[test]
fn the_background_probe_visits_all_and_starts_again_when_a_filter_changes() {
    let server = Server::new();
    let mut client = server.client(0);
    for at in 0..200 {
        client.ok(&format!("BF.RESERVE f{at} 0.05 300 NONSCALING"));
        client.items(&format!("BG.ADD f{at}"), 0..150);
    }
    let mut rounds = Rounds::new(Random::from_seed(5));
    // At the end of a round there is nothing more to visit in this step.
    while server.engine.watch.rounds.load(std::sync::atomic::Ordering::Relaxed) < 2 {
        rounds.step(&server.engine, Duration::from_millis(1));
    }
    rounds.step(&server.engine, Duration::ZERO);
    let all = client.ask("BG.STATS");
    assert_eq!(all.field("known_filters").int(), 200);
    assert!(all.field("probes").int() >= 2 * 200 * 256);
    assert_eq!((all.field("suspicious").int(), all.field("poisoned").int()), (0, 0));
    let id = server.engine.find(b"f7").unwrap().id;
    let before = server.engine.watch.findings.of(id).unwrap();
    assert!(before.probed.probes >= 512);
    client.items("BG.ADD f7", 150..300);
    let now = client.ask("BG.STATS f7");
    assert_eq!(now.field("probes").int(), 32_768, "probes of the half-full filter count no more");
    assert!(now.field("measured_rate").double() > 2.0 * before.measured().unwrap());
    let again = client.ask("BG.STATS f7");
    assert_eq!(again.field("probes").int(), 65_536, "nothing has changed since");
    client.ask("FLUSHALL");
    assert_eq!(client.ask("BG.STATS").field("known_filters").int(), 0);
}

/// Items that the filter takes for present and that were never added.
fn false_positives(client: &mut Client<'_>, name: &str, count: usize) -> Vec<String> {
    let mut found = Vec::new();
    for at in 100_000u64.. {
        let item = format!("item-{at}");
        if client.ask(&format!("BG.EXISTS {name} {item}")).ints() == [1] {
            found.push(item);
            if found.len() == count {
                break;
            }
        }
    }
    found
}

fn filled(client: &mut Client<'_>, name: &str) {
    client.ok(&format!("BG.CREATE {name} KIND blocked CAPACITY 500 RATE 0.2"));
    client.items(&format!("BG.ADD {name}"), 0..500);
}

/// All ways to ask give one answer.
fn exists(client: &mut Client<'_>, name: &str, item: &str) -> i64 {
    let one = client.ask(&format!("BF.EXISTS {name} {item}")).int();
    assert_eq!(client.ask(&format!("BF.MEXISTS {name} {item}")).ints(), [one]);
    assert_eq!(client.ask(&format!("BG.EXISTS {name} {item}")).ints(), [one]);
    one
}

#[test]
fn what_is_proved_absent_is_answered_so_until_it_is_added_or_its_time_is_over() {
    let server = Server::new();
    let mut client = server.client(0);
    filled(&mut client, "f");
    let wrong = false_positives(&mut client, "f", 5);
    let [a, b, c, d, e] = &wrong[..] else { panic!("{wrong:?}") };
    // The first report begins to watch the adds; those before may be on their way to a database.
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {a}")), Value::Int(0));
    assert_eq!(exists(&mut client, "f", a), 1);
    server.at(59.9);
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {a}")), Value::Int(0));
    client.ask(&format!("BF.ADD f {b}"));
    server.at(60.0);
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {a} {b} {c} certainly-absent-42")), Value::Int(2));
    assert_eq!((exists(&mut client, "f", a), exists(&mut client, "f", b), exists(&mut client, "f", c)), (0, 1, 0));
    // Told again, it stays longer.
    server.at(1_000.0);
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {c}")), Value::Int(1));
    // An add takes the report away, in every form of it.
    for (item, add) in [(a, "BF.ADD f"), (c, "BF.INSERT f ITEMS"), (d, "BF.MADD f"), (e, "BG.ADD f")] {
        server.at(1_200.0);
        assert_eq!(client.ask(&format!("BG.FEEDBACK f {item}")), Value::Int(1), "{add}");
        assert_eq!(exists(&mut client, "f", item), 0);
        client.ask(&format!("{add} {item}"));
        assert_eq!(exists(&mut client, "f", item), 1, "{add}");
        assert_eq!(client.ask(&format!("BG.FEEDBACK f {item}")), Value::Int(0), "added lately: {add}");
    }
    // Two minutes later a report counts again; whoever gives it has just looked.
    server.at(1_400.0);
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {d}")), Value::Int(1));
    server.at(1_400.0 + 3_599.0);
    assert_eq!(exists(&mut client, "f", d), 0);
    server.at(1_400.0 + 3_601.0);
    assert_eq!(exists(&mut client, "f", d), 1, "an hour is over");
    let stats = client.ask("BG.STATS f");
    let count = |name: &str| stats.field(&format!("feedback_{name}")).int();
    assert_eq!((count("too_early"), count("already_no"), count("lately_added")), (2, 1, 5));
    assert_eq!((count("taken"), count("reports")), (5, 16));
    assert!(count("spared") >= 3 * 6 && stats.field("feedback_rate").double() > 0.0);
    let info = client.ask("INFO watch");
    assert!(info.text().contains("feedback_filters:1") && info.text().contains("feedback_reports:16"), "{info:?}");
}

/// A report whose time is over may still have its place when the item is reported again; the add takes both.
#[test]
fn what_is_added_after_its_report_came_again_is_found() {
    let server = Server::new();
    let mut client = server.client(0);
    filled(&mut client, "f");
    let wrong = false_positives(&mut client, "f", 40);
    let (renewed, others) = wrong.split_at(20);
    client.ask("BG.FEEDBACK f first");
    server.at(100.0);
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {}", wrong.join(" "))), Value::Int(40));
    server.at(100.0 + 3_601.0);
    let others = others.join(" ");
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {others}")), Value::Int(20));
    for item in renewed {
        assert_eq!(exists(&mut client, "f", item), 1, "an hour is over");
        assert_eq!(client.ask(&format!("BG.FEEDBACK f {item}")), Value::Int(1));
        assert_eq!(exists(&mut client, "f", item), 0);
        client.ask(&format!("BF.ADD f {item}"));
        assert_eq!(exists(&mut client, "f", item), 1, "'{item}' was added and is hidden");
    }
    let info = client.ask("INFO watch");
    assert!(info.text().contains("feedback_entries:20\r"), "those that were not added: {info:?}");
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {others}")), Value::Int(20));
}

#[test]
fn another_filter_or_another_name_knows_nothing_of_it() {
    let server = Server::new();
    let mut client = server.client(0);
    for change in ["RENAME f g", "BG.SWAP f g", "COPY f g REPLACE", "BG.COPY f g REPLACE", "BG.MERGE g f"] {
        server.at(0.0);
        filled(&mut client, "f");
        client.ok("BG.CREATE g KIND blocked CAPACITY 500 RATE 0.2");
        let item = &false_positives(&mut client, "f", 1)[0];
        client.ask(&format!("BG.FEEDBACK f {item}"));
        server.at(100.0);
        assert_eq!(client.ask(&format!("BG.FEEDBACK f {item}")), Value::Int(1), "{change}");
        assert_eq!(exists(&mut client, "f", item), 0);
        let changed = client.ask(change);
        assert!(!matches!(changed, Value::Error(_)), "{change}: {changed:?}");
        assert_eq!(exists(&mut client, "g", item), 1, "{change}");
        client.ask("FLUSHALL");
    }
    // Rekeyed: the item may be another kind of stranger under the new secret, but no report speaks of it.
    server.at(0.0);
    client.ok("BG.CREATE f KIND blocked CAPACITY 500 RATE 0.2");
    client.items("BG.ADD f", 0..450);
    let item = &false_positives(&mut client, "f", 1)[0];
    client.ask(&format!("BG.FEEDBACK f {item}"));
    server.at(100.0);
    assert_eq!(client.ask(&format!("BG.FEEDBACK f {item}")), Value::Int(1));
    client.ask("BG.REKEY f START");
    client.items("BG.FEED f", 0..450);
    client.ask(&format!("BG.FEED f {item}"));
    let finished = client.ask("BG.REKEY f FINISH");
    assert!(!matches!(finished, Value::Error(_)), "{finished:?}");
    assert_eq!(exists(&mut client, "f", item), 1);
    assert_eq!(client.ask("BG.STATS f").field("feedback_seconds"), &Value::Nil);
}

#[test]
fn feedback_is_refused_where_it_cannot_be_kept() {
    let server = Server::new();
    let mut client = server.client(0);
    for kind in ["counting", "cuckoo", "growing-cuckoo", "quotient"] {
        client.ok(&format!("BG.CREATE {kind} KIND {kind} CAPACITY 100"));
        client.refuses(&format!("BG.FEEDBACK {kind} item"), "takes no feedback");
    }
    client.refuses("BG.FEEDBACK nobody item", "ERR not found");
    client.ok("BF.RESERVE f 0.01 100");
    let used = server.engine.budget.used();
    assert_eq!(client.ask("BG.FEEDBACK f item"), Value::Int(0));
    let charged = server.engine.budget.used() - used;
    assert!((20 << 20..40 << 20).contains(&charged), "{charged} bytes for a million entries");
    client.ask("BG.FEEDBACK f item other");
    assert_eq!(server.engine.budget.used() - used, charged, "charged once");
    // A server without the memory for it, and one that wants none.
    let small = Server::with(1 << 20, Vec::new());
    let mut client = small.client(0);
    client.ok("BF.RESERVE f 0.01 100");
    client.refuses("BG.FEEDBACK f item", "lower feedback-entries, or raise max-memory");
    let mut none = Server::new();
    let settings = WatchSettings { feedback_entries: 0, ..WatchSettings::default() };
    std::sync::Arc::get_mut(&mut none.engine).unwrap().watch = Watch::new(settings);
    let mut client = none.client(0);
    client.ok("BF.RESERVE f 0.01 100");
    client.refuses("BG.FEEDBACK f item", "feedback-entries is 0");
}

/// Reports, adds and lookups of the same items at once: what was added before a look is there, whoever reports it.
#[test]
fn an_acknowledged_add_is_never_hidden() {
    let server = Server::new();
    let mut client = server.client(0);
    filled(&mut client, "f");
    let items = false_positives(&mut client, "f", 64);
    client.ask("BG.FEEDBACK f first");
    server.at(100.0);
    let report = format!("BG.FEEDBACK f {}", items.join(" "));
    assert_eq!(client.ask(&report), Value::Int(64));
    let added: Vec<std::sync::atomic::AtomicBool> = items.iter().map(|_| false.into()).collect();
    let looks = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (server, items, added, looks, report) = (&server, &items, &added, &looks, &report);
        scope.spawn(move || {
            let mut client = server.client(1);
            for (item, added) in items.iter().zip(added) {
                // Some lookups between two adds.
                let looked = looks.load(std::sync::atomic::Ordering::Relaxed);
                while looks.load(std::sync::atomic::Ordering::Relaxed) < looked + 100 {
                    std::thread::yield_now();
                }
                client.ask(&format!("BF.ADD f {item}"));
                added.store(true, std::sync::atomic::Ordering::Release);
            }
        });
        scope.spawn(move || {
            let mut client = server.client(2);
            while !added.iter().all(|added| added.load(std::sync::atomic::Ordering::Acquire)) {
                client.ask(report);
            }
        });
        scope.spawn(move || {
            let mut client = server.client(3);
            let mut at = 0;
            while !added.iter().all(|added| added.load(std::sync::atomic::Ordering::Acquire)) {
                at = (at + 1) % items.len();
                let before = added[at].load(std::sync::atomic::Ordering::Acquire);
                let there = client.ask(&format!("BF.EXISTS f {}", items[at])).int();
                assert!(there == 1 || !before, "'{}' was added and is hidden", items[at]);
                looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        });
    });
    assert!(items.iter().all(|item| exists(&mut client, "f", item) == 1));
    assert!(looks.into_inner() >= 6_400);
}
