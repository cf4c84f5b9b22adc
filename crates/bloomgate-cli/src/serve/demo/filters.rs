//! The filters of the demo, one of each sort that a page has something to say about, and what clients do with each.

use super::talk::Command;
use crate::random::Random;
use crate::zipf::Zipf;

/// Keys in one command while filters are filled: few enough not to fill the slow log.
const PIECE: u64 = 200;
/// Absent keys that clients ask for again and again, the first most often.
const ABSENT: u64 = 1_000_000;

/// Whose commands a filter is used by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Bf,
    Cf,
    Bg,
}

/// One filter. What is done with it is told in keys a second.
#[derive(Debug)]
pub struct Filter {
    pub name: &'static str,
    /// The words of the command that makes it, behind the name.
    make: (&'static str, &'static str),
    family: Family,
    /// What a key is.
    noun: &'static str,
    /// Keys it begins with.
    first: u64,
    adds: f64,
    removes: f64,
    lookups: f64,
    /// The share of lookups that are for keys that are there.
    known: f64,
}

macro_rules! filters {
    ($($name:literal $verb:literal $words:literal $family:ident $noun:literal
       first $first:literal adds $adds:literal removes $removes:literal lookups $lookups:literal known $known:literal;)+) => {
        /// All of them.
        pub static ALL: &[Filter] = &[$(Filter {
            name: $name,
            make: ($verb, $words),
            family: Family::$family,
            noun: $noun,
            first: $first,
            adds: $adds,
            removes: $removes,
            lookups: $lookups,
            known: $known,
        }),+];
    };
}

filters! {
    // A chain of four layers that grows.
    "users" "BF.RESERVE" "0.001 5000" Bf "user"
        first 60_000 adds 12.0 removes 0.0 lookups 900.0 known 0.2;
    // Full in 2.8 days.
    "crawler:visited" "BG.CREATE" "KIND blocked CAPACITY 300000 RATE 0.01" Bg "url"
        first 60_000 adds 1.0 removes 0.0 lookups 400.0 known 0.1;
    // Full in three hours.
    "coupons:used" "BG.CREATE" "KIND classic CAPACITY 20000 RATE 0.001" Bg "coupon"
        first 14_000 adds 0.5 removes 0.0 lookups 200.0 known 0.3;
    // Full: adds are refused.
    "invites:sent" "BG.CREATE" "KIND classic CAPACITY 500 RATE 0.01" Bg "invite"
        first 500 adds 0.3 removes 0.0 lookups 20.0 known 0.2;
    // Three times what it was made for: an alert.
    "mail:suppressed" "BG.CREATE" "KIND blocked CAPACITY 2000 RATE 0.01 ONFULL goon" Bg "mail"
        first 6_000 adds 0.2 removes 0.0 lookups 150.0 known 0.1;
    // Spares little: nearly everything that is asked for is there.
    "pages:cached" "BG.CREATE" "KIND partitioned CAPACITY 60000 RATE 0.01" Bg "page"
        first 12_000 adds 0.02 removes 0.0 lookups 600.0 known 0.99;
    // Without a secret.
    "ip:denied" "BG.CREATE" "KIND blocked CAPACITY 60000 RATE 0.001 HASH xxh3 SEED 7" Bg "address"
        first 9_000 adds 0.02 removes 0.0 lookups 200.0 known 0.02;
    // Those that forget on request.
    "carts:open" "CF.RESERVE" "20000" Cf "cart"
        first 8_000 adds 10.0 removes 10.0 lookups 300.0 known 0.3;
    "devices:known" "BG.CREATE" "KIND cuckoo CAPACITY 50000 RATE 0.001" Bg "device"
        first 20_000 adds 3.0 removes 3.0 lookups 150.0 known 0.5;
    "sessions:live" "BG.CREATE" "KIND counting CAPACITY 50000 RATE 0.01" Bg "session"
        first 20_000 adds 15.0 removes 15.0 lookups 300.0 known 0.6;
    "tokens:revoked" "BG.CREATE" "KIND quotient CAPACITY 40000 RATE 0.001" Bg "token"
        first 10_000 adds 4.0 removes 4.0 lookups 250.0 known 0.02;
    // And those that forget by themselves.
    "clicks:minute" "BG.CREATE" "KIND rotating CAPACITY 12000 RATE 0.01 WINDOW 60 GENERATIONS 6" Bg "click"
        first 0 adds 80.0 removes 0.0 lookups 200.0 known 0.5;
    "log:lines" "BG.CREATE" "KIND stable CAPACITY 5000 RATE 0.01" Bg "line"
        first 6_000 adds 60.0 removes 0.0 lookups 100.0 known 0.3;
    // Of two tenants.
    "shop:products" "BF.RESERVE" "0.001 50000 NONSCALING" Bf "sku"
        first 25_000 adds 0.05 removes 0.0 lookups 300.0 known 0.3;
    "shop:wishlists" "BG.CREATE" "KIND scalable CAPACITY 2000 RATE 0.01" Bg "wish"
        first 5_000 adds 3.0 removes 0.0 lookups 100.0 known 0.3;
    "ads:audience" "BG.CREATE" "KIND blocked CAPACITY 400000 RATE 0.02" Bg "cookie"
        first 40_000 adds 0.5 removes 0.0 lookups 300.0 known 0.2;
}

/// The tenants.
pub const NAMESPACES: [&str; 2] = [
    "BG.NAMESPACE SET shop PREFIX shop: MAXMEMORY 64MB MAXFILTERS 100",
    "BG.NAMESPACE SET ads PREFIX ads: MAXMEMORY 32MB ITEMSPERSECOND 20000",
];

impl Filter {
    /// The command that makes it.
    pub fn making(&self) -> Command {
        let (verb, words) = self.make;
        let mut command = vec![verb.to_owned(), self.name.to_owned()];
        command.extend(words.split_whitespace().map(str::to_owned));
        command
    }

    fn command(&self, [bf, cf, bg]: [&str; 3], keys: impl Iterator<Item = String>) -> Command {
        let (verb, items) = match self.family {
            Family::Bf => (bf, false),
            Family::Cf => (cf, cf == "CF.INSERT"),
            Family::Bg => (bg, bg == "BG.REMOVE"),
        };
        let mut command = vec![verb.to_owned(), self.name.to_owned()];
        command.extend(items.then(|| "ITEMS".to_owned()));
        command.extend(keys);
        command
    }

    fn key(&self, number: u64) -> String {
        format!("{}-{number}", self.noun)
    }
}

/// Fractions of keys that are due, until they are whole ones.
#[derive(Debug, Default)]
struct Due(f64);

impl Due {
    fn take(&mut self, more: f64) -> u64 {
        self.0 += more;
        let whole = self.0.floor();
        self.0 -= whole;
        whole as u64
    }
}

/// What clients have done with a filter so far, and do next. Its keys are numbered: those that are there are a stretch.
#[derive(Debug)]
pub struct Stream {
    filter: &'static Filter,
    removed: u64,
    added: u64,
    adds: Due,
    removes: Due,
    lookups: Due,
    absent: Zipf,
}

/// The next commands: those that ask, and those that change.
#[derive(Debug, Default)]
pub struct Step {
    pub asking: Vec<Command>,
    pub changing: Vec<Command>,
}

impl Stream {
    /// A filter that is made and empty.
    pub fn new(filter: &'static Filter) -> Self {
        let absent = Zipf::new(ABSENT, 0.9);
        Self {
            filter,
            removed: 0,
            added: 0,
            adds: Due::default(),
            removes: Due::default(),
            lookups: Due::default(),
            absent,
        }
    }

    /// The commands that fill it, one for each 200 keys.
    pub fn filling(&mut self) -> Vec<Command> {
        let mut commands = Vec::new();
        while self.added < self.filter.first {
            commands.push(self.adding(PIECE.min(self.filter.first - self.added)));
        }
        commands
    }

    fn adding(&mut self, keys: u64) -> Command {
        let from = self.added;
        self.added += keys;
        self.filter
            .command(["BF.MADD", "CF.INSERT", "BG.ADD"], (from..self.added).map(|number| self.filter.key(number)))
    }

    /// What is done in the next seconds; `swing` times as much is asked as on average.
    pub fn step(&mut self, seconds: f64, swing: f64, random: &mut Random) -> Step {
        let filter = self.filter;
        let mut step = Step::default();
        let adds = self.adds.take(filter.adds * seconds);
        if adds > 0 {
            step.changing.push(self.adding(adds));
        }
        let removes = self.removes.take(filter.removes * seconds).min(self.added - self.removed);
        if removes > 0 {
            let from = self.removed;
            self.removed += removes;
            let mut keys = (from..self.removed).map(|number| filter.key(number));
            match filter.family {
                // It takes one key.
                Family::Cf => {
                    step.changing.extend(keys.map(|key| filter.command(["", "CF.DEL", ""], [key].into_iter())))
                }
                _ => step.changing.push(filter.command(["", "", "BG.REMOVE"], keys.by_ref())),
            }
        }
        let lookups = self.lookups.take(filter.lookups * seconds * swing);
        if lookups > 0 {
            let there = self.added - self.removed;
            // What came last is asked for most.
            let popular = Zipf::new(there, 1.0);
            let keys = (0..lookups).map(|_| match there > 0 && random.happens(filter.known) {
                true => filter.key(self.added - 1 - popular.draw(random)),
                false => format!("{}-none-{}", filter.noun, self.absent.draw(random)),
            });
            step.asking.push(filter.command(["BF.MEXISTS", "CF.MEXISTS", "BG.EXISTS"], keys));
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_name_and_noun_is_there_once() {
        let names: HashSet<&str> = ALL.iter().map(|filter| filter.name).collect();
        let nouns: HashSet<&str> = ALL.iter().map(|filter| filter.noun).collect();
        assert_eq!((names.len(), nouns.len()), (ALL.len(), ALL.len()));
        let lookups: f64 = ALL.iter().map(|filter| filter.lookups).sum();
        assert!((1_000.0..6_000.0).contains(&lookups), "{lookups} a second are no small load");
    }

    #[test]
    fn what_is_removed_was_added_and_what_is_known_is_there() {
        for filter in ALL {
            let (mut stream, mut random) = (Stream::new(filter), Random::of_worker(1, 2));
            let mut there: HashSet<String> = HashSet::new();
            let keys = |command: &Command| {
                let from = if command[2] == "ITEMS" { 3 } else { 2 };
                command[from..].to_vec()
            };
            stream.filling().iter().for_each(|command| there.extend(keys(command)));
            assert_eq!(there.len() as u64, filter.first, "{}", filter.name);
            let (mut asked, mut known, mut added) = (0, 0, 0);
            for tick in 0..600 {
                let step = stream.step(0.1, 1.0 + (tick % 2) as f64, &mut random);
                for command in &step.changing {
                    assert_eq!(command[1], filter.name);
                    match command[0].as_str() {
                        "BF.MADD" | "CF.INSERT" | "BG.ADD" => {
                            added += keys(command).len();
                            there.extend(keys(command));
                        }
                        "CF.DEL" | "BG.REMOVE" => {
                            assert!(keys(command).iter().all(|key| there.remove(key)), "{command:?}");
                        }
                        other => panic!("{other}"),
                    }
                }
                for command in &step.asking {
                    asked += keys(command).len();
                    let found = keys(command).iter().filter(|key| there.contains(*key)).count();
                    known += found;
                    let absent = keys(command).iter().filter(|key| key.contains("-none-")).count();
                    assert_eq!(found + absent, keys(command).len(), "each is there or never was: {command:?}");
                }
            }
            // A minute of it, of which every second moment asks twice as much.
            assert!((added as f64 - 60.0 * filter.adds).abs() <= 1.0, "{}: {added}", filter.name);
            assert!((asked as f64 - 90.0 * filter.lookups).abs() <= 1.0, "{}: {asked}", filter.name);
            let share = known as f64 / asked as f64;
            assert!((share - filter.known).abs() < 0.05, "{}: {share}", filter.name);
        }
    }
}
