//! RESP, the protocol of Redis: requests from bytes. Replies are written by `bloomgate_command::write`.

pub mod inline;
pub mod request;

pub use request::{Frame, Limits, ProtocolError, Reader};
