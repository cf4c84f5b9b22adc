//! The gate with real parts.

mod caches;
