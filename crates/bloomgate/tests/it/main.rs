//! The integration tests: what the library promises to those who only see its public face.

mod golden_digests;
