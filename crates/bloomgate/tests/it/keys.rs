//! Keys for the tests: fixed randomness, and the families of structured keys that weak hashes stumble over.

/// SplitMix64 (Steele, Lea, Flood 2014), always from a fixed seed.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform in `0..bound`, short of a bias of bound / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.roll()) * u128::from(bound)) >> 64) as u64
    }
}

/// A bijection of 64-bit numbers: different `i` give different keys.
pub fn mix(i: u64) -> u64 {
    let z = (i ^ (i >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Different keys that look random, numbers `from..from + count` of the stream `stream` (below 2^20).
pub fn scattered(stream: u64, from: u64, count: u64) -> Vec<u64> {
    (from..from + count).map(|i| mix(stream << 44 | i)).collect()
}

/// The numbers of keys that are never inserted, in the same stream.
pub const ABSENT: u64 = 1 << 43;

/// One way to write the number `i` as the bytes of a key.
#[derive(Clone, Copy)]
pub struct Family {
    pub name: &'static str,
    pub write: fn(u64, &mut Vec<u8>),
}

fn decimal(i: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    write!(out, "{i}").unwrap();
}

/// The families of T19. Members and absent keys are neighbours of one another in every family, on purpose.
pub const FAMILIES: [Family; 12] = [
    Family { name: "sequential little-endian", write: |i, out| out.extend(i.to_le_bytes()) },
    Family { name: "big-endian counters", write: |i, out| out.extend(i.to_be_bytes()) },
    Family { name: "multiples of 2^32", write: |i, out| out.extend((i << 32).to_le_bytes()) },
    Family { name: "decimal strings", write: decimal },
    Family {
        name: "URLs",
        write: |i, out| {
            out.extend(b"https://shop.example.org/catalogue/item?id=");
            decimal(i, out);
            out.extend(b"&page=1");
        },
    },
    Family {
        name: "sequential UUIDs",
        write: |i, out| {
            // A time-ordered UUID: 48 bits that count up, the version, and a constant node.
            out.extend(&(0x0190_0000_0000 + i).to_be_bytes()[2..]);
            out.extend([0x70, 0x01, 0x80, 0x02, 3, 4, 5, 6, 7, 8]);
        },
    },
    Family {
        name: "random UUIDs",
        write: |i, out| {
            out.extend(mix(i).to_le_bytes());
            out.extend(mix(i ^ 0x5555_0000_0000_0000).to_le_bytes());
        },
    },
    Family {
        name: "a common prefix of 1,000 bytes",
        write: |i, out| {
            out.resize(1_000, b'/');
            out.extend(i.to_be_bytes());
        },
    },
    Family {
        name: "a common suffix of 100 bytes",
        write: |i, out| {
            out.extend(i.to_le_bytes());
            out.resize(108, b'/');
        },
    },
    Family {
        // The number in base 251, at the end of a key of 3 to 64 bytes whose length it decides.
        name: "all lengths",
        write: |i, out| {
            out.resize(usize::try_from(i % 62).unwrap(), b'x');
            let n = i / 62;
            out.extend([(n % 251) as u8, (n / 251 % 251) as u8, (n / 251 / 251 % 251) as u8]);
            if n >= 251 * 251 * 251 {
                out.push((n / (251 * 251 * 251)) as u8);
            }
        },
    },
    Family {
        // One bit or two among 64 bytes of zero, and a counter in two bytes for the rest.
        name: "few bits in zeros",
        write: |i, out| {
            out.resize(64, 0);
            let (a, b) = ((i % 496) as usize, (i / 496 % 496) as usize);
            out[a / 8] |= 1 << (a % 8);
            out[b / 8] |= 1 << (b % 8);
            out.extend(u16::try_from(i / 496 / 496).unwrap().to_le_bytes());
            // (a, b) and (b, a) are one pattern: the order makes them two keys.
            out.push(u8::from(a < b));
        },
    },
    Family {
        name: "zeros of growing length",
        write: |i, out| {
            out.resize(usize::try_from(i % 1024).unwrap(), 0);
            out.extend(((i / 1024) as u16).to_be_bytes());
            out.push(((i / 1024) >> 16) as u8);
        },
    },
];
