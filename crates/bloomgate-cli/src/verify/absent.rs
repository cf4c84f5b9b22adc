//! Keys that look like those of a source and are none of them: to measure how often a filter says "maybe" of such.

use bloomgate::Encoding;

/// Random bits that a generated key has at least: among two million, two are equal once in nine million runs.
const LEAST_BITS: f64 = 64.0;
/// The most digits in a row that a key is lengthened to, so that it stays a number of 64 bits.
const MOST_DIGITS: usize = 18;
/// Letters and digits of a key that is taken for a hexadecimal number, at least.
const LEAST_HEXADECIMAL: usize = 16;

/// Makes keys after a few that are given.
pub struct Lookalikes {
    samples: Vec<Vec<u8>>,
    encoding: Encoding,
    state: u64,
}

impl Lookalikes {
    /// Keys like these for a filter of this encoding, always the same for a seed.
    pub fn new(samples: &[&[u8]], encoding: Encoding, seed: u64) -> Self {
        // Some of each region of what was read.
        let step = samples.len().div_ceil(1000).max(1);
        let mut samples: Vec<Vec<u8>> = samples.iter().step_by(step).map(|key| key.to_vec()).collect();
        if samples.is_empty() {
            samples.push(b"key".to_vec());
        }
        Self { samples, encoding, state: seed }
    }

    /// SplitMix64 (Steele, Lea and Flood 2014): every seed is a good one.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// One of these bytes.
    fn one_of(&mut self, bytes: &[u8]) -> u8 {
        bytes[(self.random() % bytes.len() as u64) as usize]
    }

    /// A key. It may be no key of the encoding (a number that is too large): then take the next.
    pub fn next(&mut self) -> Vec<u8> {
        let wide = (u128::from(self.random()) << 64) | u128::from(self.random());
        match self.encoding {
            Encoding::Unsigned => (wide as u64).to_string().into_bytes(),
            Encoding::Signed => (wide as i64).to_string().into_bytes(),
            Encoding::Unsigned128 => wide.to_string().into_bytes(),
            Encoding::Signed128 => (wide as i128).to_string().into_bytes(),
            Encoding::Uuid => format!("{wide:032x}").into_bytes(),
            _ => self.like_a_sample(wide as usize),
        }
    }

    /// A sample with its letters and digits drawn anew: other signs stay, so that paths are paths and text is text.
    fn like_a_sample(&mut self, choice: usize) -> Vec<u8> {
        let mut key = self.samples[choice % self.samples.len()].clone();
        let signs = || key.iter().filter(|byte| byte.is_ascii_alphanumeric());
        // "7 abc" is none, though it could be.
        let hexadecimal = signs().count() >= LEAST_HEXADECIMAL
            && signs().all(u8::is_ascii_hexdigit)
            && key.iter().any(u8::is_ascii_digit)
            && key.iter().any(u8::is_ascii_alphabetic);
        let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let upper = key.iter().any(u8::is_ascii_uppercase);
        let mut bits = 0.0;
        for byte in &mut key {
            let drawn: &[u8] = match *byte {
                b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F' if hexadecimal && upper => b"0123456789ABCDEF",
                b'0'..=b'9' | b'a'..=b'f' if hexadecimal => b"0123456789abcdef",
                b'0'..=b'9' => b"0123456789",
                b'a'..=b'z' => b"abcdefghijklmnopqrstuvwxyz",
                b'A'..=b'Z' => b"ABCDEFGHIJKLMNOPQRSTUVWXYZ",
                _ => continue,
            };
            bits += (drawn.len() as f64).log2();
            *byte = self.one_of(drawn);
        }
        // Short keys are lengthened: of two digits there are only a hundred, and the source may have them all.
        let more = ((LEAST_BITS - bits) / 3.3).ceil().max(0.0) as usize;
        if digits > 0 {
            let more = more.min(MOST_DIGITS.saturating_sub(digits));
            key.extend((0..more).map(|_| self.one_of(b"0123456789")).collect::<Vec<_>>());
        } else {
            key.extend((0..more).map(|_| self.one_of(b"abcdefghijklmnop")).collect::<Vec<_>>());
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_look_like_the_samples_and_are_others() {
        let like = |sample: &str, encoding: Encoding| {
            let mut keys = Lookalikes::new(&[sample.as_bytes()], encoding, 7);
            (0..100).map(|_| String::from_utf8(keys.next()).unwrap()).collect::<Vec<_>>()
        };
        for key in like("https://Example.org/path/1234567?q=ümlaut", Encoding::Bytes) {
            assert_eq!(key.len(), "https://Example.org/path/1234567?q=ümlaut".len());
            assert!(key[5..8] == *"://" && key.contains('ü') && key.as_bytes()[8].is_ascii_uppercase(), "{key}");
        }
        for key in like("5BAA61E4C9B93F3F0682250B6CF8331B7EE68FD8", Encoding::Bytes) {
            assert!(key.len() == 40 && key.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_lowercase()), "{key}");
        }
        let mut short = like("7", Encoding::Bytes);
        assert!(short.iter().all(|key| key.parse::<u64>().is_ok()), "{short:?}");
        short.sort();
        short.dedup();
        assert_eq!(short.len(), 100);
        for (sample, encoding) in [
            ("5", Encoding::Unsigned),
            ("-5", Encoding::Signed),
            ("5", Encoding::Signed128),
            ("67e55044-10b1-426f-9247-bb680e5fe0c8", Encoding::Uuid),
            ("7\tabc", Encoding::tuple(&[Encoding::Unsigned, Encoding::Text]).unwrap()),
            ("abc\t7", Encoding::tuple(&[Encoding::Text, Encoding::Unsigned]).unwrap()),
        ] {
            let keys = like(sample, encoding);
            assert!(keys.iter().all(|key| encoding.parse_text(key, &mut Vec::new()).is_ok()), "{keys:?}");
            assert_eq!(keys, like(sample, encoding), "always the same");
        }
    }
}
