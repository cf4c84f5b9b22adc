//! What the secret costs: batches hashed by SipHash-1-3 beside the same batches under XXH3.
//!
//! The keys lie as the server finds them, each in its `$12\r\n...\r\n` in one buffer, and come in batches as long as the
//! server's. The two sides take turns, a few microseconds each, and the ratio is the median of the turns' ratios: what
//! else the machine does hits both.

use crate::args::{Args, Fault};
use crate::clock::{median, time};
use bloomgate::{Blocked, Contract, Digest, Secret};
use std::hint::black_box;
use std::ops::Range;

/// Keys of a pipeline: 64 commands of 100 items.
const KEYS: usize = 6_400;
/// Keys of a batch: the server runs one when it has 512 items or more.
const BATCH: usize = 600;
/// Items of the filters that are asked.
const ITEMS: u64 = 1_000_000;

/// Keys in a request.
struct Request {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Request {
    /// Decimal numbers filled up with zeros to the lengths given, in turn.
    fn new(lengths: &[usize]) -> Self {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut number = 7u64;
        for at in 0..KEYS {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // A hash of the place: lengths in turn would be learnt by the processor.
            let length = lengths[(number >> 33) as usize % lengths.len()];
            let key = format!("{:0length$}", (number >> 20) % ITEMS + at as u64);
            bytes.extend_from_slice(format!("${length}\r\n").as_bytes());
            let start = bytes.len();
            bytes.extend_from_slice(&key.as_bytes()[key.len() - length..]);
            places.push(start..bytes.len());
            bytes.extend_from_slice(b"\r\n");
        }
        Self { bytes, places }
    }

    fn keys(&self) -> Vec<&[u8]> {
        self.places.iter().map(|place| &self.bytes[place.clone()]).collect()
    }
}

/// Nanoseconds a key of two ways to do one thing, and the median of the ratios of the first to the second.
struct Turns {
    ns: [f64; 2],
    ratio: f64,
}

fn take_turns(rounds: usize, mut work: impl FnMut(usize)) -> Turns {
    let mut ns = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    for round in 0..rounds {
        let mut spent = [0.0; 2];
        for turn in 0..2 {
            let side = (round + turn) % 2;
            spent[side] = time(|| work(side)) as f64 / KEYS as f64;
        }
        if spent[0] > 0.0 && spent[1] > 0.0 {
            ns[0].push(spent[0]);
            ns[1].push(spent[1]);
            ratios.push(spent[0] / spent[1]);
        }
    }
    Turns { ns: [median(&ns[0]), median(&ns[1])], ratio: median(&ratios) }
}

/// A row: XXH3, keyed, and keyed as a part of XXH3's speed, of each of the three things that are done with keys.
fn row(name: &str, lengths: &[usize], filters: &[Blocked<bloomgate::Shared>; 2], rounds: usize) -> Result<(), Fault> {
    let request = Request::new(lengths);
    let keys = request.keys();
    let mut digests: Vec<Digest> = Vec::with_capacity(BATCH);
    let mut answers = vec![false; BATCH];
    let mut fault = None;
    let mut note = |result: bloomgate::Result<()>| {
        if let Err(error) = result {
            fault = Some(Fault(error.to_string()));
        }
    };
    let hash = take_turns(rounds, |side| {
        for batch in keys.chunks(BATCH) {
            digests.clear();
            note(filters[side].contract().digest_batch(batch, &mut digests));
            black_box(&digests);
        }
    });
    let ask = take_turns(rounds, |side| {
        for batch in keys.chunks(BATCH) {
            note(filters[side].contains_batch(batch, &mut answers[..batch.len()]));
            black_box(&answers);
        }
    });
    let both = take_turns(rounds, |side| {
        for batch in keys.chunks(BATCH) {
            digests.clear();
            note(filters[side].contract().digest_batch(batch, &mut digests));
            note(filters[side].contains_digests(&digests, &mut answers[..batch.len()]));
            black_box(&answers);
        }
    });
    print!("{name:>9}");
    for turns in [hash, ask, both] {
        print!("   {:>6.2} {:>6.2} {:>5.2}x", turns.ns[0], turns.ns[1], turns.ratio);
    }
    println!();
    fault.map_or(Ok(()), Err)
}

/// `scripts/bench hashes [--rounds R]`.
pub fn run(args: &mut Args) -> Result<(), Fault> {
    let mut rounds = 401;
    while let Some(option) = args.option()? {
        match option.as_str() {
            "--rounds" => rounds = args.number(&option)?,
            _ => return Err(args.unknown(&option)),
        }
    }
    println!("{}", crate::machine());
    println!("ns a key: XXH3, keyed, and the speed of keyed over that of XXH3 (median of {rounds} turns)");
    println!("{:>9}   {:^21}   {:^21}   {:^21}", "bytes", "digest_batch", "contains_batch", "digest, then ask");
    let build = |contract: Contract| {
        let filter = Blocked::builder().items(ITEMS).rate(0.01).contract(contract).build_shared();
        filter.map_err(|error| Fault(error.to_string()))
    };
    let filters = [build(Contract::xxh3())?, build(Contract::keyed(&Secret::from_bytes([7; 32])))?];
    let numbers: Vec<String> = (0..ITEMS).map(|number| format!("{number:012}")).collect();
    let keys: Vec<&[u8]> = numbers.iter().map(|number| number.as_bytes()).collect();
    for filter in &filters {
        filter.insert_batch(&keys).map_err(|error| Fault(error.to_string()))?;
    }
    for length in [4, 8, 12, 16, 24, 36] {
        row(&length.to_string(), &[length], &filters, rounds)?;
    }
    row("10-18", &(10..=18).collect::<Vec<_>>(), &filters, rounds)?;
    row("4-12", &(4..=12).collect::<Vec<_>>(), &filters, rounds)?;
    row("16-40", &(16..=40).collect::<Vec<_>>(), &filters, rounds)?;
    row("1-200", &(1..=200).collect::<Vec<_>>(), &filters, rounds)
}
