//! The bumped ribbon filter: how many result bits a rate needs, how many columns a layer gets, and what building costs.
//!
//! A key that is not in the set is answered "maybe" with a chance of exactly `2^-r`: its `r` expected bits come from
//! bits of the hash that nothing else uses, so that they match what the columns give with that chance, whatever the
//! columns hold.

use super::allowed;

/// The most result bits: rates down to 2.3e-10.
pub const MAX_RESULT_BITS: u32 = 32;

/// The columns that a row of coefficients covers.
pub const ROW: u64 = 64;

/// A layer of at most so many keys is solved whole, with a few columns to spare; one of more keys bumps those that do not
/// fit. Below it, the whole words of another layer cost more than the spare columns of this one.
pub const WHOLE_UP_TO: u64 = 1024;

/// Columns per 1,000 keys of a layer that bumps. Fewer are filled more surely, and send more keys to the next layer: 940
/// make the whole 0.04 % smaller and the second layer half as large again; 980 make it 0.2 % larger.
const BUMPED_PER_MILLE: u64 = 960;

/// The fewest result bits whose rate is at most `rate`; nothing if that takes more than [`MAX_RESULT_BITS`].
#[must_use]
pub fn result_bits(rate: f64) -> Option<u32> {
    let limit = allowed(rate);
    (1..=MAX_RESULT_BITS).find(|&bits| self::rate(bits) <= limit)
}

/// The rate of `bits` result bits: exact, for every set but the empty one.
#[must_use]
pub fn rate(bits: u32) -> f64 {
    (-f64::from(bits)).exp2()
}

/// The columns of a layer of `keys` that bumps what does not fit.
#[must_use]
pub fn bumped_columns(keys: u64) -> u64 {
    let columns = u128::from(keys) * u128::from(BUMPED_PER_MILLE) / 1000;
    whole_words(u64::try_from(columns).unwrap_or(u64::MAX))
}

/// The columns of the last layer, which must take all its `keys`, when it was refused under `failures` seeds before.
///
/// A band of 64 over `keys` columns needs a few spare ones. One key in sixty and the rest of the last word are enough for
/// a thousand; every eight seeds that failed add a sixteenth and a row.
#[must_use]
pub fn whole_columns(keys: u64, failures: u32) -> u64 {
    let spare = keys / 64 + 2;
    let columns = keys.saturating_add(spare);
    let more = (columns / 16).saturating_add(ROW).saturating_mul(u64::from(failures / 8));
    whole_words(columns.saturating_add(more))
}

/// So many columns as whole words, at least one row of them.
fn whole_words(columns: u64) -> u64 {
    columns.max(ROW).checked_next_multiple_of(ROW).unwrap_or(u64::MAX - (ROW - 1))
}

/// The most memory that building takes, in bytes: a row of 16 bytes a key, another for every twelfth key that may have
/// to go on, and the columns; or, while rows are gathered whose number was not known, three rows a key. And what does not
/// depend on the keys.
#[must_use]
pub fn build_bytes(keys: u64, bits: u32, number_known: bool) -> u64 {
    let columns = (keys / 8).saturating_mul(u64::from(bits.min(MAX_RESULT_BITS)));
    let bytes = if number_known { keys.saturating_mul(18).saturating_add(columns) } else { keys.saturating_mul(48) };
    bytes.saturating_add(128 * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_bits_that_keep_a_rate() {
        for (rate, bits) in [(0.5, 1), (0.4999, 2), (0.01, 7), (0.0078125, 7), (0.0078, 8), (0.001, 10), (2.4e-10, 32)]
        {
            assert_eq!(result_bits(rate), Some(bits), "{rate}");
        }
        assert_eq!(result_bits(0.999), Some(1));
        for rate in [2.3e-10, 1e-15, 0.0, f64::NAN] {
            assert_eq!(result_bits(rate), None, "{rate}");
        }
        assert_eq!(rate(7), 1.0 / 128.0);
    }

    #[test]
    fn columns_are_whole_words_and_never_overflow() {
        for keys in [0, 1, 2, 63, 64, 65, 1000, 1024, 1025, 1 << 20, 1 << 40, u64::MAX / 16, u64::MAX] {
            for columns in [bumped_columns(keys), whole_columns(keys, 0), whole_columns(keys, 63)] {
                assert!(columns >= ROW && columns.is_multiple_of(ROW), "{keys}: {columns}");
            }
            assert!(whole_columns(keys, 8) > whole_columns(keys, 0) || keys > 1 << 60, "{keys}");
            assert!(build_bytes(keys, 32, true) <= build_bytes(keys, 32, false));
        }
        assert_eq!(whole_columns(1, 0), 64);
        assert_eq!(bumped_columns(1_000_000), 960_000);
        assert_eq!(build_bytes(1_000_000, 8, true), 19_000_000 + 131_072);
        assert_eq!(build_bytes(u64::MAX, 8, false), u64::MAX);
    }
}
