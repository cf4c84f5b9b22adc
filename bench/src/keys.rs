//! The keys every side is given: the same for all, fixed by a seed, members and absent keys disjoint by construction.
//!
//! A key is a bijection of its number: members are made from the numbers 0.., absent keys from 2^40.., so no
//! absent key can be a member however many are drawn.

/// Where the numbers of absent keys begin.
const ABSENT_FROM: u64 = 1 << 40;

/// The seed of every measurement.
const SEED: u64 = 0x0B10_0A6A_7E5E_ED01;

/// The width of the code that ends every text key: 36^13 > 2^64, so it holds any number.
const CODE_WIDTH: usize = 13;

/// What text keys begin with, cut to length: the shape of URLs, stock codes and session names.
const PREFIXES: [&str; 4] = [
    "https://shop.example.org/p/",
    "sku:eu-west:warehouse-12:a:",
    "user/session/2024/web/auth/",
    "cdn.example.net/img/thumbs/",
];

/// The splitmix64 output function: a bijection on 64 bits.
#[inline]
pub fn splitmix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The key made from `number`: distinct for distinct numbers.
#[inline]
pub fn key_of(number: u64) -> u64 {
    splitmix(number ^ SEED)
}

/// The first `n` member keys.
pub fn members(n: usize) -> Vec<u64> {
    (0..n as u64).map(key_of).collect()
}

/// The first `n` keys that are never members.
pub fn absent(n: usize) -> Vec<u64> {
    absent_from(0, n)
}

/// The `n` absent keys from number `from` on.
pub fn absent_from(from: usize, n: usize) -> Vec<u64> {
    (from as u64..(from + n) as u64).map(|i| key_of(ABSENT_FROM + i)).collect()
}

/// Text keys of 16 to 40 bytes, one after the other in one piece of memory, as a parsed file would leave them.
pub struct Texts {
    arena: String,
    ends: Vec<usize>,
}

impl Texts {
    /// The first `n` member texts.
    pub fn members(n: usize) -> Self {
        Self::of(0, n)
    }

    /// The first `n` texts that are never members.
    pub fn absent(n: usize) -> Self {
        Self::of(ABSENT_FROM, n)
    }

    fn of(from: u64, n: usize) -> Self {
        let mut texts = Self { arena: String::with_capacity(n * 28), ends: Vec::with_capacity(n) };
        for number in from..from + n as u64 {
            let key = key_of(number);
            let shape = splitmix(key);
            let prefix = PREFIXES[(shape % PREFIXES.len() as u64) as usize];
            let length = 16 + ((shape >> 32) % 25) as usize;
            texts.arena.push_str(&prefix[..length - CODE_WIDTH]);
            push_code(&mut texts.arena, key);
            texts.ends.push(texts.arena.len());
        }
        texts
    }

    /// The texts one by one.
    pub fn slices(&self) -> Vec<&str> {
        let mut start = 0;
        self.ends.iter().map(|&end| &self.arena[std::mem::replace(&mut start, end)..end]).collect()
    }
}

/// Appends `number` in base 36, always `CODE_WIDTH` characters: the part that makes a text key its own.
fn push_code(arena: &mut String, mut number: u64) {
    let mut code = [b'0'; CODE_WIDTH];
    for digit in code.iter_mut().rev() {
        *digit = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % 36) as usize];
        number /= 36;
    }
    arena.extend(code.iter().map(|&digit| digit as char));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn members_and_absent_numbers_never_meet() {
        let members: HashSet<u64> = members(50_000).into_iter().collect();
        assert_eq!(members.len(), 50_000);
        assert!(absent(50_000).iter().all(|key| !members.contains(key)));
    }

    #[test]
    fn texts_are_distinct_and_sixteen_to_forty_bytes_long() {
        let (inside, outside) = (Texts::members(30_000), Texts::absent(30_000));
        let members: HashSet<&str> = inside.slices().into_iter().collect();
        assert_eq!(members.len(), 30_000);
        let absent = outside.slices();
        assert!(absent.iter().all(|text| !members.contains(text)));
        let lengths: HashSet<usize> = absent.iter().map(|text| text.len()).collect();
        assert_eq!(lengths.iter().min(), Some(&16));
        assert_eq!(lengths.iter().max(), Some(&40));
    }
}
