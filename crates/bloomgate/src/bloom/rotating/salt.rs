//! One digest per key, another view of it in every generation.
//!
//! Without it a key that one generation takes for present by its line and marks would meet the same line and the same
//! marks in the next: keys that come in every generation would be mistaken for the same strangers for ever. Multiplying
//! by an odd number is one instruction and loses nothing (it has an inverse), and unlike a xor it parts keys that share
//! a line: the line comes from the high bits, which then depend on all bits.

use crate::hash::Digest;

/// An odd number for each generation, as part of the file format: frozen.
///
/// The number of the generation is spread by the golden ratio and a multiply-xorshift round, so that neighbours have
/// nothing in common.
#[inline(always)]
pub(super) fn salt(generation: u64) -> u64 {
    let spread = generation.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (spread ^ (spread >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ (mixed >> 32)) | 1
}

/// The digest as a generation with this salt sees it.
#[inline(always)]
pub(super) fn salted(digest: Digest, salt: u64) -> Digest {
    Digest { lo: digest.lo.wrapping_mul(salt), hi: digest.hi.wrapping_mul(salt.rotate_left(32) | 1) }
}

/// The digest as the generation of this number sees it.
pub(crate) fn salted_for(digest: Digest, generation: u64) -> Digest {
    salted(digest, salt(generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn salts_are_frozen() {
        assert_eq!(
            [salt(0), salt(1), salt(1 << 40)],
            [0x17fb_89ee_9dca_b42b, 0xc99d_164a_ddff_6dc3, 0x9288_dffa_bdae_8b3f]
        );
        let digest = Digest::new(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        let seen = salted(digest, salt(4));
        assert_eq!((seen.lo, seen.hi), (0xec56_fb7b_6231_25ad, 0x964b_cbd0_7397_c810));
    }

    #[test]
    fn every_salt_is_odd_and_different() {
        let salts: std::collections::HashSet<u64> = (0..100_000).map(salt).collect();
        assert_eq!(salts.len(), 100_000);
        assert!(salts.iter().all(|salt| salt % 2 == 1));
    }
}
