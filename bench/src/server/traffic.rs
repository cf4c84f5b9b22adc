//! What the load generator sends: a pipeline built once, whose items are stamped anew before each send.
//!
//! Items are twelve decimal digits, so nothing but the digits moves: a stamp costs 2 to 3 ns an item, less than fetching
//! an item of a pool from memory, and there is no pool that a long run could wear out: what should be new stays new.

use super::wire;
use crate::args::Fault;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Digits of an item.
pub const DIGITS: usize = 12;
/// Items of a BF.MADD or BF.MEXISTS.
pub const MANY: usize = 100;
/// What redis-server keeps under each key.
const VALUE: &str = "xxx";

/// Where the items come from.
#[derive(Clone, Debug)]
pub enum Items {
    /// Any of the first `range` items, evenly.
    Random(u64),
    /// Each item once, in order, up to an end; shared by all threads and, cloned, by all rounds.
    Next(Arc<AtomicU64>, u64),
}

impl Items {
    /// Items from `start` on that nobody sent before, without end.
    pub fn new_from(start: u64) -> Self {
        Self::Next(Arc::new(AtomicU64::new(start)), u64::MAX)
    }

    /// The items from `start` to `end`, each once.
    pub fn span(start: u64, end: u64) -> Self {
        Self::Next(Arc::new(AtomicU64::new(start)), end)
    }
}

/// How the end of a reply is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// All replies have one length.
    Bytes {
        /// Bytes of the reply of one command.
        length: usize,
        /// Whether it begins with `*100`, whose 1 is no answer.
        array: bool,
    },
    /// Read by the rules of RESP2; a little dearer.
    Any,
}

/// One word of a command.
pub enum Word {
    /// As it stands.
    Text(String),
    /// An item, stamped before each send.
    Item,
}

/// A pipeline of one command, ready to be stamped and sent.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The bytes, with zeros for items.
    pub template: Vec<u8>,
    slots: Vec<usize>,
    items: Items,
    /// Commands in it.
    pub commands: usize,
    /// How its replies end.
    pub reply: Reply,
}

impl Traffic {
    /// `pipeline` times the command `words`.
    pub fn new(words: &[Word], pipeline: usize, items: Items, reply: Reply) -> Self {
        let (mut template, mut slots) = (Vec::new(), Vec::new());
        for _ in 0..pipeline {
            let start = template.len();
            let blank = [b'0'; DIGITS];
            wire::command(
                &mut template,
                words.iter().map(|word| match word {
                    Word::Text(text) => text.as_bytes(),
                    Word::Item => &blank[..],
                }),
            );
            // The places of the items, by walking over what was just written.
            let mut at = start + format!("*{}\r\n", words.len()).len();
            for word in words {
                let length = if let Word::Text(text) = word { text.len() } else { DIGITS };
                at += format!("${length}\r\n").len();
                if matches!(word, Word::Item) {
                    slots.push(at);
                }
                at += length + 2;
            }
        }
        Self { template, slots, items, commands: pipeline, reply }
    }

    /// Items in one send; a command without any counts as one.
    pub fn items(&self) -> usize {
        self.slots.len().max(self.commands)
    }

    /// Writes the next items into `buffer`, a copy of the template; false when there are no more.
    pub fn stamp(&self, buffer: &mut [u8], random: &mut Random) -> bool {
        match &self.items {
            Items::Random(range) => {
                for &at in &self.slots {
                    write_digits(&mut buffer[at..at + DIGITS], random.below(*range));
                }
                true
            }
            Items::Next(next, end) => {
                let count = self.slots.len() as u64;
                // A turn past the end leaves the counter past it, and all later turns find it there.
                let first = next.fetch_add(count, Ordering::Relaxed);
                if first.saturating_add(count) > *end {
                    return false;
                }
                for (&at, item) in self.slots.iter().zip(first..) {
                    write_digits(&mut buffer[at..at + DIGITS], item);
                }
                true
            }
        }
    }
}

/// A small generator with a fixed seed (splitmix64 by Sebastiano Vigna).
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `range`, by a multiplication instead of a division.
    pub fn below(&mut self, range: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}

/// Eight decimal digits at once: pairs of pairs in one register (Paul Khuong, "How to print integers really fast").
fn eight_digits(number: u32) -> [u8; 8] {
    let (high, low) = (u64::from(number / 10_000), u64::from(number % 10_000));
    let fours = high | (low << 32);
    let top = ((fours * 10_486) >> 20) & 0x0000_007F_0000_007F;
    let twos = ((fours - 100 * top) << 16) + top;
    let tens = ((twos * 103) >> 10) & 0x000F_000F_000F_000F;
    let ones = tens + ((twos - 10 * tens) << 8);
    (ones + 0x3030_3030_3030_3030).to_le_bytes()
}

fn write_digits(slot: &mut [u8], item: u64) {
    let (high, low) = (item / 100_000_000, item % 100_000_000);
    slot[..4].copy_from_slice(&eight_digits((high % 10_000) as u32)[4..]);
    slot[4..].copy_from_slice(&eight_digits(low as u32));
}

/// Whose commands are spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// BF.* on filters.
    Filters,
    /// GET, SET, MGET and MSET: redis-server in our place, to see what the noise alone does.
    Redis,
}

fn text(word: &str) -> Word {
    Word::Text(word.to_string())
}

fn array_of(element: usize) -> Reply {
    Reply::Bytes { length: format!("*{MANY}\r\n").len() + MANY * element, array: true }
}

const INTEGER: Reply = Reply::Bytes { length: ":0\r\n".len(), array: false };
const STATUS_OK: Reply = Reply::Bytes { length: "+OK\r\n".len(), array: false };
const BULK: usize = "$3\r\n".len() + VALUE.len() + 2;

impl Dialect {
    /// PING, the same in both.
    pub fn ping(self, pipeline: usize) -> Traffic {
        let reply = Reply::Bytes { length: "+PONG\r\n".len(), array: false };
        Traffic::new(&[text("PING")], pipeline, Items::Random(1), reply)
    }

    /// One lookup a command.
    pub fn exists(self, filter: &str, range: u64, pipeline: usize) -> Traffic {
        match self {
            Dialect::Filters => {
                let words = [text("BF.EXISTS"), text(filter), Word::Item];
                Traffic::new(&words, pipeline, Items::Random(range), INTEGER)
            }
            Dialect::Redis => {
                let reply = Reply::Bytes { length: BULK, array: false };
                Traffic::new(&[text("GET"), Word::Item], pipeline, Items::Random(range), reply)
            }
        }
    }

    /// One add a command.
    pub fn add(self, filter: &str, items: Items, pipeline: usize) -> Traffic {
        match self {
            Dialect::Filters => Traffic::new(&[text("BF.ADD"), text(filter), Word::Item], pipeline, items, INTEGER),
            Dialect::Redis => Traffic::new(&[text("SET"), Word::Item, text(VALUE)], pipeline, items, STATUS_OK),
        }
    }

    /// [`MANY`] lookups a command.
    pub fn exists_many(self, filter: &str, range: u64, pipeline: usize) -> Traffic {
        let (mut words, element) = match self {
            Dialect::Filters => (vec![text("BF.MEXISTS"), text(filter)], ":0\r\n".len()),
            Dialect::Redis => (vec![text("MGET")], BULK),
        };
        words.extend((0..MANY).map(|_| Word::Item));
        Traffic::new(&words, pipeline, Items::Random(range), array_of(element))
    }

    /// [`MANY`] adds a command.
    pub fn add_many(self, filter: &str, items: Items, pipeline: usize) -> Traffic {
        match self {
            Dialect::Filters => {
                let mut words = vec![text("BF.MADD"), text(filter)];
                words.extend((0..MANY).map(|_| Word::Item));
                Traffic::new(&words, pipeline, items, array_of(":0\r\n".len()))
            }
            Dialect::Redis => {
                let mut words = vec![text("MSET")];
                words.extend((0..MANY).flat_map(|_| [Word::Item, text(VALUE)]));
                Traffic::new(&words, pipeline, items, STATUS_OK)
            }
        }
    }
}

/// A command written by hand: `BF.MADD f {new x100}`, with one kind of placeholder.
///
/// `{random N}` is one of the first N items, `{new}` or `{new START}` one that was not sent before, and `x100` at the
/// end of either means a hundred of them.
pub fn by_hand(line: &str, pipeline: usize) -> Result<Traffic, Fault> {
    let (mut words, mut items) = (Vec::new(), None::<(String, Items)>);
    for word in wire::words(line) {
        let Some(inside) = word.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) else {
            words.push(Word::Text(word));
            continue;
        };
        let mut parts: Vec<&str> = inside.split_whitespace().collect();
        let times = parts.last().and_then(|last| last.strip_prefix('x')?.parse::<usize>().ok());
        if times.is_some() {
            parts.pop();
        }
        let number = parts.get(1).map(|part| part.replace('_', "").parse::<u64>());
        let source = match (parts.first(), number) {
            (Some(&"random"), Some(Ok(range))) if range > 0 => Items::Random(range),
            (Some(&"new"), None) => Items::new_from(0),
            (Some(&"new"), Some(Ok(start))) => Items::new_from(start),
            _ => {
                return Err(Fault(format!(
                    "{word} is neither {{random N}} nor {{new}} nor {{new START}}, with x100 or without"
                )));
            }
        };
        let said = parts.join(" ");
        match &items {
            Some((before, _)) if *before != said => {
                return Err(Fault(format!("one kind of placeholder a command: {{{before}}} and {{{said}}} are two")));
            }
            Some(_) => {}
            None => items = Some((said, source)),
        }
        words.extend((0..times.unwrap_or(1)).map(|_| Word::Item));
    }
    if words.is_empty() {
        return Err(Fault("--load got no command; try --load 'PING'".to_string()));
    }
    Ok(Traffic::new(&words, pipeline, items.map_or(Items::Random(1), |(_, items)| items), Reply::Any))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_formatter() {
        let mut random = Random(7);
        let edges = [0, 1, 9, 10, 99, 100, 9_999, 10_000, 99_999_999, 100_000_000, 999_999_999_999];
        for item in edges.into_iter().chain((0..100_000).map(|_| random.below(1_000_000_000_000))) {
            let mut slot = [0; DIGITS];
            write_digits(&mut slot, item);
            assert_eq!(std::str::from_utf8(&slot).unwrap(), format!("{item:012}"));
        }
    }

    #[test]
    fn a_stamp_changes_the_items_and_nothing_else() {
        let traffic = Dialect::Filters.add("f", Items::span(41, 45), 2);
        let (mut buffer, mut random) = (traffic.template.clone(), Random(1));
        assert!(traffic.stamp(&mut buffer, &mut random));
        let one = |item: u64| format!("*3\r\n$6\r\nBF.ADD\r\n$1\r\nf\r\n$12\r\n{item:012}\r\n");
        assert_eq!(String::from_utf8(buffer.clone()).unwrap(), one(41) + &one(42));
        assert!(traffic.stamp(&mut buffer, &mut random));
        assert_eq!(String::from_utf8(buffer.clone()).unwrap(), one(43) + &one(44));
        assert!(!traffic.stamp(&mut buffer, &mut random), "the span is used up");
        assert_eq!(traffic.items(), 2);
    }

    #[test]
    fn lengths_of_replies_are_those_of_resp() {
        let many = Dialect::Filters.exists_many("f", 10, 1);
        let reply = format!("*100\r\n{}", ":1\r\n".repeat(100));
        assert_eq!(many.reply, Reply::Bytes { length: reply.len(), array: true });
        assert_eq!(many.items(), 100);
        let got = Dialect::Redis.exists("", 10, 3);
        assert_eq!(got.reply, Reply::Bytes { length: "$3\r\nxxx\r\n".len(), array: false });
        assert_eq!(Dialect::Filters.ping(64).items(), 64);
    }

    #[test]
    fn commands_by_hand_have_one_kind_of_placeholder() {
        let traffic = by_hand("BF.MADD f {new 5 x3}", 1).unwrap();
        let mut buffer = traffic.template.clone();
        assert!(traffic.stamp(&mut buffer, &mut Random(1)));
        let sent = String::from_utf8(buffer).unwrap();
        assert!(sent.starts_with("*5\r\n$7\r\nBF.MADD\r\n$1\r\nf\r\n$12\r\n000000000005\r\n"), "{sent}");
        assert!(sent.ends_with("$12\r\n000000000007\r\n"), "{sent}");
        assert_eq!(by_hand("PING", 16).unwrap().items(), 16);
        for wrong in ["", "GET {random}", "GET {random 0}", "GET {any 5}", "X {new} {random 5}"] {
            assert!(by_hand(wrong, 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn random_items_stay_below_the_range_and_reach_all_of_it() {
        let mut random = Random(3);
        let mut seen = [false; 10];
        for _ in 0..1000 {
            seen[random.below(10) as usize] = true;
        }
        assert_eq!(seen, [true; 10]);
    }
}
