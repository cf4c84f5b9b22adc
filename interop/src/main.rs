//! The Bloomgate side of the proof against Guava; `scripts/interop-guava` runs it together with the Java side.
//!
//! ```text
//! bloomgate-interop guava write DIR   filters made here, each with the keys and the answers that it gave
//! bloomgate-interop guava check DIR   filters made there: the same answers, and the same bytes for the same keys
//! ```
//!
//! A filter `NAME` is two files: `NAME.bf`, the form itself, and `NAME.txt`, a line for each fact about it: `funnel`,
//! `items`, `rate`, `strategy`, then `member KEY`, `yes KEY` and `no KEY`.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use bloomgate::foreign::{Guava, Strategy};
use bloomgate::{Encoding, Key};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// A key as Guava's funnels write it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Funnel {
    Utf8,
    Long,
    Bytes,
    Int,
    Chars,
}

impl Funnel {
    const ALL: [(Funnel, &str); 5] = [
        (Funnel::Utf8, "utf8"),
        (Funnel::Long, "long"),
        (Funnel::Bytes, "bytes"),
        (Funnel::Int, "int"),
        (Funnel::Chars, "chars"),
    ];

    fn named(name: &str) -> Outcome<Self> {
        let found = Self::ALL.into_iter().find(|(_, known)| *known == name);
        Ok(found.ok_or_else(|| format!("there is no funnel {name}"))?.0)
    }

    fn encoding(self) -> Encoding {
        match self {
            Funnel::Utf8 => Encoding::Text,
            Funnel::Long => Encoding::Signed,
            Funnel::Bytes | Funnel::Int | Funnel::Chars => Encoding::Bytes,
        }
    }

    /// The key that a line writes.
    fn key(self, text: &str) -> Outcome<Box<dyn Ask>> {
        Ok(match self {
            Funnel::Utf8 => Box::new(text.to_owned()),
            Funnel::Long => Box::new(text.parse::<i64>()?),
            Funnel::Int => Box::new(text.parse::<i32>()?.to_le_bytes().to_vec()),
            Funnel::Chars => Box::new(text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
            Funnel::Bytes => {
                let digits: Vec<char> = text.chars().collect();
                let pairs = digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16));
                Box::new(pairs.collect::<Result<Vec<u8>, _>>()?)
            }
        })
    }

    /// The text of the `i`-th of many keys; `kind` keeps members and probes apart.
    fn text(self, kind: u32, i: u32) -> String {
        let mixed = (u64::from(kind) << 32 | u64::from(i)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self {
            Funnel::Utf8 | Funnel::Chars => format!("clé {kind}/{i}/{mixed:x}"),
            Funnel::Long => (mixed as i64).to_string(),
            Funnel::Int => ((kind << 24 | i) as i32).wrapping_mul(-7_654_321).to_string(),
            Funnel::Bytes => {
                mixed.to_be_bytes()[..i as usize % 9].iter().fold(format!("{kind:02x}{i:08x}"), |mut s, b| {
                    let _ = write!(s, "{b:02x}");
                    s
                })
            }
        }
    }
}

/// A key of any type, asked of a filter.
trait Ask {
    fn contained(&self, filter: &Guava) -> bloomgate::Result<bool>;
    fn insert(&self, filter: &mut Guava) -> bloomgate::Result<bool>;
}

impl<K: Key> Ask for K {
    fn contained(&self, filter: &Guava) -> bloomgate::Result<bool> {
        filter.contains(self)
    }

    fn insert(&self, filter: &mut Guava) -> bloomgate::Result<bool> {
        Guava::insert(filter, self)
    }
}

fn built(funnel: Funnel, items: u64, rate: f64, strategy: Strategy) -> bloomgate::Result<Guava> {
    let builder = Guava::builder().items(items).rate(rate).strategy(strategy);
    match funnel {
        Funnel::Utf8 => builder.keys::<str>().build(),
        Funnel::Long => builder.keys::<i64>().build(),
        Funnel::Bytes | Funnel::Int | Funnel::Chars => builder.build(),
    }
}

fn write(dir: &Path) -> Outcome {
    fs::create_dir_all(dir)?;
    let sizes = [(1, 0.03), (10, 0.3), (1_000, 0.01), (5_000, 0.0001)];
    for (funnel, name) in Funnel::ALL {
        for strategy in [Strategy::Murmur128Mitz32, Strategy::Murmur128Mitz64] {
            for (items, rate) in sizes {
                let mut filter = built(funnel, items, rate, strategy)?;
                let ordinal = strategy.ordinal();
                let mut facts = format!("funnel {name}\nitems {items}\nrate {rate}\nstrategy {ordinal}\n");
                for i in 0..items as u32 {
                    let text = funnel.text(1, i);
                    funnel.key(&text)?.insert(&mut filter)?;
                    writeln!(facts, "member {text}")?;
                }
                for i in 0..2_000 {
                    let text = funnel.text(2, i);
                    let answer = if funnel.key(&text)?.contained(&filter)? { "yes" } else { "no" };
                    writeln!(facts, "{answer} {text}")?;
                }
                let file = dir.join(format!("{name}-{ordinal}-{items}"));
                fs::write(file.with_extension("bf"), filter.to_foreign()?)?;
                fs::write(file.with_extension("txt"), facts)?;
            }
        }
    }
    Ok(())
}

fn check(dir: &Path) -> Outcome {
    let mut filters = 0;
    let mut maybe = 0;
    for entry in fs::read_dir(dir)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "txt") {
            maybe += check_one(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            filters += 1;
        }
    }
    if filters == 0 || maybe == 0 {
        return Err(format!("{filters} filters with {maybe} false positives: nothing was proven").into());
    }
    println!("bloomgate agrees with {filters} filters of Guava and their {maybe} false positives");
    Ok(())
}

/// Checks one filter; how many false positives it has.
fn check_one(file: &Path) -> Outcome<usize> {
    let blob = fs::read(file.with_extension("bf"))?;
    let facts = fs::read_to_string(file)?;
    let fact = |name: &str| -> Outcome<&str> {
        let line = facts.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.ok_or_else(|| format!("no line {name}"))?)
    };
    let funnel = Funnel::named(fact("funnel")?)?;
    let strategy = Strategy::from_ordinal(fact("strategy")?.parse()?).ok_or("no such strategy")?;
    let filter = Guava::from_foreign(&blob, funnel.encoding())?;
    let mut same = built(funnel, fact("items")?.parse()?, fact("rate")?.parse()?, strategy)?;
    let (mut maybe, mut probes) = (0, 0);
    for line in facts.lines() {
        let (what, text) = line.split_once(' ').ok_or("a line without a space")?;
        let expected = match what {
            "member" | "yes" => true,
            "no" => false,
            _ => continue,
        };
        let key = funnel.key(text)?;
        if key.contained(&filter)? != expected {
            return Err(format!("{text} should answer {expected}").into());
        }
        if what == "member" {
            key.insert(&mut same)?;
        } else {
            probes += 1;
            maybe += usize::from(expected);
        }
    }
    if same.to_foreign()? != blob || filter.to_foreign()? != blob {
        return Err("the same keys give other bytes".into());
    }
    if probes == 0 {
        return Err("it has no probes".into());
    }
    Ok(maybe)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["guava", "write", dir] => write(Path::new(dir)),
        ["guava", "check", dir] => check(Path::new(dir)),
        _ => Err("usage: bloomgate-interop guava write|check DIR".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bloomgate-interop: {error}");
            ExitCode::FAILURE
        }
    }
}
