//! Cuckoo filters: fingerprints that move, so that keys can be removed.
