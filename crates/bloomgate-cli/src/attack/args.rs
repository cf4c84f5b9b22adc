//! What `attack` can be told.

use std::path::PathBuf;

use super::fronts::Kind;
use crate::number;

/// The most products: their numbers are sorted in memory, 8 bytes each.
const MOST_PRODUCTS: u64 = 100_000_000;
/// The most requests: a day of them on a laptop.
const MOST_REQUESTS: u64 = 100_000_000_000;
/// The most workers.
const MOST_WORKERS: u64 = 10_000;

/// Attack a database with keys that do not exist, and see what each defence lets through
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_long_help = "\
Examples:
  bloomgate attack                                    an embedded SQLite, nothing to set up
  bloomgate attack --svg attack.svg                   and a picture
  bloomgate attack --source postgres://me@db/shop --redis redis://cache
  bloomgate attack --requests 10M --writes 2% --rebuilds 20 --only gate     is a \"no\" ever wrong?
  bloomgate attack measure --keys 10M                 how often a fake key gets through
  bloomgate attack poison                             keys chosen against a known hash
  bloomgate attack replay                             keys that got through, sent again and again

A catalogue of products is built, then the same requests (the same keys in the same order from each worker) go to each \
front in turn: nothing, a cache, a cache that remembers \"no\" too, the gate, and the gate with its filter behind the \
Redis protocol. Caches hold the popular products before it begins (unless --cold). Absent keys are random and never come twice, as with bots that guess; present ones are asked for by \
Zipf's law. What reached the cache and the database is counted there, not told by the front. The driver knows which keys \
exist: a present key that is not found is a wrong \"no\".

Workers wait for an answer before they ask again. Latency is that of lookups, as a worker sees it. The database's CPU is \
that of its threads (SQLite) or of its processes (PostgreSQL on this machine).

With --writes, keys come and go during the run; a lookup that began after a write was acknowledged must see it.

Exit codes: 0 done, 1 an answer was wrong (of caches beside writes that is told and forgiven) or the filter's rate is above \
1.05 times the promise, 2 error."
)]
pub struct Args {
    #[command(subcommand)]
    pub verb: Option<Verb>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// The attacks.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    Run(Box<RunArgs>),
    Measure(MeasureArgs),
    Poison(PoisonArgs),
    Replay(ReplayArgs),
}

/// The same mix of requests against each front (what `attack` alone does)
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub shop: Shop,
    /// False positives to promise: the share of absent keys that the filter may let through
    #[arg(long, value_name = "P", value_parser = number::rate, default_value = "0.1%", allow_negative_numbers = true)]
    pub rate: f64,
    /// Requests to send to each front
    #[arg(long, value_name = "N", value_parser = requests, default_value = "400k", allow_negative_numbers = true)]
    pub requests: u64,
    /// The share of lookups that is for keys that do not exist
    #[arg(long, value_name = "SHARE", value_parser = number::share, default_value = "95%", allow_negative_numbers = true)]
    pub absent: f64,
    /// How uneven the products are asked for: 0 all alike, 1 as in most shops
    #[arg(long, value_name = "S", value_parser = exponent, default_value = "1", allow_negative_numbers = true)]
    pub zipf: f64,
    /// The share of requests that inserts, replaces or deletes
    #[arg(long, value_name = "SHARE", value_parser = writes, default_value = "0", allow_negative_numbers = true)]
    pub writes: f64,
    /// Build the filter anew this often on the way [default: 10 with --writes, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    pub rebuilds: Option<u64>,
    /// Begin with empty caches, not with the popular products in them
    #[arg(long)]
    pub cold: bool,
    /// Only these fronts, with commas or several times
    #[arg(long, value_name = "FRONT", value_enum, value_delimiter = ',')]
    pub only: Vec<Kind>,
    /// Write the picture to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    #[command(flatten)]
    pub printing: Printing,
}

/// Measure how often fake keys get through a gate, with the interval
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate attack measure
  bloomgate attack measure --keys 10M --rate 1% --resp redis://127.0.0.1:6379

Every key is random and asked for once, so every \"maybe\" is a false positive. Two questions are answered: is the rate \
within the promise (at most 1.05 times what was asked), and is it what the filter's bits let expect (to both sides, \
beyond what chance does three times in a million)?

Exit codes: 0 both, 1 not, 2 error.")]
pub struct MeasureArgs {
    #[command(flatten)]
    pub shop: Shop,
    /// False positives to promise
    #[arg(long, value_name = "P", value_parser = number::rate, default_value = "0.1%", allow_negative_numbers = true)]
    pub rate: f64,
    /// Fake keys to ask for
    #[arg(long, value_name = "N", value_parser = requests, default_value = "2M", allow_negative_numbers = true)]
    pub keys: u64,
    #[command(flatten)]
    pub printing: Printing,
}

/// Choose keys against a hash that everybody knows, and against one under a secret
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate attack poison
  bloomgate attack poison --products 100k --chosen 5k

Who knows the hash and the keys of a filter can compute it at home. Two attacks follow. Keys that are chosen because the \
copy says \"maybe\" all reach the database. Keys that are chosen because the copy has none of their bits, and are then \
registered, fill the filter sooner than honest ones, so that it says \"maybe\" too often for everybody. Both are tried on \
three filters of the same keys and rate: RedisBloom's layout (MurmurHash64A with a published seed), ours without a secret \
(XXH3), and ours under a secret, as the gate always makes it.

Exit codes: 0 the filter under a secret keeps its promise, 1 it does not, 2 error.")]
pub struct PoisonArgs {
    /// Keys that are in the filter before the attack; it is made for twice as many
    #[arg(long, value_name = "N", value_parser = poisoned, default_value = "10k", allow_negative_numbers = true)]
    pub products: u64,
    /// Keys that the attacker chooses to be let through
    #[arg(long, value_name = "N", value_parser = poisoned, default_value = "2k", allow_negative_numbers = true)]
    pub chosen: u64,
    /// False positives to promise
    #[arg(long, value_name = "P", value_parser = number::rate, default_value = "1%", allow_negative_numbers = true)]
    pub rate: f64,
    /// Other keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub printing: Printing,
}

/// Find keys that get through, and send them again and again
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  bloomgate attack replay
  bloomgate attack replay --found 1000 --times 1000

A filter lets a few absent keys through. Who finds them by trying can send the same ones for ever. The gate remembers the \
database's \"no\" for a while: each such key reaches the database at most once in that time. The same replay goes to a gate \
that does not remember, to show the difference.

Exit codes: 0 each key reached the database at most once, 1 some more often, 2 error.")]
pub struct ReplayArgs {
    #[command(flatten)]
    pub shop: Shop,
    /// False positives to promise; there is more to find when it is high
    #[arg(long, value_name = "P", value_parser = number::rate, default_value = "1%", allow_negative_numbers = true)]
    pub rate: f64,
    /// False positives to find
    #[arg(long, value_name = "N", value_parser = poisoned, default_value = "1000", allow_negative_numbers = true)]
    pub found: u64,
    /// How often to send each
    #[arg(long, value_name = "M", value_parser = poisoned, default_value = "1000", allow_negative_numbers = true)]
    pub times: u64,
    #[command(flatten)]
    pub printing: Printing,
}

/// What is attacked.
#[derive(Debug, Clone, clap::Args)]
pub struct Shop {
    /// Products in the catalogue
    #[arg(long, value_name = "N", value_parser = products, default_value = "100k", allow_negative_numbers = true)]
    pub products: u64,
    /// Who asks at the same time
    #[arg(long, value_name = "N", value_parser = workers, default_value = "50", allow_negative_numbers = true)]
    pub workers: u64,
    /// The database: sqlite (in a folder that is removed afterwards) or the address of a PostgreSQL, where a table of its
    /// own is made and removed
    #[arg(long, value_name = "DB", default_value = "sqlite")]
    pub source: String,
    /// Cache rows in this Redis, redis://HOST:PORT [default: in the process]
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// The server of the filter behind the Redis protocol, redis://HOST:PORT [default: one of our own on a free port]
    #[arg(long, value_name = "URL")]
    pub resp: Option<String>,
    /// Other keys and other requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// How the findings are told.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Printing {
    /// Print one JSON object instead of the screen
    #[arg(long)]
    pub json: bool,
    /// Draw with plain characters
    #[arg(long)]
    pub ascii: bool,
    /// No progress bars
    #[arg(short, long)]
    pub quiet: bool,
}

fn within(text: &str, least: u64, most: u64, what: &str) -> Result<u64, String> {
    let number = number::count(text)?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(format!("{} to {} {what} are possible, not {}", least, number::grouped(most), number::grouped(number)))
}

fn products(text: &str) -> Result<u64, String> {
    within(text, 1, MOST_PRODUCTS, "products")
}

fn requests(text: &str) -> Result<u64, String> {
    within(text, 1, MOST_REQUESTS, "requests")
}

fn workers(text: &str) -> Result<u64, String> {
    within(text, 1, MOST_WORKERS, "workers")
}

fn poisoned(text: &str) -> Result<u64, String> {
    within(text, 1, 1_000_000, "of them")
}

fn writes(text: &str) -> Result<f64, String> {
    let share = number::share(text)?;
    if share <= 0.5 {
        return Ok(share);
    }
    Err(format!("a share of writes is at most 0.5, not {share}: somebody has to look them up"))
}

fn exponent(text: &str) -> Result<f64, String> {
    number::amount(text)
        .ok()
        .filter(|exponent| *exponent <= 5.0)
        .ok_or_else(|| format!("{text:?} is not an exponent: write a number from 0 to 5, such as 1"))
}
