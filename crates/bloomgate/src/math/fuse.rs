//! Sizes of a binary fuse filter: cells, segments and shards from the number of keys, bits of a cell from the rate.
//!
//! A table of 3-wise fuse cells can be solved when it has a tenth to an eighth more cells than keys (Graf & Lemire 2022);
//! the smaller the set, the more. Where exactly the limit lies was measured here, a few hundred tables for each of
//! eighty shapes: what counts are the *starts*, the cells in which a key's first cell can lie (all segments but two).

/// The widest fingerprint.
pub const MAX_WIDTH: u32 = 32;
/// The most cells of a segment.
pub const MAX_SEGMENT: u64 = 1 << 18;
/// The most shards that speed alone asks for. They share one seed, so all must be solved by it, and each fails once in
/// some hundred times.
const MOST_SHARDS: u64 = 16;
/// Keys of a shard, at least: smaller ones would take more than 9.05 bits a key at 8 bits of fingerprint.
const SHARD_KEYS: u64 = 2_000_000;
/// The most keys of a shard: its cells are numbered by 32 bits.
const MOST_SHARD_KEYS: u64 = 1 << 30;

/// The bits of a fingerprint that keeps a rate: the least w with `2^-w` at most the rate (within
/// [`SLACK`](super::SLACK)); more than [`MAX_WIDTH`] if there is none.
///
/// ```
/// use bloomgate::math::fuse::width_for;
/// assert_eq!(width_for(0.01), 7);
/// assert_eq!(width_for(1.0 / 256.0), 8);
/// assert_eq!(width_for(0.0039), 9); // 8 bits have 0.390625 %
/// ```
#[must_use]
pub fn width_for(rate: f64) -> u32 {
    let allowed = super::allowed(rate);
    (1..=MAX_WIDTH).find(|&width| self::rate(width) <= allowed).unwrap_or(MAX_WIDTH + 1)
}

/// The rate of a fingerprint of so many bits: exactly `2^-width`, whatever the number of keys.
#[must_use]
pub fn rate(width: u32) -> f64 {
    (-f64::from(width)).exp2()
}

/// Into how many shards a set of `n` keys is cut. Hangs on the number of keys alone, so that the same set gives the same
/// bytes on every machine.
#[must_use]
pub fn shards_for(n: u64) -> u64 {
    // An even number, to keep two cores busy to the end.
    let wanted = (n / (2 * SHARD_KEYS) * 2).clamp(1, MOST_SHARDS);
    wanted.max(n.div_ceil(MOST_SHARD_KEYS))
}

/// Cells of a segment and number of segments for a table of `n` keys that is likely to be solved; `step` makes it larger
/// by 3 % each, for sets that were not.
#[must_use]
pub fn table_for(n: u64, step: u32) -> (u64, u64) {
    let keys = n.max(1) as f64;
    let best = (keys.ln() / 3.33f64.ln() + 2.25).floor() as u32;
    let room = keys * 1.03f64.powi(step as i32);
    // Of two lengths of segment the one with fewer cells in all: just behind a step of the formula the longer one leaves
    // too few segments, and rounding costs up to 7 % (which is what makes n = 11,480 to 11,521 fail elsewhere).
    // The shorter one must save something, though: in it two keys meet in all three cells more often.
    let [longer, shorter] = [best, best.saturating_sub(1)].map(|bits| {
        let segment = 1u64 << bits.clamp(2, MAX_SEGMENT.ilog2());
        (segment, (room * starts_per_key(segment) / segment as f64).ceil().max(1.0) as u64 + 2)
    });
    let cells = |(segment, segments): (u64, u64)| segment as f64 * segments as f64;
    if cells(longer) <= 1.002 * cells(shorter) { longer } else { shorter }
}

/// Starts that a key needs: the limit of peeling, and more the shorter the segments are, since the peeling runs along
/// them from both ends and must not stall at a crowded place. Fitted to 0.9 of tables solved: 1.15 at segments of 512
/// cells, 1.119 at 4,096, 1.112 at 8,192.
fn starts_per_key(segment: u64) -> f64 {
    1.0837 + 0.56 / (segment as f64).cbrt()
}

/// The bytes that building a filter of `n` keys takes beside the keys, the filter itself included: 16 a key, 19 for each
/// key of a shard that is being solved, and `1.13 width / 8` a key of the filter. At 7 bits that is 36 bytes a key up to
/// 4 million keys, and 27 at 10 million on two threads.
#[must_use]
pub fn build_bytes(n: u64, width: u32, threads: usize) -> u64 {
    let shards = shards_for(n);
    // Shards differ by a few times the root of their size.
    let share = n as f64 / shards as f64;
    let largest = if shards > 1 { share + 5.0 * share.sqrt() } else { share };
    let (segment, segments) = table_for(largest as u64, 0);
    let cells = segment as f64 * segments as f64;
    let bench = 9.0 * largest + 9.0 * cells + 65_536.0;
    let filter = cells * shards as f64 * f64::from(width) / 8.0 + 16.0;
    (16.0 * n as f64 + bench * (threads as u64).clamp(1, shards) as f64 + filter) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_keep_their_rates_and_no_narrower_one_does() {
        for (asked, width) in [(0.9, 1), (0.5, 1), (0.49, 2), (0.01, 7), (0.001, 10), (1e-6, 20), (2f64.powi(-32), 32)]
        {
            assert_eq!(width_for(asked), width, "{asked}");
            assert!(rate(width) <= asked && (width == 1 || rate(width - 1) > asked));
        }
        assert_eq!(width_for(1e-10), MAX_WIDTH + 1);
        assert_eq!(width_for(f64::NAN), MAX_WIDTH + 1);
    }

    /// A larger step is a larger table, from nothing to the most keys there are, and nothing overflows.
    #[test]
    fn tables_grow_with_their_step() {
        for n in [0, 1, 2, 10, 11_500, 1 << 20, 1 << 30, 1 << 40] {
            let cells = |step| {
                let (segment, segments) = table_for(n, step);
                assert!(segment.is_power_of_two() && (4..=MAX_SEGMENT).contains(&segment) && segments >= 3);
                segment * segments
            };
            assert!(cells(1) >= cells(0) && cells(0) > n && (n < 2 || cells(20) > cells(0)));
            assert!((1..=1024).contains(&shards_for(n)), "{n}");
            assert!(build_bytes(n, 32, 64) >= 16 * n);
        }
    }
}
