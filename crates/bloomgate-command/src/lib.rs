//! The commands of the Bloomgate server as data.

#![forbid(unsafe_code)]
