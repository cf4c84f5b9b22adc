//! `attack poison`: keys chosen at home, against a copy of the filter that everybody can make who knows the hash.
//!
//! After Gerbet, Kumar and Lauradoux, "The Power of Evil Choices in Bloom Filters" (2015): a query-only adversary sends
//! known false positives, a chosen-insertion adversary registers keys that set as many new bits as possible. Under a
//! secret neither knows what to choose.

use std::io::Write;

use bloomgate::foreign::RedisBloom;
use bloomgate::{Contract, Secret, bloom::Blocked};

use super::args::PoisonArgs;
use super::catalogue;
use super::report::{bar, is_kept, plain_percent, rate_in_words};
use crate::failure::{DONE, NONE, Outcome};
use crate::json::{self, Object};
use crate::number;
use crate::progress::Progress;
use crate::random::Random;
use crate::screen::{self, DIM, ERROR, HEAD, INK, STRONG, paint, wrapped};

/// Candidates for each key that is registered: the one that sets the most new bits is taken.
const CANDIDATES: usize = 24;
/// Random keys that measure a filter's rate.
const PROBES: u64 = 200_000;

/// A filter that is attacked.
#[derive(Clone)]
enum Victim {
    RedisBloom(RedisBloom),
    Ours(Blocked),
}

impl Victim {
    fn insert(&mut self, key: &str) -> bloomgate::Result<bool> {
        match self {
            Self::RedisBloom(filter) => filter.insert(key.as_bytes()),
            Self::Ours(filter) => filter.insert(key.as_bytes()),
        }
    }

    fn contains(&self, key: &str) -> bloomgate::Result<bool> {
        match self {
            Self::RedisBloom(filter) => filter.contains(key.as_bytes()),
            Self::Ours(filter) => filter.contains(key.as_bytes()),
        }
    }

    fn set_bits(&self) -> u64 {
        match self {
            Self::RedisBloom(filter) => filter.set_cells(),
            Self::Ours(filter) => filter.set_bits(),
        }
    }
}

/// What was done to one filter.
struct Finding {
    name: &'static str,
    /// Its name in JSON.
    short: &'static str,
    /// The promise that counts for the exit code: only that of the filter under a secret.
    keyed: bool,
    /// Maybes of random absent keys, and of chosen ones.
    random: (u64, u64),
    chosen: (u64, u64),
    /// Maybes of random absent keys once the filter is full: of honest keys, of chosen ones.
    honest: (u64, u64),
    poisoned: (u64, u64),
}

/// A name, and how many of how many keys were let through.
type Named = (&'static str, (u64, u64));

fn share((hits, trials): (u64, u64)) -> f64 {
    hits as f64 / trials.max(1) as f64
}

/// Keys nobody has, one after the other.
fn key(random: &mut Random) -> String {
    catalogue::key(random.next())
}

fn maybes<'k>(victim: &Victim, keys: impl IntoIterator<Item = &'k String>) -> bloomgate::Result<(u64, u64)> {
    let (mut hits, mut trials) = (0, 0);
    for key in keys {
        hits += u64::from(victim.contains(key)?);
        trials += 1;
    }
    Ok((hits, trials))
}

/// Keys that this copy takes for present.
fn false_positives(copy: &Victim, many: u64, random: &mut Random) -> bloomgate::Result<Vec<String>> {
    let mut found = Vec::new();
    while (found.len() as u64) < many {
        let key = key(random);
        if copy.contains(&key)? {
            found.push(key);
        }
    }
    Ok(found)
}

/// Keys that fill this copy fastest: of each few candidates the one that sets the most bits.
fn fillers(copy: &Victim, many: u64, random: &mut Random) -> bloomgate::Result<Vec<String>> {
    let mut copy = copy.clone();
    let mut chosen = Vec::new();
    for _ in 0..many {
        let mut best: Option<(u64, Victim, String)> = None;
        for _ in 0..CANDIDATES {
            let (mut with, key) = (copy.clone(), key(random));
            // A key that it takes for present sets nothing.
            if !with.insert(&key)? {
                continue;
            }
            let bits = with.set_bits();
            if best.as_ref().is_none_or(|(most, ..)| bits > *most) {
                best = Some((bits, with, key));
            }
        }
        if let Some((_, with, key)) = best {
            copy = with;
            chosen.push(key);
        }
    }
    Ok(chosen)
}

fn attack(args: &PoisonArgs, progress: &Progress) -> bloomgate::Result<Vec<Finding>> {
    let capacity = args.products * 2;
    let random = &mut Random::of_worker(args.seed, 0);
    let products: Vec<String> = (0..args.products).map(|_| key(random)).collect();
    let honest: Vec<String> = (0..args.products).map(|_| key(random)).collect();
    let probes: Vec<String> = (0..PROBES).map(|_| key(random)).collect();
    let secret = Secret::generate()?;
    let ours = |contract| Blocked::builder().items(capacity).rate(args.rate).contract(contract).build();
    let redis = RedisBloom::builder().items(capacity).rate(args.rate).nonscaling().build()?;
    let victims = [
        ("RedisBloom's layout", "redisbloom", Victim::RedisBloom(redis)),
        ("Bloomgate, no secret", "xxh3", Victim::Ours(ours(Contract::xxh3())?)),
        ("Bloomgate, a secret", "keyed", Victim::Ours(ours(Contract::keyed(&secret))?)),
    ];
    let mut findings: Vec<Finding> = Vec::new();
    // The best that is known against a filter under a secret: what was chosen against the public ones.
    let (mut chosen, mut filling) = (Vec::new(), Vec::new());
    for (name, short, mut victim) in victims {
        progress.at(short);
        for key in &products {
            victim.insert(key)?;
        }
        let keyed = short == "keyed";
        if !keyed {
            // Who knows the hash and the products has the same filter at home.
            chosen = false_positives(&victim, args.chosen, random)?;
            filling = fillers(&victim, args.products, random)?;
        }
        let (mut with_honest, mut with_chosen) = (victim.clone(), victim.clone());
        for key in &honest {
            with_honest.insert(key)?;
        }
        for key in &filling {
            with_chosen.insert(key)?;
        }
        findings.push(Finding {
            name,
            short,
            keyed,
            random: maybes(&victim, &probes)?,
            chosen: maybes(&victim, &chosen)?,
            honest: maybes(&with_honest, &probes)?,
            poisoned: maybes(&with_chosen, &probes)?,
        });
        progress.advance(1);
    }
    Ok(findings)
}

/// Runs `attack poison`.
pub fn run(args: &PoisonArgs) -> Outcome {
    let progress = Progress::steps("choosing keys", 3, args.printing.quiet);
    let findings = attack(args, &progress)?;
    drop(progress);
    let kept = |(hits, trials)| is_kept(hits, trials, args.rate);
    let good =
        findings.iter().filter(|finding| finding.keyed).all(|finding| kept(finding.chosen) && kept(finding.poisoned));
    let text = if args.printing.json {
        in_json(args, &findings, good) + "\n"
    } else {
        on_screen(args, &findings, good, screen::unicode(args.printing.ascii))
    };
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(if good { DONE } else { NONE })
}

fn on_screen(args: &PoisonArgs, findings: &[Finding], good: bool, unicode: bool) -> String {
    let mut out = wrapped(
        "",
        &format!(
            "{} in a filter for {} at {}; an attacker who knows the hash and the keys chooses others at home",
            number::counted(args.products, "key"),
            number::grouped(args.products * 2),
            plain_percent(args.rate),
        ),
    );
    let mut block = |title: &str, rows: fn(&Finding) -> [Named; 2]| {
        out.push_str(&format!("\n{}\n", paint(HEAD, title)));
        let most = findings.iter().flat_map(|finding| rows(finding).map(|(_, of)| share(of))).fold(1e-9, f64::max);
        for finding in findings {
            for (at, (what, measured)) in rows(finding).into_iter().enumerate() {
                let name = if at == 0 { finding.name } else { "" };
                let drawn = bar(share(measured) / most, 30, unicode);
                let style = if finding.keyed { STRONG } else { INK };
                out.push_str(&format!(
                    "  {name:<20}  {what:<7}  {} {:>9}\n",
                    paint(style, drawn),
                    number::percent(share(measured))
                ));
            }
        }
    };
    block("Let through: random absent keys, and chosen ones", |finding| {
        [("random", finding.random), ("chosen", finding.chosen)]
    });
    block("Let through of random ones, after as many registrations again", |finding| {
        [("honest", finding.honest), ("chosen", finding.poisoned)]
    });
    out.push('\n');
    if let Some(keyed) = findings.iter().find(|finding| finding.keyed) {
        let words = format!(
            "Under a secret, chosen keys are let through like any others: {}; promised: at most {}",
            rate_in_words(keyed.chosen.0, keyed.chosen.1),
            plain_percent(args.rate),
        );
        let style = if good { STRONG } else { ERROR };
        let words = if good { words } else { format!("The promise is broken under a secret too. {words}") };
        out.push_str(&paint(style, wrapped("", &words).trim_end()));
        out.push('\n');
    }
    out.push_str(&paint(DIM, "A gate always hashes under a secret.\n"));
    out
}

fn in_json(args: &PoisonArgs, findings: &[Finding], good: bool) -> String {
    let measured = |(hits, trials): (u64, u64)| {
        let object = Object::default().whole("maybes", hits).whole("keys", trials);
        object.number("rate", share((hits, trials))).close()
    };
    let filters = findings.iter().map(|finding| {
        Object::default()
            .text("filter", finding.short)
            .flag("keyed", finding.keyed)
            .raw("random", &measured(finding.random))
            .raw("chosen", &measured(finding.chosen))
            .raw("full_of_honest", &measured(finding.honest))
            .raw("full_of_chosen", &measured(finding.poisoned))
            .close()
    });
    Object::default()
        .whole("products", args.products)
        .whole("chosen", args.chosen)
        .number("rate", args.rate)
        .whole("seed", args.seed)
        .raw("filters", &json::list(filters))
        .flag("good", good)
        .close()
}
