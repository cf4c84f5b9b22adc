//! The one HTTP stack of Bloomgate: what the gate's service and the server's HTTP side have in common.
#![forbid(unsafe_code)]
