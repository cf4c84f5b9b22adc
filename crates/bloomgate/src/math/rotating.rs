//! The rotating filter: a ring of generations over a window of time, and still one rate over the whole ring.
//!
//! `g` generations cover a window `W`; each is filled for `W/g`, and is cleared when its *last* key is `W` old. By then
//! its first key is `W + W/g` old, and `g + 1` generations are in the ring: one that is filled and `g` that wait. An
//! absent key may be taken for present by each of them, so each keeps `1 - (1 - p)^(1/(g+1))` of the rate `p`.
//!
//! More generations forget more sharply and each holds less, but each needs a lower rate. Bits per key *of a window*,
//! blocked generations, against 10.11 of one filter that never forgets:
//!
//! | generations | kept at most | 1 % | 0.1 % |
//! |---|---|---|---|
//! | 1 | 2 W | 23.3 | 35.9 |
//! | 2 | 1.5 W | 18.9 | 29.0 |
//! | **4** | 1.25 W | 17.4 | 23.5 |
//! | 7 | 1.15 W | 17.3 | 22.6 |
//! | 24 | 1.05 W | 19.5 | 23.1 |

/// The rate of each generation, so that `generations + 1` of them together keep `rate`.
#[must_use]
pub fn generation_rate(rate: f64, generations: u32) -> f64 {
    let rate = super::tame(rate).min(1.0 - f64::EPSILON);
    -((-rate).ln_1p() / (f64::from(generations) + 1.0)).exp_m1()
}

/// The rate of a whole ring of `generations + 1` that keep `each`.
#[must_use]
pub fn ring_rate(each: f64, generations: u32) -> f64 {
    -((-each.clamp(0.0, 1.0)).ln_1p() * (f64::from(generations) + 1.0)).exp_m1()
}

/// The keys of a generation when `items` come in a window, evenly: rounded up.
#[must_use]
pub fn generation_items(items: u64, generations: u32) -> u64 {
    items.div_ceil(u64::from(generations).max(1)).max(1)
}

/// How long a generation is filled: the window over the generations, rounded up, so that a key is never short of it.
#[must_use]
pub fn slice(window: u64, generations: u32) -> u64 {
    window.div_ceil(u64::from(generations).max(1)).max(1)
}

/// Bits per key of a window when there are very many keys, in blocked generations.
#[must_use]
pub fn bits_per_key(rate: f64, generations: u32) -> f64 {
    let g = f64::from(generations.max(1));
    super::blocked::bits_per_key(generation_rate(rate, generations), false) * (g + 1.0) / g
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_keeps_the_rate_and_not_a_lower_one() {
        for g in [1, 2, 4, 7, 24, 64] {
            for rate in [0.5, 0.1, 0.01, 1e-6, 1e-12] {
                let each = generation_rate(rate, g);
                assert!(each < rate);
                assert!((ring_rate(each, g) / rate - 1.0).abs() < 1e-12, "{g} generations at {rate}");
            }
        }
        assert!((generation_rate(0.75, 1) - 0.5).abs() < 1e-15);
    }

    #[test]
    fn hostile_numbers_stay_numbers() {
        for rate in [f64::NAN, -1.0, 0.0, 1.0, f64::INFINITY] {
            for g in [0, 1, u32::MAX] {
                let each = generation_rate(rate, g);
                assert!((0.0..=1.0).contains(&each), "{rate} over {g}: {each}");
                assert!((0.0..=1.0).contains(&ring_rate(each, g)));
            }
        }
        assert_eq!(generation_items(u64::MAX, 0), u64::MAX);
        assert_eq!((generation_items(0, 4), generation_items(9, 4)), (1, 3));
        assert_eq!((slice(0, 0), slice(10, 3), slice(u64::MAX, 1)), (1, 4, u64::MAX));
    }

    /// The table of the module.
    #[test]
    fn golden_bits_per_key() {
        for (g, one_percent, per_mille) in
            [(1, 23.3, 35.9), (2, 18.9, 29.0), (4, 17.4, 23.5), (7, 17.3, 22.6), (24, 19.5, 23.1)]
        {
            let got = (bits_per_key(0.01, g), bits_per_key(1e-3, g));
            assert!((got.0 - one_percent).abs() < 0.06 && (got.1 - per_mille).abs() < 0.06, "{g} generations: {got:?}");
        }
    }
}
