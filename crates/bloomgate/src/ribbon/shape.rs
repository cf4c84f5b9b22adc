//! [`RibbonShape`]: the numbers that fix a ribbon filter's memory, and where each layer lies in it.

use crate::arch::ribbon::{BUCKET, Layer, MAX_LAYERS, Plan, last_salt, layer_salt};
use crate::error::{Error, ErrorKind, Result};
use crate::math::ribbon::{MAX_RESULT_BITS, ROW, rate};

/// The most columns of a layer: a third more than the keys of the largest filter.
const MAX_COLUMNS: u64 = (1 << 40) / 3 * 4;

/// The shape of a ribbon filter: result bits, and the columns of each layer. A filter of no keys has no layers.
///
/// ```text
///  words   [thresholds of layer 0] [of layer 1] ..   one byte for 256 columns, whole words; the last layer has none
///          [columns of layer 0] [of layer 1] ..      64 columns are r words, one for each result bit
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RibbonShape {
    result_bits: u32,
    seed: u64,
    layers: usize,
    /// Zero past the layers.
    columns: [u64; MAX_LAYERS],
}

impl RibbonShape {
    /// The most layers there can be.
    pub const MAX_LAYERS: usize = MAX_LAYERS;

    /// The shape with so many result bits (1 to 32), this seed of the last layer, and these columns in each layer (up
    /// to 8 layers, whole multiples of 64); no layers for no keys.
    pub fn new(result_bits: u32, seed: u64, columns: &[u64]) -> Result<Self> {
        let refuse = |message: String| Err(Error::new(ErrorKind::InvalidParameter, message));
        if !(1..=MAX_RESULT_BITS).contains(&result_bits) {
            return refuse(format!(
                "a ribbon filter has 1 to {MAX_RESULT_BITS} result bits, not {result_bits}; 7 keep 1 %, 10 keep 0.1 %"
            ));
        }
        if columns.len() > MAX_LAYERS {
            return refuse(format!("a ribbon filter has up to {MAX_LAYERS} layers, not {}", columns.len()));
        }
        if let Some(bad) = columns.iter().find(|&&c| c == 0 || c % ROW != 0 || c > MAX_COLUMNS) {
            return refuse(format!(
                "a layer of a ribbon filter has a multiple of {ROW} columns, from {ROW} to {MAX_COLUMNS}, not {bad}"
            ));
        }
        let mut all = [0; MAX_LAYERS];
        all[..columns.len()].copy_from_slice(columns);
        Ok(Self { result_bits, seed, layers: columns.len(), columns: all })
    }

    /// The bits that a key must match: the rate is `2^-result_bits`.
    #[must_use]
    pub fn result_bits(&self) -> u32 {
        self.result_bits
    }

    /// The seed under which the last layer could be solved.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The columns of each layer.
    #[must_use]
    pub fn columns(&self) -> &[u64] {
        &self.columns[..self.layers]
    }

    /// The `u64` words of all thresholds and columns; one of zero for no keys.
    ///
    /// At most 8 layers of 2^40.5 columns of 32 bits: far below 2^57.
    #[must_use]
    pub fn words(&self) -> u64 {
        let planes = self.columns().iter().map(|&columns| columns / ROW * u64::from(self.result_bits)).sum::<u64>();
        (self.threshold_words() + planes).max(1)
    }

    /// The bits of the last word that are always zero: none of them, unless there is nothing but that word.
    pub(crate) fn spare(&self) -> u64 {
        if self.layers == 0 { u64::MAX } else { 0 }
    }

    /// The expected rate: the same whatever the number of keys, and nothing at all for the filter of no keys.
    #[must_use]
    pub fn expected_rate(&self, _items: u64) -> f64 {
        if self.layers == 0 { 0.0 } else { rate(self.result_bits) }
    }

    fn threshold_words(&self) -> u64 {
        let bumping = self.layers.saturating_sub(1);
        self.columns[..bumping].iter().map(|&columns| bucket_words(columns)).sum()
    }

    /// Where everything is; nothing for no keys.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let last = self.layers.checked_sub(1)?;
        let mut layers = [Layer::default(); MAX_LAYERS];
        let (mut thresholds, mut planes) = (0, self.threshold_words());
        for (at, (layer, &columns)) in layers.iter_mut().zip(self.columns()).enumerate() {
            *layer = Layer {
                starts: starts(columns),
                thresholds: usize::try_from(thresholds).ok()?,
                planes: usize::try_from(planes).ok()?,
                salt: if at == last { last_salt(self.seed) } else { layer_salt(at) },
            };
            thresholds += bucket_words(columns);
            planes += columns / ROW * u64::from(self.result_bits);
        }
        Some(Plan { bits: self.result_bits, layers, last })
    }
}

/// The columns in which a row can start.
pub(super) fn starts(columns: u64) -> u64 {
    columns - (ROW - 1)
}

/// The words of a layer's thresholds.
pub(super) fn bucket_words(columns: u64) -> u64 {
    starts(columns).div_ceil(BUCKET).div_ceil(8)
}
