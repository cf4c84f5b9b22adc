//! The layout of a 512-bit line, measured before it is frozen: 8 words x 1 bit against 4 words x 2 bits.
//!
//! Both take one 64-bit hash: the line from its high bits (multiply-shift), the places inside the line from its low
//! 32 bits times odd constants. `8x1` sets one bit in each of the eight words. `4x2` sets two bits in each of four
//! words, word `i` or `i + 4` by one more bit of the product. A lone thread does not mind; a shared filter pays one
//! locked instruction per word, which is what this experiment is about.

#[cfg(target_arch = "x86_64")]
mod experiment;
#[cfg(target_arch = "x86_64")]
mod layout;
#[cfg(target_arch = "x86_64")]
mod table;

#[cfg(target_arch = "x86_64")]
pub use experiment::run;

/// `scripts/bench lines` where there is no AVX2 to measure with.
#[cfg(not(target_arch = "x86_64"))]
pub fn run(_: &mut crate::args::Args) -> Result<(), crate::args::Fault> {
    Err(crate::args::Fault("the layout experiment needs an x86-64 processor with AVX2".to_string()))
}
