//! The gate on real parts and under interleavings: one binary, a module for each area.

mod interleavings;
mod memory_source;
mod paths;
mod rebuilds;
