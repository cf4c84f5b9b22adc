//! The edge of a monotone condition over whole numbers, found from a good guess.
//!
//! The closed formulas land within a few units of the exact answer, so the search gallops away from the guess with
//! doubling steps and then halves: a handful of evaluations where a plain bisection would need sixty.

/// No answer is searched beyond this; far above 2^60 bits or keys and still free of overflow when doubled.
pub(super) const FAR: u64 = 1 << 62;

/// The least `x >= min` for which `holds` is true, when `holds` is false below some edge and true above it.
///
/// [`FAR`] when it holds nowhere.
pub(super) fn least(guess: u64, min: u64, mut holds: impl FnMut(u64) -> bool) -> u64 {
    let guess = guess.clamp(min, FAR);
    let (mut no, mut yes);
    let mut step = 1u64;
    if holds(guess) {
        yes = guess;
        loop {
            if yes == min {
                return min;
            }
            let next = yes.saturating_sub(step).max(min);
            if !holds(next) {
                no = next;
                break;
            }
            yes = next;
            step = step.saturating_mul(2);
        }
    } else {
        no = guess;
        loop {
            if no >= FAR {
                return FAR;
            }
            let next = no.saturating_add(step).min(FAR);
            if holds(next) {
                yes = next;
                break;
            }
            no = next;
            step = step.saturating_mul(2);
        }
    }
    while yes - no > 1 {
        let middle = no + (yes - no) / 2;
        if holds(middle) {
            yes = middle;
        } else {
            no = middle;
        }
    }
    yes
}

/// The greatest `x` for which `holds` is true, when `holds` is true up to some edge and false above it.
///
/// 0 when it holds nowhere above 0; `u64::MAX` when it holds everywhere.
pub(super) fn greatest(guess: u64, mut holds: impl FnMut(u64) -> bool) -> u64 {
    match least(guess.saturating_add(1), 1, |x| !holds(x)) {
        FAR => u64::MAX,
        edge => edge - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_edge_from_any_guess() {
        for edge in [1u64, 2, 3, 17, 1000, 1 << 40] {
            for guess in [0u64, 1, 2, 16, 18, 999, 5000, 1 << 50, u64::MAX] {
                assert_eq!(least(guess, 1, |x| x >= edge), edge);
                assert_eq!(greatest(guess, |x| x < edge), edge - 1);
            }
        }
        assert_eq!(least(5, 1, |_| false), FAR);
        assert_eq!(greatest(5, |_| true), u64::MAX);
    }

    #[test]
    fn a_good_guess_is_cheap() {
        let mut calls = 0;
        let edge = 1_000_000_000_007u64;
        let found = least(edge + 3, 1, |x| {
            calls += 1;
            x >= edge
        });
        assert_eq!(found, edge);
        assert!(calls <= 8, "{calls} evaluations");
    }
}
