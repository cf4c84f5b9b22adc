//! What a file is, told without its secret and without trusting it: for `info` commands and for operators.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use super::address::{Address, Addressing};
use super::agreement::{read_contract, verify_sentinels};
use super::frame::Section;
use super::load::{in_file, plain_file};
use super::read::{Limits, SectionReader};
use super::sections::{Codec, SectionType};
use super::shapes::{Cells, Chain, Plan, Rule};
use crate::bloom::CounterBits;
use crate::bloom::layout::sealed::Layout as _;
use crate::bloom::layout::{AnyLayout, Layout};
use crate::error::{Error, ErrorKind, Result};
use crate::hash::{Algorithm, Contract, SecretId};
use crate::key::Encoding;
use crate::kind::Kind;
use crate::math::estimate::different_keys;
use crate::math::scalable::{Tightening, chain_rate};
use crate::promise::{Promise, WhenFull};

/// Everything that a file says about itself, with what was found to be damaged.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Description {
    /// The kind of filter.
    pub kind: Kind,
    /// The format version that the writer wrote.
    pub format_version: u16,
    /// The length of the file.
    pub file_len: u64,
    /// The BLAKE3 of the whole file.
    pub address: Address,
    /// The hash of the keys.
    pub algorithm: Algorithm,
    /// The encoding of the keys.
    pub encoding: Encoding,
    /// The seed of the hash; 0 for those without one.
    pub seed: u64,
    /// The public name of the secret, if the filter is keyed.
    pub secret: Option<SecretId>,
    /// Whether this library hashes the file's sentinels as its writer did; unknown for a keyed filter.
    pub sentinels_agree: Option<bool>,
    /// The keys that the filter (for a chain, its open stages) was made for.
    pub capacity: u64,
    /// The rate that was promised.
    pub rate: f64,
    /// What an insert does past the capacity.
    pub when_full: WhenFull,
    /// Keys that were certainly new when they were inserted (counting: inserted less removed).
    pub len: u64,
    /// The exact expected rate with so many keys.
    pub expected_rate: f64,
    /// The memory of the filter once it is loaded, in bytes.
    pub size_in_bytes: u64,
    /// Whether a payload is compressed: such a file must be loaded and cannot be mapped.
    pub compressed: bool,
    /// What makes its parts, if it is a chain.
    pub chain: Option<ChainDescription>,
    /// The one part of a filter, or the stages of a chain.
    pub parts: Vec<PartDescription>,
    /// All sections of the file, in the order in which they lie.
    pub sections: Vec<SectionDescription>,
}

/// What makes the parts of a chain.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum ChainDescription {
    /// Each stage is larger than the one before.
    Grows {
        /// The kind of the stages.
        stage_kind: Kind,
        /// The keys of the first stage.
        first: u64,
        /// How much larger each stage is than the one before.
        growth: f64,
        /// How the rate is shared out.
        tightening: Tightening,
    },
    /// Generations of one size, oldest first, of which the oldest goes when its time has passed.
    Rotates {
        /// How long a key is kept at least.
        window: Duration,
        /// Generations of a window; one more is in the ring.
        generations: u32,
        /// For how long the youngest has been filled.
        elapsed: Duration,
        /// The clock when it was last read, since whatever beginning the program chose.
        clock: Option<Duration>,
    },
}

fn describe_chain(rule: &Rule) -> ChainDescription {
    match rule {
        Rule::Scalable(growth) => ChainDescription::Grows {
            stage_kind: growth.stages,
            first: growth.first,
            growth: growth.factor,
            tightening: growth.tightening,
        },
        Rule::GrowingCuckoo(growth) => ChainDescription::Grows {
            stage_kind: Kind::Cuckoo,
            first: growth.first,
            growth: growth.factor,
            tightening: growth.tightening,
        },
        Rule::Rotating(rule, state) => ChainDescription::Rotates {
            window: Duration::from_nanos(rule.window_ns()),
            generations: rule.generations(),
            elapsed: Duration::from_nanos(state.elapsed_ns),
            clock: state.clock_ns.map(Duration::from_nanos),
        },
    }
}

/// One payload and what it was made for.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct PartDescription {
    /// 0 for the filter itself, from 1 for the stages of a chain.
    pub part: u16,
    /// Its shape.
    pub dimensions: Dimensions,
    /// Its keys.
    pub capacity: u64,
    /// Its share of the rate.
    pub rate: f64,
    /// Keys that are in it.
    pub len: u64,
    /// The exact expected rate with so many keys.
    pub expected_rate: f64,
    /// Its memory once it is loaded, in bytes.
    pub size_in_bytes: u64,
    /// Its bytes in the file.
    pub stored_bytes: u64,
    /// How it is stored.
    pub codec: Codec,
}

/// The shape of one payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dimensions {
    /// k bits anywhere in one array.
    Classic {
        /// The bits of the array.
        bits: u64,
        /// The bits of a key.
        hashes: u32,
    },
    /// All bits of a key in one line, or in each of a few.
    Blocked {
        /// Lines of 64 bytes.
        lines: u64,
        /// Lines that a key sets bits in.
        lines_per_key: u32,
        /// Whether lanes choose their halves in pairs.
        paired: bool,
    },
    /// One bit in each slice.
    Partitioned {
        /// The bits of a slice.
        slice_bits: u64,
        /// The slices.
        hashes: u32,
    },
    /// A counter for each bit of a paired blocked filter.
    Counting {
        /// Lines of the plain filter.
        lines: u64,
        /// Lines that a key counts in.
        lines_per_key: u32,
        /// The width of a counter.
        counter_bits: CounterBits,
    },
    /// Cells of two bits that decay.
    Stable {
        /// Lines of 256 cells.
        lines: u64,
        /// Lines that a key sets cells in.
        lines_per_key: u32,
        /// Insertions in which every cell is lowered once.
        round: u64,
    },
    /// Fingerprints in buckets of four.
    Cuckoo {
        /// Buckets.
        buckets: u64,
        /// The bits of a fingerprint.
        fingerprint_bits: u32,
    },
    /// Remainders in slots.
    Quotient {
        /// Home slots.
        slots: u64,
        /// Fingerprints that share a home slot.
        interval: u64,
        /// The bits of a remainder.
        remainder_bits: u32,
    },
    /// Cells of which three xor to a key's fingerprint.
    Fuse {
        /// Cells.
        cells: u64,
        /// The bits of a cell.
        fingerprint_bits: u32,
        /// Tables side by side.
        shards: u64,
    },
    /// Columns of a system of equations.
    Ribbon {
        /// Columns of all layers.
        columns: u64,
        /// Layers.
        layers: u32,
        /// The bits of a column.
        result_bits: u32,
    },
    /// A foreign form: its bits or slots, in its own order.
    Foreign {
        /// The words that hold them.
        words: u64,
    },
}

impl fmt::Display for Dimensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Classic { bits, hashes } => write!(f, "{bits} bits, {hashes} hashes"),
            Self::Blocked { lines, lines_per_key, paired } => {
                let paired = if *paired { ", paired" } else { "" };
                write!(f, "{lines} lines of 512 bits, {lines_per_key} per key{paired}")
            }
            Self::Partitioned { slice_bits, hashes } => write!(f, "{hashes} slices of {slice_bits} bits"),
            Self::Counting { lines, lines_per_key, counter_bits } => {
                write!(f, "{lines} lines of 512 counters of {} bits, {lines_per_key} per key", counter_bits.bits())
            }
            Self::Stable { lines, lines_per_key, round } => {
                write!(f, "{lines} lines of 256 cells, {lines_per_key} per key, lowered once in {round} insertions")
            }
            Self::Cuckoo { buckets, fingerprint_bits } => {
                write!(f, "{buckets} buckets of 4 fingerprints of {fingerprint_bits} bits")
            }
            Self::Quotient { slots, interval, remainder_bits } => {
                write!(f, "{slots} slots of {interval} fingerprints, remainders of {remainder_bits} bits")
            }
            Self::Fuse { cells, fingerprint_bits, shards } => {
                write!(f, "{cells} cells of {fingerprint_bits} bits in {shards} tables")
            }
            Self::Ribbon { columns, layers, result_bits } => {
                write!(f, "{columns} columns of {result_bits} bits in {layers} layers")
            }
            Self::Foreign { words } => write!(f, "{words} words in its own order"),
        }
    }
}

/// One section of the file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SectionDescription {
    /// Its entry in the section table: type, part, offset, length.
    pub section: Section,
    /// What its checksums say, if not that it is intact.
    pub damage: Option<String>,
}

impl Description {
    /// Whether every checksum is right.
    #[must_use]
    pub fn is_intact(&self) -> bool {
        self.sections.iter().all(|section| section.damage.is_none())
    }
}

/// Describes a file, reading all of it once. Needs no secret.
///
/// Damage to header, section table or small sections is an error, since nothing in the file can be believed then;
/// damage to the bits is in the description.
pub fn inspect(path: impl AsRef<Path>) -> Result<Description> {
    let path = path.as_ref();
    let (file, length) = plain_file(path)?;
    in_file(path, describe::<File>(file, length))
}

/// [`inspect`] for the bytes of a file.
pub fn inspect_bytes(bytes: &[u8]) -> Result<Description> {
    describe(bytes, bytes.len() as u64)
}

fn describe<R: Read>(reader: R, length: u64) -> Result<Description> {
    // Nothing is loaded, so no payload is too large; one that decodes to more than memory can hold is still described.
    let reader = Addressing::new(BufReader::with_capacity(64 * 1024, reader));
    let file = SectionReader::whole_of(reader, length, Limits::payload(u64::MAX))?;
    let head = file.head().clone();
    let plan = Plan::read(&head)?;
    let contract = read_contract(&head)?;
    let unknown = || Error::new(ErrorKind::Version, "the contract has a hash that this reader does not know");
    let algorithm = Algorithm::from_number(contract.algorithm).ok_or_else(unknown)?;
    let encoding = Encoding::from_wire(&contract.encoding)?;
    let sentinels_agree = match Contract::from_parts(&contract, None) {
        Ok(contract) => match verify_sentinels(&head, &contract) {
            Ok(()) => Some(true),
            Err(refusal) if refusal.kind() == ErrorKind::Contract => Some(false),
            Err(refusal) => return Err(refusal),
        },
        Err(_) => None,
    };
    let parts: Vec<PartDescription> = plan
        .parts()
        .map(|(part, piece)| {
            let stored = head.frame().find(SectionType::PAYLOAD, part);
            PartDescription {
                part,
                dimensions: dimensions(&piece.cells),
                capacity: piece.promise.capacity,
                rate: piece.promise.rate,
                len: piece.len,
                expected_rate: expected_rate(&piece.cells, piece.len),
                size_in_bytes: piece.cells.words() * 8,
                stored_bytes: stored.map_or(0, |section| section.length),
                codec: stored.and_then(|section| Codec::from_number(section.codec)).unwrap_or(Codec::Raw),
            }
        })
        .collect();
    let (damaged, reader) = file.survey()?;
    let sections = head.frame().sections().iter().map(|section| {
        let damage = damaged.iter().find(|(bad, _)| bad == section).map(|(_, what)| what.to_string());
        SectionDescription { section: *section, damage }
    });
    let Promise { rate, when_full, .. } = plan.promise()?;
    Ok(Description {
        kind: plan.kind(),
        format_version: head.frame().version(),
        file_len: length,
        address: reader.address(),
        algorithm,
        encoding,
        seed: contract.seed,
        secret: contract.secret.map(|(id, _)| id),
        sentinels_agree,
        capacity: match plan.chain {
            // A ring is made for the keys of its window; one generation more is in it.
            Some(Chain { rule: Rule::Rotating(..), promise }) => promise.capacity,
            _ => parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.capacity)),
        },
        rate,
        when_full,
        len: parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.len)),
        expected_rate: match &parts[..] {
            [one] => one.expected_rate,
            _ => chain_rate(parts.iter().map(|part| part.expected_rate)),
        },
        size_in_bytes: parts.iter().map(|part| part.size_in_bytes).sum(),
        compressed: parts.iter().any(|part| part.codec != Codec::Raw),
        chain: plan.chain.map(|chain| describe_chain(&chain.rule)),
        sections: sections.collect(),
        parts,
    })
}

fn dimensions(cells: &Cells) -> Dimensions {
    match cells {
        Cells::Bits(AnyLayout::Classic(layout)) => Dimensions::Classic { bits: layout.bits(), hashes: layout.hashes() },
        Cells::Bits(AnyLayout::Blocked(layout)) => Dimensions::Blocked {
            lines: layout.lines(),
            lines_per_key: layout.lines_per_key(),
            paired: layout.paired(),
        },
        Cells::Bits(AnyLayout::Partitioned(layout)) => {
            Dimensions::Partitioned { slice_bits: layout.slice_bits(), hashes: layout.hashes() }
        }
        Cells::Counters(layout, width) => {
            Dimensions::Counting { lines: layout.lines(), lines_per_key: layout.lines_per_key(), counter_bits: *width }
        }
        Cells::Stable(shape) => {
            Dimensions::Stable { lines: shape.lines(), lines_per_key: shape.lines_per_key(), round: shape.round() }
        }
        Cells::Cuckoo(shape) => {
            Dimensions::Cuckoo { buckets: shape.buckets(), fingerprint_bits: shape.fingerprint_bits() }
        }
        Cells::Quotient(shape) => Dimensions::Quotient {
            slots: shape.slots(),
            interval: shape.interval(),
            remainder_bits: shape.remainder_bits(),
        },
        Cells::Fuse(shape) => Dimensions::Fuse {
            cells: shape.cells(),
            fingerprint_bits: shape.fingerprint_bits(),
            shards: shape.shards(),
        },
        Cells::Ribbon(shape) => Dimensions::Ribbon {
            columns: shape.columns().iter().sum(),
            layers: shape.columns().len() as u32,
            result_bits: shape.result_bits(),
        },
        Cells::Foreign(_) => Dimensions::Foreign { words: cells.words() },
    }
}

fn expected_rate(cells: &Cells, len: u64) -> f64 {
    /// A plain filter counts keys told to be new, and holds a few more; a counting one counts every insert.
    fn after<L: Layout>(layout: &L, len: u64) -> f64 {
        layout.expected_rate(different_keys(len, |items| layout.expected_rate(items)))
    }
    match cells {
        Cells::Bits(AnyLayout::Classic(layout)) => after(layout, len),
        Cells::Bits(AnyLayout::Blocked(layout)) => after(layout, len),
        Cells::Bits(AnyLayout::Partitioned(layout)) => after(layout, len),
        // These count every key that is in.
        _ => cells.kept(len),
    }
}
