//! What every filter can tell about itself, whatever its kind and wherever its words are.

use bloomgate::{AnyFilter, Digest, Kind};

/// What every filter can tell about itself, whatever holds its words.
pub trait Facts {
    /// The kind.
    fn kind(&self) -> Kind;
    /// Keys that were new.
    fn len(&self) -> u64;
    /// Whether no key is in.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Keys that keep the rate.
    fn capacity(&self) -> u64;
    /// Memory of the bits.
    fn size_in_bytes(&self) -> u64;
    /// Stages of a chain; 1 otherwise.
    fn stages(&self) -> usize;
    /// The rate asked for.
    fn promised_rate(&self) -> f64;
    /// The rate that the keys in it make.
    fn expected_rate(&self) -> f64;
    /// The rate that the bits make.
    fn estimated_rate(&self) -> Option<f64>;
    /// Share of bits or slots in use.
    fn fill_ratio(&self) -> f64;
    /// Keys, estimated from the bits: low, middle, high.
    fn approximate_count(&self) -> (u64, u64, u64);
    /// What its "no" means.
    fn guarantee(&self) -> bloomgate::Guarantee;
    /// The contract in words, without its secret.
    fn contract_text(&self) -> String;
    /// Copies of a key.
    fn count_of(&self, digest: Digest) -> Option<u64>;
    /// The most copies of a key that can be removed again one by one, for kinds that give copies slots.
    fn max_copies(&self) -> Option<u64>;
}

impl<S: bloomgate::bits::Store> Facts for AnyFilter<S> {
    fn kind(&self) -> Kind {
        self.kind()
    }
    fn len(&self) -> u64 {
        self.len()
    }
    fn capacity(&self) -> u64 {
        self.capacity()
    }
    fn size_in_bytes(&self) -> u64 {
        self.size_in_bytes()
    }
    fn stages(&self) -> usize {
        match self {
            AnyFilter::Scalable(chain) => chain.stages(),
            AnyFilter::GrowingCuckoo(chain) => chain.stages(),
            AnyFilter::RedisBloom(chain) => chain.shape().links().len(),
            AnyFilter::RedisCuckoo(chain) => chain.shape().tables() as usize,
            _ => 1,
        }
    }
    fn promised_rate(&self) -> f64 {
        self.promised_rate()
    }
    fn expected_rate(&self) -> f64 {
        self.expected_rate()
    }
    fn estimated_rate(&self) -> Option<f64> {
        self.estimated_rate().ok()
    }
    fn fill_ratio(&self) -> f64 {
        self.fill_ratio()
    }
    fn approximate_count(&self) -> (u64, u64, u64) {
        let estimate = self.approximate_count();
        let high = estimate.high.unwrap_or(u64::MAX as f64);
        (estimate.low as u64, estimate.value as u64, high as u64)
    }
    fn guarantee(&self) -> bloomgate::Guarantee {
        self.guarantee()
    }
    fn contract_text(&self) -> String {
        self.contract().to_string()
    }
    fn count_of(&self, digest: Digest) -> Option<u64> {
        self.count_of_digest(digest).ok()
    }
    fn max_copies(&self) -> Option<u64> {
        self.max_copies()
    }
}
