//! The proof for files beyond 2^32 bits and beyond memory: a filter that is written in place, reopened, and asked for every
//! key. Run by `scripts/soak mapped [GIB]`; the file is made in the folder for temporary files and removed.

use std::path::Path;
use std::time::Instant;

use bloomgate::bits::MappedMut;
use bloomgate::{Blocked, Digest, Error, ErrorKind};

/// Keys by the batch, from each of two threads.
const EACH: u64 = 3_000_000;
const BATCH: usize = 10_000;

/// A bijection of 64-bit numbers: the i-th key.
fn key(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn keys(from: u64, count: u64) -> Vec<u64> {
    (from..from + count).map(key).collect()
}

/// Digests whose lines are the last ones of the filter: `scale(lo, lines)` of the greatest numbers there are.
fn top(lines: u64) -> Vec<Digest> {
    let step = u64::MAX / lines;
    (0..100_000).map(|i| Digest::new((u64::MAX - i * step) & !0xffff_ffff | key(i) >> 32, key(i))).collect()
}

fn insert(filter: &Blocked<MappedMut>, from: u64) -> Result<(), Error> {
    for keys in keys(from, EACH).chunks(BATCH) {
        filter.insert_batch(keys)?;
    }
    Ok(())
}

fn missing(count: impl IntoIterator<Item = bool>) -> usize {
    count.into_iter().filter(|&maybe| !maybe).count()
}

fn run(path: &Path, gibibytes: u64) -> Result<(), Box<dyn std::error::Error>> {
    let bits = gibibytes << 33;
    let start = Instant::now();
    let filter = Blocked::builder().keys::<u64>().bits(bits).hashes(8).create_mapped(path)?;
    println!("made      {bits} bits ({:.1} times 2^32) in {:.2?}", bits as f64 / 2f64.powi(32), start.elapsed());

    let top = top(bits / 512);
    let start = Instant::now();
    let inserted = std::thread::scope(|scope| {
        let threads = [0, EACH].map(|from| {
            let filter = &filter;
            scope.spawn(move || insert(filter, from))
        });
        threads.map(|thread| thread.join().expect("a thread that inserts does not panic"))
    });
    inserted.into_iter().collect::<Result<(), _>>()?;
    let seconds = start.elapsed().as_secs_f64();
    let before = missing(top.iter().map(|&digest| filter.contains_digest(digest)));
    assert_eq!(before, top.len(), "bits in the last lines before anything was inserted there");
    filter.insert_digests(&top)?;
    println!("inserted  {} keys in {seconds:.2} s, and {} in the last lines", 2 * EACH, top.len());
    assert_eq!(Blocked::map(path).unwrap_err().kind(), ErrorKind::Dirty);

    let start = Instant::now();
    let len = filter.len();
    filter.close()?;
    println!("synced    in {:.2?}", start.elapsed());

    let start = Instant::now();
    let again = Blocked::map(path)?;
    let opened = start.elapsed();
    assert_eq!(again.len(), len);
    let (mut wrong, mut answers) = (missing(top.iter().map(|&digest| again.contains_digest(digest))), vec![]);
    for keys in keys(0, 2 * EACH).chunks(BATCH) {
        answers.resize(keys.len(), false);
        again.contains_batch(keys, &mut answers)?;
        wrong += missing(answers.iter().copied());
    }
    assert_eq!(wrong, 0, "wrong noes");
    again.verify_all(|_, _| ())?;
    println!("reopened  in {opened:.2?}: no wrong no among {}, all checksums right", 2 * EACH + top.len() as u64);

    let writer = Blocked::map_mut(path)?;
    let more = keys(2 * EACH, 100_000);
    writer.insert_batch(&more)?;
    writer.close()?;
    let again = Blocked::map(path)?;
    answers.resize(more.len(), false);
    again.contains_batch(&more, &mut answers)?;
    assert_eq!(missing(answers.iter().copied()), 0, "wrong noes after the second time");
    println!("again     100000 more keys, synced and found");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gibibytes = std::env::args().nth(1).map_or(Ok(2), |given| given.parse())?;
    if !(1..=1 << 15).contains(&gibibytes) {
        return Err(format!("{gibibytes} GiB: 1 to 32768 expected").into());
    }
    let path = std::env::temp_dir().join(format!("bloomgate-soak-{}.bloom", std::process::id()));
    let result = run(&path, gibibytes);
    std::fs::remove_file(&path)?;
    result
}
