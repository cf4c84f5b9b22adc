//! What the programs of the recipes share: random numbers with a seed, and figures as the pages show them.

/// Random numbers by SplitMix64: the same seed, the same numbers, on every machine.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to one less than `end`; 0 if that is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(end)) >> 64) as u64
    }

    /// A rank from 0 to 2^bits - 2, as words have them: half as far down the list, twice as common. Whole numbers only,
    /// so that it is the same everywhere.
    pub fn rank(&mut self, bits: u64) -> u64 {
        let first = 1 << self.below(bits).min(62);
        first + self.below(first) - 1
    }
}

/// A word for a number: other numbers have other words.
#[must_use]
pub fn word(mut number: u64) -> String {
    const SYLLABLES: [&str; 20] = [
        "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we", "xi",
        "yo", "zu",
    ];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[(number % 20) as usize]);
        number /= 20;
        if number == 0 {
            return word;
        }
        // Otherwise "ba" would be 0 and also the end of other numbers.
        number -= 1;
    }
}

/// The memory of a `HashMap` with so many entries, in bytes, without what its keys and values point to: one byte and an
/// entry for each bucket, of which seven in eight may be taken and which are a power of two.
#[must_use]
pub fn map_bytes<K, V>(entries: u64) -> u64 {
    if entries == 0 {
        return 0;
    }
    let buckets = (entries * 8).div_ceil(7).next_power_of_two().max(16);
    buckets * (size_of::<(K, V)>() as u64 + 1)
}

/// 1234567 as 1,234,567.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size in bytes with three digits: 2.17 MB.
#[must_use]
pub fn size(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "kB", "MB", "GB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 999.5 {
        let Some(next) = units.next() else { break };
        (value, unit) = (value / 1000.0, next);
    }
    match value {
        _ if unit == "B" => format!("{bytes} B"),
        ..9.995 => format!("{value:.2} {unit}"),
        ..99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// A share in percent with two or three digits: 0.97 %.
#[must_use]
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0 %".into(),
        percent if percent < 9.995 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    }
}

/// Panics unless a page shows these lines, one after the other: what a program prints and what is written are one.
pub fn assert_shown(page: &str, lines: &str) {
    assert!(!lines.trim().is_empty() && page.contains(lines.trim_end()), "the page does not show\n{lines}");
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    #[test]
    fn a_word_belongs_to_one_number() {
        let words: HashSet<String> = (0..200_000).map(word).collect();
        assert_eq!(words.len(), 200_000);
        assert_eq!([word(0), word(19), word(20), word(40)], ["ba", "zu", "baba", "bace"].map(String::from));
    }

    #[test]
    fn ranks_are_within_their_range_and_low_ones_are_common() {
        let mut dice = Dice(1);
        let ranks: Vec<u64> = (0..100_000).map(|_| dice.rank(10)).collect();
        assert!(ranks.iter().all(|&rank| rank < 1_023));
        // Half of the doublings.
        let low = ranks.iter().filter(|&&rank| rank < 31).count();
        assert!((49_000..51_000).contains(&low), "{low}");
        assert_eq!(Dice(1).rank(1), 0);
    }

    #[test]
    fn the_memory_of_a_map_is_that_of_its_buckets() {
        for entries in [100, 28_672, 28_673, 100_000] {
            let mut map = HashMap::new();
            for key in 0..entries {
                map.insert(key, key);
            }
            // A map says how many entries fit: seven in eight buckets.
            assert_eq!(map_bytes::<u64, u64>(entries), map.capacity() as u64 / 7 * 8 * 17, "{entries}");
        }
        assert_eq!(map_bytes::<u64, u64>(0), 0);
    }

    #[test]
    fn figures_are_written_with_their_units() {
        assert_eq!([grouped(7), grouped(1_000), grouped(12_345_678)], ["7", "1,000", "12,345,678"]);
        assert_eq!(
            [size(999), size(21_723_456), size(9_996), size(780_000_000)],
            ["999 B", "21.7 MB", "10.0 kB", "780 MB"]
        );
        assert_eq!(
            [percent(0.0), percent(0.00974), percent(0.1), percent(1.0)],
            ["0 %", "0.97 %", "10.0 %", "100.0 %"]
        );
    }

    #[test]
    #[should_panic(expected = "does not show")]
    fn a_line_that_is_not_on_the_page_is_noticed() {
        assert_shown("| a | 1 |\n", "| a | 2 |\n");
    }
}
