//! The table of all commands, and the way from bytes to a request.

use crate::arguments::Arguments;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::spec::Spec;
use crate::{bloom, connection, cuckoo, filters, names, server};

const FAMILIES: &[&[Spec]] =
    &[&bloom::SPECS, &cuckoo::SPECS, &filters::SPECS, &names::SPECS, &connection::SPECS, &server::SPECS];

const COUNT: usize = {
    let (mut count, mut family) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

const fn joined<const N: usize>(families: &[&[Spec]]) -> [Spec; N] {
    let mut table = [families[0][0]; N];
    let (mut family, mut filled) = (0, 0);
    while family < families.len() {
        let mut at = 0;
        while at < families[family].len() {
            table[filled] = families[family][at];
            filled += 1;
            at += 1;
        }
        family += 1;
    }
    assert!(filled == N);
    table
}

static COMMANDS: [Spec; COUNT] = joined(FAMILIES);

/// Every command the server knows; subcommands are within their containers.
pub static TABLE: &[Spec] = &COMMANDS;

/// Every command and subcommand in the order of the table, each container before what is in it.
pub fn every_command() -> impl Iterator<Item = &'static Spec> {
    TABLE.iter().flat_map(|spec| std::iter::once(spec).chain(spec.subcommands))
}

/// Where each command of the table stands among [`every_command`].
static NUMBERS: [u16; COUNT] = {
    let mut numbers = [0; COUNT];
    let mut at = 1;
    while at < COUNT {
        numbers[at] = numbers[at - 1] + 1 + COMMANDS[at - 1].subcommands.len() as u16;
        at += 1;
    }
    numbers
};

/// The place of a command among [`every_command`], for counters.
#[must_use]
pub fn number_of(spec: &Spec) -> usize {
    let (container, word) = match spec.name.split_once('|') {
        Some((container, word)) => (container, Some(word)),
        None => (spec.name, None),
    };
    let Some(at) = place(container.as_bytes()) else { return 0 };
    let within = word.and_then(|word| COMMANDS[at].subcommands.iter().position(|sub| sub.word() == word));
    usize::from(NUMBERS[at]) + within.map_or(0, |at| at + 1)
}

/// No name is longer, so that one fits into 128 bits.
const LONGEST: usize = 16;
/// Slots of the index: more than twice the commands, so that a probe or two find a name.
const SLOTS: usize = 512;
/// The index: the place in the table + 1, 0 for none; collisions go to the next slot.
static INDEX: [u8; SLOTS] = index(&joined::<COUNT>(FAMILIES));

const fn index(table: &[Spec; COUNT]) -> [u8; SLOTS] {
    const { assert!(COUNT < 255 && COUNT * 2 < SLOTS) };
    let mut slots = [0u8; SLOTS];
    let mut at = 0;
    while at < COUNT {
        let Some(name) = folded(table[at].name.as_bytes()) else { panic!("a name is longer than 16 bytes") };
        let mut slot = slot_of(name);
        while slots[slot] != 0 {
            slot = (slot + 1) % SLOTS;
        }
        slots[slot] = at as u8 + 1;
        at += 1;
    }
    slots
}

/// A name in lower case as one number; none if it is too long to be one.
#[inline]
const fn folded(name: &[u8]) -> Option<u128> {
    if name.len() > LONGEST {
        return None;
    }
    let mut bytes = [0u8; LONGEST];
    let mut at = 0;
    while at < name.len() {
        bytes[at] = name[at].to_ascii_lowercase();
        at += 1;
    }
    Some(u128::from_le_bytes(bytes))
}

#[inline]
const fn slot_of(name: u128) -> usize {
    // Multiplication by 2^64 over the golden ratio: the top bits depend on every byte of both halves.
    let mixed = (name as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((name >> 64) as u64);
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SLOTS.trailing_zeros())) as usize
}

/// The command of this name, in any case.
#[inline]
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Spec> {
    place(name).map(|at| &COMMANDS[at])
}

/// Where the command of this name stands in the table.
#[inline]
fn place(name: &[u8]) -> Option<usize> {
    let mut slot = slot_of(folded(name)?);
    loop {
        let at = usize::from(INDEX[slot]).checked_sub(1)?;
        if COMMANDS.get(at)?.name.as_bytes().eq_ignore_ascii_case(name) {
            return Some(at);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// The command that words are for, if there is one which takes so many of them: what its parser says of them is another matter.
#[must_use]
pub fn named(args: &[&[u8]]) -> Option<&'static Spec> {
    let spec = args.first().and_then(|name| find(name))?;
    let spec = match args.get(1) {
        Some(word) if !spec.subcommands.is_empty() => spec.subcommand(word)?,
        _ => spec,
    };
    spec.arity.allows(args.len()).then_some(spec)
}

/// The command and its request from the words of one command, the name first.
///
/// # Errors
///
/// The line to answer: no such command or subcommand, a wrong number of arguments, or what its parser says.
#[inline]
pub fn parse<'a>(args: &'a [&'a [u8]]) -> Result<(&'static Spec, Request<'a>), Refusal> {
    let Some(mut spec) = args.first().and_then(|name| find(name)) else { return Err(Refusal::unknown_command(args)) };
    if !spec.subcommands.is_empty() && args.len() > 1 {
        let container = spec;
        match container.subcommand(args[1]) {
            Some(subcommand) => spec = subcommand,
            None if args[1].eq_ignore_ascii_case(b"help") && args.len() == 2 => {
                return Ok((container, Request::Help(container)));
            }
            None => return Err(Refusal::unknown_subcommand(container.name, args[1])),
        }
    }
    if !spec.arity.allows(args.len()) {
        return Err(Refusal::arity(spec.name));
    }
    Ok((spec, (spec.parser)(Arguments::new(spec, args))?))
}
